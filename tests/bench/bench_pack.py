#!/usr/bin/env python3
"""bench_pack.py - bzna pack compared with ffmpeg and tar

    make bench-pack [PICTURES=DIR] [THREADS=2] [ROUNDS=3] [ONLY="h265 h264 copy"]

h265 and h264: JPEG files of at most 512 pixels an edge, since bzna pack would also make thumbnails of larger ones,
coded by THREADS processes of each program with the same encoder and settings. ffmpeg opens one encoder for all pictures
of a process, pads them to the frames of 512x512 that bzna pack makes, and writes a stream. An encoder's rate control
gives its first picture more bits than later ones, and bzna pack encodes each picture as a first one: with the same CRF
it writes twice the bytes. So ffmpeg runs twice: with the same CRF, and with the lowest one, in quarters, that does not
write more bytes than bzna pack.

copy: `bzna pack --codec copy --check headers` compared with `tar cf`, on 40 copies of all pictures, to a file in memory
(/dev/shm) and to a disk, where both wait until the file has reached it.

Programs take turns, ROUNDS times. Prints a table of the medians of ratios of rates, by the clock and by processors'
time, and writes build/pack/pack.json, which also has the memory of the largest process."""
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

import bench_peers

CRF = 20
PICTURES_MIN = {"h265": 50, "h264": 250}    # fewer pictures are repeated, so that starts of programs do not count
ENCODERS = {
    "h265": ("libx265", "-x265-params", "log-level=none:pools=none:frame-threads=1:keyint=1:bframes=0:ref=1:"
             "rc-lookahead=0:cutree=0:info=0"),
    "h264": ("libx264", "-x264-params", "keyint=1:bframes=0:ref=1:rc-lookahead=0:mbtree=0:threads=1"),
}


def timed(*commands):
    """Runs the commands at once."""
    begin = time.perf_counter()
    processes = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for command in commands]
    cpu_s = peak_mb = 0
    for process in processes:
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = status
        if status:
            sys.exit("%s: %s" % (" ".join(process.args), said.decode(errors="replace")))
        cpu_s += usage.ru_utime + usage.ru_stime
        peak_mb = max(peak_mb, usage.ru_maxrss * 1024e-6)
    return {"seconds": time.perf_counter() - begin, "cpu_s": cpu_s, "peak_mb": peak_mb}


def listed(bzna, path):
    return json.loads(subprocess.run((bzna, "list", "--json", path), check=True, stdout=subprocess.PIPE).stdout)


def compare(told, name, own, other, rounds):
    """own, other: functions that return what timed returns."""
    runs = [{"bzna": own(), "other": other()} for _ in range(rounds)]
    ratios = {what: statistics.median(run["other"][what] / run["bzna"][what] for run in runs)
              for what in ("seconds", "cpu_s")}
    told["compared"].append({"with": name, "by_the_clock": ratios["seconds"], "by_processors": ratios["cpu_s"],
                             "runs": runs})
    print("| %s | %s | %.2f | %.2f |" % (told["set"], name, ratios["seconds"], ratios["cpu_s"]), flush=True)


def encode(bzna, codec, pictures, out, processes, rounds):
    folder, archive = out + "/in", out + "/%s.bzna" % codec
    os.mkdir(folder)
    for share in range(processes):
        os.mkdir("%s/%d" % (out, share))
    small = [sample["filename"] for sample in listed(bzna, pictures)
             if max(sample["images"]["image"]["width"], sample["images"]["image"]["height"]) <= 512]
    count = -(-PICTURES_MIN[codec] // len(small)) * len(small)
    for i in range(count):
        shutil.copy("%s/%s" % (pictures, small[i % len(small)]), "%s/%06d.jpg" % (folder, i))
        os.link("%s/%06d.jpg" % (folder, i), "%s/%d/%06d.jpg" % (out, i % processes, i // processes))

    def pack():
        return timed((bzna, "pack", folder, "-o", archive, "--codec", codec, "--crf", str(CRF), "--jobs",
                      str(processes), "--overwrite"))

    def ffmpeg(crf):
        return timed(*(("ffmpeg", "-v", "error", "-nostdin", "-threads", "1", "-i", "%s/%d/%%06d.jpg" % (out, share),
                        "-vf", "scale=out_range=full,format=yuv420p,pad=512:512,setsar=1", "-c:v", *ENCODERS[codec],
                        "-preset", "medium", "-crf", str(crf), "-threads", "1", "-y", "%s/%d.%s" % (out, share, codec))
                       for share in range(processes)))

    def ffmpeg_bytes(crf):
        ffmpeg(crf)
        return sum(os.path.getsize("%s/%d.%s" % (out, share, codec)) for share in range(processes))

    pack()
    size = sum(sample["images"]["bzna_input"]["payload_size"] for sample in listed(bzna, archive))
    low, high = 4, 4 * CRF                          # quarters
    while low < high:
        middle = (low + high) // 2
        if ffmpeg_bytes(middle / 4) <= size:
            high = middle
        else:
            low = middle + 1
    told = {"set": codec, "pictures": count, "bytes": size, "ffmpeg_bytes_of_same_crf": ffmpeg_bytes(CRF),
            "ffmpeg_crf_of_same_bytes": high / 4, "compared": []}
    compare(told, "ffmpeg, same CRF", pack, lambda: ffmpeg(CRF), rounds)
    compare(told, "ffmpeg, same bytes", pack, lambda: ffmpeg(high / 4), rounds)
    return told


def copy(bzna, pictures, out, processes, rounds):
    folder = out + "/in"
    for i in range(40):
        shutil.copytree(pictures, "%s/%d" % (folder, i))
    size = sum(os.path.getsize(path + "/" + name) for path, _, names in os.walk(folder) for name in names)
    told = {"set": "copy", "bytes": size, "compared": []}
    for place, target in (("in memory", "/dev/shm/bench_pack.%d" % os.getpid()), ("on a disk", out + "/copy")):
        compare(told, "tar, " + place,
                lambda: timed((bzna, "pack", folder, "-o", target, "--codec", "copy", "--check", "headers", "--jobs",
                               str(processes), "--overwrite")),
                lambda: timed(("sh", "-c", 'tar cf "$1" "$2" && sync "$1"', "sh", target + ".tar", folder)), rounds)
        for name in (target, target + ".tar"):
            os.remove(name)
    return told


def main():
    build = os.environ.get("BUILD") or "build"
    out, bzna = build + "/pack", build + "/bzna"
    processes, rounds = int(os.environ.get("THREADS") or 2), int(os.environ.get("ROUNDS") or 3)
    sets = (os.environ.get("ONLY") or "h265 h264 copy").split()
    pictures = os.environ.get("PICTURES") or bench_peers.pictures_of(build, [sys.executable])
    print("| bzna pack | compared with | ratio of rates, by the clock | by processors' time |\n|---|---|---|---|")
    for name in sets:
        work = out + "/work"
        shutil.rmtree(work, ignore_errors=True)
        os.makedirs(work)
        told = copy(bzna, pictures, work, processes, rounds) if name == "copy" else \
            encode(bzna, name, pictures, work, processes, rounds)
        bench_peers.store(out + "/pack.json", name, {"date": time.strftime("%Y-%m-%d"),
                                                     "machine": bench_peers.machine(), "load": os.getloadavg()[0],
                                                     "processes": processes, "rounds": rounds, **told})
        shutil.rmtree(work)


if __name__ == "__main__":
    sys.exit(main())
