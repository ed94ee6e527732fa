/* decode_batch.c - opens an archive, decodes one batch and writes its pictures as PPM files
 *
 *     cc -o decode_batch decode_batch.c benzina.o $(pkg-config --libs libavcodec libavutil libjpeg) -lm -lpthread -ldl
 *     ./decode_batch train.bzna folder */
#include "../benzina.h"

#include <inttypes.h>
#include <stdio.h>

/* Writes picture `slot` of a batch: three planes of floats, 0..255, red first. Returns 0, or -1. */
static int write_picture(const char *folder, const bzna_batch_info *info, uint32_t slot)
{
    size_t width = (size_t)info->image.shape[3], height = (size_t)info->image.shape[2], area = width * height;
    const float *planes = (const float *)info->image.data + slot * 3 * area;
    char path[4096];
    snprintf(path, sizeof path, "%s/%05" PRIu32 ".ppm", folder, slot);
    FILE *file = fopen(path, "wb");
    if (!file) { perror(path); return -1; }
    fprintf(file, "P6\n%zu %zu\n255\n", width, height);
    for (size_t i = 0; i < area; i++)
        for (size_t c = 0; c < 3; c++)
            putc((int)(planes[c * area + i] + 0.5f), file);
    int failed = ferror(file);
    if (fclose(file) || failed) { perror(path); return -1; }
    return 0;
}

int main(int argc, char **argv)
{
    bzna_error    err     = { .struct_size = sizeof err };
    bzna_context *context = NULL;
    bzna_dataset *dataset = NULL;
    bzna_loader  *loader  = NULL;
    bzna_batch   *batch   = NULL;
    bzna_status   status;
    int           failed  = 0;

    if (argc < 2 || argc > 3) { fprintf(stderr, "usage: %s DATA [FOLDER]\n", argv[0]); return 2; }
    const char *folder = argc > 2 ? argv[2] : ".";

    const bzna_loader_config config = {
        .struct_size = sizeof config,
        .output = {
            .batch_size = 16,
            .width      = 224,
            .height     = 224,
        },
        .warp = { .kind = BZNA_WARP_CENTER_RESIZED_CROP },
    };

    if ((status = bzna_context_open(NULL, &context, &err)) < 0 ||
        (status = bzna_dataset_open(context, argv[1], NULL, &dataset, &err)) < 0 ||
        (status = bzna_loader_open(context, dataset, &config, &loader, &err)) < 0 ||
        (status = bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err)) != BZNA_OK)
        goto done;

    bzna_batch_info info;
    if ((status = bzna_batch_get_info(batch, &info, sizeof info, &err)) < 0)
        goto done;
    if (info.failed)
        fprintf(stderr, "%" PRIu32 " of %" PRIu32 " samples failed\n", info.failed, info.count);
    for (uint32_t slot = 0; slot < info.count; slot++) {
        if (info.status[slot] < 0) {                             /* only this one: its neighbors are fine */
            bzna_batch_error(batch, slot, &err);
            fprintf(stderr, "%s\n", err.message);
            failed = 1;
        } else {
            failed |= write_picture(folder, &info, slot) < 0;
        }
    }
    printf("%" PRIu32 " pictures, first of class %" PRId64 "\n", info.count, info.targets[0]);

done:
    if (status < 0) fprintf(stderr, "%s\n", err.message);
    bzna_batch_release(batch);                                   /* closing and releasing NULL is fine */
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    return status < 0 || failed;
}
