/* info.c - bzna info, bzna list */
#include "tool.h"

#include <stdlib.h>
#include <string.h>

static void info_json(const archive *a, const bzna_dataset_info *info)
{
    printf("{\"brands\":[");
    for (uint32_t i = 0; i < info->brand_count && i < LENGTH(info->brands); i++) {
        if (i) putchar(',');
        json_string(fourcc(info->brands[i]).text);
    }
    printf("],\"size\":%" PRIu64 ",\"samples\":%" PRIu64 ",\"targets\":%" PRIu64 ",\"tracks\":[",
           info->size_bytes, info->sample_count, info->target_count);
    for (uint32_t i = 0; i < info->track_count; i++) {
        bzna_track_info track = { .struct_size = sizeof track };
        bzna_dataset_track(a->dataset, i, &track, sizeof track);
        printf("%s\n {\"name\":", i ? "," : "");
        json_string(track.name);
        printf(",\"handler\":");
        json_string(fourcc(track.handler).text);
        printf(",\"format\":");
        json_string(fourcc(track.format).text);
        printf(",\"mime\":");
        json_string(track.mime[0] ? track.mime : NULL);
        printf(",\"count\":%" PRIu64 "}", track.sample_count);
    }
    puts("\n]}");
}

static void info_plain(const archive *a, const bzna_dataset_info *info)
{
    printf("brands  ");
    for (uint32_t i = 0; i < info->brand_count && i < LENGTH(info->brands); i++) printf(" %s", fourcc(info->brands[i]).text);
    printf("\nsize     %" PRIu64 " bytes\nsamples  %" PRIu64 "\ntargets  %" PRIu64 "\n\n%-24s %-8s %-7s %10s  %s\n", info->size_bytes,
           info->sample_count, info->target_count, "track", "handler", "format", "count", "mime");
    for (uint32_t i = 0; i < info->track_count; i++) {
        bzna_track_info track = { .struct_size = sizeof track };
        bzna_dataset_track(a->dataset, i, &track, sizeof track);
        printf("%-24s %-8s %-7s %10" PRIu64 "  ", track.name, fourcc(track.handler).text, fourcc(track.format).text,
               track.sample_count);
        print_plain(stdout, track.mime);
        putchar('\n');
    }
}

int run_info(const options *o)
{
    archive a;
    if (archive_open(&a, o->operand[0])) return EXIT_INPUT;
    bzna_dataset_info info = { .struct_size = sizeof info };
    bzna_dataset_describe(a.dataset, &info, sizeof info);
    if (o->json) info_json(&a, &info);
    else         info_plain(&a, &info);
    archive_close(&a);
    return EXIT_OK;
}

/* What is known of one sample; err tells what could not be found out. */
typedef struct record {
    uint64_t    index;
    int         located;              /* sample is filled in */
    bzna_sample sample;
    const char *filename;
    uint32_t    image_count;          /* of images that could be read */
    bzna_image  images[BZNA_IMAGES_MAX];
    bzna_error  err;
} record;

static void record_read(const archive *a, uint64_t index, bytes *buffer, record *r)
{
    memset(r, 0, sizeof *r);
    r->index = index;
    r->err = error_empty();
    r->sample.struct_size = sizeof r->sample;
    if (bzna_dataset_sample(a->dataset, index, &r->sample, &r->err) < 0) return;
    r->located = 1;
    if (sample_filename(a, index, buffer, &r->filename, &r->err) < 0) return;
    if (!r->filename) r->err = error_empty();
    for (uint32_t i = 0; i < r->sample.image_count && i < BZNA_IMAGES_MAX; i++) {
        r->images[i].struct_size = sizeof r->images[i];
        if (bzna_dataset_image(a->dataset, index, r->sample.image_names[i], NULL, 0, &r->images[i], &r->err) < 0) return;
        r->image_count = i + 1;
    }
}

static void record_json(const record *r)
{
    printf("{\"index\":%" PRIu64, r->index);
    if (r->located) {
        if (r->sample.target == BZNA_TARGET_NONE) printf(",\"target\":null");
        else                                      printf(",\"target\":%" PRId64, r->sample.target);
        printf(",\"filename\":");
        json_string(r->filename);
        printf(",\"offset\":%" PRIu64 ",\"size\":%" PRIu64 ",\"images\":{", r->sample.offset, r->sample.size);
        for (uint32_t i = 0; i < r->image_count; i++) {
            const bzna_image *image = &r->images[i];
            if (i) putchar(',');
            json_string(r->sample.image_names[i]);
            printf(":{\"codec\":");
            json_string(fourcc(image->fourcc).text);
            printf(",\"width\":%" PRIu32 ",\"height\":%" PRIu32 ",\"frame_width\":%" PRIu32 ",\"frame_height\":%" PRIu32
                   ",\"payload_offset\":%" PRIu64 ",\"payload_size\":%" PRIu64 "}",
                   image->width, image->height, image->frame_width, image->frame_height, image->data_offset, image->data_size);
        }
        putchar('}');
    }
    if (r->err.status < 0) {
        printf(",\"error\":");
        json_string(r->err.message);
    }
    putchar('}');
}

static void record_plain(const record *r)
{
    char target[24] = "-", sizes[BZNA_IMAGES_MAX + 1][32] = { "-", "-" };
    if (!r->located) {
        printf("%8" PRIu64 "  ", r->index);
        print_plain(stdout, r->err.message);
        putchar('\n');
        return;
    }
    if (r->sample.target != BZNA_TARGET_NONE) snprintf(target, sizeof target, "%" PRId64, r->sample.target);
    for (uint32_t i = 0; i < r->image_count; i++)
        snprintf(sizes[i], sizeof sizes[i], "%" PRIu32 "x%" PRIu32, r->images[i].width, r->images[i].height);
    printf("%8" PRIu64 " %8s %11" PRIu64 " %-5s %-11s %-11s ", r->index, target, r->sample.size,
           r->image_count ? fourcc(r->images[0].fourcc).text : "-", sizes[0], sizes[1]);
    print_plain(stdout, r->filename ? r->filename : "-");
    if (r->err.status < 0) {
        printf("  ");
        print_plain(stdout, r->err.message);
    }
    putchar('\n');
}

int run_list(const options *o)
{
    archive a;
    bytes buffer = { NULL, 0 };
    uint64_t bad = 0;
    if (archive_open(&a, o->operand[0])) return EXIT_INPUT;
    if (o->json) putchar('[');
    else         printf("%8s %8s %11s %-5s %-11s %-11s %s\n", "index", "target", "bytes", "codec", "picture", "thumbnail", "file name");
    for (uint64_t i = 0; i < a.count && !ferror(stdout); i++) {
        record r;
        record_read(&a, i, &buffer, &r);
        bad += r.err.status < 0;
        if (o->json) fputs(i ? ",\n " : "\n ", stdout), record_json(&r);
        else         record_plain(&r);
    }
    if (o->json) puts("\n]");
    free(buffer.data);
    archive_close(&a);
    return bad ? complain("%s: %" PRIu64 " of %" PRIu64 " samples are damaged", o->operand[0], bad, a.count) : EXIT_OK;
}
