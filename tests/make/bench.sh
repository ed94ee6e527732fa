#!/bin/sh
# Opening a large archive, the host's part of the GPU path, and the loader against its decoder alone.
# Usage, by make bench from the repository's root: sh tests/make/bench.sh BUILD PICTURES; the programs are built. PICTURES: made if missing.
set -e
build=$1; pictures=$2; out=$build/bench
run() { echo "$*"; "$@"; }
run "$out/open" "$out/large.bzna"
rm -f "$out/large.bzna"
if [ -e "$out/sessions" ]; then (export LD_LIBRARY_PATH="$out" BENZINA_NVDEC_CHECK=0; run "$out/sessions" tests/data/mini_h265.bzna)
else echo "SKIP the host's part of the GPU path: clang or libffmpeg-nvenc-dev is missing"; fi
[ -d "$pictures" ] || "$build/draw_pictures" "$pictures" 96
"$build/bzna" pack "$pictures" -o "$out/pictures.bzna" --overwrite
for threads in 1 2; do run "$build/bzna" bench "$out/pictures.bzna" --threads $threads --seconds 10; done
