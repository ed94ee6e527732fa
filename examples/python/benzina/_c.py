"""The C interface: the library, its structs, functions and numbers."""
import ctypes
import ctypes.util
import functools
import os
import re
import types
from typing import Any, Callable, Dict

from . import _header
from ._header import Status as Status  # which other modules take from here
from ._numbers import *  # noqa: F401, F403
from ._version import __version__


def _refuse_isolated() -> None:
    """A subinterpreter with a lock of its own: ctypes calls back into the main interpreter, whose objects are others.
    Before 3.13, ctypes cannot be imported there."""
    try:
        import _interpreters
    except ImportError:
        return
    current, main = _interpreters.get_current(), _interpreters.get_main()
    number = current[0] if isinstance(current, tuple) else current
    if current != main and getattr(_interpreters.get_config(number), "gil", "") == "own":
        raise ImportError(
            "benzina: this is an isolated subinterpreter (its GIL is its own), into which the library's threads cannot "
            "call back: import it in the main interpreter, or start a process"
        )


_refuse_isolated()
structs = types.SimpleNamespace()              # structs.error mirrors struct bzna_error, and so on

types_by_name = {
    "u8": ctypes.c_uint8,
    "u16": ctypes.c_uint16,
    "u32": ctypes.c_uint32,
    "u64": ctypes.c_uint64,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "f32": ctypes.c_float,
    "f64": ctypes.c_double,
    "size": ctypes.c_size_t,
    "char": ctypes.c_char,
    "ptr": ctypes.c_void_p,
    "str": ctypes.c_char_p,
}


def _rows(table):
    """The rows of a table of _header: of each its name, and what follows."""
    return re.findall(r"^(\w+):((?:.*\n)(?:[ ].*\n)*)", table, re.M)


for _name, _words in _rows(_header.POINTERS):
    types_by_name[_name] = ctypes.CFUNCTYPE(*[None if word == "void" else types_by_name[word]
                                              for word in _words.split()])


def _shown(value):
    """A member of a struct for its repr; None where it is nothing."""
    if isinstance(value, ctypes.Array):
        parts = [_shown(part) for part in value]
        return "[%s]" % ", ".join("0" if part is None else part for part in parts) if any(parts) else None
    if isinstance(value, bytes):
        return repr(value.decode("utf-8", "replace")) if value else None
    return repr(value) if isinstance(value, ctypes.Structure) or value else None


class _Struct(ctypes.Structure):
    """Says what is in it: members that are 0 are left out."""

    def __repr__(self):
        members = ((name, _shown(getattr(self, name))) for name, *_ in self._fields_ if name != "struct_size")
        return "%s(%s)" % (type(self).__name__, ", ".join("%s=%s" % member for member in members if member[1]))


def _define_structs():
    for name, body in _rows(_header.STRUCTS):
        fields = []
        for group in body.split(";"):
            type_name, names = group.split(None, 1)
            for declarator in names.split(","):
                field, *sizes = re.findall(r"\w+", declarator)
                kind = types_by_name[type_name]
                for size in reversed(sizes):
                    kind = kind * int(size)
                fields.append((field, kind))
        types_by_name[name] = type("bzna_" + name, (_Struct,), {"_fields_": fields})
        globals()["bzna_" + name] = types_by_name[name]         # where pickle looks for it
        setattr(structs, name, types_by_name[name])


_define_structs()


def _of_the_system():
    """The file name by which the system finds the library, or None."""
    soname = "libbenzina.so." + ".".join(__version__.split(".")[:2])
    try:
        ctypes.CDLL(soname)
        return soname
    except OSError:
        return ctypes.util.find_library("benzina")


def _load_library():
    here = os.path.dirname(os.path.abspath(__file__))
    named = os.environ.get("BENZINA_LIBRARY")
    tried = [named] if named else [os.path.join(here, "_lib", "libbenzina.so"),
                                   os.path.join(here, "..", "..", "..", "build", "libbenzina.so")]
    path = next((p for p in tried if os.path.exists(p)), None)
    if path is None and not named:
        path = _of_the_system()
    if path is None:
        raise ImportError("libbenzina.so was not found: neither at " + " nor at ".join(tried) +
                          ("" if named else ", nor where the system keeps libraries; BENZINA_LIBRARY names it"))
    return ctypes.CDLL(path)


lib = _load_library()                           # its functions are declared: lib.bzna_version() and so on


def _load_formats():
    """libbenzina_formats.so, which lies beside the library."""
    folder, name = os.path.split(lib._name)
    return ctypes.CDLL(os.path.join(folder, name.replace("libbenzina.", "libbenzina_formats.")))


formats = _load_formats()                       # likewise: formats.bzna_formats_open() and so on


def formats_codecs():
    """(name, struct) of the codecs in C of formats that the library does not know by itself: "gif", and "jpeg2000" of
    the codec that is called "JP2 (JPEG 2000)"."""
    count = ctypes.c_uint64()
    codecs = formats.bzna_formats_codecs
    codecs.restype = ctypes.POINTER(structs.codec)
    array = codecs(ctypes.byref(count))
    names = [array[i].name.decode().lower().replace(" ", "") for i in range(count.value)]
    return [(name.split("(")[-1].rstrip(")"), array[i]) for i, name in enumerate(names)]


inits = {}                                     # of the structs that have one


def _define_functions():
    for name, words in _rows(_header.FUNCTIONS):
        kinds = [None if k == "void" else ctypes.POINTER(ctypes.c_void_p) if k == "out" else
                 ctypes.POINTER(types_by_name[k[1:]]) if k[0] == "&" else types_by_name[k] for k in words.split()]
        function = getattr(formats if name.startswith("formats_") else lib, "bzna_" + name, None)
        if not function:
            continue                            # a switch leaves it out of this library
        function.restype, function.argtypes = kinds[0], kinds[1:]
        if name.endswith("_init") and len(kinds) == 3:
            inits[name[:-len("_init")]] = function


_define_functions()
version = "%d.%d.%d" % (lib.bzna_version() // 10000, lib.bzna_version() // 100 % 100, lib.bzna_version() % 100)
if version.split(".")[:2] != __version__.split(".")[:2]:    # until 1.0, structs may change with the minor version
    raise ImportError("this package is for libbenzina %s, the library found is %s" % (__version__, version))


def _maker(name: str) -> Callable[[], Any]:
    """Of structs as the library's init function prepares them: its bytes, copied; of one without, with its size set and
    all else zero."""
    kind = getattr(structs, name)
    made = kind()
    if name in inits:
        inits[name](made, ctypes.sizeof(made))
    elif hasattr(kind, "struct_size"):
        made.struct_size = ctypes.sizeof(made)
    return functools.partial(kind.from_buffer_copy, bytes(made))


_makers: Dict[str, Callable[[], Any]] = {}    # by the names of structs


def new(name: str) -> Any:
    """A struct, ready to be given to the library."""
    if name not in _makers:
        _makers[name] = _maker(name)
    return _makers[name]()


def with_formats(config):
    """A structs.formats_config of a structs.dataset_config, which it keeps, and of its attributes pairs, list,
    records and hold_bytes."""
    whole = new("formats_config")
    whole.dataset, whole.kept = ctypes.addressof(config), config
    whole.pairs, whole.list = getattr(config, "pairs", None), getattr(config, "list", None)
    whole.records, whole.hold_bytes = getattr(config, "records", None), getattr(config, "hold_bytes", 0)
    return whole


def callback(kind):
    """Makes a C function pointer of the function below it; it lives as long as the module."""
    return types_by_name[kind]


def set_extra_outputs(config, extras):
    """Further outputs of a loader: an array of structs.loader_output, which must live until it is open."""
    config.extra_outputs.ptr, config.extra_outputs.count = ctypes.addressof(extras), len(extras)
