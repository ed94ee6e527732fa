"""Shards that end too early: the samples before."""
from __future__ import annotations

import io
import os
import re
import tarfile
import threading
import zlib
from typing import Any, List, Optional, Tuple, Union

from ._dataset import Dataset
from ._errors import Error

_KEY = re.compile(r"((?:.*/|)[^.]+)[.][^/]*")   # of a member's name, as webdataset has it
_END = bytes(1024)                              # of a tar
_CHUNK = 1 << 16
_Shard = Union[str, bytes]                      # a path, or what is in it


class _Part:
    """The first bytes of a file, as a tar that ends there."""

    def __init__(self, file: Any, size: int) -> None:
        self._file, self._lock, self._bytes = file, threading.Lock(), size
        self.size = size + len(_END)

    def read_at(self, offset: int, size: int) -> bytes:
        with self._lock:
            self._file.seek(offset)
            data: bytes = self._file.read(max(0, min(size, self._bytes - offset)))
        return (data + _END)[:size]


def unpacked(data: bytes) -> Tuple[bytes, Optional[Exception]]:
    """What gzip packed, as far as it goes, and why that is not all. Anything else is what it is."""
    made: List[bytes] = []
    error: Optional[Exception] = None
    if data[:2] != b"\x1f\x8b":
        return data, None
    while data[:2] == b"\x1f\x8b" and error is None:        # one member after the other
        one, at = zlib.decompressobj(31), 0
        try:
            while at < len(data) and not one.eof:
                made.append(one.decompress(data[at:at + _CHUNK]))
                at += _CHUNK
            if not one.eof:
                error = EOFError("it ends before the end of what gzip packed")
        except zlib.error as found:
            error = found
        data = (one.unused_data + data[at:]).lstrip(b"\0")
    return b"".join(made), error


def _members(file: Any, size: int) -> Tuple[List[Tuple[str, int]], bool]:
    """(key, end) of each member, and whether all of the last one is there."""
    found = []
    try:
        with tarfile.open(fileobj=file, mode="r:") as tar:
            for member in tar:
                key = _KEY.fullmatch(member.name)
                found.append((key[1] if key else "", -(-(member.offset_data + member.size) // 512) * 512))
    except (tarfile.TarError, EOFError, ValueError):
        pass
    return found, not found or found[-1][1] <= size


def part_of(shard: _Shard, url: str) -> Optional[Dataset]:
    """The whole samples of a tar that was cut off; None of anything else. Of bytes, which gzip packed, the last sample
    may lack members."""
    if isinstance(shard, str) and not os.path.isfile(shard):
        return None
    file: Any = open(shard, "rb") if isinstance(shard, str) else io.BytesIO(shard)
    members, is_whole = _members(file, os.path.getsize(shard) if isinstance(shard, str) else -1)
    last = members[-1][0] if members else ""
    while not is_whole and members and members[-1][0] == last:
        members.pop()
    if not members:
        return None
    try:
        return Dataset(_Part(file, members[-1][1]), name=url)
    except Error:
        return None
