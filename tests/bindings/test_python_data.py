"""test_python_data.py - data that people have: Hugging Face's data sets, tables and parquet; shards kept on a disk, and
mixed

    BENZINA_LIBRARY=build/libbenzina.so python3 tests/bindings/test_python_data.py build/bzna        from the repository's root

Prints FAIL and SKIP lines, and a count last.
"""
import io
import os
import pickle
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import unittest

from needs import importable, needs
from test_python import needs_decoder, run_tests

import benzina

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


class Server:
    """A web server of files in memory, with ranges, that counts what it was asked for."""

    def __init__(self):
        import http.server
        files, asked = self.files, self.asked = {}, []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(handler):
                data = files.get(handler.path.lstrip("/"))
                if data is None:
                    handler.send_response(404)
                    handler.send_header("Content-Length", "0")
                    handler.end_headers()
                    return
                first, last = handler.headers["Range"].split("=")[1].split("-")
                part = data[int(first):int(last) + 1]
                asked.append((handler.path.lstrip("/"), len(part)))
                handler.send_response(206)
                handler.send_header("Content-Range", "bytes %s-%d/%d" % (first, int(first) + len(part) - 1, len(data)))
                handler.send_header("Content-Length", str(len(part)))
                handler.end_headers()
                handler.wfile.write(part)

            def log_message(self, *arguments):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self, name):
        return "http://127.0.0.1:%d/%s" % (self.server.server_port, name)

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def shard(first, count, padding=0):
    """A tar of pictures of these numbers, with classes of these numbers."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for number in range(first, first + count):
            for name, data in (("png", png(number)), ("cls", b"%d" % number), ("bin", bytes(padding))):
                member = tarfile.TarInfo("%04d.%s" % (number, name))
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    return file.getvalue()


def has_streams():
    try:
        benzina._stream._library()
    except ImportError:
        return False
    return True


@needs_decoder
@needs("numpy", "PIL")
@unittest.skipUnless(has_streams(), "libbenzina_stream.so was not built [zlib1g-dev libzstd-dev]")
class InFolder(unittest.TestCase):
    def setUp(self):
        self.holder = tempfile.TemporaryDirectory()
        self.addCleanup(self.holder.cleanup)
        self.folder = self.holder.name
        self.cache = os.path.join(self.folder, "cache")

    def write(self, name, data):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    @staticmethod
    def stream(sources, **settings):
        given = dict(seed=3, output="numpy", dtype="uint8", warp=None)
        return benzina.Stream(sources, (20, 24), 4, **{**given, **settings})

    def sizes(self):
        """Of what counts in the cache."""
        return {name: os.path.getsize(os.path.join(self.cache, name)) for name in os.listdir(self.cache)
                if name.endswith((".shard", ".part"))}


class Cache(InFolder):
    """Stream(cache=, cache_bytes=)"""

    PROGRAM = os.path.join("examples", "python", "benzina", "_cache.py")

    def get(self, source, limit=0, **more):
        return subprocess.Popen([sys.executable, self.PROGRAM, self.cache, str(limit), source], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, **more)

    def serve(self):
        server = Server()
        self.addCleanup(server.close)
        for number in range(3):
            server.files["s-%d.tar" % number] = shard(5 * number, 5, 100000)
        return server

    def test_shards_are_fetched_once_for_all_epochs_and_processes(self):
        server = self.serve()
        plain = self.stream([self.write(name, data) for name, data in server.files.items()])
        expected = [[t.tolist() for _, t in plain] for _ in range(2)]
        cached = self.stream(server.url("s-{0..2}.tar"), cache=self.cache)
        self.assertEqual([[t.tolist() for _, t in cached] for _ in range(2)], expected)
        self.assertEqual(cached.source_of(0), server.url("s-0.tar"))
        cached.close()
        fetched = sum(count for _, count in server.asked)
        self.assertLess(fetched, 1.5 * sum(map(len, server.files.values())))
        self.assertEqual(sorted(self.sizes().values()), sorted(map(len, server.files.values())))
        del server.asked[:]
        again = self.stream(server.url("s-{0..2}.tar"), cache=self.cache)
        self.assertEqual([t.tolist() for _, t in again], expected[0])
        self.assertEqual(server.asked, [])

    def test_commands_are_kept_where_they_end_well(self):
        data = shard(0, 3)
        path = self.write("a.tar", data)
        count = os.path.join(self.folder, "count")
        command = "pipe:echo x >> %s; cat %s" % (count, path)
        for _ in range(2):
            self.assertEqual([t.tolist() for _, t in self.stream(command, cache=self.cache)], [[0, 1, 2]])
        with open(count) as file:
            self.assertEqual(file.read(), "x\n")
        failing = self.get("pipe:cat %s; exit 3" % path)
        said, words = failing.communicate()
        self.assertEqual((said, failing.returncode), (b"", 1))
        self.assertIn(b"it ended with status 3", words)
        self.assertEqual(len(self.sizes()), 1)

    def test_the_limit_holds_and_what_was_used_longest_ago_goes_first(self):
        paths = [self.write("%d" % number, bytes([number]) * 2500000) for number in range(4)]
        sources = ["pipe:cat " + path for path in paths]

        def read(number):
            said, _ = self.get(sources[number], 6000000).communicate()
            self.assertEqual(said, bytes([number]) * 2500000)
            self.assertLessEqual(sum(self.sizes().values()), 6000000)

        def kept():
            found = set()
            for name in self.sizes():
                with open(os.path.join(self.cache, name), "rb") as file:
                    found.add(file.read(1)[0])
            return found

        for number in (0, 1):
            read(number)
            os.utime(os.path.join(self.cache, max(self.sizes(), key=lambda n: os.path.getmtime(
                os.path.join(self.cache, n)))), (1000 + number, 1000 + number))
        read(0)                                 # used again, so that 1 is the older one
        read(2)
        self.assertEqual(kept(), {0, 2})
        self.write("3", bytes(7000000))
        said, _ = self.get("pipe:cat " + paths[3], 6000000).communicate()
        self.assertEqual(len(said), 7000000)    # passed on
        self.assertLessEqual(sum(self.sizes().values()), 6000000)
        self.assertFalse([name for name in self.sizes() if name.endswith(".part")])

    def test_processes_share_a_folder(self):
        count, path = os.path.join(self.folder, "count"), self.write("a", bytes(range(256)) * 20000)
        command = "pipe:echo x >> %s; cat %s" % (count, path)
        processes = [self.get(command) for _ in range(6)]
        with open(path, "rb") as file:
            expected = file.read()
        for process in processes:
            self.assertEqual(process.communicate()[0], expected)
        with open(count) as file:
            self.assertEqual(file.read(), "x\n")

    def test_a_process_that_is_killed_leaves_nothing_that_is_read(self):
        ready, path = os.path.join(self.folder, "ready"), self.write("a", bytes(range(256)) * 20000)
        # the first part, and the rest when somebody says so
        command = "pipe:head -c 3000000 %s; while ! test -e %s; do sleep 0.05; done; tail -c +3000001 %s" % (path, ready, path)
        for _ in range(3):
            process = self.get(command)
            while not any(size for size in (self.sizes() if os.path.isdir(self.cache) else {}).values()):
                self.assertIsNone(process.poll())
                time.sleep(0.02)
            process.send_signal(signal.SIGKILL)
            process.wait()                      # its command goes on, and holds no lock
            process.stdout.close()
            process.stderr.close()
            self.assertEqual([name[-5:] for name in self.sizes()], [".part"])
        self.write("ready", b"")
        with open(path, "rb") as file:
            expected = file.read()
        for _ in range(2):
            self.assertEqual(self.get(command).communicate()[0], expected)
        self.assertEqual([name[-6:] for name in self.sizes()], [".shard"])

    def test_what_a_killed_process_left_makes_room(self):
        self.assertEqual(len(self.get("pipe:true").communicate()[0]), 0)
        with open(os.path.join(self.cache, "0" * 40 + ".part"), "wb") as file:
            file.write(bytes(5000000))
        said, _ = self.get("pipe:head -c 4000000 /dev/zero", 6000000).communicate()
        self.assertEqual(len(said), 4000000)
        self.assertEqual(sorted(self.sizes().values())[-1], 4000000)

    def test_settings_are_refused(self):
        with self.assertRaisesRegex(ValueError, "cache_bytes: give cache="):
            self.stream("a.tar", cache_bytes=1)
        with self.assertRaisesRegex(ValueError, "cache_bytes: 0"):
            self.stream("a.tar", cache=self.cache, cache_bytes=0)


class Mixed(InFolder):
    """Stream([...], weights=)"""

    def sources(self):
        paths = [self.write("m-%d.tar" % number, shard(1000 * number, 13)) for number in range(3)]
        return ["pipe:cat " + path for path in paths]

    def mixed(self, **settings):
        given = dict(weights=[1, 2, 5], samples_per_epoch=30, shuffle=True)
        return self.stream(self.sources(), **{**given, **settings})

    def test_streams_are_mixed_by_their_weights(self):
        made = self.mixed(samples_per_epoch=2000)
        found = numpy.concatenate([targets for _, targets in made])
        self.assertEqual((len(made), len(found)), (500, 2000))
        for number, share in enumerate((1 / 8, 2 / 8, 5 / 8)):
            count = int((found // 1000 == number).sum())
            self.assertLess(abs(count - 2000 * share), 5 * (2000 * share * (1 - share)) ** 0.5, number)
            own = found[found // 1000 == number] % 1000
            for at in range(0, len(own) - 13, 13):      # each pass through a stream has each sample once
                self.assertEqual(sorted(own[at:at + 13]), [*range(13)])

    def test_samples_are_their_pictures(self):
        for images, targets, fields in self.mixed(bytes=["name"], outputs=[benzina.Output("half", shape=(10, 12))]):
            self.assertEqual(fields["half"].shape, (len(targets), 3, 10, 12))
            for image, target, name in zip(images, targets, fields["name"]):
                self.assertEqual(name, "%04d" % target)
                self.assertTrue((image.transpose(1, 2, 0) == pixels_of(int(target))).all(), target)

    def test_a_run_resumes_exactly_wherever_it_was_left(self):
        def rest(made, batches):
            found = []
            while len(found) < batches:
                for _, targets in made:
                    found.append(targets.tolist())
                    if len(found) == batches:
                        break
            return found

        whole = rest(self.mixed(), 20)
        self.assertEqual([len(batch) for batch in whole], ([4] * 7 + [2]) * 2 + [4] * 4)
        for count in (0, 1, 3, 7, 8, 9, 15, 16, 19):
            first = self.mixed()
            self.assertEqual(rest(first, count), whole[:count])
            state = pickle.loads(pickle.dumps(first.state_dict()))
            first.close()
            again = self.mixed()
            again.load_state_dict(state)
            self.assertEqual((again.epoch, again.batches_left), (count // 8, 8 - count % 8))
            self.assertEqual(rest(again, 20 - count), whole[count:], count)

    def test_ranks_draw_their_own_and_the_cache_may_be_beneath(self):
        sources = [["pipe:cat " + self.write("r-%d-%d.tar" % (i, j), shard(1000 * i + 100 * j, 5)) for j in range(2)]
                   for i in range(2)]
        seen = []
        for rank in range(2):
            made = self.stream(sources, weights=[1, 1], samples_per_epoch=40, rank=rank, world_size=2, cache=self.cache)
            seen.append([target for _, targets in made for target in targets.tolist()])
        self.assertEqual([len(one) for one in seen], [20, 20])
        self.assertFalse(set(seen[0]) & set(seen[1]))   # shards are of one rank each

    def test_what_cannot_be_is_refused(self):
        for words, kind, settings in (
            ("one for each", ValueError, dict(weights=[1])),
            ("samples_per_epoch", TypeError, dict(samples_per_epoch=0)),
            ("weights: ", ValueError, dict(weights=[1, -1, 1])),
            ("weights: ", ValueError, dict(weights=[0, 0, 0])),
            ("output", ValueError, dict(output="field")),
            ("epochs", TypeError, dict(epochs=3)),
        ):
            with self.assertRaisesRegex(kind, words):
                self.mixed(**settings)


if __name__ == "__main__":
    run_tests(sys.modules["__main__"])
