"""Callbacks of a loader: transforms and pictures, written in Python."""
from __future__ import annotations

import ctypes
import itertools
import math
import traceback
from typing import Any, List

from . import _arguments as arg
from . import _c, _handles
from ._c import Status, structs
from ._modules import installed
from ._random import Random


def _inter_method_9(homography, rng):
    """Cubic if both sides grow, area if both shrink, else linear."""
    steps = [math.hypot(homography[i], homography[i + 3]) for i in (0, 1)]
    return INTER_METHODS[2 if max(steps) < 1 else 3 if min(steps) > 1 else 1]


def _inter_method_10(homography, rng):
    return INTER_METHODS[rng.randrange(5)]


# MXNet's: OpenCV's filters, which are not widened if a picture shrinks.
INTER_METHODS = {
    0: (_c.FILTER_NEAREST, _c.ANTIALIAS_OFF),
    1: (_c.FILTER_LINEAR, _c.ANTIALIAS_OFF),
    2: (_c.FILTER_CUBIC_075, _c.ANTIALIAS_OFF),
    3: (_c.FILTER_AREA, _c.ANTIALIAS_AUTO),
    4: (_c.FILTER_LANCZOS4, _c.ANTIALIAS_OFF),
    9: _inter_method_9,
    10: _inter_method_10,
}


class Failures:
    """The exceptions of a loader's callbacks, which it owns: their tracebacks lead to it, so that the hooks, which a
    callback that runs holds, must not."""

    _MOST, _MOST_FRAMES = 1000, 20
    _fault = 2**30                              # of a rule, whose smaller numbers say that the data are damaged

    def __init__(self):
        self.last = None
        self._kept = {}                         # by the numbers that C was told, which errors have for native_code
        self._numbers = itertools.count(1)

    def add(self, exception, is_fault=False):
        """Where failures are let pass, only so many are kept, and fewer with the variables of their frames, which may
        be pictures."""
        number = self._fault * is_fault + next(self._numbers)
        if number == -Status.E_CALLBACK:        # which says more than that the data are damaged
            number = next(self._numbers)
        self.last, self._kept[number] = exception, (exception, exception.__traceback__)
        self._kept.pop(number - self._MOST, None)
        if len(self._kept) > self._MOST_FRAMES:
            traceback.clear_frames(exception.__traceback__)
        return -number

    def exception_of(self, error):
        """What a callback raised, of an Error that tells of it; else None."""
        if error.status not in (Status.E_CALLBACK, Status.E_FORMAT) or -error.native_code not in self._kept:
            return None
        exception, traceback = self._kept[-error.native_code]
        return exception.with_traceback(traceback)                      # without those who raised it again


def _some(what, numbers):
    """Zeros would stand for what the library does without them."""
    if not all(numbers) if what == "norm" else not any(numbers):
        raise ValueError("%s: %r: zeros would leave nothing of the picture" % (what, numbers))
    return numbers


def _nothing(what, returned, given):
    """Refuses what nobody would look at."""
    if returned is not None:
        raise TypeError("%s: it returned %r: it changes the %s that it is given, and returns nothing" % (
            what, type(returned).__name__, given))


class Hooks:
    """What a loader's transform callback does to a sample: each of these (index, in_size, out_size, rng), or None."""

    def __init__(self):
        self.warp = self.bias = self.norm = self.oob = self.color = None
        self.filter = None                      # (homography, rng)
        self.own_colors = ()                    # of outputs, by number, that these are not for
        self.mixing = None                      # a Mixing, whose views share a crop
        self.whole = None                       # (sample_info, rng, transform), last of all
        self.picture = None                     # (sample_info, rng, Picture), before any warp

    _failures = staticmethod(lambda: None)      # a weak reference to a Failures, which is the loader's

    def failed(self, exception):
        """Keeps an exception, and gives the number that C is told."""
        failures = self._failures()
        return Status.E_CALLBACK.value if failures is None else failures.add(exception)

    def needed(self):
        return any((self.warp, self.bias, self.norm, self.oob, self.color, self.filter, self.mixing, self.whole))

    def apply(self, info, rng, transform):
        about = (info.index, (info.width, info.height), (info.out_width, info.out_height), rng)
        colors = info.output not in self.own_colors
        if self.warp and info.output == 0:      # other outputs have warps of their own, or share what this one gives
            transform.homography[:] = _some("warp", arg.floats("warp", self.warp(*about), 9, ctypes.c_double))
        if self.bias and colors:
            transform.bias[:] = arg.floats("bias", self.bias(*about), 3)
        if self.norm and colors:
            transform.scale[:] = _some("norm", arg.floats("norm", self.norm(*about), 3))
        if self.oob and colors:
            transform.fill[:] = arg.floats("oob", self.oob(*about), 3)
        if self.color and colors:
            transform.matrix = arg.number("color", self.color(*about), ctypes.c_uint32, 0, 3) + 1
        if self.filter:
            transform.filter, transform.antialias = self.filter(transform.homography, rng)
        if self.mixing and info.output == 0:
            self.mixing.apply(info, rng, transform)
        if self.whole:
            _nothing("transform", self.whole(info, rng, transform), "transform")


def _hooks_of(user):
    found = _handles.registry.get(user)
    return None if found is None else found()


def _copied(name, address):
    """A struct of C's as Python's own, which may be kept for as long as anybody likes."""
    kind = getattr(structs, name)
    return kind.from_buffer_copy((ctypes.c_char * ctypes.sizeof(kind)).from_address(address))


@_c.callback("transform_fn")
def transform_thunk(user, info, random, transform):
    hooks = _hooks_of(user)
    if hooks is None:
        return Status.E_CALLBACK.value
    try:
        own = _copied("transform", transform)
        hooks.apply(_copied("sample_info", info), Random(_struct=_copied("random", random)), own)
        ctypes.memmove(transform, ctypes.addressof(own), ctypes.sizeof(own))
        return 0
    except BaseException as exception:
        return hooks.failed(exception)


class Picture:
    """A decoded picture that a DataLoader's picture callback draws into, before it is warped. Drawing after the
    callback has returned has no effect.

    planes           one numpy array of a gray picture, else three: Y', Cb, Cr, or G, B, R if is_rgb. They are the
                     picture without padding, as it is coded: not rotated by its orientation (EXIF's number). uint8, or
                     uint16 if depth, the bits of a sample, is above 8
    chroma_shift     (x, y): Cb and Cr have 1 / 2**x of the columns and 1 / 2**y of the rows; (1, 1) for 4:2:0
    width, height    of planes[0]; full_range: Y' is 0..255 (of 8 bits), else 16..235
    gray             half of the largest sample: middle gray, filled into all planes of whatever kind

    The arrays are Python's own: they may be kept."""

    def __init__(self, struct: Any, planes: List[Any]) -> None:
        self.width, self.height, self.depth = struct.width, struct.height, struct.depth
        self.chroma_shift = (struct.chroma_shift_x, struct.chroma_shift_y)
        self.orientation = struct.orientation or 1
        self.is_rgb = bool(struct.color.present) and struct.color.matrix == 0
        self.full_range = bool(struct.color.full_range)
        self.gray = 1 << (struct.depth - 1)
        self._origin = struct.crop_x, struct.crop_y
        self._frame = planes                    # of the whole coded frame
        self.planes = self.region(0, 0, self.width, self.height)

    def region(self, left: int, top: int, right: int, bottom: int) -> List[Any]:
        """The parts of the planes in a rectangle, in whole pixels of planes[0], with all subsampled chroma that it
        touches."""
        left, right = (min(max(edge, 0), self.width) + self._origin[0] for edge in (left, right))
        top, bottom = (min(max(edge, 0), self.height) + self._origin[1] for edge in (top, bottom))
        if right <= left or bottom <= top:      # nothing of chroma, either
            left = right = top = bottom = 0
        shifts = [(0, 0), self.chroma_shift, self.chroma_shift]
        return [plane[top >> y:-(-bottom >> y), left >> x:-(-right >> x)] for plane, (x, y) in zip(self._frame, shifts)]


def _plane_of(number, struct, address):
    """One plane of the whole coded frame, where C has it: nobody else may get to see this array, which dangles
    afterwards."""
    numpy = installed("numpy")
    shift_x, shift_y = (struct.chroma_shift_x, struct.chroma_shift_y) if number else (0, 0)
    shape = -(-struct.frame_height >> shift_y), -(-struct.frame_width >> shift_x)
    kind = numpy.dtype(numpy.uint8 if struct.depth <= 8 else numpy.uint16)
    size = struct.pitch[number] * (shape[0] - 1) + shape[1] * kind.itemsize
    return numpy.ndarray(
        shape, kind, (ctypes.c_char * size).from_address(address), 0, (struct.pitch[number], kind.itemsize)
    )


def _draw(function, info, rng, struct, addresses):
    """Calls a picture callback with a copy of the planes, and takes over what it drew. No variable here holds C's own
    planes: a traceback would keep it."""
    numbers = [i for i in range(3) if addresses[i]]
    picture = Picture(struct, [_plane_of(i, struct, addresses[i]).copy() for i in numbers])
    drawn = list(picture._frame)
    _nothing("picture", function(info, rng, picture), "planes of the picture")
    for i, own in zip(numbers, drawn):
        _plane_of(i, struct, addresses[i])[...] = own


@_c.callback("picture_fn")
def picture_thunk(user, info, random, picture, planes):
    hooks = _hooks_of(user)
    if hooks is None:
        return Status.E_CALLBACK.value
    try:
        _draw(
            hooks.picture,
            _copied("sample_info", info),
            Random(_struct=_copied("random", random)),
            _copied("picture", picture),
            list((ctypes.c_void_p * 3).from_address(planes)),
        )
        return 0
    except BaseException as exception:
        return hooks.failed(exception)
