#!/bin/sh
# test_accept.sh - archives are taken by programs that are not ours: the original tools' parser, FFmpeg, mediainfo, MP4Box
#
#     sh tests/peers/test_accept.sh build/bzna build        from the repository's root
#
# original.sh says where the parser comes from. Where there is none, tests/unit/test_writer_fields.c holds archives to
# that parser's rules, restated.
. tests/tool/tool.sh

parser=$(sh tests/peers/original.sh "$build" 2>/dev/null | sed -n 2p)

# ARCHIVE COUNT LIST: every box is parsed as the original tools do it. Targets and names are those of the list; those
# inside the samples, and where thumbnails lie, agree with the index.
cat >"$t/parse.py" <<'PY'
import sys
from bitstring import ConstBitStream
from pybenzinaparse import Parser, utils

path, count, listed = sys.argv[1], int(sys.argv[2]), open(sys.argv[3], encoding="utf-8").read().split("\n")
file = ConstBitStream(filename=path)
boxes = {box.header.type: box for box in Parser.parse(bstr=file)}
moov = boxes[b"moov"]
for box in boxes.values():
    box.load(file)
names = [utils.get_name(trak) for trak in utils.find_boxes(moov.boxes, [b"trak"])]
assert names[:3] == [b"bzna_input\0", b"bzna_target\0", b"bzna_fname\0"] and names[-1] == b"bzna_thumb\0", names
assert utils.get_trak_sample_location(moov.boxes, [b"bzna_input\0"], count) is None
for i in range(count):
    sample, target, name = (utils.get_trak_sample_bytes(file, moov.boxes, [track], i) for track in names[:3])
    print(i, int.from_bytes(target, "little", signed=True), name.decode())
    assert name[-1:] == b"\0" and "%d\t%s" % (int.from_bytes(target, "little", signed=True), name[:-1].decode()) == listed[i], listed[i]
    inside = ConstBitStream(bytes=sample)
    small = {box.header.type: box for box in Parser.parse(bstr=inside)}
    for box in small.values():
        box.load(inside)
    tracks = {utils.get_name(trak): trak for trak in utils.find_boxes(small[b"moov"].boxes, [b"trak"])}
    assert utils.get_sample_bytes(inside, tracks[b"bzna_target\0"], 0) == target and utils.get_sample_bytes(inside, tracks[b"bzna_fname\0"], 0) == name
    thumb = utils.get_trak_sample_location(moov.boxes, [b"bzna_thumb\0"], i)
    begin, _ = utils.get_trak_sample_location(moov.boxes, [b"bzna_input\0"], i)
    place, size = utils.get_sample_location(tracks[b"bzna_thumb\0"], 0)
    assert thumb == (begin + place, size), (thumb, begin, place, size)
PY

frames() { ffmpeg -v error -i "$1" -map 0:v -f framemd5 - 2>&1 | grep -v '^#' | cut -d, -f 3 | tr -d ' ' | tr '\n' ' '; }

accept() { # archive, how many samples, mediainfo's name of the codec and size of the thumbnails' track
    what=${1##*/}
    if ! "$bzna" list --json "$1" >"$t/json" 2>&1; then fail "list of $what" "$(cat "$t/json")"; return; fi
    sed -n 's/.*"target":\([0-9-]*\),.*"filename":"\([^"]*\)".*/\1\t\2/p' "$t/json" >"$t/listed"
    if [ -z "$parser" ]; then skip "the original tools' parser takes $what" "pybenzinaparse cannot be had"
    else expect 0 "the original tools' parser takes $what" env PYTHONPATH="$parser" "$python" "$t/parse.py" "$1" "$2" "$t/listed"; fi
    if ! command -v ffprobe >/dev/null 2>&1; then skip "ffprobe takes $what" "ffprobe is not installed [ffmpeg]"
    else same "ffprobe takes $what" "$(ffprobe -v error -count_frames -select_streams v -show_entries stream=nb_read_frames \
        -of csv=p=0 "$1" 2>&1 | tr -d ",")" "$2"; fi
    if ! command -v ffmpeg >/dev/null 2>&1; then skip "the thumbnails of $what play" "ffmpeg is not installed [ffmpeg]"
    else same "the thumbnails of $what play" "$(frames "$1")" "$(seq -s ' ' 0 $(($2 - 1))) "; fi
    if ! command -v mediainfo >/dev/null 2>&1; then skip "mediainfo takes $what" "mediainfo is not installed [mediainfo]"
    else same "mediainfo takes $what" "$(mediainfo --Inform='General;%Format% %VideoCount%' "$1") $(mediainfo --Inform='Video;%Format% %Width% %Height% %FrameCount%' "$1")" \
        "MPEG-4 1 $3 $2"; fi
    if ! command -v MP4Box >/dev/null 2>&1; then skip "MP4Box takes $what" "MP4Box is not installed"
    else run MP4Box -info "$1"; cat "$t/out" >>"$t/err"; says "$t/err" "$4" "MP4Box takes $what"; fi
}

# Pictures of four classes in every codec; and as a shard, with labels, texts and vectors.
"$build/draw_pictures" "$t/drawn" 4 >/dev/null && mkdir "$t/shard" || exit 1
i=0
for picture in "$t"/drawn/*/*.ppm; do
    cp "$picture" "$t/shard/$i.ppm"
    echo $((i * 2)) >"$t/shard/$i.cls"; echo "Bild $i, caf\303\251" >"$t/shard/$i.txt"; echo '{"box":[1,2]}' >"$t/shard/$i.json"; i=$((i + 1))
done
(cd "$t/shard" && tar -cf ../shard.tar -- *)
for codec in h265 h264 av1; do
    expect 0 "pack as $codec" "$bzna" pack "$t/drawn" -o "$t/$codec.bzna" --codec $codec --crf 40
done
expect 0 "pack of a shard" "$bzna" pack "$t/shard.tar" -o "$t/shard.bzna" --codec h264 --preset ultrafast
expect 0 "pack of splits" "$bzna" pack --splits train="$t/drawn",test="$t/drawn" -o "$t/splits.bzna" --codec h264 \
    --preset ultrafast
accept "$t/h265.bzna" 4 "HEVC 512 512" HEVC
accept "$t/h264.bzna" 4 "AVC 512 512" AVC
accept "$t/av1.bzna" 4 "AV1 512 512" AV1
accept "$t/shard.bzna" 4 "AVC 512 512" AVC
accept "$t/splits.bzna" 8 "AVC 512 512" AVC

# JPEG: thumbnails of one size play; of several sizes, FFmpeg would take the first for one of two fields, and the outer
# track is left out. Each sample is a video for all of them.
if command -v ffmpeg >/dev/null 2>&1; then
    mkdir -p "$t/equal/a" "$t/equal/b" "$t/several"
    for picture in a/0 a/1 b/0 b/1; do
        ffmpeg -v error -f lavfi -i "testsrc2=size=700x500:rate=1" -vf "hue=H=${picture#*/}" -frames:v 1 -q:v 2 "$t/equal/$picture.jpg" </dev/null
    done
    for size in 300x200 500x700 900x300; do
        ffmpeg -v error -f lavfi -i "testsrc2=size=$size:rate=1" -frames:v 1 -q:v 2 "$t/several/$size.jpg" </dev/null
    done
    expect 0 "pack as JPEG" "$bzna" pack "$t/equal" -o "$t/equal.bzna" --codec jpeg
    accept "$t/equal.bzna" 4 "JPEG 512 365" JPEG
    expect 0 "pack as JPEG of several sizes" "$bzna" pack "$t/several" -o "$t/several.bzna" --codec jpeg
    run "$bzna" info "$t/several.bzna"
    same "thumbnails of several sizes have no outer track" "$(grep -c bzna_thumb "$t/out")" 0
    same "FFmpeg finds nothing to decode wrongly in it" "$(ffprobe -v error -select_streams v -show_entries stream=index -of csv=p=0 "$t/several.bzna" 2>&1)" ""
    "$bzna" list --json "$t/several.bzna" | sed -n 's/.*"offset":\([0-9]*\),"size":\([0-9]*\).*/\1 \2/p' >"$t/places"
    while read -r offset size; do
        tail -c +$((offset + 1)) "$t/several.bzna" | head -c "$size" >"$t/sample.mp4"
        same "the picture and the thumbnail of a sample are frames of FFmpeg's" "$(frames "$t/sample.mp4" </dev/null)" "0 0 "
    done <"$t/places"
    same "there are three samples" "$(wc -l <"$t/places" | tr -d ' ')" 3
else
    skip "JPEG" "ffmpeg is not installed [ffmpeg]"
fi
finish
