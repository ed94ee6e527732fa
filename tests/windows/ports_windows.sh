#!/bin/sh
# Windows: the library, its suites, the tool and the fakes of NVIDIA's libraries, built by MinGW-w64 and run by Wine.
# WINDOWS: the folder that `sh tests/make/windows.sh FOLDER FFMPEG` has made, with libavcodec and libjpeg-turbo
# (BUILD/windows); without it, what decodes nothing runs. What the tool writes must be what BZNA, this system's, writes.
# Usage: sh tests/windows/ports_windows.sh BZNA BUILD, from the repository root (make test-ports). ONLY: suites, "tool"
# or "checks", the last of which are of the tool without test_tool.sh.
BZNA=${1:-build/bzna}; BUILD=${2:-build}
case $BZNA in /*) ;; *) BZNA=$PWD/$BZNA ;; esac
W=${WINDOWS:-$BUILD/windows}; T="$BUILD/tests/windows"
cc=x86_64-w64-mingw32-gcc
export WINEDEBUG=-all WINEPATH="Z:$(cd "$W" 2>/dev/null && pwd | tr / '\\')\\bin"
export CUDA_VISIBLE_DEVICES=                                # suites without fakes are of the CPU
has_decoders() { [ -e "$W/lib/libavcodec.dll.a" ] && [ -e "$W/lib/libjpeg.a" ] && pkg-config --exists ffnvcodec && [ -s "$BUILD/benzina_kernels.ptx.h" ]; }

# -Wno-float-conversion: MinGW's isfinite makes a float of a double. -Wno-attributes: its pedantry about FFmpeg's
# headers.
warn="-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -Wno-float-conversion"
flags="-std=c11 -ffp-contract=off -I."
static="-static-libgcc -Wl,-Bstatic -lpthread -Wl,-Bdynamic"
if has_decoders; then
    flags="$flags -I$BUILD -isystem $W/include -isystem $T/include"; libs="-L$W/lib -lavcodec -lavutil -l:libjpeg.a"
else
    flags="$flags -DBENZINA_NO_CUDA -DBENZINA_NO_AVCODEC -DBENZINA_NO_JPEG"; libs=
fi
plain="numbers platforms truth basics cursor boxes dataset tar recordio records lists weighted writer writer_fields dlpack pictures host"
decoding="augment outputs changes contract decode fields files folder filters format heif joint jpeg kernels given loader no_threads provider resampling rules runs sampler
    slices statistics training transforms ptx"
on_fakes="outputs_nvdec outputs_device heif_nvdec records_device jpeg_device loader_nvdec training_nvdec augment_device sessions driver nvparser races soak limits"

# The formats that need no library, for suites of formats and for the tool.
less="-DBENZINA_FORMATS_NO_STILLS -DBENZINA_FORMATS_NO_TIFF -DBENZINA_FORMATS_NO_JPEG2000 -DBENZINA_FORMATS_NO_JXL"
job() { # suite: its log, and its closing line in the form of the suites'
    program="$T/bin/test_$1.exe"
    case " $on_fakes " in *" $1 "*) folder="$T/fakes"; WINEPATH="$WINEPATH;Z:$(cd "$T/fakes" && pwd | tr / '\\')"; unset CUDA_VISIBLE_DEVICES ;; *) folder="$T/bin" ;; esac
    program="$folder/test_$1.exe"
    formats=$less
    for f in examples/formats/*.c; do                       # but those that the suite includes
        grep -q "include.*/${f##*/}\"" "tests/unit/test_$1.c" || formats="$formats $f"
    done
    grep -q -e examples/formats -e with_formats.h "tests/unit/test_$1.c" || formats=
    # shellcheck disable=SC2086
    if $cc $flags -O0 -Werror=incompatible-pointer-types -D_WIN32_WINNT=0x0602 \
        -Itests/windows/include "-DTEST_BUILD=\"$T\"" -DTEST_EMULATED -o "$program" "tests/unit/test_$1.c" $formats \
        $libs $static -lsynchronization; then timeout 900 wine "$program"
    else echo "FAIL test_$1 does not compile"; echo "test_$1: 0 passed, 1 failed"; fi > "$T/$1.log" 2>&1
    echo "exit status $?" >> "$T/$1.log"
}
if [ "$3" = --job ]; then job "$4"; exit 0; fi

passed=0; failed=0; skipped=0
pass() { passed=$((passed + 1)); }
fail() { failed=$((failed + 1)); echo "FAIL $1"; shift; for line; do printf '  %s\n' "$line" | head -n 12; done; }
skip() { skipped=$((skipped + 1)); echo "SKIP $1: $2"; }
have() { command -v "$1" >/dev/null 2>&1; }
end() { echo "tests/windows/ports_windows.sh: $passed passed, $failed failed, $skipped skipped"; [ "$failed" -eq 0 ]; exit; }
check() { # name, command...
    name=$1; shift
    if "$@" > "$T/log" 2>&1; then pass; else fail "$name" "$(tail -n 12 "$T/log")"; fi
}
have $cc || { skip windows "no $cc here [gcc-mingw-w64-x86-64]"; end; }
have wine || { skip windows "no wine here [wine64]"; end; }
rm -rf "$T"; mkdir -p "$T/bin" "$T/fakes" "$T/tests" "$T/include"
pkg-config --exists ffnvcodec && ln -s "$(pkg-config --variable=includedir ffnvcodec)/ffnvcodec" "$T/include/ffnvcodec"

# shellcheck disable=SC2086
check "the library compiles without warnings" $cc $flags $warn -O1 -c benzina.c -o "$T/benzina.o"
suites=$plain
if has_decoders; then
    suites="$suites $decoding $on_fakes"
    fakes="-std=c11 -O1 -shared -ffp-contract=off -D_GNU_SOURCE -D_WIN32_WINNT=0x0602 -Wl,--export-all-symbols -Wl,--exclude-libs,ALL"
    # shellcheck disable=SC2086
    check "the fake of nvcuda.dll" $cc $fakes $flags -o "$T/fakes/nvcuda.dll" tests/fake/fake_cuda.c \
        -Wl,--out-implib,"$T/nvcuda.dll.a" $static -lsynchronization
    # shellcheck disable=SC2086
    check "the fake of nvcuvid.dll" $cc $fakes $flags -o "$T/fakes/nvcuvid.dll" tests/fake/fake_nvcuvid.c \
        "$T/nvcuda.dll.a" $libs $static -lsynchronization
else
    suites="$suites limits"
    skip "decoders, the tool and the fakes" "no libavcodec for Windows here: sh tests/make/windows.sh $W FFMPEG"
fi

# --- the suites ---
[ -n "$ONLY" ] || skip stream "streams read commands and pipes of POSIX, and are not of Windows"
[ -n "$ONLY" ] || skip faults "the calls that fail there one by one are those of POSIX"
[ -n "$ONLY" ] || skip held "the calls that it counts are those of POSIX"
[ -z "$ONLY" ] || suites=$(for s in $suites; do case " $ONLY " in *" $s "*) echo "$s" ;; esac; done)
# shellcheck disable=SC2086
[ -z "$suites" ] || printf '%s\n' $suites | xargs -P "$(getconf _NPROCESSORS_ONLN)" -n 1 sh "$0" - "$BUILD" --job
for s in $suites; do
    log="$T/$s.log"; line=$(grep -aE ' [0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)
    p=$(echo "$line" | sed -n 's/.* \([0-9]*\) passed.*/\1/p'); f=$(echo "$line" | sed -n 's/.* \([0-9]*\) failed.*/\1/p'); k=$(echo "$line" | sed -n 's/.* \([0-9]*\) skipped.*/\1/p')
    grep -a '^FAIL' "$log" | sed "s/^FAIL /FAIL $s: /"
    sed -n "s/^SKIP /SKIP $s: /p" "$log"
    if [ -z "$line" ]; then echo "FAIL $s: $(tail -n 1 "$log"), without a closing line"; grep -av '^SKIP' "$log" | tail -n 5; f=1; fi
    [ "${f:-0}" -eq 0 ] || grep -aE '^  tests' "$log" | head -n 6
    passed=$((passed + ${p:-0})); failed=$((failed + ${f:-0})); skipped=$((skipped + ${k:-0}))
done
# Batches of random settings, from data of all kinds, on the CPU and on the fakes.
replay() { "$@" 2>&1 | tr -d '\r' | grep -a '^hash'; }
if [ -e "$T/fakes/test_soak.exe" ] && [ -x "$BUILD/tests/test_soak" ]; then
    fakes="$WINEPATH;Z:$(cd "$T/fakes" && pwd | tr / '\\')"
    for round in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
        here=$(replay "$BUILD/tests/test_soak" --replay 7 $round)
        there=$(unset CUDA_VISIBLE_DEVICES; WINEPATH=$fakes; replay wine "$T/fakes/test_soak.exe" --replay 7 $round)
        if [ -n "$here" ] && [ "$here" = "$there" ]; then pass
        else fail "test_soak --replay 7 $round has other batches on Windows" "here: $here" "there: $there"; fi
    done
fi
case $ONLY in ""|tool|checks) ;; *) end ;; esac
has_decoders || end

# --- the tool ---
# shellcheck disable=SC2086
check "the tool builds" $cc $flags $less -Iexamples/formats -Wall -Wextra -Wshadow -Werror -O0 -DBZNA_NO_STREAMS -DBZNA_JPEG -o "$T/bin/bzna.exe" \
    examples/bzna/*.c examples/formats/*.c "$T/benzina.o" -L"$W/lib" -lavformat -lswscale \
    $libs $static -lshell32
[ -e "$T/bin/bzna.exe" ] || end
own="$PWD/$T/bzna"
# Where a test has this system's fakes found, Wine finds its own.
mkdir -p "$T/novideo"; cp "$T/fakes/nvcuda.dll" "$T/novideo"
cat > "$own" <<EOF
#!/bin/sh
found=
if [ -s "\$LD_LIBRARY_PATH/libnvcuvid.so.1" ]; then found=fakes; elif [ -s "\$LD_LIBRARY_PATH/libcuda.so.1" ]; then found=novideo; fi
[ -z "\$found" ] || { unset CUDA_VISIBLE_DEVICES; WINEPATH="\$WINEPATH;Z:$(cd "$T" && pwd | tr / '\\')\\\\\$found"; }
unset LD_LIBRARY_PATH
exec wine "$PWD/$T/bin/bzna.exe" "\$@"
EOF
chmod +x "$own"
if [ "$ONLY" != checks ]; then
ON_WINDOWS=1 sh tests/tool/test_tool.sh "$own" "$BUILD" > "$T/tool.log" 2>&1
line=$(grep -a 'test_tool.sh: [0-9]* passed' "$T/tool.log")
grep -aE '^(FAIL|SKIP)' "$T/tool.log" | sed 's/^\(....\) /\1 tool: /'
if [ -z "$line" ]; then fail "test_tool.sh has no closing line" "$(tail -n 5 "$T/tool.log")"; else
    passed=$((passed + $(echo "$line" | sed 's/.*: \([0-9]*\) passed.*/\1/'))); failed=$((failed + $(echo "$line" | sed 's/.* \([0-9]*\) failed.*/\1/')))
    skipped=$((skipped + $(echo "$line" | sed 's/.* \([0-9]*\) skipped.*/\1/')))
fi
fi

# What both systems' tools make of the same must be the same bytes; out/a is this system's, out/b Windows'.
t="$T/tool"; mkdir -p "$t/a" "$t/b"
same() { # name, files below a and b
    if cmp "$t/a/$2" "$t/b/$2" > "$T/log" 2>&1; then pass; else fail "$1" "$(cat "$T/log")"; fi
}
both() { # name, arguments with OUT for the folder: both run, and their output is compared, too
    what=$1; shift
    for side in a b; do
        tool=$BZNA; [ $side = a ] || tool=$own
        (for word; do shift; set -- "$@" "$(printf '%s' "$word" | sed "s|OUT|$t/$side|")"; done; "$tool" "$@" > "$t/$side/said" 2> "$t/$side/err"; echo "$?" >> "$t/$side/said")
        sed -i "s|$t/$side|OUT|g" "$t/$side/said"
    done
    same "$what says the same" said
}
data=tests/data
"$BUILD/draw_pictures" "$t/drawn" 16 > /dev/null
"$BZNA" pack "$t/drawn" -o "$t/jpeg.bzna" --codec jpeg > /dev/null 2>&1
"$BZNA" convert "$t/jpeg.bzna" -o "$t/jpegs/" > /dev/null 2>&1
mv "$t/jpegs/charts" "$t/jpegs/z$(printf '\303\274')ge"
"$BZNA" pack "$t/jpegs" -o "$t/a/copy.bzna" --codec copy > /dev/null 2>&1; "$own" pack "$t/jpegs" -o "$t/b/copy.bzna" --codec copy > /dev/null 2>&1
same "pack --codec copy of a folder with a name that is not ASCII" copy.bzna
both "list --json" list --json $data/mini_h265.bzna
both "list of a copy" list OUT/copy.bzna
both "info" info $data/mini_h265.bzna
both "verify --decode" verify --decode $data/mini_h265.bzna
both "merge" merge $data/mini_h265.bzna $data/mini_h264.bzna -o OUT/merged.bzna; same "merge" merged.bzna
printf "2\n5\n3\n" > "$t/indices"
both "subset" subset $data/mini_h265.bzna -o OUT/subset.bzna --indices "$t/indices"; same "subset" subset.bzna
both "convert to a tar" convert OUT/copy.bzna -o OUT/x.tar; same "a tar" x.tar
both "convert to RecordIO" convert OUT/copy.bzna -o OUT/x.rec; same "a .rec" x.rec; same "its index" x.idx
both "extract" extract $data/mini_h265.bzna 3 -o OUT/x.ppm; same "a decoded picture" x.ppm
for side in a b; do tool=$BZNA; [ $side = a ] || tool=$own; "$tool" batch $data/mini_h265.bzna -o "$t/$side/batch" --batch 8 --size 96 --seed 3 --shuffle --warp random --flip 0.5 > /dev/null; done
for file in "$t"/a/batch/*.ppm; do same "a warped picture, $(basename "$file")" "batch/$(basename "$file")"; done

# --- what Windows has of its own ---
long=$(printf 'a%.0s' $(seq 120)); deep="$t/$long/$long/$long"
check "a path of more than 260 characters" \
    sh -c "mkdir -p '$deep' && cp -r '$t/jpegs' '$deep' && '$own' pack '$deep/jpegs' -o '$deep/x.bzna' --codec copy && cmp '$deep/x.bzna' '$t/a/copy.bzna'"
check "paths with backslashes" sh -c "cd '$t' && '$own' pack '.\\jpegs' -o 'b\\back.bzna' --codec copy && cmp b/back.bzna a/copy.bzna"
check "a path with a drive" sh -c "'$own' info 'Z:$(cd "$t/a" && pwd | tr / '\\')\\copy.bzna' | grep -q 'samples *16'"
check "bytes are not translated" sh -c "'$own' extract $data/mini_h265.bzna 0 -o - --as ppm > '$t/b/stdout' && '$BZNA' extract $data/mini_h265.bzna 0 -o - --as ppm | cmp - '$t/b/stdout'"
check "lines end in a line feed alone" sh -c "! '$own' list $data/mini_h265.bzna | grep -q \"\$(printf '\\r')\""
check "a finished archive replaces another at once" \
    sh -c "cp $data/mini_h265.bzna '$t/over.bzna' && '$own' pack '$t/jpegs' -o '$t/over.bzna' --codec copy --overwrite && cmp '$t/over.bzna' '$t/a/copy.bzna' && [ ! -e '$t/over.bzna.partial' ]"
# What another program has open is not replaced: it stays whole, and the new archive lies beside it.
check "an archive that is read stays, and the new one is beside it" \
    sh -c "cp $data/mini_h265.bzna '$t/read.bzna'; '$own' bench '$t/read.bzna' --seconds 8 --batch 4 --size 32 & sleep 4
    ! '$own' pack '$t/jpegs' -o '$t/read.bzna' --codec copy --overwrite || exit 0; cmp '$t/read.bzna' $data/mini_h265.bzna || exit 1; wait \$!
    cmp '$t/read.bzna.partial' '$t/a/copy.bzna'"
check "two packs of one archive are refused" \
    sh -c "'$own' pack '$t/drawn' -o '$t/twice.bzna' --preset placebo > /dev/null 2>&1 & sleep 3
    '$own' pack '$t/drawn' -o '$t/twice.bzna' --preset ultrafast 2>&1 | grep 'another bzna is writing it'; said=\$?; wait \$!; exit \$said"
# Ctrl-C, which Wine makes of SIGINT: what is done stays, and --resume goes on to the same bytes.
"$BUILD/draw_pictures" "$t/many" 60 > /dev/null
wine "$PWD/$T/bin/bzna.exe" pack "$t/many" -o "$t/cut.bzna" --jobs 2 > "$t/cut.log" 2>&1 &
pid=$!; seconds=0
until [ -s "$t/cut.bzna.partial" ] && [ "$(wc -c < "$t/cut.bzna.partial")" -gt 60000 ] || [ $seconds -gt 60 ]; do sleep 1; seconds=$((seconds + 1)); done
kill -INT $pid; wait $pid
check "Ctrl-C leaves what is done" sh -c \
    "cat '$t/cut.log'; grep -q 'bzna: interrupted' '$t/cut.log' && grep -q 'resume' '$t/cut.log' && [ ! -e '$t/cut.bzna' ] && [ -s '$t/cut.bzna.partial.log' ]"
check "--resume goes on" "$own" pack "$t/many" -o "$t/cut.bzna" --jobs 2 --resume
check "an uninterrupted run" "$own" pack "$t/many" -o "$t/whole.bzna" --jobs 3
check "both are the same bytes" cmp "$t/cut.bzna" "$t/whole.bzna"
check "the GPU that the fakes have is found" \
    sh -c "unset CUDA_VISIBLE_DEVICES; WINEPATH='$WINEPATH;Z:$(cd "$T/fakes" && pwd | tr / '\\')' '$own' devices | grep -i nvdec"
end
