/* test_sessions.c - decoding on the device: every slot its own picture, whatever the driver does, and nothing left
 * behind.
 *
 * The driver is tests/fake's, which delays, fails and watches as a test tells it. The oracle is the library's pure
 * half: a slot must hold, to the bit, what bzna_picture_render makes of the picture that bzna_decoder decodes. Each
 * test ends without a violation of the driver's rules, and with nothing alive in it. */
#ifndef TEST_LINKED                   /* else the Makefile says so */
#  define BZI_NVDEC_DEADLINE_NS 3000000000u
#  define BZI_LOOK_NS 50000000u
#endif
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#ifdef _WIN32
#  define WIN32_LEAN_AND_MEAN
#  define NOGDI
#  include <windows.h>
#  include <process.h>
#endif

/* Of threads that are started from now on, this one is not; 0: all are. */
static atomic_int thread_that_fails;

static int is_thread_that_fails(void) { return thread_that_fails && --thread_that_fails == 0; }

#ifdef _WIN32
#  define _beginthreadex(with, size, run, argument, how, id) \
    (is_thread_that_fails() ? 0 : _beginthreadex(with, size, run, argument, how, id))
#else
int test_pthread_create(pthread_t *thread, const pthread_attr_t *with, void *(*run)(void *), void *user);
int test_pthread_create(pthread_t *thread, const pthread_attr_t *with, void *(*run)(void *), void *user)
{
    return is_thread_that_fails() ? EAGAIN : pthread_create(thread, with, run, user);
}
#  define pthread_create test_pthread_create
#endif
#include "library.h"
#undef _beginthreadex
#undef pthread_create
#include "test.h"

#if defined(BENZINA_NO_CUDA) || defined(BENZINA_NO_AVCODEC)
TEST(sessions_decode_on_the_fake_driver)
{
    SKIP("built without nv-codec-headers, clang or libavcodec [clang libffmpeg-nvenc-dev libavcodec-dev]");
}
TEST_MAIN(RUN(sessions_decode_on_the_fake_driver))
#else

#include "archives.h"
#include "../fake/watch.h"
#include "gate.h"
#include <libavcodec/bsf.h>
#include <libavutil/opt.h>
#include <sys/wait.h>

/* ---- Small things ------------------------------------------------------------------------------------------------ */

static uint64_t dice = 1;

static uint32_t roll(uint32_t sides)
{
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return (uint32_t)(dice >> 33) % sides;
}

static double seconds_since(uint64_t start) { return (double)(bzi_os_now_ns() - start) * 1e-9; }

/* Each test's first line. */
static void begin(const char *name)
{
    dice = 0x9e3779b97f4a7c15u;
    fake_begin(name, SANITIZED ? 300 : 100);
}
#define BEGIN begin(__func__ + 5)

/* Each test's last line, when its contexts are closed. */
static void finish(void) { fake_finish(); }

/* ---- Coded pictures ---------------------------------------------------------------------------------------------- */

enum { CODED = 64, SAMPLES = 512 };
static coded catalogue[CODED];
static int catalogued;
/* Numbers in the catalogue. plain: one frame size and format, different crops. fragile: H.264. sizes: other frame
 * sizes. formats: whatever NVDEC decodes. software: what it does not. */
static int plain[8], fragile[4], sizes[16], formats[24], software[12];
static int window_left, window_top;   /* of what is coded next, in its parameter sets */
static int more[2], more_count, plain_count, fragile_count, size_count, format_count, software_count, has_encoders;

/* A picture like no other, of any format: waves, blocks and a little noise. */
static void draw(AVFrame *frame, int number)
{
    const AVPixFmtDescriptor *format = av_pix_fmt_desc_get(frame->format);
    uint32_t noise = 12345u + (uint32_t)number * 77u;
    for (int p = 0; p < format->nb_components; p++) {
        int w = p ? -(-frame->width >> format->log2_chroma_w) : frame->width,
            h = p ? -(-frame->height >> format->log2_chroma_h) : frame->height;
        int depth = format->comp[p].depth, top = (1 << depth) - 1;
        for (int y = 0; y < h; y++)
            for (int x = 0; x < w; x++) {
                double v = 0.5 + 0.3 * sin(0.05 * (number + 2) * x + p) +
                           0.2 * cos(0.07 * (number % 5 + 1) * y + number);
                int value;
                noise = noise * 1664525u + 1013904223u;
                value = (int)(v * top) + ((x / 16 + y / 16 + number) % 3 - 1) * (top >> 4) +
                        (int)(noise >> 24) * top / 32768;
                value = value < 0 ? 0 : value > top ? top : value;
                if (depth > 8)
                    ((uint16_t *)(void *)(frame->data[p] + (ptrdiff_t)y * frame->linesize[p]))[x] = (uint16_t)value;
                else
                    frame->data[p][(ptrdiff_t)y * frame->linesize[p] + x] = (uint8_t)value;
            }
    }
}

/* One frame as one access unit with its parameter sets; NULL: there is no such encoder here. */
static AVPacket *encode(const char *name, enum AVPixelFormat format, int width, int height, int number)
{
    const AVCodec *codec = avcodec_find_encoder_by_name(name);
    AVCodecContext *encoder = codec ? avcodec_alloc_context3(codec) : NULL;
    AVFrame *frame = av_frame_alloc();
    AVPacket *packet = av_packet_alloc();
    int good = 0;
    if (encoder) {
        encoder->width = frame->width = width;
        encoder->height = frame->height = height;
        encoder->pix_fmt = format;
        frame->format = (int)format;
        encoder->time_base = (AVRational){ 1, 20 };
        encoder->thread_count = 1;
        encoder->log_level_offset = 64;
        av_opt_set(encoder->priv_data, "preset", "ultrafast", 0);
        av_opt_set_double(encoder->priv_data, "crf", 36, 0);
        av_opt_set(encoder->priv_data, "x265-params",
                   "log-level=none:pools=none:frame-threads=1:keyint=2:bframes=0:ref=1:rc-lookahead=0:cutree=0:info=0",
                   0);
        av_opt_set(encoder->priv_data, "x264-params", "keyint=1:bframes=0:ref=1:rc-lookahead=0:mbtree=0:threads=1", 0);
        if (av_frame_get_buffer(frame, 0) >= 0) {
            draw(frame, number);
            frame->pict_type = AV_PICTURE_TYPE_I;
            good = avcodec_open2(encoder, codec, NULL) >= 0 && avcodec_send_frame(encoder, frame) >= 0 &&
                   avcodec_send_frame(encoder, NULL) >= 0 && avcodec_receive_packet(encoder, packet) >= 0;
        }
    }
    avcodec_free_context(&encoder);
    av_frame_free(&frame);
    if (!good)
        av_packet_free(&packet);
    return packet;
}

/* Moves the window of a stream's parameter sets: so many luma samples are cut off left and top. */
static void set_window(AVPacket *packet, int h265, int left, int top)
{
    const AVBitStreamFilter *filter = av_bsf_get_by_name(h265 ? "hevc_metadata" : "h264_metadata");
    AVBSFContext *context = NULL;
    if (!filter || av_bsf_alloc(filter, &context) < 0)
        abort();
    context->par_in->codec_id = h265 ? AV_CODEC_ID_HEVC : AV_CODEC_ID_H264;
    av_opt_set_int(context->priv_data, "crop_left", left, 0);
    av_opt_set_int(context->priv_data, "crop_top", top, 0);
    if (av_bsf_init(context) < 0 || av_bsf_send_packet(context, packet) < 0 ||
        av_bsf_receive_packet(context, packet) < 0)
        abort();
    av_bsf_free(&context);
}

/* Codes a picture into the catalogue; its number, or -1. crop: left, top, width, height; NULL: all of the frame. */
static int catalogue_add(const char *encoder, enum AVPixelFormat format, int width, int height, const uint32_t *crop)
{
    AVPacket *packet = encode(encoder, format, width, height, catalogued);
    coded *c = &catalogue[catalogued];
    if (!packet)
        return -1;
    if (window_left || window_top) {
        set_window(packet, !strcmp(encoder, "libx265"), window_left, window_top);
        width -= window_left;
        height -= window_top;
    }
    memset(c, 0, sizeof *c);
    c->image.struct_size = sizeof c->image;
    c->image.codec = strcmp(encoder, "libx265") ? BZNA_CODEC_H264 : BZNA_CODEC_H265;
    c->image.width = crop ? crop[2] : (uint32_t)width;
    c->image.height = crop ? crop[3] : (uint32_t)height;
    c->image.crop_x = crop ? crop[0] : 0;
    c->image.crop_y = crop ? crop[1] : 0;
    c->memory = take_memory((size_t)packet->size);
    memcpy(c->memory, packet->data, (size_t)packet->size);
    c->image.data = c->memory;
    c->image.data_size = (uint64_t)packet->size;
    av_packet_free(&packet);
    return catalogued++;
}

static bzna_context *cpu_context(void)
{
    bzna_context_config config;
    bzna_context *context = NULL;
    bzna_context_config_init(&config, sizeof config);
    config.device.kind = BZNA_DEVICE_CPU;
    require(bzna_context_open(&config, &context, NULL), "a context");
    return context;
}

/* A picture of the archives in tests/data, for builds without encoders and for large frames. */
static int catalogue_load(uint32_t codec, uint64_t index, const char *track)
{
    bzna_context *context = cpu_context();
    catalogue[catalogued] = coded_load(context, codec, index, track);
    bzna_context_close(context);
    return catalogued++;
}

static void listed(int *list, int *count, int number)
{
    if (number >= 0)
        list[(*count)++] = number;
}

static void catalogue_make(void)
{
    static const uint32_t crops[][4] = { { 0, 0, 160, 144 },   { 0, 0, 101, 77 },  { 13, 7, 120, 90 },
                                         { 59, 43, 101, 101 }, { 1, 1, 159, 143 }, { 80, 40, 33, 97 } };
    has_encoders = avcodec_find_encoder_by_name("libx265") && avcodec_find_encoder_by_name("libx264");
    for (size_t i = 0; i < COUNT(crops) && has_encoders; i++)
        listed(plain, &plain_count, catalogue_add("libx265", AV_PIX_FMT_YUV420P, 160, 144, crops[i]));
    if (!has_encoders)
        for (uint64_t i = 0; i < 3; i++)
            listed(plain, &plain_count, catalogue_load(BZNA_CODEC_H265, (const uint64_t[]){ 4, 2, 5 }[i], NULL));
    if (has_encoders)
        for (int i = 0; i < 2; i++)
            listed(fragile, &fragile_count, catalogue_add("libx264", AV_PIX_FMT_YUV420P, 160, 144, crops[2 * i]));
    else
        listed(fragile, &fragile_count, catalogue_load(BZNA_CODEC_H264, 4, NULL));
    if (has_encoders) {
        static const int other[][2] = { { 144, 144 }, { 176, 152 }, { 240, 160 },
                                        { 152, 248 }, { 320, 200 }, { 264, 264 } };
        for (size_t i = 0; i < COUNT(other); i++)
            listed(sizes, &size_count, catalogue_add("libx265", AV_PIX_FMT_YUV420P, other[i][0], other[i][1], NULL));
        listed(more, &more_count, catalogue_add("libx265", AV_PIX_FMT_YUV420P, 192, 144, NULL));
        listed(more, &more_count, catalogue_add("libx265", AV_PIX_FMT_YUV420P, 208, 176, NULL));
        listed(sizes, &size_count, catalogue_add("libx264", AV_PIX_FMT_YUV420P, 64, 48, NULL));
        listed(sizes, &size_count, catalogue_add("libx264", AV_PIX_FMT_YUV420P, 208, 112, NULL));
        listed(formats, &format_count, catalogue_add("libx265", AV_PIX_FMT_YUV420P, 146, 150, NULL));
        listed(formats, &format_count,
               catalogue_add("libx265", AV_PIX_FMT_YUV420P, 170, 146, (const uint32_t[]){ 3, 5, 101, 99 }));
        listed(formats, &format_count, catalogue_add("libx265", AV_PIX_FMT_YUV420P10, 160, 144, NULL));
        listed(formats, &format_count,
               catalogue_add("libx265", AV_PIX_FMT_YUV420P10, 150, 158, (const uint32_t[]){ 7, 9, 131, 77 }));
        listed(formats, &format_count, catalogue_add("libx265", AV_PIX_FMT_YUV444P, 151, 147, NULL));
        listed(formats, &format_count,
               catalogue_add("libx265", AV_PIX_FMT_YUV444P, 176, 144, (const uint32_t[]){ 11, 1, 99, 143 }));
        listed(formats, &format_count, catalogue_add("libx265", AV_PIX_FMT_YUV444P10, 145, 155, NULL));
        listed(formats, &format_count, catalogue_add("libx265", AV_PIX_FMT_YUV420P12, 160, 152, NULL));
        listed(formats, &format_count,
               catalogue_add("libx265", AV_PIX_FMT_YUV444P12, 160, 144, (const uint32_t[]){ 0, 1, 97, 95 }));
        listed(formats, &format_count, catalogue_add("libx264", AV_PIX_FMT_YUV420P, 66, 50, NULL));
        listed(formats, &format_count,
               catalogue_add("libx264", AV_PIX_FMT_YUV420P, 130, 98, (const uint32_t[]){ 9, 3, 51, 61 }));
        /* as coded, 144 rows: the least there may be */
        listed(formats, &format_count, catalogue_add("libx265", AV_PIX_FMT_YUV420P, 168, 136, NULL));
        window_left = 8;
        window_top = 6;
        listed(formats, &format_count, catalogue_add("libx265", AV_PIX_FMT_YUV420P, 168, 152, NULL));
        listed(formats, &format_count,
               catalogue_add("libx265", AV_PIX_FMT_YUV420P10, 150, 158, (const uint32_t[]){ 5, 3, 101, 77 }));
        listed(formats, &format_count, catalogue_add("libx264", AV_PIX_FMT_YUV420P, 98, 82, NULL));
        window_left = 3;
        window_top = 5;
        listed(formats, &format_count, catalogue_add("libx265", AV_PIX_FMT_YUV444P, 160, 152, NULL));
        window_left = window_top = 0;
        listed(software, &software_count, catalogue_add("libx265", AV_PIX_FMT_YUV422P, 160, 144, NULL));
        listed(software, &software_count,
               catalogue_add("libx265", AV_PIX_FMT_YUV422P10, 176, 144, (const uint32_t[]){ 5, 3, 91, 99 }));
        listed(software, &software_count, catalogue_add("libx265", AV_PIX_FMT_GRAY8, 160, 144, NULL));
        listed(software, &software_count, catalogue_add("libx265", AV_PIX_FMT_YUV420P, 128, 96, NULL));
        listed(software, &software_count, catalogue_add("libx264", AV_PIX_FMT_YUV444P, 160, 144, NULL));
        listed(software, &software_count, catalogue_add("libx264", AV_PIX_FMT_YUV420P10, 160, 144, NULL));
        listed(software, &software_count, catalogue_add("libx264", AV_PIX_FMT_YUV420P, 32, 32, NULL));
    }
}

/* ---- Archives in memory ------------------------------------------------------------------------------------------ */

static bzna_dataset *archive_open(bzna_context *context, const archive *a)
{
    bzna_source source = archive_source(a);
    bzna_dataset *dataset = NULL;
    require(bzna_dataset_open_source(context, &source, NULL, &dataset, NULL), "a source");
    return dataset;
}

/* Sample i is picture list[i % list_count] of the catalogue. */
static archive *archive_make(uint64_t count, const int *list, int list_count)
{
    recipe r = { .count = count, .pictures = catalogue, .pattern = list, .pattern_count = (uint64_t)list_count,
                 .base = 17, .step = 1000003 };
    bzna_context *context = cpu_context();
    archive *a = take_memory(sizeof *a);
    *a = archive_build(context, &r);
    bzna_context_close(context);
    return a;
}

static void archive_free(archive *a)
{
    archive_clear(a);
    free(a);
}

/* A sample's picture; it is valid until the next call. */
static bzna_status archive_image(bzna_dataset *dataset, uint64_t index, bzna_image *image)
{
    static uint8_t buffer[1 << 18];
    image->struct_size = sizeof *image;
    return bzna_dataset_read_image(dataset, index, "bzna_input", buffer, sizeof buffer, image, NULL);
}

/* Decodes the catalogue from this number on into memory of its own. */
static void catalogue_decode(int first)
{
    int all[CODED] = { 0 }, count = catalogued - first;
    bzna_context *context = cpu_context();
    bzna_decoder *decoder = NULL;
    bzna_dataset *dataset;
    archive *a;
    for (int i = 0; i < count; i++)
        all[i] = first + i;
    a = archive_make((uint64_t)count, all, count);
    dataset = archive_open(context, a);
    require(bzna_decoder_open(context, &decoder, NULL), "a decoder");
    for (int i = 0; i < count; i++) {
        bzna_image image;
        require(archive_image(dataset, (uint64_t)i, &image), "a picture");
        coded_decode(&catalogue[first + i], decoder, &image);
    }
    bzna_decoder_close(decoder);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    archive_free(a);
}

/* Whether libavcodec says that a sample is damaged. The fake driver, which asks libavcodec, does not know of pictures
 * that it leaves incomplete without a word. */
static int is_refused(bzna_dataset *dataset, bzna_decoder *decoder, uint64_t index)
{
    bzna_image image;
    bzna_picture picture = { .struct_size = sizeof picture };
    bzna_error err = { .struct_size = sizeof err };
    bzna_status status = archive_image(dataset, index, &image);
    return status != BZNA_OK || (bzna_decoder_decode(decoder, &image, &picture, &err) != BZNA_OK &&
                                 !strstr(err.message, "incomplete"));
}

/* Damages a sample so that libavcodec, too, finds no picture. kind 0: the slice's data; 1: it ends early; 2: not a
 * slice; 3: a length of its units. */
static void archive_damage(archive *a, uint64_t index, int kind)
{
    bzna_context *context = cpu_context();
    bzna_dataset *dataset = archive_open(context, a);
    bzna_decoder *decoder = NULL;
    bzna_image_info image;
    uint8_t *unit;
    uint64_t length;
    require(bzna_dataset_image_info(dataset, index, "bzna_input", &image, sizeof image, NULL), "an image");
    unit = a->bytes + image.data_offset;
    length = image.data_size;
    require(bzna_decoder_open(context, &decoder, NULL), "a decoder");
    for (uint32_t attempt = 0; attempt < 8 && !is_refused(dataset, decoder, index); attempt++) {
        if (kind == 0)
            for (uint64_t i = length / 2; i < length; i += 1 + roll(9))
                unit[i] = (uint8_t)roll(256);
        if (kind == 1)
            memset(unit + length / 2, 0, (size_t)(length - length / 2));
        if (kind == 2 || attempt == 7)
            unit[4] = 0x7e;
        if (kind == 3)
            unit[0] ^= 0x40;
    }
    a->bad[index] = 1;
    CHECK(is_refused(dataset, decoder, index));
    bzna_decoder_close(decoder);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
}

/* ---- The model --------------------------------------------------------------------------------------------------- */

enum { WIDTH = 24, HEIGHT = 16, SLOT = 3 * WIDTH * HEIGHT, SLOT_MAX = SLOT * (int)sizeof(float), BATCH_MAX = 64 };

static bzna_loader_config config_of(uint32_t batch_size, int32_t output, uint32_t dtype)
{
    bzna_loader_config c;
    bzna_loader_config_init(&c, sizeof c);
    c.output.batch_size = batch_size;
    c.output.width = WIDTH;
    c.output.height = HEIGHT;
    c.order.kind = BZNA_ORDER_SHUFFLE;
    c.order.seed = 77;
    c.decode.threads = 2;
    c.warp.kind = BZNA_WARP_RANDOM_RESIZED_CROP;
    c.warp.flip_h = 0.5;
    c.filter.antialias = BZNA_ANTIALIAS_OFF;                /* widened filters take long without optimization */
    c.decode.decoder = BZNA_DECODER_NVDEC;
    c.output.device.kind = output ? output : BZNA_DEVICE_CUDA;
    c.output.dtype = dtype;
    for (int i = 0; i < 3; i++) {
        c.color.mean[i] = 120 + (float)i;
        c.color.std[i] = 57 - (float)i;
        c.color.fill[i] = 2.5f * (float)(i + 1);
    }
    c.color.fill_space = BZNA_FILL_OUTPUT;
    return c;
}

/* Where a loader stands. */
typedef struct run {
    const archive     *a;
    bzna_loader_config c;
    uint64_t           epoch, position;       /* of the next batch */
    int                may_fail;              /* samples of the archive that are whole may fail, too */
    uint64_t           failed, batches;
} run;

static int samples_may_fail;          /* of runs that begin now */

static run run_of(const archive *a, const bzna_loader_config *c)
{
    run r = { a, *c, c->order.first_epoch, 0, samples_may_fail, 0, 0 };
    return r;
}

static size_t slot_bytes(const run *r)
{
    const size_t channels = r->c.output.channels == BZNA_CHANNELS_GRAY ? 1 : 3;
    return channels * r->c.output.width * r->c.output.height * (const size_t[]){ 4, 2, 2, 1 }[r->c.output.dtype];
}

static void render(const run *r, const bzna_picture *picture, const bzna_transform *t, void *out)
{
    bzna_output output = { .struct_size = sizeof output,
                           .width = r->c.output.width,
                           .height = r->c.output.height,
                           .dtype = r->c.output.dtype,
                           .layout = r->c.output.layout,
                           .channels = r->c.output.channels };
    if (bzna_picture_render(picture, t, &output, out, slot_bytes(r), NULL) != BZNA_OK)
        abort();
}

static void transform_of(const run *r, bzna_transform *t)
{
    bzna_transform_init(t, sizeof *t);
    t->antialias = BZNA_ANTIALIAS_OFF;
    for (int i = 0; i < 3; i++) {
        t->bias[i] = r->c.color.mean[i];
        t->scale[i] = 1 / r->c.color.std[i];
        t->fill[i] = r->c.color.fill[i];
    }
    t->fill_space = r->c.color.fill_space;
}

/* A sample's slot by the pure functions. */
static void expected_slot(const run *r, uint64_t epoch, uint64_t index, uint32_t slot, void *out)
{
    const bzna_picture *picture = picture_of(r->a, index);
    bzna_transform t;
    bzna_random random;
    transform_of(r, &t);
    bzna_random_init(&random, r->c.order.seed, epoch, index, BZNA_RANDOM_WARP);
    if (bzna_warp_draw(&random, &r->c.warp, picture->width, picture->height, r->c.output.width, r->c.output.height,
                       t.homography, NULL) != BZNA_OK)
        abort();
    if (r->c.pipeline.transform) {
        bzna_sample_info info = { .struct_size = sizeof info,
                                  .slot = slot,
                                  .index = index,
                                  .epoch = epoch,
                                  .target = target_of(r->a, index),
                                  .width = picture->width,
                                  .height = picture->height,
                                  .out_width = r->c.output.width,
                                  .out_height = r->c.output.height };
        bzna_random_init(&random, r->c.order.seed, epoch, index, BZNA_RANDOM_USER);
        r->c.pipeline.transform(r->c.pipeline.transform_user, &info, &random, &t);
    }
    render(r, picture, &t, out);
}

/* What a failed slot holds: nothing of any picture. */
static void expected_fill(const run *r, void *out)
{
    bzna_transform t;
    transform_of(r, &t);
    t.homography[2] = 1e6;
    render(r, &catalogue[plain[0]].picture, &t, out);
}

static uint64_t index_at(const run *r, uint64_t epoch, uint64_t position)
{
    return r->c.order.kind == BZNA_ORDER_SHUFFLE ? bzna_order_permute(r->c.order.seed, epoch, r->a->count, position) :
                                                   position;
}

/* A batch as it was when it came: its arrays are written again once it is released. */
typedef struct seen {
    uint64_t    epoch, position;
    uint32_t    count;
    uint64_t    indices[BATCH_MAX];
    int64_t     targets[BATCH_MAX];
    bzna_status status[BATCH_MAX];
} seen;

static void check_slot(run *r, const seen *s, uint32_t slot, const uint8_t *data)
{
    uint8_t expected[SLOT_MAX], *larger = slot_bytes(r) > sizeof expected ? take_memory(slot_bytes(r)) : NULL,
                                *want = larger ? larger : expected;
    uint64_t position = s->position + slot, index = index_at(r, s->epoch, position), tries = 0;
    int right = 1;
    while (r->c.errors.on_error == BZNA_ON_ERROR_REPLACE &&
           (r->a->bad[index] || (r->may_fail && index != s->indices[slot])) && tries++ < 64) {
        position = (position + 1) % r->a->count;
        index = index_at(r, s->epoch, position);
    }
    right = s->indices[slot] == index && s->targets[slot] == target_of(r->a, index) &&
            (s->status[slot] == BZNA_OK || r->a->bad[index] || r->may_fail) &&
            !(s->status[slot] == BZNA_OK && r->a->bad[index]);
    r->failed += s->status[slot] != BZNA_OK;
    if (s->status[slot] != BZNA_OK)
        expected_fill(r, want);
    else
        expected_slot(r, s->epoch, index, slot, want);
    if (!right || memcmp(want, data, slot_bytes(r))) {
        test_failures++;
        printf("  %s: epoch %d, position %d, slot %d: index %d (%d), status %s, %s pixels\n", test_now, (int)s->epoch,
               (int)s->position, (int)slot, (int)s->indices[slot], (int)index, bzna_status_name(s->status[slot]),
               memcmp(want, data, slot_bytes(r)) ? "other" : "right");
    }
    free(larger);
}

static void check_slots(run *r, const seen *s, const void *data)
{
    for (uint32_t slot = 0; slot < s->count; slot++)
        check_slot(r, s, slot, (const uint8_t *)data + slot * slot_bytes(r));
}

/* Takes a batch's arrays; checks its place in the run, and moves the run on. */
static void see(run *r, const bzna_batch *batch, bzna_batch_info *info, seen *s)
{
    uint32_t failed = 0;
    memset(info, 0, sizeof *info);
    CHECK_EQ(bzna_batch_get_info(batch, info, sizeof *info, NULL), BZNA_OK);
    if (r->position == r->a->count) {
        r->epoch++;
        r->position = 0;
    }
    CHECK_EQ(info->epoch, r->epoch);
    CHECK_EQ(info->position, r->position);
    CHECK_EQ(info->count, bzi_min(r->c.output.batch_size, r->a->count - r->position));
    CHECK(info->image.device.kind == r->c.output.device.kind && info->image.device.ordinal == 0);
    CHECK_EQ(info->image.dtype, r->c.output.dtype);
    s->epoch = info->epoch;
    s->position = info->position;
    s->count = info->count;
    for (uint32_t i = 0; i < info->count; i++) {
        bzna_error e = { .struct_size = sizeof e };
        s->indices[i] = info->indices[i];
        s->targets[i] = info->targets[i];
        s->status[i] = info->status[i];
        failed += s->status[i] < 0;
        CHECK_EQ(bzna_batch_error(batch, i, &e), s->status[i]);
        CHECK(s->status[i] == BZNA_OK || e.message[0]);
    }
    CHECK_EQ(info->failed, failed);
    r->position += info->count;
    r->batches++;
}

/* ---- The driver, as a user of the library has it ----------------------------------------------------------------- */

typedef CUresult host_alloc_fn(void **host, size_t bytes, unsigned flags);
typedef CUresult host_free_fn(void *host);

static struct {
    tcuInit                   *init;
    tcuDevicePrimaryCtxRetain *retain;
    tcuDevicePrimaryCtxRelease *release;
    tcuCtxCreate_v2           *create;
    tcuCtxDestroy_v2          *destroy;
    tcuCtxPushCurrent_v2      *push;
    tcuCtxPopCurrent_v2       *pop;
    tcuMemAlloc_v2            *alloc;
    tcuMemFree_v2             *free;
    host_alloc_fn             *host_alloc;
    host_free_fn              *host_free;
    tcuMemcpyDtoHAsync_v2     *download;
    tcuStreamCreate           *stream;
    tcuStreamDestroy_v2       *stream_free;
    tcuStreamSynchronize      *stream_sync;
    tcuEventCreate            *event;
    tcuEventDestroy_v2        *event_free;
    tcuEventRecord            *record;
    tcuEventSynchronize       *event_sync;
} driver;

static void driver_load(void)
{
    const struct { const char *name; void *field; } symbols[] = {
        { "cuInit", &driver.init }, { "cuDevicePrimaryCtxRetain", &driver.retain },
        { "cuDevicePrimaryCtxRelease", &driver.release },
        { "cuCtxCreate_v2", &driver.create }, { "cuCtxDestroy_v2", &driver.destroy },
        { "cuCtxPushCurrent_v2", &driver.push },
        { "cuCtxPopCurrent_v2", &driver.pop }, { "cuMemAlloc_v2", &driver.alloc }, { "cuMemFree_v2", &driver.free },
        { "cuMemHostAlloc", &driver.host_alloc }, { "cuMemFreeHost", &driver.host_free },
        { "cuMemcpyDtoHAsync_v2", &driver.download },
        { "cuStreamCreate", &driver.stream }, { "cuStreamDestroy_v2", &driver.stream_free },
        { "cuStreamSynchronize", &driver.stream_sync },
        { "cuEventCreate", &driver.event }, { "cuEventDestroy_v2", &driver.event_free },
        { "cuEventRecord", &driver.record },
        { "cuEventSynchronize", &driver.event_sync } };
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; i < COUNT(symbols); i++) {
        void *symbol = library ? dlsym(library, symbols[i].name) : NULL;
        if (!symbol)
            abort();
        memcpy(symbols[i].field, &symbol, sizeof symbol);
    }
}

static CUcontext users_context;       /* what contexts of the library were given; NULL: they use the primary one */

/* Makes the context current in which the library works on a device; 0: the device is lost. */
static int enter(int device)
{
    CUcontext context = users_context;
    if (!context && (driver.init(0) != CUDA_SUCCESS || driver.retain(&context, device) != CUDA_SUCCESS))
        return 0;
    if (driver.push(context) == CUDA_SUCCESS)
        return 1;
    if (!users_context)
        driver.release(device);
    return 0;
}

static void leave(int device)
{
    CUcontext popped;
    driver.pop(&popped);
    if (!users_context)
        driver.release(device);
}

static CUresult wait_for(int device, void *stream)
{
    CUresult result = (CUresult)1;
    if (enter(device)) {
        result = driver.stream_sync(stream);
        leave(device);
    }
    return result;
}

/* ---- Consumers --------------------------------------------------------------------------------------------------- */

/* How batches are read. HOST: where they lie. SYNCED: on the device, once its stream is done. QUEUED: copied to the
 * host on their own stream and released at once; read much later. GIVEN: the same on a stream of ours. MOVED: the same,
 * but moved to a stream of ours. */
enum { HOST, SYNCED, QUEUED, GIVEN, MOVED, CONSUMERS };
enum { KEPT = 5 };

typedef struct kept {
    seen    s;
    void   *pinned;
    CUevent copied;
    int     used;
} kept;

typedef struct consumer {
    int      kind;
    CUstream stream;                  /* of ours */
    kept     kept[KEPT];
    uint32_t next;
} consumer;

/* Before the loader, whose config gets our stream. */
static void consumer_open(consumer *u, int kind, bzna_loader_config *c)
{
    size_t bytes = c->output.batch_size * (size_t)3 * c->output.width * c->output.height * 4;
    memset(u, 0, sizeof *u);
    u->kind = kind;
    if (kind < QUEUED)
        return;
    CHECK(enter(0));
    if (kind != QUEUED)
        CHECK_EQ(driver.stream(&u->stream, CU_STREAM_NON_BLOCKING), 0);
    if (kind == GIVEN)
        c->output.stream = u->stream;
    for (int i = 0; i < KEPT; i++) {
        CHECK_EQ(driver.host_alloc(&u->kept[i].pinned, bytes, 0), 0);
        CHECK_EQ(driver.event(&u->kept[i].copied, CU_EVENT_DISABLE_TIMING), 0);
    }
    driver.pop(NULL);                 /* and keep the reference: what we made lives in it */
}

static void consumer_read(consumer *u, run *r, kept *k)
{
    (void)u;
    if (!k->used)
        return;
    k->used = 0;
    CHECK(enter(0));
    CHECK_EQ(driver.event_sync(k->copied), 0);
    leave(0);
    check_slots(r, &k->s, k->pinned);
}

/* Reads, or begins to read, and releases. */
static void consumer_take(consumer *u, run *r, bzna_batch *batch)
{
    kept *k = &u->kept[u->next++ % KEPT];
    bzna_batch_info info;
    void *stream;
    bzna_error e = { .struct_size = sizeof e };
    if (u->kind >= QUEUED)
        consumer_read(u, r, k);
    see(r, batch, &info, &k->s);
    if (u->kind == SYNCED)
        CHECK_EQ(wait_for(info.image.device.ordinal, info.stream), 0);
    if (u->kind < QUEUED) {
        CHECK((info.stream != NULL) == (u->kind == SYNCED));
        check_slots(r, &k->s, info.image.data);
        CHECK_EQ(bzna_batch_release(batch), BZNA_OK);
        return;
    }
    CHECK(u->kind == GIVEN ? info.stream == u->stream : info.stream && info.stream != u->stream);
    stream = info.stream;
    if (u->kind == MOVED) {
        CHECK_EQ(bzna_batch_move(batch, u->stream, &e), BZNA_OK);
        bzna_batch_get_info(batch, &info, sizeof info, NULL);
        CHECK(info.stream == u->stream);
        stream = u->stream;
    }
    CHECK(enter(0));
    CHECK_EQ(driver.download(k->pinned, (CUdeviceptr)(uintptr_t)info.image.data, info.image.bytes, stream), 0);
    CHECK_EQ(driver.record(k->copied, stream), 0);
    leave(0);
    k->used = 1;
    CHECK_EQ(bzna_batch_release(batch), BZNA_OK);
    CHECK_EQ(bzna_batch_move(batch, stream, &e), BZNA_E_STATE);       /* no longer on loan */
}

static void consumer_read_all(consumer *u, run *r)
{
    for (uint32_t i = 0; i < KEPT; i++)
        consumer_read(u, r, &u->kept[(u->next + i) % KEPT]);
}

/* After the loader, whose consumer's stream may be ours. */
static void consumer_close(consumer *u, run *r)
{
    if (u->kind < QUEUED)
        return;
    consumer_read_all(u, r);
    CHECK(enter(0));
    for (int i = 0; i < KEPT; i++) {
        driver.host_free(u->kept[i].pinned);
        driver.event_free(u->kept[i].copied);
    }
    if (u->stream) {
        driver.stream_sync(u->stream);
        driver.stream_free(u->stream);
    }
    leave(0);
    if (!users_context)
        driver.release(0);
}

/* ---- Contexts and walks ------------------------------------------------------------------------------------------ */

/* With so much memory for decoders; 0: the default. */
static bzna_context *tight_context(uint32_t sessions, uint64_t decode_memory_bytes)
{
    bzna_context_config config;
    bzna_context *context = NULL;
    bzna_context_config_init(&config, sizeof config);
    config.sessions = sessions;
    config.decode_memory_bytes = decode_memory_bytes;
    require(bzna_context_open(&config, &context, NULL), "a context");
    return context;
}

static bzna_context *gpu_context(uint32_t sessions) { return tight_context(sessions, 0); }

static bzna_loader *loader_open(bzna_context *context, bzna_dataset *dataset, const bzna_loader_config *c)
{
    bzna_loader *loader = NULL;
    bzna_error e = { .struct_size = sizeof e };
    if (bzna_loader_open(context, dataset, c, &loader, &e) != BZNA_OK) {
        printf("  open: %s\n", e.message);
        exit(1);
    }
    return loader;
}

/* Takes up to n batches, or all to the end. */
static void walk_some(bzna_loader *loader, consumer *u, run *r, uint64_t n)
{
    int failures = test_failures;
    while (n-- && test_failures == failures) {
        bzna_batch *batch = NULL;
        bzna_error e = { .struct_size = sizeof e };
        bzna_status status = bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &e);
        if (status == BZNA_END)
            break;
        if (status != BZNA_OK) {
            test_failures++;
            printf("  next: %s: %s\n", bzna_status_name(status), e.message);
            break;
        }
        consumer_take(u, r, batch);
    }
}

/* What a part of a test opens beside its context: a loader over an archive, and who reads its batches. */
typedef struct reading {
    bzna_context *context;
    bzna_dataset *dataset;
    bzna_loader  *loader;
    consumer      u;
    run           r;
} reading;

static void reading_start(reading *o, bzna_context *context, archive *a, int kind, bzna_loader_config *c)
{
    o->context = context;
    o->dataset = archive_open(context, a);
    consumer_open(&o->u, kind, c);
    o->loader = loader_open(context, o->dataset, c);
    o->r = run_of(a, c);
}

/* loader: NULL where it is closed already. */
static void close_all(bzna_loader *loader, bzna_dataset *dataset, bzna_context *context)
{
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    finish();
}

static void reading_end(reading *o)
{
    bzna_loader_close(o->loader);
    consumer_close(&o->u, &o->r);
    close_all(NULL, o->dataset, o->context);
}

/* Opens a loader, walks to its end, closes it. */
static run walk(bzna_context *context, archive *a, const bzna_loader_config *config, int kind, bzna_statistics *stats)
{
    bzna_loader_config c = *config;
    bzna_dataset *dataset = archive_open(context, a);
    bzna_loader *loader;
    consumer u;
    run r;
    c.output.device.kind = kind == HOST ? BZNA_DEVICE_CPU : BZNA_DEVICE_CUDA;
    consumer_open(&u, kind, &c);
    loader = loader_open(context, dataset, &c);
    r = run_of(a, &c);
    walk_some(loader, &u, &r, UINT64_MAX);
    CHECK_EQ(r.batches,
             (c.order.epochs ? c.order.epochs : 1) * ((a->count + c.output.batch_size - 1) / c.output.batch_size));
    if (stats) {
        memset(stats, 0, sizeof *stats);
        CHECK_EQ(bzna_loader_statistics(loader, stats, sizeof *stats, NULL), BZNA_OK);
    }
    CHECK_EQ(bzna_loader_close(loader), BZNA_OK);
    consumer_close(&u, &r);
    bzna_dataset_close(dataset);
    return r;
}

/* The fake's delays, in microseconds. */
static void delays(long long engine, long long stream, long long call)
{
    control->engine_delay_us = engine;
    control->stream_delay_us = stream;
    control->call_delay_us = call;
}

static archive *plain_archive(uint64_t count) { return archive_make(count, plain, plain_count); }

/* Everything that NVDEC decodes, in no order; under sanitizers, where decoders are slow to make, less of it. */
static archive *mixed_archive(uint64_t count)
{
    int all[SAMPLES], n = 0;
    for (int i = 0; i < plain_count; i++)
        all[n++] = plain[i];
    for (int i = 0; i < size_count; i += ROUNDS(1, 5))
        all[n++] = sizes[i];
    for (int i = 0; i < format_count; i += ROUNDS(1, 5))
        all[n++] = formats[i];
    for (int i = n; i > 1; i--) {
        int k = (int)roll((uint32_t)i), swap = all[k];
        all[k] = all[i - 1];
        all[i - 1] = swap;
    }
    return archive_make(count, all, n);
}

/* ---- 6. Every slot its own picture ------------------------------------------------------------------------------- */

TEST(under_random_delays_every_slot_holds_its_own_picture)
{
    archive *a;
    BEGIN;
    a = plain_archive(61);
    for (int round = 0; round < 8; round++) {
        bzna_loader_config c = config_of(round % 2 ? 7 : 16, 0, (uint32_t)round / 2);
        bzna_context *context = gpu_context(14);
        bzna_statistics stats;
        c.output.channels = (uint32_t)round % 3;
        c.output.layout = (uint32_t)round % 2;
        control->seed = round + 1;
        delays(round % 3 * 700, round % 4 * 200, round % 2 * 60);
        control->parser_index = round % 3;
        control->pitch_step = round % 3 * 64;
        c.order.epochs = 2;
        c.read.threads = (uint32_t)round % 3 + 1;
        walk(context, a, &c, round / 4 == 0 ? HOST : SYNCED, &stats);
        CHECK_EQ(stats.samples_nvdec, 2 * a->count);
        CHECK_EQ(stats.samples_failed + stats.fallbacks + stats.sessions_lost, 0);
        CHECK_EQ(bzna_context_close(context), BZNA_OK);
        CHECK(control->max_mapped <= 8 && control->max_queued <= 4);
        CHECK_EQ(control->maps, control->unmaps);
        CHECK_EQ(control->decodes, control->maps);
        finish();
    }
    archive_free(a);
}

/* ---- 7, 8. Order in streams, and threads ------------------------------------------------------------------------- */

TEST(a_consumer_that_reads_in_a_stream_and_releases_at_once_gets_the_right_pixels)
{
    archive *a;
    BEGIN;
    a = plain_archive(64);
    for (int kind = QUEUED; kind < CONSUMERS; kind++)
        for (int round = 0; round < 3; round += ROUNDS(1, 2)) {
            bzna_loader_config c = config_of(4, 0, round == 1 ? BZNA_DTYPE_FLOAT16 : BZNA_DTYPE_FLOAT32);
            bzna_context *context = gpu_context(round == 2 ? 2 : 7);
            c.order.epochs = (uint64_t[]){ ROUNDS(8, 3), 6, 3 }[round];
            c.pipeline.batches_in_flight = (uint32_t[]){ 1, 3, 2 }[round];
            control->seed = 100 + round;
            delays(round == 2 ? 0 : 200, (long long[]){ 150, 400, 900 }[round], round == 1 ? 40 : 0);
            walk(context, a, &c, kind, NULL);
            bzna_context_close(context);
            finish();
        }
    archive_free(a);
}

/* What the log says of one decoder. */
typedef struct watched {
    long long decoder, thread, stream, maps, launched;
} watched;

static watched *watch(watched *all, int *count, long long decoder)
{
    for (int i = 0; i < *count; i++)
        if (all[i].decoder == decoder)
            return &all[i];
    memset(&all[*count], 0, sizeof *all);
    all[*count].decoder = decoder;
    return &all[(*count)++];
}

/* A surface is mapped on the session's stream, read by a kernel on that stream, and only then unmapped; all of it by
 * one thread. */
static void check_log_of_decoders(void)
{
    static watched all[256];
    int count = 0, launches = 0;
    CHECK(control->log_count < FAKE_LOG_SIZE);
    for (long long i = 0; i < control->log_count && i < FAKE_LOG_SIZE; i++) {
        const fake_entry *entry = &control->log[i];
        int of_session = entry->function == FAKE_cuvidMapVideoFrame64 ||
                         entry->function == FAKE_cuvidUnmapVideoFrame64 || entry->function == FAKE_cuvidDecodePicture ||
                         entry->function == FAKE_cuvidGetDecodeStatus ||
                         entry->function == FAKE_cuvidReconfigureDecoder;
        if (of_session) {
            watched *w = watch(all, &count, entry->decoder);
            CHECK(!w->thread || w->thread == entry->thread);
            w->thread = entry->thread;
            if (entry->function == FAKE_cuvidMapVideoFrame64) {
                CHECK(entry->stream && (!w->stream || w->stream == entry->stream));
                CHECK_EQ(w->launched, 0);                   /* what was launched has been unmapped */
                w->stream = entry->stream;
                w->maps++;
            }
            if (entry->function == FAKE_cuvidUnmapVideoFrame64) {
                CHECK(w->launched > 0 && w->maps > 0);
                w->launched--;
                w->maps--;
            }
        }
        if (entry->function == FAKE_cuLaunchKernel) {
            launches++;
            for (int k = 0; k < count; k++)
                if (all[k].stream == entry->stream && all[k].maps) {
                    CHECK_EQ(entry->value, all[k].maps);
                    CHECK_EQ(entry->thread, all[k].thread);
                    all[k].launched = all[k].maps;
                }
        }
    }
    CHECK(launches > 0 && count > 0);
    for (int i = 0; i < count; i++)
        CHECK(!all[i].maps && !all[i].launched);
}

TEST(each_picture_is_mapped_then_warped_on_the_same_stream_then_unmapped_by_one_thread)
{
    archive *a;
    bzna_context *context;
    bzna_loader_config c = config_of(8, 0, 0);
    BEGIN;
    a = plain_archive(64);
    for (int kind = HOST; kind <= QUEUED; kind++) {
        context = gpu_context(5);
        delays(200, 200, 0);
        c.order.epochs = 3;
        walk(context, a, &c, kind, NULL);
        check_log_of_decoders();
        bzna_context_close(context);
        finish();
    }
    archive_free(a);
}

/* On the device the consumer's stream waits for events that lanes recorded behind their launches. Of the lanes, it is
 * the threads that see to it that the consumer's release has been reached: their streams wait for nobody. */
TEST(batches_are_ordered_by_events_between_the_consumers_stream_and_the_lanes)
{
    archive *a;
    bzna_context *context;
    bzna_loader_config c = config_of(8, BZNA_DEVICE_CUDA, 0);
    reading o;
    long long arrivals = 0, departures = 0, waits = 0, stream;
    BEGIN;
    a = plain_archive(64);
    context = gpu_context(3);
    c.order.epochs = 3;
    c.pipeline.batches_in_flight = 2;
    reading_start(&o, context, a, GIVEN, &c);
    stream = (long long)(intptr_t)o.u.stream;
    walk_some(o.loader, &o.u, &o.r, UINT64_MAX);
    CHECK(control->log_count < FAKE_LOG_SIZE);
    for (long long i = 0; i < control->log_count; i++) {
        const fake_entry *entry = &control->log[i], *before = entry;
        if (entry->function == FAKE_cuEventRecord && entry->stream == stream)
            departures++;
        if (entry->function != FAKE_cuStreamWaitEvent && entry->function != FAKE_cuEventQuery)
            continue;
        while (before > control->log && !(before->function == FAKE_cuEventRecord && before->value == entry->value))
            before--;
        CHECK(before->function == FAKE_cuEventRecord && before->value == entry->value);
        if (entry->function == FAKE_cuEventQuery) {
            waits += before->stream == stream;
            continue;
        }
        arrivals++;
        CHECK(entry->stream == stream && before->stream != stream);
    }
    CHECK(arrivals >= (long long)o.r.batches);
    CHECK(departures >= 2 * (long long)o.r.batches);          /* ours behind the copy, and the release's */
    CHECK(waits >= (long long)o.r.batches - c.pipeline.batches_in_flight);
    reading_end(&o);
    archive_free(a);
}

/* ---- 13. Damaged samples ----------------------------------------------------------------------------------------- */

/* H.265 and H.264, by turns: libavcodec notices more damage in the latter. */
static archive *damaged_archive(uint64_t count)
{
    static const uint64_t bad[] = { 0, 3, 4, 11, 12, 13, 29, 38, 47 };
    int list[16], n = 0;
    archive *a;
    for (int i = 0; i < plain_count; i++) {
        list[n++] = plain[i];
        list[n++] = fragile[i % fragile_count];
    }
    a = archive_make(count, list, n);
    for (size_t i = 0; i < COUNT(bad) && bad[i] < count; i++)
        archive_damage(a, bad[i], (int)(i % 4));
    return a;
}

TEST(damaged_samples_among_good_ones_cost_their_own_slots)
{
    archive *a;
    BEGIN;
    a = damaged_archive(48);
    for (int round = 0; round < 6; round++) {
        bzna_loader_config c = config_of(round % 2 ? 48 : 5, 0,
                                         round / 2 == 1 ? BZNA_DTYPE_FLOAT16 : BZNA_DTYPE_FLOAT32);
        bzna_context *context = gpu_context(round < 4 ? 4 : 1);
        bzna_statistics stats;
        run r;
        control->concealed = round == 3;
        control->parser_propagates = round == 2;
        control->seed = 40 + round;
        delays(300, round * 100, 0);
        c.order.epochs = 2;
        r = walk(context, a, &c, (int[]){ HOST, SYNCED, QUEUED, HOST, MOVED, SYNCED }[round], &stats);
        CHECK_EQ(r.failed, 2 * 9);
        CHECK_EQ(stats.samples_failed, 2 * 9);
        CHECK_EQ(stats.samples_nvdec, 2 * (48 - 9));
        CHECK_EQ(stats.failed_decode + stats.failed_format, 2 * 9);
        CHECK_EQ(stats.fallbacks, 0);
        bzna_context_close(context);
        CHECK_EQ(control->maps, control->unmaps);
        CHECK(control->bad_pictures > 0 && control->max_mapped <= 8);
        finish();
    }
    archive_free(a);
}

/* Neither NVDEC nor libavcodec sees them. */
TEST(pictures_of_codecs_that_the_context_does_not_allow_cost_their_slots)
{
    archive *a;
    BEGIN;
    a = plain_archive(12);
    for (int allowed = 0; allowed < 2; allowed++) {
        bzna_loader_config c = config_of(4, 0, BZNA_DTYPE_FLOAT32);
        bzna_context_config config;
        bzna_context *context = NULL;
        bzna_dataset *dataset;
        bzna_loader *loader;
        bzna_batch *batch = NULL;
        bzna_batch_info info;
        bzna_context_config_init(&config, sizeof config);
        config.sessions = 2;
        config.codecs = allowed ? BZNA_ALLOW_H264 | BZNA_ALLOW_H265 : BZNA_ALLOW_JPEG;
        require(bzna_context_open(&config, &context, NULL), "a context");
        dataset = archive_open(context, a);
        c.order.epochs = 1;
        loader = loader_open(context, dataset, &c);
        while (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
            CHECK_EQ(bzna_batch_get_info(batch, &info, sizeof info, NULL), BZNA_OK);
            CHECK_EQ(info.failed, allowed ? 0 : info.count);
            for (uint32_t i = 0; i < info.count && !allowed; i++) {
                bzna_error e = { .struct_size = sizeof e };
                CHECK_EQ(bzna_batch_error(batch, i, &e), BZNA_E_CODEC);
                CHECK_CONTAINS(e.message, "context_config.codecs does not allow it");
            }
            bzna_batch_release(batch);
        }
        bzna_loader_close(loader);
        bzna_dataset_close(dataset);
        bzna_context_close(context);
        CHECK(allowed ? control->decodes > 0 : !control->decodes);
        finish();
    }
    archive_free(a);
}

/* A context with the self-check on, whose messages are kept. */
static bzna_context *checked_context(uint32_t sessions, messages *m, const char *setting)
{
    bzna_context_config config;
    bzna_context *context = NULL;
    bzi_device *device;
    bzna_error ignored;
    memset(m, 0, sizeof *m);
    bzna_context_config_init(&config, sizeof config);
    config.sessions = sessions;
    config.log = take_message;
    config.log_user = m;
    if (setting)
        setenv("BENZINA_NVDEC_CHECK", setting, 1);
    else
        unsetenv("BENZINA_NVDEC_CHECK");
    require(bzna_context_open(&config, &context, NULL), "a context");
    bzi_context_gpu(context, &device, &ignored);
    setenv("BENZINA_NVDEC_CHECK", "0", 1);
    return context;
}

/* ---- Hybrid decoding --------------------------------------------------------------------------------------------- */

/* A hash of all that batches have: pixels, indices, targets, statuses and, if asked for, messages. */
static uint64_t batches_hash(bzna_context *context, archive *a, const bzna_loader_config *config, int kind,
                             int messages_too, bzna_statistics *stats)
{
    bzna_loader_config c = *config;
    bzna_dataset *dataset = archive_open(context, a);
    bzna_loader *loader;
    bzna_batch *batch = NULL;
    bzna_batch_info info;
    uint64_t hash = BZI_HASH_START, batches = 0;
    c.output.device.kind = kind == HOST ? BZNA_DEVICE_CPU : BZNA_DEVICE_CUDA;
    loader = loader_open(context, dataset, &c);
    while (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
        CHECK_EQ(bzna_batch_get_info(batch, &info, sizeof info, NULL), BZNA_OK);
        if (kind != HOST)
            CHECK_EQ(wait_for(info.image.device.ordinal, info.stream), 0);
        hash = bzi_hash(hash, info.image.data, info.image.bytes);
        hash = bzi_hash(hash, info.indices, info.count * sizeof *info.indices);
        hash = bzi_hash(hash, info.targets, info.count * sizeof *info.targets);
        hash = bzi_hash(hash, info.status, info.count * sizeof *info.status);
        for (uint32_t i = 0; i < info.count && messages_too; i++) {
            bzna_error e = { .struct_size = sizeof e };
            bzna_batch_error(batch, i, &e);
            hash = bzi_hash(hash, e.message, strlen(e.message));
        }
        bzna_batch_release(batch);
        batches++;
    }
    CHECK_EQ(batches, c.order.epochs * ((a->count + c.output.batch_size - 1) / c.output.batch_size));
    CHECK_EQ(bzna_loader_statistics(loader, stats, sizeof *stats, NULL), BZNA_OK);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    return hash;
}

static bzna_loader_config hybrid_config(uint32_t hybrid)
{
    bzna_loader_config c = config_of(12, 0, BZNA_DTYPE_UINT8);
    c.order.epochs = 2;
    c.decode.hybrid = hybrid;
    c.decode.threads = 3;
    c.pipeline.batches_in_flight = 4;
    return c;
}

TEST(with_hybrid_decoding_slow_engines_leave_pictures_to_software_and_batches_are_the_same)
{
    archive *a;
    BEGIN;
    if (!has_encoders)
        SKIP("this libavcodec has no libx264 and libx265");
    a = damaged_archive(60);
    for (int round = 0; round < 2; round++) {
        const int kind = round ? SYNCED : HOST;
        uint64_t hashes[2];
        bzna_statistics stats[2];
        for (uint32_t hybrid = 0; hybrid < 2; hybrid++) {
            messages m;
            bzna_context *context = checked_context(2, &m, NULL);
            bzna_loader_config c = hybrid_config(hybrid);
            c.order.epochs = 1;
            batches_hash(context, a, &c, kind, 0, &stats[hybrid]);      /* then all kinds are checked */
            control->engine_us = 15000;
            c.order.epochs = 2;
            hashes[hybrid] = batches_hash(context, a, &c, kind, 0, &stats[hybrid]);
            bzna_context_close(context);
            finish();
        }
        CHECK_EQ(hashes[1], hashes[0]);
        CHECK_EQ(stats[0].samples_hybrid, 0);
        CHECK_EQ(stats[0].samples_software, 0);
        CHECK(stats[1].samples_hybrid >= 5);
        CHECK_EQ(stats[1].samples_software, stats[1].samples_hybrid);
        CHECK_EQ(stats[1].samples_software + stats[1].samples_nvdec, stats[0].samples_nvdec);
        CHECK_EQ(stats[1].samples_failed, stats[0].samples_failed);
        CHECK_EQ(stats[1].fallbacks, 0);
    }
    archive_free(a);
}

TEST(with_hybrid_decoding_samples_that_cannot_be_read_fail_as_they_do_without)
{
    archive *a;
    BEGIN;
    a = archive_make(60, plain, plain_count);
    a->hole = a->size / 4;
    a->hole_end = a->size / 2;
    for (int round = 0; round < 2; round++) {
        const int kind = round ? SYNCED : HOST;
        uint64_t hashes[2];
        bzna_statistics stats[2];
        for (uint32_t hybrid = 0; hybrid < 2; hybrid++) {
            messages m;
            bzna_context *context = checked_context(2, &m, NULL);
            bzna_loader_config c = hybrid_config(hybrid);
            batches_hash(context, a, &c, kind, 0, &stats[hybrid]);      /* then all kinds are checked */
            control->engine_us = 5000;
            c.order.epochs = 6;
            hashes[hybrid] = batches_hash(context, a, &c, kind, 1, &stats[hybrid]);
            bzna_context_close(context);
            finish();
        }
        CHECK_EQ(hashes[1], hashes[0]);
        CHECK(stats[0].failed_read >= 6 * 5);
        CHECK_EQ(stats[1].samples_failed, stats[0].samples_failed);
    }
    archive_free(a);
}

/* Each decoder finds other pictures damaged. */
TEST(with_hybrid_decoding_what_decoders_say_of_damage_does_not_depend_on_who_was_first)
{
    enum { WAYS = 4 };
    archive *a;
    uint64_t hashes[WAYS], failed[WAYS], hybrids = 0;
    BEGIN;
    if (!has_encoders)
        SKIP("this libavcodec has no libx264 and libx265");
    a = damaged_archive(96);
    for (int way = 0; way < WAYS; way++) {
        messages m;
        bzna_statistics stats;
        bzna_context *context = checked_context(way == 3 ? 1 : 2, &m, NULL);
        bzna_loader_config c = hybrid_config(way > 0), first = hybrid_config(0);
        first.order.epochs = 1;
        batches_hash(context, a, &first, HOST, 0, &stats);
        control->contrary = 1;
        control->engine_us = way < 2 ? 0 : 12000;           /* 1: engines have nearly all */
        delays(way == 2 ? 9000 : 0, 0, 0);
        hashes[way] = batches_hash(context, a, &c, way == 2 ? SYNCED : HOST, 1, &stats);
        if (way > 0)
            CHECK_EQ(hashes[way], hashes[1]);
        if (way > 1)
            hybrids += stats.samples_hybrid;
        failed[way] = stats.samples_failed;
        bzna_context_close(context);
        finish();
    }
    CHECK(hybrids >= 5);
    CHECK(failed[1] < failed[0]);                           /* what NVDEC alone finds damaged is sound */
    archive_free(a);
}

TEST(hybrid_decoding_is_refused_where_a_failed_sample_ends_the_run_or_is_replaced)
{
    archive *a;
    bzna_context *context;
    bzna_dataset *dataset;
    BEGIN;
    a = plain_archive(8);
    context = gpu_context(1);
    dataset = archive_open(context, a);
    for (uint32_t policy = BZNA_ON_ERROR_REPLACE; policy <= BZNA_ON_ERROR_STOP; policy++) {
        bzna_loader_config c = hybrid_config(1);
        bzna_loader *loader = NULL;
        bzna_error e = { .struct_size = sizeof e };
        c.errors.on_error = policy;
        CHECK_EQ(bzna_loader_open(context, dataset, &c, &loader, &e), BZNA_E_ARGUMENT);
        CHECK_CONTAINS(e.message, "loader_config.decode.hybrid: errors.on_error must be BZNA_ON_ERROR_FILL");
    }
    close_all(NULL, dataset, context);
    archive_free(a);
}

TEST(a_damaged_sample_is_replaced_by_the_next_good_one_and_never_shows_the_fill)
{
    archive *a;
    BEGIN;
    a = damaged_archive(48);
    for (int round = 0; round < 5; round++) {
        bzna_loader_config c = config_of(6, 0, 0);
        bzna_context *context = gpu_context((uint32_t[]){ 4, 14, 1, 3, 5 }[round]);
        bzna_statistics stats;
        run r;
        control->seed = 50 + round;
        delays(round % 2 ? 0 : 500, (long long[]){ 0, 800, 1500, 300, 900 }[round], 0);
        c.order.epochs = 2;
        c.errors.on_error = BZNA_ON_ERROR_REPLACE;
        c.pipeline.batches_in_flight = 2;
        r = walk(context, a, &c, round, &stats);
        CHECK_EQ(r.failed, 0);
        CHECK(stats.replaced >= 2 * 9);
        bzna_context_close(context);
        CHECK_EQ(control->maps, control->unmaps);
        finish();
    }
    archive_free(a);
}

TEST(stop_at_an_error_delivers_what_comes_before_and_then_the_error_for_ever)
{
    archive *a;
    BEGIN;
    a = plain_archive(40);
    archive_damage(a, 22, 0);
    for (int kind = HOST; kind <= SYNCED; kind++) {
        bzna_loader_config c = config_of(4, kind == HOST ? BZNA_DEVICE_CPU : BZNA_DEVICE_CUDA, 0);
        bzna_context *context = gpu_context(6);
        bzna_dataset *dataset = archive_open(context, a);
        bzna_loader *loader;
        bzna_batch *batch = NULL;
        bzna_error e = { .struct_size = sizeof e };
        consumer u;
        run r;
        delays(400, 300, 0);
        c.order.kind = BZNA_ORDER_SEQUENTIAL;
        c.errors.on_error = BZNA_ON_ERROR_STOP;
        consumer_open(&u, kind, &c);
        loader = loader_open(context, dataset, &c);
        r = run_of(a, &c);
        walk_some(loader, &u, &r, 5);
        CHECK_EQ(r.batches, 5);
        for (int i = 0; i < 3; i++) {
            CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &e), BZNA_E_DECODE);
            CHECK_CONTAINS(e.message, "22");
            CHECK(!batch);
        }
        CHECK_EQ(bzna_loader_reset(loader, 1, &e), BZNA_OK);      /* which makes a new start */
        r.epoch = 1;
        r.position = 0;
        walk_some(loader, &u, &r, 5);
        CHECK_EQ(bzna_loader_close(loader), BZNA_OK);
        bzna_dataset_close(dataset);
        bzna_context_close(context);
        CHECK_EQ(control->maps, control->unmaps);
        finish();
    }
    archive_free(a);
}

TEST(an_engine_that_spoils_a_picture_costs_one_slot_and_with_replacing_none)
{
    archive *a;
    BEGIN;
    a = plain_archive(40);
    for (int round = 0; round < 8; round++) {
        bzna_loader_config c = config_of(5, 0, 0);
        bzna_context *context = gpu_context(4);
        bzna_dataset *dataset;
        bzna_loader *loader;
        consumer u;
        run r;
        int kind = round % 4;
        delays(300, 500, 0);
        fake->fail("engine_picture", (long long[]){ 1, 2, 7, 30 }[round / 2], 999, 0);
        c.errors.on_error = round % 2 ? BZNA_ON_ERROR_REPLACE : BZNA_ON_ERROR_FILL;
        c.output.device.kind = kind == HOST ? BZNA_DEVICE_CPU : BZNA_DEVICE_CUDA;
        dataset = archive_open(context, a);
        consumer_open(&u, kind, &c);
        loader = loader_open(context, dataset, &c);
        r = run_of(a, &c);
        r.may_fail = 1;
        walk_some(loader, &u, &r, UINT64_MAX);
        bzna_loader_close(loader);
        consumer_close(&u, &r);
        CHECK_EQ(r.batches, 8);
        CHECK_EQ(r.failed, round % 2 ? 0 : 1);
        CHECK_EQ(control->bad_pictures, 1);
        CHECK_EQ(control->maps, control->unmaps);
        close_all(NULL, dataset, context);
    }
    archive_free(a);
}

/* ---- 14. The driver fails ---------------------------------------------------------------------------------------- */

/* What a run of two loaders on one context met. */
typedef struct ordeal {
    bzna_status opened, ended, later;  /* of the first loader's open and its last next; of a second loader's */
    uint64_t    batches, failed;
    double      slowest;              /* call, in seconds */
    int         hung;
} ordeal;

/* Runs a loader to its end, or to its error. Every call must return in time; what is delivered must be right. */
static bzna_status ordeal_run(ordeal *o, bzna_context *context, bzna_dataset *dataset, archive *a,
                              const bzna_loader_config *c, bzna_status *opened)
{
    bzna_loader *loader = NULL;
    bzna_batch *batch;
    bzna_error e = { .struct_size = sizeof e };
    bzna_status status;
    uint64_t start = bzi_os_now_ns();
    run r = run_of(a, c);
    r.may_fail = 1;
    *opened = status = bzna_loader_open(context, dataset, c, &loader, &e);
    if (status != BZNA_OK) {
        CHECK(e.message[0] && loader == NULL);
        return status;
    }
    for (;;) {
        bzna_batch_info info;
        seen s;
        CUresult synced = CUDA_SUCCESS;
        start = bzi_os_now_ns();
        status = bzna_loader_next(loader, 20000000000, &batch, &e);
        o->slowest = fmax(o->slowest, seconds_since(start));
        o->hung |= status == BZNA_AGAIN;
        if (status != BZNA_OK)
            break;
        see(&r, batch, &info, &s);
        o->batches++;
        if (info.stream)
            synced = wait_for(0, info.stream);
        if (synced == CUDA_SUCCESS && !control->lost)
            check_slots(&r, &s, info.image.data);
        bzna_batch_release(batch);
    }
    if (status < 0) {
        CHECK(e.message[0]);
        CHECK_EQ(bzna_loader_next(loader, 1000000000, &batch, &e), status);
    }
    o->failed += r.failed;
    start = bzi_os_now_ns();
    CHECK_EQ(bzna_loader_close(loader), BZNA_OK);
    o->slowest = fmax(o->slowest, seconds_since(start));
    return status;
}

static ordeal ordeal_make(archive *a, const char *function, long long k, int code, int later, int kind,
                          uint32_t sessions)
{
    ordeal o = { 0, 0, 0, 0, 0, 0, 0 };
    bzna_loader_config c = config_of(3, kind == HOST ? BZNA_DEVICE_CPU : BZNA_DEVICE_CUDA, 0);
    bzna_context *context = gpu_context(sessions);
    bzna_dataset *dataset = archive_open(context, a);
    uint64_t start;
    int failures = test_failures;
    c.decode.threads = 1;
    c.pipeline.batches_in_flight = 2;
    if (function)
        fake->fail(function, k, code, later);
    o.ended = ordeal_run(&o, context, dataset, a, &c, &o.opened);
    if (function)
        fake->fail(function, 0, 0, 0);
    {
        bzna_status opened;
        bzna_status ended = ordeal_run(&o, context, dataset, a, &c, &opened);
        o.later = opened != BZNA_OK ? opened : ended;
    }
    bzna_dataset_close(dataset);
    start = bzi_os_now_ns();
    CHECK_EQ(bzna_context_close(context), BZNA_OK);
    o.slowest = fmax(o.slowest, seconds_since(start));
    CHECK(!o.hung && o.slowest < HANG_NS * 1e-9);
    CHECK_EQ(control->maps, control->unmaps);
    CHECK_EQ(control->violations, 0);
    CHECK(!fake->leaks());
    if (test_failures != failures)
        printf("  above: %s, call %lld returns %d (%d): opened %d, ended %d after %d batches, a later loader %d, "
               "slowest call %.3f s\n",
               function ? function : "-", k, code, kind, (int)o.opened, (int)o.ended, (int)o.batches, (int)o.later,
               o.slowest);
    return o;
}

/* Pictures for NVDEC, and some that go up from libavcodec. */
static archive *ordeal_archive(void)
{
    int list[6] = { plain[0], plain[1], plain[2], plain[0], plain[1], plain[plain_count - 1] };
    if (size_count)
        list[3] = sizes[0];
    if (software_count)
        list[4] = software[3];
    return archive_make(24, list, 6);
}

/* How often a run that meets no trouble calls each function. */
static void calls_of(archive *a, int kind, long long calls[FAKE_FUNCTION_COUNT])
{
    ordeal o = ordeal_make(a, NULL, 0, 0, 0, kind, 3);
    CHECK(o.opened == BZNA_OK && o.ended == BZNA_END && o.later == BZNA_END && o.batches == 16 && o.failed == 0);
    for (int f = 0; f < FAKE_FUNCTION_COUNT; f++)
        calls[f] = control->calls[f];
    finish();
}

/* Calls to fail: the first, the second, others for each kind of output, and one in the middle of the second loader's
 * life. */
static int interesting(long long calls, int kind, long long ks[4])
{
    long long all[4] = { 1, kind == HOST ? 2 : 3, calls / (kind == HOST ? 4 : 3),
                         kind == HOST ? calls / 2 : calls * 3 / 4 };
    int n = 0;
    for (int i = 0; i < 4; i++)
        if (all[i] > (n ? ks[n - 1] : 0) && all[i] <= calls)
            ks[n++] = all[i];
    return n;
}

static int releases_something(const char *name)
{
    static const char *const all[] = { "cuDevicePrimaryCtxRelease", "cuMemFree_v2",           "cuMemFreeHost",
                                       "cuStreamDestroy_v2",        "cuEventDestroy_v2",      "cuModuleUnload",
                                       "cuvidDestroyDecoder",       "cuvidUnmapVideoFrame64", "cuvidDestroyVideoParser",
                                       "cuCtxPopCurrent_v2",        "cuGetErrorName" };
    for (size_t i = 0; i < COUNT(all); i++)
        if (!strcmp(name, all[i]))
            return 1;
    return 0;
}

/* A call of the driver that fails: number k of the function f, while loaders of a kind work. n: counts those tried. */
typedef struct failing {
    archive    *a;
    const char *name;
    long long   k;
    int         f, kind, n;
} failing;

/* Runs an attempt for calls of each function and kind of loader that are worth it.
 *   in_streams    1: also for those of work in streams, where every error stays
 *   first, step   of the calls that are interesting */
static void each_failing_call(int in_streams, int (*first)(int f, int kind), int step, void (*attempt)(const failing *))
{
    archive *a;
    a = ordeal_archive();
    for (int kind = HOST; kind <= SYNCED; kind++) {
        long long calls[FAKE_FUNCTION_COUNT], ks[4];
        calls_of(a, kind, calls);
        for (int f = kind * SANITIZED; f < FAKE_FUNCTION_COUNT; f += ROUNDS(1, 2)) {
            const int is_in_stream = f == FAKE_stream_copy || f == FAKE_stream_kernel;
            const int count = is_in_stream && !in_streams ? 0 : interesting(calls[f], kind, ks);
            for (int i = first(f, kind) + 2 * SANITIZED * kind; i < count; i += step) {
                const failing one = { a, fake->name(f), ks[i], f, kind, i };
                control->seed = f + i;
                attempt(&one);
                finish();
            }
        }
    }
    archive_free(a);
}

static int the_first(int f, int kind)
{
    (void)f, (void)kind;
    return 0;
}

static int either(int f, int kind) { return (f + kind) % 2; }

static void loses_the_device(const failing *one)
{
    ordeal o;
    delays(100, 100, 0);
    control->lost_push = (one->f + one->n) % 2;
    o = ordeal_make(one->a, one->name, one->k, one->n % 2 ? 700 : 719, 0, one->kind, 3);
    if (!control->lost || releases_something(one->name))    /* the call did not come; or these may come last */
        return;
    CHECK(o.opened == BZNA_E_DEVICE_LOST || o.opened == BZNA_E_DEVICE ||
          (o.opened == BZNA_OK && (o.ended == BZNA_E_DEVICE_LOST || o.ended == BZNA_END)));
    CHECK(o.later == BZNA_E_DEVICE_LOST || o.opened == BZNA_E_DEVICE ||
          (o.ended == BZNA_END && o.opened == BZNA_OK));
}

TEST(a_lost_device_ends_every_loader_at_once_whatever_call_reports_it)
{
    BEGIN;
    each_failing_call(1, the_first, ROUNDS(1, 4), loses_the_device);
}

static void fails_once(const failing *one)
{
    static const int codes[] = { 1, 2, 999 };
    const int code = codes[(one->f + one->n) % 3];
    ordeal o;
    delays(100, 200, 0);
    o = ordeal_make(one->a, one->name, one->k, code, 0, one->kind, 3);
    if (one->f == FAKE_cuCtxPushCurrent_v2 ? o.later >= 0 && o.later != BZNA_END :
                                             o.opened == BZNA_OK && o.later != BZNA_END) {
        test_failures++;
        printf("  %s, call %lld returns %d (%d): a later loader gets %d\n", one->name, one->k, code, one->kind,
               (int)o.later);
    }
}

TEST(a_call_that_fails_without_losing_the_device_costs_samples_or_the_loader_and_never_a_later_one)
{
    BEGIN;
    each_failing_call(0, the_first, ROUNDS(1, 4), fails_once);
}

static void fails_from_then_on(const failing *one)
{
    ordeal o;
    delays(100, 200, 0);
    o = ordeal_make(one->a, one->name, one->k, one->f % 2 ? 1 : 999, 1, one->kind, 3);
    if (one->f == FAKE_cuCtxPushCurrent_v2) {               /* what cannot be entered any more is lost */
        CHECK(o.later == BZNA_E_DEVICE_LOST || (o.opened == BZNA_E_DEVICE && o.later == BZNA_E_DEVICE));
        return;
    }
    CHECK(o.opened != BZNA_OK || o.later == BZNA_END);
    if (o.opened == BZNA_OK && o.later != BZNA_END)
        printf("  %s from call %lld on (%d): a later loader gets %d\n", one->name, one->k, one->kind, (int)o.later);
}

TEST(a_call_that_fails_from_some_time_on_never_hangs_anything)
{
    BEGIN;
    each_failing_call(0, either, ROUNDS(2, 4), fails_from_then_on);
}

/* The consumer finds that it cannot have a batch, while an engine has ended the loader for another reason: the error
 * is the same, now and ever after. */
TEST(a_batch_that_cannot_be_had_fails_as_every_later_one_does)
{
    archive *a;
    BEGIN;
    a = plain_archive(12);
    for (int meanwhile = 0; meanwhile < 2; meanwhile++) {
        bzna_loader_config c = config_of(3, 0, 0);
        bzna_context *context = gpu_context(1);
        bzna_dataset *dataset = archive_open(context, a);
        bzna_loader *loader = loader_open(context, dataset, &c);
        bzna_batch *batch = NULL;
        bzna_error engines, consumers;
        bzna_status status;
        CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL), BZNA_OK);
        BZI_FAIL(&engines, BZNA_E_DEVICE, "an engine's error");
        BZI_FAIL(&consumers, BZNA_E_DEVICE_LOST, "the consumer's error");
        bzi_os_lock(&loader->queues.mutex);
        if (meanwhile)
            bzi_queues_break(&loader->queues, &engines);
        bzi_os_unlock(&loader->queues.mutex);
        status = bzi_loader_take_back(batch, &consumers);
        CHECK_EQ(status, meanwhile ? BZNA_E_DEVICE : BZNA_E_DEVICE_LOST);
        CHECK_EQ(consumers.status, status);
        CHECK_STR(consumers.message, meanwhile ? "an engine's error" : "the consumer's error");
        CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL), status);
        close_all(loader, dataset, context);
    }
    archive_free(a);
}

/* A picture that a call of the driver's refuses is libavcodec's; a codec with which all calls fail is given up, and
 * libavcodec goes on alone. */
TEST(what_a_failing_call_costs_nvdec_libavcodec_decodes)
{
    static const char *const names[] = { "cuvidDecodePicture", "cuvidMapVideoFrame64", "cuvidParseVideoData",
                                         "cuvidCreateVideoParser", "cuvidCreateDecoder" };
    archive *a;
    BEGIN;
    a = plain_archive(120);
    for (size_t f = 0; f < COUNT(names); f++)
        /* of memory for decoders, other tests */
        for (int way = SANITIZED * (int)f % 2; way < (f == 4 ? 2 : 4); way += ROUNDS(1, 2)) {
            const int later = way % 2, code = way / 2 ? 2 : 999;
            bzna_loader_config c = config_of(8, 0, 0);
            bzna_context *context = gpu_context(2);
            bzna_statistics stats;
            run r;
            fake->fail(names[f], later || f > 3 ? 1 : f > 2 ? 2 : 5, code, later);
            r = walk(context, a, &c, (int)f % CONSUMERS, &stats);
            CHECK_EQ(r.failed, 0);
            CHECK_EQ(stats.samples_nvdec + stats.samples_software, 120);
            if (later)
                CHECK(stats.samples_software == 120 && stats.sessions_lost == 0);
            else
                CHECK(stats.fallbacks == 1 && stats.samples_software == 1 && stats.sessions_lost == 0);
            bzna_context_close(context);
            finish();
        }
    archive_free(a);
}

/* ---- 15. Out of memory ------------------------------------------------------------------------------------------- */

TEST(without_memory_for_a_decoder_sessions_end_and_the_others_or_libavcodec_go_on)
{
    archive *a;
    BEGIN;
    a = plain_archive(48);
    for (int round = 0; round < 16; round += ROUNDS(1, 3)) {
        int kind = round % 4, way = round / 4;
        bzna_loader_config c = config_of(6, 0, 0);
        bzna_context *context;
        bzna_statistics stats;
        run r;
        const uint64_t one = 20ull * 512 * 512 * 3 / 2;     /* what a decoder with room for 512x512 takes */
        context = tight_context(4, way == 3 ? (kind ? (uint64_t)kind * one + one / 2 : 1) : 0);
        delays(500, 200, 0);
        control->engine_us = 500;                           /* so that every session gets work */
        c.order.epochs = 2;
        if (way == 0)
            fake->fail("cuvidCreateDecoder", (long long[]){ 1, 2, 3, 4 }[kind], 2, 0); /* once: trying again helps */
        if (way == 1)
            fake->fail("cuvidCreateDecoder", (long long[]){ 1, 2, 3, 4 }[kind], 2,
                       1); /* for good: kind sessions live */
        if (way == 2)
            control->memory_budget = (long long)(3 << 20) + (long long)kind * (long long)one;
        r = walk(context, a, &c, kind, &stats);
        CHECK_EQ(r.failed, 0);
        CHECK_EQ(stats.samples_nvdec + stats.samples_software, 96);
        CHECK(stats.fallbacks <= stats.samples_software && !stats.fallbacks == !stats.samples_software);
        CHECK_EQ(control->creates, (long long)stats.decoders_made);
        if (way > 0 && kind == 0) {
            CHECK_EQ(stats.sessions_lost, 4);
            CHECK_EQ(stats.samples_nvdec, 0);
        } else if (way > 0) { /* kind sessions have a decoder; the others give up after a few tries */
            CHECK(stats.sessions_lost <= (uint64_t)(4 - kind));
            CHECK(stats.samples_software <= 4 * (uint64_t)(4 - kind));
            CHECK(stats.decoders_made <= (uint64_t)kind && stats.decoders_made > 0);
        } else {
            CHECK_EQ(stats.sessions_lost + stats.samples_software, 0);
        }
        bzna_context_close(context);
        CHECK(control->max_mapped <= 8);
        CHECK_EQ(control->maps, control->unmaps);
        CHECK_EQ(control->creates, control->destroys);
        finish();
    }
    archive_free(a);
}

/* A context whose sessions are all gone still serves, loader after loader. */
TEST(when_all_sessions_are_lost_later_loaders_decode_in_software)
{
    archive *a;
    bzna_context *context;
    BEGIN;
    a = mixed_archive(40);
    context = gpu_context(3);
    fake->fail("cuvidCreateDecoder", 1, 2, 1);
    for (int kind = HOST; kind < CONSUMERS; kind++) {
        bzna_loader_config c = config_of(7, 0, 0);
        bzna_statistics stats;
        run r = walk(context, a, &c, kind, &stats);
        CHECK_EQ(r.failed, 0);
        CHECK_EQ(stats.samples_software, 40);
        CHECK_EQ(stats.sessions_lost, 3);
        fake->fail("cuvidCreateDecoder", 0, 0, 0);          /* memory is there again, but who ended stays away */
    }
    bzna_context_close(context);
    finish();
    archive_free(a);
}

/* Frame formats that do not fit into memory together. */
TEST(with_memory_for_few_decoders_sessions_make_room_by_giving_up_idle_ones)
{
    archive *a;
    BEGIN;
    if (!has_encoders)
        SKIP("this libavcodec has no libx264 and libx265");
    a = mixed_archive(75);
    for (int kind = HOST; kind < CONSUMERS; kind += ROUNDS(1, 2)) {
        bzna_context *context = tight_context(2, 60u << 20);
        bzna_loader_config c = config_of(5, 0, 0);
        bzna_statistics stats;
        delays(200, 200, 0);
        c.order.epochs = 2;
        CHECK_EQ(walk(context, a, &c, kind, &stats).failed, 0);
        CHECK_EQ(stats.samples_nvdec + stats.samples_software, 150);
        bzna_context_close(context);
        CHECK_EQ(control->creates, control->destroys);
        finish();
    }
    archive_free(a);
}

TEST(a_session_gives_up_an_idle_decoder_for_another_and_forgets_what_could_not_be_made)
{
    const int two[2] = { plain[0], format_count ? formats[4] : plain[0] };       /* 4:2:0 and 4:4:4 */
    const uint64_t one = 20ull * 512 * 512 * 3 / 2;
    archive *a;
    BEGIN;
    if (!has_encoders)
        SKIP("this libavcodec has no libx264 and libx265");
    a = archive_make(20, two, 2);
    for (int way = 0; way < 4; way++) {
        bzna_context *context = tight_context(1, 2 * one + one / 2);     /* the larger one, and not both */
        bzna_loader_config c = config_of(5, 0, 0);
        bzna_statistics stats;
        c.order.kind = BZNA_ORDER_SEQUENTIAL;
        c.read.threads = 1;
        if (way > 1)
            fake->fail("cuvidCreateDecoder", way, 999, 0);
        CHECK_EQ(walk(context, a, &c, way % 2 ? SYNCED : HOST, &stats).failed, 0);
        CHECK_EQ(stats.samples_software, way > 1);
        CHECK_EQ(stats.samples_nvdec + stats.samples_software, 20);
        CHECK_EQ(stats.sessions_lost, 0);
        CHECK(stats.decoders_made >= 18);
        bzna_context_close(context);
        CHECK_EQ(control->creates, control->destroys);
        finish();
    }
    archive_free(a);
}

/* Every other picture needs a decoder that never fits. The session gives up the idle one for it, and makes that
 * anew. */
TEST(a_decoder_that_never_fits_costs_the_idle_ones_and_no_session)
{
    /* 4:2:0 and 4:4:4, which is twice as large */
    const int two[2] = { plain[0], format_count ? formats[4] : plain[0] };
    archive *a;
    BEGIN;
    if (!has_encoders)
        SKIP("this libavcodec has no libx264 and libx265");
    a = archive_make(20, two, 2);
    for (int kind = HOST; kind <= SYNCED; kind++) {
        bzna_context *context = tight_context(1, 20ull * 512 * 512 * 3 / 2 + 1000000);
        bzna_loader_config c = config_of(5, 0, 0);
        bzna_statistics stats;
        c.order.kind = BZNA_ORDER_SEQUENTIAL;
        c.read.threads = 1;
        CHECK_EQ(walk(context, a, &c, kind, &stats).failed, 0);
        CHECK_EQ(stats.samples_nvdec, 10);
        CHECK_EQ(stats.samples_software, 10);
        CHECK_EQ(stats.decoders_made, 10);
        CHECK_EQ(stats.sessions_lost, 0);
        bzna_context_close(context);
        CHECK_EQ(control->creates, control->destroys);
        finish();
    }
    archive_free(a);
}

/* A decoder that never fits costs the session in the end, which first finishes what it has in flight. */
TEST(a_session_that_ends_finishes_what_it_has_in_flight)
{
    static const char pattern[] = "aaaabbaaaabbbbaaaaaaaabb";     /* 4:2:0; 4:4:4, which are twice as large */
    int list[24];
    archive *a;
    BEGIN;
    if (!has_encoders)
        SKIP("this libavcodec has no libx264 and libx265");
    for (int i = 0; i < 24; i++)
        list[i] = pattern[i] == 'a' ? plain[0] : formats[4];
    a = archive_make(48, list, 24);
    for (int kind = HOST; kind <= QUEUED; kind++) {
        bzna_context *context = tight_context(1, 20ull * 512 * 512 * 3 / 2 + 1000000);
        bzna_loader_config c = config_of(48, 0, 0);
        bzna_statistics stats;
        control->engine_us = 3000;
        c.order.kind = BZNA_ORDER_SEQUENTIAL;
        c.read.threads = 1;
        CHECK_EQ(walk(context, a, &c, kind, &stats).failed, 0);
        CHECK_EQ(stats.samples_nvdec + stats.samples_software, 48);
        CHECK(stats.samples_nvdec >= 4);
        CHECK_EQ(stats.sessions_lost, 1);
        bzna_context_close(context);
        CHECK_EQ(control->maps, control->unmaps);
        finish();
    }
    archive_free(a);
}

/* Three do not, and a sample that it decodes in between starts the count again. There is memory for a decoder of a; for
 * one of b, twice as large, there is not. What comes behind a session's end, libavcodec decodes. */
TEST(a_session_ends_with_the_fourth_sample_in_a_row_that_it_has_no_memory_for)
{
    static const struct { const char *pattern; int decoded, lost; } cases[] = {
        { "baaa", 3, 0 }, { "abbba", 2, 0 }, { "bbbabbbabbba", 3, 0 }, { "abbaabababbbaa", 7, 0 }, { "bbb", 0, 0 },
        { "abbbba", 1, 1 }, { "bbbaabbbbaaa", 2, 1 }, { "bbbba", 0, 1 }, { "bbbbaaaaaaaa", 0, 1 },
        { "aaaaaabbbbbbbbaa", 6, 1 } };
    BEGIN;
    if (!has_encoders)
        SKIP("this libavcodec has no libx264 and libx265");
    for (size_t k = 0; k < COUNT(cases); k++)
        for (int kind = HOST; kind <= SYNCED; kind++) {
            int list[SAMPLES], count = (int)strlen(cases[k].pattern), before = test_failures;
            archive *a;
            bzna_context *context = tight_context(1, 20ull * 512 * 512 * 3 / 2 + 1000000);
            bzna_loader_config c = config_of((uint32_t)count, 0, 0);
            bzna_statistics stats;
            for (int i = 0; i < count; i++)
                list[i] = cases[k].pattern[i] == 'a' ? plain[0] : formats[4];
            a = archive_make((uint64_t)count, list, count);
            c.order.kind = BZNA_ORDER_SEQUENTIAL;
            c.read.threads = 1;
            CHECK_EQ(walk(context, a, &c, kind, &stats).failed, 0);
            CHECK_EQ(stats.samples_nvdec, cases[k].decoded);
            CHECK_EQ(stats.samples_software, count - cases[k].decoded);
            CHECK_EQ(stats.sessions_lost, cases[k].lost);
            if (test_failures != before)
                printf("  in %s\n", cases[k].pattern);
            bzna_context_close(context);
            archive_free(a);
            finish();
        }
}

/* ---- 17. Closing ------------------------------------------------------------------------------------------------- */

TEST(closing_in_any_phase_and_order_leaves_nothing_behind)
{
    archive *a;
    BEGIN;
    a = plain_archive(40);
    archive_damage(a, 17, 2);
    for (int round = 0; round < ROUNDS(120, 12); round++) {
        bzna_loader_config c = config_of(4, roll(2) ? BZNA_DEVICE_CPU : BZNA_DEVICE_CUDA, 0);
        bzna_context *context = gpu_context(1 + roll(6));
        bzna_dataset *dataset = archive_open(context, a);
        bzna_loader *loader;
        bzna_batch *held[3] = { NULL, NULL, NULL };
        int order = (int)roll(6), taken = (int)roll(4), n = 0;
        control->seed = round + 1;
        delays(roll(800), roll(800), round % 3 ? 0 : 100);
        c.errors.on_error = roll(2);
        c.order.epochs = 3;
        loader = loader_open(context, dataset, &c);
        if (roll(2))
            sleep_us((int)roll(6000));
        for (int i = 0; i < taken; i++)
            CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &held[n++], NULL), BZNA_OK);
        if (roll(3) == 0)
            bzna_loader_stop(loader, NULL);
        if (n && roll(2))
            bzna_batch_release(held[--n]);
        for (int i = 0; i < 3; i++) {                       /* contexts, data sets and loaders in any order */
            static const int orders[6][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
                                              { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };
            if (orders[order][i] == 0)
                CHECK_EQ(bzna_context_close(context), BZNA_OK);
            if (orders[order][i] == 1)
                CHECK_EQ(bzna_dataset_close(dataset), BZNA_OK);
            if (orders[order][i] == 2)
                CHECK_EQ(bzna_loader_close(loader), BZNA_OK);
        }
        while (n)                                           /* what is on loan outlives them all, and can be read */
        {
            bzna_batch *batch = held[--n];
            bzna_batch_info info;
            run r = run_of(a, &c);
            seen s;
            memset(&info, 0, sizeof info);
            bzna_batch_get_info(batch, &info, sizeof info, NULL);
            if (info.stream) {
                CHECK_EQ(wait_for(info.image.device.ordinal, info.stream), 0);
            }
            r.epoch = info.epoch;
            r.position = info.position;
            see(&r, batch, &info, &s);
            check_slots(&r, &s, info.image.data);
            CHECK_EQ(bzna_batch_release(batch), BZNA_OK);
        }
        CHECK_EQ(bzna_loader_close(NULL), BZNA_OK);
        CHECK_EQ(bzna_context_close(NULL), BZNA_OK);
        CHECK_EQ(bzna_batch_release(NULL), BZNA_OK);
        CHECK_EQ(control->maps, control->unmaps);
        finish();
    }
    archive_free(a);
}

typedef struct taker {
    bzna_loader *loader;
    bzna_status  status;
    uint64_t     taken;
    double       last;                /* how long the last call took */
} taker;

static void *take_until_the_end(void *argument)
{
    taker *w = argument;
    bzna_batch *batch;
    uint64_t start;
    do {
        start = bzi_os_now_ns();
        w->status = bzna_loader_next(w->loader, BZNA_WAIT_FOREVER, &batch, NULL);
        w->taken += w->status == BZNA_OK;
        if (w->status == BZNA_OK)
            bzna_batch_release(batch);
    } while (w->status == BZNA_OK);
    w->last = seconds_since(start);
    return NULL;
}

/* The engines take their time, so that the thread waits. */
TEST(stopping_closing_or_losing_the_device_ends_a_thread_that_waits_in_next)
{
    archive *a;
    BEGIN;
    a = plain_archive(40);
    for (int round = 0; round < 8; round++) {
        bzna_loader_config c = config_of(40, round % 2 ? BZNA_DEVICE_CPU : BZNA_DEVICE_CUDA, 0);
        bzna_context *context = gpu_context(2);
        bzna_dataset *dataset = archive_open(context, a);
        bzna_loader *loader;
        pthread_t thread;
        taker w = { NULL, BZNA_OK, 0, 0 };
        uint64_t start;
        int way = round / 2;
        control->engine_us = 60000;
        c.order.epochs = BZNA_EPOCHS_ENDLESS;
        w.loader = loader = loader_open(context, dataset, &c);
        REQUIRE(pthread_create(&thread, NULL, take_until_the_end, &w) == 0);
        sleep_us(30000);
        start = bzi_os_now_ns();
        if (way == 0)
            CHECK_EQ(bzna_loader_stop(loader, NULL), BZNA_OK);
        if (way == 1)
            fake->fail("engine_picture", 1, 719, 0);
        if (way == 2)
            fake->fail("stream_kernel", 1, 700, 0);
        if (way == 3)
            CHECK_EQ(bzna_loader_close(loader), BZNA_OK);
        pthread_join(thread, NULL);
        CHECK(seconds_since(start) < HANG_NS * 1e-9);
        CHECK_EQ(w.status, way == 0 || way == 3 ? BZNA_E_STOPPED : BZNA_E_DEVICE_LOST);
        CHECK_EQ(w.taken, 0);
        if (way == 1 || way == 2) {
            bzna_loader *later = NULL;
            bzna_error e = { .struct_size = sizeof e };
            CHECK_EQ(bzna_loader_open(context, dataset, &c, &later, &e), BZNA_E_DEVICE_LOST);
            CHECK_CONTAINS(e.message, way == 1 ? "CUDA device 0 was lost (719)" : "CUDA device 0 was lost (700)");
        }
        if (way != 3)
            CHECK_EQ(bzna_loader_close(loader), BZNA_OK);
        bzna_dataset_close(dataset);
        bzna_context_close(context);
        CHECK(seconds_since(start) < HANG_NS * 1e-9);
        CHECK_EQ(control->maps, control->unmaps);
        finish();
    }
    archive_free(a);
}

/* Each picture takes an engine 30 ms. Of those that are queued, only what engines are at is decoded to its end. */
TEST(closing_and_resetting_do_not_wait_for_what_is_queued)
{
    archive *a;
    BEGIN;
    a = plain_archive(60);
    for (int way = 0; way < 4; way++) {
        bzna_loader_config c = config_of(60, way % 2 ? BZNA_DEVICE_CUDA : BZNA_DEVICE_CPU, 0);
        bzna_context *context = gpu_context(1);
        bzna_dataset *dataset = archive_open(context, a);
        bzna_loader *loader;
        long long decoded;
        control->engine_us = 30000;
        c.read.ahead_samples = 60;
        loader = loader_open(context, dataset, &c);
        sleep_us(60000);
        decoded = control->decodes;
        if (way < 2)
            CHECK_EQ(bzna_loader_reset(loader, 1, NULL), BZNA_OK);
        else
            CHECK_EQ(bzna_loader_close(loader), BZNA_OK);
        decoded = control->decodes - decoded;               /* a reset goes on with pictures of the next epoch */
        CHECK(decoded < 30);
        control->engine_us = 0;
        if (way < 2)
            CHECK_EQ(bzna_loader_close(loader), BZNA_OK);
        close_all(NULL, dataset, context);
    }
    archive_free(a);
}

/* When the last launch of a lane is not followed by its event, closing must still wait for it. */
TEST(memory_is_not_freed_below_kernels_when_an_event_could_not_be_recorded)
{
    archive *a;
    BEGIN;
    a = plain_archive(24);
    for (int round = 0; round < 4; round++) {
        bzna_loader_config c = config_of(6, round % 2 ? BZNA_DEVICE_CPU : BZNA_DEVICE_CUDA, 0);
        bzna_context *context = gpu_context(2);
        bzna_dataset *dataset = archive_open(context, a);
        bzna_loader *loader;
        bzna_batch *batch = NULL;
        control->stream_us = 6000;
        loader = loader_open(context, dataset, &c);
        fake->fail("cuEventRecord", 1 + round / 2, 1, 1);
        while (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK)
            bzna_batch_release(batch);
        CHECK_EQ(bzna_loader_close(loader), BZNA_OK);
        close_all(NULL, dataset, context);
    }
    archive_free(a);
}

/* A release whose event cannot be recorded must not let the memory be written below a reader that is still at it. */
TEST(a_release_that_the_driver_refuses_is_an_error_and_never_wrong_pixels)
{
    archive *a;
    BEGIN;
    a = plain_archive(48);
    for (int round = 0; round < 4; round++) {
        bzna_loader_config c = config_of(4, BZNA_DEVICE_CUDA, 0);
        bzna_context *context = gpu_context(2);
        bzna_status status = BZNA_OK;
        reading o;
        control->stream_us = 1500;
        c.pipeline.batches_in_flight = 2;
        c.order.epochs = 2;
        reading_start(&o, context, a, QUEUED, &c);
        for (int i = 0; status == BZNA_OK; i++) {
            bzna_batch *batch;
            kept *k = &o.u.kept[o.u.next % KEPT];
            bzna_batch_info info;
            status = bzna_loader_next(o.loader, BZNA_WAIT_FOREVER, &batch, NULL);
            if (status != BZNA_OK)
                break;
            o.u.next++;
            consumer_read(&o.u, &o.r, k);
            see(&o.r, batch, &info, &k->s);
            CHECK(enter(0));
            for (int n = 0; n < 6; n++)                     /* a slow reader */
                driver.download(k->pinned, (CUdeviceptr)(uintptr_t)info.image.data, info.image.bytes, info.stream);
            driver.record(k->copied, info.stream);
            leave(0);
            k->used = 1;
            if (i == 2 + round)
                fake->fail("cuEventRecord", 1, 1, 0);       /* ours or a lane's, if it is faster */
            bzna_batch_release(batch);
        }
        CHECK(status == BZNA_END || status == BZNA_E_DEVICE);
        reading_end(&o);
    }
    archive_free(a);
}

/* ---- 16. Fork ---------------------------------------------------------------------------------------------------- */

static int in_child(int (*run_there)(void *argument), void *argument)
{
    int result = -1;
    pid_t child;
    fflush(stdout);
    child = fork();
    if (child == 0) {
        alarm(30);
        _exit(run_there(argument));
    }
    if (child < 0 || waitpid(child, &result, 0) != child)
        return -1;
    return WIFEXITED(result) ? WEXITSTATUS(result) : -2;
}

typedef struct family {
    bzna_context *context;
    bzna_dataset *dataset;
    bzna_loader  *loader;
    bzna_batch   *batch;
    bzna_loader_config c;
    archive      *a;
} family;

static int child_uses_all(void *argument)
{
    family *f = argument;
    bzna_loader *other = NULL;
    bzna_batch *batch = NULL;
    bzna_device_info info;
    bzna_codec_info codec;
    bzna_statistics stats;
    int wrong = 0;
    wrong |= bzna_loader_next(f->loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_E_STATE ? 0 : 1;
    wrong |= bzna_loader_open(f->context, f->dataset, &f->c, &other, NULL) == BZNA_E_STATE ? 0 : 2;
    wrong |= bzna_context_device_info(f->context, &info, sizeof info, NULL) == BZNA_E_STATE &&
                     bzna_context_codec_info(f->context, BZNA_CODEC_H265, 1, 8, &codec, sizeof codec, NULL) ==
                         BZNA_E_STATE ?
                 0 :
                 4;
    wrong |= bzna_batch_release(f->batch) == BZNA_E_STATE && bzna_batch_move(f->batch, NULL, NULL) == BZNA_E_STATE ? 0 :
                                                                                                                     8;
    wrong |= bzna_loader_reset(f->loader, 0, NULL) == BZNA_E_STATE &&
                     bzna_loader_stop(f->loader, NULL) == BZNA_E_STATE &&
                     bzna_loader_statistics(f->loader, &stats, sizeof stats, NULL) == BZNA_E_STATE ?
                 0 :
                 16;
    wrong |= bzna_loader_close(f->loader) == BZNA_E_STATE ? 0 : 32;
    wrong |= bzna_context_device_info(NULL, &info, sizeof info, NULL) == BZNA_E_STATE ? 0 : 64;
    bzna_dataset_close(f->dataset);
    bzna_context_close(f->context);
    return wrong;
}

/* A context of the child's own: it may only work on the CPU, or say why not. */
static int child_starts_anew(void *argument)
{
    family *f = argument;
    bzna_context *context = NULL;
    bzna_device_info info;
    bzna_context_config config;
    bzna_error e = { .struct_size = sizeof e };
    int wrong = 0;
    (void)f;
    bzna_context_config_init(&config, sizeof config);
    if (bzna_context_open(&config, &context, NULL) != BZNA_OK)
        return 1;
    wrong |= bzna_context_device_info(context, &info, sizeof info, &e) == BZNA_E_STATE &&
             strstr(e.message, "CUDA was started before fork, and a child process cannot use it") ? 0 : 2;
    wrong |= bzna_context_close(context) == BZNA_OK ? 0 : 4;
    config.device.kind = BZNA_DEVICE_CUDA;
    wrong |= bzna_context_open(&config, &context, NULL) == BZNA_E_STATE ? 0 : 8;
    return wrong;
}

static int child_closes_the_context(void *argument)
{
    family *f = argument;
    return bzna_context_close(f->context) == BZNA_OK ? 0 : 1;
}

static int child_forks_itself_software(void *argument)
{
    family *f = argument;
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_context *context = cpu_context();
    bzna_dataset *dataset = archive_open(context, f->a);
    bzna_loader_config c = f->c;
    int wrong;
    c.decode.decoder = BZNA_DECODER_SOFTWARE;
    c.output.device.kind = BZNA_DEVICE_CPU;
    wrong = bzna_loader_open(context, dataset, &c, &loader, NULL) != BZNA_OK ||
            bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) != BZNA_OK;
    return wrong;
}

TEST(a_forked_child_gets_e_state_and_the_parent_goes_on)
{
    if (ON_WINDOWS)
        SKIP("nothing forks here");
    archive *a;
    BEGIN;
    a = plain_archive(40);
    for (int kind = HOST; kind <= SYNCED; kind++) {
        bzna_context *context = gpu_context(5);
        family f = { context,
                     archive_open(context, a),
                     NULL,
                     NULL,
                     config_of(4, kind == HOST ? BZNA_DEVICE_CPU : BZNA_DEVICE_CUDA, 0),
                     a };
        consumer u;
        run r = run_of(a, &f.c);
        int wrong;
        delays(300, 300, 0);
        consumer_open(&u, kind, &f.c);
        f.loader = loader_open(context, f.dataset, &f.c);
        walk_some(f.loader, &u, &r, 2);
        CHECK_EQ(bzna_loader_next(f.loader, BZNA_WAIT_FOREVER, &f.batch, NULL), BZNA_OK);
        wrong = in_child(child_uses_all, &f);
        if (wrong) {
            test_failures++;
            printf("  the child (bits: calls that are not refused; -2: it hung or crashed): %d\n", wrong);
        }
        wrong = in_child(child_starts_anew, &f);
        if (wrong) {
            test_failures++;
            printf("  the child with a context of its own (bits): %d\n", wrong);
        }
        if (!SANITIZED)                                     /* sanitizers do not like threads in a child of many */
            CHECK_EQ(in_child(child_forks_itself_software, &f), 0);
        consumer_take(&u, &r, f.batch);
        walk_some(f.loader, &u, &r, UINT64_MAX);
        CHECK_EQ(r.batches, 10);
        bzna_loader_close(f.loader);
        bzna_dataset_close(f.dataset);
        sleep_us(20000);                                    /* sessions are idle now */
        wrong = in_child(child_closes_the_context, &f);
        if (wrong) {
            test_failures++;
            printf("  the child that closes a context with sessions (-2: it hung or crashed): %d\n", wrong);
        }
        bzna_context_close(context);
        finish();
    }
    archive_free(a);
}

/* ---- 18. Steady state -------------------------------------------------------------------------------------------- */

typedef struct tally { long long values[20]; } tally;

/* What must stand still. */
static tally tally_of(ledger *l)
{
    tally t = { { l->calls,
                  control->mem_allocs,
                  control->mem_frees,
                  control->host_allocs,
                  control->host_frees,
                  control->creates,
                  control->destroys,
                  control->reconfigures,
                  control->parser_creates,
                  control->streams_created,
                  control->streams_destroyed,
                  control->events_created,
                  control->events_destroyed,
                  control->event_syncs,
                  control->stream_syncs,
                  control->pageable_copies,
                  control->calls[FAKE_cuvidGetDecoderCaps],
                  control->calls[FAKE_cuModuleLoadData],
                  control->calls[FAKE_cuCtxPushCurrent_v2] - control->calls[FAKE_cuCtxPopCurrent_v2],
                  control->calls[FAKE_cuDevicePrimaryCtxRetain] } };
    return t;
}

/* The host waits for what was enqueued in none of the calls of the thread that takes and releases batches. */
static int consumer_waits(const void *stream)
{
    long long me = -1;
    int waits = 0;
    CHECK(control->log_count < FAKE_LOG_SIZE);
    for (long long i = 0; i < control->log_count && me < 0; i++)
        if (control->log[i].function == FAKE_cuEventRecord && control->log[i].stream == (long long)(intptr_t)stream)
            me = control->log[i].thread;                    /* a release */
    CHECK(me >= 0);
    for (long long i = 0; i < control->log_count; i++)
        waits += control->log[i].thread == me && (control->log[i].function == FAKE_cuEventSynchronize ||
                                                  control->log[i].function == FAKE_cuStreamSynchronize);
    return waits;
}

TEST(in_steady_state_nothing_is_allocated_created_or_waited_for)
{
    static const char *const names[20] = { "host allocations",
                                           "cuMemAlloc",
                                           "cuMemFree",
                                           "cuMemHostAlloc",
                                           "cuMemFreeHost",
                                           "decoders created",
                                           "destroyed",
                                           "reconfigured",
                                           "parsers",
                                           "streams",
                                           "streams ended",
                                           "events",
                                           "events ended",
                                           "event syncs",
                                           "stream syncs",
                                           "pageable copies",
                                           "caps asked",
                                           "modules",
                                           "contexts pushed and not popped",
                                           "contexts retained" };
    archive *a;
    BEGIN;
    a = archive_make(64, plain, 1);                         /* one set of parameters */
    for (int kind = HOST; kind <= SYNCED; kind += ROUNDS(1, 2)) {
        ledger l;
        bzna_context_config config;
        bzna_context *context = NULL;
        bzna_dataset *dataset;
        bzna_loader_config c = config_of(16, kind == HOST ? BZNA_DEVICE_CPU : BZNA_DEVICE_CUDA, 0);
        bzna_loader *loader;
        bzna_batch *batch;
        tally before, after;
        long long syncs;
        const void *stream = NULL;
        bzna_context_config_init(&config, sizeof config);
        config.sessions = 5;
        config.allocator = ledger_allocator(&l);
        require(bzna_context_open(&config, &context, NULL), "a context");
        dataset = archive_open(context, a);
        c.order.epochs = BZNA_EPOCHS_ENDLESS;
        loader = loader_open(context, dataset, &c);
        control->engine_us = 1500;                          /* every session and every item comes to its turn */
        for (int i = 0; i < 40 || control->creates < 5; i++) {
            REQUIRE(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK);
            bzna_batch_release(batch);
        }
        control->engine_us = 300;
        before = tally_of(&l);
        control->log_count = 0;
        for (int i = 0; i < 60; i++) {
            bzna_batch_info info;
            REQUIRE(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK);
            bzna_batch_get_info(batch, &info, sizeof info, NULL);
            stream = info.stream;
            bzna_batch_release(batch);
        }
        after = tally_of(&l);
        syncs = after.values[13] - before.values[13];
        for (int i = 0; i < 20; i++) {
            if (i == 18 || i == 13) /* threads come and go between push and pop; for events, see below */
                continue;
            if (after.values[i] != before.values[i]) {
                test_failures++;
                printf("  %s: %lld\n", names[i], after.values[i] - before.values[i]);
            }
        }
        /* on the device, a reader waits once a batch at most, for the consumer's work on it */
        CHECK(syncs <= (kind == HOST ? 60 * 5 : 60 + 3));
        CHECK(kind == HOST || !consumer_waits(stream));
        bzna_loader_close(loader);
        bzna_dataset_close(dataset);
        bzna_context_close(context);
        check_settled(&l);
        CHECK_EQ(control->busy_streams_destroyed, 0);
        CHECK_EQ(control->calls[FAKE_cuCtxPushCurrent_v2], control->calls[FAKE_cuCtxPopCurrent_v2]);
        finish();
    }
    archive_free(a);
}

TEST(up_to_four_alternating_frame_sizes_cost_nothing_once_each_session_has_their_decoders)
{
    const int four[4] = { sizes[0], sizes[1], sizes[2], more[0] };
    archive *a;
    BEGIN;
    if (!has_encoders)
        SKIP("this libavcodec has no libx264 and libx265");
    a = archive_make(64, four, 4);
    for (int kind = HOST; kind < CONSUMERS; kind += ROUNDS(1, CONSUMERS)) {
        bzna_loader_config c = config_of(16, 0, 0);
        bzna_context *context = gpu_context(2);
        bzna_statistics stats;
        control->engine_us = 300;                           /* both sessions get work */
        c.order.epochs = ROUNDS(40, 10);
        CHECK_EQ(walk(context, a, &c, kind, &stats).failed, 0);
        CHECK(stats.decoders_made <= 8 && stats.decoders_made > 4);
        CHECK_EQ(stats.decoders_reconfigured, 0);
        CHECK(control->parser_creates <= (long long)(stats.decoders_made + stats.decoders_reconfigured));
        bzna_context_close(context);
        CHECK_EQ(control->parser_creates, control->parser_destroys);
        finish();
    }
    archive_free(a);
}

/* Three sizes in turn, and one session with two decoders: in the order of the queue, every picture but the first two
 * would change a size. */
TEST(an_engine_takes_first_what_it_has_a_decoder_for_and_passes_over_nothing_for_long)
{
    const int three[3] = { sizes[0], sizes[1], sizes[2] };
    archive *a;
    BEGIN;
    if (!has_encoders)
        SKIP("this libavcodec has no libx264 and libx265");
    a = archive_make(96, three, 3);
    for (int kind = HOST; kind <= SYNCED; kind++) {
        bzna_loader_config c = config_of(48, 0, 0);
        bzna_context *context = tight_context(1, 2 * 20ull * 512 * 512 * 3 / 2);
        bzna_statistics stats;
        c.order.kind = BZNA_ORDER_SEQUENTIAL;
        c.order.epochs = 2;
        c.read.ahead_samples = 64;
        control->engine_us = 300;                           /* the queue is full */
        CHECK_EQ(walk(context, a, &c, kind, &stats).failed, 0);
        CHECK_EQ(stats.samples_nvdec, 192);
        CHECK_EQ(stats.decoders_made, 2);
        CHECK(stats.decoders_reconfigured > 0 && stats.decoders_reconfigured <= 192 / 6);
        bzna_context_close(context);
        finish();
    }
    archive_free(a);
}

/* The first of the queue is of no decoder's size, and all others are: it is passed over sixteen times. */
TEST(the_queue_passes_over_its_first_item_so_often_and_keeps_the_order_of_others)
{
    enum { ENTRIES = 40 };
    static bzi_engine engine;
    static bzi_entry entries[ENTRIES];
    bzi_pool pool;
    memset(&pool, 0, sizeof pool);
    memset(&engine, 0, sizeof engine);
    memset(entries, 0, sizeof entries);
    engine.session.decoders.decoders[3].frames = 7;
    for (int i = 0; i < ENTRIES; i++) {
        entries[i].frames = i ? 7 : 8;
        bzi_entries_add(&pool.queue, &entries[i], pool.queue.last);
    }
    for (int i = 0; i < ENTRIES; i++)
        CHECK(bzi_pool_pop(&pool, &engine) == &entries[i < 16 ? i + 1 : i == 16 ? 0 : i]);
    CHECK(!pool.queue.first && !pool.queue.last && !pool.queue.count && !bzi_pool_pop(&pool, &engine));
    entries[0].frames = 8;                                  /* the last one suits: what is left has the right end */
    entries[0].passed_over = 0;
    for (int i = 0; i < 2; i++)
        bzi_entries_add(&pool.queue, &entries[i], pool.queue.last);
    CHECK(bzi_pool_pop(&pool, &engine) == &entries[1]);
    CHECK(pool.queue.first == entries && pool.queue.last == entries && !entries[0].next && pool.queue.count == 1);
    CHECK(bzi_pool_pop(&pool, &engine) == entries && !pool.queue.last);
}

/* Of four sessions with room for two small decoders, two get one. */
TEST(the_surfaces_of_decoders_count_against_decode_memory_bytes)
{
    const uint64_t one = 20ull * 512 * 512 * 3 / 2;
    archive *a;
    BEGIN;
    a = archive_make(64, plain, 1);
    for (uint64_t room = 2; room <= 4; room += 2) {
        bzna_loader_config c = config_of(8, 0, 0);
        bzna_context *context = tight_context(4, room * one + one / 2);
        bzna_statistics stats;
        control->engine_us = 1000;                          /* every session gets work */
        CHECK_EQ(walk(context, a, &c, HOST, &stats).failed, 0);
        CHECK_EQ(stats.decoders_made, room);
        CHECK_EQ(atomic_load(&context->device->decoder_bytes), room * one);
        bzna_context_close(context);
        finish();
    }
    archive_free(a);
}

/* Ten frame sizes, of one format, where a session has four places for decoders. */
static archive *archive_of_ten_sizes(void)
{
    int ten[10];
    for (int i = 0; i < 10; i++)
        ten[i] = i < 6 ? sizes[i] : i < 8 ? more[i - 6] : i < 9 ? plain[0] : formats[0];
    return archive_make(60, ten, 10);
}

TEST(frames_of_many_sizes_share_a_bounded_number_of_decoders)
{
    archive *a;
    bzna_statistics before, after;
    BEGIN;
    if (!has_encoders)
        SKIP("this libavcodec has no libx264 and libx265");
    a = archive_of_ten_sizes();
    for (int kind = HOST; kind < CONSUMERS; kind += ROUNDS(1, CONSUMERS)) {
        bzna_loader_config c = config_of(12, 0, 0);
        bzna_context *context = gpu_context(3);
        delays(100, 200, 0);
        c.order.epochs = 4;
        CHECK_EQ(walk(context, a, &c, kind, &before).failed, 0);
        c.order.seed = 5;
        CHECK_EQ(walk(context, a, &c, kind, &after).failed, 0);
        CHECK(after.decoders_made <= 3 * BZI_NVDEC_CACHE_SLOTS);
        CHECK(after.decoders_reconfigured > before.decoders_reconfigured);
        CHECK_EQ(after.decoders_made, control->creates);
        CHECK_EQ(after.decoders_reconfigured, control->reconfigures);
        CHECK_EQ(after.sessions_lost, 0);
        bzna_context_close(context);
        finish();
    }
    archive_free(a);
}

/* What is not closed, finish() reports. */
TEST(a_session_that_fills_all_places_for_decoders_closes_all_of_them)
{
    archive *a;
    bzna_statistics stats;
    bzna_context *context;
    bzna_loader_config c = config_of(12, 0, 0);
    BEGIN;
    if (!has_encoders)
        SKIP("this libavcodec has no libx264 and libx265");
    a = archive_of_ten_sizes();
    context = gpu_context(1);
    c.order.epochs = 12;
    CHECK_EQ(walk(context, a, &c, HOST, &stats).failed, 0);
    CHECK_EQ(stats.decoders_made, BZI_NVDEC_CACHE_SLOTS);
    bzna_context_close(context);
    finish();
    archive_free(a);
}

/* Of AV1, it may. */
TEST(a_parser_that_asks_for_more_surfaces_than_are_chosen_from_gets_them)
{
    archive *a;
    BEGIN;
    a = plain_archive(40);
    for (int surfaces = 8; surfaces < 14; surfaces += 2) {
        bzna_loader_config c = config_of(8, 0, 0);
        bzna_context *context = gpu_context(2);
        bzna_statistics stats;
        control->min_surfaces = surfaces;
        CHECK_EQ(walk(context, a, &c, SYNCED, &stats).failed, 0);
        CHECK_EQ(stats.samples_nvdec, 40);
        bzna_context_close(context);
        finish();
    }
    archive_free(a);
}

/* Streams of one frame size for which the parser asks for more while others are in flight: each session makes its
 * decoder anew, once, when it is idle. */
TEST(streams_that_ask_for_more_surfaces_than_those_before_them_wait_for_a_decoder_that_has_them)
{
    archive *a;
    BEGIN;
    a = plain_archive(60);
    for (int kind = HOST; kind <= SYNCED; kind++) {
        bzna_loader_config c = config_of(6, kind == HOST ? BZNA_DEVICE_CPU : BZNA_DEVICE_CUDA, 0);
        bzna_context *context = gpu_context(2);
        bzna_statistics stats = { 0 };
        reading o;
        control->engine_us = 1000;
        reading_start(&o, context, a, kind, &c);
        walk_some(o.loader, &o.u, &o.r, 3);
        control->min_surfaces = 15;
        walk_some(o.loader, &o.u, &o.r, UINT64_MAX);
        CHECK_EQ(o.r.failed, 0);
        CHECK_EQ(bzna_loader_statistics(o.loader, &stats, sizeof stats, NULL), BZNA_OK);
        CHECK_EQ(stats.samples_nvdec, 60);
        CHECK_EQ(stats.decoders_made, 4);
        reading_end(&o);
    }
    archive_free(a);
}

/* The archives in tests/data: frames of 512x512, 1024x512 and 1536x1024, in one batch. */
TEST(large_and_small_frames_mix_in_a_batch)
{
    int list[16], n = 0;
    archive *a;
    BEGIN;
    for (uint32_t codec = BZNA_CODEC_H264; codec <= BZNA_CODEC_H265; codec++)
        for (uint64_t i = 2; i < 6; i++)
            listed(list, &n, catalogue_load(codec, i, "bzna_input"));
    catalogue_decode(catalogued - n);
    a = archive_make(24, list, n);
    for (int kind = HOST; kind <= SYNCED; kind += ROUNDS(1, 2)) {
        bzna_loader_config c = config_of(8, 0, 0);
        bzna_context *context = gpu_context(2);
        bzna_statistics stats;
        c.fields.image = "bzna_input";
        delays(100, 100, 0);
        CHECK_EQ(walk(context, a, &c, kind, &stats).failed, 0);
        CHECK_EQ(stats.samples_nvdec, 24);
        c.order.epochs = ROUNDS(6, 3);
        CHECK_EQ(walk(context, a, &c, kind, &stats).failed, 0);
        CHECK(stats.decoders_made <= 2 * 4 * 3); /* two sessions, four places, which grow to serve all three sizes */
        bzna_context_close(context);
        finish();
    }
    archive_free(a);
}

/* ---- Several loaders and contexts -------------------------------------------------------------------------------- */

typedef struct walker {
    bzna_context *context;
    archive      *a;
    bzna_loader_config c;
    int           kind;
    run           r;
} walker;

static void *walk_alone(void *argument)
{
    walker *w = argument;
    w->r = walk(w->context, w->a, &w->c, w->kind, NULL);
    return NULL;
}

TEST(loaders_of_different_sizes_types_and_outputs_share_sessions_and_device)
{
    archive *a, *b;
    BEGIN;
    a = plain_archive(60);
    b = mixed_archive(60);
    archive_damage(b, 7, 2);
    for (int round = 0; round < 4; round++) {
        walker walkers[4];
        pthread_t threads[4];
        bzna_context *contexts[2] = { gpu_context(4), round % 2 ? gpu_context(3) : NULL };
        control->seed = round + 1;
        delays(400, 300, round == 3 ? 50 : 0);
        for (int i = 0; i < 4; i++) {
            walker *w = &walkers[i];
            w->context = contexts[1] ? contexts[i % 2] : contexts[0];
            w->a = i % 2 ? a : b;
            w->c = config_of((uint32_t[]){ 4, 9, 16, 5 }[i], 0, i / 2 ? BZNA_DTYPE_FLOAT16 : BZNA_DTYPE_FLOAT32);
            w->c.output.width = (uint32_t[]){ 24, 17, 33, 20 }[i];
            w->c.output.height = (uint32_t[]){ 16, 19, 8, 20 }[i];
            w->c.order.seed = (uint64_t)(1000 * round + i);
            w->c.order.epochs = ROUNDS(2, 1);
            w->c.errors.on_error = i == 2 ? BZNA_ON_ERROR_REPLACE : BZNA_ON_ERROR_FILL;
            w->kind = (i + round) % CONSUMERS;
            REQUIRE(pthread_create(&threads[i], NULL, walk_alone, w) == 0);
        }
        for (int i = 0; i < 4; i++) {
            pthread_join(threads[i], NULL);
            CHECK_EQ(walkers[i].r.failed, walkers[i].a == b && i != 2 ? ROUNDS(2, 1) : 0);
        }
        bzna_context_close(contexts[0]);
        bzna_context_close(contexts[1]);
        CHECK_EQ(control->maps, control->unmaps);
        finish();
    }
    archive_free(a);
    archive_free(b);
}

/* The library's calls on this thread must leave this thread's context as it was. */
TEST(a_users_cuda_context_is_worked_in_and_a_threads_own_context_is_left_alone)
{
    CUcontext mine = NULL, other = NULL, now = NULL;
    archive *a;
    BEGIN;
    a = mixed_archive(40);
    for (int kind = HOST; kind < CONSUMERS; kind += ROUNDS(1, 2)) {
        bzna_context_config config;
        bzna_context *context = NULL;
        bzna_loader_config c = config_of(6, 0, 0);
        CHECK_EQ(driver.init(0), 0);
        CHECK_EQ(driver.create(&mine, 0, 0), 0);
        CHECK_EQ(driver.pop(&now), 0);
        CHECK_EQ(driver.create(&other, 0, 0), 0);           /* stays current on this thread */
        users_context = mine;
        bzna_context_config_init(&config, sizeof config);
        config.sessions = 3;
        config.cuda_context = mine;
        require(bzna_context_open(&config, &context, NULL), "a context");
        CHECK_EQ(control->calls[FAKE_cuDevicePrimaryCtxRetain], 0);
        delays(100, 200, 0);
        CHECK_EQ(walk(context, a, &c, kind, NULL).failed, 0);
        bzna_context_close(context);
        now = NULL;
        CHECK_EQ(driver.pop(&now), 0);
        CHECK(now == other);
        CHECK_EQ(driver.push(other), 0);
        CHECK_EQ(driver.destroy(other), 0);
        users_context = NULL;
        CHECK_EQ(driver.destroy(mine), 0); /* a violation if anything of the library's is left in it */
        finish();
    }
    archive_free(a);
}

/* Device memory as a framework would give it. */
typedef struct device_ledger {
    _Atomic int64_t blocks, bytes, calls, mistakes;
    int off;                           /* addresses are so many bytes too high */
    _Atomic int refuse_from;           /* from this call on there is no memory; 0: never */
    pthread_mutex_t lock;
    struct { uint64_t ptr; size_t size; } block[256];
} device_ledger;

static void *device_ledger_alloc(void *user, size_t size, void *stream)
{
    device_ledger *l = user;
    CUdeviceptr ptr = 0;
    int64_t call = ++l->calls;
    l->mistakes += !stream;
    if ((l->refuse_from && call >= l->refuse_from) || driver.alloc(&ptr, size + 256) != CUDA_SUCCESS)
        return NULL;
    l->blocks++;
    l->bytes += (int64_t)size;
    pthread_mutex_lock(&l->lock);
    for (int i = 0; i < 256; i++)
        if (!l->block[i].ptr) {
            l->block[i].ptr = ptr + (CUdeviceptr)l->off;
            l->block[i].size = size;
            break;
        }
    pthread_mutex_unlock(&l->lock);
    return (void *)(uintptr_t)(ptr + (CUdeviceptr)l->off);
}

static void device_ledger_release(void *user, void *at, size_t size, void *stream)
{
    const CUdeviceptr ptr = (uintptr_t)at;
    device_ledger *l = user;
    int found = 0;
    l->mistakes += !stream;
    pthread_mutex_lock(&l->lock);
    for (int i = 0; i < 256 && !found; i++)
        if (l->block[i].ptr == ptr) {
            found = 1;
            l->mistakes += l->block[i].size != size;
            l->block[i].ptr = 0;
        }
    pthread_mutex_unlock(&l->lock);
    l->mistakes += !found;
    l->blocks--;
    l->bytes -= (int64_t)size;
    memset(at, 0x77, size);                                 /* nobody uses it any more: TSan would see who does */
    l->mistakes += driver.free(ptr - (CUdeviceptr)l->off) != CUDA_SUCCESS;
}

static bzna_context *ledger_context(device_ledger *l, uint32_t sessions)
{
    bzna_context_config config;
    bzna_context *context = NULL;
    bzna_context_config_init(&config, sizeof config);
    config.sessions = sessions;
    config.device_allocator = (bzna_device_allocator){ l, device_ledger_alloc, device_ledger_release };
    require(bzna_context_open(&config, &context, NULL), "a context");
    return context;
}

/* Closes both: all device memory was given back. The ledger can be used again. */
static void ledger_finish(device_ledger *l, bzna_context *context, bzna_dataset *dataset)
{
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    CHECK_EQ(l->blocks, 0);
    CHECK_EQ(l->mistakes, 0);
    l->calls = 0;
    finish();
}

TEST(a_users_device_allocator_gives_all_memory_of_batches_and_uploads)
{
    static device_ledger l;
    archive *a;
    int list[CODED], n = 0;
    BEGIN;
    pthread_mutex_init(&l.lock, NULL);
    for (int i = 0; i < plain_count; i++)
        list[n++] = plain[i];
    for (int i = 0; i < software_count; i++)
        list[n++] = software[i];
    a = archive_make(50, list, n);
    for (int kind = HOST; kind < CONSUMERS; kind++) {
        bzna_loader_config c = config_of(6, 0, 0);
        bzna_context *context = ledger_context(&l, 3);
        delays(200, 300, 0);
        c.order.epochs = 2;
        CHECK_EQ(walk(context, a, &c, kind, NULL).failed, 0);
        bzna_context_close(context);
        CHECK(l.calls >= 3);
        CHECK_EQ(control->mem_allocs, l.calls);             /* nothing by itself */
        CHECK_EQ(l.blocks, 0);
        CHECK_EQ(l.bytes, 0);
        CHECK_EQ(l.mistakes, 0);
        l.calls = 0;
        finish();
    }
    pthread_mutex_destroy(&l.lock);
    archive_free(a);
}

/* The context's decode sessions are made by its first loader in need: all of them, or none. */
TEST(sessions_that_cannot_be_started_fail_the_loader_and_the_next_one_starts_them)
{
    enum { SESSIONS = 3 };
    archive *a;
    bzna_loader_config c = config_of(6, BZNA_DEVICE_CUDA, 0);
    BEGIN;
    a = archive_make(20, plain, plain_count);
    for (int n = 1; n <= SESSIONS + 6; n++) {               /* memory of the pool's own, too */
        const int of_memory = n > SESSIONS;
        ledger l;
        bzna_context_config config;
        bzna_context *context = NULL;
        bzna_dataset *dataset;
        bzna_loader *loader = (bzna_loader *)&l;
        bzna_error e = { .struct_size = sizeof e };
        bzi_pool *pool = NULL;
        bzi_device *device = NULL;
        char said[96];
        bzna_context_config_init(&config, sizeof config);
        config.sessions = SESSIONS;
        config.allocator = ledger_allocator(&l);
        require(bzna_context_open(&config, &context, NULL), "a context");
        dataset = archive_open(context, a);
        require(bzi_context_gpu(context, &device, &e), "a device");
        const int64_t blocks = l.blocks, bytes = l.bytes;
        if (of_memory)
            l.fail_at = n - SESSIONS;
        else
            thread_that_fails = n;
        if (!of_memory) {
            CHECK_EQ(bzna_loader_open(context, dataset, &c, &loader, &e), BZNA_E_THREAD);
            snprintf(said, sizeof said, "cannot start session %d of %d: ", n - 1, SESSIONS);
            CHECK_CONTAINS(e.message, said);
            CHECK(!loader);
        } else if (bzi_context_pool(context, &pool, &e) != BZNA_OK) {
            CHECK_EQ(e.status, BZNA_E_MEMORY);
            CHECK_CONTAINS(e.message, "decode sessions");
            CHECK(!pool);
        }
        CHECK(of_memory || !thread_that_fails);
        CHECK(of_memory ? pool != NULL || n <= SESSIONS + 2 : !context->pool);
        CHECK(pool || (l.blocks == blocks && l.bytes == bytes));
        l.fail_at = 0;
        bzna_dataset_close(dataset);
        CHECK_EQ(walk(context, a, &c, SYNCED, NULL).failed, 0);
        CHECK_EQ(context->pool->count, SESSIONS);
        bzna_context_close(context);
        CHECK(!l.blocks && !l.bytes && !l.mistakes);
        finish();
    }
    archive_free(a);
}

TEST(device_memory_that_is_missing_or_misaligned_is_refused_without_loss)
{
    static device_ledger l;
    archive *a;
    BEGIN;
    pthread_mutex_init(&l.lock, NULL);
    a = software_count ? archive_make(20, software, software_count) : plain_archive(20);
    for (int way = 0; way < 6; way++) {
        bzna_loader_config c = config_of(6, way % 2 ? BZNA_DEVICE_CUDA : BZNA_DEVICE_CPU, 0);
        bzna_context *context = ledger_context(&l, 2);
        bzna_dataset *dataset = archive_open(context, a);
        bzna_loader *loader = NULL;
        bzna_error e = { .struct_size = sizeof e };
        l.off = way < 2 ? 64 : 0;
        l.refuse_from = way < 2 ? 0 : way < 4 ? 1 : 2;
        CHECK_EQ(bzna_loader_open(context, dataset, &c, &loader, &e), way < 2 ? BZNA_E_CALLBACK : BZNA_E_MEMORY);
        CHECK(!loader);
        CHECK_CONTAINS(e.message, way < 2 ? "device_allocator.alloc: its memory is not aligned to 256 bytes" :
                                            "device_allocator.alloc returned NULL for ");
        l.off = l.refuse_from = 0;
        ledger_finish(&l, context, dataset);
    }
    if (software_count) /* what goes up from libavcodec finds none: the run ends, and tells */
        for (int way = 0; way < 2; way++) {
            bzna_loader_config c = config_of(5, BZNA_DEVICE_CUDA, 0);
            bzna_context *context = ledger_context(&l, 2);
            bzna_dataset *dataset = archive_open(context, a);
            bzna_loader *loader;
            consumer u;
            run r;
            c.pipeline.batches_in_flight = 3;
            if (way)
                l.refuse_from = 5;                          /* after scratch memory and three batches */
            consumer_open(&u, SYNCED, &c);
            loader = loader_open(context, dataset, &c);
            r = run_of(a, &c);
            if (!way)
                walk_some(loader, &u, &r, UINT64_MAX);
            else
                for (int i = 0; i < 2; i++) {
                    bzna_batch *batch = NULL;
                    bzna_error e = { 0 };
                    CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &e), BZNA_E_MEMORY);
                    CHECK_CONTAINS(e.message, "device_allocator.alloc returned NULL for ");
                    CHECK(!batch);
                }
            CHECK_EQ(r.batches, way ? 0 : 4);
            CHECK_EQ(r.failed, 0);
            l.refuse_from = 0;
            bzna_loader_close(loader);
            ledger_finish(&l, context, dataset);
        }
    pthread_mutex_destroy(&l.lock);
    archive_free(a);
}

/* Memory on which somebody still works, in the stream that he then gives to the loader, as caching allocators allow. */
static struct { CUdeviceptr block; size_t size; int given; } cache;

static void *cache_alloc(void *user, size_t size, void *stream)
{
    CUdeviceptr ptr = 0;
    (void)user;
    (void)stream;
    if (!cache.given && size <= cache.size && size > cache.size / 2) {    /* a batch's */
        cache.given = 1;
        return (void *)(uintptr_t)cache.block;
    }
    return driver.alloc(&ptr, size) == CUDA_SUCCESS ? (void *)(uintptr_t)ptr : NULL;
}

static void cache_release(void *user, void *ptr, size_t size, void *stream)
{
    (void)user;
    (void)size;
    (void)stream;
    if ((uintptr_t)ptr != cache.block)
        driver.free((uintptr_t)ptr);
}

TEST(what_is_queued_on_the_stream_comes_before_the_loaders_first_use_of_its_memory)
{
    archive *a;
    BEGIN;
    a = plain_archive(24);
    for (int round = 0; round < 2; round++) {
        bzna_loader_config c = config_of(6, BZNA_DEVICE_CUDA, 0);
        bzna_context_config config;
        bzna_context *context = NULL;
        bzna_dataset *dataset;
        bzna_loader *loader;
        consumer u;
        run r;
        const size_t bytes = 6 * SLOT * sizeof(float);
        void *pinned = NULL;
        int whole = 1;
        consumer_open(&u, GIVEN, &c);
        CHECK(enter(0));
        CHECK_EQ(driver.alloc(&cache.block, bytes), 0);
        CHECK_EQ(driver.host_alloc(&pinned, bytes, 0), 0);
        cache.size = bytes;
        cache.given = 0;
        memset((void *)(uintptr_t)cache.block, 0x3c, bytes);
        control->stream_us = 4000;
        for (int i = 0; i < 8; i++)
            CHECK_EQ(driver.download(pinned, cache.block, bytes, u.stream), 0);
        leave(0);
        bzna_context_config_init(&config, sizeof config);
        config.sessions = 2;
        config.device_allocator = (bzna_device_allocator){ NULL, cache_alloc, cache_release };
        require(bzna_context_open(&config, &context, NULL), "a context");
        dataset = archive_open(context, a);
        loader = loader_open(context, dataset, &c);
        CHECK(cache.given);
        r = run_of(a, &c);
        control->stream_us = 0;
        walk_some(loader, &u, &r, UINT64_MAX);
        CHECK_EQ(r.batches, 4);
        CHECK_EQ(wait_for(0, u.stream), 0);
        for (size_t i = 0; i < bytes; i++)
            whole &= ((const uint8_t *)pinned)[i] == 0x3c;
        CHECK(whole);
        bzna_loader_close(loader);
        bzna_dataset_close(dataset);
        bzna_context_close(context);
        CHECK(enter(0));
        driver.free(cache.block);
        driver.host_free(pinned);
        leave(0);
        consumer_close(&u, &r);
        finish();
    }
    archive_free(a);
}

/* One session for two loaders. What the first one's consumer has enqueued takes long; its batches, given back, wait for
 * that, and nothing else does. */
TEST(a_slow_consumer_holds_up_no_session_and_no_other_loader)
{
    int ms = SLOWED(1200, 6000);      /* more, where a busy machine needs longer for the other loader */
    archive *a;
    BEGIN;
    a = plain_archive(48);
    for (int kind = HOST; kind <= SYNCED; kind += ROUNDS(1, 2)) {
        bzna_loader_config c = config_of(4, BZNA_DEVICE_CUDA, 0), other = c;
        bzna_context *context = gpu_context(1);
        bzna_batch *batches[2];
        bzna_batch_info info;
        reading o;
        void *pinned = NULL;
        uint64_t start;
        c.order.epochs = 3;
        c.pipeline.batches_in_flight = 2;
        reading_start(&o, context, a, GIVEN, &c);
        walk_some(o.loader, &o.u, &o.r, 4);
        CHECK(enter(0));
        CHECK_EQ(driver.host_alloc(&pinned, 4096, 0), 0);
        for (int i = 0; i < 2; i++) {
            seen s;
            REQUIRE(bzna_loader_next(o.loader, BZNA_WAIT_FOREVER, &batches[i], NULL) == BZNA_OK);
            see(&o.r, batches[i], &info, &s);
        }
        CHECK_EQ(driver.stream_sync(o.u.stream), 0);
        sleep_us(200000); /* all streams are quiet: both batches are there, and on loan */
        control->stream_us = 1000 * ms;
        start = bzi_os_now_ns();
        CHECK_EQ(driver.download(pinned, (CUdeviceptr)(uintptr_t)info.image.data, 4096, o.u.stream), 0);
        sleep_us(100000);
        control->stream_us = 0;
        for (int i = 0; i < 2; i++)
            bzna_batch_release(batches[i]);
        leave(0);
        CHECK_EQ(walk(context, a, &other, kind, NULL).failed, 0);  /* another loader, start to end */
        const int late = seconds_since(start) >= 0.0008 * ms;
        CHECK(!late || ms < 30000);
        CHECK(late || bzna_loader_next(o.loader, 0, &batches[0], NULL) == BZNA_AGAIN);
        walk_some(o.loader, &o.u, &o.r, UINT64_MAX);
        CHECK(seconds_since(start) > 0.00095 * ms);
        CHECK(enter(0));
        driver.host_free(pinned);
        leave(0);
        reading_end(&o);
        if (late && ms < 30000) {
            ms *= 4;
            kind -= ROUNDS(1, 2);
        }
    }
    archive_free(a);
}

/* Takes a batch and enqueues one piece of work on it, which takes ms milliseconds. The streams of others are quiet. */
static bzna_batch *take_and_work(bzna_loader *loader, consumer *u, run *r, int number, int ms)
{
    kept *k = &u->kept[number % KEPT];
    bzna_batch *batch = NULL;
    bzna_batch_info info;
    require(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL), "a batch");
    see(r, batch, &info, &k->s);
    CHECK(enter(0));
    CHECK_EQ(driver.stream_sync(u->stream), 0);
    sleep_us(20000);
    control->stream_us = 1000 * ms;
    CHECK_EQ(driver.download(k->pinned, (CUdeviceptr)(uintptr_t)info.image.data, info.image.bytes, u->stream), 0);
    sleep_us(20000);
    control->stream_us = 0;
    leave(0);
    return batch;
}

TEST(work_that_a_consumer_has_enqueued_is_what_limits_where_it_does)
{
    archive *a;
    BEGIN;
    a = plain_archive(60);
    {
        bzna_loader_config c = config_of(6, BZNA_DEVICE_CUDA, 0);
        bzna_context *context = gpu_context(2);
        bzna_statistics stats;
        reading o;
        c.pipeline.batches_in_flight = 1;
        reading_start(&o, context, a, GIVEN, &c);
        for (int i = 0; i < 6; i++)
            bzna_batch_release(take_and_work(o.loader, &o.u, &o.r, i, SLOWED(200, 700)));
        memset(&stats, 0, sizeof stats);
        bzna_loader_statistics(o.loader, &stats, sizeof stats, NULL);
        CHECK_EQ(stats.limiting_stage, BZNA_STAGE_DELIVER);
        reading_end(&o);
    }
    archive_free(a);
}

/* The release can neither be recorded nor waited for: the loader breaks, and a reset must not plan the memory before it
 * is read. */
TEST(after_a_release_that_failed_a_reset_waits_for_what_reads_the_batch)
{
    archive *a;
    BEGIN;
    a = plain_archive(60);
    {
        bzna_loader_config c = config_of(6, BZNA_DEVICE_CUDA, 0);
        bzna_context *context = gpu_context(2);
        bzna_batch *batch;
        reading o;
        uint64_t start;
        c.order.epochs = 4;
        c.pipeline.batches_in_flight = 1;
        reading_start(&o, context, a, GIVEN, &c);
        start = bzi_os_now_ns();
        batch = take_and_work(o.loader, &o.u, &o.r, 0, 700);
        fake->fail("cuEventRecord", 1, 1, 1);
        fake->fail("cuStreamQuery", 1, 1, 0);
        CHECK_EQ(bzna_batch_release(batch), BZNA_OK);
        fake->fail("cuEventRecord", 0, 0, 0);
        CHECK_EQ(bzna_loader_next(o.loader, 0, &batch, NULL), BZNA_E_DEVICE);
        CHECK_EQ(bzna_loader_reset(o.loader, 3, NULL), BZNA_OK);
        REQUIRE(bzna_loader_next(o.loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK);
        CHECK(seconds_since(start) > 0.7);
        /* of the first batch: copied whole before the second was written */
        check_slots(&o.r, &o.u.kept[0].s, o.u.kept[0].pinned);
        bzna_batch_release(batch);
        reading_end(&o);
    }
    archive_free(a);
}

TEST(a_release_that_failed_waits_a_minute_for_what_reads_the_batch_and_then_ends_the_loader)
{
    archive *a;
    BEGIN;
    a = plain_archive(60);
    {
        bzna_loader_config c = config_of(6, BZNA_DEVICE_CUDA, 0);
        bzna_context *context = gpu_context(2);
        bzna_batch *batch;
        bzna_error e = { .struct_size = sizeof e };
        reading o;
        uint64_t start;
        c.pipeline.batches_in_flight = 1;                   /* nothing else is recorded meanwhile */
        reading_start(&o, context, a, GIVEN, &c);
        batch = take_and_work(o.loader, &o.u, &o.r, 0, 80 * (BZI_LOOK_NS / 1000000));
        fake->fail("cuEventRecord", 1, 1, 1);
        start = bzi_os_now_ns();
        CHECK_EQ(bzna_batch_release(batch), BZNA_OK);
        CHECK(seconds_since(start) >= 60 * (BZI_LOOK_NS * 1e-9) && seconds_since(start) < 80 * (BZI_LOOK_NS * 1e-9));
        fake->fail("cuEventRecord", 0, 0, 0);
        CHECK_EQ(bzna_loader_next(o.loader, 0, &batch, &e), BZNA_E_DEVICE);
        CHECK_CONTAINS(e.message, "the program's work on Fake GPU has not ended for a minute");
        reading_end(&o);
    }
    archive_free(a);
}

typedef struct resetting {
    bzna_loader *loader;
    atomic_int   over;
    double       seconds;
} resetting;

static void *reset_it(void *argument)
{
    resetting *r = argument;
    uint64_t start = bzi_os_now_ns();
    CHECK_EQ(bzna_loader_reset(r->loader, 1, NULL), BZNA_OK);
    r->seconds = seconds_since(start);
    r->over = 1;
    return NULL;
}

/* A reset waits for writes to the batches that it throws away. */
static uint32_t ready_batches(bzna_loader *loader)
{
    uint32_t count;
    bzi_queues_lock(&loader->queues);
    count = bzi_queues_count(&loader->queues, BZI_BATCH_READY);
    bzi_queues_unlock(&loader->queues);
    return count;
}

TEST(a_reset_that_waits_for_the_device_holds_up_no_other_call)
{
    archive *a;
    BEGIN;
    a = plain_archive(60);
    {
        bzna_loader_config c = config_of(6, BZNA_DEVICE_CUDA, 0);
        bzna_context *context = gpu_context(2);
        bzna_loader_info info;
        bzna_batch *batch;
        double longest = 0;
        pthread_t thread;
        reading o;
        c.order.epochs = 4;
        c.pipeline.batches_in_flight = 2;
        fake->control->stream_us = 150000;              /* some ten times, but less than a minute of looks */
        reading_start(&o, context, a, GIVEN, &c);
        resetting r = { .loader = o.loader };
        WAIT_FOR(ready_batches(o.loader) == 2);
        REQUIRE(!pthread_create(&thread, NULL, reset_it, &r));
        while (!r.over) {
            uint64_t start = bzi_os_now_ns();
            CHECK_EQ(bzna_loader_get_info(o.loader, &info, sizeof info, NULL), BZNA_OK);
            longest = seconds_since(start) > longest ? seconds_since(start) : longest;
        }
        pthread_join(thread, NULL);
        fake->control->stream_us = 0;
        CHECK(r.seconds > 0.3);
        CHECK(longest < 0.5 * r.seconds);
        REQUIRE(bzna_loader_next(o.loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK);
        bzna_batch_release(batch);
        reading_end(&o);
    }
    archive_free(a);
}

TEST(batches_lie_in_the_users_buffers_on_host_or_device_slice_by_slice)
{
    enum { IN_FLIGHT = 3, SLICES = 2, EACH = 3 };
    archive *a;
    BEGIN;
    a = plain_archive(60);
    for (int kind = HOST; kind < CONSUMERS; kind += ROUNDS(1, 3)) {
        bzna_loader_config c = config_of(SLICES * EACH, kind == HOST ? BZNA_DEVICE_CPU : BZNA_DEVICE_CUDA, 0);
        bzna_context *context = gpu_context(3);
        bzna_dataset *dataset = archive_open(context, a);
        bzna_buffer buffers[IN_FLIGHT * SLICES];
        const size_t bytes = EACH * SLOT * sizeof(float);
        bzna_loader *loader;
        bzna_batch *batch;
        consumer u;
        run r;
        delays(300, 300, 0);
        CHECK(enter(0));
        for (int i = 0; i < IN_FLIGHT * SLICES; i++) {
            CUdeviceptr ptr = 0;
            CHECK_EQ(driver.alloc(&ptr, bytes), 0);
            buffers[i].data = kind == HOST ? take_memory(bytes) : (void *)(uintptr_t)ptr;
            buffers[i].bytes = bytes;
            if (kind == HOST)
                driver.free(ptr);
        }
        driver.pop(NULL);             /* and keep the reference */
        c.pipeline.batches_in_flight = IN_FLIGHT;
        c.output.buffers = buffers;
        c.output.buffer_count = IN_FLIGHT * SLICES;
        c.output.slices = SLICES;
        c.order.epochs = 2;
        consumer_open(&u, kind == HOST ? HOST : GIVEN, &c);
        loader = loader_open(context, dataset, &c);
        r = run_of(a, &c);
        while (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
            bzna_batch_info info;
            seen s, part;
            see(&r, batch, &info, &s);
            CHECK_EQ(info.slice_count, SLICES);
            if (info.stream)
                CHECK_EQ(wait_for(0, info.stream), 0);
            for (uint32_t k = 0; k < SLICES; k++) {
                const uint32_t count = info.count <= k * EACH ? 0 : bzi_min32(EACH, info.count - k * EACH);
                const void *data = info.slices[k];
                int ours = 0;
                for (int i = 0; i < IN_FLIGHT; i++)
                    ours |= data == buffers[i * SLICES + (int)k].data;
                CHECK(ours);
                part = s;
                part.position += k * EACH;
                part.count = count;
                memmove(part.indices, part.indices + k * EACH, EACH * sizeof part.indices[0]);
                memmove(part.targets, part.targets + k * EACH, EACH * sizeof part.targets[0]);
                memmove(part.status, part.status + k * EACH, EACH * sizeof part.status[0]);
                check_slots(&r, &part, data);
            }
            bzna_batch_release(batch);
        }
        CHECK_EQ(r.batches, 20);
        bzna_loader_close(loader);
        consumer_close(&u, &r);
        CHECK(enter(0));
        for (int i = 0; i < IN_FLIGHT * SLICES; i++)
            if (kind == HOST)
                free(buffers[i].data);
            else
                CHECK_EQ(driver.free((CUdeviceptr)(uintptr_t)buffers[i].data), 0);
        leave(0);
        driver.release(0);
        close_all(NULL, dataset, context);
    }
    archive_free(a);
}

TEST(a_thousand_loaders_and_contexts_closed_in_any_phase_leave_nothing)
{
    archive *a;
    bzna_context *context = NULL;
    int cycles = ROUNDS(1000, 50);
    BEGIN;
    a = plain_archive(24);
    archive_damage(a, 5, 2);
    delays(60, 60, 0);
    for (int i = 0; i < cycles; i++) {
        bzna_loader_config c = config_of(3, roll(2) ? BZNA_DEVICE_CPU : BZNA_DEVICE_CUDA, 0);
        bzna_dataset *dataset;
        bzna_loader *loader;
        bzna_batch *held[2];
        int n = 0;
        if (!context)
            context = gpu_context(1 + roll(3));
        dataset = archive_open(context, a);
        c.decode.threads = 1;
        c.pipeline.batches_in_flight = 2;
        c.errors.on_error = roll(2);
        loader = loader_open(context, dataset, &c);
        for (uint32_t want = roll(5); want; want--) {
            bzna_batch *batch = NULL;
            if (bzna_loader_next(loader, roll(2) ? BZNA_WAIT_FOREVER : 100000, &batch, NULL) != BZNA_OK)
                continue;
            if (n < 1 && roll(4) == 0)
                held[n++] = batch;
            else
                bzna_batch_release(batch);
        }
        if (roll(6) == 0)
            CHECK_EQ(bzna_loader_reset(loader, roll(4), NULL), BZNA_OK);
        bzna_dataset_close(dataset);
        if (roll(8) == 0) {
            bzna_context_close(context);
            context = NULL;
        }
        CHECK_EQ(bzna_loader_close(loader), BZNA_OK);
        while (n)
            bzna_batch_release(held[--n]);
    }
    bzna_context_close(context);
    CHECK_EQ(control->maps, control->unmaps);
    finish();
    archive_free(a);
}

/* ---- States, callbacks, tensors, restarts ------------------------------------------------------------------------ */

static bzna_context *any_context(int on_gpu) { return on_gpu ? gpu_context(4) : cpu_context(); }

TEST(a_state_saved_on_the_cpu_goes_on_on_the_gpu_and_back_with_the_same_samples_and_pixels)
{
    archive *a;
    BEGIN;
    a = mixed_archive(50);
    for (int way = 0; way < 4; way += ROUNDS(1, 3)) {
        bzna_loader_state state;
        uint64_t epoch = 0, position = 0, batches = 0;
        memset(&state, 0, sizeof state);
        for (int leg = 0; leg < 3; leg++) {
            int on_gpu = (way + leg) % 2, kind = !on_gpu ? HOST : way / 2 ? QUEUED : HOST;
            bzna_context *context = any_context(on_gpu);
            bzna_loader_config c = config_of((uint32_t[]){ 5, 8, 6 }[leg],
                                             kind == HOST ? BZNA_DEVICE_CPU : BZNA_DEVICE_CUDA, 0);
            reading o;
            delays(200, 200, 0);
            c.decode.decoder = on_gpu ? BZNA_DECODER_NVDEC : BZNA_DECODER_SOFTWARE;
            c.order.epochs = 2;
            reading_start(&o, context, a, kind, &c);
            if (leg) {
                CHECK_EQ(bzna_loader_restore(o.loader, &state, NULL), BZNA_OK);
                o.r.epoch = epoch;
                o.r.position = position;
            }
            walk_some(o.loader, &o.u, &o.r, leg == 2 ? UINT64_MAX : 4);
            CHECK_EQ(bzna_loader_save(o.loader, &state, sizeof state, NULL), BZNA_OK);
            epoch = o.r.epoch;
            position = o.r.position;
            batches += o.r.batches;
            reading_end(&o);
        }
        CHECK(epoch == 1 && position == 50 && batches > 8);
    }
    archive_free(a);
}

/* Changes much, by the callback's own random numbers. */
static bzna_status change(void *user, const bzna_sample_info *sample, bzna_random *random, bzna_transform *t)
{
    (void)user;
    t->homography[2] += bzna_random_uniform(random, -9, 9);
    t->homography[5] += bzna_random_uniform(random, -9, 9);
    t->homography[1] += bzna_random_uniform(random, -0.1, 0.1);
    t->fill[1] = (float)bzna_random_uniform(random, 0, 3);
    t->color[0] = 0.5f;
    t->color[3] = (float)(sample->index % 5);
    t->bias[2] += (float)sample->target / 1e6f;
    t->matrix = sample->index % 2 ? BZNA_MATRIX_BT709 : BZNA_MATRIX_AUTO;
    return sample->epoch == 1 && sample->index == 9 ? BZNA_E_CALLBACK : BZNA_OK;
}

TEST(the_transform_callback_has_the_same_say_on_the_device)
{
    archive *a;
    BEGIN;
    a = mixed_archive(44);
    for (int kind = HOST; kind < CONSUMERS; kind += ROUNDS(1, 2)) {
        bzna_context *context = gpu_context(5);
        bzna_dataset *dataset = archive_open(context, a);
        bzna_loader_config c = config_of(7, kind == HOST ? BZNA_DEVICE_CPU : BZNA_DEVICE_CUDA, 0);
        bzna_loader *loader;
        consumer u;
        run r;
        delays(300, 300, 0);
        c.pipeline.transform = change;
        c.errors.on_callback_error = BZNA_ON_CALLBACK_ERROR_SAMPLE;
        c.order.epochs = 2;
        c.errors.on_error = kind == SYNCED ? BZNA_ON_ERROR_REPLACE : BZNA_ON_ERROR_FILL;
        consumer_open(&u, kind, &c);
        loader = loader_open(context, dataset, &c);
        r = run_of(a, &c);
        walk_some(loader, &u, &r, 7);
        r.may_fail = 1;
        walk_some(loader, &u, &r, UINT64_MAX);
        bzna_loader_close(loader);
        consumer_close(&u, &r);
        CHECK_EQ(r.batches, 14);
        CHECK_EQ(r.failed, kind == SYNCED ? 0 : 1);
        bzna_dataset_close(dataset);
        bzna_context_close(context);
        CHECK_EQ(control->maps, control->unmaps);
        finish();
    }
    archive_free(a);
}

TEST(a_tensor_of_the_device_says_so_and_keeps_the_batch)
{
    archive *a;
    BEGIN;
    a = plain_archive(24);
    for (int way = 0; way < 8; way++) {
        const int on_device = way & 1, half = way >> 1 & 1, last = way >> 2;
        bzna_context *context;
        bzna_dataset *dataset;
        const bzna_device lies = { on_device ? BZNA_DEVICE_CUDA : BZNA_DEVICE_CPU, on_device };
        bzna_loader_config c = config_of(4, lies.kind, half ? BZNA_DTYPE_FLOAT16 : BZNA_DTYPE_FLOAT32);
        bzna_context_config config;
        bzna_loader *loader;
        bzna_batch *batch = NULL;
        bzna_batch_info info;
        bzna_tensor field, of;
        void *tensor = NULL, *versioned = NULL, *other = NULL;
        bzi_dl_managed *m;
        bzi_dl_versioned *v;
        seen s;
        run r;
        control->devices = 3;
        bzna_context_config_init(&config, sizeof config);
        config.sessions = 2;
        config.device = (bzna_device){ BZNA_DEVICE_CUDA, 1 };
        c.output.device = lies;
        c.output.layout = last ? BZNA_LAYOUT_NHWC : BZNA_LAYOUT_NCHW;
        r = run_of(a, &c);
        require(bzna_context_open(&config, &context, NULL), "a context");
        dataset = archive_open(context, a);
        loader = loader_open(context, dataset, &c);
        REQUIRE(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK);
        memset(&info, 0, sizeof info);
        bzna_batch_get_info(batch, &info, sizeof info, NULL);
        CHECK(info.image.device.kind == lies.kind && info.image.device.ordinal == lies.ordinal);
        CHECK(info.image.dtype == c.output.dtype && info.image.dimensions == 4 && info.image.shape[0] == 4);
        CHECK_EQ(info.image.bytes, 4 * SLOT * (half ? 2 : 4));
        CHECK_EQ(info.image.shape[1], last ? HEIGHT : 3);
        CHECK_EQ(info.image.shape[2], last ? WIDTH : HEIGHT);
        CHECK_EQ(info.image.shape[3], last ? 3 : WIDTH);
        CHECK_EQ(bzna_batch_tensor(batch, "image", &of, sizeof of, NULL), BZNA_OK);
        CHECK(!memcmp(&of, &info.image, sizeof of));
        CHECK_EQ(bzna_loader_tensor(loader, 0, &field, sizeof field, NULL), BZNA_OK);
        CHECK(field.data == NULL);
        field.data = of.data;                               /* all else is the same, of a full batch */
        CHECK(!memcmp(&of, &field, sizeof of));
        for (uint32_t number = 1; number < 4; number++) {   /* these are on the host, always */
            CHECK_EQ(bzna_loader_tensor(loader, number, &field, sizeof field, NULL), BZNA_OK);
            CHECK(field.device.kind == BZNA_DEVICE_CPU && field.device.ordinal == 0);
            CHECK_EQ(bzna_batch_tensor(batch, field.name, &of, sizeof of, NULL), BZNA_OK);
            CHECK(of.device.kind == BZNA_DEVICE_CPU && of.device.ordinal == 0);
            CHECK(of.dtype == field.dtype && of.bytes == field.bytes);
        }
        CHECK_EQ(bzna_batch_to_dlpack(batch, "image", BZNA_DLPACK_0, &tensor, NULL), BZNA_OK);
        CHECK_EQ(bzna_batch_to_dlpack(batch, "image", BZNA_DLPACK_1, &versioned, NULL), BZNA_OK);
        CHECK_EQ(bzna_batch_to_dlpack(batch, "index", BZNA_DLPACK_0, &other, NULL), BZNA_OK);
        m = tensor;
        v = versioned;
        CHECK_EQ(m->tensor.device_type, on_device ? 2 : 1);
        CHECK_EQ(m->tensor.device_id, on_device ? 1 : 0);
        CHECK(m->tensor.code == 2 && m->tensor.bits == (half ? 16 : 32) && m->tensor.dimensions == 4 &&
              m->tensor.data == info.image.data);
        CHECK(v->major == 1 && v->minor == 0 && v->flags == 0 && !memcmp(&v->tensor, &m->tensor, sizeof v->tensor));
        for (int i = 0; i < 4; i++)
            CHECK_EQ(m->tensor.shape[i], info.image.shape[i]);
        m = other;
        CHECK_EQ(m->tensor.device_type, 1);
        CHECK_EQ(m->tensor.device_id, 0);
        CHECK_EQ(bzna_batch_release(batch), BZNA_OK);
        bzna_loader_close(loader);
        bzna_dataset_close(dataset);
        bzna_context_close(context);
        if (on_device)                                      /* it can still be read */
            CHECK_EQ(wait_for(1, info.stream), 0);
        s.epoch = s.position = 0;
        s.count = info.count;
        for (uint32_t i = 0; i < info.count; i++) {
            s.indices[i] = info.indices[i];
            s.targets[i] = info.targets[i];
            s.status[i] = info.status[i];
        }
        check_slots(&r, &s, info.image.data);
        m->deleter(m);
        if (last)
            v->deleter(v);
        m = tensor;
        m->deleter(m);
        if (!last)
            v->deleter(v);
        finish();
    }
    archive_free(a);
}

TEST(stops_resets_and_restores_amid_work_give_what_comes_next)
{
    archive *a;
    BEGIN;
    a = plain_archive(60);
    archive_damage(a, 31, 2);
    for (int kind = HOST; kind < CONSUMERS; kind++) {
        bzna_context *context = gpu_context(kind == QUEUED ? 14 : 4);
        bzna_dataset *dataset = archive_open(context, a);
        bzna_loader_config c = config_of(6, kind == HOST ? BZNA_DEVICE_CPU : BZNA_DEVICE_CUDA,
                                         kind == GIVEN ? BZNA_DTYPE_FLOAT16 : 0);
        bzna_loader *loader;
        bzna_loader_state state;
        bzna_batch *batch = NULL;
        uint64_t epoch = 0, position = 0;
        consumer u;
        run r;
        delays(400, 400, kind == SYNCED ? 50 : 0);
        c.order.epochs = BZNA_EPOCHS_ENDLESS;
        c.errors.on_error = kind % 2 ? BZNA_ON_ERROR_REPLACE : BZNA_ON_ERROR_FILL;
        consumer_open(&u, kind, &c);
        loader = loader_open(context, dataset, &c);
        r = run_of(a, &c);
        CHECK_EQ(bzna_loader_save(loader, &state, sizeof state, NULL), BZNA_OK);
        for (int i = 0; i < ROUNDS(40, 12); i++) {
            switch (roll(4)) {
            case 0:
                r.epoch = roll(9);
                r.position = 0;
                CHECK_EQ(bzna_loader_reset(loader, r.epoch, NULL), BZNA_OK);
                break;
            case 1:
                CHECK_EQ(bzna_loader_stop(loader, NULL), BZNA_OK);
                CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL), BZNA_E_STOPPED);
                r.epoch = 2;
                r.position = 0;
                CHECK_EQ(bzna_loader_reset(loader, 2, NULL), BZNA_OK);
                break;
            case 2:
                CHECK_EQ(bzna_loader_restore(loader, &state, NULL), BZNA_OK);
                r.epoch = epoch;
                r.position = position;
                break;
            default:
                CHECK_EQ(bzna_loader_save(loader, &state, sizeof state, NULL), BZNA_OK);
                epoch = r.epoch;
                position = r.position;
            }
            walk_some(loader, &u, &r, roll(5));
        }
        bzna_loader_close(loader);
        consumer_close(&u, &r);
        bzna_dataset_close(dataset);
        bzna_context_close(context);
        CHECK_EQ(control->maps, control->unmaps);
        finish();
    }
    archive_free(a);
}

/* ---- 4, 5, 9, 10. Surfaces, queues, engines ---------------------------------------------------------------------- */

/* A violation otherwise: a surface that is in flight or mapped is submitted again. */
TEST(surfaces_are_not_used_again_before_they_are_unmapped_whatever_index_the_parser_names)
{
    archive *a;
    BEGIN;
    a = damaged_archive(60);
    for (int index = FAKE_INDEX_CYCLE; index <= FAKE_INDEX_RANDOM; index++)
        for (int kind = HOST; kind <= SYNCED; kind++) {
            bzna_loader_config c = config_of(12, 0, 0);
            bzna_context *context = gpu_context(2);
            control->parser_index = index;
            control->min_surfaces = index == FAKE_INDEX_RANDOM ? 1 : 4;
            control->seed = 5 + index;
            delays(400, 600, 50);
            walk(context, a, &c, kind, NULL);
            bzna_context_close(context);
            CHECK(control->max_mapped >= 2 && control->max_mapped <= 8);
            CHECK_EQ(control->maps, control->unmaps);
            finish();
        }
    archive_free(a);
}

TEST(sessions_keep_pictures_queued_while_there_is_work_and_never_too_many)
{
    archive *a;
    BEGIN;
    a = plain_archive(256);
    for (int kind = HOST; kind <= SYNCED; kind++) {
        bzna_loader_config c = config_of(64, 0, 0);
        bzna_context *context = gpu_context(3);
        long long deep = 0, all = 0;
        control->engine_us = 1500;
        c.read.threads = 2;
        walk(context, a, &c, kind, NULL);
        for (int i = 0; i < 33; i++) {
            all += control->map_depth[i];
            deep += i >= 2 ? control->map_depth[i] : 0;
        }
        CHECK_EQ(all, 256);
        CHECK(deep >= all * 6 / 10);
        if (deep < all * 6 / 10)
            printf("  of %lld maps, %lld with 2 pictures or more in flight\n", all, deep);
        CHECK(control->max_queued >= 2 && control->max_queued <= 4);
        bzna_context_close(context);
        finish();
    }
    archive_free(a);
}

static bzna_codec_info codec_info(bzna_context *context, uint32_t codec, uint32_t chroma, uint32_t depth)
{
    bzna_codec_info info = { 0 };
    CHECK_EQ(bzna_context_codec_info(context, codec, chroma, depth, &info, sizeof info, NULL), BZNA_OK);
    return info;
}

/* Batches of 64, and one session: its launches are of eight pictures, and each has an event for each batch that it
 * writes to. Of pictures that were sound in the first epoch, one of a flush is asked for its status. */
TEST(a_picture_takes_three_calls_of_the_driver_and_parts_of_a_status_a_launch_and_an_event)
{
    archive *a;
    BEGIN;
    a = archive_make(256, plain, 1);
    for (int kind = HOST; kind <= SYNCED; kind++) {
        bzna_loader_config c = config_of(64, 0, 0);
        bzna_context *context = gpu_context(1);
        bzna_dataset *dataset = archive_open(context, a);
        bzna_loader *loader = NULL;
        c.order.epochs = 1;
        c.read.threads = 2;
        control->engine_us = 500;
        c.output.device.kind = kind == HOST ? BZNA_DEVICE_CPU : BZNA_DEVICE_CUDA;
        codec_info(context, BZNA_CODEC_H265, 1, 8);         /* the self-check's calls are over before any is counted */
        for (int epoch = 0; epoch < 3; epoch++) {
            const fake_number *calls = control->calls;
            const long long decodes = calls[FAKE_cuvidDecodePicture], maps = calls[FAKE_cuvidMapVideoFrame64],
                            unmaps = calls[FAKE_cuvidUnmapVideoFrame64], statuses = calls[FAKE_cuvidGetDecodeStatus],
                            launches = control->launches, records = calls[FAKE_cuEventRecord];
            long long asked, all;
            bzna_batch *batch = NULL;
            if (epoch)
                CHECK_EQ(bzna_loader_reset(loader, (uint64_t)epoch, NULL), BZNA_OK);
            else                      /* it decodes at once, hence not before calls are counted */
                loader = loader_open(context, dataset, &c);
            for (int i = 0; i < 4; i++) {
                CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL), BZNA_OK);
                CHECK_EQ(batch->failed, 0);
                bzna_batch_release(batch);
            }
            WAIT_FOR(calls[FAKE_cuvidUnmapVideoFrame64] - unmaps == 256);
            asked = calls[FAKE_cuvidGetDecodeStatus] - statuses;
            all = calls[FAKE_cuvidDecodePicture] - decodes + calls[FAKE_cuvidMapVideoFrame64] - maps +
                  calls[FAKE_cuvidUnmapVideoFrame64] - unmaps + asked + control->launches - launches +
                  calls[FAKE_cuEventRecord] - records;
            printf("  epoch %d: %.2f calls a picture: %.2f of them ask for a status, %.2f launch, %.2f record an "
                   "event\n", epoch, (double)all / 256, (double)asked / 256,
                   (double)(control->launches - launches) / 256,
                   (double)(calls[FAKE_cuEventRecord] - records) / 256);
            CHECK_EQ(calls[FAKE_cuvidDecodePicture] - decodes, 256);
            CHECK_EQ(calls[FAKE_cuvidMapVideoFrame64] - maps, 256);
            CHECK(epoch == 0 ? asked == 256 : asked > 0 && asked <= control->launches - launches);
            CHECK(control->launches - launches <= 256 / 5);
            /* of the session one a launch, and more if it ends a batch; of the consumer, who copies, and its release */
            CHECK(calls[FAKE_cuEventRecord] - records <=
                  control->launches - launches + 4 * (kind == HOST ? 2 : 4) + 8);
        }
        close_all(loader, dataset, context);
    }
    archive_free(a);
}

/* Samples were sound, and their bytes change under the loader. One of a flush is asked about even so: with the first
 * that is damaged, all are again. */
TEST(a_data_set_that_changes_is_noticed_and_every_status_is_asked_for_again)
{
    enum { COUNT_ALL = 64, DAMAGED = 40 };
    archive *a;
    bzna_context *context;
    bzna_dataset *dataset;
    bzna_loader_config c = config_of(16, 0, 0);
    bzna_loader *loader;
    BEGIN;
    a = archive_make(COUNT_ALL, fragile, 1);
    context = gpu_context(1);
    dataset = archive_open(context, a);
    c.order.epochs = 1;
    loader = loader_open(context, dataset, &c);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        uint32_t failed = 0;
        const long long asked = control->calls[FAKE_cuvidGetDecodeStatus];
        CHECK_EQ(bzna_loader_reset(loader, epoch, NULL), BZNA_OK);
        for (int i = 0; i < COUNT_ALL / 16; i++) {
            bzna_batch *batch = NULL;
            CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL), BZNA_OK);
            failed += batch->failed;
            bzna_batch_release(batch);
        }
        CHECK(epoch == 0 ? failed == 0 : epoch == 1 ? failed >= 1 && failed <= DAMAGED : failed == DAMAGED);
        CHECK_EQ(atomic_load(&loader->queues.changes), epoch > 0);
        if (epoch == 2)
            CHECK_EQ(control->calls[FAKE_cuvidGetDecodeStatus] - asked, COUNT_ALL);
        for (uint64_t i = 0; i < DAMAGED && epoch == 0; i++)
            archive_damage(a, i, 0);
    }
    close_all(loader, dataset, context);
    archive_free(a);
}

/* Four pictures are launched, and their event waits for the batch's other four, whose maps fail: libavcodec decodes
 * those, long before the stream has written the first. */
TEST(a_batch_whose_last_pictures_go_elsewhere_waits_for_those_that_were_launched)
{
    archive *a;
    BEGIN;
    a = archive_make(8, plain, 1);
    for (int kind = HOST; kind <= SYNCED; kind++) {
        bzna_context_config config;
        bzna_context *context = NULL;
        bzna_loader_config c = config_of(8, 0, 0);
        bzna_statistics stats;
        bzna_context_config_init(&config, sizeof config);
        config.sessions = 1;
        config.session_mapped = 4;
        require(bzna_context_open(&config, &context, NULL), "a context");
        control->engine_us = 2000;                          /* the other four are in flight */
        control->stream_us = 30000;
        fake->fail("cuvidMapVideoFrame64", 5, 999, 1);
        CHECK_EQ(walk(context, a, &c, kind, &stats).failed, 0);
        CHECK_EQ(stats.samples_nvdec, 4);
        CHECK_EQ(stats.samples_software, 4);
        fake->fail("cuvidMapVideoFrame64", 0, 0, 0);
        bzna_context_close(context);
        finish();
    }
    archive_free(a);
}

/* Every depth and number of mapped surfaces has the same pixels, and stays within them. */
TEST(sessions_have_as_many_pictures_in_flight_and_mapped_as_asked_for)
{
    static const uint32_t ways[][2] = { { 1, 1 }, { 2, 3 }, { 16, 8 }, { 3, 8 }, { 8, 2 } };
    archive *a;
    BEGIN;
    a = damaged_archive(96);
    for (size_t i = 0; i < COUNT(ways); i++) {
        bzna_context_config config;
        bzna_context *context = NULL;
        bzna_loader_config c = config_of(32, 0, 0);
        long long deepest = 0;
        bzna_context_config_init(&config, sizeof config);
        config.sessions_per_engine = 1;
        config.session_depth = ways[i][0];
        config.session_mapped = ways[i][1];
        control->engines = 2;
        require(bzna_context_open(&config, &context, NULL), "a context");
        delays(100, 200, 0);
        c.read.threads = 2;
        walk(context, a, &c, i % 2 ? SYNCED : HOST, NULL);
        for (int k = 0; k < 33; k++)
            deepest = control->map_depth[k] ? k : deepest;
        CHECK(deepest <= ways[i][0] && control->max_mapped <= ways[i][1]);
        CHECK(deepest >= (ways[i][0] > 1 ? 2 : 1) && control->max_mapped >= (ways[i][1] > 1 ? 2 : 1));
        CHECK_EQ(context->pool->count, 2);
        bzna_context_close(context);
        finish();
    }
    archive_free(a);
}

/* In a context that another library has made, a session asks whether a picture is done and sleeps, instead of waiting
 * in a call that spins. Damage is noticed as ever; of AV1, whose status nobody tells, the call waits. */
TEST(where_the_drivers_calls_spin_a_session_maps_only_pictures_that_are_done)
{
    BEGIN;
    for (int way = 0; way < 4; way++) {                     /* blocking; spinning; on the device; a silent driver */
        archive *a = way < 3 ? damaged_archive(60) : plain_archive(60);
        bzna_loader_config c = config_of(12, 0, 0);
        bzna_context *context = gpu_context(2);
        control->spins = way > 0;
        control->no_status = way == 3;
        control->engine_us = 500;
        walk(context, a, &c, way == 2 ? SYNCED : HOST, NULL);
        CHECK_EQ(context->device->spins, way > 0);
        CHECK(control->maps > 20);
        if (way == 0 || way == 3)
            CHECK(control->map_waits > 0);
        else
            CHECK_EQ(control->map_waits, 0);
        if (way == 0)
            CHECK_EQ(control->calls[FAKE_cuvidGetDecodeStatus], control->maps);
        bzna_context_close(context);
        finish();
        archive_free(a);
    }
}

TEST(all_engines_are_busy_and_sessions_are_four_an_engine_or_three_of_one_or_as_many_as_asked_for)
{
    static const struct {
        int engines;
        uint32_t wanted, sessions;
    } ways[] = { { 7, 0, 28 }, { 1, 0, 3 }, { 7, 9, 9 }, { 2, 1, 1 }, { 3, 0, 12 } };
    archive *a;
    BEGIN;
    a = plain_archive(150);
    for (size_t i = 0; i < COUNT(ways); i++) {
        bzna_context *context = gpu_context(ways[i].wanted);
        bzna_dataset *dataset = archive_open(context, a);
        bzna_loader_config c = config_of(50, BZNA_DEVICE_CUDA, 0);
        bzna_loader *loader;
        bzna_loader_info info;
        bzna_device_info device;
        consumer u;
        run r;
        control->engines = ways[i].engines;
        control->engine_us = 3000;
        memset(&info, 0, sizeof info);
        memset(&device, 0, sizeof device);
        CHECK_EQ(bzna_context_device_info(context, &device, sizeof device, NULL), BZNA_OK);
        CHECK_EQ(device.sessions, 0);
        CHECK_EQ(device.engines, ways[i].engines);
        consumer_open(&u, SYNCED, &c);
        loader = loader_open(context, dataset, &c);
        r = run_of(a, &c);
        CHECK_EQ(bzna_loader_get_info(loader, &info, sizeof info, NULL), BZNA_OK);
        CHECK_EQ(info.sessions, ways[i].sessions);
        CHECK_EQ(info.reader_threads, info.sessions < 4 ? 2 : info.sessions < 16 ? info.sessions / 2 : 8);
        CHECK_EQ(info.decoder, BZNA_DECODER_NVDEC);
        CHECK_CONTAINS(info.decoder_name, "Fake GPU");
        CHECK_EQ(bzna_context_device_info(context, &device, sizeof device, NULL), BZNA_OK);
        CHECK_EQ(device.sessions, ways[i].sessions);
        walk_some(loader, &u, &r, UINT64_MAX);
        CHECK(control->max_busy_decoders >= (long long)bzi_min(ways[i].sessions, (uint64_t)ways[i].engines));
        CHECK(control->max_busy_decoders <= (long long)ways[i].sessions);
        CHECK(control->max_busy_engines >= (long long)bzi_min(ways[i].sessions, (uint64_t)ways[i].engines) - 1);
        close_all(loader, dataset, context);
    }
    archive_free(a);
}

/* Drivers from before nNumNVDECs was counted say 0 engines of what they support. */
TEST(a_codec_that_is_supported_by_no_engine_has_one)
{
    archive *a;
    BEGIN;
    a = archive_make(12, plain, 1);
    bzna_loader_config c = config_of(6, 0, 0);
    bzna_device_info info = { .struct_size = sizeof info };
    bzna_codec_info codec = { .struct_size = sizeof codec };
    bzna_statistics stats;
    bzna_context *context;
    control->uncounted = 1;
    context = gpu_context(0);
    CHECK_EQ(bzna_context_device_info(context, &info, sizeof info, NULL), BZNA_OK);
    CHECK_EQ(info.video, BZNA_OK);
    CHECK_EQ(info.engines, 1);
    CHECK_EQ(bzna_context_codec_info(context, BZNA_CODEC_H264, 1, 8, &codec, sizeof codec, NULL), BZNA_OK);
    CHECK(codec.supported && codec.engines == 1);
    CHECK_EQ(walk(context, a, &c, HOST, &stats).failed, 0);
    CHECK_EQ(stats.samples_nvdec, 12);
    bzna_context_close(context);
    finish();
    archive_free(a);
}

TEST(a_device_without_engines_refuses_nvdec_and_with_auto_uploads_what_libavcodec_decodes)
{
    archive *a;
    BEGIN;
    a = mixed_archive(40);
    for (int kind = HOST; kind < CONSUMERS; kind++) {
        bzna_loader_config c = config_of(6, kind == HOST ? BZNA_DEVICE_CPU : BZNA_DEVICE_CUDA, 0);
        bzna_context *context = gpu_context(0);
        bzna_dataset *dataset = archive_open(context, a);
        bzna_loader *loader = NULL;
        bzna_device_info info;
        bzna_error e = { .struct_size = sizeof e };
        bzna_statistics stats;
        control->engines = 0;
        memset(&info, 0, sizeof info);
        CHECK_EQ(bzna_loader_open(context, dataset, &c, &loader, &e), BZNA_E_DEVICE);
        CHECK(!loader);
        CHECK_CONTAINS(e.message, "loader_config.decode.decoder");
        CHECK_CONTAINS(e.message, "Fake GPU has no NVDEC engine for H.265 or H.264");
        CHECK_EQ(bzna_context_device_info(context, &info, sizeof info, NULL), BZNA_OK);
        CHECK_EQ(info.video, BZNA_E_DEVICE);
        CHECK_EQ(info.engines, 0);
        CHECK_CONTAINS(info.message, "Fake GPU has no NVDEC engine");
        bzna_dataset_close(dataset);
        c.decode.decoder = BZNA_DECODER_AUTO;
        CHECK_EQ(walk(context, a, &c, kind, &stats).failed, 0);
        CHECK_EQ(stats.samples_software, 40);
        CHECK_EQ(stats.fallbacks, 0);
        CHECK_EQ(control->creates, 0);
        CHECK_EQ(control->launches > 0, kind != HOST);
        bzna_context_close(context);
        finish();
    }
    archive_free(a);
}

/* ---- 11, 12. Formats --------------------------------------------------------------------------------------------- */

/* Identity warps of whole frames, so that every pixel of the picture is seen, at its edges too. */
static bzna_status straight(void *user, const bzna_sample_info *sample, bzna_random *random, bzna_transform *t)
{
    static const double identity[9] = { 1, 0, -2, 0, 1, -2, 0, 0, 1 };      /* and two pixels of what is outside */
    (void)user;
    (void)sample;
    (void)random;
    memcpy(t->homography, identity, sizeof identity);
    return BZNA_OK;
}

static void check_formats(const int *list, int count, uint64_t software_each)
{
    archive *a = archive_make((uint64_t)count * 3, list, count);
    for (int round = 0; round < 8; round += ROUNDS(1, 2)) {
        int kind = round % CONSUMERS;
        bzna_loader_config c = config_of(5, 0, round % 3 == 1 ? BZNA_DTYPE_FLOAT16 : BZNA_DTYPE_FLOAT32);
        bzna_context *context = gpu_context(1 + (uint32_t)round % 3);
        bzna_statistics stats;
        control->pitch_step = (long long[]){ 0, 64, 256, 512 }[round % 4];
        control->parser_index = round % 3;
        delays(100, 200, 0);
        if (round > 4) {
            c.pipeline.transform = straight;
            c.output.width = c.output.height = 180;
        }
        CHECK_EQ(walk(context, a, &c, kind, &stats).failed, 0);
        CHECK_EQ(stats.fallbacks, software_each * 3);
        CHECK_EQ(stats.samples_software, software_each * 3);
        CHECK_EQ(stats.samples_nvdec, a->count - software_each * 3);
        bzna_context_close(context);
        CHECK_EQ(control->maps, control->unmaps);
        finish();
    }
    archive_free(a);
}

/* A parser has a memory, which no picture may see. */
TEST(a_parser_is_given_one_content_of_parameter_sets_and_made_anew_after_a_failure)
{
    BEGIN;
    if (!has_encoders)
        SKIP("this libavcodec has no libx264 and libx265");
    for (int way = 0; way < 4; way++) {
        /* The parameter sets of the first two are of one length. */
        const int list[9] = { sizes[0], sizes[2], sizes[1], sizes[3], sizes[4], sizes[5], plain[0], more[0], more[1] };
        archive *a = archive_make(20, list, (int[]){ 2, 1, 1, 9 }[way]);
        bzna_context *context = gpu_context(1);
        bzna_loader_config c = config_of(5, 0, 0);
        bzna_statistics stats;
        c.order.kind = BZNA_ORDER_SEQUENTIAL;
        c.read.threads = 1;
        if (way == 2)
            fake->fail("cuvidDecodePicture", 6, 1, 0);
        CHECK_EQ(walk(context, a, &c, SYNCED, &stats).failed, 0);
        CHECK_EQ(stats.fallbacks, way == 2);
        /* of nine, one or more were let go, and a decoder that changes sizes costs a parser, too */
        if (way == 3)
            CHECK(control->parser_creates > 9 && control->parser_creates <= 20);
        else
            CHECK_EQ(control->parser_creates, ((long long[]){ 2, 1, 2 })[way]);
        bzna_context_close(context);
        CHECK_EQ(control->parser_creates, control->parser_destroys);
        finish();
        archive_free(a);
    }
}

TEST(frames_of_one_size_with_different_crops_show_each_its_own_part)
{
    BEGIN;
    check_formats(plain, plain_count, 0);
}

TEST(all_formats_that_nvdec_decodes_have_the_pixels_of_the_cpu_path)
{
    BEGIN;
    if (!has_encoders)
        SKIP("this libavcodec has no libx264 and libx265");
    CHECK_EQ(format_count, 16);
    check_formats(formats, format_count, 0);
}

TEST(what_nvdec_does_not_decode_comes_from_libavcodec_and_is_counted)
{
    BEGIN;
    if (!has_encoders)
        SKIP("this libavcodec has no libx264 and libx265");
    CHECK_EQ(software_count, 7);
    check_formats(software, software_count, (uint64_t)software_count);
}

/* Runs the CPU path and the GPU path and compares all that they deliver, byte by byte. */
TEST(a_batch_is_the_same_from_the_cpu_and_from_the_gpu)
{
    archive *a;
    int list[CODED], n = 0;
    BEGIN;
    for (int i = 0; i < format_count; i++)
        list[n++] = formats[i];
    for (int i = 0; i < software_count; i++)
        list[n++] = software[i];
    for (int i = 0; i < plain_count; i++)
        list[n++] = plain[i];
    a = archive_make((uint64_t)n, list, n);
    archive_damage(a, (uint64_t)n - 1, 2);
    for (uint32_t way = 0; way < 4; way++) {
        bzna_context *contexts[2] = { cpu_context(), gpu_context(3) };
        bzna_dataset *datasets[2] = { archive_open(contexts[0], a), archive_open(contexts[1], a) };
        bzna_loader_config c = config_of((uint32_t)n, BZNA_DEVICE_CPU,
                                         way % 2 ? BZNA_DTYPE_FLOAT16 : BZNA_DTYPE_FLOAT32);
        bzna_loader *loaders[2];
        bzna_batch *batches[2] = { NULL, NULL };
        bzna_batch_info infos[2];
        c.output.width = 97;
        c.output.height = 61;
        c.output.layout = way / 2 ? BZNA_LAYOUT_NHWC : BZNA_LAYOUT_NCHW;
        c.decode.decoder = BZNA_DECODER_AUTO;
        for (int i = 0; i < 2; i++) {
            loaders[i] = loader_open(contexts[i], datasets[i], &c);
            CHECK_EQ(bzna_loader_next(loaders[i], BZNA_WAIT_FOREVER, &batches[i], NULL), BZNA_OK);
            memset(&infos[i], 0, sizeof infos[i]);
            bzna_batch_get_info(batches[i], &infos[i], sizeof infos[i], NULL);
        }
        CHECK(control->decodes > 0);
        CHECK_EQ(infos[0].image.bytes, infos[1].image.bytes);
        CHECK(!memcmp(infos[0].image.data, infos[1].image.data, infos[0].image.bytes));
        CHECK(!memcmp(infos[0].indices, infos[1].indices, infos[0].count * sizeof infos[0].indices[0]));
        CHECK_EQ(infos[0].failed, 1);
        CHECK_EQ(infos[1].failed, 1);
        for (int i = 0; i < 2; i++) {
            bzna_batch_release(batches[i]);
            bzna_loader_close(loaders[i]);
            bzna_dataset_close(datasets[i]);
            bzna_context_close(contexts[i]);
        }
        finish();
    }
    archive_free(a);
}

TEST(a_device_that_lacks_a_codec_decodes_the_other_and_says_once_why)
{
    archive *a;
    BEGIN;
    if (!has_encoders)
        SKIP("this libavcodec has no libx264 and libx265");
    a = archive_make(64, sizes, size_count);                /* six of H.265, two of H.264 */
    for (int lacks = FAKE_H264; lacks <= FAKE_HEVC; lacks++)
        for (int kind = HOST; kind <= SYNCED; kind++) {
            bzna_loader_config c = config_of(6, 0, 0);
            bzna_context_config config;
            bzna_context *context = NULL;
            bzna_statistics stats;
            bzna_codec_info info;
            messages m;
            memset(&m, 0, sizeof m);
            bzna_context_config_init(&config, sizeof config);
            config.sessions = 3;
            config.log = take_message;
            config.log_user = &m;
            require(bzna_context_open(&config, &context, NULL), "a context");
            control->caps[lacks].chroma_mask = 0;
            CHECK_EQ(walk(context, a, &c, kind, &stats).failed, 0);
            CHECK_EQ(stats.fallbacks, lacks == FAKE_HEVC ? 48 : 16);
            CHECK_EQ(stats.samples_nvdec, lacks == FAKE_HEVC ? 16 : 48);
            memset(&info, 0xff, sizeof info);
            CHECK_EQ(bzna_context_codec_info(context, lacks == FAKE_HEVC ? BZNA_CODEC_H265 : BZNA_CODEC_H264, 1, 8,
                                                 &info, sizeof info, NULL),
                     BZNA_OK);
            CHECK(!info.supported && !info.engines && !info.max_width && !info.max_macroblocks);
            CHECK_EQ(bzna_context_codec_info(context, lacks == FAKE_HEVC ? BZNA_CODEC_H264 : BZNA_CODEC_H265, 1, 8,
                                                 &info, sizeof info, NULL),
                     BZNA_OK);
            CHECK(info.supported == 1 && info.engines == 7);
            bzna_context_close(context);
            CHECK_EQ(m.count, 1);
            CHECK_CONTAINS(m.text[0], "decoding in software");
            CHECK_CONTAINS(m.text[0], lacks == FAKE_HEVC ? "H.265" : "H.264");
            finish();
        }
    archive_free(a);
}

static void setup(void)
{
    fake_setup();
    driver_load();
    dlopen("libnvcuvid.so.1", RTLD_NOW | RTLD_LOCAL);       /* by this thread first: TSan knows no order of loading */
    catalogue_make();
    catalogue_decode(0);
    if (getenv("COUNTS")) printf("%d %d %d %d\n", plain_count, size_count, format_count, software_count);
}

/* ---- JPEG among videos ------------------------------------------------------------------------------------------- */

static uint8_t jpeg_bytes[2][2048];
static size_t jpeg_sizes[2];
static bzi_container_ops jpeg_ops;
static const bzi_container_ops *video_ops;

static const char *const jpeg_names[2] = { "tests/data/pictures/jpeg_411.jpg", "tests/data/pictures/jpeg_exif_6.jpg" };

/* Of odd samples a JPEG instead: whatever container has them. */
static bzna_status jpeg_image(const bzi_container *c, const bzi_sample *sample, const bzi_pick *pick,
                              bzi_image *image, bzna_error *err)
{
    bzna_image jpeg = { .struct_size = sizeof jpeg, .codec = BZNA_CODEC_JPEG };
    const uint64_t which = sample->index / 2 % 2;
    if (sample->index % 2 == 0)
        return video_ops->image(c, sample, pick, image, err);
    jpeg.data = jpeg_bytes[which];
    jpeg.data_size = jpeg_sizes[which];
    *image = bzi_image_alone(&jpeg);
    return BZNA_OK;
}

static atomic_int jpeg_turned;

static bzna_status jpeg_upright(void *user, const bzna_sample_info *sample, bzna_random *random, bzna_transform *t)
{
    const double identity[9] = { 1, 0, 0, 0, 1, 0, 0, 0, 1 };
    (void)user, (void)random;
    if (sample->index % 4 == 3)
        jpeg_turned += sample->width == 25 && sample->height == 40;
    memcpy(t->homography, identity, sizeof identity);
    return BZNA_OK;
}

/* What bzna_picture_render makes of sample `index`. */
static void jpeg_render(float wanted[3 * WIDTH * HEIGHT], uint64_t index, const bzna_loader_config *c,
                        bzna_decoder *decoder)
{
    bzna_image image = { .struct_size = sizeof image, .codec = BZNA_CODEC_JPEG };
    bzna_picture picture = { .struct_size = sizeof picture };
    bzna_transform t;
    bzna_output o;
    image.data = jpeg_bytes[index / 2 % 2];
    image.data_size = jpeg_sizes[index / 2 % 2];
    bzna_transform_init(&t, sizeof t);
    o = (bzna_output){ .struct_size = sizeof o };
    o.width = WIDTH;
    o.height = HEIGHT;
    for (int i = 0; i < 3; i++) {
        t.bias[i] = c->color.mean[i];
        t.scale[i] = 1 / c->color.std[i];
        t.fill[i] = c->color.fill[i];
    }
    t.fill_space = c->color.fill_space;
    CHECK_EQ(bzna_decoder_decode(decoder, &image, &picture, NULL), BZNA_OK);
    CHECK_EQ(bzna_picture_render(&picture, &t, &o, wanted, 3 * WIDTH * HEIGHT * sizeof *wanted, NULL), BZNA_OK);
}

/* Sample `index` of a batch on the host against that. */
static void jpeg_check(const float *got, uint64_t index, const bzna_loader_config *c, bzna_decoder *decoder)
{
    static float wanted[3 * WIDTH * HEIGHT];
    jpeg_render(wanted, index, c, decoder);
    CHECK(!memcmp(got, wanted, sizeof wanted));
}

TEST(jpegs_are_decoded_in_software_and_nothing_has_fallen_back)
{
    archive *a;
    bzna_context *context;
    bzna_dataset *dataset;
    bzna_loader *loader;
    bzna_decoder *decoder = NULL;
    bzna_loader_config c = config_of(8, BZNA_DEVICE_CPU, BZNA_DTYPE_FLOAT32);
    bzna_statistics stats = { .struct_size = sizeof stats };
    bzna_batch *batch;
    BEGIN;
    for (int i = 0; i < 2; i++) {
        FILE *file = fopen(jpeg_names[i], "rb");
        REQUIRE(file);
        jpeg_sizes[i] = fread(jpeg_bytes[i], 1, sizeof jpeg_bytes[i], file);
        fclose(file);
    }
    a = plain_archive(32);
    context = gpu_context(2);
    dataset = archive_open(context, a);
    CHECK_EQ(bzna_decoder_open(context, &decoder, NULL), BZNA_OK);
    video_ops = dataset->parts[0].container->ops;
    jpeg_ops = *video_ops;
    jpeg_ops.image = jpeg_image;
    dataset->parts[0].container->ops = &jpeg_ops;
    jpeg_turned = 0;
    c.pipeline.transform = jpeg_upright;
    loader = loader_open(context, dataset, &c);
    while (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
        bzna_batch_info info;
        CHECK_EQ(bzna_batch_get_info(batch, &info, sizeof info, NULL), BZNA_OK);
        CHECK_EQ(info.failed, 0);
        for (uint32_t i = 0; i < info.count; i++)
            if (info.indices[i] % 2)
                jpeg_check((const float *)info.image.data + i * 3 * WIDTH * HEIGHT, info.indices[i], &c, decoder);
        bzna_batch_release(batch);
    }
    CHECK_EQ(bzna_loader_statistics(loader, &stats, sizeof stats, NULL), BZNA_OK);
    CHECK(stats.samples_nvdec == 16 && stats.samples_software == 16 && stats.fallbacks == 0);
    CHECK_EQ(stats.samples_failed, 0);
    CHECK_EQ(jpeg_turned, 8);
    bzna_loader_close(loader);
    dataset->parts[0].container->ops = video_ops;
    bzna_decoder_close(decoder);
    close_all(NULL, dataset, context);
    archive_free(a);
}

/* ---- The self-check ---------------------------------------------------------------------------------------------- */

/* ---- JPEG by NVDEC ----------------------------------------------------------------------------------------------- */

/* An archive whose odd samples are JPEG: in turn one that NVDEC takes, and one that is too small for it. */
typedef struct jpeg_case {
    archive      *a;
    bzna_context *context;
    bzna_dataset *dataset;
    messages      said;
} jpeg_case;

static void jpeg_case_open(jpeg_case *j)
{
    check_pair check = { .want = { BZNA_CODEC_JPEG, 1, 8, 0, 0 } };
    FILE *file = fopen(jpeg_names[1], "rb");
    require(file && check_pair_use(&check) ? BZNA_OK : BZNA_E_NOT_FOUND, "pictures");
    jpeg_sizes[1] = fread(jpeg_bytes[1], 1, sizeof jpeg_bytes[1], file);
    jpeg_sizes[0] = (size_t)check.images[0].data_size;
    memcpy(jpeg_bytes[0], check.images[0].data, jpeg_sizes[0]);
    fclose(file);
    j->a = plain_archive(32);
    j->context = checked_context(2, &j->said, NULL);
    j->dataset = archive_open(j->context, j->a);
    video_ops = j->dataset->parts[0].container->ops;
    jpeg_ops = *video_ops;
    jpeg_ops.image = jpeg_image;
    j->dataset->parts[0].container->ops = &jpeg_ops;
}

static void jpeg_case_close(jpeg_case *j)
{
    j->dataset->parts[0].container->ops = video_ops;
    bzna_dataset_close(j->dataset);
    bzna_context_close(j->context);
    finish();
    archive_free(j->a);
}

static bzna_loader_config jpeg_config(void)
{
    bzna_loader_config c = config_of(8, BZNA_DEVICE_CPU, BZNA_DTYPE_FLOAT32);
    c.pipeline.transform = jpeg_upright;
    c.decode.jpeg = BZNA_DECODER_NVDEC;
    return c;
}

/* What a loader delivers: the largest difference, of 255, of NVDEC's JPEG from bzna_picture_render's; others must be
 * equal. failed: JPEG of NVDEC that failed, and how. */
static double jpeg_run(jpeg_case *j, bzna_loader *loader, const bzna_loader_config *c, int *failed,
                       bzna_statistics *stats)
{
    static float wanted[3 * WIDTH * HEIGHT];
    bzna_decoder *decoder = NULL;
    bzna_batch *batch;
    double most = 0;
    *failed = 0;
    CHECK_EQ(bzna_decoder_open(j->context, &decoder, NULL), BZNA_OK);
    while (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
        bzna_batch_info info;
        CHECK_EQ(bzna_batch_get_info(batch, &info, sizeof info, NULL), BZNA_OK);
        for (uint32_t i = 0; i < info.count; i++) {
            const float *got = (const float *)info.image.data + i * 3 * WIDTH * HEIGHT;
            bzna_error err = { .struct_size = sizeof err };
            if (info.status[i] != BZNA_OK) {
                bzna_batch_error(batch, i, &err);
                CHECK_EQ(info.indices[i] % 4, 1);
                CHECK_CONTAINS(err.message, "loader_config.decode.jpeg: not by NVDEC: ");
                ++*failed;
            } else if (info.indices[i] % 4 == 3) {
                jpeg_check(got, info.indices[i], c, decoder);
            } else if (info.indices[i] % 4 == 1) {
                jpeg_render(wanted, info.indices[i], c, decoder);
                for (int k = 0; k < 3 * WIDTH * HEIGHT; k++)
                    most = fmax(most, fabs(got[k] - wanted[k]) * c->color.std[k / (WIDTH * HEIGHT)]);
            }
        }
        bzna_batch_release(batch);
    }
    stats->struct_size = sizeof *stats;
    CHECK_EQ(bzna_loader_statistics(loader, stats, sizeof *stats, NULL), BZNA_OK);
    bzna_decoder_close(decoder);
    return most;
}

/* Of the pictures in tests/data, one is baseline, Y'CbCr of 4:2:0, and in one scan: if the device takes its size. */
TEST(which_jpegs_are_nvdecs_the_file_and_the_devices_limits_say)
{
    static const char *const names[] = {
        "exif_6", "411", "420_progressive", "422_restarts", "440", "cmyk", "cmyk_subsampled", "gray_progressive",
        "rgb_adobe", "rgb_numbers", "ycck", "ycck_420_scans",
    };
    static const uint32_t limits[][5] = { { 40, 25, 40, 25, 3 }, { 41, 25, 99, 99, 9 }, { 40, 26, 99, 99, 9 },
                                          { 40, 25, 39, 99, 9 }, { 40, 25, 99, 24, 9 }, { 40, 25, 99, 99, 2 } };
    static bzi_setup setup;
    for (size_t i = 0; i < COUNT(names); i++)
        for (size_t k = 0; k < COUNT(limits); k++) {
            bzna_codec_info info = { .min_width = limits[k][0], .min_height = limits[k][1], .max_width = limits[k][2],
                                     .max_height = limits[k][3], .max_macroblocks = limits[k][4] };
            char path[128];
            uint8_t bytes[2048];
            bzna_image image = { .data = bytes };
            bzi_format format;
            bzna_error err;
            FILE *file;
            snprintf(path, sizeof path, "tests/data/pictures/jpeg_%s.jpg", names[i]);
            REQUIRE(file = fopen(path, "rb"));
            image.data_size = fread(bytes, 1, sizeof bytes, file);
            fclose(file);
            REQUIRE(bzi_jpeg_inspect(&image, &format, &err) == BZNA_OK);
            setup.jpeg = info;
            CHECK_EQ(bzi_setup_is_nvdec_jpeg(&setup, BZNA_CODEC_JPEG, &format), 0);
            setup.jpeg.supported = 1;
            CHECK_EQ(bzi_setup_is_nvdec_jpeg(&setup, BZNA_CODEC_JPEG, &format), i == 0 && k == 0);
            CHECK_EQ(bzi_setup_is_nvdec_jpeg(&setup, BZNA_CODEC_H265, &format), 0);
            for (size_t at = 0; at + 1 < image.data_size; at++)   /* the same picture, called extended sequential */
                if (bytes[at] == 0xff && bytes[at + 1] == 0xc0)
                    bytes[at + 1] = 0xc1;
            REQUIRE(bzi_jpeg_inspect(&image, &format, &err) == BZNA_OK);
            CHECK_EQ(bzi_setup_is_nvdec_jpeg(&setup, BZNA_CODEC_JPEG, &format), 0);
        }
}

TEST(a_jpeg_that_nvdec_takes_is_its_where_asked_and_others_are_the_cpus)
{
    jpeg_case j;
    bzna_loader_config c = jpeg_config();
    bzna_statistics stats;
    bzna_loader *loader;
    double most;
    int failed;
    BEGIN;
    control->caps[FAKE_JPEG].chroma_mask = 1 << 1;
    control->jpeg_error = 1;
    jpeg_case_open(&j);
    loader = loader_open(j.context, j.dataset, &c);
    most = jpeg_run(&j, loader, &c, &failed, &stats);
    CHECK(stats.samples_nvdec == 24 && stats.samples_software == 8 && stats.fallbacks == 0);
    CHECK_EQ(failed, 0);
    CHECK(most > 0);                                        /* another decoder's, and near */
    CHECK_NEAR(most, 0, 10);                                /* of Y and of Cb or Cr, by up to 4 and 1.772 x 4 */
    bzna_loader_close(loader);
    c.decode.jpeg = BZNA_DECODER_AUTO;
    loader = loader_open(j.context, j.dataset, &c);
    CHECK(jpeg_run(&j, loader, &c, &failed, &stats) == 0);
    CHECK(stats.samples_nvdec == 16 && stats.samples_software == 16 && stats.fallbacks == 0);
    bzna_loader_close(loader);
    CHECK_EQ(j.said.count, 0);
    jpeg_case_close(&j);
}

/* Three that NVDEC takes, and one that is too small for it. */
TEST(jpeg_files_of_a_folder_are_nvdecs_where_asked)
{
    static const char folder[] = TEST_BUILD "/tests/sessions_jpeg";
    bzna_loader_config c = jpeg_config();
    char path[sizeof folder + 16];
    jpeg_case j;
    BEGIN;
    control->caps[FAKE_JPEG].chroma_mask = 1 << 1;
    jpeg_case_open(&j);
    CHECK(mkdir(folder, 0777) == 0 || errno == EEXIST);
    for (int i = 0; i < 4; i++) {
        FILE *file;
        snprintf(path, sizeof path, "%s/%d.jpg", folder, i);
        REQUIRE((file = fopen(path, "wb")) != NULL);
        CHECK_EQ(fwrite(jpeg_bytes[i == 3], 1, jpeg_sizes[i == 3], file), jpeg_sizes[i == 3]);
        CHECK_EQ(fclose(file), 0);
    }
    c.pipeline.transform = NULL;
    c.output.batch_size = 4;
    for (uint32_t asked = 0; asked < 2; asked++) {
        bzna_dataset *dataset = NULL;
        bzna_loader *loader;
        bzna_batch *batch = NULL;
        bzna_statistics stats = { .struct_size = sizeof stats };
        c.decode.jpeg = asked ? BZNA_DECODER_NVDEC : BZNA_DECODER_AUTO;
        require(bzna_dataset_open(j.context, folder, NULL, &dataset, NULL), folder);
        loader = loader_open(j.context, dataset, &c);
        CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL), BZNA_OK);
        bzna_batch_release(batch);
        CHECK_EQ(bzna_loader_statistics(loader, &stats, sizeof stats, NULL), BZNA_OK);
        CHECK_EQ(stats.samples_failed, 0);
        CHECK_EQ(stats.samples_nvdec, asked ? 3 : 0);
        CHECK_EQ(stats.samples_software, asked ? 1 : 4);
        bzna_loader_close(loader);
        bzna_dataset_close(dataset);
    }
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%d.jpg", folder, i);
        remove(path);
    }
    jpeg_case_close(&j);
}

TEST(a_loader_that_asks_nvdec_for_jpeg_does_not_open_where_that_cannot_be)
{
    static const struct {
        long long mask, error;
        uint32_t decoder, jpeg;
        bzna_status status;
        const char *text;
    } cases[] = {
        { 0, 0, BZNA_DECODER_AUTO, BZNA_DECODER_NVDEC, BZNA_E_DEVICE, "NVDEC of Fake GPU does not decode JPEG" },
        { 2, 1, BZNA_DECODER_AUTO, BZNA_DECODER_NVDEC, BZNA_OK, "" },
        { 2, 0, BZNA_DECODER_SOFTWARE, BZNA_DECODER_NVDEC, BZNA_E_DEVICE,
          "decode.jpeg: software decoding was requested" },
        { 2, 0, BZNA_DECODER_AUTO, 3, BZNA_E_ARGUMENT, "loader_config.decode.jpeg: 3 is not known" },
        { 2, 0, BZNA_DECODER_NVDEC, BZNA_DECODER_NVDEC, BZNA_OK, "" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        jpeg_case j;
        bzna_loader_config c = jpeg_config();
        bzna_loader *loader = NULL;
        bzna_error err = { .struct_size = sizeof err };
        BEGIN;
        control->caps[FAKE_JPEG].chroma_mask = cases[i].mask;
        control->jpeg_error = cases[i].error;
        jpeg_case_open(&j);
        c.decode.decoder = cases[i].decoder;
        c.decode.jpeg = cases[i].jpeg;
        CHECK_EQ(bzna_loader_open(j.context, j.dataset, &c, &loader, &err), cases[i].status);
        if (cases[i].status != BZNA_OK)
            CHECK_CONTAINS(err.message, cases[i].text);
        CHECK((loader != NULL) == (cases[i].status == BZNA_OK));
        bzna_loader_close(loader);
        jpeg_case_close(&j);
    }
}

/* It is too late to choose another decoder, so that samples fail; a loader that is opened later can be told. */
TEST(where_nvdecs_jpeg_fails_its_self_check_samples_fail_and_no_other_loader_opens)
{
    for (int way = 0; way < 2; way++) {                     /* one value is far off; all are off */
        jpeg_case j;
        bzna_loader_config c = jpeg_config();
        bzna_loader *loader;
        bzna_statistics stats;
        bzna_error err = { .struct_size = sizeof err };
        int failed;
        BEGIN;
        control->caps[FAKE_JPEG].chroma_mask = 1 << 1;
        control->jpeg_error = way ? 2 : 5;
        jpeg_case_open(&j);
        loader = loader_open(j.context, j.dataset, &c);
        jpeg_run(&j, loader, &c, &failed, &stats);
        CHECK_EQ(failed, 8);
        bzna_loader_close(loader);
        CHECK_EQ(bzna_loader_open(j.context, j.dataset, &c, &loader, &err), BZNA_E_DEVICE);
        CHECK_CONTAINS(err.message, "does not decode JPEG: wrong pixels: ");
        CHECK(!loader);
        jpeg_case_close(&j);
    }
}

/* Of 4:2:0 and 8 bits. */
static void was_checked(bzna_context *context, uint32_t codec)
{
    atomic_store(&bzi_device_kind(context->device, codec, 1, 8)->check, BZNA_CHECK_PASSED);
}

/* Without memory for decoders, or with sessions that end, all else is decoded in software; a JPEG of NVDEC's is not. It
 * fails, or ends the run if NVDEC can decode none. */
TEST(a_jpeg_of_nvdecs_is_never_the_cpus_whatever_fails)
{
    static const struct { const char *call; int code; unsigned given_up; bzna_status status; } cases[] = {
        { "cuvidCreateDecoder", 2, 0, BZNA_E_DEVICE }, { "cuvidDecodePicture", 1, 0, BZNA_END },
        { "cuvidMapVideoFrame64", 1, 0, BZNA_END }, { "cuvidCreateVideoParser", 999, 0, BZNA_END },
        { "cuvidDecodePicture", 1, 1, BZNA_E_DEVICE },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        jpeg_case j;
        bzna_loader_config c = jpeg_config();
        bzna_statistics stats;
        bzna_loader *loader;
        bzna_batch *batch;
        bzna_error err = { 0 };
        bzna_status status;
        int failed;
        BEGIN;
        control->caps[FAKE_JPEG].chroma_mask = 1 << 1;
        jpeg_case_open(&j);
        was_checked(j.context, BZNA_CODEC_JPEG);            /* before anything fails */
        was_checked(j.context, BZNA_CODEC_H265);
        was_checked(j.context, BZNA_CODEC_H264);
        fake->fail(cases[i].call, 1, cases[i].code, 1);
        loader = loader_open(j.context, j.dataset, &c);
        if (cases[i].given_up)
            atomic_fetch_or(&loader->setup.device->given_up, 1u << bzi_device_codec(BZNA_CODEC_JPEG));
        jpeg_run(&j, loader, &c, &failed, &stats);
        CHECK_EQ(failed, cases[i].status == BZNA_END ? 8 : 0);
        if (cases[i].status == BZNA_END)
            CHECK(stats.samples_nvdec == 0 && stats.samples_software == 24 && stats.samples_failed == 8);
        status = bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err);
        if (status == BZNA_E_MEMORY && cases[i].code == 2)  /* a session that has not ended yet was asked again */
            status = BZNA_E_DEVICE;
        CHECK_EQ(status, cases[i].status);
        if (cases[i].status != BZNA_END)
            CHECK_CONTAINS(err.message, "loader_config.decode.jpeg: not by NVDEC: ");
        bzna_loader_close(loader);
        fake->fail(cases[i].call, 0, 0, 0);
        control->allow_drop = 1;
        jpeg_case_close(&j);
    }
}

TEST(a_state_of_nvdecs_jpeg_is_not_one_of_the_cpus)
{
    jpeg_case j;
    bzna_loader_config c = jpeg_config();
    bzna_loader_state state;
    bzna_loader *loader;
    BEGIN;
    control->caps[FAKE_JPEG].chroma_mask = 1 << 1;
    jpeg_case_open(&j);
    loader = loader_open(j.context, j.dataset, &c);
    CHECK_EQ(bzna_loader_save(loader, &state, sizeof state, NULL), BZNA_OK);
    CHECK_EQ(bzna_loader_restore(loader, &state, NULL), BZNA_OK);
    bzna_loader_close(loader);
    c.decode.jpeg = BZNA_DECODER_SOFTWARE;
    loader = loader_open(j.context, j.dataset, &c);
    CHECK_EQ(bzna_loader_restore(loader, &state, NULL), BZNA_E_ARGUMENT);
    bzna_loader_close(loader);
    c.pipeline.restore_any_pixels = 1;
    loader = loader_open(j.context, j.dataset, &c);
    CHECK_EQ(bzna_loader_restore(loader, &state, NULL), BZNA_OK);
    bzna_loader_close(loader);
    jpeg_case_close(&j);
}

TEST(the_pictures_of_each_kind_are_decoded_to_their_sums_by_libavcodec)
{
    for (size_t k = 0; k < COUNT(check_pictures); k++) {
        check_pair check = { .want = { check_pictures[k].codec, 1, check_pictures[k].depth, 0, 0 } };
        bzna_context *context = cpu_context();
        bzna_decoder *decoder = NULL;
        REQUIRE(check_pair_use(&check));
        require(bzna_decoder_open(context, &decoder, NULL), "a decoder");
        for (int i = 0; i < 2; i++) {
            coded picture = { 0 };
            check.images[i].struct_size = sizeof check.images[i];
            coded_decode(&picture, decoder, &check.images[i]);
            if (check.want.codec != BZNA_CODEC_JPEG)        /* which is compared with the CPU's decoder itself */
                CHECK_EQ(check_sum(&picture.picture, 0), check_pictures[k].sums[i]);
            coded_clear(&picture);
        }
        bzna_decoder_close(decoder);
        bzna_context_close(context);
    }
}

TEST(a_good_driver_passes_the_self_check_once_a_kind_and_nothing_is_said)
{
    archive *a;
    BEGIN;
    if (!has_encoders)
        SKIP("this libavcodec has no libx264 and libx265");
    a = archive_make(64, sizes, size_count);                /* H.265 and H.264 */
    for (int kind = HOST; kind <= SYNCED; kind += ROUNDS(1, 2)) {
        messages m;
        bzna_context *context = checked_context(7, &m, NULL);
        bzna_loader_config c = config_of(6, 0, 0);
        bzna_codec_info info = codec_info(context, BZNA_CODEC_H265, 1, 8);
        bzna_statistics stats;
        control->call_delay_us = 50;
        CHECK(info.supported && info.check == BZNA_CHECK_NONE);     /* a question alone decodes nothing */
        CHECK_EQ(control->decodes, 0);
        CHECK_EQ(walk(context, a, &c, kind, &stats).failed, 0);
        CHECK_EQ(stats.samples_nvdec, 64);
        CHECK_EQ(control->decodes, 64 + 2);                 /* the first picture of each kind once more */
        CHECK_EQ(m.count, 0);
        info = codec_info(context, BZNA_CODEC_H265, 1, 8);
        CHECK(info.check == BZNA_CHECK_PASSED && !info.check_message[0]);
        info = codec_info(context, BZNA_CODEC_H265, 1, 10);
        CHECK(info.supported && info.check == BZNA_CHECK_NONE);
        CHECK_EQ(control->decodes, 64 + 2);
        bzna_context_close(context);
        finish();
    }
    archive_free(a);
}

TEST(a_kind_that_nvdec_decodes_wrong_is_decoded_in_software_and_the_reason_is_said)
{
    archive *a;
    BEGIN;
    if (!has_encoders)
        SKIP("this libavcodec has no libx264 and libx265");
    for (int way = 0; way < ROUNDS(2, 1); way++) {          /* 4:2:0; 4:4:4 */
        messages m;
        bzna_context *context = checked_context(3, &m, NULL);
        bzna_loader_config c = config_of(6, 0, 0);
        bzna_codec_info info;
        bzna_statistics stats;
        a = archive_make(24, way ? &formats[4] : plain, 1);
        control->wrong_intra = 2;
        CHECK_EQ(walk(context, a, &c, HOST, &stats).failed, 0);
        CHECK_EQ(stats.samples_software, 24);
        CHECK_EQ(stats.fallbacks, 24);
        CHECK_EQ(stats.samples_nvdec + stats.sessions_lost, 0);
        info = codec_info(context, BZNA_CODEC_H265, way ? 3 : 1, 8);
        CHECK_EQ(info.check, BZNA_CHECK_FAILED);
        CHECK_CONTAINS(info.check_message, "wrong pixels: ");
        CHECK_EQ(m.count, 1);
        CHECK_CONTAINS(m.text[0], "decoding in software: NVDEC of Fake GPU fails its self-check of H.265 of 8 bits");
        bzna_context_close(context);
        finish();
        archive_free(a);
    }
}

/* In a child, which ends with calls of the driver's that never return. It is the self-check that notices, or, where the
 * driver's calls would spin, every session that waits. */
static int child_is_stuck(archive *a, int spins)
{
    messages m;
    bzna_context *context;
    bzna_loader_config c = config_of(6, 0, 0);
    bzna_device_info info;
    bzna_loader *loader = NULL;
    bzna_dataset *dataset;
    bzna_error e = { .struct_size = sizeof e };
    bzna_statistics stats;
    int wrong = 0;
    control->stuck = 1;
    control->spins = spins;
    context = checked_context(3, &m, spins ? "0" : NULL);
    wrong |= walk(context, a, &c, HOST, &stats).failed ? 1 : 0;
    wrong |= stats.samples_software == a->count && stats.samples_nvdec == 0 ? 0 : 2;
    bzna_context_device_info(context, &info, sizeof info, NULL);
    wrong |= info.video == BZNA_E_DEVICE && strstr(info.message, "restart the process") ? 0 : 4;
    dataset = archive_open(context, a);
    wrong |= bzna_loader_open(context, dataset, &c, &loader, &e) == BZNA_E_DEVICE &&
                     strstr(e.message, "restart the process") ? 0 : 8;
    bzna_dataset_close(dataset);
    wrong |= m.count == 1 && strstr(m.text[0], "restart the process") ? 0 : 16;
    bzna_context_close(context);
    return wrong | (control->violations ? 32 : 0) | (test_failures ? 64 : 0);
}

TEST(a_picture_that_is_never_done_ends_nvdec_in_this_process_and_nothing_waits_for_it)
{
    if (ON_WINDOWS)
        SKIP("nothing forks here");
    archive *a;
    BEGIN;
    a = archive_make(12, plain, 1);
    for (int spins = 0; spins < ROUNDS(2, 1); spins++) {
        int result = -1;
        pid_t child;
        fflush(stdout);
        if ((child = fork()) == 0) {
            alarm(60);
            _exit(child_is_stuck(a, spins));
        }
        CHECK_EQ(waitpid(child, &result, 0), child);
        CHECK(WIFEXITED(result));
        CHECK_EQ(WEXITSTATUS(result), 0);
        CHECK(spins || control->live_decoders == 1);        /* the one that is stuck, and no other */
        CHECK(control->live_decoders >= 1 && control->live_decoders <= 3);
        control->live_decoders = 0;
        finish();
    }
    archive_free(a);
}

/* The driver's calls that hang, in turn. A picture that is never done makes maps hang. */
enum { NEVER_DONE, IN_MAP, IN_DECODE, IN_LAUNCH, IN_UNMAP, IN_RECORD, HANGS };

static void begin_to_hang(int way)
{
    static const int functions[HANGS] = { -1, FAKE_cuvidMapVideoFrame64, FAKE_cuvidDecodePicture, FAKE_cuLaunchKernel,
                                          FAKE_cuvidUnmapVideoFrame64, FAKE_cuEventRecord };
    control->stuck = way == NEVER_DONE;
    control->hangs = functions[way] + 1;
}

typedef struct held_blocks { atomic_int count; } held_blocks;

static void *held_alloc(void *user, size_t size, size_t alignment)
{
    atomic_fetch_add(&((held_blocks *)user)->count, 1);
    return bzi_os_alloc(NULL, size, alignment);
}

static void held_release(void *user, void *block, size_t size)
{
    atomic_fetch_sub(&((held_blocks *)user)->count, block != NULL);
    bzi_os_release(NULL, block, size);
}

/* Takes batches until there is an error, which is returned. */
static bzna_status take_until_error(bzna_loader *loader, bzna_error *e)
{
    bzna_batch *batch = NULL;
    bzna_status status;
    while ((status = bzna_loader_next(loader, -1, &batch, e)) == BZNA_OK)
        bzna_batch_release(batch);
    return status;
}

/* Calls of the driver that might wait: not those that only concern the thread. */
static long long calls_so_far(void)
{
    long long calls = 0;
    for (int i = 0; i < FAKE_FUNCTION_COUNT; i++)
        if (i != FAKE_cuCtxPopCurrent_v2 && i != FAKE_engine_picture && i != FAKE_stream_copy &&
            i != FAKE_stream_kernel)
            calls += control->calls[i];
    return calls;
}

/* In a child. Returns 0, or what went wrong, as bits. */
static int child_hangs(archive *a, int round)
{
    const int way = round / 2, kind = round % 2 ? SYNCED : HOST;
    held_blocks held = { 0 };
    bzna_context *context = NULL;
    bzna_context_config config;
    bzna_loader_config c = config_of(3, 0, 0);
    bzna_loader *loaders[3] = { NULL, NULL, NULL };
    bzna_dataset *dataset;
    bzna_batch *batch = NULL;
    bzna_device_info info;
    bzna_error e = { .struct_size = sizeof e };
    bzna_loader_state state;
    int wrong = 0;
    uint64_t start;
    long long calls;
    bzna_context_config_init(&config, sizeof config);
    config.sessions = 3;
    config.allocator = (bzna_allocator){ .alloc = held_alloc, .release = held_release, .user = &held };
    wrong |= bzna_context_open(&config, &context, NULL) != BZNA_OK;
    dataset = archive_open(context, a);
    c.order.epochs = 1000000;
    c.output.device.kind = kind == HOST ? BZNA_DEVICE_CPU : BZNA_DEVICE_CUDA;
    for (int i = 0; i < 2; i++) {
        loaders[i] = loader_open(context, dataset, &c);
        wrong |= bzna_loader_next(loaders[i], -1, &batch, &e) == BZNA_OK ? 0 : 1;
        wrong |= bzna_loader_save(loaders[i], &state, sizeof state, &e) == BZNA_OK ? 0 : 1;
        bzna_batch_release(batch);
    }
    begin_to_hang(way);
    start = bzi_os_now_ns();
    for (int i = 0; i < 2; i++) {
        wrong |= take_until_error(loaders[i], &e) == BZNA_E_DEVICE_LOST ? 0 : 2;
        wrong |= strstr(e.message, "hangs: a call of the driver has not returned") ? 0 : 4;
    }
    wrong |= seconds_since(start) >= 60 * (BZI_LOOK_NS * 1e-9) ? 0 : 8;
    calls = calls_so_far();
    wrong |= bzna_loader_next(loaders[0], 0, &batch, &e) == BZNA_E_DEVICE_LOST ? 0 : 16;
    wrong |= bzna_loader_restore(loaders[0], &state, &e) == BZNA_OK ? 0 : 32;
    wrong |= bzna_loader_next(loaders[0], -1, &batch, &e) == BZNA_E_DEVICE_LOST ? 0 : 64;
    wrong |= bzna_loader_open(context, dataset, &c, &loaders[2], &e) == BZNA_E_DEVICE_LOST ? 0 : 128;
    wrong |= bzna_context_device_info(context, &info, sizeof info, &e) == BZNA_E_DEVICE_LOST ? 0 : 256;
    for (int i = 0; i < 2; i++)
        bzna_loader_close(loaders[i]);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    wrong |= calls_so_far() == calls ? 0 : 512;             /* none was made after that */
    /* the device, the pool, and what at most three sessions have */
    wrong |= atomic_load(&held.count) <= 3 + 3 * 4 ? 0 : 1024;
    control->stuck = control->hangs = 0;                    /* calls that return now find what they worked on gone */
    bzi_os_sleep_ns(50000000);
    if (wrong || control->violations)
        printf("  way %d, kind %d: %d, %d blocks, %lld calls, %s: %s\n", way, kind, wrong, atomic_load(&held.count),
               calls_so_far() - calls, e.message, control->violations ? fake->violation() : "");
    return wrong != 0 || control->violations || test_failures;
}

/* Runs work(a, round) in a child, whose threads may hang for good. */
static void run_in_child(int (*work)(archive *a, int round), archive *a, int round)
{
    fake_control *before = malloc(sizeof *before);
    int result = -1;
    pid_t child;
    REQUIRE(before);
    fflush(stdout);
    memcpy(before, control, sizeof *before);
    if ((child = fork()) == 0) {
        alarm(60);
        result = work(a, round);
        fflush(stdout);
        _exit(result);
    }
    CHECK_EQ(waitpid(child, &result, 0), child);
    CHECK(WIFEXITED(result));
    CHECK_EQ(WEXITSTATUS(result), 0);
    memcpy(control, before, sizeof *before);                /* what the child has left */
    free(before);
}

TEST(a_call_of_the_driver_that_never_returns_ends_every_loader_on_the_device_and_nothing_waits_for_it)
{
    if (ON_WINDOWS)
        SKIP("nothing forks here");
    archive *a;
    BEGIN;
    a = archive_make(12, plain, 1);
    /* the last way with batches on the device has no round: the thread that releases a batch would hang itself */
    for (int round = 0; round < 2 * HANGS - 1; round += ROUNDS(1, 7))
        run_in_child(child_hangs, a, round);
    archive_free(a);
    finish();
}

/* What hangs while a loader is used and closed: a call of a worker's; work of the library's in a stream, which no call
 * waits for; the call in which the thread that retires batches waits for work of the program's; such work after the
 * loader was closed, and where no thread waits for it; work of the library's, where the program's thread does all. */
enum { WORKER_LAUNCHES, WORKER_UPLOADS, WORKER_RECORDS, STREAM, RETIRING, RELEASED, NO_THREADS, OWN_STREAM, CLOSINGS };

/* In a child. Returns 0, or what went wrong, as bits. */
static int child_closes(archive *a, int way)
{
    static const int functions[CLOSINGS] = { FAKE_cuLaunchKernel + 1, FAKE_cuMemcpyHtoDAsync_v2 + 1,
                                             FAKE_cuEventRecord + 1 };
    const int is_lost = way <= STREAM;
    bzna_loader_config c = config_of(3, way == STREAM ? BZNA_DEVICE_CPU : BZNA_DEVICE_CUDA, 0);
    messages m;
    bzna_batch *batch = NULL;
    bzna_error e = { .struct_size = sizeof e };
    reading o;
    uint64_t start;
    int wrong = 0;
    c.decode.decoder = way == STREAM ? BZNA_DECODER_NVDEC : BZNA_DECODER_SOFTWARE;
    c.order.epochs = 1000000;
    c.pipeline.no_threads = way >= NO_THREADS;
    reading_start(&o, checked_context(2, &m, "0"), a, GIVEN, &c);
    if (is_lost) {
        wrong |= bzna_loader_next(o.loader, -1, &batch, &e) == BZNA_OK ? 0 : 1;
        bzna_batch_release(batch);
        control->hangs = functions[way];
        control->stream_us = way == STREAM ? 100000000 : 0;
        start = bzi_os_now_ns();
        wrong |= take_until_error(o.loader, &e) == BZNA_E_DEVICE_LOST ? 0 : 2;
        wrong |= strstr(e.message, "hangs: a call of the driver has not returned") ? 0 : 4;
        wrong |= seconds_since(start) >= 60 * (BZI_LOOK_NS * 1e-9) ? 0 : 8;
        wrong |= bzna_loader_reset(o.loader, 0, &e) == BZNA_OK ? 0 : 16;
        wrong |= bzna_loader_next(o.loader, -1, &batch, &e) == BZNA_E_DEVICE_LOST ? 0 : 32;
    } else if (way == OWN_STREAM) {
        for (int i = 0; i < 2; i++) {
            wrong |= bzna_loader_next(o.loader, -1, &batch, &e) == BZNA_OK ? 0 : 1;
            bzna_batch_release(batch);
            control->stream_us = 100000000;
        }
    } else {
        batch = take_and_work(o.loader, &o.u, &o.r, 0, 100000);
        if (way != RELEASED)
            bzna_batch_release(batch);
    }
    start = bzi_os_now_ns();
    wrong |= bzna_loader_close(o.loader) == BZNA_OK ? 0 : 64;
    if (way == RELEASED)
        bzna_batch_release(batch);
    wrong |= is_lost || seconds_since(start) >= 60 * (BZI_LOOK_NS * 1e-9) ? 0 : 128;
    bzna_dataset_close(o.dataset);
    bzna_context_close(o.context);
    wrong |= seconds_since(start) < 30 ? 0 : 256;
    wrong |= way == STREAM || way == OWN_STREAM ||
             strstr(m.text[m.count - 1], "a loader is closed, but its memory and its context stay until the process "
                                         "ends: ") ? 0 : 512;
    wrong |= way <= RETIRING || way == OWN_STREAM ||
             strstr(m.text[m.count - 1], "the program's work on Fake GPU has not ended for a minute") ? 0 : 2048;
    wrong |= is_lost || (fake->leaks() && strstr(fake->leaks(), "1 modules")) ? 0 : 1024;       /* the work goes on */
    control->hangs = 0;
    bzi_os_sleep_ns(50000000);
    if (wrong || control->violations)
        printf("  way %d: %d, %d messages, the last is %s; %s: %s\n", way, wrong, m.count,
               m.count ? m.text[m.count - 1] : "", e.message, control->violations ? fake->violation() : "");
    return wrong != 0 || control->violations || test_failures;
}

TEST(closing_waits_for_the_device_no_longer_than_a_minute_and_says_what_stays)
{
    if (ON_WINDOWS)
        SKIP("nothing forks here");
    archive *a;
    BEGIN;
    a = archive_make(12, plain, 1);
    for (int way = 0; way < CLOSINGS; way += ROUNDS(1, RETIRING))
        run_in_child(child_closes, a, way);
    archive_free(a);
    finish();
}

/* Where the decoder is to be chosen, software decodes all samples. */
static void software_has_all(bzna_context *context, archive *a, bzna_loader_config *c, uint64_t samples)
{
    bzna_statistics stats;
    c->decode.decoder = BZNA_DECODER_AUTO;
    CHECK_EQ(walk(context, a, c, HOST, &stats).failed, 0);
    CHECK_EQ(stats.samples_software, samples);
}

TEST(a_device_whose_kernel_makes_wrong_pixels_is_not_used)
{
    archive *a;
    BEGIN;
    a = archive_make(12, plain, 1);
    for (int on = 0; on < 3; on++) {                        /* not at all; a wrong pixel; no pixels */
        messages m;
        bzna_context *context;
        bzna_loader_config c = config_of(6, 0, 0);
        bzna_device_info info;
        bzna_dataset *dataset;
        bzna_loader *loader = NULL;
        bzna_error e = { .struct_size = sizeof e };
        control->wrong_kernel = on ? on : 1;
        context = checked_context(2, &m, on ? NULL : "0");
        CHECK_EQ(bzna_context_device_info(context, &info, sizeof info, &e), on ? BZNA_E_DEVICE : BZNA_OK);
        if (on) {
            CHECK_CONTAINS(e.message, "the kernel's pixels differ");
            dataset = archive_open(context, a);
            CHECK_EQ(bzna_loader_open(context, dataset, &c, &loader, &e), BZNA_E_DEVICE);
            CHECK_CONTAINS(e.message, "the kernel's pixels differ");
            bzna_dataset_close(dataset);
            software_has_all(context, a, &c, 12);
        }
        bzna_context_close(context);
        finish();
    }
    archive_free(a);
}

/* A kernel that is right of an uploaded picture and wrong of NVDEC's surfaces: what is on the device ends, also loaders
 * that only upload, and what is opened later is on the CPU. */
TEST(a_kernel_that_is_wrong_of_nvdecs_surfaces_disables_the_device)
{
    archive *a;
    BEGIN;
    a = archive_make(12, plain, 1);
    {
        messages m;
        bzna_context *context = checked_context(2, &m, NULL);
        bzna_loader_config c = config_of(6, 0, 0);
        bzna_device_info info;
        bzna_dataset *dataset = archive_open(context, a);
        bzna_loader *loader, *uploads, *refused = NULL;
        bzna_batch *batch = NULL, *none = NULL;
        bzna_error e = { .struct_size = sizeof e };
        c.output.device.kind = BZNA_DEVICE_CUDA;
        c.decode.decoder = BZNA_DECODER_SOFTWARE;
        uploads = loader_open(context, dataset, &c);
        CHECK_EQ(bzna_loader_next(uploads, BZNA_WAIT_FOREVER, &batch, &e), BZNA_OK);
        control->wrong_kernel = 1;
        c.decode.decoder = BZNA_DECODER_NVDEC;
        loader = loader_open(context, dataset, &c);
        CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &none, &e), BZNA_E_DEVICE_LOST);
        CHECK_CONTAINS(e.message, "Fake GPU: the kernel's pixels differ from the CPU's, so the device is no longer "
                                  "used");
        bzna_loader_close(loader);
        bzna_batch_release(batch);
        CHECK_EQ(bzna_loader_reset(uploads, 1, &e), BZNA_OK);
        CHECK_EQ(bzna_loader_next(uploads, BZNA_WAIT_FOREVER, &batch, &e), BZNA_E_DEVICE_LOST);
        CHECK_CONTAINS(e.message, "the kernel's pixels differ");
        CHECK_EQ(bzna_context_device_info(context, &info, sizeof info, &e), BZNA_E_DEVICE);
        CHECK_EQ(bzna_loader_open(context, dataset, &c, &refused, &e), BZNA_E_DEVICE);
        CHECK_CONTAINS(e.message, "the kernel's pixels differ");
        bzna_loader_close(uploads);
        bzna_dataset_close(dataset);
        c = config_of(6, 0, 0);
        software_has_all(context, a, &c, 12);
        bzna_context_close(context);
        finish();
    }
    archive_free(a);
}

/* Also AV1, of which NVDEC gives no status. */
TEST(every_kind_is_checked_and_with_0_none_is)
{
    BEGIN;
    for (int way = 0; way < 2; way++) {
        messages m;
        bzna_context *context;
        bzna_codec_info info;
        check_pair pair = { .want = { BZNA_CODEC_AV1, 1, 8, 0, 0 } };
        bzi_session session;
        bzna_error e = { .struct_size = sizeof e };
        control->caps[FAKE_AV1].chroma_mask = 1 << 1;
        context = checked_context(1, &m, way ? NULL : "0");
        info = codec_info(context, BZNA_CODEC_AV1, 1, 8);
        if (!info.supported) {
            bzna_context_close(context);
            finish();
            SKIP("this libavcodec decodes no AV1");
        }
        REQUIRE(check_pair_use(&pair) && bzi_device_enter(context->device, &e) == BZNA_OK);
        REQUIRE(bzi_session_open(&session, context->device, &context->host->memory, &e) == BZNA_OK);
        REQUIRE(bzi_session_accepts(&session, pair.coded, &e) == BZNA_OK);
        CHECK_EQ(bzi_check_kind(&session, &pair.want, pair.coded, &e), BZNA_OK);
        bzi_session_close(&session);
        bzi_device_leave(context->device);
        info = codec_info(context, BZNA_CODEC_AV1, 1, 8);
        CHECK_EQ(info.check, way ? BZNA_CHECK_PASSED : BZNA_CHECK_SKIPPED);
        CHECK_EQ(control->decodes, way);
        bzna_context_close(context);
        finish();
    }
}

/* Nothing is known of when its pictures are done, which is no sign that they never are. */
TEST(a_driver_that_gives_no_status_passes_the_check_and_is_used)
{
    archive *a;
    messages m;
    bzna_context *context;
    bzna_loader_config c = config_of(6, 0, 0);
    bzna_statistics stats;
    BEGIN;
    a = archive_make(24, plain, 1);
    control->no_status = 1;
    context = checked_context(2, &m, NULL);
    CHECK_EQ(walk(context, a, &c, HOST, &stats).failed, 0);
    CHECK_EQ(stats.samples_nvdec, 24);
    CHECK_EQ(codec_info(context, BZNA_CODEC_H265, 1, 8).check, BZNA_CHECK_PASSED);
    CHECK_EQ(m.count, 0);
    bzna_context_close(context);
    finish();
    archive_free(a);
}

/* The first picture of AV1 in check_pictures.h. */
static int catalogue_av1(void)
{
    check_pair check = { .want = { BZNA_CODEC_AV1, 1, 8, 0, 0 } };
    coded *c = &catalogue[catalogued];
    CHECK(check_pair_use(&check));
    c->image = check.images[0];
    c->image.struct_size = sizeof c->image;
    c->memory = take_memory((size_t)c->image.data_size);
    memcpy(c->memory, check.bytes[0], (size_t)c->image.data_size);
    c->image.data = c->memory;
    catalogue_decode(catalogued++);
    return catalogued - 1;
}

/* ---- What a driver says of a picture, and when ------------------------------------------------------------------- */

/* The map is there before the verdict: damaged pictures fail, and no others. */
TEST(a_verdict_that_comes_after_the_map_is_waited_for)
{
    archive *a;
    BEGIN;
    a = damaged_archive(60);
    for (int way = 0; way < 2; way++) {
        messages m;
        bzna_context *context;
        bzna_loader_config c = config_of(12, 0, 0);
        bzna_statistics stats;
        control->late_status = 1 + 6 * way;
        control->concealed = way;
        context = checked_context(2, &m, way ? "0" : NULL);
        walk(context, a, &c, way ? SYNCED : HOST, &stats);
        CHECK_EQ(stats.samples_failed, 9);
        CHECK_EQ(stats.samples_software + stats.sessions_lost, 0);
        bzna_context_close(context);
        finish();
    }
    archive_free(a);
}

/* No picture is delivered of which nobody knows how it came out: each costs a wait. */
TEST(where_the_driver_never_says_how_a_mapped_picture_came_out_software_decodes_it)
{
    archive *a;
    messages m;
    bzna_context *context;
    bzna_loader_config c = config_of(6, 0, 0);
    bzna_statistics stats;
    int said = 0;
    BEGIN;
    a = damaged_archive(12);
    control->late_status = -1;
    context = checked_context(2, &m, "0");
    walk(context, a, &c, HOST, &stats);
    CHECK_EQ(stats.samples_nvdec, 0);
    CHECK_EQ(stats.samples_failed, 4);
    for (int i = 0; i < m.count && i < 16; i++)
        said |= strstr(m.text[i], "NVDEC has mapped a picture and does not report whether it is damaged") != NULL;
    CHECK(said);
    CHECK_EQ(control->maps, control->unmaps);
    bzna_context_close(context);
    finish();
    archive_free(a);
}

/* Pictures of AV1, and what else has sizes that NVIDIA's parser does not round: width, height, or both are odd. */
static int catalogue_odd(int *list)
{
    static const struct { const char *name; enum AVPixelFormat format; int width, height; } odd[] = {
        { "libaom-av1", AV_PIX_FMT_YUV420P, 161, 145 }, { "libaom-av1", AV_PIX_FMT_YUV420P, 160, 145 },
        { "libaom-av1", AV_PIX_FMT_YUV420P10, 161, 144 }, { "libaom-av1", AV_PIX_FMT_YUV444P, 161, 145 },
        { "libaom-av1", AV_PIX_FMT_YUV420P, 176, 144 } };
    int count = 0;
    const int first = catalogued;
    for (size_t i = 0; i < COUNT(odd); i++) {
        const int number = catalogue_add(odd[i].name, odd[i].format, odd[i].width, odd[i].height, NULL);
        if (number >= 0)
            catalogue[number].image.codec = BZNA_CODEC_AV1;
        listed(list, &count, number);
    }
    if (count)
        catalogue_decode(first);
    return count;
}

/* As other decoders' sources have it, NVDEC takes no odd target sizes; the rectangle of the frame keeps it unscaled.
 * And NVDEC, which has no status of AV1, is not asked for it. */
TEST(frames_of_odd_sizes_get_even_targets_and_are_not_scaled)
{
    const uint32_t pictures = ROUNDS(60, 24);
    int list[8], count;
    archive *a;
    BEGIN;
    if ((count = catalogue_odd(list)) == 0)
        SKIP("this libavcodec has no libaom-av1");
    a = archive_make(pictures, list, count);
    for (int kind = HOST; kind <= SYNCED; kind++) {
        bzna_context *context = gpu_context(1);
        bzna_loader_config c = config_of(12, 0, 0);
        bzna_statistics stats;
        c.order.kind = BZNA_ORDER_SEQUENTIAL;               /* sizes in turn: one decoder has several */
        c.read.threads = 1;
        control->caps[FAKE_AV1].chroma_mask = 1 << 1 | 1 << 3;
        control->caps[FAKE_AV1].depth_mask = 1 << 8 | 1 << 10;
        CHECK_EQ(walk(context, a, &c, kind, &stats).failed, 0);
        CHECK_EQ(stats.samples_nvdec, pictures);
        CHECK(control->reconfigures > 0);
        CHECK_EQ(control->calls[FAKE_cuvidGetDecodeStatus], 0);
        bzna_context_close(context);
        finish();
    }
    archive_free(a);
}

/* Rounded up, with a rectangle where that makes a difference. */
TEST(a_decoder_asks_for_even_targets_and_the_rectangle_of_an_odd_frame)
{
    static const struct { uint32_t codec, chroma, depth, width, height; } frames[] = {
        { BZNA_CODEC_AV1, 1, 8, 161, 145 },  { BZNA_CODEC_AV1, 1, 10, 160, 145 }, { BZNA_CODEC_AV1, 0, 8, 161, 144 },
        { BZNA_CODEC_JPEG, 1, 8, 333, 251 }, { BZNA_CODEC_JPEG, 3, 8, 75, 8191 }, { BZNA_CODEC_H265, 3, 12, 151, 147 },
        { BZNA_CODEC_H264, 1, 8, 64, 48 } };
    BEGIN;
    for (size_t i = 0; i < COUNT(frames); i++) {
        const bzi_nvdec_format want = { frames[i].codec, frames[i].chroma, frames[i].depth, frames[i].width,
                                        frames[i].height };
        const CUVIDEOFORMAT parsed = { .coded_width = want.width, .coded_height = want.height };
        bzi_device device = { .config = { .session_depth = 4, .session_mapped = 8 } };
        const int is_odd = want.width % 2 || want.height % 2;
        CUVIDDECODECREATEINFO info;
        bzi_nvdec_describe(&device, &want, &parsed, &info);
        CHECK_EQ(info.ulWidth, want.width);
        CHECK_EQ(info.ulHeight, want.height);
        CHECK_EQ(info.ulTargetWidth, (want.width + 1) / 2 * 2);
        CHECK_EQ(info.ulTargetHeight, (want.height + 1) / 2 * 2);
        CHECK(info.target_rect.left == 0 && info.target_rect.top == 0);
        CHECK_EQ(info.target_rect.right, is_odd ? (int)want.width : 0);
        CHECK_EQ(info.target_rect.bottom, is_odd ? (int)want.height : 0);
        CHECK_EQ(info.display_area.right, (int)want.width);
        CHECK_EQ(info.display_area.bottom, (int)want.height);
    }
    finish();
}

/* A driver fails with every AV1 picture. AV1 is given up, and the session decodes what else there is to the end. */
TEST(a_codec_whose_calls_fail_is_given_up_and_the_others_are_not)
{
    enum { EACH = 40 };
    int list[2 * EACH];
    const int av1 = catalogue_av1();
    archive *a;
    BEGIN;
    for (int i = 0; i < 2 * EACH; i++)
        list[i] = i < EACH ? av1 : plain[0];
    a = archive_make(2 * EACH, list, 2 * EACH);
    for (int way = 0; way < 2; way++) {                     /* in turn, too */
        messages m;
        bzna_context *context;
        bzna_loader_config c = config_of(8, 0, 0);
        bzna_statistics stats;
        control->caps[FAKE_AV1].chroma_mask = 1 << 1;
        control->refused_codecs = 1 << FAKE_AV1;
        context = checked_context(1, &m, "0");
        c.order.kind = way ? BZNA_ORDER_SHUFFLE : BZNA_ORDER_SEQUENTIAL;
        c.read.threads = 1;
        CHECK_EQ(walk(context, a, &c, HOST, &stats).failed, 0);
        CHECK_EQ(stats.samples_nvdec, EACH);
        CHECK_EQ(stats.samples_software, EACH);
        CHECK_EQ(stats.fallbacks, EACH);
        CHECK_EQ(stats.sessions_lost, 0);
        CHECK(control->calls[FAKE_cuvidCreateDecoder] >= 32 && control->calls[FAKE_cuvidCreateDecoder] <= 34);
        CHECK_EQ(m.count, 3);
        CHECK_CONTAINS(m.text[0], "decoding in software: cuvidCreateDecoder: ");
        CHECK_CONTAINS(m.text[1], "AV1 is decoded in software from now on: 32 driver calls failed in a row");
        CHECK_CONTAINS(m.text[2], "decoding in software: NVDEC of Fake GPU has failed 32 times in a row with AV1");
        bzna_context_close(context);
        finish();
    }
    archive_free(a);
}

/* 32 failures in a row, of all sessions together, are the codec's; a success in between starts the count anew, and each
 * codec has its own. */
TEST(failures_count_for_all_sessions_until_one_succeeds)
{
    static bzi_device device;
    static bzi_session sessions[2];
    BEGIN;
    for (int way = 0; way < 3; way++) {                     /* nobody succeeds; the other session; this one */
        messages m;
        bzna_context *context = checked_context(1, &m, "0");
        memset(&device, 0, sizeof device);
        memset(sessions, 0, sizeof sessions);
        device.host = context->host;
        sessions[0].device = sessions[1].device = &device;
        for (uint32_t i = 0; i < 40; i++) {
            bzna_error err = { .status = BZNA_E_DEVICE };
            if (i == 20 && way)
                bzi_session_count_success(&sessions[way - 1], BZNA_CODEC_AV1);
            bzi_session_count_success(&sessions[0], BZNA_CODEC_H265);
            CHECK_EQ(atomic_load(&device.given_up), !way && i >= 32 ? 1u << bzi_device_codec(BZNA_CODEC_AV1) : 0);
            CHECK_EQ(bzi_session_fall_back(&sessions[i % 2], BZNA_CODEC_AV1, &err), BZNA_E_CODEC);
        }
        bzna_context_close(context);
        CHECK_EQ(m.count, way == 0);
        if (way == 0)
            CHECK_STR(m.text[0], "AV1 is decoded in software from now on: 32 driver calls failed in a row");
    }
    finish();
}

/* A map's copy that runs late reads what was decoded into its surface meanwhile. */
/* Late alone is no fault. */
TEST(a_driver_whose_copies_run_only_when_somebody_waits_passes)
{
    archive *a;
    messages m;
    bzna_context *context;
    bzna_loader_config c = config_of(16, 0, 0);
    bzna_statistics stats;
    BEGIN;
    a = archive_make(96, plain, 1);
    context = checked_context(2, &m, NULL);
    control->lazy_streams = 1;
    CHECK_EQ(walk(context, a, &c, HOST, &stats).failed, 0);
    CHECK_EQ(stats.samples_nvdec, 96);
    CHECK_EQ(m.count, 0);
    bzna_context_close(context);
    finish();
    archive_free(a);
}

/* Whatever is queued from now on comes so much later. */
static uint32_t gate_us;

static bzna_status close_the_gate(void *user, void *stream, bzna_error *err)
{
    bzi_device *device = user;
    void *event = NULL;
    bzna_status status = bzi_device_event(device, &event, err);
    control->stream_us = gate_us;
    if (status == BZNA_OK)
        status = bzi_device_record(device, event, stream, err);
    bzi_device_event_free(device, event);
    return status;
}

/* gpu-check's own test: on a driver whose surfaces are read late it fails. */
TEST(a_surface_that_is_decoded_into_before_its_picture_was_copied_is_noticed)
{
    BEGIN;
    for (int way = 0; way < 4; way += ROUNDS(1, 2)) {
        bzna_context *context = gpu_context(1);
        bzi_device *device = NULL;
        bzna_error e = { .struct_size = sizeof e };
        gate g = { .close = close_the_gate };
        const uint32_t codec = way % 2 ? BZNA_CODEC_H264 : BZNA_CODEC_H265;
        const long long was_us = control->stream_us;
        control->wrong_surface = way >= 2;
        REQUIRE(bzi_context_gpu(context, &device, &e) == BZNA_OK && bzi_device_enter(device, &e) == BZNA_OK);
        g.user = device;
        gate_us = 40000;                                    /* a busy machine may need longer to come to B */
        do {
            CHECK_EQ(gate_try(&g, device, codec, &e), BZNA_OK);
            control->stream_us = was_us;
        } while (!g.was_closed && (gate_us *= 4) * 1000ull < BZI_NVDEC_DEADLINE_NS);
        bzi_device_leave(device);
        CHECK(g.same_surface);
        CHECK(g.was_closed);
        CHECK_EQ(g.holds[0], way < 2);
        CHECK_EQ(g.holds[1], 1);
        bzna_context_close(context);
        finish();
    }
}

/* Every reason for which a picture is not NVDEC's is said, once, and costs no sample. */
TEST(why_a_picture_is_decoded_in_software_is_said_in_words)
{
    enum { PICTURES = 80 };
    const int av1 = catalogue_av1();
    const struct { int parser, software, broken; uint64_t memory; const char *text; } ways[] = {
        { 1, -1, 0, 0,
          "NVIDIA's parser sees a frame of 240x144, 8 bits, chroma format 1; the library sees 160x144, 8, 1" },
        { 2, -1, 0, 0, "NVIDIA's parser finds a picture without parameter sets" },
        { 3, -1, 0, 0, "the picture is interlaced" },
        { 4, -2, 0, 0, "the picture has film grain, which needs two surfaces" },
        { 0, 0, 0, 0, "NVDEC of Fake GPU does not decode H.265 of 8 bits, 4:2:2" },
        { 0, 3, 0, 0, "decodes H.265 frames of 144x144 to 8192x8192 and 262144 macroblocks, not 128x96" },
        { 0, -1, 0, 1, "context_config.decode_memory_bytes: 1 bytes leave no room for another decoder" },
        { 0, -1, 1, 0, "cuvidMapVideoFrame64: CUDA_ERROR_UNKNOWN (999)" },
        { 0, -1, 2, 0, "cuvidCreateVideoParser: CUDA_ERROR_UNKNOWN (999)" },
    };
    BEGIN;
    if (!has_encoders)
        SKIP("this libavcodec has no libx264 and libx265");
    for (size_t i = 0; i < COUNT(ways); i += ROUNDS(1, 2)) {
        const int *list = ways[i].software == -2 ? &av1 : ways[i].software < 0 ? plain : &software[ways[i].software];
        archive *a = archive_make(PICTURES, list, 1);
        bzna_context_config config;
        bzna_context *context = NULL;
        bzna_loader_config c = config_of(8, 0, 0);
        bzna_statistics stats;
        messages m = { 0 };
        bzna_context_config_init(&config, sizeof config);
        config.sessions = 1;
        config.log = take_message;
        config.log_user = &m;
        config.decode_memory_bytes = ways[i].memory;
        require(bzna_context_open(&config, &context, NULL), "a context");
        control->caps[FAKE_AV1].chroma_mask = 1 << 1;
        control->wrong_parser = ways[i].parser;
        if (ways[i].broken)
            fake->fail(ways[i].broken == 1 ? "cuvidMapVideoFrame64" : "cuvidCreateVideoParser", 1, 999, 1);
        CHECK_EQ(walk(context, a, &c, HOST, &stats).failed, 0);
        CHECK_EQ(stats.samples_software, PICTURES);
        CHECK_EQ(stats.fallbacks, PICTURES);
        CHECK_CONTAINS(m.text[0], "decoding in software: ");
        CHECK_CONTAINS(m.text[0], ways[i].text);
        CHECK(m.count >= 1 && m.count <= 1 + 2 * (ways[i].memory || ways[i].broken));
        if (ways[i].memory || ways[i].broken) {             /* the session ends; the codec is given up */
            CHECK_EQ(stats.sessions_lost, ways[i].memory != 0);
            CHECK_CONTAINS(m.text[1], ways[i].broken ? "H.265 is decoded in software from now on: 32 driver calls "
                           "failed in a row" : "a decode session has ended, 0 are left: ");
            CHECK_CONTAINS(m.text[1], ways[i].broken ? "" : ways[i].text);
        }
        fake->fail("cuvidMapVideoFrame64", 0, 0, 0);
        fake->fail("cuvidCreateVideoParser", 0, 0, 0);
        bzna_context_close(context);
        finish();
        archive_free(a);
    }
}

/* Memory that is out for a check is no verdict: the picture is decoded in software, and the next one checks again. */
TEST(a_check_that_lacks_memory_is_no_verdict_and_is_made_again)
{
    archive *a;
    BEGIN;
    a = archive_make(24, plain, 1);
    for (int way = 0; way < 4; way++) {
        messages m;
        bzna_context *context = checked_context(1, &m, NULL);
        bzna_loader_config c = config_of(6, 0, 0);
        bzna_statistics stats;
        fake->fail(way == 1 ? "cuvidCreateDecoder" : way == 3 ? "cuMemAlloc_v2" : "cuMemHostAlloc",
                   (const int[]){ 1, 1, 2, 5 }[way], 2, 0);     /* after the loader's */
        CHECK_EQ(walk(context, a, &c, SYNCED, &stats).failed, 0);
        CHECK(stats.samples_software <= 1 && stats.samples_nvdec >= 23);
        CHECK_EQ(codec_info(context, BZNA_CODEC_H265, 1, 8).check, BZNA_CHECK_PASSED);
        CHECK_STR(codec_info(context, BZNA_CODEC_H265, 1, 8).check_message, "");
        bzna_context_close(context);
        finish();
    }
    archive_free(a);
}

TEST_MAIN(setup();
    /* first, while no call of the driver's has been made: it forks */
    RUN(a_picture_that_is_never_done_ends_nvdec_in_this_process_and_nothing_waits_for_it)
    RUN(a_call_of_the_driver_that_never_returns_ends_every_loader_on_the_device_and_nothing_waits_for_it)
    RUN(closing_waits_for_the_device_no_longer_than_a_minute_and_says_what_stays)
    RUN(the_pictures_of_each_kind_are_decoded_to_their_sums_by_libavcodec)
    RUN(a_good_driver_passes_the_self_check_once_a_kind_and_nothing_is_said)
    
    RUN(a_kind_that_nvdec_decodes_wrong_is_decoded_in_software_and_the_reason_is_said)
    RUN(a_device_whose_kernel_makes_wrong_pixels_is_not_used)
    RUN(a_kernel_that_is_wrong_of_nvdecs_surfaces_disables_the_device)
    RUN(every_kind_is_checked_and_with_0_none_is)
    RUN(a_driver_that_gives_no_status_passes_the_check_and_is_used)
    RUN(a_verdict_that_comes_after_the_map_is_waited_for)
    RUN(where_the_driver_never_says_how_a_mapped_picture_came_out_software_decodes_it)
    RUN(frames_of_odd_sizes_get_even_targets_and_are_not_scaled)
    RUN(a_decoder_asks_for_even_targets_and_the_rectangle_of_an_odd_frame)
    RUN(a_codec_whose_calls_fail_is_given_up_and_the_others_are_not)
    RUN(failures_count_for_all_sessions_until_one_succeeds)
    RUN(a_driver_whose_copies_run_only_when_somebody_waits_passes)
    RUN(a_surface_that_is_decoded_into_before_its_picture_was_copied_is_noticed)
    RUN(why_a_picture_is_decoded_in_software_is_said_in_words)
    RUN(a_check_that_lacks_memory_is_no_verdict_and_is_made_again)
    RUN(jpegs_are_decoded_in_software_and_nothing_has_fallen_back)
    RUN(which_jpegs_are_nvdecs_the_file_and_the_devices_limits_say)
    RUN(a_jpeg_that_nvdec_takes_is_its_where_asked_and_others_are_the_cpus)
    RUN(a_loader_that_asks_nvdec_for_jpeg_does_not_open_where_that_cannot_be)
    RUN(where_nvdecs_jpeg_fails_its_self_check_samples_fail_and_no_other_loader_opens)
    RUN(a_jpeg_of_nvdecs_is_never_the_cpus_whatever_fails)
    RUN(jpeg_files_of_a_folder_are_nvdecs_where_asked)
    RUN(a_state_of_nvdecs_jpeg_is_not_one_of_the_cpus)
    RUN(under_random_delays_every_slot_holds_its_own_picture)
    RUN(a_consumer_that_reads_in_a_stream_and_releases_at_once_gets_the_right_pixels)
    RUN(each_picture_is_mapped_then_warped_on_the_same_stream_then_unmapped_by_one_thread)
    RUN(batches_are_ordered_by_events_between_the_consumers_stream_and_the_lanes)
    RUN(damaged_samples_among_good_ones_cost_their_own_slots)
    RUN(pictures_of_codecs_that_the_context_does_not_allow_cost_their_slots)
    RUN(with_hybrid_decoding_slow_engines_leave_pictures_to_software_and_batches_are_the_same)
    RUN(with_hybrid_decoding_samples_that_cannot_be_read_fail_as_they_do_without)
          RUN(with_hybrid_decoding_what_decoders_say_of_damage_does_not_depend_on_who_was_first)
    RUN(hybrid_decoding_is_refused_where_a_failed_sample_ends_the_run_or_is_replaced)
    RUN(a_damaged_sample_is_replaced_by_the_next_good_one_and_never_shows_the_fill)
    RUN(stop_at_an_error_delivers_what_comes_before_and_then_the_error_for_ever)
    RUN(an_engine_that_spoils_a_picture_costs_one_slot_and_with_replacing_none)
    RUN(a_lost_device_ends_every_loader_at_once_whatever_call_reports_it)
    RUN(a_call_that_fails_without_losing_the_device_costs_samples_or_the_loader_and_never_a_later_one)
    RUN(a_call_that_fails_from_some_time_on_never_hangs_anything)
    RUN(a_batch_that_cannot_be_had_fails_as_every_later_one_does)
    RUN(what_a_failing_call_costs_nvdec_libavcodec_decodes)
    RUN(without_memory_for_a_decoder_sessions_end_and_the_others_or_libavcodec_go_on)
    RUN(when_all_sessions_are_lost_later_loaders_decode_in_software)
    RUN(with_memory_for_few_decoders_sessions_make_room_by_giving_up_idle_ones)
    RUN(a_session_gives_up_an_idle_decoder_for_another_and_forgets_what_could_not_be_made)
    RUN(a_decoder_that_never_fits_costs_the_idle_ones_and_no_session)
    RUN(a_session_that_ends_finishes_what_it_has_in_flight)
    RUN(a_session_ends_with_the_fourth_sample_in_a_row_that_it_has_no_memory_for)
    RUN(closing_in_any_phase_and_order_leaves_nothing_behind)
    RUN(stopping_closing_or_losing_the_device_ends_a_thread_that_waits_in_next)
    RUN(closing_and_resetting_do_not_wait_for_what_is_queued)
    RUN(memory_is_not_freed_below_kernels_when_an_event_could_not_be_recorded)
    RUN(a_release_that_the_driver_refuses_is_an_error_and_never_wrong_pixels)
    RUN(a_forked_child_gets_e_state_and_the_parent_goes_on)
    RUN(in_steady_state_nothing_is_allocated_created_or_waited_for)
    RUN(up_to_four_alternating_frame_sizes_cost_nothing_once_each_session_has_their_decoders)
    RUN(an_engine_takes_first_what_it_has_a_decoder_for_and_passes_over_nothing_for_long)
    RUN(the_queue_passes_over_its_first_item_so_often_and_keeps_the_order_of_others)
    RUN(the_surfaces_of_decoders_count_against_decode_memory_bytes)
    RUN(frames_of_many_sizes_share_a_bounded_number_of_decoders)
    RUN(a_session_that_fills_all_places_for_decoders_closes_all_of_them)
    RUN(a_parser_that_asks_for_more_surfaces_than_are_chosen_from_gets_them)
    RUN(streams_that_ask_for_more_surfaces_than_those_before_them_wait_for_a_decoder_that_has_them)
    RUN(large_and_small_frames_mix_in_a_batch)
    RUN(loaders_of_different_sizes_types_and_outputs_share_sessions_and_device)
    RUN(a_users_cuda_context_is_worked_in_and_a_threads_own_context_is_left_alone)
    RUN(a_users_device_allocator_gives_all_memory_of_batches_and_uploads)
    RUN(sessions_that_cannot_be_started_fail_the_loader_and_the_next_one_starts_them)
    RUN(device_memory_that_is_missing_or_misaligned_is_refused_without_loss)
    RUN(what_is_queued_on_the_stream_comes_before_the_loaders_first_use_of_its_memory)
    RUN(a_slow_consumer_holds_up_no_session_and_no_other_loader)
    RUN(work_that_a_consumer_has_enqueued_is_what_limits_where_it_does)
    RUN(after_a_release_that_failed_a_reset_waits_for_what_reads_the_batch)
    RUN(a_release_that_failed_waits_a_minute_for_what_reads_the_batch_and_then_ends_the_loader)
    RUN(a_reset_that_waits_for_the_device_holds_up_no_other_call)
    RUN(batches_lie_in_the_users_buffers_on_host_or_device_slice_by_slice)
    RUN(a_thousand_loaders_and_contexts_closed_in_any_phase_leave_nothing)
    RUN(a_state_saved_on_the_cpu_goes_on_on_the_gpu_and_back_with_the_same_samples_and_pixels)
    RUN(the_transform_callback_has_the_same_say_on_the_device)
    RUN(a_tensor_of_the_device_says_so_and_keeps_the_batch)
    RUN(stops_resets_and_restores_amid_work_give_what_comes_next)
    RUN(surfaces_are_not_used_again_before_they_are_unmapped_whatever_index_the_parser_names)
    RUN(sessions_keep_pictures_queued_while_there_is_work_and_never_too_many)
    RUN(a_picture_takes_three_calls_of_the_driver_and_parts_of_a_status_a_launch_and_an_event)
    RUN(a_data_set_that_changes_is_noticed_and_every_status_is_asked_for_again)
    RUN(a_batch_whose_last_pictures_go_elsewhere_waits_for_those_that_were_launched)
    RUN(sessions_have_as_many_pictures_in_flight_and_mapped_as_asked_for)
    RUN(where_the_drivers_calls_spin_a_session_maps_only_pictures_that_are_done)
    RUN(all_engines_are_busy_and_sessions_are_four_an_engine_or_three_of_one_or_as_many_as_asked_for)
    RUN(a_codec_that_is_supported_by_no_engine_has_one)
    RUN(a_device_without_engines_refuses_nvdec_and_with_auto_uploads_what_libavcodec_decodes)
    RUN(a_parser_is_given_one_content_of_parameter_sets_and_made_anew_after_a_failure)
    RUN(frames_of_one_size_with_different_crops_show_each_its_own_part)
    RUN(all_formats_that_nvdec_decodes_have_the_pixels_of_the_cpu_path)
    RUN(what_nvdec_does_not_decode_comes_from_libavcodec_and_is_counted)
    RUN(a_batch_is_the_same_from_the_cpu_and_from_the_gpu)
    RUN(a_device_that_lacks_a_codec_decodes_the_other_and_says_once_why)
)
#endif
