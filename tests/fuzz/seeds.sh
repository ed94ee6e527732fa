#!/bin/sh
# seeds.sh - the inputs that fuzzing of a target begins with; fuzz.sh and uncovered.sh take it in with `.
# tests/fuzz/seeds.sh`

# Files of tests/data of at most 8 kB, what the program makes, and what was packed.
seeds() { # target, program, folder
    d=tests/data; mkdir -p "$3"
    case $1 in
    archive | decode_archive) from="$d/seeds/*.mp4 $d/seeds/*.bzna $d/slices_h264.bzna $d/crashers/*.bzna" ;;
    heif | decode_heif) from="$d/heif/*.hei? $d/heif/*.heics" ;;
    avif) from="$d/heif/*.avif" ;;
    jpeg | decode_jpeg) from="$d/pictures/*.jpg" ;;
    stills | decode_stills)
        from="$d/pictures/*.png $d/pictures/*.webp $d/seeds/*.png $d/seeds/*.webp" ;;
    decode_tiff) from="$d/pictures/*.tif $d/seeds/*.tif" ;;
    decode_jpeg2000) from="$d/pictures/*.j?[2k] $d/seeds/*.j?[2k]" ;;
    decode_jxl) from="$d/seeds/*.jxl" ;;
    decode_gif_bmp_pnm) from="$d/pictures/*.gif $d/pictures/*.bmp $d/seeds/*.p?m $d/seeds/*.bmp $d/seeds/*.gif" ;;
    tar) from="$d/seeds/*.tar" ;;
    recordio) from="$d/seeds/*.rec" ;;
    *) from= ;;
    esac
    # shellcheck disable=SC2086
    [ -z "$from" ] || for file in $(ls $from 2>/dev/null); do
        [ "$(wc -c < "$file")" -gt 8192 ] || cp "$file" "$3/"
    done
    "$2" "$1" seeds "$3" || return 1
    [ ! -e "$d/fuzz/$1.pack" ] || "$2" "$1" unpack "$d/fuzz/$1.pack" "$3"
}
