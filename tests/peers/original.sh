#!/bin/sh
# original.sh - where the original Benzina's reader and its parser lie, fetched once for a build folder
#
#     sh tests/peers/original.sh build        from the repository's root
#
# Prints two lines: the folder that holds the original's package benzina, and that of the Python package
# pybenzinaparse, which reads boxes for it. A line is empty if it cannot be had; the reason goes to standard error.
#
#     BENZINA_ORIGINAL    a clone of github.com/obilaniu/Benzina, with a work tree or without
#     PYBENZINAPARSE      a python that has pybenzinaparse 0.2.2 and bitstring 3.1.9
#
# Otherwise git and pip are asked, once: build/original remembers what came of it, until it is removed.
folder=$1/original
mkdir -p "$folder" || exit 1
folder=$(cd "$folder" && pwd)
# Suites run beside one another.
if [ -z "$ORIGINAL_LOCKED" ] && command -v flock >/dev/null; then
    exec env ORIGINAL_LOCKED=1 flock "$folder" sh "$0" "$1"
fi

package=$folder/package/src/benzina source=${BENZINA_ORIGINAL:-$folder/clone}
if [ -z "$BENZINA_ORIGINAL" ] && [ ! -e "$source" ] && [ ! -e "$folder/no_clone" ]; then
    GIT_TERMINAL_PROMPT=0 timeout 60 git clone -q --depth 1 https://github.com/obilaniu/Benzina "$source" \
        >"$folder/no_clone" 2>&1 && rm "$folder/no_clone"
fi
if [ -f "$source/src/benzina/utils/file.py" ]; then
    package=$source/src/benzina
elif [ ! -e "$package/utils/file.py" ]; then
    mkdir -p "$folder/package"
    git -C "$source" archive HEAD src/benzina/utils 2>/dev/null | tar -x -f - -C "$folder/package" 2>/dev/null
    if [ ! -e "$package/utils/file.py" ]; then
        echo "$source is no clone of it. $(tail -n 1 "$folder/no_clone" 2>/dev/null)" >&2
        package=
    fi
fi

parser=
for python in "$PYBENZINAPARSE" "$PYTHON" python3; do
    [ -z "$python" ] || [ -n "$parser" ] || parser=$("$python" -c \
        'import os, pybenzinaparse; print(os.path.dirname(os.path.dirname(pybenzinaparse.__file__)))' 2>/dev/null)
done
if [ -z "$parser" ] && [ ! -e "$folder/python/pybenzinaparse" ] && [ ! -e "$folder/no_parser" ]; then
    timeout 60 python3 -m pip install -q --disable-pip-version-check --no-deps --target "$folder/python" \
        pybenzinaparse==0.2.2 bitstring==3.1.9 >"$folder/no_parser" 2>&1 && rm "$folder/no_parser"
fi
if [ -z "$parser" ] && [ -e "$folder/python/pybenzinaparse" ]; then parser=$folder/python; fi
[ -n "$parser" ] || echo "pybenzinaparse cannot be installed. $(tail -n 1 "$folder/no_parser" 2>/dev/null)" >&2
printf '%s\n%s\n' "$package" "$parser"
