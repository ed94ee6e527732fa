#!/bin/sh
# Installs those of the named Debian packages that are missing, and says which where it cannot.
# Usage: sh tests/make/deps.sh PACKAGE...
if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "deps: this system has no apt. Install by its own names what Debian calls $*"
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
