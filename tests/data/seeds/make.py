#!/usr/bin/env python3
"""Makes seeds of forms that ffmpeg and Pillow do not write: EXIF data in a PNG, run lengths in a BMP, notes in a WebP, sizes of
samples in 16 bits in an mp4, a palette in a JP2. Their pixels need not make sense.

    python3 tests/data/seeds/make.py                from the repository's root; needs opj_compress
"""
import struct
import subprocess
import tempfile
import zlib
from pathlib import Path

DATA = Path("tests/data")
SEEDS = DATA / "seeds"
TIFF = b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"          # EXIF's orientation 6
XMP = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description tiff:Orientation="8"/></x:xmpmeta>'


def png(*chunks):
    header = struct.pack(">IIBBBBB", 2, 2, 8, 0, 0, 0, 0)
    pixels = zlib.compress(b"\0\1\2\0\3\4")
    out = b"\x89PNG\r\n\x1a\n"
    for kind, data in [(b"IHDR", header), *chunks, (b"IDAT", pixels), (b"IEND", b"")]:
        out += struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return out


def bmp(bits, compression, coded):
    palette = bytes(4 << bits)
    at = 14 + 40 + len(palette)
    header = struct.pack("<IiiHHIIiiII", 40, 4, 2, 1, bits, compression, len(coded), 0, 0, 0, 0)
    return b"BM" + struct.pack("<IHHI", at + len(coded), 0, 0, at) + header + palette + coded


def webp(*chunks):
    body = b"WEBP"
    for kind, data in chunks:
        body += kind + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def short_sizes(mp4):
    """stsz becomes stz2 of as many bytes."""
    at = mp4.index(b"stsz") + 4
    _, common, count = struct.unpack_from(">III", mp4, at)
    sizes = struct.unpack_from(f">{count}I", mp4, at + 12) if not common else (common,) * count
    box = struct.pack(f">III{count}H", 0, 16, count, *sizes)
    return mp4[:at - 4] + b"stz2" + box + mp4[at + len(box):]


def jp2_palette(bits):
    """A JP2 of one component, whose values are numbers of two colors with so many bits each."""
    def box(kind, body):
        return struct.pack(">I", 8 + len(body)) + kind + body
    code = (DATA / "pictures/jpeg2000_gray.j2k").read_bytes()
    right, bottom, left, top = struct.unpack_from(">4I", code, 8)
    width = (bits + 7) // 8
    colors = b"".join(value.to_bytes(width, "big") for value in (0, 1, 2, (1 << bits) - 1, 1 << (bits - 1), 3))
    head = box(b"ihdr", struct.pack(">IIHBBBB", bottom - top, right - left, 1, 7, 7, 0, 0)) + \
        box(b"colr", struct.pack(">BBBI", 1, 0, 0, 16)) + \
        box(b"pclr", struct.pack(">HB3B", 2, 3, bits - 1, bits - 1, bits - 1) + colors) + \
        box(b"cmap", b"".join(struct.pack(">HBB", 0, 1, i) for i in range(3)))
    return box(b"jP  ", b"\r\n\x87\n") + box(b"ftyp", b"jp2 \0\0\0\0jp2 ") + box(b"jp2h", head) + box(b"jp2c", code)


def jpeg2000(*steps):
    """A codestream whose components have such steps in the grid, of which the picture does not begin at the origin."""
    width, height = 21, 14
    planes = b"".join(bytes((x * (7 + i) + y * (13 - 2 * i)) % 256 for y in range(-(-height // rows)) for x in range(-(-width // columns)))
                      for i, (columns, rows) in enumerate(steps))
    form = f"{width},{height},{len(steps)},8,u@" + ":".join(f"{columns}x{rows}" for columns, rows in steps)
    with tempfile.TemporaryDirectory() as folder:
        raw, coded = Path(folder, "planes.raw"), Path(folder, "coded.j2k")
        raw.write_bytes(planes)
        subprocess.run(["opj_compress", "-i", raw, "-o", coded, "-F", form, "-d", "5,3", "-n", "3"], stdout=subprocess.DEVNULL, check=True)
        return coded.read_bytes()


def main():
    files = {
        "exif.png": png((b"eXIf", TIFF)),
        "rle8.bmp": bmp(8, 1, b"\4\1\0\0" + b"\0\3\1\2\3\0" + b"\1\7\0\1"),
        "rle4.bmp": bmp(4, 2, b"\2\x12\0\2\2\0\0\0" + b"\0\4\x12\x34" + b"\0\1"),
        "notes.webp": webp((b"VP8X", b"\x0c\0\0\0\1\0\0\1\0\0"),
                           (b"VP8L", (DATA / "pictures/webp_lossless_clear.webp").read_bytes()[20:200]),
                           (b"EXIF", b"Exif\0\0" + TIFF), (b"XMP ", XMP)),
        "palette.jp2": jp2_palette(8),
        "palette_16.jp2": jp2_palette(16),
        "grid.j2k": jpeg2000((1, 1), (2, 1), (1, 2), (2, 2)),
        "chroma.j2k": jpeg2000((1, 1), (2, 2), (2, 2)),
        "../crashers/palette_of_128_bits.jp2": jp2_palette(128),
        "short_sizes.mp4": short_sizes((SEEDS / "h264.mp4").read_bytes()),
    }
    for name, data in files.items():
        (SEEDS / name).write_bytes(data)


if __name__ == "__main__":
    main()
