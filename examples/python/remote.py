"""How fast a data set comes from elsewhere: the time to the first batch, and the requests that samples take

    python3 remote.py https://host/train-{000..146}.tar
    python3 remote.py s3://bucket/train.bzna --storage-options '{"anon": true}'
    python3 remote.py hf://datasets/org/name/train.tar --readers 32 --block-size 65536 --cache-bytes 268435456

A local path, too, to compare: it is read without requests.
"""
import argparse
import json
import os
import sys
import time

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__))]             # from a checkout
import benzina  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", nargs="+", help="URLs, patterns of them, or local paths")
    parser.add_argument("--size", type=int, default=224, help="edge of the pictures that come out (default 224)")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--batches", type=int, default=0, help="stop after so many; 0: after an epoch")
    parser.add_argument("--in-order", action="store_true", help="do not shuffle")
    parser.add_argument("--readers", type=int, default=0, help="threads that read at once; 0: the default")
    parser.add_argument("--block-size", type=int, default=1 << 16)
    parser.add_argument("--cache-bytes", type=int, default=256 << 20)
    parser.add_argument("--retries", type=int, default=4)
    parser.add_argument("--timeout", type=float, default=30)
    parser.add_argument("--storage-options", type=json.loads, help="of fsspec's file system, or headers, as JSON")
    given = parser.parse_args()

    begin = time.monotonic()
    dataset = benzina.Dataset(given.source if len(given.source) > 1 else given.source[0], block_size=given.block_size,
                              cache_bytes=given.cache_bytes, retries=given.retries, timeout=given.timeout,
                              storage_options=given.storage_options)
    opened = time.monotonic()
    print("opened       %8.3f s   %d samples%s" % (opened - begin, len(dataset), asked(dataset.remote)))

    samples = pictures = 0
    with benzina.DataLoader(dataset, given.size, given.batch_size, shuffle=not given.in_order, seed=1, epochs=1,
                            reader_threads=given.readers) as loader:
        for number, batch in enumerate(loader.batches(), 1):
            if number == 1:
                print("first batch  %8.3f s   after that%s" % (time.monotonic() - opened, asked(dataset.remote)))
            samples += len(batch)
            pictures += len(batch) - batch.failed
            if batch.failed:
                print("%d of %d samples failed" % (batch.failed, len(batch)), file=sys.stderr)
            if number == given.batches:
                break
        seconds = time.monotonic() - opened
        limit = loader.statistics.limit
    print(
        "all batches  %8.3f s   %d samples, %.0f a second%s"
        % (seconds, samples, samples / seconds, asked(dataset.remote))
    )
    if dataset.remote is not None:
        found = dataset.remote
        print(
            "a sample     %8.3f requests, %.1f kB; %d of %d blocks were in the cache, %.1f MB at most"
            % (
                found.requests / samples,
                found.bytes_read / samples / 1e3,
                found.blocks_found,
                found.blocks_found + found.blocks_read,
                found.peak_bytes / 1e6,
            )
        )
    if pictures < samples:
        print("%d pictures failed" % (samples - pictures))
    print("limited by   %s" % limit)


def asked(remote):
    return (
        ""
        if remote is None
        else ", %d requests, %d retries, %.1f MB" % (remote.requests, remote.retries, remote.bytes_read / 1e6)
    )


if __name__ == "__main__":
    main()
