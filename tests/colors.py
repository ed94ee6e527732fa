"""Writes tests/colors.h: what ffmpeg's zscale makes of code values of Y', Cb and Cr (or Cg and Co; or G, B and R), for
each matrix, range and depth. zscale takes all G, B, R as full range.

    python3 tests/colors.py > tests/colors.h
"""
import random
import struct
import subprocess

WIDTH = 8          # colors a combination
MATRICES = {0: "GBR", 1: "BT.709", 4: "FCC", 5: "BT.601", 6: "BT.601", 7: "SMPTE 240M", 8: "YCgCo", 9: "BT.2020 ncl"}


def zscale(matrix, full, depth, planes):
    """R, G, B in 0..255 of every color."""
    form = ("gbrp" if matrix == 0 else "yuv444p") + ("" if depth == 8 else "%dle" % depth)
    pack = "<%d%s" % (WIDTH, "B" if depth == 8 else "H")
    names = "range=full:matrix=gbr:rangein=%s" % ("full" if full else "limited") + ("" if matrix == 0 else ":matrixin=%d" % matrix)
    command = ["ffmpeg", "-v", "error", "-f", "rawvideo", "-pix_fmt", form, "-s", "%dx1" % WIDTH, "-i", "-",
               "-vf", "zscale=%s,format=gbrpf32le" % names, "-f", "rawvideo", "-"]
    out = subprocess.run(command, input=b"".join(struct.pack(pack, *p) for p in planes), stdout=subprocess.PIPE, check=True).stdout
    g, b, r = (struct.unpack("<%df" % WIDTH, out[i * 4 * WIDTH:(i + 1) * 4 * WIDTH]) for i in range(3))
    return [[min(max(255 * v, 0), 255) for v in color] for color in zip(r, g, b)]


def colors(generator, depth):
    """Planes of code values: black and white of both ranges, then any, not far from gray."""
    top, unit = (1 << depth) - 1, 1 << (depth - 8)
    luma = [0, 16 * unit, 235 * unit, top] + [generator.randint(40 * unit, 210 * unit) for _ in range(WIDTH - 4)]
    return [luma] + [[128 * unit] * 4 + [generator.randint(70 * unit, 190 * unit) for _ in range(WIDTH - 4)] for _ in range(2)]


def main():
    generator = random.Random(1)
    print("/* colors.h - written by tests/colors.py: matrix, full range, depth; three code values; R, G, B in 0..255. */")
    print("static const struct {\n    int matrix, full, depth, code[3];\n    double rgb[3];\n} zscale_colors[] = {")
    for matrix, name in MATRICES.items():
        print("    /* %s */" % name)
        for full in (0, 1):
            for depth in (8, 10, 16) if matrix or full else ():
                planes = colors(generator, depth)
                for code, rgb in zip(zip(*planes), zscale(matrix, full, depth, planes)):
                    print("    { %d, %d, %d, { %d, %d, %d }, { %.3f, %.3f, %.3f } }," % (matrix, full, depth, *code, *rgb))
    print("};")


main()
