#!/bin/sh
# A sample of the 20,000 fixed single-byte corruptions (make fuzz does them all): every 4th, under a sanitizer every 50th. Also every file
# that ever went wrong, from tests/data/crashers.
BUILD=${2:-build}
passed=0; failed=0
step=4; [ -z "$SANITIZE" ] || step=50
mkdir -p "$BUILD/tests"
# shellcheck disable=SC2086
${CC:-cc} -std=c11 -O2 -g -I. ${SANITIZE:-} $(pkg-config --cflags libavcodec libavutil) -o "$BUILD/tests/fuzz_archive" tests/fuzz_archive.c \
    $(pkg-config --libs libavcodec libavutil) -lm -lpthread || { echo "tests/test_fuzz.sh: 0 passed, 1 failed, 0 skipped"; exit 1; }
run() { # name, arguments...
    name=$1; shift
    if "$BUILD/tests/fuzz_archive" "$@" > "$BUILD/tests/fuzz_$name.log" 2>&1; then return 0; fi
    echo "FAIL $name"; tail -n 20 "$BUILD/tests/fuzz_$name.log"; return 1
}
run corruptions_of_h265_do_no_harm corrupt tests/data/mini_h265.bzna 0 10000 $step & first=$!
if run corruptions_of_h264_do_no_harm corrupt tests/data/mini_h264.bzna 0 10000 $step; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
if wait $first; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
if run files_that_once_went_wrong replay tests/data/*.bzna $(ls tests/data/crashers/* 2>/dev/null); then passed=$((passed + 1)); else failed=$((failed + 1)); fi
echo "tests/test_fuzz.sh: $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
