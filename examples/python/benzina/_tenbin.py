"""Tensors of WebDataset's own format, .ten and .tb: chunks of a magic word, a size, and bytes up to a multiple of
64."""

from __future__ import annotations

import struct
from typing import Any, Iterator, List

_MAGIC = b"~TenBin~"
_TYPES = ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")


def _chunks(data: Any) -> Iterator[bytes]:
    at, data = 0, bytes(data)
    while at < len(data):
        if data[at:at + 8] != _MAGIC or at + 16 > len(data):
            raise ValueError("tensors: no chunk begins at byte %d" % at)
        size, = struct.unpack_from("<q", data, at + 8)
        if not 0 <= size <= len(data) - at - 16:
            raise ValueError("tensors: the chunk at byte %d has %d bytes, and the data end before" % (at, size))
        yield data[at + 16:at + 16 + size]
        at += 16 + -(-size // 64) * 64


def decode_buffer(data: Any) -> List[Any]:
    """The arrays."""
    import numpy
    chunks, arrays = list(_chunks(data)), []
    for header, values in zip(chunks[::2], chunks[1::2]):
        if len(header) < 24:
            raise ValueError("tensors: a header of %d bytes" % len(header))
        kind = header[:8].rstrip(b"\0").decode("ascii", "replace")
        dimensions, = struct.unpack_from("<q", header, 16)
        if kind not in _TYPES or not 0 <= dimensions <= 32 or len(header) < 24 + 8 * dimensions:
            raise ValueError("tensors: a header of type %r with %d dimensions" % (kind, dimensions))
        shape = struct.unpack_from("<%dq" % dimensions, header, 24)
        arrays.append(numpy.frombuffer(values, "<" + kind).reshape(shape))
    return arrays


def encode_buffer(arrays: Any, name: str = "") -> bytes:
    """The bytes of arrays."""
    import numpy
    made = b""
    for array in arrays:
        values = numpy.ascontiguousarray(array)
        kind = values.dtype.str[1:]
        if kind not in _TYPES:
            raise ValueError("tensors: arrays of %s have no type there" % values.dtype)
        header = struct.pack("<8s8sq%dq" % array.ndim, kind.encode(), name.encode(), array.ndim, *array.shape)
        for chunk in (header, values.astype(values.dtype.newbyteorder("<")).tobytes()):
            made += _MAGIC + struct.pack("<q", len(chunk)) + chunk + bytes(-len(chunk) % 64)
    return made
