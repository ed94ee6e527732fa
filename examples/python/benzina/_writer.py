"""Writer: archives."""
from __future__ import annotations

import array
import collections
import collections.abc
import concurrent.futures
import ctypes
import errno
import io
import itertools
import json
import os
import re
import subprocess
import tempfile
import threading
import time
import weakref
from typing import Any, Callable, Iterable, Literal, Mapping, Optional, Tuple

from . import _arguments as arg
from . import _c, _handles
from ._c import Status, lib, structs
from ._context import Context, _shared_context
from ._dataset import Dataset, Sample
from ._errors import Error, check
from ._tool import tool_path
from ._types import Split


class _Sink:
    """An open binary file for a writer."""

    def __init__(self, file):
        if not (hasattr(file, "seek") and hasattr(file, "write")):
            raise TypeError("path: %s is neither a path nor a binary file" % type(file).__name__)
        self.file = file
        self.failure = None
        file.seek(0)
        if hasattr(file, "truncate"):
            file.truncate()                     # nothing else may follow the archive


@_c.callback("write_at_fn")
def _write_at_thunk(user, offset, src, size):
    sink = _handles.registry.get(user)
    if sink is None:
        return Status.E_STATE.value
    try:
        sink.file.seek(offset)
        if sink.file.write(ctypes.string_at(src, size)) not in (size, None):
            raise OSError(errno.EIO, "the file did not take all of %d bytes" % size)
        return 0
    except BaseException as exception:
        sink.failure = exception
        return Status.E_IO.value


@_c.callback("close_fn")
def _forget_thunk(user):
    _handles.registry.pop(user, None)


# in the order in which they are tried
_CODECS = {"h265": _c.CODEC_H265, "h264": _c.CODEC_H264, "av1": _c.CODEC_AV1, "jpeg": _c.CODEC_JPEG}
_SPLITS = arg.OTHER_CHOICES["split"]


def _tool():
    """The path of the program bzna, which encodes pictures."""
    try:
        return tool_path(True)
    except FileNotFoundError as error:
        raise Error(Status.E_NOT_FOUND, str(error)) from None


class _Encoder:
    """A process of `bzna pack - -o -`, which encodes one picture after the other."""

    _PICTURES = 1000                            # then another one takes its place, since encoders leak memory

    def __init__(self, command):
        self._said = tempfile.TemporaryFile()
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said)
        self._left = self._PICTURES
        self._answer()                          # its first line: what it encodes to

    def _answer(self):
        line = self._process.stdout.readline()
        if not line.endswith(b"\n"):
            raise self._ended()
        return json.loads(line)

    def _ended(self):
        """The error that says how it ended."""
        status = self._process.wait()
        self._said.seek(0)
        said = self._said.read().decode("utf-8", "replace").strip()
        if status == 2:                         # of its command line
            return ValueError(said.split("\n")[0])
        if "this libavcodec has no" in said:    # as that of a wheel
            return Error(Status.E_UNSUPPORTED, re.sub("--codec ([a-z]+)", r'codec="\1"', said))
        return Error(Status.E_DECODE, said or "the decoder or encoder crashed (%s %d)" %
                     (("signal", -status) if status < 0 else ("status", status)))

    def encode(self, path):
        """What pack_stream.c says of the picture, with its "data", and that of its "thumb"."""
        self._left -= 1
        try:
            self._process.stdin.write(path + b"\0")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None
        answer = self._answer()
        if "reason" not in answer:
            for part in filter(None, (answer, answer["thumb"])):
                part["data"] = self._process.stdout.read(part["size"])
                if len(part["data"]) != part["size"]:
                    raise self._ended()
        return answer

    @property
    def is_worn(self):
        return self._left <= 0

    def close(self):
        self._process.kill()                    # it has nothing that could be lost
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass
        self._process.stdout.close()
        self._process.wait()
        self._said.close()


class _Encoders:
    """Processes that encode pictures for several threads, at most jobs of them. One is started when a picture finds
    none idle."""

    def __init__(self, codec, options, jobs):
        self._options = ["--codec=" + codec]
        for name, value in options.items():
            option = "--" + name.replace("_", "-")
            if value is not None and value is not False:
                self._options.append(option if value is True else "%s=%s" % (option, value))
        self._idle, self._places = collections.deque(), threading.BoundedSemaphore(jobs)
        if len(self._options) > 1:              # which may be wrong: said at once
            self._idle.append(self._started())

    def _started(self):
        return _Encoder([_tool(), "pack", "-", "-o", "-", *self._options])

    def encode(self, path):
        with self._places:
            try:
                one = self._idle.pop()
            except IndexError:
                one = self._started()
            try:
                answer = one.encode(path)
            except BaseException:               # it crashed, or is in the middle of an answer
                one.close()
                raise
            if one.is_worn:
                one.close()
            else:
                self._idle.append(one)
        return answer

    def close(self):
        while self._idle:
            self._idle.pop().close()


def _is_pil(image):
    return hasattr(image, "getbands") and hasattr(image, "convert")


def _pixels(image):
    """A picture that is no file, as the bytes of one: PAM, PPM or PGM; None where it is one."""
    if _is_pil(image):
        if image.mode[0] in "IF":               # which PIL would cut off at 255
            raise TypeError("image: a PIL picture of mode %s; 8 bits are needed" % image.mode)
        if "A" in image.getbands() or "transparency" in image.info:
            image = image.convert("RGBA")
            return (
                b"P7\nWIDTH %d\nHEIGHT %d\nDEPTH 4\nMAXVAL 255\nTUPLTYPE RGB_ALPHA\nENDHDR\n" % image.size
                + image.tobytes()
            )
        image = image if image.mode == "L" else image.convert("RGB")
        return b"P%d\n%d %d\n255\n" % (5 if image.mode == "L" else 6, *image.size) + image.tobytes()
    view = memoryview(image)
    if view.ndim == 1:
        return None
    height, width, *channels = view.shape if view.ndim > 1 else (0, 0)
    if view.format != "B" or channels not in ([], [1], [3]) or 0 in view.shape:
        raise TypeError("image: an array of %s, shape %r; uint8 of H x W or H x W x 3 is needed"
                        % (getattr(image, "dtype", view.format), view.shape))
    return b"P%d\n%d %d\n255\n" % (6 if channels == [3] else 5, width, height) + view.tobytes()


def _is_elementary(data):
    """Whether bytes are a coded picture that is no file: start codes of H.264 and H.265, or AV1's first OBU."""
    return data[:3] == b"\0\0\1" or data[:4] == b"\0\0\0\1" or data[:2] == b"\x12\0"


def _field_bytes(name, value):
    """(FIELD_..., bytes) of what a sample has beside its picture."""
    if isinstance(value, str):
        return _c.FIELD_TEXT, value.encode("utf-8", "surrogateescape")
    if isinstance(value, (bytes, bytearray)):
        return _c.FIELD_BYTES, bytes(value)
    if not getattr(value, "shape", ()) and hasattr(value, "__index__"):
        return _c.FIELD_INTEGER, array.array("q", [arg.number(name, value, ctypes.c_int64)]).tobytes()
    numbers = value.tolist() if hasattr(value, "tolist") else value
    numbers = list(_flat(numbers))
    if isinstance(value, collections.abc.Mapping) or not all(hasattr(n, "__float__") for n in numbers):
        raise TypeError("%s: %s is neither a text, bytes, a number nor numbers" % (name, type(value).__name__))
    if any(isinstance(n, int) and abs(n) > 2**24 for n in numbers):
        raise ValueError("%s: vectors are of float32, which does not have every integer above 2**24" % name)
    return _c.FIELD_VECTOR, array.array("f", numbers).tobytes()


def _flat(numbers):
    if isinstance(numbers, str) or not isinstance(numbers, collections.abc.Iterable):
        yield numbers
        return
    for number in numbers:
        yield from _flat(number)


class Writer(_handles.Handled):
    """Writes an archive:

        >>> pixels = benzina.Dataset("train/")[1].image()
        >>> with benzina.Writer("made.bzna", codec="jpeg", classes=["cat", "dog"]) as writer:
        ...     writer.add("train/gray/a.png", target=0)
        ...     writer.add(pixels, target="dog", name="dog", box=(10, 20, 200, 180), caption="a dog")
        >>> made = benzina.Dataset("made.bzna")
        >>> made, made[1].filename, made[1].fields["caption"]
        (<benzina.Dataset: archive, 2 samples>, 'dog', 'a dog')

    At the end of the block the archive is finished, by finish(). After an exception, or close() alone, it is left
    unfinished, and readers refuse it. The same samples give the same bytes.

    path             a path, or a binary file that can seek. An existing file is emptied at once: no open Dataset may be
                     reading it
    codec            the codec of encoded pictures: "h265", "h264", "av1", "jpeg"; "copy" keeps JPEG files as they are,
                     and encodes other pictures as jpeg. Processes of `bzna pack` encode with its defaults: frames of
                     multiples of 512 pixels, thumbnails for larger pictures than 512, and so on. $BENZINA_TOOL names
                     that program; else it is looked for next to this file, in ../../build and in PATH
    classes          the names of the targets 0, 1, ...: Dataset.classes
    jobs             how many pictures are encoded at once; None: as many as there are processors
    queue_bytes      memory for samples that wait for smaller indices, 64 MiB if it is 0; timeout: how many seconds add
                     waits when that is full
    encoder, crf, preset, chroma, lossless, tune_decode, quality, max_edge, max_short_edge, frame, thumb, background
                     as in `bzna pack`: crf=28, frame="exact", lossless=True

    add encodes one picture, and returns when it is written. add_all encodes several at a time; so do threads that call
    add, each sample with its index."""

    __reduce__ = _handles.uncopied("one process writes an archive")
    _gone = "the writer is closed"
    _has_failed = False                         # a write did: nothing can be added any more

    def __init__(
        self,
        path: Any,
        codec: Literal["h265", "h264", "av1", "jpeg", "copy"] = "h265",
        context: Optional[Context] = None,
        *,
        classes: Optional[Iterable[str]] = None,
        jobs: Optional[int] = None,
        queue_bytes: int = 0,
        timeout: float = 60,
        encoder: Optional[str] = None,
        crf: Optional[int] = None,
        preset: Optional[str] = None,
        chroma: Optional[Literal["420", "444"]] = None,
        lossless: bool = False,
        tune_decode: bool = False,
        quality: Optional[int] = None,
        max_edge: Optional[int] = None,
        max_short_edge: Optional[int] = None,
        frame: Optional[str] = None,
        thumb: Any = None,
        background: Optional[str] = None,
    ) -> None:
        _handles.dispose_put_off()
        if codec not in _CODECS and codec != "copy":
            raise ValueError("codec: %r is none of %s" % (codec, ", ".join(map(repr, [*_CODECS, "copy"]))))
        self.codec, self.timeout = codec, arg.number("timeout", timeout, ctypes.c_double, 0)
        self.jobs = (os.cpu_count() or 1) if jobs is None else arg.number("jobs", jobs, ctypes.c_uint32, 1)
        options = dict(
            encoder=encoder,
            crf=crf,
            preset=preset,
            chroma=chroma,
            lossless=lossless,
            tune_decode=tune_decode,
            quality=quality,
            max_edge=max_edge,
            max_short_edge=max_short_edge,
            frame=frame,
            thumb=thumb,
            background=background,
        )
        self._encoders = _Encoders(codec, options, self.jobs)
        weakref.finalize(self, self._encoders.close)
        config = _c.new("writer_config")
        if isinstance(classes, (str, bytes)):
            raise TypeError("classes: a list of names is needed, not one name")
        self.classes = list(classes or ())
        names = (ctypes.c_char_p * len(self.classes))(*[arg.text("classes", name) for name in self.classes])
        config.classes, config.class_count = ctypes.addressof(names) if names else None, len(names)
        arg.put(config, "queue_bytes", queue_bytes)
        context, handle, err = context or _shared_context(), ctypes.c_void_p(), _c.new("error")
        self._sink = None
        if arg.is_path(path):
            check(lib.bzna_writer_open(context.handle, arg.path_bytes(path), config, handle, err), err)
        else:
            self._sink = _Sink(path)
            key = _handles.register(self._sink)
            callbacks = _c.new("sink")
            callbacks.user, callbacks.write_at, callbacks.close = key, _write_at_thunk, _forget_thunk
            status = lib.bzna_writer_open_sink(context.handle, callbacks, config, handle, err)
            if status < 0:
                _handles.registry.pop(key)
            check(status, err, self._sink.failure)
        self._handle = handle.value
        self._close = _handles.owned(self, lib.bzna_writer_close, handle.value)

    def __repr__(self) -> str:
        return "<benzina.Writer: %s>" % ("closed" if self._handle is None else self.codec)

    def add(
        self,
        image: Any,
        target: Any = None,
        name: Optional[str] = None,
        thumb: Any = None,
        split: Optional[Split] = None,
        codec: Optional[str] = None,
        size: Optional[Tuple[int, int]] = None,
        thumb_size: Optional[Tuple[int, int]] = None,
        *,
        index: Optional[int] = None,
        fields: Optional[Mapping[str, Any]] = None,
        **more: Any,
    ) -> None:
        """Adds one sample.

        image            a path of a picture file, its bytes, or a binary file; an array of uint8, H x W or H x W x 3 in
                         RGB; a PIL picture, with its pixels as they are: all these are encoded. A Sample: its frame of
                         H.265, H.264 or AV1 is kept as it is, with its thumbnail; its file (JPEG, PNG) is encoded like
                         other files. Bytes of a frame that depends on no other are kept, too: H.265 or H.264 with start
                         codes (Annex B) and parameter sets, AV1's OBUs
        target           a number, or the name of one of the writer's classes; None and -1: none
        name             None: the last part of a path, else none
        thumb            bytes of a coded picture, or a Sample with one; None: the encoder's, else the picture itself,
                         if its frame is at most 512x512
        split            None, "train", "validation", "test"
        codec            "h265", "h264", "av1", "jpeg": the bytes are a coded picture, and are kept
        size, thumb_size for coded bytes: (width, height) of the picture, which begins in the frame's top left corner;
                         None: all of the frame
        index            the sample's position in the archive, from 0: samples may come in any order, from several
                         threads; None: after all that were added. See skip
        fields, further arguments
                         the sample's other fields, by name: integers, texts, bytes, numbers and arrays of numbers
                         (vectors of float32); None: it has no such field. fields: a dict of fields, for names that are
                         arguments here

        If a sample is refused, an exception is raised, and the archive stays as it was: other samples can be added."""
        self._write(
            self._described(image, target, name, thumb, split, codec, size, thumb_size, fields=fields, **more), index
        )

    def skip(self, index: int) -> None:
        """No sample comes at this index: those behind it move up."""
        self._write((None, None), index)

    def add_all(self, samples: Iterable[Mapping[str, Any]],
                on_error: Optional[Callable[[Mapping[str, Any], Exception], Any]] = None) -> int:
        """Adds samples, dicts of add's arguments, in their order, jobs of them encoded at once:

            writer.add_all({"image": path, "target": target} for path, target in found)

        on_error: a callable (sample, exception) for those that are refused, which are left out; None: the first one
        raises, behind those before it. Returns how many were added."""
        def described(sample):
            return self._described(**{name: value for name, value in sample.items() if name != "index"})
        samples, waiting, count = iter(samples), collections.deque(), 0
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            try:
                while True:
                    for sample in itertools.islice(samples, 4 * self.jobs - len(waiting)):
                        waiting.append((sample, pool.submit(described, sample)))
                    if not waiting:
                        return count
                    sample, future = waiting.popleft()
                    try:
                        self._write(future.result(), sample.get("index"))
                        count += 1
                    except Exception as error:
                        if on_error is None or self._has_failed or self._handle is None:
                            raise
                        on_error(sample, error)
                        if sample.get("index") is not None:
                            self.skip(sample["index"])
            finally:
                for _, future in waiting:
                    future.cancel()

    def _described(
        self,
        image,
        target=None,
        name=None,
        thumb=None,
        split=None,
        codec=None,
        size=None,
        thumb_size=None,
        *,
        fields=None,
        **more,
    ):
        """(structs.writer_sample, what it points to)"""
        _ = self.handle                         # what is closed says so
        sample, kept = _c.new("writer_sample"), []
        if split not in _SPLITS:
            raise ValueError("split: %r is none of %s" % (split, ", ".join(map(repr, _SPLITS))))
        sample.split = _SPLITS[split]
        if isinstance(target, str):
            if target not in self.classes:
                raise ValueError("target: %r is none of the writer's %d classes" % (target, len(self.classes)))
            target = self.classes.index(target)
        if target is not None:
            sample.target = arg.number("target", target, ctypes.c_int64)
            sample.has_target = sample.target != _c.TARGET_NONE
            if not sample.has_target:
                sample.target = 0
        if name is None and isinstance(image, (str, os.PathLike)):
            name = os.path.basename(os.fsdecode(image))
        if name is not None:
            sample.name = arg.text("name", name)
        self._set_fields(sample, {**(fields or {}), **more}, kept)
        picture, small = self._pictures(image, codec, size, name, kept)
        if thumb is not None:
            small, buffer = _coded("thumb", thumb, codec, thumb_size, "bzna_thumb")
            kept.append(buffer)
        sample.image, sample.thumb = ctypes.addressof(picture), small and ctypes.addressof(small)
        kept += [picture, small]
        return sample, kept

    @staticmethod
    def _set_fields(sample, fields, kept):
        values = (structs.field_value * len(fields))()
        for value, (name, given) in zip(values, ((n, v) for n, v in fields.items() if v is not None)):
            name = arg.text("fields", name)
            kind, data = _field_bytes(os.fsdecode(name), given)
            lib.bzna_field_value_init(value, ctypes.sizeof(value))
            value.kind, value.name, value.data, value.size = (
                kind,
                name,
                ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p),
                len(data),
            )
            kept.append(data)
            sample.field_count += 1
        sample.fields = ctypes.addressof(values) if sample.field_count else None
        kept.append(values)

    def _pictures(self, image, codec, size, name, kept):
        """(structs.image, that of a thumbnail or None), coded already or by an encoder."""
        if isinstance(image, Sample):
            picture, buffer = image._coded()
            if picture.codec in (_c.CODEC_H264, _c.CODEC_H265, _c.CODEC_AV1) or (picture.codec, self.codec) == (
                _c.CODEC_JPEG,
                "copy",
            ):
                small, buffer_too = _thumbnail(image, picture, buffer)
                kept += [buffer, buffer_too]
                return picture, small
            image = image._dataset._field_value(image.index, "image") if _is_file(picture.codec) else image.image()
        if isinstance(image, (str, os.PathLike)):
            return self._encoded(os.path.abspath(os.fsencode(image)), os.fsdecode(image), kept)
        if hasattr(image, "read") and not _is_pil(image):
            image = image.read()
        try:
            file = _pixels(image)
        except TypeError as error:
            if str(error).startswith("image: "):
                raise
            raise TypeError(
                "image: %s is neither a path, a Sample, bytes, an array nor a PIL picture" % type(image).__name__
            ) from None
        if file is None:
            data = bytes(memoryview(image))
            if codec is not None or _is_elementary(data):
                picture, buffer = _coded("image", data, codec, size)
                kept.append(buffer)
                return picture, None
            if not data:
                raise ValueError("image: there are no bytes")
        with tempfile.NamedTemporaryFile(suffix=".pam" if file else os.path.splitext(name or "")[1]) as holder:
            holder.write(file or data)
            holder.flush()
            return self._encoded(os.fsencode(holder.name), name or "image", kept)

    def _encoded(self, path, what, kept):
        answer = self._encoders.encode(path)
        if "reason" in answer:
            raise Error(Status.E_DECODE, "%s: %s" % (what, answer["reason"]))

        def image_of(part):
            image = _c.new("image")
            image.codec, image.width, image.height = _CODECS[part["codec"]], part["width"], part["height"]
            # as bzna pack: sRGB's primaries and transfer, BT.601, full range
            image.color = structs.color(1, 13, 5, 1, 1)
            image.data, image.data_size = ctypes.cast(ctypes.c_char_p(part["data"]), ctypes.c_void_p), len(part["data"])
            kept.append(part["data"])
            return image
        return image_of(answer), answer["thumb"] and image_of(answer["thumb"])

    def _write(self, described, index):
        sample, kept = described
        err, end = _c.new("error"), time.monotonic() + self.timeout
        while True:
            place = _c.INDEX_NEXT if index is None else arg.number("index", index, ctypes.c_uint64, 0, 2**64 - 2)
            status = lib.bzna_writer_add(self.handle, place, sample, 10**8, err)
            if status != Status.AGAIN or time.monotonic() > end:
                break
        del kept                                # the structs point into them
        self._has_failed |= status == Status.E_IO
        if status == Status.AGAIN:
            raise Error(
                status, "the sample was not taken: samples of smaller indices are missing, and queue_bytes hold no more"
            )
        check(status, err, self._sink and self._sink.failure)

    def finish(self) -> None:
        """Writes the index and closes the file."""
        err = _c.new("error")
        check(lib.bzna_writer_finish(self.handle, err), err, self._sink and self._sink.failure)
        if self._sink and hasattr(self._sink.file, "flush"):
            self._sink.file.flush()
        self.close()

    def close(self) -> None:
        """Without finish, the archive is left unfinished."""
        super().close()
        self._encoders.close()

    def __exit__(self, kind: Any = None, *_: Any) -> None:
        try:
            if kind is None and self._handle is not None:
                self.finish()
        finally:
            self.close()


def _is_file(codec):
    """Whether pictures of a codec are files: JPEG, PNG, WebP, and those of examples/formats, such as TIFF."""
    return codec in (_c.CODEC_JPEG, _c.CODEC_STILL) or codec >= _c.CODEC_OWN


def _coded(what, image, codec, size, track=None):
    """(structs.image, what it points into) of a Sample's picture, or of coded bytes."""
    if isinstance(image, Sample):
        return image._coded(track if track in image.images else "image")
    try:
        data = bytes(memoryview(image))
    except TypeError:
        raise TypeError("%s: %s is neither a Sample nor coded bytes" % (what, type(image).__name__)) from None
    if codec is not None and codec not in _CODECS:
        raise ValueError("codec: %r is none of %s" % (codec, ", ".join(map(repr, _CODECS))))
    if codec is None or size is None:
        codec, frame = _inspected(what, data, [codec] if codec else list(_CODECS))
    return _image_of(data, codec, frame if size is None else size), data


def _image_of(data, codec, size):
    image = _c.new("image")
    image.codec, image.data, image.data_size = (
        _CODECS[codec],
        ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p),
        len(data),
    )
    image.width, image.height = (arg.number("size", edge, ctypes.c_uint32, 1, 65535) for edge in size)
    return image


def _inspected(what, data, codecs):
    """(codec, size of the frame): written to an archive in memory, the picture is described by what reads that."""
    refusals = []
    for codec in codecs:
        archive, image, sample = io.BytesIO(), _image_of(data, codec, (1, 1)), _c.new("writer_sample")
        sample.image = ctypes.addressof(image)
        try:
            with Writer(archive) as writer:
                err = _c.new("error")
                check(lib.bzna_writer_add(writer.handle, _c.INDEX_NEXT, sample, 0, err), err)
        except Error as error:
            refusals.append("%s: %s" % (codec, error.message))
            continue
        with Dataset(archive) as dataset:
            described, _ = dataset[0]._coded()
            return codec, (described.frame_width, described.frame_height)
    raise Error(Status.E_CODEC, "%s: not one coded picture with its parameter sets (%s)" % (what, "; ".join(refusals)))


def _thumbnail(sample, picture, buffer):
    """A sample's thumbnail, where it is not the picture itself."""
    if "bzna_thumb" not in sample.images or "bzna_input" not in sample.images:
        return None, None
    small, kept = sample._coded("thumb")        # both buffers hold the whole sample
    same = small.data - ctypes.addressof(kept) == picture.data - ctypes.addressof(buffer)
    return (None, None) if same else (small, kept)
