#!/bin/sh
# test_recipes.sh - make recipes: CMake's FetchContent, Meson, Conan and vcpkg fetch the pair from an archive on this
# machine, build it, and link the program decode_batch with it, which then decodes a batch
#
#     sh tests/make/test_recipes.sh build/bzna build        from the repository's root
#
# CONAN: the command of Conan 2; with TEST_ALL, pip installs it in build/python/conan. VCPKG_ROOT: the folder of vcpkg.
# Nothing is fetched from elsewhere, so that vcpkg builds the port without the features that need other ports.
BUILD=${2:-build}
T="$BUILD/tests/recipes"
rm -rf "$T"; mkdir -p "$T"
here=$(cd "$T" && pwd); root=$(pwd)
passed=0; failed=0; skipped=0
have() { command -v "$1" >/dev/null 2>&1; }
skip() { skipped=$((skipped + 1)); echo "SKIP $1: $2"; }
check() { # name, command...
    name=$1; shift
    if "$@" >"$T/log" 2>&1; then passed=$((passed + 1)); return; fi
    failed=$((failed + 1)); echo "FAIL $name"; tail -n 12 "$T/log"
}
end() { echo "tests/make/test_recipes.sh: $passed passed, $failed failed, $skipped skipped"; exit $((failed > 0)); }
[ -n "$TEST_ALL" ] || echo "LEFT test_recipes.sh: Meson without the libraries, and Conan where it is not installed"
[ -z "$SANITIZE" ] || { skip recipes "compilers are not what a sanitizer watches"; end; }
unset CFLAGS CPPFLAGS LDFLAGS CMAKE_BUILD_TYPE CMAKE_GENERATOR
export CUDA_VISIBLE_DEVICES=
version=$(awk '/define BZNA_VERSION_(MAJOR|MINOR|PATCH)/ { v = v s $3; s = "." } END { print v }' benzina.h)
data=$root/tests/data/mini_h265.bzna
decoders=; ! pkg-config --exists libavcodec libavutil 2>/dev/null || decoders=1

# --- what is written ---
recipes() { # folder, other variables
    folder=$1; shift
    (unset MAKEFLAGS; make --no-print-directory -s BUILD="$BUILD" DIST="$folder" "$@" recipes)
}
archive=$here/recipes/benzina-pair-$version.tar.gz
filled() { # every recipe names the version, the archive and its hash, and nothing is left to fill in
    sha256=$(sha256sum <"$archive"); sha512=$(sha512sum <"$archive")
    for file in cmake/CMakeLists.txt meson/subprojects/benzina.wrap conan/conanfile.py \
        vcpkg/ports/benzina/portfile.cmake; do
        grep -q "file://$here/recipes/benzina-pair-$version.tar.gz" "$T/recipes/$file" &&
            grep -q -e "${sha256%% *}" -e "${sha512%% *}" "$T/recipes/$file" || { echo "$file"; return 1; }
    done
    ! grep -rnIE '@[A-Z0-9]+@' "$T/recipes"
}
same_bytes() { recipes "$here/again" URL=https://example.org/benzina &&
    cmp "$archive" "$T/again/recipes/benzina-pair-$version.tar.gz"; }
names_url() { grep -q "source_url = https://example.org/benzina/benzina-pair-$version.tar.gz" \
    "$T/again/recipes/meson/subprojects/benzina.wrap" && ! grep -rI file:// "$T/again/recipes"; }
check recipes_are_written recipes "$here"
check recipes_have_the_version_and_the_hash_of_the_archive filled
check the_same_sources_make_the_same_archive same_bytes
check recipes_name_the_folder_that_they_are_told names_url

# --- each builds the program, which decodes a batch ---
decodes() { # program
    mkdir -p "$T/out" && "$1" "$data" "$T/out" | grep -x "8 pictures, first of class 0" && ls "$T/out/00007.ppm" &&
        rm -r "$T/out"
}
fetch_content() { cmake -S "$T/recipes/cmake" -B "$T/cmake" -DCMAKE_BUILD_TYPE=Debug && cmake --build "$T/cmake" &&
    decodes "$T/cmake/decode_batch"; }
another_hash() { # an archive that was changed is refused
    cp -R "$T/recipes/cmake" "$T/changed" && sed -i 's/SHA256=..../SHA256=0000/' "$T/changed/CMakeLists.txt" &&
        ! cmake -S "$T/changed" -B "$T/changed/out" >"$T/said" 2>&1 && grep -i hash "$T/said"
}
if ! have cmake || ! have pkg-config || [ -z "$decoders" ]; then
    skip fetch_content_builds_the_program "no cmake, pkg-config or libavcodec [cmake pkg-config libavcodec-dev]"
else
    check fetch_content_builds_the_program fetch_content
    check fetch_content_refuses_another_archive another_hash
fi

by_meson() { meson setup "$T/meson" "$T/recipes/meson" -Dbuildtype=debug && ninja -C "$T/meson" &&
    decodes "$T/meson/decode_batch"; }
meson_alone() { # as told, without the libraries
    meson configure "$T/meson" -Dbenzina:avcodec=disabled -Dbenzina:jpeg=disabled -Dbenzina:cuda=disabled &&
        ninja -C "$T/meson" && ! "$T/meson/decode_batch" "$data" "$T" >"$T/said" 2>&1 &&
        grep BENZINA_NO_AVCODEC "$T/said"
}
if ! have meson || ! have ninja || ! have pkg-config || [ -z "$decoders" ]; then
    skip meson_builds_the_program "something of Meson or libavcodec is missing [meson ninja-build pkg-config libavcodec-dev]"
else
    check meson_builds_the_program by_meson
    [ -z "$TEST_ALL" ] || check meson_leaves_out_what_it_is_told meson_alone
fi

tools=$BUILD/python/conan
CONAN=${CONAN:-$(command -v conan || { [ ! -x "$tools/bin/conan" ] || echo "$root/$tools/bin/conan"; })}
if [ -z "$CONAN" ] && [ -n "$TEST_ALL" ]; then
    "${PYTHON:-python3}" -m venv "$tools" >"$T/log" 2>&1 &&
        "$tools/bin/python" -m pip install -q --disable-pip-version-check 'conan>=2.4' >>"$T/log" 2>&1 &&
        CONAN=$root/$tools/bin/conan
fi
by_conan() { # conan create runs decode_batch by itself
    export CONAN_HOME="$here/conan" BENZINA_DATA="$data"
    "$CONAN" profile detect && "$CONAN" create "$T/recipes/conan" -s build_type=Debug >"$T/said" 2>&1
    status=$?; cat "$T/said"
    [ $status -eq 0 ] && grep -x "8 pictures, first of class 0" "$T/said"
}
if [ -z "$CONAN" ]; then
    skip conan_builds_the_program "no conan: pip installs it, and make test-all does, if there is a network"
elif ! have cmake || ! have pkg-config || [ -z "$decoders" ]; then
    skip conan_builds_the_program "no cmake, pkg-config or libavcodec [cmake pkg-config libavcodec-dev]"
else check conan_builds_the_program by_conan; fi

by_vcpkg() { # the library alone, which says what it was built without
    case $(uname -m) in x86_64) machine=x64 ;; aarch64) machine=arm64 ;; *) machine=$(uname -m) ;; esac
    mkdir -p "$T/triplets" && printf 'set(VCPKG_%s)\n' "TARGET_ARCHITECTURE $machine" "CRT_LINKAGE dynamic" \
        "LIBRARY_LINKAGE static" "CMAKE_SYSTEM_NAME Linux" "BUILD_TYPE release" >"$T/triplets/tested.cmake"
    # shellcheck disable=SC2030
    (export VCPKG_DISABLE_METRICS=1 VCPKG_FORCE_SYSTEM_BINARIES=1 VCPKG_BINARY_SOURCES=clear
        "$VCPKG_ROOT/vcpkg" install 'benzina[core]' --overlay-ports="$T/recipes/vcpkg/ports" \
            --overlay-triplets="$T/triplets" --triplet=tested --host-triplet=tested --x-install-root="$here/vcpkg" \
            --x-buildtrees-root="$here/vcpkg-builds" --x-packages-root="$here/vcpkg-packages" \
            --downloads-root="$here/vcpkg-downloads" &&
            cmake -S "$T/recipes/vcpkg/program" -B "$T/vcpkg-program" -DVCPKG_INSTALLED_DIR="$here/vcpkg" \
                -DVCPKG_TARGET_TRIPLET=tested \
                -DCMAKE_TOOLCHAIN_FILE="$VCPKG_ROOT/scripts/buildsystems/vcpkg.cmake" &&
            cmake --build "$T/vcpkg-program") || return 1
    ! "$T/vcpkg-program/decode_batch" "$data" "$T" >"$T/said" 2>&1 && cat "$T/said" && grep BENZINA_NO_AVCODEC "$T/said"
}
if [ ! -x "$VCPKG_ROOT/vcpkg" ]; then skip vcpkg_builds_the_program "VCPKG_ROOT does not name the folder of vcpkg"
else check vcpkg_builds_the_program by_vcpkg; fi
end
