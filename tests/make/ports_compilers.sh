#!/bin/sh
# Compilers and their switches: the library by gcc and clang, from -O0 to -O3, in gnu mode, with what this processor
# has, optimized when it is linked, for 32 bits, with characters that have no sign. Each build runs test_numbers:
# orders, warps, pixels, archives and states have the same bits in all. Then clang's -Weverything, and the header as C
# and C++ of all years. Usage: sh tests/make/ports_compilers.sh BUILD, from the repository root (make test-ports).
BUILD=${1:-build}
T="$BUILD/tests/compilers"
rm -rf "$T"; mkdir -p "$T/tests"
passed=0; failed=0; skipped=0
WARN="-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror"
neither="-DBENZINA_NO_CUDA -DBENZINA_NO_AVCODEC -DBENZINA_NO_JPEG"
AV_CFLAGS=$(pkg-config --cflags libavcodec libavutil libjpeg 2>/dev/null) && with= || with=$neither
NV_CFLAGS=$(pkg-config --cflags ffnvcodec 2>/dev/null) && [ -s "$BUILD/benzina_kernels.ptx.h" ] ||
    NV_CFLAGS=-DBENZINA_NO_CUDA
skip() { skipped=$((skipped + 1)); echo "SKIP $1: $2"; }
have() { command -v "$1" >/dev/null 2>&1; }
check() { # name, command...
    name=$1; shift
    if "$@" > "$T/log" 2>&1; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL $name"; tail -n 12 "$T/log"; fi
}
suite() { # its name, compiler and switches
    suite=$1; shift
    "$@" -ffp-contract=off $lenient -I. $neither "-DTEST_BUILD=\"$T\"" -DTEST_EMULATED -DBENZINA_STATIC -o "$T/$suite" \
        "tests/unit/test_$suite.c" -lm -lpthread -ldl && "$T/$suite"
}
numbers() { suite numbers "$@"; }

for compiler in gcc clang; do
    have $compiler || { skip "$compiler" "no $compiler here [$compiler]"; continue; }
    lenient=$WARN
    check "$compiler -std=c11 -O0" numbers $compiler -std=c11 -O0
    check "$compiler -std=gnu17 -O1" numbers $compiler -std=gnu17 -O1
    check "$compiler -std=c11 -funsigned-char" numbers $compiler -std=c11 -O1 -funsigned-char
    lenient="$WARN -Wno-error"        # optimizers warn of what they make of tests
    check "$compiler -std=c11 -O2" numbers $compiler -std=c11 -O2
    check "$compiler -std=gnu17 -O3 -march=native" numbers $compiler -std=gnu17 -O3 -march=native
    if [ $compiler = gcc ] || have ld.lld; then check "$compiler -std=c11 -O3 -flto" numbers $compiler -std=c11 -O3 -flto $([ $compiler = gcc ] || echo -fuse-ld=lld)
    else skip "clang -flto" "no ld.lld here [lld]"; fi
    if echo 'int main(void) { return sizeof(void *) != 4; }' | $compiler -m32 -I/usr/include/x86_64-linux-gnu -x c -o "$T/m32" - 2>/dev/null && "$T/m32"; then
        lenient="$WARN -Wno-error"    # tests put 64-bit sizes into a size_t
        x86="$compiler -std=c11 -O1 -m32 -msse2 -mfpmath=sse -I/usr/include/x86_64-linux-gnu"
        check "$compiler -m32 with SSE" numbers $x86
        check "$compiler -m32 reads files of 5 GiB" suite platforms $x86
        check "$compiler -m32 without warnings" $x86 -ffp-contract=off $WARN $neither -I. -c benzina.c -o "$T/benzina.o"
        check "$compiler -m32 without SSE is refused" \
            sh -c "$compiler -std=c11 -m32 -mno-sse -I/usr/include/x86_64-linux-gnu $neither -I. -fsyntax-only benzina.c 2>&1 | grep 'floats must be floats'"
    else skip "$compiler -m32" "no libraries of 32 bits here [libc6-dev-i386 lib32gcc-12-dev]"; fi
done

# Not wanted: what says that C is C (padding, mixed declarations, == of floats, float in double, functions whose result
# is cast, C11's atomics, unused attributes used), and single places that are right: a comma, a variable that is set
# where it is used, a constant condition of a build, an aligned cast, a function that longjmp leaves.
not_wanted="-Wno-padded -Wno-declaration-after-statement -Wno-float-equal -Wno-double-promotion -Wno-bad-function-cast
    -Wno-atomic-implicit-seq-cst -Wno-used-but-marked-unused -Wno-comma -Wno-conditional-uninitialized -Wno-unreachable-code
    -Wno-cast-align -Wno-missing-noreturn -Wno-unknown-warning-option -Wno-unsafe-buffer-usage -Wno-pre-c11-compat -Wno-switch-default
    -Wno-unused-macros -Wno-disabled-macro-expansion -Wno-reserved-macro-identifier -Wno-reserved-identifier"
if have clang; then
    for what in "$with $AV_CFLAGS $NV_CFLAGS -I$BUILD" "$neither" "$neither -DBENZINA_NO_THREADS"; do
        check "clang -Weverything $what" clang -std=c11 -ffp-contract=off -Weverything -Werror $not_wanted $what -I. \
            -fsyntax-only benzina.c
    done
else skip "clang -Weverything" "no clang here [clang]"; fi

echo '#include "benzina.h"' > "$T/header.c"
cp "$T/header.c" "$T/header.cpp"
for compiler in gcc clang; do
    have $compiler || continue
    for year in c99 c11 c17 gnu2x; do
        check "header alone: $compiler -std=$year" $compiler -std=$year $WARN -I. -fsyntax-only "$T/header.c"
    done
done
for compiler in g++ clang++; do
    have $compiler || { skip "header by $compiler" "no $compiler here [$([ $compiler = g++ ] && echo g++ || echo clang)]"; continue; }
    for year in c++11 c++14 c++17 c++20 c++2b; do
        check "header alone: $compiler -std=$year" $compiler -std=$year $WARN -I. -fsyntax-only "$T/header.cpp"
    done
done
echo "tests/make/ports_compilers.sh: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
