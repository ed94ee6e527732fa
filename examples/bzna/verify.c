/* verify.c - bzna verify */
#include "tool.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct bad_sample {
    uint64_t    index;
    bzna_status status;
    char       *message;
} bad_sample;

/* Shared by the checking threads; lock guards next and what follows it. */
typedef struct checking {
    const archive  *archive;
    int             decode;
    pthread_mutex_t lock;
    uint64_t        next, done;
    bad_sample     *bad;
    size_t          bad_count, bad_room;
    progress        progress;
} checking;

/* One sample: its index entries, boxes and ranges; with a decoder its pictures too. */
static bzna_status check_sample(const archive *a, uint64_t index, bzna_decoder *decoder, bytes *buffer, bzna_error *err)
{
    const char *filename;
    int64_t target;
    bzna_sample sample = { .struct_size = sizeof sample };
    bzna_image image = { .struct_size = sizeof image }, last = { 0 };
    bzna_picture picture = { .struct_size = sizeof picture };
    bzna_status status;
    if ((status = bzna_dataset_sample(a->dataset, index, &sample, err)) < 0 ||
        (status = bzna_dataset_target(a->dataset, index, &target, err)) < 0 ||
        (status = sample_filename(a, index, buffer, &filename, err)) < 0) return status;
    for (uint32_t i = 0; i < sample.image_count && i < BZNA_IMAGES_MAX; i++) {
        const char *track = sample.image_names[i];
        if (!decoder) {
            if ((status = bzna_dataset_image(a->dataset, index, track, NULL, 0, &image, err)) < 0) return status;
            continue;
        }
        if ((status = sample_load(a, index, track, buffer, &image, err)) < 0) return status;
        /* A small picture is its own thumbnail: the same bytes need not be decoded again. */
        if (i && image.data_offset == last.data_offset && image.data_size == last.data_size && image.frame_width == last.frame_width &&
            image.frame_height == last.frame_height) continue;
        if ((status = bzna_decoder_decode(decoder, &image, &picture, err)) < 0) return status;
        last = image;
    }
    if (sample.image_count) return BZNA_OK;
    snprintf(err->message, sizeof err->message, "the sample holds no picture");
    return err->status = BZNA_E_NOT_FOUND;
}

static void check_note(checking *c, uint64_t index, const bzna_error *err, bzna_status status)
{
    if (c->bad_count == c->bad_room) {
        c->bad_room = c->bad_room ? 2 * c->bad_room : 16;
        c->bad = checked(realloc(c->bad, c->bad_room * sizeof *c->bad));
    }
    c->bad[c->bad_count++] = (bad_sample){ index, status, text_make("%s", err->message[0] ? err->message : bzna_status_text(status)) };
}

static void *check_thread(void *argument)
{
    checking *c = argument;
    bytes buffer = { NULL, 0 };
    bzna_decoder *decoder = NULL;
    if (c->decode) bzna_decoder_open(c->archive->context, &decoder, NULL);     /* run_verify has tried whether it can be */
    for (;;) {
        pthread_mutex_lock(&c->lock);
        uint64_t index = c->next < c->archive->count ? c->next++ : UINT64_MAX;
        pthread_mutex_unlock(&c->lock);
        if (index == UINT64_MAX) break;
        bzna_error err = error_empty();
        bzna_status status = c->decode && !decoder ? BZNA_E_MEMORY : check_sample(c->archive, index, decoder, &buffer, &err);
        pthread_mutex_lock(&c->lock);
        if (status < 0) check_note(c, index, &err, status);
        progress_show(&c->progress, ++c->done);
        pthread_mutex_unlock(&c->lock);
    }
    bzna_decoder_close(decoder);
    free(buffer.data);
    return NULL;
}

static int bad_order(const void *a, const void *b)
{
    uint64_t x = ((const bad_sample *)a)->index, y = ((const bad_sample *)b)->index;
    return (x > y) - (x < y);
}

static void verify_report(const options *o, const checking *c)
{
    if (o->json) printf("{\"samples\":%" PRIu64 ",\"bad\":[", c->archive->count);
    for (size_t i = 0; i < c->bad_count; i++) {
        const bad_sample *bad = &c->bad[i];
        if (o->json) {
            printf("%s\n {\"index\":%" PRIu64 ",\"status\":", i ? "," : "", bad->index);
            json_string(bzna_status_name(bad->status));
            printf(",\"message\":");
            json_string(bad->message);
            putchar('}');
        } else {
            printf("sample %" PRIu64 ": %s: ", bad->index, bzna_status_name(bad->status));
            print_plain(stdout, bad->message);
            putchar('\n');
        }
    }
    if (o->json) puts(c->bad_count ? "\n]}" : "]}");
    else if (!c->bad_count) printf("%" PRIu64 " samples, all %s\n", c->archive->count, o->decode ? "decoded" : "in order");
}

/* Runs body(argument) on `count` threads, this one among them. */
static void threads_run(int64_t count, void *(*body)(void *), void *argument)
{
    pthread_t *threads = checked(calloc((size_t)count, sizeof *threads));
    int64_t started = 0;
    while (started < count - 1 && !pthread_create(&threads[started], NULL, body, argument)) started++;
    body(argument);
    for (int64_t i = 0; i < started; i++) pthread_join(threads[i], NULL);
    free(threads);
}

int run_verify(const options *o)
{
    archive a;
    bzna_decoder *decoder = NULL;
    bzna_error err = error_empty();
    if (archive_open(&a, o->operand[0])) return EXIT_INPUT;
    if (o->decode && bzna_decoder_open(a.context, &decoder, &err) < 0) {
        archive_close(&a);
        return complain("%s", err.message);
    }
    bzna_decoder_close(decoder);
    checking c = { .archive = &a, .decode = o->decode != 0, .progress = progress_start("samples", a.count) };
    pthread_mutex_init(&c.lock, NULL);
    threads_run(o->jobs ? o->jobs : processors(), check_thread, &c);
    pthread_mutex_destroy(&c.lock);
    progress_end(&c.progress);
    if (c.bad_count) qsort(c.bad, c.bad_count, sizeof *c.bad, bad_order);
    verify_report(o, &c);
    int result = c.bad_count ? complain("%s: %zu of %" PRIu64 " samples are damaged", o->operand[0], c.bad_count, a.count) : EXIT_OK;
    for (size_t i = 0; i < c.bad_count; i++) free(c.bad[i].message);
    free(c.bad);
    archive_close(&a);
    return result;
}
