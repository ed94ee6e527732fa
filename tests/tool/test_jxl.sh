#!/bin/sh
# JPEG XL by examples/formats/jxl.c, the worked example of a codec: pixels are held to djxl's, which is libjxl's own
# program. Usage: sh tests/tool/test_jxl.sh BZNA BUILD, from the repository root.
BZNA=${1:-build/bzna}; BUILD=${2:-build}
passed=0; failed=0; skipped=0
end() { echo "tests/tool/test_jxl.sh: $passed passed, $failed failed, $skipped skipped"; [ "$failed" -eq 0 ]; exit; }
skip() { skipped=$((skipped + 1)); echo "SKIP $1: $2"; end; }
if [ -n "$SANITIZE" ]; then skip jxl "foreign libraries are not what a sanitizer watches"; fi
[ -x "$BZNA" ] && [ -x "$BUILD/draw_pictures" ] || skip jxl "no $BZNA or no $BUILD/draw_pictures"
pkg-config --exists 'libjxl >= 0.7' 2>/dev/null || skip jxl "no libjxl [libjxl-dev]"
for program in cjxl djxl ffmpeg; do
    command -v $program >/dev/null || skip jxl "no $program [libjxl-tools, ffmpeg]"
done

rm -rf "$BUILD/tests/jxl"; mkdir -p "$BUILD/tests/jxl"
T=$(cd "$BUILD/tests/jxl" && pwd)
WARN="-Wall -Wextra -Wpedantic -Wconversion -Wshadow $WERROR"
LIBS="-I. -include tests/unit/with_formats.h -Wl,--allow-shlib-undefined $BUILD/libbenzina_formats.a $BUILD/libbenzina.a \
    $(make --no-print-directory -s print-FORMATS_LIBS) $(pkg-config --cflags --libs libjxl) \
    $(pkg-config --libs libavcodec libavutil) $(pkg-config --libs libjpeg 2>/dev/null) -lm -lpthread -ldl"
check() { # name, command...: its output goes to $T/log, of which a failure shows the end
    name=$1; shift
    if "$@" >"$T/log" 2>&1; then passed=$((passed + 1)); return 0; fi
    failed=$((failed + 1)); echo "FAIL $name"; tail -n 12 "$T/log"; return 1
}

# Lossless and lossy, in color and gray, of 8 and 16 bits, with alpha, from a JPEG that is to be turned.
mkdir -p "$T/jxl/a" "$T/djxl/a"
n=10
add() { # picture, options of cjxl...
    picture=$1; shift
    cjxl "$picture" "$T/jxl/a/$n.jxl" "$@" >"$T/cjxl" 2>&1 && djxl "$T/jxl/a/$n.jxl" "$T/djxl/a/$n.$extension" \
        >"$T/djxl.log" 2>&1 || { cat "$T/cjxl" "$T/djxl.log"; return 1; }
    n=$((n + 1))
}
pictures_are_made() {
    "$BUILD/draw_pictures" "$T/drawn" 2 || return
    extension=ppm
    for picture in "$T"/drawn/*/*.ppm; do
        for distance in 0 1 3; do add "$picture" -d $distance || return; done
    done
    ffmpeg -v error -y -i "$picture" -pix_fmt rgb48be "$T/deep.ppm" && add "$T/deep.ppm" -d 0 &&
        add "$T/deep.ppm" -d 1 &&
        ffmpeg -v error -y -i "$picture" -vf geq=r='X*2':g='Y*2':b=90:a='255-X' -pix_fmt rgba "$T/alpha.png" &&
        add "$T/alpha.png" -d 0 && turned=$(printf %05d $((n - 10))) && add tests/data/pictures/jpeg_exif_6.jpg &&
        extension=pgm &&
        ffmpeg -v error -y -i "$picture" -pix_fmt gray "$T/gray.pgm" && add "$T/gray.pgm" -d 0 &&
        ffmpeg -v error -y -i "$picture" -pix_fmt gray16be "$T/gray16.pgm" && add "$T/gray16.pgm" -d 0
}
check pictures_are_made pictures_are_made || end

# Batches of the folder of JPEG XL and of djxl's files, pixel by pixel; warps read parts of the pictures.
same_pixels() {
    for kind in jxl djxl; do
        "$BZNA" batch "$T/$kind" -o "$T/batch_$kind" --batch 32 --size 160 --seed 3 --warp "$1" \
            >"$T/lines_$kind" || return
    done
    ls "$T"/batch_jxl/*.ppm >/dev/null || return
    for picture in "$T"/batch_jxl/[0-9]*.ppm; do
        # what the warp turns is rounded otherwise than what djxl has turned, once it is scaled, too
        [ "$1 $(basename "$picture")" = "random $turned.ppm" ] ||
            cmp "$picture" "$T/batch_djxl/$(basename "$picture")" ||
            is_near "$picture" "$T/batch_djxl/$(basename "$picture")" || return
    done
}
# On other processors than x86-64, libjxl rounds for djxl otherwise than for its callers: at most 1 of 255 apart.
is_near() {
    [ "$(uname -m)" != x86_64 ] && cmp -l "$1" "$2" | awk '
        function octal(text) { return int(text / 100) * 64 + int(text / 10) % 10 * 8 + text % 10 }
        { apart = octal($2) - octal($3); if (apart > 1 || apart < -1) bad = 1 } END { exit bad }'
}
check pixels_are_those_of_djxl same_pixels none
check pixels_of_parts_are_those_of_djxl same_pixels random

# examples/own_codec.c: the means of the same two folders.
check own_codec_builds ${CC:-cc} -std=c11 -O2 $WARN -I. examples/own_codec.c examples/formats/jxl.c \
    -o "$T/own_codec" $LIBS
same_means() {
    "$T/own_codec" "$T/jxl" >"$T/means_jxl" && "$T/own_codec" "$T/djxl" >"$T/means_djxl" &&
        [ "$(wc -l <"$T/means_jxl")" -eq $((n - 10)) ] && diff "$T/means_jxl" "$T/means_djxl"
}
check means_of_own_codec_are_those_of_djxls_files same_means

# Files that end early and files with other bytes cost their samples; the others have the same means.
damage() {
    rm -rf "$T/damaged"; mkdir -p "$T/damaged/a"; cp "$T"/jxl/a/*.jxl "$T/damaged/a"
    size=$(wc -c <"$T/jxl/a/12.jxl")
    head -c $((size / 2)) "$T/jxl/a/12.jxl" >"$T/damaged/a/12.jxl"
    head -c 3 "$T/jxl/a/14.jxl" >"$T/damaged/a/14.jxl"
    "$T/own_codec" "$T/damaged" >"$T/means_damaged" || return
    grep -x '2 BZNA_E_TRUNCATED' "$T/means_damaged" && grep -x '4 BZNA_E_TRUNCATED' "$T/means_damaged" &&
        grep -v BZNA_E "$T/means_damaged" >"$T/means_good" && grep -v '^[24] ' "$T/means_jxl" | diff - "$T/means_good"
}
check damage_costs_its_samples damage

extracted() { "$BZNA" extract "$T/jxl" 0 -o "$T/0.ppm" && cmp "$T/0.ppm" "$T/djxl/a/10.ppm"; }
check extract_gives_djxls_file extracted
check every_picture_is_verified "$BZNA" verify "$T/jxl" --decode
end
