"""Stream: batches from shards that cannot seek."""
from __future__ import annotations

import ctypes
import logging
import os
import re
import shlex
import time
import weakref
from typing import Any, Dict, List, Literal, Optional, Sequence, Union

from . import _arguments as arg
from . import _c, _handles
from ._batch import Batch
from ._c import Status, lib, structs, types_by_name
from ._cache import cached_source
from ._context import _device_of, _shared_context
from ._dataset import Dataset
from ._errors import Error, check, error_of, first_failed, in_python, told
from ._loader import DataLoader
from ._mixed import mixed_stream
from ._remote import is_url
from ._sources import expanded

_u32, _u64, _ptr = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p


class _Config(ctypes.Structure):
    _fields_ = [
        ("struct_size", _u32),
        ("source_count", _u32),
        ("sources", _ptr),
        ("literal", _u32),
        ("on_error", _u32),
        ("loader", ctypes.POINTER(structs.loader_config)),
        ("dataset", ctypes.POINTER(structs.dataset_config)),
        ("memory_bytes", _u64),
        ("samples_per_epoch", _u64),
        ("rules", ctypes.POINTER(structs.rule)),
        ("rule_count", _u32),
        ("reserved0", _u32),
        ("log", types_by_name["log_fn"]),
        ("log_user", _ptr),
        ("reserved", _u64 * 4),
    ]


class _Info(ctypes.Structure):
    """What Stream.stream_info gives."""

    _fields_ = [
        ("struct_size", _u32),
        ("shard_count", _u32),
        ("epoch", _u64),
        ("window", _u64),
        ("last_of_epoch", _u32),
        ("shards_left_out", _u32),
        ("shards_read", _u64),
        ("bytes_read", _u64),
        ("memory_bytes", _u64),
        ("peak_bytes", _u64),
        ("samples", _u64),
    ]


class _State(ctypes.Structure):
    _fields_ = [("struct_size", _u32), ("version", _u32), ("fingerprint", _u64), ("epoch", _u64), ("mark", _u64 * 9),
                ("loader", structs.loader_state)]


_FUNCTIONS: Dict[str, Any] = {
    "open": (ctypes.c_int32, _ptr, ctypes.POINTER(_Config), ctypes.POINTER(_ptr), ctypes.POINTER(structs.error)),
    "wait": (ctypes.c_int32, _ptr, ctypes.c_int64, ctypes.POINTER(structs.error)),
    "next": (ctypes.c_int32, _ptr, ctypes.c_int64, ctypes.POINTER(_ptr), ctypes.POINTER(structs.error)),
    "get_info": (ctypes.c_int32, _ptr, ctypes.POINTER(_Info), ctypes.c_size_t, ctypes.POINTER(structs.error)),
    "source": (ctypes.c_char_p, _ptr, _u64),
    "loader": (_ptr, _ptr),
    "dataset": (_ptr, _ptr),
    "save": (ctypes.c_int32, _ptr, ctypes.POINTER(_State), ctypes.c_size_t, ctypes.POINTER(structs.error)),
    "restore": (ctypes.c_int32, _ptr, ctypes.POINTER(_State), ctypes.POINTER(structs.error)),
    "close": (ctypes.c_int32, _ptr),
}
_loaded: Any = None


def _library() -> Any:
    """libbenzina_stream.so, which lies beside libbenzina.so."""
    global _loaded
    if _loaded is None:
        path = os.path.join(os.path.dirname(lib._name), "libbenzina_stream.so")
        try:
            found = ctypes.CDLL(path)
        except OSError as error:
            raise ImportError(
                "Stream: %s (it is built where zlib and libzstd are: Debian's zlib1g-dev and libzstd-dev)" % error
            ) from None
        for name, (result, *arguments) in _FUNCTIONS.items():
            function = getattr(found, "bzna_stream_" + name)
            function.restype, function.argtypes = result, arguments
        _loaded = found
    return _loaded


@_c.callback("log_fn")
def _log(user: Any, level: int, status: int, message: bytes) -> None:
    logging.getLogger("benzina").warning("%s", message.decode("utf-8", "replace"))


def _refuse_urls(sources: Sequence[Any]) -> None:
    """The stream reads files and what commands write."""
    for source in map(os.fsdecode, filter(is_url, sources)):
        is_http = re.match("https?:", source, re.IGNORECASE)
        command = "pipe:curl -sfL %s" % shlex.quote(source) if is_http else "pipe:COMMAND, of a command that writes it"
        raise ValueError(
            "sources: %s is a URL, which a Stream does not open itself: give %s; or cache=FOLDER, which keeps what is "
            "read" % (source, command)
        )


class _Shards(Dataset):
    """The data set of a stream, which is known when its first shard is."""

    def __init__(self, context: Any, stream: Any) -> None:
        self._context, self._handle, self._source, self._origin = context, None, None, None
        self._stream = weakref.ref(stream)      # which closes it

    last_exception = None

    @property
    def handle(self) -> Any:
        if self._stream() is None:
            self._handle = None
        return super().handle

    def _unlike_targets(self) -> None:
        """What samples have is known when shards are read."""

    def __len__(self) -> int:
        raise TypeError("the samples of a Stream are not counted: its dataset has no len()")

    def __repr__(self) -> str:
        return "<benzina.Dataset: of a Stream>"

    def _kind(self, name: Any) -> Any:
        return None if self._handle is None else super()._kind(name)


class Stream(DataLoader):
    """Batches of tar shards that cannot seek: pipes, standard input, commands, gzip and zstd. It iterates as a
    DataLoader does.

        >>> stream = benzina.Stream("pipe:cat shard-{000..002}.tar", 64, batch_size=4, shuffle=True, seed=1,
        ...                         output="numpy")
        >>> for images, targets in stream:
        ...     print(images.shape, targets.shape)
        (4, 3, 64, 64) (4,)

    Shards are read into memory, window by window, and samples are shuffled within a window. stream.h describes which
    shards each rank reads, and which results are the same in each run.

    sources           a text, or several in a list: a path, "-", a FIFO, "pipe:COMMAND". Braces name several:
                      {000..146}, {a,b}
    memory_bytes      of all shards in memory, unpacked; 0: 1 GiB. A shard may use a third of it
    samples_per_epoch of all ranks together, so that each rank has the same number of batches; 0: an epoch has each
                      shard once, and len() is not known
    weights           one for each of the sources, each of which is a stream of its own then: a text, or a list. Samples
                      of batches are drawn from the streams with probabilities in proportion to the weights; a stream
                      that ends starts again. samples_per_epoch is required. Each rank has its own state_dict, which
                      resumes exactly
    cache             a folder, in which shards of URLs and of "pipe:" are kept, and from which they are read the next
                      time. Any number of processes may share it, and any of them may be killed
    cache_bytes       the capacity of the folder in bytes: the shard that was used longest ago is removed first; None:
                      no limit
    on_shard_error    "stop"; "leave": a shard that cannot be read is left out, and a message is logged
    literal           True: braces stand for themselves
    format, orientation, palette
                      as of a Dataset

    The other arguments are those of a DataLoader, without indices, weights and samplers. A last batch that is not full
    has the remaining samples, also with several ranks. After set_epoch, or leaving a loop in the middle of an epoch,
    the stream reads from the start again."""

    _gone = "the stream is closed"
    _end, _is_past = 0, False                   # with epochs: the first one that is not delivered; it stands there

    def __init__(
        self,
        sources: Union[str, Sequence[str]],
        shape: Any = None,
        batch_size: int = 1,
        shuffle: bool = False,
        *,
        memory_bytes: int = 0,
        samples_per_epoch: int = 0,
        weights: Optional[Sequence[float]] = None,
        cache: Union[None, str, os.PathLike[str]] = None,
        cache_bytes: Optional[int] = None,
        on_shard_error: Literal["stop", "leave"] = "stop",
        literal: bool = False,
        format: Optional[str] = None,
        orientation: Literal["apply", "ignore"] = "apply",
        palette: Literal["colors", "index"] = "colors",
        device: Any = None,
        last_batch: Any = None,
        drop_last: bool = False,
        **options: Any,
    ) -> None:
        _library()
        for name in ("indices", "weighting", "weights_by_part", "epoch_samples", "sampler", "batch_sampler"):
            if options.get(name):
                raise TypeError("%s: a Stream has all samples of its shards" % name)
        if on_shard_error not in ("stop", "leave"):
            raise ValueError("on_shard_error: %r is neither 'stop' nor 'leave'" % (on_shard_error,))
        given: List[Any] = [sources] if isinstance(sources, (str, bytes, os.PathLike)) else list(sources)
        self._named: Dict[str, str] = {}        # what sources are called that go through the cache
        if cache is not None:
            given, literal = self._through_cache(given, cache, cache_bytes, literal), True
        elif cache_bytes is not None:
            raise ValueError("cache_bytes: give cache=, the folder that it is for")
        else:
            _refuse_urls(given)
        names = [os.fsencode(source) for source in given]
        self._sources = (ctypes.c_char_p * len(names))(*names)
        self._of_shards = _c.new("dataset_config")
        self._of_shards.format = None if format is None else format.encode()
        self._of_shards.orientation = arg.choice("orientation", orientation, arg.OTHER_CHOICES)
        self._of_shards.palette = arg.choice("palette", palette, arg.OTHER_CHOICES)
        self._of_stream = dict(
            memory_bytes=arg.number("memory_bytes", memory_bytes, _u64),
            on_error=int(on_shard_error == "leave"),
            samples_per_epoch=arg.number("samples_per_epoch", samples_per_epoch, _u64),
            literal=arg.flag("literal", literal),
        )
        context = _shared_context() if device is None else _shared_context(_device_of(device))
        if last_batch is None and not drop_last:
            last_batch = "partial"
        super().__init__(
            _Shards(context, self),
            shape,
            batch_size,
            shuffle,
            device=device,
            last_batch=last_batch,
            drop_last=drop_last,
            **options,
        )

    def __new__(
        cls, sources: Any, shape: Any = None, batch_size: int = 1, shuffle: bool = False, **options: Any
    ) -> Any:
        """With weights, a MixedStream."""
        weights = options.pop("weights", None)
        if weights is None:
            return super().__new__(cls)
        samples, drop_last = options.pop("samples_per_epoch", 0), options.pop("drop_last", False)
        return mixed_stream(cls, sources, shape, batch_size, shuffle, weights, samples, drop_last, **options)

    def _through_cache(self, sources: List[Any], cache: Any, cache_bytes: Optional[int], literal: bool) -> List[Any]:
        """The sources, of which those that are elsewhere are commands that read the cache."""
        limit = 0 if cache_bytes is None else arg.number("cache_bytes", cache_bytes, _u64, 1)
        found: List[Any] = []
        for source in map(os.fsdecode, sources):
            for name in [source] if literal else expanded(source):
                if is_url(name) or name.startswith("pipe:"):
                    command = cached_source(name, os.fspath(cache), limit)
                    self._named[command] = name
                    name = command
                found.append(name)
        return found

    # -- opening

    def _open(self) -> None:
        config, _ = self._config
        made = _Config(struct_size=ctypes.sizeof(_Config), source_count=len(self._sources),
                       sources=ctypes.addressof(self._sources), loader=ctypes.pointer(config),
                       dataset=ctypes.pointer(self._of_shards), log=_log, rules=self._rules or None,
                       rule_count=len(self._rules), **self._of_stream)
        handle, err = ctypes.c_void_p(), _c.new("error")
        check(_library().bzna_stream_open(self._context.handle, made, handle, err), err)
        self._handle, self._is_waited = handle.value, False
        self._close = _handles.owned(self, _library().bzna_stream_close, handle.value, self._key)
        each = -(-self._of_stream["samples_per_epoch"] // self.world_size)
        batch_size = config.output.batch_size
        self._samples, self._batches = each, (
            each // batch_size if config.order.last_batch == _c.LAST_DROP else -(-each // batch_size)
        )
        self._is_settled = True

    def _settle(self, is_last_chance: bool = False) -> None:
        """Its share is that of a process group that was there when it was made."""

    def _ready(self) -> bool:
        """Waits for the first window. False: there is none. An interrupt from the keyboard comes through."""
        if self._is_past:
            return False
        err, end = _c.new("error"), time.monotonic() + self.timeout if self.timeout else None
        while not self._is_waited:
            status = _library().bzna_stream_wait(self.handle, 100000000, err)
            if status == Status.END:
                return False
            if status == Status.AGAIN:
                if end is not None and time.monotonic() >= end:
                    raise Error(Status.AGAIN, "no shard within %g s" % self.timeout)
            elif status < 0:
                self._fail(error_of(status, err))
            else:
                self.dataset._handle = _library().bzna_stream_dataset(self.handle)
                self._bytes = {name: self.dataset._kind(name) for name in self._bytes}
                self._is_waited = True
        return True

    # -- batches

    def _slots_of(self, batch: Batch) -> int:
        return len(batch)

    def _next(self) -> Optional[Batch]:
        _handles.dispose_put_off()
        if not self._ready():
            return None
        err, end = _c.new("error"), time.monotonic() + self.timeout if self.timeout else None
        has_collected = False
        while True:
            status = self._ask(_library().bzna_stream_next, 100000000, err)
            if status == Status.OK:
                batch, info = self._take(), self.stream_info
                batch.epoch, batch.last_of_epoch = info.epoch, bool(info.last_of_epoch)
                return batch
            if status == Status.END:
                return None
            if status == Status.E_STATE and not has_collected:
                self._reclaim()
                has_collected = True
                continue
            if status != Status.AGAIN:
                self._fail(error_of(status, err))
            if end is not None and time.monotonic() >= end:
                raise Error(Status.AGAIN, "no batch within %g s" % self.timeout)

    def _next_of_epoch(self) -> Optional[Batch]:
        if self._held:
            batch, self._held = self._held[0], None
        else:
            before = self._save()
            batch = self._next()
            if batch is not None and batch.epoch != self._epoch:
                self._held, self._epoch = (batch, before), batch.epoch
                batch = None
        self._inside = self._under_way = batch is not None and not batch.last_of_epoch
        if batch is not None and batch.last_of_epoch:
            self._epoch += 1
        return batch

    def __len__(self) -> int:
        """Batches of an epoch, with samples_per_epoch."""
        if not self._samples:
            raise TypeError("a Stream has a length only with samples_per_epoch")
        return self._batches

    def _whole_epoch(self) -> int:
        return len(self)

    @property
    def batches_left(self) -> int:
        """Batches of an epoch: how many are left of it is not counted."""
        return len(self)

    def source_of(self, index: int) -> str:
        """The source of a sample, by its index in Batch.indices; the low 32 bits of that are its number in the
        shard."""
        found = _library().bzna_stream_source(self.handle, index)
        if found is None:
            raise IndexError("index: %d is of no shard" % index)
        return self._named.get(os.fsdecode(found), os.fsdecode(found))

    # -- going elsewhere

    def _reset(self, epoch: int) -> None:
        self._close.detach()
        _library().bzna_stream_close(self._handle)
        self._handle = self.dataset._handle = None
        order = self._config[0].order
        if order.epochs != _c.EPOCHS_ENDLESS:
            self._end = self._end or order.first_epoch + order.epochs
            order.epochs, self._is_past = max(1, self._end - epoch), epoch >= self._end
        order.first_epoch = epoch
        self._open()
        self._epoch, self._inside, self._resumed, self._left = epoch, False, False, None

    def skip_first_batches(self, num_batches: int) -> Any:
        raise Error(
            Status.E_STATE, "skip_first_batches: a Stream is read from the front: load_state_dict goes on with it"
        )

    def _save(self) -> Any:
        if not self._ready():
            return None
        state, err = _State(), _c.new("error")
        check(_library().bzna_stream_save(self.handle, state, ctypes.sizeof(state), err), err)
        return bytes(state)

    def _restore(self, data: Any, batches: Optional[int] = None) -> None:
        state, err = _State(), _c.new("error")
        if len(data) != ctypes.sizeof(state):
            raise ValueError("state: %d bytes, not %d" % (len(data), ctypes.sizeof(state)))
        ctypes.memmove(ctypes.addressof(state), bytes(data), len(data))
        if state.loader.seed != self.seed and not self._seed_is_given:      # as a DataLoader takes it over
            self._adopt(seed=state.loader.seed)
            self._config[0].order.seed = state.loader.seed
            self._reset(self._epoch)
        check(_library().bzna_stream_restore(self.handle, state, err), err)
        self._is_past = False
        self._forget()
        self._epoch, self._inside, self._resumed = state.epoch, True, True

    # -- about it

    def __repr__(self) -> str:
        if self._handle is None:
            return "<benzina.Stream: closed>"
        return "<benzina.Stream: %d shards, batches of %d, epoch %d>" % (
            self.stream_info.shard_count,
            self.batch_size,
            self._epoch,
        )

    @property
    def stream_info(self) -> Any:
        """Shards and bytes that were read, memory, the window: bzna_stream_info of stream.h."""
        info, err = _Info(), _c.new("error")
        check(_library().bzna_stream_get_info(self.handle, info, ctypes.sizeof(info), err), err)
        return info

    def _loader_handle(self) -> Any:
        if not self._ready():
            raise Error(Status.END, "the stream has no samples")
        return _library().bzna_stream_loader(self.handle)

    @property
    def info(self) -> Any:
        return told("loader_info", lib.bzna_loader_get_info, self._loader_handle())

    @property
    def statistics(self) -> Any:
        found = told("statistics", lib.bzna_loader_statistics, self._loader_handle())
        found.batches_copied = 0 if self._lender is None else self._lender.copied
        found.limit = in_python(found.advice.decode())
        found.first_failed = first_failed(found)
        return found

    def close(self) -> None:
        super().close()
        self.dataset._handle = None
