#!/bin/sh
# test_stream.sh - streams from outside: build/stream on shards of other programs
#
#     sh tests/tool/test_stream.sh build/bzna build        from the repository's root
#
# test_stream.py does it. Prints FAIL and SKIP lines, and a count last.
build=${2:?usage: sh tests/tool/test_stream.sh build/bzna build}
python=${PYTHON:-python3}
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
    echo "SKIP tests/tool/test_stream.sh: there is no $python of version 3.9 or later [python3]"
    echo "tests/tool/test_stream.sh: 0 passed, 0 failed, 1 skipped"; exit 0
fi
exec "$python" tests/tool/test_stream.py "$build"
