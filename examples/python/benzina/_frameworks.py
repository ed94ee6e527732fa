"""Fields of batches as arrays of torch, numpy, jax or Python: views that hold the batch's memory, and copies."""
from __future__ import annotations

import ctypes
from typing import Any

from ._batch import Field
from ._modules import installed, torch_with_cuda


class Framework:
    """How one of them takes a Field."""

    name = ""
    cuts = True                                 # first(array, count) works

    def view(self, field: Field) -> Any:
        """An array over the batch's memory, which it keeps."""
        raise NotImplementedError

    def copy(self, field: Field) -> Any:
        """An array over memory of its own."""
        raise NotImplementedError

    def first(self, array: Any, count: int, axis: int) -> Any:
        """The first count samples, which are counted along axis."""
        return array[(slice(None),) * axis + (slice(count),)]


class Numpy(Framework):
    name = "numpy"

    def view(self, field: Field) -> Any:
        return field.numpy()

    def copy(self, field: Field) -> Any:
        return field.numpy().copy()


class Jax(Numpy):
    name = "jax"

    def view(self, field: Field) -> Any:
        """On the host, jax keeps the numpy array for as long as a computation that was dispatched reads it."""
        import jax
        return jax.numpy.asarray(field.numpy()) if field.on_host else jax.dlpack.from_dlpack(field)

    def copy(self, field: Field) -> Any:
        import jax
        if field.on_host:
            return jax.numpy.array(field.numpy(), copy=True)
        return jax.numpy.array(jax.dlpack.from_dlpack(field), copy=True).block_until_ready()


class Torch(Framework):
    name = "torch"

    def view(self, field: Field) -> Any:
        import torch
        if not field.on_host:
            return torch.from_dlpack(field)     # its stream is made to wait
        dtype, shape = getattr(torch, field.dtype), field.shape
        if not field.nbytes:
            return torch.empty(shape, dtype=dtype)
        flat = torch.frombuffer(field.memory(), dtype=dtype)
        return flat if len(shape) == 1 else flat.view(shape)

    def copy(self, field: Field) -> Any:
        """On the host, by one thread: torch's own copy starts several, which wait for one another where decoders leave
        no processor free."""
        if not field.on_host:
            return self.view(field).clone()
        import torch
        made = torch.empty(field.shape, dtype=getattr(torch, field.dtype))
        ctypes.memmove(made.data_ptr(), field.address, field.nbytes)
        return made


class Plain(Framework):
    """Fields as they are."""

    name, cuts = "field", False

    def view(self, field: Field) -> Any:
        return field

    def copy(self, field: Field) -> Any:
        return field.copy() if field.on_host else field


class Memoryview(Framework):
    name, cuts = "memoryview", False

    def view(self, field: Field) -> Any:
        return field.memoryview()

    def copy(self, field: Field) -> Any:
        return field.copy().memoryview()


FRAMEWORKS = {kind.name: kind() for kind in (Torch, Numpy, Jax, Plain, Memoryview)}


def found(on_host: bool, dtype: str) -> str:
    """The first one that is there."""
    if installed("torch") if on_host else torch_with_cuda():
        return "torch"
    return "numpy" if on_host and installed("numpy") and dtype != "bfloat16" else "field"
