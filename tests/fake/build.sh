#!/bin/sh
# Builds the fakes of libcuda.so.1 and libnvcuvid.so.1. Usage, from anywhere: sh tests/fake/build.sh OUTPUT_DIR CC
# [FLAGS...] FOR_FFMPEG=1: with what else ffmpeg wants of them. Needs ffnvcodec's headers (libffmpeg-nvenc-dev) and
# libavcodec.
set -e
out=$1; cc=$2; shift 2
here=$(dirname "$0")
flags="-std=c11 -O1 -g -fPIC -shared -ffp-contract=off -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror"
mkdir -p "$out"
cuda="$here/fake_cuda.c" nvcuvid="$here/fake_nvcuvid.c" more="" some=""
if [ -n "$FOR_FFMPEG" ]; then
    cuda="$here/fake_ffmpeg.c" nvcuvid=$cuda more='-DFAKE_IS_CUDA -DFAKE_SOURCE="fake_cuda.c"' \
        some='-DFAKE_SOURCE="fake_nvcuvid.c"'
fi
# nodelete: threads of theirs may outlive a dlclose. Bsymbolic: a copy with a symbol less does not use another's.
$cc $flags "$@" $more $(pkg-config --cflags ffnvcodec) -Wl,-soname,libcuda.so.1 -Wl,-z,nodelete -Wl,-Bsymbolic \
    -o "$out/libcuda.so.1" "$cuda" -lpthread
$cc $flags "$@" $some $(pkg-config --cflags ffnvcodec libavcodec libavutil) -Wl,-soname,libnvcuvid.so.1 \
    -Wl,-z,nodelete -Wl,-Bsymbolic -Wl,-rpath,'$ORIGIN' \
    -o "$out/libnvcuvid.so.1" "$nvcuvid" "$out/libcuda.so.1" $(pkg-config --libs libavcodec libavutil) -lpthread
