#!/bin/sh
# arm64_tools.sh - the compilers and shell tools of a root of Debian 13 for arm64 become programs of amd64, so that QEMU
# runs what is tested and little else
#
#     sh tests/make/arm64_tools.sh ROOT FOLDER        as root, on amd64
#
# The compilers are Debian's cross compilers: gcc of the same version and with the same target, and clang, which is told
# its target. dpkg keeps the arm64 programs beside them as NAME.arm64. uname stays one of arm64. FOLDER keeps what apt
# has downloaded. The library, the tool, the tests, Python and ffmpeg are of arm64.
set -e
root=$1; folder=$2
mkdir -p "$folder/lists/partial" "$folder/archives/partial"
folder=$(cd "$folder" && pwd)
: >"$folder/status"
echo "deb [signed-by=$root/usr/share/keyrings/debian-archive-keyring.gpg] $(awk '$1 == "deb" { print $2; exit }' \
    "$root/etc/apt/sources.list") trixie main" >"$folder/sources.list"
apt() { # as if nothing were installed
    apt-get -qq -y -o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::State="$folder" -o Dir::State::status="$folder/status" -o Dir::Cache="$folder" \
        -o APT::Architecture=amd64 -o APT::Install-Recommends=0 -o Acquire::Languages=none "$@"
}
apt update
apt --download-only install gcc-14-aarch64-linux-gnu g++-14-aarch64-linux-gnu binutils-aarch64-linux-gnu clang-19 dpkg \
    tar bash coreutils dash perl-base sed grep mawk xz-utils gzip
rm -rf "$folder/tree" && mkdir "$folder/tree"
for file in "$folder"/archives/*.deb; do dpkg -x "$file" "$folder/tree"; done

# Their libraries have folders of their own. The compilers look for their headers in another folder than arm64's.
mkdir -p "$root/usr/lib64"
[ -e "$root/lib64" ] || ln -s usr/lib64 "$root/lib64"
cp -an "$folder/tree/usr/lib/x86_64-linux-gnu" "$root/usr/lib/"
cp -an "$folder/tree/usr/lib64/." "$root/usr/lib64/"
ln -sfn gcc "$root/usr/lib/gcc-cross"
mkdir -p "$root/usr/aarch64-linux-gnu/include" "$root/usr/include/c++/14"
ln -sfn ../../include/c++ "$root/usr/aarch64-linux-gnu/include/c++"
ln -sfn ../../aarch64-linux-gnu/c++/14 "$root/usr/include/c++/14/aarch64-linux-gnu"
mkdir -p "$root/opt" && cp -an "$folder/tree/usr/lib/llvm-19" "$root/opt/"

instead() { # program of amd64, what it stands for in the root
    [ -f "$1" ] && [ ! -L "$1" ] || return 0
    if ! grep -qx "$2" "$root/var/lib/dpkg/diversions" 2>/dev/null; then
        printf '%s\n%s.arm64\n:\n' "$2" "$2" >>"$root/var/lib/dpkg/diversions"
        [ ! -e "$root$2" ] || mv "$root$2" "$root$2.arm64"
    fi
    mkdir -p "$root$(dirname "$2")" && cp "$1" "$root$2.new" && mv "$root$2.new" "$root$2"
}
bin=$folder/tree/usr/bin
for name in dash bash sed grep mawk perl tar gzip xz dpkg-deb rm mv cp ls cat mkdir rmdir chmod ln sort uniq cut tr \
    head tail wc date sleep basename dirname stat touch test expr comm cksum sha256sum sha512sum tee mktemp readlink \
    realpath printf env; do
    instead "$bin/$name" "/usr/bin/$name"
done
for name in as ld.bfd ar nm objcopy objdump ranlib readelf strip; do
    instead "$bin/aarch64-linux-gnu-$name" "/usr/bin/aarch64-linux-gnu-$name"
done
for name in cc1 cc1plus lto1 liblto_plugin.so; do
    instead "$folder/tree/usr/libexec/gcc-cross/aarch64-linux-gnu/14/$name" \
        "/usr/libexec/gcc/aarch64-linux-gnu/14/$name"
done
cat >"$folder/clang" <<'END'
#!/bin/sh
exec /opt/llvm-19/bin/clang --target=aarch64-linux-gnu -resource-dir /usr/lib/llvm-19/lib/clang/19 "$@"
END
chmod +x "$folder/clang"
instead "$folder/clang" /usr/lib/llvm-19/bin/clang
