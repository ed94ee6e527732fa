"""What patterns stand for, by Python's own means: braceexpand for braces, glob for the rest.

    python3 tests/peers/patterns.py braces     each line of standard input gives its texts, a line each, then an empty line;
                                         of unbalanced braces "!". Status 3: braceexpand is missing
    python3 tests/peers/patterns.py glob       each line gives the sorted paths that match, likewise
    python3 tests/peers/patterns.py header > tests/unit/patterns.h    what braceexpand makes of STORED, for machines without it
"""
import glob
import os
import sys

STORED = [
    'plain', '', '{}', '{x}', 'a{x}b', '{a,b}', '{a,b}{c,d}', '{a,b,}', '{,}', '{,a}x', 'x{{a,b},c}y', '{{a,b}}',
    '{{a,b},{c,{d,e}}}', '{1..3}', '{3..1}', '{01..3}', '{1..03}', '{08..12}', '{12..08}', '{-2..2}', '{-02..2}',
    '{2..-2..2}', '{1..10..3}', '{10..1..3}', '{1..10..-3}', '{1..3..0}', '{5..5}', '{0..0}', '{00..0}', '{a..e}',
    '{e..a}', '{a..e..2}', '{X..c}', '{a..3}', '{1..2..}', '{1..}', '{..2}', '{1...3}', '{1..2,x}', '{{1..2},x}',
    '{1..{3,4}}', '{a\\,b}', '{a\\,b,c}', '\\{a,b\\}', '\\{{a,b}\\}', '{a\\}b,c}', 'a\\\\{b,c}',
    'train-{000000..000003}.tar', '{a,b}{1..3}{x,y}', '{a,{b,{c,{d,e}}}}f', '{ab..cd}', '{ 1..2}', '{1..2 }',
    '{+1..2}', '{a,b', 'a,b}', '}{', '{a{b,c}', '{{}}', '{{},{}}', '{,{,}}', 'a{b,{1..3}}c{}', '{0001..0002}',
    '{-1..-3}', '{-01..-3}', '{-0..2}', '{1..-01}', '~{a,b}$',
]


def closes_too_early(pattern):
    """braceexpand takes "}{" for balanced."""
    depth, at = 0, 0
    while at < len(pattern) and depth >= 0:
        c = pattern[at:at + 1]
        at += 2 if c == b"\\" else 1
        depth += (c == b"{") - (c == b"}")
    return depth < 0


def texts_of(pattern):
    if sys.argv[1] == "glob":
        return sorted(glob.glob(pattern))
    if closes_too_early(pattern):
        return [b"!"]
    try:
        import braceexpand
    except ImportError:
        sys.exit(3)
    try:
        return [os.fsencode(text) for text in braceexpand.braceexpand(os.fsdecode(pattern))]
    except braceexpand.UnbalancedBracesError:
        return [b"!"]


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace("\n", "\\n") + '"'


def write_header():
    print("/* patterns.h - generated: change patterns.py, then run python3 tests/peers/patterns.py header > tests/unit/patterns.h")
    print(" *\n * What braceexpand makes of patterns: a line each, after \"=\"; then an empty line. */")
    print("static const struct { const char *pattern, *texts; } stored_braces[] = {")
    for pattern in STORED:
        texts = b"".join(b"=" + text + b"\n" for text in texts_of(pattern.encode())) + b"\n"
        row = "    { %s, %s }," % (quoted(pattern), quoted(texts.decode()))
        print(row if len(row) <= 120 else row.replace('", "', '",\n      "', 1))
    print("};")


if sys.argv[1] == "header":
    write_header()
else:
    for line in sys.stdin.buffer.read().split(b"\n")[:-1]:
        for text in texts_of(line):
            sys.stdout.buffer.write(b"=" + text + b"\n")
        sys.stdout.buffer.write(b"\n")
