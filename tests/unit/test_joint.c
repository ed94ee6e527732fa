/* Pictures of one sample that are warped alike: masks, depth, two cameras. Wherever a sample comes from - a tar, an
 * archive, folders that are pairs - its mask shows what its picture shows. The oracle is the picture itself. It is made
 * of blocks whose brightness says their class, so that each output pixel says which class its mask must have. */
#include "library.h"
#include "with_formats.h"
#include "test.h"
#include "masks.h"
#include "../../examples/formats/data.h"

#if defined(BENZINA_NO_AVCODEC) || defined(BENZINA_NO_WRITER) || defined(BENZINA_NO_SHARDS)
TEST(a_mask_shows_what_its_picture_shows) { SKIP("built without libavcodec, tar or the writer [libavcodec-dev]"); }
TEST_MAIN(RUN(a_mask_shows_what_its_picture_shows))
#else

#include "archives.h"
#include "sink.h"
#include "tars.h"
#include <libavcodec/avcodec.h>

#define TOP TEST_BUILD "/tests/joint"

enum { SAMPLES = 7, EDGE = 16, ACROSS = 4, DOWN = 3, WIDTH = ACROSS * EDGE, HEIGHT = DOWN * EDGE, STEP = 40 };
enum { BY_TAR, BY_ARCHIVE, BY_PAIRS, KINDS };

static const char *const kinds[KINDS] = { "a tar", "an archive", "pairs of folders" };
static const char *const masks[KINDS] = { "mask.pgm", "mask", "masks" };

static bzna_context *context;
static tar shard;
static memory_sink archived;

/* ---- Samples ---- */

/* The class of a block. */
static int class_at(int i, int x, int y) { return 1 + (x + ACROSS * y + i) % 6; }

/* Mask i: where i is odd, at half the picture's size. Returns its bytes. */
static size_t mask_make(int i, uint8_t *bytes)
{
    const int edge = i % 2 ? EDGE / 2 : EDGE, width = ACROSS * edge, height = DOWN * edge;
    size_t size = (size_t)sprintf((char *)bytes, "P5\n%d %d\n255\n", width, height);
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            bytes[size++] = (uint8_t)class_at(i, x / edge, y / edge);
    return size;
}

/* Depth i: (x + 64 y) * 21 + i, in 16 bits. */
static size_t depth_make(int i, uint8_t *bytes)
{
    size_t size = (size_t)sprintf((char *)bytes, "P5\n%d %d\n65535\n", WIDTH, HEIGHT);
    for (int k = 0; k < WIDTH * HEIGHT; k++) {
        bytes[size++] = (uint8_t)((k * 21 + i) >> 8);
        bytes[size++] = (uint8_t)(k * 21 + i);
    }
    return size;
}

/* Picture i, a JPEG of gray blocks. Returns its bytes. */
static size_t picture_make(int i, uint8_t *bytes, size_t room)
{
    AVCodecContext *encoder = avcodec_alloc_context3(avcodec_find_encoder(AV_CODEC_ID_MJPEG));
    AVFrame *f = av_frame_alloc();
    AVPacket *packet = av_packet_alloc();
    size_t size;
    encoder->width = f->width = WIDTH;
    encoder->height = f->height = HEIGHT;
    encoder->pix_fmt = f->format = AV_PIX_FMT_YUV444P;
    encoder->color_range = f->color_range = AVCOL_RANGE_JPEG;
    encoder->time_base = (AVRational){ 1, 25 };
    encoder->flags |= AV_CODEC_FLAG_QSCALE;
    encoder->global_quality = f->quality = 2 * FF_QP2LAMBDA;
    encoder->thread_count = 1;
    if (avcodec_open2(encoder, NULL, NULL) < 0 || av_frame_get_buffer(f, 0) < 0)
        abort();
    for (int p = 0; p < 3; p++)
        for (int y = 0; y < HEIGHT; y++)
            for (int x = 0; x < WIDTH; x++)
                f->data[p][y * f->linesize[p] + x] = (uint8_t)(p ? 128 : STEP * class_at(i, x / EDGE, y / EDGE));
    f->pts = 0;
    if (avcodec_send_frame(encoder, f) < 0 || avcodec_receive_packet(encoder, packet) < 0 ||
        (size_t)packet->size > room)
        abort();
    memcpy(bytes, packet->data, size = (size_t)packet->size);
    av_packet_free(&packet);
    av_frame_free(&f);
    avcodec_free_context(&encoder);
    return size;
}

static void spill(const char *name, const uint8_t *bytes, size_t size)
{
    char path[256];
    FILE *f;
    snprintf(path, sizeof path, TOP "/%s", name);
    f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, size, f) != size || fclose(f))
        exit(1);
}

static void archive_add(bzna_writer *writer, const uint8_t *jpeg, size_t size, const uint8_t *mask, size_t mask_size,
                        const uint8_t *depth, size_t depth_size)
{
    bzna_image image = { .struct_size = sizeof image, .codec = BZNA_CODEC_JPEG, .data = jpeg, .data_size = size };
    const bzna_field_value fields[2] = {
        { sizeof *fields, BZNA_FIELD_IMAGE, "mask", mask, mask_size },
        { sizeof *fields, BZNA_FIELD_IMAGE, "depth", depth, depth_size },
    };
    const bzna_writer_sample sample = { .struct_size = sizeof sample, .image = &image, .fields = fields,
                                        .field_count = 2 };
    bzna_error e = { .struct_size = sizeof e };
    if (bzna_writer_add(writer, BZNA_INDEX_NEXT, &sample, 0, &e) != BZNA_OK) {
        printf("  %s\n", e.message);
        exit(1);
    }
}

static void samples_make(void)
{
    static uint8_t jpeg[1 << 16], mask[1 << 13], depth[1 << 14];
    bzna_sink sink = sink_of(&archived);
    bzna_writer *writer = NULL;
    char name[64];
    if (system("rm -rf '" TOP "' && mkdir -p '" TOP "/images' '" TOP "/masks' '" TOP "/far/depth'"))
        exit(1);
    require(bzna_writer_open_sink(context, &sink, NULL, &writer, NULL), "writer");
    for (int i = 0; i < SAMPLES; i++) {
        const size_t size = picture_make(i, jpeg, sizeof jpeg), mask_size = mask_make(i, mask),
                     depth_size = depth_make(i, depth);
        snprintf(name, sizeof name, "%d.jpg", i);
        tar_file(&shard, name, jpeg, size);
        snprintf(name, sizeof name, "%d.mask.pgm", i);
        tar_file(&shard, name, mask, mask_size);
        snprintf(name, sizeof name, "%d.depth.pgm", i);
        tar_file(&shard, name, depth, depth_size);
        snprintf(name, sizeof name, "images/%d.jpg", i);
        spill(name, jpeg, size);
        snprintf(name, sizeof name, "masks/%d.pgm", i);
        spill(name, mask, mask_size);
        snprintf(name, sizeof name, "far/depth/%d.pgm", i);
        spill(name, depth, depth_size);
        archive_add(writer, jpeg, size, mask, mask_size, depth, depth_size);
    }
    tar_end(&shard);
    require(bzna_writer_finish(writer, NULL), "finish");
    bzna_writer_close(writer);
}

static bzna_dataset *open_kind(int kind)
{
    const bzna_formats_config config = { .struct_size = sizeof config, .pairs = "images,masks,depth=far/depth" };
    bzna_dataset *dataset = NULL;
    bzna_error e = { .struct_size = sizeof e };
    bzna_status status;
    status = kind == BY_PAIRS ? bzna_formats_open(context, TOP, &config, &dataset, &e) :
             kind == BY_TAR   ? bzna_dataset_open_memory(context, shard.bytes, shard.size, NULL, &dataset, &e) :
                                bzna_dataset_open_memory(context, archived.data, archived.size, NULL, &dataset, &e);
    if (status != BZNA_OK) {
        printf("  %s: %s\n", kinds[kind], e.message);
        exit(1);
    }
    return dataset;
}

/* ---- Loaders ---- */

enum { OUT_WIDTH = 50, OUT_HEIGHT = 38, OUT = OUT_WIDTH * OUT_HEIGHT };

static bzna_loader_config config_of(bzna_loader_output *extra, uint64_t count)
{
    bzna_loader_config c = { .struct_size = sizeof c };
    c.output.batch_size = 3;
    c.output.width = OUT_WIDTH;
    c.output.height = OUT_HEIGHT;
    c.output.dtype = BZNA_DTYPE_UINT8;
    c.output.channels = BZNA_CHANNELS_GRAY;
    c.output.device.kind = BZNA_DEVICE_CPU;
    c.extra_outputs.ptr = extra;
    c.extra_outputs.count = count;
    c.order.kind = BZNA_ORDER_SHUFFLE;
    c.order.seed = 5;
    c.order.epochs = 3;
    c.filter.kind = BZNA_FILTER_NEAREST;
    c.fields.image = "image";
    c.warp = (bzna_warp){ .kind = BZNA_WARP_SIMILARITY, .scale = { 0.3, 1.2 }, .degrees = { -40, 40 }, .flip_h = 0.5,
                          .flip_v = 0.5, .random_crop = 1, .perspective = 0.4 };
    c.decode.threads = 2;
    return c;
}

static bzna_loader *loader_of(bzna_dataset *dataset, const bzna_loader_config *c)
{
    bzna_loader *loader = NULL;
    bzna_error e = { .struct_size = sizeof e };
    if (bzna_loader_open(context, dataset, c, &loader, &e) != BZNA_OK) {
        printf("  %s\n", e.message);
        exit(1);
    }
    return loader;
}

static const void *tensor_of(const bzna_batch *batch, const char *name, uint32_t dtype)
{
    bzna_tensor tensor = { .struct_size = 0 };
    CHECK_EQ(bzna_batch_tensor(batch, name, &tensor, sizeof tensor, NULL), BZNA_OK);
    CHECK_EQ(tensor.dtype, dtype);
    CHECK_EQ(tensor.shape[tensor.dimensions - 2], OUT_HEIGHT);
    return tensor.data;
}

/* ---- Tests ---- */

TEST(a_mask_shows_what_its_picture_shows)
{
    for (int kind = 0; kind < KINDS; kind++) {
        bzna_loader_output mask;
        bzna_loader_config c = config_of(&mask, 1);
        bzna_dataset *dataset = open_kind(kind);
        uint64_t wrong[2] = { 0, 0 }, pixels[2] = { 0, 0 }, outside = 0, met[7] = { 0 };
        bzna_batch *batch;
        bzna_loader *loader;
        mask = mask_of("mask", masks[kind]);
        loader = loader_of(dataset, &c);
        while (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
            bzna_batch_info info = { .struct_size = sizeof info };
            const uint8_t *shown, *classes;
            bzna_batch_get_info(batch, &info, sizeof info, NULL);
            CHECK_EQ(info.failed, 0);
            shown = tensor_of(batch, "image", BZNA_DTYPE_UINT8);
            classes = tensor_of(batch, "mask", BZNA_DTYPE_UINT8);
            for (uint32_t k = 0; k < info.count * OUT; k++) {
                const int halved = info.indices[k / OUT] % 2 != 0;
                const int class = (shown[k] + STEP / 2) / STEP;
                wrong[halved] += class != classes[k];
                pixels[halved]++;
                outside += class == 0;
                met[classes[k] % 7]++;
            }
            bzna_batch_release(batch);
        }
        bzna_loader_close(loader);
        bzna_dataset_close(dataset);
        CHECK_EQ(pixels[0], 3 * 4 * OUT);
        CHECK_EQ(wrong[0], 0);
        CHECK(wrong[1] <= pixels[1] / 1000);                /* of half size: places between two pixels may be rounded */
        CHECK(outside > 0 && outside < (pixels[0] + pixels[1]) / 2);
        for (int i = 0; i < 7; i++)
            CHECK(met[i] > 0);
        if (wrong[0] || wrong[1])
            printf("  %s: %d and %d wrong pixels\n", kinds[kind], (int)wrong[0], (int)wrong[1]);
    }
}

/* One batch of masks, with and without color jitter of pictures, and with the fill 0 that they have by default. */
TEST(a_mask_has_no_jitter_and_its_own_fill_and_size)
{
    uint8_t first[3 * OUT];
    for (int jittered = 0; jittered < 3; jittered++) {
        bzna_loader_output mask;
        bzna_loader_config c = config_of(&mask, 1);
        bzna_loader_color own = { .fill = { 255, 255, 255 } };
        bzna_dataset *dataset = open_kind(BY_PAIRS);
        bzna_batch *batch = NULL;
        bzna_loader *loader;
        const uint8_t *classes;
        uint64_t filled = 0;
        mask = mask_of("mask", "masks");
        if (jittered < 2)
            mask.color = &own;
        if (jittered) {
            c.color.jitter.brightness[0] = 0.2f;
            c.color.jitter.brightness[1] = 0.4f;
            c.color.mean[0] = 100;
            c.color.std[0] = 7;
            c.filter.kind = BZNA_FILTER_CUBIC;
        }
        loader = loader_of(dataset, &c);
        REQUIRE(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK);
        classes = tensor_of(batch, "mask", BZNA_DTYPE_UINT8);
        for (int k = 0; k < 3 * OUT; k++) {
            const int is_filled = classes[k] == (jittered < 2 ? 255 : 0);
            CHECK(is_filled || (classes[k] >= 1 && classes[k] <= 6));
            CHECK(!jittered || is_filled == (first[k] == 255));
            filled += (uint64_t)is_filled;
        }
        CHECK(filled > 0);
        if (jittered == 1)
            CHECK(!memcmp(first, classes, sizeof first));
        if (!jittered)
            memcpy(first, classes, sizeof first);
        bzna_batch_release(batch);
        bzna_loader_close(loader);
        bzna_dataset_close(dataset);
    }
}

TEST(depth_of_16_bits_keeps_its_units)
{
    static const char *const fields[KINDS] = { "depth.pgm", "depth", "depth" };
    for (int kind = 0; kind < KINDS; kind++) {
        bzna_loader_output depth;
        const bzna_loader_color units = { .scale = { 257, 0, 0 } };
        bzna_loader_config c = config_of(&depth, 1);
        bzna_dataset *dataset = open_kind(kind);
        bzna_loader *loader;
        bzna_batch *batch = NULL;
        uint64_t wrong = 0, count = 0;
        depth = mask_of("depth", fields[kind]);
        depth.dtype = BZNA_DTYPE_FLOAT32;
        depth.color = &units;
        c.warp = (bzna_warp){ .kind = BZNA_WARP_NONE };      /* the picture's middle, pixel by pixel */
        loader = loader_of(dataset, &c);
        while (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
            bzna_batch_info info = { .struct_size = sizeof info };
            const float *got = tensor_of(batch, "depth", BZNA_DTYPE_FLOAT32);
            bzna_batch_get_info(batch, &info, sizeof info, NULL);
            for (uint32_t k = 0; k < info.count * OUT; k++, count++) {
                const uint32_t x = k % OUT_WIDTH + (WIDTH - OUT_WIDTH) / 2, y = k % OUT / OUT_WIDTH +
                                                                                  (HEIGHT - OUT_HEIGHT) / 2;
                const double known = (double)(((x + WIDTH * y) * 21 + info.indices[k / OUT]) & 0xffff);
                wrong += !(fabs((double)got[k] - known) <= 0.02);
            }
            bzna_batch_release(batch);
        }
        bzna_loader_close(loader);
        bzna_dataset_close(dataset);
        CHECK_EQ(count, 3 * SAMPLES * OUT);
        CHECK_EQ(wrong, 0);
    }
}

/* A mask that is damaged costs its sample, and the message says which picture it was. */
TEST(a_damaged_mask_costs_its_sample_by_name)
{
    static const uint8_t damaged[] = "P5\n9 9\n255\nxx";
    static uint8_t whole[1 << 13];
    bzna_loader_output mask;
    bzna_loader_config c = config_of(&mask, 1);
    bzna_dataset *dataset = open_kind(BY_PAIRS);
    bzna_loader *loader;
    bzna_batch *batch = NULL;
    bzna_error e = { .struct_size = sizeof e };
    mask = mask_of("mask", "masks");
    c.order.kind = BZNA_ORDER_SEQUENTIAL;
    c.order.epochs = 2;
    for (int gone = 1; gone >= 0; gone--) {                 /* what was read once may be held */
        bzna_batch_info info = { .struct_size = sizeof info };
        if (gone)
            remove(TOP "/masks/1.pgm");
        else
            spill("masks/1.pgm", damaged, sizeof damaged - 1);
        loader = loader_of(dataset, &c);
        REQUIRE(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK);
        bzna_batch_get_info(batch, &info, sizeof info, NULL);
        CHECK_EQ(info.failed, 1);
        CHECK(bzna_batch_error(batch, 1, &e) < 0);
        CHECK_CONTAINS(e.message, gone ? "masks/1.pgm: " : "masks: ");
        CHECK_CONTAINS(e.message, "images/1.jpg");
        CHECK_EQ(info.status[1] == BZNA_E_IO, gone);
        bzna_batch_release(batch);
        bzna_loader_close(loader);
    }
    spill("masks/1.pgm", whole, mask_make(1, whole));
    bzna_dataset_close(dataset);
}

/* What is asked about single samples. */
TEST(pictures_of_a_sample_are_fields)
{
    static uint8_t buffer[1 << 17], known[1 << 13];
    for (int kind = 0; kind < KINDS; kind++) {
        bzna_dataset *dataset = open_kind(kind);
        bzna_sample_ref sample = { .struct_size = sizeof sample };
        bzna_image_info info = { .struct_size = sizeof info };
        bzna_image image;
        uint32_t found = 0;
        for (int i = 0; i < SAMPLES; i += 3) {
            const size_t size = mask_make(i, known);
            size_t needed = 0;
            bzna_image_init(&image, sizeof image);
            CHECK_EQ(bzna_dataset_sample(dataset, (uint64_t)i, &sample, sizeof sample, NULL), BZNA_OK);
            CHECK_EQ(bzna_dataset_field(dataset, (uint64_t)i, masks[kind], buffer, sizeof buffer, &needed, NULL),
                     BZNA_OK);
            CHECK(needed == size && !memcmp(buffer, known, size));
            CHECK_EQ(bzna_dataset_read_image(dataset, (uint64_t)i, masks[kind], buffer, (size_t)sample.size, &image,
                                             NULL), BZNA_OK);
            CHECK(image.data_size == size && !memcmp(image.data, known, size));
            CHECK_EQ(bzna_dataset_image_info(dataset, (uint64_t)i, masks[kind], &info, sizeof info, NULL), BZNA_OK);
            CHECK(info.width == (uint32_t)(i % 2 ? WIDTH / 2 : WIDTH) && info.codec >= BZNA_CODEC_OWN);
        }
        for (uint32_t k = 0; k < sample.image_count; k++)
            found += strcmp(sample.image_names[k], masks[kind]) == 0;
        CHECK_EQ(found, 1);
        CHECK_EQ(bzna_dataset_image_info(dataset, 0, "nothing", &info, sizeof info, NULL), BZNA_E_NOT_FOUND);
        bzna_dataset_close(dataset);
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    test_start(argv);
    require(bzna_context_open(NULL, &context, NULL), "context");
    samples_make();
    RUN(a_mask_shows_what_its_picture_shows)
    RUN(a_mask_has_no_jitter_and_its_own_fill_and_size)
    RUN(depth_of_16_bits_keeps_its_units)
    RUN(a_damaged_mask_costs_its_sample_by_name)
    RUN(pictures_of_a_sample_are_fields)
    tar_free(&shard);
    free(archived.data);
    bzna_context_close(context);
    printf("%s: %d passed, %d failed, %d skipped\n", __FILE__, test_passed, test_failed, test_skipped);
    return test_failed != 0;
}
#endif
