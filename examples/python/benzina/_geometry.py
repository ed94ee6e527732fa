"""Crops that copy pixels, flips, rotations and distortions, by torchvision's names. They are members of benzina.ops."""
from __future__ import annotations

import ctypes
import math
from typing import Any, Iterable, List, Optional, Sequence, Tuple, Union

from . import _arguments as arg
from . import _c
from ._c import lib
from ._errors import check
from ._types import Range, Size
from .ops import Matrix, WarpTransform

_Edges = Union[int, Sequence[int]]
_IDENTITY: Matrix = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)


def product(a: Matrix, b: Matrix) -> Matrix:
    """The matrix that maps by b first, then by a."""
    return tuple(sum(a[3 * row + k] * b[3 * k + column] for k in range(3)) for row in range(3) for column in range(3))


def drawn(struct: Any, in_size: Size, out_size: Size, rng: Any) -> Matrix:
    """What the library draws of a structs.warp."""
    matrix, err = (ctypes.c_double * 9)(), _c.new("error")
    check(lib.bzna_warp_draw(rng.struct, struct, *in_size, *out_size, matrix, err), err)
    return tuple(matrix)


def _probability(value: Any) -> float:
    return float(arg.number("p", value, ctypes.c_double, 0, 1))


def _either(p: float, q: float) -> float:
    """The probability that just one of two happens."""
    return p + q - 2 * p * q


class _Crop(WarpTransform):
    """A crop of size, whose pixels are copied."""

    def __init__(self, size: Any) -> None:
        height, width = arg.height_width(size)
        self.size = height, width

    def _warp(self) -> Any:
        raise NotImplementedError

    def check_size(self, width: int, height: int) -> None:
        """Refuses an output that is not as large as the crop."""
        if (height, width) != self.size:
            raise ValueError("warp: %r makes pictures of %d x %d, and shape says %d x %d: give both the same, since "
                             "pixels are copied" % (self, *self.size, height, width))

    def __call__(self, index: int, in_size: Size, out_size: Size, rng: Any) -> Matrix:
        return drawn(self._warp(), in_size, out_size, rng)


class CenterCrop(_Crop):
    """torchvision's: the middle of the picture, size (height, width) or one number for both, which is the loader's
    shape, too. Pixels are copied; pixels outside of the picture have the color oob.

    >>> ops.CenterCrop(32)
    CenterCrop(size=(32, 32))
    """

    def _warp(self) -> Any:
        warp = _c.new("warp")
        warp.kind = _c.WARP_NONE
        return warp


class RandomCrop(_Crop):
    """torchvision's RandomCrop: any part of the picture, with padding pixels of the color oob on each side. Pixels are
    copied, so they have the same bits as in torchvision.

    size             (height, width), or one number for both: the loader's shape, too
    padding          pixels on each side
    pad_if_needed    True: a picture that is smaller than size is padded; False: it is enlarged until it fills size,
                     whereas torchvision raises an error
    flip_h, flip_v   the probability of mirroring it

    >>> ops.RandomCrop(32, padding=4)
    RandomCrop(size=(32, 32), padding=4)
    """

    def __init__(self, size: Any, padding: Optional[_Edges] = None, pad_if_needed: bool = False, *, flip_h: float = 0.0,
                 flip_v: float = 0.0) -> None:
        super().__init__(size)
        edges = set(padding) if arg.is_list(padding) else {padding}         # type: ignore[arg-type]
        if len(edges) != 1:
            raise ValueError("padding: %r: all sides are padded alike here: give one number" % (padding,))
        given = edges.pop()
        self.padding = 0 if given is None else arg.number("padding", given, ctypes.c_uint32, 0, 1 << 20)
        self.pad_if_needed = arg.flag("pad_if_needed", pad_if_needed)
        self.flip_h = arg.number("flip_h", flip_h, ctypes.c_double, 0, 1)
        self.flip_v = arg.number("flip_v", flip_v, ctypes.c_double, 0, 1)

    def _warp(self) -> Any:
        """None: the library cannot draw it."""
        if self.pad_if_needed:
            return None
        warp = _c.new("warp")
        warp.kind, warp.random_crop, warp.mxnet.pad_px = _c.WARP_MXNET, 1, self.padding
        warp.flip_h, warp.flip_v = self.flip_h, self.flip_v
        return warp

    def __call__(self, index: int, in_size: Size, out_size: Size, rng: Any) -> Matrix:
        struct = self._warp()
        if struct is not None:
            return drawn(struct, in_size, out_size, rng)
        matrix: List[float] = []
        for axis, flip in enumerate((self.flip_h, self.flip_v)):
            padding = self.padding
            if in_size[axis] + 2 * padding < out_size[axis]:                # torchvision pads both sides by all of it
                padding += out_size[axis] - (in_size[axis] + 2 * padding)
            first = float(rng.randrange(in_size[axis] + 2 * padding - out_size[axis] + 1) - padding)
            is_mirrored = rng.random() < flip
            step = -1.0 if is_mirrored else 1.0
            matrix += [0.0, 0.0, first + (out_size[axis] - 1 if is_mirrored else 0)]
            matrix[3 * axis + axis] = step
        return (*matrix, 0.0, 0.0, 1.0)


class _Stage(WarpTransform):
    """What moves the pixels of a picture that has the output's size already."""

    def _add(self, struct: Any) -> bool:
        """Adds it to a structs.warp that has what comes before it; False: the library cannot draw the two."""
        raise NotImplementedError

    def _matrix(self, out_size: Size, rng: Any) -> Matrix:
        struct = _c.new("warp")
        self._add(struct)
        return drawn(struct, out_size, out_size, rng)

    def _warp(self) -> Any:
        struct = _c.new("warp")
        return struct if self._add(struct) else None

    def __call__(self, index: int, in_size: Size, out_size: Size, rng: Any) -> Matrix:
        return product(drawn(_c.new("warp"), in_size, out_size, rng), self._matrix(out_size, rng))


def _is_distorted(struct: Any) -> bool:
    return any(struct.rotate) or any(struct.shear) or struct.perspective != 0


class _Flip(_Stage):
    _member = ""

    def __init__(self, p: float = 0.5) -> None:
        self.p = _probability(p)

    def _add(self, struct: Any) -> bool:
        if _is_distorted(struct):
            return False
        setattr(struct, self._member, _either(getattr(struct, self._member), self.p))
        return True


class RandomHorizontalFlip(_Flip):
    """torchvision's: mirrored left to right with probability p."""

    _member = "flip_h"


class RandomVerticalFlip(_Flip):
    """torchvision's: mirrored top to bottom with probability p.

    >>> [ops.RandomResizedCrop(), ops.RandomVerticalFlip()]
    [RandomResizedCrop(), RandomVerticalFlip()]
    """

    _member = "flip_v"


def _around(degrees: float) -> Tuple[float, float]:
    if degrees < 0:
        raise ValueError("%r: one number must not be negative" % (degrees,))
    return -degrees, degrees


class RandomAffine(_Stage):
    """torchvision's, about the middle of the output: it brings in the picture beyond the crop, and the color oob beyond
    the picture.

    degrees          (lo, hi), clockwise; a number d means (-d, d)
    translate        at most these fractions of the output's width and height, in whole pixels
    scale            (lo, hi)
    shear            degrees in x, (lo, hi), or in x and y, four numbers; a number s means (-s, s) in x

    With translate or scale, it runs in Python.

    >>> ops.RandomAffine(10, shear=5)
    RandomAffine(degrees=(-10.0, 10.0), shear=(-5.0, 5.0, 0.0, 0.0))
    """

    def __init__(self, degrees: Range, translate: Optional[Sequence[float]] = None,
                 scale: Optional[Sequence[float]] = None, shear: Union[None, float, Sequence[float]] = None) -> None:
        self.degrees = arg.pair("degrees", degrees, _around)
        self.translate = None if translate is None else arg.floats("translate", translate, 2, ctypes.c_double)
        self.scale = None if scale is None else arg.floats("scale", scale, 2, ctypes.c_double)
        if self.translate and not all(0 <= share <= 1 for share in self.translate):
            raise ValueError("translate: %r is not two fractions of 0..1" % (translate,))
        if self.scale and not 0 < self.scale[0] <= self.scale[1]:
            raise ValueError("scale: %r is not two positive numbers, the smaller one first" % (scale,))
        self.shear: Optional[Tuple[float, ...]] = None
        if shear is not None:
            numbers = tuple(shear) if arg.is_list(shear) else _around(float(shear))     # type: ignore[arg-type]
            numbers = numbers if len(numbers) == 4 else (*numbers, 0.0, 0.0)
            self.shear = tuple(arg.floats("shear", numbers, 4, ctypes.c_double))
        pairs = [("degrees", self.degrees)]
        pairs += [("shear", self.shear[i:i + 2]) for i in (0, 2)] if self.shear else []
        for name, (low, high) in pairs:
            if low > high:
                raise ValueError("%s: %r: the smaller one comes first" % (name, (low, high)))

    def _add(self, struct: Any) -> bool:
        if self.translate or self.scale or _is_distorted(struct):
            return False
        struct.rotate[:], struct.shear[:] = self.degrees, self.shear or (0, 0, 0, 0)
        return True

    def _matrix(self, out_size: Size, rng: Any) -> Matrix:
        if not (self.translate or self.scale):
            return super()._matrix(out_size, rng)
        rotate = math.radians(rng.uniform(*self.degrees))
        shift = [0.0, 0.0]
        for axis, share in enumerate(self.translate or ()):
            most = share * out_size[axis]
            shift[axis] = float(round(rng.uniform(-most, most)))
        scale = rng.uniform(*self.scale) if self.scale else 1.0
        numbers = self.shear or (0.0, 0.0, 0.0, 0.0)
        x, y = (math.radians(rng.uniform(*numbers[i:i + 2])) for i in (0, 2))
        a, b = math.cos(rotate - y) / math.cos(y), -math.cos(rotate - y) * math.tan(x) / math.cos(y) - math.sin(rotate)
        c, d = math.sin(rotate - y) / math.cos(y), -math.sin(rotate - y) * math.tan(x) / math.cos(y) + math.cos(rotate)
        inner = d / scale, -b / scale, -c / scale, a / scale
        middle = [(edge - 1) / 2 for edge in out_size]
        matrix: List[float] = []
        for row in (0, 1):
            p, q = inner[2 * row:2 * row + 2]
            matrix += [p, q, middle[row] - p * (middle[0] + shift[0]) - q * (middle[1] + shift[1])]
        return (*matrix, 0.0, 0.0, 1.0)


class RandomRotation(RandomAffine):
    """torchvision's, about the middle of the output. degrees: (lo, hi), counterclockwise; a number d means (-d, d). It
    brings in the picture beyond the crop, and the color oob beyond the picture.

    >>> ops.RandomRotation(15)
    RandomRotation(degrees=(-15.0, 15.0))
    """

    def __init__(self, degrees: Range) -> None:
        super().__init__(degrees)

    def _add(self, struct: Any) -> bool:
        is_taken = super()._add(struct)
        if is_taken:
            struct.rotate[:] = -self.degrees[1], -self.degrees[0]
        return is_taken


class RandomPerspective(_Stage):
    """torchvision's: with probability p, the corners of the output move by up to distortion_scale of half its size.

    >>> ops.RandomPerspective(0.3)
    RandomPerspective(distortion_scale=0.3)
    """

    def __init__(self, distortion_scale: float = 0.5, p: float = 0.5) -> None:
        self.distortion_scale = arg.number("distortion_scale", distortion_scale, ctypes.c_double, 0, 1)
        self.p = _probability(p)

    def _add(self, struct: Any) -> bool:
        if struct.perspective:
            return False
        if self.distortion_scale and self.p:
            struct.perspective, struct.perspective_p = self.distortion_scale, self.p
        return True


class Compose(WarpTransform):
    """Several warps as one, as a list for warp. The first one may be a crop; the others move its result. Pixels are
    filtered once. The library draws it if it is a crop, then flips, then a RandomRotation or a RandomAffine without
    translate and scale, and then a RandomPerspective; else it is drawn in Python.

    >>> ops.Compose([ops.RandomCrop(32, padding=4), ops.RandomHorizontalFlip(), ops.RandomRotation(15)])
    Compose(transforms=[RandomCrop(size=(32, 32), padding=4), RandomHorizontalFlip(), RandomRotation(degrees=(-15.0,
    15.0))])
    """

    def __init__(self, transforms: Iterable[Any]) -> None:
        self.transforms = list(transforms)
        for number, one in enumerate(self.transforms):
            if not isinstance(one, WarpTransform):
                raise TypeError("warp[%d]: %r is no warp of ops" % (number, one))
            if number and isinstance(one, _Crop):
                raise ValueError("warp[%d]: %r: a crop that copies pixels comes first" % (number, one))

    def check_size(self, width: int, height: int) -> None:
        if self.transforms and isinstance(self.transforms[0], _Crop):
            self.transforms[0].check_size(width, height)

    def _warp(self) -> Any:
        """None: the library cannot draw it."""
        struct = _c.new("warp")
        for number, one in enumerate(self.transforms):
            if isinstance(one, _Stage):
                if not one._add(struct):
                    return None
            elif number or not hasattr(one, "_warp"):
                return None
            else:
                struct = one._warp()
                if struct is None:
                    return None
        return struct

    def __call__(self, index: int, in_size: Size, out_size: Size, rng: Any) -> Matrix:
        whole = _IDENTITY
        for number, one in enumerate(self.transforms):
            is_inner = number and isinstance(one, _Stage)
            matrix = one._matrix(out_size, rng) if is_inner else one(index, in_size, out_size, rng)
            whole = product(whole, tuple(matrix))
            in_size = out_size
        return whole
