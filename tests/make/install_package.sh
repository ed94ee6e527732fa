#!/bin/sh
# What find_package and pkg-config read of an installed library, into ROOT, which is DESTDIR or empty. From the
# repository's root, with PREFIX, LIBDIR, VERSION, SOVERSION and, each a list, REQUIRES, LIBS, STREAM_REQUIRES and
# FORMATS_REQUIRES:
#     sh tests/make/install_package.sh ROOT LIBRARY...
set -e
root=$1; shift
package="$root$LIBDIR/cmake/benzina"
# Relative where LIBDIR is below PREFIX, so that the folder may be moved.
case $LIBDIR in
"$PREFIX"/*)
    below=${LIBDIR#"$PREFIX"/}
    libdir="\${prefix}/$below"
    include_from_lib=$(printf '%s' "$below" | sed 's|[^/][^/]*|..|g')/include ;;
*)
    libdir=$LIBDIR
    include_from_lib=$PREFIX/include ;;
esac
fill() { # template, folder
    install -d "$2"
    LIBDIR=$libdir INCLUDEDIR="\${prefix}/include" INCLUDE_FROM_LIB=$include_from_lib SHARED_SUFFIX=.so \
        awk '{ while (match($0, /@[A-Z_]+@/)) {
                   value = ENVIRON[substr($0, RSTART + 1, RLENGTH - 2)]; gsub(/^ +| +$/, "", value); gsub(/ +/, " ", value)
                   printf "%s%s", substr($0, 1, RSTART - 1), value; $0 = substr($0, RSTART + RLENGTH)
               } print }' "examples/vendoring/install/$1.in" > "$2/$1"
}
for library; do fill "$library.pc" "$root$LIBDIR/pkgconfig"; done
fill benzinaConfig.cmake "$package"
fill benzinaConfigVersion.cmake "$package"
