#!/bin/sh
# test_tool.sh - tests of the command-line tool and of the C examples. test_pack.sh has those of bzna pack.
# shellcheck disable=SC2012,SC2046,SC2059
. tests/tool/tool.sh

# How long benches measure: as long as the rates need to be there, and longer with make test-all; and what they load.
# Commands that ask one function for their options, and damages that all commands meet in one, are tried by a few of
# them alone.
few_commands="pack index"
if [ -n "$TEST_ALL" ]; then brief=0.4 longer=0.4 longest=0.6 benched=$data/mini_h26; else
    brief=0.01 longer=0.1 longest=0.1 benched=$data/small_h26
    echo "LEFT test_tool.sh: unknown options of all commands but $few_commands; files that cannot be opened by each command;" \
        "MD5s of most pictures of the original tools, and of the first frame of most formats; five orientations"
fi
# few LIST WORD: whether the word is in the list, or make test-all asks for all
few() { [ -n "$TEST_ALL" ] || case " $1 " in *" $2 "*) ;; *) return 1 ;; esac; }

# Pictures, an archive of them, and one of each EXIF orientation.
prepare() {
    "$build/draw_pictures" "$t/drawn" 12 >/dev/null
    expect 0 "pack" "$bzna" pack "$t/drawn" -o "$t/one.bzna" --preset ultrafast --max-edge 160
    mkdir "$t/exif"
    for o in 1 2 3 4 5 6 7 8; do oriented_jpeg $o >"$t/exif/$o.jpg"; done
}

# ---- usage ----

usage_tests() {
    expect 0 "the tool's version" "$bzna" --version
    expect 0 "the tool's own help" "$bzna" --help
    commands=$(sed -n 's/^  bzna \([a-z]*\) .*/\1/p' "$t/out" | tr '\n' ' ')
    same "help lists the commands" "$commands" \
        "pack info list extract verify batch sheet view bench merge append subset split convert diff index devices "
    : >"$t/options"
    for command in $commands; do
        [ "$command" != devices ] || continue
        expect 0 "$command --help" "$bzna" $command --help
        says "$t/out" "usage: bzna $command" "$command --help shows its usage"
        cp "$t/out" "$t/help"
        sed -n 's/^  \(-., \)\{0,1\}--\([a-z0-9-]*\).*/\2/p' "$t/help" | grep -v '^help$' >>"$t/options"
        few "$few_commands" "$command" || continue
        expect 0 "help $command" "$bzna" help $command
        if cmp -s "$t/out" "$t/help"; then pass; else fail "help $command is $command --help"; fi
        run "$bzna" $command --nonsense
        same "$command refuses an unknown option" "$status" 2
        says "$t/err" "--nonsense" "$command names the unknown option"
        run "$bzna" $command
        same "$command without arguments" "$status" 2
    done
    # In the man page a hyphen is \-.
    sed 's/\\-/-/g; s/\\f[BIR]//g' examples/bzna.1 | tr -c 'a-z0-9-' '\n' |
        sed -n 's/^--\([a-z0-9-]*[a-z0-9]\)$/\1/p' | sort -u >"$t/manual"
    same "options that the man page lacks" "$(sort -u "$t/options" | comm -23 - "$t/manual" | tr '\n' ' ')" ""
    same "options that it has and no command" "$(sort -u "$t/options" | comm -13 - "$t/manual" | tr '\n' ' ')" ""
    for command in $commands; do
        if grep -q "^\.B bzna $command$" examples/bzna.1; then pass; else fail "$command stands in the man page"; fi
    done
    refused 2 "--crf" "a number out of range" "$bzna" pack "$t" -o "$t/x.bzna" --crf 77
    refused 2 "--codec" "a value that is not among the choices" "$bzna" pack "$t" -o "$t/x.bzna" --codec vp9
    refused 2 "--jobs" "a value that is not a number" "$bzna" pack "$t" -o "$t/x.bzna" --jobs=many
    expect 0 "-j8 is -j 8, and -oFILE -o FILE" "$bzna" verify $data/mini_h265.bzna -j8
    expect 0 "-j 8" "$bzna" verify $data/mini_h265.bzna -j 8
    run "$bzna" extract $data/mini_h265.bzna 0 "-o$t/short.ppm"
    same "-oFILE is -o FILE" "$status $(head -c 2 "$t/short.ppm")" "0 P6"
    refused 2 '--jobs must be an integer from 1 to 1024, not "8x"' "-j8x" "$bzna" verify $data/mini_h265.bzna -j8x
    refused 2 'unknown option "-x8"' "an unknown letter with a value" "$bzna" verify $data/mini_h265.bzna -x8
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
    refused 2 "--layout" "a layout that is not among the choices" "$bzna" batch $data/mini_h265.bzna -o "$t/nowhere" \
        --layout nchw
    refused 2 "--channels" "channels that are not among the choices" "$bzna" bench $data/mini_h265.bzna --channels YUV
    refused 2 "--sessions" "too many sessions" "$bzna" batch $data/mini_h265.bzna -o "$t/nowhere" --sessions 257
    refused 1 "neither an index" "neither an index nor a name" "$bzna" extract $data/mini_h265.bzna one --md5
    refused 2 "x.gif" "a format that extract cannot write" "$bzna" extract $data/mini_h265.bzna 0 -o "$t/x.gif"
    refused 2 "nothing to do" "extract without anything to do" "$bzna" extract $data/mini_h265.bzna 0
    refused 2 "frobnicate" "an unknown command" "$bzna" frobnicate
    refused 2 "frobnicate" "help for an unknown command" "$bzna" help frobnicate
    expect 2 "no command" "$bzna"
    says "$t/err" "usage: bzna COMMAND" "says how it is used"
}

bad_file_tests() {
    : >"$t/empty.bzna"
    echo "this is a text, and no archive of pictures" >"$t/text.bzna"
    head -c 100000 $data/mini_h265.bzna >"$t/cut.bzna"
    for command in "info" "list" "verify" "bench --seconds 0.1" "batch -o $t/nowhere"; do
        for file in missing empty text cut; do
            few "info cut missing" "${command%% *}" || few "info cut missing" "$file" || continue
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

# listed FILE.bzna: the same from `bzna list --json` and `bzna extract --md5`, which is asked of few pictures
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
        md5=-
        ! few "1 6" "$index" || md5=$("$bzna" extract "$1" "$index" --track "$track" --md5 2>&1)
        echo "$index $target $name $offset $size $track $rest $md5"
    done
}

original_tests() {
    for mini in mini_h264 mini_h265; do
        golden $data/$mini.json | awk -v all="$TEST_ALL" '{ if (!all && $1 != 1 && $1 != 6) $NF = "-"; print }' >"$t/golden"
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
        same "$mini: nothing is bad" "$(cat "$t/out")" '{"samples":8,"bad":[],"unsupported":[],"unread_by_original":0,"profiles":0}'
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
    cp $data/mini_h265.bzna "$t/thumb.bzna"
    # the width of a clean aperture, of the first sample's thumbnail
    overwrite "$t/thumb.bzna" 21779 4
    expect 0 "list of a thumbnail with a bad clean aperture" "$bzna" list --json "$t/thumb.bzna"
    json "$t/out" "list of a bad thumbnail is JSON"
    same "its picture is listed, with a note on the thumbnail" \
        "$(grep '"note":".*clap' "$t/out" | grep '"bzna_input"' | field index)" 0
    same "no sample has an error" "$(grep -c '"error"' "$t/out")" 0
    expect 0 "the same as text" "$bzna" list "$t/thumb.bzna"
    says "$t/out" "00_plasma_land.JPEG  note: " "the note follows its sample"
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
    same "and its file" "$(grep '"message"' "$t/out" | field message | cut -d : -f 1)" \
        "$("$bzna" extract "$t/payload.bzna" 2 --field name)"
    refused 1 "" "extract of a damaged picture" "$bzna" extract "$t/payload.bzna" 2 --md5
    expect 0 "the sample after a damaged one can be extracted" "$bzna" extract "$t/payload.bzna" 3 --md5
}


# ---- data sets that are no archives ----


folder_tests() {
    for corners in 1:ABCD 2:BADC 3:DCBA 4:CDAB 5:ACBD 6:CADB 7:DBCA 8:BDAC; do
        o=${corners%:*} w=24 h=16
        few "2 5 6" $o || continue
        if [ "$o" -ge 5 ]; then w=16 h=24; fi
        run "$bzna" extract "$t/exif" $((o - 1)) -o "$t/x.ppm"
        same "orientation $o of a folder's JPEG gives the right size" "$(ppm_size "$t/x.ppm")" "$w $h"
        same "orientation $o of a folder's JPEG is upright" "$(found "$t/x.ppm" $w $h)" "${corners#*:}"
    done
    expect 0 "extract as it is coded" "$bzna" extract "$t/exif" 5 -o "$t/x.ppm" --orientation ignore --json
    same "--orientation ignore leaves a picture as it is coded" "$(ppm_size "$t/x.ppm") $(found "$t/x.ppm" 24 16)" \
        "24 16 ABCD"
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
    mkdir "$t/two/95"
    run "$bzna" info "$t/two" --allow-empty
    says "$t/out" "classes    3" "an empty class folder is a class with --allow-empty"
    rmdir "$t/two/95"
    run "$bzna" list --json "$t/two" --classes 9
    same "one class of two" "$(field_all filename)$(field_all target)" "9/b.jpg 0 "
    mkdir "$t/stills"
    cp "$t/x.png" "$t/drawn/shapes/00.ppm" "$t/stills"
    run "$bzna" list --json "$t/stills"
    same "stills are called by their kind" "$(field_all codec)" "pnm png "
    refused 1 "folder" "a folder is no archive" "$bzna" info "$t/two" --format archive
    for file in heif/still_h264.heic heif/no_color.heic; do
        run "$bzna" list --json "$data/$file"
        echo "$(field_all codec)$(field_all width)"
    done >"$t/alone"
    same "pictures are opened alone, and called by their kinds" "$(tr '\n' ' ' <"$t/alone")" "heif 48  heif 48  "
    run "$bzna" info "$data/heif/alpha.avif" --format picture
    says "$t/out" "container  picture" "--format takes the kind that bzna info prints"
    head -c 99 /dev/zero | tr '\0' a >"$t/unknown"
    refused 1 "of no known kind" "a file of no known kind" "$bzna" info "$t/unknown"
    same "no advice to use what is used" "$(grep -c examples/formats "$t/err")" 0

    expect 0 "batch of a folder" "$bzna" batch "$t/two" -o "$t/b8" --batch 2 --size 16 --warp none
    same "a batch of a folder is upright" \
        "$(pixel "$t/b8/00001.ppm" 16 16 1 1 | cut -d ' ' -f 1 | awk '{ print ($1 >= 128 && $1 < 200) }')" 1
    expect 0 "bench of a folder" "$bzna" bench "$t/two" --json --seconds $brief --batch 2 --size 16 --threads 1 \
        --warp center
    same "bench of a folder counts its samples" "$(field samples <"$t/out")" 2
}

tar_tests() {
    if ! command -v tar >/dev/null 2>&1; then skip "tar shards" "tar is not installed [tar]"; return; fi
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
    says "$t/out" '"fields":{"cls":9},"images":{"jpg":{"codec":"jpeg","width":16,"height":24,' \
        "and only those that it has"
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
    same "a pattern is the shards end to end" \
        "$(echo "$(field parts <"$t/line")") $(echo "$(field samples <"$t/line")")" "2 4"
    echo seven >"$t/shard/a.cls"
    echo none >"$t/shard/b.id"
    (cd "$t/shard" && tar -cf ../bad.tar a.cls a.jpg b.cls b.id b.jpg)
    expect 1 "verify of a shard with a target and an id that are no numbers" "$bzna" verify --json "$t/bad.tar"
    same "verify names both samples" "$(grep -o '"index":[0-9]*' "$t/out" | tr '\n' ' ')" '"index":0 "index":1 '
    expect 0 "bench of a shard" "$bzna" bench "$t/shard.tar" --json --seconds $brief --batch 2 --size 16 --threads 1
    same "bench of a shard counts its samples" "$(field samples <"$t/out")" 2
    expect 0 "batch of a shard" "$bzna" batch "$t/shard.tar" -o "$t/b9" --batch 2 --size 16 --json
    same "batch of a shard tells keys" "$(field_all filename)" "a b "
}

record_tests() {
    if [ -z "$python" ]; then skip "RecordIO files" "there is no python3 [python3]"; return; fi
    expect 0 "a RecordIO file is made" "$python" tests/tool/tool_pictures.py record "$t/x.rec" "$t/exif/6.jpg"
    expect 0 "info of a .rec" "$bzna" info --json "$t/x.rec"
    says "$t/out" '{"container":"RecordIO",' "info tells that it is RecordIO"
    expect 0 "list of a .rec" "$bzna" list --json "$t/x.rec"
    json "$t/out" "list of a .rec is JSON"
    says "$t/out" '"label":[1.5,2,-3]' "a vector is an array"
    says "$t/out" '"width":16,"height":24,"frame_width":24,"frame_height":16,' \
        "its pictures have the size as they are seen"
    expect 0 "a vector is printed" "$bzna" extract "$t/x.rec" 1 --field label
    same "as a line of numbers" "$(cat "$t/out")" "1.5 2 -3"
    expect 0 "verify of a .rec" "$bzna" verify --decode "$t/x.rec"
    expect 0 "extract from a .rec" "$bzna" extract "$t/x.rec" 1 -o "$t/x.jpg"
    if cmp -s "$t/x.jpg" "$t/exif/6.jpg"; then pass; else fail "a JPEG comes out of a .rec as it went in"; fi
}

# A name that is longer than the first buffer, and a caption, are no errors.
long_name_tests() {
    long=$(printf '%0240d' 7)
    mkdir -p "$t/long/$long"
    cp "$t/exif/1.jpg" "$t/long/$long/$long.jpg"
    expect 0 "list of a name of 485 bytes" "$bzna" list "$t/long"
    says "$t/out" "$long/$long.jpg" "the name is listed"
    expect 0 "the same as JSON" "$bzna" list --json "$t/long"
    if grep -q '"error"' "$t/out"; then fail "no error is told of it"; else pass; fi
    expect 0 "verify of a long name" "$bzna" verify "$t/long"
    says "$t/out" "no picture was decoded: --decode does that, too" "verify says that nothing was decoded"
    expect 0 "verify --decode" "$bzna" verify --decode "$t/long"
    same "which --decode does not say" "$(cat "$t/out")" "1 samples, all decoded"
    if ! command -v tar >/dev/null 2>&1; then skip "a long caption" "tar is not installed [tar]"; return; fi
    cp "$t/exif/1.jpg" "$t/caption.jpg"
    printf '%0500d' 5 >"$t/caption.txt"
    (cd "$t" && tar -cf caption.tar caption.jpg caption.txt)
    expect 0 "list of a long caption" "$bzna" list --json "$t/caption.tar"
    says "$t/out" '"txt":"00000' "the caption is listed"
    if grep -q '"error"' "$t/out"; then fail "no error is told of the caption"; else pass; fi
}

# Targets of a .rec are counted, not guessed.
record_target_tests() {
    if [ -z "$python" ]; then skip "targets of a .rec" "there is no python3 [python3]"; return; fi
    "$python" - "$t" <<'EOF'
import struct, sys
def record(labels):
    body = struct.pack("<IfQQ", len(labels) if len(labels) != 1 else 0, labels[0] if len(labels) == 1 else 0, 1, 0)
    body += b"".join(struct.pack("<f", x) for x in labels if len(labels) != 1) + b"xyz!"
    return struct.pack("<II", 0xced7230a, len(body)) + body
open(sys.argv[1] + "/boxes.rec", "wb").write(b"".join(record([1.5, 2, i]) for i in range(40)))
open(sys.argv[1] + "/half.rec", "wb").write(b"".join(record([1, 2] if i % 2 else [i]) for i in range(40)))
open(sys.argv[1] + "/many.rec", "wb").write(b"".join(record([i]) for i in range(1001)))
EOF
    for case in boxes:0 half:20 many:null; do
        run "$bzna" info --json "$t/${case%:*}.rec"
        tr -d '\n' <"$t/out" >"$t/line"
        same "targets of ${case%:*}.rec" "$(field targets <"$t/line")" "${case#*:}"
    done
    run "$bzna" info "$t/boxes.rec"
    says "$t/out" "targets    0" "plain info counts targets, too"
    run "$bzna" info "$t/many.rec"
    says "$t/out" "targets    not counted" "more than 1000 are not counted"
}

# MNIST's and CIFAR's files, and others of records.
fixed_record_tests() {
    if [ -z "$python" ]; then skip "files of records" "there is no python3 [python3]"; return; fi
    mkdir -p "$t/idx"
    "$python" - "$t/idx/" <<'EOF'
import random, struct, sys
random.seed(3)
def noise(n): return bytes(random.randrange(256) for _ in range(n))
def write(name, data): open(sys.argv[1] + name, "wb").write(data)
pictures = noise(6 * 20 * 24)
write("train-images-idx3-ubyte", struct.pack(">IIII", 0x803, 6, 24, 20) + pictures)
write("train-labels-idx1-ubyte", struct.pack(">II", 0x801, 6) + bytes([5, 0, 4, 1, 9, 2]))
write("alone", struct.pack(">IIII", 0x803, 6, 24, 20) + pictures)
write("other-images.idx3-ubyte", struct.pack(">IIII", 0x803, 6, 24, 20) + pictures)
write("other-labels.idx1-ubyte", struct.pack(">II", 0x801, 5) + bytes(5))
write("cut-images-idx3-ubyte", struct.pack(">IIII", 0x803, 6, 24, 20) + pictures[:-1])
write("colors-idx4", struct.pack(">IIIII", 0x804, 2, 8, 8, 3) + pictures[:2 * 8 * 8 * 3])
for i in range(6): write("%d.pgm" % i, b"P6\n20 24\n255\n" + b"".join(bytes([g] * 3) for g in pictures[i * 480:(i + 1) * 480]))
planes = [noise(3072) for _ in range(4)]
for i, p in enumerate(planes[:2]): write("c%d.ppm" % i, b"P6\n32 32\n255\n" + bytes(p[c * 1024 + k] for k in range(1024) for c in range(3)))
write("data_batch_1.bin", b"".join(bytes([3 * i]) + p for i, p in enumerate(planes)))
write("data_batch_2.bin", b"".join(bytes([3 * i + 1]) + p for i, p in enumerate(planes)))
write("train.bin", b"".join(bytes([i, 90 + i]) + p for i, p in enumerate(planes)))
write("last.raw", b"head" + b"".join(p[:192] + struct.pack("<q", -5 * i) + b"??" for i, p in enumerate(planes)))
write("numbers.raw", b"".join(struct.pack("<3f2f", *[i + k / 4 for k in range(3)], 7.5, 0) for i in range(3)))
EOF
    x="$t/idx"
    run "$bzna" list --json "$x/train-images-idx3-ubyte"
    same "an IDX file is read, with the labels beside it" "$(field_all target)$(field_all codec)$(field_all width)" \
        "5 0 4 1 9 2 raw raw raw raw raw raw 20 20 20 20 20 20 "
    for i in 0 5; do
        run "$bzna" extract "$x/train-images-idx3-ubyte" $i -o "$t/x.ppm"
        if cmp -s "$t/x.ppm" "$x/$i.pgm"; then pass; else fail "its pictures are exact"; fi
        run "$bzna" extract "$x/alone" $i -o "$t/x.ppm"
        if cmp -s "$t/x.ppm" "$x/$i.pgm"; then pass; else fail "without labels, too"; fi
    done
    run "$bzna" info --json "$x/alone"
    says "$t/out" '"samples":6,"targets":0' "an IDX file whose name says nothing has no targets"
    run "$bzna" info --json "$x/other-images.idx3-ubyte"
    says "$t/out" '"samples":6,"targets":0' "labels of another number of pictures are not taken"
    says "$t/err" "note: $x/other-labels.idx1-ubyte is not used: it has no labels of 6 pictures" "which is said"
    refused 1 "it begins like an IDX file (MNIST's): it is cut" \
        "an IDX file that is cut" "$bzna" info "$x/cut-images-idx3-ubyte"
    refused 1 "(header_bytes 8)" "labels alone" "$bzna" info "$x/train-labels-idx1-ubyte"
    run "$bzna" list --json "$x/colors-idx4"
    same "an IDX file of colors" "$(field_all width)" "8 8 "
    refused 1 "" "--format refuses it" "$bzna" info "$x/train-images-idx3-ubyte" --format tar

    for i in 0 1; do
        run "$bzna" extract "$x/data_batch_1.bin" $i --records label+32x32x3 -o "$t/x.ppm"
        if cmp -s "$t/x.ppm" "$x/c$i.ppm"; then pass; else fail "CIFAR-10's pictures are exact"; fi
    done
    run "$bzna" list --json "$x/data_batch_{1..2}.bin" --records cifar10
    same "several files of CIFAR-10" "$(field_all target)" "0 3 6 9 1 4 7 10 "
    run "$bzna" list --json "$x/train.bin" --records cifar100
    same "CIFAR-100 has its fine labels" "$(field_all target)" "90 91 92 93 "
    run "$bzna" extract "$x/train.bin" 1 --records skip+label+32x32x3 -o "$t/x.ppm"
    if cmp -s "$t/x.ppm" "$x/c1.ppm"; then pass; else fail "CIFAR-100's pictures are exact"; fi
    run "$bzna" list --json "$x/last.raw" --records header:4+8x8x3:nhwc+label:int64+skip:2
    same "header, pixels side by side, a label of eight bytes behind them, a gap" "$(field_all target)" "0 -5 -10 -15 "
    run "$bzna" list --json "$x/numbers.raw" --records 3x1:float32+label:float32+skip:4
    says "$t/out" '"data":[1,1.25,1.5],"label":[7.5]' "numbers are a field"
    refused 1 "that is --records" "a spec that does not fit the file" "$bzna" info "$x/last.raw" --records 8x8
    for spec in 32x 32x32x3x1 label 32x32+32x32 32x32+label+label 32x32:rgb header:4 32x32+header:4 32x32+skip: +32x32 32x32+ label:int16+32x32 99999999999x1; do
        refused 2 "--records: \"$spec\": it must be parts" "--records $spec" "$bzna" info "$x/last.raw" \
            --records "$spec"
    done
    for command in "list" "verify --decode" "batch -o $t/rb --batch 4 --size 16" \
        "sheet -o $t/rs.png --batch 4 --size 16" "view -o $t/rv.html" "bench --seconds $brief --batch 2 --size 16 --threads 1" \
                   "pack -o $t/rp.bzna --preset ultrafast --frame exact" "convert -o $t/rc.tar" "convert -o $t/rr.rec" "convert -o $t/rc/"; do
        # shellcheck disable=SC2086  # the options are words
        expect 0 "$command of CIFAR-10" "$bzna" ${command} "$x/data_batch_1.bin" --records cifar10
    done
    same "packed, it has its targets" "$(names "$t/rp.bzna" | tr -dc '0-9 ')" "0 3 6 9 "
    same "and as a tar" "$(field_all target <"$t/out"; "$bzna" list --json "$t/rc.tar" | sed -n 's/.*"target":\([0-9]*\).*/\1/p' | tr '\n' ' ')" "0 3 6 9 "
    expect 0 "pack of an IDX file" "$bzna" pack "$x/train-images-idx3-ubyte" -o "$t/ri.bzna" --preset ultrafast \
        --frame exact
    same "has its labels" "$(names "$t/ri.bzna" | tr -dc '0-9 ')" "5 0 4 1 9 2 "
}

# Formats that others wrote themselves, in pipes and in folders.
unread_tests() {
    if [ -n "$ON_WINDOWS" ]; then skip "pipes and /proc" "Windows has none of their names"
    else
    expect 0 "a pipe is read into memory" sh -c "cat $data/mini_h265.bzna | '$bzna' info /dev/stdin"
    says "$t/out" "samples    8" "a pipe has the samples of its file"
    refused 1 "states a size of 0, as files in /proc do" "a file of /proc" "$bzna" info /proc/self/status
    fi
    refused 1 "it is a pipe, a socket or a device" "a device" "$bzna" info /dev/null
    modules="pyarrow h5py lmdb numpy" found=
    [ -z "$python" ] || found=$("$python" -c 'import importlib.util, sys
print(*(m for m in sys.argv[1:] if importlib.util.find_spec(m)))' $modules)
    for module in $modules; do
        case $module in                 # which Debian has, or does not
        h5py) package=" [python3-h5py]" ;; lmdb) package=" [python3-lmdb]" ;; numpy) package=" [python3-numpy]" ;; *) package= ;;
        esac
        case " $found " in *" $module "*) ;; *) skip "files of $module" "no python3 with $module$package"; continue ;; esac
        mkdir "$t/$module"
        "$python" - "$t/$module" $module <<'EOF'
import os, sys
os.chdir(sys.argv[1])
if sys.argv[2] == "pyarrow":
    import pyarrow as pa, pyarrow.parquet as pq
    table = pa.table({"image": [b"abc", b"def"], "label": [1, 2]})
    pq.write_table(table, "a parquet file")
    with pa.OSFile("an Arrow file", "wb") as f, pa.ipc.new_file(f, table.schema) as w: w.write(table)
elif sys.argv[2] == "h5py":
    import h5py
    with h5py.File("an HDF5 file", "w") as f: f["a"] = [1, 2]
elif sys.argv[2] == "lmdb":
    import lmdb
    e = lmdb.open("x", map_size=1 << 20)
    with e.begin(write=True) as w: w.put(b"a", b"b")
    e.close()
    os.rename("x/data.mdb", "an LMDB database")
    os.remove("x/lock.mdb"), os.rmdir("x")
else:
    import numpy as np
    with open("a numpy array", "wb") as f: np.save(f, np.zeros(100))
    with open("a zip file", "wb") as f: np.savez(f, a=np.zeros(100))
EOF
        for file in "$t/$module"/*; do
            case $file in *parquet* | *zip*) words="it is ${file##*/}" ;; *) words="of no known kind" ;; esac
            refused 1 "$words" "$file" "$bzna" info "$file"
        done
    done
}

# What fails leaves no file, and what had its name stays.
output_tests() {
    "$build/draw_pictures" "$t/large" 1 >/dev/null
    file=$(find "$t/large" -type f | head -n 1)
    expect 0 "an archive of one picture" "$bzna" pack "$file" -o "$t/whole.bzna" --preset ultrafast
    case $bzna in /*) own=$bzna;; *) own=$(pwd)/$bzna;; esac
    if [ -n "$ON_WINDOWS" ]; then skip "a full disk, and links" "Wine cannot be given less space, and rename replaces a link"; return; fi
    for command in "extract -o x.ppm" "extract -o x.png" "extract -o x.yuv" "extract -o x.h265" "extract -o x.jpg --track image" "view -o x.html" "sheet -o x.png --batch 4"; do
        arguments=${command#* } index=
        case $command in extract*) index=0;; esac
        name=${arguments#* } name=${name%% *}
        mkdir "$t/full"
        # shellcheck disable=SC2086  # the options are words
        run sh -c 'cd "$1" && shift && ulimit -f 1 && exec "$@"' sh "$t/full" "$own" ${command%% *} "$t/whole.bzna" \
            $index $arguments
        same "$command on a full disk" "$status $(ls "$t/full")" "1 "
        says "$t/err" "$name: cannot be written: File too large" "$command says why"
        echo before >"$t/full/$name"
        # shellcheck disable=SC2086
        run sh -c 'cd "$1" && shift && ulimit -f 1 && exec "$@"' sh "$t/full" "$own" ${command%% *} "$t/whole.bzna" \
            $index $arguments
        same "$command on a full disk leaves what was there" "$(cd "$t/full" && cat ./*)" before
        rm -r "$t/full"
    done
    if [ -w /dev/full ]; then refused 1 "/dev/full: cannot be written" "a device is written as it is" "$bzna" extract "$t/whole.bzna" 0 -o /dev/full --as png
    else skip "a device is written as it is" "there is no /dev/full"; fi
    ln -s target.ppm "$t/link.ppm"
    expect 0 "extract through a link" "$bzna" extract "$t/whole.bzna" 0 -o "$t/link.ppm"
    if [ -L "$t/link.ppm" ] && [ -s "$t/target.ppm" ]; then pass; else fail "a link stays one"; fi
    refused 1 "absent/x.png: cannot be written" "a folder that is not there" "$bzna" extract "$t/whole.bzna" 0 \
        -o "$t/absent/x.png"
}

# What is damaged, and what is not supported, are told apart.
unsupported_tests() {
    cp -r "$t/two" "$t/broken"
    head -c 100 "$t/exif/1.jpg" >"$t/broken/9/cut.jpg"
    echo "no picture" >"$t/broken/9/text.jpg"
    expect 0 "verify --decode of a folder" "$bzna" verify --decode --json "$t/two"
    same "nothing is bad" "$(cat "$t/out")" '{"samples":2,"bad":[],"unsupported":[],"unread_by_original":0,"profiles":0}'
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
        # README's own sheet: codecs of other versions may round otherwise
        "$build/draw_pictures" "$t/demo" 24 >/dev/null && "$bzna" pack "$t/demo" -o "$t/demo.bzna" --codec jpeg >/dev/null 2>&1
        # shellcheck disable=SC2046  # words
        expect 0 "README's command draws a sheet" "$bzna" sheet "$t/demo.bzna" -o "$t/demo.png" $(sed -n 's/^    build\/bzna sheet .* -o contact.png //p' README.md)
        for sheet in examples/contact.png "$t/demo.png"; do
            ffmpeg -v error -y -i "$sheet" -f image2pipe -c:v ppm "$t/$(basename "$sheet" .png).sheet.ppm" >>"$t/log" 2>&1
        done
        psnr "$t/contact.sheet.ppm" "$t/demo.sheet.ppm"
        if [ "$db" -ge 30 ]; then pass; else fail "README's picture is what its command draws" "$db dB"; fi
    else skip "contact.png has the pixels of contact.ppm" "ffmpeg is not installed [ffmpeg]"; fi
    expect 0 "batch again" "$bzna" batch "$t/one.bzna" -o "$t/b2" --batch 8 --size 64 --shuffle --seed 5 --flip 0.5
    expect 0 "batch of another seed" "$bzna" batch "$t/one.bzna" -o "$t/b3" --batch 8 --size 64 --shuffle --seed 6 \
        --flip 0.5
    if diff -r "$t/b1" "$t/b2" >/dev/null; then pass; else fail "the same seed gives the same batch"; fi
    if cmp -s "$t/b1/contact.ppm" "$t/b3/contact.ppm"; then fail "another seed gives another batch"; else pass; fi
    expect 0 "batch without threads" "$bzna" batch "$t/one.bzna" -o "$t/b0" --batch 8 --size 64 --shuffle --seed 5 \
        --flip 0.5 --no-threads
    if diff -r "$t/b1" "$t/b0" >/dev/null; then pass; else fail "the same batch without threads"; fi
    expect 0 "batch --json" "$bzna" batch "$t/one.bzna" -o "$t/b4" --warp center --batch 4 --json
    json "$t/out" "batch's report is JSON"
    expect 0 "batch --warp none" "$bzna" batch "$t/one.bzna" -o "$t/b5" --warp none --size 64 --batch 4
    for way in "--layout NHWC" "--channels BGR" "--dtype float32 --layout NHWC --channels BGR"; do
        expect 0 "batch $way" "$bzna" batch "$t/one.bzna" -o "$t/b7" --warp none --size 64 --batch 4 $way
        if diff -r "$t/b5" "$t/b7" >/dev/null; then pass; else fail "batch $way shows the same pictures"; fi
    done
    for way in f16 bf16 u8 float16 bfloat16 uint8; do
        expect 0 "batch --dtype $way" "$bzna" batch "$t/one.bzna" -o "$t/b8" --warp none --size 64 --batch 4 --dtype $way \
            --layout NHWC
        same "batch --dtype $way shows the same pictures, nearly" "$(cmp -l "$t/b5/00001.ppm" "$t/b8/00001.ppm" |
            awk 'function octal(v) { return substr(v, 1, length(v) - 2) * 64 + substr(v, length(v) - 1, 1) * 8 + substr(v, length(v)) }
                 { d = octal($2) - octal($3); if (d > 1 || d < -1) n++ } END { print n + 0 }')" 0
    done
    for way in gray grey; do
        expect 0 "batch --channels $way" "$bzna" batch "$t/one.bzna" -o "$t/b9" --warp none --size 64 --batch 4 --channels $way
        same "batch --channels $way is gray" "$(tail -c 300 "$t/b9/00001.ppm" | od -An -v -tu1 -w3 |
            awk '$1 != $2 || $2 != $3 { n++ } END { print n + 0 }')" 0
    done
    expect 0 "batch without operations" "$bzna" batch "$t/one.bzna" -o "$t/plain" --batch 4 --size 32 --seed 5 \
        --augment none
    for way in "--augment rand" "--augment trivial" "--augment auto" "--erase 1"; do
        rm -rf "$t/changed"
        expect 0 "batch $way" "$bzna" batch "$t/one.bzna" -o "$t/changed" --batch 4 --size 32 --seed 5 $way
        if cmp -s "$t/plain/contact.ppm" "$t/changed/contact.ppm"; then fail "batch $way changes pictures"; else pass; fi
    done
    expect 0 "batch of one view" "$bzna" batch "$t/one.bzna" -o "$t/b10" --batch 4 --size 32 --seed 5
    expect 0 "batch --views" "$bzna" batch "$t/one.bzna" -o "$t/b11" --batch 4 --size 32 --seed 5 --views 3
    same "each view of each picture is a file" "$(cd "$t/b11" && ls | wc -l | tr -d ' ')" 14
    same "the first view is that of one view" "$(cmp "$t/b10/00002.ppm" "$t/b11/00002_0.ppm" && echo same)" same
    if cmp -s "$t/b11/00002_1.ppm" "$t/b11/00002_2.ppm"; then fail "views differ"; else pass; fi
    refused 2 "--views" "more views than there can be" "$bzna" batch "$t/one.bzna" -o "$t/b11" --views 65
    printf '5 0\n5 7\n' >"$t/indices.txt"
    expect 0 "batch --indices" "$bzna" batch "$t/one.bzna" -o "$t/b12" --batch 3 --size 32 --indices "$t/indices.txt"
    same "samples of --indices" "$(awk '/^ +[0-9]/ { print $2 }' "$t/out" | xargs)" "5 0 5"
    if cmp -s "$t/b12/00000.ppm" "$t/b12/00002.ppm"; then fail "a repeated sample is augmented anew"; else pass; fi
    if printf '5 0\n5 7\n' | "$bzna" batch "$t/one.bzna" -o "$t/b13" --batch 3 --size 32 --indices - >"$t/out" &&
       diff -r "$t/b12" "$t/b13" >"$t/err"; then pass; else fail "--indices of standard input" "$(cat "$t/err")"; fi
    expect 0 "sheet --indices" "$bzna" sheet "$t/one.bzna" -o "$t/sheet.png" --batch 3 --size 32 \
        --indices "$t/indices.txt"
    expect 0 "sheet --augment" "$bzna" sheet "$t/one.bzna" -o "$t/sheet.png" --batch 3 --size 32 --index 1 \
        --augment rand --erase 0.5
    expect 0 "bench --indices" "$bzna" bench "$t/one.bzna" --seconds $brief --batch 2 --size 32 --threads 1 --indices "$t/indices.txt"
    refused 2 "give --index or --indices" "a sample and a list" "$bzna" sheet "$t/one.bzna" -o "$t/sheet.png" \
        --index 1 \
        --indices "$t/indices.txt"
    echo "1 x" >"$t/indices.txt"
    refused 1 "must hold numbers" "a list of words" "$bzna" batch "$t/one.bzna" -o "$t/b12" --indices "$t/indices.txt"
    echo 999 >"$t/indices.txt"
    refused 1 "there is no sample 999: there are" "a number past the end" "$bzna" batch "$t/one.bzna" -o "$t/b12" \
        --indices "$t/indices.txt"
    : >"$t/indices.txt"
    refused 1 "must hold numbers" "an empty list" "$bzna" batch "$t/one.bzna" -o "$t/b12" --indices "$t/indices.txt"
    refused 1 "cannot be opened" "no list" "$bzna" batch "$t/one.bzna" -o "$t/b12" --indices "$t/none"
    expect 0 "batch --warp center" "$bzna" batch "$t/one.bzna" -o "$t/c0" --warp center --size 40 --batch 4
    n=0
    for way in "--filter nearest" "--filter cubic" "--filter lanczos" "--filter area" "--filter cubic-0.75" \
        "--filter lanczos4" \
        "--no-antialias" "--antialias --no-antialias --filter cubic" "--crops benzina"; do
        n=$((n + 1))
        expect 0 "batch $way" "$bzna" batch "$t/one.bzna" -o "$t/c$n" --warp center --size 40 --batch 4 $way
    done
    same "every filter, antialias and way to draw crops shows other pictures" "$(cat "$t"/c[0-9]/contact.ppm | wc -c)/$(
        for i in 0 1 2 3 4 5 6 7 8 9; do cksum <"$t/c$i/contact.ppm"; done | sort -u | wc -l | tr -d ' ')" \
        "$((10 * $(wc -c <"$t/c0/contact.ppm")))/10"
    for way in "--filter linear" "--antialias" "--no-antialias --antialias" "--crops torchvision --filter=linear"; do
        expect 0 "batch $way" "$bzna" batch "$t/one.bzna" -o "$t/c" --warp center --size 40 --batch 4 $way
        if diff -r "$t/c0" "$t/c" >/dev/null; then pass; else fail "batch $way shows the same pictures"; fi
    done
    refused 2 "nearest|linear|cubic|lanczos|area|cubic-0.75|lanczos4" "a filter that is not known" "$bzna" batch \
        "$t/one.bzna" \
        -o "$t/c" --filter bilinear
    refused 2 "takes no value" "a flag with a value" "$bzna" batch "$t/one.bzna" -o "$t/c" --antialias=1
    refused 1 "filter.antialias: the area filter" "area without antialias" "$bzna" batch "$t/one.bzna" -o "$t/c" \
        --filter area --no-antialias
    refused 1 "warp.crops: has no effect" "a way to draw crops without crops" "$bzna" batch "$t/one.bzna" -o "$t/c" --warp none \
        --crops torchvision
    refused 1 "one.bzna" "batch into a file that is not a folder" "$bzna" batch "$t/one.bzna" -o "$t/one.bzna"
    expect 1 "batch of damage" "$bzna" batch "$t/payload.bzna" -o "$t/b6" --batch 8 --track bzna_input
    says "$t/err" "1 of 8 samples failed" "it is counted"
    same "the damaged picture's neighbors are written" "$(cd "$t/b6" && ls | wc -l | tr -d ' ')" 10
}

bench_tests() {
    expect 0 "bench --json" "$bzna" bench --json --seconds $brief --batch 2 --threads 1 --decoder software "$t/one.bzna"
    json "$t/out" "bench's report is JSON"
    for key in images_per_second decode_only_images_per_second decoder threads samples seconds sessions fallbacks; do
        says "$t/out" "\"$key\":" "bench tells $key"
    done
    same "bench in software leaves batches on the host" \
        "$(field output <"$t/out") $(field sessions <"$t/out") $(field device <"$t/out")" "host 0 null"
    same "bench used the threads it was given" "$(field threads <"$t/out")" 1
    same "bench measured something" "$(field decode_only_images_per_second <"$t/out" | awk '{ print ($1 > 0) }')" 1
    expect 0 "plain bench" "$bzna" bench --seconds $brief --batch 2 --threads 1 --decoder software "$t/one.bzna"
    same "plain bench says in one line what limits, and which setting would change it" \
        "$(grep -c '^limited by   .*[:;] ' "$t/out")" 1
    if command -v ffmpeg >/dev/null 2>&1; then
        # The rows of a JPEG above and below a crop cost little: the loader is faster than its decoder.
        mkdir "$t/rows"
        ffmpeg -v error -f lavfi -i testsrc2=s=1350x2400:d=0.04 -frames:v 1 -q:v 2 -y "$t/rows/a.jpg" 2>&1
        expect 0 "bench of small crops" "$bzna" bench --seconds $longer --batch 1 --threads 1 --decoder software \
            --warp none --size 16 "$t/rows"
        same "above 100 %, and only then, bench remarks on it" "$(grep -c 'more than 100 %' "$t/out")" \
            "$(sed -n 's/.*the loader reaches \([0-9.]*\) %.*/\1/p' "$t/out" | awk '{ print ($1 > 100) }')"
        mkdir "$t/camera"
        ffmpeg -v error -f lavfi -i testsrc2=s=4000x3000:d=0.04 -frames:v 1 -q:v 2 -y "$t/camera/a.jpg" 2>&1
        expect 0 "bench of a photograph of 12 megapixels" "$bzna" bench --seconds $longest --batch 1 --decoder software \
            "$t/camera"
        if [ -z "$SANITIZE" ]; then
            reason="decoding: .*; --jpeg-shrink decodes large JPEGs, most of the pictures, at 1/2 of their size"
            same "of 12 megapixels, bench names --jpeg-shrink without being asked for anything" \
                "$(grep -c "^limited by   $reason" "$t/out")" 1
        else skip "bench names --jpeg-shrink" "a sanitizer makes warps slow, but not libjpeg: decoding does not limit"; fi
        expect 0 "bench with smaller JPEGs" "$bzna" bench --seconds $longer --batch 1 --decoder software --warp center \
            --size 32 --jpeg-shrink --jpeg-shrink-margin 1.5 "$t/rows"
        same "where JPEGs are shrunk already, it does not" "$(grep -c '^limited by .*--jpeg-shrink' "$t/out")" 0
        refused 1 "jpeg_shrink_margin" "a margin without shrinking" "$bzna" bench --seconds $longer --jpeg-shrink-margin 2 \
            "$t/rows"
    else skip "bench above 100 %" "ffmpeg is not installed [ffmpeg]"; fi
    expect 0 "bench of views in float16" "$bzna" bench --json --seconds $brief --batch 2 --threads 1 \
        --decoder software --dtype f16 --views 2 "$t/one.bzna"
    same "bench tells the type" "$(field dtype <"$t/out")" f16
    expect 0 "bench of gray bytes" "$bzna" bench --seconds $brief --batch 2 --threads 1 --decoder software \
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
    says "$t/out" "what to do: $4" "plain devices $3 tells what to do"
}

device_tests() {
    mkdir "$t/nodriver" "$t/novideo"
    # on a machine with a driver, a file that is no library stands before it
    : >"$t/nodriver/libcuda.so.1"
    run "$bzna" devices --json
    if grep -q BENZINA_NO_CUDA "$t/out"; then
        no_device "$t/nodriver" "BENZINA_NO_CUDA" "of a build without the GPU path" \
            "this bzna was built without the GPU path"
        skip "devices on the fake driver" "this build has no GPU path [clang libffmpeg-nvenc-dev]"
        return
    fi
    no_device "$t/nodriver" "$libcuda was not found" "without a driver" \
        "run nvidia-smi: if that fails, too, install NVIDIA's driver"
    refused 1 "$libcuda" "a missing device" env LD_LIBRARY_PATH="$t/nodriver" "$bzna" bench $data/mini_h265.bzna \
        --device 0
    refused 1 "loader_config.decode.decoder" "a missing decoder" env LD_LIBRARY_PATH="$t/nodriver" "$bzna" bench \
        $data/mini_h265.bzna --decoder nvdec
    says "$t/err" "bzna: what to do: run nvidia-smi: if that fails" "bench --decoder nvdec tells what to do"
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
    same "every codec, chroma format and depth has a line" "$(grep -c '"codec":' "$t/out")" 48
    says "$t/out" '"codec":"H.265","chroma":"4:2:0","depth":10,"supported":true,"engines":7,"min_width":144,' \
        "devices tells what is supported"
    says "$t/out" '"codec":"AV1","chroma":"4:2:0","depth":8,"supported":false,"engines":0,' \
        "devices tells what is not supported"
    expect 0 "plain devices" $fake "$bzna" devices
    says "$t/out" "CUDA device 0: Fake GPU" "plain devices names it"
    says "$t/out" "8192x8192" "plain devices shows sizes"
    if grep -q "AV1" "$t/out"; then fail "plain devices leaves out what is not supported"; else pass; fi

    cp "$build/tests/fake/libcuda.so.1" "$t/novideo/"
    : >"$t/novideo/libnvcuvid.so.1"
    expect 0 "devices --json without the driver's video part" env LD_LIBRARY_PATH="$t/novideo" "$bzna" devices --json
    json "$t/out" "devices without video is JSON"
    says "$t/out" "\"reason\":\"$libnvcuvid was not found" "the device tells why it has no decoders"
    says "$t/out" '"codecs":[]' "a device without NVDEC has no codecs"
    expect 0 "plain devices without video" env LD_LIBRARY_PATH="$t/novideo" "$bzna" devices
    says "$t/out" "no NVDEC: $libnvcuvid" "plain devices tells why there is no NVDEC"
    if [ -n "$ON_WINDOWS" ]; then says "$t/out" "install NVIDIA's driver anew" "and what to do"
    else says "$t/out" "NVIDIA_DRIVER_CAPABILITIES must have the word video" "and what a container needs"; fi
    expect 0 "devices in a container" env LD_LIBRARY_PATH="$t/novideo" NVIDIA_DRIVER_CAPABILITIES=compute,utility \
        "$bzna" devices --json
    json "$t/out" "devices in a container is JSON"
    [ -n "$ON_WINDOWS" ] || says "$t/out" '(NVIDIA_DRIVER_CAPABILITIES is \"compute,utility\" here)' \
        "what the container has is told"
    refused 1 "$libnvcuvid was not found" "bench without video" env LD_LIBRARY_PATH="$t/novideo" "$bzna" bench \
        $data/mini_h265.bzna --decoder nvdec
    says "$t/err" "what to do: the GPU works, but not its video decoders" "bench without video tells what to do"
    # SCRIPT TEXT: what a driver that behaves so is said to need
    advised() {
        expect 0 "devices with $1" env LD_LIBRARY_PATH="$build/tests/fake" FAKE_SCRIPT="$1" "$bzna" devices
        says "$t/out" "what to do: $2" "devices with $1 tells what to do"
    }
    advised engines=0 "run nvidia-smi -L: if it lists MIG devices, choose a profile that has decoders"
    advised "fail=cuInit,1,100,1" "the driver is there, but shows no GPU"
    advised "fail=cuModuleLoadData,1,222,1" "update NVIDIA's driver"
    advised wrong_kernel=1 "do not use this GPU with this driver"
    advised "fail=cuInit,1,803,1" "libcuda and the driver's kernel module are of two versions"
    advised "fail=cuMemcpyHtoDAsync_v2,1,700,1" "start the process again"
    refused 1 "has no NVDEC engine" "bench of a MIG slice" env LD_LIBRARY_PATH="$build/tests/fake" \
        FAKE_SCRIPT=engines=0 "$bzna" bench $data/mini_h265.bzna --decoder nvdec
    says "$t/err" "what to do: run nvidia-smi -L" "bench of a MIG slice tells what to do"

    expect 0 "bench on the device" $fake "$bzna" bench --json --seconds $brief --batch 2 --decoder nvdec --sessions 3 \
        --dtype f16 ${benched}5.bzna
    json "$t/out" "bench's report of NVDEC is JSON"
    same "bench tells who decoded, and where to" \
        "$(for f in decoder device output dtype sessions software fallbacks; do field $f <"$t/out"; done | tr '\n' ' ')" \
        "nvdec Fake GPU device f16 3 0 0 "
    same "bench measured NVDEC" "$(field images_per_second <"$t/out" | awk '{ print ($1 > 0) }') $(field decode_only_images_per_second <"$t/out")" "1 null"
    expect 0 "bench to the host" $fake "$bzna" bench --json --seconds $brief --batch 2 --device 0 --output host \
        ${benched}4.bzna
    same "AUTO takes NVDEC, and the host what it gives" \
        "$(field decoder <"$t/out") $(field output <"$t/out") $(field sessions <"$t/out")" "nvdec host 28"
    expect 0 "bench in software, on to the device" $fake "$bzna" bench --json --seconds $brief --batch 2 --threads 1 \
        --decoder software --output device ${benched}4.bzna
    same "software decodes for the device, too" \
        "$(field decoder <"$t/out") $(field output <"$t/out") $(field nvdec <"$t/out")" "software device 0"
    expect 0 "bench of the processor beside a device" $fake "$bzna" bench --json --seconds $brief --batch 2 --threads 1 \
        --device cpu ${benched}4.bzna
    same "--device cpu leaves the device alone" \
        "$(field decoder <"$t/out") $(field output <"$t/out") $(field device <"$t/out")" "software host null"
    expect 0 "plain bench on the device" $fake "$bzna" bench --seconds $brief --batch 2 --sessions 2 ${benched}5.bzna
    says "$t/out" "NVDEC        2 sessions" "plain bench tells the sessions"

    expect 0 "batch by NVDEC" $fake "$bzna" batch $data/mini_h265.bzna -o "$t/by_nvdec" --decoder nvdec --sessions 2 \
        --shuffle --flip 0.5
    says "$t/out" "NVDEC of Fake GPU" "batch tells who decoded"
    expect 0 "batch by libavcodec" "$bzna" batch $data/mini_h265.bzna -o "$t/by_software" --device cpu --shuffle \
        --flip 0.5
    if diff -r "$t/by_nvdec" "$t/by_software" >/dev/null; then pass; else fail "both decode the same batch"; fi
    refused 1 "decode.jpeg: NVDEC of Fake GPU does not decode JPEG" "JPEG by NVDEC where it has none" $fake \
        "$bzna" batch \
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
# ffmpeg is started once for all of them.
kinds="libx264-yuv420p libx264-yuv444p libx264-yuv420p10le libx264-gray libx265-yuv420p libx265-yuv420p10le
    libx265-yuv422p libx265-yuv444p10le libx265-gray libaom-av1-yuv420p libaom-av1-yuv420p10le libaom-av1-yuv444p
    libaom-av1-gray"

# encode KIND...: two frames of each in $t/formats/KIND.mp4; fails where an encoder is missing
encode() {
    encoded=$*
    set --
    for kind in $encoded; do
        case $kind in
        libx264-yuv420p) options="-x264-params slices=4" ;;
        libx264*) options= ;;
        libx265*) options="-preset ultrafast -x265-params log-level=none:keyint=1" ;;
        libaom*)  options="-usage realtime -cpu-used 8" ;;
        esac
        # shellcheck disable=SC2086  # the options are words
        set -- "$@" -map 0 -c:v "${kind%-*}" -g 1 $options -pix_fmt "${kind##*-}" "$t/formats/$kind.mp4"
    done
    ffmpeg -v error -f lavfi -i testsrc2=s=210x162:r=5:d=0.4 -y "$@" 2>/dev/null
}

# frame_sums EXTENSION KIND...: MD5s of the frames that ffmpeg decodes of $t/formats/KIND.EXTENSION, in KIND.sums
frame_sums() {
    extension=$1 number=0
    shift
    inputs=$*
    set --
    for kind in $inputs; do set -- "$@" -i "$t/formats/$kind$extension"; done
    for kind in $inputs; do
        planes=null
        case $kind in *-gray) planes=extractplanes=y ;; esac       # H.264's comes with neutral chroma
        set -- "$@" -map $number -vf $planes -f framemd5 "$t/formats/$kind.framemd5"
        number=$((number + 1))
    done
    ffmpeg -v error -y "$@" 2>"$t/log"
    for kind in $inputs; do sed '/^#/d; s/.*, *//' "$t/formats/$kind.framemd5" >"$t/formats/$kind.sums"; done
}

format_tests() {
    mkdir "$t/formats"
    # shellcheck disable=SC2086  # words
    encode $kinds || for kind in $kinds; do encode $kind || rm -f "$t/formats/$kind.mp4"; done
    written= streams=
    for kind in $kinds; do
        if [ ! -s "$t/formats/$kind.mp4" ]; then skip "frames of $kind" "this ffmpeg cannot write them"; continue; fi
        written="$written $kind"
        case $kind in libaom-*) streams="$streams $kind" ;; esac
    done
    [ -n "$written" ] || return
    frame_sums .mp4 $written
    for kind in $written; do
        indices=1
        ! few "libx264-yuv420p libx265-yuv420p libaom-av1-yuv420p" $kind || indices="0 1"
        for index in $indices; do
            run "$bzna" extract "$t/formats/$kind.mp4" $index --md5
            same "frame $index of $kind" "$(cat "$t/out" "$t/err")" "$(sed -n "$((index + 1))p" "$t/formats/$kind.sums")"
        done
    done
    [ -z "$streams" ] || obu_tests $streams
}

# obu_tests KIND...: the first frame as a stream, which ffmpeg takes for AV1 unasked, is the film's
obu_tests() {
    obus=$*
    if [ -z "$python" ]; then skip "a bare AV1 sample as a stream" "no python3 [python3]"; else
        ffmpeg -v error -f lavfi -i testsrc2=s=210x162:r=5:d=0.2 -c:v libaom-av1 -usage realtime -cpu-used 8 -g 1 \
            -pix_fmt yuv420p -y "$t/formats/unsized.mp4" 2>/dev/null
        frame_sums .mp4 unsized
        expect 0 "a sample gets a delimiter and loses a size" "$python" tests/tool/tool_pictures.py unsized \
            "$t/formats/unsized.mp4"
        obus="$obus unsized"
    fi
    for kind in $obus; do
        expect 0 "$kind: extract as .obu" "$bzna" extract "$t/formats/$kind.mp4" 0 -o "$t/x.obu"
        cp "$t/x.obu" "$t/formats/$kind.unnamed"
        head -n 1 "$t/formats/$kind.sums" >"$t/formats/$kind.expected"
    done
    # shellcheck disable=SC2086  # words
    frame_sums .unnamed $obus
    for kind in $obus; do
        same "$kind: ffmpeg reads the stream" "$(cat "$t/formats/$kind.sums")" "$(cat "$t/formats/$kind.expected")"
    done
    [ -n "$python" ] || return
    expect 0 "the stream's units can be told apart" "$python" tests/tool/tool_pictures.py units "$t/x.obu"
    same "its only temporal delimiter is the first unit" \
        "$(tr ' ' '\n' <"$t/out" | grep -cx 2) $(cut -c 1-2 "$t/out")" "1 2 "
}

prepare
usage_tests
bad_file_tests
format_tests
original_tests
damage_tests
folder_tests
tar_tests
record_tests
long_name_tests
record_target_tests
fixed_record_tests
unread_tests
output_tests
unsupported_tests
batch_tests
bench_tests
device_tests
example_tests

finish
