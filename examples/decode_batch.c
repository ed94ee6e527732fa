/* decode_batch.c - loads one batch and writes its pictures as PPM files
 *
 *     cc decode_batch.c benzina.o $(pkg-config --libs libavcodec libavutil libjpeg) -lm -lpthread -ldl -o decode_batch
 *     ./decode_batch train/ [FOLDER] */
#include "example.h"

int main(int argc, char **argv)
{
    bzna_error err = { .struct_size = sizeof err };
    bzna_context *context = NULL;
    bzna_dataset *dataset = NULL;
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_batch_info info;
    const bzna_loader_config config = { .struct_size = sizeof config, .output = { .batch_size = 16, .width = 224,
        .height = 224, .dtype = BZNA_DTYPE_UINT8, .layout = BZNA_LAYOUT_NHWC } };
    if (argc < 2) return fprintf(stderr, "usage: %s DATA [FOLDER]\n", argv[0]), 2;
    check(bzna_context_open(NULL, &context, &err), &err);
    check(bzna_dataset_open(context, argv[1], NULL, &dataset, &err), &err);
    check(bzna_loader_open(context, dataset, &config, &loader, &err), &err);
    check(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err), &err);
    check(bzna_batch_get_info(batch, &info, sizeof info, &err), &err);
    for (uint32_t slot = 0; slot < info.count; slot++)
        if (info.status[slot] == BZNA_OK) write_slot(argc > 2 ? argv[2] : ".", &info, slot);
    printf("%u pictures, first of class %" PRId64 "\n", info.count, info.targets[0]);
    const uint32_t failed = report_failed(batch, &info);
    bzna_batch_release(batch);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    return failed > 0;
}
