#!/bin/sh
# Installs those of the named Debian packages that are missing, and says which where it cannot.
# Usage: sh tests/make/deps.sh PACKAGE...
# On other systems: what the library, the tool and the formats need. Each of these libraries may be left out.
others() {
    for system in dnf pacman apk brew vcpkg; do command -v $system >/dev/null && break; system=; done
    case $system in
    dnf) set -- "dnf install" gcc make pkgconf clang libjpeg-turbo-devel ffmpeg-free-devel nv-codec-headers \
        lcms2-devel libjxl-devel libtiff-devel openjpeg2-devel zlib-devel libzstd-devel ;;
    pacman) set -- "pacman -S" base-devel clang libjpeg-turbo ffmpeg ffnvcodec-headers lcms2 libjxl libtiff openjpeg2 \
        zlib zstd ;;
    apk) set -- "apk add" build-base pkgconf clang libjpeg-turbo-dev ffmpeg ffmpeg-dev lcms2-dev libjxl-dev tiff-dev \
        openjpeg-dev zlib-dev zstd-dev ;;
    brew) set -- "brew install" pkgconf jpeg-turbo ffmpeg little-cms2 jpeg-xl libtiff openjpeg zlib zstd ;;
    vcpkg) set -- "vcpkg install" libjpeg-turbo ffmpeg ffnvcodec lcms libjxl libtiff openjpeg zlib zstd ;;
    *) return ;;
    esac
    echo "deps: $*"
}
if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "deps: this system has no apt. Install by its own names what Debian calls $*"
    others
    exit 0
fi
missing=
for package; do
    case $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) in
    installed*) ;;
    *) missing="$missing $package" ;;
    esac
done
if [ -z "$missing" ]; then echo "deps: everything is installed"; exit 0; fi
sudo=sudo; [ "$(id -u)" != 0 ] || sudo=
if [ -n "$sudo" ] && ! command -v sudo >/dev/null; then
    echo "deps: there is no sudo. As root: apt-get update && apt-get install --no-install-recommends$missing"
    exit 1
fi
echo "deps: installing$missing"
# shellcheck disable=SC2086
$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq \
    --no-install-recommends $missing >/dev/null
