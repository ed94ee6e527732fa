#!/usr/bin/env python3
r"""imagenet.py - trains a classifier on an archive of pictures, and continues after an interruption

    python3 imagenet.py train.bzna --val val.bzna --arch resnet18 --batch-size 256         torch and torchvision
    python3 imagenet.py small.bzna --arch linear --epochs 2 --batch-size 4                 numpy is enough

Without --val, validation uses the archive's validation split, or every tenth picture if it has none. Under torchrun or
srun, each process loads its share. --checkpoint FILE is written after each epoch, and every --save-every batches;
--resume FILE continues from there, also in the middle of an epoch, with the remaining batches. If torch has CUDA, its
GPU also decodes, and pictures stay there.

Pictures are as in torchvision's reference script, and so are the arguments' names. For training: RandomResizedCrop, a
flip, --auto-augment (ta_wide, ra, imagenet) and --random-erase, which the loader applies to each sample; then
--mixup-alpha and --cutmix-alpha, which torchvision applies to the batch. For validation: Resize(256) and
CenterCrop(224). This is the recipe of torchvision's newer weights:

    torchrun --nproc_per_node=8 imagenet.py train.bzna --val val.bzna --arch resnet50 --batch-size 128 --lr 0.5 \
        --epochs 600 --size 176 --auto-augment ta_wide --random-erase 0.1 --mixup-alpha 0.2 --cutmix-alpha 1.0 \
        --label-smoothing 0.1 --wd 0.00002

Add its warm-up, cosine schedule and averaged weights yourself. Unlike in torchvision, pictures are first rotated as
their EXIF orientation says, unless Dataset(orientation="ignore").
"""
import argparse
import os
import pickle
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import benzina  # noqa: E402
from benzina import ops  # noqa: E402

# ImageNet's, on the 0..255 that pictures are decoded to. std divides; if you have a factor, give norm, which
# multiplies.
MEAN = (0.485 * 255, 0.456 * 255, 0.406 * 255)
STD = (0.229 * 255, 0.224 * 255, 0.225 * 255)


class LinearModel:
    """Softmax regression on the pictures averaged down to 14x14: numpy alone, and it learns."""

    def __init__(self, classes, args):
        try:
            import numpy
        except ImportError:
            sys.exit("imagenet.py: the linear model needs numpy")
        self.np = numpy
        self.momentum, self.weight_decay = args.momentum, args.weight_decay
        self.weights = numpy.zeros((3 * 14 * 14 + 1, classes), numpy.float32)
        self.velocity = numpy.zeros_like(self.weights)

    def _scores(self, images):
        n, channels, height, width = images.shape
        pooled = (
            images[:, :, : height // 14 * 14, : width // 14 * 14]
            .reshape(n, channels, 14, height // 14, 14, width // 14)
            .mean((3, 5))
        )
        features = self.np.concatenate([pooled.reshape(n, -1), self.np.ones((n, 1), self.np.float32)], 1)
        return features, features @ self.weights

    def _loss(self, scores, targets):
        shifted = scores - scores.max(1, keepdims=True)
        log_p = shifted - self.np.log(self.np.exp(shifted).sum(1, keepdims=True))
        return log_p, float(-log_p[self.np.arange(len(targets)), targets].mean())

    def step(self, images, targets, lr):
        """Learns from a batch; its loss, and the classes from the likeliest on."""
        features, scores = self._scores(images)
        log_p, loss = self._loss(scores, targets)
        slope = self.np.exp(log_p)
        slope[self.np.arange(len(targets)), targets] -= 1
        self.velocity = (
            self.momentum * self.velocity + features.T @ slope / len(targets) + self.weight_decay * self.weights
        )
        self.weights -= lr * self.velocity
        return loss, self.np.argsort(-scores, 1)

    def judge(self, images, targets):
        _, scores = self._scores(images)
        return self._loss(scores, targets)[1], self.np.argsort(-scores, 1)

    def state_dict(self):
        return {"weights": self.weights, "velocity": self.velocity}

    def load_state_dict(self, state):
        self.weights, self.velocity = state["weights"], state["velocity"]


class TorchModel:
    """A network of torchvision's."""

    def __init__(self, classes, args, where):
        import torch
        import torchvision
        self.torch = torch
        self.device = torch.device("cuda", where.local_rank) if torch.cuda.is_available() else torch.device("cpu")
        if args.seed is not None:
            torch.manual_seed(args.seed)
        self.net = getattr(torchvision.models, args.arch)(num_classes=classes).to(self.device)
        if where.world_size > 1:
            torch.distributed.init_process_group("nccl" if self.device.type == "cuda" else "gloo", rank=where.rank,
                                                 world_size=where.world_size)
            self.net = torch.nn.parallel.DistributedDataParallel(
                self.net, [where.local_rank] if self.device.type == "cuda" else None
            )
        self.mix = self._mix(classes, args)
        self.criterion = torch.nn.CrossEntropyLoss(label_smoothing=args.label_smoothing)
        self.optimizer = torch.optim.SGD(
            self.net.parameters(), args.lr, momentum=args.momentum, weight_decay=args.weight_decay
        )

    @staticmethod
    def _mix(classes, args):
        """MixUp or CutMix of a whole batch, by chance; None: neither."""
        if not args.mixup_alpha and not args.cutmix_alpha:
            return None
        from torchvision.transforms import v2
        return v2.RandomChoice([kind(alpha=alpha, num_classes=classes) for kind, alpha in
                                ((v2.MixUp, args.mixup_alpha), (v2.CutMix, args.cutmix_alpha)) if alpha > 0])

    def _ranked(self, output):
        return output.detach().argsort(1, descending=True).cpu()

    def step(self, images, targets, lr):
        self.net.train()
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        images, targets = images.to(self.device, non_blocking=True), targets.to(self.device, non_blocking=True)
        if self.mix is not None:
            images, targets = self.mix(images, targets)         # targets are N x classes then
        output = self.net(images)
        loss = self.criterion(output, targets)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item(), self._ranked(output)

    def judge(self, images, targets):
        self.net.eval()
        with self.torch.no_grad():
            output = self.net(images.to(self.device))
            return self.criterion(output, targets.to(self.device)).item(), self._ranked(output)

    def state_dict(self):
        return {"net": self.net.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state):
        self.net.load_state_dict(state["net"])
        self.optimizer.load_state_dict(state["optimizer"])


class Meter:
    """Means over samples: loss, and how often the class was the likeliest, or among the five likeliest."""

    def __init__(self):
        self.count = self.loss = self.top1 = self.top5 = 0

    def add(self, loss, ranked, targets):
        hits = ranked == targets.reshape(-1, 1)
        self.count += len(targets)
        self.loss += loss * len(targets)
        self.top1 += int(hits[:, :1].sum())
        self.top5 += int(hits[:, :5].sum())

    def __str__(self):
        n = max(self.count, 1)
        return "loss %.4f  acc@1 %.2f  acc@5 %.2f" % (self.loss / n, 100 * self.top1 / n, 100 * self.top5 / n)


def labelled(images, targets):
    """Without the samples that have no target."""
    known = targets >= 0
    return (images, targets) if known.all() else (images[known], targets[known])


def train(loader, model, epoch, lr, args, say, save):
    meter, start, seen, waited = Meter(), time.time(), 0, 0.0
    begin = time.time()
    for i, (images, targets) in enumerate(loader):
        waited += time.time() - begin
        seen += len(images)
        images, targets = labelled(images, targets)
        if len(targets):
            loss, ranked = model.step(images, targets, lr)
            meter.add(loss, ranked, targets)
        if i % args.print_freq == 0:
            say("epoch %d  batch %d/%d  %s  %.0f images/s, %.0f%% of the time waiting" %
                (epoch, i + 1, len(loader), meter, seen / (time.time() - start), 100 * waited / (time.time() - start)))
        if args.save_every and (i + 1) % args.save_every == 0:
            save()
        if args.stop_after and i + 1 == args.stop_after:
            sys.exit("stopped after %d batches, as asked" % args.stop_after)
        begin = time.time()
    return meter


def validate(loader, model):
    meter = Meter()
    for images, targets in loader:
        images, targets = labelled(images, targets)
        if len(targets):
            meter.add(*model.judge(images, targets), targets)
    return meter


def augmentation(args):
    """The operations of the loader on each sample after its crop and flip."""
    known = {"ta_wide": ops.TrivialAugmentWide, "ra": lambda: ops.RandAugment(magnitude=args.ra_magnitude),
             "imagenet": lambda: ops.AutoAugment("imagenet")}
    stages = [known[args.auto_augment]()] if args.auto_augment else []
    return stages + ([ops.RandomErasing(args.random_erase)] if args.random_erase else [])


def open_context(args, where):
    """On the GPU that this process trains on. None: whatever the library finds."""
    if args.arch != "linear":
        import torch
        if torch.cuda.is_available():
            try:
                return benzina.Context("cuda:%d" % where.local_rank)
            except benzina.Error as error:
                print("the GPU does not decode: %s" % error)
    return None


def open_data(args, context):
    """(dataset, indices or None) for training and for validation."""
    def opened(path, split=None):
        return benzina.Dataset(path, split=split, context=context)
    if args.val:
        return (opened(args.data), None), (opened(args.val), None)
    try:
        return (opened(args.data, "train"), None), (opened(args.data, "validation"), None)
    except benzina.Error as error:
        if error.status != benzina.Status.E_NOT_FOUND or not os.path.exists(args.data):
            raise
    whole = opened(args.data)
    return (whole, [i for i in range(len(whole)) if i % 10 or len(whole) == 1]), (whole, range(0, len(whole), 10))


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", help="archive of the training pictures")
    parser.add_argument("--val", help="archive of the validation pictures")
    parser.add_argument("-a", "--arch", default="resnet18",
                        help="a model of torchvision, or linear (default: resnet18; linear without torchvision)")
    parser.add_argument("--epochs", default=90, type=int)
    parser.add_argument("-b", "--batch-size", default=256, type=int, help="of each process (default: 256)")
    parser.add_argument("--size", default=224, type=int, help="edge of the pictures (default: 224)")
    parser.add_argument(
        "--lr", default=None, type=float, help="initial learning rate (default: 0.1; 0.0005 for linear)"
    )
    parser.add_argument("--momentum", default=0.9, type=float)
    parser.add_argument("--wd", "--weight-decay", default=1e-4, type=float, dest="weight_decay")
    parser.add_argument(
        "--auto-augment",
        choices=("ta_wide", "ra", "imagenet"),
        help="TrivialAugmentWide, RandAugment, AutoAugment (default: none)",
    )
    parser.add_argument("--ra-magnitude", default=9, type=int, help="of --auto-augment ra (default: 9)")
    parser.add_argument(
        "--random-erase", default=0.0, type=float, metavar="P", help="probability of random erasing (default: 0)"
    )
    parser.add_argument("--mixup-alpha", default=0.0, type=float, help="of MixUp (default: 0, none)")
    parser.add_argument("--cutmix-alpha", default=0.0, type=float, help="of CutMix (default: 0, none)")
    parser.add_argument("--label-smoothing", default=0.0, type=float)
    parser.add_argument("--threads", default=0, type=int, help="decoder threads (default: one a processor)")
    parser.add_argument("-p", "--print-freq", default=10, type=int)
    parser.add_argument("--seed", default=1234, type=int)
    parser.add_argument("-e", "--evaluate", action="store_true", help="only validate")
    parser.add_argument("--resume", help="checkpoint to continue from")
    parser.add_argument("--checkpoint", help="where to write checkpoints")
    parser.add_argument("--save-every", default=0, type=int, metavar="BATCHES")
    parser.add_argument(
        "--stop-after",
        default=0,
        type=int,
        metavar="BATCHES",
        help="end in the middle of the first epoch, to try --resume",
    )
    args = parser.parse_args(argv)
    if args.arch != "linear":
        try:
            import torchvision  # noqa: F401
        except (ImportError, OSError):
            print("torchvision is not there: training the linear model")
            args.arch = "linear"
    if args.arch == "linear" and (args.mixup_alpha or args.cutmix_alpha or args.label_smoothing):
        parser.error("the linear model has neither MixUp, CutMix nor label smoothing: they are torch's")
    if args.mixup_alpha or args.cutmix_alpha:
        try:
            from torchvision.transforms.v2 import CutMix, MixUp  # noqa: F401
        except ImportError:
            parser.error("MixUp and CutMix are of torchvision 0.16 and later")
    if args.lr is None:
        args.lr = 0.0005 if args.arch == "linear" else 0.1
    return args


def write_checkpoint(path, checkpoint):
    """Replaces the file as a whole: whenever this is interrupted, path holds the old checkpoint or the new one."""
    with open(path + ".partial", "wb") as file:
        pickle.dump(checkpoint, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".partial", path)


def read_checkpoint(path, arch):
    """Ends the program if there is no whole checkpoint of this model: to start again is for the user to say."""
    try:
        with open(path, "rb") as file:          # a checkpoint is a pickle: resume from your own only
            checkpoint = pickle.load(file)
        missing = [key for key in ("model", "loader", "best", "arch") if key not in checkpoint]
    except Exception as error:                  # a file that falls short can raise nearly anything
        sys.exit("%s: not a whole checkpoint: %s: %s" % (path, type(error).__name__, error))
    if missing:
        sys.exit("%s: not a whole checkpoint: it has no %s" % (path, ", ".join(missing)))
    if checkpoint["arch"] != arch:
        sys.exit("%s: a checkpoint of %s, not of %s" % (path, checkpoint["arch"], arch))
    return checkpoint


def main(argv=None):
    args = parse(argv)
    where = benzina.distributed_from_env()
    if args.arch == "linear" and where.world_size > 1:
        sys.exit("the linear model trains in one process")
    (train_data, train_indices), (val_data, val_indices) = open_data(args, open_context(args, where))
    say = print if where.rank == 0 else lambda text: None
    classes = 1 + int(max(max(train_data.targets), max(val_data.targets)))
    if classes < 1:
        sys.exit("%s: its pictures have no targets" % args.data)
    say("%d pictures to train on, %d to validate on, %d classes, %s" %
        (len(train_indices or train_data), len(val_indices or val_data), classes, args.arch))

    common = dict(
        shape=(args.size, args.size),
        batch_size=args.batch_size,
        seed=args.seed,
        mean=MEAN,
        std=STD,
        num_threads=args.threads,
        output="numpy" if args.arch == "linear" else "torch",
    )
    train_loader = benzina.DataLoader(
        train_data,
        indices=train_indices,
        shuffle=True,
        epochs=args.epochs,
        rank=where.rank,
        world_size=where.world_size,
        warp=ops.RandomResizedCrop(flip_h=0.5),
        augment=augmentation(args),
        **common
    )
    # every process judges all
    val_loader = benzina.DataLoader(
        val_data, indices=val_indices, shard=False, warp=ops.CenterResizedCrop(224 / 256), **common
    )
    model = LinearModel(classes, args) if args.arch == "linear" else TorchModel(classes, args, where)

    best = 0.0
    if args.resume:
        checkpoint = read_checkpoint(args.resume, args.arch)
        model.load_state_dict(checkpoint["model"])
        train_loader.load_state_dict(checkpoint["loader"])
        best = checkpoint["best"]
        say("continuing in epoch %d" % train_loader.epoch)

    def save():
        if args.checkpoint and where.rank == 0:
            write_checkpoint(args.checkpoint, {"model": model.state_dict(), "loader": train_loader.state_dict(),
                                               "best": best, "arch": args.arch})

    if args.evaluate:
        say("validation: %s" % validate(val_loader, model))
        return
    for epoch in range(train_loader.epoch, args.epochs):
        train_loader.set_epoch(epoch)
        meter = train(train_loader, model, epoch, args.lr * 0.1 ** (epoch // 30), args, say, save)
        judged = validate(val_loader, model)
        best = max(best, judged.top1 / max(judged.count, 1))
        say("epoch %d: training %s; validation %s" % (epoch, meter, judged))
        save()
    say("best validation acc@1 %.2f" % (100 * best))


if __name__ == "__main__":
    main()
