#!/bin/sh
# The suites in the builds that `make test` does not make here by itself: without the GPU path, without libavcodec,
# without both, without tar and RecordIO; by both compilers with all that this processor has, in gnu mode, which fuses
# multiply and add where it is not told otherwise; and, where their compilers and QEMU are installed, on 64-bit ARM (the
# hosts of Grace Hopper), 32-bit ARM, and s390x, which is big-endian. test_numbers' hashes are the same in all. Suites
# with little or nothing left in a build are only compiled for it; those that know no switch are left out.
# The ports, which are built only if they are named (make test-ports): musl, statically linked; macOS, FreeBSD and
# Windows on ARM by zig's clang, compiled and linked, since nothing here runs them. ports_windows.sh has Windows on
# x86-64. Usage: sh tests/make/test_variants.sh BZNA BUILD [VARIANT...], from the repository root. ZIG: the command of
# zig.
BUILD=${2:-build}
T="$BUILD/tests/variants"
WARN="-Wall -Wextra -Wpedantic -Wconversion -Wshadow $WERROR"
AV_CFLAGS=$(pkg-config --cflags libavcodec libavutil 2>/dev/null) && av=1 || av=
AV_LIBS=$(pkg-config --libs libavcodec libavutil 2>/dev/null)
JPEG_CFLAGS=$(pkg-config --cflags libjpeg 2>/dev/null) && JPEG_LIBS=$(pkg-config --libs libjpeg) ||
    JPEG_CFLAGS=-DBENZINA_NO_JPEG
NV_CFLAGS=$(pkg-config --cflags ffnvcodec 2>/dev/null) && [ -s "$BUILD/benzina_kernels.ptx.h" ] && cuda=1 || cuda=
ZIG=${ZIG:-$(command -v zig || { python3 -c 'import ziglang' 2>/dev/null && echo python3 -m ziglang; })}
export CUDA_VISIBLE_DEVICES=                                # the suites are of the CPU

# The formats that need no library, for suites of formats.
less="-DBENZINA_FORMATS_NO_STILLS -DBENZINA_FORMATS_NO_TIFF -DBENZINA_FORMATS_NO_JPEG2000 -DBENZINA_FORMATS_NO_JXL"

# What a variant is compiled with (cc, flags, libs) and run with (run), which suites of it are run, and what is found in
# all suites that know its switch.
describe() {
    cc=${CC:-cc}; flags=-O0; libs=; run=; suites=; switch=BENZINA_NO_; lenient=; linked=
    standard="-std=c11 -ffp-contract=off"
    neither="-DBENZINA_NO_CUDA -DBENZINA_NO_AVCODEC -DBENZINA_NO_JPEG"
    containers="folder files tar recordio records lists pictures"
    case $1 in
    without_cuda)    flags="$flags $AV_CFLAGS $JPEG_CFLAGS -DBENZINA_NO_CUDA"; libs="$AV_LIBS $JPEG_LIBS"; switch=BENZINA_NO_CUDA
                     suites="loader fields host dataset dlpack" ;;
    without_avcodec) flags="$flags $NV_CFLAGS -I$BUILD -DBENZINA_NO_AVCODEC -DBENZINA_NO_JPEG"; switch=BENZINA_NO_AVCODEC
                     suites="host boxes dataset $containers writer dlpack" ;;
    without_jpeg)    flags="$flags $AV_CFLAGS $NV_CFLAGS -I$BUILD -DBENZINA_NO_JPEG"; libs=$AV_LIBS
                     suites="pictures decode"; switch=BENZINA_NO_JPEG ;;
    without_both)    flags="$flags $neither"
                     suites="host boxes dataset $containers writer dlpack numbers platforms" ;;
    gcc_native|clang_native)
                     cc=${1%_native}; flags="-O3 -march=native $neither"; standard=-std=gnu11
                     suites="kernels numbers"; lenient=-Wno-error ;;    # gcc warns of what it inlines into tests
    without_shards)  flags="$flags $AV_CFLAGS $JPEG_CFLAGS -DBENZINA_NO_CUDA -DBENZINA_NO_SHARDS"; libs="$AV_LIBS $JPEG_LIBS"
                     suites=dataset ;;
    without_threads) flags="$flags $AV_CFLAGS $JPEG_CFLAGS -DBENZINA_NO_CUDA -DBENZINA_NO_THREADS"; libs="$AV_LIBS $JPEG_LIBS"
                     suites="no_threads dataset folder tar recordio records lists pictures"; switch=BENZINA_NO_THREADS ;;
    without_augment) flags="$flags $AV_CFLAGS $JPEG_CFLAGS -DBENZINA_NO_CUDA -DBENZINA_NO_AUGMENT"; libs="$AV_LIBS $JPEG_LIBS"
                     suites="augment outputs"; switch=BENZINA_NO_AUGMENT ;;
    without_mxnet)   flags="$flags $AV_CFLAGS $JPEG_CFLAGS -DBENZINA_NO_CUDA -DBENZINA_NO_MXNET"; libs="$AV_LIBS $JPEG_LIBS"
                     suites=refusals; switch=BENZINA_NO_MXNET ;;
    aarch64)         cc=aarch64-linux-gnu-gcc; flags="-O1 $neither -DTEST_EMULATED"; standard=-std=gnu11
                     run="qemu-aarch64 -L /usr/aarch64-linux-gnu"
                     suites="kernels numbers platforms basics host cursor boxes dataset $containers"
                     suites="$suites writer sampler transforms dlpack" ;;
    aarch64_16k|aarch64_64k)
                     cc=aarch64-linux-gnu-gcc; flags="-O1 $neither -DTEST_EMULATED"; standard=-std=gnu11
                     page=65536; [ "$1" = aarch64_64k ] || page=16384
                     run="env TEST_PAGE=$page qemu-aarch64 -p $page -L /usr/aarch64-linux-gnu"
                     suites="platforms host records numbers" ;;
    arm)             cc=arm-linux-gnueabihf-gcc; flags="-O1 $neither -DTEST_EMULATED"
                     run="qemu-arm -L /usr/arm-linux-gnueabihf"
                     suites="numbers platforms basics host cursor boxes dataset $containers writer"
                     suites="$suites transforms"
                     lenient=-Wno-conversion ;;             # tests put 64-bit sizes into a size_t
    s390x)           cc=s390x-linux-gnu-gcc; flags="-O1 $neither -DTEST_EMULATED"; standard=-std=gnu11
                     run="qemu-s390x -L /usr/s390x-linux-gnu"
                     suites="numbers platforms transforms" ;;
    musl)            cc=musl-gcc; flags="-O1 -static $neither"
                     suites="numbers platforms kernels basics host cursor boxes dataset $containers"
                     suites="$suites writer sampler transforms dlpack no_threads" ;;
    macos_arm64)     cc="$ZIG cc -target aarch64-macos"; flags="$neither"; suites="numbers platforms"; linked=1 ;;
    macos_x86_64)    cc="$ZIG cc -target x86_64-macos"; flags="$neither"; suites="numbers platforms"; linked=1 ;;
    freebsd)         cc="$ZIG cc -target x86_64-freebsd"; flags="$neither"; suites="numbers platforms"; linked=1 ;;
    windows_arm64)   cc="$ZIG cc -target aarch64-windows-gnu"; flags="$neither"; linked=1 ;;
    esac
    flags="$standard $flags -fvisibility=hidden -I. $WARN"
}

# One job of a variant: its log, and its closing line in the form of the suites'.
compiles() { # what, compiler and its arguments...
    what=$1; shift
    if "$@"; then echo "$what: 1 passed, 0 failed"; else does_not_compile "$what"; fi
}
does_not_compile() { echo "FAIL $1 does not compile"; echo "$1: 0 passed, 1 failed"; }
job() { # VARIANT/JOB
    variant=${1%/*}; name=${1#*/}; dir="$T/$variant"
    describe "$variant"
    mkdir -p "$dir/tests"
    case $name in
    library) compiles library $cc $flags -O3 ${run:+$lenient} -c benzina.c -o "$dir/benzina.o" ;;
    formats) for source in examples/formats/*.c; do
                 compiles "$source" $cc $flags $less -c "$source" -o "$dir/formats.o"
             done ;;
    rest)    for source in $(grep -l "$switch" tests/unit/test_*.c); do
                 case " $suites " in *" $(basename "${source#tests/unit/test_}" .c) "*) continue ;; esac
                 compiles "$(basename "$source" .c)" $cc $flags -flto "-DTEST_BUILD=\"$dir\"" -c -o "$dir/rest.o" \
                     "$source"
             done ;;
    *)       formats=$less
             for source in examples/formats/*.c; do         # but those that the suite includes
                 grep -q "include.*/${source##*/}\"" "tests/unit/test_$name.c" || formats="$formats $source"
             done
             grep -q -e examples/formats -e with_formats.h "tests/unit/test_$name.c" || formats=
             if [ -n "$linked" ]; then
                 compiles "$name" $cc $flags "-DTEST_BUILD=\"$dir\"" -o "$dir/tests/test_$name" \
                     "tests/unit/test_$name.c" $formats -lm
             elif $cc $flags $lenient "-DTEST_BUILD=\"$dir\"" -o "$dir/tests/test_$name" "tests/unit/test_$name.c" \
                 $formats $libs -lm -lpthread -ldl
             then $run "$dir/tests/test_$name"; else does_not_compile "$name"; fi ;;
    esac > "$dir/$name.log" 2>&1
    echo "exit status $?" >> "$dir/$name.log"
}
if [ "$3" = --job ]; then job "$4"; exit 0; fi

passed=0; failed=0; skipped=0
skip() { skipped=$((skipped + 1)); echo "SKIP $1: $2"; }
have() { command -v "$1" >/dev/null 2>&1; }
wanted() { # variant: one of those asked for, if any were
    [ -z "$only" ] && return 0
    for w in $only; do [ "$w" = "$1" ] && return 0; done
    return 1
}
jobs=
add() { # variant, jobs besides its suites...
    wanted "$1" || return
    describe "$1"
    for j in $suites; do jobs="$jobs $1/$j"; done
    variant=$1; shift
    for j in "$@"; do jobs="$jobs $variant/$j"; done
}
[ $# -gt 2 ] && shift 2 && only="$*" || only=

if [ -n "$SANITIZE" ]; then
    skip variants "other builds are not what a sanitizer watches"
    echo "tests/make/test_variants.sh: 0 passed, 0 failed, 1 skipped"; exit 0
fi
rm -rf "$T"; mkdir -p "$T"
same="all suites are built so here"
if [ -z "$av" ]; then skip without_cuda "no libavcodec here [libavcodec-dev]"
elif [ -z "$cuda" ]; then skip without_cuda "$same"
else add without_cuda rest; fi
if [ -z "$cuda" ]; then skip without_avcodec "no clang or no nv-codec-headers here [clang libffmpeg-nvenc-dev]"
elif [ -z "$av" ]; then skip without_avcodec "$same"
else add without_avcodec rest; fi
if [ -z "$av" ] || [ -z "$cuda" ]; then skip without_jpeg "no libavcodec, no clang or no nv-codec-headers here [libavcodec-dev clang libffmpeg-nvenc-dev]"; else add without_jpeg; fi
if [ -z "$av$cuda" ]; then skip without_both "$same"; else add without_both rest; fi
if [ -z "$av" ]; then skip without_shards "no libavcodec here [libavcodec-dev]"; else add without_shards library; fi
if [ -z "$av" ]; then skip without_threads "no libavcodec here [libavcodec-dev]"; else add without_threads library; fi
if [ -z "$av" ]; then skip without_augment "no libavcodec here [libavcodec-dev]"; else add without_augment library; fi
if [ -z "$av" ]; then skip without_mxnet "no libavcodec here [libavcodec-dev]"; else add without_mxnet library; fi
for compiler in gcc clang; do
    wanted "${compiler}_native" || continue
    if have "$compiler"; then add "${compiler}_native"; else skip "${compiler}_native" "no $compiler here [$compiler]"; fi
done
# Of crossed compilers: "[gcc-aarch64-linux-gnu gcc-arm-linux-gnueabihf gcc-s390x-linux-gnu]"
for machine in aarch64:aarch64-linux-gnu-gcc:qemu-aarch64 aarch64_16k:aarch64-linux-gnu-gcc:qemu-aarch64 \
    aarch64_64k:aarch64-linux-gnu-gcc:qemu-aarch64 arm:arm-linux-gnueabihf-gcc:qemu-arm s390x:s390x-linux-gnu-gcc:qemu-s390x; do
    variant=${machine%%:*}; qemu=${machine##*:}; cross=${machine#*:}; cross=${cross%:*}
    wanted "$variant" || continue
    if ! have "$cross"; then skip "$variant" "no $cross here [gcc-${cross%-gcc}]"
    elif ! have "$qemu"; then skip "$variant" "no $qemu here [qemu-user]"
    else add "$variant" library; fi
done
for port in musl:musl-gcc windows_arm64:zig macos_arm64:zig macos_x86_64:zig freebsd:zig; do
    variant=${port%%:*}; needed=${port#*:}
    case " $only " in *" $variant "*) ;; *) continue ;; esac
    if [ "$needed" = zig ] && [ -z "$ZIG" ]; then skip "$variant" "no zig here, which Debian does not have: pip install ziglang"
    elif [ "$needed" != zig ] && ! have "$needed"; then skip "$variant" "no $needed here [musl-tools]"
    else add "$variant" library formats; fi
done
[ -z "$jobs" ] || printf '%s\n' $jobs | xargs -P "$(getconf _NPROCESSORS_ONLN)" -n 1 sh "$0" - "$BUILD" --job

sum() { # word of closing lines, log
    awk -v word="$1" '/ passed, [0-9]+ failed/ { for (i = 2; i <= NF; i++) if (index($i, word) == 1) n += $(i - 1) }
                      END { print n + 0 }' "$2"
}
for j in $jobs; do
    log="$T/$j.log"; p=$(sum passed "$log"); f=$(sum failed "$log"); s=$(sum skipped "$log")
    sed -n "s|^FAIL |FAIL $j: |p" "$log"
    sed -n "s|^SKIP [^:]*: |${j%/*}: |p" "$log" >> "$T/skips"
    if [ $((p + f + s)) -eq 0 ] || { ! grep -q '^exit status 0$' "$log" && [ "$f" -eq 0 ]; }; then
        echo "FAIL $j: $(tail -n 1 "$log"), without saying why"; f=$((f + 1))
    fi
    [ "$f" -eq 0 ] || grep -vE '^(FAIL|SKIP)' "$log" | tail -n 20
    passed=$((passed + p)); failed=$((failed + f)); skipped=$((skipped + s))
done
[ ! -e "$T/skips" ] || sort "$T/skips" | uniq -c | sed -E 's/^ *([0-9]+) ([^:]*): (.*)/SKIP \2: \1 tests: \3/'
echo "tests/make/test_variants.sh: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
