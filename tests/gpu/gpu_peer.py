#!/usr/bin/env python3
"""gpu_peer.py - what torchvision and DALI make of the same pictures as JPEG: python3 tests/gpu/gpu_peer.py DIR [--seconds
S] [--batch N] [--size PX] [--out FILE.json]

All ways end in normalized float32 batches [N, 3, PX, PX] on the GPU, by random resized crops and flips.
  gpu      files' bytes in memory; torchvision.io.decode_jpeg on the GPU, a batch a call; crop, flip and normalize on
           the GPU
  dali     DALI's pipeline: decoders.image_random_crop on "mixed", resize, crop_mirror_normalize; files in its readers'
           page cache
  workers  a DataLoader with a worker a processor: read, decode (PIL), crop and flip there; pinned memory; copy and
  normalize on the GPU
Writes what could be measured, and why the rest could not."""
import argparse
import glob
import json
import os
import random
import sys
import time

MEAN, STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)


def random_crop(height, width):
    """torchvision's RandomResizedCrop: top, left, height, width."""
    for _ in range(10):
        area, ratio = height * width * random.uniform(0.08, 1.0), random.uniform(3 / 4, 4 / 3)
        w, h = round((area * ratio) ** 0.5), round((area / ratio) ** 0.5)
        if 0 < w <= width and 0 < h <= height:
            return random.randint(0, height - h), random.randint(0, width - w), h, w
    edge = min(height, width)
    return (height - edge) // 2, (width - edge) // 2, edge, edge


def rate_of(step, seconds, synchronize):
    """Pictures a second of step(), which returns how many it made."""
    for _ in range(3):
        step()
    synchronize()
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        count += step()
    synchronize()
    return count / (time.perf_counter() - start)


def on_gpu(files, args, torch):
    from torchvision.io import decode_jpeg
    from torchvision.transforms.v2 import functional as F
    data = [torch.frombuffer(bytearray(open(f, "rb").read()), dtype=torch.uint8) for f in files]
    mean, std = (torch.tensor(v, device="cuda").view(1, 3, 1, 1) for v in (MEAN, STD))

    def step():
        pictures = decode_jpeg(random.choices(data, k=args.batch), device="cuda")
        out = []
        for p in pictures:
            top, left, h, w = random_crop(p.shape[-2], p.shape[-1])
            p = F.resized_crop(p, top, left, h, w, [args.size, args.size], antialias=False)
            out.append(F.horizontal_flip(p) if random.random() < 0.5 else p)
        return len((torch.stack(out).float() - mean) / std)

    return rate_of(step, args.seconds, torch.cuda.synchronize)


def by_dali(args, torch):
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=args.batch, num_threads=os.cpu_count() or 1, device_id=0, prefetch_queue_depth=3)
    def pipeline():
        data, _ = fn.readers.file(file_root=args.folder, random_shuffle=True)
        pictures = fn.decoders.image_random_crop(
            data, device="mixed", random_area=[0.08, 1.0], random_aspect_ratio=[3 / 4, 4 / 3]
        )
        pictures = fn.resize(pictures, size=[args.size, args.size], antialias=False)
        return fn.crop_mirror_normalize(
            pictures, dtype=types.FLOAT, mean=list(MEAN), std=list(STD), mirror=fn.random.coin_flip()
        )

    made = pipeline()
    made.build()
    return rate_of(lambda: len(made.run()[0]), args.seconds, torch.cuda.synchronize)


class Pictures:
    """A data set of files, repeated."""

    def __init__(self, files, size, count):
        self.files, self.size, self.count = files, size, count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        import numpy
        import torch
        from PIL import Image
        with Image.open(self.files[index % len(self.files)]) as picture:
            picture = picture.convert("RGB")
        top, left, h, w = random_crop(picture.height, picture.width)
        picture = picture.resize((self.size, self.size), Image.BILINEAR, (left, top, left + w, top + h))
        if random.random() < 0.5:
            picture = picture.transpose(Image.FLIP_LEFT_RIGHT)
        return torch.from_numpy(numpy.array(picture)).permute(2, 0, 1).contiguous()


def by_workers(files, args, torch):
    import PIL  # noqa: F401  (so that its absence is told here)
    workers = os.cpu_count() or 1
    loader = torch.utils.data.DataLoader(
        Pictures(files, args.size, 1 << 30), args.batch, num_workers=workers, pin_memory=True, prefetch_factor=2
    )
    mean, std = (torch.tensor(v, device="cuda").view(1, 3, 1, 1) for v in (MEAN, STD))
    batches = iter(loader)

    def step():
        return len((next(batches).to("cuda", non_blocking=True).float() - mean) / std)

    for _ in range(workers * 2):            # what was prefetched while the workers started
        step()
    rate = rate_of(step, args.seconds, torch.cuda.synchronize)
    return rate, workers


def reason(error):
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:300]


def measure(args):
    files = sorted(glob.glob(os.path.join(args.folder, "**", "*.jpg"), recursive=True))
    if not files:
        return {"reason": f"there are no JPEGs in {args.folder}: run make gpu-data"}
    try:
        import torch
        import torchvision
    except ImportError as error:
        return {"reason": reason(error)}
    if not torch.cuda.is_available():
        return {"reason": "torch sees no GPU"}
    result = {
        "torch": torch.__version__,
        "torchvision": torchvision.__version__,
        "device": torch.cuda.get_device_name(),
        "pictures": len(files),
        "bytes_per_picture": sum(map(os.path.getsize, files)) // len(files),
        "batch": args.batch,
        "size": args.size,
    }
    random.seed(1)
    try:
        result["gpu_images_per_second"] = on_gpu(files, args, torch)
    except Exception as error:              # a torchvision without nvJPEG, an older one without lists
        result["gpu_reason"] = reason(error)
    try:
        result["dali_images_per_second"] = by_dali(args, torch)
    except Exception as error:              # not installed, or no GPU for it
        result["dali_reason"] = reason(error)
    try:
        result["workers_images_per_second"], result["workers"] = by_workers(files, args, torch)
    except Exception as error:
        result["workers_reason"] = reason(error)
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--out")
    args = parser.parse_args()
    text = json.dumps(measure(args))
    if args.out:
        with open(args.out, "w") as file:
            file.write(text + "\n")
    print("gpu_peer:", text)
    sys.stdout.flush()
    os._exit(0)                             # without waiting for workers


if __name__ == "__main__":
    main()
