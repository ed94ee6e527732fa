#!/bin/sh
# test_recordio.sh - RecordIO files of a second writer, in Python, through the library: tests/peers/recordio.py
#
#     sh tests/peers/test_recordio.sh build/bzna build      from the repository's root
#
# The second argument is the folder that holds libbenzina.so; PYTHON names another interpreter. Prints FAIL and SKIP
# lines, and a count last.
bzna=${1:?usage: sh tests/peers/test_recordio.sh build/bzna build}
build=${2:?usage: sh tests/peers/test_recordio.sh build/bzna build}
python=${PYTHON:-python3}

skip_all() {
    echo "SKIP tests/peers/test_recordio.sh: $1"
    echo "tests/peers/test_recordio.sh: 0 passed, 0 failed, 1 skipped"
    exit 0
}
fail_all() { echo "FAIL $1"; echo "tests/peers/test_recordio.sh: 0 passed, 1 failed, 0 skipped"; exit 1; }

if [ -n "$SANITIZE" ]; then skip_all "the interpreter is not built with a sanitizer"; fi
if ! "$python" -c 'import ctypes, random; random.Random(1).randbytes(1)' 2>/dev/null; then
    skip_all "$python is not there, older than 3.9, or has no ctypes [python3]"
fi
if [ ! -e "$build/libbenzina.so" ]; then fail_all "$build/libbenzina.so is not there"; fi
[ -e "$bzna" ] || bzna=
mkdir -p "$build/tests/recordio"
status=0
BENZINA_LIBRARY=$(cd "$build" && pwd)/libbenzina.so "$python" -X faulthandler tests/peers/recordio.py \
    "$build/tests/recordio" $bzna > "$build/tests/recordio/log.txt" 2>&1 || status=$?
cat "$build/tests/recordio/log.txt"
if ! tail -n 1 "$build/tests/recordio/log.txt" | grep -q '^tests/peers/test_recordio.sh: [0-9]* passed'; then
    fail_all "tests/peers/recordio.py ended with status $status"
fi
exit $status
