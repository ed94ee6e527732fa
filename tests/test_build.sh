#!/bin/sh
# What compilers, linkers and readers must find: header alone, kernels both ways, exported symbols, the vendored pair, the manual's program.
# Usage: sh tests/test_build.sh BZNA BUILD, from the repository root.
BUILD=${2:-build}
T="$BUILD/tests/build"
rm -rf "$T"; mkdir -p "$T"
root=$(pwd)
passed=0; failed=0; skipped=0
WARN="-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror"
AV_CFLAGS=$(pkg-config --cflags libavcodec libavutil 2>/dev/null)
AV_LIBS=$(pkg-config --libs libavcodec libavutil 2>/dev/null)

have() { command -v "$1" >/dev/null 2>&1; }
skip() { skipped=$((skipped + 1)); echo "SKIP $1: $2"; }
check() { # name, command...
    name=$1; shift
    if "$@" >"$T/log" 2>&1; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL $name"; head -n 12 "$T/log"; fi
}
with() { # tool, name, command...
    tool=$1; name=$2; shift 2
    if have "$tool"; then check "$name" "$@"; else skip "$name" "no $tool here"; fi
}

# --- the header ---
echo '#include "benzina.h"' > "$T/header.c"; cp "$T/header.c" "$T/header.cc"
printf '#include <bzlib.h>\n#include "benzina.h"\nint main(void) { return BZ_OK != BZNA_OK; }\n' > "$T/bzlib.c"
for cc in gcc clang; do
    with $cc "header_is_c99_with_$cc" $cc -std=c99 $WARN -I. -fsyntax-only "$T/header.c"
    with $cc "header_is_cxx_with_$cc" $cc -x c++ -std=c++11 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -I. -fsyntax-only "$T/header.cc"
    with $cc "library_compiles_with_$cc" $cc -std=c11 -O2 $WARN $AV_CFLAGS -I. -c benzina.c -o "$T/$cc.o"
    with $cc "library_compiles_without_libavcodec_with_$cc" $cc -std=c11 -O2 $WARN -DBENZINA_NO_AVCODEC -I. -c benzina.c -o "$T/$cc-none.o"
    with $cc "kernels_are_c_with_$cc" $cc -std=c11 $WARN -x c -fsyntax-only benzina_kernels.cu
done
if have gcc && echo '#include <bzlib.h>' | gcc -fsyntax-only -x c - 2>/dev/null; then
    check header_goes_with_bzlib gcc -std=c11 $WARN -I. -fsyntax-only "$T/bzlib.c"
else skip header_goes_with_bzlib "no bzlib.h here"; fi
check header_has_no_implicit_padding gcc -std=c99 -Wpadded -Werror -I. -fsyntax-only "$T/header.c"

awk -f tests/abi.awk benzina.h > "$T/abi.c"
layouts() { gcc -std=c11 -I. "$T/abi.c" -o "$T/abi" && "$T/abi" > "$T/abi.txt" && diff tests/abi.txt "$T/abi.txt"; }
without_gaps() { awk '/^bzna/ { bad += end != size; size = $2; end = 0; next } { bad += $2 != end; end = $2 + $3 } END { exit bad + (end != size) > 0 }' "$T/abi.txt"; }
check layouts_are_those_of_the_golden_file layouts       # tests/abi.txt; bindings are written against it
check layouts_list_every_field without_gaps

# --- the kernels as PTX ---
ptx_clang="clang -x cuda --cuda-device-only --cuda-gpu-arch=sm_60 -nocudainc -nocudalib -Wno-unknown-cuda-version -O3 -ffp-contract=off -S"
with clang kernels_become_ptx_with_clang $ptx_clang benzina_kernels.cu -o "$T/clang.ptx"
with nvcc kernels_become_ptx_with_nvcc nvcc -ptx -arch=sm_75 -fmad=false -o "$T/nvcc.ptx" benzina_kernels.cu
for p in clang nvcc; do
    if [ -s "$T/$p.ptx" ]; then check "ptx_of_${p}_has_the_entry" grep -q 'entry bzi_kernel_warp_f32' "$T/$p.ptx"; else skip "ptx_of_${p}_has_the_entry" "no PTX"; fi
done
if have ptxas && [ -s "$T/clang.ptx" ]; then
    check ptx_assembles_for_hopper ptxas -arch=sm_90 "$T/clang.ptx" -o "$T/clang.cubin"
else skip ptx_assembles_for_hopper "no ptxas or no PTX"; fi

# --- symbols: all that is exported begins with bzna_, and the list changes knowingly ---
if have nm && [ -e "$BUILD/libbenzina.so" ]; then
    nm -D --defined-only "$BUILD/libbenzina.so" | awk '{ print $3 }' | grep -vE '^(__asan|__odr_asan|__ubsan|__tsan)' | sort > "$T/symbols.txt"
    check exported_symbols_are_those_listed diff tests/symbols.txt "$T/symbols.txt"
    check exported_symbols_are_those_declared sh -c "grep -oE '\bbzna_[a-z0-9_]+\(' benzina.h | grep -f /dev/stdin -o tests/symbols.txt >/dev/null; \
        sed -n '/^BZNA_API/p' benzina.h | grep -oE 'bzna_[a-z0-9_]+ *\(' | tr -d ' (' | sort -u | diff - tests/symbols.txt"
else skip exported_symbols_are_those_listed "no nm or no shared library"; fi

# --- the source keeps its own rules ---
check no_static_forward_declarations sh -c "! grep -nE '^static [^=(]*\([^)]*\);[[:space:]]*$' benzina.c"
check only_room_14_knows_libavcodec sh -c "awk '/^\/\* ==== /{room=\$3} room != \"14.\" && room != \"0.\" && /avcodec_|av_frame|av_packet|AVCodec/ && !/^ \*|log_level_offset/ { print FILENAME \": \" FNR \": \" \$0; bad = 1 } END { exit bad }' benzina.c"

# --- the vendored pair, in an empty folder, in other people's builds ---
check dist_makes_the_pair make --no-print-directory -s dist
mkdir -p "$T/foreign" && cp build/dist/benzina.h build/dist/benzina.c "$T/foreign/"
cat > "$T/foreign/program.c" <<'END'
#include "benzina.h"
#include <stdio.h>
int main(int argc, char **argv)
{
    bzna_error err = { sizeof err, 0, 0, 0, 0, "" };
    bzna_context *context = NULL;
    bzna_dataset *dataset = NULL;
    bzna_status status = bzna_context_open(NULL, &context, &err);
    if (status == BZNA_OK)
        status = bzna_dataset_open(context, argc > 1 ? argv[1] : "", NULL, &dataset, &err);
    printf("%llu %s\n", (unsigned long long)bzna_dataset_count(dataset), err.message);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    return status != BZNA_OK;
}
END
cp "$T/foreign/program.c" "$T/foreign/program.cc"
printf '#define BENZINA_STATIC\n#include "benzina.c"\n#define main program_main\n#include "program.c"\n#undef main\nint main(int argc, char **argv) { return program_main(argc, argv); }\n' > "$T/foreign/unity.c"
archive="$root/tests/data/mini_h265.bzna"
in_foreign() { (cd "$T/foreign" && "$@"); }
for cc in gcc clang; do
    with $cc "pair_compiles_with_$cc" in_foreign $cc -std=c11 -O2 $WARN $AV_CFLAGS -c benzina.c -o lib.o
    with $cc "pair_without_libavcodec_compiles_with_$cc" in_foreign $cc -std=c11 -O2 $WARN -DBENZINA_NO_AVCODEC -c benzina.c -o none.o
    with $cc "c_program_builds_on_the_pair_with_$cc" in_foreign $cc -std=c11 $WARN program.c lib.o $AV_LIBS -lm -lpthread -o program
    with $cc "c_program_runs_with_$cc" sh -c "[ \"\$($T/foreign/program $archive)\" = '8 ' ]"
    with $cc "c_program_runs_without_libavcodec_with_$cc" sh -c "$cc -std=c11 -I$T/foreign $T/foreign/program.c $T/foreign/none.o -lm -lpthread -o $T/foreign/none && [ \"\$($T/foreign/none $archive)\" = '8 ' ]"
    with $cc "unity_build_with_statics_with_$cc" in_foreign $cc -std=c11 $WARN $AV_CFLAGS unity.c $AV_LIBS -lm -lpthread -o unity
done
check pair_without_cuda_compiles in_foreign gcc -std=c11 $WARN $AV_CFLAGS -DBENZINA_NO_CUDA -c benzina.c -o nocuda.o
check pair_without_both_compiles in_foreign gcc -std=c11 $WARN -DBENZINA_NO_CUDA -DBENZINA_NO_AVCODEC -c benzina.c -o nothing.o
check switches_are_listed sh -c "grep -c '^BENZINA_' build/dist/SWITCHES | grep -qx 3"
# two copies in one program: one linked, one static inside a file of the program's
printf '#define BENZINA_STATIC\n#include "benzina.c"\nint other(void);\nint other(void) { return (int)bzna_version(); }\n' > "$T/foreign/copy.c"
printf '#include "benzina.h"\nint other(void);\nint main(void) { return other() != (int)bzna_version(); }\n' > "$T/foreign/both.c"
check two_copies_live_in_one_program in_foreign sh -c "gcc -std=c11 $WARN $AV_CFLAGS -c copy.c && gcc -std=c11 $WARN both.c copy.o lib.o $AV_LIBS -lm -lpthread -o both && ./both"
if have cmake; then
    mkdir -p "$T/cmake/benzina" && cp build/dist/benzina.h build/dist/benzina.c build/dist/CMakeLists.txt "$T/cmake/benzina/" && cp "$T/foreign/program.c" "$T/cmake/"
    printf 'cmake_minimum_required(VERSION 3.13)\nproject(user C)\nadd_subdirectory(benzina)\nadd_executable(program program.c)\ntarget_link_libraries(program benzina)\n' > "$T/cmake/CMakeLists.txt"
    check cmake_project_builds sh -c "cmake -S $T/cmake -B $T/cmake/out && cmake --build $T/cmake/out"
    check cmake_program_runs sh -c "[ \"\$($T/cmake/out/program $archive)\" = '8 ' ]"
else skip cmake_project_builds "no cmake here"; fi
if have g++ && have gcc; then
    check cxx_program_builds_on_the_pair in_foreign g++ -std=c++17 $WARN program.cc lib.o $AV_LIBS -lm -lpthread -o programxx
    check cxx_program_runs sh -c "[ \"\$($T/foreign/programxx $archive)\" = '8 ' ]"
else skip cxx_program_builds_on_the_pair "no g++ here"; fi

# --- installed, used through pkg-config, and gone again ---
prefix="$root/$T/prefix"
check install_puts_everything_in_place make --no-print-directory -s install PREFIX="$prefix"
for file in include/benzina.h lib/libbenzina.a lib/libbenzina.so lib/pkgconfig/benzina.pc bin/bzna share/man/man1/bzna.1; do check "installs_$file" test -e "$prefix/$file"; done
installed() { PKG_CONFIG_PATH="$prefix/lib/pkgconfig" sh -c "gcc -std=c11 examples/decode_batch.c \$(pkg-config --cflags --libs benzina) -o $T/installed" &&
    mkdir -p "$T/pictures" && LD_LIBRARY_PATH="$prefix/lib" "$T/installed" tests/data/mini_h265.bzna "$T/pictures"; }
check example_builds_through_pkg_config installed
with man man_page_is_well_formed sh -c "! man --warnings -l $prefix/share/man/man1/bzna.1 2>&1 >/dev/null | grep ."
check uninstall_leaves_nothing sh -c "make --no-print-directory -s uninstall PREFIX=$prefix && ! find $prefix -type f -o -type l 2>/dev/null | grep ."
check tarball_builds_by_itself sh -c "cd $T && tar -xzf $root/build/dist/benzina-*.tar.gz && cd benzina-* && make --no-print-directory -s OPT=-O0 >/dev/null && build/bzna verify tests/data/mini_h265.bzna"

# --- a program compiled with an older header runs with this library: structs only grew at their ends ---
old_header() {
    gcc -std=c11 -Itests/frozen examples/decode_batch.c "$BUILD/libbenzina.a" $AV_LIBS -lm -lpthread -o "$T/old" && mkdir -p "$T/of_old" "$T/of_new" &&
    "$T/old" tests/data/mini_h265.bzna "$T/of_old" && "$BUILD/decode_batch" tests/data/mini_h265.bzna "$T/of_new" && diff -r "$T/of_old" "$T/of_new" && [ -n "$(ls "$T/of_old")" ]; }
older_is_smaller() {
    printf '#include "benzina.h"\n#include <stdio.h>\nint main(void) { printf("%%u\\n", (unsigned)sizeof(bzna_loader_config)); return 0; }\n' > "$T/size.c"
    gcc -Itests/frozen "$T/size.c" -o "$T/size_old" && gcc -I. "$T/size.c" -o "$T/size_new" && [ "$("$T/size_old")" -lt "$("$T/size_new")" ]; }
check older_header_is_smaller older_is_smaller
check program_of_an_older_header_runs old_header

# --- the manual's and README's programs are compiled and run as they stand there ---
awk '/^ \* 2\. THE FIRST PROGRAM/ { on = 1; next } /^ \* 3\. OBJECTS/ { on = 0 } on { sub(/^ \*( {5})?/, ""); print }' benzina.h > "$T/manual.c"
awk -v T="$T" '/^```c$/ { n++; on = 1; next } /^```$/ { on = 0 } on { print > (T "/readme" n ".c") }' README.md
for p in manual readme1; do
    check "program_of_${p}_compiles" gcc -std=c11 -Wall -Wextra -Wpedantic -Werror -I. "$T/$p.c" "$BUILD/libbenzina.a" $AV_LIBS -lm -lpthread -o "$T/$p"
    check "program_of_${p}_runs" "$T/$p" tests/data/mini_h265.bzna
    check "program_of_${p}_fails_cleanly" sh -c "! $T/$p tests/data/absent.bzna 2>&1 && $T/$p tests/data/absent.bzna 2>&1 | grep -q absent.bzna"
done
for p in "$T"/readme[2-9].c; do
    check "snippet_$(basename "$p" .c)_compiles" gcc -std=c11 -Wall -Wextra -Wpedantic -Wconversion -Werror -I. -c "$p" -o "$T/snippet.o"
done

echo "tests/test_build.sh: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
