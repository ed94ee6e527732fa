#!/bin/sh
# Builds and runs every test; prints what fails or is skipped, and "N passed, N failed, N skipped" last. BUILD: where things are built.
BUILD=${BUILD:-build}
passed=0; failed=0; skipped=0
mkdir -p "$BUILD/tests"
log="$BUILD/tests/log.txt"; : > "$log"

export LSAN_OPTIONS="suppressions=$PWD/tests/lsan.supp:print_suppressions=0" TSAN_OPTIONS="suppressions=$PWD/tests/tsan.supp:print_suppressions=0"
# A python3 with numpy, if there is one.
if [ -z "$PYTHON" ]; then
    for PYTHON in python3 /usr/bin/python3; do "$PYTHON" -c 'import numpy' 2>/dev/null && break; PYTHON=python3; done
fi
export PYTHON

count() { # output, exit status, name: adds up its closing line
    line=$(grep -E '[0-9]+ passed, [0-9]+ failed' "$1" | tail -n 1)
    if [ -z "$line" ]; then
        echo "FAIL $3: ended with status $2 and without a closing line"; tail -n 20 "$1"; failed=$((failed + 1)); return
    fi
    p=$(echo "$line" | sed 's/.* \([0-9]*\) passed.*/\1/'); f=$(echo "$line" | sed 's/.* \([0-9]*\) failed.*/\1/')
    s=$(echo "$line" | sed -n 's/.* \([0-9]*\) skipped.*/\1/p')
    if [ $((p + f + ${s:-0})) -eq 0 ]; then echo "FAIL $3: it ran nothing"; f=1; fi
    passed=$((passed + p)); failed=$((failed + f)); skipped=$((skipped + ${s:-0}))
    grep -E '^(FAIL|SKIP)' "$1"
    if [ "$f" -gt 0 ] || [ "$2" -ne 0 ]; then grep -vE '^(FAIL|SKIP)' "$1" | tail -n 40; fi
    if [ "$2" -ne 0 ] && [ "$f" -eq 0 ]; then echo "FAIL $3: exit status $2"; failed=$((failed + 1)); fi
}

# The suites are of the CPU, but for those that bring a driver of their own, which does not look at this.
export CUDA_VISIBLE_DEVICES=

# All at once; what does not build is said below, one by one.
make --no-print-directory -s -k -j "$(getconf _NPROCESSORS_ONLN)" $(for source in tests/test_*.c; do echo "$BUILD/tests/$(basename "$source" .c)"; done) > "$log" 2>&1

for source in tests/test_*.c; do
    name=$(basename "$source" .c)
    if ! make --no-print-directory -s "$BUILD/tests/$name" > "$log" 2>&1; then
        echo "FAIL $name: does not build"; tail -n 20 "$log"; failed=$((failed + 1)); continue
    fi
    "$BUILD/tests/$name" > "$log" 2>&1; count "$log" $? "$name"
done
for script in tests/test_*.sh; do
    if [ "$script" = tests/test_build.sh ] && [ -n "$SANITIZE" ]; then echo "SKIP $script: compilers are not what a sanitizer watches"; skipped=$((skipped + 1)); continue; fi
    sh "$script" "$BUILD/bzna" "$BUILD" > "$log" 2>&1; count "$log" $? "$(basename "$script")"
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
