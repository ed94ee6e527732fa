#!/bin/sh
# Brings together what Windows programs are built with here, for make test-ports:
#     sh tests/make/windows.sh FOLDER FFMPEG
# FOLDER/bin has FFmpeg's DLLs, of the wheel of PyAV for Windows; FOLDER/lib their import libraries and libjpeg-turbo,
# which is built from Debian's source; FOLDER/include the headers. FFMPEG: a folder with FFmpeg's sources of the wheel's
# version (8.1, tag n8.1), of which only headers are taken. Without it, FOLDER has libjpeg-turbo alone. Needs
# gcc-mingw-w64-x86-64, cmake, nasm, dpkg-dev, python3-pip and unzip.
set -eu
folder=${1:?usage: windows.sh FOLDER [FFMPEG]}
ffmpeg=${2:-}
mkdir -p "$folder/bin" "$folder/lib" "$folder/include"
folder=$(cd "$folder" && pwd)
root=$(cd "$(dirname "$0")" && pwd)
target=x86_64-w64-mingw32
failed() { tail -n 30 "$1" >&2; exit 1; }

# --- libjpeg-turbo ---
if [ ! -e "$folder/lib/libjpeg.a" ]; then
    sh "$root/sources.sh" "$folder/src" libjpeg-turbo
    log="$folder/src/jpeg.log"; build="$folder/src/build"
    { cmake -S "$folder"/src/libjpeg-turbo-*/ -B "$build" -DCMAKE_SYSTEM_NAME=Windows -DCMAKE_SYSTEM_PROCESSOR=AMD64 \
          -DCMAKE_C_COMPILER=$target-gcc -DCMAKE_RC_COMPILER=$target-windres -DCMAKE_BUILD_TYPE=Release \
          -DCMAKE_INSTALL_PREFIX="$folder" -DENABLE_SHARED=0 -DWITH_TURBOJPEG=0 &&
      make -C "$build" jpeg-static; } > "$log" 2>&1 || failed "$log"
    cp "$folder"/src/libjpeg-turbo-*/jpeglib.h "$folder"/src/libjpeg-turbo-*/jmorecfg.h \
        "$folder"/src/libjpeg-turbo-*/jerror.h "$build/jconfig.h" "$folder/include"
    cp "$build/libjpeg.a" "$folder/lib"
fi

# --- FFmpeg ---
[ -n "$ffmpeg" ] || exit 0
python3 -m pip -q download --no-deps --platform win_amd64 --python-version 3.11 --only-binary=:all: \
    --dest "$folder/src" \
    av==18.1.0
unzip -qjo "$folder"/src/av-*.whl 'av.libs/*' -d "$folder/bin"
for name in avcodec avformat avutil swscale; do
    mkdir -p "$folder/include/lib$name"
    cp "$ffmpeg/lib$name"/*.h "$folder/include/lib$name"
    for dll in "$folder/bin/$name"-*.dll; do file=$(basename "$dll"); done
    wanted=$(sed -n 's/^#define LIB.*_VERSION_MAJOR  *\([0-9]*\).*/\1/p' "$ffmpeg/lib$name"/version*.h)
    case $file in
    $name-"$wanted"-*) ;;
    *) echo "windows: $file is not of the version $wanted of $ffmpeg" >&2; exit 1 ;;
    esac
    # DLLs of a wheel find one another by names with a hash, which the import library must ask for.
    { echo "LIBRARY \"$file\""; echo EXPORTS
      $target-objdump -p "$dll" | awk '/\[Ordinal\/Name Pointer\] Table/ { on = 1; next } on && /\[ *[0-9]+\]/ { print $NF }
                                       on && /^$/ { exit }'; } > "$folder/lib/$name.def"
    $target-dlltool -d "$folder/lib/$name.def" -l "$folder/lib/lib$name.dll.a"
done
printf '#define AV_HAVE_BIGENDIAN 0\n#define AV_HAVE_FAST_UNALIGNED 1\n' > "$folder/include/libavutil/avconfig.h"
