/* bench_scaling.c - how a loader's rate grows with its decoder threads, and what it loses on the way
 *
 *     bench_scaling [--seconds S] [--rounds N] [--threads 1,2,4,8,16] [--limit S] [--records N]
 *                   NAME=PATH[@SIZE]... [NAME=records:PATH@32]
 *
 * Each set is a data set whose random crops have SIZE x SIZE pixels (224), in batches of 128, or of 512 up to a size
 * of 64. records: a file of records as CIFAR-10's (a byte of label, 3 planes of 32 x 32), which is made where it is
 * missing, with 50,000 records, or as many as --records says. Every number of threads has its turn in each round, and
 * what is printed is the median over rounds, so that other work on the machine slows all of them alike. --limit: no
 * round begins that would not end in so many seconds, and one that lasts longer is cut off; what was measured before is
 * printed. Software decodes; batches lie on the host. A line for each measurement:
 *
 *     SCALING set T threads R pictures/s, S of one thread's rate each, C switches/picture, L of the time waiting for
 *     the lock
 *
 * S is the rate divided by T times that of one thread. C counts the voluntary and involuntary context switches of the
 * whole process. L is the time that threads waited for the loader's lock (bzna_statistics), divided by T times the
 * time measured. The last line is a JSON object with the same figures. Exit status 1: a set could not be loaded. */
#include "formats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { SETS_MAX = 16, THREADS_MAX = 16, ROUNDS_MAX = 15, RECORDS = 50000, RECORD_BYTES = 3073 };

typedef struct figures {
    double rate;                    /* pictures a second */
    double switches;                /* context switches a picture */
    double lock_share;              /* of all threads' time */
    double lock_waits;              /* a picture */
} figures;

typedef struct set {
    const char   *name;
    const char   *path;
    int           is_records;
    uint32_t      size;             /* of the crops, pixels */
    bzna_dataset *dataset;
    figures       runs[THREADS_MAX][ROUNDS_MAX];
    uint32_t      measured[THREADS_MAX];        /* rounds */
} set;

typedef struct settings {
    double   seconds;
    double   limit;                 /* seconds of all; 0: none */
    uint32_t rounds;
    uint32_t records;
    uint32_t threads[THREADS_MAX];
    uint32_t thread_counts;
    set      sets[SETS_MAX];
    uint32_t set_count;
} settings;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double switches(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_nvcsw + (double)usage.ru_nivcsw;
}

/* --- sets --- */

/* Records of noise: 154 MB, more than the processor's caches hold. */
static int make_records(const char *path, uint32_t count)
{
    static uint8_t record[RECORD_BYTES];
    FILE *file = fopen(path, "rb");
    uint64_t state = 1;

    if (file) {
        fclose(file);
        return 0;
    }
    if (!(file = fopen(path, "wb")))
        return -1;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < RECORD_BYTES; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            record[k] = (uint8_t)(state >> 56);
        }
        record[0] = (uint8_t)(i % 10);
        if (fwrite(record, sizeof record, 1, file) != 1)
            break;
    }
    return fclose(file);
}

static int open_set(bzna_context *context, set *s, uint32_t record_count)
{
    bzna_error err = { .struct_size = sizeof err };
    bzna_formats_config config;
    bzna_records records;

    bzna_formats_config_init(&config, sizeof config);
    bzna_formats_records_init(&records, sizeof records);
    if (s->is_records) {
        records.data_type = BZNA_RECORD_UINT8;
        records.label_type = BZNA_RECORD_UINT8;
        records.width = records.height = 32;
        records.channels = 3;
        records.data_offset = 1;
        config.records = &records;
        if (make_records(s->path, record_count)) {
            fprintf(stderr, "bench_scaling: %s cannot be written\n", s->path);
            return -1;
        }
    }
    if (bzna_formats_open(context, s->path, &config, &s->dataset, &err) < 0) {
        fprintf(stderr, "bench_scaling: %s\n", err.message);
        return -1;
    }
    return 0;
}

/* --- one measurement --- */

/* As a classifier is trained, in full batches of float32. */
static void configure(const set *s, uint32_t threads, bzna_loader_config *config)
{
    bzna_loader_config_init(config, sizeof *config);
    config->output.batch_size = s->size <= 64 ? 512 : 128;
    config->output.width = config->output.height = s->size;
    config->output.device.kind = BZNA_DEVICE_CPU;
    config->decode.decoder = BZNA_DECODER_SOFTWARE;
    config->decode.threads = threads;
    config->order.kind = BZNA_ORDER_SHUFFLE;
    config->order.seed = 1;
    config->order.epochs = 1u << 30;
    config->warp.flip_h = 0.5;
    config->warp.kind = BZNA_WARP_RANDOM_RESIZED_CROP;
    for (int i = 0; i < 3; i++) {
        config->color.mean[i] = 116;
        config->color.std[i] = 57;
    }
}

/* Returns the pictures of the next batch; 0: it failed, and was said. */
static uint32_t take(bzna_loader *loader)
{
    bzna_error err = { .struct_size = sizeof err };
    bzna_batch_info info = { .struct_size = sizeof info };
    bzna_batch *batch = NULL;

    if (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err) != BZNA_OK) {
        fprintf(stderr, "bench_scaling: %s\n", err.message);
        return 0;
    }
    bzna_batch_get_info(batch, &info, sizeof info, NULL);
    bzna_batch_release(batch);
    return info.count - info.failed;
}

/* Returns 1 where it was not warm before `end` (0: never), -1 where it failed. */
static int measure(bzna_context *context, const set *s, uint32_t threads, double seconds, double end, figures *f)
{
    bzna_error err = { .struct_size = sizeof err };
    bzna_statistics before = { .struct_size = sizeof before }, after = { .struct_size = sizeof after };
    bzna_loader_config config;
    bzna_loader *loader = NULL;
    double pictures = 0, start, elapsed, start_switches;
    uint32_t taken = 1;
    int is_late = 0;

    configure(s, threads, &config);
    if (bzna_loader_open(context, s->dataset, &config, &loader, &err) < 0) {
        fprintf(stderr, "bench_scaling: %s\n", err.message);
        return -1;
    }

    /* Warm: every decoder has worked, and every batch in flight has been filled again since. */
    start = now();
    for (uint32_t i = 0; taken && !is_late && (i < 6 || now() - start < 0.25 * seconds); i++) {
        taken = take(loader);
        is_late = end > 0 && now() >= end;
    }

    bzna_loader_statistics(loader, &before, sizeof before, NULL);
    start_switches = switches();
    start = now();
    while (taken && !is_late && (elapsed = now() - start) < seconds)
        pictures += taken = take(loader);
    elapsed = now() - start;
    bzna_loader_statistics(loader, &after, sizeof after, NULL);

    f->rate = pictures / elapsed;
    f->switches = pictures > 0 ? (switches() - start_switches) / pictures : 0;
    f->lock_share = 1e-9 * (double)(after.lock_wait_ns - before.lock_wait_ns) / (elapsed * threads);
    f->lock_waits = pictures > 0 ? (double)(after.lock_waits - before.lock_waits) / pictures : 0;
    bzna_loader_close(loader);
    return taken ? is_late : -1;
}

/* --- the report --- */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of one of the figures, at `offset` in their struct. */
static double median(const figures *runs, uint32_t count, size_t offset)
{
    double values[ROUNDS_MAX];

    for (uint32_t i = 0; i < count; i++)
        memcpy(&values[i], (const char *)&runs[i] + offset, sizeof values[i]);
    qsort(values, count, sizeof *values, by_value);
    return count % 2 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

/* One set's figures with the o->threads[k] threads; 0 where there are none, or none of the first number of threads. */
static int summarize(const settings *o, const set *s, uint32_t k, figures *f, double *share)
{
    double first;

    if (!s->measured[0] || !s->measured[k])
        return 0;
    first = median(s->runs[0], s->measured[0], offsetof(figures, rate)) / o->threads[0];
    f->rate = median(s->runs[k], s->measured[k], offsetof(figures, rate));
    f->switches = median(s->runs[k], s->measured[k], offsetof(figures, switches));
    f->lock_share = median(s->runs[k], s->measured[k], offsetof(figures, lock_share));
    f->lock_waits = median(s->runs[k], s->measured[k], offsetof(figures, lock_waits));
    *share = f->rate / (first * o->threads[k]);
    return 1;
}

static void report(const settings *o)
{
    figures f;
    double share;

    printf("{\"processors\":%ld,\"seconds\":%g,\"rounds\":%u,\"sets\":[", sysconf(_SC_NPROCESSORS_ONLN), o->seconds,
           o->sets[0].measured[0]);
    for (uint32_t i = 0; i < o->set_count; i++) {
        const char *comma = "";
        printf("%s{\"set\":\"%s\",\"runs\":[", i ? "," : "", o->sets[i].name);
        for (uint32_t k = 0; k < o->thread_counts; k++) {
            if (!summarize(o, &o->sets[i], k, &f, &share))
                continue;
            printf("%s{\"threads\":%u,\"pictures_per_second\":%.1f,\"share\":%.3f,\"switches_per_picture\":%.4f,"
                   "\"lock_wait_share\":%.5f,\"lock_waits_per_picture\":%.4f}", comma, o->threads[k], f.rate, share,
                   f.switches, f.lock_share, f.lock_waits);
            comma = ",";
        }
        printf("]}");
    }
    printf("]}\n");
}

static void report_lines(const settings *o)
{
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    figures f;
    double share;

    for (uint32_t i = 0; i < o->set_count; i++)
        for (uint32_t k = 0; k < o->thread_counts; k++) {
            const set *s = &o->sets[i];
            if (!summarize(o, s, k, &f, &share)) {
                printf("%s with %u threads: not measured, out of time\n", s->name, o->threads[k]);
                continue;
            }
            printf("SCALING %-12s %2u threads %9.0f pictures/s, %.2f of one thread's rate each, "
                   "%.3f switches/picture, %.4f of the time waiting for the lock%s\n", s->name, o->threads[k], f.rate,
                   share, f.switches, f.lock_share,
                   (long)o->threads[k] > processors ? " (more threads than processors)" : "");
        }
}

static int read_arguments(int argc, char **argv, settings *o)
{
    *o = (settings){ .seconds = 2, .rounds = 3, .records = RECORDS, .threads = { 1, 2, 4, 8, 16 }, .thread_counts = 5 };
    for (int i = 1; i < argc; i++) {
        char *value = strchr(argv[i], '='), *size = strrchr(argv[i], '@');
        if (!strcmp(argv[i], "--seconds") && i + 1 < argc) {
            o->seconds = atof(argv[++i]);
        } else if (!strcmp(argv[i], "--rounds") && i + 1 < argc) {
            o->rounds = (uint32_t)atoi(argv[++i]);
        } else if (!strcmp(argv[i], "--limit") && i + 1 < argc) {
            o->limit = atof(argv[++i]);
        } else if (!strcmp(argv[i], "--records") && i + 1 < argc) {
            o->records = (uint32_t)atoi(argv[++i]);
        } else if (!strcmp(argv[i], "--threads") && i + 1 < argc) {
            o->thread_counts = 0;
            for (char *n = strtok(argv[++i], ","); n && o->thread_counts < THREADS_MAX; n = strtok(NULL, ","))
                o->threads[o->thread_counts++] = (uint32_t)atoi(n);
        } else if (value && o->set_count < SETS_MAX) {
            const int is_records = !strncmp(value + 1, "records:", 8);
            if (size && (size < value || !size[1] || size[1 + strspn(size + 1, "0123456789")]))
                size = NULL;            /* a folder's name has one */
            *value = 0;
            if (size)
                *size = 0;
            o->sets[o->set_count++] = (set){ .name = argv[i], .path = value + 1 + 8 * is_records,
                                             .is_records = is_records, .size = size ? (uint32_t)atoi(size + 1) : 224 };
        } else {
            return -1;
        }
    }
    for (uint32_t k = 0; k < o->thread_counts; k++)
        if (!o->threads[k])
            return -1;
    if (o->seconds <= 0 || !o->records || !o->rounds || o->rounds > ROUNDS_MAX)
        return -1;
    return o->thread_counts && o->set_count ? 0 : -1;
}

/* A round with every set and number of threads. Returns 1 where it was cut off at `end` (0: never), -1 where a
 * measurement failed. */
static int measure_round(bzna_context *context, settings *o, double end)
{
    for (uint32_t i = 0; i < o->set_count; i++)
        for (uint32_t k = 0; k < o->thread_counts; k++) {
            set *s = &o->sets[i];
            int result = end > 0 && now() >= end;
            if (!result)
                result = measure(context, s, o->threads[k], o->seconds, end, &s->runs[k][s->measured[k]]);
            if (result)
                return result;
            s->measured[k]++;
        }
    return 0;
}

static int measure_all(bzna_context *context, settings *o, double begun)
{
    const double end = o->limit > 0 ? begun + o->limit : 0;

    for (uint32_t round = 0; round < o->rounds; round++) {
        const double start = now();
        const int result = measure_round(context, o, end);
        if (result)
            return result < 0 ? -1 : 0;
        if (end > 0 && now() + (now() - start) > end)
            break;
    }
    return 0;
}

int main(int argc, char **argv)
{
    static settings o;
    bzna_context *context = NULL;
    const double begun = now();
    int failed = 0;

    if (read_arguments(argc, argv, &o)) {
        fprintf(stderr, "bench_scaling [--seconds S] [--rounds 1..%d] [--threads 1,2,...] [--limit S] [--records N] "
                "NAME=PATH[@SIZE]... [NAME=records:PATH@32]\n", ROUNDS_MAX);
        return 2;
    }
    if (bzna_context_open(NULL, &context, NULL) < 0)
        return 1;
    for (uint32_t i = 0; i < o.set_count && !failed; i++)
        failed = open_set(context, &o.sets[i], o.records);
    failed = failed || measure_all(context, &o, begun);
    if (!failed) {
        report_lines(&o);
        report(&o);
    }
    for (uint32_t i = 0; i < o.set_count; i++)
        bzna_dataset_close(o.sets[i].dataset);
    bzna_context_close(context);
    return failed != 0;
}
