#!/bin/sh
# test_hwaccel.sh - what this library asks of NVDEC, beside what ffmpeg's own -hwaccel cuda asks for the same files, on
# one fake driver.
#
#     sh tests/peers/test_hwaccel.sh build/bzna build        from the repository's root
#
# ffmpeg fills CUVIDDECODECREATEINFO and CUVIDPICPARAMS by hand, from its own reading of a stream. Here the first is
# this library's, and the second NVIDIA's parser's, of the bytes that this library gives it, whose part the fake plays
# with libavcodec's parsers. So this proves that decoders are asked for as ffmpeg asks, and that the slices that reach
# NVDEC, through sample tables, parameter sets and Annex B, are to the byte and in number those that ffmpeg sends. It
# does not prove what NVIDIA's own parser makes of them: of its fields, the fake fills only those that are compared. sh
# tests/gpu/gpu.sh prints the real one's on a GPU where a frame is wrong.
#
# What must agree, by the names that the fake's trace has for the fields:
#   of a decoder  codec, chroma, depth, size, target, rect, format, deinterlace, lock
#   of a picture  codec, size, slices, each slice's bytes; field, bottom, second, ref, intra; of H.265 luma, depths, irap, idr; of AV1 own_surface
agree="codec chroma depth size target rect format deinterlace lock slices slice field bottom second ref intra luma depths irap idr own_surface"
# What differs, and why that is right:
#   display       ffmpeg leaves it zero, which is the whole frame; here it is written out
#   surfaces      ffmpeg: as many as references and frames that a player holds. Here: those that are in flight
#   outputs       ffmpeg: as many as surfaces. Here: those that one launch of the kernel reads
#   flags         ffmpeg: 0, the default, which is the engines. Here: 4, the engines by name (cudaVideoCreate_PreferCUVID)
#   intra_only    here alone: all pictures stand alone.
#   max           here alone: a decoder is given other sizes
#   size          of H.265 whose edges are no multiples of 16: ffmpeg takes the coded size, in units of 8 here; the fake's parser rounds to macroblocks.
#                 Whichever NVIDIA's parser does, the library follows it
#   references    of AV1, of a key frame: ffmpeg names the surfaces of frames before, which nobody reads; here none is named, for they are overwritten
BZNA=$1; BUILD=$2
passed=0; failed=0; skipped=0
LC_ALL=C; BENZINA_NVDEC_CHECK=0           # the self-check's pictures are not those that are compared
export LC_ALL BENZINA_NVDEC_CHECK

skip() { skipped=$((skipped + 1)); echo "SKIP $1: $2"; }
finish() { echo "tests/peers/test_hwaccel.sh: $passed passed, $failed failed, $skipped skipped"; [ "$failed" -eq 0 ]; exit; }
check() { # name, command...: passes when the command succeeds
    name=$1; shift
    if "$@" >"$T/log" 2>&1; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL $name"; tail -n 12 "$T/log"; fi
}

case "$SANITIZE" in *thread*) skip hwaccel "ffmpeg and its driver are not built with TSan"; finish ;; esac
for need in ffmpeg pkg-config; do command -v $need >/dev/null || { skip hwaccel "no $need here [$need]"; finish; }; done
[ -x "$BZNA" ] || { skip hwaccel "no $BZNA"; finish; }
pkg-config --exists ffnvcodec libavcodec || { skip hwaccel "built without nv-codec-headers or libavcodec [libffmpeg-nvenc-dev libavcodec-dev]"; finish; }
ffmpeg -hide_banner -hwaccels 2>/dev/null | grep -qx cuda || { skip hwaccel "this ffmpeg has no -hwaccel cuda"; finish; }
T=$BUILD/tests/hwaccel
rm -rf "$T"; mkdir -p "$T"
cc=${CC:-cc}               # unoptimized, clang takes a third of the time of gcc
[ -n "$SANITIZE$TEST_ALL" ] || ! command -v clang >/dev/null || cc=clang
if ! FOR_FFMPEG=1 sh tests/fake/build.sh "$T/fake" "$cc" -O0 >"$T/log" 2>&1; then
    failed=1; echo "FAIL the fakes for ffmpeg do not build"; cat "$T/log"; finish
fi

# traced FILE COMMAND...: what the command asks of the driver.
traced() { trace=$1; shift; : >"$trace"; env FAKE_TRACE="$trace" LD_LIBRARY_PATH="$T/fake" timeout 600 "$@" >"$T/out" 2>&1; }
# Decoders and pictures, without what is said above to differ; in any order, since pictures are known by their slices.
plain() { sed -E "s/ (display|surfaces|outputs|flags|intra_only|max|references)=[^ ]*//g; $2" "$1" | sort -u; }

# compare NAME FRAMES FILE [FFMPEG_OPTIONS] [SED]
compare() {
    film=$1 frames=$2 file=$3 options=$4 more=$5
    [ -s "$file" ] || { skip "$film" "this ffmpeg cannot make it"; return; }
    # ffmpeg ends with an error where the fake's size is not its own: it has asked by then.
    # shellcheck disable=SC2086  # options are words
    traced "$T/$film.ffmpeg" ffmpeg -v error -nostdin -threads 1 $options -hwaccel cuda -i "$file" -map 0:v:0 -f null -
    traced "$T/$film.benzina" "$BZNA" batch "$file" -o "$T/$film.out" --device 0 --decoder nvdec --sessions 1 \
        --batch "$frames" --size 32
    for who in ffmpeg benzina; do
        grep -v '^decoder' "$T/$film.$who" >"$T/pictures"
        check "${film}_${who}_asks_for_all_pictures" [ "$(wc -l <"$T/pictures")" -eq "$frames" ]
        plain "$T/$film.$who" "$more" >"$T/$film.$who.plain"
    done
    check "${film}_is_asked_for_as_ffmpeg_does" diff "$T/$film.ffmpeg.plain" "$T/$film.benzina.plain"
    # shellcheck disable=SC2016  # awk's fields
    check "${film}_shows_the_whole_frame" awk \
        '/^decoder/ { split($0, a, /[ =x,]/); for (i = 1; i in a; i++) if (a[i] == "display") { n++; good += a[i + 1] == 0 && a[i + 2] == 0 && ($0 ~ "size=" a[i + 3] "x" a[i + 4] " ") } } END { exit !(n && n == good) }' "$T/$film.benzina"
}

# film NAME SIZE PIXEL_FORMAT CODEC OPTIONS...
film() { out=$T/$1.mp4 size=$2 format=$3 codec=$4; shift 4; ffmpeg -v error -nostdin -y -f lavfi -i "testsrc2=size=$size:rate=5,format=$format" -frames:v 4 -c:v "$codec" "$@" "$out" 2>/dev/null || rm -f "$out"; }
h265="-preset ultrafast -tag:v hvc1 -x265-params keyint=1:log-level=none:pools=1"
# shellcheck disable=SC2086  # words
{
    film h264 320x256 yuv420p libx264 -x264-params keyint=1:slices=2
    film h264_odd 300x246 yuv420p libx264 -x264-params keyint=1:cabac=0
    film h265 320x256 yuv420p libx265 $h265
    film h265_10 320x256 yuv420p10le libx265 $h265
    film h265_full 320x256 yuv444p libx265 $h265
    film h265_slices 320x256 yuv420p libx265 $h265:slices=3:wpp=1
    film h265_odd 300x244 yuv420p libx265 $h265
    film av1 320x256 yuv420p libaom-av1 -usage realtime -cpu-used 8 -crf 30 -g 1
}
for name in h264 h264_odd h265 h265_10 h265_full h265_slices; do compare $name 4 "$T/$name.mp4"; done
compare h265_odd 4 "$T/h265_odd.mp4" "" 's/ (size|target|luma)=[^ ]*//g'
compare archive 8 tests/data/mini_h265.bzna "" 's/ max=.*//'
if ffmpeg -hide_banner -h decoder=av1 2>/dev/null | grep -q cuda; then
    compare av1 4 "$T/av1.mp4" "-c:v av1"
    check av1_key_frames_refer_to_nothing \
        sh -c "! grep '^picture' '$T/av1.benzina' | grep -v 'references=ffffffffffffffff'"
    check av1_begins_so_in_ffmpeg_too sh -c \
        "grep '^picture' '$T/av1.ffmpeg' | head -n 1 | grep -q 'references=ffffffffffffffff'"
else
    skip av1 "this ffmpeg has no AV1 by -hwaccel cuda"
    agree=${agree% own_surface}
fi
cat "$T"/*.plain | grep -oE ' [a-z_]+[0-9]*=' | tr -d ' =0-9' | sort -u >"$T/compared"
# shellcheck disable=SC2086  # words
check the_fields_compared_are_those_listed sh -c "printf '%s\\n' $agree | sort -u | diff - '$T/compared'"
finish
