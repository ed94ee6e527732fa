#!/usr/bin/env python3
"""Makes from benzina.h and examples/formats/formats.h what the bindings declare: structs, constants and, for Rust and Python, functions. And from the
table of settings in benzina.c, beside it, the keywords of loaders and contexts (settings.py).

    python3 tests/make/bindings.py benzina.h examples          writes them: raw.rs, header.jl, _numbers.py, _header.py,
                                                               settings.rs, settings.jl, _keywords.py, offsets.json
    python3 tests/make/bindings.py benzina.h examples --check  says which of them are not what it would write, with
                                                               status 1

The header is read by its own rules: one member a line, a comment above a declaration or behind it on its line, no
unions, no bit-fields. What does not follow them ends the program, with the text at fault. tests/abi.rs of the crate and
tests/bindings/test_julia.sh hold the results against the header again, by means of the C compiler.
"""
import json
import re
import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

import settings

NOTE = "Made from benzina.h and formats.h by `make bindings` (tests/make/bindings.py): change the headers, not this file."
SETTINGS_NOTE = "Made from the table of settings in benzina.c by `make bindings` (tests/make/settings.py): change that."

# Constants of an enum are of the type of what holds them. Without a line here, that is uint32_t.
ENUM_TYPES = {"BZNA_LOG": "int32_t", "BZNA_DEVICE": "int32_t", "BZNA_STATUS": "bzna_status", "BZNA_STAGE": "size_t"}
# Macros that are not uint32_t: an int64_t below 0, and addresses.
DEFINE_TYPES = {"BZNA_TARGET_NONE": "int64_t", "BZNA_WAIT_FOREVER": "int64_t", "BZNA_STREAM_LEGACY": "void *",
                "BZNA_STREAM_PER_THREAD": "void *"}
# Lengths of arrays.
SIZES = ("BZNA_NAME_MAX", "BZNA_IMAGES_MAX", "BZNA_OPERATIONS_MAX")
# Structs that arrays of the caller's consist of, so that Julia must have them as values.
ELEMENTS = ("bzna_field_value", "bzna_made", "bzna_rule")


class Fault(Exception):
    """Text of the header that this program cannot read."""


@dataclass
class Type:
    """A type of C: a base, a const for it and for each star, and lengths of arrays."""

    base: str
    consts: list = field(default_factory=list)      # of the base, then of each star
    lengths: list = field(default_factory=list)
    result: "Type" = None                           # of a function pointer, whose base is ""
    parameters: list = field(default_factory=list)  # (name, Type)


@dataclass
class Item:
    """A declaration: kind is "struct", "opaque", "function", "pointer", "define", "enum" or "status"."""

    kind: str
    name: str
    comment: str
    members: list = field(default_factory=list)     # (name, Type or value, comment)
    type: Type = None
    value: str = ""


# ---- Reading the header ----------------------------------------------------------------------------------------------

def comment_lines(text):
    """The lines of a comment, without its marks; indentation beyond that of the text is kept."""
    lines = text[2:-2].split("\n")
    out = [lines[0].strip()]
    for line in lines[1:]:
        out.append(re.sub(r"^\s*\* ?", "", line).rstrip())
    while out and not out[-1]:
        out.pop()
    return out


def parse_declaration(text):
    """(name, Type) of "const char *const *paths", "uint32_t key[2]" or "void *(*alloc)(void *user, size_t size)"."""
    text = " ".join(text.split())
    pointer = re.fullmatch(r"(.*?)\(\*(\w+)\)\s*\((.*)\)", text)
    if pointer:
        result = parse_declaration(pointer[1] + " result")[1]
        return pointer[2], Type("", result=result, parameters=parse_parameters(pointer[3]))
    lengths = re.findall(r"\[(\w+)\]", text)
    words = re.findall(r"\w+|\*", re.sub(r"\[\w+\]", "", text))
    if len(words) < 2 or "," in text:
        raise Fault(text)
    name, words = words[-1], words[:-1]
    base_const = "const" in words[:words.index("*")] if "*" in words else "const" in words
    stars = "".join("*" if word == "*" else "c" if word == "const" else "" for word in
                    (words[words.index("*"):] if "*" in words else []))
    base = [word for word in words if word not in ("*", "const")]
    if len(base) != 1:
        raise Fault(text)
    consts = [base_const] + [star == "*c" for star in re.findall(r"\*c?", stars)]
    return name, Type(base[0], consts, lengths)


def parse_parameters(text):
    if text.strip() == "void":
        return []
    return [parse_declaration(part) for part in text.split(",")]


def scan(body):
    """Declarations of a body with their comments: pairs of text and comment's lines."""
    pending, found, position = [], [], 0
    while position < len(body):
        comment = re.compile(r"\s*(/\*.*?\*/)", re.S).match(body, position)
        if comment:
            behind = found and "\n" not in body[position:comment.start(1)]
            if behind:
                found[-1][1].extend(comment_lines(comment[1]))
            else:
                pending = comment_lines(comment[1])
            position = comment.end()
            continue
        end = re.compile(r"[^;/]*;", re.S).match(body, position)
        if not end:
            if body[position:].strip():
                raise Fault(body[position:])
            break
        found.append((end[0][:-1].strip(), pending))
        pending, position = [], end.end()
    return found


def parse_enum(body, constants):
    """(name, value, comment) of each constant. The commas become semicolons, so that scan can be used."""
    pieces = re.split(r"(/\*.*?\*/)", body, flags=re.S)
    code = "".join(piece if piece.startswith("/*") else piece.replace(",", ";") for piece in pieces)
    bare = re.sub(r"/\*.*?\*/", "", code, flags=re.S).rstrip()
    if not bare.endswith(";"):                      # the last constant has no comma behind it
        last = list(re.finditer(r"\w+ *= *-?\w+", re.sub(r"/\*.*?\*/", lambda m: " " * len(m[0]), code, flags=re.S)))[
            -1
        ]
        code = code[:last.end()] + ";" + code[last.end():]
    out = []
    for text, comment in scan(code):
        entry = re.fullmatch(r"(BZNA_\w+)\s*=\s*(-?\d+)", text)
        if not entry:
            raise Fault(text)
        constants[entry[1]] = entry[2]
        out.append((entry[1], entry[2], comment))
    return out


def parse_header(text):
    """All declarations of the header, in its order."""
    text = re.sub(r"#define BZNA_FORMATS_API.*", "", text[re.search("#define BENZINA_(FORMATS_)?H\n", text).start():])
    text = text.split("\n/* ---- For the files of this folder")[0].replace("BZNA_FORMATS_API", "BZNA_API")
    items, constants, pending, position = [], {}, [], 0
    patterns = [
        ("comment", r"/\*.*?\*/"),
        ("map", r"#define BZNA_STATUS_MAP\(X\)(?:[^\n]*\\\n)+[^\n]*"),
        ("define", r"#define (BZNA_\w+)[ \t]+((?:[^\n/]|/(?!\*))+?)[ \t]*(/\*[^\n]*?\*/)?(?=\n)"),
        ("directive", r"#(?:[^\n]*\\\n)*[^\n]*"),
        ("opaque", r"typedef struct (\w+) +\w+;[ \t]*(/\*[^\n]*?\*/)?"),
        ("struct", r"typedef struct (\w+) \{(.*?)\n\} \w+;"),
        ("pointer", r"typedef ([^;{]*\(\*\w+\)[^;]*);"),
        ("alias", r"typedef \w+ \w+;"),
        ("enum", r"enum \{(.*?)\n\};"),
        ("function", r"BZNA_API ([^;]*?\w+)\(([^;]*)\);"),
        ("brace", r'extern "C" \{|\}'),
    ]
    patterns = [(kind, re.compile(pattern, re.S)) for kind, pattern in patterns]
    while True:
        space = re.compile(r"\s*").match(text, position)
        if text.count("\n", position, space.end()) > 1:
            pending = []                            # a blank line: the comment was of a chapter
        position = space.end()
        if position == len(text):
            return items, constants
        for kind, pattern in patterns:
            match = pattern.match(text, position)
            if match:
                break
        else:
            raise Fault(text[position:position + 80])
        position = match.end()
        if kind == "comment":
            pending = comment_lines(match[0])
            continue
        if kind == "map":
            for name, number, meaning in re.findall(r'X\((\w+),\s*(-?\d+),\s*"([^"]*)"\)', match[0]):
                constants["BZNA_" + name] = number
                items.append(Item("status", "BZNA_" + name, [meaning], value=number))
        elif kind == "define" and re.match(r"[\d(]|BZNA", match[2]):
            items.append(Item("define", match[1], comment_lines(match[3]) if match[3] else pending, value=match[2]))
        elif kind == "opaque":
            items.append(Item("opaque", match[1], comment_lines(match[2])))
        elif kind == "struct":
            members = [(*parse_declaration(declaration), comment) for declaration, comment in scan(match[2])]
            items.append(Item("struct", match[1], pending, members))
        elif kind == "pointer":
            name, declared = parse_declaration(match[1])
            items.append(Item("pointer", name, pending, type=declared))
        elif kind == "enum":
            body = re.sub(r"^#[^\n]*$|^    BZNA_STATUS_MAP.*$", "", match[1], flags=re.M)
            items.append(
                Item("enum", "", [] if "BZNA_STATUS_MAP" in match[1] else pending, parse_enum(body, constants))
            )
        elif kind == "function":
            name, result = parse_declaration(match[1])
            items.append(Item("function", name, pending,
                              type=Type("", result=result, parameters=parse_parameters(match[2]))))
        if kind not in ("directive", "brace"):
            pending = []


def enum_type(name):
    return next((kind for prefix, kind in ENUM_TYPES.items() if name.startswith(prefix + "_")), "uint32_t")


def define_value(name, value, constants):
    """(C type, number) of a macro's value."""
    if name in DEFINE_TYPES:
        return DEFINE_TYPES[name], value.strip("()L")
    if re.fullmatch("0x[0-9A-F]{16}", value):
        number = int(value, 16)
        return "uint64_t", "UINT64_MAX" if number == 2**64 - 1 else str(number)
    expression = re.sub(r"BZNA_\w+", lambda m: constants[m[0]], value.strip("()"))
    if not re.fullmatch(r"[\d+* ]+", expression):
        raise Fault(value)
    total = sum(int.__mul__(*map(int, (term.split("*") + ["1"])[:2])) for term in expression.split("+"))
    return "uint32_t", str(total)


# ---- Comments as documentation ---------------------------------------------------------------------------------------

def paragraphs(lines, whole):
    """The text of a comment: its first paragraph, or with whole all of it; indented lines apart."""
    out = []
    for line in lines:
        if not line:
            if not whole:
                break
            out.append(("text", ""))
        elif line.startswith("  "):
            out.append(("table", line))
        elif out and out[-1][0] == "text" and out[-1][1]:
            out[-1] = ("text", out[-1][1] + " " + line)
        else:
            out.append(("text", line))
    return out


def first_sentence(lines):
    text = " ".join(part for kind, part in paragraphs(lines, False) if kind == "text")
    end = re.search(r"[.:](?= [A-Z]|$)", text)
    return text[:end.start()] + "." if end else text


def markdown(text):
    text = re.sub(r"([\[\]]|<(?=\w)|(?<! )\*|\*(?! ))", r"\\\1", text)
    begins_with_a_word = re.match(r"(?!sizeof|float32|torchvision)[a-z]{2,}([ ,.:;]|$)", text)
    return text[:1].upper() + text[1:] if begins_with_a_word else text


def rust_doc(lines, indent):
    """A doc comment of Rust. Lines that are indented, such as tables, become a block of text."""
    out, prefix, fenced = [], " " * indent + "/// ", False
    for kind, text in paragraphs(lines, True):
        if (kind == "table") != fenced:
            out.append(prefix + ("```text" if kind == "table" else "```"))
            fenced = kind == "table"
        if kind == "table":
            out.append(prefix + text[4:])
        else:
            out += [prefix + line for line in wrap(markdown(text), 116 - indent)]
    return out + ([prefix + "```"] if fenced else [])


def wrap(text, width):
    """Lines, none of which begins like an item of a list."""
    lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]
    return [re.sub(r"^(\d+)([.)]) ", r"\1\\\2 ", line) for line in lines]


def remark(lines, indent=0):
    """A comment of Julia, of one paragraph."""
    text = " ".join(part for kind, part in paragraphs(lines, False) if kind == "text")
    return [" " * indent + "# " + line for line in textwrap.wrap(text, 116 - indent)] if text else []


# ---- Rust ------------------------------------------------------------------------------------------------------------

RUST = {"uint8_t": "u8", "uint16_t": "u16", "uint32_t": "u32", "uint64_t": "u64", "int32_t": "i32", "int64_t": "i64",
        "size_t": "usize", "float": "f32", "double": "f64", "char": "c_char", "void": "c_void"}


def rust_type(of, parameter=False):
    if of.result:
        return f"Option<unsafe extern \"C\" fn{rust_signature(of)}>"
    out, lengths = RUST.get(of.base, of.base), list(of.lengths)
    consts = list(of.consts)
    if parameter and lengths:                       # an array as a parameter is a pointer
        lengths, consts = lengths[1:], consts + [False]
    for pointee_is_const in consts[:-1]:
        out = ("*const " if pointee_is_const else "*mut ") + out
    for length in reversed(lengths):
        out = f"[{out}; {length}]"
    return out


def rust_signature(of):
    parameters = ", ".join(f"{name}: {rust_type(kind, True)}" for name, kind in of.parameters)
    result = "" if rust_type(of.result) == "c_void" else " -> " + rust_type(of.result)
    return f"({parameters}){result}"


def rust_constant(name, kind, value, lines):
    if name in SIZES:
        kind = "size_t"
    if kind == "void *":
        typed, value = "*mut c_void", f"{value} as *mut c_void"
    else:
        typed, value = RUST.get(kind, kind), value.replace("UINT64_MAX", "u64::MAX")
    return rust_doc(lines, 0) + [f"pub const {name}: {typed} = {value};"]


def rust(items, constants):
    out = [
        f"// {NOTE}",
        "",
        "//! benzina.h as C has it: structs, constants and functions. Nothing here is safe; the manual is the "
        "header's.",
        "",
        "#![allow(non_camel_case_types)]",
        "",
        "use std::ffi::{c_char, c_void};",
        "",
        "/// The result of a call: `BZNA_OK`, a positive note, or a negative error.",
        "pub type bzna_status = i32;",
    ]
    for item in items:
        if item.kind == "pointer":
            out += ["", *rust_doc(item.comment, 0), f"pub type {item.name} = {rust_type(item.type)};"]
    out.append("")
    for before, item in zip([items[0]] + items, items):
        out += [""] if item.kind == "define" and before.kind != "define" else []
        if item.kind == "define":
            out += rust_constant(item.name, *define_value(item.name, item.value, constants), item.comment)
        elif item.kind == "status":
            out += rust_constant(item.name, "bzna_status", item.value, item.comment)
        elif item.kind == "enum":
            out += [""] * bool(item.comment) + ["// " + line for line in textwrap.wrap(" ".join(item.comment), 116)]
            for name, value, lines in item.members:
                out += rust_constant(name, enum_type(name), value, lines)
    out += ["", "opaque! {"]
    for item in items:
        if item.kind == "opaque":
            out += rust_doc(item.comment, 4) + [f"    {item.name};"]
    out += ["}", "", "structs! {"]
    for item in items:
        if item.kind == "struct":
            first = [line for kind, line in paragraphs(item.comment, False) if kind == "text"]
            out += rust_doc(first, 4) + [f"    struct {item.name} {{"]
            for name, kind, lines in item.members:
                out += rust_doc(lines, 8) + [f"        {name}: {rust_type(kind)},"]
            out += ["    }", ""]
    out[-1] = "}"
    out += ["", 'extern "C" {']
    for item in items:
        if item.kind == "function":
            out += rust_doc([first_sentence(item.comment)], 4) + [f"    pub fn {item.name}{rust_signature(item.type)};"]
    return "\n".join(out + ["}", ""])


# ---- Julia -----------------------------------------------------------------------------------------------------------

JULIA = {
    "uint8_t": "UInt8",
    "uint16_t": "UInt16",
    "uint32_t": "UInt32",
    "uint64_t": "UInt64",
    "int32_t": "Int32",
    "int64_t": "Int64",
    "size_t": "Csize_t",
    "float": "Float32",
    "double": "Float64",
    "char": "Cchar",
    "void": "Cvoid",
}


def julia_type(of, constants, pointers):
    if of.result or of.base in pointers:
        return "Ptr{Cvoid}"
    out, stars = JULIA.get(of.base, of.base), len(of.consts) - 1
    if of.base == "char" and stars:
        out, stars = "Cstring", stars - 1
    for _ in range(stars):
        out = f"Ptr{{{out}}}"
    for length in reversed(of.lengths):
        out = f"NTuple{{{constants.get(length, length)},{out}}}"
    return out


def julia_constant(name, kind, value):
    if kind == "void *":
        return [f"const {name} = Ptr{{Cvoid}}({value})"]
    kind = {"bzna_status": "Int32", "size_t": "Int"}.get(kind, JULIA.get(kind, kind))
    return [f"const {name} = {'typemax(UInt64)' if value == 'UINT64_MAX' else f'{kind}({value})'}"]


def julia(items, constants):
    out = [
        f"# header.jl - {NOTE}",
        "#",
        "# The structs and constants of benzina.h. A struct that a call takes or fills in is mutable, and has an empty",
        "# constructor, which leaves its members as they are: Benzina.sized makes one of zeros. Structs that lie in others,",
        "# or in arrays, are values: Benzina.changed makes one anew with some members changed.",
        "",
        "const bzna_status = Int32",
        "",
    ]
    structs = [item for item in items if item.kind == "struct"]
    pointers = {item.name for item in items if item.kind == "pointer"}
    values = {kind.base for item in structs for _, kind, _ in item.members if len(kind.consts) == 1} | set(ELEMENTS)
    for before, item in zip([items[0]] + items, items):
        out += [""] if item.kind == "define" and before.kind not in ("define", "opaque") else []
        if item.kind == "define":
            out += julia_constant(item.name, *define_value(item.name, item.value, constants))
        elif item.kind == "status":
            out += julia_constant(item.name, "bzna_status", item.value)
        elif item.kind == "enum":
            out += [""] * bool(item.comment) + remark(item.comment)
            for name, value, _ in item.members:
                out += julia_constant(name, enum_type(name), value)
    out.append("")
    out += [f"mutable struct {item.name} end" for item in items if item.kind == "opaque"]
    for item in structs:
        names = [name for name, _, _ in item.members]
        mutable = "struct_size" in names and item.name not in values
        out += ["", *remark(item.comment), f"{'mutable ' if mutable else ''}struct {item.name}"]
        out += [f"    {name}::{julia_type(kind, constants, pointers)}" for name, kind, _ in item.members]
        out += [f"    {item.name}() = new()", "end"] if mutable else ["end"]
    return "\n".join(out + [""])


# ---- Python ----------------------------------------------------------------------------------------------------------

PYTHON = {"uint8_t": "u8", "uint16_t": "u16", "uint32_t": "u32", "uint64_t": "u64", "int32_t": "i32", "int64_t": "i64",
          "size_t": "size", "float": "f32", "double": "f64", "char": "char", "bzna_status": "i32"}
# What calls fill in or read as bytes is given by its address alone.
PYTHON_BYTES = ("void", "char", "uint8_t")


def python_name(base):
    return PYTHON.get(base, base.replace("bzna_", ""))


def python_type(of, structs, as_argument):
    """A word of Python's tables: a number's or a struct's name; "str": a string of C; "ptr": an address; of arguments
    also "&x": a pointer to one x, or to several, and "out": where pointers go or stand."""
    stars = len(of.consts) - 1 + (len(of.lengths) if as_argument else 0)
    if not stars:
        return "void" if of.base == "void" else python_name(of.base)
    if of.base == "char" and of.consts == [True, False]:
        return "str"
    if not as_argument or of.base in PYTHON_BYTES and stars == 1 or of.base == "char":
        return "ptr"
    if stars == 2:
        return "out"
    return "&" + python_name(of.base) if of.base in PYTHON or of.base in structs else "ptr"


def python_pointer(of):
    """A pointer to a function, as the words of its result and arguments."""
    kinds = [of.result] + [kind for _, kind in of.parameters]
    return " ".join("ptr" if word[0] in "&o" else word for word in (python_type(kind, (), True) for kind in kinds))


def python_row(name, words, separator):
    """A row of a table, whose further lines are indented."""
    return textwrap.wrap(f"{name}: " + separator.join(words), 116, subsequent_indent="    ", break_long_words=False,
                         break_on_hyphens=False)


def python_struct(item, constants, pointers):
    """A struct's row: its members, those of one type after each other under one name of it."""
    groups = []
    for name, kind, _ in item.members:
        word = python_type(kind, (), False)
        if kind.result:
            word, signature = name + "_fn", python_pointer(kind)
            if pointers.setdefault(word, signature) != signature:
                word = item.name.split("_")[1] + "_" + word
                pointers[word] = signature
        sizes = "".join(f"[{constants.get(length, length)}]" for length in kind.lengths)
        if groups and groups[-1][0] == word:
            groups[-1][1].append(name + sizes)
        else:
            groups.append((word, [name + sizes]))
    return python_row(python_name(item.name), [f"{word} {', '.join(names)}" for word, names in groups], "; ")


def python_numbers(items, constants):
    """(name, value) of each constant that is a number, and neither a status nor part of the version."""
    for item in items:
        if item.kind == "define":
            kind, value = define_value(item.name, item.value, constants)
            if kind != "void *" and not item.name.startswith("BZNA_VERSION"):
                yield item.name[5:], value.replace("UINT64_MAX", "2**64 - 1")
        elif item.kind == "enum":
            yield from ((name[5:], value) for name, value, _ in item.members if enum_type(name) != "bzna_status")


def python_module(items, constants):
    """The numbers of the header."""
    numbers = list(python_numbers(items, constants))
    out = [f"# {NOTE}", '"""The numbers of benzina.h."""', "", "__all__ = ["]
    out += [f'    "{name}",' for name, _ in numbers] + ["]", ""]
    return "\n".join(out + [f"{name} = {value}" for name, value in numbers] + [""])


def python(items, constants):
    """Statuses, and what ctypes has to know of structs and functions, as tables that _c.py reads."""
    structs = {item.name for item in items if item.kind == "struct"}
    pointers = {python_name(item.name): python_pointer(item.type) for item in items if item.kind == "pointer"}
    rows = [line for item in items if item.kind == "struct" for line in python_struct(item, constants, pointers)]
    out = [f"# {NOTE}", '"""What benzina.h declares: _c.py makes structs and functions of ctypes of it."""', "import enum",
           "", "", "class Status(enum.IntEnum):",
           '    """What calls return, by the names of benzina.h. Below 0 are errors."""', ""]
    out += [f"    {item.name[5:]} = {item.value}" for item in items if item.kind == "status"]
    out += ["", "", "# Pointers to functions: the result, then the arguments.", 'POINTERS = """']
    out += [line for name, words in pointers.items() for line in python_row(name, words.split(), " ")]
    out += ['"""', "", "# Members, those of one type after each other.", 'STRUCTS = """', *rows, '"""', ""]
    out += ["# The result, then the arguments. &x: a pointer to one x or to several; out: where pointers go or stand.",
            'FUNCTIONS = """']
    for item in items:
        if item.kind == "function":
            words = [python_type(item.type.result, structs, True)]
            words += [python_type(kind, structs, True) for _, kind in item.type.parameters]
            out += python_row(python_name(item.name), words, " ")
    return "\n".join(out + ['"""', ""])


# ---- Any other language ----------------------------------------------------------------------------------------------

# Bytes of types; those of pointers and size_t are of 64-bit systems.
BYTES = {"uint8_t": 1, "char": 1, "uint16_t": 2, "uint32_t": 4, "int32_t": 4, "float": 4, "bzna_status": 4,
         "uint64_t": 8, "int64_t": 8, "double": 8, "size_t": 8}


def c_type(of):
    """A type as a reader of offsets.json needs it: "pointer", or the name of a number's or struct's type."""
    return "pointer" if of.result or len(of.consts) > 1 else of.base


def layout(of, structs, constants, pointers):
    """(bytes, alignment) of a member."""
    count = 1
    for length in of.lengths:
        count *= int(constants.get(length, length))
    kind = "pointer" if of.base in pointers else c_type(of)
    if kind in structs:
        return structs[kind]["size"] * count, structs[kind]["alignment"]
    size = 8 if kind == "pointer" else BYTES[kind]
    return size * count, size


def offsets(items, constants):
    """offsets.json: sizes and places of all structs and members, and all constants, for bindings in any language."""
    structs, numbers = {}, {}
    pointers = {item.name for item in items if item.kind == "pointer"}
    for item in items:
        if item.kind == "define" and not item.name.startswith("BZNA_VERSION"):
            value = define_value(item.name, item.value, constants)[1]
            numbers[item.name] = 2**64 - 1 if value == "UINT64_MAX" else int(value)
        elif item.kind == "status":
            numbers[item.name] = int(item.value)
        elif item.kind == "enum":
            numbers.update((name, int(value)) for name, value, _ in item.members)
        elif item.kind == "struct":
            end, alignment, members = 0, 1, {}
            for name, kind, _ in item.members:
                size, needs = layout(kind, structs, constants, pointers)
                offset = -(-end // needs) * needs
                end, alignment = offset + size, max(alignment, needs)
                members[name] = {"type": "pointer" if kind.base in pointers else c_type(kind), "offset": offset,
                                 "size": size}
            structs[item.name] = {"size": -(-end // alignment) * alignment, "alignment": alignment, "members": members}
    version = [constants[f"BZNA_VERSION_{part}"] for part in ("MAJOR", "MINOR", "PATCH")]
    document = {"about": NOTE + " Sizes and offsets are bytes on systems whose pointers and size_t have 64 bits.",
                "version": ".".join(version), "constants": numbers, "structs": structs}
    text = json.dumps(document, indent=1)
    return re.sub(r"\{\s+(\"type\": [^}]*?)\s+\}", lambda m: "{" + re.sub(r"\s+", " ", m[1]) + "}", text) + "\n"


def main(arguments):
    header, folder = Path(arguments[0]), Path(arguments[1])
    items, constants = parse_header(header.read_text(encoding="utf-8"))
    formats = parse_header((folder / "formats/formats.h").read_text(encoding="utf-8"))
    items += formats[0]
    constants.update(formats[1])
    for item in items:
        if item.kind == "define" and re.fullmatch(r"\d+", item.value):
            constants[item.name] = item.value
    table = settings.settings_of(header.with_name("benzina.c").read_text(encoding="utf-8"), items, constants)
    choices = settings.choices_of(items)
    made = {folder / "rust/src/raw.rs": rust(items, constants),
            folder / "rust/src/settings.rs": settings.rust(table, SETTINGS_NOTE, rust_type, rust_doc),
            folder / "julia/src/header.jl": julia(items, constants),
            folder / "julia/src/settings.jl": settings.julia(table, choices, SETTINGS_NOTE),
            folder / "offsets.json": offsets(items, constants),
            folder / "python/benzina/_keywords.py": settings.python(table, choices, SETTINGS_NOTE),
            folder / "python/benzina/_numbers.py": python_module(items, constants),
            folder / "python/benzina/_header.py": python(items, constants)}
    stale = [path for path, text in made.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if "--check" in arguments[2:]:
        for path in stale:
            print(f"{path} is not what `make bindings` makes of {header} and benzina.c")
        return bool(stale)
    for path in stale:
        path.write_text(made[path], encoding="utf-8")
        print(f"{path} written")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Fault as fault:
        sys.exit(f"bindings.py: cannot read this part of the header: {fault}")
    except settings.Fault as fault:
        sys.exit(f"bindings.py: cannot read the settings: {fault}")
