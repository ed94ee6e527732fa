#!/usr/bin/env python3
"""bench_open.py - how long data sets take to open

    make bench-open [ROUNDS=3] [SCALE=1]

Makes archives, tars, a RecordIO file and folders in build/open, which takes some minutes and 2 GB the first time.
SCALE=0.01 makes data sets of a hundredth of the samples, except for the archive. build/bench/open opens the archive,
and build/bench/files the others, in a process for each time, ROUNDS times. The least time counts, since other programs
can only add to it. The files are in the page cache. Prints a table in Markdown, and writes build/open/open.json."""
import io
import json
import os
import struct
import subprocess
import sys
import tarfile
import time

import bench_peers

PICTURE = "tests/data/pictures/jpeg_gray_progressive.jpg"


def make_tar(path, count):
    """Two files a sample: a picture and its class."""
    with open(PICTURE, "rb") as file:
        picture = file.read()
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for i in range(count):
            for name, data in (("%07d.jpg" % i, picture), ("%07d.cls" % i, b"%d" % (i % 1000))):
                with io.BytesIO(data) as file:
                    member = tarfile.TarInfo(name)
                    member.size = len(data)
                    tar.addfile(member, file)


def make_recordio(path, count):
    """As MXNet's im2rec writes: a magic number and a length, then a flag, a label, two identifiers and the picture."""
    with open(PICTURE, "rb") as file:
        picture = file.read()
    size = 24 + len(picture)
    with open(path, "wb") as rec, open(path[:-4] + ".idx", "w") as idx:
        for i in range(count):
            idx.write("%d\t%d\n" % (i, rec.tell()))
            rec.write(struct.pack("<IIIfQQ", 0xced7230a, size, 0, i % 1000, i, 0) + picture + bytes(-size % 4))


def make_folder(path, classes, count):
    """Empty files: opening a folder or a list reads none of them. The list of them is next to the folder."""
    with open(path + ".txt", "w") as names:
        for target in range(classes):
            folder = "%s/%04d" % (path, target)
            os.makedirs(folder, exist_ok=True)
            for i in range(target, count, classes):
                open("%s/%07d.jpg" % (folder, i), "w").close()
                names.write("%04d/%07d.jpg %d\n" % (target, i, target))


def made(path, make, *settings):
    if not os.path.exists(path + ".done"):
        make(path, *settings)
        open(path + ".done", "w").close()
    return path


def lines_of(*command):
    """Also if the program ends with status 1, which says that a figure is over a limit, for idle machines."""
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout
    return [json.loads(line) for line in said.splitlines()] or sys.exit("%s: no figures" % " ".join(command))


def main():
    build = os.environ.get("BUILD") or "build"
    rounds, scale = os.environ.get("ROUNDS") or "3", float(os.environ.get("SCALE") or 1)
    out = "%s/open/%g" % (build, scale)
    os.makedirs(out, exist_ok=True)
    def scaled(count):
        return round(count * scale)

    tar = made(out + "/plain.tar", make_tar, scaled(100000))
    indexed = made(out + "/indexed.tar", make_tar, scaled(100000))
    subprocess.run([build + "/bzna", "index", indexed], check=True, stdout=subprocess.DEVNULL)
    recordio = made(out + "/records.rec", make_recordio, scaled(1000000))
    small = made(out + "/small", make_folder, 1000, scaled(100000))
    large = made(out + "/large", make_folder, 1000, scaled(1281167))

    archive = lines_of(build + "/bench/open", build + "/open/archive.bzna")[0]
    rows = [{"name": "archive", "cpu_s": archive["open_ms"] / 1000, "kept_mb": archive["private_mb"], **archive}]
    for name, path in (("tar of two files a sample, with an index", indexed), ("the same, without", tar),
                       ("RecordIO, with its index", recordio), ("folder of 1,000 classes", small)):
        rows += [{**row, "name": name} for row in lines_of(build + "/bench/files", rounds, path)]
    for row in lines_of(build + "/bench/files", rounds, large, large + ".txt"):
        way = row["way"]
        rows.append({**row, "name": "folder of 1,000 classes" if way == "path" else "its files by a " + way})
    with open(build + "/open/open.json", "w") as file:
        json.dump({"date": time.strftime("%Y-%m-%d"), "machine": bench_peers.machine(), "load": os.getloadavg()[0],
                   "rounds": int(rounds), "data_sets": rows}, file, indent=1)
        file.write("\n")
    print("| data set | samples | ms of processors | ms by the clock | MB kept |")
    print("|---|---|---|---|---|")
    for row in rows:
        clock = "%.0f" % (row["open_s"] * 1000) if "open_s" in row else ""
        print("| %s | %s | %.0f | %s | %.0f |" % (row["name"], format(row["samples"], ","), row["cpu_s"] * 1000, clock,
                                                  row["kept_mb"]))


if __name__ == "__main__":
    sys.exit(main())
