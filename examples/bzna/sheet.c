/* sheet.c - bzna sheet: samples, or one sample under several augmentations, labelled, as one PNG */
#include "tool.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* What a loader drew for one picture. */
typedef struct drawing {
    uint32_t       width, height;     /* of the picture that it is warped from */
    bzna_transform transform;
} drawing;

typedef struct sheet {
    const tool_options *options;
    const archive      *data;
    bzna_batch_info     info;
    bzna_batch         *batch;
    uint32_t            size, views, count;             /* count: pictures, of all views */
    uint32_t            columns, scale, label_lines;
    drawing            *drawings;     /* one a picture: those of a sample's views beside each other */
    char              **labels;       /* one a picture */
} sheet;

enum { GAP_PX = 6, LINE_PX = 10, LABEL_LINES_MAX = 12 };


/* ---- what was drawn ---- */

/* The loader's callback: notes what it drew, and changes nothing. Each picture has a place of its own, so that the
 * loader's threads need no lock. */
static bzna_status drawing_note(void *user, const bzna_sample_info *sample, bzna_random *random,
                                bzna_transform *transform)
{
    sheet *s = user;
    drawing *d = &s->drawings[sample->slot * s->views + sample->view];
    (void)random;
    d->width = sample->width;
    d->height = sample->height;
    d->transform = *transform;
    return BZNA_OK;
}

/* Adds words to a text of 512 bytes; what does not fit is left out. */
PRINTF_LIKE(2, 3) static void words_add(char *text, const char *format, ...)
{
    size_t length = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + length, 512 - length, format, arguments);
    va_end(arguments);
}

static double degrees_of(double y, double x) { return atan2(y, x) * (180 / 3.14159265358979323846); }

/* The crop, mirroring, rotation, shear and perspective of a homography: what it does at the middle of the output. */
static void words_add_geometry(char *text, const drawing *d, double size)
{
    const double *h = d->transform.homography, middle = (size - 1) / 2;
    const double w = h[6] * middle + h[7] * middle + h[8];
    const double x = (h[0] * middle + h[1] * middle + h[2]) / w, y = (h[3] * middle + h[4] * middle + h[5]) / w;
    const double a = (h[0] - x * h[6]) / w, b = (h[1] - x * h[7]) / w, c = (h[3] - y * h[6]) / w,
                 e = (h[4] - y * h[7]) / w, area = a * e - b * c, side = area < 0 ? -1 : 1;
    const double turn = degrees_of(side * c, side * a), shear = degrees_of(a * b + c * e, fabs(area));
    const double width = hypot(a, c) * size, height = fabs(area) / hypot(a, c) * size;
    words_add(text, " %.0fx%.0f at %ld,%ld", width, height, lround(x + 0.5 - width / 2), lround(y + 0.5 - height / 2));
    words_add(text, " of %" PRIu32 "x%" PRIu32, d->width, d->height);
    if (area < 0) words_add(text, " mirrored");
    if (fabs(turn) >= 0.5) words_add(text, " turned %.0f", turn);
    if (fabs(shear) >= 0.5) words_add(text, " sheared %.0f", shear);
    if (fabs(h[6]) + fabs(h[7]) > 1e-9 * fabs(h[8])) words_add(text, " perspective");
}

static void words_add_color(char *text, const bzna_transform *t)
{
    if (t->hls[0] != 0 || t->hls[1] != 0 || t->hls[2] != 0)
        words_add(text, " HLS %+.0f %+.0f %+.0f", t->hls[0], t->hls[1], t->hls[2]);
    if (t->brightness != 0) words_add(text, " brightness %.2f", t->brightness);
    if (t->contrast != 0) words_add(text, " contrast %.2f", t->contrast);
    if (t->saturation != 0) words_add(text, " saturation %.2f", t->saturation);
    if (t->hue != 0) words_add(text, " hue %+.2f", t->hue);
    if (t->grayscale) words_add(text, " gray");
    if (t->scale[0] != 1 || t->bias[0] != 0) words_add(text, " x%.2f%+.0f", t->scale[0], -t->bias[0] * t->scale[0]);
}

/* The operations that were drawn, those in the warp, too. */
static void words_add_operations(char *text, const bzna_transform *t)
{
    static const struct { uint32_t kind; const char *name; } names[] = {
        { BZNA_OP_SHEAR_X, "shear-x" }, { BZNA_OP_SHEAR_Y, "shear-y" }, { BZNA_OP_TRANSLATE_X, "translate-x" },
        { BZNA_OP_TRANSLATE_Y, "translate-y" }, { BZNA_OP_TRANSLATE_X_PX, "translate-x" },
        { BZNA_OP_TRANSLATE_Y_PX, "translate-y" }, { BZNA_OP_ROTATE, "rotate" }, { BZNA_OP_BRIGHTNESS, "brightness" },
        { BZNA_OP_CONTRAST, "contrast" }, { BZNA_OP_SATURATION, "color" }, { BZNA_OP_POSTERIZE, "posterize" },
        { BZNA_OP_SOLARIZE, "solarize" }, { BZNA_OP_SHARPNESS, "sharpness" }, { BZNA_OP_ERASE, "erase" },
    };
    static const struct { uint32_t kind; const char *name; } plain[] = {
        { BZNA_OP_IDENTITY, "identity" }, { BZNA_OP_INVERT, "invert" }, { BZNA_OP_AUTOCONTRAST, "autocontrast" },
        { BZNA_OP_EQUALIZE, "equalize" },
    };
    for (uint32_t i = 0; i < t->operation_count; i++) {
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            if (names[k].kind == t->operations[i].kind)
                words_add(text, " %s %.3g", names[k].name, t->operations[i].magnitude);
        for (size_t k = 0; k < sizeof plain / sizeof *plain; k++)
            if (plain[k].kind == t->operations[i].kind) words_add(text, " %s", plain[k].name);
    }
}

static void label_text(const sheet *s, uint32_t picture, char text[512])
{
    const uint32_t slot = picture / s->views;
    const int64_t target = s->info.targets[slot];
    bzna_error err = tool_empty_error();
    char name[64] = "";
    size_t needed;
    snprintf(text, 512, "#%" PRIu64, s->info.indices[slot]);
    if (target != BZNA_TARGET_NONE) words_add(text, " target %" PRId64, target);
    if (bzna_dataset_class(s->data->dataset, target, name, sizeof name, &needed, NULL) == BZNA_OK)
        words_add(text, " %s", name);
    if (s->info.status[slot] < 0) {
        bzna_batch_error(s->batch, slot, &err);
        words_add(text, " %s", err.message);
        return;
    }
    words_add_geometry(text, &s->drawings[picture], s->size);
    words_add_color(text, &s->drawings[picture].transform);
    words_add_operations(text, &s->drawings[picture].transform);
}


/* ---- the sheet ---- */

/* Copies the next line of at most `most` characters, which ends between words where it can. Returns what follows it. */
static const char *line_take(const char *text, size_t most, char line[512])
{
    size_t length = strlen(text), end = length > most ? most : length;
    if (length > most)
        while (end && text[end] != ' ') end--;
    if (!end) end = most;                                   /* a word that is longer than a line */
    memcpy(line, text, end);
    line[end] = 0;
    return text + end + (text[end] == ' ');
}

static size_t line_length(const sheet *s)
{
    const size_t most = s->size / (TOOL_GLYPH_WIDTH * s->scale);
    return most > 500 ? 500 : most ? most : 1;
}

static void labels_make(sheet *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        char text[512], line[512];
        uint32_t lines = 0;
        label_text(s, i, text);
        s->labels[i] = tool_format("%s", text);
        for (const char *at = text; *at && lines < LABEL_LINES_MAX; lines++) at = line_take(at, line_length(s), line);
        if (lines > s->label_lines) s->label_lines = lines;
    }
}

static void label_draw(const sheet *s, tool_rgb *rgb, uint32_t x, uint32_t y, uint32_t picture)
{
    static const tool_color dark = { { 32, 32, 32 } }, red = { { 192, 0, 0 } };
    const int failed = s->info.status[picture / s->views] < 0;
    const char *at = s->labels[picture];
    char line[512];
    for (uint32_t i = 0; *at && i < s->label_lines; i++, y += LINE_PX * s->scale) {
        at = line_take(at, line_length(s), line);
        tool_rgb_text(rgb, x, y, s->scale, failed ? red : dark, line);
    }
}

/* One picture of the batch, which is of uint8 in pixels of one or three channels. */
static void picture_draw(const sheet *s, tool_rgb *rgb, uint32_t x, uint32_t y, uint32_t picture)
{
    const uint32_t slot = picture / s->views, view = picture % s->views;
    const int64_t *shape = s->info.image.shape + s->info.image.dimensions - 4;
    const size_t channels = (size_t)shape[3], place = view * (size_t)shape[0] + slot;
    const uint8_t *in = (const uint8_t *)s->info.image.data + place * s->size * s->size * channels;
    for (uint32_t row = 0; row < s->size; row++)
        for (uint32_t column = 0; column < s->size; column++, in += channels) {
            tool_color color = { { in[0], in[channels / 2], in[channels - 1] } };
            tool_rgb_rectangle(rgb, x + column, y + row, 1, 1, color);
        }
}

static int sheet_write(sheet *s)
{
    static const tool_color white = { { 255, 255, 255 } };
    const uint32_t rows = (s->count + s->columns - 1) / s->columns;
    labels_make(s);
    const uint32_t cell = s->size + GAP_PX, height = cell + (s->label_lines * LINE_PX + 2) * s->scale;
    if ((uint64_t)s->columns * cell > 65000 || (uint64_t)rows * height > 65000)
        return tool_error("%s: not written: %" PRIu32 " pictures of %" PRIu32 " pixels are too many for one sheet",
                          s->options->out, s->count, s->size);
    tool_rgb rgb = tool_rgb_alloc(s->columns * cell + GAP_PX, rows * height + GAP_PX);
    tool_rgb_rectangle(&rgb, 0, 0, rgb.width, rgb.height, white);
    for (uint32_t i = 0; i < s->count; i++) {
        const uint32_t x = GAP_PX + i % s->columns * cell, y = GAP_PX + i / s->columns * height;
        picture_draw(s, &rgb, x, y, i);
        label_draw(s, &rgb, x, y + s->size + 3 * s->scale, i);
    }
    int result = tool_write_png(s->options->out, &rgb);
    free(rgb.pixels);
    return result;
}


/* ---- the command ---- */

static int sheet_make(sheet *s, bzna_loader *loader)
{
    bzna_error err = tool_empty_error();
    if (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &s->batch, &err) < 0) return tool_error("%s", err.message);
    s->info.struct_size = sizeof s->info;
    bzna_batch_get_info(s->batch, &s->info, sizeof s->info, NULL);
    s->count = s->info.count * s->views;
    s->columns = s->views;                                  /* a row a sample, or about as many columns as rows */
    while (s->views == 1 && s->columns * s->columns < s->count) s->columns++;
    s->labels = tool_checked(calloc(s->count, sizeof *s->labels));
    int result = sheet_write(s);
    for (uint32_t i = 0; i < s->count; i++) free(s->labels[i]);
    free(s->labels);
    bzna_batch_release(s->batch);
    if (result == EXIT_OK && s->info.failed)
        result = tool_error("%" PRIu32 " of %" PRIu32 " samples failed", s->info.failed, s->info.count);
    return result;
}

/* Pictures in memory of the host, of bytes, in R, G, B or gray: what a PNG has. */
static tool_options sheet_settings(const tool_options *o)
{
    tool_options settings = *o;
    settings.output = "host";
    settings.dtype = "u8";
    settings.layout = "NHWC";
    if (!strcmp(o->channels, "BGR")) settings.channels = "RGB";
    return settings;
}

int tool_run_sheet(const tool_options *o)
{
    archive a;
    bzna_loader *loader = NULL;
    sheet s = { .options = o, .data = &a, .size = (uint32_t)o->size, .views = (uint32_t)o->views };
    archive_loading loading = { .batches_in_flight = 1, .transform = drawing_note, .user = &s };
    tool_options settings = sheet_settings(o);
    uint64_t *indices = NULL;
    if (o->index >= 0 && o->indices) return tool_usage_error(o->command, "give --index or --indices");
    s.scale = o->size >= 160 ? 2 : 1;
    if (archive_open_with(&a, o)) return EXIT_INPUT;
    s.drawings = tool_checked(calloc((size_t)(o->batch * o->views), sizeof *s.drawings));
    if (o->index >= 0) {                                    /* an epoch of the one sample, each time drawn anew */
        indices = tool_checked(malloc((size_t)o->batch * sizeof *indices));
        for (int64_t i = 0; i < o->batch; i++) indices[i] = (uint64_t)o->index;
        loading.indices = indices;
        loading.index_count = (uint64_t)o->batch;
    }
    int result = archive_open_loader(&a, &settings, &loading, &loader);
    if (result == EXIT_OK) result = sheet_make(&s, loader);
    bzna_loader_close(loader);
    archive_close(&a);
    free(indices);
    free(s.drawings);
    return result;
}
