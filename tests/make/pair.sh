#!/bin/sh
# The pair (benzina.c with the kernels and, if given, their PTX inside) and a CMakeLists.txt for it. Usage, from the
# repository's root:
#     sh tests/make/pair.sh FOLDER [PTX_HEADER]
set -e
out=$1; ptx=$2
mkdir -p "$out"
cp benzina.h examples/vendoring/CMakeLists.txt "$out/"
awk -v ptx="$ptx" 'function insert(file,  line) { while ((getline line < file) > 0) print line }
    /^#include "benzina_kernels.cu"/    { insert("benzina_kernels.cu"); next }
    ptx && /__has_include\("benzina_kernels.ptx.h"\)/ { print "#  if 0"; next }
    ptx && /^#include "benzina_kernels.ptx.h"/ { insert(ptx); next }
    { print }' benzina.c > "$out/benzina.c"
