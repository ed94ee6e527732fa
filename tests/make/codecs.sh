#!/bin/sh
# Builds the libraries that decode pictures from Debian's sources: a small FFmpeg with the decoders that the library
# calls, and dav1d. Nothing in them is GPL.
#     sh tests/make/codecs.sh FOLDER          static libraries: FOLDER/lib/pkgconfig has libavcodec, libavformat,
#                                             libswscale, libavutil, dav1d
#     sh tests/make/codecs.sh FOLDER wheel    what a wheel bundles: FFmpeg's four libraries as shared ones, which
#                                             whoever has the wheel can replace, with dav1d and zlib inside; static
#                                             libjpeg-turbo, libtiff and OpenJPEG; and the headers of this system's
#                                             libffmpeg-nvenc-dev
# H.264, H.265 and the stills are FFmpeg's own decoders, AV1 is dav1d's. The sources come by apt, as the packages of
# this system's release: see sources.sh.
# CC: the compiler. JOBS: how many of it at a time. MACHINE: the processor that it compiles for, as aarch64, if that is
# another than this one; then AR and RANLIB also know it. Needs nasm, meson, ninja-build, dpkg-dev, and cmake for a wheel
# (make static-deps). It takes some 5 minutes of one core.
# FOLDER/licences has the licences. For a wheel, FOLDER/sources keeps the sources, which the LGPL wants to be offered
# with it, and FOLDER/SOURCES.txt says how they were built.
set -eu
folder=${1:?usage: codecs.sh FOLDER [wheel]}
kind=${2:-static}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
jobs=${JOBS:-$(getconf _NPROCESSORS_ONLN)}
CC=${CC:-cc}
export CC
machine=${MACHINE:-$(uname -m)}; cross=
[ "$machine" = "$(uname -m)" ] || cross=1
[ ! -e "$folder/done" ] || { echo "codecs: $folder is complete"; exit 0; }

failed() { tail -n 30 "$1" >&2; exit 1; }

packages="dav1d ffmpeg"
programs="nasm meson ninja dpkg-source pkg-config"
missing=
if [ "$kind" = wheel ]; then
    programs="$programs cmake"
    packages="$packages zlib libjpeg-turbo tiff openjpeg2"
fi
for program in $programs; do
    command -v "$program" >/dev/null || missing="$missing $program"
done
if [ "$kind" = wheel ]; then
    pkg-config --exists ffnvcodec 2>/dev/null || missing="$missing libffmpeg-nvenc-dev"
fi
if [ -n "$missing" ]; then
    made="A static FFmpeg is"
    [ "$kind" != wheel ] || made="The FFmpeg and the libjpeg-turbo that a wheel has inside are"
    echo "codecs: missing:$missing. $made built from sources: make static-deps installs what that needs" >&2
    exit 1
fi

# --- the sources ---
src="$folder/src"
mkdir -p "$folder/licences"
# shellcheck disable=SC2086
sh "$(dirname "$0")/sources.sh" "$src" $packages

# --- dav1d ---
export PKG_CONFIG_PATH="$folder/lib/pkgconfig"
log="$src/dav1d.log"
cat > "$src/cross.ini" <<END
[binaries]
c = '$CC'
ar = '${AR:-ar}'
pkg-config = 'pkg-config'
[host_machine]
system = 'linux'
cpu_family = '$machine'
cpu = '$machine'
endian = 'little'
END
meson setup "$src/build_dav1d" "$src"/dav1d-*/ ${cross:+--cross-file "$src/cross.ini"} --prefix="$folder" \
    --libdir=lib --buildtype=release --default-library=static -Denable_tools=false -Denable_tests=false > "$log" || failed "$log"
ninja -C "$src/build_dav1d" -j "$jobs" install >> "$log" || failed "$log"
cp "$src"/dav1d-*/COPYING "$folder/licences/dav1d.txt"

# --- zlib, libjpeg-turbo and NVIDIA's headers ---
if [ "$kind" = wheel ]; then
    log="$src/zlib.log"
    (cd "$src"/zlib-*/ && CFLAGS="-O3 -fPIC" ./configure --static --prefix="$folder" &&
        make -j "$jobs" libz.a && make install) > "$log" 2>&1 || failed "$log"
    sed -n "/^Copyright notice/,\$p" "$src"/zlib-*/README > "$folder/licences/zlib.txt"

    log="$src/jpeg.log"
    (cmake -S "$src"/libjpeg-turbo-*/ -B "$src/build_jpeg" -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$folder" \
        -DCMAKE_INSTALL_LIBDIR:PATH="$folder/lib" -DENABLE_SHARED=OFF -DWITH_TURBOJPEG=OFF -DREQUIRE_SIMD=ON \
        -DCMAKE_POSITION_INDEPENDENT_CODE=ON ${cross:+-DCMAKE_SYSTEM_NAME=Linux "-DCMAKE_SYSTEM_PROCESSOR=$machine" \
            "-DCMAKE_AR=$AR" "-DCMAKE_RANLIB=$RANLIB"} &&
        cmake --build "$src/build_jpeg" -j "$jobs" && cmake --install "$src/build_jpeg") > "$log" 2>&1 || failed "$log"
    cat "$src"/libjpeg-turbo-*/LICENSE.md "$src"/libjpeg-turbo-*/README.ijg > "$folder/licences/libjpeg-turbo.txt"

    # Static libraries are linked with what they need, which their .pc files name for --static alone. Only their own
    # targets are built: libtiff's build has a program besides, which would be linked with this system's libraries.
    library() { # name, target, the folder of its sources, options of cmake
        name=$1 target=$2 from=$3 log="$src/$1.log"; shift 3
        (cmake -S "$from" -B "$src/build_$name" -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$folder" \
            -DCMAKE_INSTALL_LIBDIR:PATH=lib -DCMAKE_PREFIX_PATH="$folder" -DBUILD_SHARED_LIBS=OFF \
            -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_C_VISIBILITY_PRESET=hidden \
            ${cross:+-DCMAKE_SYSTEM_NAME=Linux "-DCMAKE_SYSTEM_PROCESSOR=$machine" "-DCMAKE_AR=$AR" \
                "-DCMAKE_RANLIB=$RANLIB"} "$@" &&
            cmake --build "$src/build_$name" -j "$jobs" --target "$target" && cmake --install "$src/build_$name") \
            > "$log" 2>&1 || failed "$log"
        sed -i 's/^Requires.private:/Requires:/; /^Libs:/s/$/ -lm -lpthread/' "$folder/lib/pkgconfig/$name.pc"
    }
    library libtiff-4 tiff "$src"/tiff-*/ -Dzlib=ON -Djpeg=ON -Dold-jpeg=ON -Djbig=OFF -Dlerc=OFF -Dlzma=OFF \
        -Dzstd=OFF -Dwebp=OFF -Dlibdeflate=OFF -Dcxx=OFF -Dtiff-tools=OFF -Dtiff-tests=OFF -Dtiff-docs=OFF \
        -Dtiff-contrib=OFF
    cp "$src"/tiff-*/LICENSE.md "$folder/licences/libtiff.txt"
    library libopenjp2 openjp2 "$src"/openjpeg2-*/ -DBUILD_CODEC=OFF
    cp "$src"/openjpeg2-*/LICENSE "$folder/licences/openjpeg.txt"

    headers=$(pkg-config --variable=includedir ffnvcodec)
    mkdir -p "$folder/include" && cp -R "$headers/ffnvcodec" "$folder/include/"
    printf 'Name: ffnvcodec\nDescription: headers\nVersion: %s\nCflags: -I%s/include\n' \
        "$(pkg-config --modversion ffnvcodec)" "$folder" > "$folder/lib/pkgconfig/ffnvcodec.pc"
fi

# --- FFmpeg: LGPL 2.1, since neither --enable-gpl nor --enable-nonfree is given ---
if [ "$kind" = wheel ]; then
    export PKG_CONFIG_LIBDIR="$folder/lib/pkgconfig"                   # nothing of the system's
    set -- --disable-static --enable-shared --enable-encoder=png,ppm \
        --enable-parser=h264,hevc,av1,mjpeg,png --enable-demuxer=image2,image2pipe,gif,mov,matroska,webp_pipe \
        --enable-demuxer='image_*_pipe' --enable-protocol=file,pipe --extra-cflags="-I$folder/include" --extra-ldflags="-L$folder/lib"
else
    set -- --enable-static --disable-shared --enable-decoder=targa,pcx,sunrast --enable-encoder=png,mjpeg,ppm \
        --enable-parser=h264,hevc,av1,mjpeg,png --enable-demuxer=image2,image2pipe,gif,mov,matroska,apng,webp_pipe \
        --enable-demuxer='image_*_pipe' --enable-protocol=file,pipe
fi
set -- --cc="$CC" --pkg-config-flags=--static --enable-pic --disable-autodetect --disable-programs --disable-doc \
    --disable-debug --disable-network --disable-avdevice --disable-avfilter --disable-swresample --disable-postproc \
    --disable-everything --enable-zlib --enable-libdav1d \
    --enable-decoder=h264,hevc,libdav1d,mjpeg,png,webp,vp8,gif,bmp,tiff,pbm,pgm,ppm,pam,jpeg2000 \
    --enable-bsf=null,av1_frame_split "$@"
# What strips this machine's libraries does not know others.
[ -z "$cross" ] || set -- --enable-cross-compile --target-os=linux --arch="$machine" --ar="$AR" --ranlib="$RANLIB" \
    --disable-stripping --extra-ldflags=-Wl,--strip-all "$@"
mkdir -p "$src/build_ffmpeg"
cd "$src/build_ffmpeg"
sh "$src"/ffmpeg-*/configure --prefix="$folder" "$@" > configure.log 2>&1 || failed configure.log
# glibc still has sysctl, and no longer its header.
echo '#include <sys/sysctl.h>' | "$CC" -fsyntax-only -x c - 2>/dev/null ||
    sed -i 's/^#define HAVE_SYSCTL 1/#define HAVE_SYSCTL 0/' config.h
# The options are kept in the library, where the paths of this machine are of no use.
sed -i "/FFMPEG_CONFIGURATION/{ s|--prefix=[^ ]* --cc=[^ ]* ||; s|$folder|PREFIX|g; }" config.h
make -s -j "$jobs" > make.log 2>&1 || failed make.log
make -s install > install.log 2>&1 || failed install.log
cp "$src"/ffmpeg-*/COPYING.LGPLv2.1 "$folder/licences/ffmpeg.txt"
cd "$folder"

if [ "$kind" = wheel ]; then
    rm -rf sources && mkdir sources && mv "$src"/*.dsc "$src"/*.tar.* sources/
    {
        cat <<'END'
This wheel bundles libavcodec, libavformat, libswscale and libavutil of FFmpeg (LGPL 2.1 or later), built without any part that is GPL or
non-free. They are shared libraries, which you may replace by others with the same interface. Inside libavcodec are
dav1d (BSD, 2 clauses) and zlib (zlib's license). Inside libbenzina.so, libbenzina_formats.so and bzna is libjpeg-turbo
(IJG; BSD, 3 clauses; zlib's license). Inside libbenzina_formats.so are libtiff (its own license) and OpenJPEG (BSD, 2
clauses). Their licenses are beside this file.

All are built from Debian's source packages, with Debian's patches and no others:

END
        (cd sources && for file in *.dsc; do echo "    ${file%.dsc}"; done)
        printf '\nThe compiler was %s. Options of FFmpeg'"'"'s configure:\n\n' "$("$CC" --version | head -n 1)"
        printf '%s\n' "$@" | sed "s|$folder|PREFIX|g; /^--cc=/d; /^--ar=/d; /^--ranlib=/d; s/^/    /"
    } > SOURCES.txt
fi
rm -rf "$src" "$src.apt" && touch "$folder/done"
echo "codecs: $folder"
