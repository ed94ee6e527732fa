/* stream.c - see stream.h
 *
 * From top to bottom: shards in memory, the provider that the loader reads, windows, the thread that fills them,
 * opening, batches, resuming. stream_source.c reads single sources.
 *
 * The filler owns stream->fill, and reads shards without the lock. stream->mutex guards the list of shards in memory,
 * the lists of samples that were cut, and the members marked (L). The consumer's thread owns the rest. It gives the
 * loader its lists, so that nothing but the consumer ever touches the loader. */
#ifndef _POSIX_C_SOURCE                 /* a header before this may have asked for more */
#  define _POSIX_C_SOURCE 200809L
#endif
#include "stream_source.h"
#include "formats.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    FIELDS_MAX = 64,                  /* of a provider */
    TEXT_BYTES = 1024                 /* of a text field that is copied without an allocation */
};

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size)   /* FNV-1a */
{
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- The stream --------------------------------------------------------------------------- */

/* A shard in memory. */
typedef struct shard {
    struct shard *next;
    uint32_t      number;             /* in the list of sources */
    uint32_t      readers;            /* (L) calls of the provider that are reading it */
    uint32_t      is_released;        /* (L) it is no longer in the list; the last reader frees it */
    uint64_t      last_window;        /* (L) that has samples of it */
    uint64_t      size, count;        /* bytes, samples */
    void         *bytes;
    bzna_dataset *dataset;
} shard;

/* Samples of a shard that are in no list yet. */
typedef struct piece {
    shard   *shard;
    uint64_t first, count;
    uint64_t pass, place;             /* where the shard stands in the order of shards */
} piece;

/* One list of samples for the loader. */
typedef struct list {
    struct list     *next;
    uint64_t         number, epoch, window;
    uint64_t        *indices;         /* NULL once the loader has them */
    uint64_t         count;
    uint32_t         ends_epoch, ends_window;
    bzna_stream_mark after;           /* if it ends its window: the next one */
} list;

/* What the filler knows. */
typedef struct filling {
    bzna_stream_mark mark;            /* the window that is being made */
    piece           *pieces;          /* in the order of shards */
    size_t           piece_count, piece_room;
    uint64_t         pass, place;     /* the next shard */
    uint64_t         epoch, left;     /* the samples that this epoch still gives, with samples_per_epoch */
    uint64_t         carried, own;    /* bytes of the window's shards */
    uint32_t         failures;        /* shards in a row that were left out, or are empty */
    bzns_reader      reader;
    int              is_reading;
    uint64_t         first_list;      /* lists before this one were used up before the run went on */
} filling;

struct bzna_stream {
    bzna_context       *context;
    char              **sources;      /* one block */
    uint32_t            source_count, on_error, is_threadless, is_shuffled, last_batch;
    uint32_t            rank, world, batch_size;
    uint64_t            share;        /* shards of this rank in a pass */
    uint64_t            epoch_samples;          /* of this rank in an epoch; 0: each shard once */
    uint64_t            window_bytes, fingerprint, seed, end_epoch;
    bzna_stream_mark    start;
    bzna_loader_config  loader_config;
    bzna_dataset_config dataset_config;
    const bzna_rule    *rule_list;
    uint32_t            rule_count;
    bzna_rules         *rules;        /* the loader's; NULL: it has none */
    bzna_log_fn         log;
    void               *log_user;

    filling         fill;             /* the filler's */
    pthread_t       thread;
    int             has_thread;
    int             wake[2];          /* a byte in it ends reading */

    pthread_mutex_t mutex;
    pthread_cond_t  changed;
    shard          *shards;           /* (L) in memory, the newest first */
    list           *lists, **lists_end;         /* (L) that are not used up */
    uint32_t        windows;          /* (L) begun and not used up */
    int             is_stopped;       /* (L) */
    int             is_ended;         /* (L) the filler has made all lists, or failed */
    bzna_error      error;            /* (L) why it failed */
    char           *warnings;         /* (L) lines for log */
    bzna_stream_info info;            /* (L) */
    int             is_opening;       /* (L) the loader is being opened */

    bzna_loader    *loader;           /* (L) to set */
    bzna_dataset   *dataset;
    bzna_stream_mark mark;            /* the window of the next batch */
    bzna_loader_state resume;         /* for the loader when it is opened; struct_size 0: none */
};

/* ---- Shards in memory --------------------------------------------------------------------- */

static void shard_free(shard *s)
{
    bzna_dataset_close(s->dataset);
    free(s->bytes);
    free(s);
}

/* Frees the shards of which no later window has samples. With the lock held. */
static void shards_release(bzna_stream *stream, uint64_t window)
{
    shard **link = &stream->shards, *s;

    while ((s = *link) != NULL) {
        if (s->last_window != window) {
            link = &s->next;
            continue;
        }
        *link = s->next;
        stream->info.memory_bytes -= s->size;
        s->is_released = 1;
        if (!s->readers)
            shard_free(s);
    }
}

/* The window is used up: its memory is free for the next one. */
static void window_end(bzna_stream *stream, uint64_t window)
{
    pthread_mutex_lock(&stream->mutex);
    shards_release(stream, window);
    stream->windows--;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->mutex);
}

/* Finds a shard by its number, and holds it. To know what pictures are like, a loader that is opened asks for sample 0,
 * which may be in another rank's shard: then any shard answers. */
static shard *shard_hold(bzna_stream *stream, uint64_t number)
{
    shard *s;

    pthread_mutex_lock(&stream->mutex);
    for (s = stream->shards; s && s->number != number; )
        s = s->next;
    if (!s && stream->is_opening)
        s = stream->shards;
    if (s)
        s->readers++;
    pthread_mutex_unlock(&stream->mutex);
    return s;
}

static void shard_let_go(bzna_stream *stream, shard *s)
{
    int is_last;

    pthread_mutex_lock(&stream->mutex);
    is_last = --s->readers == 0 && s->is_released;
    pthread_mutex_unlock(&stream->mutex);
    if (is_last)
        shard_free(s);
}

/* Whether a tar that was read ends as tars do: with a block of zeros. One that was cut short need not be noticed
 * otherwise, as it may end between two files. */
static int tar_is_whole(const bzns_reader *r, const bzna_dataset *dataset)
{
    static const uint8_t zeros[512];
    bzna_dataset_info info = { .struct_size = sizeof info };

    return bzna_dataset_get_info(dataset, &info, sizeof info, NULL) != BZNA_OK || strcmp(info.container, "tar") ||
           (r->size % sizeof zeros == 0 && !memcmp(r->out + r->size - sizeof zeros, zeros, sizeof zeros));
}

/* Whether a tar has no members: it begins with a block of zeros. */
static int tar_is_empty(const bzns_reader *r)
{
    size_t i = 0;

    while (i < r->size && i < 512 && !r->out[i])
        i++;
    return i == 512;
}

/* Opens what the reader has read, and takes its memory. Returns BZNA_END for an empty tar. */
static bzna_status shard_open(bzna_stream *stream, bzns_reader *r, uint32_t number, shard **out, bzna_error *err)
{
    bzna_dataset_config config = stream->dataset_config;
    shard *s = calloc(1, sizeof *s);
    bzna_status status;

    if (!s)
        return bzns_fail_memory(err, r->name);
    config.name = r->name;
    status = bzna_dataset_open_memory(stream->context, r->out, r->size, &config, &s->dataset, err);
    if (status != BZNA_OK) {
        free(s);
        return status == BZNA_E_NO_SAMPLES && tar_is_empty(r) ? BZNA_END : status;
    }
    s->number = number;
    s->count = bzna_dataset_count(s->dataset);
    if (!tar_is_whole(r, s->dataset)) {
        shard_free(s);
        return bzns_fail(err, BZNA_E_TRUNCATED, r->size, 0, "%s: the tar was cut short at byte %zu: it has no "
                         "end-of-archive marker", r->name, r->size);
    }
    s->size = r->size;
    s->bytes = r->out;
    r->out = NULL;
    if (s->count > UINT32_MAX) {
        shard_free(s);
        return bzns_fail(err, BZNA_E_LIMIT, BZNA_NO_OFFSET, 0, "%s: it has more than 2^32 - 1 samples", r->name);
    }
    *out = s;
    return BZNA_OK;
}

/* ---- The provider ------------------------------------------------------------------------- */

/* Fields of the first shard, and "target" where that is no field of its own. */
typedef struct fields {
    bzna_field_info     info[FIELDS_MAX];
    bzna_provider_field given[FIELDS_MAX];
    uint32_t            count;
} fields;

/* Numbers of fields stand for names for as long as the provider lives. */
typedef struct provided {
    bzna_stream *stream;
    fields       fields;
} provided;

/* Text comes with a NUL that the provider does not want. */
static bzna_status read_text(const shard *s, uint64_t index, const char *name, void *buffer, uint64_t capacity,
                             uint64_t *size, bzna_error *err)
{
    char few[TEXT_BYTES], *text = few;
    size_t needed = 0;
    bzna_status status = bzna_dataset_field(s->dataset, index, name, few, sizeof few, &needed, err);

    if (status == BZNA_E_BUFFER) {
        if (!(text = malloc(needed)))
            return BZNA_E_MEMORY;
        status = bzna_dataset_field(s->dataset, index, name, text, needed, &needed, err);
    }
    if (status == BZNA_OK) {
        *size = needed ? needed - 1 : 0;
        if (*size && *size <= capacity)
            memcpy(buffer, text, (size_t)*size);
    }
    if (text != few)
        free(text);
    return status;
}

static bzna_status read_target(const shard *s, uint64_t index, void *buffer, uint64_t capacity, uint64_t *size,
                               bzna_error *err)
{
    int64_t target;
    bzna_status status = bzna_dataset_target(s->dataset, index, &target, err);

    if (status == BZNA_OK && target == BZNA_TARGET_NONE)
        status = BZNA_E_NOT_FOUND;
    *size = sizeof target;
    if (status == BZNA_OK && capacity >= sizeof target)
        memcpy(buffer, &target, sizeof target);
    return status;
}

static bzna_status provider_read(void *user, uint64_t index, uint32_t field, void *buffer, uint64_t capacity,
                                 uint64_t *size, bzna_error *err)
{
    provided *p = user;
    const bzna_field_info *info = &p->fields.info[field];
    shard *s = shard_hold(p->stream, index >> 32);
    size_t needed = 0;
    bzna_status status;

    if (!s)
        return BZNA_E_STATE;
    index &= UINT32_MAX;
    if (info->struct_size == 0)
        status = read_target(s, index, buffer, capacity, size, err);
    else if (info->kind == BZNA_FIELD_TEXT)
        status = read_text(s, index, info->name, buffer, capacity, size, err);
    else {
        status = bzna_dataset_field(s->dataset, index, info->name, buffer, (size_t)capacity, &needed, err);
        *size = needed;
    }
    shard_let_go(p->stream, s);
    return status;
}

static void provider_close(void *user) { free(user); }

/* The codec that a field's pictures have to be declared with: those of files are told apart by their content. */
static bzna_status field_codec(const shard *s, const char *name, uint32_t *codec, bzna_error *err)
{
    bzna_image_info info = { .struct_size = sizeof info };

    *codec = BZNA_CODEC_UNKNOWN;
    if (bzna_dataset_image_info(s->dataset, 0, name, &info, sizeof info, NULL) != BZNA_OK)
        return BZNA_OK;               /* the sample itself will say what is wrong */
    if (info.codec == BZNA_CODEC_H264 || info.codec == BZNA_CODEC_H265 || info.codec == BZNA_CODEC_AV1)
        *codec = info.codec;
    if (info.codec == BZNA_CODEC_RAW)
        return bzns_fail(err, BZNA_E_UNSUPPORTED, BZNA_NO_OFFSET, 0, "records of raw pixels cannot be shards");
    return BZNA_OK;
}

static bzna_status fields_of(fields *f, const shard *s, bzna_error *err)
{
    bzna_dataset_info about = { .struct_size = sizeof about };
    int has_target = 0;
    bzna_status status = bzna_dataset_get_info(s->dataset, &about, sizeof about, err);

    for (uint32_t i = 0; status == BZNA_OK && i < about.field_count; i++) {
        bzna_field_info *info = &f->info[f->count];
        if (f->count == FIELDS_MAX - 1)
            return bzns_fail(err, BZNA_E_LIMIT, BZNA_NO_OFFSET, 0, "a stream has at most %d fields", FIELDS_MAX - 1);
        info->struct_size = sizeof *info;
        if ((status = bzna_dataset_field_info(s->dataset, i, info, sizeof *info, err)) != BZNA_OK)
            return status;
        if (strpbrk(info->name, ",:"))
            continue;                 /* a loader cannot be asked for such a field */
        has_target |= !strcmp(info->name, "target");
        f->given[f->count] = (bzna_provider_field){ .name = info->name, .kind = info->kind };
        if (info->kind == BZNA_FIELD_IMAGE)
            status = field_codec(s, info->name, &f->given[f->count].codec, err);
        f->count++;
    }
    if (status == BZNA_OK && !has_target && about.target_count) {
        f->info[f->count].struct_size = 0;                  /* read_target gives it */
        f->given[f->count++] = (bzna_provider_field){ .name = "target", .kind = BZNA_FIELD_INTEGER };
    }
    return status;
}

/* Makes the data set that the loader draws from, like the first shard. There are at least four numbers of shards:
 * bzna_loader_set_batches keeps a bit for each of up to 2^33 samples, and most of those here do not exist. */
static bzna_status dataset_open(bzna_stream *stream, const shard *first, bzna_error *err)
{
    bzna_provider provider = { .struct_size = sizeof provider, .read = provider_read, .close = provider_close };
    bzna_dataset_config config = { .struct_size = sizeof config, .name = "stream" };
    provided *p = calloc(1, sizeof *p);
    bzna_status status;

    if (!p)
        return bzns_fail_memory(err, "fields");
    p->stream = stream;
    if ((status = fields_of(&p->fields, first, err)) == BZNA_OK) {
        provider.user = p;
        provider.fields = p->fields.given;
        provider.field_count = p->fields.count;
        provider.count = (uint64_t)(stream->source_count < 4 ? 4 : stream->source_count) << 32;
        provider.fingerprint = stream->fingerprint;
        status = bzna_dataset_open_provider(stream->context, &provider, &config, &stream->dataset, err);
    }
    if (status != BZNA_OK)
        free(p);
    return status;
}

/* ---- Windows ------------------------------------------------------------------------------ */

static uint64_t shard_at(const bzna_stream *stream, uint64_t pass, uint64_t place)
{
    const uint64_t position = stream->rank + place * stream->world;
    return stream->is_shuffled ? bzna_order_permute(stream->seed, pass, stream->source_count, position) : position;
}

static int is_before(uint64_t pass, uint64_t place, const bzna_stream_mark *mark)
{
    return pass < mark->own_pass || (pass == mark->own_pass && place < mark->own_place);
}

static void fill_advance(const bzna_stream *stream, filling *f)
{
    if (++f->place == stream->share) {
        f->place = 0;
        f->pass++;
    }
}

static bzna_status pieces_add(filling *f, shard *s, bzna_error *err)
{
    const uint64_t skipped = f->pass == f->mark.first_pass && f->place == f->mark.first_place ?
                             f->mark.first_sample : 0;

    if (f->piece_count == f->piece_room) {
        const size_t room = 2 * f->piece_room + 64;
        piece *pieces = realloc(f->pieces, room * sizeof *pieces);
        if (!pieces)
            return bzns_fail_memory(err, "the shards of a window");
        f->pieces = pieces;
        f->piece_room = room;
    }
    if (skipped < s->count)
        f->pieces[f->piece_count++] = (piece){ s, skipped, s->count - skipped, f->pass, f->place };
    return BZNA_OK;
}

/* Puts a shard into the window, and so into memory. */
static bzna_status window_add(bzna_stream *stream, filling *f, shard *s, bzna_error *err)
{
    bzna_stream_info *info = &stream->info;
    const bzna_status status = pieces_add(f, s, err);

    if (status != BZNA_OK) {
        shard_free(s);
        return status;
    }
    pthread_mutex_lock(&stream->mutex);
    s->last_window = f->mark.window;
    s->next = stream->shards;
    stream->shards = s;
    info->shards_read++;
    info->bytes_read += s->size;
    info->memory_bytes += s->size;
    info->peak_bytes = info->memory_bytes > info->peak_bytes ? info->memory_bytes : info->peak_bytes;
    pthread_mutex_unlock(&stream->mutex);
    return BZNA_OK;
}

/* Notes that a shard is left out. log is told by the consumer's thread. */
static void warn(bzna_stream *stream, const bzna_error *error)
{
    size_t size;
    char *lines;

    pthread_mutex_lock(&stream->mutex);
    stream->info.shards_left_out++;
    size = stream->warnings ? strlen(stream->warnings) : 0;
    if (stream->log && size < 65536 && (lines = realloc(stream->warnings, size + sizeof error->message + 32)) != NULL) {
        snprintf(lines + size, sizeof error->message + 32, "left out: %s\n", error->message);
        stream->warnings = lines;
    }
    pthread_mutex_unlock(&stream->mutex);
}

/* Returns the bytes that the window's next shard may have. A window's own shards have at most a third of memory_bytes,
 * and two thirds together with those that were carried into it; so the shards of two windows have no more than all. */
static uint64_t window_room(const bzna_stream *stream, const filling *f, int is_own)
{
    const uint64_t both = 2 * stream->window_bytes - f->carried;
    const uint64_t own = stream->window_bytes - f->own;
    return is_own && own < both - f->own ? own : both - f->own;
}

static bzna_status fail_large(const bzna_stream *stream, const filling *f, bzna_error *err)
{
    const bzns_reader *r = &f->reader;

    if (f->carried > stream->window_bytes)
        return bzns_fail(err, BZNA_E_LIMIT, r->taken, 0, "%s: there is no memory for this shard, since those before it "
                         "have %" PRIu64 " bytes and fewer samples than a batch: memory_bytes has to be larger",
                         r->name, f->carried);
    return bzns_fail(err, BZNA_E_LIMIT, r->taken, 0, "%s: a shard of more than %" PRIu64 " bytes%s, a third of "
                     "memory_bytes, which has to be larger", r->name, stream->window_bytes,
                     r->kind == BZNS_KIND_PLAIN ? "" : ", unpacked,");
}

/* Reads the next shard into the window. Returns BZNA_AGAIN if it does not fit any more, and BZNA_END if it is empty. */
static bzna_status fill_shard(bzna_stream *stream, filling *f, bzna_error *err)
{
    const int is_own = !is_before(f->pass, f->place, &f->mark);
    const uint32_t number = (uint32_t)shard_at(stream, f->pass, f->place);
    uint64_t *const bytes = is_own ? &f->own : &f->carried;
    bzns_reader *const r = &f->reader;
    bzna_status status = BZNA_OK;
    shard *s = NULL;

    if (!f->is_reading)
        status = bzns_reader_open(r, stream->sources[number], stream->wake[0], err);
    f->is_reading = 1;
    if (status == BZNA_OK)
        status = bzns_reader_read(r, window_room(stream, f, is_own), err);
    if (status == BZNA_AGAIN && is_own && f->own)
        return BZNA_AGAIN;
    if (status == BZNA_AGAIN)
        status = fail_large(stream, f, err);
    if (status == BZNA_OK)
        status = shard_open(stream, r, number, &s, err);
    bzns_reader_close(r);
    f->is_reading = 0;
    if (status == BZNA_OK) {
        *bytes += s->size;
        status = window_add(stream, f, s, err);
    }
    if (status == BZNA_OK)
        fill_advance(stream, f);
    return status;
}

/* Takes the first `take` samples of the pieces, and returns the indices of `count` of them, mixed if the order says so.
 * NULL: no memory; nothing was taken then. */
static uint64_t *pieces_take(const bzna_stream *stream, filling *f, uint64_t number, uint64_t take, uint64_t count)
{
    uint64_t *all = malloc((size_t)(2 * take * sizeof *all) + 1), *mixed, at = 0;
    size_t used = 0;

    if (!all)
        return NULL;
    mixed = all + take;
    while (at < take) {
        piece *p = &f->pieces[used];
        const uint64_t n = p->count < take - at ? p->count : take - at;
        for (uint64_t i = 0; i < n; i++)
            all[at++] = (uint64_t)p->shard->number << 32 | (p->first + i);
        p->first += n;
        p->count -= n;
        used += p->count == 0;
    }
    f->piece_count -= used;
    memmove(f->pieces, f->pieces + used, f->piece_count * sizeof *f->pieces);

    for (uint64_t i = 0; i < count; i++)
        mixed[i] = stream->is_shuffled ? all[bzna_order_permute(~stream->seed, number, take, i)] : all[i];
    memmove(all, mixed, (size_t)(count * sizeof *all));
    return all;
}

/* The lists of a window, while they are cut. */
typedef struct cut {
    list    *first, **end;
    uint64_t number;                  /* of the next list */
} cut;

static bzna_status cut_list(const bzna_stream *stream, filling *f, cut *c, uint64_t take, int ends_epoch,
                            bzna_error *err)
{
    const int drops = ends_epoch && stream->last_batch == BZNA_LAST_DROP;
    const uint64_t count = drops ? take / stream->batch_size * stream->batch_size : take;
    list *l = calloc(1, sizeof *l);
    uint64_t *indices = l ? pieces_take(stream, f, c->number, take, count) : NULL;

    if (!indices) {
        free(l);
        return bzns_fail_memory(err, "the samples of a window");
    }
    l->number = c->number;
    l->epoch = f->epoch;
    l->window = f->mark.window;
    l->indices = indices;
    l->count = count;
    l->ends_epoch = (uint32_t)ends_epoch;
    if (count) {
        *c->end = l;
        c->end = &l->next;
        c->number++;
    } else {
        free(indices);
        free(l);
    }
    f->left -= f->left < take ? f->left : take;
    if (ends_epoch) {
        f->epoch++;
        f->left = stream->epoch_samples;
    }
    return BZNA_OK;
}

/* Cuts the window into lists: as many full batches as it has, and lists that end epochs. */
static bzna_status cut_window(const bzna_stream *stream, filling *f, cut *c, int ends_pass, bzna_error *err)
{
    const int ends_with_pass = !stream->epoch_samples && ends_pass;
    uint64_t pool = 0;
    bzna_status status = BZNA_OK;

    for (size_t i = 0; i < f->piece_count; i++)
        pool += f->pieces[i].count;

    while (status == BZNA_OK && f->epoch < stream->end_epoch) {
        const int ends_epoch = ends_with_pass || (stream->epoch_samples && f->left <= pool);
        const uint64_t full = pool / stream->batch_size * stream->batch_size;
        const uint64_t take = ends_with_pass ? pool : ends_epoch ? f->left : full;

        if (take)
            status = cut_list(stream, f, c, take, ends_epoch, err);
        else if (ends_with_pass)
            f->epoch++;               /* all samples of the pass were in full batches, or all shards were left out */
        pool -= take;
        if (!ends_epoch || ends_with_pass)
            break;
    }
    return status;
}

/* What is left over is carried into the next window: its shards stay. Returns that window's mark. */
static bzna_stream_mark window_carry(bzna_stream *stream, filling *f, uint64_t next_list)
{
    bzna_stream_mark mark = { f->mark.window + 1, next_list, f->epoch,
                              stream->epoch_samples ? stream->epoch_samples - f->left : 0,
                              f->pass, f->place, 0, f->pass, f->place };

    if (f->piece_count) {
        mark.first_pass = f->pieces[0].pass;
        mark.first_place = f->pieces[0].place;
        mark.first_sample = f->pieces[0].first;
    }
    f->carried = f->own = 0;
    pthread_mutex_lock(&stream->mutex);
    for (size_t i = 0; i < f->piece_count; i++) {
        f->pieces[i].shard->last_window = mark.window;
        f->carried += f->pieces[i].shard->size;
    }
    pthread_mutex_unlock(&stream->mutex);
    return mark;
}

static void lists_free(list *l)
{
    while (l) {
        list *next = l->next;
        free(l->indices);
        free(l);
        l = next;
    }
}

/* Hands the lists of a window to the consumer. Those before the place at which the run goes on are used up already. */
static void window_hand_over(bzna_stream *stream, cut *c, const bzna_stream_mark *after)
{
    list *last = NULL, *l;

    *c->end = NULL;
    while (c->first && c->first->number < stream->fill.first_list) {
        l = c->first;
        c->first = l->next;
        l->next = NULL;
        lists_free(l);
    }
    for (l = c->first; l; l = l->next)
        last = l;
    if (last) {
        last->ends_window = 1;
        last->after = *after;
        pthread_mutex_lock(&stream->mutex);
        *stream->lists_end = c->first;
        stream->lists_end = &last->next;
        pthread_cond_broadcast(&stream->changed);
        pthread_mutex_unlock(&stream->mutex);
    } else {
        pthread_mutex_lock(&stream->mutex);
        while (stream->lists && !stream->is_stopped)        /* windows before this one may draw from its shards */
            pthread_cond_wait(&stream->changed, &stream->mutex);
        if (!stream->is_stopped) {
            shards_release(stream, after->window - 1);
            stream->windows--;
        }
        pthread_mutex_unlock(&stream->mutex);
    }
}

/* Reads shards until the window is full or the pass is over. *ends_pass says which. */
static bzna_status window_read(bzna_stream *stream, filling *f, int *ends_pass, bzna_error *err)
{
    bzna_error e = { .struct_size = sizeof e };
    bzna_status status;

    while (!(*ends_pass = f->pass > f->mark.own_pass)) {
        status = fill_shard(stream, f, &e);
        if (status == BZNA_AGAIN)
            return BZNA_OK;
        if (status == BZNA_OK)
            f->failures = 0;
        else if (status == BZNA_E_STOPPED || status == BZNA_E_MEMORY ||
                 (status < 0 && stream->on_error == BZNA_STREAM_ON_ERROR_STOP) || ++f->failures >= stream->share) {
            bzns_error_copy(err, &e);
            return e.status;
        } else {
            if (status < 0)
                warn(stream, &e);
            fill_advance(stream, f);
        }
    }
    return BZNA_OK;
}

/* Makes one window. Returns BZNA_END after the last one. */
static bzna_status window_make(bzna_stream *stream, filling *f, bzna_error *err)
{
    cut c = { NULL, NULL, f->mark.list };
    bzna_stream_mark after;
    bzna_status status;
    int ends_pass;

    c.end = &c.first;
    if (f->epoch >= stream->end_epoch)
        return BZNA_END;
    pthread_mutex_lock(&stream->mutex);
    stream->windows++;
    pthread_mutex_unlock(&stream->mutex);

    if ((status = window_read(stream, f, &ends_pass, err)) != BZNA_OK ||
        (status = cut_window(stream, f, &c, ends_pass, err)) != BZNA_OK) {
        lists_free(c.first);
        return status;
    }
    after = window_carry(stream, f, c.number);
    window_hand_over(stream, &c, &after);
    f->mark = after;
    return BZNA_OK;
}

/* ---- The filler --------------------------------------------------------------------------- */

/* Makes one window, and notes how the run ends if it was the last one. */
static void fill_once(bzna_stream *stream)
{
    bzna_error err = { .struct_size = sizeof err };
    const bzna_status status = window_make(stream, &stream->fill, &err);

    if (status == BZNA_OK)
        return;
    pthread_mutex_lock(&stream->mutex);
    stream->is_ended = 1;
    if (status < 0)
        stream->error = err;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->mutex);
}

static void *filler_main(void *user)
{
    bzna_stream *stream = user;
    int goes_on = 1;

    while (goes_on) {
        pthread_mutex_lock(&stream->mutex);
        while (stream->windows > 1 && !stream->is_stopped)
            pthread_cond_wait(&stream->changed, &stream->mutex);
        goes_on = !stream->is_stopped && !stream->is_ended;
        pthread_mutex_unlock(&stream->mutex);
        if (goes_on)
            fill_once(stream);
    }
    return NULL;
}

static bzna_status filler_start(bzna_stream *stream, bzna_error *err)
{
    sigset_t all, before;
    int failed;

    if (stream->has_thread || stream->is_threadless)
        return BZNA_OK;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);            /* signals are for the program's own threads */
    failed = pthread_create(&stream->thread, NULL, filler_main, stream);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        return bzns_fail(err, BZNA_E_THREAD, BZNA_NO_OFFSET, failed, "no thread could be started: %s",
                         strerror(failed));
    stream->has_thread = 1;
    return BZNA_OK;
}

static void filler_wake(bzna_stream *stream)
{
    const ssize_t n = write(stream->wake[1], "", 1);        /* a full pipe has woken it before */
    (void)n;
}

/* Ends the filler, and forgets all that it read. The loader must not have lists any more. */
static void filler_end(bzna_stream *stream)
{
    shard *s;

    pthread_mutex_lock(&stream->mutex);
    stream->is_stopped = 1;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->mutex);
    filler_wake(stream);
    if (stream->has_thread)
        pthread_join(stream->thread, NULL);
    stream->has_thread = 0;

    if (stream->fill.is_reading)
        bzns_reader_close(&stream->fill.reader);
    free(stream->fill.pieces);
    memset(&stream->fill, 0, sizeof stream->fill);
    lists_free(stream->lists);
    stream->lists = NULL;
    stream->lists_end = &stream->lists;
    while ((s = stream->shards) != NULL) {
        stream->shards = s->next;
        shard_free(s);
    }
    free(stream->warnings);
    stream->warnings = NULL;
    stream->info.memory_bytes = 0;
    stream->windows = 0;
}

/* Sets the filler to the beginning of a window. It is not running. */
static void filler_set(bzna_stream *stream, const bzna_stream_mark *mark)
{
    filling *f = &stream->fill;
    uint8_t bytes[64];

    while (bzns_is_woken(stream->wake[0], 0) && read(stream->wake[0], bytes, sizeof bytes) > 0)
        continue;
    f->mark = stream->mark = *mark;
    f->pass = mark->first_pass;
    f->place = mark->first_place;
    f->epoch = mark->epoch;
    f->first_list = stream->resume.struct_size ? stream->resume.epoch : 0;
    f->left = stream->epoch_samples - (stream->epoch_samples ? mark->epoch_samples : 0);
    stream->is_stopped = stream->is_ended = 0;
    memset(&stream->error, 0, sizeof stream->error);
}

/* ---- Opening ------------------------------------------------------------------------------ */

void bzna_stream_config_init(bzna_stream_config *config, size_t struct_size)
{
    if (!config || struct_size < sizeof config->struct_size)
        return;
    struct_size = struct_size < sizeof *config ? struct_size : sizeof *config;
    memset(config, 0, struct_size);
    config->struct_size = (uint32_t)struct_size;
}

static bzna_status fail_argument(bzna_error *err, const char *what)
{
    return bzns_fail(err, BZNA_E_ARGUMENT, BZNA_NO_OFFSET, 0, "%s", what);
}

/* Expands and copies the sources. */
static bzna_status open_sources(bzna_stream *stream, const bzna_stream_config *config, bzna_error *err)
{
    bzns_texts t = { 0 };
    bzna_status status = BZNA_OK;

    for (uint32_t i = 0; status == BZNA_OK && i < config->source_count; i++) {
        const char *source = config->sources[i];
        status = source && *source ? bzns_texts_add(&t, source, (int)config->literal, err) :
                 bzns_fail(err, BZNA_E_ARGUMENT, BZNA_NO_OFFSET, 0, "stream_config.sources[%" PRIu32 "] is empty", i);
    }
    if (status == BZNA_OK)
        status = bzns_texts_list(&t, &stream->sources, &stream->source_count, err);
    free(t.bytes);
    return status;
}

/* Takes order and shard out of the loader's config, which the stream follows itself. */
static bzna_status open_order(bzna_stream *stream, const bzna_stream_config *config, bzna_error *err)
{
    bzna_loader_config *c = &stream->loader_config;
    const uint64_t first = c->order.first_epoch, epochs = c->order.epochs ? c->order.epochs : 1;

    stream->world = c->shard.world_size ? c->shard.world_size : 1;
    stream->rank = c->shard.rank;
    stream->batch_size = c->output.batch_size;
    stream->seed = c->order.seed;
    stream->last_batch = c->order.last_batch;
    stream->is_shuffled = c->order.kind == BZNA_ORDER_SHUFFLE;
    stream->is_threadless = c->pipeline.no_threads;
    stream->end_epoch = epochs < UINT64_MAX - first ? first + epochs : UINT64_MAX;
    if (c->order.kind != BZNA_ORDER_SEQUENTIAL && c->order.kind != BZNA_ORDER_SHUFFLE)
        return fail_argument(err, "loader.order.kind: a stream has SEQUENTIAL or SHUFFLE");
    if (!stream->batch_size)
        return fail_argument(err, "loader.output.batch_size is required");
    if (stream->rank >= stream->world)
        return fail_argument(err, "loader.shard.rank is not below world_size");
    if (first >> 31)
        return fail_argument(err, "loader.order.first_epoch must be below 2^31");
    stream->epoch_samples = config->samples_per_epoch / stream->world + (config->samples_per_epoch % stream->world > 0);
    if (stream->epoch_samples && stream->epoch_samples < stream->batch_size && stream->last_batch == BZNA_LAST_DROP)
        return fail_argument(err, "samples_per_epoch leaves no batch to a rank, since last_batch is DROP");
    if (stream->rank >= stream->source_count)
        return bzns_fail(err, BZNA_E_NO_SAMPLES, BZNA_NO_OFFSET, 0, "there are %" PRIu32 " shards for %" PRIu32
                         " ranks: rank %" PRIu32 " has none", stream->source_count, stream->world, stream->rank);
    stream->share = (stream->source_count - stream->rank + stream->world - 1) / stream->world;

    stream->start = (bzna_stream_mark){ .list = first << 32, .epoch = first, .first_pass = first, .own_pass = first };
    c->order.kind = BZNA_ORDER_GIVEN;
    c->order.epochs = BZNA_EPOCHS_ENDLESS;
    c->order.first_epoch = stream->start.list;
    c->order.last_batch = stream->last_batch == BZNA_LAST_DROP ? (uint32_t)BZNA_LAST_PARTIAL : stream->last_batch;
    memset(&c->shard, 0, sizeof c->shard);
    return BZNA_OK;
}

static bzna_status open_config(bzna_stream *stream, const bzna_stream_config *config, bzna_error *err)
{
    const uint64_t memory = config->memory_bytes ? config->memory_bytes : UINT64_C(1) << 30;

    if (config->struct_size < sizeof *config)
        return bzns_fail(err, BZNA_E_STRUCT_SIZE, BZNA_NO_OFFSET, 0, "stream_config.struct_size is too small");
    if (!config->sources || !config->source_count || !config->loader)
        return fail_argument(err, "stream_config: sources, source_count and loader are required");
    if (!config->rules != !config->rule_count || config->reserved0)
        return fail_argument(err, "stream_config: rules and rule_count are given together, and reserved0 must be 0");
    if (config->literal > 1 || config->on_error > BZNA_STREAM_ON_ERROR_LEAVE)
        return fail_argument(err, "stream_config: literal is 0 or 1, on_error BZNA_STREAM_ON_ERROR_...");
    for (size_t i = 0; i < sizeof config->reserved / sizeof config->reserved[0]; i++)
        if (config->reserved[i])
            return fail_argument(err, "stream_config.reserved must be 0");
    if (memory < 3 || memory > SIZE_MAX / 4)
        return fail_argument(err, "stream_config.memory_bytes is out of its range");
    if (config->dataset && config->dataset->name)
        return fail_argument(err, "stream_config.dataset.name must be NULL: shards are called by their sources");
    if (config->loader->struct_size != sizeof *config->loader ||
        (config->dataset && config->dataset->struct_size != sizeof *config->dataset))
        return bzns_fail(err, BZNA_E_STRUCT_SIZE, BZNA_NO_OFFSET, 0, "stream_config: loader or dataset is of another "
                         "version of benzina.h");

    stream->window_bytes = memory / 3;
    stream->on_error = config->on_error;
    stream->rule_list = config->rules;
    stream->rule_count = config->rule_count;
    stream->log = config->log;
    stream->log_user = config->log_user;
    stream->loader_config = *config->loader;
    bzna_dataset_config_init(&stream->dataset_config, sizeof stream->dataset_config);
    if (config->dataset)
        stream->dataset_config = *config->dataset;
    return BZNA_OK;
}

/* What a saved state must agree in. */
static void open_fingerprint(bzna_stream *stream)
{
    const uint64_t words[] = { stream->window_bytes, stream->epoch_samples, stream->batch_size, stream->last_batch,
                               stream->is_shuffled, stream->seed, stream->rank, stream->world, stream->on_error };
    uint64_t hash = hash_bytes(UINT64_C(0xcbf29ce484222325), words, sizeof words);

    for (uint32_t i = 0; i < stream->source_count; i++)
        hash = hash_bytes(hash, stream->sources[i], strlen(stream->sources[i]) + 1);
    stream->fingerprint = hash;
}

/* Locks whose waits are by the clock that no one sets. */
static int open_locks(bzna_stream *stream)
{
    pthread_condattr_t attributes;
    int failed;

    if (pthread_mutex_init(&stream->mutex, NULL))
        return 1;
    failed = pthread_condattr_init(&attributes);
    if (!failed) {
        failed = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) ||
                 pthread_cond_init(&stream->changed, &attributes);
        pthread_condattr_destroy(&attributes);
    }
    if (failed)
        pthread_mutex_destroy(&stream->mutex);
    return failed;
}

bzna_status bzna_stream_open(bzna_context *context, const bzna_stream_config *config, bzna_stream **out,
                             bzna_error *err)
{
    bzna_stream *stream;
    bzna_status status;

    if (!context || !config || !out)
        return fail_argument(err, "bzna_stream_open: an argument is NULL");
    *out = NULL;
    if (!(stream = calloc(1, sizeof *stream)))
        return bzns_fail_memory(err, "the stream");
    stream->context = context;
    stream->lists_end = &stream->lists;
    if ((status = open_config(stream, config, err)) != BZNA_OK ||
        (status = open_sources(stream, config, err)) != BZNA_OK ||
        (status = open_order(stream, config, err)) != BZNA_OK) {
        free(stream->sources);
        free(stream);
        return status;
    }
    open_fingerprint(stream);
    stream->info.shard_count = stream->source_count;
    stream->info.epoch = stream->start.epoch;

    if (bzns_open_pipe(stream->wake) < 0 || open_locks(stream)) {
        if (stream->wake[1]) {
            close(stream->wake[0]);
            close(stream->wake[1]);
        }
        free(stream->sources);
        free(stream);
        return bzns_fail(err, BZNA_E_THREAD, BZNA_NO_OFFSET, errno, "a lock or pipe could not be made");
    }
    filler_set(stream, &stream->start);
    *out = stream;
    return BZNA_OK;
}

void bzna_stream_stop(bzna_stream *stream)
{
    bzna_loader *loader;

    if (!stream)
        return;
    pthread_mutex_lock(&stream->mutex);
    stream->is_stopped = 1;
    loader = stream->loader;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->mutex);
    filler_wake(stream);
    if (loader)
        bzna_loader_stop(loader, NULL);
}

bzna_status bzna_stream_close(bzna_stream *stream)
{
    if (!stream)
        return BZNA_OK;
    if (bzna_loader_close(stream->loader) == BZNA_E_STATE)  /* inside a callback; it reads the shards on */
        return BZNA_E_STATE;
    stream->loader = NULL;
    filler_end(stream);
    bzna_formats_rules_close(stream->rules);
    bzna_dataset_close(stream->dataset);
    pthread_cond_destroy(&stream->changed);
    pthread_mutex_destroy(&stream->mutex);
    close(stream->wake[0]);
    close(stream->wake[1]);
    free(stream->sources);
    free(stream);
    return BZNA_OK;
}

/* ---- Batches ------------------------------------------------------------------------------ */

static void log_flush(bzna_stream *stream)
{
    char *lines, *line, *end;

    pthread_mutex_lock(&stream->mutex);
    lines = stream->warnings;
    stream->warnings = NULL;
    pthread_mutex_unlock(&stream->mutex);
    for (line = lines; line && (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        stream->log(stream->log_user, BZNA_LOG_WARNING, BZNA_E_IO, line);
    }
    free(lines);
}

/* Waits until a list is there. Returns BZNA_END after the last one, or why there is none. */
static bzna_status list_wait(bzna_stream *stream, uint64_t deadline, bzna_error *err)
{
    bzna_status status = BZNA_OK;

    pthread_mutex_lock(&stream->mutex);
    while (status == BZNA_OK && (!stream->lists || stream->is_stopped)) {
        if (stream->is_stopped)
            status = bzns_fail(err, BZNA_E_STOPPED, BZNA_NO_OFFSET, 0, "bzna_stream_stop was called");
        else if (stream->is_ended) {
            status = stream->error.status ? stream->error.status : BZNA_END;
            if (status < 0)
                bzns_error_copy(err, &stream->error);
        } else if (stream->is_threadless) {
            pthread_mutex_unlock(&stream->mutex);
            fill_once(stream);
            pthread_mutex_lock(&stream->mutex);
        } else if (deadline == UINT64_MAX)
            pthread_cond_wait(&stream->changed, &stream->mutex);
        else {
            const struct timespec until = { (time_t)(deadline / 1000000000u), (long)(deadline % 1000000000u) };
            if (pthread_cond_timedwait(&stream->changed, &stream->mutex, &until) == ETIMEDOUT && !stream->lists)
                status = BZNA_AGAIN;
        }
    }
    pthread_mutex_unlock(&stream->mutex);
    return status;
}

/* Opens the loader over what is in memory. */
static bzna_status loader_open(bzna_stream *stream, bzna_error *err)
{
    bzna_loader_config config = stream->loader_config;
    bzna_loader *loader = NULL;
    shard *first;
    bzna_status status = BZNA_OK;

    pthread_mutex_lock(&stream->mutex);
    stream->is_opening = 1;
    for (first = stream->shards; first && first->next; )
        first = first->next;          /* the one that was read first */
    pthread_mutex_unlock(&stream->mutex);

    if (!stream->dataset)
        status = dataset_open(stream, first, err);
    bzna_formats_rules_close(stream->rules);                /* those of an attempt that failed */
    stream->rules = NULL;
    if (status == BZNA_OK && stream->rule_count)
        status = bzna_formats_rules_open(stream->dataset, stream->rule_list, stream->rule_count, &config,
                                         &stream->rules, err);
    if (status == BZNA_OK)
        status = bzna_loader_open(stream->context, stream->dataset, &config, &loader, err);
    if (status == BZNA_OK && stream->resume.struct_size)
        status = bzna_loader_restore(loader, &stream->resume, err);
    if (status != BZNA_OK) {
        bzna_loader_close(loader);
        loader = NULL;
    }
    pthread_mutex_lock(&stream->mutex);
    stream->is_opening = 0;
    stream->loader = loader;
    if (loader && stream->is_stopped)
        bzna_loader_stop(loader, NULL);
    pthread_mutex_unlock(&stream->mutex);
    return status;
}

static uint64_t deadline_of(int64_t timeout_ns)
{
    return timeout_ns < 0 ? UINT64_MAX : now_ns() + (uint64_t)timeout_ns;
}

static bzna_status wait_until(bzna_stream *stream, uint64_t deadline, bzna_error *err)
{
    bzna_status status = filler_start(stream, err);

    if (status == BZNA_OK)
        status = list_wait(stream, deadline, err);
    log_flush(stream);
    if (status == BZNA_OK && !stream->loader)
        status = loader_open(stream, err);
    return status;
}

bzna_status bzna_stream_wait(bzna_stream *stream, int64_t timeout_ns, bzna_error *err)
{
    if (!stream) return fail_argument(err, "stream is NULL");
    if (timeout_ns < 0 && timeout_ns != BZNA_WAIT_FOREVER)
        return fail_argument(err, "timeout_ns is negative, and not BZNA_WAIT_FOREVER");
    return wait_until(stream, deadline_of(timeout_ns), err);
}

/* Gives the loader the lists that are new, so that it goes on with them while it still makes batches of others. */
static bzna_status lists_give(bzna_stream *stream, bzna_error *err)
{
    bzna_status status = BZNA_OK;
    list *l;

    do {
        pthread_mutex_lock(&stream->mutex);
        for (l = stream->lists; l && !l->indices; )
            l = l->next;
        pthread_mutex_unlock(&stream->mutex);
        if (!l)
            break;
        status = bzna_loader_set_batches(stream->loader, l->number, l->indices, l->count, NULL, 0, err);
        if (status == BZNA_OK) {
            free(l->indices);
            l->indices = NULL;
        }
    } while (status == BZNA_OK);
    return status;
}

/* Notes that a batch was delivered. After the last one of a window, its memory is not needed any more: all its samples
 * were decoded. */
static void batch_note(bzna_stream *stream, const bzna_batch *batch)
{
    bzna_batch_info info = { .struct_size = sizeof info };
    bzna_stream_info *const own = &stream->info;
    list *l = stream->lists, *used = NULL;

    bzna_batch_get_info(batch, &info, sizeof info, NULL);
    pthread_mutex_lock(&stream->mutex);
    own->epoch = l->epoch;
    own->window = l->window;
    own->last_of_epoch = l->ends_epoch && info.last_of_epoch;
    own->samples += info.count;
    if (info.last_of_epoch) {
        used = l;
        if (!(stream->lists = l->next))
            stream->lists_end = &stream->lists;
    }
    pthread_mutex_unlock(&stream->mutex);
    if (!used)
        return;

    if (used->ends_window) {
        stream->mark = used->after;
        window_end(stream, used->window);
    }
    used->next = NULL;
    lists_free(used);
}

bzna_status bzna_stream_next(bzna_stream *stream, int64_t timeout_ns, bzna_batch **batch, bzna_error *err)
{
    uint64_t deadline;
    bzna_status status;

    if (!stream || !batch)
        return fail_argument(err, "bzna_stream_next: an argument is NULL");
    *batch = NULL;
    if (timeout_ns < 0 && timeout_ns != BZNA_WAIT_FOREVER)
        return fail_argument(err, "timeout_ns is negative, and not BZNA_WAIT_FOREVER");
    deadline = deadline_of(timeout_ns);
    if ((status = wait_until(stream, deadline, err)) != BZNA_OK || (status = lists_give(stream, err)) != BZNA_OK)
        return status;
    if (timeout_ns > 0) {
        const uint64_t now = now_ns();
        timeout_ns = now < deadline ? (int64_t)(deadline - now) : 0;
    }
    if ((status = bzna_loader_next(stream->loader, timeout_ns, batch, err)) == BZNA_OK)
        batch_note(stream, *batch);
    return status;
}

bzna_status bzna_stream_get_info(bzna_stream *stream, bzna_stream_info *info, size_t struct_size, bzna_error *err)
{
    bzna_stream_info now;

    if (!stream || !info)
        return fail_argument(err, "bzna_stream_get_info: an argument is NULL");
    if (struct_size < sizeof info->struct_size)
        return bzns_fail(err, BZNA_E_STRUCT_SIZE, BZNA_NO_OFFSET, 0, "struct_size is too small");
    pthread_mutex_lock(&stream->mutex);
    now = stream->info;
    pthread_mutex_unlock(&stream->mutex);
    now.struct_size = (uint32_t)(struct_size < sizeof now ? struct_size : sizeof now);
    memcpy(info, &now, now.struct_size);
    return BZNA_OK;
}

const char *bzna_stream_source(const bzna_stream *stream, uint64_t index)
{
    return stream && index >> 32 < stream->source_count ? stream->sources[index >> 32] : NULL;
}

bzna_loader *bzna_stream_loader(bzna_stream *stream) { return stream ? stream->loader : NULL; }
bzna_dataset *bzna_stream_dataset(bzna_stream *stream) { return stream && stream->loader ? stream->dataset : NULL; }

/* ---- Saving, resuming --------------------------------------------------------------------- */

bzna_status bzna_stream_save(bzna_stream *stream, bzna_stream_state *state, size_t struct_size, bzna_error *err)
{
    if (!stream || !state)
        return fail_argument(err, "bzna_stream_save: an argument is NULL");
    if (struct_size != sizeof *state)
        return bzns_fail(err, BZNA_E_STRUCT_SIZE, BZNA_NO_OFFSET, 0, "struct_size is not that of a bzna_stream_state");
    if (!stream->loader)
        return bzns_fail(err, BZNA_E_STATE, BZNA_NO_OFFSET, 0, "call bzna_stream_wait first: the loader is not open");
    memset(state, 0, sizeof *state);
    state->struct_size = sizeof *state;
    state->version = 1;
    state->fingerprint = stream->fingerprint;
    state->mark = stream->mark;
    pthread_mutex_lock(&stream->mutex);
    state->epoch = stream->lists ? stream->lists->epoch : stream->mark.epoch;
    pthread_mutex_unlock(&stream->mutex);
    return bzna_loader_save(stream->loader, &state->loader, sizeof state->loader, err);
}

/* Every number of a state comes from a file. */
static bzna_status state_check(const bzna_stream *stream, const bzna_stream_state *state, bzna_error *err)
{
    const bzna_stream_mark *m = &state->mark;

    if (state->struct_size != sizeof *state || state->version != 1)
        return fail_argument(err, "the state is damaged, or of another version");
    if (state->fingerprint != stream->fingerprint)
        return fail_argument(err, "the state is of a stream with other sources, memory_bytes, batch_size or order");
    if (m->first_place >= stream->share || m->own_place >= stream->share || m->first_pass > m->own_pass ||
        (m->first_pass == m->own_pass && m->first_place > m->own_place) || m->own_pass - m->first_pass > 1u << 20 ||
        (m->epoch_samples && m->epoch_samples >= stream->epoch_samples) || state->loader.epoch < m->list)
        return fail_argument(err, "the state is damaged");
    return BZNA_OK;
}

bzna_status bzna_stream_restore(bzna_stream *stream, const bzna_stream_state *state, bzna_error *err)
{
    bzna_status status;

    if (!stream || !state)
        return fail_argument(err, "bzna_stream_restore: an argument is NULL");
    if ((status = state_check(stream, state, err)) != BZNA_OK)
        return status;
    if (stream->loader && (status = bzna_loader_restore(stream->loader, &state->loader, err)) != BZNA_OK)
        return status;                /* it no longer reads what the filler forgets now */
    filler_end(stream);
    stream->resume = state->loader;
    filler_set(stream, &state->mark);
    return BZNA_OK;
}
