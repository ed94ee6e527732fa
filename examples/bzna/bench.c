/* bench.c - bzna bench: how many pictures a second a loader delivers, and its decoder alone decodes
 *
 * Two rates of one machine in one run: that of the whole loader (read, parse, decode, warp, batch), and that of
 * decoders alone, one on each of as many threads, which decode pictures that are in memory. Their ratio says what the
 * library costs on top of decoding. They take turns in short slices of time, so that other work on the machine slows
 * both.
 *
 * How the loader is paused and timed: during the decoders' slice nobody takes batches, so the loader fills its bounded
 * number of batches and stops by itself; the decoders start only when its sample counter no longer changes. When its
 * turn comes again, the batches that were ready, and the first one made after them, are taken without being counted,
 * and the clock starts when that one arrives. From then to the last counted batch, as much work is under way at the
 * beginning as at the end, and none of it was done during the pause. Each decoder thread counts its own pictures and
 * the time it was busy, whole pictures only.
 *
 * Where NVDEC decodes, the loader alone is timed, in one slice. Batches on the device are released at once: decoding
 * was waited for, but the warp may still be queued on a stream. So closing the loader, which waits for all streams, is
 * timed, too. */
#include "tool.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { PICTURES_MAX = 4096, SLICES_MIN = 4, SLICES_MAX = 20 };
static const uint64_t picture_bytes_max = UINT64_C(256) << 20;
static const char *const stage_names[5] = { "read", "decode", "warp", "deliver", "none" };

/* One encoded picture in memory. */
typedef struct bench_picture {
    tool_buffer buffer;
    bzna_image  image;
} bench_picture;

typedef struct bench {
    const tool_options *options;
    const archive      *archive;
    bench_picture      *pictures;
    uint32_t            picture_count;

    bzna_loader        *loader;
    bzna_loader_info    loader_info;
    bzna_statistics     loader_stats;           /* the last ones that were read */
    bzna_statistics     counted;                /* in the loader's slices */
    uint64_t            loader_pictures, loader_failed;
    int64_t             loader_ns;

    struct bench_thread *threads;               /* of decoders alone */
    uint32_t            thread_count, started;
    pthread_mutex_t     lock;                   /* guards what follows */
    pthread_cond_t      changed;
    uint64_t            slice;                  /* number of the slice under way, from 1 */
    int64_t             deadline_ns;            /* its end */
    uint32_t            running;                /* threads that have not finished it */
    int                 quit;
} bench;

typedef struct bench_thread {
    bench        *bench;
    pthread_t     thread;
    bzna_decoder *decoder;
    uint32_t      next;                         /* picture */
    uint64_t      decoded;
    int64_t       busy_ns;
} bench_thread;


/* ---- decoders alone ---- */

/* Fills memory with samples in a shuffled order, so that they are as mixed as those the loader decodes. */
static int pictures_read(bench *b)
{
    bzna_error err = tool_empty_error();
    uint64_t count = b->archive->count, wanted = count < PICTURES_MAX ? count : PICTURES_MAX, bytes = 0;
    b->pictures = tool_checked(calloc((size_t)wanted, sizeof *b->pictures));
    for (uint64_t i = 0; i < wanted && bytes < picture_bytes_max; i++) {
        bench_picture *p = &b->pictures[b->picture_count];
        uint64_t index = bzna_order_permute(0, 0, count, i);
        if (archive_read_picture(b->archive, index, b->options->track, &p->buffer, &p->image, &err) < 0) continue;
        bytes += p->buffer.size;
        b->picture_count++;
    }
    return b->picture_count ? EXIT_OK : tool_error("%s", err.message);
}

/* Returns whether the next picture could be decoded. */
static int decode_next(bench_thread *t)
{
    bzna_picture picture = { .struct_size = sizeof picture };
    bzna_status status = bzna_decoder_decode(t->decoder, &t->bench->pictures[t->next].image, &picture, NULL);
    t->next = (t->next + t->bench->thread_count) % t->bench->picture_count;
    return status >= 0;
}

static void *thread_main(void *argument)
{
    bench_thread *t = argument;
    bench *b = t->bench;
    decode_next(t);                             /* not counted: with it, the decoder sets itself up */
    for (uint64_t finished = 0;; finished++) {
        pthread_mutex_lock(&b->lock);
        while (b->slice == finished && !b->quit) pthread_cond_wait(&b->changed, &b->lock);
        int quit = b->quit;
        int64_t deadline_ns = b->deadline_ns;
        pthread_mutex_unlock(&b->lock);
        if (quit) return NULL;
        int64_t start_ns = tool_now_ns(), now_ns;
        do {
            t->decoded += (uint64_t)decode_next(t);
            now_ns = tool_now_ns();
        } while (now_ns < deadline_ns);
        t->busy_ns += now_ns - start_ns;
        pthread_mutex_lock(&b->lock);
        b->running--;
        pthread_cond_broadcast(&b->changed);
        pthread_mutex_unlock(&b->lock);
    }
}

static int threads_start(bench *b, uint32_t count)
{
    bzna_error err = tool_empty_error();
    b->threads = tool_checked(calloc(count, sizeof *b->threads));
    b->thread_count = count;
    for (uint32_t i = 0; i < count; i++) {
        bench_thread *t = &b->threads[i];
        *t = (bench_thread){ .bench = b, .next = i % b->picture_count };
        if (bzna_decoder_open(b->archive->context, &t->decoder, &err) < 0) return tool_error("%s", err.message);
        if (pthread_create(&t->thread, NULL, thread_main, t)) {
            bzna_decoder_close(t->decoder);
            return tool_error("a thread could not be started");
        }
        b->started++;
    }
    return EXIT_OK;
}

static void threads_end(bench *b)
{
    pthread_mutex_lock(&b->lock);
    b->quit = 1;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
    for (uint32_t i = 0; i < b->started; i++) {
        pthread_join(b->threads[i].thread, NULL);
        bzna_decoder_close(b->threads[i].decoder);
    }
}

static void decode_slice(bench *b, int64_t duration_ns)
{
    pthread_mutex_lock(&b->lock);
    b->running = b->started;
    b->deadline_ns = tool_now_ns() + duration_ns;
    b->slice++;
    pthread_cond_broadcast(&b->changed);
    while (b->running) pthread_cond_wait(&b->changed, &b->lock);
    pthread_mutex_unlock(&b->lock);
}

/* Pictures per second of all threads together. */
static double decode_rate(const bench *b)
{
    double rate = 0;
    for (uint32_t i = 0; i < b->started; i++) {
        const bench_thread *t = &b->threads[i];
        if (t->busy_ns > 0) rate += (double)t->decoded / ((double)t->busy_ns * 1e-9);
    }
    return rate;
}


/* ---- the loader ---- */

static int take_batch(bench *b, int counted)
{
    bzna_error err = tool_empty_error();
    bzna_batch *batch = NULL;
    bzna_batch_info info = { .struct_size = sizeof info };
    if (bzna_loader_next(b->loader, BZNA_WAIT_FOREVER, &batch, &err) != BZNA_OK) return tool_error("%s", err.message);
    bzna_batch_get_info(batch, &info, sizeof info, NULL);
    bzna_batch_release(batch);
    if (counted) b->loader_pictures += info.count, b->loader_failed += info.failed;
    return EXIT_OK;
}

static void loader_stats_read(bench *b)
{
    b->loader_stats.struct_size = sizeof b->loader_stats;
    bzna_loader_statistics(b->loader, &b->loader_stats, sizeof b->loader_stats, NULL);
}

/* Without what was counted in the pauses, which is found at a slice's beginning, the statistics at its end are those of
 * all slices. */
static void loader_stats_count(bench *b, bzna_statistics *paused, int is_end)
{
    loader_stats_read(b);
    if (is_end) bzna_statistics_since(&b->loader_stats, paused, &b->counted, sizeof b->counted, NULL);
    else        bzna_statistics_since(&b->loader_stats, &b->counted, paused, sizeof *paused, NULL);
}

static int loader_slice(bench *b, int64_t duration_ns)
{
    bzna_statistics paused;
    for (uint32_t i = 0; i <= b->loader_info.batches_in_flight; i++)
        if (take_batch(b, 0)) return EXIT_INPUT;
    loader_stats_count(b, &paused, 0);
    int64_t start_ns = tool_now_ns(), now_ns;
    do {
        if (take_batch(b, 1)) return EXIT_INPUT;
        now_ns = tool_now_ns();
    } while (now_ns - start_ns < duration_ns);
    b->loader_ns += now_ns - start_ns;
    loader_stats_count(b, &paused, 1);
    return EXIT_OK;
}

/* Waits until the loader has filled all its batches: until no sample is finished for 0.2 s, or for 10 s. */
static void loader_wait_idle(bench *b)
{
    uint64_t samples = UINT64_MAX;
    for (int unchanged = 0, polls = 0; unchanged < 10 && polls < 500; polls++) {
        loader_stats_read(b);
        unchanged = b->loader_stats.samples == samples ? unchanged + 1 : 0;
        samples = b->loader_stats.samples;
        tool_sleep_ns(20000000);
    }
}

/* Reads the loader's counters. With batches on the device, closing waits for what is queued there, and is timed. */
static void loader_end(bench *b)
{
    loader_stats_read(b);
    if (b->loader_info.image.device.kind != BZNA_DEVICE_CUDA) return;
    int64_t start_ns = tool_now_ns();
    bzna_loader_close(b->loader);
    b->loader = NULL;
    b->loader_ns += tool_now_ns() - start_ns;
}


/* ---- the report ---- */

/* Are batches on the device? */
static int on_device(const bzna_loader_info *info) { return info->image.device.kind == BZNA_DEVICE_CUDA; }

/* What limits the loader, in the words of the library, with settings named as options of this command. */
static void limit_text(const bench *b, char *text, size_t size)
{
    static const char *const options[][2] = {
        { "decode.threads", "--threads" }, { "output.batch_size", "--batch" }, { "output.dtype", "--dtype" },
        { "output.width, output.height", "--size" }, { "decode.jpeg_shrink", "--jpeg-shrink" },
        { "decode.hybrid", "--hybrid" } };
    const char *from = b->counted.advice;
    size_t used = 0;
    while (*from && used + 1 < size) {
        const char *word = NULL;
        for (size_t i = 0; i < sizeof options / sizeof *options && !word; i++)
            if (!strncmp(from, options[i][0], strlen(options[i][0]))) {
                word = options[i][1];
                from += strlen(options[i][0]);
            }
        if (!word) {
            text[used++] = *from++;
            continue;
        }
        for (; *word && used + 1 < size; word++) text[used++] = *word;
    }
    text[used] = 0;
}

static void report_json(const bench *b, const char *device, double rate)
{
    const bzna_loader_info *info = &b->loader_info;
    const bzna_statistics *s = &b->loader_stats;
    int nvdec = info->decoder == BZNA_DECODER_NVDEC;
    char limit[sizeof b->counted.advice];
    printf("{\"images_per_second\":%.2f,\"decode_only_images_per_second\":", rate);
    if (nvdec) fputs("null", stdout);
    else       printf("%.2f", decode_rate(b));
    printf(",\"decoder\":\"%s\",\"decoder_name\":", nvdec ? "nvdec" : "software");
    tool_json_string(info->decoder_name);
    printf(",\"reason\":");
    tool_json_string(info->decoder_reason);
    printf(",\"device\":");
    tool_json_string(device[0] ? device : NULL);
    printf(",\"output\":\"%s\",\"dtype\":\"%s\",\"threads\":%" PRIu32 ",\"sessions\":%" PRIu32,
           on_device(info) ? "device" : "host", b->options->dtype, info->threads, info->sessions);
    printf(",\"nvdec\":%" PRIu64 ",\"software\":%" PRIu64 ",\"fallbacks\":%" PRIu64 ",\"hybrid\":%" PRIu64
           ",\"decoders_made\":%" PRIu64 ",\"decoders_reconfigured\":%" PRIu64 ",\"sessions_lost\":%" PRIu64,
           s->samples_nvdec, s->samples_software, s->fallbacks, s->samples_hybrid, s->decoders_made,
           s->decoders_reconfigured, s->sessions_lost);
    limit_text(b, limit, sizeof limit);
    printf(",\"limits\":\"%s\",\"limited_by\":", stage_names[b->counted.limiting_stage % 5]);
    tool_json_string(limit);
    printf(",\"samples\":%" PRIu64 ",\"seconds\":%.3f}\n", b->archive->count, (double)b->loader_ns * 1e-9);
}

/* The pipeline, a line for each stage: the one that limits the rate is busy while its neighbors wait for it. */
static void report_stages(const bzna_statistics *s)
{
    printf("\n%-8s %10s %9s %9s %12s %12s  %s\n", "stage", "count", "MB", "busy s", "waits before", "waits after",
           "queue");
    for (int i = 0; i < 4; i++) {
        const bzna_stage_statistics *t = &s->stage[i];
        printf("%-8s %10" PRIu64 " %9.1f %9.2f %12.2f %12.2f  %" PRIu64 "/%" PRIu64 "\n", stage_names[i], t->count,
               (double)t->bytes * 1e-6, (double)t->busy_ns * 1e-9, (double)t->wait_before_ns * 1e-9,
               (double)t->wait_after_ns * 1e-9, t->depth, t->capacity);
    }
    printf("since the loader was opened; it is idle while decoding alone is timed. %" PRIu64 " samples failed (read %"
           PRIu64 ", format %" PRIu64 ", decode %" PRIu64 ", other %" PRIu64 "), %" PRIu64 " reads were tried again\n",
           s->samples_failed, s->failed_read, s->failed_format, s->failed_decode, s->failed_other, s->retries);
}

static void report_text(const bench *b, const bzna_device_info *device, double rate)
{
    const bzna_loader_info *info = &b->loader_info;
    const bzna_statistics *s = &b->loader_stats;
    double alone = decode_rate(b);
    char limit[sizeof b->counted.advice];
    printf("decoder      %s: %s\n", info->decoder_name, info->decoder_reason);
    printf("loader       %10.1f pictures/s  %" PRIu32 " decoder threads, %" PRIu32 " reader threads, %" PRIu32
           " batches in flight, %s in %s, %.1f s\n", rate, info->threads, info->reader_threads, info->batches_in_flight,
           b->options->dtype, on_device(info) ? "device memory" : "host memory", (double)b->loader_ns * 1e-9);
    if (info->decoder == BZNA_DECODER_SOFTWARE)
        printf("decode only  %10.1f pictures/s  the loader reaches %.1f %%\n", alone,
               alone > 0 ? 100 * rate / alone : 0);
    else
        printf("decode only           -             measured for the software decoder only\n");
    if (alone > 0 && rate > alone)
        printf("             more than 100 %%: a loader decodes no more of a picture than its warp reads (rows of\n"
               "             JPEG, slices of H.264%s), decoding alone whole pictures; or other\n"
               "             programs slowed the one and not the other\n",
               b->options->jpeg_shrink ? ", smaller sizes" : "");
    if (device->name[0]) printf("device       CUDA %" PRId32 ", %s\n", device->device.ordinal, device->name);
    if (info->sessions)
        printf("NVDEC        %" PRIu32 " sessions, %" PRIu64 " lost; %" PRIu64 " pictures, %" PRIu64
               " in software (%" PRIu64 " fallbacks, %" PRIu64 " hybrid); %" PRIu64 " decoders made, %" PRIu64
               " reconfigured\n", info->sessions, s->sessions_lost, s->samples_nvdec, s->samples_software, s->fallbacks,
               s->samples_hybrid, s->decoders_made, s->decoders_reconfigured);
    limit_text(b, limit, sizeof limit);
    printf("limited by   %s\n", limit);
    report_stages(s);
}

static void report(const bench *b)
{
    const bzna_loader_info *info = &b->loader_info;
    bzna_device_info device = { .struct_size = sizeof device };
    double seconds = (double)b->loader_ns * 1e-9;
    double rate = seconds > 0 ? (double)(b->loader_pictures - b->loader_failed) / seconds : 0;
    if (info->decoder == BZNA_DECODER_NVDEC || on_device(info))
        bzna_context_device_info(b->archive->context, &device, sizeof device, NULL);
    if (b->options->json) report_json(b, device.name, rate);
    else                  report_text(b, &device, rate);
}


/* ---- the command ---- */

/* With the software decoder, slices of about half a second. */
static int slice_count(const bench *b)
{
    double wanted = 2 * b->options->seconds;
    if (b->loader_info.decoder != BZNA_DECODER_SOFTWARE) return 1;
    return (int)fmin(fmax(wanted, (double)SLICES_MIN), (double)SLICES_MAX);
}

/* Times the loader and its decoder alone, in turns. */
static int measure(bench *b)
{
    int slices = slice_count(b), result = EXIT_OK;
    int64_t slice_ns = (int64_t)(b->options->seconds * 1e9) / slices;
    loader_wait_idle(b);
    if (b->loader_info.decoder == BZNA_DECODER_SOFTWARE) result = threads_start(b, b->loader_info.threads);
    for (int i = 0; i < slices && result == EXIT_OK; i++) {
        result = loader_slice(b, slice_ns);
        if (result != EXIT_OK || !b->started) continue;
        loader_wait_idle(b);
        decode_slice(b, slice_ns);
    }
    loader_end(b);
    threads_end(b);
    return result;
}

static int bench_run(bench *b)
{
    archive_loading loading = { .epochs = BZNA_EPOCHS_ENDLESS };
    tool_options settings = *b->options;
    settings.shuffle = !settings.indices;       /* a list is loaded in its order */
    settings.flip = 0.5;
    int result = pictures_read(b);
    if (result == EXIT_OK) result = archive_open_loader(b->archive, &settings, &loading, &b->loader);
    if (result != EXIT_OK) return result;
    bzna_loader_get_info(b->loader, &b->loader_info, sizeof b->loader_info, NULL);
    result = measure(b);
    if (result != EXIT_OK) return result;
    report(b);
    if (!b->loader_failed) return EXIT_OK;
    return tool_error("%" PRIu64 " of %" PRIu64 " pictures failed: see bzna verify --decode", b->loader_failed,
                      b->loader_pictures);
}

int tool_run_bench(const tool_options *o)
{
    archive a;
    bench b = { .options = o, .archive = &a, .loader_info.struct_size = sizeof b.loader_info,
                .counted.struct_size = sizeof b.counted };
    if (streamed_is(o->operand[0])) return streamed_bench(o);
    if (archive_open_with(&a, o)) return EXIT_INPUT;
    pthread_mutex_init(&b.lock, NULL);
    pthread_cond_init(&b.changed, NULL);
    int result = bench_run(&b);
    bzna_loader_close(b.loader);
    for (uint32_t i = 0; i < b.picture_count; i++) free(b.pictures[i].buffer.data);
    free(b.pictures);
    free(b.threads);
    pthread_cond_destroy(&b.changed);
    pthread_mutex_destroy(&b.lock);
    archive_close(&a);
    return result;
}
