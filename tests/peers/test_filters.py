"""test_filters.py - filters and crops beside PIL, OpenCV, PyTorch and torchvision, on pictures made here

    BENZINA_LIBRARY=build/libbenzina.so python3 tests/peers/test_filters.py        from the repository's root

Prints FAIL and SKIP lines, and a count last. With -v, also what each filter reached. With a folder of pictures, only
those figures, over its pictures.
"""
import os
import subprocess
import sys
import tarfile
import tempfile
import unittest

import numpy

sys.path[:0] = [os.path.join("examples", "python"), os.path.join("tests", "bindings")]
sys.dont_write_bytecode = True
import benzina  # noqa: E402
from benzina import ops  # noqa: E402
from needs import importable, needs  # noqa: E402


PIL, cv2, torch, torchvision = (importable(name) for name in ("PIL.Image", "cv2", "torch", "torchvision"))
VERBOSE = "-v" in sys.argv[1:]
WIDTH, HEIGHT = 250, 187
BOUNDS = {"mean": 1.0, "p99.9": 6}              # of 255


def drawn(seed, width=WIDTH, height=HEIGHT):
    """Slow waves, edges in every direction, some noise: most of it in all channels alike, as in photographs."""
    y, x = numpy.mgrid[0:height, 0:width].astype(float)
    rng = numpy.random.RandomState(seed)

    def shape(size):
        period, slope = rng.uniform(8, 40, 3), rng.randint(1, 4, 2)
        waves = numpy.sin(x / period[0] + seed) * numpy.cos(y / period[1])
        edges = numpy.hypot(x - width * rng.rand(), y - height * rng.rand()) % period[2] < period[2] / 2
        stripes = (x * slope[0] - y * slope[1]) % 23 < 9
        return size * (waves + 0.5 * edges - 0.4 * stripes)
    gray = 128 + shape(60) + rng.normal(0, 3, (height, width))
    return numpy.clip(numpy.stack([gray + shape(18) for _ in range(3)], -1), 0, 255).astype(numpy.uint8)


def write_pictures(folder):
    """One PNG, whose pixels are RGB, and JPEGs without and with subsampling."""
    for seed in range(2):
        picture = PIL.Image.fromarray(drawn(seed)) if seed else PIL.Image.fromarray(drawn(seed, HEIGHT, WIDTH))
        picture.save(os.path.join(folder, "rgb_%d.png" % seed))
        for name, subsampling in (("444", 0), ("422", 1), ("420", 2)):
            picture.save(os.path.join(folder, "jpeg%s_%d.jpg" % (name, seed)), quality=93, subsampling=subsampling)


def kind_of(sample):
    return sample.name.split("_")[0]


def cases(height, width):
    """(box, shape): shrunk by much and by little, parts with odd and with fractional edges, enlarged, in a corner. None
    has pixels that lie halfway between two of the picture."""
    return [
        ((0, 0, width, height), (41, 64)),
        ((0, 0, width, height), (int(height * 0.91) | 1, int(width * 0.91) | 1)),
        ((3, 5, width - 4, height - 2), (53, 48)),
        ((10.3, 7.7, width * 0.8, height * 0.71), (64, 64)),
        ((30, 20, 83, 63), (150, 160)),
        ((0, 0, 31.5, 27.25), (112, 112)),
        ((width - 20.3, height - 17.9, width, height), (96, 96)),
    ]


class Tally:
    """Differences of bytes, and where they came from."""

    def __init__(self):
        self.counts = {}

    def add(self, key, actual, expected):
        assert actual.shape == expected.shape
        found = numpy.bincount(numpy.abs(actual.astype(int) - expected).ravel(), minlength=256)
        self.counts[key] = self.counts.get(key, 0) + found

    def figures(self):
        for key, counts in sorted(self.counts.items()):
            share = numpy.cumsum(counts) / counts.sum()
            mean = float(counts @ numpy.arange(256) / counts.sum())
            yield key, mean, int(numpy.searchsorted(share, 0.999)), int(numpy.nonzero(counts)[0][-1])

    def show(self):
        for key, mean, high, most in self.figures():
            print("  %-38s mean %.3f, 99.9 %% at most %d, at most %d" % (" ".join(key), mean, high, most))


def is_halfway(low, high, count):
    """Whether a pixel lies halfway between two, but for rounding."""
    places = low + (numpy.arange(count) + 0.5) * (high - low) / count
    return (numpy.abs(places - numpy.rint(places)) < 1e-3).any()


def compare_with_pil(tally, sample, kind):
    kinds = {
        "nearest": PIL.Image.NEAREST,
        "linear": PIL.Image.BILINEAR,
        "cubic": PIL.Image.BICUBIC,
        "lanczos": PIL.Image.LANCZOS,
    }
    whole = sample.image()
    for box, shape in cases(*whole.shape[:2]):
        for name, code in kinds.items():
            if name == "nearest" and (is_halfway(box[0], box[2], shape[1]) or is_halfway(box[1], box[3], shape[0])):
                continue
            expected = numpy.asarray(PIL.Image.fromarray(whole).resize(shape[::-1], code, box=box))
            tally.add((name, kind, "PIL"), sample.image(shape=shape, box=box, filter=name), expected)
    side = 60                                   # PIL's box counts samples as a whole: the mean of 3 x 4 is that of area
    expected = numpy.asarray(
        PIL.Image.fromarray(whole).resize((side, side // 2), PIL.Image.BOX, box=(5, 6, 5 + 3 * side, 6 + 2 * side))
    )
    tally.add(
        ("area", kind, "PIL"),
        sample.image(shape=(side // 2, side), box=(5, 6, 5 + 3 * side, 6 + 2 * side), filter="area"),
        expected,
    )


def compare_with_opencv(tally, sample, kind):
    kinds = {
        "linear": cv2.INTER_LINEAR,
        "cubic-0.75": cv2.INTER_CUBIC,
        "lanczos4": cv2.INTER_LANCZOS4,
        "area": cv2.INTER_AREA,
    }
    whole = sample.image()
    height, width = whole.shape[:2]
    for shape in (41, 64), (int(height * 0.91), int(width * 0.91)), (height * 2 - 3, width * 2 + 5):
        for name, code in kinds.items():
            if name == "area" and shape[0] > height:
                continue                        # which is another linear filter there
            expected = cv2.resize(whole, shape[::-1], interpolation=code)
            tally.add(
                (name, kind, "OpenCV"), sample.image(shape=shape, filter=name, antialias=name == "area"), expected
            )


def compare_with_torch(tally, sample, kind):
    whole = sample.image()
    pixels = torch.tensor(whole.astype(numpy.float32)).permute(2, 0, 1)[None]
    for shape in (41, 64), (whole.shape[0] * 2 - 3, whole.shape[1] * 2 + 5):
        for name, mode, antialias in (
            ("linear", "bilinear", True),
            ("linear", "bilinear", False),
            ("cubic", "bicubic", True),
            ("cubic-0.75", "bicubic", False),
        ):
            expected = torch.nn.functional.interpolate(
                pixels, shape, mode=mode, antialias=antialias, align_corners=False
            )
            expected = expected[0].permute(1, 2, 0).clamp(0, 255).round().numpy().astype(numpy.uint8)
            key = name, kind, "PyTorch, antialias=%s" % antialias
            tally.add(key, sample.image(shape=shape, filter=name, antialias=antialias), expected)


def resize_and_center_crop(picture, to, size, resample=PIL.Image.BILINEAR if PIL else None):
    """torchvision's, restated for where it is not installed: a PIL picture."""
    width, height = picture.size
    short = min(width, height)
    resized = [to if edge == short else int(to * edge / short) for edge in (width, height)]
    left, top = (int(round((edge - size) / 2.0)) for edge in resized)
    return numpy.asarray(picture.resize(resized, resample).crop((left, top, left + size, top + size)))


def compare_center_crops(tally, dataset, to, size, kind):
    loader = benzina.DataLoader(
        dataset,
        shape=size,
        batch_size=4,
        epochs=1,
        dtype="uint8",
        layout="NHWC",
        output="numpy",
        copy=True,
        fields={"image": "image"},
        **({} if size == to else {"warp": ops.CenterResizedCrop(size / to, crops="torchvision")})
    )
    pixels = numpy.concatenate([images for images, _ in loader])
    for sample, actual in zip(dataset, pixels):
        picture = PIL.Image.fromarray(sample.image())
        tally.add(("Resize, CenterCrop", kind(sample), "PIL"), actual, resize_and_center_crop(picture, to, size))
        if torchvision:
            from torchvision.transforms import functional, InterpolationMode
            expected = functional.center_crop(functional.resize(picture, to, InterpolationMode.BILINEAR), [size, size])
            tally.add(("Resize, CenterCrop", kind(sample), "torchvision"), actual, numpy.asarray(expected))


@needs("PIL.Image")
class Filters(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        write_pictures(cls.folder.name)
        cls.dataset = benzina.Dataset(cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def check(self, compare):
        """RGB pictures differ by rounding alone; Y'CbCr ones also because chroma is filtered at its own size, and
        colors are clamped once, behind the filter."""
        tally = Tally()
        for sample in self.dataset:
            compare(tally, sample, kind_of(sample))
        self.check_figures(tally)

    def check_figures(self, tally):
        if VERBOSE:
            tally.show()
        for (name, kind, program), mean, high, most in tally.figures():
            bounds = (0.4, 1) if kind == "rgb" else (BOUNDS["mean"], BOUNDS["p99.9"])
            self.assertLessEqual(mean, bounds[0], (name, kind, program))
            self.assertLessEqual(high, bounds[1], (name, kind, program))

    def test_pil(self):
        self.check(compare_with_pil)

    def test_pil_where_passes_are_rounded(self):
        """To the byte, but where what a pass makes lies halfway between two: PIL's coefficients are whole numbers."""
        codes = {"linear": PIL.Image.BILINEAR, "cubic": PIL.Image.BICUBIC, "lanczos": PIL.Image.LANCZOS}
        tally, modes = Tally(), {"rgb": "RGB", "gray": "L"}
        with tempfile.TemporaryDirectory() as folder:
            for seed, (kind, mode) in enumerate(modes.items()):
                PIL.Image.fromarray(drawn(seed + 5)).convert(mode).save(os.path.join(folder, kind + "_.png"))
            for sample in benzina.Dataset(folder):
                whole = PIL.Image.open(os.path.join(folder, sample.name))
                for box, shape in cases(whole.height, whole.width):
                    for name, code in codes.items():
                        expected = numpy.asarray(whole.resize(shape[::-1], code, box=box).convert("RGB"))
                        tally.add((name, kind_of(sample), "PIL, rounded"),
                                  sample.image(shape=shape, box=box, filter=name, antialias="round"), expected)
        if VERBOSE:
            tally.show()
        for key, mean, high, most in tally.figures():
            self.assertLessEqual((mean, high), (0.02, 1), key)

    @needs("cv2")
    def test_opencv(self):
        self.check(compare_with_opencv)

    @needs("torch")
    def test_pytorch(self):
        self.check(compare_with_torch)

    def test_resize_and_center_crop(self):
        tally = Tally()
        compare_center_crops(tally, self.dataset, 64, 56, kind_of)
        self.check_figures(tally)
        self.assertLess(max(mean for _, mean, *_ in tally.figures()), 0.8)

    def test_without_a_warp_a_picture_covers_the_output_and_is_centered(self):
        for size in (56, 200, 301):                     # smaller than the picture, between its edges, larger
            tally = Tally()
            compare_center_crops(tally, self.dataset, size, size, kind_of)
            self.check_figures(tally)
            self.assertLess(max(mean for _, mean, *_ in tally.figures()), 0.8)

    def test_without_a_warp_a_mask_is_pillows_nearest(self):
        classes = numpy.random.RandomState(3).randint(0, 200, (HEIGHT, WIDTH)).astype(numpy.uint8)
        with tempfile.TemporaryDirectory() as folder:
            path, shard = os.path.join(folder, "mask.png"), os.path.join(folder, "one.tar")
            with tarfile.open(shard, "w") as tar:
                for name, picture in (("a.png", drawn(1)), ("a.mask.png", classes)):
                    PIL.Image.fromarray(picture).save(path)
                    tar.add(path, name)
            for size in (57, 201, 304):                     # none has a pixel halfway between two of the mask
                loader = benzina.DataLoader(shard, shape=size, batch_size=1, epochs=1, output="numpy", copy=True,
                                            fields={"image": "png"}, outputs=[benzina.Output.mask("mask.png", "mask")])
                (_, _, fields), = loader
                expected = resize_and_center_crop(PIL.Image.fromarray(classes), size, size, PIL.Image.NEAREST)
                self.assertEqual(numpy.count_nonzero(fields["mask"][0, 0] != expected), 0, size)

    def test_linear_without_antialias_is_bilinear_interpolation(self):
        """In double precision, by numpy; what remains is the rounding of bytes."""
        sample, = (s for s in self.dataset if s.name == "rgb_0.png")
        whole = sample.image().astype(float)
        for box, shape in cases(*whole.shape[:2]):
            rows, columns = (
                numpy.clip(
                    box[i] + (numpy.arange(n) + 0.5) * (box[i + 2] - box[i]) / n - 0.5, 0, whole.shape[1 - i] - 1
                )
                for i, n in ((1, shape[0]), (0, shape[1]))
            )
            i, j = (numpy.minimum(p.astype(int), edge - 2) for p, edge in zip((rows, columns), whole.shape))
            v, u = (rows - i)[:, None, None], (columns - j)[None, :, None]
            def at(down, right):
                return whole[numpy.ix_(i + down, j + right)]
            expected = (1 - v) * ((1 - u) * at(0, 0) + u * at(0, 1)) + v * ((1 - u) * at(1, 0) + u * at(1, 1))
            difference = numpy.abs(sample.image(shape=shape, box=box, antialias=False) - expected)
            self.assertLess(difference.mean(), 0.3)
            self.assertLess(difference.max(), 0.53)


class Stored(unittest.TestCase):
    def test_the_stored_results_are_what_their_program_writes(self):
        run = subprocess.run([sys.executable, "-B", "tests/peers/filters.py"], check=True, capture_output=True, timeout=300)
        with open("tests/unit/filters.h", "rb") as file:
            self.assertTrue(file.read() == run.stdout, "run: python3 tests/peers/filters.py > tests/unit/filters.h")


class Result(unittest.TestResult):
    def say(self):
        for test, trace in self.failures + self.errors:
            print("FAIL %s\n%s" % (test, trace))
        for test, reason in self.skipped:
            print("SKIP %s: %s" % (test, reason))
        failed = len({str(test).split(" (")[0] for test, _ in self.failures + self.errors})
        print("tests/peers/test_filters.sh: %d passed, %d failed, %d skipped"
              % (self.testsRun - failed - len(self.skipped), failed, len(self.skipped)))
        return 1 if failed else 0


def measure(folder):
    """What filters reach over a folder of pictures."""
    dataset, tally = benzina.Dataset(folder), Tally()
    compare_center_crops(tally, dataset, 256, 224, lambda sample: "")
    for sample in dataset:
        for module, compare in ((PIL, compare_with_pil), (cv2, compare_with_opencv), (torch, compare_with_torch)):
            if module:
                compare(tally, sample, "")
    tally.show()


if __name__ == "__main__":
    folders = [word for word in sys.argv[1:] if word != "-v"]
    if folders:
        sys.exit(measure(folders[0]))
    result = Result()
    unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"]).run(result)
    sys.exit(result.say())
