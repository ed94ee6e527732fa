#!/bin/sh
# test_gpu.sh - gpu-run, gpu-check, gpu-data and gpu-bundle, tried on the fake driver: that they work where there is no
# GPU, and what the run says of GPUs on which something is wrong
#
#     sh tests/gpu/test_gpu.sh build/bzna build        from the repository's root
# shellcheck disable=SC2086,SC2317,SC2016  # MAKE is words; check calls functions; scripts that are written
BZNA=$1; BUILD=$2
passed=0; failed=0; skipped=0
LC_ALL=C
export LC_ALL

skip() { skipped=$((skipped + 1)); echo "SKIP $1: $2"; }
check() { # name, command...: passes when the command succeeds
    name=$1; shift
    if "$@" > "$T/log" 2>&1; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL $name"; tail -n 25 "$T/log"; fi
}
needs() { # as check, of what all that follows needs
    fails=$failed; check "$@"; [ "$failed" -eq "$fails" ] || { echo "    nothing that needs it is tried"; finish; }
}
finish() { echo "tests/gpu/test_gpu.sh: $passed passed, $failed failed, $skipped skipped"; [ "$failed" -eq 0 ]; exit; }
# says TEXT COMMAND...: succeeds and prints the text
says() { text=$1; shift; "$@" > "$T/said" 2>&1; status=$?; cat "$T/said"; [ "$status" -eq 0 ] && grep -qF -e "$text" "$T/said"; }

T=$BUILD/tests/gpu                 # unoptimized: not where make gpu-check builds
rm -rf "$T"; mkdir -p "$T/nodriver"
: > "$T/nodriver/libcuda.so.1"     # no library: on a machine with a driver it stands before that
export BUILD
MAKE="make --no-print-directory -s CFLAGS=-O0 BUILD=$T"
# Unoptimized, clang takes a third of gcc's time.
[ -n "$SANITIZE$TEST_ALL" ] || ! command -v clang >/dev/null || MAKE="$MAKE CC=clang"
for file in "$BUILD/benzina_kernels.ptx" "$BUILD/benzina_kernels.ptx.h"; do [ ! -e "$file" ] || cp -p "$file" "$T/"; done
driverless() { env LD_LIBRARY_PATH="$T/nodriver" "$@"; }
faked() { env LD_LIBRARY_PATH="$BUILD/tests/fake" BUILD="$T" "$@"; }

# A training run with each loader: the program, by a tiny network on processors.
trained() { env PYTHON="$1" BUILD="$BUILD" sh tests/gpu/train_table.sh --seconds 0.3 --budget 60 --only "synthetic,h265 nvdec,jpeg,imagefolder 2"; }
check gpu_train_says_what_it_lacks says "SKIP gpu-train: " env CUDA_VISIBLE_DEVICES= PYTHON=python3 BUILD="$BUILD" \
    sh tests/gpu/gpu.sh train
if [ -n "$SANITIZE" ]; then skip "a tiny training run" "not under sanitizers"
elif ! python3 -c "import torch, torchvision" 2>/dev/null; then
    skip "a tiny training run" "python3 has no torch and torchvision [python3-torch python3-torchvision]"
else
    check a_tiny_network_trains_with_each_loader trained python3
    cp "$T/log" "$T/trained.log"
    check and_each_has_its_rate sh -c "cat $T/trained.log; [ \$(grep -cE '^\| tiny \| no \| [0-9]+ \| (synthetic|h265 nvdec|jpeg|imagefolder 2) \| [0-9]+ \| [0-9]+ % \|' $T/trained.log) -ge 4 ]"
    check and_nothing_failed sh -c "! grep 'left out' $T/trained.log"
fi

case "$SANITIZE" in *thread*) skip "gpu-check on the fake driver" "too slow under TSan, which the loader suites run under"; finish ;; esac
if ! pkg-config --exists ffnvcodec || ! command -v clang >/dev/null; then
    check gpu_check_says_what_it_lacks says "SKIP gpu-check:" driverless $MAKE gpu-check
    check gpu_run_says_what_it_lacks says "SKIP gpu-check:" driverless $MAKE gpu-run
    skip "gpu-check on the fake driver" "built without nv-codec-headers or clang [clang libffmpeg-nvenc-dev]"
    finish
fi
needs gpu_check_and_gpu_bench_build $MAKE "$T/gpu/gpu_check" "$T/gpu/gpu_bench"
check gpu_check_is_skipped_without_a_driver says "SKIP gpu-check: context_config.device: libcuda.so.1" driverless \
    $MAKE gpu-check
check gpu_check_counts_what_it_skips says "tests/gpu/gpu_check.c: 0 passed, 0 failed, " driverless $MAKE gpu-check

# What needs no encoder: archives and pictures of tests/data in the place of those that are made.
if pkg-config --exists libavcodec libavutil; then
    needs the_fake_driver_builds make --no-print-directory -s "$BUILD/tests/fake/libnvcuvid.so.1"
    needs gpu_hybrid_builds $MAKE "$T/gpu/gpu_hybrid"
else
    skip "gpu-run on the fake driver" "built without libavcodec [libavcodec-dev]"; finish
fi
mini=small; [ -z "$TEST_ALL" ] || mini=mini         # what is decoded in a tenth of the time
mkdir -p "$T/gpu/data/jpeg/class" && cp tests/data/${mini}_h265.bzna "$T/gpu/data/h265_crf20.bzna" &&
    cp tests/data/${mini}_h264.bzna "$T/gpu/data/h264_crf20.bzna" &&
    cp tests/data/${mini}_h264.bzna "$T/gpu/data/h264_tuned.bzna"
cp tests/data/pictures/jpeg_4[0-9]*.jpg "$T/gpu/data/jpeg/class/"
check a_short_check_needs_no_data says " 0 failed, " faked sh tests/gpu/gpu.sh check --short

# run SHAPE SCRIPT [OPTIONS]: what the run says where the driver behaves so. Little of all, so that it takes seconds.
run() {
    shape=$1 script=$2; shift 2
    rm -rf "${T:?}/$shape"; mkdir -p "$T/$shape"
    env LD_LIBRARY_PATH="${FAKES:-$BUILD/tests/fake}" BUILD="$T" OUT="$T/$shape" ${script:+FAKE_SCRIPT="$script"} \
        GPU_FEW=1 GPU_FIND="$T" GPU_BEGIN=${BEGIN:-0} \
        sh tests/gpu/gpu.sh run --scale 0.02 "$@" > "$T/$shape/out" 2>&1
}
# told SHAPE LINE TEXT...: the report's line that begins so has all of these, patterns of grep.
told() {
    file=$T/$1/out line=$2; shift 2
    grep -E "^(fake driver: )?$line" "$file" > "$T/line" || { echo "no line begins with $line"; cat "$file"; return 1; }
    for text; do grep -q -e "$text" "$T/line" || { echo "not said: $text"; cat "$T/line"; tail -n 15 "$file"; return 1; }; done
}
json() { if command -v python3 >/dev/null; then check "$1" python3 -c "import json, sys; r = json.load(open('$2')); s = {x['name']: x for x in r['sections']}; assert $3, r"; else skip "$1" "no python3 here [python3]"; fi; }

# 1: everything as it should be.
BEGIN=1; check a_whole_gpu_is_run run whole "" --limit 300; BEGIN=
check whole_the_environment_is_told told whole "1 environment:" "CUDA 12.8; Fake GPU" "compute capability 9.0" "MIG" \
    "libnvcuvid: .*libnvcuvid.so.1" "NVDEC: yes, 7 engines"
check whole_each_kernel_is_compared told whole "2 kernels:" "linear equal; ramp equal; any equal" \
    "GPU warps equal the CPU's"
check whole_capabilities_have_engines told whole "3 capabilities:" \
    "H.264 4:2:0 8 bits (7 engines); H.265 4:2:0 8/10/12, 4:4:4 8/10/12 bits (7 engines); AV1 none"
check whole_pictures_are_decoded_by_hand told whole "4 by hand:" \
    "H.265: asks 4 surfaces; decode [0-9]* us; status .*success at [0-9]* us; map [0-9]* us, pitch [1-9][0-9]*; after it success.*pixels right |" "H.264: asks .*pixels right$"
check whole_the_self_check_passes told whole "5 self-check:" \
    "H.264 8 bits passes; H.265 8 bits passes; H.265 10 bits passes"
check whole_the_gate_holds told whole "6 gate" "H.264 holds; H.265 holds"
check whole_frames_are_equal told whole "7 MD5:" "32 of 32 frames equal, 0 refused, 0 failed"
check whole_rates_have_sessions_contexts_and_processes told whole "9 pictures/s" "sessions 1: [1-9]" \
    "contexts 1: [0-9]* (.* 2: " "processes 1: [0-9]* (.* 2: "
check whole_what_limits_is_named told whole "10 end to end:" "[1-9][0-9]* pictures/s of 224x224 (h265_crf20, " \
    "limited by "
check whole_engines_and_processors_together told whole "12 together:" \
    "h265_crf20 hybrid [1-9][0-9]*.*, NVDEC [1-9][0-9]*, processors [1-9][0-9]*; h264_tuned hybrid [1-9]" \
    "sessions x depth: 1x4: [1-9][0-9]* 1x8: [1-9].* 2x4: [1-9].* 2x16: [1-9]" \
    "a picture): sleeps in map [0-9.]* ([0-9.]*), sleeps by status .*, spins in map .*, spins by status" \
    "loaders, pictures/s: JPEG by NVDEC not measured, H.265 [1-9][0-9]*, H.265 twice [1-9].*, JPEG by processors [1-9]"
check whole_no_section_failed sh -c "! grep -E '^fake driver: -- [a-z0-9]+: (out|died|failed)' $T/whole/out"
check whole_every_line_says_that_the_driver_is_a_fake sh -c "! grep -v '^fake driver: ' $T/whole/out"
check whole_the_text_is_short sh -c "[ \$(sed -n '/^fake driver: 1 env/,\$p' $T/whole/out | wc -c) -le 12000 ]"
check whole_one_file_is_written sh -c "[ \"\$(ls $T/whole)\" = \"\$(printf 'out\nreport.json')\" ]"
json whole_the_report_is_json_with_all_in_it "$T/whole/report.json" \
    "len(s) == 29 and len(r['date']) == 10 and r['driver'].startswith('the fake') and r['text'][0].startswith('fake driver: 1 env') and all(x['status'] == 'ok' for n, x in s.items() if n != 'scaling') and all(f['fake_driver'] for x in s.values() for f in x['figures'] if f['kind'] != 'peers')"
for kind in caps "kernel equality" hand self-check "bare sessions" "end to end" processes "driver call" contexts kernel "decoder memory" uploads hybrid grid waiting loaders; do
    check "whole_has_figures_of_$(echo "$kind" | tr ' ' _)" grep -qF -e "\"kind\": \"$kind\"" "$T/whole/report.json"
done

# What the rows of sections say, each by itself: figures SECTION PROGRAM EXPRESSION [VARIABLE=VALUE ...], of the figures f.
figures() {
    section=$1 program=$2 expression=$3; shift 3
    rm -f "$T/figures"
    env LD_LIBRARY_PATH="${FAKES:-$BUILD/tests/fake}" "$@" "$T/gpu/$program" "$section" --data "${DATA:-$T/gpu/data}" --scale 0.1 \
        --out "$T/figures" && python3 -c "import json; f = [json.loads(l) for l in open('$T/figures')]
assert $expression, f"
}
rows() { # NAME ARGUMENTS OF FIGURES
    if command -v python3 >/dev/null; then check "$1" figures "$2" "$3" "$4" ${5:+"$5"} ${6:+"$6"}; else skip "$1" "no python3 here [python3]"; fi
}
rows processors_take_pictures_from_slow_engines_where_decoding_is_hybrid hybrid gpu_hybrid \
    "[(x['archive'], x['way']) for x in f] == [(a, w) for w in ('hybrid', 'NVDEC', 'processors') for a in ('h265_crf20', 'h264_tuned')] and all(x['images_per_second'] > 0 and not x['samples_failed'] and not x['fallbacks'] and (x['samples_hybrid'] > 0) == (x['way'] == 'hybrid') and (x['samples_software'] > 0) == (x['way'] != 'NVDEC') and (x['samples_nvdec'] > 0) == (x['way'] != 'processors') and x['samples_software'] == (x['samples_hybrid'] if x['way'] == 'hybrid' else x['samples_software']) for x in f)" \
    FAKE_SCRIPT=engine_us=10000
rows each_session_has_as_many_pictures_as_its_row_says grid gpu_bench \
    "[(x['what'], x['sessions'], x['depth']) for x in f] == [(w, s, d) for w in ('loader', 'decoding alone') for s in (1, 2) for d in (4, 8, 16)] and all(x['images_per_second'] > 0 for x in f if x['what'] == 'loader') and any(x['images_per_second'] > 0 for x in f if x['what'] != 'loader')"
rows a_session_waits_as_its_row_says waiting gpu_bench \
    "[(x['what'], x['context'], x['waits']) for x in f] == [(w, c, h) for w in ('loader', 'decoding alone') for c in ('sleeps', 'spins') for h in ('in map', 'by status')] and all(x['images_per_second'] > 0 and (x['status_calls_per_picture'] > 2 if x['waits'] == 'by status' else x['status_calls_per_picture'] < 1.1) for x in f)" \
    FAKE_SCRIPT=engine_us=3000
rows two_loaders_of_a_context_both_have_batches loaders gpu_bench \
    "[x['what'] for x in f] == ['JPEG by NVDEC', 'H.265', 'H.265 twice', 'JPEG by processors', 'H.265, and JPEG by processors'] and f[0]['reason'] and all(x['first'] > 0 and x['images_per_second'] > 0 and not x['samples_failed'] and (x['second'] or 0) >= (x['loaders'] == 2) for x in f[1:]) and [(x['samples_nvdec'] > 0, x['samples_software'] > 0) for x in f[1:]] == [(True, False), (True, False), (False, True), (True, True)]"
for point in "hybrid 6" "grid 12" "waiting 8" "loaders 4"; do
    check "points_that_are_left_out_are_named_by_${point% *}" sh -c \
        "[ \$(LD_LIBRARY_PATH=$BUILD/tests/fake $T/gpu/gpu_hybrid ${point% *} --data $T/gpu/data --scale 0.02 --budget 0.001 | grep -c 'not measured, out of time') -eq ${point#* } ]"
done

# 2: a container without the video capability.
mkdir -p "$T/novideo"; cp "$BUILD/tests/fake/libcuda.so.1" "$T/novideo/"
FAKES=$T/novideo; check without_libnvcuvid_it_runs run no_libnvcuvid "" --limit 300 --only "environment kernels capabilities hand265 selfcheck gate md5 surfaces uploads end contexts processes kernel ptx memory peers"; FAKES=
check no_libnvcuvid_is_told_with_where_it_was_looked_for told no_libnvcuvid "1 environment:" \
    "libnvcuvid: NOT FOUND (NVIDIA_DRIVER_CAPABILITIES: (not set); files of the driver: .*libcuda.so.1" \
    "NVIDIA_DRIVER_CAPABILITIES=compute,video"
check no_libnvcuvid_kernels_are_compared told no_libnvcuvid "2 kernels:" \
    "linear equal; ramp equal; any equal" "GPU warps equal the CPU's"
check no_libnvcuvid_batches_are_loaded told no_libnvcuvid "10 end to end:" "[1-9][0-9]* pictures/s of 224x224 (jpeg, "
check no_libnvcuvid_contexts_and_processes_are_measured told no_libnvcuvid "9 pictures/s" "contexts 1: [0-9]* 2: " \
    "processes 1: [0-9]* 2: "
check no_libnvcuvid_the_rest_is_skipped_with_the_reason told no_libnvcuvid \
    "-- (hand265|selfcheck|gate|md5|surfaces|memory):" "skipped: libnvcuvid.so.1 was not found"
check no_libnvcuvid_nothing_dies sh -c "! grep -E '^fake driver: -- [a-z0-9]+: (out|died|failed)' $T/no_libnvcuvid/out"

# The same, but the file is there, where the loader does not look.
rm -rf "$T/video"; mkdir "$T/video"; cp "$BUILD/tests/fake/libnvcuvid.so.1" "$BUILD/tests/fake/libcuda.so.1" "$T/video/"
FAKES=$T/novideo; check a_libnvcuvid_elsewhere_is_found run elsewhere "" --limit 300 --only "environment hand265" ; FAKES=
check elsewhere_it_is_used told elsewhere "1 environment:" "libnvcuvid: .*/video/libnvcuvid.so.1; NVDEC: yes"
check elsewhere_pictures_are_decoded told elsewhere "4 by hand:" "H.265: .*pixels right"
rm -rf "$T/video"

# 3: one wrong bit in one kernel.
check a_wrong_bit_ends_nothing run wrong_bit "wrong_kernel=1 wrong_entry=1" --limit 300 --only \
    "environment kernels selfcheck md5"
check wrong_bit_is_told_with_its_kernel_and_place told wrong_bit "2 kernels:" \
    "linear WRONG: [0-9]* of [0-9]* values differ, by at most .*, first slot [0-9]*, x 0, y 0, channel 0 of .*; ramp equal; any equal"
check wrong_bit_decoding_is_judged_by_itself told wrong_bit "5 self-check:" "H.264 8 bits passes; H.265 8 bits passes"
check wrong_bit_frames_are_equal told wrong_bit "7 MD5:" "32 of 32 frames equal"

# A decoder that writes into surfaces which are still read. Copies begin only when somebody waits for them, so that a
# busy machine decodes the next pictures before them, too.
check a_surface_that_is_not_free_ends_nothing run unfree "wrong_surface=1 lazy_streams=1" --limit 300 --only gate
check unfree_is_told told unfree "6 gate" "H.264 IS OVERWRITTEN; H.265 IS OVERWRITTEN"

# 4: a decoder that refuses a codec.
check a_refused_codec_ends_nothing run refuses "h264=0" --limit 300 --only \
    "environment capabilities hand265 hand264 selfcheck md5"
check refuses_is_told told refuses "3 capabilities:" "H.264 none; H.265 4:2:0"
check refuses_by_hand told refuses "4 by hand:" "H.265: .*pixels right | H.264: THE DRIVER DOES NOT DECODE IT"
check refuses_in_the_self_check told refuses "5 self-check:" "H.264 8 bits is not decoded here; H.265 8 bits passes"
check refuses_frames told refuses "7 MD5:" "16 of 32 frames equal, 16 refused"

# 5: a decoder that hangs.
check a_hang_costs_its_limit run hangs "stuck=1" --limit 4 --only \
    "environment kernels capabilities hand265 hand264 md5 ptx"
check hangs_is_told_with_the_call told hangs "4 by hand:" \
    "H.265: Out of time after 4 s in cuvidMapVideoFrame64 | H.264: Out of time after 4 s in cuvidMapVideoFrame64"
check hangs_is_told_of_its_sections told hangs "sections:" "hand265 OUT OF TIME AFTER 4 S" "md5 OUT OF TIME AFTER 4 S" \
    "ptx [0-9]* s"

# 6: a decoder that lags: it takes long, and gives the picture before.
check a_lag_ends_nothing run lags "wrong_order=1 engine_us=30000" --limit 300 --only \
    "environment hand265 selfcheck md5"
check lags_is_told_with_the_time told lags "4 by hand:" \
    "H.265: .*in progress at [0-9]* us, success at \([3-9][0-9]\{4\}\|[1-9][0-9]\{5,\}\) us"
check lags_fails_the_self_check told lags "5 self-check:" \
    "H.265 8 bits FAILS: wrong pixels"
check lags_has_wrong_frames told lags "7 MD5:" "[0-9] of 32 frames equal.*WRONG: .*mini_h26"

# 7: a decoder that dies, and the device with it.
check a_death_ends_nothing run dies "fail=engine_picture,1,700,1" --limit 300 --only \
    "environment kernels hand265 selfcheck"
check dies_is_told_with_the_error told dies "4 by hand:" "H.265: .*map FAILED (700)"
check dies_kernels_are_compared told dies "2 kernels:" "linear equal; ramp equal; any equal"
check dies_in_the_self_check told dies "5 self-check:" "FAILS: .*(700)"

# 8: drivers that are too old: one that corrupts memory, one that does not take the PTX.
check an_old_driver_ends_nothing run old "driver_version=11030" --limit 300 --only \
    "environment kernels"
check old_is_told_with_what_to_do told old "1 environment:" "CUDA 11.3" \
    "corrupts memory when several video decoders work at once: update the driver to 470.21"
check old_kernels_are_compared told old "2 kernels:" "linear equal"
check an_older_driver_ends_nothing run older "fail=cuModuleLoadData,1,222,1" --limit 300 --only \
    "environment kernels capabilities hand265 selfcheck md5"
check older_is_told_with_the_reason told older "1 environment:" "NO DEVICE: .*the driver is too old for this kernel"

# Sections that die, hang, or stop in the middle of a line: the others, and what was written before, are there.
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
broken() { env LD_LIBRARY_PATH="$BUILD/tests/fake" BUILD="$T/broken" GPU_FIND="$T" GPU_FEW=1 "$@"; }
check a_death_and_a_hang_cost_their_own_sections says "sections: " broken sh tests/gpu/gpu.sh run --scale 0.02 \
    --limit 3 --only "memory environment parser decoders"
json and_the_report_says_which "$T/broken/gpu/report.json" \
    "s['environment']['status'] == s['decoders']['status'] == 'ok' and 'signal 11' in s['memory']['status'] and 'out of time' in s['parser']['status'] and [f['kind'] for f in s['memory']['figures']] == ['whole']"
check hybrid_decoding_without_its_program_is_skipped_with_the_reason says \
    "-- hybrid: skipped: $T/broken/gpu/gpu_hybrid is not there" broken sh tests/gpu/gpu.sh run --scale 0.02 --only hybrid
check a_section_without_time_is_left_out says "left out" broken sh tests/gpu/gpu.sh run --scale 0.02 --budget 3 \
    --only "environment peers"

# What somebody else measures, in the same report.
mkdir -p "$T/gpu/scaling"
printf '#!/bin/sh\necho "SCALING photographs   2 threads   120 pictures/s, 0.97 of one"\necho "limit $SCALING_SECONDS, scale $SCALING_SCALE"\necho "{\\"sets\\":[{\\"set\\":\\"photographs\\"}]}"\n' > "$T/gpu/scaling/scaling.sh"
chmod +x "$T/gpu/scaling/scaling.sh"
check scaling_runs_first run scaling "" --limit 10 --only "scaling kernels"
json and_stands_in_the_report "$T/scaling/report.json" \
    "list(s) == ['scaling', 'kernels'] and s['scaling']['figures'] == [{'kind': 'scaling', 'sets': [{'set': 'photographs'}]}] and any('SCALING photographs   2 ' in l for l in r['text'])"
json and_its_object_is_no_string_of_the_log "$T/scaling/report.json" \
    "s['scaling']['log'][1:] == ['limit 10, scale 0.02'] and not any('{' in l for l in r['text'])"
check and_in_a_line_of_its_own told scaling "11 CPU alone" "with 16): photographs 2: 120 (0.97)$"
rm -rf "$T/gpu/scaling"
check limits_add_up_to_what_the_head_says \
    sh -c "sed -n '/^LIMITS=/,/\"$/p' tests/gpu/gpu.sh | grep -o '=[0-9][0-9]*' | tr -d = | awk '{ s += \$1 } END { print s; exit s != 562 }' && grep -qF 'add up to 562 s' tests/gpu/gpu.sh"

# Rates of several contexts, on a driver that does nothing but take its time: four sessions of 50 pictures/s. A batch
# that lay ready is none of theirs.
needs the_null_driver_builds make --no-print-directory -s "$BUILD/bench/libcuda.so.1" "$BUILD/bench/libnvcuvid.so.1"
rates_hold() {
    for round in 1 2 3; do
        env LD_LIBRARY_PATH="$BUILD/bench" NULL_MODEL="1 20000 0 0" "$T/gpu/gpu_bench" contexts --data "$T/gpu/data" \
            --scale 0.02 --out "$T/rates" || return 1
        awk '/"kind": "contexts"/ { sub(/.*"images_per_second": /, ""); n++; if ($0 + 0 > 600) { print "round '$round': " $0 + 0 " pictures/s"; bad = 1 } } END { exit bad || n != 2 }' "$T/rates" || return 1
    done
}
check a_batch_that_lay_ready_is_not_counted_as_made rates_hold
# A driver whose pictures take 20 ms: to ask for the status every tenth of a millisecond costs more than to sleep.
case "$CPPFLAGS" in *TEST_EMULATED*) skip "what asking for the status costs" "QEMU's own cost is larger" ;; *)
FAKES=$BUILD/bench; rows asking_for_the_status_costs_processors_more_than_sleeping waiting gpu_bench \
    "all(x['core_seconds_per_1000'] > 2 * y['core_seconds_per_1000'] for x in f for y in f if (x['what'], x['context'], x['waits'], y['waits']) == (y['what'], y['context'], 'by status', 'in map'))" \
    "NULL_MODEL=1 20000 0 0"; FAKES= ;;
esac

# ---- With data that an encoder makes ----
if [ ! -x "$BZNA" ] || ! command -v ffmpeg >/dev/null; then skip "gpu-run with all data" "no $BZNA or no ffmpeg to make data with"; finish; fi
cp "$BZNA" "$BUILD/draw_pictures" "$T/"
# JPEG as NVDEC takes it: baseline, 4:2:0, large enough.
jpegs_for_nvdec() {
    mkdir -p "$T/jpeg_data/jpeg/class" && cp "$T/gpu/data/h265_crf20.bzna" "$T/jpeg_data/" &&
        ffmpeg -v error -nostdin -y -f lavfi -i testsrc2=size=128x96:rate=5,format=yuvj420p -frames:v 4 -q:v 5 \
            "$T/jpeg_data/jpeg/class/%d.jpg"
}
check jpegs_that_nvdec_takes_are_made jpegs_for_nvdec
DATA=$T/jpeg_data; rows jpeg_is_decoded_by_nvdec_by_processors_and_by_both loaders gpu_bench \
    "[(x['what'], x['samples_nvdec'] > 0, x['samples_software'] > 0) for x in f[2:]] == [('JPEG by processors', False, True), ('JPEG by NVDEC', True, False), ('JPEG by NVDEC and by processors', True, True), ('H.265, and JPEG by processors', True, True)] and len(f) == 6 and all(x['first'] > 0 and not x['samples_failed'] for x in f)" \
    FAKE_SCRIPT=jpeg=2; DATA=
# An engine that costs so much a picture, a byte and a macroblock: the fit must say so. The driver that does nothing is
# made to take the time.
# PICTURE_US KILOBYTE_US MACROBLOCK_US: to a hundredth. By the driver's own clock, so that a busy machine changes
# nothing.
fits() {
    rm -f "$T/fit"
    env LD_LIBRARY_PATH="$BUILD/bench" NULL_VIRTUAL=1 NULL_MODEL="1 $*" "$T/gpu/gpu_bench" engine --data "$T/gpu/data" \
        --scale 0.6 --out "$T/fit" || return 1
    awk -v a="$1" -v b="$2" -v c="$3" '
        function number(key) { return match($0, "\"" key "\": [-0-9.e+]+") ? substr($0, RSTART + length(key) + 4, RLENGTH - length(key) - 4) + 0 : "nan" }
        function near(x, y, about) { return x >= y * 0.99 - about && x <= y * 1.01 + about }
        /"engine fit"/ && number("depth") == 4 {
            print; seen = near(number("a_us"), a, 0.3) && near(number("b_us_per_byte") * 1024, b, 0.02) && near(number("c_us_per_macroblock"), c, 0.0005)
        } END { exit !seen }' "$T/fit"
}
"$T/draw_pictures" "$T/pictures" 4
# Four drawn pictures of 512x512, a piece of 160x160 and of 256x256 of each, and all four side by side.
size_pictures() {
    rm -rf "$T/sized"; mkdir -p "$T/sized/512/all" "$T/sized/160/all" "$T/sized/256/all" "$T/sized/1024/all"
    ffmpeg -v error -nostdin -y -i "$T/pictures/charts/00.ppm" -i "$T/pictures/fractals/00.ppm" \
        -i "$T/pictures/plasma/00.ppm" -i "$T/pictures/shapes/00.ppm" -filter_complex "
            [0]scale=512:512,setsar=1[a]; [1]scale=512:512,setsar=1[b];
            [2]scale=512:512,setsar=1[c]; [3]scale=512:512,setsar=1[d];
            [a][b][c][d]concat=n=4,setpts=N/25/TB,split=4[512][x][y][z];
            [x]crop=160:160[160]; [y]crop=256:256[256]; [z]tile=2x2[1024]" \
        -map "[512]" "$T/sized/512/all/%d.ppm" -map "[160]" "$T/sized/160/all/%d.ppm" \
        -map "[256]" "$T/sized/256/all/%d.ppm" -map "[1024]" "$T/sized/1024/all/%d.ppm" &&
        [ "$(find "$T/sized" -name '*.ppm' | wc -l)" -eq 13 ]
}
# fit_archive NAME EDGE CRF: an archive of those of that edge.
fit_archive() {
    "$T/bzna" pack "$T/sized/$2" -o "$T/gpu/data/$1.bzna" --crf "$3" --preset ultrafast --frame exact --thumb none
}
check pictures_of_several_sizes_are_made size_pictures
check pictures_of_few_bytes_are_packed fit_archive h265_5k 512 36
check pictures_of_many_bytes_are_packed fit_archive h265_60k 512 6
check frames_of_160_are_packed fit_archive fit_160x160 160 20
check frames_of_256_are_packed fit_archive fit_256x256 256 20
check frames_of_1024_are_packed fit_archive fit_1024x1024 1024 20
check an_engine_of_bytes_is_fitted fits 40 8 0
check an_engine_of_macroblocks_is_fitted fits 40 0 0.05
check an_engine_of_all_three_is_fitted fits 60 4 0.03
if [ -z "$TEST_ALL" ]; then echo "LEFT test_gpu.sh: gpu-check and gpu-run on the fake driver with all data, the bundle"; finish; fi
check gpu_record_builds $MAKE "$T/gpu/gpu_record"
check data_is_made_of_photographs_and_drawn_pictures says "13 pictures: those of" env GPU_FEW=1 BUILD="$T" sh tests/gpu/gpu.sh data "$T/pictures"
# Pictures that are done after the longest burden: nothing is known then, and this is said.
check what_is_not_known_of_surfaces_is_skipped says "H.265: the next picture was done too late in all tries" \
    faked FAKE_SCRIPT=engine_us=400000 sh tests/gpu/gpu.sh check --only a_picture_holds
check and_counts_as_skipped grep -q "gpu_check.c: 0 passed, 0 failed, 1 skipped" "$T/said"
some=; if [ -n "$SANITIZE" ]; then some="--only frames_of"; fi     # the loaders' suites run under sanitizers anyway
check gpu_check_holds_on_the_fake says " 0 failed, " faked sh tests/gpu/gpu.sh check $some
check a_short_run_holds_on_the_fake says " 0 failed, 0 skipped" faked sh tests/gpu/gpu.sh check --short
check the_kernels_alone_hold_on_the_fake says "2 passed, 0 failed, 0 skipped" faked sh tests/gpu/gpu.sh check --short \
    --kernel
if [ -n "$SANITIZE" ]; then finish; fi              # what follows is of scripts, which sanitizers do not watch

# A bundle runs by itself, from anywhere, without the repository.
if [ -e "$BUILD/static/ffmpeg/done" ]; then
    check what_measures_scaling_is_made says "4 photographs, 128 small pictures" env BUILD="$T" \
        STATIC="$PWD/$BUILD/static/ffmpeg" OPT=-O1 sh tests/gpu/gpu.sh scaling "$T/pictures"
    check what_decodes_with_nvdec_is_made $MAKE STATIC="$PWD/$BUILD/static/ffmpeg" "$T/gpu/gpu_hybrid_static"
    static=
else
    static=", 'hybrid'"
    skip "a bundle with scaling" "no static FFmpeg here: tests/make/codecs.sh $BUILD/static/ffmpeg makes it [nasm meson ninja-build dpkg-dev]"
fi
mkdir -p "$T/bare/gpu" "$T/tools_only"
for tool in awk basename cat dirname find rm sed sh; do ln -sf "$(command -v $tool)" "$T/tools_only/"; done
check what_a_static_ffmpeg_needs_is_named says "[nasm meson ninja-build dpkg-dev libjpeg-dev]" \
    env PATH="$PWD/$T/tools_only" BUILD="$T/bare" sh tests/gpu/gpu.sh scaling "$T/pictures"
check a_bundle_is_made says "sh run.sh there" env BUILD="$T" sh tests/gpu/gpu.sh bundle "$T/bundle"
check and_needs_no_library_of_decoders sh -c \
    "! (ldd $T/bundle/gpu_[bch]* | grep -E 'libav|libjpeg|libsw|libz|libatomic')"
bundled() { (cd / && env LD_LIBRARY_PATH="$(cd "$OLDPWD" && cd "$BUILD/tests/fake" && pwd)" GPU_FIND="$1" GPU_FEW=1 GPU_BEGIN=2 sh "$1/run.sh" --scale 0.05 --limit 60) > "$T/whole/out" 2>&1; }
check a_bundle_runs_by_itself bundled "$(cd "$T" && pwd)/bundle"
check bundled_frames_are_equal told whole "7 MD5:" \
    "[1-9][0-9]* of [0-9]* frames equal, [0-9]* refused, 0 failed; batches ok; surfaces ok"
check bundled_the_engine_is_fitted told whole "8 one engine:" "us = .* x bytes + .* x macroblocks"
check bundled_no_section_failed sh -c "! grep -E '^fake driver: -- [a-z0-9]+: (out|died|failed)' $T/whole/out"
json bundled_the_report_has_all "$T/bundle/report.json" \
    "len(s) == 29 and all(x['status'] == 'ok' for n, x in s.items() if n not in ('scaling'$static))"
check bundled_a_training_run_is_next says "SKIP gpu-train: " env LD_LIBRARY_PATH="$PWD/$BUILD/tests/fake" GPU_FEW=1 \
    GPU_FIND="$PWD/$T/bundle" OUT="$PWD/$T" CUDA_VISIBLE_DEVICES= sh "$T/bundle/run.sh" all --scale 0.02 --only kernels
if [ -x "$T/bundle/scaling/bzna" ]; then
    check bundled_processors_help_nvdec told whole "12 together:" \
        "h265_crf20 hybrid [1-9][0-9]* (.* by processors), NVDEC [1-9].*, processors [1-9].*; h264_tuned hybrid [1-9]"
    check bundled_bzna_needs_no_library sh -c "! ldd $T/bundle/scaling/bzna"
    check bundled_bzna_decodes says "13 samples" "$T/bundle/scaling/bzna" verify \
        --decode "$T/bundle/data/h265_crf20.bzna"
    check bundled_scaling_is_measured told whole "11 CPU alone" \
        "photographs 1: [1-9][0-9]* (1.00), 2: .*; jpeg64 1: .*; records32 1: .*; h264 1: "
    json and_is_an_object_in_the_report "$T/bundle/report.json" \
        "s['scaling']['status'] == 'ok' and [x['set'] for x in s['scaling']['figures'][0]['sets']] == ['photographs', 'jpeg64', 'records32', 'h264'] and not any('pictures_per_second' in l for l in s['scaling']['log'])"
    # what a small system has, and nothing else: of busybox, where that is here, whose awk and find are not these
    tools() {
        busybox=$(command -v busybox)
        mkdir -p "$T/tools" && for tool in awk basename cat chmod cp cut date dirname find grep head ls mkdir mktemp mv nproc rm sed sh sleep sort tail timeout tr uname wc; do
            ln -sf "${busybox:-$(command -v $tool)}" "$T/tools/$tool" || return 1
        done
    }
    check a_system_of_few_tools_is_there tools
    check a_bundle_needs_few_tools env PATH="$PWD/$T/tools" LD_LIBRARY_PATH="$(cd "$BUILD/tests/fake" && pwd)" \
        GPU_FIND="$PWD/$T/bundle" GPU_FEW=1 OUT="$PWD/$T" sh "$T/bundle/run.sh" --scale 0.02 \
        --only "scaling environment kernels hand265"
    cp "$T/log" "$T/few.log"
    check and_misses_none sh -c "cat $T/few.log; ! grep -E ': (line )?[0-9]+: [^ ]*: not found|applet not found|^awk: ' $T/few.log && grep -q 'hand265: ok' $T/few.log && grep -q 'scaling: ok' $T/few.log"
    check and_its_text_has_all sh -c "cat $T/few.log; grep -q '2 kernels: linear equal' $T/few.log && grep -q '11 CPU alone.*photographs 1: ' $T/few.log"
    json and_its_report_is_json "$T/report.json" "s['hand265']['figures'] and s['scaling']['figures'][0]['sets']"
fi
check decoders_got_another_size sh -c "grep -F 'giving it another size' $T/bundle/report.json | grep -qv '\"count\": 0}'"

# A frame that is not as it should be: where, and what the parser made of it.
cp "$T/gpu/data/expected.txt" "$T/gpu/data/rows.txt" "$T/"
sed 's/^frame main10.mp4 1 ..../frame main10.mp4 1 beef/' "$T/gpu/data/expected.txt" > "$T/expected" &&
    mv "$T/expected" "$T/gpu/data/expected.txt"
sed '/^rows main10.mp4 - 1 1 /s/....$/beef/' "$T/gpu/data/rows.txt" > "$T/rows" && mv "$T/rows" "$T/gpu/data/rows.txt"
check a_wrong_frame_is_a_failure sh -c "! (BUILD=$T LD_LIBRARY_PATH=$BUILD/tests/fake sh tests/gpu/gpu.sh check --only frames_of_every_kind)"
cp "$T/log" "$T/wrong.log"
check and_is_located sh -c "cat $T/wrong.log; grep -qF 'plane 1 differs in, columns 255 to 255 (1 of 256)' $T/wrong.log"
mv "$T/expected.txt" "$T/rows.txt" "$T/gpu/data/"
check with_the_parameters_of_its_picture \
    sh -c "grep -qF 'CUVIDPICPARAMS of this picture, ' $T/wrong.log && grep -qF 'CUVIDEOFORMAT of a parser' $T/wrong.log"
finish
