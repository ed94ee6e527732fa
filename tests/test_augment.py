"""test_augment.py - what the library does to pictures behind the crop, beside torchvision's operations on tensors of uint8

    BENZINA_LIBRARY=build/libbenzina.so python3 tests/test_augment.py build/bzna        from the repository's root

Prints FAIL and SKIP lines, and a count last. test_truth.c compares the point operations with tests/augment.h where torchvision is
missing.

Of what is compared, the equal is said to be equal. What is not equal differs by a mean of at most 0.5 of 255, for one of these reasons:

    edges      torchvision blends a moved picture's edge with the fill color over one pixel; the library cuts half a pixel outside
    ties       float32 there and float32 in another order here: a result within a rounding of a half may fall to either side
"""
import collections
import math
import os
import sys
import unittest

ROOT = os.getcwd()
sys.path.insert(0, os.path.join(ROOT, "examples", "python"))
sys.path.insert(0, os.path.join(ROOT, "tests"))
sys.dont_write_bytecode = True
import benzina  # noqa: E402
from benzina import ops  # noqa: E402
from test_python import importable, run_tests  # noqa: E402
from test_python_loops import needs  # noqa: E402

numpy, torch = importable("numpy"), importable("torch")
if torch is not None and importable("torchvision") is not None:
    from torchvision.transforms import functional as F
    from torchvision.transforms import v2

WIDTH, HEIGHT = 224, 200
MOST = 0.5                                      # of 255, on average


def pictures(count=1, width=WIDTH, height=HEIGHT, seed=1):
    """N x H x W x 3: slopes, edges and noise, whose channels differ in range."""
    random = numpy.random.default_rng(seed)
    y, x = numpy.mgrid[:height, :width]
    made = numpy.empty((count, height, width, 3))
    for image in made:
        a, b, c = random.uniform(4, 40, 3)
        image[..., 0] = 20 + 215 * (0.5 + 0.5 * numpy.sin(x / a + y / b))
        image[..., 1] = 255 - y * 255 / max(height - 1, 1) + 40 * (x > width * random.random())
        image[..., 2] = 60 + 90 * ((x // c + y // a) % 2)
        image += random.normal(0, 6, image.shape)
    return numpy.clip(made.round(), 0, 255).astype(numpy.uint8)


# ---- what torchvision makes of a tensor, 3 x H x W of uint8, by an operation of its own name

POINTS = {
    "Identity": lambda image: image,
    "Brightness": lambda image, m: F.adjust_brightness(image, 1 + m),
    "Color": lambda image, m: F.adjust_saturation(image, 1 + m),
    "Contrast": lambda image, m: F.adjust_contrast(image, 1 + m),
    "Sharpness": lambda image, m: F.adjust_sharpness(image, 1 + m),
    "Hue": lambda image, m: F.adjust_hue(image, m),
    "Posterize": lambda image, m: F.posterize(image, int(m)),
    "Solarize": lambda image, m: F.solarize(image, m),
    "Gamma": lambda image, m: F.adjust_gamma(image, m),
    "AutoContrast": lambda image: F.autocontrast(image),
    "Equalize": lambda image: F.equalize(image),
    "Invert": lambda image: F.invert(image),
    "Grayscale": lambda image: F.rgb_to_grayscale(image, 3),
    "GaussianBlur": lambda image, kernel, sigma: F.gaussian_blur(image, [int(kernel)] * 2, [sigma] * 2),
}


def inverse_affine(name, magnitude, width, height):
    """The 3 x 3 matrix from the moved picture's pixels, of which integers are centers, to the picture's, by torchvision's own function."""
    shear, angle, translate, center = [0.0, 0.0], 0.0, [0.0, 0.0], [0.0, 0.0]
    if name in ("ShearX", "ShearY"):
        shear["XY".index(name[-1])] = math.degrees(math.atan(magnitude))
        center = [-width * 0.5, -height * 0.5]
    elif name in ("TranslateX", "TranslateY"):
        translate["XY".index(name[-1])] = float(int(magnitude))
    else:
        angle = -magnitude
    inner = numpy.array(F._get_inverse_affine_matrix(center, angle, translate, 1.0, shear) + [0, 0, 1], numpy.float64).reshape(3, 3)
    to_center = numpy.array([[1, 0, 0.5 - width / 2], [0, 1, 0.5 - height / 2], [0, 0, 1]])
    return numpy.linalg.inv(to_center) @ inner @ to_center


GEOMETRY = ("ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate")


def moved(image, name, magnitude, fill):
    """By torchvision."""
    fill = [float(value) for value in fill]
    bilinear = v2.InterpolationMode.BILINEAR
    if name == "Rotate":
        return F.rotate(image, magnitude, interpolation=bilinear, fill=fill)
    shear, translate, center = [0.0, 0.0], [0, 0], None
    if name.startswith("Shear"):
        shear["XY".index(name[-1])] = math.degrees(math.atan(magnitude))
        center = [0, 0]
    else:
        translate["XY".index(name[-1])] = int(magnitude)
    return F.affine(image, 0.0, translate, 1.0, shear, interpolation=bilinear, fill=fill, center=center)


def resampled(image, matrix, fill):
    """H x W x 3 of one bilinear resampling in float64, rounded; and which pixels have all four of their sources inside."""
    height, width = image.shape[:2]
    y, x = numpy.mgrid[:height, :width]
    sources = numpy.stack([x, y, numpy.ones_like(x)], -1).astype(numpy.float64) @ matrix.T
    x, y = sources[..., 0] / sources[..., 2], sources[..., 1] / sources[..., 2]
    inside = (x >= -0.5) & (x <= width - 0.5) & (y >= -0.5) & (y <= height - 0.5)
    whole = (x >= 0) & (x <= width - 1) & (y >= 0) & (y <= height - 1)
    x, y = numpy.clip(x, 0, width - 1), numpy.clip(y, 0, height - 1)
    left, top = numpy.minimum(x.astype(int), max(width - 2, 0)), numpy.minimum(y.astype(int), max(height - 2, 0))
    right, bottom = numpy.minimum(left + 1, width - 1), numpy.minimum(top + 1, height - 1)
    fx, fy = (x - left)[..., None], (y - top)[..., None]
    pixels = image.astype(numpy.float64)
    made = ((1 - fy) * ((1 - fx) * pixels[top, left] + fx * pixels[top, right]) +
            fy * ((1 - fx) * pixels[bottom, left] + fx * pixels[bottom, right]))
    made[~inside] = fill
    return made.round().astype(numpy.uint8), whole


def as_tensor(image):
    return torch.from_numpy(numpy.ascontiguousarray(image)).permute(2, 0, 1)


def as_array(image):
    return image.permute(1, 2, 0).numpy()


def difference(mine, theirs):
    """(mean, largest), of 255."""
    apart = numpy.abs(mine.astype(int) - theirs.astype(int))
    return float(apart.mean()), int(apart.max())
