#!/bin/sh
# test_faults.sh - bzna pack, pack --resume, merge, append, convert, index and extract while calls of the system fail,
# each in turn
#
# A command that fails ends with 1 and a message, neither by a signal nor never, and leaves no file that is not whole.
# What it left goes on with --resume. A disk that stalls changes nothing. Which calls a command makes is listed first.
# Without TEST_ALL the first, the fourth, the 16th call and so on fail, and of each command a third of the ways: all ways
# with some command.
# shellcheck disable=SC2010,SC2012,SC2046,SC2059,SC2154
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

# Whether the last attempt ended as it should; $1 is what it was to write, $2 what that must be. A sync that a signal
# interrupts is repeated. An archive from which
# pack left out files, of which it names each, has fewer pictures.
ended_well() {
    case $status in
    0) cmp -s "$1" "$2" ;;
    1) [ "$call $how" != "fsync 4" ] && grep -q '^bzna: ' "$t/err" && { [ ! -e "$1" ] || cmp -s "$1" "$2" || { left_out && "$bzna" verify "$1" >"$t/out" 2>&1; }; } ;;
    *) false ;;
    esac
}

# Whether pack said why it left a picture out: in a line that begins with its file, or in its summary.
left_out() { grep -q "are left out\|is left out\|^$t/drawn/.*: " "$t/err"; }

# Goes on with --resume where the last attempt has made no archive: it makes the whole one, since a picture is not left
# out for good when memory, descriptors or the disk failed. There is no archive without such a picture.
goes_on() {
    case "$call $how" in "malloc 12" | "open 24" | "read 5" | "pread 5")
        [ ! -e "$t/x.bzna" ] || cmp -s "$t/x.bzna" "$t/whole.bzna" || wrong="an archive without a picture" ;;
    esac
    if [ -n "$wrong" ] || [ -e "$t/x.bzna" ]; then return; fi
    run "$bzna" pack "$t/drawn" -o "$t/x.bzna" --codec jpeg --jobs 2 --resume
    if [ "$status" != 0 ] || ! cmp -s "$t/x.bzna" "$t/whole.bzna"; then wrong="--resume after that: $status"; fi
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
        'fsync 4' 'fdatasync 5' \
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
    goes_on
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
    goes_on
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
# is closed. The command says which file could not be written, and why; no sample is to blame.
too_large() {
    what=$1 file=$2 last=$((($(wc -c <"$3") - 1) / 512))
    shift 3
    for blocks in 0 ${TEST_ALL:+1 9} $last; do
        [ "$blocks" -le "$last" ] || continue
        rm -rf "$t/full"
        mkdir "$t/full"
        status=$({ { (ulimit -f "$blocks" && exec timeout 100 "$@" 2>&1 >/dev/null); echo $? >&4; } | cat >"$t/err"; } 4>&1)
        if [ "$status" = 1 ] && [ ! -e "$file" ] && grep -q "^bzna: .*$t/full/.*: File too large\$" "$t/err" &&
            ! grep -q "is left out\|write error" "$t/err"; then pass
        else fail "$what, files of at most $blocks blocks" "exit status $status" "$(head -n 3 "$t/err")"; fi
    done
}

# All commands that write files.
too_large_test() {
    w=$t/whole.bzna f=$t/full
    too_large pack "$f/x.bzna" "$w" "$bzna" pack "$t/drawn" -o "$f/x.bzna" --codec jpeg --jobs 2 --overwrite
    too_large "convert, a tar" "$f/c.tar" "$t/converted.tar" "$bzna" convert "$w" -o "$f/c.tar"
    too_large "convert, RecordIO" "$f/c.rec" "$t/converted.rec" "$bzna" convert "$w" -o "$f/c.rec"
    too_large "convert, a folder" "$f/c.lst" "$t/folder/ants/1.jpg" "$bzna" convert "$w" -o "$f/c/"
    "$bzna" convert "$t/converted.tar" -o "$t/again.bzna" --overwrite >/dev/null
    too_large "convert, an archive" "$f/c.bzna" "$t/again.bzna" "$bzna" convert "$t/converted.tar" -o "$f/c.bzna"
    too_large merge "$f/m.bzna" "$t/merged.bzna" "$bzna" merge "$w" "$w" -o "$f/m.bzna"
    too_large subset "$f/s.bzna" "$w" "$bzna" subset "$w" -o "$f/s.bzna" --indices "$t/all"
    too_large split "$f/s-00000-of-00001.bzna" "$w" "$bzna" split "$w" -o "$f/s.bzna" --parts 1
    too_large extract "$f/e.ppm" "$t/extracted.ppm" "$bzna" extract "$w" 0 -o "$f/e.ppm"
    too_large "extract, PNG" "$f/e.png" "$t/extracted.png" "$bzna" extract "$w" 0 -o "$f/e.png"
    too_large view "$f/v.html" "$t/viewed.html" "$bzna" view "$w" -o "$f/v.html"
    too_large sheet "$f/s.png" "$t/sheet.png" "$bzna" sheet "$w" -o "$f/s.png" --size 64
    too_large batch "$f/00000.ppm" "$t/batch/00000.ppm" "$bzna" batch "$w" -o "$f" --size 64 --batch 1
}

# Commands that print say so, whatever else they print or end with.
stdout_test() {
    if [ ! -w /dev/full ]; then skip "standard output on a full disk" "there is no /dev/full"; return; fi
    for command in "info $t/whole.bzna" "info $t/whole.bzna --json" "list $t/whole.bzna" "list $t/whole.bzna --json" \
        "verify $t/whole.bzna" "verify $t/whole.bzna --json" "extract $t/whole.bzna 0 -o -" \
        "--help" "help pack" "--version" "devices" \
        "merge $t/whole.bzna -o $t/full.bzna --json --overwrite" "index $t/i.tar --json" \
        "bench $t/whole.bzna --size 32 --batch 2 --json"; do
        status=0
        # shellcheck disable=SC2086  # words
        "$bzna" $command >/dev/full 2>"$t/err" || status=$?
        same "bzna $command >/dev/full" "$status $(grep -c '^bzna: standard output: cannot be written: No space' "$t/err")" "1 1"
    done
    if [ -e "$t/full.bzna" ]; then pass; else fail "the archive is there all the same"; fi
}

# Where no sample can be read there is no file, of no kind; in shards, the others are there.
nothing_test() {
    call=open number=0 how=5
    mkdir -p "$t/nothing"
    export FAIL_PATH=.jpg
    for out in n.tar n.rec n/ n.bzna; do
        attempt "$bzna" convert "$t/folder" -o "$t/nothing/$out"
        if [ "$status" = 1 ] && [ -z "$(ls "$t/nothing")" ] && grep -q "Input/output error" "$t/err" &&
            [ ! -s "$t/out" ]; then pass
        else fail "convert to $out, no picture can be read" "exit status $status" "$(ls "$t/nothing")" "$(tail -n 2 "$t/err")"; fi
    done
    export FAIL_PATH=bees/
    attempt "$bzna" convert "$t/folder" -o "$t/nothing/n.tar" --shard-size 3
    unset FAIL_PATH
    same "convert in shards, half can be read" "$status $(ls "$t/nothing")" "1 n-000000.tar"
    rm "$t/nothing/n-000000.tar"
    if [ -n "$python" ]; then
        "$python" -c '
import io, sys, tarfile
with tarfile.open(sys.argv[1], "w") as t:
    for i in range(3):
        for name, data in ("%d.png" % i, open(sys.argv[2], "rb").read()), ("%d.cls" % i, b"1"):
            m = tarfile.TarInfo(name); m.size = len(data); t.addfile(m, io.BytesIO(data))' "$t/png.tar" "$t/extracted.png"
        for command in merge convert "subset --class 1" "split --parts 2"; do
            # shellcheck disable=SC2086  # words
            run "$bzna" ${command%% *} "$t/png.tar" -o "$t/nothing/n.bzna" $(echo "$command" | sed 's/^[a-z]*//')
            if [ "$status" = 1 ] && [ -z "$(ls "$t/nothing")" ] && grep -q "nothing is written" "$t/err"; then pass
            else fail "$command, an archive holds none of the pictures" "exit status $status" "$(ls "$t/nothing")" "$(tail -n 2 "$t/err")"; fi
        done
    else skip "an archive holds none of the pictures" "no python3 [python3]"; fi
}

# A file that could not be read, but may be the next time: --resume tries it again, once, and does not try a damaged one.
# shellcheck disable=SC2086  # $pack is words
passing_test() {
    mkdir -p "$t/damaged"
    cp -R "$t/drawn/." "$t/damaged"
    head -c 1000 "$t/damaged/bees/1.ppm" >"$t/damaged/bees/9.ppm"
    pack="$bzna pack $t/damaged -o $t/p.bzna --codec jpeg --jobs 2"
    run $pack
    mv "$t/p.bzna" "$t/p.whole"
    for fault in "5:Input/output error" "12:Cannot allocate memory" "24:Too many open files" "11:Resource temporarily unavailable"; do
        call=open number=0 how=${fault%%:*}
        export FAIL_PATH=ants/2
        attempt $pack --overwrite
        same "a file that may be read later: no archive" "$status $(ls "$t" | grep -c '^p.bzna')" "1 2"
        says "$t/err" "$t/damaged/ants/2.ppm: cannot be opened: ${fault#*:}" "and why"
        says "$t/err" "1 of 7 files failed" "and what to do"
        attempt $pack --resume --json
        same "which fails again: the archive without it, of what was done" \
            "$status $(field_all samples)$(field_all resumed)$("$bzna" list "$t/p.bzna" | grep -c ppm)" "1 5 5 5"
        says "$t/out" "ants/2.ppm" "and it is named"
        rm "$t/p.bzna"
        attempt $pack
        unset FAIL_PATH
        run $pack --resume
        if [ "$status" = 1 ] && cmp -s "$t/p.bzna" "$t/p.whole"; then pass
        else fail "which can be read: --resume makes the whole archive" "exit status $status" "$(head -n 3 "$t/err")"; fi
        rm -f "$t/p.bzna"
    done
    call=open number=0 how=13
    export FAIL_PATH=ants/2
    attempt $pack
    unset FAIL_PATH
    same "a file that may not be read is left out" "$status $(ls "$t" | grep '^p.bzna')" "1 p.bzna"
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
    expect 0 "convert to RecordIO" "$bzna" convert "$t/whole.bzna" -o "$t/converted.rec"
    expect 0 "extract" "$bzna" extract "$t/whole.bzna" 0 -o "$t/extracted.ppm"
    expect 0 "extract a PNG" "$bzna" extract "$t/whole.bzna" 0 -o "$t/extracted.png"
    expect 0 "view" "$bzna" view "$t/whole.bzna" -o "$t/viewed.html"
    expect 0 "sheet" "$bzna" sheet "$t/whole.bzna" -o "$t/sheet.png" --size 64
    expect 0 "batch" "$bzna" batch "$t/whole.bzna" -o "$t/batch" --size 64 --batch 1
    expect 0 "convert to a folder" "$bzna" convert "$t/whole.bzna" -o "$t/folder/"
    printf '0 1 2 3 4 5\n' >"$t/all"
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
    too_large_test
    stdout_test
    nothing_test
    passing_test
fi
echo "tests/tool/test_faults.sh: $passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
