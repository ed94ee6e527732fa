#!/usr/bin/env python3
"""lying_server.py - a web server with ranges that lies, stalls or breaks off, for tests of what reads from servers

    tests/fake/lying_server.py FOLDER          prints its port, and serves until its standard input ends

http://127.0.0.1:PORT/WAY/FILE is FILE of FOLDER. WAY says what goes wrong, "honest" nothing. A way that ends in _later
begins with the second request for a file. Errors are answered as they are to everybody else."""
import http.server
import os
import sys
import threading

folder = sys.argv[1]
asked = {}
over = threading.Event()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def head(self, status, length=None, span=None, etag="one"):
        self.send_response(status)
        if span:
            self.send_header("Content-Range", span)
        if etag:
            self.send_header("ETag", '"%s"' % etag)
        if length is None:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def endless(self):
        while not over.is_set():
            self.wfile.write(b"2000\r\n" + b"x" * 0x2000 + b"\r\n")

    def trickle(self, data):
        for byte in data:
            self.wfile.write(bytes([byte]))
            if over.wait(0.05):
                break

    def do_GET(self):
        _, way, name = self.path.split("/", 2)
        asked[self.path] = asked.get(self.path, 0) + 1
        if way.endswith("_later"):
            way = way[:-len("_later")] if asked[self.path] > 1 else "honest"
        with open(os.path.join(folder, name), "rb") as file:
            data = file.read()
        first, last = map(int, self.headers["Range"][len("bytes="):].split("-"))
        body, size = data[first:last + 1], len(data)
        span = "bytes %d-%d/%d" % (first, first + len(body) - 1, size)
        self.close_connection = way not in ("honest", "fewer")
        if way == "short":                          # fewer bytes than its length says
            self.head(206, len(body), span)
            self.wfile.write(body[:len(body) // 2])
        elif way == "some_short" and asked[self.path] % 3:
            self.head(206, len(body), span)
            self.wfile.write(body[:len(body) // 2])
        elif way == "fewer":                        # fewer than was asked for, and says so
            body = body[:max(1, len(body) // 2)]
            self.head(206, len(body), "bytes %d-%d/%d" % (first, first + len(body) - 1, size))
            self.wfile.write(body)
        elif way == "empty":
            self.head(206, 0, span)
        elif way == "endless":
            self.head(206, None, span)
            self.wfile.write(b"%x\r\n%s\r\n" % (len(body), body))
            self.endless()
        elif way == "endless_error":
            self.head(503)
            self.endless()
        elif way == "more":                         # more than was asked for
            self.head(206, len(body) + 5000, span)
            self.wfile.write(body + bytes(5000))
        elif way == "other_range":
            self.head(206, len(body), "bytes %d-%d/%d" % (first + 1, first + len(body), size))
            self.wfile.write(body)
        elif way == "no_range":
            self.head(206, len(body))
            self.wfile.write(body)
        elif way == "other_size":
            self.head(206, len(body), "bytes %d-%d/%d" % (first, first + len(body) - 1, size + 1))
            self.wfile.write(body)
        elif way == "other_version":
            self.head(206, len(body), span, "two")
            self.wfile.write(body)
        elif way == "whole":                        # not the range, but all of it
            self.head(200, size)
            self.wfile.write(data)
        elif way == "silent":
            over.wait()
        elif way == "stall":                        # in the middle of a body
            self.head(206, len(body), span)
            self.wfile.write(body[:len(body) // 2])
            self.wfile.flush()
            over.wait()
        elif way == "trickle":
            self.head(206, len(body), span)
            self.trickle(body)
        elif way == "trickle_head":
            self.trickle(b"HTTP/1.1 206 Partial Content\r\n" + b"X: y\r\n" * 10000)
        else:
            self.head(206, len(body), span)
            self.wfile.write(body)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        pass                                        # clients that go away


server = Server(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
over.set()
