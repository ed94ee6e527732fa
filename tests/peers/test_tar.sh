#!/bin/sh
# test_tar.sh - tars as others write and read them: Python's tarfile, webdataset
#
#     sh tests/peers/test_tar.sh build/bzna build        from the repository's root
#
# The second argument is the folder that holds libbenzina.so; PYTHON names another interpreter. Without webdataset, what
# needs it is skipped. Prints FAIL and SKIP lines, and a count last.
bzna=${1:?usage: sh tests/peers/test_tar.sh build/bzna build}
build=${2:?usage: sh tests/peers/test_tar.sh build/bzna build}
python=${PYTHON:-python3}

skip_all() {
    echo "SKIP tests/peers/test_tar.sh: $1"
    echo "tests/peers/test_tar.sh: 0 passed, 0 failed, 1 skipped"
    exit 0
}
if [ -n "$SANITIZE" ]; then skip_all "the interpreter is not built with a sanitizer"; fi
if ! "$python" -c 'import ctypes, sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null; then
    skip_all "there is no $python of version 3.8 or later with ctypes [python3]"
fi
# webdataset may be installed for another interpreter than numpy is.
for candidate in "$python" python3; do
    if "$candidate" -c 'import webdataset' 2>/dev/null; then python=$candidate; break; fi
done
BENZINA_LIBRARY=$(cd "$build" && pwd)/libbenzina.so exec "$python" -X faulthandler tests/peers/test_tar.py "$bzna"
