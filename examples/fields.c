/* fields.c - several data sets as one, and fields of batches besides pictures: labels and texts
 *
 *     cc -std=c11 fields.c benzina.o $(pkg-config --libs libavcodec libavutil libjpeg) -lm -lpthread -ldl -o fields
 *     ./fields cls txt shard-000.tar shard-001.tar       integers or vectors, then texts; "-" for none
 *     ./fields - name train/ more.tar extra.bzna */
#include "example.h"

#include <string.h>

/* One slot of a tensor of numbers: an integer, or a vector. */
static void print_number(const bzna_tensor *t, uint32_t slot)
{
    if (t->dtype == BZNA_DTYPE_INT64) {
        printf("%" PRId64, ((const int64_t *)t->data)[slot]);
        return;
    }
    const float *row = (const float *)t->data + slot * t->shape[1];
    for (int64_t i = 0; i < t->shape[1]; i++)
        printf("%s%g", i ? " " : "", (double)row[i]);
}

static void print_batch(const bzna_batch *batch, const char *tensor, const char *bytes, bzna_error *err)
{
    bzna_batch_info info;
    bzna_tensor     numbers;
    check(bzna_batch_get_info(batch, &info, sizeof info, err), err);
    if (tensor) check(bzna_batch_tensor(batch, tensor, &numbers, sizeof numbers, err), err);
    report_failed(batch, &info);
    for (uint32_t slot = 0; slot < info.count; slot++) {
        const void *text = NULL;
        uint64_t    size = 0;
        printf("%" PRIu64 ": target %" PRId64, info.indices[slot], info.targets[slot]);
        if (tensor) { printf(", %s ", tensor); print_number(&numbers, slot); }
        if (bytes) check(bzna_batch_bytes(batch, bytes, slot, &text, &size, err), err);
        if (text) printf(", %s \"%.*s\"", bytes, size > 60 ? 60 : (int)size, (const char *)text);
        puts(info.status[slot] < 0 ? " (failed)" : "");
    }
}

int main(int argc, char **argv)
{
    bzna_error    err;
    bzna_context *context = NULL;
    bzna_dataset *dataset = NULL;
    bzna_loader  *loader  = NULL;
    bzna_batch   *batch   = NULL;
    bzna_status   status;

    if (argc < 4) { fprintf(stderr, "usage: %s TENSOR BYTES DATA...\n", argv[0]); return 2; }
    const char *tensor = strcmp(argv[1], "-") ? argv[1] : NULL, *bytes = strcmp(argv[2], "-") ? argv[2] : NULL;

    bzna_error_init(&err, sizeof err);
    bzna_loader_config config;
    bzna_loader_config_init(&config, sizeof config);
    config.output.batch_size  = 8;
    config.output.width       = 224;                             /* 0 x 0: no pictures at all */
    config.output.height      = 224;
    config.order.kind         = BZNA_ORDER_SHUFFLE;              /* one shuffle over all of them */
    config.fields.tensors     = tensor;
    config.fields.bytes       = bytes;

    check(bzna_context_open(NULL, &context, &err), &err);
    check(bzna_dataset_open_list(context, (const char *const *)argv + 3, (uint32_t)argc - 3, NULL, &dataset, &err),
          &err);
    check(bzna_loader_open(context, dataset, &config, &loader, &err), &err);
    while ((status = bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err)) == BZNA_OK) {
        print_batch(batch, tensor, bytes, &err);
        bzna_batch_release(batch);
    }
    check(status, &err);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    return 0;
}
