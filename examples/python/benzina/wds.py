"""WebDataset's pipelines, by its names: for programs that were written for webdataset.

    >>> from benzina import wds
    >>> batches = (wds.WebDataset("shard-{000..002}.tar", shardshuffle=False).shuffle(100, seed=1).decode("rgb8")
    ...            .to_tuple("png", "cls").map_tuple(lambda picture: picture[:48, :48], None).batched(2))
    >>> for pictures, classes in batches:
    ...     print(pictures.shape, pictures.dtype, classes.shape)
    (2, 48, 48, 3) uint8 (2,)
    (2, 48, 48, 3) uint8 (2,)

decode() decodes pictures on threads. With a shape, pictures also come warped to one size, as a DataLoader makes them,
so that map() need not do it:

    >>> batches = (wds.WebDataset("shard-{000..002}.tar", shardshuffle=False).decode("rgb", shape=32)
    ...            .to_tuple("png", "cls").batched(4))
    >>> [(pictures.shape, classes.tolist()) for pictures, classes in batches]
    [((4, 32, 32, 3), [0, 0, 0, 0])]

Other stages run in Python, on the thread that iterates. Shards are tars that can be read at any offset; shards of
"pipe:" are read into memory one by one, which benzina.Stream does not need. With a seed, the first epoch has
webdataset's order; later epochs are shuffled again.
"""

from __future__ import annotations

import bisect
import collections
import copy
import glob
import io
import itertools
import os
import random
import re
import sys
import warnings
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial as bound
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Deque,
    Dict,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    NoReturn,
    Optional,
    Sequence,
    Tuple,
    Union,
)

from . import _c
from ._dataset import Dataset
from ._decoders import (
    Continue,
    Handler,
    Spec,
    as_spec,
    basichandlers,
    decoded,
    gzfilter,
    is_picture,
    picture_of,
    spec_of,
)
from ._distributed import distributed_from_env
from ._errors import Error
from ._loader import DataLoader
from ._modules import installed, process_group
from ._output import Output
from ._sources import expanded
from ._wds_cut import part_of, unpacked
from ._wds_utils import gopen, is_local, local_path, opened_url

__all__ = [
    "Continue",
    "DataPipeline",
    "DecodingError",
    "WebDataset",
    "WebLoader",
    "basichandlers",
    "default_collation_fn",
    "gzfilter",
    "ignore_and_continue",
    "ignore_and_stop",
    "reraise_exception",
    "single_node_only",
    "split_by_node",
    "split_by_worker",
    "warn_and_continue",
    "warn_and_stop",
]

_LIST = 4096                                    # samples that a DataLoader is given at a time
OnError = Callable[[Exception], bool]           # True: go on with the next sample; False: end
_torch = installed("torch")
_Base: Any = object if _torch is None else _torch.utils.data.IterableDataset    # which torch's DataLoader asks for


# ---- Errors ----------------------------------------------------------------------------------------------------------

def reraise_exception(exn: Exception) -> bool:
    """The exception is raised."""
    raise exn


def ignore_and_continue(exn: Exception) -> bool:
    """The sample is left out."""
    return True


def warn_and_continue(exn: Exception) -> bool:
    """The sample is left out, with a warning."""
    warnings.warn(repr(exn), stacklevel=2)
    return True


def ignore_and_stop(exn: Exception) -> bool:
    """The pass ends before the sample."""
    return False


def warn_and_stop(exn: Exception) -> bool:
    """The pass ends before the sample, with a warning."""
    warnings.warn(repr(exn), stacklevel=2)
    return False


class DecodingError(Exception):
    """decode() failed on a field of a sample; its cause says why."""

    def __init__(self, url: Any = None, key: Any = None, k: Any = None, sample: Any = None) -> None:
        super().__init__("%s of sample %s in %s" % (k, key, url))
        self.url, self.key, self.k, self.sample = url, key, k, sample


def _tried(items: Iterable[Any], function: Callable[[Any], Any], handler: OnError) -> Iterator[Any]:
    """What function makes of each item. handler is asked about exceptions."""
    for item in items:
        try:
            made = function(item)
        except Exception as error:
            if handler(error):
                continue
            return
        yield made


# ---- Shards ----------------------------------------------------------------------------------------------------------

def _cache_of(cache_dir: Any, cache_size: float, url_to_name: Any, verbose: bool) -> Any:
    """The FileCache that WebDataset's arguments and the environment ask for, or None."""
    cache_dir = os.environ.get("WDS_CACHE", cache_dir)
    cache_size = float(os.environ.get("WDS_CACHE_SIZE", cache_size))
    if cache_dir is None or cache_size == 0:
        return None
    from ._wds_cache import FileCache, url_to_cache_name
    return FileCache(cache_dir, url_to_name=url_to_name or url_to_cache_name, cache_size=cache_size, verbose=verbose)


def _urls_of(urls: Union[str, Iterable[str]]) -> List[str]:
    if isinstance(urls, dict) or (isinstance(urls, str) and urls.endswith((".yaml", ".yml", ".json"))):
        raise ValueError("urls: specifications in YAML and JSON are not read: give the shards")
    if not isinstance(urls, str):
        return [os.fspath(url) for url in urls]
    if urls.endswith("/"):
        return sorted(glob.glob(glob.escape(urls) + "*.tar"))
    replaced = re.sub(r"\$\{(\w+)\}", lambda found: os.environ["WDS_" + found[1]], urls)
    return [one for url in replaced.split("::") for one in expanded(url)]


def _node() -> Tuple[int, int]:
    """(rank, world size)"""
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        return distributed_from_env()[:2]
    group = process_group()
    return (0, 1) if group is None else (group.get_rank(), group.get_world_size())


def split_by_node(src: Iterable[Any], group: Any = None) -> Iterator[Any]:
    """Every world_size-th shard, from this rank's on."""
    rank, world_size = _node()
    return itertools.islice(src, rank, None, world_size)


def single_node_only(src: Iterable[Any], group: Any = None) -> Iterator[Any]:
    """All shards, if there is one process; else a ValueError."""
    if _node()[1] > 1:
        raise ValueError("you need to add an explicit nodesplitter to your input pipeline for multi-node training")
    return iter(src)


def _worker() -> Tuple[int, int]:
    """(number, count) of torch's workers."""
    info = None if _torch is None else _torch.utils.data.get_worker_info()
    return (0, 1) if info is None else (info.id, info.num_workers)


def split_by_worker(src: Iterable[Any]) -> Iterator[Any]:
    """Every n-th shard in each of torch's n workers."""
    worker, count = _worker()
    return itertools.islice(src, worker, None, count)


def _is_read_whole(url: str) -> bool:
    """Whether a shard cannot be read in place."""
    return url.startswith("pipe:") or url.endswith((".tgz", ".tar.gz"))


def _opened(url: str) -> Tuple[Optional[Dataset], Optional[Exception]]:
    """What can be read of a shard, and why that is not all. Without a reason, None is a shard without samples, as
    ShardWriter may leave one."""
    shard: Any = None
    try:
        shard = opened_url(url)
        if _is_read_whole(shard):
            with gopen(url) as stream:
                data = stream.read()
            shard, error = unpacked(data)
            if error is not None:
                return part_of(shard, url), error
            return Dataset(io.BytesIO(shard), name=url), None
        return Dataset(shard), None
    except Error as error:
        if error.status == _c.Status.E_NO_SAMPLES:
            return None, None
        return part_of(shard, url), error
    except Exception as error:
        return None, error


# ---- Samples ---------------------------------------------------------------------------------------------------------

class _Place(NamedTuple):
    """A sample that was not read yet."""

    url: str
    path: Optional[str]                         # of a local file
    shard: Dataset
    number: int

    def names(self) -> List[str]:
        return [name for name in self.shard.fields if name != "name"]

    def value(self, name: str) -> Optional[bytes]:
        """The bytes of a member, or None."""
        return _bytes_of(self.shard._kind(name), self.shard._field(self.number, name.encode()))

    def sample(self, values: Iterable[Tuple[str, Any]]) -> Dict[str, Any]:
        return _sample_of(self.shard.filename(self.number), self.url, self.path, values)

    def raw(self) -> Dict[str, Any]:
        return self.sample((name, self.value(name)) for name in self.names())


def _bytes_of(kind: int, data: Optional[bytes]) -> Optional[bytes]:
    """Of a field's bytes those of the member that they were made of."""
    if data is not None and kind == _c.FIELD_TEXT:
        return data[:-1]                        # the library's zero
    if data is not None and kind == _c.FIELD_INTEGER:
        return b"%d" % int.from_bytes(data, sys.byteorder, signed=True)
    return data


def _named(key: Any, url: str, path: Optional[str] = None) -> Dict[str, Any]:
    """What a sample says of itself: its key, its shard, and the file that this is, or that has it."""
    named = {"__key__": key, "__url__": url}
    if path is not None or is_local(url):
        named["__local_path__"] = path or local_path(url)
    return named


def _sample_of(key: Any, url: str, path: Optional[str], values: Iterable[Tuple[str, Any]]) -> Dict[str, Any]:
    return {**_named(key, url, path), **{name: value for name, value in values if value is not None}}


# ---- Stages ----------------------------------------------------------------------------------------------------------

class _Shuffle:
    """WebDataset's: of up to size samples that are held, one is drawn at a time, once initial are there."""

    def __init__(
        self, size: int, initial: int = 100, rng: Any = None, seed: Optional[int] = None, handler: Any = None
    ) -> None:
        if rng is not None and seed is not None:
            raise ValueError("rng, seed: give one of the two")
        self._size, self._initial, self._rng, self._seed = size, min(initial, size), rng, seed

    def draw(self, items: Iterable[Any], epoch: int, seed: Any) -> Iterator[Any]:
        """seed: for who has none."""
        given = "%s shuffle %d" % (seed, epoch) if self._seed is None else self._seed + epoch
        rng = random.Random(given) if self._rng is None else self._rng
        held: List[Any] = []
        rest = iter(items)
        for item in rest:
            held.append(item)
            if len(held) < self._size:
                held.extend(itertools.islice(rest, 1))
            if len(held) >= self._initial:
                yield self._drawn(held, rng)
        while held:
            yield self._drawn(held, rng)

    def __call__(self, items: Iterable[Any]) -> Iterator[Any]:
        return self.draw(items, 0, random.getrandbits(63))

    @staticmethod
    def _drawn(held: List[Any], rng: Any) -> Any:
        place = rng.randint(0, len(held) - 1)
        held[place], held[-1] = held[-1], held[place]
        return held.pop()


class _Decode:
    """decode(): pictures by the library, on threads; the rest by handlers."""

    def __init__(
        self,
        handlers: Sequence[Union[str, Handler]],
        pre: Optional[Sequence[Handler]],
        post: Optional[Sequence[Handler]],
        only: Union[None, str, Iterable[str]],
        partial: bool,
        handler: OnError,
        loader: Dict[str, Any],
    ) -> None:
        specs = [spec_of(one) for one in handlers if isinstance(one, str)]
        if len(specs) > 1:
            raise ValueError("decode: one kind of pictures is made, not %d" % len(specs))
        self.spec: Optional[Spec] = specs[0] if specs else None
        own = [one for one in handlers if not isinstance(one, str)]
        self._first = [*([gzfilter] if pre is None else pre), *own]
        self._is_plain = not own and pre is None        # no handler wants the bytes of pictures
        last: Sequence[Handler] = [basichandlers] if post is None else post
        self._last = list(last)
        self._only = set(only.split() if isinstance(only, str) else only) if only is not None else None
        self._partial, self.on_error, self.loader = partial, handler, loader
        if loader and self.spec is None:
            raise ValueError(
                "decode: %s: which kind of pictures is to be made: decode(\"torchrgb\", ...)?" % ", ".join(loader)
            )
        if loader and "shape" not in loader:
            raise TypeError("decode: %s: give shape=, too" % ", ".join(loader))

    def takes(self, key: str) -> bool:
        return not key.startswith("__") and (self._only is None or key in self._only)

    def _value(self, key: str, data: Any, read: Callable[[Spec], Any]) -> Any:
        """read: makes the picture, if it is one."""
        if not self.takes(key):
            return data
        if not isinstance(data, bytes) and self._partial:
            return data

        def picture(key: str, of_handler: bytes) -> Any:
            if self.spec is None or not is_picture(key):
                return None
            return read(self.spec) if of_handler is data else picture_of(of_handler, self.spec)
        return decoded(key, data, [*self._first, picture, *self._last])

    def of_sample(self, sample: Dict[str, Any]) -> Dict[str, Any]:
        """Of one whose bytes are there."""
        made = {}
        for key, data in sample.items():
            try:
                made[key] = self._value(key, data, lambda spec: picture_of(data, spec))
            except Exception as error:
                raise DecodingError(sample.get("__url__"), sample.get("__key__"), key, sample) from error
        return made

    def of_place(self, place: _Place) -> Dict[str, Any]:
        """Of one that was not read yet."""
        sample, values = place.shard[place.number], []
        for name in place.names():
            def read(spec: Spec, name: str = name) -> Any:
                return as_spec(sample.image(name), spec)
            try:
                if self.spec is not None and self._is_plain and self.takes(name) and name in sample.images:
                    values.append((name, read(self.spec)))
                    continue
                data = place.value(name)
                values.append((name, None if data is None else self._value(name, data, read)))
            except Exception as error:
                raise DecodingError(place.url, sample.name, name) from error
        return place.sample(values)

    def of_items(self, items: Iterable[Any]) -> Iterator[Any]:
        if self.spec is None or not self._is_plain:             # handlers run on the thread that iterates
            return _tried(items, self.of_sample, self.on_error)
        return _tried(_ahead(self.of_sample, items), Future.result, self.on_error)

    def __call__(self, items: Iterable[Any]) -> Iterator[Any]:
        if self.loader:
            raise ValueError("decode(shape=...): WebDataset has it: a DataPipeline's samples are read from the front")
        return self.of_items(items)

    def of_places(self, places: Iterable[_Place]) -> Iterator[Any]:
        return _tried(_ahead(self.of_place, places), Future.result, self.on_error)

    # -- by a DataLoader

    def open_loader(self, dataset: Dataset, seed: int) -> Tuple[DataLoader, List[str]]:
        """(the loader, the names of its pictures)"""
        assert self.spec is not None
        pictures = [name for name in dataset.fields if dataset._kind(name) == _c.FIELD_IMAGE and self.takes(name)]
        if not pictures:
            raise ValueError("decode: samples have no picture among %s" % ", ".join(dataset.fields))
        is_torch, is_gray = self.spec.kind == "torch", self.spec.mode == "l"
        given: Dict[str, Any] = dict(
            dtype=self.spec.dtype,
            layout="NCHW" if is_torch else "NHWC",
            channels="gray" if is_gray else "RGB",
            batch_size=32,
            output="field",
            seed=seed,
            shard=False,
        )
        if self.spec.dtype == "float32" and not {"mean", "std", "bias", "norm"} & set(self.loader):
            given["std"] = 255
        given.update(self.loader)
        given.setdefault(
            "outputs",
            [
                Output(name, field=name, dtype=given["dtype"], layout=given["layout"], channels=given["channels"])
                for name in pictures[1:]
            ],
        )
        others = [name for name in dataset.fields if name not in pictures]
        return (
            DataLoader(
                dataset, indices="given", fields={"image": pictures[0], "bytes": others}, memory="host", **given
            ),
            pictures,
        )

    def of_batch(
        self, batch: Any, pictures: List[str], kinds: Dict[str, int],
        place_of: Callable[[int], Tuple[str, Optional[str]]],
    ) -> Iterator[Any]:
        """Samples, or the Errors of those that failed."""
        arrays = {name: batch.tensor("image" if name == pictures[0] else name).numpy().copy() for name in pictures}
        others, failed = {name: batch.bytes(name) for name in kinds}, batch.errors() if batch.failed else {}
        for slot, index in enumerate(batch.indices.memoryview()[:batch.count]):
            if slot in failed:
                yield failed[slot]
                continue
            values: List[Tuple[str, Any]] = [(name, self._made(array[slot])) for name, array in arrays.items()]
            key = others["name"][slot].decode("utf-8", "surrogateescape")
            try:
                for name, kind in kinds.items():
                    data = _bytes_of(kind, others[name][slot])
                    if name != "name" and data is not None:
                        values.append((name, self._value(name, data, lambda spec: picture_of(data or b"", spec))))
            except Exception as error:
                failure = DecodingError(place_of(index)[0], key, name)
                failure.__cause__ = error
                yield failure
                continue
            yield _sample_of(key, *place_of(index), values)

    def _made(self, pixels: Any) -> Any:
        assert self.spec is not None
        if self.spec.mode == "l" and pixels.ndim == 3:
            pixels = pixels[0] if self.spec.kind == "torch" else pixels[:, :, 0]
        if self.spec.kind == "pil":
            import PIL.Image
            return PIL.Image.fromarray(pixels)
        if self.spec.kind == "torch":
            import torch
            return torch.from_numpy(pixels)
        return pixels


def _ahead(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator["Future[Any]"]:
    """Futures of what function makes of each item, in order, on a thread for each processor."""
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    waiting: Deque["Future[Any]"] = collections.deque()
    pool = ThreadPoolExecutor(threads)
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > 4 * threads:
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()
    finally:
        for future in waiting:
            future.cancel()
        # the collector may be what ends this, on any thread, which must not wait
        pool.shutdown(wait=False)


def _raised(sample: Any) -> Any:
    if isinstance(sample, Exception):
        raise sample
    return sample


def _first_of(sample: Dict[str, Any], keys: Union[str, Sequence[str]], is_needed: bool = True) -> Any:
    names = keys.split(";") if isinstance(keys, str) else list(keys)
    for name in names:
        if name in sample:
            return sample[name]
    if is_needed:
        raise ValueError("didn't find %s in %s" % (names, list(sample)))
    return None


def _map(items: Iterable[Any], f: Callable[[Any], Any], handler: OnError) -> Iterator[Any]:
    def made(item: Any) -> Any:
        found = f(item)
        if isinstance(item, dict) and isinstance(found, dict):
            found["__key__"] = item.get("__key__")
        return found
    return (item for item in _tried(items, made, handler) if item is not None)


def _map_dict(items: Iterable[Any], functions: Dict[str, Callable[[Any], Any]], handler: OnError) -> Iterator[Any]:
    return _tried(items, lambda sample: {**sample, **{key: f(sample[key]) for key, f in functions.items()}}, handler)


def _map_tuple(
    items: Iterable[Any], functions: Sequence[Optional[Callable[[Any], Any]]], handler: OnError
) -> Iterator[Any]:
    def made(item: Any) -> Any:
        padded = itertools.chain(functions, itertools.repeat(None))
        return tuple(value if f is None else f(value) for value, f in zip(item, padded))
    return _tried(items, made, handler)


def _to_tuple(
    items: Iterable[Any], names: Sequence[str], handler: OnError, missing_is_error: bool, none_is_error: bool
) -> Iterator[Any]:
    def made(sample: Any) -> Any:
        found = tuple(_first_of(sample, name, missing_is_error) for name in names)
        if none_is_error and any(value is None for value in found):
            raise ValueError("to_tuple %s got %s" % (names, list(sample)))
        return found
    return _tried(items, made, handler)


def _rename(items: Iterable[Any], names: Dict[str, str], keep: bool, handler: OnError) -> Iterator[Any]:
    gone = {one for name in names.values() for one in name.split(";")}

    def made(sample: Any) -> Any:
        kept = {key: value for key, value in sample.items() if keep and key not in gone}
        return {**kept, **{name: _first_of(sample, former) for name, former in names.items()}}
    return _tried(items, made, handler)


def _combined(values: List[Any], combine_tensors: bool, combine_scalars: bool) -> Any:
    import numpy
    first = values[0]
    if isinstance(first, (int, float)):
        return numpy.array(values) if combine_scalars else values
    is_tensor = type(first).__module__ == "torch" and hasattr(first, "detach")
    if not (is_tensor or isinstance(first, numpy.ndarray)):
        return values
    if not combine_tensors:
        return values
    shapes = {tuple(value.shape) for value in values}
    if len(shapes) > 1:
        raise ValueError(
            "batched: arrays of one shape are needed, not of %s: decode(shape=...) makes pictures of one size"
            % sorted(shapes)
        )
    return sys.modules["torch"].stack(values) if is_tensor else numpy.stack(values)


def default_collation_fn(samples: List[Any], combine_tensors: bool = True, combine_scalars: bool = True) -> Any:
    """A tuple of arrays of tuples, a dict of arrays of dicts: numbers and numpy's arrays become an array of numpy,
    torch's tensors a tensor of torch, and everything else a list."""
    if isinstance(samples[0], dict):
        if any(set(sample) != set(samples[0]) for sample in samples):
            raise ValueError("batched: samples have different keys: to_tuple() says which are wanted")
        return {
            key: _combined([sample[key] for sample in samples], combine_tensors, combine_scalars) for key in samples[0]
        }
    return tuple(_combined(list(values), combine_tensors, combine_scalars) for values in zip(*samples))


def _batched(items: Iterable[Any], size: int, collation_fn: Any, partial: bool) -> Iterator[Any]:
    rest = iter(items)
    while True:
        batch = list(itertools.islice(rest, size))
        if not batch or (len(batch) < size and not partial):
            return
        yield batch if collation_fn is None else collation_fn(batch)


def _unbatched(items: Iterable[Any]) -> Iterator[Any]:
    for item in items:
        if isinstance(item, dict):
            for i in range(len(next(iter(item.values())))):
                yield {key: values[i] for key, values in item.items()}
        else:
            yield from zip(*item)


def _unlisted(items: Iterable[Any]) -> Iterator[Any]:
    return itertools.chain.from_iterable(items)


def _select(items: Iterable[Any], predicate: Callable[[Any], Any]) -> Iterator[Any]:
    return filter(predicate, items)


def _sliced(items: Iterable[Any], limits: Tuple[Any, ...]) -> Iterator[Any]:
    return itertools.islice(items, *limits)


def _rsample(items: Iterable[Any], p: float) -> Iterator[Any]:
    return (item for item in items if random.uniform(0, 1) < p)


# ---- Pipelines -------------------------------------------------------------------------------------------------------

class DataPipeline(_Base):                      # type: ignore[misc]
    """A source, and stages that process its samples. Each method returns another pipeline, with one more stage."""

    def __init__(self, *stages: Any) -> None:
        self._stages: List[Any] = [stage for stage in stages if stage is not None]
        self._repetitions, self._limit, self._epoch = 1, -1, 0
        self.seed = int(os.environ.get("WDS_SEED", random.randint(0, 1000000)))
        self._length: Optional[int] = None

    def stage(self, i: int) -> Any:
        """The source (0), or a stage."""
        return self._stages[i]

    # -- stages

    def compose(self, *stages: Any) -> Any:
        """stages: callables that are given an iterator, and give one."""
        made = copy.copy(self)
        made._stages = [*self._stages, *stages]
        made._forget()
        return made

    def _forget(self) -> None:
        """What a copy must not share."""

    def shuffle(
        self, size: int, initial: int = 100, rng: Any = None, seed: Optional[int] = None, handler: Any = None
    ) -> Any:
        return self.compose(_Shuffle(size, initial, rng, seed)) if size >= 1 else self

    def decode(
        self,
        *args: Union[str, Handler],
        pre: Optional[Sequence[Handler]] = None,
        post: Optional[Sequence[Handler]] = None,
        only: Union[None, str, Iterable[str]] = None,
        partial: bool = False,
        handler: OnError = reraise_exception,
        **loader: Any,
    ) -> Any:
        """Turns bytes into values: by their extensions, and pictures as args say, "torchrgb", "pil", ... Further
        settings
        are a DataLoader's: with shape=224, a DataLoader makes the pictures; then mean, std, warp, ... may be given,
        too."""
        return self.compose(_Decode(args, pre, post, only, partial, handler, loader))

    def map(self, f: Callable[[Any], Any], handler: OnError = reraise_exception) -> Any:
        return self.compose(bound(_map, f=f, handler=handler))

    def map_dict(self, handler: OnError = reraise_exception, **kw: Callable[[Any], Any]) -> Any:
        return self.compose(bound(_map_dict, functions=kw, handler=handler))

    def map_tuple(self, *args: Optional[Callable[[Any], Any]], handler: OnError = reraise_exception) -> Any:
        return self.compose(bound(_map_tuple, functions=args, handler=handler))

    def to_tuple(self, *args: str, handler: OnError = reraise_exception, missing_is_error: bool = True,
                 none_is_error: Optional[bool] = None) -> Any:
        names = args[0].split() if len(args) == 1 and " " in args[0] else args
        return self.compose(bound(_to_tuple, names=names, handler=handler, missing_is_error=missing_is_error,
                                  none_is_error=missing_is_error if none_is_error is None else none_is_error))

    def rename(self, handler: OnError = reraise_exception, keep: bool = True, **kw: str) -> Any:
        return self.compose(bound(_rename, names=kw, keep=keep, handler=handler))

    def select(self, predicate: Callable[[Any], Any]) -> Any:
        return self.compose(bound(_select, predicate=predicate))

    def slice(self, *args: Any) -> Any:
        return self.compose(bound(_sliced, limits=args))

    def rsample(self, p: float = 0.5) -> Any:
        return self.compose(bound(_rsample, p=p))

    def batched(self, batchsize: int, collation_fn: Any = default_collation_fn, partial: bool = True) -> Any:
        return self.compose(bound(_batched, size=batchsize, collation_fn=collation_fn, partial=partial))

    def listed(self, batchsize: int, partial: bool = True) -> Any:
        return self.batched(batchsize, None, partial)

    def extract_keys(self, *patterns: Any, duplicate_is_error: bool = True, ignore_missing: bool = False) -> Any:
        return self._by_name("extract_keys", *patterns, duplicate_is_error=duplicate_is_error,
                             ignore_missing=ignore_missing)

    def rename_keys(self, *args: Tuple[str, str], **kw: Any) -> Any:
        return self._by_name("rename_keys", *args, **kw)

    def xdecode(self, *args: Any, **kw: Any) -> Any:
        return self._by_name("xdecode", *args, **kw)

    def associate(self, associator: Any) -> Any:
        return self._by_name("associate", associator)

    def log_keys(self, logfile: Optional[str] = None) -> Any:
        return self._by_name("log_keys", logfile)

    def mcached(self) -> Any:
        """Keeps the samples in memory during the first pass, and yields them again in later passes."""
        return self._by_name("Cached")

    def lmdb_cached(self, fname: Any, **kw: Any) -> Any:
        """Keeps the samples in a database on a disk, also for later runs."""
        return self._by_name("LMDBCached", fname, **kw)

    def _by_name(self, name: str, *args: Any, **kw: Any) -> Any:
        from . import _wds_stages
        return self.compose(getattr(_wds_stages, name)(*args, **kw))

    def unbatched(self) -> Any:
        return self.compose(_unbatched)

    def unlisted(self) -> Any:
        return self.compose(_unlisted)

    if not TYPE_CHECKING:                       # which notices slips itself
        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError("%s has no %s" % (type(self).__name__, name))

    # -- epochs

    def with_epoch(self, nsamples: int = -1, nbatches: int = -1) -> Any:
        """An epoch has this many results of the last stage; if the shards have fewer, it continues with the next
        pass."""
        self._repetitions, self._limit = sys.maxsize, max(nsamples, nbatches)
        return self

    def with_length(self, n: int, silent: bool = False) -> Any:
        """Sets the result of len(), without any effect on the samples."""
        self._length = n
        return self

    def repeat(self, nepochs: int = -1, nbatches: int = -1) -> Any:
        self._repetitions, self._limit = nepochs if nepochs > 0 else sys.maxsize, nbatches
        return self

    def __len__(self) -> int:
        if self._length is None:
            raise TypeError("a pipeline has a length only after with_length()")
        return self._length

    def __iter__(self) -> Iterator[Any]:
        return (
            itertools.islice(self._passes(), self._limit)
            if self._repetitions != 1 and self._limit > 0
            else self._passes()
        )

    def _passes(self) -> Iterator[Any]:
        for _ in range(self._repetitions):
            self._epoch += 1
            is_empty = True
            for sample in self._through(self._epoch - 1):
                is_empty = False
                yield sample
            if is_empty:
                return

    def _through(self, epoch: int) -> Iterator[Any]:
        if not self._stages:
            raise ValueError("a pipeline without a source")
        source = self._stages[0]
        return self._rest(iter(source if hasattr(source, "__iter__") else source()), self._stages[1:], epoch)

    def _rest(self, items: Iterator[Any], stages: List[Any], epoch: int) -> Iterator[Any]:
        for stage in stages:
            if isinstance(stage, _Shuffle):
                items = stage.draw(items, epoch, self.seed)
            elif isinstance(stage, _Decode):
                if stage.loader:
                    raise ValueError(
                        "decode(shape=...): it comes before stages that read samples; shuffle() and slice() may be "
                        "before it"
                    )
                items = stage.of_items(items)
            else:
                items = iter(stage(items))
        return items

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *of_exception: Any) -> None:
        self.close()

    def close(self) -> None:
        self._forget()


class WebDataset(DataPipeline):
    """Samples of tar shards: dicts of bytes by extension, with __key__, __url__ and __local_path__.

    urls          a pattern ("shard-{000..146}.tar", "a.tar::b.tar"), a folder ("shards/"), or a list: paths, "file:",
                  "pipe:", and other addresses that a Dataset opens, such as "https://"
    handler       receives an Error of a shard: reraise_exception, warn_and_continue, ... The whole samples of a shard
                  that ends too early come before that
    mode, resampled
                  "resampled": shards are drawn again and again, without an end (see with_epoch)
    repeat        no effect, as in webdataset: see the method of that name
    shardshuffle  False, or how many shards are shuffled at a time; True: 100
    detshuffle    no effect: shuffling follows from seed and the number of the epoch in any case
    nodesplitter, workersplitter
                  functions that choose this process's shards
    empty_check   an epoch without samples is an error
    seed          of shuffling; None: $WDS_SEED, or another one in every run
    verbose       nothing

    select_files, rename_files
                  functions that select and rename members by their names; shards are then read from the front, in
                  Python
    cache_dir     a folder, or $WDS_CACHE: shards of URLs and pipes are fetched into it when they are first read, and
                  read there from then on
    cache_size    its bytes, or $WDS_CACHE_SIZE, above which the shards that were used longest ago are removed; -1: no
                  limit; 0: no cache
    url_to_name   a function that names its files; None: url_to_cache_name"""

    def __init__(
        self,
        urls: Union[str, Iterable[str]],
        handler: OnError = reraise_exception,
        mode: Optional[str] = None,
        resampled: bool = False,
        repeat: bool = False,
        shardshuffle: Union[None, bool, int] = None,
        cache_size: int = -1,
        cache_dir: Any = None,
        url_to_name: Any = None,
        detshuffle: bool = False,
        nodesplitter: Any = single_node_only,
        workersplitter: Any = split_by_worker,
        select_files: Any = None,
        rename_files: Any = None,
        empty_check: bool = True,
        verbose: bool = False,
        seed: Optional[int] = None,
    ) -> None:
        super().__init__()
        if mode not in (None, "resampled"):
            raise ValueError("mode: %r is neither None nor 'resampled'" % (mode,))
        self.urls = _urls_of(urls)
        if not self.urls:
            raise ValueError("urls: %r: there are no shards" % (urls,))
        self._select, self._rename = select_files, rename_files
        self._handler, self._resampled, self._empty_check = handler, resampled or mode == "resampled", empty_check
        self._shards_at_a_time = 100 if shardshuffle is True else int(shardshuffle or 0)
        self._splitters = [splitter for splitter in (nodesplitter, workersplitter) if splitter]
        self.seed = int(os.environ.get("WDS_SEED", random.randint(0, 1000000))) if seed is None else seed
        self._cache = _cache_of(cache_dir, cache_size, url_to_name, verbose)
        self._forget()

    def _forget(self) -> None:
        self._process = os.getpid()
        self._datasets: Dict[str, Tuple[Optional[Dataset], Optional[Exception]]] = {}       # as _opened gives them
        # (DataLoader, names of pictures, Dataset, first numbers of shards, next epoch)
        self._loading: Any = None

    def __getstate__(self) -> Dict[str, Any]:
        return {**vars(self), "_datasets": {}, "_loading": None, "_process": None}

    def __repr__(self) -> str:
        return "<benzina.wds.WebDataset: %d shards, %d stages>" % (len(self.urls), len(self._stages))

    # -- samples that are not read yet

    def _chosen(self, epoch: int) -> Iterator[str]:
        """The shards of an epoch."""
        if self._resampled:
            rng = random.Random("%d shards %d of %d, %d" % (self.seed, epoch, _node()[0], _worker()[0]))
            while True:
                yield rng.choice(self.urls)
        shards: Iterable[Any] = ({"url": url} for url in self.urls)
        for splitter in self._splitters:
            shards = splitter(shards)
        if self._shards_at_a_time:
            shards = _Shuffle(self._shards_at_a_time, seed=self.seed).draw(shards, epoch, self.seed)
        for shard in shards:
            yield shard["url"]

    def _path(self, url: str) -> Optional[str]:
        """Of a shard in the cache, which is fetched if it is not there; None: it is read where it is."""
        return None if self._cache is None or is_local(url) else self._cache.get_file(url)

    def _part(self, url: str) -> Tuple[Optional[Dataset], Optional[Exception]]:
        """What can be read of a shard, and why that is not all."""
        if url in self._datasets:
            return self._datasets[url]
        try:
            found = _opened(self._path(url) or url)
        except Exception as error:              # of the cache
            return None, error
        # a pipe may give something else the next time, what was unpacked is large, and what failed is tried again
        if not _is_read_whole(url) and (found[1] is None or found[0] is not None):
            self._datasets[url] = found
        return found

    def _places(self, epoch: int) -> Iterator[_Place]:
        is_empty = True
        for url in self._chosen(epoch):
            shard, error = self._part(url)
            if shard is not None:
                is_empty, path = False, self._path(url)
                for index in range(len(shard)):
                    yield _Place(url, path, shard, index)
            if error is not None and not self._handler(error):
                break
        if is_empty and self._empty_check:
            raise ValueError("No samples found in dataset; perhaps you have fewer shards than workers.\n"
                             "Turn off using empty_check=False in the WebDataset constructor.")

    def _through(self, epoch: int) -> Iterator[Any]:
        if self._process != os.getpid():        # what a worker has of its parent
            self._forget()
        if self._select or self._rename:
            from . import _wds_stages
            shards: Iterable[Any] = ({"url": url} for url in self._chosen(epoch))
            if self._cache is not None:
                shards = ({"url": shard["url"], "local_path": self._path(shard["url"])} for shard in shards)
            items = _wds_stages.tarfile_samples(shards, self._handler, self._select, self._rename)
            return self._rest(_wds_stages.non_empty(items) if self._empty_check else items, self._stages, epoch)
        places: Iterator[Any] = self._places(epoch)
        stages = list(self._stages)
        while stages and (
            isinstance(stages[0], _Shuffle) or (isinstance(stages[0], bound) and stages[0].func in (_sliced, _rsample))
        ):
            places = self._rest(places, [stages.pop(0)], epoch)
        if stages and isinstance(stages[0], _Decode):
            decode = stages.pop(0)
            items = self._loaded(decode, places) if decode.loader else decode.of_places(places)
        else:
            items = _tried(places, _Place.raw, self._handler)
        return self._rest(items, stages, epoch)

    # -- by a DataLoader

    def _open_loader(self, decode: _Decode) -> Any:
        if self._cache is None and any(url.startswith("pipe:") for url in self.urls):
            raise ValueError(
                "decode(shape=...): samples of shards from pipes cannot be asked for by number: benzina.Stream loads "
                "them"
            )
        parts = [self._part(url)[0] for url in self.urls]
        firsts = [0, *itertools.accumulate(len(part or ()) for part in parts)]
        whole = Dataset.concat([part for part in parts if part is not None])
        return (*decode.open_loader(whole, self.seed), whole, firsts)

    def _loaded(self, decode: _Decode, places: Iterator[_Place]) -> Iterator[Any]:
        if self._loading is None:
            self._loading = [*self._open_loader(decode), 0]
        loader, pictures, whole, firsts, _ = self._loading
        first_of = dict(zip(self.urls, firsts))
        kinds = {name: whole._kind(name) for name in whole.fields if name not in pictures}

        def place_of(index: int) -> Tuple[str, Optional[str]]:
            url = self.urls[bisect.bisect_right(firsts, index) - 1]
            return url, self._path(url)

        def give() -> bool:
            """The next samples, as an epoch of the loader's."""
            indices = [first_of[place.url] + place.number for place in itertools.islice(places, _LIST)]
            if indices:
                loader.set_indices(self._loading[4], indices)
                self._loading[4] += 1
            return bool(indices)

        def samples() -> Iterator[Any]:
            at, is_more = self._loading[4], give()
            if is_more:
                loader.set_epoch(at)            # also where the pass before was left in the middle
            while is_more:
                is_more = give()                # the next ones are decoded while these are taken
                for batch in loader.batches():
                    yield from decode.of_batch(batch, pictures, kinds, place_of)
        return _tried(samples(), _raised, decode.on_error)


def WebLoader(
    dataset: Any,
    batch_size: Optional[int] = 1,
    shuffle: bool = False,
    num_workers: int = 0,
    collate_fn: Any = None,
    **settings: Any,
) -> DataPipeline:
    """Returns the pipeline that it is given, since threads decode: num_workers, pin_memory, prefetch_factor and
    persistent_workers have no effect. batch_size: of the batches that collate_fn makes, by default torch's
    default_collate, or default_collation_fn if torch is not installed; None: the pipeline's batched() makes them."""
    if shuffle:
        raise ValueError("shuffle: the pipeline shuffles, by shuffle(n)")
    without_effect = {
        "pin_memory",
        "prefetch_factor",
        "persistent_workers",
        "timeout",
        "worker_init_fn",
        "multiprocessing_context",
    }
    drop_last = bool(settings.pop("drop_last", False))
    unknown = sorted(set(settings) - without_effect)
    if unknown:
        raise TypeError("WebLoader has no argument %s" % ", ".join(unknown))
    if batch_size is None:
        if collate_fn is not None:
            raise ValueError(
                "collate_fn: with batch_size=None the pipeline makes the batches: batched(n, collation_fn=)"
            )
        return DataPipeline(dataset)
    if collate_fn is None:
        collate_fn = default_collation_fn if _torch is None else _torch.utils.data.default_collate
    made: DataPipeline = DataPipeline(dataset).batched(batch_size, collate_fn, partial=not drop_last)
    return made


def __getattr__(name: str) -> Any:
    from . import _wds_stages
    if name in _wds_stages.NAMES:               # not imported above: map and slice are Python's here
        return getattr(_wds_stages, name)
    raise AttributeError("module 'benzina.wds' has no attribute %r" % name)


def __dir__() -> List[str]:
    from . import _wds_stages
    return sorted({*globals(), *_wds_stages.NAMES})
