#!/bin/sh
# test_resume.sh - bzna pack, interrupted: --resume gives the bytes of a run that was not
# shellcheck disable=SC2012,SC2046,SC2059
. tests/tool/tool.sh

# What makes one call of a program fail, or take five seconds. Without it, as with sanitizers, runs that are to be
# interrupted are hoped to take long enough.
failing=$t/failing_calls.so
if [ -n "$SANITIZE" ] || ! "${CC:-cc}" -shared -fPIC -O1 -o "$failing" tests/fake/failing_calls.c -ldl 2>"$t/err"; then
    failing=
fi

# How all but one of these archives are packed.
quick="--preset ultrafast --frame 64"

# Small pictures in two classes, two of them with thumbnails, and two files that are no pictures.
draw() {
    mkdir -p "$t/in/ants" "$t/in/bees"
    for i in 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27; do
        for class in ants bees; do
            { printf 'P6 24 16 255\n'; tail -c +$((i * 700)) $data/mini_h265.bzna | head -c 1152; } >"$t/in/$class/$i.ppm"
        done
    done
    { printf 'P6 600 20 255\n'; tail -c +5000 $data/mini_h265.bzna | head -c 36000; } >"$t/in/ants/14.ppm"
    { printf 'P6 20 520 255\n'; tail -c +6000 $data/mini_h265.bzna | head -c 31200; } >"$t/in/bees/99.ppm"
    echo "no picture" >"$t/in/ants/15a.jpg"
    : >"$t/in/bees/12a.png"
    began=$(date +%s%N)
    # shellcheck disable=SC2086  # quick is words, here and below
    expect 1 "a run that is not interrupted" "$bzna" pack "$t/in" -o "$t/whole.bzna" $quick
    took=$(awk "BEGIN { t = ($(date +%s%N) - $began) / 1e9; print (t > 0.2 ? t : 0.2) }")
    cp "$t/out" "$t/said"
    expect 0 "it is sound" "$bzna" verify --decode "$t/whole.bzna"
    "$bzna" info --json "$t/whole.bzna" | tr -d '\n' >"$t/kept.json"
    head -c 2000 "$t/whole.bzna" >"$t/text"
}

# pack ARGUMENT...: as that run
# shellcheck disable=SC2086
pack() { "$bzna" pack "$t/in" -o "$t/x.bzna" $quick "$@"; }

whole() { if cmp -s "$t/x.bzna" "$t/whole.bzna"; then pass; else fail "$1" "$(cmp "$t/x.bzna" "$t/whole.bzna" 2>&1)" "$(cat "$t/err")"; fi; }

# resumed NAME: --resume gives the whole archive; nothing is left beside it
resumed() {
    run pack --resume --json
    same "$1: two files are left out" "$status $(grep -c '"reason"' "$t/out")" "1 2"
    whole "$1: the bytes of a run that was not interrupted"
    if ls "$t"/x.bzna.* >/dev/null 2>&1; then fail "$1: nothing is left" "$(ls "$t"/x.bzna.*)"; else pass; fi
}

# interrupt SIGNAL FILES: a run that gets the signal once so many files are done, while it writes one of the next; its
# exit status in $ended
interrupt() {
    plain="env --default-signal=$1"                 # nohup, and what else runs tests, may have it ignored
    $plain true 2>/dev/null || plain=env
    for _ in 1 2 3 4 5 6 7 8; do
        rm -f "$t/x.bzna"*
        # shellcheck disable=SC2086  # plain is words, too
        $plain "FAIL_CALL=pwrite $(($2 + 3)) stall" "LD_PRELOAD=$failing" \
            "$bzna" pack "$t/in" -o "$t/x.bzna" $quick >"$t/out" 2>"$t/err" &
        wait_done "$t/x.bzna.partial.log" "$2"
        kill "-$1" $! 2>/dev/null
        ended=0
        wait $! 2>/dev/null || ended=$?
        [ ! -e "$t/x.bzna" ] || continue            # the run was faster than this shell
        pass
        return
    done
    fail "a run is interrupted"
}

# begun: what a run has left that was killed once 30 files were done: one run for all who ask
begun() {
    if [ ! -e "$t/begun.partial" ]; then
        interrupt KILL 30
        cp -p "$t/x.bzna.partial" "$t/begun.partial"
        cp -p "$t/x.bzna.partial.log" "$t/begun.partial.log"
    fi
    rm -f "$t/x.bzna"*
    cp -p "$t/begun.partial" "$t/x.bzna.partial"
    cp -p "$t/begun.partial.log" "$t/x.bzna.partial.log"
}

kill_tests() {
    kills=0 runs=0 bad='' resumed_from='' wanted=50 longest=$took
    [ -n "$TEST_ALL" ] || { wanted=10; echo "LEFT test_resume.sh: 40 of 50 kills"; }
    while [ $kills -lt $wanted ] && [ $runs -lt 400 ]; do
        runs=$((runs + 1))
        # "pack &" is a shell's number
        # shellcheck disable=SC2086
        "$bzna" pack "$t/in" -o "$t/x.bzna" $quick --resume >"$t/log" 2>&1 &
        sleep "$(awk "BEGIN { srand($runs); srand(int(rand() * 1e9)); printf \"%.3f\", rand() * 0.8 * $longest }")"
        if kill -KILL $! 2>/dev/null; then kills=$((kills + 1)); fi
        wait $! 2>/dev/null
        if [ -e "$t/x.bzna" ]; then
            cmp -s "$t/x.bzna" "$t/whole.bzna" || bad="$bad $runs"
            rm -f "$t/x.bzna"; longest=$took
        elif [ -e "$t/x.bzna.partial.log" ]; then
            # a run that did nothing: the machine has become slower than when a whole run was timed
            before=${resumed_from##* } now=$(done_files "$t/x.bzna.partial.log"); resumed_from="$resumed_from $now"
            [ "$now" != "$before" ] || longest=$(awk "BEGIN { print 1.5 * $longest }")
        fi
    done
    # Those that were killed last come to an end, too, however slow the machine has become meanwhile.
    pack --resume >"$t/log" 2>&1
    if cmp -s "$t/x.bzna" "$t/whole.bzna"; then pass; else fail "killed runs come to an end, too" "$(cat "$t/log")"; fi
    rm -f "$t/x.bzna"
    same "so many runs were killed" "$kills" "$wanted"
    same "of the archives that came of killed runs, none differs" "$bad" ""
    different=$(echo "$resumed_from" | tr ' ' '\n' | sort -u | wc -l)
    if [ "$different" -ge $((wanted / 7 + 2)) ]; then pass; else fail "runs were killed at different moments" "$resumed_from"; fi
    resumed "after so many kills"
}

# What is done is not encoded again: its source may be something else by now, as long as it does not show.
only_missing_tests() {
    begun
    done=$(grep -c '^[0-9a-f]* + ' "$t/x.bzna.partial.log")
    cp -p "$t/in/ants/10.ppm" "$t/kept.ppm"
    head -c 1152 /dev/zero | dd of="$t/in/ants/10.ppm" bs=1 seek=13 conv=notrunc 2>/dev/null
    touch -r "$t/kept.ppm" "$t/in/ants/10.ppm"
    resumed "a source of a picture that is done"
    same "the report tells what was done" "$(field resumed <"$t/out")" "$done"
    cp -p "$t/kept.ppm" "$t/in/ants/10.ppm"
}

# refuses TEXT NAME ARGUMENT...: --resume says the text, leaves everything as it is, and goes on when all is as it was
refuses() {
    text=$1 name=$2
    shift 2
    cp "$t/x.bzna.partial" "$t/before"
    run pack --resume "$@"
    same "$name is refused" "$status" 1
    says "$t/err" "$text" "$name: it says so"
    says "$t/err" "bzna pack --overwrite" "$name: it says what to do"
    if cmp -s "$t/before" "$t/x.bzna.partial"; then pass; else fail "$name: the partial file is as it was"; fi
}

change_tests() {
    begun
    refuses "was begun with other settings" "another quality" --crf 21
    refuses "was begun with other settings" "another codec" --codec h264
    cp -p "$t/in/ants/11.ppm" "$t/kept.ppm"
    touch -t 200001010000 "$t/in/ants/11.ppm"
    refuses "in/ants/11.ppm: is not what the interrupted run packed here" "a picture that was touched"
    cp -p "$t/kept.ppm" "$t/in/ants/11.ppm"
    cp -p "$t/kept.ppm" "$t/in/bees/98.ppm"
    refuses "the files are not those of the interrupted run: there were 39, now there are 40" "a picture more"
    rm "$t/in/bees/98.ppm"
    mv "$t/in/bees/27.ppm" "$t/elsewhere.ppm"
    refuses "there were 39, now there are 38" "a picture less"
    mv "$t/elsewhere.ppm" "$t/in/bees/27.ppm"
    mv "$t/in/bees" "$t/in/wasps"
    refuses "the interrupted run" "a class of another name"   # which file is named depends on how far it came
    mv "$t/in/wasps" "$t/in/bees"
    mv "$t/in" "$t/moved"
    ln -s moved "$t/in"
    resumed "a folder that was moved"
    rm "$t/in"
    mv "$t/moved" "$t/in"
}

# What a machine that lost power may leave: the end of either file is missing, or is zeros.
power_tests() {
    begun
    size=$(($(wc -c <"$t/x.bzna.partial")))
    dd if=/dev/zero of="$t/x.bzna.partial" bs=1 seek=$((size - 5000)) count=5000 conv=notrunc 2>/dev/null
    resumed "the last samples are zeros"
    begun
    size=$(($(wc -c <"$t/x.bzna.partial")))
    head -c $((size - 5000)) "$t/x.bzna.partial" >"$t/cut"
    cp "$t/cut" "$t/x.bzna.partial"
    resumed "the last samples are missing"
    begun
    cp "$t/x.bzna.partial.log" "$t/cut"
    head -c $(($(wc -c <"$t/cut") - 100)) "$t/cut" >"$t/x.bzna.partial.log"
    resumed "the end of the log is missing"
    begun
    size=$(($(wc -c <"$t/x.bzna.partial.log")))
    dd if=/dev/zero of="$t/x.bzna.partial.log" bs=1 seek=$((size - 100)) count=100 conv=notrunc 2>/dev/null
    resumed "the end of the log is zeros"
    begun
    # The eighth picture would be left out: its sample, which is whole, tells nothing of that.
    awk '/^[0-9a-f]* \+ / && ++n == 8 { sub(/ \+ .*/, " - none") } { print }' "$t/x.bzna.partial.log" >"$t/cut"
    if cmp -s "$t/x.bzna.partial.log" "$t/cut"; then fail "a line of the log is damaged"; else pass; fi
    cp "$t/cut" "$t/x.bzna.partial.log"
    resumed "a line of the log is damaged"
    begun
    echo "00000000 " >>"$t/x.bzna.partial.log"
    resumed "a line of the log has nothing but a check sum that fits"
    begun
    cat "$t/whole.bzna" "$t/whole.bzna" >>"$t/x.bzna.partial"
    resumed "there is more than the log tells"
    begun
    run pack --resume
    says "$t/out" "$(grep 'fill less than a quarter' "$t/said")" \
        "the summary of a run that goes on is of the whole archive"
    begun
    rm "$t/x.bzna.partial.log"
    refuses "has no log next to it" "a partial file without a log"
    echo "not to be lost" >"$t/x.bzna"
    refused 2 "x.bzna: already exists" "--resume does not replace an archive" pack --resume
    run pack --resume --overwrite
    same "--resume --overwrite goes on, as without an archive, and replaces it" "$status" 1
    rm -f "$t/x.bzna"*
    resumed "--resume with nothing to go on with"
    cp "$t/x.bzna" "$t/kept.bzna"
    expect 0 "--resume of what is finished" pack --resume
    says "$t/out" "x.bzna: is finished, with $(field samples <"$t/kept.json") pictures: there is nothing to continue" "it says so"
    expect 0 "the same as JSON" pack --resume --json
    says "$t/out" '"finished":true' "says so, too"
    if cmp -s "$t/x.bzna" "$t/kept.bzna"; then pass; else fail "it is left as it is"; fi
    cp "$t/text" "$t/x.bzna.partial"
    refused 2 "x.bzna: already exists, and an interrupted run has left $t/x.bzna.partial" \
        "an archive beside an interrupted run" pack --resume
    rm -f "$t/x.bzna"*
    head -c 3000 "$t/kept.bzna" >"$t/x.bzna"
    refused 2 "x.bzna: already exists" "half an archive is not finished" pack --resume
    rm -f "$t/x.bzna"*
}

signal_tests() {
    for signal in TERM:143 HUP:129; do
        interrupt ${signal%:*} 10
        same "a run that gets ${signal%:*} ends by that" "$ended" "${signal#*:}"
        says "$t/err" "bzna: interrupted" "it says so"
        says "$t/err" "of 39 files; to continue, give the same command with --resume" "it says how to go on"
        resumed "after ${signal%:*}"
    done
    if [ -z "$python" ]; then skip "Ctrl-C" "there is no python3 [python3]"; return; fi
    rm -f "$t/x.bzna"*
    # shellcheck disable=SC2086
    run "$python" -c '
import signal, subprocess, sys, time, os
stalled = dict(os.environ, FAIL_CALL="pwrite 20 stall", LD_PRELOAD=sys.argv.pop(1))
p = subprocess.Popen(sys.argv[1:], start_new_session=True, env=stalled,
                     preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
log = sys.argv[sys.argv.index("-o") + 1] + ".partial.log"
while not os.path.exists(log) or os.path.getsize(log) < 700: time.sleep(0.002)
os.killpg(p.pid, signal.SIGINT)
sys.exit(0 if p.wait() == -signal.SIGINT else 9)' "$failing" "$bzna" pack "$t/in" -o "$t/x.bzna" $quick
    same "Ctrl-C, which all processes get, ends a run" "$status" 0
    says "$t/err" "to continue, give the same command with --resume" "Ctrl-C says how to go on"
    resumed "after Ctrl-C"
}

# A limit on the size of files is a disk that is full.
full_tests() {
    for limit in 20 40 60; do
        rm -f "$t/x.bzna"*
        # shellcheck disable=SC2086,SC3045
        if ! (ulimit -f $limit) 2>/dev/null; then skip "a full disk" "this shell has no ulimit -f"; return; fi
        run sh -c "ulimit -f $limit; exec \"\$@\"" sh "$bzna" pack "$t/in" -o "$t/x.bzna" $quick
        same "a full disk at $limit blocks is an error" "$status" 1
        says "$t/err" "x.bzna.partial: cannot be written: File too large" "it names the file and the reason"
        says "$t/err" "to continue, give the same command with --resume" "it says how to go on"
        resumed "after a full disk at $limit blocks"
    done
}

# children PID: its child processes
children() { grep -s '' /proc/[0-9]*/stat | awk -v p="$1" '{ split($0, f, "/"); sub(/^.*\) /, ""); if ($2 == p) print f[3] }'; }

# struck SIGNAL: a run whose one process that encodes gets the signal, which no sanitizer may take; its exit status in
# $ended
struck() {
    rm -f "$t/y.bzna"*
    ASAN_OPTIONS="$ASAN_OPTIONS:handle_segv=0" TSAN_OPTIONS="$TSAN_OPTIONS:handle_segv=0" "$bzna" pack \
        "$t/drawn" -o "$t/y.bzna" --jobs 1 --preset medium >"$t/out" 2>"$t/err" &
    wait_done "$t/y.bzna.partial.log" 1
    child=$(children $!)
    kill -STOP "$child"
    kill "-$1" "$child"
    kill -CONT "$child" 2>/dev/null
    ended=0
    wait $! || ended=$?
}

crash_tests() {
    if [ ! -r /proc/self/stat ]; then skip "a process that encodes crashes" "there is no /proc"; return; fi
    run "$build/draw_pictures" "$t/drawn" 4
    struck SEGV
    same "a crash of a codec leaves a picture out" "$ended" 1
    same "it is named, and it is one" "$(grep -c 'drawn/.*ppm: the decoder or encoder crashed (signal 11)' "$t/err")" 1
    expect 0 "the others are packed" "$bzna" verify --decode --json "$t/y.bzna"
    same "all three" "$(field samples <"$t/out")" 3
    struck KILL
    same "a process that is killed from outside is an error" "$ended" 1
    says "$t/err" "a process that encodes ended with signal 9: is memory out?" "it says so"
    says "$t/err" "to continue, give the same command with --resume" "and how to go on"
    if [ -e "$t/y.bzna" ]; then fail "there is no archive"; else pass; fi
    expect 0 "it goes on" "$bzna" pack "$t/drawn" -o "$t/y.bzna" --preset medium --resume --json
    same "with all four" "$(field samples <"$t/out")" 4
}

# Copies go to a thread in blocks: one failed write anywhere, and --resume ends as if there had been none. 30 samples of
# 97 kB are three blocks.
block_tests() {
    if [ -z "$failing" ]; then skip "failed writes of blocks" "calls cannot be made to fail here"; return; fi
    mkdir "$t/copied"
    { cat $data/pictures/jpeg_420_progressive.jpg; head -c 96000 $data/mini_h265.bzna; printf '\377\331'; } >"$t/one.jpg"
    for i in $(seq 100 129); do cp "$t/one.jpg" "$t/copied/$i.jpg"; done
    copy="$bzna pack $t/copied -o $t/c.bzna --codec copy --check headers --jobs 1"
    # shellcheck disable=SC2086  # copy is words
    expect 0 "copies" $copy
    mv "$t/c.bzna" "$t/copied.bzna"
    for fault in "pwrite 1 28" "pwrite 2 28" "pwrite 2 short" "pwrite 3 5" "pwrite 4 28" "write 4 28" "write 5 28" \
        "pthread_create 1 11" "fsync 2 5"; do
        rm -f "$t/met"
        # shellcheck disable=SC2086
        run env "FAIL_CALL=$fault" "FAIL_MET=$t/met" "LD_PRELOAD=$failing" $copy
        same "$fault is met" "$(wc -c <"$t/met" 2>"$t/sink")" 1
        case $fault in
        *short | pthread*) same "$fault is gone around" "$status" 0 ;;
        *)  same "$fault is an error" "$status" 1
            says "$t/err" "cannot be written: " "$fault: the message says so"
            if [ -e "$t/c.bzna" ]; then fail "$fault: there is no archive"; else pass; fi
            # shellcheck disable=SC2086
            expect 0 "$fault: it goes on" $copy --resume ;;
        esac
        if cmp -s "$t/c.bzna" "$t/copied.bzna"; then pass; else fail "$fault: the same bytes"; fi
        rm -f "$t/c.bzna"*
    done
    rm -f "$t/met" "$t/c.bzna"
    # shellcheck disable=SC2086
    run env "FAIL_CALL=fork 1 11" "FAIL_MET=$t/met" "LD_PRELOAD=$failing" $copy
    same "files that are kept are packed without processes" "$status" 0
    if [ -e "$t/met" ]; then fail "no process is started for them"; else pass; fi
    rm -f "$t/c.bzna"
    cp "$data/pictures/png_palette_2.png" "$t/copied/200.png"
    # shellcheck disable=SC2086
    run env "FAIL_CALL=fork 1 11" "FAIL_MET=$t/met" "LD_PRELOAD=$failing" $copy
    same "another file needs one" "$status $(wc -c <"$t/met" 2>"$t/sink")" "1 1"
    says "$t/err" "no process could be started: " "the message says so"
    # shellcheck disable=SC2086
    expect 0 "it goes on once one can be" $copy --resume
}

draw
kill_tests
only_missing_tests
change_tests
power_tests
signal_tests
full_tests
crash_tests
block_tests
finish
