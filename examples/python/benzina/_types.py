"""Types of arguments, for annotations."""
from __future__ import annotations

import os
from typing import Any, Callable, Iterable, Literal, Protocol, Sequence, Tuple, Type, Union

Path = Union[str, bytes, "os.PathLike[str]"]
Numbers = Union[float, Sequence[float]]         # one for all channels, or one for each
Range = Union[float, Tuple[float, float], Sequence[float]]
Indices = Iterable[int]                         # numpy's and torch's arrays among them
Batches = Iterable[Iterable[int]]
Names = Union[str, Iterable[str]]
Shape = Union[int, Tuple[int, int], Sequence[int]]
Size = Tuple[int, int]                          # (width, height)
Device = Union[None, str, int, Tuple[int, int]]
Crops = Literal["torchvision", "benzina"]
Antialias = Union[bool, Literal["round"]]
Filter = Literal["nearest", "linear", "cubic", "lanczos", "cubic-0.75", "lanczos4", "area"]
Decoder = Literal["auto", "software", "nvdec"]
Split = Literal["train", "validation", "test"]
Layout = Literal["NCHW", "NHWC", "nchw", "nhwc"]
Channels = Literal["RGB", "BGR", "gray", "grey"]
PolicyApply = Literal["all", "shuffle", "choose"]
OperationKind = Literal["identity", "shear_x", "shear_y", "translate_x", "translate_y", "translate_x_px",
                        "translate_y_px", "rotate", "brightness", "contrast", "saturation", "hue", "gamma",
                        "posterize", "solarize", "solarize_add", "invert", "grayscale", "lighting", "shuffle",
                        "autocontrast", "equalize", "sharpness", "blur", "erase", "cutout", "grid_mask"]


class DtypeObject(Protocol):
    """numpy.dtype and torch.dtype; numpy.float32 is a type."""

    @property
    def itemsize(self) -> int: ...


Dtype = Union[Literal["float32", "float16", "bfloat16", "uint8"], Type[Any], DtypeObject]
RuleDtype = Literal["float32", "uint8", "int32", "int64"]
Transform = Callable[[int, Size, Size, Any], Any]       # (index, in_size, out_size, rng)
