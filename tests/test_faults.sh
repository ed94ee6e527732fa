#!/bin/sh
# test_faults.sh - bzna pack, pack --resume, merge and convert while calls of the system fail, each in turn
#
# A command that fails ends with 1 and a message, neither by a signal nor never, and leaves no archive that is not whole.
# What it left goes on with --resume. Without TEST_ALL only some of the calls fail.
# shellcheck disable=SC2012,SC2046,SC2059,SC2154
. tests/tool.sh

library=$t/failing_calls.so
step=${TEST_ALL:+1}
step=${step:-11}

# attempt COMMAND...: with the call that $call, $number and $how say; sets $status, and $was_met to whether it came to that
attempt() {
    rm -f "$t/met"
    status=0
    timeout 100 env "FAIL_CALL=$call $number $how" "FAIL_MET=$t/met" "LD_PRELOAD=$library" "$@" >"$t/out" 2>"$t/err" || status=$?
    was_met=0
    if [ -e "$t/met" ]; then was_met=1; fi
}

# Whether the last attempt ended as it should; $1 is what it was to write, $2 what that must be. An archive from which
# pack says that it left out files has fewer pictures.
ended_well() {
    case $status in
    0) cmp -s "$1" "$2" ;;
    1) grep -q '^bzna: ' "$t/err" && { [ ! -e "$1" ] || cmp -s "$1" "$2" || { left_out && "$bzna" verify "$1" >"$t/out" 2>&1; }; } ;;
    *) false ;;
    esac
}

left_out() { grep -q 'are left out\|is left out' "$t/err"; }

# sweep NAME ATTEMPT: runs ATTEMPT, which prints why it went wrong, for each call
sweep() {
    for way in 'open 24' 'open 13' 'read 5' 'read short' 'write 28' 'write short' 'pread 5' 'pread short' 'pwrite 28' 'pwrite short' \
        'writev 32' 'writev short' 'rename 5' 'fsync 5' 'fdatasync 5' 'ftruncate 28' 'fstat 5' 'fork 11' 'socketpair 24'; do
        call=${way% *} how=${way#* } number=1 wrong=
        while :; do
            $2
            if [ "$was_met" = 0 ] || [ -n "$wrong" ]; then break; fi
            number=$((number + step))
        done
        if [ -z "$wrong" ]; then pass; else fail "$1, $call call $number ($how)" "$wrong" "$(head -n 3 "$t/err")"; fi
    done
}

pack_attempt() {
    rm -f "$t/x.bzna" "$t/x.bzna.partial" "$t/x.bzna.partial.log"
    attempt "$bzna" pack "$t/drawn" -o "$t/x.bzna" --codec jpeg --jobs 2
    ended_well "$t/x.bzna" "$t/whole.bzna" || wrong="exit status $status, or another archive"
    if [ "$status" = 0 ] || [ -n "$wrong" ] || left_out; then return; fi
    run "$bzna" pack "$t/drawn" -o "$t/x.bzna" --codec jpeg --jobs 2 --resume
    if [ "$status" != 0 ] || ! cmp -s "$t/x.bzna" "$t/whole.bzna"; then wrong="--resume after that: $status"; fi
}

# The rest of an interrupted run is there, and going on with it fails.
resume_attempt() {
    cp "$t/half.partial" "$t/x.bzna.partial"
    cp "$t/half.log" "$t/x.bzna.partial.log"
    rm -f "$t/x.bzna"
    attempt "$bzna" pack "$t/drawn" -o "$t/x.bzna" --codec jpeg --jobs 2 --resume
    ended_well "$t/x.bzna" "$t/whole.bzna" || wrong="exit status $status, or another archive"
    if [ "$status" = 0 ] || [ -n "$wrong" ] || left_out; then return; fi
    run "$bzna" pack "$t/drawn" -o "$t/x.bzna" --codec jpeg --jobs 2 --resume
    if [ "$status" != 0 ] || ! cmp -s "$t/x.bzna" "$t/whole.bzna"; then wrong="--resume after that: $status"; fi
}

merge_attempt() {
    rm -f "$t/m.bzna" "$t/m.bzna.partial"
    attempt "$bzna" merge "$t/whole.bzna" "$t/whole.bzna" -o "$t/m.bzna"
    ended_well "$t/m.bzna" "$t/merged.bzna" || wrong="exit status $status, or another archive"
}

convert_attempt() {
    rm -f "$t/c.tar" "$t/c.tar.partial"
    attempt "$bzna" convert "$t/whole.bzna" -o "$t/c.tar"
    ended_well "$t/c.tar" "$t/converted.tar" || wrong="exit status $status, or another tar"
}

extract_attempt() {
    rm -f "$t/e.ppm"
    attempt "$bzna" extract "$t/whole.bzna" 0 -o "$t/e.ppm"
    ended_well "$t/e.ppm" "$t/extracted.ppm" || wrong="exit status $status, or another picture"
}

if [ -n "$SANITIZE" ] || ! "${CC:-cc}" -shared -fPIC -O1 -o "$library" tests/fake/failing_calls.c -ldl 2>"$t/err"; then
    skip "calls that fail under the tool" "no library can be preloaded here: ${SANITIZE:+sanitizers}$(head -n 1 "$t/err")"
else
    expect 0 "draw_pictures" "$build/draw_pictures" "$t/drawn" 6
    expect 0 "pack" "$bzna" pack "$t/drawn" -o "$t/whole.bzna" --codec jpeg --jobs 2
    expect 0 "merge" "$bzna" merge "$t/whole.bzna" "$t/whole.bzna" -o "$t/merged.bzna"
    expect 0 "convert" "$bzna" convert "$t/whole.bzna" -o "$t/converted.tar"
    expect 0 "extract" "$bzna" extract "$t/whole.bzna" 0 -o "$t/extracted.ppm"
    call=fsync number=2 how=5
    attempt "$bzna" pack "$t/drawn" -o "$t/x.bzna" --codec jpeg --jobs 2
    same "a run whose last call fails leaves what it wrote" "$status $(ls "$t" | grep -c 'x.bzna.partial')" "1 2"
    mv "$t/x.bzna.partial" "$t/half.partial"
    mv "$t/x.bzna.partial.log" "$t/half.log"
    sweep pack pack_attempt
    sweep "pack --resume" resume_attempt
    sweep merge merge_attempt
    sweep convert convert_attempt
    sweep extract extract_attempt
fi
echo "tests/test_faults.sh: $passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
