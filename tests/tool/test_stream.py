"""test_stream.py - streams, from outside: shards of Python's tarfile and gzip, zstd, pipes, FIFOs, descriptors

    python3 tests/tool/test_stream.py build                from the repository's root

It runs build/stream, and looks at the samples that it prints. Prints FAIL and SKIP lines, and a count last.
"""
import gzip
import io
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import threading
import unittest
import zlib

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build")
STREAM, BZNA = os.path.join(BUILD, "stream"), os.path.join(BUILD, "bzna")
COUNTS = [17, 5, 30, 9, 12, 21, 3, 23]              # samples of the shards
SMALL = 400000                                      # memory_bytes that has several windows
TIMEOUT = 300


def picture(number):
    """A PPM of noise that no other number has."""
    rng = random.Random(number)
    width, height = rng.randrange(20, 30), rng.randrange(16, 24)
    return b"P6 %d %d 255\n" % (width, height) + rng.randbytes(width * height * 3)


def png(ppm):
    """The same picture as PNG, which the library reads without codecs of formats."""
    _, width, height, rest = ppm.split(b" ", 3)
    width, height, pixels = int(width), int(height), rest.split(b"\n", 1)[1]

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + pixels[y * width * 3:(y + 1) * width * 3] for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def tar_of(samples, as_png=False):
    """The bytes of a shard: samples are numbers, which are their targets."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for number in samples:
            image = ("png", png(picture(number))) if as_png else ("ppm", picture(number))
            for field, data in (image, ("cls", b"%d" % number)):
                member = tarfile.TarInfo("%06d.%s" % (number, field))
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


class Result:
    def __init__(self, run):
        self.status, self.text = run.returncode, run.stderr.decode()
        self.lines = run.stdout.decode().splitlines()
        self.samples, self.batches, batch = [], [], []
        for line in self.lines:
            words = line.split(" ")
            if words[0] == "--":
                self.batches.append((int(words[1]), "last" in words, batch))
                batch = []
            else:                                   # epoch, window, source, number, target, hash, status
                source = " ".join(words[2:-4])
                batch.append(
                    (int(words[0]), int(words[1]), source, int(words[-4]), int(words[-3]), words[-2], words[-1])
                )
                self.samples.append(batch[-1])

    def pixels(self):
        """What does not depend on how shards are called."""
        return [(s[0], s[3], s[4], s[5]) for s in self.samples]

    def targets(self):
        return [s[4] for s in self.samples]


def stream(*arguments, **options):
    options.setdefault("batch", 16)
    words = [STREAM] + list(arguments) + ["size=16", "list=1"]
    words += ["%s=%s" % item for item in options.items() if item[0] not in ("stdin", "pass_fds")]
    return Result(
        subprocess.run(
            words,
            capture_output=True,
            timeout=TIMEOUT,
            stdin=options.get("stdin", subprocess.DEVNULL),
            pass_fds=options.get("pass_fds", ()),
        )
    )


class Streams(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="test_stream.")
        os.chdir(cls.folder)
        first = 0
        for shard, count in enumerate(COUNTS):
            data = tar_of(range(first, first + count))
            first += count
            with open("s-%03d.tar" % shard, "wb") as file:
                file.write(data)
            with gzip.open("s-%03d.tar.gz" % shard, "wb") as file:
                file.write(data)
        cls.total = first
        cls.paths = "s-{000..%03d}.tar" % (len(COUNTS) - 1)
        cls.whole = stream(cls.paths, shuffle=1)

    @classmethod
    def tearDownClass(cls):
        os.chdir("/")
        shutil.rmtree(cls.folder)

    def ok(self, result):
        self.assertEqual(result.status, 0, result.text)
        return result

    def fails(self, result, *texts):
        self.assertEqual(result.status, 1, result.text)
        for text in texts:
            self.assertIn(text, result.text)
        return result

    # -- sources

    def test_each_sample_comes_once_an_epoch(self):
        self.ok(self.whole)
        self.assertEqual(sorted(self.whole.targets()), list(range(self.total)))
        self.assertNotEqual(self.whole.targets(), list(range(self.total)))
        self.assertTrue(all(s[6] == "BZNA_OK" for s in self.whole.samples))

    def test_without_shuffling_samples_come_in_the_order_of_the_shards(self):
        for memory in (SMALL, 1 << 30):
            self.assertEqual(self.ok(stream(self.paths, memory=memory)).targets(), list(range(self.total)))

    def test_commands_give_the_pixels_of_files(self):
        result = self.ok(stream("pipe:cat " + self.paths, shuffle=1))
        self.assertEqual(result.pixels(), self.whole.pixels())
        self.assertEqual(result.samples[0][2], "pipe:cat " + self.whole.samples[0][2])

    def test_gzip_gives_the_same_pixels(self):
        self.assertEqual(self.ok(stream(self.paths + ".gz", shuffle=1)).pixels(), self.whole.pixels())
        self.assertEqual(self.ok(stream("pipe:gzip -c " + self.paths, shuffle=1)).pixels(), self.whole.pixels())

    def test_gzip_members_one_after_the_other_are_one_shard(self):
        for shard in range(len(COUNTS)):
            with open("s-%03d.tar" % shard, "rb") as file:
                data = file.read()
            cut = len(data) // 3 + shard
            with open("m-%03d.tgz" % shard, "wb") as file:
                file.write(gzip.compress(data[:cut]) + gzip.compress(b"") + gzip.compress(data[cut:]) + b"\0" * 512)
        self.assertEqual(self.ok(stream("m-{000..007}.tgz", shuffle=1)).pixels(), self.whole.pixels())

    @unittest.skipUnless(shutil.which("zstd"), "no zstd [zstd]")
    def test_zstd_and_its_frames_give_the_same_pixels(self):
        self.assertEqual(self.ok(stream("pipe:zstd -c " + self.paths, shuffle=1)).pixels(), self.whole.pixels())
        for shard in range(len(COUNTS)):
            with open("s-%03d.tar" % shard, "rb") as file:
                data = file.read()
            cut = len(data) // 2 + 1
            with open("z-%03d.tar.zst" % shard, "wb") as file:
                file.write(struct.pack("<II", 0x184D2A50, 3) + b"abc")          # a frame to skip
                for part in (data[:cut], data[cut:]):
                    file.write(subprocess.run(["zstd", "-c"], input=part, stdout=subprocess.PIPE, check=True).stdout)
        self.assertEqual(self.ok(stream("z-{000..007}.tar.zst", shuffle=1)).pixels(), self.whole.pixels())

    def test_fifos_and_descriptors_and_standard_input_give_the_same_samples(self):
        with open("s-002.tar", "rb") as file:
            data = file.read()
        expected = self.ok(stream("s-002.tar")).pixels()
        os.mkfifo("fifo")

        def write():
            with open("fifo", "wb") as out:
                for begin in range(0, len(data), 1000):
                    out.write(data[begin:begin + 1000])
                    out.flush()
        writer = threading.Thread(target=write)
        writer.start()
        self.assertEqual(self.ok(stream("fifo")).pixels(), expected)
        writer.join()
        with open("s-002.tar", "rb") as file:
            self.assertEqual(self.ok(stream("-", stdin=file)).pixels(), expected)
        run = subprocess.run(["bash", "-c", "%s <(sleep 0.2; cat s-002.tar) size=16 batch=16 list=1; "
                              "cat s-002.tar | %s - size=16 batch=16 list=1" % (STREAM, STREAM)], capture_output=True)
        self.assertEqual(Result(run).pixels(), expected * 2, run.stderr)

    def test_shards_lie_behind_one_another_in_any_mixture(self):
        mixture = ["s-000.tar", "pipe:cat s-001.tar", "s-002.tar.gz", "pipe:gzip -c s-003.tar", "s-{004..007}.tar"]
        self.assertEqual(self.ok(stream(*mixture, shuffle=1)).pixels(), self.whole.pixels())

    # -- the same batches

    def test_threads_do_not_change_batches(self):
        for memory in (SMALL, 1 << 30):
            expected = self.ok(stream(self.paths, shuffle=1, memory=memory, epochs=2, threads=1))
            for options in ({}, {"threads": 4}, {"no_threads": 1}):
                result = self.ok(stream(self.paths, shuffle=1, memory=memory, epochs=2, **options))
                self.assertEqual(result.lines, expected.lines, options)
            result = self.ok(stream("pipe:sleep 0.01; cat " + self.paths, shuffle=1, memory=memory, epochs=2))
            self.assertEqual(result.pixels(), expected.pixels())

    def test_batches_stay_full_over_windows(self):
        for options in ({}, {"shuffle": 1}, {"shuffle": 1, "seed": 2}, {"no_threads": 1}):
            result = self.ok(stream(self.paths, memory=SMALL, epochs=3, **options))
            self.assertGreater(len({s[1] for s in result.samples}), 6)              # windows
            full, left = divmod(self.total, 16)
            self.assertEqual([(b[0], b[1]) for b in result.batches], ([(16, False)] * full + [(left, True)]) * 3)
            for epoch in range(3):
                self.assertEqual(sorted(s[4] for s in result.samples if s[0] == epoch), list(range(self.total)))

    def test_epochs_differ(self):
        result = self.ok(stream(self.paths, shuffle=1, epochs=2))
        first, second = ([s for s in result.samples if s[0] == epoch] for epoch in range(2))
        self.assertNotEqual([s[4] for s in first], [s[4] for s in second])
        self.assertNotEqual(sorted(s[5] for s in first), sorted(s[5] for s in second))

    def test_a_window_without_a_whole_batch_keeps_what_it_carries(self):
        counts, first = (1, 70, 4, 50, 4, 70, 4, 4), 0
        for number, count in enumerate(counts):
            with open("c-%d.tar" % number, "wb") as file:
                file.write(tar_of(range(first, first + count)))
            first += count
        memory = 3 * max(os.path.getsize("c-%d.tar" % number) for number in range(len(counts))) + 4096
        for options in ({"threads": 1}, {"threads": 3}, {"no_threads": 1}):
            result = self.ok(stream("c-{0..7}.tar", batch=64, memory=memory, epochs=8, drop=1, **options))
            self.assertEqual(result.targets(), 8 * list(range(first // 64 * 64)), options)

    def test_the_last_batch_is_dropped_or_padded(self):
        full = self.total // 16
        for memory in (SMALL, 1 << 30):
            result = self.ok(stream(self.paths, shuffle=1, memory=memory, epochs=2, drop=1))
            self.assertEqual([b[0] for b in result.batches], [16] * full * 2)
            self.assertEqual(len(set(s[4] for s in result.samples if s[0] == 1)), full * 16)
            result = self.ok(stream(self.paths, shuffle=1, memory=memory, pad=1))
            self.assertEqual([b[0] for b in result.batches], [16] * full + [self.total % 16])

    def test_the_ceiling_holds(self):
        result = self.ok(stream(self.paths, memory=SMALL, epochs=3, shuffle=1))
        peak = float(re.search(r"at most ([0-9.]+) MB", result.text)[1]) * 1e6
        self.assertLessEqual(peak, SMALL + 50000)                                   # which it prints in 0.1 MB
        self.fails(stream(self.paths, memory=150000), "memory_bytes", "s-000.tar")

    # -- resuming

    def resumed_everywhere(self, **options):
        """Each batch by a run of its own; and all batches after half of them by one run."""
        expected = self.ok(stream(self.paths, **options)).lines
        batches = sum(line.startswith("--") for line in expected)
        lines = []
        for batch in range(batches):
            if batch == batches // 2:
                shutil.copy("state", "half")
                begun = list(lines)
            lines += self.ok(stream(self.paths, state="state", batches=1, **options)).lines
            self.assertEqual(lines, expected[:len(lines)], "batch %d" % batch)
        os.remove("state")
        self.assertEqual(lines, expected)
        begun += self.ok(stream(self.paths, state="half", **dict(options, threads=3))).lines
        self.assertEqual(begun, expected)

    def test_a_run_goes_on_exactly_after_any_batch(self):
        self.resumed_everywhere(shuffle=1, memory=SMALL, epochs=2)
        self.resumed_everywhere(shuffle=1)

    def test_a_run_with_equal_epochs_goes_on_exactly(self):
        self.resumed_everywhere(shuffle=1, memory=SMALL, epochs=4, samples=70, rank=1, world=2)
        self.resumed_everywhere(memory=SMALL, epochs=3, samples=100, drop=1)

    def test_the_shards_of_a_batch_must_fit(self):
        self.fails(
            stream("s-00{1,3,6,1,3,6}.tar", batch=64, memory=110000), "fewer samples than a batch", "memory_bytes"
        )

    def test_states_of_other_streams_are_refused(self):
        self.ok(stream(self.paths, state="other", batches=3, shuffle=1))
        for change in ({"seed": 5}, {"shuffle": 0}, {"memory": SMALL}, {"samples": 50}, {"rank": 1, "world": 2}):
            self.fails(stream(self.paths, state="other", **dict({"shuffle": 1}, **change)), "state")
        self.fails(stream("s-{000..006}.tar", state="other", shuffle=1), "sources")

    def test_a_shard_that_changed_is_found_when_a_run_goes_on(self):
        shutil.copy("s-005.tar", "kept")
        try:
            self.ok(stream(self.paths, state="changed", batches=3, shuffle=1))
            with open("s-005.tar", "wb") as file:
                file.write(tar_of(range(500, 512)))
            self.fails(stream(self.paths, state="changed", shuffle=1), "list")
        finally:
            shutil.move("kept", "s-005.tar")

    # -- ranks

    def test_ranks_share_the_shards_of_an_epoch(self):
        whole, windows = {"epochs": 1}, {"epochs": 3, "memory": SMALL}
        for world, some in ((2, [windows]), (3, [whole, windows]), (8, [windows])):
            for epoch_options in [whole, windows] if os.environ.get("TEST_ALL") else some:
                results = [
                    self.ok(stream(self.paths, shuffle=1, rank=rank, world=world, **epoch_options))
                    for rank in range(world)
                ]
                for epoch in range(epoch_options["epochs"]):
                    targets = sorted(s[4] for r in results for s in r.samples if s[0] == epoch)
                    self.assertEqual(targets, list(range(self.total)))
        self.fails(stream(self.paths, rank=8, world=9), "rank 8")

    def test_ranks_have_equally_many_batches_with_samples_per_epoch(self):
        for samples in (50, 100, 300):
            results = [
                self.ok(stream(self.paths, shuffle=1, rank=rank, world=3, epochs=5, samples=samples, memory=memory))
                for rank, memory in enumerate((600000, 700000, 1 << 30))
            ]
            shapes = [[(b[0], b[1]) for b in r.batches] for r in results]
            self.assertEqual(shapes[0], shapes[1])
            self.assertEqual(shapes[0], shapes[2])
            each = -(-samples // 3)
            self.assertEqual(
                shapes[0],
                (
                    ([(16, False)] * (each // 16) + [(each % 16, True)] * (each % 16 > 0)) * 5
                    if each % 16
                    else ([(16, False)] * (each // 16 - 1) + [(16, True)]) * 5
                ),
            )
            shards = [{s[2] for s in r.samples if s[0] == 0} for r in results]      # the first permutation is shared
            self.assertTrue(samples > 50 or not shards[0] & shards[1])

    def test_a_rank_goes_on_with_its_next_permutation(self):
        result = self.ok(stream(self.paths, shuffle=1, samples=2 * self.total, memory=SMALL))
        counts = [result.targets().count(number) for number in range(self.total)]
        self.assertEqual(sum(counts), 2 * self.total)
        self.assertEqual(set(counts), {2})

    # -- failures

    def test_empty_shards_add_nothing_and_a_stream_of_them_alone_ends(self):
        for name, size in (("empty.tar", 10240), ("short.tar", 512)):
            self.damaged(name, bytes(size))
        for shards in (["empty.tar", self.paths], [self.paths, "short.tar"],
                       ["s-000.tar", "empty.tar", "short.tar", "s-{001..%03d}.tar" % (len(COUNTS) - 1), "empty.tar"]):
            for options in ({}, {"memory": SMALL}, {"epochs": 2}):
                result = self.ok(stream(*shards, **options))
                self.assertEqual(result.targets(), list(range(self.total)) * options.get("epochs", 1))
        self.fails(stream("empty.tar", "short.tar"), "the tar is empty")
        self.fails(stream("empty.tar"), "the tar is empty")

    def damaged(self, name, data):
        with open(name, "wb") as file:
            file.write(data)
        return name

    def test_failing_commands_are_errors_with_their_status(self):
        self.fails(
            stream("s-000.tar", "pipe:cat s-001.tar; exit 3", memory=SMALL),
            "ended with status 3",
            "pipe:cat s-001.tar; exit 3",
        )
        self.fails(stream("pipe:cat s-001.tar; kill -9 $$"), "ended by signal 9")
        self.fails(stream("pipe:no-such-command-at-all"), "status 127", "no-such-command-at-all")

    def test_truncated_and_damaged_shards_name_the_shard_and_the_byte(self):
        with open("s-002.tar", "rb") as file:
            data = file.read()
        packed = gzip.compress(data)
        self.fails(
            stream(self.damaged("short.gz", packed[: len(packed) // 2])),
            "short.gz",
            "gzip at byte %d" % (len(packed) // 2),
            "too early",
        )
        bad = bytearray(packed)
        bad[len(bad) // 2] ^= 0xff
        bad[-6] ^= 0xff
        self.fails(stream(self.damaged("bad.gz", bytes(bad))), "bad.gz", "gzip at byte ")
        self.fails(
            stream(self.damaged("tail.gz", packed + b"no gzip")), "tail.gz", "gzip at byte %d" % (len(packed) + 2)
        )
        self.fails(stream(self.damaged("short.tar", data[:5000])), "short.tar", "at byte 5000: the tar ends inside the padding")
        self.fails(stream(self.damaged("middle.tar", data[:20000])), "middle.tar", "byte")
        self.fails(stream("pipe:head -c 5000 s-002.tar"), "pipe:head -c 5000 s-002.tar", "byte")
        self.fails(stream(self.damaged("none.tar", b"")), "none.tar", "nothing to read")
        self.fails(stream("absent.tar"), "absent.tar", "No such file")
        self.fails(stream("."), "Is a directory")
        self.fails(stream("pipe:echo this is no tar at all"), "pipe:echo this is no tar at all")

    @unittest.skipUnless(shutil.which("zstd"), "no zstd [zstd]")
    def test_truncated_zstd_names_the_shard_and_the_byte(self):
        packed = subprocess.run(["zstd", "-c", "s-002.tar"], stdout=subprocess.PIPE, check=True).stdout
        self.fails(
            stream(self.damaged("short.zst", packed[:-9])),
            "short.zst",
            "zstd at byte %d" % (len(packed) - 9),
            "too early",
        )
        bad = bytearray(packed)
        bad[6:60] = b"\xff" * 54
        self.fails(stream(self.damaged("bad.zst", bytes(bad))), "bad.zst", "zstd at byte")

    def test_bombs_are_refused_by_the_ceiling(self):
        bomb = gzip.compress(b"\0" * (1 << 26))
        self.assertLess(len(bomb), 1 << 17)
        self.fails(
            stream(self.damaged("bomb.tar.gz", bomb), memory=6000000),
            "bomb.tar.gz",
            "2000000 bytes, unpacked",
            "memory_bytes",
        )
        if shutil.which("zstd"):
            bomb = subprocess.run(["zstd", "-c"], input=b"\0" * (1 << 26), stdout=subprocess.PIPE, check=True).stdout
            self.fails(stream(self.damaged("bomb.tar.zst", bomb), memory=6000000), "bomb.tar.zst", "memory_bytes")

    def test_shards_that_fail_can_be_left_out(self):
        sources = ["s-000.tar", "pipe:exit 7", "s-001.tar", "absent.tar", "s-002.tar"]
        result = self.ok(stream(*sources, leave=1))
        self.assertEqual(result.targets(), list(range(sum(COUNTS[:3]))))
        self.assertIn("left out: the command ended with status 7", result.text)
        self.assertIn("left out: absent.tar", result.text)
        self.assertIn("2 left out", result.text)
        self.fails(stream("absent.tar", "pipe:exit 7", leave=1, epochs=100), "status 7")
        self.fails(stream(*sources), "status 7")

    def test_a_picture_that_is_damaged_costs_its_slot(self):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as tar:
            for number, data in enumerate([picture(1), b"no picture", picture(2)]):
                member = tarfile.TarInfo("%d.ppm" % number)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
        result = self.ok(stream(self.damaged("slot.tar", out.getvalue())))
        self.assertEqual([s[6] == "BZNA_OK" for s in result.samples], [True, False, True])

    def test_commands_without_braces_keep_their_backslashes(self):
        self.assertEqual(self.ok(stream("pipe:cat $(echo s-001xtar | sed 's/x/\\./')")).targets(), list(range(17, 22)))
        self.assertEqual(self.ok(stream("pipe:cat s-00{1,4}.tar")).targets(), list(range(17, 22)) + list(range(61, 73)))

    # -- the manual

    @unittest.skipIf(os.environ.get("SANITIZE"), "it links the library without a sanitizer")
    def test_the_first_program_of_the_manual_runs(self):
        with open(os.path.join(ROOT, "examples/stream/stream.h")) as file:
            text_of_header = file.read()
        lines = text_of_header.split(" * WINDOWS.")[0].split("\n")
        first = next(i for i, line in enumerate(lines) if line.startswith(" *     #include"))
        last = next(i for i, line in enumerate(lines) if i > first and line == " *     }")
        text = "\n".join(line[7:] for line in lines[first:last + 1])
        for shard in (0, 1):                        # the program has no codecs but the library's
            with open("png-%d.tar" % shard, "wb") as file:
                file.write(tar_of(range(20 * shard, 20 * shard + 20), as_png=True))
        text = (
            text.replace("curl -sf https://host/train-{000..146}.tar", "cat png-{0,1}.tar")
            .replace("= 90", "= 1")
            .replace("= 256", "= 16")
        )
        text = text.replace("bzna_batch_release(batch);", "{ printf(\"batch\\n\"); bzna_batch_release(batch); }")
        with open("program.c", "w") as file:
            file.write(text)
        if subprocess.run(["pkg-config", "--exists", "zlib", "libzstd", "libavcodec", "libjpeg"]).returncode:
            self.skipTest("no zlib, libzstd, libavcodec or libjpeg [zlib1g-dev libzstd-dev libavcodec-dev libjpeg-dev]")
        for name in ("benzina.h", "examples/stream", "examples/formats", os.path.join(BUILD, "benzina.o")):
            os.symlink(os.path.join(ROOT, name), os.path.basename(name))
        command = text_of_header[text_of_header.index("cc -std=c11"):].partition("\n *\n")[0]
        command = command.replace("\n *", "\n").replace("cc", os.environ.get("CC", "cc"), 1)
        subprocess.run(command + " -o program", shell=True, check=True)
        run = subprocess.run(["./program"], capture_output=True, text=True)
        self.assertEqual((run.returncode, run.stdout.count("batch")), (0, 3), run.stderr)

    # -- the tool

    def tool(self, *arguments, **options):
        if not os.path.exists(BZNA):
            self.skipTest("there is no bzna")
        return subprocess.run([BZNA] + list(arguments), capture_output=True, text=True, timeout=TIMEOUT, **options)

    def test_the_tool_lists_what_cannot_seek(self):
        expected = self.tool("list", "s-001.tar")
        self.assertEqual(len(expected.stdout.splitlines()), 1 + COUNTS[1])
        with open("s-001.tar", "rb") as file:
            self.assertEqual(self.tool("list", "-", stdin=file).stdout, expected.stdout)
        self.assertEqual(self.tool("list", "s-001.tar.gz").stdout, expected.stdout)
        self.assertEqual(self.tool("list", "pipe:cat s-001.tar").stdout, expected.stdout)
        run = subprocess.run(
            ["bash", "-c", "%s list <(sleep 0.1; cat s-001.tar)" % BZNA], capture_output=True, text=True
        )
        self.assertEqual(run.stdout, expected.stdout)
        os.mkfifo("tool_fifo")
        writer = threading.Thread(target=lambda: shutil.copyfileobj(open("s-001.tar", "rb"), open("tool_fifo", "wb")))
        writer.start()
        self.assertEqual(self.tool("list", "tool_fifo").stdout, expected.stdout)
        writer.join()
        if shutil.which("zstd"):
            subprocess.run(["zstd", "-q", "-f", "s-001.tar"], check=True)
            self.assertEqual(self.tool("list", "s-001.tar.zst").stdout, expected.stdout)
        whole = self.tool("list", "s-{000..002}.tar").stdout
        self.assertEqual(self.tool("list", "pipe:cat s-{000..002}.tar").stdout, whole)
        self.assertEqual(self.tool("list", "s-{000..002}.tar.gz").stdout, whole)

    def test_the_tool_extracts_and_verifies_and_batches_what_cannot_seek(self):
        self.assertEqual(self.tool("extract", "s-001.tar", "2", "-o", "plain.ppm").returncode, 0)
        self.assertEqual(self.tool("extract", "s-001.tar.gz", "2", "-o", "packed.ppm").returncode, 0)
        with open("plain.ppm", "rb") as one, open("packed.ppm", "rb") as other:
            self.assertEqual(one.read(), other.read())
        run = self.tool("verify", "--decode", "pipe:cat s-{000..007}.tar")
        self.assertIn("%d samples, all decoded" % self.total, run.stdout)
        self.assertIn("samples    %d" % COUNTS[0], self.tool("info", "s-000.tar.gz").stdout)
        self.assertEqual(self.tool("batch", "pipe:cat s-000.tar", "-o", "batch_of", "--batch", "4").returncode, 0)
        for arguments in (("list", "pipe:exit 3"), ("bench", "pipe:exit 3", "--seconds", "1")):
            run = self.tool(*arguments)
            self.assertEqual(run.returncode, 1)
            self.assertIn("status 3", run.stderr)

    def test_the_tool_times_a_stream(self):
        run = self.tool("bench", "pipe:cat s-{000..007}.tar", "--seconds", "0.5", "--json")
        self.assertEqual(run.returncode, 0, run.stderr)
        told = json.loads(run.stdout)
        self.assertGreater(told["images_per_second"], 0)
        self.assertGreaterEqual(told["shards"], len(COUNTS))


class Python(Streams):
    """benzina.Stream, over the same shards."""

    @classmethod
    def setUpClass(cls):
        if os.environ.get("SANITIZE"):
            raise unittest.SkipTest("the interpreter is not built with a sanitizer")
        os.environ["BENZINA_LIBRARY"] = os.path.join(BUILD, "libbenzina.so")
        sys.path.insert(0, os.path.join(ROOT, "examples", "python"))
        sys.dont_write_bytecode = True
        global benzina
        import benzina
        super().setUpClass()

    @staticmethod
    def stream(*sources, **options):
        options = dict(
            dict(shape=16, batch_size=16, shuffle=True, seed=1, output="memoryview", epochs=1, mean=0, std=1), **options
        )
        return benzina.Stream(sources[0] if len(sources) == 1 else list(sources), **options)

    @staticmethod
    def batches(stream):
        return [(hash(bytes(images)), targets.tolist()) for images, targets in stream]

    def test_python_iterates_epochs_of_full_batches(self):
        with self.stream("pipe:cat " + self.paths, epochs=2, memory_bytes=SMALL) as stream:
            epochs = [self.batches(stream) for _ in range(3)]
            self.assertEqual([len(e) for e in epochs], [8, 8, 0])
            for epoch in epochs[:2]:
                self.assertEqual(sorted(t for _, targets in epoch for t in targets), list(range(self.total)))
                self.assertEqual([len(targets) for _, targets in epoch], [16] * 7 + [8])
            self.assertNotEqual(epochs[0], epochs[1])
            self.assertEqual(stream.stream_info.shards_read, 2 * len(COUNTS))
            self.assertLessEqual(stream.stream_info.peak_bytes, SMALL)
            with self.assertRaises(TypeError):
                len(stream)
        self.assertIn("closed", repr(stream))

    def test_python_goes_on_from_a_state(self):
        options = dict(epochs=3, memory_bytes=SMALL)
        with self.stream(self.paths, **options) as stream:
            expected = [self.batches(stream) for _ in range(3)]
        for first in (0, 1, 5, 8):
            with self.stream(self.paths, **options) as stream:
                taken = []
                for images, targets in stream:
                    taken.append((hash(bytes(images)), targets.tolist()))
                    if len(taken) > first:
                        break
                state = stream.state_dict() if first < 8 else None
                if first == 8:
                    self.batches(stream)
                    continue
            with self.stream(self.paths, num_threads=1, **options) as stream:
                stream.load_state_dict(state)
                self.assertEqual(taken + self.batches(stream), expected[0])
                self.assertEqual(self.batches(stream), expected[1])

    def test_python_says_which_shard_and_field(self):
        with self.stream(self.paths, bytes=["ppm", "name"], tensors=["cls"]) as stream:
            for images, targets, fields in stream:
                self.assertEqual(fields["cls"].tolist(), targets.tolist())
                self.assertEqual(fields["ppm"], [picture(t) for t in targets.tolist()])
                self.assertEqual(fields["name"], ["%06d" % t for t in targets.tolist()])
        with self.stream(self.paths) as stream:
            batch = next(iter(stream.batches()))
            first = batch.indices.memoryview().tolist()[0]
            self.assertEqual(stream.source_of(first), "s-%03d.tar" % (first >> 32))

    def test_python_raises_what_shards_fail_with(self):
        for source, error, text in (
            ("pipe:exit 9", benzina.InputOutputError, "status 9"),
            ("absent", benzina.NotFoundError, "absent"),
            ("pipe:echo no tar", benzina.Error, "pipe:echo no tar"),
        ):
            with self.assertRaisesRegex(error, text):
                self.batches(self.stream(source))
        with self.assertRaises(TimeoutError):
            self.batches(self.stream("pipe:sleep 1000", timeout=0.05))
        with self.assertRaises(TypeError):
            self.stream(self.paths, indices=[1, 2])
        with self.assertLogs("benzina", "WARNING") as logs, self.stream(
            "s-001.tar", "pipe:exit 2", on_shard_error="leave"
        ) as stream:
            self.assertEqual(len(self.batches(stream)), 1)
        self.assertIn("status 2", logs.output[0])

    def test_python_gives_ranks_equally_many_batches(self):
        counts = []
        for rank in range(3):
            with self.stream(self.paths, rank=rank, world_size=3, samples_per_epoch=130, epochs=4) as stream:
                self.assertEqual(len(stream), 3)
                counts.append([[len(t) for _, t in self.batches(stream)] for _ in range(4)])
        self.assertEqual(counts, [[[16, 16, 12]] * 4] * 3)

    def test_python_begins_anew_where_a_loop_was_left(self):
        with self.stream(self.paths, epochs=5) as stream:
            next(iter(stream))
            self.assertEqual(stream.epoch, 0)
            self.assertEqual(len(self.batches(stream)), 8)
            self.assertEqual(stream.epoch, 2)
            stream.set_epoch(4)
            self.assertEqual(len(self.batches(stream)), 8)


if __name__ == "__main__":
    if not os.path.exists(STREAM):
        sys.exit("%s is not there: run make" % STREAM)
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(Streams)
    suite.addTests(unittest.TestSuite([Python(name) for name in dir(Python) if name.startswith("test_python")]))
    if len(sys.argv) > 2:
        suite = unittest.TestSuite(test for test in suite if any(word in test.id() for word in sys.argv[2:]))
    result = unittest.TestResult()
    suite.run(result)
    for test, text in result.failures + result.errors:
        print("FAIL %s\n%s" % (test.id(), "".join("  %s\n" % line for line in text.splitlines()[-12:])), end="")
    for test, reason in result.skipped:
        print("SKIP %s: %s" % (test.id(), reason))
    bad = len(result.failures) + len(result.errors)
    if not os.environ.get("TEST_ALL"):
        print("LEFT test_stream.sh: 2 and 8 ranks whose epochs are one window")
    print("tests/tool/test_stream.py: %d passed, %d failed, %d skipped" % (result.testsRun - bad - len(result.skipped), bad,
                                                                      len(result.skipped)))
    sys.exit(bad > 0)
