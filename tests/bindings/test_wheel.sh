#!/bin/sh
# test_wheel.sh - the Python package as pip installs it: from a checkout, from its source distribution, and from a wheel
#
#     sh tests/bindings/test_wheel.sh build/bzna build        from the repository's root
#
# The second argument is the folder that holds libbenzina.so, draw_pictures and, after make wheel, dist/python. With
# TEST_ALL, pip compiles the package in fresh venvs, and the wheel is tried in a Debian 11 that has neither libavcodec
# nor libjpeg (debootstrap, as root; it is kept in build/python/root). Prints FAIL and SKIP lines, and a count last.
bzna=${1:?usage: sh tests/bindings/test_wheel.sh build/bzna build}
build=${2:?usage: sh tests/bindings/test_wheel.sh build/bzna build}
python=${PYTHON:-python3}
package=examples/python
passed=0 failed=0 skipped=0
unset BENZINA_LIBRARY                                # packages are to find the library that they bring

pass() { passed=$((passed + 1)); }
skip() { skipped=$((skipped + 1)); echo "SKIP $1: $2"; }
end() { echo "tests/bindings/test_wheel.sh: $passed passed, $failed failed, $skipped skipped"; [ "$failed" -eq 0 ]; exit; }
have() { command -v "$1" >/dev/null 2>&1; }

if [ -n "$SANITIZE" ]; then skip wheel "neither pip nor the interpreter is built with a sanitizer"; end; fi
t=$(mktemp -d "${TMPDIR:-/tmp}/test_wheel.XXXXXX") || exit 1
trap 'rm -rf "$t"' EXIT
trap 'exit 1' HUP INT TERM

check() { # name, command...: its output goes to $t/log, of which a failure shows the end
    name=$1; shift
    if "$@" >"$t/log" 2>&1; then pass; return 0; fi
    failed=$((failed + 1)); echo "FAIL $name"; tail -n 12 "$t/log" | sed 's/^/  /'; return 1
}
says() { # text, command...: succeeds, and says the text
    text=$1; shift
    "$@" >"$t/said" 2>&1; code=$?
    tr -s ' \n' ' ' <"$t/said" >"$t/line"; cat "$t/said"
    [ "$code" -eq 0 ] && grep -qF -e "$text" "$t/line"
}
refuses() { # text, command...: fails, and says the text
    text=$1; shift
    "$@" >"$t/said" 2>&1; code=$?
    tr -s ' \n' ' ' <"$t/said" >"$t/line"; cat "$t/said"
    [ "$code" -ne 0 ] && grep -qF -e "$text" "$t/line"
}

# ---- what CMake finds, before anything is compiled ----

version=$(awk '/define BZNA_VERSION_(MAJOR|MINOR|PATCH)/ { v = v s $3; s = "." } END { print v }' benzina.h)
check package_has_the_version_of_the_library grep -qx "__version__ = \"$version\"" $package/benzina/_version.py
check licence_of_the_package_is_the_projects cmp LICENSE $package/LICENSE

configure() { rm -rf "$t/configured"; cmake -S "$1" -B "$t/configured" -DCMAKE_BUILD_TYPE=Release; }
if ! have cmake || ! have pkg-config; then
    skip "the package's CMakeLists.txt" "no cmake, or no pkg-config [cmake pkg-config]"
else
    cp -R $package "$t/alone"
    mkdir "$t/empty"
    bare() { PKG_CONFIG_LIBDIR=$t/empty PKG_CONFIG_PATH='' CLANG=absent configure $package; }
    without_clang() { CLANG=absent configure $package; }
    check folder_without_the_checkout_is_refused refuses "pip install -U pip" configure "$t/alone"
    check missing_libavcodec_is_refused_by_its_package refuses "libavcodec is missing (Debian: libavcodec-dev)" bare
    if pkg-config --exists libavcodec libavutil libjpeg; then
        check without_clang_there_is_no_gpu_path_and_it_says_so says "This build has no GPU path" without_clang
        check libraries_that_are_linked_are_named grep -q "benzina: libavcodec $(pkg-config --modversion libavcodec)" \
            "$t/said"
        check pair_of_the_checkout_is_written sh -c \
            'sed 1d benzina.h > "$1.rest" && sed 1d "$1" | cmp - "$1.rest"' sh "$t/configured/tree/pair/benzina.h"
    else
        skip "the package configured" "no libavcodec or libjpeg [libavcodec-dev libavutil-dev libjpeg-dev]"
    fi
fi
if [ -z "$TEST_ALL" ]; then echo "LEFT the Python package by pip, and its wheel"; end; fi

# ---- data, and what this build makes of them ----

if ! "$python" -c 'import numpy' 2>/dev/null; then skip "installing by pip" "$python has no numpy [python3-numpy]"; end; fi
if [ ! -e "$build/libbenzina.so" ] || [ ! -x "$build/draw_pictures" ]; then skip "installing by pip" "no $build/libbenzina.so: make"; end; fi
mkdir -p "$t/data/kinds"
cp tests/bindings/wheel_look.py "$t/data/"
cp tests/data/mini_h265.bzna tests/data/slices_h264.bzna "$t/data/"
for file in tests/data/pictures/* tests/data/heif/*; do
    case $file in *.rgb|*.index|*.mean|*.py) ;; *) cp "$file" "$t/data/kinds/" ;; esac
done
check pictures_are_drawn "$build/draw_pictures" "$t/data/drawn" 16
sources="kinds drawn mini_h265.bzna slices_h264.bzna"
for codec in h265 av1; do
    if [ -x "$bzna" ] && "$bzna" pack "$t/data/drawn" -o "$t/data/$codec.bzna" --codec $codec >"$t/log" 2>&1; then sources="$sources $codec.bzna"
    else skip "an archive of $codec" "no $bzna, or this FFmpeg has no encoder"; fi
done
# shellcheck disable=SC2086  # words
look() { (cd "$t/data" && "$@" wheel_look.py $sources) >"$t/looked" 2>"$t/library"; code=$?; cat "$t/library"; return $code; }
here=$(pwd); build=$(cd "$build" && pwd)
check the_build_loads_the_data look env BENZINA_LIBRARY="$build/libbenzina.so" PYTHONPATH="$here/$package" \
    PYTHONDONTWRITEBYTECODE=1 "$python" || end
cp "$t/looked" "$t/expected"
same_pixels() { diff "$t/expected" "$t/looked"; }

# ---- pip, with and without the checkout ----

tool_works() { # name, the command, the interpreter: the tool of a package packs, and what it packed is read
    check "$1_has_the_command" says "bzna $version" "$2" --version
    check "$1_packs" "$2" pack "$t/data/drawn" -o "$t/packed.bzna" --codec jpeg --overwrite
    check "$1_packs_by_its_module" "$3" -m benzina pack "$t/data/drawn" -o "$t/packed.bzna" --codec copy --overwrite
    check "$1_reads_what_it_packed" says "16" sh -c \
        "cd '$t' && '$3' -c 'import benzina; print(len(benzina.Dataset(\"packed.bzna\")))'"
    check "$1_verifies" "$2" verify "$t/packed.bzna"
    check "$1_indexes" sh -c "cd '$t/data' && tar -cf ../shard.tar drawn && '$2' index ../shard.tar && test -s ../shard.idx"
}
installed() { # name, venv, what pip is to install: the package is in the venv, complete, and makes the same pixels
    check "$1_installs_by_pip" "$t/$2/bin/python" -m pip install --disable-pip-version-check "$3" || return
    check "$1_has_a_tutorial" says "DataLoader" sh -c "cd '$t' && '$t/$2/bin/python' -c 'import benzina; help(benzina)'"
    check "$1_has_the_version" says "$version" "$t/$2/bin/python" -m pip show benzina
    check "$1_loads" look "$t/$2/bin/python" || return
    check "$1_brings_its_own_library" grep -q "$t/$2/.*/benzina/_lib/libbenzina.so" "$t/library"
    check "$1_makes_the_same_pixels" same_pixels
    if pkg-config --exists libavformat libswscale; then tool_works "$1" "$t/$2/bin/bzna" "$t/$2/bin/python"; fi
    if have clang && pkg-config --exists ffnvcodec; then
        check "$1_has_the_kernels_ptx" grep -qa "^.target sm_6" \
            "$t/$2"/lib/python*/site-packages/benzina/_lib/libbenzina.so
    fi
}
fresh() { # with the interpreter's numpy, also where that is a venv's
    "$python" -m venv "$t/$1" >"$t/log" 2>&1 || return
    "$python" -c 'import os, numpy; print(os.path.dirname(os.path.dirname(numpy.__file__)))' \
        > "$(echo "$t/$1"/lib/python*/site-packages)/numpy.pth"
}
if ! fresh checkout || ! fresh sdist; then
    skip "installing by pip" "$python makes no venv [python3-venv]"
elif ! "$t/checkout/bin/python" -m pip download -q --no-deps -d "$t/tried" "scikit-build-core>=0.11" >"$t/log" 2>&1; then
    skip "installing by pip" "pip finds no scikit-build-core, so that it has no network"
else
    installed checkout checkout "$here/$package"
    if ! have clang || ! pkg-config --exists ffnvcodec; then
        skip "the source distribution" "no clang or no NVIDIA headers [clang libffmpeg-nvenc-dev]"
    elif check sdist_is_made make --no-print-directory -s BUILD="$build" PYTHON="$python" sdist; then
        tar -xzf "$build/dist/python/benzina-$version.tar.gz" -C "$t"
        unpacked="$t/benzina-$version"
        check sdist_has_the_pair sh -c "grep -q '^static const uint8_t bzi_kernel_ptx' '$unpacked/pair/benzina.c' &&
            ! grep '^# *include \"benzina_kernels' '$unpacked/pair/benzina.c'"
        check sdist_has_a_licence cmp LICENSE "$unpacked/LICENSE"
        check sdist_has_nothing_else says " 1 " sh -c "cd '$unpacked' && echo \" \$(find . -type f | sed 's,^./,,' |
            grep -vxcE 'LICENSE|README.md|PKG-INFO|CMakeLists.txt|pyproject.toml|pair/(benzina.[ch]|CMakeLists.txt|stream/stream(_source)?.[ch]|formats/[a-z_0-9]+.[ch]|examples/((bzna|stream)/)?[a-z_]+.[ch])|benzina/(.*/)?[a-z_]+.py|benzina/py.typed' |
            sed 's/^0\$/1/') \""
        installed sdist sdist "$build/dist/python/benzina-$version.tar.gz"
    fi
fi

# ---- the wheel ----

wheel=$(ls "$build"/dist/python/benzina-"$version"-*manylinux*_"$(uname -m)".whl 2>/dev/null | head -n 1)
if [ -z "$wheel" ]; then skip "the wheel" "make wheel builds it"; end; fi
if [ -n "$(find benzina.[ch] benzina_kernels.cu $package -newer "$wheel" -name '[!_.]*' -type f)" ]; then skip "the wheel" "it is older than its sources: make wheel"; end; fi

"$python" -m zipfile -e "$wheel" "$t/wheel"
licences="$t/wheel/benzina-$version.dist-info/licenses"
check wheel_is_of_manylinux_2_28 says 'is consistent with the following platform tag: "manylinux_2_28' \
    env PATH="$build/python/tools/bin:$PATH" auditwheel show "$wheel"
for name in LICENSE bundled/ffmpeg.txt bundled/dav1d.txt bundled/libjpeg-turbo.txt bundled/zlib.txt bundled/libtiff.txt bundled/openjpeg.txt bundled/SOURCES.txt; do
    check "wheel_has_${name#bundled/}" test -s "$licences/$name"
done
check licence_of_ffmpeg_is_the_lesser_one grep -q "GNU LESSER GENERAL PUBLIC LICENSE" "$licences/bundled/ffmpeg.txt"
check licence_of_zlib_is_its_own grep -q "provided 'as-is'" "$licences/bundled/zlib.txt"
check sources_are_named_with_versions grep -qE '^ +ffmpeg_[0-9]' "$licences/bundled/SOURCES.txt"
check metadata_name_all_licences grep -q '^License-Expression: MIT AND LGPL-2.1-or-later' \
    "$t/wheel/benzina-$version.dist-info/METADATA"
ffmpeg_is_lgpl() {
    "$python" - "$t/wheel/benzina.libs" <<'END'
import ctypes, glob, sys
ctypes.CDLL(glob.glob(sys.argv[1] + "/libavutil*")[0], ctypes.RTLD_GLOBAL)
codec = ctypes.CDLL(glob.glob(sys.argv[1] + "/libavcodec*")[0])
for ask in (codec.avcodec_license, codec.avcodec_configuration):
    ask.restype = ctypes.c_char_p
    print(ask().decode())
assert codec.avcodec_license() == b"LGPL version 2.1 or later"
assert not [word for word in ("gpl", "nonfree", "x264") if word in codec.avcodec_configuration().decode()]
END
}
check bundled_ffmpeg_is_lgpl_without_gpl_parts ffmpeg_is_lgpl
check wheel_has_no_path_of_the_machine_that_built_it sh -c "! grep -rla '$here' '$t/wheel'"
check wheel_needs_nothing_of_others says \
    " 0 " sh -c "echo \" \$(for file in '$t/wheel'/benzina.libs/*.so* '$t/wheel'/benzina/_lib/*.so; do readelf -d \$file; done |
    sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | grep -vcE '^lib(c|m|dl|pthread|rt)\.so|^ld-linux|^lib(av(codec|format|util)|swscale)-|^libbenzina(_formats)?\.so') \""

# ---- the wheel in systems of its own ----

# shellcheck disable=SC2086  # words
inside() { env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 PIP_BREAK_SYSTEM_PACKAGES=1 \
    chroot "$root" "$@"; }
look_inside() { # shellcheck disable=SC2086  # words
    inside sh -c "cd /data && python3 wheel_look.py $sources" >"$t/looked" 2>"$t/library"; code=$?; cat "$t/library"; return $code; }
works_inside() { # where, wheel: it is installed in the root, and makes the pixels of this build
    # A program's own folder, in which the tool's libraries are, is known by /proc alone.
    if ! mount -t proc proc "$root/proc" 2>"$t/log"; then skip "the wheel $1" "mount ends with: $(tail -n 1 "$t/log")"; return; fi
    trap 'umount "$root/proc"; rm -rf "$t"' EXIT
    rm -rf "$root/data"; mkdir "$root/data"
    cp -R "$t/data/." "$root/data/"
    cp "$2" "$root/data/"
    inside python3 -m pip uninstall -q -y benzina >"$t/log" 2>&1
    if check "wheel_installs_$1" inside python3 -m pip install --no-index "/data/$(basename "$2")"; then
        check "wheel_has_a_tutorial_$1" says "DataLoader" inside python3 -c 'import benzina; help(benzina)'
        check "wheel_has_the_command_$1" says "bzna $version" inside bzna --version
        check "wheel_packs_$1" inside bzna pack /data/drawn -o /data/packed.bzna --codec jpeg
        check "wheel_says_what_it_cannot_encode_$1" refuses "has no libx265; --codec jpeg or --codec copy works" \
            inside bzna pack /data/drawn -o /data/no.bzna
        check "wheel_loads_$1" look_inside && check "wheel_makes_the_same_pixels_$1" same_pixels
        check "wheel_brings_its_own_library_$1" grep -q "dist-packages/benzina/_lib/libbenzina.so" "$t/library"
    fi
    rm -rf "$root/data"; umount "$root/proc"
    trap 'rm -rf "$t"' EXIT
}
if [ "$(id -u)" -ne 0 ]; then skip "the wheel in other systems" "this needs root"; end; fi
root="$build/python/root"
if [ ! -e "$root/complete" ] && have debootstrap; then
    rm -rf "$root"
    debootstrap --variant=minbase --include=python3,python3-pip,python3-numpy bullseye "$root" >"$t/log" 2>&1 && touch "$root/complete"
fi
if [ ! -e "$root/complete" ]; then
    skip "the wheel in Debian 11" "debootstrap is missing, or ends with an error: $(tail -n 1 "$t/log") [debootstrap]"
else
    inside python3 -m pip uninstall -q -y benzina >"$t/log" 2>&1          # of an earlier run
    check root_has_neither_libavcodec_nor_libjpeg \
        sh -c "! find '$root/usr' '$root/lib' -name 'libavcodec*' -o -name 'libjpeg*' -o -name 'libturbojpeg*' | grep ."
    works_inside in_debian_11 "$wheel"
fi
root=${ARM64:-/var/tmp/benzina-roots/arm64/root}
wheel=$(ls "$build"/dist/python/benzina-"$version"-*manylinux*_aarch64.whl 2>/dev/null | head -n 1)
if [ -z "$wheel" ]; then skip "the wheel on ARM" "MACHINE=aarch64 make wheel builds it"
elif ! inside python3 -m pip --version >"$t/log" 2>&1 || ! inside python3 -c 'import numpy' >"$t/log" 2>&1; then
    skip "the wheel on ARM" "no Python with pip and numpy in the root of make test-distros ROOT=arm64"
else works_inside on_arm64 "$wheel"; fi
end
