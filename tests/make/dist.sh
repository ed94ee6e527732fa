#!/bin/sh
# The vendorable pair (benzina.c with the kernels and their PTX inside), a CMakeLists.txt for it, the list of its switches, and a tarball of
# the sources that builds and tests itself. Usage, by make dist from the repository's root: sh tests/make/dist.sh BUILD VERSION
set -e
build=$1; version=$2; out=$build/dist; name=benzina-$version
ptx=$build/benzina_kernels.ptx.h
[ -s "$ptx" ] || { echo "dist needs clang and libffmpeg-nvenc-dev: the pair has the GPU's kernel inside"; exit 1; }
mkdir -p "$out" && rm -f "$out"/benzina-*.tar.gz
sh tests/make/pair.sh "$out" "$ptx"
awk '/^ \*     BENZINA_[A-Z_]+ /{ on = 1 } /^ \*$/{ on = 0 } on { sub(/^ \* */, ""); print }' benzina.h > "$out/SWITCHES"
rm -rf "${build:?}/$name"
mkdir "$build/$name"
cp -R benzina.h benzina.c benzina_kernels.cu Makefile README.md LICENSE CHANGELOG.md .editorconfig tests examples .ci "$build/$name/"
rm -rf "$build/$name/examples/rust/target"
tar -C "$build" -czf "$out/$name.tar.gz" "$name"
rm -rf "${build:?}/$name"
echo "$out: benzina.h, benzina.c, CMakeLists.txt, SWITCHES, $name.tar.gz"
