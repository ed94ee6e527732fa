#!/bin/sh
# The fake driver keeps its word: it decodes, waits and fails as the real one does, and reports who breaks its rules.
# Usage: sh tests/fake/test_fake.sh BZNA BUILD, from the repository root.
BUILD=${2:-build}; CC=${CC:-cc}
if ! pkg-config --exists ffnvcodec libavcodec libavutil || [ ! -e "$BUILD/libbenzina.a" ]; then
    echo "SKIP fake_driver: no nv-codec-headers, or no libavcodec [libffmpeg-nvenc-dev libavcodec-dev]"
    echo "tests/fake/test_fake.sh: 0 passed, 0 failed, 1 skipped"
    exit 0
fi
fakes="$BUILD/tests/fake"
make --no-print-directory -s BUILD="$BUILD" "$fakes/libnvcuvid.so.1" &&
$CC -std=c11 -O1 -g -ffp-contract=off $SANITIZE -I. $(pkg-config --cflags ffnvcodec libavcodec libavutil) \
-o "$BUILD/tests/fake_selftest" tests/fake/selftest.c \
    "$fakes/libcuda.so.1" "$fakes/libnvcuvid.so.1" -Wl,--disable-new-dtags,-rpath,'$ORIGIN/fake' "$BUILD/libbenzina.a" \
    $(pkg-config --libs libavcodec libavutil) $(pkg-config --libs libjpeg 2>/dev/null) -lm -lpthread -ldl || {
    echo "FAIL fake_driver: does not build"
    echo "tests/fake/test_fake.sh: 0 passed, 1 failed, 0 skipped"
    exit 1
}
FAKES="$fakes" "$BUILD/tests/fake_selftest"
