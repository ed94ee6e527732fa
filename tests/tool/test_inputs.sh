#!/bin/sh
# test_inputs.sh - what bzna pack takes: pictures of all kinds, damaged files, odd names; HEIF and AVIF alone, in
# folders and tars
# shellcheck disable=SC2012,SC2046,SC2059
. tests/tool/tool.sh

# A python3 with numpy and Pillow.
for pillow in "$PYTHON" python3 /usr/bin/python3; do "$pillow" -c 'import numpy, PIL' 2>/dev/null && break; pillow=; done

# Nearly without loss, and small.
exact="--codec h264 --preset ultrafast --crf 1 --chroma 444 --frame exact --thumb none"
# shellcheck disable=SC2086
pack() { "$bzna" pack "$@" $exact --overwrite; }

# names: those in the list that $t/out has; names_of ARCHIVE: its samples'
names() { sed -n 's/.*"filename":"\([^"]*\)".*/\1/p' "$t/out" | tr '\n' ' '; }
names_of() { run "$bzna" list --json "$1"; names; }

# compare_tests: the archives of hard_tests and heif_tests have as many pictures, and each looks like its source to
# others
compare_tests() {
    expect 0 "pictures are compared" env "BENZINA_LIBRARY=$library" "$pillow" tests/tool/tool_inputs.py compare \
        "$bzna" "$t/hard.bzna" "$t/hard" "$t/kinds.bzna" $data/pictures "$t/heif.bzna" $data/heif
    same "hard files, all kinds of pictures, and HEIF and AVIF look as others see them" "$(cat "$t/out")" \
        "compared $(find "$t/hard" -name 'ok_*' | grep -c /ok_)
compared $(find $data/pictures -name '*.rgb' | grep -c .)
compared $(find $data/heif -name '*.mean' | grep -c .)"
}

# A folder as real data sets are: all that is sound is packed, all else is left out by name and for its reason.
hard_tests() {
    mkdir "$t/hard"
    expect 0 "hard files are made" "$pillow" tests/tool/tool_inputs.py make "$t/hard"
    expect 1 "pack of hard files" pack "$t/hard" -o "$t/hard.bzna"
    cp "$t/err" "$t/reasons"
    sound=$(find "$t/hard" -name 'ok_*' | grep -c /ok_)
    run "$bzna" list --json "$t/hard.bzna"
    packed=$(names)
    same "all that can be packed is, and nothing else" \
        "$(grep -c '"filename":"ok_' "$t/out") $(grep -c '"index"' "$t/out")" "$sound $sound"
    same "all else is named" "$(grep -c 'hard/bad_.*: .' "$t/reasons")" "$(find "$t/hard" -name 'bad_*' | grep -c bad_)"
    same "nothing that is sound is" "$(grep -c 'hard/ok_' "$t/reasons")" 0
    # The reason that stands in the file's name is what is said of it, or that it is cut off.
    same "for the reason that is in its name" "$(sed -n 's/.*hard.bad_//p' "$t/reasons" | awk -F _ '{
        reason = substr($0, index($0, ": ")); if ($1 == "cut") $1 = "cut off|truncated"; if (reason !~ $1) print }')" ""
    expect 0 "the archive is sound" "$bzna" verify --decode "$t/hard.bzna"
    run "$bzna" list "$t/hard.bzna"
    says "$t/out" 'ok_new?line ?[31m.jpg' "what could change a terminal's state is not printed"
    for codec in copy jpeg; do
        expect 1 "as $codec" "$bzna" pack "$t/hard" -o "$t/hard2.bzna" --codec $codec --overwrite
        same "as $codec, the same files are" "$(names_of "$t/hard2.bzna")" "$packed"
        expect 0 "$codec: it is sound" "$bzna" verify --decode "$t/hard2.bzna"
    done
    expect 1 "pictures of all kinds" pack $data/pictures -o "$t/kinds.bzna"
    same "but for these, what is left out is no picture" "$(sed -n "s,^$data/pictures/\([^:]*\): .*,\1,p" "$t/err" |
        grep -v '\.rgb$\|\.index$\|\.py$' | tr '\n' ' ')" "webp_animated.webp "
}

# Grids, clean apertures, all turns, ten bits, RGB, sequences: in a folder, by name, and in a tar.
heif_tests() {
    mkdir "$t/heif"
    cp $data/heif/*.avif $data/heif/*.hei* "$t/heif"
    rm -f "$t/heif"/*.mean "$t/heif/shared.avif" "$t/heif/repeated.heic"       # of which nobody else has pixels here
    expect 1 "pack of HEIF and AVIF in a folder" pack "$t/heif" -o "$t/heif.bzna"
    for file in crowded overlay; do
        if grep -q "heif/$file.heic: .*tiles\|heif/$file.heic: .*not read" "$t/err"; then pass; else fail "$file.heic is left out, for a reason" "$(cat "$t/err")"; fi
    done
    sound=$(find $data/heif -name '*.mean' | grep -c .)
    expect 0 "one by name, copied" "$bzna" pack "$t/heif/grid.heic" "$t/heif/still_jpeg.heif" -o "$t/one.bzna" \
        --codec copy
    same "it keeps its name" "$(names_of "$t/one.bzna")" "grid.heic still_jpeg.heif "
    refused 1 "crowded.heic: HEIF: grid at byte " "one that cannot be packed" "$bzna" pack "$t/heif/crowded.heic" \
        -o "$t/none.bzna"
    if ! command -v tar >/dev/null 2>&1; then skip "HEIF in a tar" "there is no tar [tar]"; return; fi
    # A key of its own for each: what is before the first dot.
    (cd "$t/heif" && for f in *; do g=$(echo "$f" | tr . _).${f##*.}; cp "$f" "../$g"; echo "$g"; done >../list && cd .. && tar -cf heif.tar $(cat list))
    expect 1 "pack of HEIF and AVIF in a tar" pack "$t/heif.tar" -o "$t/tarred.bzna"
    same "the same pictures as from the folder" "$("$bzna" list --json "$t/tarred.bzna" | grep -c '"index"')" "$sound"
    same "with the same bytes" "$("$bzna" diff "$t/tarred.bzna" "$t/heif.bzna" 2>/dev/null | grep -c picture)" 0
}

# Chroma that is sited at the left, as video's is, stays with luma: what is packed looks as the library shows the video.
siting_tests() {
    mkdir -p "$t/hard"
    if ! command -v ffmpeg >/dev/null 2>&1 || ! ffmpeg -v error -encoders 2>/dev/null | grep -q libx264; then
        skip "chroma at the left" "there is no ffmpeg with libx264 [ffmpeg]"; return
    fi
    ffmpeg -v error -f lavfi -i testsrc2=s=160x96:d=0.04 -vf format=yuv420p -c:v libx264 -qp 0 -y "$t/left.mp4" 2>&1
    expect 0 "pack of a video" "$bzna" pack "$t/left.mp4" -o "$t/left.bzna" --codec h264 --chroma 444 --lossless \
        --preset ultrafast --frame exact
    cp "$t/left.mp4" "$t/hard"
    run "$bzna" pack "$t/hard" -o "$t/hard2.bzna" --codec copy --overwrite
    says "$t/err" "left.mp4: not a picture: mp4 video" "a film in a folder is no picture"
    run "$bzna" extract "$t/left.mp4" 0 -o "$t/x.ppm"
    run "$bzna" extract "$t/left.bzna" 0 -o "$t/y.ppm"
    psnr "$t/x.ppm" "$t/y.ppm"
    if [ "$db" -ge 40 ]; then pass; else fail "chroma at the left" "$db dB"; fi
}

# The clean aperture is moved by a pixel to the right and down, into the midst of chroma samples.
crop_tests() {
    "$pillow" -c 'import re, struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
for found in re.finditer(b"clap", bytes(data)):
    for at in found.end() + 16, found.end() + 24:
        n, d = struct.unpack_from(">ii", data, at)
        struct.pack_into(">i", data, at, n + d)
open(sys.argv[2], "wb").write(data)' $data/mini_h264.bzna "$t/moved.bzna"
    expect 1 "pictures that begin between chroma samples, and one that ends past its frame" pack "$t/moved.bzna" \
        -o "$t/odd.bzna"
    run "$bzna" extract "$t/moved.bzna" 2 -o "$t/x.ppm"
    run "$bzna" extract "$t/odd.bzna" 2 -o "$t/y.ppm"
    psnr "$t/x.ppm" "$t/y.ppm"
    if [ "$db" -ge 36 ]; then pass; else fail "pictures that begin between chroma samples" "$db dB"; fi
}

# JPEG that only libavcodec decodes, turned by its EXIF data. Its first segment is another.
lossless_jpeg_tests() {
    if [ -z "$python" ] || ! ffmpeg -v error -f lavfi -i testsrc2=s=48x32:d=0.04 -pix_fmt yuvj444p -c:v ljpeg -y "$t/lossless.jpg" 2>"$t/err"; then
        skip "lossless JPEG" "there is no ffmpeg with an encoder for it, or no python3 [ffmpeg python3]"; return
    fi
    "$python" -c 'import sys
data = open(sys.argv[1], "rb").read()
exif = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"
first = 4 + int.from_bytes(data[4:6], "big")
open(sys.argv[2], "wb").write(data[:first] + b"\xff\xe1" + (2 + len(exif)).to_bytes(2, "big") + exif + data[first:])' \
    "$t/lossless.jpg" "$t/turned.jpg"
    expect 0 "pack of a lossless JPEG" "$bzna" pack "$t/turned.jpg" -o "$t/turned.bzna" --codec h264 \
        --preset ultrafast --frame exact
    same "it is turned" "$("$bzna" list --json "$t/turned.bzna" | grep -o '"width":[0-9]*,"height":[0-9]*' | head -n 1)" '"width":32,"height":48'
}

# What libavformat would open as a playlist or a session: to open it connects to what stands in it.
script_tests() {
    if [ -z "$python" ]; then skip "playlists that are named as pictures" "no python3 [python3]"; return; fi
    mkdir "$t/scripts"
    run "$python" - "$bzna" "$t/scripts" "$t/scripts.bzna" <<'EOF'
import socket, subprocess, sys
bzna, folder, archive = sys.argv[1:]
listener = socket.create_server(("127.0.0.1", 0))
listener.setblocking(False)
url = "http://127.0.0.1:%d/x" % listener.getsockname()[1]
files = {
    "dash.jpg": '<?xml version="1.0"?>\n<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" '
                'mediaPresentationDuration="PT10S" profiles="urn:mpeg:dash:profile:isoff-live:2011"><Period><AdaptationSet '
                'mimeType="video/mp4"><Representation id="1" bandwidth="1000"><BaseURL>%s</BaseURL><SegmentBase/>'
                '</Representation></AdaptationSet></Period></MPD>' % url,
    "hls.m3u8": "#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n%s\n#EXT-X-ENDLIST\n" % url,
    "concat.png": "ffconcat version 1.0\nfile %s\n" % url,
    "session.jpg": "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=x\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=video 0 RTP/AVP 96\r\n"
                   "a=rtpmap:96 H264/90000\r\n",
}
for name, text in files.items():
    open("%s/%s" % (folder, name), "w").write(text)
# What connects waits for an answer that never comes, but not beyond the time that it has.
command = subprocess.Popen([bzna, "pack", *("%s/%s" % (folder, name) for name in files), "-o", archive], stderr=subprocess.PIPE)
try:
    said = command.communicate(timeout=60)[1].decode()
except subprocess.TimeoutExpired:
    command.kill()
    said = "no end"
try:
    listener.accept()
    print("connected")
except BlockingIOError:
    print("not connected")
print(command.returncode, "session.jpg: not a picture" in said)
EOF
    same "playlists that are named as pictures are not opened" "$(cat "$t/out")" "not connected
1 True"
}

if [ -n "$pillow" ]; then hard_tests; heif_tests; compare_tests; crop_tests; else skip "pictures of all kinds" "there is no python3 with numpy and Pillow [python3-numpy python3-pil]"; fi
siting_tests
lossless_jpeg_tests
script_tests
finish
