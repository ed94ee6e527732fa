/* verify.c - bzna verify: looks for damage in every sample, and for what this build cannot decode */
#include "tool.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A sample that a loader could not deliver. */
typedef struct bad_sample {
    uint64_t    index;
    bzna_status status;
    char       *message;
} bad_sample;

/* Shared by the threads; lock guards next and what follows it. */
typedef struct verification {
    const archive  *archive;
    int             decode;
    pthread_mutex_t lock;
    uint64_t        next, done;
    bad_sample     *bad;
    size_t          bad_count, capacity;
    size_t          unsupported;      /* of them; the others are damaged */
    uint64_t        profiles;         /* pictures with a profile of other colors than sRGB */
    uint64_t        unread;           /* samples that the original reader cannot read */
    tool_progress   progress;
} verification;

/* What one thread uses again for every sample. */
typedef struct verifier {
    bzna_decoder *decoder;            /* NULL: pictures are not decoded */
    tool_buffer   buffer, profile;
    uint64_t      profiles, unread;   /* as in verification */
} verifier;

static int same_bytes(const bzna_image_info *a, const bzna_image_info *b)
{
    return a->data_offset == b->data_offset && a->data_size == b->data_size &&
           a->frame_width == b->frame_width && a->frame_height == b->frame_height;
}

/* Decodes; a decoder does not know whose picture it was given, so the message gets the sample's name. */
static bzna_status decode_check(const archive *a, verifier *v, uint64_t index, const bzna_image *image, bzna_error *err)
{
    const char *filename = NULL;
    bzna_picture picture = { .struct_size = sizeof picture };
    bzna_status status = bzna_decoder_decode(v->decoder, image, &picture, err);
    if (status >= 0 || archive_filename(a, index, &v->buffer, &filename, NULL) < 0 || !filename) return status;

    size_t reason = strlen(err->message) + 1, room = sizeof err->message - reason, length = strlen(filename);
    if (room < 2) return status;                            /* the reason is kept whole */
    length = length < room - 2 ? length : room - 2;
    memmove(err->message + length + 2, err->message, reason);
    memcpy(err->message, filename, length);
    memcpy(err->message + length, ": ", 2);
    return status;
}

/* Counts a picture whose file has a color profile that loaders do not apply. */
static void profile_check(verifier *v, const bzna_image *image)
{
    size_t size = profile_read(image->data, (size_t)image->data_size, &v->profile);
    v->profiles += size && !profile_is_srgb(v->profile.data, size);
}

/* Whether a picture is a file that may have a profile: others are frames of an archive or a video. */
static int may_have_profile(const bzna_image_info *info)
{
    return archive_is_file(info->codec) || archive_is_heif(info);
}

/* One picture of a sample: its boxes; with a decoder, that it decodes. previous: the last one that was decoded. */
static bzna_status picture_check(const archive *a, verifier *v, uint64_t index, const char *track,
                                 bzna_image_info *previous, bzna_error *err)
{
    bzna_image_info info;
    bzna_image image;
    bzna_status status = bzna_dataset_image_info(a->dataset, index, track, &info, sizeof info, err);
    if (status >= 0 && (!info.width || !info.height)) {
        snprintf(err->message, sizeof err->message, "sample %" PRIu64 ": %s does not say its size", index, track);
        return err->status = BZNA_E_DECODE;
    }
    /* A small picture is its own thumbnail: the same bytes need not be decoded twice. */
    if (status < 0 || (!v->decoder && !may_have_profile(&info)) ||
        (previous->data_size && same_bytes(&info, previous))) return status;
    *previous = info;
    if ((status = archive_read_file(a, index, track, &v->buffer, &image, err)) < 0) return status;
    if (may_have_profile(&info)) profile_check(v, &image);
    if (!v->decoder) return status;
    return decode_check(a, v, index, &image, err);
}

/* Nothing is wrong with what is well coded, but not for this build. */
static int is_unsupported(bzna_status status) { return status == BZNA_E_CODEC || status == BZNA_E_UNSUPPORTED; }

/* Fields other than pictures: that they can be read, as far as the sample has them. */
static bzna_status fields_check(const verification *all, verifier *v, uint64_t index, bzna_error *err)
{
    const archive_fields *fields = &all->archive->fields;
    for (uint32_t i = 0; i < fields->count; i++) {
        archive_value value;
        if (!archive_field_is_further(&fields->list[i])) continue;
        bzna_status status = archive_value_read(all->archive, index, &fields->list[i], &v->buffer, &value, err);
        if (status < 0 && status != BZNA_E_NOT_FOUND) return status;
    }
    return BZNA_OK;
}

/* The box at `at`: where the next one begins, or 0 if no whole box is there; *inside: where its contents begin. */
static size_t box_end(const uint8_t *data, size_t size, size_t at, size_t *inside)
{
    if (at > size || size - at < 8) return 0;
    uint64_t bytes = 0;
    for (size_t i = at; i < at + 4; i++) bytes = bytes << 8 | data[i];
    size_t header = 8;
    if (bytes == 1 && size - at >= 16) {
        bytes = 0;
        for (size_t i = at + 8; i < at + 16; i++) bytes = bytes << 8 | data[i];
        header = 16;
    }
    *inside = at + header;
    return bytes < header || bytes > size - at ? 0 : at + (size_t)bytes;
}

/* Whether a box follows the tracks of a sample. The original reader leaves a moov only after a track, so it looks for
 * one in all that follows the sample, and may never return. Version 0.3 wrote fields there. */
static int has_box_behind_tracks(const uint8_t *data, size_t size)
{
    size_t at = 0, end, inside = 0;
    int is_track = 0, had_track = 0;
    while ((end = box_end(data, size, at, &inside)) && memcmp(data + at + 4, "moov", 4)) at = end;
    if (!end) return 0;
    for (at = inside, size = end; (end = box_end(data, size, at, &inside)); at = end) {
        is_track = !memcmp(data + at + 4, "trak", 4);
        had_track |= is_track;
    }
    return had_track && !is_track;
}

/* Counts a sample of an archive that the original reader cannot read. Only fields were written there. */
static void original_check(const archive *a, verifier *v, const bzna_sample_ref *sample)
{
    bzna_image image;
    int has_fields = 0;
    if (strcmp(a->container, "archive") || !sample->image_count) return;
    for (uint32_t i = 0; i < a->fields.count; i++) has_fields |= archive_field_is_further(&a->fields.list[i]);
    if (has_fields &&
        archive_read_picture(a, sample->index, sample->image_names[0], &v->buffer, &image, NULL) == BZNA_OK)
        v->unread += (uint64_t)has_box_behind_tracks(v->buffer.data, (size_t)sample->size);
}

static int has_pictures(const archive_fields *fields)
{
    for (uint32_t i = 0; i < fields->count; i++)
        if (fields->list[i].kind == BZNA_FIELD_IMAGE) return 1;
    return 0;
}

/* One sample: its index entries, boxes and ranges, its fields, and its pictures. */
static bzna_status sample_check(const verification *all, verifier *v, uint64_t index, bzna_error *err)
{
    const archive *a = all->archive;
    const char *filename;
    int64_t target;
    bzna_sample_ref sample = { .struct_size = sizeof sample };
    bzna_image_info previous = { 0 };
    bzna_status status;
    if ((status = bzna_dataset_sample(a->dataset, index, &sample, sizeof sample, err)) < 0 ||
        (status = bzna_dataset_target(a->dataset, index, &target, err)) < 0 ||
        (status = archive_filename(a, index, &v->buffer, &filename, err)) < 0 ||
        (status = fields_check(all, v, index, err)) < 0) return status;
    for (uint32_t i = 0; i < sample.image_count && i < BZNA_IMAGES_MAX; i++)
        if ((status = picture_check(a, v, index, sample.image_names[i], &previous, err)) < 0) return status;
    original_check(a, v, &sample);
    if (sample.image_count || !has_pictures(&all->archive->fields)) return BZNA_OK;
    snprintf(err->message, sizeof err->message, "the sample holds no picture");
    return err->status = BZNA_E_NOT_FOUND;
}

/* Called with the lock held. */
static void bad_add(verification *v, uint64_t index, const bzna_error *err, bzna_status status)
{
    if (v->bad_count == v->capacity) {
        v->capacity = v->capacity ? 2 * v->capacity : 16;
        v->bad = tool_checked(realloc(v->bad, v->capacity * sizeof *v->bad));
    }
    const char *message = err->message[0] ? err->message : bzna_status_text(status);
    v->bad[v->bad_count++] = (bad_sample){ index, status, tool_format("%s", message) };
    v->unsupported += (size_t)is_unsupported(status);
}

static void *verify_thread(void *argument)
{
    verification *v = argument;
    verifier own = { .decoder = NULL };
    if (v->decode) bzna_decoder_open(v->archive->context, &own.decoder, NULL);
    for (;;) {
        pthread_mutex_lock(&v->lock);
        uint64_t index = v->next < v->archive->count ? v->next++ : UINT64_MAX;
        pthread_mutex_unlock(&v->lock);
        if (index == UINT64_MAX) break;
        bzna_error err = tool_empty_error();
        /* A decoder could be opened before the threads were started: a failure now is for want of memory. */
        bzna_status status = v->decode && !own.decoder ? BZNA_E_MEMORY : sample_check(v, &own, index, &err);
        pthread_mutex_lock(&v->lock);
        if (status < 0) bad_add(v, index, &err, status);
        tool_progress_show(&v->progress, ++v->done);
        pthread_mutex_unlock(&v->lock);
    }
    pthread_mutex_lock(&v->lock);
    v->profiles += own.profiles;
    v->unread += own.unread;
    pthread_mutex_unlock(&v->lock);
    bzna_decoder_close(own.decoder);
    free(own.buffer.data);
    free(own.profile.data);
    return NULL;
}

static int by_index(const void *a, const void *b)
{
    uint64_t x = ((const bad_sample *)a)->index, y = ((const bad_sample *)b)->index;
    return (x > y) - (x < y);
}

/* The samples that are not supported, or those that are damaged. */
static void bad_json(const verification *v, int unsupported)
{
    int count = 0;
    for (size_t i = 0; i < v->bad_count; i++) {
        if (is_unsupported(v->bad[i].status) != unsupported) continue;
        printf("%s\n {\"index\":%" PRIu64 ",\"status\":", count++ ? "," : "", v->bad[i].index);
        tool_json_string(bzna_status_name(v->bad[i].status));
        printf(",\"message\":");
        tool_json_string(v->bad[i].message);
        putchar('}');
    }
    if (count) putchar('\n');
}

static void report_json(const verification *v)
{
    printf("{\"samples\":%" PRIu64 ",\"bad\":[", v->archive->count);
    bad_json(v, 0);
    printf("],\"unsupported\":[");
    bad_json(v, 1);
    printf("],\"unread_by_original\":%" PRIu64 ",\"profiles\":%" PRIu64 "}\n", v->unread, v->profiles);
}

static void report_text(const verification *v)
{
    for (size_t i = 0; i < v->bad_count; i++) {
        printf("sample %" PRIu64 ": %s: ", v->bad[i].index, bzna_status_name(v->bad[i].status));
        tool_print_text(stdout, v->bad[i].message);
        putchar('\n');
    }
    if (!v->bad_count)
        printf("%" PRIu64 " samples, all %s\n", v->archive->count, v->decode ? "decoded" : "in order");
    if (v->profiles)
        printf("%" PRIu64 " pictures have a color profile other than sRGB, which loaders do not apply\n", v->profiles);
    if (v->unread)
        printf("%" PRIu64 " samples have their fields behind their tracks, as version 0.3 wrote them: the original "
               "Benzina cannot read them. bzna convert writes an archive that it can read\n", v->unread);
    if (!v->decode) puts("no picture was decoded: --decode does that, too");
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
    run_threads(&v, o->jobs ? o->jobs : os_processor_count());
    pthread_mutex_destroy(&v.lock);
    tool_progress_end(&v.progress);
    if (v.bad_count) qsort(v.bad, v.bad_count, sizeof *v.bad, by_index);
    if (o->json) report_json(&v);
    else         report_text(&v);
    for (size_t i = 0; i < v.bad_count; i++) free(v.bad[i].message);
    free(v.bad);
    if (!v.bad_count) return EXIT_OK;
    return tool_error("%s: %zu of %" PRIu64 " samples are damaged, %zu are not supported", o->operand[0],
                      v.bad_count - v.unsupported, a->count, v.unsupported);
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
    if (archive_open(&a, o)) return EXIT_INPUT;
    note_tail(&a, o->operand[0]);
    /* Where nothing can decode, say so once instead of calling every sample damaged. */
    int failed = o->decode && bzna_decoder_open(a.context, &decoder, &err) < 0;
    bzna_decoder_close(decoder);
    int result = failed ? tool_error("%s", err.message) : verify(o, &a);
    archive_close(&a);
    return result;
}
