/* own_codec.c - a folder of pictures in a format that the library does not know: JPEG XL, by formats/jxl.c
 *
 *     cc -std=c11 -I.. own_codec.c formats/jxl.c benzina.o \
 *        $(pkg-config --cflags --libs libjxl libavcodec libavutil libjpeg) -lm -lpthread -ldl -o own_codec
 *     ./own_codec train/ [EDGE]    the mean of R, G and B of each picture, scaled to EDGE pixels (default 64)
 *
 * Only the context knows the codec. Pictures of other kinds may be in the same folder. */
#include "example.h"
#include "formats/formats.h"

static void print_means(const bzna_batch_info *info, uint32_t edge)
{
    const size_t plane = (size_t)edge * edge;

    for (uint32_t i = 0; i < info->count; i++) {
        const float *const pixels = (const float *)info->image.data + i * 3 * plane;
        if (info->status[i] != BZNA_OK) {
            printf("%" PRIu64 " %s\n", info->indices[i], bzna_status_name(info->status[i]));
            continue;
        }
        printf("%" PRIu64, info->indices[i]);
        for (size_t c = 0; c < 3; c++) {
            double sum = 0;
            for (size_t k = 0; k < plane; k++)
                sum += (double)pixels[c * plane + k];
            printf(" %.2f", sum / (double)plane);
        }
        printf("\n");
    }
}

int main(int argc, char **argv)
{
    const uint32_t edge = argc > 2 ? (uint32_t)atoi(argv[2]) : 64;
    bzna_codec codec;
    bzna_context_config config = { .struct_size = sizeof config, .own_codecs = { .ptr = &codec, .count = 1 } };
    bzna_loader_config loading = { .struct_size = sizeof loading,
                                   .output = { .batch_size = 8, .width = edge, .height = edge },
                                   .warp = { .kind = BZNA_WARP_CENTER_RESIZED_CROP } };
    bzna_context *context = NULL;
    bzna_dataset *dataset = NULL;
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_batch_info info;
    bzna_error err = { .struct_size = sizeof err };
    bzna_status status;

    if (argc < 2) {
        fprintf(stderr, "usage: own_codec PATH [EDGE]\n");
        return 2;
    }

    bzna_formats_jxl(&codec);
    loading.order.last_batch = BZNA_LAST_PARTIAL;
    check(bzna_context_open(&config, &context, &err), &err);
    check(bzna_dataset_open(context, argv[1], NULL, &dataset, &err), &err);
    check(bzna_loader_open(context, dataset, &loading, &loader, &err), &err);
    while ((status = bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err)) == BZNA_OK) {
        check(bzna_batch_get_info(batch, &info, sizeof info, &err), &err);
        print_means(&info, edge);
        report_failed(batch, &info);
        bzna_batch_release(batch);
    }
    check(status, &err);

    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    return 0;
}
