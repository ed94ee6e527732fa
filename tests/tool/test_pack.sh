#!/bin/sh
# test_pack.sh - tests of bzna pack: pictures of all kinds, classes, outputs. test_resume.sh interrupts it.
# shellcheck disable=SC2012,SC2046,SC2059
. tests/tool/tool.sh

# files: the last parts of the names in $t/out
files() { field_all filename | sed 's,[^ ]*/,,g'; }

pack_tests() {
    expect 0 "draw_pictures" "$build/draw_pictures" "$t/drawn" 8
    expect 0 "draw_pictures again" "$build/draw_pictures" "$t/again" 4
    same "draw_pictures draws the same twice" "$(cd "$t/again" && cksum */*)" "$(cd "$t/drawn" && cksum */00.ppm)"
    expect 0 "pack" "$bzna" pack "$t/drawn" -o "$t/one.bzna" --jobs 1 --preset ultrafast
    expect 0 "pack --json" "$bzna" pack "$t/drawn" -o "$t/two.bzna" --jobs 2 --preset ultrafast --json
    json "$t/out" "pack's report is JSON"
    says "$t/out" '"classes":["charts","fractals","plasma","shapes"]' "pack tells the classes in order"
    if cmp -s "$t/one.bzna" "$t/two.bzna"; then pass; else fail "the archive does not depend on --jobs"; fi
    expect 0 "verify --decode of the packed archive" "$bzna" verify --decode "$t/one.bzna"
    expect 0 "list of the packed archive" "$bzna" list --json "$t/one.bzna"
    same "targets are the numbers of the class folders" "$(field_all target)" "0 0 1 1 2 2 3 3 "
    says "$t/out" '"target":1,"class":"fractals","filename":"fractals/00.ppm"' \
        "classes have names, and samples their paths"
    same "file names are kept, in order" "$(files)" \
        "00.ppm 01.ppm 00.ppm 01.ppm 00.ppm 01.ppm 00.ppm 01.ppm "
    run "$bzna" list "$t/one.bzna"
    says "$t/out" 'fractals/00.ppm  class="fractals"' "list names classes in text, too"
    expect 0 "pack over an archive, as H.264" "$bzna" pack "$t/drawn" -o "$t/two.bzna" --codec h264 --crf 24 \
        --preset ultrafast --overwrite
    expect 0 "verify --decode of H.264" "$bzna" verify --decode "$t/two.bzna"
    if [ -e "$t/one.bzna.partial" ] || [ -e "$t/two.bzna.partial" ]; then fail "no partial file is left"; else pass; fi

    # 333x251 (odd) and 120x90 look like what they were made from.
    for archive in one two; do
        for which in 3:fractals/01 6:shapes/00; do
            expect 0 "extract ${which#*:} of $archive" "$bzna" extract "$t/$archive.bzna" "${which%%:*}" -o "$t/x.ppm"
            psnr "$t/drawn/${which#*:}.ppm" "$t/x.ppm"
            if [ "$db" -ge 24 ]; then pass; else fail "${which#*:} of $archive looks like its source" "$db dB"; fi
        done
    done
    expect 0 "extract of a stream" "$bzna" extract "$t/one.bzna" 0 -o "$t/x.h265"
    same "the stream begins with a parameter set" "$(head -c 5 "$t/x.h265" | od -An -tx1 | tr -d ' ')" 0000000140
    expect 0 "extract of planes" "$bzna" extract "$t/one.bzna" 0 -o "$t/x.yuv"
    same "the planes are the whole frame" "$(wc -c <"$t/x.yuv" | tr -d ' ')" $((512 * 512 * 3 / 2))
    expect 0 "extract of a thumbnail" "$bzna" extract "$t/one.bzna" 5 --track bzna_thumb -o "$t/x.ppm"
    same "a thumbnail's longest edge is 512" "$(ppm_size "$t/x.ppm")" "512 354"
}

orientation_tests() {
    mkdir "$t/exif"
    for o in 1 2 3 4 5 6 7 8; do oriented_jpeg $o >"$t/exif/$o.jpg"; done
    expect 0 "pack of EXIF orientations" "$bzna" pack "$t/exif" -o "$t/exif.bzna" --preset ultrafast --crf 4 --frame 64
    for corners in 1:ABCD 2:BADC 3:DCBA 4:CDAB 5:ACBD 6:CADB 7:DBCA 8:BDAC; do
        o=${corners%:*} w=24 h=16
        if [ "$o" -ge 5 ]; then w=16 h=24; fi
        run "$bzna" extract "$t/exif.bzna" $((o - 1)) -o "$t/x.ppm"
        same "orientation $o gives the right size" "$(ppm_size "$t/x.ppm")" "$w $h"
        same "orientation $o gives an upright picture" "$(found "$t/x.ppm" $w $h)" "${corners#*:}"
    done
}

# Grids, crops and turns are the library's to read: what libavformat makes of them depends on its version.
heif_tests() {
    mkdir "$t/heif"
    cp $data/heif/still.heic $data/heif/grid.heic $data/heif/identity.heic $data/heif/overlay.heic "$t/heif"
    expect 1 "pack of HEIF files, of which one is not read" "$bzna" pack "$t/heif" -o "$t/heif.bzna" \
        --preset ultrafast --crf 4
    says "$t/err" "iovl at byte 182: the picture, item 2, is of a type that is not read" "what is not read of them is said"
    i=0
    for size in "150 100" "20 36" "48 32"; do
        run "$bzna" extract "$t/heif.bzna" $i -o "$t/x.ppm"
        same "HEIF picture $i has the right size" "$(ppm_size "$t/x.ppm")" "$size"
        i=$((i + 1))
    done
}

# --check headers finds what is cut off, not what is damaged; decoding finds both, and the summary says which it was.
header_tests() {
    mkdir "$t/whole" "$t/damaged"
    cp $data/pictures/*.jpg "$t/whole"
    expect 0 "pack of JPEG files, which are decoded" "$bzna" pack "$t/whole" -o "$t/decoded.bzna" --codec copy
    says "$t/out" "JPEG files were checked by decoding every one" "the summary says that they were"
    expect 0 "--check headers" "$bzna" pack "$t/whole" -o "$t/headers.bzna" --codec copy --check headers
    says "$t/out" "checked by their headers and end markers, and not decoded" "the summary says that they were not"
    if cmp -s "$t/decoded.bzna" "$t/headers.bzna"; then pass; else fail "the archive does not depend on --check"; fi
    tar -C "$t/whole" -cf "$t/whole.tar" .
    expect 0 "pack of a tar of JPEG files, which are decoded" "$bzna" pack "$t/whole.tar" -o "$t/decoded.bzna" \
        --codec copy --overwrite
    expect 0 "pack of a tar of JPEG files, by their headers" "$bzna" pack "$t/whole.tar" -o "$t/headers.bzna" \
        --codec copy --check headers --overwrite
    if cmp -s "$t/decoded.bzna" "$t/headers.bzna"; then pass; else fail "nor does that of a tar"; fi
    expect 0 "--check headers --json" "$bzna" pack "$t/whole" -o "$t/headers.bzna" --codec copy --check headers --json \
        --overwrite
    says "$t/out" '"check":"headers"' "JSON says it, too"
    run "$bzna" pack "$t/drawn" -o "$t/x.bzna" --codec h264 --preset ultrafast --json --overwrite
    if grep -q '"check"' "$t/out"; then fail "and nothing of encoded pictures"; else pass; fi
    refused 2 "--check headers: only --codec copy" "--check headers without --codec copy" "$bzna" pack \
        "$t/whole" -o "$t/x.bzna" --check headers --overwrite

    size=$(wc -c <"$t/whole/jpeg_420_progressive.jpg")
    head -c $((size - 2)) "$t/whole/jpeg_420_progressive.jpg" >"$t/damaged/no_end.jpg"
    head -c $((size / 2)) "$t/whole/jpeg_420_progressive.jpg" >"$t/damaged/half_progressive.jpg"
    run "$bzna" extract "$t/drawn" 3 -o "$t/x.jpg"
    size=$(wc -c <"$t/x.jpg")
    head -c $((size * 2 / 3)) "$t/x.jpg" >"$t/damaged/half.jpg"
    { cat "$t/damaged/half.jpg"; head -c $((size / 3)) /dev/zero; } >"$t/damaged/zeros.jpg"
    { head -c 100 "$t/whole/jpeg_440.jpg"; printf '\377\331'; } >"$t/damaged/only_headers.jpg"
    printf 'GIF89a' >"$t/damaged/no_picture.jpg"
    expect 1 "pack of files that are cut off, decoded" "$bzna" pack "$t/damaged" -o "$t/x.bzna" --codec copy --overwrite
    reasons=$(grep -o '[a-z_]*\.jpg: .*' "$t/err" | sort)
    expect 1 "pack of files that are cut off, by their headers" "$bzna" pack "$t/damaged" -o "$t/y.bzna" --codec copy \
        --check headers --overwrite
    same "the same files are left out" "$(grep -o '[a-z_]*\.jpg: ' "$t/err" | sort)" \
        "$(echo "$reasons" | grep -o '^[a-z_]*\.jpg: ')"
    for name in half half_progressive zeros only_headers no_picture; do
        says "$t/err" "damaged/$name.jpg: " "$name is left out"
    done

    # The last third of the coded data is missing, the end marker is there.
    mkdir "$t/entropy"
    { cat "$t/damaged/half.jpg"; printf '\377\331'; } >"$t/entropy/a.jpg"
    expect 1 "damaged entropy data, decoded" "$bzna" pack "$t/entropy" -o "$t/x.bzna" --codec copy --overwrite
    says "$t/err" "entropy/a.jpg: " "is left out"
    expect 0 "damaged entropy data, by the headers" "$bzna" pack "$t/entropy" -o "$t/x.bzna" --codec copy \
        --check headers --overwrite
    says "$t/out" "bzna verify --decode would find damage between them" "the summary says what finds it"
    expect 1 "verify --decode finds it" "$bzna" verify --decode "$t/x.bzna"
    says "$t/out" "sample 0: BZNA_E_" "and names it"
}

# A folder of files of all kinds: their bytes are the archive's samples, and are decoded as such.
copy_tests() {
    mkdir "$t/copied"
    cp $data/pictures/*.jpg "$t/copied"
    expect 0 "pack of JPEG files as they are" "$bzna" pack "$t/copied" -o "$t/copy.bzna" --codec copy
    expect 0 "verify --decode of them" "$bzna" verify --decode "$t/copy.bzna"
    expect 0 "list of them" "$bzna" list --json "$t/copy.bzna"
    same "they are JPEG" "$(grep -c '"image":{"codec":"jpeg"\|"bzna_input":{"codec":"jpeg"' "$t/out")" \
        "$(ls "$t/copied" | wc -l | tr -d ' ')"
    says "$t/out" '"width":25,"height":40,"frame_width":40,"frame_height":25' "a copied file keeps its orientation"
    expect 0 "they are files again" "$bzna" convert "$t/copy.bzna" -o "$t/files_again/"
    same "files whose bytes changed" "$(diff -r "$t/copied" "$t/files_again" 2>&1)" ""
    run "$bzna" extract "$t/copied" jpeg_exif_6.jpg -o "$t/a.ppm"
    run "$bzna" extract "$t/copy.bzna" jpeg_exif_6.jpg -o "$t/b.ppm"
    same "turned as in the folder" "$(ppm_size "$t/b.ppm")" "25 40"
    if cmp -s "$t/a.ppm" "$t/b.ppm"; then pass; else fail "an archive's JPEG is seen as the folder's"; fi
    expect 0 "info of them" "$bzna" info --json "$t/copy.bzna"
    json "$t/out" "info of JPEG is JSON"
    expect 0 "batch of them" "$bzna" batch "$t/copy.bzna" -o "$t/copy" --batch 4 --size 64
    expect 0 "bench of them" "$bzna" bench "$t/copy.bzna" --seconds 0.1 --batch 4 --threads 1 --decoder software
    if command -v ffmpeg >/dev/null 2>&1; then
        mkdir "$t/two"
        cp "$t/copied/jpeg_420_progressive.jpg" "$t/two/a.jpg"
        ffmpeg -v error -i "$t/two/a.jpg" -vf hflip -pix_fmt yuvj420p "$t/two/b.jpg"
        expect 0 "pack of two of one size" "$bzna" pack "$t/two" -o "$t/two.bzna" --codec copy --overwrite
        same "ffprobe sees them as one track" "$(ffprobe -v error -count_frames -select_streams v -show_entries \
            stream=codec_name,width,height,nb_read_frames -of csv=p=0 "$t/two.bzna" 2>&1)" mjpeg,40,25,2
        same "ffmpeg decodes the archive as the files" "$(frames "$t/two.bzna")" \
            "$(frames "$t/two/a.jpg"; frames "$t/two/b.jpg")"
        ffmpeg -v error -i "$t/two/a.jpg" -vf crop=24:16 -pix_fmt yuvj420p "$t/two/c.jpg"
        expect 0 "pack of two sizes" "$bzna" pack "$t/two" -o "$t/two.bzna" --codec copy --overwrite
        same "ffprobe sees no track of them, whose size it would not know" "$(ffprobe -v error -select_streams v \
            -show_entries stream=index -of csv=p=0 "$t/two.bzna" 2>&1)" ""
    else skip "ffmpeg reads archives of JPEG" "ffmpeg is not installed [ffmpeg]"; fi

    cp "$t/drawn/plasma/01.ppm" "$t/copied/large.ppm"
    head -c 500 "$t/copied/jpeg_440.jpg" >"$t/copied/cut.jpg"
    expect 1 "a file that is cut off is left out" "$bzna" pack "$t/copied" -o "$t/copy.bzna" --codec copy --overwrite \
        --quality 95
    says "$t/err" "copied/cut.jpg: " "it is named"
    run "$bzna" list --json "$t/copy.bzna"
    same "what is no JPEG becomes one, without a thumbnail" \
        "$(grep -o '"name":"large.ppm".*\|.*"large.ppm".*' "$t/out" | grep -o '"codec":"[a-z]*"' | tr '\n' ' ')" \
        '"codec":"jpeg" '
}

jpeg_tests() {
    refused 2 "--quality must be 1 to 100" "a quality out of range" "$bzna" pack "$t" -o "$t/x.bzna" --codec jpeg --quality 101
    refused 2 "give --crf, or a name" "a quality of JPEG with H.265" "$bzna" pack "$t" -o "$t/x.bzna" --quality 90
    refused 2 "visually-lossless, jpeg-90, small" "a quality without a meaning" "$bzna" pack "$t" -o "$t/x.bzna" --quality best
    refused 2 "give one of them" "two qualities" "$bzna" pack "$t" -o "$t/x.bzna" --quality small --crf 22
    mkdir "$t/one"; cp "$t/drawn/shapes/00.ppm" "$t/one/"
    for way in "h264 small crf 25" "h265 jpeg-90 crf 24" "jpeg visually-lossless quality 95"; do
        # shellcheck disable=SC2086  # words
        set -- $way
        run "$bzna" pack "$t/one" -o "$t/named.bzna" --overwrite --codec "$1" --quality "$2"
        run "$bzna" pack "$t/one" -o "$t/number.bzna" --overwrite --codec "$1" "--$3" "$4"
        if cmp -s "$t/named.bzna" "$t/number.bzna"; then pass; else fail "--codec $1 --quality $2 is --$3 $4" "other bytes"; fi
    done
    refused 2 "--quality" "a quality out of range" "$bzna" pack "$t" -o "$t/x.bzna" --quality 101
    refused 2 "--tune-decode" "an encoder without that" "$bzna" pack "$t" -o "$t/x.bzna" --codec jpeg --tune-decode
    expect 0 "pack as JPEG" "$bzna" pack "$t/drawn" -o "$t/jpeg.bzna" --codec jpeg --jobs 1
    expect 0 "pack as JPEG again" "$bzna" pack "$t/drawn" -o "$t/again.bzna" --codec jpeg --jobs 2 --quality 90
    if cmp -s "$t/jpeg.bzna" "$t/again.bzna"; then pass; else fail "the same JPEGs with --jobs 2, quality 90 by default"; fi
    expect 0 "pack of low quality" "$bzna" pack "$t/drawn" -o "$t/again.bzna" --codec jpeg --quality 20 --overwrite
    expect 0 "verify --decode of JPEG" "$bzna" verify --decode "$t/again.bzna"
    same "low quality is less than half as large" \
        "$(($(wc -c <"$t/again.bzna") * 2 < $(wc -c <"$t/jpeg.bzna")))" 1
    for which in 3:fractals/01 6:shapes/00; do
        expect 0 "extract ${which#*:} of JPEG" "$bzna" extract "$t/jpeg.bzna" "${which%%:*}" -o "$t/x.ppm"
        psnr "$t/drawn/${which#*:}.ppm" "$t/x.ppm"
        if [ "$db" -ge 24 ]; then pass; else fail "${which#*:} of JPEG looks like its source" "$db dB"; fi
    done
    run "$bzna" list --json "$t/jpeg.bzna"
    says "$t/out" '"width":333,"height":251,"frame_width":333,"frame_height":251' "a JPEG is not padded"
    expect 0 "extract of a JPEG's thumbnail" "$bzna" extract "$t/jpeg.bzna" 5 --track bzna_thumb -o "$t/x.ppm"
    same "its longest edge is 512" "$(ppm_size "$t/x.ppm")" "512 354"
    run "$bzna" extract "$t/jpeg.bzna" 0 -o "$t/x.jpg"
    if grep -q Lavc "$t/x.jpg"; then fail "no encoder's name is stored"; else pass; fi
    refused 2 "libjpeg-turbo encodes JPEG" "another encoder of JPEG" "$bzna" pack "$t/one" -o "$t/x.bzna" --encoder mjpeg
    jpeg_peers_tests
}

# What libjpeg-turbo's own programs say: cjpeg makes the same of the same pixels, in each quality and sampling.
jpeg_peers_tests() {
    if ! command -v cjpeg >/dev/null 2>&1 || ! command -v djpeg >/dev/null 2>&1; then
        skip "JPEG as cjpeg makes it" "cjpeg and djpeg are not installed [libjpeg-turbo-progs]"; return
    fi
    if [ -z "$python" ] || ! "$python" -c 'import PIL' 2>/dev/null; then
        skip "JPEG as cjpeg makes it" "python3 has no PIL [python3-pil]"; return
    fi
    for way in 90:420 50:420 3:420 100:444 85:444; do
        quality=${way%:*} chroma=${way#*:}
        run "$bzna" pack "$t/drawn/fractals/01.ppm" -o "$t/peer.bzna" --overwrite --codec jpeg --quality "$quality" \
            --chroma "$chroma"
        run "$bzna" extract "$t/peer.bzna" 0 -o "$t/mine.jpg"
        [ "$chroma" = 420 ] && sampling=2x2 || sampling=1x1
        cjpeg -quality "$quality" -baseline -sample $sampling -optimize "$t/drawn/fractals/01.ppm" >"$t/cjpeg.jpg"
        expect 0 "djpeg reads quality $way" djpeg -outfile "$t/mine.ppm" "$t/mine.jpg"
        same "quality $way: tables and samplings are cjpeg's" "$("$python" -c '
import sys
from PIL import Image
a, b = (Image.open(path) for path in sys.argv[1:])
print(a.quantization == b.quantization, a.layer == b.layer, a.size == b.size, a.info.get("jfif"), b.info.get("jfif"))' \
            "$t/mine.jpg" "$t/cjpeg.jpg")" "True True True 257 257"
        djpeg -outfile "$t/peer.ppm" "$t/cjpeg.jpg"
        psnr "$t/peer.ppm" "$t/mine.ppm"
        if [ "$db" -ge 36 ] || [ "$quality" -lt 50 ]; then pass
        else fail "quality $way: pixels are cjpeg's but for rounding" "$db dB"; fi
    done
}

# How an encoder is set shows in sizes: without CABAC, H.264 grows.
encoder_tests() {
    mkdir "$t/few"
    cp "$t/drawn/plasma/00.ppm" "$t/few/a.ppm"
    cp "$t/drawn/shapes/00.ppm" "$t/few/b.ppm"
    expect 0 "pack as H.264" "$bzna" pack "$t/few" -o "$t/few.bzna" --codec h264 --preset ultrafast
    for codec in h264 h265; do
        expect 0 "pack --tune-decode as $codec" "$bzna" pack "$t/few" -o "$t/tuned.bzna" --codec $codec \
            --preset ultrafast --tune-decode --overwrite
        expect 0 "verify --decode of it" "$bzna" verify --decode "$t/tuned.bzna"
        if [ $codec = h264 ]; then same "tuned H.264 is larger" "$(($(wc -c <"$t/tuned.bzna") > $(wc -c <"$t/few.bzna")))" 1; fi
    done
    run "$bzna" pack "$t/few" -o "$t/av1.bzna" --codec av1 --preset ultrafast
    if grep -q "no libaom-av1" "$t/err"; then skip "pack as AV1" "this libavcodec has no libaom-av1"; return; fi
    same "pack as AV1" "$status" 0
    expect 0 "verify --decode of AV1" "$bzna" verify --decode "$t/av1.bzna"
    one=$t/few/b.ppm
    for preset in fast faster; do
        expect 0 "pack as AV1, $preset" "$bzna" pack "$one" -o "$t/av1-$preset.bzna" --codec av1 --preset $preset \
            --thumb none --frame exact
    done
    if cmp -s "$t/av1-fast.bzna" "$t/av1-faster.bzna"; then fail "the preset fast of AV1" "it is faster"; else pass; fi
    expect 0 "extract of AV1" "$bzna" extract "$t/av1.bzna" 1 -o "$t/x.ppm"
    psnr "$t/few/b.ppm" "$t/x.ppm"
    if [ "$db" -ge 30 ]; then pass; else fail "AV1 looks like its source" "$db dB"; fi
}

unreadable_tests() {
    mkdir -p "$t/mixed/ants" "$t/mixed/bees"
    cp "$t/drawn/shapes/00.ppm" "$t/mixed/ants/good.ppm"
    cp "$t/drawn/plasma/00.ppm" "$t/mixed/bees/good.ppm"
    echo "not a picture" >"$t/mixed/ants/note.txt"
    : >"$t/mixed/ants/empty.jpg"
    oriented_jpeg 1 | head -c 183 >"$t/mixed/bees/cut.jpg"
    head -c 9000 "$t/drawn/shapes/00.ppm" >"$t/mixed/bees/cut.ppm"
    cp "$t/drawn/shapes/00.ppm" "$t/mixed/loose.ppm"
    : >"$t/mixed/ants/.hidden"
    expect 1 "pack with unreadable files" "$bzna" pack "$t/mixed" -o "$t/mixed.bzna" --preset ultrafast
    for file in ants/note.txt ants/empty.jpg bees/cut.jpg bees/cut.ppm loose.ppm; do
        if grep -qE "mixed/$file: .+" "$t/err"; then pass; else fail "$file is listed with a reason" "$(cat "$t/err")"; fi
    done
    says "$t/err" "5 of 7 files" "unreadable files are counted, hidden ones are not"
    expect 0 "the archive is whole without them" "$bzna" verify --decode "$t/mixed.bzna"
    run "$bzna" list --json "$t/mixed.bzna"
    same "the others are in it" "$(field_all target)" "0 1 "
    run "$bzna" pack "$t/mixed" -o "$t/mixed.bzna" --preset ultrafast --json --overwrite
    json "$t/out" "the report of unreadable files is JSON"

    mkdir "$t/nothing" "$t/texts"
    echo text >"$t/texts/a.txt"
    refused 1 "nothing" "pack of an empty folder" "$bzna" pack "$t/nothing" -o "$t/none.bzna"
    refused 1 "absent" "pack of a folder that is not there" "$bzna" pack "$t/absent" -o "$t/none.bzna"
    refused 1 "texts" "pack of a folder without pictures" "$bzna" pack "$t/texts" -o "$t/none.bzna"
    refused 1 "nodir" "pack into a folder that is not there" "$bzna" pack "$t/drawn" -o "$t/nodir/x.bzna"
    if ls "$t"/none.bzna* >/dev/null 2>&1; then fail "a failed pack leaves no file"; else pass; fi
}

name_tests() {
    mkdir "$t/flat"
    utf8=$(printf 'b \303\274\303\261 "q" \\ .ppm')
    cp "$t/drawn/shapes/00.ppm" "$t/flat/100%d%03d.ppm"
    cp "$t/drawn/shapes/00.ppm" "$t/flat/$utf8"
    cp "$t/drawn/shapes/00.ppm" "$t/flat/c*[d]?.ppm"
    printf 'P6 1 1 255\n\310\144\062' >"$t/flat/e.ppm"
    { printf 'P5 3 700 255\n'; dd if=/dev/zero bs=2100 count=1 2>/dev/null; } >"$t/flat/f.pgm"
    expect 0 "pack of a flat folder with odd names and sizes" "$bzna" pack "$t/flat" -o "$t/flat.bzna" \
        --preset ultrafast
    expect 0 "verify of a flat folder's archive" "$bzna" verify --decode "$t/flat.bzna"
    expect 0 "list of a flat folder's archive" "$bzna" list --json "$t/flat.bzna"
    json "$t/out" "odd names are JSON"
    same "a flat folder has no targets" "$(field_all target)" "null null null null null "
    says "$t/out" '"100%d%03d.ppm"' "a name with % is kept"
    says "$t/out" "$(printf '"b \303\274\303\261 \\"q\\" \\\\ .ppm"')" \
        "a name with quotes and letters beyond ASCII is kept"
    run "$bzna" extract "$t/flat.bzna" 3 -o "$t/x.ppm"
    same "one pixel stays one pixel" "$(ppm_size "$t/x.ppm")" "1 1"
    same "and keeps its color" "$(pixel "$t/x.ppm" 1 1 0 0 | awk '{ print (($1-200)^2 < 50 && ($2-100)^2 < 50 && ($3-50)^2 < 50) }')" 1
    run "$bzna" extract "$t/flat.bzna" 4 --track bzna_thumb -o "$t/x.ppm"
    same "the thumbnail of a picture of 3x700 pixels" "$(ppm_size "$t/x.ppm")" "2 512"
}

# Chroma stays where luma is: spots of brightness and color around the same points near the corners still are.
chroma_tests() {
    if [ -z "$numpy" ]; then skip "chroma stays where luma is" "there is no python3 with numpy [python3-numpy]"; return; fi
    mkdir -p "$t/chroma/spots"
    expect 0 "pictures with spots" "$numpy" tests/tool/tool_pictures.py chroma "$t/chroma/spots"
    expect 0 "pack of pictures with spots" "$bzna" pack "$t/chroma" -o "$t/chroma.bzna" --codec h264 \
        --preset ultrafast --crf 1
    expect 0 "their chroma is measured" "$numpy" tests/tool/tool_pictures.py shift "$bzna" "$t/chroma.bzna"
    cp "$t/out" "$t/shift"
    if [ -n "$TEST_ALL" ]; then least=32 thumbs=18
    else least=6 thumbs=10; echo "LEFT test_pack.sh: half of the pictures whose chroma is measured"; fi
    same "the chroma of all pictures is measured" "$(grep -c bzna_input "$t/shift") $(grep -c bzna_thumb "$t/shift")" \
        "$(ls "$t/chroma/spots" | wc -l | tr -d ' ') $thumbs"
    for kind in 444 422 420 411 440 rgb cmyk; do
        far=$(awk -v k="$kind" -v least=$least 'index($1, k "_") == 1 { n++; if (!($3 < 0.1)) print }
                                END { if (n < least) print "too few" }' "$t/shift")
        if [ -z "$far" ]; then pass
        else fail "$kind: chroma is less than 0.1 pixels from luma at every corner" "$(echo "$far" | head -n 6)"; fi
    done
    far=$(awk '!($4 <= 3)' "$t/shift")
    if [ -z "$far" ]; then pass
    else fail "the last row and column of chroma are of the picture" "$(echo "$far" | head -n 6)"; fi
}

tiff_tests() {
    if [ -z "$python" ]; then skip "TIFFs of many kinds" "there is no python3 [python3]"; return; fi
    mkdir "$t/tiff"
    oriented_jpeg 1 >"$t/strip.jpg"
    expect 0 "TIFFs are made" "$python" tests/tool/tool_pictures.py tiff "$t/tiff" "$t/strip.jpg"
    expect 1 "pack of TIFFs, of which some contradict themselves" "$bzna" pack "$t/tiff" -o "$t/tiff.bzna" --preset ultrafast
    for file in jpeg jpeg_mm jpeg_rgb old_jpeg; do          # their JPEG is of another kind than their tags say
        says "$t/err" "tiff/$file.tif: TIFF: libtiff: " "$file.tif is refused with libtiff's reason"
    done
    says "$t/err" "tiff/sensor.tif: cannot be decoded: " \
        "a sensor's values are left to libavcodec, which says what it lacks"
    run "$bzna" list --json "$t/tiff.bzna"
    same "the other TIFFs are packed" "$(files)" "deflate.tif raw.tif raw_mm.tif tiles.tif "
    for i in 0 1 2 3; do
        run "$bzna" extract "$t/tiff.bzna" $i -o "$t/x.ppm"
        same "TIFF $i is green" \
            "$(pixel "$t/x.ppm" 64 48 30 20 | awk '{ print (($1-60)^2 < 50 && ($2-160)^2 < 50 && ($3-60)^2 < 50) }')" 1
    done
}

icon_tests() {
    if [ -z "$python" ]; then skip "the largest picture of an icon is taken" "there is no python3 [python3]"; return; fi
    mkdir "$t/icons"
    expect 0 "icons are made" "$python" tests/tool/tool_pictures.py icons "$t/icons"
    expect 1 "pack of icons" "$bzna" pack "$t/icons" -o "$t/icons.bzna" --preset ultrafast
    says "$t/err" "icons/d_cut.ico: cannot be decoded" "an icon whose largest picture is damaged is unreadable"
    for kind in "0 48 220" "1 256 220" "2 32 30"; do
        # shellcheck disable=SC2086  # words: index, edge, red
        set -- $kind
        run "$bzna" extract "$t/icons.bzna" "$1" -o "$t/x.ppm"
        same "the largest picture of icon $1 is taken" "$(ppm_size "$t/x.ppm")" "$2 $2"
        same "of icon $1's pictures of that size, the one with most colors is taken" \
            "$(pixel "$t/x.ppm" "$2" "$2" 8 8 | awk -v red="$3" '{ print (($1-red)^2 < 50 && ($3-30)^2 < 50) }')" 1
    done
}

class_tests() {
    for class in 0 1 2 10 x09 x9 x10 y1b y2a; do
        mkdir -p "$t/numbers/$class"
        cp "$t/exif/1.jpg" "$t/numbers/$class/$class.jpg"
    done
    pack_numbers() {
        expect 0 "pack of numbered classes $*" \
            "$bzna" pack "$t/numbers" -o "$t/numbers.bzna" --codec copy --overwrite "$@"
        cp "$t/err" "$t/warning"
        run "$bzna" list --json "$t/numbers.bzna"
    }
    pack_numbers
    same "classes are numbered as text" "$(files)" \
        "0.jpg 1.jpg 10.jpg 2.jpg x09.jpg x10.jpg x9.jpg y1b.jpg y2a.jpg "
    says "$t/warning" 'in the order of their names as text: "10" is class 2, "2" is class 3' "a warning says so"
    says "$t/warning" "--class-order numeric" "the warning says what to type"
    pack_numbers --class-order text
    same "--class-order text numbers classes as text" "$(files)" \
        "0.jpg 1.jpg 10.jpg 2.jpg x09.jpg x10.jpg x9.jpg y1b.jpg y2a.jpg "
    same "--class-order text does not warn" "$(cat "$t/warning")" ""
    pack_numbers --class-order numeric
    same "--class-order numeric numbers by value" "$(files)" \
        "0.jpg 1.jpg 2.jpg 10.jpg x09.jpg x9.jpg x10.jpg y1b.jpg y2a.jpg "
    same "--class-order numeric does not warn" "$(cat "$t/warning")" ""
    same "targets are in the order of the classes" "$(field_all target)" "0 1 2 3 4 5 6 7 8 "
    run "$bzna" pack "$t/exif" -o "$t/numbers.bzna" --codec copy --overwrite
    same "without classes there is no warning" "$(cat "$t/err")" ""

    for file in inet/train/ants/1 inet/train/bees/1 inet/val/ants/1 flat/train2017/1 flat/val2017/1 one/train/ants/1 \
        one/notes/1 only/Test/1 cars/train/1 cars/bus/1; do
        mkdir -p "$t/splits/$(dirname "$file")"
        cp "$t/exif/1.jpg" "$t/splits/$file.jpg"
    done
    for root in inet flat one only; do
        refused 1 "$t/splits/$root: holds splits, not classes" "$root: splits are no classes" \
            "$bzna" pack "$t/splits/$root" -o "$t/split.bzna"
    done
    refused 1 "bzna pack $t/splits/inet/val -o val.bzna" "the message says what to type" \
        "$bzna" pack "$t/splits/inet" -o "$t/split.bzna"
    if ls "$t"/split.bzna* >/dev/null 2>&1; then fail "refused splits leave no file"; else pass; fi
    expect 0 "a split by itself has classes" "$bzna" pack "$t/splits/inet/train" -o "$t/split.bzna" \
        --codec copy --json
    says "$t/out" '"classes":["ants","bees"]' "the classes are those of the split"
    expect 0 "a folder named train among other folders is a class" \
        "$bzna" pack "$t/splits/cars" -o "$t/split.bzna" --codec copy --overwrite
}

# halted_pack NAME: a pack of six pictures into NAME, stopped while it writes; its number in $halted
halted_pack() {
    "$bzna" pack "$t/six" -o "$1" --jobs 1 --preset ultrafast >"$t/halted.out" 2>"$t/halted.err" &
    halted=$!
    wait_done "$1.partial.log" 1
    kill -STOP $halted
    if [ -s "$1.partial" ]; then pass; else fail "a pack is stopped while it writes" "$(cat "$t/halted.err")"; fi
}

output_tests() {
    echo "not to be lost" >"$t/kept.bzna"
    refused 2 "kept.bzna: already exists" "an existing output is not replaced" "$bzna" pack "$t/exif" \
        -o "$t/kept.bzna"
    says "$t/err" "bzna pack --overwrite" "the message says what to type"
    same "the existing output is unchanged" "$(cat "$t/kept.bzna")" "not to be lost"
    expect 0 "--overwrite replaces it" "$bzna" pack "$t/exif" -o "$t/kept.bzna" --codec copy --overwrite
    expect 0 "the new archive is complete" "$bzna" verify --decode "$t/kept.bzna"

    mkdir "$t/six"
    cp -r "$t/drawn/charts" "$t/drawn/fractals" "$t/six"
    for class in plasma shapes; do mkdir "$t/six/$class"; cp "$t/drawn/$class/00.ppm" "$t/six/$class"; done
    halted_pack "$t/locked.bzna"
    refused 1 "locked.bzna.partial: another bzna is writing it" "a second pack to the same output" \
        "$bzna" pack "$t/exif" -o "$t/locked.bzna"
    refused 1 "another bzna is writing it" "a second pack to the same output with --overwrite" \
        "$bzna" pack "$t/exif" -o "$t/locked.bzna" \
        --overwrite
    kill -CONT $halted
    wait $halted
    same "the first pack succeeds" "$?" 0
    expect 0 "the first pack writes a complete archive" "$bzna" verify --decode --json "$t/locked.bzna"
    says "$t/out" '{"samples":6,"bad":[],"unsupported":[],"unread_by_original":0,"profiles":0}' \
        "the archive of the first pack has all its pictures"

    halted_pack "$t/killed.bzna"
    kill -KILL $halted
    wait $halted 2>/dev/null
    refused 2 "killed.bzna.partial: an interrupted run has left it; to continue: bzna pack --resume" \
        "what a killed run has left is not lost" "$bzna" pack "$t/exif" -o "$t/killed.bzna" --preset ultrafast
    expect 0 "--overwrite begins again" "$bzna" pack "$t/exif" -o "$t/killed.bzna" --codec copy --overwrite
    expect 0 "the archive of the next run is complete" "$bzna" verify --decode --json "$t/killed.bzna"
    says "$t/out" '{"samples":8,"bad":[],"unsupported":[],"unread_by_original":0,"profiles":0}' "the archive holds nothing of the killed run"

    halted_pack "$t/sudden.bzna"
    echo "not to be lost" >"$t/sudden.bzna"
    kill -CONT $halted
    wait $halted
    same "an output that another program made meanwhile is an error" "$?" 1
    same "the output of another program is unchanged" "$(cat "$t/sudden.bzna")" "not to be lost"
    says "$t/halted.err" "the new archive is $t/sudden.bzna.partial" "the message says where the archive is"
    if cmp -s "$t/sudden.bzna.partial" "$t/locked.bzna"; then pass; else fail "the new archive is complete under that name"; fi
    rm -f "$t/sudden.bzna.partial"

    bad='' rounds="1 2"
    if [ -n "$TEST_ALL" ]; then rounds="1 2 3 4"; else echo "LEFT test_pack.sh: two of four simultaneous packs"; fi
    for _ in $rounds; do
        "$bzna" pack "$t/exif" -o "$t/raced.bzna" --preset ultrafast --overwrite >"$t/log" 2>&1 &
        run "$bzna" pack "$t/splits/cars" -o "$t/raced.bzna" --preset ultrafast --overwrite
        wait $!
        ends=$?$status
        run "$bzna" verify --decode "$t/raced.bzna"
        case "$ends$status" in 000 | 010 | 100) ;; *) bad="$bad $ends$status" ;; esac
    done
    same "of two simultaneous packs at least one succeeds, and the archive is complete" "$bad" ""
    if ls "$t"/*.partial* >/dev/null 2>&1; then fail "no partial file is left" "$(ls "$t"/*.partial*)"; else pass; fi
}

# listed ARCHIVE: target, codec, size, frame and name of each full picture
listed() {
    "$bzna" list --json "$1" | sed -n 's/.*"target":\([^,]*\),.*"filename":"*\([^",]*\)"*,.*"bzna_input":{"codec":"\([a-z0-9]*\)","width":\([0-9]*\),"height":\([0-9]*\),"frame_width":\([0-9]*\),"frame_height":\([0-9]*\).*/\1 \3 \4x\5 \6x\7 \2/p' | sed 's,[^ ]*/,,'
}

size_tests() {
    mkdir "$t/sizes"
    { printf 'P6 640 20 255\n'; head -c 38400 /dev/zero; } >"$t/sizes/a.ppm"
    { printf 'P6 33 50 255\n'; head -c 4950 /dev/zero; } >"$t/sizes/b.ppm"
    sizes() { # NUMBER OPTION...: packs them as $t/sizes_NUMBER.bzna
        archive=$t/sizes_$1.bzna
        shift
        expect 0 "sizes with $*" "$bzna" pack "$t/sizes" -o "$archive" --preset ultrafast "$@"
    }
    sizes 1
    sizes 2 --frame 64
    says "$t/out" "2 of 2 pictures fill" "small pictures in large frames are pointed out"
    says "$t/out" "at least 144x144 pixels, as NVDEC needs" "so is why their frames are no smaller"
    sizes 3 --frame exact
    sizes 4 --frame exact --codec h264
    sizes 5 --max-edge 40
    sizes 6 --max-short-edge 20
    sizes 7 --thumb 64
    sizes 8 --thumb none
    same "pictures and frames: multiples of 512, 64 but at least 144, exact of H.265 and H.264, two limits, thumbnails" \
        "$(listed "$t/sizes_[1-8].bzna" | cut -d ' ' -f 3,4 | paste -d ' ' - -)" "640x20 1024x512 33x50 512x512
640x20 640x192 33x50 192x192
640x20 640x144 33x50 144x144
640x20 640x48 33x50 48x64
40x1 512x512 26x40 512x512
640x20 1024x512 20x30 512x512
640x20 1024x512 33x50 512x512
640x20 1024x512 33x50 512x512"
    expect 0 "all of them decode" "$bzna" verify --decode "$t/sizes_[1-8].bzna"
    run "$bzna" list --json "$t/sizes_[1-8].bzna"
    thumbnail() { grep '"a.ppm"' "$t/out" | sed -n "$1s/.*\"bzna_thumb\":{\(.*\),\"payload_offset.*/\1/p"; }
    same "a picture above 512 pixels has a thumbnail" "$(thumbnail 1)" \
        '"codec":"hvc1","width":512,"height":16,"frame_width":512,"frame_height":512'
    same "a thumbnail of 64 pixels" "$(thumbnail 7)" \
        '"codec":"hvc1","width":64,"height":2,"frame_width":144,"frame_height":144'
    same "no thumbnail" "$(thumbnail 8)" ""
    for wrong in "--frame 100" "--frame 8" "--frame big" "--thumb 600" "--thumb 8" "--codec jpeg --frame 64" \
        "--codec copy --max-edge 9" \
        "--shard 3/3" "--shard 1" "--shard -1/2" "--background pink" "--preset swift" "--lossless --codec jpeg" "--preset fast --codec jpeg" "--report x.txt" "--encoder libx264 --codec h265"; do
        # shellcheck disable=SC2086  # the options are words
        refused 2 "--" "$wrong" "$bzna" pack "$t/sizes" -o "$t/wrong.bzna" $wrong
    done
    run "$bzna" pack "$t/sizes" -o "$t/wrong.bzna" --encoder hevc_nvenc
    if [ "$status" = 0 ] || grep -q 'no encoder' "$t/err"; then
        rm -f "$t/wrong.bzna"; skip "an encoder that this machine lacks" "it has hevc_nvenc, or libavcodec has none"
    else
        same "an encoder that this machine lacks" "$status" 1
        says "$t/err" "--encoder hevc_nvenc: a trial with a gray picture: cannot be encoded" "it is said"
    fi
    refused 2 "some of them, not \"train=a,val=b\"" "--splits with a name that is none" "$bzna" pack \
        --splits train=a,val=b -o "$t/wrong.bzna"
    refused 1 "no-such/r.html: cannot be written" "a report that cannot be written is refused before packing" \
        "$bzna" pack "$t/sizes" -o "$t/wrong.bzna" --report "$t/no-such/r.html"
    refused 1 "no encoder nonsense" "an encoder that there is not" "$bzna" pack "$t/sizes" -o "$t/wrong.bzna" \
        --encoder nonsense
    if ls "$t"/wrong.bzna* >/dev/null 2>&1; then fail "what is refused leaves no file"; else pass; fi
}

# Chroma samples that the picture's edge divides: the picture gets to 4:4:4 and to its thumbnail's size in one step.
odd_edges_tests() {
    if ! command -v ffmpeg >/dev/null 2>&1; then skip "thumbnails of odd edges" "ffmpeg is not installed [ffmpeg]"; return; fi
    mkdir "$t/odd"
    ffmpeg -v error -f lavfi -i testsrc2=s=640x480 -frames:v 1 -vf format=rgb24,scale=601:401,format=yuvj420p -q:v 2 \
        -y "$t/odd/a.jpg" 2>&1
    for chroma in 420 444; do
        expect 0 "odd edges in $chroma" "$bzna" pack "$t/odd" -o "$t/odd.bzna" --overwrite --preset ultrafast --crf 10 \
            --chroma $chroma
        run "$bzna" extract "$t/odd.bzna" 0 --track bzna_thumb -o "$t/x.ppm"
        same "$chroma: the thumbnail's size" "$(ppm_size "$t/x.ppm")" "512 341"
        ffmpeg -v error -i "$t/odd/a.jpg" -vf scale=512:341:flags=lanczos+accurate_rnd+full_chroma_inp -f image2 \
            -y "$t/y.ppm" 2>&1
        psnr "$t/x.ppm" "$t/y.ppm"
        if [ "$db" -ge 24 ]; then pass; else fail "$chroma: the thumbnail is the whole picture" "$db dB"; fi
    done
}

# avcc FILE: what the last avcC in it holds, as hexadecimal digits.
avcc() {
    od -An -v -tx1 "$1" | tr -d ' \n' | sed 's/.*\(........\)61766343/\1/' >"$t/hex"
    cut -c9-$((8 + 2 * (0x$(cut -c1-8 <"$t/hex") - 8))) <"$t/hex"
}

# Loss is measured against what ffmpeg makes of the picture: the same planes, bit for bit.
chroma_444_tests() {
    mkdir "$t/colors"
    cp "$t/drawn/shapes/00.ppm" "$t/colors/a.ppm"
    for codec in h265 h264 jpeg; do
        expect 0 "4:4:4 as $codec" "$bzna" pack "$t/colors" -o "$t/colors.bzna" --overwrite --chroma 444 --codec $codec
        expect 0 "it decodes" "$bzna" verify --decode "$t/colors.bzna"
        run "$bzna" extract "$t/colors.bzna" 0 -o "$t/x.yuv"
        [ $codec = jpeg ] && area=$((120 * 90)) || area=$((512 * 512))
        same "$codec keeps all samples of chroma" "$(wc -c <"$t/x.yuv" | tr -d ' ')" $((area * 3))
    done
    if ! command -v ffmpeg >/dev/null 2>&1; then skip "--lossless loses nothing" "ffmpeg is not installed [ffmpeg]"; return; fi
    run "$bzna" pack "$t/colors" -o "$t/colors.bzna" --overwrite --chroma 444 --codec h264
    run "$bzna" extract "$t/colors.bzna" 0 -o "$t/x.h264"
    ffmpeg -v error -f h264 -i "$t/x.h264" -c copy -y "$t/muxed.mp4" 2>&1
    # chroma, bits, and no extensions of parameter sets; before them ffmpeg has a zero that ends a parameter set
    same "the configuration of 4:4:4 as h264 ends as ffmpeg's" "$(avcc "$t/colors.bzna" | tail -c 9)" \
        "$(avcc "$t/muxed.mp4" | tail -c 9)"
    ffmpeg -v error -i "$t/colors/a.ppm" \
        -vf scale=out_range=full:out_color_matrix=bt601:flags=area+accurate_rnd+full_chroma_inp+bitexact,format=yuv444p -f rawvideo -y "$t/expected.yuv" 2>&1
    for codec in h265 h264 av1; do
        if [ $codec = av1 ] && ! ffmpeg -v error -encoders 2>&1 | grep -q libaom-av1; then skip "--lossless as av1" "no libaom-av1"; continue; fi
        expect 0 "--lossless as $codec" "$bzna" pack "$t/colors" -o "$t/colors.bzna" --preset ultrafast --overwrite \
            --chroma 444 --codec $codec --lossless --frame exact
        run "$bzna" extract "$t/colors.bzna" 0 -o "$t/x.yuv"
        run "$bzna" list --json "$t/colors.bzna"
        w=$(field frame_width <"$t/out") h=$(field frame_height <"$t/out")
        ffmpeg -v error -f rawvideo -pix_fmt yuv444p -s "${w}x$h" -i "$t/x.yuv" -vf crop=120:90:0:0 -f rawvideo \
            -y "$t/actual.yuv" 2>&1
        if cmp -s "$t/expected.yuv" "$t/actual.yuv"; then pass; else fail "$codec without loss has ffmpeg's planes" "$(cmp "$t/expected.yuv" "$t/actual.yuv" 2>&1)"; fi
    done
}

# Color profiles are counted, and converted where that is asked for and can be; what else is lost is counted, too.
profile_tests() {
    for pillow in "$PYTHON" python3 /usr/bin/python3; do "$pillow" -c 'import numpy; from PIL import ImageCms' 2>/dev/null && break; pillow=; done
    refused 2 "--codec copy keeps files as they are" "--icc convert with --codec copy" "$bzna" pack \
        "$t" -o "$t/icc.bzna" --codec copy --icc convert
    if [ -z "$pillow" ]; then skip "color profiles" "there is no python3 with numpy and Pillow [python3-numpy python3-pil]"; return; fi
    expect 0 "pictures with profiles are made" "$pillow" tests/tool/tool_profiles.py make "$t/profiles"
    mv "$t/profiles/lost" "$t/lost"
    set -- --codec h264 --preset ultrafast --crf 1 --chroma 444 --frame exact --thumb none --overwrite
    expect 0 "pack of pictures with profiles" "$bzna" pack "$t/profiles" -o "$t/icc.bzna" "$@" --report "$t/icc.json"
    says "$t/out" "10 of 15 pictures have a color profile other than sRGB, which loaders do not apply (--icc convert" \
        "profiles are counted"
    says "$t/icc.json" '"profiles_ignored":10,"profiles_converted":0,"animations":0' "the report has them, too"
    same "and says whose" "$(grep -c '"notes":\["profiles_ignored"\]' "$t/icc.json")" 10
    expect 0 "verify of files with profiles" "$bzna" verify "$t/profiles"
    says "$t/out" "10 pictures have a color profile other than sRGB" "verify counts them"
    expect 0 "the same as JSON" "$bzna" verify --decode --json "$t/profiles"
    says "$t/out" '"profiles":10}' "verify --json counts them"
    run "$bzna" pack "$t/profiles" -o "$t/icc.bzna" "$@" --icc convert --json
    if grep -q "built without Little CMS" "$t/err"; then
        same "--icc convert is refused by name" "$status" 2
        skip "--icc convert" "bzna was built without lcms2 [liblcms2-dev]"
    else
        says "$t/out" '"profiles_ignored":0,"profiles_converted":10' "converted ones are counted"
        expect 0 "converted pictures are compared" env "BENZINA_LIBRARY=$library" "$pillow" \
            tests/tool/tool_profiles.py compare "$bzna" "$t/icc.bzna" "$t/profiles"
        same "they are as Little CMS makes them through Pillow" "$(cat "$t/out")" "15 pictures, as Little CMS has them"
    fi
    expect 0 "pack of what loses something" "$bzna" pack "$t/lost" -o "$t/lost.bzna" "$@" --json
    says "$t/out" '"animations":2,"several_pages":1,"over_8_bits":1,"alpha_dropped":2' \
        "animations, pages, 16 bits and alpha are counted"
    expect 0 "the same with a background" "$bzna" pack "$t/lost" -o "$t/lost.bzna" "$@" --background white
    same "no alpha is dropped then" "$(grep -c transparent "$t/out")" 0

    # TIFF is a codec of examples/formats, PNG one of the library: from a tar, both have their profiles.
    if ! command -v tar >/dev/null 2>&1; then skip "profiles in a tar" "there is no tar [tar]"; return; fi
    mkdir "$t/tiffs" "$t/losing"
    cp "$t/profiles/p3.tif" "$t/profiles/srgb.tif" "$t/profiles/adobe.png" "$t/tiffs"
    cp "$t/lost/animated.gif" "$t/lost/pages.tif" "$t/lost/deep.png" "$t/lost/clear.png" "$t/losing"
    same_from_all "profiles" "$t/tiffs"
    same "two of three profiles are counted" "$(echo "$notes" | sed 's/,"animations.*//')" \
        '"samples":3:[],"profiles_ignored":2,"profiles_converted":0'
    run "$bzna" pack "$t/tiffs" -o "$t/same1.bzna" --icc convert --overwrite
    if ! grep -q "built without Little CMS" "$t/err"; then
        same_from_all "converted profiles" "$t/tiffs" --icc convert
        same "two of three are converted" "$(echo "$notes" | sed 's/,"animations.*//')" \
            '"samples":3:[],"profiles_ignored":0,"profiles_converted":2'
    fi
    same_from_all "what is lost" "$t/losing"
    same "is counted" "${notes#*converted*,}" '"animations":1,"several_pages":1,"over_8_bits":1,"alpha_dropped":1}'
    (cd $data/heif && tar -cf "$t/avif.tar" alpha.avif)
    expect 0 "pack of AVIF with alpha from a tar" "$bzna" pack "$t/avif.tar" -o "$t/same1.bzna" --json --overwrite
    says "$t/out" '"alpha_dropped":1}' "the alpha beside its picture is counted"
}

# same_from_all WHAT FOLDER OPTION...: its files give the same pictures and notes from a tar and from a .rec of them
same_from_all() {
    what=$1 folder=$2
    shift 2
    set -- --codec h264 --preset ultrafast --crf 1 --chroma 444 --frame exact --thumb none --overwrite "$@"
    (cd "$folder" && tar -cf "$folder.tar" -- *)
    expect 0 "$what: as a .rec" "$bzna" convert "$folder" -o "$folder.rec" --overwrite
    expect 0 "$what: from a folder" "$bzna" pack "$folder" -o "$t/same1.bzna" "$@" --json
    notes=$(sed -n 's/^{\("samples":[0-9]*\),.*"unreadable"/\1/p' "$t/out")
    for from in tar rec; do
        expect 0 "$what: from a $from" "$bzna" pack "$folder.$from" -o "$t/same2.bzna" "$@" --json
        same "$what: a $from has the same notes" "$(sed -n 's/^{\("samples":[0-9]*\),.*"unreadable"/\1/p' "$t/out")" \
            "$notes"
        run "$bzna" diff "$t/same1.bzna" "$t/same2.bzna"
        same "$what: and the same pictures" "$(grep picture "$t/out")" ""
    done
}

background_tests() {
    if [ -z "$python" ]; then skip "--background" "there is no python3 [python3]"; return; fi
    mkdir "$t/alpha"
    "$python" -c '
import struct, sys, zlib
def chunk(kind, data): return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
rows = b"".join(b"\0" + bytes((200, 40, 40, 255)) * 16 + bytes((10, 10, 10, 0)) * 16 + bytes((200, 40, 40, 128)) * 16 for _ in range(32))
open(sys.argv[1], "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 48, 32, 8, 6, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))' "$t/alpha/a.png"
    for way in "#00ff00:0,255,0:100,147,20" white:255,255,255:227,147,147 none:10,10,10:200,40,40; do
        color=${way%%:*} clear=${way#*:}
        half=${clear#*:} clear=${clear%%:*}
        set -- --background "$color"
        if [ "$color" = none ]; then set --; fi
        expect 0 "background $color" "$bzna" pack "$t/alpha" -o "$t/alpha.bzna" --preset ultrafast --crf 1 \
            --chroma 444 --overwrite "$@"
        run "$bzna" extract "$t/alpha.bzna" 0 -o "$t/x.ppm"
        same "background $color: solid, clear and half" \
            "$(for x in 8 24 40; do pixel "$t/x.ppm" 48 32 $x 16 | tr ' ' ,; done | tr '\n' ' ' |
            awk -v want="200,40,40 $clear $half" '{ split(want, w, "[ ,]"); gsub(/,/, " "); far = 0
                for (i = 1; i <= 9; i++) { d = $i - w[i]; if (d > 8 || d < -8) far = 1 }; print far ? $0 : "near" }')" \
                    near
    done
    if ! command -v tar >/dev/null 2>&1; then skip "a background in a tar" "there is no tar [tar]"; return; fi
    mkdir "$t/clear"
    cp $data/pictures/gif_animated_clear.gif $data/pictures/webp_lossless_clear.webp "$t/clear"
    same_from_all "transparency" "$t/clear"
    same "is counted" "${notes#*converted*,}" '"animations":1,"several_pages":0,"over_8_bits":0,"alpha_dropped":2}'
    same_from_all "transparency on white" "$t/clear" --background white
    same "is not lost" "${notes#*converted*,}" '"animations":1,"several_pages":0,"over_8_bits":0,"alpha_dropped":0}'
}

target_tests() {
    for file in k/a l/b l/c; do mkdir -p "$t/named/${file%/*}"; cp "$t/exif/1.jpg" "$t/named/$file.jpg"; done
    targets() { # NAME EXPECTED OPTION...
        name=$1 expected=$2
        shift 2
        expect 0 "$name" "$bzna" pack "$t/named" -o "$t/named.bzna" --codec copy --overwrite "$@"
        same "$name" "$(listed "$t/named.bzna" | cut -d ' ' -f 1,5 | tr '\n' ' ')" "$expected"
    }
    printf 'l/c.jpg,30\nk/a.jpg\t-7\nl/b.jpg 9223372036854775807\n' >"$t/targets.txt"
    targets "--targets by name" "-7 a.jpg 9223372036854775807 b.jpg 30 c.jpg " --targets "$t/targets.txt"
    printf '5\n6\n\n7\n' >"$t/targets.txt"
    targets "--targets in order" "5 a.jpg 6 b.jpg 7 c.jpg " --targets "$t/targets.txt"
    refused_targets() { printf "$1" >"$t/targets.txt"; refused 1 "$2" "targets: $2" "$bzna" pack "$t/named" -o "$t/wrong.bzna" --targets "$t/targets.txt"; }
    refused_targets 'k/a.jpg,1\nk/z.jpg,2\n' 'line 2: there is no file "k/z.jpg"'
    refused_targets 'k/a.jpg,one\n' "line 1: must be NAME,TARGET"
    refused_targets 'k/a.jpg,1\nl/b.jpg,2\n' "has targets of 2 of 3 files"
    refused_targets '1\n2\n3\n4\n' "line 4: there are only 3 files"
    refused_targets '1\n2\nl/c.jpg,3\n' "some lines have names, and some have not"
    printf '\001\002\000\000\000\000\000\000' >"$t/named/k/a.jpg.target"
    echo 77 >"$t/named/l/c.target"
    targets ".target files" "513 a.jpg 1 b.jpg 77 c.jpg "
    run "$bzna" info "$t/named.bzna"
    if grep -q '^classes' "$t/out"; then fail "folders do not name targets that are not theirs"; else pass; fi
    echo seventy >"$t/named/l/c.target"
    expect 1 "a .target file that is none" "$bzna" pack "$t/named" -o "$t/named.bzna" --codec copy --overwrite
    says "$t/err" "l/c.target: holds no target" "it is named"
    echo 9223372036854775808 >"$t/named/l/c.target"
    expect 1 "a .target file of more than 64 bits" "$bzna" pack "$t/named" -o "$t/named.bzna" --codec copy --overwrite
    says "$t/err" "l/c.target: holds no target" "it is named, too"
    rm "$t/named/l/c.target" "$t/named/k/a.jpg.target"
    printf '0\t12\tl/c.jpg\n1\t11\tk/a.jpg\n' >"$t/two.lst"
    targets "--list .lst" "12 c.jpg 11 a.jpg " --list "$t/two.lst"
    printf 'l/b.jpg,4\nk/a.jpg,3\n' >"$t/two.csv"
    targets "--list .csv" "4 b.jpg 3 a.jpg " --list "$t/two.csv"
    printf 'l/c.jpg 9007199254740993\nl/b.jpg 25130987\nk/a.jpg -9223372036854775808\n' >"$t/ids.txt"
    targets "--list of numbers that no float holds" \
        "9007199254740993 c.jpg 25130987 b.jpg -9223372036854775808 a.jpg " --list "$t/ids.txt"
    printf '0\t1.5\t2\tl/c.jpg\n1\t1\t3\tabsent.jpg\n' >"$t/two.lst"
    expect 1 "a list with several labels, and a file that is not there" "$bzna" pack "$t/named" -o "$t/named.bzna" \
        --codec copy --overwrite --list "$t/two.lst"
    says "$t/err" "$t/named: sample 1: " "the file that is not there is named"
    same "it is named once" "$(grep -c 'sample 1:.*sample 1:' "$t/err")" 0
    run "$bzna" list --json "$t/named.bzna"
    says "$t/out" '"label":[1.5,2]' "all labels of a list are in the archive"
    for class in "$(printf '\377')" "$(printf '\356\200\200')" z; do mkdir -p "$t/bytes/$class"; cp "$t/exif/1.jpg" "$t/bytes/$class"; done
    expect 0 "classes whose names are not UTF-8" "$bzna" pack "$t/bytes" -o "$t/bytes.bzna" --codec copy --overwrite
    same "have the numbers that the folder gives them" "$("$bzna" list --json "$t/bytes.bzna" | sed 's/"offset.*//')" \
        "$("$bzna" list --json "$t/bytes" | sed 's/"offset.*//')"
    targets "--shard 0/2" "0 a.jpg " --shard 0/2
    targets "--shard 1/2" "1 b.jpg 1 c.jpg " --shard 1/2
    refused 1 "this share of the files is empty" "a share without files" "$bzna" pack "$t/named" -o "$t/wrong.bzna" \
        --shard 0/9
}

# Pictures of other data sets become the archive that their files give.
data_set_tests() {
    expect 0 "a folder" "$bzna" pack "$t/named" -o "$t/folder.bzna" --codec jpeg
    if command -v tar >/dev/null 2>&1; then
        mkdir "$t/shard"
        for file in k/a:0 l/b:1 l/c:1; do
            base=${file%:*}
            cp "$t/named/$base.jpg" "$t/shard/${base#*/}.jpg"
            printf '%s' "${file#*:}" >"$t/shard/${base#*/}.cls"
        done
        (cd "$t/shard" && tar -cf ../three.tar a.cls a.jpg b.cls b.jpg c.cls c.jpg)
        expect 0 "pack of a tar" "$bzna" pack "$t/three.tar" -o "$t/tar.bzna" --codec jpeg
        same "a tar's pictures, targets and names" "$(listed "$t/tar.bzna")" "$(listed "$t/folder.bzna")"
        expect 0 "pack of a tar as it is" "$bzna" pack "$t/three.tar" -o "$t/copy2.bzna" --codec copy
        run "$bzna" extract "$t/copy2.bzna" 1 -o "$t/x.jpg"
        if cmp -s "$t/x.jpg" "$t/named/l/b.jpg"; then pass; else fail "a tar's JPEG is copied"; fi
    else skip "pack of a tar" "tar is not installed [tar]"; fi
    expect 0 "pack of an archive" "$bzna" pack "$t/one.bzna" -o "$t/again2.bzna" --codec h264 --preset ultrafast
    same "an archive's pictures, targets and names" "$(listed "$t/again2.bzna")" \
        "$(listed "$t/one.bzna" | sed 's/hvc1/avc1/')"
    run "$bzna" extract "$t/again2.bzna" 3 -o "$t/x.ppm"
    psnr "$t/drawn/fractals/01.ppm" "$t/x.ppm"
    if [ "$db" -ge 24 ]; then pass; else fail "a picture of an archive looks like its source" "$db dB"; fi
    expect 0 "pack of pictures" "$bzna" pack "$t/named/l/c.jpg" "$t/drawn/shapes/00.ppm" -o "$t/files.bzna" \
        --preset ultrafast
    same "pictures in the order of the command" "$(listed "$t/files.bzna" | cut -d ' ' -f 1,5 | tr '\n' ' ')" \
        "null c.jpg null 00.ppm "
    refused 1 "is a folder, and only one can be packed at a time" "two folders" "$bzna" pack "$t/named" \
        "$t/exif" -o "$t/wrong.bzna"
    refused 1 "absent" "a file that is not there" "$bzna" pack "$t/absent.tar" -o "$t/wrong.bzna"
}

# PSNR and SSIM against ffmpeg's own of the same planes.
report_tests() {
    mkdir -p "$t/quality"
    cp "$t/drawn/plasma/00.ppm" "$t/quality/a<b>.ppm"
    cp "$t/drawn/fractals/01.ppm" "$t/quality/c.ppm"
    echo none >"$t/quality/d.txt"
    expect 1 "--report .json" "$bzna" pack "$t/quality" -o "$t/quality.bzna" --preset ultrafast --crf 40 --chroma 444 \
        --report "$t/report.json"
    json "$t/report.json" "the report is JSON"
    says "$t/report.json" '"reason":"not a picture' "it names what was left out"
    same "it tells the sizes of sources and samples" \
        "$(grep -o '"source_bytes":[0-9]*,"bytes":[0-9]*' "$t/report.json" | tail -n 2 | tr '\n' ' ')" \
        "$("$bzna" list "$t/quality.bzna" | awk 'NR > 1 { print $3 }' | { read -r a; read -r b
           echo "\"source_bytes\":$(wc -c <"$t/quality/a<b>.ppm"),\"bytes\":$a \"source_bytes\":$(wc -c <"$t/quality/c.ppm"),\"bytes\":$b "; })"
    if command -v ffmpeg >/dev/null 2>&1; then
        for i in 0:500x333:plasma/00 1:333x251:fractals/01; do
            size=${i#*:} file=${i##*:}
            size=${size%:*}
            run "$bzna" extract "$t/quality.bzna" "${i%%:*}" --track bzna_input -o "$t/x.yuv"
            ffmpeg -v info -f rawvideo -pix_fmt yuv444p -s 512x512 -i "$t/x.yuv" -i "$t/drawn/$file.ppm" \
                -lavfi "[0]setrange=full,crop=${size%x*}:${size#*x}:0:0[a];[1]scale=out_range=full:out_color_matrix=bt601:flags=area+accurate_rnd+full_chroma_inp+bitexact,format=yuv444p,split[b][c];[a]split[d][e];[d][b]psnr;[e][c]ssim" -f null - >"$t/log" 2>&1
            same "PSNR and SSIM of $file are ffmpeg's" \
                "$(grep -o '"psnr":[0-9.]*,"ssim":[0-9.]*' "$t/report.json" | sed -n "$((${i%%:*} + 1))p" | tr -c '0-9.\n' ' ' | awk '{ printf "%.2f %.3f", $1, $2 }')" \
                "$(awk '/PSNR/ { sub(/.*average:/, ""); p = $1 } /SSIM Y/ { sub(/.*SSIM Y:/, ""); s = $1 } END { printf "%.2f %.3f", p, s }' "$t/log")"
        done
    else skip "PSNR and SSIM are ffmpeg's" "ffmpeg is not installed [ffmpeg]"; fi
    expect 1 "--report .html" "$bzna" pack "$t/quality" -o "$t/quality.bzna" --preset ultrafast \
        --report "$t/report.html" --overwrite
    same "the page shows both pictures of both" \
        "$(grep -o '<img src="data:image/jpeg;base64,' "$t/report.html" | wc -l | tr -d ' ')" 4
    says "$t/report.html" "a&lt;b&gt;.ppm: PSNR" "names are escaped"
    says "$t/report.html" "d.txt: not a picture" "the page names what was left out"
    if [ -n "$python" ]; then
        expect 0 "the page is well formed" "$python" -c '
import html.parser, sys
class Page(html.parser.HTMLParser):
    open = []
    def handle_starttag(self, tag, _): tag in ("img", "meta") or self.open.append(tag)
    def handle_endtag(self, tag): assert self.open.pop() == tag, tag
p = Page(); p.feed(open(sys.argv[1]).read()); assert not p.open' "$t/report.html"
    fi
}

# A terminal of 40 columns, then of 120: lines that are longer would not be written over. Lines are shown after a fifth of
# a second, for which the program is stopped.
terminal_tests() {
    if [ -z "$python" ]; then skip "progress on a terminal" "there is no python3 [python3]"; return; fi
    if ! "$python" -c 'import pty; pty.openpty()' 2>/dev/null; then skip "progress on a terminal" "no pseudo-terminal can be had"; return; fi
    expect 0 "progress on a terminal" "$python" -c '
import fcntl, os, pty, signal, struct, sys, termios, time
def resize(terminal, columns): fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
signal.alarm(100)                                       # whatever is waited for may never come
pid, terminal = pty.fork()
if not pid:
    resize(2, 40)
    os.execv(sys.argv[1], sys.argv[1:])
log = sys.argv[sys.argv.index("-o") + 1] + ".partial.log"
while not os.path.exists(log) or b" + " not in open(log, "rb").read(): time.sleep(0.002)
for columns in 40, 120:
    resize(terminal, columns)
    lines = [""]
    while not lines[-1].startswith("[" if columns == 120 else "") or not lines[-1]:     # one may be of the size before
        os.kill(pid, signal.SIGSTOP)
        time.sleep(0.25)
        os.kill(pid, signal.SIGCONT)
        output = b""
        while not output.endswith(b"\x1b[K") or len(output) < 8: output += os.read(terminal, 65536)
        lines = [l[:-3].decode() for l in output.split(b"\r") if l.endswith(b"\x1b[K") and len(l) > 3]
        assert lines and all(len(l) < columns for l in lines), lines
    assert all(" of 6 pictures" in l for l in lines), lines
    assert columns == 40 or lines[-1].startswith("[="), lines
try:
    while os.read(terminal, 65536): pass
except OSError: pass
assert os.waitpid(pid, 0)[1] == 0
' "$bzna" pack "$t/six" -o "$t/terminal.bzna" --jobs 1 --preset ultrafast
}

# What is said of frames in time, of files that are no class's, of roots that are none, and of what is no picture at
# all.
hint_tests() {
    mkdir -p "$t/plenty" "$t/fewer"
    for i in $(seq 100 399); do printf 'P5 24 24 255\n%0576d' "$i" >"$t/plenty/$i.pgm"; done
    cp "$t/plenty"/1[01]?.pgm "$t/fewer"
    expect 0 "pack of small pictures" "$bzna" pack "$t/plenty" -o "$t/plenty.bzna" --codec h264 --preset ultrafast \
        --frame 64
    same "it is said after 200 pictures, or after the few more that were encoded at once" \
        "$(grep -c 'note: 2.. of 2.. pictures fill less than a quarter .*: with --frame exact' "$t/err")" 1
    says "$t/out" "300 of 300 pictures fill less than a quarter of their coded frames: with --frame exact" \
        "and in the summary of all"
    same "once" "$(grep -c 'fill less' "$t/err")" 1
    run "$bzna" pack "$t/fewer" -o "$t/fewer.bzna" --codec h264 --preset ultrafast
    same "of fewer in the summary alone" \
        "$(grep -c 'fill less' "$t/err") $(grep -c '20 of 20 pictures fill less' "$t/out")" "0 1"
    run "$bzna" pack "$t/fewer" -o "$t/many2.bzna" --codec h264 --preset ultrafast --frame exact
    same "frames that are exact need no hint" "$(cat "$t/err" "$t/out" | grep -c 'fill less')" 0

    mkdir -p "$t/outside/cats" "$t/outside/dogs"
    cp "$t/fewer/100.pgm" "$t/outside/cats"; cp "$t/fewer/101.pgm" "$t/outside/dogs"; cp "$t/fewer/102.pgm" "$t/outside"
    expect 1 "pack of a file outside of class folders" "$bzna" pack "$t/outside" -o "$t/outside.bzna" --codec h264 \
        --preset ultrafast
    says "$t/err" "bzna: 1 of 3 files are outside every class folder and are left out" \
        "it is readable, and not called otherwise"
    echo none >"$t/outside/cats/text.jpg"
    run "$bzna" pack "$t/outside" -o "$t/outside2.bzna" --codec h264 --preset ultrafast
    says "$t/err" "bzna: 2 of 4 files are left out: 1 could not be read, 1 are outside every class folder" \
        "both are counted"

    mkdir -p "$t/kaggle/pets/train" "$t/kaggle/pets/test" "$t/kaggle/__MACOSX"
    cp "$t/fewer/100.pgm" "$t/kaggle/pets/train"; cp "$t/fewer/101.pgm" "$t/kaggle/pets/test"; : >"$t/kaggle/pets/sample_submission.csv"
    refused 1 "$t/kaggle/pets: holds splits, and is no class of $t/kaggle: pack them into one archive with --splits" \
        "one folder over train and test" \
        "$bzna" pack "$t/kaggle" -o "$t/kaggle.bzna"
    printf 'PAR1%01000d' 1 >"$t/x.parquet"
    run "$bzna" pack "$t/x.parquet" -o "$t/none.bzna"
    says "$t/err" "x.parquet: it is a parquet file, which is not read" "a file of another loader is called by its kind"
    printf '103.pgm 7\n101.pgm 3\n' >"$t/val.txt"
    expect 0 "a list of names and labels with blanks" "$bzna" pack "$t/fewer" --list "$t/val.txt" -o "$t/listed.bzna" \
        --codec h264 --preset ultrafast
    same "has them in its order" "$(names "$t/listed.bzna")" "7103.pgm 3101.pgm "
}

# Masks beside pictures are kept byte for byte, as pictures, from folders and from tars, and from an archive once more.
further_picture_tests() {
    mkdir -p "$t/pairs/images/sub" "$t/pairs/masks/sub" "$t/paired"
    for name in a b sub/c; do
        cp "$t/drawn/plasma/00.ppm" "$t/pairs/images/$name.ppm"
        printf 'P5 4 2 255\n0123%s' "$(printf %.4s "$name---")" >"$t/pairs/masks/$name.pgm"
    done
    expect 0 "pack of pairs" "$bzna" pack "$t/pairs" --pairs images,masks -o "$t/pairs.bzna" --preset ultrafast
    run "$bzna" info "$t/pairs.bzna"
    says "$t/out" "masks (picture)" "a mask is packed as a picture"
    expect 0 "list of pairs" "$bzna" list --json "$t/pairs.bzna"
    same "names are those of the first folder" "$(files)" "a.ppm b.ppm c.ppm "
    expect 0 "verify --decode of pairs" "$bzna" verify --decode "$t/pairs.bzna"
    expect 0 "a packed mask is written" "$bzna" extract "$t/pairs.bzna" 2 --field masks -o "$t/x.pgm"
    if cmp -s "$t/x.pgm" "$t/pairs/masks/sub/c.pgm"; then pass; else fail "a packed mask has the bytes of its file"; fi
    expect 0 "pairs as a tar" "$bzna" convert "$t/pairs.bzna" -o "$t/pairs.tar"
    expect 0 "pack of a tar with masks" "$bzna" pack "$t/pairs.tar" -o "$t/masks_again.bzna" --codec copy
    run "$bzna" info "$t/masks_again.bzna"
    says "$t/out" "masks (picture)" "the mask of a tar is packed as a picture, whatever its name"
    expect 0 "extract of its mask" "$bzna" extract "$t/masks_again.bzna" 1 --field masks -o "$t/x.pgm"
    if cmp -s "$t/x.pgm" "$t/pairs/masks/b.pgm"; then pass; else fail "and once more after a tar"; fi
    expect 0 "pack of an archive with masks" "$bzna" pack "$t/pairs.bzna" -o "$t/masks_again.bzna" --codec jpeg \
        --overwrite
    expect 0 "extract of its mask" "$bzna" extract "$t/masks_again.bzna" 0 --field masks -o "$t/x.pgm"
    if cmp -s "$t/x.pgm" "$t/pairs/masks/a.pgm"; then pass; else fail "and once more after an archive"; fi
    rm "$t/pairs/masks/b.pgm"
    refused 1 '"b.ppm" in images has no partner in masks' "a picture without a mask is named" \
        "$bzna" pack "$t/pairs" --pairs images,masks -o "$t/x.bzna"
}

# A process that encodes holds as much memory after its fourth round of pictures as after its second. Pictures with
# profiles are those of profile_tests, if they could be made.
memory_tests() {
    if [ -n "$SANITIZE$ON_WINDOWS" ] || ! "${CC:-cc}" -shared -fPIC -O1 -o "$t/held.so" tests/fake/held_memory.c -ldl 2>"$t/err"; then
        skip "memory of processes that encode" \
            "no library can be preloaded here: ${SANITIZE:+sanitizers}$(head -n 1 "$t/err")"
        return
    fi
    mkdir -p "$t/rounds"
    awk 'BEGIN { printf "P6 600 400 255\n"; for (i = 0; i < 600 * 400; i++) printf "%c%c%c", 64 + i % 61, 64 + i % 53, 64 + i % 47 }' \
        >"$t/large.ppm"
    echo "no picture" >"$t/none.jpg"
    for round in 1 2 3 4; do
        for file in "$t/large.ppm" "$t/none.jpg" "$data"/pictures/*.jpg "$data"/pictures/*.png "$data"/pictures/*.gif \
            "$data"/pictures/tiff_cmyk.tif "$data"/pictures/webp_lossy_clear.webp "$t"/profiles/adobe.jpg \
            "$t"/profiles/p3.png; do
            [ ! -e "$file" ] || cp "$file" "$t/rounds/$round.$(basename "$file")"
        done
        for i in 1 2 3 4 5 6 7 8; do cp "$t/none.jpg" "$t/rounds/$round.none_$i.jpg"; done
    done
    for options in '--codec h264 --preset ultrafast --frame 64' "--codec jpeg --report $t/report.json" \
        '--codec h264 --preset ultrafast --frame 64 --chroma 444 --max-edge 40 --background gray --icc convert'; do
        rm -f "$t/held"
        run env "HELD_MEMORY=$t/held" GLIBC_TUNABLES=glibc.malloc.tcache_count=0 "LD_PRELOAD=$t/held.so" \
            "$bzna" pack "$t/rounds" -o "$t/rounds.bzna" --overwrite --jobs 1 $options
        same "pack $options holds no more after more pictures" "$status $(awk '{ held[NR] = $1 }
            END { more = held[NR] - held[NR / 2]; print NR % 4, (NR > 60 && more < 512 ? "flat" : more " bytes more") }' "$t/held")" \
            "1 0 flat"
    done
}

pack_tests
further_picture_tests
orientation_tests
heif_tests
copy_tests
header_tests
jpeg_tests
encoder_tests
unreadable_tests
name_tests
chroma_tests
tiff_tests
icon_tests
class_tests
output_tests
size_tests
odd_edges_tests
chroma_444_tests
background_tests
profile_tests
target_tests
data_set_tests
report_tests
terminal_tests
hint_tests
memory_tests
finish
