#!/usr/bin/env python3
"""Makes the pictures of this folder, and beside each the pixels that Pillow has of it (.rgb: R, G, B, row by row).

    python3 make.py         needs Pillow and numpy, and cjpeg (libjpeg-turbo) for the sampling factors that Pillow does not write

They are kept because a test would need these programs; what libavcodec encodes, tests make themselves.
"""
import io
import os
import struct
import subprocess

import numpy as np
from PIL import Image

os.chdir(os.path.dirname(os.path.abspath(__file__)))
W, H = 40, 25                                           # 25: no chroma row of its own at the end


def drawn():
    y, x = np.mgrid[0:H, 0:W].astype(float)
    planes = [128 + 80 * np.sin(x / 9) + 20 * np.cos(y / 5), 128 + 70 * np.sin((x + y) / 13), 128 + 80 * np.cos(y / 11 - x / 17)]
    return Image.fromarray(np.clip(np.stack(planes, -1), 0, 255).astype(np.uint8))


def keep(name, data, is_decoded=True):
    with open(name, "wb") as f:
        f.write(data)
    if is_decoded:
        with open(name + ".rgb", "wb") as f:
            f.write(Image.open(io.BytesIO(data)).convert("RGB").tobytes())
    if name.endswith(".gif"):                           # the indices of its palette
        with open(name + ".index", "wb") as f:
            f.write(Image.open(io.BytesIO(data)).tobytes())


def old_lzw(gray):
    """A gray TIFF as libtiff 3 and older programs compressed it: codes begin at a byte's least significant bit. They
    have 9 bits here, since a code that empties the table comes in time."""
    codes, width, height = [], *gray.size
    for i, sample in enumerate(gray.tobytes()):
        codes += ([256] if i % 200 == 0 else []) + [sample]
    number = sum(code << 9 * i for i, code in enumerate(codes + [257]))
    packed = number.to_bytes((9 * len(codes) + 9 + 7) // 8, "little")
    tags = [(256, width), (257, height), (258, 8), (259, 5), (262, 1), (273, 8), (277, 1), (278, height), (279, len(packed))]
    directory = struct.pack("<H", len(tags)) + b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
    return b"II*\0" + struct.pack("<I", 8 + len(packed)) + packed + directory + bytes(4)


def saved(picture, kind, **options):
    f = io.BytesIO()
    picture.save(f, kind, **options)
    return f.getvalue()


def cjpeg(picture, *options):
    head = b"P6 %d %d 255\n" % picture.size
    return subprocess.run(["cjpeg", "-quality", "85", *options], input=head + picture.tobytes(), stdout=subprocess.PIPE, check=True).stdout


def renumbered(jpeg, names):
    """The components are 1, 2, ..., where the frame and the scan name them."""
    jpeg = bytearray(jpeg)
    for i, name in enumerate(names):
        frame, scan = jpeg.index(b"\xff\xc0") + 10 + 3 * i, jpeg.index(b"\xff\xda") + 5 + 2 * i
        assert jpeg[frame] == jpeg[scan] == name
        jpeg[frame] = jpeg[scan] = i + 1
    return bytes(jpeg)


def segment(jpeg, marker):
    at = jpeg.index(marker)
    return jpeg[at:at + 2 + int.from_bytes(jpeg[at + 2:at + 4], "big")]


def half(plane):
    return plane.resize(((W + 1) // 2, (H + 1) // 2), Image.BOX)


def in_scans(planes):
    """A JPEG of YCCK with a scan for each of (plane, sampling factor), as a gray JPEG of the plane has it."""
    gray = [saved(plane, "JPEG", quality=85) for plane, _ in planes]
    frame = b"\xff\xc0\0\x14\x08" + bytes([0, H, 0, W, 4]) + b"".join(bytes([i + 1, 17 * f, 0]) for i, (_, f) in enumerate(planes))
    out = b"\xff\xd8\xff\xee\0\x0eAdobe\0\x64\0\0\0\0\2" + segment(gray[0], b"\xff\xdb") + frame
    rest = gray[0]
    while b"\xff\xc4" in rest:                          # the same of all, since they are not optimized
        rest = rest[rest.index(b"\xff\xc4"):]
        out += segment(rest, b"\xff\xc4")
        rest = rest[2:]
    for i, jpeg in enumerate(gray):
        out += b"\xff\xda\0\x08\1" + bytes([i + 1]) + b"\0\0\x3f\0" + jpeg[jpeg.index(b"\xff\xda") + 10:-2]
    return out + b"\xff\xd9"


def jpegs(picture):
    exif = Image.Exif()
    exif[0x0112] = 6
    for name, factors in (("411", "4x1"), ("440", "1x2")):
        keep("jpeg_%s.jpg" % name, cjpeg(picture, "-sample", factors))
    keep("jpeg_420_progressive.jpg", cjpeg(picture, "-sample", "2x2", "-progressive", "-restart", "2B"))
    keep("jpeg_arithmetic.jpg", cjpeg(picture, "-sample", "2x2", "-progressive", "-arithmetic"))
    keep("jpeg_422_restarts.jpg", cjpeg(picture, "-sample", "2x1", "-restart", "2B"))
    keep("jpeg_gray_progressive.jpg", saved(picture.convert("L"), "JPEG", progressive=True))
    rgb = cjpeg(picture, "-rgb")                        # both Adobe's marker and the components' numbers say so
    adobe = rgb.index(b"\xff\xee")
    keep("jpeg_rgb_adobe.jpg", renumbered(rgb, b"RGB"))
    keep("jpeg_rgb_numbers.jpg", rgb[:adobe] + rgb[adobe + 16:])
    keep("jpeg_exif_6.jpg", saved(picture, "JPEG", exif=exif, quality=85))
    cmyk = saved(picture.convert("CMYK"), "JPEG", quality=85)
    keep("jpeg_cmyk.jpg", cmyk)
    # YCCK: the planes are Y', Cb, Cr and an inverted K; Pillow writes four planes (inverted) and Adobe's marker, of which the last byte says
    # what they are
    k = Image.new("L", picture.size, 40)
    planes = [Image.eval(p, lambda v: 255 - v) for p in picture.convert("YCbCr").split()] + [k]
    ycck = bytearray(saved(Image.merge("CMYK", planes), "JPEG", quality=85))
    ycck[ycck.index(b"Adobe") + 11] = 2
    keep("jpeg_ycck.jpg", renumbered(ycck, b"CMYK"))
    dark = Image.eval(Image.linear_gradient("L").resize(picture.size), lambda v: 60 + v // 3)      # another K in every row
    keep("jpeg_ycck_420_scans.jpg", in_scans([(planes[0], 2), (half(planes[1]), 1), (half(planes[2]), 1), (dark, 2)]))
    inks = Image.merge("CMYK", [*picture.convert("CMYK").split()[:3], dark])
    keep("jpeg_cmyk_subsampled.jpg", saved(inks, "JPEG", quality=85, subsampling="4:2:0"))


def stills(picture):
    few = picture.quantize(13)
    four = picture.quantize(4)
    clear = picture.copy()
    clear.putalpha(Image.linear_gradient("L").resize(picture.size))
    gray = picture.convert("L")
    keep("png_palette_clear.png", saved(few, "PNG", transparency=bytes(range(0, 130, 10)), bits=4))
    keep("png_palette_2.png", saved(four, "PNG", bits=2))
    keep("webp_lossy.webp", saved(picture, "WEBP", quality=80))
    keep("webp_lossless_clear.webp", saved(clear, "WEBP", lossless=True, exact=True))
    keep("webp_lossy_clear.webp", saved(clear, "WEBP", quality=80, exact=True))
    animated = io.BytesIO()
    picture.save(animated, "WEBP", save_all=True, append_images=[Image.new("RGB", picture.size)], lossless=True)
    keep("webp_animated.webp", animated.getvalue(), is_decoded=False)
    keep("gif_87.gif", saved(few, "GIF"))
    keep("gif_animated_clear.gif", saved(few, "GIF", save_all=True, append_images=[four], duration=50, transparency=2))
    keep("bmp_palette_8.bmp", saved(few, "BMP"))
    keep("bmp_1.bmp", saved(gray.convert("1"), "BMP"))
    keep("tiff_lzw.tif", saved(picture, "TIFF", compression="tiff_lzw"))
    keep("tiff_palette.tif", saved(few, "TIFF"))
    keep("tiff_cmyk.tif", saved(picture.convert("CMYK"), "TIFF"))
    keep("tiff_fax.tif", saved(gray.convert("1"), "TIFF", compression="group4"))
    keep("tiff_old_lzw.tif", old_lzw(gray))
    keep("tiff_jpeg.tif", saved(picture, "TIFF", compression="jpeg"))
    keep("jpeg2000.jp2", saved(picture, "JPEG2000"))
    keep("jpeg2000_gray.j2k", saved(gray, "JPEG2000", no_jp2=True))


jpegs(drawn())
stills(drawn())
