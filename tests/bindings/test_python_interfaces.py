"""test_python_interfaces.py - what programs for the original, MXNet and WebDataset type, beside these where they are
installed

    BENZINA_LIBRARY=build/libbenzina.so python3 tests/bindings/test_python_interfaces.py build/bzna        from the repository's
    root

MXNet 1.9.1 needs Python 3.8 and numpy 1.23; its numbers that stand here were printed by it. Prints FAIL and SKIP lines,
and a count last.
"""
import gc
import gzip
import importlib
import inspect
import io
import itertools
import json
import os
import pickle
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
import unittest.mock
import warnings
import zlib

import test_python_loops as loops
from needs import importable, needs
from test_python import MINI, COUNT, needs_decoder, run_tests
from test_python_loops import PACKAGE, each, folder_of_pictures, write_png

import benzina
from benzina.utils.file import File, Sample, Track

numpy = importable("numpy")
TARGETS = [37 * i if i < 6 else -1 for i in range(COUNT)]
warnings.simplefilter("ignore", RuntimeWarning)


def module(name):
    return importlib.import_module("benzina." + name)


def signature(thing):
    """Names and defaults, without annotations."""
    parameters = inspect.signature(thing).parameters.values()
    return ", ".join(
        p.name if p.default is p.empty else "%s=%r" % (p.name, p.default) for p in parameters if p.name != "self"
    )


def listed(array):
    # a Field, where neither torch nor numpy is
    array = array.memoryview() if hasattr(array, "memoryview") else array
    return array.tolist() if hasattr(array, "tolist") else list(array)


def images_of(batch):
    """The bytes of the first of a batch's arrays."""
    return loops.numbers(batch[0], loops.OUTPUTS[0])


# ---- The original ----------------------------------------------------------------------------------------------------

class Layout(unittest.TestCase):
    """Modules, names, the order of arguments, defaults."""

    SIGNATURES = {
        "torch.dataset.Dataset": "archive=None, track='bzna_input'",
        "torch.dataset.ClassificationDataset": "archive=None, tracks=('bzna_input', 'bzna_target'), input_label='bzna_thumb'",
        "torch.dataset.ImageNet": "root=None, split=None, tracks=('bzna_input', 'bzna_target'), input_label='bzna_thumb'",
        "torch.dataset.ImageDataset": "bch_cursor, target_transform=None, input_label='bzna_thumb'",
        "torch.dataloader.DataLoader": "dataset, shape, path=None, batch_size=1, shuffle=False, sampler=None, batch_sampler=None, "
        "collate_fn=None, drop_last=False, timeout=0, device=None, multibuffering=3, seed=None, "
        "bias_transform=None, norm_transform=None, warp_transform=None",
        "torch.operations.ConstantWarpTransform": "warp=(1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)",
        "torch.operations.ConstantOOBTransform": "oob=(0.0, 0.0, 0.0)",
        "torch.operations.ConstantColorTransform": "index=0",
        "torch.operations.ConstantNormTransform": "norm=(1.0, 1.0, 1.0)",
        "torch.operations.ConstantBiasTransform": "bias=(0.0, 0.0, 0.0)",
        "torch.operations.SimilarityTransform": "scale=(1.0, 1.0), ratio=None, degrees=(-0.0, 0.0), translate=(0.0, 0.0), flip_h=0.0, "
        "flip_v=0.0, resize=False, keep_ratio=False, random_crop=False",
        "torch.operations.RandomResizedCrop": "scale=(0.08, 1.0), ratio=(0.75, 1.3333333333333333)",
        "torch.operations.CenterResizedCrop": "scale=1.0, keep_ratio=True",
        "torch.operations.compute_affine_matrix": "in_shape, out_shape, crop=None, degrees=0.0, translate=(0.0, 0.0), flip_h=False, "
        "flip_v=False, resize=False, keep_ratio=False",
        "torch.operations.SimilarityTransform.__call__": "index, in_shape, out_shape, rng",
        "utils.file.Track": "file, label",
        "utils.file.File": "disk_file, offset=0",
    }

    def test_arguments_are_the_originals_in_its_order_with_its_defaults(self):
        for name, expected in self.SIGNATURES.items():
            thing = benzina
            for part in name.split("."):
                thing = getattr(thing, part) if hasattr(thing, part) else module(part)
            self.assertEqual(signature(thing), expected, name)

    def test_names_are_where_the_original_has_them(self):
        bz, utils = module("torch"), module("utils")
        self.assertIs(bz.DataLoader, bz.dataloader.DataLoader)
        for name in ("Dataset", "ClassificationDataset", "ImageNet", "ImageDataset"):
            self.assertIs(getattr(bz, name), getattr(bz.dataset, name))
        self.assertIs(utils.Track, utils.file.Track)
        for name in ("Warp", "OOB", "Color", "Norm", "Bias"):
            base, constant = (getattr(bz.operations, "%s%sTransform" % (kind, name)) for kind in ("", "Constant"))
            self.assertTrue(issubclass(constant, base))
        self.assertTrue(issubclass(bz.operations.RandomResizedCrop, bz.operations.WarpTransform))

    def test_what_cannot_be_is_refused_with_the_reason(self):
        bz = module("torch")
        with self.assertRaisesRegex(NotImplementedError, "CocoDetection: annotations of COCO"):
            bz.CocoDetection(None, "instances.json")

        class Cursor:
            inode = 1
        with self.assertRaisesRegex(TypeError, "bch_cursor: a Bcachefs image is no container of this library"):
            bz.ImageDataset(Cursor())


class Tracks(unittest.TestCase):
    """benzina.utils.file"""

    def test_a_track_is_a_sequence_of_the_files_bytes(self):
        with open(MINI, "rb") as file:
            whole = file.read()
        data = benzina.Dataset(MINI)
        with Track(MINI, "bzna_input") as track:
            self.assertEqual((len(track), track.label, track.file.path), (COUNT, "bzna_input", MINI))
            for i, sample in enumerate(track):
                self.assertEqual(sample.location, (data[i].offset, data[i].size))
                self.assertEqual(bytes(sample), whole[data[i].offset:data[i].offset + data[i].size])
                self.assertEqual(sample.value[4:8], b"ftyp")
            self.assertEqual([bytes(one) for one in track[2:4]], [bytes(track[2]), bytes(track[3])])
            self.assertEqual(bytes(track[-1]), bytes(track[COUNT - 1]))
            self.assertRaises(IndexError, lambda: track[COUNT])

    def test_a_track_of_pictures_says_where_they_and_their_configuration_are(self):
        with open(MINI, "rb") as file:
            whole = file.read()
        track = Track(MINI, b"bzna_thumb\0")
        self.assertEqual(track.shape, (500, 375))
        self.assertEqual(track[0].value, benzina.Dataset(MINI)[0].image_info("thumb") and whole[68:68 + 14894])
        offset, size = track.video_configuration_location()
        self.assertEqual(whole[offset], 1)      # hvcC's version
        self.assertEqual(whole[offset - 4:offset], b"hvcC")
        self.assertLess(offset + size, len(whole))

    def test_targets_and_names_are_their_bytes(self):
        targets = Track(File(MINI), "bzna_target")
        self.assertEqual([struct.unpack("<q", one.value)[0] for one in targets], TARGETS[:6])
        self.assertEqual(Track(MINI, "bzna_fname")[0].value, b"00_plasma_land.JPEG")

    def test_a_sample_as_a_file_has_its_own_tracks(self):
        with open(MINI, "rb") as file:
            whole = file.read()
        data = benzina.Dataset(MINI)
        for i, sample in enumerate(Track(MINI, "bzna_input")):
            inner = sample.as_file()
            self.assertEqual((inner.offset, inner.name), (data[i].offset, MINI))
            for label in ("bzna_input", "bzna_thumb"):
                track = Track(inner, label)
                info = data[i].image_info(label)
                self.assertEqual((len(track), track.shape), (1, (info.width, info.height)))
                self.assertEqual(track.sample_location(0), (info.data_offset, info.data_size))
                offset, size = track[0].location
                self.assertTrue(data[i].offset < offset < offset + size <= data[i].offset + data[i].size)
                self.assertEqual(track[0].value, whole[offset:offset + size])
                config, size = track.video_configuration_location()
                self.assertEqual(whole[config - 4:config], b"hvcC")
                self.assertTrue(data[i].offset < config < config + size <= data[i].offset + data[i].size)
            self.assertEqual(Track(inner, "bzna_fname")[0].value.decode(), data[i].filename)
            self.assertEqual(inner.trak("bzna_target") is None, data[i].target == -1)
            if data[i].target != -1:
                self.assertEqual(Track(inner, b"bzna_target")[0].value, struct.pack("<q", data[i].target))
            self.assertIsNone(inner.trak("bzna_large"))
            self.assertEqual(Track(File(MINI, inner.offset), "bzna_thumb")[0].value, Track(inner, "bzna_thumb")[0].value)
        self.assertIsNotNone(File(MINI).trak(b"bzna_input\0"))

    def test_what_is_not_known_is_refused_by_name(self):
        self.assertRaisesRegex(ValueError, "no track 'x' among bzna_input, ", len, Track(MINI, "x"))
        self.assertRaisesRegex(
            NotImplementedError, "Track.shape: bzna_target has no pictures", lambda: Track(MINI, "bzna_target").shape
        )
        self.assertRaisesRegex(ValueError, "samples of bzna_thumb are no files", Track(MINI, "bzna_thumb")[0].as_file)
        self.assertRaisesRegex(ValueError, "no sample begins at byte 41", len, Track(File(MINI, 41), "bzna_input"))
        self.assertRaisesRegex(TypeError, "disk_file: a path is needed", File, io.BytesIO())


def archive_of(folder, name, count, splits=(), names=None):
    """Pictures whose names are their numbers, in an archive."""
    picture, path = os.path.join(folder, "one.png"), os.path.join(folder, name)
    write_png(picture, 24, 16, 1)
    with benzina.Writer(path, codec="jpeg") as writer:
        for number in range(count):
            writer.add(
                picture,
                target=number,
                name=names[number] if names else str(number),
                split=splits[number] if splits else None,
            )
    return path


def renamed(path, *pairs):
    """The file with other names in its boxes, of the same lengths: whoever wrote an archive may have named its tracks."""
    with open(path, "rb") as file:
        data = file.read()
    for old, new in pairs:
        assert len(old) == len(new) and old in data
        data = data.replace(old, new)
    with open(path, "wb") as file:
        file.write(data)
    return path


def can_write():
    with tempfile.TemporaryDirectory() as folder:
        try:
            archive_of(folder, "one.bzna", 1)
        except (benzina.Error, ImportError, OSError, ValueError) as error:
            return str(error)
    return None


WHY_NOT_WRITTEN = can_write()
needs_writer = unittest.skipIf(WHY_NOT_WRITTEN, "archives cannot be written: %s" % WHY_NOT_WRITTEN)


class DataSets(unittest.TestCase):
    """Dataset, ClassificationDataset and ImageNet."""

    def setUp(self):
        self.bz = module("torch")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_items_are_the_originals(self):
        plain, classes = self.bz.Dataset(MINI), self.bz.ClassificationDataset(MINI)
        self.assertEqual((len(plain), plain.filename, plain[3]._fields), (COUNT, MINI, ("input",)))
        self.assertIsInstance(plain[3].input, Sample)
        item = classes[1]
        self.assertEqual(
            (item._fields, item.input_label, item.target), (("input", "input_label", "target"), "bzna_thumb", (37,))
        )
        self.assertEqual(item.input.value, Track(MINI, "bzna_input")[1].value)
        self.assertEqual(listed(classes.targets), TARGETS)
        self.assertEqual((len(list(classes)), classes[-1].target), (COUNT, (-1,)))
        self.assertRaises(IndexError, lambda: classes[COUNT])
        self.assertRaisesRegex(
            NotImplementedError, r"benzina.Dataset\(a\) \+ benzina.Dataset\(b\)", lambda: plain + plain
        )

    def test_tracks_take_the_place_of_a_path(self):
        pair = Track(MINI, "bzna_input"), Track(MINI, "bzna_target")
        for data in (
            self.bz.ClassificationDataset(pair),
            self.bz.ClassificationDataset(tracks=pair),
            self.bz.ImageNet(pair),
            self.bz.ImageNet(None, None, pair),
        ):
            self.assertEqual((listed(data.targets), data.filename), (TARGETS, MINI))
        for data in (self.bz.Dataset(pair[0]), self.bz.Dataset(track=pair[0]), self.bz.Dataset(MINI, "bzna_thumb")):
            self.assertEqual(len(data), COUNT)
        self.assertRaisesRegex(ValueError, "tracks: without archive, they are Tracks", self.bz.Dataset)
        self.assertRaisesRegex(
            ValueError, "tracks: with archive, they are labels", self.bz.ClassificationDataset, MINI, pair
        )
        self.assertRaisesRegex(ValueError, "is not present", self.bz.Dataset, os.path.join(self.folder, "none.bzna"))
        self.assertRaisesRegex(ValueError, "tracks: they are of several files", self.bz.ClassificationDataset,
                               (pair[0], Track("tests/data/mini_h264.bzna", "bzna_target")))

    def test_a_path_may_have_the_home_folder_and_variables(self):
        os.environ["BENZINA_TEST_FOLDER"] = os.path.dirname(os.path.abspath(MINI))
        try:
            self.assertEqual(len(self.bz.Dataset("$BENZINA_TEST_FOLDER/" + os.path.basename(MINI))), COUNT)
        finally:
            del os.environ["BENZINA_TEST_FOLDER"]

    @needs_decoder
    def test_input_label_names_the_picture(self):
        def first(*arguments):
            (batch,) = self.bz.DataLoader(self.bz.ClassificationDataset(*arguments), 40, batch_size=COUNT)
            return images_of(batch)
        whole = {
            track: loops.numbers(
                next(
                    iter(benzina.DataLoader(MINI, 40, COUNT, warp=benzina.ops.ConstantWarpTransform(), track=track))
                )[0],
                loops.OUTPUTS[0],
            )
            for track in ("image", "thumb")
        }
        self.assertNotEqual(whole["image"], whole["thumb"])
        labels = ("bzna_input", "bzna_target")
        self.assertEqual(first(MINI), whole["thumb"])
        self.assertEqual(first(MINI, labels, "bzna_input"), whole["image"])
        self.assertEqual(first(MINI, ("bzna_thumb", "bzna_target")), whole["thumb"])
        data = self.bz.ClassificationDataset(MINI, labels, "bzna_large")
        self.assertRaisesRegex(
            ValueError,
            "input_label: samples of .* have no 'bzna_large' among bzna_input, bzna_thumb",
            self.bz.DataLoader,
            data,
            8,
        )
        folder = self.bz.ClassificationDataset(each())      # whose samples have one picture
        self.assertEqual(len(self.bz.DataLoader(folder, 8, batch_size=COUNT)), 1)

    @needs_writer
    def test_imagenet_is_a_file_or_a_folder_with_it(self):
        os.makedirs(os.path.join(self.folder, "a"))
        shutil.copy(MINI, os.path.join(self.folder, "a", "ilsvrc2012.bzna"))
        for root in (MINI, os.path.join(self.folder, "a")):
            self.assertEqual(listed(self.bz.ImageNet(root).targets), TARGETS)
        os.rename(os.path.join(self.folder, "a", "ilsvrc2012.bzna"), os.path.join(self.folder, "a", "ilsvrc2012.mp4"))
        self.assertEqual(len(self.bz.ImageNet(os.path.join(self.folder, "a"))), COUNT)
        # torchvision's folders
        self.assertEqual(listed(self.bz.ImageNet(folder_of_pictures(), "val").targets), [0, 0, 1, 1])
        self.assertRaisesRegex(
            ValueError, r"ilsvrc2012.\[mp4\|bzna\] is not present in root", self.bz.ImageNet, self.folder
        )
        self.assertRaisesRegex(
            ValueError, "split option must be one of test, train, val", self.bz.ImageNet, MINI, "validation"
        )

    @needs_writer
    def test_splits_are_the_archives_tracks_where_it_has_them(self):
        splits = ["test", "train", "validation", "train", "train"]
        path = archive_of(self.folder, "split.bzna", 5, splits)
        self.assertEqual(
            {split: listed(self.bz.ImageNet(path, split).targets) for split in ("train", "val", "test", None)},
            {"train": [1, 3, 4], "val": [2], "test": [0], None: [0, 1, 2, 3, 4]},
        )
        with open(path, "rb") as file:
            whole = file.read()
        data = benzina.Dataset(path)
        for split, numbers in (("train", [1, 3, 4]), ("val", [2])):     # and so are the samples behind them
            self.assertEqual(
                [item.input.value for item in self.bz.ImageNet(path, split)],
                [whole[data[i].offset:data[i].offset + data[i].size] for i in numbers],
            )
        # ImageNet's names say nothing then, nor do their places
        other = archive_of(self.folder, "named.bzna", 3, ["test", "train", "test"], ["n00000001_%d.JPEG" % i for i in range(3)])
        self.assertEqual(listed(self.bz.ImageNet(other, "test").targets), [0, 2])
        # other programs may call validation val
        renamed(path, *((b"bzna_%s_validation\0" % part, b"bzna_%s_val\0\0\0\0\0\0\0\0" % part)
                        for part in (b"input", b"target", b"fname")))
        self.assertEqual(listed(self.bz.ImageNet(path, "val").targets), [2])
        self.assertRaisesRegex(ValueError, "split: 'bzna_input_val' is of a split already", self.bz.ImageNet, path, "val",
                               ("bzna_input_val", "bzna_target_val"))

    @needs_writer
    def test_tracks_of_a_split_are_its_samples_alone(self):
        splits = ["train", "test", "train", "test", "train", "test", "train", "test", "train"]
        path = archive_of(self.folder, "split.bzna", 9, splits)
        train, test = [0, 2, 4, 6, 8], [1, 3, 5, 7]
        data = self.bz.ClassificationDataset(path, ("bzna_input_train", "bzna_target_train"))
        self.assertEqual((len(data), listed(data.targets)), (5, train))
        self.assertEqual([item.target for item in data], [(i,) for i in train])
        plain = self.bz.Dataset(path, "bzna_input_test")
        self.assertEqual(len(plain), 4)
        inputs = [sample.value for sample in Track(path, "bzna_input")]
        self.assertEqual([item.input.value for item in plain], [inputs[i] for i in test])
        self.assertEqual([item.input.value for item in data], [inputs[i] for i in train])
        # tracks alone, too
        for label, what in (("bzna_target_test", [struct.pack("<q", i) for i in test]),
                            ("bzna_fname_test", [b"%d" % i for i in test]), ("bzna_input_test", [inputs[i] for i in test])):
            self.assertEqual([one.value for one in Track(path, label)], what)
        self.assertEqual(Track(path, "bzna_input_test").sample_location(2), Track(path, "bzna_input").sample_location(5))
        self.assertEqual(Track(path, "bzna_input_test").shape, (24, 16))
        pair = Track(path, "bzna_input_test"), Track(path, "bzna_target_test")
        self.assertEqual(listed(self.bz.ClassificationDataset(pair).targets), test)
        batches = list(self.bz.DataLoader(data, 8, batch_size=3))
        self.assertEqual([listed(targets) for _, targets in batches], [[0, 2, 4], [6, 8]])
        # whoever named them
        renamed(path, (b"bzna_input_test\0", b"bzna_input_dev1\0"), (b"bzna_target_test\0", b"bzna_target_dev1\0"))
        data = self.bz.ClassificationDataset(path, ("bzna_input_dev1", "bzna_target_dev1"))
        self.assertEqual(listed(data.targets), test)
        for wrong in (("bzna_input_train", "bzna_target"), ("bzna_input", "bzna_target_train"), ("bzna_input_train", "bzna_target_dev1")):
            self.assertRaisesRegex(
                ValueError, "tracks: .* are not of the same samples", self.bz.ClassificationDataset, path, wrong
            )
        self.assertRaisesRegex(ValueError, "no track of its pictures is 'bzna_inptu': bzna_input, ", self.bz.Dataset, path, "bzna_inptu")
        self.assertRaisesRegex(benzina.Error, "bzna_input_never", self.bz.Dataset, path, "bzna_input_never")

    @needs_writer
    def test_splits_are_names_where_it_has_no_tracks_of_them(self):
        names = ["n01440764_10026.JPEG", "n01440764/n01440764_10027.JPEG", "ILSVRC2012_val_00000293.JPEG",
                 "val/ILSVRC2012_val_00000001.JPEG", "ILSVRC2012_test_00000007.JPEG"]
        path = archive_of(self.folder, "named.bzna", 5, names=names)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = {split: self.bz.ImageNet(path, split) for split in ("train", "val", "test")}
        self.assertEqual({split: listed(data.targets) for split, data in found.items()},
                         {"train": [0, 1], "val": [2, 3], "test": [4]})
        self.assertEqual(found["val"][1].input.value, Track(path, "bzna_input")[3].value)
        # in any order
        path = archive_of(self.folder, "mixed.bzna", 5, names=[names[i] for i in (4, 0, 2, 1, 3)])
        found = {split: self.bz.ImageNet(path, split) for split in ("train", "val", "test")}
        self.assertEqual({split: listed(data.targets) for split, data in found.items()},
                         {"train": [1, 3], "val": [2, 4], "test": [0]})
        self.assertEqual([item.input.value for item in found["val"]], [Track(path, "bzna_input")[i].value for i in (2, 4)])
        self.assertEqual(listed(next(iter(self.bz.DataLoader(found["train"], 8, batch_size=2)))[1]), [1, 3])
        path = archive_of(self.folder, "train.bzna", 2, names=names[:2])
        self.assertRaisesRegex(ValueError, "split: no sample of .* has a name of 'val'", self.bz.ImageNet, path, "val")

    @needs_writer
    def test_splits_are_positions_where_it_has_none(self):
        class Small(self.bz.ImageNet):
            LEN_VALID, LEN_TEST = 2, 3
        path = archive_of(self.folder, "whole.bzna", 9)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found = {split: Small(path, split) for split in ("train", "val", "test")}
        self.assertEqual([os.path.basename(one.filename) for one in told], [os.path.basename(__file__)] * 3)
        self.assertRegex(str(told[1].message), "has neither tracks of splits nor ImageNet's names: 'val' is taken to be "
                         "samples 4 to 5 of 9")
        self.assertEqual({split: listed(data.targets) for split, data in found.items()},
                         {"train": [0, 1, 2, 3], "val": [4, 5], "test": [6, 7, 8]})
        self.assertEqual([item.target[0] for item in found["test"]], [6, 7, 8])
        self.assertEqual(found["val"][1].input.value, Track(path, "bzna_input")[5].value)
        self.assertEqual(
            [listed(targets) for _, targets in self.bz.DataLoader(found["test"], 8, batch_size=2)], [[6, 7], [8]]
        )
        self.assertRaisesRegex(
            ValueError,
            "split: .* has no tracks of splits, and its 9 samples are not more than the 150000",
            self.bz.ImageNet,
            path,
            "train",
        )

    @needs_decoder
    def test_positions_are_those_of_imagenet(self):
        path, count = os.path.join(self.folder, "imagenet.idx"), 1281167 + 50000 + 100000
        with open(path, "wb") as file:
            file.write(
                struct.pack(">IIII", 2051, count, 1, 1) + bytes(i % 251 for i in range(251)) * (count // 251 + 1)
            )
            file.truncate(16 + count)
        for split, first, size in (("train", 0, 1281167), ("val", 1281167, 50000), ("test", 1331167, 100000)):
            with self.assertWarnsRegex(UserWarning, "samples %d to %d of 1431167" % (first, first + size - 1)):
                data = self.bz.ImageNet(path, split)
            self.assertEqual(len(data), size)
            loader = benzina.DataLoader(data.data, 1, 4, output="field", channels="gray")
            self.assertEqual(
                [round(x[0][0][0]) for x in next(iter(loader))[0].memoryview().tolist()],
                [(first + i) % 251 for i in range(4)],
            )

    def test_image_dataset_takes_a_folder_and_a_target_transform(self):
        data = self.bz.ImageDataset(each(), lambda target: -target)
        self.assertEqual((data[3].target, self.bz.ImageDataset(each())[3].target), ((-3,), (3,)))


class Operations(unittest.TestCase):
    """benzina.torch.operations"""

    ORIGINALS = "s", "ar", "r", "t", "fh", "fv", "resize", "keep_ratio", "random_crop"

    def setUp(self):
        self.ops = module("torch.operations")

    def test_attributes_are_the_originals(self):
        """Its __init__ of these arguments keeps these."""
        for made, kept in (
            (self.ops.SimilarityTransform(), ((1, 1), None, (0, 0), (0, 0), 0, 0, False, False, False)),
            (
                self.ops.SimilarityTransform(0.25, (3, 2), 15, (0.1, 0.2), 0.5, 0.75, True, True, True),
                ((0.25, 4), (2, 3), (-15, 15), (0.1, 0.2), 0.5, 0.75, True, True, True),
            ),
            (
                self.ops.RandomResizedCrop((0.2, 1), (0.5, 2)),
                ((0.2, 1), (0.5, 2), (0, 0), (0, 0), 0, 0, True, False, True),
            ),
            (self.ops.CenterResizedCrop(0.5), ((0.25, 0.25), None, (0, 0), (0, 0), 0, 0, True, True, False)),
        ):
            self.assertEqual(tuple(getattr(made, name) for name in self.ORIGINALS), kept)
            self.assertEqual(repr(pickle.loads(pickle.dumps(made))), repr(made))

    @needs("numpy")
    def test_the_matrix_of_in_shape_and_out_shape_is_the_originals(self):
        with open("tests/data/affine.txt") as file:
            rows = [list(map(float, line.split())) for line in file if not line.startswith("#")]
        self.assertEqual(len(rows), 240)
        for row in rows:
            in_shape, out_shape, crop, rest = row[:2], row[2:4], row[5:9] if row[4] else None, row[9:]
            made = self.ops.compute_affine_matrix(
                in_shape=tuple(map(int, in_shape)),
                out_shape=tuple(map(int, out_shape)),
                crop=crop,
                degrees=rest[0],
                translate=rest[1:3],
                flip_h=bool(rest[3]),
                flip_v=bool(rest[4]),
                resize=bool(rest[5]),
                keep_ratio=bool(rest[6]),
            )
            self.assertEqual(made.shape, (3, 3))
            numpy.testing.assert_allclose(made.ravel(), rest[7:], rtol=1e-9, atol=1e-9)

    @needs("numpy")
    def test_warps_are_called_with_a_random_state_of_numpy(self):
        for warp in (
            self.ops.SimilarityTransform(degrees=20, resize=True),
            self.ops.RandomResizedCrop(),
            self.ops.CenterResizedCrop(0.5),
        ):
            twice = [warp(0, (64, 48), (16, 16), numpy.random.RandomState(seed)) for seed in (1, 1, 2)]
            self.assertEqual(twice[0], twice[1])
            self.assertEqual(len(twice[0]), 9)
        self.assertNotEqual(
            *[self.ops.RandomResizedCrop()(0, (64, 48), (16, 16), numpy.random.RandomState(seed)) for seed in (1, 2)]
        )

    def test_none_and_numbers_are_taken_as_there(self):
        ops = self.ops
        self.assertEqual(
            (
                ops.ConstantWarpTransform(None).warp,
                ops.ConstantBiasTransform(None).bias,
                ops.ConstantNormTransform(2).norm,
                ops.ConstantOOBTransform(None).oob,
                ops.ConstantColorTransform((2,)).index,
                ops.ConstantColorTransform(None).index,
            ),
            ((1, 0, 0, 0, 1, 0, 0, 0, 1), (0, 0, 0), (2, 2, 2), (0, 0, 0), 2, 0),
        )
        self.assertRaisesRegex(ValueError, "degrees", ops.SimilarityTransform, degrees=-3)
        self.assertRaisesRegex(ValueError, "scale", ops.SimilarityTransform, scale=(0, 1))

    def test_compose_is_one_warp_after_the_other(self):
        ops, seen = self.ops, []

        class Noted(ops.WarpTransform):
            def __call__(self, index, in_shape, out_shape, rng):
                seen.append((index, in_shape, out_shape, rng))
                return (1, 0, 5, 0, 1, 7, 0, 0, 1)
        double = ops.ConstantWarpTransform((2, 0, 1, 0, 2, 1, 0, 0, 1))
        both = ops.Compose([double, Noted()])
        self.assertEqual(both(3, (640, 480), (32, 24), "rng"), (2, 0, 11, 0, 2, 15, 0, 0, 1))       # double(shift(x))
        self.assertEqual(seen, [(3, (32, 24), (32, 24), "rng")])
        self.assertEqual(ops.Compose([])(0, (8, 8), (4, 4), None), (1, 0, 0, 0, 1, 0, 0, 0, 1))
        self.assertRaisesRegex(
            TypeError,
            r"transforms\[1\]: ConstantBiasTransform\(\) is no warp: it goes to bias_transform",
            ops.Compose,
            [double, ops.ConstantBiasTransform()],
        )
        self.assertRaisesRegex(TypeError, r"transforms\[0\]: 3 cannot be called", ops.Compose, [3])


EXAMPLE = '''
import argparse, random, shutil, warnings
import torch
import torch.nn as nn
import torch.backends.cudnn as cudnn
import benzina.torch as bz
import benzina.torch.operations as ops

parser = argparse.ArgumentParser()
parser.add_argument("data", metavar="DIR")
parser.add_argument("--epochs", default=90, type=int)
parser.add_argument("-b", "--batch-size", default=256, type=int)
parser.add_argument("--seed", default=None, type=int)
args = parser.parse_args()
random.seed(args.seed)
torch.manual_seed(args.seed)
cudnn.deterministic = True
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Conv2d(3, 4, 7, 8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 1000)).to(device)
criterion = nn.CrossEntropyLoss().to(device)
optimizer = torch.optim.SGD(model.parameters(), 0.001, momentum=0.9, weight_decay=1e-4)

train_dataset = bz.dataset.ImageNet(args.data, split="train")
bias = ops.ConstantBiasTransform(bias=(0.485 * 255, 0.456 * 255, 0.406 * 255))
std = ops.ConstantNormTransform(norm=(1 / (0.229 * 255), 1 / (0.224 * 255), 1 / (0.225 * 255)))
train_loader = bz.DataLoader(
    train_dataset, shape=(224, 224), batch_size=args.batch_size,
    shuffle=True, seed=args.seed,
    bias_transform=bias,
    norm_transform=std,
    warp_transform=ops.SimilarityTransform(
        scale=(0.08, 1.0),
        ratio=(3./4., 4./3.),
        flip_h=0.5,
        random_crop=True))
val_loader = bz.DataLoader(
    bz.dataset.ImageNet(args.data, split="val"), shape=(224, 224),
    batch_size=args.batch_size, shuffle=False, seed=args.seed,
    bias_transform=bias,
    norm_transform=std,
    warp_transform=ops.CenterResizedCrop(224/256))

for epoch in range(args.epochs):
    model.train()
    for i, (images, target) in enumerate(train_loader):
        images, target = images.to(device, non_blocking=True), target.to(device, non_blocking=True)
        loss = criterion(model(images), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("Epoch: [%d][%d/%d]" % (epoch, i, len(train_loader)), tuple(images.shape), sorted(target.tolist()), bool(torch.isfinite(loss)))
    model.eval()
    with torch.no_grad():
        for i, (images, target) in enumerate(val_loader):
            output = model(images.to(device))
            print("Test: [%d/%d]" % (i, len(val_loader)), tuple(output.shape), target.tolist())
'''


@needs_decoder
class OriginalsLoader(unittest.TestCase):
    """benzina.torch.DataLoader"""

    def setUp(self):
        self.bz, self.ops = module("torch"), module("torch.operations")
        self.data = self.bz.ClassificationDataset(each())

    def order(self, data=None, **options):
        loader = self.bz.DataLoader(data or self.data, 8, **{"batch_size": 3, **options})
        return [listed(targets) for _, targets in loader]

    @needs("torch", "numpy")
    def test_the_originals_imagenet_example_runs(self):
        done = loops.python(EXAMPLE, folder_of_pictures(), "--epochs", "2", "-b", "4", "--seed", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        for epoch in range(2):
            trained, judged = lines[3 * epoch:3 * epoch + 2], lines[3 * epoch + 2]
            for i, line in enumerate(trained):
                self.assertRegex(line, r"^Epoch: \[%d\]\[%d/2\] \(4, 3, 224, 224\) \[.*\] True$" % (epoch, i))
            self.assertEqual(
                sorted(sum((json.loads(line[line.index(") [") + 2 : -5]) for line in trained), [])), [0] * 4 + [1] * 4
            )
            self.assertEqual(judged, "Test: [0/1] (4, 1000) [0, 0, 1, 1]")

    def test_arguments_are_taken_by_position(self):
        loader = self.bz.DataLoader(
            self.data, (6, 10), None, 3, False, None, None, None, True, 0, "cpu", 2, 1234, 1.0, (2, 2, 2), None
        )
        batches = [(tuple(images.shape), listed(targets)) for images, targets in loader]
        self.assertEqual(batches, [((3, 3, 6, 10), [0, 1, 2]), ((3, 3, 6, 10), [3, 4, 5])])
        self.assertEqual((len(loader), loader.seed, loader.path), (2, 1234, each()))

    def test_pixels_are_those_of_the_picture_minus_bias_times_norm(self):
        plain = list(
            benzina.DataLoader(each(), 8, COUNT, warp=benzina.ops.ConstantWarpTransform(), bias=3, norm=(1, 2, 4))
        )
        ours = list(
            self.bz.DataLoader(self.data, 8, batch_size=COUNT, bias_transform=(3, 3, 3), norm_transform=(1, 2, 4))
        )
        self.assertEqual(images_of(ours[0]), images_of(plain[0]))
        crop = benzina.ops.CenterResizedCrop(0.875, crops="benzina")
        plain = list(benzina.DataLoader(each(), 8, COUNT, warp=crop))
        ours = list(
            self.bz.DataLoader(self.data, 8, batch_size=COUNT, warp_transform=self.ops.CenterResizedCrop(0.875))
        )
        self.assertEqual(images_of(ours[0]), images_of(plain[0]))

    def test_a_data_set_without_targets_gives_pictures_alone(self):
        self.assertEqual(
            [(len(batch), len(batch[0])) for batch in self.bz.DataLoader(self.bz.Dataset(each()), 8, batch_size=5)],
            [(1, 5), (1, 3)],
        )

    def test_a_sampler_says_the_order(self):
        self.assertEqual(self.order(sampler=[5, 1, 1, 0]), [[5, 1, 1], [0]])
        self.assertRaisesRegex(ValueError, "sampler, shuffle", self.order, sampler=[1], shuffle=True)

    def test_a_batch_sampler_says_the_batches(self):
        self.assertEqual(self.order(batch_sampler=[[4], [2, 0], [7, 6, 5]], batch_size=1), [[4], [2, 0], [7, 6, 5]])
        self.assertRaisesRegex(ValueError, "batch_sampler, drop_last", self.order, batch_sampler=[[1]], batch_size=1, drop_last=True)

    @needs("torch")
    def test_torchs_samplers_and_subsets_are_taken(self):
        import torch.utils.data as data
        torch = importable("torch")
        generator = torch.Generator().manual_seed(3)
        sampler = data.SubsetRandomSampler([1, 3, 5], generator=generator)
        self.assertEqual(sorted(sum(self.order(sampler=sampler), [])), [1, 3, 5])
        batches = data.BatchSampler(data.SequentialSampler(self.data), 3, True)
        self.assertEqual(self.order(batch_sampler=batches, batch_size=1), [[0, 1, 2], [3, 4, 5]])
        subset = data.Subset(data.Subset(self.data, [7, 2, 4]), [2, 0])
        self.assertEqual(self.order(subset), [[4, 7]])

        class Own(self.bz.ClassificationDataset):
            def __getitem__(self, index):
                return super().__getitem__(index)._replace(target=(-index,))
        self.assertEqual(self.order(data.Subset(Own(each()), [7, 2, 4])), [[-7, -2, -4]])

    @needs("torch")
    def test_torchs_seed_makes_runs_repeatable(self):
        torch, orders = importable("torch"), []
        for _ in range(2):
            torch.manual_seed(7)
            orders.append(self.order(shuffle=True))
        self.assertEqual(orders[0], orders[1])

    @needs("torch")
    def test_items_of_a_subclass_bring_their_own_targets(self):
        class Own(self.bz.ClassificationDataset):
            def __getitem__(self, index):
                item = super().__getitem__(index)
                return item._replace(target=(10 * item.target[0], "name %d" % index, [1.0, 2.0]))
        for images, tens, names, (ones, twos) in self.bz.DataLoader(Own(each()), 8, batch_size=4, shuffle=True, seed=1):
            self.assertEqual([names[i] for i in range(4)], ["name %d" % (ten // 10) for ten in tens.tolist()])
            self.assertEqual((ones.tolist(), twos.tolist(), images.shape), ([1.0] * 4, [2.0] * 4, (4, 3, 8, 8)))
        half = self.bz.ImageDataset(each(), lambda target: target / 2)
        self.assertEqual(self.order(half)[1], [1.5, 2.0, 2.5])

    def test_collate_fn_is_given_what_items_have_beside_their_pictures(self):
        with self.assertRaisesRegex(
            (TypeError, ValueError), "collate_fn.*batches are made in place, so that there are no samples to collate"
        ):
            benzina.DataLoader(each(), 8, collate_fn=list)
        seen = []

        def collate(beside):
            seen.append(beside)
            return [sum(target for target, in beside), "two"]
        batches = list(self.bz.DataLoader(self.data, 8, batch_size=3, collate_fn=collate))
        self.assertEqual(seen, [[(0,), (1,), (2,)], [(3,), (4,), (5,)], [(6,), (7,)]])
        self.assertEqual([tuple(batch[1:]) for batch in batches], [(3, "two"), (12, "two"), (13, "two")])
        self.assertEqual([len(batch[0]) for batch in batches], [3, 3, 2])
        self.assertEqual(images_of(batches[0]), images_of(next(iter(self.bz.DataLoader(self.data, 8, batch_size=3)))))
        self.assertEqual(len(self.order(collate_fn=None)), 3)
        if importable("torch"):
            import torch.utils.data
            self.assertEqual(len(self.order(collate_fn=torch.utils.data.default_collate)), 3)

    def test_what_cannot_be_is_refused(self):
        self.assertRaisesRegex(ValueError, "path: .* is no copy of", self.bz.DataLoader, self.data, 8, MINI)
        self.assertRaisesRegex(ValueError, "batch_sampler, batch_size: give one", self.order, batch_sampler=[[1]], batch_size=2)
        self.assertRaisesRegex(ValueError, "multibuffering: 0: at least one", self.order, multibuffering=0)
        self.assertRaisesRegex(TypeError, "dataset: .* is none of benzina.torch.dataset", self.bz.DataLoader, each(), 8)
        self.assertEqual(len(self.bz.DataLoader(self.data, 8, each())), 8)

    @needs_writer
    def test_path_names_a_copy_of_the_archive_from_which_pictures_are_read(self):
        with tempfile.TemporaryDirectory() as folder:
            names = ["n00000001_%d" % i if i < 3 else "ILSVRC2012_val_%08d" % i for i in range(6)]
            path, copy = archive_of(folder, "one.bzna", 6, names=names), os.path.join(folder, "copy.bzna")
            shutil.copy(path, copy)
            for data in (self.bz.ClassificationDataset(path), self.bz.ImageNet(path, "val")):
                expected = [(images_of(batch), listed(batch[1])) for batch in self.bz.DataLoader(data, 8, batch_size=2)]
                loader = self.bz.DataLoader(data, 8, copy, 2)
                self.assertEqual(loader.path, copy)
                with open(path, "r+b") as file:         # it is read no more
                    whole = file.read()
                    file.seek(100)
                    file.write(bytes(len(whole) // 2))
                self.assertEqual([(images_of(batch), listed(batch[1])) for batch in loader], expected)
                with open(path, "wb") as file:
                    file.write(whole)
            other = archive_of(folder, "other.bzna", 5)
            self.assertRaisesRegex(ValueError, "path: .*other.bzna is no copy of .*one.bzna", self.bz.DataLoader, data, 8, other)

    def test_a_warning_about_colors_points_at_the_programs_line(self):
        for make in (lambda: self.bz.DataLoader(self.data, 8, norm_transform=(58, 57, 57)), lambda: benzina.DataLoader(each(), 8, norm=58),
                     lambda: benzina.DataLoader(each(), 8, mean=0.5)):
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                make()
            self.assertEqual([(os.path.basename(one.filename), one.lineno) for one in told],
                             [(os.path.basename(__file__), make.__code__.co_firstlineno)])

    @needs("numpy")
    def test_transforms_in_python_get_both_shapes_and_numpys_random_state(self):
        seen = {}

        class Noted(self.ops.WarpTransform):
            def __call__(self, index, in_shape, out_shape, rng):
                seen[index] = in_shape, out_shape, rng.uniform(low=1, high=2), rng.randint(5), type(rng)
                return 1, 0, 0, 0, 1, 0, 0, 0, 1

        class Lighter(self.ops.BiasTransform):
            def __call__(self, index, in_shape, out_shape, rng):
                return -index, -index, -index
        options = dict(batch_size=COUNT, seed=3)
        plain = list(self.bz.DataLoader(self.data, (6, 10), **options))
        made = [
            list(self.bz.DataLoader(self.data, (6, 10), warp_transform=Noted(), bias_transform=Lighter(), **options))
            for _ in range(2)
        ]
        self.assertEqual(images_of(made[0][0]), images_of(made[1][0]))
        difference = numpy.asarray(made[0][0][0]) - numpy.asarray(plain[0][0])
        numpy.testing.assert_allclose(
            difference, numpy.broadcast_to(numpy.arange(COUNT).reshape(-1, 1, 1, 1), difference.shape), atol=1e-4
        )
        self.assertEqual({one[:2] for one in seen.values()}, {((40, 30), (10, 6))})         # (width, height)
        self.assertTrue(all(1 <= one[2] < 2 and one[4] is numpy.random.RandomState for one in seen.values()))
        self.assertGreater(len({one[2] for one in seen.values()}), 1)
        again = list(
            self.bz.DataLoader(
                self.data,
                (6, 10),
                warp_transform=self.ops.Compose([Noted(), self.ops.ConstantWarpTransform()]),
                **options
            )
        )
        self.assertEqual(images_of(again[0]), images_of(plain[0]))


# ---- MXNet -----------------------------------------------------------------------------------------------------------

def record(number, labels, picture):
    """A record of a .rec."""
    flag = len(labels) if len(labels) > 1 else 0
    payload = (
        struct.pack("<IfQQ", flag, 0 if flag else labels[0], number, 0)
        + (struct.pack("<%df" % flag, *labels) if flag else b"")
        + picture
    )
    return struct.pack("<II", 0xced7230a, len(payload)) + payload + bytes(-len(payload) % 4)


class InMXNet(unittest.TestCase):
    """Files for its iterators, beside MXNet or not."""

    LABELS = {"one": lambda i: [i], "three": lambda i: [i, i + 0.5, 7]}

    @classmethod
    def setUpClass(cls):
        cls.mx = module("mx")
        cls.holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.holder.cleanup)
        cls.folder = cls.holder.name
        for name, labels in cls.LABELS.items():
            with open(cls.path(name + ".rec"), "wb") as file, open(cls.path(name + ".idx"), "w") as index:
                for i in range(10):
                    write_png(cls.path("one.png"), 50 - 2 * i, 40 + 3 * i, i)
                    with open(cls.path("one.png"), "rb") as picture:
                        index.write("%d\t%d\n" % (i, file.tell()))
                        file.write(record(i, labels(i), picture.read()))
        with open(cls.path("data.csv"), "w") as file:
            file.write("1,2,3\n2,3,4\n3,4,5\n4,5,6\n")
        with open(cls.path("labels.csv"), "w") as file:
            file.write("1,5\n2,6\n3,7\n4,8\n")
        with open(cls.path("images"), "wb") as file:
            file.write(struct.pack(">IIII", 2051, 10, 4, 5) + bytes(i * 20 + j for i in range(10) for j in range(20)))
        with open(cls.path("labels"), "wb") as file:
            file.write(struct.pack(">II", 2049, 10) + bytes(range(10)))

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    def mean_file(self, shape=(3, 32, 32), version=0xF993FAC9, name="mean_img"):
        """A mean image as MXNet's NDArray.save writes it, and its numbers."""
        numbers = numpy.random.RandomState(1).rand(*shape).astype("<f4") * 200
        dense = struct.pack("<i", 0) if version != 0xF993FAC8 else b""
        with open(self.path("mean.bin"), "wb") as file:
            file.write(struct.pack("<QQQI", 0x112, 0, 1, version) + dense + struct.pack("<i%dq" % len(shape), len(shape), *shape))
            file.write(struct.pack("<iii", 1, 0, 0) + numbers.tobytes() + struct.pack("<QQ", 1, len(name)) + name.encode())
        return self.path("mean.bin"), numbers

    def epochs(self, batches, count=3):
        """[(labels, pad), ...] of each epoch."""
        found = []
        for _ in range(count):
            found.append([(batch.label[0].asnumpy().tolist(), batch.pad) for batch in batches])
            batches.reset()
        return found


@needs_decoder
@needs("numpy")
class MXNet(InMXNet):
    """benzina.mx"""

    def records(self, name="one", **options):
        return self.mx.ImageRecordIter(
            **{"path_imgrec": self.path(name + ".rec"), "data_shape": (3, 32, 32), "batch_size": 4, **options}
        )

    def test_round_batch_goes_on_behind_what_filled_up(self):
        self.assertEqual(self.epochs(self.records()), [
            [([0, 1, 2, 3], 0), ([4, 5, 6, 7], 0), ([8, 9, 0, 1], 2)],
            [([2, 3, 4, 5], 0), ([6, 7, 8, 9], 0)],
            [([0, 1, 2, 3], 0), ([4, 5, 6, 7], 0), ([8, 9, 0, 1], 2)]])
        self.assertEqual(
            self.epochs(self.records(round_batch=False), 2),
            [[([0, 1, 2, 3], 0), ([4, 5, 6, 7], 0), ([8, 9, 0, 1], 2)]] * 2,
        )

    def test_parts_are_halves_and_fill_up_from_themselves(self):
        self.assertEqual(self.epochs(self.records(num_parts=2, part_index=1, path_imgidx=self.path("one.idx"))), [
            [([5, 6, 7, 8], 0), ([9, 5, 6, 7], 3)], [([8, 9, 5, 6], 2)], [([7, 8, 9, 5], 1)]])
        self.assertRaisesRegex(
            ValueError, "part_index: 2 is not below num_parts, 2", self.records, num_parts=2, part_index=2
        )

    def test_shuffle_has_each_sample_once_an_epoch_in_another_order(self):
        first, second, third = self.epochs(self.records(shuffle=True, seed=3))
        drawn = sum((labels for labels, _ in first), [])
        self.assertEqual((sorted(drawn[:10]), len(second)), ([*range(10)], 2))
        self.assertEqual(sorted(drawn[10:] + sum((labels for labels, _ in second), [])), [*range(10)])
        self.assertNotEqual(drawn[:10], [*range(10)])
        self.assertEqual(self.epochs(self.records(shuffle=True, seed=3)), [first, second, third])
        self.assertNotEqual(self.epochs(self.records(shuffle=True, seed=4)), [first, second, third])

    def test_a_reset_in_the_middle_begins_anew_and_one_at_the_start_does_nothing(self):
        batches = self.records()
        batches.reset()
        next(batches)
        batches.reset()
        self.assertEqual(self.epochs(batches, 1), [[([0, 1, 2, 3], 0), ([4, 5, 6, 7], 0), ([8, 9, 0, 1], 2)]])
        list(batches)
        self.assertEqual(list(batches), [])     # until a reset
        for taken in (1, 2, 1, 2):              # broken off one after the other
            batches.reset()
            self.assertEqual([next(batches).label[0].tolist()[0] for _ in range(taken)], [0, 4][:taken])

    def test_data_name_and_label_name_are_in_what_is_provided(self):
        self.assertEqual(
            repr((self.records().provide_data, self.records().provide_label)),
            "([DataDesc[data,(4, 3, 32, 32),<class 'numpy.float32'>,NCHW]], [DataDesc[softmax_label,(4,),<class 'numpy.float32'>,NCHW]])",
        )
        batches = self.records("three", label_width=3, data_name="image", label_name="boxes", dtype="uint8")
        ((name, shape),), ((label_name, label_shape),) = batches.provide_data, batches.provide_label
        self.assertEqual((name, shape, label_name, label_shape), ("image", (4, 3, 32, 32), "boxes", (4, 3)))
        self.assertIs(batches.provide_data[0].dtype, numpy.uint8)
        batch = batches.next()
        self.assertEqual(batch.label[0].asnumpy()[1].tolist(), [1, 1.5, 7])
        self.assertEqual(
            (batch.data[0].shape, batch.data[0].dtype, batch.index.tolist()), ((4, 3, 32, 32), "uint8", [0, 1, 2, 3])
        )
        self.assertRaisesRegex(ValueError, "label_width: 1, but sample 0 has 3 labels", self.records, "three")

    def test_the_iterators_calls_are_mxnets(self):
        batches, seen = self.records(), []
        self.assertRaisesRegex(ValueError, "there is no current batch", batches.getdata)
        while batches.iter_next():
            seen.append(
                (
                    batches.getlabel().asnumpy().tolist(),
                    batches.getpad(),
                    batches.getindex().tolist(),
                    batches.getdata().shape,
                )
            )
        self.assertEqual(seen[-1], ([8, 9, 0, 1], 2, [8, 9, 0, 1], (4, 3, 32, 32)))
        self.assertEqual(len(seen), 3)
        self.assertRaises(StopIteration, batches.next)
        self.assertEqual(batches.provide_data[0].shape[0], batches.batch_size)

    def test_pixels_are_normalized_and_augmented_as_the_parameters_say(self):
        plain = self.records().next().data[0].asnumpy()
        made = (
            self.records(mean_r=10, mean_g=20, mean_b=30, std_r=2, std_g=4, std_b=5, scale=0.5).next().data[0].asnumpy()
        )
        expected = (plain - numpy.array([10, 20, 30]).reshape(3, 1, 1)) * 0.5 / numpy.array([2, 4, 5]).reshape(3, 1, 1)
        numpy.testing.assert_allclose(made, expected, atol=1e-4)
        numpy.testing.assert_array_equal(self.records(mirror=True).next().data[0], plain[..., ::-1])
        self.assertEqual(self.records(data_shape=(1, 32, 32)).next().data[0].shape, (4, 1, 32, 32))
        self.assertEqual(
            self.records(data_shape=(3, 99, 99), pad=60).next().data[0].asnumpy()[0, :, 0, 0].tolist(), [255] * 3
        )
        for options in (
            dict(random_resized_crop=True, min_random_area=0.2, max_aspect_ratio=4 / 3, min_aspect_ratio=3 / 4),
            dict(
                rand_crop=True,
                rand_mirror=True,
                max_rotate_angle=10,
                random_h=36,
                random_s=50,
                random_l=50,
                brightness=0.2,
            ),
            dict(min_aspect_ratio=0.8, max_aspect_ratio=1.25),
            dict(seed_aug=4, rand_crop=True),
        ):
            twice = [self.records(**options).next().data[0] for _ in range(2)]
            numpy.testing.assert_array_equal(*twice)
            self.assertGreater(float(numpy.abs(twice[0] - plain).mean()), 1, options)

    def test_mean_img_is_the_file_that_mxnet_makes_and_is_mirrored_with_the_picture(self):
        plain = self.records().next().data[0].asnumpy()
        for version in (0xF993FAC8, 0xF993FAC9, 0xF993FACA):
            path, mean = self.mean_file(version=version)
            made = self.records(mean_img=path, mean_r=9, scale=0.5).next().data[0].asnumpy()
            numpy.testing.assert_allclose(made, (plain - mean) * 0.5, atol=1e-4)
        for method in (0, 1):
            low, high = [self.records(mean_img=path, std_g=4, mirror=mirror, inter_method=method).next().data[0].asnumpy()
                         for mirror in (False, True)]
            numpy.testing.assert_allclose(high, low[..., ::-1], atol=1e-4)
            drawn = self.records(mean_img=path, std_g=4, rand_mirror=True, seed_aug=3, inter_method=method).next().data[0].asnumpy()
            found = [min((0, 1), key=lambda i: numpy.abs(one - pair[i]).max()) for one, *pair in zip(drawn, low, high)]
            self.assertEqual(len(set(found)), 2, "another seed is needed")
            for one, i, *pair in zip(drawn, found, low, high):
                numpy.testing.assert_allclose(one, pair[i], atol=1e-3)
        path, mean = self.mean_file((1, 32, 32))
        gray = [self.records(data_shape=(1, 32, 32), **more).next().data[0].asnumpy() for more in ({}, {"mean_img": path})]
        numpy.testing.assert_allclose(gray[1], gray[0] - mean, atol=1e-4)
        self.assertRaisesRegex(FileNotFoundError, "mean_img: no.bin is not there. MXNet makes it", self.records, mean_img="no.bin")
        self.assertRaisesRegex(ValueError, r"mean_img: .*mean.bin: it is of \(1, 32, 32\), not \(3, 32, 32\)", self.records, mean_img=path)
        self.assertRaisesRegex(ValueError, "mean_img: pixels of uint8", self.records, mean_img=path, dtype="uint8")
        self.assertRaisesRegex(ValueError, "mean_img, rand_mirror, max_random_contrast: two of", self.records,
                               mean_img=self.mean_file()[0], rand_mirror=True, max_random_contrast=0.1)
        with open(path, "rb") as file:
            data = file.read()
        for damaged in (b"", data[:20], data[:60], data[:2000], b"\1" + data[1:], data[:24] + b"\7" + data[25:],
                        data[:32] + b"\xff" + data[33:], data[:68] + b"\x33" + data[69:]):
            with open(path, "wb") as file:
                file.write(damaged)
            self.assertRaisesRegex(ValueError, "^mean_img: ", self.records, mean_img=path)

    def test_a_crop_begins_where_crop_x_start_and_crop_y_start_say(self):
        whole = self.records(data_shape=(3, 40, 50), batch_size=1).next().data[0].asnumpy()[0]
        at = self.records(batch_size=1, crop_x_start=3, crop_y_start=5).next().data[0].asnumpy()[0]
        numpy.testing.assert_array_equal(at, whole[:, 5:37, 3:35])
        self.assertRaisesRegex(ValueError, "random_resized_crop, crop_x_start: one of the two", self.records,
                               random_resized_crop=True, max_aspect_ratio=0.25, crop_x_start=3)

    def test_nearest_pixels_are_opencvs(self):
        whole = self.records(data_shape=(3, 40, 50), batch_size=1).next().data[0].asnumpy()[0]
        for size in (20, 40):                   # the crop of 20 x 20, or 40 x 40, in the middle, as 32 x 32
            taken = [i * size // 32 for i in range(32)]
            x, y = (50 - size) // 2, (40 - size) // 2
            crop = whole[:, y:y + size, x:x + size][:, taken][..., taken]
            for mirror in (False, True):
                made = self.records(batch_size=1, inter_method=0, max_crop_size=size, min_crop_size=size, mirror=mirror)
                numpy.testing.assert_array_equal(made.next().data[0].asnumpy()[0], crop[..., ::-1] if mirror else crop)

    def test_area_is_linear_where_pictures_are_rotated_or_scaled(self):
        for method, same in ((3, 1), (9, 1)):
            for options in (dict(rotate=30), dict(min_random_scale=0.9, max_random_scale=0.9)):
                made = [self.records(inter_method=one, **options).next().data[0].asnumpy() for one in (method, same)]
                numpy.testing.assert_array_equal(*made)
        options = dict(resize=34)               # which shrinks
        made = [self.records(inter_method=one, **options).next().data[0].asnumpy() for one in (3, 1)]
        self.assertGreater(float(numpy.abs(made[0] - made[1]).max()), 5)

    def test_what_cannot_be_is_refused_by_name(self):
        for name, value in (
            ("aug_seq", "mine"),
            ("shuffle_chunk_size", 4),
            ("pca_noise", 0.1),
            ("mean_a", 1),
        ):
            self.assertRaisesRegex(ValueError, "^%s: %r: " % (name, value), self.records, **{name: value})
        self.assertRaisesRegex(
            ValueError, "data_shape: .* of channels, there are 3, or 1", self.records, data_shape=(4, 8, 8)
        )
        self.assertRaisesRegex(ValueError, "dtype: 'int8' is none of", self.records, dtype="int8")
        self.assertRaisesRegex(
            ValueError,
            "random_resized_crop, pad: one of the two",
            self.records,
            random_resized_crop=True,
            max_aspect_ratio=0.25,
            pad=4,
        )
        self.assertRaisesRegex(ValueError, "path_imgidx: .* is next to it", self.records, path_imgidx="other.idx")
        self.assertRaisesRegex(ValueError, "path_imgrec: it is needed", self.records, path_imgrec="")
        self.assertRaises(TypeError, self.records, no_such_parameter=1)
        self.assertRaises(TypeError, self.mx.ImageRecordIter, self.path("one.rec"))
        for name in ("ImageDetRecordIter", "ImageIter", "LibSVMIter"):
            self.assertRaisesRegex(NotImplementedError, "^%s: " % name, getattr(self.mx, name))

    def test_labels_of_a_list_and_folders_of_records(self):
        with open(self.path("other.lst"), "w") as file:
            file.write("".join("%d\t%d\tx\n" % (i, 100 + i) for i in range(10)))
        self.assertEqual(
            self.records(path_imglist=self.path("other.lst")).next().label[0].tolist(), [100, 101, 102, 103]
        )
        os.makedirs(self.path("several"), exist_ok=True)
        for name in ("a", "b"):
            shutil.copy(self.path("one.rec"), self.path("several/%s.rec" % name))
        self.assertEqual(
            sum(4 - pad for _, pad in self.epochs(self.records(path_imgrec=self.path("several")), 1)[0]), 20
        )

    def csv(self, **options):
        return self.mx.CSVIter(**{"data_csv": self.path("data.csv"), "data_shape": (3,), "batch_size": 3, **options})

    def test_csv_rows_are_mxnets(self):
        batches, seen = self.csv(), []
        for _ in range(3):
            seen.append(
                [
                    (batch.data[0].asnumpy()[:, 0].tolist(), batch.label[0].tolist(), batch.pad, batch.index.tolist())
                    for batch in batches
                ]
            )
            batches.reset()
        self.assertEqual(seen, [[([1, 2, 3], [0, 0, 0], 0, [0, 1, 2]), ([4, 1, 2], [0, 0, 0], 2, [3, 0, 1])],
                                [([3, 4, 1], [0, 0, 0], 1, [2, 3, 0])], [([2, 3, 4], [0, 0, 0], 0, [1, 2, 3])]])
        self.assertEqual(
            [self.csv(batch_size=5).next().index.tolist(), self.csv(dtype="int32").next().data[0].dtype],
            [[0, 1, 2, 3, 0], "int32"],
        )

    def test_csv_label_csv_and_label_shape(self):
        batches = self.csv(
            label_csv=self.path("labels.csv"), label_shape=(2,), data_shape=(3, 1), data_name="x", label_name="y"
        )
        self.assertEqual(
            repr((batches.provide_data, batches.provide_label)),
            "([DataDesc[x,(3, 3, 1),<class 'numpy.float32'>,NCHW]], "
            "[DataDesc[y,(3, 2),<class 'numpy.float32'>,NCHW]])",
        )
        self.assertEqual(
            [batch.label[0].asnumpy().tolist() for batch in batches],
            [[[1, 5], [2, 6], [3, 7]], [[4, 8], [1, 5], [2, 6]]],
        )
        self.assertEqual(
            self.csv(label_csv=self.path("labels.csv"), label_shape=(2, 1)).provide_label[0].shape, (3, 2, 1)
        )
        self.assertRaisesRegex(
            ValueError,
            r"label_shape: rows of label_csv have 2 numbers, not those of \(1,\)",
            self.csv,
            label_csv=self.path("labels.csv"),
        )
        self.assertRaisesRegex(ValueError, r"data_shape: rows of data_csv have 3 numbers", self.csv, data_shape=(4,))
        with open(self.path("two.csv"), "w") as file:
            file.write("1\n2\n")
        self.assertRaisesRegex(
            ValueError, "label_csv: 2 rows for 4 of data_csv", self.csv, label_csv=self.path("two.csv")
        )

    def mnist(self, **options):
        return self.mx.MNISTIter(
            **{"image": self.path("images"), "label": self.path("labels"), "batch_size": 3, "shuffle": False, **options}
        )

    def test_mnist_is_divided_by_256_and_cut_to_whole_batches(self):
        self.assertEqual(self.epochs(self.mnist(), 2), [[([0, 1, 2], 0), ([3, 4, 5], 0), ([6, 7, 8], 0)]] * 2)
        batch = self.mnist().next()
        self.assertEqual(
            (batch.data[0].shape, self.mnist(flat=True).next().data[0].shape, batch.label[0].dtype),
            ((3, 1, 4, 5), (3, 20), "float32"),
        )
        numpy.testing.assert_allclose(batch.data[0].ravel(), numpy.arange(60) / 256, atol=1e-6)
        self.assertEqual(self.epochs(self.mnist(num_parts=3, part_index=1), 1), [[([3, 4, 5], 0)]])
        first, second = self.epochs(self.mnist(shuffle=True, seed=1), 2)
        self.assertEqual((first, len(set(sum((labels for labels, _ in first), [])))), (second, 9))
        self.assertNotEqual(first, self.epochs(self.mnist(shuffle=True, seed=2), 1)[0])
        self.assertRaisesRegex(ValueError, "batch_size: 128, but there are 10 samples", self.mnist, batch_size=128)

    def test_mnist_takes_the_data_shape_of_mxnets_own_test(self):
        plain = self.mnist(batch_size=5, flat=1, silent=0, seed=10).next()
        typed = self.mnist(batch_size=5, flat=1, silent=0, seed=10, data_shape=(20,)).next()
        self.assertEqual((typed.data[0].tolist(), typed.label[0].tolist()), (plain.data[0].tolist(), [*range(5)]))
        self.assertEqual(self.mnist(data_shape=(1, 4, 5)).next().data[0].shape, (3, 1, 4, 5))
        for shape in ((784,), (3, 4, 5)):
            self.assertRaisesRegex(ValueError, "data_shape: .* pictures have 4 x 5 pixels", self.mnist, data_shape=shape)

    def test_arrays_say_their_order_as_in_mxnets_own_test(self):
        self.assertEqual(self.arrays("pad").idx.tolist(), [*range(10)])
        numpy.random.seed(1)
        batches = self.arrays("discard", shuffle=True)
        orders = []
        for _ in range(3):
            order = batches.idx
            orders.append(order.tolist())
            self.assertEqual(sum((batch.label[0].tolist() for batch in batches), []), order[:8].tolist())
            batches.idx[:] = 0                  # a copy
            batches.reset()
        numpy.random.seed(1)
        expected = numpy.arange(10)
        numpy.random.shuffle(expected)          # as MXNet's first epoch
        self.assertEqual(orders[0], expected.tolist())
        self.assertEqual(len(set(map(tuple, orders))), 3)

    def arrays(self, handle, **options):
        return self.mx.NDArrayIter(
            numpy.arange(20).reshape(10, 2), numpy.arange(10), 4, last_batch_handle=handle, **options
        )

    def test_arrays_are_padded_discarded_and_rolled_over_as_in_mxnet(self):
        self.assertEqual(
            self.epochs(self.arrays("pad"), 2), [[([0, 1, 2, 3], 0), ([4, 5, 6, 7], 0), ([8, 9, 0, 1], 2)]] * 2
        )
        self.assertEqual(self.epochs(self.arrays("discard"), 2), [[([0, 1, 2, 3], 0), ([4, 5, 6, 7], 0)]] * 2)
        self.assertEqual(
            self.epochs(self.arrays("roll_over")),
            [
                [([0, 1, 2, 3], 0), ([4, 5, 6, 7], 0)],
                [([8, 9, 0, 1], 2), ([2, 3, 4, 5], 0), ([6, 7, 8, 9], 0)],
                [([0, 1, 2, 3], 0), ([4, 5, 6, 7], 0)],
            ],
        )
        batches = self.arrays("roll_over")
        list(batches)
        batches.hard_reset()
        self.assertEqual(batches.next().label[0].tolist(), [0, 1, 2, 3])
        self.assertRaisesRegex(ValueError, "last_batch_handle: 'x' is none of", self.arrays, "x")

    def test_arrays_have_names_of_lists_and_dicts(self):
        both = self.mx.NDArrayIter(
            {"b": numpy.zeros((9, 2)), "a": numpy.ones((9, 3))}, [numpy.arange(9), numpy.arange(9)], 20
        )
        self.assertEqual([(d.name, d.shape) for d in both.provide_data + both.provide_label],
                         [("a", (20, 3)), ("b", (20, 2)), ("_0_softmax_label", (20,)), ("_1_softmax_label", (20,))])
        self.assertEqual((both.next().label[1].tolist(), both.getpad()), ([*range(9), *range(9), 0, 1], 11))
        named = self.arrays("pad", data_name="x", label_name="y")
        self.assertEqual((named.provide_data[0].name, named.provide_label[0].name), ("x", "y"))
        self.assertEqual(self.mx.NDArrayIter(numpy.zeros((4, 2))).next().label, [])
        self.assertRaisesRegex(
            ValueError, "softmax_label: 3 samples, not 4", self.mx.NDArrayIter, numpy.zeros((4, 2)), numpy.zeros(3)
        )

    def test_arrays_share_no_memory_with_a_batch(self):
        data = numpy.zeros((4, 2), "float32")
        self.mx.NDArrayIter(data, batch_size=2).next().data[0][:] = 7
        self.assertEqual(float(data.sum()), 0)


@needs_decoder
@needs("numpy", "mxnet")
class BesideMXNet(InMXNet):
    """The same from MXNet 1.9.1."""

    def both(self, name, **options):
        return [getattr(where, name)(**options) for where in (importable("mxnet").io, self.mx)]

    def compare(self, name, pixels=0.0, pads=True, **options):
        """Three epochs."""
        theirs, ours = self.both(name, **options)
        self.assertEqual(
            repr((theirs.provide_data, theirs.provide_label)), repr((ours.provide_data, ours.provide_label))
        )
        for _ in range(3):
            pairs = list(itertools.zip_longest(theirs, ours))
            for one, other in pairs:
                real = len(other.label[0]) - (0 if pads else other.pad)
                self.assertEqual(one.label[0].asnumpy()[:real].tolist(), other.label[0].asnumpy()[:real].tolist())
                difference = one.data[0].asnumpy()[:real].astype(float) - other.data[0].asnumpy()[:real]
                self.assertLessEqual(float(numpy.abs(difference).mean()), pixels, options)
                if other.pad or name != "ImageRecordIter":   # whose batches have pads of earlier ones now and then
                    self.assertEqual(one.pad, other.pad)
            theirs.reset()
            ours.reset()

    def test_records(self):
        for pixels, options in (
            (0, {}),
            (0, dict(num_parts=2, part_index=1, path_imgidx=self.path("one.idx"))),
            (0, dict(mirror=True)),
            (0, dict(pad=4)),
            (
                0,
                dict(
                    mean_r=10, mean_g=20, mean_b=30, std_r=2, std_g=4, std_b=8, scale=0.5, data_name="x", label_name="y"
                ),
            ),
            (0, dict(dtype="uint8")),
            (0.5, dict(resize=36)),
            (1.5, dict(rotate=30)),
            (0.6, dict(max_crop_size=30, min_crop_size=30)),
            (1, dict(data_shape=(1, 32, 32))),
            # but for columns whose place is a whole number, which OpenCV's product of floats falls short of
            (0.5, dict(inter_method=0, resize=36)),
            (0, dict(inter_method=0, max_crop_size=30, min_crop_size=30, mirror=True)),
            (0.5, dict(inter_method=3, min_random_scale=1.3, max_random_scale=1.3)),
            (0.5, dict(inter_method=9, min_random_scale=1.3, max_random_scale=1.3)),
            (1e-4, dict(mean_img=self.mean_file()[0], mean_r=9, std_b=3, mirror=True)),
        ):
            self.compare(
                "ImageRecordIter",
                pixels,
                **{**dict(path_imgrec=self.path("one.rec"), data_shape=(3, 32, 32), batch_size=4), **options}
            )
        self.compare(
            "ImageRecordIter", path_imgrec=self.path("three.rec"), data_shape=(3, 32, 32), batch_size=3, label_width=3
        )

    def test_numbers(self):
        for options in (
            dict(batch_size=3),
            dict(batch_size=5),
            dict(batch_size=2, data_shape=(3, 1)),
            dict(batch_size=3, dtype="int32"),
            dict(batch_size=3, label_csv=self.path("labels.csv"), label_shape=(2,)),
            dict(batch_size=3, round_batch=False),
        ):
            self.compare(
                "CSVIter",
                pads="round_batch" not in options,
                **{"data_csv": self.path("data.csv"), "data_shape": (3,), **options}
            )

    def test_mnist(self):
        for options in (dict(), dict(flat=True), dict(num_parts=3, part_index=2)):
            self.compare(
                "MNISTIter",
                1e-6,
                image=self.path("images"),
                label=self.path("labels"),
                batch_size=3,
                shuffle=False,
                silent=True,
                **options
            )

    def test_arrays_in_the_order_of_numpys_seed(self):
        data, labels = numpy.arange(20).reshape(10, 2), numpy.arange(10)
        for handle in ("pad", "discard", "roll_over"):
            for shuffle in (False, True):
                found = []
                for where in (importable("mxnet").io, self.mx):
                    numpy.random.seed(5)
                    made = where.NDArrayIter(data, labels, 4, shuffle, handle)
                    found.append(self.epochs(made))
                if shuffle and handle == "roll_over":       # MXNet rolls over what shuffling has put there since
                    found = [epochs[:1] for epochs in found]
                self.assertEqual(*found)


# ---- WebDataset ------------------------------------------------------------------------------------------------------

class InWebDataset(unittest.TestCase):
    """Shards: of each sample a PNG of its own size, a gray JPEG, a class, JSON, text, .npy, and now and then bytes."""

    SHARDS, EACH = 4, 5

    @classmethod
    def setUpClass(cls):
        cls.wds = module("wds")
        cls.holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.holder.cleanup)
        for shard in range(cls.SHARDS):
            with tarfile.open(cls.path("t-%03d.tar" % shard), "w") as tar:
                for i in range(cls.EACH):
                    for name, data in cls.members(shard, i):
                        member = tarfile.TarInfo("d/%d_%d.%s" % (shard, i, name))
                        member.size = len(data)
                        tar.addfile(member, io.BytesIO(data))

    @classmethod
    def members(cls, shard, i):
        number = shard * cls.EACH + i
        write_png(cls.path("one.png"), 30 + shard, 20 + i, number)
        with open(cls.path("one.png"), "rb") as file:
            yield "png", file.read()
        yield "cls", b"%d" % number
        yield "json", json.dumps({"at": [shard, i]}).encode()
        yield "txt", ("\u00fc %d" % i).encode()
        if i % 2:
            yield "bin", b"\0\1\2"
        yield "txt.gz", gzip.compress(b"zipped", mtime=0)
        if numpy:
            made = io.BytesIO()
            numpy.save(made, numpy.arange(3) + number)
            yield "npy", made.getvalue()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.holder.name, name)

    def made(self, where=None, urls="t-{000..003}.tar", **options):
        return (where or self.wds).WebDataset(self.path(urls), **{"shardshuffle": False, **options})


def plain(thing):
    """What can be compared of what pipelines give."""
    if isinstance(thing, dict):
        return {key: plain(value) for key, value in thing.items()}
    if isinstance(thing, (list, tuple)):
        return type(thing)(map(plain, thing))
    if hasattr(thing, "tobytes"):
        return (
            type(thing).__name__,
            str(getattr(thing, "shape", None) or thing.size),
            str(getattr(thing, "dtype", "")),
            thing.tobytes(),
        )
    return thing


def not_a_fifth(sample):
    if int(sample["cls"]) % 5 == 0:
        raise ValueError("a fifth")
    return sample


class Unusual:
    """What is neither a tensor nor a plain value."""


def doubled(number):
    return 2 * number


@needs_decoder
@needs("numpy")
class WebDataset(InWebDataset):
    """benzina.wds"""

    def test_samples_are_the_members_bytes(self):
        samples = list(self.made())
        self.assertEqual(len(samples), self.SHARDS * self.EACH)
        number = 0
        for shard in range(self.SHARDS):
            for i in range(self.EACH):
                expected = {
                    "__key__": "d/%d_%d" % (shard, i),
                    "__url__": self.path("t-%03d.tar" % shard),
                    "__local_path__": self.path("t-%03d.tar" % shard),
                    **dict(self.members(shard, i)),
                }
                self.assertEqual(samples[number], expected)
                number += 1

    def test_decode_makes_values_and_pictures(self):
        sample = next(iter(self.made().decode("rgb8").slice(1, 2)))
        self.assertEqual(
            (sample["cls"], sample["json"], sample["txt"], sample["bin"], sample["npy"].tolist(), sample["txt.gz"]),
            (1, {"at": [0, 1]}, "\u00fc 1", b"\0\1\2", [1, 2, 3], "zipped"),
        )
        numpy.testing.assert_array_equal(sample["png"], benzina.Dataset(self.path("t-000.tar"))[1].image("png"))
        for spec, shape, dtype, most in (
            ("rgb", (21, 30, 3), "float32", 1),
            ("l8", (21, 30), "uint8", 255),
            ("l", (21, 30), "float32", 1),
        ):
            picture = next(iter(self.made().decode(spec).slice(1, 2)))["png"]
            self.assertEqual((picture.shape, picture.dtype), (shape, dtype))
            self.assertTrue(most / 4 < picture.max() <= most)
        self.assertEqual(type(next(iter(self.made().decode()))["png"]), bytes)
        self.assertEqual(type(next(iter(self.made().decode("rgb", only="cls")))["png"]), bytes)
        only = next(iter(self.made().decode(lambda key, data: data[:2] if key == ".json" else None, post=[])))
        self.assertEqual((only["json"], only["cls"]), (b'{"', b"0"))
        after = next(iter(self.made().map(lambda sample: sample).decode("rgb8")))      # of bytes that a stage gives
        numpy.testing.assert_array_equal(after["png"], next(iter(self.made().decode("rgb8")))["png"])

    @needs("torch", "PIL")
    def test_decode_makes_tensors_and_pil_images(self):
        array = next(iter(self.made().decode("rgb8")))["png"]
        tensor, picture = (next(iter(self.made().decode(spec)))["png"] for spec in ("torchrgb", "pil"))
        self.assertEqual((tuple(tensor.shape), picture.size, picture.mode), ((3, 20, 30), (30, 20), "RGB"))
        numpy.testing.assert_allclose(tensor.numpy().transpose(1, 2, 0) * 255, array, atol=1e-4)
        numpy.testing.assert_array_equal(numpy.asarray(picture), array)
        batch = next(iter(self.made().decode("torchl", shape=16).to_tuple("png").batched(3)))
        self.assertEqual((tuple(batch[0].shape), batch[0].dtype), ((3, 16, 16), importable("torch").float32))

    def test_decode_with_a_shape_gives_what_a_dataloader_gives(self):
        loader = benzina.DataLoader(
            [self.path("t-%03d.tar" % i) for i in range(4)],
            (16, 20),
            20,
            output="numpy",
            layout="NHWC",
            dtype="uint8",
            fields={"image": "png"},
        )
        ((expected, targets),) = loader
        ((pictures, classes, texts),) = (
            self.made().decode("rgb8", shape=(16, 20)).to_tuple("png", "cls", "json").batched(20)
        )
        numpy.testing.assert_array_equal(pictures, expected)
        self.assertEqual((classes.tolist(), texts[7]), (targets.tolist(), {"at": [1, 2]}))
        self.addCleanup(setattr, self.wds, "_LIST", self.wds._LIST)
        self.wds._LIST = 6                      # so that an epoch is several of the loader's
        shuffled = (
            self.made(shardshuffle=2, seed=1).shuffle(7).decode("rgb", shape=(16, 20)).to_tuple("png", "cls", "__url__")
        )
        for _ in range(3):                      # an epoch that is left in the middle, and whole ones
            next(iter(shuffled))
            seen = list(shuffled)
            self.assertEqual(sorted(number for _, number, _ in seen), [*range(20)])
            for picture, number, url in seen:
                numpy.testing.assert_allclose(picture * 255, expected[number], atol=0.51)
                self.assertEqual(url, self.path("t-%03d.tar" % (number // 5)))
        self.assertRaisesRegex(
            ValueError, "before stages that read samples", list, self.made().map(dict).decode("rgb", shape=8)
        )
        self.assertRaisesRegex(TypeError, "decode: mean: give shape=, too", self.made().decode, "rgb", mean=3)

    def test_a_picture_that_fails_goes_to_the_handler(self):
        broken = self.path("broken.tar")
        with tarfile.open(broken, "w") as tar:
            for number in range(3):
                for name, data in list(self.members(0, number))[:2]:
                    member = tarfile.TarInfo("%d.%s" % (number, name))
                    data = data[:60] if name == "png" and number == 1 else data
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
        holder = loops.logged()                 # the log says it, too
        holder.__enter__()
        self.addCleanup(holder.__exit__, None, None, None)
        for more in ({}, {"shape": 16}):
            def classes(handler, more=more):
                return [
                    number
                    for number, in self.wds.WebDataset(broken, shardshuffle=False)
                    .decode("rgb", handler=handler, **more)
                    .to_tuple("cls")
                ]
            self.assertEqual((classes(self.wds.ignore_and_continue), classes(self.wds.ignore_and_stop)), ([0, 2], [0]))
            with self.assertWarns(UserWarning):
                self.assertEqual(classes(self.wds.warn_and_continue), [0, 2])
            self.assertRaises((benzina.Error, self.wds.DecodingError), classes, self.wds.reraise_exception)

    def test_shuffling_follows_from_the_seed_and_the_epoch(self):
        def epochs(seed):
            made = self.made(shardshuffle=100, seed=seed).shuffle(6).to_tuple("cls")
            return [[int(number) for number, in made] for _ in range(3)]
        first = epochs(3)
        self.assertEqual(first, epochs(3))
        self.assertTrue(all(sorted(epoch) == [*range(20)] for epoch in first))
        self.assertEqual(len({tuple(epoch) for epoch in first + epochs(4)}), 6)
        apart = self.made(seed=3).shuffle(9).to_tuple("cls")        # of samples alone
        self.assertNotEqual(list(apart), list(apart))
        self.assertEqual(len(list(self.made(resampled=True).to_tuple("cls").with_epoch(50))), 50)

    def test_stages(self):
        made = self.made().decode(only="cls")
        self.assertEqual(list(made.select(lambda s: s["cls"] > 17).rename(y="none;cls").map(lambda s: {"y": s["y"]})),
                         [{"y": 18, "__key__": "d/3_3"}, {"y": 19, "__key__": "d/3_4"}])
        self.assertEqual(
            list(made.map_dict(cls=doubled).to_tuple("cls __key__").slice(0, 4, 3)), [(0, "d/0_0"), (6, "d/0_3")]
        )
        self.assertEqual([len(batch) for batch in made.listed(8)], [8, 8, 4])
        self.assertEqual(
            [batch[0].tolist() for batch in made.to_tuple("cls").map_tuple(doubled).batched(9, partial=False)],
            [[*range(0, 18, 2)], [*range(18, 36, 2)]],
        )
        self.assertEqual(list(made.to_tuple("cls").batched(9).unbatched())[:2], [(0,), (1,)])
        self.assertEqual(list(made.to_tuple("cls").listed(9).unlisted()), [(number,) for number in range(20)])
        self.assertEqual(next(iter(made.to_tuple("cls", "none", missing_is_error=False))), (0, None))
        self.assertEqual(
            next(iter(made.to_tuple("cls", "txt").batched(2, collation_fn=list))),
            [(0, "\u00fc 0".encode()), (1, "\u00fc 1".encode())],
        )
        self.assertEqual(len(list(self.made().repeat(2))), 40)
        self.assertEqual(len(self.made().with_length(7)), 7)
        self.assertTrue(0 < len(list(self.made().rsample(0.5))) < 20)
        self.assertEqual(list(made.compose(lambda items: (item["cls"] for item in items)))[:3], [0, 1, 2])
        self.assertRaisesRegex(ValueError, "didn't find", list, made.to_tuple("none"))
        self.assertEqual(len(list(self.made().map(not_a_fifth, handler=self.wds.ignore_and_continue))), 16)
        self.assertEqual(len(list(self.made().slice(1, None).map(not_a_fifth, handler=self.wds.ignore_and_stop))), 4)
        with self.wds.WebDataset(self.path("t-000.tar"), shardshuffle=False) as one:
            self.assertEqual(len(list(one)), 5)

    def test_urls(self):
        def numbers(urls):
            return sorted({int(s["cls"]) // 5 for s in self.wds.WebDataset(urls, shardshuffle=False)})
        os.environ["WDS_HERE"] = self.holder.name
        try:
            self.assertEqual(numbers("${HERE}/t-00{1..2}.tar"), [1, 2])
        finally:
            del os.environ["WDS_HERE"]
        self.assertEqual(numbers(self.path("t-{000,003}.tar::") + self.path("t-001.tar")), [0, 1, 3])
        self.assertEqual(numbers([self.path("t-002.tar"), "file:" + self.path("t-000.tar")]), [0, 2])
        self.assertEqual(numbers("pipe:cat %s" % self.path("t-{000..001}.tar")), [0, 1])
        os.makedirs(self.path("folder"), exist_ok=True)
        shutil.copy(self.path("t-003.tar"), self.path("folder/x.tar"))
        self.assertEqual(numbers(self.path("folder/")), [3])
        self.assertEqual(module("_sources").expanded("a{x,y{1..3..2}}-{08..10}{z}"),
                         ["a%s-%s{z}" % pair for pair in itertools.product(("x", "y1", "y3"), ("08", "09", "10"))])

    def test_what_ends_a_loop_that_was_left_does_not_wait_for_threads(self):
        pools = self.wds.ThreadPoolExecutor
        with unittest.mock.patch.object(pools, "shutdown", autospec=True, side_effect=pools.shutdown) as shutdown:
            left = iter(self.made().decode("rgb8"))
            next(left)
            left.close()                        # as the collector does, on whatever thread
            gc.collect()
        self.assertEqual([call[1] for call in shutdown.call_args_list], [{"wait": False}])

    def test_shards_may_be_on_a_web_server(self):
        server = importlib.import_module("test_remote").Server()
        self.addCleanup(server.close)
        for number in range(4):
            with open(self.path("t-%03d.tar" % number), "rb") as file:
                server.files["t-%03d.tar" % number] = file.read()
        here, there = self.path("t-{000..003}.tar"), server.url("t-{000..003}.tar")
        for more in ({}, {"shape": 8}):
            found = [
                list(
                    map(
                        plain,
                        self.wds.WebDataset(urls, shardshuffle=2, seed=1)
                        .decode("rgb8", **more)
                        .to_tuple("png", "cls", "txt"),
                    )
                )
                for urls in (here, there)
            ]
            self.assertEqual(len(found[0]), 20)
            self.assertEqual(*found)

    def test_what_cannot_be_is_refused_by_name(self):
        self.assertRaisesRegex(AttributeError, "^WebDataset has no shufle$", getattr, self.made(), "shufle")
        self.assertRaisesRegex(AttributeError, "has no attribute 'TarWritr'$", getattr, self.wds, "TarWritr")
        self.assertRaisesRegex(ValueError, "no alpha", self.made().decode, "rgba")
        self.assertRaisesRegex(ValueError, "'bgr'.*is none of", self.made().decode, "bgr")
        self.assertRaisesRegex(ValueError, "urls: specifications", self.wds.WebDataset, "all.yaml")
        self.assertRaisesRegex(
            ValueError, "benzina.Stream loads them", list, self.wds.WebDataset("pipe:cat x").decode("rgb", shape=8)
        )
        self.assertRaisesRegex(
            ValueError, "a pickle runs whatever code", module("_decoders").basichandlers, ".pkl", b""
        )
        self.assertRaises(benzina.Error, list, self.wds.WebDataset(self.path("none.tar")))
        self.assertRaisesRegex(
            ValueError,
            "No samples found",
            list,
            self.wds.WebDataset(self.path("none.tar"), handler=self.wds.ignore_and_continue),
        )
        self.assertEqual(
            list(self.wds.WebDataset(self.path("none.tar"), handler=self.wds.ignore_and_continue, empty_check=False)),
            [],
        )
        self.assertRaisesRegex(
            ValueError,
            "collate_fn: with batch_size=None the pipeline makes the batches",
            self.wds.WebLoader,
            self.made(),
            None,
            collate_fn=list,
        )

    def test_shards_without_samples_add_none(self):
        folder = self.path("with_empty")
        os.makedirs(folder)
        for number, name in enumerate((None, "t-000.tar", None, "t-001.tar")):
            with open(os.path.join(folder, "e-%d.tar" % number), "wb") as file:
                if name is None:
                    file.write(bytes(10240))    # what tarfile and ShardWriter write
                else:
                    with open(self.path(name), "rb") as shard:
                        file.write(shard.read())
        expected = [sample["__key__"] for sample in self.made(urls="t-{000..001}.tar")]
        self.assertEqual([s["__key__"] for s in self.made(urls="with_empty/e-{0..3}.tar")], expected)
        piped = self.wds.WebDataset("pipe:cat " + os.path.join(folder, "e-{0..3}.tar"), shardshuffle=False)
        self.assertEqual([s["__key__"] for s in piped], expected)
        made = self.made(urls="with_empty/e-{0..3}.tar").decode("rgb8", shape=8).to_tuple("cls")
        self.assertEqual([int(number) for number, in made], [*range(10)])
        self.assertEqual(len(benzina.Dataset(os.path.join(folder, "e-{0..3}.tar"))), 10)
        self.assertRaisesRegex(ValueError, "No samples found", list, self.made(urls="with_empty/e-0.tar"))
        self.assertEqual(list(self.made(urls="with_empty/e-0.tar", empty_check=False)), [])

    def test_nodes_and_workers_take_their_shards(self):
        kept = dict(os.environ)
        try:
            os.environ.update(RANK="1", WORLD_SIZE="2")
            self.assertRaisesRegex(ValueError, "explicit nodesplitter", list, self.made())
            self.assertEqual({int(s["cls"]) // 5 for s in self.made(nodesplitter=self.wds.split_by_node)}, {1, 3})
        finally:
            os.environ.clear()
            os.environ.update(kept)
        again = pickle.loads(pickle.dumps(self.made().decode("rgb8").to_tuple("cls").map_tuple(doubled)))
        self.assertEqual([number for number, in again], [*range(0, 40, 2)])

    @needs("torch")
    def test_workers_of_torch_and_a_webloader(self):
        import torch.utils.data
        for options in ({}, {"shape": 8}):
            made = self.made().decode("rgb8", **options).to_tuple("cls").batched(5)
            list(made)                          # what a worker inherits has been used
            loader = torch.utils.data.DataLoader(made, batch_size=None, num_workers=2, timeout=100)
            self.assertEqual(sorted(number for batch, in loader for number in batch.tolist()), [*range(20)])
        fluid = self.wds.WebLoader(made, batch_size=None, num_workers=4).unbatched().shuffle(9, seed=1).batched(4)
        self.assertEqual(sorted(int(number) for batch, in fluid for number in batch), [*range(20)])


@needs_decoder
@needs("numpy")
class Pipelines(InWebDataset):
    """DataPipelines of sources and stages."""

    def shards(self, *stages, urls="t-{000..003}.tar"):
        wds = self.wds
        return wds.DataPipeline(wds.SimpleShardList(self.path(urls)), wds.tarfile_to_samples(), *stages)

    def test_a_pipeline_of_stages_gives_what_webdatasets_methods_give(self):
        wds = self.wds
        made = list(self.made().decode("rgb8").to_tuple("png", "cls"))
        found = list(self.shards(wds.decode("rgb8"), wds.to_tuple("png", "cls")))
        self.assertEqual([*map(plain, found)], [*map(plain, made)])
        sample = next(iter(self.shards()))
        self.assertEqual({**sample, "__url__": 0}, {**next(iter(self.made())), "__url__": 0})
        batches = self.shards(wds.decode(), wds.select(lambda s: s["cls"] > 2), wds.map(lambda s: {"y": s["cls"]}),
                              wds.map_dict(y=doubled), wds.rename(z="y"), wds.to_tuple("z"), wds.map_tuple(doubled),
                              wds.slice(12), wds.batched(5))
        self.assertEqual([y.tolist() for y, in batches], [[12, 16, 20, 24, 28], [32, 36, 40, 44, 48], [52, 56]])
        self.assertEqual(len(list(pickle.loads(pickle.dumps(self.shards(wds.shuffle(8), wds.decode(), wds.listed(3)))))), 7)

    def test_packed_shards_are_read_by_both(self):
        wds = self.wds
        with open(self.path("t-000.tar"), "rb") as file:
            data = file.read()
        for name in ("one.tgz", "one.tar.gz"):
            with open(self.path(name), "wb") as file:
                file.write(gzip.compress(data))
        expected = [*map(plain, self.made(urls="t-000.tar").decode("rgb8").to_tuple("png", "cls"))]
        for urls in ("one.tgz", "one.tar.gz"):
            for made in (self.made(urls=urls).decode("rgb8").to_tuple("png", "cls"),
                         self.shards(wds.decode("rgb8"), wds.to_tuple("png", "cls"), urls=urls)):
                self.assertEqual([*map(plain, made)], expected)
        piped = wds.WebDataset("pipe:cat " + self.path("one.tgz"), shardshuffle=False).to_tuple("cls")
        self.assertEqual([int(number) for number, in piped], [*range(5)])

    def test_members_are_selected_and_renamed_by_their_names(self):
        def rename(name):
            return name.replace(".cls", ".label.txt")
        made = self.made(select_files=lambda name: name.endswith(".txt"), rename_files=rename)
        self.assertEqual([s["label.txt"] for s in made][:2], [b"0", b"1"])
        wds = self.wds
        staged = wds.DataPipeline(wds.SimpleShardList(self.path("t-000.tar")), wds.tarfile_to_samples(rename_files=rename))
        self.assertIn("label.txt", next(iter(staged)))

    def test_a_shard_that_breaks_off_gives_what_is_before(self):
        wds = self.wds
        with open(self.path("t-000.tar"), "rb") as file:
            data = file.read()
        with open(self.path("cut.tar"), "wb") as file:
            file.write(data[:len(data) // 2])

        def read(handler):
            return len(list(wds.DataPipeline(wds.SimpleShardList([self.path("cut.tar"), self.path("t-001.tar")]),
                                             wds.tarfile_to_samples(handler))))
        self.assertTrue(0 < read(wds.ignore_and_stop) < 5)
        self.assertEqual(read(wds.ignore_and_continue), read(wds.ignore_and_stop) + 5)
        with self.assertRaises(tarfile.ReadError):
            read(wds.reraise_exception)

    def test_keys_are_extracted_renamed_and_decoded_by_patterns(self):
        wds = self.wds
        made = next(iter(self.shards(wds.extract_keys("*.jpg;*.png", "cls"))))
        self.assertEqual((made[0][:4], made[1]), (b"\x89PNG", b"0"))
        made = next(iter(self.shards(wds.rename_keys(("image", "*.png"), ("image", "png"), y="cls", must_match=False))))
        self.assertEqual(set(made), {"image", "y"})
        made = next(iter(self.shards(wds.xdecode(cls=lambda stream: int(stream.read()), must_decode=False))))
        self.assertEqual((made["cls"], made["png"][:4]), (0, b"\x89PNG"))
        for words, stage in (("no key of", wds.extract_keys("none")), ("match", wds.extract_keys("*")),
                             ("no key of", wds.rename_keys(x="none")), ("no decoder", wds.xdecode())):
            with self.assertRaisesRegex(ValueError, words):
                list(self.shards(stage))
        chained = self.made().extract_keys("cls").map(lambda s: int(s[0]))
        self.assertEqual(list(chained), [*range(20)])

    def test_sources_are_mixed(self):
        wds = self.wds
        parts = [self.made(urls="t-00%d.tar" % i).decode(only="cls").to_tuple("cls") for i in range(3)]
        turns = [number for number, in wds.RoundRobin(parts, longest=True)]
        self.assertEqual(turns[:7], [0, 5, 10, 1, 6, 11, 2])
        mixed = [number for number, in wds.RandomMix(parts, [1, 2, 3], longest=True, seed=4)]
        self.assertEqual((sorted(mixed), mixed == turns), ([*range(15)], False))
        self.assertEqual(mixed, [number for number, in wds.RandomMix(parts, [1, 2, 3], longest=True, seed=4)])
        endless = [wds.DataPipeline(wds.MockDataset((i,), 4000)) for i in range(3)]
        counts = [0, 0, 0]
        for number, in itertools.islice(wds.RandomMix(endless, [1, 2, 5], seed=1), 4000):
            counts[number] += 1
        for count, share in zip(counts, (1 / 8, 2 / 8, 5 / 8)):
            self.assertLess(abs(count - 4000 * share), 5 * (4000 * share * (1 - share)) ** 0.5, counts)
        with self.assertRaisesRegex(ValueError, "probs"):
            wds.RandomMix(parts, [1, 2])

    def test_a_webloader_makes_batches_of_its_size(self):
        wds = self.wds
        made = self.made().decode(only="cls").to_tuple("cls")
        for batch_size, drop_last, sizes in ((6, False, [6, 6, 6, 2]), (6, True, [6, 6, 6])):
            loader = wds.WebLoader(made, batch_size=batch_size, num_workers=4, drop_last=drop_last)
            self.assertEqual([len(labels) for labels, in loader], sizes)
        self.assertEqual(len(list(wds.WebLoader(made, batch_size=6).unbatched())), 20)
        self.assertEqual([len(labels) for labels in wds.WebLoader(made, batch_size=9, collate_fn=list)], [9, 9, 2])

    def test_a_shard_that_gzip_packed_and_that_ends_too_early_gives_what_is_before(self):
        with open(self.path("t-000.tar"), "rb") as file:
            data = gzip.compress(file.read())
        with open(self.path("short.tgz"), "wb") as file:
            file.write(data[:len(data) * 2 // 3])
        broken = bytearray(data)
        broken[len(data) * 2 // 3:] = bytes(len(data) - len(data) * 2 // 3)
        with open(self.path("broken.tgz"), "wb") as file:
            file.write(broken)
        for urls in (self.path("short.tgz"), "pipe:cat " + self.path("short.tgz"), self.path("broken.tgz")):
            def keys(handler, urls=urls):
                made = self.wds.WebDataset([urls, self.path("t-001.tar")], shardshuffle=False, handler=handler)
                return [(sample["__key__"], sample["cls"]) for sample in made]
            stopped = keys(self.wds.ignore_and_stop)
            self.assertEqual(stopped, [("d/0_%d" % i, b"%d" % i) for i in range(len(stopped))])
            self.assertTrue(0 < len(stopped) < 5, stopped)
            self.assertEqual(len(keys(self.wds.ignore_and_continue)), len(stopped) + 5)
            self.assertRaises((EOFError, zlib.error), keys, self.wds.reraise_exception)

    def test_gzip_may_have_packed_several_parts(self):
        unpacked = module("_wds_cut").unpacked
        first, second = os.urandom(200000), os.urandom(100)
        data = gzip.compress(first) + gzip.compress(second) + bytes(30)
        self.assertEqual(unpacked(data), (first + second, None))
        self.assertEqual(unpacked(b"plain"), (b"plain", None))
        part, error = unpacked(data[:150000])
        self.assertEqual((part, type(error)), (first[:len(part)], EOFError))
        self.assertGreater(len(part), 140000)

    def test_a_pipe_that_fails_says_its_status_and_one_that_is_left_early_does_not(self):
        wds = self.wds
        for source in (wds.WebDataset, lambda url, **_: wds.DataPipeline(wds.SimpleShardList(url), wds.tarfile_to_samples())):
            with self.assertRaisesRegex(IOError, "ended with status 3"):
                list(source("pipe:cat %s; exit 3" % self.path("t-000.tar"), shardshuffle=False))
        with wds.gopen("pipe:yes") as stream:
            self.assertEqual(stream.read(4), b"y\ny\n")
        with self.assertRaisesRegex(IOError, "ended with status 1"), wds.gopen("pipe:cat >/dev/null; exit 1", "wb") as sink:
            sink.write(b"x")

    def test_functions_and_classes_are_stages(self):
        class Doubled(self.wds.PipelineStage):
            def run(self, source):
                return (2 * number for number in source)
        add = self.wds.pipelinefilter(lambda source, number, times=1: (one + number * times for one in source))
        self.assertEqual(list(self.wds.DataPipeline([1, 2], Doubled(), add(3, times=2))), [8, 10])
        self.assertEqual(list(self.wds.DataPipeline([1, 2]).compose(add(1))), [2, 3])

    def test_tensors_of_its_own_format(self):
        tensors = module("_tenbin")
        arrays = [numpy.arange(12, dtype=kind).reshape(3, 4) for kind in ("<f2", "<f4", "<f8", "<i8", "u1")]
        arrays += [numpy.empty((0, 3), "<f4"), numpy.array(7, "<i4")]
        data = tensors.encode_buffer(arrays)
        found = tensors.decode_buffer(data)
        self.assertEqual([(a.dtype, a.shape, a.tolist()) for a in found], [(a.dtype, a.shape, a.tolist()) for a in arrays])
        if importable("webdataset") is not None:
            theirs = importlib.import_module("webdataset.tenbin")
            self.assertEqual(bytes(theirs.encode_buffer(arrays[:5])), tensors.encode_buffer(arrays[:5]))
        for wrong in (data[:-65], b"x" * 80, data[:8] + b"\xff" * 8 + data[16:], data[:16] + b"zz" + data[18:]):
            self.assertRaises(ValueError, tensors.decode_buffer, wrong)

    @unittest.skipUnless(os.environ.get("WEBDATASET"), "WEBDATASET names no folder with the sources of webdataset")
    @needs("pytest", "torch", "torchvision", "PIL", "imageio")
    def test_webdatasets_own_tests_pass(self):
        """Those of its parts that are here, but for the network, and what README.md says."""
        folder = self.path("suite")
        shutil.copytree(os.environ["WEBDATASET"], folder, ignore=shutil.ignore_patterns(".git", "docs", "examples"))
        done = subprocess.run([sys.executable, os.path.join("tests", "bindings", "webdataset_suite.py"), folder, "ours"],
                              capture_output=True, text=True, timeout=900,
                              env={**os.environ, "BENZINA_LIBRARY": os.path.abspath(benzina.lib._name)})
        outcomes = dict(line.split()[1:] for line in done.stdout.splitlines() if line.startswith("RESULT "))
        self.assertGreaterEqual(sum(outcome == "passed" for outcome in outcomes.values()), 164, done.stdout[-3000:])


@needs_decoder
@needs("numpy")
class Shards(InWebDataset):
    """Writers of shards, caches, folders that change, and what is refused for safety."""

    def read(self, *names, **options):
        return list(self.wds.WebDataset([self.path(name) for name in names], shardshuffle=False, **options))

    @needs("PIL")
    def test_what_is_written_is_read_as_it_was(self):
        clock = unittest.mock.patch("time.time", return_value=5.0)          # gzip writes it
        clock.start()
        self.addCleanup(clock.stop)
        random = numpy.random.default_rng(1)
        pixels = random.integers(0, 256, (12, 10, 3)).astype("uint8")
        sample = {
            "__key__": "a/b", "__meta__": "left out", "cls": 3, "txt": "\u00fc", "json": {"a": [1, None]}, "bin": b"\0\1",
            "npy": numpy.arange(6).reshape(2, 3), "npz": {"x": numpy.ones(2)}, "ten": [numpy.arange(3), numpy.zeros((2, 2))],
            "png": pixels, "gray.png": pixels[:, :, :1], "float.png": pixels / 255.0, "jpg": numpy.full_like(pixels, 77), "txt.gz": "z" * 1000,
        }
        with self.wds.TarWriter(self.path("w.tar"), mtime=5) as sink:
            size = sink.write(sample)
        with tarfile.open(self.path("w.tar")) as tar:
            members = tar.getmembers()
        self.assertEqual([member.name for member in members], ["a/b." + name for name in sorted(sample) if name[0] != "_"])
        self.assertEqual({(member.mtime, member.mode, member.uname, member.gname) for member in members},
                         {(5, 0o444, "bigdata", "bigdata")})
        self.assertEqual(sum(member.size for member in members), size)
        self.assertLess(next(member.size for member in members if member.name == "a/b.txt.gz"), 100)
        found, = self.wds.WebDataset(self.path("w.tar"), shardshuffle=False).decode("rgb8")
        for name, value in (("cls", 3), ("txt", "\u00fc"), ("json", {"a": [1, None]}), ("bin", b"\0\1"), ("txt.gz", "z" * 1000)):
            self.assertEqual(found[name], value)
        numpy.testing.assert_array_equal(found["npy"], sample["npy"])
        numpy.testing.assert_array_equal(found["npz"]["x"], [1, 1])
        self.assertEqual([array.tolist() for array in found["ten"]], [[0, 1, 2], [[0, 0], [0, 0]]])
        for name in ("png", "float.png"):
            self.assertLess(abs(found[name].astype(int) - pixels).max(), 2)
        numpy.testing.assert_array_equal(found["png"], pixels)
        numpy.testing.assert_array_equal(found["gray.png"], pixels[:, :, :1].repeat(3, 2))
        self.assertLess(abs(found["jpg"].astype(int) - 77).max(), 3)
        with open(self.path("w.tar"), "rb") as file:
            first = file.read()
        with self.wds.TarWriter("pipe:cat > " + self.path("again.tar"), mtime=5, compress=False) as sink:
            sink.write(sample)
        with open(self.path("again.tar"), "rb") as file:
            again = file.read()
        with open(self.path("open.tar"), "w+b") as file:
            with self.wds.TarWriter(file, mtime=5) as sink:
                sink.write(sample)
            file.seek(0)
            self.assertEqual(file.read(), first)
        with tarfile.open(fileobj=io.BytesIO(again)) as tar:
            self.assertEqual([member.name for member in tar], [member.name for member in members])

    def test_a_sample_that_cannot_be_encoded_leaves_the_tar_as_it_was(self):
        with self.wds.TarWriter(self.path("left.tar")) as sink:
            sink.write({"__key__": "0", "cls": 0})
            for sample, words in (({"__key__": "1", "cls": 1, "strange": object()}, "nothing encodes .strange"),
                                  ({"cls": 1}, "__key__: the sample has none"),
                                  ({"__key__": "1", "cls": 1, "json": {1: object()}}, "^json: "),
                                  ({"__key__": "1", "npy": numpy.array([object()])}, "^npy: ")):
                self.assertRaisesRegex((ValueError, TypeError), words, sink.write, sample)
            sink.write({"__key__": "2", "cls": 2})
        self.assertRaisesRegex(ValueError, "the writer is closed", sink.write, {"__key__": "3"})
        sink.close()
        self.assertEqual([(s["__key__"], s["cls"]) for s in self.read("left.tar")], [("0", b"0"), ("2", b"2")])

    def test_encoders_and_compression(self):
        made = self.path("enc.tgz")
        with self.wds.TarWriter(made, encoder={"cls": lambda number: b"<%d>" % number}, keep_meta=True) as sink:
            sink.write({"__key__": "0", "cls": 7, "__more__": "m"})
        with tarfile.open(made, "r:gz") as tar:
            self.assertEqual([(m.name, tar.extractfile(m).read()) for m in tar], [("0.__more__", b"m"), ("0.cls", b"<7>")])
        with self.wds.TarWriter(self.path("raw.tar.xz"), encoder=False) as sink:
            self.assertRaisesRegex(ValueError, "cls of sample 0: it is int, not bytes", sink.write, {"__key__": "0", "cls": 7})
        self.assertEqual(tarfile.open(self.path("raw.tar.xz"), "r:xz").getnames(), [])
        with self.wds.TarWriter(self.path("own.tar"), encoder=lambda sample: {"__key__": "k", "txt": "own"}) as sink:
            sink.write({})
        self.assertEqual(self.read("own.tar")[0]["txt"], b"own")
        self.assertRaisesRegex(TypeError, "encoder: 7 is neither", self.wds.TarWriter, self.path("x.tar"), encoder=7)
        self.assertRaisesRegex(ValueError, "compress: 'zip' is none of", self.wds.TarWriter, self.path("x.tar"), compress="zip")

    def test_shards_end_by_samples_and_by_bytes(self):
        done = []
        with self.wds.ShardWriter(self.path("s-%02d.tar"), maxcount=4, post=done.append, start_shard=3, verbose=0) as sink:
            for number in range(10):
                sink.write({"__key__": "%03d" % number, "cls": number})
        names = ["s-03.tar", "s-04.tar", "s-05.tar"]
        self.assertEqual(done, [self.path(name) for name in names])
        self.assertEqual([[int(s["cls"]) for s in self.read(name)] for name in names],
                         [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]])
        with self.wds.ShardWriter(self.path("b-%d.tar"), maxsize=2500, verbose=0, encoder=False) as sink:
            for number in range(7):
                sink.write({"__key__": "%d" % number, "bin": bytes(1000)})
        self.assertEqual([len(self.read("b-%d.tar" % shard)) for shard in range(3)], [3, 3, 1])
        self.assertRaisesRegex(ValueError, "names all shards alike", self.wds.ShardWriter, self.path("one%%.tar"))

    def test_a_cache_fetches_each_shard_once(self):
        wds, folder, log = self.wds, self.path("cache"), self.path("fetched")
        urls = ["pipe:echo >> %s; cat %s # %d" % (log, self.path("t-%03d.tar" % i), i) for i in range(4)]

        def fetched():
            with open(log) as file:
                return len(file.readlines())

        def name(url):
            return "shard-%s.tar" % url[-1]
        made = wds.WebDataset(urls, cache_dir=folder, url_to_name=name, shardshuffle=False)
        expected = list(self.made())
        for _ in range(2):
            found = list(made)
            self.assertEqual([s["cls"] for s in found], [s["cls"] for s in expected])
            self.assertEqual((found[7]["__url__"], found[7]["__local_path__"]), (urls[1], os.path.join(folder, "shard-1.tar")))
        self.assertEqual((fetched(), sorted(os.listdir(folder))), (4, ["shard-%d.tar" % i for i in range(4)]))
        again = wds.WebDataset(urls, cache_dir=folder, url_to_name=name, shardshuffle=False)
        pictures = list(again.decode("rgb8", shape=8).to_tuple("png", "__local_path__"))
        self.assertEqual((len(pictures), pictures[-1][1]), (20, os.path.join(folder, "shard-3.tar")))
        selected = wds.WebDataset(urls, cache_dir=folder, url_to_name=name, shardshuffle=False, select_files=lambda n: "cls" in n)
        self.assertEqual([(s["cls"], s["__url__"], s["__local_path__"]) for s in selected][7],
                         (b"7", urls[1], os.path.join(folder, "shard-1.tar")))
        self.assertEqual([s["cls"] for s in pickle.loads(pickle.dumps(wds.WebDataset(urls, cache_dir=folder)))][:1], [b"0"])
        self.assertEqual(fetched(), 4 + 4)          # by other names
        self.assertEqual(len(list(wds.WebDataset(urls, cache_dir=folder, cache_size=0))), 20)
        self.assertEqual(fetched(), 4 + 4 + 4)

    def test_a_cache_refuses_what_is_no_tar_and_leaves_nothing(self):
        folder = self.path("bad")
        for url, words in (("pipe:echo not found", "it is no tar: it begins with b'not found"),
                           ("pipe:head -c 4000 %s; exit 2" % self.path("t-000.tar"), "status 2")):
            made = self.wds.WebDataset(url, cache_dir=folder, shardshuffle=False)
            self.assertRaisesRegex(Exception, words, list, made)
            self.assertEqual(os.listdir(folder), [])
        made = self.wds.WebDataset(["pipe:false", self.path("t-000.tar")], cache_dir=folder, handler=self.wds.ignore_and_continue)
        self.assertEqual(len(list(made)), 5)
        outside = self.wds.WebDataset("pipe:true", cache_dir=folder, url_to_name=lambda url: "../x")
        self.assertRaisesRegex(ValueError, "is no name for a file of pipe:true", list, outside)

    def test_a_cache_keeps_its_size(self):
        folder, size = self.path("small"), os.path.getsize(self.path("t-000.tar"))
        cache = self.wds.FileCache(folder, cache_size=2.5 * size, cache_cleanup_interval=None, url_to_name=lambda url: url[-1])
        urls = ["pipe:cat %s #%d" % (self.path("t-000.tar"), i) for i in range(5)]
        for i in (0, 1, 2):
            cache.get_file(urls[i])
            time.sleep(0.02)
        cache.get_file(urls[0])                 # it is used again
        time.sleep(0.02)
        cache.get_file(urls[3])
        self.assertEqual(sorted(os.listdir(folder)), ["0", "2", "3"])
        stages = self.wds.DataPipeline(urls, cache)
        for opened in stages:
            with opened["stream"] as stream:
                self.assertEqual(len(stream.read()), size)

    def test_names_in_a_cache(self):
        name = self.wds.url_to_cache_name
        self.assertEqual((name("https://host/a/b.tar?x=1"), name("s3://bucket/a/b.tar", 1)), ("b.tar", "a/b.tar"))
        self.assertEqual(name("pipe:cat x/y"), "pipe%3Acat%20x%2Fy")
        self.assertRaises(AssertionError, name, 3)

    @needs("lmdb")
    def test_lmdb_keeps_samples_for_later_runs_in_their_order(self):
        wds, passes = self.wds, []

        def shards():
            return self.made().map(lambda sample: passes.append(1) or sample).lmdb_cached(self.path("db"), map_size=1e8, chunksize=7)
        made = shards()
        left = iter(made)
        for _ in range(9):
            next(left)                          # a pass that does not come to its end counts for nothing
        left.close()
        first, count = list(made), len(passes)
        self.assertEqual(len(first), 20)
        self.assertEqual((list(made), len(passes)), (first, count))
        del made
        self.assertEqual((list(wds.DataPipeline([], wds.LMDBCached(self.path("db")))), len(passes)), (first, count))

    def test_a_folder_whose_shards_come_and_go(self):
        wds, folder = self.wds, self.path("spool") + os.sep

        def names():
            return sorted(os.listdir(folder))

        def put(*added):
            os.makedirs(folder, exist_ok=True)
            for name in added:
                shutil.copy(self.path("t-000.tar"), folder + name)
        put("a.tar", "b.tgz", "c.txt")
        listed = wds.DirectoryShardList(folder, poll=None, mode="unlink", select="oldest")
        shards = iter(listed)
        active = "a.tar._%d_" % os.getpid()
        self.assertEqual((next(shards), names()), ({"url": folder + active}, [active, "b.tgz", "c.txt"]))
        list(shards)
        self.assertEqual(names(), ["c.txt"])
        put("d.tar", "e.tar._99999999_")
        kept = iter(wds.DirectoryShardList(folder, poll=None, mode="keep"))
        self.assertEqual(next(kept)["url"], folder + "d.tar._%d_" % os.getpid())
        self.assertEqual((list(kept), names()), ([], ["c.txt", "d.tar._done_", "e.tar._done_"]))
        put("f.tar")
        pipeline = wds.DataPipeline(wds.DirectoryShardList(folder, poll=0.01), wds.tarfile_to_samples(), wds.slice(12))
        self.assertEqual([int(sample["cls"]) for sample in pipeline], [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1])
        self.assertEqual(list(wds.DirectoryShardList(folder, pattern="none*", poll=0.01, timeout=0.05)), [])
        put("g.tar")
        slow = iter(wds.DirectoryShardList(folder, poll=0.01, timeout=0.05))
        for _ in range(3):                      # the timeout is of a folder without shards, not of who uses them
            next(slow)
            time.sleep(0.06)
        self.assertRaisesRegex(ValueError, "is no folder", wds.DirectoryShardList, folder + "none")
        self.assertRaisesRegex(ValueError, "mode: 'once' is none of", wds.DirectoryShardList, folder, mode="once")

    def test_pickles_are_loaded_only_by_who_allows_them(self):
        wds = self.wds
        with wds.TarWriter(self.path("pickled.tar")) as sink:
            sink.write({"__key__": "0", "pyd": {"a": 1}})
        self.addCleanup(setattr, wds.utils, "enforce_security", None)
        made = wds.WebDataset(self.path("pickled.tar"), shardshuffle=False).decode()
        with self.assertRaises(wds.DecodingError) as caught:
            list(made)
        self.assertIn("enforce_security = False loads it", str(caught.exception.__cause__))
        wds.utils.enforce_security = False
        self.assertEqual([sample["pyd"] for sample in made], [{"a": 1}])
        wds.utils.enforce_security = True
        for url in (self.path("pickled.tar"), "pipe:true", "file:" + self.path("pickled.tar")):
            self.assertRaisesRegex(ValueError, "enforce_security is True", wds.gopen, url)
            self.assertRaisesRegex(ValueError, "enforce_security is True", list, wds.WebDataset(url, shardshuffle=False))

    @needs("torch")
    def test_files_of_torch_have_tensors_alone_unless_pickles_are_allowed(self):
        import torch
        wds = self.wds
        with wds.TarWriter(self.path("torch.tar")) as sink:
            sink.write({"__key__": "0", "pth": {"a": torch.arange(3)}})
            sink.write({"__key__": "1", "pth": Unusual()})
        made = wds.WebDataset(self.path("torch.tar"), shardshuffle=False).decode(handler=wds.ignore_and_continue)
        self.assertEqual([sample["pth"]["a"].tolist() for sample in made], [[0, 1, 2]])
        self.addCleanup(setattr, wds.utils, "enforce_security", None)
        wds.utils.enforce_security = False
        self.assertEqual([type(sample["pth"]) for sample in made], [dict, Unusual])

    def test_urls_are_rewritten_as_the_environment_says(self):
        self.addCleanup(os.environ.pop, "GOPEN_REWRITE", None)
        os.environ["GOPEN_REWRITE"] = "gs:=s3:;nowhere/=%s/" % self.holder.name
        self.assertEqual(self.wds.rewrite_url("gs://b/x.tar"), "s3://b/x.tar")
        found = list(self.wds.WebDataset("nowhere/t-001.tar", shardshuffle=False))
        self.assertEqual((len(found), found[0]["__url__"]), (5, "nowhere/t-001.tar"))


@needs_decoder
@needs("numpy", "webdataset")
class BesideWebDataset(InWebDataset):
    """The same from webdataset."""

    def check(self, make, **options):
        found = [
            list(map(plain, make(self.made(where, **options), where))) for where in (importable("webdataset"), self.wds)
        ]
        self.assertGreater(len(found[0]), 0)
        self.assertEqual(*found)

    def test_samples_and_orders(self):
        self.check(lambda made, where: made)
        self.check(
            lambda made, where: made.shuffle(10, initial=5, seed=3).to_tuple("cls", "__key__"), shardshuffle=3, seed=7
        )
        self.check(lambda made, where: made.to_tuple("cls"), shardshuffle=100, seed=7, detshuffle=True)
        self.check(lambda made, where: made.to_tuple("cls").with_epoch(50))
        self.check(lambda made, where: made.to_tuple("cls").repeat(2))

    @needs("PIL")
    def test_decoded_pictures(self):
        for spec in ("rgb8", "rgb", "l8", "l", "pil", "pill"):
            self.check(lambda made, where: made.decode(spec))

    @needs("torch")
    def test_decoded_tensors(self):
        for spec in ("torchrgb8", "torchrgb", "torchl8", "torchl"):
            self.check(lambda made, where: made.decode(spec, only="png").map_dict(png=lambda tensor: tensor.numpy()))

    def test_stages(self):
        self.check(lambda made, where: made.decode().to_tuple("cls json txt bin", missing_is_error=False))
        self.check(
            lambda made, where: made.decode("rgb8")
            .to_tuple("png", "cls", "txt")
            .map_tuple(lambda p: p[:16, :16], None)
            .batched(6)
        )
        self.check(lambda made, where: made.decode().to_tuple("cls", "npy").batched(6, partial=False))
        self.check(
            lambda made, where: made.decode(only="cls")
            .select(lambda s: s["cls"] % 2)
            .rename(y="cls", x="none;png")
            .map(lambda s: {"y": s["y"], "x": len(s["x"])})
            .batched(4)
        )
        self.check(
            lambda made, where: made.decode()
            .to_tuple("cls", "txt")
            .batched(6)
            .unbatched()
            .listed(4)
            .unlisted()
            .slice(3, 15, 2)
        )
        self.check(lambda made, where: made.map(not_a_fifth, handler=where.ignore_and_continue).to_tuple("cls"))
        self.check(
            lambda made, where: made.slice(1, None).map(not_a_fifth, handler=where.ignore_and_stop).to_tuple("cls")
        )

    def test_signatures(self):
        webdataset = importable("webdataset")
        for name in (
            "shuffle",
            "map",
            "decode",
            "map_dict",
            "select",
            "to_tuple",
            "map_tuple",
            "slice",
            "rename",
            "rsample",
            "batched",
            "listed",
            "unbatched",
            "unlisted",
            "with_epoch",
            "with_length",
            "repeat",
            "compose",
        ):
            theirs, ours = (
                inspect.signature(getattr(where.WebDataset, name)).parameters for where in (webdataset, self.wds)
            )
            positional = [
                p.name
                for p in theirs.values()
                if p.kind == p.POSITIONAL_OR_KEYWORD and p.name not in ("self", "f", "handler", "keep")
            ]
            self.assertEqual([p for p in ours if p in positional], positional, name)
        theirs, ours = (
            list(inspect.signature(where.WebDataset.__init__).parameters) for where in (webdataset, self.wds)
        )
        self.assertEqual(theirs, ours)


class Types(unittest.TestCase):
    @needs("mypy", "numpy")
    def test_the_modules_are_typed_strictly(self):
        names = [
            "mx.py",
            "wds.py",
            "_decoders.py",
            *("_wds_%s.py" % name for name in ("cache", "cut", "stages", "utils", "writer")),
            *("torch/" + name for name in ("__init__.py", "dataset.py", "dataloader.py", "operations.py")),
            "utils/__init__.py",
            "utils/file.py",
        ]
        with tempfile.TemporaryDirectory() as folder:
            settings = os.path.join(folder, "mypy.ini")
            with open(settings, "w") as file:   # torch's types alone take a minute
                file.write("[mypy]\n[mypy-torch.*]\nfollow_imports = skip\nignore_missing_imports = True\n")
                file.write("[mypy-PIL.*]\nignore_missing_imports = True\n")
            done = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "mypy",
                    "--strict",
                    "--follow-imports=silent",
                    "--explicit-package-bases",
                    "--cache-dir",
                    folder,
                    "--config-file",
                    settings,
                    *(os.path.join(PACKAGE, "benzina", name) for name in names),
                ],
                capture_output=True,
                text=True,
                env={**os.environ, "MYPYPATH": PACKAGE},
            )
        self.assertEqual(done.stdout, "Success: no issues found in %d source files\n" % len(names))


if __name__ == "__main__":
    run_tests(sys.modules["__main__"])
