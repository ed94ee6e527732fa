"""Which process of how many this is."""
import collections
import os


Distributed = collections.namedtuple("Distributed", "rank world_size local_rank")


def distributed_from_env(environ=None):
    """(rank, world_size, local_rank) as torchrun (RANK, WORLD_SIZE, LOCAL_RANK) or Slurm (SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID) say,
    in this order; (0, 1, 0) where neither does."""
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
