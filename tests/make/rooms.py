#!/usr/bin/env python3
"""Which rooms of benzina.c call which, by the functions and tables that each defines: compared with what their banners
say.

    tests/make/rooms.py benzina.c            prints where a banner is wrong; exit status 1 if one is, or if a room calls
    one below it tests/make/rooms.py benzina.c --write    numbers rooms in the order of the file ("9b" after 9 becomes
    10), corrects "Calls: rooms ..."
                                             in their banners, and the numbers in the list of rooms and in comments
"""
import re
import sys

BANNER = re.compile(r"^/\* ==== (\d+[a-z]?)\. (.*?) =+", re.M)
CALLS = re.compile(r"Calls: (?:rooms? (\d[\d, -]*\d|\d)|nothing)")
DEFINITION = re.compile(
    r"^(?:static|BZNA_API|BZI_MAYBE_UNUSED)\b[^=;(]*?\b(bz(?:i|na)_\w+)(?:\(|(?:\[\w*\])* = )", re.M
)
MACRO = re.compile(r"^# *define (BZI_\w+)\(", re.M)
SUBSTITUTE = re.compile(r"^# *define (bz(?:i|na)_\w+)", re.M)            # of a function that a build without CUDA lacks


def without_comments(text):
    """Comments and strings become blanks; lines stay where they are."""
    blank = lambda m: "\n".join(" " * len(line) for line in m.group(0).split("\n"))
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', blank, text, flags=re.S)


def rooms_of(text):
    """(number as written, name, begin, end) of each room; what stands before the first is of none."""
    found = list(BANNER.finditer(text))
    return [(m.group(1), m.group(2), m.start(), after.start() if after else len(text))
            for m, after in zip(found, found[1:] + [None])]


def calls_of(text, rooms):
    """For each room, in order, the sorted positions of the rooms whose functions it calls."""
    code, owner = without_comments(text), {}
    for position, (_, _, begin, end) in enumerate(rooms):
        for m in (
            (list(DEFINITION.finditer(code, begin, end)) + list(MACRO.finditer(code, begin, end))) if position else ()
        ):
            owner.setdefault(m.group(1), set()).add(position)
    calls = []
    for position, (_, _, begin, end) in enumerate(rooms):
        names = set(re.findall(r"\b(?:bzi|bzna|BZI)_\w+", code[begin:end])) - set(SUBSTITUTE.findall(code, begin, end))
        calls.append(sorted({min(owner[name]) for name in names if name in owner and position not in owner[name]}))
    return calls


def as_ranges(numbers):
    """[2, 3, 4, 7] -> "2-4, 7"."""
    parts = []
    for n in numbers:
        if parts and parts[-1][1] == n - 1:
            parts[-1][1] = n
        else:
            parts.append([n, n])
    return ", ".join("%d" % a if a == b else "%d-%d" % (a, b) for a, b in parts)


def sentence(numbers):
    return "Calls: rooms " + as_ranges(numbers) if numbers else "Calls: nothing"


def renumbered(text, rooms):
    """The text with rooms numbered in their order, wherever a comment names one."""
    new = {old: str(i) for i, (old, _, _, _) in enumerate(rooms)}
    number = lambda m: new.get(m.group(0), m.group(0))
    text = BANNER.sub(
        lambda m: m.group(0).replace("==== " + m.group(1) + ".", "==== " + new[m.group(1)] + ".", 1), text
    )
    text = re.sub(r"(?<=\broom )\d+[a-z]?|(?<=\brooms )\d+[a-z]?(?:(?:, |-| to | and )\d+[a-z]?)*",
                  lambda m: re.sub(r"\d+[a-z]?", number, m.group(0)), text)
    head, rest = text[:text.index("/* ====")], text[text.index("/* ===="):]
    head = re.sub(
        r"^( \*) +(\d+[a-z]?(?:-\d+[a-z]?)?)(  \S)",
        lambda m: m.group(1) + re.sub(r"\d+[a-z]?", number, m.group(2)).rjust(8) + m.group(3),
        head,
        flags=re.M,
    )
    return head + rest


def with_calls(text):
    rooms = rooms_of(text)
    for (number, _, begin, _), calls in reversed(list(zip(rooms, calls_of(text, rooms)))):
        close = text.index("*/", begin)
        m = CALLS.search(text, begin, close)
        if m:
            text = text[:m.start()] + sentence(calls) + text[m.end():]
    return text


def main():
    path, text = sys.argv[1], open(sys.argv[1]).read()
    if "--write" in sys.argv:
        text = with_calls(renumbered(text, rooms_of(text)))
        open(path, "w").write(text)
    rooms, wrong = rooms_of(text), 0
    for position, ((number, name, begin, _), calls) in enumerate(zip(rooms, calls_of(text, rooms))):
        m = CALLS.search(text, begin, text.index("*/", begin))
        if number != str(position):
            print("room %s, %s, is the %dth of the file" % (number, name, position))
            wrong = 1
        if [c for c in calls if c > position]:
            print(
                "room %s, %s, calls rooms below it: %s" % (number, name, as_ranges([c for c in calls if c > position]))
            )
            wrong = 1
        if m and m.group(0) != sentence(calls):
            print("room %s, %s: \"%s\" stands there, \"%s\" is right" % (number, name, m.group(0), sentence(calls)))
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
