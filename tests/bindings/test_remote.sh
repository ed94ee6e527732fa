#!/bin/sh
# test_remote.sh - data sets that are elsewhere: web servers, S3 and other file systems of fsspec
#
#     sh tests/bindings/test_remote.sh build/bzna build        from the repository's root
#
# test_remote.py does it, with a web server of its own; PYTHON names another interpreter. Without fsspec, s3fs, gcsfs
# and moto, what needs them is skipped. Prints FAIL and SKIP lines, and a count last.
bzna=${1:?usage: sh tests/bindings/test_remote.sh build/bzna build}
build=${2:?usage: sh tests/bindings/test_remote.sh build/bzna build}
python=${PYTHON:-python3}

skip_all() {
    echo "SKIP tests/bindings/test_remote.sh: $1"
    echo "tests/bindings/test_remote.sh: 0 passed, 0 failed, 1 skipped"
    exit 0
}

if [ -n "$SANITIZE" ]; then skip_all "the interpreter is not built with a sanitizer"; fi
if ! "$python" -c 'import ctypes, sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null; then
    skip_all "there is no $python of version 3.8 or later with ctypes [python3]"
fi
BENZINA_LIBRARY=$(cd "$build" && pwd)/libbenzina.so exec "$python" -X faulthandler tests/bindings/test_remote.py "$bzna"
