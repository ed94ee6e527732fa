#!/usr/bin/env python3
"""bench_accuracy.py - does a network learn as well from packed pictures? python3 tests/bench/bench_accuracy.py PHOTOS
[--seeds N] [--epochs N] [--out FOLDER] [--json FILE]                          from the repository's root

The task is made of any folder of photographs: which of them does this piece come from? A network sees random crops of
the left two thirds of each photograph, and is asked about crops of the right third, which it has never seen. Small
crops at the photographs' own scale need textures, which is what coding takes away first.

It is trained from the originals (PNG), from archives of H.265 at three qualities and from JPEG 90, and always asked
about the originals. Each is trained with the same seeds, hence the same order and the same crops. If the differences
between the rows are no larger than those between seeds, nothing of use to this network was lost. It is a small network
and 64 pixels: a check, and no proof for 224.

The results are also written as JSON: FOLDER/accuracy.json, or FILE. Settings: BUILD, where products are. Python needs
torch, numpy and Pillow."""
import argparse
import json
import os
import subprocess
import sys
import time

BUILD = os.environ.get("BUILD") or "build"
os.environ.setdefault("BENZINA_LIBRARY", os.path.abspath(BUILD + "/libbenzina.so"))
sys.path.insert(0, "examples/python")
SIZE, BATCH, REPEATS, EDGE = 64, 64, 20, 256
MEAN, STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
FRAMES = ["--frame", "exact", "--thumb", "none"]
ROWS = [("originals", None), ("H.265, CRF 20", FRAMES + ["--crf", "20"]), ("H.265, CRF 26", FRAMES + ["--crf", "26"]),
        ("H.265, CRF 32", FRAMES + ["--crf", "32"]), ("JPEG 90", ["--codec", "jpeg", "--quality", "90"])]


def make_pieces(photos, out):
    """Left and right pieces, a class folder for each photograph; returns how many there are."""
    from PIL import Image

    files = sorted(os.path.join(where, name) for where, _, names in os.walk(photos) for name in names)
    for number, path in enumerate(files):
        picture = Image.open(path).convert("RGB")
        picture.thumbnail((EDGE, EDGE), Image.LANCZOS)
        edge = picture.width * 2 // 3
        for part, box in (("left", (0, 0, edge, picture.height)),
                          ("right", (edge, 0, picture.width, picture.height))):
            folder = "%s/%s/%04d" % (out, part, number)
            os.makedirs(folder, exist_ok=True)
            picture.crop(box).save(folder + "/piece.png")
    return len(files)


def network(torch, classes):
    layers, width = [], 3
    for out in (32, 64, 128, 256):
        layers += [torch.nn.Conv2d(width, out, 3, 2, 1, bias=False), torch.nn.BatchNorm2d(out), torch.nn.ReLU()]
        width = out
    return torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
                               torch.nn.Linear(width, classes))


def loader_of(path, seed, repeats):
    import benzina
    from benzina import ops

    return benzina.DataLoader(
        benzina.Dataset([path] * repeats), shape=SIZE, batch_size=BATCH, shuffle=True, seed=seed, drop_last=True,
        mean=MEAN, std=STD, warp=ops.RandomResizedCrop(scale=(0.1, 0.4), flip_h=0.5), device="cpu", num_threads=1,
        track="image" if path.endswith(".bzna") else None, output="torch")


def train(torch, path, asked, classes, seed, epochs):
    """Percent of the crops of pieces that were never seen which the network knows."""
    torch.manual_seed(seed)
    model = network(torch, classes).to(memory_format=torch.channels_last)
    loader = loader_of(path, seed, REPEATS)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
    steps = epochs * len(loader)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=steps)
    for _ in range(epochs):
        for images, targets in loader:
            loss = torch.nn.functional.cross_entropy(model(images), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    loader.close()
    model.eval()
    right = count = 0
    with torch.no_grad():
        asking = loader_of(asked, 1, 16)
        for images, targets in asking:
            right += int((model(images).argmax(1) == targets).sum())
            count += len(targets)
        asking.close()
    return 100 * right / count


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("photos")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--out", default=BUILD + "/bench/accuracy")
    parser.add_argument("--json", help="the file of the results (FOLDER/accuracy.json)")
    arguments = parser.parse_args()
    json_path = arguments.json or arguments.out + "/accuracy.json"
    try:
        import torch
    except ImportError as error:
        sys.exit("SKIP bench-accuracy: %s" % error)
    torch.set_num_threads(1)
    classes = make_pieces(arguments.photos, arguments.out)
    told = []
    print("| trained from | bytes | accuracy by seed, % | mean |\n|---|---|---|---|")
    for name, options in ROWS:
        path = arguments.out + "/left"
        if options:
            path = "%s/%s.bzna" % (arguments.out, "".join(c if c.isalnum() else "_" for c in name))
            subprocess.run([BUILD + "/bzna", "pack", arguments.out + "/left", "-o", path, "--overwrite",
                            *options], check=True, stdout=subprocess.DEVNULL)
        size = os.path.getsize(path) if options else sum(
            os.path.getsize(os.path.join(where, file)) for where, _, files in os.walk(path) for file in files)
        found = [train(torch, path, arguments.out + "/right", classes, seed, arguments.epochs)
                 for seed in range(1, arguments.seeds + 1)]
        told.append({"trained_from": name, "bytes": size, "accuracy": found})
        print("| %s | %d | %s | %.1f |" % (name, size, ", ".join("%.1f" % a for a in found), sum(found) / len(found)),
              flush=True)
        with open(json_path, "w") as file:
            json.dump({"date": time.strftime("%Y-%m-%d"), "torch": torch.__version__, "epochs": arguments.epochs,
                       "classes": classes, "rows": told}, file, indent=1)


if __name__ == "__main__":
    main()
