#!/bin/sh
# What compilers, linkers and readers must find: header alone, kernels both ways, exported symbols, the vendored pair,
# the manual's program. Usage: sh tests/make/test_build.sh BZNA BUILD, from the repository root.
BZNA=${1:-build/bzna}; BUILD=${2:-build}
T="$BUILD/tests/build"
rm -rf "$T"; mkdir -p "$T"
root=$(pwd)
passed=0; failed=0; skipped=0
WARN="-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wvla $WERROR"
# make test has one build of the library, unoptimized: the pair's by clang, which takes a third of gcc's time. Optimized,
# compilers warn of more, and take ten times as long: make does so once.
if [ -n "$TEST_ALL" ]; then O=-O2
else
    O=-O0
    echo "LEFT test_build.sh: all builds of the library but one, and its size; benchmarks," \
        "what clang fuses"
fi
AV_CFLAGS=$(pkg-config --cflags libavcodec libavutil 2>/dev/null)
AV_LIBS=$(pkg-config --libs libavcodec libavutil 2>/dev/null)
JPEG_CFLAGS=$(pkg-config --cflags libjpeg 2>/dev/null) && JPEG_LIBS=$(pkg-config --libs libjpeg) ||
    JPEG_CFLAGS=-DBENZINA_NO_JPEG
AV_CFLAGS="$AV_CFLAGS $JPEG_CFLAGS"; AV_LIBS="$AV_LIBS $JPEG_LIBS"
TOOL_CFLAGS=$(pkg-config --cflags libavformat libavcodec libswscale libavutil 2>/dev/null)
LIBS="-lm -lpthread -ldl"
# With the GPU path: NVIDIA's headers, and the kernel's PTX that make wrote to $BUILD (the pair has that inside).
NV_CFLAGS=$(pkg-config --cflags ffnvcodec 2>/dev/null) && [ -s "$BUILD/benzina_kernels.ptx.h" ] && cuda=1 || cuda=
no_cuda="no nv-codec-headers, or no PTX in $BUILD [libffmpeg-nvenc-dev clang]"

warn_only() { if [ "$1" = clang ]; then echo "-fsyntax-only"; else echo "$O -c -o $T/warned.o"; fi; }
object_of_gcc() { if [ "$1" = gcc ]; then echo "$O -c -o $T/$2.o"; else warn_only "$1"; fi; }
have() { command -v "$1" >/dev/null 2>&1; }
skip() { skipped=$((skipped + 1)); echo "SKIP $1: $2"; }
check() { # name, command...
    name=$1; shift
    if "$@" >"$T/log" 2>&1; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL $name"; head -n 12 "$T/log"; fi
}
with() { # tool, name, command...
    tool=$1; name=$2; shift 2
    if have "$tool"; then check "$name" "$@"; return; fi
    case $tool in man) tool="man here [man-db]" ;; nvcc) tool="nvcc here [nvidia-cuda-toolkit]" ;; *) tool="$tool here [$tool]" ;; esac
    skip "$name" "no $tool"
}
cuda_with() { # tool, name, command...: of a build with the GPU path
    if [ -n "$cuda" ]; then with "$@"; else skip "$2" "$no_cuda"; fi
}
# What make test leaves to make test-all: all builds of the library but one, and what needs them.
more() { [ -z "$TEST_ALL" ] || "$@"; }

# Headers that must not be asked for: these come before the system's.
mkdir -p "$T/no_nvidia/ffnvcodec" "$T/no_av/libavcodec" "$T/no_av/libavutil" "$T/no_jpeg"
for h in dynlink_cuda.h dynlink_cuviddec.h dynlink_nvcuvid.h nvEncodeAPI.h; do echo '#error "asked for, though BENZINA_NO_CUDA is defined"' > "$T/no_nvidia/ffnvcodec/$h"; done
for h in libavcodec/avcodec.h libavutil/error.h libavutil/pixdesc.h; do echo '#error "asked for, though BENZINA_NO_AVCODEC is defined"' > "$T/no_av/$h"; done
for h in no_av no_jpeg; do echo '#error "asked for, though BENZINA_NO_JPEG is defined"' > "$T/$h/jpeglib.h"; done
NO_CUDA="-DBENZINA_NO_CUDA -I$root/$T/no_nvidia"; NO_AV="-DBENZINA_NO_AVCODEC -DBENZINA_NO_JPEG -I$root/$T/no_av"
NO_JPEG="-DBENZINA_NO_JPEG -I$root/$T/no_jpeg"

# --- the header ---
# Each struct that callers fill in, prepared as the manual says: by a designated initializer in C, by {} in C++.
inputs=$(awk '/^typedef struct/ { name = $3 } /struct_size;($|.*sizeof the struct)/ { print name }' benzina.h)
{ echo '#include "benzina.h"'
  for type in $inputs; do
    echo "uint32_t size_of_$type(void); uint32_t size_of_$type(void) { $type x = { .struct_size = sizeof x }; return x.struct_size; }"
  done
  # Of 32 bits, one in ?: with a uint32_t would not be -1.
  echo "typedef char constants_below_0_have_64_bits[sizeof BZNA_WAIT_FOREVER == 8 && sizeof BZNA_TARGET_NONE == 8 ? 1 : -1];"
} > "$T/header.c"
{ echo '#include "benzina.h"'
  for type in $inputs; do
    echo "uint32_t size_of_$type(); uint32_t size_of_$type() { $type x{}; x.struct_size = sizeof x; return x.struct_size; }"
  done
  sed -n 's/^#define \(BZNA_[A-Z_]*\) .*/\1/p' benzina.h | grep -v -x BZNA_API | while read -r name; do
    echo "bool is_zero_$name(); bool is_zero_$name() { return $name == 0; }"
  done; } > "$T/header.cc"
check header_has_its_constants sh -c "[ \$(grep -c ' is_zero_.*{' '$T/header.cc') -ge 10 ]"
check structs_to_fill_in_are_all_there sh -c "[ \$(echo '$inputs' | wc -w) -ge 15 ]"
printf '#include <bzlib.h>\n#include "benzina.h"\nint main(void) { return BZ_OK != BZNA_OK; }\n' > "$T/bzlib.c"
for cc in gcc clang; do
    with $cc "header_is_c99_with_$cc" $cc -std=c99 $WARN -I. -fsyntax-only "$T/header.c"
    case $cc in gcc) useless=-Wuseless-cast ;; *) useless= ;; esac
    for std in 11 14 17 20 2b; do
        with $cc "header_is_cxx${std}_with_$cc" $cc -x c++ -std=c++$std -Wall -Wextra -Wpedantic -Wconversion -Wshadow \
            -Wsign-conversion -Wold-style-cast -Wzero-as-null-pointer-constant $useless $WERROR -I. -fsyntax-only \
            "$T/header.cc"
    done
    more cuda_with $cc "library_compiles_with_$cc" $cc -std=c11 $(warn_only $cc) $WARN $AV_CFLAGS $NV_CFLAGS \
        -I"$BUILD" -I. benzina.c
    more cuda_with $cc "library_compiles_without_libavcodec_with_$cc" $cc -std=c11 $(warn_only $cc) $WARN $NO_AV \
        $NV_CFLAGS -I"$BUILD" -I. benzina.c
    more with $cc "library_compiles_without_libjpeg_with_$cc" $cc -std=c11 $(warn_only $cc) $WARN $AV_CFLAGS $NO_JPEG \
        $NO_CUDA -I. benzina.c
    more with $cc "library_compiles_with_libjpeg_alone_with_$cc" $cc -std=c11 $(warn_only $cc) $WARN $JPEG_CFLAGS \
        -DBENZINA_NO_AVCODEC $NO_CUDA -I. benzina.c
    more with $cc "library_compiles_without_cuda_with_$cc" $cc -std=c11 $(warn_only $cc) $WARN $AV_CFLAGS $NO_CUDA \
        -I. benzina.c
    more with $cc "library_compiles_without_both_with_$cc" $cc -std=c11 $(warn_only $cc) $WARN $NO_CUDA $NO_AV \
        -I. benzina.c
    more with $cc "library_compiles_without_the_writer_with_$cc" $cc -std=c11 $(object_of_gcc $cc no_writer) $WARN \
        $AV_CFLAGS $NO_CUDA -DBENZINA_NO_WRITER -I. benzina.c
    more with $cc "library_compiles_without_shards_with_$cc" $cc -std=c11 $(object_of_gcc $cc no_shards) $WARN \
        $AV_CFLAGS $NO_CUDA -DBENZINA_NO_SHARDS -I. benzina.c
    more with $cc "library_compiles_without_augment_with_$cc" $cc -std=c11 $(warn_only $cc) $WARN $AV_CFLAGS $NO_CUDA \
        -DBENZINA_NO_AUGMENT -I. benzina.c
    more cuda_with $cc "library_compiles_without_augment_with_cuda_with_$cc" $cc -std=c11 $(warn_only $cc) $WARN \
        $AV_CFLAGS $NV_CFLAGS -DBENZINA_NO_AUGMENT -I"$BUILD" -I. benzina.c
    more with $cc "library_compiles_without_threads_with_$cc" $cc -std=c11 $(object_of_gcc $cc no_threads) $WARN \
        $AV_CFLAGS $NO_CUDA -DBENZINA_NO_THREADS -I. benzina.c
    more with $cc "library_compiles_with_all_switches_with_$cc" $cc -std=c11 $(warn_only $cc) $WARN $NO_CUDA $NO_AV \
        -DBENZINA_NO_WRITER -DBENZINA_NO_SHARDS -DBENZINA_NO_AUGMENT -DBENZINA_NO_STILLS -DBENZINA_NO_FOLDERS -DBENZINA_NO_PROVIDERS -I. benzina.c
    for switch in STILLS FOLDERS PROVIDERS; do
        more with $cc "library_compiles_without_${switch}_with_$cc" $cc -std=c11 $(warn_only $cc) $WARN $AV_CFLAGS \
            $NO_CUDA \
            -DBENZINA_NO_$switch -I. benzina.c
    done
    more cuda_with $cc "bench_compiles_with_$cc" $cc -std=c11 $WARN $AV_CFLAGS $NV_CFLAGS -I"$BUILD" -I. \
        -fsyntax-only tests/bench/bench_open.c tests/bench/bench_sessions.c tests/bench/null_driver.c
    with $cc "kernels_are_c_with_$cc" $cc -std=c11 $WARN -x c -fsyntax-only benzina_kernels.cu
    # By gcc, make has compiled it with the same warnings as errors.
    if [ ! -x "$BZNA" ]; then skip "tool_compiles_with_$cc" "no $BZNA, which needs libavformat and libswscale [libavformat-dev libswscale-dev]"
    elif [ $cc = clang ] || [ -n "$TEST_ALL" ]; then
        with $cc "tool_compiles_with_$cc" $cc -std=c11 $WARN $TOOL_CFLAGS -I. -Iexamples/formats -fsyntax-only examples/bzna/*.c \
            examples/decode_batch.c examples/draw_pictures.c
    fi
done
# The order in which arguments are worked out, and what else a program may not count on, is another one with clang.
tool_packs() { # compiler
    make -s --no-print-directory CC=$1 BUILD="$T/tool_$1" CFLAGS=-O1 "$T/tool_$1/bzna" &&
        "$BUILD/draw_pictures" "$T/drawn" 40 && "$T/tool_$1/bzna" pack "$T/drawn" -o "$T/drawn.bzna" --codec jpeg &&
        "$T/tool_$1/bzna" verify "$T/drawn.bzna"
}
[ ! -x "$BZNA" ] || more with clang tool_of_clang_packs tool_packs clang
cat > "$T/no_writer.c" <<'EOS'
#include "benzina.h"
#include <stdio.h>
int main(void)
{
    bzna_error err;
    bzna_context *context = NULL;
    bzna_dataset *dataset = NULL;
    bzna_error_init(&err, sizeof err);
    if (bzna_context_open(NULL, &context, &err) < 0 ||
        bzna_dataset_open(context, "tests/data/mini_h265.bzna", NULL, &dataset, &err) < 0) return 1;
#ifdef CALLS
    bzna_writer *writer = NULL;
    bzna_writer_open(context, "absent/x.bzna", NULL, &writer, &err);
#endif
    printf("%llu samples\n", (unsigned long long)bzna_dataset_count(dataset));
    bzna_dataset_close(dataset);
    return bzna_context_close(context);
}
EOS
has_no_writer() {
    gcc -std=c11 -I. "$T/no_writer.c" "$T/no_writer.o" $AV_LIBS $LIBS -o "$T/no_writer" && "$T/no_writer" | grep '8 samples' &&
    ! nm "$T/no_writer.o" | grep -E 'bzna_(writer|sink|field_value)' &&
    ! gcc -std=c11 -DCALLS -DBENZINA_NO_WRITER -I. -fsyntax-only "$T/no_writer.c" 2> "$T/said" && grep "unknown type name .bzna_writer" "$T/said"
}
more with gcc without_the_writer_archives_are_read_and_a_call_of_it_does_not_compile has_no_writer
cat > "$T/no_shards.c" <<'EOS'
#include "benzina.h"
#include <stdio.h>
static int refused(bzna_context *context, const char *path, const char *format)
{
    bzna_error err;
    bzna_dataset_config config;
    bzna_dataset *dataset = (bzna_dataset *)(void *)&err;
    bzna_error_init(&err, sizeof err);
    bzna_dataset_config_init(&config, sizeof config);
    config.format = format;
    if (bzna_dataset_open(context, path, &config, &dataset, &err) != BZNA_E_UNSUPPORTED || dataset) return 0;
    printf("%s\n", err.message);
    return 1;
}
int main(void)
{
    bzna_context *context = NULL;
    bzna_dataset *dataset = NULL;
    if (bzna_context_open(NULL, &context, NULL) < 0 ||
        bzna_dataset_open(context, "tests/data/mini_h265.bzna", NULL, &dataset, NULL) < 0 || bzna_dataset_count(dataset) != 8) return 1;
    if (!refused(context, "tests/data/seeds/ustar.tar", NULL) || !refused(context, "tests/data/seeds/gnu.tar", "tar")) return 2;
    bzna_dataset_close(dataset);
    return bzna_context_close(context);
}
EOS
says_no_shards() { gcc -std=c11 -I. "$T/no_shards.c" "$T/no_shards.o" $AV_LIBS $LIBS -o "$T/no_shards" && "$T/no_shards" > "$T/said" && cat "$T/said" && [ "$(grep -c BENZINA_NO_SHARDS "$T/said")" -eq 2 ]; }
more with gcc without_shards_archives_are_read_and_tar_is_refused says_no_shards
# What the pair compiles to: name, most bytes, switches. The libraries that it links are not in it.
small_enough() {
    gcc -std=c11 -O2 $WARN -ffp-contract=off -fvisibility=hidden -fPIC -shared $3 $AV_CFLAGS $NV_CFLAGS -I"$BUILD" \
        -I. benzina.c $AV_LIBS $LIBS -o "$T/$1.so" &&
        strip "$T/$1.so" && size=$(wc -c < "$T/$1.so") && { [ "$size" -le "$2" ] || { echo "$1: $size bytes"; return 1; }; }; }
fewest="-DBENZINA_NO_AVCODEC -DBENZINA_NO_JPEG -DBENZINA_NO_AUGMENT -DBENZINA_NO_SHARDS -DBENZINA_NO_WRITER"
fewest="$fewest -DBENZINA_NO_STILLS -DBENZINA_NO_FOLDERS -DBENZINA_NO_PROVIDERS"
if have strip && [ -z "$SANITIZE" ]; then
    more cuda_with gcc the_pair_compiles_to_at_most_760_kB small_enough whole 760000 ""
    more cuda_with gcc with_all_switches_the_pair_compiles_to_at_most_580_kB small_enough fewest 580000 "$fewest"
else skip the_pair_compiles_to_at_most_760_kB "no strip [binutils], or a sanitizer inside"; fi
if have gcc && echo '#include <bzlib.h>' | gcc -fsyntax-only -x c - 2>/dev/null; then
    check header_goes_with_bzlib gcc -std=c11 $WARN -I. -fsyntax-only "$T/bzlib.c"
else skip header_goes_with_bzlib "no bzlib.h here [libbz2-dev]"; fi
check header_has_no_implicit_padding gcc -std=c99 -Werror=padded -I. -fsyntax-only "$T/header.c"

awk -f tests/make/abi.awk benzina.h examples/formats/formats.h > "$T/abi.c"
layouts() { gcc -std=c11 -I. -Iexamples/formats "$T/abi.c" -o "$T/abi" && "$T/abi" > "$T/abi.txt" && diff tests/make/abi.txt "$T/abi.txt"; }
# Of each struct the members that are its own; of those of a struct inside, which is listed by itself, as well.
without_gaps() { awk '/^bzna/ { bad += end != size; size = $2; end = 0; next } /^   / { next } { bad += $2 != end; end = $2 + $3 } END { exit bad + (end != size) > 0 }' "$T/abi.txt"; }
check layouts_are_those_of_the_golden_file layouts       # tests/make/abi.txt; bindings are written against it
check layouts_list_every_field without_gaps
# What other bindings read instead of the header says the same, on systems with pointers of 64 bits as here.
offsets_as_abi() {
    "${PYTHON:-python3}" - > "$T/offsets.txt" <<'EOS' && sed '/^   /d' "$T/abi.txt" | diff "$T/offsets.txt" -
import json
for name, struct in json.load(open("examples/offsets.json"))["structs"].items():
    print(name, struct["size"])
    for member, place in struct["members"].items():
        print(f"  {member} {place['offset']} {place['size']}")
EOS
}
constants_as_c() {
    "${PYTHON:-python3}" - > "$T/constants.c" <<'EOS' && gcc -std=c11 -I. -Iexamples/formats "$T/constants.c" -o "$T/constants" && "$T/constants"
import json
print('#include "formats.h"\n#include <stdio.h>\nint main(void)\n{\n    int wrong = 0;')
for name, value in json.load(open("examples/offsets.json"))["constants"].items():
    print(f'    if ({name} != {value}{"u" if value >= 2**63 else ""}) wrong = printf("{name}\\n");')
print("    return wrong != 0;\n}")
EOS
}
check offsets_json_has_the_layouts_of_the_compiler offsets_as_abi
check offsets_json_has_the_constants_of_the_header constants_as_c
check arrays_have_their_counts_right_after_them "${PYTHON:-python3}" tests/make/arrays.py benzina.h
check layouts_list_every_struct sh -c "[ \$(cat benzina.h examples/formats/formats.h | grep -c '^typedef struct bzna_[a-z_]* {') -eq \$(grep -c '^bzna' '$T/abi.txt') ]"

# The tool says for itself what is out of range, by the name of its option: the limits are the library's.
limit_of_library() { sed -n "s/^#define BZI_LIMIT_$1  *\([0-9]*\)u.*/\1/p" benzina.c; }
limit_of_option() { sed -n "s/.*INTEGER(\"$1\", [a-z_]*, 1, \([0-9]*\),.*/\1/p" examples/bzna/main.c; }
same_limit() { [ -n "$(limit_of_library "$1")" ] && [ "$(limit_of_library "$1")" = "$(limit_of_option "$2")" ]; }
check option_threads_has_the_limit_of_the_library same_limit THREADS threads
check option_sessions_has_the_limit_of_the_library same_limit SESSIONS sessions
check option_views_has_the_limit_of_the_library same_limit VIEWS views
check option_max_edge_has_the_limit_of_the_library same_limit EDGE max-edge

# What the bindings declare is made from the header; another header makes something else, and this is noticed.
current_bindings() { "${PYTHON:-python3}" tests/make/bindings.py benzina.h examples --check; }
stale_bindings() { # a sed program for header and library, what is to be made anew, or what is said
    mkdir -p "$T/changed"
    sed "$1" benzina.h > "$T/changed/benzina.h"
    sed "$1" benzina.c > "$T/changed/benzina.c"
    ! { cmp -s benzina.h "$T/changed/benzina.h" && cmp -s benzina.c "$T/changed/benzina.c"; } &&
        ! "${PYTHON:-python3}" tests/make/bindings.py "$T/changed/benzina.h" examples --check > "$T/stale" 2>&1 &&
        grep -q "$2" "$T/stale"
}
unreadable_header() { # a sed program
    sed "$1" benzina.h > "$T/changed.h"
    cp benzina.c "$T/benzina.c"
    ! "${PYTHON:-python3}" tests/make/bindings.py "$T/changed.h" examples --check 2> "$T/stale" &&
        grep -q 'cannot read' "$T/stale"
}
if have "${PYTHON:-python3}"; then
    check bindings_are_what_the_header_makes current_bindings
    check bindings_of_another_struct_are_noticed stale_bindings \
        's/^    int32_t     native_code; /    uint32_t    native_code; /' raw.rs
    check bindings_of_another_constant_are_noticed stale_bindings \
        's/BZNA_SPLIT_TEST       = 3/BZNA_SPLIT_TEST       = 4/' header.jl
    check bindings_of_another_constant_are_noticed_for_python stale_bindings \
        's/BZNA_SPLIT_TEST       = 3/BZNA_SPLIT_TEST       = 4/' _numbers.py
    check bindings_of_another_struct_are_noticed_for_python stale_bindings \
        's/^    int32_t     native_code; /    uint32_t    native_code; /' _header.py
    check bindings_of_another_function_are_noticed stale_bindings \
        's/bzna_dataset_count(const bzna_dataset \*dataset)/bzna_dataset_count(bzna_dataset *dataset)/' raw.rs
    check bindings_of_another_comment_are_noticed stale_bindings \
        's/the status that the call returned/the status of the call/' raw.rs
    check a_setting_of_another_struct_is_noticed_for_rust stale_bindings \
        's/BZI_NUMBER(COUNT, loader_shard, world_size/BZI_NUMBER(COUNT, loader_decode, threads/' 'no row of loader_shard.world_size'
    check a_setting_of_another_type_is_noticed stale_bindings \
        's/BZI_SWITCH(loader_pipeline, no_threads)/BZI_PLAIN(REAL, loader_pipeline, no_threads)/' \
        'loader_pipeline.no_threads is no REAL'
    check a_setting_without_a_row_is_noticed stale_bindings \
        '/BZI_NUMBER(COUNT, loader_pipeline, batches_in_flight/d' 'no row of loader_pipeline.batches_in_flight'
    check a_setting_without_keywords_is_noticed stale_bindings \
        's/^    uint32_t          no_threads;/    uint32_t          no_threads2;/; s/loader_pipeline, no_threads)/loader_pipeline, no_threads2)/' \
        'no_threads'
    check the_header_says_what_defaults_and_ranges_the_table_has stale_bindings \
        's/BZI_NUMBER(COUNT, loader_pipeline, batches_in_flight, 1, BZI_LIMIT_IN_FLIGHT, 3)/BZI_NUMBER(COUNT, loader_pipeline, batches_in_flight, 1, BZI_LIMIT_IN_FLIGHT, 4)/' \
        'does not say that its default is 4'
    check keywords_of_another_comment_are_noticed stale_bindings \
        's/processes that share the epoch; default 1/processes that share an epoch; default 1/; s/time before the first retry/the time before the first retry/; s/samples read before they are decoded/samples that are read before they are decoded/' \
        settings.rs
    check bindings_are_not_made_of_members_that_share_a_line unreadable_header \
        's/^    uint32_t    fourcc; /    uint32_t fourcc, code; /'
else skip bindings_are_what_the_header_makes "no python3 here [python3]"; fi

# --- the kernels as PTX ---
ptx_clang="clang -x cuda --cuda-device-only --cuda-gpu-arch=sm_60 -nocudainc -nocudalib -Wno-unknown-cuda-version -O3 -ffp-contract=off -fno-jump-tables -S"
# Where make has made it, it did so with the same flags, and nothing is left to check.
if [ -n "$cuda" ] && [ "$BUILD/benzina_kernels.ptx" -nt benzina_kernels.cu ]; then
    cp "$BUILD/benzina_kernels.ptx" "$T/clang.ptx"
else with clang kernels_become_ptx_with_clang $ptx_clang benzina_kernels.cu -o "$T/clang.ptx"; fi
with nvcc kernels_become_ptx_with_nvcc nvcc -ptx -arch=sm_75 -fmad=false -o "$T/nvcc.ptx" benzina_kernels.cu
for p in clang nvcc; do
    if [ -s "$T/$p.ptx" ]; then check "ptx_of_${p}_has_the_entry" grep -q 'entry bzi_kernel_warp_any' "$T/$p.ptx"; else skip "ptx_of_${p}_has_the_entry" "no PTX"; fi
done
# --- every operation is rounded by itself, whatever the flags: gnu mode fuses multiply and add, -ffast-math does
# anything ---
# compiler: the CPU's loops, for a processor that has FMA; asm of the loop that does fuse shows that it can be found
unfused() {
    o=-O2; [ -z "$TEST_ALL" ] || o=-O3
    echo 'float f(float a, float b, float c); float f(float a, float b, float c) { return a * b + c; }' > "$T/fuses.c" &&
        $1 -std=gnu11 $o -mavx2 -mfma -S -o "$T/fuses.s" "$T/fuses.c" && grep -q 'vfn*m[as]' "$T/fuses.s" &&
        $1 -std=gnu11 $o -mavx2 -mfma -mf16c -I. '-DKERNELS="benzina_kernels.cu"' -S -o "$T/unfused.s" \
        tests/bench/bench_rows.c &&
        grep -q 'vmulps.*%[yz]mm' "$T/unfused.s" && ! grep 'vfn*m[as]' "$T/unfused.s"; }
refuses_fast_math() { # compiler, file...
    cc=$1; shift
    for f in "$@"; do ! $cc -std=c11 -ffast-math -Wfatal-errors -I. $NO_CUDA $NO_AV -x c -E -o /dev/null "$f" > "$T/said" 2>&1 && grep -q 'error.*-ffp-contract=off' "$T/said" || return 1; done; }
for cc in gcc clang; do
    if [ $cc = clang ] && [ -z "$TEST_ALL" ]; then :
    elif [ "$(uname -m)" = x86_64 ]; then with $cc "nothing_is_fused_with_$cc" unfused $cc
    else skip "nothing_is_fused_with_$cc" "not x86-64"; fi
    with $cc "fast_math_is_refused_with_$cc" refuses_fast_math $cc benzina.c benzina_kernels.cu
    with $cc "bench_of_rows_compiles_with_$cc" $cc -std=c11 $WARN -I. -fsyntax-only tests/bench/bench_rows.c \
        '-DKERNELS="benzina_kernels.cu"'
done
if have ptxas && [ -s "$T/clang.ptx" ]; then
    assembles() { ptxas -v -arch=sm_$1 "$T/clang.ptx" -o "$T/clang.cubin" > "$T/ptxas.$1" 2>&1 || { cat "$T/ptxas.$1"; return 1; }; }
    check ptx_assembles_for_turing assembles 75
    check ptx_assembles_for_ampere assembles 80
    check ptx_assembles_for_hopper assembles 90
    # None with clang 14 and ptxas 13.0, which others may miss by a few bytes; it was 108 to 140.
    few_spills() { for arch in 75 80 90; do awk '/spill/ { print; seen++; if ($5 > 48 || $9 > 48) bad = 1 } END { exit bad || seen != 4 }' "$T/ptxas.$arch" || return 1; done; }
    check no_kernel_spills_registers few_spills
else for name in ptx_assembles_for_turing_ampere_and_hopper no_kernel_spills_registers; do skip $name "no ptxas or no PTX [nvidia-cuda-toolkit]"; done; fi

# --- symbols: all that is exported begins with bzna_, and the list changes knowingly ---
if have nm && [ -e "$BUILD/libbenzina.so" ]; then
    exported() { # library
        nm -D --defined-only "$1" | awk '{ sub(/@.*/, "", $3); print $3 }' |
            grep -vE '^(__asan|__odr_asan|__ubsan|__tsan|BENZINA_([A-Z]+_)?[0-9.]+$)' | sort
    }
    exported "$BUILD/libbenzina.so" > "$T/symbols.txt"
    check exported_symbols_are_those_listed diff tests/make/symbols.txt "$T/symbols.txt"
    check exported_symbols_are_those_declared \
        sh -c "awk -v list=functions -f tests/make/abi.awk benzina.h | sort | diff - tests/make/symbols.txt"
    # The libraries of examples/ export what their headers declare, of which no list is kept.
    exports_its_header() { # library, header
        awk -v list=functions -f tests/make/abi.awk "$2" | sort > "$T/declared.txt"
        [ -s "$T/declared.txt" ] && exported "$1" | diff - "$T/declared.txt"
    }
    for name in formats stream; do
        if [ -e "$BUILD/libbenzina_$name.so" ]; then
            check exported_symbols_are_those_declared_by_$name.h exports_its_header "$BUILD/libbenzina_$name.so" \
                examples/$name/$name.h
        else skip exported_symbols_are_those_declared_by_$name.h "no libbenzina_$name.so"; fi
    done
    # What these return lies in memory that all threads of a process share.
    calls_are_safe() { ! nm -u "$BUILD/libbenzina.a" | grep -wE 'strerror|strsignal|strtok|localtime|gmtime|ctime|asctime|rand|tmpnam|setlocale'; }
    check nothing_is_called_that_threads_may_not_share calls_are_safe
else skip exported_symbols_are_those_listed "no nm or no shared library [binutils]"; fi

# --- switches: none is misspelt, by what make is given or by likely mistakes ---
misspelt() { for name in NO_LIBAVCODEC NO_FFMPEG NO_LIBJPEG NO_TAR NO_RECORDIO NO_RECORDS WITHOUT_CUDA; do
    ! cc -std=c11 $NO_CUDA $NO_AV -E "-DBENZINA_$name" -I. benzina.c > "$T/said" 2>&1 && grep -q 'misspelt' "$T/said" || { echo "$name"; return 1; }; done
    for name in $(sed -n 's/^ \*     \(BENZINA_[A-Z_]*\)  .*/\1/p' benzina.h); do
        cc -std=c11 $NO_CUDA $NO_AV -E "-D$name" -I. benzina.c > /dev/null || { echo "$name"; return 1; }; done; }
if have cc; then check switches_that_are_misspelt_are_refused misspelt; else skip switches_that_are_misspelt_are_refused "no cc here [gcc]"; fi
make_refuses() { # variable
    ! make -n all "$1=-O1 -DBENZINA_NO_STILLSS=1" > "$T/said" 2>&1 && grep -q 'BENZINA_NO_STILLSS: no such switch; benzina.h has BENZINA_NO_CUDA' "$T/said" &&
        make -n "$BUILD/benzina.o" "$1=-O1 -DBENZINA_NO_STILLS=1 -DBENZINA_HIDDEN" > "$T/said" 2>&1 || { cat "$T/said"; return 1; }; }
check make_refuses_an_unknown_switch_in_CFLAGS make_refuses CFLAGS
makes_the_library_alone() { # with a switch that leaves out functions that the tool calls
    make -n -B all "BUILD=$T/less" "CPPFLAGS=-DBENZINA_NO_$1" > "$T/said" && grep -q 'libbenzina.so' "$T/said" &&
        ! grep -E 'examples/(bzna/|stream)' "$T/said" && grep 'tool: none (it needs what -DBENZINA_NO_'"$1"' leaves out)' "$T/said"
}
for switch in WRITER AUGMENT; do check "make_builds_no_tool_without_$switch" makes_the_library_alone $switch; done
check make_refuses_an_unknown_switch_in_CPPFLAGS make_refuses CPPFLAGS

if have readelf && [ -n "$(sed -n 's/^VERSIONED := .*Linux.*/&/p' Makefile)" ] && [ "$(uname -s)" = Linux ]; then
    versioned() { v=$(awk '/define BZNA_VERSION_(MAJOR|MINOR)/ { printf "%s%s", s, $3; s = "." }' benzina.h)
        readelf --dyn-syms -W "$BUILD/libbenzina.so" | awk -v want="@@BENZINA_$v" '$8 ~ /^bzna_/ { n++; if (substr($8, length($8) - length(want) + 1) != want) { print $8; bad = 1 } } END { exit bad || !n }'; }
    check every_symbol_has_the_librarys_version versioned
else skip every_symbol_has_the_librarys_version "no readelf [binutils]"; fi

# --- two plugins in one process, each with a copy of the pair of its own: one of them cannot write ---
cat > "$T/plugin.c" <<'EOS'
#include "benzina.h"
int plugin_run(const char *path);
__attribute__((visibility("default"))) int plugin_run(const char *path)
{
    bzna_error err = { .struct_size = sizeof err };
    bzna_context *context = NULL;
    bzna_dataset *dataset = NULL;
    bzna_writer *writer = NULL;
    int result = 1;
    if (bzna_context_open(NULL, &context, &err) == BZNA_OK && bzna_dataset_open(context, path, NULL, &dataset, &err) == BZNA_OK &&
        bzna_dataset_count(dataset) == 8)
        result = bzna_writer_open(context, "/dev/null/none", NULL, &writer, &err) == BZNA_E_UNSUPPORTED ? 10 : 20;
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    return result;
}
EOS
cat > "$T/host.c" <<'EOS'
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i++) {
        void *plugin = dlopen(argv[i], RTLD_NOW | RTLD_GLOBAL);
        int (*run)(const char *) = plugin ? (int (*)(const char *))(size_t)dlsym(plugin, "plugin_run") : 0;
        printf("%d ", run ? run(argv[argc - 1]) : -1);
    }
    return 0;
}
EOS
plugins() {
    for p in "first:" "second:-DBENZINA_NO_WRITER"; do
        gcc -std=c11 $O -ffp-contract=off -fPIC -shared -DBENZINA_HIDDEN -DBENZINA_NO_CUDA ${p#*:} $AV_CFLAGS \
            -I. "$T/plugin.c" benzina.c $AV_LIBS $LIBS -o "$T/${p%%:*}.so" || return 1
        [ "$(nm -D --defined-only "$T/${p%%:*}.so" | awk '{ print $3 }' | grep -v '^_')" = plugin_run ] || { nm -D --defined-only "$T/${p%%:*}.so" | head -5; return 1; }
    done
    gcc -w "$T/host.c" -ldl -o "$T/host" && "$T/host" "$T/first.so" "$T/second.so" tests/data/mini_h265.bzna > "$T/said" && cat "$T/said" && [ "$(cat "$T/said")" = "20 10 " ]; }
if have nm; then more with gcc two_plugins_with_hidden_copies_live_in_one_process plugins; else skip two_plugins_with_hidden_copies_live_in_one_process "no nm [binutils]"; fi

# --- the source keeps its own rules ---
held=$(find tests examples \( -name '*.c' -o -name '*.h' \) ! -path '*/target/*' | sort)
check header_has_at_most_100_columns awk "length > 100 { print FILENAME \": \" FNR; bad = 1 } END { exit bad }" \
    benzina.h
check header_comments_on_each_member_function_and_parameter awk -f tests/make/comments.awk benzina.h
check header_has_at_most_78_functions sh -c \
    "[ \$(awk -v list=functions -f tests/make/abi.awk benzina.h | wc -l) -le 78 ]"
# Windows' own printf knows no %zu.
check sizes_in_messages_are_printed_as_windows_can sh -c "! grep -n '%z' benzina.c benzina_kernels.cu examples/formats/*.[ch]"
check lines_have_at_most_120_columns awk "length > 120 { print FILENAME \": \" FNR; bad = 1 } END { exit bad }" \
    benzina.c benzina_kernels.cu Makefile $held
# rows of tables are one line in Markdown
check markdown_and_the_python_package_have_at_most_120_columns \
    awk "length > 120 && !/^[|]/ { print FILENAME \": \" FNR; bad = 1 } END { exit bad }" \
    $(find . -name build -prune -o -name target -prune -o -name .git -prune -o \( -name '*.md' -o -path './examples/python/*.py' \) -print)
check no_static_forward_declarations sh -c "! grep -nE '^static [^=(]*\([^)]*\);[[:space:]]*$' benzina.c"
python=${PYTHON:-python3}
if have "$python"; then check banners_say_which_rooms_call_which "$python" tests/make/rooms.py benzina.c; else skip banners_say_which_rooms_call_which "no python3 here [python3]"; fi
if have "$python"; then check options_of_the_tool_are_what_the_settings_are "$python" tests/make/options.py; else skip options_of_the_tool_are_what_the_settings_are "no python3 here [python3]"; fi
# What macOS and clang's sanitizer of undefined behavior alone would show: tests/make/elsewhere.c. It ends by a trap,
# which needs no library: since clang 19 Debian has the sanitizers' libraries in a package of their own.
elsewhere() {
    clang -std=c11 -w -O0 -g -I. -DBENZINA_NO_CUDA -DBENZINA_NO_AVCODEC -DBENZINA_NO_JPEG -fsanitize=undefined \
        -fsanitize-trap=undefined -o "$T/elsewhere" tests/make/elsewhere.c $LIBS && "$T/elsewhere" "$T/elsewhere.tmp"
}
with clang syncs_are_repeated_after_a_signal_and_nothing_is_added_to_null elsewhere
# One room a platform: nothing else asks which one it is, or includes its headers. The tool's room is os.h with its two
# files. stream_source.c, which starts commands and polls pipes, is of POSIX as a whole, and asks for nothing either.
platforms='_WIN(32|64)|__(APPLE|linux|unix|FreeBSD|NetBSD|OpenBSD|ANDROID|GLIBC|MINGW[0-9]*|CYGWIN|MACH|sun)(__)?|_MSC_VER'
system_headers='(sys/[a-z]+|unistd|strings|windows|dirent|dlfcn|fcntl|glob|io|pthread|sched|signal|process|poll|termios|malloc)\.h'
not_rooms() { # pattern: lines that have it, but for the rooms of the OS
    awk -v pattern="$1" 'FNR == 1 { room = "" } /^\/\* ==== / { room = $0 } room !~ /[0-9]\. OS[ :]/ && $0 ~ "^[ \t]*#.*" pattern { print FILENAME ": " FNR ": " $0; bad = 1 }
        END { exit bad }' benzina.c benzina.h benzina_kernels.cu
}
not_os_files() { ! grep -nE "^[ \t]*#.*($1)" $(ls examples/*.[ch] examples/stream/*.[ch] examples/bzna/*.[ch] examples/formats/*.[ch] | grep -vE '/(os[_a-z]*|formats/data)\.[ch]$'); }
check only_the_os_rooms_ask_for_the_platform not_rooms "($platforms)"
check only_the_os_rooms_include_its_headers not_rooms "include <$system_headers>"
check only_os_files_of_the_tool_ask_for_the_platform not_os_files "$platforms"
check the_search_for_platforms_finds_some sh -c "! awk '/^[ \t]*#.*(_WIN32|__APPLE__)/ { exit 1 }' benzina.c"
# What MSVC lacks: arrays of a variable size, statement expressions, attributes outside of a macro, C11's threads and
# the word _Thread_local, complex numbers, sizes in parameters ([static 3]), max_align_t, GNU's built-ins and types,
# POSIX's functions. What is of GNU's syntax alone, -Wpedantic refuses.
only_gnu_has() {
    awk '/^[ \t]*#[ \t]*if/ { gnu[++depth] = gnu[depth - 1] || /__GNUC__|__clang__|ifndef _WIN32|BZI_KERNEL_(CUDA|VECTORS)/ }
         /^[ \t]*#[ \t]*el/ { gnu[depth] = gnu[depth - 1] || /__GNUC__|__clang__/ } /^[ \t]*#[ \t]*endif/ { depth-- }
         /_Thread_local/ && !/# *define BZI_THREAD_LOCAL/ { print FILENAME ": " FNR ": " $0; bad = 1 }
         !gnu[depth] && /_Complex|<complex\.h>|\[static |max_align_t|__attribute__|__builtin_|__extension__|typeof|__asm|__int128|__thread|ssize_t|aligned_alloc|strn?casecmp|<threads\.h>|<stdalign\.h>|[^a-z_]alloca\(/ { print FILENAME ": " FNR ": " $0; bad = 1 }
         END { exit bad }' "$1"
}
# Numbers in files do not depend on the locale, nor anything on the size of a page.
check no_number_is_read_by_the_locale sh -c \
    "! grep -nE '\\b(strto(d|f|ld)|atof|scanf|setlocale|mmap|MapViewOfFile)[a-z]*\\(' benzina.c"
check the_tool_sets_no_locale sh -c "! grep -n 'setlocale' examples/bzna/*.[ch] examples/formats/*.[ch] examples/*.[ch] examples/stream/*.[ch]"
for file in benzina.h benzina.c benzina_kernels.cu; do check "nothing_that_msvc_lacks_in_$file" only_gnu_has $file; done
check only_software_decode_knows_libavcodec \
    sh -c "awk '/^\/\* ==== /{room=\$0} room !~ /Software decode|Includes/ && /avcodec_|av_frame|av_packet|AVCodec/ && !/^ \*|log_level_offset/ { print FILENAME \": \" FNR \": \" \$0; bad = 1 } END { exit bad }' benzina.c"
check only_jpeg_decode_knows_libjpeg sh -c \
    "awk '/^\/\* ==== /{room=\$0} room !~ /JPEG decode|Includes|Settings/ && /[^_a-z.>]jpeg_[a-z]|J(ERR|WRN|SAMP|CS)_|JSAMP/ && !/^ \*|\"/ { print FILENAME \": \" FNR \": \" \$0; bad = 1 } END { exit bad }' benzina.c"
check only_cuda_and_nvdec_know_the_driver \
    sh -c "awk '/^\/\* ==== /{room=\$0} room !~ /CUDA|NVDEC|Includes| OS/ && /CUresult|CUstream |CUvideo|CUVID|->cu\./ { print FILENAME \": \" FNR \": \" \$0; bad = 1 } END { exit bad }' benzina.c"

# --- the vendored pair, in an empty folder, in other people's builds: with and without the GPU path ---
mkdir -p "$T/foreign"
if [ -n "$cuda" ]; then
    check dist_makes_the_pair make --no-print-directory -s BUILD="$BUILD" dist
    version=$("$BZNA" --version | sed 's/bzna //')
    check pair_names_its_version sh -c '[ "$(head -qn 1 "$1"/benzina.[ch] | grep -cF "$2 - ")" = 2 ]' sh \
        $BUILD/dist "$version"
    check pair_has_the_ptx_inside grep -q ',46,118,101,114,115,105,111,110,' $BUILD/dist/benzina.c    # ".version"
    check pair_includes_no_other_file sh -c "! grep -n '^#include \"' $BUILD/dist/benzina.c | grep -v '\"benzina.h\"'"
    cp $BUILD/dist/benzina.h $BUILD/dist/benzina.c "$T/foreign/"
    variants=cuda; [ -z "$TEST_ALL" ] || variants="cuda nocuda"
else
    skip dist_makes_the_pair "$no_cuda"
    # what has no PTX inside, compiles without the GPU path
    cp benzina.h benzina.c benzina_kernels.cu "$T/foreign/"
    variants="nocuda"
fi
cat > "$T/foreign/program.c" <<'END'
#include "benzina.h"
#include <stdio.h>
int main(int argc, char **argv)
{
    bzna_error err;
    bzna_context *context = NULL;
    bzna_dataset *dataset = NULL;
    bzna_status status;
    bzna_error_init(&err, sizeof err);
    status = bzna_context_open(NULL, &context, &err);
    if (status == BZNA_OK)
        status = bzna_dataset_open(context, argc > 1 ? argv[1] : "", NULL, &dataset, &err);
    printf("%llu %s\n", (unsigned long long)bzna_dataset_count(dataset), err.message);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    return status != BZNA_OK;
}
END
# What comes of a device by its number, and of one that is left to the library: for a machine without a driver.
cat > "$T/foreign/device.c" <<'END'
#include "benzina.h"
#include <stdio.h>
static bzna_error err;
static void say(const char *what, bzna_status status) { printf("%s: %s %s\n", what, bzna_status_name(status), status < 0 ? err.message : ""); }
int main(int argc, char **argv)
{
    bzna_context_config context_config;
    bzna_loader_config config;
    bzna_context *context = NULL;
    bzna_dataset *dataset = NULL;
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_batch_info info;
    bzna_device_info device;
    bzna_status status;
    bzna_error_init(&err, sizeof err);
    say("count", bzna_context_device_info(NULL, &device, sizeof device, &err));
    bzna_context_config_init(&context_config, sizeof context_config);
    context_config.device.kind = BZNA_DEVICE_CUDA;
    say("device 0", bzna_context_open(&context_config, &context, &err));
    if (context || argc < 2 || bzna_context_open(NULL, &context, &err) != BZNA_OK ||
        bzna_dataset_open(context, argv[1], NULL, &dataset, &err) != BZNA_OK) return 1;
    bzna_loader_config_init(&config, sizeof config);
    config.output.batch_size = 8;
    config.output.width = config.output.height = 32;
    config.output.device.kind = BZNA_DEVICE_CUDA;
    say("output CUDA", bzna_loader_open(context, dataset, &config, &loader, &err));
    config.output.device.kind = BZNA_DEVICE_AUTO;
    config.decode.decoder = BZNA_DECODER_NVDEC;
    say("decoder NVDEC", bzna_loader_open(context, dataset, &config, &loader, &err));
    config.decode.decoder = BZNA_DECODER_AUTO;
    status = bzna_loader_open(context, dataset, &config, &loader, &err);
    if (status == BZNA_OK) status = bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err);
    say("AUTO", status);
    if (status == BZNA_OK) {
        const float *pixels;
        bzna_batch_get_info(batch, &info, sizeof info, &err);
        pixels = (const float *)info.image.data;
        printf("%u pictures on a device of kind %d, %u failed, %s\n", (unsigned)info.count,
               (int)info.image.device.kind, (unsigned)info.failed,
               pixels[16 * 32 + 16] >= 0 && pixels[16 * 32 + 16] <= 255 ? "with pixels" : "");
    }
    say("asked", bzna_context_device_info(context, &device, sizeof device, &err));
    bzna_batch_release(batch);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    return 0;
}
END
cp "$T/foreign/program.c" "$T/foreign/program.cc"
# A copy that is static inside a file of the program's: alone, and beside another that is linked.
printf '#define BENZINA_STATIC\n#include "benzina.c"\n#define main copy_main\nint copy_main(int argc, char **argv);\n#include "program.c"\nint other(void);\nint other(void) { return (int)bzna_version(); }\n' > "$T/foreign/copy.c"
printf 'int copy_main(int argc, char **argv);\nint main(int argc, char **argv) { return copy_main(argc, argv); }\n' > \
    "$T/foreign/unity.c"
printf '#include "benzina.h"\nint other(void);\nint main(void) { return other() != (int)bzna_version(); }\n' > \
    "$T/foreign/both.c"
archive="$root/tests/data/mini_h265.bzna"
# On a machine with a driver, a file that is no library stands before it.
mkdir -p "$T/nodriver" && : > "$T/nodriver/libcuda.so.1"
printf '#include <dlfcn.h>\nint main(void) { return !dlopen("libcuda.so.1", RTLD_NOW); }\n' > "$T/driver.c"
driverless="env"
if gcc "$T/driver.c" -ldl -o "$T/driver" 2>/dev/null && "$T/driver"; then driverless="env LD_LIBRARY_PATH=$root/$T/nodriver"; fi
in_foreign() { (cd "$T/foreign" && "$@"); }
counts_eight() { [ "$("$T/$1" "$archive")" = '8 ' ]; }                        # program: finds the archive's samples
says() { # program, then a pattern for each line in order
    $driverless "$1" "$archive" > "$T/said" 2>&1 || { cat "$T/said"; return 1; }
    shift; line=0
    for pattern; do line=$((line + 1)); sed -n "${line}p" "$T/said" | grep -q "$pattern" || { echo "line $line is not: $pattern"; cat "$T/said"; return 1; }; done
}
without_a_driver() { # program, status of what is demanded, what its message names
    says "$1" "^count: BZNA_$2 .*$3" "^device 0: BZNA_$2 context_config.device.*$3" \
        "^output CUDA: BZNA_$2 loader_config.output.device.*$3" \
        "^decoder NVDEC: BZNA_$2 loader_config.decode.decoder.*$3" '^AUTO: BZNA_OK' \
        '^8 pictures on a device of kind 1, 0 failed, with pixels' "^asked: BZNA_$2 .*$3"
}
pair_compilers="gcc clang"
if [ -n "$TEST_ALL" ]; then :; elif have clang; then pair_compilers=clang; else pair_compilers=gcc; fi
for gpu in $variants; do
    if [ $gpu = cuda ]; then GPU="$NV_CFLAGS"; refusal="E_DEVICE libcuda.so.1"; else GPU=$NO_CUDA; refusal="E_UNSUPPORTED BENZINA_NO_CUDA"; fi
    for cc in $pair_compilers; do
        of="of_${gpu}_with_$cc"; f=$gpu-$cc
        with $cc "pair_compiles_$of" in_foreign $cc -std=c11 $O $WARN $AV_CFLAGS $GPU -c benzina.c -o $f.o
        more with $cc "pair_without_libavcodec_compiles_$of" in_foreign $cc -std=c11 $WARN $NO_AV $GPU -c benzina.c \
            -o $f-none.o
        with $cc "c_program_builds_on_the_pair_$of" in_foreign $cc -std=c11 $WARN program.c $f.o $AV_LIBS $LIBS \
            -o $f-program
        with $cc "c_program_runs_$of" counts_eight foreign/$f-program
        more with $cc "c_program_builds_without_libavcodec_$of" in_foreign $cc -std=c11 $WARN program.c $f-none.o \
            $LIBS -o $f-none
        more with $cc "c_program_runs_without_libavcodec_$of" counts_eight foreign/$f-none
        more with $cc "unity_build_with_statics_$of" in_foreign \
            sh -c "$cc -std=c11 $WARN $AV_CFLAGS $GPU -c copy.c -o $f-copy.o && $cc -std=c11 $WARN unity.c $f-copy.o $AV_LIBS $LIBS -o $f-unity"
        more with $cc "unity_build_runs_$of" counts_eight foreign/$f-unity
        more with $cc "two_copies_live_in_one_program_$of" in_foreign \
            sh -c "$cc -std=c11 $WARN both.c $f-copy.o $f.o $AV_LIBS $LIBS -o $f-both && ./$f-both"
        with $cc "device_program_builds_$of" in_foreign $cc -std=c11 $WARN device.c $f.o $AV_LIBS $LIBS -o $f-device
        with $cc "without_a_driver_devices_are_refused_and_the_cpu_works_$of" without_a_driver "$T/foreign/$f-device" \
            $refusal
    done
    if have g++ && have $cc; then
        check "cxx_program_builds_on_the_pair_of_$gpu" in_foreign g++ -std=c++17 $WARN program.cc $gpu-$cc.o $AV_LIBS \
            $LIBS -o $gpu-programxx
        check "cxx_program_runs_of_$gpu" counts_eight foreign/$gpu-programxx
    else skip "cxx_program_builds_on_the_pair_of_$gpu" "no g++ here [g++]"; fi
done
# benzina.c behind other headers, and in one file with the program, as CMake's UNITY_BUILD puts them.
headers="assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg"
headers="$headers stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype"
after() { # standard, headers: whether benzina.c compiles after them
    std=$1; shift
    { for header; do echo "#include <$header.h>"; done; echo '#include "benzina.c"'; } > "$T/foreign/after.c"
    (cd "$T/foreign" && gcc -std=$std $WARN -O0 $AV_CFLAGS $NO_CUDA -fsyntax-only after.c)
}
after_or_told() { after "$@" 2> "$T/said" || grep -q '#error.*define _GNU_SOURCE before the first #include' "$T/said"; }
unity() { # files: a program of them in this order, as one file
    for file; do echo "#include \"$file\""; done > "$T/foreign/one.c"
    (cd "$T/foreign" && gcc -std=gnu11 $AV_CFLAGS $NO_CUDA one.c $AV_LIBS $LIBS -o one) && counts_eight foreign/one
}
own_level() { # benzina.c has most of itself compiled at -O1 by gcc; what follows it in one file is vectorized at -O3
    printf '%s\n' '#include "benzina.c"' 'int sum(const int *a, int n);' \
        'int sum(const int *a, int n) { int s = 0; for (int i = 0; i < n; i++) s += a[i]; return s; }' > "$T/foreign/sum.c"
    (cd "$T/foreign" && gcc -std=gnu11 -O3 -fopt-info-vec-optimized $AV_CFLAGS $NO_CUDA -S -o sum.s sum.c 2>&1 |
        grep '^sum.c:3:.*loop vectorized')
}
prefetches() { objdump -d "$BUILD/libbenzina.a" | grep -E -m 1 '[[:space:]](prefetch|prfm)'; }
cmake_unity() {
    mkdir -p "$T/unity" && cp "$T/foreign/program.c" "$T"/foreign/benzina.[ch] "$T/unity/" &&
    printf '%s\n' 'cmake_minimum_required(VERSION 3.16)' 'project(unity C)' 'add_executable(program program.c benzina.c)' \
        'set_target_properties(program PROPERTIES UNITY_BUILD ON C_STANDARD 11)' \
        "target_compile_options(program PRIVATE $AV_CFLAGS $NO_CUDA)" "target_link_libraries(program $AV_LIBS $LIBS)" \
        > "$T/unity/CMakeLists.txt" &&
    cmake -S "$T/unity" -B "$T/unity/out" && cmake --build "$T/unity/out" && counts_eight unity/out/program
}
# gcc drops the calls of a function that only prefetches, unless it is inlined.
with objdump samples_are_prefetched prefetches
check benzina_c_follows_all_standard_headers after gnu11 $headers
check benzina_c_after_a_header_that_hid_posix_says_what_to_define after_or_told c11 stdio
check benzina_c_follows_the_program_in_one_file unity program.c benzina.c
for header in $headers; do
    more check "benzina_c_follows_${header}_h" after gnu11 "$header"
    more check "benzina_c_follows_${header}_h_or_says_what_to_define" after_or_told c11 "$header"
done
more check the_program_follows_benzina_c_in_one_file unity benzina.c program.c
more with gcc what_follows_benzina_c_in_one_file_is_optimized_as_told own_level
more with cmake benzina_c_goes_into_a_unity_build cmake_unity
# The files of a checkout, where nothing has made the PTX: they compile, and opening a device says how to get it.
mkdir -p "$T/checkout" && cp benzina.c benzina.h benzina_kernels.cu "$T/foreign/device.c" "$T/checkout/"
checkout_compiles() { (cd "$T/checkout" && "$1" -std=c11 $WARN -I. $AV_CFLAGS $NV_CFLAGS -c benzina.c -o "$1.o"); }
checkout_says() {
    (cd "$T/checkout" && gcc -std=c11 -I. device.c "$1.o" $AV_LIBS $LIBS -o device) &&
    says "$T/checkout/device" '^count: BZNA_E_DEVICE .*libcuda.so.1' \
        '^device 0: BZNA_E_UNSUPPORTED context_config.device.*this build has no PTX: run make, or use the files of make dist' \
        '^output CUDA: BZNA_E_UNSUPPORTED loader_config.output.device.*no PTX' \
        '^decoder NVDEC: BZNA_E_UNSUPPORTED loader_config.decode.decoder.*no PTX' \
        '^AUTO: BZNA_OK' '^8 pictures on a device of kind 1, 0 failed, with pixels' \
        '^asked: BZNA_E_UNSUPPORTED .*no PTX'
}
for cc in gcc clang; do
    [ -n "$TEST_ALL" ] || break
    if ! pkg-config --exists ffnvcodec libavcodec; then skip "checkout_without_ptx_compiles_with_$cc" "no nv-codec-headers, or no libavcodec [libffmpeg-nvenc-dev libavcodec-dev]"; continue; fi
    with $cc "checkout_without_ptx_compiles_with_$cc" checkout_compiles $cc
    with $cc "checkout_without_ptx_says_how_to_get_it_with_$cc" checkout_says $cc
done
# One program with the GPU path in one copy and without it in the other.
[ -z "$cuda" ] || more check copies_with_and_without_cuda_live_in_one_program in_foreign \
    sh -c "gcc -std=c11 both.c nocuda-gcc-copy.o cuda-gcc.o $AV_LIBS $LIBS -o mixed && ./mixed"
[ -z "$cuda" ] || check switches_are_listed sh -c "grep -c '^BENZINA_' $BUILD/dist/SWITCHES | grep -qx 13"
# --- make takes what packagers set, keeps what the results depend on, and treats warnings as errors only for CI ---
made() { env -u WERROR -u MAKEFLAGS make --no-print-directory -n BUILD="$T/made" CC=mycc "$@" |
    sed -e ':more' -e '/\\$/{N; s/\\\n[[:space:]]*/ /; b more' -e '}' > "$T/made.txt" && grep '^mycc' "$T/made.txt" > "$T/made.cc"; }
all_have() { for word; do ! grep -vqF -e "$word" "$T/made.cc" || { echo "not everywhere: $word"; grep -vF -e "$word" "$T/made.cc"; return 1; }; done; }
compiling() { grep -v -e -shared "$T/made.cc" > "$T/made.of" && mv "$T/made.of" "$T/made.cc"; }
linking() { grep -v -e ' -c ' "$T/made.cc" > "$T/made.of" && mv "$T/made.of" "$T/made.cc"; }
flags="-O2 -mmade"
of_tests="$T/made/tests/test_cursor $T/made/gpu/gpu_check $T/made/bench/open $T/made/bench/sessions"
flags_reach_compiling() { made CFLAGS="$flags" CPPFLAGS=-DMADE "$@" && compiling && all_have " $flags " -DMADE -std=c11 -ffp-contract=off; }
flags_reach_linking() { made LDFLAGS=-Wl,-z,made "$@" && linking && all_have -Wl,-z,made; }
environment_is_heard() { (export CFLAGS="$flags" CPPFLAGS=-DMADE LDFLAGS=-Wl,-z,made; made "$@" && linking && compiling && all_have " $flags " -DMADE -Wl,-z,made); }
by_default() { unset CFLAGS; made all && compiling && all_have " -O3 -g1 "; }
destinations() { made install PREFIX=/its/prefix DESTDIR=/stage &&
    ! grep '^install\|^ln' "$T/made.txt" | grep -v "/stage/its/prefix\|$T/made" && grep "^PREFIX='/its/prefix' LIBDIR='/its/prefix/lib' .* sh tests/make/install_package.sh '/stage'" "$T/made.txt"; }
check cflags_and_cppflags_reach_every_compiler_call flags_reach_compiling all $of_tests
check ldflags_reach_every_link flags_reach_linking all $of_tests
check flags_are_taken_from_the_environment environment_is_heard all
check without_flags_make_optimizes by_default
# A user's compiler may be newer than any that this was written with.
of_users() { made all $of_tests && ! grep -e -Werror "$T/made.cc" && ! grep -n -e '-W[a-z]*[", ]*-Werror' tests/run.sh tests/*/test_*.sh tests/fake/build.sh $(find examples/*/test* -type f); }
of_ci() { made WERROR=-Werror all $of_tests && compiling && all_have " -Werror " && grep '^make deps test WERROR=-Werror$' .ci/run; }
check warnings_are_no_errors_in_a_users_tests of_users
check warnings_are_errors_in_ci of_ci
check install_goes_below_destdir_and_prefix destinations

# --- deps first, then everything else, with several jobs at once, too: a machine that has no package until apt-get ends ---
mkdir -p "$T/bare"
installed="$root/$T/packages"
program() { # name, lines: a program of that machine
    { echo '#!/bin/sh'; cat; } > "$T/bare/$1" && chmod +x "$T/bare/$1"
}
echo "[ ! -e '$installed' ] || echo installed" | program dpkg-query
echo '"$@"' | program sudo
echo "case \$1 in install) sleep 0.3; echo \"\$@\" > '$installed' ;; esac" | program apt-get
echo "test -e '$installed'" | program pkg-config
program mycc <<'END'
while [ $# -gt 0 ]; do
    case $1 in -fsyntax-only) exit 0 ;; -o) out=$2 ;; esac
    shift
done
sleep 0.1; printf '#!/bin/sh\n' > "$out" && chmod +x "$out"
END
makeflags=
bare() { # options and goals of make
    rm -rf "$T/bare/build" "$T/bare/stage"
    (unset WERROR MAKELEVEL MFLAGS; MAKEFLAGS=$makeflags PATH="$root/$T/bare:$PATH" make --no-print-directory BUILD="$T/bare/build" CC=mycc \
        CLANG=none DESTDIR="$T/bare/stage" PREFIX=/usr "$@") > "$T/bare/out" 2>&1
}
sees_what_deps_installed() {
    rm -f "$installed"; bare "$@"; status=$?
    cat "$T/bare/out"
    grep -q 'decoders: libavcodec; JPEG: libjpeg-turbo; tool: build/bzna; formats: HEIF, GIF/BMP/PNM, TIFF, JPEG 2000, JPEG XL; streams unpack: gzip' "$T/bare/out" &&
        ! grep -q jobserver "$T/bare/out" && return $status
}
demo_runs() { sees_what_deps_installed "$@" && [ -d "$T/bare/build/demo" ]; }
demo_runs_by_makeflags() { makeflags=-j2; demo_runs "$@"; status=$?; makeflags=; return $status; }
installs() { sees_what_deps_installed "$@" && [ -x "$T/bare/stage/usr/bin/bzna" ]; }
tests_begin() { # with an unknown suite, so that none runs: what tests need was installed, and the products are built
    ! sees_what_deps_installed "$@" TEST=absent && grep -q cppcheck "$installed" && [ -x "$T/bare/build/bzna" ] &&
        grep -qx '0 passed, 1 failed, 0 skipped' "$T/bare/out" && ! grep jobserver "$T/bare/build/tests/log.txt"
}
check make_deps_all_sees_what_deps_installed sees_what_deps_installed deps all
check make_j_deps_all_sees_what_deps_installed sees_what_deps_installed -j deps all
check make_j2_all_deps_sees_what_deps_installed sees_what_deps_installed -j2 all deps
check make_j2_deps_demo_runs_the_demo demo_runs -j2 deps demo
check makeflags_j2_make_deps_demo_runs_the_demo demo_runs_by_makeflags deps demo
check make_j4_demo_runs_the_demo_once_everything_is_built bare -j4 demo
check make_j_deps_install_installs_the_tool installs -j deps install
check make_j4_deps_test_begins_when_everything_is_installed tests_begin -j4 deps test
check make_without_a_goal_makes_all bare -j4
blank="$root/$T/bare/a prefix"
a_blank_is_taken() {
    bare install DESTDIR= PREFIX="$blank" && PKG_CONFIG_PATH="$blank/lib/pkgconfig" pkg-config --libs benzina > "$T/bare/flags" &&
        eval "set -- $(cat "$T/bare/flags")" && [ "$1" = "-L$blank/lib" ] && [ -x "$blank/bin/bzna" ] &&
        bare uninstall DESTDIR= PREFIX="$blank" && ! find "$blank" -type f -o -type l | grep .
}
if have pkg-config; then check a_prefix_with_a_blank_is_installed_to a_blank_is_taken; else skip a_prefix_with_a_blank_is_installed_to "no pkg-config here [pkg-config]"; fi

# Where not much is there: programs of $T/few alone, and these.
mkdir -p "$T/few"
for name in make sh awk sed cat uname printf; do ln -sf "$(command -v $name)" "$T/few/$name"; done
few() { PATH="$root/$T/few" "$@" > "$T/few.out" 2>&1; status=$?; cat "$T/few.out"; return $status; }
says_few() { text=$1; shift; few "$@"; status=$?; grep -qF -e "$text" "$T/few.out" && return $status; }
with_clang_alone() { # make takes it for cc
    echo 'exit 0' > "$T/few/clang" && chmod +x "$T/few/clang"
    (unset CC WERROR MAKEFLAGS; few make --no-print-directory -n BUILD="$T/few/build" all) && grep -q '^clang -fvisibility' "$T/few.out"
}
without_sudo() { # as somebody else than root
    echo 'echo 1000' > "$T/few/id"; : > "$T/few/apt-get"; : > "$T/few/dpkg-query"; (cd "$T/few" && chmod +x id apt-get dpkg-query)
    ! says_few "there is no sudo. As root: apt-get update && apt-get install --no-install-recommends libx y" sh tests/make/deps.sh libx y
}
# Another system, whose manager of packages is here: what it calls them
elsewhere() {
    rm -rf "$T/elsewhere" && mkdir -p "$T/elsewhere" && for tool in sh echo; do ln -s "$(command -v $tool)" "$T/elsewhere/$tool"; done
    for manager in dnf:ffmpeg-free-devel pacman:ffnvcodec-headers apk:openjpeg-dev brew:jpeg-xl vcpkg:ffnvcodec; do
        printf '#!/bin/sh\n' > "$T/elsewhere/${manager%%:*}" && chmod +x "$T/elsewhere/${manager%%:*}"
        env PATH="$PWD/$T/elsewhere" sh tests/make/deps.sh libx > "$T/elsewhere/said" && cat "$T/elsewhere/said"
        grep -q "^deps: ${manager%%:*} .*${manager#*:}" "$T/elsewhere/said" || return 1
        rm "$T/elsewhere/${manager%%:*}"
    done
}
check deps_has_the_names_of_other_systems elsewhere
check make_help_names_the_targets sh -c "make -s help > '$T/help' && for t in deps demo test test-all bench gpu-run dist install clean; do grep -q \"^make \$t \" '$T/help' || exit 1; done"
check without_apt_deps_says_what_is_needed says_few "this system has no apt. Install by its own names what Debian calls libx y" \
    sh tests/make/deps.sh libx y
check without_sudo_deps_says_what_root_types without_sudo
without_pkg_config() { # one reason, and no package is blamed for it
    says_few "pkg-config is missing: without it, no library is found" make what && ! grep -e '-dev' "$T/few.out"
}
check without_pkg_config_make_says_so_and_no_more without_pkg_config
# make -f ../Makefile
from_another_folder() {
    mkdir -p "$T/aside" && (cd "$T/aside" && unset MAKEFLAGS MAKELEVEL && make -f "$root/Makefile" -n all BUILD="$root/$T/aside") > "$T/aside/out" &&
        grep -q -e "-o $root/$T/aside/benzina.o benzina.c" "$T/aside/out"
}
check make_f_from_another_folder_goes_to_the_sources from_another_folder
# Neither the library nor the tool, the demo, installing and the pair need an interpreter of Python.
without_python() {
    (unset MAKEFLAGS MAKELEVEL; make --no-print-directory -n BUILD="$T/few/build" PYTHON=absent all demo install dist) > "$T/few.out" 2>&1
    status=$?; ! grep -E '(^|[ /])python[0-9]? ' "$T/few.out" && return $status
}
check without_python_make_builds_and_installs without_python
check with_clang_alone_make_compiles_by_it with_clang_alone

# --- what skips name in brackets are packages: julia is one of Debian 11, and CUDA's toolkit is not free ---
skips_name_packages() {
    sh tests/make/skipped_packages.sh --all | grep -vxF -e julia -e nvidia-cuda-toolkit > "$T/named" &&
        sh tests/make/skipped_packages.sh > "$T/known" && grep -qxF -e python3-numpy "$T/known" &&
        # of [a|b], the first is there
        ! diff "$T/named" "$T/known" | grep -vxF -e '> julia' -e '> nvidia-cuda-toolkit' -e '< cargo' -e '< rust-clippy' | grep '^[<>]'
}
if grep -q '^VERSION_CODENAME=bookworm' /etc/os-release 2>/dev/null && apt-cache pkgnames 2>/dev/null | grep -qx chromium; then
    check skips_name_packages_of_debian skips_name_packages
else skip skips_name_packages_of_debian "this is not Debian 12, or apt has no lists of packages"; fi

# --- a test that is not run does not compile, whatever the flags ---
printf '#include "test.h"\n#include "known.h"\nTEST(remembered) { CHECK(1); }\nTEST(forgotten) { CHECK(1); }\nTEST_MAIN(RUN(remembered))\n' > "$T/forgotten.c"
sed 's/RUN(remembered)/& RUN(forgotten)/' "$T/forgotten.c" > "$T/remembered.c"
LC_ALL=C awk -v want=h -f tests/make/library.awk benzina.c > "$T/library.h"
test_compiles() {
    "$1" -std=c11 -O0 -c -o "$T/warned.o" -I. -Itests/unit $NO_CUDA $NO_AV -include "$T/library.h" "$T/$2.c"
}
test_is_refused() { test_compiles "$1" remembered && ! test_compiles "$1" forgotten > "$T/refused" 2>&1 && grep -q test_forgotten "$T/refused"; }
for cc in gcc clang; do with $cc "a_test_that_is_not_run_does_not_compile_with_$cc" test_is_refused $cc; done

# --- suites that are chosen by name ---
# make test TEST="a b", of suites that say what they are
mkdir -p "$T/suites/tests/some"
for suite in first second third; do echo "echo '$suite: 1 passed, 0 failed, 0 skipped'" > "$T/suites/tests/some/test_$suite.sh"; done
runs() { # TEST, status, suites
    status=0; (cd "$T/suites" && BUILD=out TEST=$1 TEST_ALL= SANITIZE= sh "$root/tests/run.sh") > "$T/ran" 2>&1 || status=$?
    cat "$T/ran"; [ "$status $(awk '{ print $3 }' "$T/suites/out/tests/times.txt" | sort | tr '\n' ' ')" = "$2 $3" ]; }
check one_name_runs_its_suites runs first 0 "test_first.sh "
check several_names_run_the_suites_of_each runs "first ird" 0 "test_first.sh test_third.sh "
check a_name_of_no_suite_fails runs "first nonsense" 1 "test_first.sh "
[ -z "$cuda" ] || more check tarball_builds_by_itself \
    sh -c "cd $T && tar -xzf $root/$BUILD/dist/benzina-*.tar.gz && cd benzina-* && make --no-print-directory -s OPT=-O0 >/dev/null && build/bzna verify tests/data/mini_h265.bzna"
[ -z "$cuda" ] || check tarball_has_what_builds_and_tests_it sh -c "mkdir $T/unpacked && cd $T/unpacked &&
    tar -xzf $root/$BUILD/dist/benzina-*.tar.gz && cd benzina-* && ls tests/run.sh &&
    make --no-print-directory -n BUILD=out all out/tests/test_cursor"

# --- structs grow within a minor version: programs of today's header run with a library to come, and the other way
# round ---
# name, folder of the header, library: the example, built with the one, run with the other; its pictures to $T/of_NAME
decode_with() {
    sed 's|"../benzina.h"|"benzina.h"|' examples/example.h > "$T/example.h" && cp examples/decode_batch.c "$T/$1.c" && mkdir -p "$T/of_$1" &&
    gcc -std=c11 -Wall $WERROR -I"$2" "$T/$1.c" "$3" $AV_LIBS $LIBS -o "$T/$1" && "$T/$1" tests/data/mini_h265.bzna "$T/of_$1" && [ -n "$(ls "$T/of_$1")" ]; }
# A library to come: each struct that has a struct_size is longer than today's. Errors, states and tensors (which lie
# inside others) stay.
grown_library() {
    mkdir -p "$T/grown" && cp benzina.c benzina_kernels.cu "$T/grown/" &&
    awk '/^typedef struct bzna_[a-z_]* \{/ { sized = 0 } /^    uint32_t +struct_size[;,]/ { sized = 1 }
        /^} bzna_/ && sized && !/^} bzna_(error|loader_state|tensor);/ { print "    uint64_t later[3];"; n++ } { print } END { exit n < 20 }' benzina.h > "$T/grown/benzina.h" &&
    gcc -std=c11 $O -ffp-contract=off $AV_CFLAGS $NO_CUDA -c "$T/grown/benzina.c" -o "$T/grown/benzina.o"; }
runs_now() { decode_with now . "$BUILD/libbenzina.a"; }
runs_later() { decode_with now_later . "$T/grown/benzina.o" && diff -r "$T/of_now_later" "$T/of_now"; }
later_runs_now() { decode_with later "$T/grown" "$BUILD/libbenzina.a" && diff -r "$T/of_later" "$T/of_now"; }
check example_runs runs_now
more check library_with_longer_structs_builds grown_library
more check program_runs_with_a_library_whose_structs_have_grown runs_later
more check program_of_a_later_header_runs_as_long_as_it_sets_nothing_new later_runs_now

# --- the manual's and README's programs are compiled and run as they stand there ---
awk '/^ \* 2\. THE FIRST PROGRAM/ { on = 1; next } /^ \* A training loop/ { on = 0 } on { sub(/^ \*( {5})?/, ""); print }' \
    benzina.h > "$T/manual.c"
awk -v T="$T" '/^```c$/ { n++; on = 1; next } /^```$/ { on = 0 } on { print > (T "/readme" n ".c") }' README.md
for p in manual readme1; do
    check "program_of_${p}_compiles" gcc -std=c11 -Wall -Wextra -Wpedantic $WERROR -I. "$T/$p.c" "$BUILD/libbenzina.a" \
        $AV_LIBS $LIBS -o "$T/$p"
    check "program_of_${p}_runs" "$T/$p" tests/data/mini_h265.bzna
    check "program_of_${p}_fails_cleanly" \
        sh -c "! $T/$p tests/data/absent.bzna 2>&1 && $T/$p tests/data/absent.bzna 2>&1 | grep -q absent.bzna"
done
# --- and so are the manual's and README's command lines ---
awk '/^ \*     cc / { on = 1 } on { more = sub(/ *\\$/, ""); sub(/^ \* */, ""); printf "%s%s", $0, more ? " " : "\n"; on = more }' benzina.h > "$T/foreign/manual.sh"
lines_work() { [ "$(wc -l < "$T/foreign/manual.sh")" -eq 2 ] && (cd "$T/foreign" && sed "s/ -O3 / $O /" manual.sh > lines.sh && sh -e ./lines.sh && ./a.out "$root/tests/data/mini_h265.bzna" | grep -q '^8 '); }
if have cc && [ -n "$cuda" ] && [ -n "$AV_LIBS" ]; then more check manuals_command_lines_make_a_program lines_work; else skip manuals_command_lines_make_a_program "no libavcodec [libavcodec-dev], or $no_cuda"; fi
readme_line=$(sed -n 's/^    \(cc -I\. .*\)$/\1/p' README.md)
check readmes_command_line_makes_a_program \
    sh -c "cp '$T/readme1.c' '$T/program.c' && cd '$T' && $(echo "$readme_line" | sed "s|build/libbenzina.a|$root/$BUILD/libbenzina.a|; s|-I\.|-I$root|") -o readme_line && ./readme_line '$root/tests/data/mini_h265.bzna'"
same_line() { sed -n 's/^    cc /cc /p' examples/vendoring/README.md > "$T/pair.sh" && [ -s "$T/pair.sh" ] && head -n 1 "$T/foreign/manual.sh" | diff "$T/pair.sh" -; }
check vendorings_line_for_the_pair_is_the_manuals same_line
# Its program in Python, where train/ has two classes of four pictures
python_program() {
    mkdir -p "$T/python/train/gray" "$T/python/train/color" &&
        cp tests/data/pictures/jpeg_4[124]*.jpg "$T/python/train/color" &&
        cp tests/data/pictures/jpeg_gray_progressive.jpg tests/data/pictures/jpeg2000_gray.j2k \
        tests/data/pictures/png_palette_2.png tests/data/pictures/tiff_fax.tif "$T/python/train/gray" &&
        awk '/^```python$/ { on = 1; next } /^```$/ { on = 0 } on' README.md > "$T/python/program.py" &&
        (cd "$T/python" && PYTHONPATH="$root/examples/python" PYTHONDONTWRITEBYTECODE=1 \
        BENZINA_LIBRARY="$root/$BUILD/libbenzina.so" "$python" program.py) > "$T/python/said" 2>&1
    cat "$T/python/said"; [ "$(grep -c '8, 3, 224, 224' "$T/python/said")" -eq 1 ]; }
python=${PYTHON:-python3}
if "$python" -c 'import numpy' 2>/dev/null; then check readmes_python_program_runs python_program; else skip readmes_python_program_runs "no python3 with numpy [python3-numpy]"; fi

# --- the header's whole configurations open loaders, with batches of two ---
configurations() {
    { printf '#include "benzina.h"\n#include <stdio.h>\nint main(int argc, char **argv)\n{\n    const uint32_t rank = 0, world_size = 2;\n'
      awk '/^ \*     bzna_loader_config [a-z]+ = \{/ { on = 1 } on { print substr($0, 3) } /^ \*     \};/ { on = 0 }' \
          benzina.h
      cat <<'EOF'
    bzna_loader_config *configs[] = { &training, &evaluation, &inference };
    bzna_context *context = NULL;
    bzna_dataset *dataset = NULL;
    bzna_error err = { 0 };
    bzna_status status = bzna_context_open(NULL, &context, &err);
    if (status == BZNA_OK)
        status = bzna_dataset_open(context, argc > 1 ? argv[1] : "", NULL, &dataset, &err);
    for (int i = 0; i < 3 && status == BZNA_OK; i++) {
        bzna_loader *loader = NULL;
        bzna_batch *batch = NULL;
        configs[i]->output.batch_size = 2;
        status = bzna_loader_open(context, dataset, configs[i], &loader, &err);
        if (status == BZNA_OK)
            status = bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err);
        if (status == BZNA_OK)
            printf("a batch ");
        bzna_batch_release(batch);
        bzna_loader_close(loader);
    }
    if (status != BZNA_OK)
        fprintf(stderr, "%s\n", err.message);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    return status != BZNA_OK;
}
EOF
    } > "$T/configurations.c"
    gcc -std=c11 -Wall -Wextra -Wpedantic $WERROR -I. "$T/configurations.c" "$BUILD/libbenzina.a" $AV_LIBS $LIBS \
        -o "$T/configurations" &&
        "$T/configurations" tests/data/mini_h265.bzna > "$T/said" && cat "$T/said" && [ "$(cat "$T/said")" = "a batch a batch a batch " ]; }
check whole_configurations_of_the_header_open_loaders configurations

# --- READMEs' links and picture lead somewhere ---
links_lead() {
    grep -oE '\]\([^):]+\)' README.md tests/README.md tests/BENCHMARKS.md examples/vendoring/README.md examples/formats/README.md | sed -E 's/^(.*):\]\((.*)\)$/\1 \2/' > "$T/links" &&
        [ "$(wc -l < "$T/links")" -gt 8 ] &&
        while read -r page target; do
            file=$(dirname "$page")/${target%%#*}
            case $target in '#'*) file=$page;; esac
            [ -e "$file" ] || { echo "$page: $target is not there"; return 1; }
            case $target in *#*)
                sed -n 's/^##* //p' "$file" | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9\n-' | grep -qx -e "${target#*#}" ||
                    { echo "$page: $target: the page has no such heading"; return 1; };;
            esac
        done < "$T/links"; }
commands_exist() { # every command of the tool that README names
    sed -n 's/^    build\/bzna \([a-z]*\) .*/\1/p' README.md | sort -u > "$T/named" && [ -s "$T/named" ] &&
        "$BZNA" help | sed -n 's/^  bzna \([a-z]*\) .*/\1/p' | sort > "$T/commands" && ! comm -23 "$T/named" "$T/commands" | grep .; }
check readmes_picture_has_at_most_300000_bytes [ "$(wc -c < examples/contact.png)" -le 300000 ]
check links_lead_somewhere links_lead
if [ -x "$BZNA" ]; then check readme_names_commands_of_the_tool commands_exist; else skip readme_names_commands_of_the_tool "no $BZNA"; fi

# --- README's first program says which pictures failed ---
damaged_is_named() {                                        # the coded picture of sample 0 lies at bytes 68 to 14961
    cp tests/data/mini_h265.bzna "$T/damaged.bzna" &&
    dd if=/dev/zero bs=1000 count=14 2>/dev/null | tr '\000' '\377' |
    dd of="$T/damaged.bzna" bs=1 seek=72 conv=notrunc 2>/dev/null &&
    "$T/readme1" "$T/damaged.bzna" > "$T/said" 2>&1 && grep -q "damaged.bzna: sample 0: " "$T/said" &&
    [ "$(grep -c 'sample ' "$T/said")" -eq 1 ] && grep -q '^8 pictures' "$T/said"; }
check readme1_names_a_damaged_picture damaged_is_named

echo "tests/make/test_build.sh: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
