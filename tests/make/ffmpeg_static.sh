#!/bin/sh
# Builds a small FFmpeg from Debian's sources: static libraries with the decoders that the library calls, nothing that is GPL.
#     sh tests/make/ffmpeg_static.sh FOLDER        then FOLDER/lib/pkgconfig has libavcodec, libavformat, libswscale, libavutil, dav1d
# H.264, H.265 and the stills are FFmpeg's own decoders, AV1 is dav1d's. The sources come by apt, as the packages of this system's
# release: its lists are read into FOLDER, so that nothing of the system's settings changes. Needs nasm, meson, ninja-build, dpkg-dev
# (make static-deps). Licences: FOLDER/licences. The two need some 5 minutes of one core.
set -eu
folder=${1:?usage: ffmpeg_static.sh FOLDER}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
jobs=$(getconf _NPROCESSORS_ONLN)
[ ! -e "$folder/done" ] || { echo "ffmpeg_static: $folder is complete"; exit 0; }
for program in nasm meson ninja dpkg-source pkg-config; do
    command -v "$program" >/dev/null || { echo "ffmpeg_static: $program is missing: make static-deps installs it" >&2; exit 1; }
done

# --- the sources: Debian's own entries of the system's lists, as entries of sources ---
src="$folder/src"; lists="$folder/apt"
rm -rf "$src" "$lists"
mkdir -p "$src" "$lists/parts" "$lists/lists/partial" "$lists/cache"
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
# shellcheck disable=SC2086
apt-get -qq $options update || echo "ffmpeg_static: some lists could not be read" >&2
# shellcheck disable=SC2086
(cd "$src" && apt-get -qq $options source dav1d ffmpeg) || { echo "ffmpeg_static: no sources of dav1d and ffmpeg" >&2; exit 1; }

# --- dav1d ---
export PKG_CONFIG_PATH="$folder/lib/pkgconfig"
meson setup "$src/build_dav1d" "$src"/dav1d-*/ --prefix="$folder" --libdir=lib --buildtype=release --default-library=static \
    -Denable_tools=false -Denable_tests=false > "$src/dav1d.log"
ninja -C "$src/build_dav1d" install >> "$src/dav1d.log"

# --- FFmpeg: LGPL 2.1, since neither --enable-gpl nor --enable-nonfree is given ---
mkdir -p "$src/build_ffmpeg"
cd "$src/build_ffmpeg"
"$src"/ffmpeg-*/configure --prefix="$folder" --pkg-config-flags=--static --enable-static --disable-shared --enable-pic \
    --disable-autodetect --disable-programs --disable-doc --disable-debug --disable-network --disable-avdevice --disable-avfilter \
    --disable-swresample --disable-postproc --disable-everything --enable-zlib --enable-libdav1d \
    --enable-decoder=h264,hevc,libdav1d,mjpeg,png,webp,vp8,gif,bmp,tiff,pbm,pgm,ppm,pam,jpeg2000,targa,pcx,sunrast \
    --enable-encoder=png,mjpeg,ppm --enable-parser=h264,hevc,av1,mjpeg,png --enable-bsf=null,av1_frame_split \
    --enable-demuxer=image2,image2pipe,gif,mov,matroska,apng,webp_pipe,image_png_pipe,image_jpeg_pipe,image_bmp_pipe,image_tiff_pipe \
    --enable-demuxer='image_*_pipe' --enable-protocol=file,pipe > configure.log
make -s -j "$jobs" > make.log 2>&1 || { tail -n 30 make.log >&2; exit 1; }
make -s install > install.log 2>&1

mkdir -p "$folder/licences"
cp "$src"/ffmpeg-*/COPYING.LGPLv2.1 "$folder/licences/ffmpeg.txt"
cp "$src"/dav1d-*/COPYING "$folder/licences/dav1d.txt"
cd "$folder" && rm -rf "$src" "$lists" && touch done
echo "ffmpeg_static: $folder"
