#!/usr/bin/env python3
"""bench_peers.py - this library and its peers on the same pictures

    make bench-peers [PICTURES=DIR] [PEERS=a,b] [THREADS=1,2] [DURATION=3] [ROUNDS=3] [PYTHONS=a:b:c] [CHART=DIR]

PICTURES is a folder of class folders of JPEG files; without it, pictures of photographs' statistics are made. All get
the same JPEG files, but where it is said, and make the same of them: shuffled float32 batches [64, 3, 224, 224] in the
host's memory, torchvision's random resized crop (area 8 to 100 %, ratio 3/4 to 4/3) and a flip with probability 1/2,
resized by a linear filter, normalized. Each runs in a process of its own, with 1 and with 2 threads (or worker processes) that
decode and crop, and as much prefetching as it has by default. MXNet and FFCV, which start anew when an epoch ends, have
the pictures 32 times in an epoch. Each is warmed up for a second, then counted for DURATION
seconds; all take turns, ROUNDS times, and medians count. First without antialiasing, then with it: what has only one
of the two runs only there, and says so.

  benzina       the folder, tars, and archives made by `bzna pack`: JPEG (--codec copy), H.265, H.264, AV1 (defaults).
                The full pictures are decoded, never thumbnails. num_threads
  torchvision   ImageFolder and DataLoader with num_workers, persistent. "PIL": its defaults, which always antialias;
                "io": decoded by torchvision.io and cropped as tensors, which can do both
  WebDataset    four tar shards, the same transforms as torchvision io, DataLoader with num_workers
  DALI          readers.file, decoders.image_random_crop (which decodes only the crop), resize, crop_mirror_normalize on
                the CPU. num_threads
  FFCV          a .beton, whose writer encodes pixels as JPEG again (quality 90), RandomResizedCropRGBImageDecoder (no
                antialiasing). num_workers
  MXNet         ImageRecordIter over a .rec of the same JPEG bytes, OpenCV's linear filter (no antialiasing).
                preprocess_threads

SET=cifar runs other peers on other data: 50,000 records of CIFAR-10's form, of noise. All make shuffled float32 batches
[512, 3, 32, 32]: padded by 2, cropped, flipped, normalized.

  benzina   DataLoader over the file, which is read sample by sample
  torch     vectorized: the set is padded once, in memory; a batch is an index, a gather and a normalization

A peer that is not installed, or does not run, is named with its reason. PYTHONS: interpreters; each peer runs in the
first that has it. CPU time is of the process and its workers, from /proc. Writes peers.json, peers.svg and peers.png
(by matplotlib, if one of PYTHONS has it) to CHART, build/peers by default."""
import io
import json
import os
import platform
import random
import re
import signal
import statistics
import struct
import subprocess
import sys
import tarfile
import time

BATCH, SIZE = 64, 224
REPEATS = 32  # of the pictures in an epoch, where an epoch's end stops the pipeline
MEAN, STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)

# ---- pictures, and files that hold them -----------------------------------------------------------------------------


def photograph(numpy, width, height, seed):
    """Noise whose amplitude falls with the frequency, as that of photographs does, with a few edges; H x W x 3."""
    rng = numpy.random.default_rng(seed)
    fy, fx = numpy.fft.fftfreq(height)[:, None], numpy.fft.rfftfreq(width)[None, :]
    falling = 1 / numpy.maximum(numpy.hypot(fy, fx), 1 / max(width, height)) ** 1.2

    def noise():
        n = numpy.fft.irfft2(falling * numpy.exp(2j * numpy.pi * rng.random((height, width // 2 + 1))),
                             (height, width))
        return n / n.std()

    luma, picture = noise(), numpy.empty((height, width, 3))
    y, x = numpy.mgrid[:height, :width]
    for _ in range(6):
        a, b = rng.normal(size=2)
        luma += rng.normal() * (a * (x - width * rng.random()) + b * (y - height * rng.random()) > 0)
    for i in range(3):
        picture[:, :, i] = 128 + 46 * (luma / luma.std() + 0.15 * noise())
    return numpy.clip(picture, 0, 255).astype(numpy.uint8)


def make_pictures(folder, bzna, count=128):
    """Made once: JPEG files of quality 90 in 8 classes, most of 500x375."""
    import numpy

    sizes = [(500, 375)] * 9 + [(375, 500)] * 3 + [(500, 333)] * 2 + [(640, 480), (1024, 768)]
    source, archive = folder + ".ppm", folder + ".bzna"
    for i in range(count):
        width, height = sizes[i % len(sizes)]
        os.makedirs("%s/%d" % (source, i * 8 // count), exist_ok=True)
        with open("%s/%d/%03d.ppm" % (source, i * 8 // count, i), "wb") as file:
            file.write(b"P6\n%d %d\n255\n" % (width, height) + photograph(numpy, width, height, i).tobytes())
    subprocess.run([bzna, "pack", source, "-o", archive, "--codec", "jpeg", "--overwrite"], check=True,
                   stdout=subprocess.DEVNULL)
    for i in range(count):
        os.makedirs("%s.new/%d" % (folder, i * 8 // count), exist_ok=True)
        subprocess.run(
            [bzna, "extract", archive,
             str(i), "-o", "%s.new/%d/%03d.jpg" % (folder, i * 8 // count, i)], check=True, stdout=subprocess.DEVNULL)
    os.rename(folder + ".new", folder)


def pictures_of(build, bzna):
    """The folder that PICTURES names, or one that is made."""
    pictures = os.environ.get("PICTURES") or build + "/peers/pictures"
    if not os.path.isdir(pictures):
        if os.environ.get("PICTURES"):
            sys.exit("PICTURES=%s: no such folder" % pictures)
        make_pictures(pictures, bzna)
    return os.path.abspath(pictures)


def listed(pictures):
    """(path, class number) of each picture, in ImageFolder's order."""
    classes = sorted(e.name for e in os.scandir(pictures) if e.is_dir())
    found = [(os.path.join(pictures, c, name), k) for k, c in enumerate(classes)
             for name in sorted(os.listdir(os.path.join(pictures, c))) if name.lower().endswith((".jpg", ".jpeg"))]
    if not found:
        sys.exit("bench_peers.py: %s has no class folders of JPEG files" % pictures)
    return found


def make_tars(files, out, shards=4):
    for shard in range(shards):
        with tarfile.open("%s/%d.tar" % (out, shard), "w") as tar:
            for i in range(shard, len(files), shards):
                path, target = files[i]
                with open(path, "rb") as file:
                    members = (("jpg", file.read()), ("cls", b"%d" % target))
                for extension, data in members:
                    info = tarfile.TarInfo("%06d.%s" % (i, extension))
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))


def make_rec(files, out):
    """RecordIO as MXNet's im2rec writes it, but for data that hold its magic number (in parts: left out)."""
    with open(out + "/all.rec", "wb") as rec, open(out + "/all.idx", "w") as idx:
        for i, (path, target) in enumerate(files * REPEATS):
            with open(path, "rb") as file:
                data = struct.pack("<IfQQ", 0, target, i, 0) + file.read()
            if struct.pack("<I", 0xCED7230A) in data:
                continue
            idx.write("%d\t%d\n" % (i, rec.tell()))
            rec.write(struct.pack("<II", 0xCED7230A, len(data)) + data + bytes(-len(data) % 4))


def prepare(pictures, out, bzna, peers):
    """Files that are there already, made of the same pictures, stay."""
    files, stamp = listed(pictures), out + "/pictures.txt"
    text = "".join("%s %d %d\n" % (path, os.path.getsize(path), target) for path, target in files)
    is_same = os.path.exists(stamp) and open(stamp).read() == text
    if not is_same:
        for name in os.listdir(out):
            if name.endswith((".bzna", ".beton")):
                os.remove(os.path.join(out, name))
        make_tars(files, out)
        make_rec(files, out)
        with open(stamp, "w") as file:
            file.write(text)
    for codec, name in (("copy", "jpeg"), ("h265", "h265"), ("h264", "h264"), ("av1", "av1")):
        if "benzina " + name in peers and not os.path.exists("%s/%s.bzna" % (out, name)):
            packed = subprocess.run(
                [bzna, "pack", pictures, "-o",
                 "%s/%s.bzna" % (out, name), "--codec", codec, "--overwrite"], stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE, text=True)
            if packed.returncode:
                print("bzna pack --codec %s: %s" % (codec, packed.stderr.strip().splitlines()[-1]))
    return files


# ---- the peers: each yields how many pictures a batch has, for ever -------------------------------------------------


def benzina_batches(data, threads, antialias):
    os.environ.setdefault("BENZINA_LIBRARY", os.path.abspath("build/libbenzina.so"))
    sys.path.insert(0, "examples/python")
    import benzina

    is_archive = isinstance(data, str) and data.endswith(".bzna")
    loader = benzina.DataLoader(data, shape=(SIZE, SIZE), batch_size=BATCH, shuffle=True, seed=1, drop_last=True,
                                mean=MEAN, std=STD, num_threads=threads,
                                warp=benzina.ops.RandomResizedCrop(flip_h=0.5),
                                track="image" if is_archive else None, output="field", antialias=antialias)
    while True:
        for images, _ in loader:
            yield images.shape[0]


def torch_batches(dataset, threads, torch):
    """Batches of a torch dataset; a map-style one is drawn from at random without end."""
    sampler = None
    if not isinstance(dataset, torch.utils.data.IterableDataset):
        sampler = torch.utils.data.RandomSampler(dataset, replacement=True, num_samples=1 << 24)
    loader = torch.utils.data.DataLoader(dataset, batch_size=BATCH, sampler=sampler, num_workers=threads,
                                         drop_last=True, persistent_workers=True)
    for images, _ in loader:
        assert images.shape == (BATCH, 3, SIZE, SIZE) and images.dtype == torch.float32
        yield BATCH


def tensor_transform(antialias):
    from torchvision.transforms import v2
    import torch

    return v2.Compose([
        v2.RandomResizedCrop(SIZE, antialias=antialias),
        v2.RandomHorizontalFlip(),
        v2.ToDtype(torch.float32),
        v2.Normalize(MEAN, STD)
    ])


def torchvision_pil(data, threads, antialias):
    if not antialias:
        raise NotImplementedError("PIL's filters always antialias")
    import torch
    import torchvision
    from torchvision import transforms

    transform = transforms.Compose([
        transforms.RandomResizedCrop(SIZE),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize([m / 255 for m in MEAN], [s / 255 for s in STD])
    ])
    return torch_batches(torchvision.datasets.ImageFolder(data, transform), threads, torch)


def torchvision_io(data, threads, antialias):
    import torch
    import torchvision
    from torchvision.io import ImageReadMode, decode_image, read_file

    def load(path):
        return decode_image(read_file(path), ImageReadMode.RGB)

    return torch_batches(torchvision.datasets.ImageFolder(data, tensor_transform(antialias), loader=load), threads,
                         torch)


def webdataset(data, threads, antialias):
    import torch
    import webdataset as wds
    from torchvision.io import ImageReadMode, decode_image

    transform = tensor_transform(antialias)

    def sample(s):
        return transform(decode_image(torch.frombuffer(bytearray(s["jpg"]), dtype=torch.uint8),
                                      ImageReadMode.RGB)), int(s["cls"])

    dataset = (wds.WebDataset(data, resampled=True, shardshuffle=False,
                              nodesplitter=wds.split_by_node).shuffle(256).map(sample))
    return torch_batches(dataset, threads, torch)


def dali(data, threads, antialias):
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=BATCH, num_threads=threads, device_id=None, seed=1)
    def pipeline():
        encoded, labels = fn.readers.file(file_root=data, random_shuffle=True, pad_last_batch=True, name="reader")
        images = fn.decoders.image_random_crop(encoded, device="cpu", output_type=types.RGB, random_area=[0.08, 1.0],
                                               random_aspect_ratio=[3 / 4, 4 / 3], num_attempts=10)
        images = fn.resize(images, resize_x=SIZE, resize_y=SIZE, interp_type=types.INTERP_LINEAR, antialias=antialias)
        images = fn.crop_mirror_normalize(images, dtype=types.FLOAT, output_layout="CHW", mean=MEAN, std=STD,
                                          mirror=fn.random.coin_flip())
        return images, labels

    def batches():
        pipe = pipeline()
        pipe.build()
        while True:
            images, _ = pipe.run()
            assert images.as_tensor().shape() == [BATCH, 3, SIZE, SIZE]
            yield BATCH

    return batches()


def ffcv(data, threads, antialias):
    if antialias:
        raise NotImplementedError("FFCV's crops do not antialias")
    import ffcv
    import numpy
    from ffcv import loader as ffcv_loader, transforms
    from ffcv.fields import IntField, RGBImageField
    from ffcv.fields.rgb_image import RandomResizedCropRGBImageDecoder
    from ffcv.writer import DatasetWriter
    import torchvision

    beton = (os.environ.get("BUILD") or "build") + "/peers/all.beton"
    if not os.path.exists(beton):
        fields = {"image": RGBImageField(write_mode="jpg", max_resolution=16384), "label": IntField()}
        DatasetWriter(beton + ".partial", fields, num_workers=1).from_indexed_dataset(
            torchvision.datasets.ImageFolder(data))
        os.replace(beton + ".partial", beton)
    pipeline = [
        RandomResizedCropRGBImageDecoder((SIZE, SIZE)),
        transforms.RandomHorizontalFlip(),
        transforms.NormalizeImage(numpy.array(MEAN), numpy.array(STD), numpy.float32),
        transforms.ToTensor(),
        transforms.ToTorchImage()
    ]
    loader = ffcv_loader.Loader(beton, batch_size=BATCH, num_workers=threads, order=ffcv_loader.OrderOption.RANDOM,
                                indices=list(range(len(listed(data)))) * REPEATS, drop_last=True, os_cache=True,
                                pipelines={"image": pipeline})

    def batches():
        while True:
            for images, _ in loader:
                yield images.shape[0]

    return batches()


def mxnet(data, threads, antialias):
    if antialias:
        raise NotImplementedError("OpenCV's linear filter does not antialias")
    import mxnet as mx

    settings = {"mean_%s" % c: m for c, m in zip("rgb", MEAN)}
    settings.update({"std_%s" % c: v for c, v in zip("rgb", STD)})

    def batches():
        source = mx.io.ImageRecordIter(path_imgrec=data + ".rec", path_imgidx=data + ".idx",
                                       data_shape=(3, SIZE, SIZE), batch_size=BATCH, shuffle=True,
                                       preprocess_threads=threads, random_resized_crop=True, min_random_area=0.08,
                                       max_random_area=1.0, min_aspect_ratio=3 / 4, max_aspect_ratio=4 / 3,
                                       rand_mirror=True, inter_method=1, verbose=False, **settings)
        while True:
            source.reset()
            for batch in source:
                batch.data[0].wait_to_read()
                yield BATCH

    return batches()


def benzina_records(data, threads, antialias):
    sys.path.insert(0, "examples/python")
    import benzina

    loader = benzina.DataLoader(benzina.cifar(data), shape=(32, 32), batch_size=512, shuffle=True, seed=1,
                                drop_last=True, mean=MEAN, std=STD, num_threads=threads,
                                warp=benzina.ops.MXNetAffine(pad=2, rand_crop=True, rand_mirror=True))
    while True:
        for images, _ in loader:
            yield images.shape[0]


def torch_vectorized(data, threads, antialias):
    import torch

    torch.set_num_threads(threads)
    with open(data, "rb") as file:
        records = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).view(-1, 3073)
    padded = torch.nn.functional.pad(records[:, 1:].reshape(-1, 3, 32, 32), (2, 2, 2, 2)).reshape(-1, 3, 36 * 36)
    mean, std = torch.tensor(MEAN).view(1, 3, 1, 1), torch.tensor(STD).view(1, 3, 1, 1)
    columns = torch.arange(32).view(1, 32)
    while True:
        order = torch.randperm(len(padded))
        for first in range(0, len(padded) - 511, 512):
            x, y = torch.randint(0, 5, (512, 1)) + columns, torch.randint(0, 5, (512, 1)) + columns
            x = torch.where(torch.rand(512, 1) < 0.5, x.flip(1), x)
            at = (36 * y.view(512, 32, 1) + x.view(512, 1, 32)).view(512, 1, 1024).expand(512, 3, 1024)
            pictures = torch.gather(padded[order[first:first + 512]], 2, at).view(512, 3, 32, 32)
            yield ((pictures.float() - mean) / std).shape[0]


def make_records(path, count=50000):
    if os.path.exists(path):
        return
    noise = random.Random(1)
    with open(path + ".partial", "wb") as file:
        for i in range(count):
            file.write(bytes([i % 10]) + noise.randbytes(3072))
    os.replace(path + ".partial", path)


IS_CIFAR = os.environ.get("SET") == "cifar"
PEERS = {  # the same of CIFAR's records
    "benzina": (benzina_records, "cifar.bin", "ctypes"),
    "torch": (torch_vectorized, "cifar.bin", "torch"),
} if IS_CIFAR else {  # what runs it, what it reads, what must be importable
    "benzina folder": (benzina_batches, "PICTURES", "ctypes"),
    "benzina tar": (benzina_batches, "{0..3}.tar", "ctypes"),
    "benzina jpeg": (benzina_batches, "jpeg.bzna", "ctypes"),
    "benzina h264": (benzina_batches, "h264.bzna", "ctypes"),
    "benzina h265": (benzina_batches, "h265.bzna", "ctypes"),
    "benzina av1": (benzina_batches, "av1.bzna", "ctypes"),
    "torchvision PIL": (torchvision_pil, "PICTURES", "torchvision"),
    "torchvision io": (torchvision_io, "PICTURES", "torchvision"),
    "WebDataset": (webdataset, "{0..3}.tar", "webdataset, torchvision"),
    "DALI": (dali, "PICTURES", "nvidia.dali"),
    "FFCV": (ffcv, "PICTURES", "ffcv"),
    "MXNet": (mxnet, "all", "mxnet"),
}

# ---- measuring ------------------------------------------------------------------------------------------------------


def processes():
    """This process and those below it."""
    parents = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % pid) as file:
                parents[int(pid)] = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = {os.getpid()}
    while True:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        if not more:
            return found
        found |= more


def cpu_seconds():
    ticks = 0
    for pid in processes():
        try:
            with open("/proc/%d/stat" % pid) as file:
                ticks += sum(map(int, file.read().rpartition(")")[2].split()[11:13]))
        except OSError:
            continue
    return ticks / os.sysconf("SC_CLK_TCK")


def measure(peer, data, threads, antialias, seconds):
    """In a process of its own: rate and CPU time of one peer, or why it does not run."""
    run, where, _ = PEERS[peer]
    batches = run(data[0] if where == "PICTURES" else os.path.join(data[1], where), threads, antialias)
    begin = time.perf_counter()
    while time.perf_counter() - begin < 1:
        next(batches)
    begin, cpu, count = time.perf_counter(), cpu_seconds(), 0
    while time.perf_counter() - begin < seconds:
        count += next(batches)
    elapsed = time.perf_counter() - begin
    return {"rate": count / elapsed, "cpu_ms": 1000 * (cpu_seconds() - cpu) / count}


def reason_of(error):
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) < 200 else text[:200] + "..."


def run_one(arguments):
    peer, pictures, out, threads, antialias, seconds = arguments
    try:
        result = measure(peer, (pictures, out), int(threads), antialias == "1", float(seconds))
    except Exception as error:  # whatever a peer fails with is its result
        result = {"reason": reason_of(error)}
    print("\nRESULT " + json.dumps(result), flush=True)
    for pid in processes() - {os.getpid()}:  # workers, and threads below: nothing of them is needed any more
        os.kill(pid, signal.SIGKILL)
    os._exit(0)


def spawn(python, peer, *arguments):
    environment = dict(os.environ, CUDA_VISIBLE_DEVICES="", PYTHONWARNINGS="ignore")
    try:
        done = subprocess.run([python, __file__, "--one", peer, *map(str, arguments)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=600, env=environment)
    except subprocess.TimeoutExpired:
        return {"reason": "no result within ten minutes"}
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            return json.loads(line[7:])
    return {"reason": (done.stderr.strip().splitlines() or ["it ended with status %d" % done.returncode])[-1]}


def interpreters(pythons, peers):
    """{peer: the interpreter that has it}, and {peer: why none has}."""
    found, absent = {}, {}
    for peer in peers:
        for python in pythons:
            modules = PEERS[peer][2]
            tried = subprocess.run([python, "-W", "ignore", "-c", "import " + modules], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)
            if not tried.returncode:
                found[peer] = python
                break
            lines = tried.stderr.strip().splitlines()
            if peer not in absent or "No module named" not in lines[-1]:
                absent[peer] = lines[-1] if lines else "import failed"
    return found, {peer: why for peer, why in absent.items() if peer not in found}


def versions(found):
    script = ("import importlib.metadata as m, sys\n"
              "for n in sys.argv[1:]:\n try: print(n, m.version(n))\n except Exception: pass")
    names = ("torch", "torchvision", "pillow", "webdataset", "nvidia-dali-cuda130", "ffcv", "mxnet", "numpy")
    text = set()
    for python in set(found.values()):
        text.update(
            subprocess.run([python, "-c", script, *names], stdout=subprocess.PIPE, text=True).stdout.splitlines())
    return sorted(text)


# ---- the chart ------------------------------------------------------------------------------------------------------

def small_svg(path):
    """Without what nobody sees of matplotlib's: a third of the bytes."""
    with open(path) as file:
        text = file.read()
    for pattern, instead in ((r"<metadata>.*?</metadata>|<!--.*?-->| clip-path=\"[^\"]*\"|<clipPath.*?</clipPath>", ""),
                             (r"<g id=\"(?:patch|text|xtick|ytick)_\d+\">", "<g>"), (r"(\d\.\d)\d+", r"\1"),
                             (r"font-family: [^\"]*'DejaVu Sans'[^;\"]*", "font-family: sans-serif"),
                             (r"\s+", " "), (r"> <", "><")):
        text = re.sub(pattern, instead, text, flags=re.S)
    with open(path, "w") as file:
        file.write(text + "\n")


def draw_chart(json_path, folder):
    """A panel for each filter; a bar for each peer and number of threads, this library's in blue."""
    import matplotlib
    matplotlib.use("agg")
    matplotlib.rcParams.update({"svg.hashsalt": "peers", "svg.fonttype": "none", "font.size": 9})
    import matplotlib.pyplot as plt
    with open(json_path) as file:
        told = json.load(file)
    medians, threads = told["medians"], told["threads"]
    panels = [mode for mode in ("off", "on") if any(key.startswith(mode + " ") for key in medians)]
    figure, axes = plt.subplots(1, len(panels), figsize=(5 * len(panels), 3.8), squeeze=False)
    for axis, mode in zip(axes[0], panels):

        def rate(peer, count):
            return medians.get("%s %d %s" % (mode, count, peer), {"rate": 0})["rate"]

        names = sorted((peer for peer in told["peers"] if rate(peer, threads[-1])), key=lambda n: rate(n, threads[-1]))
        for k, count in enumerate(threads):
            bars = axis.barh([i + 0.4 * k for i in range(len(names))], [rate(n, count) for n in names], 0.38,
                             color=["#1f77b4" if n.startswith("benzina") else "#999999" for n in names],
                             alpha=1 if count == threads[-1] else 0.55)
            axis.bar_label(bars, fmt="%.0f", padding=2, fontsize=7)
        axis.set_yticks([i + 0.2 * (len(threads) - 1) for i in range(len(names))], names)
        axis.set_xlabel("pictures/s with " + " (light) and ".join(map(str, threads)) + " threads")
        axis.set_xticks([])                                   # each bar has its number
        axis.set_title("antialias " + mode)
        axis.margins(x=0.12)
        axis.spines[["top", "right", "bottom"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(folder + "/peers.svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    small_svg(folder + "/peers.svg")
    figure.savefig(folder + "/peers.png", dpi=110, metadata={"Software": None})


def draw(pythons, folder):
    for python in pythons:
        drawn = subprocess.run([python, __file__, "--chart", folder + "/peers.json", folder],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if not drawn.returncode:
            print("%s/peers.svg, peers.png, peers.json" % folder)
            return
    print("no chart: %s; %s/peers.json has the figures" % (drawn.stderr.strip().splitlines()[-1], folder))


def machine():
    with open("/proc/cpuinfo") as file:
        model = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return "%d processors, %s" % (os.cpu_count(), model[0] if model else platform.machine())


def table(results, peers, threads):
    medians = {}
    for key, runs in results.items():
        good = [r for r in runs if "rate" in r]
        if good:
            medians[key] = {
                "rate": statistics.median(r["rate"] for r in good), "cpu_ms":
                statistics.median(r["cpu_ms"] for r in good), "runs": len(good)
            }
    for mode in ("off", "on"):
        print("\nantialias %s: pictures/s with %s threads (CPU ms a picture)" %
              (mode, " and ".join(map(str, threads))))
        for peer in peers:
            cells = [medians.get("%s %d %s" % (mode, t, peer)) for t in threads]
            if any(cells):
                print("  %-16s %s" % (peer, "  ".join("%7.0f (%6.4f)" %
                                                      (c["rate"], c["cpu_ms"]) if c else "      -        "
                                                      for c in cells)))
            else:
                why = [
                    r["reason"] for t in threads for r in results.get("%s %d %s" % (mode, t, peer), [])
                    if "reason" in r
                ]
                if why:
                    print("  %-16s %s" % (peer, why[0]))
    return medians


def main():
    if sys.argv[1:2] == ["--one"]:
        return run_one(sys.argv[2:])
    if sys.argv[1:2] == ["--chart"]:
        return draw_chart(*sys.argv[2:])
    build = os.environ.get("BUILD") or "build"
    os.environ.setdefault("BENZINA_LIBRARY", os.path.abspath(build + "/libbenzina.so"))
    out, bzna = build + "/peers", build + "/bzna"
    chart = os.environ.get("CHART") or out
    pythons = (os.environ.get("PYTHONS") or sys.executable).split(":")
    seconds, rounds = float(os.environ.get("DURATION") or 3), int(os.environ.get("ROUNDS") or 3)
    threads = [int(t) for t in (os.environ.get("THREADS") or "1,2").split(",")]
    words = (os.environ.get("PEERS") or "").lower().split(",")
    peers = [p for p in PEERS if any(word in p.lower() for word in words)]
    os.makedirs(out, exist_ok=True)
    if IS_CIFAR:
        pictures, files = out, []
        make_records(out + "/cifar.bin")
    else:
        pictures = pictures_of(build, bzna)
        files = prepare(pictures, out, bzna, peers)
    found, absent = interpreters(pythons, peers)
    for peer, why in absent.items():
        print("absent: %s: %s" % (peer, why))
    results, order = {}, [p for p in peers if p in found]
    for round_number in range(rounds):
        for mode in ("off",) if IS_CIFAR else ("off", "on"):
            for t in threads:
                for peer in random.Random(round_number).sample(order, len(order)):
                    key = "%s %d %s" % (mode, t, peer)
                    if results.get(key) and "reason" in results[key][-1]:
                        continue
                    result = spawn(found[peer], peer, pictures, out, t, int(mode == "on"), seconds)
                    results.setdefault(key, []).append(result)
                    print(
                        "%d %-24s %s" %
                        (round_number + 1, key,
                         ("%7.0f/s %7.4f ms" %
                          (result["rate"], result["cpu_ms"]) if "rate" in result else result["reason"])), flush=True)
    medians = table(results, order, threads)
    if IS_CIFAR:
        return
    os.makedirs(chart, exist_ok=True)
    with open(chart + "/peers.json", "w") as file:
        json.dump(
            {
                "date": time.strftime("%Y-%m-%d"), "machine": machine(), "pictures": len(files), "bytes": sum(
                    os.path.getsize(f) for f, _ in files), "batch": BATCH, "size": SIZE, "seconds": seconds, "rounds":
                rounds, "threads": threads, "peers": order, "absent": absent, "versions": versions(found), "medians":
                medians, "runs": results
            }, file, indent=1)
        file.write("\n")
    draw(pythons, chart)


if __name__ == "__main__":
    main()
