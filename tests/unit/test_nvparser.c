/* What NVIDIA's own parser makes of the packets that the library gives to cuvidParseVideoData. tests/data/nvparser has
 * pictures that encoders made in as many ways as they have (packets.bin, by nvparser/make.py), and what the parser of
 * NVIDIA's Vulkan video samples said of each packet (answers.txt, by `make nvparser SRC=... VULKAN=...`): its structs
 * are nearly those of NVDEC's parser. The library's framing, its reading of parameter sets, and the parser of the fake
 * libnvcuvid must agree with those answers. */
#include "library.h"
#include "test.h"
#include "../fake/fake.h"
#include "archives.h"
#include "../gpu/check_pictures.h"

#if !defined(BENZINA_NO_CUDA) && !defined(BENZINA_NO_AVCODEC)

enum { MAX_PICTURES = 2048, MAX_GROUPS = 256, MAX_BYTES = 1 << 16 };

/* A picture, and the packet that the library makes of it. */
typedef struct picture {
    int      group;
    coded    coded;
    uint8_t *packet;
    uint64_t size;
    int      refused;                 /* by the writer, or it cannot be framed */
    char     why[488];
} picture;

/* A line of answers.txt, by the columns that stand there. */
typedef struct answer {
    unsigned           codec, bytes;
    unsigned long long sum;
    int pictures, sequences, coded_width, coded_height, display_width, display_height, display_x, display_y;
    int progressive;
    unsigned chroma, depth_luma, depth_chroma, full_range;
    int primaries, transfer, matrix, surfaces, width_mbs, height_mbs, slices, field, ref, intra, idr, irap, references;
    char sets[64];
} answer;

static picture pictures[MAX_PICTURES];
static answer answers[MAX_PICTURES];
static char groups[MAX_GROUPS][300];
static int picture_count, answer_count, group_count;

static uint32_t codec_of(unsigned number)
{
    return number == cudaVideoCodec_H264 ? BZNA_CODEC_H264 : number == cudaVideoCodec_HEVC ? BZNA_CODEC_H265 :
           BZNA_CODEC_AV1;
}

static unsigned number_of(uint32_t codec) { return (unsigned)bzi_codec_find(codec)->nv_id; }

static uint64_t sum_of(const uint8_t *data, uint64_t size) { return bzi_hash(0xcbf29ce484222325u, data, size); }

/* ---- The files --------------------------------------------------------------------------------------------------- */

static picture *picture_add(int group, uint32_t codec, const uint8_t *sets, uint64_t sets_size, const uint8_t *data,
                            uint64_t size)
{
    picture *p = &pictures[picture_count++];
    bzna_image *image = &p->coded.image;
    if (picture_count == MAX_PICTURES)
        abort();
    p->group = group;
    p->coded.memory = take_memory((size_t)(sets_size + size));
    if (sets_size)                                          /* AV1 has none, and memcpy takes no NULL */
        memcpy(p->coded.memory, sets, (size_t)sets_size);
    memcpy(p->coded.memory + sets_size, data, (size_t)size);
    image->struct_size = sizeof *image;
    image->codec = codec;
    image->data = p->coded.memory;
    image->data_size = sets_size + size;
    return p;
}

static uint64_t take_number(const uint8_t **at, int bytes)
{
    uint64_t value = 0;
    while (bytes--)
        value = value << 8 | *(*at)++;
    return value;
}

static void read_packets(void)
{
    static uint8_t file[1 << 19];
    FILE *f = fopen("tests/data/nvparser/packets.bin", "rb");
    const size_t size = f ? fread(file, 1, sizeof file, f) : 0;
    const uint8_t *at = file + 4, *end = file + size;
    if (size < 4 || size == sizeof file || memcmp(file, "NVP1", 4))
        abort();
    fclose(f);
    while (at < end) {
        const uint32_t codec = codec_of((unsigned)take_number(&at, 1));
        const int length = (int)take_number(&at, 1), group = group_count++;
        const uint8_t *sets;
        uint64_t sets_size, count;
        snprintf(groups[group], sizeof groups[group], "%s, %.*s", bzi_codec_name(codec), length, (const char *)at);
        at += length;
        sets_size = take_number(&at, 2);
        sets = at;
        at += sets_size;
        for (count = take_number(&at, 2); count; count--) {
            const uint64_t bytes = take_number(&at, 2);
            picture_add(group, codec, sets, sets_size, at, bytes);
            at += bytes;
        }
    }
    if (at != end)
        abort();
}

/* The size that a picture without a container has: of the stream's window. */
static int describe(picture *p, bzi_format *format, bzna_error *err)
{
    const bzi_image alone = bzi_image_alone(&p->coded.image);
    return bzi_codec_find(p->coded.image.codec)->inspect(&alone.coded, format, err) == BZNA_OK;
}

static void frame(picture *p, const bzna_image *image)
{
    bzna_error err;
    bzi_value measured = { NULL, 0, 0, 0 }, out;
    if (bzi_image_stream(image, &measured, &err) != BZNA_OK)
        abort();
    p->packet = take_memory((size_t)measured.size);
    out = (bzi_value){ p->packet, measured.size, 0, 0 };
    if (bzi_image_stream(image, &out, &err) != BZNA_OK || out.size != measured.size)
        abort();
    p->size = out.size;
}

/* Writes every picture into an archive, and takes packets of what it reads there. */
static void pass_through_an_archive(void)
{
    static uint8_t buffer[MAX_BYTES];
    archive a = { .count = 0 };
    bzna_sink sink = { sizeof sink, 0, &a, archive_write, NULL };
    bzna_context *context = NULL;
    bzna_context_config config;
    bzna_writer *writer = NULL;
    bzna_dataset *dataset = NULL;
    bzna_source source;
    uint64_t taken = 0;
    bzna_context_config_init(&config, sizeof config);
    config.device.kind = BZNA_DEVICE_CPU;
    require(bzna_context_open(&config, &context, NULL), "a context");
    require(bzna_writer_open_sink(context, &sink, NULL, &writer, NULL), "a writer");
    for (int i = 0; i < picture_count; i++) {
        picture *p = &pictures[i];
        bzna_writer_sample desc = { .struct_size = sizeof desc, .image = &p->coded.image };
        bzna_error err = { .struct_size = sizeof err };
        bzi_format format;
        if (describe(p, &format, &err)) {
            p->coded.image.width = format.width - format.window[0] - format.window[1];
            p->coded.image.height = format.height - format.window[2] - format.window[3];
        }
        p->refused = bzna_writer_add(writer, BZNA_INDEX_NEXT, &desc, 0, &err) != BZNA_OK;
        snprintf(p->why, sizeof p->why, "%s", p->refused ? err.message : "");
    }
    require(bzna_writer_finish(writer, NULL), "finishing");
    bzna_writer_close(writer);
    a.count = a.size;
    source = archive_source(&a);
    require(bzna_dataset_open_source(context, &source, NULL, &dataset, NULL), "an archive");
    for (int i = 0; i < picture_count; i++) {
        bzna_image image = { .struct_size = sizeof image };
        if (pictures[i].refused)
            continue;
        require(bzna_dataset_read_image(dataset, taken++, "bzna_input", buffer, sizeof buffer, &image, NULL),
                "a picture");
        frame(&pictures[i], &image);
    }
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    free(a.bytes);
}

/* The pictures of other files, after those: of the archives in tests/data; of the self-check. */
static void add_others(void)
{
    static const struct { const char *path; uint32_t codec; } files[] = {
        { "tests/data/mini_h264.bzna", BZNA_CODEC_H264 }, { "tests/data/mini_h265.bzna", BZNA_CODEC_H265 },
        { "tests/data/slices_h264.bzna", BZNA_CODEC_H264 } };
    static uint8_t buffer[1 << 18];
    bzna_context *context = NULL;
    bzna_context_config config;
    bzna_context_config_init(&config, sizeof config);
    config.device.kind = BZNA_DEVICE_CPU;
    require(bzna_context_open(&config, &context, NULL), "a context");
    for (size_t k = 0; k < COUNT(files); k++) {
        bzna_dataset *dataset = NULL;
        require(bzna_dataset_open(context, files[k].path, NULL, &dataset, NULL), files[k].path);
        for (uint64_t i = 0; i < bzna_dataset_count(dataset); i++) {
            bzna_image image = { .struct_size = sizeof image };
            if (bzna_dataset_read_image(dataset, i, NULL, buffer, sizeof buffer, &image, NULL) != BZNA_OK)
                continue;
            snprintf(groups[group_count], sizeof groups[0], "%s", files[k].path);
            frame(picture_add(group_count++, image.codec, NULL, 0, buffer, 0), &image);
        }
        bzna_dataset_close(dataset);
    }
    for (size_t k = 0; k < COUNT(check_pictures); k++) {
        check_pair check = { .want = { check_pictures[k].codec, 1, check_pictures[k].depth, 0, 0 } };
        const int group = group_count++;
        if (check.want.codec == BZNA_CODEC_JPEG || !check_pair_use(&check))
            continue;
        snprintf(groups[group], sizeof groups[group], "check_pictures.h, %s", bzi_codec_name(check.want.codec));
        for (int i = 0; i < 2; i++)
            frame(picture_add(group, check.want.codec, NULL, 0, check.bytes[i], check.images[i].data_size),
                  &check.images[i]);
    }
    bzna_context_close(context);
}

/* Parameter sets in front, so that the picture can be asked what it is. */
static void use_packets(void)
{
    for (int i = 0; i < picture_count; i++)
        if (pictures[i].packet) {
            pictures[i].coded.image.data = pictures[i].packet;
            pictures[i].coded.image.data_size = pictures[i].size;
        }
}

static void read_answers(void)
{
    char line[8192];
    FILE *f = fopen("tests/data/nvparser/answers.txt", "r");
    while (f && fgets(line, sizeof line, f)) {
        answer *a = &answers[answer_count];
        int n;
        if (strncmp(line, "packet ", 7))
            continue;
        n = sscanf(line + 7, "%u %u %llx %d %d %d %d %d %d %d %d %d %u %u %u %u %d %d %d %d %d %d %d %d %d %d %d %d %d "
                   "%63s",
                   &a->codec, &a->bytes, &a->sum, &a->pictures, &a->sequences, &a->coded_width, &a->coded_height,
                   &a->display_width, &a->display_height, &a->display_x, &a->display_y, &a->progressive, &a->chroma,
                   &a->depth_luma, &a->depth_chroma, &a->full_range, &a->primaries, &a->transfer, &a->matrix,
                   &a->surfaces, &a->width_mbs, &a->height_mbs, &a->slices, &a->field, &a->ref, &a->intra, &a->idr,
                   &a->irap, &a->references, a->sets);
        if (n != 30)
            snprintf(a->sets, sizeof a->sets, "none after %d", n);
        if (++answer_count == MAX_PICTURES)
            abort();
    }
    if (f)
        fclose(f);
}

static void prepare(void)
{
    if (picture_count)
        return;
    read_packets();
    pass_through_an_archive();
    add_others();
    use_packets();
    read_answers();
}

/* The answer to a picture's packet; NULL: it has none. Answers are in the order of packets. */
static const answer *answer_of(int number)
{
    int at = 0;
    for (int i = 0; i < number; i++)
        at += pictures[i].packet != NULL;
    return pictures[number].packet && at < answer_count ? &answers[at] : NULL;
}

/* Says of which picture the failures since then are. */
static void say(int number, int before)
{
    if (test_failures != before)
        printf("  picture %d: %s\n", number, groups[pictures[number].group]);
}

/* ---- The fake's parser ------------------------------------------------------------------------------------------- */

typedef struct seen {
    int             sequences, pictures;
    CUVIDEOFORMAT   format;
    CUVIDPICPARAMS  parameters;
} seen;

static int CUDAAPI on_sequence(void *user, CUVIDEOFORMAT *format)
{
    seen *s = user;
    s->sequences++;
    s->format = *format;
    return 12;
}

static int CUDAAPI on_picture(void *user, CUVIDPICPARAMS *parameters)
{
    seen *s = user;
    if (!s->pictures++)
        s->parameters = *parameters;
    return 1;
}

/* As a session does: a parser sees the pictures of a group, which have one content of parameter sets. */
static void feed(bzi_cuda *cu, void (*take)(int number, const seen *s))
{
    CUvideoparser parser = NULL;
    seen s;
    int last = -1;
    for (int i = 0; i < picture_count; i++) {
        const picture *p = &pictures[i];
        CUVIDSOURCEDATAPACKET packet = { .flags = CUVID_PKT_ENDOFPICTURE, .payload = p->packet,
                                         .payload_size = (tcu_ulong)p->size };
        if (!p->packet)
            continue;
        if (p->group != last) {
            CUVIDPARSERPARAMS parameters = { .CodecType = (cudaVideoCodec)number_of(p->coded.image.codec),
                                             .ulMaxNumDecodeSurfaces = 1, .pUserData = &s,
                                             .pfnSequenceCallback = on_sequence, .pfnDecodePicture = on_picture };
            if (parser)
                cu->cuvidDestroyVideoParser(parser);
            memset(&s, 0, sizeof s);
            if (cu->cuvidCreateVideoParser(&parser, &parameters) != CUDA_SUCCESS)
                abort();
            last = p->group;
        }
        s.sequences = s.pictures = 0;
        CHECK_EQ(cu->cuvidParseVideoData(parser, &packet), CUDA_SUCCESS);
        if (take)
            take(i, &s);
    }
    if (parser)
        cu->cuvidDestroyVideoParser(parser);
}

static int use_fake(bzi_cuda *cu)
{
    bzna_error err = { .struct_size = sizeof err };
    int devices = 0;
    setenv("BENZINA_NVDEC_CHECK", "0", 1);
    fake_load()->control->quiet = 1;
    return bzi_cuda_start(cu, &devices, &err) == BZNA_OK &&
           bzi_cuda_load(cu, BZI_OS_NVCUVID, "", bzi_nvcuvid_symbols, BZI_LENGTH(bzi_nvcuvid_symbols), &err) == BZNA_OK;
}

/* ---- Tests ------------------------------------------------------------------------------------------------------- */

/* With FAKE_RECORD in the environment: what `make nvparser` asks NVIDIA's parser about. */
TEST(the_fakes_parser_takes_every_packet)
{
    bzi_cuda cu;
    prepare();
    REQUIRE(use_fake(&cu));
    feed(&cu, NULL);
}

TEST(packets_are_those_that_nvidias_parser_was_asked_about)
{
    int packets = 0, codecs[3] = { 0 };
    prepare();
    for (int i = 0; i < picture_count; i++) {
        const answer *a = answer_of(i);
        const int before = test_failures;
        if (!pictures[i].packet)
            continue;
        packets++;
        REQUIRE(a);
        codecs[a->codec == cudaVideoCodec_H264 ? 0 : a->codec == cudaVideoCodec_HEVC ? 1 : 2]++;
        CHECK_EQ(a->codec, number_of(pictures[i].coded.image.codec));
        CHECK_EQ(a->bytes, pictures[i].size);
        CHECK(a->sum == sum_of(pictures[i].packet, pictures[i].size));
        say(i, before);
    }
    CHECK_EQ(packets, answer_count);
    printf("  %d of H.264, %d of H.265, %d of AV1\n", codecs[0], codecs[1], codecs[2]);
    CHECK(packets >= 1000 && codecs[0] >= 250 && codecs[1] >= 250 && codecs[2] >= 250);
}

/* A session relies on it: the picture is there when the call returns, it needs no other one, and the decoder has the
 * surfaces that it asks for. */
TEST(nvidias_parser_finds_one_picture_a_packet_at_once_and_no_references)
{
    prepare();
    for (int i = 0; i < picture_count; i++) {
        const answer *a = answer_of(i);
        const int before = test_failures;
        if (!a)
            continue;
        CHECK_EQ(a->pictures, 1);
        CHECK(a->sequences == (i == 0 || pictures[i].group != pictures[i - 1].group));
        CHECK_EQ(a->references, 0);
        CHECK(a->surfaces >= 1 && a->surfaces <= (int)BZI_LIMIT_SURFACES);
        CHECK(a->intra || a->codec == cudaVideoCodec_AV1);
        CHECK_EQ(a->idr, 1);
        CHECK_EQ(a->field, 0);
        say(i, before);
    }
}

/* The reading of sizes and depths tells decoders apart, that of windows places the picture in its surface. */
TEST(parameter_sets_are_read_as_nvidias_parser_reads_them)
{
    prepare();
    for (int i = 0; i < picture_count; i++) {
        const answer *a = answer_of(i);
        const int before = test_failures;
        bzna_error err = { .struct_size = sizeof err };
        bzi_nvdec_picture given = { .image = &pictures[i].coded.image };
        if (!a)
            continue;
        REQUIRE(describe(&pictures[i], &given.sps, &err));
        const bzi_nvdec_format want = bzi_nvdec_format_of(&given);
        const CUVIDEOFORMAT parsed = {
            .codec = (cudaVideoCodec)a->codec, .chroma_format = (cudaVideoChromaFormat)a->chroma,
            .bit_depth_luma_minus8 = (unsigned char)(a->depth_luma - 8), .coded_width = (unsigned)a->coded_width,
            .coded_height = (unsigned)a->coded_height };
        CHECK_EQ(bzi_nvdec_agree(&want, &parsed, &err), BZNA_OK);
        CHECK_EQ(given.sps.chroma_format, a->chroma);
        CHECK_EQ(given.sps.depth_luma, a->depth_luma);
        if (a->chroma)
            CHECK_EQ(given.sps.depth_chroma, a->depth_chroma);
        CHECK_EQ(given.sps.width - given.sps.window[0] - given.sps.window[1], a->display_width);
        CHECK_EQ(given.sps.height - given.sps.window[2] - given.sps.window[3], a->display_height);
        CHECK_EQ(given.sps.window[0], a->display_x);
        CHECK_EQ(given.sps.window[2], a->display_y);
        if (given.sps.color.present) {
            CHECK_EQ(given.sps.color.full_range, a->full_range);
            CHECK_EQ(given.sps.color.primaries, a->primaries);
            CHECK_EQ(given.sps.color.transfer, a->transfer);
            CHECK_EQ(given.sps.color.matrix, a->matrix);
        }
        say(i, before);
    }
}

static void compare(int number, const seen *s)
{
    const answer *a = answer_of(number);
    const int before = test_failures;
    REQUIRE(a);
    CHECK_EQ(s->pictures, a->pictures);
    CHECK_EQ(s->sequences, a->sequences);
    CHECK_EQ(s->format.coded_width, a->coded_width);
    CHECK_EQ(s->format.coded_height, a->coded_height);
    CHECK_EQ(s->format.chroma_format, a->chroma);
    CHECK_EQ(s->format.bit_depth_luma_minus8 + 8u, a->depth_luma);
    CHECK_EQ(s->parameters.field_pic_flag, a->field);
    if (a->codec != cudaVideoCodec_AV1) {
        CHECK_EQ(s->parameters.PicWidthInMbs, a->width_mbs);
        CHECK_EQ(s->parameters.FrameHeightInMbs, a->height_mbs);
        CHECK_EQ(s->parameters.nNumSlices, a->slices);
        CHECK_EQ(s->parameters.intra_pic_flag, a->intra);
    }
    if (a->codec == cudaVideoCodec_HEVC) {
        CHECK_EQ(s->parameters.CodecSpecific.hevc.IdrPicFlag, a->idr);
        CHECK_EQ(s->parameters.CodecSpecific.hevc.IrapPicFlag, a->irap);
    }
    say(number, before);
}

TEST(the_fakes_parser_says_what_nvidias_says)
{
    bzi_cuda cu;
    prepare();
    REQUIRE(use_fake(&cu));
    feed(&cu, compare);
}

/* Whatever an encoder was told: the writer takes it, and so will the parser. */
TEST(every_picture_goes_into_an_archive)
{
    prepare();
    for (int i = 0; i < picture_count; i++) {
        const int before = test_failures;
        CHECK(!pictures[i].refused);
        CHECK_STR(pictures[i].why, "");
        say(i, before);
    }
}

TEST_MAIN(RUN(the_fakes_parser_takes_every_packet)
          RUN(packets_are_those_that_nvidias_parser_was_asked_about)
          RUN(nvidias_parser_finds_one_picture_a_packet_at_once_and_no_references)
          RUN(parameter_sets_are_read_as_nvidias_parser_reads_them)
          RUN(the_fakes_parser_says_what_nvidias_says)
          RUN(every_picture_goes_into_an_archive))

#else

TEST(what_nvidias_parser_says)
{
    SKIP("a build without the GPU path or libavcodec [clang libffmpeg-nvenc-dev libavcodec-dev]");
}
TEST_MAIN(RUN(what_nvidias_parser_says))

#endif
