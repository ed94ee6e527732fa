#!/bin/sh
# The pair as an archive, and recipes of package managers for it, with the version, where the archive is and its hashes
# filled in: what examples/vendoring has for CMake's FetchContent, Meson, Conan and vcpkg, each with the program
# decode_batch.c. Usage, by make recipes from the repository's root; URL: the folder that the archive will be in, if it
# is not FOLDER:
#     sh tests/make/recipes.sh FOLDER VERSION PTX_HEADER [URL]
set -e
out=$1; version=$2; ptx=$3
name=benzina-pair-$version
rm -rf "$out" && mkdir -p "$out/$name"
out=$(cd "$out" && pwd)
url=${4:-file://$out}
sh tests/make/pair.sh "$out/$name" "$ptx"
cp LICENSE "$out/$name/"
# The same sources give the same bytes, and so the same hashes.
tar -C "$out" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -cf - "$name" |
    gzip -9n > "$out/$name.tar.gz"
rm -rf "${out:?}/$name"
sha256=$(sha256sum < "$out/$name.tar.gz") && sha512=$(sha512sum < "$out/$name.tar.gz")
for recipe in cmake meson conan vcpkg; do cp -R "examples/vendoring/$recipe" "$out/"; done
find "$out/cmake" "$out/meson" "$out/conan" "$out/vcpkg" -type f -exec sed -i \
    "s|@URL@|$url|g; s|@VERSION@|$version|g; s|@SHA256@|${sha256%% *}|g; s|@SHA512@|${sha512%% *}|g" {} +
for folder in cmake meson conan/test_package vcpkg/program; do
    sed 's|"../benzina.h"|"benzina.h"|' examples/example.h > "$out/$folder/example.h"
    cp examples/decode_batch.c "$out/$folder/"
done
echo "$out: $name.tar.gz, cmake, meson, conan, vcpkg"
