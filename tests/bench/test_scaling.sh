#!/bin/sh
# The measurement of how a loader's rate grows with its threads: that it runs, and what its report has. Not how fast
# anything is. Usage: sh tests/bench/test_scaling.sh build/bzna build
. tests/tool/tool.sh

if ! command -v ffmpeg > /dev/null; then skip scaling_is_measured_for_every_set "no ffmpeg [ffmpeg]"; finish; fi
program=$build/bench/bench_scaling
expect 0 the_program_is_built make --no-print-directory -s "BUILD=$build" "$program"
"$build/draw_pictures" "$t/drawn" 3 > /dev/null
expect 0 its_sets_are_made sh tests/make/scaling.sh data "$build" "$t/drawn" "$t/sets"
same small_pictures_are_cut_32_from_each "$(find "$t/sets/small" -name '*.jpg' | wc -l | tr -d ' ')" 96

SCALING_PROGRAM=$program expect 0 scaling_is_measured sh tests/make/scaling.sh run "$t/sets" --seconds 0.05 --rounds 2 \
    --threads 1,2
same a_line_for_each_set_and_number_of_threads "$(grep -c '^SCALING ' "$t/out")" 8
for set in photographs jpeg64 records32 h264; do
    same "one_threads_share_is_1_for_$set" \
        "$(sed -n "s/^SCALING $set  *1 threads .*, \([0-9.]*\) of one .*/\1/p" "$t/out")" 1.00
done
tail -n 1 "$t/out" > "$t/json"
if [ -z "$python" ]; then skip the_last_line_is_json_with_the_lines_figures "no python3 here [python3]"
else
    expect 0 the_last_line_is_json_with_the_lines_figures "$python" - "$t/json" "$t/out" << 'EOS'
import json, re, sys
report = json.load(open(sys.argv[1]))
lines = [re.match(r"SCALING (\S+) +(\d+) threads +(\d+) pictures/s, ([\d.]+) of", line) for line in open(sys.argv[2])]
lines = [(m[1], int(m[2]), int(m[3])) for m in lines if m]
runs = [(s["set"], r["threads"], round(r["pictures_per_second"])) for s in report["sets"] for r in s["runs"]]
assert len(runs) == 8 and all(a[:2] == b[:2] and abs(a[2] - b[2]) <= 1 for a, b in zip(runs, lines)), (runs, lines)
for run in (r for s in report["sets"] for r in s["runs"]):
    assert run["pictures_per_second"] > 0 and run["switches_per_picture"] >= 0 and 0 <= run["lock_wait_share"] <= 1, run
EOS
fi

# Within a time that is given, as a part of another measurement. What was not measured is named.
mkdir -p "$t/a@b" && mv "$t/sets/small" "$t/a@b/small"
expect 0 a_limit_ends_it "$program" --seconds 0.05 --rounds 15 --threads 1,2 --limit 0.001 "jpeg64=$t/a@b/small@64" \
    "again=$t/a@b/small"
same what_was_not_measured_is_named "$(grep -c ': not measured, out of time$' "$t/out")" 4
same and_the_object_is_there "$(tail -n 1 "$t/out" | cut -c1-14)" '{"processors":'
mv "$t/a@b/small" "$t/sets/small"
SCALING_SECONDS=3 SCALING_SCALE=0.01 GPU_FEW=1 SCALING_PROGRAM=$program expect 0 \
    scaling_is_measured_within_its_seconds sh tests/make/scaling.sh run "$t/sets"
same the_machine_is_told "$(grep -c "^machine: [1-9][0-9]* processors" "$t/out")" 1
same only_few_numbers_of_threads "$(grep -c '^SCALING .* \(4\|8\|16\) threads' "$t/out")" 0

SCALING_PROGRAM=$program expect 1 a_set_that_cannot_be_loaded_ends_it sh tests/make/scaling.sh run \
    "$t/drawn" --seconds 0.05 --rounds 1 --threads 1
says "$t/err" drawn it_is_named
expect 2 settings_that_make_no_sense_are_refused "$program" --rounds 0 a=b
says "$t/err" rounds they_are_named
finish
