"""Lightning's counts of batches, in a run that goes on from a checkpoint.

Lightning counts an epoch's batches over both runs, and reads the length of a loader when it sets up a fit: before the
loader's state is restored, and once after that, for all epochs that follow. With other batches than before, by their
size or by the number of processes, the epoch that it goes on with and those that follow differ in length."""
from __future__ import annotations

import sys
import weakref
from typing import Any, Optional

_MODULES = ("lightning.pytorch.loops.fit_loop", "pytorch_lightning.loops.fit_loop")
_FRAMES = 10                                    # between a fit loop and load_state_dict


class Counts:
    """Those of a fit loop, which has this loader alone."""

    def __init__(self, fit_loop: Any) -> None:
        self._fit_loop = weakref.ref(fit_loop)

    def correct(self, left: int) -> None:
        """An epoch begins, or goes on, and brings so many batches more."""
        fit_loop = self._fit_loop()
        fetcher = None if fit_loop is None else fit_loop._data_fetcher
        if fetcher is None:
            return
        trainer, limit = fit_loop.trainer, fit_loop.trainer.limit_train_batches
        length = fit_loop.epoch_loop.batch_progress.current.ready + left
        length = min(length, limit) if isinstance(limit, int) else int(length * limit)
        fetcher.length = length
        if trainer.val_check_batch not in (None, float("inf")) and isinstance(trainer.val_check_interval, float):
            trainer.val_check_batch = max(1, int(length * trainer.val_check_interval))
        fit_loop.max_batches = length


def counts_of(loader: Any) -> Optional[Counts]:
    """Called in load_state_dict: the fit loop that calls it, if that is so. There is no other way to it."""
    kinds = tuple(kind for name in _MODULES for kind in [getattr(sys.modules.get(name), "_FitLoop", None)] if kind)
    frame = sys._getframe(2)
    for _ in range(_FRAMES if kinds else 0):
        fit_loop = frame.f_locals.get("self")
        if isinstance(fit_loop, kinds):
            combined = fit_loop._combined_loader
            if len(combined.flattened) != 1 or combined.flattened[0] is not loader:
                return None
            limit = fit_loop.trainer.limit_train_batches
            combined.limits = [limit if isinstance(limit, int) else int(len(loader) * limit)]
            return Counts(fit_loop)
        if frame.f_back is None:
            break
        frame = frame.f_back
    return None
