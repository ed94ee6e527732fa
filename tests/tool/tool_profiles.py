#!/usr/bin/env python3
"""Pictures with color profiles, and what else a pack leaves out: for test_pack.sh.

    tool_profiles.py make DIR                   15 pictures, 10 with another profile than sRGB's; in DIR/lost, what
                                                loses something
    tool_profiles.py compare BZNA ARCHIVE DIR   each picture beside what Little CMS makes of it through Pillow; see
                                                tool_inputs.py for BENZINA_LIBRARY
"""
import io
import json
import os
import struct
import subprocess
import sys

import numpy as np
from PIL import Image, ImageCms

import tool_inputs


def fixed(*values):
    return b"".join(struct.pack(">i", round(v * 65536)) for v in values)


def profile(colors, curve, space=b"RGB "):
    """Colors are what red, green and blue are in XYZ, adapted to D50; curve is for each, or for gray."""
    tags = [(b"desc", b"desc\0\0\0\0" + struct.pack(">I", 5) + b"test\0" + bytes(78)), (b"cprt", b"text\0\0\0\0none\0"),
            (b"wtpt", b"XYZ \0\0\0\0" + fixed(.9642, 1, .8249))]
    if space == b"RGB ":
        tags += [(b"%cXYZ" % n, b"XYZ \0\0\0\0" + fixed(*c)) for n, c in zip(b"rgb", colors)] + [
            (b"%cTRC" % n, curve) for n in b"rgb"
        ]
    else:
        tags += [(b"kTRC", curve)]
    at, table, data = 128 + 4 + 12 * len(tags), struct.pack(">I", len(tags)), b""
    for name, value in tags:
        value += bytes(-len(value) % 4)
        table += name + struct.pack(">II", at + len(data), len(value))
        data += value
    head = (
        struct.pack(">I", at + len(data)) + b"test\x02\x10\0\0mntr" + space + b"XYZ " + bytes(12) + b"acsp" + bytes(28)
    )
    return head + fixed(.9642, 1, .8249) + bytes(48) + table + data


def gamma(value):
    return b"curv\0\0\0\0" + struct.pack(">IH", 1, round(value * 256))


SRGB_CURVE = b"para\0\0\0\0\0\3\0\0" + fixed(2.4, 1 / 1.055, .055 / 1.055, 1 / 12.92, .04045)
DISPLAY_P3 = profile(((.5151, .2412, -.0011), (.2919, .6922, .0419), (.1572, .0666, .7841)), SRGB_CURVE)
ADOBE_RGB = profile(((.6097, .3111, .0195), (.2053, .6257, .0609), (.1492, .0632, .7446)), gamma(2.19921875))
GRAY = profile(None, gamma(1.8), b"GRAY")
SRGB = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def make(folder):
    y, x = np.mgrid[0:48, 0:64].astype(float)
    planes = [30 + 200 * x / 64, 40 + 180 * y / 48, 128 + 100 * np.sin((x + y) / 15)]
    picture = Image.fromarray(np.clip(np.stack(planes, -1), 0, 255).astype(np.uint8))
    lost, jpeg = os.path.join(folder, "lost"), {"quality": 98, "subsampling": 0}
    os.makedirs(lost)
    for name, icc in (("p3", DISPLAY_P3), ("adobe", ADOBE_RGB), ("srgb", SRGB)):
        for kind, options in (("png", {}), ("jpg", jpeg), ("tif", {}), ("webp", {"lossless": True})):
            picture.save(os.path.join(folder, name + "." + kind), icc_profile=icc, **options)
    picture.convert("L").save(os.path.join(folder, "gray.png"), icc_profile=GRAY)
    picture.save(os.path.join(folder, "none.png"))
    large = DISPLAY_P3 + bytes(150000)                      # in three segments
    picture.save(os.path.join(folder, "segments.jpg"), icc_profile=struct.pack(">I", len(large)) + large[4:], **jpeg)
    other = picture.transpose(Image.FLIP_LEFT_RIGHT)
    picture.convert("P").save(os.path.join(lost, "animated.gif"), save_all=True, append_images=[other.convert("P")])
    picture.save(os.path.join(lost, "animated.png"), save_all=True, append_images=[other])
    picture.save(os.path.join(lost, "pages.tif"), save_all=True, append_images=[other])
    Image.fromarray((x * 900).astype(np.uint16)).save(os.path.join(lost, "deep.png"))
    clear = picture.convert("RGBA")
    clear.save(os.path.join(lost, "opaque.png"))
    clear.putalpha(Image.fromarray(np.where(x > 30, 255, 90).astype(np.uint8)))
    clear.save(os.path.join(lost, "clear.png"))
    clear.save(os.path.join(lost, "clear.webp"), lossless=True)


def compare(bzna, archive, folder):
    samples = json.loads(subprocess.run([bzna, "list", "--json", archive], check=True, stdout=subprocess.PIPE).stdout)
    worst, shift = 0, 0
    for sample, pixels in zip(samples, tool_inputs.shown(bzna, archive, samples)):
        source = Image.open(os.path.join(folder, sample["filename"]))
        wanted = source.convert("RGB")
        if source.info.get("icc_profile"):
            wanted = ImageCms.profileToProfile(
                source, io.BytesIO(source.info["icc_profile"]), io.BytesIO(SRGB), outputMode="RGB"
            )
        a, c = (np.asarray(p.convert("RGB")).astype(float) for p in (wanted, source))
        b = pixels.astype(float)
        worst = max(worst, np.abs(a - b).mean())
        shift = max(shift, np.abs(a - c).mean())
        if np.abs(a - b).max() > 6:
            print("%s: %.1f of 255" % (sample["filename"], np.abs(a - b).max()))
    print(
        "%d pictures, %s"
        % (
            len(samples),
            "as Little CMS has them" if worst <= 1.5 and shift > 4 else "%.2f off, of %.2f" % (worst, shift),
        )
    )


if __name__ == "__main__":
    {"make": make, "compare": compare}[sys.argv[1]](*sys.argv[2:])
