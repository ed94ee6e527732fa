/* bench_sessions.c - the GPU path on tests/bench/null_driver.c. Usage:
 *     bench_sessions [--model] ARCHIVE [SECONDS [WORD]]
 * LD_LIBRARY_PATH names the null driver's folder. WORD: only the model's devices that have it in their names.
 *
 * What it costs the host without the driver: reading, parsing, queues, locks and batches. An upper bound for images/s
 * on this machine's processors, and the library's own part of the CPU time of each image.
 *
 * --model: what number of sessions, depth and number of mapped surfaces suit devices of different kinds, of which the
 * driver is told what they cost (null_driver.h). The figures are of that model, whose numbers are guesses at what a
 * device may be like: they tell which settings are good on all of them, not how fast a device is. */
#define BENCH_SCALE 50                /* the model's time is so many times slower than it says */
#define BZI_NVDEC_POLL_NS (100000u * BENCH_SCALE)
#include "../../benzina.c"
#include "null_driver.h"

static double now(void) { return (double)bzi_os_now_ns() * 1e-9; }

static double cpu(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

/* What one run comes to. */
typedef struct figures {
    double images_per_s, cpu_us;      /* real time */
    double calls, map_us;             /* of each picture */
} figures;

static null_model *model;

static bzna_status walk(const char *path, const bzna_context_config *where, double seconds, figures *f, bzna_error *err)
{
    bzna_loader_config config;
    bzna_context *context = NULL;
    bzna_dataset *dataset = NULL;
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_status status;
    static uint64_t indices[1 << 16];
    bzna_loader_config_init(&config, sizeof config);
    config.output.batch_size = 256;
    config.output.width = config.output.height = 224;
    config.order.indices = indices;                         /* few samples, many times: epochs of some length */
    config.order.index_count = 1 << 16;
    config.order.epochs = BZNA_EPOCHS_ENDLESS;
    config.warp.kind = BZNA_WARP_RANDOM_RESIZED_CROP;
    config.decode.decoder = BZNA_DECODER_NVDEC;
    if ((status = bzna_context_open(where, &context, err)) == BZNA_OK &&
        (status = bzna_dataset_open(context, path, NULL, &dataset, err)) == BZNA_OK) {
        for (uint32_t i = 0; i < 1 << 16; i++)
            indices[i] = i % bzna_dataset_count(dataset);
        status = bzna_loader_open(context, dataset, &config, &loader, err);
    }
    if (status == BZNA_OK) {
        const int warm = model->scale > 0 ? 2 : 20;
        double begun = 0, spent = 0, images = 0;
        long long calls = 0, pictures = 0, map_ns = 0;
        for (int i = 0; status == BZNA_OK && (begun == 0 || now() - begun < seconds); i++) {
            if (i == warm) {
                begun = now();
                spent = cpu();
                images = 0;
                calls = model->calls;
                pictures = model->pictures;
                map_ns = model->map_ns;
            }
            if ((status = bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, err)) == BZNA_OK) {
                images += 256;
                bzna_batch_release(batch);
            }
        }
        f->images_per_s = images / (now() - begun);
        f->cpu_us = (cpu() - spent) / images * 1e6;
        f->calls = (double)(model->calls - calls) / fmax(1, (double)(model->pictures - pictures));
        f->map_us = (double)(model->map_ns - map_ns) / fmax(1, (double)(model->pictures - pictures)) * 1e-3;
    }
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    return status;
}

static bzna_status host_alone(const char *path, double seconds, bzna_error *err)
{
    static const uint32_t sessions[] = { 1, 2, 4, 7, 14, 28 };
    bzna_status status = BZNA_OK;
    for (size_t i = 0; i < sizeof sessions / sizeof sessions[0] && status == BZNA_OK; i++) {
        bzna_context_config where;
        figures f;
        bzna_context_config_init(&where, sizeof where);
        where.device.kind = BZNA_DEVICE_CUDA;
        where.sessions = sessions[i];
        if ((status = walk(path, &where, seconds, &f, err)) == BZNA_OK)
            printf("sessions %2u: %7.0f images/s, %5.2f us of CPU time an image\n", sessions[i], f.images_per_s,
                   f.cpu_us);
    }
    return status;
}

/* Devices: the first is as one with 7 engines may be, the others differ from it in what they say. */
static const struct device {
    const char *name;
    int         engines;
    double      lock_us, kilobyte_us, busy_us;    /* busy_us: of each 5000 */
    int         dynamic, surface_waits, spins;
} devices[] = {
    { "7 engines, a decoder has one of them",        7, 2, 8,    0, 0, 0, 0 },
    { "7 engines, each picture takes a free one",    7, 2, 8,    0, 1, 0, 0 },
    { "calls hold no lock",                          7, 0, 8,    0, 0, 0, 0 },
    { "calls hold the lock for 5 us",                7, 5, 8,    0, 0, 0, 0 },
    { "calls hold the lock for 10 us",               7, 10, 8,   0, 0, 0, 0 },
    { "calls hold the lock for 15 us",               7, 15, 8,   0, 0, 0, 0 },
    { "bytes take a third of the time",              7, 2, 3,    0, 0, 0, 0 },
    { "the program fills the device 4 of 5 ms",      7, 2, 8, 4000, 0, 0, 0 },
    { "surfaces wait for their copies",              7, 2, 8,    0, 0, 1, 0 },
    { "both",                                        7, 2, 8, 4000, 0, 1, 0 },
    { "waiting calls would spin",                    7, 2, 8,    0, 0, 0, 1 },
    { "4 engines",                                   4, 2, 8,    0, 0, 0, 0 },
    { "1 engine",                                    1, 2, 8,    0, 0, 0, 0 },
    { "1 engine, waiting calls would spin",          1, 2, 8,    0, 0, 0, 1 },
};

static null_model model_of(const struct device *d)
{
    null_model m = { .scale = BENCH_SCALE, .picture_us = 40, .copy_us = 6, .slot_us = 4, .sm_period_us = 5000 };
    m.lock_us = d->lock_us;
    m.kilobyte_us = d->kilobyte_us;
    m.sm_busy_us = d->busy_us;
    m.engines = d->engines;
    m.dynamic = d->dynamic;
    m.surface_waits = d->surface_waits;
    m.spins = d->spins;
    return m;
}

/* Sessions an engine, depth, mapped surfaces. 0: the default. */
static const uint32_t settings[][3] = {
    { 2, 4, 8 }, { 1, 4, 8 }, { 3, 4, 8 }, { 4, 4, 8 }, { 2, 2, 8 }, { 2, 8, 8 }, { 2, 4, 4 }, { 2, 4, 1 }, { 0, 0, 0 },
};

/* A table: a device a row, with thousands of pictures a second for each setting, and calls of the driver a picture. */
static bzna_status sweep(const char *path, double seconds, const char *word, bzna_error *err)
{
    const size_t ways = sizeof settings / sizeof settings[0];
    bzna_status status = BZNA_OK;
    printf("| device |");
    for (size_t k = 0; k + 1 < ways; k++)
        printf(" %u, %u, %u |", settings[k][0], settings[k][1], settings[k][2]);
    printf(" default | calls | waiting |\n|---|");
    for (size_t k = 0; k < ways + 2; k++)
        printf("---|");
    printf("\n");
    for (size_t i = 0; i < sizeof devices / sizeof devices[0] && status == BZNA_OK; i++) {
        figures f = { 0 };
        if (word && !strstr(devices[i].name, word))
            continue;
        printf("| %s |", devices[i].name);
        for (size_t k = 0; k < ways && status == BZNA_OK; k++) {
            bzna_context_config where;
            bzna_context_config_init(&where, sizeof where);
            where.device.kind = BZNA_DEVICE_CUDA;
            where.sessions_per_engine = settings[k][0];
            where.session_depth = settings[k][1];
            where.session_mapped = settings[k][2];
            *model = model_of(&devices[i]);
            if ((status = walk(path, &where, seconds, &f, err)) == BZNA_OK)
                printf(" %.1f |", f.images_per_s * BENCH_SCALE * 1e-3);
            fflush(stdout);
        }
        printf(" %.2f | %.0f us |\n", f.calls, f.map_us);
    }
    return status;
}

int main(int argc, char **argv)
{
    bzna_error err = { .struct_size = sizeof err };
    const int is_model = argc > 1 && !strcmp(argv[1], "--model");
    const char *path = argc > 1 + is_model ? argv[1 + is_model] : NULL;
    const double seconds = argc > 2 + is_model ? atof(argv[2 + is_model]) : 2;
    const char *word = argc > 3 + is_model ? argv[3 + is_model] : NULL;
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    model = library ? dlsym(library, "null_model_state") : NULL;
    if (!path || !model) {
        fprintf(stderr, "bench_sessions: %s\n", path ? "libcuda.so.1 is not the null driver" :
                                                        "usage: bench_sessions [--model] ARCHIVE [SECONDS [WORD]]");
        return 1;
    }
    if ((is_model ? sweep(path, seconds, word, &err) : host_alone(path, seconds, &err)) < 0) {
        fprintf(stderr, "bench_sessions: %s\n", err.message);
        return 1;
    }
    return 0;
}
