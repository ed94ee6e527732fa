"""What WebDataset's programs switch and open: benzina.wds.utils, and gopen().

enforce_security    None (the default): files, pipes and URLs are opened, pickles in samples are refused. False, which
                    is webdataset's default: pickles are loaded, too; they run whatever code their files hold. True, or
                    $WDS_SECURE=1: pickles, pipes, local files and $GOPEN_REWRITE are refused.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from typing import Any, Optional

from ._remote import is_url, whole_file

enforce_security: Optional[bool] = bool(int(os.environ["WDS_SECURE"])) if os.environ.get("WDS_SECURE") else None


def refuse_if_enforced(what: str) -> None:
    if enforce_security:
        raise ValueError("%s: refused, since wds.utils.enforce_security is True" % what)


def rewrite_url(url: str) -> str:
    """url, with its beginning replaced as $GOPEN_REWRITE says: "http://far/=/near/;gs:=s3:"."""
    rules = os.environ.get("GOPEN_REWRITE")
    if not rules:
        return url
    refuse_if_enforced("GOPEN_REWRITE")
    for rule in rules.split(";"):
        former, _, latter = rule.partition("=")
        if former and url.startswith(former):
            return latter + url[len(former):]
    return url


def is_local(url: str) -> bool:
    return not url.startswith("pipe:") and not is_url(url)


def local_path(url: str) -> str:
    """Of a file's name, with or without "file:"."""
    if url.startswith("file://"):
        return url[7:]
    return url[5:] if url.startswith("file:") else url


def opened_url(url: str) -> str:
    """What is opened for url: a path without "file:", a URL, or a "pipe:". Refused are those that enforce_security
    refuses."""
    url = rewrite_url(url)
    if url.startswith("pipe:"):
        refuse_if_enforced(url)
    elif is_local(url):
        refuse_if_enforced(url)
        return local_path(url)
    return url


class _Pipe:
    """The output or the input of a shell command, as a stream. A status that is not 0 is an IOError when it is closed,
    unless the stream was closed before the command had written everything."""

    def __init__(self, url: str, is_read: bool) -> None:
        self._url, self._is_read = url, is_read
        ends: Any = {"stdout" if is_read else "stdin": subprocess.PIPE}
        self._process = subprocess.Popen(url[5:], shell=True, **ends)
        self.stream: Any = self._process.stdout if is_read else self._process.stdin

    def __getattr__(self, name: str) -> Any:
        if name == "stream":
            raise AttributeError(name)
        return getattr(self.stream, name)

    def __iter__(self) -> Any:
        return iter(self.stream)

    def __enter__(self) -> "_Pipe":
        return self

    def __exit__(self, kind: Any, *of_exception: Any) -> None:
        self._close(kind is None)

    def close(self) -> None:
        self._close(True)

    def _close(self, is_judged: bool) -> None:
        if self.stream.closed:
            return
        is_early = self._is_read and bool(self.stream.peek(1)) and self._process.poll() is None
        try:
            self.stream.close()
        finally:
            status = self._process.wait()
        if status and is_judged and not is_early:
            raise IOError("%s: it ended with status %d" % (self._url, status))


def gopen(url: str, mode: str = "rb", bufsize: int = 8192, **kw: Any) -> Any:
    """A stream of the bytes of a file, a "pipe:COMMAND", a URL, or "-", the standard input; "wb" writes to all but
    URLs."""
    if mode not in ("rb", "wb"):
        raise ValueError("gopen: mode: %r is neither 'rb' nor 'wb'" % (mode,))
    if url == "-":
        return sys.stdin.buffer if mode == "rb" else sys.stdout.buffer
    url = opened_url(url)
    if url.startswith("pipe:"):
        return _Pipe(url, mode == "rb")
    if is_local(url):
        return open(url, mode, bufsize)
    if mode == "wb":
        raise ValueError("gopen: %s: files and pipes can be written, and no URLs" % url)
    return io.BytesIO(whole_file(url))
