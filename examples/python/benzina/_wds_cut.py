"""Shards that end too early: the samples before."""
from __future__ import annotations

import os
import re
import tarfile
import threading
from typing import Any, List, Optional, Tuple

from ._dataset import Dataset
from ._errors import Error

_KEY = re.compile(r"((?:.*/|)[^.]+)[.][^/]*")   # of a member's name, as webdataset has it
_END = bytes(1024)                              # of a tar


class _Part:
    """The first bytes of a file, as a tar that ends there."""

    def __init__(self, path: str, size: int) -> None:
        self._file, self._lock, self._bytes = open(path, "rb"), threading.Lock(), size
        self.size = size + len(_END)

    def read_at(self, offset: int, size: int) -> bytes:
        with self._lock:
            self._file.seek(offset)
            return (self._file.read(max(0, min(size, self._bytes - offset))) + _END)[:size]


def _members(path: str) -> Tuple[List[Tuple[str, int]], bool]:
    """(key, end) of each member, and whether all of the last one is there."""
    size, found = os.path.getsize(path), []
    try:
        with tarfile.open(path, "r:") as tar:
            for member in tar:
                key = _KEY.fullmatch(member.name)
                found.append((key[1] if key else "", -(-(member.offset_data + member.size) // 512) * 512))
    except (tarfile.TarError, EOFError, ValueError):
        pass
    return found, not found or found[-1][1] <= size


def part_of(url: str) -> Optional[Dataset]:
    """The whole samples of a tar that was cut off; None of anything else."""
    path = url[5:] if url.startswith("file:") else url
    if not os.path.isfile(path):
        return None
    members, is_whole = _members(path)
    last = members[-1][0] if members else ""
    while not is_whole and members and members[-1][0] == last:
        members.pop()
    if not members:
        return None
    try:
        return Dataset(_Part(path, members[-1][1]), name=url)
    except Error:
        return None
