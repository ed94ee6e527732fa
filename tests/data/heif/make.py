#!/usr/bin/env python3
"""Makes the HEIF and AVIF files of this folder, and beside each what others see in it: NAME.mean, width and height (16
bits each, big-endian), then the means of blocks of 4 x 4 pixels (R, G, B, row by row; whole blocks alone), turned and cut.

    python3 make.py         needs numpy, Pillow, pillow-heif, and heif-enc and heif-convert (libheif-examples), avifenc
                            (libavif-bin), ffmpeg with libx264 and libx265

They are kept because a test would need these programs. heif-convert decodes; what it does not read, ffmpeg and Pillow do.
"""
import os
import struct
import subprocess
import tempfile

import numpy as np
import pillow_heif
from PIL import Image

os.chdir(os.path.dirname(os.path.abspath(__file__)))
T = tempfile.mkdtemp()
GAP = 0                                                 # bytes between the pieces of items


def drawn(w, h):
    """Smooth, and different in each corner and channel."""
    y, x = np.mgrid[0:h, 0:w].astype(float)
    planes = [40 + 170 * x / w, 60 + 150 * y / h, 128 + 70 * np.sin((x + 2 * y) / 23)]
    return Image.fromarray(np.clip(np.stack(planes, -1), 0, 255).astype(np.uint8))


def run(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def keep(name, data):
    with open(name, "wb") as f:
        f.write(data)


def keep_mean(name, picture):
    p = np.asarray(picture.convert("RGB")).astype(float)
    h, w = p.shape[0] // 4, p.shape[1] // 4
    p = p[:h * 4, :w * 4].reshape(h, 4, w, 4, 3).mean((1, 3))
    keep(name + ".mean", struct.pack(">HH", *picture.size) + np.rint(p).astype(np.uint8).tobytes())


def seen(name):
    run("heif-convert", name, T + "/seen.png")
    keep_mean(name, Image.open(T + "/seen.png"))


def png(w, h, alpha=False):
    name = "%s/%dx%d%s.png" % (T, w, h, "a" * alpha)
    p = drawn(w, h)
    if alpha:
        p.putalpha(Image.fromarray(np.tile(np.linspace(0, 255, w).astype(np.uint8), (h, 1))))
    p.save(name)
    return name


def heic(name, source, *options):
    run("heif-enc", "-q", "60", *options, source, "-o", name)
    seen(name)


def avif(name, source, *options):
    run("avifenc", "--min", "20", "--max", "24", "-s", "6", *options, source, name)
    seen(name)


# --- a writer of files that encoders do not make ---

def box(kind, *parts):
    data = b"".join(parts)
    return struct.pack(">I", 8 + len(data)) + kind + data


def full(kind, version, flags, *parts):
    return box(kind, struct.pack(">I", version << 24 | flags), *parts)


def number(value, size):
    return value.to_bytes(size, "big")


def file_of(items, primary, brand=b"heic", iloc=0, wide=False, refs=()):
    """items: (number, type, [boxes of properties], [pieces of data], whether they lie in idat). wide: large numbers."""
    n, ipco, ipma, infe = 4 if wide else 2, [], b"", b""
    for i, kind, properties, _, _ in items:
        ipco += [p for p in properties if p not in ipco]
        ipma += number(i, n) + number(len(properties), 1)
        ipma += b"".join(number((0x8000 if wide else 0x80) | ipco.index(p) + 1, 2 if wide else 1) for p in properties)
        infe += full(b"infe", 3 if wide else 2, 0, number(i, n), b"\0\0", kind, b"\0")
    idat = b"".join(b"".join(d) for _, _, _, d, inside in items if inside)
    iref = full(b"iref", int(wide), 0, *[box(k, number(f, n), number(len(to), 2), *[number(t, n) for t in to]) for k, f, to in refs])

    def meta(at):
        entries, inside_at, (offset, length, base, index) = b"", 0, (8, 4, 8, 4) if wide else (4, 4, 0, 0)
        for i, _, _, data, inside in items:
            entries += number(i, 2 if iloc < 2 else 4) + (number(int(inside), 2) if iloc else b"") + b"\0\0" + b"\0" * base + number(len(data), 2)
            for d in data:
                entries += b"\0" * index + number(inside_at if inside else at, offset) + number(len(d), length)
                inside_at, at = (inside_at + len(d), at) if inside else (inside_at, at + len(d) + GAP)
        sizes = number(offset << 4 | length, 1) + number(base << 4 | index, 1)
        return full(b"meta", 0, 0, full(b"hdlr", 0, 0, b"\0" * 4 + b"pict" + b"\0" * 13), full(b"pitm", int(wide), 0, number(primary, n)),
                    full(b"iloc", iloc, 0, sizes, number(len(items), 2 if iloc < 2 else 4), entries),
                    full(b"iinf", int(wide), 0, number(len(items), n), infe),
                    box(b"iprp", box(b"ipco", *ipco), full(b"ipma", int(wide), int(wide), number(len(items), 4), ipma)),
                    iref if refs else b"", box(b"idat", idat) if idat else b"")

    head = box(b"ftyp", brand, b"\0" * 4, b"mif1", brand)
    data = b"".join(d + b"\xee" * GAP for _, _, _, pieces, inside in items if not inside for d in pieces)
    return head + meta(len(head) + len(meta(0)) + 8) + (box(b"mdat", data) if data else b"")


def boxes(data):
    at = 0
    while at + 8 <= len(data):
        size = int.from_bytes(data[at:at + 4], "big")
        yield data[at + 4:at + 8], data[at + 8:at + size]
        at += size


def find(data, *path):
    for kind in path:
        data = next(b for k, b in boxes(data) if k == kind)[{b"stsd": 8, b"hvc1": 78, b"avc1": 78}.get(kind, 0):]
    return data


def coded(codec, picture, *options):
    """One frame by ffmpeg: the type of its sample entry, its configuration's box, its access unit, and ffmpeg's pixels."""
    picture.save(T + "/one.png")
    run("ffmpeg", "-y", "-i", T + "/one.png", "-vf", "scale=out_color_matrix=bt601:out_range=full", "-color_range", "pc", "-colorspace",
        "smpte170m", "-pix_fmt", "yuv420p", "-frames:v", "1", "-c:v", codec, *options, T + "/one.mp4")
    run("ffmpeg", "-y", "-i", T + "/one.mp4", T + "/back.png")
    with open(T + "/one.mp4", "rb") as f:
        data = f.read()
    stbl = find(data, b"moov", b"trak", b"mdia", b"minf", b"stbl")
    entry = next(boxes(find(stbl, b"stsd")))[0]
    kind = {b"hvc1": b"hvcC", b"avc1": b"avcC"}[entry]
    stsz, stco = find(stbl, b"stsz"), find(stbl, b"stco")
    size, at = int.from_bytes(stsz[4:8], "big") or int.from_bytes(stsz[12:16], "big"), int.from_bytes(stco[8:12], "big")
    return entry, box(kind, find(stbl, b"stsd", entry, kind)), data[at:at + size], Image.open(T + "/back.png").convert("RGB")


def ispe(w, h):
    return full(b"ispe", 0, 0, number(w, 4), number(h, 4))


NCLX = box(b"colr", b"nclx", number(1, 2), number(13, 2), number(6, 2), b"\x80")
X265 = ("-x265-params", "info=0:log-level=none:keyint=1", "-tag:v", "hvc1", "-crf", "18")
X264 = ("-x264-params", "keyint=1", "-bsf:v", "filter_units=remove_types=6", "-crf", "18")


def by_encoders():
    heic("still.heic", png(48, 32))
    heic("still_10.heic", png(48, 32), "-p", "chroma=444")
    heic("thumb.heic", png(128, 96), "-t", "64")
    avif("still.avif", png(40, 24))
    avif("gray.avif", png(40, 24), "-y", "400")
    avif("limited_709.avif", png(40, 24), "--cicp", "1/13/1", "-r", "l", "-y", "444")
    avif("rgb.avif", png(40, 24), "--cicp", "1/13/0", "-y", "444")
    avif("depth_10.avif", png(40, 24), "-d", "10", "-y", "422")
    avif("alpha.avif", png(40, 24, True))
    keep_mean("alpha.avif", drawn(40, 24))                  # alpha is dropped, not blended
    avif("crop.avif", png(64, 48), "--crop", "8,4,36,28")
    for r in range(4):
        for m in ("", "0", "1"):
            if r or m:
                avif("turned_%d%s.avif" % (r, m and "_" + m), png(40, 24), *(("--irot", str(r)) if r else ()), *(("--imir", m) if m else ()))
    avif("crop_turned.avif", png(64, 48), "--crop", "8,4,36,28", "--irot", "1", "--imir", "1")
    avif("grid.avif", png(192, 128), "-g", "3x2")
    pillow_heif.options.GRID_TILE_SIZE = 64                 # the last tiles go past the edges
    pillow_heif.from_pillow(drawn(150, 100)).save("grid.heic", quality=60)
    seen("grid.heic")


def by_hand():
    global GAP
    entry, config, unit, pixels = coded("libx265", drawn(48, 32), *X265)
    properties = [config, ispe(48, 32), NCLX]
    keep("idat.heic", file_of([(1, entry, properties, [unit], True)], 1, iloc=1))
    keep("wide.heic", file_of([(70000, entry, properties, [unit], False)], 70000, iloc=2, wide=True))
    GAP = 16
    keep("pieces.heic", file_of([(1, entry, properties, [unit[:30], unit[30:31], unit[31:]], False)], 1, iloc=1))
    GAP = 0
    for name in ("idat.heic", "wide.heic", "pieces.heic"):
        seen(name)
    # a turn, then a crop of what is turned; an identity item that mirrors that
    clap = box(b"clap", *[number(v & 0xffffffff, 4) for v in (20, 1, 36, 1, 2, 1, -2, 1)])
    irot, imir = box(b"irot", b"\1"), box(b"imir", b"\1")
    keep("identity.heic", file_of([(1, entry, properties + [irot, clap], [unit], False), (2, b"iden", [ispe(20, 36), imir], [], False)], 2,
                                  refs=[(b"dimg", 2, [1])]))
    turned = np.rot90(np.asarray(pixels), 1)                # 32 x 48, of which 20 x 36 about the middle and (2, -2) off it
    keep_mean("identity.heic", Image.fromarray(turned[6 - 2:6 - 2 + 36, 6 + 2:6 + 2 + 20][:, ::-1].copy()))
    keep("overlay.heic", file_of([(1, entry, properties, [unit], False), (2, b"iovl", [ispe(48, 32)], [b"\0" * 24], False)], 2,
                                 refs=[(b"dimg", 2, [1])]))
    entry, config, unit, pixels = coded("libx264", drawn(48, 32), *X264)
    keep("still_h264.heic", file_of([(1, entry, [config, ispe(48, 32), NCLX], [unit], False)], 1, brand=b"avci"))
    keep_mean("still_h264.heic", pixels)
    drawn(48, 32).save(T + "/one.jpg", quality=90)
    with open(T + "/one.jpg", "rb") as f:
        keep("still_jpeg.heif", file_of([(1, b"jpeg", [ispe(48, 32)], [f.read()], False)], 1, brand=b"mif1"))
    keep_mean("still_jpeg.heif", Image.open(T + "/one.jpg"))


def layered():
    """Properties of pictures of several layers, which this one is not, and several extents."""
    global GAP
    with open("still.avif", "rb") as f:
        data = f.read()
    config = box(b"av1C", find(find(data, b"meta")[4:], b"iprp", b"ipco", b"av1C"))
    unit = find(data, b"mdat")
    properties = [config, ispe(40, 24), NCLX, box(b"lsel", b"\xff\xff"), box(b"a1op", b"\0"), box(b"a1lx", b"\0", number(9, 2) * 3)]
    GAP = 16
    keep("layered.avif", file_of([(1, b"av01", properties, [unit[:40], unit[40:41], unit[41:]], False)], 1, brand=b"avif", iloc=1))
    GAP = 0
    seen("layered.avif")


def no_color():
    """Neither the file nor its stream says a range or a matrix."""
    run("ffmpeg", "-y", "-i", png(48, 32), "-pix_fmt", "yuv420p", "-f", "rawvideo", T + "/one.yuv")
    run("ffmpeg", "-y", "-f", "rawvideo", "-pix_fmt", "yuv420p", "-s", "48x32", "-i", T + "/one.yuv", "-c:v", "libx264", *X264, T + "/one.mp4")
    run("ffmpeg", "-y", "-i", T + "/one.mp4", T + "/back.png")
    with open(T + "/one.mp4", "rb") as f:
        data = f.read()
    stbl = find(data, b"moov", b"trak", b"mdia", b"minf", b"stbl")
    config = box(b"avcC", find(stbl, b"stsd", b"avc1", b"avcC"))
    keep("no_color.heic", file_of([(1, b"avc1", [config, ispe(48, 32)], [find(data, b"mdat")], False)], 1, brand=b"avci"))
    keep_mean("no_color.heic", Image.open(T + "/back.png"))


def repeated_tiles():
    """Grids that name one tile again and again: 45 x 45 times, more than are read, and 30 x 30 times."""
    entry, config, unit, _ = coded("libx265", drawn(64, 64), *X265)
    for name, n in (("crowded.heic", 45), ("repeated.heic", 30)):
        grid = b"\0\0" + bytes((n - 1, n - 1)) + number(64 * n, 2) * 2
        keep(name, file_of([(1, entry, [config, ispe(64, 64)], [unit], False), (2, b"grid", [ispe(64 * n, 64 * n)], [grid], True)], 2,
                           iloc=1, refs=[(b"dimg", 2, [1] * (n * n))]))


def shared_tiles():
    """36 equal tiles, which avifenc writes once; no .mean, as each is to be like the first."""
    Image.fromarray(np.tile(np.asarray(drawn(64, 64)), (6, 6, 1))).save(T + "/six.png")
    run("avifenc", "--grid", "6x6", "-s", "8", "--min", "20", "--max", "20", T + "/six.png", "shared.avif")


def jpeg_tiles():
    """Two JPEGs of 4:1:1 side by side, of which the canvas cuts off a part: its chroma has an odd width."""
    picture, tiles, both = drawn(77, 24), [], Image.new("RGB", (77, 24))
    for x in (0, 40):
        picture.crop((x, 0, x + 40, 24)).save(T + "/tile.png")
        run("ffmpeg", "-y", "-i", T + "/tile.png", "-pix_fmt", "yuvj411p", "-c:v", "mjpeg", "-q:v", "2", T + "/tile.jpg")
        with open(T + "/tile.jpg", "rb") as f:
            tiles.append(f.read())
        both.paste(Image.open(T + "/tile.jpg"), (x, 0))
    grid = b"\0\0\0\1" + number(77, 2) + number(24, 2)
    keep("grid_jpeg.heif", file_of([(1, b"jpeg", [ispe(40, 24)], [tiles[0]], False), (2, b"jpeg", [ispe(40, 24)], [tiles[1]], False),
                                    (3, b"grid", [ispe(77, 24)], [grid], True)], 3, brand=b"mif1", iloc=1, refs=[(b"dimg", 3, [1, 2])]))
    keep_mean("grid_jpeg.heif", both)


def sequence():
    """Tracks alone."""
    run("ffmpeg", "-y", "-loop", "1", "-i", png(48, 32), "-frames:v", "3", "-pix_fmt", "yuv420p", "-c:v", "libx265", *X265, T + "/three.mp4")
    with open(T + "/three.mp4", "rb") as f:
        data = f.read()
    size = int.from_bytes(data[:4], "big")
    keep("sequence.heics", data[:8] + b"hevc" + data[12:size].replace(b"isom", b"msf1") + data[size:].replace(b"vide", b"pict", 1))
    run("ffmpeg", "-y", "-i", T + "/three.mp4", "-frames:v", "1", T + "/back.png")
    keep_mean("sequence.heics", Image.open(T + "/back.png"))


if __name__ == "__main__":
    by_encoders()
    by_hand()
    layered()
    no_color()
    repeated_tiles()
    shared_tiles()
    jpeg_tiles()
    sequence()
