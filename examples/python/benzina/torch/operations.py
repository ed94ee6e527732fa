"""The original's operations, by its names, arguments and defaults. benzina.ops has more of them.

    >>> import benzina.torch.operations as operations
    >>> operations.SimilarityTransform(scale=(0.08, 1.0), ratio=(3/4, 4/3), flip_h=0.5, random_crop=True)
    SimilarityTransform(scale=(0.08, 1.0), ratio=(0.75, 1.3333333333333333), flip_h=0.5, resize=True, random_crop=True)

Operations are called with (index, in_shape, out_shape, rng). Both shapes are (width, height) in pixels, and rng is a
numpy.random.RandomState, as there. Crops are drawn as in the original: their area is log-uniform. Unlike there, a
crop that was not found leaves random_crop as it was.
"""
from __future__ import annotations

from typing import Any, Iterable, Optional, Sequence, Tuple, Union

from .. import ops
from .._random import Random
from .._settings import LIBRARY_WARPS
from .._types import Numbers, Range, Size
from ..ops import BiasTransform, ColorTransform, Matrix, NormTransform, OOBTransform, WarpTransform

__all__ = [
    "BiasTransform",
    "CenterResizedCrop",
    "ColorTransform",
    "Compose",
    "ConstantBiasTransform",
    "ConstantColorTransform",
    "ConstantNormTransform",
    "ConstantOOBTransform",
    "ConstantWarpTransform",
    "NormTransform",
    "OOBTransform",
    "RandomResizedCrop",
    "SimilarityTransform",
    "WarpTransform",
    "compute_affine_matrix",
]

_IDENTITY = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)


class ConstantWarpTransform(ops.ConstantWarpTransform):
    """One matrix for every sample, nine numbers row by row from output to input pixels; None: the identity."""

    def __init__(self, warp: Optional[Sequence[float]] = _IDENTITY) -> None:
        super().__init__(_IDENTITY if warp is None else warp)


class ConstantBiasTransform(ops.ConstantBiasTransform):
    """What is subtracted from R, G, B; None: nothing."""

    def __init__(self, bias: Optional[Numbers] = (0.0, 0.0, 0.0)) -> None:
        super().__init__(0.0 if bias is None else bias)


class ConstantNormTransform(ops.ConstantNormTransform):
    """What R, G, B are multiplied by; None: nothing. A standard deviation divides: give its reciprocal."""

    def __init__(self, norm: Optional[Numbers] = (1.0, 1.0, 1.0)) -> None:
        super().__init__(1.0 if norm is None else norm)


class ConstantOOBTransform(ops.ConstantOOBTransform):
    """The color of what lies outside the picture; None: black."""

    def __init__(self, oob: Optional[Numbers] = (0.0, 0.0, 0.0)) -> None:
        super().__init__(0.0 if oob is None else oob)


class ConstantColorTransform(ops.ConstantColorTransform):
    """The conversion to RGB, by its number (see benzina.ops.ColorTransform); None: 0."""

    def __init__(self, index: Union[None, int, Sequence[int]] = 0) -> None:
        if index is not None and not hasattr(index, "__index__"):
            (index,) = index
        super().__init__(0 if index is None else index)     # type: ignore[arg-type]


def _library_random(rng: Any) -> Any:
    """Numbers of the library's for who calls a warp with a numpy.random.RandomState."""
    return rng if hasattr(rng, "struct") else Random(seed=int(rng.randint(2**32, dtype="uint64")))


def _also(name: str) -> Any:
    return property(lambda self: getattr(self, name), doc=name)


class _Original(WarpTransform):
    """Arguments by the attributes that the original keeps them in; random numbers of numpy's."""

    s, ar, r, t, fh, fv = map(_also, ("scale", "ratio", "degrees", "translate", "flip_h", "flip_v"))

    def __call__(self, index: int, in_shape: Size, out_shape: Size, rng: Any) -> Matrix:
        matrix: Matrix = super().__call__(index, in_shape, out_shape, _library_random(rng))     # type: ignore[misc]
        return matrix


class SimilarityTransform(_Original, ops.SimilarityTransform):
    """A random crop, turned, moved, mirrored and resized. Arguments are those of benzina.ops.SimilarityTransform,
    without crops."""

    def __init__(self, scale: Range = (+1.0, +1.0), ratio: Optional[Range] = None, degrees: Range = (-0.0, +0.0),
                 translate: Range = (+0.0, +0.0), flip_h: float = +0.0, flip_v: float = +0.0, resize: bool = False,
                 keep_ratio: bool = False, random_crop: bool = False) -> None:
        if not isinstance(degrees, Sequence) and degrees < 0:
            raise ValueError("degrees: %r: one number must not be negative" % (degrees,))
        super().__init__(
            scale=scale,
            ratio=ratio,
            degrees=degrees,
            translate=translate,
            flip_h=flip_h,
            flip_v=flip_v,
            resize=resize,
            keep_ratio=keep_ratio,
            random_crop=random_crop,
        )


class RandomResizedCrop(_Original, ops.RandomResizedCrop):
    """A random part of the picture, resized to the output."""

    def __init__(self, scale: Range = (+0.08, +1.0), ratio: Range = (3. / 4., 4. / 3.)) -> None:
        ops.SimilarityTransform.__init__(self, scale=scale, ratio=ratio, resize=True, random_crop=True, crops="benzina")


class CenterResizedCrop(_Original, ops.CenterResizedCrop):
    """The middle of the picture, resized to the output. scale: of its edges."""

    def __init__(self, scale: float = +1.0, keep_ratio: bool = True) -> None:
        super().__init__(scale=scale, keep_ratio=keep_ratio, crops="benzina")

    @property
    def s(self) -> Any:
        return self.scale ** 2, self.scale ** 2


LIBRARY_WARPS.update((SimilarityTransform, RandomResizedCrop, CenterResizedCrop))


class Compose(WarpTransform):
    """Warps one after the other, as one: a picture goes through the first one, what comes out through the next. Each
    makes pictures of the output's size. Pixels are computed once, so that nothing is lost in between. A Compose is
    called in Python.

    >>> both = Compose([CenterResizedCrop(224 / 256), SimilarityTransform(degrees=15)])
    >>> twice = Compose([ConstantWarpTransform((2, 0, 0, 0, 2, 0, 0, 0, 1))] * 2)
    >>> [round(x, 3) + 0.0 for x in twice(0, (64, 64), (16, 16), None)]
    [4.0, 0.0, 0.0, 0.0, 4.0, 0.0, 0.0, 0.0, 1.0]
    """

    def __init__(self, transforms: Iterable[Any]) -> None:
        self.transforms = list(transforms)
        for number, one in enumerate(self.transforms):
            for kind, where in (
                (BiasTransform, "bias_transform"),
                (NormTransform, "norm_transform"),
                (OOBTransform, "oob of benzina.DataLoader"),
                (ColorTransform, "color of benzina.DataLoader"),
            ):
                if isinstance(one, kind):
                    raise TypeError("transforms[%d]: %r is no warp: it goes to %s" % (number, one, where))
            if not callable(one):
                raise TypeError("transforms[%d]: %r cannot be called" % (number, one))

    def __call__(self, index: int, in_shape: Size, out_shape: Size, rng: Any) -> Matrix:
        whole: Matrix = _IDENTITY
        for one in self.transforms:
            whole = _product(whole, tuple(one(index, in_shape, out_shape, rng)))
            in_shape = out_shape
        return whole


def _product(a: Matrix, b: Matrix) -> Matrix:
    return tuple(sum(a[3 * row + k] * b[3 * k + column] for k in range(3)) for row in range(3) for column in range(3))


def compute_affine_matrix(in_shape: Size, out_shape: Size, crop: Optional[Sequence[float]] = None, degrees: float = 0.0,
                          translate: Tuple[float, float] = (0.0, 0.0), flip_h: bool = False, flip_v: bool = False,
                          resize: bool = False, keep_ratio: bool = False) -> Any:
    """The warp that these make together: a numpy array of 3 x 3.

    >>> (compute_affine_matrix((100, 100), (50, 50), resize=True).round(3) + 0).tolist()
    [[2.0, 0.0, 0.5], [0.0, 2.0, 0.5], [0.0, 0.0, 1.0]]
    """
    import numpy
    return numpy.array(
        ops.compute_affine_matrix(in_shape, out_shape, crop, degrees, translate, flip_h, flip_v, resize, keep_ratio)
    ).reshape(3, 3)
