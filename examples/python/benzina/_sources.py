"""Python objects that data sets are read from."""
import ctypes
import errno
import io
import os
import threading
from typing import List

from . import _arguments as arg
from . import _c, _handles
from ._errors import RemoteFailure, check, remote_failures


def expanded(pattern: str) -> List[str]:
    """The texts that its braces stand for: "a-{0..2}.tar" and "{a,b}", as a shell has them."""
    text, needed, err = arg.path_bytes(pattern), ctypes.c_size_t(), _c.new("error")
    status = _c.formats.bzna_formats_braces(text, None, 0, needed, None, err)
    if status != _c.Status.E_BUFFER:
        check(status, err)
    texts = ctypes.create_string_buffer(needed.value)
    check(_c.formats.bzna_formats_braces(text, ctypes.addressof(texts), needed.value, needed, None, err), err)
    return [os.fsdecode(one) for one in texts.raw[:needed.value].split(b"\0")[:-1]]


def address_of(data):
    """(address, size) of bytes, and what keeps them there."""
    if isinstance(data, bytes):
        return (ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value, len(data)), data
    if isinstance(data, bytearray) and data:
        held = (ctypes.c_char * len(data)).from_buffer(data)
        return (ctypes.addressof(held), len(data)), held
    return address_of(bytes(data))


class _Failure:
    """The last exception of a source, which its data sets keep: a traceback leads to them, so that the source, which C
    and with it the registry hold, must not."""

    failure = None


class _ReadAtSource:
    """Over an object with read_at(offset, size) -> bytes and size, a number or a method."""

    def __init__(self, thing):
        self.thing = thing

    def size(self):
        return arg.number(
            "size", self.thing.size() if callable(self.thing.size) else self.thing.size, ctypes.c_int64, 0
        )

    def read_into(self, offset, view):
        data = memoryview(self.thing.read_at(offset, len(view))).cast("B")
        if len(data) > len(view):
            raise ValueError("read_at returned %d bytes where %d were asked for" % (len(data), len(view)))
        view[:len(data)] = data
        return len(data)

    def close(self):
        self.thing = None


class _DescriptorSource:
    """A plain file: read by pread on a descriptor of our own, so that threads neither wait for one another nor move its
    position."""

    def __init__(self, file):
        if file.writable():
            file.flush()
        self.descriptor = os.dup(file.fileno())

    def size(self):
        return os.fstat(self.descriptor).st_size

    def read_into(self, offset, view):
        return os.preadv(self.descriptor, [view], offset)

    def close(self):
        os.close(self.descriptor)


class _MemorySource:
    """What an io.BytesIO holds now, which the library reads by itself. CPython's shares it with whoever asks, and
    copies it only where it is written to later."""

    def __init__(self, file):
        (self.address, self.count), self.kept_bytes = address_of(file.getvalue())

    def size(self):
        return self.count

    def close(self):
        self.kept_bytes = None


class _FileSource:
    """Any other file-like object: one thread at a time moves its position and reads."""

    _OF_PYTHON = (io.BufferedReader, io.BufferedRandom, io.FileIO)

    def __init__(self, file):
        self.file, self.lock = file, threading.Lock()
        self.is_trusted = type(file) in self._OF_PYTHON     # not to keep the memory that it reads into

    def size(self):
        with self.lock:
            return self.file.seek(0, os.SEEK_END)

    def read_into(self, offset, view):
        with self.lock:
            self.file.seek(offset)
            if not hasattr(self.file, "readinto"):
                data = self.file.read(len(view))
            elif self.is_trusted:
                return self.file.readinto(view)
            else:
                buffer = bytearray(len(view))
                data = memoryview(buffer)[
                    : arg.number("readinto", self.file.readinto(buffer), ctypes.c_int64, 0, len(view))
                ]
        view[:len(data)] = data
        return len(data)

    def close(self):
        self.file = None


def _source_over(thing):
    if hasattr(thing, "read_at") and hasattr(thing, "size"):
        return _ReadAtSource(thing)
    if type(thing) is io.BytesIO:
        return _MemorySource(thing)
    if isinstance(thing, io.TextIOBase):
        raise TypeError("source: the file is open as text; open it with 'rb'")
    raw = (
        thing
        if isinstance(thing, io.FileIO)
        else thing.raw if isinstance(thing, (io.BufferedReader, io.BufferedRandom)) else None
    )
    if hasattr(thing, "seekable") and not thing.seekable():
        raise io.UnsupportedOperation("source: a pipe or the like cannot seek, and samples are read at any place: give "
                                       "io.BytesIO(file.read()), or write what it gives to a file first")
    if isinstance(raw, io.FileIO) and hasattr(os, "preadv"):
        if not os.fstat(thing.fileno()).st_size and os.pread(thing.fileno(), 1, 0):
            raise io.UnsupportedOperation(
                "source: the file has bytes, but tells a size of 0, as those in /proc do: give "
                "io.BytesIO(file.read())"
            )
        return _DescriptorSource(thing)
    if hasattr(thing, "seek") and hasattr(thing, "read"):
        return _FileSource(thing)
    raise TypeError(
        "source: %s is neither a path, nor has it read_at and size, or seek and read" % type(thing).__name__
    )


def _callback_failed(holder, exception):
    """Keeps an exception for whoever asks, and gives the number that C is told. What is neither an OSError nor an
    EOFError is no trouble with the data, but a fault of the source."""
    kept = holder.kept()
    if kept is not None:
        kept.failure = exception
    if isinstance(exception, RemoteFailure):
        return remote_failures.add(exception)
    if not isinstance(exception, (OSError, EOFError)):
        return 2**63 - 1
    return -abs(getattr(exception, "errno", None) or errno.EIO)


@_c.callback("read_at_fn")
def _read_at_thunk(user, offset, dst, size):
    source = _handles.registry.get(user)
    if source is None:
        return -errno.EBADF
    try:
        return source.read_into(offset, memoryview((ctypes.c_char * size).from_address(dst)).cast("B"))
    except BaseException as exception:
        return _callback_failed(source, exception)


@_c.callback("size_fn")
def _size_thunk(user):
    source = _handles.registry[user]
    try:
        return source.size()
    except BaseException as exception:
        return -abs(_callback_failed(source, exception))        # no size


@_c.callback("close_fn")
def _close_thunk(user):
    source = _handles.registry.pop(user, None)
    if source is not None:
        source.close()
