"""Arguments of DataLoader and Output, on their way into the library's configuration."""
from __future__ import annotations

import array
import ctypes
import difflib
import warnings
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

from . import _arguments as arg
from . import _c, _handles, ops
from ._callbacks import Hooks
from ._modules import users_line

# Warps that the library draws itself. Whoever adds a kind gives it _warp(), which may be None: it is called then.
LIBRARY_WARPS = {
    ops.SimilarityTransform,
    ops.RandomResizedCrop,
    ops.CenterResizedCrop,
    ops.Resize,
    ops.MXNetAffine,
    ops.CenterCrop,
    ops.Compose,
    ops.RandomAffine,
    ops.RandomCrop,
    ops.RandomHorizontalFlip,
    ops.RandomPerspective,
    ops.RandomRotation,
    ops.RandomVerticalFlip,
}

# What torch.utils.data.DataLoader has and this one has not, and what does that here.
_TORCHS = {
    "num_workers": "num_threads, the decoder's threads, and reader_threads: no processes are needed",
    "pin_memory": "memory and output, which say where batches lie: on the GPU, or in host memory, which is pinned then",
    "pin_memory_device": "memory and device",
    "collate_fn": "nothing: batches are made in place, so that there are no samples to collate; output says of "
    "which arrays, and "
    "warp and its like, or transform, are for each sample",
    "generator": "seed",
    "worker_init_fn": "seed",
    "prefetch_factor": "multibuffering, in batches, and read_ahead, in samples",
    "persistent_workers": "nothing: threads live as long as the loader",
    "multiprocessing_context": "nothing: threads do the work",
    "in_order": "nothing: batches come in order",
}
_WARPS = {"scale", "ratio", "degrees", "translate", "flip_h", "flip_v", "random_crop", "keep_ratio", "resize"}
_FORMER = {"warp_transform": "warp", "bias_transform": "bias", "norm_transform": "norm", "oob_transform": "oob",
           "color_transform": "color", "warp_crops": "crops of the warp", "path": "dataset"}


def refuse_unknown(settings: Mapping[str, Any], who: str, known: Iterable[str]) -> None:
    """torch's are taken where they are None. known: the arguments that there are."""
    def about(name: str) -> str:
        if name in _TORCHS:
            return "%s (torch's; here: %s)" % (name, _TORCHS[name])
        if name in _WARPS:
            return "%s (warp has it: ops.RandomResizedCrop, CenterResizedCrop, SimilarityTransform)" % name
        if name in _FORMER:
            return "%s (it is called %s)" % (name, _FORMER[name])
        near = difflib.get_close_matches(name, known, 1, 0.7)
        return "%s (did you mean %s?)" % (name, near[0]) if near else name
    unknown = sorted(name for name, value in settings.items() if value is not None or name not in _TORCHS)
    if unknown:
        raise TypeError("%s has no argument %s" % (who, "; ".join(map(about, unknown))))


def field_names(fields: Optional[Mapping[str, Any]], **given: Any) -> Tuple[Any, List[str], List[str]]:
    """(track, tensors, bytes), of fields or of arguments of these names."""
    for name, value in (fields or {}).items():
        name = {"image": "track"}.get(name, name)
        if name not in given:
            raise ValueError("fields: %r is none of 'image', 'tensors', 'bytes'" % (name,))
        if given[name] is not None:
            raise ValueError("fields, %s: give one of the two" % name)
        given[name] = value

    def names(value: Any) -> List[str]:
        return value.split(",") if isinstance(value, str) else list(value or ())
    return given["track"], names(given["tensors"]), names(given["bytes"])


def warn_of_colors(mean: Any, std: Any, bias: Any, norm: Any) -> None:
    """Numbers that are for pictures in 0..1, and a deviation where a factor is meant."""
    def times_255(numbers: Iterable[float]) -> str:
        return "(%s)" % ", ".join("%.6g * 255" % n for n in numbers)
    if mean is not None and 0 < max(arg.floats("mean", mean, 3)) < 1:
        advice = "mean=" + times_255(arg.floats("mean", mean, 3))
        if std is not None and max(arg.floats("std", std, 3)) < 1:
            advice += ", std=" + times_255(arg.floats("std", std, 3))
        warnings.warn(
            "mean: below 1, but pictures are in 0..255 here, not in 0..1: write " + advice, stacklevel=users_line()
        )
    norm = getattr(norm, "norm", norm)
    if norm is not None and not callable(norm) and min(arg.floats("norm", norm, 3)) > 2:
        numbers = ", ".join("%.6g" % n for n in arg.floats("norm", norm, 3))
        warnings.warn(
            "norm: (%s) looks like a standard deviation, but norm multiplies: write std=(%s), which divides, and mean= "
            "instead of bias=, or norm=(%s)"
            % (numbers, numbers, ", ".join("1 / %.6g" % n for n in arg.floats("norm", norm, 3))),
            stacklevel=users_line(),
        )


def set_distortion(warp: Any, rotate: Any, shear: Any, perspective: Any) -> None:
    """What torchvision's RandomAffine and RandomPerspective call degrees, shear, distortion_scale and p."""
    def around(d: float) -> Tuple[float, float]:
        return (-abs(d), abs(d))
    if any(warp.rotate) or any(warp.shear) or warp.perspective:
        raise ValueError("rotate, shear, perspective: the warp has its own: ops.RandomRotation, RandomAffine, ...")
    warp.rotate[:] = arg.pair("rotate", rotate, around)
    shear = tuple(shear) if arg.is_list(shear) else around(arg.number("shear", shear, ctypes.c_double))
    warp.shear[:] = arg.floats("shear", shear if len(shear) == 4 else shear + (0.0, 0.0), 4, ctypes.c_double)
    distortion, p = arg.pair("perspective", perspective, lambda d: (d, 0.5), 0, 1)
    if distortion and p:
        warp.perspective, warp.perspective_p = distortion, p


def as_warp(warp: Any) -> Any:
    """A list of warps as one; anything else as it is."""
    return ops.Compose(warp) if arg.is_list(warp) and any(isinstance(one, ops.WarpTransform) for one in warp) else warp


def library_warp(warp: Any, width: int, height: int) -> Any:
    """The structs.warp by which the library draws a warp of its own kinds for an output of a size; None: it is called
    in Python."""
    if hasattr(warp, "check_size"):
        warp.check_size(width, height)
    return warp._warp() if type(warp) in LIBRARY_WARPS else None


def set_mean_image(color: Any, image: Any) -> Any:
    """Returns what must live until the loader is open."""
    if image is None:
        return None
    view = memoryview(image.detach().cpu().numpy() if hasattr(image, "detach") else image)
    if view.format != "f":
        raise TypeError("mean_image: float32 is needed, not numbers of format %r" % view.format)
    kept = ctypes.create_string_buffer(view.tobytes(), view.nbytes)
    color.mean_image, color.mean_image_bytes = ctypes.addressof(kept), view.nbytes
    return kept


def of_channels(channels: Any, **given: Any) -> List[Any]:
    """Numbers of each channel. Gray pictures have one, for which one number stands, and not three that differ."""
    if arg.choice("channels", channels) != _c.CHANNELS_GRAY:
        return list(given.values())
    numbers = []
    for what, values in given.items():
        values = values.tolist() if hasattr(values, "tolist") else values
        if values is not None and arg.is_list(values):
            known = list(values)
            if any(one != known[0] for one in known) or len(known) not in (1, 3):
                raise ValueError(
                    "%s, channels: gray pictures have one channel: give one number, not %r" % (what, values)
                )
            values = known[0]
        numbers.append(values)
    return numbers


def set_colors(color: Any, mean: Any, std: Any, bias: Any, norm: Any, oob: Any) -> None:
    for what, member, values in (
        ("mean", "mean", mean),
        ("std", "std", std),
        ("bias", "bias", bias),
        ("norm", "scale", norm),
        ("oob", "fill", oob),
    ):
        if values is not None:
            getattr(color, member)[:] = arg.floats(what, values, 3)
    if std is not None and 0 in color.std[:]:
        raise ValueError("std: nothing can be divided by 0")


def samples_of(chosen: Any, indices: Any) -> Any:
    """An array of the indices that are loaded, or None: all. chosen: of the data set, where it is a selection."""
    if indices is not None:
        indices = arg.many("indices", indices, ctypes.c_uint64)
        if not indices:
            raise ValueError("indices: there are none")
    if chosen is not None:
        count = len(chosen)
        for i, index in enumerate(indices if indices is not None else ()):
            if index >= count:
                raise ValueError("indices[%d]: %d is not below the %d samples" % (i, index, count))
        indices = chosen if indices is None else array.array("Q", (chosen[i] for i in indices))
    return indices


def _constant(name: str, kind: Any, value: Any) -> Any:
    """One of ops for a constant, whose errors name the argument."""
    try:
        return kind(value)
    except (TypeError, ValueError) as error:
        reason = str(error)
        named = reason if reason.startswith(name + ":") else "%s: %s" % (name, reason)
        raise type(error)("%s; a callable or one of ops will do, too" % named) from None


def set_transforms(config: Any, given: Dict[str, Any], whole: Any) -> Hooks:
    """Constants and the known warps go to the library; what is left is called."""
    hooks = Hooks()
    hooks.whole = whole
    if whole is not None:
        _handles.check_callback("transform", whole, "sample, rng, transform")
    bases = {"warp": ops.WarpTransform, "bias": ops.BiasTransform, "norm": ops.NormTransform, "oob": ops.OOBTransform,
             "color": ops.ColorTransform}
    for name, base in bases.items():
        if callable(given[name]):
            _handles.check_callback(name, given[name], "index, in_size, out_size, rng")
            if type(given[name]).__module__ == base.__module__ and not isinstance(given[name], base):
                raise TypeError("%s: %s is no %s" % (name, type(given[name]).__name__, base.__name__))

    warp = given["warp"]
    struct = library_warp(warp, config.output.width, config.output.height)
    if struct is not None:
        config.warp = struct
    elif warp is None:
        config.warp.kind = _c.WARP_NONE
    else:
        hooks.warp = warp if callable(warp) else _constant("warp", ops.ConstantWarpTransform, warp)

    constants: Tuple[Any, ...] = (
        ("bias", ops.ConstantBiasTransform, "bias"),
        ("norm", ops.ConstantNormTransform, "scale"),
        ("oob", ops.ConstantOOBTransform, "fill"),
    )
    for name, kind, member in constants:
        value = given[name]
        if value is None:
            continue
        if not callable(value):
            value = _constant(name, kind, value)
        if type(value) is kind:
            getattr(config.color, member)[:] = getattr(value, name)
        else:
            setattr(hooks, name, value)

    color = given["color"]
    if color is not None and not callable(color):
        color = _constant("color", ops.ConstantColorTransform, color)
    if type(color) is ops.ConstantColorTransform:
        config.color.matrix = color.index + 1
    else:
        hooks.color = color
    return hooks
