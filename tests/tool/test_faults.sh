#!/bin/sh
# test_faults.sh - bzna pack, pack --resume, merge, append, convert, index and extract while calls of the system fail,
# each in turn
#
# A command that fails ends with 1 and a message, neither by a signal nor never, and leaves no file that is not whole.
# What it left goes on with --resume. A disk that stalls changes nothing. Which calls a command makes is listed first.
# Without TEST_ALL the first, the fourth, the 16th call and so on fail, and of each command a third of the ways: all ways
# with some command.
# shellcheck disable=SC2012,SC2046,SC2059,SC2154
. tests/tool/tool.sh

library=$t/failing_calls.so
swept=0                               # commands so far
[ -n "$TEST_ALL" ] || echo "LEFT test_faults.sh: most calls that fail, and two ways of three of each command"

# attempt COMMAND...: with the call that $call, $number and $how say; sets $status, and $was_met to whether it came to
# that
attempt() {
    rm -f "$t/met"
    status=0
    timeout 100 env "FAIL_CALL=$call $number $how" "FAIL_MET=$t/met" "LD_PRELOAD=$library" "$@" >"$t/out" 2>"$t/err" ||
        status=$?
    was_met=0
    if [ -e "$t/met" ]; then was_met=1; fi
}

# Whether the last attempt ended as it should; $1 is what it was to write, $2 what that must be. An archive from which
# pack left out files, of which it names each, has fewer pictures.
ended_well() {
    case $status in
    0) cmp -s "$1" "$2" ;;
    1) grep -q '^bzna: ' "$t/err" && { [ ! -e "$1" ] || cmp -s "$1" "$2" || { left_out && "$bzna" verify "$1" >"$t/out" 2>&1; }; } ;;
    *) false ;;
    esac
}

# Whether pack said why it left a picture out: in a line that begins with its file, or in its summary.
left_out() { grep -q "are left out\|is left out\|^$t/drawn/.*: " "$t/err"; }

# Whether --resume made the whole archive. A picture that memory did not suffice for is left out by the run before,
# which the log keeps.
resumed_well() {
    if [ "$call" = malloc ] && [ "$status" = 1 ] && left_out; then "$bzna" verify "$t/x.bzna" >"$t/out" 2>&1
    else [ "$status" = 0 ] && cmp -s "$t/x.bzna" "$t/whole.bzna"; fi
}

# sweep NAME ATTEMPT: runs ATTEMPT, which prints why it went wrong, for each call
sweep() {
    swept=$((swept + 1)) ways=$swept attempts=0 wrong=''
    call=list number=${TEST_ALL:+1} number=${number:-4} how=-
    $2
    same "$1 makes calls" "$status$wrong $was_met" "0 1"
    sort -u "$t/met" >"$t/calls"
    for way in 'malloc 12' 'pthread_create 11' 'open 24' 'open 13' 'read 5' 'read 4' 'read short' 'read end' \
        'write 28' \
        'write 122' 'write 4' 'write short' 'pread 5' 'pread 4' 'pread short' 'pread end' 'pwrite 28' 'pwrite 5' \
        'pwrite 122' \
        'pwrite 4' 'pwrite short' 'writev 32' 'writev short' 'rename 5' 'rename 122' 'fsync 5' 'fsync 122' \
        'fdatasync 5' \
        'ftruncate 28' 'fstat 5' 'fork 11' 'socketpair 24'; do
        ways=$((ways + 1))
        [ -n "$TEST_ALL" ] || [ $((ways % 3)) = 0 ] || continue
        call=${way% *} how=${way#* } wrong=
        for number in $(sed -n "s/^$call //p" "$t/calls" | sort -n); do
            attempts=$((attempts + 1))
            $2
            if [ -n "$wrong" ]; then break; fi
        done
        if [ -z "$wrong" ]; then pass; else fail "$1, $call call $number ($how)" "$wrong" "$(head -n 3 "$t/err")"; fi
    done
    if [ $attempts -ge 5 ]; then pass; else fail "$1: calls fail" "only $attempts of them"; fi
}

pack_attempt() {
    rm -f "$t/x.bzna" "$t/x.bzna.partial" "$t/x.bzna.partial.log"
    attempt "$bzna" pack "$t/drawn" -o "$t/x.bzna" --codec jpeg --jobs 2
    ended_well "$t/x.bzna" "$t/whole.bzna" || wrong="exit status $status, or another archive"
    if [ "$status" = 0 ] || [ -n "$wrong" ] || left_out; then return; fi
    run "$bzna" pack "$t/drawn" -o "$t/x.bzna" --codec jpeg --jobs 2 --resume
    resumed_well || wrong="--resume after that: $status"
}

# Where samples are gathered in blocks, which a thread writes, each write fails in turn, and those behind it would not.
# If the log had files behind the block that failed, --resume would leave a hole in the archive.
gathered_test() {
    mkdir -p "$t/many"
    small=tests/data/pictures/jpeg_exif_6.jpg
    {   # with comments, so that few files take several blocks
        head -c 2 $small
        for i in 1 2 3 4 5 6 7 8; do printf '\377\376\377\377'; head -c 65533 /dev/zero; done
        tail -c +3 $small
    } >"$t/many/1.jpg"
    for i in 2 3 4 5 6 7 8 9; do cp "$t/many/1.jpg" "$t/many/$i.jpg"; done
    expect 0 "pack --check headers" "$bzna" pack "$t/many" -o "$t/gathered.bzna" --codec copy --check headers
    call=pwrite how=28 number=1 wrong=
    while [ -z "$wrong" ]; do
        rm -f "$t/x.bzna" "$t/x.bzna.partial" "$t/x.bzna.partial.log"
        attempt "$bzna" pack "$t/many" -o "$t/x.bzna" --codec copy --check headers
        [ "$was_met" = 1 ] || break
        if [ "$status" != 1 ] || [ -e "$t/x.bzna" ]; then wrong="exit status $status"; fi
        run "$bzna" pack "$t/many" -o "$t/x.bzna" --codec copy --check headers --resume
        if [ "$status" != 0 ] || ! cmp -s "$t/x.bzna" "$t/gathered.bzna"; then wrong="$wrong --resume: $status"; fi
        number=$((number + 1))
    done
    if [ -z "$wrong" ] && [ "$number" -gt 5 ]; then pass
    else fail "pack --check headers, $call call $number ($how)" "$wrong" "$(head -n 3 "$t/err")"; fi
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
    resumed_well || wrong="--resume after that: $status"
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

# Adds to an archive that is there: it stays what it was, or is the new one.
append_attempt() {
    cp "$t/whole.bzna" "$t/n.bzna"
    rm -f "$t/n.bzna.partial"
    attempt "$bzna" append "$t/n.bzna" "$t/whole.bzna"
    ended_well "$t/n.bzna" "$t/merged.bzna" || { [ "$status" = 1 ] && cmp -s "$t/n.bzna" "$t/whole.bzna"; } ||
        wrong="exit status $status, or another archive"
}

index_attempt() {
    rm -f "$t/i.idx" "$t/i.idx.partial"
    attempt "$bzna" index "$t/i.tar"
    ended_well "$t/i.idx" "$t/indexed.idx" || wrong="exit status $status, or another index"
}

rescue_attempt() {
    rm -f "$t/r.bzna" "$t/r.bzna.partial"
    attempt "$bzna" index "$t/half.partial" -o "$t/r.bzna"
    # where the file seems to end, so do the samples
    ended_well "$t/r.bzna" "$t/rescued.bzna" || { [ "$status $how" = "0 end" ] && "$bzna" verify "$t/r.bzna" >"$t/out" 2>&1; } ||
        wrong="exit status $status, or another archive"
}

# stalls NAME FILE EXPECTED COMMAND...: each kind of call takes five seconds once, and nothing is different
stalls() {
    what=$1 file=$2 expected=$3
    shift 3
    for call in ${TEST_ALL:+open read write} pread pwrite ${TEST_ALL:+fsync fdatasync rename}; do
        number=${TEST_ALL:+2} number=${number:-3} how=stall
        rm -f "$file" "$file.partial" "$file.partial.log"
        attempt "$@"
        if [ "$status" = 0 ] && cmp -s "$file" "$expected"; then pass
        else fail "$what, a $call that stalls" "exit status $status" "$(head -n 3 "$t/err")"; fi
    done
}

# Between a run's opening of its file and its lock, another run gives that file its final name, and a third one makes a
# file of that name.
renamed_test() {
    call=lock number=1 how=stall
    rm -f "$t/m.bzna" "$t/m.bzna.partial"
    (
        for _ in $(seq 100); do [ -e "$t/m.bzna.partial" ] || sleep 0.05; done
        mv "$t/m.bzna.partial" "$t/others.bzna" && printf whole >"$t/others.bzna"
        : >"$t/m.bzna.partial"
    ) &
    attempt "$bzna" merge "$t/whole.bzna" "$t/whole.bzna" -o "$t/m.bzna"
    wait
    same "a file that another run has finished meanwhile is left alone" \
        "$status $was_met $(cat "$t/others.bzna")" "0 1 whole"
    if cmp -s "$t/m.bzna" "$t/merged.bzna"; then pass; else fail "and the archive is written beside it"; fi
}

# too_large NAME FILE WHOLE COMMAND...: files may not have more than so many blocks, which is like a disk that is full,
# and of streams, too. With the most blocks that WHOLE does not fit into, only what is written last fails, when a stream
# is closed.
too_large() {
    what=$1 file=$2 last=$((($(wc -c <"$3") - 1) / 512))
    shift 3
    for blocks in 0 1 9 $last; do
        rm -f "$file" "$file.partial"
        status=0
        (ulimit -f $blocks && exec timeout 100 "$@" >/dev/null 2>&1) || status=$?
        if [ "$status" = 1 ] && [ ! -e "$file" ]; then pass
        else fail "$what, files of at most $blocks blocks" "exit status $status"; fi
    done
}

extract_attempt() {
    rm -f "$t/e.ppm"
    attempt "$bzna" extract "$t/whole.bzna" 0 -o "$t/e.ppm"
    ended_well "$t/e.ppm" "$t/extracted.ppm" || wrong="exit status $status, or another picture"
}

if [ -n "$SANITIZE" ] || ! "${CC:-cc}" -shared -fPIC -O1 -o "$library" tests/fake/failing_calls.c -ldl 2>"$t/err"; then
    skip "calls that fail under the tool" \
        "no library can be preloaded here: ${SANITIZE:+sanitizers}$(head -n 1 "$t/err")"
else
    mkdir -p "$t/drawn/ants" "$t/drawn/bees"
    for i in 1 2 3; do
        for class in ants:0 bees:60000; do
            { printf 'P6 96 64 255\n'; tail -c +$((18432 * i + ${class#*:})) $data/mini_h265.bzna | head -c 18432; } >"$t/drawn/${class%:*}/$i.ppm"
        done
    done
    expect 0 "pack" "$bzna" pack "$t/drawn" -o "$t/whole.bzna" --codec jpeg --jobs 2
    expect 0 "merge" "$bzna" merge "$t/whole.bzna" "$t/whole.bzna" -o "$t/merged.bzna"
    expect 0 "convert" "$bzna" convert "$t/whole.bzna" -o "$t/converted.tar"
    expect 0 "extract" "$bzna" extract "$t/whole.bzna" 0 -o "$t/extracted.ppm"
    cp "$t/converted.tar" "$t/i.tar"
    expect 0 "index" "$bzna" index "$t/i.tar"
    mv "$t/i.idx" "$t/indexed.idx"
    # before the last: the log, its folder, the archive before its mark
    call=fsync number=4 how=5
    attempt "$bzna" pack "$t/drawn" -o "$t/x.bzna" --codec jpeg --jobs 2
    same "a run whose last call fails leaves what it wrote" "$status $(ls "$t" | grep -c 'x.bzna.partial')" "1 2"
    mv "$t/x.bzna.partial" "$t/half.partial"
    mv "$t/x.bzna.partial.log" "$t/half.log"
    expect 0 "index -o" "$bzna" index "$t/half.partial" -o "$t/rescued.bzna"
    sweep pack pack_attempt
    sweep "pack --resume" resume_attempt
    gathered_test
    sweep merge merge_attempt
    sweep append append_attempt
    sweep convert convert_attempt
    sweep index index_attempt
    sweep "index -o" rescue_attempt
    sweep extract extract_attempt
    stalls pack "$t/x.bzna" "$t/whole.bzna" "$bzna" pack "$t/drawn" -o "$t/x.bzna" --codec jpeg --jobs 2
    stalls merge "$t/m.bzna" "$t/merged.bzna" "$bzna" merge "$t/whole.bzna" "$t/whole.bzna" -o "$t/m.bzna"
    renamed_test
    too_large pack "$t/x.bzna" "$t/whole.bzna" "$bzna" pack "$t/drawn" -o "$t/x.bzna" --codec jpeg --jobs 2 --overwrite
    too_large convert "$t/c.tar" "$t/converted.tar" "$bzna" convert "$t/whole.bzna" -o "$t/c.tar"
    too_large extract "$t/e.ppm" "$t/extracted.ppm" "$bzna" extract "$t/whole.bzna" 0 -o "$t/e.ppm"
fi
echo "tests/tool/test_faults.sh: $passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
