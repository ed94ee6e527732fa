"""Random numbers, as the library draws them."""
from __future__ import annotations

import ctypes
from typing import Any

from . import _arguments as arg
from ._c import lib, structs


class Random:
    """The numbers of one (seed, epoch, sample, operation), the same in every run and on every thread. A callback's rng
    is one.

    >>> rng = benzina.Random(seed=1234, epoch=2, sample=7)
    >>> 0 <= rng.random() < 1, rng.randrange(10) in range(10)
    (True, True)
    """

    def __init__(self, seed: int = 0, epoch: int = 0, sample: int = 0, operation: int = 16,
                 _struct: Any = None) -> None:
        self.struct = _struct if _struct is not None else structs.random()
        if _struct is None:
            numbers = [arg.number(name, value, ctypes.c_uint64)
                       for name, value in (("seed", seed), ("epoch", epoch), ("sample", sample))]
            lib.bzna_random_init(self.struct, *numbers, arg.number("operation", operation, ctypes.c_uint32))

    def __repr__(self) -> str:
        of = self.struct
        return "<benzina.Random key=%r counter=%r used=%d>" % (list(of.key), list(of.counter), of.used)

    def u32(self) -> int:
        """0 .. 2**32 - 1."""
        return lib.bzna_random_u32(self.struct)

    def random(self) -> float:
        """0 <= x < 1."""
        return lib.bzna_random_uniform(self.struct, 0.0, 1.0)

    def uniform(self, low: float = 0.0, high: float = 1.0) -> float:
        """low <= x < high."""
        return lib.bzna_random_uniform(self.struct, low, high)

    def randrange(self, count: int) -> int:
        """0 .. count - 1."""
        count = arg.number("count", count, ctypes.c_uint64, 1)
        return min(int(self.random() * count), count - 1)

    def generator(self) -> Any:
        """A numpy Generator seeded by the next four words."""
        import numpy
        return numpy.random.Generator(numpy.random.Philox([self.u32() for _ in range(4)]))
