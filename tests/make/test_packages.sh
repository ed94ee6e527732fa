#!/bin/sh
# test_packages.sh - the CMake project beside the pair, what make and CMake install, and programs that find it by
# find_package and pkg-config
#
#     sh tests/make/test_packages.sh build/bzna build        from the repository's root
#
# make test compiles the library once by CMake, unoptimized. TEST_ALL adds other kinds of builds.
BZNA=${1:-build/bzna}; BUILD=${2:-build}
T="$BUILD/tests/packages"
rm -rf "$T"; mkdir -p "$T"
root=$(pwd); here="$root/$T"
passed=0; failed=0; skipped=0
have() { command -v "$1" >/dev/null 2>&1; }
skip() { skipped=$((skipped + 1)); echo "SKIP $1: $2"; }
check() { # name, command...
    name=$1; shift
    if "$@" >"$T/log" 2>&1; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL $name"; tail -n 12 "$T/log"; fi
}
more() { [ -z "$TEST_ALL" ] || "$@"; }
end() { echo "tests/make/test_packages.sh: $passed passed, $failed failed, $skipped skipped"; [ "$failed" -eq 0 ]; exit; }
[ -n "$TEST_ALL" ] || echo "LEFT test_packages.sh: builds by CMake but one"
[ -z "$SANITIZE" ] || { skip packages "compilers are not what a sanitizer watches"; end; }
unset CFLAGS CPPFLAGS LDFLAGS CMAKE_BUILD_TYPE CMAKE_GENERATOR
version=$(awk '/define BZNA_VERSION_(MAJOR|MINOR|PATCH)/ { v = v s $3; s = "." } END { print v }' benzina.h)
series=${version%.*}

# --- what make installs, and removes again ---
lib=lib/$(gcc -print-multiarch 2>/dev/null || echo)
[ "$lib" != lib/ ] || lib=lib64
quiet_make() { (unset MAKEFLAGS; make --no-print-directory -s BUILD="$BUILD" "$@"); }
made="$here/made"
check make_installs quiet_make install PREFIX="$made" LIBDIR="$made/$lib"
for file in include/benzina.h include/benzina/stream.h include/benzina/formats.h $lib/libbenzina.a $lib/libbenzina.so \
    $lib/libbenzina_stream.a $lib/libbenzina_stream.so $lib/libbenzina_formats.a $lib/libbenzina_formats.so \
    $lib/pkgconfig/benzina.pc $lib/pkgconfig/benzina_stream.pc $lib/pkgconfig/benzina_formats.pc \
    $lib/cmake/benzina/benzinaConfig.cmake $lib/cmake/benzina/benzinaConfigVersion.cmake; do
    check "make_installs_$file" test -e "$made/$file"
done
if [ -x "$BZNA" ]; then check make_installs_the_tool test -x "$made/bin/bzna" -a -e "$made/share/man/man1/bzna.1"; fi
removes_only_its_own() { # from a prefix that others made, with folders that are empty
    stage=$here/above
    mkdir -p "$stage/include" "$stage/usr/x/share/other" &&
        quiet_make install DESTDIR="$stage" PREFIX=/usr/x LIBDIR=/usr/y && [ -e "$stage/usr/y/libbenzina.so" ] &&
        quiet_make uninstall DESTDIR="$stage" PREFIX=/usr/x LIBDIR=/usr/y && ! find "$stage" -type f -o -type l | grep . &&
        [ -d "$stage/usr/x/share/other" ] && [ -d "$stage/include" ] && [ -d "$stage/usr/x/include" ] &&
        [ ! -d "$stage/usr/x/include/benzina" ] && [ ! -d "$stage/usr/y/cmake/benzina" ]
}
check uninstall_removes_its_own_files_alone removes_only_its_own
if have man; then check man_page_is_well_formed sh -c "! man --warnings -l '$made/share/man/man1/bzna.1' 2>&1 >/dev/null | grep ."
else skip man_page_is_well_formed "no man here [man-db]"; fi

# --- programs: of the library, which prints how many samples it finds; of streams, which loads a batch; of formats, which
# registers all codecs and prints how many samples it finds ---
archive="$root/tests/data/mini_h265.bzna"
mkdir -p "$T/programs"
cat > "$T/programs/program.c" <<'END'
#include "benzina.h"
#include <stdio.h>
int main(int argc, char **argv)
{
    bzna_error err = { 0 };
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
cat > "$T/programs/streamed.c" <<'END'
#include "stream.h"
#include <stdio.h>
int main(int argc, char **argv)
{
    const char *sources[] = { argc > 1 ? argv[1] : "" };
    bzna_loader_config loader = {
        .struct_size = sizeof loader,
        .output = { .batch_size = 8, .width = 32, .height = 32 },
    };
    bzna_stream_config config = { .struct_size = sizeof config, .sources = sources, .source_count = 1, .loader = &loader };
    bzna_error err = { 0 };
    bzna_context *context = NULL;
    bzna_stream *stream = NULL;
    bzna_batch *batch = NULL;
    bzna_batch_info info = { 0 };
    bzna_status status = bzna_context_open(NULL, &context, &err);
    if (status == BZNA_OK)
        status = bzna_stream_open(context, &config, &stream, &err);
    if (status == BZNA_OK)
        status = bzna_stream_next(stream, BZNA_WAIT_FOREVER, &batch, &err);
    if (status == BZNA_OK)
        status = bzna_batch_get_info(batch, &info, sizeof info, &err);
    printf("%u %s\n", (unsigned)info.count, err.message);
    bzna_batch_release(batch);
    bzna_stream_close(stream);
    bzna_context_close(context);
    return status != BZNA_OK;
}
END
sed 's/"benzina.h"/"formats.h"/
    s/bzna_status status = bzna_context_open(NULL,/bzna_context_config config = { .struct_size = sizeof config };\
    config.own_codecs.ptr = bzna_formats_codecs(\&config.own_codecs.count);\
    bzna_status status = !config.own_codecs.count ? -1 : bzna_context_open(\&config,/' "$T/programs/program.c" \
    > "$T/programs/formats.c"
counts_eight() { [ "$(LD_LIBRARY_PATH=$2 "$1" "$archive")" = '8 ' ]; } # program, folder of libraries
if have readelf; then
    needs() { readelf -d "$1" | grep -q "NEEDED.*\[lib$2\.so\.$series\]"; }
    soname() { readelf -d "$1" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p'; }
else
    needs() { :; }
    soname() { :; }
    skip what_is_linked_is_what_was_named "no readelf [binutils]"
fi

# --- pkg-config: a program needs its own libraries alone; a static one, what these were built with, too ---
pc() { PKG_CONFIG_PATH="$made/$lib/pkgconfig" pkg-config "$@"; }
by_pkg_config() { # program, package
    # shellcheck disable=SC2046
    gcc -std=c11 "$T/programs/$1.c" $(pc --cflags --libs "$2") -o "$T/$1_shared" && needs "$T/$1_shared" "$2" &&
        ! pc --libs "$2" | grep -e -lavcodec -e -ljpeg -e -lz && counts_eight "$T/$1_shared" "$made/$lib"
}
# The packages' own private libraries are for programs that are static throughout, and often not there.
by_pkg_config_static() { # program, package
    pc --static --libs "$2" | grep -q -e "-lbenzina.*-lm .*-lpthread" &&
        packages="$(pc --print-requires-private benzina) $(pc --print-requires-private "$2")" &&
        # shellcheck disable=SC2046,SC2086
        gcc -std=c11 "$T/programs/$1.c" $(pc --cflags "$2") "$made/$lib/lib$2.a" "$made/$lib/libbenzina_formats.a" "$made/$lib/libbenzina.a" \
            $(pkg-config --libs $packages) -lm -lpthread -ldl -o "$T/$1_static" &&
        ! needs "$T/$1_static" "$2" && ! needs "$T/$1_static" benzina && counts_eight "$T/$1_static" ''
}
what_was_linked() { # by the names of packages, of which pkg-config knows the libraries
    pc --print-requires-private benzina | sort > "$T/private"
    for name in libavcodec libavutil libjpeg; do ! pkg-config --exists $name || echo $name; done | sort | diff "$T/private" - &&
        [ "$(sed -n 's/^Libs.private: //p' "$made/$lib/pkgconfig/benzina.pc")" = "-lm -lpthread -ldl" ]
}
if have pkg-config; then
    check a_program_builds_through_pkg_config by_pkg_config program benzina
    check a_static_program_builds_through_pkg_config by_pkg_config_static program benzina
    check a_program_of_streams_builds_through_pkg_config by_pkg_config streamed benzina_stream
    check a_program_of_formats_builds_through_pkg_config by_pkg_config formats benzina_formats
    check a_static_program_of_formats_builds_through_pkg_config by_pkg_config_static formats benzina_formats
    check a_static_program_of_streams_builds_through_pkg_config by_pkg_config_static streamed benzina_stream
    check what_the_library_is_built_with_is_required_privately what_was_linked
else skip a_program_builds_through_pkg_config "no pkg-config here [pkg-config]"; fi
if ! have cmake || ! have pkg-config; then
    skip cmake_builds_the_pair "no cmake, or no pkg-config here [cmake pkg-config]"
    quiet_make uninstall PREFIX="$made" LIBDIR="$made/$lib"
    end
fi

# --- CMake: what it says and how it compiles, configured alone ---
ptx="$BUILD/benzina_kernels.ptx.h"; [ -s "$ptx" ] || ptx=
check the_pair_is_written sh tests/make/pair.sh "$T/pair" "$ptx"
# pkg-config without the packages that HIDDEN names
cat > "$T/pkg-config" <<'END'
#!/bin/sh
for name in $HIDDEN; do case " $* " in *" $name "*) exit 1 ;; esac; done
exec pkg-config "$@"
END
chmod +x "$T/pkg-config"
mkdir -p "$T/user" && cp "$T"/programs/*.c "$T/user/" && ln -s ../pair "$T/user/benzina"
cat > "$T/user/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.13)
project(user C)
add_subdirectory(benzina)
add_executable(program program.c)
target_link_libraries(program benzina::benzina)
if(STREAMED)
    add_executable(streamed streamed.c)
    target_link_libraries(streamed benzina::stream)
    add_executable(formats formats.c)
    target_link_libraries(formats benzina::formats)
endif()
if(LEAN)
    target_compile_definitions(benzina PUBLIC BENZINA_NO_WRITER BENZINA_NO_SHARDS BENZINA_NO_AUGMENT
        BENZINA_NO_STILLS BENZINA_NO_FOLDERS BENZINA_NO_PROVIDERS)
endif()
if(EXPORTED)
    add_library(wrapper STATIC program.c)
    target_link_libraries(wrapper PRIVATE benzina::benzina)
    install(TARGETS wrapper EXPORT wrapper DESTINATION lib)
    install(EXPORT wrapper DESTINATION lib/cmake/wrapper)
endif()
END
configures() { # source, folder, options...
    source=$1; out=$2; shift 2
    mkdir -p "$T/$out/CMakeFiles"
    # what CMake has found out about the compiler already
    [ -e "$T/$out/CMakeCache.txt" ] || cp -R "$T"/compiler/* "$T/$out/CMakeFiles/" 2>/dev/null
    PKG_CONFIG="$here/pkg-config" cmake -S "$T/$source" -B "$T/$out" -DCMAKE_EXPORT_COMPILE_COMMANDS=ON "$@" > "$T/$out.log" 2>&1
    status=$?; cat "$T/$out.log"
    [ $status -ne 0 ] || [ -d "$T/compiler" ] || { mkdir "$T/compiler" && cp -R "$T/$out"/CMakeFiles/[0-9]* "$T/compiler/"; }
    return $status
}
# words of all warnings in order, and their number: source, folder, words, options...
warns() {
    of=$1; where=$2; words=$3; shift 3
    configures "$of" "$where" "$@" || return 1
    awk '/^CMake Warning/ { on = 1; n++ } /^[^ ]/ && !/^CMake Warning/ { on = 0 } on { printf "%s ", $0 }
        END { print n + 0 " warnings" }' "$T/$where.log" | tr -s ' ' > "$T/warned"
    cat "$T/warned"; grep -q -e "$words" "$T/warned"
}
command_of() { grep '"command".*benzina\.c"' "$T/$1/compile_commands.json"; } # folder
optimizes() { # folder, what is asked for: all of it, and nothing else
    [ "$(command_of "$1" | grep -oE -e ' -O[0-9s]*' | tr -d '\n')" = "$2" ] && command_of "$1" | grep -q -e ' -ffp-contract=off '
}
flags_of() { # build type, -O flags, other options...
    of=$1 flags=$2; shift 2
    configures user "flags_$of" -DCMAKE_BUILD_TYPE="$of" "$@" && optimizes "flags_$of" "$flags"
}
untyped() { warns user untyped "neither CMAKE_BUILD_TYPE nor CMAKE_C_FLAGS asks for optimization.* $1 warnings" && optimizes untyped ""; }
untyped_with_flags() {
    warns user untyped_o2 "^0 warnings" -DCMAKE_C_FLAGS=-O2 -DBENZINA_WITH_CUDA=OFF -DBENZINA_WITH_AVCODEC=OFF \
        -DBENZINA_WITH_JPEG=OFF && optimizes untyped_o2 " -O2"
}
alone_is_a_release() { configures pair alone && optimizes alone " -O3"; }
debug="-DCMAKE_BUILD_TYPE=Debug"
no_libjpeg() {
    HIDDEN=libjpeg warns user no_libjpeg "^[^W]*Warning[^W]*does not find libjpeg, as libjpeg-turbo's.*libjpeg-dev.*does not decode JPEG" \
        $debug && command_of no_libjpeg | grep -q -e -DBENZINA_NO_JPEG
}
another_libjpeg() { # as libjpeg 9's
    mkdir -p "$T/nine" && echo 'typedef struct jpeg_decompress_struct *j_decompress_ptr;' > "$T/nine/jpeglib.h" &&
        printf 'Name: libjpeg\nDescription: another\nVersion: 9\nCflags: -I%s\nLibs:\n' "$here/nine" > "$T/nine/libjpeg.pc" &&
        PKG_CONFIG_PATH="$here/nine" warns user another_libjpeg "does not find libjpeg, as libjpeg-turbo's" $debug
}
no_avcodec() {
    HIDDEN=libavcodec warns user no_avcodec \
        "does not find libavcodec.*The only software decoder of pictures is that of JPEG; $1.*Archives can be" $debug "$2" &&
        command_of no_avcodec | grep -v -e -DBENZINA_NO_JPEG | grep -q -e -DBENZINA_NO_AVCODEC
}
no_headers() {
    HIDDEN=ffnvcodec warns user no_headers "does not find ffnvcodec.*libffmpeg-nvenc-dev.*no GPU path.*nothing is decoded by NVDEC" \
        $debug && command_of no_headers | grep -q -e -DBENZINA_NO_CUDA
}
bare="-DCMAKE_DISABLE_FIND_PACKAGE_PkgConfig=ON"
no_pkg_config() {
    warns user "$1" "pkg-config itself is missing.*libjpeg.*ffnvcodec.*no GPU path.*libavcodec.*no software decoder.*no others.* 3 warnings" \
        $debug "$bare"
}
demanded() { # part, its package
    ! configures user demanded $debug "$bare" "-DBENZINA_WITH_$1=ON" && tr -s '\n ' ' ' < "$T/demanded.log" |
        grep "CMake Error at benzina/CMakeLists.txt[^ ]* (message): benzina: BENZINA_WITH_$1 is ON, but pkg-config itself is missing, which finds $2"
}
lean() { configures user lean $debug -DLEAN=ON && command_of lean | grep -e -DBENZINA_NO_SHARDS | grep -q -e -DBENZINA_NO_PROVIDERS; }
exports() { configures user exports $debug -DEXPORTED=ON -DBENZINA_INSTALL=ON; }
check cmake_adds_no_optimization_to_debug flags_of Debug ""
check cmake_optimizes_a_release_as_its_type_says flags_of Release " -O3"
check cmake_says_that_nothing_is_optimized_without_a_build_type untyped '[1-4]'
check cmake_takes_flags_instead_of_a_build_type untyped_with_flags
check cmake_builds_the_pair_alone_as_a_release alone_is_a_release
check cmake_warns_without_libjpeg no_libjpeg
check cmake_says_that_jpeg_is_decoded_without_libavcodec no_avcodec "no others are decoded" -DBENZINA_WITH_CUDA=OFF
check cmake_warns_without_nvidias_headers no_headers
check cmake_warns_without_pkg_config no_pkg_config bare
check cmake_is_quiet_where_told warns user quiet "^0 warnings" $debug "$bare" -DBENZINA_WITH_CUDA=OFF \
    -DBENZINA_WITH_AVCODEC=OFF -DBENZINA_WITH_JPEG=OFF
check cmake_refuses_a_decoder_that_is_not_there demanded AVCODEC "libavcodec and libavutil"
check cmake_takes_the_other_switches lean
check cmake_exports_projects_that_link_the_library exports
more check cmake_optimizes_by_o2_with_debug_information flags_of RelWithDebInfo " -O2"
more check cmake_keeps_a_users_flags flags_of Debug " -O1" -DCMAKE_C_FLAGS_DEBUG="-g -O1"
more check cmake_knows_another_libjpeg another_libjpeg
if pkg-config --exists ffnvcodec; then
    more check cmake_says_that_nvdec_decodes_without_libavcodec no_avcodec "H.264, H.265 and AV1 are decoded by a GPU" -DBENZINA_WITH_CUDA=ON
else more skip cmake_says_that_nvdec_decodes_without_libavcodec "no ffnvcodec [libffmpeg-nvenc-dev]"; fi
more check cmake_forgets_what_pkg_config_found no_pkg_config no_headers
more check cmake_refuses_libjpeg_where_it_is_not_there demanded JPEG "libjpeg"

# --- CMake's install: the same files, packages and symbols as make's ---
by_cmake="$here/by_cmake"
builds() { out=$1; shift; configures pair "$out" "$@" && cmake --build "$T/$out" && cmake --install "$T/$out"; }
files_of() { (cd "$1" && find include lib* | sort); }
same_files() { files_of "$made" > "$T/files" && files_of "$by_cmake" | diff "$T/files" - && [ "$(wc -l < "$T/files")" -gt 15 ]; }
same_packages() { # once both say the same prefix
    cp -R "$made/$lib/pkgconfig" "$T/pkgconfig" && sed -i "s|$made|$by_cmake|" "$T/pkgconfig"/*.pc &&
        diff -r "$T/pkgconfig" "$by_cmake/$lib/pkgconfig" && diff -r "$made/$lib/cmake" "$by_cmake/$lib/cmake"
}
symbols() { nm -D --defined-only --with-symbol-versions "$1" | cut -d ' ' -f 2- | sort; }
same_symbols() { # library, its symbols
    symbols "$made/$lib/$1.so" > "$T/symbols" && symbols "$by_cmake/$lib/$1.so" | diff "$T/symbols" - &&
        [ "$(grep -c "^T $2.*@@$3_$series\$" "$T/symbols")" -ge 2 ] && ! grep -v -e "^T $2" -e "^A $3_$series" "$T/symbols" &&
        [ "$(soname "$made/$lib/$1.so")" = "$1.so.$series" ] && [ "$(soname "$by_cmake/$lib/$1.so")" = "$1.so.$series" ]
}
check cmake_builds_and_installs_the_pair builds built $debug -DCMAKE_INSTALL_PREFIX="$by_cmake" -DCMAKE_INSTALL_LIBDIR=$lib
check cmake_installs_the_files_that_make_installs same_files
check cmake_installs_the_packages_that_make_installs same_packages
if have nm && nm -D --with-symbol-versions "$made/$lib/libbenzina.so" 2>/dev/null | grep -q @@; then
    check the_library_has_the_same_symbols_and_versions_of_both same_symbols libbenzina bzna_ BENZINA
    check formats_have_the_same_symbols_and_versions_of_both same_symbols libbenzina_formats bzna_formats_ BENZINA_FORMATS
    check streams_have_the_same_symbols_and_versions_of_both same_symbols libbenzina_stream bzna_stream_ BENZINA_STREAM
else skip the_library_has_the_same_symbols_and_versions_of_both "no nm with versions [binutils]"; fi

# --- find_package: the same programs build with either ---
finds() { # folder, prefix, what is asked of find_package, targets: a program for each
    mkdir -p "$T/$1" && cp "$T"/programs/*.c "$T/$1/" && {
        printf 'cmake_minimum_required(VERSION 3.13)\nproject(user C)\nfind_package(benzina %s REQUIRED)\n' "$3"
        for target in $4; do
            case $target in stream*) source=streamed ;; formats*) source=formats ;; *) source=program ;; esac
            printf 'add_executable(of_%s %s.c)\ntarget_link_libraries(of_%s benzina::%s)\n' $target $source $target $target
        done; } > "$T/$1/CMakeLists.txt" && configures "$1" "$1/out" $debug -DCMAKE_PREFIX_PATH="$2"
}
builds_found() { # as finds
    finds "$@" && cmake --build "$T/$1/out" && for target in $4; do counts_eight "$T/$1/out/of_$target" '' || return 1; done
}
all_kinds() { # folder, prefix
    builds_found "$1" "$2" "$series COMPONENTS static stream stream_static formats formats_static" \
        "benzina static stream stream_static formats formats_static" &&
        needs "$T/$1/out/of_benzina" benzina && needs "$T/$1/out/of_stream" benzina_stream &&
        needs "$T/$1/out/of_formats" benzina_formats && ! needs "$T/$1/out/of_formats_static" benzina_formats &&
        ! needs "$T/$1/out/of_static" benzina && ! needs "$T/$1/out/of_stream_static" benzina
}
refuses() { # folder, what is asked of find_package, words
    ! finds "$1" "$made" "$2" benzina && tr -s '\n ' ' ' < "$T/$1/out.log" | grep -e "$3"
}
shared_alone() { HIDDEN="libavutil libzstd libjxl" builds_found shared_alone "$made" "" "benzina stream formats"; }
static_alone() { # where somebody has removed the shared libraries
    cp -R "$made" "$T/static" && rm "$T/static/$lib"/*.so* && builds_found static_alone "$here/static" "" "benzina stream" &&
        ! needs "$T/static_alone/out/of_stream" benzina_stream
}
check find_package_finds_what_make_installed all_kinds of_make "$made"
check find_package_finds_what_cmake_installed all_kinds of_cmake "$by_cmake"
check find_package_refuses_another_series refuses other 0.1 'compatible with requested version'
check find_package_refuses_a_later_version refuses later "$series.99" 'compatible with requested version'
check find_package_says_what_a_static_library_needs eval 'HIDDEN=libavutil refuses needs "COMPONENTS static" \
    "There is no target benzina::static.*needs, found by pkg-config: libavcodec libavutil"'
check find_package_needs_nothing_else_for_the_shared_library shared_alone
check find_package_finds_the_static_library_alone static_alone
check uninstall_leaves_nothing sh -c "cp -R '$made' '$T/gone' &&
    (unset MAKEFLAGS; make --no-print-directory -s uninstall PREFIX='$here/gone' LIBDIR='$here/gone/$lib') &&
    ! find '$T/gone' -type f -o -type l | grep ."

# --- other builds by CMake ---
in_a_program() { # folder, programs, options...
    out=$1; programs=$2; shift 2
    configures user "$out" "$@" && cmake --build "$T/$out" -v > "$T/$out.made" && cat "$T/$out.made" &&
        for program in $programs; do counts_eight "$T/$out/$program" '' || return 1; done
}
without_switches() {
    in_a_program lean_built program -DCMAKE_BUILD_TYPE=Debug -DLEAN=ON -DBENZINA_WITH_CUDA=OFF -DBENZINA_WITH_AVCODEC=OFF &&
        "$T/lean_built/program" tests/data/seeds/ustar.tar | grep BENZINA_NO_SHARDS
}
hides() {
    in_a_program hidden program $debug -DBENZINA_WITH_CUDA=OFF -DBENZINA_HIDDEN=ON -DBENZINA_INSTALL=ON &&
        readelf -sW "$T/hidden/benzina/libbenzina.a" |
        awk '$8 ~ /^bzna_/ && $7 != "UND" { n++; bad += $6 != "HIDDEN" } END { exit bad || !n }'
}
streams_only_if_linked() { ! grep stream_source.c "$T/debug_static.made" && grep -q stream_source.c "$T/release_shared.made" &&
        ! grep formats.c "$T/debug_static.made"; }
more check cmake_builds_a_static_library_for_debugging in_a_program debug_static program $debug
more check cmake_builds_a_shared_library_for_release in_a_program release_shared "program streamed formats" \
    -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON -DSTREAMED=ON
more check cmake_compiles_streams_only_where_they_are_linked streams_only_if_linked
more check cmake_builds_without_libjpeg eval 'HIDDEN=libjpeg in_a_program jpegless program $debug'
more check cmake_leaves_switched_off_parts_out without_switches
if have readelf; then more check cmake_hides_the_functions_where_told hides
else more skip cmake_hides_the_functions_where_told "no readelf [binutils]"; fi
if have ninja; then
    more check cmake_builds_and_installs_by_ninja builds by_ninja -G Ninja $debug -DBUILD_SHARED_LIBS=ON \
        -DCMAKE_INSTALL_PREFIX="$here/installed_by_ninja"
    more check find_package_finds_what_ninja_installed all_kinds of_ninja "$here/installed_by_ninja"
else more skip cmake_builds_and_installs_by_ninja "no ninja here [ninja-build]"; fi
end
