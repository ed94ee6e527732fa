"""One way through an epoch, and how batches are handed out."""
from __future__ import annotations

import logging
import traceback
import warnings
import weakref
from typing import Any, Callable, Iterator, Optional

from . import _c
from ._batch import Batch
from ._c import Status
from ._dataset import FIELD_VALUES
from ._distributed import say_once
from ._errors import Error
from ._frameworks import FRAMEWORKS, found


class Epoch(Iterator[Any]):
    """One way through an epoch, which begins with its first batch: until then, the loader may be sent elsewhere."""

    def __init__(self, loader: Any, read: Callable[[Batch], Any]) -> None:
        self._loader, self._read, self._over = loader, read, False
        self._is_in_last = False                # its last batch was the last thing that it gave
        self._moves: Optional[int] = None       # the loader's, when it began
        loader._iterator = weakref.ref(self)    # in place of the one before it

    def __iter__(self) -> Epoch:
        return self

    def __len__(self) -> int:
        if self._over or not self._loader._is_current(self):
            return 0
        return int(self._loader._batches_ahead() if self._moves is None else self._loader.batches_left)

    def __repr__(self) -> str:
        try:
            state = "over" if self._over else "%d batches left" % len(self)
        except TypeError:                       # of a Stream, and of samples that were not given
            state = "under way"
        return "<an iterator of %r: %s>" % (self._loader, state)

    def close(self) -> None:
        """Ends it; what is left of the epoch is left out."""
        self._over, self._is_in_last = True, False

    def __next__(self) -> Any:
        loader = self._loader
        if self._over:
            self._is_in_last = False
            raise StopIteration
        if self._moves is None and loader._is_current(self):
            self._moves = loader._begin_epoch()
        if self._moves != loader._moves or not loader._is_current(self):
            self._over = True
            raise Error(Status.E_STATE,
                        "this iterator is over: the loader was iterated anew, or went elsewhere, meanwhile")
        batch = None
        try:
            batch = loader._next_of_epoch()
            if batch is None or batch.last_of_epoch:
                self._over, self._is_in_last = True, batch is not None
            if batch is None:
                raise StopIteration
            return self._read(batch)
        except KeyboardInterrupt as interrupt:  # a notebook keeps its traceback, which must keep no batch
            batch = None
            traceback.clear_frames(interrupt.__traceback__)
            raise


class Lender:
    """Makes (images, targets) of Batches. Arrays are views of a batch as long as another buffer stays free for the
    loader to fill, and copies else, so that as many can be kept as memory holds."""

    def __init__(self, loader: Any, framework: str) -> None:
        self._framework = FRAMEWORKS[framework]
        self._always_copies = loader.copy
        info = loader.info
        self._buffers, self._views = info.batches_in_flight, int(info.image.dimensions) > 4
        self.copied = 0                                 # batches, for want of a free buffer

    def _must_copy(self, batch: Batch) -> bool:
        """Whether this batch is in the last buffer."""
        if self._always_copies:
            return True
        if batch.info.on_loan < self._buffers or batch._refreshed().on_loan < self._buffers:
            return False
        self.copied += 1
        say_once("copied", logging.INFO, "batches are copied: all %d buffers of a DataLoader are in use "
                 "(multibuffering=%d); a larger multibuffering makes no copies", self._buffers, self._buffers)
        return True

    def read(self, loader: Any, batch: Batch) -> Any:
        if batch.failed:
            _warn_of_failures(batch)
        framework, copies = self._framework, self._must_copy(batch)
        slots = loader._slots_of(batch) if framework.cuts else len(batch)

        def large(name: str) -> Any:
            field = batch.tensor(name)
            array = framework.copy(field) if copies else framework.view(field)
            return array if slots == len(batch) else framework.first(array, slots, int(self._views))

        images = large("image") if loader._has_pictures else None
        pair = images, self._small(batch, "target", slots)
        if not (loader._tensors or loader._bytes or loader._outputs or loader._has_operations):
            batch.close()
            return pair
        fields = {name: self._small(batch, name, slots) for name in loader._tensors}
        fields.update((name, large(name)) for name in loader._outputs)
        for name, kind in loader._bytes.items():
            value_of = FIELD_VALUES[kind]
            fields[name] = [None if data is None else value_of(data) for data in batch.bytes(name)[:slots]]
        if loader._has_operations:
            fields["operations"] = self._first(batch.operations, slots)
        batch.close()
        return (*pair, fields)

    def _small(self, batch: Batch, name: str, slots: int) -> Any:
        return self._first(batch.tensor(name), slots)           # which is a copy

    def _first(self, field: Any, slots: int) -> Any:
        array = self._framework.view(field)
        return array if slots == len(field) else self._framework.first(array, slots, 0)


def lender_of(loader: Any) -> Lender:
    if loader.output is None:                   # found out now: what an import leaves behind must not hold a batch
        info = loader.info
        on_host = info.image.device.kind == _c.DEVICE_CPU
        loader._adopt(output=found(on_host, "bfloat16" if info.image.dtype == _c.DTYPE_BFLOAT16 else ""))
    return Lender(loader, loader.output)


def _warn_of_failures(batch: Batch) -> None:
    slot, error = next(iter(batch.errors().items()))
    reason = "" if error.__cause__ is None else ": %r" % error.__cause__
    warnings.warn("%d of %d samples failed; slot %d: %s%s" % (batch.failed, batch.count, slot, error, reason),
                  RuntimeWarning, stacklevel=5)
