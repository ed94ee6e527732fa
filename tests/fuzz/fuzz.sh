#!/bin/sh
# The fuzz targets of tests/fuzz, run by libFuzzer, two at once, with clang's ASan and UBSan. Corpora stay in
# $BUILD/fuzz/corpus/TARGET, so that a later run goes on from them.
# Usage, by make fuzz and make fuzz-long from the repository's root, with BUILD, CLANG, FLAGS, LIBS, CUDA_FLAGS in the
# environment: sh tests/fuzz/fuzz.sh build | run SECONDS | long | pack | table. TARGETS: only these.
# run: SECONDS each. long: at least 10 minutes each, until 5 minutes bring no new edge, at most 30. pack: the smallest
# inputs of the corpora that reach all of their edges, at most 8 kB a target, into tests/data/fuzz. table: the last run.
# A crash leaves its input in $BUILD/fuzz/TARGET-crash-...
F="$BUILD/fuzz"
OPTIONS="-max_len=4096 -timeout=20 -rss_limit_mb=3072 -malloc_limit_mb=2048 -print_final_stats=1 -close_fd_mask=1 "
# Less about each block than ASan keeps by itself, which took up to a quarter of the time.
export ASAN_OPTIONS="malloc_context_size=4:max_malloc_fill_size=0:quarantine_size_mb=16"
export LSAN_OPTIONS="suppressions=$PWD/tests/make/lsan.supp:print_suppressions=0"
PARSE="archive heif avif jpeg stills tar tar_index recordio recordio_index lists records patterns pairs codecs state"
WRITE="writer"
DECODE="decode_archive decode_heif decode_jpeg decode_stills loader loader_gpu"
FORMATS="decode_tiff decode_jpeg2000 decode_gif_bmp_pnm decode_jxl"
TOOL="tool_arguments tool_lists tool_targets tool_journal tool_index tool_json"
NO_DECODERS="-DBENZINA_STATIC -DBENZINA_NO_AVCODEC -DBENZINA_NO_JPEG -DBENZINA_NO_CUDA"
# those of the arguments that TARGETS names
only() { for t in $TARGETS; do case " $* " in *" $t "*) printf '%s ' "$t" ;; esac; done; }
# shellcheck disable=SC2086
[ -z "$TARGETS" ] || { PARSE=$(only $PARSE); WRITE=$(only $WRITE); DECODE=$(only $DECODE); FORMATS=$(only $FORMATS); TOOL=$(only $TOOL); }

program() { # name, sources and flags...: if it has become older than the sources
    name=$1; shift
    newer=$(find benzina.c benzina.h tests/fuzz tests/fake examples/bzna examples/formats -newer "$F/$name" 2>/dev/null | head -n 1)
    [ -x "$F/$name" ] && [ -z "$newer" ] && return 0
    # shellcheck disable=SC2086
    $CLANG $FLAGS -fsanitize=fuzzer -DBENZINA_LIBFUZZER -o "$F/$name" "$@" -lm -lpthread -ldl
}
build() {
    mkdir -p "$F" && sh tests/fake/build.sh "$F/fake" "$CLANG" || return 1
    # shellcheck disable=SC2086
    [ -z "$PARSE" ] || program parse $NO_DECODERS tests/fuzz/main.c || return 1
    # Its inputs are choices, of which comparisons in the library tell nothing: tracing these took half of the time.
    # shellcheck disable=SC2086
    [ -z "$WRITE" ] || program write $NO_DECODERS -fno-sanitize-coverage=trace-cmp tests/fuzz/main.c || return 1
    # shellcheck disable=SC2086
    [ -z "$DECODE" ] || program decode -DBENZINA_STATIC $CUDA_FLAGS "-Wl,--disable-new-dtags,-rpath,$PWD/$F/fake" \
        tests/fuzz/main.c $LIBS || return 1
    # shellcheck disable=SC2086
    [ -z "$FORMATS" ] || program formats -DBENZINA_NO_CUDA -DFUZZ_FORMATS $FORMATS_FLAGS \
        tests/fuzz/main.c examples/formats/stills.c examples/formats/tiff.c examples/formats/jpeg2000.c \
        examples/formats/jxl.c $FORMATS_LIBS $LIBS || return 1
    # shellcheck disable=SC2086
    [ -z "$TOOL" ] || program tool $TOOL_FLAGS tests/fuzz/tool.c $TOOL_SOURCES "$BUILD/libbenzina.a" $TOOL_LIBS $LIBS
}

. tests/fuzz/seeds.sh
program_of() { # target
    case " $DECODE " in *" $1 "*) echo decode; return ;; esac
    case " $FORMATS " in *" $1 "*) echo formats; return ;; esac
    case " $TOOL " in *" $1 "*) echo tool; return ;; esac
    case " $WRITE " in *" $1 "*) echo write; return ;; esac
    echo parse
}
prepare() { # target: its program under its name, and its corpus
    of=$(program_of "$1")
    ln -f "$F/$of" "$F/$1" && seeds "$1" "$F/$of" "$F/corpus/$1"
}
own_options() { # target
    case $1 in
    patterns) echo -max_len=256 ;;  # the time grows with the square of the length
    # the schedule's own counts would take a quarter of the time, since an input has many edges
    writer) echo -entropic=0 ;;
    esac
}
one() { # target, seconds
    # shellcheck disable=SC2086
    "$F/$1" -max_total_time="$2" $OPTIONS $(own_options "$1") -artifact_prefix="$F/$1-" "$F/corpus/$1" > \
        "$F/$1.log" 2>&1
    status=$?
    line "$1"
    [ $status = 0 ] || { echo "FAIL fuzz $1: $(grep -E 'ERROR|SUMMARY|Assertion|main.c:|\.h:[0-9]+:' "$F/$1.log" | head -n 3)"; return 1; }
}
line() { # target: executions, executions a second of a processor, edges, inputs, of its last run
    awk -v name="$1" '/^#[0-9]/ { for (i = 1; i < NF; i++) { if ($i == "cov:") cov = $(i + 1); if ($i == "corp:") corp = $(i + 1) } }
        /number_of_executed_units/ { n = $2 } /processor_sec/ { seconds = $2 }
        END { split(corp, c, "/"); printf "| `%s` | %d | %d | %d | %d |\n", name, n, seconds ? n / seconds : 0, cov, c[1] }' "$F/$1.log"
}
edges() { awk '/^#[0-9]/ { for (i = 1; i < NF; i++) if ($i == "cov:") cov = $(i + 1) } END { print cov + 0 }' "$F/$1.log"; }
# target: rounds of 5 minutes, 2 of them at least, 6 at most, until one finds no edge that the one before did not know
until_still() {
    round=1; known=0
    while :; do
        one "$1" 300 || return 1
        found=$(edges "$1")
        [ $round -ge 2 ] && [ "$found" -le "$known" ] && return 0
        [ $round -lt 6 ] || return 0
        known=$found; round=$((round + 1))
    done
}
queue() { # how, seconds, targets...: every second one of them
    how=$1; seconds=$2; shift 2; failed=0
    for t in "$@"; do
        if [ "$how" = long ]; then until_still "$t" || failed=1; else one "$t" "$seconds" || failed=1; fi
    done
    return $failed
}
pack() { # target
    rm -rf "$F/least"; mkdir -p "$F/least" tests/data/fuzz
    # shellcheck disable=SC2086
    "$F/$1" -merge=1 -max_len=2048 -close_fd_mask=1 "$F/least" "$F/corpus/$1" > "$F/merge.log" 2>&1 || { tail -n 5 "$F/merge.log"; return 1; }
    find "$F/least" -type f | sort | xargs "$F/$of" "$1" pack "tests/data/fuzz/$1.pack" 8192
}

all="$PARSE $WRITE $DECODE $FORMATS $TOOL"
case $1 in
build) build ;;
run | long)
    if ! echo 'int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { (void)d; (void)n; return 0; }' |
        $CLANG -fsanitize=fuzzer -x c - -o /dev/null 2>/dev/null; then
        echo "SKIP fuzzing: $CLANG has no libFuzzer here [clang libclang-rt-dev]"; exit 0
    fi
    build || exit 1
    for t in $all; do prepare "$t" || exit 1; done
    first=; second=; n=0
    for t in $all; do n=$((n + 1)); if [ $((n % 2)) = 1 ]; then first="$first $t"; else second="$second $t"; fi; done
    printf "| target | executions | a second of a processor | edges | inputs kept |\n|---|---|---|---|---|\n"
    # shellcheck disable=SC2086
    queue "$1" "${2:-60}" $first & queue "$1" "${2:-60}" $second; b=$?
    wait $!; a=$?
    [ $a$b = 00 ] ;;
pack) for t in $all; do prepare "$t" && pack "$t" || exit 1; done ;;
table) for t in $all; do [ ! -e "$F/$t.log" ] || line "$t"; done ;;
*) echo "usage: sh tests/fuzz/fuzz.sh build | run SECONDS | long | pack | table" >&2; exit 2 ;;
esac
