/* test_slices.c - H.264 of several slices that need nothing of each other: only those that hold rows that a warp reads
 * are decoded, with the pixels, and the damage, of whole decoding. */
#define avcodec_send_packet test_avcodec_send_packet
#include "library.h"
#undef avcodec_send_packet
#include "test.h"

#ifdef BENZINA_NO_AVCODEC
TEST(slices_are_decoded) { SKIP("built without libavcodec [libavcodec-dev]"); }
TEST_MAIN(RUN(slices_are_decoded))
#else
#include "archives.h"
#include "filter.h"
#include <libavutil/dict.h>

/* The library's calls come here. */
static _Thread_local int sent_bytes;          /* of the thread's last picture */
int avcodec_send_packet(AVCodecContext *codec, const AVPacket *packet);
int test_avcodec_send_packet(AVCodecContext *codec, const AVPacket *packet)
{
    sent_bytes = packet ? packet->size : sent_bytes;
    return avcodec_send_packet(codec, packet);
}

/* ---- Pictures ---- */

typedef struct kind {
    const char *name, *options, *filter;
    enum AVPixelFormat format;
    int         width, height, is_cut;
} kind;

#define PLAIN "tune=fastdecode,preset=veryfast,x264-params=slices="
static const kind kinds[] = {
    { "tuned",               PLAIN "4", NULL, AV_PIX_FMT_YUV420P, 160, 256, 1 },
    { "not a multiple",      PLAIN "9", NULL, AV_PIX_FMT_YUV420P, 150, 250, 1 },
    { "4:2:2",               PLAIN "5", NULL, AV_PIX_FMT_YUV422P, 96, 250, 1 },
    { "10 bits",             PLAIN "5", NULL, AV_PIX_FMT_YUV420P10, 96, 160, 1 },
    { "cropped",             PLAIN "8", "h264_metadata=crop_top=22:crop_left=6:crop_bottom=20", AV_PIX_FMT_YUV420P, 160,
      256, 1 },
    { "order counts",        PLAIN "4:bframes=2", NULL, AV_PIX_FMT_YUV420P, 96, 128, 1 },
    { "without loss",        PLAIN "4,qp=0", NULL, AV_PIX_FMT_YUV420P, 96, 128, 1 },
    { "units before them",   PLAIN "4", "h264_metadata=aud=insert:sei_user_data=086f3693-b7b3-4f2c-9653-21492feee5b8+x",
      AV_PIX_FMT_YUV420P, 96, 128, 1 },
    { "ends within rows",    "tune=fastdecode,preset=veryfast,x264-params=slice-max-mbs=7", NULL, AV_PIX_FMT_YUV420P,
      96, 128, 1 },
    { "none begins a row",   "tune=fastdecode,preset=veryfast,x264-params=slice-max-mbs=95", NULL, AV_PIX_FMT_YUV420P,
      160, 160, 1 },
    { "one slice",           PLAIN "1", NULL, AV_PIX_FMT_YUV420P, 96, 128, 0 },
    { "deblocked",           PLAIN "4:no-deblock=0", NULL, AV_PIX_FMT_YUV420P, 96, 128, 0 },
    { "CABAC",               PLAIN "4:cabac=1", NULL, AV_PIX_FMT_YUV420P, 96, 128, 0 },
    { "interlaced",          PLAIN "4:interlaced=1", NULL, AV_PIX_FMT_YUV420P, 96, 128, 0 },
    { "4:4:4",               PLAIN "4", NULL, AV_PIX_FMT_YUV444P, 96, 128, 0 },
    { "gray",                PLAIN "4", NULL, AV_PIX_FMT_GRAY8, 96, 128, 0 },
};

static bzna_random random_of(uint64_t seed)
{
    bzna_random random;
    bzna_random_init(&random, seed, 0, 0, BZNA_RANDOM_USER);
    return random;
}

/* Slopes with a grain, so that no slice is small. */
static AVFrame *drawn(const kind *k, unsigned seed)
{
    AVFrame *f = av_frame_alloc();
    bzna_random random = random_of(seed);
    f->format = k->format;
    f->width = k->width;
    f->height = k->height;
    if (av_frame_get_buffer(f, 0) < 0)
        abort();
    for (int p = 0; p < AV_NUM_DATA_POINTERS && f->buf[p]; p++)
        for (size_t i = 0; i < (size_t)f->buf[p]->size; i++)
            f->buf[p]->data[i] = (uint8_t)(k->format == AV_PIX_FMT_YUV420P10 ? (i % 2 ? i / 700 % 4 : i) :
                                           (i / 97 + bzna_random_u32(&random) % 24));
    return f;
}

/* NULL: this machine has no x264. */
static AVPacket *encoded(const kind *k, unsigned seed)
{
    const AVCodec *codec = avcodec_find_encoder_by_name("libx264");
    AVCodecContext *c = codec ? avcodec_alloc_context3(codec) : NULL;
    AVPacket *packet = av_packet_alloc();
    AVFrame *f = drawn(k, seed);
    AVDictionary *options = NULL;
    if (c) {
        c->width = k->width;
        c->height = k->height;
        c->pix_fmt = k->format;
        c->time_base = (AVRational){ 1, 25 };
        c->gop_size = 1;
        c->thread_count = 1;
        c->log_level_offset = 64;
        c->flags |= strstr(k->options, "interlaced") ? AV_CODEC_FLAG_INTERLACED_DCT | AV_CODEC_FLAG_INTERLACED_ME : 0;
        av_dict_parse_string(&options, k->options, "=", ",", 0);
    }
    if (!c || avcodec_open2(c, codec, &options) < 0 || avcodec_send_frame(c, f) < 0 ||
        avcodec_send_frame(c, NULL) < 0 || avcodec_receive_packet(c, packet) < 0 ||
        (k->filter && filter(k->filter, c, packet) < 0))
        av_packet_free(&packet);
    av_dict_free(&options);
    avcodec_free_context(&c);
    av_frame_free(&f);
    return packet;
}

/* Planes in memory of their own. */
typedef struct pixels {
    bzna_status  status;
    bzna_picture picture;
    uint8_t     *memory;
    int          sent;
} pixels;

static uint32_t chroma(const bzna_picture *p, int plane, int x)
{
    return plane ? x ? p->chroma_shift_x : p->chroma_shift_y : 0;
}

static uint64_t plane_bytes(const bzna_picture *p, int i)
{
    return (((uint64_t)p->frame_width + (1u << chroma(p, i, 1)) - 1) >> chroma(p, i, 1)) * (p->depth > 8 ? 2 : 1);
}

static uint32_t plane_rows(const bzna_picture *p, int i, int32_t rows)
{
    return ((uint32_t)rows + (1u << chroma(p, i, 0)) - 1) >> chroma(p, i, 0);
}

static bzi_host host = { .memory = { .alloc = bzi_os_alloc, .release = bzi_os_release }, .max_edge_px = 1024 };
static bzi_software decoders[2];              /* of whole pictures, of parts */
static bzna_error last = { .struct_size = sizeof last };

static pixels decoded(bzi_software *decoder, const AVPacket *packet, bzi_rows rows)
{
    pixels p = { .picture.struct_size = sizeof p.picture };
    bzna_image image;
    bzi_format format;
    bzi_image alone;
    bzi_nals nals = bzi_nals_of_unit((bzi_span){ packet->data, (uint64_t)packet->size }, 0);
    bzi_span nal;
    uint64_t size = 0;
    bzna_image_init(&image, sizeof image);
    image.codec = BZNA_CODEC_H264;
    image.data = packet->data;
    image.data_size = (uint64_t)packet->size;
    while (bzi_nals_next(&nals, &nal) > 0)
        if (bzi_nal_kind(BZNA_CODEC_H264, nal) == BZI_NAL_SPS && bzi_sps_read(BZNA_CODEC_H264, nal, &format)) {
            image.width = image.frame_width = format.width - format.window[0] - format.window[1];
            image.height = image.frame_height = format.height - format.window[2] - format.window[3];
        }
    alone = bzi_image_alone(&image);
    sent_bytes = 0;
    if (!decoder->memory && bzi_software_open(decoder, &host, &last) != BZNA_OK)
        abort();
    if ((p.status = bzi_picture_describe(&alone, 1024, &format, &p.picture, &last)) != BZNA_OK)
        return p;
    if (rows.end < 0)
        rows = bzi_picture_all(&p.picture).rows;
    p.status = bzi_software_decode(decoder, &image, &format, (bzi_wanted){ .rows = rows, .shrink = 1 }, &p.picture,
                                   &last);
    p.sent = sent_bytes;
    for (int i = 0; p.status == BZNA_OK && i < 3 && p.picture.plane[i]; i++)
        size += plane_bytes(&p.picture, i) * p.picture.frame_height;
    p.memory = take_memory((size_t)size);
    size = 0;
    for (int i = 0; p.status == BZNA_OK && i < 3 && p.picture.plane[i]; i++) {
        const uint64_t bytes = plane_bytes(&p.picture, i);
        for (uint32_t y = 0; y < plane_rows(&p.picture, i, (int32_t)p.picture.frame_height); y++)
            memcpy(p.memory + size + y * bytes, (const uint8_t *)p.picture.plane[i] + (int64_t)y * p.picture.pitch[i],
                   (size_t)bytes);
        p.picture.plane[i] = p.memory + size;
        p.picture.pitch[i] = (int64_t)bytes;
        size += bytes * p.picture.frame_height;
    }
    return p;
}

static const bzi_rows all_rows = { 0, -1 };

static int same_rows(const pixels *a, const pixels *b, bzi_rows rows)
{
    for (int i = 0; i < 3 && a->picture.plane[i]; i++)
        for (uint32_t y = (uint32_t)rows.first >> chroma(&a->picture, i, 0), end = plane_rows(&a->picture, i, rows.end);
             y < end; y++)
            if (memcmp((const uint8_t *)a->picture.plane[i] + (int64_t)y * a->picture.pitch[i],
                       (const uint8_t *)b->picture.plane[i] + (int64_t)y * b->picture.pitch[i],
                       (size_t)plane_bytes(&a->picture, i)))
                return 0;
    return 1;
}

static uint32_t slices_of(const AVPacket *packet, uint64_t begin[64], uint64_t end[64])
{
    bzi_nals nals = bzi_nals_of_unit((bzi_span){ packet->data, (uint64_t)packet->size }, 0);
    bzi_span nal;
    uint32_t n = 0;
    while (bzi_nals_next(&nals, &nal) > 0)
        if (bzi_nal_kind(BZNA_CODEC_H264, nal) == BZI_NAL_SLICE && n < 64) {
            begin[n] = (uint64_t)(nal.data - packet->data);
            end[n] = begin[n] + nal.size;
            n++;
        }
    return n;
}

static AVPacket *copy_of(const AVPacket *packet)
{
    AVPacket *copy = av_packet_clone(packet);
    if (!copy || av_packet_make_writable(copy) < 0)
        abort();
    return copy;
}

/* libavcodec by itself, of the whole picture: its luma. */
static void check_oracle(const AVPacket *packet, const pixels *whole)
{
    AVCodecContext *c = avcodec_alloc_context3(avcodec_find_decoder(AV_CODEC_ID_H264));
    AVFrame *f = av_frame_alloc();
    c->thread_count = 1;
    c->flags |= AV_CODEC_FLAG_UNALIGNED;
    REQUIRE(avcodec_open2(c, NULL, NULL) >= 0 && avcodec_send_packet(c, packet) >= 0);
    avcodec_send_packet(c, NULL);
    REQUIRE(avcodec_receive_frame(c, f) >= 0 && (uint32_t)f->height == whole->picture.frame_height);
    for (int y = 0; y < f->height; y++)
        CHECK(!memcmp(f->data[0] + (ptrdiff_t)y * f->linesize[0],
                      (const uint8_t *)whole->picture.plane[0] + y * whole->picture.pitch[0],
                      (size_t)plane_bytes(&whole->picture, 0)));
    av_frame_free(&f);
    avcodec_free_context(&c);
}

/* One bit of so many bytes. */
static void flip(uint8_t *data, uint64_t size, bzna_random *random)
{
    const uint32_t at = bzna_random_u32(random) % (uint32_t)size;
    data[at] ^= (uint8_t)(1u << bzna_random_u32(random) % 8);
}

/* ---- Tests ---- */

TEST(rows_that_are_wanted_are_those_of_the_whole_picture)
{
    for (size_t n = 0; n < COUNT(kinds); n++) {
        const kind *k = &kinds[n];
        AVPacket *packet = encoded(k, (unsigned)n);
        const int before = test_failures;
        int smaller = 0;
        pixels whole;
        if (!packet && n == 0)
            SKIP("libavcodec has no libx264");
        if (!packet) {
            printf("  this x264 does not code: %s\n", k->name);
            continue;
        }
        whole = decoded(&decoders[0], packet, all_rows);
        REQUIRE(whole.status == BZNA_OK);
        check_oracle(packet, &whole);
        for (int32_t first = 0, height = (int32_t)whole.picture.frame_height; first < height; first += 13)
            for (int32_t end = first + 1; end <= height; end = end < height && end + 29 > height ? height : end + 29) {
                const bzi_rows rows = { first, end };
                pixels some = decoded(&decoders[1], packet, rows);
                CHECK_EQ(some.status, BZNA_OK);
                CHECK(some.status != BZNA_OK || same_rows(&whole, &some, rows));
                CHECK(some.sent <= whole.sent);
                smaller += some.sent < whole.sent;
                free(some.memory);
            }
        CHECK_EQ(smaller > 0, k->is_cut);
        if (k->is_cut) {                                    /* no more than two of the slices hold them */
            uint64_t begin[64], end[64], most = 0;
            const uint32_t slices = slices_of(packet, begin, end);
            pixels some = decoded(&decoders[1], packet, (bzi_rows){ 60, 64 });
            for (uint32_t i = 0; i < slices; i++)
                most = end[i] - begin[i] > most ? end[i] - begin[i] : most;
            CHECK(strstr(k->options, "mbs") || some.sent < (int)(begin[0] + 2 * most + 1024));
            free(some.memory);
        }
        if (test_failures != before)
            printf("  of: %s\n", k->name);
        free(whole.memory);
        av_packet_free(&packet);
    }
}

/* Nothing else is cut: what slices say for themselves is damaged or crafted in each of these. */
TEST(slices_that_are_not_as_they_must_be_are_all_decoded)
{
    AVPacket *packet = encoded(&kinds[0], 1), *copy;
    uint64_t begin[64], end[64], size;
    uint32_t rows[2] = { 100, 110 }, slices;
    if (!packet)
        SKIP("libavcodec has no libx264");
    slices = slices_of(packet, begin, end);
    REQUIRE(slices == 4);
    size = (uint64_t)packet->size;
    copy = copy_of(packet);
    size = bzi_h264_cut(copy->data, size, rows);
    CHECK(size < (uint64_t)packet->size);
    av_packet_free(&copy);
    for (uint32_t how = 0; how < 6; how++) {
        copy = copy_of(packet);
        size = (uint64_t)packet->size;
        if (how == 0)
            copy->data[begin[1]] = 0x61;                    /* not of an IDR picture */
        else if (how == 1)
            copy->data[begin[1]] = 0x05;                    /* which is a reference */
        else if (how == 2)
            memcpy(copy->data + begin[2], copy->data + begin[1], 8);        /* the same place twice */
        else if (how == 3)
            memcpy(copy->data + begin[0], copy->data + begin[1], 8);        /* none for the first macroblock */
        else if (how == 4)
            copy->data[begin[1]] = 0x09;                    /* a unit between slices */
        else
            copy->data[begin[0] - 6] = 0x67;                /* see below */
        if (how == 5) {                                     /* two parameter sets of a kind */
            bzi_nals nals = bzi_nals_of_unit((bzi_span){ packet->data, begin[0] - 4 }, 0);
            bzi_span nal;
            av_packet_free(&copy);
            copy = av_packet_alloc();
            REQUIRE(av_new_packet(copy, packet->size + (int)begin[0]) >= 0);
            memcpy(copy->data, packet->data, (size_t)begin[0]);
            REQUIRE(bzi_nals_next(&nals, &nal) > 0);
            memcpy(copy->data, packet->data, (size_t)begin[0] - 4);
            memcpy(copy->data + begin[0] - 4, packet->data, (size_t)packet->size);
            size = (uint64_t)packet->size + begin[0] - 4;
        }
        const uint64_t was = size;
        size = bzi_h264_cut(copy->data, size, rows);
        CHECK_EQ(size, was);
        av_packet_free(&copy);
    }
    av_packet_free(&packet);
}

/* Bytes changed anywhere: nothing is read or written outside, and a picture does not grow. */
TEST(damaged_pictures_are_cut_within_their_bytes)
{
    bzna_random random = random_of(5);
    AVPacket *packet = encoded(&kinds[0], 1);
    if (!packet)
        SKIP("libavcodec has no libx264");
    for (int i = 0; i < 20000; i++) {
        uint64_t size = (uint64_t)packet->size - (i % 5 == 0 ? bzna_random_u32(&random) % (uint64_t)packet->size : 0);
        const uint64_t was = size;
        uint32_t rows[2] = { bzna_random_u32(&random) % 300, bzna_random_u32(&random) % 300 };
        uint8_t *data = take_memory((size_t)size);
        memcpy(data, packet->data, (size_t)size);
        for (uint32_t k = bzna_random_u32(&random) % 5; k; k--)
            flip(data, bzi_min(size, k % 2 ? 60 : size), &random);
        size = bzi_h264_cut(data, size, rows);
        CHECK(size <= was);
        free(data);
    }
    av_packet_free(&packet);
}

/* Whatever is left of it: nothing is written behind it. */
TEST(a_slice_is_emptied_within_its_bytes)
{
    enum { MOST = 400, MACROBLOCKS = 160 };
    AVPacket *packet = encoded(&kinds[0], 1);
    bzi_format sps = { .frame_num_bits = 4 };
    uint64_t begin[64], end[64];
    uint32_t smaller = 0;
    if (!packet)
        SKIP("libavcodec has no libx264");
    REQUIRE(slices_of(packet, begin, end) == 4 && end[1] - begin[1] > MOST);
    for (uint64_t size = 1; size < MOST; size++) {
        uint8_t slice[2 * MOST];
        memset(slice, 0xa5, sizeof slice);
        memcpy(slice, packet->data + begin[1], (size_t)size);
        const uint64_t left = bzi_slice_empty(slice, size, &sps, MACROBLOCKS);
        CHECK(left <= size);
        smaller += left < size;
        for (uint64_t i = size; i < sizeof slice; i++)
            CHECK(slice[i] == 0xa5);
    }
    CHECK(smaller > MOST - MACROBLOCKS - 40);
    av_packet_free(&packet);
}

/* Of a part: damage in slices that are not needed is of no matter, in those that are it is noticed as in the whole. */
TEST(damage_counts_in_slices_that_are_decoded_and_no_others)
{
    bzna_random random = random_of(7);
    AVPacket *packet = encoded(&kinds[0], 1);
    uint64_t begin[64], end[64];
    int noticed = 0, kept = 0;
    pixels good;
    if (!packet)
        SKIP("libavcodec has no libx264");
    good = decoded(&decoders[0], packet, all_rows);
    REQUIRE(good.status == BZNA_OK && slices_of(packet, begin, end) == 4);
    for (int i = 0; i < ROUNDS(400, 60); i++) {
        const uint32_t n = bzna_random_u32(&random) % 4, slice = bzna_random_u32(&random) % 4;
        const bzi_rows rows = { (int32_t)(n * 64 + 5), (int32_t)(n * 64 + 5 + bzna_random_u32(&random) % 100) };
        const uint32_t until = (uint32_t)(rows.end > 256 ? 256 : rows.end);
        const bzi_rows within = { rows.first, (int32_t)until };
        const int needed = slice >= n && slice <= (until - 1) / 64;
        AVPacket *copy = copy_of(packet);
        const uint64_t from = begin[slice] + 1, length = end[slice] - from;
        pixels whole, some;
        if (i % 3 == 0)                                     /* data that end early: zeros behind */
            memset(copy->data + from + length / 2, 0, (size_t)(length - length / 2));
        else
            flip(copy->data + from + 8, length - 8, &random);
        whole = decoded(&decoders[0], copy, all_rows);
        some = decoded(&decoders[1], copy, within);
        if (!needed) {
            CHECK_EQ(some.status, BZNA_OK);
            CHECK(some.status != BZNA_OK || same_rows(&good, &some, within));
            kept += whole.status != BZNA_OK;
        } else {
            CHECK_EQ(some.status, whole.status);
            CHECK(some.status != BZNA_OK || whole.status != BZNA_OK || same_rows(&whole, &some, within));
            noticed += some.status == BZNA_E_DECODE;
        }
        free(whole.memory);
        free(some.memory);
        av_packet_free(&copy);
    }
    CHECK(noticed > ROUNDS(20, 2) && kept > ROUNDS(20, 2));
    free(good.memory);
    av_packet_free(&packet);
}

/* libavcodec keeps coefficients of a macroblock in which decoding without CABAC ended. */
TEST(a_good_picture_is_the_same_after_a_damaged_one)
{
    static const kind tall = { "", PLAIN "1", NULL, AV_PIX_FMT_YUV420P, 160, 256, 0 };
    AVPacket *packets[2] = { encoded(&kinds[0], 1), encoded(&tall, 2) };
    int failed = 0;
    if (!packets[0])
        SKIP("libavcodec has no libx264");
    for (int k = 0; k < 2; k++) {
        pixels good = decoded(&decoders[0], packets[k], all_rows);
        for (int i = 1; i < 40; i++) {
            AVPacket *copy = copy_of(packets[k]);
            pixels bad, again;
            memset(copy->data + copy->size * i / 40, 0xaa, (size_t)(copy->size - copy->size * i / 40));
            bad = decoded(&decoders[0], copy, all_rows);
            again = decoded(&decoders[0], packets[k], all_rows);
            failed += bad.status == BZNA_E_DECODE;
            CHECK_EQ(again.status, BZNA_OK);
            CHECK(again.status != BZNA_OK || same_rows(&good, &again, bzi_picture_all(&good.picture).rows));
            free(bad.memory);
            free(again.memory);
            av_packet_free(&copy);
        }
        free(good.memory);
        av_packet_free(&packets[k]);
    }
    CHECK(failed > 60);
}

/* ---- Loaders ---- */

static bzna_status turn(void *user, const bzna_sample_info *sample, bzna_random *random, bzna_transform *transform)
{
    const double a = bzna_random_uniform(random, 0, 6.3), s = bzna_random_uniform(random, 0.3, 1.3);
    const double c = cos(a) * s, d = sin(a) * s;
    double *h = transform->homography;
    (void)user, (void)sample;
    memset(h, 0, sizeof transform->homography);
    h[0] = c, h[1] = -d, h[2] = bzna_random_uniform(random, 0, 160);
    h[3] = d, h[4] = c, h[5] = bzna_random_uniform(random, 0, 256);
    h[7] = bzna_random_uniform(random, 0, 1) < 0.1 ? 0.001 : 0;
    h[8] = 1;
    return BZNA_OK;
}

static bzna_status look(void *user, const bzna_sample_info *sample, bzna_random *random, const bzna_picture *picture,
                        void *const planes[3])
{
    (void)user, (void)sample, (void)random, (void)picture, (void)planes;
    return BZNA_OK;
}

enum { SAMPLES = 6, EDGE = 48, BATCHES = 40 };

/* All batches; returns how many samples failed. */
static uint32_t load(bzna_context *context, const archive *a, int is_whole, int is_turned, uint32_t antialias,
                     float *out)
{
    const uint64_t batch_floats = SAMPLES * 2 * 3 * EDGE * EDGE;
    bzna_source source = archive_source(a);
    bzna_dataset *dataset = NULL;
    bzna_loader *loader = NULL;
    bzna_loader_config config;
    uint32_t failed = 0;
    bzna_loader_config_init(&config, sizeof config);
    config.output.batch_size = SAMPLES;
    config.output.width = config.output.height = EDGE;
    config.output.views = 2;
    config.output.device.kind = BZNA_DEVICE_CPU;
    config.decode.decoder = BZNA_DECODER_SOFTWARE;
    config.decode.threads = 2;
    config.order.epochs = ROUNDS(BATCHES, 12);
    config.warp.kind = BZNA_WARP_RANDOM_RESIZED_CROP;
    config.filter.antialias = antialias ? BZNA_ANTIALIAS_AUTO : BZNA_ANTIALIAS_OFF;
    config.warp.flip_h = 0.5;
    config.color.jitter.contrast[0] = 0.6f;
    config.color.jitter.contrast[1] = 1.4f;
    config.pipeline.transform = is_turned ? turn : NULL;
    config.pipeline.picture = is_whole ? look : NULL;
    require(bzna_dataset_open_source(context, &source, NULL, &dataset, &last), "data set");
    require(bzna_loader_open(context, dataset, &config, &loader, &last), last.message);
    for (uint64_t i = 0; i < config.order.epochs; i++) {
        bzna_batch *batch = NULL;
        bzna_batch_info info;
        require(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &last), "batch");
        bzna_batch_get_info(batch, &info, sizeof info, &last);
        for (uint32_t k = 0; k < info.count; k++)
            failed += info.status[k] != BZNA_OK;
        memcpy(out + i * batch_floats, info.image.data, batch_floats * sizeof *out);
        bzna_batch_release(batch);
    }
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    return failed;
}

TEST(a_loaders_batches_are_those_of_whole_pictures)
{
    static float batches[2][BATCHES * SAMPLES * 2 * 3 * EDGE * EDGE];
    static const int pattern[SAMPLES] = { 0, 1, 2, 3, 4, 5 };
    coded pictures[SAMPLES];
    bzna_context *context = NULL;
    archive a;
    recipe r = { .count = SAMPLES, .pictures = pictures, .pattern = pattern, .pattern_count = SAMPLES };
    memset(pictures, 0, sizeof pictures);
    REQUIRE(bzna_context_open(NULL, &context, &last) == BZNA_OK);
    for (int i = 0; i < SAMPLES; i++) {
        AVPacket *packet = encoded(&kinds[0], (unsigned)i);
        bzna_image *image = &pictures[i].image;
        if (!packet)
            SKIP("libavcodec has no libx264");
        bzna_image_init(image, sizeof *image);
        image->codec = BZNA_CODEC_H264;
        image->width = image->frame_width = 160;
        image->height = image->frame_height = 256;
        image->data = pictures[i].memory = take_memory((size_t)packet->size);
        image->data_size = (uint64_t)packet->size;
        memcpy(pictures[i].memory, packet->data, (size_t)packet->size);
        av_packet_free(&packet);
    }
    a = archive_build(context, &r);
    for (int turned = 0; turned < 2; turned++)
        for (uint32_t antialias = 0; antialias < 2; antialias++) {
            CHECK_EQ(load(context, &a, 1, turned, antialias, batches[0]), 0);
            CHECK_EQ(load(context, &a, 0, turned, antialias, batches[1]), 0);
            CHECK(!memcmp(batches[0], batches[1], sizeof batches[0]));
        }
    archive_clear(&a);
    for (int i = 0; i < SAMPLES; i++)
        free(pictures[i].memory);
    bzna_context_close(context);
}

TEST(decoders_are_closed)                     /* what the tests above have used */
{
    for (int i = 0; i < 2; i++)
        bzi_software_close(&decoders[i]);
}

TEST_MAIN(RUN(rows_that_are_wanted_are_those_of_the_whole_picture)
          RUN(slices_that_are_not_as_they_must_be_are_all_decoded)
          RUN(damaged_pictures_are_cut_within_their_bytes)
          RUN(a_slice_is_emptied_within_its_bytes)
          RUN(damage_counts_in_slices_that_are_decoded_and_no_others)
          RUN(a_good_picture_is_the_same_after_a_damaged_one)
          RUN(a_loaders_batches_are_those_of_whole_pictures)
          RUN(decoders_are_closed))
#endif
