"""Policies: random operations behind the crop. They are members of benzina.ops, by torchvision's names."""
from __future__ import annotations

import ctypes
import struct
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import _arguments as arg
from . import _c
from ._c import lib, structs
from ._errors import check
from ._shown import Shown
from ._types import Numbers, OperationKind, Range, Size

KINDS = arg.OTHER_CHOICES["operation"]
NAMES = {number: name for name, number in KINDS.items()}
_POLICY_LAWS = {"law": arg.OTHER_CHOICES["policy_law"]}
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
    value, noise     of what covers pixels: its color, and the standard deviation of noise around it
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
        value_space: str = "RGB",
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
    """Random operations, and how many of them are drawn: the general form of what else is here, and a member of
    DataLoader's augment.

    operations       Operations
    law              "all": all of them, in order; "shuffle": each at most once, in random order; "choose": each draw is
                     any of them
    draws            how many; 0: all, or one with "choose"
    group_size       so many that follow one another are drawn together, each with its own probability
    bins, bin        magnitudes are one of so many that are evenly spaced from the lower to the higher one: any from
                     number bin[0] to bin[1]. 0: any number between the two
    p                the probability of drawing any

    >>> ops.Policy([ops.Operation("invert"), ops.Operation("solarize", (100, 200))], "choose", p=0.5)
    Policy(operations=[Operation(kind='invert'), Operation(kind='solarize', magnitude=(100.0, 200.0))], law='choose',
    p=0.5)
    """

    def __init__(
        self,
        operations: Sequence[Operation],
        law: str = "all",
        draws: int = 0,
        *,
        group_size: int = 1,
        bins: int = 0,
        bin: Tuple[int, int] = (0, 0),
        p: float = 1.0,
    ) -> None:
        self._set(operations, law, draws, group_size, bins, bin, p)

    def _set(
        self,
        operations: Sequence[Operation],
        law: str = "all",
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
        self.operations, self.law, self.draws, self.bins = operations, law, draws, bins
        self.group_size, self.bin = group_size, tuple(bin)
        self.p = self._p = arg.number("p", p, ctypes.c_float, 0, 1)    # as it was given, and as C is told
        arg.choice("law", law, _POLICY_LAWS)
        self._policy()                          # refuses what C's types do not hold

    def _policy(self) -> Tuple[Any, Any]:
        """The structs.policy, and what must live as long."""
        made, operations = structs.policy(), (structs.operation * len(self.operations))()
        for i, operation in enumerate(self.operations):
            operations[i] = operation._struct()
        made.operations, made.operation_count = ctypes.addressof(operations), len(operations)
        made.law, made.probability = arg.choice("law", self.law, _POLICY_LAWS), self._p
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
        check(lib.bzna_policy_preset(preset, draws, magnitude, made, err), err)
        known = (structs.operation * made.operation_count).from_address(made.operations)
        operations = [
            Operation(NAMES[one.kind], tuple(one.magnitude), p=one.probability or 1, sign=bool(one.sign))
            for one in known
        ]
        laws = {number: name for name, number in _POLICY_LAWS["law"].items()}
        self._set(
            operations,
            laws[made.law],
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


class AutoAugment(_Preset):
    """One of 25 pairs of operations, as torchvision's AutoAugment draws them. policy: "imagenet", or torchvision's
    AutoAugmentPolicy.IMAGENET.

    >>> ops.AutoAugment("imagenet")
    AutoAugment()
    """

    def __init__(self, policy: Any = "imagenet") -> None:
        self.policy = getattr(policy, "value", policy)
        if self.policy != "imagenet":
            raise ValueError(
                "policy: %r: only 'imagenet' is here; a Policy with group_size=2 makes others" % (self.policy,)
            )
        self._take(_c.PRESET_AUTO_IMAGENET, 0, 0, 0, (0, 0))


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
    """torchvision's, which its scripts apply behind Normalize: a rectangle is covered with probability p.

    scale            its share of the area, (lo, hi); ratio: height by width, (lo, hi)
    value            a number, or three, in units of the output: 0 is the mean color where mean or bias is given, else
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
    """A square is covered with probability p. size: its edge as a share of the output's shorter one; it may lie partly
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

    def _collect(self, transforms: Sequence[Any], law: str, p: float = 1.0) -> None:
        self.transforms = list(transforms)
        inner = [_as_policy(one) for one in self.transforms]
        if len(inner) == 1 and law == "all":
            one = inner[0]
            self._set(one.operations, one.law, one.draws, one.group_size, one.bins, one.bin, p * one._p)
            return
        operations = []
        for given, policy in zip(self.transforms, inner):
            many = len(policy.operations) > 1
            if policy.law != "all" or policy.bins or (many and (policy._p != 1 or law != "all")):
                raise ValueError("transforms: %r cannot be one of several in a %s" % (given, type(self).__name__))
            for operation in policy.operations:
                own = Operation(operation.kind)
                vars(own).update(vars(operation), p=operation.p * policy._p)
                operations.append(own)
        self._set(operations, law, p=p)


class RandomApply(_Container):
    """torchvision's: all of these with probability p, else none.

    >>> simclr = [ops.RandomApply([ops.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8), ops.RandomGrayscale(0.2),
    ...           ops.GaussianBlur(23)]
    """

    def __init__(self, transforms: Sequence[Any], p: float = 0.5) -> None:
        self._collect(transforms, "all", arg.number("p", p, ctypes.c_float, 0, 1))
        self.p = p


class RandomChoice(_Container):
    """torchvision's: one of these, each as likely as another."""

    def __init__(self, transforms: Sequence[Any]) -> None:
        self._collect(transforms, "choose")


class RandomOrder(_Container):
    """torchvision's: all of these, in random order."""

    def __init__(self, transforms: Sequence[Any]) -> None:
        self._collect(transforms, "shuffle")


def _as_policy(stage: Any) -> Policy:
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
    right, bottom of what is covered, in pixels of the output (of "grid_mask": left and top of a square, the period, a
    square's edge); value: the color of that, or what "lighting" adds, or the order of "shuffle"."""

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
