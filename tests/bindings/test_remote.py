"""test_remote.py - data sets that are elsewhere, from a web server of this file, from moto's S3, and from fsspec's
memory

    BENZINA_LIBRARY=build/libbenzina.so python3 tests/bindings/test_remote.py build/bzna        from the repository's root

Prints FAIL and SKIP lines, and a count last.
"""
import collections
import hashlib
import http.server
import importlib.util
import io
import json
import os
import pickle
import random
import re
import socket
import struct
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import traceback
import unittest
import urllib.parse
import zlib

ROOT = os.getcwd()
PACKAGE = os.path.join(ROOT, "examples", "python")
BZNA = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/bzna")
sys.path.insert(0, PACKAGE)
sys.dont_write_bytecode = True
for variable in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
    os.environ.pop(variable, None)
import benzina  # noqa: E402
from benzina import _blocks, _fsspec, _http, _remote  # noqa: E402
from needs import needs  # noqa: E402

ARCHIVE = "tests/data/mini_h265.bzna"
TEST_ALL = os.environ.get("TEST_ALL")
COUNT = 200                                     # samples of the tar and of the .rec
FEW = COUNT if TEST_ALL else 50                 # of the tar that is read again and again
HANGS_S = 300                                   # what takes so long here, hangs


def picture(number):
    """A PPM of noise that no other number has."""
    rng = random.Random(number)
    width, height = rng.randrange(20, 60), rng.randrange(16, 48)
    size = width * height * 3
    return b"P6 %d %d 255\n" % (width, height) + rng.getrandbits(8 * size).to_bytes(size, "little")


def tar_of(numbers):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for number in numbers:
            for field, data in (("ppm", picture(number)), ("cls", b"%d" % number)):
                member = tarfile.TarInfo("%06d.%s" % (number, field))
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


def rec_of(numbers):
    out = b""
    for number in numbers:
        data = struct.pack("<IfQQ", 0, number, number, 0) + picture(number)
        out += struct.pack("<II", 0xced7230a, len(data)) + data + bytes(-len(data) % 4)
    return out


class Server(http.server.ThreadingHTTPServer):
    """A web server with ranges. fault(number of the request, path, first, last) says what goes wrong, by a word, or
    None."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.log, self.lock = {}, [], threading.Lock()
        self.fault, self.delay_s, self.connections = (lambda *_: None), 0, 0
        self.headers, self.stopped = [], threading.Event()
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def url(self, name):
        return "http://127.0.0.1:%d/%s" % (self.server_address[1], name)

    def requests(self, name=None):
        return [one for one in self.log if name in (None, one[0])]

    def handle_error(self, request, client_address):
        pass                                    # clients that go away

    def close(self):
        self.stopped.set()
        self.shutdown()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True              # headers and bytes are two writes

    def setup(self):
        super().setup()
        with self.server.lock:
            self.server.connections += 1

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", length=None, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def answer_json(self, status, what):
        self.answer(status, json.dumps(what).encode(), Content_Type="application/json")

    def do_GET(self):
        """Besides files by their paths: what gcsfs and HfFileSystem ask of their servers."""
        server = self.server
        asked = urllib.parse.urlsplit(self.path)                        # a proxy is asked for whole URLs
        path, query = urllib.parse.unquote(asked.path), asked.query
        about = re.fullmatch(r"/storage/v1/b/bucket/o/(.+)", path)
        if about and "alt=media" not in query:
            data = server.files.get(about[1])
            if data is None:
                self.answer_json(404, {"error": {"code": 404, "message": "No such object"}})
            else:
                self.answer_json(
                    200,
                    {
                        "kind": "storage#object",
                        "name": about[1],
                        "bucket": "bucket",
                        "size": str(len(data)),
                        "generation": "1",
                        "etag": hashlib.md5(data).hexdigest(),
                        "mediaLink": server.url("download/storage/v1/b/bucket/o/" + about[1]),
                    },
                )
        elif path == "/storage/v1/b/bucket/o":
            self.answer_json(200, {"kind": "storage#objects", "items": []})
        elif path.startswith("/api/datasets/org/name/tree/"):
            self.answer_json(
                200,
                [
                    {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
                    for name, data in server.files.items()
                ],
            )
        elif path.startswith("/api/datasets/org/name"):
            self.answer_json(
                200, {"id": "org/name", "sha": "a" * 40, "private": False, "tags": [], "downloads": 0, "siblings": []}
            )
        else:
            self.give(re.sub(r"^/(download/storage/v1/b/bucket/o|datasets/org/name/resolve/[^/]+)/", "/", path)[1:])

    def give(self, path):
        server = self.server
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        first, last = (int(found[1]), int(found[2])) if found else (None, None)
        with server.lock:
            number = len(server.log)
            server.log.append((path, first, last))
            server.headers.append(dict(self.headers))
        fault = server.fault(number, path, first, last)
        if server.delay_s:
            time.sleep(server.delay_s)
        if fault == "stall":
            server.stopped.wait(HANGS_S)
            self.close_connection = True
            return
        if fault == "hang up":
            self.close_connection = True
            return
        if fault and fault[0] in "45":
            self.answer(int(fault[:3]), fault[4:].encode(), Content_Type="text/html")
            return
        if fault and fault[0] == "3":
            self.answer(int(fault[:3]), b"elsewhere", Location=fault[4:])
            return
        data = server.files.get(path)
        if data is None:
            self.answer(
                404, b"<html><head><title>404</title></head><body><h1>No such key</h1> %s</body></html>" % path.encode()
            )
            return
        if fault and fault.startswith("page"):
            ranges = {"Content_Range": "bytes 0-5/6", "ETag": "e"} if fault == "page by ranges" else {}
            self.answer(206 if ranges else 200, b"<html>", Content_Type="text/html; charset=utf-8", **ranges)
            return
        if fault == "no ranges" or found is None:
            self.answer(200, data)
            return
        if first >= len(data):
            self.answer(416, Content_Range="bytes */%d" % len(data))
            return
        body, etag = data[first:last + 1], '"%s"' % hashlib.md5(data).hexdigest()
        span = "bytes %d-%d/%d" % (first, first + len(body) - 1, len(data))
        if fault == "cut":
            self.answer(206, body[:len(body) // 2], len(body), Content_Range=span, ETag=etag)
            self.close_connection = True
        elif fault == "trickle":
            self.send_response(206)
            self.send_header("Content-Range", span)
            self.send_header("ETag", etag)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            for byte in body:
                self.wfile.write(bytes([byte]))
                if server.stopped.wait(0.05):
                    break
            self.close_connection = True
        elif fault == "trickle headers":
            for _ in range(10**6):
                self.wfile.write(b"X")
                if server.stopped.wait(0.05):
                    break
            self.close_connection = True
        elif fault == "too long a length":
            self.answer(206, body, len(body) + 1000, Content_Range=span, ETag=etag)
            self.close_connection = True
        elif fault == "too short a length":
            self.answer(206, body[:100], 100, Content_Range=span, ETag=etag)
        elif fault == "empty":
            self.answer(206, Content_Range=span, ETag=etag)
        elif fault in ("endless", "endless error"):
            self.send_response(206 if fault == "endless" else 500)
            self.send_header("Content-Range", span)
            self.send_header("ETag", etag)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(body), body))
            while not server.stopped.is_set():
                self.wfile.write(b"2000\r\n" + bytes(0x2000) + b"\r\n")
        elif fault == "another range":
            self.answer(
                206, body, Content_Range="bytes %d-%d/%d" % (first + 1, first + len(body), len(data) + 1), ETag=etag
            )
        elif fault == "no size":
            self.answer(206, body, Content_Range=span.split("/")[0] + "/*", ETag=etag)
        elif fault == "packed":
            self.answer(206, zlib.compress(body), Content_Range=span, Content_Encoding="deflate", ETag=etag)
        elif fault == "in chunks":
            self.send_response(206)
            self.send_header("Content-Range", span)
            self.send_header("ETag", etag)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for at in range(0, len(body), 1000):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(body[at:at + 1000]), body[at:at + 1000]))
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.answer(206, body, Content_Range=span, ETag=etag)


def epoch(dataset, shuffle=True, **options):
    """What an epoch gives: (index, target, hash of the pixels) of each sample."""
    found = []
    with benzina.DataLoader(
        dataset, 16, batch_size=8, shuffle=shuffle, seed=3, epochs=1, timeout=HANGS_S, device="cpu", **options
    ) as loader:
        for batch in loader.batches():
            images, size = bytes(batch.images.memoryview()), 16 * 16 * 3 * 4
            for slot, index in enumerate(batch.indices.memoryview()):
                found.append(
                    (index, batch.targets.memoryview()[slot], zlib.crc32(images[slot * size : (slot + 1) * size]))
                )
            errors = batch.errors()
            if errors:
                raise next(iter(errors.values()))
    return found


class Case(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.close)
        self.server.files.update(FILES)
        for name, seconds in (("_FIRST_PAUSE_S", 0.01), ("_LONGEST_PAUSE_S", 2)):
            self.addCleanup(setattr, _blocks, name, getattr(_blocks, name))
            setattr(_blocks, name, seconds)

    def url(self, name):
        return self.server.url(name)

    def refused(self, kind, *texts, **options):
        """An Error, with texts in its message."""
        url = options.pop("url", None) or self.url("t.tar")
        with self.assertRaises(kind) as raised:
            benzina.Dataset(url, **options)
        for text in texts:
            self.assertIn(text, str(raised.exception))
        self.assertNotIn("10737418", str(raised.exception))             # the number by which a failure went through C
        return raised.exception


FILES = {}
LOCAL = tempfile.TemporaryDirectory()


def setUpModule():
    FILES["t.tar"], FILES["r.rec"] = tar_of(range(COUNT)), rec_of(range(COUNT))
    FILES["few.tar"] = tar_of(range(FEW))
    for i in range(4):
        FILES["s-%03d.tar" % i] = tar_of(range(i * 10, i * 10 + 10))
    with open(ARCHIVE, "rb") as file:
        FILES["a.bzna"] = file.read()
    for name, data in FILES.items():
        with open(os.path.join(LOCAL.name, name), "wb") as file:
            file.write(data)


def local(name):
    return os.path.join(LOCAL.name, name)


def can_decode():
    try:
        benzina.Dataset(ARCHIVE)[0].image()
    except (benzina.Error, ImportError):
        return False
    return True


class Http(Case):
    def test_samples_are_those_of_the_local_file(self):
        for name in ("t.tar", "r.rec"):
            here = epoch(local(name))
            self.assertEqual(len(here), COUNT)
            self.assertEqual(epoch(self.url(name)), here)
            self.assertEqual(epoch(self.url(name), reader_threads=1), here)
            for options in (
                dict(block_size=4096, cache_bytes=65536),
                dict(cache_bytes=0),
                dict(block_size=1 << 20, cache_bytes=1 << 23),
            ):
                with benzina.Dataset(self.url(name), **options) as dataset:
                    self.assertEqual(epoch(dataset), here, (name, options))
                    if TEST_ALL:
                        self.assertEqual(epoch(dataset, shuffle=False), epoch(local(name), shuffle=False))
            self.assertEqual(epoch(self.url(name), shuffle=False), epoch(local(name), shuffle=False))

    @unittest.skipUnless(can_decode(), "the library was built without a decoder [libavcodec-dev]")
    def test_an_archive_is_read_as_the_local_one(self):
        self.assertEqual(epoch(self.url("a.bzna")), epoch(ARCHIVE))
        dataset = benzina.Dataset(self.url("a.bzna"), block_size=4096)
        self.assertEqual(
            [sample.target for sample in [dataset[i] for i in range(8)]],
            [benzina.Dataset(ARCHIVE).target(i) for i in range(8)],
        )

    def test_lists_braces_and_colons_stand_for_several_files(self):
        here = epoch([local("s-%03d.tar" % i) for i in range(4)])
        self.assertEqual(len(here), 40)
        sources = [self.url("s-{000..003}.tar"), [self.url("s-%03d.tar" % i) for i in range(4)],
                   "::".join(self.url("s-{%03d,%03d}.tar" % (i, i + 1)) for i in (0, 2)),
                   [self.url("s-00{0,1}.tar"), local("s-002.tar"), self.url("s-003.tar")]]
        for source in sources:
            dataset = benzina.Dataset(source)
            self.assertEqual((len(dataset), epoch(dataset)), (40, here), source)
            self.assertGreaterEqual(dataset.remote.requests, 3)

    def test_an_index_beside_a_tar_or_a_rec_spares_the_walk(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("t.tar", "r.rec"):
                with open(os.path.join(folder, name), "wb") as file:
                    file.write(FILES[name])
                subprocess.run(
                    [BZNA, "index", os.path.join(folder, name)], check=True, stdout=subprocess.DEVNULL, timeout=HANGS_S
                )
                stem = name[:-4]
                with open(os.path.join(folder, stem + ".idx"), "rb") as file:
                    index = file.read()
                walked = benzina.Dataset(self.url(name), block_size=4096)
                self.server.files[stem + ".idx"] = index
                given = benzina.Dataset(self.url(name), block_size=4096)
                self.assertGreater(walked.remote.bytes_read, 0.9 * len(FILES[name]))
                self.assertLess(given.remote.bytes_read, 0.4 * len(FILES[name]))
                self.assertEqual(epoch(given), epoch(walked))
                with open(os.path.join(folder, name), "rb") as file:        # of a source of one's own
                    self.assertEqual(epoch(benzina.Dataset(file, index=index)), epoch(walked))
                self.server.files[stem + ".idx"] = index.replace(b"4", b"6")
                self.refused(benzina.Error, "index", "bzna index", url=self.url(name))
        with self.assertRaises(TypeError):
            benzina.Dataset(local("t.tar"), index="t.idx")
        with self.assertRaises(ValueError):
            benzina.Dataset(self.url("s-{000..003}.tar"), index=b"v1.2 1\n")

    def test_files_of_a_list_share_one_cache(self):
        dataset = benzina.Dataset(self.url("s-{000..003}.tar"), block_size=4096, cache_bytes=65536)
        epoch(dataset)
        self.assertLessEqual(dataset.remote.peak_bytes, 65536 + 16 * 8192)      # blocks of 16 readers may be under way
        self.assertLessEqual(dataset.remote.cached_bytes, 65536)
        self.assertGreater(dataset.remote.cached_bytes, 0)

    def test_a_file_that_fits_into_the_cache_is_asked_for_once(self):
        dataset = benzina.Dataset(self.url("t.tar"))
        self.assertEqual(epoch(dataset), epoch(local("t.tar")))
        size, before = len(FILES["t.tar"]), dataset.remote
        self.assertEqual(before.bytes_read, size)
        self.assertEqual(before.requests, len(self.server.log))
        self.assertLess(before.requests, 10)
        self.assertEqual(epoch(dataset), epoch(local("t.tar")))
        self.assertEqual(dataset.remote.requests, before.requests)
        asked = [0] * size
        for _, first, last in self.server.requests("t.tar"):
            for at in range(first, min(last + 1, size)):
                asked[at] += 1
        self.assertEqual(set(asked), {1})

    def test_connections_are_kept(self):
        epoch(benzina.Dataset(self.url("t.tar"), block_size=4096, cache_bytes=65536))
        self.assertGreater(len(self.server.log), 50)
        self.assertLessEqual(self.server.connections, _remote.READERS + 1)

    def test_a_connection_that_the_server_closed_meanwhile_costs_no_retry(self):
        dataset = benzina.Dataset(self.url("t.tar"), retries=0, cache_bytes=0)
        self.server.fault = lambda number, *_: "hang up" if number % 2 else None       # after the answer before it
        self.assertEqual([dataset.target(i) for i in range(20)], [*range(20)])
        self.assertEqual(dataset.remote.retries, 0)

    def test_a_dataset_of_a_url_can_be_pickled_and_cut(self):
        dataset = pickle.loads(pickle.dumps(benzina.Dataset(self.url("s-{000..003}.tar"), block_size=8192)))
        self.assertEqual(len(dataset), 40)
        self.assertEqual([one.target for one in dataset[5:15]], [*range(5, 15)])
        self.assertEqual([one.target for one in dataset[5:15] + dataset[[0, 39]]], [*range(5, 15), 0, 39])
        self.assertGreater((dataset[5:15] + dataset).remote.requests, 0)
        self.assertIsNone(benzina.Dataset(local("t.tar")).remote)

    def test_a_url_that_is_a_path_here_is_the_path(self):
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(os.path.join(folder, "http:", "host"))
            with open(os.path.join(folder, "http:", "host", "x.tar"), "wb") as file:
                file.write(FILES["s-000.tar"])
            os.chdir(folder)
            try:
                self.assertEqual(len(benzina.Dataset("http://host/x.tar")), 10)
            finally:
                os.chdir(ROOT)


class Faults(Case):
    def test_a_server_that_fails_now_and_then_changes_nothing(self):
        here = epoch(local("few.tar"))
        for fault in ("500 busy", "503 later", "429 slowly", "cut", "hang up", "too short a length"):
            rng = random.Random(fault)
            self.server.fault = lambda *_: fault if rng.random() < 0.2 else None
            dataset = benzina.Dataset(self.url("few.tar"), block_size=4096, cache_bytes=65536, retries=30)
            _blocks._LONGEST_PAUSE_S = 0.05
            self.assertEqual(epoch(dataset), here, fault)
            self.assertGreater(dataset.remote.retries, 0)

    def test_a_cut_answer_is_asked_for_from_where_it_ended(self):
        self.server.fault = lambda number, *_: "cut" if number == 0 else None
        benzina.Dataset(self.url("t.tar"), block_size=65536)
        self.assertEqual(self.server.log[0][1:], (0, 65535))
        self.server.log.clear()
        dataset = benzina.Dataset(self.url("r.rec"), block_size=65536, cache_bytes=0)
        self.server.log.clear()
        self.server.fault = lambda number, *_: "cut" if number == 0 else None
        dataset[100].fields["record"]
        (_, first, last), (_, again, end) = self.server.log[:2]
        self.assertEqual((again, end), (first + (last + 1 - first) // 2, last))

    def test_what_is_temporary_is_tried_again_and_then_told(self):
        self.server.fault = lambda *_: "503 <html><body><b>Slow</b> &amp; down</body></html>"
        error = self.refused(
            benzina.InputOutputError, self.url("t.tar"), "HTTP status 503", "Slow & down", "tried 4 times", retries=3
        )
        self.assertEqual(len(self.server.log), 4)
        self.assertEqual(error.status, benzina.Status.E_IO)

    def test_what_is_lasting_is_asked_once(self):
        for status, kind in (
            ("404", FileNotFoundError),
            ("410", FileNotFoundError),
            ("403", benzina.InputOutputError),
            ("401", benzina.InputOutputError),
            ("400", benzina.InputOutputError),
            ("501", benzina.InputOutputError),
        ):
            self.server.log.clear()
            self.server.fault = lambda *_: status + " not for you"
            self.refused(kind, self.url("t.tar"), "HTTP status " + status, "not for you")
            self.assertEqual(len(self.server.log), 1, status)
        self.server.fault = lambda *_: None
        error = self.refused(FileNotFoundError, "absent.tar", "No such key absent.tar", url=self.url("absent.tar"))
        self.assertIsInstance(error, benzina.Error)
        self.assertEqual(error.status, benzina.Status.E_NOT_FOUND)

    def test_retry_after_is_waited_for(self):
        asked = []

        def fault(number, *_):
            asked.append(time.monotonic())
            return "503 later" if number == 0 else None
        self.server.fault = fault
        answer = Handler.answer
        Handler.answer = lambda self, status, *rest, **headers: answer(
            self, status, *rest, **(dict(headers, Retry_After="1") if status == 503 else headers)
        )
        try:
            benzina.Dataset(self.url("t.tar"))
        finally:
            Handler.answer = answer
        self.assertGreaterEqual(asked[1] - asked[0], 0.9)

    def test_pauses_between_retries_grow(self):
        asked = []
        _blocks._FIRST_PAUSE_S = 0.2
        _blocks._LONGEST_PAUSE_S = 10
        self.server.fault = lambda *_: asked.append(time.monotonic()) or "500 no"
        self.refused(benzina.InputOutputError, retries=3)
        for attempt, (before, after) in enumerate(zip(asked, asked[1:])):
            self.assertGreaterEqual(after - before, 0.1 * 2**attempt)

    def test_nothing_hangs_beyond_its_timeout(self):
        for fault in ("stall", "trickle", "trickle headers"):
            self.server.fault = lambda *_: fault
            begin = time.monotonic()
            self.refused(
                benzina.InputOutputError,
                self.url("t.tar"),
                "did not answer in time",
                "tried 2 times",
                timeout=0.5,
                retries=1,
            )
            self.assertGreaterEqual(time.monotonic() - begin, 1)
        dataset = None
        self.server.fault = lambda number, path, first, last: "stall" if dataset is not None else None
        dataset = benzina.Dataset(self.url("t.tar"), block_size=4096, cache_bytes=0, timeout=3, retries=0)
        with self.assertRaises(benzina.InputOutputError) as raised:
            epoch(dataset)
        self.assertIn("did not answer in time", str(raised.exception))

    def test_a_server_that_nobody_runs_is_told(self):
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            url = "http://127.0.0.1:%d/x.tar" % sock.getsockname()[1]
            self.refused(benzina.InputOutputError, url, "refused", "tried 3 times", url=url, retries=2)
        self.refused(
            benzina.InputOutputError,
            "http://no-such-host.invalid/x.tar",
            "host is not known",
            url="http://no-such-host.invalid/x.tar",
        )

    def test_a_server_without_ranges_is_refused_by_name(self):
        self.server.fault = lambda *_: "no ranges"
        self.refused(
            benzina.InputOutputError, self.url("t.tar"), "does not serve ranges", "%d bytes" % len(FILES["t.tar"])
        )
        self.assertEqual(len(self.server.log), 1)

    def test_a_listing_of_a_folder_is_called_one(self):
        self.server.files["folder/"] = self.server.files["folder"] = b""
        for fault in ("page", "page by ranges"):
            self.server.fault = lambda *_, fault=fault: fault
            for url in (self.url("folder/"), self.url("folder")):
                self.refused(
                    benzina.InputOutputError, "the listing of a folder", self.url("folder/shard-{000..146}.tar"), url=url
                )
        self.refused(benzina.Error, url=self.url("t.tar"))             # a file may be of any type
        self.server.fault = lambda *_: "page"
        self.refused(benzina.InputOutputError, "the listing of a folder", url=self.url("t.tar"))

    def test_servers_that_lie_are_told(self):
        for fault, words in (
            ("another range", "gives another range than bytes 0-65535"),
            ("no size", "no range and size"),
            ("packed", "packs its answers"),
        ):
            self.server.log.clear()
            self.server.fault = lambda *_: fault
            self.refused(benzina.InputOutputError, self.url("t.tar"), words)
            self.assertEqual(len(self.server.log), 1)
        for fault in ("too long a length", "in chunks", "endless"):     # what is asked for is there
            self.server.fault = lambda *_: fault
            self.assertEqual(
                epoch(benzina.Dataset(self.url("few.tar"), block_size=8192, cache_bytes=65536)), epoch(local("few.tar"))
            )

    def test_answers_that_are_empty_or_never_end_are_told(self):
        for fault, words in (("empty", "tried 2 times"), ("endless error", "HTTP status 500")):
            self.server.fault = lambda *_: fault
            self.refused(benzina.InputOutputError, self.url("t.tar"), words, retries=1)

    def test_a_server_that_serves_no_ranges_any_more_fails_its_samples(self):
        dataset = benzina.Dataset(self.url("t.tar"), block_size=4096, cache_bytes=0, retries=1)
        self.server.fault = lambda *_: "no ranges"
        with self.assertLogs("benzina", "WARNING"), self.assertRaises(benzina.InputOutputError) as raised:
            epoch(dataset)
        self.assertIn("does not serve ranges", str(raised.exception))

    def test_a_file_that_changes_is_noticed(self):
        changes = {
            "another content of the same size": lambda data: data[:-1] + b"x",
            "longer": lambda data: data + bytes(512),
            "shorter": lambda data: data[:4096],
        }
        for what, change in changes.items():
            self.server.files["t.tar"] = FILES["t.tar"]
            dataset = benzina.Dataset(self.url("t.tar"), block_size=4096, cache_bytes=0)
            self.assertEqual(dataset.target(150), 150)
            self.server.files["t.tar"] = change(FILES["t.tar"])
            with self.assertRaises(benzina.InputOutputError) as raised:
                dataset.target(150)
            for text in (self.url("t.tar"), "has changed since it was opened"):
                self.assertIn(text, str(raised.exception), what)
            self.assertIsInstance(raised.exception.__cause__, OSError)
            self.assertIn("has changed", str(dataset.last_exception))

    def test_a_failure_names_url_and_bytes_and_costs_its_sample(self):
        dataset = benzina.Dataset(self.url("t.tar"), block_size=4096, cache_bytes=0, retries=0)
        place = dataset[150]
        self.server.fault = lambda number, path, first, last: (
            "500 disk on fire" if first <= place.offset + 600 <= last else None
        )
        failed = {}
        with self.assertLogs("benzina", "WARNING") as logged:
            with benzina.DataLoader(dataset, 16, batch_size=8, epochs=1) as loader:
                for batch in loader.batches():
                    failed.update((batch.indices.memoryview()[slot], error) for slot, error in batch.errors().items())
        self.assertEqual([*failed], [150])
        message = str(failed[150])
        self.assertRegex(message, re.escape(self.url("t.tar")) + r".*: bytes \d+-\d+: HTTP status 500 .*: disk on fire")
        self.assertNotIn("failed with", message)
        self.assertGreaterEqual(failed[150].byte_offset, place.offset)
        self.assertTrue(any("disk on fire" in line for line in logged.output), logged.output)

    def test_redirects_are_followed_and_kept_until_they_end(self):
        signed = ["one.tar"]
        self.server.files.update({"one.tar": FILES["t.tar"], "two.tar": FILES["t.tar"]})
        self.server.fault = lambda number, path, *_: (
            "302 /%s?signature=1" % signed[0] if path == "from.tar" else None if path == signed[0] else "403 expired"
        )
        dataset = benzina.Dataset(self.url("from.tar"), cache_bytes=0, block_size=4096)
        self.assertEqual([dataset.target(i) for i in range(10)], [*range(10)])
        self.assertEqual(len(self.server.requests("from.tar")), 1)
        signed[0] = "two.tar"
        self.assertEqual([dataset.target(i) for i in range(10, 20)], [*range(10, 20)])
        self.assertEqual(len(self.server.requests("from.tar")), 2)
        signed[0] = "none"
        with self.assertRaises(benzina.InputOutputError) as raised:
            dataset.target(20)
        self.assertIn("No such key none", str(raised.exception))
        self.server.fault = lambda *_: "302 /t.tar"
        self.refused(benzina.InputOutputError, "redirects")
        self.server.fault = lambda *_: "302 ftp://elsewhere/t.tar"
        self.refused(benzina.InputOutputError, "a redirect to ftp://elsewhere/t.tar is not followed")

    def test_headers_are_sent_and_secrets_are_neither_told_nor_passed_on(self):
        other = Server()
        self.addCleanup(other.close)
        other.files.update(FILES)
        self.server.fault = lambda *_: "302 " + other.url("s-000.tar")
        url = self.url("s-000.tar").replace("http://", "http://user:se%20cret@") + "?token=hidden"
        dataset = benzina.Dataset(url, storage_options={"headers": {"X-Mine": "yes"}})
        self.assertEqual(len(dataset), 10)
        self.assertEqual(
            (self.server.headers[0]["X-Mine"], self.server.headers[0]["Authorization"]),
            ("yes", "Basic dXNlcjpzZSBjcmV0"),
        )
        self.assertEqual(other.headers[0].get("Authorization"), None)
        self.assertEqual(other.headers[0]["X-Mine"], "yes")
        self.server.fault = lambda *_: "403 no"
        error = self.refused(benzina.InputOutputError, "s-000.tar", url=url)
        for secret in ("cret", "hidden"):
            self.assertNotIn(secret, str(error))

    def test_a_proxy_of_the_environment_is_used(self):
        os.environ["http_proxy"] = self.server.url("")
        try:
            self.assertEqual(len(benzina.Dataset("http://far.example/s-000.tar")), 10)
        finally:
            del os.environ["http_proxy"]
        self.assertEqual(self.server.headers[0]["Host"], "far.example")

    def test_settings_that_cannot_be_are_refused(self):
        url = self.url("t.tar")
        for options, kind in (
            (dict(block_size=100), ValueError),
            (dict(block_size=1 << 20, cache_bytes=1 << 20), ValueError),
            (dict(timeout=0), ValueError),
            (dict(retries=-1), ValueError),
            (dict(storage_options=3), TypeError),
            (dict(storage_options={"key": 1}), TypeError),
        ):
            with self.assertRaises(kind):
                benzina.Dataset(url, **options)
        with self.assertRaises(ValueError):
            benzina.Dataset(local("t.tar"), storage_options={"headers": {}})
        with self.assertRaises(ValueError):
            benzina.Dataset(self.url("s-{000..003}.tar"), name="one")
        self.refused(ValueError, "do not list their files", url=self.url("s-*.tar"))
        self.refused(benzina.Error, "braces", url=self.url("s-{000..003.tar"))
        self.assertEqual(self.server.log, [])

    def test_what_is_opened_is_closed_where_another_file_fails(self):
        from benzina import _handles
        before = {*_handles.registry}
        with self.assertRaises(FileNotFoundError):
            benzina.Dataset([self.url("s-000.tar"), self.url("absent.tar"), self.url("s-001.tar")])
        self.assertEqual({*_handles.registry} - before, set())


class Slow:
    """A file of which each request waits, and which counts them."""

    name = "slow"

    def __init__(self, data, delay_s=0.0, fails=()):
        self.data, self.size, self.delay_s, self.lock, self.asked, self.fails = (
            data,
            len(data),
            delay_s,
            threading.Lock(),
            [],
            set(fails),
        )

    def open(self, view):
        return 0

    def close(self):
        pass

    def fetch(self, offset, view):
        with self.lock:
            self.asked.append((offset, len(view)))
            fails = offset in self.fails
        time.sleep(self.delay_s)
        if fails:
            raise benzina._errors.RemoteFailure("it is broken")
        view[:] = self.data[offset:offset + len(view)]
        return len(view), None


def cached(data, block_size=4096, cache_bytes=1 << 20, **options):
    source = _blocks.RemoteSource(Slow(data, **options), _blocks.Blocks(block_size, cache_bytes, 0))
    source.open()
    return source


class Cache(unittest.TestCase):
    DATA = random.Random(1).getrandbits(8 * 300007).to_bytes(300007, "little")

    def read(self, source, offset, size):
        buffer = bytearray(size)
        count = source.read_into(offset, memoryview(buffer))
        return bytes(buffer[:count])

    def test_threads_read_what_the_file_holds_and_each_block_once(self):
        for cache_bytes in (1 << 20, 32768, 0):
            source = cached(self.DATA, cache_bytes=cache_bytes, delay_s=0.001)
            wrong = []

            def work(seed):
                rng = random.Random(seed)
                for _ in range(60):
                    offset, size = rng.randrange(len(self.DATA)), rng.randrange(1, 20000)
                    if self.read(source, offset, size) != self.DATA[offset:offset + size]:
                        wrong.append((offset, size))
            threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(HANGS_S)
                self.assertFalse(thread.is_alive(), "two threads wait for each other")
            self.assertEqual(wrong, [])
            if cache_bytes == 1 << 20:
                asked = collections.Counter(
                    block
                    for offset, size in source.remote.asked
                    for block in range(offset // 4096, -(-(offset + size) // 4096))
                )
                self.assertEqual(set(asked.values()), {1})
            elif cache_bytes:
                found = source.blocks.statistics()
                self.assertLessEqual(found.cached_bytes, cache_bytes)
                self.assertLessEqual(found.peak_bytes, cache_bytes + 8 * 24576)
            else:
                self.assertEqual(source.blocks.statistics().cached_bytes, 0)

    def test_a_block_that_several_threads_miss_is_asked_for_once(self):
        source = cached(self.DATA, delay_s=0.2)
        said, barrier = [], threading.Barrier(8)

        def work():
            barrier.wait()
            said.append(self.read(source, 10000, 100))
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(HANGS_S)
        self.assertEqual(said, [self.DATA[10000:10100]] * 8)
        self.assertEqual(source.remote.asked, [(8192, 4096)])

    def test_threads_that_wait_for_a_block_learn_that_it_failed_and_it_is_asked_for_again(self):
        source = cached(self.DATA, delay_s=0.2, fails=[8192])
        said, barrier = [], threading.Barrier(4)

        def work():
            barrier.wait()
            try:
                self.read(source, 10000, 100)
            except OSError as error:
                said.append(str(error))
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(HANGS_S)
        self.assertEqual(said, ["slow: bytes 8192-12287: it is broken"] * 4)
        self.assertEqual(len(source.remote.asked), 1)
        self.assertEqual(source.blocks.statistics().cached_bytes, 0)
        source.remote.fails.clear()
        self.assertEqual(self.read(source, 10000, 100), self.DATA[10000:10100])

    def test_reads_in_order_ask_for_more_and_more_at_once(self):
        source = cached(self.DATA * 60, cache_bytes=64 << 20)
        for offset in range(0, len(self.DATA) * 60, 5000):
            self.read(source, offset, 5000)
        sizes = [size for _, size in source.remote.asked]
        self.assertEqual(sizes[:5], [8192, 8192, 16384, 32768, 65536])
        self.assertEqual(sum(sizes), len(self.DATA) * 60)
        self.assertEqual(max(sizes), _blocks.MOST_BYTES)

    def test_reads_here_and_there_ask_for_their_blocks_alone(self):
        source = cached(self.DATA * 20, cache_bytes=8 << 20)
        for offset in (5 << 20, 1 << 20, 3 << 20, 2 << 20, 4 << 20):
            self.read(source, offset, 1000)
        self.assertEqual([size for _, size in source.remote.asked], [4096] * 5)

    def test_reads_here_and_there_of_more_than_the_cache_holds_ask_for_their_bytes_alone(self):
        source = cached(self.DATA * 20, cache_bytes=1 << 20)
        for offset in (5 << 20, 1 << 20, 3 << 20, 2 << 20, 4 << 20):
            self.assertEqual(self.read(source, offset, 1000), (self.DATA * 20)[offset:offset + 1000])
        self.assertEqual([size for _, size in source.remote.asked], [1000] * 5)
        for offset in range(4 << 20, 5 << 20, 1000):                    # in order, it takes blocks all the same
            self.read(source, offset, 1000)
        self.assertLess(len(source.remote.asked), 60)

    def test_a_read_that_is_large_beside_the_cache_does_not_push_out_what_is_there(self):
        source = cached(self.DATA, cache_bytes=400000)
        self.read(source, 0, 100)
        self.assertEqual(self.read(source, 50000, 150000), self.DATA[50000:200000])
        self.assertEqual(source.remote.asked, [(0, 4096), (50000, 150000)])
        self.assertEqual(source.blocks.statistics().cached_bytes, 4096)

    def test_the_end_of_a_file_is_no_whole_block(self):
        source = cached(self.DATA)
        self.assertEqual(self.read(source, len(self.DATA) - 10, 100), self.DATA[-10:])
        self.assertEqual(self.read(source, len(self.DATA), 100), b"")


@needs("fsspec")
class Systems(Case):
    """File systems of fsspec: the one in memory, and one that misbehaves."""

    def setUp(self):
        super().setUp()
        import fsspec
        self.memory = fsspec.filesystem("memory")
        self.memory.store.clear()
        for name, data in FILES.items():
            self.memory.pipe("/bucket/" + name, data)
        self.addCleanup(self.memory.store.clear)

    def test_samples_are_those_of_the_local_file(self):
        for name in ("t.tar", "r.rec"):
            self.assertEqual(epoch("memory://bucket/" + name), epoch(local(name)))
        self.assertEqual(len(benzina.Dataset("memory://bucket/a.bzna")), 8)

    def test_patterns_and_folders_stand_for_several_files(self):
        here = epoch([local("s-%03d.tar" % i) for i in range(4)])
        self.memory.pipe("/bucket/folder/notes.txt", b"not one")
        for i in range(4):
            self.memory.pipe("/bucket/folder/s-%03d.tar" % i, FILES["s-%03d.tar" % i])
        for source in (
            "memory://bucket/s-*.tar",
            "memory://bucket/s-00[0-3].tar",
            "memory://bucket/s-{000..003}.tar",
            "memory://bucket/folder",
            "memory://bucket/folder/",
            "memory://bucket/s-{000..001}.tar::memory://bucket/s-{002..003}.tar",
        ):
            self.assertEqual(epoch(source), here, source)
        self.refused(FileNotFoundError, "no file matches", url="memory://bucket/z-*.tar")
        self.refused(FileNotFoundError, "memory://bucket/absent.tar", url="memory://bucket/absent.tar")
        self.memory.pipe("/pictures/a/1.jpg", b"x")
        self.refused(benzina.Error, "bzna pack", url="memory://pictures/")

    def test_chains_of_fsspec_are_one_file(self):
        import zipfile
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("in/s.tar", FILES["s-001.tar"])
            archive.writestr("in/u.tar", FILES["s-002.tar"])
        self.memory.pipe("/bucket/z.zip", packed.getvalue())
        self.assertEqual(epoch("zip://in/s.tar::memory://bucket/z.zip"), epoch(local("s-001.tar")))
        self.assertEqual(
            epoch("zip://in/*.tar::memory://bucket/z.zip"), epoch([local("s-001.tar"), local("s-002.tar")])
        )

    def test_a_file_that_changes_is_noticed(self):
        dataset = benzina.Dataset("memory://bucket/t.tar", cache_bytes=0)
        self.memory.pipe("/bucket/t.tar", FILES["t.tar"][:50000])
        with self.assertRaises(benzina.InputOutputError) as raised:
            dataset.target(150)
        self.assertIn("has changed since it was opened: its size was", str(raised.exception))
        dataset = benzina.Dataset("memory://bucket/s-000.tar", cache_bytes=0)
        self.memory.pipe("/bucket/s-000.tar", FILES["s-000.tar"][:-1] + b"x")
        before, _fsspec.CHECK_S = _fsspec.CHECK_S, 0
        try:
            with self.assertRaises(benzina.InputOutputError) as raised:
                dataset.target(5)
        finally:
            _fsspec.CHECK_S = before
        self.assertIn("has changed since it was opened: its version was", str(raised.exception))

    def spoiled(self, function):
        """The file system's reads, with something before them."""
        cat_file = type(self.memory).cat_file
        self.addCleanup(setattr, type(self.memory), "cat_file", cat_file)

        def wrapped(system, path, start=None, end=None, **more):
            function()
            return cat_file(system, path, start=start, end=end, **more)
        type(self.memory).cat_file = wrapped

    def test_what_is_temporary_is_tried_again_and_faults_are_raised(self):
        calls = []

        def fails(exception, times):
            def function():
                calls.append(1)
                if len(calls) <= times:
                    raise exception
            return function
        for exception in (OSError("connection lost"), TimeoutError(), EOFError("cut")):
            calls.clear()
            self.spoiled(fails(exception, 2))
            self.assertEqual(len(benzina.Dataset("memory://bucket/s-000.tar")), 10)
            self.assertGreater(len(calls), 2)
        for exception, kind, words in (
            (PermissionError("not yours"), benzina.InputOutputError, "PermissionError: not yours"),
            (ValueError("a wrong key"), benzina.InputOutputError, "ValueError: a wrong key"),
            (AttributeError("a fault"), AttributeError, "a fault"),
        ):
            calls.clear()
            self.spoiled(fails(exception, 10**6))
            self.refused(kind, words, url="memory://bucket/s-000.tar")
            self.assertEqual(len(calls), 1)

    def test_a_file_system_that_stalls_is_left_after_its_timeout(self):
        over = threading.Event()
        self.addCleanup(over.set)
        self.spoiled(lambda: over.wait(HANGS_S))
        begin = time.monotonic()
        self.refused(
            benzina.InputOutputError,
            "no answer within",
            "tried 2 times",
            url="memory://bucket/s-000.tar",
            timeout=0.3,
            retries=1,
        )
        self.assertLess(time.monotonic() - begin, HANGS_S)

    def test_a_system_that_is_not_installed_is_named(self):
        for url, words in (("nosuch://bucket/x.tar", "nosuch"),):
            with self.assertRaises((ImportError, ValueError)) as raised:
                benzina.Dataset(url)
            self.assertIn(words, str(raised.exception))


class WithoutFsspec(unittest.TestCase):
    def test_what_is_missing_is_named(self):
        code = ("import sys\nsys.modules['fsspec'] = None\nsys.path.insert(0, sys.argv[1])\nimport benzina\n"
                "try:\n    benzina.Dataset('s3://bucket/x.tar')\nexcept ImportError as error:\n    print(error)\n")
        said = subprocess.run(
            [sys.executable, "-B", "-c", code, PACKAGE], capture_output=True, text=True, timeout=HANGS_S
        ).stdout
        self.assertIn("pip install fsspec", said)
        self.assertIn("s3://bucket/x.tar", said)


@needs("fsspec", "s3fs", "moto", "flask")
class S3(Case):
    """A local server of moto's."""

    @classmethod
    def setUpClass(cls):
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            port = sock.getsockname()[1]
        cls.moto = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        cls.options = {
            "key": "k",
            "secret": "s",
            "client_kwargs": {"endpoint_url": "http://127.0.0.1:%d" % port, "region_name": "eu-west-1"},
        }
        end = time.monotonic() + HANGS_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if time.monotonic() > end or cls.moto.poll() is not None:
                    raise
                time.sleep(0.1)
        import s3fs
        cls.system = s3fs.S3FileSystem(**cls.options)
        cls.system.mkdir("bucket")
        for name, data in FILES.items():
            cls.system.pipe("bucket/" + name, data)

    @classmethod
    def tearDownClass(cls):
        cls.moto.terminate()
        cls.moto.wait(HANGS_S)

    def open(self, name, **options):
        return benzina.Dataset("s3://bucket/" + name, storage_options=self.options, **options)

    def test_samples_are_those_of_the_local_file(self):
        for name in ("t.tar", "r.rec"):
            self.assertEqual(epoch(self.open(name)), epoch(local(name)))
            self.assertEqual(epoch(self.open(name, block_size=8192, cache_bytes=65536)), epoch(local(name)))
        self.assertEqual(len(self.open("a.bzna")), 8)
        here = epoch([local("s-%03d.tar" % i) for i in range(4)])
        self.assertEqual(epoch(self.open("s-{000..003}.tar")), here)
        self.assertEqual(epoch(self.open("s-*.tar")), here)

    def test_a_file_that_is_not_there_is_told(self):
        with self.assertRaises(FileNotFoundError) as raised:
            self.open("absent.tar")
        self.assertIn("s3://bucket/absent.tar", str(raised.exception))

    def test_a_file_that_changes_is_noticed(self):
        self.system.pipe("bucket/c.tar", FILES["t.tar"])
        dataset = self.open("c.tar", cache_bytes=0)
        self.assertEqual(dataset.target(150), 150)
        self.system.pipe("bucket/c.tar", FILES["t.tar"][:-1] + b"x")
        with self.assertRaises(benzina.InputOutputError) as raised:
            dataset.target(150)
        self.assertIn("has changed since it was opened", str(raised.exception))
        self.assertIn("s3://bucket/c.tar", str(raised.exception))


class Stores(Case):
    """Google's store and Hugging Face's hub, as far as their packages for fsspec ask a server."""

    def check(self, url, options):
        self.assertEqual(epoch(benzina.Dataset(url + "t.tar", storage_options=options)), epoch(local("t.tar")))
        self.assertEqual(
            epoch(benzina.Dataset(url + "r.rec", storage_options=options, block_size=8192, cache_bytes=65536)),
            epoch(local("r.rec")),
        )
        self.assertEqual(len(benzina.Dataset(url + "s-{000..003}.tar", storage_options=options)), 40)
        self.refused(FileNotFoundError, url + "absent.tar", url=url + "absent.tar", storage_options=options)
        self.assertGreater(len([one for one in self.server.log if one[1] is not None]), 10)

    @needs("fsspec", "gcsfs")
    def test_samples_of_gs_are_those_of_the_local_file(self):
        os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"       # which asks by another protocol first
        self.check("gs://bucket/", {"token": "anon", "endpoint_url": self.server.url("").rstrip("/")})

    @needs("fsspec", "huggingface_hub")
    def test_samples_of_hf_are_those_of_the_local_file(self):
        self.check("hf://datasets/org/name/", {"token": False, "endpoint": self.server.url("").rstrip("/")})


class Pages(Case):
    """The chapter of the README, and the example."""

    def environment(self):
        return {**os.environ, "PYTHONPATH": PACKAGE, "BENZINA_LIBRARY": benzina.lib._name}

    def python(self, *arguments):
        done = subprocess.run(
            [sys.executable, "-B", *arguments],
            capture_output=True,
            text=True,
            timeout=5 * HANGS_S,
            env=self.environment(),
        )
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        return done.stdout

    @needs("numpy")
    def test_the_program_of_the_readme_prints_what_stands_there(self):
        self.server.files.update(("shard-%03d.tar" % i, tar_of(range(4 * i, 4 * i + 4))) for i in range(3))
        with open(os.path.join(PACKAGE, "README.md")) as file:
            chapter = file.read().split("\n## Data that is elsewhere\n")[1].split("\n## ")[0]
        program, expected = (re.search(r"```%s\n(.*?)```" % kind, chapter, re.S)[1] for kind in ("python", "text"))
        self.assertEqual(self.python("-c", program.replace("http://localhost/", self.url(""))), expected)

    def test_the_example_prints_the_time_to_the_first_batch_and_requests_a_sample(self):
        example = os.path.join(PACKAGE, "remote.py")
        said = self.python(example, self.url("t.tar"), "--size", "16", "--batch-size", "8")
        self.assertRegex(said, r"(?m)^opened +[0-9.]+ s   200 samples, \d+ requests, 0 retries, [0-9.]+ MB$")
        self.assertRegex(said, r"(?m)^first batch +[0-9.]+ s   after that, \d+ requests")
        found = re.search(r"(?m)^a sample +([0-9.]+) requests, ([0-9.]+) kB; ", said)
        self.assertEqual(float(found[1]), round(len(self.server.log) / COUNT, 3), said)
        self.assertEqual(float(found[2]), round(len(FILES["t.tar"]) / COUNT / 1e3, 1), said)
        said = self.python(example, local("t.tar"), "--size", "16", "--batch-size", "8", "--batches", "3")
        self.assertIn(" 24 samples", said)
        self.assertNotIn("requests", said)

    def test_a_shuffled_epoch_of_more_than_the_cache_holds_takes_a_request_a_sample_and_few_bytes(self):
        count = 1000 if TEST_ALL else 250
        data = self.server.files["large.tar"] = tar_of(range(count))
        dataset = benzina.Dataset(self.url("large.tar"), block_size=4096, cache_bytes=1 << 16)
        before = dataset.remote
        epoch(dataset)
        after = dataset.remote
        self.assertLess(after.requests - before.requests, 1.1 * count)
        self.assertLess(after.bytes_read - before.bytes_read, 1.5 * len(data))


class Result(unittest.TestResult):
    """Says only what failed and what was skipped."""
    passed = 0

    def addSuccess(self, test):
        self.passed += 1

    def addFailure(self, test, error):
        super().addFailure(test, error)
        print("FAIL %s\n%s" % (test, "".join(traceback.format_exception(*error))), flush=True)

    addError = addFailure

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        print("SKIP %s: %s" % (test, reason), flush=True)


if __name__ == "__main__":
    names = sys.argv[2:]
    module = sys.modules["__main__"]
    suite = (
        unittest.defaultTestLoader.loadTestsFromNames(names, module)
        if names
        else unittest.defaultTestLoader.loadTestsFromModule(module)
    )
    result = Result()
    suite.run(result)
    print(
        "tests/bindings/test_remote.sh: %d passed, %d failed, %d skipped"
        % (result.passed, len(result.failures), len(result.skipped)),
        flush=True,
    )
    os._exit(1 if result.failures else 0)       # threads of stalled servers are left alone
