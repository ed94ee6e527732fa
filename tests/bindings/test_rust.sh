#!/bin/sh
# test_rust.sh - the Rust crate of examples/rust: its own tests, its lints, and its example against the C one
#
#     sh tests/bindings/test_rust.sh build/bzna build        from the repository's root
#
# The second argument is the folder that holds libbenzina.a and decode_batch; cargo builds in its rust/. Prints FAIL and
# SKIP lines, and a count last.
build=${2:?usage: sh tests/bindings/test_rust.sh build/bzna build}
crate=examples/rust root=$(pwd)
passed=0 failed=0 skipped=0

pass() { passed=$((passed + 1)); }
fail() { failed=$((failed + 1)); echo "FAIL $1"; shift; for line; do printf '%s\n' "$line" | sed 's/^/  /'; done; }
skip() { skipped=$((skipped + 1)); echo "SKIP $1: $2"; }
end() { echo "tests/bindings/test_rust.sh: $passed passed, $failed failed, $skipped skipped"; [ "$failed" -eq 0 ]; exit; }

if [ -n "$SANITIZE" ]; then skip rust "the library was built with a sanitizer, which Rust programs would have to be linked with"; end; fi
if ! cargo --version >/dev/null 2>&1; then skip rust "there is no cargo [cargo-web|cargo]"; end; fi
minor=$(rustc --version | sed -n 's/^rustc 1\.\([0-9]*\).*/\1/p')
if [ "${minor:-0}" -lt 77 ]; then skip rust "$(rustc --version) is older than 1.77 [cargo-web|cargo]"; end; fi
if [ ! -e "$build/libbenzina.a" ]; then fail "$build/libbenzina.a is not there"; end; fi

BENZINA_LIB_DIR=$(cd "$build" && pwd) || exit 1
CARGO_TARGET_DIR=$BENZINA_LIB_DIR/rust
CARGO_TERM_COLOR=never
RUST_BACKTRACE=0
# Nobody looks into these programs with a debugger, nor compiles them again after a change, and they run for a second.
CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_TEST_DEBUG=0 CARGO_INCREMENTAL=0
CARGO_PROFILE_DEV_OPT_LEVEL=0 CARGO_PROFILE_DEV_CODEGEN_UNITS=1
export BENZINA_LIB_DIR CARGO_TARGET_DIR CARGO_TERM_COLOR RUST_BACKTRACE
export CARGO_PROFILE_DEV_DEBUG CARGO_PROFILE_TEST_DEBUG CARGO_INCREMENTAL
export CARGO_PROFILE_DEV_OPT_LEVEL CARGO_PROFILE_DEV_CODEGEN_UNITS
t=$(mktemp -d "${TMPDIR:-/tmp}/test_rust.XXXXXX") || exit 1
trap 'rm -rf "$t"' EXIT
trap 'exit 1' HUP INT TERM

# run COMMAND...: in the crate; its exit status in $status, its output in $t/out
run() { status=0; (cd "$crate" && "$@") >"$t/out" 2>&1 || status=$?; }

# Warnings count as errors, of the crate, its tests and its program. The feature "stream" compiles examples/stream, with
# what unpacks gzip and zstd where that is; make test-all builds the crate without it first.
if [ -n "$TEST_ALL" ]; then
    run cargo build --offline --all-targets
    if [ "$status" -eq 0 ] && ! grep -q '^warning' "$t/out"; then pass
    else fail "the crate builds without its features" "$(tail -n 40 "$t/out")"; fi
fi
run cargo build --offline --all-targets --all-features
if [ "$status" -ne 0 ]; then fail "the crate builds" "$(tail -n 40 "$t/out")"; end; fi
pass
if grep -q '^warning' "$t/out"; then fail "the crate builds without warnings" "$(grep -A 12 '^warning' "$t/out" | head -n 40)"; else pass; fi

run cargo test --offline --no-fail-fast --all-features
grep -E '^test .* \.\.\. ' "$t/out" >"$t/tests"
while read -r _ line; do
    case $line in
    *"... ok") pass ;;
    *"... ignored, needs a GPU") ;;                      # below
    *"... ignored"*) skip "rust: ${line% ...*}" "ignored" ;;
    *) fail "rust: ${line% ...*}" ;;
    esac
done <"$t/tests"
if [ "$status" -ne 0 ]; then
    [ "$failed" -gt 0 ] || fail "cargo test ends well"
    grep -vE '^test .* ok$' "$t/out" | tail -n 60
elif [ ! -s "$t/tests" ]; then
    fail "cargo test runs tests"
fi

# miri looks for undefined behavior in the tests of the crate's own files, which call nothing of C. A payload of a panic
# is leaked on purpose.
miri=
for try in "cargo miri" "cargo +nightly miri"; do
    if [ -z "$miri" ] && $try --version >/dev/null 2>&1; then miri=$try; fi
done
if [ -z "$TEST_ALL" ]; then
    echo "LEFT test_rust.sh: the crate without its features, miri, clippy, cargo doc, what the build script says that it lacks"
elif [ -z "$miri" ]; then
    skip "miri over what calls nothing of C" "no toolchain has it: it is a component of nightly ones"
else
    # shellcheck disable=SC2086
    run env MIRIFLAGS=-Zmiri-ignore-leaks CARGO_TARGET_DIR="$CARGO_TARGET_DIR/miri" $miri test --offline --lib
    if [ "$status" -eq 0 ] && grep -q '^test result: ok. [1-9]' "$t/out"; then pass; else fail "miri has nothing to say" "$(tail -n 60 "$t/out")"; fi
fi

# The tests that need a GPU: with the fakes of NVIDIA's driver, where the library looks for one.
fakes() {
    if ! grep -q bzi_kernel_warp_any "$build/libbenzina.a"; then why="the library has no GPU path [clang libffmpeg-nvenc-dev]"; return 1; fi
    if [ ! -e tests/fake/build.sh ]; then why="the fake driver is missing"; return 1; fi
    if ! pkg-config --exists ffnvcodec libavcodec libavutil 2>/dev/null; then why="no ffnvcodec or no libavcodec to build it with [libffmpeg-nvenc-dev libavcodec-dev]"; return 1; fi
}
if ! fakes; then
    skip "rust with the fake driver" "$why"
elif ! make --no-print-directory -s BUILD="$build" "$build/tests/fake/libnvcuvid.so.1" >"$t/out" 2>&1; then
    fail "the fake driver builds" "$(head -n 12 "$t/out")"
else
    run env LD_LIBRARY_PATH="$BENZINA_LIB_DIR/tests/fake" cargo test --offline --no-fail-fast --all-features \
        --test device -- --ignored --test-threads 1
    while read -r _ line; do
        case $line in
        *"... ok") pass ;;
        *) fail "rust with the fake driver: ${line% ...*}" ;;
        esac
    done <<TESTS
$(grep -E '^test .* \.\.\. ' "$t/out")
TESTS
    if [ "$status" -ne 0 ] || grep -q '^fake' "$t/out"; then fail "rust with the fake driver" "$(grep -vE '^test .* ok$' "$t/out" | tail -n 60)"; fi
fi

if [ -n "$TEST_ALL" ]; then
    run env RUSTDOCFLAGS="-D warnings" cargo doc --offline --no-deps --all-features
    if [ "$status" -eq 0 ]; then pass; else fail "cargo doc has nothing to say" "$(tail -n 40 "$t/out")"; fi
fi
if [ -z "$TEST_ALL" ]; then :
elif cargo clippy --version >/dev/null 2>&1; then
    run cargo clippy --offline --all-targets --all-features -- -D warnings
    if [ "$status" -eq 0 ]; then pass; else fail "clippy has nothing to say" "$(tail -n 40 "$t/out")"; fi
else
    skip clippy "it is not installed [rust-web-clippy|rust-clippy]"
fi

# The build script: where no library is, it compiles one. It names what it lacks.
mkdir -p "$t/tree/examples" && cp benzina.c benzina.h benzina_kernels.cu "$t/tree/" &&
    cp -R "$crate" examples/formats "$t/tree/examples/"
alone() { # CC, command...: in a copy of the tree that has no library, while pkg-config knows of none
    cc=$1; shift; status=0
    (cd "$t/tree/examples/rust" && unset BENZINA_LIB_DIR && CC=$cc CARGO_TARGET_DIR=$t/alone "$@") >"$t/out" 2>&1 ||
        status=$?
}
if [ -z "$TEST_ALL" ]; then :
elif pkg-config --exists "benzina >= 0.3" 2>/dev/null; then
    skip "the build script compiles the library" "a libbenzina is installed, which it would take"
else
    alone /no/such/cc cargo check --offline
    if [ "$status" -ne 0 ] && grep -q 'needs a C compiler' "$t/out"; then pass; else fail "the build script says that there is no C compiler" "$(tail -n 20 "$t/out")"; fi
    alone /no/such/cc env PKG_CONFIG_LIBDIR="$t/nothing" PKG_CONFIG_PATH= cargo check --offline
    if grep -q 'libavcodec-dev was not found' "$t/out" && grep -q 'libjpeg-dev was not found' "$t/out" && ! grep -q 'pkg-config is missing' "$t/out"; then pass
    else fail "the build script names libraries that are missing" "$(tail -n 20 "$t/out")"; fi
    alone /no/such/cc env PKG_CONFIG=/no/such/pkg-config cargo check --offline
    if grep -q 'pkg-config is missing' "$t/out"; then pass; else fail "the build script says that there is no pkg-config" "$(tail -n 20 "$t/out")"; fi
    mkdir -p "$t/tree/tests" && cp -R tests/data "$t/tree/tests/"
    alone "${CC:-cc}" cargo test --offline --test host
    if [ "$status" -eq 0 ] && grep -q '^test result: ok' "$t/out"; then pass; else fail "the build script compiles the library" "$(tail -n 40 "$t/out")"; fi
    BENZINA_LIB_DIR=$t/nothing
    run cargo check --offline --target-dir "$t/alone"
    if [ "$status" -ne 0 ] && grep -q 'libbenzina.a is not there' "$t/out"; then pass; else fail "the build script says that BENZINA_LIB_DIR is empty" "$(tail -n 20 "$t/out")"; fi
    BENZINA_LIB_DIR=$(cd "$build" && pwd)
fi

# It takes an installed library, of which pkg-config knows, before it compiles one.
if [ -z "$TEST_ALL" ]; then echo "LEFT test_rust.sh: the build script compiles the library, and finds an installed one"
elif [ ! -x "$build/decode_batch" ]; then skip "the build script finds an installed library" "$build/decode_batch is not there"
else
    mkdir -p "$t/prefix/lib/pkgconfig" "$t/installed" "$t/expected" && cp -P "$build"/libbenzina.so* "$t/prefix/lib/"
    PREFIX=$t/prefix LIBDIR=$t/prefix/lib VERSION=0.4.0 SOVERSION=0.4 sh tests/make/install_package.sh "" benzina \
        benzina_formats
    alone /no/such/cc env PKG_CONFIG_PATH="$t/prefix/lib/pkgconfig" LD_LIBRARY_PATH="$t/prefix/lib" \
        cargo run --offline --bin decode_batch -- "$root/tests/data/mini_h265.bzna" "$t/installed"
    "$build/decode_batch" tests/data/mini_h265.bzna "$t/expected" >/dev/null 2>&1
    if [ "$status" -eq 0 ] && [ -s "$t/installed/00000.ppm" ] && diff -r "$t/expected" "$t/installed" >/dev/null 2>&1 &&
        LD_LIBRARY_PATH="$t/prefix/lib" ldd "$t/alone/debug/decode_batch" | grep -q "$t/prefix/lib/libbenzina.so"; then pass
    else fail "the build script finds an installed library" "$(tail -n 20 "$t/out")"; fi
fi

# The example: the same pictures, byte for byte, and the same words as the C program's.
example=$CARGO_TARGET_DIR/debug/decode_batch
if [ -x "$build/decode_batch" ]; then
    mkdir "$t/c" "$t/rust"
    "$build/decode_batch" tests/data/mini_h265.bzna "$t/c" >"$t/c.txt" 2>&1
    "$example" tests/data/mini_h265.bzna "$t/rust" >"$t/rust.txt" 2>&1
    if [ -s "$t/rust/00000.ppm" ] && diff -r "$t/c" "$t/rust" >"$t/out" 2>&1 && diff "$t/c.txt" "$t/rust.txt" >"$t/out" 2>&1; then pass
    else fail "decode_batch in Rust does what the one in C does" "$(head -n 10 "$t/out")"; fi
else
    skip "decode_batch in Rust against C" "$build/decode_batch is not there"
fi

# A codec in Rust: files of QOI that ffmpeg writes have the means of the PNMs that they were made of.
if ffmpeg -v error -encoders 2>/dev/null | grep -q ' qoi '; then
    mkdir -p "$t/qoi/a" "$t/ppm/a"
    for source in mandelbrot=s=131x97 testsrc2=s=77x150 color=red:s=50x60; do
        name=${source%%=*}
        ffmpeg -v error -f lavfi -i "$source" -frames:v 1 -pix_fmt rgb24 "$t/ppm/a/$name.ppm" &&
            ffmpeg -v error -i "$t/ppm/a/$name.ppm" "$t/qoi/a/$name.qoi"
    done
    means=0
    for kind in qoi ppm; do "$CARGO_TARGET_DIR/debug/own_codec" "$t/$kind" >"$t/$kind.txt" 2>&1 || means=1; done
    if [ "$means" -eq 0 ] && [ "$(wc -l <"$t/qoi.txt")" -eq 3 ] && cmp -s "$t/qoi.txt" "$t/ppm.txt"; then pass
    else fail "own_codec in Rust decodes what ffmpeg writes" "$(cat "$t/qoi.txt" "$t/ppm.txt")"; fi
else
    skip "own_codec in Rust" "no ffmpeg that writes QOI [ffmpeg]"
fi

# The codec of JPEG XL, in C, which every context has.
if pkg-config --exists 'libjxl >= 0.7' && command -v cjxl >/dev/null && [ -s "$t/ppm.txt" ]; then
    mkdir -p "$t/jxl/a"
    for picture in "$t"/ppm/a/*.ppm; do cjxl "$picture" "$t/jxl/a/$(basename "$picture" .ppm).jxl" -d 0 >"$t/out" 2>&1; done
    "$CARGO_TARGET_DIR/debug/own_codec" "$t/jxl" >"$t/jxl.txt" 2>&1
    if [ "$(wc -l <"$t/jxl.txt")" -eq 3 ] && cmp -s "$t/jxl.txt" "$t/ppm.txt"; then pass
    else fail "own_codec in Rust has the codec of JPEG XL" "$(cat "$t/jxl.txt" "$t/ppm.txt")"; fi
else
    skip "JPEG XL in Rust" "no libjxl, no cjxl or no pictures [libjxl-dev, libjxl-tools]"
fi
if "$example" no/such/file.bzna "$t" >"$t/out" 2>&1 || ! grep -q 'no/such/file.bzna: cannot open' "$t/out"; then
    fail "decode_batch in Rust names a file that is missing" "$(head -n 5 "$t/out")"
else
    pass
fi
end
