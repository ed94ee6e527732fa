"""test_python.py - what examples/python promises, tried with whatever of numpy and torch is there

    BENZINA_LIBRARY=build/libbenzina.so python3 tests/bindings/test_python.py build/bzna        from the repository's root

Prints FAIL and SKIP lines, and a count last.
"""
import array
import copy
import ctypes
import errno
import gc
import gzip
import hashlib
import inspect
import io
import itertools
import math
import os
import pathlib
import pickle
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import traceback
import unittest
import warnings
import weakref

sys.path.insert(0, os.path.join("examples", "python"))
sys.dont_write_bytecode = True
import benzina  # noqa: E402
sys.path.insert(0, os.path.join("tests", "tool"))
import tool_pictures  # noqa: E402
from benzina import Error, Field, Status, lib, ops, structs  # noqa: E402
from benzina import _arguments, _c, _context, _dlpack, _errors, _handles, _writer  # noqa: E402
from needs import importable, needs, why_not  # noqa: E402

BZNA = sys.argv[1] if len(sys.argv) > 1 else "build/bzna"
MINI = "tests/data/mini_h265.bzna"
# Its pictures with edges of 5/16, which are decoded in a tenth of the time.
ARCHIVE = MINI if os.environ.get("TEST_ALL") else "tests/data/small_h265.bzna"
COUNT = 8


def can_decode():
    context, handle = benzina.Context(), ctypes.c_void_p()
    status = lib.bzna_decoder_open(context.handle, handle, None)
    lib.bzna_decoder_close(handle)
    return status == Status.OK


DECODES = can_decode()
needs_decoder = unittest.skipUnless(DECODES, "the library was built without a decoder [libavcodec-dev]")


def loader_of(dataset=None, **options):
    options = {"shape": 24, "batch_size": 3, "seed": 1234, "output": "field", "warp": None, **options}
    return benzina.DataLoader(dataset if dataset is not None else benzina.Dataset(ARCHIVE), **options)


def unowned(sample):
    """The same sample of no dataset."""
    return benzina.Sample(sample.index, sample.target, sample.filename, sample.offset, sample.size, sample.images)


def pixels(field):
    return field.memoryview().tobytes()


def floats(field):
    return array.array("f", pixels(field))


def digest(loader):
    """Everything that an epoch brings, as one number, whatever the size of its batches."""
    h = hashlib.sha256()
    for batch in loader.batches():
        each = len(pixels(batch.images)) // len(batch)
        for i, (index, target) in enumerate(zip(batch.indices.memoryview(), batch.targets.memoryview())):
            h.update(
                struct.pack("<Qqi", index, target, batch.status.memoryview()[i])
                + pixels(batch.images)[i * each : (i + 1) * each]
            )
    return h.hexdigest()


def order(loader):
    return [i for batch in loader.batches() for i in batch.indices.memoryview()]


def run_python(code, timeout=300, **options):
    prelude = "import sys; sys.path.insert(0, 'examples/python'); sys.dont_write_bytecode = True; import benzina, ctypes, os, gc, time, threading; from benzina import _arguments, _c, _context, _dlpack, _errors, _handles, _writer\n"
    return subprocess.run(
        [sys.executable, "-c", prelude + code], capture_output=True, text=True, timeout=timeout, **options
    )


# ---- header ----------------------------------------------------------------------------------------------------------

class Header:
    """What benzina.h and formats.h declare, without comments."""

    with open("benzina.h", encoding="utf-8") as file, open("examples/formats/formats.h", encoding="utf-8") as more:
        whole = file.read() + re.sub(r"#define BZNA_FORMATS_API.*", "", more.read()).replace("BZNA_FORMATS_API", "BZNA_API")
    text = re.sub(r"/\*.*?\*/", " ", whole, flags=re.S)

    @classmethod
    def structs(cls):
        """{name: [(field, type)]}"""
        result = {}
        for name, body in re.findall(r"typedef struct bzna_(\w+) \{(.*?)\}", cls.text, re.S):
            fields = []
            for declaration in filter(None, map(str.strip, body.split(";"))):
                pointer = re.search(r"\(\*(\w+)\)", declaration)
                if pointer:
                    fields.append(pointer[1])
                    continue
                fields.extend(re.search(r"(\w+)\s*(?:\[\w+\])*\s*$", d.strip())[1] for d in declaration.split(","))
            result[name] = fields
        return result

    @classmethod
    def functions(cls):
        """{name: (result, [type of each argument])}"""
        result = {}
        for kind, name, arguments in re.findall(r"BZNA_API\s+([\w \*]*?)\s*bzna_(\w+)\(([^)]*)\);", cls.text):
            arguments = [] if arguments.strip() == "void" else arguments.split(",")
            result[name] = (kind, [a.strip() for a in arguments])
        return result


def ctypes_of(declaration, is_result=False):
    """What a C declaration is to ctypes; several answers are possible for text and bytes."""
    plain = {
        "bzna_status": ctypes.c_int32,
        "uint32_t": ctypes.c_uint32,
        "uint64_t": ctypes.c_uint64,
        "int64_t": ctypes.c_int64,
        "int32_t": ctypes.c_int32,
        "double": ctypes.c_double,
        "size_t": ctypes.c_size_t,
        "void": None,
    }
    text = re.sub(r"\bconst\b", " ", declaration)
    stars = text.count("*") + text.count("[")
    base = re.match(r"\s*(\w+)", text)[1]
    if stars == 0:
        return [plain[base]]
    if base == "char":
        return [ctypes.c_char_p, ctypes.c_void_p]
    if stars == 2:
        return [ctypes.POINTER(ctypes.c_void_p)]
    if base in plain:
        return [ctypes.c_void_p] if base == "void" else [ctypes.POINTER(plain[base])]
    mirror = getattr(structs, base[len("bzna_"):], None)
    return [ctypes.POINTER(mirror) if mirror else ctypes.c_void_p]


class Interface(unittest.TestCase):
    def test_no_test_hides_another_of_its_name(self):
        with open(__file__, encoding="utf-8") as file:
            text = file.read()
        for body in (text, *re.split(r"^class ", text, flags=re.M)[1:]):
            names = re.findall(r"^class (\w+)" if body is text else r"^    def (\w+)", body, re.M)
            self.assertEqual([name for name in sorted(set(names)) if names.count(name) > 1], [])

    def test_every_public_struct_and_field_is_mirrored_in_order(self):
        declared = Header.structs()
        self.assertEqual(set(declared), set(vars(structs)))
        self.assertGreater(len(declared), 20)
        for name, fields in declared.items():
            self.assertEqual(fields, [f for f, _ in getattr(structs, name)._fields_], name)

    def test_every_field_lies_where_the_c_compiler_puts_it(self):
        compiler = shutil.which((os.environ.get("CC") or "cc").split()[0])
        if not compiler:
            self.skipTest("there is no C compiler [gcc]")
        lines = []
        for name in sorted(vars(structs)):
            lines.append('printf("%s %%zu\\n", sizeof(bzna_%s));' % (name, name))
            for field, _ in getattr(structs, name)._fields_:
                lines.append(
                    'printf("%s.%s %%zu %%zu\\n", offsetof(bzna_%s, %s), sizeof(((bzna_%s *)0)->%s));'
                    % ((name, field) * 3)
                )
        with tempfile.TemporaryDirectory() as folder:
            source, program = os.path.join(folder, "layout.c"), os.path.join(folder, "layout")
            with open(source, "w") as file:
                file.write(
                    '#include "formats.h"\n#include <stdio.h>\nint main(void)\n{\n    '
                    + "\n    ".join(lines)
                    + "\n    return 0;\n}\n"
                )
            subprocess.run([compiler, "-std=c11", "-I.", "-Iexamples/formats", "-o", program, source], check=True)
            said = subprocess.run([program], check=True, capture_output=True, text=True).stdout.split("\n")
        checked = 0
        for words in filter(None, map(str.split, said)):
            name, _, field = words[0].partition(".")
            kind = getattr(structs, name)
            if field:
                self.assertEqual(
                    words[1:], [str(getattr(kind, field).offset), str(getattr(kind, field).size)], words[0]
                )
            else:
                self.assertEqual(words[1], str(ctypes.sizeof(kind)), name)
            checked += 1
        self.assertEqual(checked, len(lines))

    def test_every_function_is_declared_with_its_types(self):
        declared = Header.functions()
        self.assertGreater(len(declared), 50)
        self.assertEqual(set(declared), {name for name, _ in _c._rows(_c._header.FUNCTIONS)})
        for name, (result, arguments) in declared.items():
            function = getattr(_c.formats if name.startswith("formats_") else lib, "bzna_" + name)
            self.assertIn(function.restype, ctypes_of(result), name)
            self.assertEqual(len(function.argtypes), len(arguments), name)
            for argument, kind in zip(arguments, function.argtypes):
                self.assertIn(kind, ctypes_of(argument), "%s: %s" % (name, argument))

    def test_status_numbers_and_constants_are_the_headers(self):
        declared = {name: int(number) for name, number in re.findall(r"X\((\w+),\s*(-?\d+),", Header.text)}
        self.assertEqual(declared, {s.name: s.value for s in Status})
        for status in Status:
            self.assertEqual(lib.bzna_status_name(status), b"BZNA_" + status.name.encode())
        constants = re.findall(r"BZNA_(\w+) = (-?\d+)", Header.text)
        known = [(name, int(number)) for name, number in constants if hasattr(benzina, name)]
        self.assertGreater(len(known), 20)
        for name, number in known:
            self.assertEqual(getattr(benzina, name), number, name)

    def test_structs_that_are_filled_in_are_prepared_by_the_library(self):
        prepared = {name[:-len("_init")] for name, (_, arguments) in Header.functions().items()
                    if name.endswith("_init") and len(arguments) == 2}
        self.assertEqual(set(_c.inits), prepared)
        self.assertEqual(_c.new("writer_sample").has_target, 0)
        self.assertEqual(_c.new("error").byte_offset, benzina.NO_OFFSET)
        self.assertEqual(tuple(_c.new("transform").homography), (1, 0, 0, 0, 1, 0, 0, 0, 1))

    def test_every_argument_of_a_loader_has_a_field_of_its_own(self):
        for field in _arguments.FIELDS.values():
            group, member = field.split(".")
            self.assertTrue(hasattr(getattr(structs.loader_config(), group), member), field)
        self.assertEqual(len(set(_arguments.FIELDS.values())), len(_arguments.FIELDS))
        self.assertLessEqual(set(_arguments.CHOICES), set(_arguments.FIELDS))

    def test_the_stored_orders_are_what_their_program_writes(self):
        run = subprocess.run([sys.executable, "-B", "tests/peers/orders.py"], check=True, capture_output=True, timeout=300)
        with open("tests/unit/orders.h", "rb") as file:
            self.assertTrue(file.read() == run.stdout, "run: python3 tests/peers/orders.py > tests/unit/orders.h")

    def test_random_numbers_and_permutation_are_the_headers(self):
        streams = re.findall(
            r"seed (\d+), +epoch (\d+), sample (\d+), +purpose (\d+): +(\w+) (\w+) (\w+) (\w+)", Header.whole
        )
        self.assertEqual(len(streams), 2)
        for *numbers, a, b, c, d in streams:
            rng = benzina.Random(*map(int, numbers))
            self.assertEqual([rng.u32() for _ in range(4)], [int(word, 16) for word in (a, b, c, d)])
        positions = re.search(r"bzna_order_permute\(1234, 5, 1281167, 0\.\.3\) = ([\d, ]+)\.", Header.whole)[1]
        self.assertEqual(
            [lib.bzna_order_permute(1234, 5, 1281167, i) for i in range(4)], [int(p) for p in positions.split(",")]
        )
        rng = benzina.Random(seed=7)
        self.assertTrue(
            all(
                0 <= rng.random() < 1 and 2 <= rng.uniform(2, 3) < 3 and rng.randrange(5) in range(5)
                for _ in range(100)
            )
        )

    def test_a_library_that_is_not_there_is_named(self):
        done = run_python("", env={**os.environ, "BENZINA_LIBRARY": "/nowhere/libbenzina.so"})
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nowhere/libbenzina.so", done.stderr)


# ---- errors and data sets --------------------------------------------------------------------------------------------

class Errors(unittest.TestCase):
    def fails(self, status, function, *arguments, **named):
        with self.assertRaises(Error) as caught:
            function(*arguments, **named)
        self.assertEqual(caught.exception.status, status)
        return caught.exception

    def test_a_missing_file(self):
        error = self.fails(Status.E_NOT_FOUND, benzina.Dataset, "nowhere/missing.bzna")
        self.assertIn("missing.bzna", error.message)
        self.assertIn("(E_NOT_FOUND)", str(error))
        self.assertEqual((error.byte_offset, error.native_code), (None, errno.ENOENT))

    def test_a_cut_file_has_an_offset(self):
        with open(MINI, "rb") as file, tempfile.NamedTemporaryFile() as cut:
            cut.write(file.read()[:100000])
            cut.flush()
            with self.assertRaises(Error) as caught:
                benzina.Dataset(cut.name)
        self.assertLess(caught.exception.status, -300)
        self.assertIsInstance(caught.exception.byte_offset, int)

    def test_an_error_can_be_pickled(self):
        error = pickle.loads(pickle.dumps(Error(Status.E_BOX, "broken", 7, 3)))
        self.assertEqual(
            (error.status, error.message, error.byte_offset, error.native_code), (Status.E_BOX, "broken", 7, 3)
        )
        self.assertEqual(Error(-9876).status, -9876)

    def test_an_error_can_be_made_of_its_text_as_torch_does_again(self):
        error = Error("Caught Error in DataLoader worker process 0.")
        self.assertEqual((str(error), error.message), ("Caught Error in DataLoader worker process 0.",) * 2)
        self.assertEqual((error.status, error.byte_offset, error.native_code), (None, None, 0))
        self.assertEqual(str(pickle.loads(pickle.dumps(error))), str(error))
        made = Error(Status.E_BOX, "broken", 7, 3)
        again = type(made)(str(made))
        self.assertIn("broken (E_BOX)", str(again))
        self.assertEqual(str(Error(Status.E_BOX)), "a box contradicts the format (E_BOX)")

    def test_arguments_of_torchs_loader_name_their_counterparts(self):
        for name, counterpart in (
            ("num_workers", "num_threads"),
            ("pin_memory", "output"),
            ("prefetch_factor", "multibuffering"),
            ("generator", "seed"),
        ):
            with self.assertRaises(TypeError) as caught:
                benzina.DataLoader(benzina.Dataset(ARCHIVE), batch_size=4, **{name: 1})
            self.assertIn(name, str(caught.exception))
            self.assertIn(counterpart, str(caught.exception))
        with self.assertRaises(TypeError) as caught:
            loader_of(prefetch_factor=1, num_workers=2, nonsense=3)
        self.assertRegex(str(caught.exception), "no argument nonsense; num_workers .*; prefetch_factor .*read_ahead")
        with self.assertRaises(TypeError) as caught:
            benzina.DataLoader(benzina.Dataset(ARCHIVE))
        self.assertIn("shape", str(caught.exception))

    @needs_decoder
    def test_slips_of_who_comes_from_torch_say_what_to_write(self):
        for kind, word, options in (
            (ValueError, "height, width", dict(shape=(3, 24, 24))),
            (TypeError, "warp has it", dict(flip_h=0.5)),
            (ValueError, "dtype: .* 'float16'", dict(dtype=float)),
        ):
            with self.assertRaisesRegex(kind, word):
                loader_of(**options)
        with self.assertRaisesRegex(Error, r"^(?!.*_config).*split"):
            benzina.Dataset("tests/data/pictures", split="train")
        for module, kind in (("numpy", "float16"), ("torch", "float16")):
            if importable(module):
                self.assertEqual(
                    loader_of(dtype=getattr(importable(module), kind)).info.image.dtype, benzina.DTYPE_FLOAT16
                )
        if importable("numpy"):
            self.assertEqual(loader_of(dtype=importable("numpy").dtype("uint8")).info.image.dtype, benzina.DTYPE_UINT8)

    def test_a_mean_for_pictures_in_0_to_1_warns_and_says_what_to_write(self):
        def said(**options):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                loader_of(**options)
            return [(str(w.message), os.path.basename(w.filename)) for w in caught]
        torchvisions = said(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
        self.assertEqual(len(torchvisions), 1)
        self.assertIn(
            "mean=(0.485 * 255, 0.456 * 255, 0.406 * 255), std=(0.229 * 255, 0.224 * 255, 0.225 * 255)",
            torchvisions[0][0],
        )
        self.assertEqual(len(said(mean=0.5)), 1)
        for options in (
            dict(mean=(0.485 * 255, 0.456 * 255, 0.406 * 255)),
            dict(mean=0, std=(58, 57, 57)),
            dict(std=0.5),
            dict(mean=1),
        ):
            self.assertEqual(said(**options), [], options)

    def test_the_scale_of_a_resized_crop_is_no_size(self):
        for crop, meaning in ((ops.RandomResizedCrop, "area"), (ops.CenterResizedCrop, "short edge")):
            for scale in (224, (224, 224), 28, 10.01, 0, -0.5, float("nan")):
                with self.assertRaises(ValueError) as caught:
                    crop(scale)
                self.assertIn("scale: ", str(caught.exception))
                self.assertIn(meaning, str(caught.exception))
                self.assertIn("shape", str(caught.exception))
        for scale in (2, 10, 0.05, 224 / 256):
            ops.CenterResizedCrop(scale)
            with self.assertRaisesRegex(TypeError, "scale: .* is one number: give two"):        # torchvision's is one, too
                ops.RandomResizedCrop(scale)

    @needs_decoder
    def test_a_bad_setting_is_named(self):
        for name, options in (("batch_size", dict(batch_size=0)),
                              ("num_threads", dict(num_threads=9999)), ("multibuffering", dict(multibuffering=99)),
                              ("reader_threads", dict(reader_threads=999)), ("read_ahead", dict(read_ahead=99999)),
                              ("shape", dict(shape=0)), ("epoch_samples", dict(epoch_samples=3)),
                              ("weights", dict(weights=[1] * 7, weighting="once"))):
            said = self.fails(Status.E_ARGUMENT, loader_of, **options).message
            self.assertRegex(said, r"^[\w, ]*\b%s\b" % name)
            self.assertNotIn("loader_config", said)
        self.assertRegex(self.fails(Status.E_NOT_FOUND, loader_of, track="sketch").message, "^track: ")
        self.assertEqual(_handles.registry, {})

    def test_arguments_that_contradict_each_other(self):
        for options in (
            dict(mean=1, bias=1),
            dict(std=1, norm=ops.ConstantNormTransform(2)),
            dict(std=(1, 0, 1)),
            dict(drop_last=True, last_batch="pad"),
            dict(on_error="explode"),
            dict(seed=None, world_size=2),
            dict(output="xml"),
            dict(bias=(1, 2)),
            dict(indices=[]),
            dict(epochs=0),
            dict(rank=0),
            dict(rank=3, world_size=2),
            dict(rank=1, world_size=2, shard=False),
            dict(memory="attic"),
            dict(memory="device", output="numpy"),
            dict(dtype="float64"),
            dict(decoder="abacus"),
        ):
            with self.assertRaises(ValueError, msg=options):
                loader_of(**options)
        with self.assertRaises(TypeError):
            loader_of(no_such_argument=1)
        for make in (
            lambda: ops.ConstantNormTransform(0),
            lambda: ops.SimilarityTransform(scale=(-1, 1)),
            lambda: ops.ConstantWarpTransform([1]),
            lambda: ops.SimilarityTransform(ratio=(1, 2, 3)),
            lambda: benzina.Context("abacus"),
            lambda: benzina.Context((3, 0)),
            lambda: benzina.Context((2, 0, 0)),
            lambda: benzina.Context((2, -1)),
            lambda: benzina.Context("cuda:4294967296"),
            lambda: loader_of(device="abacus"),
            lambda: ops.RandomResizedCrop(crops="moore"),
        ):
            with self.assertRaises(ValueError):
                make()

    def refuses(self, kind, said, function, *arguments, **named):
        with self.assertRaises(kind, msg=(arguments, named)) as caught:
            function(*arguments, **named)
        self.assertRegex(str(caught.exception), said)

    @needs_decoder
    def test_whole_numbers_are_neither_cut_off_nor_rounded(self):
        """ctypes takes what is too large modulo 2**32, and what is negative as something large."""
        names = dict(
            batch_size="batch_size",
            num_threads="num_threads",
            reader_threads="reader_threads",
            read_ahead="read_ahead",
            multibuffering="multibuffering",
            rank="rank",
            world_size="world_size",
            views="views",
            seed="seed",
            first_epoch="first_epoch",
            epochs="epochs",
            epoch_samples="epoch_samples",
            read_retries="read_retries",
            read_backoff_ns="read_backoff_ns",
            read_memory_bytes="read_memory_bytes",
            restore_any_pixels="restore_any_pixels",
            weights_by_part="weights_by_part",
            shape="shape",
            matrix="matrix",
            fill_space="fill_space",
        )
        for name in names:
            large = (
                2**64 + 1
                if name in ("seed", "first_epoch", "epochs", "epoch_samples", "read_backoff_ns", "read_memory_bytes")
                else 2**33 + 4
            )
            self.refuses(ValueError, "^%s: %d is not within" % (name, large), loader_of, **{name: large})
            self.refuses(ValueError, "^%s: -1 is not within" % name, loader_of, **{name: -1})
            for slip in (2.0, 1.5, "2", float("nan")) + (() if name == "shape" else ((1,), [1, 2])):
                self.refuses(TypeError, "^%s: .* is no whole number" % name, loader_of, **{name: slip})
        self.refuses(ValueError, "^shape: -1 is", loader_of, shape=(24, -1))
        self.refuses(ValueError, "^shape: ", loader_of, shape=(24, 24, 3))
        loader = loader_of()
        self.refuses(ValueError, "^epoch: -1 is", loader.set_epoch, -1)
        self.refuses(TypeError, "^epoch: 1.0 is no whole", loader.set_epoch, 1.0)

    def test_whole_numbers_elsewhere(self):
        dataset, whole = benzina.Dataset(ARCHIVE), "is no whole number"
        for name in ("max_sample_bytes", "max_edge_px", "log_level", "sessions", "decode_memory_bytes"):
            self.refuses(ValueError, "^%s: " % name, benzina.Context, "cpu", **{name: 2**64 + 1})
            self.refuses(TypeError, "^%s: .*%s" % (name, whole), benzina.Context, "cpu", **{name: 1.5})
        self.refuses(TypeError, "^cuda_context: .*" + whole, benzina.Context, "cpu", cuda_context=1.5)
        self.refuses(TypeError, "^device: 0.5 " + whole, benzina.Context, (2, 0.5))
        self.refuses(ValueError, "^codec: -1 ", benzina.Context("cpu").codec, -1)
        self.refuses(ValueError, "^depth: 4294967304 ", benzina.Context("cpu").codec, 1, 1, 2**32 + 8)
        self.refuses(TypeError, "^chroma_format: 1.5 " + whole, benzina.Context("cpu").codec, 1, 1.5)
        self.refuses(ValueError, "^first: -1 ", dataset.range, -1, 2)
        self.refuses(ValueError, "^count: 18446744073709551618 ", dataset.range, 0, 2**64 + 2)
        self.refuses(TypeError, "^first: 1.0 " + whole, dataset.range, 1.0, 2)
        for name, value in (("seed", -1), ("epoch", 2**64), ("sample", -5), ("operation", 2**32 + 16)):
            self.refuses(ValueError, "^%s: %d is not within 0" % (name, value), benzina.Random, **{name: value})
            self.refuses(TypeError, "^%s: 0.5 %s" % (name, whole), benzina.Random, **{name: 0.5})
        self.refuses(ValueError, "^count: 0 is not within 1", benzina.Random().randrange, 0)
        self.refuses(
            ValueError, "^records: width: 8589934596 ", benzina.Dataset, io.BytesIO(b""), records=dict(width=2**33 + 4)
        )
        self.refuses(
            TypeError, "^records: stride: 1.5 " + whole, benzina.Dataset, io.BytesIO(b""), records=dict(stride=1.5)
        )
        self.refuses(
            ValueError,
            "^records: scale: inf is not finite",
            benzina.Dataset,
            io.BytesIO(b""),
            records=dict(scale=math.inf),
        )
        self.refuses(ValueError, "^in_size: -4 ", benzina.compute_affine_matrix, (-4, 8), (8, 8))
        self.refuses(ValueError, "^out_size: ", benzina.compute_affine_matrix, (4, 8), (8, 8, 3))
        self.refuses(
            ValueError, "^degrees: nan is not finite", benzina.compute_affine_matrix, (4, 8), (8, 8), degrees=math.nan
        )
        self.refuses(ValueError, "^views: -1 ", benzina.Output, "x", views=-1)
        self.refuses(ValueError, "^shape: 4294967304 ", benzina.Output, "x", shape=2**32 + 8)
        self.refuses(TypeError, "^name: 3 is no text", benzina.Output, 3)
        for name in ("pad", "resize", "min_crop_size", "max_crop_size", "crop_x_start", "crop_y_start"):
            self.refuses(ValueError, "^%s: " % name, ops.MXNetAffine, **{name: -2})
            self.refuses(ValueError, "^%s: " % name, ops.MXNetAffine, **{name: 2**33 + 4})
            self.refuses(TypeError, "^%s: 2.5 %s" % (name, whole), ops.MXNetAffine, **{name: 2.5})
        for name in ("min_img_size", "max_img_size"):
            self.refuses(ValueError, "^%s: -3 " % name, ops.MXNetAffine, **{name: -3})
        with io.BytesIO() as file:
            self.refuses(ValueError, "^queue_bytes: -1 ", benzina.Writer, file, queue_bytes=-1)
            self.refuses(ValueError, "^jobs: 0 is not within 1", benzina.Writer, file, jobs=0)
            self.refuses(ValueError, "^timeout: -1 ", benzina.Writer, file, timeout=-1)
        self.refuses(TypeError, "^stream: 0.5 " + whole, _arguments.stream_number, 0.5)
        self.refuses(ValueError, "^stream: -1 ", _arguments.stream_number, -1)
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
            file.write("1,2\n2.5,3\n")
            file.flush()
            self.refuses(ValueError, "row 2: the target, 2.5, is no whole number", benzina.csv, file.name, target=0)

    @needs_decoder
    def test_real_numbers_are_finite_and_fit(self):
        nan, huge = float("nan"), 1e39
        for name in ("mean", "std", "bias", "norm", "oob"):
            for value in (nan, math.inf, huge, (1, nan, 1), [1, 1, -huge]):
                self.refuses(ValueError, "(is not finite|is not within)", loader_of, **{name: value})
            self.refuses(TypeError, "'a' is no number", loader_of, **{name: ["a", 1, 1]})
        for value in (-1, -0.001, nan, math.inf):
            self.refuses(ValueError, "^timeout: ", loader_of, timeout=value)
        self.refuses(TypeError, "^timeout: '3' is no number", loader_of, timeout="3")
        for name in ("flip_h", "flip_v"):
            for value in (2, -0.1, 1.001, nan):
                self.refuses(ValueError, "^%s: " % name, ops.SimilarityTransform, **{name: value})
            self.refuses(TypeError, "^%s: 'often' is no number" % name, ops.SimilarityTransform, **{name: "often"})
        self.refuses(ValueError, "^flip_h: 2 is not within 0..1", ops.RandomResizedCrop, flip_h=2)
        for name in ("rotate", "shear", "perspective"):
            self.refuses(ValueError, "^%s: nan" % name, loader_of, **{name: nan})
            self.refuses(TypeError, "^%s: 'a' is no number" % name, loader_of, **{name: "a"})
        for name in ("brightness", "contrast", "saturation", "hue", "grayscale"):
            self.refuses(ValueError, "^%s: nan" % name, loader_of, **{name: nan})
            self.refuses(TypeError, "^%s: 'a' is no number" % name, loader_of, **{name: "a"})
        for name in ("random_h", "max_random_contrast", "max_random_illumination"):
            self.refuses(ValueError, "^%s: 1e[+]39 is not within" % name, ops.ColorJitter, **{name: huge})
        for name in (
            "max_rotate_angle",
            "rotate",
            "max_shear_ratio",
            "min_random_scale",
            "max_random_scale",
            "max_aspect_ratio",
            "min_img_size",
        ):
            self.refuses(ValueError, "^%s: nan" % name, ops.MXNetAffine, **{name: nan})
        self.refuses(ValueError, "^warp: nan", ops.ConstantWarpTransform, [1, 0, 0, 0, nan, 0, 0, 0, 1])
        self.refuses(ValueError, r"^weights\[1\]: nan", loader_of, weights=[1, nan] * 4, weighting="once")
        self.refuses(
            TypeError, r"^weights\[7\]: None is no number", loader_of, weights=[1] * 7 + [None], weighting="once"
        )
        self.refuses(TypeError, "^weights: 3 is no list", loader_of, weights=3, weighting="once")

    @needs_decoder
    def test_flags_are_true_or_false(self):
        for name in ("flip_h", "flip_v", "resize", "keep_ratio"):
            for value in (2, -1, math.nan, "no", None, [True]):
                self.refuses(
                    ValueError,
                    "^%s: .* is neither True nor False" % name,
                    benzina.compute_affine_matrix,
                    (4, 8),
                    (8, 8),
                    **{name: value}
                )
        self.assertEqual(
            benzina.compute_affine_matrix((4, 8), (4, 8), flip_h=1),
            benzina.compute_affine_matrix((4, 8), (4, 8), flip_h=True),
        )
        for function, name in (
            (loader_of, "shuffle"),
            (loader_of, "drop_last"),
            (loader_of, "copy"),
            (ops.SimilarityTransform, "resize"),
            (ops.SimilarityTransform, "keep_ratio"),
            (ops.SimilarityTransform, "random_crop"),
            (ops.MXNetAffine, "rand_crop"),
            (ops.MXNetAffine, "mirror"),
            (ops.MXNetAffine, "rand_mirror"),
            (ops.ColorJitter, "clamp_hue"),
        ):
            for value in (2, "no", [0], math.nan):
                self.refuses(ValueError, "^%s: .* is neither True nor False" % name, function, **{name: value})
        self.refuses(ValueError, "^own_color: 'no'", benzina.Output, "x", own_color="no")

    @needs_decoder
    def test_indices_are_numbers_of_samples_and_no_mask(self):
        mask = [i % 2 == 0 for i in range(COUNT)]
        for given in (mask, tuple(mask), [3, True], iter(mask)):
            self.refuses(TypeError, r"^indices: a mask.*numpy.flatnonzero\(mask\)", loader_of, indices=given)
        for given, said in (
            ([1, 2.0], r"indices\[1\]: 2.0 is no whole"),
            (["1"], r"indices\[0\]: '1' is no"),
            ([[1, 2]], r"indices\[0\]: \[1, 2\]"),
            (5, "indices: 5 is no list"),
            ("12", "indices: '12' is no list"),
            (b"12", "indices: b'12' is no list"),
            ([None], "is no whole number"),
            (array.array("d", [1]), r"indices\[0\]: 1.0 is no"),
        ):
            self.refuses(TypeError, said, loader_of, indices=given)
        for given in ([0, -1], [2**64], array.array("q", [-1])):
            self.refuses(ValueError, r"^indices\[\d\]: .* is not within 0", loader_of, indices=given)
        with self.assertRaises(Error) as caught:
            loader_of(indices=[1, 2**33 + 4])
        self.assertIn("indices[1]: 8589934596 is not below the 8 samples", str(caught.exception))
        class Three:
            def __index__(self):
                return 3
        for given in (
            [3, 1, 3],
            (3, 1, 3),
            array.array("B", [3, 1, 3]),
            iter([3, 1, 3]),
            [Three(), 1, Three()],
            range(3, 0, -2),
        ):
            expected = [3, 1] if isinstance(given, range) else [3, 1, 3]
            self.assertEqual(order(loader_of(indices=given, epochs=1)), expected)

    @needs_decoder
    @needs("numpy")
    def test_numpys_numbers_are_taken(self):
        import numpy as np
        for kind in (np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64):
            loader = loader_of(
                shape=kind(24),
                batch_size=kind(3),
                seed=kind(7),
                num_threads=kind(2),
                epochs=kind(1),
                rank=kind(0),
                world_size=kind(1),
                multibuffering=kind(4),
                indices=np.array([3, 1, 3], kind),
                timeout=kind(60),
                views=kind(1),
            )
            self.assertEqual((order(loader), loader.info.batches_in_flight), ([3, 1, 3], 4))
            loader.set_epoch(kind(0))
        self.assertEqual(loader_of(shape=np.array([20, 30])).info.image.shape[2:4], [20, 30])
        self.assertEqual(order(loader_of(indices=np.flatnonzero([0, 1, 0, 1, 1]), epochs=1)), [1, 3, 4])
        self.assertEqual(order(loader_of(indices=[np.int64(2), 5], epochs=1)), [2, 5])
        for given in (np.array([True, False] * 4), [np.bool_(True)]):
            self.refuses(TypeError, "^indices: a mask", loader_of, indices=given)
        for given in (np.array([1.0, 2.0]), [np.float32(1)], np.array([[1], [2]])):
            self.refuses(TypeError, r"^indices\[0\]: .* is no whole number", loader_of, indices=given)
        self.refuses(ValueError, r"^indices\[0\]: -1", loader_of, indices=np.array([-1]))
        for slip in (np.float64(2), np.array([1, 2]), np.array(2.0)):
            self.refuses(TypeError, "^batch_size: .* is no whole number", loader_of, batch_size=slip)
        for real in (np.float32(0.5), np.float64(0.5), np.array(0.5)):
            self.assertEqual(ops.RandomResizedCrop(flip_h=real).flip_h, 0.5)
            self.assertEqual(ops.ConstantBiasTransform(real).bias, (0.5,) * 3)
        self.assertEqual(ops.ConstantBiasTransform(np.array([1, 2, 3])).bias, (1, 2, 3))
        weights = np.array([0, 0, 1, 0, 0, 0, 0, 0], np.float32)
        self.assertEqual(set(order(loader_of(weights=weights, weighting="replace", epochs=1))), {2})
        self.assertEqual([benzina.Random(np.uint64(5), np.int8(1)).u32()], [benzina.Random(5, 1).u32()])

    @needs_decoder
    def test_what_is_closed_says_so(self):
        dataset = benzina.Dataset(ARCHIVE)
        loader = loader_of(dataset)
        batch = next(loader.batches())
        batch.release()
        self.fails(Status.E_STATE, lambda: batch.images)
        loader.close()
        self.fails(Status.E_STATE, lambda: next(loader.batches()))
        dataset.close()
        self.fails(Status.E_STATE, dataset.target, 0)
        for thing in (batch.release, loader.close, dataset.close):
            thing()


class Kept(unittest.TestCase):
    def test_a_coded_picture_needs_nothing_of_its_dataset(self):
        """The decoder's configuration of raw records, as of a plain video, is the data set's own memory."""
        records, libc = dict(data_type="uint8", width=4, height=3, channels=3, layout="nhwc"), ctypes.CDLL(None)
        # what the data set had, others have now
        allocate = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)(("malloc", libc))
        for _ in range(20):
            dataset = benzina.Dataset(io.BytesIO(bytes(range(72))), records=records)
            image, buffer = dataset[1]._coded()
            dataset.close()
            del dataset
            gc.collect()
            others = [allocate(size) for size in range(16, 8192, 16) for _ in range(3)]
            for i, other in enumerate(others):
                ctypes.memset(other, 0xee, 16 + i // 3 * 16)
            self.assertEqual(
                (image.config_size, ctypes.string_at(image.config, 2)), (2, bytes([3, benzina.LAYOUT_NHWC]))
            )
            self.assertEqual(ctypes.string_at(image.data, 36), bytes(range(36, 72)))
            for other in others:
                libc.free(ctypes.c_void_p(other))


class Datasets(unittest.TestCase):
    def test_files_of_records_are_held_in_memory_up_to_a_limit(self):
        records = dict(data_type="uint8", width=4, height=3, channels=1)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "records")
            for limit, is_held in ((None, True), (24, True), (23, False), (1, False)):
                with open(path, "wb") as file:
                    file.write(bytes(range(24)))
                dataset = benzina.Dataset(path, records=records, hold_bytes=limit)
                os.truncate(path, 12)
                if not is_held:
                    with self.assertRaises(benzina.Error):
                        dataset[1]._coded()
                    dataset.close()
                    continue
                self.assertEqual(ctypes.string_at(dataset[1]._coded()[0].data, 12), bytes(range(12, 24)))
                dataset.close()

    def test_the_limit_of_held_bytes_is_of_all_files_together(self):
        records = dict(data_type="uint8", width=4, height=3, channels=1)
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in "ab"]
            for limit, held in ((48, (True, True)), (47, (True, False))):
                for path in paths:
                    with open(path, "wb") as file:
                        file.write(bytes(range(24)))
                with benzina.Dataset(paths, records=records, hold_bytes=limit) as dataset:
                    for number, path in enumerate(paths):
                        os.truncate(path, 12)
                        sample = dataset[2 * number + 1]
                        if held[number]:
                            self.assertEqual(ctypes.string_at(sample._coded()[0].data, 12), bytes(range(12, 24)))
                        else:
                            with self.assertRaises(benzina.Error):
                                sample._coded()

    def test_samples(self):
        dataset = benzina.Dataset(MINI)
        self.assertEqual(len(dataset), COUNT)
        self.assertEqual(list(dataset.targets), [0, 37, 74, 111, 148, 185, -1, -1])
        self.assertEqual(dataset.filenames[3], "03_plasma_big.JPEG")
        self.assertEqual(dataset[3], dataset[-5])
        self.assertEqual(
            (dataset[3].index, dataset[3].size, dataset[3].images), (3, 114130, ("bzna_input", "bzna_thumb"))
        )
        self.assertEqual([s.target for s in dataset], list(dataset.targets))
        self.assertEqual([t.name for t in dataset.tracks], ["bzna_input", "bzna_target", "bzna_fname", "bzna_thumb"])
        for index in (8, -9):
            with self.assertRaises(IndexError):
                dataset[index]
        self.assertEqual(repr(dataset), "<benzina.Dataset: archive, 8 samples>")
        dataset.close()
        self.assertEqual(repr(dataset), "<benzina.Dataset: closed>")

    def test_bytes_are_no_path(self):
        for source in (b"\0\0\0\x18ftypisom", "train\0.bzna", ["train.bzna", b"a\0"]):
            with self.assertRaisesRegex(ValueError, "NUL"):
                benzina.Dataset(source)

    def test_parts_and_sums(self):
        dataset = benzina.Dataset(ARCHIVE)
        whole = dataset[2:5] + dataset[:1]
        self.assertEqual(list(whole.targets), [74, 111, 148, 0])
        del dataset
        gc.collect()
        self.assertEqual(whole[3].filename, "00_plasma_land.JPEG")
        self.assertEqual(list(whole[::2].targets), [74, 148])

    def test_fields_are_read_by_name(self):
        dataset = benzina.Dataset(ARCHIVE)
        self.assertEqual((dataset.fields, dataset.info.container), (["image", "thumb", "target", "name"], b"archive"))
        sample = dataset[3]
        self.assertEqual(list(sample.fields), dataset.fields)
        for i in (0, 3, 7):
            self.assertEqual((dataset.field(i, "target"), dataset.field(i, "name")),
                             (dataset.target(i) if dataset.target(i) >= 0 else None, dataset.filename(i)))
        self.assertEqual((sample.fields["target"], sample.fields["name"]), (111, "03_plasma_big.JPEG"))
        self.assertEqual(dataset.field(-5, "target"), 111)
        for name in ("image", "thumb"):
            self.assertTrue(sample.fields[name] == annexb(sample, name)[0], name)
        self.assertNotEqual(sample.fields["image"], sample.fields["thumb"])
        with self.assertRaises(KeyError):
            dataset.field(3, "sketch")
        self.assertNotIn("sketch", sample.fields)
        with self.assertRaises(IndexError):
            dataset.field(8, "target")
        with self.assertRaises(ValueError):
            unowned(sample).fields
        dataset.close()
        with self.assertRaises(Error):
            sample.fields["target"]

    def test_a_plain_video_has_pictures_alone(self):
        dataset = benzina.Dataset(io.BytesIO(BYTES.replace(b"bzna_", b"film_")))
        self.assertEqual((dataset.fields, dataset.info.container), (["image"], b"mp4 video"))
        self.assertEqual((dataset[3].filename, dataset[3].target, dataset[3].images), (None, -1, ("film_thumb",)))
        self.assertTrue(dataset[3].fields["image"] == annexb(dataset[3])[0])
        with self.assertRaises(KeyError):
            dataset.field(3, "name")

    def test_the_file_says_where_a_picture_lies(self):
        for sample in benzina.Dataset(ARCHIVE):
            for track in ("image", "thumb", "bzna_input"):
                info = sample.image_info(track)
                image, kept = sample._coded(track)
                self.assertEqual((info.width, info.height, info.frame_width, info.codec, info.fourcc),
                                 (image.width, image.height, image.frame_width, benzina.CODEC_H265, 0x68766331))
                self.assertTrue(BYTES[info.data_offset:][:info.data_size] ==
                                ctypes.string_at(image.data, image.data_size))

    def test_a_missing_split(self):
        with self.assertRaises(Error) as caught:
            benzina.Dataset(ARCHIVE, split="train")
        self.assertEqual(caught.exception.status, Status.E_NOT_FOUND)

    def test_distributed_from_env(self):
        torchrun = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}
        slurm = {"SLURM_PROCID": "5", "SLURM_NTASKS": "6", "SLURM_LOCALID": "2"}
        self.assertEqual(benzina.distributed_from_env(torchrun), (3, 8, 1))
        self.assertEqual(benzina.distributed_from_env(slurm), (5, 6, 2))
        self.assertEqual(benzina.distributed_from_env({**torchrun, **slurm}), (3, 8, 1))
        self.assertEqual(benzina.distributed_from_env({"SLURM_NTASKS": "4"}), (0, 1, 0))
        for bad in ({"RANK": "8", "WORLD_SIZE": "8"}, {"RANK": "x", "WORLD_SIZE": "8"}):
            with self.assertRaises(ValueError):
                benzina.distributed_from_env(bad)


# ---- pickles and copies ----------------------------------------------------------------------------------------------

class Copies(unittest.TestCase):
    def both(self, thing):
        return copy.copy(thing), copy.deepcopy(thing), pickle.loads(pickle.dumps(thing))

    def test_a_dataset_is_opened_again(self):
        dataset = benzina.Dataset(ARCHIVE)
        views = (
            dataset,
            dataset[2:5],
            dataset[1:][1:][:3],
            dataset[2:5] + dataset[:1] + dataset,
            (dataset + dataset)[7:10],
        )
        expected = [list(view) for view in views]
        made = [self.both(view) for view in views]
        for view, twins in zip(views, made):
            for twin in twins:
                self.assertNotEqual(twin.handle, view.handle)
            view.close()
        gc.collect()
        other = [benzina.Dataset("tests/data/mini_h264.bzna") for _ in range(20)]      # takes the memory that came free
        for twins, samples in zip(made, expected):
            for twin in twins:
                self.assertEqual(list(twin), samples)
        self.assertEqual(len(other), 20)

    def test_a_dataset_is_found_from_another_folder(self):
        done = run_python(
            "import pickle\nos.chdir('/')\ndataset = pickle.loads(%r)\nprint(len(dataset), dataset[3].size)"
            % pickle.dumps(benzina.Dataset(MINI)),
            env={
                **os.environ,
                "BENZINA_LIBRARY": os.path.abspath(lib._name),
                "PYTHONPATH": os.path.abspath("examples/python"),
            },
        )
        self.assertEqual((done.returncode, done.stdout), (0, "8 114130\n"), done.stderr)

    def test_a_spawned_worker_reads_the_dataset_of_its_parent(self):
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "parent.py")
            with open(script, "w") as file:
                file.write(
                    "import sys; sys.path.insert(0, %r)\nimport benzina, multiprocessing\n"
                    "def targets(dataset, samples):\n"
                    "    return dataset.targets.tolist() + [samples[1].target, len(samples[1]._dataset)]\n"
                    "if __name__ == '__main__':\n    dataset = benzina.Dataset(%r)[1:4]\n"
                    "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
                    "        print(pool.apply(targets, (dataset, list(dataset))))\n"
                    % (os.path.abspath("examples/python"), os.path.abspath(ARCHIVE))
                )
            done = subprocess.run([sys.executable, "-B", script], capture_output=True, text=True, timeout=300)
        self.assertEqual((done.returncode, done.stdout), (0, "[37, 74, 111, 74, 3]\n"), done.stderr)

    def test_another_file_in_its_place_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.bzna")
            shutil.copy(ARCHIVE, path)
            pickled = pickle.dumps(benzina.Dataset(path)[1:3])
            os.replace(shutil.copy("tests/data/mini_h264.bzna", os.path.join(folder, "b.bzna")), path)
            with self.assertRaises(Error) as caught:
                pickle.loads(pickled)
        self.assertEqual(caught.exception.status, Status.E_MISMATCH)
        self.assertIn(path, caught.exception.message)

    def test_the_split_the_subclass_and_attributes_go_along(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "split.bzna")
            with benzina.Writer(path) as writer:
                for sample in benzina.Dataset(ARCHIVE):
                    writer.add(sample, split="test" if sample.index == 6 else "train")
            dataset = Named(path, split="test")
            dataset.labels = ["cat"]
            for twin in self.both(dataset):
                self.assertEqual((type(twin), len(twin), twin.labels), (Named, 1, ["cat"]))

    def test_what_is_closed_or_cannot_be_opened_again_is_refused(self):
        closed = benzina.Dataset(ARCHIVE)
        closed.close()
        for act in (copy.copy, copy.deepcopy, pickle.dumps):
            with self.assertRaises(Error) as caught:
                act(closed)
            self.assertEqual(caught.exception.status, Status.E_STATE)
        source = benzina.Dataset(io.BytesIO(BYTES))
        refused = [source, source[1:3], source + benzina.Dataset(ARCHIVE), benzina.Writer(io.BytesIO())]
        if DECODES:
            loader = loader_of()
            batch = next(loader.batches())
            refused += [loader, batch, batch.images]
        for thing in refused:
            for act in (copy.copy, copy.deepcopy, pickle.dumps):
                with self.assertRaises(TypeError, msg=thing) as caught:
                    act(thing)
                self.assertIn("neither pickled nor copied", str(caught.exception))
                self.assertIn(type(thing).__name__, str(caught.exception))
        self.assertEqual(list(source[1:3].targets), [37, 74])

    def test_a_context_keeps_its_settings_and_the_shared_one_stays_shared(self):
        context = benzina.Context("cpu", max_sample_bytes=1000)
        dataset = benzina.Dataset(ARCHIVE)
        for twin in self.both(context):
            self.assertNotEqual(twin.handle, context.handle)
            with self.assertRaises(Error) as caught:
                benzina.Dataset(ARCHIVE, context=twin)[3]
            self.assertEqual(caught.exception.status, Status.E_LIMIT)
            self.assertRegex(str(caught.exception), r"its \d+ bytes are more than Context\(max_sample_bytes=\) allows, 1000")
        for twin in self.both(dataset):
            self.assertIs(twin._context, dataset._context)
        mine = benzina.Dataset(ARCHIVE, context=benzina.Context("cpu"))
        first, second = pickle.loads(pickle.dumps((mine, mine[1:])))
        self.assertIs(first._context, second._context)

    @needs("numpy")
    def test_a_context_decodes_only_the_codecs_that_it_allows(self):
        for codecs, allowed in ((("h264", "h265"), True), (["png", "jpeg2000", "jpegxl"], False)):
            for twin in self.both(benzina.Context("cpu", codecs=codecs)):
                sample = benzina.Dataset(ARCHIVE, context=twin)[0]
                if allowed:
                    sample.image()
                    continue
                with self.assertRaises(Error) as caught:
                    sample.image()
                self.assertIn("codecs does not allow it", str(caught.exception))
        for wrong in (["mp3"], [], "jpeg"):
            with self.assertRaises(ValueError):
                benzina.Context("cpu", codecs=wrong)

    def test_samples_are_copied_with_their_dataset_where_it_can_be_opened_again(self):
        for sample in (benzina.Dataset(ARCHIVE)[3], benzina.Dataset(io.BytesIO(BYTES))[3]):
            for twin in self.both(sample):
                self.assertEqual((twin, type(twin)), (sample, benzina.Sample))
        twin = pickle.loads(pickle.dumps(benzina.Dataset(ARCHIVE)[3]))
        self.assertEqual(twin._dataset.filename(3), "03_plasma_big.JPEG")

    def test_transforms_are_of_a_module_that_another_process_finds(self):
        crop = ops.RandomResizedCrop(scale=(0.25, 1), flip_h=0.5)
        self.assertEqual(
            (ops.__name__, type(crop).__module__, sys.modules["benzina.ops"]), ("benzina.ops", "benzina.ops", ops)
        )
        self.assertEqual(ops.__doc__, benzina.ops.__doc__)
        done = run_python(
            "import pickle\ncrop = pickle.loads(%r)\nprint(crop.scale, crop.flip_h, type(crop) is benzina.ops.RandomResizedCrop)"
            % pickle.dumps(crop)
        )
        self.assertEqual((done.stdout, done.stderr), ("(0.25, 1.0) 0.5 True\n", ""))


class Named(benzina.Dataset):
    """A subclass, at the top of a module, as pickle asks."""


# ---- single pictures, writers ----------------------------------------------------------------------------------------

def annexb(sample, track=None):
    """A sample's picture as a stream."""
    image, kept = sample._coded(track or "image")
    buffer, needed = ctypes.create_string_buffer(sample.size + 10000), ctypes.c_size_t()
    _errors.check(lib.bzna_image_annexb(image, buffer, len(buffer), needed, None))
    return buffer.raw[:needed.value], (image.width, image.height)


def coded(sample, track=None):
    """The same, short enough to be shown where it differs."""
    data, size = annexb(sample, track)
    return hashlib.sha256(data).hexdigest(), size


def rewritten(dataset):
    """The samples in an archive of the writer's, which leaves out what no decoder needs."""
    file = io.BytesIO()
    with benzina.Writer(file) as writer:
        for sample in dataset:
            writer.add(sample, target=sample.target, name=sample.filename)
    return benzina.Dataset(file)


def damaged(data, sample, track="bzna_input"):
    """The archive's bytes with that sample's coded picture destroyed."""
    info = sample.image_info(track)
    first, size = info.data_offset, info.data_size
    return data[:first + 4] + bytes([data[first + 4] & 0x81 | 0x26, 1]) + b"\xff" * (size - 6) + data[first + size:]


@needs_decoder
@needs("numpy")
class Pictures(unittest.TestCase):
    def test_a_sample_gives_the_whole_picture_as_the_tool_extracts_it(self):
        if not os.path.exists(BZNA):
            self.skipTest(BZNA + " was not built")
        dataset = benzina.Dataset(MINI)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "picture.ppm")
            for index, track in ((0, None), (3, None), (5, None), (3, "bzna_thumb")):
                subprocess.run(
                    [BZNA, "extract", MINI, str(index), "-o", path] + (["--track", track] if track else []),
                    check=True,
                )
                with open(path, "rb") as file:
                    ppm = file.read()
                image = dataset[index].image(*([track] if track else []))
                height, width, channels = image.shape
                self.assertEqual((image.dtype.name, channels), ("uint8", 3))
                self.assertTrue(ppm == b"P6\n%d %d\n255\n" % (width, height) + image.tobytes(), "sample %d" % index)
        self.assertEqual(dataset[3].image().shape, (900, 1300, 3))

    def test_a_part_of_a_sum_and_a_closed_context_give_pictures(self):
        context = benzina.Context("cpu")
        dataset = benzina.Dataset(ARCHIVE, context=context)
        whole = (dataset[2:5] + dataset[:1])[3]
        context.close()
        self.assertTrue((whole.image() == dataset[0].image()).all())

    def test_a_damaged_picture_is_named(self):
        with open(MINI, "rb") as file:
            broken = damaged(file.read(), benzina.Dataset(MINI)[3])
        dataset = benzina.Dataset(io.BytesIO(broken))
        with self.assertRaises(Error) as caught:
            dataset[3].image()
        self.assertIn("sample 3 (03_plasma_big.JPEG): ", caught.exception.message)
        self.assertLess(caught.exception.status, -400)
        self.assertEqual(dataset[2].image().shape, (480, 640, 3))

    def test_what_has_no_picture_says_so(self):
        dataset = benzina.Dataset(ARCHIVE)
        sample = dataset[0]
        with self.assertRaises(Error) as caught:
            sample.image("bzna_sketch")
        self.assertEqual(caught.exception.status, Status.E_NOT_FOUND)
        with self.assertRaises(ValueError):
            unowned(sample).image()
        dataset.close()
        with self.assertRaises(Error) as caught:
            sample.image()
        self.assertEqual(caught.exception.status, Status.E_STATE)


class Writers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "made.bzna")

    def tearDown(self):
        gc.collect()
        _handles.dispose_put_off()
        self.assertEqual(_handles.registry, {})

    def test_samples_of_another_archive(self):
        dataset = benzina.Dataset(ARCHIVE)
        splits = ["train", "validation", "test", None] * 2
        with benzina.Writer(self.path) as writer:
            for sample, split in zip(dataset, splits):
                writer.add(sample, target=sample.target, name=sample.filename, split=split)
        made = benzina.Dataset(self.path)
        self.assertEqual((list(made.targets), made.filenames), (list(dataset.targets), dataset.filenames))
        for track in ("bzna_input", "bzna_thumb"):
            if DECODES:
                self.assertEqual(digest(loader_of(made, track=track)), digest(loader_of(dataset, track=track)), track)
            self.assertEqual([coded(s, track) for s in rewritten(made)], [coded(s, track) for s in made], track)
        self.assertEqual([s.target for s in benzina.Dataset(self.path, split="validation")], [37, 185])
        apart = [[s.image_info("thumb").data_offset != s.image_info().data_offset for s in d] for d in (dataset, made)]
        # thumbnails that are the picture are not doubled
        self.assertEqual(apart, [[i in (2, 3) for i in range(COUNT)]] * 2)

    def test_coded_bytes(self):
        for archive, codec in ((ARCHIVE, "h265"), ("tests/data/mini_h264.bzna", "h264")):
            dataset = rewritten(benzina.Dataset(archive))
            sample, large = dataset[0], dataset[3]
            data, size = annexb(sample)
            small, small_size = annexb(large, "bzna_thumb")
            with benzina.Writer(self.path) as writer:
                writer.add(data)
                writer.add(bytearray(data), target=2**63 - 1, name="b\u00e9.jpg", codec=codec, size=size)
                writer.add(large, thumb=small, thumb_size=small_size, target=-1)
                writer.add(large, thumb=sample, target=3)
            made = benzina.Dataset(self.path)
            self.assertEqual(list(made.targets), [-1, 2**63 - 1, -1, 3])
            self.assertEqual([s.target for s in made], list(made.targets))
            self.assertEqual((made.filename(0), made.filename(1)), ("", "b\u00e9.jpg"))
            image, kept = sample._coded()
            digest_of = coded(sample)[0]
            self.assertNotEqual(size, (image.frame_width, image.frame_height))
            self.assertEqual(
                [coded(made[0]), coded(made[1])],
                [(digest_of, (image.frame_width, image.frame_height)), (digest_of, size)],
            )
            self.assertEqual([coded(made[2]), coded(made[3])], [coded(large)] * 2)
            self.assertEqual(
                [coded(made[i], "bzna_thumb") for i in (2, 3)], [coded(s, "bzna_thumb") for s in (large, sample)]
            )

    def test_targets_from_the_first_sample_on(self):
        sample = benzina.Dataset(ARCHIVE)[0]
        with benzina.Writer(self.path) as writer:
            for target in (0, 2**63 - 1, -7):
                writer.add(sample, target=target)
        self.assertEqual(list(benzina.Dataset(self.path).targets), [0, 2**63 - 1, -7])
        for none in (-1, None):
            with benzina.Writer(self.path) as writer:
                writer.add(sample, target=4)
                writer.add(sample, target=none)
                writer.add(sample, target=5)
            self.assertEqual(list(benzina.Dataset(self.path).targets), [4, -1, 5])
        with benzina.Writer(self.path) as writer:
            writer.add(sample)
        self.assertEqual(benzina.Dataset(self.path).info.target_count, 0)

    def test_an_exception_leaves_the_archive_unfinished(self):
        with self.assertRaises(KeyError):
            with benzina.Writer(self.path) as writer:
                writer.add(benzina.Dataset(ARCHIVE)[0])
                raise KeyError("no such luck")
        with self.assertRaises(Error) as caught:
            benzina.Dataset(self.path)
        self.assertEqual(caught.exception.status, Status.E_UNFINISHED)
        with self.assertRaises(Error) as caught:
            writer.add(benzina.Dataset(ARCHIVE)[0])
        self.assertEqual(caught.exception.status, Status.E_STATE)

    def test_an_empty_archive_and_a_folder_that_is_not_there_are_errors(self):
        with self.assertRaises(Error) as caught:
            with benzina.Writer(self.path):
                pass
        self.assertEqual(caught.exception.status, Status.E_NO_SAMPLES)
        with self.assertRaises(Error) as caught:
            benzina.Writer("nowhere/made.bzna")
        self.assertEqual(caught.exception.status, Status.E_NOT_FOUND)

    def test_what_is_refused_leaves_the_archive_as_it_was(self):
        sample = benzina.Dataset(ARCHIVE)[0]
        data, size = annexb(sample)
        with benzina.Writer(self.path) as writer:
            writer.add(sample, target=1)
            for kind, word, options in (
                (TypeError, "int", dict(image=7)),
                (Error, "a.jpg", dict(image="a.jpg")),
                (Error, "x.jpg: ", dict(image=b"\xff\xd8\xff\xe0" * 10, name="x.jpg")),
                (ValueError, "image", dict(image=b"")),
                (Error, "jpeg", dict(image=b"\xff\xd8\xff\xe0" * 10, codec="jpeg")),
                (Error, "h264", dict(image=data, codec="h264")),
                (ValueError, "codec", dict(image=data, codec="png")),
                (ValueError, "size", dict(image=data, size=(0, 5))),
                (Error, "513x512", dict(image=data, size=(513, 512))),
                (ValueError, "target", dict(image=sample, target=2**63)),
                (ValueError, "NUL", dict(image=sample, name="a\0b")),
                (ValueError, "split", dict(image=sample, split="training")),
                (Error, "thumb", dict(image=sample, thumb=b"x")),
            ):
                with self.assertRaises(kind, msg=options) as caught:
                    writer.add(**options)
                self.assertIn(word, str(caught.exception))
        self.assertEqual(list(benzina.Dataset(self.path).targets), [1])

    def test_jpeg_files_are_kept_as_they_are(self):
        files = os.path.join(os.path.dirname(self.path), "files")
        os.mkdir(files)
        for name in ("jpeg_exif_6.jpg", "jpeg_gray_progressive.jpg"):
            shutil.copy("tests/data/pictures/" + name, files)
        folder = benzina.Dataset(files)
        with open("tests/data/pictures/jpeg_422_restarts.jpg", "rb") as file:
            data = file.read()
        with benzina.Writer(self.path, codec="copy") as writer:
            for sample in folder:
                writer.add(sample, target=1, name=sample.filename)
            writer.add(data, codec="jpeg")
            writer.add(data)
            writer.add(data, size=(7, 5), codec="jpeg")
            writer.add(folder[0], thumb=data)
        made = benzina.Dataset(self.path)
        self.assertEqual([made.field(i, "image") for i in (2, 3, 4)], [data] * 3)
        self.assertEqual([made.field(i, "image") for i in (0, 1)], [s.fields["image"] for s in folder])
        self.assertEqual([(s.image_info().width, s.image_info().height, s.image_info().orientation) for s in made],
                         [(40, 25, 6), (40, 25, 0), (40, 25, 0), (40, 25, 0), (7, 5, 0), (40, 25, 6)])
        if DECODES and importable("numpy"):
            self.assertEqual(made[0].image().shape, (40, 25, 3))
            self.assertTrue((made[0].image() == folder[0].image()).all())
        with self.assertRaises(Error) as caught, benzina.Writer(self.path) as writer:
            writer.add(data[:100], codec="jpeg")
        self.assertIn("truncated", str(caught.exception))

    def test_a_binary_file(self):
        file = io.BytesIO(bytes(10**6))         # what it held goes
        with benzina.Writer(file) as writer:
            writer.add(benzina.Dataset(ARCHIVE)[3], target=5)
        with open(self.path, "wb") as plain, benzina.Writer(plain) as writer:
            writer.add(benzina.Dataset(ARCHIVE)[3], target=5)
            writer.finish()
            self.assertEqual(list(benzina.Dataset(self.path).targets), [5])
        with open(self.path, "rb") as plain:
            self.assertTrue(plain.read() == file.getvalue())

    def test_a_file_that_fails_is_the_cause(self):
        class Full(io.BytesIO):
            def write(self, data):
                if self.tell() > 1000:
                    raise OSError(errno.ENOSPC, "no room")
                return super().write(data)
        sample = benzina.Dataset(ARCHIVE)[0]
        with self.assertRaises(Error) as caught:
            with benzina.Writer(Full()) as writer:
                writer.add(sample)
                writer.add(sample)
        self.assertEqual(caught.exception.status, Status.E_IO)
        self.assertEqual(caught.exception.__cause__.errno, errno.ENOSPC)
        with self.assertRaises(TypeError):
            benzina.Writer(7)



def psnr(a, b):
    """Of two H x W x 3 arrays of uint8, in dB."""
    error = ((a.astype("f") - b) ** 2).mean()
    return 99 if error == 0 else 10 * math.log10(255 ** 2 / error)


def can_encode():
    run = subprocess.run(
        [BZNA, "pack", "-", "-o", "-", "--codec", "h264", "--preset", "ultrafast"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    return run.returncode == 0


@needs_decoder
@needs("numpy")
@unittest.skipUnless(can_encode(), "bzna has no encoder of H.264")
class Encoding(unittest.TestCase):
    """Writers that encode."""

    fast = dict(codec="h264", preset="ultrafast", crf=8, frame="exact", jobs=2)
    jpeg = "tests/data/pictures/jpeg_422_restarts.jpg"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.path = folder.name, os.path.join(folder.name, "made.bzna")
        os.environ["BENZINA_TOOL"] = BZNA
        self.addCleanup(os.environ.pop, "BENZINA_TOOL")
        import numpy
        x, y = numpy.arange(160), numpy.arange(120)[:, None]
        self.pixels = numpy.stack([x + 0 * y, 2 * y + 0 * x, 255 - x + 0 * y], 2).astype(numpy.uint8)      # smooth

    tearDown = Writers.tearDown

    def source(self):
        return benzina.Dataset(os.path.dirname(self.jpeg), name=None)

    def test_pictures_of_every_kind_come_back(self):
        import numpy
        with open(self.jpeg, "rb") as file:
            data = file.read()
        with benzina.Writer(self.path, classes=["cat", "dog", "\u732b"], **self.fast) as writer:
            writer.add(self.jpeg, target=2, caption="a path", boxes=[[1, 2, 3, 4], [5, 6, 7, 8.5]])
            writer.add(pathlib.Path(self.jpeg), target=0, name="\xe9.jpg", number=-7, raw=b"\0\1", split="train")
            writer.add(data, target=1, boxes=numpy.arange(3), fields={"split": "a field"})
            writer.add(self.pixels, name="pixels")
            writer.add(self.pixels[::2, ::-1, 0], number=numpy.int64(2**62))
            writer.add(self.pixels[:, :, :1], caption=None)
            if importable("PIL"):
                from PIL import Image
                writer.add(Image.fromarray(self.pixels))
                writer.add(Image.fromarray(self.pixels[:, :, 1]))
                writer.add(Image.fromarray(numpy.dstack([self.pixels, self.pixels[:, :, 0]])))
            writer.add(benzina.Dataset(ARCHIVE)[2])
        made = benzina.Dataset(self.path)
        self.assertEqual(made.classes, ["cat", "dog", "\u732b"])
        self.assertEqual([s.target for s in made][:4], [2, 0, 1, -1])
        self.assertEqual(made.filenames[:4], ["jpeg_422_restarts.jpg", "\xe9.jpg", "", "pixels"])
        names = ("caption", "boxes", "number", "raw", "split")
        self.assertEqual(
            [[made.field(i, name) for name in names] for i in range(5)],
            [
                ["a path", array.array("f", [1, 2, 3, 4, 5, 6, 7, 8.5]), None, None, None],
                [None, None, -7, b"\0\1", None],
                [None, array.array("f", [0, 1, 2]), None, None, "a field"],
                [None] * 5,
                [None, None, 2**62, None, None],
            ],
        )
        self.assertEqual(len(benzina.Dataset(self.path, split="train")), 1)
        as_file = benzina.Dataset(os.path.dirname(self.jpeg))[
            sorted(
                n
                for n in os.listdir(os.path.dirname(self.jpeg))
                if n.endswith(("jpg", "png", "bmp", "gif", "jp2", "j2k", "webp", "tif", "ppm", "pgm", "pbm", "pnm"))
            ).index("jpeg_422_restarts.jpg")
        ].image()
        gray, small = [numpy.dstack([plane] * 3) for plane in (self.pixels[:, :, 0], self.pixels[::2, ::-1, 0])]
        expected = [as_file] * 3 + [self.pixels, small, gray]
        if importable("PIL"):
            expected += [self.pixels, numpy.dstack([self.pixels[:, :, 1]] * 3), self.pixels]
        for number, picture in enumerate(expected):
            got = made[number].image()
            self.assertEqual(got.shape, picture.shape)
            self.assertGreater(psnr(got, picture), 34, number)
        self.assertEqual(coded(made[-1]), coded(rewritten(benzina.Dataset(ARCHIVE))[2]))      # kept as it was
        self.assertTrue(made[-1].image_info("thumb").data_offset != made[-1].image_info().data_offset)

    def test_a_samples_file_is_encoded_as_the_file_itself(self):
        names = ["gif_animated_clear.gif", "jpeg2000.jp2", "png_palette_clear.png", "tiff_lzw.tif"]
        files = os.path.join(self.folder, "files")
        os.mkdir(files)
        for name in names:
            shutil.copy(os.path.join("tests/data/pictures", name), files)
        data = benzina.Dataset(files)
        with benzina.Writer(self.path, background="white", **self.fast) as writer:
            writer.add_all({"image": sample} for sample in data)
            writer.add_all({"image": os.path.join(files, name)} for name in names)
        made = benzina.Dataset(self.path)
        for i, name in enumerate(names):
            self.assertEqual(made.field(i, "image"), made.field(len(names) + i, "image"), name)

    def test_it_is_encoded_as_the_tool_packs_it(self):
        with benzina.Writer(self.path, **self.fast) as writer:
            for name in ("jpeg_exif_6.jpg", "jpeg_411.jpg"):
                writer.add("tests/data/pictures/" + name)
            large = os.path.join(self.folder, "large.ppm")
            with open(large, "wb") as file:
                file.write(b"P6\n600 8\n255\n" + bytes(range(240)) * 60)
            writer.add(large)
        packed = os.path.join(self.folder, "packed.bzna")
        subprocess.run(
            [
                BZNA,
                "pack",
                "tests/data/pictures/jpeg_exif_6.jpg",
                "tests/data/pictures/jpeg_411.jpg",
                large,
                "-o",
                packed,
                "--codec=h264",
                "--preset=ultrafast",
                "--crf=8",
                "--frame=exact",
            ],
            check=True,
            capture_output=True,
        )
        made, packed = benzina.Dataset(self.path), benzina.Dataset(packed)
        for field in ("image", "thumb"):
            self.assertEqual([made.field(i, field) for i in range(3)], [packed.field(i, field) for i in range(3)])
        self.assertNotEqual(made.field(2, "image"), made.field(2, "thumb"))

    def test_the_bytes_are_the_same_in_every_order_and_from_several_threads(self):
        pictures = [self.pixels[i:, i:] for i in range(12)]
        digests = set()

        def run(add):
            with benzina.Writer(self.path, **self.fast) as writer:
                add(writer)
            with open(self.path, "rb") as file:
                digests.add(hashlib.sha256(file.read()).digest())

        def in_turn(writer):
            for i, picture in enumerate(pictures):
                writer.add(picture, target=i, name=str(i), number=i)

        def by_threads(writer):
            errors = []

            def add(first):
                try:
                    for i in range(11 - first, -1, -3):
                        writer.add(pictures[i], target=i, name=str(i), number=i, index=i)
                except BaseException as error:
                    errors.append(error)
            threads = [threading.Thread(target=add, args=(i,)) for i in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(errors, [])

        def with_gaps(writer):
            for i in reversed(range(12)):
                writer.add(pictures[i], target=i, name=str(i), number=i, index=2 * i)
                writer.skip(2 * i + 1)
        run(in_turn)
        run(by_threads)
        run(with_gaps)
        run(
            lambda writer: writer.add_all(
                dict(image=p, target=i, name=str(i), number=i) for i, p in enumerate(pictures)
            )
        )
        self.assertEqual(len(digests), 1)

    @unittest.skipUnless(shutil.which("ffprobe"), "there is no ffprobe [ffmpeg]")
    def test_ffprobe_sees_the_pictures(self):
        with benzina.Writer(self.path, classes=["a"], **self.fast) as writer:
            writer.add_all(
                {"image": self.pixels, "target": 0, "name": str(i), "caption": "a picture"} for i in range(5)
            )
        probe = subprocess.run(
            [
                "ffprobe",
                "-v",
                "error",
                "-count_frames",
                "-show_entries",
                "stream=codec_name,nb_read_frames",
                "-of",
                "csv=p=0",
                self.path,
            ],
            capture_output=True,
            text=True,
        )
        self.assertEqual((probe.returncode, probe.stderr), (0, ""))
        self.assertIn("h264,5", probe.stdout)

    def test_a_picture_that_is_refused_leaves_the_others(self):
        refused = []
        with open(self.jpeg, "rb") as file:
            data = file.read()
        samples = [
            dict(image=self.pixels),
            dict(image=b"no picture", name="b"),
            dict(image=data[:700], name="cut.jpg"),
            dict(image="none.jpg"),
            dict(image=self.pixels, target=2**63),
            dict(image=self.pixels, box=object()),
            dict(image=data),
        ]
        with benzina.Writer(self.path, **self.fast) as writer:
            self.assertEqual(
                writer.add_all(
                    samples, lambda sample, error: refused.append(([s is sample for s in samples].index(True), error))
                ),
                2,
            )
            with self.assertRaisesRegex(Error, "cut.jpg: "):
                writer.add(**samples[2])
            with self.assertRaisesRegex(TypeError, "float32|uint8"):
                writer.add(self.pixels.astype("f"))
            with self.assertRaises(Error):
                writer.add_all(samples)
            with self.assertRaisesRegex(ValueError, "float32"):
                writer.add(self.pixels, box=[2**24 + 1])
        self.assertEqual([number for number, error in refused], [1, 2, 3, 4, 5])
        self.assertIn("none.jpg: cannot be opened", str(refused[2][1]))
        self.assertEqual(len(benzina.Dataset(self.path)), 3)

    def test_a_write_that_fails_ends_it(self):
        class Full(io.BytesIO):
            def write(self, data):
                if self.tell() > 3000:
                    raise OSError(errno.ENOSPC, "no room")
                return super().write(data)
        told = []
        with self.assertRaises(Error) as caught, benzina.Writer(Full(), **self.fast) as writer:
            writer.add_all(({"image": self.pixels} for _ in range(100)), lambda sample, error: told.append(error))
        self.assertEqual((caught.exception.status, told), (Status.E_IO, []))

    def test_indices_that_are_missing(self):
        with benzina.Writer(self.path, queue_bytes=1, timeout=0.2, **self.fast) as writer:
            with self.assertRaises(Error) as caught:
                writer.add(self.pixels, index=3)
            self.assertEqual(caught.exception.status, Status.AGAIN)
            writer.add(self.pixels, index=0)
            with self.assertRaisesRegex(Error, "index") as caught:
                writer.add(self.pixels, index=0)
            self.assertEqual(caught.exception.status, Status.E_ARGUMENT)
        with benzina.Writer(self.path, **self.fast) as writer:
            writer.add(self.pixels, index=1)
            with self.assertRaises(Error) as caught:
                writer.finish()
            self.assertEqual(caught.exception.status, Status.E_NOT_FOUND)
            writer.add(self.pixels, index=0)

    def test_a_process_that_dies_costs_its_picture(self):
        with benzina.Writer(self.path, codec="jpeg") as writer:
            writer.add(self.pixels)
            one = writer._encoders._idle[0]
            one._process.kill()
            with self.assertRaisesRegex(Error, "crashed"):
                writer.add(self.pixels)
            writer.add(self.pixels)
            self.assertIsNot(writer._encoders._idle[0], one)
            writer._encoders._idle[0]._left = 1                         # its last one
            writer.add(self.pixels)
            self.assertEqual(len(writer._encoders._idle), 0)
            writer.add(self.pixels)
        self.assertEqual(len(benzina.Dataset(self.path)), 4)
        self.assertEqual(len(writer._encoders._idle), 0)

    def test_the_tool_encodes_what_is_named_on_its_input(self):
        def run(*options, named=b""):
            done = subprocess.run([BZNA, "pack", *options], input=named, capture_output=True)
            return done.returncode, done.stdout, done.stderr
        status, out, _ = run(
            "-", "-o", "-", "--codec=jpeg", "--max-edge=20", named=self.jpeg.encode() + b"\0no\n such\0"
        )
        head, picture, rest = out.split(b"\n", 2)
        self.assertEqual((status, head), (0, b'{"codec":"jpeg"}'))
        size = _writer.json.loads(picture)["size"]
        self.assertEqual(
            (_writer.json.loads(picture)["width"], rest[:2], rest[size - 2 : size]), (20, b"\xff\xd8", b"\xff\xd9")
        )
        self.assertEqual(_writer.json.loads(rest[size:]), {"reason": "cannot be opened: No such file or directory"})
        for options in (
            ("-", "-o", self.path),
            ("tests/data", "-o", "-"),
            ("-", "-o", "-", "--list=a.csv"),
            ("-", "-o", "-", "--resume"),
        ):
            self.assertEqual(run(*options)[:2], (2, b""), options)

    def test_what_is_given_by_mistake_is_named(self):
        slips = (
            (TypeError, "target: 1.5 is no whole number", dict(target=1.5)),
            (TypeError, "target: .1. is no", dict(target=[1])),
            (ValueError, "target: 'bird' is none of the writer's 2 classes", dict(target="bird")),
            (TypeError, "box: dict is neither", dict(box={"x": 1})),
            (TypeError, "words: list is neither", dict(words=["a"])),
            (TypeError, "fields: 1 is no text", dict(fields={1: 1})),
            (TypeError, "name: 5 is no text", dict(name=5)),
        )
        with self.assertRaisesRegex(TypeError, "classes: a list"):
            benzina.Writer(self.path, classes="cat")
        with benzina.Writer(self.path, classes=["cat", "d\u00f6g"], **self.fast) as writer:
            for kind, words, slip in slips:
                with self.assertRaisesRegex(kind, words):
                    writer.add(self.pixels, **slip)
            with self.assertRaisesRegex(TypeError, "array of float32, shape"):
                writer.add(self.pixels.astype("f"))
            with open(self.jpeg, "rb") as file:
                writer.add(file, target="d\u00f6g", box=None)
        data = benzina.Dataset(self.path)
        self.assertEqual((len(data), data[0].target, data.classes), (1, 1, ["cat", "d\u00f6g"]))

    def test_options_and_a_tool_that_is_not_there_are_named(self):
        for kind, word, options in (
            (ValueError, "--crf", dict(crf=99)),
            (TypeError, "speed", dict(speed=3)),
            (ValueError, "h263", dict(codec="h263")),
            (ValueError, "--frame", dict(frame=7)),
            (ValueError, "--preset", dict(codec="jpeg", preset="slow")),
        ):
            with self.assertRaisesRegex(kind, word):
                benzina.Writer(self.path, **options)
            self.assertFalse(os.path.exists(self.path))
        if importable("PIL"):
            from PIL import Image
            with benzina.Writer(self.path) as writer:
                with self.assertRaisesRegex(TypeError, "mode I"):
                    writer.add(Image.new("I;16", (9, 9)))
                writer.add(benzina.Dataset(ARCHIVE)[0])
        os.environ["BENZINA_TOOL"] = os.path.join(self.folder, "absent")
        with self.assertRaisesRegex(Error, "absent"), benzina.Writer(self.path) as writer:
            writer.add(self.pixels)
        os.environ["BENZINA_TOOL"] = os.path.join(self.folder, "of_a_wheel")
        with open(os.environ["BENZINA_TOOL"], "w") as file:
            file.write("#!/bin/sh\necho 'bzna: this libavcodec has no libx265; --codec jpeg or --codec copy works' >&2; exit 1\n")
        os.chmod(file.name, 0o755)
        with self.assertRaisesRegex(Error, 'no libx265; codec="jpeg" or codec="copy" works') as caught:
            with benzina.Writer(self.path) as writer:
                writer.add(self.pixels)
        self.assertEqual(caught.exception.status, benzina.Status.E_UNSUPPORTED)

# ---- folders, shards, records ----------------------------------------------------------------------------------------

def oriented_jpeg(orientation):
    """24x16 pixels of gray, whose corners are 32, 80, 176, 224, with an EXIF orientation."""
    return bytes.fromhex(
        "ffd8ffe100224578696600004d4d002a000000080001011200030000000100%02x000000000000" % orientation
        + "ffdb004300"
        + "40" * 64
        + "ffc4001a000000070000000000000000000000000000010203040506ffc40014100100"
        + "00" * 15
        + "ffc0000b0800100018010111"
        + "00ffda0008010100003f0086946d30da53ffd9"
    )


class Kinds(unittest.TestCase):
    """Data sets that are no archives."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def put(self, data, *names):
        os.makedirs(os.path.dirname(self.path(*names)), exist_ok=True)
        with open(self.path(*names), "wb") as file:
            file.write(data)

    def classes(self):
        for name, orientation in (("9", 1), ("10", 6), ("8", 3)):
            self.put(oriented_jpeg(orientation), "classes", name, "a.jpg")
        return self.path("classes")

    def shard(self, name="a.tar", first=0, count=3):
        with tarfile.open(self.path(name), "w", format=tarfile.USTAR_FORMAT) as tar:
            for i in range(first, first + count):
                members = {"jpg": oriented_jpeg(1 + i), "cls": b"%d" % (i + 5), "id": b"%d" % (100 * i)}
                if i != 1:
                    members["txt"] = ("no. %d \u00e9" % i).encode()
                    members["json"] = b'{"n": %d}' % i
                for extension, data in members.items():
                    info = tarfile.TarInfo("d/%03d.%s" % (i, extension))
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
        return self.path(name)

    def test_a_folder_has_classes_and_names(self):
        dataset = benzina.Dataset(self.classes())
        self.assertEqual((dataset.info.container, len(dataset), dataset.classes), (b"folder", 3, ["10", "8", "9"]))
        self.assertEqual([(s.name, s.target) for s in dataset], [("10/a.jpg", 0), ("8/a.jpg", 1), ("9/a.jpg", 2)])
        self.assertEqual(dataset[1:].classes, ["10", "8", "9"])
        self.assertEqual(benzina.Dataset(ARCHIVE).classes, [])

    @needs("torchvision", "PIL")
    def test_classes_without_pictures_have_numbers_as_in_torchvision(self):
        from torchvision.datasets import ImageFolder
        folder = self.classes()
        for empty in ("0", "85", "95"):
            os.mkdir(os.path.join(folder, empty))
        with self.assertRaisesRegex(Error, '0: the class folder has no picture files'):
            benzina.Dataset(folder)
        if "allow_empty" not in inspect.signature(ImageFolder).parameters:
            self.skipTest("torchvision is older than 0.18, without allow_empty")
        theirs = ImageFolder(folder, allow_empty=True)
        for dataset in (benzina.Dataset(folder, allow_empty=True), benzina.Dataset._of(theirs, None)):
            for twin in (dataset, pickle.loads(pickle.dumps(dataset))):
                self.assertEqual((twin.classes, twin.class_to_idx, list(twin.targets)),
                                 (theirs.classes, theirs.class_to_idx, theirs.targets))
                self.assertEqual(twin.info.container, b"folder")
        with self.assertRaisesRegex(Error, "allow_empty: it has no effect on this data set"):
            benzina.Dataset(ARCHIVE, allow_empty=True)

    def test_settings_of_a_data_set_reach_the_library_and_its_copies(self):
        folder = self.classes()
        dataset = benzina.Dataset(folder, class_order="numeric", format="folder", orientation="ignore", fields=["name"])
        for twin in (dataset, pickle.loads(pickle.dumps(dataset)), copy.copy(dataset)[0:]):
            self.assertEqual((twin.classes, twin.fields, len(twin[0].fields)), (["8", "9", "10"], ["name"], 1))
            self.assertEqual([twin[i].image_info().orientation for i in range(3)], [1, 1, 1])
        self.assertEqual(benzina.Dataset(folder)[0].image_info().orientation, 6)
        chosen = benzina.Dataset(folder, classes=["9", "8"])
        self.assertEqual((chosen.classes, chosen.filenames), (["9", "8"], ["9/a.jpg", "8/a.jpg"]))
        with self.assertRaises(Error):
            benzina.Dataset(folder, format="tar")
        for wrong in ({"class_order": "alphabet"}, {"orientation": 1}, {"palette": "gray"}, {"classes": ["a\0b"]},
                      {"records": {"widht": 3}}, {"records": {"data_type": "float64"}}):
            with self.assertRaises(ValueError, msg=str(wrong)):
                benzina.Dataset(folder, **wrong)
        with self.assertRaises(KeyError):
            benzina.Dataset(folder, fields=["caption"])

    def test_a_list_of_files_is_one_data_set_that_can_be_pickled(self):
        paths = [self.shard("a.tar"), pathlib.Path(self.shard("b.tar", 3, 2))]
        dataset = benzina.Dataset(paths)
        for twin in (dataset, pickle.loads(pickle.dumps(dataset))):
            self.assertEqual((twin.info.part_count, len(twin), list(twin.targets)), (2, 5, [5, 6, 7, 8, 9]))
        with self.assertRaises(Error) as caught:
            benzina.Dataset([])
        self.assertEqual(caught.exception.status, Status.E_NO_SAMPLES)

    def test_a_shard_has_fields_of_all_kinds(self):
        dataset = benzina.Dataset(self.shard())
        self.assertEqual(set(dataset.fields), {"jpg", "cls", "id", "txt", "json", "name"})
        sample = dataset[2]
        self.assertEqual((sample.name, sample.target, sample.fields["cls"], sample.fields["id"]), ("d/002", 7, 7, 200))
        self.assertEqual((sample.fields["txt"], sample.fields["json"]), ("no. 2 \u00e9", b'{"n": 2}'))
        self.assertEqual((sample.fields["jpg"], dataset.field(2, "image")), (oriented_jpeg(3),) * 2)
        self.assertEqual((dataset[1].fields["txt"], dataset.field(1, "target")), (None, 6))
        few = benzina.Dataset(self.path("a.tar"), fields="txt")
        self.assertEqual((few.fields, dict(few[0].fields)), (["txt"], {"txt": "no. 0 \u00e9"}))
        with self.assertRaises(KeyError):
            few[0].fields["cls"]

    @needs_decoder
    @needs("numpy")
    def test_a_turned_jpeg_is_upright(self):
        dataset, ignored = (benzina.Dataset(self.classes(), orientation=o) for o in ("apply", "ignore"))
        upright, coded = dataset[0].image(), ignored[0].image("image")
        self.assertEqual((upright.shape, coded.shape), ((24, 16, 3), (16, 24, 3)))
        self.assertTrue((upright == coded.transpose(1, 0, 2)[:, ::-1]).all())       # 6: turned clockwise
        self.assertTrue((dataset[1].image() == ignored[1].image()[::-1, ::-1]).all())
        self.assertGreater(coded.max() - int(coded.min()), 100)

    @needs_decoder
    def test_batches_carry_the_fields_that_are_named(self):
        dataset = benzina.Dataset(self.shard())
        wanted = dict(output="memoryview", epochs=1, batch_size=2)
        loaders = [loader_of(dataset, tensors=["id"], bytes="txt,json", **wanted),
                   loader_of(dataset, fields={"image": "jpg", "tensors": ["id"], "bytes": ("txt", "json")}, **wanted)]
        for loader in loaders:
            batches = list(loader)
            self.assertEqual([len(batch) for batch in batches], [3, 3])
            self.assertEqual([list(fields["id"]) for _, _, fields in batches], [[0, 100], [200]])
            self.assertEqual([fields["txt"] for _, _, fields in batches], [["no. 0 \u00e9", None], ["no. 2 \u00e9"]])
            self.assertEqual([fields["json"] for _, _, fields in batches], [[b'{"n": 0}', None], [b'{"n": 2}']])
            self.assertEqual([list(targets) for _, targets, _ in batches], [[5, 6], [7]])
        self.assertEqual([len(batch) for batch in loader_of(dataset, **wanted)], [2, 2])
        batch = next(loader_of(dataset, tensors=["id"], bytes="txt", **wanted).batches())
        self.assertEqual((list(batch.tensor("id").memoryview()), batch.bytes("txt")[1]), ([0, 100], None))
        kept = batch.tensor("id")               # a copy
        batch.release()
        self.assertEqual(list(kept.memoryview()), [0, 100])
        self.assertIn("txt", self.fails(loader_of, dataset, tensors="txt").message)
        with self.assertRaises(KeyError):
            loader_of(dataset, bytes=["caption"])
        for wrong in ({"fields": {"picture": "jpg"}}, {"fields": {"bytes": "txt"}, "bytes": "json"}):
            with self.assertRaises(ValueError, msg=str(wrong)):
                loader_of(dataset, **wrong)

    def fails(self, function, *arguments, **options):
        with self.assertRaises(Error) as caught:
            function(*arguments, **options)
        return caught.exception

    def test_batches_without_pictures_carry_fields_alone(self):
        dataset = benzina.Dataset(self.shard())
        loader = loader_of(dataset, shape=None, tensors="id", output="memoryview", epochs=1)
        (images, targets, fields), = loader
        self.assertEqual((images, list(targets), list(fields["id"])), (None, [5, 6, 7], [0, 100, 200]))
        with self.assertRaises(TypeError):
            loader_of(dataset, shape=None)

    def test_mnists_files_are_a_data_set(self):
        pixels = bytes(range(3 * 4 * 5))
        self.put(b"\0\0\x08\x03" + struct.pack(">III", 3, 4, 5) + pixels, "images")
        self.put(gzip.compress(b"\0\0\x08\x01" + struct.pack(">I", 3) + b"\x07\x02\x09"), "labels.gz")
        dataset = benzina.idx(self.path("images"), self.path("labels.gz"))
        self.assertEqual((list(dataset.targets), dataset[1].image_info().width), ([7, 2, 9], 5))
        unlabeled = benzina.idx(self.path("images"))
        self.assertEqual((len(unlabeled), unlabeled[2].target), (3, -1))
        if DECODES and importable("numpy"):
            for each in (dataset, unlabeled):
                image = each[1].image()
                self.assertEqual((image.shape, image[:, :, 0].tobytes()), ((4, 5, 3), pixels[20:40]))
        self.put(b"\0\0\x08\x01" + struct.pack(">I", 2) + b"\1\2", "few")
        for wrong in ((self.path("labels.gz"),), (self.path("images"), self.path("few"))):
            with self.assertRaises(ValueError):
                benzina.idx(*wrong)

    def test_an_idx_file_is_known_by_its_first_bytes(self):
        pictures = bytes((7 * i) % 251 for i in range(3 * 24 * 20))
        self.put(struct.pack(">IIII", 0x803, 3, 24, 20) + pictures, "known")
        dataset = benzina.Dataset(self.path("known"))
        self.assertEqual((len(dataset), dataset.info.container, dataset.targets[0]), (3, b"records", -1))
        self.assertEqual(len(pickle.loads(pickle.dumps(dataset))), 3)
        with self.assertRaisesRegex(benzina.Error, "it begins like an IDX file"):
            self.put(struct.pack(">IIII", 0x803, 3, 24, 20) + pictures[:-1], "cut")
            benzina.Dataset(self.path("cut"))
        with self.assertRaises(benzina.Error):
            benzina.Dataset(self.path("known"), format="tar")

    def test_pipes_are_refused_and_not_called_empty(self):
        ends = os.pipe()
        with open(ends[0], "rb") as reading, open(ends[1], "wb") as writing:
            writing.write(b"some bytes")
            writing.flush()
            with self.assertRaisesRegex(io.UnsupportedOperation, "cannot seek"):
                benzina.Dataset(reading)
            with self.assertRaisesRegex(benzina.Error, "cannot seek"):
                benzina.Dataset("/proc/self/fd/%d" % ends[0])
        if os.path.exists("/proc/self/status"):
            with open("/proc/self/status", "rb") as file, self.assertRaisesRegex(
                io.UnsupportedOperation, "a size of 0"
            ):
                benzina.Dataset(file)

    def test_cifars_files_are_a_data_set(self):
        self.put(b"".join(bytes([label]) + bytes([10 * label]) * 3072 for label in (3, 1)), "10.bin")
        self.put(bytes([5, 90]) + bytes([77]) * 3072, "100.bin")
        dataset = benzina.cifar([self.path("10.bin"), self.path("10.bin")])
        self.assertEqual(
            (list(dataset.targets), list(benzina.cifar(self.path("100.bin"), 100).targets)), ([3, 1, 3, 1], [90])
        )
        self.assertEqual(list(pickle.loads(pickle.dumps(dataset)).targets), [3, 1, 3, 1])
        if DECODES and importable("numpy"):
            self.assertEqual(dataset[2].image().tolist(), [[[30] * 3] * 32] * 32)

    def test_a_table_is_a_data_set_of_vectors(self):
        self.put(b"a,b,class\n1,2.5,7\n-3,4e2,8\n\n", "table.csv")
        dataset = benzina.csv(self.path("table.csv"), target=2)
        self.assertEqual([(s.target, list(s.fields["data"])) for s in dataset], [(7, [1, 2.5]), (8, [-3, 400])])
        (images, targets, fields), = loader_of(dataset, shape=None, tensors="data", output="memoryview", epochs=1)
        self.assertEqual((images, list(targets), fields["data"].tolist()), (None, [7, 8], [[1, 2.5], [-3, 400]]))
        self.assertEqual(list(benzina.csv(self.path("table.csv"))[0].fields["data"]), [1, 2.5, 7])
        for bad in (b"", b"1,2\n3\n", b"1,2\n3,x\n"):
            self.put(bad, "bad.csv")
            with self.assertRaises(ValueError, msg=bad):
                benzina.csv(self.path("bad.csv"))

    @needs_decoder
    def test_vectors_of_records_are_rows(self):
        self.put(oriented_jpeg(1), "a.jpg")
        tool_pictures.record(self.path("x.rec"), self.path("a.jpg"))
        dataset = benzina.Dataset(self.path("x.rec"), format="RecordIO")
        self.assertEqual([list(s.fields["label"]) for s in dataset], [[5], [1.5, 2, -3]])
        (_, _, fields), = loader_of(dataset, tensors=["label:3"], output="memoryview", epochs=1)
        rows = fields["label"].tolist()
        self.assertEqual((rows[0][0], rows[1]), (5, [1.5, 2, -3]))
        self.assertTrue(math.isnan(rows[0][1]) and math.isnan(rows[0][2]))


# ---- order, state, shares --------------------------------------------------------------------------------------------

@needs_decoder
class Order(unittest.TestCase):
    def test_epochs_come_one_after_the_other_in_the_headers_order(self):
        loader = loader_of(shuffle=True)
        self.assertEqual((len(loader), loader.epoch), (3, 0))
        for epoch in range(3):
            self.assertEqual(order(loader), [lib.bzna_order_permute(1234, epoch, COUNT, i) for i in range(COUNT)])
            self.assertEqual(loader.epoch, epoch + 1)

    def test_pixels_and_order_do_not_depend_on_threads_or_batch_size(self):
        def options(**more):
            return dict(
                shuffle=True,
                warp=ops.SimilarityTransform(
                    scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3), flip_h=0.5, degrees=20, random_crop=True
                ),
                **more
            )
        first = digest(loader_of(**options(num_threads=1)))
        for more in (
            dict(num_threads=2),
            dict(num_threads=4, reader_threads=2),
            dict(num_threads=3, batch_size=1, multibuffering=8),
            dict(no_threads=True),
        ):
            self.assertEqual(digest(loader_of(**options(**more))), first, more)
        self.assertNotEqual(digest(loader_of(**options(num_threads=1), first_epoch=1)), first)

    def test_set_epoch(self):
        loader = loader_of(shuffle=True)
        fifth = [lib.bzna_order_permute(1234, 5, COUNT, i) for i in range(COUNT)]
        loader.set_epoch(5)
        self.assertEqual(order(loader), fifth)
        loader.set_epoch(5)
        self.assertEqual(order(loader), fifth)
        loader.set_epoch(6)
        self.assertEqual(loader.epoch, 6)

    def test_an_epoch_broken_off_is_followed_by_the_next(self):
        loader = loader_of(shuffle=True)
        for _ in loader:
            break
        self.assertEqual(order(loader), [lib.bzna_order_permute(1234, 1, COUNT, i) for i in range(COUNT)])

    def test_last_batch(self):
        def sizes(**options):
            return [(len(b), b.count) for b in loader_of(**options).batches()]
        self.assertEqual(sizes(), [(3, 3), (3, 3), (2, 2)])
        self.assertEqual(sizes(drop_last=True), [(3, 3), (3, 3)])
        self.assertEqual(sizes(last_batch="pad"), [(3, 3), (3, 3), (3, 2)])
        *_, last = loader_of(batch_size=3, last_batch="fill", pad_value=-1.5, pad_target=-7).batches()
        self.assertEqual(
            (len(last.images.memoryview().tobytes()), last.count, last.targets.memoryview()[2]),
            (3 * 3 * 24 * 24 * 4, 2, -7),
        )
        self.assertEqual(set(floats(last.images)[2 * 3 * 24 * 24:]), {-1.5})
        self.assertEqual(len(loader_of(drop_last=True)), 2)

    def test_epochs_end(self):
        loader = loader_of(epochs=2)
        self.assertEqual([len(order(loader)) for _ in range(4)], [8, 8, 0, 0])
        loader.set_epoch(0)
        self.assertEqual(len(order(loader)), 8)

    def test_indices_and_weights(self):
        self.assertEqual(order(loader_of(indices=[5, 1, 1])), [5, 1, 1])
        drawn = order(loader_of(weights=[0, 0, 1, 0, 0, 0, 1, 0], weighting="replace", epoch_samples=50))
        self.assertEqual((len(drawn), set(drawn)), (50, {2, 6}))

    def test_a_new_iterator_takes_the_place_of_the_one_before_it(self):
        loader = loader_of()
        first = iter(loader)
        next(first)
        self.assertEqual([batch.epoch for batch in loader.batches()], [1] * 3)
        with self.assertRaisesRegex(Error, "iterator is over") as caught:
            next(first)
        self.assertEqual(caught.exception.status, Status.E_STATE)
        with self.assertRaises(StopIteration):
            next(first)
        second = iter(loader)
        third = iter(loader)                    # nothing was taken from the second: the same epoch
        self.assertEqual((loader.epoch, len(list(third)), loader.epoch), (2, 3, 3))
        with self.assertRaises(Error):
            next(second)
        with self.assertRaises(StopIteration):  # it is at its end, whatever came afterwards
            next(third)
        fourth = iter(loader)
        next(fourth)
        fourth.close()
        with self.assertRaises(StopIteration):
            next(fourth)
        fifth = iter(loader)
        loader.set_epoch(7)                     # before its first batch
        self.assertEqual(next(fifth) and loader.epoch, 7)
        loader.set_epoch(3)
        with self.assertRaises(Error):
            next(fifth)
        for batch in loader.batches():
            self.assertEqual(batch.epoch, 3)

    def test_a_batch_before_the_loop_and_loops_broken_off_are_no_trouble(self):
        loader = loader_of()
        peek = iter(loader)
        next(peek)
        for epoch in range(1, 4):
            for i, _ in enumerate(loader):
                self.assertEqual(loader.epoch, epoch)
                if i == 1:
                    break

    def test_too_many_batches_kept_is_an_error_that_says_so(self):
        loader = loader_of(batch_size=1, multibuffering=2)
        with self.assertRaises(Error) as caught:
            list(loader.batches())
        self.assertEqual(caught.exception.status, Status.E_STATE)
        self.assertIn("on loan", caught.exception.message)
        self.assertIn("larger multibuffering", caught.exception.message)
        caught.exception.__traceback__ = None
        del caught
        gc.collect()
        loader.set_epoch(0)
        self.assertEqual(order(loader), list(range(COUNT)))

    def test_ranks_share_an_epoch(self):
        whole = order(loader_of(shuffle=True))
        shares = [
            order(loader_of(shuffle=True, rank=r, world_size=3, batch_size=2, last_batch="partial")) for r in range(3)
        ]
        self.assertEqual(shares, [whole[r::3] for r in range(3)])
        lengths = [
            [len(b) for b in loader_of(rank=r, world_size=3, batch_size=1, last_batch="partial").batches()]
            for r in range(3)
        ]
        self.assertEqual(lengths, [[1, 1, 1], [1, 1, 1], [1, 1, 0]])
        padded = [
            [len(b) for b in loader_of(rank=r, world_size=3, batch_size=1, last_batch="pad").batches()]
            for r in range(3)
        ]
        self.assertEqual(padded, [[1, 1, 1]] * 3)

    def test_a_run_goes_on_from_its_state_with_the_same_pixels(self):
        options = dict(shuffle=True, warp=ops.RandomResizedCrop())
        loader = loader_of(batch_size=2, **options)
        rest = hashlib.sha256()
        for i, batch in enumerate(loader.batches()):
            if i >= 2:
                rest.update(pixels(batch.images))
            if i == 1:
                state = loader.state_dict()
        self.assertEqual(len(bytes.fromhex(state["state"])), 128)
        again = loader_of(batch_size=4, num_threads=1, **{**options, "seed": 99})
        again.load_state_dict(pickle.loads(pickle.dumps(state)))
        self.assertEqual((again.epoch, again.seed), (0, 1234))
        again.set_epoch(0)                      # what a training loop does: the place must not be lost
        resumed = hashlib.sha256()
        for batch in again.batches():
            resumed.update(pixels(batch.images))
        self.assertEqual(resumed.hexdigest(), rest.hexdigest())
        self.assertEqual(order(again), [lib.bzna_order_permute(1234, 1, COUNT, i) for i in range(COUNT)])

    def test_a_state_of_a_machine_of_the_other_byte_order_is_refused(self):
        loader, again = loader_of(shuffle=True), loader_of(shuffle=True, seed=99)
        next(loader.batches())
        state = loader.state_dict()
        with self.assertRaises(Error) as caught:
            again.load_state_dict(struct.pack(">2I6Q2I8Q", *struct.unpack("<2I6Q2I8Q", bytes.fromhex(state["state"]))))
        self.assertIn("state.version", str(caught.exception))

    def test_a_run_goes_on_with_another_number_of_ranks(self):
        loader = loader_of(shuffle=True, batch_size=2)
        steps = loader.batches()
        seen = list(next(steps).indices.memoryview())
        state = loader.state_dict()
        for rank in range(3):
            share = loader_of(shuffle=True, batch_size=1, rank=rank, world_size=3)
            share.load_state_dict(state["state"])
            seen += order(share)
        self.assertEqual(sorted(seen), list(range(COUNT)))

    def test_a_state_with_no_whole_batch_left_ends_its_epoch(self):
        loader = loader_of(batch_size=7, drop_last=False)
        steps = loader.batches()
        next(steps)
        state = loader.state_dict()
        again = loader_of(batch_size=2, drop_last=True)
        again.load_state_dict(state)
        self.assertEqual((again.epoch, order(again)), (0, []))
        self.assertEqual(again.epoch, 1)
        self.assertEqual(again.state_dict(), state)
        self.assertEqual(order(again), list(range(8)))

    def test_a_state_of_other_pixels_is_taken_only_when_asked_to(self):
        state = loader_of(shape=16, shuffle=True).state_dict()
        with self.assertRaises(Error) as caught:
            loader_of(shape=24, shuffle=True).load_state_dict(state)
        self.assertIn("restore_any_pixels", caught.exception.message)
        self.assertNotIn("loader_config", caught.exception.message)
        loader_of(shape=24, shuffle=True, restore_any_pixels=1).load_state_dict(state)

    def test_states_of_others_are_refused(self):
        state = bytes.fromhex(loader_of().state_dict()["state"])
        damaged = state[:20] + bytes([state[20] ^ 1]) + state[21:]
        for bad in (
            damaged,
            loader_of(shuffle=True).state_dict(),
            loader_of(benzina.Dataset(ARCHIVE)[:4]).state_dict(),
        ):
            with self.assertRaises(Error) as caught:
                loader_of().load_state_dict(bad)
            self.assertEqual(caught.exception.status, Status.E_ARGUMENT)
        with self.assertRaises(ValueError):
            loader_of().load_state_dict(state[:63])


# ---- pixels ----------------------------------------------------------------------------------------------------------

def rendered(dataset, index, shape, matrix, bias=(0, 0, 0), scale=(1, 1, 1)):
    """One sample as bzna_picture_render makes it, apart from any loader."""
    image, picture = _c.new("image"), _c.new("picture")
    buffer = ctypes.create_string_buffer(dataset[index].size)
    _errors.check(lib.bzna_dataset_read_image(dataset.handle, index, None, buffer, len(buffer), image, None))
    decoder = ctypes.c_void_p()
    _errors.check(lib.bzna_decoder_open(dataset._context.handle, decoder, None))
    try:
        _errors.check(lib.bzna_decoder_decode(decoder, image, picture, None))
        transform, output = _c.new("transform"), _c.new("output")
        transform.homography[:] = matrix((picture.width, picture.height))
        transform.bias[:], transform.scale[:] = bias, scale
        output.height, output.width = shape
        result = (ctypes.c_float * (3 * shape[0] * shape[1]))()
        _errors.check(lib.bzna_picture_render(picture, transform, output, result, ctypes.sizeof(result), None))
    finally:
        lib.bzna_decoder_close(decoder)
    return bytes(result)


@needs_decoder
class Pixels(unittest.TestCase):
    def test_every_warp_equals_the_plain_kernel_bit_for_bit(self):
        dataset, shape = benzina.Dataset(ARCHIVE), (20, 36)
        for warp in (
            ops.RandomResizedCrop(),
            ops.RandomResizedCrop(scale=(0.3, 0.9), ratio=(0.5, 2)),
            ops.CenterResizedCrop(224 / 256),
            ops.RandomResizedCrop(flip_h=0.5, crops="torchvision"),
            ops.RandomResizedCrop((0.3, 0.9), flip_h=0.3, crops="benzina"),
            ops.CenterResizedCrop(0.8, flip_h=0.4, crops="torchvision"),
            ops.CenterResizedCrop(2, flip_h=1),
            ops.CenterResizedCrop(0.7, keep_ratio=False),
            ops.ConstantWarpTransform((2, 0, 5, 0.25, 2, 6, 0, 0, 1)),
            ops.SimilarityTransform(scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3), flip_h=0.5, flip_v=0.25, random_crop=True),
            ops.SimilarityTransform(scale=0.5, degrees=30, translate=(0.1, 0.2), keep_ratio=True),
            ops.SimilarityTransform(),
        ):
            loader = loader_of(dataset, shape=shape, warp=warp, mean=(100, 110, 120), std=(50, 60, 70), batch_size=8)
            loader.set_epoch(2)
            with next(loader.batches()) as batch:
                self.assertEqual(batch.shape, (8, 3) + shape)
                each = 3 * 20 * 36 * 4
                for i in range(8):
                    expected = rendered(
                        dataset,
                        i,
                        shape,
                        lambda size: warp(i, size, shape[::-1], benzina.Random(1234, 2, i, 0)),
                        (100, 110, 120),
                        [ctypes.c_float(1 / ctypes.c_float(s).value).value for s in (50, 60, 70)],
                    )
                    self.assertEqual(
                        pixels(batch.images)[i * each : (i + 1) * each],
                        expected,
                        "%s, sample %d" % (type(warp).__name__, i),
                    )

    def test_flips_and_laws_of_resized_crops_have_an_effect(self):
        for crop, scale, own, another in ((ops.RandomResizedCrop, (0.3, 0.9), "torchvision", "benzina"),
                                          (ops.CenterResizedCrop, 0.77, "torchvision", "benzina")):
            plain = digest(loader_of(warp=crop(scale)))
            self.assertEqual(digest(loader_of(warp=crop(scale, crops=own))), plain)
            self.assertNotEqual(digest(loader_of(warp=crop(scale, flip_h=1))), plain)
            other = digest(loader_of(warp=crop(scale, crops=another)))
            self.assertNotEqual(other, plain)

    def test_a_batch_equals_the_tools_pictures(self):
        if not os.path.exists(BZNA):
            self.skipTest(BZNA + " was not built")
        for warp, word in ((ops.CenterResizedCrop(), "center"), (ops.RandomResizedCrop(), "random"), (None, "none")):
            with tempfile.TemporaryDirectory() as folder:
                subprocess.run(
                    [
                        BZNA,
                        "batch",
                        ARCHIVE,
                        "-o",
                        folder,
                        "--batch",
                        "8",
                        "--size",
                        "48",
                        "--seed",
                        "5",
                        "--shuffle",
                        "--warp",
                        word,
                    ],
                    check=True,
                    capture_output=True,
                )
                with next(loader_of(shape=48, batch_size=8, seed=5, shuffle=True, warp=warp).batches()) as batch:
                    values = floats(batch.images)
                    for slot in range(8):
                        with open(os.path.join(folder, "%05d.ppm" % slot), "rb") as file:
                            ppm = file.read()[-48 * 48 * 3:]
                        planes = values[slot * 6912:(slot + 1) * 6912]
                        mine = bytes(min(255, int(planes[c * 2304 + i] + 0.5)) for i in range(2304) for c in range(3))
                        self.assertEqual(mine, ppm, "%s, slot %d" % (word, slot))

    def test_norm_multiplies_and_std_divides(self):
        raw = floats(next(loader_of(batch_size=1).batches()).images)
        constant = dict(bias=ops.ConstantBiasTransform(10), norm=ops.ConstantNormTransform((2, 2, 2)))
        for options, f in ((constant, lambda x: (x - 10) * 2),
                           (dict(bias=10, norm=2), lambda x: (x - 10) * 2),
                           (dict(bias=lambda *_: (10, 10, 10), norm=lambda *_: 2), lambda x: (x - 10) * 2),
                           (dict(mean=10, std=2), lambda x: (x - 10) / 2)):
            made = floats(next(loader_of(batch_size=1, **options).batches()).images)
            self.assertEqual(max(abs(a - f(b)) for a, b in zip(made, raw)), 0, options)

    def test_color_and_fill(self):
        def first(**options):
            return pixels(next(loader_of(batch_size=1, **options).batches()).images)
        self.assertEqual(first(color=2), first(color=lambda *_: 2))
        self.assertNotEqual(first(color=2), first(color=0))
        away = ops.ConstantWarpTransform((1, 0, -1000, 0, 1, 0, 0, 0, 1))
        self.assertEqual(set(array.array("f", first(warp=away, oob=(7, 7, 7)))), {7.0})
        self.assertEqual(set(array.array("f", first(warp=away, oob=lambda *_: 9))), {9.0})

    def test_half_precision_is_single_precision_rounded(self):
        halves = next(loader_of(dtype="float16", mean=100, std=60).batches()).images
        self.assertEqual(
            (halves.dtype, halves.memoryview().format, halves.nbytes), ("float16", "H", 3 * 3 * 24 * 24 * 2)
        )
        singles = floats(next(loader_of(mean=100, std=60).batches()).images)
        self.assertEqual(pixels(halves), struct.pack("<%de" % len(singles), *singles))
        tensor = Consumer(halves)
        self.assertEqual(
            (tensor.managed.tensor.code, tensor.managed.tensor.bits, tensor.bytes()), (2, 16, pixels(halves))
        )
        tensor.delete()

    def test_bfloat16_is_the_upper_half_of_a_float(self):
        field = next(loader_of(dtype="bfloat16", mean=100, std=60).batches()).images
        self.assertEqual((field.dtype, field.memoryview().format, field.nbytes), ("bfloat16", "H", 3 * 3 * 24 * 24 * 2))
        singles = struct.unpack("<%dI" % (3 * 3 * 24 * 24), pixels(next(loader_of(mean=100, std=60).batches()).images))
        self.assertEqual(
            list(field.memoryview().cast("B").cast("H")), [(bits + 0x7FFF + (bits >> 16 & 1)) >> 16 for bits in singles]
        )
        tensor = Consumer(field)
        self.assertEqual(
            (tensor.managed.tensor.code, tensor.managed.tensor.bits, tensor.bytes()), (4, 16, pixels(field))
        )
        tensor.delete()
        for wrong in (field.numpy, lambda: field.__array_interface__):
            with self.assertRaisesRegex(TypeError, "bfloat16"):
                wrong()
        with self.assertRaisesRegex(ValueError, "bfloat16"):
            loader_of(dtype="bfloat16", output="numpy")

    def test_bytes_and_orders_of_channels(self):
        rgb = floats(next(loader_of().batches()).images)
        whole = next(loader_of(dtype="uint8").batches()).images
        self.assertEqual((whole.dtype, whole.memoryview().format, whole.nbytes), ("uint8", "B", 3 * 3 * 24 * 24))
        # Python's, too, rounds ties to even
        self.assertEqual(list(pixels(whole)), [round(value) for value in rgb])
        tensor = Consumer(whole)
        self.assertEqual((tensor.managed.tensor.code, tensor.managed.tensor.bits), (1, 8))
        tensor.delete()
        swapped = next(loader_of(channels="BGR", layout="NHWC").batches()).images
        self.assertEqual(
            list(floats(swapped)), [rgb[(i // 1728 * 3 + 2 - i % 3) * 576 + i // 3 % 576] for i in range(len(rgb))]
        )
        for name in ("gray", "grey"):
            one = next(loader_of(channels=name).batches()).images
            self.assertEqual(one.shape, (3, 1, 24, 24))
            for i, value in enumerate(floats(one)):
                red, green, blue = (rgb[(i // 576 * 3 + c) * 576 + i % 576] for c in range(3))
                self.assertAlmostEqual(value, 0.299 * red + 0.587 * green + 0.114 * blue, delta=1e-3)
        with self.assertRaises(ValueError):
            loader_of(channels="YUV")

    def test_channels_last(self):
        first, last = (next(loader_of(layout=layout).batches()).images for layout in ("nchw", "nhwc"))
        self.assertEqual((first.shape, last.shape), ((3, 3, 24, 24), (3, 24, 24, 3)))
        planes, values = floats(first), floats(last)
        self.assertEqual(
            list(values), [planes[(i // 1728 * 3 + i % 3) * 576 + i // 3 % 576] for i in range(len(planes))]
        )
        with self.assertRaises(ValueError):
            loader_of(layout="chwn")

    def test_affine_matrix(self):
        self.assertEqual(
            benzina.compute_affine_matrix((100, 80), (10, 8), resize=True), (10, 0, 4.5, 0, 10, 4.5, 0, 0, 1)
        )
        with self.assertRaises(ValueError):
            ops.compute_affine_matrix((0, 80), (10, 8))
        with self.assertRaises(ValueError):
            ops.compute_affine_matrix((80, 80), (10, 8), crop=(0, 0, 4, -4))
        self.assertEqual(benzina.compute_affine_matrix((9, 9), (9, 9), degrees=90), (0, -1, 8, 1, 0, 0, 0, 0, 1))


# ---- DLPack and lifetimes --------------------------------------------------------------------------------------------

# Prototypes of our own again: ctypes.pythonapi is everybody's.
capsule_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
capsule_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_SetName", ctypes.pythonapi)
)
DLPACKS = {                                     # by max_version: a capsule's name, its name once taken, its struct
    None: (b"dltensor", b"used_dltensor", _dlpack._DLManagedTensor),
    (1, 0): (b"dltensor_versioned", b"used_dltensor_versioned", _dlpack._DLManagedTensorVersioned),
}


def half(value):
    """To the nearest binary16, ties to even, as a number."""
    return struct.unpack("<e", struct.pack("<e", value))[0]


def brain(value):
    """To the nearest bfloat16, ties to even, as a number: the upper half of a float."""
    bits, = struct.unpack("<I", struct.pack("<f", value))
    return struct.unpack("<f", struct.pack("<I", (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000))[0]


@needs_decoder
class Words(unittest.TestCase):
    """DataLoader's words for filters, types, layouts and channels, and what they do."""

    FILTERS = {"linear": 0, "nearest": 1, "cubic": 2, "area": 3, "lanczos4": 4, "lanczos": 5, "cubic-0.75": 6}

    def images(self, **options):
        with next(loader_of(warp=ops.CenterResizedCrop(), **options).batches()) as batch:
            return batch.shape, pixels(batch.images)

    def test_filters_and_antialias_are_told_to_the_library(self):
        self.assertEqual(set(_arguments.CHOICES["filter"]), set(self.FILTERS))
        for name, number in self.FILTERS.items():
            for antialias in (True, False)[:1 if name == "area" else 2]:
                seen = set()
                self.images(
                    filter=name, antialias=antialias, transform=lambda info, rng, t: seen.add((t.filter, t.antialias))
                )
                self.assertEqual(seen, {(number, int(not antialias))}, name)
        self.assertEqual(self.images(), self.images(filter="linear", antialias=True))
        made = [self.images(filter=name) for name in self.FILTERS] + [
            self.images(filter=name, antialias=False) for name in self.FILTERS if name not in ("area", "nearest")
        ]
        self.assertEqual(len(set(made)), 12)
        self.assertEqual(self.images(filter="nearest"), self.images(filter="nearest", antialias=False))

    def test_words_that_are_not_known_are_named_with_those_that_are(self):
        for name, value, known in (
            ("filter", "bilinear", "'cubic-0.75'"),
            ("filter", 2, "'nearest'"),
            ("filter", "none", "'area'"),
            ("antialias", 2, "True, False"),
            ("antialias", "yes", "True, False"),
            ("antialias", [], "True, False"),
            ("dtype", "float64", "'bfloat16'"),
            ("dtype", 3, "'uint8'"),
            ("layout", "CHW", "'NHWC'"),
            ("channels", "RGBA", "'BGR'"),
            ("channels", 1, "'gray'"),
            ("inter_method", 5, "0, 1, 2, 3, 4, 9, 10"),
            ("inter_method", "cubic", "0, 1, 2, 3, 4, 9, 10"),
        ):
            with self.assertRaises(ValueError, msg=name) as caught:
                loader_of(**{name: value})
            self.assertTrue(str(caught.exception).startswith("%s: %r is none of " % (name, value)), caught.exception)
            self.assertIn(known, str(caught.exception))
        for options in (dict(inter_method=1, filter="linear"), dict(inter_method=9, antialias=True)):
            with self.assertRaisesRegex(ValueError, "^inter_method, filter, antialias: "):
                loader_of(**options)
        with self.assertRaises(benzina.Error) as caught:
            loader_of(filter="area", antialias=False)
        self.assertRegex(str(caught.exception), "antialias: the area filter")
        self.assertNotIn("loader_config", str(caught.exception))

    def test_inter_method_is_mxnets_number(self):
        for number, name in enumerate(("nearest", "linear", "cubic-0.75", "area", "lanczos4")):
            self.assertEqual(
                self.images(inter_method=number), self.images(filter=name, antialias=name == "area"), number
            )
        for warp, number in (
            ((0.5, 0, 3, 0, 0.5, 3, 0, 0, 1), 2),
            ((2, 0, 0, 0, 2, 0, 0, 0, 1), 3),
            ((2, 0, 0, 0, 0.5, 0, 0, 0, 1), 1),
            ((0, -1.5, 60, 1.5, 0, 0, 0, 0, 1), 3),
            ((0.8, 0.8, 0, 0, 0.5, 3, 0, 0, 1), 2),
            ((1, 0, 0, 0, 1, 0, 0, 0, 1), 1),
        ):
            made = [digest(loader_of(inter_method=n, warp=warp)) for n in (9, number)]
            self.assertEqual(made[0], made[1], warp)
        seen = []
        every = loader_of(
            inter_method=10,
            num_threads=2,
            epochs=4,
            transform=lambda info, rng, t: seen.append((t.filter, t.antialias)),
        )
        drawn = [digest(every) for _ in range(4)]
        self.assertEqual(set(seen), {(1, 1), (0, 1), (6, 1), (3, 0), (4, 1)})
        self.assertEqual(
            drawn, [digest(again) for again in [loader_of(inter_method=10, num_threads=1, epochs=4)] for _ in range(4)]
        )

    def test_types_are_the_floats_rounded(self):
        # beyond 255, and down to subnormals
        settings = dict(mean=(-5, 60, 130), std=(0.3, 57, 5e4), filter="cubic")
        shape, data = self.images(**settings)
        plain = struct.unpack("<%df" % (len(data) // 4), data)
        for dtype, code, rounded in (
            ("float16", "e", half),
            ("bfloat16", "H", brain),
            ("uint8", "B", lambda v: min(max(round(v), 0), 255)),
        ):
            self.assertEqual(self.images(dtype=dtype, **settings)[0], shape)
            made = self.images(dtype=dtype, **settings)[1]
            values = struct.unpack("<%d%s" % (len(plain), code), made)
            if code == "H":
                values = [struct.unpack("<f", struct.pack("<I", bits << 16))[0] for bits in values]
            self.assertEqual(list(values), [rounded(v) for v in plain], dtype)

    def test_layouts_and_channels_are_the_planes_in_another_order(self):
        def values(**options):
            shape, data = self.images(filter="lanczos", **options)
            return shape, struct.unpack("<%df" % (len(data) // 4), data)
        (count, _, height, width), plain = values(mean=(10, 20, 30), std=(2, 3, 4))
        area = height * width
        plane = [[plain[(i * 3 + c) * area:(i * 3 + c + 1) * area] for c in range(3)] for i in range(count)]
        for name in ("NHWC", "nhwc"):
            shape, made = values(mean=(10, 20, 30), std=(2, 3, 4), layout=name)
            self.assertEqual(
                (shape, list(made)), ((count, height, width, 3), [v for p in plane for pixel in zip(*p) for v in pixel])
            )
        shape, made = values(mean=(30, 20, 10), std=(4, 3, 2), channels="BGR")
        self.assertEqual(
            (shape, list(made)), ((count, 3, height, width), [v for p in plane for c in (2, 1, 0) for v in p[c]])
        )
        gray = [
            values(mean=0, std=1, channels=word, layout=layout)
            for word in ("gray", "grey")
            for layout in ("NCHW", "NHWC")
        ]
        self.assertEqual([shape for shape, _ in gray], [(count, 1, height, width), (count, height, width, 1)] * 2)
        self.assertEqual(len({made for _, made in gray}), 1)
        red = [(2 * r + 10, 3 * g + 20, 4 * b + 30) for p in plane for r, g, b in zip(*p)]
        for (r, g, b), v in zip(red, gray[0][1]):
            self.assertAlmostEqual(v, 0.299 * r + 0.587 * g + 0.114 * b, 3)

    def test_the_color_outside_is_in_units_of_input_or_output_in_every_type(self):
        outside = (1, 0, 1e6, 0, 1, 0, 0, 0, 1)
        for dtype, code, rounded in (("float32", "f", lambda v: v), ("float16", "e", half), ("bfloat16", "H", brain),
                                     ("uint8", "B", lambda v: min(max(round(v), 0), 255))):
            for space in (0, 1):
                loader = loader_of(
                    shape=2,
                    batch_size=1,
                    dtype=dtype,
                    fill_space=space,
                    warp=outside,
                    oob=(200, 31, 300),
                    bias=(12, 40, -20),
                    norm=(0.25, 2, 1),
                )
                with next(loader.batches()) as batch:
                    values = struct.unpack("<12" + code, pixels(batch.images))
                if code == "H":
                    values = [struct.unpack("<f", struct.pack("<I", bits << 16))[0] for bits in values]
                expected = (200, 31, 300) if space else (47, -18, 320)
                self.assertEqual(list(values), [rounded(v) for v in expected for _ in range(4)], (dtype, space))

    @needs("numpy")
    def test_a_picture_is_resized_alone_as_in_a_loader(self):
        sample = benzina.Dataset(ARCHIVE)[1]
        whole = sample.image()
        height, width = whole.shape[:2]
        self.assertTrue((sample.image(shape=(height, width), box=(0, 0, width, height)) == whole).all())
        self.assertTrue((sample.image(box=(10, 20, 40, 50)) == whole[20:50, 10:40]).all())
        self.assertEqual(sample.image("thumb", shape=17).shape, (17, 17, 3))
        box, size = (3.5, 2.25, 61, 50.5), (24, 24)
        x, y = (box[2] - box[0]) / size[0], (box[3] - box[1]) / size[1]
        warp = (x, 0, box[0] + x / 2 - 0.5, 0, y, box[1] + y / 2 - 0.5, 0, 0, 1)
        for settings in (dict(filter="lanczos"), dict(antialias=False), dict()):
            loader = loader_of(batch_size=1, indices=[1], track="image", warp=warp, layout="NHWC", **settings)
            with next(loader.batches()) as batch:
                expected = bytes(min(255, int(v + 0.5)) for v in floats(batch.images))
            self.assertEqual(sample.image(shape=size, box=box, **settings).tobytes(), expected, settings)
        for options in (
            dict(box=(1, 2, 3)),
            dict(box=(5, 5, 5, 9)),
            dict(box=(0, 0, 0.2, 4)),
            dict(shape=0),
            dict(shape=(3, -1)),
            dict(shape=20000),
            dict(filter="bicubic"),
            dict(antialias=None),
        ):
            with self.assertRaisesRegex(
                ValueError, "^%s: " % ("shape|box" if "box" in options else list(options)[0]), msg=options
            ):
                sample.image(**options)


@needs_decoder
class Outputs(unittest.TestCase):
    """Views and further outputs of one decode, and a mean for each pixel."""

    def batches(self, dataset=None, **options):
        return list(loader_of(dataset, epochs=1, **options).batches())

    def test_views_are_batches_of_which_the_first_is_that_of_one_view(self):
        crop = ops.RandomResizedCrop(flip_h=0.5)
        one = self.batches(warp=crop, shuffle=True)
        three = self.batches(warp=crop, shuffle=True, views=3)
        self.assertEqual([len(batch) for batch in three], [len(batch) for batch in one])
        for a, b in zip(one, three):
            self.assertEqual(b.images.shape, (3, len(a), 3, 24, 24))
            view = len(pixels(a.images))
            self.assertEqual(pixels(b.images)[:view], pixels(a.images))
            self.assertNotEqual(pixels(b.images)[view:2 * view], pixels(b.images)[2 * view:])

    def test_geometry_and_jitter_are_drawn_anew_for_each_view_and_the_same_on_any_thread(self):
        plain = [pixels(batch.images) for batch in self.batches(warp=ops.CenterResizedCrop())]
        for options in (
            dict(rotate=20),
            dict(shear=(-20, 20, 5, 10)),
            dict(perspective=(0.5, 1)),
            dict(brightness=0.5),
            dict(saturation=(0, 0.5)),
            dict(contrast=0.5),
            dict(hue=(-0.5, 0.25)),
            dict(jitter=ops.ColorJitter(random_h=90, random_l=40, random_s=60)),
            dict(jitter=ops.ColorJitter(max_random_contrast=0.5, max_random_illumination=30, clamp_hue=True)),
            dict(grayscale=1.0),
        ):
            views = [
                [
                    pixels(batch.images)
                    for batch in self.batches(warp=ops.CenterResizedCrop(), views=2, num_threads=threads, **options)
                ]
                for threads in (1, 4)
            ]
            self.assertEqual(views[0], views[1])
            for batch, alone in zip(views[0], plain):
                half = len(batch) // 2
                self.assertNotEqual(batch[:half], alone, options)
                if "grayscale" not in options:
                    self.assertNotEqual(batch[:half], batch[half:], options)
        for batch in self.batches(grayscale=1.0, layout="NHWC", dtype="uint8"):
            values = pixels(batch.images)
            self.assertEqual(values[0::3], values[1::3])
            self.assertEqual(values[0::3], values[2::3])

    def test_color_jitters_are_torchvisions_and_mxnets(self):
        jitter = ops.ColorJitter(
            0.25, (0.5, 3), 2, 0.125, 0.5, random_h=36, random_l=50, random_s=60, clamp_hue=True
        )
        mxnet, jitter = jitter._mxnet, jitter._struct
        self.assertEqual(
            (
                tuple(jitter.brightness),
                tuple(jitter.contrast),
                tuple(jitter.saturation),
                tuple(jitter.hue),
                jitter.grayscale,
            ),
            ((0.75, 1.25), (0.5, 3), (0, 3), (-0.125, 0.125), 0.5),
        )
        self.assertEqual((tuple(mxnet.hls), mxnet.clamp_hue), ((36, 50, 60), 1))
        numbers, whole = (
            self.batches(seed=5, **options)
            for options in (
                dict(brightness=0.5, contrast=0.5, saturation=0.5, hue=0.25),
                dict(jitter=ops.ColorJitter(0.5, 0.5, 0.5, 0.25)),
            )
        )
        self.assertEqual([pixels(batch.images) for batch in numbers], [pixels(batch.images) for batch in whole])

    def test_mxnets_parameters_become_a_warp(self):
        warp = ops.MXNetAffine(
            max_rotate_angle=10,
            max_shear_ratio=0.1,
            max_aspect_ratio=0.25,
            min_random_scale=0.5,
            max_crop_size=30,
            pad=2,
            rand_crop=True,
            rand_mirror=True,
            max_img_size=1e10,
        )
        self.assertEqual(
            (
                tuple(warp._struct.degrees),
                tuple(warp._struct.ratio),
                tuple(warp._struct.mxnet.crop_px),
                tuple(warp._struct.mxnet.canvas_px),
            ),
            ((-10, 10), (0.75, 1.25), (30, 30), (0, 0)),
        )
        self.assertEqual(tuple(ops.MXNetAffine(max_rotate_angle=10, rotate=7)._struct.degrees), (7, 7))
        by_library = [pixels(batch.images) for batch in self.batches(warp=warp)]
        self.assertEqual(len(set(by_library)), len(by_library))
        middle = ops.MXNetAffine()(0, (100, 80), (40, 20), benzina.Random(1))
        self.assertEqual(middle, (1, 0, 30, 0, 1, 30, 0, 0, 1))

    def test_augmentation_without_meaning_is_refused(self):
        for options in (
            dict(perspective=1.5),
            dict(perspective=(0.5, 2)),
            dict(brightness=-1),
            dict(saturation=(2, 1)),
            dict(rotate=(1, 2, 3)),
            dict(contrast=-0.5),
            dict(hue=0.6),
            dict(hue=(0.2, 0.1)),
            dict(hue=0.1, jitter=ops.ColorJitter()),
            dict(shear=(1, 2, 3)),
            dict(rotate=5, warp=lambda *about: (1, 0, 0, 0, 1, 0, 0, 0, 1)),
        ):
            with self.assertRaises(ValueError, msg=options):
                loader_of(**options)
        for options in (dict(grayscale=2), dict(shear=95), dict(rotate=(5, 1))):
            with self.assertRaises(Error) as caught:
                loader_of(**options)
            self.assertEqual(caught.exception.status, Status.E_ARGUMENT)
            self.assertIn(next(iter(options)), str(caught.exception))

    def test_outputs_come_in_the_loop_by_their_names(self):
        local = benzina.Output(
            "local",
            shape=(8, 10),
            views=4,
            dtype="uint8",
            layout="NHWC",
            channels="gray",
            mean_image=None,
            warp=ops.RandomResizedCrop(scale=(0.05, 0.3)),
            filter="cubic",
        )
        for images, targets, fields in loader_of(
            epochs=1, views=2, outputs=[local, benzina.Output("twin", dtype="float16")]
        ):
            self.assertEqual(set(fields), {"local", "twin"})
            self.assertEqual((fields["local"].shape, fields["local"].dtype), ((4, len(targets), 8, 10, 1), "uint8"))
            self.assertEqual((fields["twin"].shape, fields["twin"].dtype), (images.shape, "float16"))

    def test_a_mask_shares_the_warp_and_not_the_colors(self):
        """Planes of class numbers: what mean, std and antialiasing would make of them is no class."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "masks.tar")
            with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
                for i in range(4):
                    mask = bytes((7, 200, 31, 255)[(x // 5 + y // 7 + i) % 4] for y in range(40) for x in range(60))
                    for extension, data in (
                        ("image.ppm", b"P6\n60 40\n255\n" + bytes(3 * v % 256 for v in mask for _ in "rgb")),
                        ("mask.pgm", b"P5\n60 40\n255\n" + mask),
                    ):
                        info = tarfile.TarInfo("%d.%s" % (i, extension))
                        info.size = len(data)
                        tar.addfile(info, io.BytesIO(data))
            outputs = [
                benzina.Output(
                    "mask", field="mask.pgm", dtype="uint8", channels="gray", own_color=True, filter="nearest"
                ),
                benzina.Output(
                    "soft", field="mask.pgm", dtype="uint8", channels="gray", own_color=True, filter="linear"
                ),
            ]
            loader = loader_of(
                path,
                epochs=1,
                mean=(100, 100, 100),
                std=(50, 50, 50),
                outputs=outputs,
                track="image.ppm",
                warp=ops.RandomResizedCrop(scale=(0.2, 0.9), flip_h=0.5),
                filter="nearest",
            )
            met = set()
            for images, targets, fields in loader:
                mask, plane = pixels(fields["mask"]), 24 * 24
                met.update(mask)
                self.assertFalse(set(pixels(fields["soft"])) <= {7, 200, 31, 255})
                # the image's red is three times the mask's number, mod 256, at the same place
                for n in range(len(targets)):
                    red = floats(images)[3 * n * plane:][:plane]
                    for number, value in zip(mask[n * plane:], red):
                        self.assertAlmostEqual(value, (3 * number % 256 - 100) / 50, places=4)
            self.assertEqual(met, {7, 200, 31, 255})

    @needs("numpy")
    def test_masks_of_paired_folders_are_what_numpy_samples_by_the_warp_that_was_drawn(self):
        import numpy
        rng = numpy.random.default_rng(3)
        drawn = {}

        def note(sample, _, transform):
            drawn[sample.index] = numpy.array(transform.homography[:]).reshape(3, 3), sample.width, sample.height
        with tempfile.TemporaryDirectory() as folder:
            masks = {}
            for kind in ("images/train", "masks/train"):
                os.makedirs(os.path.join(folder, kind))
            for i in range(6):
                masks[i] = rng.integers(0, 9, (30, 41) if i % 2 else (60, 82), numpy.uint8)
                for kind, data in (
                    ("images/train/%d.ppm", b"P6\n82 60\n255\n" + rng.bytes(3 * 82 * 60)),
                    ("masks/train/%d.pgm", b"P5\n%d %d\n255\n" % masks[i].shape[::-1] + masks[i].tobytes()),
                ):
                    pathlib.Path(folder, kind % i).write_bytes(data)
            with self.assertRaisesRegex(Error, "pairs=\\('images', 'masks'\\)"):
                benzina.Dataset(folder)
            dataset = benzina.Dataset(folder, pairs=("images", "masks"))
            named = benzina.Dataset(folder, pairs={"image": "images/train", "mask": pathlib.Path("masks/train")})
            self.assertEqual(dataset[0].images, ("images", "masks"))
            self.assertEqual(named[0].images, ("image", "mask"))
            self.assertEqual(dataset[5].name, "train/5.ppm")
            self.assertEqual(pickle.loads(pickle.dumps(dataset))[1].images, ("images", "masks"))
            loader = loader_of(
                dataset,
                epochs=1,
                output="numpy",
                transform=note,
                brightness=0.5,
                mean=9,
                std=3,
                outputs=benzina.Output.mask("masks", oob=255),
                warp=ops.SimilarityTransform(scale=(0.3, 1.3), degrees=(-50, 50), flip_h=0.5, random_crop=True),
            )
            outside = 0
            for batch in loader.batches():
                with batch:
                    for number, mask in zip(batch.indices.numpy(), batch.tensor("masks").numpy()):
                        h, width, height = drawn[number]
                        x, y, w = numpy.einsum(
                            "ij,jyx->iyx", h, numpy.stack([*numpy.meshgrid(range(24), range(24)), numpy.ones((24, 24))])
                        )
                        rows, columns = masks[number].shape
                        u, v = (x / w + 0.5) * columns / width, (y / w + 0.5) * rows / height
                        inside = (u >= 0) & (u < columns) & (v >= 0) & (v < rows)
                        at = [
                            numpy.clip(numpy.floor(place), 0, most - 1).astype(int)
                            for place, most in ((v, rows), (u, columns))
                        ]
                        sure = (abs(u - numpy.round(u)) > 1e-3) & (abs(v - numpy.round(v)) > 1e-3)
                        self.assertGreater(sure.mean(), 0.95)
                        self.assertEqual(mask.shape, (1, 24, 24))
                        self.assertTrue((mask[0] == numpy.where(inside, masks[number][tuple(at)], 255))[sure].all())
                        outside += (~inside).sum()
            self.assertGreater(outside, 0)
            os.remove(os.path.join(folder, "masks/train/3.pgm"))
            with self.assertRaisesRegex(Error, "\"train/3.ppm\" in images has no partner in masks"):
                benzina.Dataset(folder, pairs="images,masks")

    @needs("numpy")
    def test_rules_make_arrays_of_fields_by_what_was_drawn(self):
        import json
        import numpy
        met = []

        def boxes(data, sample):
            met.append(sample)
            known = numpy.array([box["bbox"] for box in json.loads(data)["annotations"]]).reshape(-1, 4)
            known[:, 2:] += known[:, :2]
            mapped, shown = sample.geometry.boxes(known)
            corners = sample.geometry.points(known.reshape(-1, 2)).reshape(-1, 4)
            sides = numpy.stack(
                [corners[:, ::2].min(1), corners[:, 1::2].min(1), corners[:, ::2].max(1), corners[:, 1::2].max(1)], 1
            )
            numpy.testing.assert_allclose(mapped[shown], numpy.clip(sides, 0, 24)[shown])
            return mapped[shown]

        def number(data, sample):
            if sample.index == fails:
                raise fault
            return [len(data), sample.index]

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "boxes.tar")
            with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
                for i in range(6):
                    picture = numpy.zeros((40, 60), numpy.uint8)
                    picture[10:22 + i, 20:45] = 255
                    annotations = [{"bbox": [20, 10, 25, 12 + i]}, {"bbox": [-9, -9, 2, 2]}][:1 + i % 2] if i else []
                    for extension, data in (
                        ("pgm", b"P5\n60 40\n255\n" + (picture if i else picture * 0).tobytes()),
                        ("ann.json", json.dumps({"annotations": annotations}).encode()),
                        ("note.xyz", b"note %d" % i),
                    ):
                        info = tarfile.TarInfo("%d.%s" % (i, extension))
                        info.size = len(data)
                        tar.addfile(info, io.BytesIO(data))
            rules = [
                benzina.Rule(".json", boxes, "boxes", shape=4, rows=2),
                benzina.Rule("note.*", number, "number", shape=2, dtype="int64"),
            ]
            fails = None
            options = dict(
                output="numpy",
                epochs=2,
                dtype="uint8",
                channels="gray",
                filter="nearest",
                shuffle=True,
                geometry=True,
                warp=ops.RandomResizedCrop(scale=(0.5, 1), flip_h=0.5),
                batch_size=3,
            )
            count = 0
            for images, _, fields in loader_of(path, rules=rules, **options):
                self.assertEqual(fields["boxes"].shape, (3, 2, 4))
                self.assertEqual(fields["geometry"].shape, (3, 16))
                for image, found, rows, (size, index) in zip(
                    images[:, 0], fields["boxes"], fields["boxes_count"], fields["number"]
                ):
                    self.assertEqual((rows, size), (1 if index else 0, 6))
                    self.assertFalse(found[rows:].any())
                    if rows:
                        y, x = numpy.nonzero(image)
                        numpy.testing.assert_allclose(found[0], [x.min(), y.min(), x.max() + 1, y.max() + 1], atol=0.51)
                        count += 1
            self.assertGreaterEqual(count, 5)
            for sample in met:
                self.assertEqual(
                    (sample.field, sample.kind, sample.geometry.size, sample.geometry.out_size, len(sample.views)),
                    ("ann.json", _c.FIELD_BYTES, (60, 40), (24, 24), 1),
                )
            text = benzina.Rule("note.xyz", name="text")
            loader = loader_of(path, shape=None, rules=[text], output="numpy", epochs=1, batch_size=6)
            self.assertEqual([fields["text"] for _, _, fields in loader], [[b"note %d" % i for i in range(6)]])

            fails, fault = 3, ValueError("damaged")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                loader = loader_of(path, rules=rules, **dict(options, epochs=1, batch_size=6, shuffle=False))
                for batch in loader.batches():
                    errors = batch.errors()
                    self.assertEqual([*errors], [3])
                    self.assertEqual((errors[3].status, errors[3].__cause__), (Status.E_FORMAT, fault))
                    self.assertEqual(batch.tensor("number").numpy().tolist()[3], [-1, -1])
                    batch.release()
            fault = KeyError("a slip")
            with self.assertRaises(KeyError) as raised:
                list(loader_of(path, rules=rules, **options))
            self.assertIs(raised.exception, fault)
            fails = None
            wrong = benzina.Rule("note.*", lambda data, sample: [1, 2, 3], "number", shape=2)
            with self.assertRaisesRegex(TypeError, "'number' made an array of shape"):
                list(loader_of(path, rules=wrong, **options))
            many = benzina.Rule("note.*", lambda data, sample: numpy.zeros((3, 4)), "number", shape=4, rows=2)
            loader = loader_of(path, rules=many, on_error="stop", **options)
            with self.assertRaisesRegex(
                Error, 'the rule "number" makes 3 rows of its note.xyz, and there is room for 2'
            ):
                list(loader)
            for refused, words in ((dict(shape=4), "only with a function"), (dict(rows=3), "only with a function")):
                with self.assertRaisesRegex(ValueError, words):
                    benzina.Rule("note.xyz", **refused)
            with self.assertRaisesRegex(Error, r"rules\[0\].field: the data set has no field"):
                loader_of(path, rules=benzina.Rule("nothing"), **options)

    def test_callables_know_output_and_view(self):
        met = set()
        local = benzina.Output("local", shape=8, views=2, warp=ops.CenterResizedCrop())
        plain = benzina.Output("plain", shape=8, warp=ops.CenterResizedCrop(), own_color=True)
        loader = loader_of(epochs=1, num_threads=1, views=2, outputs=[local, plain, benzina.Output("twin")],
                           bias=lambda *about: (1, 1, 1),
                           transform=lambda info, rng, transform: met.add((info.output, info.view, transform.bias[0])))
        for _ in loader:
            pass
        self.assertEqual(met, {(0, 0, 1), (0, 1, 1), (1, 2, 1), (1, 3, 1), (2, 4, 0)})

    def test_a_mean_image_is_subtracted_pixel_by_pixel(self):
        mean = array.array("f", (i % 199 for i in range(3 * 24 * 24)))
        shaped = memoryview(mean).cast("B").cast("f", (3, 24, 24))
        for plain, less in zip(self.batches(std=(2, 2, 2)), self.batches(std=(2, 2, 2), mean_image=shaped)):
            for i, (a, b) in enumerate(zip(floats(plain.images), floats(less.images))):
                self.assertAlmostEqual(a - mean[i % len(mean)] / 2, b, places=3)

    def test_what_cannot_be_is_refused(self):
        for options, message in (
            ({"views": 65}, "views: 65"),
            ({"outputs": [benzina.Output("image")]}, "another tensor has the name"),
            ({"outputs": [benzina.Output("x", views=2)]}, "shares the warps"),
            ({"mean_image": array.array("f", [0] * 9)}, "mean_image: 36 bytes, not the 6912"),
            ({"mean_image": array.array("f", [0] * 1728), "mean": (1, 1, 1)}, "mean_image: not together"),
        ):
            with self.assertRaisesRegex(Error, message):
                loader_of(**options)
        with self.assertRaisesRegex(TypeError, "mean_image: float32"):
            loader_of(mean_image=array.array("d", [0] * 1728))
        with self.assertRaisesRegex(TypeError, "warp: one of ops"):
            benzina.Output("x", warp=lambda *about: None)


class Consumer:
    """Takes a capsule as a framework does: keeps the tensor, renames the capsule, calls the deleter when done."""

    def __init__(self, exporter, max_version=None):
        name, used, managed = DLPACKS[max_version]
        capsule = exporter.__dlpack__(max_version=max_version)
        self.managed = managed.from_address(capsule_pointer(capsule, name))
        capsule_rename(capsule, used)

    def bytes(self):
        t = self.managed.tensor
        count = 1
        for i in range(t.dimensions):
            count *= t.shape[i]
        return ctypes.string_at(t.data + t.byte_offset, count * t.bits // 8) if count else b""

    def delete(self):
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.managed.deleter)(ctypes.addressof(self.managed))


@needs_decoder
class Lifetimes(unittest.TestCase):
    def one(self, **options):
        loader = loader_of(batch_size=4, multibuffering=1, timeout=20, **options)
        steps = loader.batches()
        return loader, steps, next(steps)

    def blocked(self, steps):
        """The loader's only batch is on loan."""
        with self.assertRaises(Error) as caught:
            next(steps)
        self.assertIn("on loan", caught.exception.message)

    def test_a_capsule_tells_the_field(self):
        loader, steps, batch = self.one(shape=(6, 10))
        capsule = batch.images.__dlpack__()
        self.assertEqual(capsule_name(capsule), b"dltensor")
        tensor = _dlpack._DLManagedTensor.from_address(capsule_pointer(capsule, b"dltensor")).tensor
        self.assertEqual((tensor.data, tensor.byte_offset), (batch.info.image.data, 0))
        self.assertEqual((tensor.device_type, tensor.device_id), (1, 0))
        self.assertEqual((tensor.code, tensor.bits, tensor.lanes), (2, 32, 1))
        self.assertEqual(tensor.shape[:tensor.dimensions], [4, 3, 6, 10])
        self.assertEqual(tensor.strides[:tensor.dimensions], [180, 60, 10, 1])
        for field, dtype, kind in (
            (batch.targets, "int64", (0, 64)),
            (batch.indices, "uint64", (1, 64)),
            (batch.status, "int32", (0, 32)),
        ):
            self.assertEqual((field.dtype, field.shape), (dtype, (4,)))
            capsule = field.__dlpack__(stream=None, max_version=(0, 8), dl_device=(1, 0), copy=False)
            tensor = _dlpack._DLManagedTensor.from_address(capsule_pointer(capsule, b"dltensor")).tensor
            self.assertEqual((tensor.code, tensor.bits), kind)
        self.assertEqual(batch.__dlpack_device__(), (1, 0))
        self.assertEqual(capsule_name(batch.__dlpack__()), b"dltensor")

    def test_who_takes_dlpack_1_gets_a_versioned_capsule(self):
        loader, steps, batch = self.one(shape=(6, 10))
        copies, is_copied = (batch.targets, batch.indices, batch.status), 2
        for field, flags in ((batch.images, 0), *((copy_of, is_copied) for copy_of in copies)):
            capsule = field.__dlpack__()
            plain = _dlpack._DLManagedTensor.from_address(capsule_pointer(capsule, b"dltensor")).tensor
            for max_version in ((1, 0), [1, 1], (2, 0)):
                versioned = field.__dlpack__(stream=None, max_version=max_version, dl_device=(1, 0), copy=False)
                self.assertEqual(capsule_name(versioned), b"dltensor_versioned")
                address = capsule_pointer(versioned, b"dltensor_versioned")
                managed = _dlpack._DLManagedTensorVersioned.from_address(address)
                self.assertEqual((managed.major, managed.flags), (1, flags))    # may be written to
                parts = [(t.shape[:t.dimensions], t.strides[:t.dimensions], t.code, t.bits, t.lanes, t.device_type,
                          t.device_id, t.byte_offset, ctypes.string_at(t.data, 8)) for t in (managed.tensor, plain)]
                self.assertEqual(parts[0], parts[1])
                self.assertEqual(managed.tensor.data == plain.data, flags == 0)
                self.assertEqual(managed.tensor.data % 64, 0)
        for max_version in (None, (0, 8), (0, 99)):
            self.assertEqual(capsule_name(batch.__dlpack__(max_version=max_version)), b"dltensor", max_version)
        self.assertEqual(capsule_name(batch.__dlpack__(max_version=(1, 0))), b"dltensor_versioned")

    def test_what_cannot_be_exported_is_refused(self):
        loader, steps, batch = self.one()
        with self.assertRaises(BufferError):
            batch.images.__dlpack__(copy=True)
        with self.assertRaises(BufferError):
            batch.images.__dlpack__(dl_device=(2, 0))
        self.assertFalse(hasattr(batch.images, "__cuda_array_interface__"))

    def test_targets_indices_and_statuses_are_copies_that_keep_nothing(self):
        loader, steps, batch = self.one()
        def numbers(batch):
            return [batch.targets, batch.indices, batch.status, *map(batch.tensor, ("target", "index", "status"))]
        kept, consumers = numbers(batch), [Consumer(field, version) for field in numbers(batch) for version in DLPACKS]
        views = [field.memoryview() for field in numbers(batch)]
        expected = [view.tobytes() for view in views]
        batch.targets.memoryview()[0] = 99                  # nobody else's
        batch.release()
        second = next(steps)                                # into the loader's only buffer
        self.assertNotEqual([field.memoryview().tobytes() for field in numbers(second)][0], expected[0])
        second.release()
        loader.dataset.close()
        loader.close()
        del batch, second, loader, steps
        gc.collect()
        self.assertEqual([field.memoryview().tobytes() for field in kept], expected)
        self.assertEqual([view.tobytes() for view in views], expected)
        self.assertEqual([consumer.bytes() for consumer in consumers], [data for data in expected for _ in DLPACKS])
        for consumer in consumers:
            thread = threading.Thread(target=consumer.delete)
            thread.start()
            thread.join()

    def test_a_capsule_that_nobody_took_gives_the_batch_back(self):
        for max_version in DLPACKS:
            loader, steps, batch = self.one()
            capsule = batch.images.__dlpack__(max_version=max_version)
            batch.release()
            self.blocked(steps)
            del capsule
            self.assertEqual(next(steps).number, 1)

    def test_a_tensor_that_was_taken_keeps_the_batch_until_it_is_deleted(self):
        loader, steps, batch = self.one()
        first, second = (Consumer(batch.images, max_version) for max_version in DLPACKS)
        expected = pixels(batch.images)
        del batch
        self.blocked(steps)
        first.delete()
        self.blocked(steps)
        self.assertEqual(second.bytes(), expected)
        second.delete()
        self.assertEqual(next(steps).number, 1)

    def test_a_tensor_may_be_deleted_on_another_thread_after_everything_was_closed(self):
        for max_version in DLPACKS:
            loader, steps, batch = self.one()
            expected, consumer = pixels(batch.images), Consumer(batch, max_version)
            loader.dataset.close()
            loader.close()
            del loader, steps, batch
            gc.collect()
            self.assertEqual(consumer.bytes(), expected)
            thread = threading.Thread(target=consumer.delete)
            thread.start()
            thread.join()

    def test_a_view_keeps_a_released_batch(self):
        loader, steps, batch = self.one()
        view = batch.images.memoryview()
        expected = view.tobytes()
        self.assertEqual(view.shape, batch.shape)
        view[0, 0, 0, 0] = 1.5                  # it may be written to
        self.assertEqual(floats(batch.images)[0], 1.5)
        batch.release()
        self.blocked(steps)
        self.assertEqual(view.tobytes()[4:], expected[4:])
        part = view.cast("B")
        del view
        self.blocked(steps)
        del part
        self.assertEqual(next(steps).number, 1)

    def test_objects_may_go_in_any_order(self):
        for way in itertools.permutations(range(5)):
            context = benzina.Context()
            dataset = benzina.Dataset(ARCHIVE, context=context)
            loader = loader_of(dataset, shape=8, num_threads=1, batch_size=2)
            batch = next(loader.batches())
            consumer = Consumer(batch.images)
            expected = pixels(batch.images)
            things = [context, dataset, loader, batch, batch.images.memoryview()]
            del context, dataset, loader, batch
            for i in way:
                things[i] = None
                self.assertEqual(consumer.bytes(), expected)
            consumer.delete()

    def test_batches_go_back_without_the_collector(self):
        gc.disable()
        try:
            loader = loader_of(batch_size=1, multibuffering=2)
            for _ in range(20):
                for images, targets in loader:
                    self.assertEqual(images.memoryview().nbytes, images.nbytes)
        finally:
            gc.enable()

    def test_an_empty_batch_has_views(self):
        *_, last = loader_of(rank=2, world_size=3, batch_size=1, last_batch="partial").batches()
        self.assertEqual((last.shape[0], last.images.memoryview().nbytes, Consumer(last.images).bytes()), (0, 0, b""))

    def test_statistics_and_info(self):
        loader = loader_of(num_threads=2)
        self.assertEqual(len(order(loader)), COUNT)
        self.assertGreaterEqual(loader.statistics.samples, COUNT)
        self.assertEqual((loader.info.threads, loader.info.batches_in_flight), (2, 3))
        self.assertIn(b"libavcodec", loader.info.decoder_name)

    def test_statistics_say_what_limits_in_the_words_of_arguments(self):
        def slowly(info, rng, transform):
            time.sleep(0.02)

        loader = loader_of(num_threads=1, epochs=None, transform=slowly)
        order(loader)
        before = loader.statistics
        order(loader)
        since = loader.statistics_since(before)
        self.assertEqual(since.limiting_stage, 1)
        self.assertRegex(since.limit, "^decoding: .*")
        self.assertNotIn("decode.", since.limit)
        if len(os.sched_getaffinity(0)) > 1:
            self.assertIn("num_threads: 1 now", since.limit)
        self.assertTrue(0 < since.elapsed_ns < loader.statistics.elapsed_ns)
        self.assertEqual(since.samples, loader.statistics.samples - before.samples)
        loader.close()

    def test_jpeg_shrink_margin_is_checked(self):
        loader_of(jpeg_shrink=True, jpeg_shrink_margin=1.5).close()
        with self.assertRaisesRegex(benzina.Error, "jpeg_shrink_margin: it needs jpeg_shrink"):
            list(loader_of(jpeg_shrink_margin=1.5))
        with self.assertRaisesRegex(benzina.Error, r"jpeg_shrink_margin: 0.5 is not in 1\.\.64"):
            list(loader_of(jpeg_shrink=True, jpeg_shrink_margin=0.5))


# ---- callbacks -------------------------------------------------------------------------------------------------------

@needs_decoder
class Callbacks(unittest.TestCase):
    def tearDown(self):
        gc.collect()
        _handles.dispose_put_off()
        self.assertEqual(_handles.registry, {})

    def test_a_warp_in_python_is_told_the_sample(self):
        seen = {}
        threads = set()

        def warp(index, in_size, out_size, rng):
            seen[index] = (in_size, out_size)
            threads.add(threading.get_ident())
            return [[2, 0, 0], [0, 2, 0], [0, 0, 1]]
        made = digest(loader_of(benzina.Dataset(MINI), shape=(10, 20), warp=warp, num_threads=2))
        self.assertEqual(seen[2], ((512, 384), (20, 10)))
        self.assertEqual(set(seen), set(range(COUNT)))
        self.assertNotIn(threading.get_ident(), threads)
        fixed = loader_of(benzina.Dataset(MINI), shape=(10, 20), warp=(2, 0, 0, 0, 2, 0, 0, 0, 1))
        self.assertEqual(made, digest(fixed))

    def test_a_warp_in_python_may_call_those_of_ops_and_is_the_same_on_any_thread(self):
        crop = ops.RandomResizedCrop()

        def warp(index, in_size, out_size, rng):
            matrix = list(crop(index, in_size, out_size, rng))
            matrix[2] += rng.uniform(-3, 3)
            return matrix
        self.assertEqual(
            digest(loader_of(warp=warp, num_threads=1)), digest(loader_of(warp=warp, num_threads=4, batch_size=2))
        )

    def test_a_transform_may_change_everything(self):
        def transform(sample, rng, t):
            self.assertEqual((sample.epoch, sample.out_width), (0, 24))
            t.bias[:] = (sample.target, 0, 0)
            t.scale[0] = 2
        plain = floats(next(loader_of(batch_size=4).batches()).images)
        made = floats(next(loader_of(batch_size=4, transform=transform, epochs=1).batches()).images)
        size = 24 * 24
        for slot, target in enumerate((0, 37, 74, 111)):
            a, b = plain[slot * 3 * size:][:2 * size], made[slot * 3 * size:][:2 * size]
            self.assertEqual([(x - target) * 2 for x in a[:size]], list(b[:size]))
            self.assertEqual(a[size:], b[size:])

    def test_a_transform_draws_the_jitter_that_a_loader_draws(self):
        strengths = {"brightness": 0.5, "saturation": (0.2, 0.4), "grayscale": 0.5}
        jitter = ops.ColorJitter(**strengths)

        def transform(sample, rng, t):
            jitter(benzina.Random(1234, sample.epoch, sample.index, 1), t)      # the loader's own numbers
        made = digest(loader_of(transform=transform, epochs=1))
        self.assertEqual(made, digest(loader_of(epochs=1, **strengths)))
        self.assertNotEqual(made, digest(loader_of(epochs=1)))
        with self.assertRaisesRegex(TypeError, "vividness"):
            ops.ColorJitter(vividness=1)

    def test_an_exception_fails_its_sample_alone_where_that_is_asked_for(self):
        def warp(index, in_size, out_size, rng):
            if index == 1:
                raise KeyError("no such luck")
            return (1, 0, 0, 0, 1, 0, 0, 0, 1) if index != 4 else (1, 2, 3)
        good = [pixels(b.images) for b in loader_of(warp=ops.ConstantWarpTransform()).batches()]
        loader = loader_of(warp=warp, epochs=1, on_callback_error="sample")
        batches = loader.batches()
        first, second = next(batches), next(batches)
        self.assertEqual((first.failed, list(first.status.memoryview())), (1, [0, Status.E_CALLBACK, 0]))
        self.assertEqual(list(first.errors()), [1])
        self.assertIn("callback", first.errors()[1].message)
        self.assertEqual(repr(first.errors()[1].__cause__), "KeyError('no such luck')")     # each has its own
        self.assertIn("3 numbers, not 9", str(second.errors()[1].__cause__))
        each = 3 * 24 * 24 * 4
        self.assertEqual(
            pixels(first.images)[:each] + pixels(first.images)[2 * each :], good[0][:each] + good[0][2 * each :]
        )
        self.assertEqual(set(floats(first.images)[each // 4:each // 2]), {0.0})
        self.assertEqual(second.failed, 1)
        index, error = loader.statistics.first_failed
        self.assertIn(index, (1, 4))
        self.assertEqual(error.status, Status.E_CALLBACK)
        self.assertIn("callback", error.message)
        self.assertIsNone(loader_of(epochs=1).statistics.first_failed)
        self.assertIsInstance(loader.last_exception, (KeyError, ValueError))

    def test_failed_samples_are_warned_of(self):
        def warp(*_):
            raise KeyError("no such luck")
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for _ in loader_of(warp=warp, epochs=1, on_callback_error="sample"):
                pass
        self.assertEqual(len(said), 3)
        self.assertIn("3 of 3 samples failed", str(said[0].message))
        self.assertIn("no such luck", str(said[0].message))

    def test_on_error_replace(self):
        def warp(index, *_):
            if index == 1:
                raise KeyError("no such luck")
            return (1, 0, 0, 0, 1, 0, 0, 0, 1)
        first = next(loader_of(warp=warp, on_error="replace", on_callback_error="sample").batches())
        self.assertEqual((first.failed, first.replaced, list(first.indices.memoryview())), (0, 1, [0, 2, 2]))

    @staticmethod
    def raised(function):
        """(exception, the names of the functions in its traceback), which assertRaises would take away."""
        try:
            function()
        except Exception as error:
            return error, [frame.name for frame in traceback.extract_tb(error.__traceback__)]

    def test_an_exception_is_raised_where_the_batch_is_asked_for(self):
        """Of several that fail at once, the first in the loader's order, with its traceback, whatever is done about
        damaged samples."""
        def helper(index):
            raise KeyError(index)

        def warp(index, *_):
            return helper(index) if index >= 4 else (1, 0, 0, 0, 1, 0, 0, 0, 1)

        def whole(sample, rng, transform):
            warp(sample.index)

        def draw(sample, rng, picture):
            warp(sample.index)
        for name, function in (
            ("warp", warp),
            ("transform", whole),
            *([("picture", draw)] if importable("numpy") else []),
        ):
            for threads, on_error in ((1, "fill"), (4, "replace"), (3, "stop")):
                loader = loader_of(num_threads=threads, on_error=on_error, batch_size=2, **{name: function})
                batches = loader.batches()
                self.assertEqual([next(batches).failed, next(batches).failed], [0, 0])
                for step in (batches.__next__, loader._next):
                    error, names = self.raised(step)
                    self.assertEqual((type(error), error.args), (KeyError, (4,)))
                    self.assertIs(type(loader.last_exception), KeyError)
                    self.assertEqual((names[-1], names.count("helper"), names.count("_fail")), ("helper", 1, 1))
                    self.assertIn("sample 4: ", where_of(error))
                del error
                # it is over; another one goes on with the next epoch
                self.assertEqual(list(batches), [])
                self.assertEqual(next(loader.batches()).epoch, 1)
                loader.set_epoch(1)
                self.assertEqual(next(loader.batches()).number, 0)

    def test_exceptions_that_python_has_a_use_for_come_through(self):
        def interrupted(*_):
            raise KeyboardInterrupt

        def chained(*_):
            try:
                {}["a"]
            except KeyError as error:
                raise ValueError("b") from error
        with self.assertRaises(KeyboardInterrupt):
            next(loader_of(warp=interrupted).batches())
        with self.assertRaises(ValueError) as caught:
            next(loader_of(warp=chained).batches())
        self.assertIsInstance(caught.exception.__cause__, KeyError)
        with self.assertRaises(RuntimeError) as caught:                 # not the end of the loop
            for _ in loader_of(transform=lambda sample, rng, transform: next(iter(()))):
                pass
        self.assertIsInstance(caught.exception.__cause__, StopIteration)

    def test_what_a_callback_gives_wrongly_is_raised(self):
        nan = float("nan")
        for kind, said, options in (
            (ValueError, "bias: 2 numbers, not 3", dict(bias=lambda *_: (1, 2))),
            (ValueError, "norm: nan is not finite", dict(norm=lambda *_: (1, nan, 1))),
            (TypeError, "oob: None is no number", dict(oob=lambda *_: None)),
            (ValueError, "color: 7 is not within 0..3", dict(color=lambda *_: 7)),
            (TypeError, "warp: 'a' is no number", dict(warp=lambda *_: "abcdefghi" and ["a"] * 9)),
            (ValueError, "norm: 1e+39 is not within", dict(norm=lambda *_: 1e39)),
            (Error, "transform.homography: it is singular", dict(warp=lambda *_: [1] * 9)),
            (ValueError, "warp: (0.0, 0.0", dict(warp=lambda *_: [0] * 9)),
            (ValueError, "norm: (1.0, 0.0", dict(norm=lambda *_: (1, 0, 1))),
            (Error, "transform.bias", dict(transform=lambda sample, rng, t: t.bias.__setitem__(0, nan))),
        ):
            with self.assertRaises(kind) as caught:
                next(loader_of(**options).batches())
            self.assertIn(said, str(caught.exception))

    def test_callbacks_of_a_wrong_kind_are_refused_when_the_loader_is_made(self):
        class ToTensor:
            def __call__(self, picture):
                raise AssertionError("never called")

        class Module:                                                   # as torch's are
            def __call__(self, *arguments, **named):
                raise AssertionError("never called")

            def forward(self, picture):
                pass

            def register_forward_hook(self):
                pass
        torchvisions = type(
            "Normalize", (), {"__call__": lambda self, *inputs: None, "__module__": "torchvision.transforms.v2"}
        )
        crop, fine = ops.RandomResizedCrop, lambda *_: None
        for said, options in (
            ("transform: ToTensor.*missing|transform:.*too many", dict(transform=ToTensor())),
            ("transform: 3 cannot be called", dict(transform=3)),
            ("picture: 'x' cannot be called", dict(picture="x")),
            ("transform: .*sample, rng, transform", dict(transform=lambda sample: None)),
            ("picture: .*too many", dict(picture=Module())),
            ("transform: Normalize is a transform of torchvision's", dict(transform=torchvisions())),
            ("warp: RandomResizedCrop is a class", dict(warp=crop)),
            ("^warp: 3 is not nine", dict(warp=3)),
            ("warp: .*'crop'", dict(warp="crop")),
            ("warp: .*rng", dict(warp=ops.ColorJitter(0.5))),
            ("bias: ConstantNormTransform is no BiasTransform", dict(bias=ops.ConstantNormTransform(2))),
            ("warp: ConstantOOBTransform is no WarpTransform", dict(warp=ops.ConstantOOBTransform())),
            ("^oob: 'red'", dict(oob="red")),
            ("color: index", dict(color=1.5)),
            ("norm: .*called with", dict(norm=lambda: 1)),
            ("bias: .*class", dict(bias=dict)),
            ("jitter: 0.5 is no ops.ColorJitter", dict(jitter=0.5)),
            ("outputs: 'mask' is no Output", dict(outputs=["mask"])),
            ("outputs: 3 is no Output", dict(outputs=3)),
        ):
            with self.assertRaisesRegex(TypeError, said, msg=options):
                loader_of(**options)
        with self.assertRaisesRegex(ValueError, "singular"):
            loader_of(warp=[1, 0, 0, 2, 0, 0, 0, 0, 1])
        with self.assertRaisesRegex(TypeError, "log: .*cannot be called"):
            benzina.Context("cpu", log=1)
        with self.assertRaisesRegex(TypeError, "log: .*level, status, message"):
            benzina.Context("cpu", log=[].append)
        loader_of(
            transform=fine, warp=lambda index, in_size, out_size, rng, more=1: (1, 0, 0, 0, 1, 0, 0, 0, 1)
        ).close()
        loader_of(transform=fine, warp=crop()).close()
        self.assertEqual(_handles.registry, {})

    def test_transform_and_rng_that_are_kept_are_pythons_own(self):
        kept = []

        def transform(sample, rng, t):
            t.bias[0] = sample.index
            kept.append((sample, rng, t, t.homography, rng.u32()))

        def expected(sample, rng, t):
            t.bias[0] = sample.index
        self.assertEqual(
            digest(loader_of(transform=transform, epochs=1, num_threads=3)),
            digest(loader_of(transform=expected, epochs=1)),
        )
        digest(loader_of(transform=expected, epochs=1, warp=(2, 0, 0, 0, 2, 0, 0, 0, 1)))
        gc.collect()
        self.assertEqual(sorted(sample.index for sample, *_ in kept), list(range(COUNT)))
        for sample, rng, t, homography, word in kept:
            again = benzina.Random(1234, 0, sample.index, 16)
            self.assertEqual([again.u32(), again.u32(), again.u32()], [word, rng.u32(), rng.struct.block[2]])
            self.assertEqual(
                (t.bias[0], homography[8], t.struct_size), (sample.index, 1, ctypes.sizeof(structs.transform))
            )
            t.homography[0] = 9                                         # it is Python's
            self.assertEqual(homography[0], 9)

    def test_a_loader_that_its_own_callback_refers_to_is_collected(self):
        class Trainer:
            def __init__(self):
                self.loader = loader_of(warp=self.warp)

            def warp(self, index, in_size, out_size, rng):
                return (1, 0, 0, 0, 1, 0, 0, 0, 1)
        trainer = Trainer()
        gone = weakref.ref(trainer.loader)
        self.assertEqual(len(order(trainer.loader)), COUNT)
        del trainer
        for _ in range(3000):                   # a callback under way, for a later epoch, still holds the trainer
            gc.collect()
            if gone() is None:
                break
            time.sleep(0.01)
        self.assertIsNone(gone())

    def test_objects_collected_inside_a_callback_are_closed_later(self):
        doomed = [benzina.Dataset(ARCHIVE), loader_of(shape=8)]
        gone = [weakref.ref(x) for x in doomed]

        def warp(*_):
            if doomed:
                doomed.clear()
                gc.collect()
            return (1, 0, 0, 0, 1, 0, 0, 0, 1)
        loader = loader_of(warp=warp, epochs=1, num_threads=1)
        self.assertEqual(len(order(loader)), COUNT)
        self.assertEqual([r() for r in gone], [None, None])
        _handles.dispose_put_off()
        self.assertEqual(len(_handles.put_off), 0)

    def test_a_loader_dropped_with_callbacks_under_way_ends(self):
        def warp(*_):
            threading.Event().wait(0.01)
            return (1, 0, 0, 0, 1, 0, 0, 0, 1)
        for _ in range(5):
            next(iter(loader_of(warp=warp, num_threads=2, batch_size=1)))

    def test_log(self):
        said = []
        with benzina.Context(device="cpu", log=lambda *what: said.append(what), log_level=benzina.LOG_DEBUG) as context:
            dataset = benzina.Dataset(ARCHIVE, context=context)
            loader = loader_of(dataset)
            order(loader)
            loader.close()
            dataset.close()
        for level, status, message in said:
            self.assertIsInstance(message, str)

    def test_the_interpreter_ends_with_everything_under_way(self):
        done = run_python("""
class Source:
    def __init__(self): self.data = open(%r, 'rb').read()
    def size(self): return len(self.data)
    def read_at(self, offset, size): return self.data[offset:offset + size]
def warp(index, in_size, out_size, rng):
    time.sleep(0.002)
    return (1, 0, 0, 0, 1, 0, 0, 0, 1)
loader = benzina.DataLoader(benzina.Dataset(Source()), shape=32, batch_size=2, seed=1, warp=warp, num_threads=3, output="field")
steps = loader.batches()
batch = next(steps)
view = batch.images.memoryview()
capsule = batch.images.__dlpack__()
""" % ARCHIVE)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_keyboard_interrupt_comes_through(self):
        code = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)        # a job in the background inherits that it is ignored
go = threading.Event()
def warp(index, in_size, out_size, rng):
    go.wait(30)
    return (1, 0, 0, 0, 1, 0, 0, 0, 1)
loader = benzina.DataLoader(benzina.Dataset(%r), shape=32, batch_size=2, seed=1, warp=warp, output="field")
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
start = time.monotonic()
try:
    next(iter(loader))
except KeyboardInterrupt:
    print("interrupted" if time.monotonic() - start < 10 else "late")
go.set()
""" % ARCHIVE
        done = run_python(code)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "interrupted\n", ""))

    def test_timeout(self):
        go = threading.Event()

        def warp(*_):
            go.wait(30)
            return (1, 0, 0, 0, 1, 0, 0, 0, 1)
        loader = loader_of(warp=warp, timeout=0.3)
        try:
            with self.assertRaises(Error) as caught:
                next(iter(loader))
            self.assertEqual(caught.exception.status, Status.AGAIN)
        finally:
            go.set()

    def test_a_forked_child_leaves_its_parents_objects_alone(self):
        done = run_python("""
dataset = benzina.Dataset(%r)
loader = benzina.DataLoader(dataset, shape=32, batch_size=2, seed=1, output="field")
batch = next(loader.batches())
child = os.fork()
if child == 0:
    try:
        next(loader.batches())
    except benzina.Error as error:
        ok = error.status == benzina.Status.E_STATE
    del batch, loader, dataset
    gc.collect()
    sys.exit(0 if ok and len(benzina.Dataset(%r)) == 8 else 3)
print(os.waitpid(child, 0)[1], sum(len(b) for b in loader.batches()))
""" % (ARCHIVE, ARCHIVE))
        self.assertEqual((done.returncode, done.stdout), (0, "0 8\n"), done.stderr)


@needs_decoder
@needs("numpy")
class Drawing(unittest.TestCase):
    """The picture callback."""

    identity = dict(warp=(1, 0, 0, 0, 1, 0, 0, 0, 1), shape=(384, 512), batch_size=4)

    def tearDown(self):
        gc.collect()
        _handles.dispose_put_off()
        self.assertEqual(_handles.registry, {})

    def arrays(self, **options):
        loader = loader_of(**{**self.identity, "output": "numpy", "epochs": 1, **options})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [images.copy() for images, _ in loader]

    def test_a_rectangle_that_is_drawn_shows_and_the_rest_stays(self):
        seen = {}

        def draw(sample, rng, picture):
            seen[sample.index] = (
                picture.width,
                picture.height,
                picture.depth,
                picture.chroma_shift,
                picture.full_range,
                [plane.shape for plane in picture.planes],
                sample.epoch,
                sample.target,
            )
            for plane in picture.region(60, 40, 120, 90):
                plane[...] = picture.gray
        mini = benzina.Dataset(MINI)
        plain, drawn = self.arrays(dataset=mini), self.arrays(dataset=mini, picture=draw)
        self.assertEqual(seen[1], (375, 500, 8, (1, 1), True, [(500, 375), (250, 188), (250, 188)], 0, 37))
        self.assertEqual(seen[2], (512, 384, 8, (1, 1), True, [(384, 512), (192, 256), (192, 256)], 0, 74))
        for a, b in zip(plain, drawn):
            self.assertTrue((abs(b[:, :, 42:88, 62:118] - 128) <= 0.5).all())
            a[:, :, 38:92, 58:122] = b[:, :, 38:92, 58:122]             # chroma is filtered over the edge
            self.assertTrue((a == b).all())

    def test_random_erasing_is_the_same_on_any_thread_and_in_every_run(self):
        def erase(sample, rng, picture):
            width, height = (int(edge * rng.uniform(0.1, 0.5)) for edge in (picture.width, picture.height))
            left, top = rng.randrange(picture.width - width + 1), rng.randrange(picture.height - height + 1)
            for plane in picture.region(left, top, left + width, top + height):
                plane[...] = picture.gray
        one, four = (digest(loader_of(picture=erase, num_threads=n)) for n in (1, 4))
        self.assertEqual(one, four)
        self.assertNotEqual(one, digest(loader_of()))
        loader = loader_of(picture=erase, epochs=2)
        self.assertNotEqual(digest(loader), digest(loader))             # of the next epoch

    def test_what_is_drawn_stays_in_its_sample(self):
        def draw(sample, rng, picture):
            if sample.index == 1:
                for plane in picture.planes:
                    plane[...] = 0
        plain, drawn = self.arrays()[0], self.arrays(picture=draw)[0]
        self.assertEqual([(a == b).all() for a, b in zip(plain, drawn)], [True, False, True, True])

    def test_an_exception_fails_its_sample_with_the_message_where_that_is_asked_for(self):
        def draw(sample, rng, picture):
            planes = picture.planes
            if sample.index == 2:
                raise LookupError("no such luck with %d planes" % len(planes))
        options = dict(picture=draw, epochs=1, batch_size=4, on_callback_error="sample")
        loader = loader_of(**options)
        first, second = loader.batches()
        self.assertEqual(
            (first.failed, second.failed, list(first.status.memoryview())), (1, 0, [0, 0, Status.E_CALLBACK, 0])
        )
        self.assertIn("picture callback", first.errors()[2].message)
        self.assertEqual(str(loader.last_exception), "no such luck with 3 planes")
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for _ in loader_of(**options):
                pass
        self.assertIn("no such luck with 3 planes", str(said[0].message))

    def test_what_is_kept_of_a_callback_stays_what_it_was(self):
        """Past the callback, the batch and the loader, and after other pictures took the memory that they had in C."""
        kept, threads = [], 2

        def draw(sample, rng, picture):
            picture.planes[0][:9] = sample.index
            views = picture.planes[0][:10].T, picture.region(3, 5, 40, 60)[1][::2]
            kept.append(
                (
                    sample,
                    rng,
                    picture,
                    views,
                    sample.index,
                    [plane.tobytes() for plane in (*picture.planes, *views)],
                    rng.u32(),
                )
            )
        plain = self.arrays(picture=lambda sample, rng, picture: picture.planes[0][:9].fill(sample.index))
        for number, images in enumerate(self.arrays(picture=draw, num_threads=threads)):
            self.assertTrue((images == plain[number]).all())            # drawing shows all the same
        for _ in self.arrays(picture=lambda *about: None, num_threads=threads, shuffle=True):
            pass                                                        # what C has now is of other samples
        gc.collect()
        self.assertEqual(len(kept), COUNT)
        for sample, rng, picture, views, index, contents, word in kept:
            self.assertEqual(sample.index, index)
            self.assertEqual([plane.tobytes() for plane in (*picture.planes, *views)], contents)
            self.assertEqual((picture.planes[0][:9] == index).all(), True)
            again = benzina.Random(1234, sample.epoch, index, 3)
            self.assertEqual([again.u32(), again.u32()], [word, rng.u32()])
            picture.planes[0][...] = 7                                  # it is Python's
            self.assertEqual(int(picture.region(0, 0, 1, 1)[0][0, 0]), 7)

    def test_the_frames_of_a_traceback_hold_no_memory_of_c(self):
        """Debuggers look at all of them, long after."""
        def draw(sample, rng, picture):
            raise LookupError("no such luck")
        loader = loader_of(picture=draw, epochs=1, batch_size=4)
        frames = []
        try:
            next(loader.batches())
        except LookupError as error:
            trace = error.__traceback__
        while trace:
            frames.append(trace.tb_frame)
            trace = trace.tb_next
        self.assertIn("draw", [frame.f_code.co_name for frame in frames])
        for frame in frames:
            if frame.f_code.co_filename.startswith(os.path.dirname(benzina.__file__)):
                for name, value in frame.f_locals.items():
                    self.assertFalse(
                        type(value).__module__ == "numpy" or isinstance(value, ctypes.Array),
                        (frame.f_code.co_name, name),
                    )

    def test_padding_rows_and_odd_sizes_are_not_seen(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "a.ppm"), "wb") as file:
                file.write(b"P6\n21 13\n255\n" + bytes(range(256)) * 3 + bytes(21 * 13 * 3 - 768))
            subprocess.run(
                [BZNA, "pack", file.name, "-o", os.path.join(folder, "a.bzna"), "--codec", "h264"],
                check=True,
                capture_output=True,
            )
            shapes = []

            def draw(sample, rng, picture):
                shapes.append([plane.shape for plane in picture.planes])
                shapes.append([plane.shape for plane in picture.region(3, 5, 4, 6)])
                shapes.append([plane.size for plane in picture.region(30, 5, 40, 6)])
            next(loader_of(benzina.Dataset(os.path.join(folder, "a.bzna")), picture=draw, epochs=1).batches())
        self.assertEqual(shapes, [[(13, 21), (7, 11), (7, 11)], [(1, 1), (1, 1), (1, 1)], [0, 0, 0]])


# ---- sources ---------------------------------------------------------------------------------------------------------

with open(ARCHIVE, "rb") as _file:
    BYTES = _file.read()


class Ranged:
    """A source as somebody would write one over a network."""

    def __init__(self, data=BYTES, fails=lambda offset: None):
        self.data, self.fails, self.calls, self.threads = data, fails, 0, set()

    def size(self):
        return len(self.data)

    def read_at(self, offset, size):
        self.calls += 1
        self.threads.add(threading.get_ident())
        failure = self.fails(offset)
        if failure:
            raise failure
        return self.data[offset:offset + min(size, 10000)]      # short reads are allowed


class Sources(unittest.TestCase):
    def tearDown(self):
        gc.collect()
        _handles.dispose_put_off()
        self.assertEqual(_handles.registry, {})

    def same(self, source, **options):
        dataset = benzina.Dataset(source, **options)
        self.assertEqual(list(dataset), list(benzina.Dataset(ARCHIVE)))
        if DECODES:
            self.assertEqual(digest(loader_of(dataset, reader_threads=4, num_threads=2)), digest(loader_of()))

    def test_an_object_with_read_at(self):
        source = Ranged()
        self.same(source)
        self.assertGreater(len(source.threads), 1 if DECODES else 0)

    def test_size_may_be_a_number(self):
        source = Ranged()
        source.size = len(BYTES)
        self.same(source)

    def test_a_file_like_object(self):
        self.same(io.BytesIO(BYTES))

    def test_what_a_bytesio_holds_is_read_without_python(self):
        held = []
        for owner in (io.BytesIO(BYTES), io.BytesIO(BYTES + b"more")):
            if len(owner.getvalue()) > len(BYTES):
                owner.truncate(len(BYTES))
            before = set(_handles.registry)
            dataset = benzina.Dataset(owner, name="held")
            source, = (_handles.registry[key] for key in set(_handles.registry) - before)
            self.assertFalse(hasattr(source, "read_into"))
            self.assertEqual(list(dataset), list(benzina.Dataset(ARCHIVE)))
            self.same(owner)
            held.append(dataset)
        for dataset in held:
            dataset.close()
        self.assertIsNone(source.kept_bytes)

    def test_a_bytesio_may_be_changed_closed_and_forgotten_while_it_is_read(self):
        for change in ("write", "truncate", "close", "forget"):
            owner = io.BytesIO(BYTES)
            dataset = benzina.Dataset(owner)
            parts = dataset[::2] + dataset[1:5] + dataset
            loader = loader_of(parts, batch_size=2, shape=(24, 24) if DECODES else None,
                               tensors=None if DECODES else "target", epochs=2)
            expected = [list(b.indices.memoryview()) for b in loader.batches()]
            loader = loader_of(parts, batch_size=2, shape=(24, 24) if DECODES else None,
                               tensors=None if DECODES else "target", epochs=2)
            batches = loader.batches()
            got = [(list(b.indices.memoryview()), b.failed) for b in [next(batches)]]
            if change == "write":
                owner.seek(0)
                owner.write(bytes(2 * len(BYTES)))
            elif change == "close":
                owner.close()
            elif change == "truncate":
                owner.truncate(10)
            del owner, dataset, parts
            gc.collect()
            rubbish = [bytes([i]) * len(BYTES) for i in range(20)]
            got += [(list(b.indices.memoryview()), b.failed) for b in batches]
            self.assertEqual(got, [(indices, 0) for indices in expected], change)
            del batches, loader, rubbish
            gc.collect()
            _handles.dispose_put_off()
            self.assertEqual(_handles.registry, {})

    def test_a_file_like_object_without_readinto(self):
        class Plain:
            def __init__(self):
                self.file = io.BytesIO(BYTES)
                self.seek, self.read = self.file.seek, self.file.read
        self.same(Plain())

    def test_a_system_file_is_read_beside_its_position_and_may_be_closed(self):
        for buffering in (-1, 0):
            with open(MINI, "rb", buffering=buffering) as file:
                file.seek(100)
                dataset = benzina.Dataset(file, name="by descriptor")
                self.assertEqual(dataset[3].size, 114130)
                self.assertEqual(file.tell(), 100)
            self.assertEqual(list(dataset), list(benzina.Dataset(MINI)))

    def test_what_is_no_source_is_refused(self):
        with open(__file__, encoding="utf-8") as text:
            for thing in (text, 7, object()):
                with self.assertRaises(TypeError):
                    benzina.Dataset(thing)

    def test_failures_while_opening_carry_their_cause(self):
        for failure, code in ((OSError(errno.ETIMEDOUT, "far away"), errno.ETIMEDOUT), (EOFError("lost"), errno.EIO)):
            with self.assertRaises(Error) as caught:
                benzina.Dataset(Ranged(fails=lambda offset: failure), name="remote")
            self.assertIs(caught.exception.__cause__, failure)
            self.assertEqual(abs(caught.exception.native_code), code)
            self.assertIn("remote", caught.exception.message)

    def test_a_broken_size_and_too_many_bytes(self):
        source = Ranged()
        source.size = lambda: 1 // 0
        with self.assertRaises(Error) as caught:
            benzina.Dataset(source)
        self.assertIsInstance(caught.exception.__cause__, ZeroDivisionError)
        source = Ranged()
        source.read_at = lambda offset, size: bytes(size + 1)
        with self.assertRaisesRegex(ValueError, "bytes where"):
            benzina.Dataset(source)
        for size in (-1, 2.5, 2**63, None):
            source.size = size
            with self.assertRaises(Error) as caught:
                benzina.Dataset(source)
            self.assertRegex(where_of(caught.exception), "^size: ")

    def test_a_source_with_a_fault_of_its_own_is_no_damaged_file(self):
        failure = KeyError("lost")
        with self.assertRaises(KeyError) as caught:
            benzina.Dataset(Ranged(fails=lambda offset: failure), name="remote")
        self.assertIs(caught.exception, failure)
        self.assertIn("remote", where_of(failure))
        third = benzina.Dataset(ARCHIVE)[3].offset
        if DECODES:
            dataset = benzina.Dataset(Ranged(fails=lambda offset: failure if offset == third else None))
            batches = loader_of(dataset, batch_size=3).batches()
            self.assertEqual(next(batches).failed, 0)
            with self.assertRaises(KeyError) as caught:
                next(batches)
            self.assertIs(caught.exception, failure)
            batch = next(loader_of(dataset, batch_size=8, on_callback_error="sample").batches())
            self.assertEqual([(slot, error.status) for slot, error in batch.errors().items()], [(3, Status.E_CALLBACK)])

    def test_memory_that_a_file_keeps_is_not_the_librarys(self):
        kept = []

        class Keeping(io.RawIOBase):
            def __init__(self):
                self.file = io.BytesIO(BYTES)

            def seekable(self):
                return True

            def seek(self, *where):
                return self.file.seek(*where)

            def readinto(self, buffer):
                count = self.file.readinto(buffer)
                kept.append((memoryview(buffer)[:count], bytes(buffer[:count])))
                return count
        self.same(Keeping())
        gc.collect()
        self.assertGreater(len(kept), COUNT)
        self.assertEqual([view.tobytes() == content for view, content in kept], [True] * len(kept))
        for count in (10**9, -1, 1.5):
            file = Keeping()
            file.readinto = lambda buffer: count
            with self.assertRaisesRegex((TypeError, ValueError), "^readinto: "):
                benzina.Dataset(file)

    @needs_decoder
    def test_failures_while_loading_fail_their_samples(self):
        failure = OSError(errno.ECONNRESET, "hung up")
        third = benzina.Dataset(ARCHIVE)[3].offset
        source = Ranged(fails=lambda offset: failure if offset == third else None)
        loader = loader_of(benzina.Dataset(source), batch_size=8)
        batch = next(loader.batches())
        self.assertEqual((batch.failed, list(batch.errors())), (1, [3]))
        self.assertIs(loader.last_exception, failure)

    @needs_decoder
    def test_reads_are_tried_again(self):
        third = benzina.Dataset(ARCHIVE)[3].offset
        failures = [OSError(errno.ECONNRESET, "hung up")]
        source = Ranged(fails=lambda offset: failures.pop() if offset == third and failures else None)
        loader = loader_of(benzina.Dataset(source), batch_size=8, read_retries=2, read_backoff_ns=1000)
        self.assertEqual(next(loader.batches()).failed, 0)
        self.assertEqual(loader.statistics.retries, 1)

    @needs_decoder
    def test_a_source_lives_as_long_as_anything_needs_it(self):
        source = Ranged()
        gone = weakref.ref(source)
        dataset = benzina.Dataset(source)
        loader = loader_of(dataset[2:6])
        del source, dataset
        gc.collect()
        self.assertEqual(order(loader), [0, 1, 2, 3])
        self.assertIsNotNone(gone())
        del loader
        gc.collect()
        self.assertIsNone(gone())


# ---- arrays, and objects with __len__ and __getitem__ ----------------------------------------------------------------


class Things:
    """Samples that are made when they are asked for."""

    def __init__(self, make, count=COUNT):
        self.make, self.count, self.calls = make, count, []

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        self.calls.append(index)
        return self.make(index)


def pgm(index, edge=6):
    return b"P5\n%d %d\n255\n" % (edge, edge) + bytes([10 * index + 5]) * (edge * edge)


def grays(batch):
    """The value of each picture of a batch of single-colored ones."""
    flat = floats(batch.images)
    return [round(flat[i * len(flat) // len(batch)]) for i in range(len(batch))]


def loader_of_things(dataset, **options):
    return loader_of(dataset, **{"shape": 6, "batch_size": 4, **options})


class Providers(unittest.TestCase):
    def tearDown(self):
        gc.collect()
        _handles.dispose_put_off()
        self.assertEqual(_handles.registry, {})

    @needs_decoder
    def test_bytes_in_memory(self):
        for kind in (bytes, bytearray, memoryview):
            files = [kind(pgm(i, 6 + i)) for i in range(COUNT)]
            dataset = benzina.from_arrays(
                files, range(COUNT), ["n%d" % i for i in range(COUNT)], classes=["ant", "bee"], name="mine"
            )
            self.assertEqual(
                (dataset.info.container, len(dataset), dataset.classes), (b"provider", COUNT, ["ant", "bee"])
            )
            self.assertEqual((list(dataset.targets), dataset.filenames[3]), ([*range(COUNT)], "n3"))
            del files
            gc.collect()
            found = [value for batch in loader_of_things(dataset, reader_threads=3).batches() for value in grays(batch)]
            self.assertEqual(found, [10 * i + 5 for i in range(COUNT)])

    def test_labels_that_are_no_whole_numbers(self):
        dataset = benzina.from_arrays([pgm(i) for i in range(3)], [[1.5, 2], [3], []])
        self.assertEqual(dataset.fields, ["image", "label"])
        self.assertEqual([list(dataset.field(i, "label")) for i in range(3)], [[1.5, 2], [3], []])
        self.assertEqual(dataset.target(1), -1)

    @needs_decoder
    def test_targets_that_are_no_whole_numbers_are_never_minus_one(self):
        for given in ([0.5, 1.5, -1.0, 3.0], [1.0, 2.0, 3.0, 4.0], [[1, 2], [3, 4], [5, 6], [7, 8]]):
            dataset, several = Things(lambda i: (pgm(i), given[i]), 4), isinstance(given[0], list)
            with self.assertRaisesRegex(
                ValueError, r"field 'label' is not one whole number.*would be -1: tensors=\['label'\] gives it"
            ):
                loader_of_things(dataset)
            (batch,) = loader_of_things(dataset, tensors=["label:2" if several else "label"]).batches()
            self.assertEqual(floats(batch.tensor("label")).tolist(), [n for row in given for n in row] if several else given)
            alone = benzina.Dataset(dataset, fields=["image"])
            self.assertEqual(len(next(loader_of_things(alone).batches())), 4)
            named = Things(lambda i: {"image": pgm(i), "target": given[i]}, 4)
            self.assertRaisesRegex(
                ValueError, "'target' is not .* -1: give it the name 'label'", loader_of_things, named
            )
        names = Things(lambda i: (pgm(i), "abcd"[i]), 4)
        self.assertRaisesRegex(ValueError, r"'target' is not .* -1: bytes=\['target'\]", loader_of_things, names)
        loader_of_things(names, bytes=["target"])
        masks = Things(lambda i: {"image": pgm(i), "target": pgm(i), "mask": pgm(i)}, 4)
        self.assertEqual(benzina.Dataset(masks).fields, ["image", "target", "mask"])
        for labels in ([0.5, 1.5, 2, 3], [[1, 2], [3], [4], [5]]):
            dataset = benzina.from_arrays([pgm(i) for i in range(4)], labels)
            self.assertRaisesRegex(ValueError, "field 'label' is not one whole number", loader_of_things, dataset)
            loader_of_things(dataset, tensors=["label:2"])
        for targets in ([7, 2**53 + 1, -1, 3], [5, 6, 7, None]):
            (batch,) = loader_of_things(Things(lambda i: (pgm(i), targets[i]), 4)).batches()
            self.assertEqual(batch.targets.memoryview().tolist(), [-1 if one is None else one for one in targets])

    def test_a_vector_of_whole_numbers_that_no_float_holds_is_refused(self):
        for row in ([1, 2**24 + 1], array.array("q", [25130987, 2])):
            with self.assertRaisesRegex(ValueError, "in a vector of float32, which cannot hold it"):
                benzina.from_arrays([pgm(0)], [row])
        self.assertEqual(list(benzina.from_arrays([pgm(0)], [[2**24, -2**63]]).field(0, "label")), [2**24, -2.0**63])

    @needs_decoder
    def test_labels_of_lists_are_exact_or_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            for i in range(4):
                with open(os.path.join(folder, "%d.pgm" % i), "wb") as file:
                    file.write(pgm(i))

            def of(shape, labels, name="l.lst"):
                path = os.path.join(folder, name)
                with open(path, "w") as file:
                    file.writelines(shape % {"i": i, "label": label} for i, label in enumerate(labels))
                return benzina.Dataset(folder, list=path)
            for shape in ("%(i)d\t%(label)s\t%(i)d.pgm\n", "%(i)d.pgm,%(label)s\n", "%(i)d.pgm %(label)s\n"):
                for labels in ([0, -1, 2, 3], [25130987, 16777217, 33554433, 7], [2**63 - 1, -2**63, -2, 2**53 + 1]):
                    dataset = of(shape, labels)
                    (batch,) = loader_of_things(dataset).batches()
                    self.assertEqual(list(dataset.targets), labels)
                    self.assertEqual(batch.targets.memoryview().tolist(), labels)
                dataset = of(shape, [0.5, -1, 2, 3])
                self.assertRaisesRegex(
                    ValueError, r"field 'label' is not one whole .*tensors=\['label'\]", loader_of_things, dataset
                )
                (batch,) = loader_of_things(dataset, tensors=["label"]).batches()
                self.assertEqual(floats(batch.tensor("label")).tolist(), [0.5, -1, 2, 3])
                for wrong, message in (
                    ([0, 1, 2, 2**63], r"l\.lst: line 4 at byte \d+: a label has more than 64 bits"),
                    ([0.5, 1, 25130987, 3], r"l\.lst: line 3 at byte \d+: .*float32 cannot hold"),
                    ([0, "nan", 2, 3], r"l\.lst: line 2 at byte"),
                ):
                    self.assertRaisesRegex(Error, message, of, shape, wrong)

    @needs_decoder
    def test_labels_of_records_that_are_no_whole_numbers_are_never_minus_one(self):
        def of(*labels):
            file = io.BytesIO()
            for number, label in enumerate(labels):
                payload = struct.pack("<IfQQ", 0, label, number, 0) + pgm(number)
                file.write(struct.pack("<II", 0xced7230a, len(payload)) + payload + bytes(-len(payload) % 4))
            return benzina.Dataset(file)
        (batch,) = loader_of_things(of(3, -1, 2**24)).batches()
        self.assertEqual(batch.targets.memoryview().tolist(), [3, -1, 2**24])
        loader_of_things(of(-1, 0.5))
        self.assertRaisesRegex(ValueError, "field 'label' is not one whole number", loader_of_things, of(0.5, 2))
        (batch,) = loader_of_things(of(0.5, 2), tensors=["label"]).batches()
        self.assertEqual(floats(batch.tensor("label")).tolist(), [0.5, 2])

    def test_what_does_not_fit_is_refused(self):
        for arguments, message in ((([],), "images: there are none"), (([pgm(0)], [1, 2]), "labels: 2 for 1 images"),
                                   (([pgm(0)], None, ["a", "b"]), "names: 2 for 1 images")):
            with self.assertRaisesRegex(ValueError, message):
                benzina.from_arrays(*arguments)
        with self.assertRaisesRegex(
            TypeError, "a picture is bytes of a file, a PIL.Image or an array of uint8, not int"
        ):
            benzina.from_arrays([7])
        with self.assertRaisesRegex(TypeError, "a sample is a picture, a pair"):
            benzina.Dataset(Things(lambda i: (1, 2, 3)))
        with self.assertRaisesRegex(TypeError, "field 'box': the first sample has nothing there"):
            benzina.Dataset(Things(lambda i: {"image": pgm(i), "box": None}))
        with self.assertRaises(Error) as caught:
            benzina.Dataset(Things(pgm, 0))
        self.assertEqual(caught.exception.status, Status.E_NO_SAMPLES)
        with self.assertRaisesRegex(TypeError, "neither pickled"):
            pickle.dumps(benzina.Dataset(Things(pgm)))

    @needs("numpy")
    @needs_decoder
    def test_arrays_are_pictures(self):
        import numpy
        pixels = numpy.arange(COUNT * 5 * 7 * 3).reshape(COUNT, 5, 7, 3).astype("uint8")
        for images in (
            pixels,
            list(pixels),
            pixels.transpose(0, 3, 1, 2),
            pixels[:, :, :, :1],
            pixels[:, :, :, 0],
            pixels[:, ::-1],
        ):
            dataset = benzina.from_arrays(images, numpy.arange(COUNT))
            expected = numpy.asarray(images)
            if expected.ndim == 4 and expected.shape[3] == 7:
                expected = expected.transpose(0, 2, 3, 1)
            expected = numpy.broadcast_to(expected.reshape(COUNT, 5, 7, -1), (COUNT, 5, 7, 3))
            for i in range(COUNT):
                self.assertEqual(dataset[i].image().tolist(), expected[i].tolist())
            self.assertEqual(list(dataset.targets), [*range(COUNT)])
        uneven = [pixels[0], pixels[1, :4], pixels[2, :, :3]]
        dataset = benzina.from_arrays(uneven)
        self.assertEqual([dataset[i].image().tolist() for i in range(3)], [one.tolist() for one in uneven])
        for wrong in (pixels.astype("float32"), pixels[..., :2]):
            with self.assertRaisesRegex((TypeError, ValueError), "uint8|shape"):
                benzina.from_arrays(wrong)

    @needs("PIL.Image")
    @needs("numpy")
    @needs_decoder
    def test_pillow_s_pictures(self):
        import numpy
        from PIL import Image
        pixels = numpy.arange(5 * 7 * 3).reshape(5, 7, 3).astype("uint8")
        for mode in ("RGB", "L", "RGBA", "P", "1"):
            image = Image.fromarray(pixels).convert(mode)
            self.assertEqual(
                benzina.from_arrays([image])[0].image().tolist(), numpy.asarray(image.convert("RGB")).tolist()
            )

    @needs_decoder
    def test_an_object_with_len_and_getitem(self):
        things = Things(
            lambda i: {
                "image": pgm(i),
                "target": i,
                "mask": pgm(i, 3),
                "box": [i, 0.5],
                "txt": "caption %d" % i,
                "blob": b"\0%d" % i if i % 2 else b"",
            }
        )
        dataset = benzina.Dataset(things)
        self.assertEqual(dataset.fields, ["image", "target", "mask", "box", "txt", "blob"])
        sample = dataset[3]
        self.assertEqual(
            (sample.target, list(sample.fields["box"]), sample.fields["txt"], sample.fields["blob"]),
            (3, [3, 0.5], "caption 3", b"\x003"),
        )
        things.calls.clear()
        seen = []
        loader = loader_of_things(
            dataset, tensors=["box:2"], bytes=["txt"], reader_threads=3, shuffle=True, batch_size=2
        )
        for batch in loader.batches():
            self.assertEqual(grays(batch), [10 * i + 5 for i in batch.indices.memoryview()])
            seen.extend(batch.indices.memoryview())
        self.assertEqual(sorted(seen), [*range(COUNT)])
        self.assertLessEqual(len(things.calls), 2 * COUNT)

    @needs_decoder
    def test_pairs_and_pictures_alone(self):
        pairs = benzina.Dataset(Things(lambda i: (pgm(i), 2 * i)))
        self.assertEqual((pairs.fields, list(pairs.targets)), (["image", "target"], [2 * i for i in range(COUNT)]))
        alone = benzina.Dataset(Things(pgm))
        self.assertEqual(grays(next(loader_of_things(alone).batches())), [5, 15, 25, 35])
        self.assertEqual(grays(next(loader_of_things(Things(pgm)).batches())), [5, 15, 25, 35])
        self.assertEqual(grays(next(loader_of_things(alone[[5, 2]] + pairs).batches())), [55, 25, 5, 15])

    @needs_decoder
    def test_an_exception_costs_its_sample(self):
        failures = {3: KeyError("three"), 5: OSError(errno.EIO, "five")}

        def make(index):
            if index in failures:
                raise failures[index]
            return pgm(index)
        for failure in failures.values():
            loader = loader_of_things(Things(make), batch_size=COUNT)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                batch = next(loader.batches())
            self.assertEqual(
                {slot: error.status for slot, error in batch.errors().items()}, {3: Status.E_CALLBACK, 5: Status.E_IO}
            )
            self.assertIn(loader.last_exception, failures.values())
            self.assertEqual([value for i, value in enumerate(grays(batch)) if i not in failures],
                             [10 * i + 5 for i in range(COUNT) if i not in failures])
        del failures[5]
        with self.assertRaises(KeyError) as caught:
            next(loader_of_things(Things(make), batch_size=COUNT, on_error="stop").batches())
        self.assertIs(caught.exception, failures[3])
        with self.assertRaises(KeyError):
            benzina.Dataset(Things(make)).field(3, "image")

    @needs_decoder
    def test_reads_of_an_object_are_tried_again(self):
        failures = [OSError(errno.ECONNRESET, "hung up")]

        def make(index):
            if index == 3 and failures:
                raise failures.pop()
            return pgm(index)
        loader = loader_of_things(Things(make), read_retries=2, read_backoff_ns=1000, batch_size=COUNT)
        self.assertEqual((next(loader.batches()).failed, loader.statistics.retries), (0, 1))

    @needs_decoder
    def test_a_run_over_an_object_goes_on_from_its_state(self):
        first = loader_of_things(benzina.Dataset(Things(pgm)), shuffle=True, batch_size=2)
        batches = first.batches()
        order = [list(next(batches).indices.memoryview()) for _ in range(2)]
        state = first.state_dict()
        order += [list(batch.indices.memoryview()) for batch in batches]
        second = loader_of_things(benzina.Dataset(Things(pgm)), shuffle=True, batch_size=2)
        second.load_state_dict(state)
        self.assertEqual([list(batch.indices.memoryview()) for batch in second.batches()], order[2:])

    @needs_decoder
    def test_an_object_lives_as_long_as_anything_needs_it_and_survives_a_fork(self):
        things = Things(pgm)
        gone = weakref.ref(things)
        loader = loader_of_things(benzina.Dataset(things), reader_threads=2)
        del things
        batches = loader.batches()
        next(batches)
        child = os.fork()
        if not child:
            loader.close()
            os._exit(0)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(grays(next(batches)), [45, 55, 65, 75])
        self.assertIsNotNone(gone())
        del loader, batches
        gc.collect()
        self.assertIsNone(gone())

    @needs("torch")
    @needs_decoder
    def test_a_data_set_of_torch_s(self):
        import torch
        pixels = torch.arange(COUNT * 3 * 6 * 6).reshape(COUNT, 3, 6, 6).to(torch.uint8)
        dataset = benzina.Dataset(torch.utils.data.TensorDataset(pixels, torch.arange(COUNT)))
        for i, (images, targets) in enumerate(
            benzina.DataLoader(dataset, shape=6, batch_size=4, warp=None, output="torch", memory="host")
        ):
            self.assertTrue(torch.equal(images, pixels[4 * i:4 * i + 4].float()))
            self.assertEqual(targets.tolist(), [*range(4 * i, 4 * i + 4)])
        with self.assertRaisesRegex(TypeError, "leave out ToTensor"):
            benzina.Dataset(torch.utils.data.TensorDataset(pixels.float(), torch.arange(COUNT)))


# ---- devices ---------------------------------------------------------------------------------------------------------

class Devices(unittest.TestCase):
    def test_a_device_is_named_in_several_ways(self):
        cuda = benzina.DEVICE_CUDA
        for device, pair in ((None, (0, 0)), ("cpu", (1, 0)), ("cuda", (cuda, 0)), ("cuda:0", (cuda, 0)),
                             ("cuda:12", (cuda, 12)), (3, (cuda, 3)), ((1, 0), (1, 0)), ([2, 5], (cuda, 5))):
            self.assertEqual(_context._device_of(device), pair)

    @needs_decoder
    def test_a_loader_works_on_the_device_that_it_names_else_on_its_datasets(self):
        mine = benzina.Context("cpu")
        dataset, plain = benzina.Dataset(ARCHIVE, context=mine), benzina.Dataset(ARCHIVE)
        expected = digest(loader_of(dataset))
        for device in ("cpu", (1, 0)):
            self.assertIs(loader_of(dataset, device=device)._context, mine)     # which may have limits, a log
            elsewhere = loader_of(plain, device=device)
            self.assertIs(elsewhere._context, _context._shared_context((1, 0)))
            self.assertEqual(digest(elsewhere), expected)
            opened = benzina.DataLoader(ARCHIVE, shape=8, seed=1, device=device)
            self.assertIs(opened.dataset._context, elsewhere._context)
        self.assertIs(loader_of(plain)._context, plain._context)
        self.assertIs(pickle.loads(pickle.dumps(elsewhere._context)), elsewhere._context)


class NoDevice(unittest.TestCase):
    """What is said where there is no GPU: to this process, one with a file before the driver that is no library."""

    def test_a_device_that_is_demanded_and_not_there(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "libcuda.so.1"), "w"):
                pass
            done = run_python(
                """
def refused(make):
    try:
        make()
    except benzina.Error as error:
        assert error.status in (benzina.Status.E_DEVICE, benzina.Status.E_UNSUPPORTED), error
        return error.message
refusals = [refused(make) for make in (benzina.device_count, lambda: benzina.Context("cuda:0"), lambda: benzina.Context().device,
                                       lambda: benzina.Context("cpu").device, lambda: benzina.Context().codec(benzina.CODEC_H265))]
dataset = benzina.Dataset(%r)
decodes = benzina.lib.bzna_decoder_open(dataset._context.handle, ctypes.c_void_p(), None) == 0
if decodes:
    refusals += [refused(lambda: benzina.DataLoader(dataset, shape=8, seed=1, **more)) for more in (dict(memory="device"), dict(decoder="nvdec"))]
    loader = benzina.DataLoader(dataset, shape=8, seed=1, batch_size=8, output="field")
    batch = next(loader.batches())
    assert (loader.info.image.device.kind, batch.__dlpack_device__(), batch.stream) == (1, (1, 0), None)
    try:
        batch.move(1)
    except benzina.Error as error:
        assert error.status == benzina.Status.E_UNSUPPORTED
print(sum(("libcuda.so.1" in r or "BENZINA_NO_CUDA" in r or "DEVICE_CPU" in r) for r in refusals) == len(refusals))
""" % ARCHIVE,
                env={**os.environ, "LD_LIBRARY_PATH": folder},
            )
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "True\n", ""))


@needs_decoder
class Device(unittest.TestCase):
    """With the fakes of NVIDIA's driver, whose device memory is host memory: once a stream is synchronized, ctypes can
    read it."""

    @classmethod
    def setUpClass(cls):
        cls.why_not, cls.failure, cls.folder = None, None, tempfile.mkdtemp()
        with open(os.environ.get("BENZINA_LIBRARY") or benzina.lib._name, "rb") as file:
            if b"bzi_kernel_warp_any" not in file.read():
                cls.why_not = "the library was built without a GPU path [clang libffmpeg-nvenc-dev]"
                return
        compiler = os.environ.get("CC") or "cc"
        if not os.path.exists("tests/fake/build.sh"):
            cls.why_not = "the fake driver is missing"
        elif not shutil.which(compiler.split()[0]) or not shutil.which("pkg-config") or subprocess.run(
                ["pkg-config", "--exists", "ffnvcodec", "libavcodec", "libavutil"]).returncode:
            cls.why_not = "there is no C compiler, no ffnvcodec or no libavcodec [gcc libffmpeg-nvenc-dev libavcodec-dev]"
        else:
            made = os.path.join(os.path.dirname(os.path.abspath(benzina.lib._name)), "tests", "fake")
            if all(os.path.exists(os.path.join(made, name)) for name in ("libcuda.so.1", "libnvcuvid.so.1")):
                for name in os.listdir(made):
                    os.symlink(os.path.join(made, name), os.path.join(cls.folder, name))
                return
            made = subprocess.run(["sh", "tests/fake/build.sh", cls.folder, compiler], capture_output=True, text=True)
            cls.failure = made.stderr if made.returncode else None

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def run_on_device(self, code, more=(), **options):
        if self.why_not:
            self.skipTest(self.why_not)
        self.assertIsNone(self.failure)
        done = run_python(
            """
import ctypes, hashlib
cuda, primary = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
assert (cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(primary), 0), cuda.cuCtxPushCurrent_v2(primary)) == (0, 0, 0)
def new_stream():
    stream = ctypes.c_void_p()
    assert cuda.cuStreamCreate(ctypes.byref(stream), 1) == 0
    return stream.value
def read(batch):
    assert cuda.cuStreamSynchronize(ctypes.c_void_p(batch.stream)) == 0
    return ctypes.string_at(batch.images.address, batch.images.nbytes)
def loader_of(device="cuda:0", **more):
    return benzina.DataLoader(benzina.Dataset(%r, context=benzina.Context(device)), **{**dict(
        shape=(24, 40), batch_size=3, seed=1234, shuffle=True, output="field", warp=benzina.ops.RandomResizedCrop()), **more})
def refused(kind, make, *arguments, **named):
    try:
        make(*arguments, **named)
    except kind as error:
        return str(error)
""" % ARCHIVE + code,
            env={**os.environ, "LD_LIBRARY_PATH": self.folder, **dict(more)},
            **options
        )
        # the fakes report there what a real driver would not forgive
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_batches_stay_on_the_device_and_have_the_processors_pixels(self):
        self.assertEqual(
            self.run_on_device("""
expected = [batch.images.memoryview().tobytes() for batch in loader_of("cpu").batches()]
assert len(expected) == 3 and benzina.device_count() == 1
loader = loader_of(memory="device", decoder="nvdec")
assert (loader.info.image.device.kind, loader.info.image.device.ordinal) == (benzina.DEVICE_CUDA, 0)
assert loader.info.decoder == benzina.DECODER_NVDEC
streams = [None, 1, new_stream(), -1]
for epoch in range(2):
    loader.set_epoch(0)
    for i, batch in enumerate(loader.batches()):
        field, before = batch.images, batch.stream
        assert field.__dlpack_device__() == batch.__dlpack_device__() == (2, 0) and not field.on_host
        assert [f.__dlpack_device__() for f in (batch.targets, batch.indices, batch.status)] == [(1, 0)] * 3
        stream = streams[(3 * epoch + i) % len(streams)]
        capsule = field.__dlpack__(stream=stream, max_version=(1, 0), dl_device=(2, 0), copy=False)
        assert before > 2 and batch.stream == {None: 1, -1: before}.get(stream, stream)
        interface = field.__cuda_array_interface__
        assert (interface["typestr"], interface["stream"]) == ("<f4", batch.stream)
        assert interface["data"][0] == batch.info.image.data
        assert read(batch) == expected[i]
        for make in (field.memoryview, lambda: field.__dlpack__(stream=0), lambda: field.__dlpack__(stream=2), lambda: field.__dlpack__(dl_device=(1, 0)),
                     lambda: field.__dlpack__(stream=1, copy=True)):
            assert refused(BufferError, make)
        assert not hasattr(field, "__array_interface__")
assert loader.statistics.samples_nvdec >= 16 and loader.statistics.samples_software == 0
print("done")
"""),
            "done\n",
        )

    def test_a_loader_names_its_device_in_several_ways(self):
        self.assertEqual(self.run_on_device("""
def made(dataset, **more):
    loader = benzina.DataLoader(dataset, shape=(24, 40), batch_size=8, seed=1234, output="field", **more)
    return loader, next(loader.batches()).images.memoryview().tobytes()
for dataset in (benzina.Dataset(%r), benzina.Dataset(%r, context=benzina.Context("cpu"))):
    loader, expected = made(dataset, device="cpu")
    assert loader.info.decoder == benzina.DECODER_SOFTWARE
    sessions = set()
    for device in ("cuda", "cuda:0", 0, (2, 0), loader_of(memory="device").batches().__next__().__dlpack_device__()):
        loader, images = made(dataset, device=device)
        assert loader.info.decoder == benzina.DECODER_NVDEC and images == expected
        sessions.add(loader._context.handle)
    assert len(sessions) == 1                   # which share the decode sessions
    for device in ("cuda:1", (2, 7)):
        assert "cuda" in refused(benzina.Error, made, dataset, device=device).lower()
print("done")
""" % (ARCHIVE, ARCHIVE)), "done\n")

    def test_a_consumers_stream_may_be_the_loaders(self):
        self.assertEqual(self.run_on_device("""
class Torchs:
    def __init__(self): self.cuda_stream = new_stream()
class Cupys:
    def __init__(self): self.ptr = new_stream()
class Protocol:
    def __init__(self): self.mine = new_stream()
    def __cuda_stream__(self): return (0, self.mine)
expected = next(loader_of("cpu").batches()).images.memoryview().tobytes()
for stream, number in ((s, _arguments.stream_number(s)) for s in (new_stream(), Torchs(), Cupys(), Protocol())):
    with next(loader_of(memory="device", stream=stream).batches()) as batch:
        assert batch.stream == number and read(batch) == expected
print("done")
"""), "done\n")

    def test_who_reads_on_the_host_gets_host_memory_from_nvdec(self):
        self.assertEqual(self.run_on_device("""
def digest(loader):
    return [hashlib.sha256(batch.images.memoryview()).hexdigest() for batch in loader.batches()]
expected = digest(loader_of("cpu"))
for more in (dict(), dict(memory="host"), dict(output="memoryview"), dict(output="numpy"), dict(device=None)):
    loader = loader_of(**more)
    assert loader.info.decoder == benzina.DECODER_NVDEC and loader.info.image.device.kind == benzina.DEVICE_CPU
    assert loader.info.decoder_name.startswith(b"NVDEC")
    assert digest(loader) == expected
    assert loader.info.sessions == loader.dataset._context.device.sessions > 0
assert digest(loader_of(decoder="software")) == expected and loader_of(decoder="software").info.sessions == 0
halves = digest(loader_of("cpu", dtype="float16"))
assert digest(loader_of(dtype="float16")) == halves != expected
device = loader_of().dataset._context.device
assert (device.device.kind, device.device.ordinal) == (benzina.DEVICE_CUDA, 0)
assert device.name and device.video == 0 and device.memory_bytes > 0
assert loader_of().dataset._context.codec(benzina.CODEC_H265).supported == 1
print("done")
"""), "done\n")

    def test_numpy_reads_what_nvdec_decoded(self):
        if why_not("numpy"):
            self.skipTest(why_not("numpy"))
        self.assertEqual(
            self.run_on_device("""
import numpy
pairs = [[(x.copy(), y.copy()) for x, y in loader_of(device, output="numpy", dtype="float16")] for device in ("cpu", None)]
assert all((a == b).all() and a.dtype == numpy.float16 and (y == z).all() for (a, y), (b, z) in zip(*pairs))
field = next(loader_of(memory="device").batches()).images
assert refused(BufferError, field.numpy)
print("done")
"""),
            "done\n",
        )

    def test_torch_gets_device_memory_where_it_has_cuda_and_it_is_not_asked_for_host(self):
        self.assertEqual(self.run_on_device("""
import types                                    # in place of torch, what of it is used
has_cuda, took = [True], []
class Tensor:
    def __init__(self, of, is_cuda):
        self.of, self.is_cuda = of, is_cuda
    view = lambda self, shape: self
    clone = lambda self: self
    untyped_storage = lambda self: self
def from_dlpack(field):
    took.append((field.__dlpack_device__(), field.__dlpack__(stream=1) and field._batch.stream))
    return Tensor(field, True)
class StorageWeakRef:
    def __init__(self, tensor):
        self.tensor = weakref.ref(tensor)
    expired = lambda self: self.tensor() is None
import weakref
for name in ("torch", "torch.multiprocessing", "torch.multiprocessing.reductions"):
    sys.modules[name] = types.ModuleType(name)
torch = sys.modules["torch"]
torch.cuda, torch.from_dlpack = types.SimpleNamespace(is_available=lambda: has_cuda[0]), from_dlpack
torch.frombuffer, torch.float32, torch.int64 = lambda memory, dtype: Tensor(memory, False), "f", "q"
sys.modules["torch.multiprocessing.reductions"].StorageWeakRef = StorageWeakRef
def taken(**more):
    took.clear()
    pair = next(iter(loader_of(**more)))
    return took, [type(one) is Tensor and one.is_cuda for one in pair]
on_device, on_host = ([((2, 0), 1)], [True, False]), ([], [False, False])
for more in (dict(output=None), dict(output="torch"), dict(output=None, memory="device")):
    assert taken(**more) == on_device, took
for more in (dict(output=None, memory="host"), dict(output="torch", device="cpu"), dict(output="torch", memory="host")):
    assert taken(**more) == on_host, took
has_cuda[0] = False
assert taken(output=None) == taken(output="torch") == on_host, took
assert taken(output=None, memory="device") == on_host       # a Field: nothing else here reads a device
has_cuda[0] = True
loader = loader_of(output=None, multibuffering=3, epochs=None)
kept = [images for images, _ in loader]                     # of more batches than there are buffers
assert loader.statistics.batches_copied == len(kept) - 2, loader.statistics.batches_copied
kept.clear()
for images, _ in loader:
    pass
assert loader.statistics.batches_copied == len(took) - 2 - len(loader), (loader.statistics.batches_copied, took)
print("done")
"""), "done\n")

    def test_batches_of_the_device_are_copied_on_the_consumers_stream(self):
        """Which is far behind the loader's: what is copied must not be written again before it was read there."""
        code = """
import logging, types, weakref                  # in place of torch, what of it is used; its stream is slow
said, handler = [], logging.Handler()
handler.emit = lambda record: said.append(record.getMessage())
logging.getLogger("benzina").addHandler(handler)
logging.getLogger("benzina").setLevel(logging.INFO)
stream, ORDERS = new_stream(), %r
class OnDevice:
    is_cuda = True
    def __init__(self, field):
        self.field = field
    def clone(self):
        copy, host = OnDevice(None), ctypes.c_void_p()
        assert cuda.cuMemHostAlloc(ctypes.byref(host), ctypes.c_size_t(self.field.nbytes), 0) == 0
        copy.host, copy.size = host.value, self.field.nbytes
        assert cuda.cuMemcpyDtoHAsync_v2(host, ctypes.c_uint64(self.field.address), ctypes.c_size_t(copy.size),
                                         ctypes.c_void_p(stream)) == 0
        return copy
    untyped_storage = lambda self: self
class OnHost:
    is_cuda = False
    view = lambda self, shape: self
class Storage:
    def __init__(self, tensor):
        self.tensor = weakref.ref(tensor)
    expired = lambda self: self.tensor() is None
def from_dlpack(field):
    field.__dlpack__(stream=stream if ORDERS else -1)
    return OnDevice(field)
for name in ("torch", "torch.multiprocessing", "torch.multiprocessing.reductions"):
    sys.modules[name] = types.ModuleType(name)
torch = sys.modules["torch"]
torch.cuda, torch.from_dlpack = types.SimpleNamespace(is_available=lambda: True), from_dlpack
torch.frombuffer, torch.int64 = lambda memory, dtype: OnHost(), "q"
sys.modules["torch.multiprocessing.reductions"].StorageWeakRef = Storage
expected = [batch.images.memoryview().tobytes() for batch in loader_of("cpu", batch_size=1).batches()]
loader = loader_of(output="torch", batch_size=1)
kept = [images for images, _ in loader]
assert loader.statistics.batches_copied == len(kept) - 2, loader.statistics.batches_copied
assert len([line for line in said if "copied" in line]) == 1, said
assert cuda.cuStreamSynchronize(ctypes.c_void_p(stream)) == 0
def bytes_of(images):
    return ctypes.string_at(images.host, images.size) if images.field is None else read(images.field._batch)
copies = [i for i, images in enumerate(kept) if images.field is None]
print(len(copies), [bytes_of(kept[i]) for i in copies] == [expected[i] for i in copies], flush=True)
os._exit(0)                                     # the copies are never freed
"""
        slow = {"FAKE_SCRIPT": "stream_us=2000"}
        self.assertEqual(self.run_on_device(code % True, more=slow), "6 True\n")
        self.assertEqual(self.run_on_device(code % False, more=slow), "6 False\n")         # so the test would notice

    def test_a_process_loads_for_the_device_of_its_local_rank(self):
        self.assertEqual(self.run_on_device("""
expected = [batch.images.memoryview().tobytes() for batch in loader_of("cpu").batches()]
assert benzina.device_count() == 2
local_rank = benzina.distributed_from_env({"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}).local_rank
assert (cuda.cuDevicePrimaryCtxRetain(ctypes.byref(primary), 1), cuda.cuCtxPushCurrent_v2(primary)) == (0, 0)
class device:                                   # as torch.device("cuda", 1)
    type, index = "cuda", local_rank
    __str__ = __repr__ = lambda self: "cuda:1"
def arrays(loader):
    for batch in loader.batches():
        assert batch.images.__dlpack_device__() == (2, 1) == tuple(batch.__dlpack_device__())
        yield read(batch)
for named in (local_rank, "cuda:1", (2, local_rank), device()):
    loader = benzina.DataLoader(%r, (24, 40), 3, True, seed=1234, output="field", warp=benzina.ops.RandomResizedCrop(),
                                memory="device", device=named)
    assert list(arrays(loader)) == expected
print(refused(benzina.Error, benzina.DataLoader, %r, 32, device=2))
""" % (ARCHIVE, ARCHIVE), more={"FAKE_SCRIPT": "devices=2"}),
            "device: there is no CUDA device 2; the driver sees 2 (E_DEVICE)\n")

    def test_views_of_the_device_outlive_batch_loader_and_dataset(self):
        self.assertEqual(self.run_on_device("""
expected = next(loader_of("cpu").batches()).images.memoryview().tobytes()
loader = loader_of(memory="device", multibuffering=1)
batch = next(loader.batches())
capsule, field = batch.__dlpack__(stream=new_stream()), batch.images
stream = batch.stream
loader.dataset.close()
loader.close()
batch.release()
del loader, batch
gc.collect()
assert cuda.cuStreamSynchronize(ctypes.c_void_p(stream)) == 0
assert ctypes.string_at(field.address, field.nbytes) == expected
del capsule, field
gc.collect()
print("done")
"""), "done\n")


# ---- numpy, torch, the example ---------------------------------------------------------------------------------------

@needs_decoder
@needs("numpy")
class Numpy(unittest.TestCase):
    def setUp(self):
        self.numpy = importable("numpy")

    def dlpack(self):
        if not hasattr(self.numpy, "from_dlpack"):
            self.skipTest("this numpy is older than DLPack")
        return self.numpy.from_dlpack

    def test_views_are_not_copies(self):
        batch = next(loader_of(batch_size=4).batches())
        view = batch.images.numpy()
        self.assertEqual((view.shape, view.dtype, view.flags.writeable), ((4, 3, 24, 24), self.numpy.float32, True))
        self.assertEqual(view.ctypes.data, batch.info.image.data)
        self.assertEqual(view.tobytes(), pixels(batch.images))
        self.assertEqual(batch.targets.numpy().tolist(), [0, 37, 74, 111])

    def test_dlpack_gives_the_same_memory(self):
        from_dlpack = self.dlpack()
        batch = next(loader_of(batch_size=4).batches())
        view, taken = batch.images.numpy(), from_dlpack(batch.images)
        self.assertEqual(taken.ctypes.data, batch.info.image.data)
        self.assertTrue((view == taken).all())
        self.assertEqual(from_dlpack(batch.indices).tolist(), [0, 1, 2, 3])
        self.assertTrue((from_dlpack(batch) == view).all())

    def test_numpy_gets_the_kind_of_capsule_that_it_asks_for(self):
        from_dlpack, batch, seen = self.dlpack(), next(loader_of(batch_size=4).batches()), []

        class Spy:
            __dlpack_device__ = batch.__dlpack_device__

            def __dlpack__(self, **options):
                capsule = batch.__dlpack__(**options)
                seen.append((options.get("max_version"), capsule_name(capsule)))
                return capsule
        taken = from_dlpack(Spy())
        self.assertEqual((len(seen), taken.ctypes.data), (1, batch.info.image.data))
        max_version, name = seen[0]
        self.assertEqual(name, b"dltensor_versioned" if max_version and max_version >= (1, 0) else b"dltensor")
        # As writeable as an array of its own, which 2.2 makes read-only.
        self.assertEqual(taken.flags.writeable, from_dlpack(self.numpy.zeros(1)).flags.writeable)

    def test_arrays_outlive_loader_and_dataset(self):
        for make in (
            lambda batch: batch.images.numpy(),
            lambda batch: getattr(self.numpy, "from_dlpack", Field.numpy)(batch.images),
        ):
            loader = loader_of(batch_size=4)
            batch = next(loader.batches())
            made, expected = make(batch)[1:, 0], batch.images.numpy()[1:, 0].copy()
            loader.dataset.close()
            loader.close()
            batch.release()
            del loader, batch
            gc.collect()
            self.assertTrue((made == expected).all())

    def test_a_loop_yields_arrays(self):
        kinds = {(type(x), type(y), x.dtype.name, y.dtype.name) for x, y in loader_of(output="numpy")}
        self.assertEqual(kinds, {(self.numpy.ndarray, self.numpy.ndarray, "float32", "int64")})
        if not importable("torch"):
            self.assertIsInstance(next(iter(loader_of(output=None)))[0], self.numpy.ndarray)

    def test_copies_may_be_kept_in_any_number(self):
        kept = list(loader_of(output="numpy", copy=True, batch_size=1))
        self.assertEqual([int(t[0]) for _, t in kept], [0, 37, 74, 111, 148, 185, -1, -1])

    def test_an_empty_batch(self):
        *_, last = loader_of(rank=2, world_size=3, batch_size=1, output="numpy", last_batch="partial")
        self.assertEqual((last[0].shape, last[1].shape), ((0, 3, 24, 24), (0,)))

    def test_a_consumer_that_fails_gives_the_batch_back(self):
        from_dlpack = self.dlpack()
        loader = loader_of(multibuffering=1, batch_size=4)
        steps = loader.batches()
        batch = next(steps)

        class Odd:
            def __dlpack_device__(self):
                return (1, 0)

            def __dlpack__(self, **_):
                capsule = batch.images.__dlpack__()
                _dlpack._DLManagedTensor.from_address(capsule_pointer(capsule, b"dltensor")).tensor.lanes = 2
                return capsule
        stderr, sys.stderr = sys.stderr, io.StringIO()
        hook, sys.unraisablehook = sys.unraisablehook, lambda *_: None
        try:
            with self.assertRaises(Exception):
                from_dlpack(Odd())
        finally:
            sys.stderr, sys.unraisablehook = stderr, hook
        batch = None
        gc.collect()
        self.assertEqual(next(steps).number, 1)

    def test_a_warp_may_return_an_array_and_use_a_generator(self):
        def warp(index, in_size, out_size, rng):
            return self.numpy.eye(3) + rng.generator().uniform(0, 0.01, (3, 3)) * (1, 1, 0)
        self.assertEqual(digest(loader_of(warp=warp, num_threads=1)), digest(loader_of(warp=warp, num_threads=4)))

    def test_targets_become_an_array(self):
        self.assertEqual(self.numpy.asarray(benzina.Dataset(ARCHIVE).targets).dtype.name, "int64")


@needs_decoder
@needs("torch")
class Torch(unittest.TestCase):
    def setUp(self):
        self.torch = importable("torch")

    def test_tensors_are_the_batch_itself(self):
        batch = next(loader_of(batch_size=4).batches())
        images, targets = batch.images.torch(), self.torch.from_dlpack(batch.targets)
        self.assertEqual(
            (tuple(images.shape), images.dtype, targets.dtype), ((4, 3, 24, 24), self.torch.float32, self.torch.int64)
        )
        self.assertEqual(images.data_ptr(), batch.info.image.data)
        self.assertEqual(array.array("f", images.flatten().tolist()).tobytes(), pixels(batch.images))
        self.assertEqual(targets.tolist(), [0, 37, 74, 111])

    def test_tensors_outlive_loader_and_dataset(self):
        loader = loader_of(batch_size=4, output="torch")
        images, _ = next(iter(loader))
        part, expected = images[1:, 0], images[1:, 0].clone()
        loader.dataset.close()
        loader.close()
        del loader, images
        gc.collect()
        self.assertTrue(self.torch.equal(part, expected))

    def test_a_loop_yields_tensors_and_gives_them_back(self):
        loader = loader_of(output=None, multibuffering=2, batch_size=1)
        for _ in range(3):
            for images, targets in loader:
                self.assertIsInstance(images, self.torch.Tensor)
                self.assertIsInstance(targets, self.torch.Tensor)

    def test_copies_may_be_kept_in_any_number(self):
        self.assertEqual(len(list(loader_of(output="torch", copy=True, batch_size=1))), COUNT)


@needs_decoder
@needs("numpy")
class Example(unittest.TestCase):
    def run_example(self, *arguments):
        return subprocess.run(
            [
                sys.executable,
                "-B",
                "examples/python/imagenet.py",
                ARCHIVE,
                "--arch",
                "linear",
                "--size",
                "56",
                "-p",
                "1",
                *arguments,
            ],
            capture_output=True,
            text=True,
            timeout=120,
        )

    def test_imagenet_runs_and_learns(self):
        done = self.run_example("--epochs", "8", "--batch-size", "4")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        losses = [float(x) for x in re.findall(r"epoch \d+: training loss ([\d.]+)", done.stdout)]
        self.assertEqual(len(losses), 8)
        self.assertLess(losses[-1], losses[0])

    def test_imagenet_goes_on_from_a_checkpoint(self):
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = os.path.join(folder, "checkpoint")
            whole = self.run_example("--epochs", "2", "--batch-size", "2")
            stopped = self.run_example(
                "--epochs",
                "2",
                "--batch-size",
                "2",
                "--checkpoint",
                checkpoint,
                "--save-every",
                "1",
                "--stop-after",
                "2",
            )
            self.assertEqual(stopped.returncode, 1)
            resumed = self.run_example("--epochs", "2", "--batch-size", "2", "--resume", checkpoint)
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertEqual(whole.stdout.split("\n")[-3], resumed.stdout.split("\n")[-3])
        self.assertIn("epoch 1: training loss", resumed.stdout.split("\n")[-3])

    def test_imagenet_refuses_a_checkpoint_that_falls_short(self):
        sys.path.insert(0, os.path.join("examples", "python"))
        imagenet = __import__("imagenet")
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = os.path.join(folder, "checkpoint")
            self.run_example("--epochs", "1", "--batch-size", "8", "--checkpoint", checkpoint)
            self.assertEqual(os.listdir(folder), ["checkpoint"])
            with open(checkpoint, "rb") as file:
                whole = file.read()
            state = pickle.loads(whole)
            for data in (
                b"",
                whole[: len(whole) // 2],
                pickle.dumps({**state, "arch": "resnet18"}),
                pickle.dumps({"model": state["model"]}),
            ):
                with open(checkpoint, "wb") as file:
                    file.write(data)
                with self.assertRaises(SystemExit) as raised:
                    imagenet.read_checkpoint(checkpoint, "linear")
                self.assertIn(checkpoint, raised.exception.code)
            with self.assertRaises(SystemExit):
                imagenet.read_checkpoint(os.path.join(folder, "absent"), "linear")
            done = self.run_example("--epochs", "2", "--batch-size", "8", "--resume", checkpoint)
            self.assertEqual(done.returncode, 1)
            self.assertIn(checkpoint, done.stderr)
            self.assertNotIn("Traceback", done.stderr)

    def test_imagenet_replaces_its_checkpoint_as_a_whole(self):
        sys.path.insert(0, os.path.join("examples", "python"))
        imagenet = __import__("imagenet")

        class Crash:
            def __reduce__(self):
                raise KeyboardInterrupt
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = os.path.join(folder, "checkpoint")
            old = {"model": 1, "loader": 2, "best": 3, "arch": "linear"}
            imagenet.write_checkpoint(checkpoint, old)
            with self.assertRaises(KeyboardInterrupt):
                imagenet.write_checkpoint(checkpoint, {**old, "model": [bytes(10**6), Crash()]})
            self.assertEqual(imagenet.read_checkpoint(checkpoint, "linear"), old)


class Result(unittest.TestResult):
    """Says only what failed and what was skipped."""
    passed = 0

    def addSuccess(self, test):
        self.passed += 1

    def said(self, word, test, text):
        name = "%s: %s" % (type(test).__name__, test._testMethodName[len("test_"):].replace("_", " "))
        print("%s %s%s" % (word, name, text), flush=True)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.said(
            "FAIL",
            test,
            "\n" + "".join("  " + line + "\n" for line in "".join(traceback.format_exception(*error)).split("\n")),
        )

    addError = addFailure

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.said("SKIP", test, ": " + reason)


def where_of(exception):
    """What is said of an exception of a callback's: for which sample."""
    return "".join(getattr(exception, "__notes__", ())) or str(exception.__cause__)


def run_tests(module):
    """Runs a module's tests, or those that the command line names (Class, Class.test); ends the program."""
    result, loader, names = Result(), unittest.defaultTestLoader, sys.argv[2:]
    (loader.loadTestsFromNames(names, module) if names else loader.loadTestsFromModule(module)).run(result)
    print(
        "tests/bindings/test_python.sh: %d passed, %d failed, %d skipped"
        % (result.passed, len(result.failures), len(result.skipped)),
        flush=True,
    )
    sys.exit(1 if result.failures else 0)


if __name__ == "__main__":
    run_tests(sys.modules["__main__"])
