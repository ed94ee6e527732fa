/* bench_digests.c - whether libraries deliver the same batches: a hash of all that batches of records and of a folder
 * have, for many settings, once for each library given. Each must have the first one's hashes.
 *
 *     cc -O2 -std=c11 -I. -Iexamples/formats tests/bench/bench_digests.c -ldl -o bench_digests
 *     ./bench_digests FOLDER_OF_PICTURES FILE_TO_WRITE before.so after.so
 *
 * FILE_TO_WRITE gets noise, which is opened as records: held in memory, and read from the file. */
#define _GNU_SOURCE
#include "formats.h"
#include "library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RECORDS = 1500, BYTES = 3073, VARIANTS = 14 };

static const struct { const char *name; uint32_t width, height, channels, type, label; } sets[] = {
    { "gray, 28x28", 28, 28, 1, BZNA_RECORD_UINT8, 0 },        { "32x32, in planes", 32, 32, 3, BZNA_RECORD_UINT8, 1 },
    { "768 floats", 768, 1, 1, BZNA_RECORD_FLOAT32, 0 },       { "a folder", 0, 0, 0, 0, 0 },
};

#define CALL(name) ((__typeof__(&(name)))find(library, #name))

static uint64_t hash_bytes(uint64_t hash, const void *data, uint64_t size)
{
    const uint8_t *bytes = data;
    for (uint64_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

/* What a library calls BZNA_WARP_NONE: in builds whose default did not scale, it was 0. */
static uint32_t warp_none(void *library)
{
    const bzna_warp given = { 0 };
    bzna_random random;
    double h[9];
    CALL(bzna_random_init)(&random, 0, 0, 0, 0);
    check(CALL(bzna_warp_draw)(&random, &given, 64, 64, 32, 32, h, NULL), NULL);
    return h[0] == 1 ? 0 : BZNA_WARP_NONE;
}

/* A setting of each kind, and numbers of threads, are in one variant at least. none: the warp of the other variants. */
static bzna_loader_config config_of(uint32_t set, int variant, uint32_t none)
{
    bzna_loader_config c = { .struct_size = sizeof c };
    const int has_vectors = sets[set].type == BZNA_RECORD_FLOAT32;
    c.order.kind = variant == 1 ? BZNA_ORDER_SEQUENTIAL : BZNA_ORDER_SHUFFLE;
    c.order.seed = 5;
    c.order.epochs = variant == 2 ? 2 : 1;
    c.order.last_batch = variant == 2 ? BZNA_LAST_PAD : variant == 4 ? BZNA_LAST_FILL : BZNA_LAST_PARTIAL;
    c.output.batch_size = variant == 3 ? 7 : variant == 12 ? 100 : 64;
    c.decode.threads = variant == 7 ? 0 : (uint32_t)variant % 3 + 1;
    c.read.threads = variant == 5 ? 1 : variant == 6 ? 2 : 0;
    c.pipeline.no_threads = variant == 7;
    if (has_vectors) {
        c.fields.tensors = "data";
        return c;
    }
    c.output.width = c.output.height = variant == 9 || !sets[set].width ? 40 : sets[set].width;
    c.output.dtype = variant == 8 ? BZNA_DTYPE_UINT8 : variant == 10 ? BZNA_DTYPE_FLOAT16 : BZNA_DTYPE_FLOAT32;
    c.output.layout = variant % 2 ? BZNA_LAYOUT_NHWC : BZNA_LAYOUT_NCHW;
    c.output.channels = sets[set].channels == 1 ? BZNA_CHANNELS_GRAY : variant == 12 ? BZNA_CHANNELS_BGR : 0;
    c.warp.kind = none;
    if (variant == 9 || variant == 13) {
        c.warp.kind = variant == 9 ? BZNA_WARP_RANDOM_RESIZED_CROP : BZNA_WARP_SIMILARITY;
        c.warp.flip_h = variant == 13;
    } else if (variant >= 3) {
        c.warp.kind = BZNA_WARP_MXNET;
        c.warp.mxnet.pad_px = 2;
        c.warp.random_crop = 1;
        c.warp.flip_h = 0.5;
    }
    c.color.jitter.brightness[0] = variant == 11 ? 0.5f : 0;
    c.color.jitter.brightness[1] = variant == 11 ? 1.5f : 0;
    for (int i = 0; i < 3 && variant != 8; i++) {
        c.color.mean[i] = (float)(120 + i);
        c.color.std[i] = (float)(60 + i);
    }
    return c;
}

static uint64_t hash_batches(void *library, bzna_loader *loader)
{
    static const char *const names[] = { "image", "target", "index", "status", "data" };
    bzna_error err = { .struct_size = sizeof err };
    bzna_batch *batch = NULL;
    uint64_t hash = 0xcbf29ce484222325u;
    bzna_status status;
    while ((status = CALL(bzna_loader_next)(loader, BZNA_WAIT_FOREVER, &batch, &err)) == BZNA_OK) {
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            bzna_tensor t = { .struct_size = sizeof t };
            if (CALL(bzna_batch_tensor)(batch, names[i], &t, sizeof t, &err) == BZNA_OK)
                hash = hash_bytes(hash, t.data, t.bytes);
        }
        CALL(bzna_batch_release)(batch);
    }
    check(status, &err);
    return hash;
}

static uint64_t hash_run(void *library, const char *path, uint32_t set, int is_held, int variant)
{
    bzna_error err = { .struct_size = sizeof err };
    bzna_context_config context_config = { .struct_size = sizeof context_config };
    bzna_records records = { .struct_size = sizeof records };
    const bzna_loader_config loader_config = config_of(set, variant, warp_none(library));
    bzna_context *context = NULL;
    bzna_dataset *dataset = NULL;
    bzna_loader *loader = NULL;
    uint64_t hash;
    records.data_type = sets[set].type;
    records.width = sets[set].width;
    records.height = sets[set].height;
    records.channels = sets[set].channels;
    records.data_offset = sets[set].label;
    records.label_type = sets[set].label ? BZNA_RECORD_UINT8 : BZNA_RECORD_NONE;
    records.stride = BYTES;
    check(CALL(bzna_context_open)(&context_config, &context, &err), &err);
    /* a limit of 1 is too few for any file */
    open_data(library, context, path, NULL, 0, sets[set].width ? &records : NULL, !is_held, &dataset);
    check(CALL(bzna_loader_open)(context, dataset, &loader_config, &loader, &err), &err);
    hash = hash_batches(library, loader);
    CALL(bzna_loader_close)(loader);
    CALL(bzna_dataset_close)(dataset);
    CALL(bzna_context_close)(context);
    return hash;
}

/* The hash by one library, in a process of its own, since two that need libbenzina.so would share one. */
static uint64_t hash_by(const char *library_path, const char *path, uint32_t set, int is_held, int variant)
{
    uint64_t hash = 0;
    int ends[2], status;

    if (pipe(ends))
        exit(1);
    if (fork() == 0) {
        void *library = dlopen(library_path, RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            fprintf(stderr, "%s\n", dlerror());
            _exit(1);
        }
        hash = hash_run(library, path, set, is_held, variant);
        _exit(write(ends[1], &hash, sizeof hash) != (ssize_t)sizeof hash);
    }
    close(ends[1]);
    wait(&status);
    if (status || read(ends[0], &hash, sizeof hash) != (ssize_t)sizeof hash)
        exit(1);
    close(ends[0]);
    return hash;
}

static void write_noise(const char *path)
{
    FILE *f = fopen(path, "wb");
    uint64_t x = 1;
    for (long i = 0; f && i < (long)RECORDS * BYTES; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        putc((int)(x >> 56), f);
    }
    if (!f || fclose(f))
        exit(1);
}

int main(int count, char **argument)
{
    int different = 0, compared = 0;
    if (count < 5) {
        fprintf(stderr, "usage: bench_digests FOLDER_OF_PICTURES FILE_TO_WRITE BEFORE.so AFTER.so...\n");
        return 1;
    }
    write_noise(argument[2]);
    for (uint32_t set = 0; set < sizeof sets / sizeof *sets; set++)
        for (int way = 0; way < (sets[set].width ? 2 : 1) * VARIANTS; way++) {
            uint64_t first = 0;
            for (int i = 3; i < count; i++) {
                const uint64_t hash = hash_by(argument[i], argument[sets[set].width ? 2 : 1], set, way < VARIANTS,
                                              way % VARIANTS);
                first = i == 3 ? hash : first;
                compared += i > 3;
                different += hash != first;
                if (hash != first)
                    printf("%s, %s, variant %d: %s differs\n", sets[set].name, way < VARIANTS ? "memory" : "a file",
                           way % VARIANTS, argument[i]);
            }
        }
    printf("%d compared, %d differ\n", compared, different);
    return different != 0;
}
