#!/bin/sh
# The lines of the rooms that read files which no input of the fuzz targets reaches, by room and function: what seeds.sh gives,
# tests/data/crashers and the corpora of earlier runs ($BUILD/fuzz/corpus) have between them.
# Usage, from the repository's root: sh tests/fuzz/uncovered.sh [BUILD [FIRST-ROOM LAST-ROOM]]. Rooms by their numbers in benzina.c.
# Needs clang and llvm-cov of the same version (LLVM: the folder of llvm-profdata and llvm-cov). README.md has the reasons.
BUILD=${1:-build}; first=${2:-12}; last=${3:-47}
CLANG=${CLANG:-clang}
LLVM=${LLVM:-$(dirname "$(readlink -f "$(command -v "$CLANG")")")}
F="$BUILD/fuzz/coverage"
mkdir -p "$F" && rm -rf "$F"/*.profraw "$F"/seeds || exit 1
[ -x "$LLVM/llvm-cov" ] || { echo "SKIP uncovered lines: no llvm-cov in $LLVM [llvm]"; exit 0; }

if [ ! -x "$F/fuzz" ] || [ -n "$(find benzina.c benzina.h tests/fuzz -newer "$F/fuzz")" ]; then
    # shellcheck disable=SC2046
    "$CLANG" -std=c11 -O1 -I. -fprofile-instr-generate -fcoverage-mapping -DBENZINA_STATIC -DBENZINA_NO_CUDA \
        $(pkg-config --cflags libavcodec libavutil libjpeg) -o "$F/fuzz" tests/fuzz/main.c \
        $(pkg-config --libs libavcodec libavutil libjpeg) -lm -lpthread || exit 1
fi
. tests/fuzz/seeds.sh
for target in $("$F/fuzz" list); do
    LLVM_PROFILE_FILE="$F/seeds.profraw" seeds "$target" "$F/fuzz" "$F/seeds/$target" >&2 || exit 1
    corpus="$BUILD/fuzz/corpus/$target"
    [ -d "$corpus" ] || corpus=
    # shellcheck disable=SC2086
    LLVM_PROFILE_FILE="$F/$target.profraw" "$F/fuzz" "$target" replay "$F/seeds/$target" tests/data/crashers $corpus >&2 || exit 1
done
rm -f "$F/seeds.profraw"
"$LLVM/llvm-profdata" merge -o "$F/all.profdata" "$F"/*.profraw &&
"$LLVM/llvm-cov" show -use-color=0 -instr-profile="$F/all.profdata" "$F/fuzz" benzina.c |
awk -F '|' -v first="$first" -v last="$last" '
    { number = $1 + 0; count = $2; text = substr($0, length($1 FS $2 FS) + 1); gsub(/ /, "", count) }
    text ~ /^\/\* ====+ [0-9]+\. / { room = text; sub(/^[^0-9]*/, "", room); sub(/ *=*$/, "", room); at = room + 0 }
    text ~ /^[A-Za-z_].*\(/ && text !~ /;$/ { name = text; sub(/\(.*/, "", name); sub(/.*[ *]/, "", name) }
    at < first || at > last || count == "" { next }
    { lines[room]++; if (!(room in seen)) { seen[room] = 1; order[++rooms] = room } }
    count == "0" { missed[room]++; if (name != told) report[room] = report[room] "  " name "\n"; told = name
        report[room] = report[room] sprintf("    %6d %s\n", number, text) }
    END { for (i = 1; i <= rooms; i++) { r = order[i]; all += lines[r]; not += missed[r]
              printf "%s: %d of %d lines are not reached\n%s", r, missed[r], lines[r], report[r] }
          printf "together: %d of %d lines are not reached\n", not, all }'
