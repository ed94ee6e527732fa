#!/usr/bin/env python3
"""gpu_train.py - how fast a network trains with each loader: python3 tests/gpu/gpu_train.py DATA [--out FOLDER]
[--budget S] [--seconds S] [--only "WAY ..."] [--tiny]

DATA is a folder that `sh tests/gpu/gpu.sh data` made of photographs and drawn pictures: jpeg/ has class folders of JPEG
files, and h265_crf20.bzna and h264_tuned.bzna have the same pictures as archives. The set is repeated until an epoch
has PICTURES of them.

Each way below feeds the same training step: ResNet-18 or ResNet-50, batches of 256, bfloat16 autocast, channels_last,
SGD, with torch.compile and without. Each step takes another batch, cropped at random and flipped.

    synthetic      one batch on the device, again and again: no loader can be faster. Other ways are percent of it
    h265 nvdec     benzina, an archive of H.265, decoded by the GPU's video engines
    h264 hybrid    benzina, an archive of H.264 tuned for decoding, decoded by the engines and by processors
    jpeg           benzina, the JPEG files, decoded by processors
    imagefolder N  torchvision's ImageFolder and a DataLoader with N worker processes
    dali           DALI, the JPEG files, its "mixed" decoder

For each: pictures a second; percent of the ceiling; processors in use (seconds of processors a second, the processes
of workers counted); percent of the time in which the GPU's processors, its video decoders and its JPEG decoders were
busy, as nvidia-smi says it; bytes of the set. The process is held to 1, 2, 4, 8 and 16 processors by its affinity.

Points stand in the order of what would be missed most; those for which no time is left are named as left out. Each is
written to FOLDER/train.json as soon as it is measured. --tiny: a small network, small pictures and a batch of 16 on
any machine, which proves the program and measures nothing that matters."""
import argparse
import contextlib
import inspect
import json
import os
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MEAN, STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
PICTURES = 4096  # of an epoch
CLASSES = 1000
NETS = [("resnet18", True), ("resnet50", True), ("resnet18", False), ("resnet50", False)]
WAYS = ["synthetic", "h265 nvdec", "jpeg", "imagefolder 16", "h264 hybrid", "dali", "imagefolder 8", "imagefolder 4",
        "imagefolder 2"]
PROCESSORS = [1, 2, 4, 8, 16]
GRACE = 20  # seconds that a network's process has to end, of the budget


# ---- what the machine does meanwhile --------------------------------------------------------------------------------


def family():
    """This process, and those that it started, in turn."""
    parents = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open("/proc/%s/stat" % pid) as file:
            parents[int(pid)] = int(file.read().rpartition(")")[2].split()[1])
    found, more = set(), {os.getpid()}
    while more:
        found |= more
        more = {pid for pid, parent in parents.items() if parent in found} - found
    return found


def processor_seconds():
    ticks = 0
    for pid in family():
        with contextlib.suppress(OSError), open("/proc/%d/stat" % pid) as file:
            ticks += sum(map(int, file.read().rpartition(")")[2].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def hold_to(processors):
    """All threads of this process run on the first so many processors, and so do those that start later."""
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):
            os.sched_setaffinity(int(thread), set(processors))


class Engines:
    """Percent of the time in which parts of the GPU were busy, by nvidia-smi; nothing where that is not there."""
    ASKED = ["gpu", "decoder", "jpeg"]

    def __init__(self):
        self.lines = []
        try:
            self.process = subprocess.Popen(
                ["nvidia-smi", "--query-gpu=" + ",".join("utilization." + part for part in self.ASKED),
                 "--format=csv,noheader,nounits", "-lms", "250"],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            threading.Thread(target=self._read, daemon=True).start()
        except OSError:
            self.process = None

    def _read(self):
        for line in self.process.stdout:
            with contextlib.suppress(ValueError):
                self.lines.append((time.monotonic(), [float(part) for part in line.split(",")]))

    def since(self, begin):
        """Means of all that was told since then; nvidia-smi itself looks back a sixth of a second."""
        told = [parts for when, parts in list(self.lines) if when >= begin and len(parts) == len(self.ASKED)]
        return {"busy_" + part: round(sum(parts[i] for parts in told) / len(told), 1)
                for i, part in enumerate(self.ASKED)} if told else {}

    def close(self):
        if self.process:
            self.process.kill()
            self.process.wait()


# ---- ways to get batches: each yields (images, targets) on the device, without end ------------------------------------


class Unavailable(Exception):
    """Why a way is not measured."""


def repeated(count):
    """How often a set of so many pictures makes an epoch."""
    return max(1, -(-PICTURES // count))


def folder_bytes(folder):
    return sum(os.path.getsize(os.path.join(where, name)) for where, _, names in os.walk(folder) for name in names)


class Feed:
    """What a way needs to know."""

    def __init__(self, torch, data, settings, processors):
        self.torch, self.data, self.processors = torch, data, processors
        self.batch, self.size, self.device = settings["batch"], settings["size"], settings["device"]

    def prepared(self, images):
        """Normalized pictures as the network takes them, from uint8 N x C x H x W of the device."""
        torch = self.torch
        if not hasattr(self, "mean"):
            self.mean, self.std = (torch.tensor(v, device=self.device).view(1, 3, 1, 1) for v in (MEAN, STD))
        images = (images.float() - self.mean) / self.std
        return images.to(torch.bfloat16, memory_format=torch.channels_last)


def synthetic(feed):
    torch = feed.torch
    images = feed.prepared(torch.randint(0, 256, (feed.batch, 3, feed.size, feed.size), device=feed.device))
    targets = torch.randint(0, CLASSES, (feed.batch,), device=feed.device)
    while True:
        yield images, targets


def of_benzina(feed, path, **settings):
    import benzina
    from benzina import ops

    if not os.path.exists(path):
        raise Unavailable(os.path.basename(path) + " is not there")
    for name in set(settings) - set(inspect.signature(benzina.DataLoader.__init__).parameters):
        raise Unavailable("benzina has no setting %s" % name)
    parts = benzina.Dataset(path)
    loader = benzina.DataLoader(
        benzina.Dataset([path] * repeated(len(parts))), shape=feed.size, batch_size=feed.batch, shuffle=True, seed=1,
        drop_last=True, warp=ops.RandomResizedCrop(flip_h=0.5), mean=MEAN, std=STD, dtype="bfloat16", layout="NHWC",
        output="torch", num_threads=feed.processors, device="cuda:0" if feed.device == "cuda" else "cpu",
        track=None if os.path.isdir(path) else "image", **settings)
    while True:
        for images, targets in loader:
            yield images.permute(0, 3, 1, 2), targets.to(feed.device)


def h265_nvdec(feed):
    return of_benzina(feed, os.path.join(feed.data, "h265_crf20.bzna"),
                      decoder="nvdec" if feed.device == "cuda" else "auto")


def h264_hybrid(feed):
    return of_benzina(feed, os.path.join(feed.data, "h264_tuned.bzna"), hybrid=True)


def jpeg(feed):
    return of_benzina(feed, os.path.join(feed.data, "jpeg"), decoder="auto")


def imagefolder(feed, workers):
    torch = feed.torch
    from torchvision import datasets
    from torchvision.transforms import v2

    found = datasets.ImageFolder(os.path.join(feed.data, "jpeg"), transform=v2.Compose([
        v2.RandomResizedCrop(feed.size), v2.RandomHorizontalFlip(), v2.PILToTensor()]))
    found = torch.utils.data.ConcatDataset([found] * repeated(len(found)))
    on_gpu = feed.device == "cuda"
    loader = torch.utils.data.DataLoader(found, feed.batch, shuffle=True, num_workers=int(workers), drop_last=True,
                                         pin_memory=on_gpu, persistent_workers=True)
    while True:
        for images, targets in loader:
            yield (feed.prepared(images.to(feed.device, non_blocking=on_gpu)),
                   targets.to(feed.device, non_blocking=on_gpu))


def dali(feed):
    if feed.device != "cuda":
        raise Unavailable("DALI is measured on a GPU")
    try:
        from nvidia.dali import fn, pipeline_def, types
        from nvidia.dali.plugin.pytorch import DALIGenericIterator
    except ImportError as error:
        raise Unavailable(str(error)) from None

    @pipeline_def(batch_size=feed.batch, num_threads=feed.processors, device_id=0, prefetch_queue_depth=3)
    def pipeline():
        data, targets = fn.readers.file(file_root=os.path.join(feed.data, "jpeg"), random_shuffle=True)
        pictures = fn.decoders.image_random_crop(data, device="mixed", random_area=[0.08, 1.0],
                                                 random_aspect_ratio=[3 / 4, 4 / 3])
        pictures = fn.resize(pictures, size=[feed.size, feed.size])
        return fn.crop_mirror_normalize(pictures, dtype=types.FLOAT16, output_layout="HWC", mean=list(MEAN),
                                        std=list(STD), mirror=fn.random.coin_flip()), targets.gpu()

    made = pipeline()
    made.build()
    for batch in DALIGenericIterator(made, ["images", "targets"]):
        yield batch[0]["images"].permute(0, 3, 1, 2).bfloat16(), batch[0]["targets"].view(-1).long()


def batches_of(way, feed):
    name, _, workers = way.partition(" ")
    if name == "imagefolder":
        return imagefolder(feed, workers)
    return {"synthetic": synthetic, "h265 nvdec": h265_nvdec, "h264 hybrid": h264_hybrid, "jpeg": jpeg,
            "dali": dali}[way](feed)


def set_bytes(way, data):
    path = {"h265 nvdec": "h265_crf20.bzna", "h264 hybrid": "h264_tuned.bzna"}.get(way, "jpeg")
    path = os.path.join(data, path)
    if way == "synthetic" or not os.path.exists(path):
        return None
    return folder_bytes(path) if os.path.isdir(path) else os.path.getsize(path)


# ---- one network, in a process of its own -----------------------------------------------------------------------------


def tiny_net(torch):
    layers = [torch.nn.Conv2d(3, 8, 3, 2), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
              torch.nn.Linear(8, CLASSES)]
    return torch.nn.Sequential(*layers)


def stepper(torch, net, is_compiled, device):
    """step(images, targets), one step of training."""
    if net == "tiny":
        torch.set_num_threads(1)
        model = tiny_net(torch)
    else:
        import torchvision

        model = getattr(torchvision.models, net)(num_classes=CLASSES)
    model = model.to(device, memory_format=torch.channels_last).train()
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    run = torch.compile(model) if is_compiled else model

    def step(images, targets):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(run(images), targets)
        loss.backward()
        optimizer.step()

    return step


def measure(way, feed, step, synchronize, seconds, engines):
    batches = batches_of(way, feed)
    try:
        begin, steps = time.monotonic(), 0
        while steps < 3 or time.monotonic() - begin < seconds / 3:
            step(*next(batches))
            synchronize()
            steps += 1
        begin, before, count = time.monotonic(), processor_seconds(), 0
        while time.monotonic() - begin < seconds:
            images, targets = next(batches)
            step(images, targets)
            count += len(images)
        synchronize()
        took = time.monotonic() - begin
        return {"rate": round(count / took, 1), "processors_used": round((processor_seconds() - before) / took, 2),
                **engines.since(begin + min(0.3, took / 2))}
    finally:
        batches.close()  # which ends its loader, and workers


def child(arguments):
    """All points of one network until the time is over; prints a line of JSON for each."""
    import torch

    settings = json.loads(arguments.child)
    torch.backends.cudnn.benchmark = True
    until = time.monotonic() + settings["seconds_left"]
    synchronize = torch.cuda.synchronize if settings["device"] == "cuda" else lambda: None
    allowed = sorted(os.sched_getaffinity(0))
    step = stepper(torch, settings["net"], settings["compiled"], settings["device"])
    engines = Engines()
    for way, processors in settings["points"]:
        point = {"way": way, "net": settings["net"], "compiled": settings["compiled"], "processors": processors,
                 "bytes": set_bytes(way, arguments.data)}
        hold_to(allowed[:processors])
        if time.monotonic() + 2 * arguments.seconds > until:
            point["reason"] = "no time left"
        else:
            try:
                feed = Feed(torch, arguments.data, settings, processors)
                point.update(measure(way, feed, step, synchronize, arguments.seconds, engines))
            except Exception as error:  # what a way fails with is its result
                point["reason"] = " ".join(str(error).split())[:200] or type(error).__name__
        print("POINT " + json.dumps(point), flush=True)
    engines.close()


# ---- all of them ------------------------------------------------------------------------------------------------------


def points_of(ways, counts, first):
    """All ways with all processors; of the first network also with fewer."""
    most = counts[-1]
    points = [(way, most) for way in ways]
    if first:
        workers = {way: int(way.split()[1]) for way in ways if way.startswith("imagefolder")}
        for count in reversed(counts[:-1]):
            few = "imagefolder %d" % max(2, count)
            points += [(way, count) for way in ways if way not in workers or way == few]
    return points


def run_child(arguments, settings, told):
    command = [sys.executable, os.path.abspath(__file__), arguments.data, "--seconds", str(arguments.seconds),
               "--child", json.dumps(settings)]
    done, asked = set(), settings["points"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        # what a way hangs in cannot be ended otherwise
        timer = threading.Timer(settings["seconds_left"] + GRACE, process.kill)
        timer.start()
        errors = []
        reader = threading.Thread(target=lambda: errors.extend(process.stderr.read().strip().splitlines()[-1:]))
        reader.start()
        for line in process.stdout:
            if line.startswith("POINT "):
                point = json.loads(line[6:])
                done.add((point["way"], point["processors"]))
                told["points"].append(point)
                store(arguments, told)
        timer.cancel()
        reader.join()
    for way, processors in asked:
        if (way, processors) not in done:
            told["points"].append({"way": way, "net": settings["net"], "compiled": settings["compiled"],
                                   "processors": processors,
                                   "reason": (errors or ["its process ended with %s" % process.returncode])[0][:200]})
    store(arguments, told)


def store(arguments, told):
    path = os.path.join(arguments.out, "train.json")
    with open(path + ".new", "w") as file:
        json.dump(told, file, indent=1)
    os.replace(path + ".new", path)


def machine(torch):
    names = ["torch " + torch.__version__]
    with contextlib.suppress(ImportError):
        import torchvision

        names.append("torchvision " + torchvision.__version__)
    with contextlib.suppress(ImportError):
        import nvidia.dali

        names.append("DALI " + nvidia.dali.__version__)
    if torch.cuda.is_available():
        names.append(torch.cuda.get_device_name(0))
    return ", ".join(names + ["%d processors" % len(os.sched_getaffinity(0))])


def cell(point, key, form="%s"):
    return form % point[key] if point.get(key) is not None else "-"


def table(told):
    """One line a point, with its share of the ceiling of the same network and processors."""
    ceilings = {(p["net"], p["compiled"], p["processors"]): p["rate"] for p in told["points"]
                if p["way"] == "synthetic" and "rate" in p}
    lines = ["| network | compiled | processors | pictures from | pictures/s | of the ceiling | processors used | "
             "GPU busy | NVDEC busy | NVJPG busy | MB of the set |", "|---|---|---|---|---|---|---|---|---|---|---|"]
    for p in told["points"]:
        head = "| %s | %s | %d | %s " % (p["net"], "yes" if p["compiled"] else "no", p["processors"], p["way"])
        if "rate" not in p:
            lines.append(head + "| left out: %s | | | | | | |" % p["reason"])
            continue
        ceiling = ceilings.get((p["net"], p["compiled"], p["processors"]))
        lines.append(head + "| %.0f | %s | %.2f | %s | %s | %s | %s |" % (
            p["rate"], "%.0f %%" % (100 * p["rate"] / ceiling) if ceiling else "-", p["processors_used"],
            cell(p, "busy_gpu", "%.0f %%"), cell(p, "busy_decoder", "%.0f %%"), cell(p, "busy_jpeg", "%.0f %%"),
            "%.2f" % (p["bytes"] / 1e6) if p.get("bytes") else "-"))
    return "\n".join(lines)


def chart(told, path):
    """Rates of the first network by processors; why there is none, where matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError as error:
        return "no chart: %s" % error
    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "train", "svg.fonttype": "none", "font.size": 9})
    from matplotlib import pyplot

    first = told["points"][0]["net"], told["points"][0]["compiled"]
    lines = {}
    for p in told["points"]:
        if (p["net"], p["compiled"]) == first and "rate" in p:
            name = p["way"].partition(" ")[0] if p["way"].startswith("imagefolder") else p["way"]
            best = lines.setdefault(name, {})
            best[p["processors"]] = max(best.get(p["processors"], 0), p["rate"])
    figure, axis = pyplot.subplots(figsize=(6.4, 3.6))
    for name, found in lines.items():
        at = sorted(found)
        axis.plot(at, [found[n] for n in at], "k--" if name == "synthetic" else "o-", label=name, markersize=4)
    axis.set_xscale("log", base=2)
    axis.set_xticks(sorted({n for found in lines.values() for n in found}))
    axis.get_xaxis().set_major_formatter(matplotlib.ticker.ScalarFormatter())
    axis.set_ylim(bottom=0)
    axis.set_xlabel("processors")
    axis.set_ylabel("pictures/s")
    axis.set_title("Training %s, %s" % (first[0], told["machine"]), fontsize=8)
    axis.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data")
    parser.add_argument("--out", default=".")
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--budget", type=float, default=540)
    parser.add_argument("--only", default="")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        return child(arguments)
    try:
        import torch
    except ImportError as error:
        print("SKIP gpu-train: %s" % error)
        return 0
    if not (arguments.tiny or torch.cuda.is_available()):
        print("SKIP gpu-train: torch finds no GPU (--tiny proves the program without one)")
        return 0
    if not os.path.isdir(os.path.join(arguments.data, "jpeg")):
        print("SKIP gpu-train: %s/jpeg is not there: make gpu-data makes it" % arguments.data)
        return 0

    ways = [way for way in WAYS if not arguments.only or way in arguments.only.split(",")]
    available = len(os.sched_getaffinity(0))
    counts = sorted({min(count, available) for count in PROCESSORS})
    settings = {"batch": 16, "size": 64, "device": "cpu"} if arguments.tiny else \
        {"batch": 256, "size": 224, "device": "cuda"}
    told = {"what": "benzina: a training run", "machine": machine(torch), **settings, "points": []}
    end = time.monotonic() + arguments.budget - GRACE
    nets = [("tiny", False)] if arguments.tiny else NETS
    for number, (net, compiled) in enumerate(nets):
        # the first network has the rows of fewer processors, and half of the time
        share = 0.55 if number == 0 and len(nets) > 1 else 1 / (len(nets) - number)
        left = (end - time.monotonic()) * share
        run_child(arguments, dict(settings, net=net, compiled=compiled, seconds_left=left,
                                  points=points_of(ways, counts, number == 0)), told)
    print(told["machine"])
    print(table(told))
    print(chart(told, os.path.join(arguments.out, "train.svg")))
    failed = [p for p in told["points"] if "rate" not in p and p["way"] == "synthetic" and p["reason"] != "no time left"]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
