"""Batch and Field."""
from __future__ import annotations

import ctypes
import math
import os
import sys
import weakref
from typing import Any, Dict, List, Optional, Tuple

from . import _arguments as arg
from . import _c, _handles
from ._c import lib
from ._dlpack import _CAPSULES, _DL_CODES, _DTYPES, _FORMATS, _capsule_new, _delete_managed, _DLManagedTensor, _export
from ._errors import Error, check, error_of, told


class Field:
    """One array of a batch, in place: numpy.asarray(field), torch.from_dlpack(field), field.memoryview(). It and its views keep
    the batch's memory."""

    __reduce__ = _handles.uncopied("copy its numbers, by numpy() or torch()")

    def __init__(self, batch: Batch, name: str) -> None:
        self._batch, self._name = batch, name.encode()
        address = _export(batch.handle, self._name)
        self._managed = _DLManagedTensor.from_address(address)
        weakref.finalize(self, _delete_managed, address, os.getpid()).atexit = False
        tensor = self._managed.tensor
        self.shape: Tuple[int, ...] = tuple(tensor.shape[:tensor.dimensions])
        self._kind = _DL_CODES[tensor.code] + str(tensor.bits // 8)
        self.dtype: str = _DTYPES[self._kind]
        batch._exported.append(weakref.ref(self))

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

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Optional[bool] = None) -> Any:
        """A "dltensor_versioned" capsule of DLPack 1.0 for who takes that, by max_version; else a "dltensor" one."""
        if copy:
            raise BufferError("a batch is exported in place, never copied")
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError("the batch lies on device %r, not %r" % (self.__dlpack_device__(), tuple(dl_device)))
        if not self.on_host and stream != -1:   # -1: the consumer orders its streams itself, behind Batch.stream
            if stream in (0, 2):                # tensors are given back on whatever thread, which 2 is another stream on
                raise BufferError("stream: %d is ambiguous; 1 is the legacy default stream" % stream)
            self._batch.move(1 if stream is None else stream)
        version = _c.DLPACK_1 if max_version is not None and tuple(max_version) >= (1, 0) else _c.DLPACK_0
        name, destructor, managed = _CAPSULES[version]
        address = _export(self._batch.handle, self._name, version)
        try:
            return _capsule_new(address, ctypes.addressof(name), ctypes.cast(destructor, ctypes.c_void_p))
        except BaseException:
            _delete_managed(address, managed=managed)
            raise

    def _typestr(self):
        if self.dtype == "bfloat16":            # no AttributeError: numpy would make an array of one object
            raise TypeError("bfloat16 is no type of numpy's: torch() has it, and memoryview() gives its bits")
        return ("<" if sys.byteorder == "little" else ">") + self._kind

    @property
    def __array_interface__(self) -> Dict[str, Any]:
        if not self.on_host:
            raise AttributeError("the batch lies on a device")
        return {"version": 3, "shape": self.shape, "typestr": self._typestr(),
                "data": (self.address or ctypes.addressof(self._managed), False)}    # older numpy takes no 0, even where nothing is read

    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        if self._managed.tensor.device_type != _c.DEVICE_CUDA:
            raise AttributeError("the batch lies in host memory")
        return {"version": 3, "shape": self.shape, "typestr": self._typestr(), "data": (self.address, False), "strides": None,
                "stream": self._batch.stream or 1}

    def memory(self) -> Any:
        """A ctypes array over all its bytes, which keeps the batch's memory."""
        if not self.on_host:
            raise BufferError("the batch lies on a device")
        kind = ctypes.c_char * self.nbytes
        memory = kind.from_address(self.address) if self.nbytes else kind()
        memory.field = self                     # views keep memory, memory keeps this
        return memory

    def memoryview(self) -> memoryview:
        """The elements as a memoryview: nothing but Python is needed. float16 and bfloat16 come as their bits. An empty batch's has one dimension."""
        view = memoryview(self.memory()).cast("B")
        return view.cast(_FORMATS[self._kind], self.shape) if self.nbytes else view.cast(_FORMATS[self._kind])

    def copy(self) -> Field:
        """The same numbers in memory of its own, which the batch does not need. It has no __dlpack__."""
        return _Copy(self)

    def numpy(self) -> Any:
        """A numpy array over the batch's memory."""
        if not self.on_host:
            raise BufferError("the batch lies on a device")
        self._typestr()                         # says what numpy cannot have
        import numpy
        return numpy.asarray(self)

    def torch(self) -> Any:
        """A tensor over the batch's memory."""
        import torch
        return torch.from_dlpack(self)


class _Copy(Field):
    """A Field of no batch."""

    def __init__(self, field):
        self._own = (ctypes.c_char * field.nbytes).from_buffer_copy(field.memory())
        self._managed = _DLManagedTensor()
        ctypes.pointer(self._managed.tensor)[0] = field._managed.tensor
        self._managed.tensor.data, self._managed.tensor.byte_offset = ctypes.addressof(self._own), 0
        self._batch, self._name = None, field._name
        self.shape, self._kind, self.dtype = field.shape, field._kind, field.dtype

    def __dlpack__(self, **_):
        raise BufferError("a copy is exported by numpy() or memoryview() alone")


class Batch(_handles.Handled):
    """One batch on loan from DataLoader.batches(). images, targets, indices, status: Fields. count: real samples, the rest is padding;
    failed of them hold the out-of-bounds color, and errors() says why. release() gives it back at once, else the collector does; views
    stay valid. A loader has multibuffering of them: who keeps all, and asks for another, gets an Error.

    >>> loader = benzina.DataLoader("train.bzna", shape=64, batch_size=4)
    >>> for batch in loader.batches():
    ...     print(batch.indices.memoryview().tolist(), batch.images)
    [0, 1, 2, 3] <benzina.Field 4x3x64x64 float32>
    [4, 5, 6, 7] <benzina.Field 4x3x64x64 float32>

    Of a batch on a GPU, images alone lie there; what is enqueued on stream (a CUstream as a number; None on the host) reads them finished."""

    __reduce__ = _handles.uncopied("copy the numbers of its Fields, by numpy() or torch()")
    _gone = "the batch was released"

    def __init__(self, handle: Any, failures: Any = None) -> None:
        self._handle, self._failures = handle, failures
        self._exported: List[Any] = []
        self._close = _handles.owned(self, lib.bzna_batch_release, handle)
        self._close.atexit = False              # views may live on in what Python does not collect
        self.info = told("batch_info", lib.bzna_batch_get_info, handle)
        info = self.info
        self.count: int = info.count
        self.failed: int = info.failed
        self.replaced: int = info.replaced
        self.epoch: int = info.epoch
        self.position: int = info.position
        self.number: int = info.batch
        self.last_of_epoch = bool(info.last_of_epoch)
        self.shape: Tuple[int, ...] = tuple(info.image.shape[:info.image.dimensions])

    def __repr__(self) -> str:
        state = "released" if self._handle is None else "%d samples%s" % (self.count, ", %d failed" % self.failed if self.failed else "")
        return "<benzina.Batch %d of epoch %d: %s>" % (self.number, self.epoch, state)

    @property
    def is_out(self) -> bool:
        """Whether the loader still misses it: it was not released, or its Fields are in use. What else took its memory by DLPack is
        not known here."""
        return self._handle is not None or any(field() is not None for field in self._exported)

    @property
    def stream(self) -> Optional[int]:
        """The CUstream that it is ready on, as a number; None on the host."""
        return self.info.stream

    def move(self, stream: Any) -> None:
        """Makes another stream wait for the batch on the GPU, instead of the one it was delivered to; giving it back then orders behind that."""
        err = _c.new("error")
        check(lib.bzna_batch_move(self.handle, arg.stream_number(stream), err), err)
        self.info = told("batch_info", lib.bzna_batch_get_info, self.handle)

    @property
    def images(self) -> Field:
        """N x 3 x H x W, as the loader's dtype, layout and channels say; of several views V x N x 3 x H x W."""
        return Field(self, "image")

    @property
    def targets(self) -> Field:
        """N int64, -1: none."""
        return Field(self, "target")

    @property
    def indices(self) -> Field:
        """N uint64: of the samples in the dataset; of a selection, in the whole that was selected from."""
        return Field(self, "index")

    @property
    def status(self) -> Field:
        """N int32: 0, or a Status below 0."""
        return Field(self, "status")

    def __len__(self) -> int:
        return self.shape[-4]                   # before it, if anything, the number of views

    def __dlpack__(self, **options: Any) -> Any:
        return self.images.__dlpack__(**options)

    def __dlpack_device__(self) -> Tuple[int, int]:
        return (self.info.image.device.kind, self.info.image.device.ordinal)

    def tensor(self, name: str) -> Field:
        """The Field of one of the loader's tensors, by name."""
        return Field(self, name)

    def bytes(self, name: str) -> List[Optional[bytes]]:
        """The values of one of the loader's bytes, as they are: a list with bytes, or None, for each slot."""
        data, size, err, values = ctypes.c_void_p(), ctypes.c_uint64(), _c.new("error"), []
        for slot in range(len(self)):
            check(lib.bzna_batch_bytes(self.handle, name.encode(), slot, data, size, err), err)
            values.append(ctypes.string_at(data.value, size.value) if data.value else None)
        return values

    def errors(self) -> Dict[int, Error]:
        """{slot: Error} of the samples that failed. Where a callback raised an exception, it is the Error's __cause__."""
        result = {}
        for slot in range(len(self)):
            err = _c.new("error")
            status = lib.bzna_batch_error(self.handle, slot, err)
            if status < 0:
                error = result[slot] = error_of(status, err)
                error.__cause__ = None if self._failures is None else self._failures.exception_of(error)
        return result

    def release(self) -> None:
        """Gives it back; views of its Fields stay valid."""
        self.close()
