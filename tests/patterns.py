"""What patterns stand for, by Python's own means: braceexpand for braces, glob for the rest.

    python3 tests/patterns.py braces     each line of standard input gives its texts, a line each, then an empty line; of unbalanced
                                         braces "!". Status 3: braceexpand is missing
    python3 tests/patterns.py glob       each line gives the sorted paths that match, likewise
"""
import glob
import os
import sys

def closes_too_early(pattern):
    """braceexpand takes "}{" for balanced."""
    depth, at = 0, 0
    while at < len(pattern) and depth >= 0:
        c = pattern[at:at + 1]
        at += 2 if c == b"\\" else 1
        depth += (c == b"{") - (c == b"}")
    return depth < 0


for pattern in sys.stdin.buffer.read().split(b"\n")[:-1]:
    if sys.argv[1] == "glob":
        found = sorted(glob.glob(pattern))
    elif closes_too_early(pattern):
        found = [b"!"]
    else:
        try:
            import braceexpand
        except ImportError:
            sys.exit(3)
        try:
            found = [os.fsencode(text) for text in braceexpand.braceexpand(os.fsdecode(pattern))]
        except braceexpand.UnbalancedBracesError:
            found = [b"!"]
    for text in found:
        sys.stdout.buffer.write(b"=" + text + b"\n")
    sys.stdout.buffer.write(b"\n")
