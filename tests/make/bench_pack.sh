#!/bin/sh
# bzna pack compared with ffmpeg, with as many processes and the same settings, in turns; and the memory of bzna pack.
# Usage, from the repository's root: sh tests/make/bench_pack.sh BUILD PICTURES [PROCESSES [ROUNDS [CODEC]]]; PICTURES:
# of at most 512 pixels, of which others are left out, since bzna pack would also make thumbnails of them. Needs ffmpeg.
#
# ffmpeg opens one encoder for all pictures of a process, pads them to the frames of 512x512 that bzna pack makes, and
# writes a stream. An encoder's rate control gives its first picture more bits than those behind it, and bzna pack
# encodes each picture as a first one: at one crf it writes twice the bytes. So ffmpeg runs twice: with the same crf,
# and with the lowest one, in quarters, that stays below bzna pack's bytes. Ratios are of pictures a second, and of
# pictures a second of processors' time, which other work on the machine changes less. sh tests/make/bench_pack.sh BUILD
# memory COUNT: the peak of resident memory of all processes while COUNT small pictures are packed.
set -e
build=$1; pictures=$2; processes=${3:-2}; rounds=${4:-3}; codecs=${5:-h265 h264}
out=$build/bench/pack
rm -rf "$out"
mkdir -p "$out"

# Samples VmHWM of a process and its children until it ends: of each the largest, and the sum of those that live at a
# time.
memory() {
    mkdir "$out/in"
    i=0
    while [ $i -lt "$1" ]; do
        { printf 'P6 24 16 255\n'; head -c 1152 /dev/urandom; } >"$out/in/$i.ppm"
        i=$((i + 1))
    done
    "$build/bzna" pack "$out/in" -o "$out/memory.bzna" --preset ultrafast --frame exact --jobs 2 >"$out/log" &
    while kill -0 $! 2>/dev/null; do
        for p in $! $(pgrep -P $!); do awk -v p="$p" '/VmRSS/ { print p, $2 }' "/proc/$p/status" 2>/dev/null || :; done | awk '{ s += $2; if ($2 > m) m = $2 } END { print s + 0, m + 0 }'
        sleep 0.2
    done >"$out/rss"
    sort -n "$out/rss" | tail -n 1 | awk -v n="$1" \
        '{ printf "%d pictures: at most %.1f MiB in all processes at once\n", n, $1 / 1024 }'
    awk '{ if ($2 > m) m = $2 } END { printf "at most %.1f MiB in one\n", m / 1024 }' "$out/rss"
    awk 'NR > 3 { if (!f) f = $1; l = $1 } END { printf "%.1f MiB at the beginning, %.1f at the end\n", f / 1024, l / 1024 }' "$out/rss"
}
if [ "$pictures" = memory ]; then memory "$3"; exit; fi

mkdir "$out/in"
for share in $(seq 0 $((processes - 1))); do mkdir "$out/$share"; done
n=0
for file in "$pictures"/*.jpg "$pictures"/*/*.jpg; do
    [ -e "$file" ] || continue
    size=$(ffprobe -v error -show_entries stream=width,height -of csv=p=0:s=x "$file")
    if [ "${size%x*}" -le 512 ] && [ "${size#*x}" -le 512 ]; then
        cp "$file" "$out/in/$n.jpg"
        ln "$out/in/$n.jpg" "$out/$((n % processes))/$(printf %06d $((n / processes))).jpg"
        n=$((n + 1))
    fi
done
# Nanoseconds by the clock, and of processors, that a command takes.
timed() {
    begin=$(date +%s%N)
    cpu=$( ( "$@" >&2; times ) | tail -n 1 | awk -F'[ms ]+' '{ printf "%.0f", ($1 * 60 + $2 + $3 * 60 + $4) * 1e9 }')
    echo "$(($(date +%s%N) - begin)) $cpu"
}
# ffmpeg with the encoder's settings of bzna pack, one process for each share, to $out/SHARE.CODEC. encode CODEC CRF
encode() {
    encoder="libx265 -x265-params log-level=none:pools=none:frame-threads=1:keyint=1:bframes=0:ref=1:rc-lookahead=0:cutree=0:info=0"
    [ "$1" = h265 ] || encoder="libx264 -x264-params keyint=1:bframes=0:ref=1:rc-lookahead=0:mbtree=0:threads=1"
    for share in $(seq 0 $((processes - 1))); do
        # shellcheck disable=SC2086
        ffmpeg -v error -threads 1 -i "$out/$share/%06d.jpg" \
            -vf "scale=out_range=full,format=yuv420p,pad=512:512,setsar=1" -c:v $encoder -preset medium -crf "$2" \
            -threads 1 -y "$out/$share.$1" &
    done
    wait
}
bytes() { cat "$out"/[0-9]*."$1" | wc -c; }
for codec in $codecs; do
    pack() { "$build/bzna" pack "$out/in" -o "$out/$codec.bzna" --codec "$codec" --jobs "$processes" --overwrite >"$out/log" 2>&1; }
    pack
    own=$("$build/bzna" list --json "$out/$codec.bzna" | grep -o '"bzna_input":{[^}]*' |
        awk -F'payload_size":' '{ s += $2 } END { print s }')
    crf=${CRF:-20}                    # where the search begins
    fits() { encode "$codec" "$1"; [ "$(bytes "$codec")" -le "$own" ]; }
    while fits $((crf - 1)); do crf=$((crf - 1)); done
    for quarter in 25 50 75; do if fits $((crf - 1)).$quarter; then crf=$((crf - 1)).$quarter; break; fi; done
    encode "$codec" "$crf"
    echo "$codec: $n pictures, $processes processes; bzna pack $own bytes with crf 20, ffmpeg $(bytes "$codec") with crf $crf" >&2
    for _ in $(seq "$rounds"); do
        echo "$codec $n $(timed pack) $(timed encode "$codec" 20) $(timed encode "$codec" "$crf")"
    done
done | awk '{ printf "%s: bzna pack %.1f pictures/s, ffmpeg with the same crf %.1f, with the same bytes %.1f; of processors: %.1f, %.1f, %.1f\n",
                     $1, $2 / $3 * 1e9, $2 / $5 * 1e9, $2 / $7 * 1e9, $2 / $4 * 1e9, $2 / $6 * 1e9, $2 / $8 * 1e9; fflush()
              print $1, $5 / $3, $7 / $3, $6 / $4, $8 / $4 >ratios } END { close(ratios) }' ratios="$out/ratios"
for codec in $codecs; do
    for column in 2 3 4 5; do
        what=$(echo "crf:bytes:crf, processors:bytes, processors" | cut -d: -f$((column - 1)))
        grep "^$codec" "$out/ratios" | cut -d' ' -f$column | sort -n |
            awk -v c="$codec beside ffmpeg with the same $what" \
            '{ r[NR] = $1 } END { printf "%s: %.2f to %.2f, median %.2f\n", c, r[1], r[NR], (r[int((NR + 1) / 2)] + r[int(NR / 2) + 1]) / 2 }'
    done
done
