/* bench_open.c - what opening and looking cost: an archive of 1.43 million entries, a sparse file (215 GB long, 70 MB
 * of index), opened from its path. Usage: bench_open FILE, which is made if it is missing. Prints a line of JSON: the
 * warm time of opening and the memory that became private, the time for all targets in order, and that for a sample at
 * random, all times of processors. Exit status 1 if one is over its limit. bench_files.c opens any data set. */
#include "../../benzina.c"

#define SAMPLES       1431167u
#define SAMPLE_BYTES  150000u
#define LIMIT_MS      30.0
#define LIMIT_PRIVATE (48.0 * 1024 * 1024)        /* 12 bytes for a sample, 12 for its name, 8 for its target */
#define LIMIT_TARGETS 0.1             /* seconds: all, in order */
#define LIMIT_LOOK_US 10.0            /* bzna_dataset_sample, at random */
#define REAL_EVERY    349u            /* one sample of so many is there, the others are only in the index */
#define LOOKS         4096u

/* Private memory of this process, bytes: what it wrote, and pages of files that nobody else maps. */
static double private_bytes(void)
{
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    char line[256];
    double kb = 0, sum = 0;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "Private_Clean: %lf", &kb) == 1 || sscanf(line, "Private_Dirty: %lf", &kb) == 1)
            sum += kb * 1024;
    if (file)
        fclose(file);
    return sum;
}

/* Real samples of the original tools', and between them index entries without bytes behind them. */
static int make_archive(bzna_context *context, const char *path, bzna_error *err)
{
    static uint8_t buffer[1 << 20];
    bzna_dataset *dataset = NULL;
    bzna_writer *writer = NULL;
    bzna_image image = { .struct_size = sizeof image };
    bzna_writer_sample desc = { .struct_size = sizeof desc, .name = "00000000.JPEG", .image = &image };
    bzna_status status = bzna_dataset_open(context, "tests/data/mini_h265.bzna", NULL, &dataset, err);
    if (status == BZNA_OK)
        status = bzna_dataset_read_image(dataset, 0, "bzna_input", buffer, sizeof buffer, &image, err);
    if (status == BZNA_OK)
        status = bzna_writer_open(context, path, NULL, &writer, err);
    for (uint32_t i = 0; status == BZNA_OK && i < SAMPLES; i++) {
        const bzi_index_entry entry = { .size = SAMPLE_BYTES, .thumb = 28, .thumb_size = 15000 };
        if (i % REAL_EVERY == 0) {
            status = bzna_writer_add(writer, BZNA_INDEX_NEXT, &desc, 0, err);
            continue;
        }
        if (!bzi_writer_note(writer, entry))
            return bzi_fail_memory(err, "the index");
    }
    if (status == BZNA_OK)
        status = bzna_writer_finish(writer, err);
    bzna_writer_close(writer);
    bzna_dataset_close(dataset);
    return status;
}

/* Nanoseconds of processors: other programs disturb them less than the clock. */
static uint64_t processors_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* All targets in order, seconds of processors: the best of three. */
static bzna_status time_targets(const bzna_dataset *dataset, double *seconds, bzna_error *err)
{
    *seconds = 1e9;
    for (int round = 0; round < 3; round++) {
        const uint64_t start = processors_ns();
        int64_t target;
        for (uint64_t i = 0; i < SAMPLES; i++)
            if (bzna_dataset_target(dataset, i, &target, err) != BZNA_OK)
                return err->status;
        *seconds = fmin(*seconds, (double)(processors_ns() - start) * 1e-9);
    }
    return BZNA_OK;
}

/* Samples at random, microseconds of processors each: the best of three rounds over as many places of the index. */
static bzna_status time_looks(const bzna_dataset *dataset, double *us, bzna_error *err)
{
    const uint64_t real = (SAMPLES + REAL_EVERY - 1) / REAL_EVERY;
    *us = 1e9;
    for (uint64_t round = 0; round < 4; round++) {          /* the first one warms the page cache */
        const uint64_t start = processors_ns();
        bzna_sample_ref sample;
        for (uint64_t i = 0; i < LOOKS; i++)
            if (bzna_dataset_sample(dataset, bzna_order_permute(1, round, real, i % real) * REAL_EVERY, &sample,
                                        sizeof sample, err) != BZNA_OK)
                return err->status;
        *us = fmin(*us, (double)(processors_ns() - start) * 1e-3 / LOOKS);
    }
    return BZNA_OK;
}

int main(int argc, char **argv)
{
    bzna_error err = { .struct_size = sizeof err };
    bzna_context *context = NULL;
    bzna_dataset *dataset = NULL;
    double best_ms = 1e9, before, after, targets = 0, looks = 0;
    bzna_status status = bzna_context_open(NULL, &context, &err);
    if (argc < 2)
        return 2;
    if (status == BZNA_OK && access(argv[1], R_OK))
        status = make_archive(context, argv[1], &err);
    before = after = private_bytes();
    for (int i = 0; status == BZNA_OK && i < 10; i++) {
        const uint64_t start = processors_ns();
        bzna_dataset_close(dataset);
        if ((status = bzna_dataset_open(context, argv[1], NULL, &dataset, &err)) != BZNA_OK)
            break;
        best_ms = fmin(best_ms, (double)(processors_ns() - start) * 1e-6);
        after = i ? after : private_bytes();
    }
    if (status == BZNA_OK) {
        if ((status = time_targets(dataset, &targets, &err)) == BZNA_OK)
            status = time_looks(dataset, &looks, &err);
    }
    if (status == BZNA_OK) {
        printf("{\"samples\": %u, \"open_ms\": %.3f, \"private_mb\": %.1f, \"targets_s\": %.3f, \"look_us\": %.2f}\n",
               SAMPLES, best_ms, (after - before) * 1e-6, targets, looks);
        if (best_ms > LIMIT_MS || after - before > LIMIT_PRIVATE || targets > LIMIT_TARGETS || looks > LIMIT_LOOK_US)
            status = BZNA_E_LIMIT;
    }
    if (status != BZNA_OK)
        fprintf(stderr, "bench_open: %s\n", status == BZNA_E_LIMIT ? "over the limit" : err.message);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    return status != BZNA_OK;
}
