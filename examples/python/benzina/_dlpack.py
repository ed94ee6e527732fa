"""DLPack: arrays of batches, handed to other libraries."""
import ctypes
import math
import os
import struct

from . import _c
from ._c import lib
from ._errors import check
from ._handles import undisturbed


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("dimensions", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class _DLManagedTensor(ctypes.Structure):
    _fields_ = [("tensor", _DLTensor), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class _DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _DLTensor)]


_DL_CODES = {0: "i", 1: "u", 2: "f", 4: "bf"}
_CODES = {letters: code for code, letters in _DL_CODES.items()}
_KINDS = {_c.DTYPE_FLOAT32: "f4", _c.DTYPE_FLOAT16: "f2", _c.DTYPE_BFLOAT16: "bf2", _c.DTYPE_UINT8: "u1",
          _c.DTYPE_INT32: "i4", _c.DTYPE_INT64: "i8", _c.DTYPE_UINT64: "u8"}
_DTYPES = {"f4": "float32", "f2": "float16", "bf2": "bfloat16", "u1": "uint8", "i4": "int32", "i8": "int64",
           "u8": "uint64"}
# As in struct and memoryview, which has float16 from Python 3.12 on only.
_FORMATS = {"f4": "f", "f2": "H", "bf2": "H", "u1": "B", "i4": "i", "i8": "q", "u8": "Q"}

# Prototypes of our own: ctypes.pythonapi is shared with everybody else in the process.
_capsule_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi))
_capsule_is = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi))
_delete_fn = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def _delete_managed(address, process=None, managed=_DLManagedTensor):
    if process is None or process == os.getpid():
        undisturbed(_delete_fn(managed.from_address(address).deleter), address)


def _delete_held(held, process):
    """What becomes of an export whose owner is gone: held is a c_void_p, empty until the library has filled it."""
    if held.value:
        _delete_managed(held.value, process)


def _capsules(text, managed):
    """(name, destructor, struct) of one kind of capsule; capsules point to the first two for ever."""
    label = ctypes.create_string_buffer(text)

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def destructor(capsule, is_named=_capsule_is, pointer=_capsule_pointer, name=ctypes.addressof(label),
                   delete=_delete_managed):
        # A number, not an object: the capsule has no references left, and must not get one. Whoever took the tensor has
        # renamed the capsule. C code that failed may drop the capsule with its exception set; the first call then
        # raises that one: it is said once more on stderr, and the tensor is given back all the same.
        pending = None
        try:
            ours = is_named(capsule, name)
        except BaseException as exception:
            pending, ours = exception, is_named(capsule, name)
        if ours:
            delete(pointer(capsule, name), managed=managed)
        if pending is not None:
            raise pending
    return label, destructor, managed


_CAPSULES = {_c.DLPACK_0: _capsules(b"dltensor", _DLManagedTensor),
             _c.DLPACK_1: _capsules(b"dltensor_versioned", _DLManagedTensorVersioned)}


def _export(batch, name, version=_c.DLPACK_0, held=None):
    """The address of a DLManagedTensor(Versioned), which keeps the batch on loan until its deleter has run. held: a
    c_void_p of the caller's that has it first, so that an interrupt behind the call loses nothing."""
    tensor, err = ctypes.c_void_p() if held is None else held, _c.new("error")
    check(lib.bzna_batch_to_dlpack(batch, name, version, tensor, err), err)
    return tensor.value


# The C library's own: a block that is freed by what everybody can call, on any thread, and after the interpreter's end.
_process = ctypes.CDLL(None)
_aligned_alloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)(("aligned_alloc", _process))
_free = ctypes.cast(_process.free, ctypes.c_void_p).value
_ALIGNMENT = 64                                 # of data, without which some copy once more
_IS_COPIED = 2                                  # DLPack's flag


def _up(size):
    return -(-size // _ALIGNMENT) * _ALIGNMENT


# The same structs as above, as struct packs them: a batch's small arrays are copied often.
_PACKED_TENSOR = "PiiiBBHPPQ"
_PACKED = {_c.DLPACK_0: struct.Struct("@%sPP" % _PACKED_TENSOR),
           _c.DLPACK_1: struct.Struct("@IIPPQ%s" % _PACKED_TENSOR)}


def _export_copy(memory, shape, kind, version):
    """The address of a DLManagedTensor(Versioned) that has the numbers of memory, a ctypes array, behind it."""
    packed, size, dimensions = _PACKED[version], len(memory), len(shape)
    strides = [math.prod(shape[i + 1:]) for i in range(dimensions)]
    numbers = struct.pack("@%dq" % (2 * dimensions), *shape, *strides)
    begin = packed.size
    data = _up(begin + len(numbers))
    address = _aligned_alloc(_ALIGNMENT, data + _up(size))
    if not address:
        raise MemoryError
    letters = kind.rstrip("0123456789")
    tensor = (address + data if size else 0, _c.DEVICE_CPU, 0, dimensions, _CODES[letters],
              8 * int(kind[len(letters):]), 1, address + begin, address + begin + 8 * dimensions, 0)
    if version == _c.DLPACK_1:
        header = packed.pack(1, 0, 0, _free, _IS_COPIED, *tensor)
    else:
        header = packed.pack(*tensor, 0, _free)
    ctypes.memmove(address, header + numbers, begin + len(numbers))
    ctypes.memmove(address + data, memory, size)
    return address
