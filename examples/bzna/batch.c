/* batch.c - bzna batch: one batch as a loader delivers it, as picture files */
#include "tool.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int folder_make(const char *path)
{
    if (mkdir(path, 0777) == 0 || (errno == EEXIST && tool_is_folder(path))) return EXIT_OK;
    return tool_error("%s: cannot be created: %s", path, strerror(errno));
}

/* ---- pictures ---- */

/* A contact sheet: all pictures of a batch in a grid. */
typedef struct contact_sheet {
    uint32_t columns, width, height;  /* width, height: of one picture */
    tool_rgb rgb;
} contact_sheet;

enum { CONTACT_GAP_PX = 2 };

/* A row a sample, where it has several views; else as many columns as rows, or one more. */
static contact_sheet sheet_alloc(uint32_t count, uint32_t views, uint32_t width, uint32_t height)
{
    contact_sheet sheet = { .columns = views, .width = width, .height = height };
    while (views == 1 && sheet.columns * sheet.columns < count) sheet.columns++;
    uint32_t rows = (count + sheet.columns - 1) / sheet.columns;
    sheet.rgb = tool_rgb_alloc(sheet.columns * (width + CONTACT_GAP_PX) - CONTACT_GAP_PX,
                               rows * (height + CONTACT_GAP_PX) - CONTACT_GAP_PX);
    return sheet;
}

static void sheet_put(contact_sheet *sheet, uint32_t place, const float *planes)
{
    uint32_t x = place % sheet->columns * (sheet->width + CONTACT_GAP_PX);
    uint32_t y = place / sheet->columns * (sheet->height + CONTACT_GAP_PX);
    tool_rgb_put_planes(&sheet->rgb, x, y, planes, sheet->width, sheet->height);
}

static int sheet_write(const contact_sheet *sheet, const char *folder)
{
    char *ppm = tool_format("%s/contact.ppm", folder), *png = tool_format("%s/contact.png", folder);
    int result = tool_write_ppm(ppm, &sheet->rgb);
    if (result == EXIT_OK) result = tool_write_png(png, &sheet->rgb);
    free(ppm);
    free(png);
    return result;
}

/* The value of a half's bits. */
static float half_value(uint16_t bits)
{
    int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    float size = ldexpf((float)(exponent ? mantissa + 1024 : mantissa), (exponent ? exponent : 1) - 25);
    return bits & 0x8000 ? -size : size;
}

static float element(const bzna_tensor *image, size_t at)
{
    const uint16_t *words = image->data;
    uint32_t bits;
    float value;
    switch (image->dtype) {
    case BZNA_DTYPE_FLOAT16: return half_value(words[at]);
    case BZNA_DTYPE_UINT8:   return ((const uint8_t *)image->data)[at];
    case BZNA_DTYPE_FLOAT32: return ((const float *)image->data)[at];
    }
    bits = (uint32_t)words[at] << 16;         /* bfloat16: the upper half of a float */
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* {batch, channels, height, width}, or with NHWC {batch, height, width, channels}, of one view. */
static const int64_t *view_shape(const bzna_batch_info *info) { return info->image.shape + info->image.dimensions - 4; }

/* Planes of R, G and B of a slot in one of the views, whatever the batch's type, layout and channels are. */
static void slot_planes(const bzna_batch_info *info, int is_bgr, size_t slot, float *planes)
{
    const int last = info->layout == BZNA_LAYOUT_NHWC;
    const size_t channels = (size_t)view_shape(info)[last ? 3 : 1];
    const size_t area = (size_t)(view_shape(info)[2] * view_shape(info)[last ? 1 : 3]);
    for (size_t c = 0; c < 3; c++) {
        size_t from = channels == 1 ? 0 : is_bgr ? 2 - c : c;
        for (size_t i = 0; i < area; i++)
            planes[c * area + i] = element(&info->image, slot * channels * area +
                                                         (last ? i * channels + from : from * area + i));
    }
}

static int pictures_write(const bzna_batch_info *info, int is_bgr, const char *folder)
{
    const int last = info->layout == BZNA_LAYOUT_NHWC;
    const int64_t *shape = view_shape(info);
    uint32_t height = (uint32_t)shape[last ? 1 : 2], width = (uint32_t)shape[last ? 2 : 3];
    uint32_t views = info->image.dimensions == 5 ? (uint32_t)info->image.shape[0] : 1;
    contact_sheet sheet = sheet_alloc(info->count * views, views, width, height);
    tool_rgb one = tool_rgb_alloc(width, height);
    float *planes = tool_checked(malloc((size_t)3 * width * height * sizeof *planes));
    int result = EXIT_OK;
    for (uint32_t i = 0; i < info->count * views && result == EXIT_OK; i++) {
        const uint32_t slot = i / views, view = i % views;
        slot_planes(info, is_bgr, (size_t)view * (size_t)shape[0] + slot, planes);
        char *path = views == 1 ? tool_format("%s/%05" PRIu32 ".ppm", folder, slot) :
                                  tool_format("%s/%05" PRIu32 "_%" PRIu32 ".ppm", folder, slot, view);
        sheet_put(&sheet, i, planes);
        tool_rgb_put_planes(&one, 0, 0, planes, width, height);
        result = tool_write_ppm(path, &one);
        free(path);
    }
    if (result == EXIT_OK) result = sheet_write(&sheet, folder);
    free(sheet.rgb.pixels);
    free(one.pixels);
    free(planes);
    return result;
}


/* ---- report ---- */

/* One slot of the batch. */
typedef struct slot_report {
    uint32_t    slot;
    uint64_t    index;
    char        target[24];           /* empty: none */
    const char *filename;             /* NULL: none */
    bzna_error  err;
} slot_report;

static void slot_read(slot_report *s, const archive *a, const bzna_batch *batch, const bzna_batch_info *info,
                      tool_buffer *buffer)
{
    s->index = info->indices[s->slot];
    s->err = tool_empty_error();
    if (info->targets[s->slot] != BZNA_TARGET_NONE)
        snprintf(s->target, sizeof s->target, "%" PRId64, info->targets[s->slot]);
    archive_filename(a, s->index, buffer, &s->filename, NULL);
    if (info->status[s->slot] < 0) bzna_batch_error(batch, s->slot, &s->err);
    s->err.status = info->status[s->slot];
}

static void slot_json(const slot_report *s)
{
    printf("%s\n {\"slot\":%" PRIu32 ",\"index\":%" PRIu64 ",\"target\":%s,\"filename\":", s->slot ? "," : "", s->slot,
           s->index, s->target[0] ? s->target : "null");
    tool_json_string(s->filename);
    if (s->err.status < 0) printf(",\"error\":"), tool_json_string(s->err.message);
    putchar('}');
}

static void slot_text(const slot_report *s)
{
    printf("%5" PRIu32 " %8" PRIu64 " %8s  ", s->slot, s->index, s->target[0] ? s->target : "-");
    tool_print_text(stdout, s->filename ? s->filename : "-");
    if (s->err.status < 0) printf("  "), tool_print_text(stdout, s->err.message);
    putchar('\n');
}

static void header_json(const bzna_loader_info *info)
{
    printf("{\"decoder\":");
    tool_json_string(info->decoder_name);
    printf(",\"reason\":");
    tool_json_string(info->decoder_reason);
    printf(",\"sessions\":%" PRIu32 ",\"slots\":[", info->sessions);
}

static void header_text(const bzna_loader_info *info)
{
    printf("decoder  %s: %s\n\n", info->decoder_name, info->decoder_reason);
    printf("%5s %8s %8s  %s\n", "slot", "sample", "target", "file name");
}

static void report(int json, const archive *a, bzna_loader *loader, const bzna_batch *batch,
                   const bzna_batch_info *info)
{
    tool_buffer buffer = { NULL, 0 };
    bzna_loader_info loader_info = { .struct_size = sizeof loader_info };
    bzna_loader_get_info(loader, &loader_info, sizeof loader_info, NULL);
    if (json) header_json(&loader_info);
    else      header_text(&loader_info);
    for (uint32_t slot = 0; slot < info->count; slot++) {
        slot_report s = { .slot = slot };
        slot_read(&s, a, batch, info, &buffer);
        if (json) slot_json(&s);
        else      slot_text(&s);
    }
    if (json) puts("\n]}");
    free(buffer.data);
}


/* ---- the command ---- */

static int batch_save(const tool_options *o, const archive *a, bzna_loader *loader, const bzna_batch *batch)
{
    bzna_batch_info info = { .struct_size = sizeof info };
    bzna_batch_get_info(batch, &info, sizeof info, NULL);
    if (folder_make(o->out) || pictures_write(&info, !strcmp(o->channels, "BGR"), o->out)) return EXIT_INPUT;
    report(o->json != 0, a, loader, batch, &info);
    if (!info.failed) return EXIT_OK;
    return tool_error("%" PRIu32 " of %" PRIu32 " samples failed", info.failed, info.count);
}

int tool_run_batch(const tool_options *o)
{
    archive a;
    bzna_error err = tool_empty_error();
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    archive_loading loading = { .batches_in_flight = 1 };
    tool_options settings = *o;
    settings.output = "host";         /* whatever decodes, the pixels are written to files */
    if (archive_open_with(&a, o)) return EXIT_INPUT;
    int result = archive_open_loader(&a, &settings, &loading, &loader);
    if (result == EXIT_OK) {
        if (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err) < 0) result = tool_error("%s", err.message);
        else if (batch) result = batch_save(o, &a, loader, batch);
    }
    bzna_batch_release(batch);
    bzna_loader_close(loader);
    archive_close(&a);
    return result;
}
