#!/usr/bin/env python3
"""Codes small pictures in as many ways as encoders have, for the suite test_nvparser: tests/data/nvparser/packets.bin.

Usage: make.py OUT. Needs ffmpeg with libx264, libx265, libaom and SVT-AV1.

The file: "NVP1", then groups of pictures that have the same parameter sets. A group: codec (1 byte: 4 H.264, 8 H.265,
11 AV1, CUVID's numbers), length of its name (1), the name, size of the parameter sets (2, big-endian), those, number of
pictures (2), and of each its size (2) and its bytes. H.264 and H.265 are Annex B; AV1 is open bitstream units without
temporal delimiters, whose sequence header is the parameter set. Other versions of encoders make other pictures: the
answers of NVIDIA's parser are of these."""
import os
import struct
import subprocess
import sys
import tempfile

FRAMES = 8


def run(command, data=None):
    done = subprocess.run(command, input=data, capture_output=True)
    return done.stdout if done.returncode == 0 else b''


def source(size, frames, pixels):
    # Frames far apart, so that no two are alike; and smooth, so that they are small.
    return ['-f', 'lavfi', '-i', 'testsrc2=size=%s:rate=2,gblur=sigma=5' % size, '-frames:v', str(frames),
            '-pix_fmt', pixels]


def ffmpeg(size, pixels, options, form, frames=FRAMES, threads='1'):
    return run(['ffmpeg', '-v', 'error', '-nostdin'] + source(size, frames, pixels) + ['-threads', threads] + options +
               ['-f', form, '-'])


def nals(stream):
    at = stream.find(b'\0\0\1')
    while at >= 0:
        end = stream.find(b'\0\0\1', at + 3)
        unit = stream[at + 3:end if end >= 0 else len(stream)].rstrip(b'\0')
        if unit:
            yield unit
        at = end


def split_nals(stream, h265):
    """Access units, each (parameter sets, the rest); the stream has delimiters, which are dropped, as is SEI."""
    units, delimiter, sei, sets = [], (35 if h265 else 9), ((39, 40) if h265 else (6,)), \
        ((32, 33, 34) if h265 else (7, 8))
    for nal in nals(stream):
        kind = nal[0] >> 1 & 63 if h265 else nal[0] & 31
        if kind == delimiter or not units:
            units.append([b'', b''])
        if kind == delimiter or kind in sei:
            continue
        units[-1][kind not in sets] += b'\0\0\0\1' + nal
    return units


def split_obus(stream):
    """Temporal units, each (sequence header, the rest) without delimiters, padding and metadata."""
    units, at = [], 0
    while at < len(stream):
        kind, begin, has_extension = stream[at] >> 3 & 15, at, stream[at] >> 2 & 1
        at += 1 + has_extension
        size, shift = 0, 0
        while True:
            byte = stream[at]
            at += 1
            size |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        at += size
        if kind == 2:
            units.append([b'', b''])
        elif kind not in (5, 15):
            units[-1][kind != 1] += stream[begin:at]
    return units


def h264(size, pixels='yuv420p', params='', crf=44, frames=FRAMES):
    text = 'aud=1:keyint=1:scenecut=0:threads=1:lookahead-threads=1:crf=%d' % crf + (':' + params if params else '')
    return split_nals(ffmpeg(size, pixels, ['-c:v', 'libx264', '-preset', 'medium', '-x264-params', text], 'h264',
                             frames), 0)


def h265(size, pixels='yuv420p', params='', crf=44, frames=FRAMES):
    text = 'aud=1:repeat-headers=1:keyint=1:log-level=none:pools=1:frame-threads=1:info=0:crf=%d' % crf
    return split_nals(ffmpeg(size, pixels, ['-c:v', 'libx265', '-preset', 'medium', '-x265-params',
                                            text + (':' + params if params else '')], 'hevc', frames), 1)


def tiles(units, columns, rows, uniform=True):
    """Streams with a slice's entry points for rows (wpp) become ones with tiles, in their PPS: they could not be decoded,
    but what parsers read of them, parameter sets and slice headers, is as it should be."""
    def edit(nal):
        bits = ''.join('%08d' % int(bin(byte)[2:]) for byte in nal[2:].replace(b'\0\0\3', b'\0\0'))
        at = 0

        def skip(codes):
            nonlocal at
            for code in codes:
                if code == 'e':                 # an Exp-Golomb code
                    zeros = bits.index('1', at) - at
                    at += 2 * zeros + 1
                else:
                    at += int(code)

        def golomb(value):
            return '0' * (len(bin(value + 1)) - 3) + bin(value + 1)[2:]

        skip('ee11311eee11')
        skip('1e' if bits[at] == '1' else '1')  # cu_qp_delta_enabled_flag, the depth
        skip('ee1111')
        assert bits[at:at + 2] == '01'          # no tiles, wavefronts
        sizes = '1' if uniform else '0' + golomb(0) * (columns + rows - 2)
        bits = bits[:at] + '10' + golomb(columns - 1) + golomb(rows - 1) + sizes + '1' + bits[at + 2:]
        bits = bits[:bits.rindex('1') + 1]
        bits += '0' * (-len(bits) % 8)
        raw, out, zeros = bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8)), nal[:2], 0
        for byte in raw:
            if zeros >= 2 and byte <= 3:
                out, zeros = out + b'\3', 0
            out, zeros = out + bytes([byte]), zeros + 1 if byte == 0 else 0
        return out
    return [[b''.join(b'\0\0\0\1' + (edit(nal) if nal[0] >> 1 & 63 == 34 else nal) for nal in nals(own)), data]
            for own, data in units]


def aom(size, pixels='yuv420p', params='', options=(), frames=FRAMES, crf=58):
    return split_obus(ffmpeg(size, pixels, ['-c:v', 'libaom-av1', '-cpu-used', '6', '-g', '1', '-lag-in-frames', '0',
                                            '-crf', str(crf), '-b:v', '0'] +
                             list(options) + (['-aom-params', params] if params else []), 'obu', frames))


def svt(size, pixels='yuv420p', params=''):
    # Each by itself: this encoder's second picture is never a key frame.
    units = []
    for k in range(FRAMES):
        units += split_obus(ffmpeg(size, pixels, ['-vf', 'trim=start_frame=%d' % k, '-c:v', 'libsvtav1', '-preset', '8',
                                                  '-crf', '60'] + (['-svtav1-params', params] if params else []),
                                   'obu', frames=1))
    return units


def scaling_file(folder):
    """Lists of x265's own format, each with another slope."""
    text, k = '', 0
    for side in (4, 8, 16, 32):
        names = ('LUMA', 'CHROMAU', 'CHROMAV') if side < 32 else ('LUMA',)
        for mode in ('INTRA', 'INTER'):
            for name in names:
                k += 1
                count = min(side * side, 64)
                text += '%s%dX%d_%s\n' % (mode, side, side, name)
                text += ','.join(str(16 + (i * (k % 5 + 1)) // (count // 16) % 100) for i in range(count)) + ',\n'
                if side > 8:
                    text += '%s%dX%d_%s_DC\n%d,\n' % (mode, side, side, name, 16 + k)
    path = os.path.join(folder, 'lists.txt')
    open(path, 'w').write(text)
    return path


def h264_groups():
    for size in ('16x16', '32x48', '50x38', '62x46', '64x64', '80x48', '34x98'):
        yield 'size ' + size, h264(size)
    for name, params in (('cavlc', 'cabac=0'), ('no 8x8', '8x8dct=0'), ('baseline', 'cabac=0:8x8dct=0:ref=1:bframes=0'),
                         ('2 slices', 'slices=2'), ('4 slices', 'slices=4:cabac=0'),
                         ('slices of 2 macroblocks', 'slice-max-mbs=2'), ('slices of 100 bytes', 'slice-max-size=150'),
                         ('jvt lists', 'cqm=jvt'),
                         ('4x4 lists', 'cqm4i=' + ','.join(str(10 + i) for i in range(16))),
                         ('lists of all', 'cqm4=' + ','.join(str(12 + 2 * i) for i in range(16)) +
                          ':cqm8=' + ','.join(str(9 + i // 2) for i in range(64))),
                         ('8x8 chroma lists', 'cqm4ic=' + ','.join(str(30 - i) for i in range(16)) +
                          ':cqm8p=' + ','.join(str(40 - i // 3) for i in range(64))),
                         ('constrained intra', 'constrained-intra=1'), ('no deblocking', 'no-deblock=1'),
                         ('deblock offsets', 'deblock=-3,2'), ('chroma qp offset', 'chroma-qp-offset=5'),
                         ('full range', 'range=pc'), ('range=tv', 'range=tv:videoformat=pal'),
                         ('bt709', 'colorprim=bt709:transfer=bt709:colormatrix=bt709'),
                         ('bt2020', 'colorprim=bt2020:transfer=smpte2084:colormatrix=bt2020nc:chromaloc=2'),
                         ('sar', 'sar=4/3:overscan=crop'), ('hrd', 'nal-hrd=vbr:vbv-maxrate=500:vbv-bufsize=500'),
                         ('crop rect', 'crop-rect=2,4,6,8'), ('crop left', 'crop-rect=8,0,0,0'),
                         ('level 4.1', 'level=41:ref=4'), ('level 1', 'level=10'), ('8 references', 'ref=8:bframes=0'),
                         ('pulldown', 'pic-struct=1'), ('fake interlaced', 'fake-interlaced=1'),
                         ('interlaced', 'tff=1'), ('open gop', 'open-gop=1')):
        yield name, h264('64x48', params=params)
    for pixels in ('gray', 'yuv422p', 'yuv444p', 'yuv420p10le', 'yuv422p10le', 'yuv444p10le', 'gray10le'):
        yield pixels, h264('50x38' if pixels != 'yuv444p' else '51x37', pixels)
    yield 'lossless', h264('32x32', params='qp=0', crf=0, frames=4)
    yield '4:4:4, cqm', h264('48x48', 'yuv444p', 'cqm=jvt')


def h265_groups(folder):
    for size in ('32x32', '64x64', '72x40', '66x50', '98x34', '160x144', '130x98'):
        yield 'size ' + size, h265(size)
    for name, params in (('ctu 16', 'ctu=16:min-cu-size=8'), ('ctu 32', 'ctu=32'), ('min cu 16', 'min-cu-size=16'),
                         ('max tu 8', 'max-tu-size=8'), ('tu depth 4', 'tu-intra-depth=4:tu-inter-depth=4'),
                         ('2 slices', 'slices=2:ctu=16:wpp=1'), ('4 slices', 'slices=4:ctu=16'), ('wpp', 'wpp=1:ctu=16'),
                         ('default lists', 'scaling-list=default'),
                         ('lists of a file', 'scaling-list=' + scaling_file(folder)),
                         ('transform skip', 'tskip=1:tskip-fast=1'), ('no sao', 'sao=0'), ('no amp', 'amp=0:rect=0'),
                         ('no strong intra', 'strong-intra-smoothing=0'), ('constrained intra', 'constrained-intra=1'),
                         ('cu lossless', 'cu-lossless=1'), ('sign hide off', 'signhide=0'),
                         ('chroma qp', 'cbqpoffs=-6:crqpoffs=4'), ('deblock', 'deblock=-2,3'), ('no deblock', 'deblock=0'),
                         ('aq 3', 'aq-mode=3:qg-size=8'), ('full range', 'range=full'),
                         ('bt709', 'colorprim=bt709:transfer=bt709:colormatrix=bt709:range=limited'),
                         ('bt2020', 'colorprim=bt2020:transfer=smpte2084:colormatrix=bt2020nc:chromaloc=2'),
                         ('sar', 'sar=2:overscan=crop:videoformat=pal'), ('display window', 'display-window=2,4,6,8'),
                         ('hrd', 'hrd=1:vbv-maxrate=500:vbv-bufsize=500'), ('level 6.2', 'level-idc=6.2:high-tier=1'),
                         ('open gop', 'open-gop=1'), ('temporal layers', 'temporal-layers=2'),
                         ('log2 poc', 'log2-max-poc-lsb=10'), ('opt qp', 'opt-qp-pps=1:opt-ref-list-length-pps=1'),
                         ('interlaced', 'interlace=tff')):
        yield name, h265('72x40', params=params)
    for pixels, size in (('gray', '72x50'), ('yuv422p', '50x37'), ('yuv444p', '51x37'), ('yuv420p10le', '66x50'),
                         ('yuv422p10le', '50x38'), ('yuv444p10le', '37x51'), ('yuv420p12le', '66x50'),
                         ('yuv422p12le', '50x38'), ('yuv444p12le', '33x35'), ('gray10le', '40x40'), ('gray12le', '40x40'),
                         ('gbrp', '48x48')):
        yield pixels, h265(size, pixels)
    yield 'lossless', h265('32x32', params='lossless=1', frames=3)
    yield '4:4:4, lists', h265('48x48', 'yuv444p', 'scaling-list=default')
    yield 'main still picture', h265('64x64', params='total-frames=1', frames=1)
    wavefronts = h265('192x128', params='wpp=1:ctu=16')
    for columns, rows in ((2, 2), (3, 1), (1, 3), (4, 5)):
        yield '%dx%d tiles' % (columns, rows), tiles(wavefronts, columns, rows)
        yield '%dx%d tiles of their sizes' % (columns, rows), tiles(wavefronts, columns, rows, False)


def av1_groups():
    for size in ('16x16', '64x64', '65x33', '66x51', '127x129', '33x128', '160x144', '98x35'):
        yield 'size ' + size, aom(size)
    for size in ('64x64', '65x67', '66x65', '127x129', '64x131', '160x144'):
        yield 'svt ' + size, svt(size)
    for name, params in (('64x64 superblocks', 'sb-size=64'), ('128x128 superblocks', 'sb-size=128'),
                         ('quantizer matrices', 'enable-qm=1:qm-min=2:qm-max=9'), ('no cdef', 'enable-cdef=0'),
                         ('no restoration', 'enable-restoration=0'), ('film grain', 'film-grain-test=2'),
                         ('film grain 5', 'film-grain-test=5'),
                         ('2 tile columns', 'tile-columns=1:sb-size=64'), ('2x2 tiles', 'tile-columns=1:tile-rows=1:sb-size=64'),
                         ('4 tile rows', 'tile-rows=2:sb-size=64'), ('screen', 'tune-content=screen'),
                         ('reduced tx', 'reduced-tx-type-set=1'), ('no palette', 'enable-palette=0'),
                         ('delta q', 'deltaq-mode=2:aq-mode=0'), ('aq 2', 'aq-mode=2'), ('error resilient', 'error-resilient=1'),
                         ('no cdf update', 'cdf-update-mode=0'), ('no order hint', 'enable-order-hint=0'),
                         ('bt709', 'color-primaries=bt709:transfer-characteristics=bt709:matrix-coefficients=bt709'),
                         ('colocated', 'chroma-sample-position=colocated'), ('large scale', 'max-reference-frames=3')):
        yield name, aom('130x98', params=params)
    yield 'full range', aom('66x50', options=['-color_range', 'pc'])
    yield 'bt2020', aom('66x50', options=['-color_primaries', 'bt2020', '-color_trc', 'smpte2084', '-colorspace', 'bt2020nc'])
    for k in range(4):
        yield 'still picture %d' % k, aom('%dx%d' % (64 + k, 50 + k), options=['-still-picture', '1'], frames=1)
    for pixels in ('yuv420p10le', 'yuv420p12le', 'yuv422p', 'yuv422p10le', 'yuv422p12le', 'yuv444p', 'yuv444p10le',
                   'yuv444p12le', 'gray', 'gray10le', 'gray12le', 'gbrp'):
        yield pixels, aom('67x51', pixels)
    yield 'svt 10 bits', svt('66x70', 'yuv420p10le')
    yield 'svt tiles', svt('192x130', params='tile-columns=1:tile-rows=1')
    yield 'svt film grain', svt('66x70', params='film-grain=10')
    for denom in (9, 13, 16):
        yield 'svt superres %d' % denom, svt('136x104', params='superres-mode=1:superres-denom=%d:superres-kf-denom=%d' %
                                              (denom, denom))
    yield 'lossless', aom('32x32', params='lossless=1', frames=3, crf=0)


def main():
    total = bytes_total = 0
    with open(sys.argv[1], 'wb') as out, tempfile.TemporaryDirectory() as folder:
        out.write(b'NVP1')
        for codec, groups in ((4, h264_groups()), (8, h265_groups(folder)), (11, av1_groups())):
            for name, units in groups:
                sets = units[0][0] if units else b''
                pictures = [data for own, data in units if data and (own or sets) in (sets, b'')]
                if not pictures or not sets or len(pictures) != len(units):
                    print('%2d %-24s %d of %d pictures' % (codec, name, len(pictures), len(units)))
                if not pictures or not sets:
                    continue
                out.write(struct.pack('>BB', codec, len(name)) + name.encode() + struct.pack('>H', len(sets)) + sets +
                          struct.pack('>H', len(pictures)) + b''.join(struct.pack('>H', len(p)) + p for p in pictures))
                total += len(pictures)
                bytes_total += len(sets) + sum(map(len, pictures))
                if sum(map(len, pictures)) > 5000:
                    print('%2d %-24s %d bytes' % (codec, name, sum(map(len, pictures))))
    print('%d pictures, %d bytes' % (total, bytes_total))


main()
