"""What the library reports, as exceptions."""
from __future__ import annotations

import ctypes
import errno
import re
from typing import Any, Callable, NoReturn, Optional, Union

from . import _arguments as arg
from . import _c
from ._c import Status, lib


class Error(Exception):
    """What the library reports. status: a Status; byte_offset: in the file, or None; native_code: errno and such, or 0.
    Error("text") has the text alone, and None for a status: torch raises errors of its workers again in this way.

    Some are Python's own kinds, too: a file that is not there is a FileNotFoundError, what cannot be read or written an OSError, what an
    argument must not be a ValueError, no batch in time a TimeoutError, and no memory a MemoryError.

    >>> try:
    ...     benzina.Dataset("absent.bzna")
    ... except FileNotFoundError as error:
    ...     print(error.status.name, isinstance(error, benzina.Error))
    E_NOT_FOUND True
    """

    status: Union[None, Status, int]
    message: str
    byte_offset: Optional[int]
    native_code: int

    def __new__(cls, *arguments: Any, **named: Any) -> Error:
        if cls is Error:
            cls = _kind_of(*arguments, **named)
        return super(Error, cls).__new__(cls, *arguments)

    def __init__(self, status: Any = None, message: str = "", byte_offset: Optional[int] = None, native_code: int = 0) -> None:
        if isinstance(status, str) and not message:
            status, message = None, status
        if status is not None:
            try:
                status = Status(status)
            except ValueError:                  # of a newer library
                status = int(status)
            message = message or lib.bzna_status_text(status).decode()
        Exception.__init__(self, status, message, byte_offset, native_code)
        self.args = status, message, byte_offset, native_code
        self.status, self.message, self.byte_offset, self.native_code = status, message, byte_offset, native_code
        if isinstance(self, OSError):
            self.errno, self.strerror = native_code or None, message

    def __reduce__(self) -> Any:
        return Error, self.args

    def __str__(self) -> str:
        if self.status is None:
            return self.message
        return "%s (%s)" % (self.message, lib.bzna_status_name(self.status).decode().replace("BZNA_", ""))


class NotFoundError(Error, FileNotFoundError):
    """There is no such file."""


class InputOutputError(Error, OSError):
    """A file or connection failed."""


class ArgumentError(Error, ValueError):
    """An argument is what it must not be."""


class TimeLimitError(Error, TimeoutError):
    """Nothing came in time."""


class OutOfMemoryError(Error, MemoryError):
    """There is no memory for it."""


_KINDS = {Status.E_IO: InputOutputError, Status.E_ARGUMENT: ArgumentError, Status.E_RANGE: ArgumentError, Status.AGAIN: TimeLimitError,
          Status.E_MEMORY: OutOfMemoryError}


def _kind_of(status: Any = None, message: str = "", byte_offset: Optional[int] = None, native_code: int = 0) -> Any:
    if status == Status.E_NOT_FOUND and (native_code == errno.ENOENT or "no file matches" in message):
        return NotFoundError
    return _KINDS.get(status, Error) if isinstance(status, int) else Error


# The names by which messages speak of members of structs, numbers and functions: here they are arguments and methods.
_WORDS = (
    (re.compile(r"\bloader_config\.(\w+\.\w+)(?:\.kind)?"), lambda found: arg.KEYWORDS.get(found[1], found[1].split(".")[-1])),
    (re.compile(r"\bloader_config\.extra_outputs(?:\.ptr, count|\[(\d+)\])"), lambda found: "outputs" + ("[%s]" % found[1] if found[1] else "")),
    (re.compile(r"\bloader_config\.(\w+)"), lambda found: arg.KEYWORDS.get(found[1], found[1])),
    (re.compile(r"\b(?:pipeline|output|order|read|decode|fields|errors|shard)\.(\w+)"),
     lambda found: arg.KEYWORDS.get(found[0], found[0])),
    (re.compile(r"\b(?:context|dataset|writer)_config\.(\w+)"), lambda found: found[1]),
    (re.compile(r"\bBZNA_E_(\w+)"), lambda found: "E_" + found[1]),
    (re.compile(r"\bbzna_(loader_next)\b"), lambda found: "the loader's next batch"),
    (re.compile(r"release one first, or raise (?:batches_in_flight|multibuffering)"),
     lambda found: "let go of one, give copy=True, or a larger multibuffering"),
)


def in_python(message: str) -> str:
    for pattern, word in _WORDS:
        message = pattern.sub(word, message)
    return message


def error_of(status: int, err: Any) -> Error:
    if err is None or not err.message:
        return Error(status)
    message = in_python(err.message.decode("utf-8", "replace"))
    return Error(status, message, None if err.byte_offset == _c.NO_OFFSET else err.byte_offset, err.native_code)


def check(status: int, err: Any = None, cause: Optional[BaseException] = None) -> int:
    """cause: the last exception of a source or sink, which is blamed where reading or writing failed. What is no trouble with the data
    is raised itself, as if it had not gone through C."""
    if status == Status.E_CALLBACK and cause is not None:
        raise_of_callback(cause, error_of(status, err))
    if status < 0:
        raise error_of(status, err) from (cause if status == Status.E_IO else None)
    return status


def raise_of_callback(exception: BaseException, error: Error) -> NoReturn:
    """Raises what a user's callback raised, on whatever thread, with its own traceback; error says for which sample."""
    if isinstance(exception, StopIteration):    # which would end a loop over a loader in silence
        raise RuntimeError("%s: it raised StopIteration" % error.message) from exception
    if exception.__cause__ is None and exception.__context__ is None:
        raise exception from error
    raise exception


def told(name: str, function: Callable[..., int], *arguments: Any, source: Any = None) -> Any:
    """The struct that one of the library's info functions fills; source: what may have failed under it."""
    info, err = _c.new(name), _c.new("error")
    status = function(*arguments, info, ctypes.sizeof(info), err)
    check(status, err, source and source.failure)
    return info
