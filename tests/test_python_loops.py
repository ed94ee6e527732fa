"""test_python_loops.py - the Python package in ordinary loops, beside what of torch, Lightning, Accelerate, jax and mypy is there

    BENZINA_LIBRARY=build/libbenzina.so python3 tests/test_python_loops.py build/bzna        from the repository's root

Prints FAIL and SKIP lines, and a count last.
"""
import contextlib
import copy
import doctest
import gc
import importlib
import inspect
import io
import itertools
import logging
import os
import pickle
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import unittest
import warnings
import zlib

ROOT = os.getcwd()
PACKAGE = os.path.join(ROOT, "examples", "python")
sys.path.insert(0, PACKAGE)
sys.dont_write_bytecode = True
import benzina  # noqa: E402
from benzina import Error, ops  # noqa: E402
from test_python import ARCHIVE, COUNT, importable, needs_decoder, run_tests  # noqa: E402

FOLDER = tempfile.TemporaryDirectory()          # what write_folder makes, for all tests


def needs(*names):
    """For packages that Debian does not have."""
    absent = [name for name in names if importable(name) is None]
    package = {"torch": "python3-torch", "torchvision": "python3-torchvision", "numpy": "python3-numpy", "PIL": "python3-pil", "mypy": "mypy"}
    return unittest.skipIf(absent, "; ".join("%s is not installed [%s]" % (name, package.get(name, "python-package-" + name)) for name in absent))


def write_png(path, width, height, seed):
    """A picture with smooth and with fine parts."""
    state, rows = seed * 2654435761 % 2**32 or 1, []
    for y in range(height):
        row = bytearray([0])
        for x in range(width):
            state = (state * 1664525 + 1013904223) % 2**32
            noise = state >> 27
            row += bytes([(x * 255 // width + noise) % 256, (y * 255 // height + noise) % 256, ((x // 7 + y // 5 + seed) % 2) * 200 + noise])
        rows.append(bytes(row))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
                   chunk(b"IDAT", zlib.compress(b"".join(rows), 1)) + chunk(b"IEND", b""))


def folder_of_pictures():
    """train/ and val/ with two classes each, as in the docstrings' examples, and train.bzna."""
    root = FOLDER.name
    if not os.path.isdir(os.path.join(root, "train")):
        seed = 0
        for split, count in (("train", 4), ("val", 2)):
            for name in ("color", "gray"):
                os.makedirs(os.path.join(root, split, name))
                for letter in "abcd"[:count]:
                    seed += 1
                    write_png(os.path.join(root, split, name, letter + ".png"), 64, 48, seed)
        for number in range(8):
            os.makedirs(os.path.join(root, "each", str(number)))
            write_png(os.path.join(root, "each", str(number), "a.png"), 40, 30, 100 + number)
        shutil.copy(os.path.join(ROOT, ARCHIVE), os.path.join(root, "train.bzna"))
    return root


def each():
    """The path of eight samples, whose targets are their numbers."""
    return os.path.join(folder_of_pictures(), "each")


def loader_of(dataset=None, **options):
    options = {"shape": 24, "batch_size": 3, "seed": 1234, **options}
    return benzina.DataLoader(benzina.Dataset(ARCHIVE) if dataset is None else dataset, **options)


def python(code, *arguments, timeout=300, **environment):
    """What a program of its own prints."""
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "program.py")
        with open(program, "w") as file:
            file.write(code)
        done = subprocess.run([sys.executable, "-B", "-W", "ignore", program, *arguments], capture_output=True, text=True, timeout=timeout,
                              env={**os.environ, "PYTHONPATH": PACKAGE, "BENZINA_LIBRARY": benzina.lib._name, **environment}, cwd=ROOT)
    return done


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])


def processes(code, count, *arguments):
    """What count processes of one group print, by rank."""
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "program.py")
        with open(program, "w") as file:
            file.write(code)
        port = free_port()
        ranks = [subprocess.Popen([sys.executable, "-B", "-W", "ignore", program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  cwd=ROOT, env={**os.environ, "PYTHONPATH": PACKAGE, "BENZINA_LIBRARY": benzina.lib._name, "RANK": str(rank),
                                                 "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1",
                                                 "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}) for rank in range(count)]
        said = []
        try:
            for rank in ranks:
                out, errors = rank.communicate(timeout=300)
                if rank.returncode:
                    raise AssertionError("a rank ended with %d: %s" % (rank.returncode, errors[-3000:]))
                said.append(out)
        finally:
            for rank in ranks:
                rank.kill()
        return said


@contextlib.contextmanager
def logged():
    """The records of the log, as texts; what it has said once is said again."""
    said, log = [], logging.getLogger("benzina")
    handler = logging.Handler()
    handler.emit = lambda record: said.append("%s %s" % (record.levelname, record.getMessage()))
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    sys.modules["benzina._distributed"]._said.clear()
    try:
        yield said
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


OUTPUTS = [name for name, module in (("torch", "torch"), ("numpy", "numpy"), ("jax", "jax"), ("field", "sys"), ("memoryview", "sys"))
           if importable(module)]


def numbers(array, output):
    """The bytes of images or targets, whatever they are."""
    if output == "memoryview":
        return array.tobytes()
    if output == "field":
        return array.memoryview().tobytes()
    return (array.numpy() if output == "torch" else importable("numpy").asarray(array)).tobytes()


@needs_decoder
class Kept(unittest.TestCase):
    """Batches that are kept."""

    def test_any_number_of_batches_may_be_kept_and_all_stay_as_they_were(self):
        for output in OUTPUTS:
            expected = [(numbers(images, output), numbers(targets, output)) for images, targets in loader_of(batch_size=1, output=output)]
            for buffers in (1, 2, 3, 5):
                loader = loader_of(batch_size=1, output=output, multibuffering=buffers)
                kept = list(itertools.islice(itertools.chain.from_iterable(itertools.repeat(loader)), 2 * COUNT))
                self.assertEqual([(numbers(*pair) for pair in zip(kept[i], (output, output))) and
                                  (numbers(kept[i][0], output), numbers(kept[i][1], output)) for i in range(2 * COUNT)], expected * 2,
                                 (output, buffers))
                self.assertEqual(loader.statistics.batches_copied, 2 * COUNT - (buffers - 1), (output, buffers))

    def test_loops_that_keep_nothing_copy_nothing(self):
        for output in OUTPUTS:
            loader = loader_of(batch_size=1, output=output)
            for _ in range(3):
                for images, targets in loader:
                    del images, targets
            self.assertEqual(loader.statistics.batches_copied, 0, output)
            for images, targets in loader:      # the loop's variables hold the batch before
                pass
            self.assertEqual(loader.statistics.batches_copied, 0, output)

    def test_views_of_views_keep_their_batch(self):
        for output in ("torch", "numpy"):
            if output in OUTPUTS:
                expected = [numbers(images, output) for images, _ in loader_of(batch_size=1, output=output)]
                parts = [images[0][:, ::2] for images, _ in loader_of(batch_size=1, output=output)]
                again = [images[0][:, ::2] for images, _ in loader_of(batch_size=1, output=output, copy=True)]
                self.assertTrue(all((one == other).all() for one, other in zip(parts, again)), output)
                self.assertEqual(len(expected), len(parts))

    def test_what_was_kept_and_is_gone_makes_room_again(self):
        for output in OUTPUTS:
            loader = loader_of(batch_size=1, output=output)
            kept = list(loader)
            before = loader.statistics.batches_copied
            self.assertGreater(before, 0)
            kept.clear()
            for _ in loader:
                pass
            self.assertEqual(loader.statistics.batches_copied, before, output)

    def test_targets_are_always_copies(self):
        for output in OUTPUTS:
            loader = loader_of(batch_size=1, output=output, multibuffering=2)
            kept = [targets for _, targets in loader]
            self.assertEqual(b"".join(numbers(targets, output) for targets in kept), b"".join(struct.pack("=q", 37 * i if i < 6 else -1) for i in range(COUNT)))
            self.assertLessEqual(loader.statistics.batches_copied, COUNT // 2)      # images alone

    def test_the_log_says_once_that_batches_are_copied(self):
        with logged() as said:
            for _ in range(2):
                list(loader_of(batch_size=1, output=OUTPUTS[-1]))
        self.assertEqual([line for line in said if "copied" in line],
                         ["INFO batches are copied: all 3 buffers of a DataLoader are in use (multibuffering=3); a larger multibuffering makes no copies"])

    def test_cycle_zip_and_enumerate(self):
        loader = loader_of(batch_size=3, output=OUTPUTS[-1], epochs=1)
        self.assertEqual(len(list(itertools.islice(itertools.cycle(loader), 7))), 7)
        self.assertEqual(len(list(enumerate(zip(loader_of(output=OUTPUTS[-1]), loader_of(output=OUTPUTS[-1]))))), 3)

    def test_a_notebook_cell_runs_again_after_a_traceback(self):
        tracebacks, loader = [], loader_of(batch_size=1, output=OUTPUTS[-1])
        for _ in range(20):
            try:
                for images, targets in loader:
                    raise KeyboardInterrupt
            except KeyboardInterrupt as error:
                tracebacks.append(error)        # as sys.last_traceback does
        self.assertEqual(len(list(loader)), COUNT)

    @needs("torch")
    def test_a_loss_that_keeps_its_graph(self):
        import torch
        model, losses = torch.nn.Linear(3 * 24 * 24, 5), []
        loader = loader_of(batch_size=1)
        for images, targets in loader:
            losses.append(torch.nn.functional.cross_entropy(model(images.flatten(1)) / 1000, targets.clamp(0) % 5))
        torch.stack(losses).sum().backward()
        self.assertTrue(torch.isfinite(model.weight.grad).all())
        self.assertGreater(loader.statistics.batches_copied, 0)

    @needs("torch")
    def test_tensors_are_freed_by_other_threads_than_the_one_that_loads(self):
        import threading
        import torch
        loader, threads = loader_of(batch_size=1), []
        for images, _ in loader:
            weight = torch.ones((), requires_grad=True)
            loss = (images * weight).sum()
            del images
            threads.append(threading.Thread(target=loss.backward))
            threads[-1].start()
            del loss
        for thread in threads:
            thread.join()
        gc.collect()
        before = loader.statistics.batches_copied
        for _ in loader:
            pass
        self.assertEqual(loader.statistics.batches_copied, before)

    @needs("jax")
    def test_jax_dispatches_asynchronously_on_batches(self):
        import jax
        work = jax.jit(lambda x: (jax.numpy.sin(x) @ jax.numpy.swapaxes(x, -1, -2)).sum())
        for output in ("numpy", "jax"):
            expected = [float(work(jax.numpy.array(images, copy=True))) for images, _ in loader_of(batch_size=1, output=output, copy=True)]
            results = [work(jax.numpy.asarray(images)) for images, _ in itertools.chain(*(loader_of(batch_size=1, output=output) for _ in range(3)))]
            self.assertEqual([float(x) for x in results], expected * 3)


@needs_decoder
class Share(unittest.TestCase):
    """torch.distributed, and what is there of its variables."""

    GROUP = """
import sys, torch.distributed as dist, benzina
dist.init_process_group("gloo")
whole = benzina.Dataset(%r)
def one(count, batch_size, last=None, late=False, **more):
    data = whole[:count] if count <= 8 else whole + whole[:count - 8]
    loader = benzina.DataLoader(data, shape=8, batch_size=batch_size, shuffle=True, output="numpy", last_batch=last, **more)
    pairs = [(images.shape[0], targets.tolist()) for images, targets in loader]
    assert len(pairs) == len(loader)
    assert all(size == len(targets) > 0 for size, targets in pairs), pairs
    found = [None] * dist.get_world_size()
    dist.all_gather_object(found, [targets for _, targets in pairs])
    return found
""" % each()

    @needs("torch", "numpy")
    def test_ranks_have_disjoint_whole_and_equal_shares_without_empty_batches(self):
        for world in (2, 4):
            said = processes(self.GROUP + """
world, rank = dist.get_world_size(), dist.get_rank()
for count, batch_size in ((8, 1), (8, 3), (8, 8), (5, 1), (5, 2), (7, 3), (2, 4), (11, 2)):
    found = one(count, batch_size)
    sizes = [[len(batch) for batch in batches] for batches in found]
    assert all(s == sizes[0] for s in sizes), sizes                     # equal, batch for batch
    drawn = [target for batches in found for batch in batches for target in batch]
    given = [*range(min(count, 8))] + [*range(count - 8)]
    assert len(drawn) == -(-count // world) * world, (count, batch_size, found)
    rest = list(drawn)
    for target in given:
        rest.remove(target)                                             # complete
    assert len(rest) < world, rest                                      # disjoint but for what fills up
    assert sum(sizes[0]) == -(-count // world)
print(rank, "ok")
""", world)
            self.assertEqual(said, ["%d ok\n" % rank for rank in range(world)])

    @needs("torch", "numpy")
    def test_a_share_is_taken_at_the_first_iteration_if_nothing_else_was_said(self):
        said = processes("""
import torch.distributed as dist, benzina, logging
logging.basicConfig(level="INFO", format="%%(name)s %%(levelname)s %%(message)s", stream=__import__("sys").stdout)
def made(**more):
    return benzina.DataLoader(%r, shape=8, batch_size=2, output="numpy", **more)
before = [made(), made(shuffle=True), made(shard=False), made(indices=range(8)), made(rank=0, world_size=1), made(drop_last=True)]
print([len(loader) for loader in before], [loader.world_size for loader in before])
dist.init_process_group("gloo")
print([len(loader) for loader in before], [loader.world_size for loader in before])
print([sum(len(targets) for _, targets in loader) for loader in before])
after = made()
print(len(after), after.rank == dist.get_rank(), after)
state = made(seed=5, shuffle=True)
first = next(iter(state))[1].tolist()
again = made(seed=5, shuffle=True)
again.load_state_dict(state.state_dict())
print(len(again), [len(targets) for _, targets in again], len(again))
""" % each(), 2)
        for rank, text in enumerate(said):
            self.assertEqual(text.split("\n")[:-1], [
                "[4, 4, 4, 4, 4, 4] [1, 1, 1, 1, 1, 1]",
                "benzina INFO torch.distributed has 2 processes: this one, rank %d, loads its share of the samples (shard=False: all)" % rank,
                "[2, 2, 4, 4, 4, 2] [2, 2, 1, 1, 1, 2]",
                "[4, 4, 8, 8, 8, 4]",
                "2 True <benzina.DataLoader: 8 samples, 2 batches of 2, 8 x 8, epoch 0, rank %d of 2>" % rank,
                "1 [2] 2"])

    def test_variables_alone_warn_once_and_change_nothing(self):
        kept = dict(os.environ)
        try:
            for name in ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE"):
                os.environ.clear()
                os.environ.update({**kept, name: "4", "RANK": "1", "SLURM_PROCID": "1"})
                with logged() as said:
                    for options in (dict(), dict(), dict(rank=0, world_size=2), dict(shard=False)):
                        loader = loader_of(output="field", **options)
                        self.assertEqual(sum(len(batch.targets.memoryview()) for batch in loader.batches()),
                                         6 if "rank" in options else COUNT)
                self.assertEqual(len(said), 1)
                self.assertRegex(said[0], "^WARNING %s is 4, but torch.distributed is not initialized.* rank=" % name)
                os.environ[name] = "1"
                with logged() as said:          # as in a Slurm job of one process
                    list(loader_of(output="field"))
                self.assertEqual([line for line in said if "WARNING" in line], [])
        finally:
            os.environ.clear()
            os.environ.update(kept)

    @needs("torch", "numpy", "accelerate")
    def test_accelerate_prepares_a_loader_on_two_processes(self):
        said = processes("""
import torch, accelerate, benzina
accelerator = accelerate.Accelerator(cpu=True)
loader = benzina.DataLoader(%r, shape=8, batch_size=2, shuffle=True)
model = torch.nn.Linear(3 * 64, 300)
model, optimizer, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.1), loader)
seen = []
for epoch in range(2):
    for images, targets in loader:
        loss = torch.nn.functional.cross_entropy(model(images.flatten(1) / 255), targets)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        seen.append(accelerator.gather(targets).tolist())
print([sorted(sum(seen[i:i + 2], [])) for i in (0, 2)])
""" % each(), 2)
        self.assertEqual(said, [str([[*range(COUNT)]] * 2) + "\n"] * 2)


LIGHTNING = """
import logging, sys, torch, lightning, benzina
for name in ("lightning", "lightning.pytorch", "lightning.pytorch.utilities.rank_zero"):
    logging.getLogger(name).setLevel(logging.ERROR)
class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net, self.seen, self.judged = torch.nn.Linear(3 * 16 * 16, 300), [], []
    def training_step(self, batch, number):
        images, targets = batch
        self.seen.append(targets.tolist())
        return torch.nn.functional.cross_entropy(self.net(images.flatten(1)), targets)
    def validation_step(self, batch, number):
        images, targets = batch
        self.judged.append(targets.tolist())
        self.log("loss", torch.nn.functional.cross_entropy(self.net(images.flatten(1)), targets), sync_dist=True)
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)
def loaders(**more):
    train = benzina.DataLoader(%r, shape=16, batch_size=2, shuffle=True, mean=127, std=64, **more)
    return train, benzina.DataLoader(%r, shape=16, batch_size=2, mean=127, std=64)
def trainer(**more):
    return lightning.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                             barebones=False, **more)
""" % (each(), each())


@needs_decoder
class Lightning(unittest.TestCase):
    @needs("torch", "numpy", "lightning")
    def test_fit_with_the_defaults_and_with_limits(self):
        done = python(LIGHTNING + """
for more in (dict(), dict(limit_train_batches=2, limit_val_batches=1), dict(limit_train_batches=0.5), dict(num_sanity_val_steps=-1),
             dict(val_check_interval=2), dict(accumulate_grad_batches=3), dict(fast_dev_run=True), dict(check_val_every_n_epoch=2)):
    model = Model()
    trainer(max_epochs=1 if "fast_dev_run" in more else 3, **more).fit(model, *loaders())
    epoch = sorted(t for batch in model.seen[:4] for t in batch) if len(model.seen) == 12 else 0
    print(len(model.seen), len(model.judged), epoch in (0, [*range(8)]))
""")
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        self.assertEqual(done.stdout.split("\n")[:-1], ["%s True" % counts for counts in
                                                         ("12 14", "6 4", "6 14", "12 16", "12 26", "12 14", "1 1", "12 6")])

    @needs("torch", "numpy", "lightning")
    def test_fit_on_two_processes_shares_the_samples(self):
        with tempfile.TemporaryDirectory() as folder:
            done = python(LIGHTNING + """
import json, os
model = Model()
train, val = loaders()
trainer(max_epochs=2, devices=2, strategy="ddp").fit(model, train, val)
rank = int(os.environ.get("LOCAL_RANK", 0))
with open(os.path.join(sys.argv[1], "%d" % rank), "w") as file:
    json.dump([model.seen, model.judged, train.world_size, train.rank], file)
""", folder)
            self.assertEqual(done.returncode, 0, done.stderr[-3000:])
            said = []
            for rank in range(2):
                with open(os.path.join(folder, str(rank))) as file:
                    said.append(eval(file.read()))
        for epoch in range(2):
            drawn = [t for seen, *_ in said for batch in seen[2 * epoch:2 * epoch + 2] for t in batch]
            self.assertEqual(sorted(drawn), [*range(COUNT)])
        self.assertEqual([one[2:] for one in said], [[2, 0], [2, 1]])

    @needs("torch", "numpy", "lightning", "torchvision")
    def test_an_imagefolder_script_is_converted_by_three_lines(self):
        with tempfile.TemporaryDirectory() as other:
            theirs = """
import torch, torchvision
from torchvision import transforms
train = torch.utils.data.DataLoader(torchvision.datasets.ImageFolder("train", transforms.Compose([transforms.RandomResizedCrop(16), transforms.ToTensor()])), batch_size=2, shuffle=True)
val = torch.utils.data.DataLoader(torchvision.datasets.ImageFolder("val", transforms.Compose([transforms.Resize(18), transforms.CenterCrop(16), transforms.ToTensor()])), batch_size=2)
"""
            ours = """
import benzina
train = benzina.DataLoader("train", shape=16, batch_size=2, shuffle=True, mean=0, std=255, warp=benzina.ops.RandomResizedCrop())
val = benzina.DataLoader("val", shape=16, batch_size=2, mean=0, std=255)
"""
            rest = """
import os, lightning, torch
class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(3 * 16 * 16, 2)
    def training_step(self, batch, number):
        return torch.nn.functional.cross_entropy(self.net(batch[0].flatten(1)), batch[1])
    def validation_step(self, batch, number):
        self.log("accuracy", (self.net(batch[0].flatten(1)).argmax(1) == batch[1]).float().mean())
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)
trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", default_root_dir=%r)
trainer.fit(Model(), train, val)
print("steps", trainer.global_step)
"""
            head = "import os, warnings; warnings.simplefilter('ignore'); os.chdir(%r)\n" % folder_of_pictures()
            for script in (theirs, ours):
                done = python(head + script + rest % other)
                self.assertEqual((done.returncode, done.stdout.split("\n")[-2]), (0, "steps 8"), done.stderr[-3000:])


if __name__ == "__main__":
    run_tests(sys.modules["__main__"])
