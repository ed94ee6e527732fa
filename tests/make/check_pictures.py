#!/usr/bin/env python3
"""Makes the pictures of tests/gpu/check_pictures.h, and prints them as rows of its table.

    tests/make/check_pictures.py > rows

Needs ffmpeg with libx264, libx265 and libaom. Of each kind two pictures, unlike everywhere, of 160x160: NVDEC's
smallest frames have 144x144. Their sums are of what ffmpeg decodes; tests/unit/test_sessions.c compares them with
libavcodec, too. JPEG has none: it is compared with what decodes it on the CPU, within a tolerance.
"""
import base64
import subprocess

SIZE = 160
KINDS = [("H264", "h264", 8), ("H265", "hevc", 8), ("H265", "hevc", 10), ("AV1", "av1", 8), ("JPEG", "mjpeg", 8)]
ENCODERS = {
    "h264": "-c:v libx264 -qp 46 -preset veryslow -x264-params keyint=2:bframes=0:threads=1 -bsf:v filter_units=remove_types=6",
    "hevc": "-c:v libx265 -preset veryslow -x265-params qp=46:keyint=2:bframes=0:info=0:log-level=none:pools=none:frame-threads=1:no-wpp=1",
    "mjpeg": "-c:v mjpeg -q:v 31 -huffman optimal -flags +bitexact -fflags +bitexact -strict unofficial",
    "av1": "-c:v libaom-av1 -crf 63 -b:v 0 -cpu-used 1",
}


def draw(which, depth):
    """A ramp with blocks; or mirrored and inverted. Planes of 4:2:0, as ffmpeg's rawvideo."""
    out = bytearray()
    for plane in range(3):
        size = SIZE if plane == 0 else SIZE // 2
        unit = size // 2
        for y in range(size):
            for x in range(size):
                u = size - 1 - x if which else x
                value = (u * (3 + plane) + y * (2 + 2 * plane)) * 20 // size
                value += 20 + ((u // unit) * (7 + plane) + (y // unit) * (5 + 3 * plane)) % 11 * 8
                value = (255 - min(value, 235) if which else min(value, 235)) * ((1 << depth) - 1) // 255
                out += value.to_bytes(2, "little") if depth > 8 else bytes([value])
    return bytes(out)


def ffmpeg(arguments, data):
    command = "ffmpeg -hide_banner -loglevel error " + arguments + " -"
    return subprocess.run(command.split(), input=data, stdout=subprocess.PIPE, check=True).stdout


def sum_of(pixels, depth):
    """As check_sum: FNV-1a, a value of the picture at a time."""
    result = 0xcbf29ce484222325
    step = 2 if depth > 8 else 1
    for i in range(0, len(pixels), step):
        result = (result ^ int.from_bytes(pixels[i:i + step], "little")) * 0x100000001b3 & (1 << 64) - 1
    return result


def rows(text, width):
    return "\n".join('        "%s"' % text[i:i + width] for i in range(0, len(text), width))


for codec, name, depth in KINDS:
    coded, sums = [], []
    layout = "yuv420p10le" if depth > 8 else "yuv420p"
    for which in range(2):
        raw = "-f rawvideo -pix_fmt %s -s %dx%d -i - -frames:v 1 " % (layout, SIZE, SIZE)
        container = "obu" if name == "av1" else name
        unit = ffmpeg(raw + ENCODERS[name] + " -f " + container, draw(which, depth))
        if name == "mjpeg" and unit[2:4] == b"\xff\xfe":              # ffmpeg's comment
            unit = unit[:2] + unit[4 + int.from_bytes(unit[4:6], "big") :]
        coded.append(base64.b64encode(unit).decode().rstrip("="))
        sums.append(
            0
            if name == "mjpeg"
            else sum_of(ffmpeg("-f %s -i - -f rawvideo -pix_fmt %s" % (container, layout), unit), depth)
        )
    sums = "0, 0" if name == "mjpeg" else "0x%016xull, 0x%016xull" % (*sums,)
    print("    { BZNA_CODEC_%s, %d, { %s }, {" % (codec, depth, sums))
    print(",\n".join(rows(text, 104) for text in coded) + " } },")
