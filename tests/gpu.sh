#!/bin/sh
# gpu.sh - what make gpu-data, gpu-check and gpu-bench do, from the repository's root. BUILD: where products go. GPU_FEW=1: little data, for a test of it all.
#
#     sh tests/gpu.sh data [PHOTOS]     archives, JPEGs and expectations into $BUILD/gpu/data, with bzna, ffmpeg and gpu_record
#     sh tests/gpu.sh check [...]       runs $BUILD/gpu/gpu_check
#     sh tests/gpu.sh bench [...]       runs tests/gpu_peer.py, then $BUILD/gpu/gpu_bench
#
# check and bench need neither a compiler nor an encoder: what lies in $BUILD/gpu can be taken to a machine with a GPU and run there. The C library there
# must not be older than the one it was built with asks for: what is built on Debian 12 needs glibc 2.34 or newer (Ubuntu 22.04, RHEL 9).
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
    if [ ! -d "$photos" ]; then "$BUILD/draw_pictures" "$photos" 96 || exit 1; fi
    pictures "$photos"
    "$BUILD/bzna" pack "$D/ppm" -o "$D/h265_crf20.bzna" --crf 20 >/dev/null &&
    "$BUILD/bzna" pack "$D/ppm" -o "$D/h265_crf28.bzna" --crf 28 >/dev/null &&
    "$BUILD/bzna" pack "$D/ppm" -o "$D/h264_crf20.bzna" --crf 20 --codec h264 >/dev/null || exit 1
    rm -rf "${D:?}/ppm"
    size=$(du -sk "$D" | cut -f1)
    echo "gpu-data: $D, $size kB, $(find "$D/jpeg" -name '*.jpg' | wc -l) pictures of $photos"
    if [ "$size" -gt 40960 ]; then echo "gpu-data: that is more than 40 MiB: take fewer pictures if it is to be carried far"; fi
}

# there NAME: the binary is here, or why nothing can be done.
there() {
    if [ ! -x "$G/gpu_${1#gpu-}" ]; then
        echo "SKIP $1: $G/gpu_${1#gpu-} is not there, and is built where clang and nv-codec-headers are (Debian: libffmpeg-nvenc-dev)"
        if [ "$1" = gpu-check ]; then echo "tests/gpu_check.c: 0 passed, 0 failed, 1 skipped"; fi
        exit 0
    fi
}

case "$1" in
data)  data "${2:-$BUILD/bench/pictures}" ;;
check) shift; there gpu-check; exec "$G/gpu_check" --data "$D" "$@" ;;
bench)
    shift; there gpu-bench
    out=${OUT:-$G}
    mkdir -p "$out"
    why=$("$G/gpu_bench" --probe) || { echo "SKIP gpu-bench: $why"; exit 0; }
    seconds=4 begun=$(date +%s)
    case " $* " in *" --quick "*) seconds=2 ;; *" --rehearsal "*) seconds=1 ;; esac
    if command -v python3 >/dev/null; then
        timeout 75 python3 tests/gpu_peer.py "$D/jpeg" --seconds $seconds --out "$out/peer.json" || echo "{\"reason\":\"tests/gpu_peer.py ended with status $?\"}" >"$out/peer.json"
    else
        echo '{"reason":"python3 is not installed"}' >"$out/peer.json"
    fi
    exec "$G/gpu_bench" --data "$D" --out "$out/bench.json" --peer "$out/peer.json" --budget $((340 - $(date +%s) + begun)) "$@" ;;
*) echo "usage: sh tests/gpu.sh data [PHOTOS] | check [...] | bench [...]" >&2; exit 2 ;;
esac
