"""Data sets of MNIST's, CIFAR's and tables' files."""
from __future__ import annotations

import array
import math
import os
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple, Union

from ._dataset import Dataset
from ._types import Path


class _Memory:
    """Bytes as a source."""

    def __init__(self, data):
        self.data, self.size = memoryview(data), len(data)

    def read_at(self, offset, size):
        return self.data[offset:offset + size]


def _idx_of(path, dimensions):
    """(shape, bytes) of a file of MNIST's format, which may be compressed by gzip."""
    with open(path, "rb") as file:
        data = file.read()
    if data[:2] == b"\x1f\x8b":
        import gzip
        data = gzip.decompress(data)
    if len(data) < 4 or data[:3] != b"\0\0\x08" or data[3] != dimensions or len(data) < 4 + 4 * dimensions:
        raise ValueError("%s: not an IDX file of bytes in %d dimensions" % (os.fspath(path), dimensions))
    shape = [int.from_bytes(data[4 + 4 * i:8 + 4 * i], "big") for i in range(dimensions)]
    data = memoryview(data)[4 + 4 * dimensions:]
    if len(data) != math.prod(shape):
        raise ValueError("%s: %s bytes in a file of %s" % (os.fspath(path), len(data), "x".join(map(str, shape))))
    return shape, data


def idx(path: Path, labels: Optional[Path] = None, **settings: Any) -> Dataset:
    """MNIST's pictures, and its labels as targets: a Dataset of gray pictures, in memory. Both files may be .gz.
    settings: of Dataset."""
    (count, height, width), pixels = _idx_of(path, 3)
    size = height * width
    records = dict(width=width, height=height, channels=1, data_type="uint8", stride=size)
    if labels is not None:
        (label_count,), targets = _idx_of(labels, 1)
        if label_count != count:
            raise ValueError("%s: %d labels of %d pictures" % (os.fspath(labels), label_count, count))
        pixels = b"".join(part for i in range(count) for part in (targets[i:i + 1], pixels[i * size:(i + 1) * size]))
        records.update(stride=size + 1, data_offset=1, label_type="uint8")
    return Dataset(_Memory(pixels), name=os.fspath(path), records=records, **settings)


def cifar(paths: Union[Path, Sequence[Path]], classes: int = 10, **settings: Any) -> Dataset:
    """CIFAR's binary files, one or several: a Dataset. classes: 10, or 100, whose coarse labels are left out."""
    if classes not in (10, 100):
        raise ValueError("classes: %r is neither 10 nor 100" % (classes,))
    labels = 1 if classes == 10 else 2
    return Dataset(paths, records=dict(width=32, height=32, channels=3, data_type="uint8", data_offset=labels,
                                       label_offset=labels - 1, label_type="uint8"), **settings)


def rows_of_csv(path: Path, number_of: Callable[[str], Any] = float) -> Iterator[Tuple[int, List[Any]]]:
    """The rows of a file of numbers with commas between them, counted from 1. A first line of other words is left
    out."""
    import csv as reader
    columns = 0
    with open(path, newline="") as file:
        for number_of_row, row in enumerate(filter(None, reader.reader(file)), 1):
            try:
                values = [number_of(word) for word in row]
            except ValueError:
                if number_of_row == 1 and not _are_numbers(row):
                    continue
                raise ValueError("%s: row %d: %r are not %snumbers" % (
                    os.fspath(path), number_of_row, row, "whole " if _are_numbers(row) else "")) from None
            if columns not in (0, len(values)):
                raise ValueError("%s: row %d has %d columns, not %d" % (
                    os.fspath(path), number_of_row, len(values), columns))
            columns = len(values)
            yield number_of_row, values
    if not columns:
        raise ValueError("%s: there are no numbers" % os.fspath(path))


def _are_numbers(words: Sequence[str]) -> bool:
    try:
        return bool([float(word) for word in words])
    except ValueError:
        return False


def csv(path: Path, target: Optional[int] = None, **settings: Any) -> Dataset:
    """A file of numbers with commas between them: a Dataset of vectors, the field "data", in memory. target: the number
    of the column that holds it. A first line of other words is left out."""
    columns, packed = 0, []
    for number_of_row, values in rows_of_csv(path):
        columns = len(values)
        if target is not None:
            number = values.pop(target)
            if not number.is_integer():
                raise ValueError(
                    "%s: row %d: the target, %g, is no whole number" % (os.fspath(path), number_of_row, number)
                )
            packed.append(array.array("q", [int(number)]).tobytes())
        packed.append(array.array("f", values).tobytes())
    records = dict(width=columns - (target is not None), height=1, channels=1, data_type="float32")
    if target is not None:
        records.update(label_type="int64", data_offset=8)
    return Dataset(_Memory(b"".join(packed)), name=os.fspath(path), records=records, **settings)
