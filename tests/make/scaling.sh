#!/bin/sh
# How a loader's rate grows with its decoder threads. From the repository's root:
#     sh tests/make/scaling.sh data BUILD PICTURES FOLDER   makes the data sets in FOLDER, of at most 64 of the pictures below PICTURES
#     sh tests/make/scaling.sh bundle BUILD FOLDER          makes a statically linked program there that runs without libavcodec or libjpeg, and this script
# And there, or anywhere:
#     sh scaling.sh run [FOLDER] [--seconds S] [--rounds N] [--threads 1,2,4,8,16]
# What it prints is explained in tests/bench/bench_scaling.c. SCALING_PROGRAM: bench_scaling, where it is not in FOLDER.
# SCALING_SECONDS: all of it takes at most so many seconds; SCALING_SCALE: each measurement takes so much of its usual
# time; GPU_FEW=1: 1 and 2 threads (tests/gpu/gpu.sh gives these). STATIC: the folder of the static FFmpeg
# (BUILD/static/ffmpeg). OPT: how bundle's programs are optimized.
#
# The program is bzna with bench_scaling in it, so that a machine without decoders can also look at archives and measure
# them (bzna bench). It has no GPU path: a static program cannot load a driver's libraries dependably. NVDEC and the
# kernels are what gpu_bench and gpu_check are for.
set -eu

# Pictures with a longest edge of 512 as JPEG and as an archive of H.264, and each cut into 32 pictures of 64x64.
data() {
    build=$1 pictures=$2 folder=$3
    command -v ffmpeg >/dev/null || { echo "SKIP scaling: ffmpeg is not installed"; exit 0; }
    [ -x "$build/bzna" ] || { echo "SKIP scaling: $build/bzna is not there (libavformat-dev, libswscale-dev or libavcodec-dev is missing)"; exit 0; }
    [ -d "$pictures" ] || "$build/draw_pictures" "$pictures" 96
    rm -rf "$folder/photos" "$folder/small" "$folder/h264.bzna"
    find -L "$pictures" -type f ! -name '.*' | LC_ALL=C sort |
        awk '{ all[NR] = $0 } END { n = NR < 64 ? NR : 64; for (i = 0; i < n; i++) print all[int(i * NR / n) + 1] }' > \
        "$folder.list"
    number=0
    while read -r file; do
        number=$((number + 1)); class=$((number % 8)); name=$(printf %03d $number)
        mkdir -p "$folder/photos/$class" "$folder/small/$class"
        ffmpeg -v error -nostdin -y -i "$file" -frames:v 1 -q:v 3 \
            -vf scale=512:512:force_original_aspect_ratio=decrease:flags=lanczos,format=yuvj420p \
            "$folder/photos/$class/$name.jpg" || continue
        ffmpeg -v error -nostdin -y -i "$file" -frames:v 1 -vf scale=512:256:flags=lanczos,format=yuvj420p \
            -f image2pipe -c:v ppm - |
            ffmpeg -v error -nostdin -y -f image2pipe -c:v ppm -i - -vf untile=8x4,format=yuvj420p -q:v 3 \
            "$folder/small/$class/${name}_%02d.jpg" || continue
    done < "$folder.list"
    rm -f "$folder.list"
    "$build/bzna" pack "$folder/photos" -o "$folder/h264.bzna" --codec h264 > /dev/null
    echo "scaling: $folder: $(find "$folder/photos" -name '*.jpg' | wc -l) photographs, $(find "$folder/small" -name '*.jpg' | wc -l) small pictures"
}

# What goes with the programs: this script, and the licences of what they contain.
accompany() {
    cp tests/make/scaling.sh "$2/" && chmod +x "$2/scaling.sh"
    rm -rf "$2/licences" && cp -r "$1/licences" "$2/"
}

bundle() {
    build=$1 folder=$2 libs=${STATIC:-$1/static/ffmpeg} missing=
    jpeg=$(pkg-config --variable=libdir libjpeg 2>/dev/null || true)/libjpeg.a
    if [ -x "$folder/bzna" ] && [ -z "$(find benzina.c benzina.h examples/bzna examples/formats tests/bench/bench_scaling.c -newer "$folder/bzna")" ]; then
        echo "scaling: $folder/bzna is up to date"
        accompany "$libs" "$folder"
        return
    fi
    for program in nasm:nasm meson:meson ninja:ninja-build dpkg-source:dpkg-dev; do
        [ -e "$libs/done" ] || command -v "${program%:*}" >/dev/null || missing="$missing ${program#*:}"
    done
    [ -e "$jpeg" ] || missing="$missing libjpeg-dev"
    [ -z "$missing" ] || { echo "SKIP scaling: no static FFmpeg or libjpeg can be had: make static-deps installs what is missing [${missing# }]"; exit 3; }
    sh tests/make/codecs.sh "$libs" || { echo "SKIP scaling: the static FFmpeg cannot be built here"; exit 3; }
    PKG_CONFIG_PATH=$libs/lib/pkgconfig; export PKG_CONFIG_PATH
    flags="-std=c11 ${OPT:--O3} -ffp-contract=off -D_GNU_SOURCE -DBENZINA_NO_CUDA -I. -Iexamples/formats $(pkg-config --cflags libavcodec libavformat libswscale libavutil)"
    needs="$(pkg-config --static --libs libavformat libavcodec libswscale libavutil) $jpeg -lm -lpthread -ldl"
    mkdir -p "$folder"
    # without the formats' own libraries
    flags="$flags -DBENZINA_FORMATS_NO_STILLS -DBENZINA_FORMATS_NO_TIFF -DBENZINA_FORMATS_NO_JPEG2000"
    flags="$flags -DBENZINA_FORMATS_NO_JXL"
    # One program, as each would have the same 7 MB of decoders in it: "bzna bench_scaling" is the measurement.
    objects=$(mktemp -d)
    cat >"$objects/main.c" <<'END'
#include <string.h>
int bzna_main(int argc, char **argv);
int bench_scaling_main(int argc, char **argv);
int main(int argc, char **argv)
{
    return argc > 1 && !strcmp(argv[1], "bench_scaling") ? bench_scaling_main(argc - 1, argv + 1) : bzna_main(argc, argv);
}
END
    # shellcheck disable=SC2086,SC2015
    ${CC:-cc} $flags -c benzina.c -o "$objects/benzina.o" &&
        ${CC:-cc} $flags -Dmain=bench_scaling_main -c tests/bench/bench_scaling.c -o "$objects/bench_scaling.o" &&
        ${CC:-cc} $flags -c "$objects/main.c" -o "$objects/main.o" &&
        ${CC:-cc} $flags -Dmain=bzna_main -DBZNA_JPEG -DBZNA_STREAM_NO_ZLIB -DBZNA_STREAM_NO_ZSTD -static -s -o "$folder/bzna" examples/bzna/*.c examples/formats/*.c examples/stream/stream.c examples/stream/stream_source.c "$objects"/*.o $needs || { rm -rf "$objects"; exit 1; }
    rm -rf "$objects"
    # shellcheck disable=SC2016  # that script's
    printf '#!/bin/sh\nexec "$(dirname "$0")/bzna" bench_scaling "$@"\n' >"$folder/bench_scaling"
    chmod +x "$folder/bench_scaling"
    accompany "$libs" "$folder"
    echo "scaling: $folder/bzna, $(wc -c <"$folder/bzna") bytes"
}

# Two processors that are one core have less than twice its rate, and fewer cores at work may have a higher clock:
# whoever reads the shares must know.
machine() {
    model=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo 2>/dev/null | head -n 1)
    echo "machine: $(grep -c '^processor' /proc/cpuinfo 2>/dev/null || echo ?) processors${model:+, $model}; those of one core: $(
        cat /sys/devices/system/cpu/cpu0/topology/thread_siblings_list 2>/dev/null || echo ?); limit of the container: $(
        cat /sys/fs/cgroup/cpu.max 2>/dev/null || echo none); load $(cut -d ' ' -f 1-3 /proc/loadavg 2>/dev/null || echo ?)"
}

run() {
    folder=$(dirname "$0")
    if [ $# -gt 0 ] && [ "${1#--}" = "$1" ]; then folder=$1; shift; fi
    records=${TMPDIR:-/tmp}/bench_scaling_$$.records
    trap 'rm -f "$records"' EXIT
    trap 'exit 143' TERM
    machine
    # on its way here, nothing was lost
    if [ -x "$folder/bzna" ]; then "$folder/bzna" verify "$folder/h264.bzna" || exit 1; fi
    # Of 100 s: three rounds of twenty measurements of 0.7 s each, which take half as long again to warm up.
    if [ -n "${SCALING_SECONDS:-}" ]; then
        few=; [ -z "${GPU_FEW:-}" ] || few="--threads 1,2"
        # shellcheck disable=SC2046,SC2086  # words
        set -- $(awk -v s="$SCALING_SECONDS" -v scale="${SCALING_SCALE:-1}" \
            'BEGIN { printf "--seconds %.5f --limit %.2f", (scale < 0.01 ? 0.01 : scale) * 0.007 * s, 0.85 * s }') \
            --records 16384 $few "$@"
    fi
    "${SCALING_PROGRAM:-$folder/bench_scaling}" "$@" photographs="$folder/photos" jpeg64="$folder/small@64" \
        records32="records:$records@32" h264="$folder/h264.bzna"
}

command=${1:-run}
[ $# -eq 0 ] || shift
case $command in
data|bundle|run) "$command" "$@" ;;
*) echo "scaling.sh data|bundle|run: see its first lines" >&2; exit 2 ;;
esac
