#!/usr/bin/env python3
"""tool_inputs.py - for tests/tool/test_inputs.sh: files as real data sets have them, and a look at what bzna pack made of
them

    tool_inputs.py make DIR                             ok_* can be packed, bad_* cannot, bad_REASON_*: for that reason
    tool_inputs.py compare BZNA [ARCHIVE SOURCE]...     every picture of the archives against what others see in its
                                                        source: SOURCE/NAME.rgb, SOURCE/NAME.mean (tests/data), else
                                                        Pillow. Prints what differs, and a line for each archive

Both need numpy and Pillow, and compare BENZINA_LIBRARY, which is asked for all pictures of an archive at once. Without
it, as with sanitizers, bzna extract is, for one after the other."""
import io
import json
import os
import struct
import subprocess
import sys
import zlib

import numpy as np
from PIL import Image, ImageOps


def drawn(width, height):
    """Smooth, so that no coding changes it much, and different in each corner."""
    y, x = np.mgrid[0:height, 0:width].astype(float)
    return np.stack([40 + 170 * x / width, 60 + 150 * y / height, 200 - 120 * (x + y) / (width + height)], -1).astype(
        np.uint8
    )


def coded(kind, picture, **options):
    out = io.BytesIO()
    picture.save(out, kind, **options)
    return out.getvalue()


def exif(orientation):
    return b"Exif\0\0" + b"MM\0*" + struct.pack(">IHHHIHHI", 8, 1, 0x112, 3, 1, orientation, 0, 0)


def png(width, height, depth, kind, rows):
    """A PNG of any depth; rows: bytes, each row behind the number of its filter."""
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    header = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def good(rgb):
    p = Image.fromarray(rgb)
    jpeg = coded("JPEG", p, quality=95)
    more = [Image.fromarray(255 - rgb)] * 2
    yield "rgb.jpg", jpeg
    yield "cmyk.jpg", coded("JPEG", p.convert("CMYK"), quality=95)
    yield "gray.jpg", coded("JPEG", p.convert("L"))
    yield "progressive.jpg", coded("JPEG", p, progressive=True, quality=95)
    yield "icc.jpg", coded("JPEG", p, icc_profile=bytes(3000), quality=95)
    yield "tail.jpg", jpeg + b"more bytes"
    for i in (3, 6):
        yield "exif_%d.jpg" % i, coded("JPEG", p, exif=exif(i), quality=95)
    wide = (rgb.astype(">u2") * 257).reshape(rgb.shape[0], -1)
    yield "rgb16.png", png(48, 32, 16, 2, b"".join(b"\0" + row.tobytes() for row in wide))
    yield "gray16.png", png(
        48, 32, 16, 0, b"".join(b"\0" + row.tobytes() for row in (rgb[:, :, 0].astype(">u2") * 257))
    )
    yield "palette.png", coded("PNG", p.convert("P"))
    yield "gray_alpha.png", coded("PNG", p.convert("LA"))
    yield "alpha.png", coded("PNG", p.convert("RGBA"))
    yield "one_bit.png", coded("PNG", p.convert("L").point(lambda v: 255 * (v > 110)).convert("1"))
    yield "png.jpg", coded("PNG", p)                       # the wrong extension
    yield "jpeg.png", jpeg
    yield "no extension", coded("PNG", p)
    yield "animated.gif", coded("GIF", p, save_all=True, append_images=more)
    yield "raw.tif", coded("TIFF", p)
    yield "photo.bmp", coded("BMP", p)
    yield "photo.webp", coded("WEBP", p, lossless=True)
    yield "1x1.png", coded("PNG", p.crop((0, 0, 1, 1)))
    yield "1x1.jpg", coded("JPEG", p.crop((0, 0, 1, 1)), quality=95)
    yield "1x5000.png", coded("PNG", Image.fromarray(drawn(1, 5000)))
    yield "16384x3.png", coded("PNG", Image.fromarray(drawn(16384, 3)))
    yield "new\nline \x1b[31m.jpg", jpeg
    yield "Latin \udce9\udcff.jpg", jpeg                   # bytes that are no UTF-8


def bad(rgb):
    p = Image.fromarray(rgb)
    yield "empty_.jpg", b""
    yield "empty_.png", b""
    yield "not a picture_zeros.jpg", bytes(5000)
    yield "not a picture_text.png", b"hello\n"
    yield "moov box_film.mp4", b"\0\0\0\x18ftypisom\0\0\0\0isomiso2" + bytes(100)
    yield "16385 x 1 pixels_.png", coded("PNG", Image.fromarray(drawn(16385, 1)))
    yield "animated WebP_.webp", coded("WEBP", p, save_all=True, append_images=[Image.fromarray(255 - rgb)])
    kinds = [
        ("JPEG", {}),
        ("JPEG", {"progressive": True}),
        ("PNG", {}),
        ("GIF", {}),
        ("WEBP", {}),
        ("BMP", {}),
        ("TIFF", {}),
    ]
    for n, (kind, options) in enumerate(kinds):
        data = coded(kind, p, **options)
        for i in range(1, 9):
            size = 1 + (len(data) - 40) * i // 8 if kind != "GIF" else len(data) * i // 9
            yield "cut_%d_%d.%s" % (n, i, kind.lower()), data[:size]


def make(folder):
    rgb = drawn(48, 32)
    for prefix, files in ("ok_", good(rgb)), ("bad_", bad(rgb)):
        for name, data in files:
            with open(os.path.join(folder, prefix + name), "wb") as file:
                file.write(data)

    def path(name):
        return os.path.join(folder, name)
    os.mkfifo(path("bad_not a regular file_.jpg"))
    os.symlink("bad_many levels_b.jpg", path("bad_many levels_a.jpg"))
    os.symlink("bad_many levels_a.jpg", path("bad_many levels_b.jpg"))
    os.symlink("nowhere", path("bad_No such file_.jpg"))
    os.symlink("ok_rgb.jpg", path("ok_link.jpg"))
    os.mkdir(path("folder.jpg"))
    if os.getuid():
        with open(path("bad_Permission denied_.jpg"), "wb") as file:
            file.write(coded("JPEG", Image.fromarray(rgb)))
        os.chmod(path("bad_Permission denied_.jpg"), 0)


def means(rgb):
    height, width = rgb.shape[0] // 4, rgb.shape[1] // 4
    return rgb[:height * 4, :width * 4].reshape(height, 4, width, 4, 3).mean((1, 3))


def source(name, path, shape):
    """What others see, and how to compare with it."""
    if os.path.exists(path + ".rgb") and "exif_6" in name:
        return (
            np.rot90(np.fromfile(path + ".rgb", np.uint8).reshape(shape[1], shape[0], 3).astype(float), -1),
            lambda rgb: rgb,
        )
    if os.path.exists(path + ".rgb"):
        return np.fromfile(path + ".rgb", np.uint8).reshape(*shape, 3).astype(float), lambda rgb: rgb
    if os.path.exists(path + ".mean"):
        with open(path + ".mean", "rb") as file:
            data = file.read()
        width, height = struct.unpack(">HH", data[:4])
        assert shape == (height, width), "%dx%d, not %dx%d" % (shape[1], shape[0], width, height)
        return np.frombuffer(data[4:], np.uint8).reshape(height // 4, width // 4, 3).astype(float), means
    if "16." in name:                                      # Pillow cuts 16 bits off
        rgb = drawn(48, 32).astype(float)
        return (rgb[:, :, :1] + np.zeros(3) if "gray" in name else rgb), lambda rgb: rgb
    picture = ImageOps.exif_transpose(Image.open(path)).convert("RGB")
    return np.asarray(picture).astype(float), lambda rgb: rgb


def extracted(bzna, archive, samples):
    """The pictures as bzna extract writes them."""
    command = [bzna, "extract", archive, "--track", "image", "-o", "-", "--as", "ppm"]
    for sample in samples:
        done = subprocess.run(
            [*command, str(sample["index"])], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True
        )
        _, size, _, pixels = done.stdout.split(b"\n", 3)
        width, height = map(int, size.split())
        yield np.frombuffer(pixels, np.uint8).reshape(height, width, 3)


def shown(bzna, archive, samples):
    """The pictures as the library shows them, which are those of bzna extract."""
    if not os.environ.get("BENZINA_LIBRARY"):
        return extracted(bzna, archive, samples)
    sys.path.insert(0, "examples/python")
    import benzina
    dataset = benzina.Dataset(archive)
    return (dataset[sample["index"]].image() for sample in samples)


def compare_one(bzna, archive, folder):
    listed = subprocess.run([bzna, "list", "--json", archive], stdout=subprocess.PIPE, check=True).stdout
    samples = json.loads(listed.decode("utf-8", "surrogateescape"))
    names = os.listdir(folder)
    compared = 0
    for sample, rgb in zip(samples, shown(bzna, archive, samples)):
        name = sample["filename"]
        if name not in names:                              # in JSON, what is no UTF-8 is U+FFFD
            name = [n for n in names if n.startswith("ok_Latin")][0]
        try:
            expected, reduce = source(name, os.path.join(folder, name), rgb.shape[:2])
            difference = np.abs(reduce(rgb.astype(float)) - expected)
            assert difference.mean() < 3, "differs by %.1f on average" % difference.mean()
        except (AssertionError, ValueError) as error:
            print("%r: %s" % (name, error))
        compared += 1
    print("compared %d" % compared)


def compare(bzna, *archives_and_folders):
    for archive, folder in zip(archives_and_folders[::2], archives_and_folders[1::2]):
        compare_one(bzna, archive, folder)


if __name__ == "__main__":
    {"make": make, "compare": compare}[sys.argv[1]](*sys.argv[2:])
