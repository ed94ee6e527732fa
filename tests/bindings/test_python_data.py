"""test_python_data.py - data that people have: Hugging Face's data sets, tables and parquet; shards kept on a disk, and
mixed

    BENZINA_LIBRARY=build/libbenzina.so python3 tests/bindings/test_python_data.py build/bzna        from the repository's root

Prints FAIL and SKIP lines, and a count last.
"""
import io
import os
import sys
import tempfile
import unittest

from needs import importable, needs
from test_python import needs_decoder, run_tests

import benzina
from benzina import ops

numpy = importable("numpy")
pyarrow = importable("pyarrow")
hugging = importable("datasets")


def pixels_of(number, width=24, height=20):
    """H x W x 3 that no other number has."""
    y, x = numpy.mgrid[:height, :width]
    return numpy.stack([(x * 9 + number * 7) % 256, (y * 11 + number) % 256, (x + y + number * 3) % 256], -1).astype("uint8")


def png(number):
    import PIL.Image
    file = io.BytesIO()
    PIL.Image.fromarray(pixels_of(number)).save(file, "png")
    return file.getvalue()


def loaded(dataset, **settings):
    """(pictures, targets) of all samples, in order."""
    loader = benzina.DataLoader(dataset, (20, 24), 4, warp=None, dtype="uint8", layout="NHWC", output="numpy", **settings)
    images, targets = [], []
    for batch in loader:
        images.append(batch[0].copy())
        targets += batch[1].tolist()
    return numpy.concatenate(images), targets


@needs_decoder
@needs("numpy", "PIL", "pyarrow")
class Tables(unittest.TestCase):
    """Tables of pyarrow's, and parquet files."""

    COUNT = 11

    def setUp(self):
        self.holder = tempfile.TemporaryDirectory()
        self.addCleanup(self.holder.cleanup)

    def path(self, name):
        return os.path.join(self.holder.name, name)

    def check(self, dataset, numbers, targets):
        self.assertEqual(len(dataset), len(numbers))
        images, found = loaded(dataset)
        self.assertEqual(found, targets)
        for image, number in zip(images, numbers):
            self.assertTrue((image == pixels_of(number)).all(), number)

    def table(self, numbers=None, **more):
        numbers = range(self.COUNT) if numbers is None else numbers
        columns = {"image": [png(n) for n in numbers], "label": [n % 3 for n in numbers], **more}
        return pyarrow.table(columns)

    def test_columns_are_fields_and_pictures_are_read_in_place(self):
        count = self.COUNT
        table = self.table(caption=["no. %d \u00e9" % n if n != 3 else None for n in range(count)],
                           score=[n / 4 for n in range(count)], box=[[n, n + 1, 2.5] for n in range(count)],
                           id=[10 ** 12 + n for n in range(count)], blob=[b"\0%d" % n for n in range(count)])
        dataset = benzina.Dataset(table)
        self.check(dataset, range(count), [n % 3 for n in range(count)])
        sample = dataset[5]
        self.assertEqual((sample.fields["caption"], sample.fields["id"], list(sample.fields["score"]),
                          list(sample.fields["box"]), sample.fields["blob"]),
                         ("no. 5 \u00e9", 10 ** 12 + 5, [1.25], [5, 6, 2.5], b"\x005"))
        self.assertIsNone(dataset[3].fields["caption"])
        held = benzina.Dataset(table)           # no picture was copied
        made = benzina._tables.Table(table)
        data = table.column("image").chunk(0).buffers()[2]
        places = made._columns[0]
        self.assertTrue(((places["data"] >= data.address) & (places["data"] < data.address + data.size)).all())
        del table, data
        self.check(held, range(count), [n % 3 for n in range(count)])

    def test_chunks_slices_large_types_and_dictionaries(self):
        parts = [self.table(range(4)), self.table(range(1)).slice(0, 0), self.table(range(4, 9)), self.table(range(9, 14))]
        whole = pyarrow.concat_tables(parts)
        self.check(benzina.Dataset(whole), range(14), [n % 3 for n in range(14)])
        self.check(benzina.Dataset(whole.slice(3, 8)), range(3, 11), [n % 3 for n in range(3, 11)])
        large = whole.set_column(0, "image", whole.column("image").cast(pyarrow.large_binary()))
        self.check(benzina.Dataset(large.slice(5)), range(5, 14), [n % 3 for n in range(5, 14)])
        names = pyarrow.array(["cat", "dog", "ant"] * 3 + ["dog"]).dictionary_encode()
        named = pyarrow.table({"image": [png(n) for n in range(10)], "label": names})
        dataset = benzina.Dataset(named)
        self.check(dataset, range(10), [[1, 2, 0][n % 3] if n < 9 else 2 for n in range(10)])
        self.assertEqual(dataset.classes, ["ant", "cat", "dog"])
        chosen = benzina.Dataset(named, classes=["dog", "cat", "ant"])
        self.assertEqual((chosen.classes, list(chosen.targets)[:3]), (["dog", "cat", "ant"], [1, 0, 2]))
        with self.assertRaisesRegex(ValueError, "classes: there is no 'ant'"):
            benzina.Dataset(named, classes=["dog", "cat"])
        self.check(benzina.Dataset(self.table().to_batches()[0]), range(11), [n % 3 for n in range(11)])

    def test_labels_may_be_absent_fractions_or_rows(self):
        table = self.table()
        images = table.column("image")
        absent = pyarrow.table({"image": images, "label": pyarrow.array([1, None] * 5 + [2], pyarrow.int8())})
        self.check(benzina.Dataset(absent), range(11), [1, -1] * 5 + [2])
        fractions = benzina.Dataset(pyarrow.table({"image": images, "label": [n / 2 for n in range(11)]}))
        with self.assertRaisesRegex(ValueError, "label"):
            loaded(fractions)
        loader = benzina.DataLoader(fractions, 8, 11, output="numpy", tensors=["label"])
        self.assertEqual(next(iter(loader))[2]["label"].ravel().tolist(), [n / 2 for n in range(11)])

    def test_columns_are_chosen_by_name_or_refused(self):
        table = pyarrow.table({"a": [png(1)] * 2, "b": [png(2)] * 2, "y": [4, 5], "text": ["s", "t"]})
        dataset = benzina.from_table(table, image="b", label="y")
        self.check(dataset, [2, 2], [4, 5])
        self.assertEqual(set(dataset.fields), {"image", "a", "target", "text"})
        for words, kind, options in (("no such column", KeyError, {"image": "c"}), ("no such column", KeyError, {"label": "z"})):
            with self.assertRaisesRegex(kind, words):
                benzina.from_table(table, **options)
        with self.assertRaisesRegex(ValueError, "no column of y, text has pictures"):
            benzina.Dataset(table.select(["y", "text"]))

    def test_parquet_files_are_a_source(self):
        import pyarrow.parquet
        for number in range(3):
            pyarrow.parquet.write_table(self.table(range(4 * number, 4 * number + 4)), self.path("t-%d.parquet" % number),
                                        row_group_size=3)
        expected = range(12), [n % 3 for n in range(12)]
        files = [self.path("t-%d.parquet" % number) for number in range(3)]
        for source in (self.path("t-{0..2}.parquet"), self.path("t-*.parquet"), files):
            self.check(benzina.Dataset(source), *expected)
        self.check(benzina.Dataset(files[1]), range(4, 8), [n % 3 for n in range(4, 8)])
        with self.assertRaises(FileNotFoundError):
            benzina.Dataset(self.path("none-*.parquet"))
        with self.assertRaises(OSError):
            benzina.Dataset(self.path("none.parquet"))

    def test_paths_of_files_are_read_by_the_library(self):
        paths = []
        for number in range(70):                # more than are open at once
            paths.append(self.path("%d.png" % number))
            with open(paths[-1], "wb") as file:
                file.write(png(number))
        table = pyarrow.table({"file": paths, "label": [n % 2 for n in range(70)]})
        self.check(benzina.from_table(table, image="file"), range(70), [n % 2 for n in range(70)])

    @needs("datasets")
    def test_data_sets_of_hugging_face(self):
        features = hugging.Features({"image": hugging.Image(), "label": hugging.ClassLabel(names=["cat", "dog", "eel"])})
        data = hugging.Dataset.from_dict({"image": [{"bytes": png(n), "path": None} for n in range(self.COUNT)],
                                          "label": [n % 3 for n in range(self.COUNT)]}, features=features)
        plain = data.cast_column("image", hugging.Image(decode=False))
        for source in (data, plain, data.with_format("torch") if importable("torch") else data):
            dataset = benzina.Dataset(source)
            self.check(dataset, range(self.COUNT), [n % 3 for n in range(self.COUNT)])
            self.assertEqual(dataset.classes, ["cat", "dog", "eel"])
        shuffled = data.shuffle(seed=1).select(range(7))
        numbers = shuffled["label"]
        images, targets = loaded(shuffled)
        self.assertEqual(targets, list(numbers))
        for image, sample in zip(images, shuffled):
            self.assertTrue((image == numpy.asarray(sample["image"])).all())
        data.to_parquet(self.path("kept.parquet"))
        kept = benzina.Dataset(self.path("kept.parquet"))
        self.assertEqual(kept.classes, ["cat", "dog", "eel"])
        self.check(kept, range(self.COUNT), [n % 3 for n in range(self.COUNT)])
        with self.assertRaisesRegex(ValueError, "transform would not be applied"):
            benzina.Dataset(data.with_transform(lambda batch: batch))

    @needs("datasets")
    def test_pictures_of_hugging_face_may_be_paths(self):
        paths = []
        for number in range(5):
            paths.append(self.path("%d.png" % number))
            with open(paths[-1], "wb") as file:
                file.write(png(number))
        data = hugging.Dataset.from_dict({"image": paths, "label": [0, 1, 2, 1, 0]})
        data = data.cast_column("image", hugging.Image(decode=False))
        self.check(benzina.Dataset(data), range(5), [0, 1, 2, 1, 0])

    def test_batches_may_be_dicts(self):
        data = self.table()
        named = benzina.DataLoader(data, 8, 4, output="numpy",
                                   batch_map=lambda images, labels: {"pixel_values": images, "labels": labels})
        self.assertEqual([(sorted(batch), batch["pixel_values"].shape) for batch in named],
                         [(["labels", "pixel_values"], (n, 3, 8, 8)) for n in (4, 4, 3)])
        fields = benzina.DataLoader(data, 8, 4, output="numpy", bytes=["target"], batch_map=lambda *all_: len(all_))
        self.assertEqual(list(fields), [3, 3, 3])
        with self.assertRaisesRegex(TypeError, "batch_map"):
            benzina.DataLoader(data, 8, 4, batch_map={})


if __name__ == "__main__":
    run_tests(sys.modules["__main__"])
