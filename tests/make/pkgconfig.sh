#!/bin/sh
# Prints benzina.pc. Usage: sh tests/make/pkgconfig.sh PREFIX VERSION LIBS...
prefix=$1; version=$2; shift 2
cat <<EOF
prefix=$prefix
Name: benzina
Description: Pictures for training neural networks, decoded in hardware or software
Version: $version
Cflags: -I"\${prefix}"/include
Libs: -L"\${prefix}"/lib -lbenzina
Libs.private: $*
EOF
