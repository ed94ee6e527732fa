#!/bin/sh
# Builds and runs the tests; prints what fails or is skipped, and "N passed, N failed, N skipped" last. In the environment:
# BUILD: where things are built. TEST: only suites whose names have that in them. TEST_ALL=1: what is long, too.
# $BUILD/tests/times.txt has what each suite took: seconds on the clock, seconds of processors, its name.
BUILD=${BUILD:-build}
passed=0; failed=0; skipped=0; left=
mkdir -p "$BUILD/tests"
log="$BUILD/tests/log.txt"; : > "$log"
: > "$BUILD/tests/times.txt"

# These repeat what others test, in another way. Suites say of parts of theirs "LEFT what".
LONG="test_loader_nvdec test_training_device"

export TEST_ALL LSAN_OPTIONS="suppressions=$PWD/tests/lsan.supp:print_suppressions=0" TSAN_OPTIONS="suppressions=$PWD/tests/tsan.supp:print_suppressions=0"
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
    left="$left$(sed -n 's/^LEFT /; /p' "$1" | tr -d '\n')"
    if [ "$f" -gt 0 ] || [ "$2" -ne 0 ]; then grep -vE '^(FAIL|SKIP|LEFT)' "$1" | tail -n 40; fi
    if [ "$2" -ne 0 ] && [ "$f" -eq 0 ]; then echo "FAIL $3: exit status $2"; failed=$((failed + 1)); fi
}
moment() { times > "$BUILD/tests/times"; clock=$(date +%s); processors=$(awk 'END { gsub(/[ms]/, " "); print $1 * 60 + $2 + $3 * 60 + $4 }' "$BUILD/tests/times"); }
run() { # name, command...
    name=$1; shift
    moment; before="$clock $processors"
    "$@" > "$log" 2>&1; count "$log" $? "$name"
    moment; echo "$before $clock $processors $name" | awk '{ printf "%6d %8.1f %s\n", $3 - $1, $4 - $2, $5 }' >> "$BUILD/tests/times.txt"
}

# The suites are of the CPU, but for those that bring a driver of their own, which does not look at this.
export CUDA_VISIBLE_DEVICES=

# Suites that are wanted: a name of a binary, or of a script.
suites=
for source in tests/test_*.c tests/test_*.sh; do
    name=$(basename "$source" .c)
    case "$name" in *"$TEST"*) ;; *) continue ;; esac
    case " $LONG " in *" $name "*) if [ -z "$TEST$TEST_ALL" ]; then left="$left; $name"; continue; fi ;; esac
    suites="$suites $name"
done
if [ -z "$suites" ]; then echo "FAIL TEST=$TEST: no suite has that in its name"; failed=1; fi

# All at once; what does not build is said below, one by one.
binaries=
for name in $suites; do case $name in *.sh) ;; *) binaries="$binaries $BUILD/tests/$name" ;; esac; done
# shellcheck disable=SC2086
[ -z "$binaries" ] || make --no-print-directory -s -k -j "$(getconf _NPROCESSORS_ONLN)" $binaries > "$log" 2>&1

for name in $suites; do
    case $name in
    test_build.sh) if [ -n "$SANITIZE" ]; then echo "SKIP $name: compilers are not what a sanitizer watches"; skipped=$((skipped + 1)); continue; fi ;;
    *.sh) ;;
    *) if ! make --no-print-directory -s "$BUILD/tests/$name" > "$log" 2>&1; then
           echo "FAIL $name: does not build"; tail -n 20 "$log"; failed=$((failed + 1)); continue
       fi
       run "$name" "$BUILD/tests/$name"; continue ;;
    esac
    run "$name" sh "tests/$name" "$BUILD/bzna" "$BUILD"
done
[ -z "$left" ] || echo "left to make test-all: ${left#; }"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
