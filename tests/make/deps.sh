#!/bin/sh
# Installs those of the named Debian packages that are missing. Usage: sh tests/make/deps.sh PACKAGE...
sudo=sudo; [ "$(id -u)" != 0 ] || sudo=
missing=
for package; do
    dpkg -s "$package" >/dev/null 2>&1 || missing="$missing $package"
done
if [ -z "$missing" ]; then echo "deps: everything is installed"; exit 0; fi
echo "deps: installing$missing"
# shellcheck disable=SC2086
$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq \
    --no-install-recommends $missing >/dev/null
