"""Shards that are elsewhere, kept on a local disk: what benzina.Stream(cache=, cache_bytes=) reads them by.

    python _cache.py FOLDER BYTES SOURCE        writes the bytes of a URL or a "pipe:COMMAND" to the standard output

A folder may be shared by any number of processes. Of an entry there are NAME.shard, which is whole; NAME.part, which a
process writes that holds the lock of NAME.lock; and bytes are added under the lock of all.lock, where the entry that
was used longest ago goes first. The system releases the locks of a process that is killed, and whoever holds the
entry's lock next begins its part anew, so that what a killed process leaves is never read. A shard for which there is
no room is passed on without being kept. Nothing but Python is imported where the shard is there.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shlex
import subprocess
import sys
from typing import Any, BinaryIO, Dict, Iterator, List, Tuple

_CHUNK = 1 << 20


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    with open(path, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _is_free(path: str) -> bool:
    """Whether nobody holds a lock."""
    try:
        with open(path, "a") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False


def _files(folder: str) -> List[Tuple[float, int, str]]:
    """(when it was used, bytes, path) of all that counts."""
    found = []
    for entry in os.scandir(folder):
        if entry.name.endswith((".shard", ".part")):
            try:
                about = entry.stat()
            except FileNotFoundError:
                continue
            found.append((about.st_mtime, about.st_size, entry.path))
    return found


def _make_room(folder: str, own: str, bytes_: int, limit: int) -> bool:
    """Removes entries until there is room for so many bytes more, under the lock of all. own: a part that stays."""
    files = _files(folder)
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total + bytes_ <= limit:
            break
        if path != own and (path.endswith(".shard") or _is_free(path[:-5] + ".lock")):
            os.unlink(path)                     # who reads it has it open
            total -= size
    return total + bytes_ <= limit


def _chunks(source: str) -> Iterator[bytes]:
    """The bytes of a source, from elsewhere."""
    if source.startswith("pipe:"):
        with subprocess.Popen(source[5:], shell=True, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            while True:
                data = process.stdout.read(_CHUNK)
                if not data:
                    break
                yield data
        if process.returncode:
            raise OSError("it ended with status %d" % process.returncode)
        return
    from benzina._remote import chunks_of
    yield from chunks_of(source, _CHUNK)


def _fetch(folder: str, limit: int, source: str, name: str) -> Any:
    """Keeps a source, and opens it; None: there is no room. The entry's lock is held, so nobody who reads slowly is
    waited for here."""
    part, whole = os.path.join(folder, name + ".part"), os.path.join(folder, name + ".shard")
    try:
        with open(part, "wb") as file:
            for data in _chunks(source):
                with _locked(os.path.join(folder, "all.lock")):
                    if limit and not _make_room(folder, part, len(data), limit):
                        return None
                    file.write(data)
                    file.flush()
            os.fsync(file.fileno())
        kept = open(part, "rb")
        os.rename(part, whole)
        part = ""
        return kept
    finally:
        if part:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(part)


def _open(path: str) -> Any:
    try:
        file = open(path, "rb")
    except FileNotFoundError:
        return None
    with contextlib.suppress(OSError):
        os.utime(path)                          # it was used now
    return file


def get(folder: str, limit: int, source: str, out: BinaryIO) -> None:
    """Writes the bytes of a source to out. limit: bytes of the folder; 0: none."""
    os.makedirs(folder, exist_ok=True)
    name = hashlib.sha256(source.encode("utf-8", "surrogateescape")).hexdigest()[:40]
    path = os.path.join(folder, name + ".shard")
    file = _open(path)
    if file is None:
        with _locked(os.path.join(folder, name + ".lock")):     # one process fetches, the others wait
            file = _open(path) or _fetch(folder, limit, source, name)
    if file is None:
        for data in _chunks(source):
            out.write(data)
        return
    with file:
        while True:
            data = file.read(_CHUNK)
            if not data:
                return
            out.write(data)


_variables: Dict[Tuple[str, int], str] = {}     # of this process: (folder, limit) -> the variable that has its command


def cached_source(source: str, folder: str, limit: int) -> str:
    """The command by which a stream reads a source through the cache. The folder stands in the environment, so that a
    saved state fits another one."""
    key = os.path.abspath(folder), limit
    if key not in _variables:
        _variables[key] = "BENZINA_CACHE" + ("_%d" % len(_variables) if _variables else "")
        command = [sys.executable or "python3", os.path.abspath(__file__), key[0], str(limit)]
        os.environ[_variables[key]] = " ".join(map(shlex.quote, command))
    return "pipe:shard=%s; eval \"exec $%s \\\"\\$shard\\\"\"" % (shlex.quote(source), _variables[key])


def main(arguments: List[str]) -> None:
    # not the folder of the package, in which there is a torch
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    folder, limit, source = arguments
    try:
        get(folder, int(limit), source, sys.stdout.buffer)
        sys.stdout.buffer.flush()
    except BrokenPipeError:                     # who reads has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)
    except Exception as error:
        sys.exit("%s: %s" % (source, error))


if __name__ == "__main__":
    main(sys.argv[1:])
