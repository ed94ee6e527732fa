#!/bin/sh
# julia.sh - examples/julia/test/runtests.jl with the Julia of Debian 11, in a root of its own
#
#     sh tests/make/julia.sh build/julia        from the repository's root, as root
#
# Debian 12 and later have no Julia. Debian 11 has version 1.5.3, the oldest that the package works with. debootstrap
# makes the root once; signatures are checked where gpgv is installed. The library is compiled in it at each call, by
# gcc 10 and for libavcodec 58. Prints what fails, and "examples/julia/test/runtests.jl: N passed, N failed" last; ends
# with status 1 unless all passed.
folder=${1:?usage: sh tests/make/julia.sh build/julia}
root=$folder/root
packages=julia,gcc,libc6-dev,make,pkg-config,libavcodec-dev,libavutil-dev,libjpeg-dev
streams=zlib1g-dev,libzstd-dev,zstd

if [ "$(id -u)" -ne 0 ]; then echo "make test-julia: debootstrap and chroot need root"; exit 1; fi
if [ ! -e "$root/made" ]; then
    if ! command -v debootstrap >/dev/null; then echo "make test-julia: there is no debootstrap [debootstrap]"; exit 1; fi
    echo "making a root of Debian 11 in $root, of about 1 GB"
    rm -rf "$root" && mkdir -p "$folder" || exit 1
    if ! debootstrap --variant=minbase --include="$packages,$streams" bullseye "$root" >"$folder/debootstrap.log" 2>&1; then
        tail -n 20 "$folder/debootstrap.log"; exit 1
    fi
    touch "$root/made"
fi
# A root of before may lack what streams unpack with.
if [ ! -e "$root/usr/include/zlib.h" ] || [ ! -e "$root/usr/include/zstd.h" ] || [ ! -e "$root/usr/bin/zstd" ]; then
    if ! chroot "$root" sh -c "apt-get -q update && apt-get -q install -y --no-install-recommends $(echo "$streams" | tr , ' ')" \
        >"$folder/apt.log" 2>&1; then
        echo "no packages of $streams, as $folder/apt.log says: the tests of packed streams are left out"
    fi
fi

# What is built and run there, and nothing else of this tree; a file that is the same keeps its time, for make. The
# archive and the pictures are what Julia's tests read.
for file in Makefile benzina.c benzina.h benzina_kernels.cu examples/stream/stream.[ch] examples/stream/stream_source.[ch] examples/formats/*.[ch] $(find examples/julia -type f) tests/data/mini_h265.bzna tests/data/pictures/*; do
    cmp -s "$file" "$root/benzina/$file" && continue
    mkdir -p "$(dirname "$root/benzina/$file")" && cp "$file" "$root/benzina/$file" || exit 1
done
cat >"$root/benzina/run.sh" <<'RUN'
mount -t proc proc /proc || exit 1
cd /benzina && make -s WARN= build/libbenzina.so build/libbenzina_formats.so build/libbenzina_stream.so && HOME=/tmp JULIA_NUM_THREADS=2 julia --startup-file=no --project=examples/julia examples/julia/test/runtests.jl
RUN
# The mount ends with its namespace.
unshare --mount --pid --fork chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 sh /benzina/run.sh
