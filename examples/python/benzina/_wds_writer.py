"""WebDataset's writers of tar shards, by its names. They are members of benzina.wds.

    >>> from benzina import wds
    >>> with wds.ShardWriter("written-%03d.tar", maxcount=2, verbose=0) as shards:
    ...     for number in range(3):
    ...         shards.write({"__key__": "%04d" % number, "cls": number, "json": {"at": [number]}})
    >>> [sample["json"] for sample in wds.WebDataset("written-{000..001}.tar", shardshuffle=False).decode()]
    [{'at': [0]}, {'at': [1]}, {'at': [2]}]

benzina.Writer writes archives, which take the place of shards: they need no pass over all samples to be opened.
"""
from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import re
import tarfile
import time
from functools import partial as bound
from typing import Any, Callable, Dict, Mapping, Optional, Union

from ._decoders import needed
from ._tenbin import encode_buffer
from ._wds_utils import gopen

Encoder = Callable[[Any], Any]
_FORMATS = {"jpg": "JPEG", "jpeg": "JPEG", "img": "PPM", "image": "PPM", "pbm": "PPM", "pgm": "PPM", "ppm": "PPM",
            "tif": "TIFF", "tiff": "TIFF", "png": "PNG", "webp": "WEBP"}


def numpy_dumps(data: Any) -> bytes:
    """The bytes of a .npy file. Arrays of objects are refused: they would be pickles."""
    import numpy
    stream = io.BytesIO()
    numpy.save(stream, data, allow_pickle=False)
    return stream.getvalue()


def torch_dumps(data: Any) -> bytes:
    """The bytes of torch.save."""
    stream = io.BytesIO()
    needed("torch").save(data, stream)
    return stream.getvalue()


def _npz(data: Mapping[str, Any]) -> bytes:
    import numpy
    stream = io.BytesIO()
    numpy.savez_compressed(stream, **data)
    return stream.getvalue()


def _tensors(data: Any) -> bytes:
    import numpy
    return encode_buffer([numpy.asarray(one) for one in (data if isinstance(data, list) else [data])])


def _text(data: Any) -> bytes:
    return str(data).encode("utf-8")


def _picture(extension: str, data: Any) -> bytes:
    """Of a PIL.Image, or an array of H x W or H x W x 3: uint8, or floats of 0..1."""
    import numpy
    PIL = needed("PIL.Image")
    if not isinstance(data, PIL.Image.Image):
        pixels = numpy.asarray(data)
        if pixels.dtype.kind == "f":
            if pixels.size and not (pixels.min() > -0.001 and pixels.max() < 1.001):
                raise ValueError("pixels that are floats are of 0..1, not of %g..%g" % (pixels.min(), pixels.max()))
            pixels = (pixels.clip(0, 1) * 255).astype("uint8")
        if pixels.dtype != numpy.uint8 or not (pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[2] in (1, 3))):
            raise ValueError("pixels are uint8 or floats, H x W or H x W x 3, not %s %s" % (pixels.dtype, pixels.shape))
        data = PIL.Image.fromarray(pixels[:, :, 0] if pixels.ndim == 3 and pixels.shape[2] == 1 else pixels)
    stream = io.BytesIO()
    format = _FORMATS[extension]
    data.save(stream, format, **({"quality": 100} if format == "JPEG" else {}))
    return stream.getvalue()


def _json(data: Any) -> bytes:
    return json.dumps(data).encode("utf-8")


def _encoders() -> Dict[str, Encoder]:
    made: Dict[str, Encoder] = {}
    for extensions, encoder in (
        ("cls cls2 class count index inx id txt text transcript html htm", _text),
        ("json jsn", _json),
        ("pyd pkl pickle", pickle.dumps),
        ("pth", torch_dumps),
        ("npy", numpy_dumps),
        ("npz", _npz),
        ("ten tenbin tb", _tensors),
        ("mp msgpack msg", lambda data: needed("msgpack").packb(data)),
        ("cbor", lambda data: needed("cbor").dumps(data)),
    ):
        made.update(dict.fromkeys(extensions.split(), encoder))
    for extension in _FORMATS:
        made[extension] = bound(_picture, extension)
    return made


default_handlers: Dict[str, Encoder] = _encoders()


def _encoded(name: str, data: Any, handlers: Mapping[str, Encoder]) -> Any:
    """The bytes of a member, by the last extension of its name; text and bytes are what they are."""
    if name.startswith("_"):
        return data
    is_packed = name.endswith(".gz")
    extension = (name[:-3] if is_packed else name).rsplit(".", 1)[-1].lower()
    if isinstance(data, str):
        data = data.encode("utf-8")
    if not isinstance(data, (bytes, bytearray, memoryview)):
        if extension not in handlers:
            raise ValueError("%s: %s: nothing encodes .%s: give bytes, or encoder={%r: a function}" %
                             (name, type(data).__name__, extension, extension))
        try:
            data = handlers[extension](data)
        except Exception as error:
            error.args = ("%s: %s" % (name, error),)
            raise
    return gzip.compress(data) if is_packed else data


def _encoder_of(spec: Union[None, bool, Mapping[str, Encoder], Encoder]) -> Encoder:
    if spec is None or spec is False:
        return dict
    if callable(spec):
        return spec
    if spec is not True and not isinstance(spec, Mapping):
        raise TypeError("encoder: %r is neither True, False, a dict of functions, nor a function" % (spec,))
    handlers = default_handlers if spec is True else spec
    return lambda sample: {name: _encoded(name, data, handlers) for name, data in sample.items()}


def _mode(file: Any, compress: Union[None, bool, str]) -> str:
    name = os.fspath(file) if isinstance(file, (str, os.PathLike)) else ""
    if compress is None:
        compress = next((kind for kind in ("gz", "bz2", "xz") if str(name).endswith(kind)), False)
    if compress not in (True, False, "", "gz", "bz2", "xz"):
        raise ValueError("compress: %r is none of True, False, 'gz', 'bz2', 'xz'" % (compress,))
    return "w|%s" % ("gz" if compress is True else compress or "")


class TarWriter:
    """A tar of samples: dicts of "__key__" and of what its members hold, by extension.

    fileobj       a path, "pipe:COMMAND", "-", or a file that is open
    encoder       True: numbers, text, dicts, arrays and pictures are encoded by the member's extension; False: samples
                  have bytes and text; a function of a sample; a dict of functions by extension
    compress      True, "gz", "bz2", "xz"; None: by the extension of the file
    keep_meta     whether members whose names begin with "_" are written, too
    mtime         of all members, so that the same samples make the same bytes; None: now
    user, group, mode, format
                  of tarfile: the members' owner, their permissions, and "PAX_FORMAT" or another of its names"""

    def __init__(self, fileobj: Any, user: str = "bigdata", group: str = "bigdata", mode: int = 0o444,
                 compress: Union[None, bool, str] = None, encoder: Any = True, keep_meta: bool = False,
                 mtime: Optional[float] = None, format: Any = None) -> None:
        self._encoder, mode_of_tar = _encoder_of(encoder), _mode(fileobj, compress)
        self.user, self.group, self.mode, self.mtime, self.keep_meta = user, group, mode, mtime, keep_meta
        if isinstance(format, str):
            format = getattr(tarfile, format)
        is_own = isinstance(fileobj, (str, os.PathLike)) and fileobj != "-"
        self.stream = gopen(os.fspath(fileobj), "wb") if isinstance(fileobj, (str, os.PathLike)) else fileobj
        self._own = self.stream if is_own else None
        self.tarstream: Any = tarfile.open(fileobj=self.stream, mode=mode_of_tar,   # type: ignore[call-overload]
                                           format=tarfile.DEFAULT_FORMAT if format is None else format)

    def __enter__(self) -> "TarWriter":
        return self

    def __exit__(self, *of_exception: Any) -> None:
        self.close()

    def close(self) -> None:
        if self.tarstream is None:
            return
        try:
            self.tarstream.close()
        finally:
            self.tarstream = None
            if self._own is not None:
                self._own.close()

    def write(self, obj: Mapping[str, Any]) -> int:
        """Writes a sample, and gives the bytes of its members. One that cannot be encoded is an exception, and the tar
        stays as it was."""
        if self.tarstream is None:
            raise ValueError("the writer is closed")
        sample = self._encoder(obj)
        if "__key__" not in sample:
            raise ValueError("__key__: the sample has none, only %s" % ", ".join(map(str, sample)))
        members = []
        for name in sorted(sample):
            if name == "__key__" or (name.startswith("_") and not self.keep_meta):
                continue
            data = sample[name].encode("utf-8") if isinstance(sample[name], str) else sample[name]
            if not isinstance(data, (bytes, bytearray, memoryview)):
                raise ValueError("%s of sample %s: it is %s, not bytes" %
                                 (name, sample["__key__"], type(data).__name__))
            members.append(("%s.%s" % (sample["__key__"], name), bytes(data)))
        for name, data in members:
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), self.mode
            member.mtime = time.time() if self.mtime is None else self.mtime
            member.uname, member.gname = self.user, self.group
            self.tarstream.addfile(member, io.BytesIO(data))
        return sum(len(data) for _, data in members)


class ShardWriter:
    """TarWriters one after the other: "shard-%06d.tar" % 0, 1, ...

    maxcount      samples of a shard
    maxsize       bytes after which a shard ends
    post          a function that is called with the name of each shard when it is complete
    start_shard   the first number
    verbose       1: a line for each shard is printed
    opener        a function that opens a name for writing
    more          as TarWriter takes it"""

    def __init__(self, pattern: str, maxcount: int = 100000, maxsize: float = 3e9,
                 post: Optional[Callable[[str], Any]] = None, start_shard: int = 0, verbose: int = 1,
                 opener: Optional[Callable[[str], Any]] = None, **more: Any) -> None:
        if not re.search(r"(?<!%)(%%)*%[0-9]*d", pattern):
            raise ValueError("pattern: %r names all shards alike: it needs a number, as in shard-%%06d.tar" % pattern)
        self.pattern, self.maxcount, self.maxsize, self.post = pattern, maxcount, maxsize, post
        self.shard, self.verbose, self.opener, self._more = start_shard, verbose, opener, more
        self.count, self.size, self.total = 0, 0, 0
        self.fname: Optional[str] = None
        self.tarstream: Optional[TarWriter] = None
        self.next_stream()

    def next_stream(self) -> None:
        """Ends a shard, and begins the next one."""
        self.finish()
        self.fname = self.pattern % self.shard
        if self.verbose:
            print("# %s: %d samples and %.1f GB before it" % (self.fname, self.total, self.size / 1e9))
        self.tarstream = TarWriter(self.opener(self.fname) if self.opener else self.fname, **self._more)
        self.shard, self.count, self._of_shard = self.shard + 1, 0, 0

    def write(self, obj: Mapping[str, Any]) -> None:
        if self.tarstream is None or self.count >= self.maxcount or self._of_shard >= self.maxsize:
            self.next_stream()
        assert self.tarstream is not None
        written = self.tarstream.write(obj)
        self.count, self.total = self.count + 1, self.total + 1
        self.size, self._of_shard = self.size + written, self._of_shard + written

    def finish(self) -> None:
        """Ends the shard that is being written."""
        if self.tarstream is None:
            return
        self.tarstream.close()
        if self.opener:
            self.tarstream.stream.close()
        self.tarstream = None
        if self.post is not None:
            self.post(self.fname or "")

    close = finish

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(self, *of_exception: Any) -> None:
        self.close()
