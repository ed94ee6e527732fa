"""Writes tests/unit/mxnet_crops.h: where MXNet's ImageRecordIter takes pixels of its output from, over a grid of sizes and settings.

    VENV/bin/python tests/peers/mxnet_crops.py > tests/unit/mxnet_crops.h      of Python 3.8, with mxnet 1.9.1 and numpy 1.23.5

Pictures hold a coordinate as their brightness, one picture x, another y; settings are such that nothing is drawn."""
import os, tempfile

import mxnet
import numpy
from mxnet import recordio

SIZES = [(20, 30), (30, 20), (20, 20), (64, 20), (20, 64), (50, 40), (9, 10), (31, 33), (33, 31), (90, 70), (32, 24), (1, 7)]
OUTPUTS = [(32, 32), (24, 40), (40, 24)]
# What MXNet is given, and the same in the fields of bzna_warp and its mxnet: scale, degrees, canvas_px (2), crop_px, pad_px, short_edge_px
SETTINGS = [({}, (1, 0, 0, 0, 0, 0, 0)),
            ({"pad": 3}, (1, 0, 0, 0, 0, 3, 0)),
            ({"resize": 25}, (1, 0, 0, 0, 0, 0, 25)),
            ({"resize": 48, "pad": 2}, (1, 0, 0, 0, 0, 2, 48)),
            ({"min_random_scale": 0.6, "max_random_scale": 0.6}, (0.6, 0, 0, 0, 0, 0, 0)),
            ({"min_random_scale": 1.5, "max_random_scale": 1.5, "pad": 1}, (1.5, 0, 0, 0, 0, 1, 0)),
            ({"max_crop_size": 18, "min_crop_size": 18}, (1, 0, 0, 0, 18, 0, 0)),
            ({"max_crop_size": 30, "min_crop_size": 30, "pad": 6}, (1, 0, 0, 0, 30, 6, 0)),
            ({"max_img_size": 24}, (1, 0, 0, 24, 0, 0, 0)),
            ({"min_img_size": 26, "max_img_size": 35}, (1, 0, 26, 35, 0, 0, 0)),
            ({"rotate": 20}, (1, 20, 0, 0, 0, 0, 0)),
            ({"rotate": 200, "min_random_scale": 0.8, "max_random_scale": 0.8, "pad": 2}, (0.8, 200, 0, 0, 0, 2, 0)),
            ({"random_resized_crop": True}, (1, 0, 0, 0, 0, 0, 0))]

def delivered(coordinates, size, output, settings):
    """What MXNet makes of a picture, a channel; None: it refuses."""
    with tempfile.TemporaryDirectory() as folder:
        name = os.path.join(folder, "one")
        picture = numpy.repeat(coordinates[..., None], 3, 2)
        record = recordio.MXIndexedRecordIO(name + ".idx", name + ".rec", "w")
        record.write_idx(0, recordio.pack_img(recordio.IRHeader(0, 1.0, 0, 0), picture, quality=9, img_fmt=".png"))
        record.close()
        try:
            made = mxnet.io.ImageRecordIter(path_imgrec=name + ".rec", data_shape=(3, output[1], output[0]), batch_size=1,
                                            preprocess_threads=1, verbose=False, inter_method=1, fill_value=255, **settings)
            return made.next().data[0].asnumpy()[0][0]
        except mxnet.MXNetError:
            return None

def main():
    print("/* Where MXNet %s takes pixels of its output from; by tests/peers/mxnet_crops.py. Width and height of the picture,\n"
          " * of the output; ten times the scale, degrees, min. and max_img_size, crop size, pad, resize; then, at nine points of\n"
          " * the output, x and y of the picture: 240 is the last column, or row, and 255 fill. */\n"
          "static const short mxnet_crops[][29] = {" % mxnet.__version__)
    for settings, fields in SETTINGS:
        for size in SIZES:
            y, x = numpy.mgrid[0:size[1], 0:size[0]]
            codes = [numpy.rint(c * (240 / max(n - 1, 1))).astype(numpy.uint8) for c, n in ((x, size[0]), (y, size[1]))]
            for output in OUTPUTS:
                made = [delivered(code, size, output, settings) for code in codes]
                if made[0] is None:
                    continue
                points = [(output[0] * (2 * i % 6 + 1) // 6, output[1] * (i // 3 * 2 + 1) // 6) for i in range(9)]
                values = [round(float(m[py, px])) for px, py in points for m in made]
                print("    { %s, %s }," % (",".join("%d" % v for v in (*size, *output, round(10 * fields[0]), *fields[1:])), ",".join(map(str, values))))
    print("};")

main()
