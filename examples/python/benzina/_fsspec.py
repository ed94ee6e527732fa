"""Files of the file systems that fsspec knows: s3://, gs://, hf://, az://, memory:// and others."""
from __future__ import annotations

import errno
import threading
import time

from ._errors import RemoteFailure
from ._modules import installed

# so often, a file is asked for its version, where reading does not tell it
CHECK_S = 10
_VERSIONS = (
    "ETag",
    "etag",
    "generation",
    "version_id",
    "VersionId",
    "md5Hash",
    "blob_id",
    "LastModified",
    "last_modified",
    "updated",
    "mtime",
    "created",
)
_FAULTS = TypeError, AttributeError, NameError, AssertionError, ImportError, NotImplementedError
_LASTING = {
    FileNotFoundError: errno.ENOENT,
    PermissionError: errno.EACCES,
    NotADirectoryError: errno.ENOENT,
    IsADirectoryError: errno.EISDIR,
}


def system_of(url, options):
    """(the file system, the path there)"""
    if installed("fsspec") is None:
        raise ImportError("%s: fsspec is not installed, which opens such paths: pip install fsspec" % url)
    import fsspec
    try:
        return fsspec.core.url_to_fs(url, **(options or {}))
    except ImportError as error:
        raise ImportError("%s: %s" % (url, error)) from error


def within(seconds, function, *arguments, **named):
    """What a function returns. It runs on a thread of its own, which is left alone where it takes longer: not every
    file system has a limit of its own."""
    done, result = threading.Event(), []

    def run():
        try:
            result.append((function(*arguments, **named), None))
        except BaseException as exception:
            result.append((None, exception))
        done.set()
    threading.Thread(target=run, name="benzina-fsspec", daemon=True).start()
    if not done.wait(seconds):
        raise RemoteFailure("no answer within %g s" % seconds, is_temporary=True, kind=errno.ETIMEDOUT)
    value, exception = result[0]
    if exception is not None:
        raise _failure_of(exception) from exception
    return value


def _failure_of(exception):
    """Faults of programs are raised as they are; whatever else may pass is tried again."""
    if isinstance(exception, _FAULTS) or not isinstance(exception, Exception):
        raise exception
    import asyncio                              # takes a tenth of a second that other data sets do without
    words = str(exception) or type(exception).__name__
    if isinstance(exception, (asyncio.TimeoutError, TimeoutError)):
        return RemoteFailure("the server did not answer in time", is_temporary=True, kind=errno.ETIMEDOUT)
    if type(exception).__name__ == "FileExpired":
        return RemoteFailure("the file has changed since it was opened: %s" % words, kind=errno.ESTALE)
    for kind, number in _LASTING.items():
        if isinstance(exception, kind):
            return RemoteFailure("%s: %s" % (kind.__name__, words), kind=number)
    status = getattr(exception, "status", getattr(exception, "code", None))
    is_lasting = isinstance(exception, (ValueError, LookupError)) or (
        isinstance(status, int) and 400 <= status < 500 and status not in (408, 425, 429)
    )
    return RemoteFailure("%s: %s" % (type(exception).__name__, words), is_temporary=not is_lasting)


class FsspecFile:
    """One file."""

    def __init__(self, url, system, path, timeout):
        self.name, self.size, self.version = url, None, None
        self._system, self._path, self._timeout, self._checked = system, path, timeout, 0.0
        self._fetch = None

    def open(self, view):
        """Asks for size and version; nothing is read yet."""
        info = within(self._timeout, self._system.info, self._path)
        self.size, self.version, self._checked = info.get("size"), _version_of(info), time.monotonic()
        if info.get("type") == "directory":
            raise RemoteFailure(
                "it is a folder: those that hold *.bzna, *.tar or *.rec are opened with / at their end",
                kind=errno.EISDIR,
            )
        if self.size is None:
            raise RemoteFailure("the file system does not tell its size")
        file = within(self._timeout, self._system.open, self._path, "rb", cache_type="none")
        own = getattr(type(file), "_fetch_range", None)
        base = installed("fsspec").spec.AbstractBufferedFile
        # which names the version that was opened, if it can
        if isinstance(file, base) and own is not base._fetch_range:
            self._fetch = file._fetch_range
        else:
            file.close()
        return 0

    def close(self):
        self._fetch = None

    def fetch(self, offset, view):
        end = offset + len(view)
        limit = self._timeout * (1 + len(view) / 2**20)
        try:
            if self._fetch is not None:
                data = within(limit, self._fetch, offset, end)
            else:
                data = within(limit, self._system.cat_file, self._path, start=offset, end=end)
        except RemoteFailure as failure:
            if failure.kind != errno.ETIMEDOUT:
                self._check()
            raise
        if len(data) > len(view):
            raise RemoteFailure("the file system returned %d bytes where %d were asked for" % (len(data), len(view)))
        view[:len(data)] = data
        if len(data) < len(view) or time.monotonic() - self._checked >= CHECK_S:
            self._check()
        return len(data), None

    def _check(self):
        """Raises if the file is another one than that which was opened."""
        self._system.invalidate_cache(self._system._parent(self._path))
        info = within(self._timeout, self._system.info, self._path)
        self._checked = time.monotonic()
        for what, before, now in (("size", self.size, info.get("size")), ("version", self.version, _version_of(info))):
            if before != now:
                raise RemoteFailure(
                    "the file has changed since it was opened: its %s was %s, and is %s" % (what, before, now),
                    kind=errno.ESTALE,
                )


def _version_of(info):
    """The first one that there is, with its name: those of a listing and of the file itself may differ."""
    return next(("%s %s" % (name, info[name]) for name in _VERSIONS if info.get(name)), None)
