#!/usr/bin/env python3
"""bench_stream.py - a stream compared with WebDataset, on the same shards through the same pipes

    PYTHON tests/bench/bench_stream.py [build]          from the repository's root; PYTHON has torch, torchvision and
    webdataset

Eight tar shards of 256 photographs each (bench_peers.py says which; PICTURES=DIR: others) are read by pipe:cat. Both
make shuffled float32 batches [64, 3, 224, 224] in the host's memory: torchvision's random resized crop with
antialiasing, a flip with probability 1/2, normalized. benzina.Stream has as many decoder threads as WebDataset's
DataLoader has worker processes, and WebDataset decodes by torchvision.io, its fastest way. Each runs in a process of
its own, is warmed up until its first eight batches have come, and is then counted for DURATION seconds (5). They take
turns, ROUNDS times (7), and medians count. THREADS=1,2."""
import io
import os
import statistics
import subprocess
import sys
import tarfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import bench_peers  # noqa: E402

SHARDS, EACH, WARM_UP = 8, 256, 8


def stream(urls, threads, antialias):
    import benzina
    shards = benzina.Stream(
        urls,
        bench_peers.SIZE,
        bench_peers.BATCH,
        True,
        seed=1,
        drop_last=True,
        memory_bytes=128 << 20,
        mean=bench_peers.MEAN,
        std=bench_peers.STD,
        num_threads=threads,
        antialias=antialias,
        warp=benzina.ops.RandomResizedCrop(flip_h=0.5),
        output="field",
    )
    while True:
        for images, _ in shards:
            assert images.shape == (bench_peers.BATCH, 3, bench_peers.SIZE, bench_peers.SIZE)
            yield images.shape[0]


def measure(peer, urls, threads, seconds):
    batches = (stream if peer == "benzina" else bench_peers.webdataset)(urls, threads, True)
    for _ in range(WARM_UP):
        next(batches)
    pictures, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        pictures += next(batches)
    print(pictures / (time.perf_counter() - begin), flush=True)
    os._exit(0)                                     # nobody waits for workers


def make_shards(folder, files):
    os.makedirs(folder, exist_ok=True)
    paths = [os.path.join(folder, "%03d.tar" % shard) for shard in range(SHARDS)]
    for shard, path in enumerate(paths):
        if os.path.exists(path):
            continue
        with tarfile.open(path + ".new", "w") as tar:
            for i in range(EACH):
                name, target = files[(shard * EACH + i) % len(files)]
                with open(name, "rb") as file:
                    members = (("jpg", file.read()), ("cls", b"%d" % target))
                for extension, data in members:
                    info = tarfile.TarInfo("%06d.%s" % (shard * EACH + i, extension))
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
        os.rename(path + ".new", path)
    return ["pipe:cat %s" % path for path in paths]


def main():
    build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build")
    seconds, rounds = float(os.environ.get("DURATION", 5)), int(os.environ.get("ROUNDS", 7))
    files = bench_peers.listed(bench_peers.pictures_of(build, [sys.executable]))
    urls = make_shards(build + "/bench_stream", files)
    binding = os.path.join("examples", "python")
    environment = dict(os.environ, BENZINA_LIBRARY=build + "/libbenzina.so", CUDA_VISIBLE_DEVICES="",
                       PYTHONPATH=os.pathsep.join(filter(None, [binding, os.environ.get("PYTHONPATH")])))
    print("%d shards of %.1f MB, %d pictures a shard; medians of %d rounds of %g s; load %.1f" %
          (SHARDS, os.path.getsize(urls[0][9:]) / 1e6, EACH, rounds, seconds, os.getloadavg()[0]))
    for threads in map(int, os.environ.get("THREADS", "1,2").split(",")):
        rates = {"benzina": [], "WebDataset": []}
        for _ in range(rounds):
            for peer in rates:
                done = subprocess.run(
                    [sys.executable, os.path.abspath(__file__), "--one", peer, str(threads), str(seconds), *urls],
                    env=environment,
                    stdout=subprocess.PIPE,
                    check=True,
                    text=True,
                )
                rates[peer].append(float(done.stdout))
        ratio = statistics.median(b / w for b, w in zip(rates["benzina"], rates["WebDataset"]))
        print("%d threads: benzina.Stream %.0f pictures/s, WebDataset %.0f; medians of pairs: %.2f times (%s)" %
              (threads, statistics.median(rates["benzina"]), statistics.median(rates["WebDataset"]), ratio,
               ", ".join("%.2f" % (b / w) for b, w in zip(rates["benzina"], rates["WebDataset"]))), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        measure(sys.argv[2], sys.argv[5:], int(sys.argv[3]), float(sys.argv[4]))
    else:
        main()
