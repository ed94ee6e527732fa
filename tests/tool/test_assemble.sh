#!/bin/sh
# test_assemble.sh - bzna merge, append, subset, split, diff, index of archives, convert, extract
# shellcheck disable=SC2012,SC2046,SC2059,SC2086
. tests/tool/tool.sh

# Frames for small pictures.
quick="--preset ultrafast --frame 64"

# Archives of three classes and of two splits: a to c are the same files in shares.
prepare() {
    for file in ants/a ants/b bees/c bees/d cows/e; do
        mkdir -p "$t/in/${file%/*}"
        { printf 'P6 24 16 255\n'; tail -c +$((700 * ${#passed} + $(printf '%d' "'${file#*/}") * 90)) $data/mini_h265.bzna | head -c 1152; } >"$t/in/$file.ppm"
    done
    { printf 'P6 600 20 255\n'; tail -c +5000 $data/mini_h265.bzna | head -c 36000; } >"$t/in/bees/d.ppm"
    expect 0 "pack" "$bzna" pack "$t/in" -o "$t/all.bzna" $quick
    for i in 0 1 2; do expect 0 "pack of share $i" "$bzna" pack "$t/in" -o "$t/part$i.bzna" $quick --shard $i/3; done
    expect 0 "pack of splits" "$bzna" pack --splits "test=$t/in,train=$t/in" -o "$t/splits.bzna" $quick
}

says_classes() { run "$bzna" info --json "$1"; says "$t/out" "$2" "the classes of $1"; }

split_tests() {
    same "splits are written in their order" "$(names "$t/splits.bzna")" \
        "0a.ppm 0b.ppm 1c.ppm 1d.ppm 2e.ppm 0a.ppm 0b.ppm 1c.ppm 1d.ppm 2e.ppm "
    for split in train test; do same "$split by its name" "$(names "$t/splits.bzna" --split $split)" "0a.ppm 0b.ppm 1c.ppm 1d.ppm 2e.ppm "; done
    mkdir -p "$t/val/bees" "$t/odd/wasps"
    cp "$t/in/bees/c.ppm" "$t/val/bees"
    cp "$t/in/bees/c.ppm" "$t/odd/wasps"
    expect 0 "a split without some of the classes" "$bzna" pack --splits "validation=$t/val,train=$t/in" \
        -o "$t/v.bzna" $quick
    same "has the numbers of the first split's classes" "$(names "$t/v.bzna" --split validation)" "1c.ppm "
    refused 1 "odd/wasps: is a class that the first split has not" "a split with other classes" \
        "$bzna" pack --splits "train=$t/in,test=$t/odd" -o "$t/wrong.bzna"
    for wrong in "train" "dev=$t/in" "train=$t/in,train=$t/val" "train="; do
        refused 2 "--splits must be" "--splits $wrong" "$bzna" pack --splits "$wrong" -o "$t/wrong.bzna"
    done
    refused 2 "--splits has the folders" "--splits and a folder" "$bzna" pack "$t/in" --splits "train=$t/in" \
        -o "$t/wrong.bzna"
    refused 2 "too few" "neither" "$bzna" pack -o "$t/wrong.bzna"
    printf 'cows\nghosts\nbees\nants\n' >"$t/classes.txt"
    expect 0 "--classes FILE" "$bzna" pack "$t/in" -o "$t/c.bzna" $quick --classes "$t/classes.txt"
    same "numbers classes as the file does" "$(names "$t/c.bzna")" "0e.ppm 2c.ppm 2d.ppm 3a.ppm 3b.ppm "
    printf 'cows\nbees\n' >"$t/classes.txt"
    refused 1 "in/ants: is no class of" "a folder that is not among them" "$bzna" pack "$t/in" -o "$t/wrong.bzna" \
        --classes "$t/classes.txt"
    says_classes "$t/c.bzna" '"class_names":["cows","ghosts","bees","ants"]'
    says_classes "$t/v.bzna" '"class_names":["ants","bees","cows"]'
    run "$bzna" list --json "$t/c.bzna"
    says "$t/out" '"target":2,"class":"bees","filename":"bees/c.ppm"' \
        "a sample has its class's name, and its path in the folder"
    refused 1 'its class 0 is called "cows", and "ants" in what comes before it' \
        "merge of archives whose classes contradict each other" \
        "$bzna" merge "$t/all.bzna" "$t/c.bzna" -o "$t/wrong.bzna"
    expect 1 "diff of such" "$bzna" diff "$t/all.bzna" "$t/c.bzna"
    says "$t/out" 'classes: class 0 is "ants" and "cows"' "diff names the first class that differs"
}

merge_tests() {
    expect 0 "merge of shares" "$bzna" merge "$t/part0.bzna" "$t/part1.bzna" "$t/part2.bzna" -o "$t/merged.bzna"
    if cmp -s "$t/merged.bzna" "$t/all.bzna"; then pass; else fail "merged shares are the whole, byte for byte" "$(cmp "$t/merged.bzna" "$t/all.bzna" 2>&1)"; fi
    refused 2 "already exists" "merge does not replace" "$bzna" merge "$t/part0.bzna" -o "$t/merged.bzna"
    expect 0 "merge of one, with its splits" "$bzna" merge "$t/splits.bzna" -o "$t/again.bzna"
    if cmp -s "$t/again.bzna" "$t/splits.bzna"; then pass; else fail "splits are kept, byte for byte"; fi
    expect 0 "merge of an archive of the original tools" "$bzna" merge $data/mini_h264.bzna -o "$t/mini.bzna"
    expect 0 "verify --decode of it" "$bzna" verify --decode "$t/mini.bzna"
    expect 0 "SEI, which is not copied, is no difference" "$bzna" diff "$t/mini.bzna" $data/mini_h264.bzna
    same "its pictures decode to the same" \
        "$(for i in 0 3 7; do "$bzna" extract "$t/mini.bzna" $i --md5; done 2>/dev/null)" \
        "$(for i in 0 3 7; do "$bzna" extract $data/mini_h264.bzna $i --md5; done 2>/dev/null)"
    same "its names and targets are those" "$(names "$t/mini.bzna")" "$(names $data/mini_h264.bzna)"
    expect 1 "merge of what an archive cannot hold" "$bzna" merge "$t/in" -o "$t/none.bzna"
    says "$t/err" "sample 0 is left out: " "it is named"
    says "$t/err" "none.bzna: nothing is written" "an archive without samples is not made"
    if [ -e "$t/none.bzna" ] || [ -e "$t/none.bzna.partial" ]; then fail "nothing is left of it"; else pass; fi
    refused 2 "-o is required" "merge without -o" "$bzna" merge "$t/part0.bzna"
    refused 1 "absent.bzna" "merge of a file that is not there" "$bzna" merge "$t/part0.bzna" "$t/absent.bzna" \
        -o "$t/wrong.bzna"

    cp "$t/part0.bzna" "$t/grown.bzna"
    expect 0 "append" "$bzna" append "$t/grown.bzna" "$t/part1.bzna" "$t/part2.bzna"
    if cmp -s "$t/grown.bzna" "$t/all.bzna"; then pass; else fail "an archive that grew is the whole"; fi
    refused 1 "absent.bzna: cannot open: No such file" "append of what is not there" "$bzna" append "$t/grown.bzna" \
        "$t/absent.bzna"
    if cmp -s "$t/grown.bzna" "$t/all.bzna"; then pass; else fail "a failed append leaves the archive as it was"; fi

    expect 0 "split" "$bzna" split "$t/all.bzna" -o "$t/share.bzna" --parts 3
    for i in 0 1 2; do
        if cmp -s "$t/share-0000$i-of-00003.bzna" "$t/part$i.bzna"; then pass; else fail "share $i is what pack --shard gives"; fi
    done
    refused 2 "already exists" "split does not replace" "$bzna" split "$t/all.bzna" -o "$t/share.bzna" --parts 3
    refused 1 "has only 5 samples" "more parts than samples" "$bzna" split "$t/all.bzna" -o "$t/s.bzna" --parts 6

    printf '4\n0 2\n' >"$t/indices.txt"
    expect 0 "subset by numbers" "$bzna" subset "$t/all.bzna" --indices "$t/indices.txt" -o "$t/sub.bzna"
    same "is in the order of the file" "$(names "$t/sub.bzna")" "2e.ppm 0a.ppm 1c.ppm "
    expect 0 "subset by class" "$bzna" subset "$t/all.bzna" --class 1 -o "$t/sub.bzna" --overwrite
    same "has that class" "$(names "$t/sub.bzna")" "1c.ppm 1d.ppm "
    expect 0 "subset by the name of a class" "$bzna" subset "$t/all.bzna" --class bees -o "$t/sub2.bzna"
    if cmp -s "$t/sub.bzna" "$t/sub2.bzna"; then pass; else fail "a class's name is that class"; fi
    says_classes "$t/sub2.bzna" '"class_names":["ants","bees","cows"]'
    echo 5 >"$t/indices.txt"
    refused 1 "there is no sample 5: there are 5" "a number past the end" "$bzna" subset "$t/all.bzna" \
        --indices "$t/indices.txt" -o "$t/wrong.bzna"
    echo x >"$t/indices.txt"
    refused 1 "must hold numbers" "what is no number" "$bzna" subset "$t/all.bzna" --indices "$t/indices.txt" \
        -o "$t/wrong.bzna"
    refused 1 'there is no class "wasps"' "a class that is not there" "$bzna" subset "$t/all.bzna" --class wasps \
        -o "$t/wrong.bzna"
    refused 1 'its classes have no names' "a name where classes have none" "$bzna" subset $data/mini_h264.bzna \
        --class bees -o "$t/wrong.bzna"
    refused 1 'no sample is of class "7"' "a class without samples" "$bzna" subset "$t/all.bzna" --class 7 \
        -o "$t/wrong.bzna"
    refused 2 "give --indices or --class" "subset of nothing" "$bzna" subset "$t/all.bzna" -o "$t/wrong.bzna"
    if ls "$t"/wrong.bzna* "$t"/*.partial >/dev/null 2>&1; then fail "nothing is left of what failed" "$(ls "$t"/wrong.bzna* "$t"/*.partial)"; else pass; fi
}

# Targets of samples whose first, a middle or last one, or all have none: -1 is no target. What comes after keeps its own,
# whoever writes the archive.
targets_of() { "$bzna" list --json "$1" | sed -n 's/.*"target":\([^,]*\),.*/\1/p' | sed 's/null/-1/' | tr '\n' ' '; }
# Version 0.3 wrote fields, and so splits, behind the tracks, where the original's reader has no end.
behind_tests() {
    expect 0 "an archive as version 0.3 wrote it" "$python" tests/peers/original.py old "$t/splits.bzna" "$t/old.bzna"
    if cmp -s "$t/old.bzna" "$t/splits.bzna"; then fail "it is no other than today's"; else pass; fi
    expect 0 "it is the same data set" "$bzna" diff "$t/old.bzna" "$t/splits.bzna"
    same "with its splits" "$(names "$t/old.bzna" --split train)" "$(names "$t/splits.bzna" --split train)"
    expect 0 "it is sound" "$bzna" verify --decode "$t/old.bzna"
    says "$t/out" "10 samples have their fields behind their tracks, as version 0.3 wrote them: the original Benzina cannot read them" \
        "verify says that the original reader cannot read it"
    expect 0 "verify --json" "$bzna" verify --json "$t/old.bzna"
    says "$t/out" '"unread_by_original":10' "how many"
    expect 0 "convert" "$bzna" convert "$t/old.bzna" -o "$t/mended.bzna"
    if cmp -s "$t/mended.bzna" "$t/splits.bzna"; then pass; else fail "it is as it would be written today, byte for byte"; fi
    expect 0 "verify of that" "$bzna" verify --json "$t/mended.bzna"
    says "$t/out" '"unread_by_original":0' "none is left"
}

gap_tests() {
    mkdir -p "$t/gap/in"
    for file in a b c d; do cp "$t/in/ants/a.ppm" "$t/gap/in/$file.ppm"; done
    for targets in "0 1 -1 3" "-1 1 2 3" "0 1 2 -1" "-1 -1 -1 -1"; do
        printf '%s\n' $targets >"$t/gap/targets"
        "$bzna" pack "$t/gap/in" -o "$t/gap/from.bzna" --overwrite --codec jpeg --targets "$t/gap/targets" >"$t/out"
        same "pack --targets $targets" "$(targets_of "$t/gap/from.bzna")" "$targets "
        for to in x.tar x.bzna; do
            "$bzna" convert "$t/gap/from.bzna" -o "$t/gap/$to" --overwrite >"$t/out"
            same "convert of $targets to $to" "$(targets_of "$t/gap/$to")" "$targets "
        done
        "$bzna" convert "$t/gap/x.tar" -o "$t/gap/x.bzna" --overwrite >"$t/out"
        same "convert of a tar of $targets" "$(targets_of "$t/gap/x.bzna")" "$targets "
        "$bzna" pack "$t/gap/x.tar" -o "$t/gap/x.bzna" --overwrite --codec jpeg >"$t/out"
        same "pack of a tar of $targets" "$(targets_of "$t/gap/x.bzna")" "$targets "
        "$bzna" merge "$t/gap/from.bzna" "$t/part0.bzna" "$t/gap/x.tar" -o "$t/gap/x.bzna" --overwrite >"$t/out"
        same "merge of $targets" "$(targets_of "$t/gap/x.bzna")" "$targets 0 $targets "
        "$bzna" append "$t/gap/from.bzna" "$t/part0.bzna" >"$t/out"
        same "append to $targets" "$(targets_of "$t/gap/from.bzna")" "$targets 0 "
        printf '4 3 2 1 0' >"$t/gap/indices"
        "$bzna" subset "$t/gap/from.bzna" --indices "$t/gap/indices" -o "$t/gap/x.bzna" --overwrite >"$t/out"
        same "subset of $targets" "$(targets_of "$t/gap/x.bzna")" "0 $(echo "$targets" | tr ' ' '\n' | tac | tr '\n' ' ')"
        "$bzna" split "$t/gap/from.bzna" -o "$t/gap/s.bzna" --parts 2 --overwrite >"$t/out"
        same "split of $targets" "$(targets_of "$t/gap/s-00000-of-00002.bzna")$(targets_of "$t/gap/s-00001-of-00002.bzna")" "$targets 0 "
        expect 0 "info counts targets" "$bzna" info --json "$t/gap/from.bzna"
        same "of $targets" "$(field targets <"$t/out")" "$(echo "$targets" 0 | tr ' ' '\n' | grep -vc '^-1$')"
    done
    # Other fields: an archive has those that only some samples have, a label of numbers beside a target, too.
    head -c 104 /dev/zero | tr '\0' '@' >"$t/gap/two.bin"
    printf '3\n-1\n' >"$t/gap/targets"
    expect 0 "records without names, with labels and targets" "$bzna" pack "$t/gap/two.bin" -o "$t/gap/labels.bzna" \
        --records 4x4x3+label:float32 --targets "$t/gap/targets" --codec jpeg
    expect 0 "merge with samples that have names, and no labels" "$bzna" merge "$t/part0.bzna" "$t/gap/labels.bzna" \
        "$t/part1.bzna" -o "$t/gap/x.bzna" --overwrite
    "$bzna" list --json "$t/gap/x.bzna" >"$t/out"
    same "has the labels of those that have some" "$(sed 's/.*"target":\([^,]*\),.*"fields":{\([^}]*\)}.*/\1 \2/; /^[[]$/d; /^]$/d' "$t/out" | tr '\n' ';')" \
        '0 ;3 "label":[3.00392151];null "label":[3.00392151];0 ;1 ;'
    expect 0 "as a folder" "$bzna" convert "$t/gap/x.bzna" -o "$t/gap/folder/"
    same "has no files without a name" "$(find "$t/gap/folder" -type f -name '.*' | wc -l | tr -d ' ') $(find "$t/gap/folder" -type f | wc -l | tr -d ' ')" "0 5"
    # Archives of the original tools end the index of targets at the first sample that has none.
    expect 0 "append to an archive of the original tools" "$bzna" merge $data/mini_h265.bzna "$t/part0.bzna" -o "$t/gap/x.bzna" --overwrite
    same "keeps what it had, and what comes after it" "$(targets_of "$t/gap/x.bzna")" "0 37 74 111 148 185 -1 -1 0 "
    printf 'a.ppm,-1\na.ppm,-1\nb.ppm,-1\nd.ppm,2\n' >"$t/gap/targets"
    refused 1 "has targets of 3 of 4 files; $t/gap/in/c.ppm has none" "a file that --targets does not name" \
        "$bzna" pack "$t/gap/in" -o "$t/wrong.bzna" --targets "$t/gap/targets"
}

diff_tests() {
    expect 0 "an archive does not differ from itself" "$bzna" diff "$t/all.bzna" "$t/all.bzna"
    expect 1 "archives of other lengths" "$bzna" diff "$t/all.bzna" "$t/part0.bzna"
    says "$t/err" "5 samples and 1; of the first 1, 0 differ" "diff counts"
    expect 0 "another quality" "$bzna" pack "$t/in" -o "$t/other.bzna" $quick --crf 40
    expect 1 "pictures differ" "$bzna" diff "$t/all.bzna" "$t/other.bzna"
    same "in each sample" "$(cat "$t/out")" "$(for i in 0 1 2 3 4; do echo "sample $i: picture"; done)"
    cp -r "$t/in" "$t/renamed"
    mv "$t/renamed/ants/b.ppm" "$t/renamed/ants/bb.ppm"
    expect 0 "another name" "$bzna" pack "$t/renamed" -o "$t/renamed.bzna" $quick
    expect 1 "a name differs" "$bzna" diff --json "$t/all.bzna" "$t/renamed.bzna"
    same "of that sample alone" "$(cat "$t/out")" '{"index":1,"differs":"name"}'
}

recover_tests() {
    head -c $(($(wc -c <"$t/all.bzna") - 1000)) "$t/all.bzna" >"$t/cut.bzna"
    refused 1 "" "an archive that lost its end does not open" "$bzna" info "$t/cut.bzna"
    expect 0 "its index is made again" "$bzna" index "$t/cut.bzna" -o "$t/found.bzna"
    if cmp -s "$t/found.bzna" "$t/all.bzna"; then pass; else fail "it is the archive that it was, byte for byte" "$("$bzna" diff "$t/found.bzna" "$t/all.bzna" 2>&1)"; fi
    head -c 20000 $data/mini_h265.bzna >"$t/short.bzna"
    refused 1 "no whole sample" "less than one sample" "$bzna" index "$t/short.bzna" -o "$t/wrong.bzna"
    head -c 100000 $data/mini_h265.bzna >"$t/half.bzna"
    expect 0 "an archive of the original tools that was cut" "$bzna" index "$t/half.bzna" -o "$t/found.bzna" --overwrite
    expect 0 "decodes" "$bzna" verify --decode "$t/found.bzna"
    same "its samples are the first of the whole" "$(names "$t/found.bzna")" \
        "$(names $data/mini_h265.bzna | tr ' ' '\n' | head -n "$("$bzna" list "$t/found.bzna" | awk 'END { print NR - 1 }')" | tr '\n' ' ')"
    # A box may say its size in 64 bits: here one that is skipped, 316 bytes long, behind the first sample and the
    # second.
    ftyps=$(grep -abo ftyp "$t/cut.bzna" | cut -d: -f1)
    printf '\000\000\000\001free\000\000\000\000\000\000\001\074%0300d' 0 >"$t/box"
    second=$(($(echo "$ftyps" | sed -n 3p) - 4)) third=$(($(echo "$ftyps" | sed -n 4p) - 4))
    { head -c $second "$t/cut.bzna"; cat "$t/box"; head -c $third "$t/cut.bzna" | tail -c +$((second + 1))
      cat "$t/box"; tail -c +$((third + 1)) "$t/cut.bzna"; } >"$t/wide.bzna"
    expect 0 "boxes of 64 bits do not end it" "$bzna" index "$t/wide.bzna" -o "$t/found.bzna" --overwrite
    expect 1 "what the archive's own size still covers is found" "$bzna" diff "$t/found.bzna" "$t/all.bzna"
    says "$t/err" "4 samples and 5; of the first 4, 0 differ" "and as it was"
    { head -c $((second + 12)) "$t/wide.bzna"; printf '\001'; tail -c +$((second + 14)) "$t/wide.bzna"; } >"$t/torn.bzna"
    expect 0 "a box that ends past the file is none" "$bzna" index "$t/torn.bzna" -o "$t/found.bzna" --overwrite
    same "what stands before it is found" "$(names "$t/found.bzna")" "$(names "$t/all.bzna" | cut -d ' ' -f 1) "
    refused 1 "bzna index $t/cut.bzna -o NEW.bzna" "an archive without -o" "$bzna" index "$t/cut.bzna"
    refused 1 "is not an archive" "what is none" "$bzna" index "$t/in/ants/a.ppm" -o "$t/wrong.bzna"
    # A context needs locks: one that cannot be made.
    cat >"$t/locks.c" <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
/* The program's own locks, not those of its libraries. */
int pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes)
{
    static int (*real)(pthread_mutex_t *, const pthread_mutexattr_t *);
    Dl_info caller;
    if (dladdr(__builtin_return_address(0), &caller) && caller.dli_fname && !strstr(caller.dli_fname, ".so"))
        return 12;
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "pthread_mutex_init");
    return real(mutex, attributes);
}
END
    if [ -n "$SANITIZE" ]; then skip "a context that cannot be opened" "a sanitizer's library must be the first one"
    elif ! ${CC:-cc} -shared -fPIC -o "$t/locks.so" "$t/locks.c" -ldl 2>"$t/err"; then skip "a context that cannot be opened" "no compiler [gcc]"
    else
        refused 1 "cannot make a lock" "a context that cannot be opened" env LD_PRELOAD="$t/locks.so" "$bzna" index \
            "$t/cut.bzna" -o "$t/wrong.bzna"
        if [ -e "$t/wrong.bzna" ]; then fail "nothing is left behind"; else pass; fi
    fi
}

extract_tests() {
    expect 0 "extract by name" "$bzna" extract "$t/all.bzna" c.ppm -o "$t/x.ppm"
    expect 0 "extract by number" "$bzna" extract "$t/all.bzna" 2 -o "$t/y.ppm"
    if cmp -s "$t/x.ppm" "$t/y.ppm"; then pass; else fail "a name is that sample"; fi
    refused 1 '"c.ppm": samples 2 and 7 have that name' "a name that two have" "$bzna" extract "$t/splits.bzna" c.ppm \
        -o "$t/x.ppm"
    refused 1 "neither an index" "a name that none has" "$bzna" extract "$t/all.bzna" zzz -o "$t/x.ppm"
    "$bzna" extract "$t/all.bzna" 2 -o - >"$t/x.png" 2>"$t/err"
    same "standard output gets PNG" "$(head -c 8 "$t/x.png" | od -An -tx1 | tr -d ' ')" 89504e470d0a1a0a
    "$bzna" extract "$t/all.bzna" 2 -o - --as ppm >"$t/x.ppm" 2>"$t/err"
    if cmp -s "$t/x.ppm" "$t/y.ppm"; then pass; else fail "--as ppm on standard output"; fi
    expect 0 "a JPEG of what is none" "$bzna" extract "$t/all.bzna" 2 -o "$t/x.jpg"
    expect 0 "it can be packed" "$bzna" extract "$t/all.bzna" 2 -o "$t/x.bin" --as .jpg
    if cmp -s "$t/x.jpg" "$t/x.bin"; then pass; else fail "--as names the format"; fi
    if command -v ffmpeg >/dev/null 2>&1; then
        ffmpeg -v error -i "$t/x.jpg" -y "$t/x.ppm" 2>&1
        psnr "$t/x.ppm" "$t/y.ppm"
        if [ "$db" -ge 20 ]; then pass; else fail "the JPEG is the picture" "$db dB"; fi
    else skip "the JPEG is the picture" "ffmpeg is not installed [ffmpeg]"; fi
    run "$bzna" extract "$t/all.bzna" d.ppm -o "$t/x.ppm"
    says "$t/err" "this is the sample's bzna_input; --track bzna_thumb" "extract says which picture it took"
    refused 2 "--as" "--as without -o" "$bzna" extract "$t/all.bzna" 2 --md5 --as png
    refused 2 "standard output" "-o - and --json" "$bzna" extract "$t/all.bzna" 2 -o - --json
    refused 2 "--as" "a format that there is not" "$bzna" extract "$t/all.bzna" 2 -o - --as gif
}

# What is converted there and back is what it was: the library reads what the tool writes, and tar lists it.
convert_tests() {
    mkdir -p "$t/photos/ants" "$t/photos/bees"
    oriented_jpeg 1 >"$t/photos/ants/a.jpg"
    { oriented_jpeg 6; printf x; } >"$t/photos/bees/b.jpg"           # a record of it is padded
    # The bytes that begin a RecordIO record, at every alignment, in a comment.
    { printf '\377\330\377\376\000\031'; for _ in 1 2 3 4; do printf '\012\043\327\316x'; done; printf 'xxx'; oriented_jpeg 1 | tail -c +3; } >"$t/photos/bees/c.jpg"
    expect 0 "convert a folder to a tar" "$bzna" convert "$t/photos" -o "$t/p.tar"
    says "$t/err" "note: $t/p.tar: the names of the classes are left out" "what a tar cannot hold is said"
    same "the tar has a picture and a class for each" "$(tar -tf "$t/p.tar" 2>&1 | tr '\n' ' ')" \
        "ants/a.jpg ants/a.cls bees/b.jpg bees/b.cls bees/c.jpg bees/c.cls "
    same "the library reads its keys and targets" "$(names "$t/p.tar" | tr -d '\n')" "0a 1b 1c "
    expect 0 "convert a tar to a .rec" "$bzna" convert "$t/p.tar" -o "$t/p.rec"
    expect 0 "verify --decode of the .rec" "$bzna" verify --decode "$t/p.rec"
    expect 0 "convert a .rec to a folder" "$bzna" convert "$t/p.rec" -o "$t/folder1/"
    same "pictures come out of a .rec as they went in" "$(cd "$t/folder1" && cksum */*.jpg)" \
        "$(cd "$t/photos" && cksum */*.jpg)"
    same "targets are the labels" "$("$bzna" list "$t/p.rec" | awk 'NR > 1 { printf "%s ", $2 }')" "0 1 1 "
    # A record of three labels says so in its header: it comes out of bzna as it went in.
    size=$(wc -c <"$t/photos/ants/a.jpg" | tr -d ' ')
    { printf '\012\043\327\316'; printf "\\$(printf %o $(((size + 36) % 256)))\\$(printf %o $(((size + 36) / 256)))\\0\\0"
      printf '\003\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\300\077\0\0\0\300\0\0\100\100'
      cat "$t/photos/ants/a.jpg"; head -c $(((4 - size % 4) % 4)) /dev/zero; } >"$t/labels.rec"
    expect 0 "a .rec of labels as a .rec" "$bzna" convert "$t/labels.rec" -o "$t/labels2.rec"
    if cmp "$t/labels.rec" "$t/labels2.rec" >"$t/log" 2>&1; then pass; else fail "labels and their number are kept" "$(cat "$t/log")"; fi
    mv "$t/p.idx" "$t/written.idx"
    head -c 10240 /dev/zero > "$t/empty.tar"
    expect 0 "bzna index of an empty tar" "$bzna" index "$t/empty.tar"
    same "which has no samples" "$(cat "$t/empty.idx")" "v1.2 0"
    expect 0 "bzna index of the .rec" "$bzna" index "$t/p.rec"
    same "the index is the one that was written" "$(awk '{ print $2 }' "$t/written.idx" | tr '\n' ' ')" \
        "$(awk '{ print $2 }' "$t/p.idx" | tr '\n' ' ')"
    expect 0 "convert a tar to a folder" "$bzna" convert "$t/p.tar" -o "$t/folder/"
    same "the folder has a folder for each class, and files are as they were" "$(cd "$t/folder" && cksum */*.jpg)" \
        "$(cd "$t/photos" && cksum */*.jpg)"
    expect 0 "convert a tar to an archive" "$bzna" convert "$t/p.tar" -o "$t/p.bzna"
    expect 0 "verify --decode of the archive" "$bzna" verify --decode "$t/p.bzna"
    expect 0 "convert an archive to a folder" "$bzna" convert "$t/p.bzna" -o "$t/folder2/"
    if diff -r "$t/folder" "$t/folder2" >/dev/null; then pass; else fail "an archive of JPEG gives the folder that it was made of" "$(diff -r "$t/folder" "$t/folder2")"; fi
    expect 0 "convert frames of video to a tar" "$bzna" convert "$t/splits.bzna" -o "$t/v.tar"
    same "names that are not unique get numbers" "$(tar -tf "$t/v.tar" | head -n 3 | tr '\n' ' ')" \
        "000000000_a.jpg 000000000_a.cls 000000000_a.name "
    expect 0 "they decode" "$bzna" verify --decode "$t/v.tar"
    expect 0 "convert to shards" "$bzna" convert "$t/splits.bzna" -o "$t/s.tar" --shard-size 4 --shuffle --seed 3
    expect 0 "the same again" "$bzna" convert "$t/splits.bzna" -o "$t/r.tar" --shard-size 4 --shuffle --seed 3
    same "shards are numbered" "$(cd "$t" && echo s-*.tar)" "s-000000.tar s-000001.tar s-000002.tar"
    if cmp -s "$t/s-000001.tar" "$t/r-000001.tar"; then pass; else fail "the same seed gives the same order"; fi
    order=$(for i in 0 1 2; do tar -tf "$t/s-00000$i.tar" | grep jpg; done | tr '\n' ' ')
    own=$(tar -tf "$t/v.tar" | grep jpg | tr '\n' ' ')
    same "all samples are there" "$(echo "$order" | tr ' ' '\n' | grep . | sort | tr '\n' ' ')" "$own"
    if [ "$order" != "$own" ]; then pass; else fail "they are in another order" "$order"; fi
    # Pictures that are renamed, and fields that are left out, are said of the first, and counted.
    mkdir "$t/jpe"
    for i in $(seq 100 399); do cp "$t/photos/ants/a.jpg" "$t/jpe/$i.jpe"; echo "{}" >"$t/jpe/$i.json"; done
    (cd "$t/jpe" && tar -cf ../jpe.tar $(seq -f '%.0f.jpe' 100 399 | sed 'p; s/jpe/json/') && cd .. && rm -r jpe)
    expect 0 "convert what must be renamed" "$bzna" convert "$t/jpe.tar" -o "$t/jpe/"
    same "says it once, and of how many" \
        "$(grep -c 'note: .*: names are paths in the folder' "$t/err") $(grep -c 'the field json is left out (the same holds for 299 other samples)' "$t/err")" "1 1"
    says "$t/err" "100.jpe is 100.jpg (the same holds for 299 other samples)" "with the first as an example"
    same "and no more" "$(grep -c 'note' "$t/err")" 2
    refused 1 "pairs: it has an effect on folders only" "pairs of a .rec, whose .lst was not asked for" \
        "$bzna" info "$t/p.rec" --pairs a,b
    refused 2 "already exists" "convert does not replace" "$bzna" convert "$t/p.tar" -o "$t/p.rec"
    refused 2 "-o must be a name in" "what is to be written is not clear" "$bzna" convert "$t/p.tar" -o "$t/x.zip"
    refused 2 "--shard-size and --shuffle" "shards of an archive" "$bzna" convert "$t/p.tar" -o "$t/x.bzna" --shuffle
}

# A 16-bit gray TIFF of 2x1 pixels, without compression.
deep_tiff() {
    printf 'II*\000\010\000\000\000\010\000'
    for tag in '\000\001:\002' '\001\001:\001' '\002\001:\020' '\003\001:\001' '\006\001:\001' '\021\001:\156' \
        '\026\001:\001' '\027\001:\004'; do
        printf "${tag%:*}\\003\\000\\001\\000\\000\\000${tag#*:}\\000\\000\\000"
    done
    printf '\000\000\000\000\064\022\274\232'
}

# files_of FOLDER: the checksums and names of its pictures
files_of() { (cd "$1" && find . -type f ! -name '*.cls' ! -name '*.name' -exec cksum {} + | sort -k 3); }

# Files of every kind are copied, and keep the extensions that their names have.
kinds_tests() {
    if ! command -v tar >/dev/null 2>&1; then skip "files of every kind as a tar" "there is no tar [tar]"; return; fi
    mkdir -p "$t/kinds/a" "$t/made/a"
    deep_tiff >"$t/made/a/g16.tif"
    deep_tiff >"$t/made/a/upper.TIFF"
    printf 'P3 2 2 255\n1 2 3 4 5 6 7 8 9 10 11 12\n' >"$t/made/a/plain.ppm"
    printf 'P5 2 2 255\nabcd' >"$t/made/a/gray.pgm"
    for kind in bmp_1.bmp gif_animated_clear.gif jpeg2000.jp2 jpeg2000_gray.j2k jpeg_411.jpg png_palette_2.png tiff_lzw.tif \
        webp_lossy.webp; do cp "$data/pictures/$kind" "$t/made/a"; done
    if command -v cjxl >/dev/null 2>&1; then
        expect 0 "a JPEG XL is made" cjxl -d 0 $data/pictures/png_palette_2.png "$t/made/a/xl.jxl"
    fi
    for file in "$t"/made/a/*; do                                    # a build may lack libtiff, OpenJPEG or libjxl
        run "$bzna" verify --decode "$file"
        if grep -q "which this build does not have" "$t/out" "$t/err"; then
            skip "convert of ${file##*/}" "bzna was built without its library"
        else cp "$file" "$t/kinds/a"; fi
    done
    kinds=$(files_of "$t/kinds")
    for to in tar rec dir/; do expect 0 "files of every kind as $to" "$bzna" convert "$t/kinds" -o "$t/kinds.$to"; done
    same "a folder's files are what they were" "$(files_of "$t/kinds.dir")" "$kinds"
    mkdir "$t/kinds.members"
    (cd "$t/kinds.members" && tar -xf ../kinds.tar)
    same "a tar's are" "$(files_of "$t/kinds.members")" "$(echo "$kinds" | sed 's/upper.TIFF/upper.tiff/')"
    expect 0 "the tar as a folder" "$bzna" convert "$t/kinds.tar" -o "$t/kinds.dir2/"
    same "has them" "$(files_of "$t/kinds.dir2")" "$kinds"
    expect 0 "the .rec as a folder" "$bzna" convert "$t/kinds.rec" -o "$t/kinds.dir3/"
    same "has them, too" "$(files_of "$t/kinds.dir3")" "$kinds"
    rm "$t/kinds.lst"
    expect 0 "the .rec without names as a folder" "$bzna" convert "$t/kinds.rec" -o "$t/kinds.dir4/"
    same "has the same bytes, with extensions of their kinds" \
        "$(files_of "$t/kinds.dir4" | sed 's/ [^ ]*\./ /' | sort)" \
        "$(echo "$kinds" | sed 's/ [^ ]*\./ /; s/TIFF/tif/; s/j2k/jp2/; s/pgm/ppm/' | sort)"
    if [ -e "$t/kinds/a/jpeg2000.jp2" ]; then
        run "$bzna" list --json "$t/kinds/a/jpeg2000.jp2"
        same "JPEG 2000 is not called JPEG" "$(field_all codec)" "jp2 "
    fi

    mkdir -p "$t/heif/a"
    cp $data/heif/still.heic $data/heif/grid.heic "$t/heif/a"
    expect 0 "HEIF as a folder" "$bzna" convert "$t/heif" -o "$t/heif.dir/"
    same "becomes JPEG, as the help says" "$(cd "$t/heif.dir" && echo */*)" "a/grid.jpg a/still.jpg"
    same "which it is" "$(head -c 3 "$t/heif.dir/a/grid.jpg" | od -An -tx1 | tr -d ' ')" ffd8ff
}

# Archive, tar, folder and .rec from each and to each: names, targets, pictures' bytes and fields are those, and what a
# container cannot hold is said, and counted.
matrix_tests() {
    if ! command -v tar >/dev/null 2>&1; then skip "from each container to each" "there is no tar [tar]"; return; fi
    mkdir -p "$t/m/ants" "$t/m/bees/deep" "$t/x"
    for i in 1 3 6 8; do oriented_jpeg $i >"$t/m/$i.jpg"; done
    mv "$t/m/1.jpg" "$t/m/ants/one.jpg"
    mv "$t/m/3.jpg" "$t/m/bees/b 2.jpg"
    mv "$t/m/6.jpg" "$t/m/bees/c.jpg"
    mv "$t/m/8.jpg" "$t/m/bees/deep/c.jpg"
    (cd "$t/m" && find . -name '*.jpg' | while read -r f; do
        printf 'caption of %s' "$f" >"${f%.jpg}.txt"; printf '{"of":"%s"}' "$f" >"${f%.jpg}.json"; printf 4 >"${f%.jpg}.index"
        case $f in ./ants/*) printf 0;; *) printf 1;; esac >"${f%.jpg}.cls"; done
        printf train >ants/one.split; printf test >bees/c.split
        tar -cf ../x/from.tar ants/one.* "bees/b 2".* bees/c.* bees/deep/c.*)
    expect 0 "a tar as an archive" "$bzna" convert "$t/x/from.tar" -o "$t/x/from.bzna"
    same "a field of that name is the split" \
        "$(names "$t/x/from.bzna" --split train)$(names "$t/x/from.bzna" --split test)" "0one.jpg 1c.jpg "
    expect 0 "an archive as a folder" "$bzna" convert "$t/x/from.bzna" -o "$t/x/from/"
    expect 0 "an archive as a .rec" "$bzna" convert "$t/x/from.bzna" -o "$t/x/from.rec"
    # Each is read twice and written twice at least, and loses something in two ways.
    few="from.bzna>to.tar from.bzna>to/ from.tar>to.bzna from.tar>to.rec from/>to/ from/>to.tar from.rec>to.rec from.rec>to.bzna"
    [ -n "$TEST_ALL" ] || echo "LEFT test_assemble.sh: eight of sixteen ways to convert"
    bad=
    for from in from.bzna from.tar from/ from.rec; do
        for to in to.bzna to.tar to/ to.rec; do
            [ -n "$TEST_ALL" ] || case " $few " in *" $from>$to "*) ;; *) continue ;; esac
            rm -rf "$t/x/to" "$t/x"/to.*
            run "$bzna" convert "$t/x/$from" -o "$t/x/$to" --json
            lost=0
            case $from$to in from.bznato/ | from.bznato.rec | from.tarto/ | from.tarto.rec) lost=4;; esac
            [ "$status $(field altered <"$t/out")" = "0 $lost" ] || [ "$status$to" = 0to.bzna ] ||
                bad="$bad $from-$to: $(cat "$t/err" "$t/out")"
            [ $lost = 0 ] || [ "$(grep -c 'note: .*the field txt is left out' "$t/err")" = 1 ] ||
                bad="$bad $from-$to does not say what it loses"
            run "$bzna" diff "$t/x/$from" "$t/x/$to"
            [ "$(sed '/^classes: /d; s/field index, //; s/field json, //; s/field split, //; s/split, //; s/, field [ijs].*//' "$t/out")" = "$([ $lost = 0 ] || for i in 0 1 2 3; do echo "sample $i: field txt"; done)" ] || bad="$bad $from-$to: $(cat "$t/out" "$t/err")"
        done
    done
    same "of all ways, those that lose or change something unsaid" "$bad" ""
    same "a folder's files lie where they lay" "$(cd "$t/x/from" && find . -type f | sort | tr '\n' ' ')" \
        "./ants/one.jpg ./bees/b 2.jpg ./bees/c.jpg ./bees/deep/c.jpg "
    if cmp -s "$t/x/from/bees/deep/c.jpg" "$t/m/bees/deep/c.jpg"; then pass; else fail "and are what they were"; fi

    # Targets and an order that no folder has by itself.
    printf 'bees/c.jpg,7\nants/one.jpg,2\nbees/b 2.jpg,7\n' >"$t/x/odd.csv"
    expect 0 "odd targets" "$bzna" pack "$t/m" --list "$t/x/odd.csv" -o "$t/x/odd.bzna" --codec copy
    expect 0 "as a folder" "$bzna" convert "$t/x/odd.bzna" -o "$t/x/odd/"
    says "$t/err" "give --list $t/x/odd.lst with it" "what it lacks is said"
    same "which has them with its list" "$(names "$t/x/odd" --list "$t/x/odd.lst")" "$(names "$t/x/odd.bzna")"
    expect 0 "and back" "$bzna" convert "$t/x/odd" --list "$t/x/odd.lst" -o "$t/x/odd2.tar"
    same "they are" "$(names "$t/x/odd2.tar")" "7c 2one 7b "
    # Targets that no float holds, and a sample without one: in a list, its -1 is no other sample's.
    printf 'bees/c.jpg,9007199254740993\nants/one.jpg,-1\nbees/b 2.jpg,16777217\n' >"$t/x/ids.csv"
    ids="9007199254740993c nullone 16777217b "
    expect 0 "ids as a tar" "$bzna" convert "$t/m" --list "$t/x/ids.csv" -o "$t/x/ids.tar"
    same "are in a tar" "$(names "$t/x/ids.tar")" "$ids"
    expect 0 "ids as a folder" "$bzna" convert "$t/x/ids.tar" -o "$t/x/ids/"
    same "are in its list" "$(names "$t/x/ids" --list "$t/x/ids.lst" | sed 's/\.jpg//g')" "$ids"
    run "$bzna" convert "$t/x/ids.tar" -o "$t/x/ids2.rec"
    says "$t/err" "the target 9007199254740993 is no whole number of 32-bit floating point" "a .rec cannot have them"
    printf '7\t9007199254740993\tone\n' >"$t/x/big.lst"
    printf '\012\043\327\316\030\000\000\000\000\000\000\000\000\000\000\000\007\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000' >"$t/x/big.rec"
    run "$bzna" list --json "$t/x/big.rec"
    says "$t/out" '"target":9007199254740993,' "but its list can"
    says "$t/out" '"fields":{"id":7,"record":{"size":24}}' "the field label, which cannot, is left out"
    # Labels that are fractions stay, also beside samples that have none.
    printf '0\t0.5\tants/one.jpg\n1\tbees/c.jpg\n2\t-1\tbees/b 2.jpg\n' >"$t/x/half.lst"
    expect 0 "fractions as a folder" "$bzna" convert "$t/m" --list "$t/x/half.lst" -o "$t/x/halves/"
    says "$t/err" "give --list $t/x/halves.lst with it" "whose list has them"
    same "as they were" "$(cut -f 1,2 "$t/x/halves.lst" | tr '\t\n' ', ')" "0,0.5 1,bees/c.jpg 2,-1 "
    # Frames of video become JPEG, under names that say so; the names that they had are in a tar's files KEY.name.
    expect 0 "frames as a tar" "$bzna" convert "$t/all.bzna" -o "$t/x/all.tar"
    expect 0 "and the tar as an archive" "$bzna" convert "$t/x/all.tar" -o "$t/x/all.bzna"
    same "has the names" "$(names "$t/x/all.bzna")" "$(names "$t/all.bzna")"
    # A full disk: nothing is left that looks complete.
    run sh -c 'ulimit -f 1; exec "$@"' sh "$bzna" convert "$t/all.bzna" -o "$t/x/full.tar"
    same "a full disk is an error" "$status $(find "$t/x" -name "full*")" "1 "
    says "$t/err" "x/full.tar: cannot be written: File too large" "it is the reason"
}

prepare
split_tests
merge_tests
behind_tests
gap_tests
diff_tests
recover_tests
extract_tests
convert_tests
kinds_tests
matrix_tests
finish
