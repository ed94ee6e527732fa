/* erase.c - random erasing: a callback draws into decoded pictures before they are warped
 *
 *     cc -std=c11 erase.c benzina.o $(pkg-config --libs libavcodec libavutil libjpeg) -lm -lpthread -ldl -o erase
 *     ./erase train/ batch.ppm        16 pictures below each other, of each a rectangle of gray */
#include "../benzina.h"

#include <inttypes.h>
#include <stdio.h>

enum { COUNT = 16, EDGE = 160 };

typedef struct rectangle {
    uint32_t x, y, width, height;
} rectangle;

/* Up to half of the width and height, anywhere in the picture without its padding. */
static rectangle rectangle_draw(bzna_random *random, const bzna_picture *picture)
{
    rectangle r;
    r.width = (uint32_t)(picture->width * bzna_random_uniform(random, 0.1, 0.5));
    r.height = (uint32_t)(picture->height * bzna_random_uniform(random, 0.1, 0.5));
    r.x = picture->crop_x + (uint32_t)bzna_random_uniform(random, 0, picture->width - r.width);
    r.y = picture->crop_y + (uint32_t)bzna_random_uniform(random, 0, picture->height - r.height);
    return r;
}

/* Middle gray, in any range: half of the largest code, in Y', Cb and Cr as in G, B and R. Chroma has fewer samples. */
static bzna_status erase(void *user, const bzna_sample_info *sample, bzna_random *random, const bzna_picture *picture,
                         void *const planes[3])
{
    const rectangle r = rectangle_draw(random, picture);
    (void)user;
    (void)sample;
    for (int i = 0; i < 3 && planes[i]; i++) {
        const uint32_t shift_x = i ? picture->chroma_shift_x : 0, shift_y = i ? picture->chroma_shift_y : 0;
        for (uint32_t y = r.y >> shift_y; y < (r.y + r.height) >> shift_y; y++) {
            uint8_t *row = (uint8_t *)planes[i] + (int64_t)y * picture->pitch[i];
            for (uint32_t x = r.x >> shift_x; x < (r.x + r.width) >> shift_x; x++) {
                if (picture->depth == 8)
                    row[x] = 128;
                else
                    ((uint16_t *)(void *)row)[x] = (uint16_t)(1u << (picture->depth - 1));
            }
        }
    }
    return BZNA_OK;
}

static int write_ppm(const char *path, const bzna_batch_info *info)
{
    FILE *file = fopen(path, "wb");
    if (!file)
        return -1;
    fprintf(file, "P6\n%d %" PRIu32 "\n255\n", EDGE, EDGE * info->count);
    fwrite(info->image.data, 3 * EDGE * EDGE, info->count, file);
    return fclose(file);
}

int main(int argc, char **argv)
{
    bzna_context *context = NULL;
    bzna_dataset *dataset = NULL;
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_batch_info info;
    bzna_loader_config config;
    bzna_error err;
    bzna_status status;

    bzna_error_init(&err, sizeof err);
    bzna_loader_config_init(&config, sizeof config);
    config.output.batch_size = COUNT;
    config.output.width = config.output.height = EDGE;
    config.output.dtype = BZNA_DTYPE_UINT8;
    config.output.layout = BZNA_LAYOUT_NHWC;
    config.warp.kind = BZNA_WARP_CENTER_RESIZED_CROP;
    config.pipeline.picture = erase;

    if ((status = bzna_context_open(NULL, &context, &err)) == BZNA_OK &&
        (status = bzna_dataset_open(context, argc > 1 ? argv[1] : "train/", NULL, &dataset, &err)) == BZNA_OK &&
        (status = bzna_loader_open(context, dataset, &config, &loader, &err)) == BZNA_OK &&
        (status = bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err)) == BZNA_OK) {
        bzna_batch_get_info(batch, &info, sizeof info, &err);
        printf("%" PRIu32 " pictures, %" PRIu32 " of them failed\n", info.count, info.failed);
        if (argc > 2 && write_ppm(argv[2], &info) != 0) {
            fprintf(stderr, "%s: cannot be written\n", argv[2]);
            status = BZNA_E_IO;
        }
        bzna_batch_release(batch);
    } else {
        fprintf(stderr, "%s\n", err.message);
    }
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    return status != BZNA_OK;
}
