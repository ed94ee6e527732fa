/* verify.c - bzna verify: looks for damage in every sample */
#include "tool.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct damaged_sample {
    uint64_t    index;
    bzna_status status;
    char       *message;
} damaged_sample;

/* Shared by the threads; lock guards next and what follows it. */
typedef struct verification {
    const archive  *archive;
    int             decode;
    pthread_mutex_t lock;
    uint64_t        next, done;
    damaged_sample *damaged;
    size_t          damaged_count, capacity;
    tool_progress   progress;
} verification;

/* What one thread uses again for every sample. */
typedef struct verifier {
    bzna_decoder *decoder;            /* NULL: pictures are not decoded */
    tool_buffer   buffer;
} verifier;

static int same_bytes(const bzna_image_info *a, const bzna_image_info *b)
{
    return a->data_offset == b->data_offset && a->data_size == b->data_size &&
           a->frame_width == b->frame_width && a->frame_height == b->frame_height;
}

/* One picture of a sample: its boxes; with a decoder, that it decodes. previous: the last one that was decoded. */
static bzna_status picture_check(const archive *a, verifier *v, uint64_t index, const char *track,
                                 bzna_image_info *previous, bzna_error *err)
{
    bzna_image_info info;
    bzna_image image;
    bzna_picture picture = { .struct_size = sizeof picture };
    bzna_status status = bzna_dataset_get_image_info(a->dataset, index, track, &info, sizeof info, err);
    /* A small picture is its own thumbnail: the same bytes need not be decoded twice. */
    if (status < 0 || !v->decoder || (previous->data_size && same_bytes(&info, previous))) return status;
    *previous = info;
    if ((status = archive_read_picture(a, index, track, &v->buffer, &image, err)) < 0) return status;
    return bzna_decoder_decode(v->decoder, &image, &picture, err);
}

/* One sample: its index entries, boxes and ranges, and its pictures. */
static bzna_status sample_check(const archive *a, verifier *v, uint64_t index, bzna_error *err)
{
    const char *filename;
    int64_t target;
    bzna_sample sample = { .struct_size = sizeof sample };
    bzna_image_info previous = { 0 };
    bzna_status status;
    if ((status = bzna_dataset_get_sample(a->dataset, index, &sample, sizeof sample, err)) < 0 ||
        (status = bzna_dataset_target(a->dataset, index, &target, err)) < 0 ||
        (status = archive_filename(a, index, &v->buffer, &filename, err)) < 0) return status;
    for (uint32_t i = 0; i < sample.image_count && i < BZNA_IMAGES_MAX; i++)
        if ((status = picture_check(a, v, index, sample.image_names[i], &previous, err)) < 0) return status;
    if (sample.image_count) return BZNA_OK;
    snprintf(err->message, sizeof err->message, "the sample holds no picture");
    return err->status = BZNA_E_NOT_FOUND;
}

/* Called with the lock held. */
static void damage_add(verification *v, uint64_t index, const bzna_error *err, bzna_status status)
{
    if (v->damaged_count == v->capacity) {
        v->capacity = v->capacity ? 2 * v->capacity : 16;
        v->damaged = tool_checked(realloc(v->damaged, v->capacity * sizeof *v->damaged));
    }
    const char *message = err->message[0] ? err->message : bzna_status_text(status);
    v->damaged[v->damaged_count++] = (damaged_sample){ index, status, tool_format("%s", message) };
}

static void *verify_thread(void *argument)
{
    verification *v = argument;
    verifier own = { NULL, { NULL, 0 } };
    if (v->decode) bzna_decoder_open(v->archive->context, &own.decoder, NULL);
    for (;;) {
        pthread_mutex_lock(&v->lock);
        uint64_t index = v->next < v->archive->count ? v->next++ : UINT64_MAX;
        pthread_mutex_unlock(&v->lock);
        if (index == UINT64_MAX) break;
        bzna_error err = tool_empty_error();
        /* A decoder could be opened before the threads were started: a failure now is for want of memory. */
        bzna_status status = v->decode && !own.decoder ? BZNA_E_MEMORY : sample_check(v->archive, &own, index, &err);
        pthread_mutex_lock(&v->lock);
        if (status < 0) damage_add(v, index, &err, status);
        tool_progress_show(&v->progress, ++v->done);
        pthread_mutex_unlock(&v->lock);
    }
    bzna_decoder_close(own.decoder);
    free(own.buffer.data);
    return NULL;
}

static int by_index(const void *a, const void *b)
{
    uint64_t x = ((const damaged_sample *)a)->index, y = ((const damaged_sample *)b)->index;
    return (x > y) - (x < y);
}

static void report_json(const verification *v)
{
    printf("{\"samples\":%" PRIu64 ",\"bad\":[", v->archive->count);
    for (size_t i = 0; i < v->damaged_count; i++) {
        printf("%s\n {\"index\":%" PRIu64 ",\"status\":", i ? "," : "", v->damaged[i].index);
        tool_json_string(bzna_status_name(v->damaged[i].status));
        printf(",\"message\":");
        tool_json_string(v->damaged[i].message);
        putchar('}');
    }
    puts(v->damaged_count ? "\n]}" : "]}");
}

static void report_text(const verification *v)
{
    for (size_t i = 0; i < v->damaged_count; i++) {
        printf("sample %" PRIu64 ": %s: ", v->damaged[i].index, bzna_status_name(v->damaged[i].status));
        tool_print_text(stdout, v->damaged[i].message);
        putchar('\n');
    }
    if (!v->damaged_count)
        printf("%" PRIu64 " samples, all %s\n", v->archive->count, v->decode ? "decoded" : "in order");
}

/* Runs verify_thread on `count` threads, the caller's among them; on fewer, where no more can be started. */
static void run_threads(verification *v, int64_t count)
{
    pthread_t *threads = tool_checked(calloc((size_t)count, sizeof *threads));
    int64_t started = 0;
    while (started < count - 1 && !pthread_create(&threads[started], NULL, verify_thread, v)) started++;
    verify_thread(v);
    for (int64_t i = 0; i < started; i++) pthread_join(threads[i], NULL);
    free(threads);
}

static int verify(const tool_options *o, const archive *a)
{
    verification v = { .archive = a, .decode = o->decode != 0, .progress = tool_progress_start("samples", a->count) };
    pthread_mutex_init(&v.lock, NULL);
    run_threads(&v, o->jobs ? o->jobs : tool_processor_count());
    pthread_mutex_destroy(&v.lock);
    tool_progress_end(&v.progress);
    if (v.damaged_count) qsort(v.damaged, v.damaged_count, sizeof *v.damaged, by_index);
    if (o->json) report_json(&v);
    else         report_text(&v);
    for (size_t i = 0; i < v.damaged_count; i++) free(v.damaged[i].message);
    free(v.damaged);
    if (!v.damaged_count) return EXIT_OK;
    return tool_error("%s: %zu of %" PRIu64 " samples are damaged", o->operand[0], v.damaged_count, a->count);
}

static void note_tail(const archive *a, const char *path)
{
    bzna_dataset_info info;
    if (bzna_dataset_get_info(a->dataset, &info, sizeof info, NULL) == BZNA_OK && info.trailing_bytes)
        fprintf(stderr, "bzna: note: %s: %" PRIu64 " bytes after the last box are ignored\n", path,
                info.trailing_bytes);
}

int tool_run_verify(const tool_options *o)
{
    archive a;
    bzna_decoder *decoder = NULL;
    bzna_error err = tool_empty_error();
    if (archive_open(&a, o->operand[0])) return EXIT_INPUT;
    note_tail(&a, o->operand[0]);
    /* Where nothing can decode, say so once instead of calling every sample damaged. */
    int failed = o->decode && bzna_decoder_open(a.context, &decoder, &err) < 0;
    bzna_decoder_close(decoder);
    int result = failed ? tool_error("%s", err.message) : verify(o, &a);
    archive_close(&a);
    return result;
}
