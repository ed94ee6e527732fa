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
    skip "gpu-check on the fake driver" "built without nv-codec-headers or clang"
    finish
fi
check gpu_check_is_skipped_without_a_driver says "SKIP gpu-check: context_config.device: libcuda.so.1" driverless $MAKE gpu-check
check gpu_check_counts_what_it_skips says "tests/gpu_check.c: 0 passed, 0 failed, " driverless $MAKE gpu-check
check gpu_bench_is_skipped_without_a_driver says "SKIP gpu-bench: context_config.device: libcuda.so.1" driverless $MAKE gpu-bench
if [ -z "$TEST_ALL" ]; then echo "LEFT test_gpu.sh: gpu-check and gpu-bench on the fake driver"; finish; fi
if [ ! -x "$BZNA" ] || ! command -v ffmpeg >/dev/null; then skip "gpu-check on the fake driver" "no $BZNA or no ffmpeg to make data with"; finish; fi

cp "$BZNA" "$BUILD/draw_pictures" "$T/"
check the_fake_driver_builds make --no-print-directory -s "$BUILD/tests/fake/libnvcuvid.so.1"
check gpu_record_builds $MAKE "$T/gpu/gpu_record"
"$T/draw_pictures" "$T/pictures" 4
check data_is_made says "4 pictures of" env GPU_FEW=1 BUILD="$T" sh tests/gpu.sh data "$T/pictures"
check gpu_check_holds_on_the_fake says " 0 failed, " faked sh tests/gpu.sh check
check a_short_run_holds_on_the_fake says " 0 failed, 0 skipped" faked sh tests/gpu.sh check --short
check the_kernel_alone_holds_on_the_fake says "1 passed, 0 failed, 0 skipped" faked sh tests/gpu.sh check --short --kernel
check the_fake_is_not_measured says "SKIP gpu-bench: the fake driver" faked sh tests/gpu.sh bench
check no_figures_of_it_are_written sh -c "! [ -e $T/gpu/bench.json ]"
check gpu_bench_can_be_rehearsed faked sh tests/gpu.sh bench --rehearsal
check every_figure_of_a_rehearsal_is_marked sh -c "! grep -vE '^(rehearsal: |gpu_peer: |$)' $T/log"
check every_figure_in_its_file_is_marked sh -c "grep -q '\"kind\"' $T/gpu/bench.json && ! grep '\"kind\"' $T/gpu/bench.json | grep -v '\"rehearsal\": true'"
for kind in "end to end" "driver call" contexts "bare sessions" kernel "decoder memory"; do
    check "a_rehearsal_has_figures_of_$(echo "$kind" | tr ' ' _)" grep -qF -e "\"kind\": \"$kind\"" "$T/gpu/bench.json"
done
check a_rehearsal_has_decoders_that_got_another_size sh -c "grep -F 'giving it another size' $T/gpu/bench.json | grep -qv '\"count\": 0}'"
if command -v python3 >/dev/null; then check its_file_is_json python3 -m json.tool "$T/gpu/bench.json"
else skip its_file_is_json "no python3 here"; fi
finish
