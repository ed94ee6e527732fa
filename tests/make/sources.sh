#!/bin/sh
# Brings Debian's sources of packages, of this system's release, into a folder: sh tests/make/sources.sh FOLDER
# PACKAGE... The system's lists are read into FOLDER.apt, so that nothing of its settings changes. Needs dpkg-dev.
set -eu
src=${1:?usage: sources.sh FOLDER PACKAGE...}; lists="$1.apt"
shift
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
options="-o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts=$lists/parts"
options="$options -o Dir::State::lists=$lists/lists -o Dir::Cache=$lists/cache"
# shellcheck disable=SC2086
apt-get -qq $options update || echo "sources: some lists could not be read" >&2
# A mirror may name an update whose files it no longer has: then the release's own version is as good.
release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
for package; do
    # shellcheck disable=SC2086
    (cd "$src" && { apt-get -qq $options source "$package" || apt-get -qq $options source "$package/$release"; } \
        > apt.log 2>&1) || { tail "$src/apt.log" >&2; echo "sources: no sources of $package" >&2; exit 1; }
done
