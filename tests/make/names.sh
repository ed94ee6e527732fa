#!/bin/sh
# The public names of a header, sorted, one a line: functions, types, "type.member", constants and macros.
#
#     sh tests/make/names.sh benzina.h > names.txt
#
# tests/data/names-0.2.txt is what it printed for 0.2. A test holds that CHANGELOG.md names whatever went since.
set -e
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
header=$1

{
    awk -v list=functions -f tests/make/abi.awk "$header"

    # Structs and their members: the lines of two and more blanks are members of structs inside, which have lines
    # themselves.
    awk -f tests/make/abi.awk "$header" > "$dir/abi.c"
    cp "$header" "$dir/benzina.h"
    ${CC:-cc} -std=c11 -I"$dir" "$dir/abi.c" -o "$dir/abi"
    "$dir/abi" | awk '/^bzna/ { type = $1; print type } /^  [^ ]/ { print type "." $1 }'

    # Types without members, enumerators, macros.
    grep -oE '^typedef struct (bzna_[a-z_0-9]+) ' "$header" | sed 's/typedef struct //; s/ //'
    grep -oE '\(\*bzna_[a-z_0-9]+_fn\)' "$header" | tr -d '(*)'
    ${CC:-cc} -std=c11 -E "$dir/benzina.h" | grep -oE '\bBZNA_[A-Z0-9_]+'
    ${CC:-cc} -std=c11 -E -dM "$dir/benzina.h" | sed -nE 's/^#define (BZNA_[A-Z0-9_]+).*/\1/p'
} | LC_ALL=C sort -u
