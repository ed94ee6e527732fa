#!/bin/sh
# test_alone.sh - each test of a C suite in a process of its own: what a test needs, no other one has made ready
#
#     sh tests/unit/test_alone.sh build/bzna build [SUITES]      from the repository's root
#
# Without SUITES: test_pictures; with TEST_ALL, all that are built but those whose tests are about the whole run.
build=${2:?usage: sh tests/unit/test_alone.sh build/bzna build [SUITES]}
shift 2
passed=0; failed=0; skipped=0
if [ -n "$SANITIZE" ]; then
    echo "SKIP alone: the order of tests is no matter of a sanitizer"
    echo "tests/unit/test_alone.sh: 0 passed, 0 failed, 1 skipped"
    exit 0
fi
suites=$*
if [ -z "$suites" ]; then
    suites=test_pictures
    if [ -n "$TEST_ALL" ]; then
        suites=
        for file in tests/unit/test_*.c; do suites="$suites $(basename -s .c "$file")"; done
    else
        echo "LEFT each test alone, but for test_pictures"
    fi
fi
log="$build/tests/alone.log"
for suite in $suites; do
    case $suite in test_ptx) continue ;; esac               # which counts what its tests have executed together
    [ -x "$build/tests/$suite" ] || continue
    "$build/tests/$suite" --alone > "$log" 2>&1
    line=$(grep -E '[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)
    f=$(echo "$line" | sed -n 's/.* \([0-9]*\) failed.*/\1/p')
    p=$(echo "$line" | sed -n 's/.* \([0-9]*\) passed.*/\1/p')
    # What is skipped alone is skipped in the suite, too, where it is counted.
    passed=$((passed + ${p:-0})); failed=$((failed + ${f:-1}))
    [ "${f:-1}" -eq 0 ] || { echo "FAIL $suite: a test that fails alone"; grep -B 6 '^FAIL' "$log" | tail -n 40; }
done
# What `--alone` says of tests that pass, that need another one before them, that end the process, and that are skipped.
cat > "$build/tests/alone.c" <<'C'
#include <stdlib.h>
#include "test.h"
static int ready;
TEST(makes_ready) { ready = 1; CHECK(ready); }
TEST(needs_it) { CHECK(ready); }
TEST(aborts) { abort(); }
TEST(is_skipped) { SKIP("no reason"); }
TEST_MAIN(RUN(makes_ready) RUN(needs_it) RUN(aborts) RUN(is_skipped))
C
if "${CC:-cc}" -std=c11 -Itests/unit -DTEST_BUILD="\"$build\"" -o "$build/tests/alone" "$build/tests/alone.c" -lm > "$log" 2>&1
then "$build/tests/alone" --alone > "$log" 2>&1; fi
if grep -q ': 1 passed, 2 failed, 1 skipped' "$log" && grep -q '^FAIL needs_it' "$log" && grep -q '^FAIL aborts' "$log"
then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL failures_alone_are_counted"; cat "$log"; fi
echo "tests/unit/test_alone.sh: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
