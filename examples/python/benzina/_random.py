"""Random numbers, as the library draws them."""
import ctypes

from . import _arguments as arg
from ._c import lib, structs


class Random:
    """The numbers of one (seed, epoch, sample, operation), the same in every run and on every thread. A callback's rng is one."""

    def __init__(self, seed=0, epoch=0, sample=0, operation=16, _struct=None):
        self.struct = _struct if _struct is not None else structs.random()
        if _struct is None:
            numbers = [arg.number(name, value, ctypes.c_uint64) for name, value in (("seed", seed), ("epoch", epoch), ("sample", sample))]
            lib.bzna_random_init(self.struct, *numbers, arg.number("operation", operation, ctypes.c_uint32))

    def u32(self):
        return lib.bzna_random_u32(self.struct)

    def random(self):
        return lib.bzna_random_uniform(self.struct, 0.0, 1.0)

    def uniform(self, low=0.0, high=1.0):
        return lib.bzna_random_uniform(self.struct, low, high)

    def randrange(self, count):
        """0 .. count - 1."""
        count = arg.number("count", count, ctypes.c_uint64, 1)
        return min(int(self.random() * count), count - 1)

    def generator(self):
        """A numpy Generator seeded by the next four words."""
        import numpy
        return numpy.random.Generator(numpy.random.Philox([self.u32() for _ in range(4)]))
