#!/bin/sh
# The fuzz targets without libFuzzer: the inputs that were packed (tests/data/fuzz), files that once went wrong
# (tests/data/crashers), and a sample of fixed single-byte corruptions of small files: every 80th; with TEST_ALL every
# 4th, under a sanitizer every 50th. tests/data/seeds has files of less than 9 kB: two pictures of 16x16 (bzna pack
# --crf 40), or three of 64x48 (ffmpeg -f lavfi -i testsrc=size=64x48 -frames:v 3 -g 1), and what seeds/make.py makes.
# Most of their bytes are boxes, which are thus hit more often than those of photographs. Plain mp4 files of AV1 and of
# 10 bits, coded here where ffmpeg can, are treated likewise.
BUILD=${2:-build}
passed=0; failed=0; skipped=0
step=4; [ -n "$TEST_ALL" ] || step=80; [ -z "$SANITIZE" ] || step=50
[ $step -ne 80 ] || echo "LEFT test_fuzz.sh: 19 of 20 of the corruptions of make test-all"
# Optimizing takes longer than few corruptions do; unoptimized, clang takes half of gcc's time.
cc=${CC:-cc}; optimized=-O1
if [ $step -eq 80 ]; then optimized=-O0; ! command -v clang >/dev/null || cc=clang; fi
mkdir -p "$BUILD/tests"
JPEG_CFLAGS=$(pkg-config --cflags libjpeg 2>/dev/null) && JPEG_LIBS=$(pkg-config --libs libjpeg) ||
    JPEG_CFLAGS=-DBENZINA_NO_JPEG
# shellcheck disable=SC2086
$cc -std=c11 "$optimized" -I. -DBENZINA_NO_CUDA ${SANITIZE:-} $(pkg-config --cflags libavcodec \
    libavutil) $JPEG_CFLAGS -o "$BUILD/tests/fuzz" -DFUZZ_FORMATS $(make --no-print-directory -s print-FORMATS_CFLAGS) \
    tests/fuzz/main.c examples/formats/stills.c examples/formats/tiff.c examples/formats/jpeg2000.c examples/formats/jxl.c \
    $(make --no-print-directory -s print-FORMATS_LIBS) \
    $(pkg-config --libs libavcodec libavutil) $JPEG_LIBS -lm -lpthread ||
    { echo "FAIL the program of all targets does not build"; echo "tests/fuzz/test_fuzz.sh: 0 passed, 1 failed, 0 skipped"; exit 1; }
run() { # name, arguments of the program...
    name=$1; shift
    if "$BUILD/tests/fuzz" "$@" > "$BUILD/tests/fuzz_$name.log" 2>&1; then passed=$((passed + 1)); return 0; fi
    echo "FAIL $name"; tail -n 20 "$BUILD/tests/fuzz_$name.log"; failed=$((failed + 1)); return 1
}
for target in $("$BUILD/tests/fuzz" list); do
    pack=; [ ! -e "tests/data/fuzz/$target.pack" ] || pack="tests/data/fuzz/$target.pack"
    # shellcheck disable=SC2086
    run "the_corpus_of_${target}_is_replayed" "$target" replay - tests/data/crashers $pack
done
# Formats that files are of, and what is done with them: no decoding, then with it.
pictures=tests/data/pictures; heif=tests/data/heif
# These take the most time, eight pictures a corruption: the smaller ones have a tenth of the pixels.
size=mini; rare=$step; if [ $step -eq 80 ]; then size=small; rare=400; fi
run corruptions_of_h265_do_no_harm decode_archive corrupt tests/data/${size}_h265.bzna 0 10000 $rare
run corruptions_of_h264_do_no_harm decode_archive corrupt tests/data/${size}_h264.bzna 0 10000 $rare
for file in tests/data/seeds/* $heif/grid.heic $heif/grid.avif $heif/identity.heic $heif/pieces.heic $heif/thumb.heic \
    $heif/alpha.avif $heif/sequence.heics \
    $pictures/jpeg_420_progressive.jpg $pictures/jpeg_exif_6.jpg $pictures/jpeg_arithmetic.jpg \
    $pictures/jpeg_ycck_420_scans.jpg $pictures/png_palette_clear.png \
    $pictures/webp_lossy_clear.webp $pictures/gif_animated_clear.gif $pictures/tiff_lzw.tif $pictures/tiff_cmyk.tif $pictures/jpeg2000.jp2 \
    $pictures/jpeg2000_gray.j2k $pictures/bmp_palette_8.bmp; do
    seed=$(basename "$file" | tr . _)
    case $file in
    *.py) continue ;;
    *.tar) with=; parsed=tar ;;
    *.rec) with=; parsed=recordio ;;
    *.hei? | *.heics | *.avif) with=decode_heif; parsed=heif ;;
    *.tif) with=decode_tiff; parsed= ;;
    *.jp2 | *.j2k) with=decode_jpeg2000; parsed= ;;
    *.jxl) with=decode_jxl; parsed= ;;
    *.gif | *.bmp | *.p?m) with=decode_gif_bmp_pnm; parsed= ;;
    $pictures/* | *.p?? | *.webp) with=decode_stills; parsed=stills ;;
    *) with=decode_archive; parsed=archive ;;
    esac
    [ -z "$with" ] || run "corruptions_of_small_${seed}_do_no_harm" "$with" corrupt "$file" 0 2000 "$step"
    [ -z "$parsed" ] || run "corruptions_of_small_${seed}_are_parsed" "$parsed" corrupt "$file" 0 20000 "$step"
done
plain() { # name, encoder and its options...
    name=$1; shift
    file="$BUILD/tests/fuzz_$name.mp4"
    if ! ffmpeg -v quiet -y -f lavfi -i testsrc=size=94x62:rate=25 -frames:v 4 -g 1 -c:v "$@" "$file" < /dev/null; then
        echo "SKIP corruptions_of_${name}_do_no_harm: no ffmpeg, or one that cannot code it [ffmpeg]"; skipped=$((skipped + 1)); return
    fi
    run "corruptions_of_${name}_do_no_harm" decode_archive corrupt "$file" 0 4000 "$step"
}
plain av1_10_bits libaom-av1 -cpu-used 8 -pix_fmt yuv420p10le
plain av1_444 libaom-av1 -cpu-used 8 -pix_fmt yuv444p
plain h265_10_bits libx265 -x265-params log-level=none -pix_fmt yuv422p10le
echo "tests/fuzz/test_fuzz.sh: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
