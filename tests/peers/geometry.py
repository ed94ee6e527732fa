"""Writes tests/unit/geometry.h: what torchvision makes of corners, angles, shears and color factors, and OpenCV of HLS.

    python3 tests/peers/geometry.py > tests/unit/geometry.h
"""
import textwrap

import cv2
import numpy
import torch
from torchvision.transforms import RandomAffine, RandomPerspective
from torchvision.transforms import functional as F

torch.manual_seed(1)

def emit(text):
    """Prints it, in lines of at most 118 columns."""
    for line in text.split("\n"):
        print(
            "\n".join(textwrap.wrap(line, 118, subsequent_indent=" " * 8, break_on_hyphens=False))
            if len(line) > 118
            else line
        )


emit("/* What torchvision gives for corners, angles and color factors; written by tests/peers/geometry.py. */")
emit("static const struct { int width, height, corners[8]; double coefficients[8]; } torchvision_perspectives[] = {")
for i in range(40):
    width, height = (int(torch.randint(2, 700, (1,))) for _ in range(2))
    start, end = RandomPerspective.get_params(width, height, 0.1 + 0.02 * i)
    emit(
        "    { %d, %d, { %s },\n      { %s } },"
        % (
            width,
            height,
            ", ".join(str(v) for p in end for v in p),
            ", ".join("%.9g" % v for v in F._get_perspective_coeffs(start, end)),
        )
    )
emit(
    "};\nstatic const struct { double rotate, shear[2]; int width, height; double matrix[6]; } torchvision_affines[] = {"
)
for i in range(40):
    width, height = (int(torch.randint(1, 700, (1,))) for _ in range(2))
    angle, _, _, shear = RandomAffine.get_params(
        [-180.0, 180.0], None, None, [-60.0, 60.0, -60.0, 60.0], [width, height]
    )
    matrix = F._get_inverse_affine_matrix([width * 0.5, height * 0.5], angle, [0, 0], 1.0, list(shear))
    emit(
        "    { %.17g, { %.17g, %.17g }, %d, %d,\n      { %s } },"
        % (angle, *shear, width, height, ", ".join("%.17g" % v for v in matrix))
    )
emit(
    "};\n/* Of 8 pixels: what comes of all steps in this order, of floats, so that nothing is rounded; is_clamped: a step left 0..255. */"
)
emit(
    "static const struct { int is_clamped; double brightness, contrast, saturation, hue; int gray, rgb[24]; double expected[24]; }"
)
emit("torchvision_jitters[] = {")
for i in range(40):
    brightness, contrast, saturation = (float(torch.empty(1).uniform_(0, 2)) if i >> k & 1 else 1 for k in range(3))
    hue, gray = float(torch.empty(1).uniform_(-0.5, 0.5)) if i >> 3 & 1 else 0, i % 7 == 0
    pixels = torch.randint(0, 256, (3, 2, 4))
    pixels[:, 0, 0] = pixels[0, 0, 0]           # a gray one
    pixels[1, 1, 1] = pixels[0, 1, 1]           # two channels alike
    picture, clamped = pixels / 255.0, False
    for function, factor, neutral in (
        (F.adjust_brightness, brightness, 1),
        (F.adjust_contrast, contrast, 1),
        (F.adjust_saturation, saturation, 1),
        (F.adjust_hue, hue, 0),
    ):
        picture = function(picture, factor) if factor != neutral else picture
        clamped |= factor > 1 and bool((picture == 1).any())
    picture = F.rgb_to_grayscale(picture, 3) if gray else picture
    emit("    { %d, %.9g, %.9g, %.9g, %.9g, %d, { %s },\n      { %s } }," % (
        clamped, brightness, contrast, saturation, hue, gray, ", ".join(map(str, pixels.flatten().tolist())),
        ", ".join("%.7g" % (255 * v) for v in picture.flatten().tolist())))

emit("};\n/* What OpenCV's HLS of floats makes of moves in its units of 8 bits; MXNet clamps the hue. */")
emit("static const struct { int clamps, hls[3], rgb[3]; double expected[3]; } opencv_shifts[] = {")
for i in range(60):
    clamps, moves = i % 2, [
        int(torch.randint(-most, most + 1, (1,))) if i >> k & 1 else 0 for k, most in ((1, 180), (2, 255), (3, 255))
    ]
    pixel = torch.randint(0, 256, (3,))
    if i % 5 == 0:
        pixel[2] = pixel[0]
    h, l, s = (
        cv2.cvtColor((pixel.numpy() / 255).astype("float32").reshape(1, 1, 3), cv2.COLOR_RGB2HLS).flatten().tolist()
    )
    h, l, s = h / 2 + moves[0], l + moves[1] / 255, s + moves[2] / 255
    h, l, s = min(max(h, 0), 180) if clamps else h % 180, min(max(l, 0), 1), min(max(s, 0), 1)
    made = cv2.cvtColor(numpy.array([[[2 * h, l, s]]], "float32"), cv2.COLOR_HLS2RGB).flatten().tolist()
    emit(
        "    { %d, { %d, %d, %d }, { %d, %d, %d }, { %.7g, %.7g, %.7g } },"
        % (clamps, *moves, *pixel.tolist(), *(255 * v for v in made))
    )
emit("};")
