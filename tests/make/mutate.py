#!/usr/bin/env python3
"""Puts single faults into benzina.c and benzina_kernels.cu, or into the tool, and counts how many the tests notice.

    tests/make/mutate.py                                150 faults; the seed: the first 8 digits of HEAD's hash
    tests/make/mutate.py --list                         where faults could be, and which would be drawn
    tests/make/mutate.py --room boxes --count 40        of one room (a part of its banner's text)
    tests/make/mutate.py --functions bzi_box_list       of functions; --tests test_boxes: by some tests
    tests/make/mutate.py --seed 1f2e3d4c --only 17,80-89    some faults of a draw again
    tests/make/mutate.py --seed 1f2e3d4c,5b6a7988           two draws at once, each of --count faults
    tests/make/mutate.py --tool --room pack --count 40      of examples/bzna: a room is a file there

All faults are compiled at once, each behind a switch, `(bzi_mutant(17) ? a <= b : a < b)`, so that the tests are
built once. Every test is then run without a fault, to see which switches it reaches and how long it takes. Then, for
each fault, the tests that reach it are run with that fault on, quick ones first, until one fails: the fault is
noticed. What no test fails on has survived. (A test passes without the fault before and after that; a shell suite, which
takes minutes, only before.)

Only run-time code can have such switches. Left out: static tables, macros' bodies, case labels, array sizes, sizeof.
Calls that make a message are left out, too, unless --messages is given; their faults are then counted on a line of
their own. A test that fails without a fault is left out and named. Faults in the library are judged by
tests/unit/test_*.c alone, those in the tool by the shell suites of tests/tool that run bzna, each as one test. All is
run in a copy of the tree below build/, which is removed at the end. A run that was cut short goes on where it stopped
when it is started again with the same seed, count and --json FILE.
"""
import argparse
import atexit
import bisect
import collections
import concurrent.futures
import datetime
import glob
import json
import os
import queue
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIBRARY = ["benzina.c", "benzina_kernels.cu"]
TOOL = sorted(os.path.relpath(path, ROOT) for path in glob.glob(os.path.join(ROOT, "examples/bzna/*.c"))
              if os.path.basename(path) != "os_windows.c")
TOOL_PROGRAM = "build/bzna"
TOOL_NEEDS = ["build/draw_pictures", "build/decode_batch"]
TOOL_SUITE = re.compile(r"test_(?!stream|examples|packing)\w+\.sh$")
NOTES = os.path.join(ROOT, "tests", "make", "mutants.txt")     # where survivors are marked as equivalent

# What the tests need of the repository.
COPIED = ["Makefile", "benzina.h", "tests", "examples"] + LIBRARY

# Compares the PTX made from benzina_kernels.cu with its C side. A fault there would be in both; here it is in one.
BLIND_TO_KERNELS = {"test_ptx"}

# How often each kind is drawn. Shares, not counts of places, so that the many constants do not crowd out the rest.
KINDS = collections.OrderedDict([("compare", 3), ("logic", 2), ("plus-minus", 2), ("constant", 3), ("negate", 3),
                                 ("drop", 3), ("return", 2), ("bound", 1)])

SANITIZE = "-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer"

SWITCHES = r"""
#ifndef BZI_MUTATE_H
#define BZI_MUTATE_H
#ifndef _GNU_SOURCE
#  define _GNU_SOURCE
#endif
#ifndef _FILE_OFFSET_BITS
#  define _FILE_OFFSET_BITS 64
#endif
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
static int bzi_mutant_active = -1;
static volatile unsigned char *bzi_mutant_reached;  /* a byte a fault, in a file that processes and libraries share */
__attribute__((constructor, unused)) static void bzi_mutant_start(void)
{
    const char *active = getenv("BZI_MUTANT"), *reached = getenv("BZI_MUTANT_REACHED");
    int fd = reached ? open(reached, O_RDWR) : -1;
    void *map = fd < 0 ? MAP_FAILED : mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (active)
        bzi_mutant_active = atoi(active);
    if (map != MAP_FAILED)
        bzi_mutant_reached = map;
    if (fd >= 0)
        close(fd);
}
static inline __attribute__((always_inline, unused)) int bzi_mutant(int fault)
{
    if (bzi_mutant_reached)
        bzi_mutant_reached[fault] = 1;
    return fault == bzi_mutant_active;
}
#endif
"""
MAX_FAULTS = 65536


# ---- Reading C ----------------------------------------------------------------------------------------------------
# Enough of it for this project's code: a function that is not understood is named and left out.

TOKEN = re.compile(r"""
    (?P<gap>[ \t\r\n\f]+ | /\*.*?\*/ | //[^\n]*)
  | (?P<directive>(?m:^)[ \t]*\#(?:[^\n\\]|\\.)*)
  | (?P<string>(?:L|u8|u|U)?"(?:[^"\\\n]|\\.)*")
  | (?P<char>(?:L|u|U)?'(?:[^'\\\n]|\\.)*')
  | (?P<number>0[xX][0-9a-fA-F.]+(?:[pP][+-]?[0-9]+)?[uUlLfF]*
             | (?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[uUlLfF]*)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<mark>>>=|<<=|\.\.\.|->|\+\+|--|&&|\|\||[=!<>+\-*/%&|^]=|<<|>>|.)
""", re.X | re.S)

Token = collections.namedtuple("Token", "kind text start end region")
TYPE_WORDS = set("void char short int long float double signed unsigned struct union enum const volatile restrict "
                 "static extern inline register _Bool _Thread_local _Atomic _Alignas typedef".split())
WORDS = set("if else for while do switch case default return break continue goto sizeof _Alignof".split())
COMPARE = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
BINARY = {"||": 4, "&&": 5, "|": 6, "^": 7, "&": 8, "==": 9, "!=": 9, "<": 10, ">": 10, "<=": 10, ">=": 10,
          "<<": 11, ">>": 11, "+": 12, "-": 12, "*": 13, "/": 13, "%": 13}
ASSIGN = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}
STEP = {"++": "--", "--": "++", "+=": "-=", "-=": "+="}
CONSTANT = re.compile(r"[A-Z][A-Z0-9_]*[A-Z0-9]$")
MESSAGE = re.compile(r"(^|_)(fail|log|printf|snprintf|vsnprintf|fprintf|strerror|perror)(_|$)", re.I)


class NotUnderstood(Exception):
    pass


class Source:
    """A file: its tokens, where its rooms begin, and which #if each token stands in."""

    def __init__(self, name, text):
        self.name, self.text = name, text
        self.lines = [0] + [m.end() for m in re.finditer("\n", text)]
        self.regions = [0]                      # where each run of lines between two conditional directives begins
        self.tokens = []
        for m in TOKEN.finditer(text):
            if m.lastgroup == "directive":
                if re.match(r"\s*#\s*(if|ifdef|ifndef|else|elif|endif)\b", m.group()):
                    self.regions.append(m.end())
            elif m.lastgroup != "gap":
                self.tokens.append(Token(m.lastgroup, m.group(), m.start(), m.end(), len(self.regions) - 1))
        self.base = os.path.basename(name)      # as compilers' messages are searched for
        self.rooms = [(m.start(), m.group(1).strip()) for m in re.finditer(r"/\*\s*====+\s*(.*?)\s*====", text)]

    def line(self, at):
        return bisect.bisect_right(self.lines, at)

    def room(self, at):
        if not self.rooms:
            return self.name
        i = bisect.bisect_right([start for start, _ in self.rooms], at)
        return self.rooms[i - 1][1] if i else self.name

    def flat(self, first, end):
        """Tokens as text on one line, without comments."""
        out = ""
        for i in range(first, end):
            t = self.tokens[i]
            if i > first and t.start > self.tokens[i - 1].end:
                out += " "
            out += t.text
        return out


class Fault:
    """A change to one place: its text becomes alt (an expression), or is left out (alt None: a statement)."""

    def __init__(self, source, kind, first, end, alt, function, message):
        tokens = source.tokens
        self.source, self.kind, self.alt, self.function, self.message = source, kind, alt, function, message
        self.start, self.end = tokens[first].start, tokens[end - 1].end
        self.region = tokens[first].region
        self.outcome = self.by = self.how = ""
        self.seconds = 0.0
        self.broken = tokens[end - 1].region != self.region             # an #if in the midst of it
        self.line = source.line(self.start)
        self.room = source.room(self.start)
        line_start = source.lines[self.line - 1]
        line_end = source.text.find("\n", self.end)
        before = source.text[line_start:self.start].lstrip()
        after = re.sub(r"\s*/\*.*", "", source.text[self.end:line_end if line_end >= 0 else None], flags=re.S)
        was = source.flat(first, end)
        self.original = before + was + after
        self.changed = before + ("/* dropped */" if alt is None else alt) + after

    def key(self):
        return (self.source.name, self.start, self.end, self.kind, self.alt or "")


class Parser:
    """Finds the places of one source where a fault can be switched."""

    def __init__(self, source, types, printers, returners):
        self.s, self.t = source, source.tokens
        self.types, self.printers, self.returners = types, printers, returners
        self.faults, self.not_understood = [], []
        self.quiet = self.message = 0
        self.function = self.returns = ""
        self.i = 0

    # Tokens.

    def text(self, ahead=0):
        i = self.i + ahead
        return self.t[i].text if i < len(self.t) else ""

    def kind(self, ahead=0):
        i = self.i + ahead
        return self.t[i].kind if i < len(self.t) else ""

    def take(self, text):
        if self.text() != text:
            raise NotUnderstood("line %d: %r instead of %r" % (self.s.line(self.t[self.i].start), self.text(), text))
        self.i += 1

    def match(self, i):
        """The index past the bracket that closes the one at i."""
        depth = 0
        while i < len(self.t):
            depth += self.t[i].text in ("(", "[", "{")
            depth -= self.t[i].text in (")", "]", "}")
            i += 1
            if depth == 0:
                return i
        raise NotUnderstood("a bracket is not closed")

    def fault(self, kind, first, end, alt, message=False):
        if not self.quiet:
            f = Fault(self.s, kind, first, end, alt, self.function, bool(self.message or message))
            if not f.broken:
                self.faults.append(f)

    # The file.

    def run(self):
        self.i = head = 0
        while self.i < len(self.t):
            text = self.text()
            if text == ";":
                self.i += 1
                head = self.i
            elif text in ("(", "["):
                self.i = self.match(self.i)
            elif text == "{" and self.i > head and self.text(-1) == ")":
                end = self.match(self.i)
                self.body(head, end)
                self.i = head = end
            elif text == "{":
                self.i = self.match(self.i)
                if self.text() == "}":
                    head = self.i
            else:
                self.i += 1

    def body(self, head, end):
        opening, i = self.i, head
        name, returns = "", []
        while i < opening:                      # attributes and macros have arguments, too: the last name before "("
            t = self.t[i]
            if t.text == "(":
                name = self.t[i - 1].text if i > head else ""
                i = self.match(i)
                continue
            returns.append(t.text)
            i += 1
        returns = returns[:max([n for n, r in enumerate(returns) if r == name] or [0])]
        self.function = name
        self.returns = " ".join(r for r in returns if not CONSTANT.match(r) and r not in
                                ("static", "inline", "extern", "const", "__attribute__"))
        before = len(self.faults)
        try:
            self.quiet = self.message = 0
            self.block()
            if self.i != end:
                raise NotUnderstood("its end was not found")
        except (NotUnderstood, IndexError) as e:
            del self.faults[before:]
            self.not_understood.append("%s: %s: %s" % (self.s.name, name, e))

    # Statements.

    def block(self):
        self.take("{")
        while self.text() != "}":
            self.statement()
        self.take("}")

    def statement(self):
        text = self.text()
        if text == "{":
            self.block()
        elif text == ";":
            self.i += 1
        elif text in ("if", "while", "switch"):
            self.i += 1
            self.take("(")
            self.condition("negate" if text != "switch" else None, loop=text == "while")
            self.take(")")
            self.statement()
            if text == "if" and self.text() == "else":
                self.i += 1
                self.statement()
        elif text == "do":
            self.i += 1
            self.statement()
            self.take("while")
            self.take("(")
            self.condition("negate", loop=True)
            self.take(")")
            self.take(";")
        elif text == "for":
            self.for_loop()
        elif text == "return":
            self.i += 1
            if self.text() != ";":
                self.return_value()
            self.take(";")
        elif text in ("break", "continue", "goto"):
            self.past_semicolon()
        elif text in ("case", "default"):
            self.quiet += 1
            self.i += 1
            if text == "case":
                self.expression(3)
            self.take(":")
            self.quiet -= 1
        elif text in ("_Static_assert", "__asm__"):
            self.past_semicolon()
        elif self.kind() == "name" and self.text(1) == ":" and text not in WORDS:
            self.i += 2
        elif self.is_declaration():
            self.declaration()
        else:
            self.expression_statement()

    def past_semicolon(self):
        while self.text() != ";":
            if not self.text():
                raise NotUnderstood("a statement without its end")
            self.i += 1
        self.i += 1

    def expression_statement(self):
        first = self.i
        callee = self.t[first].text if self.text(1) == "(" else None
        top = self.expression(1)
        if self.text() != ";":                  # a macro that is a statement of its own
            if top == "call":
                return
            raise NotUnderstood("line %d: a statement without its end" % self.s.line(self.t[first].start))
        self.i += 1
        if top in ("call", "assign", "step") and callee not in self.returners:
            self.fault("drop", first, self.i, None, message=callee is not None and self.is_message_call(first))

    def for_loop(self):
        self.i += 1
        self.take("(")
        if self.text() == ";":
            self.i += 1
        elif self.is_declaration():
            self.declaration()
        else:
            self.expression(1)
            self.take(";")
        if self.text() != ";":
            self.condition(None, loop=True)
        self.take(";")
        if self.text() != ")":
            self.quiet += 1                     # a step that runs backwards only runs away
            self.expression(1)
            self.quiet -= 1
        self.take(")")
        self.statement()

    def condition(self, kind, loop=False, least=1):
        first = self.i
        self.bound = loop
        self.expression(least)
        self.bound = False
        if kind:
            self.fault(kind, first, self.i, "!(%s)" % self.s.flat(first, self.i))

    def return_value(self):
        first = self.i
        self.expression(1)
        text = self.s.flat(first, self.i)
        if self.i == first + 1 and self.t[first].kind in ("number", "string"):
            return                              # a constant is a place already
        if self.returns == "bzna_status":
            self.fault("return", first, self.i, "-1" if text == "BZNA_OK" else "(%s, BZNA_OK)" % text)
        elif self.returns == "int":
            self.fault("return", first, self.i, "!(%s)" % text)
        elif "*" in self.returns:
            if text != "NULL" and not self.has_string(first, self.i):
                self.fault("return", first, self.i, "(%s, NULL)" % text)
        elif re.match(r"(u?int\d+_t|size_t|float|double|unsigned( int)?|long)$", self.returns):
            self.fault("return", first, self.i, "(%s) + 1" % text)

    def is_type(self, text):
        return text in TYPE_WORDS or text in self.types or (text.endswith("_t") and text.islower())

    def is_declaration(self):
        text = self.text()
        if self.kind() != "name" or text in WORDS:
            return False
        if text in TYPE_WORDS or self.kind(1) == "name" or (self.is_type(text) and self.text(1) == "*"):
            return True
        return self.text(1) == "*" and self.kind(2) == "name" and self.text(3) in ("=", ";", ",", "[")

    def declaration(self):
        """Up to and with its semicolon. Array sizes, and the initializers of static objects, are left out."""
        static = False
        while self.text() != ";":
            text = self.text()
            if not text:
                raise NotUnderstood("a declaration without its end")
            static = static or text in ("static", "extern", "_Thread_local", "typedef")
            if text in ("(", "[", "{"):
                self.i = self.match(self.i)
            elif text == "=":
                self.i += 1
                self.quiet += static
                self.initializer()
                self.quiet -= static
            else:
                self.i += 1
        self.i += 1

    def initializer(self):
        if self.text() != "{":
            self.expression(2)
            return
        self.take("{")
        while self.text() != "}":
            while self.text() in (".", "["):
                if self.text() == ".":
                    self.i += 2
                else:
                    self.i = self.match(self.i)
            if self.text() == "=":
                self.i += 1
            self.initializer()
            if self.text() == ",":
                self.i += 1
        self.take("}")

    # Expressions. Each returns what stands at its top: "call", "assign", "step" or "".

    def expression(self, least):
        """Precedence climbing: 1 with commas, 2 an assignment, 3 a condition, then BINARY's levels."""
        first = self.i
        bound, self.bound = getattr(self, "bound", False), False
        top = self.unary()
        while True:
            op = self.text()
            if op in BINARY and BINARY[op] >= least:
                middle = self.i
                self.i += 1
                self.bound = bound and op == "&&"
                self.expression(BINARY[op] + 1)
                self.bound = False
                self.binary(op, first, middle, bound)
                top = ""
            elif op == "?" and least <= 3:
                self.ternary(first)
                top = ""
            elif op in ASSIGN and least <= 2:
                middle = self.i
                self.i += 1
                self.expression(2)
                if op in STEP:
                    left, right = self.s.flat(first, middle), self.s.flat(middle + 1, self.i)
                    self.fault("plus-minus", first, self.i, "%s %s %s" % (left, STEP[op], right))
                top = "assign"
            elif op == "," and least <= 1:
                self.i += 1
                self.expression(2)
                top = ""
            else:
                return top

    def binary(self, op, first, middle, bound):
        left, right = self.s.flat(first, middle), self.s.flat(middle + 1, self.i)
        if op in COMPARE:
            self.fault("compare", first, self.i, "%s %s %s" % (left, COMPARE[op], right))
            if bound and op in ("<", "<="):
                self.fault("bound", first, self.i, "%s + 1 %s %s" % (left, op, right))
        elif op in ("&&", "||"):
            self.fault("logic", first, self.i, ("((%s) || (%s))" if op == "&&" else "(%s) && (%s)") % (left, right))
        elif op in ("+", "-"):
            self.fault("plus-minus", first, self.i, "%s %s %s" % (left, "-" if op == "+" else "+", right))

    def ternary(self, first):
        middle = self.i
        self.i += 1
        start = self.i
        self.expression(1)
        self.take(":")
        self.expression(3)
        text_only = self.has_string(start, self.i)          # what is chosen is text
        self.fault("negate", first, middle, "!(%s)" % self.s.flat(first, middle), message=text_only)
        if text_only:
            begin, end = self.t[first].start, self.t[middle - 1].end
            for f in self.faults:
                f.message = f.message or (begin <= f.start and f.end <= end)

    def has_string(self, first, end):
        return any(self.t[i].kind == "string" for i in range(first, end))

    def is_message_call(self, i):
        """Does a call, whose name stands at i, take text for people?"""
        name = self.t[i].text
        if name in self.printers or MESSAGE.search(name):
            return True
        return any(t.kind == "string" and " " in t.text for t in self.t[i + 1:self.match(i + 1)])

    def is_cast(self):
        """At a "(": does a type stand in it?"""
        end = self.match(self.i)
        inner = self.t[self.i + 1:end - 1]
        if not inner or any(t.kind not in ("name", "number") and t.text not in "*[]()" for t in inner):
            return False
        if self.is_type(inner[0].text):
            return True
        if inner[0].kind != "name" or any(t.kind != "name" and t.text != "*" for t in inner):
            return False
        after = self.t[end]
        return inner[-1].text == "*" or after.kind in ("name", "number", "string", "char") or after.text == "{"

    def unary(self):
        text = self.text()
        if text in ("!", "~", "-", "+", "*", "&", "__extension__"):
            self.i += 1
            self.unary()
            return ""
        if text in ("++", "--"):
            first = self.i
            self.i += 1
            self.unary()
            self.fault("plus-minus", first, self.i, STEP[text] + self.s.flat(first + 1, self.i))
            return "step"
        if text in ("sizeof", "_Alignof"):
            self.quiet += 1
            self.i += 1
            if self.text() == "(" and self.is_cast():
                self.i = self.match(self.i)
            else:
                self.unary()
            self.quiet -= 1
            return ""
        if text == "(" and self.is_cast():
            void = self.text(1) == "void" and self.text(2) == ")"
            self.i = self.match(self.i)
            if self.text() == "{":
                self.initializer()
                return self.postfix(self.i - 1, "")
            top = self.unary()
            return "call" if void and top == "call" else ""
        return self.postfix(self.i, self.primary())

    def primary(self):
        first, t = self.i, self.t[self.i]
        self.i += 1
        if t.text == "(":
            self.bound = False
            top = self.expression(1)
            self.take(")")
            return ""
        if t.kind == "number":
            self.number(first, t.text)
        elif t.kind == "char":
            self.fault("constant", first, self.i, "(%s + 1)" % t.text)
        elif t.kind == "string":
            while self.kind() in ("string", "name"):
                self.i += 1
        elif t.kind == "name" and t.text not in WORDS:
            if CONSTANT.match(t.text) and self.text() != "(" and t.text not in ("NULL", "BZNA_OK"):
                self.fault("constant", first, self.i, "(%s + 1)" % t.text)
        else:
            raise NotUnderstood("line %d: %r" % (self.s.line(t.start), t.text))
        return ""

    def number(self, i, text):
        m = re.match(r"([0-9]+)([uUlL]*)$", text)
        if m:
            value = int(m.group(1))
            self.fault("constant", i, i + 1, "%d%s" % (value + 1, m.group(2)))
            if value:
                self.fault("constant", i, i + 1, "%d%s" % (value - 1, m.group(2)))
        else:
            self.fault("constant", i, i + 1, "(%s + 1)" % text)
            self.fault("constant", i, i + 1, "(%s - 1)" % text)

    def postfix(self, first, top):
        while True:
            text = self.text()
            if text == "[":
                self.i += 1
                self.expression(1)
                self.take("]")
                top = ""
            elif text in (".", "->"):
                self.i += 2
                top = ""
            elif text in ("++", "--"):
                self.i += 1
                self.fault("plus-minus", first, self.i, self.s.flat(first, self.i - 1) + STEP[text])
                top = "step"
            elif text == "(":
                self.call()
                top = "call"
            else:
                return top

    def call(self):
        name = self.i - 1
        if self.t[name].text in ("va_arg", "offsetof", "__builtin_offsetof", "_Generic"):
            self.i = self.match(self.i)
            return
        message = self.t[name].kind == "name" and self.is_message_call(name)
        self.message += message
        self.take("(")
        while self.text() != ")":
            self.expression(2)
            if self.text() == ",":
                self.i += 1
        self.take(")")
        self.message -= message


def read(tree, name):
    with open(os.path.join(tree, name), encoding="utf-8") as f:
        return f.read()


def read_sources(tree, names):
    sources = [Source(name, read(tree, name)) for name in names]
    headers = ["benzina.h"] + (["examples/stream/stream.h", "examples/bzna/tool.h", "examples/bzna/os.h"]
                               if names is TOOL else [])
    every = "".join([read(tree, name) for name in headers] + [s.text for s in sources])
    types = set(re.findall(r"\}\s*(\w+)\s*;", every)) | set(re.findall(r"\btypedef\b[^;{]*?\b(\w+)\s*;", every))
    types |= set(re.findall(r"\btypedef\b[^;{(]*?\(\s*\*\s*(\w+)\s*\)", every))
    types |= set(re.findall(r"\btypedef\b[^;{]*?\b(\w+)\s*\([^;]*\)\s*;", every))
    printers = set(re.findall(r"\b\w*PRINTF\([^)\n]*\)\s*(?:\w+[\s*]+)*?(\w+)\s*\(", every))
    returners = set()
    for m in re.finditer(r"^[ \t]*#[ \t]*define[ \t]+(\w+)\(((?:[^\n\\]|\\.)*)", every, re.M | re.S):
        if re.search(r"\breturn\b", m.group(2)):
            returners.add(m.group(1))
    faults, not_understood = [], []
    for source in sources:
        parser = Parser(source, types, printers, returners)
        parser.run()
        faults += parser.faults
        not_understood += parser.not_understood
    return sources, faults, not_understood


# ---- The tree with every fault in it --------------------------------------------------------------------------------

def instrument(source, faults):
    """The source with faults behind their switches; each line stays where it is."""
    faults = sorted(faults, key=lambda f: (f.start, -f.end, f.number))
    out, stack, at = [], [], 0

    def up_to(end):
        nonlocal at
        while stack and stack[-1][0] <= end:
            stop, tail = stack.pop()
            out.append(source.text[at:stop])
            out.append(tail)
            at = stop
        out.append(source.text[at:end])
        at = end

    for f in faults:
        up_to(f.start)
        if f.alt is None:
            out.append("{ if (!bzi_mutant(%d)) " % f.number)
            stack.append((f.end, " }"))
        else:
            out.append("(bzi_mutant(%d) ? (%s) : (" % (f.number, f.alt))
            stack.append((f.end, "))"))
    up_to(len(source.text))
    return "".join(out)


RUNNING = set()                                            # process groups


def cut_short(folder):
    """For signals: leaves nothing behind."""
    for group in list(RUNNING):
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            pass
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


class Tree:
    """A copy of what the tests need. names: the sources that get faults."""

    def __init__(self, folder, names, sanitize):
        self.path = os.path.join(folder, "tree")
        self.names_of_sources, self.sanitize = names, sanitize
        os.makedirs(self.path)
        for name in COPIED:
            whence, where = os.path.join(ROOT, name), os.path.join(self.path, name)
            if os.path.isdir(whence):
                shutil.copytree(whence, where, symlinks=True, ignore=shutil.ignore_patterns("target", "__pycache__"))
            else:
                shutil.copy2(whence, where)
        os.makedirs(os.path.join(self.path, "build", "tests"))
        header = os.path.join(self.path, "build", "mutate.h")
        with open(header, "w") as f:
            f.write(SWITCHES)
        self.make_options = ["BUILD=build", "WARN=-w", "CC=cc -w -include " + shlex.quote(header)]
        if sanitize or names is TOOL:
            self.make_options.append("OPT=-O1")             # compiling takes longer than what this costs
        if sanitize:
            self.make_options.append("SANITIZE=" + sanitize)
        self.call(["make", "-s", "BUILD=build", "build/benzina_kernels.ptx.h"], check=False)    # without faults
        if names is TOOL:
            suites = os.listdir(os.path.join(self.path, "tests", "tool"))
            self.tests = sorted(filter(TOOL_SUITE.match, suites))
            self.flags = self.compiler_flags(TOOL_PROGRAM)
        else:
            suites = os.listdir(os.path.join(self.path, "tests", "unit"))
            self.tests = sorted(n[:-2] for n in suites if re.match(r"test_\w+\.c$", n))
            self.flags = self.compiler_flags("build/tests/" + self.tests[0])
            self.write("build/check.c", '#include "../benzina.c"\n')

    def call(self, command, check=True):
        process = subprocess.Popen(command, cwd=self.path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        RUNNING.add(process.pid)
        text = process.communicate()[0].decode("utf-8", "replace")
        RUNNING.discard(process.pid)
        if check and process.returncode:
            sys.exit("%s:\n%s" % (" ".join(command), text[-4000:]))
        return process.returncode, text

    def units(self):
        """What a compiler is given to see all of the sources."""
        return TOOL if self.names_of_sources is TOOL else ["build/check.c"]

    def compiler_flags(self, target):
        text = self.call(["make", "-n", "-B"] + self.make_options + [target])[1]
        for line in text.replace("\\\n", " ").splitlines():
            words = shlex.split(line) if " -o " + target + " " in line else []
            if words:
                return [w for w in words[:words.index("-o")] if w != "-DTEST_LINKED"]      # so it includes the library
        sys.exit("make -n does not say how %s is compiled" % target)

    def write(self, name, text):
        with open(os.path.join(self.path, name), "w", encoding="utf-8") as f:
            f.write(text)

    def compiled_regions(self, sources):
        """Of each source, which of the pieces between #if, #else and #endif the tests compile."""
        for source in sources:
            stem, ends = source.base.split(".")[0], source.regions[1:] + [len(source.text)]
            pieces = [source.text[a:b] for a, b in zip(source.regions, ends)]
            marked = ["\nbzi_region %s %d;%s" % (stem, n, p) if n else p for n, p in enumerate(pieces)]
            self.write(source.name, "".join(marked))
        text = "".join(self.call(self.flags + ["-E", "-P", unit])[1] for unit in self.units())
        seen = {(name, int(n)) for name, n in re.findall(r"\bbzi_region\s+(\w+)\s+(\d+)\s*;", text)}
        for source in sources:
            self.write(source.name, source.text)
        return lambda f: f.region == 0 or (f.source.base.split(".")[0], f.region) in seen

    def put(self, sources, faults):
        for n, f in enumerate(faults):
            f.number = n
        for source in sources:
            self.write(source.name, instrument(source, [f for f in faults if f.source is source]))

    def refused(self, sources, faults):
        """Faults in lines that do not compile."""
        self.put(sources, faults)
        code, text = self.call(self.flags + ["-fsyntax-only", "-fmax-errors=0"] + self.units(), check=False)
        if code == 0:
            return []
        lines = {(m.group(1), int(m.group(2))) for m in re.finditer(r"(\w+\.\w+):(\d+):\d+: (?:fatal )?error", text)}
        bad = [f for f in faults
               if any(name == f.source.base and f.line <= n <= f.source.line(f.end) for name, n in lines)]
        if not bad:
            sys.exit("the instrumented sources do not compile:\n" + text[:4000])
        return bad

    def build(self, wanted, jobs):
        ptx = os.path.join(self.path, "build")
        for name in ("benzina_kernels.ptx", "benzina_kernels.ptx.h"):
            if os.path.exists(os.path.join(ptx, name)):
                os.utime(os.path.join(ptx, name))           # newer than the kernel that has faults in it
        if self.names_of_sources is TOOL:
            self.call(["make", "-s", "-j%d" % jobs] + self.make_options + [TOOL_PROGRAM] + TOOL_NEEDS)
            return wanted
        targets = ["build/tests/" + t for t in wanted]
        text = self.call(["make", "-s", "-k", "-j%d" % jobs] + self.make_options + targets, check=False)[1]
        built = [t for t in wanted if os.access(os.path.join(self.path, "build", "tests", t), os.X_OK)]
        for t in wanted:
            if t not in built:
                print("left out: %s does not build\n%s" % (t, text[-2000:]))
        return built

    def names(self, test):
        """The tests in a binary, in their order; RUN(...) after the preprocessor. A shell suite is one test."""
        if test.endswith(".sh"):
            return [""]
        text = self.call(self.flags + ["-E", "-P", "tests/unit/%s.c" % test])[1]
        return list(collections.OrderedDict.fromkeys(re.findall(r'\btest_run\s*\(\s*"(\w+)"', text)))


# ---- Running --------------------------------------------------------------------------------------------------------

class Test:
    def __init__(self, binary, name):
        self.binary, self.name, self.seconds, self.reached = binary, name, 0.0, set()

    def __str__(self):
        return "%s %s" % (self.binary, self.name)


class Memory:
    """What tests reach without a fault, kept beside --json FILE for the next run of the same faults."""

    def __init__(self, path, faults):
        self.path, self.faults, self.found = path and path + ".survey", [list(f.key()) for f in faults], {}
        if self.path and os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as f:
                kept = json.load(f)
            if kept["faults"] == self.faults:
                self.found = kept["tests"]

    def recall(self, test):
        return self.found.get(str(test))

    def keep(self, test, found):
        self.found[str(test)] = found
        if self.path:
            with open(self.path + ".new", "w", encoding="utf-8") as f:
                json.dump({"faults": self.faults, "tests": self.found}, f)
            os.replace(self.path + ".new", self.path)


class Outcome:
    """How a run of some tests of one binary ended: how is "" when all is well."""

    def __init__(self, how, failed, seconds, output):
        self.how, self.failed, self.seconds, self.output = how, failed, seconds, output


def read_bytes(path):
    with open(path, "rb") as f:
        return f.read(1 << 20)


def processor_seconds(session):
    """What the processes of a session have used, with the children that they have waited for."""
    ticks = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % pid) as f:
                stat = f.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(stat[3]) == session:
            ticks += sum(map(int, stat[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


class Runner:
    def __init__(self, tree, jobs, memory_gib):
        self.tree, self.memory = tree, memory_gib
        self.folders = queue.Queue()
        for n in range(jobs):
            self.folders.put(self.folder(n))

    def folder(self, n):
        """Where a job's tests run: they write below build/, so that each job has one of its own."""
        path = os.path.join(self.tree.path, "build", "job%d" % n)
        os.makedirs(os.path.join(path, "build", "tests"))
        for name in COPIED:
            os.symlink(os.path.join(self.tree.path, name), os.path.join(path, name))
        for name in ("tests/fake", "benzina_kernels.ptx.h", "bzna", "draw_pictures", "decode_batch"):
            whence = os.path.join(self.tree.path, "build", name)
            if os.path.exists(whence):
                os.symlink(whence, os.path.join(path, "build", name))
        return path

    def run(self, tests, fault=None, reached=None, limit=600.0):
        """Some tests of one binary, in a process group of their own; memory, processor time and files are bounded."""
        folder = self.folders.get()
        try:
            env = dict(os.environ, CUDA_VISIBLE_DEVICES="", TMPDIR=os.path.join(folder, "build"))
            env["LSAN_OPTIONS"] = "suppressions=%s/tests/make/lsan.supp:print_suppressions=0" % self.tree.path
            env.pop("BZI_MUTANT", None)
            if fault is not None:
                env["BZI_MUTANT"] = str(fault)
            if reached:
                env["BZI_MUTANT_REACHED"] = reached
            bounds = "ulimit -c 0; ulimit -f %d; ulimit -t %d; " % (16 << 21, int(limit * 4) + 10)
            if not self.tree.sanitize:
                bounds += "ulimit -v %d; " % (self.memory << 20)
            binary = tests[0].binary
            command = (["sh", "tests/tool/" + binary, TOOL_PROGRAM, "build"] if binary.endswith(".sh") else
                       [os.path.join(self.tree.path, "build", "tests", binary)] + [t.name for t in tests])
            log = os.path.join(folder, "log.txt")
            began = time.monotonic()
            with open(log, "wb") as out:
                process = subprocess.Popen(["sh", "-c", bounds + 'exec "$@"', "sh"] + command, cwd=folder, env=env,
                                           stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                           start_new_session=True)
                RUNNING.add(process.pid)
                try:
                    code = self.wait(process, limit, log if binary.endswith(".sh") else None)
                    code, how = (-1, "time-out") if code is None else (code, "")
                finally:
                    try:
                        os.killpg(process.pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                    process.wait()
                    RUNNING.discard(process.pid)
            seconds = time.monotonic() - began
            output = read_bytes(log).decode("utf-8", "replace")
            failed = re.findall(r"^FAIL (\w+)", output, re.M)
            if not how and code < 0:
                how = signal.Signals(-code).name
            elif not how and code:
                how = "failed" if failed else "exit status %d" % code
            return Outcome(how, failed, seconds, output)
        finally:
            self.folders.put(folder)

    @staticmethod
    def wait(process, limit, log=None):
        """Its exit status. None when it used more processor time than the limit, or none at all for as long: so a
        machine that has much else to do does not count as a fault. Ten times the limit on the clock is the end.
        log: of a shell suite, which is over with its first failure."""
        began = moved = time.monotonic()
        used, step = -1.0, 0.05
        while True:
            try:
                return process.wait(timeout=step)
            except subprocess.TimeoutExpired:
                now, step = time.monotonic(), min(0.5, step * 2)
            if log and re.search(rb"^FAIL ", read_bytes(log), re.M):
                return 1
            was, used = used, processor_seconds(process.pid)
            if used != was:
                moved = now
            if used > limit or now - moved > limit or now - began > 10 * limit:
                return None

    def survey(self, tests, faults, memory):
        """Runs each test once without a fault: how long it takes, and what it reaches. Returns those that pass.
        memory: what an earlier run of the same draw found, which is not run again."""
        good, skipped = [], 0
        reached = os.path.join(self.tree.path, "build", "reached")
        for test in tests:
            found = memory.recall(test)
            if found is None:
                with open(reached, "wb") as f:
                    f.truncate(MAX_FAULTS)
                outcome = self.run([test], reached=reached)
                with open(reached, "rb") as f:
                    numbers_reached = [n for n, byte in enumerate(f.read(len(faults))) if byte]
                found = {"how": outcome.how, "seconds": outcome.seconds, "reached": numbers_reached,
                         "skipped": len(re.findall("^SKIP ", outcome.output, re.M)),
                         "last": "\n".join(outcome.output.splitlines()[-6:]) if outcome.how else ""}
                memory.keep(test, found)
            test.seconds, test.reached = found["seconds"], set(found["reached"])
            skipped += found["skipped"]
            if found["how"]:
                print("left out: %s: %s without a fault\n%s" % (test, found["how"], found["last"]), flush=True)
            elif test.reached:
                good.append(test)
        return good, skipped

    def batches(self, tests):
        """Tests that one process runs: quick ones together, up to a second. In the order in which they are tried."""
        groups, open_group = [], {}
        for test in sorted(tests, key=lambda t: t.seconds):
            group = open_group.get(test.binary)
            if group is None or sum(t.seconds for t in group) + test.seconds > 1.0:
                group = open_group[test.binary] = []
                groups.append(group)
            group.append(test)
        return sorted(groups, key=lambda g: sum(t.seconds for t in g))

    def judge(self, fault, tests):
        """Tries the tests that reach a fault until some notice it: fail with it, pass without, fail with it again."""
        began = time.monotonic()
        reaching = [t for t in tests if fault.number in t.reached]
        if fault.source.name == LIBRARY[1]:
            reaching = [t for t in reaching if t.binary not in BLIND_TO_KERNELS]
        last = "survived" if reaching else "not reached"
        for group in self.batches(reaching):
            limit = max(10.0, 10 * sum(t.seconds for t in group)) * (3 if self.tree.sanitize else 1)
            outcome = self.run(group, fault.number, limit=limit)
            if not outcome.how:
                continue
            suspects = [t for t in group if t.name in outcome.failed] or group
            again = self.run(suspects, fault.number, limit=limit)
            shell = group[0].binary.endswith(".sh")         # takes minutes without the fault: it passed in the survey
            if not again.how or (not shell and self.run(suspects, limit=limit).how):
                print("unsteady, and not counted: %s" % ", ".join(map(str, suspects)), flush=True)
                continue
            last, fault.how = "noticed", outcome.how
            known = len(suspects) == 1 or outcome.failed
            fault.by = str(suspects[0]) if known else "%s (one of %d)" % (group[0].binary, len(group))
            break
        fault.outcome, fault.seconds = last, time.monotonic() - began


# ---- Drawing, telling -----------------------------------------------------------------------------------------------

def draws(faults, seed):
    """All faults in the seed's order: a kind by its share, then any place of that kind."""
    rng = random.Random(seed)
    pools = collections.OrderedDict((k, [f for f in faults if f.kind == k]) for k in KINDS)
    while any(pools.values()):
        kinds = [k for k in KINDS if pools[k]]
        kind = rng.choices(kinds, [KINDS[k] for k in kinds])[0]
        pool = pools[kind]
        n = rng.randrange(len(pool))
        pool[n], pool[-1] = pool[-1], pool[n]
        yield pool.pop()


def draw(tree, sources, faults, seeds, count):
    """The faults of one draw; of several, each that any of them has, once."""
    chosen = {}
    for seed in seeds.split(","):
        order = draws(faults, seed)
        drawn = [f for f, _ in zip(order, range(count))]
        while True:
            bad = tree.refused(sources, drawn)
            if not bad:
                break
            drawn = [f for f in drawn if f not in bad]
            drawn += [f for f, _ in zip(order, range(len(bad)))]
        chosen.update((f.key(), f) for f in drawn)
    chosen = sorted(chosen.values(), key=Fault.key)
    tree.put(sources, chosen)
    return chosen


def marked_equivalent():
    """Lines of mutants.txt: - `function`: `original` -> `changed` equivalent: why"""
    marks = {}
    if os.path.exists(NOTES):
        with open(NOTES, encoding="utf-8") as f:
            for m in re.finditer(r"^- `(\w+)`: `(.+?)` -> `(.+?)` equivalent: (.+)$", f.read(), re.M):
                marks[m.group(1), m.group(2), m.group(3)] = m.group(4)
    return marks


def numbers(text):
    wanted = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        wanted |= set(range(int(first), int(last or first) + 1))
    return wanted


def table(faults):
    rows = collections.OrderedDict()
    for f in faults:
        rows.setdefault("messages" if f.message else f.room, []).append(f)
    if "messages" in rows:
        rows.move_to_end("messages")
    lines = ["| room | faults | noticed | survived | not reached | equivalent | score |", "|---" * 7 + "|"]
    outside = [f for f in faults if not f.message]

    def row(name, some):
        count = collections.Counter(f.outcome for f in some)
        judged = len(some) - count["equivalent"]
        lines.append("| %s | %d | %d | %d | %d | %d | %s |" % (
            name, len(some), count["noticed"], count["survived"], count["not reached"], count["equivalent"],
            "%.0f %%" % (100.0 * count["noticed"] / judged) if judged else "-"))

    for name, some in rows.items():
        row(name, some)
    row("**all outside messages**" if len(outside) < len(faults) else "**all**", outside)
    return "\n".join(lines)


def describe(f):
    return "%s:%d %s [%s]\n    - %s\n    + %s" % (f.source.name, f.line, f.function, f.kind, f.original, f.changed)


def as_json(f):
    return {"number": f.number, "file": f.source.name, "line": f.line, "function": f.function, "room": f.room,
            "kind": f.kind, "message": f.message, "original": f.original, "changed": f.changed, "outcome": f.outcome,
            "by": f.by, "how": f.how, "seconds": round(f.seconds, 2)}


def head_commit():
    try:
        command = ["git", "-C", ROOT, "rev-parse", "HEAD"]
        return subprocess.check_output(command, stderr=subprocess.DEVNULL).decode().strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--count", type=int, default=150, help="faults to draw (150)")
    p.add_argument(
        "--seed",
        help="any text; otherwise the first 8 digits of HEAD's hash; commas between several draws that are "
        "judged together",
    )
    p.add_argument("--room", help="only rooms whose banner has this text, in any case; commas between several")
    p.add_argument("--functions", help="only these functions, commas between them")
    p.add_argument("--messages", action="store_true", help="faults in calls that make a message, too; counted apart")
    p.add_argument("--only", help="run these of the faults drawn: numbers and ranges")
    p.add_argument("--tool", action="store_true", help="faults in examples/bzna, judged by its shell suites")
    p.add_argument("--tests", help="run only these binaries, or shell suites, commas between them")
    p.add_argument("--list", action="store_true", help="say where faults could be and which are drawn; run nothing")
    p.add_argument("--jobs", type=int, default=1, help="faults at a time (1)")
    p.add_argument("--asan", action="store_true", help="with ASan and UBSan: slower; notices reads past the end, leaks")
    p.add_argument("--memory", type=int, default=6, help="GiB of address space for a test, but for --asan (6)")
    p.add_argument("--json", help="keep outcomes in this file; what it has of this draw is not run again")
    return p.parse_args()


def choose(options, tree):
    sources, faults, not_understood = read_sources(tree.path, tree.names_of_sources)
    for text in not_understood:
        print("left out: " + text)
    faults = list(filter(tree.compiled_regions(sources), faults))
    if not options.messages:
        faults = [f for f in faults if not f.message]
    if options.room:
        rooms = options.room.lower().split(",")
        faults = [f for f in faults if any(r.strip() in f.room.lower() for r in rooms)]
    if options.functions:
        faults = [f for f in faults if f.function in options.functions.split(",")]
    faults.sort(key=Fault.key)
    if not faults:
        sys.exit("no such place")
    return faults, draw(tree, sources, faults, options.seed, min(options.count, MAX_FAULTS))


def list_places(faults, chosen):
    places = collections.OrderedDict()
    for f in sorted(faults, key=Fault.key):
        places.setdefault(f.room, collections.Counter())[f.kind] += 1
    for room, kinds in places.items():
        kinds_text = ", ".join("%d %s" % (n, k) for k, n in kinds.most_common())
        print("%-40s %5d: %s" % (room, sum(kinds.values()), kinds_text))
    for f in chosen:
        print("%d %s" % (f.number, describe(f)))


def recall(options, chosen):
    """Takes the outcomes that an earlier run of the same draw kept."""
    known = {}
    if options.json and os.path.exists(options.json):
        with open(options.json, encoding="utf-8") as f:
            known = {(r["number"], r["line"], r["original"], r["changed"]): r for r in json.load(f)["faults"]}
    for f in chosen:
        r = known.get((f.number, f.line, f.original, f.changed))
        if r:
            f.outcome, f.by, f.how, f.seconds = r["outcome"], r["by"], r["how"], r["seconds"]


def keep(options, chosen):
    if options.json:
        with open(options.json + ".new", "w", encoding="utf-8") as f:
            done = [as_json(x) for x in chosen if x.outcome]
            head = {"seed": options.seed, "commit": head_commit(), "asan": options.asan}
            json.dump(dict(head, faults=done), f, indent=1)
        os.replace(options.json + ".new", options.json)


def judge_all(options, runner, tests, chosen, todo):
    lock = threading.Lock()

    def one(f):
        runner.judge(f, tests)
        with lock:
            keep(options, chosen)
        print("%3d %-11s %s:%d %s [%s] %s (%.1f s)" % (f.number, f.outcome, f.source.name, f.line, f.function, f.kind,
                                                       f.by + (f.how and ": " + f.how), f.seconds), flush=True)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(one, todo))
    marks = marked_equivalent()
    for f in chosen:
        why = marks.get((f.function, f.original, f.changed))
        if why and f.outcome != "noticed":
            f.outcome, f.how = "equivalent", why


def main():
    options = arguments()
    began = time.monotonic()
    options.seed = options.seed or head_commit()[:8] or sys.exit("no commit to take a seed from: give --seed")
    os.nice(10)
    os.makedirs(os.path.join(ROOT, "build"), exist_ok=True)
    folder = tempfile.mkdtemp(prefix="mutate.", dir=os.path.join(ROOT, "build"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: cut_short(folder))
    tree = Tree(folder, TOOL if options.tool else LIBRARY, SANITIZE if options.asan else "")
    faults, chosen = choose(options, tree)
    if options.list:
        list_places(faults, chosen)
        return 0
    recall(options, chosen)
    only = numbers(options.only) if options.only else set(range(len(chosen)))
    done = [f for f in chosen if f.number in only]
    todo = [f for f in done if not f.outcome]
    wanted = [t for t in tree.tests if not options.tests or t in options.tests.split(",")]
    built = tree.build(wanted, options.jobs) if todo else []
    print("%d faults of %d places, %d binaries built after %.0f s" % (
        len(chosen), len(faults), len(built), time.monotonic() - began), flush=True)
    runner = Runner(tree, options.jobs, options.memory)
    every = [Test(b, name) for b in built for name in tree.names(b)]
    tests, skipped = runner.survey(every, chosen, Memory(options.json, chosen))
    print("%d tests in %.0f s, of which %d pass and reach a fault; %d skipped when run alone; surveyed after %.0f s" % (
        len(every), sum(t.seconds for t in every), len(tests), skipped, time.monotonic() - began), flush=True)
    judge_all(options, runner, tests, chosen, todo)
    left = [f for f in done if f.outcome in ("survived", "not reached")]
    print("\nWhat nobody noticed:" if left else "\nEverything was noticed.")
    for f in left:
        print("%d %s: %s" % (f.number, f.outcome, describe(f)))
    command = " ".join(["tests/make/mutate.py"] + [shlex.quote(a) for a in sys.argv[1:]])
    noticed = [f.how for f in done if f.outcome == "noticed"]
    crashes = sum(how.startswith("SIG") for how in noticed)
    print("\n%d noticed by a time-out, %d by a crash." % (noticed.count("time-out"), crashes))
    print("Seed %s, commit %s, %s, %.0f minutes: %s\n\n%s" % (
        options.seed, head_commit()[:12] or "none", datetime.date.today(), (time.monotonic() - began) / 60, command,
        table(done)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
