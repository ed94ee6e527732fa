#!/bin/sh
# The lines of the rooms that read files which no input of the fuzz targets reaches, by room and function: what seeds.sh
# gives, tests/data/crashers and the corpora of earlier runs ($BUILD/fuzz/corpus) have between them. Usage, from the
# repository's root: sh tests/fuzz/uncovered.sh [BUILD [FIRST-ROOM LAST-ROOM]]. Rooms by their numbers in benzina.c.
# Needs clang and llvm-cov of the same version (LLVM: the folder of llvm-profdata and llvm-cov). The reasons stand in
# uncovered.txt.
BUILD=${1:-build}; first=${2:-13}; last=${3:-42}
CLANG=${CLANG:-clang}
LLVM=${LLVM:-$(dirname "$(readlink -f "$(command -v "$CLANG")")")}
F="$BUILD/fuzz/coverage"
mkdir -p "$F" && rm -rf "$F"/*.profraw "$F"/seeds || exit 1
export LLVM_PROFILE_FILE="$F/seeds.profraw"
[ -x "$LLVM/llvm-cov" ] || { echo "SKIP uncovered lines: no llvm-cov in $LLVM [llvm]"; exit 0; }

if [ ! -x "$F/fuzz" ] || [ -n "$(find benzina.c benzina.h examples/formats tests/fuzz -newer "$F/fuzz")" ]; then
    # shellcheck disable=SC2046
    "$CLANG" -std=c11 -O1 -I. -fprofile-instr-generate -fcoverage-mapping -DBENZINA_STATIC -DBENZINA_NO_CUDA \
        $(pkg-config --cflags libavcodec libavutil libjpeg) -o "$F/fuzz" tests/fuzz/main.c \
        $(pkg-config --libs libavcodec libavutil libjpeg) -lm -lpthread || exit 1
fi
. tests/fuzz/seeds.sh
for target in $("$F/fuzz" list); do
    seeds "$target" "$F/fuzz" "$F/seeds/$target" >&2 || exit 1
    corpus="$BUILD/fuzz/corpus/$target"
    [ -d "$corpus" ] || corpus=
    # shellcheck disable=SC2086
    LLVM_PROFILE_FILE="$F/$target.profraw" "$F/fuzz" "$target" replay "$F/seeds/$target" tests/data/crashers $corpus \
        >&2 || exit 1
done
rm -f "$F/seeds.profraw"
"$LLVM/llvm-profdata" merge -o "$F/all.profdata" "$F"/*.profraw &&
"$LLVM/llvm-cov" show -use-color=0 -instr-profile="$F/all.profdata" "$F/fuzz" benzina.c |
awk -F '|' -v first="$first" -v last="$last" '
    FILENAME ~ /uncovered.txt$/ && /^#/ { next }
    FILENAME ~ /uncovered.txt$/ && /^[a-z]/ { key = $0; sub(/:.*/, "", key); keys[++key_count] = key; why[key] = $0; next }
    FILENAME ~ /uncovered.txt$/ { n = split($0, words, " "); for (i = 1; i <= n; i++) reason_of[words[i]] = key; next }
    { number = $1 + 0; count = $2; text = substr($0, length($1 FS $2 FS) + 1); gsub(/ /, "", count) }
    text ~ /^\/\* ====+ [0-9]+\. / { room = text; sub(/^[^0-9]*/, "", room); sub(/ *=*$/, "", room); at = room + 0; name = "" }
    text ~ /^[A-Za-z_].*\(/ && text !~ /;$/ { name = text; sub(/\(.*/, "", name); sub(/.*[ *]/, "", name) }
    at < first || at > last || count == "" || text ~ /^#|^$|^ *}$/ { next }
    { all++; lines[at]++; rooms[at] = room }
    count == "0" {
        if (number != before + 1 || reason == "?" || name != told) {        # the lines that follow are of one statement, or block
            reason = at in reason_of ? reason_of[at] : name in reason_of ? reason_of[name] : "?"
            if (text ~ /fail_memory|NULL;$/) reason = "memory"
            else if (text ~ /E_LIMIT|LIMIT_/) reason = "limit"
            else if (reason == "?" && text ~ /_fail|_FAIL|_refuse|return (err->)?status;|return (-1|0|1|out|size|BZNA_OK|NULL|UINT32_MAX|!z->in.overrun);|return;|status = /)
                reason = "refusal"
        }
        before = number; not++; missed[at]++; of_reason[reason]++
        report[at] = report[at] (name == told ? "" : "  " name "\n") sprintf("    %6d %-8s%s\n", number, reason, text); told = name
    }
    END { for (i = first; i <= last; i++) if (i in rooms)
              printf "%s: %d of %d lines are not reached\n%s", rooms[i], missed[i], lines[i], report[i]
          printf "together: %d of %d lines are not reached\n", not, all
          for (i = 1; i <= key_count; i++) printf "%6d %s\n", of_reason[keys[i]], why[keys[i]]
          printf "%6d without a reason\n", of_reason["?"] }' tests/fuzz/uncovered.txt -
