#!/bin/sh
# gpu.sh - what make gpu-run, gpu-check, gpu-data and gpu-bundle do. From the repository's root, or, in a bundle, from
# anywhere. BUILD: where products go.
#
#     sh tests/gpu/gpu.sh run [--scale S] [--budget S] [--limit S] [--only "NAME ..."]
#                                       all that is to be known of a GPU in one run of at most 570 s (--budget): report.json in $OUT (default $BUILD/gpu), and
#                                       at most 12,000 characters that say it in short, printed last
#     sh tests/gpu/gpu.sh check [...]       runs $BUILD/gpu/gpu_check
#     sh tests/gpu/gpu.sh data [PHOTOS]     archives, JPEGs and expectations into $BUILD/gpu/data, with bzna, ffmpeg and gpu_record
#     sh tests/gpu/gpu.sh train [...]       a training run with each loader, in at most 9 minutes: gpu_train.py has the
#                                       options, and says what is measured. It needs torch and torchvision
#     sh tests/gpu/gpu.sh scaling [PHOTOS]  programs and data for the section "scaling" into $BUILD/gpu/scaling: tests/make/scaling.sh
#     sh tests/gpu/gpu.sh bundle [FOLDER]   all that another machine needs, in a folder of at most 60 MB: sh run.sh there
#
# A section of the run is a process of its own, with a time of its own: one that fails, dies or hangs costs no other.
# They stand in the order of what would be missed most, but for scaling, which needs nothing of the GPU and is first.
# Each says which of its points it has left out for lack of time.
# The report is written again after each, so that it is whole whenever the run is ended. Nothing is needed but a driver:
# without libnvcuvid, what needs NVDEC is skipped with the reason, and the rest runs.
#
# The limits of the sections (LIMITS) add up to 562 s; 8 s more are for the report and for a section that cannot be
# killed at once: 570 s in all. A section may take twice its limit if those before it have left so much, so that none is
# lost to one that was slow. The last, peers, has what is left. Should a run begin late or --budget be smaller, sections
# that would have less than a third of their limit are left out, and this is said. --scale 0.1: each point takes a tenth
# of its time; --limit 5: each section may take 5 s; both for tests of the program, as are GPU_SCALE, GPU_BUDGET,
# GPU_LIMIT and GPU_ONLY, GPU_FEW=1 (little data), GPU_FIND (where the driver's files are looked for), GPU_BEGIN
# (seconds that several processes wait for one another).
#
# run and check need neither a compiler nor an encoder. The C library of the machine must not be older than the one that
# the programs were built with asks for: what is built on Debian 12 needs glibc 2.34 or newer (Ubuntu 22.04, RHEL 9).
here=$(cd "$(dirname "$0")" && pwd)
BUILD=${BUILD:-build}
G=$BUILD/gpu D=$BUILD/gpu/data P=$here
if [ -x "$here/gpu_bench" ]; then cd "$here" && G=$here D=$here/data; fi          # a bundle
LC_ALL=C
export LC_ALL
LIMITS="scaling=66 environment=22 kernels=16 capabilities=8 hand265=10 hand264=10 selfcheck=17 gate=18 md5=27 batches=24 surfaces=17 uploads=10 engine=33
    sessions=30 end=42 hybrid=22 grid=24 waiting=17 loaders=21 contexts=21 processes=32 calls=11 beside=15 kernel=12 ptx=10 memory=13 decoders=8
    parser=6"

# Some containers have the driver where the loader does not look.
for folder in /usr/local/nvidia/lib64 /usr/lib/wsl/lib /usr/lib64/nvidia /run/opengl-driver/lib; do
    if [ -e $folder/libnvcuvid.so.1 ] && ! ldconfig -p 2>/dev/null | grep -q libnvcuvid.so.1; then LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder; export LD_LIBRARY_PATH; fi
done

# film NAME SIZE FRAMES CODEC PIXEL_FORMAT [PARAMETERS]: a short film whose frames all stand alone. keyint=2, as bzna
# pack has it: see there.
film() {
    case "${GPU_FEW:+$1}" in ''|small265|main10|odd264) ;; *) return ;; esac
    parameters=keyint=2:bframes=0:ref=1:rc-lookahead=0 tag=
    if [ "$4" = libx265 ]; then parameters=$parameters:log-level=none:info=0:pools=1:frame-threads=1 tag="-tag:v hvc1"; fi
    # shellcheck disable=SC2086  # tag is words
    ffmpeg -v error -nostdin -y -f lavfi -i "testsrc2=size=$2:rate=5,noise=alls=12:all_seed=7:allf=t,format=$5" \
        -frames:v "$3" -c:v "$4" -${4#lib}-params "$parameters${6:+:$6}" \
        -crf 22 -preset fast -forced-idr 1 -force_key_frames "expr:gte(n,0)" $tag -fflags +bitexact -flags +bitexact \
        "$D/$1.mp4" ||
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
        ffmpeg -v error -nostdin -y -f lavfi -i testsrc2=size=320x240:rate=5,format=yuv420p -frames:v 24 \
            -c:v libaom-av1 -cpu-used 8 -crf 30 -g 1 \
            -fflags +bitexact -flags +bitexact "$D/av1.mp4" || { echo "gpu-data: av1 is left out: this ffmpeg cannot make it"; rm -f "$D/av1.mp4"; }
    fi
}

# The tables of the Independent JPEG Group for quality 90, which -q:v 8 leaves as they are, but for the first entries,
# which are 8.
luma=3,2,2,3,5,8,10,12,2,2,3,4,5,12,12,11,3,3,3,5,8,11,14,11,3,3,4,6,10,17,16,12,4,4,7,11,14,22,21,15,5,7,11,13,16,21,23,18,10,13,16,17,21,24,24,20,14,18,19,20,22,20,21,20
chroma=3,4,5,9,20,20,20,20,4,4,5,13,20,20,20,20,5,5,11,20,20,20,20,20,9,13,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20,20

# pictures FOLDER [PREFIX]: each scaled to a longest edge of 512, without loss and as a JPEG. Its class is its folder.
pictures() {
    prefix=$2
    find "$1" -type f ! -name '.*' | sort | while read -r file; do
        class=$prefix$(basename "$(dirname "$file")")
        name=$(basename "$file"); name=${name%.*}
        mkdir -p "$D/ppm/$class" "$D/jpeg/$class"
        ffmpeg -v error -nostdin -y -i "$file" -frames:v 1 -vf \
            scale=512:512:force_original_aspect_ratio=decrease:flags=lanczos "$D/ppm/$class/$name.ppm" \
            -frames:v 1 -vf scale=512:512:force_original_aspect_ratio=decrease:flags=lanczos,format=yuvj420p \
            -intra_matrix $luma -chroma_intra_matrix $chroma -q:v 8 \
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

# fitted: frames of several sizes with as many bits a pixel: pieces and mosaics of the same squares of 512x512.
fitted() {
    sizes="160x160 256x256 384x512 512x512 1024x1024 2048x2048"
    if [ -n "$GPU_FEW" ]; then sizes="160x160 256x256 512x512"; fi
    mkdir -p "$D/square/all"
    find "$D/ppm" -type f | sort | head -n "$([ -n "$GPU_FEW" ] && echo 4 || echo 32)" | awk '{ printf "%d\t%s\n", NR, $0 }' | while read -r number file; do
        ffmpeg -v error -nostdin -y -i "$file" \
            -vf scale=512:512:force_original_aspect_ratio=increase:flags=lanczos,crop=512:512 \
            "$D/square/all/$(printf %03d "$number").ppm" || return 1
    done
    for size in $sizes; do
        filter=crop=$(echo "$size" | tr x :)
        case $size in 512x512) filter=null ;; 1024x1024) filter=tile=2x2 ;; 2048x2048) filter=tile=4x4 ;; esac
        rm -rf "$D/sized" && mkdir -p "$D/sized/all"
        ffmpeg -v error -nostdin -y -i "$D/square/all/%03d.ppm" -vf "$filter" "$D/sized/all/%03d.ppm" &&
            "$BUILD/bzna" pack "$D/sized" -o "$D/fit_$size.bzna" --crf 20 --frame exact --thumb none >/dev/null ||
            return 1
    done
    rm -rf "${D:?}/square" "${D:?}/sized"
}

data() {
    photos=$1
    for tool in "$BUILD/bzna" "$BUILD/draw_pictures" "$G/gpu_record"; do
        [ -x "$tool" ] || { echo "SKIP gpu-data: $tool is not there (libavformat-dev, libswscale-dev or libavcodec-dev is missing)"; exit 0; }
    done
    command -v ffmpeg >/dev/null || { echo "SKIP gpu-data: ffmpeg is not installed"; exit 0; }
    rm -rf "$D" "$G/pictures_of" && mkdir -p "$D/drawn"
    films
    "$BUILD/draw_pictures" "$D/drawn" $((GPU_FEW ? 9 : 18)) &&
        "$BUILD/bzna" pack "$D/drawn" -o "$D/mixed.bzna" >/dev/null || exit 1
    "$G/gpu_record" --record --data "$D" || exit 1
    if [ ! -d "$photos" ]; then mkdir -p "$(dirname "$photos")" && "$BUILD/draw_pictures" "$photos" 96 || exit 1; fi
    # a network trains on photographs and on drawn pictures
    pictures "$photos"
    pictures "$D/drawn" drawn_
    rm -rf "${D:?}/drawn"
    "$BUILD/bzna" pack "$D/ppm" -o "$D/h265_crf20.bzna" --crf 20 >/dev/null &&
    "$BUILD/bzna" pack "$D/ppm" -o "$D/h265_crf28.bzna" --crf 28 >/dev/null &&
    "$BUILD/bzna" pack "$D/ppm" -o "$D/h264_crf20.bzna" --crf 20 --codec h264 >/dev/null &&
    "$BUILD/bzna" pack "$D/ppm" -o "$D/h264_tuned.bzna" --crf 20 --codec h264 --tune-decode >/dev/null &&
        sized && fitted || exit 1
    rm -rf "${D:?}/ppm"
    echo "$photos" >"$G/pictures_of"
    size=$(du -ck "$D" "$G/gpu_check" "$G/gpu_bench" 2>/dev/null | tail -n 1 | cut -f1)
    echo "gpu-data: $D and the programs, $size kB, $(find "$D/jpeg" -name '*.jpg' | wc -l) pictures: those of $photos, and drawn ones"
    if [ "$size" -gt 58593 ]; then echo "gpu-data: that is more than 60 MB: take fewer pictures if it is to be carried far"; fi
}

# there NAME: the binary is here, or why nothing can be done.
there() {
    if [ ! -x "$G/gpu_${1#gpu-}" ]; then
        echo "SKIP $1: $G/gpu_${1#gpu-} is not there, and is built where clang and nv-codec-headers are (Debian: libffmpeg-nvenc-dev): make gpu-run"
        if [ "$1" = gpu-check ]; then echo "tests/gpu/gpu_check.c: 0 passed, 0 failed, 1 skipped"; fi
        exit 0
    fi
}

# ---- run ----

now() { date +%s; }
left() { echo $((begun + budget - budget / 70 - $(now))); }
limit_of() { for entry in $LIMITS; do case $entry in "$1="*) echo "${entry#*=}" ;; esac; done; }

# section NAME COMMAND...: runs it, with its output kept, for at most its limit and what others have left of theirs, and
# no less than a third of it. A command that cannot even be killed is left behind. owed: the limits of the sections to
# come.
section() {
    name=$1 most=$(limit_of "$1"); shift
    owed=$((owed - most)) spare=$(($(left) - owed - most))
    case " $only " in "  "|*" $name "*) ;; *) return ;; esac
    if [ "$spare" -gt "$most" ]; then spare=$most; fi
    if [ "$spare" -gt 0 ] && [ "$name" != scaling ]; then most=$((most + spare)); fi
    echo "$name" >>"$S/names"
    : >"$S/$name.log"
    if [ -n "$limit" ]; then most=$limit; fi
    case $name in scaling|environment|kernels|capabilities|hand*|uploads|kernel|ptx|peers) ;;
    # NVDEC ended with neither picture: the rest will hardly
    *) if [ -n "$is_stuck" ] && [ "$most" -gt 12 ]; then most=12; fi ;; esac
    seconds=$(left)
    if [ "$seconds" -gt "$most" ]; then seconds=$most; fi
    if [ $((seconds * 3)) -lt "$most" ]; then
        echo "no time left" >"$S/$name.status"; echo 0 >"$S/$name.seconds"
        echo "${mark}-- $name: left out, $(left) s are left of $budget"
        return
    fi
    started=$(now)
    LIMIT=$seconds
    rm -f "$S/code"
    { "$@" >"$S/$name.log" 2>&1; echo $? >"$S/code.new" && mv "$S/code.new" "$S/code"; } </dev/null &
    while [ ! -e "$S/code" ] && [ "$(now)" -le $((started + seconds + 7)) ]; do sleep 0.1; done
    code=$(cat "$S/code" 2>/dev/null || echo 137)
    case $code in
    0) status=ok ;;
    3) status=skipped ;;
    124|137) status="out of time after $seconds s" ;;
    13[0-9]|14[0-9]) status="died by signal $((code - 128))" ;;
    *) status="failed with status $code" ;;
    esac
    if [ "$code" -eq 0 ] && grep -q '^SKIP gpu-check' "$S/$name.log"; then status=skipped; fi
    echo "$status" >"$S/$name.status"; echo $(($(now) - started)) >"$S/$name.seconds"
    case $status in ok) ;; skipped) status="skipped: $(sed -n 's/.*SKIP gpu-[a-z]*: //p' "$S/$name.log" | head -n 1)" ;; esac
    echo "$status" >"$S/$name.status"
    echo "${mark}-- $name: $status, $(cat "$S/$name.seconds") s"
    if [ "$(now)" -ge $((reported + 5)) ]; then report >/dev/null; reported=$(now); fi
}

# LIMIT: seconds of the section, or of its part that runs.
limited() { timeout -k 3 "$LIMIT" "$@"; }

# What the sections of gpu_bench have in common. Nothing new is begun in the last tenth.
bench() { limited "${PROGRAM:-$G/gpu_bench}" "$1" --data "$D" --scale "$scale" --budget "$(((LIMIT * 9 + 9) / 10))" --out "$S/$1.figures"; }

# What the driver has here, whatever the loader finds of it.
environment() {
    echo "capabilities of the container: NVIDIA_DRIVER_CAPABILITIES=${NVIDIA_DRIVER_CAPABILITIES-(not set)}"
    # Folders of the driver may be mounts, which find / leaves out.
    # shellcheck disable=SC2086  # words
    timeout 8 find ${GPU_FIND:-/ /usr/local /usr/local/nvidia /usr/lib/wsl /usr/lib64 /opt /run/opengl-driver} \
        -xdev \( -path /proc -o -path /sys \) -prune -o \
        \( -name 'libnvcuvid.so*' -o -name 'libcuda.so*' \) -print 2>/dev/null | sort -u | head -n 20 |
        sed 's/^/found /'
    if command -v nvidia-smi >/dev/null; then
        timeout 8 nvidia-smi -L 2>&1 | head -n 12
        timeout 8 nvidia-smi --query-gpu=name,driver_version,mig.mode.current,pstate,clocks.sm,clocks.video,clocks.max.video,power.limit,ecc.mode.current,compute_mode --format=csv 2>&1 | head -n 4
    else
        echo "nvidia-smi is not here"
    fi
    find /dev -maxdepth 1 -name 'nvidia*' 2>/dev/null | sort | sed 's/^/device /' | head -n 12
    bench environment
}

# Where the loader does not find libnvcuvid and find did, the loader is told.
use_what_was_found() {
    grep -q '"what": "libnvcuvid.so.1", "value": "not found' "$S/environment.figures" 2>/dev/null || return
    folder=$(sed -n 's/^found \(.*\)\/libnvcuvid\.so\.1$/\1/p' "$S/environment.log" | head -n 1)
    [ -n "$folder" ] || return
    LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder; export LD_LIBRARY_PATH
    echo "${mark}   libnvcuvid.so.1 lies in $folder, where the loader does not look: LD_LIBRARY_PATH now has it"
    grep -v '^environment$' "$S/names" >"$S/names.other"; mv "$S/names.other" "$S/names"
    owed=$((owed + $(limit_of environment)))
    section environment environment
}

# Photographs, folders and archives by 1 to 16 threads of the CPU. The last line that scaling.sh prints is an object of
# JSON.
scaling() {
    SCALING_SECONDS=$LIMIT SCALING_SCALE=$scale
    export SCALING_SECONDS SCALING_SCALE
    if [ -x "$G/scaling/scaling.sh" ]; then
        limited "$G/scaling/scaling.sh"; code=$?
    elif [ -x "$BUILD/bench/bench_scaling" ] && [ -d "$BUILD/bench/scaling/small" ] && [ -f tests/make/scaling.sh ]; then
        SCALING_PROGRAM=$BUILD/bench/bench_scaling limited sh tests/make/scaling.sh run "$BUILD/bench/scaling"; code=$?
    else
        echo "SKIP gpu-run: $G/scaling is not there: make gpu-bundle makes it"; return 3
    fi
    grep '^[{].*[}]$' "$S/scaling.log" | tail -n 1 | sed 's/^{/{"kind": "scaling", /' >"$S/scaling.figures"
    return $code
}

# hybrid: by the program that has libavcodec, which decodes what processors take from NVDEC.
hybrid() {
    PROGRAM=$G/gpu_hybrid
    if [ ! -x "$PROGRAM" ]; then
        echo "SKIP gpu-run: $PROGRAM is not there: it is built with libavcodec, for a bundle with a static one: make static-deps, then make gpu-bundle"
        return 3
    fi
    bench hybrid
}

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

# processes: the sessions of one process, in 1, 2 and 4 of them. All begin to count at the same second.
processes() {
    sessions=$((2 * engines)) failed=0 LIMIT=$(((LIMIT + 2) / 3)) pictures=256 counts="1 2 4"
    if [ -n "$mark" ]; then pictures=16; fi           # the fake decodes some 30 a second, under a sanitizer
    if [ -n "$GPU_FEW" ]; then counts="1 2"; fi
    : >"$S/processes.all"
    for count in $counts; do
        each=$(((sessions + count - 1) / count))
        begin=$(($(now) + ${GPU_BEGIN:-5}))
        i=0
        while [ $i -lt "$count" ]; do
            limited "$G/gpu_bench" share --data "$D" --scale "$scale" --sessions $each --batch $((pictures / count)) \
                --begin $begin --out "$S/share.$i" & i=$((i + 1))
        done
        wait
        i=0
        while [ $i -lt "$count" ]; do cat "$S/share.$i"; rm -f "$S/share.$i"; i=$((i + 1)); done >"$S/shares"
        [ "$(grep -c '}$' "$S/shares")" -eq "$count" ] || { echo "$count processes: not all of them ended well"; failed=1; continue; }
        awk -v n="$count" -v each=$each -v mark="$mark" -v figures="$S/processes.one" '
            function number(key) { return match($0, "\"" key "\": [-0-9.e+]+") ? substr($0, RSTART + length(key) + 4, RLENGTH - length(key) - 4) + 0 : 0 }
            { r = number("images_per_second"); sum += r; if (NR == 1 || r < least) least = r; if (r > most) most = r; cpu += r * number("core_seconds_per_1000")
              decode += number("decode_p50_us") / n; map += number("map_p50_us") / n; unmap += number("unmap_p50_us") / n }
            END { printf "%s%d %s of %d sessions: %.0f pictures/s, of one %.0f to %.0f, %.3f core-seconds per 1,000; half of the calls below %.1f, %.1f, %.1f us (decode, map, unmap)\n", \
                      mark, n, (n == 1 ? "process" : "processes"), each, sum, least, most, (sum ? cpu / sum : 0), decode, map, unmap
                  printf "{\"kind\": \"processes\", \"fake_driver\": %s, \"processes\": %d, \"sessions_each\": %d, ", (mark == "" ? "false" : "true"), n, each >figures
                  printf "\"images_per_second\": %.6g, \"slowest\": %.6g, \"fastest\": %.6g, \"core_seconds_per_1000\": %.4g, ", sum, least, most, (sum ? cpu / sum : 0) >figures
                  printf "\"decode_p50_us\": %.4g, \"map_p50_us\": %.4g, \"unmap_p50_us\": %.4g}\n", decode, map, unmap >figures }
            ' "$S/shares"
        cat "$S/processes.one" >>"$S/processes.all"
    done
    mv "$S/processes.all" "$S/processes.figures"
    return $failed
}

peers() {
    command -v python3 >/dev/null || { echo "SKIP gpu-run: python3 is not installed"; return 3; }
    limited python3 "$P/gpu_peer.py" "$D/jpeg" --seconds "$(awk -v s="$scale" 'BEGIN { print 4 * s }')" \
        --out "$S/peers.json" || return
    sed 's/^{/{"kind": "peers", /' "$S/peers.json" >"$S/peers.figures"
}

# check PART_OF_A_NAME: those checks of gpu_check; with none of that name, that is said.
check() {
    limited "$G/gpu_check" --data "$D" --only "$1"; code=$?
    if ! grep -qE '^(-- |SKIP)' "$S/$name.log"; then echo "no check is named so: $1"; fi
    return $code
}

# text: what gpu_report.awk makes of everything so far.
text() {
    while read -r one; do
        printf 'S\t%s\t%s\t%s\n' "$one" "$(cat "$S/$one.status" 2>/dev/null || echo "not ended")" \
            "$(cat "$S/$one.seconds" 2>/dev/null || echo 0)"
        if [ -e "$S/$one.figures" ]; then awk -v n="$one" '/^[{].*[}]$/ { print "F\t" n "\t" $0 }' "$S/$one.figures"; fi
        awk -v n="$one" '/^[{].*[}]$/ { next } NR <= 2000 { gsub(/\t/, " "); print "L\t" n "\t" $0 }' "$S/$one.log"
    done <"$S/names" >"$S/everything"
    awk -v mark="$mark" -v cores="$cores" -v most="${GPU_TEXT:-11900}" -f "$P/gpu_report.awk" "$S/everything"
}

# report: the text, and everything so far as JSON, replaced as a whole.
report() {
    text >"$S/text" 2>"$S/text.errors" || cat "$S/text.errors" >>"$S/text"
    {
        printf '{"what": "benzina: gpu run", "date": "%s", "driver": "%s", "scale": %s, "budget": %s, "seconds": %s,\n"text": [' \
            "$(date +%Y-%m-%d)" "$([ -n "$mark" ] && echo "the fake driver: no figure means anything" || echo NVIDIA)" "$scale" \
            "$budget" $(($(now) - begun))
        quoted <"$S/text"
        printf '],\n"sections": ['
        comma=
        while read -r one; do
            printf '%s\n{"name": "%s", "status": "%s", "seconds": %s, "figures": [' "$comma" "$one" \
                "$(tr -d '"\\\000-\037' <"$S/$one.status" 2>/dev/null || echo "not ended")" \
                "$(cat "$S/$one.seconds" 2>/dev/null || echo 0)"
            # A line that a crash cut off is left out.
            if [ -e "$S/$one.figures" ]; then awk '/^[{].*[}]$/ { printf "%s\n  %s", (n++ ? "," : ""), $0 }' "$S/$one.figures"; fi
            printf '], "log": ['
            grep -v '^[{].*[}]$' "$S/$one.log" | quoted
            printf ']}'
            comma=,
        done <"$S/names"
        printf '\n]}\n'
    } >"$out/report.json.partial" && mv "$out/report.json.partial" "$out/report.json"
    cat "$S/text"
}

# Lines as strings of JSON.
quoted() { tr -cd '\11\12\15\40-\176' | awk 'NR <= 2000 { gsub(/\\/, "\\\\"); gsub(/"/, "\\\""); gsub(/\t/, " "); gsub(/[\001-\037]/, ""); printf "%s\n  \"%s\"", (NR == 1 ? "" : ","), $0 }'; }

run() {
    budget=${GPU_BUDGET:-570} scale=${GPU_SCALE:-1} only=${GPU_ONLY:-} limit=${GPU_LIMIT:-} begun=$(now) \
        reported=$(now) out=${OUT:-$G}
    while [ $# -gt 1 ]; do
        case $1 in --budget) budget=$2 ;; --scale) scale=$2 ;; --only) only=$2 ;; --limit) limit=$2 ;; *) break ;; esac
        shift 2
    done
    [ $# -eq 0 ] || { echo "usage: sh gpu.sh run [--scale S] [--budget S] [--limit S] [--only \"NAME ...\"]" >&2; exit 2; }
    if [ ! -w "$out" ]; then out=${TMPDIR:-/tmp}; fi
    S=$(mktemp -d) || exit 1
    trap 'rm -rf "$S"' EXIT
    : >"$S/names"
    mark='' is_stuck='' cores=$(getconf _NPROCESSORS_ONLN 2>/dev/null || nproc)
    if LIMIT=20 limited "$G/gpu_bench" environment --out "$S/probe" 2>&1 | grep -q '^fake driver: '; then mark='fake driver: '; fi
    owed=0; for entry in $LIMITS; do owed=$((owed + ${entry#*=})); done
    echo "${mark}at most $budget s; ${mark:+no figure below means anything; }report in $out/report.json"
    section scaling      scaling
    section environment  environment
    use_what_was_found
    section kernels      bench kernels
    section capabilities bench capabilities
    section hand265      bench hand265
    section hand264      bench hand264
    if ! grep -q '"step": "done"\|"refused"' "$S"/hand26[45].figures 2>/dev/null; then is_stuck=1; fi
    engines=$(sed -n 's/.*"what": "NVDEC engines", "value": "\([0-9]*\)".*/\1/p' "$S/environment.figures" 2>/dev/null)
    engines=${engines:-7}
    if [ -n "$GPU_FEW" ]; then engines=2; fi
    section selfcheck    bench selfcheck
    section gate         check a_picture_holds_while
    section md5          check frames_of
    section batches      check batches_equal
    section surfaces     check nvdec_overwrites
    section uploads      bench uploads
    section engine       bench engine
    section sessions     bench sessions
    section end          bench end
    section hybrid       hybrid
    section grid         bench grid
    section waiting      bench waiting
    section loaders      bench loaders
    section contexts     bench contexts
    section processes    processes
    section calls        bench calls
    section beside       bench beside
    section kernel       bench kernel
    section ptx          ptx
    section memory       bench memory
    section decoders     bench decoders
    section parser       bench parser
    LIMITS="$LIMITS peers=60" owed=60
    section peers        peers
    report
}

# train: the package is the wheel's in a bundle, else that of the tree.
train() {
    command -v python3 >/dev/null || { echo "SKIP gpu-train: python3 is not installed"; exit 0; }
    if [ -d "$here/python" ]; then
        PYTHONPATH=$here/python${PYTHONPATH:+:$PYTHONPATH}
    elif [ -x "$here/gpu_bench" ]; then
        echo "SKIP gpu-train: this bundle was made without a wheel: make wheel, then make gpu-bundle"; exit 0
    else
        PYTHONPATH=examples/python${PYTHONPATH:+:$PYTHONPATH} BENZINA_LIBRARY=$PWD/$BUILD/libbenzina.so
        export BENZINA_LIBRARY
    fi
    export PYTHONPATH
    out=${OUT:-$G}
    if [ ! -w "$out" ]; then out=${TMPDIR:-/tmp}; fi
    exec "${PYTHON:-python3}" "$P/gpu_train.py" "$D" --out "$out" "$@"
}

# scaling PHOTOS: what the section of that name runs, in $G/scaling. Where the static FFmpeg cannot be built, there is
# none, and this is said.
scaling_make() {
    rm -rf "$G/scaling/photos" "$G/scaling/small" "$G/scaling/h264.bzna"
    if sh tests/make/scaling.sh bundle "$BUILD" "$G/scaling" && sh tests/make/scaling.sh data "$BUILD" "$1" "$G/scaling" && [ -e "$G/scaling/h264.bzna" ]; then return; fi
    rm -rf "$G/scaling"
    echo "gpu-bundle: without the section scaling"
}

# bundle FOLDER: all that a machine with a GPU needs, in at most 60 MB.
bundle() {
    for file in "$G/gpu_check" "$G/gpu_bench" "$D/expected.txt"; do
        [ -e "$file" ] || { echo "SKIP gpu-bundle: $file is not there: run make gpu-data, where clang, nv-codec-headers and an encoder are"; exit 0; }
    done
    B=$1
    rm -rf "$B" && mkdir -p "$B/tests/data" || exit 1
    cp "$G/gpu_check" "$G/gpu_bench" tests/gpu/gpu.sh tests/gpu/gpu_report.awk tests/gpu/gpu_peer.py "$B/" &&
        strip "$B/gpu_check" "$B/gpu_bench" 2>/dev/null
    cp tests/data/mini_h264.bzna tests/data/mini_h264.json tests/data/mini_h265.bzna tests/data/mini_h265.json \
        "$B/tests/data/" && cp -r "$D" "$B/data" || exit 1
    if [ -e "$G/scaling" ]; then cp -r "$G/scaling" "$B/" || exit 1; fi
    if [ -e "$G/gpu_hybrid_static" ]; then cp "$G/gpu_hybrid_static" "$B/gpu_hybrid" && strip "$B/gpu_hybrid" || exit 1
    else echo "gpu-bundle: without hybrid decoding, since there is no static FFmpeg: make static-deps"; fi
    cp tests/gpu/gpu_train.py "$B/"
    wheel=$(find "$BUILD/dist/python" -name '*.whl' 2>/dev/null | sort | tail -n 1)
    if [ -n "$wheel" ]; then python3 -m zipfile -e "$wheel" "$B/python" || exit 1
    else echo "gpu-bundle: without gpu-train, since there is no wheel: make wheel"; fi
    cat >"$B/run.sh" <<'END'
#!/bin/sh
# Runs everything on this machine's GPU in at most 570 s. Send back report.json, or what is printed last.
cd "$(dirname "$0")" || exit 1
chmod +x gpu_check gpu_bench gpu_hybrid scaling/bench_scaling scaling/bzna scaling/scaling.sh 2>/dev/null     # a copy may have lost it
case $1 in
train) exec sh ./gpu.sh "$@" ;;         # a training run with each loader
all) shift; sh ./gpu.sh run "$@"; exec sh ./gpu.sh train ;;     # both
esac
exec sh ./gpu.sh run "$@"
END
    chmod +x "$B/run.sh"
    size=$(find "$B" -type f -exec wc -c {} + |
        awk '$2 != "total" { bytes += $1 } END { print int((bytes + 1023) / 1024) }')
    echo "gpu-bundle: $B, $size kB: take it to the GPU, and run sh run.sh there"
    if [ "$size" -gt 58593 ]; then echo "gpu-bundle: that is more than 60 MB: take fewer pictures (PHOTOS)"; exit 1; fi
}

command=$1
[ $# -eq 0 ] || shift
case "$command" in
data)   data "${1:-$BUILD/bench/pictures}" ;;
train)  train "$@" ;;
check)  there gpu-check; exec "$G/gpu_check" --data "$D" "$@" ;;
run)    there gpu-check; there gpu-bench; run "$@" ;;
scaling) scaling_make "${1:-$BUILD/bench/pictures}" ;;
bundle) bundle "${1:-$BUILD/gpu-bundle}" ;;
*) echo "usage: sh gpu.sh run [...] | train [...] | check [...] | data [PHOTOS] | scaling [PHOTOS] | bundle [FOLDER]" >&2; exit 2 ;;
esac
