#!/bin/sh
# make dist WITHOUT=...: pairs from which rooms are removed compile without warnings, say what they lack, and still load
# archives. Their headers declare what they have, and their manuals do not speak of the rest. Usage: sh tests/make/test_dist.sh BZNA BUILD, from the repository root.
BUILD=${2:-build}
T="$BUILD/tests/dist"
rm -rf "$T"; mkdir -p "$T"
passed=0; failed=0; skipped=0
PYTHON=${PYTHON:-python3}
ALL="CUDA AVCODEC JPEG WRITER SHARDS STILLS FOLDERS PROVIDERS AUGMENT MXNET THREADS"
ARCHIVES="SHARDS FOLDERS STILLS PROVIDERS WRITER"
WARN="-Wall -Wextra -Wpedantic -Wconversion -Wshadow $WERROR"
CFLAGS=$(pkg-config --cflags libavcodec libavutil libjpeg 2>/dev/null); libraries=$?
NV_CFLAGS=$(pkg-config --cflags ffnvcodec 2>/dev/null) && [ -s "$BUILD/benzina_kernels.ptx.h" ] && cuda=1 || cuda=
LIBS="$(pkg-config --libs libavcodec libavutil libjpeg 2>/dev/null) -lm -lpthread -ldl"

have() { command -v "$1" > /dev/null 2>&1; }
skip() { skipped=$((skipped + 1)); echo "SKIP $1: $2"; }
check() { # name, command...
    name=$1; shift
    if "$@" > "$T/log" 2>&1; then passed=$((passed + 1)); else
        failed=$((failed + 1)); echo "FAIL $name"; head -n 12 "$T/log"
    fi
}
finish() {
    echo "tests/make/test_dist.sh: $passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ]; exit
}
have "$PYTHON" || { skip pairs_without_rooms "no python3 here [python3]"; finish; }
[ "$libraries" -eq 0 ] || { skip pairs_without_rooms "no libavcodec or libjpeg [libavcodec-dev libjpeg-dev]"; finish; }

# --- each pair: made, read, compiled ---
makes() { # folder, name...: the three files
    folder=$1; shift
    if [ $# -gt 0 ]; then "$PYTHON" tests/make/without.py "$folder" "$@"
    else mkdir -p "$folder" && cp benzina.c benzina.h benzina_kernels.cu "$folder/"; fi
}
asks_nothing() { # folder, name...: no condition is left on what was removed
    folder=$1; shift
    for switch; do
        ! grep -nE "^ *# *(if|ifdef|ifndef|elif)\b.*BENZINA_NO_$switch\b" "$folder"/benzina* || return 1
        grep -q "^#define BENZINA_NO_$switch 1\$" "$folder/benzina.h" || return 1
    done
}
rooms_are_listed() { # folder: the list at the top has each room once, in order, and banners say what they call
    "$PYTHON" tests/make/rooms.py "$1/benzina.c" &&
    awk '/^\/\* ==== / { sub(/\..*/, "", $3); if ($3 > 0) print $3 }' "$1/benzina.c" > "$T/rooms" &&
    awk '/^\/\* ====/ { exit } /^ \* +[0-9]+(-[0-9]+)?  / { n = split($2, r, "-")
        for (i = r[1] + 0; i <= r[n] + 0; i++) print i }' "$1/benzina.c" | diff - "$T/rooms"
}
lacks() { # folder, name...: what the rooms had is gone
    folder=$1; shift
    for switch; do
        case $switch in
        SHARDS)  gone="bzi_tar_row bzi_tar_walk" ;;
        FOLDERS) gone="bzi_folder_ bzi_walk bzi_paths_add_shards" ;;
        STILLS)  gone="bzi_png_next bzi_webp_read" ;;     # their list stays
        PROVIDERS) gone="bzi_provider bzna_provider bzna_dataset_open_provider" ;;
        WRITER)  gone="bzi_index_entry bzi_coded bzna_writer bzna_sink" ;;
        CUDA)    gone="bzi_nvdec_cache bzi_engine_run cuInit BZI_NVDEC_DEADLINE_NS" ;;
        AVCODEC) gone="avcodec_" ;;
        JPEG)    gone="jpeg_read_header"           # NVDEC and the writer need the header of a JPEG
                 case " $* " in *" CUDA "*) case " $* " in *" WRITER "*) gone="$gone bzi_jpeg_read bzi_jpeg_next" ;; esac ;; esac ;;
        AUGMENT) gone="bzi_op_ranges bzi_kernel_blur bzna_augment_draw" ;;
        MXNET)   gone="bzi_mxnet_enlarge" ;;
        THREADS) gone="pthread_create" ;;
        esac
        for word in $gone; do
            grep -q "$word" benzina.c benzina_kernels.cu || { echo "$word: the whole pair has no such name"; return 1; }
            ! grep -n "$word" "$folder/benzina.c" "$folder/benzina_kernels.cu" || return 1
        done
    done
}
cat > "$T/header.py" <<'EOF'
import re
import sys
sys.path.insert(0, "tests/make")
import rooms
full, less, code = (open(path).read() for path in ("benzina.h", sys.argv[1] + "/benzina.h", sys.argv[1] + "/benzina.c"))
NAME, FUNCTION = re.compile(r"\b(?:bzna|BZNA)_\w+"), re.compile(r"^BZNA_API [^;{]*?\b(bzna_\w+)\([^;{]*?\)\s*([;{])", re.M)
declared = lambda text: set(NAME.findall(rooms.without_comments(text)))
functions = lambda text, end: {m[1] for m in FUNCTION.finditer(rooms.without_comments(text)) if m[2] == end}
defined = functions(code, "{") | {"bzna_%s_init" % name for name in re.findall(r"^BZI_API_INIT\((\w+)\)", code, re.M)}
wrong = ["%s: declared or defined alone" % name for name in functions(less, ";") ^ defined]
wrong += ["%s: not declared, but spoken of" % name for name in (declared(full) - declared(less)) & set(NAME.findall(less))]
print(len(defined), "functions", *sorted(wrong), sep="\n")
sys.exit(len(wrong) > 0 or len(defined) < 60)
EOF
layouts() { awk -f tests/make/abi.awk "$1/benzina.h" > "$T/abi.c" && gcc -I"$1" "$T/abi.c" -o "$T/abi" && "$T/abi"; }
! have gcc || layouts . > "$T/layouts"
has_less() { # folder: of the header: some is removed, nothing is added or changed, and structs have the same layout
    diff benzina.h "$1/benzina.h" | sed -n 's/^> //p' | grep -vE \
        -e '^#define BENZINA_NO_[A-Z]+ 1$' -e '^ \* This copy was made without it\.$' -e '^$' \
        -e '^/\* This copy was made by make dist WITHOUT=' -e '^ \* What these switches leave out is in neither file' && return 1
    ! have gcc || { layouts "$1" > "$T/of_pair" && [ "$(wc -l < "$T/of_pair")" -gt 300 ] &&
        ! diff "$T/layouts" "$T/of_pair" | grep '^>'; }
}
speaks_of_what_it_has() { # folder, name...: the header
    folder=$1; shift
    for switch; do
        case $switch in
        CUDA)    gone='cuvid|^ \* (DECODE SESSIONS|STREAMS|DAMAGE|THE CUDA CONTEXT)' ;;
        SHARDS)  gone='WebDataset writes|wds2idx|^ \* TARS' ;;
        STILLS)  gone='BigTIFF|^ \* STILLS' ;;
        FOLDERS) gone='leftImg8bit|\{0000\.\.0146\}|^ \* (FOLDERS|PATTERNS)' ;;
        PROVIDERS) gone='lmdb|^ \* PROVIDERS|---- Providers' ;;
        WRITER)  gone='queue_bytes|---- Writers' ;;
        AUGMENT) gone='torchvision 0\.29|^ \* POLICIES' ;;
        *)       continue ;;
        esac
        grep -qE "$gone" benzina.h && ! grep -nE "$gone" "$folder/benzina.h" || return 1
    done
    "$PYTHON" "$T/header.py" "$folder"
}
compiles() { # compiler, folder, name...
    compiler=$1; folder=$2; shift 2
    case $compiler in clang) how=-fsyntax-only ;; *) how="-O0 -flto -c -o $T/warned.o" ;; esac
    case " $* " in *" CUDA "*) nv= ;; *) nv=$NV_CFLAGS; [ -n "$cuda" ] || nv=-DBENZINA_NO_CUDA ;; esac
    # shellcheck disable=SC2086
    "$compiler" -std=c11 $how $WARN $CFLAGS $nv -I"$folder" -I"$BUILD" "$folder/benzina.c"
}
header_is() { # compiler, folder
    echo '#include "benzina.h"' > "$T/header.c"
    for standard in c99 c11; do
        # shellcheck disable=SC2086
        "$1" -std=$standard $WARN -I"$2" -fsyntax-only "$T/header.c" || return 1
    done
    # shellcheck disable=SC2086
    "$1" -x c++ -std=c++17 -Wall -Wextra -Wpedantic $WERROR -I"$2" -fsyntax-only "$T/header.c"
}
pair() { # name...
    title=$(echo "${*:-nothing}" | tr ' ' '_'); made=$T/pairs/$title
    # shellcheck disable=SC2068
    check "a_pair_without_${title}_is_made" makes "$made" $@
    # shellcheck disable=SC2068
    check "a_pair_without_${title}_has_no_condition_on_them" asks_nothing "$made" $@
    # shellcheck disable=SC2068
    check "a_pair_without_${title}_has_nothing_of_them" lacks "$made" $@
    check "a_pair_without_${title}_lists_its_rooms" rooms_are_listed "$made"
    check "a_pair_without_${title}_has_a_part_of_the_header" has_less "$made"
    # shellcheck disable=SC2068
    check "a_pair_without_${title}_has_a_header_of_what_it_has" speaks_of_what_it_has "$made" $@
    for compiler in gcc clang; do
        # clang says all it has to say without making code, gcc does not: of its builds, make test has one.
        [ $compiler = clang ] || [ -n "$TEST_ALL" ] || [ "$*" = "$ALL" ] || continue
        # test_build.sh compiles the whole pair, and its header.
        [ $# -gt 0 ] || [ -n "$TEST_ALL" ] || continue
        if have $compiler; then
            # shellcheck disable=SC2068
            check "a_pair_without_${title}_compiles_with_$compiler" compiles $compiler "$made" $@
            check "a_pair_without_${title}_has_a_header_of_c99_c11_and_cxx17_with_$compiler" header_is $compiler "$made"
        else skip "a_pair_without_${title}_compiles_with_$compiler" "no $compiler here [$compiler]"; fi
    done
}
listed() { sed -n 's/^ \*     BENZINA_NO_\([A-Z]*\) .*/\1/p' benzina.h | sort > "$T/listed"
    echo "$ALL" | tr ' ' '\n' | sort | diff - "$T/listed"; }
refuses_names() {
    ! makes "$T/none" STILLS SHRADS 2> "$T/said" && grep -q 'SHRADS is no switch; there are: .*SHARDS' "$T/said"
}
check every_switch_is_tested listed
check an_unknown_name_is_refused refuses_names
pair
pair $ALL
pair $ARCHIVES
pair SHARDS STILLS
if [ -n "$TEST_ALL" ]; then
    for switch in $ALL; do pair $switch; done
    pair CUDA JPEG WRITER
    seed=${SEED:-$(date +%j)}
    echo "$ALL" | awk -v seed="$seed" '{ srand(seed); for (i = 0; i < 6; i++) {
        line = ""; for (k = 1; k <= NF; k++) if (rand() < 0.4) line = line " " $k; if (line != "") print line } }' \
        > "$T/random"
    echo "random pairs of SEED=$seed"
    while read -r names; do pair $names; done < "$T/random"
else echo "LEFT test_dist.sh: gcc's builds of pairs but of the smallest, other kernels, pairs without each of the switches, and without some at random; compiled bytes"; fi

# --- conditions of all forms ---
cat > "$T/forms.py" <<'EOF'
import sys
sys.path.insert(0, "tests/make")
import without
cases = {
    "#if defined(X) && defined(Y)\na\n#else\nb\n#endif": "#if defined(Y)\na\n#else\nb\n#endif",
    "#if !defined(X) || !defined(Y)\na\n#endif": "#if !defined(Y)\na\n#endif",
    "#if defined(X) || defined(Y)\na\n#else\nb\n#endif": "a",
    "#ifndef X\na\n#elif defined(Y)\nb\n#else\nc\n#endif": "#if defined(Y)\nb\n#else\nc\n#endif",
    "#ifdef Y\na\n#elif defined(X)\nb\n#else\nc\n#endif": "#ifdef Y\na\n#else\nb\n#endif",
    "#ifdef Y\n#ifndef X\na\n#else\nb\n#endif\n#endif": "#ifdef Y\nb\n#endif",
    "#ifndef X\n#if Z > 3\na\n#else\nb\n#endif\n#endif\nc": "c",
    "#ifdef X /* why */\na\n#else\nb\n#endif": "a",
    "#if (defined(Y) || defined(X)) && !(defined(Z) && defined(X))\na\n#endif": "#if !defined(Z)\na\n#endif",
    "#if Z > 3 && \\\n    W\na\n#endif": "#if Z > 3 && \\\n    W\na\n#endif",
    "#ifdef XY\na\n#endif": "#ifdef XY\na\n#endif",
    "#if Z\na\n#  elif Y\nb\n#endif": "#if Z\na\n#  elif Y\nb\n#endif",
}
wrong = [(given, got) for given, want in cases.items()
         for got in ["\n".join(without.resolve(given.split("\n"), {"X"}))] if got != want]
for given, got in wrong:
    print(given, got, sep="\n-> \n", end="\n\n")
sys.exit(len(wrong))
EOF
check conditions_are_decided_in_all_forms "$PYTHON" "$T/forms.py"

# --- the pair for archives alone, made by make dist: loads, and says what it lacks ---
cat > "$T/program.c" <<'EOF'
#include "benzina.h"
#include <stdio.h>
#include <string.h>

static bzna_context *context;
static int wrong;

/* The call must fail, and its message must name the switch. */
static void lacks(bzna_status status, const bzna_error *err, const char *what)
{
    if (status != BZNA_E_UNSUPPORTED || !strstr(err->message, what)) {
        printf("%s: %d %s\n", what, (int)status, err->message);
        wrong++;
    }
}

static void opens_none(const char *path, const bzna_dataset_config *config, const char *what)
{
    bzna_error err = { .struct_size = sizeof err };
    bzna_dataset *dataset = NULL;
    bzna_status status = bzna_dataset_open(context, path, config, &dataset, &err);

    lacks(status, &err, what);
    bzna_dataset_close(dataset);
}

int main(void)
{
    bzna_loader_config config = { .struct_size = sizeof config };
    bzna_dataset_config tar = { .struct_size = sizeof tar };
    bzna_error err = { .struct_size = sizeof err };
    bzna_dataset *dataset = NULL;
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_batch_info info = { 0 };

    config.output.batch_size = 8;
    config.output.width = config.output.height = 32;
    if (bzna_context_open(NULL, &context, &err) < 0 ||
        bzna_dataset_open(context, "tests/data/mini_h265.bzna", NULL, &dataset, &err) < 0 ||
        bzna_loader_open(context, dataset, &config, &loader, &err) < 0 ||
        bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err) < 0 ||
        bzna_batch_get_info(batch, &info, sizeof info, &err) < 0) {
        printf("%s\n", err.message);
        return 1;
    }
    printf("a batch of %u\n", (unsigned)info.count);
    bzna_batch_release(batch);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);

#ifdef BENZINA_NO_FOLDERS
    opens_none("tests/data", NULL, "BENZINA_NO_FOLDERS");
#endif
#ifdef BENZINA_NO_SHARDS
    tar.format = "tar";
    opens_none("tests/data/seeds/ustar.tar", NULL, "BENZINA_NO_SHARDS");
    opens_none("tests/data/seeds/gnu.tar", &tar, "BENZINA_NO_SHARDS");
#endif
    bzna_context_close(context);
    return wrong;
}
EOF
dist() { # folder, names
    make --no-print-directory -s BUILD="$BUILD" DIST="$1" WITHOUT="$2" dist
}
# Unoptimized, clang takes a third of gcc's time.
compiler=gcc; [ -n "$TEST_ALL" ] || ! have clang || compiler=clang
runs() { # folder, what it prints
    # shellcheck disable=SC2086
    $compiler -std=c11 -O0 -ffp-contract=off $CFLAGS $NV_CFLAGS -I"$1" "$T/program.c" "$1/benzina.c" \
        $LIBS -o "$1/program" && "$1/program" > "$1/said"
    status=$?
    cat "$1/said"
    [ $status -eq 0 ] && [ "$(cat "$1/said")" = "$2" ]
}
dist_of() { # folder, names
    dist "$1" "$2" && asks_nothing "$1" $2 && [ ! -e "$1/parts" ] && [ -e "$1/CMakeLists.txt" ] &&
        case " $2 " in *" PROVIDERS "*|*" FOLDERS "*) [ ! -e "$1/stream" ] ;; *) [ -e "$1/stream/stream.c" ] ;; esac &&
        ! grep -n '^#include "' "$1/benzina.c" | grep -v '"benzina.h"'; }
lacks_kernel() { ! grep -n bzi_kernel_augment "$1"; }
if [ -n "$cuda" ] && have gcc; then
    check make_dist_writes_the_pair_for_archives dist_of "$T/archives" "$ARCHIVES"
    check the_pair_for_archives_loads_a_batch_and_names_what_it_lacks runs "$T/archives" "a batch of 8"
    if [ -n "$TEST_ALL" ]; then
        check make_dist_writes_other_kernels_without_augmentations dist_of "$T/augment" "$ARCHIVES AUGMENT"
        check the_pair_without_augmentations_has_no_kernel_of_them lacks_kernel "$T/augment/benzina.c"
        check the_pair_without_augmentations_loads_a_batch runs "$T/augment" "a batch of 8"
        check make_dist_writes_a_pair_without_each_of_half dist_of "$T/half" "STILLS PROVIDERS CUDA"
        check the_pair_without_half_of_them_loads_a_batch runs "$T/half" "a batch of 8"
    fi
else
    skip make_dist_writes_the_pair_for_archives \
        "no nv-codec-headers, no PTX or no gcc [libffmpeg-nvenc-dev clang gcc]"
fi

# --- formats: each codec may be copied alone beside the pair, with its library or with its switch; others need data.c ---
formats_are_written() {
    make --no-print-directory -s BUILD="$BUILD" DIST="$T/with_formats" dist-formats && ls "$T/with_formats/formats" |
        diff "$T/listed" - && cp benzina.h "$T/with_formats/"
}
alone() { # file
    lacks=$(sed -n 's/^ \*     \(BENZINA_FORMATS_NO_[A-Z0-9]*\)  .*/\1/p' examples/formats/formats.h)
    needs=$(make --no-print-directory -s print-FORMATS_CFLAGS)
    for compiler in gcc clang; do
        have $compiler || continue
        for switches in "$needs" "$(echo "$lacks" | sed 's/^/-D/' | tr '\n' ' ')"; do
            # shellcheck disable=SC2086
            $compiler -std=c11 -O0 $WARN -Werror -I"$T/with_formats" $switches -c "$T/with_formats/formats/$1" -o "$T/alone.o" &&
                { grep -q '"data.h"' "examples/formats/$1" || ! nm -u "$T/alone.o" | grep bzna_formats_; } ||
                { echo "$compiler $switches"; return 1; }
        done
    done
}
ls examples/formats | grep '\.[ch]$' > "$T/listed"
check make_dist_formats_writes_all_of_them formats_are_written
for file in $(grep '\.c$' "$T/listed" | grep -v '^formats\.c$'); do
    if have gcc || have clang; then check "format_${file%.c}_is_compiled_alone" alone "$file"
    else skip "format_${file%.c}_is_compiled_alone" "no compiler here [gcc clang]"; fi
done

# Files that are no codecs link with the files that formats.h names for them: with all of these, and with those alone
# that no switch leaves out.
needs() { # file, columns of formats.h's table
    sed -n '/^ \*     file  /,/^ \*$/s/^ \*     //p' examples/formats/formats.h | awk -F '   *' -v file="$1" -v columns="$2" \
        '(" " $1 " ") ~ (" " file " ") { print ($2 == "-" ? "" : $2), (columns > 1 ? $3 : ""); found = 1 } END { exit !found }'
}
all_needed() { # columns, file: it, and all that it needs
    columns=$1; shift; found=
    while [ $# -gt 0 ]; do
        case " $found " in *" $1 "*) ;; *)
            # shellcheck disable=SC2046
            found="$found $1"; set -- "$@" $(needs "$1" "$columns") ;;
        esac
        shift
    done
    echo "$found"
}
cat > "$T/opens.c" <<'EOF'
#include "formats.h"

int main(int argc, char **argv)
{
    bzna_context_config config = { .struct_size = sizeof config };
    bzna_context *context = NULL;
    bzna_error err = { .struct_size = sizeof err };
    config.own_codecs.ptr = bzna_formats_codecs(&config.own_codecs.count);
    if (bzna_context_open(&config, &context, &err) < 0)
        return puts(err.message), 1;
    for (int i = 1; i < argc; i++) {
        bzna_dataset *dataset = NULL;
        bzna_image_info info = { .struct_size = sizeof info };
        if (bzna_formats_open(context, argv[i], NULL, &dataset, &err) < 0 ||
            bzna_dataset_image_info(dataset, 0, NULL, &info, sizeof info, &err) < 0)
            puts(err.message);
        else
            printf("%d of %u\n", (int)bzna_dataset_count(dataset), info.width);
        bzna_dataset_close(dataset);
    }
    bzna_context_close(context);
    return 0;
}
EOF
echo 'int main(void) { return 0; }' > "$T/opens_nothing.c"
links() { # folder of objects, switches, libraries, file...: the first one's program
    objects=$T/$1; switches=$2; libraries=$3; shift 3; mkdir -p "$objects"
    case $1 in open.c) main=opens ;; *) main=opens_nothing ;; esac
    for source in "$T/$main.c" $(echo "$*" | sed "s,[a-z0-9]*\.c,$T/with_formats/formats/&,g"); do
        object=$objects/$(basename "$source" .c).o
        # shellcheck disable=SC2086
        [ -e "$object" ] || ${CC:-cc} -std=c11 -O0 -Wall -Wextra $WERROR -I"$T/with_formats" -I"$T/with_formats/formats" \
            $switches -c "$source" -o "$object" || return 1
    done
    # shellcheck disable=SC2046,SC2086
    ${CC:-cc} "$objects/$main.o" $(echo "$*" | sed "s,\([a-z0-9]*\)\.c,$objects/\1.o,g") "$BUILD/libbenzina.a" \
        -Wl,--allow-shlib-undefined $libraries $LIBS -o "$objects/program"
}
with_all() { # file
    # shellcheck disable=SC2046
    needs "$1" 2 > "$T/needed" && links all "$(make --no-print-directory -s print-FORMATS_CFLAGS)" \
        "$(make --no-print-directory -s print-FORMATS_LIBS)" $(all_needed 2 "$1")
}
with_few() { # file
    # shellcheck disable=SC2046
    links few "$(sed -n 's/^ \*     \(BENZINA_FORMATS_NO_[A-Z0-9]*\)  .*/-D\1/p' examples/formats/formats.h | tr '\n' ' ')" \
        "" $(all_needed 1 "$1")
}
says() { # program, what it says, path...
    program=$1; said=$2; shift 2
    "$program" "$@" > "$T/said" && cat "$T/said" && [ "$(tr '\n' ';' < "$T/said")" = "$said" ]
}
DATA="tests/data/mini_h265.bzna tests/data/heif/alpha.avif"
all_open() {
    # shellcheck disable=SC2086
    with_all open.c && says "$T/all/program" "8 of 500;1 of 40;" $DATA
}
few_open() {
    # shellcheck disable=SC2086
    with_few open.c && says "$T/few/program" "8 of 500;tests/data/heif/alpha.avif: sample 0: HEIF: it is decoded by heif.c, which this build does not have;tests/data/pictures/tiff_lzw.tif: sample 0: TIFF: it is decoded by libtiff, which this build does not have;" \
        $DATA tests/data/pictures/tiff_lzw.tif
}
without_codecs() { # switches and files of codecs are left out, data sets are not
    # shellcheck disable=SC2046
    links sets "-DBENZINA_FORMATS_NO_HEIF -DBENZINA_FORMATS_NO_STILLS -DBENZINA_FORMATS_NO_TIFF -DBENZINA_FORMATS_NO_JPEG2000 -DBENZINA_FORMATS_NO_JXL" "" \
        $(all_needed 2 open.c | tr ' ' '\n' | grep -v -e heif -e stills -e tiff -e jpeg2000 -e jxl)
}
folders_without_patterns() { # paths.c is left out
    mkdir -p "$T/rec" && { printf '\n#\327\316\030\0\0\0'; head -c 24 /dev/zero; } > "$T/rec/a.rec"
    # shellcheck disable=SC2046
    links paths "-DBENZINA_FORMATS_NO_PATHS $(make --no-print-directory -s print-FORMATS_CFLAGS)" \
        "$(make --no-print-directory -s print-FORMATS_LIBS)" $(all_needed 2 open.c | sed 's/ paths\.c//') &&
        says "$T/paths/program" "$T/rec/a.rec: sample 0 at byte 32: the picture has no bytes;" "$T/rec"
}
if [ -n "$SANITIZE" ]; then skip "files with what they need" "the library is built with a sanitizer"
else
    for file in $(grep '\.c$' "$T/listed"); do
        grep -q '"data.h"' "examples/formats/$file" || [ "$file" = formats.c ] || continue
        [ "$file" != data.c ] || continue
        check "format_${file%.c}_links_with_the_files_that_formats_h_names" with_all "$file"
        check "format_${file%.c}_links_without_those_of_switches" with_few "$file"
    done
    check with_all_files_data_sets_open all_open
    check with_few_files_data_sets_open few_open
    check data_sets_need_no_file_of_codecs_that_switches_leave_out without_codecs
    check folders_of_records_open_without_patterns folders_without_patterns
fi

# A program with the library and one codec alone decodes a picture by it.
cat > "$T/with_codec.c" <<'EOF'
#include "benzina.h"
#include "formats.h"

int main(int argc, char **argv)
{
    static unsigned char data[1 << 20];
    bzna_codec codec;
    bzna_context *context = NULL;
    bzna_decoder *decoder = NULL;
    bzna_error err = { .struct_size = sizeof err };
    bzna_context_config config = { .struct_size = sizeof config };
    bzna_image image = { .struct_size = sizeof image, .codec = BZNA_CODEC_OWN, .data = data };
    bzna_picture picture = { .struct_size = sizeof picture };
    FILE *file = fopen(argv[argc - 1], "rb");
    if (!file) return 2;
    image.data_size = fread(data, 1, sizeof data, file);
    fclose(file);
    CODEC(&codec);
    config.own_codecs.ptr = &codec;
    config.own_codecs.count = 1;
    if (bzna_context_open(&config, &context, &err) < 0 || bzna_decoder_open(context, &decoder, &err) < 0 ||
        bzna_decoder_decode(decoder, &image, &picture, &err) < 0)
        return puts(err.message), 1;
    printf("%s: %u x %u\n", codec.name, picture.width, picture.height);
    bzna_decoder_close(decoder);
    bzna_context_close(context);
    return 0;
}
EOF
decodes_alone() { # codec, its file, a picture
    # shellcheck disable=SC2046
    ${CC:-cc} -std=c11 -O0 -I"$T/with_formats" -I"$T/with_formats/formats" "-DCODEC=bzna_formats_$1" \
        $(make --no-print-directory -s print-FORMATS_CFLAGS) "$T/with_codec.c" "$T/with_formats/formats/$2.c" \
        "$BUILD/libbenzina.a" -Wl,--allow-shlib-undefined $(make --no-print-directory -s print-FORMATS_LIBS) \
        $(pkg-config --libs libavcodec libavutil libjpeg 2>/dev/null) -lm -lpthread -ldl -o "$T/with_codec" &&
        "$T/with_codec" "$3" > "$T/decoded" && cat "$T/decoded" && grep -q ' x ' "$T/decoded"
}
if [ -n "$SANITIZE" ]; then skip "codecs alone decode" "the library is built with a sanitizer"
elif make --no-print-directory -s print-FORMATS_CFLAGS | grep -q _NO_; then
    skip "codecs alone decode" "not all libraries are here [libavcodec-dev libtiff-dev libopenjp2-7-dev libjxl-dev]"
else
    for one in heif:heif:heif/alpha.avif gif:stills:pictures/gif_87.gif bmp:stills:pictures/bmp_1.bmp \
        pnm:stills:seeds/plain.ppm tiff:tiff:pictures/tiff_lzw.tif jpeg2000:jpeg2000:pictures/jpeg2000.jp2 \
        jxl:jxl:seeds/lossy.jxl; do
        file=${one#*:}
        check "the_codec_of_${one%%:*}_alone_decodes" decodes_alone "${one%%:*}" "${file%%:*}" "tests/data/${file#*:}"
    done
fi

# --- the table of examples/vendoring/README.md ---
table() { grep -E '^\| (nothing|`[A-Z ]+`) \| [0-9]' examples/vendoring/README.md; }
lines_hold() { # within 3 %
    PAIRS="$T/pairs" sh tests/make/dist_table.sh --lines "$BUILD" > "$T/lines" && [ "$(table | wc -l)" -eq "$(wc -l < "$T/lines")" ] &&
    table | cut -d '|' -f 2,3 | tr -d ', ' > "$T/readme" && cut -d '|' -f 2,3 "$T/lines" | tr -d ', ' |
        paste -d '|' "$T/readme" - | awk -F '|' '{ print } $1 != $3 || $2 / $4 > 1.03 || $4 / $2 > 1.03 { bad = 1 }
            END { exit bad || NR < 5 }'
}
bytes_hold() { # within 5 %
    sh tests/make/dist_table.sh "$BUILD" > "$T/bytes" &&
    table | cut -d '|' -f 2,4 | tr -d ', ' > "$T/readme" && cut -d '|' -f 2,4 "$T/bytes" | tr -d ', ' |
        paste -d '|' "$T/readme" - | awk -F '|' '{ print } $1 != $3 || $2 / $4 > 1.05 || $4 / $2 > 1.05 { bad = 1 }
            END { exit bad || NR < 5 }'
}
archives_are_small() { # after bytes_hold
    awk -F '|' '/ AUGMENT/ { gsub(/[ ,]/, "", $4); print $4; found = $4 <= 480000 } END { exit !found }' "$T/bytes"
}
check vendorings_table_has_the_lines_of_pairs lines_hold
rm -rf "$T/pairs"
if [ -z "$TEST_ALL" ]; then :
elif [ -z "$cuda" ] || ! gcc -v 2>&1 | grep -q 'gcc version 12' || [ "$(uname -m)" != x86_64 ]; then
    skip vendorings_table_has_the_bytes_of_pairs "not gcc 12 on x86-64 with nv-codec-headers, as in the table"
else
    check vendorings_table_has_the_bytes_of_pairs bytes_hold
    check archives_alone_compile_to_at_most_480_kB archives_are_small
fi
finish
