#!/bin/sh
# The examples: training loops in C++ and in C; what needs more than the library: shards over MPI, an archive behind
# HTTP (nginx on the loopback). Usage: sh tests/tool/test_examples.sh BZNA BUILD, from the repository root.
BZNA=${1:-build/bzna}; BUILD=${2:-build}
passed=0; failed=0; skipped=0; server=
end() { echo "tests/tool/test_examples.sh: $passed passed, $failed failed, $skipped skipped"; [ "$failed" -eq 0 ]; exit; }
skip() { skipped=$((skipped + 1)); echo "SKIP $1: $2"; }
if [ -n "$SANITIZE" ]; then skip examples "foreign libraries are not what a sanitizer watches"; end; fi
if [ ! -x "$BZNA" ] || [ ! -x "$BUILD/draw_pictures" ]; then skip examples "no $BZNA or no $BUILD/draw_pictures to make an archive with"; end; fi

rm -rf "$BUILD/tests/examples"; mkdir -p "$BUILD/tests/examples"
T=$(cd "$BUILD/tests/examples" && pwd)
WARN="-Wall -Wextra -Wpedantic -Wconversion -Wshadow $WERROR"
# Linkers take longest for the libraries that libavcodec needs.
# The pictures are PNM: contexts have the codecs of examples/formats.
LIBS="-I. -D_GNU_SOURCE -include tests/unit/with_formats.h -Wl,--allow-shlib-undefined $BUILD/libbenzina_formats.a $BUILD/libbenzina.a \
    $(make --no-print-directory -s print-FORMATS_LIBS) $(pkg-config --libs libavcodec libavutil) \
    $(pkg-config --libs libjpeg 2>/dev/null) -lm -lpthread -ldl"
archive="$T/drawn.bzna"

have() { command -v "$1" >/dev/null 2>&1; }
# So many seconds of processors, whatever else the machine does; what waits for ten minutes has hung.
within() { seconds=$1; shift; (ulimit -t "$seconds" 2>/dev/null; exec timeout 600 "$@"); }
check() { # name, command...: its output goes to $T/log, of which a failure shows the end
    name=$1; shift
    if "$@" >"$T/log" 2>&1; then passed=$((passed + 1)); return 0; fi
    failed=$((failed + 1)); echo "FAIL $name"; tail -n 12 "$T/log"; return 1
}
# file, command...: output to the file
to() { out=$1; shift; "$@" >"$out" 2>&1 || { cat "$out"; return 1; }; }
refuses() { # text, command...: fails by itself, and says so
    text=$1; shift
    "$@" >"$T/refusal" 2>&1; code=$?
    cat "$T/refusal"
    [ "$code" -gt 0 ] && [ "$code" -lt 124 ] && grep -q "$text" "$T/refusal"
}
stop_server() { [ -z "$server" ] || { kill "$server" 2>/dev/null; wait "$server" 2>/dev/null; server=; }; }
trap stop_server EXIT
trap 'exit 1' HUP INT TERM

# 65: no multiple of any number of ranks below. Small, because all of them are decoded many times.
check pictures_are_drawn "$BUILD/draw_pictures" "$T/pictures" 65 || end
check archive_is_packed "$BZNA" pack "$T/pictures" -o "$archive" --codec h264 --preset ultrafast --max-edge 224 \
    --frame exact || end

# --- train.cpp ---
loss_falls() { awk '/^epoch/ { l = $4; if (!n++) first = l } END { exit !(n == 15 && l < 0.8 * first) }' "$T/train.1"; }
# four classes: chance is 25
accuracy_beats_chance() { awk '/^epoch/ { a = $6; h = $10 } END { exit !(a > 50 && h > 35) }' "$T/train.1"; }
training_repeats() { for i in 1 2; do awk '/^epoch/ { print $1, $2, $3, $4, $5, $6, $8, $10 }' "$T/train.$i" >"$T/losses.$i"; done; diff "$T/losses.1" "$T/losses.2"; }
test_train() {
    check train_builds ${CXX:-c++} -std=c++17 -O2 $WARN examples/train.cpp -o "$T/train" $LIBS || return
    for i in 1 2; do check train_runs to "$T/train.$i" within 60 "$T/train" "$archive" 15 || return; done
    check loss_falls_in_training loss_falls
    check accuracy_beats_chance_in_training accuracy_beats_chance
    check training_repeats_itself training_repeats
    check training_says_who_decodes grep -qE '^decoder: (libavcodec|NVDEC of ).* \(.+\)$' "$T/train.1"
    check training_says_on_which_device grep -qE '^device: (CUDA [0-9]+, .*|none \(.+\))$' "$T/train.1"
    check training_reads_host_memory grep -qx 'batches: in host memory' "$T/train.1"
    check training_says_how_long_it_waited grep \
        -qE '^waited for [0-9.]+ % of the [0-9.]+ s of learning; [0-9]+ pictures decoded by NVDEC, [0-9]+ in software$' "$T/train.1"
    check training_says_what_limits grep -q 'limits\.$' "$T/train.1"
    check train_refuses_an_absent_archive refuses 'absent.bzna: cannot open' "$T/train" "$T/absent.bzna"
}
if have "${CXX:-c++}"; then test_train; else skip train "no C++ compiler [g++]"; fi

# --- train.c ---
# A smaller run, which saves its state after every third batch; as train_torn, it dies while it writes a state.
build_train_c() {
    sed -e 's/^enum { EPOCHS .*/enum { EPOCHS = 2, BATCH_SIZE = 16, SIDE_PX = 8, SAVE_EVERY = TRAIN_SAVES };/' \
        examples/train.c >"$T/train.c" && grep -q TRAIN_SAVES "$T/train.c" &&
    cat >"$T/train_torn.c" <<'EOF' &&
#include <stdio.h>
#include <unistd.h>
static size_t torn_fwrite(const void *data, size_t size, size_t count, FILE *file)
{
    static int writes;
    if (++writes < TORN_AT) return fwrite(data, size, count, file);
    fwrite(data, 1, size * count / 2, file);
    fflush(file);
    _exit(9);
}
#define fwrite torn_fwrite
#include "train.c"
EOF
    ${CC:-cc} -std=c11 -O2 $WARN examples/train.c -o "$T/train_c" $LIBS &&
    ${CC:-cc} -std=c11 -O2 -Iexamples -DTRAIN_SAVES=3 "$T/train.c" -o "$T/train_small" $LIBS &&
    ${CC:-cc} -std=c11 -O2 -Iexamples -D_POSIX_C_SOURCE=200809L -DTRAIN_SAVES=3 -DTORN_AT=3 "$T/train_torn.c" \
        -o "$T/train_torn" $LIBS
}
runs_whole() {
    to "$T/steps.whole" within 60 "$T/train_small" "$archive" "$T/train.state" &&
        [ "$(grep -c '^epoch' "$T/steps.whole")" -eq 10 ] && [ "$(wc -c <"$T/train.state")" -eq 128 ]
}
ends_only_once() { # the state at the end leaves nothing to do
    to "$T/steps.none" within 60 "$T/train_small" "$archive" "$T/train.state" && [ ! -s "$T/steps.none" ]
}
saves_as_a_whole() { # it dies while it writes its third state: the second one stays
    { "$T/train_torn" "$archive" "$T/train.before" >"$T/steps.torn"; [ $? -eq 9 ]; } &&
        [ "$(wc -c <"$T/train.before")" -eq 128 ] && [ "$(wc -c <"$T/train.before.partial")" -eq 64 ]
}
goes_on() { # after the sixth batch of ten
    cp "$T/train.before" "$T/train.half" && to "$T/steps.rest" within 60 "$T/train_small" "$archive" "$T/train.half" &&
        tail -n 4 "$T/steps.whole" | diff - "$T/steps.rest" && cmp "$T/train.half" "$T/train.state"
}
refuses_half() {
    head -c 127 "$T/train.before" >"$T/train.short" &&
        refuses 'train.short: ' "$T/train_small" "$archive" "$T/train.short" && ! grep -q '^epoch' "$T/refusal"
}
names_the_damaged() { # the coded picture of sample 0 lies at bytes 68 to 14961; each of the two epochs meets it once
    cp tests/data/mini_h265.bzna "$T/damaged.bzna" &&
        head -c 14000 /dev/zero | tr '\000' '\377' | dd of="$T/damaged.bzna" bs=1 seek=72 conv=notrunc 2>/dev/null &&
        to "$T/steps.damaged" "$T/train_small" "$T/damaged.bzna" "$T/damaged.state" &&
        [ "$(grep -c 'damaged.bzna: sample 0: ' "$T/steps.damaged")" -eq 2 ] &&
        [ "$(grep -c ': 8 samples' "$T/steps.damaged")" -eq 2 ] &&
        [ "$(grep -c '^1 of 8 samples failed' "$T/steps.damaged")" -eq 2 ]
}
test_train_c() {
    check train_c_builds build_train_c || return
    check train_c_runs_to_its_end runs_whole || return
    check train_c_saves_at_the_end ends_only_once
    check train_c_replaces_its_state_as_a_whole saves_as_a_whole
    check train_c_goes_on_from_its_state goes_on
    check train_c_refuses_a_state_that_falls_short refuses_half
    check train_c_names_a_damaged_picture names_the_damaged
    check train_c_refuses_an_absent_archive refuses 'absent.bzna: cannot open' "$T/train_c" "$T/absent.bzna" "$T/none"
}
if have "${CC:-cc}"; then test_train_c; else skip train_c "no C compiler [gcc]"; fi

# --- fields.c ---
# A folder of two classes, and a tar of three samples with labels and texts: pictures drawn as PPM files.
make_data() {
    mkdir -p "$T/classes/cat" "$T/classes/dog" "$T/shard"
    for i in 0 1 2; do
        { printf 'P6 8 8 255\n'; head -c 192 /dev/zero; } >"$T/shard/$i.ppm"
        cp "$T/shard/$i.ppm" "$T/classes/cat/$i.ppm"; cp "$T/shard/$i.ppm" "$T/classes/dog/$i.ppm"
        echo "$((i + 5))" >"$T/shard/$i.cls"; printf 'text %s' "$i" >"$T/shard/$i.txt"
    done
    (cd "$T/shard" && tar --sort=name -cf ../shard.tar -- *)
}
tar_has_fields() {
    "$T/fields" cls txt "$T/shard.tar" | sort >"$T/fields.out" &&
        printf '%s: target %s, cls %s, txt "text %s"\n' 0 5 5 0 1 6 6 1 2 7 7 2 | diff - "$T/fields.out"
}
both_are_one() {
    "$T/fields" - name "$T/classes" "$T/shard.tar" | sort >"$T/fields.out" &&
        [ "$(wc -l <"$T/fields.out")" -eq 9 ] && grep -q '^4: target 1, name "dog/1.ppm"' "$T/fields.out" &&
        grep -q '^8: target 7, name "2"' "$T/fields.out"
}
test_fields_c() {
    check fields_c_builds ${CC:-cc} -std=c11 -O2 $WARN examples/fields.c $LIBS -o "$T/fields" || return
    check fields_c_has_its_data make_data
    check fields_c_prints_labels_and_texts tar_has_fields
    check fields_c_shuffles_a_folder_and_a_tar_as_one both_are_one
    check fields_c_names_an_unknown_field refuses 'the data set has no field "nix"' "$T/fields" nix - "$T/shard.tar"
}
if ! have "${CC:-cc}"; then skip fields_c "no C compiler [gcc]"; elif ! have tar; then skip fields_c "no tar [tar]"; else test_fields_c; fi

# --- write.c ---
# JPEG files of two classes, and frames of two codecs.
make_jpegs() {
    mkdir -p "$T/jpegs/cats" "$T/jpegs/red pandas" &&
        cp tests/data/pictures/jpeg_411.jpg "$T/jpegs/cats/0.jpg" &&
        cp tests/data/pictures/jpeg_440.jpg "$T/jpegs/cats/1.jpg" &&
        cp tests/data/pictures/jpeg_exif_6.jpg "$T/jpegs/red pandas/0.jpg" &&
        cp tests/data/pictures/jpeg_gray_progressive.jpg "$T/jpegs/red pandas/1.jpg"
}
write_c_and_cxx() { # one thread in C++ gives the bytes of four in C
    "$T/write" "$T/written.bzna" 4 "$T/jpegs" "$archive" tests/data/mini_h265.bzna >"$T/write.out" &&
        grep -qx '77 samples, 0 left out, 2 classes' "$T/write.out" &&
        { [ ! -e "$T/writepp" ] || "$T/writepp" "$T/written.cxx.bzna" 1 "$T/jpegs" "$archive" tests/data/mini_h265.bzna && cmp "$T/written.bzna" "$T/written.cxx.bzna"; }
}
reads_back_what_was_written() {
    "$BZNA" verify --decode "$T/written.bzna" && "$BZNA" list --json "$T/written.bzna" >"$T/written.json" &&
        grep -q '"index":3,"target":1,"class":"red pandas","filename":"red pandas/1.jpg".*"fields":{"box":\[0,0,[0-9]*,[0-9]*\],"caption":"picture 3","mask":{"size":3},"source":3}' "$T/written.json" &&
        [ "$(grep -c '"index":' "$T/written.json")" -eq 77 ] &&
        "$BZNA" info "$T/written.bzna" |
        awk '$1 ~ /^bzna_input_(train|validation)$/ { n = n $4 " " } END { exit n != "70 7 " }' &&
        seq 4 68 >"$T/packed" && "$BZNA" subset "$T/written.bzna" --indices "$T/packed" -o "$T/packed.bzna" \
        --overwrite || return
    "$BZNA" diff "$T/packed.bzna" "$archive" | sed -n 's/^sample [0-9]*: //p' | sort | uniq -c >"$T/diff.out"; cat "$T/diff.out"
    [ "$(sed 's/^ *//' "$T/diff.out")" = "65 split, field box, field caption, field mask, field source, field split" ]
}
leaves_out_by_name() { # pictures that are no JPEG: the others are written
    "$T/write" "$T/most.bzna" 2 "$T/jpegs" "$T/pictures" >"$T/most.out" 2>&1; [ $? -eq 1 ] && cat "$T/most.out" &&
        grep -qx '4 samples, 65 left out, 2 classes' "$T/most.out" &&
        grep -q '^sample 9 is left out: sample.image.codec: [0-9]* cannot be written, only H.264' "$T/most.out" &&
        "$BZNA" verify "$T/most.bzna"
}
# Killed at 12 moments, at 30 with make test-all. What is there is how the whole archive begins, but for the length that is written last, and
# `bzna index` makes an archive of the samples in it.
survives_kills() {
    set -- "$archive"; while [ $# -lt 16 ]; do set -- "$@" "$@"; done
    "$T/write" "$T/whole.bzna" 4 "$@" >/dev/null && tail -c +41 "$T/whole.bzna" >"$T/whole.rest" || return
    "$BZNA" list "$T/whole.bzna" >"$T/whole.list"
    cut=0 whole=0 i=0 kills=30
    [ -n "$TEST_ALL" ] || kills=12
    while [ $i -lt $kills ]; do
        i=$((i + 1)); rm -f "$T/killed.bzna"
        "$T/write" "$T/killed.bzna" 4 "$@" >/dev/null 2>&1 & pid=$!
        while [ ! -e "$T/killed.bzna" ] && kill -0 $pid 2>/dev/null; do :; done
        sleep "0.00$((i % 10))"
        kill -KILL $pid 2>/dev/null; wait $pid 2>/dev/null
        if [ ! -s "$T/killed.bzna" ]; then continue; fi
        if cmp -s "$T/killed.bzna" "$T/whole.bzna"; then whole=$((whole + 1)); continue; fi
        tail -c +41 "$T/killed.bzna" | cmp -n "$(($(wc -c <"$T/killed.bzna") - 40))" - "$T/whole.rest" || return
        # so that there are samples
        if [ $((cut % 4)) -eq 0 ] && [ "$(wc -c <"$T/killed.bzna")" -gt 100000 ]; then
            refuses 'was not finished' "$BZNA" info "$T/killed.bzna" &&
                "$BZNA" index "$T/killed.bzna" -o "$T/found.bzna" --overwrite >"$T/found.out" || return
            "$BZNA" list "$T/found.bzna" >"$T/found.list" && head -n "$(wc -l <"$T/found.list")" "$T/whole.list" |
                cmp - "$T/found.list" || return
        fi
        cut=$((cut + 1))
    done
    echo "$cut were cut, $whole were whole"
    [ "$cut" -ge 3 ]
}
# A disk that is full before the archive ends: the message has the file, the place and the reason, and the samples that
# were written are not lost. A block of ulimit has 512 bytes in some shells, and 1,024 in others: 45 or 90 % fit.
keeps_what_fitted() {
    (trap '' XFSZ; ulimit -f $(($(wc -c <"$archive") / 1024 * 9 / 10)); "$T/write" "$T/full.bzna" 4 "$archive") >"$T/full.out" 2>&1; [ $? -eq 1 ] && cat "$T/full.out" &&
        grep -q '/full.bzna at byte [0-9]*: writing [0-9]* bytes failed: File too large$' "$T/full.out" &&
        "$BZNA" index "$T/full.bzna" -o "$T/found.bzna" --overwrite && "$BZNA" verify "$T/found.bzna"
}
test_write_c() {
    check write_c_builds ${CC:-cc} -std=c11 -O2 $WARN examples/write.c $LIBS -o "$T/write" || return
    ! have "${CXX:-c++}" || check write_c_builds_as_cxx ${CXX:-c++} -x c++ -std=c++17 -O2 $WARN examples/write.c \
        -o "$T/writepp" -x none $LIBS
    check write_c_has_its_data make_jpegs
    check write_c_gives_the_same_with_any_threads write_c_and_cxx
    check write_c_is_read_back reads_back_what_was_written
    check write_c_leaves_out_by_name leaves_out_by_name
    check write_c_survives_kills survives_kills
    check write_c_keeps_what_fitted_on_the_disk keeps_what_fitted
    check write_c_names_a_file_that_cannot_be_made refuses 'none/out.bzna: cannot create: ' "$T/write" \
        "$T/none/out.bzna" 2 "$T/jpegs"
    [ ! -w /dev/full ] || check write_c_names_a_full_disk refuses '/dev/full at byte 0: writing 40 bytes failed: ' \
        "$T/write" /dev/full 2 "$T/jpegs"
}
if have "${CC:-cc}"; then test_write_c; else skip write_c "no C compiler [gcc]"; fi

# --- views.c ---
has_views() {
    "$T/views" "$archive" >"$T/views.out" && printf '%s\n' 'image: [2, 4, 3, 224, 224], 4816896 bytes' \
        'local: [8, 4, 3, 96, 96], 3538944 bytes' | diff - "$T/views.out"
}
has_masks() { # a picture, and a mask of classes 3 and 90 beside it
    mkdir -p "$T/masks" && for i in 0 1 2 3 4; do
        cp "$T/pictures/$(ls "$T/pictures" | head -n 1)/$(ls "$T/pictures/$(ls "$T/pictures" | head -n 1)" | head -n 1)" "$T/masks/$i.ppm" &&
            { printf 'P5\n4 2\n255\n'; printf '\003\003\132\132\132\003\003\132'; } >"$T/masks/$i.seg.pgm" || return 1
    done
    tar -C "$T/masks" -cf "$T/masks.tar" 0.ppm 0.seg.pgm 1.ppm 1.seg.pgm 2.ppm 2.seg.pgm 3.ppm 3.seg.pgm 4.ppm \
        4.seg.pgm &&
        "$T/views" "$T/masks.tar" seg.pgm >"$T/views.out" && cat "$T/views.out" &&
        [ "$(sed 's/: [0-9]* pixels//' "$T/views.out" | tail -n +2 | tr '\n' ' ')" = \
        'mask: [4, 1, 224, 224], 200704 bytes class 3 class 90 ' ]
}
has_archived_masks() { # a mask with a palette, of an archive: its numbers, and no brightness of its colors
    mkdir -p "$T/pairs/images" "$T/pairs/masks" && for i in 0 1 2 3 4; do
        cp "$T/masks/$i.ppm" "$T/pairs/images" && cp tests/data/pictures/png_palette_2.png "$T/pairs/masks/$i.png" || return 1
    done
    "$BZNA" pack "$T/pairs" --pairs images,masks -o "$T/pairs.bzna" --codec jpeg &&
        "$T/views" "$T/pairs.bzna" masks >"$T/views.out" && cat "$T/views.out" &&
        [ "$(sed 's/: [0-9]* pixels//' "$T/views.out" | tail -n +2 | tr '\n' ' ')" = \
        'mask: [4, 1, 224, 224], 200704 bytes class 0 class 1 class 2 class 3 ' ]
}
test_views_c() {
    check views_c_builds ${CC:-cc} -std=c11 -O2 $WARN examples/views.c $LIBS -o "$T/views" || return
    check views_c_makes_crops_of_two_sizes has_views
    check views_c_keeps_class_numbers has_masks
    check views_c_keeps_class_numbers_of_an_archive has_archived_masks
    check views_c_names_an_absent_mask refuses 'loader_config.extra_outputs\[0\].field' "$T/views" "$T/masks.tar" \
        seg.png
}
if ! have "${CC:-cc}"; then skip views_c "no C compiler [gcc]"; elif ! have tar; then skip views_c "no tar [tar]"; else test_views_c; fi

# --- hard_examples.c ---
# Every third epoch has all samples, whose loss falls from one to the next. The others have the harder half twice.
mines_hard_examples() {
    count=$("$BZNA" info "$archive" --json | tr ',{' '\n\n' | sed -n 's/^ *"samples": *\([0-9]*\).*/\1/p' | head -n 1)
    "$T/hard" "$archive" >"$T/hard.out" && cat "$T/hard.out" && "$T/hard" "$archive" 10 | cmp - "$T/hard.out" &&
        awk -v count="$count" '{ all = (NR - 1) % 3 == 0; bad = bad || $3 != (all ? count : 2 * int((count + 1) / 2)) }
            all { bad = bad || (NR > 1 && $NF >= before); before = $NF }
            END { exit NR != 10 || bad }' "$T/hard.out"
}
test_hard_examples() {
    check hard_examples_c_builds ${CC:-cc} -std=c11 -O2 $WARN examples/hard_examples.c $LIBS -o "$T/hard" || return
    check hard_examples_c_gives_the_next_epoch_what_was_hard mines_hard_examples
    check hard_examples_c_names_an_absent_archive refuses 'absent.bzna: cannot open' "$T/hard" "$T/absent.bzna"
}
if have "${CC:-cc}"; then test_hard_examples; else skip hard_examples_c "no C compiler [gcc]"; fi

# --- boxes.c ---
# Eight black pictures with a white box each, wherever crop and flip bring it: the red frame is around it, within two
# pixels.
make_boxes() {
    mkdir -p "$T/boxes" && for i in 0 1 2 3 4 5 6 7; do
        { printf 'P6\n100 80\n255\n'; awk -v n="$i" 'BEGIN { for (y = 0; y < 80; y++) for (x = 0; x < 100; x++) {
            c = x >= 30 + n && x < 60 + n && y >= 25 && y < 45 + n ? "\377" : "\001"; printf "%s%s%s", c, c, c } }' |
            LC_ALL=C tr '\001' '\000'; } >"$T/boxes/$i.ppm" &&
            awk -v n="$i" 'BEGIN { printf "1%d %.4f %.4f 0.3 %.4f\n1 -0.5 0.5 0.03 0.125", n, (45 + n) / 100, (35 + n / 2) / 80, (20 + n) / 80 }' \
                >"$T/boxes/$i.txt" || return 1
    done
    (cd "$T/boxes" && tar -cf ../boxes.tar $(for i in 0 1 2 3 4 5 6 7; do echo $i.txt $i.ppm; done))
}
boxes_are_framed() {
    "$T/boxes_c" "$T/boxes.tar" "$T/boxes.ppm" >"$T/boxes.out" && [ "$(wc -l <"$T/boxes.out")" -eq 8 ] || return 1
    od -An -v -tu1 -w3 -j16 "$T/boxes.ppm" | awk '
        function grow(k, x, y) { if (!(k in l) || x < l[k]) l[k] = x; if (!(k in r) || x > r[k]) r[k] = x
                                 if (!(k in t) || y < t[k]) t[k] = y; if (!(k in b) || y > b[k]) b[k] = y }
        { i = NR - 1; x = i % 224; y = int(i / 224) % 224; s = int(i / 50176) }
        $1 > 200 && $2 > 200 { grow("white" s, x, y) }
        $1 == 255 && $2 == 0 { grow("red" s, x, y) }
        function off(a, b) { return a - b > 3 || b - a > 3 }
        END { for (s = 0; s < 8; s++) { w = "white" s; k = "red" s
                  if (!(w in l) || !(k in l) || off(l[w], l[k]) || off(r[w], r[k]) || off(t[w], t[k]) || off(b[w], b[k])) {
                      print s, l[w], t[w], r[w], b[w], "in", l[k], t[k], r[k], b[k]; bad = 1 } }
              exit bad || NR != 8 * 50176 }'
}
torn_text_costs_its_slot() {
    printf '13 0.5 0.25 0.' >"$T/boxes/3.txt" &&
        (cd "$T/boxes" && tar -cf ../torn.tar 3.txt 3.ppm 4.txt 4.ppm) &&
        "$T/boxes_c" "$T/torn.tar" >"$T/torn.out" 2>"$T/torn.err" &&
        grep -q 'sample 0: the rule "boxes" returned -1 for its txt' "$T/torn.err" &&
        grep -q '^1: category 14 ' "$T/torn.out"
}
test_boxes_c() {
    check boxes_c_builds ${CC:-cc} -std=c11 -O2 $WARN examples/boxes.c examples/formats/rules.c examples/formats/data.c $LIBS -o "$T/boxes_c" || return
    check boxes_c_has_its_data make_boxes || return
    check boxes_c_maps_boxes_to_where_they_are boxes_are_framed
    check boxes_c_loses_no_more_than_the_sample_of_a_torn_text torn_text_costs_its_slot
}
if ! have "${CC:-cc}"; then skip boxes_c "no C compiler [gcc]"; elif ! have tar; then skip boxes_c "no tar [tar]"; else test_boxes_c; fi

# --- augment.c ---
augments() { # a line for each view, and a sheet of two views a picture
    mkdir -p "$T/augmented/one" && for n in 1 2 3; do
        { printf 'P6\n40 30\n255\n'; head -c 3600 /dev/zero | tr '\0' "$n"; } >"$T/augmented/one/$n.ppm"; done
    "$T/augment_c" "$T/augmented" "$T/augment.ppm" >"$T/augment.out" && [ "$(wc -l <"$T/augment.out")" -eq 6 ] &&
        [ "$(wc -c <"$T/augment.ppm")" -eq $((16 + 448 * 224 * 3 * 3 - 1)) ] &&
        grep -q '^#[0-2] view [01]: ' "$T/augment.out" &&
        "$T/augment_c" "$T/augmented" "$T/again.ppm" | cmp - "$T/augment.out" && cmp "$T/augment.ppm" "$T/again.ppm"
}
test_augment_c() {
    check augment_c_builds ${CC:-cc} -std=c11 -O2 $WARN -Iexamples/formats examples/augment.c examples/formats/policies.c \
        examples/formats/data.c $LIBS -o "$T/augment_c" || return
    check augment_c_prints_what_was_drawn_and_draws_the_same_again augments
}
if have "${CC:-cc}"; then test_augment_c; else skip augment_c "no C compiler [gcc]"; fi

# --- generator.c ---
generates() { # the same pictures, whatever the number of threads
    "$T/generator" "$T/sheet1.ppm" 1000 1 >"$T/generator.1" &&
        "$T/generator" "$T/sheet4.ppm" 1000 4 >"$T/generator.4" &&
        cmp "$T/sheet1.ppm" "$T/sheet4.ppm" && diff "$T/generator.1" "$T/generator.4" &&
        [ "$(wc -c <"$T/sheet1.ppm")" -eq 196623 ] &&
        awk -F'[ ,]+' '/^[0-9]+ discs, [0-9]+ squares, [0-9]+ rings, 0 failed$/ { ok = $1 + $3 + $5 == 1000 && $1 > 250 && $3 > 250 && $5 > 250 } END { exit !ok }' "$T/generator.1"
}
test_generator_c() {
    check generator_c_builds ${CC:-cc} -std=c11 -O2 $WARN examples/generator.c $LIBS -o "$T/generator" || return
    check generator_c_draws_the_same_on_any_number_of_threads generates
    check generator_c_names_a_count_of_zero refuses 'provider: provider.count: is 0' "$T/generator" "$T/none.ppm" 0
}
if have "${CC:-cc}"; then test_generator_c; else skip generator_c "no C compiler [gcc]"; fi

# --- lmdb.c ---
packs_lmdb() { # four pictures, and the same over and over
    rm -f "$T/one.mdb" "$T/large.mdb"
    "$T/lmdb" pack "$T/one.mdb" "$T/tiny" | grep -x '4 records' && "$T/lmdb" pack "$T/large.mdb" "$T/tiny" 100000 |
        grep -x '100000 records'
}
loads_lmdb() { (ulimit -n 16 && "$T/lmdb" load "$T/large.mdb" 2) >"$T/lmdb.out" && grep '^100000 pictures, 0 of them failed, checksum' "$T/lmdb.out"; }
lmdb_has_one_descriptor() { # of all files that a process opens
    have strace || return 1
    strace -f -e trace=openat,open -o "$T/lmdb.trace" "$T/lmdb" load "$T/one.mdb" 1 &&
        [ "$(grep -c 'one\.mdb' "$T/lmdb.trace")" -eq 1 ]
}
test_lmdb_c() {
    check lmdb_c_builds ${CC:-cc} -std=c11 -O2 $WARN examples/lmdb.c -o "$T/lmdb" -llmdb $LIBS || return
    mkdir -p "$T/tiny/a" "$T/tiny/b"
    for n in 1 2; do for c in a b; do { printf 'P5\n8 8\n255\n'; head -c 64 /dev/zero | tr '\000' "$n"; } >"$T/tiny/$c/$n.pgm"; done; done
    check lmdb_c_packs_100000_records packs_lmdb || return
    check lmdb_c_loads_them_with_few_descriptors loads_lmdb
    if have strace; then check lmdb_c_opens_one_file lmdb_has_one_descriptor; else skip lmdb_c_opens_one_file "no strace [strace]"; fi
    check lmdb_c_refuses_another_file refuses 'MDB_INVALID' "$T/lmdb" load "$T/tiny/a/1.pgm"
}
if ! have "${CC:-cc}"; then skip lmdb_c "no C compiler [gcc]"
elif ! echo '#include <lmdb.h>' | ${CC:-cc} -E - >/dev/null 2>&1; then skip lmdb_c "no lmdb.h [liblmdb-dev]"
else test_lmdb_c; fi

# --- sqlite.c ---
make_rows() { # 40 pictures of two classes
    mkdir -p "$T/rows/a" "$T/rows/b" && for n in $(seq 10 29); do for c in a b; do
        { printf 'P5\n8 8\n255\n'; awk -v n="$n$c" 'BEGIN { for (i = 0; i < 64; i++) printf "%c", 32 + (n * 7 + i * (n ~ /a/ ? 1 : 3)) % 90 }'; } >"$T/rows/$c/$n.pgm"
    done; done
}
table_is_the_folder() { # pixels, targets and order, on any number of threads
    rm -f "$T/rows.db" && "$T/sqlite" pack "$T/rows.db" "$T/rows" | grep -qx '40 rows' &&
        "$T/sqlite" load "$T/rows" 2 >"$T/rows.folder" && grep -q '^40 pictures, 0 of them failed, sum [1-9]' "$T/rows.folder" &&
        for threads in 1 2 5; do "$T/sqlite" load "$T/rows.db" "$threads" | cmp - "$T/rows.folder" || return 1; done
}
rows_change() { # SQL, which changes a copy of the table
    cp "$T/rows.db" "$T/changed.db" && "${PYTHON:-python3}" - "$T/changed.db" "$1" <<'EOS'
import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as db:
    db.executescript(sys.argv[2])
EOS
}
a_table_that_is_not_there() { rows_change 'DROP TABLE samples' && refuses 'no such table: samples' "$T/sqlite" load "$T/changed.db"; }
rows_that_lack_something() { # gone rows are no samples; without a target it has none; without an image it fails
    rows_change 'DELETE FROM samples WHERE rowid IN (3, 17)' && "$T/sqlite" load "$T/changed.db" 3 | grep -q '^38 pictures, 0 of' &&
        rows_change 'UPDATE samples SET target = NULL, name = NULL WHERE rowid = 5' &&
        "$T/sqlite" load "$T/changed.db" 3 >"$T/lacks.out" && grep -q '^40 pictures, 0 of' "$T/lacks.out" &&
        ! cmp -s "$T/lacks.out" "$T/rows.folder" &&
        rows_change 'UPDATE samples SET image = NULL WHERE rowid = 5' && "$T/sqlite" load "$T/changed.db" 3 | grep -q '^40 pictures, 1 of' &&
        rows_change "UPDATE samples SET image = 'no picture' WHERE rowid > 20" && "$T/sqlite" load "$T/changed.db" 3 | grep -q '^40 pictures, 20 of'
}
test_sqlite_c() {
    check sqlite_c_builds ${CC:-cc} -std=c11 -O2 $WARN examples/sqlite.c -o "$T/sqlite" -lsqlite3 $LIBS || return
    check sqlite_c_has_its_data make_rows || return
    check sqlite_c_gives_what_the_folder_gives table_is_the_folder || return
    if "${PYTHON:-python3}" -c 'import sqlite3' 2>/dev/null; then
        check sqlite_c_loses_no_more_than_what_rows_lack rows_that_lack_something
        check sqlite_c_says_that_there_is_no_table a_table_that_is_not_there
    else skip sqlite_c_loses_no_more_than_what_rows_lack "no sqlite3 in Python [python3]"; fi
}
if ! have "${CC:-cc}"; then skip sqlite_c "no C compiler [gcc]"
elif ! echo '#include <sqlite3.h>' | ${CC:-cc} -E - >/dev/null 2>&1; then skip sqlite_c "no sqlite3.h [libsqlite3-dev]"
else test_sqlite_c; fi

# --- mpi.c ---
ranks() { # number, arguments...
    n=$1; shift
    within 120 mpirun $mpi_flags -n "$n" "$T/mpi" "$@" </dev/null
}
samples() { cat "$@" | grep '^sample' | sort; }
same_samples() { samples "$T/mpi.1" >"$T/expected"; samples "$@" | diff "$T/expected" -; }
test_mpi() {
    mpi_flags=
    if mpirun --version 2>&1 | grep -q 'Open MPI'; then
        mpi_flags="--oversubscribe --bind-to none --mca btl self,vader"
        [ "$(id -u)" != 0 ] || mpi_flags="--allow-run-as-root $mpi_flags"
    fi
    export OMPI_MCA_btl_vader_single_copy_mechanism=none                                    # containers forbid it
    # With no interface but lo, version 4 wants it named; version 5 starts nothing then where there are others.
    if ! within 60 mpirun $mpi_flags -n 1 true </dev/null >"$T/log" 2>&1; then
        mpi_flags="$mpi_flags --mca oob_tcp_if_include lo"
        within 60 mpirun $mpi_flags -n 1 true </dev/null >"$T/log" 2>&1 || { skip mpi "mpirun starts no program here"; return; }
    fi
    check mpi_builds mpicc -std=c11 -O2 $WARN examples/mpi.c -o "$T/mpi" $LIBS || return
    check one_rank_sees_all to "$T/mpi.1" ranks 1 "$archive" || return
    check one_rank_saw_each_sample_once grep -q '^1 ranks, positions 0 to 65 of 65: 65 samples, each once' "$T/mpi.1"
    check four_ranks_see_all to "$T/mpi.4" ranks 4 "$archive"
    check four_ranks_saw_the_same_samples_and_pixels same_samples "$T/mpi.4"
    check four_ranks_stop_in_the_middle to "$T/mpi.half" ranks 4 "$archive" --save "$T/state"
    check the_middle_is_a_middle grep -q 'positions 0 to 32 of 65: 32 samples, each once' "$T/mpi.half"
    numbers="2 3"
    [ -n "$TEST_ALL" ] || { numbers=3; echo "LEFT test_examples.sh: going on with 2 ranks after 4"; }
    for n in $numbers; do
        check "${n}_ranks_go_on" to "$T/mpi.rest$n" ranks $n "$archive" --resume "$T/state"
        check "${n}_ranks_deliver_the_rest_once" grep -q "^$n ranks, positions 32 to 65 of 65: 33 samples, each once" \
            "$T/mpi.rest$n"
        check "4_and_then_${n}_ranks_see_what_one_sees" same_samples "$T/mpi.half" "$T/mpi.rest$n"
    done
    check state_of_another_data_set_is_refused refuses state ranks 2 tests/data/mini_h265.bzna --resume "$T/state"
}
if ! have mpicc || ! have mpirun; then skip mpi "no mpicc or no mpirun [openmpi-bin libopenmpi-dev]"; else test_mpi; fi

# --- http_source.c ---
# port. Faults come at fixed requests of each connection: so they surely come, and a retry is surely served in the end.
write_config() {
    mkdir -p "$T/nginx"
    cat >"$T/nginx/nginx.conf" <<EOF
daemon off; master_process off; pid nginx.pid; error_log error.log;
events { worker_connections 256; }
http {
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    log_format short '\$connection \$status';
    access_log off; keepalive_requests 100000;
    map \$connection_requests \$third { default 0; ~[369]\$ 1; }
    server {
        listen 127.0.0.1:$1;
        location /plain/ { alias "$T/"; access_log plain.log short; }
        location /whole/ { alias "$T/"; max_ranges 0; }
        location /is_busy/ { alias "$T/"; access_log is_busy.log short; if (\$third) { return 503; } }
        location /hangs_up/ { alias "$T/"; access_log hangs_up.log short; if (\$third) { return 444; } }
        location /cuts/ { alias "$T/"; if (\$third) { rewrite ^/cuts/(.*) /cut/\$1 last; } }
        location /cut/ { access_log cuts.log short; proxy_buffering off; proxy_read_timeout 50ms; proxy_pass http://127.0.0.1:$1/slow/; }
        location /slow/ { alias "$T/"; limit_rate_after 2k; limit_rate 1k; }
    }
}
EOF
}
start_server() { # the pid file is written once the port listens
    for _ in 1 2 3 4 5; do
        port=$(($(od -An -N2 -tu2 /dev/urandom) % 30000 + 30000))
        write_config "$port"; rm -f "$T/nginx/nginx.pid"
        nginx -p "$T/nginx" -c "$T/nginx/nginx.conf" >"$T/nginx/out" 2>&1 & server=$!
        for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
            if [ -s "$T/nginx/nginx.pid" ]; then url="http://127.0.0.1:$port"; return 0; fi
            kill -0 "$server" 2>/dev/null || break
            sleep 0.1
        done
        stop_server
    done
    cat "$T/nginx/out"; return 1
}
fetch() { within 120 "$T/http_source" "$@"; }
same_hash() { grep '^hash' "$T/http.local" >"$T/expected"; grep '^hash' "$1" | diff "$T/expected" -; }
few_connections() { n=$(cut -d' ' -f1 "$T/nginx/plain.log" | sort -u | wc -l); echo "$n connections"; [ "$n" -ge 1 ] && [ "$n" -le 4 ] && [ "$(wc -l <"$T/nginx/plain.log")" -gt 65 ]; }
faults_happened() { # location, what its log shows
    cat "$T/http.$1" && grep -q " $2\$" "$T/nginx/$1.log"
}
cuts_were_cuts() { cat "$T/http.cuts" "$T/nginx/error.log"; grep -q 'upstream timed out .* while reading upstream' "$T/nginx/error.log"; }
loader_retried() { cat "$T/http.is_busy"; ! grep -q ' 0 retries while opening' "$T/http.is_busy" && ! grep -q ' 0 retries by the loader' "$T/http.is_busy"; }
test_http() {
    check http_source_builds ${CC:-cc} -std=c11 -O2 $WARN examples/http_source.c -o "$T/http_source" \
        $(pkg-config --cflags --libs libcurl) $LIBS || return
    check epoch_from_the_file to "$T/http.local" fetch "$archive" || return
    if ! have nginx; then skip http "no nginx here [nginx-light]"; return; fi
    check nginx_starts start_server || return
    check epoch_over_http to "$T/http.plain" fetch "$url/plain/drawn.bzna" 4
    check http_gives_the_pixels_of_the_file same_hash "$T/http.plain"
    check connections_are_kept few_connections
    for fault in 'is_busy 503' 'hangs_up 444' 'cuts 206'; do
        set -- $fault
        check "epoch_from_a_server_that_$1" to "$T/http.$1" fetch "$url/$1/drawn.bzna" 8 || continue
        check "server_that_$1_gives_the_pixels_of_the_file" same_hash "$T/http.$1"
        check "server_did_what_$1_says" faults_happened "$1" "$2"
    done
    check answers_were_cut_in_the_middle cuts_were_cuts
    check source_retries_while_opening_and_the_loader_later loader_retried
    check absent_file_is_a_clear_error refuses 'absent.bzna.*HTTP status 404' fetch "$url/plain/absent.bzna"
    check server_without_ranges_is_a_clear_error refuses 'does not serve ranges' fetch "$url/whole/drawn.bzna"
    check something_else_is_a_clear_error refuses 'nginx.conf: of no known kind: not an mp4 file' fetch "$url/plain/nginx/nginx.conf"
    stop_server
    check absent_server_is_a_clear_error refuses "connect to server" fetch "$url/plain/drawn.bzna"
}
# What a server may do wrong, the words of tests/fake/lying_server.py. A stall is one second here.
lie() { within 120 "$T/http_source_1s" "http://127.0.0.1:$liar/$1/drawn.bzna" 4; }
stop_liar() { exec 9>&-; wait "$liars"; }
start_liar() { # which serves until its standard input ends
    mkfifo "$T/liar.in" || return 1
    python3 tests/fake/lying_server.py "$T" <"$T/liar.in" >"$T/liar.port" 2>"$T/liar.err" & liars=$!
    exec 9>"$T/liar.in"
    for _ in $(seq 100); do
        liar=$(cat "$T/liar.port")
        if [ -n "$liar" ]; then return 0; fi
        sleep 0.2
    done
    cat "$T/liar.err"; return 1
}
test_lies() {
    [ -n "$TEST_ALL" ] || echo "LEFT some ways to stall of a server that http_source.c asks"
    check http_source_builds_with_another_timeout ${CC:-cc} -std=c11 -O2 $WARN \
        -DHTTP_STALL_TIMEOUT_S=1 examples/http_source.c -o "$T/http_source_1s" $(pkg-config --cflags --libs libcurl) \
        $LIBS || return
    check lying_server_starts start_liar || return
    for way in honest some_short fewer more endless; do
        check "epoch_from_a_server_with_$way" to "$T/http.$way" lie $way &&
            check "a_server_with_${way}_gives_the_pixels_of_the_file" same_hash "$T/http.$way"
    done
    check answers_without_their_end_are_an_error refuses 'partial file' lie short
    check empty_answers_are_an_error refuses 'returned nothing' lie empty_later
    check endless_errors_are_an_error refuses 'HTTP status 503' lie endless_error
    check another_range_is_an_error refuses 'range was not delivered' lie other_range_later
    check an_answer_without_its_range_is_an_error refuses 'range was not delivered' lie no_range
    check another_size_is_an_error refuses 'has changed since it was opened' lie other_size_later
    check another_version_is_an_error refuses 'has changed since it was opened' lie other_version_later
    check the_whole_file_for_a_range_is_an_error refuses 'does not serve ranges' lie whole_later
    for way in stall_later trickle_head ${TEST_ALL:+silent_later trickle_later}; do check "a_server_that_stalls_like_${way}_is_left" refuses 'Timeout was reached' lie $way; done
    stop_liar
}
# --- the same with the fakes of NVIDIA's driver: NVDEC decodes, and nothing else differs ---
with_fake() { LD_LIBRARY_PATH="$BUILD/tests/fake" "$@" 2>"$T/fake.err"; code=$?; ! grep '^fake' "$T/fake.err" && [ "$code" -eq 0 ]; }
trains_on_the_fake() {
    epochs=3; [ -z "$TEST_ALL" ] || epochs=15
    with_fake within 120 "$T/train" "$archive" $epochs >"$T/train.fake" || return 1
    awk '/^epoch/ { print $1, $2, $3, $4, $5, $6, $8, $10 }' "$T/train.fake" >"$T/losses.fake"
    head -n $epochs "$T/losses.1" | diff "$T/losses.fake" - &&
        grep -q '^decoder: NVDEC of ' "$T/train.fake" && grep -q '^device: CUDA 0, ' "$T/train.fake" &&
        grep -q " $((epochs * 52)) pictures decoded by NVDEC, 0 in software" "$T/train.fake"
}
fetches_on_the_fake() { with_fake fetch "$archive" >"$T/http.fake" && same_hash "$T/http.fake"; }
shares_on_the_fake() { with_fake ranks 2 "$archive" >"$T/mpi.fake" && same_samples "$T/mpi.fake"; }
test_fake() {
    check fake_driver_builds make --no-print-directory -s BUILD="$BUILD" "$BUILD/tests/fake/libnvcuvid.so.1" || return
    [ ! -s "$T/losses.1" ] || check training_on_nvdec_has_the_same_losses trains_on_the_fake
    [ ! -s "$T/http.local" ] || check nvdec_gives_the_pixels_of_the_processor fetches_on_the_fake
    [ ! -s "$T/mpi.1" ] || check ranks_on_nvdec_see_the_same_samples_and_pixels shares_on_the_fake
}

export no_proxy='*' NO_PROXY='*'
if ! pkg-config --exists libcurl 2>/dev/null; then skip http_source "no libcurl headers [libcurl4-openssl-dev]"
elif ! have "${CC:-cc}"; then skip http_source "no C compiler [gcc]"
else
    test_http
    if ! have python3; then skip servers_that_lie "no python3 [python3]"; elif [ -s "$T/http.local" ]; then test_lies; fi
fi
if ! grep -q bzi_kernel_warp_any "$BUILD/libbenzina.a"; then skip nvdec "the library has no GPU path [clang libffmpeg-nvenc-dev]"
elif [ ! -e tests/fake/build.sh ]; then skip nvdec "the fake driver is missing"
else test_fake; fi

# --- the commands in the first comment of each example, as they stand there ---
# What they are given: an archive of 8 samples and more, class folders of JPEG files, tars with labels, masks and boxes.
command_data() {
    mkdir -p "$T/shell/examples/train/cats" "$T/shell/examples/train/dogs" "$T/shell/examples/seg/images" "$T/shell/examples/seg/masks" &&
        cp benzina.h "$T/shell/" && cp -R examples/*.[ch] examples/*.cpp examples/formats "$T/shell/examples/" && cd "$T/shell/examples" &&
        ln -s "$root/$BUILD/benzina.o" . && ln -s "$root/$BUILD" build && data=$root/tests/data/pictures || return
    for i in 0 1 2 3; do
        cp "$data/jpeg_411.jpg" "train/cats/$i.jpg" && cp "$data/jpeg_440.jpg" "train/dogs/$i.jpg" && cp "$data/jpeg_440.jpg" "$i.jpg" &&
            cp "$data/jpeg_440.jpg" "seg/images/$i.jpg" && cp "$data/png_palette_clear.png" "$i.seg.png" && cp "$data/png_palette_clear.png" "seg/masks/$i.png" &&
            echo "$i" >"$i.cls" && echo "17 0.5 0.25 0.2 0.1" >"$i.txt" || return
    done
    for tar in shard-000 shard-001 shard more; do tar -cf $tar.tar 0.* 1.* 2.* 3.* || return; done
    for name in train a extra; do cp "$root/tests/data/small_h264.bzna" $name.bzna || return; done
    "$root/$BZNA" pack seg --pairs images,masks -o seg.bzna --codec copy
}
# Prints them: continued lines joined, without what they may be given besides, and without explanations.
commands_of() {
    sed -n '1,/\*\//{ s/^ \*     //; t more; b; :more; /\\$/{ N; s/\\\n \* *//; b more; }; s/ *\*\/$//; s/ \[.*//; s/   *.*//; /^\(cc\|c++\|mpicc\|mpirun\|\.\/\|build\/\)/p; }' "$1"
}
runs_its_commands() { # a program is compiled, then run; its commands are typed in the folder of the examples
    commands_of "$1" >"$T/commands" && [ -s "$T/commands" ] && (cd "$T/shell/examples" && while read -r line; do
        case $line in
        *https://host/*) line="${line%https://host/*}http://127.0.0.1:$liar/honest/shell/examples/${line#*https://host/}" ;;
        mpirun*) line="mpirun $mpi_flags ${line#mpirun}" ;;
        esac
        echo "$line"; eval "within 120 $line" </dev/null || exit 1
    done <"$T/commands")
}
test_commands() {
    check the_commands_have_their_data eval '(command_data)' || return
    rm -f "$T/liar.in"; liar=
    for f in examples/*.c examples/*.cpp examples/stream/stream_main.c; do
        name=$(basename "$f"); need=
        case $name in
        own_codec.c) pkg-config --exists libjxl || need="libjxl [libjxl-dev]" ;;
        lmdb.c) echo '#include <lmdb.h>' | ${CC:-cc} -E - >/dev/null 2>&1 || need="lmdb.h [liblmdb-dev]" ;;
        sqlite.c) echo '#include <sqlite3.h>' | ${CC:-cc} -E - >/dev/null 2>&1 || need="sqlite3.h [libsqlite3-dev]" ;;
        http_source.c)
            if ! pkg-config --exists libcurl; then need="libcurl [libcurl4-openssl-dev]"
            elif ! have python3; then need="python3 [python3]"
            else check a_server_for_commands_starts start_liar || continue; fi ;;
        stream_main.c) [ -x "$BUILD/stream" ] || need="$BUILD/stream" ;;
        mpi.c) [ -s "$T/mpi.1" ] || need="Open MPI that runs [openmpi-bin libopenmpi-dev]" ;;
        *.cpp) have c++ || need="c++ [g++]" ;;
        esac
        if [ -n "$need" ]; then skip "the commands of $name" "no $need"; else check "the_commands_of_${name}_work" runs_its_commands "$f"; fi
    done
    [ -z "$liar" ] || stop_liar
}
root=$(pwd)
if have cc && pkg-config --exists libavcodec libjpeg; then test_commands; else skip "the commands in comments" "no cc, libavcodec or libjpeg [gcc libavcodec-dev libjpeg-dev]"; fi

# --- samples that failed ---
# Each loop over batches says how many samples of one failed: a slot that is filled looks like a black picture.
loops_count_failures() {
    for f in $(grep -l 'bzna_loader_next(' examples/*.c examples/*.cpp README.md); do
        grep -qE 'info\.failed|report_failed\(' "$f" || { echo "$f"; return 1; }
    done
    for f in $(grep -lE 'batch in |next_batch\(\)' examples/rust/src/lib.rs examples/rust/src/stream.rs examples/julia/examples/flux.jl); do
        grep -qE 'batch\.failed\(\)|failed\(batch\)' "$f" || { echo "$f"; return 1; }
    done
}
counts_failures() { # program, arguments...: one of the pictures is none
    [ -x "$1" ] || return 0                                  # it was not built, which was said above
    "$@" >"$T/counted" 2>&1
    cat "$T/counted"
    grep -qE '^1 of [0-9]+ samples failed' "$T/counted"
}
check every_loop_asks_how_many_samples_failed loops_count_failures
mkdir -p "$T/damaged/a" "$T/damaged/b"
for n in a/0 a/1 a/2 b/4; do { printf 'P6\n64 48\n255\n'; head -c 9216 /dev/zero; } >"$T/damaged/$n.ppm"; done
echo "no picture" >"$T/damaged/a/3.ppm"
check train_cpp_counts_failures counts_failures "$T/train" "$T/damaged" 1
check fields_c_counts_failures counts_failures "$T/fields" - name "$T/damaged"
check views_c_counts_failures counts_failures "$T/views" "$T/damaged"
check hard_examples_c_counts_failures counts_failures "$T/hard" "$T/damaged" 1
check augment_c_counts_failures counts_failures "$T/augment_c" "$T/damaged" "$T/augmented.ppm"
check decode_batch_c_builds ${CC:-cc} -std=c11 -O2 $WARN examples/decode_batch.c $LIBS -o "$T/decode_batch"
check decode_batch_c_counts_failures counts_failures "$T/decode_batch" "$T/damaged" "$T"

end
