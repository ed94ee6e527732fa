#!/bin/sh
# Opening a large archive, the host's part of the GPU path, and the loader against its decoder alone.
# Usage, by make bench from the repository's root: sh tests/make/bench.sh BUILD PICTURES; the programs are built.
# PICTURES: made if missing. sh tests/make/bench.sh BUILD PICTURES pairs [CODECS [THREADS]]: loaders of archives beside
# their decoders alone, medians of 12 pairs that take turns, a line each as it is done; `CODECS` of h265 h264 h264-tuned
# av1 copy.
set -e
build=$1; pictures=$2; out=$build/bench
run() { echo "$*"; "$@"; }
pairs() {
    [ -d "$pictures" ] || "$build/draw_pictures" "$pictures" 96
    mkdir -p "$out"
    for codec in ${1:-h265 h264 h264-tuned}; do
        archive=$out/pairs_$codec.bzna tune=
        [ "$codec" != "${codec%-tuned}" ] && tune=--tune-decode
        [ -e "$archive" ] || "$build/bzna" pack "$pictures" -o "$archive" --codec "${codec%-tuned}" $tune >/dev/null
        for threads in ${2:-1 2}; do
            i=0
            while [ $((i += 1)) -le 12 ]; do
                "$build/bzna" bench "$archive" --threads $threads --seconds 1 --json
            done | awk -F'[:,]' '{ print $2, $4, $2 / $4 }
                END { if (NR != 12) exit 1 }' | sort -k 3n | awk -v what="$codec, $threads threads" '
                { loader[NR] = $1; share[NR] = $3 }
                END { if (NR != 12) exit 1
                      printf "%s: %.3f of decoding alone (%.3f to %.3f; %.0f pictures/s in the middle)\n", what,
                             (share[6] + share[7]) / 2, share[1], share[12], loader[6] }'
        done
    done
}
if [ "${3:-}" = pairs ]; then pairs "${4:-}" "${5:-}"; exit; fi
run "$out/open" "$out/large.bzna"
for count in 10000 100000 1000000 2000000; do run "$out/writer" $count; done
rm -f "$out/large.bzna"
if [ -e "$out/sessions" ]; then (export LD_LIBRARY_PATH="$out" BENZINA_NVDEC_CHECK=0; run "$out/sessions" tests/data/mini_h265.bzna)
else echo "SKIP the host's part of the GPU path: clang or libffmpeg-nvenc-dev is missing"; fi
[ -d "$pictures" ] || "$build/draw_pictures" "$pictures" 96
"$build/bzna" pack "$pictures" -o "$out/pictures.bzna" --overwrite
for threads in 1 2; do run "$build/bzna" bench "$out/pictures.bzna" --threads $threads --seconds 10; done
