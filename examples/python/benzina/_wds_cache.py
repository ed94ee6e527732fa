"""WebDataset's caches, by its names. They are members of benzina.wds.

FileCache keeps shards of URLs and pipes in a folder, under their own names: what WebDataset(cache_dir=) reads them by.
benzina.Stream(cache=, cache_bytes=) fetches each shard once for all processes, and keeps its folder's size at any time.
"""
from __future__ import annotations

import contextlib
import os
import pickle
import sys
import time
import urllib.parse
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

from . import _cache
from ._decoders import needed
from ._wds_utils import gopen, is_local, local_path, opened_url

_CHUNK = 1 << 20
_KNOWN = ("", "file", "http", "https", "ftp", "ftps", "gs", "s3", "ais", "hf", "az")


def _reraise(error: Exception) -> bool:
    raise error


def url_to_cache_name(url: str, ndir: int = 0) -> str:
    """What a URL is called in a cache: the last part of its path, and ndir folders above it; of "pipe:" and others, the
    end of the whole, quoted."""
    if not isinstance(url, str):
        raise AssertionError("url: %r is no text" % (url,))
    parts = urllib.parse.urlparse(url)
    if parts.scheme not in _KNOWN:
        return urllib.parse.quote(url, safe="_+{}*,-")[-128:]
    return "/".join(parts.path.lstrip("/").split("/")[-1 - ndir:])


def is_tar(path: str) -> bool:
    """Whether a file begins as a tar, or as what gzip packed."""
    with open(path, "rb") as file:
        head = file.read(512)
    return head[:2] == b"\x1f\x8b" or head[257:262] == b"ustar" or (len(head) == 512 and not any(head))


class LRUCleanup:
    """Removes files of a folder, those first that were used longest ago, until it has at most cache_size bytes.

    keyfn: when a file was used. interval: seconds in which nothing is done after the last time."""

    def __init__(self, cache_dir: Any = None, cache_size: float = int(1e12), keyfn: Any = os.path.getctime,
                 verbose: bool = False, interval: Optional[float] = 30) -> None:
        self.cache_dir, self.cache_size, self.keyfn = cache_dir, cache_size, keyfn
        self.verbose, self.interval, self.last_run = verbose, interval, float("-inf")

    def set_cache_dir(self, cache_dir: Any) -> None:
        self.cache_dir = cache_dir

    def cleanup(self) -> None:
        if self.interval is not None and time.monotonic() - self.last_run < self.interval:
            return
        files: List[Tuple[float, int, str]] = []
        for folder, _, names in os.walk(self.cache_dir):
            for path in (os.path.join(folder, name) for name in names):
                with contextlib.suppress(OSError):      # another process may remove it
                    files.append((self.keyfn(path), os.path.getsize(path), path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= self.cache_size:
                break
            if self.verbose:
                print("# removing %s" % path, file=sys.stderr)
            with contextlib.suppress(OSError):
                os.remove(path)                 # who reads it has it open
            total -= size
        self.last_run = time.monotonic()


class FileCache:
    """Local files of shards that are elsewhere. As a stage, it opens {"url": ...}: {"url", "stream", "local_path"}.

    cache_dir     the folder; None: $WDS_CACHE, or _cache
    url_to_name   a function that names files of the folder
    validator     a function that says whether a file was fetched well; None: all were
    cache_size    bytes; when a shard is fetched, those that were used longest ago go first; not above 0: no limit"""

    def __init__(self, cache_dir: Any = None, *, url_to_name: Callable[[str], str] = url_to_cache_name,
                 verbose: bool = False, validator: Optional[Callable[[str], bool]] = is_tar,
                 handler: Callable[[Exception], bool] = _reraise, cache_size: float = -1,
                 cache_cleanup_interval: float = 30) -> None:
        self.cache_dir = os.path.expanduser(os.fspath(cache_dir or os.environ.get("WDS_CACHE", "_cache")))
        self.url_to_name, self.validator, self.handler, self.verbose = url_to_name, validator, handler, verbose
        self.cleaner = None
        if cache_size > 0:
            self.cleaner = LRUCleanup(self.cache_dir, cache_size, verbose=verbose, interval=cache_cleanup_interval)

    def get_file(self, url: str) -> str:
        """The path of a shard, which is fetched if it is not there."""
        if is_local(url):
            return local_path(url)
        name = self.url_to_name(url)
        if not name or name in (".", "..") or "/" in name:
            raise ValueError("cache_dir: %r is no name for a file of %s: url_to_name makes others" % (name, url))
        path = os.path.join(self.cache_dir, name)
        with contextlib.suppress(OSError):
            os.utime(path)                      # it is used now
            return path
        if self.cleaner is not None:
            self.cleaner.cleanup()
        if self.verbose:
            print("# fetching %s" % url, file=sys.stderr)
        self._fetch(url, path)
        return path

    def _fetch(self, url: str, path: str) -> None:
        """By another name until it is whole: another process never sees a part."""
        os.makedirs(self.cache_dir, exist_ok=True)
        part = os.path.join(self.cache_dir, ".part-%d-%s" % (os.getpid(), os.urandom(6).hex()))
        try:
            with open(part, "xb") as file:
                for data in _cache._chunks(opened_url(url)):
                    file.write(data)
            if self.validator is not None and not self.validator(part):
                with open(part, "rb") as file:
                    raise ValueError("%s: it is no tar: it begins with %r" % (url, file.read(64)))
            os.rename(part, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(part)
            raise

    def __call__(self, urls: Iterable[Any]) -> Iterator[Dict[str, Any]]:
        for shard in urls:
            url = shard["url"] if isinstance(shard, dict) else shard
            try:
                path = self.get_file(url)
                stream = open(path, "rb")
            except Exception as error:
                if self.handler(error):
                    continue
                return
            yield {"url": url, "stream": stream, "local_path": path}


class StreamingOpen:
    """The stage that opens {"url": ...}: {"url", "stream"}, with "local_path" of files."""

    def __init__(self, verbose: bool = False, handler: Callable[[Exception], bool] = _reraise) -> None:
        self.verbose, self.handler = verbose, handler

    def __call__(self, urls: Iterable[Any]) -> Iterator[Dict[str, Any]]:
        for shard in urls:
            url = shard["url"] if isinstance(shard, dict) else shard
            try:
                stream = gopen(url)
            except Exception as error:
                if self.handler(error):
                    continue
                return
            yield {"url": url, "stream": stream, **({"local_path": local_path(url)} if is_local(url) else {})}


class LMDBCached:
    """Keeps what comes in in a database of lmdb during the first pass, and gives it again, in the same order; also in
    other runs. Samples are pickled: who can write the file can run code here.

    map_size      bytes that the file may have
    pickler       a module with dumps and loads
    chunksize     samples that are written at a time"""

    _END = b"_"                                 # the key that says that all samples are there

    def __init__(self, fname: Any, map_size: float = 1e12, pickler: Any = pickle, chunksize: int = 500) -> None:
        self.fname, self.map_size, self.pickler, self.chunksize = os.fspath(fname), int(map_size), pickler, chunksize
        self._opened: Any = None
        needed("lmdb")

    def __getstate__(self) -> Dict[str, Any]:
        return {**vars(self), "_opened": None}

    @property
    def db(self) -> Any:
        if self._opened is None or self._opened[0] != os.getpid():      # a database is not used across a fork
            self._opened = os.getpid(), needed("lmdb").open(self.fname, map_size=self.map_size)
        return self._opened[1]

    def is_complete(self) -> bool:
        with self.db.begin() as reading:
            return reading.get(self._END) is not None

    def _add(self, samples: List[Any], first: int) -> None:
        with self.db.begin(write=True) as writing:
            for number, sample in enumerate(samples, first):
                writing.put(b"%012d" % number, self.pickler.dumps(sample))

    def __call__(self, src: Iterable[Any]) -> Iterator[Any]:
        if self.is_complete():
            with self.db.begin() as reading:
                for key, value in reading.cursor():
                    if key != self._END:
                        yield self.pickler.loads(value)
            return
        waiting: List[Any] = []
        count = 0
        for sample in src:
            waiting.append(sample)
            if len(waiting) >= self.chunksize:
                self._add(waiting, count)
                count, waiting = count + len(waiting), []
            yield sample
        self._add(waiting, count)
        with self.db.begin(write=True) as writing:
            writing.put(self._END, b"1")
