#!/bin/sh
# Builds and runs the tests; prints what fails or is skipped, and "N passed, N failed, N skipped" last.
#
# In the environment: BUILD: where things are built. PRODUCTS: goals of make that are built beside the suites' binaries.
# TEST: only suites whose names have one of these words in them.
# TEST_ALL=1: what is long, too. $BUILD/tests/times.txt has what each suite took: seconds on the clock, seconds of
# processors, its name.
BUILD=${BUILD:-build}
passed=0; failed=0; skipped=0; left=
products=$PRODUCTS
unset PRODUCTS                     # suites that start this program build nothing
mkdir -p "$BUILD/tests"
log="$BUILD/tests/log.txt"; : > "$log"
: > "$BUILD/tests/times.txt"

# These repeat what others test, in another way; make analyze does more than test_analysis.sh. Suites say of parts of
# theirs "LEFT what".
LONG="test_loader_nvdec test_training_device test_variants.sh test_analysis.sh"
# Those that look at a clock, or count what threads do meanwhile, never run beside one another: TIMED one after the
# other, and at their side the rest, one for each processor and one more, since many wait; FIRST what takes longest.
TIMED="test_sessions test_loader_nvdec test_loader_device test_training_nvdec test_training_device test_loader
    test_training test_contract test_driver test_outputs_device test_outputs_nvdec test_outputs test_files test_records
    test_records_device test_host test_sampler test_fake.sh"
TIMED=$(echo $TIMED)                # one line, so that each name stands between spaces
FIRST="test_build.sh test_tool.sh test_pack.sh test_gpu.sh test_python.sh test_examples.sh test_resume.sh test_dist.sh
    test_matrix.sh test_rust.sh test_packages.sh test_fuzz.sh test_faults.sh test_ptx test_remote.sh test_decode test_stream.sh
    test_assemble.sh test_races test_julia.sh test_power.sh test_inputs.sh"

export TEST_ALL
# A make that suites call has its own jobs, and nothing to say of those of make -j test.
MAKEFLAGS=$(printf '%s' "$MAKEFLAGS" | sed -E 's/(^| )(-j[0-9]*|--jobserver-[a-z]*=[^ ]*)//g')
export LSAN_OPTIONS="suppressions=$PWD/tests/make/lsan.supp:print_suppressions=0"
export TSAN_OPTIONS="suppressions=$PWD/tests/make/tsan.supp:print_suppressions=0"
# A python3 with numpy, if there is one.
if [ -z "$PYTHON" ]; then
    for PYTHON in python3 /usr/bin/python3; do "$PYTHON" -c 'import numpy' 2>/dev/null && break; PYTHON=python3; done
fi
export PYTHON

count() { # name: adds up the closing line of its output
    out="$BUILD/tests/$1.out"; status=$(cat "$BUILD/tests/$1.status")
    line=$(grep -E '[0-9]+ passed, [0-9]+ failed' "$out" | tail -n 1)
    if [ -z "$line" ]; then
        echo "FAIL $1: ended with status $status and without a closing line"
        tail -n 20 "$out"; failed=$((failed + 1)); return
    fi
    p=$(echo "$line" | sed 's/.* \([0-9]*\) passed.*/\1/'); f=$(echo "$line" | sed 's/.* \([0-9]*\) failed.*/\1/')
    s=$(echo "$line" | sed -n 's/.* \([0-9]*\) skipped.*/\1/p')
    if [ $((p + f + ${s:-0})) -eq 0 ]; then echo "FAIL $1: it ran nothing"; f=1; fi
    passed=$((passed + p)); failed=$((failed + f)); skipped=$((skipped + ${s:-0}))
    grep -E '^(FAIL|SKIP)' "$out"
    left="$left$(sed -n 's/^LEFT /; /p' "$out" | tr -d '\n')"
    if [ "$f" -gt 0 ] || [ "$status" -ne 0 ]; then grep -vE '^(FAIL|SKIP|LEFT)' "$out" | tail -n 40; fi
    if [ "$status" -ne 0 ] && [ "$f" -eq 0 ]; then echo "FAIL $1: exit status $status"; failed=$((failed + 1)); fi
}
moment() { # name: times are of this shell's children, so that no subshell may ask
    times > "$BUILD/tests/$1.times"; clock=$(date +%s)
    processors=$(awk 'END { gsub(/[ms]/, " "); print $1 * 60 + $2 + $3 * 60 + $4 }' "$BUILD/tests/$1.times")
}
run() { # name: its output and its exit status go to files of its name
    moment "$1"; before="$clock $processors"
    case $1 in
    *.sh) sh tests/*/"$1" "$BUILD/bzna" "$BUILD" > "$BUILD/tests/$1.out" 2>&1 ;;
    *)    "$BUILD/tests/$1" > "$BUILD/tests/$1.out" 2>&1 ;;
    esac
    echo $? > "$BUILD/tests/$1.status"
    moment "$1"
    echo "$before $clock $processors $1" |
        awk '{ printf "%6d %8.1f %s\n", $3 - $1, $4 - $2, $5 }' >> "$BUILD/tests/times.txt"
}

# The suites are of the CPU, but for those that bring a driver of their own, which does not look at this.
export CUDA_VISIBLE_DEVICES=

# Suites that are wanted: a name of a binary, or of a script.
wanted() { # name: whether TEST names it
    [ -n "$TEST" ] || return 0
    for word in $TEST; do case "$1" in *"$word"*) return 0 ;; esac; done
    return 1
}
timed=; rest=
for word in $TEST; do
    if ! basename -s .c tests/*/test_*.c tests/*/test_*.sh | grep -qF -e "$word"; then
        echo "FAIL TEST=$word: no suite has that in its name"; failed=$((failed + 1))
    fi
done
for name in $TIMED $FIRST $(basename -s .c tests/*/test_*.c tests/*/test_*.sh); do
    wanted "$name" || continue
    case " $timed $rest " in *" $name "*) continue ;; esac
    case " $LONG " in *" $name "*) if [ -z "$TEST$TEST_ALL" ]; then left="$left; $name"; continue; fi ;; esac
    case " $TIMED " in *" $name "*) timed="$timed $name" ;; *) rest="$rest $name" ;; esac
done

# A sanitizer does not watch compilers.
case "${SANITIZE:+sanitized} $rest " in "sanitized "*" test_build.sh "*)
    echo "SKIP test_build.sh: compilers are not what a sanitizer watches"
    skipped=$((skipped + 1)); rest=$(echo "$rest " | sed 's/ test_build.sh / /')
esac

# All at once; what does not build is said one by one.
binaries=
for name in $timed $rest; do case $name in *.sh) ;; *) binaries="$binaries $BUILD/tests/$name" ;; esac; done
cores=$(getconf _NPROCESSORS_ONLN)
# shellcheck disable=SC2086
if [ -n "$products$binaries" ] && ! make --no-print-directory -s -k -j "$cores" $products $binaries > "$log" 2>&1
then
    if [ -n "$products" ] && ! make --no-print-directory -s $products > "$log" 2>&1; then
        echo "FAIL make $products"; tail -n 40 "$log"; echo "0 passed, 1 failed, 0 skipped"; exit 1
    fi
    for name in $timed $rest; do
        case $name in *.sh) continue ;; esac
        make --no-print-directory -s "$BUILD/tests/$name" > "$log" 2>&1 && continue
        echo "FAIL $name: does not build"; tail -n 20 "$log"; failed=$((failed + 1))
        timed=$(echo "$timed " | sed "s/ $name / /"); rest=$(echo "$rest " | sed "s/ $name / /")
    done
fi

# Who makes a suite's folder, runs it, in a shell whose children are the suite's alone; what is done is counted by the
# first shell alone.
taken="$BUILD/tests/taken"
rm -rf "$taken"; mkdir -p "$taken"
for name in $timed $rest; do rm -f "$BUILD/tests/$name.status"; done
uncounted="$timed $rest"
count_done() {
    for name in $uncounted; do
        [ -s "$BUILD/tests/$name.status" ] || continue
        count "$name"; uncounted=$(echo " $uncounted " | sed "s/ $name / /")
    done
}
beside=
while [ "$cores" -ge 0 ]; do
    (for name in $rest; do mkdir "$taken/$name" 2>/dev/null && run "$name"; done) &
    beside="$beside $!"; cores=$((cores - 1))
done
# shellcheck disable=SC2064,SC2086
trap "kill $beside 2>/dev/null" INT TERM
for name in $timed $rest; do mkdir "$taken/$name" 2>/dev/null && { (run "$name"); count_done; }; done
wait
count_done
# A SKIP that a package would end names it in brackets, packages by its names in Debian: "SKIP name: no julia [julia]".
wanting=$(for name in $timed $rest; do grep '^SKIP' "$BUILD/tests/$name.out" 2>/dev/null; done | awk '
    { many = match($0, /: [0-9]+ tests: /) ? substr($0, RSTART + 2) + 0 : 1
      while (match($0, /\[[a-z0-9][a-z0-9+.| -]*\]/)) {
          n = split(substr($0, RSTART + 1, RLENGTH - 2), names, " ")
          for (i = 1; i <= n; i++) count[names[i]] += many
          $0 = substr($0, RSTART + RLENGTH)
      } }
    END { for (name in count) print name " (" count[name] ")" }' | sort | paste -sd , - | sed 's/,/, /g')
[ -z "$wanting" ] || echo "skipped for want of: $wanting"
[ -z "$left" ] || echo "left to make test-all: ${left#; }"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
