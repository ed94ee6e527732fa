#!/bin/sh
# The pair (benzina.c with the kernels and, if given, their PTX inside; the version in each file's first line), a
# CMakeLists.txt for it, what that installs, and formats and streams, as far as the pair has what they need. Usage, from
# the repository's root; SOURCES: the folder of the library's three files, if it is another:
#     sh tests/make/pair.sh FOLDER [PTX_HEADER [SOURCES]]
set -e
out=$1; ptx=$2; sources=${3:-.}
mkdir -p "$out/install"
version=$(awk '/define BZNA_VERSION_(MAJOR|MINOR|PATCH)/ { v = v s $3; s = "." } END { print v }' "$sources/benzina.h")
sed "1s/benzina.h - /benzina.h $version - /" "$sources/benzina.h" > "$out/benzina.h"
cp examples/vendoring/CMakeLists.txt "$out/"
cp examples/vendoring/install/*.in "$out/install/"
rm -rf "$out/stream" "$out/formats"
mkdir "$out/formats"
cp examples/formats/*.[ch] "$out/formats/"
if grep -q '^#define BENZINA_NO_PROVIDERS' "$sources/benzina.h"; then     # data sets of other kinds are providers
    for file in "$out"/formats/*.c; do
        case $file in */formats.c|*/heif.c|*/stills.c|*/tiff.c|*/jpeg2000.c|*/jxl.c) ;; *) rm "$file" ;; esac
    done
fi
if ! grep -qE '^#define BENZINA_NO_(PROVIDERS|FOLDERS)' "$sources/benzina.h"; then
    mkdir "$out/stream"
    cp examples/stream/stream.[ch] examples/stream/stream_source.[ch] "$out/stream/"
fi
awk -v ptx="$ptx" -v version="$version" -v kernels="$sources/benzina_kernels.cu" '
    function insert(file,  line) { while ((getline line < file) > 0) print line }
    NR == 1 { sub(/benzina[.]c - /, "benzina.c " version " - "); sub(/  +MIT license/, "  MIT license") }
    /^#include "benzina_kernels.cu"/    { insert(kernels); next }
    ptx && /__has_include\("benzina_kernels.ptx.h"\)/ { print "#  if 0"; next }
    ptx && /^#include "benzina_kernels.ptx.h"/ { insert(ptx); next }
    { print }' "$sources/benzina.c" > "$out/benzina.c"
