#!/usr/bin/env python3
"""Makes seeds of forms that ffmpeg and Pillow do not write: EXIF data in a PNG, run lengths in a BMP, notes in a WebP, sizes of
samples in 16 bits in an mp4. Their pixels need not make sense.

    python3 tests/data/seeds/make.py                from the repository's root
"""
import struct
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


def main():
    files = {
        "exif.png": png((b"eXIf", TIFF)),
        "rle8.bmp": bmp(8, 1, b"\4\1\0\0" + b"\0\3\1\2\3\0" + b"\1\7\0\1"),
        "rle4.bmp": bmp(4, 2, b"\2\x12\0\2\2\0\0\0" + b"\0\4\x12\x34" + b"\0\1"),
        "notes.webp": webp((b"VP8X", b"\x0c\0\0\0\1\0\0\1\0\0"),
                           (b"VP8L", (DATA / "pictures/webp_lossless_clear.webp").read_bytes()[20:200]),
                           (b"EXIF", b"Exif\0\0" + TIFF), (b"XMP ", XMP)),
        "short_sizes.mp4": short_sizes((SEEDS / "h264.mp4").read_bytes()),
    }
    for name, data in files.items():
        (SEEDS / name).write_bytes(data)


if __name__ == "__main__":
    main()
