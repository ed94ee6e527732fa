#!/usr/bin/env python3
"""Holds the options of the tool that are settings of the library to what the library says of them.

    python3 tests/make/options.py              from the repository's root; prints what differs, with status 1

- A number may be what the table of settings in benzina.c allows, or less of it; it has the table's default.
- The words of a choice are names of an enumeration in settings.py, of each constant at least one.
- The man page names the same words, ranges and defaults.
"""
import re
import sys
from pathlib import Path

import bindings
import settings

# Options that are numbers, and their rows; those behind them need not reach as far as their rows.
NUMBERS = """
batch loader_output.batch_size
size output.width
sessions context_config.sessions
threads loader_decode.threads
flip warp.flip_h
perspective warp.perspective
hue jitter.hue
grayscale jitter.grayscale
random-h warp.mxnet.hls[0]
random-l warp.mxnet.hls[1]
random-s warp.mxnet.hls[2]
max-random-contrast warp.mxnet.contrast
max-random-illumination warp.mxnet.illumination
jpeg-shrink-margin loader_decode.jpeg_shrink_margin
rotate warp.rotate less
shear warp.shear less
brightness jitter.brightness less
contrast jitter.contrast less
saturation jitter.saturation less
"""
# Options that are choices, and where their names stand in settings.CHOICES; dtype has short names beside them.
CHOICES = """
dtype dtype
layout layout
channels channels
crops CROPS
filter filter
decoder decoder
jpeg-decoder jpeg_decoder
class-order class_order
orientation orientation
palette palette
split split
"""
SHORT = {"f32", "f16", "bf16", "u8"}
# Options of several commands that are other numbers in some.
NARROWER = {("batch", 4096), ("size", 1024)}

found = []


def differ(text):
    found.append(text)


def options_of(source):
    """[(name, (least, most) or words, default or "")] of the tool's tables, which macros and strings make up."""
    for name, text in re.findall(r'^#define (\w+) ("[^"]*")$', source, re.M):
        source = re.sub(r"\b%s\b" % name, text, source)
    source = re.sub(r"^#define \w+\(.*", "", source, flags=re.M)
    source = re.sub(r"\bOPTION_BATCH\((\w+), ", r'INTEGER("batch", batch, 1, \1, "N", ', source)
    out = []
    default = r'(?:NULL|"([^"]*)"),'
    for name, words, preset in re.findall(r'\bCHOICE\("([\w-]+)", \w+, "(.*?)", ' + default, source):
        out.append((name, words.split("|"), preset))
    for name, least, most, preset in re.findall(
            r'\b(?:INTEGER|REAL)\("([\w-]+)", [\w\[\]]+, (\S+), (\S+), "\w+", ' + default, source):
        out.append((name, (float(least), float(most)), preset))
    return out


def paragraphs_of(manual):
    """{option: (its words in the heading, the text)} of the man page's sections of options."""
    text = re.sub(r"\\f[BIRP]", "", manual).replace("\\-", "-")
    out = {}
    for section in re.findall(r"^\.SH (?:PICTURE|DATA|GPU) OPTIONS\n(.*?)(?=^\.SH)", text, re.M | re.S):
        for part in section.split(".TP\n")[1:]:
            heading, body = part.split("\n", 1)
            for name, words in re.findall(r"--([\w-]+)(?: ([^\s,]+))?", heading):
                out[name] = (words.split("|"), " ".join(body.split()))
    return out


def check_number(name, values, default, row, may_be_less):
    least, most = values
    low, high, preset = row[3:]
    if least < low or most > high or (most < high and not may_be_less and (name, most) not in NARROWER):
        differ(f"--{name} takes {least:g} to {most:g}, the library {low:g} to {high:g}")
    if preset and default and float(default) != preset:
        differ(f"--{name} is {default} by default, {row[0]}.{row[1]} is {preset:g}")


def check_choice(name, words, default, rows):
    unknown = set(words) - SHORT
    for constant, python, julia in rows:
        names = set(python) | set(julia)
        if "None" in names:                         # no word is what stands for it
            continue
        if python and not names & set(words):
            differ(f"--{name} has no word for BZNA_{constant}")
        unknown -= names
    if unknown:
        differ(f"--{name}: {', '.join(sorted(unknown))}: no names of the library's")
    first = set(rows[0][1]) | set(rows[0][2])
    if default and default not in SHORT and default not in first:
        differ(f"--{name} is {default} by default, and the library's is one of {', '.join(sorted(first))}")


def check_manual(name, values, default, paragraphs):
    if name not in paragraphs:                      # an option of single commands
        return
    words, text = paragraphs[name]
    if isinstance(values, list):
        missing = [word for word in values if word not in words and not re.search(r"\b%s\b" % re.escape(word), text)]
        if missing and missing != ["grey"]:
            differ(f"the man page's --{name} lacks {', '.join(missing)}")
        if len(words) > 1 and set(words) - set(values):
            differ(f"the man page's --{name} has {', '.join(sorted(set(words) - set(values)))}")
    ranges = re.findall(r"\bfrom (\d+)(?: \(default\))? to (\d+)", text)
    if ranges and values not in [tuple(map(float, numbers)) for numbers in ranges]:
        differ(f"the man page's --{name} is not from {values[0]:g} to {values[1]:g}")
    if default and default not in ("auto", "f32") and not re.search(
            r"(?<!\w)%s(?!\w)[^.]*\bdefault\b|\b[Dd]efault\b[^.]*(?<!\w)%s(?!\w)" % (default, default), text):
        differ(f"the man page does not say that --{name} is {default} by default")


def main():
    items, constants = bindings.parse_header(Path("benzina.h").read_text(encoding="utf-8"))
    items = items + bindings.parse_header(Path("examples/formats/formats.h").read_text(encoding="utf-8"))[0]
    for item in items:
        if item.kind == "define" and re.fullmatch(r"\d+", item.value):
            constants[item.name] = item.value
    rows = {f"{row[0]}.{row[1]}": row
            for row in settings.rows_of(Path("benzina.c").read_text(encoding="utf-8"), constants)[0]}
    choices = {}
    for python, julia, names in settings.choices_of(items):
        choices[python] = choices[julia] = names
    numbers = {line.split()[0]: line.split()[1:] for line in NUMBERS.strip().split("\n")}
    enumerations = dict(line.split() for line in CHOICES.strip().split("\n"))
    options = options_of(Path("examples/bzna/main.c").read_text(encoding="utf-8"))
    paragraphs = paragraphs_of(Path("examples/bzna.1").read_text(encoding="utf-8"))
    for name, values, default in options:
        if name in numbers:
            check_number(name, values, default, rows[numbers[name][0]], "less" in numbers[name])
        if name in enumerations and not (name == "class-order" and not default):    # pack's is either, with a warning
            check_choice(name, values, default, choices[enumerations[name]])
        if (name, values[1]) not in NARROWER:
            check_manual(name, values, default, paragraphs)
    missing = (set(numbers) | set(enumerations)) - {option[0] for option in options}
    if missing:
        differ("the tool has no " + ", ".join("--" + name for name in sorted(missing)))
    for text in found:
        print(text)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
