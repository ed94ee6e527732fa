"""Data sets of Python's own samples: arrays in memory, and objects with __len__ and __getitem__."""
from __future__ import annotations

import array
import collections.abc
import ctypes
import operator
import threading
from typing import Any, Dict, List, Sequence, Tuple

from . import _arguments as arg
from . import _c, _handles
from ._c import Status, structs
from ._sources import _close_thunk

_PICTURE_NAMES = set(
    "image mask jpg jpeg jpe jfif png ppm pgm pbm pnm webp bmp gif tif tiff jp2 heic heif hif avif".split()
)
_MAGIC = (b"\xff\xd8\xff", b"\x89PNG\r\n", b"GIF8", b"II*\0", b"MM\0*")


class Field:
    """A field of a provider. convert: what makes bytes of a value of Python's."""

    def __init__(self, name, kind, convert=None, located=False, **raw):
        self.name, self.kind, self.convert, self.located, self.raw = name, kind, convert, located, raw

    def fill(self, struct):
        struct.name, struct.kind, struct.located = arg.text("field", self.name), self.kind, self.located
        for name, value in self.raw.items():
            setattr(struct, name, value)


# ---- Pictures --------------------------------------------------------------------------------------------------------


def pnm(width, height, channels, pixels):
    """A picture that states its own size: PGM of gray, PPM of RGB."""
    return b"P%d\n%d %d\n255\n" % (6 if channels == 3 else 5, width, height) + bytes(pixels)


def shape_of_pixels(shape, what):
    """(height, width, channels) of an array of gray or interleaved pixels."""
    if len(shape) == 2:
        return (*shape, 1)
    if len(shape) == 3 and shape[2] in (1, 3):
        return tuple(shape)
    raise ValueError("%s: pixels of the shape %r are neither H x W nor H x W x 1 or 3" % (what, tuple(shape)))


def array_of(thing):
    """A numpy array of what can be one, pixels of torch's C x H x W as H x W x C; None of the rest."""
    if hasattr(thing, "detach"):
        numbers = thing.detach().cpu().numpy()
        planes = (
            numbers.ndim == 3
            and numbers.dtype == "uint8"
            and numbers.shape[0] in (1, 3)
            and numbers.shape[2] not in (1, 3)
        )
        return numbers.transpose(1, 2, 0) if planes else numbers
    return thing if hasattr(thing, "__array_interface__") and hasattr(thing, "dtype") else None


def _is_pillow(thing):
    return hasattr(thing, "mode") and hasattr(thing, "convert") and hasattr(thing, "tobytes")


def _is_bytes(thing):
    return isinstance(thing, (bytes, bytearray, memoryview))


def picture_bytes(thing):
    """A file of a picture: the file's bytes, a PIL.Image, or an array of uint8."""
    if _is_bytes(thing):
        return thing
    if _is_pillow(thing):
        thing = thing if thing.mode in ("L", "RGB") else thing.convert("RGB")
        return pnm(*thing.size, 3 if thing.mode == "RGB" else 1, thing.tobytes())
    pixels = array_of(thing)
    if pixels is None or pixels.dtype != "uint8":
        raise TypeError("a picture is bytes of a file, a PIL.Image or an array of uint8, not %s" % type(thing).__name__)
    height, width, channels = shape_of_pixels(pixels.shape, "picture")
    return pnm(width, height, channels, pixels.tobytes())


# ---- Other values ----------------------------------------------------------------------------------------------------


def integer_bytes(value):
    return array.array("q", [operator.index(value.item() if hasattr(value, "item") else value)]).tobytes()


def vector_bytes(value):
    numbers = array_of(value)
    whole = numbers is not None and numbers.dtype.kind in "iu"
    if numbers is not None and not whole:
        return numbers.astype("float32").tobytes()
    given = numbers.ravel().tolist() if whole else value if isinstance(value, (list, tuple, array.array)) else [value]
    vector = array.array("f", given)
    for number, one in zip(vector, given):
        if isinstance(one, int) and int(number) != one:
            raise ValueError("%d is in a vector of float32, which cannot hold it: give a whole number alone" % one)
    return vector.tobytes()


def numbers_of_names(names):
    """What makes a class's number, as integer_bytes, of its name, or of a number."""
    known = {name: number for number, name in enumerate(names)}

    def convert(value):
        if not isinstance(value, str):
            return integer_bytes(value)
        if value not in known:
            raise ValueError("label: %r is none of classes, %s" % (value, ", ".join(map(repr, names[:20]))))
        return integer_bytes(known[value])
    return convert


def text_bytes(value):
    return value.encode("utf-8", "surrogateescape")


def _field_of(name, value):
    """What a field is, by its name and its value in the first sample."""
    numbers = array_of(value)
    is_picture = name in _PICTURE_NAMES or name.rsplit(".", 1)[-1] in _PICTURE_NAMES
    if _is_pillow(value) or (numbers is not None and numbers.ndim > 1 and numbers.dtype == "uint8"):
        return Field(name, _c.FIELD_IMAGE, picture_bytes)
    if _is_bytes(value):
        head = bytes(value[:12])
        if is_picture or head.startswith(_MAGIC) or head[4:8] == b"ftyp" or (head[:4], head[8:]) == (b"RIFF", b"WEBP"):
            return Field(name, _c.FIELD_IMAGE, picture_bytes)
        return Field(name, _c.FIELD_BYTES, bytes)
    if numbers is not None and numbers.ndim > 1 and name in _PICTURE_NAMES:
        raise TypeError(
            "field %r: pixels of %s; pictures are uint8, and the loader makes floats of them: leave out ToTensor and "
            "the like"
            % (name, numbers.dtype)
        )
    if isinstance(value, str):
        return Field(name, _c.FIELD_TEXT, text_bytes)
    if numbers is not None and (numbers.ndim or numbers.dtype.kind == "f"):
        return Field(name, _c.FIELD_VECTOR, vector_bytes)
    if numbers is not None or hasattr(value, "__index__"):
        return Field(name, _c.FIELD_INTEGER, integer_bytes)
    if isinstance(value, (float, array.array)) or (isinstance(value, (list, tuple)) and value and
                                                   all(isinstance(one, (int, float)) for one in value)):
        return Field(name, _c.FIELD_VECTOR, vector_bytes)
    raise TypeError(
        "field %r: the first sample has %s there, which is neither a picture, a number, numbers, text nor bytes"
        % (name, "nothing" if value is None else type(value).__name__)
    )


# ---- Objects with __len__ and __getitem__ ----------------------------------------------------------------------------


def _mapping_of(item):
    """A sample as fields: a dict is one; of (picture, target), or a picture alone, they have names."""
    if isinstance(item, collections.abc.Mapping):
        return item
    if isinstance(item, (tuple, list)) and 1 <= len(item) <= 2:
        return dict(zip(("image", "target"), item))
    if isinstance(item, (tuple, list)):
        raise TypeError(
            "a sample is a picture, a pair of picture and target, or a dict of fields, not %d things" % len(item)
        )
    return {"image": item}


# What dicts call a sample's label; with several of these, target= says which one it is.
LABELS = ("label", "labels", "cls", "class", "class_id", "category", "fine_label", "coarse_label", "y")


class Items:
    """Samples that an object's __getitem__ gives, called by several threads. target: the key of the label; classes: the
    names of targets 0, 1, ..., of which numbers are made."""

    places = None
    _MOST_THREADS = 64                          # whose last samples are kept: threads come and go

    def __init__(self, thing: Any, target: Any = None, classes: Any = None) -> None:
        self.thing, self.count, self.classes = thing, len(thing), classes
        first = thing[0] if self.count else {}
        values = _mapping_of(first)
        self._keys = [*values]
        self.fields = [_field_of(name, value) for name, value in values.items()]
        for field in self.fields:               # of a pair; a target is a whole number, as in from_arrays
            if isinstance(first, (tuple, list)) and field.name == "target" and field.kind == _c.FIELD_VECTOR:
                field.name = "label"
        key = self._label_key(target)
        if key is not None:
            self._add_target(key)
        self._last: Dict[int, Tuple[int, Any, Dict[int, Any]]] = {}

    def _label_key(self, target: Any) -> Any:
        if target is not None:
            if target not in self._keys:
                raise ValueError("target: samples have no %r among %s" % (target, ", ".join(map(repr, self._keys))))
            return target
        if "target" in self._keys:
            return "target"
        known = [key for key in LABELS if key in self._keys]
        return known[0] if len(known) == 1 or "label" in known else None

    def _add_target(self, key: Any) -> None:
        """The target that a label is: a whole number, or a name among classes."""
        number = self._keys.index(key)
        field, convert = self.fields[number], integer_bytes
        if field.kind == _c.FIELD_TEXT and self.classes is not None:
            convert = numbers_of_names(list(self.classes))
        elif field.kind != _c.FIELD_INTEGER:
            return                              # a DataLoader refuses it, if it is not asked for by its name
        made = Field("target", _c.FIELD_INTEGER, convert)
        if key == "target":
            self.fields[number] = made
            return
        for other, known in enumerate(self._keys):
            if known == "target":               # which has another name here, since it is not the label
                raise ValueError("target: %r, but samples have a 'target', too: leave one out" % (key,))
        self.fields.append(made)
        self._keys.append(key)

    def value(self, index: int, number: int) -> Any:
        """The bytes of a field, or None. A thread asks for the fields of a sample one after the other, and perhaps
        twice: a sample is taken from the object once."""
        thread = threading.get_ident()
        last = self._last.get(thread)
        if last is None or last[0] != index:
            if len(self._last) >= self._MOST_THREADS:
                self._last.clear()
            self._last.pop(thread, None)
            last = self._last[thread] = (index, _mapping_of(self.thing[index]), {})
        _, item, values = last
        if number not in values:
            field = self.fields[number]
            given = item.get(self._keys[number])
            values[number] = None if given is None else memoryview(field.convert(given)).cast("B")
        return values[number]

    def close(self) -> None:
        self.thing = None
        self._last.clear()


def is_items(thing: Any) -> bool:
    return (
        hasattr(thing, "__len__")
        and hasattr(thing, "__getitem__")
        and not hasattr(thing, "read_at")
        and not hasattr(thing, "read")
        and not _is_bytes(thing)
        and not isinstance(thing, (list, tuple, collections.abc.Mapping))
    )


@_c.callback("provider_read_fn")
def _read_thunk(user, index, field, buffer, capacity, size, err):
    items = _handles.registry.get(user)
    if items is None:
        return Status.E_STATE.value
    try:
        value = items.value(index, field)
        if value is None:
            return Status.E_NOT_FOUND.value
        ctypes.c_uint64.from_address(size).value = len(value)
        if 0 < len(value) <= capacity:
            memoryview((ctypes.c_char * len(value)).from_address(buffer)).cast("B")[:] = value
        return 0
    except BaseException as exception:
        kept = items.kept()
        if kept is not None:
            kept.failure = exception
        said = "%s: %s" % (type(exception).__name__, exception)
        structs.error.from_address(err).message = said.encode("utf-8", "replace")[:400]
        return Status.E_IO.value if isinstance(exception, (OSError, EOFError)) else Status.E_CALLBACK.value


# ---- Arrays ----------------------------------------------------------------------------------------------------------


class Arrays:
    """Samples in memory: the library reads them in place, and calls no Python."""

    def __init__(self, count: int, classes: Any) -> None:
        self.count, self.classes = count, classes
        self.fields: List[Field] = []
        self.kept: Any = None
        self._columns: List[Sequence[Tuple[int, int]]] = []
        self._memory: List[Any] = []            # that the places are in

    def add(self, field: Field, places: Sequence[Tuple[int, int]], memory: Any) -> None:
        """places: (address, size) of each sample's value."""
        self.fields.append(field)
        self._columns.append(places)
        self._memory.append(memory)

    @property
    def places(self) -> Any:
        table = (structs.place * (self.count * len(self.fields)))()
        for number, column in enumerate(self._columns):
            for i, (address, size) in enumerate(column):
                place = table[i * len(self.fields) + number]
                place.data, place.size = address, size
        self._columns = []
        self._memory.append(table)
        return table

    def close(self) -> None:
        self._memory.clear()


def callbacks_of(samples: Any) -> Any:
    """(structs.provider, the key by which its callbacks find samples, what the struct points to)"""
    provider, fields = _c.new("provider"), (structs.provider_field * max(len(samples.fields), 1))()
    for field, struct in zip(samples.fields, fields):
        field.fill(struct)
    kept = [fields]
    key = _handles.register(samples)
    provider.user, provider.close, provider.count = key, _close_thunk, samples.count
    provider.fields, provider.field_count = ctypes.addressof(fields), len(samples.fields)
    places = samples.places
    if places is None:
        provider.read = _read_thunk
    else:
        provider.places = ctypes.addressof(places)
    files = getattr(samples, "files", None)
    if files:
        paths = (ctypes.c_char_p * len(files))(*map(arg.path_bytes, files))
        provider.files, provider.file_count = ctypes.addressof(paths), len(files)
        kept.append(paths)
    if samples.classes is not None:
        names = (ctypes.c_char_p * len(samples.classes))(*[arg.text("classes", name) for name in samples.classes])
        provider.classes, provider.class_count = ctypes.addressof(names), len(names)
        kept.append(names)
    return provider, key, kept
