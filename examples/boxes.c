/* boxes.c - detection: boxes beside pictures, read from JSON and mapped to what the network sees
 *
 *     cc -std=c11 boxes.c benzina.o $(pkg-config --libs libavcodec libavutil libjpeg) -lm -lpthread -ldl -o boxes
 *     ./boxes shard.tar sheet.ppm
 *
 * Each picture of the tar (NAME.jpg) has annotations in COCO's form beside it (NAME.json):
 *
 *     {"annotations": [{"bbox": [x, y, width, height], "category_id": 17}, ...]}
 *
 * A rule makes a tensor of them on the decoder threads: up to 100 boxes a sample, each left, top, right, bottom in
 * pixels of the output and the category, clipped to what the random crop shows. Boxes of which nothing is left are
 * dropped. The first batch is written as a sheet, with the boxes drawn in. */
#include "example.h"

#include <string.h>

enum { SIZE = 224, BATCH = 8, BOXES = 100, NUMBERS = 5 };

/* ---- As much JSON as annotations need: a cursor, which becomes NULL where the text is none ---- */

static const char *skip_blanks(const char *p) { return p ? p + strspn(p, " \t\r\n") : NULL; }

static const char *skip_string(const char *p)
{
    for (p++; *p && *p != '"'; p++)
        if (*p == '\\' && p[1]) p++;
    return *p ? p + 1 : NULL;
}

/* Any value: strings, numbers and words, and what brackets enclose. */
static const char *skip_value(const char *p)
{
    int depth = 0;
    for (p = skip_blanks(p); p && *p; p = skip_blanks(p)) {
        if (*p == '"')                   p = skip_string(p);
        else if (*p == '{' || *p == '[') p++, depth++;
        else if (*p == '}' || *p == ']') p++, depth--;
        else if (*p == ',' || *p == ':') p++;
        else                             p += strcspn(p, ",:]}\" \t\r\n");
        if (depth <= 0) return depth < 0 ? NULL : p;
    }
    return NULL;
}

/* Goes to the next member of an object: its value. *key begins after the quote. NULL at the object's end. */
static const char *next_member(const char *p, const char **key)
{
    p = skip_blanks(p);
    if (p && (*p == '{' || *p == ',')) p = skip_blanks(p + 1);
    if (!p || *p != '"') return NULL;
    *key = p + 1;
    p = skip_blanks(skip_string(p));
    return p && *p == ':' ? skip_blanks(p + 1) : NULL;
}

static int is_key(const char *key, const char *name)
{
    return !strncmp(key, name, strlen(name)) && key[strlen(name)] == '"';
}

/* One annotation. Returns what follows it, or NULL if it has no box of four numbers. */
static const char *read_annotation(const char *p, double bbox[4], long *category)
{
    const char *key, *value;
    int         found = 0;
    *category = 0;
    for (const char *at = p; (value = next_member(at, &key)) != NULL && (at = skip_value(value)) != NULL; )
        if (is_key(key, "category_id")) *category = strtol(value, NULL, 10);
        else if (is_key(key, "bbox"))
            found = sscanf(value, "[%lf ,%lf ,%lf ,%lf ]", &bbox[0], &bbox[1], &bbox[2], &bbox[3]) == 4;
    return found ? skip_value(p) : NULL;
}

/* ---- The rule ---- */

/* Writes one box as the view shows it. Returns 1, or 0 if less than two pixels of it are left in width or height. */
static int map_box(const bzna_geometry *geometry, const double bbox[4], long category, float *row)
{
    const double box[4] = { bbox[0], bbox[1], bbox[0] + bbox[2], bbox[1] + bbox[3] };
    double       shown[4];
    if (!bzna_geometry_box(geometry, box, shown) || shown[2] - shown[0] < 2 || shown[3] - shown[1] < 2) return 0;
    for (int i = 0; i < 4; i++) row[i] = (float)shown[i];
    row[4] = (float)category;
    return 1;
}

/* A negative number says that the JSON is damaged, which costs the sample its slot. */
static bzna_status read_boxes(void *user, const bzna_rule_input *input, void *out, uint64_t out_bytes, uint64_t *count)
{
    const char *key, *p = input->data, *value = p;
    float      *row = out;
    (void)user, (void)out_bytes;
    while ((value = next_member(p, &key)) != NULL && !is_key(key, "annotations"))
        if (!(p = skip_value(value))) return -1;
    if (!value || *value != '[') return -2;
    for (p = skip_blanks(value + 1); p && *p == '{' && *count < BOXES; p = skip_blanks(*p == ',' ? p + 1 : p)) {
        double bbox[4];
        long   category;
        if (!(p = skip_blanks(read_annotation(p, bbox, &category)))) return -3;
        *count += (uint64_t)map_box(input->geometry, bbox, category, row + *count * NUMBERS);
    }
    return p && (*p == ']' || *count == BOXES) ? BZNA_OK : -4;
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
    bzna_batch   *batch   = NULL;
    bzna_status   status;

    if (argc < 2) { fprintf(stderr, "usage: %s DATA [SHEET.ppm]\n", argv[0]); return 2; }
    bzna_rule rule;
    bzna_rule_init(&rule, sizeof rule);
    rule.field      = ".json";
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
    config.fields.rules       = &rule;
    config.fields.rule_count  = 1;

    check(bzna_context_open(NULL, &context, &err), &err);
    check(bzna_dataset_open(context, argv[1], NULL, &dataset, &err), &err);
    check(bzna_loader_open(context, dataset, &config, &loader, &err), &err);
    const char *sheet = argc > 2 ? argv[2] : NULL;
    while ((status = bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err)) == BZNA_OK) {
        show(batch, sheet, &err);
        sheet = NULL;
        bzna_batch_release(batch);
    }
    check(status, &err);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    return 0;
}
