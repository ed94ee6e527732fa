"""Samples of each epoch from outside: sampler=, batch_sampler=, set_indices, set_batches."""
from __future__ import annotations

import array
import collections.abc
import ctypes
import weakref
from typing import Any, Dict, NamedTuple, Set, Tuple

from . import _arguments as arg
from . import _c
from ._c import Status, formats, lib
from ._errors import Error, check, told


_WEIGHTINGS = {"weighting": {None: 0, "replace": _c.WEIGHTING_REPLACE, "once": _c.WEIGHTING_ONCE}}


class Given(NamedTuple):
    """What one epoch was given."""

    indices: Any                                # an array.array, as of the Dataset that was given
    ends: Any                                   # of each batch, where it ends; None: batches are of equal size


def check_samplers(sampler: Any, batch_sampler: Any, batch_size: Any, drop_last: bool, others: Dict[str, Any]) -> Any:
    """The size of a full batch. others: arguments that choose samples, too."""
    for name, value in (("sampler", sampler), ("batch_sampler", batch_sampler)):
        if value is None:
            continue
        if not isinstance(value, collections.abc.Iterable) and not hasattr(value, "__getitem__"):
            raise TypeError("%s: %r is nothing that can be iterated" % (name, value))
        for other, chosen in others.items():
            if chosen:
                raise ValueError("%s, %s: both choose the samples of an epoch" % (name, other))
    if batch_sampler is None:
        return batch_size
    if sampler is not None:
        raise ValueError("sampler, batch_sampler: give one of the two")
    if drop_last:
        raise ValueError("batch_sampler, drop_last: the batches are as the sampler makes them")
    if batch_size != 1:
        return batch_size                       # the largest one that may come
    if getattr(batch_sampler, "batch_size", None):
        return batch_sampler.batch_size
    if isinstance(batch_sampler, collections.abc.Sequence):
        return max(map(len, batch_sampler), default=1)
    raise ValueError(
        "batch_sampler: it does not say the size of a batch (batch_size): give batch_size=, the largest one that comes"
    )


class Lists:
    """The lists of one DataLoader, by epoch. A sampler is asked for an epoch's when that begins, as torch does it, so
    that it may depend on what was learned in the epoch before."""

    def __init__(self, loader: Any, sampler: Any, batch_sampler: Any) -> None:
        self._loader = weakref.proxy(loader)    # which owns this
        self._sampler, self._batch_sampler = sampler, batch_sampler
        self._given: Dict[int, Given] = {}
        self.is_empty = False                   # the epoch that has begun brings no batch

    # -- giving

    def give(self, epoch: int, indices: Any, sizes: Any = None) -> None:
        given = Given(indices, None if sizes is None else array.array("Q", _sums(sizes)))
        if self._batches_of(given, 0):          # else the epoch is passed over
            self._pass_on(epoch, given)
        self._given = {number: one for number, one in self._given.items() if number >= self._loader._epoch - 1}
        self._given[epoch] = given

    def indices(self, epoch: Any, indices: Any) -> None:
        self.give(_epoch(epoch), arg.many("indices", indices, ctypes.c_uint64))

    def batches(self, epoch: Any, batches: Any) -> None:
        self.give(_epoch(epoch), *_flat("batches", batches, self._loader.batch_size))

    def _pass_on(self, epoch: int, given: Given) -> None:
        loader, indices, err = self._loader, given.indices, _c.new("error")
        chosen = loader.dataset._chosen
        count = len(loader.dataset)
        for i, index in enumerate(indices if len(indices) and max(indices) >= count else ()):
            if index >= count:
                raise ValueError("epoch %d: index %d at %d is not below the %d samples" % (epoch, index, i, count))
        if chosen is not None:
            indices = array.array("Q", (chosen[i] for i in indices))
        at = ctypes.cast(indices.buffer_info()[0], ctypes.POINTER(ctypes.c_uint64))
        if given.ends is None:
            check(lib.bzna_loader_set_batches(loader.handle, epoch, at, len(indices), None, 0, err), err)
        else:
            sizes = (ctypes.c_uint32 * len(given.ends))(
                *(end - begin for begin, end in zip([0, *given.ends], given.ends))
            )
            check(lib.bzna_loader_set_batches(loader.handle, epoch, at, len(indices), sizes, len(sizes), err), err)

    def moved(self, former: int, was_inside: bool) -> None:
        """The loader was sent elsewhere, and the library has forgotten all lists. Those of epochs that had not begun
        are kept."""
        begun = former + was_inside             # epochs below this
        kept = {epoch: given for epoch, given in self._given.items() if epoch >= max(begun, self._loader._epoch)}
        self._given, self.is_empty = {}, False
        for epoch, given in sorted(kept.items()):
            if self._batches_of(given, 0):
                self._pass_on(epoch, given)
            self._given[epoch] = given

    # -- an epoch begins

    def begin(self) -> None:
        """Sees to it that the epoch has its list, and counts the batches that are left of it."""
        loader = self._loader
        state, epoch = told("loader_state", lib.bzna_loader_save, loader.handle), loader._epoch
        if epoch >= state.end_epoch:
            return                              # the run is over
        if epoch not in self._given:
            self._draw(epoch)
        given = self._given[epoch]
        left = self._batches_of(given, state.position if state.epoch == epoch else 0)
        loader._batches = self._batches_of(given, 0)
        loader._left = left if loader._resumed else None
        self.is_empty = not left

    def _draw(self, epoch: int) -> None:
        if self._sampler is None and self._batch_sampler is None:
            raise Error(
                Status.E_STATE,
                "epoch %d: its samples were not given; loader.set_indices(%d, indices) or set_batches gives them"
                % (epoch, epoch),
            )
        self._tell(epoch)
        if self._sampler is not None:
            self.give(epoch, arg.many("sampler", _all(self._sampler), ctypes.c_uint64))
        else:
            self.give(epoch, *_flat("batch_sampler", _all(self._batch_sampler), self._loader.batch_size))

    def _tell(self, epoch: int) -> None:
        """Samplers that have a set_epoch are told the epoch, also the one inside a batch sampler."""
        for one in (self._sampler, self._batch_sampler, getattr(self._batch_sampler, "sampler", None)):
            if hasattr(one, "set_epoch"):
                one.set_epoch(epoch)

    # -- counting

    def _batches_of(self, given: Given, start: int) -> int:
        """Batches of this rank from a position on."""
        loader = self._loader
        if given.ends is None:
            left, step = len(given.indices) - start, loader.batch_size * loader.world_size
        else:
            left, step = sum(end > start for end in given.ends), loader.world_size
        return left // step if loader._drops else -(-left // step)

    def length(self) -> int:
        """Batches of the epoch under way, up to the body of a loop for its last batch; else of the one that comes
        next."""
        loader = self._loader
        current = loader._iterator and loader._iterator()
        is_last = current is not None and current._is_in_last and current._moves == loader._moves
        given = self._given.get(loader._epoch - is_last)
        if given is not None:
            return self._batches_of(given, 0)
        if self._sampler is None and self._batch_sampler is None:
            raise TypeError("the samples of epoch %d were not given: it has no len()" % loader._epoch)
        self._tell(loader._epoch)
        if self._sampler is not None:
            left, step = len(self._sampler), loader.batch_size * loader.world_size
        else:
            left, step = len(self._batch_sampler), loader.world_size
        return left // step if loader._drops else -(-left // step)

    def slots_of(self, batch: Any) -> int:
        """How many slots of a batch are handed out where a remainder is spread over ranks: as many for each."""
        given = self._given[batch.epoch]
        if given.ends is not None:
            return batch.count or int(given.ends[0])
        left = len(given.indices) - (batch.position - self._loader.rank)
        return min(len(batch), -(-left // self._loader.world_size))


class Drawn:
    """Lists that are drawn by weights, for one DataLoader. The library has those of two epochs, so that it reads ahead
    into the second one."""

    def __init__(
        self, loader: Any, indices: Any, weights: Any, weighting: Any, by_part: Any, epoch_samples: Any
    ) -> None:
        self._loader = weakref.proxy(loader)    # which owns this
        self._given: Set[int] = set()
        self._weights, self._kept = _c.new("formats_weights"), []
        if weighting is None:
            raise Error(Status.E_ARGUMENT, "weights, weights_by_part, epoch_samples: only with weighting")
        self._weights.weighting = arg.choice("weighting", weighting, _WEIGHTINGS)
        self._weights.by_part, self._weights.epoch_samples = by_part, epoch_samples
        if weights is not None:
            weights = arg.many("weights", weights, ctypes.c_double)
            if not weights:
                raise ValueError("weights: there are none")
            self._weights.weights, self._weights.weight_count = weights.buffer_info()[0], len(weights)
        if indices is not None:
            self._weights.indices, self._weights.index_count = indices.buffer_info()[0], len(indices)
        self._kept += [weights, indices]

    def count(self) -> int:
        """Draws in an epoch."""
        count, handle, err = ctypes.c_uint64(), self._loader.dataset.handle, _c.new("error")
        status = formats.bzna_formats_weighted_list(handle, self._weights, 0, None, 0, count, err)
        check(Status.OK if status == Status.E_BUFFER else status, err)
        return count.value

    def forget(self) -> None:
        """The loader is another one, or was sent elsewhere: the library has no lists any more."""
        self._given.clear()

    def give(self) -> None:
        loader, err = self._loader, _c.new("error")
        state = told("loader_state", lib.bzna_loader_save, loader.handle)
        self._weights.seed = state.seed
        self._given = {epoch for epoch in self._given if epoch >= state.epoch}
        for epoch in (state.epoch, state.epoch + 1):
            if epoch < state.end_epoch and epoch not in self._given:
                dataset = loader.dataset.handle
                check(formats.bzna_formats_weighted_give(loader.handle, dataset, self._weights, epoch, err), err)
                self._given.add(epoch)


def _epoch(epoch: Any) -> int:
    return int(arg.number("epoch", epoch, ctypes.c_uint64))


def _all(sampler: Any) -> Any:
    return [sampler[i] for i in range(len(sampler))] if not hasattr(sampler, "__iter__") else list(sampler)


def _sums(sizes: Any) -> Any:
    end = 0
    for size in sizes:
        end += size
        yield end


def _flat(what: str, batches: Any, most: int) -> Tuple[Any, Any]:
    """The indices of all batches, and the sizes of these."""
    indices, sizes = array.array("Q"), []
    for number, batch in enumerate(batches):
        one = arg.many("%s[%d]" % (what, number), batch, ctypes.c_uint64)
        if not 1 <= len(one) <= most:
            raise ValueError("%s[%d]: %d samples are not within 1..%d (batch_size)" % (what, number, len(one), most))
        indices.extend(one)
        sizes.append(len(one))
    return indices, sizes
