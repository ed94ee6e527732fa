#!/bin/sh
# test_filters.sh - filters and crops beside PIL, OpenCV, PyTorch and torchvision, on the same pictures
#
#     sh tests/peers/test_filters.sh build/bzna build        from the repository's root
#
# The second argument is the folder that holds libbenzina.so; PYTHON names another interpreter. What is not installed is
# skipped. Prints FAIL and SKIP lines, and a count last.
build=${2:?usage: sh tests/peers/test_filters.sh build/bzna build}
python=${PYTHON:-python3}

skip_all() {
    echo "SKIP tests/peers/test_filters.sh: $1"
    echo "tests/peers/test_filters.sh: 0 passed, 0 failed, 1 skipped"
    exit 0
}
if [ -n "$SANITIZE" ]; then skip_all "the interpreter is not built with a sanitizer"; fi
# PIL may be installed for another interpreter than numpy alone is.
for candidate in "$python" python3 /usr/bin/python3; do
    if "$candidate" -c 'import numpy, PIL' 2>/dev/null; then python=$candidate; break; fi
done
if ! "$python" -c 'import ctypes, numpy, sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null; then
    skip_all "there is no $python of version 3.8 or later with ctypes and numpy [python3-numpy]"
fi
BENZINA_LIBRARY=$(cd "$build" && pwd)/libbenzina.so exec "$python" -X faulthandler tests/peers/test_filters.py
