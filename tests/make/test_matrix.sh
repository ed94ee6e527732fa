#!/bin/sh
# A matrix of builds: each loads every kind of data set that it can, with the pixels of the full library, and what it
# cannot do fails where it is needed, with a message that names the switch. Switches are given to the compiler (-D), or
# remove their rooms from the text (make dist WITHOUT=). make test has the builds in which libraries are missing and
# the smallest pair; make test-all has each switch alone, all of them and the combinations that README names, both ways.
# Usage: sh tests/make/test_matrix.sh BZNA BUILD, from the repository root.
BUILD=${2:-build}
T="$BUILD/tests/matrix"
ALL="CUDA AVCODEC JPEG WRITER SHARDS STILLS FOLDERS PROVIDERS AUGMENT MXNET THREADS"
ARCHIVES="SHARDS FOLDERS STILLS PROVIDERS WRITER"
WARN="-Wall -Wextra -Wpedantic -Wconversion -Wshadow $WERROR"
PYTHON=${PYTHON:-python3}
export CUDA_VISIBLE_DEVICES=
passed=0; failed=0; skipped=0
have() { command -v "$1" > /dev/null 2>&1; }
skip() { skipped=$((skipped + 1)); echo "SKIP $1: $2"; }
finish() {
    echo "tests/make/test_matrix.sh: $passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ]; exit
}
[ -z "$SANITIZE" ] || { skip matrix_of_builds "its builds are made without a sanitizer"; finish; }
# Unoptimized, clang takes a third of gcc's time.
for compiler in clang gcc; do have $compiler && break; done
have $compiler || { skip matrix_of_builds "no compiler here [gcc]"; finish; }
AV=$(pkg-config --cflags libavcodec libavutil 2> /dev/null) && JPEG=$(pkg-config --cflags libjpeg 2> /dev/null) ||
    { skip matrix_of_builds "no libavcodec or libjpeg [libavcodec-dev libjpeg-dev]"; finish; }
NV=$(pkg-config --cflags ffnvcodec 2> /dev/null) && [ -s "$BUILD/benzina_kernels.ptx.h" ] || NV=-DBENZINA_NO_CUDA

lacks() { case " $2 " in *" $1 "*) return 0 ;; esac; return 1; }
# One build: compiled, linked to no library that it does not need, and run. A pair has its rooms removed.
build() { # how (switched or removed), names...
    how=$1; shift
    dir="$T/${how}_$(echo "$*" | tr ' ' '_')"
    mkdir -p "$dir"
    source=.; flags=
    if [ "$how" = removed ]; then
        source="$dir/pair"
        "$PYTHON" tests/make/without.py "$source" "$@" || return 1
    else
        for name; do flags="$flags -DBENZINA_NO_$name"; done
    fi
    libs=-lm
    lacks CUDA "$*" || { flags="$flags $NV -I$BUILD"; libs="$libs -ldl"; }
    lacks THREADS "$*" || libs="$libs -lpthread"
    lacks AVCODEC "$*" || { flags="$flags $AV"; libs="$libs $(pkg-config --libs libavcodec libavutil)"; }
    lacks JPEG "$*" || { flags="$flags $JPEG"; libs="$libs $(pkg-config --libs libjpeg)"; }
    # shellcheck disable=SC2086
    $compiler -std=c11 -O0 -ffp-contract=off $WARN $flags -I"$source" "$source/benzina.c" tests/make/matrix.c -o "$dir/matrix" \
        $libs && "$dir/matrix" "$T/files" > "$dir/sums"
    status=$?
    grep WRONG "$dir/sums"
    [ "$status" -eq 0 ] || return 1
    # what loads has the pixels of the full library
    grep -vxF -f "$T/sums" "$dir/sums" && return 1
    [ -s "$dir/sums" ]
}
if [ "$3" = --job ]; then
    shift 3
    log="$T/$(echo "$*" | tr ' ' '_').log"
    # shellcheck disable=SC2068
    build $@ > "$log" 2>&1
    echo $? > "${log%.log}.status"
    exit 0
fi

# --- the full library: it makes the files, and says what pixels are right ---
rm -rf "$T"; mkdir -p "$T/files/folder/a"
cp tests/data/pictures/jpeg_422_restarts.jpg "$T/files/folder/a/0.jpg"
cp tests/data/pictures/png_palette_2.png "$T/files/folder/a/1.png"
tar --format=ustar -cf "$T/files/mixed.tar" -C "$T/files/folder/a" 0.jpg 1.png
full() {
    # shellcheck disable=SC2046
    $compiler -std=c11 -O0 $WARN -I. tests/make/matrix.c "$BUILD/libbenzina.a" -o "$T/full" \
        $(pkg-config --libs libavcodec libavutil libjpeg) -lm -lpthread -ldl &&
    "$T/full" "$T/files" write && "$T/full" "$T/files" > "$T/sums"
}
if full > "$T/log" 2>&1; then passed=$((passed + 1)); else
    failed=$((failed + 1)); echo "FAIL the_full_library_loads_all"; cat "$T/log" "$T/sums"; finish
fi

# --- the builds ---
add() { builds="$builds
$*"; }
builds=
add switched AVCODEC
add switched AVCODEC JPEG CUDA
if ! have "$PYTHON"; then skip pairs_without_rooms "no python3 here [python3]"
else add removed $ALL; fi
if [ -n "$TEST_ALL" ]; then
    for how in switched removed; do
        [ "$how" = switched ] || have "$PYTHON" || continue
        for name in $ALL; do
            [ "$how $name" = "switched AVCODEC" ] || add $how $name
        done
        [ $how = removed ] || add $how $ALL
        [ $how = switched ] || add $how AVCODEC JPEG CUDA
        add $how AVCODEC JPEG
        add $how SHARDS STILLS
        add $how $ARCHIVES
        add $how $ARCHIVES AUGMENT
        add $how $ARCHIVES CUDA
        add $how $ARCHIVES JPEG
        add $how JPEG WRITER CUDA
    done
else echo "LEFT test_matrix.sh: builds with each switch alone, and with the combinations of README, as switches and removed"; fi
echo "$builds" | sed 1d | tr '\n' '\0' | xargs -0 -P "$(getconf _NPROCESSORS_ONLN)" -n 1 sh "$0" - "$BUILD" --job
echo "$builds" | sed 1d > "$T/builds"
while read -r line; do
    job="$T/$(echo "$line" | tr ' ' '_')"
    if [ "$(cat "$job.status")" = 0 ]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "FAIL the_build_with_$(basename "$job")_loads_what_it_can"; head -n 30 "$job.log"
    fi
done < "$T/builds"
finish
