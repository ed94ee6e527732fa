"""AugMix in a DataLoader: views of one crop, each changed by a chain of operations, that are mixed on delivery."""
from __future__ import annotations

import random
import weakref
from typing import Any, List, Tuple

from . import _arguments as arg
from . import ops
from ._geometry import drawn
from ._random import Random
from ._settings import library_warp

_OPERATION = 24                                 # of the random numbers that all views share


def take_mixing(augment: Any) -> Tuple[Any, Any]:
    """(the policies, the AugMix or None) of a DataLoader's augment."""
    stages = list(augment) if arg.is_list(augment) else [augment]
    found = [one for one in stages if isinstance(one, ops.AugMix)]
    if not found:
        return augment, None
    if len(stages) > 1:
        raise ValueError("augment: %r stands alone: what it mixes is what comes out" % (found[0],))
    return (), found[0]


class Mixing:
    """What a loader does for an AugMix. beside: settings that it leaves no place for, by name."""

    def __init__(self, loader: Any, mix: ops.AugMix, warp: Any, width: int, height: int, **beside: Any) -> None:
        given = [name for name, value in beside.items() if value]
        if given:
            raise ValueError("augment, %s: %r makes the views of a loader, and mixes them: it stands without these"
                             % (", ".join(given), mix))
        self._mix, self._loader = mix, weakref.ref(loader)      # which has this
        self._struct = library_warp(warp, width, height)
        self._warp = warp if self._struct is None else None
        depths = range(1, 4) if mix.chain_depth < 1 else [mix.chain_depth]
        self._chains = [mix.chain(depth) for depth in depths]

    def apply(self, info: Any, rng: Any, transform: Any) -> None:
        """To a view: the first one is the picture, the others are a chain each. All have the same crop."""
        loader = self._loader()
        if loader is None:                      # it ends, and nobody waits for this
            return
        shared = Random(loader.seed, int(info.epoch), int(info.index), _OPERATION)
        sizes = (info.width, info.height), (info.out_width, info.out_height)
        if self._struct is not None:
            transform.homography[:] = drawn(self._struct, *sizes, shared)
        elif self._warp is not None:
            transform.homography[:] = tuple(self._warp(info.index, *sizes, shared))
        else:
            transform.homography[:] = ops.CenterCrop(1)(0, *sizes, shared)
        if info.view:
            self._chains[rng.randrange(len(self._chains))](rng, transform, sizes[1])

    def weights(self, seed: int, epoch: int, indices: List[int]) -> List[List[float]]:
        """Of each view, for each sample."""
        columns = []
        for index in indices:
            rng = random.Random("%d %d %d" % (seed, epoch, index))
            original, mixed = self._dirichlet(rng, 2)
            columns.append([original] + [mixed * w for w in self._dirichlet(rng, self._mix.mixture_width)])
        return [list(row) for row in zip(*columns)]

    def _dirichlet(self, rng: random.Random, count: int) -> List[float]:
        drawn = [rng.gammavariate(self._mix.alpha, 1) or 1e-300 for _ in range(count)]
        return [one / sum(drawn) for one in drawn]

    def read(self, lender: Any, loader: Any, batch: Any) -> Any:
        """What a lender gives for a batch, with one picture of its views."""
        epoch, indices = batch.epoch, batch.indices.memoryview().tolist()
        views, *rest = lender.read(loader, batch)
        weights = self.weights(loader.seed, epoch, indices[:views.shape[1]])
        return (_sum_of(views, weights), *rest)


def _sum_of(views: Any, weights: List[List[float]]) -> Any:
    """V x N x ... times V x N, in float32; whole numbers are cut, as torchvision cuts them."""
    if hasattr(views, "detach"):
        import torch
        factors = torch.tensor(weights, dtype=torch.float32, device=views.device)
        return torch.einsum("vn...,vn->n...", views.float(), factors).to(views.dtype)
    import numpy
    factors = numpy.array(weights, numpy.float32)
    if isinstance(views, numpy.ndarray):
        return numpy.einsum("vn...,vn->n...", views, factors, dtype=numpy.float32, casting="unsafe").astype(views.dtype)
    import jax
    return jax.numpy.einsum("vn...,vn->n...", views.astype("float32"), factors).astype(views.dtype)
