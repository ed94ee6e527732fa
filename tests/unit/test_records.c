/* Raw records, which formats_config.records describes: files as of MNIST, CIFAR and plain tensors, made here. Pictures
 * must arrive as the very numbers that they are made of. */
#include "library.h"
#include "with_formats.h"
#ifdef TEST_NVDEC
#  include "../fake/nvdec.h"
#endif
#include "test.h"
#include "known.h"

#define PATH TEST_BUILD "/tests/raw.records"

/* ---- What tests open ---- */

enum { BY_PATH, BY_MEMORY, BY_SOURCE, WAYS };

typedef struct opened {
    bzna_dataset *dataset;
    memory_source source;
    bzna_error    err;
    bzna_status   status;
} opened;

static bzna_context *context;

static void open_config(opened *o, const void *bytes, size_t size, int way, const bzna_formats_config *config)
{
    bzna_source source;
    memset(o, 0, sizeof *o);
    o->err = fresh_error();
    if (way == BY_PATH) {
        spill(PATH, bytes, size);
        o->status = bzna_formats_open(context, PATH, config, &o->dataset, &o->err);
    } else if (way == BY_MEMORY) {
        o->status = bzna_formats_open_memory(context, bytes, size, config, &o->dataset, &o->err);
    } else {
        source = source_of(&o->source, bytes, size);
        o->status = bzna_formats_open_source(context, &source, config, &o->dataset, &o->err);
    }
}

static void open_records(opened *o, const void *bytes, size_t size, int way, const bzna_records *records)
{
    bzna_formats_config config;
    bzna_formats_config_init(&config, sizeof config);
    config.records = records;
    open_config(o, bytes, size, way, &config);
}

static bzna_records records_of(uint32_t type, uint32_t channels, uint32_t height, uint32_t width)
{
    bzna_records r;
    bzna_formats_records_init(&r, sizeof r);
    r.data_type = type;
    r.channels = channels;
    r.height = height;
    r.width = width;
    return r;
}

/* Numbers of all values, the same wherever they are made. */
static uint8_t byte_at(uint64_t i) { return (uint8_t)((i * 2654435761u + i / 7) >> 5); }

static void fill(uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = byte_at(i);
}

static int64_t target_of(const bzna_dataset *dataset, uint64_t i)
{
    bzna_sample_ref sample = { .struct_size = sizeof sample };
    int64_t target = -77;
    CHECK(bzna_dataset_target(dataset, i, &target, NULL) == BZNA_OK);
    CHECK(bzna_dataset_sample(dataset, i, &sample, sizeof sample, NULL) == BZNA_OK && sample.target == target);
    return target;
}

/* ---- Pictures ---- */

/* The number of a picture's pixel in a file, of R, G or B; of gray, the same for all. */
static const uint8_t *pixel(const uint8_t *picture, const bzna_records *r, uint32_t c, uint32_t y, uint32_t x)
{
    const uint32_t at = y * r->width + x;
    if (r->channels == 1)
        return picture + at;
    return picture + (r->layout == BZNA_LAYOUT_NHWC ? at * 3 + c : c * r->width * r->height + at);
}

/* Rendered at its own size, the picture is what the file has. */
static void check_rendered(const opened *o, uint64_t i, const uint8_t *picture, const bzna_records *r)
{
    bzna_image image = { .struct_size = sizeof image };
    bzna_picture decoded = { .struct_size = sizeof decoded };
    bzna_output output = { .struct_size = sizeof output, .width = r->width, .height = r->height };
    bzna_transform transform;
    bzna_decoder *decoder = NULL;
    float *pixels = malloc(3 * sizeof *pixels * r->width * r->height);
    uint8_t *buffer = malloc((size_t)r->stride);
    bzna_error err = fresh_error();
    int wrong = 0;
    bzna_transform_init(&transform, sizeof transform);
    CHECK(bzna_dataset_read_image(o->dataset, i, "image", buffer, (size_t)r->stride, &image, &err) == BZNA_OK);
    CHECK(image.codec == BZNA_CODEC_RAW && image.width == r->width && image.height == r->height);
    if (bzna_decoder_open(context, &decoder, &err) == BZNA_OK) {
        CHECK(bzna_decoder_decode(decoder, &image, &decoded, &err) == BZNA_OK);
        CHECK(bzna_picture_render(&decoded, &transform, &output, pixels, 3 * sizeof *pixels * r->width * r->height,
                                  &err) == BZNA_OK);
        for (uint32_t c = 0; c < 3; c++)
            for (uint32_t y = 0; y < r->height; y++)
                for (uint32_t x = 0; x < r->width; x++)
                    wrong += pixels[(c * r->height + y) * r->width + x] != *pixel(picture, r, c, y, x);
        CHECK_EQ(wrong, 0);
    }
    bzna_decoder_close(decoder);
    free(buffer);
    free(pixels);
}

#ifndef BENZINA_NO_AVCODEC
/* A batch of all of them, at their own size: the loader delivers the very numbers. */
static void check_loaded(const opened *o, const uint8_t *file, const bzna_records *r, uint64_t count)
{
    bzna_loader_config config;
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_tensor tensor;
    int wrong = 0;
    bzna_loader_config_init(&config, sizeof config);
    config.output.width = r->width;
    config.output.height = r->height;
    config.output.batch_size = (uint32_t)count;
    REQUIRE(bzna_loader_open(context, o->dataset, &config, &loader, NULL) == BZNA_OK);
    REQUIRE(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK);
    REQUIRE(bzna_batch_tensor(batch, "image", &tensor, sizeof tensor, NULL) == BZNA_OK);
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *picture = file + r->header_bytes + i * r->stride + r->data_offset;
        for (uint32_t c = 0; c < 3; c++)
            for (uint32_t y = 0; y < r->height; y++)
                for (uint32_t x = 0; x < r->width; x++)
                    wrong += ((const float *)tensor.data)[((i * 3 + c) * r->height + y) * r->width + x] !=
                             *pixel(picture, r, c, y, x);
        CHECK_EQ(bzna_batch_error(batch, (uint32_t)i, NULL), BZNA_OK);
    }
    CHECK_EQ(wrong, 0);
    bzna_batch_release(batch);
    bzna_loader_close(loader);
}
#endif

static void check_pictures(const bzna_records *given, uint64_t count)
{
    bzna_records r = *given;
    const size_t size = (size_t)(r.header_bytes + count * r.stride);
    uint8_t *file = malloc(size);
    fill(file, size);
    for (int way = 0; way < WAYS; way++) {
        opened o;
        open_records(&o, file, size, way, &r);
        REQUIRE(o.status == BZNA_OK && bzna_dataset_count(o.dataset) == count);
        for (uint64_t i = 0; i < count; i++) {
            const uint8_t *record = file + r.header_bytes + i * r.stride;
            uint8_t bytes[4096];
            size_t n = 0;
            if (r.label_type)
                CHECK_EQ(target_of(o.dataset, i), record[r.label_offset]);
            CHECK(bzna_dataset_field(o.dataset, i, "image", bytes, sizeof bytes, &n, NULL) == BZNA_OK &&
                  n == r.channels * r.width * r.height && !memcmp(bytes, record + r.data_offset, n));
            check_rendered(&o, i, record + r.data_offset, &r);
        }
#ifndef BENZINA_NO_AVCODEC
        check_loaded(&o, file, &r, count);
#endif
        bzna_dataset_close(o.dataset);
    }
    free(file);
}

/* 28x28 gray behind a header of 16 bytes; the labels are in a file of their own. */
TEST(pictures_of_mnist_are_exact)
{
    bzna_records r = records_of(BZNA_RECORD_UINT8, 1, 28, 28);
    r.header_bytes = 16;
    r.stride = 784;
    check_pictures(&r, 5);
}

/* Planes of 32x32 behind one byte of label, or behind two, of which the second counts. */
TEST(pictures_of_cifar_are_exact)
{
    bzna_records r = records_of(BZNA_RECORD_UINT8, 3, 32, 32);
    r.label_type = BZNA_RECORD_UINT8;
    r.data_offset = 1;
    r.stride = 3073;
    check_pictures(&r, 4);
    r.label_offset = 1;
    r.data_offset = 2;
    r.stride = 3074;
    check_pictures(&r, 3);
}

TEST(pictures_of_pixels_side_by_side_are_exact)
{
    bzna_records r = records_of(BZNA_RECORD_UINT8, 3, 19, 31);
    r.layout = BZNA_LAYOUT_NHWC;
    r.data_offset = 3;
    r.label_offset = 3 + 19 * 31 * 3 + 8;
    r.label_type = BZNA_RECORD_UINT8;
    r.stride = r.label_offset + 1 + 100;
    r.header_bytes = 7;
    check_pictures(&r, 4);
}

TEST(a_picture_of_one_pixel_is_exact)
{
    bzna_records r = records_of(BZNA_RECORD_UINT8, 3, 1, 1);
    r.stride = 3;
    check_pictures(&r, 3);
}

/* Two halves of a warp: a turn by 180 degrees takes the plain loop, a flip the one of rows. */
TEST(samples_apart_are_rendered_as_samples_side_by_side)
{
    uint8_t pixels[20 * 10 * 3], planes[3][20 * 10];
    bzna_picture p = { .struct_size = sizeof p, .depth = 8, .width = 20, .height = 10, .frame_width = 20,
                       .frame_height = 10, .color = { 1, 13, 0, 1, 1 } }, q = p;
    bzna_output output = { .struct_size = sizeof output, .width = 7, .height = 9 };
    float a[3 * 7 * 9], b[3 * 7 * 9];
    fill(pixels, sizeof pixels);
    for (int c = 0; c < 3; c++) {
        for (int i = 0; i < 200; i++)
            planes[c][i] = pixels[i * 3 + c];
        p.plane[c] = pixels + (c + 1) % 3;
        p.pitch[c] = 60;
        p.step[c] = 3;
        q.plane[c] = planes[(c + 1) % 3];
        q.pitch[c] = 20;
    }
    for (int k = 0; k < 3; k++) {
        const double h[3][9] = { { 2.9, 0, 0, 0, 1.1, 0, 0, 0, 1 }, { -2.9, 0, 19, 0, 1.1, 0, 0, 0, 1 },
                                 { 1.5, 0.7, 0, -0.3, 1.1, 2, 0.001, 0, 1 } };
        bzna_transform t;
        bzna_transform_init(&t, sizeof t);
        memcpy(t.homography, h[k], sizeof t.homography);
        CHECK(bzna_picture_render(&p, &t, &output, a, sizeof a, NULL) == BZNA_OK);
        CHECK(bzna_picture_render(&q, &t, &output, b, sizeof b, NULL) == BZNA_OK);
        CHECK(!memcmp(a, b, sizeof a));
    }
    p.step[1] = 65536;
    CHECK_EQ(bzna_picture_render(&p, &(bzna_transform){ .struct_size = sizeof(bzna_transform) }, &output, a, sizeof a,
                                 NULL), BZNA_E_ARGUMENT);
}

TEST(rows_are_copied_from_samples_apart)
{
    static const struct { uint32_t depth, step; uint64_t size; const char *copy; } rows[] = {
        { 8, 0, 4, "\1\2\3\4" }, { 8, 1, 4, "\1\2\3\4" }, { 8, 3, 3, "\1\4\7" }, { 16, 4, 4, "\1\2\5\6" } };
    const uint8_t bytes[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    for (size_t i = 0; i < COUNT(rows); i++) {
        bzna_picture picture = { .depth = rows[i].depth, .plane = { bytes }, .step = { rows[i].step } };
        const bzi_plane plane = { .row_bytes = rows[i].size, .rows = 1, .pitch = 64 };
        uint8_t out[4];
        bzi_picture_copy_plane(&picture, 0, &plane, out);
        CHECK(!memcmp(out, rows[i].copy, (size_t)rows[i].size));
        CHECK(picture.pitch[0] == 64 && picture.step[0] == 0);
    }
}

/* Raw pictures whose sizes and bytes do not fit each other. */
TEST(raw_pictures_that_contradict_themselves_are_refused)
{
    uint8_t data[12] = { 0 }, config[3] = { 3, BZNA_LAYOUT_NCHW, 0 };
    const bzna_image good = { .struct_size = sizeof good, .codec = BZNA_CODEC_RAW, .width = 2, .height = 2,
                              .frame_width = 2, .frame_height = 2, .config = config, .config_size = 2, .data = data,
                              .data_size = 12 };
    bzna_image image = good;
    bzna_picture picture = { .struct_size = sizeof picture };
    bzna_decoder *decoder = NULL;
    size_t needed;
    if (bzna_decoder_open(context, &decoder, NULL) != BZNA_OK)
        SKIP("built without libavcodec [libavcodec-dev]");
    for (uint32_t channels = 1; channels <= 3; channels += 2) {
        bzi_format format;
        config[0] = (uint8_t)channels;
        image.data_size = 4 * channels;
        CHECK_EQ(bzi_image_raw(&image, &format, NULL), BZNA_OK);
        CHECK_EQ(format.chroma_format, channels == 3 ? 3 : 0);
        CHECK(format.width == 2 && format.height == 2 && format.depth_luma == 8 && format.depth_chroma == 8);
        CHECK(format.color.full_range && !format.color.matrix);
        CHECK_EQ(bzna_decoder_decode(decoder, &image, &picture, NULL), BZNA_OK);
        CHECK(!picture.chroma_shift_x && !picture.chroma_shift_y && !picture.plane[1] == (channels == 1));
        CHECK(picture.depth == 8 && picture.width == 2 && picture.height == 2 && picture.pitch[0] == 2);
    }
    CHECK(bzna_image_annexb(&image, NULL, 0, &needed, NULL) == BZNA_E_BUFFER && needed == 12);
    image.data_size = 11;
    CHECK_EQ(bzna_decoder_decode(decoder, &image, &picture, NULL), BZNA_E_MISMATCH);
    image = good;
    image.frame_width = image.frame_height = image.width = image.height = UINT32_MAX;
    CHECK_EQ(bzna_decoder_decode(decoder, &image, &picture, NULL), BZNA_E_MISMATCH);
    image = good;
    image.frame_width = 0;
    CHECK_EQ(bzna_decoder_decode(decoder, &image, &picture, NULL), BZNA_E_MISMATCH);
    image = good;
    image.width = 3;
    CHECK_EQ(bzna_decoder_decode(decoder, &image, &picture, NULL), BZNA_E_ARGUMENT);
    for (int i = 0; i < 3; i++) {
        image = good;
        config[0] = i == 0 ? 2 : 3;
        config[1] = i == 1 ? 2 : 0;
        image.config_size = i == 2 ? 3 : 2;
        CHECK_EQ(bzna_decoder_decode(decoder, &image, &picture, NULL), BZNA_E_ARGUMENT);
    }
    image.config = NULL;
    CHECK_EQ(bzna_decoder_decode(decoder, &image, &picture, NULL), BZNA_E_ARGUMENT);
    bzna_decoder_close(decoder);
}

/* ---- Vectors, labels ---- */

/* Each type, little-endian, written out by hand: -2, 300, 7, 0 (bytes: 254, 44, 7, 0). */
static const struct { uint32_t type; uint8_t size; uint8_t bytes[32]; float numbers[4]; } types[] = {
    { BZNA_RECORD_UINT8, 1, { 254, 44, 7, 0 }, { 254, 44, 7, 0 } },
    { BZNA_RECORD_INT32, 4, { 254, 255, 255, 255, 44, 1, 0, 0, 7, 0, 0, 0 }, { -2, 300, 7, 0 } },
    { BZNA_RECORD_INT64, 8, { 254, 255, 255, 255, 255, 255, 255, 255, 44, 1, 0, 0, 0, 0, 0, 0, 7 }, { -2, 300, 7, 0 } },
    { BZNA_RECORD_FLOAT32, 4, { 0, 0, 0, 0xc0, 0, 0, 0x96, 0x43, 0, 0, 0xe0, 0x40 }, { -2, 300, 7, 0 } } };

/* Two channels of 1x2 numbers are a vector, of bytes, too. */
static void check_vectors(size_t k, float scale, float bias, int way)
{
    bzna_records r = records_of(types[k].type, 2, 1, 2);
    const size_t each = types[k].size * 4u;
    bzna_field_info field;
    uint8_t file[2 + 3 * 32];
    float numbers[4];
    opened o;
    size_t n = 0;
    r.header_bytes = 2;
    r.scale = scale;
    r.bias = bias;
    for (size_t i = 0; i < 3; i++)
        memcpy(file + 2 + i * each, types[k].bytes, each);
    open_records(&o, file, 2 + 3 * each, way, &r);
    REQUIRE(o.status == BZNA_OK && bzna_dataset_count(o.dataset) == 3);
    CHECK(bzna_dataset_field_info(o.dataset, 0, &field, sizeof field, NULL) == BZNA_OK &&
          field.kind == BZNA_FIELD_VECTOR && !strcmp(field.name, "data"));
    CHECK_EQ(bzna_dataset_field_info(o.dataset, 1, &field, sizeof field, NULL), BZNA_E_RANGE);
    CHECK(bzna_dataset_field(o.dataset, 2, "data", numbers, sizeof numbers, &n, NULL) == BZNA_OK && n == 16);
    for (int i = 0; i < 4; i++)
        CHECK(numbers[i] == types[k].numbers[i] * (scale != 0 ? scale : 1) + bias);
    CHECK_EQ(bzna_dataset_field(o.dataset, 2, "data", numbers, 15, &n, NULL), BZNA_E_BUFFER);
    CHECK_EQ(target_of(o.dataset, 0), BZNA_TARGET_NONE);
    CHECK_EQ(bzna_dataset_field(o.dataset, 2, "image", numbers, 16, &n, NULL), BZNA_E_NOT_FOUND);
    bzna_dataset_close(o.dataset);
}

TEST(vectors_are_numbers_of_each_type_scaled)
{
    for (size_t k = 0; k < COUNT(types); k++)
        for (int way = 0; way < WAYS; way++) {
            check_vectors(k, 0, 0, way);
            check_vectors(k, 0.5f, 10, way);
            check_vectors(k, -1, 0.25f, way);
            check_vectors(k, 1, 3, way);                    /* float32 that is not copied, though its scale is 1 */
        }
}

/* Integers are targets, -1 is none; a float32 is a vector of one number. */
TEST(labels_are_targets_or_vectors_of_one)
{
    for (size_t k = 0; k < COUNT(types); k++) {
        bzna_records r = records_of(BZNA_RECORD_UINT8, 1, 1, 1);
        const int is_target = types[k].type != BZNA_RECORD_FLOAT32;
        bzna_dataset_info info;
        bzna_field_info field;
        uint8_t file[5 * 9] = { 0 };
        float label = 0;
        size_t n = 0;
        opened o;
        r.label_type = types[k].type;
        r.data_offset = types[k].size;
        for (size_t i = 0; i < 4; i++)
            memcpy(file + i * (types[k].size + 1u), types[k].bytes + i * types[k].size, types[k].size);
        memset(file + 4 * (types[k].size + 1u), 0xff, types[k].size);
        open_records(&o, file, 5 * (types[k].size + 1u), BY_SOURCE, &r);
        REQUIRE(o.status == BZNA_OK && bzna_dataset_count(o.dataset) == 5);
        CHECK(bzna_dataset_field_info(o.dataset, 1, &field, sizeof field, NULL) == BZNA_OK &&
              !strcmp(field.name, is_target ? "target" : "label"));
        CHECK(bzna_dataset_get_info(o.dataset, &info, sizeof info, NULL) == BZNA_OK && info.field_count == 2 &&
              info.target_count == (is_target ? 5u : 0) && !strcmp(info.container, "records"));
        for (uint64_t i = 0; i < 4; i++)
            CHECK_EQ(target_of(o.dataset, i), is_target ? (int64_t)types[k].numbers[i] : BZNA_TARGET_NONE);
        CHECK_EQ(target_of(o.dataset, 4), k == 0 ? 255 : BZNA_TARGET_NONE);
        if (k == 1 || k == 2)                               /* -1 is none */
            CHECK_EQ(bzna_dataset_field(o.dataset, 4, "target", &n, sizeof n, NULL, NULL), BZNA_E_NOT_FOUND);
        CHECK(bzna_dataset_field(o.dataset, 1, "label", &label, sizeof label, &n, NULL) ==
              (is_target ? BZNA_E_NOT_FOUND : BZNA_OK) && label == (is_target ? 0 : 300));
        bzna_dataset_close(o.dataset);
    }
}

/* ---- What is refused ---- */

static void check_refused(const bzna_records *r, uint64_t size, bzna_status status, const char *words)
{
    static uint8_t file[1 << 15];
    for (int way = BY_MEMORY; way < WAYS; way++) {
        opened o;
        open_records(&o, file, (size_t)size, way, r);
        CHECK_EQ(o.status, status);
        CHECK_CONTAINS(o.err.message, words);
        CHECK(!o.dataset);
        bzna_dataset_close(o.dataset);
    }
}

TEST(settings_without_a_meaning_are_refused_by_name)
{
    static const struct { bzna_records r; const char *words; } cases[] = {
        { { .data_type = 0 }, "data_type: 0" },       { { .data_type = 5 }, "data_type: 5" },
        { { .label_type = 5 }, "label_type: 5" },     { { .layout = 2 }, "layout: 2" },
        { { .stride = 47 }, "stride: 47 is not in 48.." },
        { { .stride = 51, .label_type = 2, .label_offset = 48 }, "stride: 51 is not in 52.." },
        { { .data_offset = UINT64_MAX }, "data_offset" }, { { .data_offset = UINT64_MAX - 47 }, "data_offset" },
        { { .label_type = 3, .label_offset = UINT64_MAX - 3 }, "label_offset" },
        { { .label_offset = 4 }, "label_offset: 4 is not in 0..0, given the other settings" },
        { { .data_type = BZNA_RECORD_INT32, .layout = 1 }, "layout: 1 is not in 0..0, given the other settings" },
        { { .scale = 2 }, "and 0 for pictures" },  { { .bias = 2 }, "and 0 for pictures" } };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const bzna_records *c = &cases[i].r;
        const int is_type = !strncmp(cases[i].words, "data_type", 9) || c->data_type;
        bzna_records r = records_of(is_type ? c->data_type : BZNA_RECORD_UINT8, 3, 4, 4);
        r.label_type = c->label_type;
        r.layout = c->layout;
        r.width = c->width ? c->width : r.width;
        r.height = c->height ? c->height : r.height;
        r.stride = c->stride;
        r.data_offset = c->data_offset;
        r.label_offset = c->label_offset;
        r.scale = c->scale;
        r.bias = c->bias;
        check_refused(&r, 480, BZNA_E_ARGUMENT, cases[i].words);
    }
}

TEST(sizes_that_are_missing_or_overflow_are_refused_by_name)
{
    bzna_records r = records_of(BZNA_RECORD_FLOAT32, 0, 4, 4);
    check_refused(&r, 480, BZNA_E_ARGUMENT, "channels: 0");
    r = records_of(BZNA_RECORD_FLOAT32, 1, 0, 4);
    check_refused(&r, 480, BZNA_E_ARGUMENT, "height: 0");
    r = records_of(BZNA_RECORD_FLOAT32, 1, 4, 0);
    check_refused(&r, 480, BZNA_E_ARGUMENT, "width: 0");
    r = records_of(BZNA_RECORD_INT64, UINT32_MAX, UINT32_MAX, UINT32_MAX);
    check_refused(&r, 480, BZNA_E_ARGUMENT, "channels: 4294967295 is not in 1..0");
    r = records_of(BZNA_RECORD_INT64, 1 << 30, 1 << 30, 1);
    check_refused(&r, 480, BZNA_E_ARGUMENT, "channels: 1073741824 is not in 1..1073741823");
    r = records_of(BZNA_RECORD_INT64, 1 << 30, 1, 1);
    check_refused(&r, 480, BZNA_E_TRUNCATED, "at byte 0: 480 bytes are not a whole record of 8589934592");
    r = records_of(BZNA_RECORD_UINT8, 1, 1, 16385);
    check_refused(&r, 16385, BZNA_E_ARGUMENT, "width: of RAW pixels, it must be 1 to max_edge_px");
    r = records_of(BZNA_RECORD_UINT8, 1, 16385, 1);
    check_refused(&r, 16385, BZNA_E_ARGUMENT, "height: of RAW pixels, it must be 1 to max_edge_px");
    r = records_of(BZNA_RECORD_FLOAT32, 1, 1, 1);
    r.scale = INFINITY;
    check_refused(&r, 480, BZNA_E_ARGUMENT, "scale, bias: inf");
    r.scale = 1;
    r.bias = NAN;
    check_refused(&r, 480, BZNA_E_ARGUMENT, "scale, bias");
}

TEST(a_file_of_no_whole_records_is_refused_at_its_byte)
{
    bzna_records r = records_of(BZNA_RECORD_UINT8, 1, 10, 10);
    opened o;
    uint8_t file[400] = { 0 };
    r.header_bytes = 16;
    check_refused(&r, 16, BZNA_E_NO_SAMPLES, "the file has 16 bytes, and no record after a header of 16");
    check_refused(&r, 5, BZNA_E_TRUNCATED, "the file has 5 bytes, and no record after a header of 16");
    check_refused(&r, 15, BZNA_E_TRUNCATED, "the file has 15 bytes, and no record after a header of 16");
    check_refused(&r, 115, BZNA_E_TRUNCATED, "at byte 16: 99 bytes are not a whole record of 100");
    check_refused(&r, 217, BZNA_E_TRUNCATED, "at byte 216: 1 bytes are not a whole record of 100");
    check_refused(&r, 0, BZNA_E_TRUNCATED, "the file has 0 bytes, and no record");
    open_records(&o, file, 217, BY_MEMORY, &r);
    CHECK_EQ(o.err.byte_offset, 216);
    r.header_bytes = UINT64_MAX;
    check_refused(&r, 217, BZNA_E_TRUNCATED, "no record after a header of 18446744073709551615");
    r.header_bytes = 0;
    r.stride = UINT64_MAX;
    check_refused(&r, 217, BZNA_E_TRUNCATED, "at byte 0: 217 bytes are not a whole record");
}

/* Its bytes may begin like anything; what it is, only the settings say. */
TEST(records_are_what_the_settings_say_whatever_their_bytes)
{
    static const char *const heads[] = { "\x1f\x8b\x08", "PK\x03\x04", ("\0\0\0\x18" "ftypheic"), "\x0a\x23\xd7\xce" };
    bzna_records r = records_of(BZNA_RECORD_UINT8, 1, 4, 4);
    bzna_dataset_config config;
    bzna_formats_config formats;
    uint8_t file[64] = { 0 };
    opened o;
    for (size_t i = 0; i < COUNT(heads); i++) {
        memcpy(file, heads[i], 3);
        open_records(&o, file, sizeof file, BY_MEMORY, &r);
        CHECK_EQ(o.status, BZNA_OK);
        bzna_dataset_close(o.dataset);
    }
    bzna_dataset_config_init(&config, sizeof config);
    bzna_formats_config_init(&formats, sizeof formats);
    formats.dataset = &config;
    config.format = "records";
    open_config(&o, file, sizeof file, BY_MEMORY, &formats);
    CHECK_EQ(o.status, BZNA_E_FORMAT);
    CHECK_CONTAINS(o.err.message, "the file is not of the format \"records\"");
    formats.records = &r;
    open_config(&o, file, sizeof file, BY_MEMORY, &formats);
    CHECK_EQ(o.status, BZNA_OK);
    bzna_dataset_close(o.dataset);
    config.format = "archive";
    open_config(&o, file, sizeof file, BY_MEMORY, &formats);
    CHECK_EQ(o.status, BZNA_E_FORMAT);
    CHECK_CONTAINS(o.err.message, "dataset_config.format: it is of the format \"records\", not \"archive\"");
    config.format = NULL;
    config.split = "train";
    open_config(&o, file, sizeof file, BY_MEMORY, &formats);
    CHECK_EQ(o.status, BZNA_E_ARGUMENT);
    CHECK_CONTAINS(o.err.message, "dataset_config.split: it has no effect on this data set");
    config.split = NULL;
    formats.pairs = "images,masks";
    open_config(&o, file, sizeof file, BY_MEMORY, &formats);
    CHECK_EQ(o.status, BZNA_E_ARGUMENT);
    CHECK_CONTAINS(o.err.message, "formats_config.pairs, list, records: only one of them");
    formats.pairs = NULL;
    formats.list = PATH;
    open_config(&o, file, sizeof file, BY_MEMORY, &formats);
    CHECK_EQ(o.status, BZNA_E_ARGUMENT);
    CHECK_CONTAINS(o.err.message, "formats_config.pairs, list, records: only one of them");
}

/* As all functions of the library do. */
TEST(opening_without_fault_leaves_the_callers_error_as_it_was)
{
    const uint8_t file[32] = { 1 };
    const bzna_records whole = records_of(BZNA_RECORD_INT32, 1, 1, 4);
    const bzna_formats_config formats = { .struct_size = sizeof formats, .records = &whole };
    bzna_dataset *dataset;
    bzna_error before, err;
    memset(&before, 7, sizeof before);
    err = before;
    CHECK_EQ(bzna_formats_open_memory(context, file, sizeof file, &formats, &dataset, &err), BZNA_OK);
    CHECK(!memcmp(&err, &before, sizeof err));
    bzna_dataset_close(dataset);
}

/* As a program that was compiled with an older header gives it: what lies behind is not the library's. */
TEST(records_of_a_smaller_or_larger_struct_are_taken)
{
    bzna_records whole = records_of(BZNA_RECORD_INT32, 1, 1, 4);
    struct { bzna_records known; uint64_t added; } future = { .added = 0 };
    const uint8_t file[32] = { 1, 0, 0, 0, 2, 0, 0, 0, 3 };
    uint8_t *older = malloc(offsetof(bzna_records, scale));
    float numbers[4];
    size_t n = 0;
    opened o;
    whole.struct_size = offsetof(bzna_records, scale);
    memcpy(older, &whole, offsetof(bzna_records, scale));
    open_records(&o, file, sizeof file, BY_MEMORY, (const bzna_records *)(const void *)older);
    REQUIRE(o.status == BZNA_OK && bzna_dataset_count(o.dataset) == 2);
    CHECK(bzna_dataset_field(o.dataset, 0, "data", numbers, sizeof numbers, &n, NULL) == BZNA_OK && n == 16);
    CHECK(numbers[0] == 1 && numbers[1] == 2 && numbers[2] == 3 && numbers[3] == 0);
    bzna_dataset_close(o.dataset);
    free(older);
    whole.scale = 3;                                        /* not said */
    whole.bias = NAN;
    open_records(&o, file, sizeof file, BY_MEMORY, &whole);
    REQUIRE(o.status == BZNA_OK);
    CHECK(bzna_dataset_field(o.dataset, 0, "data", numbers, sizeof numbers, &n, NULL) == BZNA_OK && numbers[2] == 3);
    bzna_dataset_close(o.dataset);
    whole = records_of(BZNA_RECORD_INT32, 1, 1, 4);
    for (uint32_t size = 0; size < 4; size++) {
        whole.struct_size = size;
        check_refused(&whole, sizeof file, BZNA_E_STRUCT_SIZE, "formats_config.records.struct_size");
    }
    whole.struct_size = sizeof whole;
    whole.reserved0 = 1;
    check_refused(&whole, sizeof file, BZNA_E_STRUCT_SIZE, "formats_config.records.reserved0: a reserved word");
    future.known = records_of(BZNA_RECORD_INT32, 1, 1, 4);
    future.known.struct_size = sizeof future;
    open_records(&o, file, sizeof file, BY_MEMORY, &future.known);
    CHECK_EQ(o.status, BZNA_OK);
    bzna_dataset_close(o.dataset);
    future.added = 1;
    check_refused(&future.known, sizeof file, BZNA_E_STRUCT_SIZE, "fields unknown to this version are set");
}

/* Numbers that are scaled otherwise are other samples. */
TEST(fingerprints_tell_settings_apart)
{
    bzna_records r = records_of(BZNA_RECORD_INT32, 1, 4, 1);
    uint8_t file[64] = { 0 };
    uint64_t seen[4];
    const float scales[] = { 0, 2, 1, 1 }, biases[] = { 0, 0, 3, 0 };
    for (int i = 0; i < 4; i++) {
        opened o;
        r.scale = scales[i];
        r.bias = biases[i];
        open_records(&o, file, sizeof file, BY_MEMORY, &r);
        REQUIRE(o.status == BZNA_OK);
        seen[i] = bzi_dataset_fingerprint(o.dataset);
        bzna_dataset_close(o.dataset);
    }
    CHECK(seen[0] != seen[1] && seen[0] != seen[2] && seen[1] != seen[2]);
    CHECK_EQ(seen[0], seen[3]);       /* a scale of 0 counts as 1 */
}

int main(int argc, char **argv)
{
    (void)argc;
    test_start(argv);
    if (bzna_context_open(NULL, &context, NULL) != BZNA_OK)
        return 1;
    RUN(pictures_of_mnist_are_exact) RUN(pictures_of_cifar_are_exact) RUN(pictures_of_pixels_side_by_side_are_exact)
    RUN(a_picture_of_one_pixel_is_exact) RUN(samples_apart_are_rendered_as_samples_side_by_side)
    RUN(rows_are_copied_from_samples_apart) RUN(raw_pictures_that_contradict_themselves_are_refused)
    RUN(vectors_are_numbers_of_each_type_scaled) RUN(labels_are_targets_or_vectors_of_one)
    RUN(settings_without_a_meaning_are_refused_by_name) RUN(sizes_that_are_missing_or_overflow_are_refused_by_name)
    RUN(a_file_of_no_whole_records_is_refused_at_its_byte)
    RUN(records_are_what_the_settings_say_whatever_their_bytes)
    RUN(opening_without_fault_leaves_the_callers_error_as_it_was)
    RUN(records_of_a_smaller_or_larger_struct_are_taken)
    RUN(fingerprints_tell_settings_apart)
    bzna_context_close(context);
    printf("%s: %d passed, %d failed, %d skipped\n", __FILE__, test_passed, test_failed, test_skipped);
    return test_failed != 0;
}
