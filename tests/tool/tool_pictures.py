#!/usr/bin/env python3
"""tool_pictures.py - for tests/tool/test_tool.sh: pictures that no program at hand makes, and a look at what came of them

    python3 tests/tool/tool_pictures.py chroma DIR            JPEGs and PNGs with a spot near each corner, for every
                                                         subsampling, parity of both edges and orientation
    python3 tests/tool/tool_pictures.py shift BZNA ARCHIVE    how far chroma lies from luma in each picture packed of those
    python3 tests/tool/tool_pictures.py tiff DIR FILE.jpg     TIFFs that libavcodec decodes, and that it does not
    python3 tests/tool/tool_pictures.py icons DIR             icons of several sizes
    python3 tests/tool/tool_pictures.py unsized FILE.mp4      an AV1 film's one sample gets a delimiter, loses a size
    python3 tests/tool/tool_pictures.py units FILE.obu        the types of the units of a stream
    python3 tests/tool/tool_pictures.py record OUT.rec FILE.jpg   a RecordIO file of that picture, twice: with a label, with
    three

The first two need numpy."""
import json
import os
import struct
import subprocess
import sys
import tempfile
import zlib

if sys.argv[1:2] in (["chroma"], ["shift"]):      # importing it takes longer than all of what the others do
    import numpy as np

# ---- baseline JPEG, every quantizer 1: the pixels come back almost as they were ----

# ITU T.81, annex K.3: how many codes of each length, and their symbols.
DC_TABLE = [0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0], list(range(12))
# Not that annex's table: 8 bits for each symbol run/size are as legal, and shorter to write down.
AC_SYMBOLS = [0x00, 0xF0] + [run << 4 | size for run in range(16) for size in range(1, 11)]
AC_TABLE = [0] * 7 + [len(AC_SYMBOLS)] + [0] * 8, AC_SYMBOLS


def huffman_codes(table):
    counts, symbols = table
    codes, code, at = {}, 0, 0
    for length, count in enumerate(counts, 1):
        for symbol in symbols[at:at + count]:
            codes[symbol] = format(code, "0%db" % length)
            code += 1
        at += count
        code <<= 1
    return codes


def zigzag():
    order = sorted(range(64), key=lambda i: (i // 8 + i % 8, i % 8 if (i // 8 + i % 8) % 2 == 0 else i // 8))
    return np.array(order)


def blocks_of(plane, down, across):
    """Coefficients of a plane's 8x8 blocks in zigzag order: [down, across, 64]. Its last row and column fill up."""
    height, width = plane.shape
    plane = np.pad(plane, ((0, down * 8 - height), (0, across * 8 - width)), mode="edge") - 128.0
    k, n = np.meshgrid(np.arange(8), np.arange(8), indexing="ij")
    dct = np.cos((2 * n + 1) * k * np.pi / 16) * np.where(k == 0, np.sqrt(1 / 8), 1 / 2)
    blocks = plane.reshape(down, 8, across, 8).transpose(0, 2, 1, 3)
    return np.rint(dct @ blocks @ dct.T).astype(int).reshape(down, across, 64)[:, :, zigzag()]


def signed_bits(value):
    size = int(abs(value)).bit_length()
    return size, format(value if value > 0 else value + (1 << size) - 1, "0%db" % size) if size else ""


def exif_of(orientation):
    return b"MM\0*" + struct.pack(">IHHHIHHI", 8, 1, 0x112, 3, 1, orientation, 0, 0)


def jpeg(planes, factors, width, height):
    """planes: of Y, Cb, Cr (or C, M, Y, K); factors: (horizontal, vertical) of each."""
    widest, tallest = max(f[0] for f in factors), max(f[1] for f in factors)
    across, down = -(-width // (8 * widest)), -(-height // (8 * tallest))
    blocks = [blocks_of(p, down * f[1], across * f[0]) for p, f in zip(planes, factors)]
    dc, ac = huffman_codes(DC_TABLE), huffman_codes(AC_TABLE)
    bits, last = [], [0] * len(planes)
    for row in range(down):
        for column in range(across):
            for i, (h, v) in enumerate(factors):
                for y in range(v):
                    for x in range(h):
                        block = blocks[i][row * v + y, column * h + x]
                        size, text = signed_bits(int(block[0]) - last[i])
                        last[i] = int(block[0])
                        bits += dc[size], text
                        at = 0
                        for k in np.flatnonzero(block[1:]) + 1:
                            bits += [ac[0xF0]] * ((k - at - 1) // 16)
                            size, text = signed_bits(int(block[k]))
                            bits += ac[(k - at - 1) % 16 << 4 | size], text
                            at = k
                        if at < 63:
                            bits.append(ac[0x00])
    text = "".join(bits)
    text += "1" * (-len(text) % 8)
    coded = int(text, 2).to_bytes(len(text) // 8, "big").replace(b"\xff", b"\xff\0")

    def segment(marker, data):
        return struct.pack(">BBH", 255, marker, len(data) + 2) + data
    count = len(planes)
    head = segment(0xE1, b"Exif\0\0" + exif_of(1)) + (segment(0xEE, b"Adobe\0\x64\0\0\0\0\0") if count == 4 else b"")
    head += segment(0xDB, b"\0" + b"\1" * 64)
    components = b"".join(bytes((i + 1, h << 4 | v, 0)) for i, (h, v) in enumerate(factors))
    head += segment(0xC0, struct.pack(">BHHB", 8, height, width, count) + components)
    head += segment(0xC4, b"\0" + bytes(DC_TABLE[0]) + bytes(DC_TABLE[1]))
    head += segment(0xC4, b"\x10" + bytes(AC_TABLE[0]) + bytes(AC_TABLE[1]))
    head += segment(0xDA, bytes((count,)) + b"".join(bytes((i + 1, 0)) for i in range(count)) + b"\0\x3f\0")
    return b"\xff\xd8" + head + coded + b"\xff\xd9"


def png_file(width, height, rows, orientation=1):
    """rows: each behind its filter's number."""
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"eXIf", exif_of(orientation)) +
            chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))


def png(rgb, orientation):
    height, width, _ = rgb.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), rgb.reshape(height, -1)], axis=1)
    return png_file(width, height, rows.tobytes(), orientation)


# ---- chroma ----
#
# Spots that are brighter, bluer and less red than their ground, luma and chroma around one point, and a blue band on
# top.

SPOT_PX, SPOT_EDGE_PX, BAND_PX = 7.0, 27.0, 8        # standard deviation; distance from both edges of a corner; height
FACTORS = {"444": (1, 1), "422": (2, 1), "420": (2, 2), "411": (4, 1), "440": (1, 2)}


def spots(width, height, across, down):
    """1 in the midst of a spot, 0 far from it; every sample the mean of the across x down pixels that it stands for."""
    def edge(size, step):
        at = np.arange(-(-size // step) * step) + 0.5
        two = [np.exp(-((at - c) / SPOT_PX) ** 2 / 2) for c in (SPOT_EDGE_PX, size - SPOT_EDGE_PX)]
        return sum(two).reshape(-1, step).mean(axis=1)
    return np.outer(edge(height, down), edge(width, across))


def with_band(blue, down):
    """What is repeated below the last row must be the last row, not one of these."""
    blue[:BAND_PX // down] += 40
    return blue


def spot_picture(kind, width, height):
    """Planes and sampling factors of a JPEG, or the pixels of a PNG."""
    luma = 90 + 60 * spots(width, height, 1, 1)
    if kind in FACTORS:
        across, down = FACTORS[kind]
        spot = spots(width, height, across, down)
        return [luma, with_band(128 + 55 * spot, down), 128 - 60 * spot], [(across, down), (1, 1), (1, 1)]
    spot = spots(width, height, 1, 1)
    blue, red = with_band(55 * spot, 1), -60 * spot
    rgb = np.stack([luma + 1.402 * red, luma - 0.344136 * blue - 0.714136 * red, luma + 1.772 * blue], axis=2)
    if kind == "rgb":
        return np.rint(rgb).astype(np.uint8)
    return [*np.moveaxis(rgb, 2, 0), 0 * luma + 255], [(1, 1)] * 4            # cmyk, inverted as Adobe has it


def chroma_pictures(folder):
    is_long = os.environ.get("TEST_ALL")
    all_orientations = range(1, 9)
    few = all_orientations if is_long else (1, 4, 6)
    small = ((112, 108), (112, 109), (113, 108), (113, 109)) if is_long else ((112, 109), (113, 108))
    sizes = [(kind, *size, all_orientations if kind == "420" else few)
             for kind in (*FACTORS, "rgb", "cmyk") for size in small]
    sizes += [("411", w, 109, (1,)) for w in (114, 115)]
    # These get thumbnails: of 512 x 343, 343 x 512 and 512 x 342 pixels.
    large = ((603, 405), (404, 602), (601, 402))
    sizes += [(kind, *size, (1, 6)) for kind in ("420", "422", "rgb")
              for size in (large if is_long or kind == "420" else large[:1])]
    for kind, width, height, orientations in sizes:
        picture = spot_picture(kind, width, height)
        for o in orientations:
            name = os.path.join(folder, "%s_%dx%d_%d" % (kind, width, height, o))
            data = png(picture, o) if kind == "rgb" else None
            if data is None and o == orientations[0]:
                coded = jpeg(*picture, width, height)
            with open(name + (".jpg" if data is None else ".png"), "wb") as file:
                file.write(coded.replace(exif_of(1), exif_of(o), 1) if data is None else data)


def center(plane, ground, block, right, bottom):
    """Of the spot in one quarter, in pixels."""
    height, width = plane.shape
    rim = BAND_PX // block + 1
    quarter = np.abs(plane.astype(float) - ground)
    quarter = quarter[height // 2:, :] if bottom else quarter[:height // 2, :]
    quarter = quarter[:, width // 2:] if right else quarter[:, :width // 2]
    for side in quarter[:rim], quarter[-rim:], quarter[:, :rim], quarter[:, -rim:]:
        side[:] = 0
    weight = np.maximum(quarter - quarter.max() / 10, 0)             # what coding adds far from the spot must not count
    x = np.arange(weight.shape[1]) + (width // 2 if right else 0) + 0.5
    y = np.arange(weight.shape[0]) + (height // 2 if bottom else 0) + 0.5
    return np.array([(weight.sum(axis=0) * x).sum(), (weight.sum(axis=1) * y).sum()]) * block / weight.sum()


def planes_shift(planes, frame_width, frame_height, width, height):
    """The largest shift of chroma against luma at any corner, in pixels; and by how much the last row and column of
    chroma differ from those before."""
    area = frame_width * frame_height
    luma = planes[:area].reshape(frame_height, frame_width)[:height, :width]
    worst, edge = 0.0, 0
    for i in (0, 1):
        chroma = planes[area + i * area // 4:][:area // 4].reshape(frame_height // 2, frame_width // 2)
        chroma = chroma[:(height + 1) // 2, :(width + 1) // 2]
        for last, before in (chroma[-1], chroma[-2]), (chroma[:, -1], chroma[:, -2]):
            edge = max(edge, int(np.abs(last.astype(int) - before).max()))
        for corner in range(4):
            shift = center(chroma, 128, 2, corner & 1, corner & 2) - center(luma, 90, 1, corner & 1, corner & 2)
            worst = max(worst, float(np.abs(shift).max()))
    return worst, edge


def thumbnails(archive, count):
    """Planes of the pictures of at most 512x512 pixels, and of the thumbnails of the others, in one run; or nothing."""
    command = ["ffmpeg", "-v", "error", "-i", archive, "-f", "rawvideo", "-"]
    try:
        planes = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return []
    size = 512 * 512 * 3 // 2
    return np.frombuffer(planes, np.uint8).reshape(count, size) if len(planes) == count * size else []


def chroma_shift(bzna, archive):
    """A line a picture: its name, its track, and what planes_shift says."""
    listed = json.loads(subprocess.run([bzna, "list", "--json", archive], stdout=subprocess.PIPE, check=True).stdout)
    together = thumbnails(archive, len(listed))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "planes.yuv")
        for sample in listed:
            images = sample["images"]
            small = images["bzna_thumb"]["payload_offset"] == images["bzna_input"]["payload_offset"]
            for track in ("bzna_input",) if small else ("bzna_input", "bzna_thumb"):
                if len(together) and (small or track == "bzna_thumb"):
                    planes = together[sample["index"]]
                else:
                    index = str(sample["index"])
                    subprocess.run([bzna, "extract", archive, index, "--track", track, "-o", path], check=True)
                    planes = np.fromfile(path, np.uint8)
                sizes = (images[track][key] for key in ("frame_width", "frame_height", "width", "height"))
                shift = planes_shift(planes, *sizes)
                print("%s %s %.3f %d" % (os.path.basename(sample["filename"]), track, *shift))


# ---- TIFF: RGB in strips or tiles, and what libavcodec makes black pictures of ----

WIDTH, HEIGHT, TILE = 64, 48, 16


def tiff(path, tags, data, order="<"):
    """tags: {tag: (type, values)}, types 3 (16 bits) and 4 (32 bits); offsets count from where the data begin."""
    offsets, extra, directory = (273, 324, 513), b"", b""
    begin = 8 + 2 + 12 * len(tags) + 4
    begin += sum(len(values) * (2, 4)[kind - 3] for kind, values in tags.values() if len(values) * (2, 4)[kind - 3] > 4)
    for tag, (kind, values) in sorted(tags.items()):
        values = [v + begin if tag in offsets else v for v in values]
        field = struct.pack(order + "HI"[kind - 3] * len(values), *values)
        if len(field) > 4:
            extra += field
            field = struct.pack(order + "I", 8 + 2 + 12 * len(tags) + 4 + len(extra) - len(field))
        directory += struct.pack(order + "HHI", tag, kind, len(values)) + field.ljust(4, b"\0")
    with open(path, "wb") as file:
        file.write((b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "IH", 8, len(tags)) + directory)
        file.write(bytes(4) + extra + data)


def tiffs(folder, jpeg_file):
    with open(jpeg_file, "rb") as file:
        coded = file.read()
    pixels = bytes(160 if c == 1 else 60 for _ in range(WIDTH * HEIGHT) for c in range(3))          # green

    def write(name, compression, photometric, data, layout=None, order="<", **changes):
        tags = {256: [WIDTH], 257: [HEIGHT], 258: [8, 8, 8], 259: [compression], 262: [photometric], 277: [3]}
        tags.update(layout or {273: [0], 278: [HEIGHT], 279: [len(data)]})
        tags.update({int(tag[1:]): values for tag, values in changes.items()})
        long = (273, 279, 324, 325, 513, 514)
        tiff(os.path.join(folder, name), {tag: (4 if tag in long else 3, tags[tag]) for tag in tags}, data, order)
    count, size = WIDTH // TILE * (HEIGHT // TILE), TILE * TILE * 3
    tiles = {322: [TILE], 323: [TILE], 324: [i * size for i in range(count)], 325: [size] * count}
    one_tile = {322: [WIDTH], 323: [HEIGHT], 324: [0], 325: [len(coded)]}
    write("deflate.tif", 8, 2, zlib.compress(pixels))
    write("raw.tif", 1, 2, pixels)
    write("raw_mm.tif", 1, 2, pixels, order=">")
    write("jpeg.tif", 7, 6, coded)
    write("jpeg_mm.tif", 7, 6, coded, order=">")
    write("jpeg_rgb.tif", 7, 2, coded)
    write("old_jpeg.tif", 6, 6, coded, _512=[1], _513=[0], _514=[len(coded)])
    write("tiles.tif", 1, 2, pixels, tiles)
    write("sensor.tif", 7, 32803, coded, one_tile, _258=[16], _277=[1], _33421=[2, 2], _33422=[256, 513], _50706=[1, 4])


# ---- icons ----

def bitmap(edge, bits, color):
    """A bitmap as icons have it: header, palette, pixels from the bottom up, and a mask of one bit a pixel."""
    header = struct.pack("<IiiHHIIiiII", 40, edge, 2 * edge, 1, bits, 0, 0, 0, 0, 0, 0)
    if bits == 32:
        pixels = bytes((*color, 255)) * edge * edge
    else:
        pixels = bytes((*color, 0)) * 16 + bytes(-(-edge // 8) * 4) * edge
    return header + pixels + bytes(-(-edge // 32) * 4) * edge


def icon_png(edge, color):
    rows = (b"\0" + bytes(color[::-1]) * edge) * edge
    return png_file(edge, edge, rows)


def icon(path, pictures):
    """pictures: (edge, bits, bytes)."""
    at, entries = 6 + 16 * len(pictures), b""
    for edge, bits, data in pictures:
        entries += struct.pack("<BBBBHHII", edge & 255, edge & 255, 0, 0, 1, bits, len(data), at)
        at += len(data)
    with open(path, "wb") as file:
        file.write(struct.pack("<HHH", 0, 1, len(pictures)) + entries + b"".join(data for _, _, data in pictures))


def icons(folder):
    blue, green, red = (220, 30, 30), (30, 160, 30), (30, 30, 220)
    small = (16, 32, bitmap(16, 32, blue)), (32, 32, bitmap(32, 32, blue))
    icon(os.path.join(folder, "a_bitmap.ico"), [small[0], (48, 32, bitmap(48, 32, red)), small[1]])
    icon(os.path.join(folder, "b_png.ico"), [small[0], (256, 32, icon_png(256, red)), small[1]])
    few_colors = 32, 4, bitmap(32, 4, blue)
    icon(os.path.join(folder, "c_depth.ico"), [few_colors, (32, 32, bitmap(32, 32, green)), few_colors])
    icon(os.path.join(folder, "d_cut.ico"), [small[0], (48, 32, bitmap(48, 32, red)[:100])])


# ---- AV1 ----

def unit_at(data, at):
    """Offsets of a unit's size field and payload, and the payload's size."""
    field = payload = at + (2 if data[at] & 4 else 1)
    size = shift = 0
    while True:
        size |= (data[payload] & 127) << shift
        shift += 7
        payload += 1
        if not data[payload - 1] & 128:
            return field, payload, size


def units(path):
    """Prints the types of a stream's units, each of which must tell its size."""
    with open(path, "rb") as file:
        data = file.read()
    types, at = [], 0
    while at < len(data):
        assert data[at] & 2, "a unit does not tell its size"
        types.append(str(data[at] >> 3 & 15))
        at = sum(unit_at(data, at)[1:])
    assert at == len(data), "the last unit is cut off"
    print(" ".join(types))


def unsized(path):
    """The last unit of the sample loses its size, of two bytes; in exchange, a temporal delimiter comes first."""
    with open(path, "rb") as file:
        data = file.read()
    at = last = data.index(b"mdat") + 4
    end = at - 8 + int.from_bytes(data[at - 8:at - 4], "big")
    while sum(unit_at(data, last)[1:]) < end:
        last = sum(unit_at(data, last)[1:])
    field, payload, _ = unit_at(data, last)
    assert payload - field == 2, "the frame's size is not one of two bytes"
    with open(path, "wb") as file:
        file.write(data[:at] + b"\x12\0" + data[at:last])
        file.write(bytes((data[last] & ~2,)) + data[last + 1:field] + data[payload:])


def record(path, picture):
    """MXNet's: magic, length, {flag, label, id, id2}, further labels, the picture; padded to 4 bytes."""
    with open(picture, "rb") as file:
        data = file.read()
    with open(path, "wb") as file:
        for header, labels in (((0, 5.0, 70, 0), ()), ((3, 0.0, 71, 0), (1.5, 2.0, -3.0))):
            payload = struct.pack("<IfQQ", *header) + struct.pack("<%df" % len(labels), *labels) + data
            file.write(struct.pack("<II", 0xCED7230A, len(payload)) + payload + bytes(-len(payload) % 4))


if __name__ == "__main__":
    {"chroma": chroma_pictures, "shift": chroma_shift, "tiff": tiffs, "icons": icons, "unsized": unsized,
     "units": units, "record": record}[sys.argv[1]](*sys.argv[2:])
