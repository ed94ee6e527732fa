"""Writes tests/unit/colors.h: what ffmpeg's zscale makes of code values of Y', Cb and Cr (or Cg and Co; or G, B and R), for
each matrix, range and depth; and of pictures in each chroma format and siting, upsampled linearly. zscale takes all G,
B, R as full range. FFmpeg 5.1's has neither 4:1:1 nor 4:1:0 above 8 bits, and 4:4:0 only wrongly.

    python3 tests/peers/colors.py > tests/unit/colors.h
"""
import random
import struct
import subprocess

WIDTH = 8          # colors a combination
EDGES = 8, 4       # of the pictures
MATRICES = {0: "GBR", 1: "BT.709", 4: "FCC", 5: "BT.601", 6: "BT.601", 7: "SMPTE 240M", 8: "YCgCo", 9: "BT.2020 ncl"}


def zscale(matrix, full, depth, planes):
    """R, G, B in 0..255 of every color."""
    form = ("gbrp" if matrix == 0 else "yuv444p") + ("" if depth == 8 else "%dle" % depth)
    pack = "<%d%s" % (WIDTH, "B" if depth == 8 else "H")
    names = "range=full:matrix=gbr:rangein=%s" % ("full" if full else "limited") + (
        "" if matrix == 0 else ":matrixin=%d" % matrix
    )
    command = ["ffmpeg", "-v", "error", "-f", "rawvideo", "-pix_fmt", form, "-s", "%dx1" % WIDTH, "-i", "-",
               "-vf", "zscale=%s,format=gbrpf32le" % names, "-f", "rawvideo", "-"]
    out = subprocess.run(
        command, input=b"".join(struct.pack(pack, *p) for p in planes), stdout=subprocess.PIPE, check=True
    ).stdout
    g, b, r = (struct.unpack("<%df" % WIDTH, out[i * 4 * WIDTH:(i + 1) * 4 * WIDTH]) for i in range(3))
    return [[min(max(255 * v, 0), 255) for v in color] for color in zip(r, g, b)]


def colors(generator, depth):
    """Planes of code values: black and white of both ranges, then any, not far from gray."""
    top, unit = (1 << depth) - 1, 1 << (depth - 8)
    luma = [0, 16 * unit, 235 * unit, top] + [generator.randint(40 * unit, 210 * unit) for _ in range(WIDTH - 4)]
    return [luma] + [
        [128 * unit] * 4 + [generator.randint(70 * unit, 190 * unit) for _ in range(WIDTH - 4)] for _ in range(2)
    ]


def zscale_picture(form, depth, siting, planes):
    """R, G, B of every pixel, in hundredths of 0..255, of a picture in BT.709, limited range."""
    pack = "B" if depth == 8 else "H"
    names = "filter=bilinear:chromalin=%s:rangein=limited:matrixin=709:range=full:matrix=gbr" % siting
    command = [
        "ffmpeg",
        "-v",
        "error",
        "-f",
        "rawvideo",
        "-pix_fmt",
        form + ("" if depth == 8 else "%dle" % depth),
        "-s",
        "%dx%d" % EDGES,
        "-i",
        "-",
        "-vf",
        "zscale=%s,format=gbrpf32le" % names,
        "-f",
        "rawvideo",
        "-",
    ]
    out = subprocess.run(
        command,
        input=b"".join(struct.pack("<%d%s" % (len(p), pack), *p) for p in planes),
        stdout=subprocess.PIPE,
        check=True,
    ).stdout
    area = EDGES[0] * EDGES[1]
    g, b, r = (struct.unpack("<%df" % area, out[i * 4 * area:(i + 1) * 4 * area]) for i in range(3))
    return [round(min(max(25500 * v, 0), 25500)) for v in r + g + b]


def code_of(plane, x, y, depth):
    """tests/unit/test_transforms.c has the same: no color is out of range."""
    return ((100 if plane else 70) + (x * 37 + y * 101 + plane * 59) % 64) * 2 ** (depth - 8) + (
        x * 7 + y * 13 + plane
    ) % 2 ** (depth - 8)


def pictures():
    for form, shift_x, shift_y, depths, sitings in (
        ("yuv444p", 0, 0, (8, 10, 12, 16), ("center",)),
        ("yuv422p", 1, 0, (8, 10, 12, 16), ("center", "left")),
        ("yuv420p", 1, 1, (8, 10, 12, 16), ("center", "left", "top", "topleft")),
        ("yuv440p", 0, 1, (8,), ("center", "top")),
        ("yuv411p", 2, 0, (8,), ("center", "left")),
        ("yuv410p", 2, 2, (8,), ("center", "left", "topleft")),
    ):
        for depth in depths:
            for siting in sitings if depth == 8 else sitings[-1:]:
                planes = [[code_of(p, x, y, depth) for y in range(EDGES[1] >> (shift_y if p else 0))
                           for x in range(EDGES[0] >> (shift_x if p else 0))] for p in range(3)]
                yield (shift_x, shift_y, depth, "left" in siting, "top" in siting), zscale_picture(
                    form, depth, siting, planes
                )


def main():
    generator = random.Random(1)
    print(
        "/* colors.h - written by tests/peers/colors.py: matrix, full range, depth; three code values; R, G, B in 0..255. */"
    )
    print("static const struct {\n    int matrix, full, depth, code[3];\n    double rgb[3];\n} zscale_colors[] = {")
    for matrix, name in MATRICES.items():
        print("    /* %s */" % name)
        for full in (0, 1):
            for depth in (8, 10, 12, 16) if matrix or full else ():
                planes = colors(generator, depth)
                for code, rgb in zip(zip(*planes), zscale(matrix, full, depth, planes)):
                    print(
                        "    { %d, %d, %d, { %d, %d, %d }, { %.3f, %.3f, %.3f } }," % (matrix, full, depth, *code, *rgb)
                    )
    print("};\n")
    print(
        "/* chroma's shifts, depth, co-sited with the left column, the top row; R, G, B of 8 x 4 pixels in hundredths */"
    )
    print("static const struct {\n    int shift_x, shift_y, depth, left, top, rgb[3 * 8 * 4];\n} zscale_pictures[] = {")
    for about, values in pictures():
        print("    { %d, %d, %d, %d, %d,\n      {" % about)
        for i in range(0, len(values), 16):
            print("          " + " ".join("%d," % v for v in values[i:i + 16]))
        print("      } },")
    print("};")


main()
