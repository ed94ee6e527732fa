"""Output: a further output of a DataLoader."""
from __future__ import annotations

import ctypes
from typing import Any, Dict, List, Literal, Optional

from . import _arguments as arg
from ._augment import set_augment
from ._c import structs
from ._shown import Remade
from ._settings import LIBRARY_WARPS, as_warp, library_warp, of_channels, set_colors, set_mean_image
from ._types import Antialias, Channels, Dtype, Filter, Layout, Numbers, Shape


class Output(Remade):
    """A further output of a DataLoader's samples, from the same decode: other sizes, other views, another picture of
    each sample. It is fields[name] in the loop, and Batch.tensor(name). Its arrays have the dimensions of the loader's
    images, in its own sizes.

    name             unlike the names of all other tensors
    shape            (height, width), or one number for both; None: the DataLoader's
    field            the name of the picture that it is made of; None: the picture of the DataLoader's images
    warp             one of ops.RandomResizedCrop, CenterResizedCrop, Resize, SimilarityTransform: warps of its own,
                     with as many views as views says. None: each view has the warp of the same view of the DataLoader's
                     images, scaled to its own sizes
    dtype, layout, channels
                     as the DataLoader's
    own_color        True: pixels are 0..255 (masks, indices of palettes), or as mean, std, bias, norm, oob, mean_image,
                     matrix and fill_space say here, any of which implies True. False: as in the DataLoader's images
    filter, antialias
                     as the DataLoader's; None, both: as its images
    augment, beyond_crop
                     policies of its own, as for the DataLoader; []: none. None: the DataLoader's, drawn again if it has
                     a warp of its own, else as they were drawn for the images

    palette          "index": pictures with a palette come as its indices, whatever the Dataset's palette says; all
                     outputs of one field must say the same. "colors": as the Dataset says

    >>> small = benzina.Output("small", shape=64)
    >>> loader = benzina.DataLoader("train.bzna", shape=128, batch_size=4, output="numpy", outputs=[small])
    >>> images, targets, fields = next(iter(loader))
    >>> images.shape, fields["small"].shape
    ((4, 3, 128, 128), (4, 3, 64, 64))
    """

    def __init__(
        self,
        name: str,
        shape: Optional[Shape] = None,
        field: Optional[str] = None,
        warp: Any = None,
        views: int = 0,
        dtype: Dtype = "float32",
        layout: Layout = "NCHW",
        channels: Channels = "RGB",
        own_color: bool = False,
        mean: Optional[Numbers] = None,
        std: Optional[Numbers] = None,
        bias: Optional[Numbers] = None,
        norm: Optional[Numbers] = None,
        oob: Optional[Numbers] = None,
        mean_image: Any = None,
        matrix: Optional[int] = None,
        fill_space: Optional[int] = None,
        filter: Optional[Filter] = None,
        antialias: Optional[Antialias] = None,
        augment: Any = None,
        beyond_crop: bool = False,
        palette: Literal["colors", "index"] = "colors",
    ) -> None:
        self._keep(Output, locals())
        warp = as_warp(warp)
        if warp is not None and (type(warp) not in LIBRARY_WARPS or warp._warp() is None):
            raise TypeError(
                "warp: one of ops that the library draws: RandomResizedCrop, CenterResizedCrop, Resize, RandomCrop, "
                "..., or None, not %r" % (warp,)
            )
        self.name, self.field, self.warp = name, field, warp
        self._struct = e = structs.loader_output()
        e.height, e.width = (0, 0) if shape is None else arg.height_width(shape)
        e.dtype, e.layout, e.channels = (
            arg.choice("dtype", dtype),
            arg.choice("layout", layout),
            arg.choice("channels", channels),
        )
        arg.put(e, "views", views)
        e.palette = arg.choice("palette", palette, arg.OTHER_CHOICES)
        e.name, e.field = arg.text("name", name), None if field is None else arg.text("field", field)
        self._kept: List[Any] = []              # what the struct points to lives as long as this
        mean, std, bias, norm, oob = of_channels(channels, mean=mean, std=std, bias=bias, norm=norm, oob=oob)
        colors = (mean, std, bias, norm, oob, mean_image, matrix, fill_space)
        if arg.flag("own_color", own_color) or any(given is not None for given in colors):
            own = structs.loader_color()
            set_colors(own, mean, std, bias, norm, oob)
            self._kept.append(set_mean_image(own, mean_image))
            for what, value in (("matrix", matrix), ("fill_space", fill_space)):
                if value is not None:
                    arg.put(own, what, value)
            e.color = self._at(own)
        if (filter, antialias) != (None, None):
            kind = structs.loader_filter()
            kind.kind = 0 if filter is None else arg.choice("filter", filter)
            kind.antialias = 0 if antialias is None else arg.choice("antialias", antialias)
            e.filter = self._at(kind)
        if warp is not None:
            e.warp = self._at(library_warp(warp, e.width, e.height) if e.width else warp._warp())
        if augment is not None:
            own_policies = structs.loader_augment()
            self._kept.append(set_augment(own_policies, augment, beyond_crop))
            e.augment = self._at(own_policies)

    @classmethod
    def mask(
        cls,
        field: str,
        name: Optional[str] = None,
        shape: Optional[Shape] = None,
        oob: Numbers = 0,
        dtype: Dtype = "uint8",
        **settings: Any,
    ) -> Output:
        """Masks of classes with the pictures, warped in the same way: N x 1 x H x W, whose numbers are those of the
        mask's pixels, or the indices of its palette (nearest, no colors, no jitter), and oob outside. field is the
        picture field that has them, name by default the same.

            dataset = benzina.Dataset("set", pairs=("images", "masks"))
            loader = benzina.DataLoader(dataset, 224, 16, shuffle=True, warp=benzina.ops.RandomResizedCrop(flip_h=0.5),
                                        outputs=benzina.Output.mask("masks", oob=255))
            for images, targets, fields in loader:
                masks = fields["masks"]

        dtype="float32" and norm=257 keep the units of depth in 16 bits. settings: more of Output's."""
        given: Dict[str, Any] = dict(channels="gray", own_color=True, filter="nearest", palette="index")
        given.update(settings)
        return cls(field if name is None else name, shape, field, oob=oob, dtype=dtype, **given)

    def _at(self, struct: Any) -> int:
        self._kept.append(struct)
        return ctypes.addressof(struct)
