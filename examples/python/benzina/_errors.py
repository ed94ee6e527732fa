"""What the library reports, as exceptions."""
from __future__ import annotations

import collections
import ctypes
import errno
import itertools
import re
from typing import Any, Callable, Iterable, NoReturn, Optional, Tuple, Union

from . import _arguments as arg
from . import _c
from ._c import Status, lib


class Error(Exception):
    """An error of the library. status: a Status; byte_offset: in the file, or None; native_code: errno and such, or 0.
    Error("text") has the text alone, and None for a status: torch raises errors of its workers again in this way.

    Some errors are also of Python's own kinds: FileNotFoundError for a missing file, OSError if reading or writing
    failed, ValueError for an invalid argument, KeyError for a field that no sample has, TimeoutError if no batch came
    in time, and MemoryError.

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

    def __init__(
        self, status: Any = None, message: str = "", byte_offset: Optional[int] = None, native_code: int = 0
    ) -> None:
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


class FieldError(Error, KeyError):
    """No sample has a field, or a picture, of this name."""


class InputOutputError(Error, OSError):
    """A file or connection failed."""


class ArgumentError(Error, ValueError):
    """An invalid argument."""


class TimeLimitError(Error, TimeoutError):
    """Nothing came in time."""


class OutOfMemoryError(Error, MemoryError):
    """There is no memory for it."""


_KINDS = {
    Status.E_IO: InputOutputError,
    Status.E_ARGUMENT: ArgumentError,
    Status.E_RANGE: ArgumentError,
    Status.AGAIN: TimeLimitError,
    Status.E_MEMORY: OutOfMemoryError,
}


def _kind_of(status: Any = None, message: str = "", byte_offset: Optional[int] = None, native_code: int = 0) -> Any:
    if status == Status.E_NOT_FOUND and (native_code == errno.ENOENT or "no file matches" in message):
        return NotFoundError
    if status == Status.E_NOT_FOUND and re.search("no (such )?(field|picture)", message):
        return FieldError
    return _KINDS.get(status, Error) if isinstance(status, int) else Error


def no_field(name: Any, known: Iterable[str]) -> Error:
    return Error(Status.E_NOT_FOUND, "%s: there is no such field among %s" % (name, ", ".join(known)))


class RemoteFailure(OSError):
    """An error of a file on a server. is_temporary: a retry may help; retry_after: in how many seconds, as the server
    says; name: of the file, if the text begins with it; kind: an errno."""

    def __init__(
        self,
        text: str,
        is_temporary: bool = False,
        retry_after: Optional[float] = None,
        name: str = "",
        kind: int = errno.EIO,
    ) -> None:
        OSError.__init__(self, text)
        self.text, self.is_temporary, self.retry_after, self.name, self.kind = (
            text,
            is_temporary,
            retry_after,
            name,
            kind,
        )

    def again(self) -> RemoteFailure:
        """For another thread."""
        found = RemoteFailure(self.text, self.is_temporary, self.retry_after, self.name, self.kind)
        found.__cause__ = self.__cause__
        return found


class _RemoteFailures:
    """The last of them, by the numbers that C was told: an Error has the text in place of the number."""

    _MOST, _FIRST = 1000, 2**30 + 1

    def __init__(self) -> None:
        self._numbers = itertools.count(self._FIRST)
        self._kept: Any = collections.OrderedDict()

    def add(self, failure: RemoteFailure) -> int:
        number = next(self._numbers)
        self._kept[number] = failure
        self._kept.pop(number - self._MOST, None)
        return -number

    def get(self, number: int) -> Optional[RemoteFailure]:
        return self._kept.get(-number)

    def said(self, message: str) -> str:
        """A message of the library's, with what the server said."""
        def words(found: Any) -> str:
            failure = self.get(int(found[1]))
            if failure is None:
                return found[0]
            named = failure.name + ": "
            text = failure.text
            return ": " + (text[len(named):] if failure.name and text.startswith(named) and named in message else text)
        return re.sub(r" with (-1\d{9})\b", words, message)


remote_failures = _RemoteFailures()

# The names by which messages speak of members of structs, numbers and functions: here they are arguments and methods.
_WORDS = (
    (
        re.compile(r"\bloader_config\.(\w+\.\w+)(?:\.kind)?"),
        lambda found: arg.KEYWORDS.get(found[1], found[1].split(".")[-1]),
    ),
    (
        re.compile(r"\bloader_config\.extra_outputs(?:\.ptr, count|\[(\d+)\])"),
        lambda found: "outputs" + ("[%s]" % found[1] if found[1] else ""),
    ),
    (re.compile(r"\bloader_config\.(\w+)"), lambda found: arg.KEYWORDS.get(found[1], found[1])),
    (
        re.compile(r"\b(?:pipeline|output|order|read|decode|fields|errors|shard)\.(\w+)"),
        lambda found: arg.KEYWORDS.get(found[0], found[0]),
    ),
    # A context's limit is met far from where it was set.
    (re.compile(r"\bmore than context_config\.(\w+)"), lambda found: "more than Context(%s=) allows" % found[1]),
    (re.compile(r"\b(?:context|dataset|writer)_config\.(\w+)"), lambda found: found[1]),
    (re.compile(r"\bformats_weights\.(by_part)?"), lambda found: "weights_by_part" if found[1] else ""),
    (re.compile(r"\bBZNA_E_(\w+)"), lambda found: "E_" + found[1]),
    (re.compile(r"\bbzna_(loader_next)\b"), lambda found: "the loader's next batch"),
    (
        re.compile(r"release one first, or raise (?:batches_in_flight|multibuffering)"),
        lambda found: "let go of one, give copy=True, or a larger multibuffering",
    ),
)


def in_python(message: str) -> str:
    for pattern, word in _WORDS:
        message = pattern.sub(word, message)
    return remote_failures.said(message)


def error_of(status: int, err: Any) -> Error:
    if err is None or not err.message:
        return Error(status)
    message = in_python(err.message.decode("utf-8", "replace"))
    code, failure = err.native_code, remote_failures.get(err.native_code) if status == Status.E_IO else None
    error = Error(
        status,
        message,
        None if err.byte_offset == _c.NO_OFFSET else err.byte_offset,
        code if failure is None else -failure.kind,
    )
    error.__cause__ = failure
    return error


def check(status: int, err: Any = None, cause: Optional[BaseException] = None) -> int:
    """cause: the last exception of a source or sink, which is blamed where reading or writing failed. What is no
    trouble with the data is raised itself, as if it had not gone through C."""
    if status == Status.E_CALLBACK and cause is not None:
        raise_of_callback(cause, error_of(status, err))
    if status < 0:
        raise _blaming(error_of(status, err), cause if status == Status.E_IO else None)
    return status


def _blaming(error: Error, cause: Optional[BaseException]) -> Error:
    """The error, to be raised where no variable refers to it: its traceback would keep that, and so keep itself."""
    error.__cause__ = error.__cause__ or cause
    return error


def raise_of_callback(exception: BaseException, error: Error) -> NoReturn:
    """Raises what a user's callback raised, on whatever thread, with its own traceback. error says for which sample, in
    a note, before Python 3.11 as the cause."""
    if isinstance(exception, StopIteration):    # which would end a loop over a loader in silence
        raise RuntimeError("%s: it raised StopIteration" % error.message) from exception
    if hasattr(exception, "add_note"):
        if error.message not in getattr(exception, "__notes__", ()):
            exception.add_note(error.message)
    elif exception.__cause__ is None and exception.__context__ is None:
        raise exception from error
    raise exception


def first_failed(statistics: Any) -> Optional[Tuple[int, Error]]:
    """The index and the error of the first sample that failed, or None."""
    if statistics.first_failed_status == 0:
        return None
    message = statistics.first_failed_message.decode("utf-8", "replace")
    return statistics.first_failed_index, Error(statistics.first_failed_status, message)


def told(name: str, function: Callable[..., int], *arguments: Any, source: Any = None) -> Any:
    """The struct that one of the library's info functions fills; source: what may have failed under it."""
    info, err = _c.new(name), _c.new("error")
    status = function(*arguments, info, ctypes.sizeof(info), err)
    check(status, err, source and source.failure)
    return info
