"""Types of arguments, for annotations."""
from __future__ import annotations

import os
from typing import Any, Callable, Iterable, Literal, Sequence, Tuple, Union

Path = Union[str, bytes, "os.PathLike[str]"]
Numbers = Union[float, Sequence[float]]         # one for all channels, or one for each
Range = Union[float, Tuple[float, float], Sequence[float]]
Indices = Iterable[int]                         # numpy's and torch's arrays among them
Batches = Iterable[Iterable[int]]
Names = Union[str, Iterable[str]]
Shape = Union[int, Tuple[int, int], Sequence[int]]
Size = Tuple[int, int]                          # (width, height)
Device = Union[None, str, int, Tuple[int, int]]
Law = Literal["torchvision", "benzina"]
Antialias = Union[bool, Literal["round"]]
Filter = Literal["nearest", "linear", "cubic", "lanczos", "cubic-0.75", "lanczos4", "area"]
Dtype = Any                                     # a name, or numpy's or torch's type
Layout = Literal["NCHW", "NHWC", "nchw", "nhwc"]
Channels = Literal["RGB", "BGR", "gray", "grey"]
OperationKind = Literal["identity", "shear_x", "shear_y", "translate_x", "translate_y", "translate_x_px",
                        "translate_y_px", "rotate", "brightness", "contrast", "saturation", "hue", "gamma",
                        "posterize", "solarize", "solarize_add", "invert", "grayscale", "lighting", "shuffle",
                        "autocontrast", "equalize", "sharpness", "blur", "erase", "cutout", "grid_mask"]
Transform = Callable[[int, Size, Size, Any], Any]       # (index, in_size, out_size, rng)
