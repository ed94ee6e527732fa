#!/bin/sh
# The vendorable pair (benzina.c with the kernels and their PTX inside), a CMakeLists.txt for it, streams, formats, the
# list of its switches, and a tarball of the sources that builds and tests itself. With WITHOUT, names of switches as SHARDS or
# WRITER, the pair has no text of what these leave out (needs Python), and there is no tarball. Without PROVIDERS or
# FOLDERS, there are no streams.
# Usage, by make dist from the repository's root:
#     WITHOUT="SHARDS WRITER" sh tests/make/dist.sh BUILD VERSION FOLDER
set -e
build=$1; version=$2; out=$3; name=benzina-$version; stream=
ptx=$build/benzina_kernels.ptx.h
mkdir -p "$out" && rm -f "$out"/benzina-*.tar.gz
if [ -n "$WITHOUT" ]; then
    parts=$out/parts
    # shellcheck disable=SC2086
    "${PYTHON:-python3}" tests/make/without.py "$parts" $WITHOUT
    if grep -q '^#define BENZINA_NO_CUDA' "$parts/benzina.h"; then ptx=
    elif ! cmp -s benzina_kernels.cu "$parts/benzina_kernels.cu"; then
        ptx=$parts/benzina_kernels.ptx.h
        # shellcheck disable=SC2086
        $CLANG_PTX -o "$parts/benzina_kernels.ptx" "$parts/benzina_kernels.cu"
        LC_ALL=C awk -f tests/make/ptx_header.awk "$parts/benzina_kernels.ptx" > "$ptx"
    fi
else
    parts=.
fi
[ -z "$ptx" ] || [ -s "$ptx" ] ||
    { echo "dist needs clang and libffmpeg-nvenc-dev: the pair has the GPU's kernel inside" >&2; exit 1; }
sh tests/make/pair.sh "$out" "$ptx" "$parts"
awk '/^ \*     BENZINA_[A-Z_]+ /{ on = 1 } /^ \*$/{ on = 0 } on { sub(/^ \* */, ""); print }' benzina.h \
    > "$out/SWITCHES"
if [ -n "$WITHOUT" ]; then
    rm -r "$parts"
    [ ! -d "$out/stream" ] || stream=" stream,"
    echo "$out: benzina.h, benzina.c, CMakeLists.txt, install,$stream formats, SWITCHES, without $WITHOUT"
    exit
fi
rm -rf "${build:?}/$name"
mkdir "$build/$name"
cp -R benzina.h benzina.c benzina_kernels.cu Makefile README.md LICENSE CHANGELOG.md .editorconfig tests examples .ci \
    "$build/$name/"
rm -rf "$build/$name/examples/rust/target"
tar -C "$build" -czf "$out/$name.tar.gz" "$name"
rm -rf "${build:?}/$name"
echo "$out: benzina.h, benzina.c, CMakeLists.txt, install, stream, formats, SWITCHES, $name.tar.gz"
