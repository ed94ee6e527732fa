#!/bin/sh
# Builds the fakes of libcuda.so.1 and libnvcuvid.so.1. Usage, from anywhere: sh tests/fake/build.sh OUTPUT_DIR CC
# [FLAGS...] FOR_FFMPEG=1: with what else ffmpeg wants of them. Needs ffnvcodec's headers (libffmpeg-nvenc-dev) and
# libavcodec.
set -e
out=$1; cc=$2; shift 2
here=$(dirname "$0")
flags="-std=c11 -O1 -g -fPIC -shared -ffp-contract=off -Wall -Wextra -Wpedantic -Wconversion -Wshadow $WERROR"
mkdir -p "$out"
cuda="$here/fake_cuda.c" nvcuvid="$here/fake_nvcuvid.c" more="" some=""
# refused PATTERN RESULT: functions with such names that ffmpeg's libraries name, which have this result unless a fake has
# them.
refused() {
    # shellcheck disable=SC2046  # paths of libraries
    names=$(cat $(ldd "$(command -v ffmpeg)" | awk '/libav(util|codec)\.so/ { print $3 }') | tr -c '[:alnum:]_' '[\n*]' |
        grep -xE "$1" | sort -u)
    echo "int refuse(void); int refuse(void) { return $2; }"
    for name in $names; do echo "int $name(void) __attribute__((weak, alias(\"refuse\")));"; done
}
if [ -n "$FOR_FFMPEG" ]; then
    unsupported=$(sed -n 's/.*FAKE_E_SUPPORT = \([0-9]*\).*/\1/p' "$here/fake.h")
    refused 'cu[A-Z][A-Za-z0-9]+(_v[0-9])?' "$unsupported" > "$out/refused_cuda.c"
    refused 'cuvid[A-Z][A-Za-z0-9]+' "$unsupported" > "$out/refused_nvcuvid.c"
    cuda="$here/fake_ffmpeg.c" nvcuvid=$cuda more="-DFAKE_IS_CUDA -DFAKE_SOURCE=\"fake_cuda.c\" $out/refused_cuda.c" \
        some="-DFAKE_SOURCE=\"fake_nvcuvid.c\" $out/refused_nvcuvid.c"
fi
# nodelete: threads of theirs may outlive a dlclose. Bsymbolic: a copy with a symbol less does not use another's.
$cc $flags "$@" $more $(pkg-config --cflags ffnvcodec) -Wl,-soname,libcuda.so.1 -Wl,-z,nodelete -Wl,-Bsymbolic \
    -o "$out/libcuda.so.1" "$cuda" -lpthread
$cc $flags "$@" $some $(pkg-config --cflags ffnvcodec libavcodec libavutil) -Wl,-soname,libnvcuvid.so.1 \
    -Wl,-z,nodelete -Wl,-Bsymbolic -Wl,-rpath,'$ORIGIN' \
    -o "$out/libnvcuvid.so.1" "$nvcuvid" "$out/libcuda.so.1" $(pkg-config --libs libavcodec libavutil) -lpthread
