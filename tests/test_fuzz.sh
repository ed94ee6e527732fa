#!/bin/sh
# A sample of the fixed single-byte corruptions (make fuzz does them all): every 20th; with TEST_ALL every 4th, under a sanitizer every 50th.
# Also every file that ever went wrong, from tests/data/crashers. tests/data/seeds has files of less than 9 kB: two pictures of 16x16
# (bzna pack --crf 40), or three of 64x48 (ffmpeg -f lavfi -i testsrc=size=64x48 -frames:v 3 -g 1). Most of their bytes are boxes, which are
# thus hit more often than those of photographs. Beside them tars, RecordIO and two PNM files, and what fuzz_archive.c knows by a word: raw records,
# lists, indices, patterns. Plain mp4 files of AV1 and of 10 bits, coded here where ffmpeg can, are treated likewise.
BUILD=${2:-build}
passed=0; failed=0; skipped=0
step=4; [ -n "$TEST_ALL" ] || step=20; [ -z "$SANITIZE" ] || step=50
[ $step -ne 20 ] || echo "LEFT test_fuzz.sh: four of five corruptions"
mkdir -p "$BUILD/tests"
JPEG_CFLAGS=$(pkg-config --cflags libjpeg 2>/dev/null) && JPEG_LIBS=$(pkg-config --libs libjpeg) || JPEG_CFLAGS=-DBENZINA_NO_JPEG
# shellcheck disable=SC2086
${CC:-cc} -std=c11 -O1 -g -I. -DBENZINA_STATIC -DBENZINA_NO_CUDA ${SANITIZE:-} $(pkg-config --cflags libavcodec libavutil) $JPEG_CFLAGS -o "$BUILD/tests/fuzz_archive" tests/fuzz_archive.c \
    $(pkg-config --libs libavcodec libavutil) $JPEG_LIBS -lm -lpthread || { echo "tests/test_fuzz.sh: 0 passed, 1 failed, 0 skipped"; exit 1; }
run() { # name, arguments...
    name=$1; shift
    if "$BUILD/tests/fuzz_archive" "$@" > "$BUILD/tests/fuzz_$name.log" 2>&1; then return 0; fi
    echo "FAIL $name"; tail -n 20 "$BUILD/tests/fuzz_$name.log"; return 1
}
run corruptions_of_h265_do_no_harm corrupt tests/data/mini_h265.bzna 0 10000 $step & first=$!
if run corruptions_of_h264_do_no_harm corrupt tests/data/mini_h264.bzna 0 10000 $step; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
if wait $first; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
pictures=tests/data/pictures; heif=tests/data/heif
for file in tests/data/seeds/* $pictures/jpeg_420_progressive.jpg $pictures/jpeg_exif_6.jpg $pictures/jpeg_arithmetic.jpg $pictures/jpeg_ycck_420_scans.jpg $pictures/png_palette_clear.png $pictures/webp_lossy_clear.webp \
    $pictures/gif_animated_clear.gif $pictures/tiff_lzw.tif $pictures/jpeg2000.jp2 $pictures/bmp_palette_8.bmp \
    $heif/grid.heic $heif/grid.avif $heif/identity.heic $heif/pieces.heic $heif/thumb.heic $heif/alpha.avif $heif/sequence.heics; do
    seed=$(basename "$file" | tr . _)
    if run "corruptions_of_small_${seed}_do_no_harm" corrupt "$file" 0 2000 "$step"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
    if run "corruptions_of_small_${seed}_are_parsed" parse "$file" 0 20000 "$step"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
done
if run files_that_once_went_wrong replay tests/data/*.bzna tests/data/seeds/* $(ls tests/data/crashers/* 2>/dev/null); then passed=$((passed + 1)); else failed=$((failed + 1)); fi
plain() { # name, encoder and its options...
    name=$1; shift
    file="$BUILD/tests/fuzz_$name.mp4"
    if ! ffmpeg -v quiet -y -f lavfi -i testsrc=size=94x62:rate=25 -frames:v 4 -g 1 -c:v "$@" "$file" < /dev/null; then
        echo "SKIP corruptions_of_${name}_do_no_harm: no ffmpeg, or one that cannot code it [ffmpeg]"; skipped=$((skipped + 1)); return
    fi
    if [ "$("$BUILD/tests/fuzz_archive" replay "$file" 2>&1)" != "$file: 4 pictures" ]; then
        echo "FAIL $name: $("$BUILD/tests/fuzz_archive" replay "$file" 2>&1 | tail -n 3)"; failed=$((failed + 1)); return
    fi
    if run "corruptions_of_${name}_do_no_harm" corrupt "$file" 0 4000 "$step"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}
plain av1_10_bits libaom-av1 -cpu-used 8 -pix_fmt yuv420p10le
plain av1_444 libaom-av1 -cpu-used 8 -pix_fmt yuv444p
plain h265_10_bits libx265 -x265-params log-level=none -pix_fmt yuv422p10le
echo "tests/test_fuzz.sh: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
