"""Writes tests/unit/augment.h: what torchvision makes of a picture by its operations on tensors of uint8, and the tables of
its policies.

    python3 tests/peers/augment.py > tests/unit/augment.h

The picture is small, and its channels differ in range, so that autocontrast and equalize treat them apart. Geometry is
not here: test_augment.py compares that with torchvision itself, whose edges are softer than the library's.
"""
import textwrap

import torch
import torchvision
from torchvision.transforms import AutoAugment, AutoAugmentPolicy, RandAugment, TrivialAugmentWide
from torchvision.transforms import functional as F

WIDTH, HEIGHT = 16, 12


def picture(width=WIDTH, height=HEIGHT, seed=1):
    """3 x height x width: a slope, edges and noise; red in 20..235, green in 0..255, blue in 60..150."""
    random = torch.Generator().manual_seed(seed)
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    noise = torch.randint(-25, 26, (3, height, width), generator=random)
    parts = [x * 255 // (width - 1), 255 - y * 255 // (height - 1), ((x // 4 + y // 3) % 2) * 160 + 40]
    whole = torch.stack([(part + noise[i]).clamp(0, 255) for i, part in enumerate(parts)]).double()
    whole[0] = 20 + whole[0] * 215 / 255
    whole[2] = 60 + whole[2] * 90 / 255
    return whole.round().to(torch.uint8)


def flat():
    """One channel has one value, one has two, so that neither autocontrast nor equalize has much to do."""
    whole = picture()
    whole[0] = 77
    whole[1] = torch.where(whole[1] > 100, 140, 90)
    return whole


# Of each: its name, up to four numbers, and what makes the result. Magnitudes are float32, as the library has them.
def cases():
    for magnitude in (-1.0, -0.9, -0.45, -0.09, 0.3, 0.99):
        magnitude = float(torch.tensor(magnitude))
        yield "brightness", (magnitude,), lambda image, f=1 + magnitude: F.adjust_brightness(image, f)
        yield "saturation", (magnitude,), lambda image, f=1 + magnitude: F.adjust_saturation(image, f)
        yield "contrast", (magnitude,), lambda image, f=1 + magnitude: F.adjust_contrast(image, f)
        yield "sharpness", (magnitude,), lambda image, f=1 + magnitude: F.adjust_sharpness(image, f)
    for hue in (-0.5, -0.1, 0.03, 0.4):
        yield "hue", (hue,), lambda image, h=float(torch.tensor(hue)): F.adjust_hue(image, h)
    for bits in range(1, 9):
        yield "posterize", (bits,), lambda image, b=bits: F.posterize(image, b)
    for threshold in (0.0, 59.5, 128.0, 178.5, 255.0):
        yield "solarize", (threshold,), lambda image, t=threshold: F.solarize(image, t)
    for gamma in (0.5, 0.9, 2.2):
        yield "gamma", (gamma,), lambda image, g=float(torch.tensor(gamma)): F.adjust_gamma(image, g)
    yield "invert", (), F.invert
    yield "grayscale", (), lambda image: F.rgb_to_grayscale(image, 3)
    yield "autocontrast", (), F.autocontrast
    yield "equalize", (), F.equalize
    for kernel, sigma in ((3, 0.1), (3, 0.8), (5, 1.0), (9, 2.0), (23, 0.5)):
        if kernel // 2 < HEIGHT:
            yield "blur", (kernel, sigma), lambda image, k=kernel, s=float(torch.tensor(sigma)): F.gaussian_blur(
                image, [k, k], [s, s]
            )
    yield "erase", (3, 2, 9, 7), lambda image: F.erase(image, 2, 3, 7, 9, torch.tensor([0.0])[:, None, None])


def emit(text):
    """Prints it, in lines of at most 118 columns."""
    for line in text.split("\n"):
        print(
            "\n".join(textwrap.wrap(line, 118, subsequent_indent=" " * 8, break_on_hyphens=False))
            if len(line) > 118
            else line
        )


def emit_picture(image):
    """Pixel by pixel, row by row, in base 16, as strings."""
    for row in image.permute(1, 2, 0).reshape(HEIGHT, -1).tolist():
        print('        "%s"' % "".join("%02x" % value for value in row))


def number(value):
    return "%.9g" % float(value)


def emit_space(name, space, bins):
    emit(
        "static const struct { const char *name; int is_signed, has_magnitude; double magnitudes[%d]; } %s[] = {"
        % (bins, name)
    )
    for operation, (magnitudes, is_signed) in space.items():
        values = magnitudes.tolist() if magnitudes.ndim else [0]
        emit(
            '    { "%s", %d, %d, { %s } },'
            % (operation, is_signed, magnitudes.ndim > 0, ", ".join(map(number, values)))
        )
    print("};")


def main():
    print(
        "/* What torchvision %s makes of pictures by its operations; written by tests/peers/augment.py. */"
        % torchvision.__version__.partition("+")[0]
    )
    print("enum { AUGMENT_WIDTH = %d, AUGMENT_HEIGHT = %d };" % (WIDTH, HEIGHT))
    pictures = picture(), flat()
    print("static const char *const augment_pictures[] = {")
    for image in pictures:
        emit_picture(image)
        print("    ,")
    print("};")
    print(
        "static const struct { const char *name; int picture; double numbers[4]; const char *pixels; } augment_cases[] = {"
    )
    for which, image in enumerate(pictures):
        for name, numbers, function in cases():
            if which and name not in ("autocontrast", "equalize", "contrast", "blur"):
                continue
            padded = [*numbers, 0, 0, 0, 0][:4]
            print('    { "%s", %d, { %s },' % (name, which, ", ".join(map(number, padded))))
            emit_picture(function(image.clone()))
            print("    },")
    print("};")
    print("/* The tables of policies, for pictures of 224 x 200 (width x height). */")
    emit_space("augment_rand", RandAugment()._augmentation_space(31, (200, 224)), 31)
    emit_space("augment_trivial", TrivialAugmentWide()._augmentation_space(31), 31)
    emit_space("augment_auto_space", AutoAugment()._augmentation_space(10, (200, 224)), 10)
    print(
        "static const struct { const char *name[2]; double probability[2]; int bin[2]; } augment_auto[] = {    /* bin -1: none */"
    )
    for first, second in AutoAugment()._get_policies(AutoAugmentPolicy.IMAGENET):
        bins = [-1 if bin is None else bin for _, _, bin in (first, second)]
        print(
            '    { { "%s", "%s" }, { %s, %s }, { %d, %d } },'
            % (first[0], second[0], number(first[1]), number(second[1]), *bins)
        )
    print("};")


if __name__ == "__main__":
    main()
