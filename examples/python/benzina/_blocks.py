"""A cache of blocks of files that are elsewhere, and the source that the library reads such a file by."""
from __future__ import annotations

import collections
import random
import threading
import time
from typing import NamedTuple

from ._errors import RemoteFailure

MOST_BYTES = 4 << 20                            # of one request
# a gap that does not end a sequence of reads: members of a tar that are left out
_NEAR_BLOCKS = 16
_MOST_ENDS = 8                                  # of sequences of reads that go on at once
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 10


class RemoteStatistics(NamedTuple):
    """Counts of the requests of a Dataset to its servers since it was opened: Dataset.remote."""

    requests: int
    bytes_read: int
    retries: int
    blocks_found: int
    blocks_read: int
    cached_bytes: int
    peak_bytes: int


class _Request:
    """One that is under way: threads that need its blocks wait for it."""

    __slots__ = "done", "failure"

    def __init__(self):
        self.done, self.failure = threading.Event(), None


class _Block:
    __slots__ = "data", "size", "request"

    def __init__(self, size, request):
        self.data, self.size, self.request = None, size, request


class Blocks:
    """Blocks of several files, of at most cache_bytes together. The one that was used longest ago goes first. Blocks
    that are being read count, and stay until they were read."""

    def __init__(self, block_size, cache_bytes, retries):
        self.block_size, self.cache_bytes, self.retries = block_size, cache_bytes, retries
        self._lock = threading.Lock()
        self._blocks = collections.OrderedDict()        # {(file, number): _Block}
        self._held = self._peak = self.bytes_of_files = 0
        self._counts = collections.Counter()

    def statistics(self):
        with self._lock:
            return RemoteStatistics(
                *(self._counts[name] for name in RemoteStatistics._fields[:5]), self._held, self._peak
            )

    def add_file(self, length):
        with self._lock:
            self.bytes_of_files += length

    def count(self, **more):
        with self._lock:
            self._counts.update(more)

    def claim(self, file, first, last, ahead):
        """(the blocks first..last, [(number of the first, [blocks])]): those in the list are the caller's to read, with
        one request for each item. ahead(missing) says up to which block to read, from a block on that is missing; None:
        the caller reads without blocks."""
        with self._lock:
            found = [self._blocks.get((file, number)) for number in range(first, last + 1)]
            missing = [number for number, block in enumerate(found, first) if block is None]
            end = ahead(missing[0]) if missing else last
            if end is None:
                return None
            self._counts.update(blocks_found=len(found) - len(missing), blocks_read=len(missing))
            for number, block in enumerate(found, first):
                if block is not None:
                    self._blocks.move_to_end((file, number))
            if missing and missing[-1] == last:
                while last < end and (file, last + 1) not in self._blocks:
                    last += 1
                    missing.append(last)
            runs = []
            for number in missing:
                if (
                    not runs
                    or number != runs[-1][0] + len(runs[-1][1])
                    or (len(runs[-1][1]) + 1) * self.block_size > MOST_BYTES
                ):
                    runs.append((number, [], _Request()))
                block = _Block(min(self.block_size, file.length - number * self.block_size), runs[-1][2])
                runs[-1][1].append(block)
                self._blocks[file, number] = block
                self._held += block.size
                if number - first < len(found):
                    found[number - first] = block
            self._shrink()
        return found, [(number, blocks) for number, blocks, _ in runs]

    def put(self, file, number, data):
        """A block that came by the way."""
        with self._lock:
            if (file, number) not in self._blocks and self.cache_bytes:
                block = self._blocks[file, number] = _Block(len(data), _Request())
                block.data = data
                block.request.done.set()
                self._held += block.size
                self._shrink()

    def filled(self, blocks, data):
        """data: of blocks that follow one another."""
        at = 0
        for block in blocks:
            block.data = bytes(data[at:at + block.size])
            at += block.size
        with self._lock:
            self._shrink()
        blocks[0].request.done.set()

    def failed(self, file, number, blocks, failure):
        with self._lock:
            for i, block in enumerate(blocks):
                if self._blocks.get((file, number + i)) is block:
                    del self._blocks[file, number + i]
                    self._held -= block.size
        blocks[0].request.failure = failure
        blocks[0].request.done.set()

    def forget(self, file):
        with self._lock:
            self.bytes_of_files -= file.length
            for key in [key for key in self._blocks if key[0] is file]:
                self._held -= self._blocks.pop(key).size

    def _shrink(self):
        if self._held > self.cache_bytes:
            for key in [*self._blocks]:
                if self._held <= self.cache_bytes:
                    break
                if self._blocks[key].data is not None:
                    self._held -= self._blocks.pop(key).size
        self._peak = max(self._peak, self._held)


class RemoteSource:
    """A source of the library's over a file that is elsewhere. remote.fetch(offset, view) fills view, as far as one
    request goes, and returns (bytes, why there are no more of them, as a RemoteFailure, or None)."""

    is_remote = True

    def __init__(self, remote, blocks):
        self.remote, self.blocks, self.length = remote, blocks, 0
        # {block after a request: how many blocks that had}, to tell sequences of reads
        self._ends = collections.OrderedDict()
        self._ends_lock = threading.Lock()

    def open(self):
        """Asks for the size; what a server gave with it is kept."""
        head = bytearray(self.blocks.block_size)
        count = self._try(0, lambda: self.remote.open(memoryview(head)))
        self.length = self.remote.size
        self.blocks.add_file(self.length)
        self.blocks.count(bytes_read=count)
        if count and count == min(len(head), self.length):
            self.blocks.put(self, 0, bytes(head[:count]))
            self._ends[1] = 1

    # -- what _sources calls

    def size(self):
        return self.length

    def read_into(self, offset, view):
        end = min(offset + len(view), self.length)
        if offset >= end:
            return 0
        size, blocks = self.blocks.block_size, self.blocks
        if end - offset > blocks.cache_bytes // 4:                      # it would push out everything else
            for at in range(offset, end, MOST_BYTES):
                self._read(at, view[at - offset:min(at + MOST_BYTES, end) - offset])
            return end - offset
        first = offset // size
        claimed = blocks.claim(self, first, (end - 1) // size, self._ahead)
        if claimed is None:
            self._read(offset, view[:end - offset])
            return end - offset
        found, runs = claimed
        self._read_runs(runs)
        for i, block in enumerate(found):       # after its own requests, so that two threads never wait for each other
            block.request.done.wait()
            if block.request.failure is not None:
                raise block.request.failure.again()
            begin = (first + i) * size
            low, high = max(offset, begin), min(end, begin + block.size)
            view[low - offset:high - offset] = memoryview(block.data)[low - begin:high - begin]
        return end - offset

    def close(self):
        self.blocks.forget(self)
        self.remote.close()

    # -- requests

    def _ahead(self, missing):
        """Up to which block to read: a request that begins where another one ended, or soon after, is twice as large.
        None: files that are larger than the cache are read here and there, so that a whole block would hardly be
        used."""
        with self._ends_lock:
            near = next((end for end in self._ends if end <= missing <= end + _NEAR_BLOCKS), None)
            count = 1 if near is None else 2 * self._ends.pop(near)
            most = max(1, min(MOST_BYTES, self.blocks.cache_bytes // 8) // self.blocks.block_size)
            count = min(count, most)
            self._ends[missing + count] = count
            while len(self._ends) > _MOST_ENDS:
                self._ends.popitem(last=False)
        if near is None and self.blocks.bytes_of_files > self.blocks.cache_bytes:
            return None
        return min(missing + count, -(-self.length // self.blocks.block_size)) - 1

    def _read_runs(self, runs):
        failure = None
        for number, blocks in runs:
            try:
                if failure is not None:
                    raise failure
                data = bytearray(sum(block.size for block in blocks))
                self._read(number * self.blocks.block_size, memoryview(data))
            except BaseException as exception:
                failure = exception
                told = (
                    exception
                    if isinstance(exception, RemoteFailure)
                    else RemoteFailure("the thread that read it failed: %r" % exception)
                )
                self.blocks.failed(self, number, blocks, told)
            else:
                self.blocks.filled(blocks, memoryview(data))
        if failure is not None:
            raise failure

    def _read(self, offset, view):
        """Fills view, by as many requests as that takes."""
        got = 0

        def some():
            nonlocal got
            count, why = self.remote.fetch(offset + got, view[got:])
            got += count
            if got < len(view):
                raise why or RemoteFailure(
                    "the answer ended after %d of %d bytes" % (count, len(view) - got + count), is_temporary=True
                )
        self._try(offset, some, lambda: got, len(view))
        self.blocks.count(bytes_read=len(view))

    def _try(self, offset, function, got=lambda: 0, size=None):
        for attempt in range(self.blocks.retries + 1):
            self.blocks.count(requests=1, retries=attempt > 0)
            try:
                return function()
            except RemoteFailure as failure:
                if not failure.is_temporary or attempt == self.blocks.retries:
                    where = "" if size is None else "bytes %d-%d: " % (offset + got(), offset + size - 1)
                    tried = " (tried %d times)" % (attempt + 1) if attempt else ""
                    raise RemoteFailure("%s: %s%s%s" % (self.remote.name, where, failure, tried), name=self.remote.name,
                                        kind=failure.kind) from failure.__cause__
                pause = min(_FIRST_PAUSE_S * 2**attempt, _LONGEST_PAUSE_S) * random.uniform(0.5, 1)
                time.sleep(max(pause, min(failure.retry_after or 0, _LONGEST_PAUSE_S)))
