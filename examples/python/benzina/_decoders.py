"""What WebDataset's decode() makes of a sample's bytes."""
from __future__ import annotations

import gzip
import io
import json
import pickle
from typing import Any, Callable, Dict, NamedTuple, Optional, Sequence, Tuple

from . import _wds_utils as utils
from ._arrays import from_arrays
from ._modules import installed
from ._tenbin import decode_buffer

# (key with a point before it, bytes) -> a value, or None: it is another's
Handler = Callable[[str, bytes], Any]


class Spec(NamedTuple):
    """How pictures come: what of "pil", "numpy", "torch"; "uint8" or "float32" of 0..1; "l" or "rgb"."""

    kind: str
    dtype: str
    mode: str


SPECS = {
    "l8": Spec("numpy", "uint8", "l"),
    "rgb8": Spec("numpy", "uint8", "rgb"),
    "l": Spec("numpy", "float32", "l"),
    "rgb": Spec("numpy", "float32", "rgb"),
    "torchl8": Spec("torch", "uint8", "l"),
    "torchrgb8": Spec("torch", "uint8", "rgb"),
    "torchl": Spec("torch", "float32", "l"),
    "torchrgb": Spec("torch", "float32", "rgb"),
    "torch": Spec("torch", "float32", "rgb"),
    "pil": Spec("pil", "uint8", "rgb"),
    "pilrgb": Spec("pil", "uint8", "rgb"),
    "pill": Spec("pil", "uint8", "l"),
}
PICTURES = set("bmp gif jp2 jpe jpeg jpg pbm pgm png pnm ppm tif tiff webp heic heif avif".split())


def spec_of(name: str) -> Spec:
    if name.lower().endswith("rgba") or name.lower().endswith("rgba8"):
        raise ValueError("decode(%r): pictures have no alpha channel here" % name)
    if name.lower() not in SPECS:
        raise ValueError("decode(%r): it is none of %s" % (name, ", ".join(sorted(SPECS))))
    return SPECS[name.lower()]


def as_spec(pixels: Any, spec: Spec) -> Any:
    """pixels: H x W x 3 uint8."""
    import numpy
    if spec.mode == "l":                        # as Pillow weights them
        weighted = pixels.astype("uint32") @ numpy.array([19595, 38470, 7471], "uint32")
        pixels = ((weighted + 32768) >> 16).astype("uint8")
    if spec.dtype == "float32":
        pixels = pixels.astype("float32") / 255
    return _of_kind(pixels, spec)


def _of_kind(pixels: Any, spec: Spec) -> Any:
    """pixels: an array of the spec's dtype, H x W or H x W x 3."""
    if spec.kind == "pil":
        import PIL.Image
        return PIL.Image.fromarray(pixels)
    if spec.kind == "torch":
        import torch
        return torch.from_numpy((pixels.transpose(2, 0, 1) if pixels.ndim == 3 else pixels).copy())
    return pixels


def picture_of(data: bytes, spec: Spec) -> Any:
    """Of the bytes of a file."""
    return as_spec(from_arrays([data])[0].image(), spec)


def is_picture(key: str) -> bool:
    return key.rsplit(".", 1)[-1].lower() in PICTURES


class Continue:
    """What a handler gives whose bytes go on to the next one, under another key."""

    def __init__(self, key: str, data: bytes) -> None:
        self.key, self.data = key, data


def gzfilter(key: str, data: bytes) -> Optional[Continue]:
    """Unpacks what gzip packed."""
    return Continue(key[:-3], gzip.decompress(data)) if key.endswith(".gz") else None


def _numpy_file(data: bytes) -> Any:
    import numpy
    return numpy.load(io.BytesIO(data), allow_pickle=False)


def _numpy_files(data: bytes) -> Dict[str, Any]:
    return dict(_numpy_file(data))


def torch_loads(data: bytes) -> Any:
    """Of torch.save: tensors and plain values, and whatever else only where pickles are allowed."""
    return needed("torch").load(io.BytesIO(data), map_location="cpu", weights_only=utils.enforce_security is not False)


def unpickle_loads(data: bytes) -> Any:
    if utils.enforce_security is not False:
        raise ValueError(
            "a pickle runs whatever code its file holds. If you trust the shards, wds.utils.enforce_security = False "
            "loads it, or a handler of your own, decode(handler)"
        )
    return pickle.loads(data)


def needed(name: str) -> Any:
    module = installed(name)
    if module is None:
        raise ImportError("the package %s is not installed" % name)
    return module


def _msgpack(data: bytes) -> Any:
    return needed("msgpack").unpackb(data)


def _cbor(data: bytes) -> Any:
    return needed("cbor").loads(data)


def _text(data: bytes) -> str:
    return data.decode("utf-8")


_BY_EXTENSION: Tuple[Tuple[str, Callable[[bytes], Any]], ...] = (
    ("txt text transcript", _text),
    ("cls cls2 index inx id", int),
    ("json jsn", json.loads),
    ("npy", _numpy_file),
    ("npz", _numpy_files),
    ("pth", torch_loads),
    ("pkl pickle pyd", unpickle_loads),
    ("mp msg msgpack", _msgpack),
    ("cbor", _cbor),
    ("ten tenbin tb", decode_buffer),
)
DECODERS = {extension: function for extensions, function in _BY_EXTENSION for extension in extensions.split()}


def basichandlers(key: str, data: bytes) -> Any:
    """By the last extension."""
    decoder = DECODERS.get(key.rsplit(".", 1)[-1])
    return None if decoder is None else decoder(data)


def decoded(key: str, data: bytes, handlers: Sequence[Handler]) -> Any:
    """What the first handler that knows it makes of it; the bytes, where none does."""
    key = "." + key
    for handler in handlers:
        found = handler(key, data)
        if isinstance(found, Continue):
            key, data = found.key, found.data
        elif found is not None:
            return found
    return data
