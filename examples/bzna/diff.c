/* diff.c - bzna diff: in what two data sets differ, sample by sample */
#include "tool.h"

#include <stdlib.h>
#include <string.h>

/* One side of a comparison. */
typedef struct side {
    archive     archive;
    tool_buffer picture, stream;
    size_t      stream_size;
    archive_copied copied;
    bzna_error  err;
} side;

static int side_open(side *s, const tool_options *o, char *path)
{
    tool_options one = *o;
    *s = (side){ .stream_size = 0 };
    one.operand = &path;
    one.operand_count = 1;
    int result = archive_open(&s->archive, &one);
    if (result == EXIT_OK) archive_read_splits(&s->archive, path);
    return result;
}

static void side_close(side *s)
{
    archive_close(&s->archive);
    free(s->picture.data);
    archive_copied_free(&s->copied);
    free(s->stream.data);
}

/* Reads one sample: its picture as a stream, parameter sets included, SEI left out, and all else. */
static bzna_status side_read(side *s, uint64_t index)
{
    bzna_sample_ref sample = { .struct_size = sizeof sample };
    const bzna_dataset *d = s->archive.dataset;
    bzna_status status;
    s->err = tool_empty_error();
    if ((status = bzna_dataset_sample(d, index, &sample, sizeof sample, &s->err)) < 0 ||
        (status = archive_copied_read(&s->archive, index, &s->copied, &s->err)) < 0) return status;
    bzna_image image;
    status = archive_read_picture(&s->archive, index, archive_default_track(&sample), &s->picture, &image, &s->err);
    if (status < 0) return status;
    status = bzna_image_annexb(&image, NULL, 0, &s->stream_size, &s->err);
    if (status < 0 && status != BZNA_E_BUFFER) return status;
    tool_buffer_reserve(&s->stream, s->stream_size + 1);
    status = bzna_image_annexb(&image, s->stream.data, s->stream_size, &s->stream_size, &s->err);
    if (status >= 0) s->stream_size = archive_drop_sei(s->stream.data, s->stream_size, image.codec);
    return status;
}

/* Whether b has a field of that name, kind and value. */
static int has_field(const archive_copied *b, const bzna_field_value *field)
{
    for (uint32_t i = 0; i < b->count; i++)
        if (!strcmp(b->fields[i].name, field->name))
            return b->fields[i].kind == field->kind && b->fields[i].size == field->size &&
                   (!field->size || !memcmp(b->fields[i].data, field->data, (size_t)field->size));
    return 0;
}

/* Adds the names of the fields of a that b has not; those of the same name are added once. */
static char *fields_append(char *text, const archive_copied *a, const archive_copied *b, int is_second)
{
    for (uint32_t i = 0; i < a->count; i++) {
        int stands_there = 0;
        for (uint32_t k = 0; k < b->count && is_second; k++)
            stands_there |= !strcmp(a->fields[i].name, b->fields[k].name);
        if (stands_there || has_field(b, &a->fields[i])) continue;
        char *longer = tool_format("%s, field %s", text, a->fields[i].name);
        free(text);
        text = longer;
    }
    return text;
}

/* ", name, target, split, picture, field txt", as far as they differ; to be freed. */
static char *differences(const side *a, const side *b)
{
    const archive_copied *x = &a->copied, *y = &b->copied;
    int picture = a->stream_size != b->stream_size || memcmp(a->stream.data, b->stream.data, a->stream_size);
    char *text = tool_format("%s%s%s%s", strcmp(x->name ? x->name : "", y->name ? y->name : "") ? ", name" : "",
                             x->target != y->target ? ", target" : "", x->split != y->split ? ", split" : "",
                             picture ? ", picture" : "");
    return fields_append(fields_append(text, x, y, 0), y, x, 1);
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
        if (side_read(a, i) < 0)      { report(o, i, a->err.message); differing++; continue; }
        if (side_read(b, i) < 0)      { report(o, i, b->err.message); differing++; continue; }
        char *text = differences(a, b);
        if (text[0]) report(o, i, text + 2), differing++;
        free(text);
        tool_progress_show(&progress, i + 1);
    }
    tool_progress_end(&progress);
    return differing;
}

/* Says where the names of the classes begin to differ. Returns whether they do. */
static int compare_classes(const tool_options *o, const tool_names *a, const tool_names *b)
{
    size_t i = 0;
    while (i < a->count && i < b->count && !strcmp(a->names[i], b->names[i])) i++;
    if (i == a->count && i == b->count) return 0;
    char *x = i < a->count ? tool_format("\"%s\"", a->names[i]) : tool_format("none");
    char *y = i < b->count ? tool_format("\"%s\"", b->names[i]) : tool_format("none");
    char *text = tool_format("class %zu is %s and %s", i, x, y);
    free(x);
    free(y);
    if (o->json) fputs("{\"classes\":", stdout), tool_json_string(text), puts("}");
    else         printf("classes: %s\n", text);
    free(text);
    return 1;
}

int tool_run_diff(const tool_options *o)
{
    side a, b;
    if (side_open(&a, o, o->operand[0])) return EXIT_INPUT;
    if (side_open(&b, o, o->operand[1])) { side_close(&a); return EXIT_INPUT; }
    uint64_t x = a.archive.count, y = b.archive.count, count = x < y ? x : y;
    int classes = compare_classes(o, &a.archive.classes, &b.archive.classes);
    uint64_t differing = compare(o, &a, &b, count);
    side_close(&a);
    side_close(&b);
    if (!differing && !classes && x == y) return EXIT_OK;
    if (x != y)
        return tool_error("%" PRIu64 " samples and %" PRIu64 "; of the first %" PRIu64 ", %" PRIu64 " differ", x, y,
                          count, differing);
    return tool_error("%" PRIu64 " of %" PRIu64 " samples differ%s", differing, count,
                      classes ? ", and the names of the classes do" : "");
}
