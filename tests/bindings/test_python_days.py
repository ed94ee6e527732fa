"""test_python_days.py - what a day's use of the Python package met: runs that go on elsewhere, pictures that are
neither scaled nor colored, samples of any kind, what is refused, and settings that are kept in files

    BENZINA_LIBRARY=build/libbenzina.so python3 tests/bindings/test_python_days.py build/bzna    from the repository's root

Prints FAIL and SKIP lines, and a count last.
"""

import collections
import copy
import io
import json
import os
import pathlib
import pickle
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import typing
import unittest
import warnings
import zlib

from needs import needs, why_not
from test_python import needs_decoder, run_tests
from test_python_loops import benzina, ops, python

COUNT = 101  # of a data set whose number no batch divides


class Numbered:
    """Samples whose pictures and targets are their numbers."""

    def __init__(self, count=COUNT):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return b"P5\n4 4\n255\n" + bytes([index]) * 16, index


class One:
    """One sample."""

    def __init__(self, sample):
        self.sample = sample

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return self.sample


def numbered(**options):
    return benzina.DataLoader(Numbered(), **{"shape": 4, "output": "field", "shuffle": True, "seed": 3, **options})


def group(batch_size, world_size=1):
    """The loaders of all ranks."""
    if world_size == 1:
        return [numbered(batch_size=batch_size)]
    return [numbered(batch_size=batch_size, rank=rank, world_size=world_size) for rank in range(world_size)]


class Trainer:
    """Goes through epochs as Lightning does: it counts an epoch's batches over both runs, asks for a loader's length
    when an iterator was made, and ends an epoch there, without asking for one batch more."""

    def __init__(self, loaders, checkpoint=None):
        self.loaders, self.count, self.is_resumed = loaders, 0, checkpoint is not None
        if checkpoint is not None:
            self.count, state = checkpoint
            for loader in loaders:
                loader.load_state_dict(state)
        self.begin()

    def begin(self):
        self.iterators = [loader.batches() for loader in self.loaders]
        (self.length,) = {len(loader) for loader in self.loaders}

    def epoch(self, steps=None):
        """The targets of an epoch, or of its first steps, in batches."""
        if self.is_resumed and self.count >= self.length:  # the checkpoint is of an epoch's end
            self.count = 0
            self.begin()
        elif not self.is_resumed and self.count:
            self.count = 0
            self.begin()
        self.is_resumed, seen = False, []
        while self.count < min(self.length, steps or self.length):
            for iterator in self.iterators:
                with next(iterator) as batch:  # behind its count, a batch holds what makes ranks equal
                    seen.append(list(batch.targets.memoryview()[: batch.count]))
            self.count += 1
        return seen

    def checkpoint(self):
        return self.count, self.loaders[0].state_dict()


def flat(batches):
    return [number for batch in batches for number in batch]


MOVES = (
    ((1, 2), (1, 3)),
    ((1, 3), (1, 2)),
    ((10, 1), (20, 1)),
    ((10, 1), (33, 1)),
    ((20, 1), (10, 1)),
    ((7, 2), (3, 3)),
)


class Resuming(unittest.TestCase):
    """Batches of another size, or of other ranks."""

    def check_epochs(self, *epochs):
        for targets in epochs:
            self.assertEqual(sorted(targets), [*range(COUNT)])

    def test_each_sample_comes_once_in_an_epoch_that_goes_on_with_other_batches(self):
        for before, after in MOVES:
            length = len(group(*before)[0])
            for steps in (1, length // 2, length - 1):
                first = Trainer(group(*before))
                seen = flat(first.epoch(steps))
                second = Trainer(group(*after), first.checkpoint())
                seen += flat(second.epoch())
                self.check_epochs(seen, flat(second.epoch()))

    def test_an_epoch_that_was_over_is_not_begun_again(self):
        for before, after in MOVES:
            first = Trainer(group(*before))
            whole = flat(first.epoch())
            second = Trainer(group(*after), first.checkpoint())
            self.check_epochs(whole, flat(second.epoch()))
            self.check_epochs(whole, flat(second.epoch()))

    def test_the_length_is_the_batches_delivered_and_those_left(self):
        first = Trainer(group(10))
        first.epoch(3)
        for batch_size, length in ((20, 3 + 4), (33, 3 + 3), (5, 3 + 15), (10, 11)):
            (loader,) = group(batch_size)
            loader.load_state_dict(first.loaders[0].state_dict())
            self.assertEqual((len(loader), loader.batches_left), (length, length - 3))
            iterator = iter(loader)
            self.assertEqual((len(loader), len(iterator)), (length, length - 3))
            self.assertEqual([len(loader) for _ in iterator], [length] * (length - 3))
            self.assertEqual(len(loader), len(group(batch_size)[0]))
            self.assertEqual(sum(1 for _ in loader), len(loader))

    def test_a_run_moves_twice_in_one_epoch(self):
        trainer, seen = Trainer(group(10)), []
        for steps, batch_size in ((2, 7), (5, 12), (7, 3)):
            seen += flat(trainer.epoch(steps))
            trainer = Trainer(group(batch_size), trainer.checkpoint())
        self.assertEqual(trainer.length, 7 + -(-(COUNT - 20 - 21 - 24) // 3))
        self.check_epochs(seen + flat(trainer.epoch()), flat(trainer.epoch()))

    def test_an_epoch_that_is_broken_off_after_resuming_has_its_own_length(self):
        first = Trainer(group(10))
        first.epoch(3)
        (loader,) = group(20)
        loader.load_state_dict(first.loaders[0].state_dict())
        next(iter(loader))
        self.assertEqual((sum(1 for _ in loader), len(loader)), (6, 6))
        loader.load_state_dict(first.loaders[0].state_dict())
        loader.set_epoch(4)
        self.assertEqual(len(loader), 6)

    def test_a_state_without_a_count_has_the_length_of_an_epoch(self):
        first = Trainer(group(10))
        first.epoch(3)
        for state in ({"state": first.loaders[0].state_dict()["state"]}, first.loaders[0].state_dict()["state"]):
            (loader,) = group(20)
            loader.load_state_dict(state)
            self.assertEqual((len(loader), loader.batches_left), (6, 4))
            self.assertEqual((sum(1 for _ in loader), len(loader)), (4, 6))

    def test_batches_are_skipped_as_by_reading_them(self):
        for batch_size, world_size in ((10, 1), (7, 2), (3, 3)):
            whole = [[(loader.epoch, batch.indices.memoryview().tolist(), bytes(batch.images.memoryview()))
                      for _ in range(2) for batch in loader.batches()] for loader in group(batch_size, world_size)]
            for number in (0, 1, 3, len(whole[0]) // 2 - 1, len(whole[0]) // 2):
                for loader, expected in zip(group(batch_size, world_size), whole):
                    length = len(loader)
                    self.assertIs(loader.skip_first_batches(number), loader)
                    self.assertEqual((len(loader), loader.batches_left), (length, length - number))
                    found = [(loader.epoch, batch.indices.memoryview().tolist(), bytes(batch.images.memoryview()))
                             for _ in range(2) for batch in loader.batches()]
                    self.assertEqual(found, expected[number:])
        (loader,) = group(10)
        next(iter(loader))                      # of an epoch that is left behind
        self.assertEqual((sum(1 for _ in loader.skip_first_batches(8)), loader.epoch), (3, 2))
        for number in (12, -1, 1.5):
            self.assertRaisesRegex((ValueError, TypeError), "num_batches", loader.skip_first_batches, number)
        given = numbered(batch_size=10, shuffle=False, sampler=range(30))
        self.assertRaisesRegex(ValueError, "leave out its first samples", given.skip_first_batches, 1)

    @needs("torch", "accelerate")
    def test_accelerates_own_is_told_what_takes_its_place(self):
        import accelerate
        (loader,) = group(10)
        self.assertRaisesRegex(TypeError, r"In its place: loader.skip_first_batches\(n\)",
                               accelerate.skip_first_batches, loader, 3)
        self.assertIsNone(loader.batch_sampler)


LIGHTNING = """
import json, logging, os, sys, warnings
import numpy, torch, lightning, benzina
from lightning.pytorch.callbacks import ModelCheckpoint
for name in ("lightning", "lightning.pytorch", "lightning.pytorch.utilities.rank_zero"):
    logging.getLogger(name).setLevel(logging.ERROR)
class Numbered:
    def __len__(self):
        return 101
    def __getitem__(self, index):
        return numpy.full((4, 4, 3), index, numpy.uint8), index
class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net, self.seen, self.judged = torch.nn.Linear(48, 200), {}, []
    def training_step(self, batch, number):
        images, targets = batch
        self.seen.setdefault(self.current_epoch, []).append(targets.tolist())
        return torch.nn.functional.cross_entropy(self.net(images.flatten(1)), targets)
    def validation_step(self, batch, number):
        self.judged.append([self.current_epoch, len(self.seen.get(self.current_epoch, []))])
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.001)
def fit(folder, devices, batch_size, epochs, checkpoint=None, steps=0, **saved):
    model, callbacks = Model(), []
    if steps or saved:
        callbacks = [ModelCheckpoint(folder, save_top_k=-1, every_n_train_steps=steps or None, filename="{step}", **saved)]
    trainer = lightning.Trainer(accelerator="cpu", devices=devices, strategy="ddp" if devices > 1 else "auto", max_epochs=epochs,
                                logger=False, callbacks=callbacks, enable_checkpointing=bool(callbacks), num_sanity_val_steps=0,
                                enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(model, benzina.DataLoader(Numbered(), 4, batch_size=batch_size, shuffle=True, seed=3),
                benzina.DataLoader(Numbered(), 4, batch_size=101, shard=False), ckpt_path=checkpoint)
    return model
"""


@needs_decoder
class Lightning(unittest.TestCase):
    """The loop itself."""

    def check(self, seen, delivered):
        counts = collections.Counter(delivered + seen.get("0", []))
        self.assertEqual(sorted(counts), [*range(COUNT)])
        self.assertEqual(sorted(set(seen["1"])), [*range(COUNT)])
        self.assertLess(max(sum(counts.values()), len(seen["1"])), COUNT + 3)

    @needs("torch", "numpy", "lightning")
    def test_a_run_goes_on_with_another_batch_size(self):
        with tempfile.TemporaryDirectory() as folder:
            done = python(
                LIGHTNING + """
first = fit(sys.argv[1], 1, 10, 1, steps=1)
fit(sys.argv[1] + "/epoch", 1, 10, 1, every_n_epochs=1, save_on_train_epoch_end=True)
fit(sys.argv[1] + "/judged", 1, 10, 1, every_n_epochs=1, save_on_train_epoch_end=False)
said = []
for saved, delivered in (("/step=2", 2), ("/step=8", 8), ("/step=11", 11), ("/epoch/step=11", 11), ("/judged/step=11", 11)):
    for batch_size in (20, 33, 5):
        again = fit(sys.argv[1] + "/none", 1, batch_size, 3, sys.argv[1] + saved + ".ckpt")
        said.append([saved, batch_size, sum(first.seen[0][:delivered], []),
                     {epoch: sum(batches, []) for epoch, batches in again.seen.items()}, again.judged])
print(json.dumps(said))
""",
                folder,
            )
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        for saved, batch_size, delivered, seen, judged in json.loads(done.stdout):
            with self.subTest(saved=saved, batch_size=batch_size):
                self.check(seen, delivered)
                self.assertEqual(sorted(seen["2"]), [*range(COUNT)])
                epoch = -(-COUNT // batch_size)  # it is judged behind each epoch, and only there
                self.assertEqual(judged[-2:], [[1, epoch], [2, epoch]])

    @needs("torch", "numpy", "lightning")
    def test_a_run_goes_on_with_more_and_with_fewer_processes(self):
        for before, after in ((2, 3), (3, 2)):
            with tempfile.TemporaryDirectory() as folder:
                self.run_processes(folder, before, 1, 17)
                delivered = self.seen(folder, before)["0"]
                length = len(delivered) // before
                for steps in (17, length // 17 * 17):  # in the middle; at the end of 2 processes' epoch
                    self.run_processes(folder, after, 2, 0, os.path.join(folder, "step=%d.ckpt" % steps))
                    self.check(self.seen(folder, after), delivered[: steps * before])

    def run_processes(self, folder, devices, epochs, steps, *checkpoint):
        done = python(
            LIGHTNING + """
folder, devices, epochs, steps, *checkpoint = sys.argv[1:]
model = fit(folder, int(devices), 1, int(epochs), *checkpoint, steps=int(steps))
with open(os.path.join(folder, "%d" % int(os.environ.get("LOCAL_RANK", 0))), "w") as file:
    json.dump(model.seen, file)
""",
            folder,
            str(devices),
            str(epochs),
            str(steps),
            *checkpoint,
            OMP_NUM_THREADS="1",
        )
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])

    def seen(self, folder, devices):
        """{epoch: targets}, in the order of batches, those of all ranks one after the other."""
        ranks = []
        for rank in range(devices):
            with open(os.path.join(folder, str(rank))) as file:
                ranks.append(json.load(file))
        return {epoch: flat(flat(zip(*(rank[epoch] for rank in ranks)))) for epoch in ranks[0]}


class Untouched(unittest.TestCase):
    """warp=None copies pixels."""

    SIZES = ((17, 17, 16, 16), (19, 20, 16, 16), (21, 16, 16, 17), (7, 30, 16, 5), (15, 1, 18, 4))

    @staticmethod
    def pixels(width, height):
        return bytes((x * 37 + y * 101 + x * y) % 251 for y in range(height) for x in range(width))

    def test_without_a_warp_pixels_are_copied_also_where_margins_are_odd(self):
        for width, height, out_width, out_height in self.SIZES:
            pixels = self.pixels(width, height)
            loader = benzina.DataLoader(
                One(b"P5\n%d %d\n255\n" % (width, height) + pixels),
                (out_height, out_width),
                warp=None,
                output="field",
                dtype="uint8",
                channels="gray",
            )
            (images,) = [list(images.memoryview().cast("B")) for images, _ in loader]
            left, top = (self.first(*pair) for pair in ((width, out_width), (height, out_height)))
            expected = [
                pixels[(y + top) * width + x + left] if 0 <= x + left < width and 0 <= y + top < height else 0
                for y in range(out_height)
                for x in range(out_width)
            ]
            self.assertEqual(images, expected)

    @staticmethod
    def first(size, out):
        """As torchvision has it: round() of Python's, and the smaller half of a margin first."""
        return round((size - out) / 2.0) if size >= out else -((out - size) // 2)

    @needs("torch", "torchvision", "numpy", "PIL")
    def test_the_middle_is_torchvisions(self):
        import numpy
        from PIL import Image
        from torchvision.transforms import CenterCrop

        for width, height, out_width, out_height in self.SIZES:
            for channels in (1, 3):
                pixels = numpy.random.RandomState(width).randint(0, 256, (height, width, channels), "uint8")
                loader = benzina.DataLoader(
                    One(pixels),
                    (out_height, out_width),
                    warp=None,
                    output="numpy",
                    dtype="uint8",
                    layout="NHWC",
                    channels="gray" if channels == 1 else "RGB",
                )
                ((images, _),) = loader
                picture = Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels)
                expected = numpy.asarray(CenterCrop((out_height, out_width))(picture))
                self.assertTrue((images[0] == expected.reshape(images[0].shape)).all())


PICTURE = b"P5\n4 4\n255\n" + bytes(16)


class Listed:
    """Samples of a list, which is no list of files here."""

    def __init__(self, samples):
        self.samples = samples

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        return self.samples[index]


def dicts(key, *labels, **more):
    return Listed([{"image": PICTURE, key: label, **more} for label in labels])


def palette_png(width, height, indices):
    """A PNG with a palette, whose colors are not gray."""
    rows = b"".join(b"\0" + bytes(indices[y * width : (y + 1) * width]) for y in range(height))
    colors = bytes((index * k) % 256 for index in range(256) for k in (31, 57, 101))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0))
        + chunk(b"PLTE", colors)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


@needs_decoder
class Masks(unittest.TestCase):
    """A mask implies the indices of its palette."""

    CLASSES = [7, 0, 255, 21, 1, 2, 3, 4] * 2

    def loader(self, output, **settings):
        mask = palette_png(4, 4, self.CLASSES)
        source = Listed([{"image": PICTURE, "masks": mask}] * 2)
        return benzina.DataLoader(benzina.Dataset(source, **settings), 4, 2, warp=None, output="field", outputs=output)

    def test_a_palettes_mask_has_its_indices_whatever_the_data_set_says(self):
        for settings in ({}, {"palette": "colors"}, {"palette": "index"}):
            _, _, fields = next(iter(self.loader(benzina.Output.mask("masks"), **settings)))
            self.assertEqual(list(fields["masks"].memoryview().cast("B")), self.CLASSES * 2)

    def test_an_output_that_is_no_mask_has_colors(self):
        _, _, fields = next(iter(self.loader(benzina.Output("masks", field="masks", dtype="uint8", own_color=True))))
        red = [index * 31 % 256 for index in self.CLASSES]
        self.assertEqual(list(fields["masks"].memoryview().cast("B"))[:16], red)
        colors = self.loader(benzina.Output.mask("masks", palette="colors", channels="RGB"))
        self.assertEqual(list(next(iter(colors))[2]["masks"].memoryview().cast("B"))[:16], red)

    def test_outputs_of_one_field_that_differ_are_refused(self):
        outputs = [benzina.Output.mask("masks"), benzina.Output("shown", field="masks")]
        with self.assertRaisesRegex(ValueError, r"outputs\[1\].palette: another output has the same field"):
            self.loader(outputs)

    @needs("PIL", "numpy")
    def test_the_numbers_are_those_of_pil(self):
        import numpy
        from PIL import Image

        expected = numpy.asarray(Image.open(io.BytesIO(palette_png(4, 4, self.CLASSES))))
        _, _, fields = next(iter(self.loader(benzina.Output.mask("masks"))))
        self.assertTrue((fields["masks"].numpy()[0, 0] == expected).all())


class Labels(unittest.TestCase):
    """A label is a target, a field that was asked for, or refused by its name; never -1 without a word."""

    def targets(self, source, tensors=None, **settings):
        dataset = benzina.Dataset(source, **settings)
        loader = benzina.DataLoader(dataset, 4, len(dataset), output="field", tensors=tensors)
        (batch,) = loader
        self.assertEqual(list(batch[1].memoryview()), list(dataset.targets))
        return list(batch[1].memoryview()) if tensors is None else batch[2][tensors[0]].memoryview().tolist()

    def refused(self, source, words, **settings):
        with self.assertRaisesRegex(ValueError, words):
            benzina.DataLoader(benzina.Dataset(source, **settings), 4)

    def test_whole_numbers_are_targets_whatever_the_key(self):
        for key in ("target", "label", "labels", "cls", "fine_label"):
            self.assertEqual(self.targets(dicts(key, 3, 0, 300)), [3, 0, 300])
        self.assertEqual(self.targets(dicts("label", 3, None)), [3, -1])
        self.assertEqual(self.targets(dicts("label", 3, 4), tensors=["label"]), [3, 4])
        self.assertEqual(self.targets(dicts("label", 3, 4, target=9)), [9, 9])
        self.assertEqual(self.targets(dicts("label", 3, 4, fine_label=9)), [3, 4])

    def test_one_of_several_labels_is_chosen_by_its_key(self):
        both = dicts("fine_label", 3, 4, coarse_label=1)
        self.assertEqual(self.targets(both, target="coarse_label"), [1, 1])
        self.assertEqual(self.targets(both, target="fine_label"), [3, 4])
        self.refused(
            both, "field 'coarse_label' is one of several.*target='coarse_label'|'fine_label' is one of several"
        )
        self.refused(
            both, "target: samples have no 'label' among 'image', 'fine_label', 'coarse_label'", target="label"
        )

    def test_numbers_with_fractions_and_lists_are_refused_unless_asked_for(self):
        for key in ("label", "labels", "category"):
            for label in (0.5, [1, 2]):
                self.refused(dicts(key, label), "field '%s' is not one whole number.*tensors=\\['%s'\\]" % (key, key))
                self.assertEqual(
                    self.targets(dicts(key, label), tensors=[key]), [label if type(label) is list else [label]]
                )

    def test_names_are_numbers_by_classes(self):
        for source in (dicts("label", "b", "a"), dicts("cls", "b", "a"), Listed([(PICTURE, "b"), (PICTURE, "a")])):
            self.assertEqual(self.targets(source, classes=["a", "b"]), [1, 0])
            self.assertEqual(benzina.Dataset(source, classes=["a", "b"]).classes, ["a", "b"])
        self.refused(dicts("label", "b"), "field 'label' is not one whole number.*classes=")
        self.refused(Listed([(PICTURE, "b")]), "field 'target' is not one whole number.*classes=")
        with self.assertRaisesRegex(ValueError, "label: 'c' is none of classes, 'a', 'b'"):
            benzina.Dataset(dicts("label", "b", "c"), classes=["a", "b"]).targets

    def test_arrays_take_names_too(self):
        made = benzina.from_arrays([PICTURE] * 3, ["b", "a", "b"], classes=["a", "b"])
        self.assertEqual(list(made.targets), [1, 0, 1])
        with self.assertRaisesRegex(ValueError, "labels: 'b' is a name: give classes="):
            benzina.from_arrays([PICTURE], ["b"])

    def test_pictures_alone_are_loaded_when_that_is_said(self):
        for label in (0.5, "a", [1, 2]):
            self.assertEqual(self.targets(dicts("label", label), fields=["image"]), [-1])


class Refused(unittest.TestCase):
    """What would have no effect, or another one than is meant."""

    @staticmethod
    def loader(**options):
        return benzina.DataLoader(Numbered(8), **{"shape": 4, "batch_size": 4, "output": "field", **options})

    def test_a_random_resized_crop_takes_pairs_as_torchvisions(self):
        for options in (dict(scale=0.08), dict(ratio=0.75), dict(scale=1), dict(ratio=1.0)):
            (name,) = options
            for crops in ("torchvision", "benzina"):
                with self.assertRaisesRegex(TypeError, "%s: .* is one number: give two" % name):
                    ops.RandomResizedCrop(crops=crops, **options)
        for options in (dict(scale=(1, 0.08)), dict(ratio=(4 / 3, 3 / 4))):
            with self.assertRaisesRegex(ValueError, "the smaller number comes first"):
                ops.RandomResizedCrop(**options)
        self.assertEqual(ops.RandomResizedCrop(scale=[0.5, 1]).scale, (0.5, 1.0))

    @needs("torch", "torchvision")
    def test_torchvision_refuses_the_same_numbers(self):
        from torchvision.transforms import RandomResizedCrop

        for options in (dict(scale=0.08), dict(ratio=0.75)):
            with self.assertRaises(TypeError):
                RandomResizedCrop(4, **options)

    @needs("numpy")
    def test_the_originals_module_keeps_its_law(self):
        from benzina.torch import operations

        crop = operations.RandomResizedCrop(0.08, (4 / 3, 3 / 4))
        self.assertEqual((crop.scale, crop.ratio, crop.crops), ((0.08, 12.5), (3 / 4, 4 / 3), "benzina"))

    @needs("numpy")
    def test_whole_numbers_of_a_table_stay_what_they_are(self):
        import numpy
        from benzina import mx

        numbers = [[2**24 + 1, -(2**53) - 1], [2**62 + 1, 7]]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "numbers.csv")

            def batch(dtype, rows, **options):
                with open(path, "w") as file:
                    file.write("".join(",".join(map(str, row)) + "\n" for row in rows))
                return next(mx.CSVIter(data_csv=path, data_shape=(2,), batch_size=2, dtype=dtype, **options))

            found = batch("int64", numbers, label_csv=path, label_shape=(2,))
            self.assertEqual((found.data[0].tolist(), found.label[0].tolist()), (numbers, numbers))
            self.assertEqual(found.data[0].dtype, numpy.int64)
            self.assertEqual(batch("int32", [[2**24 + 1, 2], [3, 4.0]]).data[0].tolist(), [[2**24 + 1, 2], [3, 4]])
            self.assertEqual(batch("float64", [[0.1, 2**53 - 1], [1, 2]]).data[0].tolist(), [[0.1, 2**53 - 1], [1, 2]])
            self.assertEqual(batch(None, [[0.5, 1], [1, 2]]).data[0].dtype, numpy.float32)
            for dtype, rows, words in (
                ("int32", [[2**31, 1], [1, 2]], "cannot hold"),
                ("uint8", [[256, 1], [1, 2]], "uint8"),
                ("int64", [[1, 1], [1.5, 2]], "row 2: .* are not whole numbers"),
                ("int64", [[1.5, 1], [1, 2]], "row 1: .* are not whole numbers"),
            ):
                with self.assertRaisesRegex(ValueError, words):
                    batch(dtype, rows)

    def test_gray_pictures_take_one_number(self):
        for name, three in (
            ("mean", (1, 2, 3)),
            ("std", (1, 2, 3)),
            ("bias", [1, 2, 3]),
            ("norm", [1, 2, 3]),
            ("oob", (1, 2, 3)),
        ):
            with self.assertRaisesRegex(ValueError, "%s, channels: gray pictures have one channel" % name):
                self.loader(channels="gray", **{name: three})
            with self.assertRaisesRegex(ValueError, "%s, channels: gray pictures have one channel" % name):
                benzina.Output("more", channels="grey", **{name: three})
        for mean in (2, (2,), [2, 2, 2]):  # torchvision's Normalize of MNIST has one in a tuple
            images, _ = next(iter(self.loader(channels="gray", mean=mean, std=mean, warp=None)))
            self.assertEqual(list(images.memoryview().cast("B").cast("f"))[::16], [(n - 2) / 2 for n in range(4)])

    def test_a_loader_keeps_its_arguments(self):
        loader = self.loader()
        for name, value in (
            ("batch_size", 5),
            ("weights", [1] * 8),
            ("shuffle", True),
            ("dataset", None),
            ("seed", 4),
            ("rank", 1),
            ("shape", 8),
            ("mean", 0),
            ("output", "torch"),
            ("drop_last", True),
            ("num_threads", 2),
        ):
            with self.assertRaisesRegex(AttributeError, "%s: a DataLoader keeps what it was made with" % name):
                setattr(loader, name, value)
        for name in ("epoch", "sampler"):
            with self.assertRaises(AttributeError):
                setattr(loader, name, 1)
        loader.timeout, loader.notes = 9, "mine"  # which is looked at, and which is the caller's own
        self.assertEqual((loader.timeout, loader.notes, len(list(loader))), (9, "mine", 2))

    @needs("numpy")
    def test_what_a_callback_returns_is_refused(self):
        for name in ("transform", "picture"):
            loader = self.loader(**{name: lambda sample, rng, thing: thing})
            with self.assertRaisesRegex(
                TypeError, "%s: it returned '.*ansform|%s: it returned 'Picture'" % (name, name)
            ):
                list(loader)
            self.assertEqual(len(list(self.loader(**{name: lambda sample, rng, thing: None}))), 2)


def has_streams():
    try:
        benzina._stream._library()
    except ImportError:
        return False
    return True


needs_stream = unittest.skipUnless(has_streams(), "libbenzina_stream.so was not built [zlib1g-dev libzstd-dev]")


class Messages(unittest.TestCase):
    """What is written nearly right, and what the refusal says to write."""

    @staticmethod
    def loader(**options):
        return benzina.DataLoader(Numbered(8), **{"shape": 4, "batch_size": 4, "output": "field", **options})

    @needs_stream
    def test_a_stream_of_a_url_is_told_the_command(self):
        for url, words in (
            ("http://127.0.0.1:9/a.tar", "pipe:curl -sfL http://127.0.0.1:9/a.tar; or cache=FOLDER"),
            ("https://h/{000..146}.tar?a&b", "pipe:curl -sfL 'https://h/{000..146}.tar?a&b'; or cache"),
            ("s3://bucket/a.tar", "pipe:COMMAND"),
        ):
            for given in (url, url.encode(), ["a.tar", url]):
                with self.assertRaises(ValueError) as raised:
                    benzina.Stream(given, 4)
                self.assertIn("sources: %s is a URL" % url, str(raised.exception))
                self.assertIn(words, str(raised.exception))
        benzina.Stream("pipe:true http://h/a.tar", 4).close()

    def test_a_state_that_is_none_is_told_from_a_loaders(self):
        loader = self.loader()
        for state, kind, words in (
            ({}, ValueError, "state_dict: it is empty, and no 'state': give what the state_dict"),
            ({"model": 1, "epoch": 2}, ValueError, "state_dict: it has 'model', 'epoch', and no 'state'"),
            (None, TypeError, "state: None is neither bytes nor"),
            ({"state": [1, 2]}, TypeError, r"state: \[1, 2\] is neither bytes nor"),
            ({"state": "no digits"}, ValueError, "state: 'no digits' is neither bytes nor their hexadecimal digits"),
            ({"state": "00ff"}, ValueError, "state: 2 bytes, not 128"),
        ):
            with self.assertRaisesRegex(kind, words):
                loader.load_state_dict(state)
        self.assertEqual((loader.epoch, len(list(loader))), (0, 2))

    def test_a_state_goes_through_json(self):
        loader = numbered(batch_size=10)
        steps = loader.batches()
        seen = list(next(steps).targets.memoryview())
        state = json.loads(json.dumps(loader.state_dict()))
        self.assertEqual(state, loader.state_dict())
        former = {"state": bytes.fromhex(state["state"]), "batches": 1}    # as earlier releases gave it
        for one in (state, former, state["state"], former["state"], collections.OrderedDict(state)):
            again = numbered(batch_size=10)
            again.load_state_dict(one)
            rest = [target for batch in again.batches() for target in list(batch.targets.memoryview())]
            self.assertEqual(sorted(seen + rest), [*range(COUNT)])

    def test_a_warp_that_is_none_is_named_once(self):
        for warp in ("a", [1, 2], (1, 2, 3, 4, 5, 6, 7, 8, float("nan")), (0,) * 9):
            with self.assertRaises((TypeError, ValueError)) as raised:
                self.loader(warp=warp)
            self.assertRegex(str(raised.exception), "^warp: (?!warp).*; a callable or one of ops will do, too$")

    def test_an_argument_that_is_misspelled_is_told_the_name(self):
        for name, near in (("suffle", "shuffle"), ("batchsize", "batch_size"), ("nrom", "norm"), ("see", "seed")):
            words = r"DataLoader has no argument %s \(did you mean %s\?\)$" % (name, near)
            with self.assertRaisesRegex(TypeError, words):
                self.loader(**{name: 1})
        with self.assertRaisesRegex(TypeError, "DataLoader has no argument quux$"):
            self.loader(quux=1)

    @needs_stream
    def test_an_argument_of_a_stream_that_is_misspelled_is_told_the_name(self):
        for name, near in (("suffle", "shuffle"), ("sample_per_epoch", "samples_per_epoch")):
            with self.assertRaisesRegex(TypeError, r"Stream has no argument %s \(did you mean %s\?\)$" % (name, near)):
                benzina.Stream("a.tar", 4, **{name: 1})

    def test_a_field_that_no_sample_has_is_a_key_error_and_an_error(self):
        dataset = benzina.Dataset(Numbered(8))
        for fails_so in (
            lambda: self.loader(tensors=["absent"]),
            lambda: self.loader(bytes=["absent"]),
            lambda: self.loader(track="absent"),
            lambda: self.loader(outputs=benzina.Output("more", 4, field="absent")),
            lambda: self.loader(rules=benzina.Rule("absent")),
            lambda: dataset.field(0, "absent"),
            lambda: dataset[0].fields["absent"],
            lambda: benzina.Dataset(Numbered(8), fields=["absent"]),
        ):
            with self.assertRaises(benzina.FieldError) as raised:
                fails_so()
            error = raised.exception
            self.assertIsInstance(error, KeyError)
            self.assertIs(type(pickle.loads(pickle.dumps(error))), benzina.FieldError)
            self.assertIn("absent", str(error))
        self.assertEqual((dataset[0].fields.get("absent"), "absent" in dataset[0].fields), (None, False))


class Names(unittest.TestCase):
    """What editors and type checkers are told, and arrays of targets."""

    def test_a_star_brings_the_transforms_alone(self):
        names = {}
        exec("from benzina.ops import *", names)
        names.pop("__builtins__")
        self.assertEqual(sorted(names), sorted(ops.__all__))
        own = {
            name
            for name, one in vars(ops).items()
            if not name.startswith("_") and getattr(one, "__module__", None) == "benzina.ops"
        }
        self.assertEqual(own - {"Shown"}, set(ops.__all__))

    def test_literal_types_have_the_names_that_are_taken(self):
        choices = benzina._arguments.CHOICES

        def literals(hint):
            parts = typing.get_args(hint)
            if typing.get_origin(hint) is typing.Literal:
                return set(parts)
            return set().union(*map(literals, parts))

        for kind in (benzina.DataLoader, benzina.Output):
            hints = typing.get_type_hints(kind.__init__)
            for name in choices.keys() & hints.keys():
                names = {one for one in choices[name] if isinstance(one, str)}
                self.assertEqual(literals(hints[name]), names, (kind, name))
        others = benzina._arguments.OTHER_CHOICES
        for kind, argument, name in (
            (benzina.Rule, "dtype", "rule_dtype"),
            (ops.Operation, "kind", "operation"),
            (ops.Operation, "value_space", "value_space"),
            (ops.Policy, "apply", "policy_apply"),
            (ops.RandomResizedCrop, "crops", "crops"),
            (benzina.Dataset, "split", "split"),
            (benzina.Dataset, "palette", "palette"),
            (benzina.Dataset, "class_order", "class_order"),
        ):
            names = {one for one in others[name] if isinstance(one, str)}
            self.assertEqual(literals(typing.get_type_hints(kind.__init__)[argument]), names, (kind, argument))

    @needs("mypy", "numpy", "torch")
    def test_mypy_takes_types_of_numpy_and_torch_and_finds_other_names(self):
        def judged(line):
            return python(
                "import sys\nfrom mypy import api\n"
                "print(api.run(['--cache-dir', sys.argv[2], '--follow-imports=silent', '-c', sys.argv[1]])[0])",
                "import benzina\n" + line,
                folder,
                MYPYPATH=os.path.dirname(os.path.dirname(benzina.__file__)),
            ).stdout

        with tempfile.TemporaryDirectory() as folder:
            made = "benzina.DataLoader('a', 4, dtype=%s)\n"
            right = "import numpy\n" + "".join(
                made % dtype for dtype in ("numpy.float32", "numpy.dtype('u1')", "'bfloat16'", "'uint8'")
            )
            self.assertIn("Success", judged(right))
            for dtype in ("'float61'", "'float64'", "3"):
                self.assertIn('"dtype"', judged(made % dtype))
            slip = "import benzina.mx\nbenzina.mx.NDArrayIter([], last_batch_handle='stop')"
            self.assertIn('"last_batch_handle"', judged(slip))

    @needs("numpy")
    def test_targets_compare_number_by_number(self):
        import numpy

        targets = benzina.Dataset(Numbered(5)).targets
        self.assertEqual((targets == 3).tolist(), [False, False, False, True, False])
        self.assertTrue((targets == [0, 1, 2, 3, 4]).all())
        self.assertEqual((targets.dtype, numpy.flatnonzero(targets > 2).tolist()), (numpy.int64, [3, 4]))
        self.assertEqual(benzina.Dataset(Numbered(5))[numpy.flatnonzero(targets > 2)].targets.tolist(), [3, 4])
        self.assertIs(type(benzina.Dataset(Numbered(5)).samples[3][1]), int)

    def test_targets_are_an_array_without_numpy(self):
        done = python(
            "import sys\nsys.modules['numpy'] = None\nimport benzina\n"
            "class One:\n"
            "    def __len__(self):\n        return 1\n"
            "    def __getitem__(self, index):\n        return b'P5\\n1 1\\n255\\n0', 7\n"
            "print(repr(benzina.Dataset(One()).targets))"
        )
        self.assertEqual(done.stdout, "array('q', [7])\n", done.stderr)

    def test_samples_begin_with_the_root_as_it_was_given(self):
        with tempfile.TemporaryDirectory() as folder:
            for kind in ("cat", "dog"):
                os.mkdir(os.path.join(folder, kind))
                with open(os.path.join(folder, kind, "0.ppm"), "wb") as file:
                    file.write(b"P6\n1 1\n255\n123")
            near = os.path.relpath(folder)
            for root in (folder, near, near + "/", os.fsencode(near), pathlib.Path(near)):
                dataset = benzina.Dataset(root)
                expected = [
                    (os.path.join(os.fsdecode(root), kind, "0.ppm"), i) for i, kind in enumerate(("cat", "dog"))
                ]
                for one in (dataset, pickle.loads(pickle.dumps(dataset)), dataset[:]):
                    self.assertEqual((one.samples, one.imgs), (expected, expected))
                self.assertEqual((dataset[1:].samples, dataset[[1]].samples), (expected[1:], expected[1:]))

    @needs("torchvision")
    def test_torchvisions_samples_begin_so(self):
        import torchvision

        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "cat"))
            with open(os.path.join(folder, "cat", "0.ppm"), "wb") as file:
                file.write(b"P6\n1 1\n255\n123")
            for root in (folder, os.path.relpath(folder), os.path.relpath(folder) + "/"):
                self.assertEqual(benzina.Dataset(root).samples, torchvision.datasets.ImageFolder(root).samples)


class Wheel(unittest.TestCase):
    def test_a_wheel_without_its_tools_says_what_static_deps_is_for(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("sh", "mkdir", "getconf", "uname", "nasm", "cmake"):
                found = shutil.which(name) if name not in ("nasm", "cmake") else shutil.which("true")
                os.symlink(found, os.path.join(folder, name))
            for kind, absent, made in (
                (["wheel"], "meson ninja dpkg-source pkg-config libffmpeg-nvenc-dev", "that a wheel has inside are"),
                ([], "meson ninja dpkg-source pkg-config", "A static FFmpeg is"),
            ):
                done = subprocess.run(
                    [shutil.which("sh"), "tests/make/codecs.sh", os.path.join(folder, "made"), *kind],
                    capture_output=True,
                    text=True,
                    env={"PATH": folder},
                )
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertRegex(
                    done.stderr, "^codecs: missing: %s. .*%s built from sources: make static-deps installs" % (absent, made)
                )


class Truncated(unittest.TestCase):
    """A shard whose end is missing."""

    def shard(self, folder, name, samples, cut):
        path = os.path.join(folder, name)
        with tarfile.open(path, "w") as tar:
            for number in samples:
                for kind, data in (("cls", b"%d" % number), ("pgm", PICTURE[:-16] + bytes([number]) * 16)):
                    member = tarfile.TarInfo("%03d.%s" % (number, kind))
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
        if cut is not None:
            os.truncate(path, cut)
        return path

    def passed(self, urls, handler, shape=None):
        from benzina import wds

        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            pipeline = wds.WebDataset(urls, handler=handler, shardshuffle=False)
            if shape:
                pipeline = pipeline.decode("rgb8", shape=shape, warp=None)
            return [int(sample["__key__"]) for sample in pipeline], sum("Error" in str(one.message) for one in said)

    @needs("numpy")
    def test_its_whole_samples_are_delivered(self):
        from benzina import wds

        with tempfile.TemporaryDirectory() as folder:
            for cut, whole in (
                (4 * 2048 + 700, [0, 1, 2, 3]),
                (4 * 2048 + 2047 - 500, [0, 1, 2, 3]),
                (5 * 2048 + 100, [0, 1, 2, 3, 4]),
                (3 * 2048 + 1024 + 512 + 3, [0, 1, 2]),
            ):
                urls = [self.shard(folder, "a.tar", range(10), cut), self.shard(folder, "b.tar", range(20, 22), None)]
                for shape in (None, 4):
                    self.assertEqual(
                        self.passed(urls, wds.warn_and_continue, shape), (whole + [20, 21], 1), (cut, shape)
                    )
                    self.assertEqual(
                        self.passed(urls, wds.ignore_and_continue, shape), (whole + [20, 21], 0), (cut, shape)
                    )
                    self.assertEqual(self.passed(urls, wds.warn_and_stop, shape), (whole, 1), (cut, shape))
                with self.assertRaises(benzina.Error):
                    self.passed(urls, wds.reraise_exception)

    @needs("numpy", "webdataset")
    def test_webdatasets_own_gives_the_same(self):
        import webdataset
        from benzina import wds

        with tempfile.TemporaryDirectory() as folder:
            for cut in (4 * 2048 + 100, 7 * 2048 + 300):
                url = self.shard(folder, "a.tar", range(10), cut)
                theirs = webdataset.WebDataset(url, handler=webdataset.ignore_and_continue, shardshuffle=False)
                self.assertEqual(
                    [int(sample["__key__"]) for sample in theirs], self.passed([url], wds.ignore_and_continue)[0]
                )


class Said(unittest.TestCase):
    """What a program prints when something fails."""

    PROGRAM = """
import sys, benzina
class Numbered:
    def __len__(self):
        return 8
    def __getitem__(self, index):
        if index == 3 and sys.argv[1] == "item":
            raise KeyError("mine")
        return b"P5\\n4 4\\n255\\n" + bytes(3 if index == 3 and sys.argv[1] == "sample" else 16), index
def fails(sample, rng, thing):
    raise RuntimeError("mine")
settings = {"transform": fails} if sys.argv[1] == "transform" else {}
loader = benzina.DataLoader(Numbered(), 4, 4, output="field", **settings)
for epoch in range(3):
    for images, targets in loader:
        pass
"""

    def said(self, kind):
        return python(self.PROGRAM, kind).stderr

    @unittest.skipIf(sys.version_info < (3, 11), "exceptions have notes from Python 3.11 on")
    def test_an_exception_of_a_callback_is_its_traceback_alone(self):
        said = self.said("transform")
        self.assertTrue(said.startswith("Traceback (most recent call last):\n"), said)
        self.assertEqual(
            (said.count("Traceback"), said.count("RuntimeError: mine"), said.count("the transform callback")), (1, 1, 1)
        )
        self.assertRegex(said, "RuntimeError: mine\nprovider: sample \\d: the transform callback returned -\\d+\n$")

    def test_a_broken_sample_is_logged_once(self):
        for kind, words in (
            ("sample", "provider: sample 3: "),
            ("item", "provider: sample 3: KeyError: 'mine'"),
        ):
            lines = [line for line in self.said(kind).split("\n") if line.startswith(words)]
            self.assertEqual(len(lines), 1, lines)


def doubled(data, sample):
    """What a rule makes of a field."""
    return [2 * data[0]]


SETTINGS = [
    benzina.Output(
        "small", 8, warp=ops.RandomResizedCrop((0.5, 1)), mean=(1, 2, 3), augment=[ops.RandAugment()], antialias=True
    ),
    benzina.Output.mask("image", "mask", oob=7),
    benzina.Rule(".json"),
    ops.MXNetAffine(max_rotate_angle=10, min_random_scale=0.5),
    ops.ColorJitter(0.4, 0.3),
    ops.SimilarityTransform(degrees=10),
    ops.RandomApply([ops.GaussianBlur(3)], 0.5),
    ops.Policy([ops.Operation("rotate", 5)]),
    benzina.Random(seed=3),
    benzina.structs.transform(bias=(1, 2, 3)),
]


if why_not("numpy") is None:
    SETTINGS.append(benzina.Rule("label", doubled, "twice", shape=3, rows=2, dtype="int64"))


class Kept(unittest.TestCase):
    """Settings that are kept in files, and sent to other processes."""

    def test_settings_are_pickled_copied_and_printed(self):
        for one in SETTINGS:
            for again in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one), copy.copy(one)):
                self.assertIs(type(again), type(one))
                self.assertEqual(repr(again), repr(one))
                self.assertEqual(repr(pickle.loads(pickle.dumps(again))), repr(one))
        self.assertEqual(
            repr(SETTINGS[0]),
            "Output(name='small', shape=8, warp=RandomResizedCrop(scale=(0.5, 1)), "
            "mean=(1, 2, 3), antialias=True, augment=[RandAugment()])".replace("(0.5, 1)", "(0.5, 1.0)"),
        )

    @needs("numpy")
    def test_a_rule_names_its_function(self):
        text = "Rule(field='label', function=doubled, name='twice', shape=3, dtype='int64', rows=2)"
        self.assertEqual(repr(SETTINGS[-1]), text)

    def test_copies_make_the_same_batches(self):
        def batch(outputs, warp):
            loader = benzina.DataLoader(
                Numbered(8), 8, 4, output="field", outputs=outputs, warp=warp, shuffle=True, seed=3
            )
            images, _, fields = next(iter(loader))
            return [bytes(one.memoryview().cast("B")) for one in (images, fields["small"], fields["mask"])]

        outputs, warp = SETTINGS[:2], SETTINGS[3]
        self.assertEqual(batch(outputs, warp), batch(*pickle.loads(pickle.dumps((outputs, warp)))))
        self.assertEqual(batch(outputs, warp), batch(*copy.deepcopy((outputs, warp))))

    @needs("torch", "numpy", "lightning")
    def test_lightning_keeps_them_as_hyperparameters(self):
        with tempfile.TemporaryDirectory() as folder:
            done = python(
                LIGHTNING + """
class Kept(Model):
    def __init__(self, output, warp, jitter):
        super().__init__()
        self.save_hyperparameters()
model = Kept(benzina.Output("small", 8, mean=(1, 2, 3)), benzina.ops.MXNetAffine(max_rotate_angle=10), benzina.ops.ColorJitter(0.4))
trainer = lightning.Trainer(accelerator="cpu", max_epochs=1, enable_progress_bar=False, enable_model_summary=False, default_root_dir=sys.argv[1],
                            logger=lightning.pytorch.loggers.CSVLogger(sys.argv[1]))
trainer.fit(model, benzina.DataLoader(Numbered(), 4, batch_size=50))
trainer.save_checkpoint(sys.argv[1] + "/kept.ckpt")
again = Kept.load_from_checkpoint(sys.argv[1] + "/kept.ckpt", weights_only=False)
print(again.hparams.output, again.hparams.warp.__class__.__name__, again.hparams.jitter)
""",
                folder,
            )
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        self.assertIn("Output(name='small', shape=8, mean=(1, 2, 3)) MXNetAffine ColorJitter(", done.stdout)

    @needs("hydra", "omegaconf")
    def test_hydra_makes_them(self):
        import hydra
        import omegaconf

        config = omegaconf.OmegaConf.create(
            {
                "_target_": "benzina.DataLoader",
                "shape": [4, 4],
                "batch_size": 4,
                "mean": [1, 2, 3],
                "std": [4, 5, 6],
                "output": "field",
                "warp": {"_target_": "benzina.ops.RandomResizedCrop", "scale": [0.5, 1.0]},
                "augment": [{"_target_": "benzina.ops.RandAugment", "num_ops": 1}],
                "outputs": [{"_target_": "benzina.Output.mask", "field": "image", "name": "mask", "shape": [2, 2]}],
            }
        )
        images, _, fields = next(iter(hydra.utils.instantiate(config, dataset=Numbered(8))))
        self.assertEqual((images.shape, fields["mask"].shape), ((4, 3, 4, 4), (4, 1, 2, 2)))

    @needs("cloudpickle", "numpy")
    def test_cloudpickle_takes_them_as_ray_does(self):
        import cloudpickle

        for one in SETTINGS:
            self.assertEqual(repr(pickle.loads(cloudpickle.dumps(one))), repr(one))
        rule = cloudpickle.loads(cloudpickle.dumps(benzina.Rule("label", lambda data, sample: [1], shape=1)))
        self.assertIn("lambda", repr(rule))


class Subinterpreters(unittest.TestCase):
    PROGRAM = """
try:
    import _interpreters
    number = _interpreters.create("isolated")
except ImportError:
    import _xxsubinterpreters as _interpreters
    number = _interpreters.create(isolated=True)
_interpreters.run_string(number, "import sys\\ntry:\\n import benzina\\n print('imported', flush=True)\\n"
                                 "except ImportError as error:\\n print(error, flush=True)\\n")
"""

    def test_an_isolated_one_is_refused_with_the_reason(self):
        done = python(self.PROGRAM)
        if "No module named" in done.stderr:
            self.skipTest("this Python has no subinterpreters")
        found = "isolated subinterpreter .* the main interpreter" if sys.version_info >= (3, 13) else "_ctypes|imported"
        self.assertRegex(done.stdout, found)


if __name__ == "__main__":
    run_tests(sys.modules["__main__"])
