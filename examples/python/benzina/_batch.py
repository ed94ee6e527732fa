"""Batch and its arrays: Fields, which lie in the loader's memory, and copies of what is small."""
from __future__ import annotations

import ctypes
import math
import os
import sys
import weakref
from typing import Any, Collection, Dict, List, Optional, Tuple

from . import _arguments as arg
from . import _c, _handles
from ._augment import Drawn, drawn_numbers, drawn_of
from ._c import lib
from ._dlpack import (_CAPSULES, _DL_CODES, _DTYPES, _FORMATS, _KINDS, _capsule_new, _delete_held,
                      _delete_managed, _DLManagedTensor, _export, _export_copy)
from ._errors import Error, check, error_of, told


class Field:
    """One array of a batch, in place: numpy.asarray(field), torch.from_dlpack(field), field.memoryview(). It and its
    views keep the batch's memory."""

    __reduce__ = _handles.uncopied("copy its numbers, by numpy() or torch()")

    def __init__(self, batch: Batch, name: str) -> None:
        self._batch, self._name = batch, name.encode()
        held = ctypes.c_void_p()
        weakref.finalize(self, _delete_held, held, os.getpid()).atexit = False
        self._managed = _DLManagedTensor.from_address(_export(batch.handle, self._name, held=held))
        tensor = self._managed.tensor
        self.shape: Tuple[int, ...] = tuple(tensor.shape[:tensor.dimensions])
        self._kind = _DL_CODES[tensor.code] + str(tensor.bits // 8)
        self.dtype: str = _DTYPES[self._kind]

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return "<benzina.Field %s %s>" % ("x".join(map(str, self.shape)), self.dtype)

    @property
    def address(self) -> int:
        """0 where there is nothing: DLPack has NULL for the data of an empty tensor."""
        return (self._managed.tensor.data or 0) + self._managed.tensor.byte_offset

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        return math.prod(self.shape) * self._managed.tensor.bits // 8

    @property
    def on_host(self) -> bool:
        """False: on a GPU."""
        return self._managed.tensor.device_type == _c.DEVICE_CPU

    def __dlpack_device__(self) -> Tuple[int, int]:
        return (self._managed.tensor.device_type, self._managed.tensor.device_id)

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None,
                   copy: Optional[bool] = None) -> Any:
        """A "dltensor_versioned" capsule of DLPack 1.0 for who takes that, by max_version; else a "dltensor" one."""
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError("the batch is on device %r, not %r" % (self.__dlpack_device__(), tuple(dl_device)))
        version = _c.DLPACK_1 if max_version is not None and tuple(max_version) >= (1, 0) else _c.DLPACK_0
        name, destructor, managed = _CAPSULES[version]
        address = self._managed_for(version, stream, copy)
        try:
            return _capsule_new(address, ctypes.addressof(name), ctypes.cast(destructor, ctypes.c_void_p))
        except BaseException:
            _delete_managed(address, managed=managed)
            raise

    def _managed_for(self, version: int, stream: Any, copy: Optional[bool]) -> int:
        """The address of a DLManagedTensor(Versioned), behind which the stream is ordered."""
        if copy:
            raise BufferError("a batch is exported in place, never copied")
        if not self.on_host and stream != -1:   # -1: the consumer orders its streams itself, behind Batch.stream
            if stream in (0, 2):                # on the threads that give tensors back, 2 is other streams
                raise BufferError("stream: %d is ambiguous; 1 is the legacy default stream" % stream)
            self._batch.move(1 if stream is None else stream)
        return _export(self._batch.handle, self._name, version)

    def _typestr(self):
        if self.dtype == "bfloat16":            # no AttributeError: numpy would make an array of one object
            raise TypeError("bfloat16 is no type of numpy's: torch() has it, and memoryview() gives its bits")
        return ("<" if sys.byteorder == "little" else ">") + self._kind

    @property
    def __array_interface__(self) -> Dict[str, Any]:
        if not self.on_host:
            raise AttributeError("the batch is on a device")
        return {"version": 3, "shape": self.shape, "typestr": self._typestr(),
                "data": (self.address or id(self), False)}       # older numpy takes no 0, even where nothing is read

    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        if self._managed.tensor.device_type != _c.DEVICE_CUDA:
            raise AttributeError("the batch is in host memory")
        return {"version": 3, "shape": self.shape, "typestr": self._typestr(), "data": (self.address, False),
                "strides": None, "stream": self._batch.stream or 1}

    def memory(self) -> Any:
        """A ctypes array over all its bytes, which keeps the batch's memory."""
        if not self.on_host:
            raise BufferError("the batch is on a device")
        kind = ctypes.c_char * self.nbytes
        memory = kind.from_address(self.address) if self.nbytes else kind()
        memory.field = self                     # views keep memory, memory keeps this
        return memory

    def memoryview(self) -> memoryview:
        """The elements as a memoryview: nothing but Python is needed. float16 and bfloat16 come as their bits. An empty
        batch's has one dimension."""
        view = memoryview(self.memory()).cast("B")
        return view.cast(_FORMATS[self._kind], self.shape) if self.nbytes else view.cast(_FORMATS[self._kind])

    def copy(self) -> Field:
        """The same numbers in memory of its own, which the batch does not need."""
        return Copied(self.address, self.nbytes, self.shape, self._kind)

    def numpy(self) -> Any:
        """A numpy array over the batch's memory."""
        if not self.on_host:
            raise BufferError("the batch is on a device")
        self._typestr()                         # says what numpy cannot have
        import numpy
        return numpy.asarray(self)

    def torch(self) -> Any:
        """A tensor over the batch's memory."""
        import torch
        return torch.from_dlpack(self)


class Copied(Field):
    """A Field in memory of its own, which no batch needs."""

    def __init__(self, address: Any, nbytes: int, shape: Tuple[int, ...], kind: str) -> None:
        self._own = (ctypes.c_char * nbytes)()
        ctypes.memmove(self._own, address, nbytes)
        self.shape, self._kind, self.dtype = shape, kind, _DTYPES[kind]

    @property
    def address(self) -> int:
        return ctypes.addressof(self._own)

    @property
    def nbytes(self) -> int:
        return len(self._own)

    @property
    def on_host(self) -> bool:
        return True

    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        raise AttributeError("the copy is in host memory")

    def __dlpack_device__(self) -> Tuple[int, int]:
        return (_c.DEVICE_CPU, 0)

    def _managed_for(self, version: int, stream: Any, copy: Optional[bool]) -> int:
        return _export_copy(self._own, self.shape, self._kind, version)

    def memory(self) -> Any:
        return self._own


_NUMBERS = ("target", "index", "status")        # which every batch has


class Batch(_handles.Handled):
    """One batch on loan from DataLoader.batches(). images: a Field, in the loader's memory; targets, indices, status:
    copies, which do not keep the batch. count: real samples; the other slots are padding; failed of them hold the
    out-of-bounds color, and errors() says why.

    release() gives it back at once, else the garbage collector does; views of images stay valid. A loader has as many
    batches as multibuffering says: a program that keeps all of them, and asks for another, gets an Error.

    >>> loader = benzina.DataLoader("train.bzna", shape=64, batch_size=4)
    >>> for batch in loader.batches():
    ...     print(batch.indices.memoryview().tolist(), batch.images)
    [0, 1, 2, 3] <benzina.Field 4x3x64x64 float32>
    [4, 5, 6, 7] <benzina.Field 4x3x64x64 float32>

    If a batch is on a GPU, only its images are there. Work that is enqueued on stream (a CUstream as a number; None on
    the host) reads the finished images."""

    __reduce__ = _handles.uncopied("copy the numbers of its Fields, by numpy() or torch()")
    _gone = "the batch was released"

    def __init__(self, handle: Any, failures: Any = None, numbers: Collection[str] = ()) -> None:
        self._handle, self._failures = handle, failures
        self._numbers = numbers                 # names of the loader's tensors
        self._close = _handles.owned(self, lib.bzna_batch_release, handle)
        self._close.atexit = False              # views may live on in what Python does not collect
        info = self._refreshed()
        self.count: int = info.count
        self.failed: int = info.failed
        self.replaced: int = info.replaced
        self.epoch: int = info.epoch
        self.position: int = info.position
        self.number: int = info.batch
        self.last_of_epoch = bool(info.last_of_epoch)
        self.shape: Tuple[int, ...] = tuple(info.image.shape[:info.image.dimensions])

    def _refreshed(self) -> Any:
        """info, as it is now."""
        self.info = told("batch_info", lib.bzna_batch_get_info, self.handle)
        return self.info

    def __repr__(self) -> str:
        failed = ", %d failed" % self.failed if self.failed else ""
        state = "released" if self._handle is None else "%d samples%s" % (self.count, failed)
        return "<benzina.Batch %d of epoch %d: %s>" % (self.number, self.epoch, state)

    @property
    def stream(self) -> Optional[int]:
        """The CUstream that it is ready on, as a number; None on the host."""
        return self.info.stream

    def move(self, stream: Any) -> None:
        """Makes another stream wait for the batch on the GPU, instead of the one it was delivered to; giving it back is
        then ordered behind that."""
        err = _c.new("error")
        check(lib.bzna_batch_move(self.handle, arg.stream_number(stream), err), err)
        self._refreshed()

    @property
    def images(self) -> Field:
        """N x 3 x H x W, as the loader's dtype, layout and channels say; of several views V x N x 3 x H x W."""
        return Field(self, "image")

    @property
    def targets(self) -> Field:
        """N int64, -1: none. A copy."""
        return self._copied("target")

    @property
    def indices(self) -> Field:
        """N uint64: of the samples in the dataset; of a selection, in the whole that was selected from. A copy."""
        return self._copied("index")

    @property
    def status(self) -> Field:
        """N int32: 0, or a Status below 0. A copy."""
        return self._copied("status")

    @property
    def operations(self) -> Field:
        """The operations that policies drew: N x V x 8 x 9 float32, as with the loader's operations=True. A copy."""
        self.handle                             # raises, where it is gone
        data, shape = drawn_numbers(self.info, len(self))
        return Copied(data, len(data), shape, "f4")

    def drawn(self, slot: int, view: int = 0) -> List[Drawn]:
        """The operations that policies drew for a view of a sample: [Drawn(name, magnitude, area, value), ...]. Views
        of the images
        come first, then those of each output.

        >>> policy = ops.Policy([ops.Operation("rotate", 15), ops.Operation("invert")])
        >>> loader = benzina.DataLoader("train/", 32, 4, augment=policy)
        >>> [(one.name, one.magnitude) for one in next(loader.batches()).drawn(0)]
        [('rotate', 15.0), ('invert', 0.0)]
        """
        slot, view = arg.number("slot", slot, ctypes.c_uint32, 0, len(self) - 1), arg.number(
            "view", view, ctypes.c_uint32
        )
        self.handle                             # raises, where it is gone
        if view >= self.info.operation_views:
            if self.info.operation_views:
                raise ValueError(
                    "view: %d is not below the %d views of all outputs" % (view, self.info.operation_views)
                )
            return []
        return drawn_of(self.info, slot, view)

    def __len__(self) -> int:
        return self.shape[-4]                   # before it, if anything, the number of views

    def __dlpack__(self, **options: Any) -> Any:
        return self.images.__dlpack__(**options)

    def __dlpack_device__(self) -> Tuple[int, int]:
        return (self.info.image.device.kind, self.info.image.device.ordinal)

    def tensor(self, name: str) -> Field:
        """The Field of one of the loader's tensors, by name. Pictures are in the batch; other tensors are copies."""
        return self._copied(name) if name in _NUMBERS or name in self._numbers else Field(self, name)

    def _copied(self, name: str) -> Copied:
        found = told("tensor", lib.bzna_batch_tensor, self.handle, name.encode())
        return Copied(found.data, found.bytes, tuple(found.shape[:found.dimensions]), _KINDS[found.dtype])

    def bytes(self, name: str) -> List[Optional[bytes]]:
        """The values of one of the loader's bytes, as they are: a list with bytes, or None, for each slot."""
        data, size, err, values = ctypes.c_void_p(), ctypes.c_uint64(), _c.new("error"), []
        for slot in range(len(self)):
            check(lib.bzna_batch_bytes(self.handle, name.encode(), slot, data, size, err), err)
            values.append(ctypes.string_at(data.value, size.value) if data.value else None)
        return values

    def errors(self) -> Dict[int, Error]:
        """{slot: Error} of the samples that failed. An exception that a callback raised is the Error's __cause__."""
        result = {}
        for slot in range(len(self)):
            err = _c.new("error")
            status = lib.bzna_batch_error(self.handle, slot, err)
            if status < 0:
                error = result[slot] = error_of(status, err)
                error.__cause__ = None if self._failures is None else self._failures.exception_of(error)
        return result

    def release(self) -> None:
        """Gives it back; views of its Fields, and copies, stay valid."""
        self.close()
