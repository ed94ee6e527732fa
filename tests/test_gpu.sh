#!/bin/sh
# test_gpu.sh - gpu-data, gpu-check and gpu-bench, tried on the fake driver: that they work where there is no GPU to run them on
#
#     sh tests/test_gpu.sh build/bzna build        from the repository's root
# shellcheck disable=SC2086,SC2317  # MAKE is words; check calls functions
BZNA=$1; BUILD=$2
passed=0; failed=0; skipped=0
LC_ALL=C
export LC_ALL

skip() { skipped=$((skipped + 1)); echo "SKIP $1: $2"; }
check() { # name, command...: passes when the command succeeds
    name=$1; shift
    if "$@" > "$T/log" 2>&1; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL $name"; tail -n 25 "$T/log"; fi
}
finish() { echo "tests/test_gpu.sh: $passed passed, $failed failed, $skipped skipped"; [ "$failed" -eq 0 ]; exit; }
# says TEXT COMMAND...: succeeds and prints the text
says() { text=$1; shift; "$@" > "$T/said" 2>&1; status=$?; cat "$T/said"; [ "$status" -eq 0 ] && grep -qF -e "$text" "$T/said"; }

T=$BUILD/tests/gpu                 # unoptimized: not where make gpu-check builds
rm -rf "$T"; mkdir -p "$T/nodriver"
: > "$T/nodriver/libcuda.so.1"     # no library: on a machine with a driver it stands before that
export BUILD
MAKE="make --no-print-directory -s OPT=-O0 BUILD=$T"
driverless() { env LD_LIBRARY_PATH="$T/nodriver" "$@"; }
faked() { env LD_LIBRARY_PATH="$BUILD/tests/fake" BUILD="$T" "$@"; }

case "$SANITIZE" in *thread*) skip "gpu-check on the fake driver" "too slow under TSan, which the loader suites run under"; finish ;; esac
if ! pkg-config --exists ffnvcodec || ! command -v clang >/dev/null; then
    check gpu_check_says_what_it_lacks says "SKIP gpu-check:" driverless $MAKE gpu-check
    check gpu_bench_says_what_it_lacks says "SKIP gpu-bench:" driverless $MAKE gpu-bench
    skip "gpu-check on the fake driver" "built without nv-codec-headers or clang [clang libffmpeg-nvenc-dev]"
    finish
fi
check gpu_check_is_skipped_without_a_driver says "SKIP gpu-check: context_config.device: libcuda.so.1" driverless $MAKE gpu-check
check gpu_check_counts_what_it_skips says "tests/gpu_check.c: 0 passed, 0 failed, " driverless $MAKE gpu-check
check gpu_bench_is_skipped_without_a_driver says "SKIP gpu-bench: context_config.device: libcuda.so.1" driverless $MAKE gpu-bench

# What needs no encoder, with an archive of tests/data in the place of those that are made: what a first run on a GPU begins with.
if pkg-config --exists libavcodec libavutil; then
    check the_fake_driver_builds make --no-print-directory -s "$BUILD/tests/fake/libnvcuvid.so.1"
    mkdir -p "$T/gpu/data" && cp tests/data/mini_h265.bzna "$T/gpu/data/h265_crf20.bzna"
    check a_short_check_needs_no_data says " 0 failed, " faked sh tests/gpu.sh check --short
    check nor_does_the_begin_of_all says "limited by" faked sh tests/gpu.sh all --scale 0.02 --only "environment selfcheck gate"
    cp "$T/log" "$T/all.log"
    check where_every_way_of_the_self_check_passes sh -c "! grep FAILED $T/all.log && [ \$(grep -c 'H.26[45].* passed, ' $T/all.log) -eq 18 ]"
    check and_the_gate_holds grep -qF "tests/gpu_check.c: 1 passed, 0 failed, 0 skipped" "$T/all.log"
else
    skip "gpu-check on the fake driver" "built without libavcodec [libavcodec-dev]"; finish
fi
if [ -z "$TEST_ALL" ]; then echo "LEFT test_gpu.sh: gpu-check and gpu-bench on the fake driver, with all data"; finish; fi
if [ ! -x "$BZNA" ] || ! command -v ffmpeg >/dev/null; then skip "gpu-check on the fake driver" "no $BZNA or no ffmpeg to make data with [ffmpeg]"; finish; fi

cp "$BZNA" "$BUILD/draw_pictures" "$T/"
check gpu_record_builds $MAKE "$T/gpu/gpu_record"
"$T/draw_pictures" "$T/pictures" 4
check data_is_made says "4 pictures of" env GPU_FEW=1 BUILD="$T" sh tests/gpu.sh data "$T/pictures"
some=; if [ -n "$SANITIZE" ]; then some="--only frames_of"; fi     # the loaders' suites run under sanitizers anyway
check gpu_check_holds_on_the_fake says " 0 failed, " faked sh tests/gpu.sh check $some
check a_short_run_holds_on_the_fake says " 0 failed, 0 skipped" faked sh tests/gpu.sh check --short
check the_kernel_alone_holds_on_the_fake says "1 passed, 0 failed, 0 skipped" faked sh tests/gpu.sh check --short --kernel

# All sections, each point for a twentieth of its time: what they print and write is looked at below. Under sanitizers, those that take long are left out.
only=; if [ -n "$SANITIZE" ]; then only="environment selfcheck gate engine sessions processes calls decoders memory ptx parser"; fi
check all_sections_run_on_the_fake says "limited by" faked sh tests/gpu.sh all --scale 0.05 ${only:+--only "$only"}
cp "$T/log" "$T/all.log"
check every_line_says_that_the_driver_is_a_fake sh -c "! grep -vE '^(fake driver: |$)' $T/all.log"
check every_figure_says_so_too sh -c "! cat $T/gpu/sections/*.figures | grep '\"kind\"' | grep -v '\"kind\": \"peers\"' | grep -v '\"fake_driver\": true'"
check no_section_failed sh -c "! grep -E '^fake driver: -- [a-z0-9]+: ' $T/all.log"
if [ -n "$SANITIZE" ]; then finish; fi              # what follows is of scripts, which sanitizers do not watch
for kind in caps self-check engine "engine fit" "bare sessions" "end to end" processes "driver call" contexts kernel "decoder memory" peers; do
    check "all_has_figures_of_$(echo "$kind" | tr ' ' _)" grep -qF -e "\"kind\": \"$kind\"" "$T/gpu/report.json"
done
if grep -q a_picture_holds_while tests/gpu_check.c; then check all_runs_the_gate sh -c "! grep -q 'no check is named so: ' $T/all.log"
else skip all_runs_the_gate "gpu_check.c has no test of it"; fi
check decoders_got_another_size sh -c "grep -F 'giving it another size' $T/gpu/report.json | grep -qv '\"count\": 0}'"
json() { if command -v python3 >/dev/null; then check "$1" python3 -c "import json, sys; r = json.load(open('$2')); s = {x['name']: x for x in r['sections']}; assert $3, r"; else skip "$1" "no python3 here [python3]"; fi; }
json the_report_is_json_and_has_all_sections "$T/gpu/report.json" "len(s) == 19 and r['driver'].startswith('the fake') and all(x['log'] and x['status'] == 'ok' for x in s.values())"

# Sections that crash, hang, or stop in the middle of a line: the others, and what was written before, are there.
mkdir -p "$T/broken/gpu"
cp "$T/gpu/gpu_check" "$T/broken/gpu/"; ln -sf "$PWD/$T/gpu/data" "$T/broken/gpu/data"
cat > "$T/broken/gpu/gpu_bench" <<END
#!/bin/sh
case \$1 in
memory) shift; while [ \$1 != --out ]; do shift; done; printf '{"kind": "whole"}\n{"kind": "cut of' >\$2; kill -SEGV \$\$ ;;
parser) sleep 60 ;;
esac
exec "$PWD/$T/gpu/gpu_bench" "\$@"
END
chmod +x "$T/broken/gpu/gpu_bench"
broken() { env LD_LIBRARY_PATH="$BUILD/tests/fake" BUILD="$T/broken" "$@"; }
check a_crash_and_a_hang_cost_their_own_sections says "limited by" broken sh tests/gpu.sh all --scale 0.05 --budget 25 --only "memory environment parser decoders"
json and_the_report_says_which "$T/broken/gpu/report.json" "s['environment']['status'] == s['decoders']['status'] == 'ok' and 'signal 11' in s['memory']['status'] and 'out of time' in s['parser']['status'] and [f['kind'] for f in s['memory']['figures']] == ['whole']"
check a_section_without_time_is_left_out says "left out" broken sh tests/gpu.sh all --scale 0.05 --budget 3 --only "environment peers"

# A frame that is not as it should be: where, and what the parser made of it.
cp "$T/gpu/data/expected.txt" "$T/gpu/data/rows.txt" "$T/"
sed 's/^frame main10.mp4 1 ..../frame main10.mp4 1 beef/' "$T/gpu/data/expected.txt" > "$T/expected" && mv "$T/expected" "$T/gpu/data/expected.txt"
sed '/^rows main10.mp4 - 1 1 /s/....$/beef/' "$T/gpu/data/rows.txt" > "$T/rows" && mv "$T/rows" "$T/gpu/data/rows.txt"
check a_wrong_frame_is_a_failure sh -c "! (BUILD=$T LD_LIBRARY_PATH=$BUILD/tests/fake sh tests/gpu.sh check --only frames_of_every_kind)"
cp "$T/log" "$T/wrong.log"
check and_is_located sh -c "cat $T/wrong.log; grep -qF 'plane 1 differs in, columns 255 to 255 (1 of 256)' $T/wrong.log"
mv "$T/expected.txt" "$T/rows.txt" "$T/gpu/data/"
check with_the_parameters_of_its_picture sh -c "grep -qF 'CUVIDPICPARAMS of this picture, ' $T/wrong.log && grep -qF 'CUVIDEOFORMAT of a parser' $T/wrong.log"
finish
