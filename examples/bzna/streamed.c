/* streamed.c - data sets that cannot seek: pipes, standard input, commands, gzip and zstd, read into memory
 *
 * ../stream/stream.h says what they are. bench draws from them by a stream. All other commands read them into memory as
 * a whole, since they look at samples anywhere. */
#include "tool.h"

#include <stdlib.h>
#include <string.h>

#ifdef BZNA_NO_STREAMS                /* if ../stream/stream_source.c does not compile: it starts commands, and polls */

int streamed_is(const char *pattern) { return !strcmp(pattern, "-") || !strncmp(pattern, "pipe:", 5); }

bzna_status streamed_open(archive *a, const char *pattern, const bzna_formats_config *config, bzna_error *err)
{
    (void)a, (void)config;
    snprintf(err->message, sizeof err->message, "%s: this bzna was built without streams", pattern);
    return err->status = BZNA_E_UNSUPPORTED;
}

int streamed_bench(const tool_options *o)
{
    return tool_error("%s: this bzna was built without streams", o->operand[0]);
}

#else

#include "../stream/stream.h"

static const uint64_t memory_max_bytes = UINT64_C(4) << 30;

/* A file that the stream unpacks. */
static int is_packed(const char *path)
{
    uint8_t head[4] = { 0 };
    FILE *file = fopen(path, "rb");
    size_t got = file ? fread(head, 1, sizeof head, file) : 0;
    if (file) fclose(file);
    if (got < sizeof head) return 0;
    return (head[0] == 0x1f && head[1] == 0x8b) || !memcmp(head, "\x28\xb5\x2f\xfd", 4) ||
           ((head[0] & 0xf0) == 0x50 && !memcmp(head + 1, "\x2a\x4d\x18", 3));
}

static int is_streamed(const char *path)
{
    struct stat about;
    if (!strcmp(path, "-") || !strncmp(path, "pipe:", 5)) return 1;
    if (stat(path, &about) != 0) return 0;
    return S_ISFIFO(about.st_mode) || S_ISSOCK(about.st_mode) || (S_ISREG(about.st_mode) && is_packed(path));
}

int streamed_is(const char *pattern)
{
    char **list = NULL;
    uint32_t count = 0;
    if (is_streamed(pattern)) return 1;
    if (tool_path_exists(pattern) || bzna_stream_expand(pattern, &list, &count, NULL) < 0) return 0;
    int result = count > 0 && is_streamed(list[0]);
    free(list);
    return result;
}

/* Reads and opens one of them, as long as there is memory. */
static bzna_status open_one(archive *a, const char *source, uint64_t *left, const bzna_formats_config *config,
                            bzna_dataset **dataset, bzna_error *err)
{
    void *bytes;
    size_t size;
    bzna_status status = bzna_stream_read(source, *left, &bytes, &size, err);
    if (status == BZNA_E_LIMIT)
        snprintf(err->message, sizeof err->message, "%s: the data set has more than %" PRIu64 " MiB, unpacked, which "
                 "the command has to keep in memory", source, memory_max_bytes >> 20);
    if (status < 0) return status;
    tool_names_add(&a->memory, bytes);                      /* freed when the data set is closed */
    *left -= size;
    bzna_dataset_config own = *config->dataset;
    bzna_formats_config formats = *config;
    own.name = source;
    formats.dataset = &own;
    return bzna_formats_open_memory(a->context, bytes, size, &formats, dataset, err);
}

bzna_status streamed_open(archive *a, const char *pattern, const bzna_formats_config *config, bzna_error *err)
{
    char **list = NULL;
    uint32_t count = 0, opened = 0;
    uint64_t left = memory_max_bytes;
    bzna_status status = BZNA_OK;
    if (!strcmp(pattern, "-") || (strncmp(pattern, "pipe:", 5) && tool_path_exists(pattern))) count = 1;
    else status = bzna_stream_expand(pattern, &list, &count, err);
    bzna_dataset **datasets = tool_checked(calloc((size_t)count + 1, sizeof *datasets));
    for (; status == BZNA_OK && opened < count; opened++)
        status = open_one(a, list ? list[opened] : pattern, &left, config, &datasets[opened], err);
    if (status == BZNA_OK && count == 1) {
        a->dataset = datasets[0];
        datasets[0] = NULL;
    } else if (status == BZNA_OK) {
        status = bzna_dataset_concat(a->context, datasets, count, &a->dataset, err);
    }
    for (uint32_t i = 0; i < count; i++) bzna_dataset_close(datasets[i]);
    free(datasets);
    free(list);
    return status;
}


/* ---- bzna bench ---- */

typedef struct stream_bench {
    uint64_t pictures, failed;
    double   seconds;
    bzna_stream_info info;
} stream_bench;

static bzna_status take_batches(bzna_stream *stream, double seconds, stream_bench *b, bzna_error *err)
{
    bzna_status status;
    int64_t start_ns = 0;
    b->seconds = 0;
    while (b->seconds < seconds) {
        bzna_batch *batch;
        bzna_batch_info info = { .struct_size = sizeof info };
        if ((status = bzna_stream_next(stream, BZNA_WAIT_FOREVER, &batch, err)) != BZNA_OK)
            return status == BZNA_END ? BZNA_OK : status;
        bzna_batch_get_info(batch, &info, sizeof info, NULL);
        bzna_batch_release(batch);
        if (!start_ns) start_ns = tool_now_ns();            /* the first batch waited for a whole window */
        else           b->pictures += info.count, b->failed += info.failed;
        b->seconds = (double)(tool_now_ns() - start_ns) * 1e-9;
    }
    return BZNA_OK;
}

static void report(const stream_bench *b, int json)
{
    double rate = b->seconds > 0 ? (double)(b->pictures - b->failed) / b->seconds : 0;
    if (json)
        printf("{\"images_per_second\":%.2f,\"seconds\":%.3f,\"shards\":%" PRIu64 ",\"bytes\":%" PRIu64
               ",\"peak_bytes\":%" PRIu64 ",\"window\":%" PRIu64 ",\"epoch\":%" PRIu64 "}\n", rate, b->seconds,
               b->info.shards_read, b->info.bytes_read, b->info.peak_bytes, b->info.window, b->info.epoch);
    else
        printf("stream       %10.1f pictures/s  %.1f s, from the first batch on\n"
               "shards       %10" PRIu64 " read, %.1f MB unpacked, at most %.1f MB of them in memory\n",
               rate, b->seconds,
               b->info.shards_read, (double)b->info.bytes_read * 1e-6, (double)b->info.peak_bytes * 1e-6);
}

/* A source that cannot be read again. */
static int is_once(const char *source)
{
    struct stat about;
    return !strcmp(source, "-") || !strncmp(source, "/dev/", 5) || (!stat(source, &about) && !S_ISREG(about.st_mode));
}

int streamed_bench(const tool_options *o)
{
    const archive_loading loading = { .epochs = is_once(o->operand[0]) ? 1 : BZNA_EPOCHS_ENDLESS };
    const char *const source = o->operand[0];
    bzna_loader_config loader;
    bzna_stream_config config;
    bzna_context *context = NULL;
    bzna_stream *stream = NULL;
    bzna_error err = tool_empty_error();
    stream_bench b = { .info.struct_size = sizeof b.info };
    tool_options settings = *o;
    if (o->indices) return tool_error("--indices: samples of a stream have no numbers");
    settings.shuffle = 1;
    settings.flip = 0.5;
    archive_loader_config(&settings, &loading, &loader);
    bzna_stream_config_init(&config, sizeof config);
    config.sources = &source;
    config.source_count = 1;
    config.loader = &loader;
    bzna_status status = archive_open_context(o->device, o->sessions, &context, &err);
    if (status == BZNA_OK) archive_choose_device(context, &loader);
    if (status == BZNA_OK) status = bzna_stream_open(context, &config, &stream, &err);
    if (status == BZNA_OK) status = take_batches(stream, o->seconds, &b, &err);
    if (status == BZNA_OK) {
        bzna_stream_get_info(stream, &b.info, sizeof b.info, NULL);
        report(&b, o->json != 0);
    }
    bzna_stream_close(stream);
    bzna_context_close(context);
    return status < 0 ? tool_gpu_error(err.message) : EXIT_OK;
}

#endif
