/* index_rec.c - the index of a RecordIO file as MXNet's rec2idx writes it: a line a record of its number, a tab, and
 * the offset where it begins. */
#include "tool.h"

#include <errno.h>
#include <string.h>

enum { REC_FIRST = 1, REC_MIDDLE = 2, REC_LAST = 3 };
static const unsigned char REC_MAGIC[4] = { 0x0A, 0x23, 0xD7, 0xCE };

typedef struct rec_file {
    const char *path;
    FILE       *file;
    uint64_t    size, at;             /* at: of the part's header */
    uint64_t    records;
    int         in_parts;             /* inside of a record that is written in parts */
} rec_file;

static int rec_damaged(const rec_file *r, const char *what)
{
    return tool_error("%s: byte %" PRIu64 ": %s", r->path, r->at, what);
}

/* The part at r->at, whose header was read: a line of the index, if it begins a record. */
static int rec_take(rec_file *r, const unsigned char *header, FILE *out)
{
    uint32_t word = (uint32_t)header[7] << 24 | (uint32_t)header[6] << 16 | (uint32_t)header[5] << 8 | header[4];
    uint64_t length = word & 0x1FFFFFFF;
    int which = header[7] >> 5, goes_on = which == REC_MIDDLE || which == REC_LAST;
    if (memcmp(header, REC_MAGIC, sizeof REC_MAGIC)) return rec_damaged(r, "no record begins here");
    if (which > REC_LAST || goes_on != r->in_parts) return rec_damaged(r, "a part of a record out of order");
    if (length > r->size - r->at - 8) return rec_damaged(r, "the file ends in the record");
    if (!goes_on) fprintf(out, "%" PRIu64 "\t%" PRIu64 "\n", r->records++, r->at);
    r->in_parts = which == REC_FIRST || which == REC_MIDDLE;
    r->at += 8 + (length + 3) / 4 * 4;
    return EXIT_OK;
}

static int rec_walk(rec_file *r, FILE *out)
{
    off_t end = fseeko(r->file, 0, SEEK_END) ? -1 : ftello(r->file);
    r->size = end < 0 ? 0 : (uint64_t)end;
    while (end >= 0 && r->at < r->size) {
        unsigned char header[8];
        if (fseeko(r->file, (off_t)r->at, SEEK_SET)) break;
        size_t read = fread(header, 1, sizeof header, r->file);
        if (ferror(r->file)) break;
        if (read < sizeof header) return rec_damaged(r, "the file ends in a header");
        if (rec_take(r, header, out) != EXIT_OK) return EXIT_INPUT;
    }
    if (end < 0 || r->at < r->size) return tool_error("%s: cannot be read: %s", r->path, strerror(errno));
    if (r->in_parts) return rec_damaged(r, "the last part of a record is missing");
    return r->records ? EXIT_OK : tool_error("%s: there are no records", r->path);
}

int index_record_file(const char *path, FILE *out, uint64_t *samples)
{
    rec_file r = { .path = path, .file = fopen(path, "rb") };
    int result = r.file ? rec_walk(&r, out) : tool_error("%s: cannot be read: %s", path, strerror(errno));
    *samples = r.records;
    if (r.file) fclose(r.file);
    return result;
}
