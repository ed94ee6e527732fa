"""Several streams mixed by weights: what benzina.Stream(sources, weights=...) makes."""
from __future__ import annotations

import ctypes
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from . import _arguments as arg
from ._frameworks import FRAMEWORKS
from ._iteration import lender_of
from ._random import Random
from ._saved import check_state_dict, state_bytes, state_text

_OPERATION = 25                                 # of the random numbers that draw streams


class _Part:
    """One stream, of which samples are taken one after the other."""

    def __init__(self, stream: Any) -> None:
        self.stream, self.taken = stream, 0     # samples of what is held
        self._held: Any = None                  # (arrays, samples in them)
        self._before: Any = None                # the stream's state before that

    def _read(self) -> None:
        self._before = self.stream._save()
        batch = self.stream._next()
        if batch is None:
            raise StopIteration
        if self.stream._lender is None:
            self.stream._lender = lender_of(self.stream)
        count = batch.count
        self._held, self.taken = (self.stream._lender.read(self.stream, batch), count), 0

    def take(self) -> Tuple[Any, int]:
        """(arrays, the number of the next sample in them)"""
        if self._held is None or self.taken == self._held[1]:
            self._read()
        self.taken += 1
        return self._held[0], self.taken - 1

    def state(self) -> Dict[str, Any]:
        if self._held is None or self.taken == self._held[1]:
            return {"state": state_text(self.stream._save()), "taken": 0}
        return {"state": state_text(self._before), "taken": self.taken}

    def restore(self, state: Dict[str, Any]) -> None:
        self._held, self.taken = None, 0
        if state["state"] is not None:
            self.stream._restore(state_bytes(state["state"]))
        if state["taken"]:
            self._read()
            self.taken = state["taken"]


class MixedStream:
    """Batches whose samples are drawn from several streams, each as likely as its weight says. Which stream a sample
    comes from follows from the seed and the sample's number alone. A stream that ends begins anew, as its next epoch;
    samples_per_epoch, of all ranks together, says how many there are in an epoch of this."""

    def __init__(self, streams: Sequence[Any], weights: Sequence[float], batch_size: int, samples_per_epoch: int,
                 drop_last: bool) -> None:
        self._parts = [_Part(stream) for stream in streams]
        self.weights = arg.floats("weights", weights, len(streams), ctypes.c_double)
        if min(self.weights) < 0 or not sum(self.weights):
            raise ValueError("weights: %r are not numbers from 0 on, one of them above 0" % (tuple(weights),))
        self.batch_size, self.drop_last = batch_size, drop_last
        first = streams[0]
        self.seed, self.rank, self.world_size = first.seed, first.rank, first.world_size
        self._samples = -(-arg.number("samples_per_epoch", samples_per_epoch, ctypes.c_uint64, 1) // self.world_size)
        self._position = 0                      # samples that were drawn, of all epochs
        self._moves = 0

    @property
    def epoch(self) -> int:
        """The epoch of the next batch."""
        return self._position // self._samples

    @property
    def streams(self) -> List[Any]:
        return [part.stream for part in self._parts]

    def _batches_of(self, samples: int) -> int:
        return samples // self.batch_size if self.drop_last else -(-samples // self.batch_size)

    def __len__(self) -> int:
        """Batches of an epoch."""
        return self._batches_of(self._samples)

    @property
    def batches_left(self) -> int:
        """Batches that the epoch still brings."""
        return self._batches_of(self._samples - self._position % self._samples)

    def _drawn(self) -> int:
        """The number of the stream that the next sample comes from."""
        at = Random(self.seed, self.rank, self._position, _OPERATION).random() * sum(self.weights)
        for number, weight in enumerate(self.weights):
            at -= weight
            if at < 0:
                return number
        return max(number for number, weight in enumerate(self.weights) if weight)

    def _next(self, count: int) -> Any:
        pieces = []
        for _ in range(count):
            pieces.append(self._parts[self._drawn()].take())
            self._position += 1
        made = [_joined([(arrays[i], at) for arrays, at in pieces], self._axis if i == 0 else 0) for i in (0, 1)]
        if len(pieces[0][0]) == 2:
            return tuple(made)
        names = pieces[0][0][2]
        return (*made, {name: _joined([(arrays[2][name], at) for arrays, at in pieces], self._axis_of(name))
                        for name in names})

    @property
    def _axis(self) -> int:
        """Along which samples of the images are counted."""
        return int(next(part.stream._lender._views for part in self._parts if part.stream._lender is not None))

    def _axis_of(self, name: str) -> int:
        return self._axis if name in self._parts[0].stream._outputs else 0

    def __iter__(self) -> Iterator[Any]:
        self._moves += 1
        moves, end = self._moves, (self.epoch + 1) * self._samples
        while self._position < end:
            count = min(self.batch_size, end - self._position)
            if count < self.batch_size and self.drop_last:
                for _ in range(count):
                    self._parts[self._drawn()].take()
                    self._position += 1
                return
            batch = self._next(count)
            yield batch
            if moves != self._moves:
                return

    def state_dict(self) -> Dict[str, Any]:
        """The position of this rank's run after the last batch that was delivered."""
        return {"position": self._position, "seed": self.seed, "streams": [part.state() for part in self._parts]}

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Goes on from a state of the same sources, batch size and number of ranks."""
        check_state_dict(state_dict, "streams", "position", "seed")
        states = state_dict["streams"]
        if len(states) != len(self._parts):
            raise ValueError("state: it is of %d streams, and these are %d" % (len(states), len(self._parts)))
        for part, state in zip(self._parts, states):
            part.restore(state)
        self._position, self.seed = state_dict["position"], state_dict["seed"]
        self._moves += 1

    def close(self) -> None:
        for part in self._parts:
            part.stream.close()

    def __enter__(self) -> MixedStream:
        return self

    def __exit__(self, *of_exception: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return "<benzina.Stream: %d streams by weights, batches of %d, epoch %d>" % (
            len(self._parts), self.batch_size, self.epoch)


def _joined(pieces: List[Tuple[Any, int]], axis: int) -> Any:
    """One array of samples that lie in several."""
    if pieces[0][0] is None:
        return None
    if isinstance(pieces[0][0], list):
        return [values[at] for values, at in pieces]
    before = (slice(None),) * axis
    parts = [array[before + (slice(at, at + 1),)] for array, at in pieces]
    if hasattr(parts[0], "detach"):
        import torch
        return torch.cat(parts, axis)
    import numpy
    if isinstance(parts[0], numpy.ndarray):
        return numpy.concatenate(parts, axis)
    import jax
    return jax.numpy.concatenate(parts, axis)


def mixed_stream(
    make: Any,
    sources: Sequence[Any],
    shape: Any,
    batch_size: int,
    shuffle: bool,
    weights: Sequence[float],
    samples_per_epoch: int,
    drop_last: bool,
    **options: Any,
) -> MixedStream:
    """make: Stream. sources: of each stream."""
    if isinstance(sources, (str, bytes)) or len(sources) != len(weights):
        raise ValueError("weights: one for each of the sources in a list")
    if not samples_per_epoch:
        raise TypeError("samples_per_epoch: streams that are mixed have an epoch only with it")
    if options.get("output") in ("field", "memoryview"):
        raise ValueError("output: mixed batches are arrays of %s" % ", ".join(list(FRAMEWORKS)[:3]))
    if options.get("epochs") is not None or options.get("last_batch") is not None:
        raise TypeError(
            "epochs, last_batch: streams that are mixed go on without an end; drop_last says what ends an epoch"
        )
    # each stream's own order, by the seed: two of the same shards would bring the same samples side by side otherwise
    seed: Optional[int] = options.pop("seed", None)
    seed = 0 if seed is None else seed
    streams: List[Any] = []
    try:
        for number, source in enumerate(sources):
            streams.append(make(source, shape, batch_size, shuffle, seed=seed + number, **options))
        return MixedStream(streams, weights, batch_size, samples_per_epoch, drop_last)
    except BaseException:
        for stream in streams:
            stream.close()
        raise
