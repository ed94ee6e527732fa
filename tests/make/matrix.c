/* matrix.c - opens every kind of data set in one build of the library, and says what each came to. What a build lacks
 * must fail where it is needed, with BZNA_E_UNSUPPORTED and a message that names the switch, unless it is a function: a
 * build has none of those that it lacks. All else must load.
 *
 *     matrix DIR write    makes the files of the cases that tests/data does not have. Needs a writer
 *     matrix DIR          prints a line for each case that loaded: its name, and a checksum of its pixels
 *
 * The program is compiled with the switches of the library that it is linked to, or with a header that defines them.
 * Exit status 1: a case has come to something else than its needs say. tests/make/test_matrix.sh runs it. */
#include "benzina.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- What a build has -------------------------------------------------------------------------------------------- */

enum { AVCODEC = 1, JPEG = 2, WRITER = 4, SHARDS = 8, STILLS = 16, FOLDERS = 32, PROVIDERS = 64,
       AUGMENT = 128, NAMES = 8 };

static const char *const names[NAMES] = { "AVCODEC", "JPEG", "WRITER", "SHARDS", "STILLS", "FOLDERS", "PROVIDERS",
                                          "AUGMENT" };

static const unsigned missing = 0
#ifdef BENZINA_NO_AVCODEC
    | AVCODEC
#endif
#ifdef BENZINA_NO_JPEG
    | JPEG
#endif
#ifdef BENZINA_NO_WRITER
    | WRITER
#endif
#ifdef BENZINA_NO_SHARDS
    | SHARDS
#endif
#ifdef BENZINA_NO_STILLS
    | STILLS
#endif
#ifdef BENZINA_NO_FOLDERS
    | FOLDERS
#endif
#ifdef BENZINA_NO_PROVIDERS
    | PROVIDERS
#endif
#ifdef BENZINA_NO_AUGMENT
    | AUGMENT
#endif
    ;

static int wrong;
static const char *current;           /* the case that runs */
static bzna_context *context;

/* A call of a case has ended so. Returns 1 if the case goes on. */
static int goes_on(const char *where, bzna_status status, const bzna_error *err, unsigned needs)
{
    const unsigned lacks = needs & missing;
    char name[32];
    int named = 0;

    for (int i = 0; i < NAMES; i++) {
        snprintf(name, sizeof name, "BENZINA_NO_%s", names[i]);
        named |= (lacks >> i & 1) && strstr(err->message, name);
    }
    if (!lacks ? status >= 0 : status == BZNA_E_UNSUPPORTED && named)
        return !lacks;
    wrong++;
    printf("WRONG %s, %s: %s%s%s%s\n", current, where, status < 0 ? bzna_status_name(status) : "it succeeds",
           status < 0 ? ", \"" : "", status < 0 ? err->message : "", status < 0 ? "\"" : "");
    return 0;
}

/* ---- Data sets --------------------------------------------------------------------------------------------------- */

enum { EDGE = 16, SAMPLES = 2, RAW_BYTES = 3 * EDGE * EDGE };

static uint8_t raw[SAMPLES][RAW_BYTES];
static uint8_t *file_bytes[2];        /* a JPEG and a PNG, for providers */
static uint64_t file_sizes[2];
static uint8_t units[SAMPLES][1 << 17];                     /* pictures of H.265 in Annex B, for a provider */
static size_t unit_sizes[SAMPLES];

static uint8_t *slurp(const char *path, uint64_t *size)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = malloc(1 << 20);

    if (!file || !bytes) {
        printf("WRONG cannot read %s\n", path);
        exit(1);
    }
    *size = fread(bytes, 1, 1 << 20, file);
    fclose(file);
    return bytes;
}

enum { BY_PATH, BY_LIST, BY_RAW, BY_FILES, BY_H265 };

typedef struct one_case {
    const char *name;
    const char *path;                 /* with %s: in the folder of files that were written */
    const char *field;                /* of the pictures; NULL: the default */
    unsigned    opens_by;             /* BY_... */
    unsigned    dataset;              /* what opening needs */
    unsigned    loader;               /* what a loader of it needs, because all samples do */
    unsigned    sample[SAMPLES];      /* what each of the first two samples needs */
} one_case;

static const one_case cases[] = {
    { "archive_of_h264", "tests/data/mini_h264.bzna", NULL, BY_PATH, 0, 0, { AVCODEC, AVCODEC } },
    { "archive_of_h265", "tests/data/mini_h265.bzna", NULL, BY_PATH, 0, 0, { AVCODEC, AVCODEC } },
    { "archive_of_jpeg", "%s/jpeg.bzna", NULL, BY_PATH, 0, 0, { JPEG, JPEG } },
    { "field_of_an_archive", "%s/jpeg.bzna", "mask", BY_PATH, 0, 0, { AVCODEC | STILLS, AVCODEC | STILLS } },
    { "video_of_h264", "tests/data/seeds/h264.mp4", NULL, BY_PATH, 0, AVCODEC, { 0, 0 } },
    { "video_of_h265", "tests/data/seeds/h265.mp4", NULL, BY_PATH, 0, AVCODEC, { 0, 0 } },
    { "video_of_av1", "tests/data/seeds/av1.mp4", NULL, BY_PATH, 0, AVCODEC, { 0, 0 } },
    { "folder_of_jpeg_and_png", "%s/folder", NULL, BY_PATH, FOLDERS, 0, { JPEG, AVCODEC | STILLS } },
    { "archives_of_two_codecs", "%s/jpeg.bzna", NULL, BY_LIST, 0, 0, { JPEG, JPEG } },
    { "tar_of_jpeg_and_png", "%s/mixed.tar", NULL, BY_PATH, SHARDS, 0, { JPEG, AVCODEC | STILLS } },
#ifndef BENZINA_NO_PROVIDERS            /* a switch leaves functions out, so that there is none to fail */
    { "provider_of_raw_pixels", NULL, NULL, BY_RAW, PROVIDERS, 0, { 0, 0 } },
    { "provider_of_jpeg_and_png", NULL, NULL, BY_FILES, PROVIDERS, 0, { JPEG, AVCODEC | STILLS } },
    { "provider_of_h265", NULL, NULL, BY_H265, PROVIDERS, AVCODEC, { 0, 0 } },
#endif
};

#ifndef BENZINA_NO_PROVIDERS
static bzna_status open_provider(const one_case *c, bzna_dataset **dataset, bzna_error *err)
{
    static bzna_place places[SAMPLES];
    bzna_provider_field field = { 0 };
    bzna_provider provider = { .struct_size = sizeof provider, .field_count = 1, .count = SAMPLES, .fields = &field };

    field.name = "image";
    field.kind = BZNA_FIELD_IMAGE;
    field.located = 1;
    if (c->opens_by == BY_RAW) {
        field.codec = BZNA_CODEC_RAW;
        field.width = field.height = EDGE;
        field.channels = 3;
    }
    if (c->opens_by == BY_H265)
        field.codec = BZNA_CODEC_H265;
    for (int i = 0; i < SAMPLES; i++) {
        places[i].data = c->opens_by == BY_FILES ? file_bytes[i] : c->opens_by == BY_H265 ? units[i] : raw[i];
        places[i].size = c->opens_by == BY_FILES ? file_sizes[i] : c->opens_by == BY_H265 ? unit_sizes[i] : RAW_BYTES;
    }
    provider.places = places;
    return bzna_dataset_open_provider(context, &provider, NULL, dataset, err);
}
#endif

static bzna_status open_case(const one_case *c, const char *path, bzna_dataset **dataset, bzna_error *err)
{
    bzna_dataset_config config = { .struct_size = sizeof config };

#ifndef BENZINA_NO_PROVIDERS
    if (c->opens_by >= BY_RAW)
        return open_provider(c, dataset, err);
#endif
    if (c->opens_by == BY_LIST) {
        const char *const paths[2] = { path, "tests/data/mini_h265.bzna" };
        return bzna_dataset_open_list(context, paths, 2, &config, dataset, err);
    }
    return bzna_dataset_open(context, path, &config, dataset, err);
}

/* Adds bytes to a checksum (FNV-1a). */
static unsigned long long sum_of(unsigned long long sum, const void *bytes, uint64_t size)
{
    for (uint64_t i = 0; i < size; i++)
        sum = (sum ^ ((const uint8_t *)bytes)[i]) * 1099511628211u;
    return sum;
}

/* Loads the first samples of a data set, in order. */
static void load(const one_case *c, bzna_dataset *dataset)
{
    bzna_loader_config config = { .struct_size = sizeof config };
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_batch_info info = { 0 };
    bzna_error err = { .struct_size = sizeof err };

    config.output.batch_size = SAMPLES;
    config.output.width = config.output.height = EDGE;
    config.output.dtype = BZNA_DTYPE_UINT8;
    config.output.device.kind = BZNA_DEVICE_CPU;
    config.order.kind = BZNA_ORDER_SEQUENTIAL;
    config.order.epochs = 1;
    config.order.last_batch = BZNA_LAST_PARTIAL;
    config.fields.image = c->field;
    config.decode.decoder = BZNA_DECODER_SOFTWARE;
    if (!goes_on("opening a loader", bzna_loader_open(context, dataset, &config, &loader, &err), &err, c->loader))
        return;
    if (goes_on("the first batch", bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err), &err, 0)) {
        bzna_batch_get_info(batch, &info, sizeof info, &err);
        for (uint32_t i = 0; i < info.count; i++) {
            const bzna_status status = bzna_batch_error(batch, i, &err);
            if (goes_on(i ? "the second sample" : "the first sample", status, &err, c->sample[i]))
                printf("%s %u %016llx\n", c->name, (unsigned)i,
                       sum_of(14695981039346656037u, (uint8_t *)info.image.data + (uint64_t)i * RAW_BYTES, RAW_BYTES));
        }
        bzna_batch_release(batch);
    }
    bzna_loader_close(loader);
}

/* Loads fields alone: nothing is decoded, so every build can. */
static void load_fields(bzna_dataset *dataset)
{
    bzna_loader_config config = { .struct_size = sizeof config };
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_error err = { .struct_size = sizeof err };

    config.output.batch_size = 1;
    config.fields.bytes = "name";
    if (goes_on("a loader of fields", bzna_loader_open(context, dataset, &config, &loader, &err), &err, 0) &&
        goes_on("a batch of fields", bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err), &err, 0))
        bzna_batch_release(batch);
    bzna_loader_close(loader);
}

static void run_cases(const char *folder)
{
    char path[1024];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const one_case *c = &cases[i];
        bzna_dataset *dataset = NULL;
        bzna_error err = { .struct_size = sizeof err };

        current = c->name;
        path[0] = 0;
        if (c->path && !strncmp(c->path, "%s", 2))
            snprintf(path, sizeof path, "%s%s", folder, c->path + 2);
        else if (c->path)
            snprintf(path, sizeof path, "%s", c->path);
        if (goes_on("opening", open_case(c, path, &dataset, &err), &err, c->dataset))
            load(c, dataset);
        if (dataset && !strcmp(c->name, "archive_of_h265"))
            load_fields(dataset);
        bzna_dataset_close(dataset);
    }
}

/* Takes pictures of H.265 out of an archive, which every build can. */
static void read_units(void)
{
    bzna_dataset *dataset = NULL;
    bzna_error err = { .struct_size = sizeof err };

    current = "pictures of H.265";
    if (!goes_on("opening", bzna_dataset_open(context, "tests/data/mini_h265.bzna", NULL, &dataset, &err), &err, 0))
        return;
    for (int i = 0; i < SAMPLES; i++)
        goes_on("reading", bzna_dataset_field(dataset, (uint64_t)i, "image", units[i], sizeof units[i],
                                              &unit_sizes[i], &err), &err, 0);
    bzna_dataset_close(dataset);
}

/* ---- The decoder, the writer, policies --------------------------------------------------------------------------- */

static bzna_image image_of(uint32_t codec, const void *data, uint64_t size)
{
    bzna_image image;

    bzna_image_init(&image, sizeof image);
    image.codec = codec;
    image.data = data;
    image.data_size = size;
    return image;
}

static void run_decoder(void)
{
    static const uint8_t layout[2] = { 3, BZNA_LAYOUT_NCHW };
    const struct { const char *name; uint32_t codec; const void *data; uint64_t size; unsigned needs; } images[] = {
        { "decoding_raw_pixels", BZNA_CODEC_RAW, raw[0], RAW_BYTES, 0 },
        { "decoding_jpeg", BZNA_CODEC_JPEG, file_bytes[0], file_sizes[0], JPEG },
        { "decoding_png", BZNA_CODEC_STILL, file_bytes[1], file_sizes[1], AVCODEC | STILLS },
    };
    bzna_decoder *decoder = NULL;
    bzna_error err = { .struct_size = sizeof err };

    current = "decoder";
    if (!goes_on("opening", bzna_decoder_open(context, &decoder, &err), &err, 0))
        return;
    for (size_t i = 0; i < sizeof images / sizeof *images; i++) {
        bzna_image image = image_of(images[i].codec, images[i].data, images[i].size);
        bzna_picture picture;

        picture = (bzna_picture){ .struct_size = sizeof picture };
        if (!i) {
            image.config = layout;
            image.config_size = sizeof layout;
            image.width = image.height = image.frame_width = image.frame_height = EDGE;
        }
        current = images[i].name;
        if (goes_on("decoding", bzna_decoder_decode(decoder, &image, &picture, &err), &err, images[i].needs))
            printf("%s %016llx\n", current, sum_of(0, picture.plane[0], picture.frame_width));
    }
    bzna_decoder_close(decoder);
}

/* What takes policies. Without them, settings that have some are refused. */
static void run_policies(void)
{
    const bzna_operation blur = { .kind = BZNA_OP_BLUR, .magnitude = { 1, 1 } };
    const bzna_policy policy = { .operations = &blur, .operation_count = 1 };
    bzna_loader_config config = { .struct_size = sizeof config };
    bzna_dataset *dataset = NULL;
    bzna_loader *loader = NULL;
    bzna_error err = { .struct_size = sizeof err };

    config.output.batch_size = 1;
    config.output.width = config.output.height = EDGE;
    config.augment.policies = &policy;
    config.augment.policy_count = 1;
    current = "policies";
    if (goes_on("opening", bzna_dataset_open(context, "tests/data/mini_h265.bzna", NULL, &dataset, &err), &err, 0))
        goes_on("a loader", bzna_loader_open(context, dataset, &config, &loader, &err), &err, AUGMENT);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

#ifndef BENZINA_NO_WRITER
static void run_writer(const char *folder)
{
    char path[1024];
    bzna_writer *writer = NULL;
    bzna_error err = { .struct_size = sizeof err };

    snprintf(path, sizeof path, "%s/empty.bzna", folder);
    current = "writer";
    goes_on("opening", bzna_writer_open(context, path, NULL, &writer, &err), &err, 0);
    bzna_writer_close(writer);
}

/* ---- The files --------------------------------------------------------------------------------------------------- */

static void write_archive(const char *path)
{
    bzna_writer *writer = NULL;
    bzna_error err = { .struct_size = sizeof err };
    bzna_image image = image_of(BZNA_CODEC_JPEG, file_bytes[0], file_sizes[0]);
    bzna_field_value mask = { .struct_size = sizeof mask, .kind = BZNA_FIELD_IMAGE, .name = "mask" };
    bzna_writer_sample sample = { .struct_size = sizeof sample, .image = &image, .field_count = 1, .fields = &mask };
    bzna_status status;

    mask.data = file_bytes[1];
    mask.size = file_sizes[1];
    status = bzna_writer_open(context, path, NULL, &writer, &err);
    for (int i = 0; i < SAMPLES && status == BZNA_OK; i++)
        status = bzna_writer_add(writer, BZNA_INDEX_NEXT, &sample, 0, &err);
    if (status == BZNA_OK)
        status = bzna_writer_finish(writer, &err);
    bzna_writer_close(writer);
    if (status != BZNA_OK)
        printf("WRONG %s: %s\n", path, err.message);
    wrong += status != BZNA_OK;
}

static void write_files(const char *folder)
{
    char path[1024];

    snprintf(path, sizeof path, "%s/jpeg.bzna", folder);
    write_archive(path);
}
#endif

int main(int argc, char **argv)
{
    if (argc < 2 || bzna_context_open(NULL, &context, NULL) != BZNA_OK)
        return 2;
    for (int i = 0; i < SAMPLES * RAW_BYTES; i++)
        raw[i / RAW_BYTES][i % RAW_BYTES] = (uint8_t)(i * 7 + i / 97);
    file_bytes[0] = slurp("tests/data/pictures/jpeg_422_restarts.jpg", &file_sizes[0]);
    file_bytes[1] = slurp("tests/data/pictures/png_palette_2.png", &file_sizes[1]);

    if (argc == 2) {
        read_units();
        run_cases(argv[1]);
        run_decoder();
        run_policies();
    }
#ifndef BENZINA_NO_WRITER
    if (argc == 2)
        run_writer(argv[1]);
    else
        write_files(argv[1]);
#endif
    free(file_bytes[0]);
    free(file_bytes[1]);
    bzna_context_close(context);
    return wrong != 0;
}
