#!/usr/bin/env python3
"""Static analysis of the library and the tool: gcc -fanalyzer, clang-tidy with a stated list, cppcheck.

Usage, by make analyze from the repository's root:
    analyze.py [--quick] COMPILER-FLAGS...      --quick: only cppcheck, over the tool

tests/make/analysis.txt lists what is known not to be a fault, each with its reason. Anything else fails, and so does a
line of the list that no tool reports any more. A program that is not installed is skipped.
"""
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

REASONS = Path("tests/make/analysis.txt")
LIBRARY = "benzina.c"
TOOL = sorted(str(path) for folder in ("bzna", "formats") for path in Path("examples", folder).glob("*.c")
              if path.name != "os_windows.c")

# What clang-tidy looks for. Left out are checks of style, and those that this code breaks on purpose everywhere:
# neighboring parameters of one type, !strcmp(), products of small numbers that widen, macros whose parameters are
# names, addresses that travel as integers, recursion (bounded by BZI_LIMIT_...), snprintf and fclose whose result
# tells nothing, assertions of size.
TIDY = """clang-analyzer-* -clang-analyzer-security.insecureAPI.DeprecatedOrUnsafeBufferHandling
    -clang-analyzer-optin.performance.Padding
    bugprone-* -bugprone-easily-swappable-parameters -bugprone-suspicious-string-compare
    -bugprone-implicit-widening-of-multiplication-result -bugprone-macro-parentheses -bugprone-reserved-identifier
    -bugprone-sizeof-expression -bugprone-narrowing-conversions -bugprone-branch-clone
    -bugprone-assignment-in-if-condition
    misc-* -misc-no-recursion portability-* cert-* -cert-err33-c -cert-dcl37-c -cert-dcl51-cpp -cert-err34-c"""


def functions_of(path):
    """The name of the function around each line."""
    names, current = [None], "-"
    for line in Path(path).read_text().split("\n"):
        head = re.match(r"(?:[A-Za-z_].*?[ *])([A-Za-z_]\w*)\(", line)
        if head and not line.startswith(("#", "typedef", "_Static")) and not line.rstrip().endswith(";"):
            current = head.group(1)
        names.append(current)
    return names


def findings_of(text, tool):
    """(file, line, check, message) of each warning that a tool printed."""
    for match in re.finditer(r"^([\w./-]+\.(?:c|h|cu)):(\d+):(?:\d+:)? (?:warning|error|portability|performance|style): "
                             r"(.*) \[([^][]*)\]$", text, re.M):
        path, line, message, check = match.groups()
        if not path.startswith("/usr/"):
            yield path, int(line), check.split(",")[0], message


def reasons():
    """(tool, check, function) -> reason"""
    found = {}
    for line in REASONS.read_text().split("\n"):
        if line.strip() and not line.startswith("#"):
            key, reason = line.split(": ", 1)
            found[tuple(key.split())] = reason
    return found


def commands(flags):
    """(name, command) of each run"""
    tidy = ["clang-tidy", "--quiet", "-checks=-*," + ",".join(TIDY.split())]
    gcc = ["gcc", "-fanalyzer", "-O1", "-c", "-o", "/dev/null"]
    check = ["cppcheck", "-q", "--enable=warning,portability,performance", "--std=c11", "--inline-suppr",
             "--suppress=missingIncludeSystem", "--template={file}:{line}: {severity}: {message} [{id}]",
             "-DBENZINA_NO_CUDA", "-DBENZINA_NO_JPEG", "-DBENZINA_NO_AVCODEC",
             "-DO_CLOEXEC=1", "-DDT_REG=8"]          # it reads no system headers; without these, benzina.c is refused
    includes = [flag for flag in flags if flag.startswith(("-I", "-D"))]
    yield "clang-tidy", [*tidy, LIBRARY, "--", *flags]
    # gcc would follow each pattern of the writer (BZI_OUT) letter by letter, for five minutes: the two others read that
    yield "gcc", [*gcc, *flags, "-DBENZINA_NO_WRITER", LIBRARY]
    yield "cppcheck", [*check, LIBRARY]
    yield "cppcheck", [*check, *includes, *TOOL]
    for source in TOOL:                         # clang-tidy believes a va_list unset if it is given several files
        yield "clang-tidy", [*tidy, source, "--", *flags]
        yield "gcc", [*gcc, *flags, source]


def run(job):
    """(name, what it printed), or None if it is not installed"""
    name, command = job
    if not shutil.which(command[0]):
        return name, None
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return name, result.stdout + result.stderr


def main():
    quick = sys.argv[1:2] == ["--quick"]
    flags = sys.argv[2 if quick else 1:]
    jobs = [job for job in commands(flags) if not quick or (job[0] == "cppcheck" and LIBRARY not in job[1])]
    known, used, counts = reasons(), set(), {}
    # read now, since the tools take minutes, in which the files may change
    names = {path: functions_of(path) for path in [LIBRARY, "benzina_kernels.cu", *TOOL]}
    with ThreadPoolExecutor(2) as pool:
        for name, text in pool.map(run, jobs):
            if text is None:
                counts[name] = None
                continue
            counts.setdefault(name, set())
            for path, line, check, message in findings_of(text, name):
                path = path.removeprefix(str(Path.cwd()) + "/")
                key = (name, check, (names.get(path) or functions_of(path))[line])
                if key in known:
                    used.add(key)
                else:
                    counts[name].add(f"{path}:{line}: {key[2]}: {message} [{check}]")
    failed = 0
    for name, found in counts.items():
        stale = [] if found is None or quick else [key for key in known if key[0] == name and key not in used]
        if found is None:
            print(f"SKIP analysis by {name}: it is not installed [{name}]")
            continue
        for line in sorted(found):
            print(f"{name}: {line}")
        for key in stale:
            print(f"{name}: {REASONS}: nothing is reported of {key[2]} [{key[1]}] any more")
        print(f"{'FAIL' if found or stale else 'ok'} analysis by {name}: {len(found)} findings without a reason, "
              f"{sum(key[0] == name for key in used)} with one")
        failed += bool(found or stale)
    skipped = sum(found is None for found in counts.values())
    print(f"tests/make/analyze.py: {len(counts) - failed - skipped} passed, {failed} failed, {skipped} skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
