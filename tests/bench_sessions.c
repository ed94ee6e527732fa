/* bench_sessions.c - what the GPU path costs the host without the driver: reading, parsing, queues, locks and batches,
 * on tests/null_driver.c. An upper bound for images/s on this machine's processors, and the library's own part of the
 * CPU time of each image. Usage: bench_sessions ARCHIVE [SECONDS]; LD_LIBRARY_PATH names the null driver's folder. */
#define _POSIX_C_SOURCE 200809L
#include "../benzina.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double cpu(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static int walk(const char *path, uint32_t sessions, double seconds, bzna_error *err)
{
    bzna_context_config where;
    bzna_loader_config config;
    bzna_context *context = NULL;
    bzna_dataset *dataset = NULL;
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_status status;
    static uint64_t indices[1 << 16];
    bzna_context_config_init(&where, sizeof where);
    where.device.kind = BZNA_DEVICE_CUDA;
    where.sessions = sessions;
    bzna_loader_config_init(&config, sizeof config);
    config.output.batch_size = 256;
    config.output.width = config.output.height = 224;
    config.order.indices = indices;                         /* few samples, many times: epochs of some length */
    config.order.index_count = 1 << 16;
    config.order.epochs = BZNA_EPOCHS_ENDLESS;
    config.warp.kind = BZNA_WARP_RANDOM_RESIZED_CROP;
    config.decode.decoder = BZNA_DECODER_NVDEC;
    if ((status = bzna_context_open(&where, &context, err)) == BZNA_OK &&
        (status = bzna_dataset_open(context, path, NULL, &dataset, err)) == BZNA_OK) {
        for (uint32_t i = 0; i < 1 << 16; i++)
            indices[i] = i % bzna_dataset_count(dataset);
        status = bzna_loader_open(context, dataset, &config, &loader, err);
    }
    if (status == BZNA_OK) {
        double begun = 0, spent = 0, images = 0;
        for (int i = 0; status == BZNA_OK && (begun == 0 || now() - begun < seconds); i++) {
            if (i == 20) {                                  /* warm */
                begun = now();
                spent = cpu();
                images = 0;
            }
            if ((status = bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, err)) == BZNA_OK) {
                images += 256;
                bzna_batch_release(batch);
            }
        }
        if (status == BZNA_OK)
            printf("sessions %2u: %7.0f images/s, %5.2f us of CPU time an image\n", sessions, images / (now() - begun),
                   (cpu() - spent) / images * 1e6);
    }
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    return status;
}

int main(int argc, char **argv)
{
    static const uint32_t sessions[] = { 1, 2, 4, 7, 14, 28 };
    bzna_error err = { .struct_size = sizeof err };
    for (size_t i = 0; i < sizeof sessions / sizeof sessions[0]; i++)
        if (argc < 2 || walk(argv[1], sessions[i], argc > 2 ? atof(argv[2]) : 2, &err) < 0) {
            fprintf(stderr, "bench_sessions: %s\n", argc < 2 ? "usage: bench_sessions ARCHIVE [SECONDS]" : err.message);
            return 1;
        }
    return 0;
}
