#!/bin/sh
# Every single-byte corruption of the fixed series, under ASan and UBSan; then two coverage-guided minutes at once, with decoding and without,
# where clang has libFuzzer. The seeds have less than 8 kB: executions are then some ten times as many as with photographs.
# Usage, by make fuzz from the repository's root: BUILD, CC, FUZZ_FLAGS, LIBS in the environment; the PTX is made.
mkdir -p "$BUILD/fuzz/decode" "$BUILD/fuzz/parse"
# shellcheck disable=SC2086
$CC $FUZZ_FLAGS -o "$BUILD/fuzz/archive" tests/fuzz_archive.c $LIBS || exit 1
for f in tests/data/mini_h265.bzna tests/data/mini_h264.bzna tests/data/slices_h264.bzna tests/data/seeds/* tests/data/heif/*.heic tests/data/heif/[aglp]*.avif; do
    "$BUILD/fuzz/archive" corrupt "$f" 0 10000 2 & "$BUILD/fuzz/archive" corrupt "$f" 1 10000 2 || exit 1; wait $! || exit 1; done
if ! echo 'int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { (void)d; (void)n; return 0; }' |
    clang -fsanitize=fuzzer -x c - -o "$BUILD/fuzz/probe" 2>/dev/null; then
    echo "SKIP guided fuzzing: clang has no libFuzzer here"; exit 0
fi
guided_build() { # name, more flags
    # shellcheck disable=SC2086
    clang $FUZZ_FLAGS -fsanitize=fuzzer -DBENZINA_LIBFUZZER $2 -o "$BUILD/fuzz/guided_$1" tests/fuzz_archive.c $LIBS
}
guided() { # name: a crash leaves its file in $BUILD/fuzz
    cp tests/data/slices_h264.bzna tests/data/seeds/* tests/data/crashers/* tests/data/pictures/*.??? tests/data/pictures/*.webp tests/data/heif/*.heic* tests/data/heif/*.avif "$BUILD/fuzz/$1/" && rm -f "$BUILD/fuzz/$1"/*.rgb &&
        "$BUILD/fuzz/guided_$1" -max_total_time=60 -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 -artifact_prefix="$BUILD/fuzz/" \
            "$BUILD/fuzz/$1" > "$BUILD/fuzz/$1.log" 2>&1
}
guided_build decode "" && guided_build parse "-DBENZINA_NO_AVCODEC -DBENZINA_NO_JPEG" || exit 1
guided decode & guided parse; parse=$?; wait $!; decode=$?
tail -n 12 "$BUILD/fuzz/decode.log" "$BUILD/fuzz/parse.log"
[ $parse$decode = 00 ]
