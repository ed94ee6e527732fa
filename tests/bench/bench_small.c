/* bench_small.c - how many small pictures a second a loader delivers, how often its threads take turns, and how much of
 * the time the kernel has: once for each library and each data set given, in turns in one run.
 *
 *     cc -O2 -std=c11 -I. -Iexamples/formats tests/bench/bench_small.c -ldl -o bench_small
 *     ./bench_small cifar:FILE|vectors:FILE|DATA SIZE BATCH THREADS READERS SECONDS ROUNDS before.so after.so
 *
 * cifar:FILE is a file of CIFAR-10's records: 32x32, label first; memory:FILE the same, opened in memory. They are
 * padded by 2, cropped, flipped and normalized. gray:FILE has gray pictures of SIZE pixels, which are normalized, and
 * gray-memory:FILE the same, opened in memory. vectors:FILE has vectors of SIZE floats, and vector-memory:FILE the
 * same, opened in memory. Any other DATA gets a random resized crop. Several DATA are separated by commas, and take
 * turns. READERS 0 is the default. Medians of ROUNDS are printed.
 *
 * provider:FILE is what cifar:FILE is, by a provider whose pictures lie in the file; with provider-memory:FILE, they
 * lie in memory, and with provider-read:FILE, a function copies them from there. Records are opened by a library that
 * is libbenzina_formats.so, or of 0.3. */
#define _GNU_SOURCE
#include "formats.h"
#include "library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct figures {
    double rate, switches, kernel, cpu;         /* pictures a second; a picture; of CPU time; microseconds a picture */
} figures;

/* Before so many batches came, the loader touches new memory, which the kernel clears. */
enum { ROUNDS_MAX = 99, WAYS_MAX = 16, WARM_BATCHES = 12 };

/* CIFAR-10: a byte of the label, and planes of 32x32. */
enum { CIFAR_PIXELS = 3 * 32 * 32, CIFAR_BYTES = 1 + CIFAR_PIXELS };

static double seconds_of(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec * 1e-6; }

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *read_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    void *bytes;
    if (!f || fseek(f, 0, SEEK_END))
        exit(1);
    *size = (size_t)ftell(f);
    rewind(f);
    bytes = malloc(*size);
    if (!bytes || fread(bytes, 1, *size, f) != *size)
        exit(1);
    fclose(f);
    return bytes;
}

/* Gives values of CIFAR's records, which begin at user: a picture, and a target of 8 bytes. */
static bzna_status read_cifar(void *user, uint64_t index, uint32_t field, void *buffer, uint64_t capacity,
                              uint64_t *size, bzna_error *err)
{
    (void)err;
    const uint8_t *record = (const uint8_t *)user + index * CIFAR_BYTES;
    const int64_t target = record[0];
    *size = field ? sizeof target : CIFAR_PIXELS;
    if (*size <= capacity)
        memcpy(buffer, field ? (const void *)&target : record + 1, (size_t)*size);
    return BZNA_OK;
}

/* Opens CIFAR's records by a provider: as `data` says, until its colon. */
static bzna_dataset *open_cifar(void *library, bzna_context *context, const char *data, const char *path)
{
    const int has_places = strncmp(data, "provider-read:", 14) != 0, in_memory = data[8] != ':';
    const bzna_provider_field fields[] = {
        { .name = "image", .kind = BZNA_FIELD_IMAGE, .located = (uint32_t)has_places, .codec = BZNA_CODEC_RAW,
          .width = 32, .height = 32, .channels = 3, .layout = BZNA_LAYOUT_NCHW },
        { .name = "target", .kind = BZNA_FIELD_INTEGER, .located = (uint32_t)has_places } };
    bzna_provider provider = { .struct_size = sizeof provider, .fields = fields, .field_count = 2 };
    bzna_error err = { .struct_size = sizeof err };
    bzna_dataset *dataset = NULL;
    size_t size = 0;
    uint8_t *bytes = read_file(path, &size);
    bzna_place *places;
    int64_t *targets;

    provider.count = size / CIFAR_BYTES;
    provider.user = bytes;
    places = calloc(provider.count, 2 * sizeof *places);
    targets = calloc(provider.count, sizeof *targets);
    if (!places || !targets)
        exit(1);
    for (uint64_t i = 0; i < provider.count; i++) {
        const uint8_t *record = bytes + i * CIFAR_BYTES;
        targets[i] = record[0];
        places[2 * i] = (bzna_place){ .data = in_memory ? record + 1 : NULL, .size = CIFAR_PIXELS,
                                      .offset = i * CIFAR_BYTES + 1 };
        places[2 * i + 1] = (bzna_place){ .data = &targets[i], .size = sizeof *targets };
    }
    provider.places = has_places ? places : NULL;
    provider.read = has_places ? NULL : read_cifar;
    provider.files = in_memory ? NULL : &path;
    provider.file_count = !in_memory;
    check(((__typeof__(&bzna_dataset_open_provider))find(library, "bzna_dataset_open_provider"))(
              context, &provider, NULL, &dataset, &err), &err);
    return dataset;
}

static bzna_loader *open_loader(void *library, const char *data, char **argument)
{
    bzna_error err;
    bzna_context *context = NULL;
    bzna_dataset *dataset = NULL;
    bzna_loader *loader = NULL;
    bzna_context_config context_config = { .struct_size = sizeof context_config };
    bzna_records records = { .struct_size = sizeof records };
    bzna_loader_config config = { .struct_size = sizeof config };
    const uint32_t size = (uint32_t)atoi(argument[2]);
    const char *const colon = strchr(data, ':'), *const path = colon ? colon + 1 : data;
    const int has_vectors = !strncmp(data, "vector", 6), is_gray = !strncmp(data, "gray", 4);
    const int is_provided = !strncmp(data, "provider", 8);
    const int is_cifar = colon && !has_vectors && !is_gray;
    const int in_memory = colon && colon - argument[1] >= 6 && !strncmp(colon - 6, "memory", 6);
    err.struct_size = sizeof err;
    if (is_cifar) {
        records.data_type = BZNA_RECORD_UINT8;
        records.width = records.height = 32;
        records.channels = 3;
        records.data_offset = 1;
        records.label_type = BZNA_RECORD_UINT8;
    } else if (is_gray) {
        records.data_type = BZNA_RECORD_UINT8;
        records.width = records.height = size;
        records.channels = 1;
        config.output.channels = BZNA_CHANNELS_GRAY;
    } else if (has_vectors) {
        records.data_type = BZNA_RECORD_FLOAT32;
        records.width = size;
        records.height = records.channels = 1;
        config.fields.tensors = "data";
    }
    config.output.width = config.output.height = has_vectors ? 0 : size;
    config.output.batch_size = (uint32_t)atoi(argument[3]);
    config.order.kind = BZNA_ORDER_SHUFFLE;
    config.order.epochs = BZNA_EPOCHS_ENDLESS;
    config.decode.threads = (uint32_t)atoi(argument[4]);
    config.read.threads = (uint32_t)atoi(argument[5]);
    config.warp.kind = has_vectors || is_gray ? BZNA_WARP_CENTER_RESIZED_CROP
                     : is_cifar               ? BZNA_WARP_MXNET
                                              : BZNA_WARP_RANDOM_RESIZED_CROP;
    config.warp.mxnet.pad_px = is_cifar ? 2 : 0;
    config.warp.random_crop = (uint32_t)is_cifar;
    config.warp.flip_h = has_vectors || is_gray ? 0 : 0.5f;
    for (int i = 0; i < 3 && !has_vectors; i++) {
        config.color.mean[i] = 120;
        config.color.std[i] = 60;
    }
    check(((__typeof__(&bzna_context_open))find(library, "bzna_context_open"))(&context_config, &context, &err), &err);
    if (is_provided) {
        dataset = open_cifar(library, context, data, path);
    } else {
        size_t size = 0;
        void *bytes = in_memory ? read_file(path, &size) : NULL;
        open_data(library, context, in_memory ? NULL : path, bytes, size,
                  is_cifar || is_gray || has_vectors ? &records : NULL, 0, &dataset);
    }
    check(((__typeof__(&bzna_loader_open))find(library, "bzna_loader_open"))(context, dataset, &config, &loader, &err),
          &err);
    return loader;
}

static uint64_t records_of(const char *path)
{
    size_t size = 0;
    free(read_file(path, &size));
    return size / CIFAR_BYTES;
}

static figures measure(const char *path, const char *data, char **argument)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    __typeof__(&bzna_loader_next) next = find(library, "bzna_loader_next");
    __typeof__(&bzna_batch_release) release = find(library, "bzna_batch_release");
    bzna_loader *loader = open_loader(library, data, argument);
    bzna_error err = { .struct_size = sizeof err };
    struct rusage a, b;
    const double length = atof(argument[6]);
    /* what a provider's file has is held after one epoch, while records are read when they are opened */
    const double warm = strncmp(data, "provider:", 9) ? 0 : (double)records_of(data + 9);
    double begin = now(), count = 0;
    for (int is_measured = 0; is_measured < 2; is_measured++) {
        count = 0;
        begin = now();
        getrusage(RUSAGE_SELF, &a);
        for (int i = 0; now() - begin < (is_measured ? length : 0.3) ||
                        (!is_measured && (i < WARM_BATCHES || count < warm)); i++) {
            bzna_batch *batch = NULL;
            check(next(loader, BZNA_WAIT_FOREVER, &batch, &err), &err);
            release(batch);
            count += atof(argument[3]);
        }
    }
    getrusage(RUSAGE_SELF, &b);
    const double user = seconds_of(b.ru_utime) - seconds_of(a.ru_utime);
    const double kernel = seconds_of(b.ru_stime) - seconds_of(a.ru_stime);
    return (figures){ count / (now() - begin), (double)(b.ru_nvcsw - a.ru_nvcsw + b.ru_nivcsw - a.ru_nivcsw) / count,
                      kernel / (user + kernel), (user + kernel) / count * 1e6 };
}

/* In a process of its own. */
static figures run(const char *path, const char *data, char **argument)
{
    int ends[2], status;
    figures result = { 0, 0, 0, 0 };
    if (pipe(ends))
        exit(1);
    if (fork() == 0) {
        result = measure(path, data, argument);
        _exit(write(ends[1], &result, sizeof result) != (ssize_t)sizeof result);
    }
    close(ends[1]);
    wait(&status);
    if (status || read(ends[0], &result, sizeof result) != (ssize_t)sizeof result)
        exit(1);
    close(ends[0]);
    return result;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, by_value);
    return values[count / 2];
}

int main(int count, char **argument)
{
    static double values[WAYS_MAX][5][ROUNDS_MAX];
    static const char *data[WAYS_MAX];
    const int rounds = count > 7 ? atoi(argument[7]) : 0, libraries = count - 8;
    int kinds = 0, ways;
    for (char *one = count > 1 ? strtok(argument[1], ",") : NULL; one && kinds < WAYS_MAX; one = strtok(NULL, ","))
        data[kinds++] = one;
    ways = kinds * libraries;
    if (libraries < 1 || ways < 1 || ways > WAYS_MAX || rounds < 1 || rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: bench_small DATA[,DATA...] SIZE BATCH THREADS READERS SECONDS ROUNDS LIBRARY...\n");
        return 1;
    }
    for (int i = 0; i < rounds; i++)
        for (int k = 0; k < ways; k++) {
            const figures f = run(argument[8 + k % libraries], data[k / libraries], argument);
            values[k][0][i] = f.rate;
            values[k][1][i] = f.switches;
            values[k][2][i] = f.kernel;
            values[k][3][i] = f.cpu;
            values[k][4][i] = f.rate / values[0][0][i];
        }
    for (int k = 0; k < ways; k++)
        printf("%-24s %s%s%9.0f/s  %.2f of the first  %.4f switches  kernel %4.1f %%  %6.2f us of CPU time\n",
               argument[8 + k % libraries], kinds > 1 ? data[k / libraries] : "", kinds > 1 ? " " : "",
               median(values[k][0], rounds), median(values[k][4], rounds), median(values[k][1], rounds),
               100 * median(values[k][2], rounds), median(values[k][3], rounds));
    return 0;
}
