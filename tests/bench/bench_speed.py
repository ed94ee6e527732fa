#!/usr/bin/env python3
"""bench_speed.py - the loader's figures from small to large pictures, in one go

    make bench-speed PICTURES=DIR [DURATION=2] [ROUNDS=3] [THREADS=2] [ONLY=beside,shrink,small,torch]

PICTURES is a folder of class folders of JPEG files. Made of them, by Pillow, below build/speed: 4,800 crops of 64x64;
the pictures as progressive JPEG; 64 mosaics of 1600x1200 and 16 of 4032x3024 in which the pictures lie side by side as
they are, so that their detail is that of photographs; and these again with a restart marker at each row of MCUs, or at
each eighth MCU. Four tables in Markdown:

  beside   the loader beside decoding alone, by `bzna bench`, which lets the two take turns: medians of ROUNDS ratios
  shrink   decode.jpeg_shrink with margins, in turns: pictures a second, time of processors, and how much pixels differ
  small    context switches and the kernel's share of the time for small pictures (bench_small.c)
  torch    noise in the forms of MNIST, CIFAR and Tiny ImageNet, and of vectors of 768 floats, in a file and in memory
           (io.BytesIO), beside a tensor of all of them in torch that is indexed and normalized a batch at a time. THREADS
           threads each, batches of 512, in turns in one process

Ratios hold on a busy machine, rates do not. Torch's threads wait for each other by spinning: beside other work, `torch`
says something only with THREADS=1, and in time of processors."""
import glob
import io
import itertools
import json
import os
import statistics
import subprocess
import sys
import time

import bench_peers

MARGINS = (None, 1, 1.5, 2, 3)
SETS = (  # name, folder below build/speed, options of bzna bench
    ("64x64", "small", "--size 64 --batch 512"),
    ("photographs", "photographs", "--batch 64"),
    ("progressive", "progressive", "--batch 64"),
    ("1600x1200", "large", "--batch 16"),
    ("1600x1200, a marker a row", "large-rows", "--batch 16"),
    ("1600x1200, a marker each 8 MCUs", "large-8", "--batch 16"),
    ("4032x3024", "huge", "--batch 8"),
    ("4032x3024, a marker a row", "huge-rows", "--batch 8"),
)


def save(image, out, folder, number, **options):
    path = "%s/%s/0/%04d.jpg" % (out, folder, number)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    image.save(path, **options)


def mosaic(images, width, height, first):
    """The pictures side by side, beginning with the first one."""
    from PIL import Image
    made, source = Image.new("RGB", (width, height)), itertools.islice(itertools.cycle(images), first, None)
    top = 0
    while top < height:
        left, lowest = 0, height
        while left < width:
            image = next(source)
            made.paste(image, (left, top))
            left, lowest = left + image.width, min(lowest, image.height)
        top += lowest
    return made


def make_sets(pictures, out):
    from PIL import Image
    paths = sorted(glob.glob(pictures + "/*/*.jp*g"))
    images = [Image.open(path).convert("RGB") for path in paths]
    common = {"quality": 90, "subsampling": "4:2:0"}
    for i, image in enumerate(images):
        save(image, out, "progressive", i, progressive=True, **common)
    for i in range(4800):
        image, edge = images[i % len(images)], 64 + i * 37 % 200
        edge = min(edge, *image.size)
        left, top = i * 53 % (image.width - edge + 1), i * 97 % (image.height - edge + 1)
        save(image.crop((left, top, left + edge, top + edge)).resize((64, 64)), out, "small", i, quality=75,
             subsampling="4:2:0")
    for name, count, size in (("large", 64, (1600, 1200)), ("huge", 16, (4032, 3024))):
        for i in range(count):
            image = mosaic(images, *size, first=7 * i % len(images))
            save(image, out, name, i, **common)
            save(image, out, name + "-rows", i, restart_marker_rows=1, **common)
            save(image, out, name + "-8", i, restart_marker_blocks=8, **common)
    if not os.path.exists(out + "/photographs"):
        os.symlink(os.path.abspath(pictures), out + "/photographs")


def beside(out, bzna, seconds, rounds):
    print("\n| pictures | loader, pictures/s | decoding alone | ratio | lowest, highest | limited by |")
    print("|---|---|---|---|---|---|")
    results = {}
    for _, (name, folder, options) in itertools.product(range(rounds), SETS):
        told = json.loads(subprocess.run((bzna, "bench", out + "/" + folder, "--json", "--seconds", str(seconds),
                                          *options.split()), check=True, stdout=subprocess.PIPE).stdout)
        results.setdefault(name, []).append((told["images_per_second"], told["decode_only_images_per_second"],
                                             told["limited_by"]))
    for name, rows in results.items():
        ratios = sorted(a / b for a, b, _ in rows)
        print("| %s | %.0f | %.0f | %.3f | %.3f, %.3f | %s |" % (
            name, statistics.median(r[0] for r in rows), statistics.median(r[1] for r in rows),
            statistics.median(ratios), ratios[0], ratios[-1], rows[-1][2]), flush=True)


def loader_of(benzina, folder, margin, batch):
    shrink = {} if margin is None else {"jpeg_shrink": True, "jpeg_shrink_margin": margin}
    return benzina.DataLoader(benzina.Dataset(folder), shape=(224, 224), batch_size=batch, shuffle=True, seed=1,
                              epochs=None, warp=benzina.ops.RandomResizedCrop(flip_h=0.5), decoder="software", **shrink)


def timed(batches, seconds):
    """Pictures a second, and milliseconds of processors a picture."""
    next(batches)
    count, begin, cpu = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - begin < seconds:
        count += len(next(batches))
    return count / (time.perf_counter() - begin), 1e3 * (time.process_time() - cpu) / count


def endless(loader):
    while True:
        yield from loader.batches()


def shrink(out, seconds, rounds):
    import benzina
    import numpy
    print("\n| pictures | margin | pictures/s | of full decoding | ms of processors | of full decoding "
          "| difference, mean | 99.9 % at most | at most |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, folder, batch, epochs in (("1600x1200", "large", 16, 2), ("4032x3024", "huge", 8, 4)):
        figures, pixels = {m: [] for m in MARGINS}, {}
        for margin in MARGINS:
            loader = loader_of(benzina, out + "/" + folder, margin, batch)
            pixels[margin] = numpy.concatenate([numpy.array(b.images) for _ in range(epochs) for b in loader.batches()])
            loader.close()
        for _, margin in itertools.product(range(rounds), MARGINS):
            loader = loader_of(benzina, out + "/" + folder, margin, batch)
            figures[margin].append(timed(endless(loader), seconds))
            loader.close()
        for margin in MARGINS:
            difference = numpy.abs(pixels[margin] - pixels[None])
            ratios = [statistics.median(a[i] / b[i] for a, b in zip(figures[margin], figures[None])) for i in (0, 1)]
            rate, cpu = (statistics.median(f[i] for f in figures[margin]) for i in (0, 1))
            print("| %s | %s | %.0f | %.2f | %.2f | %.2f | %.2f | %.1f | %.0f |" % (
                name, "not shrunk" if margin is None else margin, rate, ratios[0], cpu, ratios[1], difference.mean(),
                numpy.quantile(difference, 0.999), difference.max()), flush=True)


def small(out, build, seconds, rounds):
    bench_peers.make_records(out + "/cifar.bin", 32 * 32 * 3, 50000)
    print()
    for data, size in ((out + "/small", 64), ("cifar:" + out + "/cifar.bin", 32), ("memory:" + out + "/cifar.bin", 32)):
        for readers in (1, 2):
            command = (build + "/bench/small", data, str(size), "512", "2", str(readers), str(seconds), str(rounds),
                       build + "/libbenzina.so")
            said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            print("%-40s %d readers: %s" % (data, readers, " ".join(said.stdout.split()[1:])), flush=True)


RECORDS = (  # name, channels, edge, padding; 0 channels: vectors
    ("MNIST, normalized", 1, 28, 0),
    ("CIFAR, padded, cropped, flipped, normalized", 3, 32, 2),
    ("Tiny ImageNet, flipped, normalized", 3, 64, 0),
    ("vectors of 768 floats", 0, 768, 0),
)
BATCH, COUNT, THREADS = 512, 20000, int(os.environ.get("THREADS") or 2)


def benzina_of(data, channels, edge, pad):
    import benzina
    if not channels:
        records = {"width": edge, "height": 1, "channels": 1, "data_type": "float32"}
        return benzina.DataLoader(benzina.Dataset(data, records=records), batch_size=BATCH, shuffle=True, seed=1,
                                  drop_last=True, tensors="data", num_threads=THREADS)
    records = {"width": edge, "height": edge, "channels": channels, "data_type": "uint8"}
    warp = benzina.ops.MXNetAffine(pad=pad, rand_crop=True, rand_mirror=True) if channels > 1 else None
    return benzina.DataLoader(benzina.Dataset(data, records=records), shape=(edge, edge), batch_size=BATCH,
                              shuffle=True, seed=1, drop_last=True, mean=[120] * 3, std=[60] * 3, warp=warp,
                              channels="gray" if channels == 1 else "RGB", num_threads=THREADS)


def torch_of(samples, channels, edge, pad):
    import torch
    torch.set_num_threads(THREADS)
    side, columns = edge + 2 * pad, torch.arange(edge).view(1, edge)
    padded = torch.nn.functional.pad(samples, (pad,) * 4).reshape(len(samples), channels, -1) if channels else samples
    while True:
        order = torch.randperm(len(samples))
        for first in range(0, len(samples) - BATCH + 1, BATCH):
            batch = padded[order[first:first + BATCH]]
            if channels > 1:
                x, y = (torch.randint(0, 2 * pad + 1, (BATCH, 1)) + columns for _ in range(2))
                x = torch.where(torch.rand(BATCH, 1) < 0.5, x.flip(1), x)
                at = (side * y.view(BATCH, edge, 1) + x.view(BATCH, 1, edge)).view(BATCH, 1, edge * edge)
                batch = torch.gather(batch, 2, at.expand(BATCH, channels, edge * edge))
            yield (batch.float() - 120) / 60 if channels else batch


def beside_torch(out, seconds, rounds):
    import torch
    print("\n| records | from | loader, samples/s | torch | ratio | us of processors, loader | torch | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    for (name, channels, edge, pad), in_memory in itertools.product(RECORDS, (False, True)):
        shape = (COUNT, channels, edge, edge) if channels else (COUNT, edge)
        samples = torch.randint(0, 256, shape, dtype=torch.uint8) if channels else torch.randn(shape)
        samples.numpy().tofile(out + "/records.bin")
        data = io.BytesIO(samples.numpy().tobytes()) if in_memory else out + "/records.bin"
        loader = benzina_of(data, channels, edge, pad)
        ways = [endless(loader), torch_of(samples, channels, edge, pad)]
        figures = [[timed(way, seconds) for way in ways] for _ in range(rounds)]
        rates, cpu = ([statistics.median(f[w][i] for f in figures) for w in (0, 1)] for i in (0, 1))
        ratios = [statistics.median(f[0][i] / f[1][i] for f in figures) for i in (0, 1)]
        print("| %s | %s | %.0f | %.0f | %.2f | %.2f | %.2f | %.2f |" % (
            name, "memory" if in_memory else "a file", *rates, ratios[0], *(1e3 * c for c in cpu), ratios[1],
        ), flush=True)
        loader.close()


def main():
    build, pictures = os.environ.get("BUILD") or "build", os.environ.get("PICTURES")
    if not pictures:
        sys.exit("bench_speed.py: PICTURES=DIR is missing")
    os.environ.setdefault("BENZINA_LIBRARY", os.path.abspath(build + "/libbenzina.so"))
    sys.path.insert(0, "examples/python")
    out, seconds, rounds = build + "/speed", float(os.environ.get("DURATION") or 2), int(os.environ.get("ROUNDS") or 3)
    only = (os.environ.get("ONLY") or "beside,shrink,small,torch").split(",")
    if not os.path.exists(out + "/made"):
        make_sets(pictures, out)
        open(out + "/made", "w").close()
    print("%s, load %s" % (bench_peers.machine(), " ".join("%.1f" % load for load in os.getloadavg())), flush=True)
    if "beside" in only:
        beside(out, build + "/bzna", seconds, rounds)
    if "shrink" in only:
        shrink(out, seconds, rounds)
    if "small" in only:
        small(out, build, seconds, rounds)
    if "torch" in only:
        beside_torch(out, seconds, rounds)


if __name__ == "__main__":
    main()
