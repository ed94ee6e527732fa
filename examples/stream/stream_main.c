/* stream_main.c - loads an epoch from shards that cannot seek, and prints the rate
 *
 *     build/stream 'pipe:cat shard-{000..001}.tar' [OPTION=VALUE...]
 *     build/stream - < shard-000.tar
 *
 * stream.h says what a source is. The options:
 *
 *     batch=32 size=224 seed=1 epochs=1 memory=BYTES samples=N (an epoch's, of all ranks) rank=0 world=1 threads=N
 *     shuffle=1       shards and samples
 *     leave=1         leaves out shards that cannot be read
 *     no_threads=1    uses only the main thread
 *     list=1          prints a line for each sample: epoch, window, shard, number in the shard, target, hash of pixels
 *     state=FILE      continues from the state in FILE, if the file exists, and saves the state there at the end
 *     batches=N       ends after so many batches
 *     seconds=S       ends after so many seconds
 *
 * It prints the rate, and exits with 1 after an error. */
#define _POSIX_C_SOURCE 200809L
#include "../example.h"
#include "formats.h"
#include "stream.h"

#include <string.h>
#include <time.h>

typedef struct options {
    const char *sources[64];
    uint32_t    source_count;
    uint64_t    batch, size, seed, epochs, memory, samples, rank, world, threads, shuffle, leave, no_threads, list;
    uint64_t    batches, seconds, pad, drop;
    const char *state;
} options;

/* Reads OPTION=VALUE. Returns 0 if the text is no option. */
static int take_option(options *o, const char *text)
{
    const struct { const char *name; uint64_t *value; } known[] = {
        { "batch", &o->batch }, { "size", &o->size }, { "seed", &o->seed }, { "epochs", &o->epochs },
        { "memory", &o->memory }, { "samples", &o->samples }, { "rank", &o->rank }, { "world", &o->world },
        { "threads", &o->threads }, { "shuffle", &o->shuffle }, { "leave", &o->leave },
        { "no_threads", &o->no_threads }, { "list", &o->list }, { "batches", &o->batches },
        { "seconds", &o->seconds }, { "pad", &o->pad }, { "drop", &o->drop },
    };
    const size_t size = strcspn(text, "=");

    if (text[size] != '=')
        return 0;
    if (!strncmp(text, "state=", 6)) {
        o->state = text + 6;
        return 1;
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strlen(known[i].name) == size && !strncmp(text, known[i].name, size)) {
            *known[i].value = strtoull(text + size + 1, NULL, 10);
            return 1;
        }
    return 0;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint64_t hash(const void *bytes, uint64_t size)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (uint64_t i = 0; i < size; i++)
        h = (h ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
    return h;
}

static void print_batch(bzna_stream *stream, const bzna_batch_info *info)
{
    const uint64_t bytes = info->image.bytes / (uint64_t)info->image.shape[0];
    bzna_stream_info about = { .struct_size = sizeof about };

    bzna_stream_get_info(stream, &about, sizeof about, NULL);
    for (uint32_t i = 0; i < info->count; i++)
        printf("%" PRIu64 " %" PRIu64 " %s %" PRIu64 " %" PRId64 " %016" PRIx64 " %s\n", about.epoch, about.window,
               bzna_stream_source(stream, info->indices[i]), info->indices[i] & UINT32_MAX, info->targets[i],
               hash((const uint8_t *)info->image.data + i * bytes, bytes), bzna_status_name(info->status[i]));
    printf("-- %" PRIu32 "%s\n", info->count, about.last_of_epoch ? " last" : "");
}

static void warn(void *user, int32_t level, bzna_status code, const char *message)
{
    (void)user, (void)level, (void)code;
    fprintf(stderr, "stream: %s\n", message);
}

static bzna_status open_stream(const options *o, bzna_context *context, bzna_stream **stream, bzna_error *err)
{
    bzna_loader_config loader;
    bzna_stream_config config;

    bzna_loader_config_init(&loader, sizeof loader);
    loader.output.batch_size = (uint32_t)o->batch;
    loader.output.width = loader.output.height = (uint32_t)o->size;
    loader.output.dtype = BZNA_DTYPE_UINT8;
    loader.order.kind = o->shuffle ? BZNA_ORDER_SHUFFLE : BZNA_ORDER_SEQUENTIAL;
    loader.order.seed = o->seed;
    loader.order.epochs = o->epochs;
    loader.order.last_batch = o->drop ? BZNA_LAST_DROP : o->pad ? BZNA_LAST_PAD : BZNA_LAST_PARTIAL;
    loader.shard.rank = (uint32_t)o->rank;
    loader.shard.world_size = (uint32_t)o->world;
    loader.warp.kind = BZNA_WARP_RANDOM_RESIZED_CROP;
    loader.warp.flip_h = 0.5;
    loader.decode.threads = (uint32_t)o->threads;
    loader.pipeline.no_threads = (uint32_t)o->no_threads;

    bzna_stream_config_init(&config, sizeof config);
    config.sources = o->sources;
    config.source_count = o->source_count;
    config.loader = &loader;
    config.memory_bytes = o->memory;
    config.samples_per_epoch = o->samples;
    config.on_error = o->leave ? BZNA_STREAM_ON_ERROR_LEAVE : BZNA_STREAM_ON_ERROR_STOP;
    config.log = warn;

    bzna_status status = bzna_stream_open(context, &config, stream, err);
    if (status == BZNA_OK && o->state) {
        bzna_stream_state state;
        FILE *file = fopen(o->state, "rb");
        if (file && fread(&state, sizeof state, 1, file) == 1)
            status = bzna_stream_restore(*stream, &state, err);
        if (file)
            fclose(file);
    }
    /* waits for the first shard, because the stream reads the loader's config until then */
    return status == BZNA_OK ? bzna_stream_wait(*stream, BZNA_WAIT_FOREVER, err) : status;
}

static bzna_status save_state(const options *o, bzna_stream *stream, bzna_error *err)
{
    bzna_stream_state state;
    bzna_status status = bzna_stream_save(stream, &state, sizeof state, err);
    FILE *file = status == BZNA_OK ? fopen(o->state, "wb") : NULL;

    if (status != BZNA_OK)
        return status;
    if (!file || fwrite(&state, sizeof state, 1, file) != 1 || fclose(file) != 0) {
        snprintf(err->message, sizeof err->message, "%s: it cannot be written", o->state);
        return BZNA_E_IO;
    }
    return BZNA_OK;
}

static bzna_status run(const options *o, bzna_stream *stream, bzna_error *err)
{
    const double start = now();
    uint64_t pictures = 0, failed = 0, batches = 0;
    bzna_status status = BZNA_OK;
    bzna_stream_info about = { .struct_size = sizeof about };

    while (status == BZNA_OK && (!o->batches || batches < o->batches) &&
           (!o->seconds || now() - start < (double)o->seconds)) {
        bzna_batch *batch;
        bzna_batch_info info;
        if ((status = bzna_stream_next(stream, BZNA_WAIT_FOREVER, &batch, err)) != BZNA_OK)
            break;
        bzna_batch_get_info(batch, &info, sizeof info, NULL);
        if (o->list)
            print_batch(stream, &info);
        pictures += info.count;
        failed += info.failed;
        batches++;
        bzna_batch_release(batch);
    }
    bzna_stream_get_info(stream, &about, sizeof about, NULL);
    fprintf(stderr, "%" PRIu64 " pictures, %" PRIu64 " failed, %" PRIu64 " shards of %.1f MB, at most %.1f MB in "
            "memory, %" PRIu32 " left out: %.1f pictures/s\n", pictures, failed, about.shards_read,
            (double)about.bytes_read * 1e-6, (double)about.peak_bytes * 1e-6, about.shards_left_out,
            (double)pictures / (now() - start));
    return status;
}

int main(int argc, char **argv)
{
    bzna_context_config context_config = { .struct_size = sizeof context_config };
    options o = { .batch = 32, .size = 224, .seed = 1, .epochs = 1, .world = 1 };
    bzna_context *context = NULL;
    bzna_stream *stream = NULL;
    bzna_error err = { 0 };
    bzna_status status;

    for (int i = 1; i < argc; i++)
        if (!take_option(&o, argv[i]) && o.source_count < 64)
            o.sources[o.source_count++] = argv[i];
    if (!o.source_count) {
        fprintf(stderr, "usage: %s SOURCE... [OPTION=VALUE...]\n", argv[0]);
        return 2;
    }

    context_config.own_codecs.ptr = bzna_formats_codecs(&context_config.own_codecs.count);
    check(bzna_context_open(&context_config, &context, &err), &err);
    status = open_stream(&o, context, &stream, &err);
    if (status == BZNA_OK)
        status = run(&o, stream, &err);
    if (status >= 0 && o.state && bzna_stream_loader(stream))
        status = save_state(&o, stream, &err);
    bzna_stream_close(stream);      /* after an error, too: this ends the commands of its pipes */
    bzna_context_close(context);
    check(status, &err);
    return 0;
}
