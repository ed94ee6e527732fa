/* views.c - several outputs of one decode: DINO's crops, and a picture with its mask
 *
 *     cc -std=c11 views.c benzina.o $(pkg-config --libs libavcodec libavutil) -lm -lpthread -ldl -o views
 *     ./views train.bzna                      2 global views of 224, 8 local ones of 96
 *     ./views "shard-{000..003}.tar" seg.png  a picture of 224, and its mask by the same warp */
#include "../benzina.h"

#include <inttypes.h>
#include <stdio.h>

/* Two views of each sample, and eight of a smaller part of it, each with random numbers of its own. */
static void crops(bzna_loader_config *config, bzna_extra_output *local)
{
    config->output.views = 2;
    config->warp.scale[0] = 0.4;
    config->warp.scale[1] = 1;
    local->name = "local";
    local->views = 8;
    local->width = local->height = 96;
    local->own_warp = 1;
    local->warp.kind = BZNA_WARP_RANDOM_RESIZED_CROP;
    local->warp.scale[0] = 0.05;
    local->warp.scale[1] = 0.4;
    local->warp.flip_h = 0.5;
}

/* The first output's warp, but no mean, no blending: class numbers stay what they are. 255 is outside. */
static void mask(bzna_extra_output *output, const char *field)
{
    output->name = "mask";
    output->field = field;
    output->dtype = BZNA_DTYPE_UINT8;
    output->channels = BZNA_CHANNELS_GRAY;
    output->own_filter = 1;
    output->filter.kind = BZNA_FILTER_NEAREST;
    output->own_color = 1;
    output->color.fill[0] = output->color.fill[1] = output->color.fill[2] = 255;
}

static void print_shape(const bzna_tensor *t)
{
    printf("%s: [", t->name);
    for (uint32_t i = 0; i < t->dimensions; i++)
        printf("%s%" PRId64, i ? ", " : "", t->shape[i]);
    printf("], %" PRIu64 " bytes\n", t->bytes);
}

static bzna_status print_tensors(const bzna_batch *batch, const char *extra, bzna_error *err)
{
    bzna_tensor image, other;
    bzna_status status;
    if ((status = bzna_batch_tensor(batch, "image", &image, sizeof image, err)) < 0 ||
        (status = bzna_batch_tensor(batch, extra, &other, sizeof other, err)) < 0)
        return status;
    print_shape(&image);                                         /* of several views [views, batch, 3, height, width] */
    print_shape(&other);
    if (other.dtype == BZNA_DTYPE_UINT8) {
        uint64_t pixels[256] = { 0 };
        for (uint64_t i = 0; i < other.bytes; i++)
            pixels[((const uint8_t *)other.data)[i]]++;
        for (int class = 0; class < 256; class++)
            if (pixels[class]) printf("class %d: %" PRIu64 " pixels\n", class, pixels[class]);
    }
    return BZNA_OK;
}

int main(int argc, char **argv)
{
    bzna_error          err;
    bzna_context       *context = NULL;
    bzna_dataset       *dataset = NULL;
    bzna_loader        *loader  = NULL;
    bzna_batch         *batch   = NULL;
    bzna_status         status;
    bzna_loader_config  config;
    bzna_dataset_config data;
    bzna_extra_output   extra;

    if (argc < 2 || argc > 3) { fprintf(stderr, "usage: %s DATA [MASK]\n", argv[0]); return 2; }
    bzna_error_init(&err, sizeof err);
    bzna_dataset_config_init(&data, sizeof data);
    if (argc > 2)
        data.palette = BZNA_PALETTE_INDEX;                       /* masks with a palette: their class numbers */
    bzna_extra_output_init(&extra, sizeof extra);
    bzna_loader_config_init(&config, sizeof config);
    config.output.batch_size  = 4;
    config.output.width       = 224;
    config.output.height      = 224;
    config.output.device.kind = BZNA_DEVICE_CPU;
    config.order.kind         = BZNA_ORDER_SHUFFLE;
    config.warp.kind          = BZNA_WARP_RANDOM_RESIZED_CROP;
    config.warp.flip_h        = 0.5;
    config.outputs.ptr        = &extra;
    config.outputs.count      = 1;
    if (argc > 2) mask(&extra, argv[2]);
    else          crops(&config, &extra);

    if ((status = bzna_context_open(NULL, &context, &err)) >= 0 &&
        (status = bzna_dataset_open(context, argv[1], &data, &dataset, &err)) >= 0 &&
        (status = bzna_loader_open(context, dataset, &config, &loader, &err)) >= 0 &&
        (status = bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err)) == BZNA_OK)
        status = print_tensors(batch, extra.name, &err);
    if (status < 0) fprintf(stderr, "%s\n", err.message);
    bzna_batch_release(batch);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    return status < 0;
}
