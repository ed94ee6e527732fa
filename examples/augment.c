/* augment.c - RandAugment and random erasing: a recipe of vision transformers, and the operations that it drew
 *
 *     cc -std=c11 -I.. -Iformats augment.c formats/policies.c formats/data.c benzina.o \
 *        $(pkg-config --libs libavcodec libavutil libjpeg) -lm -lpthread -ldl -o augment
 *     ./augment train/ sheet.ppm
 *
 * The first batch of a folder of pictures is written as a sheet, two views a picture, and for each view a line lists
 * the drawn operations. A policy is a list of operations: bzna_formats_policy_preset fills one in, and a program writes
 * others itself, such as erasing here, or a blur for half of the views. */
#include "example.h"
#include "formats.h"

#include <string.h>

enum { SIZE = 224, BATCH = 8, VIEWS = 2 };

static const char *name_of(uint32_t kind)
{
    static const struct { uint32_t kind; const char *name; } names[] = {
        { BZNA_OP_IDENTITY, "nothing" }, { BZNA_OP_SHEAR_X, "shear x" }, { BZNA_OP_SHEAR_Y, "shear y" },
        { BZNA_OP_TRANSLATE_X, "translate x" }, { BZNA_OP_TRANSLATE_Y, "translate y" }, { BZNA_OP_ROTATE, "rotate" },
        { BZNA_OP_BRIGHTNESS, "brightness" }, { BZNA_OP_SATURATION, "color" }, { BZNA_OP_CONTRAST, "contrast" },
        { BZNA_OP_SHARPNESS, "sharpness" }, { BZNA_OP_POSTERIZE, "posterize" }, { BZNA_OP_SOLARIZE, "solarize" },
        { BZNA_OP_AUTOCONTRAST, "autocontrast" }, { BZNA_OP_EQUALIZE, "equalize" }, { BZNA_OP_BLUR, "blur" },
        { BZNA_OP_ERASE, "erase" },
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].kind == kind) return names[i].name;
    return "?";
}

/* One line a view: the sample, and what was drawn, in order. */
static void print_drawn(const bzna_batch_info *info)
{
    for (uint32_t slot = 0; slot < info->count; slot++)
        for (uint32_t view = 0; view < info->operation_views; view++) {
            const size_t at = (size_t)slot * info->operation_views + view;
            printf("#%" PRIu64 " view %" PRIu32 ":", info->indices[slot], view);
            for (uint32_t i = 0; i < info->operation_counts[at]; i++) {
                const bzna_drawn *d = &info->operations[at * BZNA_OPERATIONS_MAX + i];
                printf("%s %s %.3g", i ? "," : "", name_of(d->kind), d->magnitude);
                if (d->kind == BZNA_OP_ERASE)
                    printf(" at %d,%d to %d,%d", d->area[0], d->area[1], d->area[2], d->area[3]);
            }
            printf("\n");
        }
}

/* Rows of pictures, of which each has its views beside each other. */
static void write_sheet(const char *path, const bzna_batch_info *info)
{
    static uint8_t sheet[BATCH * SIZE][VIEWS][3 * SIZE];
    const uint8_t *pixels = info->image.data;
    for (uint32_t slot = 0; slot < info->count; slot++)
        for (uint32_t y = 0; y < SIZE; y++)
            for (uint32_t view = 0; view < VIEWS; view++)
                memcpy(sheet[slot * SIZE + y][view], pixels + (((size_t)view * BATCH + slot) * SIZE + y) * SIZE * 3,
                       3 * SIZE);
    write_ppm(path, sheet, SIZE * VIEWS, (int64_t)SIZE * info->count);
}

int main(int argc, char **argv)
{
    const bzna_operation blur = { .kind = BZNA_OP_BLUR, .magnitude = { 0.1f, 2 }, .probability = 0.5f };
    const bzna_operation erase = { .kind = BZNA_OP_ERASE, .magnitude = { 0.02f, 0.33f }, .probability = 0.25f };
    bzna_policy policies[3] = { { 0 }, { .operations = &blur, .operation_count = 1 },
                                { .operations = &erase, .operation_count = 1 } };
    bzna_loader_config config = {
        .struct_size = sizeof config,
        .output = { .batch_size = BATCH, .width = SIZE, .height = SIZE, .views = VIEWS, .dtype = BZNA_DTYPE_UINT8,
                    .layout = BZNA_LAYOUT_NHWC },
        .order = { .kind = BZNA_ORDER_SHUFFLE, .seed = 7 },
        .warp = { .kind = BZNA_WARP_RANDOM_RESIZED_CROP, .flip_h = 0.5 },
        .color = { .fill = { 128, 128, 128 } },
        .augment = { .policies = policies, .policy_count = 3 },
    };
    bzna_context *context = NULL;
    bzna_dataset *dataset = NULL;
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_error err = { 0 };
    bzna_batch_info info;

    if (argc != 3) {
        fprintf(stderr, "usage: augment FOLDER SHEET.ppm\n");
        return 2;
    }

    check(bzna_formats_policy_preset(BZNA_PRESET_RAND_AUGMENT, 2, 9, &policies[0], &err), &err);
    check(bzna_context_open(NULL, &context, &err), &err);
    check(bzna_dataset_open(context, argv[1], NULL, &dataset, &err), &err);
    check(bzna_loader_open(context, dataset, &config, &loader, &err), &err);
    check(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err), &err);
    check(bzna_batch_get_info(batch, &info, sizeof info, &err), &err);
    report_failed(batch, &info);
    print_drawn(&info);
    write_sheet(argv[2], &info);
    bzna_batch_release(batch);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    return 0;
}
