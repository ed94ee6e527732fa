/* views.c - several outputs of one decode: DINO's crops, and a picture with its mask
 *
 *     cc -std=c11 views.c benzina.o $(pkg-config --libs libavcodec libavutil libjpeg) -lm -lpthread -ldl -o views
 *     ./views train.bzna                      2 global views of 224, 8 local ones of 96
 *     ./views shard-000.tar seg.png           a picture of 224, and its mask by the same warp
 *     ./views seg.bzna masks                  the same from an archive, whose field is called masks */
#include "example.h"

/* Two views of each sample, and eight of a smaller part of it, each with random numbers of its own. */
static const bzna_warp local_warp = {
    .kind = BZNA_WARP_RANDOM_RESIZED_CROP,
    .scale = { 0.05, 0.4 },
    .flip_h = 0.5,
};
static const bzna_loader_output local_crops = {
    .name = "local",
    .views = 8,
    .width = 96,
    .height = 96,
    .warp = &local_warp,
};

/* The first output's warp, but no mean, no blending: class numbers stay what they are. 255 marks pixels outside. */
static const bzna_loader_filter mask_filter = { .kind = BZNA_FILTER_NEAREST };
static const bzna_loader_color  mask_color  = { .fill = { 255, 255, 255 } };

static bzna_loader_output mask_of(const char *field)
{
    bzna_loader_output mask = {
        .name = "mask",
        .field = field,
        .dtype = BZNA_DTYPE_UINT8,
        .channels = BZNA_CHANNELS_GRAY,
        .filter = &mask_filter,
        .color = &mask_color,
    };
    return mask;
}

static void print_shape(const bzna_tensor *t)
{
    printf("%s: [", t->name);
    for (uint32_t i = 0; i < t->dimensions; i++)
        printf("%s%" PRId64, i ? ", " : "", t->shape[i]);
    printf("], %" PRIu64 " bytes\n", t->bytes);
}

static void print_tensors(const bzna_batch *batch, const char *extra, bzna_error *err)
{
    bzna_batch_info info;
    bzna_tensor image, other;
    uint64_t pixels[256] = { 0 };
    check(bzna_batch_get_info(batch, &info, sizeof info, err), err);
    check(bzna_batch_tensor(batch, "image", &image, sizeof image, err), err);
    check(bzna_batch_tensor(batch, extra, &other, sizeof other, err), err);
    report_failed(batch, &info);
    print_shape(&image);                                         /* of several views [views, batch, 3, height, width] */
    print_shape(&other);
    if (other.dtype != BZNA_DTYPE_UINT8) return;
    for (uint64_t i = 0; i < other.bytes; i++)
        pixels[((const uint8_t *)other.data)[i]]++;
    for (int class = 0; class < 256; class++)
        if (pixels[class]) printf("class %d: %" PRIu64 " pixels\n", class, pixels[class]);
}

int main(int argc, char **argv)
{
    const int           masks   = argc > 2;
    bzna_error          err     = { .struct_size = sizeof err };
    bzna_context       *context = NULL;
    bzna_dataset       *dataset = NULL;
    bzna_loader        *loader  = NULL;
    bzna_batch         *batch   = NULL;

    /* Masks that have a palette are read as the numbers of their classes. */
    bzna_dataset_config data = {
        .struct_size = sizeof data,
        .palette = masks ? BZNA_PALETTE_INDEX : BZNA_PALETTE_COLORS,
    };
    bzna_loader_output extra = masks ? mask_of(argv[2]) : local_crops;
    bzna_loader_config config = {
        .struct_size = sizeof config,
        .output = {
            .batch_size = 4,
            .width = 224,
            .height = 224,
            .views = masks ? 1 : 2,
        },
        .extra_outputs = { .ptr = &extra, .count = 1 },
        .order = { .kind = BZNA_ORDER_SHUFFLE },
        .warp = {
            .kind = BZNA_WARP_RANDOM_RESIZED_CROP,
            .scale = { masks ? 0.08 : 0.4, 1 },
            .flip_h = 0.5,
        },
    };

    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: %s DATA [MASK]\n", argv[0]);
        return 2;
    }

    check(bzna_context_open(NULL, &context, &err), &err);
    check(bzna_dataset_open(context, argv[1], &data, &dataset, &err), &err);
    check(bzna_loader_open(context, dataset, &config, &loader, &err), &err);
    check(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err), &err);
    print_tensors(batch, extra.name, &err);
    bzna_batch_release(batch);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    return 0;
}
