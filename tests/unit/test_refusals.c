/* Arguments and settings that mean nothing are refused, and the message names what is wrong; a second release. */
#include "library.h"
#include "../../examples/formats/formats.h"
#include "test.h"
#include "masks.h"

#if defined(BENZINA_NO_FOLDERS) || defined(BENZINA_NO_PROVIDERS) || defined(BENZINA_NO_SHARDS)

TEST(nothing_without_meaning_is_taken) { SKIP("built without folders, records or shards"); }

TEST_MAIN(RUN(nothing_without_meaning_is_taken))

#else

enum { SIDE = 8, COUNT_OF = 6 };

static bzna_context *context;
static uint8_t bytes[COUNT_OF * SIDE * SIDE];

static bzna_dataset *records_open(void)
{
    const bzna_records records = { .struct_size = sizeof records, .data_type = BZNA_RECORD_UINT8, .channels = 1,
                                   .width = SIDE, .height = SIDE };
    const bzna_formats_config config = { .struct_size = sizeof config, .records = &records };
    bzna_dataset *dataset = NULL;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i / (SIDE * SIDE));
    CHECK_EQ(bzna_formats_open_memory(context, bytes, sizeof bytes, &config, &dataset, NULL), BZNA_OK);
    return dataset;
}

static bzna_loader_config config_of(uint32_t batch)
{
    return (bzna_loader_config){ .struct_size = sizeof(bzna_loader_config),
                                 .output = { .batch_size = batch, .width = SIDE, .height = SIDE,
                                             .dtype = BZNA_DTYPE_UINT8, .device = { .kind = BZNA_DEVICE_CPU } },
                                 .decode = { .decoder = BZNA_DECODER_SOFTWARE, .threads = 1 },
                                 .read = { .threads = 1 } };
}

static void refused(const bzna_loader_config *c, bzna_status status, const char *text)
{
    bzna_dataset *dataset = records_open();
    bzna_loader *loader = NULL;
    bzna_error e = { 0 };
    CHECK_EQ(bzna_loader_open(context, dataset, c, &loader, &e), status);
    CHECK_CONTAINS(e.message, text);
    CHECK(!loader);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

TEST(a_timeout_that_is_negative_and_not_forever_is_refused)
{
    static const int64_t bad[] = { -2, -1000000000, INT64_MIN };
    bzna_dataset *dataset = records_open();
    const bzna_loader_config c = config_of(COUNT_OF);
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_error e = { 0 };
    CHECK_EQ(bzna_loader_open(context, dataset, &c, &loader, NULL), BZNA_OK);
    for (size_t i = 0; i < COUNT(bad); i++) {
        char text[64];
        batch = (bzna_batch *)(void *)bytes;
        CHECK_EQ(bzna_loader_next(loader, bad[i], &batch, &e), BZNA_E_ARGUMENT);
        snprintf(text, sizeof text, "timeout_ns: %lld is negative, and not", (long long)bad[i]);
        CHECK_CONTAINS(e.message, text);
        CHECK(!batch);
    }
    CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &e), BZNA_OK);
    bzna_batch_release(batch);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

TEST(the_last_epoch_is_2_to_the_64_less_2)
{
    bzna_dataset *dataset = records_open();
    bzna_loader_config c = config_of(COUNT_OF);
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_batch_info info;
    bzna_error e = { 0 };
    c.order.first_epoch = UINT64_MAX;
    refused(&c, BZNA_E_ARGUMENT, "loader_config.order.first_epoch: the last epoch there can be is 2^64 - 2");
    c.order.first_epoch = UINT64_MAX - 1;
    c.order.epochs = 3;
    CHECK_EQ(bzna_loader_open(context, dataset, &c, &loader, NULL), BZNA_OK);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL), BZNA_OK);
        CHECK_EQ(bzna_batch_get_info(batch, &info, sizeof info, NULL), BZNA_OK);
        CHECK(info.epoch == UINT64_MAX - 1);
        bzna_batch_release(batch);
        CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL), BZNA_END);
        CHECK_EQ(bzna_loader_reset(loader, UINT64_MAX, &e), BZNA_E_ARGUMENT);
        CHECK_CONTAINS(e.message, "bzna_loader_reset: epoch: the last one is 2^64 - 2");
        CHECK_EQ(bzna_loader_reset(loader, UINT64_MAX - 1, NULL), BZNA_OK);
    }
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

TEST(memory_that_is_given_for_two_batches_is_refused)
{
    enum { BYTES = 3 * SIDE * SIDE };
    static _Alignas(64) uint8_t memory[3 * BYTES];
    bzna_buffer buffers[3];
    bzna_dataset *dataset = records_open();
    bzna_loader_config c = config_of(1);
    bzna_loader *loader = NULL;
    c.output.buffers = buffers;
    c.output.buffer_count = 3;
    for (int i = 0; i < 3; i++)
        buffers[i] = (bzna_buffer){ memory + i * BYTES, sizeof memory - (size_t)i * BYTES };
    CHECK_EQ(bzna_loader_open(context, dataset, &c, &loader, NULL), BZNA_OK);       /* as parts of one block */
    bzna_loader_close(loader);
    buffers[2].data = memory;
    refused(&c, BZNA_E_ARGUMENT, "loader_config.output.buffers[2]: overlaps buffers[0]");
    buffers[2].data = memory + 2 * BYTES - 4;
    refused(&c, BZNA_E_ARGUMENT, "loader_config.output.buffers[2]: overlaps buffers[1]");
    bzna_dataset_close(dataset);
}

static bzna_status no_make(void *user, const bzna_make_input *input, bzna_error *err)
{
    (void)user, (void)input, (void)err;
    return BZNA_OK;
}

TEST(names_that_are_not_utf8_are_refused)
{
    static const char *const good[] = { "", "a", "\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf",
                                        "\xee\x80\x80", "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf",
                                        "\xc3\xa9t" };
    static const char *const bad[] = { "\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc2", "\xc2\x41", "\xc2\xc2",
                                       "\xe0\x80\x80", "\xe0\x9f\xbf", "\xe1\x80", "\xed\xa0\x80", "\xed\xbf\xbf",
                                       "\xf0\x80\x80\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80",
                                       "\xf8\x88\x80\x80\x80", "\xff", "a\xf0\x90\x80" };
    bzna_loader_output mask;
    bzna_loader_config c = config_of(1);
    for (size_t i = 0; i < COUNT(good); i++)
        CHECK_EQ(bzi_text_is_utf8(good[i]), 1);
    for (size_t i = 0; i < COUNT(bad); i++) {
        const bzna_dataset_config named = { .struct_size = sizeof named, .name = bad[i] };
        const bzna_dataset_config target = { .struct_size = sizeof target, .target = bad[i] };
        bzna_dataset *dataset = NULL;
        bzna_error e = { 0 };
        CHECK_EQ(bzi_text_is_utf8(bad[i]), 0);
        CHECK_EQ(bzna_dataset_open(context, "tests", &named, &dataset, &e), BZNA_E_ARGUMENT);
        CHECK_STR(e.message, "dataset_config.name: is not UTF-8");
        CHECK_EQ(bzna_dataset_open(context, "tests", &target, &dataset, &e), BZNA_E_ARGUMENT);
        CHECK_STR(e.message, "dataset_config.target: is not UTF-8");
    }
    c.fields.image = "\xff";
    refused(&c, BZNA_E_ARGUMENT, "loader_config.fields.image: is not UTF-8");
    c.fields.image = NULL;
    c.extra_outputs.ptr = &mask;
    c.extra_outputs.count = 1;
    mask = mask_of("m\xff", "image");
    refused(&c, BZNA_E_ARGUMENT, "loader_config.extra_outputs[0].name: is not UTF-8");
    mask = mask_of("m", "\xff");
    refused(&c, BZNA_E_ARGUMENT, "loader_config.extra_outputs[0].field: is not UTF-8");
    c.extra_outputs.count = 0;
    c.extra_outputs.ptr = NULL;
    bzna_made made = { .name = "\xc3" };
    c.fields.made = &made;
    c.fields.made_count = 1;
    refused(&c, BZNA_E_ARGUMENT, "fields.make, made_count: one is given without the other");
    c.fields.make = no_make;
    refused(&c, BZNA_E_ARGUMENT, "loader_config.fields.made[0]: name: must have 1 to 31 bytes of UTF-8");
    made.name = "a";
    made.zero = 2;
    refused(&c, BZNA_E_ARGUMENT, "loader_config.fields.made[0]: zero: neither 0 nor 1");
    made.zero = 0;
    made.dtype = BZNA_DTYPE_FLOAT16;
    refused(&c, BZNA_E_UNSUPPORTED, "loader_config.fields.made[0]: dtype: 1; only float32, uint8, int32 and int64");
    made.dtype = BZNA_DTYPE_UINT8;
    made.reserved[1] = 1;
    refused(&c, BZNA_E_STRUCT_SIZE, "loader_config.fields.made[0]: reserved[1]: a reserved word must be 0");
    made.reserved[1] = 0;
    made.reserved0 = 1;
    refused(&c, BZNA_E_STRUCT_SIZE, "loader_config.fields.made[0]: reserved0: a reserved word must be 0");
    made.reserved0 = 0;
    made.dimensions = 5;
    refused(&c, BZNA_E_ARGUMENT, "loader_config.fields.made[0]: dimensions: 5; at most 4");
}

/* Sets one word after the other of an array, and sees it named. */
#define RESERVED(c, member)                                                                     \
    for (size_t i = 0; i < sizeof (c).member / sizeof *(c).member; i++) {                       \
        char text[96];                                                                          \
        (c).member[i] = 1ull << 63;                                                             \
        snprintf(text, sizeof text, "loader_config." #member "[%u]: a reserved word must be 0", (unsigned)i); \
        refused(&(c), BZNA_E_STRUCT_SIZE, text);                                                \
        (c).member[i] = 0;                                                                      \
    }

TEST(a_reserved_word_that_is_set_is_named)
{
    bzna_loader_config c = config_of(1);
    RESERVED(c, output.reserved) RESERVED(c, order.reserved) RESERVED(c, shard.reserved) RESERVED(c, warp.reserved)
    RESERVED(c, filter.reserved) RESERVED(c, color.reserved) RESERVED(c, color.jitter.reserved)
    RESERVED(c, fields.reserved) RESERVED(c, read.reserved) RESERVED(c, decode.reserved) RESERVED(c, errors.reserved)
    RESERVED(c, pipeline.reserved) RESERVED(c, extra_outputs.reserved)
    c.reserved0 = 1;
    refused(&c, BZNA_E_STRUCT_SIZE, "loader_config.reserved0: a reserved word must be 0");
    c.reserved0 = 0;
    c.warp.mxnet.reserved0 = 1;
    refused(&c, BZNA_E_STRUCT_SIZE, "loader_config.warp.mxnet.reserved0: a reserved word must be 0");
}

TEST(a_picture_sits_left_or_not)
{
    static const uint8_t plane[SIDE * SIDE];
    static uint8_t out[3 * SIDE * SIDE];
    const bzna_output shape = { .struct_size = sizeof shape, .width = SIDE, .height = SIDE,
                                .dtype = BZNA_DTYPE_UINT8 };
    bzna_picture p = { .struct_size = sizeof p, .width = SIDE, .height = SIDE, .plane = { plane }, .pitch = { SIDE } };
    bzna_transform t;
    bzna_error e = { 0 };
    bzna_transform_init(&t, sizeof t);
    CHECK_EQ(bzna_picture_render(&p, &t, &shape, out, sizeof out, &e), BZNA_OK);
    p.chroma_left = 2;
    CHECK_EQ(bzna_picture_render(&p, &t, &shape, out, sizeof out, &e), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(e.message, "picture.chroma_left: neither 0 nor 1");
    p.chroma_left = 1;
    p.chroma_top = UINT32_MAX;
    CHECK_EQ(bzna_picture_render(&p, &t, &shape, out, sizeof out, &e), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(e.message, "picture.chroma_top: neither 0 nor 1");
}

TEST(an_empty_path_is_not_found)
{
    static const char *const paths[] = { "tests/data", "" };
    bzna_dataset *dataset = NULL;
    bzna_error e = { 0 };
    CHECK_EQ(bzna_dataset_open(context, "", NULL, &dataset, &e), BZNA_E_NOT_FOUND);
    CHECK_STR(e.message, "the path is empty");
    CHECK_EQ(bzna_dataset_open_list(context, paths, 2, NULL, &dataset, &e), BZNA_E_NOT_FOUND);
    CHECK_STR(e.message, "path 1 is empty");
    CHECK(!dataset);
#ifndef BENZINA_NO_WRITER
    bzna_writer *writer = NULL;
    CHECK_EQ(bzna_writer_open(context, "", NULL, &writer, &e), BZNA_E_NOT_FOUND);
    CHECK_CONTAINS(e.message, "the path is empty");
    CHECK(!writer);
#endif
}

TEST(an_archive_is_not_of_the_format_tar)
{
    const bzna_dataset_config config = { .struct_size = sizeof config, .format = "tar" };
    bzna_dataset *dataset = NULL;
    bzna_error e = { 0 };
    CHECK_EQ(bzna_dataset_open(context, "tests/data/mini_h265.bzna", &config, &dataset, &e), BZNA_E_FORMAT);
    CHECK_CONTAINS(e.message, "dataset_config.format: the file is not of the format \"tar\"");
    CHECK(!dataset);
}

TEST(a_thread_that_cannot_start_names_its_setting_and_its_processor)
{
    static const int32_t cpus[2] = { 0, 1023 };
    bzna_loader_config c = config_of(1);
    c.decode.threads = c.read.threads = 1;
    c.pipeline.cpus = cpus;
    c.pipeline.cpu_count = 2;
    refused(&c, BZNA_E_THREAD, "loader_config.read.threads: cannot start reader thread 1 of the loader on processor "
                               "1023 (pipeline.cpus): ");
    c.pipeline.cpus = cpus + 1;
    c.pipeline.cpu_count = 1;
    refused(&c, BZNA_E_THREAD, "loader_config.decode.threads: cannot start decoder thread 0 of the loader on processor "
                               "1023 (pipeline.cpus): ");
}

TEST(a_build_without_mxnet_refuses_its_warp_and_its_colors)
{
    const bzna_warp warp = { .kind = BZNA_WARP_MXNET };
    const bzna_mxnet colors[] = { { .hls = { 0, 1, 0 } }, { .contrast = 0.5f }, { .illumination = 1 },
                                  { .clamp_hue = 1 } };
    const bzna_jitter jitter = { .hue = { 0.1f, 0.2f } };
    bzna_transform t;
    bzna_random random;
    bzna_error e = { 0 };
    double h[9];
#ifdef BENZINA_NO_MXNET
    const bzna_status expected = BZNA_E_UNSUPPORTED;
    bzna_loader_config c = config_of(1);
    c.warp = warp;
    refused(&c, expected, "loader_config.warp: this build has nothing of MXNet's (BENZINA_NO_MXNET)");
    memset(&c.warp, 0, sizeof c.warp);
    c.warp.mxnet = colors[0];
    refused(&c, expected, "loader_config.warp: this build has nothing of MXNet's (BENZINA_NO_MXNET)");
#else
    const bzna_status expected = BZNA_OK;
#endif
    bzna_random_init(&random, 1, 2, 3, 4);
    bzna_transform_init(&t, sizeof t);
    CHECK_EQ(bzna_warp_draw(&random, &warp, 30, 20, 10, 10, h, &e), expected);
    for (size_t i = 0; i < COUNT(colors); i++)
        CHECK_EQ(bzna_jitter_draw(&random, &jitter, &colors[i], &t, &e), expected);
    CHECK_EQ(bzna_jitter_draw(&random, &jitter, NULL, &t, &e), BZNA_OK);
}

/* A folder that has gone between two looks at it is one that cannot be listed. */
TEST(a_folder_that_cannot_be_listed_is_named_once)
{
    bzi_arena arena = { .memory = &context->host->memory };
    bzi_walk walk = { .root = TEST_BUILD "/tests", .extensions = " ppm ", .files.arena = &arena };
    bzna_error e = { 0 };
    CHECK_EQ(bzi_walk_list(&walk, "nowhere", 1, &e), BZNA_E_IO);
    CHECK(!strncmp(e.message, "nowhere: cannot list: ", 22));
    walk.root = TEST_BUILD "/tests/nowhere";
    CHECK_EQ(bzi_walk_list(&walk, "", 1, &e), BZNA_E_IO);
    CHECK(!strncmp(e.message, "cannot list: ", 13));
    bzi_walk_free(&walk);
    bzi_arena_free(&arena);
}

TEST(init_of_nothing_does_nothing)
{
    bzna_error_init(NULL, 0);
    bzna_error_init(NULL, sizeof(bzna_error));
    bzna_random_init(NULL, 1, 2, 3, 4);
#define INIT(name) bzna_##name##_init(NULL, sizeof(bzna_##name));
    INIT(source) INIT(provider) INIT(context_config) INIT(image) INIT(dataset_config)
    INIT(loader_config) INIT(writer_config) INIT(field_value)
    INIT(writer_sample) INIT(transform) INIT(formats_config)
    bzna_formats_records_init(NULL, sizeof(bzna_records));
}

/* What the header says of a second release: it is noticed until the batch is lent again. Batches are lent in turn. */
TEST(a_second_release_is_noticed_until_the_batch_is_lent_again)
{
    bzna_dataset *dataset = records_open();
    bzna_loader_config c = config_of(1);
    bzna_loader *loader = NULL;
    bzna_batch *batches[4] = { NULL };
    c.order.epochs = 2;
    CHECK_EQ(bzna_loader_open(context, dataset, &c, &loader, NULL), BZNA_OK);
    for (int i = 0; i < 3; i++) {                           /* batches_in_flight is 3 */
        CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batches[i], NULL), BZNA_OK);
        for (int k = 0; k < i; k++)
            CHECK(batches[i] != batches[k]);
        CHECK_EQ(bzna_batch_release(batches[i]), BZNA_OK);
        for (int k = 0; k <= i; k++)
            CHECK_EQ(bzna_batch_release(batches[k]), BZNA_E_STATE);
    }
    CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batches[3], NULL), BZNA_OK);
    CHECK(batches[3] == batches[0]);
    CHECK_EQ(bzna_batch_release(batches[1]), BZNA_E_STATE);
    CHECK_EQ(bzna_batch_release(batches[3]), BZNA_OK);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

TEST_MAIN(
    CHECK_EQ(bzna_context_open(NULL, &context, NULL), BZNA_OK);
    RUN(a_timeout_that_is_negative_and_not_forever_is_refused)
    RUN(the_last_epoch_is_2_to_the_64_less_2)
    RUN(memory_that_is_given_for_two_batches_is_refused)
    RUN(names_that_are_not_utf8_are_refused)
    RUN(a_build_without_mxnet_refuses_its_warp_and_its_colors)
    RUN(a_reserved_word_that_is_set_is_named)
    RUN(a_picture_sits_left_or_not)
    RUN(an_empty_path_is_not_found)
    RUN(an_archive_is_not_of_the_format_tar)
    RUN(a_thread_that_cannot_start_names_its_setting_and_its_processor)
    RUN(a_folder_that_cannot_be_listed_is_named_once)
    RUN(init_of_nothing_does_nothing)
    RUN(a_second_release_is_noticed_until_the_batch_is_lent_again)
    bzna_context_close(context);
)
#endif
