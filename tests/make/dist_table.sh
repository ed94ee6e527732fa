#!/bin/sh
# The table of examples/vendoring/README.md, what pairs without some rooms come to, as rows of Markdown: what is removed,
# the lines of the pair (the PTX is not counted), and the bytes that gcc -O2 makes of it as a shared library, stripped.
# With --lines, nothing is compiled, and pairs that PAIRS has, a folder of folders as SHARDS_STILLS and nothing, are not
# made again.
#     [PAIRS=DIR] sh tests/make/dist_table.sh [--lines] [BUILD]
set -e
lines_only=; [ "$1" = --lines ] && { lines_only=1; shift; }
build=${1:-build}; T=$build/dist_table.$$
archives="SHARDS FOLDERS STILLS PROVIDERS WRITER"
rm -rf "$T"; mkdir -p "$T"
flags="-std=c11 -O2 -ffp-contract=off -fvisibility=hidden -fPIC -shared"
flags="$flags $(pkg-config --cflags libavcodec libavutil libjpeg ffnvcodec)"
libs="$(pkg-config --libs libavcodec libavutil libjpeg) -lm -lpthread -ldl"
bytes_of() { # name of a pair's folder
    # shellcheck disable=SC2086
    ${CC:-gcc} $flags -I"$T/$1" -o "$T/$1.so" "$T/$1/benzina.c" $libs
    strip "$T/$1.so"
    wc -c < "$T/$1.so" > "$T/$1.bytes"
}
thousands() { sed -E ':a; s/([0-9])([0-9]{3})($|,)/\1,\2\3/; ta'; }
number=0; lanes=0
while read -r without; do
    number=$((number + 1))
    if [ -n "$lines_only" ]; then
        made=$PAIRS/$(echo "${without:-nothing}" | tr ' ' '_')
        if [ -z "$PAIRS" ] || [ ! -d "$made" ]; then
            made=$T/$number
            mkdir "$made"
            # shellcheck disable=SC2086
            if [ -z "$without" ]; then cp benzina.c benzina_kernels.cu "$made/"
            else "${PYTHON:-python3}" tests/make/without.py "$made" $without; fi
        fi
        cat "$made/benzina.c" "$made/benzina_kernels.cu" | wc -l > "$T/$number.lines"
    else
        make --no-print-directory -s BUILD="$build" WITHOUT="$without" DIST="$T/$number" dist > /dev/null
        grep -c -v '^[0-9,]*,$' "$T/$number/benzina.c" > "$T/$number.lines"
        bytes_of "$number" &
        lanes=$((lanes + 1)); [ $((lanes % 2)) -ne 0 ] || wait
    fi
    echo "$without" > "$T/$number.without"
done <<EOF
$archives AUGMENT

$archives
$archives CUDA
SHARDS STILLS
EOF
wait
i=0
while [ $i -lt $number ]; do
    i=$((i + 1))
    without=$(cat "$T/$i.without")
    printf '| %s | %s |' "${without:+\`$without\`}" "$(thousands < "$T/$i.lines")" | sed 's/^|  |/| nothing |/'
    if [ -n "$lines_only" ]; then echo; else echo " $(thousands < "$T/$i.bytes") |"; fi
done
rm -rf "$T"
