"""Sources and stages of WebDataset's DataPipeline, by its names. They are members of benzina.wds.

    >>> from benzina import wds
    >>> pipeline = wds.DataPipeline(wds.SimpleShardList("shard-{000..002}.tar"), wds.tarfile_to_samples(),
    ...                             wds.shuffle(100), wds.decode("rgb8"), wds.to_tuple("png", "cls"))
    >>> sum(1 for picture, label in pipeline)
    4

Shards are read from the front, so that .tgz and pipes are read as they come.
"""
from __future__ import annotations

import fnmatch
import glob
import io
import itertools
import os
import random
import re
import sys
import tarfile
import time
from functools import partial as bound
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

from . import _wds_cache, _wds_utils, _wds_writer, wds
from ._decoders import DECODERS, SPECS, Handler, Spec, is_picture, picture_of, spec_of, torch_loads, unpickle_loads
from ._sources import expanded
from ._wds_utils import gopen

Sample = Dict[str, Any]


# ---- Sources ---------------------------------------------------------------------------------------------------------

class SimpleShardList(wds._Base):               # type: ignore[misc]
    """The shards of a pattern or a list, as {"url": ...}; with a seed, in an order that follows from it."""

    def __init__(self, urls: Any, seed: Optional[int] = None) -> None:
        self.urls, self.seed = wds._urls_of(urls), seed

    def __len__(self) -> int:
        return len(self.urls)

    def __iter__(self) -> Iterator[Sample]:
        urls = list(self.urls)
        if self.seed is not None:
            random.Random(self.seed).shuffle(urls)
        return ({"url": url} for url in urls)


class ResampledShards(wds._Base):               # type: ignore[misc]
    """nshards shards, each any of a pattern or a list; deterministic: by seed and the number of the pass alone."""

    def __init__(self, urls: Any, nshards: int = sys.maxsize, seed: int = 0, worker_seed: Any = None,
                 deterministic: bool = False, max_urls: int = 1000000, empty_check: bool = True) -> None:
        self.urls = wds._urls_of(urls)
        if empty_check and not self.urls:
            raise ValueError("urls: %r: there are no shards" % (urls,))
        self.nshards, self.seed, self.deterministic, self.epoch = nshards, seed, deterministic, -1
        self.worker_seed = _worker_seed if worker_seed is None else worker_seed

    def __iter__(self) -> Iterator[Sample]:
        self.epoch += 1
        others = "" if self.deterministic else os.urandom(8).hex()
        rng = random.Random("%s %d %s %s" % (self.worker_seed(), self.epoch, self.seed, others))
        return ({"url": rng.choice(self.urls)} for _ in range(self.nshards))


def _worker_seed() -> int:
    return wds._node()[0] * 1000 + wds._worker()[0]


class DirectoryShardList(wds._Base):            # type: ignore[misc]
    """The shards of a folder, also those that appear there later. Several processes may take from it: while a shard is
    in use, it is called NAME._PROCESS_.

    pattern       of the names, "*.{tar,tgz}"
    poll          seconds after which a folder without shards is looked at again; None: then the list ends
    timeout       seconds without any shard, after which the list ends
    mode          what becomes of a shard after its use: "resample": it has its former name again; "unlink": it is
                  removed; "keep": it is called NAME._done_
    select        "random", or "oldest" first"""

    def __init__(self, path: Any, pattern: str = "*.{tar,tgz,tar.gz}", poll: Optional[float] = 1, timeout: float = 1e12,
                 mode: str = "resample", select: str = "random", fate: Any = None) -> None:
        if not os.path.isdir(path):
            raise ValueError("path: %s is no folder" % (path,))
        for name, value, known in (
            ("mode", mode, ("resample", "unlink", "keep")),
            ("select", select, ("random", "oldest")),
        ):
            if value not in known:
                raise ValueError("%s: %r is none of %s" % (name, value, ", ".join(known)))
        self.path, self.pattern, self.poll, self.timeout = os.fspath(path), pattern, poll, timeout
        self.mode, self.select, self.fate = mode, select, fate

    def recycle(self, activename: str) -> None:
        """What mode says, of a shard that was in use."""
        former = activename[:activename.rindex("._")]
        if self.mode == "unlink":
            os.unlink(activename)
        else:
            os.rename(activename, former + ("._done_" if self.mode == "keep" else ""))

    def cleanup_files_without_processes(self) -> None:
        """The same, of shards whose processes have ended."""
        for name in glob.glob(os.path.join(glob.escape(self.path), "*._*_")):
            found = re.search(r"[.]_(\d+)_$", name)
            if found is not None and not _is_running(int(found[1])):
                try:
                    self.recycle(name)
                except FileNotFoundError:       # another process was first
                    pass

    def _found(self) -> List[str]:
        return [name for pattern in expanded(self.pattern)
                for name in glob.glob(os.path.join(glob.escape(self.path), pattern))]

    def __iter__(self) -> Iterator[Sample]:
        since = time.monotonic()
        while time.monotonic() - since < self.timeout:
            found = sorted(self._found())
            if not found and self.poll is None:
                return
            active = None
            if found:
                try:
                    shard = (random.choice(found) if self.select == "random" else
                             min(found, key=lambda name: os.stat(name).st_mtime_ns))
                    active = "%s._%d_" % (shard, os.getpid())
                    os.rename(shard, active)
                except FileNotFoundError:       # another process has taken it
                    active = None
            if active is None:
                time.sleep(self.poll or 0)
                continue
            yield {"url": active}
            self.recycle(active)
            self.cleanup_files_without_processes()
            since = time.monotonic()


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):    # another user's
        return True
    return True


class MockDataset(wds._Base):                   # type: ignore[misc]
    """The same sample, length times."""

    def __init__(self, sample: Any, length: int) -> None:
        self.sample, self.length = sample, length

    def __iter__(self) -> Iterator[Any]:
        return itertools.repeat(self.sample, self.length)


class with_epoch(wds._Base):                    # type: ignore[misc]
    """length samples of a data set an epoch, which goes on where the epoch before ended."""

    def __init__(self, dataset: Any, length: int) -> None:
        self.dataset, self.length = dataset, length
        self._rest: Iterator[Any] = iter(())

    def __getstate__(self) -> Dict[str, Any]:
        return {**vars(self), "_rest": iter(())}

    def __iter__(self) -> Iterator[Any]:
        for _ in range(self.length):
            try:
                sample = next(self._rest)
            except StopIteration:
                self._rest = iter(self.dataset)
                try:
                    sample = next(self._rest)
                except StopIteration:
                    return
            yield sample


class with_length(wds._Base):                   # type: ignore[misc]
    """A data set whose len() is length."""

    def __init__(self, dataset: Any, length: int) -> None:
        self.dataset, self.length = dataset, length

    def __iter__(self) -> Iterator[Any]:
        return iter(self.dataset)

    def __len__(self) -> int:
        return self.length


class RoundRobin(wds._Base):                    # type: ignore[misc]
    """A sample of each data set in turn, until one of them ends; longest: until all have ended."""

    def __init__(self, datasets: Iterable[Any], longest: bool = False) -> None:
        self.datasets, self.longest = list(datasets), longest

    def __iter__(self) -> Iterator[Any]:
        sources = [iter(dataset) for dataset in self.datasets]
        at = 0
        while sources:
            at %= len(sources)
            try:
                sample = next(sources[at])
            except StopIteration:
                if not self.longest:
                    return
                del sources[at]
                continue
            yield sample
            at += 1


class RandomMix(wds._Base):                     # type: ignore[misc]
    """A sample of any data set, as likely as probs say, until one of them ends; longest: until all have ended. seed:
    None: another order in each pass."""

    def __init__(self, datasets: Iterable[Any], probs: Optional[Iterable[float]] = None, longest: bool = False,
                 seed: Optional[int] = None) -> None:
        self.datasets, self.longest, self.seed = list(datasets), longest, seed
        self.probs = None if probs is None else list(probs)
        if self.probs is not None and (len(self.probs) != len(self.datasets) or min(self.probs, default=1) < 0):
            raise ValueError("probs: %r is not a weight for each of %d data sets" % (self.probs, len(self.datasets)))

    def __iter__(self) -> Iterator[Any]:
        rng = random.Random(self.seed)
        sources = [iter(dataset) for dataset in self.datasets]
        weights = [1.0] * len(sources) if self.probs is None else list(self.probs)
        while any(weights):
            at, = rng.choices(range(len(sources)), weights)
            try:
                sample = next(sources[at])
            except StopIteration:
                if not self.longest:
                    return
                del sources[at], weights[at]
                continue
            yield sample


def FluidWrapper(initial: Any) -> Any:
    """A pipeline over anything that can be iterated, so that it has the stages as methods."""
    return wds.DataPipeline(initial)


# ---- Tars ------------------------------------------------------------------------------------------------------------

def _members(url: str, select: Any, rename: Any) -> Iterator[Tuple[str, bytes]]:
    """(name, bytes) of the files of a shard."""
    with gopen(url) as stream, tarfile.open(fileobj=stream, mode="r|*") as tar:
        for member in tar:
            name = member.name
            if not member.isreg() or re.match(r"^__[^/]*__($|/)", name):
                continue
            name = rename(name) if rename else name
            if select is None or select(name):
                file = tar.extractfile(member)
                assert file is not None
                yield name, file.read()
            setattr(tar, "members", [])         # of which it would keep all


def _key_of(name: str) -> Optional[Tuple[str, str]]:
    """(key, extension) of a file: what is before and behind the first point of its name without folders."""
    found = re.match(r"^((?:.*/|)[^.]+)[.]([^/]*)$", name)
    return None if found is None else (found[1], found[2].lower())


def _grouped(url: str, path: Optional[str], members: Iterable[Tuple[str, bytes]]) -> Iterator[Sample]:
    sample: Sample = {}
    for name, data in members:
        parts = _key_of(name)
        if parts is None:
            continue
        key, extension = parts
        if sample.get("__key__") != key:
            if sample:
                yield sample
            sample = wds._named(key, url, path)
        if extension in sample:
            raise ValueError("%s: duplicate file name in tar file: %s.%s" % (url, key, extension))
        sample[extension] = data
    if sample:
        yield sample


def tarfile_samples(src: Iterable[Any], handler: Any = wds.reraise_exception, select_files: Any = None,
                    rename_files: Any = None) -> Iterator[Sample]:
    """The samples of shards, {"url": ...}. Of a shard that breaks off, those before come first."""
    for shard in src:
        url, path = (shard["url"], shard.get("local_path")) if isinstance(shard, dict) else (shard, None)
        try:
            yield from _grouped(url, path, _members(path or url, select_files, rename_files))
        except (tarfile.TarError, EOFError, OSError, ValueError) as error:
            error.args = (*error.args[:1], url) if len(error.args) == 1 else error.args
            if not handler(error):
                return


def tarfile_to_samples(handler: Any = wds.reraise_exception, select_files: Any = None, rename_files: Any = None) -> Any:
    return bound(tarfile_samples, handler=handler, select_files=select_files, rename_files=rename_files)


# ---- Stages ----------------------------------------------------------------------------------------------------------

def resampled(nshards: int = sys.maxsize) -> Any:
    """So many of what comes in, each any of it."""
    return bound(_resampled, count=nshards)


def _resampled(src: Iterable[Any], count: int) -> Iterator[Any]:
    rng, items = random.Random(), list(src)
    return (rng.choice(items) for _ in range(count))


def non_empty(src: Iterable[Any]) -> Iterator[Any]:
    """All that comes in; a ValueError if that is nothing."""
    is_empty = True
    for sample in src:
        is_empty = False
        yield sample
    if is_empty:
        raise ValueError("pipeline stage received no data at all and this was declared as an error")


def shuffle(bufsize: int = 1000, initial: int = 100, rng: Any = None, seed: Optional[int] = None,
            handler: Any = None) -> Any:
    return wds._Shuffle(bufsize, initial, rng, seed)


class detshuffle:
    """shuffle() by seed and the number of the pass."""

    def __init__(self, bufsize: int = 1000, initial: int = 100, seed: int = 0, epoch: int = -1) -> None:
        self.bufsize, self.initial, self.seed, self.epoch = bufsize, initial, seed, epoch

    def __call__(self, src: Iterable[Any]) -> Iterator[Any]:
        self.epoch += 1
        rng = random.Random(self.seed + self.epoch)
        return wds._Shuffle(self.bufsize, self.initial, rng).draw(src, 0, 0)


def decode(*args: Any, pre: Any = None, post: Any = None, only: Any = None, partial: bool = False,
           handler: Any = wds.reraise_exception, **loader: Any) -> Any:
    return wds._Decode(args, pre, post, only, partial, handler, loader)


def select(predicate: Callable[[Any], Any]) -> Any:
    return bound(wds._select, predicate=predicate)


def map(f: Callable[[Any], Any], handler: Any = wds.reraise_exception) -> Any:
    return bound(wds._map, f=f, handler=handler)


def map_dict(handler: Any = wds.reraise_exception, **kw: Callable[[Any], Any]) -> Any:
    return bound(wds._map_dict, functions=kw, handler=handler)


def map_tuple(*args: Optional[Callable[[Any], Any]], handler: Any = wds.reraise_exception) -> Any:
    return bound(wds._map_tuple, functions=args, handler=handler)


def to_tuple(*args: Any, handler: Any = wds.reraise_exception, missing_is_error: bool = True,
             none_is_error: Optional[bool] = None) -> Any:
    names = args[0].split() if len(args) == 1 and isinstance(args[0], str) else args
    return bound(wds._to_tuple, names=names, handler=handler, missing_is_error=missing_is_error,
                 none_is_error=missing_is_error if none_is_error is None else none_is_error)


def rename(handler: Any = wds.reraise_exception, keep: bool = True, **kw: Any) -> Any:
    return bound(wds._rename, names=kw, keep=keep, handler=handler)


def slice(*args: Any) -> Any:
    return bound(wds._sliced, limits=args)


def rsample(p: float = 0.5) -> Any:
    return bound(wds._rsample, p=p)


def batched(batchsize: int = 20, collation_fn: Any = wds.default_collation_fn, partial: bool = True) -> Any:
    return bound(wds._batched, size=batchsize, collation_fn=collation_fn, partial=partial)


def listed(batchsize: int = 20, partial: bool = True) -> Any:
    return batched(batchsize, None, partial)


def unbatched() -> Any:
    return wds._unbatched


def unlisted() -> Any:
    return wds._unlisted


def associate(associator: Any) -> Any:
    """What a function, or a dict, has for the key of each sample is added to it."""
    return bound(_associate, associator=associator)


def _associate(src: Iterable[Sample], associator: Any) -> Iterator[Sample]:
    for sample in src:
        key = sample["__key__"]
        sample.update(associator(key) if callable(associator) else associator.get(key, {}))
        yield sample


def extract_keys(*patterns: Any, duplicate_is_error: bool = True, ignore_missing: bool = False) -> Any:
    """Tuples of the values whose keys match patterns, "*.png;*.jpg", each one."""
    return bound(_extract_keys, patterns=patterns, is_single=duplicate_is_error, ignore_missing=ignore_missing)


def _matches(key: str, pattern: str) -> bool:
    return fnmatch.fnmatch("." + key, pattern) or fnmatch.fnmatch(key, pattern)


def _extract_keys(src: Iterable[Sample], patterns: Any, is_single: bool, ignore_missing: bool) -> Iterator[Any]:
    for sample in src:
        values = []
        for pattern in patterns:
            choices = pattern.split(";") if isinstance(pattern, str) else list(pattern)
            keys = [key for key in sample if any(_matches(key, one) for one in choices)]
            if not keys and not ignore_missing:
                raise ValueError("extract_keys: no key of %s matches %s" % (list(sample), choices))
            if len(keys) > 1 and is_single:
                raise ValueError("extract_keys: keys %s match %s" % (keys, choices))
            values += [sample[key] for key in keys[:1]]
        yield tuple(values)


def rename_keys(*args: Tuple[str, str], keep_unselected: bool = False, must_match: bool = True,
                duplicate_is_error: bool = True, **kw: str) -> Any:
    """Samples whose keys that match a pattern have its name: rename_keys(image="*.png") or ("image", "*.png"). Of those
    that match several, the last one counts."""
    return bound(_rename_keys, renamings=[*args, *kw.items()], keep=keep_unselected, must_match=must_match,
                 is_single=duplicate_is_error)


def _rename_keys(src: Iterable[Sample], renamings: List[Tuple[str, str]], keep: bool, must_match: bool,
                 is_single: bool) -> Iterator[Sample]:
    for sample in src:
        made: Sample = {}
        matched = set()
        for key, value in sample.items():
            base = key.rsplit("/", 1)[-1].lower()
            found = next(((name, pattern) for name, pattern in reversed(renamings) if fnmatch.fnmatch(base, pattern)),
                         None)
            if found is None:
                if keep:
                    made[key] = value
                continue
            matched.add(found[1])
            if found[0] in made and is_single:
                raise ValueError("rename_keys: two keys of %s are called %r" % (list(sample), found[0]))
            made.setdefault(found[0], value)
        missed = [pattern for _, pattern in renamings if pattern not in matched]
        if missed and must_match:
            raise ValueError("rename_keys: no key of %s matches %s" % (list(sample), missed))
        yield made


def xdecode(*args: Tuple[str, Callable[[Any], Any]], must_decode: bool = True, defaults: Any = None, **kw: Any) -> Any:
    """Values that functions make of streams of bytes: xdecode(("*.png", imread)) or xdecode(png=imread). Defaults:
    text."""
    known = [*args, *(("*." + key, function) for key, function in kw.items())]
    known += [("*.txt", _read_text), ("*.bin", _read_bytes)] if defaults is None else list(defaults)
    return bound(_xdecode, decoders=known, must_decode=must_decode)


def _read_text(stream: Any) -> str:
    return str(stream.read().decode("utf-8"))


def _read_bytes(stream: Any) -> Any:
    return stream.read()


def _xdecode(src: Iterable[Sample], decoders: List[Any], must_decode: bool) -> Iterator[Sample]:
    for sample in src:
        made: Sample = {}
        for key, data in sample.items():
            function = next((f for pattern, f in decoders if _matches(key, pattern)), None)
            if key.startswith("__") or (function is None and not must_decode):
                made[key] = data
            elif function is None:
                raise ValueError("xdecode: no decoder is given for %r of %s" % (key, list(sample)))
            else:
                made[key] = function(io.BytesIO(data) if isinstance(data, bytes) else data)
        yield made


def info(fmt: Optional[str] = None, n: int = 3, every: int = -1, width: int = 50, stream: Any = None,
         name: str = "") -> Any:
    """Prints the first n samples, and every so many."""
    return bound(_info, fmt=fmt, n=n, every=every, width=width, stream=stream, name=name)


def _info(src: Iterable[Any], fmt: Any, n: int, every: int, width: int, stream: Any, name: str) -> Iterator[Any]:
    for i, sample in enumerate(src):
        if i < n or (every > 0 and (i + 1) % every == 0):
            if fmt is None:
                print("---", name, file=stream or sys.stderr)
                for key, value in sample.items():
                    print(key, repr(value)[:width], file=stream or sys.stderr)
            else:
                print(fmt.format(**sample), file=stream or sys.stderr)
        yield sample


def log_keys(logfile: Optional[str] = None) -> Any:
    """Appends a line for each sample to a file: its number, worker, rank and key."""
    return bound(_log_keys, logfile=logfile)


def _log_keys(src: Iterable[Any], logfile: Optional[str]) -> Iterator[Any]:
    for i, sample in enumerate(src):
        if logfile:
            with open(logfile, "a") as file:    # one write, which stays whole
                file.write("%d\t%s\t%s\t%s\n" % (i, sample.get("__worker__"), sample.get("__rank__"),
                                                 sample.get("__key__")))
        yield sample


class Cached:
    """Keeps what comes in during the first pass, and gives it again."""

    def __init__(self) -> None:
        self.cached: List[Any] = []
        self._is_whole = False

    def __call__(self, src: Iterable[Any]) -> Iterator[Any]:
        if self._is_whole:
            yield from self.cached
            return
        self.cached = []
        for sample in src:
            self.cached.append(sample)
            yield sample
        self._is_whole = True


class PipelineStage:
    """A stage: a class with run(source), which gives an iterator."""

    def __call__(self, *args: Any, **kw: Any) -> Any:
        return self.run(*args, **kw)

    def run(self, *args: Any, **kw: Any) -> Any:
        raise NotImplementedError("%s.run" % type(self).__name__)


def pipelinefilter(f: Callable[..., Any]) -> Any:
    """Of a function of a source and arguments, one of the arguments that gives a stage."""
    return bound(_Filter, f)


class _Filter:
    def __init__(self, f: Callable[..., Any], *args: Any, **kw: Any) -> None:
        self._f, self._args, self._kw = f, args, kw

    def __call__(self, src: Iterable[Any]) -> Any:
        return self._f(src, *self._args, **self._kw)


# ---- Handlers and helpers --------------------------------------------------------------------------------------------

class ImageHandler:
    """A handler of decode() for pictures: "rgb8", "torchrgb", "pil", ..."""

    def __init__(self, imagespec: str, extensions: Any = None) -> None:
        self.imagespec, self.spec = imagespec, spec_of(imagespec)
        self.extensions = None if extensions is None else set(extensions)

    def __call__(self, key: str, data: bytes) -> Any:
        extension = key.rsplit(".", 1)[-1].lower()
        is_known = is_picture(key) if self.extensions is None else extension in self.extensions
        return picture_of(data, self.spec) if is_known else None


def imagehandler(imagespec: str, extensions: Any = None) -> ImageHandler:
    return ImageHandler(imagespec, extensions)


imagespecs: Dict[str, Spec] = SPECS
decoders: Dict[str, Callable[[bytes], Any]] = DECODERS


def handle_extension(extensions: str, f: Callable[[bytes], Any]) -> Handler:
    """A handler of decode() that calls f for these extensions, "jpg jpeg"."""
    return bound(_handle_extension, extensions=[one.lower().split(".") for one in extensions.lower().split()], f=f)


def _handle_extension(key: str, data: bytes, extensions: List[List[str]], f: Callable[[bytes], Any]) -> Any:
    parts = key.lower().split(".")
    return f(data) if any(parts[-len(one):] == one for one in extensions) else None


def getfirst(a: Sample, keys: Any, default: Any = None, missing_is_error: bool = True) -> Any:
    found = wds._first_of(a, keys, missing_is_error)
    return default if found is None and not missing_is_error else found


def transform_with(sample: Any, transformers: Any) -> Any:
    functions = itertools.chain(transformers or (), itertools.repeat(None))
    return [value if f is None else f(value) for value, f in zip(sample, functions)]


def repeatedly(source: Iterable[Any], nepochs: Optional[int] = None, nbatches: Optional[int] = None,
               nsamples: Optional[int] = None, batchsize: Any = None) -> Iterator[Any]:
    """source, nepochs times; or until there were nbatches batches, or nsamples samples."""
    size_of = batchsize or (lambda batch: len(batch[0]))
    batches = samples = 0
    for _ in itertools.count() if nepochs is None else range(nepochs):
        for batch in source:
            yield batch
            batches += 1
            if nbatches is not None and batches >= nbatches:
                return
            if nsamples is not None:
                samples += size_of(batch)
                if samples >= nsamples:
                    return


shardspec = SimpleShardList
ResampledShardList = ResampledShards
utils = _wds_utils
_OTHERS = {name: vars(module)[name] for module, names in (
    (_wds_utils, "gopen rewrite_url"),
    (_wds_writer, "TarWriter ShardWriter numpy_dumps torch_dumps default_handlers"),
    (_wds_cache, "FileCache LRUCleanup StreamingOpen LMDBCached url_to_cache_name"),
) for name in names.split()}
globals().update(_OTHERS)
NAMES = {
    name for name, value in vars().copy().items()
    if getattr(value, "__module__", None) == __name__ and not name.startswith("_") and name != "Sample"
} | {"shardspec", "ResampledShardList", "imagespecs", "decoders", "utils", "torch_loads", "unpickle_loads", *_OTHERS}
