"""What the library reports, as exceptions."""
import ctypes
import re

from . import _arguments as arg
from . import _c
from ._c import Status, lib


class Error(Exception):
    """What the library reports. status: a Status; byte_offset: in the file, or None; native_code: errno and such, or 0.
    Error("text") has the text alone, and None for a status: torch raises errors of its workers again in this way."""

    def __init__(self, status=None, message="", byte_offset=None, native_code=0):
        if isinstance(status, str) and not message:
            status, message = None, status
        if status is not None:
            try:
                status = Status(status)
            except ValueError:                  # of a newer library
                status = int(status)
            message = message or lib.bzna_status_text(status).decode()
        super().__init__(status, message, byte_offset, native_code)
        self.status, self.message, self.byte_offset, self.native_code = self.args

    def __str__(self):
        if self.status is None:
            return self.message
        return "%s (%s)" % (self.message, lib.bzna_status_name(self.status).decode())


def error_of(status, err):
    if err is None or not err.message:
        return Error(status)
    message = err.message.decode("utf-8", "replace")
    message = arg.LOADER_CONFIG.sub(lambda field: arg.KEYWORDS.get(field[1], field[0]), message)
    message = re.sub(r"\b(?:context|dataset)_config\.(\w+)", r"\1", message)
    message = message.replace("release one first, or raise batches_in_flight",     # their names here
                              "let go of one, give copy=True, or a larger multibuffering")
    return Error(status, message, None if err.byte_offset == _c.NO_OFFSET else err.byte_offset, err.native_code)


def check(status, err=None, cause=None):
    """cause: the last exception of a source or sink, which is blamed where reading or writing failed. What is no trouble with the data
    is raised itself, as if it had not gone through C."""
    if status == Status.E_CALLBACK and cause is not None:
        raise_of_callback(cause, error_of(status, err))
    if status < 0:
        raise error_of(status, err) from (cause if status == Status.E_IO else None)
    return status


def raise_of_callback(exception, error):
    """Raises what a user's callback raised, on whatever thread, with its own traceback; error says for which sample."""
    if isinstance(exception, StopIteration):    # which would end a loop over a loader in silence
        raise RuntimeError("%s: it raised StopIteration" % error.message) from exception
    if exception.__cause__ is None and exception.__context__ is None:
        raise exception from error
    raise exception


def told(name, function, *arguments, source=None):
    """The struct that one of the library's get functions fills; source: what may have failed under it."""
    info, err = _c.new(name), _c.new("error")
    status = function(*arguments, info, ctypes.sizeof(info), err)
    check(status, err, source and source.failure)
    return info
