#!/usr/bin/env python3
"""bench_peers.py - this library and its peers on the same pictures

    make bench-peers [SET=photographs|recipe|28|32|64|224|500x375|progressive|1600x1200|12mpx] [PICTURES=DIR]
                     [PEERS=a,b] [THREADS=2] [DURATION=2] [ROUNDS=3] [PYTHONS=a:b:c] [CHART=DIR]

Without SET all sets run, one after the other; each writes its figures to build/peers/peers.json beside those of the
other sets. A set's peers all get the same files, and make the same of them. Each runs in a process of its own, with
THREADS threads (or worker processes) that decode and crop, and as much prefetching as it has by default; several
numbers of threads may be given (1,2). It is warmed up for a second and until two batches have come, then counted for
DURATION seconds. All take turns, ROUNDS times, in another order each time; medians count.

Sets of pictures are JPEG files, shuffled: float32 batches [64, 3, 224, 224] (of 64x64: [512, 3, 64, 64]) in the host's
memory, torchvision's random resized crop (area 8 to 100 %, ratio 3/4 to 4/3), a flip with probability 1/2, a linear
filter, normalized. They are larger than the caches of processors: 64 MB of JPEG or more.

  photographs   the files of PICTURES, a folder of class folders of JPEG, as often as they make 64 MB; without
                PICTURES, noise with photographs' statistics. With and without antialiasing
  recipe        the same files; after crop and flip torchvision's RandAugment(2, 9) with bilinear interpolation, and its
                RandomErasing with a probability of 0.25. "benzina crop" has neither of the two. With antialiasing
  64, 224, 500x375, 1600x1200, 12mpx (4000x3000), progressive (500x375)
                made of those: small ones are scaled down, large ones are several side by side. With antialiasing;
                peers that have none run without, compared with this library without
  28, 32        records of MNIST's and CIFAR-10's form, of noise, batches of 512: padded by 2, cropped, (32: flipped),
                normalized

  benzina       the folder; of photographs tars, too, and archives made by `bzna pack`: JPEG (--codec copy), H.265,
                H.264, AV1 (defaults), H.264 with --tune-decode; without thumbnails. Their bytes and PSNR are kept, too.
                Of records: the file, which is read sample by sample, and the same as an io.BytesIO. num_threads.
                "shrink", of large pictures: jpeg_shrink with a margin of 1, so that libjpeg-turbo scales down while it
                decodes
  libjpeg-turbo decoding alone, to planes of Y'CbCr, of whole files in memory (bench_jpeg.c)
  torchvision   ImageFolder and DataLoader with num_workers, persistent. "PIL": its defaults, which always antialias;
                "io": decoded by torchvision.io and cropped as tensors, which can do both
  WebDataset    four tar shards, the same transforms as torchvision io, DataLoader with num_workers
  DALI          readers.file, decoders.image_random_crop (which decodes only the crop), resize, crop_mirror_normalize on
                the CPU. "DALI experimental": experimental.decoders, which newer versions have made the same.
                num_threads
  FFCV          a .beton, whose writer encodes pixels as JPEG again (quality 90), or has them raw,
                RandomResizedCropRGBImageDecoder (no antialiasing); of records: raw. num_workers
  MXNet         ImageRecordIter over a .rec of the same JPEG bytes, OpenCV's linear filter (no antialiasing).
                preprocess_threads
  torch         of records, vectorized: the set is padded once, in memory; a batch is an index, a gather and a
                normalization

FFCV and MXNet start anew when an epoch ends, so their epochs have all pictures several times.

A peer that is not installed, or does not run, is named with its reason. PYTHONS: interpreters; each peer runs in the
first that has it, and pictures are made in the first that has numpy and PIL. CPU time is of the process and its
workers, from /proc. The last lines are the ratios to each peer and to libjpeg-turbo, round by round. peers.svg
and peers.png (by matplotlib, if one of PYTHONS has it) go to CHART, build/peers by default; the chart has every set
that is in peers.json, where this library is ahead and where it is not:

    tests/bench/bench_peers.py --chart build/peers/peers.json DIR"""
import io
import json
import os
import platform
import random
import re
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tarfile
import time

SET_BYTES = 64 << 20  # of JPEG at least, more than caches hold
SETS = {  # name: edge of the output, batch, how many pictures there are at least
    "photographs": (224, 64, 1),
    "recipe": (224, 64, 1),
    "28": (28, 512, 60000),
    "32": (32, 512, 50000),
    "64": (64, 512, 1024),
    "224": (224, 64, 256),
    "500x375": (224, 64, 256),
    "progressive": (224, 64, 256),
    "1600x1200": (224, 64, 64),
    "12mpx": (224, 16, 16),
}
SET = os.environ.get("SET") or "photographs"
if SET not in SETS:
    sys.exit("SET=%s: there are %s" % (SET, ", ".join(SETS)))
CODECS = {"jpeg": "copy", "h265": "h265", "h264": "h264", "h264 tuned": "h264 --tune-decode", "av1": "av1"}
IS_RECORDS, IS_RECIPE = SET in ("28", "32"), SET == "recipe"
SIZE, BATCH, COUNT = SETS[SET]
EPOCH = 1 << 15  # pictures, about, where an epoch's end stops the pipeline
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


def noise_pictures():
    """Photographs' stand-ins, where PICTURES is not given."""
    import numpy
    from PIL import Image

    return [Image.fromarray(photograph(numpy, 1024, 768, seed)) for seed in range(16)]


def scaled(picture, width, height, rng):
    """A picture somewhat larger than crops of it are to be."""
    from PIL import Image

    scale = max(width / picture.width, height / picture.height) * rng.uniform(1, 1.3)
    return picture.resize((max(width, round(picture.width * scale)), max(height, round(picture.height * scale))),
                          Image.BICUBIC)


def crop(picture, width, height, rng):
    x, y = rng.randint(0, picture.width - width), rng.randint(0, picture.height - height)
    return picture.crop((x, y, x + width, y + height))


def large(sources, width, height, rng):
    """As many pictures side by side as are needed."""
    from PIL import Image

    canvas, y = Image.new("RGB", (width, height)), 0
    while y < height:
        x, row = 0, height
        while x < width:
            picture = rng.choice(sources)
            if rng.random() < 0.5:
                picture = picture.transpose(Image.FLIP_LEFT_RIGHT)
            canvas.paste(picture, (x, y))
            x, row = x + picture.width, min(row, picture.height)
        y += row
    return canvas


def make_set(pictures, folder):
    """In an interpreter that has numpy and PIL: the JPEG files of SET, in 8 class folders."""
    from PIL import Image

    sources = [Image.open(path).convert("RGB") for path, _ in listed(pictures)] if pictures else noise_pictures()
    sources = [p for p in sources if min(p.size) >= 200] or sources
    edges = {"12mpx": (4000, 3000), "progressive": (500, 375), "64": (64, 64), "224": (224, 224)}.get(SET)
    width, height = edges or (map(int, SET.split("x")) if "x" in SET else (500, 375))
    rng, count, total = random.Random(1), 0, 0
    if width < 1000:
        sources = [scaled(picture, width, height, rng) for picture in sources for _ in range(2)]
    while count < COUNT or total < SET_BYTES:
        picture = (large(sources, width, height, rng) if width > 1000 else
                   crop(sources[count % len(sources)], width, height, rng))
        path = "%s.new/%d/%06d.jpg" % (folder, count % 8, count)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        picture.save(path, quality=90, subsampling="4:2:0", progressive=SET == "progressive")
        count, total = count + 1, total + os.path.getsize(path)
    os.rename(folder + ".new", folder)


def repeat_pictures(pictures, folder):
    """Copies of the files of a folder, as often as they make a set."""
    files = listed(pictures)
    total = sum(os.path.getsize(path) for path, _ in files)
    for repeat in range(max(1, -(-SET_BYTES // total))):
        for path, target in files:
            copy = "%s.new/%03d/%03d_%s" % (folder, target, repeat, os.path.basename(path))
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            with open(path, "rb") as source, open(copy, "wb") as file:
                file.write(source.read())
    os.rename(folder + ".new", folder)


def pictures_of(out, pythons):
    """The folder of SET's pictures, which is made once for each PICTURES."""
    pictures, folder = os.environ.get("PICTURES") or "", out + "/pictures"
    if pictures and not os.path.isdir(pictures):
        sys.exit("PICTURES=%s: no such folder" % pictures)
    stamp = out + "/made_of.txt"
    if os.path.isdir(folder) and open(stamp).read() == pictures:
        return os.path.abspath(folder)
    for old in (folder, folder + ".new"):
        shutil.rmtree(old, ignore_errors=True)
    if pictures and SET in ("photographs", "recipe"):
        repeat_pictures(pictures, folder)
    else:
        for python in pythons:
            made = subprocess.run([python, __file__, "--make", pictures, folder], stderr=subprocess.PIPE, text=True)
            if not made.returncode:
                break
        else:
            sys.exit("pictures are made with numpy and PIL: %s" % made.stderr.strip().splitlines()[-1])
    with open(stamp, "w") as file:
        file.write(pictures)
    return os.path.abspath(folder)


def listed(pictures):
    """(path, class number) of each picture, in ImageFolder's order."""
    classes = sorted(e.name for e in os.scandir(pictures) if e.is_dir())
    found = [(os.path.join(pictures, c, name), k) for k, c in enumerate(classes)
             for name in sorted(os.listdir(os.path.join(pictures, c))) if name.lower().endswith((".jpg", ".jpeg"))]
    if not found:
        sys.exit("bench_peers.py: %s has no class folders of JPEG files" % pictures)
    return found


def repeats(files):
    return -(-EPOCH // len(files))


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
        for i, (path, target) in enumerate(files * repeats(files)):
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
            if name.endswith((".bzna", ".beton", ".tar", ".rec")):
                os.remove(os.path.join(out, name))
        with open(stamp, "w") as file:
            file.write(text)
    if not os.path.exists(out + "/3.tar") and {"WebDataset", "benzina tar"} & set(peers):
        make_tars(files, out)
    if not os.path.exists(out + "/all.rec") and "MXNet" in peers:
        make_rec(files, out)
    for name, codec in CODECS.items():
        archive = "%s/%s.bzna" % (out, name)
        if "benzina " + name in peers and not os.path.exists(archive):
            source = os.environ.get("PICTURES") or pictures
            packed = subprocess.run(
                [bzna, "pack", source if codec != "copy" else pictures, "-o", archive, "--codec", *codec.split(),
                 *([] if codec == "copy" else ["--thumb", "none"]), "--overwrite", "--report", archive + ".json"],
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            if packed.returncode:
                print("bzna pack --codec %s: %s" % (codec, packed.stderr.strip().splitlines()[-1]))
    return files


def packed_sizes(out):
    """Bytes a picture, and the mean PSNR, of each archive that was packed."""
    sizes = {}
    for name in CODECS:
        if os.path.exists("%s/%s.bzna.json" % (out, name)):
            with open("%s/%s.bzna.json" % (out, name)) as file:
                told = json.load(file)
            sizes["benzina " + name] = {"bytes": told["bytes"] / told["samples"], "psnr": told["psnr"].get("mean")}
    return sizes


# ---- the peers: each yields how many pictures a batch has, for ever -------------------------------------------------


def benzina_batches(data, threads, antialias, **settings):
    os.environ.setdefault("BENZINA_LIBRARY", os.path.abspath("build/libbenzina.so"))
    sys.path.insert(0, "examples/python")
    import benzina

    is_archive = isinstance(data, str) and data.endswith(".bzna")
    loader = benzina.DataLoader(data, shape=(SIZE, SIZE), batch_size=BATCH, shuffle=True, seed=1, drop_last=True,
                                mean=MEAN, std=STD, num_threads=threads,
                                warp=benzina.ops.RandomResizedCrop(flip_h=0.5),
                                track="image" if is_archive else None, output="field", antialias=antialias, **settings)
    while True:
        for images, _ in loader:
            yield images.shape[0]


def benzina_shrink(data, threads, antialias):
    return benzina_batches(data, threads, antialias, jpeg_shrink=True, jpeg_shrink_margin=1)


def benzina_recipe(data, threads, antialias):
    sys.path.insert(0, "examples/python")
    from benzina import ops

    return benzina_batches(data, threads, antialias, augment=[ops.RandAugment(2, 9), ops.RandomErasing(0.25)])


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

    augment = [v2.RandAugment(2, 9, interpolation=v2.InterpolationMode.BILINEAR)] if IS_RECIPE else []
    erase = [v2.RandomErasing(0.25)] if IS_RECIPE else []
    return v2.Compose([
        v2.RandomResizedCrop(SIZE, antialias=antialias),
        v2.RandomHorizontalFlip(), *augment,
        v2.ToDtype(torch.float32),
        v2.Normalize(MEAN, STD), *erase
    ])


def torchvision_pil(data, threads, antialias):
    if not antialias:
        raise NotImplementedError("PIL's filters always antialias")
    import torch
    import torchvision
    from torchvision import transforms

    augment = [transforms.RandAugment(2, 9, interpolation=transforms.InterpolationMode.BILINEAR)] if IS_RECIPE else []
    erase = [transforms.RandomErasing(0.25)] if IS_RECIPE else []
    transform = transforms.Compose([
        transforms.RandomResizedCrop(SIZE),
        transforms.RandomHorizontalFlip(), *augment,
        transforms.ToTensor(),
        transforms.Normalize([m / 255 for m in MEAN], [s / 255 for s in STD]), *erase
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


def dali_recipe(fn, images):
    """RandAugment and erasing, drawn as by torchvision, without its ten attempts."""
    from nvidia.dali import math, types
    from nvidia.dali.auto_aug import rand_augment

    images = rand_augment.rand_augment(images, n=2, m=9, shape=(SIZE, SIZE), fill_value=0)
    area, ratio = fn.random.uniform(range=[0.02, 0.33]), fn.random.uniform(range=[-1.2, 1.2])    # of exp: 0.3 to 3.3
    height, width = math.min((area * math.exp(ratio)) ** 0.5, 1.0), math.min((area * math.exp(-ratio)) ** 0.5, 1.0)
    top, left = fn.random.uniform(range=[0.0, 1.0]) * (1 - height), fn.random.uniform(range=[0.0, 1.0]) * (1 - width)
    if fn.random.coin_flip(probability=0.25, dtype=types.BOOL):
        images = fn.erase(images, anchor=fn.stack(top, left), shape=fn.stack(height, width), axis_names="HW",
                          normalized=True, fill_value=MEAN)
    return images


def dali(data, threads, antialias, module="decoders"):
    from nvidia.dali import fn, pipeline_def, types

    decoders = fn.experimental.decoders if module == "experimental" else fn.decoders

    @pipeline_def(batch_size=BATCH, num_threads=threads, device_id=None, seed=1, enable_conditionals=IS_RECIPE)
    def pipeline():
        encoded, labels = fn.readers.file(file_root=data, random_shuffle=True, pad_last_batch=True, name="reader")
        images = decoders.image_random_crop(encoded, device="cpu", output_type=types.RGB, random_area=[0.08, 1.0],
                                            random_aspect_ratio=[3 / 4, 4 / 3], num_attempts=10)
        images = fn.resize(images, resize_x=SIZE, resize_y=SIZE, interp_type=types.INTERP_LINEAR, antialias=antialias)
        flips = fn.random.coin_flip()
        if IS_RECIPE:
            images = dali_recipe(fn, fn.flip(images, horizontal=flips))
        images = fn.crop_mirror_normalize(images, dtype=types.FLOAT, output_layout="CHW", mean=MEAN, std=STD,
                                          mirror=0 if IS_RECIPE else flips)
        return images, labels

    def batches():
        pipe = pipeline()
        pipe.build()
        while True:
            images, _ = pipe.run()
            assert images.as_tensor().shape() == [BATCH, 3, SIZE, SIZE]
            yield BATCH

    return batches()


def dali_experimental(data, threads, antialias):
    import nvidia.dali

    if int(nvidia.dali.__version__.partition(".")[0]) >= 2:
        raise NotImplementedError("since DALI 2 they are its decoders")
    return dali(data, threads, antialias, "experimental")


def ffcv(data, threads, antialias, write_mode="jpg"):
    if antialias:
        raise NotImplementedError("FFCV's crops do not antialias")
    import ffcv
    import numpy
    from ffcv import loader as ffcv_loader, transforms
    from ffcv.fields import IntField, RGBImageField
    from ffcv.fields.rgb_image import RandomResizedCropRGBImageDecoder
    from ffcv.writer import DatasetWriter
    import torchvision

    beton = "%s/%s.beton" % (os.path.dirname(data), write_mode)
    if not os.path.exists(beton):
        fields = {"image": RGBImageField(write_mode=write_mode, max_resolution=16384), "label": IntField()}
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
                                indices=list(range(len(listed(data)))) * repeats(listed(data)), drop_last=True,
                                os_cache=True, pipelines={"image": pipeline})

    def batches():
        while True:
            for images, _ in loader:
                yield images.shape[0]

    return batches()


def ffcv_raw(data, threads, antialias):
    return ffcv(data, threads, antialias, "raw")


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


# Records of one size: a label of one byte, then planes.


def benzina_records(data, threads, antialias, in_memory=False):
    sys.path.insert(0, "examples/python")
    import benzina

    channels = 1 if SIZE == 28 else 3
    records = dict(width=SIZE, height=SIZE, channels=channels, data_type="uint8", data_offset=1, label_type="uint8",
                   stride=1 + channels * SIZE * SIZE)
    if in_memory:
        with open(data, "rb") as file:
            source = benzina.Dataset(io.BytesIO(file.read()), records=records)
    else:
        source = benzina.Dataset(data, records=records)
    loader = benzina.DataLoader(source, shape=(SIZE, SIZE), batch_size=BATCH, shuffle=True, seed=1, drop_last=True,
                                num_threads=threads,
                                mean=MEAN[0] if channels == 1 else MEAN, std=STD[0] if channels == 1 else STD,
                                channels="gray" if channels == 1 else "RGB",
                                warp=benzina.ops.MXNetAffine(pad=2, rand_crop=True, rand_mirror=channels == 3))
    while True:
        for images, _ in loader:
            yield images.shape[0]


def benzina_memory(data, threads, antialias):
    return benzina_records(data, threads, antialias, True)


def torch_vectorized(data, threads, antialias):
    import torch

    torch.set_num_threads(threads)
    channels, edge = (1 if SIZE == 28 else 3), SIZE + 4
    with open(data, "rb") as file:
        records = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).view(-1, 1 + channels * SIZE * SIZE)
    padded = torch.nn.functional.pad(records[:, 1:].reshape(-1, channels, SIZE, SIZE), (2, 2, 2, 2))
    padded = padded.reshape(-1, channels, edge * edge)
    mean, std = torch.tensor(MEAN[:channels]).view(1, -1, 1, 1), torch.tensor(STD[:channels]).view(1, -1, 1, 1)
    columns = torch.arange(SIZE).view(1, SIZE)
    while True:
        order = torch.randperm(len(padded))
        for first in range(0, len(padded) - BATCH + 1, BATCH):
            x, y = torch.randint(0, 5, (BATCH, 1)) + columns, torch.randint(0, 5, (BATCH, 1)) + columns
            if channels == 3:
                x = torch.where(torch.rand(BATCH, 1) < 0.5, x.flip(1), x)
            at = (edge * y.view(BATCH, SIZE, 1) + x.view(BATCH, 1, SIZE)).view(BATCH, 1, -1)
            pictures = torch.gather(padded[order[first:first + BATCH]], 2, at.expand(BATCH, channels, -1))
            yield ((pictures.view(BATCH, channels, SIZE, SIZE).float() - mean) / std).shape[0]


def ffcv_records(data, threads, antialias):
    import ffcv
    import numpy
    from ffcv import loader as ffcv_loader, transforms
    from ffcv.fields import IntField, RGBImageField
    from ffcv.fields.rgb_image import SimpleRGBImageDecoder
    from ffcv.writer import DatasetWriter

    if SIZE == 28:
        raise NotImplementedError("FFCV's pictures have three channels")
    with open(data, "rb") as file:
        records = numpy.frombuffer(file.read(), numpy.uint8).reshape(-1, 1 + 3 * SIZE * SIZE)

    class Records:
        def __len__(self):
            return len(records)

        def __getitem__(self, i):
            return numpy.ascontiguousarray(records[i, 1:].reshape(3, SIZE, SIZE).transpose(1, 2, 0)), int(records[i, 0])

    beton = "%s/records.beton" % os.path.dirname(data)
    if not os.path.exists(beton):
        DatasetWriter(beton + ".partial", {"image": RGBImageField(write_mode="raw"), "label": IntField()},
                      num_workers=1).from_indexed_dataset(Records())
        os.replace(beton + ".partial", beton)
    pipeline = [
        SimpleRGBImageDecoder(),
        transforms.RandomHorizontalFlip(),
        transforms.RandomTranslate(padding=2),
        transforms.NormalizeImage(numpy.array(MEAN), numpy.array(STD), numpy.float32),
        transforms.ToTensor(),
        transforms.ToTorchImage()
    ]
    loader = ffcv_loader.Loader(beton, batch_size=BATCH, num_workers=threads, order=ffcv_loader.OrderOption.RANDOM,
                                indices=list(range(len(records))) * 16, drop_last=True, os_cache=True,
                                pipelines={"image": pipeline})
    while True:
        for images, _ in loader:
            yield images.shape[0]


def make_records(path, size, count):
    """So many records of noise: a label of one byte, then so many bytes."""
    if os.path.exists(path):
        return
    noise = random.Random(1)
    with open(path + ".partial", "wb") as file:
        for i in range(count):
            file.write(bytes([i % 10]) + noise.randbytes(size))
    os.replace(path + ".partial", path)


TURBO = "libjpeg-turbo"  # a program; the others are functions
PEERS = {
    "benzina": (benzina_records, "records.bin", "ctypes"),
    "benzina memory": (benzina_memory, "records.bin", "ctypes"),
    "torch vectorized": (torch_vectorized, "records.bin", "torch"),
    "FFCV raw": (ffcv_records, "records.bin", "ffcv"),
} if IS_RECORDS else {
    "benzina crop": (benzina_batches, "PICTURES", "ctypes"),
    "benzina folder": (benzina_recipe, "PICTURES", "ctypes"),
    "torchvision PIL": (torchvision_pil, "PICTURES", "torchvision"),
    "torchvision io": (torchvision_io, "PICTURES", "torchvision"),
    "DALI": (dali, "PICTURES", "nvidia.dali"),
} if IS_RECIPE else {  # what runs it, what it reads, what must be importable
    "benzina folder": (benzina_batches, "PICTURES", "ctypes"),
    "benzina shrink": (benzina_shrink, "PICTURES", "ctypes"),
    "benzina tar": (benzina_batches, "{0..3}.tar", "ctypes"),
    "benzina jpeg": (benzina_batches, "jpeg.bzna", "ctypes"),
    "benzina h264": (benzina_batches, "h264.bzna", "ctypes"),
    "benzina h264 tuned": (benzina_batches, "h264 tuned.bzna", "ctypes"),
    "benzina h265": (benzina_batches, "h265.bzna", "ctypes"),
    "benzina av1": (benzina_batches, "av1.bzna", "ctypes"),
    TURBO: (None, "PICTURES", "ctypes"),
    "torchvision PIL": (torchvision_pil, "PICTURES", "torchvision"),
    "torchvision io": (torchvision_io, "PICTURES", "torchvision"),
    "WebDataset": (webdataset, "{0..3}.tar", "webdataset, torchvision"),
    "DALI": (dali, "PICTURES", "nvidia.dali"),
    "DALI experimental": (dali_experimental, "PICTURES", "nvidia.dali"),
    "FFCV": (ffcv, "PICTURES", "ffcv"),
    "FFCV raw": (ffcv_raw, "PICTURES", "ffcv"),
    "MXNet": (mxnet, "all", "mxnet"),
}
if SET != "photographs":  # there, archives and tars are told from the folder
    PEERS = {name: peer for name, peer in PEERS.items() if peer[1] not in
             [codec + ".bzna" for codec in CODECS] and name != "benzina tar"}
if SET not in ("1600x1200", "12mpx"):
    PEERS.pop("benzina shrink", None)
NO_ANTIALIAS = ("FFCV", "FFCV raw", "MXNet")


def runs_in(peer, mode):
    """Whether a peer runs with antialiasing (on) or without (off): of most sets only where it must."""
    if IS_RECORDS or peer == TURBO:
        return mode == ("off" if IS_RECORDS else "on")
    if peer in NO_ANTIALIAS:
        return mode == "off"
    return mode == "on" or SET == "photographs" or (peer == "benzina folder" and not IS_RECIPE)


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
    if peer == TURBO:
        program = (os.environ.get("BUILD") or "build") + "/bench/jpeg"
        return json.loads(subprocess.run([program, data[0], str(threads), str(seconds)], check=True,
                                         stdout=subprocess.PIPE).stdout)
    batches = run(data[0] if where == "PICTURES" else os.path.join(data[1], where), threads, antialias)
    begin, warm = time.perf_counter(), 0
    while time.perf_counter() - begin < 1 or warm < 2:
        warm += next(batches) > 0
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
    # threads of OpenMP that wait do not spin: if other programs run, that would count as work
    environment = dict(os.environ, CUDA_VISIBLE_DEVICES="", PYTHONWARNINGS="ignore", OMP_WAIT_POLICY="PASSIVE")
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
    found, absent, errors = {}, {}, {}
    for peer in peers:
        for python in pythons:
            tried = python, PEERS[peer][2]
            if tried not in errors:
                errors[tried] = subprocess.run([python, "-W", "ignore", "-c", "import " + PEERS[peer][2]],
                                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            if not errors[tried].returncode:
                found[peer] = python
                break
            lines = errors[tried].stderr.strip().splitlines()
            if peer not in absent or "No module named" not in lines[-1]:
                absent[peer] = lines[-1] if lines else "import failed"
    return found, {peer: why for peer, why in absent.items() if peer not in found}


def versions(found):
    script = ("import importlib.metadata as m, sys\n"
              "for n in sys.argv[1:]:\n try: print(n, m.version(n))\n except Exception: pass")
    names = ("torch", "torchvision", "pillow", "webdataset", "nvidia-dali-cuda120", "nvidia-dali-cuda130", "ffcv",
             "mxnet", "numpy")
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


BLUE, ORANGE, GRAY = "#1f77b4", "#d95f02", "#999999"


def is_own(peer):
    return peer.startswith("benzina")


def rate_of(told, mode, threads, peer):
    """Pictures per second of a processor: other programs that run at the same time change that least."""
    cpu_ms = told["medians"].get("%s %d %s" % (mode, threads, peer), {"cpu_ms": 0})["cpu_ms"]
    return 1000 / cpu_ms if cpu_ms else 0


def pairs_of(told, threads):
    """This library (records in a file, pictures in a folder) and the best peer that does the same, per mode."""
    own = "benzina" if "benzina" in told["peers"] else "benzina folder"
    for mode in ("on", "off"):
        others = [(rate_of(told, mode, threads, p), p) for p in told["peers"] if not is_own(p) and p != TURBO]
        mine, best = rate_of(told, mode, threads, own), max(others, default=(0, ""))
        if mine and best[0]:
            yield mode, mine, best[0], best[1]


def draw_bars(axis, told, mode):
    """A bar for each peer and number of threads, this library's in blue."""
    threads = told["threads"]
    names = sorted((peer for peer in told["peers"] if rate_of(told, mode, threads[-1], peer)),
                   key=lambda n: rate_of(told, mode, threads[-1], n))
    for k, count in enumerate(threads):
        bars = axis.barh([i + 0.4 * k for i in range(len(names))], [rate_of(told, mode, count, n) for n in names], 0.38,
                         color=[BLUE if is_own(n) else "#444444" if n == TURBO else GRAY for n in names],
                         alpha=1 if count == threads[-1] else 0.55)
        axis.bar_label(bars, fmt="%.0f", padding=2, fontsize=7)
    axis.set_yticks([i + 0.2 * (len(threads) - 1) for i in range(len(names))], names)
    axis.set_xlabel("pictures per second of a processor, " + " (light) and ".join(map(str, threads)) + " threads")
    axis.set_title("photographs, antialias " + mode)


def draw_ratios(axis, sets):
    """How many times as fast as the best peer this library is, set by set: blue where it is ahead, orange where not."""
    rows = []
    for name in reversed([name for name in SETS if name in sets]):
        told = sets[name]
        rows += [(name + (", no antialias" if mode == "off" and name not in ("28", "32") else ""), mine / best, peer)
                 for mode, mine, best, peer in reversed(list(pairs_of(told, told["threads"][-1])))]
    bars = axis.barh(range(len(rows)), [ratio for _, ratio, _ in rows], 0.7,
                     color=[BLUE if ratio > 1 else ORANGE for _, ratio, _ in rows])
    axis.bar_label(bars, ["%.1f x %s" % (ratio, peer) for _, ratio, peer in rows], padding=2, fontsize=7)
    axis.axvline(1, color="black", linewidth=0.8)
    axis.set_yticks(range(len(rows)), [name for name, _, _ in rows])
    axis.set_xlabel("times the pictures of the best peer (orange: not ahead)")
    axis.set_title("by size")


def draw_chart(json_path, folder):
    """Photographs, peer by peer, and all sets compared with the best peer."""
    import matplotlib
    matplotlib.use("agg")
    matplotlib.rcParams.update({"svg.hashsalt": "peers", "svg.fonttype": "none", "font.size": 9})
    import matplotlib.pyplot as plt
    with open(json_path) as file:
        sets = json.load(file)
    panels = [mode for mode in ("off", "on") if "photographs" in sets and
              any(key.startswith(mode + " ") for key in sets["photographs"]["medians"])]
    has_ratios = any(True for told in sets.values() for _ in pairs_of(told, told["threads"][-1]))
    columns = len(panels) + has_ratios
    figure, axes = plt.subplots(1, columns, figsize=(5 * columns, 4.2), squeeze=False)
    for axis, mode in zip(axes[0], panels):
        draw_bars(axis, sets["photographs"], mode)
    if has_ratios:
        draw_ratios(axes[0][-1], sets)
    for axis in axes[0]:
        axis.set_xticks([])                                   # each bar has its number
        axis.margins(x=0.25 if axis is axes[0][-1] else 0.12)
        axis.spines[["top", "right", "bottom"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(folder + "/peers.svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    small_svg(folder + "/peers.svg")
    figure.savefig(folder + "/peers.png", dpi=110, metadata={"Software": None})


def draw(pythons, json_path, folder):
    for python in pythons:
        drawn = subprocess.run([python, __file__, "--chart", json_path, folder],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if not drawn.returncode:
            print("%s; %s/peers.svg, peers.png" % (json_path, folder))
            return
    print("no chart: %s; %s has the figures" % (drawn.stderr.strip().splitlines()[-1], json_path))


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
        if not any(key.startswith(mode + " ") for key in results):
            continue
        print("\n%s, %spictures/s with %s threads (CPU ms a picture)" %
              (SET, "" if IS_RECORDS else "antialias %s, " % mode, " and ".join(map(str, threads))))
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


def ratios(results, told, threads):
    """This library compared with each peer that does the same, and with decoding alone, in each round: medians."""
    own = "benzina" if "benzina" in told["peers"] else "benzina folder"
    for count in threads:
        for mode in ("off", "on"):
            mine = results.get("%s %d %s" % (mode, count, own), [])
            for peer in told["peers"]:
                turbo = results.get("on %d %s" % (count, peer), []) if peer == TURBO else None
                theirs = turbo if turbo is not None else results.get("%s %d %s" % (mode, count, peer), [])
                pairs = [(a, b) for a, b in zip(mine, theirs) if "rate" in a and b.get("rate")]
                each = [a["rate"] / b["rate"] for a, b in pairs]
                work = [b["cpu_ms"] / a["cpu_ms"] for a, b in pairs if a.get("cpu_ms") and b.get("cpu_ms")]
                if each and peer != own:
                    print("%s, %d threads, antialias %s: %s is %.2f of %s (%.2f to %.2f)%s" %
                          (SET, count, mode, own, statistics.median(each), peer, min(each), max(each),
                           ", by processor time %.2f (%.2f to %.2f)" % (statistics.median(work), min(work), max(work))
                           if work else ""))


def store(json_path, name, told):
    """Adds the figures of a set to those of other sets, or replaces them."""
    sets = {}
    if os.path.exists(json_path):
        with open(json_path) as file:
            sets = json.load(file)
    sets[name] = told
    with open(json_path + ".new", "w") as file:
        json.dump(sets, file, indent=1)
        file.write("\n")
    os.replace(json_path + ".new", json_path)


def main():
    if sys.argv[1:2] == ["--one"]:
        return run_one(sys.argv[2:])
    if sys.argv[1:2] == ["--chart"]:
        return draw_chart(*sys.argv[2:])
    if sys.argv[1:2] == ["--make"]:
        return make_set(*sys.argv[2:])
    if not os.environ.get("SET"):
        for name in SETS:
            status = subprocess.run([sys.executable, __file__], env=dict(os.environ, SET=name)).returncode
            if status:
                sys.exit(status)
        return
    begin = time.monotonic()
    build = os.environ.get("BUILD") or "build"
    os.environ.setdefault("BENZINA_LIBRARY", os.path.abspath(build + "/libbenzina.so"))
    root, out, bzna = build + "/peers", "%s/peers/%s" % (build, SET), build + "/bzna"
    chart = os.environ.get("CHART") or root
    pythons = (os.environ.get("PYTHONS") or sys.executable).split(":")
    seconds, rounds = float(os.environ.get("DURATION") or 2), int(os.environ.get("ROUNDS") or 3)
    threads = [int(t) for t in (os.environ.get("THREADS") or "2").split(",")]
    words = (os.environ.get("PEERS") or "").lower().split(",")
    peers = [p for p in PEERS if any(word in p.lower() for word in words)]
    os.makedirs(out, exist_ok=True)
    if IS_RECORDS:
        pictures, files = out, []
        make_records(out + "/records.bin", SIZE * SIZE * (1 if SIZE == 28 else 3), COUNT)
    else:
        pictures = pictures_of(out, pythons)
        files = prepare(pictures, out, bzna, peers)
    found, absent = interpreters(pythons, peers)
    for peer, why in absent.items():
        print("absent: %s: %s" % (peer, why))
    results, order, load = {}, [p for p in peers if p in found], os.getloadavg()[0]
    for round_number in range(rounds):
        for t in threads:
            runs = [(peer, mode) for peer in order for mode in ("off", "on") if runs_in(peer, mode)]
            for peer, mode in random.Random(round_number).sample(runs, len(runs)):
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
    told = {
        "date": time.strftime("%Y-%m-%d"), "machine": machine(), "load": [load, os.getloadavg()[0]], "pictures":
        len(files) or COUNT, "bytes": sum(os.path.getsize(f) for f, _ in files or [(out + "/records.bin", 0)]),
        "batch": BATCH, "size": SIZE,
        "seconds": seconds, "packed": packed_sizes(out), "rounds": rounds, "threads": threads, "peers": order,
        "absent": absent, "versions": versions(found), "medians": medians, "runs": results
    }
    ratios(results, told, threads)
    print("%s: %d pictures, %.0f MB; load %.1f before, %.1f after; %.0f s" %
          (SET, told["pictures"], told["bytes"] / 1e6, *told["load"], time.monotonic() - begin))
    os.makedirs(chart, exist_ok=True)
    store(root + "/peers.json", SET, told)
    draw(pythons, root + "/peers.json", chart)


if __name__ == "__main__":
    main()
