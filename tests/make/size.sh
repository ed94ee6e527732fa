#!/bin/sh
# What `make size` prints: tokens of each room, the longest functions and rooms, and the figures of the pair beside
# those that 0.4 may have at most. Nothing is judged here.
#     sh tests/make/size.sh [BUILD]
build=${1:-build}; pair="benzina.c benzina.h benzina_kernels.cu"; T=$build/size.$$
mkdir -p "$build"
# shellcheck disable=SC2086
LC_ALL=C awk -f tests/make/size.awk $pair | tee "$T"
tokens=$(awk 'END { print $1 }' "$T")

echo; echo "The longest functions, by lines:"
# shellcheck disable=SC2086
awk '/^[a-z].*\)[[:space:]]*\{?[[:space:]]*$/ { begin = FNR; name = $0 }
     /^}/ { if (begin) { sub(/\(.*/, "", name); sub(/.*[ *]/, "", name); print FNR - begin, FILENAME, name } begin = 0 }' \
    $pair | sort -rn | awk 'NR <= 12 { printf "%7d  %s %s\n", $1, $2, $3 }'
echo; echo "The longest rooms, by lines:"
awk '/^\/\* ==== / { if (begin) print NR - begin, room; begin = NR; room = $0; sub(/^\/\* ==== /, "", room); sub(/ =+.*/, "", room) }
     END { print NR - begin, room }' benzina.c | sort -rn | awk 'NR <= 12 { n = $1; $1 = ""; printf "%7d %s\n", n, $0 }'

# Characters of comments, of a thousand.
comments=$(LC_ALL=C awk '{
        line = $0; all += length(line) + 1
        while (line != "") {
            if (inside) {
                end = index(line, "*/"); n = end ? end + 1 : length(line)
                text += n; inside = !end; line = substr(line, n + 1)
            } else if (match(line, /^[^"\/]*("([^"\\]|\\.)*"[^"\/]*|\/[^*])*\/\*/)) {
                line = substr(line, RLENGTH + 1); text += 2; inside = 1
            } else break
        }
    } END { printf "%d", 1000 * text / all }' benzina.c)
functions=$(awk -v list=functions -f tests/make/abi.awk benzina.h | wc -l)
settings=$(awk '/^KEYWORDS = / { inside = 1; next } /^"""/ { inside = 0 } inside && !/^context\./ { n++ }
    END { print n }' tests/make/settings.py)
# shellcheck disable=SC2046
${CC:-gcc} -std=c11 -O2 -ffp-contract=off -fvisibility=hidden -fPIC -shared -w -I. -I"$build" \
    $(pkg-config --cflags libavcodec libavutil libjpeg ffnvcodec 2>/dev/null) -o "$T.so" benzina.c \
    $(pkg-config --libs libavcodec libavutil libjpeg 2>/dev/null) -lm -lpthread -ldl && strip "$T.so" &&
    code=$(wc -c < "$T.so")
thousands() { echo "$1" | sed -E ':a; s/([0-9])([0-9]{3})($|,)/\1,\2\3/; ta'; }
row() { printf '%-52s %12s %12s\n' "$1" "$(thousands "$2")" "$3"; }
echo
row "" now "0.4"
row "tokens of the pair" "$tokens" "<= 195,000"
row "bytes of benzina.c" "$(wc -c < benzina.c)" "< 1,000,000"
row "characters of comments in it, of 1,000" "$comments" 212
row "bytes of the library with CUDA, gcc -O2, stripped" "${code:--}" "<= 520,000"
row "public functions" "$((functions))" "<= 78"
row "settings of a loader" "$settings" "<= 90"
rm -f "$T" "$T.so"
