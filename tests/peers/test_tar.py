"""test_tar.py - what Python's tarfile and webdataset write and read, beside what the library reads

    BENZINA_LIBRARY=build/libbenzina.so python3 tests/peers/test_tar.py build/bzna        from the repository's root

Prints FAIL and SKIP lines, and a count last.
"""
import io
import os
import random
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

sys.path.insert(0, os.path.join("examples", "python"))
sys.dont_write_bytecode = True
import benzina  # noqa: E402

BZNA = sys.argv[1] if len(sys.argv) > 1 else "build/bzna"
FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}

try:
    import webdataset
except ImportError:
    webdataset = None


def key_and_field(name):
    """As webdataset splits names, but for hidden files, which belong to no sample here."""
    if any(re.fullmatch("__.*__", part) for part in name.split("/")):
        return None
    match = re.fullmatch(r"((?:.*/|)[^./]+)[.]([^/]+)", name, re.DOTALL)
    return match and (match[1], match[2])


def members_of(path):
    with tarfile.open(path) as tar:
        return [(m.name, m.offset_data, m.size, tar.extractfile(m).read()) for m in tar if m.isreg()]


def samples_of(path):
    """[(key, [(field, offset, size, name, data)])], by tarfile and the rule alone."""
    result = []
    for name, offset, size, data in members_of(path):
        split = key_and_field(name)
        if split:
            if not result or result[-1][0] != split[0]:
                result.append((split[0], []))
            result[-1][1].append((split[1], offset, size, name, data))
    return result


def values_of(dataset):
    """The fields that each sample has, but for its key, as bytes: all kinds of them are looked up once."""
    text = [name for name, kind in dataset._field_kinds().items() if kind == benzina.FIELD_TEXT and name != "name"]
    integer = [name for name, kind in dataset._field_kinds().items() if kind == benzina.FIELD_INTEGER]
    names = [name for name in dataset.fields if name != "name"]
    for i in range(len(dataset)):
        values = {name: dataset._field(i, name.encode()) for name in names}
        yield {name: value[:-1] if name in text else b"%d" % int.from_bytes(value, sys.byteorder, signed=True)
               if name in integer else value for name, value in values.items() if value is not None}


def index_of(samples):
    """As wds2idx writes it."""
    lines = [" ".join("%s %d %d %s" % member[:4] for member in members) for _, members in samples]
    return "v1.2 %d\n%s\n" % (len(lines), "\n".join(lines))


def write_random_tar(path, format, rng, long=True):
    """Members of all sorts, in a random order of keys; bin, json, bytes, bits are fields of bytes."""
    with tarfile.open(path, "w", format=format) as tar:
        def add(name, data=b"", **more):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            for attribute, value in more.items():
                setattr(info, attribute, value)
            tar.addfile(info, io.BytesIO(data) if info.isreg() else None)

        for i in range(rng.randrange(20, 60)):
            folder = rng.choice(["", "./", "a/", "a.b/c/", "\u00fc/" if format != tarfile.USTAR_FORMAT else "u/"])
            if long and rng.random() < 0.3:
                folder += "/".join("n" * rng.randrange(1, 60) for _ in range(3)) + "/"
            key = "%s%05d" % (folder, i)
            if rng.random() < 0.2:
                add(folder + "folder", type=tarfile.DIRTYPE)
            if rng.random() < 0.2:
                add(key + ".link.bin", type=rng.choice([tarfile.SYMTYPE, tarfile.LNKTYPE]),
                    linkname="l" * rng.choice([3, 90, 200] if format != tarfile.USTAR_FORMAT else [3, 90]))
            if rng.random() < 0.2:
                add(rng.choice(["README", folder + ".hidden.bin", "__meta__/x.bin", folder + "x."]), b"of no sample")
            for field in rng.sample(["bin", "json", "left.bytes", "a.b.bits", "BITS"], rng.randrange(1, 4)):
                add(
                    key + "." + field,
                    rng.randbytes(rng.choice([0, 1, 511, 512, 513, 3000])),
                    mtime=rng.choice([0, 1e9, 1e9 + 0.25]),
                    uid=rng.choice([0, 8**7 + 1]) * (format != tarfile.USTAR_FORMAT),
                )


class Base(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="test_tar.")
        self.path = os.path.join(self.folder, "shard.tar")
        self.addCleanup(shutil.rmtree, self.folder)

    def check(self, samples, dataset):
        self.assertEqual([key for key, _ in samples], [dataset.field(i, "name") for i in range(len(dataset))])
        for (_, members), values in zip(samples, values_of(dataset)):
            self.assertEqual({field.lower(): data for field, _, _, _, data in members}, values)


class TarFile(Base):
    def test_what_tarfile_writes_is_read_as_tarfile_reads_it(self):
        for name, format in FORMATS.items():
            for seed in range(15):
                with self.subTest(format=name, seed=seed):
                    write_random_tar(self.path, format, random.Random(seed))
                    samples = samples_of(self.path)
                    for source in self.path, io.BytesIO(open(self.path, "rb").read()):
                        with benzina.Dataset(source) as dataset:
                            self.check(samples, dataset)

    def test_bzna_index_writes_what_wds2idx_writes(self):
        for name, format in FORMATS.items():
            for seed in range(5):
                with self.subTest(format=name, seed=seed):
                    write_random_tar(self.path, format, random.Random(100 + seed))
                    if os.path.exists(self.path[:-4] + ".idx"):
                        os.remove(self.path[:-4] + ".idx")
                    samples = samples_of(self.path)
                    for _ in range(2):          # the second one in the place of the first
                        done = subprocess.run([BZNA, "index", self.path], capture_output=True, text=True)
                        self.assertEqual((done.returncode, done.stderr), (0, ""))
                        self.assertEqual(done.stdout, "%s: %d samples\n" % (self.path[:-4] + ".idx", len(samples)))
                        self.assertEqual(open(self.path[:-4] + ".idx").read(), index_of(samples))
                    with benzina.Dataset(self.path) as dataset:
                        self.check(samples, dataset)

    def test_an_index_of_another_tar_is_refused_if_it_is_newer_and_ignored_if_it_is_older(self):
        write_random_tar(self.path, tarfile.GNU_FORMAT, random.Random(1))
        subprocess.run([BZNA, "index", self.path], check=True, capture_output=True)
        write_random_tar(self.path, tarfile.GNU_FORMAT, random.Random(2))
        os.utime(self.path[:-4] + ".idx", (1, 1))
        with benzina.Dataset(self.path) as dataset:
            self.check(samples_of(self.path), dataset)
        os.utime(self.path[:-4] + ".idx")
        with self.assertRaisesRegex(benzina.Error, "shard.tar: the .idx file next to it does not fit it .*bzna index"):
            benzina.Dataset(self.path)
        subprocess.run([BZNA, "index", self.path], check=True, capture_output=True)
        for times in (None, (1, 1)):
            os.utime(self.path[:-4] + ".idx", times)
            with benzina.Dataset(self.path) as dataset:
                self.check(samples_of(self.path), dataset)

    def test_bzna_index_refuses_what_cannot_have_one(self):
        def refused(part, *paths):
            done = subprocess.run([BZNA, "index", *paths], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn(part, done.stderr)
            self.assertEqual([name for name in os.listdir(self.folder) if not name.endswith(".tar")], [])
        with tarfile.open(self.path, "w") as tar:
            tar.addfile(tarfile.TarInfo("a b.bin"))
        refused("byte 0: its name has a blank", self.path)
        refused("only .tar and .rec files", self.path[:-4] + ".zip")
        refused("cannot be read", self.path[:-4] + "2.tar")
        with tarfile.open(self.path, "w") as tar:
            tar.addfile(tarfile.TarInfo("README"))
        refused("no samples", self.path)
        write_random_tar(self.path, tarfile.PAX_FORMAT, random.Random(3))
        whole = open(self.path, "rb").read()
        last = max(offset for _, offset, size, _ in members_of(self.path) if size > 600)
        for damaged in whole[:last + 5], whole[:last - 5], whole[:last - 400] + b"?" + whole[last - 399:]:
            open(self.path, "wb").write(damaged)
            refused(": byte ", self.path)
            self.assertRaises(benzina.Error, benzina.Dataset, self.path)


@unittest.skipUnless(webdataset, "webdataset is not installed, which Debian does not have")
class WebDataset(Base):
    def check_against_webdataset(self, path):
        theirs = [{name: value for name, value in sample.items() if name not in ("__url__", "__local_path__")}
                  for sample in webdataset.WebDataset(path, shardshuffle=False)]
        self.assertTrue(theirs)
        with benzina.Dataset(path) as dataset:
            self.assertEqual(len(theirs), len(dataset))
            self.assertEqual([sample.pop("__key__") for sample in theirs],
                             [dataset.field(i, "name") for i in range(len(dataset))])
            self.assertEqual(theirs, list(values_of(dataset)))

    def test_shards_of_its_writer_are_read_as_it_reads_them(self):
        rng = random.Random(4)
        with webdataset.TarWriter(self.path) as writer:
            for i in range(100):
                sample = {
                    "__key__": "d%d/%06d" % (i % 3, i),
                    "cls": i,
                    "txt": "caption \u00e9 %d" % i,
                    "json": {"i": [i]},
                    "seg.bin": rng.randbytes(i * 7),
                }
                if i % 5 == 0:
                    del sample["cls"]
                writer.write(sample)
        self.check_against_webdataset(self.path)
        with benzina.Dataset(self.path) as dataset:
            self.assertEqual([-1 if i % 5 == 0 else i for i in range(100)], list(dataset.targets))
            self.assertEqual(dataset.info.target_count, 80)
            self.assertEqual(dataset.field(7, "txt"), "caption \u00e9 7")

    def test_other_tars_are_grouped_as_it_groups_them(self):
        for name, format in FORMATS.items():
            for seed in range(10):
                with self.subTest(format=name, seed=seed):
                    rng = random.Random(seed)
                    with tarfile.open(self.path, "w", format=format) as tar:
                        for i in range(100):    # keys come again, not always next to each other
                            info = tarfile.TarInfo(
                                "%s%d.%s%d"
                                % (
                                    rng.choice(["", "a/", "b.c/", "./"]),
                                    rng.randrange(3),
                                    rng.choice(["bin", "x.JSON", "Y"]),
                                    i % 12,
                                )
                            )
                            info.size = rng.randrange(2000)
                            if rng.random() < 0.1:
                                info.name = rng.choice(["README", "__m__/1.bin", "__m__"])
                            tar.addfile(info, io.BytesIO(rng.randbytes(info.size)))
                    self.check_against_webdataset(self.path)


class Result(unittest.TestResult):
    def say(self):
        for test, trace in self.failures + self.errors:
            print("FAIL %s\n%s" % (test, trace))
        for test, reason in self.skipped:
            print("SKIP %s: %s" % (test, reason))
        failed = len({str(test).split(" (")[0] for test, _ in self.failures + self.errors})
        print("tests/peers/test_tar.sh: %d passed, %d failed, %d skipped"
              % (self.testsRun - failed - len(self.skipped), failed, len(self.skipped)))
        return 1 if failed else 0


if __name__ == "__main__":
    result = Result()
    unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"]).run(result)
    sys.exit(result.say())
