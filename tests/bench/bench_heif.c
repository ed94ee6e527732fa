/* bench_heif.c - how fast large HEIF grids load, by how much of them a crop shows and how many threads decode; and how
 * long one picture takes.
 *
 *     build/bench/heif DIR        for example of phone pictures: 12 megapixels in 48 tiles of 512x512
 */
#include "../../benzina.c"
#include "../unit/heif.h"

static bzna_context *context;
static bzna_dataset *dataset;
static bzna_error err;

static void check(bzna_status status)
{
    if (status == BZNA_OK)
        return;
    fprintf(stderr, "%s\n", err.message);
    exit(1);
}

static bzna_loader *start(uint32_t threads, double scale, uint32_t batch, uint32_t in_flight)
{
    bzna_loader_config c;
    bzna_loader *loader = NULL;
    bzna_loader_config_init(&c, sizeof c);
    c.output.batch_size = batch;
    c.output.width = c.output.height = 224;
    c.output.device.kind = BZNA_DEVICE_CPU;
    c.pipeline.batches_in_flight = in_flight;
    c.decode.threads = threads;
    c.warp.kind = BZNA_WARP_RANDOM_RESIZED_CROP;
    c.warp.scale[0] = c.warp.scale[1] = scale;
    c.order.epochs = 1u << 20;
    check(bzna_loader_open(context, dataset, &c, &loader, &err));
    return loader;
}

static void next(bzna_loader *loader)
{
    bzna_batch *batch = NULL;
    check(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err));
    bzna_batch_release(batch);
}

static void rate(uint32_t threads, double scale)
{
    enum { BATCH = 2, WARM = 3 };
    const uint64_t seconds = 3;
    bzna_loader *loader = start(threads, scale, BATCH, 3);
    bzna_statistics stats = { .struct_size = sizeof stats };
    uint64_t begin, batches = 0;
    atomic_store(&heif_tiles, 0);
    for (int i = 0; i < WARM; i++)
        next(loader);
    begin = bzi_os_now_ns();
    while (bzi_os_now_ns() - begin < seconds * 1000000000)
        for (int i = 0; i < 2; i++, batches++)
            next(loader);
    printf("%7u %7.2f %12.2f", threads, scale,
           (double)(batches * BATCH) * 1e9 / (double)(bzi_os_now_ns() - begin));
    check(bzna_loader_statistics(loader, &stats, sizeof stats, &err));
    printf(" %14.1f\n", (double)atomic_load(&heif_tiles) / (double)stats.samples);
    bzna_loader_close(loader);
}

static int by_time(const void *a, const void *b) { return *(const double *)a < *(const double *)b ? -1 : 1; }

/* One sample at a time, all of it. */
static void latency(uint32_t threads)
{
    enum { TIMES = 9 };
    bzna_loader *loader = start(threads, 1, 1, 1);
    double ms[TIMES];
    next(loader);
    for (int i = 0; i < TIMES; i++) {
        const uint64_t begin = bzi_os_now_ns();
        next(loader);
        ms[i] = (double)(bzi_os_now_ns() - begin) / 1e6;
    }
    qsort(ms, TIMES, sizeof *ms, by_time);
    printf("%7u %12.1f ms\n", threads, ms[TIMES / 2]);
    bzna_loader_close(loader);
}

int main(int argc, char **argv)
{
    static const double scales[] = { 1, 0.5, 0.25, 0.08, 0.02 };
    if (argc != 2)
        return 2;
    bzna_error_init(&err, sizeof err);
    context = heif_context(NULL);
    check(bzna_dataset_open(context, argv[1], NULL, &dataset, &err));
    printf("threads   scale    samples/s   tiles/sample\n");
    for (uint32_t threads = 1; threads <= 2; threads++)
        for (size_t i = 0; i < sizeof scales / sizeof *scales; i++)
            rate(threads, scales[i]);
    printf("threads    one sample, median\n");
    latency(1);
    latency(2);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    return 0;
}
