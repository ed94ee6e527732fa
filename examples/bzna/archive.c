/* archive.c - opens contexts, data sets and loaders, and reads samples: most of what the tool needs of the library */
#include "tool.h"
#include "formats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bzna_status archive_open_context(bzna_device device, int64_t sessions, bzna_context **context, bzna_error *err)
{
    bzna_context_config config;
    bzna_context_config_init(&config, sizeof config);
    config.device = device;
    config.sessions = (uint32_t)sessions;
    config.own_codecs.ptr = bzna_formats_codecs(&config.own_codecs.count);
    return bzna_context_open(&config, context, err);
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

static const option_value orientations[] = {
    { "apply", BZNA_ORIENTATION_APPLY }, { "ignore", BZNA_ORIENTATION_IGNORE }, { NULL, 0 },
};
static const option_value palettes[] = {
    { "colors", BZNA_PALETTE_COLORS }, { "index", BZNA_PALETTE_INDEX }, { NULL, 0 },
};
static const option_value class_orders[] = {
    { "text", BZNA_CLASS_ORDER_TEXT }, { "numeric", BZNA_CLASS_ORDER_NUMERIC }, { NULL, 0 },
};

/* Names with commas between them. Both are freed by class_names_free. */
typedef struct class_names {
    char        *text;                /* NULL: there are none */
    const char **list;
    uint32_t     count;
} class_names;

static class_names class_names_split(const char *text)
{
    class_names names = { NULL, NULL, 0 };
    if (!text) return names;
    names.text = tool_format("%s", text);
    names.list = tool_checked(calloc(strlen(text) + 1, sizeof *names.list));
    for (char *at = names.text, *comma; at; at = comma) {
        comma = strchr(at, ',');
        if (comma) *comma++ = 0;
        names.list[names.count++] = at;
    }
    return names;
}

static void class_names_free(class_names *names)
{
    free(names->list);
    free(names->text);
}

/* NAME.lst next to NAME.rec, to be freed; NULL if there is none. */
static char *list_beside(const char *path)
{
    size_t length = strlen(path);
    if (length < 5 || strcmp(path + length - 4, ".rec")) return NULL;
    char *list = tool_format("%.*s.lst", (int)length - 4, path);
    if (tool_path_exists(list)) return list;
    free(list);
    return NULL;
}

/* Whether a file is a picture of the codecs in examples/formats. */
static int is_own_picture(const char *path)
{
    uint8_t head[512];
    FILE *file = fopen(path, "rb");
    size_t size = file ? fread(head, 1, sizeof head, file) : 0;
    if (file) fclose(file);
    return bzna_formats_recognize(head, size) != BZNA_CODEC_UNKNOWN;
}

/* A path, or an IDX file with its labels, as config says. */
static bzna_status open_source(archive *a, const char *path, bzna_dataset_config *config,
                               const bzna_formats_config *formats, const bzna_source *source, bzna_error *err)
{
    if (!source->read_at && streamed_is(path)) {
        if (!formats->list) return streamed_open(a, path, formats, err);
        snprintf(err->message, sizeof err->message, "--list: it has an effect on folders and RecordIO files only");
        return err->status = BZNA_E_ARGUMENT;
    }
    if (!source->read_at) {
        bzna_status opened = bzna_formats_open(a->context, path, formats, &a->dataset, err);
        a->is_picture = opened >= 0 && is_own_picture(path);
        return opened;
    }
    config->name = path;
    bzna_status status = bzna_formats_open_source(a->context, source, formats, &a->dataset, err);
    if (status < 0) source->close(source->user);
    return status;
}

static bzna_status open_dataset(archive *a, const tool_options *o, const char *list, bzna_error *err)
{
    bzna_dataset_config config;
    bzna_formats_config formats = { .struct_size = sizeof formats, .dataset = &config, .pairs = o->pairs,
                                    .list = list };
    records_idx idx = { .source = { .read_at = NULL } };
    class_names classes = class_names_split(o->classes);
    bzna_dataset_config_init(&config, sizeof config);
    config.format = o->format;
    config.split = o->split;
    config.classes = classes.list;
    config.class_count = classes.count;
    config.class_order = option_value_of(o->class_order, class_orders);
    config.allow_empty = o->allow_empty != 0;
    config.orientation = option_value_of(o->orientation, orientations);
    config.palette = option_value_of(o->palette, palettes);
    if (o->records && !records_parse(o->records, &idx.records)) formats.records = &idx.records;
    else if (!o->format && records_idx_find(o->operand[0], &idx)) formats.records = &idx.records;
    bzna_status status = open_source(a, o->operand[0], &config, &formats, &idx.source, err);
    class_names_free(&classes);
    return status;
}

/* Kind, fields and classes. */
void archive_describe(archive *a)
{
    bzna_dataset_info info = { .struct_size = sizeof info };
    char name[256];
    size_t needed;
    a->count = bzna_dataset_count(a->dataset);
    bzna_dataset_get_info(a->dataset, &info, sizeof info, NULL);
    snprintf(a->container, sizeof a->container, "%s", info.container);
    a->fields.list = tool_checked(calloc((size_t)info.field_count + 1, sizeof *a->fields.list));
    while (a->fields.count < info.field_count &&
           bzna_dataset_field_info(a->dataset, a->fields.count, &a->fields.list[a->fields.count],
                                       sizeof *a->fields.list, NULL) >= 0) a->fields.count++;
    while (bzna_dataset_class(a->dataset, (int64_t)a->classes.count, name, sizeof name, &needed, NULL) == BZNA_OK)
        tool_names_add(&a->classes, tool_format("%s", name));
}

bzna_status archive_try_open(archive *a, const tool_options *o, bzna_error *err)
{
    char *beside = o->list || o->pairs ? NULL : list_beside(o->operand[0]);
    bzna_status status = open_dataset(a, o, beside ? beside : o->list, err);
    if (status < 0 && beside) {
        bzna_error without = tool_empty_error();
        if (open_dataset(a, o, NULL, &without) == BZNA_OK) {
            fprintf(stderr, "bzna: note: %s is not used: %s\n", beside, err->message);
            status = BZNA_OK;
        }
    }
    free(beside);
    if (status == BZNA_OK) archive_describe(a);
    return status;
}

/* The option of the setting that the library's message names; NULL: it names none. */
static const char *records_hint(const bzna_error *err)
{
    if (strstr(err->message, "CIFAR-100:")) return "--records cifar100";
    if (strstr(err->message, "CIFAR-10:")) return "--records cifar10";
    return strstr(err->message, "formats_config.records") ? "that is --records" : NULL;
}

static int open_on_device(archive *a, const tool_options *o, bzna_device device, int64_t sessions, int has_loader)
{
    bzna_error err = tool_empty_error();
    memset(a, 0, sizeof *a);
    a->has_loader = has_loader;
    if (archive_open_context(device, sessions, &a->context, &err) < 0 || archive_try_open(a, o, &err) < 0) {
        bzna_context_close(a->context);
        tool_names_free(&a->memory);
        const char *path = o->operand[0], *dot = strrchr(path, '.'), *hint = records_hint(&err);
        if (hint) return tool_error("%s: %s", err.message, hint);
        if (err.status != BZNA_E_TRUNCATED || !dot || strcmp(dot, ".bzna")) return tool_gpu_error(err.message);
        return tool_error("%s; what is whole can be saved: bzna index %s -o NEW.bzna", err.message, path);
    }
    return EXIT_OK;
}

int archive_open(archive *a, const tool_options *o)
{
    const bzna_device cpu = { BZNA_DEVICE_CPU, 0 };
    return open_on_device(a, o, cpu, 0, 0);
}

int archive_open_with(archive *a, const tool_options *o)
{
    return open_on_device(a, o, o->device, o->sessions, 1);
}

void archive_close(archive *a)
{
    bzna_dataset_close(a->dataset);
    bzna_context_close(a->context);
    free(a->fields.list);
    tool_names_free(&a->classes);
    for (size_t i = 0; i < LENGTH(a->split_offsets); i++) free(a->split_offsets[i]);
    tool_names_free(&a->memory);
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
static const option_value crops[] = {
    { "auto", BZNA_CROPS_AUTO }, { "benzina", BZNA_CROPS_BENZINA }, { "torchvision", BZNA_CROPS_TORCHVISION },
    { NULL, 0 },
};
static const option_value filters[] = {
    { "nearest", BZNA_FILTER_NEAREST }, { "linear", BZNA_FILTER_LINEAR }, { "cubic", BZNA_FILTER_CUBIC },
    { "lanczos", BZNA_FILTER_LANCZOS3 }, { "area", BZNA_FILTER_AREA }, { "cubic-0.75", BZNA_FILTER_CUBIC_075 },
    { "lanczos4", BZNA_FILTER_LANCZOS4 }, { NULL, 0 },
};
static const option_value dtypes[] = {
    { "f32", BZNA_DTYPE_FLOAT32 },  { "float32", BZNA_DTYPE_FLOAT32 },
    { "f16", BZNA_DTYPE_FLOAT16 },  { "float16", BZNA_DTYPE_FLOAT16 },
    { "bf16", BZNA_DTYPE_BFLOAT16 }, { "bfloat16", BZNA_DTYPE_BFLOAT16 },
    { "u8", BZNA_DTYPE_UINT8 },     { "uint8", BZNA_DTYPE_UINT8 }, { NULL, 0 },
};
static const option_value presets[] = {
    { "none", 0 }, { "rand", BZNA_PRESET_RAND_AUGMENT + 1 }, { "trivial", BZNA_PRESET_TRIVIAL_WIDE + 1 },
    { "auto", BZNA_PRESET_AUTO_IMAGENET + 1 }, { NULL, 0 },
};
static const option_value layouts[] = {
    { "NCHW", BZNA_LAYOUT_NCHW }, { "NHWC", BZNA_LAYOUT_NHWC }, { NULL, 0 },
};
static const option_value channels[] = {
    { "RGB", BZNA_CHANNELS_RGB }, { "BGR", BZNA_CHANNELS_BGR }, { "gray", BZNA_CHANNELS_GRAY },
    { "grey", BZNA_CHANNELS_GRAY }, { NULL, 0 },
};

/* A factor of 1 - most to 1 + most, not below 0; none for 0. */
static void factor_range(double most, float range[2])
{
    range[0] = most > 0 && most < 1 ? (float)(1 - most) : 0;
    range[1] = most > 0 ? (float)(1 + most) : 0;
}

static void set_augmentation(const tool_options *o, bzna_warp *warp, bzna_jitter *jitter)
{
    bzna_mxnet *mxnet = &warp->mxnet;
    warp->flip_h = o->flip;
    warp->rotate[0] = -o->rotate;
    warp->rotate[1] = o->rotate;
    warp->shear[0] = -o->shear;
    warp->shear[1] = o->shear;
    warp->perspective = o->perspective;
    factor_range(o->brightness, jitter->brightness);
    factor_range(o->contrast, jitter->contrast);
    factor_range(o->saturation, jitter->saturation);
    jitter->hue[0] = (float)-o->hue;
    jitter->hue[1] = (float)o->hue;
    jitter->grayscale = (float)o->grayscale;
    for (int i = 0; i < 3; i++) mxnet->hls[i] = (float)o->hls[i];
    mxnet->contrast = (float)o->max_contrast;
    mxnet->illumination = (float)o->max_illumination;
}

/* The policies of --augment and --erase. bzna_loader_open copies them. */
static void set_policies(const tool_options *o, bzna_loader_augment *augment)
{
    static const bzna_operation erase = { .kind = BZNA_OP_ERASE, .magnitude = { 0.02f, 0.33f } };
    static bzna_policy policies[2];
    const uint32_t preset = option_value_of(o->augment, presets);       /* and 1; 0: none */
    augment->policies = policies;
    if (preset)
        bzna_formats_policy_preset(preset - 1, 0, preset == BZNA_PRESET_RAND_AUGMENT + 1 ? 9 : 0,
                           &policies[augment->policy_count++], NULL);
    if (o->erase > 0)
        policies[augment->policy_count++] = (bzna_policy){ .operations = &erase, .operation_count = 1,
                                                           .probability = (float)o->erase };
    if (!augment->policy_count) augment->policies = NULL;
}

int archive_read_indices(const archive *a, const char *path, uint64_t **indices, uint64_t *count)
{
    FILE *in = strcmp(path, "-") ? fopen(path, "r") : stdin;
    uint64_t index, room = 0;
    int result = EXIT_OK, got = 0;
    *indices = NULL;
    *count = 0;
    if (!in) return tool_error("%s: cannot be opened: %s", path, strerror(errno));
    while (result == EXIT_OK && (got = fscanf(in, "%" SCNu64, &index)) == 1) {
        if (*count == room) *indices = tool_checked(realloc(*indices, (size_t)(room = 2 * room + 64) * sizeof index));
        (*indices)[(*count)++] = index;
        if (index >= a->count)
            result = tool_error("%s: there is no sample %" PRIu64 ": there are %" PRIu64, path, index, a->count);
    }
    if (result == EXIT_OK && (got != EOF || !*count))
        result = tool_error("%s: must hold numbers of samples, from 0", path);
    if (in != stdin) fclose(in);
    return result;
}

void archive_loader_config(const tool_options *o, const archive_loading *loading, bzna_loader_config *config)
{
    bzna_loader_config_init(config, sizeof *config);
    config->output.batch_size = (uint32_t)o->batch;
    config->output.width = config->output.height = (uint32_t)o->size;
    config->output.dtype = option_value_of(o->dtype, dtypes);
    config->output.layout = option_value_of(o->layout, layouts);
    config->output.channels = option_value_of(o->channels, channels);
    config->output.views = (uint32_t)o->views;
    config->order.kind = o->shuffle ? BZNA_ORDER_SHUFFLE : BZNA_ORDER_SEQUENTIAL;
    config->order.seed = (uint64_t)o->seed;
    config->order.epochs = loading->epochs;
    config->order.indices = loading->indices;
    config->order.index_count = loading->index_count;
    config->pipeline.transform = loading->transform;
    config->pipeline.transform_user = loading->user;
    config->decode.threads = (uint32_t)o->threads;
    config->pipeline.batches_in_flight = loading->batches_in_flight;
    config->decode.decoder = option_value_of(o->decoder, decoders);
    config->decode.jpeg = option_value_of(o->jpeg_decoder, decoders);
    config->warp.kind = option_value_of(o->warp, warps);
    config->warp.crops = option_value_of(o->crops, crops);
    set_augmentation(o, &config->warp, &config->color.jitter);
    set_policies(o, &config->augment);
    config->filter.kind = option_value_of(o->filter, filters);
    config->filter.antialias = o->antialias < 0 ? BZNA_ANTIALIAS_OFF : BZNA_ANTIALIAS_AUTO;
    config->decode.jpeg_shrink = o->jpeg_shrink != 0;
    config->decode.hybrid = o->hybrid != 0;
    if (o->jpeg_shrink || o->jpeg_shrink_margin > 1) config->decode.jpeg_shrink_margin = (float)o->jpeg_shrink_margin;
    config->pipeline.no_threads = o->no_threads != 0;
    config->fields.image = o->track;
    config->output.device.kind = (int32_t)option_value_of(o->output, outputs);
}

void archive_choose_device(bzna_context *context, bzna_loader_config *config)
{
    bzna_device_info info;
    if (config->output.device.kind == BZNA_DEVICE_AUTO && config->decode.decoder != BZNA_DECODER_SOFTWARE &&
        bzna_context_device_info(context, &info, sizeof info, NULL) == BZNA_OK)
        config->output.device.kind = BZNA_DEVICE_CUDA;
}

int archive_open_loader(const archive *a, const tool_options *o, const archive_loading *loading, bzna_loader **loader)
{
    bzna_error err = tool_empty_error();
    bzna_loader_config config;
    uint64_t *indices = NULL;
    int result = EXIT_OK;
    archive_loader_config(o, loading, &config);
    archive_choose_device(a->context, &config);
    if (o->indices) {
        result = archive_read_indices(a, o->indices, &indices, &config.order.index_count);
        config.order.indices = indices;
    }
    if (result == EXIT_OK && bzna_loader_open(a->context, a->dataset, &config, loader, &err) < 0)
        result = tool_gpu_error(err.message);
    free(indices);
    return result;
}

bzna_status archive_filename(const archive *a, uint64_t index, tool_buffer *buffer, const char **name, bzna_error *err)
{
    const bzna_field_info field = { .kind = BZNA_FIELD_TEXT, .name = "name" };
    archive_value value;
    bzna_status status = archive_value_read(a, index, &field, buffer, &value, err);
    *name = status == BZNA_OK ? (const char *)value.data : NULL;
    return status == BZNA_E_NOT_FOUND ? BZNA_OK : status;
}

int archive_find_sample(const archive *a, const char *argument, uint64_t *index)
{
    tool_buffer buffer = { NULL, 0 };
    const char *name;
    char *end;
    uint64_t found = 0;
    errno = 0;
    *index = strtoull(argument, &end, 10);
    if (end != argument && !*end && !errno && argument[0] != '-') return EXIT_OK;
    for (uint64_t i = 0; i < a->count; i++) {
        if (archive_filename(a, i, &buffer, &name, NULL) < 0 || !name) continue;
        const char *slash = strrchr(name, '/');
        if (strcmp(name, argument) && (!slash || strcmp(slash + 1, argument))) continue;
        if (found++ == 0) *index = i;
        else if (found == 2)
            tool_error("\"%s\": samples %" PRIu64 " and %" PRIu64 " have that name: give an index", argument, *index,
                       i);
    }
    free(buffer.data);
    if (!found) tool_error("\"%s\": neither an index, a number from 0, nor the name of a sample", argument);
    return found == 1 ? EXIT_OK : EXIT_INPUT;
}

const char *archive_default_track(const bzna_sample_ref *sample)
{
    for (uint32_t i = 0; i < sample->image_count && i < BZNA_IMAGES_MAX; i++)
        if (!strcmp(sample->image_names[i], "bzna_input")) return sample->image_names[i];
    return sample->image_count ? sample->image_names[0] : "image";
}

bzna_status archive_read_picture(const archive *a, uint64_t index, const char *track, tool_buffer *buffer,
                                 bzna_image *image, bzna_error *err)
{
    bzna_sample_ref sample = { .struct_size = sizeof sample };
    bzna_status status = bzna_dataset_sample(a->dataset, index, &sample, sizeof sample, err);
    if (status < 0) return status;
    /* the second time there is room for what a codec copies to unwrap it */
    for (uint64_t size = sample.size;; size = 2 * sample.size + 65536) {
        tool_buffer_reserve(buffer, size);
        bzna_image_init(image, sizeof *image);
        status = bzna_dataset_read_image(a->dataset, index, track, buffer->data, buffer->size, image, err);
        if (status != BZNA_E_BUFFER || size != sample.size) return status;
    }
}

archive_codec_text archive_codec(const bzna_image_info *info)
{
    archive_codec_text result;
    snprintf(result.text, sizeof result.text, "%s", info->fourcc                     ? tool_fourcc(info->fourcc).text
                                                    : info->codec == BZNA_CODEC_RAW ? "raw" : "unknown");
    for (char *end = result.text + strlen(result.text); end > result.text && end[-1] == ' '; end--) end[-1] = 0;
    return result;
}

int archive_is_heif(const bzna_image_info *info) { return !strcmp(archive_codec(info).text, "heif"); }

int archive_is_file(uint32_t codec)
{
    return codec == BZNA_CODEC_JPEG || codec == BZNA_CODEC_STILL || codec >= BZNA_CODEC_OWN;
}

bzna_status archive_read_file(const archive *a, uint64_t index, const char *track, tool_buffer *buffer,
                              bzna_image *image, bzna_error *err)
{
    bzna_image_info info;
    bzna_field_info field = { .struct_size = sizeof field, .kind = BZNA_FIELD_IMAGE };
    archive_value file;
    bzna_status status = bzna_dataset_image_info(a->dataset, index, track, &info, sizeof info, err);
    if (status < 0) return status;
    if (!archive_is_heif(&info)) return archive_read_picture(a, index, track, buffer, image, err);

    snprintf(field.name, sizeof field.name, "%s", track);
    if ((status = archive_value_read(a, index, &field, buffer, &file, err)) < 0) return status;
    bzna_image_init(image, sizeof *image);
    image->codec = bzna_formats_recognize(file.data, file.size);
    image->data = file.data;
    image->data_size = file.size;
    return BZNA_OK;
}

/* The next start code (00) 00 00 01 at or after data + from, or size. */
static size_t start_code(const uint8_t *data, size_t size, size_t from)
{
    if (from + 3 > size) return size;
    const uint8_t *one = data + from + 1;
    while ((one = memchr(one + 1, 1, (size_t)(data + size - one - 1)))) {
        size_t at = (size_t)(one - data) - 2;
        if (!data[at] && !data[at + 1]) return at > from && !data[at - 1] ? at - 1 : at;
    }
    return size;
}

size_t archive_drop_sei(uint8_t *data, size_t size, uint32_t codec)
{
    int h265 = codec == BZNA_CODEC_H265;
    size_t kept = 0;
    if (!h265 && codec != BZNA_CODEC_H264) return size;
    for (size_t at = start_code(data, size, 0); at < size;) {
        size_t next = start_code(data, size, at + 4), header_at = at + (data[at + 2] == 1 ? 3 : 4);
        uint8_t header = header_at < size ? data[header_at] : 0;
        int type = h265 ? header >> 1 & 63 : header & 31;
        if (h265 ? type != 39 && type != 40 : type != 6) {
            memmove(data + kept, data + at, next - at);
            kept += next - at;
        }
        at = next;
    }
    return kept;
}
