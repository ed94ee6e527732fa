/* info.c - bzna info and bzna list: what an archive holds */
#include "tool.h"

#include <stdlib.h>
#include <string.h>

/* ---- info: the archive as a whole ---- */

static bzna_track_info track_info(const archive *a, uint32_t index)
{
    bzna_track_info track = { .struct_size = sizeof track };
    bzna_dataset_get_track_info(a->dataset, index, &track, sizeof track, NULL);
    return track;
}

static void info_json(const archive *a, const bzna_dataset_info *info)
{
    printf("{\"brands\":[");
    for (uint32_t i = 0; i < info->brand_count && i < LENGTH(info->brands); i++) {
        if (i) putchar(',');
        tool_json_string(tool_fourcc(info->brands[i]).text);
    }
    printf("],\"size\":%" PRIu64 ",\"samples\":%" PRIu64 ",\"targets\":%" PRIu64 ",\"tracks\":[",
           info->size_bytes, info->sample_count, info->target_count);
    for (uint32_t i = 0; i < info->track_count; i++) {
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
    puts("\n]}");
}

static void info_text(const archive *a, const bzna_dataset_info *info)
{
    printf("brands  ");
    for (uint32_t i = 0; i < info->brand_count && i < LENGTH(info->brands); i++)
        printf(" %s", tool_fourcc(info->brands[i]).text);
    printf("\nsize     %" PRIu64 " bytes\nsamples  %" PRIu64 "\ntargets  %" PRIu64 "\n\n",
           info->size_bytes, info->sample_count, info->target_count);
    printf("%-24s %-8s %-7s %10s  %s\n", "track", "handler", "format", "count", "mime");
    for (uint32_t i = 0; i < info->track_count; i++) {
        bzna_track_info track = track_info(a, i);
        printf("%-24s %-8s %-7s %10" PRIu64 "  ", track.name, tool_fourcc(track.handler).text,
               tool_fourcc(track.format).text, track.sample_count);
        tool_print_text(stdout, track.mime);
        putchar('\n');
    }
}

int tool_run_info(const tool_options *o)
{
    archive a;
    if (archive_open(&a, o->operand[0])) return EXIT_INPUT;
    bzna_dataset_info info = { .struct_size = sizeof info };
    bzna_dataset_get_info(a.dataset, &info, sizeof info, NULL);
    if (o->json) info_json(&a, &info);
    else         info_text(&a, &info);
    archive_close(&a);
    return EXIT_OK;
}


/* ---- list: its samples ---- */

/* One sample, as far as it could be read; err says why not further. */
typedef struct listed_sample {
    uint64_t    index;
    int         is_located;           /* sample is filled in */
    bzna_sample sample;
    const char *filename;             /* NULL: none */
    uint32_t    image_count;          /* of images filled in */
    bzna_image_info  images[BZNA_IMAGES_MAX];
    bzna_error  err;
} listed_sample;

static void sample_read(const archive *a, uint64_t index, tool_buffer *buffer, listed_sample *s)
{
    memset(s, 0, sizeof *s);
    s->index = index;
    s->err = tool_empty_error();
    if (bzna_dataset_get_sample(a->dataset, index, &s->sample, sizeof s->sample, &s->err) < 0) return;
    s->is_located = 1;
    if (archive_filename(a, index, buffer, &s->filename, &s->err) < 0) return;
    if (!s->filename) s->err = tool_empty_error();          /* that there is none is no error */
    for (uint32_t i = 0; i < s->sample.image_count && i < BZNA_IMAGES_MAX; i++) {
        bzna_image_info *image = &s->images[i];
        if (bzna_dataset_get_image_info(a->dataset, index, s->sample.image_names[i], image, sizeof *image, &s->err) < 0)
            return;
        s->image_count = i + 1;
    }
}

static void image_json(const bzna_image_info *image)
{
    printf("{\"codec\":");
    tool_json_string(tool_fourcc(image->fourcc).text);
    printf(",\"width\":%" PRIu32 ",\"height\":%" PRIu32 ",\"frame_width\":%" PRIu32 ",\"frame_height\":%" PRIu32
           ",\"payload_offset\":%" PRIu64 ",\"payload_size\":%" PRIu64 "}",
           image->width, image->height, image->frame_width, image->frame_height, image->data_offset, image->data_size);
}

static void sample_json(const listed_sample *s)
{
    printf("{\"index\":%" PRIu64, s->index);
    if (s->is_located) {
        if (s->sample.target == BZNA_TARGET_NONE) printf(",\"target\":null");
        else                                      printf(",\"target\":%" PRId64, s->sample.target);
        printf(",\"filename\":");
        tool_json_string(s->filename);
        printf(",\"offset\":%" PRIu64 ",\"size\":%" PRIu64 ",\"images\":{", s->sample.offset, s->sample.size);
        for (uint32_t i = 0; i < s->image_count; i++) {
            if (i) putchar(',');
            tool_json_string(s->sample.image_names[i]);
            putchar(':');
            image_json(&s->images[i]);
        }
        putchar('}');
    }
    if (s->err.status < 0) {
        printf(",\"error\":");
        tool_json_string(s->err.message);
    }
    putchar('}');
}

static void sample_text(const listed_sample *s)
{
    char target[24] = "-", sizes[BZNA_IMAGES_MAX + 1][32] = { "-", "-" };
    if (!s->is_located) {
        printf("%8" PRIu64 "  ", s->index);
        tool_print_text(stdout, s->err.message);
        putchar('\n');
        return;
    }
    if (s->sample.target != BZNA_TARGET_NONE) snprintf(target, sizeof target, "%" PRId64, s->sample.target);
    for (uint32_t i = 0; i < s->image_count; i++)
        snprintf(sizes[i], sizeof sizes[i], "%" PRIu32 "x%" PRIu32, s->images[i].width, s->images[i].height);
    printf("%8" PRIu64 " %8s %11" PRIu64 " %-5s %-11s %-11s ", s->index, target, s->sample.size,
           s->image_count ? tool_fourcc(s->images[0].fourcc).text : "-", sizes[0], sizes[1]);
    tool_print_text(stdout, s->filename ? s->filename : "-");
    if (s->err.status < 0) {
        printf("  ");
        tool_print_text(stdout, s->err.message);
    }
    putchar('\n');
}

int tool_run_list(const tool_options *o)
{
    archive a;
    tool_buffer buffer = { NULL, 0 };
    uint64_t damaged = 0;
    if (archive_open(&a, o->operand[0])) return EXIT_INPUT;
    if (o->json) putchar('[');
    else printf("%8s %8s %11s %-5s %-11s %-11s %s\n", "index", "target", "bytes", "codec", "picture", "thumbnail",
                "file name");
    for (uint64_t i = 0; i < a.count && !ferror(stdout); i++) {
        listed_sample s;
        sample_read(&a, i, &buffer, &s);
        damaged += s.err.status < 0;
        if (o->json) fputs(i ? ",\n " : "\n ", stdout), sample_json(&s);
        else         sample_text(&s);
    }
    if (o->json) puts("\n]");
    free(buffer.data);
    archive_close(&a);
    if (!damaged) return EXIT_OK;
    return tool_error("%s: %" PRIu64 " of %" PRIu64 " samples are damaged", o->operand[0], damaged, a.count);
}
