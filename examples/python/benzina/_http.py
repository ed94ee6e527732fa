"""Files on web servers, read by range requests."""
from __future__ import annotations

import base64
import errno
import html
import http.client
import io
import re
import socket
import ssl
import threading
import time
import urllib.parse
import urllib.request

from ._errors import RemoteFailure
from ._version import __version__

_REDIRECTS = 301, 302, 303, 307, 308
_TEMPORARY = 408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524
_MOST_REDIRECTS = 5
_KEPT_S = 60                                    # a connection that idles for longer is not used again
_PIECE = 1 << 18


class _Raw(io.RawIOBase):
    """What a connection receives."""

    def __init__(self, connection):
        self._connection = connection

    def readable(self):
        return True

    def readinto(self, view):
        self._connection.socket.settimeout(self._connection.left())
        return self._connection.socket.recv_into(view)


class _Timed:
    """What http.client takes for a socket: one with a deadline for a whole request, not for each read."""

    def __init__(self, connection):
        self._connection = connection

    def makefile(self, *_, **__):
        return io.BufferedReader(_Raw(self._connection), 1 << 16)

    def sendall(self, data, *flags):
        self._connection.socket.settimeout(self._connection.left())
        self._connection.socket.sendall(data, *flags)

    def close(self):
        """Answers may still be read: _Connection.close closes it."""


class _Connection:
    """To a server, or to a proxy. It is kept for further requests."""

    def __init__(self, url, timeout, context):
        proxy = _proxy_of(url)
        host, port = url.hostname, url.port or {"http": 80, "https": 443}[url.scheme]
        through = urllib.parse.urlsplit(proxy if "://" in proxy else "http://" + proxy) if proxy else None
        self.is_proxied = through is not None and url.scheme == "http"
        self.http = http.client.HTTPConnection(
            *((through.hostname, through.port or 80) if through else (host, port)), timeout=timeout
        )
        if through and url.scheme == "https":
            self.http.set_tunnel(host, port)
        self.http.connect()
        self.socket, self._timeout, self._deadline, self.used = self.http.sock, timeout, 0.0, 0.0
        try:
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if url.scheme == "https":
                self.socket = context.wrap_socket(self.socket, server_hostname=host)
        except BaseException:
            self.close()
            raise

    def begin(self, deadline):
        self._deadline, self.http.sock = deadline, _Timed(self)

    def left(self):
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise socket.timeout("timed out")
        return min(left, self._timeout)

    def close(self):
        self.socket.close()


def _proxy_of(url):
    if urllib.request.proxy_bypass(url.hostname or ""):
        return None
    proxies = urllib.request.getproxies()
    return proxies.get(url.scheme) or proxies.get("all")


class Pool:
    """Idle connections, of all files of a data set."""

    def __init__(self):
        self._lock, self._idle, self._files = threading.Lock(), {}, 0
        self._context = None

    def use(self):
        with self._lock:
            self._files += 1

    def leave(self):
        with self._lock:
            self._files -= 1
            idle, self._idle = ([], self._idle) if self._files else (sum(self._idle.values(), []), {})
        for connection in idle:
            connection.close()

    def take(self, url):
        """One that idles, or None."""
        with self._lock:
            idle = self._idle.get(self._key(url))
            while idle:
                connection = idle.pop()
                if time.monotonic() - connection.used < _KEPT_S:
                    return connection
                connection.close()
        return None

    def connect(self, url, timeout, context):
        return _Connection(url, timeout, context or (self._tls() if url.scheme == "https" else None))

    def give(self, url, connection):
        connection.used = time.monotonic()
        with self._lock:
            if self._files:
                self._idle.setdefault(self._key(url), []).append(connection)
                return
        connection.close()

    def _tls(self):
        with self._lock:
            if self._context is None:
                self._context = ssl.create_default_context()
            return self._context

    @staticmethod
    def _key(url):
        return url.scheme, url.hostname, url.port


def _words_of(response):
    """What a server says of a failure, in one line: its status, and the text of its page."""
    words = "HTTP status %d %s" % (response.status, response.reason or "")
    try:
        page = response.read(2000).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):
        page = ""
    page = re.sub(r"(?is)<(style|script|head)\b.*?</\1>|<[^>]*>", " ", page)
    page = " ".join("".join(c if c.isprintable() else " " for c in html.unescape(page)).split())
    return words.strip() + (": " + page[:200] if page else "")


def name_of(url):
    """A URL as messages name it: without what may be secret, a password and a query."""
    parts = urllib.parse.urlsplit(url)
    return urllib.parse.urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


class HttpFile:
    """One file. Its size and its ETag are those of the first answer, and each later answer must have them."""

    def __init__(self, url, options, timeout, pool):
        options = dict(options or {})
        self._headers = {
            "User-Agent": "benzina/" + __version__,
            "Accept-Encoding": "identity",
            **(options.pop("headers", None) or {}),
        }
        self._context = options.pop("ssl_context", None)
        if options:
            raise TypeError(
                "storage_options: %s: for http and https there are headers and ssl_context"
                % ", ".join(map(repr, options))
            )
        parts = urllib.parse.urlsplit(url)
        if not parts.hostname:
            raise ValueError("%s: there is no host in this URL" % url)
        if parts.username is not None:
            secret = "%s:%s" % (urllib.parse.unquote(parts.username), urllib.parse.unquote(parts.password or ""))
            self._headers["Authorization"] = "Basic " + base64.b64encode(secret.encode()).decode()
        netloc = parts.netloc.rpartition("@")[2]
        path = urllib.parse.quote(parts.path or "/", safe="/%:=&?~#+!$,;'@()*[]")
        self._url = urllib.parse.SplitResult(parts.scheme.lower(), netloc, path, parts.query, "")
        self._target = self._url                # where redirects led to
        self.name, self.size, self.version = name_of(url), None, None
        self._timeout, self._pool = timeout, pool
        pool.use()

    def open(self, view):
        count, why = self.fetch(0, view)
        if why is not None and self.size is None:
            raise why
        return count

    def close(self):
        self._pool.leave()

    def fetch(self, offset, view):
        """(bytes, why they are not all)"""
        deadline = time.monotonic() + self._timeout * (1 + len(view) / 2**20)
        target = self._target
        for redirects in range(_MOST_REDIRECTS + 1):
            try:
                connection, response = self._ask(target, offset, offset + len(view) - 1, deadline)
            except ssl.SSLCertVerificationError as error:
                raise RemoteFailure("its certificate: %s" % error.verify_message) from error
            except (OSError, http.client.HTTPException) as error:
                raise _failure_of(error) from error
            try:
                if response.status in _REDIRECTS:
                    target = self._redirected(target, response)
                elif not redirects and target is not self._url and response.status in (400, 401, 403, 404, 410):
                    target = self._target = self._url           # a link that was signed for some time
                    self._done(target, connection, response, False)
                    continue
                else:
                    if response.status == 206:
                        self._target = target
                    return self._take(target, connection, response, offset, view)
            except BaseException:
                connection.close()
                raise
            self._done(target, connection, response, False)
        raise RemoteFailure("more than %d redirects" % _MOST_REDIRECTS)

    def _ask(self, url, first, last, deadline):
        """A range, and once more where a connection was kept for too long."""
        connection = self._pool.take(url)
        is_old = connection is not None
        while True:
            try:
                connection = connection or self._pool.connect(url, self._timeout, self._context)
                connection.begin(deadline)
                headers = {**self._headers, "Range": "bytes=%d-%d" % (first, last)}
                if url.netloc != self._url.netloc or url.scheme != self._url.scheme:
                    headers = {
                        name: value
                        for name, value in headers.items()
                        if name.lower() not in ("authorization", "cookie")
                    }
                path = url.path + ("?" + url.query if url.query else "")
                if connection.is_proxied:
                    path = "%s://%s%s" % (url.scheme, url.netloc, path)
                connection.http.putrequest("GET", path, skip_host=True, skip_accept_encoding=True)
                for name, value in {"Host": url.netloc, **headers}.items():
                    connection.http.putheader(name, value)
                connection.http.endheaders()
                return connection, connection.http.getresponse()
            except BaseException as error:
                if connection is not None:
                    connection.close()
                if not is_old or not isinstance(error, (ConnectionError, http.client.BadStatusLine)):
                    raise
                connection, is_old = None, False

    def _redirected(self, url, response):
        to = response.getheader("Location")
        if not to:
            raise RemoteFailure(_words_of(response))
        found = urllib.parse.urlsplit(urllib.parse.urljoin(url.geturl(), to))
        if (
            found.scheme not in ("http", "https")
            or (url.scheme == "https" and found.scheme == "http")
            or not found.hostname
        ):
            raise RemoteFailure(
                "HTTP status %d: a redirect to %s is not followed" % (response.status, name_of(found.geturl()))
            )
        return found

    def _done(self, url, connection, response, is_whole):
        """Keeps a connection whose answer was read whole."""
        if is_whole and not response.will_close:
            self._pool.give(url, connection)
        else:
            connection.close()

    def _take(self, url, connection, response, offset, view):
        if response.status != 206:
            failure = self._refusal(response, offset)
            self._done(url, connection, response, response.isclosed())
            return 0, failure
        wanted = self._check_range(response, offset, len(view))
        got, why = 0, None
        try:
            while got < wanted:
                data = response.read1(min(wanted - got, _PIECE))
                if not data:
                    break
                view[got:got + len(data)] = data
                got += len(data)
        except (OSError, http.client.HTTPException) as error:
            why = _failure_of(error)
            why.__cause__ = error
        if got < wanted and why is None:
            why = RemoteFailure("the answer ended after %d of %d bytes" % (got, wanted), is_temporary=True)
        if got == wanted and response.length == 0:
            response.close()
        self._done(url, connection, response, got == wanted and response.isclosed())
        return got, why

    def _refusal(self, response, offset):
        status = response.status
        if status == 200 and self._is_page(response):
            return self._page()
        if status == 200:
            return RemoteFailure(
                "the server does not serve ranges: it answers 200 with the whole file%s. Samples are read at any "
                "place: put it on a "
                "server that does (nginx, Apache, Caddy, object stores), copy it here, or read tars from the front by "
                "benzina.Stream('pipe:curl -sf URL')"
                % (", %s bytes" % response.getheader("Content-Length") if response.getheader("Content-Length") else "")
            )
        total = re.fullmatch(r"bytes \*/(\d+)", response.getheader("Content-Range") or "")
        if status == 416 and total:
            if self.size is not None:
                return self._changed("size", self.size, int(total[1]))
            if total[1] == "0":                 # an empty file
                self.size = 0
                return None
        retry_after = response.getheader("Retry-After") or ""
        kind = errno.ENOENT if status in (404, 410) else errno.EACCES if status in (401, 403, 407) else errno.EIO
        return RemoteFailure(_words_of(response), is_temporary=status in _TEMPORARY, kind=kind,
                             retry_after=float(retry_after) if retry_after.isdigit() else None)

    def _check_range(self, response, offset, size):
        """How many bytes of the answer are wanted."""
        coding = response.getheader("Content-Encoding")
        if coding not in (None, "identity"):
            raise RemoteFailure(
                "the server packs its answers (Content-Encoding: %s), so that ranges of the file cannot be had" % coding
            )
        text = response.getheader("Content-Range") or ""
        found = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", text.strip())
        if not found:
            raise RemoteFailure("the server answers 206 with Content-Range %r, which has no range and size" % text)
        first, last, total = map(int, found.groups())
        if self.size is None and "." not in self._url.path.rpartition("/")[2] and self._is_page(response):
            raise self._page()
        if first != offset or last < first or last >= total:
            raise RemoteFailure(
                "the server gives another range than bytes %d-%d: Content-Range %r" % (offset, offset + size - 1, text)
            )
        version = response.getheader("ETag") or response.getheader("Last-Modified")
        if version and version.startswith("W/"):
            version = version[2:]
        if self.size is None:
            self.size, self.version = total, version
        if total != self.size:
            raise self._changed("size", self.size, total)
        if version != self.version:
            raise self._changed("version (ETag or Last-Modified)", self.version, version)
        return min(last - first + 1, size)

    @staticmethod
    def _is_page(response):
        return (response.getheader("Content-Type") or "").partition(";")[0].strip().lower() == "text/html"

    def _page(self):
        return RemoteFailure(
            "the server answers with a page of HTML, such as the listing of a folder, which is not read: name the "
            "files, as in %s/shard-{000..146}.tar" % self.name.rstrip("/")
        )

    @staticmethod
    def _changed(what, before, now):
        return RemoteFailure(
            "the file has changed since it was opened: its %s was %s, and is %s" % (what, before, now),
            kind=errno.ESTALE,
        )


def _failure_of(error):
    """Connections that fail are asked again, but for names that do not exist."""
    if isinstance(error, (socket.timeout, TimeoutError)):
        return RemoteFailure("the server did not answer in time", is_temporary=True, kind=errno.ETIMEDOUT)
    if isinstance(error, http.client.IncompleteRead):
        return RemoteFailure("the answer was cut off", is_temporary=True)
    lasting = isinstance(error, socket.gaierror) and error.errno != socket.EAI_AGAIN
    text = str(error) or type(error).__name__
    return RemoteFailure("the host is not known: %s" % text if lasting else text, is_temporary=not lasting)
