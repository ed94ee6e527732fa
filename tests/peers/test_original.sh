#!/bin/sh
# test_original.sh - the original Benzina reads what this library writes
#
#     sh tests/peers/test_original.sh build/bzna build        from the repository's root
#
# original.sh says where its reader comes from, and how to name a copy. Its targets, names and sizes are compared with
# the files that were packed, and its pictures, decoded by FFmpeg, with theirs.
. tests/tool/tool.sh

said=$(sh tests/peers/original.sh "$build" 2>"$t/why")
package=$(echo "$said" | sed -n 1p) parser=$(echo "$said" | sed -n 2p)
if [ -z "$package" ] || [ -z "$parser" ]; then
    skip "the original reads archives" "the original's reader cannot be had: $(tr '\n' ' ' <"$t/why" | tr -d '[]')"
    finish; exit
fi
if [ -z "$numpy" ]; then skip "the original reads archives" "no python3 with numpy [python3-numpy]"; finish; exit; fi

# reads NAME ARCHIVE EXPECTED [TRACK]: what the original reads is what the file says
reads() {
    run "$numpy" tests/peers/original.py read "$package" "$parser" "$2" $4
    if [ $status -eq 0 ]; then same "the original reads $1" "$(cat "$t/out")" "$(cat "$3")"
    else fail "the original reads $1" "status $status" "$(tail -n 3 "$t/err")"; fi
}
# shows NAME ARCHIVE EXPECTED: the pictures that the original finds are those that were packed, which EXPECTED names
shows() {
    if ! command -v ffmpeg >/dev/null 2>&1; then skip "its pictures of $1" "ffmpeg is not installed [ffmpeg]"; return; fi
    rm -rf "$t/found" && mkdir "$t/found"
    run "$numpy" tests/peers/original.py pictures "$package" "$parser" "$2" "$t/found"
    if [ $status -ne 0 ]; then fail "the pictures of $1" "status $status" "$(tail -n 3 "$t/err")"; return; fi
    i=0 poor=
    while IFS='	' read -r _ name size; do
        ffmpeg -v error -y -i "$t/found/$i".[hj]* -vf "format=rgb24,crop=${size%x*}:${size#*x}:0:0" "$t/found.ppm" </dev/null
        psnr "$t/drawn/${name%.*}.ppm" "$t/found.ppm"
        [ "$db" -ge 25 ] || poor="$poor $name: $db dB;"
        i=$((i + 1))
    done <"$3"
    same "the original finds the pictures of $1" "$poor" ""
}

"$build/draw_pictures" "$t/drawn" 5 >/dev/null && mkdir "$t/jpegs" "$t/shard" || exit 1
quick="--preset ultrafast --crf 20"
class=0 i=0
for folder in "$t"/drawn/*; do
    mkdir "$t/jpegs/${folder##*/}"
    for picture in "$folder"/*.ppm; do
        name=${folder##*/}/$(basename "$picture" .ppm)
        printf '%d\t%s.ppm\t%s\n' $class "$name" "$(ppm_size "$picture" | tr ' ' x)" >>"$t/drawn.txt"
        cp "$picture" "$t/shard/$i.ppm"
        echo $((i * 3)) >"$t/shard/$i.cls"; echo "Bild $i" >"$t/shard/$i.txt"; echo '{"box":[1,2]}' >"$t/shard/$i.json"
        printf '%d\t%d.ppm\t%s\n' $((i * 3)) $i "$(ppm_size "$picture" | tr ' ' x)" >>"$t/shard.txt"
        i=$((i + 1))
        if command -v ffmpeg >/dev/null 2>&1; then ffmpeg -v error -i "$picture" -q:v 2 "$t/jpegs/$name.jpg" </dev/null; fi
    done
    class=$((class + 1))
done
(cd "$t/shard" && tar -cf ../shard.tar -- *)
sed 's/\.ppm/.jpg/' "$t/drawn.txt" >"$t/jpegs.txt"
cat "$t/drawn.txt" "$t/drawn.txt" >"$t/splits.txt"

# shellcheck disable=SC2086  # words
{
expect 0 "pack" "$bzna" pack "$t/drawn" -o "$t/plain.bzna" --codec h264 $quick
reads "a packed folder" "$t/plain.bzna" "$t/drawn.txt"
shows "a packed folder" "$t/plain.bzna" "$t/drawn.txt"
expect 0 "pack of splits" "$bzna" pack --splits "train=$t/drawn,test=$t/drawn" -o "$t/splits.bzna" --codec h264 $quick
reads "splits" "$t/splits.bzna" "$t/splits.txt"
for split in train test; do reads "the split $split" "$t/splits.bzna" "$t/drawn.txt" bzna_input_$split; done
expect 0 "pack of fields" "$bzna" pack "$t/shard.tar" -o "$t/fields.bzna" $quick
reads "fields" "$t/fields.bzna" "$t/shard.txt"
expect 0 "pack of 4:4:4" "$bzna" pack "$t/drawn" -o "$t/444.bzna" --chroma 444 $quick
reads "4:4:4" "$t/444.bzna" "$t/drawn.txt"
shows "4:4:4" "$t/444.bzna" "$t/drawn.txt"
if [ -e "$t/jpegs/plasma/00.jpg" ]; then
    expect 0 "pack of JPEG" "$bzna" pack "$t/jpegs" -o "$t/jpeg.bzna" --codec copy
    reads "JPEG" "$t/jpeg.bzna" "$t/jpegs.txt"
    shows "JPEG" "$t/jpeg.bzna" "$t/jpegs.txt"
else
    skip "the original reads JPEG" "ffmpeg is not installed [ffmpeg]"
fi
expect 0 "merge" "$bzna" merge "$t/splits.bzna" "$t/plain.bzna" -o "$t/merged.bzna"
cat "$t/splits.txt" "$t/drawn.txt" >"$t/merged.txt"
reads "a merged archive" "$t/merged.bzna" "$t/merged.txt"
cp "$t/fields.bzna" "$t/longer.bzna"
expect 0 "append" "$bzna" append "$t/longer.bzna" "$t/splits.bzna"
cat "$t/shard.txt" "$t/splits.txt" >"$t/longer.txt"
reads "an archive after append" "$t/longer.bzna" "$t/longer.txt"
expect 0 "split" "$bzna" split "$t/splits.bzna" -o "$t/part.bzna" --parts 2
for part in 0 1; do reads "part $part of a split archive" "$t/part-0000$part-of-00002.bzna" "$t/drawn.txt"; done

# From archives as version 0.3 wrote them it never returns, so that each of the above can fail.
"$python" tests/peers/original.py old "$t/splits.bzna" "$t/old.bzna"
run "$numpy" tests/peers/original.py read "$package" "$parser" "$t/old.bzna"
same "the original does not return from an archive of version 0.3" "$status" 3
expect 0 "convert of it" "$bzna" convert "$t/old.bzna" -o "$t/mended.bzna"
reads "it then" "$t/mended.bzna" "$t/splits.txt"
}
finish
