"""Arguments on their way to C: numbers, texts, choices. Each is refused by its Python name, with what it may be."""
import array
import collections.abc
import ctypes
import math
import os
import sys

from . import _c
from ._keywords import CHOICES, FIELDS, OTHER_CHOICES


WHOLE = {
    kind: (-(1 << bits - 1), (1 << bits - 1) - 1) if kind(-1).value < 0 else (0, (1 << bits) - 1)
    for kind in (
        ctypes.c_uint8,
        ctypes.c_uint16,
        ctypes.c_uint32,
        ctypes.c_uint64,
        ctypes.c_size_t,
        ctypes.c_int32,
        ctypes.c_int64,
    )
    for bits in [8 * ctypes.sizeof(kind)]
}
REAL = {ctypes.c_float: 2.0**128 * (1 - 2.0**-24), ctypes.c_double: sys.float_info.max}


def number(what, value, kind, low=None, high=None):
    """A number as C's type kind takes it: ctypes alone would cut off what is too large. Whole numbers are what has
    __index__, numpy's among them, real ones what has __float__, too. Others are refused, called what, and what is not
    within low..high, as far as given, and within the type."""
    try:
        if kind in WHOLE:
            least, most = WHOLE[kind]
            number = value.__index__()
        else:
            least, most = -REAL[kind], REAL[kind]
            number = float(value.__float__() if hasattr(value, "__float__") else value.__index__())
    except (AttributeError, TypeError, OverflowError):
        raise TypeError("%s: %r is no %snumber" % (what, value, "whole " if kind in WHOLE else "")) from None
    if not math.isfinite(number):
        raise ValueError("%s: %r is not finite" % (what, number))
    least, most = least if low is None else low, most if high is None else high
    if not least <= number <= most:
        raise ValueError(
            "%s: %s is not within %s..%s"
            % ((what, *(x if isinstance(x, int) else "%g" % x for x in (number, least, most))))
        )
    return number


def flag(what, value):
    """True or False, or a number that equals one of them."""
    if not any(value is known or (hasattr(value, "__float__") and value == known) for known in (False, True)):
        raise ValueError("%s: %r is neither True nor False" % (what, value))
    return bool(value)


def put(struct, member, value, what=None, low=None, high=None):
    """Sets one number of a struct."""
    kind = next(kind for name, kind in struct._fields_ if name == member)
    setattr(struct, member, number(what or member, value, kind, low, high))


def many(what, values, kind):
    """An array.array of any number of them, all of one kind; quick, where they are Python's or numpy's own."""
    values = values.tolist() if hasattr(values, "tolist") else values
    if not isinstance(values, collections.abc.Iterable) or isinstance(values, (str, bytes)):
        raise TypeError("%s: %r is no list of numbers" % (what, values))
    values = list(values)
    kinds = set(map(type, values))
    if any(one.__name__ in ("bool", "bool_") for one in kinds):
        raise TypeError(
            "%s: a mask, of True and False: give the numbers of what it takes, numpy.flatnonzero(mask)" % what
        )
    if not kinds <= ({int} if kind in WHOLE else {int, float}) or not _all_fit(values, kind):
        values = [number("%s[%d]" % (what, i), value, kind) for i, value in enumerate(values)]
    return array.array({ctypes.c_uint64: "Q", ctypes.c_int64: "q", ctypes.c_double: "d"}[kind], values)


def _all_fit(numbers, kind):
    if kind in WHOLE:
        return not numbers or WHOLE[kind][0] <= min(numbers) <= max(numbers) <= WHOLE[kind][1]
    return all(map(math.isfinite, map(float, numbers)))


def is_list(values):
    return isinstance(values, collections.abc.Iterable) and not isinstance(values, (str, bytes))


def floats(what, values, count, kind=ctypes.c_float):
    """count finite floats; a number stands for count equal ones."""
    if hasattr(values, "tolist"):               # an array's
        values = values.tolist()
    if not is_list(values):
        values = [values] * count
    flat = []
    for v in values:                            # or rows of a matrix
        flat.extend(v if is_list(v) else [v])
    if len(flat) != count:
        raise ValueError("%s: %d numbers, not %d" % (what, len(flat), count))
    return tuple(number(what, v, kind) for v in flat)


def pair(what, value, spread, low=None, high=None):
    """(lo, hi): two numbers as they are, or what spread makes of one."""
    pair = tuple(value) if is_list(value) else spread(number(what, value, ctypes.c_double))
    if len(pair) != 2:
        raise ValueError("%s: %r is neither a number nor two" % (what, value))
    return tuple(number(what, v, ctypes.c_double, low, high) for v in pair)


def size(what, size):
    """Two edges of a picture."""
    if not is_list(size) or len(size) != 2:
        raise ValueError("%s: %r is not (width, height)" % (what, size))
    return tuple(number(what, edge, ctypes.c_uint32) for edge in size)


def height_width(shape):
    sizes = tuple(shape) if is_list(shape) else (shape, shape)
    if len(sizes) != 2:
        raise ValueError("shape: %r is not (height, width); channels are said by channels=" % (shape,))
    return tuple(number("shape", edge, ctypes.c_uint32) for edge in sizes)


def text(what, text):
    if not isinstance(text, (str, bytes, os.PathLike)):
        raise TypeError("%s: %r is no text" % (what, text))
    text = os.fspath(text)
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    if b"\0" in data:
        raise ValueError("%s: %r has a NUL in it" % (what, text))
    return data


def is_path(thing):
    return isinstance(thing, (str, bytes, os.PathLike))


def path_bytes(path):
    path = os.fsencode(path)
    if b"\0" in path:                           # where C would end it
        raise ValueError("path: there is a NUL in it (the bytes of a file are opened as io.BytesIO(data))")
    return path


def stream_number(stream):
    """Of a number, or of what torch, cupy and others have for a stream."""
    for name in ("cuda_stream", "ptr"):
        stream = getattr(stream, name, stream)
    if hasattr(stream, "__cuda_stream__"):
        stream = stream.__cuda_stream__()[1]
    # 0 is how frameworks name the legacy default stream, for which CUDA has a 1
    return None if stream is None else number("stream", stream, ctypes.c_size_t) or 1


CHOICES["jpeg_shrink"] = {True: 1, False: 0}
CHOICES["hybrid"] = {True: 1, False: 0}

KEYWORDS = {field: name for name, field in FIELDS.items()}            # messages name them as the caller knows them
KEYWORDS.update(
    {
        "fields.made": "rules",
        "fields.geometry": "geometry",
        "output": "shape, dtype, layout, channels, views",
        "output.width": "shape",
        "output.height": "shape",
        "output.device": "memory",
        "order.kind": "shuffle",
        "order.indices": "indices",
        "color.std": "std",
        "color.mean_image": "mean_image",
        "color.mean_image_bytes": "mean_image",
        "warp.rotate": "rotate",
        "warp.shear": "shear",
    }
)


def configure(config, name, value):
    """Sets an argument's field."""
    group, member = FIELDS[name].split(".")
    if name in CHOICES and not (name == "decoder" and isinstance(value, int)):
        value = choice(name, value)
    group = getattr(config, group)
    if dict(group._fields_)[member] in (*WHOLE, *REAL):
        put(group, member, value, name)
    else:
        setattr(group, member, None if value is None else text(name, value))


def choice(name, value, choices=CHOICES):
    """The number of a name. choices: {name: {value: number}}."""
    known = value
    if name == "dtype" and not isinstance(value, str):          # torch's and numpy's
        known = getattr(value, "__name__", str(value)).replace("torch.", "")
    try:
        return choices[name][known]
    except (KeyError, TypeError):
        raise ValueError("%s: %r is none of %s" %
                         (name, value, ", ".join(map(repr, choices.get(name, ["a number"]))))) from None
