#!/bin/sh
# test_python.sh - the Python binding and its example
#
#     sh tests/bindings/test_python.sh build/bzna build        from the repository's root
#
# The second argument is the folder that holds libbenzina.so; PYTHON names another interpreter. Without numpy, what
# needs it is skipped. Prints FAIL and SKIP lines, and a count last.
bzna=${1:?usage: sh tests/bindings/test_python.sh build/bzna build}
build=${2:?usage: sh tests/bindings/test_python.sh build/bzna build}
python=${PYTHON:-python3}

skip_all() {
    echo "SKIP tests/bindings/test_python.sh: $1"
    echo "tests/bindings/test_python.sh: 0 passed, 0 failed, 1 skipped"
    exit 0
}
fail_all() { echo "FAIL $1"; echo "tests/bindings/test_python.sh: 0 passed, 1 failed, 0 skipped"; exit 1; }

if [ -n "$SANITIZE" ]; then skip_all "the interpreter is not built with a sanitizer"; fi
if ! command -v "$python" >/dev/null 2>&1; then skip_all "$python is not installed [python3]"; fi
if ! "$python" -c 'import ctypes, sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null; then
    skip_all "$python is older than 3.8, or has no ctypes [python3]"
fi
if [ ! -e "$build/libbenzina.so" ]; then fail_all "$build/libbenzina.so is not there"; fi

# Prints what a program of tests says, and adds its counts.
passed=0; failed=0; skipped=0
run_tests() {
    status=0
    BENZINA_LIBRARY=$library "$python" -X faulthandler "$1" "$bzna" >"$out" 2>&1 || status=$?
    sed '$ { /^tests\/bindings\/test_python.sh: /d; }' "$out"
    counts=$(sed -n '$ s/^tests\/bindings\/test_python.sh: \([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p' "$out")
    if [ -z "$counts" ]; then echo "FAIL $1 ended with status $status"; counts="0 1 0"; fi
    set -- $counts
    passed=$((passed + $1)); failed=$((failed + $2)); skipped=$((skipped + $3))
}

library=$(cd "$build" && pwd)/libbenzina.so
out=$(mktemp "${TMPDIR:-/tmp}/test_python.XXXXXX") || exit 1
trap 'rm -f "$out"' EXIT
trap 'exit 1' HUP INT TERM
run_tests tests/bindings/test_python.py
run_tests tests/bindings/test_python_loops.py
run_tests tests/bindings/test_python_interfaces.py
run_tests tests/bindings/test_python_days.py
run_tests tests/bindings/test_augment.py
run_tests tests/bindings/test_python_data.py
echo "tests/bindings/test_python.sh: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
