/* info.c - bzna info and bzna list: what a data set holds */
#include "tool.h"
#include "formats.h"

#include <stdlib.h>
#include <string.h>

/* ---- info: the data set as a whole ---- */

static bzna_track_info track_info(const archive *a, uint32_t index)
{
    bzna_track_info track = { .struct_size = sizeof track };
    bzna_dataset_track_info(a->dataset, index, &track, sizeof track, NULL);
    return track;
}

static void tracks_json(const archive *a, uint32_t count)
{
    printf("\"tracks\":[");
    for (uint32_t i = 0; i < count; i++) {
        bzna_track_info track = track_info(a, i);
        printf("%s\n {\"name\":", i ? "," : "");
        tool_json_string(track.name);
        printf(",\"handler\":");
        tool_json_string(tool_fourcc(track.handler).text);
        printf(",\"format\":");
        tool_json_string(tool_fourcc(track.format).text);
        printf(",\"mime\":");
        tool_json_string(track.mime[0] ? track.mime : NULL);
        printf(",\"count\":%" PRIu64 "}", track.sample_count);
    }
    putchar(']');
}

static void fields_json(const archive_fields *fields)
{
    printf("\"fields\":[");
    for (uint32_t i = 0; i < fields->count; i++) {
        printf("%s{\"name\":", i ? "," : "");
        tool_json_string(fields->list[i].name);
        printf(",\"kind\":\"%s\"}", archive_field_kind(fields->list[i].kind));
    }
    putchar(']');
}

enum { TARGETS_READ_MAX = 1000 };

/* How many samples have a target. An archive says it in its index, sample by sample. Where only records say it, these
 * are read, unless they are too many: -1. */
static int64_t count_targets(const archive *a, const bzna_dataset_info *info)
{
    int64_t count = 0, target;
    const int is_record = !strcmp(info->container, "RecordIO");
    if (!is_record && strcmp(info->container, "archive")) return (int64_t)info->target_count;
    if (is_record && a->count > TARGETS_READ_MAX) return -1;
    for (uint64_t i = 0; i < a->count; i++)
        count += bzna_dataset_target(a->dataset, i, &target, NULL) == BZNA_OK && target != BZNA_TARGET_NONE;
    return count;
}

static void info_json(const archive *a, const bzna_dataset_info *info)
{
    const int64_t targets = count_targets(a, info);
    printf("{\"container\":");
    tool_json_string(a->container);
    printf(",\"parts\":%" PRIu32 ",\"brands\":[", info->part_count);
    for (uint32_t i = 0; i < info->brand_count && i < LENGTH(info->brands); i++) {
        if (i) putchar(',');
        tool_json_string(tool_fourcc(info->brands[i]).text);
    }
    if (info->size_bytes) printf("],\"size\":%" PRIu64, info->size_bytes);
    else                  printf("],\"size\":null");
    printf(",\"samples\":%" PRIu64 ",", info->sample_count);
    if (targets < 0) printf("\"targets\":null,");
    else             printf("\"targets\":%" PRId64 ",", targets);
    if (a->classes.count) printf("\"classes\":%zu,", a->classes.count);
    for (size_t i = 0; i < a->classes.count; i++) {
        printf("%s", i ? "," : "\"class_names\":[");
        tool_json_string(a->classes.names[i]);
        if (i + 1 == a->classes.count) printf("],");
    }
    fields_json(&a->fields);
    printf(",\n");
    tracks_json(a, info->track_count);
    puts("}");
}

static void tracks_text(const archive *a, uint32_t count)
{
    if (count) printf("\n%-24s %-8s %-7s %10s  %s\n", "track", "handler", "format", "count", "mime");
    for (uint32_t i = 0; i < count; i++) {
        bzna_track_info track = track_info(a, i);
        printf("%-24s %-8s %-7s %10" PRIu64 "  ", track.name, tool_fourcc(track.handler).text,
               tool_fourcc(track.format).text, track.sample_count);
        tool_print_text(stdout, track.mime);
        putchar('\n');
    }
}

/* Their number, and the names of the first. */
static void classes_text(const tool_names *classes)
{
    enum { SHOWN = 10 };
    for (size_t i = 0; i < classes->count && i < SHOWN; i++) {
        if (!i) printf("classes    %zu: ", classes->count);
        tool_print_text(stdout, classes->names[i]);
        printf("%s", i + 1 == classes->count ? "\n" : i + 1 == SHOWN ? ", ...\n" : ", ");
    }
}

static void info_text(const archive *a, const bzna_dataset_info *info)
{
    const int64_t targets = count_targets(a, info);
    printf("container  %s", a->container);
    if (info->part_count > 1) printf(", %" PRIu32 " parts", info->part_count);
    if (info->brand_count) printf("\nbrands    ");
    for (uint32_t i = 0; i < info->brand_count && i < LENGTH(info->brands); i++)
        printf(" %s", tool_fourcc(info->brands[i]).text);
    if (info->size_bytes) printf("\nsize       %" PRIu64 " bytes", info->size_bytes);
    printf("\nsamples    %" PRIu64 "\n", info->sample_count);
    if (targets < 0) printf("targets    not counted: each record says its own\n");
    else             printf("targets    %" PRId64 "\n", targets);
    classes_text(&a->classes);
    for (uint32_t i = 0; i < a->fields.count; i++) {
        printf("%-11s", i ? "" : "fields");
        tool_print_text(stdout, a->fields.list[i].name);
        printf(" (%s)\n", archive_field_kind(a->fields.list[i].kind));
    }
    tracks_text(a, info->track_count);
}

int tool_run_info(const tool_options *o)
{
    archive a;
    if (archive_open(&a, o)) return EXIT_INPUT;
    bzna_dataset_info info = { .struct_size = sizeof info };
    bzna_dataset_get_info(a.dataset, &info, sizeof info, NULL);
    if (o->json) info_json(&a, &info);
    else         info_text(&a, &info);
    archive_close(&a);
    return EXIT_OK;
}


/* ---- list: its samples ---- */

/* What a list is made with; the buffers are used again for every sample. */
typedef struct listing {
    const archive *archive;
    tool_buffer    name, value;
} listing;

/* One sample, as far as it could be read; err says why not further. */
typedef struct listed_sample {
    uint64_t    index;
    int         is_located;           /* sample is filled in */
    bzna_sample_ref sample;
    const char *filename;             /* NULL: none */
    uint32_t    image_count;          /* of images, and names of them, filled in */
    const char *names[BZNA_IMAGES_MAX];
    bzna_image_info    images[BZNA_IMAGES_MAX];
    archive_codec_text codecs[BZNA_IMAGES_MAX];
    uint32_t    left_out;             /* BZNA_HEIF_..., of the first one */
    bzna_error  err;
    bzna_error  beside;               /* of a picture beside the one that loaders take: no fault of the sample */
} listed_sample;

/* What a HEIF file holds that is not delivered with its picture. */
static uint32_t left_out_of(const archive *a, uint64_t index, const char *name, tool_buffer *buffer)
{
    size_t size = 0;
    bzna_dataset_field(a->dataset, index, name, NULL, 0, &size, NULL);
    tool_buffer_reserve(buffer, size);
    if (bzna_dataset_field(a->dataset, index, name, buffer->data, buffer->size, &size, NULL) < 0) return 0;
    return bzna_formats_heif_beside(buffer->data, size);
}

static void sample_read(listing *l, uint64_t index, listed_sample *s)
{
    const archive *a = l->archive;
    memset(s, 0, sizeof *s);
    s->index = index;
    s->err = s->beside = tool_empty_error();
    if (bzna_dataset_sample(a->dataset, index, &s->sample, sizeof s->sample, &s->err) < 0) return;
    s->is_located = 1;
    if (archive_filename(a, index, &l->name, &s->filename, &s->err) < 0) return;
    if (!s->filename) s->err = tool_empty_error();          /* that there is none is no error */
    for (uint32_t i = 0; i < s->sample.image_count && i < BZNA_IMAGES_MAX; i++) {
        const char *name = s->sample.image_names[i];
        bzna_image_info *info = &s->images[s->image_count];
        bzna_error err = tool_empty_error();
        if (bzna_dataset_image_info(a->dataset, index, name, info, sizeof *info, &err) < 0) {
            if (strcmp(name, archive_default_track(&s->sample))) s->beside = err;
            else                                                 s->err = err;
            continue;
        }
        s->codecs[s->image_count] = archive_codec(info);
        if (!s->image_count && !strcmp(s->codecs[0].text, "heif")) s->left_out = left_out_of(a, index, name, &l->value);
        s->names[s->image_count++] = name;
    }
}

/* Prints the further fields that a sample has, and keeps the first error in *s. */
static void values_print(listing *l, listed_sample *s, void (*print)(const char *, const archive_value *, int))
{
    int count = 0;
    for (uint32_t i = 0; i < l->archive->fields.count; i++) {
        const bzna_field_info *field = &l->archive->fields.list[i];
        bzna_error err = tool_empty_error();
        archive_value value;
        if (!archive_field_is_further(field)) continue;
        bzna_status status = archive_value_read(l->archive, s->index, field, &l->value, &value, &err);
        if (status >= 0)                                               print(field->name, &value, count++);
        else if (status != BZNA_E_NOT_FOUND && s->err.status >= 0)     s->err = err;
    }
}

static void value_json(const char *name, const archive_value *value, int i)
{
    if (i) putchar(',');
    tool_json_string(name);
    putchar(':');
    archive_value_json(value);
}

static void value_text(const char *name, const archive_value *value, int i)
{
    (void)i;
    printf("  ");
    tool_print_text(stdout, name);
    putchar('=');
    archive_value_json(value);
}

typedef struct seen_size { uint32_t width, height; } seen_size;

/* As it is seen: rotated by its orientation. */
static seen_size image_size(const bzna_image_info *image)
{
    if (image->orientation > 4) return (seen_size){ image->height, image->width };
    return (seen_size){ image->width, image->height };
}

static const struct { uint32_t bit; const char *what; } besides[] = {
    { BZNA_HEIF_THUMB, "thumbnail" }, { BZNA_HEIF_AUXILIARY, "alpha or depth" },
    { BZNA_HEIF_IMAGES, "further pictures" }, { BZNA_HEIF_SEQUENCE, "image sequence" }
};

static void beside_print(uint32_t beside, const char *first, const char *next, const char *quote)
{
    int count = 0;
    for (size_t i = 0; i < LENGTH(besides); i++)
        if (beside & besides[i].bit) printf("%s%s%s%s", count++ ? next : first, quote, besides[i].what, quote);
}

static void image_json(const bzna_image_info *image, const char *codec, uint32_t left_out)
{
    seen_size size = image_size(image);
    printf("{\"codec\":");
    tool_json_string(codec);
    printf(",\"width\":%" PRIu32 ",\"height\":%" PRIu32 ",\"frame_width\":%" PRIu32 ",\"frame_height\":%" PRIu32
           ",\"payload_offset\":%" PRIu64 ",\"payload_size\":%" PRIu64,
           size.width, size.height, image->frame_width, image->frame_height, image->data_offset, image->data_size);
    beside_print(left_out, ",\"beside\":[", ",", "\"");
    printf(left_out ? "]}" : "}");
}

/* The name of a class; NULL: it has none. */
static const char *class_of(const archive *a, int64_t target)
{
    return target >= 0 && (uint64_t)target < a->classes.count ? a->classes.names[target] : NULL;
}

static void sample_json(listing *l, listed_sample *s)
{
    printf("{\"index\":%" PRIu64, s->index);
    if (s->is_located) {
        if (s->sample.target == BZNA_TARGET_NONE) printf(",\"target\":null");
        else                                      printf(",\"target\":%" PRId64, s->sample.target);
        if (class_of(l->archive, s->sample.target)) {
            printf(",\"class\":");
            tool_json_string(class_of(l->archive, s->sample.target));
        }
        printf(",\"filename\":");
        tool_json_string(s->filename);
        printf(",\"offset\":%" PRIu64 ",\"size\":%" PRIu64 ",\"fields\":{", s->sample.offset, s->sample.size);
        values_print(l, s, value_json);
        printf("},\"images\":{");
        for (uint32_t i = 0; i < s->image_count; i++) {
            if (i) putchar(',');
            tool_json_string(s->names[i]);
            putchar(':');
            image_json(&s->images[i], s->codecs[i].text, i ? 0 : s->left_out);
        }
        putchar('}');
    }
    if (s->beside.status < 0) {
        printf(",\"note\":");
        tool_json_string(s->beside.message);
    }
    if (s->err.status < 0) {
        printf(",\"error\":");
        tool_json_string(s->err.message);
    }
    putchar('}');
}

static void sample_text(listing *l, listed_sample *s)
{
    char target[24] = "-", sizes[BZNA_IMAGES_MAX + 1][32] = { "-", "-" };
    if (!s->is_located) {
        printf("%8" PRIu64 "  ", s->index);
        tool_print_text(stdout, s->err.message);
        putchar('\n');
        return;
    }
    if (s->sample.target != BZNA_TARGET_NONE) snprintf(target, sizeof target, "%" PRId64, s->sample.target);
    for (uint32_t i = 0; i < s->image_count; i++) {
        seen_size size = image_size(&s->images[i]);
        snprintf(sizes[i], sizeof sizes[i], "%" PRIu32 "x%" PRIu32, size.width, size.height);
    }
    printf("%8" PRIu64 " %8s %11" PRIu64 " %-5s %-11s %-11s ", s->index, target, s->sample.size,
           s->image_count ? s->codecs[0].text : "-", sizes[0], sizes[1]);
    tool_print_text(stdout, s->filename ? s->filename : "-");
    if (class_of(l->archive, s->sample.target)) {
        fputs("  class=", stdout);
        tool_json_string(class_of(l->archive, s->sample.target));
    }
    values_print(l, s, value_text);
    beside_print(s->left_out, "  left out: ", ", ", "");
    if (s->beside.status < 0) {
        printf("  note: ");
        tool_print_text(stdout, s->beside.message);
    }
    if (s->err.status < 0) {
        printf("  ");
        tool_print_text(stdout, s->err.message);
    }
    putchar('\n');
}

int tool_run_list(const tool_options *o)
{
    archive a;
    uint64_t damaged = 0;
    if (archive_open(&a, o)) return EXIT_INPUT;
    listing l = { .archive = &a };
    if (o->json) putchar('[');
    else printf("%8s %8s %11s %-5s %-11s %-11s %s\n", "index", "target", "bytes", "codec", "picture", "another",
                "file name, class, fields");
    for (uint64_t i = 0; i < a.count && !ferror(stdout); i++) {
        listed_sample s;
        sample_read(&l, i, &s);
        if (o->json) fputs(i ? ",\n " : "\n ", stdout), sample_json(&l, &s);
        else         sample_text(&l, &s);
        damaged += s.err.status < 0;
    }
    if (o->json) puts("\n]");
    free(l.name.data);
    free(l.value.data);
    archive_close(&a);
    if (!damaged) return EXIT_OK;
    return tool_error("%s: %" PRIu64 " of %" PRIu64 " samples have errors", o->operand[0], damaged, a.count);
}
