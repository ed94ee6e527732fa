#!/bin/sh
# Builds the libraries that decode pictures from Debian's sources: a small FFmpeg with the decoders that the library calls, and dav1d.
# Nothing in them is GPL.
#     sh tests/make/codecs.sh FOLDER           static libraries: FOLDER/lib/pkgconfig has libavcodec, libavformat, libswscale,
#                                              libavutil, dav1d
#     sh tests/make/codecs.sh FOLDER wheel     what a wheel bundles: libavcodec and libavutil as shared libraries, so that whoever has
#                                              the wheel can replace them, with dav1d and zlib inside; a static libjpeg-turbo; and
#                                              the headers of this system's libffmpeg-nvenc-dev
# H.264, H.265 and the stills are FFmpeg's own decoders, AV1 is dav1d's. The sources come by apt, as the packages of this system's
# release: its lists are read into FOLDER, so that nothing of the system's settings changes. CC names the compiler. Needs nasm, meson,
# ninja-build, dpkg-dev (make static-deps), and cmake for a wheel. Licences: FOLDER/licences. It takes some 5 minutes of one core.
# For a wheel, FOLDER/sources keeps what the LGPL wants to be offered with it, and FOLDER/SOURCES.txt says how it was built.
set -eu
folder=${1:?usage: codecs.sh FOLDER [wheel]}
kind=${2:-static}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
jobs=${JOBS:-$(getconf _NPROCESSORS_ONLN)}
CC=${CC:-cc}
export CC
[ ! -e "$folder/done" ] || { echo "codecs: $folder is complete"; exit 0; }
[ "$kind" = wheel ] && needs="nasm meson ninja cmake dpkg-source pkg-config" || needs="nasm meson ninja dpkg-source pkg-config"
for program in $needs; do
    command -v "$program" >/dev/null || { echo "codecs: $program is missing: make static-deps installs it" >&2; exit 1; }
done

# --- the sources: Debian's own entries of the system's lists, as entries of sources ---
src="$folder/src"; lists="$folder/apt"
rm -rf "$src" "$lists"
mkdir -p "$src" "$lists/parts" "$lists/lists/partial" "$lists/cache" "$folder/licences"
number=0
for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
    grep -q debian "$file" 2>/dev/null || continue
    number=$((number + 1))
    case $file in
    *.sources) sed 's/^Types:.*/Types: deb-src/' "$file" > "$lists/parts/$number.sources" ;;
    *)         sed -n '/debian/s/^deb /deb-src /p' "$file" > "$lists/parts/$number.list" ;;
    esac
done
options="-o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts=$lists/parts -o Dir::State::lists=$lists/lists -o Dir::Cache=$lists/cache"
[ "$kind" = wheel ] && packages="dav1d ffmpeg zlib libjpeg-turbo" || packages="dav1d ffmpeg"
# shellcheck disable=SC2086
apt-get -qq $options update || echo "codecs: some lists could not be read" >&2
# shellcheck disable=SC2086
(cd "$src" && apt-get -qq $options source $packages) || { echo "codecs: no sources of $packages" >&2; exit 1; }

export PKG_CONFIG_PATH="$folder/lib/pkgconfig"
failed() { tail -n 30 "$1" >&2; exit 1; }

# --- dav1d ---
meson setup "$src/build_dav1d" "$src"/dav1d-*/ --prefix="$folder" --libdir=lib --buildtype=release --default-library=static \
    -Denable_tools=false -Denable_tests=false > "$src/dav1d.log" || failed "$src/dav1d.log"
ninja -C "$src/build_dav1d" -j "$jobs" install >> "$src/dav1d.log" || failed "$src/dav1d.log"
cp "$src"/dav1d-*/COPYING "$folder/licences/dav1d.txt"

# --- zlib, libjpeg-turbo and NVIDIA's headers ---
if [ "$kind" = wheel ]; then
    log="$src/zlib.log"
    (cd "$src"/zlib-*/ && CFLAGS="-O3 -fPIC" ./configure --static --prefix="$folder" && make -j "$jobs" libz.a && make install) > "$log" 2>&1 ||
        failed "$log"
    log="$src/jpeg.log"
    (cmake -S "$src"/libjpeg-turbo-*/ -B "$src/build_jpeg" -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$folder" -DCMAKE_INSTALL_LIBDIR:PATH="$folder/lib" \
        -DENABLE_SHARED=OFF -DWITH_TURBOJPEG=OFF -DREQUIRE_SIMD="$(case $(uname -m) in x86_64) echo ON ;; *) echo OFF ;; esac)" \
        -DCMAKE_POSITION_INDEPENDENT_CODE=ON &&
        cmake --build "$src/build_jpeg" -j "$jobs" && cmake --install "$src/build_jpeg") > "$log" 2>&1 || failed "$log"
    pkg-config --exists ffnvcodec || { echo "codecs: NVIDIA's headers are missing (Debian: libffmpeg-nvenc-dev)" >&2; exit 1; }
    headers=$(pkg-config --variable=includedir ffnvcodec)
    mkdir -p "$folder/include" && cp -R "$headers/ffnvcodec" "$folder/include/"
    printf 'Name: ffnvcodec\nDescription: headers\nVersion: %s\nCflags: -I%s/include\n' "$(pkg-config --modversion ffnvcodec)" "$folder" \
        > "$folder/lib/pkgconfig/ffnvcodec.pc"
    sed -n "/^Copyright notice/,\$p" "$src"/zlib-*/README > "$folder/licences/zlib.txt"
    cat "$src"/libjpeg-turbo-*/LICENSE.md "$src"/libjpeg-turbo-*/README.ijg > "$folder/licences/libjpeg-turbo.txt"
fi

# --- FFmpeg: LGPL 2.1, since neither --enable-gpl nor --enable-nonfree is given ---
if [ "$kind" = wheel ]; then
    export PKG_CONFIG_LIBDIR="$folder/lib/pkgconfig"                   # nothing of the system's
    set -- --disable-static --enable-shared --disable-avformat --disable-swscale --extra-cflags="-I$folder/include" --extra-ldflags="-L$folder/lib"
else
    set -- --enable-static --disable-shared --enable-decoder=targa,pcx,sunrast --enable-parser=h264,hevc,av1,mjpeg,png --enable-encoder=png,mjpeg,ppm \
        --enable-demuxer=image2,image2pipe,gif,mov,matroska,apng,webp_pipe,image_png_pipe,image_jpeg_pipe,image_bmp_pipe,image_tiff_pipe \
        --enable-demuxer='image_*_pipe' --enable-protocol=file,pipe
fi
set -- --cc="$CC" --pkg-config-flags=--static --enable-pic --disable-autodetect --disable-programs --disable-doc --disable-debug --disable-network \
    --disable-avdevice --disable-avfilter --disable-swresample --disable-postproc --disable-everything --enable-zlib --enable-libdav1d \
    --enable-decoder=h264,hevc,libdav1d,mjpeg,png,webp,vp8,gif,bmp,tiff,pbm,pgm,ppm,pam,jpeg2000 \
    --enable-bsf=null,av1_frame_split "$@"
mkdir -p "$src/build_ffmpeg"
cd "$src/build_ffmpeg"
"$src"/ffmpeg-*/configure --prefix="$folder" "$@" > configure.log 2>&1 || failed configure.log
# glibc has the function still, and its header no longer.
echo '#include <sys/sysctl.h>' | "$CC" -fsyntax-only -x c - 2>/dev/null || sed -i 's/^#define HAVE_SYSCTL 1/#define HAVE_SYSCTL 0/' config.h
make -s -j "$jobs" > make.log 2>&1 || failed make.log
make -s install > install.log 2>&1 || failed install.log
cp "$src"/ffmpeg-*/COPYING.LGPLv2.1 "$folder/licences/ffmpeg.txt"
cd "$folder"

if [ "$kind" = wheel ]; then
    rm -rf sources && mkdir sources && mv "$src"/*.dsc "$src"/*.tar.* sources/
    {
        echo "This wheel bundles libavcodec and libavutil of FFmpeg (LGPL 2.1 or later), which are built without any part that is"
        echo "GPL or non-free, as shared libraries that you may replace. Inside libavcodec are dav1d (BSD, 2 clauses) and zlib (its own"
        echo "licence). Inside libbenzina.so is libjpeg-turbo (IJG, BSD of 3 clauses, zlib). Their licences stand beside this file."
        echo
        echo "All are built from Debian's source packages, with Debian's patches and no others:"
        (cd sources && for file in *.dsc; do echo "    ${file%.dsc}"; done)
        echo
        echo "FFmpeg's configure was called with:"
        printf '%s\n' "$@" | sed "s|$folder|PREFIX|g; s|^--cc=.*|--cc=$("$CC" --version | sed -n '1s/ (.*//; 1s/|/ /g; 1p')|; s/^/    /"
    } > SOURCES.txt
fi
rm -rf "$src" "$lists" && touch "$folder/done"
echo "codecs: $folder"
