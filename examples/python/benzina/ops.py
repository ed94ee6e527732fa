"""Transforms, by the original's names. Every one can also be called in a callback of one's own: (index, in_size, out_size, rng),
sizes being (width, height)."""
import ctypes

from . import _arguments as arg
from . import _c
from ._c import lib, structs
from ._errors import check


def compute_affine_matrix(in_size, out_size, crop=None, degrees=0.0, translate=(0.0, 0.0), flip_h=False, flip_v=False, resize=False,
                          keep_ratio=False):
    """The warp that these make together, nine numbers, row-major. Sizes are (width, height); crop: center offset x, y, width, height."""
    affine = _c.new("affine")
    affine.in_width, affine.in_height = arg.size("in_size", in_size)
    affine.out_width, affine.out_height = arg.size("out_size", out_size)
    if crop is not None:
        affine.has_crop = 1
        affine.crop_x, affine.crop_y, affine.crop_width, affine.crop_height = arg.floats("crop", crop, 4, ctypes.c_double)
    arg.put(affine, "degrees", degrees)
    affine.translate_x, affine.translate_y = arg.floats("translate", translate, 2, ctypes.c_double)
    for name, value in dict(flip_h=flip_h, flip_v=flip_v, resize=resize, keep_ratio=keep_ratio).items():
        setattr(affine, name, arg.flag(name, value))
    matrix, err = (ctypes.c_double * 9)(), _c.new("error")
    check(lib.bzna_affine_matrix(affine, matrix, err), err)
    return tuple(matrix)


def _sensible_scale(scale, meaning):
    """torchvision's transforms of these names begin with a size."""
    for number in scale if arg.is_list(scale) else [scale]:
        if not (hasattr(number, "__float__") and 0 < float(number) <= 10):
            raise ValueError("scale: %r: it is %s. The size of what comes out is DataLoader's shape" % (scale, meaning))


class BiasTransform:
    """Base of what gives three numbers to subtract from R, G, B."""

class NormTransform:
    """Base of what gives three numbers to multiply R, G, B by."""

class WarpTransform:
    """Base of what gives a 3x3 matrix from output pixels to input pixels."""

class OOBTransform:
    """Base of what gives the color of what lies outside the picture."""

class ColorTransform:
    """Base of what gives the conversion to RGB: 0 BT.601 full range, 1 BT.601, 2 BT.709, 3 BT.2020."""

class ConstantBiasTransform(BiasTransform):
    def __init__(self, bias=(0.0, 0.0, 0.0)):
        self.bias = arg.floats("bias", bias, 3)

    def __call__(self, index, in_size, out_size, rng):
        return self.bias

class ConstantNormTransform(NormTransform):
    """norm multiplies: the reciprocal of a standard deviation, not the deviation itself (see std= of DataLoader)."""

    def __init__(self, norm=(1.0, 1.0, 1.0)):
        self.norm = arg.floats("norm", norm, 3)
        if 0 in self.norm:
            raise ValueError("norm: 0 would leave nothing of the picture")

    def __call__(self, index, in_size, out_size, rng):
        return self.norm

class ConstantOOBTransform(OOBTransform):
    def __init__(self, oob=(0.0, 0.0, 0.0)):
        self.oob = arg.floats("oob", oob, 3)

    def __call__(self, index, in_size, out_size, rng):
        return self.oob

class ConstantColorTransform(ColorTransform):
    def __init__(self, index=0):
        self.index = arg.number("index", index, ctypes.c_uint32, 0, 3)

    def __call__(self, index, in_size, out_size, rng):
        return self.index

class ConstantWarpTransform(WarpTransform):
    """One matrix for every sample; by default the identity: the picture's top left corner, unscaled."""

    def __init__(self, warp=(1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)):
        if not arg.is_list(warp):
            raise TypeError("warp: %r is not nine numbers" % (warp,))
        self.warp = arg.floats("warp", warp, 9, ctypes.c_double)
        a, b, c, d, e, f, g, h, i = self.warp
        if a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g) == 0:
            raise ValueError("warp: %r is singular: it maps all pixels to a line" % (warp,))

    def __call__(self, index, in_size, out_size, rng):
        return self.warp

class SimilarityTransform(WarpTransform):
    """A random crop, turned, moved, mirrored and resized.

    scale: of the crop's area, (lo, hi); a number s means between s and 1/s. ratio: of the crop's width to its height, likewise; None: the
    picture's own. degrees: (lo, hi); a number d means (-d, d). translate: at most these fractions of the output's width and height.
    flip_h, flip_v: probabilities. resize: scale the crop to the output; scale and ratio force it. keep_ratio: by one factor both
    ways. random_crop: anywhere, instead of centered. law: how the crop is drawn, "benzina" (area log-uniform) or
    "torchvision" (area uniform, whole pixels); None: as DataLoader's warp_law says, by default "benzina"
    ("torchvision" for RandomResizedCrop)."""

    def __init__(self, scale=(1.0, 1.0), ratio=None, degrees=0.0, translate=(0.0, 0.0), flip_h=0.0, flip_v=0.0, resize=False, keep_ratio=False,
                 random_crop=False, law=None):
        def between(x):
            return (min(x, 1 / x), max(x, 1 / x)) if x > 0 else (x, x)
        self.scale = arg.pair("scale", scale, between)
        self.ratio = None if ratio is None else tuple(sorted(arg.pair("ratio", ratio, between)))
        self.degrees = arg.pair("degrees", degrees, lambda d: (-abs(d), abs(d)))
        self.translate = arg.pair("translate", translate, lambda t: (t, t))
        self.flip_h, self.flip_v = (arg.number(name, flip, ctypes.c_double, 0, 1) for name, flip in (("flip_h", flip_h), ("flip_v", flip_v)))
        self.resize = arg.flag("resize", resize) or self.scale != (1.0, 1.0) or ratio is not None
        self.keep_ratio, self.random_crop = arg.flag("keep_ratio", keep_ratio), arg.flag("random_crop", random_crop)
        self.law = law
        if law is not None and law not in arg.LAWS:
            raise ValueError("law: %r is none of %s" % (law, ", ".join(map(repr, arg.LAWS))))
        for what, values in (("scale", self.scale), ("ratio", self.ratio or (1,))):
            if min(values) <= 0 or list(values) != sorted(values):
                raise ValueError("%s: %r is not two positive numbers, the smaller one first" % (what, values))

    def _warp(self):
        """The structs.warp of these parameters."""
        warp = self._flipped(_c.WARP_SIMILARITY)
        warp.scale[:], warp.ratio[:] = self.scale, self.ratio or (0, 0)
        warp.degrees[:], warp.translate[:] = self.degrees, self.translate
        warp.resize, warp.keep_ratio, warp.random_crop = self.resize, self.keep_ratio, self.random_crop
        return warp

    def _flipped(self, kind):
        """What every kind has."""
        warp = _c.new("warp")
        warp.kind, warp.law = kind, arg.LAWS.get(self.law, _c.LAW_AUTO)
        warp.flip_h, warp.flip_v = self.flip_h, self.flip_v
        return warp

    def __call__(self, index, in_size, out_size, rng):
        matrix, err = (ctypes.c_double * 9)(), _c.new("error")
        check(lib.bzna_warp_draw(rng.struct, self._warp(), *in_size, *out_size, matrix, err), err)
        return tuple(matrix)

class RandomResizedCrop(SimilarityTransform):
    """scale: of the crop's area, as a fraction of the picture's, (lo, hi); ratio: of its width to its height;
    flip_h: the probability of mirroring; law: see SimilarityTransform, by default "torchvision"."""

    def __init__(self, scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3), flip_h=0.0, law=None):
        _sensible_scale(scale, "the crop's area as a fraction of the picture's, (0.08, 1.0) by default")
        SimilarityTransform.__init__(self, scale=scale, ratio=ratio, flip_h=flip_h, resize=True,
                                          random_crop=True, law=law)

    def _warp(self):
        warp = self._flipped(_c.WARP_RANDOM_RESIZED_CROP)
        warp.scale[:], warp.ratio[:] = self.scale, self.ratio
        return warp

class CenterResizedCrop(SimilarityTransform):
    """scale: of the edges; 224/256 resizes the short edge to 256 and takes the middle 224 x 224; above 1, there is
    a margin. flip_h, law: as RandomResizedCrop's."""

    def __init__(self, scale=1.0, keep_ratio=True, flip_h=0.0, law=None):
        _sensible_scale(scale, "the fraction of the picture's short edge that is shown, such as 224/256")
        self.edge_scale = scale = arg.number("scale", scale, ctypes.c_double)
        SimilarityTransform.__init__(self, scale=(scale ** 2, scale ** 2), flip_h=flip_h, resize=True,
                                          keep_ratio=keep_ratio, law=law)

    def _warp(self):
        if not self.keep_ratio:
            return super()._warp()
        warp = self._flipped(_c.WARP_CENTER_RESIZED_CROP)
        warp.scale[0] = self.edge_scale
        return warp

class MXNetAffine(WarpTransform):
    """The affine augmentation of MXNet's ImageRecordIter, by its parameters' names. Integers, fractions and pixels are as there; a
    min_aspect_ratio is not: the ratio is drawn between 1 - max_aspect_ratio and 1 + max_aspect_ratio. fill_value is DataLoader's
    oob_transform, inter_method its inter_method."""

    def __init__(self, max_rotate_angle=0, rotate=-1, max_shear_ratio=0.0, min_random_scale=1.0, max_random_scale=1.0,
                 max_aspect_ratio=0.0, min_img_size=0, max_img_size=0, min_crop_size=-1, max_crop_size=-1, pad=0, resize=-1,
                 rand_crop=False, crop_x_start=-1, crop_y_start=-1, mirror=False, rand_mirror=False):
        warp = self._struct = _c.new("warp")
        warp.kind = _c.WARP_MXNET
        real, whole = {}, {}
        for name, value in dict(max_rotate_angle=max_rotate_angle, rotate=rotate, max_aspect_ratio=max_aspect_ratio, min_img_size=min_img_size,
                                max_img_size=max_img_size, min_random_scale=min_random_scale, max_random_scale=max_random_scale).items():
            real[name] = arg.number(name, value, ctypes.c_double)
        for name, value in dict(min_crop_size=min_crop_size, max_crop_size=max_crop_size, resize=resize, crop_x_start=crop_x_start,
                                crop_y_start=crop_y_start).items():
            whole[name] = arg.number(name, value, ctypes.c_int32, -1)
        angle = abs(real["max_rotate_angle"])
        warp.degrees[:] = (rotate, rotate) if real["rotate"] > 0 else (-angle, angle)
        arg.put(warp, "shear_ratio", max_shear_ratio, "max_shear_ratio")
        warp.scale[:] = real["min_random_scale"], real["max_random_scale"]
        warp.ratio[:] = 1 - real["max_aspect_ratio"], 1 + real["max_aspect_ratio"]
        warp.canvas_px[:] = [arg.number(name, 0 if real[name] >= 1e6 else int(real[name]), ctypes.c_uint32) for name in ("min_img_size", "max_img_size")]
        sizes = [size for size in (whole["min_crop_size"], whole["max_crop_size"]) if size > 0]
        warp.crop_px[:] = (min(sizes), max(sizes)) if sizes else (0, 0)
        arg.put(warp, "pad_px", pad, "pad")
        warp.short_edge_px, warp.random_crop = max(0, whole["resize"]), arg.flag("rand_crop", rand_crop)
        if crop_x_start >= 0 or crop_y_start >= 0:
            warp.has_crop_start, warp.crop_x_start, warp.crop_y_start = 1, max(0, crop_x_start), max(0, crop_y_start)
        warp.flip_h = 1.0 if arg.flag("mirror", mirror) else 0.5 if arg.flag("rand_mirror", rand_mirror) else 0.0

    def _warp(self):
        return structs.warp.from_buffer_copy(self._struct)

    def __call__(self, index, in_size, out_size, rng):
        matrix, err = (ctypes.c_double * 9)(), _c.new("error")
        check(lib.bzna_warp_draw(rng.struct, self._struct, *in_size, *out_size, matrix, err), err)
        return tuple(matrix)

class ColorJitter:
    """Random colors, for DataLoader's jitter: torchvision's ColorJitter (a number b means factors of (max(0, 1 - b), 1 + b), hue of (-h,
    h) turns; in this order, in which torchvision's is random) and the probability of its RandomGrayscale. Before them MXNet's random_h,
    random_l, random_s, after them its max_random_contrast and max_random_illumination. clamp_hue: random_h stops at red, as there."""

    def __init__(self, brightness=0, contrast=0, saturation=0, hue=0, grayscale=0, random_h=0, random_l=0, random_s=0,
                 max_random_contrast=0, max_random_illumination=0, clamp_hue=False):
        jitter = self._struct = _c.new("jitter")
        for name, value in (("brightness", brightness), ("contrast", contrast), ("saturation", saturation)):
            factors = arg.pair(name, value, lambda b: (max(0.0, 1 - b), 1 + b) if b >= 0 else (b, b))
            if not 0 <= factors[0] <= factors[1]:
                raise ValueError("%s: %r is neither a number from 0 on nor two, the smaller one first" % (name, value))
            if factors != (1, 1):
                getattr(jitter, name)[:] = factors
        jitter.hue[:] = arg.pair("hue", hue, lambda h: (-h, h))
        if not -0.5 <= jitter.hue[0] <= jitter.hue[1] <= 0.5:
            raise ValueError("hue: %r is neither a number from 0 to 0.5 nor two from -0.5, the smaller one first" % (hue,))
        arg.put(jitter, "grayscale", grayscale)
        jitter.mxnet_hls[:] = [arg.number(name, value, ctypes.c_float) for name, value in
                               (("random_h", random_h), ("random_l", random_l), ("random_s", random_s))]
        arg.put(jitter, "mxnet_contrast", max_random_contrast, "max_random_contrast")
        arg.put(jitter, "mxnet_illumination", max_random_illumination, "max_random_illumination")
        jitter.mxnet_clamp_hue = arg.flag("clamp_hue", clamp_hue)

    def __call__(self, rng, transform):
        """Draws one jitter on top of the transform's, in a transform callback of one's own."""
        err = _c.new("error")
        check(lib.bzna_jitter_draw(rng.struct, self._struct, transform, err), err)
