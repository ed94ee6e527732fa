/* bench.c - bzna bench */
#include "tool.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Two rates of one machine in one run: the whole loader (read, parse, decode, warp, batch), and a bare decoder on each of as many
 * threads, fed from memory. Their ratio says what the library costs on top of decoding. They take turns in short slices, so that
 * whatever else the machine does hits both.
 *
 * How the loader is paused and counted: nobody takes batches during the decoders' slice, so it fills its bounded number of batches
 * and stops by itself; the slice begins only when its sample counter stands still. When its turn comes again, the batches that lay
 * ready, and the first one made after them, are taken without being counted, and the clock starts when that one arrives: from then
 * to the last batch counted, as much work is under way at the beginning as at the end, and none of it was done during the pause.
 * Each decoder thread counts the pictures and the time that it was busy itself, whole pictures only.
 *
 * Where NVDEC decodes there is nothing to take turns with, and one slice lasts all the time. Batches on the device are given back at once: each was
 * waited for as far as decoding goes, but its warp may still lie in a stream. So the time that closing the loader takes, which waits
 * for all streams, is counted, too. */

enum { BENCH_UNITS_MAX = 4096, BENCH_SLICES_MIN = 4, BENCH_SLICES_MAX = 20 };
static const uint64_t bench_memory_bytes = UINT64_C(256) << 20;

/* One coded picture in memory. */
typedef struct unit {
    bytes      buffer;
    bzna_image image;
} unit;

typedef struct bench {
    const archive  *archive;
    unit           *units;
    uint32_t        unit_count;
    uint32_t        threads;
    pthread_mutex_t lock;             /* guards what follows */
    pthread_cond_t  changed;
    uint64_t        slice;            /* number of the slice under way, from 1 */
    int64_t         deadline_ns;
    uint32_t        running;          /* threads that have not finished it */
    int             quit;
    uint64_t        loader_pictures, loader_failed;
    int64_t         loader_ns;
    bzna_loader_info  who;
    bzna_loader_stats stats;          /* when all slices were over */
} bench;

typedef struct bench_thread {
    bench        *bench;
    pthread_t     thread;
    bzna_decoder *decoder;
    uint32_t      next;               /* unit */
    uint64_t      pictures, failed;
    int64_t       busy_ns;
} bench_thread;

/* Fills memory with samples of a shuffled order, so that they are as mixed as what the loader meets. */
static int bench_preload(bench *b, const char *track)
{
    bzna_error err = error_empty();
    uint64_t wanted = b->archive->count < BENCH_UNITS_MAX ? b->archive->count : BENCH_UNITS_MAX, total = 0;
    b->units = checked(calloc((size_t)wanted, sizeof *b->units));
    for (uint64_t i = 0; i < wanted && total < bench_memory_bytes; i++) {
        unit *u = &b->units[b->unit_count];
        if (sample_load(b->archive, bzna_permute(0, 0, b->archive->count, i), track, &u->buffer, &u->image, &err) < 0) continue;
        total += u->buffer.size;
        b->unit_count++;
    }
    return b->unit_count ? EXIT_OK : complain("%s", err.message);
}

static void bench_decode_one(bench_thread *t, int counted)
{
    bzna_picture picture = { .struct_size = sizeof picture };
    bzna_status status = bzna_decoder_decode(t->decoder, &t->bench->units[t->next].image, &picture, NULL);
    t->next = (t->next + t->bench->threads) % t->bench->unit_count;
    if (counted && status < 0)  t->failed++;
    if (counted && status >= 0) t->pictures++;
}

static void *bench_thread_body(void *argument)
{
    bench_thread *t = argument;
    bench *b = t->bench;
    bench_decode_one(t, 0);                       /* the decoder sets itself up with its first picture */
    for (uint64_t seen = 0;; seen++) {
        pthread_mutex_lock(&b->lock);
        while (b->slice == seen && !b->quit) pthread_cond_wait(&b->changed, &b->lock);
        int quit = b->quit;
        int64_t deadline = b->deadline_ns;
        pthread_mutex_unlock(&b->lock);
        if (quit) return NULL;
        int64_t start = now_ns(), now;
        do {
            bench_decode_one(t, 1);
            now = now_ns();
        } while (now < deadline);
        t->busy_ns += now - start;
        pthread_mutex_lock(&b->lock);
        b->running--;
        pthread_cond_broadcast(&b->changed);
        pthread_mutex_unlock(&b->lock);
    }
}

static void bench_decoder_slice(bench *b, int64_t slice_ns)
{
    pthread_mutex_lock(&b->lock);
    b->running = b->threads;
    b->deadline_ns = now_ns() + slice_ns;
    b->slice++;
    pthread_cond_broadcast(&b->changed);
    while (b->running) pthread_cond_wait(&b->changed, &b->lock);
    pthread_mutex_unlock(&b->lock);
}

/* Takes one batch. Returns its number of pictures, or 0 after complaining. */
static uint32_t bench_take(bench *b, bzna_loader *loader, int counted)
{
    bzna_error err = error_empty();
    bzna_batch *batch = NULL;
    if (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err) != BZNA_OK) return complain("%s", err.message), 0;
    bzna_batch_info info = { .struct_size = sizeof info };
    bzna_batch_describe(batch, &info, sizeof info);
    bzna_batch_release(batch);
    if (counted) b->loader_pictures += info.count, b->loader_failed += info.failed;
    return info.count;
}

static int bench_loader_slice(bench *b, bzna_loader *loader, uint32_t batches_in_flight, int64_t slice_ns)
{
    for (uint32_t i = 0; i <= batches_in_flight; i++)
        if (!bench_take(b, loader, 0)) return EXIT_INPUT;
    int64_t start = now_ns(), now;
    do {
        if (!bench_take(b, loader, 1)) return EXIT_INPUT;
        now = now_ns();
    } while (now - start < slice_ns);
    b->loader_ns += now - start;
    return EXIT_OK;
}

/* Waits until the loader has filled all its batches: a fifth of a second without a sample finished, ten seconds at most. */
static void bench_wait_idle(bzna_loader *loader)
{
    bzna_loader_stats stats = { .struct_size = sizeof stats };
    uint64_t last = UINT64_MAX;
    for (int still = 0, polls = 0; still < 10 && polls < 500; polls++) {
        bzna_loader_statistics(loader, &stats, sizeof stats);
        still = stats.samples == last ? still + 1 : 0;
        last = stats.samples;
        sleep_ns(20000000);
    }
}

/* The pipeline, a line a stage: what limits is busy while its neighbors wait for it. */
static void bench_stages(const bzna_loader_stats *s)
{
    static const char *const names[4] = { "read", "decode", "warp", "deliver" };
    printf("\n%-8s %10s %9s %9s %12s %12s  %s\n", "stage", "count", "MB", "busy s", "waits before", "waits behind", "queue");
    for (int i = 0; i < 4; i++) {
        const bzna_stage_stats *t = &s->stage[i];
        printf("%-8s %10" PRIu64 " %9.1f %9.2f %12.2f %12.2f  %" PRIu64 "/%" PRIu64 "\n", names[i], t->count, (double)t->bytes * 1e-6,
               (double)t->busy_ns * 1e-9, (double)t->wait_before_ns * 1e-9, (double)t->wait_after_ns * 1e-9, t->depth, t->capacity);
    }
    printf("since the loader was opened; readers and decoders rest while decoding alone is timed. %" PRIu64 " samples failed (read %" PRIu64
           ", format %" PRIu64 ", decode %" PRIu64 ", other %" PRIu64 "), %" PRIu64 " reads were tried again\n",
           s->samples_failed, s->failed_read, s->failed_format, s->failed_decode, s->failed_other, s->retries);
}

static void bench_report_json(const options *o, const bench *b, const char *device, double rate, double decode_rate)
{
    static const char *const stages[4] = { "read", "decode", "warp", "deliver" };
    const bzna_loader_stats *s = &b->stats;
    int nvdec = b->who.decoder == BZNA_DECODER_NVDEC;
    printf("{\"images_per_second\":%.2f,\"decode_only_images_per_second\":", rate);
    if (nvdec) fputs("null", stdout);
    else       printf("%.2f", decode_rate);
    printf(",\"decoder\":\"%s\",\"decoder_name\":", nvdec ? "nvdec" : "software");
    json_string(b->who.decoder_name);
    printf(",\"reason\":");
    json_string(b->who.decoder_reason);
    printf(",\"device\":");
    json_string(device[0] ? device : NULL);
    printf(",\"output\":\"%s\",\"dtype\":\"%s\",\"threads\":%" PRIu32 ",\"sessions\":%" PRIu32 ",\"nvdec\":%" PRIu64 ",\"software\":%" PRIu64
           ",\"fallbacks\":%" PRIu64 ",\"decoders_made\":%" PRIu64 ",\"decoders_reconfigured\":%" PRIu64 ",\"sessions_lost\":%" PRIu64
           ",\"limits\":\"%s\",\"samples\":%" PRIu64 ",\"seconds\":%.3f}\n", b->who.device >= 0 ? "device" : "host", o->dtype, b->who.threads,
           b->who.sessions, s->samples_nvdec, s->samples_software, s->fallbacks, s->decoders_made, s->decoders_reconfigured, s->sessions_lost,
           stages[s->limiting_stage & 3], b->archive->count, (double)b->loader_ns * 1e-9);
}

static void bench_report(const options *o, const bench *b, double decode_rate)
{
    const bzna_loader_info *who = &b->who;
    const bzna_loader_stats *s = &b->stats;
    bzna_device_info device = { .struct_size = sizeof device };
    double seconds = (double)b->loader_ns * 1e-9, rate = seconds > 0 ? (double)(b->loader_pictures - b->loader_failed) / seconds : 0;
    if (who->decoder == BZNA_DECODER_NVDEC || who->device >= 0) bzna_context_device(b->archive->context, &device, sizeof device, NULL);
    if (o->json) {
        bench_report_json(o, b, device.name, rate, decode_rate);
        return;
    }
    printf("decoder      %s: %s\n", who->decoder_name, who->decoder_reason);
    printf("loader       %10.1f pictures/s  %" PRIu32 " decoder threads, %" PRIu32 " reader threads, %" PRIu32 " batches in flight, %s in %s, %.1f s\n",
           rate, who->threads, who->reader_threads, who->batches_in_flight, o->dtype, who->device >= 0 ? "device memory" : "host memory", seconds);
    if (who->decoder == BZNA_DECODER_SOFTWARE)
        printf("decode only  %10.1f pictures/s  the loader reaches %.1f %%\n", decode_rate, decode_rate > 0 ? 100 * rate / decode_rate : 0);
    else
        printf("decode only           -             single pictures are decoded in software only\n");
    if (device.name[0]) printf("device       CUDA %" PRId32 ", %s\n", device.device, device.name);
    if (who->sessions)
        printf("NVDEC        %" PRIu32 " sessions, %" PRIu64 " lost; %" PRIu64 " pictures, %" PRIu64 " by libavcodec (%" PRIu64
               " fallbacks); %" PRIu64 " decoders made, %" PRIu64 " reconfigured\n", who->sessions, s->sessions_lost, s->samples_nvdec,
               s->samples_software, s->fallbacks, s->decoders_made, s->decoders_reconfigured);
    bench_stages(s);
}

/* What the loader has counted; and, with batches on the device, what is still under way there is waited for, and the time counted. */
static void bench_end_loader(bench *b, bzna_loader **loader)
{
    b->stats.struct_size = sizeof b->stats;
    bzna_loader_statistics(*loader, &b->stats, sizeof b->stats);
    if (b->who.device < 0) return;
    int64_t start = now_ns();
    bzna_loader_close(*loader);
    *loader = NULL;
    b->loader_ns += now_ns() - start;
}

/* The slices, one of each kind in turn. */
static int bench_measure(const options *o, bench *b, bzna_loader **loader)
{
    const bzna_loader_info *who = &b->who;
    double wanted = 2 * o->seconds;               /* half a second each, mostly */
    int slices = who->decoder != BZNA_DECODER_SOFTWARE ? 1 : wanted < BENCH_SLICES_MIN ? BENCH_SLICES_MIN :
                 wanted > BENCH_SLICES_MAX ? BENCH_SLICES_MAX : (int)wanted;
    int64_t slice_ns = (int64_t)(o->seconds * 1e9) / slices;
    bench_thread *threads = checked(calloc(b->threads, sizeof *threads));
    bzna_error err = error_empty();
    int result = EXIT_OK;
    uint32_t started = 0;
    double decode_rate = 0;
    for (; who->decoder == BZNA_DECODER_SOFTWARE && started < b->threads && result == EXIT_OK; started++) {
        threads[started].bench = b;
        threads[started].next = started % b->unit_count;
        if (bzna_decoder_open(b->archive->context, &threads[started].decoder, &err) < 0) {
            result = complain("%s", err.message);
            break;
        }
        if (pthread_create(&threads[started].thread, NULL, bench_thread_body, &threads[started])) {
            bzna_decoder_close(threads[started].decoder);
            result = complain("a thread could not be started");
            break;
        }
    }
    for (int i = 0; i < slices && result == EXIT_OK; i++) {
        result = bench_loader_slice(b, *loader, who->batches_in_flight, slice_ns);
        if (!started) continue;
        bench_wait_idle(*loader);
        if (result == EXIT_OK) bench_decoder_slice(b, slice_ns);
    }
    bench_end_loader(b, loader);
    pthread_mutex_lock(&b->lock);
    b->quit = 1;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
    for (uint32_t i = 0; i < started; i++) {
        pthread_join(threads[i].thread, NULL);
        bzna_decoder_close(threads[i].decoder);
        if (threads[i].busy_ns > 0) decode_rate += (double)threads[i].pictures / ((double)threads[i].busy_ns * 1e-9);
    }
    free(threads);
    if (result == EXIT_OK) bench_report(o, b, decode_rate);
    return result;
}

int run_bench(const options *o)
{
    archive a;
    bzna_error err = error_empty();
    bzna_loader *loader = NULL;
    bzna_loader_config config;
    bench b = { .archive = &a, .who.struct_size = sizeof b.who };
    int result;
    if (archive_open_on(&a, o->operand[0], (int32_t)o->device, (uint32_t)o->sessions)) return EXIT_INPUT;
    pthread_mutex_init(&b.lock, NULL);
    pthread_cond_init(&b.changed, NULL);
    bzna_loader_config_init(&config, sizeof config);
    config.batch_size = (uint32_t)o->batch;
    config.width = config.height = (uint32_t)o->size;
    config.order = BZNA_ORDER_SHUFFLE;
    config.warp = BZNA_WARP_RANDOM_RESIZED_CROP;
    config.flip_h = 0.5f;
    config.epochs = BZNA_EPOCHS_ENDLESS;
    config.threads = (uint32_t)o->threads;
    config.decoder = decoder_code(o->decoder);
    config.output = output_code(o->output);
    if (config.output == BZNA_OUTPUT_AUTO && config.decoder == BZNA_DECODER_SOFTWARE) config.output = BZNA_OUTPUT_HOST;
    config.dtype = !strcmp(o->dtype, "f16") ? BZNA_DTYPE_FLOAT16 : BZNA_DTYPE_FLOAT32;
    config.track = o->track;
    if ((result = bench_preload(&b, o->track)) == EXIT_OK) {
        if (bzna_loader_open(a.context, a.dataset, &config, &loader, &err) < 0) result = complain("%s", err.message);
    }
    if (result == EXIT_OK) {
        bzna_loader_describe(loader, &b.who, sizeof b.who);
        b.threads = b.who.threads;
        bench_wait_idle(loader);
        result = bench_measure(o, &b, &loader);
    }
    if (result == EXIT_OK && b.loader_failed)
        result = complain("%" PRIu64 " of %" PRIu64 " pictures failed: see bzna verify --decode", b.loader_failed, b.loader_pictures);
    bzna_loader_close(loader);
    for (uint32_t i = 0; i < b.unit_count; i++) free(b.units[i].buffer.data);
    free(b.units);
    pthread_cond_destroy(&b.changed);
    pthread_mutex_destroy(&b.lock);
    archive_close(&a);
    return result;
}
