#!/bin/sh
# tool.sh - what the suites of the command-line tool share; they take it in with `. tests/tool/tool.sh`
#
#     sh tests/tool/test_tool.sh build/bzna build        from the repository's root; the others likewise
#
# The second argument is the folder that holds draw_pictures and decode_batch. Prints FAIL and SKIP lines, and a count
# last.
# shellcheck disable=SC2012,SC2034,SC2046,SC2059,SC2153
bzna=${1:?usage: sh $0 build/bzna build}
build=${2:?usage: sh $0 build/bzna build}
data=tests/data
for file in "$bzna" "$build/draw_pictures" "$build/decode_batch" $data/mini_h265.json; do
    if [ ! -e "$file" ]; then echo "FAIL $file is not there"; echo "$0: 0 passed, 1 failed, 0 skipped"; exit 1; fi
done
LC_ALL=C
export LC_ALL

t=$(mktemp -d "${TMPDIR:-/tmp}/test_tool.XXXXXX") || exit 1
trap 'rm -rf "$t"' EXIT
trap 'exit 1' HUP INT TERM
passed=0 failed=0 skipped=0

# A python3, with numpy if possible.
for python in "$PYTHON" python3 /usr/bin/python3; do "$python" -c 'import numpy' 2>/dev/null && break; python=; done
numpy=$python
python=${python:-$(command -v python3)}
# What python3 loads, in which no sanitizer is.
if [ -n "$SANITIZE" ]; then library=; else library=$(cd "$build" && pwd)/libbenzina.so; fi

# ON_WINDOWS=1: the tool is a Windows program, started by Wine. What Windows does not have is skipped then.
libcuda=libcuda.so.1 libnvcuvid=libnvcuvid.so.1
if [ -n "$ON_WINDOWS" ]; then libcuda=nvcuda.dll libnvcuvid=nvcuvid.dll; fi
pass() { passed=$((passed + 1)); }
fail() { failed=$((failed + 1)); echo "FAIL $1"; shift; for line; do printf '%s\n' "$line" | sed 's/^/  /'; done; }
skip() { skipped=$((skipped + 1)); echo "SKIP $1: $2"; }

# run COMMAND...: its exit status in $status, its output in $t/out and $t/err
run() { status=0; "$@" >"$t/out" 2>"$t/err" || status=$?; }

# expect STATUS NAME COMMAND...: passes when the command ends so
expect() {
    wanted=$1 name=$2
    shift 2
    run "$@"
    if [ "$status" -eq "$wanted" ]; then pass; else fail "$name" "$*" "exit status $status, not $wanted" "$(head -n 5 "$t/err")"; fi
}

# says FILE TEXT NAME: passes when the file holds the text
says() { if grep -qF -e "$2" "$1"; then pass; else fail "$3" "\"$2\" is not in:" "$(head -n 5 "$1")"; fi; }

# same NAME ACTUAL EXPECTED
same() { if [ "$2" = "$3" ]; then pass; else fail "$1" "is  $2" "not $3"; fi; }

# refused STATUS TEXT NAME COMMAND...: ends with the status, prints nothing on stdout, and says the text on stderr
refused() {
    wanted=$1 text=$2 name=$3
    shift 3
    run "$@"
    if [ "$status" -eq "$wanted" ] && grep -qF -e "$text" "$t/err" && grep -q '^bzna: ' "$t/err" && [ ! -s "$t/out" ]; then pass
    else fail "$name" "$*" "exit status $status, not $wanted, or without \"$text\":" "$(head -n 5 "$t/err")"; fi
}

# json FILE: passes where it is JSON, as far as an awk program can tell: strings closed, brackets in pairs
json_ok() {
    awk '{ for (i = 1; i <= length($0); i++) { c = substr($0, i, 1)
             if (inside) { if (c == "\\") i++; else if (c == "\"") inside = 0; else if (c < " ") bad = 1 }
             else if (c == "\"") inside = 1
             else if (c == "{" || c == "[") stack = c stack
             else if (c == "}" || c == "]") { if (substr(stack, 1, 1) != (c == "}" ? "{" : "[")) bad = 1; stack = substr(stack, 2) } } }
         END { exit bad || inside || stack != "" || NR == 0 }' "$1"
}
json() { if json_ok "$1"; then pass; else fail "$2" "not JSON:" "$(head -n 5 "$1")"; fi; }

# ppm_size FILE: "width height"
ppm_size() { sed -n '2{p;q;}' "$1" 2>&1; }

# field NAME <JSON on one line: the value of its first field of that name, without quotes
field() { sed -n "s/.*\"$1\": *\"\\{0,1\\}\\([^\",}]*\\).*/\\1/p" | head -n 1; }


# names DATA [OPTION...]: target and the last part of the name of each sample
names() { "$bzna" list --json "$@" | sed -n 's/.*"target":\([^,]*\),.*"filename":"\{0,1\}\([^",]*\).*/\1 \2/p' | sed 's,[^ ]*/,,' | awk '{ printf "%s%s ", $1, $2 }'; }


# ---- pictures ----

# pixel FILE.ppm WIDTH HEIGHT X Y: red, green and blue
pixel() { tail -c $(($2 * $3 * 3)) "$1" 2>&1 | od -An -v -tu1 -j $((($5 * $2 + $4) * 3)) -N 3 2>&1 | tr -s ' ' ' ' | sed 's/^ //; s/ $//'; }

# bytes_of FILE.ppm COUNT: the last COUNT bytes as numbers, one a line
bytes_of() { tail -c "$2" "$1" 2>&1 | od -An -v -tu1 | tr -s ' ' '\n' | grep .; }

# psnr A.ppm B.ppm: in whole dB
psnr() {
    size=$(ppm_size "$1")
    same "an extracted picture is as large as its source" "$(ppm_size "$2")" "$size"
    count=$((${size% *} * ${size#* } * 3))
    if [ -n "$python" ]; then
        db=$("$python" -c 'import math, operator, sys
count = int(sys.argv[3])
a, b = (open(name, "rb").read()[-count:] for name in sys.argv[1:3])
differences = list(map(operator.sub, a, b))
s = sum(map(operator.mul, differences, differences))
print(int(10 * math.log10(255 * 255 * count / s)) if s else 99)' "$1" "$2" "$count")
        return
    fi
    bytes_of "$1" $count >"$t/a" && bytes_of "$2" $count >"$t/b"
    db=$(paste "$t/a" "$t/b" | awk '{ d = $1 - $2; s += d * d } END { print int(s ? 10 * log(255 * 255 * NR / s) / log(10) : 99) }')
}

field_all() { sed -n "s/.*\"$1\":\"\\{0,1\\}\\([^\",}]*\\).*/\\1/p" "$t/out" | tr '\n' ' '; }

# A gray JPEG of 24x16 whose corners are 32, 80, 176, 224, with an EXIF orientation.
oriented_jpeg() {
    printf '\377\330\377\341\000\042Exif\000\000MM\000*\000\000\000\010\000\001\001\022\000\003\000\000\000\001\000\0'"$(($1 / 8))$(($1 % 8))"'\000\000\000\000\000\000'
    printf '\377\333\000\103\000'
    i=0
    while [ $i -lt 64 ]; do printf '\100'; i=$((i + 1)); done
    printf '\377\304\000\032\000\000\000\007\000\000\000\000\000\000\000\000\000\000\000\000\000\000\001\002\003\004\005\006\377\304\000\024\020\001\000'
    printf '\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\377\300\000\013\010\000\020\000\030\001\001\021\000\377\332\000\010\001\001'
    printf '\000\000\077\000\206\224\155\060\332\123\377\331'
}

# frames FILE: MD5s of the frames that ffmpeg decodes, each of its own size
frames() { ffmpeg -v error -noautorotate -i "$1" -noautoscale -f framemd5 - 2>&1 | sed '/^#/d; s/.*, *//'; }

# found FILE WIDTH HEIGHT: which of the gray values A to D stands in which corner
found() {
    for xy in "2 2" "$(($2 - 3)) 2" "2 $(($3 - 3))" "$(($2 - 3)) $(($3 - 3))"; do
        # shellcheck disable=SC2086  # two words
        pixel "$1" "$2" "$3" $xy; done | awk '{ printf "%s", $1 < 56 ? "A" : $1 < 128 ? "B" : $1 < 200 ? "C" : "D" }'
}

# ---- what bzna pack writes while it runs ----

# done_files LOG: how many files are done
done_files() { grep -c '^[0-9a-f]* [-+] ' "$1" 2>/dev/null || :; }

# wait_done LOG FILES: until so many are done
wait_done() {
    tries=0
    while [ $tries -lt 1000 ] && [ "0$(done_files "$1")" -lt "$2" ]; do tries=$((tries + 1)); sleep 0.01; done
}

# finish: the closing line, and the exit status
finish() { echo "$0: $passed passed, $failed failed, $skipped skipped"; [ $failed -eq 0 ]; }
