#!/bin/sh
# gpu.sh - what make gpu-data, gpu-check and gpu-bench do, from the repository's root. BUILD: where products go. GPU_FEW=1: little data, for a test of it all.
#
#     sh tests/gpu.sh data [PHOTOS]     archives, JPEGs and expectations into $BUILD/gpu/data, with bzna, ffmpeg and gpu_record
#     sh tests/gpu.sh check [...]       runs $BUILD/gpu/gpu_check
#     sh tests/gpu.sh all [--scale S] [--budget S] [--only "NAME ..."]
#                                       all that is to be known of a GPU in one run of at most 570 s (--budget): report.json in $OUT (default $BUILD/gpu)
#     sh tests/gpu.sh bench [...]       of all, the measurements
#
# A section of all is a process of its own, with a time of its own: one that fails, crashes or hangs costs no other. The report is written again after each,
# so that it is whole whenever the run is ended. --scale 0.1: each point takes a tenth of its time, for a test of the program.
#
# check, all and bench need neither a compiler nor an encoder: what lies in $BUILD/gpu can be taken to a machine with a GPU, with tests/, and run there. The C
# library there must not be older than the one it was built with asks for: what is built on Debian 12 needs glibc 2.34 or newer (Ubuntu 22.04, RHEL 9).
BUILD=${BUILD:-build}
G=$BUILD/gpu
D=$G/data
LC_ALL=C
export LC_ALL

# Some containers have the driver where the loader does not look.
for folder in /usr/local/nvidia/lib64 /usr/lib/wsl/lib; do
    if [ -e $folder/libnvcuvid.so.1 ] && ! ldconfig -p 2>/dev/null | grep -q libnvcuvid.so.1; then LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder; export LD_LIBRARY_PATH; fi
done

# film NAME SIZE FRAMES CODEC PIXEL_FORMAT [PARAMETERS]: a short film whose frames all stand alone. keyint=2, as bzna pack has it: see there.
film() {
    case "${GPU_FEW:+$1}" in ''|small265|main10|odd264) ;; *) return ;; esac
    parameters=keyint=2:bframes=0:ref=1:rc-lookahead=0 tag=
    if [ "$4" = libx265 ]; then parameters=$parameters:log-level=none:info=0:pools=1:frame-threads=1 tag="-tag:v hvc1"; fi
    # shellcheck disable=SC2086  # tag is words
    ffmpeg -v error -nostdin -y -f lavfi -i "testsrc2=size=$2:rate=5,noise=alls=12:all_seed=7:allf=t,format=$5" -frames:v "$3" -c:v "$4" -${4#lib}-params "$parameters${6:+:$6}" \
        -crf 22 -preset fast -forced-idr 1 -force_key_frames "expr:gte(n,0)" $tag -fflags +bitexact -flags +bitexact "$D/$1.mp4" ||
        { echo "gpu-data: $1 is left out: this ffmpeg cannot make it"; rm -f "$D/$1.mp4"; }
}

films() {
    film main10     512x384   5 libx265 yuv420p10le
    film main12     512x384   5 libx265 yuv420p12le
    film full8      512x384   5 libx265 yuv444p
    film full10     512x384   5 libx265 yuv444p10le
    film full12     512x384   5 libx265 yuv444p12le
    film odd265     500x374   5 libx265 yuv420p
    film odd264     500x374   5 libx264 yuv420p
    film slices265  640x480   3 libx265 yuv420p slices=4
    film slices264  640x480   3 libx264 yuv420p slices=4
    film cavlc264   352x288   3 libx264 yuv420p cabac=0
    film intra265   512x384   3 libx265 yuv420p keyint=1
    film wpp265     640x480   3 libx265 yuv420p wpp=1
    film lossless265 320x240  3 libx265 yuv420p lossless=1
    film wide265    1920x1080 2 libx265 yuv420p
    film tall264    480x1280  2 libx264 yuv420p
    film small265   128x96    3 libx265 yuv420p
    film small264   32x16     3 libx264 yuv420p
    film gray265    320x240   3 libx265 gray
    film high10     320x240   3 libx264 yuv420p10le
    film half265    320x240   3 libx265 yuv422p
    film full264    320x240   3 libx264 yuv444p
    film mbaff264   640x480   3 libx264 yuv420p interlaced=1
    # More frames than a decoder of AV1 has surfaces: what a parser remembers of frames before must do no harm.
    if [ -z "$GPU_FEW" ]; then
        ffmpeg -v error -nostdin -y -f lavfi -i testsrc2=size=320x240:rate=5,format=yuv420p -frames:v 24 -c:v libaom-av1 -cpu-used 8 -crf 30 -g 1 \
            -fflags +bitexact -flags +bitexact "$D/av1.mp4" || { echo "gpu-data: av1 is left out: this ffmpeg cannot make it"; rm -f "$D/av1.mp4"; }
    fi
}

# The tables of the Independent JPEG Group for quality 90, which -q:v 8 leaves as they are, but for the first entries, which are 8.
luma=3,2,2,3,5,8,10,12,2,2,3,4,5,12,12,11,3,3,3,5,8,11,14,11,3,3,4,6,10,17,16,12,4,4,7,11,14,22,21,15,5,7,11,13,16,21,23,18,10,13,16,17,21,24,24,20,14,18,19,20,22,20,21,20
chroma=3,4,5,9,20,20,20,20,4,4,5,13,20,20,20,20,5,5,11,20,20,20,20,20,9,13,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20

# pictures FOLDER: each scaled to a longest edge of 512, without loss and as a JPEG.
pictures() {
    find "$1" -type f ! -name '.*' | sort | while read -r file; do
        class=$(basename "$(dirname "$file")")
        name=$(basename "$file"); name=${name%.*}
        mkdir -p "$D/ppm/$class" "$D/jpeg/$class"
        ffmpeg -v error -nostdin -y -i "$file" -frames:v 1 -vf scale=512:512:force_original_aspect_ratio=decrease:flags=lanczos "$D/ppm/$class/$name.ppm" \
            -frames:v 1 -vf scale=512:512:force_original_aspect_ratio=decrease:flags=lanczos,format=yuvj420p -intra_matrix $luma -chroma_intra_matrix $chroma -q:v 8 \
            "$D/jpeg/$class/$name.jpg" || echo "gpu-data: $file is left out"
    done
}

# sized: the same pictures coded to about 5, 10, 26 and 60 kB each, by the rates that come nearest.
sized() {
    targets="5 10 26 60" rates="40 35 30 26 22 18 14 10"
    if [ -n "$GPU_FEW" ]; then targets="10 60" rates="34 14"; fi
    count=$(find "$D/ppm" -type f | wc -l)
    for rate in $rates; do
        "$BUILD/bzna" pack "$D/ppm" -o "$D/at_$rate" --crf "$rate" >/dev/null || return 1
        echo "$rate $(($(wc -c <"$D/at_$rate") / count))"
    done >"$D/rates"
    for target in $targets; do
        rate=$(awk -v t="$target" '{ d = $2 > t * 1000 ? $2 / t / 1000 : t * 1000 / $2; if (!n++ || d < best) { best = d; rate = $1 } } END { print rate }' "$D/rates")
        cp "$D/at_$rate" "$D/h265_${target}k.bzna"
    done
    rm -f "$D"/at_* "$D/rates"
}

data() {
    photos=$1
    for tool in "$BUILD/bzna" "$BUILD/draw_pictures" "$G/gpu_record"; do
        [ -x "$tool" ] || { echo "SKIP gpu-data: $tool is not there (libavformat-dev, libswscale-dev or libavcodec-dev is missing)"; exit 0; }
    done
    command -v ffmpeg >/dev/null || { echo "SKIP gpu-data: ffmpeg is not installed"; exit 0; }
    rm -rf "$D" && mkdir -p "$D/drawn"
    films
    "$BUILD/draw_pictures" "$D/drawn" $((GPU_FEW ? 9 : 18)) && "$BUILD/bzna" pack "$D/drawn" -o "$D/mixed.bzna" >/dev/null || exit 1
    rm -rf "${D:?}/drawn"
    "$G/gpu_record" --record --data "$D" || exit 1
    if [ ! -d "$photos" ]; then mkdir -p "$(dirname "$photos")" && "$BUILD/draw_pictures" "$photos" 96 || exit 1; fi
    pictures "$photos"
    "$BUILD/bzna" pack "$D/ppm" -o "$D/h265_crf20.bzna" --crf 20 >/dev/null &&
    "$BUILD/bzna" pack "$D/ppm" -o "$D/h265_crf28.bzna" --crf 28 >/dev/null &&
    "$BUILD/bzna" pack "$D/ppm" -o "$D/h264_crf20.bzna" --crf 20 --codec h264 >/dev/null && sized || exit 1
    rm -rf "${D:?}/ppm"
    size=$(du -ck "$D" "$G/gpu_check" "$G/gpu_bench" 2>/dev/null | tail -n 1 | cut -f1)
    echo "gpu-data: $D and the programs, $size kB, $(find "$D/jpeg" -name '*.jpg' | wc -l) pictures of $photos"
    if [ "$size" -gt 58593 ]; then echo "gpu-data: that is more than 60 MB: take fewer pictures if it is to be carried far"; fi
}

# there NAME: the binary is here, or why nothing can be done.
there() {
    if [ ! -x "$G/gpu_${1#gpu-}" ]; then
        echo "SKIP $1: $G/gpu_${1#gpu-} is not there, and is built where clang and nv-codec-headers are (Debian: libffmpeg-nvenc-dev)"
        if [ "$1" = gpu-check ]; then echo "tests/gpu_check.c: 0 passed, 0 failed, 1 skipped"; fi
        exit 0
    fi
}

# ---- all ----

now() { date +%s; }
left() { echo $((begun + budget - $(now))); }

# section NAME SECONDS COMMAND...: runs it with its output shown and kept; SECONDS: at most so many, of a scale of 1, and no fewer than a third of them.
section() {
    name=$1 most=$2; shift 2
    case " $only " in "  "|*" $name "*) ;; *) return ;; esac
    echo "$name" >>"$S/names"
    : >"$S/$name.log"
    seconds=$(left)
    if [ "$seconds" -gt "$most" ]; then seconds=$most; fi
    if [ $((seconds * 3)) -lt "$most" ]; then
        echo "no time left" >"$S/$name.status"; echo 0 >"$S/$name.seconds"
        echo "${mark}-- $name: left out, $(left) s are left of $budget"
        report; return
    fi
    echo "${mark}-- $name (at most $seconds s)"
    started=$(now)
    LIMIT=$seconds
    { "$@" 2>&1; echo $? >"$S/code"; } | awk -v mark="$mark" '{ print (index($0, mark) == 1 ? $0 : mark $0); fflush() }' | tee "$S/$name.log"
    code=$(cat "$S/code")
    case $code in 0) status=ok ;; 124|137) status="out of time after $seconds s" ;; 13[0-9]|14[0-9]) status="crashed by signal $((code - 128))" ;; *) status="failed with status $code" ;; esac
    echo "$status" >"$S/$name.status"; echo $(($(now) - started)) >"$S/$name.seconds"
    if [ "$status" != ok ]; then echo "${mark}-- $name: $status"; fi
    report
}

# LIMIT: seconds of the section, or of its part that runs.
limited() { timeout -k 5 "$LIMIT" "$@"; }

# What the sections of gpu_bench have in common. Nothing new is begun in the last tenth.
bench() { limited "$G/gpu_bench" "$1" --data "$D" --scale "$scale" --budget "$(((LIMIT * 9 + 9) / 10))" --out "$S/$1.figures"; }

# ptx: twice, with a cache of compiled kernels that was empty.
ptx() {
    cache=$(mktemp -d) || return 1
    LIMIT=$(((LIMIT + 1) / 2))
    CUDA_CACHE_PATH=$cache PTX_CACHE=cold bench ptx; code=$?
    mv "$S/ptx.figures" "$S/ptx.cold"
    CUDA_CACHE_PATH=$cache PTX_CACHE=warm bench ptx || code=$?
    cat "$S/ptx.cold" "$S/ptx.figures" >"$S/ptx.both" && mv "$S/ptx.both" "$S/ptx.figures"
    rm -rf "$cache"
    return $code
}

# processes: the sessions of one process, in 1, 2 and 4 of them.
processes() {
    sessions=$((2 * engines)) failed=0 LIMIT=$(((LIMIT + 2) / 3)) pictures=256
    if [ -n "$mark" ]; then pictures=32; fi           # the fake decodes some 30 a second, under a sanitizer
    : >"$S/processes.figures"
    for count in 1 2 4; do
        each=$(((sessions + count - 1) / count))
        begin=$(($(now) + 5))
        i=0
        while [ $i -lt $count ]; do
            limited "$G/gpu_bench" share --data "$D" --scale "$scale" --sessions $each --batch $((pictures / count)) --begin $begin --out "$S/share.$i" & i=$((i + 1))
        done
        wait
        i=0
        while [ $i -lt $count ]; do cat "$S/share.$i"; rm -f "$S/share.$i"; i=$((i + 1)); done >"$S/shares"
        [ "$(wc -l <"$S/shares")" -eq $count ] || { echo "$count processes: not all of them ended well"; failed=1; continue; }
        awk -v n=$count -v each=$each -v mark="$mark" -v figures="$S/processes.figures" '
            { match($0, /"images_per_second": [0-9.e+]*/); r = substr($0, RSTART + 21, RLENGTH - 21) + 0; sum += r; if (NR == 1 || r < least) least = r; if (r > most) most = r
              match($0, /"core_seconds_per_1000": [0-9.e+]*/); cpu += r * substr($0, RSTART + 25, RLENGTH - 25) }
            END { printf "%s%d %s of %d sessions: %.0f pictures/s, of one %.0f to %.0f, %.3f core-seconds per 1,000\n", mark, n, (n == 1 ? "process" : "processes"), each, sum, least, most, (sum ? cpu / sum : 0)
                  printf "{\"kind\": \"processes\", \"fake_driver\": %s, \"processes\": %d, \"sessions_each\": %d, \"images_per_second\": %.6g, \"slowest\": %.6g, \"fastest\": %.6g, \"core_seconds_per_1000\": %.4g}\n", (mark == "" ? "false" : "true"), n, each, sum, least, most, (sum ? cpu / sum : 0) >figures }
            ' "$S/shares"
        cat "$S/processes.figures" >>"$S/processes.all"
    done
    mv "$S/processes.all" "$S/processes.figures"
    return $failed
}

peers() {
    command -v python3 >/dev/null || { echo "python3 is not installed"; return; }
    limited python3 tests/gpu_peer.py "$D/jpeg" --seconds "$(awk -v s="$scale" 'BEGIN { print 4 * s }')" --out "$S/peers.json" || return
    sed 's/^{/{"kind": "peers", /' "$S/peers.json" >"$S/peers.figures"
}

# check PART_OF_A_NAME: those checks of gpu_check; with none of that name, that is said.
check() { limited "$G/gpu_check" --data "$D" --only "$1" >"$S/check" 2>&1; code=$?; cat "$S/check"; if ! grep -q '^-- ' "$S/check"; then echo "no check is named so: $1"; fi; return $code; }

# What the figures say of the whole: the first limit in this order that explains the best rate end to end.
limit() {
    cat "$S"/*.figures 2>/dev/null | awk -v engines="$engines" -v cores="$cores" '
        function number(key) { return match($0, "\"" key "\": [-0-9.e+]+") ? substr($0, RSTART + length(key) + 4, RLENGTH - length(key) - 4) + 0 : 0 }
        /"kind": "engine fit"/ && number("depth") == 4 { a = number("a_us"); b = number("b_us_per_byte") }
        /"kind": "bare sessions"/ && /h265_crf20/ && number("contexts") == 1 { if (number("sessions") == 1) one = number("images_per_second"); if (number("images_per_second") > bare) bare = number("images_per_second") }
        /"kind": "bare sessions"/ && /h265_crf20/ && number("contexts") > 1 { if (number("images_per_second") > spread) spread = number("images_per_second") }
        /"kind": "processes"/ { if (number("processes") == 1) alone = number("images_per_second"); else if (number("images_per_second") > many) many = number("images_per_second") }
        /"kind": "end to end"/ && /"beside": "nothing"/ && /h265_crf20/ && /float32/ && /"calls_timed": false/ && number("images_per_second") > rate {
            rate = number("images_per_second"); cpu = number("core_seconds_per_1000"); gpu = number("gpu_utilization"); limits = $0; sub(/.*"limits": "/, "", limits); sub(/".*/, "", limits) }
        /"kind": "kernel"/ && /float32/ && number("us_per_picture") > 0 { if (1e6 / number("us_per_picture") > kernel) kernel = 1e6 / number("us_per_picture") }
        END {
            if (!rate) { print "nothing: the rate end to end was not measured"; exit }
            ceiling = one * engines
            used = rate * cpu / 1000
            lock = bare ? spread / bare : 0
            if (alone && many / alone > lock) lock = many / alone
            if (ceiling && rate >= 0.85 * ceiling) what = "engines"
            else if (used >= 0.85 * cores) what = "CPU"
            else if (limits == "read") what = "reader"
            else if (lock >= 1.15) what = "lock"
            else if (kernel && rate >= 0.7 * kernel || gpu >= 95) what = "SM"
            else what = "none of engines, lock, CPU, SM and reader alone"
            printf "%s: %.0f pictures/s; engines %u x %.0f bare = %.0f; bare sessions %.0f; more contexts or processes %.2f times; %.1f of %u cores; kernel alone %.0f; the loader says %s\n", what, rate, engines, one, ceiling, bare, lock, used, cores, kernel, limits }'
}

# report: everything so far as JSON, replaced as a whole.
report() {
    {
        printf '{"what": "benzina: tests/gpu.sh all", "driver": "%s", "device": "%s", "scale": %s, "budget": %s, "seconds": %s,\n"limited_by": "%s",\n"sections": [' \
            "$([ -n "$mark" ] && echo "the fake driver: no figure means anything" || echo NVIDIA)" "$device" "$scale" "$budget" $(($(now) - begun)) "$(limit)"
        comma=
        while read -r one; do
            printf '%s\n{"name": "%s", "status": "%s", "seconds": %s, "figures": [' "$comma" "$one" "$(cat "$S/$one.status" 2>/dev/null || echo "not ended")" "$(cat "$S/$one.seconds" 2>/dev/null || echo 0)"
            # A line that a crash cut off is left out.
            if [ -e "$S/$one.figures" ]; then awk '/^{.*}$/ { printf "%s\n  %s", (n++ ? "," : ""), $0 }' "$S/$one.figures"; fi
            printf '], "log": ['
            awk 'NR <= 2000 { gsub(/\\/, "\\\\"); gsub(/"/, "\\\""); gsub(/\t/, " "); gsub(/[\001-\037]/, ""); printf "%s\n  \"%s\"", (NR == 1 ? "" : ","), $0 }' "$S/$one.log"
            printf ']}'
            comma=,
        done <"$S/names"
        printf '\n]}\n'
    } >"$out/report.json.partial" && mv "$out/report.json.partial" "$out/report.json"
}

all() {
    budget=570 scale=1 only='' begun=$(now) out=${OUT:-$G}
    while [ $# -gt 1 ]; do
        case $1 in --budget) budget=$2 ;; --scale) scale=$2 ;; --only) only=$2 ;; *) break ;; esac
        shift 2
    done
    [ $# -eq 0 ] || { echo "usage: sh tests/gpu.sh all [--scale S] [--budget S] [--only \"NAME ...\"]" >&2; exit 2; }
    S=$out/sections
    rm -rf "$S" && mkdir -p "$S" || exit 1
    : >"$S/names"
    device=$("$G/gpu_bench" --probe) || { echo "SKIP $what: $device"; exit 0; }
    [ -e "$D/h265_crf20.bzna" ] || { echo "SKIP $what: $D has no archives: run make gpu-data where there is an encoder"; exit 0; }
    mark=''; if [ "$device" = "Fake GPU" ]; then mark='fake driver: '; fi
    echo "${mark}$device, $budget s, ${mark:+no figure below means anything; }report in $out/report.json"
    section environment 20 bench environment
    engines=$(sed -n 's/.*"what": "NVDEC engines", "value": "\([0-9]*\)".*/\1/p' "$S/environment.figures" 2>/dev/null) cores=$(getconf _NPROCESSORS_ONLN)
    engines=${engines:-7}
    section selfcheck   40 bench selfcheck
    section gate        60 check a_picture_holds_while
    section md5         60 check frames_of
    section engine      45 bench engine
    section sessions    50 bench sessions
    section end         60 bench end
    section processes   50 processes
    section calls       25 bench calls
    section contexts    40 bench contexts
    section beside      45 bench beside
    section batches     45 check batches_equal
    section surfaces    40 check nvdec_overwrites
    section decoders    15 bench decoders
    section memory      15 bench memory
    section kernel      20 bench kernel
    section ptx         20 ptx
    section peers       75 peers
    section parser      10 bench parser
    echo "${mark}$out/report.json, $(($(now) - begun)) s"
    echo "${mark}limited by $(limit)"
}

what=gpu-$1
case "$1" in
data)  data "${2:-$BUILD/bench/pictures}" ;;
check) shift; there gpu-check; exec "$G/gpu_check" --data "$D" "$@" ;;
all)   shift; there gpu-check; there gpu-bench; all "$@" ;;
bench) shift; there gpu-bench; all --only "environment engine sessions end processes calls contexts beside decoders memory kernel ptx peers parser" "$@" ;;
*) echo "usage: sh tests/gpu.sh data [PHOTOS] | check [...] | all [...] | bench [...]" >&2; exit 2 ;;
esac
