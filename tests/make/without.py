#!/usr/bin/env python3
"""The library's three files without some of its rooms: their text is gone, not only switched off.

    tests/make/without.py FOLDER NAME...

writes benzina.c, benzina.h and benzina_kernels.cu into FOLDER, without what BENZINA_NO_NAME leaves out: SHARDS, WRITER
and others, which benzina.h lists. Each #if on these switches is decided. Then rooms of which nothing but the banner is
left go, and functions, tables, types and constants that nothing uses any more. The rooms that stay are numbered anew.
The header's manual loses what it says of nothing else: see SECTIONS.
"""
import collections
import os
import re
import sys

import rooms

DIRECTIVE = re.compile(r"^# *(if|ifdef|ifndef|elif|else|endif)\b(.*)$")
TOKEN = re.compile(r"\s*(defined\s*\(\s*\w+\s*\)|&&|\|\||!|\(|\))")
FUNCTION = re.compile(
    r"^(?:BZI_(?:COLD|PRINTF)[^\n]*\n)?(?:BZI_MAYBE_UNUSED )?static [^;={}#]*?\b(bzi_\w+)\([^;{]*?\)\n?\s*\{", re.M
)
TABLE = re.compile(r"^(?:BZI_MAYBE_UNUSED )?static [^;(){}#]*?\b(bzi_\w+)(?:\[\w*\])* = ", re.M)
NAME = re.compile(r"\b(?:bzi|BZI)_\w+")
TYPE = re.compile(r"^typedef struct (bzi_\w+) \{\n(?:[^}].*\n|\n)*\} \1;\n", re.M)
CONSTANT = re.compile(r"^# *define (BZI_\w+)\b(?:[^\\\n]|\\(?!\n))*\n", re.M)
TABLES_END = re.compile(r";\s*?\n")
FUNCTIONS_END = re.compile(r"^\}.*\n", re.M)
HEADING_OF_NOTHING = re.compile(r"^/\* --- .* --- \*/\n\n(?=/\* (?:---|====) |(?:#endif\n|#if.*\n|\n)+/\* ==== )", re.M)


# --- Conditions: True, False, or the text of what stays open ---

def decide(text, removed):
    """An expression of defined(), !, && and ||, with what is known of it put in."""
    tokens, at = [], 0
    while text[at:].strip():
        m = TOKEN.match(text, at)
        if not m:
            sys.exit("without: a condition on switches must be of defined(), !, && and ||: %s" % text.strip())
        tokens.append(m.group(1))
        at = m.end()

    def either(first, second, operator, ends):
        """ends: the value of one side that decides both."""
        if first is ends or second is ends:
            return ends
        if isinstance(first, bool) or isinstance(second, bool):
            return second if isinstance(first, bool) else first
        return "%s %s %s" % (first, operator, second)

    def one():
        token = tokens.pop(0)
        if token == "!":
            value = one()
            return not value if isinstance(value, bool) else "!" + value
        if token == "(":
            value = any_of()
            tokens.pop(0)
            return value if isinstance(value, bool) or value.startswith("defined") and " " not in value else \
                "(%s)" % value
        name = re.search(r"\((?:\s*)(\w+)", token).group(1)
        return True if name in removed else "defined(%s)" % name

    def all_of():
        value = one()
        while tokens and tokens[0] == "&&":
            tokens.pop(0)
            value = either(value, one(), "&&", False)
        return value

    def any_of():
        value = all_of()
        while tokens and tokens[0] == "||":
            tokens.pop(0)
            value = either(value, all_of(), "||", True)
        return value

    return any_of()


def condition(kind, rest, removed):
    """Of an #if, #ifdef, #ifndef or #elif: True, False or the text after "#if "; None: it stays as it is."""
    text = re.sub(r"/\*.*?\*/", "", rest).strip()
    if kind in ("ifdef", "ifndef"):
        return (kind == "ifdef") if text in removed else None
    return decide(text, removed) if removed & set(re.findall(r"\w+", text)) else None


def resolve(lines, removed):
    """The lines without the branches that are not taken, and without the conditions that are decided."""
    out, chains = [], []                     # of each chain: [taken for certain, written so far, wanted, indentation]
    for line in lines:
        m = DIRECTIVE.match(line)
        wanted = all(chain[2] for chain in chains)
        if not m:
            if wanted:
                out.append(line)
            continue
        kind, rest = m.groups()
        if kind in ("if", "ifdef", "ifndef"):
            value = condition(kind, rest, removed)
            chains.append([value is True, not isinstance(value, bool), value is not False])
            if wanted and not isinstance(value, bool):
                out.append(line if value is None else "#if %s" % value)
            continue
        chain, outer = chains[-1], all(c[2] for c in chains[:-1])
        if kind == "endif":
            chains.pop()
            if outer and chain[1]:
                out.append(line)
            continue
        value = True if kind == "else" else condition(kind, rest, removed)
        chain[2] = not chain[0] and value is not False
        if outer and chain[2]:
            if value is True and chain[1]:
                out.append(line if kind == "else" else "#else")
            elif value is not True:
                text = rest.strip() if value is None else value
                out.append(line if value is None and chain[1] else "#%s %s" % ("elif" if chain[1] else "if", text))
                chain[1] = True
        chain[0] = chain[0] or value is True
    return out


# --- What nothing uses any more ---

def comment_above(text, begin):
    """Where the comment begins that ends on the line above, or `begin`."""
    if not text.endswith("*/\n", 0, begin):
        return begin
    first = text.rindex("/*", 0, begin)
    return first if first == 0 or text[first - 1] == "\n" else begin


def definitions(text, code):
    """(name, begin, end) of each function, table, type and constant; code: the text without comments."""
    found = []
    for pattern in (FUNCTION, TABLE, TYPE, CONSTANT):
        for m in pattern.finditer(code):
            if pattern is TYPE:
                begin, end = comment_above(text, m.start()), m.end()
            elif pattern is CONSTANT:
                end = m.end()
                begin = m.start() if code[end:end + 7] == "#define" else comment_above(text, m.start())
            else:
                line = code.index("\n", m.end())
                if pattern is TABLE:
                    end = TABLES_END.search(code, m.end()).end()
                elif code[m.start():line].rstrip().endswith("}"):
                    end = line + 1
                else:
                    end = FUNCTIONS_END.search(code, m.end()).end()
                begin = comment_above(text, m.start())
            found.append((m.group(1), begin, end))
    return found


def unused(text, words_of_kernels):
    """Where the text of things lies that are named nowhere but where they are defined, or by what is unused itself."""
    code = rooms.without_comments(text)
    count = collections.Counter(NAME.findall(code)) + words_of_kernels
    places, names_of = {}, {}
    for name, begin, end in definitions(text, code):
        places.setdefault(name, set()).add((begin, end))
        names_of[begin, end] = collections.Counter(NAME.findall(code, begin, end))
    gone, again = set(), True
    while again:
        again = [name for name, where in places.items() if count[name] == sum(names_of[one][name] for one in where)]
        for place in {place for name in again for place in places.pop(name)}:
            if not any(begin <= place[0] and place[1] <= end for begin, end in gone):
                gone.add(place)
                count -= names_of[place]
    return sorted(gone)


def without_unused(text, kernels):
    words_of_kernels = collections.Counter(NAME.findall(rooms.without_comments(kernels)))
    places = unused(text, words_of_kernels)
    while places:
        for begin, end in reversed(places):
            text = text[:begin] + text[end:]
        text = tidy(text)
        places = unused(text, words_of_kernels)
    return text


def tidy(text):
    """Two empty lines before a room, elsewhere one; none after a brace that opens a function; no heading of nothing."""
    text = re.sub(r"^\{\n\n+", "{\n", text, flags=re.M)
    text = re.sub(r"\n{3,}", "\n\n", text)
    text = re.sub(r"^(#if.*\n)\n*#endif.*\n\n?", "", text, flags=re.M)
    text = HEADING_OF_NOTHING.sub("", text)
    text = re.sub(r"\n\n(?=(?:#if.*\n)*/\* ==== )", "\n\n\n", text)
    return text


# --- Rooms ---

def without_empty_rooms(text):
    for _, _, begin, end in reversed(rooms.rooms_of(text)):
        code = "\n".join(line for line in rooms.without_comments(text[begin:end]).split("\n"))
        if not re.sub(r"^#if.*$", "", code, flags=re.M).strip():
            rest = text[text.index("*/", begin) + 2:end]
            text = text[:begin] + "".join(re.findall(r"^#if.*\n", rest, re.M)) + text[end:]
    return text


def with_contents(text, before):
    """The list of rooms at the top, of those that are left. before: the labels of all."""
    left = {label for label, _, _, _ in rooms.rooms_of(text)}

    def row(m):
        first, _, last = m.group(2).partition("-")
        labels = [label for label in before[before.index(first):before.index(last or first) + 1] if label in left]
        return "" if not labels else m.group(1) + \
            (labels[0] if len(labels) == 1 else "%s-%s" % (labels[0], labels[-1])).rjust(8) + m.group(3)

    end = text.index("/* ====")
    return re.sub(r"^( \*) +(\d+[a-z]?(?:-\d+[a-z]?)?)(  \S.*\n)", row, text[:end], flags=re.M) + text[end:]


def refuse_lost_names(text, before):
    """Comments may not name rooms that are gone."""
    left = {label for label, _, _, _ in rooms.rooms_of(text)}
    for m in re.finditer(r"\brooms? (\d+[a-z]?(?:(?:, |-| to | and )\d+[a-z]?)*)", text):
        lost = [label for label in re.findall(r"\d+[a-z]?", m.group(1)) if label in before and label not in left]
        if lost and not text[:m.start()].endswith("Calls: "):
            sys.exit("without: a comment names a room that is gone: \"%s\"" % m.group(0))


def library(text, kernels, removed):
    before = [label for label, _, _, _ in rooms.rooms_of(text)]
    text = tidy("\n".join(resolve(text.split("\n"), removed)))
    text = without_empty_rooms(without_unused(text, kernels))
    text = with_contents(tidy(text), before)
    refuse_lost_names(text, before)
    return rooms.with_calls(rooms.renumbered(text, rooms.rooms_of(text)))


# --- The header ---

# What the manual says of a switch alone, or of several, all of which must be removed then. Sections: from a heading,
# which is words in capitals at the beginning of a paragraph, to the next one. Rows of its tables and items of its lists:
# by their beginning, with the lines that continue them. Chapters keep their numbers, since comments name them.
SECTIONS = {
    "CUDA": ["11. THE GPU"],
    "SHARDS": ["TARS"],
    "STILLS": ["STILLS"],
    "FOLDERS": ["FOLDERS"],
    "PROVIDERS": ["PROVIDERS"],
    "AUGMENT": ["POLICIES"],
}
ROWS = {
    "CUDA": ["device_allocator ", "- NVIDIA's driver decodes", "- NVDEC is not used"],
    "WRITER": ["bzna_writer ", "bzna_writer ", "sink.write_at"],
    "SHARDS": ["tar ", "fields of a tar's"],
    "FOLDERS": ["folder "],
    "PROVIDERS": ["provider.read", "provider.unpack", "provider.close", "provider "],
}
HEADING = re.compile(r"^ \*\n \* (\d+\. [A-Z][A-Z ,]+|[A-Z]{2,}(?: [A-Z]+)*)(?=[. \n][ a-z(\n])", re.M)


def without_section(text, heading):
    found = list(HEADING.finditer(text))
    at = [i for i, m in enumerate(found) if m.group(1) == heading]
    if len(at) != 1:
        sys.exit("without: the manual of benzina.h has no one section \"%s\"" % heading)
    chapter = heading[0].isdigit()
    end = next(m.start() for m in found[at[0] + 1:] if m.group(1)[0].isdigit() or not chapter)
    instead = " *\n * %s\n *\n * This copy was made without it.\n" % heading if chapter else ""
    return text[:found[at[0]].start()] + instead + text[end:]


def without_row(text, begins):
    text, count = re.subn(r"^ \*     %s.*\n(?: \*      +\S.*\n)*" % re.escape(begins), "", text, count=1, flags=re.M)
    if not count:
        sys.exit("without: the manual of benzina.h has no row \"%s\"" % begins)
    return text


def manual_without(text, names):
    for table, edit in ((SECTIONS, without_section), (ROWS, without_row)):
        for switches, places in table.items():
            if set(switches.split()) <= set(names):
                for place in places:
                    text = edit(text, place)
    return text


def header(text, names, removed):
    """Without what is missing, which it names to readers and, by the switches, to programs."""
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(resolve(text.split("\n"), removed)))
    text = manual_without(text, names)
    rows = "".join("#define BENZINA_NO_%s 1\n" % name for name in names)
    note = "/* This copy was made by make dist WITHOUT=\"%s\".\n" % " ".join(names) + \
        " * What these switches leave out is in neither file, so they are defined for programs to see. */\n"
    guard = re.search(r"^#define BENZINA_H.*\n", text, re.M)
    return text[:guard.end()] + "\n" + note + rows + text[guard.end():]


def main():
    folder, names = sys.argv[1], sys.argv[2:]
    files = {name: open(name).read() for name in ("benzina.c", "benzina.h", "benzina_kernels.cu")}
    known = re.findall(r"^ \*     BENZINA_NO_([A-Z]+) ", files["benzina.h"], re.M)
    names = [name for name in known if name in names] + [name for name in names if name not in known]
    if not names or names[-1] not in known:
        sys.exit("without: %s; there are: %s" % (names[-1] + " is no switch" if names else "no names", " ".join(known)))

    removed = {"BENZINA_NO_" + name for name in names}
    kernels = "\n".join(resolve(files["benzina_kernels.cu"].split("\n"), removed))
    os.makedirs(folder, exist_ok=True)
    for name, text in (("benzina.c", library(files["benzina.c"], kernels, removed)), ("benzina_kernels.cu", kernels),
                       ("benzina.h", header(files["benzina.h"], names, removed))):
        with open(os.path.join(folder, name), "w") as f:
            f.write(text)


if __name__ == "__main__":
    main()
