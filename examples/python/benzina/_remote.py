"""Data sets that are elsewhere: URLs, and how they are opened."""
from __future__ import annotations

import concurrent.futures
import ctypes
import errno
import os
import re
import urllib.parse
import weakref
from typing import Any, Dict, Iterator, List, Mapping, Optional

from . import _arguments as arg
from . import _c, _handles
from ._blocks import Blocks, RemoteSource, RemoteStatistics
from ._c import Status, formats, lib
from ._errors import Error, RemoteFailure, check
from ._fsspec import FsspecFile, system_of, within
from ._sources import _close_thunk, _Failure, _read_at_thunk, _size_thunk, expanded

READERS, READ_AHEAD = 16, 64                    # of a DataLoader that is not told how many

_KINDS = ".bzna", ".tar", ".rec"
_OPENING = 16                                   # at once
# of fsspec: "zip://a.tar::s3://b/c.zip"
_CHAINED = {"zip", "tar", "libarchive", "filecache", "simplecache", "blockcache", "cached", "dir"}


def is_url(thing: Any) -> bool:
    """A path that exists is one, whatever it is called."""
    if not isinstance(thing, (str, bytes, os.PathLike)):
        return False
    text = os.fsdecode(thing)
    return (
        bool(re.match(r"[A-Za-z][A-Za-z0-9+.-]+(?:://|::)", text))
        and "://" in text
        and "\0" not in text
        and not os.path.exists(text)
    )


def has_url(source: Any) -> bool:
    return any(map(is_url, source)) if isinstance(source, (list, tuple)) else is_url(source)


class Remote(_Failure):
    """What a Dataset has of files that are elsewhere. The files are the library's."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks

    def statistics(self) -> RemoteStatistics:
        return self._blocks.statistics()


class _Settings:
    """block_size, cache_bytes, retries, timeout and storage_options, checked; and what files share."""

    def __init__(
        self,
        block_size: int,
        cache_bytes: int,
        retries: int,
        timeout: float,
        storage_options: Optional[Mapping[str, Any]],
    ) -> None:
        block_size = arg.number("block_size", block_size, ctypes.c_uint32, 4096, 64 << 20)
        cache_bytes = arg.number("cache_bytes", cache_bytes, ctypes.c_uint64)
        if cache_bytes and cache_bytes < 4 * block_size:
            raise ValueError(
                "cache_bytes, block_size: %d bytes have no room for 4 blocks of %d; 0 is no cache"
                % (cache_bytes, block_size)
            )
        self.blocks = Blocks(block_size, cache_bytes, arg.number("retries", retries, ctypes.c_uint32, 0, 100))
        self.timeout = arg.number("timeout", timeout, ctypes.c_double, 0.001)
        if storage_options is not None and not isinstance(storage_options, Mapping):
            raise TypeError("storage_options: %r is no dict" % (storage_options,))
        from ._http import Pool                 # and with it ssl, which data sets of local files do without
        self.options, self.pool = storage_options, Pool()

    def file(self, url: str) -> Any:
        if _scheme(url) in ("http", "https"):
            from ._http import HttpFile
            return HttpFile(url, self.options, self.timeout, self.pool)
        return FsspecFile(url, *system_of(url, self.options), self.timeout)


def _scheme(url: str) -> str:
    return re.split(r"://|::", url, maxsplit=1)[0].lower()


def _parts(text: str) -> List[str]:
    """What "::" separates, but for chains of fsspec's."""
    parts: List[str] = []
    for part in text.split("::"):
        if parts and _scheme(parts[-1].rsplit("::", 1)[-1]) in _CHAINED:
            parts[-1] += "::" + part
        else:
            parts.append(part)
    return parts


def _found(url: str, settings: _Settings) -> List[str]:
    """The files that a URL stands for: those of a pattern, or of a folder, where the file system can list."""
    if _scheme(url) in ("http", "https"):
        if set(urllib.parse.urlsplit(url).path) & set("*["):
            raise ValueError(
                "%s: web servers do not list their files: write {0..9} and {a,b} instead of * and [ab]" % url
            )
        return [url]
    system, path = system_of(url, settings.options)
    try:
        if set(path) & set("*?["):
            names = within(settings.timeout, system.glob, path)
            if not names:
                raise Error(Status.E_NOT_FOUND, "%s: no file matches" % url, native_code=errno.ENOENT)
        elif "." in url.rpartition("/")[2]:     # a file; one that is none says so when it is opened
            return [url]
        else:
            if within(settings.timeout, system.info, path).get("type") != "directory":
                return [url]
            names = [
                entry["name"]
                for entry in within(settings.timeout, system.ls, path, detail=True)
                if entry["type"] == "file"
            ]
            names = [name for name in names if name.endswith(_KINDS)]
            if not names:
                raise Error(
                    Status.E_UNSUPPORTED,
                    "%s: a folder elsewhere is opened where it holds *.bzna, *.tar or *.rec: pack pictures first "
                    "(bzna pack)" % url,
                )
    except RemoteFailure as failure:
        raise _error_of(failure, url) from failure.__cause__
    if "::" in url:
        head, _, rest = url.partition("::")
        return ["%s://%s::%s" % (_scheme(head), name.lstrip("/"), rest) for name in sorted(names)]
    return [system.unstrip_protocol(name) for name in sorted(names)]


def _error_of(failure: RemoteFailure, url: str) -> Error:
    text = failure.text if failure.name else "%s: %s" % (url, failure.text)
    status = Status.E_NOT_FOUND if failure.kind == errno.ENOENT else Status.E_IO
    return Error(status, text, native_code=failure.kind)


def names_of(source: Any, settings: _Settings) -> List[str]:
    """All files and local paths, in order."""
    names: List[str] = []
    for one in source if isinstance(source, (list, tuple)) else [source]:
        if not is_url(one):
            names.append(os.fsdecode(one))
            continue
        for part in _parts(os.fsdecode(one)):
            for text in expanded(part):
                names.extend(_found(text, settings) if is_url(text) else [text])
    return names


def open_urls(source: Any, context: Any, config: Any, **more: Any) -> Any:
    """(the library's handle, a Remote)"""
    settings = _Settings(**more)
    remote, names = Remote(settings.blocks), names_of(source, settings)
    for setting in ("name", "index"):
        if getattr(config, setting) and len(names) > 1:
            raise ValueError("%s: it is for one file, and these are %d" % (setting, len(names)))
    settings.pool.use()                         # connections of files that are opened are kept for those after them
    opened: Dict[int, Any] = {}
    try:
        with concurrent.futures.ThreadPoolExecutor(min(_OPENING, len(names))) as executor:
            tasks = [executor.submit(_open_one, name, context, config, settings, remote) for name in names]
            try:
                for i, task in enumerate(tasks):
                    opened[i] = task.result()
            except BaseException:
                for task in tasks:
                    task.cancel()
                concurrent.futures.wait(tasks)
                for i, task in enumerate(tasks):
                    if not task.cancelled() and task.exception() is None:
                        opened[i] = task.result()
                raise
        if len(names) == 1:
            return opened.pop(0), remote
        handle, err = ctypes.c_void_p(), _c.new("error")
        parts = (ctypes.c_void_p * len(names))(*(opened[i] for i in range(len(names))))
        check(lib.bzna_dataset_concat(context.handle, parts, len(names), handle, err), err)
        return handle, remote
    finally:
        for part in opened.values():
            lib.bzna_dataset_close(part)
        settings.pool.leave()


def _index_of(url: str, settings: _Settings) -> Optional[bytes]:
    """NAME.idx beside NAME.tar or NAME.rec, without which those are walked over; None: there is none."""
    if not url.endswith((".tar", ".rec")):
        return None
    file = settings.file(url[:-4] + ".idx")
    over = RemoteSource(file, settings.blocks)
    try:
        over.open()
        data = bytearray(over.size())
        over.read_into(0, memoryview(data))
        return bytes(data)
    except RemoteFailure as failure:
        if failure.kind in (errno.ENOENT, errno.EACCES):        # servers that list nothing may refuse what is not there
            return None
        raise
    finally:
        over.close()


def chunks_of(url: str, size: int) -> Iterator[bytes]:
    """The bytes of one file, from the front. An Error, where it ends too early or changes."""
    settings = _Settings(block_size=4096, cache_bytes=0, retries=4, timeout=30.0, storage_options=None)
    settings.pool.use()
    over = RemoteSource(settings.file(url), settings.blocks)
    try:
        over.open()
        length = over.size()
        for at in range(0, length, size):
            data = bytearray(min(size, length - at))
            if over.read_into(at, memoryview(data)) != len(data):
                raise RemoteFailure("it ended after %d of %d bytes" % (at, length))
            yield bytes(data)
    except RemoteFailure as failure:
        raise _error_of(failure, url) from failure.__cause__
    finally:
        over.close()
        settings.pool.leave()


def whole_file(url: str, **more: Any) -> bytes:
    """The bytes of one file. more: as open_urls takes them."""
    given: Dict[str, Any] = dict(block_size=1 << 20, cache_bytes=0, retries=4, timeout=30.0, storage_options=None)
    given.update(more)
    settings = _Settings(**given)
    settings.pool.use()
    over = RemoteSource(settings.file(url), settings.blocks)
    try:
        over.open()
        data = bytearray(over.size())
        over.read_into(0, memoryview(data))
        return bytes(data)
    except RemoteFailure as failure:
        raise _error_of(failure, url) from failure.__cause__
    finally:
        over.close()
        settings.pool.leave()


def _open_one(name: str, context: Any, config: Any, settings: _Settings, remote: Remote) -> Any:
    handle, err = ctypes.c_void_p(), _c.new("error")
    if not is_url(name):
        config = _c.with_formats(config)
        check(formats.bzna_formats_open(context.handle, arg.path_bytes(name), config, handle, err), err)
        return handle
    file = settings.file(name)
    try:
        over = RemoteSource(file, settings.blocks)
        over.open()
        index = None if config.index else _index_of(name, settings)
    except RemoteFailure as failure:
        file.close()
        raise _error_of(failure, file.name) from failure.__cause__
    except BaseException:
        file.close()
        raise
    over.kept = weakref.ref(remote)             # type: ignore[attr-defined]
    key = _handles.register(over)
    own = type(config).from_buffer_copy(config)
    own.pairs, own.list = getattr(config, "pairs", None), getattr(config, "list", None)
    own.records, own.hold_bytes = getattr(config, "records", None), getattr(config, "hold_bytes", 0)
    own.name = config.name or file.name.encode("utf-8", "surrogateescape")
    if index:
        own.index, own.index_bytes = ctypes.cast(index, ctypes.c_void_p).value, len(index)
    callbacks = _c.new("source")
    callbacks.user, callbacks.close, callbacks.read_at, callbacks.size = key, _close_thunk, _read_at_thunk, _size_thunk
    status = formats.bzna_formats_open_source(context.handle, callbacks, _c.with_formats(own), handle, err)
    if status < 0:
        _close_thunk(key)
    check(status, err, remote.failure)
    return handle
