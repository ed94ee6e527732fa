"""Data sets of tables: Hugging Face's, pyarrow's, and parquet files. Pictures are read where pyarrow has them."""
from __future__ import annotations

import ctypes
import glob
import json
import os
import sys
from typing import Any, Dict, Iterator, List, Optional, Tuple

from . import _arguments as arg
from . import _c
from ._c import structs
from ._modules import installed
from ._provider import _MAGIC, _PICTURE_NAMES, Field
from ._remote import is_url, whole_file
from ._sources import expanded

_NO_VALUE, _SIZE_UNKNOWN = 0xFFFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFE
_TARGETS = ("target", "label", "labels", "cls", "class", "fine_label")
_PLACE = [("data", "<u8"), ("offset", "<u8"), ("size", "<u8"), ("file", "<u8")]      # structs.place
assert ctypes.sizeof(structs.place) == 32 and sys.byteorder == "little"


def is_parquet(source: Any) -> bool:
    given = source if isinstance(source, (list, tuple)) and source else [source]
    return all(arg.is_path(one) and os.fsdecode(one).endswith(".parquet") for one in given)


def is_table(thing: Any) -> bool:
    """Whether it is a data set of Hugging Face's, or a table of pyarrow's."""
    kinds = [("datasets", "Dataset"), ("pyarrow", "Table"), ("pyarrow", "RecordBatch")]
    return any(isinstance(thing, getattr(sys.modules.get(module), name, ())) for module, name in kinds)


def _pyarrow() -> Any:
    found = installed("pyarrow")
    if found is None:
        raise ImportError("parquet files are read by pyarrow, which is not installed")
    return found


def _parquet(source: Any) -> Any:
    """One table of all files."""
    pyarrow = _pyarrow()
    import pyarrow.parquet
    names: List[str] = []
    for one in source if isinstance(source, (list, tuple)) else [source]:
        for text in expanded(os.fsdecode(one)):
            found = sorted(glob.glob(text)) if set(text) & set("*?[") and not is_url(text) else [text]
            if not found:
                raise FileNotFoundError("%s: no file matches" % text)
            names += found
    tables = []
    for name in names:
        file = pyarrow.BufferReader(whole_file(name)) if is_url(name) else name
        tables.append(pyarrow.parquet.read_table(file, memory_map=not is_url(name)))
    return pyarrow.concat_tables(tables) if len(tables) > 1 else tables[0]


def _class_names(table: Any, features: Any) -> Dict[str, List[str]]:
    """Of columns of class numbers, the names: of Hugging Face's features, or what they leave in a file."""
    if features is not None:
        return {name: list(f.names) for name, f in features.items() if hasattr(f, "names") and hasattr(f, "str2int")}
    kept = (table.schema.metadata or {}).get(b"huggingface")
    try:
        known = json.loads(kept)["info"]["features"] if kept else {}
    except (ValueError, KeyError, TypeError):
        return {}
    return {name: f["names"] for name, f in known.items()
            if isinstance(f, dict) and f.get("_type") == "ClassLabel" and isinstance(f.get("names"), list)}


class Table:
    """Samples of a table's rows, as a provider's places: columns of pictures, numbers, rows of numbers, text and bytes.
    Others are left out."""

    def __init__(
        self, thing: Any, image: Optional[str] = None, label: Optional[str] = None, classes: Any = None
    ) -> None:
        pyarrow, numpy = _pyarrow(), installed("numpy")
        if numpy is None:
            raise ImportError("tables are read with numpy, which is not installed")
        table, order, features = thing, None, None
        if hasattr(thing, "_indices") and hasattr(thing, "features"):           # Hugging Face's
            if getattr(thing, "_format_type", None) == "custom":
                raise ValueError(
                    "dataset: its transform would not be applied: leave out set_transform, and give warp=, "
                    "augment= and so on instead"
                )
            table, features = thing.data.table.select(thing.column_names), thing.features
            order = None if thing._indices is None else thing._indices.column(0).to_numpy()
        elif isinstance(thing, pyarrow.RecordBatch):
            table = pyarrow.Table.from_batches([thing])
        self._numpy, self._pyarrow, self._order = numpy, pyarrow, order
        self.count: int = table.num_rows if order is None else len(order)
        self.classes: Any = None if classes is None else list(classes)
        self.fields: List[Field] = []
        self.files: List[str] = []
        self.kept: Any = None
        self._columns: List[Any] = []
        self._memory: List[Any] = [table]       # where the places are
        names = _class_names(table, features)
        label = label or next((name for name in _TARGETS if name in table.column_names), None)
        for name in (image, label):
            if name is not None and name not in table.column_names:
                raise KeyError("%s: there is no such column among %s" % (name, ", ".join(table.column_names)))
        columns = [image] if image else []
        columns += [name for name in table.column_names if name != image]
        for name in columns:
            self._add(name, table.column(name), name == image, name == label, names.get(name))
        if not any(field.kind == _c.FIELD_IMAGE for field in self.fields):
            raise ValueError("no column of %s has pictures: from_table(table, image=...) names it"
                             % ", ".join(table.column_names))

    def _add(self, name: str, column: Any, is_image: bool, is_label: bool, names: Optional[List[str]]) -> None:
        pa, types = self._pyarrow, self._pyarrow.types
        kind = column.type
        if types.is_dictionary(kind):
            column = pa.chunked_array([chunk.dictionary_decode() for chunk in column.chunks], kind.value_type)
            kind = column.type
        is_text = types.is_string(kind) or types.is_large_string(kind)
        is_binary = types.is_binary(kind) or types.is_large_binary(kind)
        if types.is_struct(kind) and {"bytes", "path"} <= {kind.field(i).name for i in range(kind.num_fields)}:
            self._put(self._picture_name(name), _c.FIELD_IMAGE, self._pictures(column))
        elif is_text and is_image:
            self._put(self._picture_name(name), _c.FIELD_IMAGE, self._paths(column))
        elif is_binary and (is_image or self._has_pictures(name, column)):
            self._put(self._picture_name(name), _c.FIELD_IMAGE, self._bytes_of(column))
        elif is_text and is_label:
            self._add_named(column)
        elif is_text or is_binary:
            self._put(name, _c.FIELD_TEXT if is_text else _c.FIELD_BYTES, self._bytes_of(column))
        elif types.is_integer(kind) or types.is_boolean(kind):
            self._put("target" if is_label else name, _c.FIELD_INTEGER, self._integers(column))
            self.classes = names if is_label and names else self.classes
        elif types.is_floating(kind) or self._is_row(kind):
            self._put("label" if is_label else name, _c.FIELD_VECTOR, self._vectors(column))

    def _picture_name(self, name: str) -> str:
        """The first one is the picture of the sample."""
        return name if any(field.kind == _c.FIELD_IMAGE for field in self.fields) else "image"

    def _put(self, name: str, kind: int, places: Any) -> None:
        if any(field.name == name for field in self.fields):
            raise ValueError("columns: two of them would be the field %r" % name)
        self.fields.append(Field(name, kind, located=True))
        self._columns.append(places if self._order is None else places[self._order])

    # -- what places there are

    def _empty(self, count: int) -> Any:
        places = self._numpy.zeros(count, _PLACE)
        places["size"] = _NO_VALUE
        return places

    def _is_row(self, kind: Any) -> bool:
        types = self._pyarrow.types
        is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
        return is_list and (types.is_integer(kind.value_type) or types.is_floating(kind.value_type))

    def _has_pictures(self, name: str, column: Any) -> bool:
        if name in _PICTURE_NAMES:
            return True
        first = next(
            (chunk[i].as_py() for chunk in column.chunks for i in range(min(len(chunk), 8)) if chunk[i].is_valid), b""
        )
        return first.startswith(_MAGIC) or first[4:8] == b"ftyp" or (first[:4], first[8:12]) == (b"RIFF", b"WEBP")

    def _places_of(self, chunk: Any) -> Any:
        """Of an array of bytes or text, in place."""
        numpy, pa = self._numpy, self._pyarrow
        places = self._empty(len(chunk))
        if not len(chunk):
            return places
        wide = pa.types.is_large_binary(chunk.type) or pa.types.is_large_string(chunk.type)
        _, offsets, data = chunk.buffers()
        ends = numpy.frombuffer(offsets, "<i8" if wide else "<i4", len(chunk) + 1, chunk.offset * (8 if wide else 4))
        valid = numpy.asarray(chunk.is_valid().to_numpy(zero_copy_only=False), bool)
        base = data.address if data is not None else ctypes.addressof(_NOTHING)
        places["data"][valid] = base + ends[:-1][valid].astype("u8")
        places["size"][valid] = (ends[1:] - ends[:-1])[valid].astype("u8")
        return places

    def _bytes_of(self, column: Any) -> Any:
        return self._numpy.concatenate([self._places_of(chunk) for chunk in column.chunks] or [self._empty(0)])

    def _paths(self, column: Any) -> Any:
        """Whole files."""
        places = self._empty(len(column))
        for i, path in enumerate(column.to_pylist()):
            if path is not None:
                places[i] = (0, 0, _SIZE_UNKNOWN, len(self.files))
                self.files.append(os.path.abspath(path))
        return places

    def _pictures(self, column: Any) -> Any:
        """Of {bytes, path}: the bytes, else the file."""
        pa = self._pyarrow
        parts = []
        for chunk in column.chunks:
            inner = dict(zip((chunk.type.field(i).name for i in range(chunk.type.num_fields)), chunk.flatten()))
            places = (
                self._empty(len(chunk)) if pa.types.is_null(inner["bytes"].type) else self._places_of(inner["bytes"])
            )
            absent = places["size"] == _NO_VALUE
            if absent.any() and not pa.types.is_null(inner["path"].type):
                places[absent] = self._paths(inner["path"].filter(pa.array(absent)))
            parts.append(places)
        return self._numpy.concatenate(parts or [self._empty(0)])

    def _rows_of(self, numbers: Any, valid: Any) -> Any:
        """Of an array, one value a row."""
        self._memory.append(numbers)
        places, size = self._empty(len(numbers)), numbers.itemsize
        places["data"] = numbers.ctypes.data + self._numpy.arange(len(numbers), dtype="u8") * size
        places["size"] = size
        places["size"][~valid] = _NO_VALUE
        places["data"][~valid] = 0
        return places

    def _integers(self, column: Any) -> Any:
        valid = column.is_valid().to_numpy()
        filled = (
            column.cast(self._pyarrow.int64()).fill_null(-1) if not valid.all() else column.cast(self._pyarrow.int64())
        )
        return self._rows_of(self._numpy.ascontiguousarray(filled.to_numpy(), "<i8"), self._numpy.asarray(valid, bool))

    def _vectors(self, column: Any) -> Any:
        numpy, pa = self._numpy, self._pyarrow
        valid = numpy.asarray(column.is_valid().to_numpy(), bool)
        if pa.types.is_floating(column.type):
            return self._rows_of(numpy.ascontiguousarray(column.fill_null(0).to_numpy(), "<f4"), valid)
        flat: List[Any] = []
        sizes: List[int] = []
        for row in column.to_pylist():
            flat += row or ()
            sizes.append(len(row or ()))
        numbers = numpy.array(flat or [0], "<f4")
        self._memory.append(numbers)
        places = self._empty(len(sizes))
        ends = numpy.cumsum(sizes, dtype="u8") * 4
        places["data"], places["size"] = (
            numbers.ctypes.data + ends - numpy.array(sizes, "u8") * 4,
            numpy.array(sizes, "u8") * 4,
        )
        places["size"][~valid], places["data"][~valid] = _NO_VALUE, 0
        return places

    def _add_named(self, column: Any) -> None:
        """Class numbers of a column of names, in the order of the names."""
        self.classes = self.classes or sorted({name for name in column.to_pylist() if name is not None})
        number = {name: i for i, name in enumerate(self.classes)}
        found = [-1 if name is None else number.get(name, -2) for name in column.to_pylist()]
        if -2 in found:
            raise ValueError(
                "classes: there is no %r among %s" % (column[found.index(-2)].as_py(), ", ".join(self.classes))
            )
        numbers = self._numpy.array(found, "<i8")
        self._put("target", _c.FIELD_INTEGER, self._rows_of(numbers, numbers >= 0))

    # -- what a provider asks for

    @property
    def places(self) -> Any:
        table = self._numpy.ascontiguousarray(self._numpy.stack(self._columns, 1))
        self._columns = []
        self._memory.append(table)
        return (ctypes.c_char * table.nbytes).from_buffer(table)

    def close(self) -> None:
        self._memory.clear()


_NOTHING = ctypes.create_string_buffer(1)       # what bytes of no length point to


def open_table(source: Any, image: Optional[str] = None, label: Optional[str] = None, classes: Any = None) -> Table:
    return Table(_parquet(source) if is_parquet(source) else source, image, label, classes)
