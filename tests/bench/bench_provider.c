/* bench_provider.c - how many pictures a second a provider gives beside the tar that holds the same pictures
 *
 *     make build/bench/provider && build/bench/provider pictures.tar [SIZE [THREADS [EPOCHS]]]
 *
 * The provider gives them in four ways: `read` copies them from memory, `read` reads them from the tar, a table of
 * places says where they lie in the tar, and one where they lie in memory. Each way takes turns with the tar, which is
 * opened by its path. Printed are the medians of 11 pairs, in sequential and in shuffled order; also of processor time,
 * which other work on the machine changes less. */
#include "benzina.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PAIRS = 11, READ_MEMORY, READ_FILE, PLACES_FILE, PLACES_MEMORY, WAYS };

static const char *const way_names[] = { [READ_MEMORY] = "read from memory", [READ_FILE] = "read from the tar",
                                         [PLACES_FILE] = "places in the tar", [PLACES_MEMORY] = "places in memory" };

typedef struct pictures {
    bzna_place *in_file;              /* of image and target of each */
    bzna_place *in_memory;
    int64_t    *targets;
    uint64_t    count;
    int         fd;                   /* of the tar, for read; -1: it copies from memory */
} pictures;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void check(bzna_status status, const bzna_error *err)
{
    if (status >= 0)
        return;
    fprintf(stderr, "%s\n", err->message);
    exit(1);
}

static void *take(size_t count, size_t size)
{
    void *p = calloc(count, size);
    if (!p)
        exit(1);
    return p;
}

static bzna_status give(void *user, uint64_t index, uint32_t field, void *buffer, uint64_t capacity, uint64_t *size,
                        bzna_error *err)
{
    (void)err;
    const pictures *p = user;
    const bzna_place *file = &p->in_file[2 * index + field], *memory = &p->in_memory[2 * index + field];

    *size = memory->size;
    if (*size > capacity)
        return BZNA_OK;
    if (field == 1 || p->fd < 0)
        memcpy(buffer, memory->data, (size_t)*size);
    else if (pread(p->fd, buffer, (size_t)*size, (off_t)file->offset) != (ssize_t)*size)
        return BZNA_E_IO;
    return BZNA_OK;
}

/* Finds the pictures of a tar, in the file and in a copy in memory. */
static void pictures_find(pictures *p, const bzna_dataset *tar, const char *path, bzna_error *err)
{
    FILE *f = fopen(path, "rb");
    long size;
    char *bytes;

    if (!f || fseek(f, 0, SEEK_END) || (size = ftell(f)) < 0 || fseek(f, 0, SEEK_SET))
        exit(1);
    bytes = take((size_t)size, 1);
    if (fread(bytes, 1, (size_t)size, f) != (size_t)size)
        exit(1);
    fclose(f);

    p->count = bzna_dataset_count(tar);
    p->in_file = take(p->count, 2 * sizeof *p->in_file);
    p->in_memory = take(p->count, 2 * sizeof *p->in_memory);
    p->targets = take(p->count, sizeof *p->targets);
    for (uint64_t i = 0; i < p->count; i++) {
        bzna_image_info info;
        check(bzna_dataset_image_info(tar, i, "image", &info, sizeof info, err), err);
        check(bzna_dataset_target(tar, i, &p->targets[i], err), err);
        p->in_file[2 * i] = (bzna_place){ .offset = info.data_offset, .size = info.data_size };
        p->in_memory[2 * i] = (bzna_place){ .data = bytes + info.data_offset, .size = info.data_size };
        p->in_file[2 * i + 1] = p->in_memory[2 * i + 1] =
            (bzna_place){ .data = p->targets + i, .size = sizeof(int64_t) };
    }
}

static bzna_dataset *open_way(bzna_context *context, pictures *p, int way, const char *path, bzna_error *err)
{
    const uint32_t located = way >= PLACES_FILE;
    const bzna_provider_field fields[] = {
        { .name = "image", .kind = BZNA_FIELD_IMAGE, .located = located },
        { .name = "target", .kind = BZNA_FIELD_INTEGER, .located = located } };
    bzna_dataset *dataset = NULL;
    bzna_provider provider;

    p->fd = way == READ_FILE ? open(path, O_RDONLY) : -1;
    bzna_provider_init(&provider, sizeof provider);
    provider.user = p;
    provider.count = p->count;
    provider.fields = fields;
    provider.field_count = 2;
    provider.read = located ? NULL : give;
    provider.places = way == PLACES_FILE ? p->in_file : way == PLACES_MEMORY ? p->in_memory : NULL;
    provider.files = way == PLACES_FILE ? &path : NULL;
    provider.file_count = way == PLACES_FILE;
    check(bzna_dataset_open_provider(context, &provider, NULL, &dataset, err), err);
    return dataset;
}

/* Pictures a second, of some epochs. *busy: a second of the processors. */
static double rate(bzna_context *context, bzna_dataset *dataset, const bzna_loader_config *config, double *busy,
                   bzna_error *err)
{
    const clock_t cpu = clock();
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_batch_info info;
    uint64_t pictures_done = 0;
    bzna_status status;
    double begin = now();

    check(bzna_loader_open(context, dataset, config, &loader, err), err);
    while ((status = bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, err)) == BZNA_OK) {
        check(bzna_batch_get_info(batch, &info, sizeof info, err), err);
        pictures_done += info.count - info.failed;
        bzna_batch_release(batch);
    }
    check(status, err);
    bzna_loader_close(loader);
    *busy = (double)pictures_done / ((double)(clock() - cpu) / CLOCKS_PER_SEC);
    return (double)pictures_done / (now() - begin);
}

static int is_before(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    pictures p = { .fd = -1 };
    bzna_loader_config config;
    bzna_context *context = NULL;
    bzna_dataset *tar = NULL;
    bzna_error err;

    if (argc < 2) {
        fprintf(stderr, "usage: %s PICTURES.TAR [SIZE [THREADS [EPOCHS]]]\n", argv[0]);
        return 2;
    }
    bzna_error_init(&err, sizeof err);
    check(bzna_context_open(NULL, &context, &err), &err);
    check(bzna_dataset_open(context, argv[1], NULL, &tar, &err), &err);
    pictures_find(&p, tar, argv[1], &err);

    bzna_loader_config_init(&config, sizeof config);
    config.output.batch_size = 64;
    config.output.width = config.output.height = argc > 2 ? (uint32_t)atoi(argv[2]) : 224;
    config.decode.threads = argc > 3 ? (uint32_t)atoi(argv[3]) : 0;
    config.order.epochs = argc > 4 ? (uint64_t)atoi(argv[4]) : 1;
    config.warp.kind = BZNA_WARP_RANDOM_RESIZED_CROP;

    for (int way = READ_MEMORY; way < WAYS; way++)
        for (uint32_t order = BZNA_ORDER_SEQUENTIAL; order <= BZNA_ORDER_SHUFFLE; order++) {
            bzna_dataset *dataset = open_way(context, &p, way, argv[1], &err);
            double ratios[PAIRS], busy[PAIRS], tars[PAIRS], own[PAIRS], mine = 1, its = 1;
            config.order.kind = order;
            for (int i = 0; i < PAIRS; i++) {
                if (i % 2)
                    own[i] = rate(context, dataset, &config, &mine, &err);
                tars[i] = rate(context, tar, &config, &its, &err);
                if (i % 2 == 0)
                    own[i] = rate(context, dataset, &config, &mine, &err);
                ratios[i] = own[i] / tars[i];
                busy[i] = mine / its;
            }
            qsort(busy, PAIRS, sizeof *busy, is_before);
            qsort(ratios, PAIRS, sizeof *ratios, is_before);
            qsort(tars, PAIRS, sizeof *tars, is_before);
            qsort(own, PAIRS, sizeof *own, is_before);
            printf("%-18s %-10s tar %7.0f/s, provider %7.0f/s, ratio %.3f (%.3f to %.3f), of processor time %.3f\n",
                   way_names[way], order ? "shuffled" : "in order", tars[PAIRS / 2], own[PAIRS / 2], ratios[PAIRS / 2],
                   ratios[0], ratios[PAIRS - 1], busy[PAIRS / 2]);
            fflush(stdout);
            if (p.fd >= 0)
                close(p.fd);
            bzna_dataset_close(dataset);
        }
    bzna_dataset_close(tar);
    bzna_context_close(context);
    return 0;
}
