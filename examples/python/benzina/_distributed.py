"""Which process of how many this is."""
from __future__ import annotations

import os
from typing import Any, Mapping, NamedTuple, Optional

from ._modules import log, process_group


class Distributed(NamedTuple):
    """The result of distributed_from_env."""

    rank: int
    world_size: int
    local_rank: int


def distributed_from_env(environ: Optional[Mapping[str, str]] = None) -> Distributed:
    """(rank, world_size, local_rank) as torchrun (RANK, WORLD_SIZE, LOCAL_RANK) or Slurm (SLURM_PROCID, SLURM_NTASKS,
    SLURM_LOCALID) say, in this order; (0, 1, 0) if neither does. A DataLoader applies them only if they are passed to
    it:

    >>> benzina.distributed_from_env({"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "3"})
    Distributed(rank=3, world_size=8, local_rank=3)
    """
    environ = os.environ if environ is None else environ
    for rank, world, local in (("RANK", "WORLD_SIZE", "LOCAL_RANK"), ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID")):
        if rank in environ and world in environ:
            try:
                found = Distributed(int(environ[rank]), int(environ[world]), int(environ.get(local, 0)))
            except ValueError:
                raise ValueError("%s, %s, %s: not numbers" % (rank, world, local)) from None
            if not 0 <= found.rank < found.world_size or found.local_rank < 0:
                raise ValueError("%s=%d of %s=%d" % (rank, found.rank, world, found.world_size))
            return found
    return Distributed(0, 1, 0)


_VARIABLES = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
_said = set()                                   # what the log has been told once in this process


def say_once(key: Any, level: int, message: str, *arguments: Any) -> None:
    if key not in _said:
        _said.add(key)
        log.log(level, message, *arguments)


def share_of_group() -> Optional[Distributed]:
    """This process's place in torch.distributed's default group; None if there is none, or this process alone."""
    group = process_group()
    if group is None or group.get_world_size() < 2:
        return None
    return Distributed(group.get_rank(), group.get_world_size(), 0)


def warn_of_variables() -> None:
    """Once, where variables speak of several processes, and no process group exists: each process loads everything."""
    for name in _VARIABLES:
        count = os.environ.get(name, "")
        if process_group() is None and count.isdigit() and int(count) > 1:
            say_once("variables", 30, "%s is %s, but torch.distributed is not initialized, so that every process loads "
                     "all samples: give DataLoader rank= and world_size= (benzina.distributed_from_env() has them), or "
                     "shard=False", name, count)
            return
