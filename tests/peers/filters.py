"""Writes tests/unit/filters.h: what PIL, OpenCV and PyTorch, each in floats, make of a small gray picture by every filter,
widened where it shrinks and not; and what formulas in double precision make of it, which must agree with them. The
formulas alone stand for what none of the three has, or is not installed.

    python3 tests/peers/filters.py > tests/unit/filters.h
"""
import math

import numpy

WIDTH, HEIGHT = 40, 30

# left, top, right, bottom of what is resized; width and height that come out; 1: the picture ends where the box does.
# No pixel lies halfway between two, where nearest could be either.
CASES = [
    ((0, 0, 40, 30), (8, 4), 0),
    ((3.3, 2.6, 37.9, 26.2), (5, 4), 0),
    ((10, 8, 20, 18), (4, 4), 1),
    ((8, 6, 20, 18), (4, 4), 0),
    ((4.25, 3.7, 6.9, 5.9), (5, 4), 0),
    ((0, 0, 3, 2), (5, 4), 0),
    ((37.5, 27.2, 40, 30), (5, 4), 0),
    ((5, 0, 15, 30), (4, 4), 1),
    ((12, 3, 17, 25), (6, 4), 0),
]
FILTERS = ["linear", "nearest", "cubic", "area", "lanczos4", "lanczos3", "cubic-0.75"]                # by their numbers
DROPS = "linear", "cubic", "lanczos3"           # samples from outside; the others repeat the border


def code_of(x, y):
    """tests/unit/test_filters.c has the same: waves, edges, noise."""
    value = (
        128
        + (x * 9 + y * 5) % 64
        - (x * 4 + y * 7) % 50
        + (60 if (x - y) % 17 < 6 else 0)
        - (30 if (x // 3 + y // 4) % 2 else 0)
    )
    return min(max(value + (x * x * 31 + y * y * 57 + x * y * 13) % 23 - 11, 0), 255)


def cubic(a, x):
    if x < 1:
        return ((a + 2) * x - (a + 3)) * x * x + 1
    return (((x - 5) * x + 8) * x - 4) * a if x < 2 else 0


def lanczos(a, x):
    return float(numpy.sinc(x) * numpy.sinc(x / a)) if x < a else 0


KERNELS = {
    "linear": (1, lambda x: max(0, 1 - x)),
    "cubic": (2, lambda x: cubic(-0.5, x)),
    "cubic-0.75": (2, lambda x: cubic(-0.75, x)),
    "lanczos3": (3, lambda x: lanczos(3, x)),
    "lanczos4": (4, lambda x: lanczos(4, x)),
}


def weights(name, antialias, low, high, size, count):
    """A row for each of size positions: the weights of count samples."""
    step = (high - low) / size
    matrix = numpy.zeros((size, count))
    for i in range(size):
        if name == "nearest":
            assert (low + (i + 0.5) * step) % 1 > 1e-6
            matrix[i, min(int(math.floor(low + (i + 0.5) * step)), count - 1)] = 1
            continue
        if name == "area" and step > 1:
            first, last = low + i * step, low + (i + 1) * step
            for k in range(math.floor(first), math.ceil(last)):
                matrix[i, min(k, count - 1)] += max(0, min(k + 1, last) - max(k, first))
        else:
            support, kernel = KERNELS["linear" if name == "area" else name]
            wide = max(step, 1) if antialias else 1
            center = low + (i + 0.5) * step - 0.5
            for k in range(math.ceil(center - support * wide), math.floor(center + support * wide) + 1):
                if 0 <= k < count or name not in DROPS:
                    matrix[i, min(max(k, 0), count - 1)] += kernel(abs(k - center) / wide)
        matrix[i] /= matrix[i].sum()
    return matrix


def by_formula(picture, box, size, name, antialias):
    across = weights(name, antialias, box[0], box[2], size[0], picture.shape[1])
    down = weights(name, antialias, box[1], box[3], size[1], picture.shape[0])
    return down @ picture @ across.T


# Each gives a function that asks the program, or None where it has no such filter.

def by_pil(picture, box, size, name, antialias):
    kinds = {"nearest": 0, "linear": 2, "cubic": 3, "lanczos3": 1, "area": 4}
    whole = all(((box[i + 2] - box[i]) / size[i]).is_integer() and float(box[i]).is_integer() for i in (0, 1))
    shrinks = box[2] - box[0] >= size[0] and box[3] - box[1] >= size[1]
    grows = box[2] - box[0] <= size[0] and box[3] - box[1] <= size[1]
    if (
        name not in kinds
        or not (antialias or grows or name == "nearest")
        or (name == "area" and not (whole and shrinks))
    ):
        return None                             # its box counts samples as a whole

    def ask():
        from PIL import Image
        return numpy.asarray(Image.fromarray(picture.astype(numpy.float32)).resize(size, kinds[name], box=box))
    return ask


def by_opencv(picture, box, size, name, antialias):
    kinds = {
        "nearest": "NEAREST_EXACT",
        "linear": "LINEAR",
        "cubic-0.75": "CUBIC",
        "area": "AREA",
        "lanczos4": "LANCZOS4",
    }
    if box != (0, 0, picture.shape[1], picture.shape[0]) or name not in kinds or antialias != (name == "area"):
        return None
    if name == "area" and (box[2] < size[0] or box[3] < size[1]):
        return None                             # which is another linear filter there

    def ask():
        import cv2
        return cv2.resize(picture.astype(numpy.float32), size, interpolation=getattr(cv2, "INTER_" + kinds[name]))
    return ask


def by_torch(picture, box, size, name, antialias):
    kinds = {"linear": "bilinear", "cubic" if antialias else "cubic-0.75": "bicubic"}
    if box != (0, 0, picture.shape[1], picture.shape[0]) or name not in kinds:
        return None

    def ask():
        import torch
        pixels = torch.tensor(picture.astype(numpy.float32))[None, None]
        return torch.nn.functional.interpolate(
            pixels, size[::-1], mode=kinds[name], align_corners=False, antialias=antialias
        )[0, 0].numpy()
    return ask


def results():
    """Each case: its number, the filter's, whether it is not widened, the picture, and the programs that have that
    filter. Those that are installed must agree. Where nothing is widened, there is one case."""
    whole = numpy.array([[code_of(x, y) for x in range(WIDTH)] for y in range(HEIGHT)], float)
    for number, (box, size, cut) in enumerate(CASES):
        picture = whole
        if cut:
            picture = whole[box[1]:box[3], box[0]:box[2]]
            box = (0, 0, box[2] - box[0], box[3] - box[1])
        for code, name in enumerate(FILTERS):
            for off in (0, 1):
                expected = by_formula(picture, box, size, name, not off)
                if off and (name == "area" or (expected == by_formula(picture, box, size, name, True)).all()):
                    continue
                programs = [
                    (program.__name__[3:], program(picture, box, size, name, not off))
                    for program in (by_pil, by_opencv, by_torch)
                ]
                for program, ask in programs:
                    try:
                        difference = numpy.abs(ask() - expected).max() if ask else 0
                    except ImportError:
                        continue
                    assert difference < 0.01, (number, name, off, program, difference)
                yield number, code, off, numpy.clip(expected, 0, 255), [program for program, ask in programs if ask]


def main():
    print(
        "/* filters.h - written by tests/peers/filters.py: boxes, sizes, whether the picture ends with the box; for each of them,\n"
        " * filter and antialias what comes out, in hundredths, and which programs have that filter, too. */"
    )
    print("static const struct {\n    double box[4];\n    uint32_t width, height, cut;\n} filter_cases[] = {")
    for box, size, cut in CASES:
        print("    { { %s }, %d, %d, %d }," % (", ".join("%g" % v for v in box), *size, cut))
    print(
        "};\n\nstatic const struct {\n    uint32_t number, filter, antialias;\n    int values[32];\n} filter_results[] = {"
    )
    for number, code, off, values, programs in results():
        programs = ", ".join(programs) or "the formula"
        print("    { %d, %d, %d, {                      /* %s: %s */" % (number, code, off, FILTERS[code], programs))
        flat = [round(100 * v) for v in values.ravel()]
        for i in range(0, len(flat), 16):
            print("        " + " ".join("%d," % v for v in flat[i:i + 16]))
        print("    } },")
    print("};")


main()
