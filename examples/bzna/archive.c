/* archive.c - opens contexts, data sets and loaders, and reads samples: most of what the tool needs of the library */
#include "tool.h"

#include <string.h>

bzna_status archive_open_context(bzna_device device, int64_t sessions, bzna_context **context, bzna_error *err)
{
    bzna_context_config config;
    bzna_context_config_init(&config, sizeof config);
    config.device = device;
    config.sessions = (uint32_t)sessions;
    return bzna_context_open(&config, context, err);
}

static int open_on_device(archive *a, const char *path, bzna_device device, int64_t sessions)
{
    bzna_error err = tool_empty_error();
    memset(a, 0, sizeof *a);
    if (archive_open_context(device, sessions, &a->context, &err) < 0 ||
        bzna_dataset_open(a->context, path, NULL, &a->dataset, &err) < 0) {
        bzna_context_close(a->context);
        return tool_error("%s", err.message);
    }
    a->count = bzna_dataset_count(a->dataset);
    return EXIT_OK;
}

int archive_open(archive *a, const char *path)
{
    const bzna_device cpu = { BZNA_DEVICE_CPU, 0 };
    return open_on_device(a, path, cpu, 0);
}

int archive_open_with(archive *a, const char *path, const tool_options *o)
{
    return open_on_device(a, path, o->device, o->sessions);
}

void archive_close(archive *a)
{
    bzna_dataset_close(a->dataset);
    bzna_context_close(a->context);
}

/* The library's constant for a word of an option; 0, which is its default, for any other word or none. */
typedef struct option_value {
    const char *word;
    uint32_t    value;
} option_value;

static uint32_t option_value_of(const char *word, const option_value *values)
{
    for (; word && values->word; values++)
        if (!strcmp(word, values->word)) return values->value;
    return 0;
}

static const option_value decoders[] = {
    { "auto", BZNA_DECODER_AUTO }, { "software", BZNA_DECODER_SOFTWARE }, { "nvdec", BZNA_DECODER_NVDEC }, { NULL, 0 },
};
static const option_value outputs[] = {
    { "auto", BZNA_DEVICE_AUTO }, { "host", BZNA_DEVICE_CPU }, { "device", BZNA_DEVICE_CUDA }, { NULL, 0 },
};
static const option_value warps[] = {
    { "none", BZNA_WARP_NONE }, { "random", BZNA_WARP_RANDOM_RESIZED_CROP },
    { "center", BZNA_WARP_CENTER_RESIZED_CROP }, { NULL, 0 },
};
static const option_value dtypes[] = {
    { "f32", BZNA_DTYPE_FLOAT32 }, { "f16", BZNA_DTYPE_FLOAT16 }, { NULL, 0 },
};

int archive_open_loader(const archive *a, const tool_options *o, const archive_loading *loading, bzna_loader **loader)
{
    bzna_error err = tool_empty_error();
    bzna_loader_config config;
    bzna_loader_config_init(&config, sizeof config);
    config.output.batch_size = (uint32_t)o->batch;
    config.output.width = config.output.height = (uint32_t)o->size;
    config.output.dtype = option_value_of(o->dtype, dtypes);
    config.order.kind = o->shuffle ? BZNA_ORDER_SHUFFLE : BZNA_ORDER_SEQUENTIAL;
    config.order.seed = (uint64_t)o->seed;
    config.order.epochs = loading->epochs;
    config.decode.threads = (uint32_t)o->threads;
    config.pipeline.batches_in_flight = loading->batches_in_flight;
    config.decode.decoder = option_value_of(o->decoder, decoders);
    config.warp.kind = option_value_of(o->warp, warps);
    config.warp.flip_h = o->flip;
    config.fields.image = o->track;
    config.output.device.kind = (int32_t)option_value_of(o->output, outputs);
    /* What software decodes stays on the host unless the device was asked for. */
    if (config.output.device.kind == BZNA_DEVICE_AUTO && config.decode.decoder == BZNA_DECODER_SOFTWARE)
        config.output.device.kind = BZNA_DEVICE_CPU;
    if (bzna_loader_open(a->context, a->dataset, &config, loader, &err) < 0) return tool_error("%s", err.message);
    return EXIT_OK;
}

bzna_status archive_filename(const archive *a, uint64_t index, tool_buffer *buffer, const char **name, bzna_error *err)
{
    size_t needed = 0;
    *name = NULL;
    tool_buffer_reserve(buffer, 256);
    bzna_status status = bzna_dataset_field(a->dataset, index, "name", buffer->data, buffer->size, &needed, err);
    if (status == BZNA_E_BUFFER) {
        tool_buffer_reserve(buffer, needed);
        status = bzna_dataset_field(a->dataset, index, "name", buffer->data, buffer->size, &needed, err);
    }
    if (status == BZNA_OK) *name = (const char *)buffer->data;
    return status == BZNA_E_NOT_FOUND ? BZNA_OK : status;
}

bzna_status archive_read_picture(const archive *a, uint64_t index, const char *track, tool_buffer *buffer,
                                 bzna_image *image, bzna_error *err)
{
    bzna_sample sample = { .struct_size = sizeof sample };
    bzna_status status = bzna_dataset_get_sample(a->dataset, index, &sample, sizeof sample, err);
    if (status < 0) return status;
    tool_buffer_reserve(buffer, sample.size);
    bzna_image_init(image, sizeof *image);
    return bzna_dataset_read_image(a->dataset, index, track, buffer->data, buffer->size, image, err);
}
