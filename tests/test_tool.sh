#!/bin/sh
# test_tool.sh - tests of the command-line tool and of the C examples
#
#     sh tests/test_tool.sh build/bzna build        from the repository's root
#
# The second argument is the folder that holds draw_pictures and decode_batch. Prints FAIL and SKIP lines, and a count last.
# shellcheck disable=SC2012,SC2046,SC2059
bzna=${1:?usage: sh tests/test_tool.sh build/bzna build}
build=${2:?usage: sh tests/test_tool.sh build/bzna build}
data=tests/data
for file in "$bzna" "$build/draw_pictures" "$build/decode_batch" $data/mini_h265.json; do
    if [ ! -e "$file" ]; then echo "FAIL $file is not there"; echo "tests/test_tool.sh: 0 passed, 1 failed, 0 skipped"; exit 1; fi
done
LC_ALL=C
export LC_ALL

t=$(mktemp -d "${TMPDIR:-/tmp}/test_tool.XXXXXX") || exit 1
trap 'rm -rf "$t"' EXIT
trap 'exit 1' HUP INT TERM
passed=0 failed=0 skipped=0

# A python3, with numpy if possible.
for python in "$PYTHON" python3 /usr/bin/python3; do "$python" -c 'import numpy' 2>/dev/null && break; python=; done
numpy=$python
python=${python:-$(command -v python3)}

pass() { passed=$((passed + 1)); }
fail() { failed=$((failed + 1)); echo "FAIL $1"; shift; for line; do printf '%s\n' "$line" | sed 's/^/  /'; done; }
skip() { skipped=$((skipped + 1)); echo "SKIP $1: $2"; }

# run COMMAND...: its exit status in $status, its output in $t/out and $t/err
run() { status=0; "$@" >"$t/out" 2>"$t/err" || status=$?; }

# expect STATUS NAME COMMAND...: passes when the command ends so
expect() {
    wanted=$1 name=$2
    shift 2
    run "$@"
    if [ "$status" -eq "$wanted" ]; then pass; else fail "$name" "$*" "exit status $status, not $wanted" "$(head -n 5 "$t/err")"; fi
}

# says FILE TEXT NAME: passes when the file holds the text
says() { if grep -qF -e "$2" "$1"; then pass; else fail "$3" "\"$2\" is not in:" "$(head -n 5 "$1")"; fi; }

# same NAME ACTUAL EXPECTED
same() { if [ "$2" = "$3" ]; then pass; else fail "$1" "is  $2" "not $3"; fi; }

# refused STATUS TEXT NAME COMMAND...: ends with the status, prints nothing on stdout, and says the text on stderr
refused() {
    wanted=$1 text=$2 name=$3
    shift 3
    run "$@"
    if [ "$status" -eq "$wanted" ] && grep -qF -e "$text" "$t/err" && grep -q '^bzna: ' "$t/err" && [ ! -s "$t/out" ]; then pass
    else fail "$name" "$*" "exit status $status, not $wanted, or without \"$text\":" "$(head -n 5 "$t/err")"; fi
}

# json FILE: passes where it is JSON, as far as an awk program can tell: strings closed, brackets in pairs
json_ok() {
    awk '{ line = $0; while (length(line)) { c = substr(line, 1, 1); line = substr(line, 2)
             if (inside) { if (c == "\\") line = substr(line, 2); else if (c == "\"") inside = 0; else if (c < " ") bad = 1 }
             else if (c == "\"") inside = 1
             else if (c == "{" || c == "[") stack = c stack
             else if (c == "}" || c == "]") { if (substr(stack, 1, 1) != (c == "}" ? "{" : "[")) bad = 1; stack = substr(stack, 2) } } }
         END { exit bad || inside || stack != "" || NR == 0 }' "$1"
}
json() { if json_ok "$1"; then pass; else fail "$2" "not JSON:" "$(head -n 5 "$1")"; fi; }

# ppm_size FILE: "width height"
ppm_size() { sed -n '2{p;q;}' "$1" 2>&1; }

# field NAME <JSON on one line: the value of its first field of that name, without quotes
field() { sed -n "s/.*\"$1\": *\"\\{0,1\\}\\([^\",}]*\\).*/\\1/p" | head -n 1; }


# ---- usage ----

usage_tests() {
    expect 0 "the tool's version" "$bzna" --version
    expect 0 "the tool's own help" "$bzna" --help
    for command in pack info list extract verify batch bench index devices; do
        says "$t/out" "bzna $command" "help lists $command"
    done
    for command in pack info list extract verify batch bench index; do
        expect 0 "$command --help" "$bzna" $command --help
        says "$t/out" "usage: bzna $command" "$command --help shows its usage"
        cp "$t/out" "$t/help"
        expect 0 "help $command" "$bzna" help $command
        if cmp -s "$t/out" "$t/help"; then pass; else fail "help $command is $command --help"; fi
        run "$bzna" $command --nonsense
        same "$command refuses an unknown option" "$status" 2
        says "$t/err" "--nonsense" "$command names the unknown option"
        run "$bzna" $command
        same "$command without arguments" "$status" 2
    done
    refused 2 "--crf" "a number out of range" "$bzna" pack "$t" -o "$t/x.bzna" --crf 77
    refused 2 "--codec" "a value that is not among the choices" "$bzna" pack "$t" -o "$t/x.bzna" --codec vp9
    refused 2 "--jobs" "a value that is not a number" "$bzna" pack "$t" -o "$t/x.bzna" --jobs=many
    refused 2 "--out" "a missing value" "$bzna" pack "$t" -o
    refused 2 "-o" "pack without -o" "$bzna" pack "$t"
    refused 2 "too many" "too many arguments" "$bzna" info a b
    refused 2 "too many" "devices takes no arguments" "$bzna" devices 0
    refused 2 "--nonsense" "devices refuses an unknown option" "$bzna" devices --nonsense
    expect 0 "devices --help" "$bzna" devices --help
    says "$t/out" "usage: bzna devices [options]" "devices --help shows its usage"
    for value in none -1 1x 99999999999999999999; do
        refused 2 "--device must be auto|cpu|N" "--device $value" "$bzna" bench $data/mini_h265.bzna --device $value
    done
    refused 2 "--output" "an output that is not among the choices" "$bzna" bench $data/mini_h265.bzna --output gpu
    refused 2 "--dtype" "a dtype that is not among the choices" "$bzna" bench $data/mini_h265.bzna --dtype f64
    refused 2 "--layout" "a layout that is not among the choices" "$bzna" batch $data/mini_h265.bzna -o "$t/nowhere" --layout nchw
    refused 2 "--channels" "channels that are not among the choices" "$bzna" bench $data/mini_h265.bzna --channels YUV
    refused 2 "--sessions" "too many sessions" "$bzna" batch $data/mini_h265.bzna -o "$t/nowhere" --sessions 257
    refused 2 "INDEX" "an index that is not a number" "$bzna" extract $data/mini_h265.bzna one --md5
    refused 2 "x.gif" "a format that extract cannot write" "$bzna" extract $data/mini_h265.bzna 0 -o "$t/x.gif"
    refused 2 "nothing to do" "extract without anything to do" "$bzna" extract $data/mini_h265.bzna 0
    refused 2 "frobnicate" "an unknown command" "$bzna" frobnicate
    refused 2 "frobnicate" "help for an unknown command" "$bzna" help frobnicate
    expect 2 "no command" "$bzna"
}

bad_file_tests() {
    : >"$t/empty.bzna"
    echo "this is a text, and no archive of pictures" >"$t/text.bzna"
    head -c 100000 $data/mini_h265.bzna >"$t/cut.bzna"
    for command in "info" "list" "verify" "bench --seconds 0.1" "batch -o $t/nowhere"; do
        for file in missing empty text cut; do
            # shellcheck disable=SC2086  # the options are words
            refused 1 "$file.bzna" "$command of a file that is $file" "$bzna" $command "$t/$file.bzna"
        done
    done
    refused 1 "missing.bzna" "extract of a missing file" "$bzna" extract "$t/missing.bzna" 0 --md5
    refused 1 "" "extract of an index past the end" "$bzna" extract $data/mini_h265.bzna 8 --md5
    refused 1 "" "extract of a missing track" "$bzna" extract $data/mini_h265.bzna 0 --md5 --track nonsense
    refused 1 "hvc1" "H.265 is not written as H.264" "$bzna" extract $data/mini_h265.bzna 0 -o "$t/x.h264"
}


# ---- archives of the original tools ----

# golden FILE.json: a line a picture: index target filename offset size track codec width height frame payload MD5
golden() {
    awk -F': ' '{ value = $2; gsub(/[",]/, "", value); key = $1; gsub(/[ "]/, "", key) }
        value == "{" && key != "images" { track = key }
        { at[key] = value }
        key == "md5_yuv420p_frame" { print at["index"], at["target"], at["filename"], at["offset"], at["size"], track, at["codec"],
            at["width"], at["height"], at["frame_width"], at["frame_height"], at["payload_offset"], at["payload_size"], value }' "$1"
}

# listed FILE.bzna: the same from `bzna list --json` and `bzna extract --md5`
listed() {
    "$bzna" list --json "$1" | awk -F'"images":' '
        function get(text, key) { if (!match(text, "\"" key "\":[^,}]*")) return "?"
            text = substr(text, RSTART + length(key) + 3, RLENGTH - length(key) - 3); gsub(/"/, "", text); return text }
        NF > 1 { n = split($2, image, "},")
            for (i = 1; i <= n; i++) if (image[i] ~ /"codec"/) { track = image[i]; sub(/^{*"/, "", track); sub(/".*/, "", track)
                print get($1, "index"), get($1, "target"), get($1, "filename"), get($1, "offset"), get($1, "size"), track,
                    get(image[i], "codec"), get(image[i], "width"), get(image[i], "height"), get(image[i], "frame_width"),
                    get(image[i], "frame_height"), get(image[i], "payload_offset"), get(image[i], "payload_size") } }' |
    while read -r index target name offset size track rest; do
        echo "$index $target $name $offset $size $track $rest $("$bzna" extract "$1" "$index" --track "$track" --md5 2>&1)"
    done
}

original_tests() {
    for mini in mini_h264 mini_h265; do
        golden $data/$mini.json >"$t/golden"
        listed $data/$mini.bzna >"$t/listed"
        same "$mini has 16 pictures" "$(wc -l <"$t/golden" | tr -d ' ')" 16
        if cmp -s "$t/golden" "$t/listed"; then pass
        else fail "$mini: list and extract --md5 agree with its description" "$(diff "$t/golden" "$t/listed" | head -n 6)"; fi
        expect 0 "$mini: info --json" "$bzna" info --json $data/$mini.bzna
        json "$t/out" "$mini: info is JSON"
        tr -d '\n' <"$t/out" >"$t/line"
        same "$mini: samples" "$(field samples <"$t/line")" 8
        same "$mini: targets" "$(field targets <"$t/line")" "$(sed -n 's/ *"target_count": //p' $data/$mini.json)"
        same "$mini: tracks" "$(grep '"handler"' "$t/out" | grep -o '"name":"[a-z_]*"' | tr '\n' ' ')" \
            '"name":"bzna_input" "name":"bzna_target" "name":"bzna_fname" "name":"bzna_thumb" '
        same "$mini: kind and parts" "$(field container <"$t/line") $(field parts <"$t/line")" "archive 1"
        says "$t/line" '"fields":[{"name":"image","kind":"picture"},{"name":"thumb","kind":"picture"},{"name":"target","kind":"integer"},{"name":"name","kind":"text"}]' \
            "$mini: fields"
        if grep -q '"classes"' "$t/line"; then fail "$mini: classes without names are not told"; else pass; fi
        same "$mini: size" "$(field size <"$t/line")" "$(wc -c <$data/$mini.bzna | tr -d ' ')"
        expect 0 "$mini: plain info" "$bzna" info $data/$mini.bzna
        expect 0 "$mini: plain list" "$bzna" list $data/$mini.bzna
        expect 0 "$mini: list --json" "$bzna" list --json $data/$mini.bzna
        json "$t/out" "$mini: list is JSON"
        expect 0 "$mini: verify" "$bzna" verify $data/$mini.bzna
        expect 0 "$mini: verify --decode" "$bzna" verify --decode --json $data/$mini.bzna
        same "$mini: nothing is bad" "$(cat "$t/out")" '{"samples":8,"bad":[],"unsupported":[]}'
    done
}

# overwrite FILE OFFSET COUNT: with bytes 255
overwrite() { dd if=/dev/zero bs=1 count="$3" 2>/dev/null | tr '\000' '\377' | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null; }

damage_tests() {
    set -- $(golden $data/mini_h265.json | awk '$1 == 2 && $6 == "bzna_input" { print $4, $12, $13 }')
    sample=$1 payload=$2 size=$3
    cp $data/mini_h265.bzna "$t/box.bzna"
    overwrite "$t/box.bzna" "$((sample))" 28
    overwrite "$t/box.bzna" "$((payload + size + 700))" 6000
    expect 1 "list of an archive with damaged boxes" "$bzna" list --json "$t/box.bzna"
    json "$t/out" "list of damage is JSON"
    same "one sample has an error, and it is the damaged one" "$(grep '"error"' "$t/out" | field index)" 2
    same "the others are listed" "$(grep -c '"bzna_input"' "$t/out")" 7
    expect 1 "verify of an archive with damaged boxes" "$bzna" verify --json "$t/box.bzna"
    json "$t/out" "verify of damage is JSON"
    same "verify names the sample" "$(grep '"message"' "$t/out" | field index)" 2
    says "$t/out" '"status":"BZNA_E_' "verify names the status"
    expect 1 "plain verify of damage" "$bzna" verify "$t/box.bzna"
    says "$t/out" "sample 2: BZNA_E_" "plain verify names sample and status"

    cp $data/mini_h265.bzna "$t/payload.bzna"
    overwrite "$t/payload.bzna" "$((payload + 4))" "$((size - 4))"
    expect 0 "a damaged payload is not seen without --decode" "$bzna" verify "$t/payload.bzna"
    expect 1 "a damaged payload is seen with --decode" "$bzna" verify --decode --jobs 2 --json "$t/payload.bzna"
    same "verify --decode names the sample" "$(grep '"message"' "$t/out" | field index)" 2
    same "and its file" "$(grep '"message"' "$t/out" | field message | cut -d : -f 1)" "$("$bzna" extract "$t/payload.bzna" 2 --field name)"
    refused 1 "" "extract of a damaged picture" "$bzna" extract "$t/payload.bzna" 2 --md5
    expect 0 "the sample after a damaged one can be extracted" "$bzna" extract "$t/payload.bzna" 3 --md5
}


# ---- pack ----

# pixel FILE.ppm WIDTH HEIGHT X Y: red, green and blue
pixel() { tail -c $(($2 * $3 * 3)) "$1" 2>&1 | od -An -v -tu1 -j $((($5 * $2 + $4) * 3)) -N 3 2>&1 | tr -s ' ' ' ' | sed 's/^ //; s/ $//'; }

# bytes_of FILE.ppm COUNT: the last COUNT bytes as numbers, one a line
bytes_of() { tail -c "$2" "$1" 2>&1 | od -An -v -tu1 | tr -s ' ' '\n' | grep .; }

# psnr A.ppm B.ppm: in whole dB
psnr() {
    size=$(ppm_size "$1")
    same "an extracted picture is as large as its source" "$(ppm_size "$2")" "$size"
    count=$((${size% *} * ${size#* } * 3))
    bytes_of "$1" $count >"$t/a" && bytes_of "$2" $count >"$t/b"
    db=$(paste "$t/a" "$t/b" | awk '{ d = $1 - $2; s += d * d } END { print int(s ? 10 * log(255 * 255 * NR / s) / log(10) : 99) }')
}

pack_tests() {
    expect 0 "draw_pictures" "$build/draw_pictures" "$t/drawn" 12
    expect 0 "draw_pictures again" "$build/draw_pictures" "$t/again" 12
    if diff -r "$t/drawn" "$t/again" >/dev/null; then pass; else fail "draw_pictures draws the same twice"; fi
    expect 0 "pack" "$bzna" pack "$t/drawn" -o "$t/one.bzna" --jobs 1 --preset superfast
    expect 0 "pack --json" "$bzna" pack "$t/drawn" -o "$t/two.bzna" --jobs 2 --preset superfast --json
    json "$t/out" "pack's report is JSON"
    says "$t/out" '"classes":["charts","fractals","plasma","shapes"]' "pack tells the classes in order"
    if cmp -s "$t/one.bzna" "$t/two.bzna"; then pass; else fail "the archive does not depend on --jobs"; fi
    expect 0 "verify --decode of the packed archive" "$bzna" verify --decode "$t/one.bzna"
    expect 0 "list of the packed archive" "$bzna" list --json "$t/one.bzna"
    same "targets are the numbers of the class folders" "$(field_all target)" "0 0 0 1 1 1 2 2 2 3 3 3 "
    same "file names are kept, in order" "$(field_all filename)" "00.ppm 01.ppm 02.ppm 00.ppm 01.ppm 02.ppm 00.ppm 01.ppm 02.ppm 00.ppm 01.ppm 02.ppm "
    expect 0 "pack over an archive, as H.264" "$bzna" pack "$t/drawn" -o "$t/two.bzna" --codec h264 --crf 24 \
        --preset veryfast --overwrite
    expect 0 "verify --decode of H.264" "$bzna" verify --decode "$t/two.bzna"
    if [ -e "$t/one.bzna.partial" ] || [ -e "$t/two.bzna.partial" ]; then fail "no partial file is left"; else pass; fi

    # 333x251 (odd) and 120x90 look like what they were made from.
    for archive in one two; do
        for which in 4:fractals/01 9:shapes/00; do
            expect 0 "extract ${which#*:} of $archive" "$bzna" extract "$t/$archive.bzna" "${which%%:*}" -o "$t/x.ppm"
            psnr "$t/drawn/${which#*:}.ppm" "$t/x.ppm"
            if [ "$db" -ge 24 ]; then pass; else fail "${which#*:} of $archive looks like its source" "$db dB"; fi
        done
    done
    expect 0 "extract of a stream" "$bzna" extract "$t/one.bzna" 0 -o "$t/x.h265"
    same "the stream begins with a parameter set" "$(head -c 5 "$t/x.h265" | od -An -tx1 | tr -d ' ')" 0000000140
    expect 0 "extract of planes" "$bzna" extract "$t/one.bzna" 0 -o "$t/x.yuv"
    same "the planes are the whole frame" "$(wc -c <"$t/x.yuv" | tr -d ' ')" $((512 * 512 * 3 / 2))
    expect 0 "extract of a thumbnail" "$bzna" extract "$t/one.bzna" 7 --track bzna_thumb -o "$t/x.ppm"
    same "a thumbnail's longest edge is 512" "$(ppm_size "$t/x.ppm")" "512 354"
}
field_all() { sed -n "s/.*\"$1\":\"\\{0,1\\}\\([^\",}]*\\).*/\\1/p" "$t/out" | tr '\n' ' '; }

movie_tests() {
    if ! command -v ffprobe >/dev/null 2>&1; then
        skip "ffprobe sees every picture" "ffprobe is not installed"
        return
    fi
    for archive in one two; do
        same "ffprobe sees every picture of $archive" "$(ffprobe -v error -count_frames -select_streams v -show_entries stream=nb_read_frames \
            -of csv=p=0 "$t/$archive.bzna" 2>&1 | tr -d ',')" 12
    done
}

# A gray JPEG of 24x16 whose corners are 32, 80, 176, 224, with an EXIF orientation.
oriented_jpeg() {
    printf '\377\330\377\341\000\042Exif\000\000MM\000*\000\000\000\010\000\001\001\022\000\003\000\000\000\001\000\0'"$(($1 / 8))$(($1 % 8))"'\000\000\000\000\000\000'
    printf '\377\333\000\103\000'
    i=0
    while [ $i -lt 64 ]; do printf '\100'; i=$((i + 1)); done
    printf '\377\304\000\032\000\000\000\007\000\000\000\000\000\000\000\000\000\000\000\000\000\000\001\002\003\004\005\006\377\304\000\024\020\001\000'
    printf '\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\377\300\000\013\010\000\020\000\030\001\001\021\000\377\332\000\010\001\001'
    printf '\000\000\077\000\206\224\155\060\332\123\377\331'
}

orientation_tests() {
    mkdir "$t/exif"
    for o in 1 2 3 4 5 6 7 8; do oriented_jpeg $o >"$t/exif/$o.jpg"; done
    expect 0 "pack of EXIF orientations" "$bzna" pack "$t/exif" -o "$t/exif.bzna" --preset superfast --crf 4
    for corners in 1:ABCD 2:BADC 3:DCBA 4:CDAB 5:ACBD 6:CADB 7:DBCA 8:BDAC; do
        o=${corners%:*} w=24 h=16
        if [ "$o" -ge 5 ]; then w=16 h=24; fi
        run "$bzna" extract "$t/exif.bzna" $((o - 1)) -o "$t/x.ppm"
        same "orientation $o gives the right size" "$(ppm_size "$t/x.ppm")" "$w $h"
        same "orientation $o gives an upright picture" "$(found "$t/x.ppm" $w $h)" "${corners#*:}"
    done
}

# frames FILE: MD5s of the frames that ffmpeg decodes, each of its own size
frames() { ffmpeg -v error -autorotate 0 -i "$1" -autoscale 0 -f framemd5 - 2>&1 | sed '/^#/d; s/.*, *//'; }

# A folder of files of all kinds: their bytes are the archive's samples, and are decoded as such.
copy_tests() {
    mkdir "$t/copied"
    cp $data/pictures/*.jpg "$t/copied"
    rm "$t/copied/jpeg_arithmetic.jpg"                      # pack looks at pictures by libavcodec, which cannot decode it
    expect 0 "pack of JPEG files as they are" "$bzna" pack "$t/copied" -o "$t/copy.bzna" --codec copy
    expect 0 "verify --decode of them" "$bzna" verify --decode "$t/copy.bzna"
    expect 0 "list of them" "$bzna" list --json "$t/copy.bzna"
    same "they are JPEG" "$(grep -c '"image":{"codec":"mjpg"\|"bzna_input":{"codec":"mjpg"' "$t/out")" "$(ls "$t/copied" | wc -l | tr -d ' ')"
    says "$t/out" '"width":25,"height":40,"frame_width":40,"frame_height":25' "a copied file keeps its orientation"
    i=0 changed=
    for file in "$t/copied"/*; do
        run "$bzna" extract "$t/copy.bzna" $i -o "$t/x.jpg"
        cmp -s "$file" "$t/x.jpg" || changed="$changed ${file##*/}"
        i=$((i + 1))
    done
    same "files whose bytes changed" "$changed" ""
    run "$bzna" extract "$t/copied" "$(ls "$t/copied" | grep -n exif_6 | awk -F: '{ print $1 - 1 }')" -o "$t/a.ppm"
    run "$bzna" extract "$t/copy.bzna" "$(ls "$t/copied" | grep -n exif_6 | awk -F: '{ print $1 - 1 }')" -o "$t/b.ppm"
    same "turned as in the folder" "$(ppm_size "$t/b.ppm")" "25 40"
    if cmp -s "$t/a.ppm" "$t/b.ppm"; then pass; else fail "an archive's JPEG is seen as the folder's"; fi
    expect 0 "info of them" "$bzna" info --json "$t/copy.bzna"
    json "$t/out" "info of JPEG is JSON"
    expect 0 "batch of them" "$bzna" batch "$t/copy.bzna" -o "$t/copy" --batch 4 --size 64
    expect 0 "bench of them" "$bzna" bench "$t/copy.bzna" --seconds 0.2 --batch 4 --threads 1 --decoder software
    if command -v ffmpeg >/dev/null 2>&1; then
        mkdir "$t/two"
        cp "$t/copied/jpeg_420_progressive.jpg" "$t/two/a.jpg"
        ffmpeg -v error -i "$t/two/a.jpg" -vf crop=24:16 -pix_fmt yuvj420p "$t/two/b.jpg"
        expect 0 "pack of two sizes" "$bzna" pack "$t/two" -o "$t/two.bzna" --codec copy --overwrite
        same "ffprobe sees them as one track" "$(ffprobe -v error -count_frames -select_streams v -show_entries \
            stream=codec_name,width,height,nb_read_frames -of csv=p=0 "$t/two.bzna" 2>&1)" mjpeg,40,25,2
        same "ffmpeg decodes the archive as the files" "$(frames "$t/two.bzna")" "$(frames "$t/two/a.jpg"; frames "$t/two/b.jpg")"
    else skip "ffmpeg reads archives of JPEG" "ffmpeg is not installed"; fi

    cp "$t/drawn/plasma/01.ppm" "$t/copied/large.ppm"
    head -c 500 "$t/copied/jpeg_440.jpg" >"$t/copied/cut.jpg"
    expect 1 "a file that is cut off is left out" "$bzna" pack "$t/copied" -o "$t/copy.bzna" --codec copy --overwrite --quality 95
    says "$t/err" "copied/cut.jpg: " "it is named"
    run "$bzna" list --json "$t/copy.bzna"
    same "what is no JPEG becomes one, without a thumbnail" \
        "$(grep -o '"name":"large.ppm".*\|.*"large.ppm".*' "$t/out" | grep -o '"codec":"[a-z]*"' | tr '\n' ' ')" '"codec":"mjpg" '
}

jpeg_tests() {
    refused 2 "--quality" "a quality out of range" "$bzna" pack "$t" -o "$t/x.bzna" --quality 101
    refused 2 "--tune-decode" "an encoder without that" "$bzna" pack "$t" -o "$t/x.bzna" --codec jpeg --tune-decode
    expect 0 "pack as JPEG" "$bzna" pack "$t/drawn" -o "$t/jpeg.bzna" --codec jpeg --jobs 1
    expect 0 "pack as JPEG again" "$bzna" pack "$t/drawn" -o "$t/again.bzna" --codec jpeg --jobs 2 --quality 90
    if cmp -s "$t/jpeg.bzna" "$t/again.bzna"; then pass; else fail "the same JPEGs with --jobs 2, quality 90 by default"; fi
    expect 0 "pack of low quality" "$bzna" pack "$t/drawn" -o "$t/again.bzna" --codec jpeg --quality 20 --overwrite
    expect 0 "verify --decode of JPEG" "$bzna" verify --decode "$t/again.bzna"
    same "low quality is less than half as large" \
        "$(($(wc -c <"$t/again.bzna") * 2 < $(wc -c <"$t/jpeg.bzna")))" 1
    for which in 4:fractals/01 9:shapes/00; do
        expect 0 "extract ${which#*:} of JPEG" "$bzna" extract "$t/jpeg.bzna" "${which%%:*}" -o "$t/x.ppm"
        psnr "$t/drawn/${which#*:}.ppm" "$t/x.ppm"
        if [ "$db" -ge 24 ]; then pass; else fail "${which#*:} of JPEG looks like its source" "$db dB"; fi
    done
    run "$bzna" list --json "$t/jpeg.bzna"
    says "$t/out" '"width":333,"height":251,"frame_width":333,"frame_height":251' "a JPEG is not padded"
    expect 0 "extract of a JPEG's thumbnail" "$bzna" extract "$t/jpeg.bzna" 7 --track bzna_thumb -o "$t/x.ppm"
    same "its longest edge is 512" "$(ppm_size "$t/x.ppm")" "512 354"
    run "$bzna" extract "$t/jpeg.bzna" 0 -o "$t/x.jpg"
    if grep -q Lavc "$t/x.jpg"; then fail "no encoder's name is stored"; else pass; fi
    if [ -n "$python" ] && "$python" -c 'import PIL' 2>/dev/null; then
        same "its tables are libjpeg's, but for the first number" "$("$python" -c '
import io, sys
from PIL import Image
mine, f = Image.open(sys.argv[1]), io.BytesIO()
mine.convert("RGB").save(f, "JPEG", quality=90)
print([list(mine.quantization[k])[1:] == list(Image.open(f).quantization[k])[1:] for k in (0, 1)])' "$t/x.jpg")" "[True, True]"
    else skip "its tables are libjpeg's, but for the first number" "python3 has no PIL"; fi
}

# How an encoder is set shows in sizes: without CABAC, H.264 grows.
encoder_tests() {
    mkdir "$t/few"
    cp "$t/drawn/plasma/00.ppm" "$t/few/a.ppm"
    cp "$t/drawn/shapes/00.ppm" "$t/few/b.ppm"
    expect 0 "pack as H.264" "$bzna" pack "$t/few" -o "$t/few.bzna" --codec h264 --preset veryfast
    for codec in h264 h265; do
        expect 0 "pack --tune-decode as $codec" "$bzna" pack "$t/few" -o "$t/tuned.bzna" --codec $codec --preset veryfast --tune-decode --overwrite
        expect 0 "verify --decode of it" "$bzna" verify --decode "$t/tuned.bzna"
        if [ $codec = h264 ]; then same "tuned H.264 is larger" "$(($(wc -c <"$t/tuned.bzna") > $(wc -c <"$t/few.bzna")))" 1; fi
    done
    run "$bzna" pack "$t/few" -o "$t/av1.bzna" --codec av1 --preset superfast
    if grep -q "no libaom-av1" "$t/err"; then skip "pack as AV1" "this libavcodec has no libaom-av1"; return; fi
    same "pack as AV1" "$status" 0
    expect 0 "verify --decode of AV1" "$bzna" verify --decode "$t/av1.bzna"
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
    expect 1 "pack with unreadable files" "$bzna" pack "$t/mixed" -o "$t/mixed.bzna" --preset superfast
    for file in ants/note.txt ants/empty.jpg bees/cut.jpg bees/cut.ppm loose.ppm; do
        if grep -qE "mixed/$file: .+" "$t/err"; then pass; else fail "$file is listed with a reason" "$(cat "$t/err")"; fi
    done
    says "$t/err" "5 of 7 files" "unreadable files are counted, hidden ones are not"
    expect 0 "the archive is whole without them" "$bzna" verify --decode "$t/mixed.bzna"
    run "$bzna" list --json "$t/mixed.bzna"
    same "the others are in it" "$(field_all target)" "0 1 "
    run "$bzna" pack "$t/mixed" -o "$t/mixed.bzna" --preset superfast --json --overwrite
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
        --preset superfast
    expect 0 "verify of a flat folder's archive" "$bzna" verify --decode "$t/flat.bzna"
    expect 0 "list of a flat folder's archive" "$bzna" list --json "$t/flat.bzna"
    json "$t/out" "odd names are JSON"
    same "a flat folder has no targets" "$(field_all target)" "null null null null null "
    says "$t/out" '"100%d%03d.ppm"' "a name with % is kept"
    says "$t/out" "$(printf '"b \303\274\303\261 \\"q\\" \\\\ .ppm"')" "a name with quotes and letters beyond ASCII is kept"
    run "$bzna" extract "$t/flat.bzna" 3 -o "$t/x.ppm"
    same "one pixel stays one pixel" "$(ppm_size "$t/x.ppm")" "1 1"
    same "and keeps its color" "$(pixel "$t/x.ppm" 1 1 0 0 | awk '{ print (($1-200)^2 < 50 && ($2-100)^2 < 50 && ($3-50)^2 < 50) }')" 1
    run "$bzna" extract "$t/flat.bzna" 4 --track bzna_thumb -o "$t/x.ppm"
    same "the thumbnail of a picture of 3x700 pixels" "$(ppm_size "$t/x.ppm")" "2 512"
}

# Chroma stays where luma is: spots of brightness and color around the same points near the corners still are.
chroma_tests() {
    if [ -z "$numpy" ]; then skip "chroma stays where luma is" "there is no python3 with numpy"; return; fi
    mkdir -p "$t/chroma/spots"
    expect 0 "pictures with spots" "$numpy" tests/tool_pictures.py chroma "$t/chroma/spots"
    expect 0 "pack of pictures with spots" "$bzna" pack "$t/chroma" -o "$t/chroma.bzna" --codec h264 \
        --preset ultrafast --crf 1
    expect 0 "their chroma is measured" "$numpy" tests/tool_pictures.py shift "$bzna" "$t/chroma.bzna"
    cp "$t/out" "$t/shift"
    same "the chroma of all pictures is measured" "$(grep -c bzna_input "$t/shift") $(grep -c bzna_thumb "$t/shift")" \
        "$(ls "$t/chroma/spots" | wc -l | tr -d ' ') 18"
    for kind in 444 422 420 411 440 rgb cmyk; do
        far=$(awk -v k="$kind" 'index($1, k "_") == 1 { n++; if (!($3 < 0.1)) print }
                                END { if (n < 32) print "too few" }' "$t/shift")
        if [ -z "$far" ]; then pass
        else fail "$kind: chroma is less than 0.1 pixels from luma at every corner" "$(echo "$far" | head -n 6)"; fi
    done
    far=$(awk '!($4 <= 3)' "$t/shift")
    if [ -z "$far" ]; then pass
    else fail "the last row and column of chroma are of the picture" "$(echo "$far" | head -n 6)"; fi
}

tiff_tests() {
    if [ -z "$python" ]; then skip "TIFFs that libavcodec makes black" "there is no python3"; return; fi
    mkdir "$t/tiff"
    oriented_jpeg 1 >"$t/strip.jpg"
    expect 0 "TIFFs are made" "$python" tests/tool_pictures.py tiff "$t/tiff" "$t/strip.jpg"
    expect 1 "pack of TIFFs that libavcodec makes black" "$bzna" pack "$t/tiff" -o "$t/tiff.bzna" --preset superfast
    for file in jpeg jpeg_mm jpeg_rgb old_jpeg; do
        says "$t/err" "tiff/$file.tif: a TIFF compressed as JPEG" "$file.tif is refused by name"
    done
    says "$t/err" "tiff/tiles.tif: a TIFF in tiles" "tiles.tif is refused by name"
    says "$t/err" "tiff/sensor.tif: cannot be decoded: " \
        "a sensor's values are left to libavcodec, which says what it lacks"
    run "$bzna" list --json "$t/tiff.bzna"
    same "the other TIFFs are packed" "$(field_all filename)" "deflate.tif raw.tif raw_mm.tif "
    for i in 0 1 2; do
        run "$bzna" extract "$t/tiff.bzna" $i -o "$t/x.ppm"
        same "TIFF $i is green" \
            "$(pixel "$t/x.ppm" 64 48 30 20 | awk '{ print (($1-60)^2 < 50 && ($2-160)^2 < 50 && ($3-60)^2 < 50) }')" 1
    done
}

icon_tests() {
    if [ -z "$python" ]; then skip "the largest picture of an icon is taken" "there is no python3"; return; fi
    mkdir "$t/icons"
    expect 0 "icons are made" "$python" tests/tool_pictures.py icons "$t/icons"
    expect 1 "pack of icons" "$bzna" pack "$t/icons" -o "$t/icons.bzna" --preset superfast
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
            "$bzna" pack "$t/numbers" -o "$t/numbers.bzna" --preset ultrafast --overwrite "$@"
        cp "$t/err" "$t/warning"
        run "$bzna" list --json "$t/numbers.bzna"
    }
    pack_numbers
    same "classes are numbered as text" "$(field_all filename)" \
        "0.jpg 1.jpg 10.jpg 2.jpg x09.jpg x10.jpg x9.jpg y1b.jpg y2a.jpg "
    says "$t/warning" 'in the order of their names as text: "10" is class 2, "2" is class 3' "a warning says so"
    says "$t/warning" "--class-order numeric" "the warning says what to type"
    pack_numbers --class-order text
    same "--class-order text numbers classes as text" "$(field_all filename)" \
        "0.jpg 1.jpg 10.jpg 2.jpg x09.jpg x10.jpg x9.jpg y1b.jpg y2a.jpg "
    same "--class-order text does not warn" "$(cat "$t/warning")" ""
    pack_numbers --class-order numeric
    same "--class-order numeric numbers by value" "$(field_all filename)" \
        "0.jpg 1.jpg 2.jpg 10.jpg x09.jpg x9.jpg x10.jpg y1b.jpg y2a.jpg "
    same "--class-order numeric does not warn" "$(cat "$t/warning")" ""
    same "targets are in the order of the classes" "$(field_all target)" "0 1 2 3 4 5 6 7 8 "
    run "$bzna" pack "$t/exif" -o "$t/numbers.bzna" --preset ultrafast --overwrite
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
        --preset ultrafast --json
    says "$t/out" '"classes":["ants","bees"]' "the classes are those of the split"
    expect 0 "a folder named train among other folders is a class" \
        "$bzna" pack "$t/splits/cars" -o "$t/split.bzna" --preset ultrafast \
        --overwrite
}

# halted_pack NAME: a pack of $t/drawn into NAME, stopped while it writes; its number in $halted
halted_pack() {
    "$bzna" pack "$t/drawn" -o "$1" --jobs 1 --preset superfast >"$t/halted.out" 2>"$t/halted.err" &
    halted=$!
    tries=0
    while [ ! -s "$1.partial" ] && [ $tries -lt 200 ]; do sleep 0.05; tries=$((tries + 1)); done
    kill -STOP $halted
    if [ -s "$1.partial" ]; then pass; else fail "a pack is stopped while it writes" "$(cat "$t/halted.err")"; fi
}

output_tests() {
    echo "not to be lost" >"$t/kept.bzna"
    refused 2 "kept.bzna: already exists" "an existing output is not replaced" "$bzna" pack "$t/exif" \
        -o "$t/kept.bzna"
    says "$t/err" "bzna pack --overwrite" "the message says what to type"
    same "the existing output is unchanged" "$(cat "$t/kept.bzna")" "not to be lost"
    expect 0 "--overwrite replaces it" "$bzna" pack "$t/exif" -o "$t/kept.bzna" --preset ultrafast --overwrite
    expect 0 "the new archive is complete" "$bzna" verify --decode "$t/kept.bzna"

    halted_pack "$t/locked.bzna"
    refused 1 "locked.bzna.partial: another bzna pack is writing it" "a second pack to the same output" \
        "$bzna" pack "$t/exif" -o "$t/locked.bzna"
    refused 1 "another bzna pack is writing it" "a second pack to the same output with --overwrite" \
        "$bzna" pack "$t/exif" -o "$t/locked.bzna" \
        --overwrite
    kill -CONT $halted
    wait $halted
    same "the first pack succeeds" "$?" 0
    expect 0 "the first pack writes a complete archive" "$bzna" verify --decode --json "$t/locked.bzna"
    says "$t/out" '{"samples":12,"bad":[],"unsupported":[]}' "the archive of the first pack has all its pictures"

    halted_pack "$t/killed.bzna"
    kill -KILL $halted
    wait $halted 2>/dev/null
    expect 0 "the partial file of a killed run does not block the next run" "$bzna" pack "$t/exif" -o "$t/killed.bzna" \
        --preset ultrafast
    expect 0 "the archive of the next run is complete" "$bzna" verify --decode --json "$t/killed.bzna"
    says "$t/out" '{"samples":8,"bad":[],"unsupported":[]}' "the archive holds nothing of the killed run"

    halted_pack "$t/sudden.bzna"
    echo "not to be lost" >"$t/sudden.bzna"
    kill -CONT $halted
    wait $halted
    same "an output that another program made meanwhile is an error" "$?" 1
    same "the output of another program is unchanged" "$(cat "$t/sudden.bzna")" "not to be lost"
    says "$t/halted.err" "the new archive is $t/sudden.bzna.partial" "the message says where the archive is"
    expect 0 "the new archive is complete under that name" "$bzna" verify --decode "$t/sudden.bzna.partial"
    rm -f "$t/sudden.bzna.partial"

    bad=
    for _ in 1 2 3 4; do
        "$bzna" pack "$t/exif" -o "$t/raced.bzna" --preset ultrafast --overwrite >"$t/log" 2>&1 &
        run "$bzna" pack "$t/splits/cars" -o "$t/raced.bzna" --preset ultrafast --overwrite
        wait $!
        ends=$?$status
        run "$bzna" verify --decode "$t/raced.bzna"
        case "$ends$status" in 000 | 010 | 100) ;; *) bad="$bad $ends$status" ;; esac
    done
    same "of two simultaneous packs at least one succeeds, and the archive is complete" "$bad" ""
    if ls "$t"/*.partial >/dev/null 2>&1; then fail "no partial file is left" "$(ls "$t"/*.partial)"; else pass; fi
}


# ---- data sets that are no archives ----

# found FILE WIDTH HEIGHT: which of the gray values A to D stands in which corner
found() {
    for xy in "2 2" "$(($2 - 3)) 2" "2 $(($3 - 3))" "$(($2 - 3)) $(($3 - 3))"; do
        # shellcheck disable=SC2086  # two words
        pixel "$1" "$2" "$3" $xy; done | awk '{ printf "%s", $1 < 56 ? "A" : $1 < 128 ? "B" : $1 < 200 ? "C" : "D" }'
}

folder_tests() {
    for corners in 1:ABCD 2:BADC 3:DCBA 4:CDAB 5:ACBD 6:CADB 7:DBCA 8:BDAC; do
        o=${corners%:*} w=24 h=16
        if [ "$o" -ge 5 ]; then w=16 h=24; fi
        run "$bzna" extract "$t/exif" $((o - 1)) -o "$t/x.ppm"
        same "orientation $o of a folder's JPEG gives the right size" "$(ppm_size "$t/x.ppm")" "$w $h"
        same "orientation $o of a folder's JPEG is upright" "$(found "$t/x.ppm" $w $h)" "${corners#*:}"
    done
    expect 0 "extract as it is coded" "$bzna" extract "$t/exif" 5 -o "$t/x.ppm" --orientation ignore --json
    same "--orientation ignore leaves a picture as it is coded" "$(ppm_size "$t/x.ppm") $(found "$t/x.ppm" 24 16)" "24 16 ABCD"
    expect 0 "extract as PNG" "$bzna" extract "$t/exif" 5 -o "$t/x.png"
    same "a PNG is upright, too: 16x24" "$(od -An -tx1 -j 16 -N 8 "$t/x.png" | tr -d ' ')" 0000001000000018
    expect 0 "extract of a JPEG's own bytes" "$bzna" extract "$t/exif" 5 -o "$t/x.jpg"
    if cmp -s "$t/x.jpg" "$t/exif/6.jpg"; then pass; else fail "a JPEG's own bytes are the file's"; fi
    refused 1 "encoded as jpeg, which a name in .h265 does not fit" "a JPEG is not written as H.265" \
        "$bzna" extract "$t/exif" 5 -o "$t/x.h265"
    expect 0 "a name is printed" "$bzna" extract "$t/exif" 5 --field name
    same "it is the path in the folder" "$(cat "$t/out")" 6.jpg
    expect 0 "a picture field is written" "$bzna" extract "$t/exif" 5 --field image -o "$t/x.bin"
    if cmp -s "$t/x.bin" "$t/exif/6.jpg"; then pass; else fail "a picture field is the picture's own bytes"; fi
    refused 1 "nonsense" "a field that there is not" "$bzna" extract "$t/exif" 5 --field nonsense
    refused 2 "--field" "a field, and a decoded picture" "$bzna" extract "$t/exif" 5 --field image --md5

    mkdir -p "$t/two/10" "$t/two/9"
    cp "$t/exif/1.jpg" "$t/two/10/a.jpg"
    cp "$t/exif/6.jpg" "$t/two/9/b.jpg"
    expect 0 "info of a folder" "$bzna" info --json "$t/two"
    json "$t/out" "info of a folder is JSON"
    tr -d '\n' <"$t/out" >"$t/line"
    same "a folder's numbers" "$(for f in container parts samples targets classes size; do echo "$(field $f <"$t/line")"; done | tr '\n' ' ')" \
        "folder 1 2 2 2 null "
    expect 0 "plain info of a folder" "$bzna" info "$t/two"
    says "$t/out" "classes    2" "plain info tells the classes"
    expect 0 "list of a folder" "$bzna" list --json "$t/two"
    json "$t/out" "list of a folder is JSON"
    same "names are paths in the folder" "$(field_all filename)$(field_all target)" "10/a.jpg 9/b.jpg 0 1 "
    says "$t/out" '"images":{"image":{"codec":"jpeg","width":16,"height":24,"frame_width":24,"frame_height":16,' \
        "list tells codec, the size as it is seen, and that of the coded frame"
    run "$bzna" list "$t/two" --orientation ignore
    same "--orientation ignore lists the coded size" "$(awk '$1 == 1 { print $5 }' "$t/out")" 24x16
    run "$bzna" list --json "$t/two" --class-order numeric
    same "classes in numeric order" "$(field_all filename)" "9/b.jpg 10/a.jpg "
    run "$bzna" list --json "$t/two" --classes 9
    same "one class of two" "$(field_all filename)$(field_all target)" "9/b.jpg 0 "
    mkdir "$t/stills"
    cp "$t/x.png" "$t/drawn/shapes/00.ppm" "$t/stills"
    run "$bzna" list --json "$t/stills"
    same "stills are called by their kind" "$(field_all codec)" "ppm png "
    refused 1 "folder" "a folder is no archive" "$bzna" info "$t/two" --format archive

    expect 0 "batch of a folder" "$bzna" batch "$t/two" -o "$t/b8" --batch 2 --size 16 --warp none
    same "a batch of a folder is upright" "$(pixel "$t/b8/00001.ppm" 16 16 1 1 | cut -d ' ' -f 1 | awk '{ print ($1 >= 128 && $1 < 200) }')" 1
    expect 0 "bench of a folder" "$bzna" bench "$t/two" --json --seconds 0.2 --batch 2 --size 16 --threads 1 --warp center
    same "bench of a folder counts its samples" "$(field samples <"$t/out")" 2
}

tar_tests() {
    if ! command -v tar >/dev/null 2>&1; then skip "tar shards" "tar is not installed"; return; fi
    mkdir "$t/shard"
    cp "$t/exif/1.jpg" "$t/shard/a.jpg"
    cp "$t/exif/6.jpg" "$t/shard/b.jpg"
    cp "$t/exif/1.jpg" "$t/shard/b.seg.jpg"
    echo 7 >"$t/shard/a.cls"
    echo 9 >"$t/shard/b.cls"
    printf '{"x":1}' >"$t/shard/a.json"
    printf 'a caf\303\251 "q"' >"$t/shard/a.txt"
    (cd "$t/shard" && tar -cf ../shard.tar a.cls a.jpg a.json a.txt b.cls b.jpg b.seg.jpg)
    expect 0 "info of a shard" "$bzna" info --json "$t/shard.tar"
    json "$t/out" "info of a shard is JSON"
    says "$t/out" '{"container":"tar","parts":1,' "info tells that it is tar"
    says "$t/out" '{"name":"json","kind":"bytes"},{"name":"txt","kind":"text"}' "info tells a shard's fields"
    expect 0 "list of a shard" "$bzna" list --json "$t/shard.tar"
    json "$t/out" "list of a shard is JSON"
    same "keys and targets" "$(field_all filename)$(field_all target)" "a b 7 9 "
    says "$t/out" "$(printf '"fields":{"cls":7,"json":{"size":7},"txt":"a caf\303\251 \\"q\\""},"images":{"jpg":{')" \
        "list tells a sample's fields"
    says "$t/out" '"fields":{"cls":9},"images":{"jpg":{"codec":"jpeg","width":16,"height":24,' "and only those that it has"
    says "$t/out" '"seg.jpg":{"codec":"jpeg","width":24,"height":16,' "both pictures are listed"
    expect 0 "plain list of a shard" "$bzna" list "$t/shard.tar"
    says "$t/out" 'a  cls=7  json={"size":7}  txt="a caf' "plain list tells fields, too"
    expect 0 "verify of a shard" "$bzna" verify --decode "$t/shard.tar"
    expect 0 "extract from a shard" "$bzna" extract "$t/shard.tar" 1 -o "$t/x.ppm"
    same "the first picture is taken, upright" "$(ppm_size "$t/x.ppm") $(found "$t/x.ppm" 16 24)" "16 24 CADB"
    expect 0 "extract of another picture" "$bzna" extract "$t/shard.tar" 1 --track seg.jpg -o "$t/x.ppm"
    same "--track names a field" "$(ppm_size "$t/x.ppm") $(found "$t/x.ppm" 24 16)" "24 16 ABCD"
    expect 0 "bytes are printed" "$bzna" extract "$t/shard.tar" 0 --field json
    same "as they are" "$(cat "$t/out")" '{"x":1}'
    expect 0 "bytes are written" "$bzna" extract "$t/shard.tar" 0 --field txt -o "$t/x.txt"
    if cmp -s "$t/x.txt" "$t/shard/a.txt"; then pass; else fail "a text is written as it is" "$(od -c "$t/x.txt")"; fi
    expect 0 "a number as JSON" "$bzna" extract "$t/shard.tar" 1 --field cls --json
    same "has its index and field" "$(cat "$t/out")" '{"index":1,"field":"cls","value":9}'
    refused 1 "txt" "a field that this sample has not" "$bzna" extract "$t/shard.tar" 1 --field txt
    cp "$t/shard.tar" "$t/shard-00.tar"
    cp "$t/shard.tar" "$t/shard-01.tar"
    expect 0 "info of a pattern" "$bzna" info --json "$t/shard-{00..01}.tar"
    tr -d '\n' <"$t/out" >"$t/line"
    same "a pattern is the shards end to end" "$(echo "$(field parts <"$t/line")") $(echo "$(field samples <"$t/line")")" "2 4"
    echo seven >"$t/shard/a.cls"
    echo none >"$t/shard/b.id"
    (cd "$t/shard" && tar -cf ../bad.tar a.cls a.jpg b.cls b.id b.jpg)
    expect 1 "verify of a shard with a target and an id that are no numbers" "$bzna" verify --json "$t/bad.tar"
    same "verify names both samples" "$(grep -o '"index":[0-9]*' "$t/out" | tr '\n' ' ')" '"index":0 "index":1 '
    expect 0 "bench of a shard" "$bzna" bench "$t/shard.tar" --json --seconds 0.2 --batch 2 --size 16 --threads 1
    same "bench of a shard counts its samples" "$(field samples <"$t/out")" 2
    expect 0 "batch of a shard" "$bzna" batch "$t/shard.tar" -o "$t/b9" --batch 2 --size 16 --json
    same "batch of a shard tells keys" "$(field_all filename)" "a b "
}

record_tests() {
    if [ -z "$python" ]; then skip "RecordIO files" "there is no python3"; return; fi
    expect 0 "a RecordIO file is made" "$python" tests/tool_pictures.py record "$t/x.rec" "$t/exif/6.jpg"
    expect 0 "info of a .rec" "$bzna" info --json "$t/x.rec"
    says "$t/out" '{"container":"RecordIO",' "info tells that it is RecordIO"
    expect 0 "list of a .rec" "$bzna" list --json "$t/x.rec"
    json "$t/out" "list of a .rec is JSON"
    says "$t/out" '"label":[1.5,2,-3]' "a vector is an array"
    says "$t/out" '"width":16,"height":24,"frame_width":24,"frame_height":16,' "its pictures have the size as they are seen"
    expect 0 "a vector is printed" "$bzna" extract "$t/x.rec" 1 --field label
    same "as a line of numbers" "$(cat "$t/out")" "1.5 2 -3"
    expect 0 "verify of a .rec" "$bzna" verify --decode "$t/x.rec"
    expect 0 "extract from a .rec" "$bzna" extract "$t/x.rec" 1 -o "$t/x.jpg"
    if cmp -s "$t/x.jpg" "$t/exif/6.jpg"; then pass; else fail "a JPEG comes out of a .rec as it went in"; fi
}

# What is damaged, and what is not supported, are told apart.
unsupported_tests() {
    cp -r "$t/two" "$t/broken"
    head -c 100 "$t/exif/1.jpg" >"$t/broken/9/cut.jpg"
    echo "no picture" >"$t/broken/9/text.jpg"
    expect 0 "verify --decode of a folder" "$bzna" verify --decode --json "$t/two"
    same "nothing is bad" "$(cat "$t/out")" '{"samples":2,"bad":[],"unsupported":[]}'
    expect 1 "verify of a folder with damage" "$bzna" verify --json "$t/broken"
    json "$t/out" "verify of a folder is JSON"
    tr -d '\n' <"$t/out" >"$t/line"
    same "the damaged and the unsupported file are told apart" \
        "$(grep -o '"bad"\|"unsupported"\|"index":[0-9]*,"status":"[A-Z_]*"' "$t/line" | tr '\n' ' ')" \
        '"bad" "index":2,"status":"BZNA_E_DECODE" "unsupported" "index":3,"status":"BZNA_E_CODEC" '
    says "$t/err" "1 of 4 samples are damaged, 1 are not supported" "verify counts both"
    rm "$t/broken/9/cut.jpg"
    expect 1 "verify of what is not supported" "$bzna" verify "$t/broken"
    says "$t/out" "sample 2: BZNA_E_CODEC" "plain verify names the sample"
}


# ---- batch, bench, decode_batch ----

batch_tests() {
    expect 0 "batch" "$bzna" batch "$t/one.bzna" -o "$t/b1" --batch 8 --size 64 --shuffle --seed 5 --flip 0.5
    says "$t/out" "decoder" "batch says who decodes"
    same "batch writes each picture and a contact sheet" "$(cd "$t/b1" && echo *)" \
        "00000.ppm 00001.ppm 00002.ppm 00003.ppm 00004.ppm 00005.ppm 00006.ppm 00007.ppm contact.png contact.ppm"
    same "the pictures have the size asked for" "$(ppm_size "$t/b1/00000.ppm")" "64 64"
    same "the contact sheet is a grid" "$(ppm_size "$t/b1/contact.ppm")" "196 196"
    same "contact.png is a PNG file" "$(head -c 8 "$t/b1/contact.png" | od -An -tx1 | tr -d ' ')" 89504e470d0a1a0a
    if command -v ffmpeg >/dev/null 2>&1; then
        ffmpeg -v error -i "$t/b1/contact.png" -f image2pipe -c:v ppm "$t/sheet.ppm" >"$t/log" 2>&1
        if cmp -s "$t/sheet.ppm" "$t/b1/contact.ppm"; then pass
        else fail "contact.png has the pixels of contact.ppm" "$(cat "$t/log")"; fi
    else skip "contact.png has the pixels of contact.ppm" "ffmpeg is not installed"; fi
    expect 0 "batch again" "$bzna" batch "$t/one.bzna" -o "$t/b2" --batch 8 --size 64 --shuffle --seed 5 --flip 0.5
    expect 0 "batch of another seed" "$bzna" batch "$t/one.bzna" -o "$t/b3" --batch 8 --size 64 --shuffle --seed 6 \
        --flip 0.5
    if diff -r "$t/b1" "$t/b2" >/dev/null; then pass; else fail "the same seed gives the same batch"; fi
    if cmp -s "$t/b1/contact.ppm" "$t/b3/contact.ppm"; then fail "another seed gives another batch"; else pass; fi
    expect 0 "batch --json" "$bzna" batch "$t/one.bzna" -o "$t/b4" --warp center --batch 4 --json
    json "$t/out" "batch's report is JSON"
    expect 0 "batch --warp none" "$bzna" batch "$t/one.bzna" -o "$t/b5" --warp none --batch 4
    for way in "--layout NHWC" "--channels BGR" "--dtype float32 --layout NHWC --channels BGR"; do
        expect 0 "batch $way" "$bzna" batch "$t/one.bzna" -o "$t/b7" --warp none --batch 4 $way
        if diff -r "$t/b5" "$t/b7" >/dev/null; then pass; else fail "batch $way shows the same pictures"; fi
    done
    for way in f16 bf16 u8 float16 bfloat16 uint8; do
        expect 0 "batch --dtype $way" "$bzna" batch "$t/one.bzna" -o "$t/b8" --warp none --batch 4 --dtype $way --layout NHWC
        same "batch --dtype $way shows the same pictures, nearly" "$(cmp -l "$t/b5/00001.ppm" "$t/b8/00001.ppm" |
            awk 'function octal(v) { return substr(v, 1, length(v) - 2) * 64 + substr(v, length(v) - 1, 1) * 8 + substr(v, length(v)) }
                 { d = octal($2) - octal($3); if (d > 1 || d < -1) n++ } END { print n + 0 }')" 0
    done
    for way in gray grey; do
        expect 0 "batch --channels $way" "$bzna" batch "$t/one.bzna" -o "$t/b9" --warp none --batch 4 --channels $way
        same "batch --channels $way is gray" "$(tail -c 300 "$t/b9/00001.ppm" | od -An -v -tu1 -w3 |
            awk '$1 != $2 || $2 != $3 { n++ } END { print n + 0 }')" 0
    done
    expect 0 "batch of one view" "$bzna" batch "$t/one.bzna" -o "$t/b10" --batch 4 --size 32 --seed 5
    expect 0 "batch --views" "$bzna" batch "$t/one.bzna" -o "$t/b11" --batch 4 --size 32 --seed 5 --views 3
    same "each view of each picture is a file" "$(cd "$t/b11" && ls | wc -l | tr -d ' ')" 14
    same "the first view is that of one view" "$(cmp "$t/b10/00002.ppm" "$t/b11/00002_0.ppm" && echo same)" same
    if cmp -s "$t/b11/00002_1.ppm" "$t/b11/00002_2.ppm"; then fail "views differ"; else pass; fi
    refused 2 "--views" "more views than there can be" "$bzna" batch "$t/one.bzna" -o "$t/b11" --views 65
    expect 0 "batch --warp center" "$bzna" batch "$t/one.bzna" -o "$t/c0" --warp center --size 40 --batch 4
    n=0
    for way in "--filter nearest" "--filter cubic" "--filter lanczos" "--filter area" "--filter cubic-0.75" "--filter lanczos4" \
        "--no-antialias" "--antialias --no-antialias --filter cubic" "--law torchvision"; do
        n=$((n + 1))
        expect 0 "batch $way" "$bzna" batch "$t/one.bzna" -o "$t/c$n" --warp center --size 40 --batch 4 $way
    done
    same "every filter, antialias and law shows other pictures" "$(cat "$t"/c[0-9]/contact.ppm | wc -c)/$(
        for i in 0 1 2 3 4 5 6 7 8 9; do cksum <"$t/c$i/contact.ppm"; done | sort -u | wc -l | tr -d ' ')" \
        "$((10 * $(wc -c <"$t/c0/contact.ppm")))/10"
    for way in "--filter linear" "--antialias" "--no-antialias --antialias" "--law benzina --filter=linear"; do
        expect 0 "batch $way" "$bzna" batch "$t/one.bzna" -o "$t/c" --warp center --size 40 --batch 4 $way
        if diff -r "$t/c0" "$t/c" >/dev/null; then pass; else fail "batch $way shows the same pictures"; fi
    done
    refused 2 "nearest|linear|cubic|lanczos|area|cubic-0.75|lanczos4" "a filter that is not known" "$bzna" batch "$t/one.bzna" \
        -o "$t/c" --filter bilinear
    refused 2 "takes no value" "a flag with a value" "$bzna" batch "$t/one.bzna" -o "$t/c" --antialias=1
    refused 1 "filter.antialias: area" "area without antialias" "$bzna" batch "$t/one.bzna" -o "$t/c" --filter area --no-antialias
    refused 1 "warp.law: has no effect" "a law without crops" "$bzna" batch "$t/one.bzna" -o "$t/c" --warp none --law torchvision
    refused 1 "one.bzna" "batch into a file that is not a folder" "$bzna" batch "$t/one.bzna" -o "$t/one.bzna"
    expect 1 "batch of damage" "$bzna" batch "$t/payload.bzna" -o "$t/b6" --batch 8 --track bzna_input
    same "the damaged picture's neighbors are written" "$(cd "$t/b6" && ls | wc -l | tr -d ' ')" 10
}

bench_tests() {
    expect 0 "bench --json" "$bzna" bench --json --seconds 0.4 --batch 4 --threads 1 --decoder software "$t/one.bzna"
    json "$t/out" "bench's report is JSON"
    for key in images_per_second decode_only_images_per_second decoder threads samples seconds sessions fallbacks; do
        says "$t/out" "\"$key\":" "bench tells $key"
    done
    same "bench in software leaves batches on the host" "$(field output <"$t/out") $(field sessions <"$t/out") $(field device <"$t/out")" "host 0 null"
    same "bench used the threads it was given" "$(field threads <"$t/out")" 1
    same "bench measured something" "$(field decode_only_images_per_second <"$t/out" | awk '{ print ($1 > 0) }')" 1
    expect 0 "plain bench" "$bzna" bench --seconds 0.4 --batch 4 --threads 1 --decoder software "$t/one.bzna"
    expect 0 "bench of float16" "$bzna" bench --json --seconds 0.2 --batch 4 --threads 1 --decoder software \
        --dtype f16 "$t/one.bzna"
    same "bench tells the type" "$(field dtype <"$t/out")" f16
    expect 0 "bench --views" "$bzna" bench --seconds 0.1 --batch 4 --threads 1 --decoder software --views 2 "$t/one.bzna"
    expect 0 "bench of gray bytes" "$bzna" bench --seconds 0.1 --batch 4 --threads 1 --decoder software \
        --dtype uint8 --layout NHWC --channels gray "$t/one.bzna"
}


# ---- devices, and what uses them: without a driver, and on a driver of the tests' own ----

no_device() { # FOLDER TEXT NAME: with the libraries there, devices tells why there is none, and that is no failure
    expect 0 "devices --json $3" env LD_LIBRARY_PATH="$1" "$bzna" devices --json
    json "$t/out" "devices $3 is JSON"
    says "$t/out" '{"devices":[],"reason":"' "devices $3 lists none"
    says "$t/out" "$2" "devices $3 tells why"
    expect 0 "plain devices $3" env LD_LIBRARY_PATH="$1" "$bzna" devices
    says "$t/out" "$2" "plain devices $3 tells why"
}

device_tests() {
    mkdir "$t/nodriver" "$t/novideo"
    : >"$t/nodriver/libcuda.so.1"                  # on a machine with a driver, a file that is no library stands before it
    run "$bzna" devices --json
    if grep -q BENZINA_NO_CUDA "$t/out"; then
        no_device "$t/nodriver" "BENZINA_NO_CUDA" "of a build without the GPU path"
        skip "devices on the fake driver" "this build has no GPU path"
        return
    fi
    no_device "$t/nodriver" "libcuda.so.1 was not found" "without a driver"
    refused 1 "libcuda.so.1" "a missing device" env LD_LIBRARY_PATH="$t/nodriver" "$bzna" bench $data/mini_h265.bzna \
        --device 0
    refused 1 "loader_config.decode.decoder" "a missing decoder" env LD_LIBRARY_PATH="$t/nodriver" "$bzna" bench \
        $data/mini_h265.bzna --decoder nvdec
    refused 1 "BZNA_DEVICE_CPU" "output on the device without a device" env LD_LIBRARY_PATH="$t/nodriver" \
        "$bzna" bench $data/mini_h265.bzna --device cpu --output device

    if ! BUILD="$build" make --no-print-directory -s "$build/tests/fake/libnvcuvid.so.1" >"$t/log" 2>&1; then
        skip "devices on the fake driver" "it does not build here: $(tail -n 1 "$t/log")"
        return
    fi
    fake="env LD_LIBRARY_PATH=$build/tests/fake"
    # shellcheck disable=SC2086  # fake is words
    {
    expect 0 "devices --json" $fake "$bzna" devices --json
    json "$t/out" "devices is JSON"
    same "devices finds the device" "$(grep -c '"device":' "$t/out") $(field name <"$t/out") $(field compute <"$t/out") $(field engines <"$t/out")" "1 Fake GPU 9.0 7"
    same "every codec, chroma format and depth has a line" "$(grep -c '"codec":' "$t/out")" 36
    says "$t/out" '"codec":"H.265","chroma":"4:2:0","depth":10,"supported":true,"engines":7,"min_width":144,' \
        "devices tells what is supported"
    same "devices tells what came of the self-check" "$(grep -c '"check":"passed","check_message":null' "$t/out")" 3
    says "$t/out" '"codec":"AV1","chroma":"4:2:0","depth":8,"supported":false,"engines":0,' \
        "devices tells what is not supported"
    expect 0 "plain devices" $fake "$bzna" devices
    says "$t/out" "CUDA device 0: Fake GPU" "plain devices names it"
    says "$t/out" "8192x8192" "plain devices shows sizes"
    says "$t/out" "262144       passed" "plain devices shows the self-check"
    expect 0 "devices without the self-check" env BENZINA_NVDEC_CHECK=0 $fake "$bzna" devices
    says "$t/out" "262144       skipped" "devices tells that nothing was checked"
    if grep -q "AV1" "$t/out"; then fail "plain devices leaves out what is not supported"; else pass; fi

    cp "$build/tests/fake/libcuda.so.1" "$t/novideo/"
    : >"$t/novideo/libnvcuvid.so.1"
    expect 0 "devices --json without the driver's video part" env LD_LIBRARY_PATH="$t/novideo" "$bzna" devices --json
    json "$t/out" "devices without video is JSON"
    says "$t/out" '"reason":"libnvcuvid.so.1 was not found' "the device tells why it has no decoders"
    says "$t/out" '"codecs":[]' "a device without NVDEC has no codecs"
    expect 0 "plain devices without video" env LD_LIBRARY_PATH="$t/novideo" "$bzna" devices
    says "$t/out" "no NVDEC: libnvcuvid.so.1" "plain devices tells why there is no NVDEC"

    expect 0 "bench on the device" $fake "$bzna" bench --json --seconds 0.3 --batch 4 --decoder nvdec --sessions 3 \
        --dtype f16 $data/mini_h265.bzna
    json "$t/out" "bench's report of NVDEC is JSON"
    same "bench tells who decoded, and where to" "$(for f in decoder device output dtype sessions software fallbacks; do field $f <"$t/out"; done | tr '\n' ' ')" \
        "nvdec Fake GPU device f16 3 0 0 "
    same "bench measured NVDEC" "$(field images_per_second <"$t/out" | awk '{ print ($1 > 0) }') $(field decode_only_images_per_second <"$t/out")" "1 null"
    expect 0 "bench to the host" $fake "$bzna" bench --json --seconds 0.2 --batch 4 --device 0 --output host \
        $data/mini_h264.bzna
    same "AUTO takes NVDEC, and the host what it gives" "$(field decoder <"$t/out") $(field output <"$t/out") $(field sessions <"$t/out")" "nvdec host 14"
    expect 0 "bench in software, on to the device" $fake "$bzna" bench --json --seconds 0.2 --batch 4 \
        --decoder software --output device $data/mini_h264.bzna
    same "software decodes for the device, too" "$(field decoder <"$t/out") $(field output <"$t/out") $(field nvdec <"$t/out")" "software device 0"
    expect 0 "bench of the processor beside a device" $fake "$bzna" bench --json --seconds 0.2 --batch 4 --device cpu \
        $data/mini_h264.bzna
    same "--device cpu leaves the device alone" "$(field decoder <"$t/out") $(field output <"$t/out") $(field device <"$t/out")" "software host null"
    expect 0 "plain bench on the device" $fake "$bzna" bench --seconds 0.2 --batch 4 --sessions 2 $data/mini_h265.bzna
    says "$t/out" "NVDEC        2 sessions" "plain bench tells the sessions"

    expect 0 "batch by NVDEC" $fake "$bzna" batch $data/mini_h265.bzna -o "$t/by_nvdec" --decoder nvdec --sessions 2 \
        --shuffle --flip 0.5
    says "$t/out" "NVDEC of Fake GPU" "batch tells who decoded"
    expect 0 "batch by libavcodec" "$bzna" batch $data/mini_h265.bzna -o "$t/by_software" --device cpu --shuffle \
        --flip 0.5
    if diff -r "$t/by_nvdec" "$t/by_software" >/dev/null; then pass; else fail "both decode the same batch"; fi
    refused 1 "decode.jpeg: NVDEC of Fake GPU does not decode JPEG" "JPEG by NVDEC where it has none" $fake "$bzna" batch \
        $data/mini_h265.bzna -o "$t/nowhere" --jpeg-decoder nvdec
    refused 1 "there is no CUDA device 5" "a device past the last" $fake "$bzna" batch $data/mini_h265.bzna \
        -o "$t/nowhere" --device 5
    }
}

example_tests() {
    mkdir "$t/decoded"
    expect 0 "decode_batch" "$build/decode_batch" $data/mini_h265.bzna "$t/decoded"
    same "decode_batch writes every picture" "$(cd "$t/decoded" && ls | wc -l | tr -d ' ')" 8
    same "decode_batch writes 224x224" "$(ppm_size "$t/decoded/00000.ppm")" "224 224"
    expect 0 "batch --warp center" "$bzna" batch $data/mini_h265.bzna -o "$t/b7" --warp center --batch 16
    if cmp -s "$t/decoded/00003.ppm" "$t/b7/00003.ppm"; then pass; else fail "decode_batch and bzna batch agree"; fi
    run "$build/decode_batch" "$t/missing.bzna" "$t/decoded"
    same "decode_batch of a missing file" "$status" 1
    says "$t/err" "missing.bzna" "decode_batch names the file"
    run "$build/decode_batch"
    same "decode_batch without arguments" "$status" 2
}

# Plain mp4s of every codec, depth and chroma format that this ffmpeg can write: the frames are ffmpeg's, bit for bit.
format_tests() {
    for kind in "libx264 yuv420p -x264-params slices=4" "libx264 yuv444p" "libx264 yuv420p10le" "libx264 gray" "libx265 yuv420p" "libx265 yuv420p10le" \
                "libx265 yuv422p" "libx265 yuv444p10le" "libx265 gray" "libaom-av1 yuv420p" "libaom-av1 yuv420p10le" "libaom-av1 yuv444p" "libaom-av1 gray"; do
        set -- $kind
        name="frames of $1 $2"; codec=$1 format=$2
        shift 2
        if [ "$codec" = libx265 ]; then set -- -x265-params log-level=none:keyint=1; fi
        rm -f "$t/plain.mp4"
        if ! ffmpeg -v error -f lavfi -i testsrc2=s=210x162:r=5:d=0.4 -c:v "$codec" -g 1 "$@" -pix_fmt "$format" -y "$t/plain.mp4" 2>/dev/null; then
            skip "$name" "this ffmpeg cannot write them"; continue
        fi
        planes=null; if [ "$format" = gray ]; then planes=extractplanes=y; fi     # H.264's comes with neutral chroma
        ffmpeg -v error -i "$t/plain.mp4" -vf $planes -f framemd5 - | sed '/^#/d; s/.*, *//' > "$t/expected"
        { "$bzna" extract "$t/plain.mp4" 0 --md5; "$bzna" extract "$t/plain.mp4" 1 --md5; } > "$t/actual" 2>&1
        if [ -s "$t/expected" ] && cmp -s "$t/expected" "$t/actual"; then pass; else fail "$name" "$(cat "$t/actual")"; fi
        if [ "$codec" = libaom-av1 ]; then obu_test "$name"; fi
    done
    if [ ! -e "$t/plain.mp4" ] || [ -z "$python" ]; then
        skip "a bare AV1 sample as a stream" "no libaom-av1 or no python3"
        return
    fi
    ffmpeg -v error -f lavfi -i testsrc2=s=210x162:r=5:d=0.2 -c:v libaom-av1 -g 1 -pix_fmt yuv420p \
        -y "$t/plain.mp4" 2>/dev/null
    ffmpeg -v error -i "$t/plain.mp4" -f framemd5 - | sed '/^#/d; s/.*, *//' > "$t/expected"
    expect 0 "a sample gets a delimiter and loses a size" "$python" tests/tool_pictures.py unsized "$t/plain.mp4"
    planes=null
    obu_test "a sample with a delimiter of its own and a unit without a size"
    expect 0 "the stream's units can be told apart" "$python" tests/tool_pictures.py units "$t/x.obu"
    same "its only temporal delimiter is the first unit" \
        "$(tr ' ' '\n' <"$t/out" | grep -cx 2) $(cut -c 1-2 "$t/out")" "1 2 "
}

# obu_test NAME: the first frame of $t/plain.mp4 as a stream, which ffmpeg takes for AV1 unasked, is $t/expected's
obu_test() {
    expect 0 "$1: extract as .obu" "$bzna" extract "$t/plain.mp4" 0 -o "$t/x.obu"
    cp "$t/x.obu" "$t/unnamed"
    ffmpeg -v error -i "$t/unnamed" -vf $planes -f framemd5 - 2>&1 | sed '/^#/d; s/.*, *//' > "$t/actual"
    same "$1: ffmpeg reads the stream" "$(cat "$t/actual")" "$(head -n 1 "$t/expected")"
}

usage_tests
bad_file_tests
format_tests
original_tests
damage_tests
pack_tests
movie_tests
orientation_tests
copy_tests
jpeg_tests
encoder_tests
unreadable_tests
name_tests
chroma_tests
tiff_tests
icon_tests
class_tests
output_tests
folder_tests
tar_tests
record_tests
unsupported_tests
batch_tests
bench_tests
device_tests
example_tests

echo "tests/test_tool.sh: $passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
