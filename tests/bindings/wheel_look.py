"""What a benzina that is installed makes of data: python3 tests/bindings/wheel_look.py SOURCE... prints of each its name, its
number of pictures and the CRC of its batches, and on stderr where the library was found. test_wheel.sh compares what
several builds print."""
import os
import sys
import warnings
import zlib

import benzina
import numpy


def look(path):
    dataset = benzina.Dataset(path)
    loader = benzina.DataLoader(dataset, shape=(96, 128), batch_size=4, shuffle=True, seed=7, device="cpu")
    crc = pictures = 0
    for _ in range(2):
        for batch in loader:
            images = numpy.ascontiguousarray(numpy.asarray(batch[0]))
            if images.max() - images.min() < 1:
                sys.exit("%s: a batch of one color" % path)
            crc = zlib.crc32(images.tobytes(), crc)
            pictures += len(images)
    if pictures != 2 * len(dataset):
        sys.exit("%s: two epochs have %d pictures, not %d" % (path, pictures, 2 * len(dataset)))
    print(os.path.basename(path), len(dataset), "%08x" % crc)


warnings.simplefilter("ignore", RuntimeWarning)     # some of the pictures are of kinds that are refused
with open("/proc/self/maps" if os.path.exists("/proc/self/maps") else os.devnull) as maps:
    found = sorted({line.split()[-1] for line in maps if "libbenzina" in line})
print("library:", *found or [benzina._c.lib._name], file=sys.stderr)
for source in sys.argv[1:]:
    look(source)
