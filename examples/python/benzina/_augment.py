"""Policies: random operations behind the crop. They are members of benzina.ops, by torchvision's names."""
from __future__ import annotations

import ctypes
import statistics
import struct
from typing import Any, List, Literal, NamedTuple, Optional, Sequence, Tuple, Union

from . import _arguments as arg
from . import _c
from ._c import formats, lib, structs
from ._errors import check
from ._shown import Shown
from ._types import Numbers, OperationKind, PolicyApply, Range, Size

KINDS = arg.OTHER_CHOICES["operation"]
NAMES = {number: name for name, number in KINDS.items()}
_POLICY_APPLY = {"apply": arg.OTHER_CHOICES["policy_apply"]}
_VALUES = {"value": 0.0, "value_space": "RGB", "noise": 0.0}


def _same(value: float) -> Tuple[float, float]:
    return value, value


class Operation(Shown):
    """One operation of a Policy.

    kind             "shear_x", "shear_y", "translate_x", "translate_y", "translate_x_px", "translate_y_px", "rotate";
                     "brightness", "contrast", "saturation", "hue", "gamma", "posterize", "solarize", "solarize_add",
                     "invert", "grayscale", "lighting", "shuffle"; "autocontrast", "equalize", "sharpness", "blur";
                     "erase", "cutout", "grid_mask"; "identity"
    magnitude        (lo, hi), or a number for both, in the units that benzina.h names at BZNA_OP_...: brightness,
                     contrast, saturation and sharpness have the factor less 1, shears the tangent, translate a share of
                     the output's size
    p                probability
    sign             True: half of the time, the magnitude is negated
    kernel_size      of "blur": an odd number of pixels; 0: 23
    ratio            of "erase": height by width, (lo, hi); of "grid_mask": (a square's edge by the period, 0). (0, 0):
                     the defaults
    value, noise     the color that covers pixels, and the standard deviation of noise around it
    value_space      "RGB": both in 0..255; "output": in units of the output, where 0 is the mean color

    >>> ops.Operation("rotate", (5, 30), sign=True)
    Operation(kind='rotate', magnitude=(5.0, 30.0), sign=True)
    """

    def __init__(
        self,
        kind: OperationKind,
        magnitude: Range = (0.0, 0.0),
        *,
        p: float = 1.0,
        sign: bool = False,
        kernel_size: int = 0,
        ratio: Range = (0.0, 0.0),
        value: Numbers = 0.0,
        value_space: Literal["RGB", "output"] = "RGB",
        noise: float = 0.0,
    ) -> None:
        self.kind = kind
        arg.choice("kind", kind, {"kind": KINDS})
        self.magnitude = arg.pair("magnitude", magnitude, _same)
        self.p = arg.number("p", p, ctypes.c_float, 0, 1)
        self.sign = arg.flag("sign", sign)
        self.kernel_size = arg.number("kernel_size", kernel_size, ctypes.c_uint32)
        self.ratio = arg.pair("ratio", ratio, lambda one: (one, 0.0))
        self.value, self.noise = value, arg.number("noise", noise, ctypes.c_float, 0)
        self.value_space = value_space
        arg.floats("value", value, 3)
        arg.choice("value_space", value_space, arg.OTHER_CHOICES)

    def _struct(self) -> Any:
        made = structs.operation()
        made.kind = KINDS[self.kind] if self.p else _c.OP_IDENTITY             # to C, a probability of 0 is the default
        made.sign, made.probability, made.kernel_px = self.sign, self.p, self.kernel_size
        made.magnitude[:], made.ratio[:], made.value[:] = self.magnitude, self.ratio, arg.floats("value", self.value, 3)
        made.value_space, made.noise = arg.choice("value_space", self.value_space, arg.OTHER_CHOICES), self.noise
        return made


class Policy(Shown):
    """Random operations, and how many of them are drawn: the general form of the other classes here, and a member of
    DataLoader's augment.

    operations       Operations
    apply            "all": all of them, in order; "shuffle": each at most once, in random order; "choose": each draw is
                     any of them
    draws            how many draws; 0: all, or one with "choose"
    group_size       the number of consecutive operations that are drawn together, each with its own probability
    bins, bin        magnitudes are one of this many evenly spaced values from the lower to the higher one: any from
                     number bin[0] to bin[1]. 0: any number between the two
    p                the probability of drawing any

    >>> ops.Policy([ops.Operation("invert"), ops.Operation("solarize", (100, 200))], "choose", p=0.5)
    Policy(operations=[Operation(kind='invert'), Operation(kind='solarize', magnitude=(100.0, 200.0))], apply='choose',
    p=0.5)
    """

    def __init__(
        self,
        operations: Sequence[Operation],
        apply: PolicyApply = "all",
        draws: int = 0,
        *,
        group_size: int = 1,
        bins: int = 0,
        bin: Tuple[int, int] = (0, 0),
        p: float = 1.0,
    ) -> None:
        self._set(operations, apply, draws, group_size, bins, bin, p)

    def _set(
        self,
        operations: Sequence[Operation],
        apply: PolicyApply = "all",
        draws: int = 0,
        group_size: int = 1,
        bins: int = 0,
        bin: Tuple[int, int] = (0, 0),
        p: float = 1.0,
    ) -> None:
        operations = list(operations)
        for operation in operations:
            if not isinstance(operation, Operation):
                raise TypeError("operations: %r is no Operation" % (operation,))
        self.operations, self.apply, self.draws, self.bins = operations, apply, draws, bins
        self.group_size, self.bin = group_size, tuple(bin)
        self.p = self._p = arg.number("p", p, ctypes.c_float, 0, 1)    # as it was given, and as C is told
        arg.choice("apply", apply, _POLICY_APPLY)
        self._policy()                          # refuses what C's types do not hold

    def _policy(self) -> Tuple[Any, Any]:
        """The structs.policy, and what must live as long."""
        made, operations = structs.policy(), (structs.operation * len(self.operations))()
        for i, operation in enumerate(self.operations):
            operations[i] = operation._struct()
        made.operations, made.operation_count = ctypes.addressof(operations), len(operations)
        made.apply, made.probability = arg.choice("apply", self.apply, _POLICY_APPLY), self._p
        for name in ("group_size", "draws", "bins"):
            arg.put(made, name, getattr(self, name))
        made.bin[:] = [arg.number("bin", one, ctypes.c_uint32) for one in self.bin]
        return made, operations

    def _policies(self) -> List[Tuple[Any, Any]]:
        return [self._policy()] if self._p and self.operations else []

    def __call__(self, rng: Any, transform: Any, out_size: Size) -> None:
        """Draws once, and adds the operations to a transform, in a transform callback of one's own. out_size: (width,
        height)."""
        augment, kept = structs.loader_augment(), set_augment(None, self, False)
        augment.policies, augment.policy_count = ctypes.addressof(kept[0]), len(kept[0])
        err = _c.new("error")
        check(lib.bzna_augment_draw(rng.struct, augment, *arg.size("out_size", out_size), transform, err), err)


class _Preset(Policy):
    """One that C knows."""

    def _take(self, preset: int, draws: int, magnitude: int, bins: int, bin: Tuple[int, int]) -> None:
        made, err = structs.policy(), _c.new("error")
        check(formats.bzna_formats_policy_preset(preset, draws, magnitude, made, err), err)
        known = (structs.operation * made.operation_count).from_address(made.operations)
        operations = [
            Operation(NAMES[one.kind], tuple(one.magnitude), p=one.probability or 1, sign=bool(one.sign))
            for one in known
        ]
        applied = {number: name for name, number in _POLICY_APPLY["apply"].items()}
        self._set(
            operations,
            applied[made.apply],
            made.draws,
            made.group_size or 1,
            bins or made.bins,
            bin if bins else tuple(made.bin),
        )


class RandAugment(_Preset):
    """num_ops operations of 14, each of this magnitude, as torchvision's RandAugment draws them.

    Its interpolation is the loader's filter, and its fill the loader's oob. Operations that move pixels join the crop
    and come first.

    >>> ops.RandAugment(num_ops=2, magnitude=9)
    RandAugment()
    """

    def __init__(self, num_ops: int = 2, magnitude: int = 9, num_magnitude_bins: int = 31) -> None:
        self.num_ops = arg.number("num_ops", num_ops, ctypes.c_uint32, 1, _c.OPERATIONS_MAX)
        self.num_magnitude_bins = arg.number("num_magnitude_bins", num_magnitude_bins, ctypes.c_uint32, 2)
        self.magnitude = arg.number("magnitude", magnitude, ctypes.c_uint32, 0, self.num_magnitude_bins - 1)
        self._take(_c.PRESET_RAND_AUGMENT, self.num_ops, 0, self.num_magnitude_bins, _twice(self.magnitude))


class TrivialAugmentWide(_Preset):
    """One operation of 14, of any magnitude, as torchvision's TrivialAugmentWide draws it.

    >>> ops.TrivialAugmentWide()
    TrivialAugmentWide()
    """

    def __init__(self, num_magnitude_bins: int = 31) -> None:
        self.num_magnitude_bins = arg.number("num_magnitude_bins", num_magnitude_bins, ctypes.c_uint32, 2)
        self._take(_c.PRESET_TRIVIAL_WIDE, 0, 0, self.num_magnitude_bins, (0, self.num_magnitude_bins - 1))


# AutoAugment's pairs of operations for two other data sets: kind, probability in tenths, number of its magnitude.
_AUTO_TABLES = {
    "cifar10": """
        invert 1, contrast 2 6;       rotate 7 2, translate_x 3 9;  sharpness 8 1, sharpness 9 3;
        shear_y 5 8, translate_y 7 9; autocontrast 5, equalize 9;   shear_y 2 7, posterize 3 7;
        saturation 4 3, brightness 6 7; sharpness 3 9, brightness 7 9; equalize 6, equalize 5;
        contrast 6 7, sharpness 6 5;  saturation 7 7, translate_x 5 8; equalize 3, autocontrast 4;
        translate_y 4 3, sharpness 2 6; brightness 9 6, saturation 2 8; solarize 5 2, invert 0;
        equalize 2, autocontrast 6;   equalize 2, equalize 6;       saturation 9 9, equalize 6;
        autocontrast 8, solarize 2 8; brightness 1 3, saturation 7 0; solarize 4 5, autocontrast 9;
        translate_y 9 9, translate_y 7 9; autocontrast 9, solarize 8 3; equalize 8, invert 1;
        translate_y 7 9, autocontrast 9""",
    "svhn": """
        shear_x 9 4, invert 2;        shear_y 9 8, invert 7;        equalize 6, solarize 6 6;
        invert 9, equalize 6;         equalize 6, rotate 9 3;       shear_x 9 4, autocontrast 8;
        shear_y 9 8, invert 4;        shear_y 9 5, solarize 2 6;    invert 9, autocontrast 8;
        equalize 6, rotate 9 3;       shear_x 9 4, solarize 3 3;    shear_y 8 8, invert 7;
        equalize 9, translate_y 6 6;  invert 9, equalize 6;         contrast 3 3, rotate 8 4;
        invert 8, translate_y 0 2;    shear_y 7 6, solarize 4 8;    invert 6, rotate 8 4;
        shear_y 3 7, translate_x 9 3; shear_x 1 6, invert 6;        solarize 7 2, translate_y 6 7;
        shear_y 8 4, invert 8;        shear_x 7 9, translate_y 8 3; shear_y 8 5, autocontrast 7;
        shear_x 7 2, invert 1""",
}
# What the ten magnitudes of these tables lead up to. "posterize" and "solarize" are computed.
_AUTO_MOST = {"shear_x": 0.3, "shear_y": 0.3, "translate_x": 150 / 331, "translate_y": 150 / 331, "rotate": 30.0,
              "brightness": 0.9, "saturation": 0.9, "contrast": 0.9, "sharpness": 0.9}


def _auto_operation(text: str) -> Operation:
    kind, tenths, *number = text.split()
    step, p = int(number[0]) if number else 0, int(tenths) / 10
    if kind in _AUTO_MOST:
        return Operation(kind, _AUTO_MOST[kind] * step / 9, p=p, sign=p > 0)     # type: ignore[arg-type]
    magnitude = {"posterize": 8 - round(step * 4 / 9), "solarize": 255 * (9 - step) / 9}.get(kind, 0)
    return Operation(kind, magnitude, p=p)      # type: ignore[arg-type]


class AutoAugment(_Preset):
    """One of 25 pairs of operations, as torchvision's AutoAugment draws them. policy: "imagenet", "cifar10" or "svhn",
    or torchvision's AutoAugmentPolicy.

    >>> ops.AutoAugment("cifar10")
    AutoAugment(policy='cifar10')
    """

    def __init__(self, policy: Any = "imagenet") -> None:
        self.policy = getattr(policy, "value", policy)
        if self.policy == "imagenet":
            self._take(_c.PRESET_AUTO_IMAGENET, 0, 0, 0, (0, 0))
            return
        if self.policy not in _AUTO_TABLES:
            raise ValueError(
                "policy: %r is none of 'imagenet', 'cifar10', 'svhn'; a Policy with group_size=2 makes others"
                % (self.policy,)
            )
        pairs = _AUTO_TABLES[self.policy].split(";")
        self._set([_auto_operation(one) for pair in pairs for one in pair.split(",")], "choose", group_size=2)


# timm's operations, and what they make of a level, which is a tenth of a magnitude.
_TIMM_SAME: List[Tuple[str, Any]] = [
    ("autocontrast", None), ("equalize", None), ("invert", None), ("rotate", 30.0), ("solarize_add", 110.0),
    ("shear_x", 0.3), ("shear_y", 0.3), ("translate_x", 0.45), ("translate_y", 0.45),
]
_TIMM_CHANGING = ("posterize", "solarize", "saturation", "contrast", "brightness", "sharpness")
_TIMM_STEPS = 17                                # parts of a normal distribution: 15 operations fill 256 places


def _timm_operation(kind: str, factor: Any, levels: Tuple[float, float], p: float, inc: bool) -> Operation:
    """levels: (lo, hi). timm cuts some numbers to whole ones, which are drawn half a step beside them here."""
    is_fixed = levels[0] == levels[1]

    def whole(x: float, most: float) -> float:
        return min(most, float(int(x)) if is_fixed else max(0.0, x - 0.5))
    if kind == "posterize":
        ends = [4 - int(4 * x) if is_fixed and inc else 4.5 - 4 * x if inc else whole(4 * x, 8) for x in levels]
        return Operation("posterize", tuple(min(8.0, max(0.0, end)) for end in ends), p=p)
    if kind == "solarize":
        ends = [min(256.0, float(int(256 * x)) if is_fixed else 256 * x) for x in levels]
        ends = [256 - end if inc else end if is_fixed else max(0.0, end - 1) for end in ends]
        return Operation("solarize", tuple(ends), p=p)
    if kind == "solarize_add":
        return Operation("solarize_add", tuple(whole(factor * x, 128) for x in levels), p=p)
    if kind in _TIMM_CHANGING:
        ends = [min(0.9 * x, 0.9) if inc else 1.8 * x - 0.9 for x in levels]
        return Operation(kind, tuple(ends), p=p, sign=inc)      # type: ignore[arg-type]
    if factor is None:
        return Operation(kind, p=p)             # type: ignore[arg-type]
    return Operation(kind, tuple(factor * x for x in levels), p=p, sign=True)   # type: ignore[arg-type]


class TimmRandAugment(Policy):
    """timm's RandAugment, by the string that its scripts have for --aa; augment takes the string, too. Its sections are
    m, mstd, mmax, n, p and inc. A magnitude that mstd varies is drawn from 17 equally likely parts of its normal
    distribution, evenly within each.

    >>> ops.TimmRandAugment("rand-m9-mstd0.5-inc1")
    TimmRandAugment(config_str='rand-m9-mstd0.5-inc1')
    """

    def __init__(self, config_str: str) -> None:
        self.config_str = config_str
        kind, *sections = config_str.split("-")
        if kind != "rand":
            raise ValueError("config_str: %r: only timm's 'rand-...' is here; ops.AutoAugment and ops.AugMix are others"
                             % (config_str,))
        known = {"m": 10.0, "mstd": 0.0, "mmax": 10.0, "n": 2.0, "p": 0.5, "inc": 0.0}
        for section in sections:
            name = section.rstrip("0123456789.")
            try:
                known[name] = known[name] * 0 + float(section[len(name):])
            except (KeyError, ValueError):
                raise ValueError("config_str: %r: %r is none of %s with a number"
                                 % (config_str, section, ", ".join(known))) from None
        magnitude, most = known["m"], known["mmax"] or 10.0
        if known["mstd"] > 100:                 # any up to the magnitude
            parts = [(0.0, magnitude)]
        elif known["mstd"]:
            normal, steps = statistics.NormalDist(magnitude, known["mstd"]), _TIMM_STEPS
            edges = [normal.inv_cdf(i / steps) for i in range(1, steps)]
            edges = [magnitude - 3 * known["mstd"], *edges, magnitude + 3 * known["mstd"]]
            parts = list(zip(edges, edges[1:]))
        else:
            parts = [(magnitude, magnitude)]
        levels = [tuple(max(0.0, min(end, most)) / 10 for end in part) for part in parts]
        kinds = [*_TIMM_SAME, *((kind, None) for kind in _TIMM_CHANGING)]
        self._set(
            [
                _timm_operation(kind, factor, level, known["p"], bool(known["inc"]))        # type: ignore[arg-type]
                for kind, factor in kinds for level in levels
            ],
            "choose",
            arg.number("n", int(known["n"]), ctypes.c_uint32, 1, _c.OPERATIONS_MAX),
        )


class AugMix(Shown):
    """torchvision's: mixture_width copies of a picture, each changed by a chain of operations, are mixed with it. A
    DataLoader's augment has it alone. The loader makes all as views of one crop and mixes them on delivery; batches()
    has them as they are. It draws in Python, and decodes once.

    severity         magnitudes are any of the lowest so many of ten
    chain_depth      operations in a chain; -1: any number from 1 to 3
    alpha            of the Dirichlet distributions of the weights
    all_ops          True: brightness, contrast, color and sharpness are among the operations

    >>> ops.AugMix()
    AugMix()
    """

    def __init__(self, severity: int = 3, mixture_width: int = 3, chain_depth: int = -1, alpha: float = 1.0,
                 all_ops: bool = True) -> None:
        self.severity = arg.number("severity", severity, ctypes.c_uint32, 1, 10)
        self.mixture_width = arg.number("mixture_width", mixture_width, ctypes.c_uint32, 1, 15)
        self.chain_depth = arg.number("chain_depth", chain_depth, ctypes.c_int32, -1, _c.OPERATIONS_MAX)
        self.alpha = arg.number("alpha", alpha, ctypes.c_double, 1e-3, 1e3)
        self.all_ops = arg.flag("all_ops", all_ops)

    def chain(self, depth: int) -> Policy:
        """The Policy of a chain of so many operations."""
        moves: Any = {"shear_x": 0.3, "shear_y": 0.3, "translate_x": 1 / 3, "translate_y": 1 / 3, "rotate": 30.0}
        signed = {**moves, **dict.fromkeys(("brightness", "saturation", "contrast", "sharpness"), 0.9)}
        chosen = signed if self.all_ops else moves
        operations = [Operation(kind, (0, most), sign=True) for kind, most in chosen.items()]
        operations += [Operation("posterize", (4, 0)), Operation("solarize", (255, 0))]
        operations += [Operation("autocontrast"), Operation("equalize")]
        return Policy(operations, "choose", depth, bins=10, bin=(0, self.severity - 1))


def _twice(number: int) -> Tuple[int, int]:
    return number, number


class GaussianBlur(Policy):
    """torchvision's: kernel_size pixels, an odd number up to 63; sigma is drawn from (lo, hi), or a number.

    >>> ops.RandomApply([ops.GaussianBlur(23, sigma=(0.1, 2.0))], p=0.5)
    RandomApply(transforms=[GaussianBlur(kernel_size=23)])
    """

    def __init__(self, kernel_size: int, sigma: Range = (0.1, 2.0)) -> None:
        self.kernel_size, self.sigma = arg.number("kernel_size", kernel_size, ctypes.c_uint32, 1, 63), arg.pair(
            "sigma", sigma, _same
        )
        if self.kernel_size % 2 == 0:
            raise ValueError("kernel_size: %d is even" % self.kernel_size)
        self._set([Operation("blur", self.sigma, kernel_size=self.kernel_size)])


class RandomErasing(Policy):
    """torchvision's RandomErasing, which its scripts apply after Normalize: a rectangle is covered with probability p.

    scale            its share of the area, (lo, hi); ratio: height by width, (lo, hi)
    value            a number, or three, in units of the output: 0 is the mean color if mean or bias is given, else
                     black. "random": a normal number of deviation 1 for each channel of each pixel

    >>> ops.RandomErasing(0.25)
    RandomErasing(p=0.25)
    """

    def __init__(
        self, p: float = 0.5, scale: Range = (0.02, 0.33), ratio: Range = (0.3, 3.3), value: Union[Numbers, str] = 0
    ) -> None:
        self.scale, self.ratio, self.value = arg.pair("scale", scale, _same), arg.pair("ratio", ratio, _same), value
        if isinstance(value, str) and value != "random":
            raise ValueError("value: %r is neither 'random' nor numbers" % (value,))
        is_random = isinstance(value, str)
        self._set(
            [
                Operation(
                    "erase",
                    self.scale,
                    ratio=self.ratio,
                    value=0 if is_random else value,  # type: ignore[arg-type]
                    value_space="output",
                    noise=float(is_random),
                )
            ],
            p=p,
        )


class _Simple(Policy):
    """One operation of a fixed magnitude, with a probability."""

    def _one(self, kind: OperationKind, p: float, magnitude: float = 0.0) -> None:
        self._set([Operation(kind, magnitude)], p=p)


class RandomSolarize(_Simple):
    """torchvision's: pixels at threshold and above are inverted, with probability p."""

    def __init__(self, threshold: float, p: float = 0.5) -> None:
        self.threshold = arg.number("threshold", threshold, ctypes.c_float, 0, 256)
        self._one("solarize", p, self.threshold)


class RandomPosterize(_Simple):
    """torchvision's: bits of each channel are kept, with probability p."""

    def __init__(self, bits: int, p: float = 0.5) -> None:
        self.bits = arg.number("bits", bits, ctypes.c_uint32, 0, 8)
        self._one("posterize", p, self.bits)


class RandomAdjustSharpness(_Simple):
    """torchvision's: 0 blurs, 1 changes nothing, 2 sharpens, with probability p."""

    def __init__(self, sharpness_factor: float, p: float = 0.5) -> None:
        self.sharpness_factor = arg.number("sharpness_factor", sharpness_factor, ctypes.c_float, 0)
        self._one("sharpness", p, self.sharpness_factor - 1)


class RandomInvert(_Simple):
    """torchvision's: 255 - x, with probability p."""

    def __init__(self, p: float = 0.5) -> None:
        self._one("invert", p)


class RandomGrayscale(_Simple):
    """torchvision's: three equal channels, with probability p."""

    def __init__(self, p: float = 0.1) -> None:
        self._one("grayscale", p)


class RandomAutocontrast(_Simple):
    """torchvision's: each channel is stretched to 0..255, with probability p."""

    def __init__(self, p: float = 0.5) -> None:
        self._one("autocontrast", p)


class RandomEqualize(_Simple):
    """torchvision's: each channel's histogram is made even, with probability p."""

    def __init__(self, p: float = 0.5) -> None:
        self._one("equalize", p)


class RandomChannelPermutation(_Simple):
    """torchvision's: the channels in any order."""

    def __init__(self) -> None:
        self._one("shuffle", 1.0)


class Lighting(_Simple):
    """AlexNet's: the principal components of ImageNet's colors are added, times normal numbers of deviation
    alphastd."""

    def __init__(self, alphastd: float = 0.1) -> None:
        self.alphastd = arg.number("alphastd", alphastd, ctypes.c_float, 0)
        self._one("lighting", 1.0, self.alphastd)


class Cutout(Policy):
    """A square is covered with probability p. size: its edge as a share of the output's shorter one; it may be partly
    outside. value: a number, or three, in units of the output, as of RandomErasing."""

    def __init__(self, size: Range = 0.5, p: float = 1.0, value: Numbers = 0) -> None:
        self.size, self.value = arg.pair("size", size, _same), value
        self._set([Operation("cutout", self.size, value=value, value_space="output")], p=p)


class GridMask(Policy):
    """A grid of squares is covered with probability p. period: of the grid, as a share of the output's shorter edge,
    (lo, hi); ratio: a square's edge as a share of the period. value: as of Cutout."""

    def __init__(self, period: Range = (0.43, 1.0), ratio: float = 0.5, p: float = 1.0, value: Numbers = 0) -> None:
        self.period, self.ratio, self.value = arg.pair("period", period, _same), ratio, value
        self._set([Operation("grid_mask", self.period, ratio=ratio, value=value, value_space="output")], p=p)


class _Container(Policy):
    """One made of others, each of which has all its operations in order."""

    def _collect(self, transforms: Sequence[Any], apply: PolicyApply, p: float = 1.0) -> None:
        self.transforms = list(transforms)
        inner = [_as_policy(one) for one in self.transforms]
        if len(inner) == 1 and apply == "all":
            one = inner[0]
            self._set(one.operations, one.apply, one.draws, one.group_size, one.bins, one.bin, p * one._p)
            return
        operations = []
        for given, policy in zip(self.transforms, inner):
            many = len(policy.operations) > 1
            if policy.apply != "all" or policy.bins or (many and (policy._p != 1 or apply != "all")):
                raise ValueError("transforms: %r cannot be one of several in a %s" % (given, type(self).__name__))
            for operation in policy.operations:
                own = Operation(operation.kind)
                vars(own).update(vars(operation), p=operation.p * policy._p)
                operations.append(own)
        self._set(operations, apply, p=p)


class RandomApply(_Container):
    """torchvision's RandomApply: all transforms with probability p, else none.

    >>> simclr = [ops.RandomApply([ops.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8), ops.RandomGrayscale(0.2),
    ...           ops.GaussianBlur(23)]
    """

    def __init__(self, transforms: Sequence[Any], p: float = 0.5) -> None:
        self._collect(transforms, "all", arg.number("p", p, ctypes.c_float, 0, 1))
        self.p = p


class RandomChoice(_Container):
    """torchvision's RandomChoice: one of the transforms, each with the same probability."""

    def __init__(self, transforms: Sequence[Any]) -> None:
        self._collect(transforms, "choose")


class RandomOrder(_Container):
    """torchvision's RandomOrder: all transforms, in random order."""

    def __init__(self, transforms: Sequence[Any]) -> None:
        self._collect(transforms, "shuffle")


def _as_policy(stage: Any) -> Policy:
    if isinstance(stage, str):
        return TimmRandAugment(stage)
    if isinstance(stage, Operation):
        return Policy([stage])
    policy = stage._as_policy() if hasattr(stage, "_as_policy") else stage
    if not isinstance(policy, Policy):
        raise TypeError(
            "augment: %r is no policy of ops: RandAugment, GaussianBlur, RandomErasing, Policy, ..." % (stage,)
        )
    return policy


def set_augment(group: Optional[Any], stages: Any, beyond_crop: bool) -> Tuple[Any, ...]:
    """Sets a structs.loader_augment, if one is given. Returns the structs.policy array first, and what it points to,
    which must live until the loader is open."""
    stages = list(stages) if arg.is_list(stages) else [stages]
    made = [one for stage in stages for one in _as_policy(stage)._policies()]
    policies = (structs.policy * len(made))(*(policy for policy, _ in made))
    if group is not None:
        group.policies, group.policy_count = ctypes.addressof(policies) if made else None, len(made)
        group.beyond_crop = arg.flag("beyond_crop", beyond_crop)
    return policies, [kept for _, kept in made]


# ---- what was drawn

class Drawn(NamedTuple):
    """An operation that was drawn for a view of a sample: its name and magnitude, with its sign; area: left, top,
    right, bottom of the covered area, in pixels of the output ("grid_mask": left and top of a square, the period, a
    square's edge); value: the color of that area, or the numbers that "lighting" adds, or the order of "shuffle"."""

    name: str
    magnitude: float
    area: Tuple[int, int, int, int]
    value: Tuple[float, float, float]


_DRAWN = struct.Struct("=IfII4i3ff2I")          # structs.drawn
assert _DRAWN.size == ctypes.sizeof(structs.drawn)
COLUMNS = 9                                     # kind, magnitude, area, value


def drawn_of(info: Any, slot: int, view: int) -> List[Drawn]:
    """Of a structs.batch_info."""
    at = slot * info.operation_views + view
    count = ctypes.c_uint32.from_address(info.operation_counts + 4 * at).value
    data = ctypes.string_at(info.operations + at * _c.OPERATIONS_MAX * _DRAWN.size, count * _DRAWN.size)
    return [Drawn(NAMES[kind], magnitude, tuple(rest[:4]), tuple(rest[4:7]))            # type: ignore[arg-type]
            for kind, magnitude, _, _, *rest in _DRAWN.iter_unpack(data)]


def drawn_numbers(info: Any, slots: int) -> Tuple[bytes, Tuple[int, ...]]:
    """Those of all slots as float32, and their shape: slots x views x OPERATIONS_MAX x COLUMNS."""
    views, most = info.operation_views, _c.OPERATIONS_MAX
    if not views:
        return b"", (slots, 0, most, COLUMNS)
    data = ctypes.string_at(info.operations, slots * views * most * _DRAWN.size)
    counts = (ctypes.c_uint32 * (slots * views)).from_address(info.operation_counts)
    pack, nothing, rows = struct.Struct("=%df" % COLUMNS).pack, bytes(4 * COLUMNS), []
    for i, (kind, magnitude, _, _, *rest) in enumerate(_DRAWN.iter_unpack(data)):
        rows.append(pack(kind, magnitude, *rest[:7]) if i % most < counts[i // most] else nothing)
    return b"".join(rows), (slots, views, most, COLUMNS)
