"""Transforms, by the original's and torchvision's names. A DataLoader takes them for warp, bias, norm, oob, color,
jitter and augment:

    >>> from benzina import ops
    >>> ops.RandomResizedCrop(flip_h=0.5)
    RandomResizedCrop(flip_h=0.5)

A callback can also call each warp with (index, in_size, out_size, rng), sizes being (width, height) in pixels and rng a
Random: it returns nine numbers, a 3x3 matrix row by row that maps output pixels to input pixels:

    >>> [round(x, 3) + 0.0 for x in ops.Resize()(0, (640, 480), (320, 240), benzina.Random(seed=1))]
    [2.0, 0.0, 0.5, 0.0, 2.0, 0.5, 0.0, 0.0, 1.0]

augment accepts a policy or a list of them, which are applied one after the other to each sample, after its crop:

    >>> recipe = [ops.RandAugment(2, 9), ops.RandomErasing(0.25)]
    >>> loader = benzina.DataLoader("train/", 224, 4, warp=ops.RandomResizedCrop(flip_h=0.5), augment=recipe)

If this documentation says that results equal torchvision's, this holds for pictures without an EXIF orientation, or
with Dataset(orientation="ignore"): a Dataset rotates pictures as their orientation says, torchvision's ImageFolder does
not.
"""
from __future__ import annotations

import ctypes
import math
from typing import Any, List, Optional, Sequence, Tuple

from . import _arguments as arg
from . import _augment, _c
from ._augment import AugMix as AugMix
from ._augment import AutoAugment as AutoAugment
from ._augment import Cutout as Cutout
from ._augment import GaussianBlur as GaussianBlur
from ._augment import GridMask as GridMask
from ._augment import Lighting as Lighting
from ._augment import Operation as Operation
from ._augment import Policy as Policy
from ._augment import RandAugment as RandAugment
from ._augment import RandomAdjustSharpness as RandomAdjustSharpness
from ._augment import RandomApply as RandomApply
from ._augment import RandomAutocontrast as RandomAutocontrast
from ._augment import RandomChannelPermutation as RandomChannelPermutation
from ._augment import RandomChoice as RandomChoice
from ._augment import RandomEqualize as RandomEqualize
from ._augment import RandomErasing as RandomErasing
from ._augment import RandomGrayscale as RandomGrayscale
from ._augment import RandomInvert as RandomInvert
from ._augment import RandomOrder as RandomOrder
from ._augment import RandomPosterize as RandomPosterize
from ._augment import RandomSolarize as RandomSolarize
from ._augment import TimmRandAugment as TimmRandAugment
from ._augment import TrivialAugmentWide as TrivialAugmentWide
from ._c import lib, structs
from ._errors import check
from ._shown import Shown
from ._types import Crops, Numbers, Range, Size

__all__ = [
    "AugMix",
    "AutoAugment",
    "BiasTransform",
    "CenterCrop",
    "CenterResizedCrop",
    "ColorJitter",
    "ColorTransform",
    "Compose",
    "ConstantBiasTransform",
    "ConstantColorTransform",
    "ConstantNormTransform",
    "ConstantOOBTransform",
    "ConstantWarpTransform",
    "Cutout",
    "GaussianBlur",
    "GridMask",
    "Lighting",
    "MXNetAffine",
    "NormTransform",
    "OOBTransform",
    "Operation",
    "Policy",
    "RandAugment",
    "RandomAdjustSharpness",
    "RandomAffine",
    "RandomApply",
    "RandomAutocontrast",
    "RandomChannelPermutation",
    "RandomChoice",
    "RandomCrop",
    "RandomEqualize",
    "RandomErasing",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomInvert",
    "RandomOrder",
    "RandomPerspective",
    "RandomPosterize",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomSolarize",
    "RandomVerticalFlip",
    "Resize",
    "SimilarityTransform",
    "TimmRandAugment",
    "TrivialAugmentWide",
    "WarpTransform",
    "compute_affine_matrix",
]

Matrix = Tuple[float, ...]                      # nine numbers


def compute_affine_matrix(in_size: Size, out_size: Size, crop: Optional[Sequence[float]] = None, degrees: float = 0.0,
                          translate: Tuple[float, float] = (0.0, 0.0), flip_h: bool = False, flip_v: bool = False,
                          resize: bool = False, keep_ratio: bool = False) -> Matrix:
    """The warp of these settings together, nine numbers, row by row. Sizes are (width, height) in pixels; crop: offset
    of
    its center, x and y, and width and height.

    >>> [round(x, 3) + 0.0 for x in benzina.compute_affine_matrix((100, 100), (50, 50), resize=True)]
    [2.0, 0.0, 0.5, 0.0, 2.0, 0.5, 0.0, 0.0, 1.0]
    """
    ins, outs = arg.size("in_size", in_size), arg.size("out_size", out_size)
    if not all((*ins, *outs)):
        raise ValueError("in_size, out_size: %r, %r: a size is 0" % (in_size, out_size))
    center: Sequence[float] = (0.0, 0.0)
    size: Sequence[float] = ins
    if crop is not None:
        numbers = arg.floats("crop", crop, 4, ctypes.c_double)
        center, size = numbers[:2], numbers[2:]
        if min(size) <= 0:
            raise ValueError("crop: %r: width and height must be positive" % (crop,))
    angle = arg.number("degrees", degrees, ctypes.c_double)
    shift = arg.floats("translate", translate, 2, ctypes.c_double)
    flips = arg.flag("flip_h", flip_h), arg.flag("flip_v", flip_v)
    resize, keep_ratio = arg.flag("resize", resize), arg.flag("keep_ratio", keep_ratio)

    c, s = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    if angle % 90 == 0:                         # exactly
        c, s = float(round(c)), float(round(s))
    turn, scale = ((c, -s), (s, c)), [1.0, 1.0]
    if resize:
        scale = [abs(x * size[0] + y * size[1]) / out for (x, y), out in zip(turn, outs)]
        scale = [min(scale)] * 2 if keep_ratio else scale
    start = [moved - (out - 1) / 2 for moved, out in zip(shift, outs)]
    matrix: List[float] = []
    for i, row in enumerate(turn):
        sign, (x, y) = -1.0 if flips[i] else 1.0, (row[0] * scale[0], row[1] * scale[1])
        matrix += [sign * x, sign * y, sign * (x * start[0] + y * start[1] + center[i]) + (ins[i] - 1) / 2]
    return (*matrix, 0.0, 0.0, 1.0)


def _sensible_scale(scale: Any, meaning: str) -> None:
    """torchvision's transforms of these names begin with a size."""
    for number in scale if arg.is_list(scale) else [scale]:
        if not (hasattr(number, "__float__") and 0 < float(number) <= 10):
            raise ValueError("scale: %r: it is %s. The size of what comes out is DataLoader's shape" % (scale, meaning))


class BiasTransform(Shown):
    """Base class of objects that give three numbers to subtract from R, G, B."""


class NormTransform(Shown):
    """Base class of objects that give three factors of R, G, B."""


class WarpTransform(Shown):
    """Base class of objects that give a 3x3 matrix from output pixels to input pixels."""


class OOBTransform(Shown):
    """Base class of objects that give the color outside the picture."""


class ColorTransform(Shown):
    """Base class of objects that give the conversion to RGB: 0 BT.601 full range, 1 BT.601, 2 BT.709, 3 BT.2020."""


class ConstantBiasTransform(BiasTransform):
    """The same three numbers for every sample, or one number for the three."""

    def __init__(self, bias: Numbers = (0.0, 0.0, 0.0)) -> None:
        self.bias = arg.floats("bias", bias, 3)

    def __call__(self, index: int, in_size: Size, out_size: Size, rng: Any) -> Tuple[float, ...]:
        return self.bias


class ConstantNormTransform(NormTransform):
    """The same three factors for every sample. They multiply: the reciprocal of a standard deviation, not the deviation
    itself (see std= of DataLoader)."""

    def __init__(self, norm: Numbers = (1.0, 1.0, 1.0)) -> None:
        self.norm = arg.floats("norm", norm, 3)
        if 0 in self.norm:
            raise ValueError("norm: 0 would leave nothing of the picture")

    def __call__(self, index: int, in_size: Size, out_size: Size, rng: Any) -> Tuple[float, ...]:
        return self.norm


class ConstantOOBTransform(OOBTransform):
    """The same color, in 0..255, for every sample."""

    def __init__(self, oob: Numbers = (0.0, 0.0, 0.0)) -> None:
        self.oob = arg.floats("oob", oob, 3)

    def __call__(self, index: int, in_size: Size, out_size: Size, rng: Any) -> Tuple[float, ...]:
        return self.oob


class ConstantColorTransform(ColorTransform):
    """The same conversion for every sample, by its number (see ColorTransform)."""

    def __init__(self, index: int = 0) -> None:
        self.index = arg.number("index", index, ctypes.c_uint32, 0, 3)

    def __call__(self, index: int, in_size: Size, out_size: Size, rng: Any) -> int:
        return self.index


class ConstantWarpTransform(WarpTransform):
    """One matrix for every sample; by default the identity: the picture's top left corner, unscaled."""

    def __init__(self, warp: Sequence[float] = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)) -> None:
        if not arg.is_list(warp):
            raise TypeError("warp: %r is not nine numbers" % (warp,))
        self.warp = arg.floats("warp", warp, 9, ctypes.c_double)
        a, b, c, d, e, f, g, h, i = self.warp
        if a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g) == 0:
            raise ValueError("warp: %r is singular: it maps all pixels to a line" % (warp,))

    def __call__(self, index: int, in_size: Size, out_size: Size, rng: Any) -> Matrix:
        return self.warp


def _drawn(warp: Any, in_size: Size, out_size: Size, rng: Any) -> Matrix:
    matrix, err = (ctypes.c_double * 9)(), _c.new("error")
    check(lib.bzna_warp_draw(rng.struct, warp, *in_size, *out_size, matrix, err), err)
    return tuple(matrix)


class SimilarityTransform(WarpTransform):
    """A random crop, rotated, moved, mirrored and resized.

    scale            of the crop's area, (lo, hi), as fractions of the picture's; a number s means between s and 1/s
    ratio            of the crop's width to its height, in the same form; None: the picture's own
    degrees          of the rotation, (lo, hi); a number d means (-d, d)
    translate        at most these fractions of the output's width and height
    flip_h, flip_v   probabilities
    resize           True: the crop is scaled to the output; scale and ratio force it
    keep_ratio       True: by one factor both ways
    random_crop      True: anywhere, instead of centered
    crops            how the crop is drawn: "benzina", the original's (area log-uniform), or "torchvision" (area
                     uniform, whole pixels)

    >>> ops.SimilarityTransform(degrees=15, resize=True)
    SimilarityTransform(degrees=(-15.0, 15.0), resize=True)
    """

    def __init__(
        self,
        scale: Range = (1.0, 1.0),
        ratio: Optional[Range] = None,
        degrees: Range = 0.0,
        translate: Range = (0.0, 0.0),
        flip_h: float = 0.0,
        flip_v: float = 0.0,
        resize: bool = False,
        keep_ratio: bool = False,
        random_crop: bool = False,
        crops: Optional[Crops] = "benzina",
    ) -> None:
        def between(x: float) -> Tuple[float, float]:
            return (min(x, 1 / x), max(x, 1 / x)) if x > 0 else (x, x)
        self.scale: Any = arg.pair("scale", scale, between)
        self.ratio = None if ratio is None else tuple(sorted(arg.pair("ratio", ratio, between)))
        self.degrees = arg.pair("degrees", degrees, lambda d: (-abs(d), abs(d)))
        self.translate = arg.pair("translate", translate, lambda t: (t, t))
        self.flip_h = arg.number("flip_h", flip_h, ctypes.c_double, 0, 1)
        self.flip_v = arg.number("flip_v", flip_v, ctypes.c_double, 0, 1)
        self.resize = arg.flag("resize", resize) or self.scale != (1.0, 1.0) or ratio is not None
        self.keep_ratio, self.random_crop = arg.flag("keep_ratio", keep_ratio), arg.flag("random_crop", random_crop)
        if crops not in (None, *arg.OTHER_CHOICES["crops"]):
            raise ValueError("crops: %r is none of %s" % (crops, ", ".join(map(repr, arg.OTHER_CHOICES["crops"]))))
        self.crops = crops or "benzina"
        for what, values in (("scale", self.scale), ("ratio", self.ratio or (1,))):
            if min(values) <= 0 or list(values) != sorted(values):
                raise ValueError("%s: %r is not two positive numbers, the smaller one first" % (what, values))

    def _warp(self) -> Any:
        """The structs.warp of these parameters."""
        warp = self._flipped(_c.WARP_SIMILARITY)
        warp.scale[:], warp.ratio[:] = self.scale, self.ratio or (0, 0)
        warp.degrees[:], warp.translate[:] = self.degrees, self.translate
        warp.resize, warp.keep_ratio, warp.random_crop = self.resize, self.keep_ratio, self.random_crop
        return warp

    def _flipped(self, kind: int) -> Any:
        """What every kind has."""
        warp = _c.new("warp")
        warp.kind, warp.crops = kind, arg.OTHER_CHOICES["crops"][self.crops]
        warp.flip_h, warp.flip_v = self.flip_h, self.flip_v
        return warp

    def __call__(self, index: int, in_size: Size, out_size: Size, rng: Any) -> Matrix:
        return _drawn(self._warp(), in_size, out_size, rng)


class RandomResizedCrop(SimilarityTransform):
    """A random part of the picture, resized to the output: training.

    scale            the part's area as a fraction of the picture's, (lo, hi)
    ratio            of its width to its height, (lo, hi)
    flip_h           the probability of mirroring it
    crops            "torchvision", its RandomResizedCrop's, or "benzina", the original's (area log-uniform, parts of
                     pixels)

    >>> ops.RandomResizedCrop(scale=(0.2, 1.0))
    RandomResizedCrop(scale=(0.2, 1.0))
    """

    def __init__(self, scale: Range = (0.08, 1.0), ratio: Range = (3 / 4, 4 / 3), flip_h: float = 0.0,
                 crops: Optional[Crops] = "torchvision") -> None:
        _sensible_scale(scale, "the crop's area as a fraction of the picture's, (0.08, 1.0) by default")
        for what, given in (("scale", scale), ("ratio", ratio)):
            if not arg.is_list(given):
                raise TypeError("%s: %r is one number: give two, (lo, hi)" % (what, given))
            low, high = arg.pair(what, given, None)
            if low > high:
                raise ValueError("%s: %r: the smaller number comes first" % (what, (low, high)))
        SimilarityTransform.__init__(self, scale=scale, ratio=ratio, flip_h=flip_h, resize=True, random_crop=True,
                                     crops=crops or "torchvision")

    def _warp(self) -> Any:
        warp = self._flipped(_c.WARP_RANDOM_RESIZED_CROP)
        warp.scale[:], warp.ratio[:] = self.scale, self.ratio
        return warp


class CenterResizedCrop(SimilarityTransform):
    """The middle of the picture, resized to the output: evaluation.

    scale            the output's edge as a fraction of the resized picture's short edge: 224/256 resizes the short edge
                     to 256 and crops the middle 224 x 224, as torchvision's Resize(256) and CenterCrop(224) do; above
                     1, there is a margin
    keep_ratio       False: width and height are scaled by factors of their own, so that the middle of each is shown
    flip_h           the probability of mirroring it
    crops            "torchvision" (sizes and places in whole pixels) or "benzina", the original's (parts of pixels)

    >>> ops.CenterResizedCrop(224 / 256)
    CenterResizedCrop(scale=0.875)
    """

    def __init__(
        self, scale: float = 1.0, keep_ratio: bool = True, flip_h: float = 0.0, crops: Optional[Crops] = "torchvision"
    ) -> None:
        _sensible_scale(scale, "the fraction of the picture's short edge that is shown, such as 224/256")
        edge = arg.number("scale", scale, ctypes.c_double)
        SimilarityTransform.__init__(
            self, scale=(edge**2, edge**2), flip_h=flip_h, resize=True, keep_ratio=keep_ratio,
            crops=crops or "torchvision"
        )
        self.scale = edge

    def _warp(self) -> Any:
        warp = self._flipped(_c.WARP_CENTER_RESIZED_CROP if self.keep_ratio else _c.WARP_SIMILARITY)
        if self.keep_ratio:
            warp.scale[0] = self.scale
        else:
            warp.scale[:], warp.resize = (self.scale ** 2, self.scale ** 2), 1
        return warp


class Resize(CenterResizedCrop):
    """The whole picture, width and height each scaled to the output's, as torchvision's Resize((height, width)) does.

    >>> ops.Resize(flip_h=0.5)
    Resize(flip_h=0.5)
    """

    def __init__(self, flip_h: float = 0.0) -> None:
        CenterResizedCrop.__init__(self, keep_ratio=False, flip_h=flip_h)


def _is_resize(warp: Any) -> bool:
    """Whether a warp is torchvision's Resize, with or without CenterCrop."""
    return isinstance(warp, CenterResizedCrop) and warp.crops == "torchvision"


class MXNetAffine(WarpTransform):
    """The affine augmentation of MXNet's ImageRecordIter, by its parameters' names. Integers, fractions and pixels are
    as in MXNet. A min_aspect_ratio is not supported: the ratio is drawn between 1 - max_aspect_ratio and 1 +
    max_aspect_ratio. fill_value is DataLoader's oob, inter_method its inter_method."""

    def __init__(
        self,
        max_rotate_angle: float = 0,
        rotate: float = -1,
        max_shear_ratio: float = 0.0,
        min_random_scale: float = 1.0,
        max_random_scale: float = 1.0,
        max_aspect_ratio: float = 0.0,
        min_img_size: float = 0,
        max_img_size: float = 0,
        min_crop_size: int = -1,
        max_crop_size: int = -1,
        pad: int = 0,
        resize: int = -1,
        rand_crop: bool = False,
        crop_x_start: int = -1,
        crop_y_start: int = -1,
        mirror: bool = False,
        rand_mirror: bool = False,
    ) -> None:
        warp = self._struct = _c.new("warp")
        warp.kind = _c.WARP_MXNET
        mxnet = warp.mxnet
        real, whole = {}, {}
        for name, value in dict(
            max_rotate_angle=max_rotate_angle,
            rotate=rotate,
            max_aspect_ratio=max_aspect_ratio,
            min_img_size=min_img_size,
            max_img_size=max_img_size,
            min_random_scale=min_random_scale,
            max_random_scale=max_random_scale,
        ).items():
            real[name] = arg.number(name, value, ctypes.c_double)
        for name, value in dict(
            min_crop_size=min_crop_size,
            max_crop_size=max_crop_size,
            resize=resize,
            crop_x_start=crop_x_start,
            crop_y_start=crop_y_start,
        ).items():
            whole[name] = arg.number(name, value, ctypes.c_int32, -1)
        angle = abs(real["max_rotate_angle"])
        warp.degrees[:] = (rotate, rotate) if real["rotate"] > 0 else (-angle, angle)
        arg.put(mxnet, "shear_ratio", max_shear_ratio, "max_shear_ratio")
        warp.scale[:] = real["min_random_scale"], real["max_random_scale"]
        warp.ratio[:] = 1 - real["max_aspect_ratio"], 1 + real["max_aspect_ratio"]
        mxnet.canvas_px[:] = [
            arg.number(name, 0 if real[name] >= 1e6 else int(real[name]), ctypes.c_uint32)
            for name in ("min_img_size", "max_img_size")
        ]
        sizes = [size for size in (whole["min_crop_size"], whole["max_crop_size"]) if size > 0]
        mxnet.crop_px[:] = (min(sizes), max(sizes)) if sizes else (0, 0)
        arg.put(mxnet, "pad_px", pad, "pad")
        mxnet.short_edge_px, warp.random_crop = max(0, whole["resize"]), arg.flag("rand_crop", rand_crop)
        if crop_x_start >= 0 or crop_y_start >= 0:
            mxnet.has_crop_start, mxnet.crop_x_start, mxnet.crop_y_start = 1, max(0, crop_x_start), max(0, crop_y_start)
        warp.flip_h = 1.0 if arg.flag("mirror", mirror) else 0.5 if arg.flag("rand_mirror", rand_mirror) else 0.0

    def _warp(self) -> Any:
        return structs.warp.from_buffer_copy(self._struct)

    def __call__(self, index: int, in_size: Size, out_size: Size, rng: Any) -> Matrix:
        return _drawn(self._struct, in_size, out_size, rng)


class ColorJitter:
    """Random colors, for DataLoader's jitter: torchvision's ColorJitter (a number b means factors of (max(0, 1 - b), 1
    + b), a hue h shifts of (-h, h); in this order; in a list for augment, the order is random, as torchvision's) and
    the probability of its RandomGrayscale. Before them MXNet's random_h, random_l, random_s, after them its
    max_random_contrast and max_random_illumination. clamp_hue: random_h stops at red, as in MXNet."""

    def __init__(
        self,
        brightness: Range = 0,
        contrast: Range = 0,
        saturation: Range = 0,
        hue: Range = 0,
        grayscale: float = 0,
        random_h: float = 0,
        random_l: float = 0,
        random_s: float = 0,
        max_random_contrast: float = 0,
        max_random_illumination: float = 0,
        clamp_hue: bool = False,
    ) -> None:
        jitter = self._struct = _c.new("jitter")
        mxnet = self._mxnet = _c.new("mxnet")
        for name, value in (("brightness", brightness), ("contrast", contrast), ("saturation", saturation)):
            factors = arg.pair(name, value, lambda b: (max(0.0, 1 - b), 1 + b) if b >= 0 else (b, b))
            if not 0 <= factors[0] <= factors[1]:
                raise ValueError("%s: %r is neither a number from 0 on nor two, the smaller one first" % (name, value))
            if factors != (1, 1):
                getattr(jitter, name)[:] = factors
        jitter.hue[:] = arg.pair("hue", hue, lambda h: (-h, h))
        if not -0.5 <= jitter.hue[0] <= jitter.hue[1] <= 0.5:
            raise ValueError(
                "hue: %r is neither a number from 0 to 0.5 nor two from -0.5, the smaller one first" % (hue,)
            )
        arg.put(jitter, "grayscale", grayscale)
        mxnet.hls[:] = [arg.number(name, value, ctypes.c_float) for name, value in
                        (("random_h", random_h), ("random_l", random_l), ("random_s", random_s))]
        arg.put(mxnet, "contrast", max_random_contrast, "max_random_contrast")
        arg.put(mxnet, "illumination", max_random_illumination, "max_random_illumination")
        mxnet.clamp_hue = arg.flag("clamp_hue", clamp_hue)

    def __repr__(self) -> str:
        shown = (repr(self._struct)[len("bzna_jitter("):-1], repr(self._mxnet)[len("bzna_mxnet("):-1])
        return "ColorJitter(%s)" % ", ".join(filter(None, shown))

    def __getstate__(self) -> bytes:
        return bytes(self._struct) + bytes(self._mxnet)

    def __setstate__(self, state: bytes) -> None:
        self._struct = structs.jitter.from_buffer_copy(state)
        self._mxnet = structs.mxnet.from_buffer_copy(state, ctypes.sizeof(structs.jitter))

    def _add_mxnet(self, warp: Any) -> None:
        """Gives a structs.warp the colors that MXNet would draw."""
        for name in ("hls", "contrast", "illumination", "clamp_hue"):
            setattr(warp.mxnet, name, getattr(self._mxnet, name))

    def _as_policy(self) -> Policy:
        """As torchvision's, in random order, each rounded to 8 bits."""
        jitter, mxnet = self._struct, self._mxnet
        if jitter.grayscale or any(mxnet.hls) or mxnet.contrast or mxnet.illumination:
            raise ValueError(
                "augment: a ColorJitter there has brightness, contrast, saturation and hue alone: give "
                "ops.RandomGrayscale, "
                "or the whole as jitter="
            )
        pairs = [(name, tuple(getattr(jitter, name))) for name in ("brightness", "contrast", "saturation")]
        drawn = [
            Operation(name, (pair[0] - 1, pair[1] - 1))  # type: ignore[arg-type]
            for name, pair in pairs if any(pair)
        ]
        return Policy(drawn + ([Operation("hue", tuple(jitter.hue))] if any(jitter.hue) else []), "shuffle")

    def __call__(self, rng: Any, transform: Any) -> None:
        """Draws one jitter on top of the transform's, in a transform callback of one's own."""
        err = _c.new("error")
        check(lib.bzna_jitter_draw(rng.struct, self._struct, self._mxnet, transform, err), err)


from . import _geometry  # noqa: E402           which is made of what is above
from ._geometry import CenterCrop as CenterCrop  # noqa: E402
from ._geometry import Compose as Compose  # noqa: E402
from ._geometry import RandomAffine as RandomAffine  # noqa: E402
from ._geometry import RandomCrop as RandomCrop  # noqa: E402
from ._geometry import RandomHorizontalFlip as RandomHorizontalFlip  # noqa: E402
from ._geometry import RandomPerspective as RandomPerspective  # noqa: E402
from ._geometry import RandomRotation as RandomRotation  # noqa: E402
from ._geometry import RandomVerticalFlip as RandomVerticalFlip  # noqa: E402

for _module in (_augment, _geometry):
    for _kind in vars(_module).copy().values():
        if isinstance(_kind, type) and _kind in globals().values() and _kind.__module__ == _module.__name__:
            _kind.__module__ = __name__         # where users and pickles find them
