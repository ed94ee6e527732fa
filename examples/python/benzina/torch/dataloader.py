"""The original's DataLoader."""
from __future__ import annotations

import os
from typing import Any, Iterable, Iterator, Optional, Tuple

from .. import _loader
from .._batch import Batch
from .._iteration import Epoch, lender_of
from .._modules import installed
from .._types import Batches, Device, Indices, Shape
from . import operations as ops
from .dataset import Dataset

_NEED_NO_NUMBERS = {ops.ConstantWarpTransform, ops.SimilarityTransform, ops.RandomResizedCrop, ops.CenterResizedCrop}


class DataLoader(_loader.DataLoader):
    """Batches of a data set of benzina.torch.dataset: (images, targets), or (images,) if it has no targets.

        >>> import benzina.torch
        >>> loader = benzina.torch.DataLoader(benzina.torch.Dataset("train.bzna"), 64, batch_size=4)
        >>> [tuple(images.shape) for images, in loader]
        [(4, 3, 64, 64), (4, 3, 64, 64)]

    dataset          of benzina.torch.dataset, or torch's Subset of one
    shape            (height, width), or one number for both. Pictures are not resized to it: warp_transform does that
    path             None, or the archive of the data set, or a copy of it, from which pictures are read then
    batch_size, shuffle, sampler, batch_sampler, drop_last, timeout
                     as torch's
    collate_fn       is given what items have beside their pictures, a tuple each, and makes of it what a batch has
                     beside its pictures; None: torch's default_collate. Pictures are decoded in place
    device           "cuda:1", "cpu", a torch.device, ...; None: the GPU if there is one
    multibuffering   batches being filled, ready or in use
    seed             of the order and of the random warps; None: a number of torch's
    bias_transform   what is subtracted from pixels: one of operations, or numbers, in 0..255
    norm_transform   what they are multiplied by after that
    warp_transform   one of operations, or nine numbers; None: the picture's top left corner, unscaled

    Transforms that are written in Python are called with (index, in_shape, out_shape, rng), where rng is a
    numpy.random.RandomState. With torch.distributed, every process loads all samples that its sampler yields, as
    there."""

    def __init__(
        self,
        dataset: Any,
        shape: Shape,
        path: Optional[str] = None,
        batch_size: int = 1,
        shuffle: bool = False,
        sampler: Optional[Indices] = None,
        batch_sampler: Optional[Batches] = None,
        collate_fn: Any = None,
        drop_last: bool = False,
        timeout: Optional[float] = 0,
        device: Device = None,
        multibuffering: int = 3,
        seed: Optional[int] = None,
        bias_transform: Any = None,
        norm_transform: Any = None,
        warp_transform: Any = None,
    ) -> None:
        if batch_sampler is not None and batch_size != 1:
            raise ValueError("batch_sampler, batch_size: give one of the two")
        if multibuffering < 1:
            raise ValueError("multibuffering: %r: at least one batch is needed" % (multibuffering,))
        is_default = collate_fn is None or getattr(collate_fn, "__name__", "") == "default_collate"
        self._collate_fn = None if is_default else collate_fn
        self._items, data = _unwrapped(dataset, path)
        if seed is None and installed("torch") is not None:
            seed = int(installed("torch").randint(2**32, ()))
        self.path, self.device, self.multibuffering = path or self._items.filename, device, multibuffering
        self.warp_transform = _made(warp_transform, ops.WarpTransform, ops.ConstantWarpTransform)
        self.norm_transform = _made(norm_transform, ops.NormTransform, ops.ConstantNormTransform)
        self.bias_transform = _made(bias_transform, ops.BiasTransform, ops.ConstantBiasTransform)
        self.color_transform, self.oob_transform = ops.ConstantColorTransform(), ops.ConstantOOBTransform()
        super().__init__(
            data,
            shape,
            batch_size,
            shuffle,
            sampler=sampler,
            batch_sampler=batch_sampler,
            drop_last=drop_last,
            timeout=timeout,
            device=None if device is None else str(device),
            multibuffering=multibuffering,
            seed=seed,
            shard=False,
            track=self._items.picture(),
            warp=_taken(self.warp_transform),
            norm=_taken(self.norm_transform),
            bias=_taken(self.bias_transform),
        )

    def __iter__(self) -> Iterator[Any]:
        if self._collate_fn is None and self._items.has_plain_targets():
            return super().__iter__()
        self._iterate()
        if self._lender is None:
            self._lender = lender_of(self)
        lender = self._lender

        def read(batch: Batch) -> Tuple[Any, ...]:
            indices = list(batch.indices.memoryview())[:self._slots_of(batch)]
            images = lender.read(self, batch)[0]
            return (images, *_collated([self._items[index] for index in indices], self._collate_fn))
        return Epoch(self, read)


def _unwrapped(dataset: Any, path: Optional[str]) -> Tuple[Dataset, Any]:
    """A data set of ours, and what is loaded of it or of torch's Subset of it; from a copy if path names one."""
    if hasattr(dataset, "dataset") and hasattr(dataset, "indices"):
        items, data = _unwrapped(dataset.dataset, path)
        return items, data[dataset.indices]
    if not isinstance(dataset, Dataset):
        raise TypeError("dataset: %r is none of benzina.torch.dataset; benzina.DataLoader takes others" % (dataset,))
    is_copy = path is not None and not os.path.samefile(path, dataset.filename)
    return dataset, dataset.data_at(path) if is_copy else dataset.data


def _made(transform: Any, kind: Any, constant: Any) -> Any:
    return transform if isinstance(transform, kind) else constant(transform)


class _Called:
    """A transform that is written in Python, which draws from a numpy.random.RandomState."""

    def __init__(self, transform: Any) -> None:
        self._transform = transform

    def __call__(self, index: int, in_shape: Any, out_shape: Any, rng: Any) -> Any:
        import numpy
        return self._transform(index, in_shape, out_shape, numpy.random.RandomState(rng.u32()))


def _taken(transform: Any) -> Any:
    """What benzina.DataLoader takes."""
    if type(transform) is ops.ConstantBiasTransform:
        return transform.bias
    if type(transform) is ops.ConstantNormTransform:
        return transform.norm
    return transform if type(transform) in _NEED_NO_NUMBERS else _Called(transform)


def _collated(items: Iterable[Any], collate_fn: Any = None) -> Tuple[Any, ...]:
    beside = [item.target if hasattr(item, "target") else getattr(item, "aux", ()) for item in items]
    if collate_fn is not None:
        return tuple(collate_fn(beside))
    if not beside or not beside[0]:
        return ()
    from torch.utils.data import default_collate
    return tuple(default_collate(beside))
