/* boxes.c - detection: boxes in a text file next to each picture, mapped to the pixels of the output
 *
 *     cc -std=c11 -I.. boxes.c formats/rules.c formats/data.c benzina.o \
 *        $(pkg-config --libs libavcodec libavutil libjpeg) -lm -lpthread -ldl -o boxes
 *     ./boxes shard.tar sheet.ppm
 *
 * Each picture of the tar (NAME.jpg) has boxes in YOLO's form (NAME.txt). A line is one box: its category, its center,
 * its width and its height, the last four as shares of the picture's width and height:
 *
 *     17 0.5 0.25 0.2 0.1
 *
 * A rule makes a tensor of them on the decoder threads: up to 100 boxes a sample, each left, top, right, bottom in
 * pixels of the output and the category, clipped to the random crop. A box outside of the crop is dropped. The first
 * batch is written as a sheet, with the boxes drawn in. */
#include "example.h"
#include "formats/formats.h"

#include <string.h>

enum { SIZE = 224, BATCH = 8, BOXES = 100, NUMBERS = 5 };

/* ---- The rule ---- */

/* Writes one box as the view shows it. Returns 1, or 0 if less than two pixels of it are left in width or height. */
static int map_box(const bzna_geometry *geometry, const double line[NUMBERS], float *row)
{
    const double x = line[1] * geometry->width, half_width = line[3] * geometry->width / 2;
    const double y = line[2] * geometry->height, half_height = line[4] * geometry->height / 2;
    const double box[4] = { x - half_width, y - half_height, x + half_width, y + half_height };
    double       shown[4];
    if (!bzna_geometry_box(geometry, box, shown) || shown[2] - shown[0] < 2 || shown[3] - shown[1] < 2) return 0;
    for (int i = 0; i < 4; i++) row[i] = (float)shown[i];
    row[4] = (float)line[0];
    return 1;
}

/* A negative number says that the text is damaged, which costs the sample its slot. The text ends with a NUL. */
static bzna_status read_boxes(void *user, const bzna_rule_input *input, void *out, uint64_t out_bytes, uint64_t *count)
{
    const char *p = input->data;
    float      *row = out;
    (void)user, (void)out_bytes;
    for (p += strspn(p, " \t\r\n"); *p && *count < BOXES; p += strspn(p, " \t\r\n")) {
        double line[NUMBERS];
        for (int i = 0; i < NUMBERS; i++) {
            char *end;
            line[i] = strtod(p, &end);
            if (end == p) return -1;
            p = end;
        }
        *count += (uint64_t)map_box(input->geometry, line, row + *count * NUMBERS);
    }
    return BZNA_OK;
}

/* ---- The program ---- */

static void draw_frame(uint8_t *picture, const float *box)
{
    const int left = (int)box[0], right = (int)box[2] - (box[2] >= (float)SIZE);
    const int top = (int)box[1], bottom = (int)box[3] - (box[3] >= (float)SIZE);
    static const uint8_t red[3] = { 255, 0, 0 };
    for (int x = left; x <= right; x++) {
        memcpy(picture + 3 * (top * SIZE + x), red, 3);
        memcpy(picture + 3 * (bottom * SIZE + x), red, 3);
    }
    for (int y = top; y <= bottom; y++) {
        memcpy(picture + 3 * (y * SIZE + left), red, 3);
        memcpy(picture + 3 * (y * SIZE + right), red, 3);
    }
}

/* Prints the boxes of a batch; with a sheet, draws them in and writes it. */
static void show(bzna_batch *batch, const char *sheet, bzna_error *err)
{
    bzna_batch_info info;
    bzna_tensor     boxes, counts;
    check(bzna_batch_get_info(batch, &info, sizeof info, err), err);
    check(bzna_batch_tensor(batch, "boxes", &boxes, sizeof boxes, err), err);
    check(bzna_batch_tensor(batch, "boxes_count", &counts, sizeof counts, err), err);
    report_failed(batch, &info);
    for (uint32_t slot = 0; slot < info.count; slot++) {
        const int64_t count = ((const int64_t *)counts.data)[slot];
        for (int64_t i = 0; i < count; i++) {
            const float *box = (const float *)boxes.data + (slot * BOXES + i) * NUMBERS;
            printf("%" PRIu64 ": category %g at %.1f %.1f %.1f %.1f\n", info.indices[slot], (double)box[4],
                   (double)box[0], (double)box[1], (double)box[2], (double)box[3]);
            if (sheet) draw_frame((uint8_t *)info.image.data + (size_t)slot * SIZE * SIZE * 3, box);
        }
    }
    if (sheet) write_ppm(sheet, info.image.data, SIZE, (int64_t)SIZE * info.count);     /* one below the other */
}

int main(int argc, char **argv)
{
    bzna_error    err;
    bzna_context *context = NULL;
    bzna_dataset *dataset = NULL;
    bzna_loader  *loader  = NULL;
    bzna_rules   *rules   = NULL;
    bzna_batch   *batch   = NULL;
    bzna_status   status;

    if (argc < 2) { fprintf(stderr, "usage: %s DATA [SHEET.ppm]\n", argv[0]); return 2; }
    bzna_rule rule;
    bzna_formats_rule_init(&rule, sizeof rule);
    rule.field      = ".txt";
    rule.name       = "boxes";
    rule.kind       = BZNA_RULE_ROWS;
    rule.call       = read_boxes;
    rule.dimensions = 2;
    rule.shape[0]   = BOXES;
    rule.shape[1]   = NUMBERS;

    bzna_error_init(&err, sizeof err);
    bzna_loader_config config;
    bzna_loader_config_init(&config, sizeof config);
    config.output.batch_size  = BATCH;
    config.output.width       = config.output.height = SIZE;
    config.output.dtype       = BZNA_DTYPE_UINT8;
    config.output.layout      = BZNA_LAYOUT_NHWC;
    config.order.seed         = 3;
    config.warp.kind          = BZNA_WARP_RANDOM_RESIZED_CROP;
    config.warp.scale[0]      = 0.5;
    config.warp.scale[1]      = 1;
    config.warp.flip_h        = 0.5;

    check(bzna_context_open(NULL, &context, &err), &err);
    check(bzna_dataset_open(context, argv[1], NULL, &dataset, &err), &err);
    check(bzna_formats_rules_open(dataset, &rule, 1, &config, &rules, &err), &err);
    check(bzna_loader_open(context, dataset, &config, &loader, &err), &err);
    const char *sheet = argc > 2 ? argv[2] : NULL;
    while ((status = bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err)) == BZNA_OK) {
        show(batch, sheet, &err);
        sheet = NULL;
        bzna_batch_release(batch);
    }
    check(status, &err);
    bzna_loader_close(loader);
    bzna_formats_rules_close(rules);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    return 0;
}
