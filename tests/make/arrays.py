"""Checks the rule of benzina.h's chapter 3 about arrays: a pointer `xs` has its count `x_count` right after it, or `ptr`
has `count`. Counts of samples, batches and files, and those of groups, are uint64_t, and all others are uint32_t.
    python3 tests/make/arrays.py benzina.h
"""
import re
import sys

WIDE = ("count", "index_count", "size_count", "file_count")

text = re.sub(r"/\*.*?\*/", "", open(sys.argv[1]).read(), flags=re.S)
lists = [(name, body.split(";")) for body, name in re.findall(r"typedef struct \w+ \{(.*?)\} (\w+);", text, re.S)]
lists += [(name, body.split(",")) for name, body in re.findall(r"^BZNA_API [^;]*?(\w+)\(([^;]*)\);", text, re.S | re.M)]
found = wrong = 0
for where, members in lists:
    members = [" ".join(member.split()) for member in members]
    for i, member in enumerate(members):
        count = re.fullmatch(r"(\w+) (\w+)_count|(\w+) count", member)
        if not count:
            continue
        noun = count[2] or "ptr"
        names = [noun if noun in ("ptr", "made") else noun[:-1] + "ies" if noun.endswith("y") else
                 "indices" if noun == "index" else noun + "es" if noun.endswith("s") else noun + "s"]
        arrays = [k for k, other in enumerate(members) if "*" in other and re.split(r"[ *]", other)[-1] in names]
        if not arrays:
            continue
        found += 1
        kind = "uint64_t" if member.split()[1] in WIDE else "uint32_t"
        if arrays != [i - 1] or member.split()[0] != kind:
            wrong += 1
            print(f"{where}: {member} must be {kind}, right after {members[arrays[0]]}")
sys.exit(wrong > 0 or found < 15)
