/* unindexed.c - reads the samples of an archive that has no index yet
 *
 * A sample is a whole small mp4, so it describes itself; only its place is missing. The library gets the file with the
 * shortest index that it takes for an archive's behind the samples: one track of their places. */
#include "tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct unindexed {
    int      file;                    /* the caller's */
    uint64_t first;                   /* where the samples begin in it: what is before is not read */
    uint8_t *head, *index;            /* bytes before the samples, and after them */
    uint64_t end, index_size;         /* of the samples */
} unindexed;

enum { HEAD_BYTES = TOOL_ARCHIVE_FIRST };

/* Boxes that grow in memory that is large enough. */
typedef struct boxes {
    uint8_t *at;
} boxes;

static void put(boxes *b, uint64_t value, int bytes)
{
    while (bytes--) *b->at++ = (uint8_t)(value >> 8 * bytes);
}

static uint8_t *box_begin(boxes *b, const char *type)
{
    uint8_t *begin = b->at;
    put(b, 0, 4);
    memcpy(b->at, type, 4);
    b->at += 4;
    return begin;
}

static void box_end(boxes *b, uint8_t *begin)
{
    boxes size = { begin };
    put(&size, (uint64_t)(b->at - begin), 4);
}

/* Places, sizes and kind of the samples. */
static void put_tables(boxes *b, const uint64_t *sizes, size_t count)
{
    static const char mime[] = "video/mp4";
    uint64_t offset = HEAD_BYTES;
    uint8_t *box = box_begin(b, "stsd"), *entry;
    put(b, 0, 4), put(b, 1, 4);
    entry = box_begin(b, "mett");
    put(b, 0, 6), put(b, 1, 2), put(b, 0, 1);
    memcpy(b->at, mime, sizeof mime);
    b->at += sizeof mime;
    box_end(b, entry);
    box_end(b, box);
    box = box_begin(b, "stts");
    put(b, 0, 4), put(b, 1, 4), put(b, count, 4), put(b, 20, 4);
    box_end(b, box);
    box = box_begin(b, "stsz");
    put(b, 0, 8), put(b, count, 4);
    for (size_t i = 0; i < count; i++) put(b, sizes[i], 4);
    box_end(b, box);
    box = box_begin(b, "stsc");
    put(b, 0, 4), put(b, 1, 4), put(b, 1, 4), put(b, 1, 4), put(b, 1, 4);
    box_end(b, box);
    box = box_begin(b, "co64");
    put(b, 0, 4), put(b, count, 4);
    for (size_t i = 0; i < count; offset += sizes[i++]) put(b, offset, 8);
    box_end(b, box);
}

static uint64_t put_index(uint8_t *index, const uint64_t *sizes, size_t count)
{
    static const char name[] = "bzna_input";
    boxes b = { index };
    uint8_t *moov = box_begin(&b, "moov"), *trak = box_begin(&b, "trak"), *mdia = box_begin(&b, "mdia"), *minf, *stbl;
    uint8_t *hdlr = box_begin(&b, "hdlr");
    put(&b, 0, 8), memcpy(b.at, "meta", 4), b.at += 4, put(&b, 0, 8), put(&b, 0, 4);
    memcpy(b.at, name, sizeof name);
    b.at += sizeof name;
    box_end(&b, hdlr);
    minf = box_begin(&b, "minf");
    stbl = box_begin(&b, "stbl");
    put_tables(&b, sizes, count);
    box_end(&b, stbl);
    box_end(&b, minf);
    box_end(&b, mdia);
    box_end(&b, trak);
    box_end(&b, moov);
    return (uint64_t)(b.at - index);
}

static void put_head(uint8_t *head, uint64_t end)
{
    boxes b = { head };
    uint8_t *ftyp = box_begin(&b, "ftyp");
    memcpy(b.at, "isom\0\0\0\0bznaisom", 16);
    b.at += 16;
    box_end(&b, ftyp);
    put(&b, 1, 4), memcpy(b.at, "mdat", 4), b.at += 4, put(&b, end - 24, 8);
}

/* Copies what [offset, offset + size) has of `part`, which lies at `at`. */
static void copy_part(uint8_t *dst, uint64_t offset, uint64_t size, const uint8_t *part, uint64_t at,
                      uint64_t part_size)
{
    uint64_t from = offset > at ? offset : at, to = offset + size < at + part_size ? offset + size : at + part_size;
    if (from < to) memcpy(dst + (from - offset), part + (from - at), (size_t)(to - from));
}

static int64_t source_read_at(void *user, uint64_t offset, void *dst, uint64_t size)
{
    const unindexed *u = user;
    uint64_t total = u->end + u->index_size, done = 0;
    if (offset >= total) return 0;
    if (size > total - offset) size = total - offset;
    while (offset + done < u->end && done < size) {
        uint64_t left = u->end - offset - done < size - done ? u->end - offset - done : size - done;
        uint64_t at = offset + done < HEAD_BYTES ? 0 : offset + done - HEAD_BYTES + u->first;
        if (offset + done < HEAD_BYTES && left > HEAD_BYTES - offset - done) left = HEAD_BYTES - offset - done;
        ssize_t got = pread(u->file, (uint8_t *)dst + done, (size_t)left, (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return got < 0 ? -errno : -EIO;
        done += (uint64_t)got;
    }
    copy_part(dst, offset, size, u->head, 0, HEAD_BYTES);
    copy_part(dst, offset, size, u->index, u->end, u->index_size);
    return (int64_t)size;
}

static int64_t source_size(void *user)
{
    const unindexed *u = user;
    return (int64_t)(u->end + u->index_size);
}

static void source_close(void *user)
{
    unindexed *u = user;
    free(u->head);
    free(u->index);
    free(u);
}

int archive_open_unindexed(archive *a, int file, uint64_t first, const uint64_t *sizes, size_t count)
{
    bzna_error err = tool_empty_error();
    unindexed *u = tool_checked(calloc(1, sizeof *u));
    bzna_source source = { .struct_size = sizeof source, .user = u, .read_at = source_read_at, .size = source_size,
                           .close = source_close };
    u->file = file;
    u->first = first;
    u->end = HEAD_BYTES;
    for (size_t i = 0; i < count; i++) u->end += sizes[i];
    u->head = tool_checked(malloc(HEAD_BYTES));
    u->index = tool_checked(malloc(512 + 12 * count));
    put_head(u->head, u->end);
    u->index_size = put_index(u->index, sizes, count);
    a->count = count;
    if (bzna_dataset_open_source(a->context, &source, NULL, &a->dataset, &err) == BZNA_OK) return EXIT_OK;
    source_close(u);
    return tool_error("the samples that are written cannot be opened: %s", err.message);
}
