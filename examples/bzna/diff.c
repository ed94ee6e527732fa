/* diff.c - bzna diff: in what two data sets differ, sample by sample */
#include "tool.h"

#include <stdlib.h>
#include <string.h>

/* One side of a comparison. */
typedef struct side {
    archive     archive;
    tool_buffer picture, name, stream;
    size_t      stream_size;
    const char *filename;
    int64_t     target;
    bzna_error  err;
} side;

static int side_open(side *s, const tool_options *o, char *path)
{
    tool_options one = *o;
    *s = (side){ .filename = NULL };
    one.operand = &path;
    one.operand_count = 1;
    return archive_open(&s->archive, &one);
}

static void side_close(side *s)
{
    archive_close(&s->archive);
    free(s->picture.data);
    free(s->name.data);
    free(s->stream.data);
}

/* Reads one sample: its picture as a stream, parameter sets included, its target and its name. */
static bzna_status side_read(side *s, uint64_t index)
{
    bzna_sample sample = { .struct_size = sizeof sample };
    const bzna_dataset *d = s->archive.dataset;
    bzna_status status;
    s->err = tool_empty_error();
    if ((status = bzna_dataset_get_sample(d, index, &sample, sizeof sample, &s->err)) < 0 ||
        (status = bzna_dataset_target(d, index, &s->target, &s->err)) < 0 ||
        (status = archive_filename(&s->archive, index, &s->name, &s->filename, &s->err)) < 0) return status;
    bzna_image image;
    status = archive_read_picture(&s->archive, index, archive_default_track(&sample), &s->picture, &image, &s->err);
    if (status < 0) return status;
    status = bzna_image_annexb(&image, NULL, 0, &s->stream_size, &s->err);
    if (status < 0 && status != BZNA_E_BUFFER) return status;
    tool_buffer_reserve(&s->stream, s->stream_size + 1);
    return bzna_image_annexb(&image, s->stream.data, s->stream_size, &s->stream_size, &s->err);
}

/* "name, target, picture", as far as they differ. */
static void differences(const side *a, const side *b, char *text, size_t size)
{
    const char *x = a->filename ? a->filename : "", *y = b->filename ? b->filename : "";
    int picture = a->stream_size != b->stream_size || memcmp(a->stream.data, b->stream.data, a->stream_size);
    snprintf(text, size, "%s%s%s", strcmp(x, y) ? ", name" : "", a->target != b->target ? ", target" : "",
             picture ? ", picture" : "");
}

static void report(const tool_options *o, uint64_t index, const char *what)
{
    if (o->json) {
        printf("{\"index\":%" PRIu64 ",\"differs\":", index);
        tool_json_string(what);
        puts("}");
    } else {
        printf("sample %" PRIu64 ": %s\n", index, what);
    }
}

/* Returns the number of samples that differ. */
static uint64_t compare(const tool_options *o, side *a, side *b, uint64_t count)
{
    tool_progress progress = tool_progress_start("samples", count);
    uint64_t differing = 0;
    for (uint64_t i = 0; i < count; i++) {
        char text[64] = "";
        if (side_read(a, i) < 0)      { report(o, i, a->err.message); differing++; continue; }
        if (side_read(b, i) < 0)      { report(o, i, b->err.message); differing++; continue; }
        differences(a, b, text, sizeof text);
        if (text[0]) report(o, i, text + 2), differing++;
        tool_progress_show(&progress, i + 1);
    }
    tool_progress_end(&progress);
    return differing;
}

int tool_run_diff(const tool_options *o)
{
    side a, b;
    if (side_open(&a, o, o->operand[0])) return EXIT_INPUT;
    if (side_open(&b, o, o->operand[1])) { side_close(&a); return EXIT_INPUT; }
    uint64_t x = a.archive.count, y = b.archive.count, count = x < y ? x : y;
    uint64_t differing = compare(o, &a, &b, count);
    side_close(&a);
    side_close(&b);
    if (!differing && x == y) return EXIT_OK;
    if (x != y)
        return tool_error("%" PRIu64 " samples and %" PRIu64 "; of the first %" PRIu64 ", %" PRIu64 " differ", x, y,
                          count, differing);
    return tool_error("%" PRIu64 " of %" PRIu64 " samples differ", differing, count);
}
