#!/bin/sh
# make analyze as a suite: see analyze.py. Without TEST_ALL only cppcheck over the tool, since the rest takes minutes.
BUILD=${2:-build}
if [ -n "$SANITIZE" ]; then
    echo "SKIP static analysis: a sanitizer does not watch it"
    echo "tests/make/test_analysis.sh: 0 passed, 0 failed, 1 skipped"
    exit 0
fi
[ -n "$TEST_ALL" ] || echo "LEFT gcc -fanalyzer and clang-tidy, and cppcheck over the library"
make --no-print-directory -s BUILD="$BUILD" ANALYZE="$([ -n "$TEST_ALL" ] || echo --quick)" analyze
