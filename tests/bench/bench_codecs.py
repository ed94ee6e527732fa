#!/usr/bin/env python3
"""bench_codecs.py - what each codec of bzna pack costs

    make bench-codecs [PICTURES=DIR] [DURATION=3] [ROUNDS=3]

Packs a folder of class folders of JPEG files (without PICTURES, made ones: see bench_peers.py) with each codec, by
default settings where none are said. Bytes are of the full pictures, without thumbnails and boxes. PSNR is of R, G and
B against the files as this library decodes them, the mean of all pictures. Rates are of one thread, of the decoder
alone and of the loader (224x224, random resized crops, full pictures), by `bzna bench`: codecs take turns, ROUNDS
times, and medians count. Prints a table in Markdown, and writes build/codecs/codecs.json."""
import json
import os
import statistics
import subprocess
import sys
import time

import bench_peers

CODECS = (  # name, options of bzna pack, video engines that decode it
    ("H.265, CRF 20", "--codec h265", "Pascal and later"),
    ("H.264, CRF 20", "--codec h264", "all"),
    ("H.264, CRF 20, tuned", "--codec h264 --tune-decode", "all"),
    ("AV1, CRF 20", "--codec av1", "GA10x, Ada, Blackwell"),
    ("JPEG, quality 90", "--codec jpeg", "none: the CPU decodes it"),
    ("JPEG files, copied", "--codec copy", "none: the CPU decodes it"),
)


def output_of(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def mean_psnr(source, archive):
    """None where a picture is as it was."""
    import benzina
    import numpy
    values = []
    for one, other in zip(benzina.Dataset(source), benzina.Dataset(archive)):
        error = numpy.square(one.image().astype(numpy.float64) - other.image()).mean()
        if not error:
            return None
        values.append(10 * numpy.log10(255 ** 2 / error))
    return float(numpy.mean(values))


def pack(bzna, pictures, archive, options):
    begin = time.perf_counter()
    output_of(bzna, "pack", pictures, "-o", archive, "--overwrite", *options.split())
    seconds = time.perf_counter() - begin
    samples = json.loads(output_of(bzna, "list", "--json", archive))
    size = sum(sample["images"]["bzna_input"]["payload_size"] for sample in samples)
    return {"options": options, "pack_s": seconds, "bytes": size / len(samples), "psnr": mean_psnr(pictures, archive),
            "decoder": [], "loader": []}


def bench(bzna, archive, seconds, row):
    told = json.loads(output_of(bzna, "bench", archive, "--threads", "1", "--seconds", seconds, "--track", "image",
                                "--decoder", "software", "--json"))
    row["decoder"].append(told["decode_only_images_per_second"])
    row["loader"].append(told["images_per_second"])


def main():
    build = os.environ.get("BUILD") or "build"
    os.environ.setdefault("BENZINA_LIBRARY", os.path.abspath(build + "/libbenzina.so"))
    sys.path.insert(0, "examples/python")
    out, bzna = build + "/codecs", build + "/bzna"
    seconds, rounds = os.environ.get("DURATION") or "3", int(os.environ.get("ROUNDS") or 3)
    pictures = os.environ.get("PICTURES") or bench_peers.pictures_of(build, [sys.executable])
    os.makedirs(out, exist_ok=True)
    archives = ["%s/%d.bzna" % (out, i) for i in range(len(CODECS))]
    rows = [pack(bzna, pictures, archive, codec[1]) for archive, codec in zip(archives, CODECS)]
    for _ in range(rounds):
        for archive, row in zip(archives, rows):
            bench(bzna, archive, seconds, row)
    print("| codec | bytes a picture | PSNR | decoder alone, one core | loader, one core | video engines of GPUs |")
    print("|---|---|---|---|---|---|")
    for (name, _, engines), row in zip(CODECS, rows):
        row["name"] = name
        rates = [statistics.median(row[what]) for what in ("decoder", "loader")]
        quality = "%.1f dB" % row["psnr"] if row["psnr"] else "as it was"
        size = format(round(row["bytes"]), ",")
        print("| %s | %s | %s | %.0f/s | %.0f/s | %s |" % (name, size, quality, *rates, engines))
    with open(out + "/codecs.json", "w") as file:
        json.dump({"date": time.strftime("%Y-%m-%d"), "machine": bench_peers.machine(), "seconds": seconds,
                   "rounds": rounds, "codecs": rows}, file, indent=1)


if __name__ == "__main__":
    main()
