"""Writes tests/geometry.h: what torchvision makes of corners, angles, shears and color factors.

    python3 tests/geometry.py > tests/geometry.h
"""
import textwrap

import torch
from torchvision.transforms import RandomAffine, RandomPerspective
from torchvision.transforms import functional as F

torch.manual_seed(1)

def emit(text):
    """Prints it, in lines of at most 118 columns."""
    for line in text.split("\n"):
        print("\n".join(textwrap.wrap(line, 118, subsequent_indent=" " * 8, break_on_hyphens=False)) if len(line) > 118 else line)


emit("/* What torchvision gives for corners, angles and color factors; written by tests/geometry.py. */")
emit("static const struct { int width, height, corners[8]; double coefficients[8]; } torchvision_perspectives[] = {")
for i in range(40):
    width, height = (int(torch.randint(2, 700, (1,))) for _ in range(2))
    start, end = RandomPerspective.get_params(width, height, 0.1 + 0.02 * i)
    emit("    { %d, %d, { %s },\n      { %s } }," % (width, height, ", ".join(str(v) for p in end for v in p),
                                                    ", ".join("%.9g" % v for v in F._get_perspective_coeffs(start, end))))
emit("};\nstatic const struct { double rotate, shear[2]; int width, height; double matrix[6]; } torchvision_affines[] = {")
for i in range(40):
    width, height = (int(torch.randint(1, 700, (1,))) for _ in range(2))
    angle, _, _, shear = RandomAffine.get_params([-180.0, 180.0], None, None, [-60.0, 60.0, -60.0, 60.0], [width, height])
    matrix = F._get_inverse_affine_matrix([width * 0.5, height * 0.5], angle, [0, 0], 1.0, list(shear))
    emit("    { %.17g, { %.17g, %.17g }, %d, %d,\n      { %s } }," % (angle, *shear, width, height, ", ".join("%.17g" % v for v in matrix)))
emit("};\n/* Floats, so that nothing is rounded; is_clamped: a step gave what the next one did not see. */")
emit("static const struct { int is_clamped; double brightness, saturation, rgb[3], expected[3]; } torchvision_jitters[] = {")
for i in range(60):
    brightness, saturation = (float(torch.empty(1).uniform_(0, 2)) for _ in range(2))
    picture = torch.rand(3, 1, 1)
    lit = F.adjust_brightness(picture, brightness)
    both = F.adjust_saturation(lit, saturation) if i % 6 else F.rgb_to_grayscale(lit, 3)
    clamped = bool((picture * brightness > 1).any())
    emit("    { %d, %.9g, %.9g, { %s }, { %s } }," % (clamped, brightness, saturation if i % 6 else 0,
                                                     ", ".join("%.9g" % (255 * v) for v in picture.flatten().tolist()),
                                                     ", ".join("%.9g" % (255 * v) for v in both.flatten().tolist())))
emit("};")
