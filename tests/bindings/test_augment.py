"""test_augment.py - what the library does to pictures behind the crop, beside torchvision's operations on tensors of
uint8

    BENZINA_LIBRARY=build/libbenzina.so python3 tests/bindings/test_augment.py build/bzna        from the repository's root

Prints FAIL and SKIP lines, and a count last. test_truth.c compares the point operations with tests/unit/augment.h where
torchvision is missing.

Of what is compared, the equal is said to be equal. What is not equal differs by a mean of at most 0.5 of 255, for one
of these reasons:

    edges      torchvision blends a moved picture's edge with the fill color over one pixel; the library cuts half a
               pixel outside
    ties       float32 there and float32 in another order here: a result within a rounding of a half may fall to either
               side
"""
import collections
import contextlib
import io
import math
import os
import re
import subprocess
import sys
import unittest

ROOT = os.getcwd()
sys.path.insert(0, os.path.join(ROOT, "examples", "python"))
sys.path.insert(0, os.path.join(ROOT, "tests", "bindings"))
sys.dont_write_bytecode = True
import benzina  # noqa: E402
from benzina import ops  # noqa: E402
from needs import importable, needs  # noqa: E402
from test_python import ARCHIVE, run_tests  # noqa: E402

numpy, torch = importable("numpy"), importable("torch")
if torch is not None and importable("torchvision") is not None:
    from torchvision.transforms import functional as F
    from torchvision.transforms import InterpolationMode
    from torchvision.transforms import RandomErasing as TheirErasing

TEST_ALL = os.environ.get("TEST_ALL")
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
    # Floats become integers here, as since torchvision 0.15, when it rounds them so itself.
    "Hue": lambda image, m: F.convert_image_dtype(
        F.adjust_hue(F.convert_image_dtype(image, torch.float32), m), torch.uint8
    ),
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
    """The 3 x 3 matrix from the moved picture's pixels, of which integers are centers, to the picture's, by
    torchvision's own function."""
    shear, angle, translate, center = [0.0, 0.0], 0.0, [0.0, 0.0], [0.0, 0.0]
    if name in ("ShearX", "ShearY"):
        shear["XY".index(name[-1])] = math.degrees(math.atan(magnitude))
        center = [-width * 0.5, -height * 0.5]
    elif name in ("TranslateX", "TranslateY"):
        translate["XY".index(name[-1])] = float(int(magnitude))
    else:
        angle = -magnitude
    inner = numpy.array(
        F._get_inverse_affine_matrix(center, angle, translate, 1.0, shear) + [0, 0, 1], numpy.float64
    ).reshape(3, 3)
    to_center = numpy.array([[1, 0, 0.5 - width / 2], [0, 1, 0.5 - height / 2], [0, 0, 1]])
    return numpy.linalg.inv(to_center) @ inner @ to_center


GEOMETRY = ("ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate")


def moved(image, name, magnitude, fill):
    """By torchvision."""
    fill = [float(value) for value in fill]
    bilinear = InterpolationMode.BILINEAR
    if name == "Rotate":
        return F.rotate(image, magnitude, interpolation=bilinear, fill=fill)
    shear, translate, center = [0.0, 0.0], [0, 0], None
    if name.startswith("Shear"):
        shear["XY".index(name[-1])] = math.degrees(math.atan(magnitude))
        center = [0, 0]
    else:
        translate["XY".index(name[-1])] = int(magnitude)
    return F.affine(image, 0.0, translate, 1.0, shear, interpolation=bilinear, fill=fill, center=center)


def resampled(image, matrix, fill, size=None):
    """H x W x 3 of one bilinear resampling in float64, rounded; and which pixels have all four of their sources
    inside. size: (H, W), where it is not the image's."""
    height, width = image.shape[:2]
    y, x = numpy.mgrid[:size[0], :size[1]] if size else numpy.mgrid[:height, :width]
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


# ---- the library

def made(images, augment, **settings):
    """What a loader makes of pictures without a crop: N x H x W x 3, and what was drawn for each."""
    dataset = benzina.from_arrays(images)
    height, width = images.shape[1:3]
    loader = benzina.DataLoader(
        dataset,
        (height, width),
        len(images),
        warp=None,
        augment=augment,
        dtype="uint8",
        layout="NHWC",
        output="numpy",
        seed=settings.pop("seed", 1),
        **settings
    )
    with_errors = next(loader.batches())
    assert not with_errors.errors(), with_errors.errors()
    return with_errors.images.numpy().copy(), [with_errors.drawn(slot) for slot in range(len(images))]


NAMES = {
    "identity": "Identity",
    "shear_x": "ShearX",
    "shear_y": "ShearY",
    "translate_x": "TranslateX",
    "translate_y": "TranslateY",
    "translate_x_px": "TranslateX",
    "translate_y_px": "TranslateY",
    "rotate": "Rotate",
    "brightness": "Brightness",
    "saturation": "Color",
    "contrast": "Contrast",
    "sharpness": "Sharpness",
    "hue": "Hue",
    "posterize": "Posterize",
    "solarize": "Solarize",
    "gamma": "Gamma",
    "autocontrast": "AutoContrast",
    "equalize": "Equalize",
    "invert": "Invert",
    "grayscale": "Grayscale",
}
NO_MAGNITUDE = ("Identity", "AutoContrast", "Equalize", "Invert", "Grayscale")


def in_pixels(drawn, width=WIDTH, height=HEIGHT):
    """torchvision's name of a drawn operation, and its magnitude there."""
    share = {"translate_x": width, "translate_y": height}.get(drawn.name, 1)
    return NAMES[drawn.name], drawn.magnitude * share


def replayed(image, drawn, fill=(0, 0, 0)):
    """A picture, H x W x 3, with what was drawn: geometry by one resampling in float64, and then torchvision's
    operations in order."""
    height, width = image.shape[:2]
    matrix = numpy.eye(3)
    for one in drawn:
        name, magnitude = in_pixels(one, width, height)
        if name in GEOMETRY:
            matrix = matrix @ inverse_affine(name, magnitude, width, height)
    tensor = as_tensor(image if numpy.array_equal(matrix, numpy.eye(3)) else resampled(image, matrix, fill)[0])
    for one in drawn:
        name, magnitude = in_pixels(one, width, height)
        if name not in GEOMETRY:
            tensor = POINTS[name](tensor, *(() if name in NO_MAGNITUDE else (magnitude,)))
    return as_array(tensor)


def chi_squared(counts, expected):
    """Its value, and the one that a fair draw exceeds once in a million times (by Wilson and Hilferty's
    approximation)."""
    value = sum((count - e) ** 2 / e for count, e in zip(counts, expected))
    degrees = len(counts) - 1
    return value, degrees * (1 - 2 / (9 * degrees) + 4.75 * math.sqrt(2 / (9 * degrees))) ** 3


def draws(policy, count, out_size=(WIDTH, HEIGHT)):
    """(name, magnitude, area) of what a policy draws count times, each with the numbers of another sample."""
    found = []
    policy = ops._augment._as_policy(policy)
    made = policy._policies()                   # the structs, which are the same each time
    policy._policies = lambda: made
    for sample in range(count):
        transform = benzina._c.new("transform")
        policy(benzina.Random(7, 3, sample, 4), transform, out_size)
        found.append([(ops._augment.NAMES[one.kind], one.magnitude, tuple(one.area))
                      for one in transform.operations[:transform.operation_count]])
    return found


class Draws(unittest.TestCase):
    """Distributions; seeds are fixed, so that these tests either pass always or never."""

    def check_even(self, counts, cells):
        value, most = chi_squared([counts[cell] for cell in cells], [sum(counts.values()) / len(cells)] * len(cells))
        self.assertEqual(set(counts) - set(cells), set())
        self.assertLess(value, most, counts)

    def test_rand_augment_draws_each_operation_and_sign_as_often(self):
        found = draws(ops.RandAugment(2, 9), 8000)
        self.assertEqual({len(one) for one in found}, {2})
        names = [one.kind for one in ops.RandAugment().operations]
        for place in range(2):
            self.check_even(collections.Counter(one[place][0] for one in found), names)
        pairs = collections.Counter((first[0], second[0]) for first, second in found)
        self.check_even(pairs, [(a, b) for a in names for b in names])
        signed = [one.kind for one in ops.RandAugment().operations if one.sign]
        signs = collections.Counter(
            (name, magnitude > 0) for one in found for name, magnitude, _ in one if name in signed
        )
        for name in signed:
            self.check_even({sign: signs[name, sign] for sign in (False, True)}, [False, True])
        sizes = {
            name: {round(abs(magnitude), 4) for one in found for n, magnitude, _ in one if n == name} for name in names
        }
        self.assertEqual({name: len(size) for name, size in sizes.items()}, dict.fromkeys(names, 1))
        self.assertEqual((sizes["rotate"], sizes["brightness"], sizes["solarize"]), ({9.0}, {0.27}, {178.5}))

    def test_trivial_augment_draws_each_operation_and_bin_as_often(self):
        found = draws(ops.TrivialAugmentWide(), 14000 if TEST_ALL else 7000)
        self.check_even(
            collections.Counter(one[0] for (one,) in found), [one.kind for one in ops.TrivialAugmentWide().operations]
        )
        bins = collections.Counter(round(abs(one[1]) / 135 * 30, 3) for (one,) in found if one[0] == "rotate")
        self.check_even(bins, [float(n) for n in range(31)])

    def test_auto_augment_draws_each_pair_with_its_probabilities(self):
        policy, count = ops.AutoAugment("imagenet"), 12000 if TEST_ALL else 6000
        found = draws(policy, count)
        expected, operations = collections.Counter(), policy.operations
        for first, second in zip(operations[::2], operations[1::2]):
            p, q = first.p * (first.kind != "identity"), second.p * (second.kind != "identity")
            for names, share in (
                ((first.kind, second.kind), p * q),
                ((first.kind,), p * (1 - q)),
                ((second.kind,), (1 - p) * q),
                ((), (1 - p) * (1 - q)),
            ):
                expected[names] += share / (len(operations) / 2)
        counts = collections.Counter(tuple(name for name, *_ in one if name != "identity") for one in found)
        cells = [names for names, share in expected.items() if share > 1e-9]
        self.assertEqual(set(counts) - set(cells), set())
        value, most = chi_squared([counts[cell] for cell in cells], [expected[cell] * count for cell in cells])
        self.assertLess(value, most)

    def test_ranges_are_even_and_probabilities_hold(self):
        found = draws(ops.Policy([ops.Operation("blur", (0.5, 2.5))], p=0.3), 8000)
        sigmas = [one[0][1] for one in found if one]
        value, most = chi_squared([len(sigmas), 8000 - len(sigmas)], [2400, 5600])
        self.assertLess(value, most)
        self.check_even(collections.Counter(min(int((sigma - 0.5) * 10), 19) for sigma in sigmas), list(range(20)))

    def test_a_shuffle_has_each_order_as_often(self):
        found = draws(ops.RandomOrder([ops.Operation(name) for name in ("invert", "equalize", "grayscale")]), 3000)
        self.assertEqual({len({name for name, *_ in one}) for one in found}, {3})
        self.assertEqual(len({tuple(name for name, *_ in one) for one in found}), 6)
        orders = collections.Counter(tuple(name for name, *_ in one) for one in found)
        self.check_even(orders, list(orders))

    @needs("torch", "torchvision", "numpy")
    def test_erasing_has_torchvisions_law(self):
        torch.manual_seed(1)
        count, mine, theirs = 4000, [], []
        for one in draws(ops.RandomErasing(1.0), count):
            left, top, right, bottom = one[0][2]
            if right:
                mine.append((bottom - top, right - left, top, left))
        empty = torch.zeros(3, HEIGHT, WIDTH)
        for _ in range(count):
            top, left, height, width, _ = TheirErasing.get_params(empty, (0.02, 0.33), (0.3, 3.3), [0.0])
            if height != HEIGHT:
                theirs.append((height, width, top, left))
        self.assertLess(abs(len(mine) - len(theirs)), 40)
        for number, label in enumerate(("height", "width", "top", "left")):
            a, b = sorted(one[number] for one in mine), sorted(one[number] for one in theirs)
            apart = max(
                abs(numpy.searchsorted(a, x, "right") / len(a) - numpy.searchsorted(b, x, "right") / len(b))
                for x in range(0, WIDTH, 3)
            )
            # Kolmogorov and Smirnov: 1 in 1e5
            self.assertLess(apart, 2.6 * math.sqrt((len(a) + len(b)) / (len(a) * len(b))), label)

    @needs("numpy")
    def test_lighting_has_the_covariance_of_alexnets_colors(self):
        """Its principal components of ImageNet's colors and their eigenvalues, as AlexNet's successors have them."""
        values = numpy.array((0.2175, 0.0188, 0.0045))
        vectors = numpy.array(((-0.5675, 0.7192, 0.4009), (-0.5808, -0.0045, -0.8140), (-0.5836, -0.6948, 0.4203)))
        policy, sums = ops.Policy([ops.Operation("lighting", 0.1)]), []
        for sample in range(4000):
            transform = benzina._c.new("transform")
            policy(benzina.Random(7, 3, sample, 4), transform, (WIDTH, HEIGHT))
            sums.append(tuple(transform.operations[0].value))
        parts = (numpy.array(sums) / 255) @ numpy.linalg.inv((vectors * values).T) / 0.1
        self.assertLess(numpy.abs(parts.mean(0)).max(), 4.9 / math.sqrt(4000))
        self.assertLess(numpy.abs(numpy.cov(parts.T) - numpy.eye(3)).max(), 4.9 * math.sqrt(2 / 4000))
        self.check_even(collections.Counter(int(8 * (1 + math.erf(part / math.sqrt(2))) / 2)
                                            for part in parts.ravel()), list(range(8)))

    def test_the_views_of_dino_are_blurred_and_solarized_as_often_as_their_outputs_say(self):
        def view(blur, solarize=0.0):
            jitter = ops.RandomApply([ops.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8)
            return [jitter, ops.RandomGrayscale(0.2), ops.RandomApply([ops.GaussianBlur(3)], p=blur),
                    ops.RandomSolarize(128, p=solarize)]

        warp, count, locals_ = ops.RandomResizedCrop(flip_h=0.5), 1500, 4
        loader = benzina.DataLoader(
            benzina.from_arrays([PPM] * 100), 8, 100, seed=5, epochs=count // 100, warp=warp, augment=view(1.0),
            outputs=[benzina.Output("second", warp=warp, views=1, augment=view(0.1, 0.2)),
                     benzina.Output("local", shape=4, warp=warp, views=locals_, augment=view(0.5))])
        seen, orders = [collections.Counter() for _ in range(3)], [collections.Counter() for _ in range(3)]
        for batch in (batch for _ in range(count // 100) for batch in loader.batches()):
            for slot in range(100):
                for number in range(2 + locals_):
                    names = [one.name for one in batch.drawn(slot, number)]
                    jitter = [n for n in names if n in ("brightness", "contrast", "saturation", "hue")]
                    self.assertEqual(names, jitter + [n for n in names if n not in jitter])
                    self.assertIn(len(jitter), (0, 4))
                    seen[min(number, 2)].update(set(names) - set(jitter) | {"jitter"} if jitter else set(names))
                    orders[min(number, 2)].update([tuple(jitter)] if jitter else [])
        for which, (blur, solarize) in enumerate(((1.0, 0.0), (0.1, 0.2), (0.5, 0.0))):
            total = count * (locals_ if which == 2 else 1)
            for name, share in (("blur", blur), ("solarize", solarize), ("jitter", 0.8), ("grayscale", 0.2)):
                found = seen[which][name]
                if share in (0.0, 1.0):
                    self.assertEqual(found, total * share, (which, name))
                    continue
                value, most = chi_squared([found, total - found], [total * share, total * (1 - share)])
                self.assertLess(value, most, (which, name, found, total))
            self.assertEqual(len(orders[which]), 24)
            self.check_even(orders[which], list(orders[which]))

    def test_a_loader_draws_the_same_with_any_number_of_threads(self):
        dataset = benzina.from_arrays([PPM] * 40)
        seen = []
        for threads in (1, 2, 5):
            loader = benzina.DataLoader(
                dataset, 8, 10, seed=3, num_threads=threads, augment=[ops.RandAugment(3, 9), ops.RandomErasing()]
            )
            seen.append([[batch.drawn(slot) for slot in range(10)] for batch in loader.batches()])
        self.assertEqual(seen[0], seen[1])
        self.assertEqual(seen[0], seen[2])
        self.assertGreater(len({str(one) for batch in seen[0] for one in batch}), 30)


# A picture for tests without numpy: 8 x 8 pixels.
PPM = b"P6\n8 8\n255\n" + bytes(range(192))


@needs("torch", "torchvision", "numpy")
class Truth(unittest.TestCase):
    """Pixels beside torchvision's."""

    def one(self, operation, **settings):
        """A picture, and it with one operation."""
        image = pictures()
        made_, drawn = made(image, operation, **settings)
        self.assertEqual([[one.name for one in each] for each in drawn], [[operation.kind]])
        return image[0], made_[0], drawn[0]

    def test_point_operations_are_equal(self):
        points = {
            "brightness": (-1, -0.4, 0.27, 0.99),
            "saturation": (-1, -0.27, 0.5),
            "contrast": (-0.99, -0.27, 0.27, 0.9),
            "posterize": (1, 4, 7, 8),
            "hue": (-0.3, 0.1, 0.5),
            "solarize": (0, 100.5, 178.5, 255),
            "invert": (0,),
            "grayscale": (0,),
        }
        for name, magnitudes in points.items():
            for magnitude in magnitudes:
                image, mine, drawn = self.one(ops.Operation(name, magnitude))
                self.assertEqual(difference(mine, replayed(image, drawn)), (0, 0), drawn)

    def test_operations_of_the_whole_picture_and_of_neighbors_are_equal(self):
        for name, magnitudes in {"autocontrast": (0,), "equalize": (0,), "sharpness": (-1, -0.27, 0.27, 0.99)}.items():
            for magnitude in magnitudes:
                image, mine, drawn = self.one(ops.Operation(name, magnitude))
                self.assertEqual(difference(mine, replayed(image, drawn)), (0, 0), drawn)

    def test_operations_that_are_not_torchvisions_have_their_formulas(self):
        def covered(image, drawn, inside):
            made_ = image.copy()
            made_[inside] = drawn[0].value
            return made_

        y, x = numpy.mgrid[:HEIGHT, :WIDTH]
        for magnitude in (-60, 0, 110.0, 255):
            image, mine, drawn = self.one(ops.Operation("solarize_add", magnitude))
            added = numpy.clip(image + numpy.float64(magnitude), 0, 255).astype(numpy.uint8)
            self.assertEqual(difference(mine, numpy.where(image < 128, added, image)), (0, 0), drawn)
        for magnitude in (0.1, 1.0):
            image, mine, drawn = self.one(ops.Operation("lighting", magnitude))
            added = numpy.clip(numpy.floor(image + numpy.float32(drawn[0].value) + 0.5), 0, 255)
            self.assertEqual(difference(mine, added), (0, 0), drawn)
        for seed in range(6):
            mine, drawn = made(pictures(), ops.Operation("shuffle"), seed=seed)
            order = [int(channel) for channel in drawn[0][0].value]
            self.assertEqual(difference(mine[0], pictures()[0][..., order]), (0, 0), drawn)
        for magnitude in (0.2, 0.7):
            image, mine, drawn = self.one(ops.Operation("cutout", magnitude, value=(9, 20, 250)))
            left, top, right, bottom = drawn[0].area
            inside = (x >= left) & (x < right) & (y >= top) & (y < bottom)
            self.assertLessEqual(max(right - left, bottom - top), round(magnitude * HEIGHT))
            self.assertEqual(difference(mine, covered(image, drawn, inside)), (0, 0), drawn)
            image, mine, drawn = self.one(ops.Operation("grid_mask", magnitude, value=7, ratio=(0.3, 0)))
            left, top, period, edge = drawn[0].area
            self.assertEqual((period, edge), (round(magnitude * HEIGHT), round(round(magnitude * HEIGHT) * 0.3)))
            inside = ((x - left) % period < edge) & ((y - top) % period < edge)
            self.assertEqual(difference(mine, covered(image, drawn, inside)), (0, 0), drawn)

    def test_gamma_and_blur_differ_by_roundings_alone(self):
        for magnitude in (0.7, 0.9, 2.2):
            image, mine, drawn = self.one(ops.Operation("gamma", magnitude))
            mean, most = difference(mine, replayed(image, drawn))
            # ties: torchvision truncates float32
            self.assertTrue(mean < 0.05 and most <= 1, (mean, most, drawn))
        for kernel, sigma in ((3, 0.5), (9, 2.0), (23, 1.3), (63, 10)):
            image, mine, drawn = self.one(ops.Operation("blur", sigma, kernel_size=kernel))
            mean, most = difference(
                mine, as_array(POINTS["GaussianBlur"](as_tensor(image), kernel, drawn[0].magnitude))
            )
            self.assertLess(mean, 0.005, drawn)                                         # ties
            self.assertEqual(most, 1, drawn)

    def test_geometry_is_torchvisions_but_for_a_pixel_at_the_edges(self):
        for name, magnitudes in {
            "shear_x": (0.3, -0.99),
            "shear_y": (-0.09,),
            "translate_x": (-0.45, 0.1),
            "translate_y": (0.33,),
            "translate_x_px": (-31.9,),
            "translate_y_px": (7,),
            "rotate": (9, -30, 135),
        }.items():
            for magnitude in magnitudes:
                for fill in ((0, 0, 0), (124, 116, 104)):
                    image, mine, drawn = self.one(ops.Operation(name, magnitude), oob=fill, antialias=False)
                    torchvisions = in_pixels(drawn[0])
                    theirs = as_array(moved(as_tensor(image), *torchvisions, fill))
                    ideal, whole = resampled(image, inverse_affine(*torchvisions, WIDTH, HEIGHT), fill)
                    self.assertLessEqual(difference(mine, theirs)[0], MOST, drawn)                      # edges
                    self.assertLessEqual(difference(mine[whole], theirs[whole])[1], 1, drawn)           # ties
                    self.assertLessEqual(difference(mine, ideal)[0], 0.1, drawn)
                    if name.startswith("translate"):
                        self.assertEqual(difference(mine, theirs), (0, 0), drawn)

    def check_policy(self, policy, count, at_least):
        """Each sample's draw, beside one resampling and torchvision's operations. Means of all of them, since an
        operation such as posterize makes 64 of a rounding."""
        images = pictures(count)
        mine, drawn = made(images, policy, oob=(124, 116, 104), antialias=False)
        differences = [difference(mine[i], replayed(images[i], drawn[i], (124, 116, 104)))[0] for i in range(count)]
        worst = max(range(count), key=differences.__getitem__)
        self.assertLessEqual(differences[worst], MOST, drawn[worst])
        self.assertGreater(sum(d == 0 for d in differences), at_least * count, differences)
        self.assertGreater(sum(bool(((mine[i] != images[i]).any())) for i in range(count)), count // 2)

    def test_rand_augment_is_its_operations_one_after_the_other(self):
        self.check_policy(ops.RandAugment(2, 9), 96, 0.3)

    def test_trivial_augment_is_its_operation(self):
        self.check_policy(ops.TrivialAugmentWide(), 64, 0.4)

    def test_auto_augment_is_its_operations(self):
        for policy in ("imagenet", "cifar10", "svhn"):
            self.check_policy(ops.AutoAugment(policy), 64, 0.3)

    def test_auto_augments_tables_are_torchvisions(self):
        from torchvision.transforms import AutoAugment, AutoAugmentPolicy
        for policy in AutoAugmentPolicy:
            theirs, mine = AutoAugment(policy), ops.AutoAugment(policy)
            space = theirs._augmentation_space(10, (HEIGHT, WIDTH))
            expected = []
            for name, p, step in (one for pair in theirs.policies for one in pair):
                values, is_signed = space[name]
                expected.append((name, p, float(values[step]) if values.ndim else 0.0, bool(is_signed)))
            found = []
            for one in mine.operations:
                name, magnitude = in_pixels(benzina._augment.Drawn(one.kind, one.magnitude[0], (0,) * 4, (0,) * 3))
                found.append((name, one.p, magnitude, one.sign))
            never = [one for one in found if one[:2] == ("Identity", 1.0)]      # what C has for a probability of 0
            self.assertLessEqual(len(never), 1)
            self.assertEqual((len(found), mine.group_size, mine.apply), (50, 2, "choose"))
            for a, b in zip(found, expected):
                if a not in never:
                    self.assertEqual((a[0], a[3] or a[1] * a[2] == 0), (b[0], b[3] or b[1] * b[2] == 0), (policy, a, b))
                    self.assertAlmostEqual(a[1], b[1], 5, (policy, a, b))
                    self.assertAlmostEqual(a[2], b[2], 3, (policy, a, b))

    @needs("timm")
    def test_timms_strings_make_its_operations(self):
        """With a fixed magnitude, its numbers; with a spread one, their distribution."""
        from timm.data import auto_augment as timm
        names = {"Rotate": "rotate", "Posterize": "posterize", "Solarize": "solarize", "SolarizeAdd": "solarize_add",
                 "Color": "saturation", "Contrast": "contrast", "Brightness": "brightness", "Sharpness": "sharpness",
                 "ShearX": "shear_x", "ShearY": "shear_y", "TranslateXRel": "translate_x", "TranslateYRel": "translate_y",
                 "AutoContrast": "autocontrast", "Equalize": "equalize", "Invert": "invert"}
        factors = ("saturation", "contrast", "brightness", "sharpness")
        for text in ("rand-m9-inc1", "rand-m4", "rand-m10-n3-p0.7", "rand-m7-inc1-mmax10"):
            theirs, mine = timm.rand_augment_transform(text), ops.TimmRandAugment(text)
            self.assertEqual((mine.draws, len(mine.operations)), (theirs.num_layers, 15), text)
            known = {one.kind: one for one in mine.operations}
            for one in theirs.ops:
                own = known[names[one.name.replace("Increasing", "")]]
                self.assertEqual(own.p, one.prob, text)
                if one.level_fn is not None:
                    number, = one.level_fn(one.magnitude, one.hparams)
                    number = number - 1 if own.kind in factors else number
                    self.assertAlmostEqual(abs(own.magnitude[0]), abs(number), 5, (text, own))
                    self.assertEqual(own.magnitude[0], own.magnitude[1], (text, own))
        for text in ("rand-m9-mstd0.5-inc1", "rand-m5-mstd2", "rand-m6-mstd101-inc1"):
            found, count = collections.defaultdict(list), 12000
            for drawn in draws(ops.TimmRandAugment(text + "-p1"), count // 2):
                for name, magnitude, _ in drawn:
                    found[name].append(magnitude)
            import random
            random.seed(1)
            for one in timm.rand_augment_transform(text + "-p1").ops:
                kind = names[one.name.replace("Increasing", "")]
                self.assertLess(abs(len(found[kind]) - count / 15), 5 * math.sqrt(count / 15), (text, kind))
                if one.level_fn is None:
                    continue
                levels = []
                for _ in range(4000):
                    spread = one.magnitude_std
                    level = random.uniform(0, one.magnitude) if spread == math.inf else random.gauss(one.magnitude, spread)
                    number, = one.level_fn(max(0.0, min(level, one.magnitude_max or 10.0)), one.hparams)
                    levels.append(number - 1 if kind in factors else number)
                own = [round(m) for m in found[kind]] if kind == "posterize" else found[kind]
                own = [math.ceil(m) for m in own] if kind == "solarize" else own
                a, b = numpy.sort(own), numpy.sort(levels)
                ends = numpy.union1d(a, b)
                apart = numpy.abs(numpy.searchsorted(a, ends, "right") / len(a) -
                                  numpy.searchsorted(b, ends + 1e-6 * abs(ends), "right") / len(b))
                if kind == "solarize_add":      # whole numbers there, and those between here
                    apart = numpy.abs(numpy.searchsorted(numpy.round(a), ends, "right") / len(a) -
                                      numpy.searchsorted(b, ends, "right") / len(b))
                self.assertLess(apart.max(), 2.6 * math.sqrt((len(a) + len(b)) / (len(a) * len(b))), (text, kind))

    def test_augmix_mixes_what_torchvision_makes_of_its_chains(self):
        from torchvision.transforms import AugMix as TheirAugMix
        images, mix = pictures(24), ops.AugMix(severity=5, mixture_width=2)
        settings = dict(dtype="uint8", layout="NHWC", output="numpy", seed=3, warp=[ops.RandomHorizontalFlip()],
                        augment=mix, antialias=False)
        loader = benzina.DataLoader(benzina.from_arrays(images), (HEIGHT, WIDTH), 24, **settings)
        mixed = next(iter(loader))[0]
        chains = {}

        def note(sample, rng, transform):       # Batch.drawn has what policies of a loader draw, not what callbacks add
            chains[sample.epoch, sample.index, sample.view] = [
                benzina._augment.Drawn(benzina._augment.NAMES[one.kind], one.magnitude, tuple(one.area), tuple(one.value))
                for one in transform.operations[:transform.operation_count]]

        twin = benzina.DataLoader(benzina.from_arrays(images), (HEIGHT, WIDTH), 24, transform=note, **settings)
        views = next(twin.batches()).images.numpy()
        self.assertEqual((mixed.shape, views.shape), ((24, HEIGHT, WIDTH, 3), (3, 24, HEIGHT, WIDTH, 3)))
        depths, flipped = collections.Counter(), 0
        weights = twin._hooks.mixing.weights(3, 0, range(24))
        space = TheirAugMix(5)._augmentation_space(10, (HEIGHT, WIDTH))
        for i, image in enumerate(images):
            is_flipped = not numpy.array_equal(views[0, i], image)
            image = image[:, ::-1] if is_flipped else image
            flipped += is_flipped
            self.assertTrue((views[0, i] == image).all())
            for view in (1, 2):                 # the same crop, and its chain
                drawn = chains[0, i, view]
                depths[len(drawn)] += 1
                self.assertLessEqual(difference(views[view, i], replayed(image, drawn))[0], MOST, drawn)
                for one in drawn:
                    name, magnitude = in_pixels(one)
                    values, is_signed = space[name]
                    known = values[:5].tolist() if values.ndim else [0.0]
                    self.assertLess(min(abs(abs(magnitude) - value) for value in known), 0.51 if name == "Posterize" else
                                    1e-3 * WIDTH, one)
            w = [row[i] for row in weights]
            self.assertAlmostEqual(sum(w), 1, 6)
            ideal = sum(w[v] * views[v, i].astype(numpy.float64) for v in range(3))
            self.assertLess(numpy.abs(mixed[i] + 0.5 - ideal).max(), 0.51)
        self.assertEqual(set(depths), {1, 2, 3})
        self.assertTrue(3 < flipped < 21)
        again = next(iter(benzina.DataLoader(benzina.from_arrays(images), (HEIGHT, WIDTH), 24, num_threads=1, **settings)))
        self.assertTrue((again[0] == mixed).all())

    def test_augmix_has_the_weights_of_its_distributions(self):
        torch.manual_seed(1)
        mix = ops.AugMix(alpha=0.7)
        loader = benzina.DataLoader(benzina.from_arrays(pictures(1, 8, 8)), 8, 1, augment=mix, output="numpy")
        mine = numpy.array(loader._hooks.mixing.weights(1, 0, range(4000)))
        theirs = torch._sample_dirichlet(torch.full((4000, 2), 0.7)).numpy()
        parts = torch._sample_dirichlet(torch.full((4000, 3), 0.7)).numpy() * theirs[:, 1:]
        for a, b in ((mine[0], theirs[:, 0]), (mine[2], parts[:, 1])):
            a, b = numpy.sort(a), numpy.sort(b)
            apart = numpy.abs(numpy.searchsorted(a, a, "right") - numpy.searchsorted(b, a, "right")).max() / 4000
            self.assertLess(apart, 2.6 * math.sqrt(2 / 4000))

    def test_many_moves_are_one_resampling(self):
        moves = ops.Policy(
            [
                ops.Operation("shear_x", 0.2),
                ops.Operation("rotate", 20),
                ops.Operation("translate_y", -0.1),
                ops.Operation("shear_y", -0.3),
            ]
        )
        self.check_policy(moves, 2, -1)

    def test_a_crop_and_what_moves_it_are_one_resampling_at_their_homography(self):
        """Beyond the crop's own rectangle there is the fill color, or the picture. The homography that comes out is the
        crop's, times each drawn one."""
        images, fill, size = pictures(12), (124, 116, 104), (96, 80)
        moves = [ops.Operation(name, magnitude, sign=True) for name, magnitude in
                 (("rotate", (5, 40)), ("shear_x", (0.1, 0.5)), ("translate_y", (0.1, 0.4)))]
        height, width = size
        y, x = numpy.mgrid[:height, :width]
        targets = numpy.stack([x, y, numpy.ones_like(x)], -1).astype(numpy.float64)
        for beyond_crop in (False, True):
            crops = [None, None]
            for is_moved in (0, 1):
                loader = benzina.DataLoader(
                    benzina.from_arrays(images), size, 12, warp=ops.RandomResizedCrop(scale=(0.1, 0.6), flip_h=0.5),
                    augment=ops.Policy(moves, "shuffle", 2) if is_moved else [], beyond_crop=beyond_crop, oob=fill,
                    antialias=False, dtype="uint8", layout="NHWC", output="numpy", seed=9, geometry=True)
                batch = next(loader.batches())
                crops[is_moved] = batch.tensor("geometry").numpy()[:, :9].reshape(-1, 3, 3).astype(numpy.float64)
            mine = batch.images.numpy()
            for i, image in enumerate(images):
                matrix = numpy.eye(3)
                for one in batch.drawn(i):
                    matrix = matrix @ inverse_affine(*in_pixels(one, width, height), width, height)
                self.assertLess(numpy.abs(crops[0][i] @ matrix - crops[1][i]).max(), 1e-3, batch.drawn(i))
                moved_ = targets @ matrix.T
                kept = ((moved_[..., :2] >= -0.5) & (moved_[..., :2] <= numpy.array((width, height)) - 0.5)).all(-1)
                ideal = resampled(image, crops[1][i], fill, (height, width))[0]
                if not beyond_crop:
                    ideal[~kept] = fill
                mean, _ = difference(mine[i], ideal)
                # ties, and pixels that float32 has at the other side of an edge
                self.assertLess(mean, 0.1, batch.drawn(i))
                if not beyond_crop:
                    self.assertGreater((~kept).mean(), 0.01)
                    self.assertTrue((mine[i][~kept] == fill).all(-1).mean() > 0.99)
                else:
                    self.assertLess((mine[i][~kept] == fill).all(-1).mean(), 0.9)

    def test_erasing_and_its_values(self):
        image = pictures()
        mean, std = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
        plain = next(
            iter(
                benzina.DataLoader(
                    benzina.from_arrays(image), (HEIGHT, WIDTH), 1, warp=None, mean=mean, std=std, output="numpy"
                )
            )
        )[0]
        for value, expected in ((0, 0.0), ((1, 2, -3), (1, 2, -3)), ("random", None)):
            loader = benzina.DataLoader(
                benzina.from_arrays(image),
                (HEIGHT, WIDTH),
                1,
                warp=None,
                mean=mean,
                std=std,
                output="numpy",
                seed=4,
                augment=ops.RandomErasing(1.0, value=value),
                operations=True,
            )
            images, _, fields = next(iter(loader))
            kind, _, left, top, right, bottom = (int(number) for number in fields["operations"][0, 0, 0, :6])
            self.assertEqual(kind, benzina.OP_ERASE)
            erased = images[0, :, top:bottom, left:right]
            if expected is None:
                self.assertLess(abs(erased.mean()), 0.1)
                self.assertLess(abs(erased.std() - 1), 0.1)
                self.assertGreater(len(numpy.unique(erased)), 500)
            else:
                self.assertTrue((erased == numpy.float32(expected).reshape(-1, 1, 1)).all())
            rest = numpy.ones((HEIGHT, WIDTH), bool)
            rest[top:bottom, left:right] = False
            self.assertTrue((images[0][:, rest] == plain[0][:, rest]).all())

    def test_color_jitter_of_a_list_is_torchvisions_in_the_order_drawn(self):
        images = pictures(24)
        mine, drawn = made(images, ops.ColorJitter(0.4, 0.4, 0.2, 0.1))
        self.assertGreater(len({tuple(one.name for one in each) for each in drawn}), 8)
        for i, each in enumerate(drawn):
            self.assertEqual(len(each), 4)
            self.assertEqual(difference(mine[i], replayed(images[i], each)), (0, 0), each)


@needs("torch", "torchvision", "numpy", "PIL")
class Crops(unittest.TestCase):
    """Warps by torchvision's names, beside it."""

    def loaded(self, images, shape, warp, **settings):
        """(pictures, N x 3 x 3 from output to input) of a loader, in the order of the images."""
        loader = benzina.DataLoader(benzina.from_arrays(images), shape, len(images), warp=warp, dtype="uint8", seed=2,
                                    layout="NHWC", output="numpy", geometry=True, **settings)
        self.was_python = loader._hooks.warp is not None
        batch = next(loader.batches())
        self.assertEqual(batch.errors(), {})
        return batch.images.numpy().copy(), batch.tensor("geometry").numpy()[:, :9].reshape(-1, 3, 3).astype(numpy.float64)

    def check_copied(self, images, padding, size, made_, matrices):
        """Each is torchvision's crop at its offset, mirrored as its matrix says. Returns the offsets."""
        offsets = []
        for image, mine, matrix in zip(images, made_, matrices):
            flip_h, flip_v = matrix[0, 0] < 0, matrix[1, 1] < 0
            left = matrix[0, 2] - (size[1] - 1 if flip_h else 0)
            top = matrix[1, 2] - (size[0] - 1 if flip_v else 0)
            self.assertEqual((left, top, abs(matrix[0, 0]), abs(matrix[1, 1])), (round(left), round(top), 1, 1))
            theirs = F.crop(F.pad(as_tensor(image), [padding]), int(top) + padding, int(left) + padding, *size)
            theirs = F.hflip(theirs) if flip_h else theirs
            theirs = as_array(F.vflip(theirs) if flip_v else theirs)
            self.assertEqual(difference(mine, theirs), (0, 0))
            offsets.append((int(left) + padding, int(top) + padding, bool(flip_h), bool(flip_v)))
        return offsets

    def check_even(self, values, cells):
        counts = collections.Counter(values)
        self.assertEqual(set(counts), set(cells))
        value, most = chi_squared([counts[cell] for cell in cells], [len(values) / len(cells)] * len(cells))
        self.assertLess(value, most, counts)

    def test_random_crop_copies_pixels_to_the_bit_at_each_offset_as_often(self):
        images = pictures(1500, 32, 32)
        warp = ops.RandomCrop(32, padding=4, flip_h=0.5)
        offsets = self.check_copied(images, 4, (32, 32), *self.loaded(images, 32, warp))
        self.assertFalse(self.was_python)
        for number, cells in ((0, range(9)), (1, range(9)), (2, (False, True))):
            self.check_even([one[number] for one in offsets], list(cells))
        images = pictures(200, 40, 37)
        self.check_copied(images, 0, (24, 31), *self.loaded(images, (24, 31), ops.RandomCrop((24, 31))))
        self.check_copied(images, 3, (24, 31), *self.loaded(images, (24, 31), ops.RandomCrop((24, 31), (3, 3, 3, 3))))

    def test_random_crop_pads_pictures_that_are_smaller_as_torchvision_does(self):
        from torchvision.transforms import RandomCrop
        images = pictures(600, 20, 28)
        warp = ops.RandomCrop((24, 26), padding=1, pad_if_needed=True, flip_h=0.5, flip_v=0.5)
        made_, matrices = self.loaded(images, (24, 26), warp)
        offsets = self.check_copied(images, 8, (24, 26), made_, matrices)
        self.assertTrue(self.was_python)
        theirs = set()
        torch.manual_seed(1)
        whole = torch.arange(1, 20 * 28 + 1).reshape(1, 28, 20)
        for _ in range(1500):                   # where a pixel that is always in sight went to
            place = (RandomCrop((24, 26), 1, True)(whole) == 10 * 20 + 11).nonzero()
            theirs.add((10 - int(place[0, 2]) + 8, 10 - int(place[0, 1]) + 8))
        self.assertEqual({one[:2] for one in offsets}, theirs)

    def test_center_crop_copies_torchvisions_pixels(self):
        for width, height, size in ((40, 38, (24, 30)), (41, 38, (24, 30)), (41, 37, (24, 30)), (43, 39, (24, 30)),
                                    (20, 18, (24, 30)), (17, 17, (16, 16)), (19, 21, (24, 30))):
            images = pictures(2, width, height)
            made_, _ = self.loaded(images, size, ops.CenterCrop(size))
            for image, mine in zip(images, made_):
                self.assertEqual(difference(mine, as_array(F.center_crop(as_tensor(image), list(size)))), (0, 0),
                                 (width, height, size))

    def test_flips_of_a_list_are_one_warp_of_the_librarys(self):
        images = pictures(600, 16, 12)
        made_, matrices = self.loaded(images, (12, 16), [ops.RandomHorizontalFlip(0.3), ops.RandomVerticalFlip()])
        self.assertFalse(self.was_python)
        offsets = self.check_copied(images, 0, (12, 16), made_, matrices)
        for number, share in ((2, 0.3), (3, 0.5)):
            flipped = sum(one[number] for one in offsets)
            value, most = chi_squared([flipped, 600 - flipped], [600 * share, 600 * (1 - share)])
            self.assertLess(value, most)

    def parameters(self, matrices, width, height):
        """(degrees clockwise, shift x, shift y, scale) of similarities about the middle."""
        middle = numpy.array([(width - 1) / 2, (height - 1) / 2])
        for matrix in matrices:
            forward = numpy.linalg.inv(matrix)
            shift = forward[:2, :2] @ middle + forward[:2, 2] - middle
            yield (math.degrees(math.atan2(forward[1, 0], forward[0, 0])), *shift, math.sqrt(numpy.linalg.det(forward)))

    def test_rotation_is_torchvisions_of_its_angle(self):
        images = pictures(200)
        made_, matrices = self.loaded(images, (HEIGHT, WIDTH), ops.RandomRotation((5, 25)), antialias=False)
        self.assertFalse(self.was_python)
        angles = [-degrees for degrees, *_ in self.parameters(matrices, WIDTH, HEIGHT)]
        self.assertTrue(5 <= min(angles) < 6 and 24 < max(angles) <= 25, (min(angles), max(angles)))
        for image, mine, angle in list(zip(images, made_, angles))[:12]:
            theirs = as_array(F.rotate(as_tensor(image), angle, InterpolationMode.BILINEAR))
            self.assertLessEqual(difference(mine, theirs)[0], MOST, angle)

    def test_affine_with_shift_and_scale_is_torchvisions(self):
        images = pictures(300)
        warp = ops.RandomAffine(20, translate=(0.1, 0.2), scale=(0.7, 1.3))
        made_, matrices = self.loaded(images, (HEIGHT, WIDTH), warp, antialias=False)
        self.assertTrue(self.was_python)
        found = list(self.parameters(matrices, WIDTH, HEIGHT))
        for number, most in ((0, 20), (1, 0.1 * WIDTH), (2, 0.2 * HEIGHT)):
            values = [one[number] for one in found]
            self.assertTrue(-most * 1.001 <= min(values) < -0.9 * most and 0.9 * most < max(values) <= 1.001 * most, number)
        self.assertTrue(0.7 <= min(one[3] for one in found) < 0.73 and 1.27 < max(one[3] for one in found) <= 1.3001)
        for image, mine, (degrees, x, y, scale) in list(zip(images, made_, found))[:12]:
            self.assertLess(max(abs(x - round(x)), abs(y - round(y))), 0.01)
            theirs = F.affine(as_tensor(image), degrees, [round(x), round(y)], scale, [0.0, 0.0], InterpolationMode.BILINEAR)
            self.assertLessEqual(difference(mine, as_array(theirs))[0], 2 * MOST, (degrees, x, y, scale))

    def test_shear_is_torchvisions(self):
        for shear, draws_ in ((30, (-30, 30, 0, 0)), ((10, 20), (10, 20, 0, 0)), ((5, 6, -20, -10), (5, 6, -20, -10))):
            images = pictures(40)
            for more in ({}, {"scale": (1, 1)}):                # by the library, and in Python
                made_, matrices = self.loaded(images, (HEIGHT, WIDTH), ops.RandomAffine(0, shear=shear, **more),
                                              antialias=False)
                self.assertEqual(self.was_python, bool(more))
                for image, mine, matrix in list(zip(images, made_, matrices))[:4]:
                    inner = numpy.linalg.inv(matrix[:2, :2])
                    y = -math.degrees(math.atan(inner[1, 0] / inner[0, 0])) if inner[0, 0] else 0
                    # torchvision's matrix for these two, by its own function, has this inverse
                    best = min(((numpy.abs(numpy.array(F._get_inverse_affine_matrix([0, 0], 0.0, [0, 0], 1.0, [sx, sy]))
                                           .reshape(2, 3)[:, :2] - matrix[:2, :2]).max(), sx, sy)
                                for sx in numpy.linspace(draws_[0], draws_[1], 241)
                                for sy in numpy.linspace(draws_[2], draws_[3], 41 if draws_[2] != draws_[3] else 1)))
                    self.assertLess(best[0], 0.01, (shear, more, matrix, y))

    def test_perspective_moves_corners_as_far_as_torchvision(self):
        from torchvision.transforms import RandomPerspective
        images, torch_ = pictures(300, 60, 40), torch
        _, matrices = self.loaded(images, (40, 60), ops.RandomPerspective(0.4, p=0.6))
        self.assertFalse(self.was_python)
        moved_ = [matrix for matrix in matrices if not numpy.allclose(matrix, numpy.eye(3), atol=1e-6)]
        value, most = chi_squared([len(moved_), 300 - len(moved_)], [180, 120])
        self.assertLess(value, most)
        torch_.manual_seed(1)
        theirs = numpy.array([RandomPerspective.get_params(60, 40, 0.4)[1] for _ in range(300)])
        mine = []
        for matrix in moved_:
            inverse = numpy.linalg.inv(matrix)
            corners = numpy.array([[-0.5, 59.5 - 1, 59.5 - 1, -0.5], [-0.5, -0.5, 39.5 - 1, 39.5 - 1], [1] * 4])
            to = inverse @ corners
            mine.append(((to[:2] / to[2]).T + 0.5).tolist())
        mine = numpy.array(mine)
        for corner in range(4):
            for axis in range(2):
                a, b = mine[:, corner, axis], theirs[:, corner, axis]
                self.assertLess(abs(a.min() - b.min()) + abs(a.max() - b.max()), 1.5, (corner, axis))

    def test_a_list_is_one_after_the_other_wherever_it_is_drawn(self):
        """What the library draws of a list is distributed as what Python draws of it, and a crop is filtered once."""
        images = pictures(8, 60, 50)
        stages = [ops.RandomCrop(40, padding=4), ops.RandomRotation((10, 10)), ops.RandomPerspective(0)]
        made_, matrices = self.loaded(images, 40, stages)
        self.assertFalse(self.was_python)
        for matrix in matrices:
            turned = numpy.linalg.inv(matrix)
            self.assertAlmostEqual(math.degrees(math.atan2(turned[1, 0], turned[0, 0])), -10, 3)
            middle = matrix @ (19.5, 19.5, 1)   # a crop's middle
            self.assertLess(numpy.abs(middle[:2] - 0.5 - numpy.round(middle[:2] - 0.5)).max(), 1e-4)
        _, twice = self.loaded(images, 40, [ops.RandomCrop(40), ops.RandomRotation((10, 10)), ops.RandomRotation((20, 20))])
        self.assertTrue(self.was_python)
        for matrix in twice:
            turned = numpy.linalg.inv(matrix)
            self.assertAlmostEqual(math.degrees(math.atan2(turned[1, 0], turned[0, 0])), -30, 3)

    def test_settings_that_cannot_be_are_refused_by_their_names(self):
        images = pictures(1, 32, 32)
        for words, ask in (
            ("makes pictures of 28 x 28, and shape says 32 x 32", lambda: self.loaded(images, 32, ops.RandomCrop(28))),
            ("makes pictures of 28 x 28", lambda: self.loaded(images, 32, [ops.CenterCrop(28), ops.RandomVerticalFlip()])),
            ("padding: (1, 2)", lambda: ops.RandomCrop(28, (1, 2))),
            ("comes first", lambda: ops.Compose([ops.Resize(), ops.CenterCrop(8)])),
            ("is no warp of ops", lambda: ops.Compose([ops.Resize(), ops.AutoAugment()])),
            ("p: 2", lambda: ops.RandomVerticalFlip(2)),
            ("one number must not be negative", lambda: ops.RandomRotation(-3)),
            ("translate: (2, 0)", lambda: ops.RandomAffine(0, translate=(2, 0))),
            ("scale: (2, 1)", lambda: ops.RandomAffine(0, scale=(2, 1))),
            ("the warp has its own", lambda: self.loaded(images, 32, ops.RandomRotation(3), rotate=4)),
        ):
            with self.assertRaises((TypeError, ValueError)) as caught:
                ask()
            self.assertIn(words, str(caught.exception))

    def test_warps_say_what_they_are_and_can_be_pickled(self):
        import copy
        import pickle
        for warp in (ops.RandomCrop(32, padding=4), ops.CenterCrop((3, 4)), ops.RandomRotation(15), ops.RandomPerspective(0.3),
                     ops.RandomAffine(3, (0.1, 0.2), (0.5, 2), 4), ops.RandomVerticalFlip(0.2),
                     ops.Compose([ops.RandomCrop(32), ops.RandomHorizontalFlip()])):
            for again in (pickle.loads(pickle.dumps(warp)), copy.deepcopy(warp), eval(repr(warp), vars(ops))):
                self.assertEqual(repr(again), repr(warp))
            self.assertEqual(type(warp).__module__, "benzina.ops")


class Loop(unittest.TestCase):
    """augment= of loaders and outputs."""

    def loader(self, augment, **settings):
        return benzina.DataLoader(
            benzina.from_arrays([PPM] * 4),
            8,
            4,
            output="memoryview",
            dtype="uint8",
            warp=None,
            augment=augment,
            **settings
        )

    def test_what_was_drawn_is_an_array_of_the_loop(self):
        policy = ops.Policy(
            [
                ops.Operation("rotate", 15),
                ops.Operation("solarize", 200.5),
                ops.Operation("cutout", 0.5, value=(1, 2, 3)),
            ]
        )
        outputs = [benzina.Output("other", warp=ops.Resize(), views=1, augment=ops.RandomInvert(1.0))]
        _, _, fields = next(iter(self.loader(policy, operations=True, outputs=outputs)))
        numbers = fields["operations"]
        self.assertEqual((numbers.shape, numbers.format), ((4, 2, 8, 9), "f"))
        rows = numbers.tolist()
        for sample in rows:
            self.assertEqual(
                [row[:2] for row in sample[0][:3]],
                [[benzina.OP_ROTATE, 15], [benzina.OP_SOLARIZE, 200.5], [benzina.OP_CUTOUT, 0.5]],
            )
            self.assertEqual(sample[0][2][6:], [1, 2, 3])
            self.assertEqual(sample[0][3:], [[0] * 9] * 5)
            self.assertEqual([row[0] for row in sample[1][:2]], [benzina.OP_INVERT, 0])

    def test_without_policies_nothing_was_drawn(self):
        loader = self.loader(())
        batch = next(loader.batches())
        self.assertEqual((batch.drawn(0), batch.operations.shape), ([], (4, 0, 8, 9)))

    def test_a_batch_that_is_gone_does_not_tell(self):
        batch = next(self.loader(ops.RandAugment()).batches())
        self.assertEqual(len(batch.drawn(3)), 2)
        with self.assertRaisesRegex(ValueError, "slot"):
            batch.drawn(4)
        with self.assertRaisesRegex(ValueError, "view"):
            batch.drawn(0, 1)
        batch.release()
        for ask in (lambda: batch.drawn(0), lambda: batch.operations):
            with self.assertRaises(benzina.Error):
                ask()

    def test_a_probability_of_0_is_never(self):
        invert = ops.Operation("invert")
        for policy in (
            ops.RandomInvert(0),
            ops.RandomApply([ops.RandomInvert(1.0)], p=0),
            ops.Policy([invert], p=0),
            [],
        ):
            self.assertEqual(self.loader(policy, operations=True).batches().__next__().drawn(0), [])
        self.assertEqual(
            [
                one.name
                for one in next(self.loader(ops.Policy([ops.Operation("invert", p=0), invert])).batches()).drawn(0)
                if one.name != "identity"
            ],
            ["invert"],
        )

    def test_settings_are_refused_by_their_names(self):
        for words, ask in (
            ("magnitude: 31", lambda: ops.RandAugment(2, 31)),
            ("num_ops: 9", lambda: ops.RandAugment(9)),
            ("none of 'imagenet', 'cifar10', 'svhn'", lambda: ops.AutoAugment("mnist")),
            ("only timm's 'rand-...'", lambda: self.loader("augmix-m3")),
            ("'x3' is none of m, mstd", lambda: self.loader("rand-m9-x3")),
            ("stands alone", lambda: self.loader([ops.AugMix(), ops.RandomInvert()])),
            ("augment, views, output: AugMix()", lambda: self.loader(ops.AugMix(), views=2)),
            ("severity: 11", lambda: ops.AugMix(11)),
            ("kernel_size: 4", lambda: ops.GaussianBlur(4)),
            ("value: 'noise'", lambda: ops.RandomErasing(value="noise")),
            ("p: 1.5", lambda: ops.RandomInvert(1.5)),
            ("no policy of ops", lambda: self.loader([ops.Resize()])),
            ("kind: 'blurr'", lambda: ops.Operation("blurr")),
            ("RandomGrayscale", lambda: self.loader(ops.ColorJitter(0.1, grayscale=0.2))),
            ("cannot be one of several", lambda: ops.RandomApply([ops.RandAugment(), ops.RandomInvert()])),
            ("operations: ", lambda: ops.Policy([ops.RandomInvert()])),
            ("8", lambda: self.loader([ops.RandAugment(5)] * 2)),
        ):
            with self.assertRaises((TypeError, ValueError, benzina.Error)) as caught:
                ask()
            self.assertIn(words, str(caught.exception))

    def test_policies_can_be_pickled_and_say_what_they_are(self):
        import pickle
        for policy in (
            ops.RandAugment(3, 5),
            ops.AutoAugment(),
            ops.AutoAugment("cifar10"),
            ops.TimmRandAugment("rand-m9-mstd0.5-inc1"),
            ops.RandomErasing(0.25, value="random"),
            ops.RandomApply([ops.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8),
            ops.Policy([ops.Operation("rotate", (5, 30), sign=True)]),
        ):
            again = pickle.loads(pickle.dumps(policy))
            self.assertEqual((repr(again), bytes(again._policy()[1])), (repr(policy), bytes(policy._policy()[1])))
            self.assertEqual(type(policy).__module__, "benzina.ops")
        self.assertEqual(repr(ops.RandomErasing(0.25)), "RandomErasing(p=0.25)")
        self.assertEqual(repr(ops.GaussianBlur(5, 1)), "GaussianBlur(kernel_size=5, sigma=(1.0, 1.0))")

    def test_signatures_begin_as_torchvisions(self):
        import inspect
        for name, expected in {
            "RandAugment": "num_ops=2, magnitude=9, num_magnitude_bins=31",
            "TrivialAugmentWide": "num_magnitude_bins=31",
            "GaussianBlur": "kernel_size, sigma=(0.1, 2.0)",
            "RandomSolarize": "threshold, p=0.5",
            "RandomPosterize": "bits, p=0.5",
            "RandomErasing": "p=0.5, scale=(0.02, 0.33), ratio=(0.3, 3.3), value=0",
            "RandomInvert": "p=0.5",
            "RandomGrayscale": "p=0.1",
            "RandomAdjustSharpness": "sharpness_factor, p=0.5",
            "RandomAutocontrast": "p=0.5",
            "RandomEqualize": "p=0.5",
            "RandomApply": "transforms, p=0.5",
        }.items():
            parameters = list(inspect.signature(getattr(ops, name)).parameters.values())
            self.assertEqual(", ".join(str(p.replace(annotation=p.empty)) for p in parameters), expected)
            if importable("torchvision") is not None:
                from torchvision import transforms
                theirs = list(inspect.signature(getattr(transforms, name)).parameters.values())[:len(parameters)]
                self.assertEqual([(p.name, p.default) for p in parameters], [(p.name, p.default) for p in theirs], name)


class Recipe(unittest.TestCase):
    """imagenet.py has the arguments of torchvision's reference script."""

    def run_example(self, *arguments):
        return subprocess.run(
            [
                sys.executable,
                "-B",
                "examples/python/imagenet.py",
                ARCHIVE,
                "--size",
                "56",
                "--batch-size",
                "4",
                "--threads",
                "1",
                "--epochs",
                "3",
                *arguments,
            ],
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, "BENZINA_LIBRARY": benzina.lib._name, "OMP_NUM_THREADS": "1"},
        )

    @needs("numpy")
    def test_each_policy_changes_what_is_learned(self):
        sys.path.insert(0, os.path.join("examples", "python"))
        imagenet = __import__("imagenet")
        options = [ARCHIVE, "--size", "56", "--batch-size", "4", "--threads", "1", "--epochs", "3", "--arch", "linear"]
        seen = set()
        for arguments in (
            (),
            ("--auto-augment", "ta_wide"),
            ("--auto-augment", "ra", "--ra-magnitude", "20"),
            ("--auto-augment", "imagenet"),
            ("--random-erase", "1"),
        ):
            with contextlib.redirect_stdout(io.StringIO()) as said:
                imagenet.main(options + list(arguments))
            seen.add(re.search(r"epoch 2: training (.*)", said.getvalue())[1])
        self.assertEqual(len(seen), 5)

    @needs("numpy", "torch", "torchvision")
    def test_mixup_cutmix_and_label_smoothing_train(self):
        done = self.run_example(
            "--arch",
            "resnet18",
            "--auto-augment",
            "ta_wide",
            "--random-erase",
            "0.1",
            "--mixup-alpha",
            "0.2",
            "--cutmix-alpha",
            "1.0",
            "--label-smoothing",
            "0.1",
        )
        if importable("torchvision.transforms.v2") and hasattr(sys.modules["torchvision.transforms.v2"], "MixUp"):
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, r"epoch 0: training loss \d+\.\d+ ")
        else:
            self.assertEqual(done.returncode, 2)
            self.assertIn("MixUp and CutMix are of torchvision 0.16 and later", done.stderr)

    @needs("numpy", "torch", "torchvision")
    def test_label_smoothing_trains_without_mixup(self):
        done = self.run_example("--arch", "resnet18", "--label-smoothing", "0.1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"epoch 0: training loss \d+\.\d+ ")

    @needs("numpy")
    def test_the_linear_model_refuses_what_is_torchs(self):
        done = self.run_example("--arch", "linear", "--mixup-alpha", "0.2")
        self.assertEqual(done.returncode, 2)
        self.assertIn("linear model has neither MixUp", done.stderr)


if __name__ == "__main__":
    run_tests(sys.modules["__main__"])
