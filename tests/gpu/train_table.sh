#!/bin/sh
# train_table.sh - gpu_train.py with a tiny network on processors, which proves the program without a GPU:
# sh tests/gpu/train_table.sh [OPTIONS of gpu_train.py]. From the repository's root. BUILD: where products are.
set -e
BUILD=${BUILD:-build}
D=$BUILD/gpu/train
if [ ! -e "$D/made" ]; then
    rm -rf "$D" && mkdir -p "$D"
    "$BUILD/draw_pictures" "$D/drawn" 32
    "$BUILD/bzna" pack "$D/drawn" -o "$D/h265_crf20.bzna" --crf 20 --max-edge 160 >/dev/null
    "$BUILD/bzna" pack "$D/drawn" -o "$D/h264_tuned.bzna" --crf 20 --max-edge 160 --codec h264 --tune-decode >/dev/null
    mkdir -p "$D/jpeg/even" "$D/jpeg/odd"
    number=0
    while [ $number -lt 32 ]; do
        class=even; if [ $((number % 2)) -eq 1 ]; then class=odd; fi
        "$BUILD/bzna" extract "$D/h265_crf20.bzna" $number -o "$D/jpeg/$class/$number.jpg" >/dev/null
        number=$((number + 1))
    done
    rm -rf "$D/drawn"
    touch "$D/made"
fi
PYTHONPATH=examples/python${PYTHONPATH:+:$PYTHONPATH} BENZINA_LIBRARY=$PWD/$BUILD/libbenzina.so
export PYTHONPATH BENZINA_LIBRARY
exec "${PYTHON:-python3}" tests/gpu/gpu_train.py "$D" --out "$D" --tiny "$@"
