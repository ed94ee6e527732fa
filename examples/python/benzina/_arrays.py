"""Data sets of arrays in memory."""
from __future__ import annotations

import ctypes
import math
from typing import Any, Optional, Sequence

from . import _arguments as arg
from . import _c
from ._dataset import Dataset
from ._provider import (
    Arrays,
    Field,
    array_of,
    integer_bytes,
    numbers_of_names,
    picture_bytes,
    shape_of_pixels,
    text_bytes,
    vector_bytes,
)
from ._sources import address_of
from ._tables import open_table


def _joined(parts):
    """Addresses of parts in one piece of memory, and that."""
    whole = b"".join(parts) + b"\0"
    (at, _), kept = address_of(whole)
    places = []
    for part in parts:
        places.append((at, len(part)))
        at += len(part)
    return places, kept


def _rows(pixels):
    """Addresses of the rows of a contiguous array."""
    size = math.prod(pixels.shape[1:]) * pixels.itemsize
    first = pixels.ctypes.data
    return [(first + i * size, size) for i in range(len(pixels))]


def _add_batch(made, pixels):
    """Pictures of one size in one array, N x H x W, N x H x W x C or N x C x H x W."""
    import numpy
    shape, planes = pixels.shape[1:], False
    if len(shape) == 3 and shape[2] not in (1, 3) and shape[0] in (1, 3):
        shape, planes = (shape[1], shape[2], shape[0]), True
    height, width, channels = shape_of_pixels(shape, "images")
    pixels = numpy.ascontiguousarray(pixels)
    raw = dict(
        codec=_c.CODEC_RAW,
        width=width,
        height=height,
        channels=channels,
        layout=_c.LAYOUT_NCHW if planes else _c.LAYOUT_NHWC,
    )
    made.add(Field("image", _c.FIELD_IMAGE, located=True, **raw), _rows(pixels), pixels)


def _add_images(made, images):
    pixels = _array_of_images(images)
    if pixels is not None:
        _add_batch(made, pixels)
        return
    held = [address_of(picture_bytes(one)) for one in images]
    made.add(Field("image", _c.FIELD_IMAGE, located=True), [place for place, _ in held], [kept for _, kept in held])


def _array_of_images(images):
    """One array of all, if they are one, or arrays of one shape; else None."""
    whole = images.detach().cpu().numpy() if hasattr(images, "detach") else array_of(images)
    if whole is None and len(images) and all(array_of(one) is not None for one in images):
        parts = [array_of(one) for one in images]
        if len({(part.shape, str(part.dtype)) for part in parts}) == 1:
            import numpy
            whole = numpy.stack(parts)
    if whole is not None and whole.dtype != "uint8":
        raise TypeError("images: an array of %s; pictures are uint8" % whole.dtype)
    return whole


def _add_labels(made, labels):
    numbers = array_of(labels)
    numbers = numbers.tolist() if numbers is not None else list(labels)
    if any(isinstance(label, str) for label in numbers):
        if made.classes is None:
            raise ValueError("labels: %r is a name: give classes=[names of classes], of which numbers are made" % next(
                label for label in numbers if isinstance(label, str)))
        convert = numbers_of_names(list(made.classes))
        made.add(Field("target", _c.FIELD_INTEGER, located=True), *_joined([convert(label) for label in numbers]))
    elif all(hasattr(label, "__index__") for label in numbers):
        made.add(Field("target", _c.FIELD_INTEGER, located=True), *_joined([integer_bytes(label) for label in numbers]))
    else:
        made.add(Field("label", _c.FIELD_VECTOR, located=True), *_joined([vector_bytes(label) for label in numbers]))


def from_arrays(images: Any, labels: Optional[Any] = None, names: Optional[Sequence[str]] = None, *,
                classes: Optional[Sequence[str]] = None, **settings: Any) -> Dataset:
    """Pictures in memory as a Dataset, which the library reads in place, without calling Python.

        >>> dataset = benzina.from_arrays([open("train/color/a.png", "rb").read()] * 2, [0, 1])
        >>> dataset, dataset[1].target
        (<benzina.Dataset: provider, 2 samples>, 1)

    images     bytes of files (JPEG, PNG, ...), PIL.Images, or arrays of uint8, each H x W, or H x W x 1 or 3; or one
               array of all: N x H x W, N x H x W x C, or N x C x H x W. Arrays of one shape are not copied; arrays of
               several shapes are copied once
    labels     whole numbers, or names among classes, which are targets; or numbers or rows of numbers, which are the
               field "label"
    names      of the samples
    classes    names of targets 0, 1, ...
    settings   of Dataset: name, orientation, palette, context, fields

    The objects must stay as they are. Give objects that make samples when asked to Dataset itself."""
    made = Arrays(len(images), classes)
    for what, given in (("labels", labels), ("names", names)):
        if given is not None and len(given) != made.count:
            raise ValueError("%s: %d for %d images" % (what, len(given), made.count))
    if not made.count:
        raise ValueError("images: there are none")
    _add_images(made, images)
    if labels is not None:
        _add_labels(made, labels)
    if names is not None:
        made.add(
            Field("name", _c.FIELD_TEXT, located=True),
            *_joined([text_bytes(arg.text("names", name).decode("utf-8", "surrogateescape")) for name in names]),
        )
    return Dataset(made, **settings)


def from_table(table: Any, image: Optional[str] = None, label: Optional[str] = None, **settings: Any) -> Dataset:
    """The rows of a table as a Dataset: of a datasets.Dataset of Hugging Face's, a pyarrow.Table, or parquet files, by
    a path, a pattern, or a list. Dataset(table) is the same, with columns that are found by their types and names.

    image      the column of pictures: bytes of files, {"bytes", "path"} as Hugging Face's Image has them, or paths.
               None: the first that has pictures. It is the field "image"; other columns of pictures keep their names
    label      the column of targets: whole numbers, whose names are those of a ClassLabel; or text, whose classes are
               numbered in the order of their names. None: "label" or the like. Numbers with fractions, and rows of
               numbers, are the field "label"
    settings   of Dataset: name, orientation, palette, context, fields

    Columns of whole numbers, numbers, rows of numbers, text and bytes are fields of their names; others are left out.
    The table stays in memory, and pictures are not copied. Parquet is unpacked into memory when it is opened."""
    return Dataset(open_table(table, image, label), **settings)
