/* test_pictures.c - JPEG and stills: the pixels that Pillow has of them, and what they say of themselves; damage that
 * is noticed; nothing of one picture in the next. tests/data/pictures has what libavcodec does not encode, beside it
 * Pillow's pixels, and the program that made both. */
#include "library.h"
#include "with_formats.h"
#include "test.h"
#include "bytes.h"

enum { W = 40, H = 25, PIXELS = W * H };      /* of every picture there */

/* Headers are read in builds without a decoder, too. */
TEST(headers_say_size_and_orientation)
{
    static const struct { const char *name; uint32_t codec, orientation; } files[] = {
        { "jpeg_420_progressive.jpg", BZNA_CODEC_JPEG, 1 }, { "jpeg_exif_6.jpg", BZNA_CODEC_JPEG, 6 },
        { "png_palette_clear.png", BZNA_CODEC_STILL, 1 },
        { "webp_lossless_clear.webp", BZNA_CODEC_STILL, 1 }, { "webp_lossy_clear.webp", BZNA_CODEC_STILL, 1 },
    };
    for (size_t i = 0; i < COUNT(files); i++) {
        bzna_error err = { .struct_size = sizeof err };
        bzna_image image = { .struct_size = sizeof image };
        bzna_picture picture = { .struct_size = sizeof picture };
        bzi_format format;
        char path[256];
        uint8_t data[8192];
        FILE *file;
        snprintf(path, sizeof path, "tests/data/pictures/%s", files[i].name);
        CHECK((file = fopen(path, "rb")) != NULL);
        image.data = data;
        image.data_size = file ? fread(data, 1, sizeof data, file) : 0;
        image.codec = bzi_codec_recognize((bzi_span){ data, image.data_size });
        CHECK_EQ(image.codec, files[i].codec);
        const bzi_image alone = bzi_image_alone(&image);
        CHECK_EQ(bzi_picture_describe(&alone, W, &format, &picture, &err), BZNA_OK);
        CHECK(picture.width == W && picture.height == H && picture.orientation == files[i].orientation);
        CHECK_EQ(bzi_picture_describe(&alone, W - 1, &format, &picture, &err), BZNA_E_LIMIT);
        if (file)
            fclose(file);
    }
}

#ifdef BENZINA_NO_AVCODEC
TEST(pictures_are_decoded) { SKIP("built without libavcodec [libavcodec-dev]"); }
TEST_MAIN(RUN(headers_say_size_and_orientation) RUN(pictures_are_decoded))
#else
#include <libavutil/crc.h>
#include <libavutil/intreadwrite.h>
#include <libavutil/opt.h>

#define DATA "tests/data/pictures/"

/* ---- Files and pictures ------------------------------------------------------------------------------------------ */

static bzna_context *context;
static bzna_decoder *decoder;                 /* the one that has seen every picture of this binary */

static bytes file_read(const char *path)
{
    FILE *file = fopen(path, "rb");
    bytes b;
    long size = -1;
    if (!file || fseek(file, 0, SEEK_END) || (size = ftell(file)) < 0 || fseek(file, 0, SEEK_SET)) {
        printf("cannot read %s\n", path);
        exit(1);
    }
    b = bytes_make(NULL, (size_t)size);
    if (fread(b.data, 1, b.size, file) != b.size)
        exit(1);
    fclose(file);
    return b;
}

static bytes fixture(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, DATA "%s", name);
    return file_read(path);
}

static bzna_image image_of(uint32_t codec, bytes b)
{
    bzna_image image;
    bzna_image_init(&image, sizeof image);
    image.codec = codec;
    image.data = b.data;
    image.data_size = b.size;
    return image;
}

static bzna_decoder *decoder_new(void)
{
    bzna_decoder *d = NULL;
    if (!context && bzna_context_open(NULL, &context, NULL) != BZNA_OK)
        exit(1);
    if (bzna_decoder_open(context, &d, NULL) != BZNA_OK)
        exit(1);
    return d;
}

static bzna_error last = { .struct_size = sizeof last };      /* of look */
static bzna_picture seen = { .struct_size = sizeof seen };    /* likewise */

/* The picture as it is seen, R, G, B in 0..255, row by row, by an identity warp; NULL: last says why. */
static float *look(bzna_decoder *d, const bzna_image *image)
{
    bzna_transform t;
    bzna_output o;
    float *pixels = NULL;
    size_t size;
    bzna_error_init(&last, sizeof last);
    seen = (bzna_picture){ .struct_size = sizeof seen };
    if (bzna_decoder_decode(d, image, &seen, &last) != BZNA_OK)
        return NULL;
    bzna_transform_init(&t, sizeof t);
    o = (bzna_output){ .struct_size = sizeof o };
    o.width = seen.orientation > 4 ? seen.height : seen.width;
    o.height = seen.orientation > 4 ? seen.width : seen.height;
    o.layout = BZNA_LAYOUT_NHWC;
    size = 3 * sizeof *pixels * o.width * o.height;
    if (!(pixels = malloc(size)))
        abort();
    if (bzna_picture_render(&seen, &t, &o, pixels, size, &last) == BZNA_OK)
        return pixels;
    free(pixels);
    return NULL;
}

static float *look_at(uint32_t codec, bytes b, uint32_t orientation)
{
    bzna_image image = image_of(codec, b);
    image.orientation = orientation;
    return look(decoder, &image);
}

/* Mean absolute difference, of 255. */
static double difference(const float *pixels, const uint8_t *wanted, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += fabs((double)pixels[i] - wanted[i]);
    return sum / (double)count;
}

/* Expects the pixels that Pillow has of a file, its orientation ignored. */
static void check_fixture(const char *name, uint32_t codec, double tolerance)
{
    char expected_name[128];
    bytes b = fixture(name), expected;
    float *pixels = look_at(codec, b, 1);
    double off;
    snprintf(expected_name, sizeof expected_name, "%s.rgb", name);
    expected = fixture(expected_name);
    CHECK_EQ(expected.size, 3 * PIXELS);
    if (!pixels || seen.width != W || seen.height != H) {
        printf("  %s: %ux%u: %s\n", name, seen.width, seen.height, last.message);
        test_failures++;
    } else if (!((off = difference(pixels, expected.data, 3 * PIXELS)) <= tolerance)) {
        printf("  %s: %.4f of 255 from Pillow's, more than %.4f\n", name, off, tolerance);
        test_failures++;
    }
    free(pixels);
    free(expected.data);
    free(b.data);
}

/* Expects this failure of a decoder that has decoded others, and takes others afterwards. */
static void check_refused(uint32_t codec, bytes b, bzna_status status, const char *part)
{
    float *pixels = look_at(codec, b, 0);
    CHECK(!pixels);
    CHECK_EQ(last.status, status);
    CHECK_CONTAINS(last.message, part);
    free(pixels);
}

/* ---- JPEG -------------------------------------------------------------------------------------------------------- */

#define NEEDS_JPEG do { if (!BZI_HAS_JPEG) SKIP("built without libjpeg-turbo [libjpeg-dev]"); } while (0)

TEST(without_libjpeg_turbo_jpegs_are_refused_by_name)
{
    bytes b = fixture("jpeg_440.jpg");
    if (BZI_HAS_JPEG)
        free(look_at(BZNA_CODEC_JPEG, b, 0));
    else
        check_refused(BZNA_CODEC_JPEG, b, BZNA_E_UNSUPPORTED, "JPEG is decoded by libjpeg-turbo, which this build does "
                      "not have (BENZINA_NO_JPEG)");
    CHECK_EQ(last.status == BZNA_OK, BZI_HAS_JPEG);
    free(b.data);
}

static const struct {
    const char *name;
    double      tolerance;            /* libjpeg repeats the chroma of 4:1:1, and rounds CMYK */
    uint32_t    shift_x, shift_y, planes, matrix;
} jpegs[] = {
    { "jpeg_420_progressive.jpg", 1.0, 1, 1, 3, 5 },  { "jpeg_422_restarts.jpg", 1.0, 1, 0, 3, 5 },
    { "jpeg_440.jpg", 1.0, 0, 1, 3, 5 },              { "jpeg_411.jpg", 2.5, 2, 0, 3, 5 },
    { "jpeg_gray_progressive.jpg", 0.1, 0, 0, 1, 5 }, { "jpeg_rgb_adobe.jpg", 0.1, 0, 0, 3, 0 },
    { "jpeg_rgb_numbers.jpg", 0.1, 0, 0, 3, 0 },      { "jpeg_exif_6.jpg", 1.0, 1, 1, 3, 5 },
    { "jpeg_cmyk.jpg", 2.5, 0, 0, 3, 0 },             { "jpeg_ycck.jpg", 2.5, 0, 0, 3, 5 },
    { "jpeg_cmyk_subsampled.jpg", 2.5, 0, 0, 3, 0 },  { "jpeg_ycck_420_scans.jpg", 2.5, 0, 0, 3, 5 },
    { "jpeg_arithmetic.jpg", 1.0, 1, 1, 3, 5 },             /* the last: not every decoder has it */
};
#define JPEGS (COUNT(jpegs) - !BZI_JPEG_ARITHMETIC)

TEST(jpegs_of_every_kind_have_pillows_pixels)
{
    NEEDS_JPEG;
    for (size_t i = 0; i < JPEGS; i++)
        check_fixture(jpegs[i].name, BZNA_CODEC_JPEG, jpegs[i].tolerance);
}

TEST(jpegs_come_as_their_own_planes)
{
    NEEDS_JPEG;
    for (size_t i = 0; i < JPEGS; i++) {
        bytes b = fixture(jpegs[i].name);
        free(look_at(BZNA_CODEC_JPEG, b, 0));
        CHECK_EQ(last.status, BZNA_OK);
        CHECK(seen.chroma_shift_x == jpegs[i].shift_x && seen.chroma_shift_y == jpegs[i].shift_y);
        CHECK(!seen.chroma_left && !seen.chroma_top && seen.depth == 8);
        CHECK(seen.color.present && seen.color.full_range);
        CHECK_EQ(seen.color.matrix, jpegs[i].matrix);
        CHECK_EQ(seen.plane[1] != NULL, jpegs[i].planes == 3);
        CHECK_EQ(seen.orientation, !strcmp(jpegs[i].name, "jpeg_exif_6.jpg") ? 6 : 1);
        free(b.data);
    }
}

TEST(a_forced_matrix_or_a_containers_color_does_not_change_rgb)
{
    NEEDS_JPEG;
    bytes b = fixture("jpeg_rgb_adobe.jpg");
    bzna_image image = image_of(BZNA_CODEC_JPEG, b);
    float *plain = look_at(BZNA_CODEC_JPEG, b, 0), forced[3 * PIXELS];
    bzna_transform t;
    bzna_output o;
    REQUIRE(plain);
    image.color.present = 1;
    image.color.matrix = 1;
    bzna_transform_init(&t, sizeof t);
    t.matrix = BZNA_MATRIX_BT2020;
    o = (bzna_output){ .struct_size = sizeof o };
    o.width = W;
    o.height = H;
    o.layout = BZNA_LAYOUT_NHWC;
    CHECK_EQ(bzna_decoder_decode(decoder, &image, &seen, &last), BZNA_OK);
    CHECK_EQ(bzna_picture_render(&seen, &t, &o, forced, sizeof forced, &last), BZNA_OK);
    CHECK(!memcmp(plain, forced, sizeof forced));
    free(plain);
    free(b.data);
}

TEST(jfifs_marker_means_y_cb_cr_whatever_the_components_numbers_are)
{
    NEEDS_JPEG;
    static const char jfif[] = "\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0";
    bytes rgb = fixture("jpeg_rgb_numbers.jpg"), b = spliced(rgb, 2, jfif, sizeof jfif - 1, 2);
    uint8_t kept[3][PIXELS];
    free(look_at(BZNA_CODEC_JPEG, rgb, 0));
    for (int p = 0; p < 3 && last.status == BZNA_OK; p++)   /* G, B, R */
        for (int y = 0; y < H; y++)
            memcpy(kept[p] + y * W, (const uint8_t *)seen.plane[p] + y * seen.pitch[p], W);
    free(look_at(BZNA_CODEC_JPEG, b, 0));
    CHECK(last.status == BZNA_OK && seen.color.matrix == 5 && !seen.chroma_shift_x && !seen.chroma_shift_y);
    for (int p = 0; p < 3 && last.status == BZNA_OK; p++)
        for (int y = 0; y < H; y++)
            CHECK(!memcmp(kept[(p + 2) % 3] + y * W, (const uint8_t *)seen.plane[p] + y * seen.pitch[p], W));
    free(b.data);
    free(rgb.data);
}

/* test_jpeg.c has warps of such rows. */
TEST(rows_above_are_those_of_the_whole_picture)
{
    NEEDS_JPEG;
    for (size_t i = 0; i < JPEGS; i++) {
        bytes b = fixture(jpegs[i].name);
        const bzna_image coded = image_of(BZNA_CODEC_JPEG, b);
        const bzi_image image = bzi_image_alone(&coded);
        static uint8_t whole[3][PIXELS];
        for (uint32_t rows = H; rows; rows--) {
            const bzi_wanted wanted = { .rows = { 0, (int32_t)rows }, .shrink = 1 };
            bzi_format format;
            bzna_picture picture;
            REQUIRE(bzi_picture_describe(&image, W, &format, &picture, &last) == BZNA_OK);
            CHECK_EQ(bzi_software_decode(&decoder->software, &coded, &format, wanted, &picture, &last), BZNA_OK);
            for (int p = 0; p < 3 && picture.plane[p]; p++) {
                const uint32_t sx = p ? picture.chroma_shift_x : 0, sy = p ? picture.chroma_shift_y : 0;
                for (uint32_t y = 0; y < (rows + sy) >> sy; y++) {
                    const uint8_t *row = (const uint8_t *)picture.plane[p] + y * picture.pitch[p];
                    if (rows == H)
                        memcpy(whole[p] + y * W, row, W >> sx);
                    CHECK(!memcmp(whole[p] + y * W, row, W >> sx));
                }
            }
        }
        free(b.data);
    }
}

TEST(a_component_without_data_is_damage)
{
    NEEDS_JPEG;
    bytes whole = fixture("jpeg_440.jpg");
    size_t scan = find(whole, 0, "\xff\xda", 2);
    bytes b = spliced(whole, scan, NULL, 0, whole.size - 2);
    check_refused(BZNA_CODEC_JPEG, b, BZNA_E_DECODE, "there is no picture");
    free(b.data);
    b = spliced(whole, scan, "\xff\xda\0\7\1\1\0\0\77\0", 10, scan + 14);   /* of the first component alone */
    check_refused(BZNA_CODEC_JPEG, b, BZNA_E_DECODE, "");
    free(b.data);
    free(whole.data);
}

/* Unless nothing is missing but the end marker, and bits that fill the last byte. */
TEST(a_jpeg_that_ends_anywhere_is_damaged)
{
    NEEDS_JPEG;
    static const char *const names[] = { "jpeg_420_progressive.jpg", "jpeg_422_restarts.jpg", "jpeg_rgb_adobe.jpg" };
    for (size_t i = 0; i < COUNT(names); i++) {
        bytes whole = fixture(names[i]);
        float *wanted = look_at(BZNA_CODEC_JPEG, whole, 0);
        size_t lenient = 0;
        for (size_t size = 4; size < whole.size; size++) {
            bytes b = bytes_make(whole.data, size);
            float *got = look_at(BZNA_CODEC_JPEG, b, 0);
            lenient += got != NULL;
            CHECK_EQ(last.status, got ? BZNA_OK : BZNA_E_DECODE);
            CHECK(!got || size + 3 >= whole.size);
            CHECK(!got || size + 2 < whole.size || !memcmp(wanted, got, 3 * PIXELS * sizeof *got));
            CHECK(got || size + 2 < whole.size);
            CHECK(got || strstr(last.message, "truncated"));
            CHECK(got || last.byte_offset <= size);
            free(got);
            free(b.data);
        }
        CHECK(lenient >= 2 && lenient <= 3);
        free(wanted);
        free(whole.data);
    }
}

TEST(coded_data_that_end_before_the_end_marker_are_damage)
{
    NEEDS_JPEG;
    static const char *const names[] = { "jpeg_420_progressive.jpg", "jpeg_440.jpg", "jpeg_rgb_numbers.jpg" };
    for (size_t i = 0; i < COUNT(names); i++) {
        bytes whole = fixture(names[i]), b = spliced(whole, whole.size - 40, NULL, 0, whole.size - 2);
        check_refused(BZNA_CODEC_JPEG, b, BZNA_E_DECODE, "");
        free(b.data);
        free(whole.data);
    }
}

TEST(restart_markers_that_are_missing_or_out_of_order_are_damage)
{
    NEEDS_JPEG;
    bytes whole = fixture("jpeg_422_restarts.jpg");
    size_t third = find(whole, 0, "\xff\xd2", 2), end = whole.size - 2;
    bytes lost = spliced(whole, third, NULL, 0, third + 2), more = spliced(whole, end, "\xff\xd0\xff\xd1", 4, end);
    check_refused(BZNA_CODEC_JPEG, lost, BZNA_E_DECODE, "damaged near row");
    CHECK_EQ(last.byte_offset > third, 1);
    free(look_at(BZNA_CODEC_JPEG, more, 0));                /* behind the picture */
    CHECK_EQ(last.status, BZNA_OK);
    free(more.data);
    free(lost.data);
    free(whole.data);
}

/* Without the segment of the first marker that is this one. */
static bytes without(bytes b, uint8_t marker)
{
    uint8_t code[2] = { 0xff, marker };
    size_t at = find(b, 2, code, 2);
    return spliced(b, at, NULL, 0, at + 2 + bzi_be16(b.data + at + 2));
}

TEST(tables_of_a_picture_before_are_not_used)
{
    NEEDS_JPEG;
    bytes whole = fixture("jpeg_rgb_adobe.jpg");
    static const uint8_t markers[] = { 0xdb, 0xc4 };
    for (size_t i = 0; i < COUNT(markers); i++) {
        bytes b = without(whole, markers[i]);
        free(look_at(BZNA_CODEC_JPEG, whole, 0));
        CHECK_EQ(last.status, BZNA_OK);
        check_refused(BZNA_CODEC_JPEG, b, BZNA_E_DECODE, "was not defined");
        CHECK(last.byte_offset > find(b, 0, "\xff\xda", 2) && last.byte_offset < b.size);
        free(b.data);
    }
    free(whole.data);
}

TEST(jpegs_that_are_not_decoded_are_refused_by_name)
{
    NEEDS_JPEG;
    static const struct { uint8_t marker; const char *name; } codings[] = {
        { 0xc3, "lossless" }, { 0xc5, "hierarchical" }, { 0xc7, "lossless" }, { 0xc9, "arithmetic" },
        { 0xca, "arithmetic" }, { 0xcb, "lossless" }, { 0xcd, "hierarchical" }, { 0xf7, "JPEG-LS" } };
    bytes b = fixture("jpeg_440.jpg");
    size_t frame = find(b, 0, "\xff\xc0", 2);
    for (size_t i = 0; i < COUNT(codings); i++) {
        if (BZI_JPEG_ARITHMETIC && !strcmp(codings[i].name, "arithmetic"))
            continue;
        b.data[frame + 1] = codings[i].marker;
        check_refused(BZNA_CODEC_JPEG, b, BZNA_E_CODEC, codings[i].name);
    }
    b.data[frame + 1] = 0xc0;
    b.data[frame + 4] = 12;
    check_refused(BZNA_CODEC_JPEG, b, BZNA_E_CODEC, "12 bits");
    b.data[frame + 4] = 8;
    b.data[frame + 6] = 0;                                  /* the height's low byte */
    check_refused(BZNA_CODEC_JPEG, b, BZNA_E_CODEC, "DNL");
    b.data[frame + 6] = H;
    b.data[frame + 11] = 0x31;
    check_refused(BZNA_CODEC_JPEG, b, BZNA_E_CODEC, "3x1, 1x1, 1x1");
    b.data[frame + 11] = 0x12;
    free(look_at(BZNA_CODEC_JPEG, b, 0));
    CHECK_EQ(last.status, BZNA_OK);
    free(b.data);
}

/* As by Pillow and browsers: four components are CMYK then, inverted as Adobe's are. */
TEST(a_cmyk_jpeg_without_adobes_marker_has_the_pixels_of_one_with_it)
{
    NEEDS_JPEG;
    bytes whole = fixture("jpeg_cmyk.jpg"), bare;
    const size_t at = find(whole, 0, "\xff\xee", 2);
    float *wanted = look_at(BZNA_CODEC_JPEG, whole, 0), *pixels;
    const size_t size = 3 * sizeof *wanted * seen.width * seen.height;
    bare = spliced(whole, at, NULL, 0, at + 2 + (size_t)whole.data[at + 2] * 256 + whole.data[at + 3]);
    pixels = look_at(BZNA_CODEC_JPEG, bare, 0);
    CHECK(wanted && pixels && !memcmp(pixels, wanted, size));
    free(pixels);
    free(wanted);
    free(bare.data);
    free(whole.data);
    bare = fixture("jpeg_ycck.jpg");
    bare.data[find(bare, 0, "Adobe", 5) + 11] = 1;          /* libjpeg takes other transforms for YCCK */
    free(look_at(BZNA_CODEC_JPEG, bare, 0));
    CHECK_EQ(last.status, BZNA_OK);
    free(bare.data);
}

/* Of a JPEG that is made of segments by hand: one of them is replaced, or put before another. A decoder sees it only if
 * its header is sound, and another status is expected. */
TEST(jpeg_headers_that_are_damaged_are_refused_where_they_are)
{
    NEEDS_JPEG;
    enum { DQT, SOF, DC, AC, SCAN, SEGMENTS };
    static const struct { uint8_t marker, size; uint8_t bytes[14]; uint32_t zeros; } sound[SEGMENTS] = {
        { 0xdb, 1, { 0 }, 64 },
        { 0xc0, 15, { 8, 0, 16, 0, 16, 3, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11 }, 0 },
        { 0xc4, 2, { 0, 1 }, 16 },
        { 0xc4, 2, { 0x10, 1 }, 16 },
        { 0xda, 10, { 3, 1, 0, 2, 0, 3, 0, 0, 63, 0 }, 0 },
    };
#define DAMAGED "is damaged"
    static const struct {
        int         where, replaces;  /* a segment, which is replaced, or stands behind */
        uint8_t     marker;
        uint32_t    size;             /* of the bytes; then zeros come */
        uint8_t     bytes[24];
        uint32_t    zeros;
        bzna_status status;
        const char *says;
    } cases[] = {
        { DQT, 0, 0xdb, 1, { 0 }, 64, BZNA_OK, "" },
        { DQT, 0, 0xdb, 1, { 0x13 }, 128, BZNA_OK, "" },
        { DQT, 0, 0xdb, 1, { 0x04 }, 64, BZNA_E_DECODE, "Bogus DQT index 4" },
        { DQT, 0, 0xdb, 1, { 0x20 }, 128, BZNA_OK, "" },
        { DQT, 0, 0xdb, 1, { 0x10 }, 127, BZNA_E_DECODE, "Bogus marker length" },
        { DQT, 0, 0xdb, 1, { 0x00 }, 63, BZNA_E_DECODE, "Bogus marker length" },
        { DQT, 1, 0xdb, 1, { 0x01 }, 64, BZNA_E_DECODE, "Quantization table 0x00 was not defined" },
        { DQT, 1, 0xdb, 1, { 0x10 }, 128, BZNA_OK, "" },

        { DC, 0, 0xc4, 2, { 0x03, 1 }, 16, BZNA_OK, "" },
        { DC, 0, 0xc4, 2, { 0x13, 255 }, 270, BZNA_OK, "" },
        { DC, 0, 0xc4, 3, { 0x13, 255, 1 }, 270, BZNA_OK, "" },
        { DC, 0, 0xc4, 3, { 0x13, 255, 2 }, 271, BZNA_E_DECODE, "a Huffman table is damaged" },
        { DC, 0, 0xc4, 2, { 0x04, 1 }, 16, BZNA_E_DECODE, "Bogus DHT index 4" },
        { DC, 0, 0xc4, 2, { 0x20, 1 }, 16, BZNA_E_DECODE, "Bogus DHT index 32" },
        { DC, 0, 0xc4, 2, { 0x00, 1 }, 15, BZNA_E_DECODE, "a Huffman table is damaged" },
        { DC, 1, 0xc4, 2, { 0x01, 1 }, 16, BZNA_E_DECODE, "Huffman table is damaged, or was not defined" },
        { AC, 1, 0xc4, 2, { 0x11, 1 }, 16, BZNA_E_DECODE, "Huffman table is damaged, or was not defined" },

        { SOF, 1, 0xc0, 15, { 8, 0, 16, 0, 16, 3, 1, 0x11, 0, 2, 0x11, 0, 1, 0x11, 0 }, 0, BZNA_E_DECODE,
          "Invalid component ID 3 in SOS" },
        { SOF, 1, 0xc0, 15, { 8, 0, 16, 0, 16, 3, 1, 0x11, 0, 1, 0x11, 0, 3, 0x11, 0 }, 0, BZNA_E_DECODE,
          "Invalid component ID 2 in SOS" },
        { SOF, 1, 0xc0, 15, { 8, 0, 16, 0, 16, 3, 1, 0x11, 0, 2, 0x11, 4, 3, 0x11, 0 }, 0, BZNA_E_DECODE,
          "Quantization table 0x04 was not defined" },
        { SOF, 1, 0xc0, 15, { 8, 0, 16, 0, 16, 3, 1, 0x11, 0, 2, 0x11, 3, 3, 0x11, 0 }, 0, BZNA_E_DECODE,
          "Quantization table 0x03 was not defined" },
        { SOF, 1, 0xc0, 15, { 8, 0, 16, 0, 16, 3, 1, 0x11, 0, 2, 0x01, 0, 3, 0x11, 0 }, 0, BZNA_E_DECODE,
          "frame header " DAMAGED },
        { SOF, 1, 0xc0, 15, { 8, 0, 16, 0, 16, 3, 1, 0x11, 0, 2, 0x10, 0, 3, 0x11, 0 }, 0, BZNA_E_DECODE,
          "frame header " DAMAGED },
        { SOF, 1, 0xc0, 15, { 8, 0, 16, 0, 16, 3, 1, 0x51, 0, 2, 0x11, 0, 3, 0x11, 0 }, 0, BZNA_E_DECODE,
          "frame header " DAMAGED },
        { SOF, 1, 0xc0, 15, { 8, 0, 16, 0, 16, 3, 1, 0x15, 0, 2, 0x11, 0, 3, 0x11, 0 }, 0, BZNA_E_DECODE,
          "frame header " DAMAGED },
        { SOF, 1, 0xc0, 15, { 8, 0, 16, 0, 16, 3, 1, 0x44, 0, 2, 0x44, 0, 3, 0x44, 0 }, 0, BZNA_OK, "" },
        { SOF, 1, 0xc0, 15, { 8, 0, 16, 0, 16, 3, 1, 0x22, 0, 2, 0x11, 0, 3, 0x11, 0 }, 0, BZNA_OK, "" },
        { SOF, 1, 0xc0, 15, { 8, 0, 16, 0, 16, 3, 1, 0x22, 0, 2, 0x11, 0, 3, 0x12, 0 }, 0, BZNA_E_CODEC,
          "2x2, 1x1, 1x2 are not supported" },
        { SOF, 1, 0xc0, 15, { 8, 0, 16, 0, 16, 3, 1, 0x22, 0, 2, 0x11, 0, 3, 0x21, 0 }, 0, BZNA_E_CODEC,
          "2x2, 1x1, 2x1 are not supported" },
        { SOF, 1, 0xc0, 15, { 8, 0, 16, 0, 0, 3, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0 }, 0, BZNA_E_DECODE,
          "frame header " DAMAGED },
        { SOF, 1, 0xc0, 15, { 8, 0, 0, 0, 16, 3, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0 }, 0, BZNA_E_CODEC, "(DNL)" },
        { SOF, 1, 0xc0, 15, { 12, 0, 16, 0, 16, 3, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0 }, 0, BZNA_E_CODEC, "12 bits" },
        { SOF, 1, 0xc0, 6, { 8, 0, 16, 0, 16, 0 }, 0, BZNA_E_DECODE, "frame header " DAMAGED },
        { SOF, 1, 0xc0, 12, { 8, 0, 16, 0, 16, 2, 1, 0x11, 0, 2, 0x11, 0 }, 0, BZNA_E_CODEC, "2 components" },
        { SOF, 1, 0xc0, 21, { 8, 0, 16, 0, 16, 5, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0, 4, 0x11, 0, 5, 0x11, 0 }, 0,
          BZNA_E_CODEC, "5 components" },
        { SOF, 1, 0xc0, 14, { 8, 0, 16, 0, 16, 3, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11 }, 0, BZNA_E_DECODE,
          "frame header " DAMAGED },
        { SOF, 1, 0xc0, 16, { 8, 0, 16, 0, 16, 3, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0, 0 }, 0, BZNA_E_DECODE,
          "frame header " DAMAGED },
        { SOF, 1, 0xc0, 4, { 8, 0, 16, 0 }, 0, BZNA_E_DECODE, "frame header " DAMAGED },
        { SOF, 0, 0xc0, 9, { 8, 0, 16, 0, 16, 1, 1, 0x11, 0 }, 0, BZNA_E_DECODE, "a second frame header" },

        { SCAN, 1, 0xda, 10, { 3, 1, 0, 2, 0, 3, 0, 0, 63, 0 }, 0, BZNA_OK, "" },
        { SCAN, 1, 0xda, 10, { 3, 3, 0, 2, 0, 1, 0, 0, 63, 0 }, 0, BZNA_OK, "" },
        { SCAN, 1, 0xda, 4, { 0, 0, 63, 0 }, 0, BZNA_E_DECODE, "Bogus marker length" },
        { SCAN, 1, 0xda, 12, { 4, 1, 0, 2, 0, 3, 0, 4, 0, 0, 63, 0 }, 0, BZNA_E_DECODE,
          "Invalid component ID 4 in SOS" },
        { SCAN, 1, 0xda, 10, { 3, 1, 0, 2, 0, 4, 0, 0, 63, 0 }, 0, BZNA_E_DECODE, "Invalid component ID 4 in SOS" },
        { SCAN, 1, 0xda, 10, { 3, 1, 0, 2, 0, 2, 0, 0, 63, 0 }, 0, BZNA_E_DECODE, "Invalid component ID 2 in SOS" },
        { SCAN, 1, 0xda, 10, { 3, 1, 0, 2, 0, 1, 0, 0, 63, 0 }, 0, BZNA_E_DECODE, "Invalid component ID 1 in SOS" },
        { SCAN, 1, 0xda, 10, { 3, 1, 0x40, 2, 0, 3, 0, 0, 63, 0 }, 0, BZNA_E_DECODE,
          "Huffman table 0x04 was not defined" },
        { SCAN, 1, 0xda, 10, { 3, 1, 0, 2, 0x04, 3, 0, 0, 63, 0 }, 0, BZNA_E_DECODE,
          "Huffman table 0x04 was not defined" },
        { SCAN, 1, 0xda, 10, { 3, 1, 0x30, 2, 0, 3, 0, 0, 63, 0 }, 0, BZNA_E_DECODE,
          "Huffman table 0x03 was not defined" },
        { SCAN, 1, 0xda, 10, { 3, 1, 0x03, 2, 0, 3, 0, 0, 63, 0 }, 0, BZNA_E_DECODE,
          "Huffman table 0x03 was not defined" },
        { SCAN, 1, 0xda, 9, { 3, 1, 0, 2, 0, 3, 0, 0, 63 }, 0, BZNA_E_DECODE, "Bogus marker length" },
        { SCAN, 1, 0xda, 11, { 3, 1, 0, 2, 0, 3, 0, 0, 63, 0, 0 }, 0, BZNA_E_DECODE, "Bogus marker length" },
        { DQT, 0, 0xda, 10, { 3, 1, 0, 2, 0, 3, 0, 0, 63, 0 }, 0, BZNA_E_DECODE, "a scan before the frame header" },

        { AC, 0, 0xdd, 2, { 0, 1 }, 0, BZNA_OK, "" },
        { AC, 0, 0xdd, 1, { 1 }, 0, BZNA_E_DECODE, "Bogus marker length" },
        { AC, 0, 0xcc, 2, { 0, 0 }, 0, BZNA_OK, "" },         /* DAC: of arithmetic coding */
        { AC, 0, 0xc8, 2, { 0, 0 }, 0, BZNA_OK, "" },         /* JPG: reserved */
        { AC, 0, 0xdc, 2, { 0, 16 }, 0, BZNA_OK, "" },        /* DNL: it says nothing new */
        { AC, 0, 0xd8, 0, { 0 }, 0, BZNA_E_DECODE, "two SOI markers" },
        { AC, 0, 0xbf, 0, { 0 }, 0, BZNA_E_DECODE, "Unsupported marker type 0xbf" },
        { AC, 0, 0xde, 2, { 0, 0 }, 0, BZNA_E_CODEC, "hierarchical" },
        { AC, 0, 0xdf, 2, { 0, 0 }, 0, BZNA_E_CODEC, "hierarchical" },
        { AC, 0, 0xf7, 2, { 0, 0 }, 0, BZNA_E_CODEC, "JPEG-LS" },
    };
    for (size_t n = 0; n < COUNT(cases); n++) {
        bytes b = bytes_make(NULL, 2048), exact;
        bzi_format format;
        size_t at = 2, damaged = 0;
        bzna_error_init(&last, sizeof last);
        memset(b.data, 0, b.size);
        memcpy(b.data, "\xff\xd8", 2);
        for (int s = 0; s < SEGMENTS; s++)
            for (int own = 0; own < 2; own++) {
                const uint32_t size = own ? cases[n].size : sound[s].size;
                const uint32_t whole = size + (own ? cases[n].zeros : sound[s].zeros) + 2;
                if (own ? cases[n].where != s : cases[n].where == s && cases[n].replaces)
                    continue;
                damaged = own ? at : damaged;
                b.data[at++] = 0xff;
                b.data[at++] = own ? cases[n].marker : sound[s].marker;
                if (own && !size)
                    continue;                               /* a marker alone */
                b.data[at] = (uint8_t)(whole >> 8);
                b.data[at + 1] = (uint8_t)whole;
                if (b.data[at - 1] == 0xdb)
                    memset(b.data + at + 2, 1, whole - 2);  /* no number of a quantization table is 0 */
                memcpy(b.data + at + 2, own ? cases[n].bytes : sound[s].bytes, size < 14 || own ? size : 14);
                at += whole;
            }
        memcpy(b.data + at, "\0\xff\xd9", 3);
        exact = bytes_make(b.data, at + 3);
        const int is_sound = bzi_jpeg_inspect(&(bzna_image){ .data = exact.data, .data_size = exact.size }, &format,
                                                 &last) == BZNA_OK;
        CHECK(!is_sound || (format.width == 16 && format.height == 16));
        if (is_sound && cases[n].status && BZI_HAS_JPEG)
            free(look_at(BZNA_CODEC_JPEG, exact, 0));
        CHECK_EQ(last.status, !is_sound || BZI_HAS_JPEG ? cases[n].status : BZNA_OK);
        CHECK_CONTAINS(last.message, cases[n].says);
        CHECK(cases[n].status != BZNA_E_DECODE || is_sound ||
              (last.byte_offset >= damaged && last.byte_offset <= damaged + 4 + cases[n].size + cases[n].zeros));
        if (last.status != cases[n].status || !strstr(last.message, cases[n].says))
            printf("  in case %d: %s\n", (int)n, last.message);
        free(exact.data);
        free(b.data);
    }
}

TEST(a_jpeg_has_500_scans_at_most)
{
    NEEDS_JPEG;
    bytes whole = fixture("jpeg_ycck_420_scans.jpg"), b;
    size_t at = 0, next, scan, scans = 0;
    while ((next = find(whole, at + 1, "\xff\xda", 2)) < whole.size)
        at = next, scans++;
    scan = whole.size - 2 - at;
    b = bytes_make(NULL, whole.size + 500 * scan);
    memcpy(b.data, whole.data, at);
    for (size_t i = 0; i <= 500; i++)
        memcpy(b.data + at + i * scan, whole.data + at, scan);
    memcpy(b.data + b.size - 2, "\xff\xd9", 2);
    check_refused(BZNA_CODEC_JPEG, b, BZNA_E_LIMIT, "more than 500 scans");
    b.size = at + (BZI_LIMIT_JPEG_SCANS + 2 - scans) * scan + 2;             /* one more than may be */
    memcpy(b.data + b.size - 2, "\xff\xd9", 2);
    check_refused(BZNA_CODEC_JPEG, b, BZNA_E_LIMIT, "more than 500 scans");
    b.size -= scan;                                         /* as many as may be */
    memcpy(b.data + b.size - 2, "\xff\xd9", 2);
    free(look_at(BZNA_CODEC_JPEG, b, 0));
    CHECK_EQ(last.status, BZNA_OK);
    free(b.data);
    free(whole.data);
}

TEST(absurd_sizes_are_refused_before_decoding)
{
    bytes b = fixture("jpeg_gray_progressive.jpg");
    size_t frame = find(b, 0, "\xff\xc2", 2);
    memcpy(b.data + frame + 5, "\x40\0\x40\0", 4);          /* 16384x16384 */
    check_refused(BZNA_CODEC_JPEG, b, BZNA_E_LIMIT, "coefficients of 16384x16384");
    memcpy(b.data + frame + 5, "\x0f\xff\x40\1", 4);
    check_refused(BZNA_CODEC_JPEG, b, BZNA_E_LIMIT, "max_edge_px");
    memcpy(b.data + frame + 5, "\0\x19\0\0", 4);
    check_refused(BZNA_CODEC_JPEG, b, BZNA_E_DECODE, "frame header");
    free(b.data);
}

TEST(what_is_not_the_picture_does_no_harm)
{
    NEEDS_JPEG;
    static const char notes[] = "\xff\xfe\0\x0c" "CS=ITU601\0" "\xff\xe0\0\x10" "AVI1\1\0\0\0\0\0\0\0\0\0"
                                "xyz\0\xff\xff\xff";
    bytes whole = fixture("jpeg_440.jpg"), noted = spliced(whole, 2, notes, sizeof notes - 1, 3);
    bytes more = spliced(noted, noted.size, "\xff\xd8\xff\xe0 and more", 13, noted.size);
    float *wanted = look_at(BZNA_CODEC_JPEG, whole, 0), *got = look_at(BZNA_CODEC_JPEG, more, 0), *again;
    REQUIRE(wanted && got);
    CHECK(!memcmp(wanted, got, 3 * PIXELS * sizeof *got));
    again = look_at(BZNA_CODEC_JPEG, whole, 0);
    REQUIRE(again);
    CHECK(!memcmp(wanted, again, 3 * PIXELS * sizeof *got));
    free(again);
    free(got);
    free(wanted);
    free(more.data);
    free(noted.data);
    free(whole.data);
}

TEST(an_exif_segment_of_any_bytes_does_no_harm)
{
    NEEDS_JPEG;
    bytes whole = fixture("jpeg_exif_6.jpg");
    float *wanted = look_at(BZNA_CODEC_JPEG, whole, 1);
    size_t at = find(whole, 0, "\xff\xe1", 2) + 4, size = bzi_be16(whole.data + at - 2) - 2;
    bzna_random random;
    bzna_random_init(&random, 1, 0, 0, 0);
    REQUIRE(wanted);
    for (uint32_t i = 0; i < 2000; i++) {
        bytes b = bytes_make(whole.data, whole.size);
        float *got;
        for (uint32_t n = 1 + bzna_random_u32(&random) % 3; n; n--)
            b.data[at + 6 + bzna_random_u32(&random) % (size - 6)] = (uint8_t)(bzna_random_u32(&random) % 4 * 0x55);
        got = look_at(BZNA_CODEC_JPEG, b, i % 2);
        CHECK(got && seen.orientation >= 1 && seen.orientation <= 8);
        CHECK(!got || !(i % 2) || !memcmp(wanted, got, 3 * PIXELS * sizeof *got));
        free(got);
        free(b.data);
    }
    free(wanted);
    free(whole.data);
}

TEST(sizes_are_the_streams_or_agree_with_it)
{
    NEEDS_JPEG;
    bytes b = fixture("jpeg_440.jpg");
    bzna_image image = image_of(BZNA_CODEC_JPEG, b);
    static const struct { uint32_t width, height, frame_width, frame_height, x, y; bzna_status status; } cases[] = {
        { 0, 0, 0, 0, 0, 0, BZNA_OK },           { W, H, W, H, 0, 0, BZNA_OK },
        { 0, 0, W, H, 0, 0, BZNA_OK },           { 0, 0, 0, 0, 3, 4, BZNA_OK },
        { W, H, W + 1, H, 0, 0, BZNA_E_MISMATCH }, { W, H, W, H - 1, 0, 0, BZNA_E_MISMATCH },
        { W + 1, H, 0, 0, 0, 0, BZNA_E_MISMATCH }, { W, 0, 0, 0, 1, 0, BZNA_E_MISMATCH },
        { 0, 0, 0, 0, W, 0, BZNA_E_MISMATCH },     { 10, 10, 0, 0, 30, 15, BZNA_OK },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        image.width = cases[i].width;
        image.height = cases[i].height;
        image.frame_width = cases[i].frame_width;
        image.frame_height = cases[i].frame_height;
        image.crop_x = cases[i].x;
        image.crop_y = cases[i].y;
        CHECK_EQ(bzna_decoder_decode(decoder, &image, &seen, &last), cases[i].status);
        CHECK(cases[i].status || (seen.frame_width == W && seen.frame_height == H && seen.crop_x == cases[i].x &&
                                  seen.width + (cases[i].width ? W - cases[i].width : cases[i].x) == W));
    }
    free(b.data);
}

TEST(the_bytes_of_a_jpeg_are_a_stream_as_they_are)
{
    bytes b = fixture("jpeg_exif_6.jpg"), copy = bytes_make(NULL, b.size);
    bzna_image image = image_of(BZNA_CODEC_JPEG, b);
    size_t needed = 0;
    CHECK_EQ(bzna_image_annexb(&image, NULL, 0, &needed, NULL), BZNA_E_BUFFER);
    CHECK_EQ(needed, b.size);
    CHECK_EQ(bzna_image_annexb(&image, copy.data, copy.size, &needed, NULL), BZNA_OK);
    CHECK(!memcmp(copy.data, b.data, b.size));
    free(copy.data);
    free(b.data);
}

TEST(what_bzna_image_says_wrongly_is_named)
{
    bytes b = fixture("jpeg_440.jpg");
    bzna_image image = image_of(BZNA_CODEC_JPEG, b), wrong = image;
    wrong.orientation = 9;
    CHECK(!look(decoder, &wrong));
    CHECK_EQ(last.status, BZNA_E_ARGUMENT);
    CHECK_CONTAINS(last.message, "image.orientation: 9");
    wrong = image;
    wrong.palette = 2;
    CHECK(!look(decoder, &wrong));
    CHECK_CONTAINS(last.message, "image.palette: 2");
    wrong = image;
    wrong.reserved1 = 1;
    CHECK(!look(decoder, &wrong));
    CHECK_EQ(last.status, BZNA_E_STRUCT_SIZE);
    free(b.data);
}

/* ---- Stills ------------------------------------------------------------------------------------------------------ */

static const struct { const char *name; double tolerance; } stills[] = {
    { "png_palette_2.png", 0 },      { "png_palette_clear.png", 0 }, { "webp_lossless_clear.webp", 0 },
    { "webp_lossy.webp", 1.0 },      { "webp_lossy_clear.webp", 1.0 }, { "gif_87.gif", 0 },
    { "gif_animated_clear.gif", 0 },       { "bmp_palette_8.bmp", 0 },     { "bmp_1.bmp", 0 },
    { "tiff_lzw.tif", 0 },           { "tiff_palette.tif", 0 },      { "tiff_cmyk.tif", 0 },
    { "tiff_fax.tif", 0 },           { "tiff_jpeg.tif", 0 },         { "tiff_old_lzw.tif", 0 },
    { "jpeg2000.jp2", 0 },           { "jpeg2000_gray.j2k", 0 },
};

static int has_decoder(const char *name)
{
    enum AVCodecID id = strstr(name, "webp") ? AV_CODEC_ID_WEBP : strstr(name, "jpeg2000") ? AV_CODEC_ID_JPEG2000 :
                        strstr(name, "gif") ? AV_CODEC_ID_GIF : strstr(name, "tiff") ? AV_CODEC_ID_TIFF :
                        AV_CODEC_ID_PNG;
    return avcodec_find_decoder(id) != NULL;
}

TEST(stills_of_every_kind_have_pillows_pixels)
{
    for (size_t i = 0; i < COUNT(stills); i++)
        if (has_decoder(stills[i].name))
            check_fixture(stills[i].name, BZNA_CODEC_STILL, stills[i].tolerance);
        else
            printf("%s: this libavcodec has no decoder\n", stills[i].name);
}

/* A frame of random samples: every value of every component, whatever its bits. */
static AVFrame *frame_random(enum AVPixelFormat format, uint32_t seed)
{
    AVFrame *frame = av_frame_alloc();
    bzna_random random;
    bzna_random_init(&random, seed, 0, 0, 0);
    frame->format = format;
    frame->width = W;
    frame->height = H;
    if (av_frame_get_buffer(frame, 0) < 0)
        abort();
    for (int i = 0; i < AV_NUM_DATA_POINTERS && frame->buf[i]; i++)
        for (size_t k = 0; k < frame->buf[i]->size; k++)
            frame->buf[i]->data[k] = (uint8_t)bzna_random_u32(&random);
    return frame;
}

/* The file that an encoder of libavcodec's makes of a frame; no bytes: there is no such encoder here. */
static bytes encoded(const char *encoder, const AVFrame *frame)
{
    const AVCodec *codec = avcodec_find_encoder_by_name(encoder);
    AVCodecContext *c = codec ? avcodec_alloc_context3(codec) : NULL;
    AVPacket *packet = av_packet_alloc();
    bytes b = { NULL, 0 };
    if (c) {
        c->width = frame->width;
        c->height = frame->height;
        c->pix_fmt = frame->format;
        c->time_base = (AVRational){ 1, 25 };
        c->log_level_offset = 64;
        if (!strncmp(encoder, "libx26", 6))
            av_opt_set(c->priv_data, strcmp(encoder, "libx265") ? "qp" : "x265-params",
                       strcmp(encoder, "libx265") ? "0" : "lossless=1:log-level=none", 0);
        if (!strcmp(encoder, "jpeg2000"))
            av_opt_set(c->priv_data, "pred", "dwt53", 0);
        if (avcodec_open2(c, codec, NULL) >= 0 && avcodec_send_frame(c, frame) >= 0 &&
            avcodec_send_frame(c, NULL) >= 0 && avcodec_receive_packet(c, packet) >= 0)
            b = bytes_make(packet->data, (size_t)packet->size);
        avcodec_free_context(&c);
    }
    av_packet_free(&packet);
    return b;
}

/* Component c of a pixel as the frame has it, stretched to 0..255 (below 8 bits, as Pillow does), unrounded above 8. */
static double component_of(const AVFrame *frame, int x, int y, int c)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(frame->format);
    uint16_t value;
    double top;
    if (d->flags & AV_PIX_FMT_FLAG_PAL) {
        uint32_t entry;
        memcpy(&entry, frame->data[1] + 4 * frame->data[0][y * frame->linesize[0] + x], sizeof entry);
        return entry >> (16 - 8 * c) & 255;
    }
    c = d->nb_components < 3 ? 0 : c;
    top = (1 << d->comp[c].depth) - 1;
    av_read_image_line2(&value, (const uint8_t **)(uintptr_t)frame->data, frame->linesize, d, x, y, c, 1, 0, 2);
    if (frame->format == AV_PIX_FMT_MONOWHITE)
        value ^= 1;
    return d->comp[c].depth < 8 ? floor(value * 255 / top) : value * 255 / top;
}

/* What libavcodec encodes. */
static const struct { const char *encoder, *formats; } kinds[] = {
    { "png", "rgb24 rgba rgb48be rgba64be pal8 gray ya8 gray16be ya16be monob" },
    { "bmp", "bgra bgr24 rgb565le rgb555le rgb444le pal8 gray monob" },
    { "tiff", "rgb24 rgb48le rgba rgba64le pal8 gray ya8 gray16le ya16le monob monow" },
    { "ppm", "rgb24 rgb48be" }, { "pgm", "gray gray16be" }, { "pbm", "monow" },
    { "pam", "rgb24 rgba rgb48be gray ya8 gray16be monob" },
    { "jpeg2000", "rgb24 gray rgb48le gray16le" },
};

TEST(stills_of_every_pixel_format_come_back_exactly)
{
    uint32_t tried = 0;
    for (size_t k = 0; k < COUNT(kinds); k++) {
        char formats[128], *rest = formats, *name;
        snprintf(formats, sizeof formats, "%s", kinds[k].formats);
        while ((name = strtok_r(rest, " ", &rest)) != NULL) {
            AVFrame *frame = frame_random(av_get_pix_fmt(name), (uint32_t)k);
            bytes b = encoded(kinds[k].encoder, frame);
            float *pixels = b.size ? look_at(BZNA_CODEC_STILL, b, 0) : NULL;
            double worst = 0;
            for (int i = 0; pixels && i < 3 * PIXELS; i++)
                worst = fmax(worst, fabs(pixels[i] - component_of(frame, i / 3 % W, i / 3 / W, i % 3)));
            if (b.size && (!pixels || worst > 1e-4)) {
                printf("  %s of %s: %g off: %s\n", kinds[k].encoder, name, worst, last.message);
                test_failures++;
            }
            tried += b.size > 0;
            CHECK(!pixels || seen.depth == (strstr(name, "16") || strstr(name, "48") || strstr(name, "64") ? 16 : 8));
            free(pixels);
            free(b.data);
            av_frame_free(&frame);
        }
    }
    printf("%u kinds of files made by libavcodec\n", tried);
    CHECK(tried > 30);
}

TEST(y_cb_cr_stills_come_as_their_planes)
{
    AVFrame *frame = frame_random(AV_PIX_FMT_YUV420P, 1);
    bytes b = encoded("jpeg2000", frame);
    if (!b.size)
        SKIP("no encoder of JPEG 2000 here");
    free(look_at(BZNA_CODEC_STILL, b, 0));
    CHECK_EQ(last.status, BZNA_OK);
    CHECK(seen.chroma_shift_x == 1 && seen.chroma_shift_y == 1 && seen.color.matrix == 5 && seen.color.full_range);
    for (int p = 0; p < 3; p++)
        for (int y = 0; y < (p ? (H + 1) / 2 : H); y++)
            CHECK(!memcmp((const uint8_t *)seen.plane[p] + y * seen.pitch[p], frame->data[p] + y * frame->linesize[p],
                          p ? W / 2 : W));
    free(b.data);
    b = fixture("webp_lossy.webp");
    free(look_at(BZNA_CODEC_STILL, b, 0));
    CHECK(last.status || (seen.chroma_shift_x == 1 && seen.color.matrix == 5 && !seen.color.full_range &&
                          !seen.chroma_left && !seen.chroma_top));
    free(b.data);
    av_frame_free(&frame);
}

/* As bzna_dataset_read_image does for those who want the color. */
TEST(what_is_told_of_colors_without_decoding_is_the_formats)
{
    static const struct { const char *name; uint32_t codec, matrix, full; } files[] = {
        { "jpeg_440.jpg", BZNA_CODEC_JPEG, 5, 1 }, { "jpeg_rgb_adobe.jpg", BZNA_CODEC_JPEG, 0, 1 },
        { "png_palette_2.png", BZNA_CODEC_STILL, 0, 1 }, { "webp_lossy.webp", BZNA_CODEC_STILL, 5, 0 },
        { "webp_lossless_clear.webp", BZNA_CODEC_STILL, 0, 1 } };
    for (size_t i = 0; i < COUNT(files); i++) {
        bytes b = fixture(files[i].name);
        bzna_image coded = image_of(files[i].codec, b);
        bzi_image image = bzi_image_alone(&coded);
        CHECK_EQ(bzi_image_complete(&image, &(bzna_error){ 0 }), BZNA_OK);
        CHECK(image.coded.color.present && image.coded.color.matrix == files[i].matrix);
        CHECK(image.coded.color.primaries == 1 && image.coded.color.transfer == 13);        /* sRGB's */
        CHECK_EQ(image.coded.color.full_range, files[i].full);
        free(b.data);
    }
}

TEST(a_palette_can_come_as_its_indices)
{
    static const char *const encoders[] = { "png", "bmp", "tiff" };
    AVFrame *frame = frame_random(AV_PIX_FMT_PAL8, 5);
    bytes two = fixture("png_palette_2.png");
    bzna_image image;
    for (size_t i = 0; i < COUNT(encoders); i++) {
        bytes b = encoded(encoders[i], frame);
        REQUIRE(b.size);
        image = image_of(BZNA_CODEC_STILL, b);
        image.palette = BZNA_PALETTE_INDEX;
        free(look(decoder, &image));
        CHECK_EQ(last.status, BZNA_OK);
        CHECK(seen.depth == 8 && !seen.plane[1] && !seen.plane[2]);
        for (int y = 0; y < H && last.status == BZNA_OK; y++)
            CHECK(!memcmp((const uint8_t *)seen.plane[0] + y * seen.pitch[0], frame->data[0] + y * frame->linesize[0],
                          W));
        free(b.data);
    }
    image = image_of(BZNA_CODEC_STILL, two);
    image.palette = BZNA_PALETTE_INDEX;
    float *pixels = look(decoder, &image);
    REQUIRE(pixels);
    for (int i = 0; i < 3 * PIXELS; i++)
        CHECK(pixels[i] < 4 && pixels[i] == floorf(pixels[i]));
    free(pixels);
    av_frame_free(&frame);
    free(two.data);
}

/* Against Pillow's indices. */
static void check_indices(bytes file, bytes wanted)
{
    bzna_image image = image_of(BZNA_CODEC_STILL, file);
    bzna_decoder *d = decoder_new();
    image.palette = BZNA_PALETTE_INDEX;
    free(look(d, &image));
    CHECK_EQ(last.status, BZNA_OK);
    CHECK_EQ(wanted.size, PIXELS);
    CHECK(seen.depth == 8 && !seen.plane[1] && !seen.plane[2]);
    for (int y = 0; y < H && last.status == BZNA_OK; y++)
        CHECK(!memcmp((const uint8_t *)seen.plane[0] + y * seen.pitch[0], wanted.data + y * W, W));
    bzna_decoder_close(d);
}

TEST(a_gif_gives_its_indices_too)
{
    bytes gif = fixture("gif_87.gif"), wanted = fixture("gif_87.gif.index"), own;
    bytes clear = fixture("gif_animated_clear.gif"), wanted_clear = fixture("gif_animated_clear.gif.index");
    const size_t palette = 3 * (2u << (gif.data[10] & 7));
    check_indices(gif, wanted);
    check_indices(clear, wanted_clear);
    own = bytes_make(gif.data, gif.size);                   /* the palette is the picture's own */
    memmove(own.data + 13, own.data + 13 + palette, 10);
    memcpy(own.data + 23, gif.data + 13, palette);
    own.data[22] |= 0x80 | (gif.data[10] & 7);
    own.data[10] &= 0x7f;
    check_indices(own, wanted);
    float *as_local = look_at(BZNA_CODEC_STILL, own, 0), *as_global = look_at(BZNA_CODEC_STILL, gif, 0);
    CHECK(as_local && as_global && !memcmp(as_local, as_global, 3 * PIXELS * sizeof *as_local));
    free(as_local);
    free(as_global);
    free(gif.data);
    free(wanted.data);
    free(own.data);
    free(clear.data);
    free(wanted_clear.data);
}

/* A PNG of gray rows, not compressed: rows of them are there, all of one value. */
static bytes png_made(uint32_t width, uint32_t height, uint32_t rows, uint8_t value, uint8_t interlaced)
{
    uint8_t file[4096] = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR", *p = file + 16, *data;
    uint32_t size = rows * (width + 1), a = 1, b = 0;
    const uint32_t head[2] = { width, height };
    const AVCRC *table = av_crc_get_table(AV_CRC_32_IEEE_LE);
    for (int i = 0; i < 8; i++)
        *p++ = (uint8_t)(head[i / 4] >> (24 - 8 * (i % 4)));
    memcpy(p, "\x08\0\0\0", 4);
    p[4] = interlaced;
    AV_WB32(p + 5, ~av_crc(table, ~0u, file + 12, 17));
    p += 9;
    AV_WB32(p, 2 + 5 + size + 4);
    memcpy(data = p + 4, "IDAT\x78\x01\x01", 7);
    AV_WL16(p + 11, (uint16_t)size);
    AV_WL16(p + 13, (uint16_t)~size);
    p += 15;
    for (uint32_t i = 0; i < size; i++) {
        *p = i % (width + 1) ? value : 0;
        a = (a + *p++) % 65521;
        b = (b + a) % 65521;
    }
    AV_WB32(p, b << 16 | a);
    p += 4;
    AV_WB32(p, ~av_crc(table, ~0u, data, (size_t)(p - data)));
    memcpy(p + 4, "\0\0\0\0IEND\xae\x42\x60\x82", 12);
    return bytes_make(file, (size_t)(p + 16 - file));
}

TEST(a_png_without_all_of_its_rows_is_damaged)
{
    static const uint8_t values[] = { 0, 0x5c, 0xa3, 0xff };            /* among them what frames are cleared with */
    for (size_t v = 0; v < COUNT(values); v++) {
        for (uint32_t rows = 1; rows <= 9; rows++) {
            bytes b = png_made(7, 9, rows, values[v], 0);
            if (rows < 9) {
                check_refused(BZNA_CODEC_STILL, b, BZNA_E_DECODE, "the picture is incomplete");
            } else {
                float *pixels = look_at(BZNA_CODEC_STILL, b, 0);
                CHECK(pixels && pixels[0] == values[v] && pixels[3 * 63 - 1] == values[v]);
                free(pixels);
            }
            free(b.data);
        }
        bytes b = png_made(1, 1, 1, values[v], 0);
        float *pixels = look_at(BZNA_CODEC_STILL, b, 0);
        CHECK(pixels && pixels[0] == values[v]);
        free(pixels);
        free(b.data);
    }
}

/* The two bytes with which frames are filled, one after the other and then the other way round, so that either looks as
 * if it had not been written. */
TEST(a_picture_that_looks_like_memory_before_it_is_written_is_whole)
{
    char text[32 * 32 * 4 + 64];
    size_t size = (size_t)snprintf(text, sizeof text, "P2\n32 32\n255\n");
    float *pixels;
    int wrong = 0;
    for (int y = 0; y < 32; y++)
        for (int x = 0; x < 32; x++)
            size += (size_t)snprintf(text + size, sizeof text - size, "%d\n", (x ^ y / 16) & 1 ? 0x5c : 0xa3);
    pixels = look_at(BZNA_CODEC_STILL, (bytes){ (uint8_t *)text, size }, 0);
    for (int i = 0; pixels && i < 32 * 32; i++)
        wrong += pixels[3 * i] != ((i ^ i / 512) & 1 ? 0x5c : 0xa3);
    CHECK_EQ(wrong, 0);
    CHECK(pixels != NULL);
    free(pixels);
}

TEST(a_png_without_its_end_or_with_a_wrong_byte_is_damaged)
{
    bytes whole = png_made(7, 9, 9, 200, 0), b = bytes_make(whole.data, whole.size - 12);
    check_refused(BZNA_CODEC_STILL, b, BZNA_E_DECODE, "the end chunk is missing");
    CHECK_EQ(last.byte_offset, b.size);
    whole.data[60] ^= 1;                                    /* a pixel */
    check_refused(BZNA_CODEC_STILL, whole, BZNA_E_DECODE, "PNG data are damaged");
    whole.data[60] ^= 1;
    free(look_at(BZNA_CODEC_STILL, whole, 0));
    CHECK_EQ(last.status, BZNA_OK);
    free(b.data);
    free(whole.data);
}

TEST(a_still_that_ends_anywhere_is_damaged_or_the_same)
{
    for (size_t i = 0; i < COUNT(stills); i++) {
        bytes whole = fixture(stills[i].name);
        float *wanted = look_at(BZNA_CODEC_STILL, whole, 0);
        for (size_t size = 1; wanted && size < whole.size; size += whole.size > 1000 ? 7 : 1) {
            bytes b = bytes_make(whole.data, size);
            float *got = look_at(BZNA_CODEC_STILL, b, 0);
            CHECK(!got || !memcmp(got, wanted, 3 * PIXELS * sizeof *got));
            CHECK(got || last.status == BZNA_E_DECODE || last.status == BZNA_E_CODEC ||
                  last.status == BZNA_E_TRUNCATED);
            free(got);
            free(b.data);
        }
        free(wanted);
        free(whole.data);
    }
}

/* Tile parts may leave their size unsaid. */
TEST(a_jpeg_2000_of_unsaid_size_that_ends_early_is_damaged)
{
    bytes whole = fixture("jpeg2000_gray.j2k"), b;
    size_t part = find(whole, 0, "\xff\x90\0\x0a", 4);
    REQUIRE(part < whole.size);
    memset(whole.data + part + 6, 0, 4);
    free(look_at(BZNA_CODEC_STILL, whole, 0));
    CHECK_EQ(last.status, BZNA_OK);
    b = bytes_make(whole.data, whole.size - 30);
    check_refused(BZNA_CODEC_STILL, b, BZNA_E_DECODE, "JP2 (JPEG 2000): OpenJPEG");
    free(b.data);
    free(whole.data);
}

TEST(a_still_of_a_pixel_format_that_has_no_name_is_refused)
{
    bytes png = fixture("png_palette_2.png");
    const bzna_image image = { .struct_size = sizeof image, .codec = BZNA_CODEC_STILL, .data = png.data,
                               .data_size = png.size };
    bzi_software software = { .frame = av_frame_alloc() };
    bzna_picture picture = { .struct_size = sizeof picture };
    REQUIRE(software.frame);
    software.frame->format = AV_PIX_FMT_NONE;
    CHECK_EQ(bzi_software_still(&software, &image, &picture, &last), BZNA_E_CODEC);
    CHECK_CONTAINS(last.message, "pixel format ?");
    av_frame_free(&software.frame);
    free(png.data);
}

/* A box may say its size in 64 bits: the one of the picture, or one before it. */
TEST(boxes_of_jpeg_2000_may_have_sizes_of_64_bits)
{
    bytes whole = fixture("jpeg2000.jp2");
    const size_t header = find(whole, 0, "jp2h", 4) - 4, stream = find(whole, 0, "jp2c", 4) - 4;
    float *wanted = look_at(BZNA_CODEC_STILL, whole, 0);
    REQUIRE(wanted);
    for (int which = 0; which < 2; which++) {
        const size_t at = which ? stream : header, end = which ? whole.size : stream;
        uint8_t box[16] = { 0, 0, 0, 1 };
        memcpy(box + 4, whole.data + at + 4, 4);
        for (int past = 0; past < 3; past++) {              /* sound; one byte more, and 2^32 more, than there are */
            const uint64_t size = end - at + 8 + (past == 1 ? whole.size - end + 1 : 0);
            for (int i = 0; i < 8; i++)
                box[8 + i] = (uint8_t)((size + (past == 2 ? (uint64_t)1 << 32 : 0)) >> (56 - 8 * i));
            bytes b = spliced(whole, at, box, sizeof box, at + 8);
            if (past) {
                check_refused(BZNA_CODEC_STILL, b, BZNA_E_DECODE, "JPEG 2000");
            } else {
                float *got = look_at(BZNA_CODEC_STILL, b, 0);
                CHECK(got && !memcmp(got, wanted, 3 * PIXELS * sizeof *got));
                free(got);
            }
            free(b.data);
        }
    }
    free(wanted);
    free(whole.data);
}

TEST(what_a_decoder_has_seen_does_not_show)
{
    bytes files[COUNT(stills) + COUNT(jpegs)];
    float *wanted[COUNT(files)];
    bzna_random random;
    bzna_random_init(&random, 77, 0, 0, 0);
    for (size_t i = 0; i < COUNT(files); i++) {
        files[i] = fixture(i < COUNT(stills) ? stills[i].name : jpegs[i - COUNT(stills)].name);
        bzna_image image = image_of(i < COUNT(stills) ? BZNA_CODEC_STILL : BZNA_CODEC_JPEG, files[i]);
        bzna_decoder *fresh = decoder_new();
        wanted[i] = look(fresh, &image);
        bzna_decoder_close(fresh);
    }
    for (int round = 0; round < ROUNDS(2000, 400); round++) {
        size_t i = bzna_random_u32(&random) % COUNT(files);
        uint32_t codec = i < COUNT(stills) ? BZNA_CODEC_STILL : BZNA_CODEC_JPEG;
        bytes b = bytes_make(files[i].data, files[i].size);
        int damaged = round % 2;
        for (uint32_t n = damaged ? 1 + bzna_random_u32(&random) % 4 : 0; n; n--)
            b.data[16 + bzna_random_u32(&random) % (b.size - 16)] = (uint8_t)bzna_random_u32(&random);
        float *got = look_at(codec, b, 0), *alone = wanted[i];
        bzna_picture picture = seen;
        bzna_status status = last.status;
        if (damaged) {
            bzna_image image = image_of(codec, b);
            bzna_decoder *fresh = decoder_new();
            alone = look(fresh, &image);
            CHECK_EQ(status, last.status);
            bzna_decoder_close(fresh);
        }
        CHECK_EQ(!got, !alone);
        CHECK(!got || !alone || !memcmp(got, alone, 3 * sizeof *got * picture.width * picture.height));
        if (damaged)
            free(alone);
        free(got);
        free(b.data);
    }
    for (size_t i = 0; i < COUNT(files); i++) {
        free(wanted[i]);
        free(files[i].data);
    }
}

enum { MANY = 96 };

/* Stills of every kind: the fixtures, and what libavcodec encodes. Returns how many. */
static size_t all_stills(bytes files[MANY])
{
    size_t count = 0;
    for (size_t i = 0; i < COUNT(stills); i++)
        files[count++] = fixture(stills[i].name);
    for (size_t k = 0; k < COUNT(kinds); k++) {
        char formats[128], *rest = formats, *name;
        snprintf(formats, sizeof formats, "%s", kinds[k].formats);
        while (count < MANY && (name = strtok_r(rest, " ", &rest)) != NULL) {
            AVFrame *frame = frame_random(av_get_pix_fmt(name), (uint32_t)count);
            bytes b = encoded(kinds[k].encoder, frame);
            if (b.size)
                files[count++] = b;
            av_frame_free(&frame);
        }
    }
    return count;
}

/* The first bits of a partition, written by RFC 6386's bool coder (7.3) at a probability of 128. */
TEST(webps_segments_without_a_map_are_known_by_their_first_bits)
{
    for (uint32_t bits = 0; bits < 16; bits++) {
        uint32_t range = 255, low = 0, shift = 0;
        for (int i = 3; i >= 0; i--) {
            const uint32_t split = 1 + ((range - 1) * 128 >> 8);
            low += bits >> i & 1 ? split : 0;
            range = bits >> i & 1 ? range - split : split;
            for (; range < 128; range *= 2, shift++)
                low *= 2;
        }
        /* the first code of the interval, and the last */
        const uint32_t codes[] = { (low << 8) >> shift, (((low + range) << 8) >> shift) - 1 };
        for (int i = 0; i < 2; i++) {
            const uint8_t partition[] = { (uint8_t)(codes[i] >> 8), (uint8_t)codes[i], i ? 0xff : 0 };
            CHECK_EQ(bzi_vp8_lacks_map(bzi_cursor_make(partition, sizeof partition, 0)), (bits & 3) == 2);
        }
    }
}

/* 40 x 10 macroblocks of more than 2 bits each. */
TEST(a_webps_macroblocks_have_their_bytes)
{
    uint8_t chunk[10 + 101] = { 0, 0, 0, 0x9d, 0x01, 0x2a, 640 & 255, 640 >> 8, 160, 0 };
    for (int more = -1; more <= 1; more++) {
        bzi_cursor c = bzi_cursor_make(chunk, (uint64_t)(10 + 100 + more), 0);
        bzi_format format = { 0 };
        CHECK_EQ(bzi_webp_read(BZI_FOURCC('V', 'P', '8', ' '), &c, &format), more >= 0);
        CHECK(format.width == 640 && format.height == 160);
    }
}

/* The first bytes tell kinds apart. */
static uint32_t first_bytes(bytes b) { return b.size < 2 ? 0 : (uint32_t)b.data[0] << 8 | b.data[1]; }

TEST(stills_decode_alike_after_any_other)
{
    bytes files[MANY];
    float *wanted[MANY];
    size_t count = all_stills(files), compared = 0;
    bzna_decoder *seasoned = decoder_new();
    for (size_t i = 0; i < count; i++) {
        bzna_image image = image_of(BZNA_CODEC_STILL, files[i]);
        bzna_decoder *fresh = decoder_new();
        wanted[i] = look(fresh, &image);
        bzna_decoder_close(fresh);
    }
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < 2 * count; k++) {            /* the other, whole and without its second half */
            if (k % 2 && first_bytes(files[k / 2]) != first_bytes(files[i]))
                continue;
            bytes other = bytes_make(files[k / 2].data, k % 2 ? files[k / 2].size / 2 : files[k / 2].size);
            bzna_image a = image_of(BZNA_CODEC_STILL, files[i]), b = image_of(BZNA_CODEC_STILL, other);
            free(look(seasoned, &b));
            float *got = look(seasoned, &a);
            CHECK_EQ(!got, !wanted[i]);
            CHECK(!got || !wanted[i] || !memcmp(got, wanted[i], 3 * PIXELS * sizeof *got));
            compared += got != NULL;
            free(got);
            free(other.data);
        }
    CHECK(compared > count * count);
    for (size_t i = 0; i < count; i++) {
        free(wanted[i]);
        free(files[i].data);
    }
    bzna_decoder_close(seasoned);
}

/* Whether the decoder's codec contexts are the same after another picture of the kind. */
static int keeps_context(const char *name)
{
    bytes b = fixture(name);
    bzna_image image = image_of(BZNA_CODEC_STILL, b);
    bzna_decoder *d = decoder_new();
    int kept = 0;
    free(look(d, &image));
    for (size_t i = 0; i < BZI_LRU_SLOTS; i++)
        if (d->software.codecs[i])
            d->software.codecs[i]->rc_max_rate = 4711;      /* decoders leave it alone */
    free(look(d, &image));
    for (size_t i = 0; i < BZI_LRU_SLOTS; i++)
        kept += d->software.codecs[i] && d->software.codecs[i]->rc_max_rate == 4711;
    bzna_decoder_close(d);
    free(b.data);
    return kept;
}

TEST(a_decoder_is_made_once)
{
    CHECK(keeps_context("png_palette_2.png"));
    CHECK(keeps_context("webp_lossy.webp") && keeps_context("webp_lossless_clear.webp"));
}

TEST(colors_past_the_end_of_a_gifs_palette_are_none_of_the_gif_before)
{
    bytes other = fixture("gif_animated_clear.gif"), whole = fixture("gif_87.gif");
    const size_t end = 13 + 3 * (2u << (whole.data[10] & 7));
    bytes b = spliced(whole, 13 + 6, NULL, 0, end);         /* two colors are left */
    const bzna_image before = image_of(BZNA_CODEC_STILL, other), image = image_of(BZNA_CODEC_STILL, b);
    bzna_decoder *fresh = decoder_new(), *seasoned = decoder_new();
    float *wanted, *got;
    b.data[10] &= 0xf8;
    wanted = look(fresh, &image);
    free(look(seasoned, &before));
    got = look(seasoned, &image);
    CHECK(got && wanted && !memcmp(got, wanted, 3 * PIXELS * sizeof *got));
    free(got);
    free(wanted);
    bzna_decoder_close(fresh);
    bzna_decoder_close(seasoned);
    free(other.data);
    free(whole.data);
    free(b.data);
}

/* Its first bits say whether there are segments, and a map of them: without one, libavcodec would take that of the
 * picture before. */
TEST(a_webp_takes_nothing_of_the_picture_before_whatever_its_first_bytes_are)
{
    bytes before = fixture("webp_lossy.webp"), b = fixture("webp_lossy.webp");
    const bzna_image first = image_of(BZNA_CODEC_STILL, before), image = image_of(BZNA_CODEC_STILL, b);
    const size_t at = find(b, 0, "\x9d\x01\x2a", 3);
    bzna_decoder *seasoned = decoder_new();
    uint32_t decoded = 0;
    REQUIRE(at < b.size);
    for (int i = 0; i < 256; i++) {
        bzna_decoder *fresh = decoder_new();
        b.data[at + 7] = (uint8_t)i;
        float *wanted = look(fresh, &image), *got;
        bzna_decoder_close(fresh);
        free(look(seasoned, &first));
        CHECK_EQ(last.status, BZNA_OK);
        got = look(seasoned, &image);
        CHECK_EQ(!got, !wanted);
        CHECK(!got || !wanted || !memcmp(got, wanted, 3 * PIXELS * sizeof *got));
        decoded += got != NULL;
        free(got);
        free(wanted);
    }
    printf("%u of them were decoded\n", decoded);
    CHECK(decoded > 20);
    memcpy(b.data, before.data, b.size);
    b.data[at - 3] |= 1;                                    /* a frame that needs the one before */
    free(look(seasoned, &first));
    CHECK(!look(seasoned, &image));
    CHECK_CONTAINS(last.message, "WebP at byte");
    CHECK_CONTAINS(last.message, "the header is damaged");
    bzna_decoder_close(seasoned);
    free(before.data);
    free(b.data);
}

TEST(stills_that_are_not_read_are_refused_by_name)
{
    static const char tiled[] = "II*\0\x08\0\0\0\3\0" "\0\1\3\0\1\0\0\0\x10\0\0\0" "\1\1\3\0\1\0\0\0\x10\0\0\0"
                                "\x42\1\3\0\1\0\0\0\x10\0\0\0" "\0\0\0\0";
    static const char floats[] = "MM\0*\0\0\0\x08\0\3" "\1\0\0\3\0\0\0\1\0\x10\0\0" "\1\1\0\3\0\0\0\1\0\x10\0\0"
                                 "\1\x53\0\3\0\0\0\1\0\3\0\0" "\0\0\0\0";
    const bytes tiles = { (uint8_t *)(uintptr_t)tiled, sizeof tiled - 1 };
    const bytes numbers = { (uint8_t *)(uintptr_t)floats, sizeof floats - 1 };
    bytes animated = fixture("webp_animated.webp");
    check_refused(BZNA_CODEC_STILL, tiles, BZNA_E_DECODE, "TIFF: libtiff: ");
    check_refused(BZNA_CODEC_STILL, numbers, BZNA_E_DECODE, "TIFF: libtiff: ");
    check_refused(BZNA_CODEC_STILL, animated, BZNA_E_CODEC, "WebP: animations");
    free(animated.data);
}

TEST(stills_of_absurd_sizes_are_refused_before_decoding)
{
    bytes b = png_made(4, 4, 4, 0, 0);
    memcpy(b.data + 16, "\0\0\x40\0\0\0\x40\0", 8);
    check_refused(BZNA_CODEC_STILL, b, BZNA_E_DECODE, "pixels are missing");
    memcpy(b.data + 16, "\0\0\0\1\x7f\xff\xff\xff", 8);
    check_refused(BZNA_CODEC_STILL, b, BZNA_E_DECODE, "pixels are missing");
    memcpy(b.data + 16, "\0\0\0\0\0\0\0\1", 8);
    check_refused(BZNA_CODEC_STILL, b, BZNA_E_DECODE, "0x1");
    free(b.data);
    b = fixture("bmp_1.bmp");
    memcpy(b.data + 22, "\0\0\0\x80", 4);
    check_refused(BZNA_CODEC_STILL, b, BZNA_E_DECODE, "BMP");
    free(b.data);
    b = bytes_make("P5 99999999 99999999 255 ", 25);
    check_refused(BZNA_CODEC_STILL, b, BZNA_E_DECODE, "PNM");
    free(b.data);
    b = fixture("gif_87.gif");
    memcpy(b.data + 6, "\1\x40\1\x40", 4);
    check_refused(BZNA_CODEC_STILL, b, BZNA_E_DECODE, "GIF: libavcodec");
    memcpy(b.data + 6, "\1\x40\1\0", 4);
    check_refused(BZNA_CODEC_STILL, b, BZNA_E_LIMIT, "max_edge_px");
    free(b.data);
}

/* A fixture whose size is another: its bytes from `at` are replaced. */
static void check_bomb(const char *name, size_t at, const char *size, size_t bytes_of_size, bzna_status status)
{
    bytes b = fixture(name);
    memcpy(b.data + at, size, bytes_of_size);
    check_refused(BZNA_CODEC_STILL, b, status, status == BZNA_E_LIMIT ? "15900 pixels in" : "pixels are missing");
    free(b.data);
}

TEST(a_few_bytes_are_no_picture_of_gigabytes)
{
    bytes lossless = fixture("webp_lossless_clear.webp"), lossy = fixture("webp_lossy.webp");
    bytes j2k = fixture("jpeg2000_gray.j2k"), tiff = fixture("tiff_lzw.tif");
    const size_t entry = AV_RL32(tiff.data + 4) + 2;        /* its directory begins with width and height */
    CHECK(AV_RL16(tiff.data + entry) == 256 && AV_RL16(tiff.data + entry + 12) == 257);
    AV_WL32(tiff.data + entry + 8, 15900);
    AV_WL32(tiff.data + entry + 20, 15900);
    check_refused(BZNA_CODEC_STILL, tiff, BZNA_E_LIMIT, "TIFF: 15900x15900 pixels in");
    check_bomb("webp_lossless_clear.webp", find(lossless, 0, "VP8L", 4) + 9, "\x1b\xfe\x86\x1f", 4, BZNA_E_LIMIT);
    check_bomb("webp_lossy.webp", find(lossy, 0, "VP8 ", 4) + 14, "\x1c\x3e\x1c\x3e", 4, BZNA_E_DECODE);
    /* and of its tile */
    check_bomb("jpeg2000_gray.j2k", find(j2k, 0, "\xff\x51", 2) + 6,
               "\0\0\x3e\x1c\0\0\x3e\x1c\0\0\0\0\0\0\0\0\0\0\x3e\x1c\0\0\x3e\x1c", 24, BZNA_E_LIMIT);
    check_bomb("gif_87.gif", 6, "\x1c\x3e\x1c\x3e", 4, BZNA_E_LIMIT);
    free(lossless.data);
    free(lossy.data);
    free(j2k.data);
    free(tiff.data);
}

/* A codestream of one component and one tile, whose code blocks and precincts have these sizes. NULL: one precinct a
 * resolution. in_tile: the tile's header says it, and the main one asks for large ones. */
static bytes j2k_in_parts(uint32_t edge, uint8_t block, const char *precincts, int in_tile)
{
    uint8_t b[256] = { 0xff, 0x4f, 0xff, 0x51, 0, 41 };
    size_t n = 40, cod[2];
    AV_WB32(b + 8, edge);
    AV_WB32(b + 12, edge);
    AV_WB32(b + 24, edge);
    AV_WB32(b + 28, edge);
    memcpy(b + n, "\0\1\7\1\1", 5);
    n += 5;
    for (int i = 0; i < 2; i++) {
        const int small = i == in_tile, has = small && precincts;
        cod[i] = n;
        memcpy(b + n, (uint8_t[14]){ 0xff, 0x52, 0, (uint8_t)(has ? 14 : 12), (uint8_t)has, 0, 0, 1, 0, 1,
                                     small ? block : 4, small ? block : 4, 0, 1 }, 14);
        n += 14;
        if (has)
            memcpy(b + n, precincts, 2);
        n += has ? 2 : 0;
        if (i == 0) {
            memcpy(b + n, (uint8_t[21]){ 0xff, 0x5c, 0, 7, 0x40, 0x40, 0x48, 0x48, 0x50, 0xff, 0x90, 0, 10, 0, 0, 0, 0,
                                         0, 0, 0, 1 }, 21);
            n += 21;
        }
    }
    memcpy(b + n, "\xff\x93\0\0\xff\xd9", 6);
    AV_WB32(b + cod[1] - 6, (uint32_t)(n + 4 - (cod[1] - 12)));        /* from SOT to the end of what is coded */
    return bytes_make(b, n + 6);
}

/* OpenJPEG makes notes for each code block and each precinct before it decodes: gigabytes, for so few bytes. */
TEST(a_few_bytes_are_no_jpeg_2000_of_a_million_parts)
{
    static const struct { uint32_t edge; uint8_t block; const char *precincts; int refused; } cases[] = {
        { 4096, 0, NULL, 1 },                               /* code blocks of 4x4 */
        { 4096, 4, "\x11\x11", 1 },                       /* precincts of 2x2 */
        { 4096, 4, "\xff\x00", 1 },                       /* of a sample, in the higher resolution alone */
        { 1024, 4, "\x11\x11", 1 }, { 4096, 4, NULL, 0 }, { 4096, 4, "\xff\xff", 0 }, { 512, 1, NULL, 0 } };
    for (size_t i = 0; i < COUNT(cases); i++)
        for (int in_tile = 0; in_tile < 2; in_tile++) {
            const bytes b = j2k_in_parts(cases[i].edge, cases[i].block, cases[i].precincts, in_tile);
            free(look_at(BZNA_CODEC_STILL, b, 0));
            CHECK_EQ(last.status == BZNA_E_LIMIT, cases[i].refused);
            if (cases[i].refused)
                CHECK_CONTAINS(last.message, "code blocks or precincts are too small");
            free(b.data);
        }
}

/* Nothing is coded as shortly as one color. */
TEST(large_pictures_of_one_color_are_decoded)
{
    static const struct { const char *encoder; enum AVPixelFormat format; int edge; } large[] = {
        { "png", AV_PIX_FMT_GRAY8, 9000 }, { "png", AV_PIX_FMT_RGB24, 3000 }, { "jpeg2000", AV_PIX_FMT_GRAY8, 1500 },
        { "tiff", AV_PIX_FMT_GRAY8, 3000 }, { "bmp", AV_PIX_FMT_GRAY8, 2000 } };
    for (size_t i = 0; i < COUNT(large); i++) {
        AVFrame *frame = av_frame_alloc();
        bzna_decoder *d = decoder_new();
        bzna_error err = { .struct_size = sizeof err };
        bytes b;
        frame->format = large[i].format;
        frame->width = frame->height = large[i].edge;
        REQUIRE(av_frame_get_buffer(frame, 0) >= 0);
        memset(frame->buf[0]->data, 200, frame->buf[0]->size);
        b = encoded(large[i].encoder, frame);
        if (b.size) {
            const bzna_image image = image_of(BZNA_CODEC_STILL, b);
            seen = (bzna_picture){ .struct_size = sizeof seen };
            CHECK_EQ(bzna_decoder_decode(d, &image, &seen, &err), BZNA_OK);
            CHECK(seen.width == (uint32_t)large[i].edge && *(const uint8_t *)seen.plane[0] == 200);
        }
        free(b.data);
        av_frame_free(&frame);
        bzna_decoder_close(d);
    }
}

TEST(files_are_recognized_by_their_first_bytes)
{
    static const struct { const char *head; size_t size; uint32_t codec; const char *name; } heads[] = {
        { "\xff\xd8\xff\xe0", 4, BZNA_CODEC_JPEG, "still" },
        { "\x89PNG\r\n\x1a\n", 8, BZNA_CODEC_STILL, "PNG" },
        { "RIFF1234WEBP", 12, BZNA_CODEC_STILL, "WebP" },
        { "\xff\xd8", 2, BZNA_CODEC_UNKNOWN, "still" },
        { "RIFF1234WAVE", 12, BZNA_CODEC_UNKNOWN, "still" },
        { "", 0, BZNA_CODEC_UNKNOWN, "still" },
    };
    for (size_t i = 0; i < COUNT(heads); i++) {
        bytes b = bytes_make(heads[i].head, heads[i].size);
        CHECK_EQ(bzi_codec_recognize((bzi_span){ b.data, b.size }), heads[i].codec);
        const bzna_image image = image_of(BZNA_CODEC_STILL, b);
        CHECK_STR(bzi_image_codec_name(&image), heads[i].name);
        free(b.data);
    }
}

TEST(files_that_are_no_pictures_of_ours_are_called_what_they_are)
{
    static const bzi_host host;                             /* without codecs of its own */
    static const struct { const char *head; size_t size; const char *what; } heads[] = {
        { "\xff\x0a\x10\0", 4, "it begins with ff 0a 10 00; examples/formats has more codecs" },
        { "\x1f\x8b\x08", 3, "compressed by gzip" },
        { "abcdef", 6, "of no known kind: it begins with 61 62 63 64" },
    };
    for (size_t i = 0; i < COUNT(heads); i++) {
        bzna_error err = { .struct_size = sizeof err };
        bytes b = bytes_make(heads[i].head, heads[i].size);
        bzi_image image;
        CHECK_EQ(bzi_file_image(&host, (bzi_span){ b.data, b.size }, 7, &image, &err), BZNA_E_CODEC);
        CHECK_CONTAINS(err.message, "at byte 7: the picture is ");
        CHECK_CONTAINS(err.message, heads[i].what);
        free(b.data);
    }
}

/* ---- RGB in video codecs ----------------------------------------------------------------------------------------- */

static void check_coded_rgb(const char *encoder, uint32_t codec, enum AVPixelFormat format)
{
    AVFrame *frame = av_frame_alloc(), *random;
    bytes b;
    frame->format = format;
    frame->width = 64;
    frame->height = 48;
    if (av_frame_get_buffer(frame, 0) < 0)
        abort();
    random = frame_random(AV_PIX_FMT_RGB48LE, 9);
    for (int i = 0; i < AV_NUM_DATA_POINTERS && frame->buf[i]; i++)
        for (size_t k = 0; k < frame->buf[i]->size; k++)
            frame->buf[i]->data[k] = random->data[0][k % 4000];
    b = encoded(encoder, frame);
    if (b.size) {
        bzna_image image = image_of(codec, b);
        image.width = image.frame_width = 64;
        image.height = image.frame_height = 48;
        image.color = (bzna_color){ 1, 1, 1, 0, codec == BZNA_CODEC_H265 };         /* which the stream overrules */
        float *pixels = look(decoder, &image);
        double worst = 0;
        for (int i = 0; pixels && i < 3 * 64 * 48; i++)
            worst = fmax(worst, fabs(pixels[i] - component_of(frame, i / 3 % 64, i / 3 / 64, i % 3)));
        CHECK(pixels && worst == 0 && seen.color.matrix == 0);
        free(pixels);
    } else {
        test_skip_reason = "no encoder of such pictures here";
    }
    free(b.data);
    av_frame_free(&random);
    av_frame_free(&frame);
}

TEST(h264_coded_as_rgb_is_rgb) { check_coded_rgb("libx264rgb", BZNA_CODEC_H264, AV_PIX_FMT_RGB24); }
TEST(h265_coded_as_rgb_is_rgb) { check_coded_rgb("libx265", BZNA_CODEC_H265, AV_PIX_FMT_GBRP); }

/* ---- Orientation ------------------------------------------------------------------------------------------------- */

/* Where pixel (x, y) of the picture as it is seen lies in the file, by EXIF 2.3's table. */
static size_t stored(uint32_t orientation, int x, int y)
{
    const int at[9][2] = { { 0 }, { x, y }, { W - 1 - x, y }, { W - 1 - x, H - 1 - y }, { x, H - 1 - y },
                           { y, x }, { y, H - 1 - x }, { W - 1 - y, H - 1 - x }, { W - 1 - y, x } };
    return 3 * ((size_t)at[orientation][1] * W + (size_t)at[orientation][0]);
}

TEST(all_orientations_turn_the_picture_exactly)
{
    NEEDS_JPEG;
    bytes b = fixture("jpeg_exif_6.jpg");
    size_t tag = find(b, 0, "\1\x12\0\3", 4) + 8;          /* big-endian: its value */
    float *upright = look_at(BZNA_CODEC_JPEG, b, 1);
    REQUIRE(upright && b.data[tag + 1] == 6);
    for (uint32_t o = 1; o <= 8; o++) {
        for (uint32_t said = 0; said < 2; said++) {        /* by the file, by the caller */
            int width = o > 4 ? H : W, height = o > 4 ? W : H, wrong = 0;
            float *turned;
            b.data[tag + 1] = (uint8_t)(said ? 9 - o : o);
            turned = look_at(BZNA_CODEC_JPEG, b, said ? o : 0);
            REQUIRE(turned);
            CHECK(seen.orientation == o && seen.width == W && seen.height == H);
            for (int y = 0; y < height; y++)
                for (int x = 0; x < width; x++)
                    wrong += memcmp(turned + 3 * (y * width + x), upright + stored(o, x, y), 3 * sizeof *turned) != 0;
            CHECK_EQ(wrong, 0);
            free(turned);
        }
    }
    free(upright);
    free(b.data);
}

/* Where the file says that it lies on its side (6), as each kind of file says it. */
TEST(stills_say_their_orientation)
{
    static const char tiff[] = "II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0\0\0\0\0";
    static const char chunk[] = "\0\0\0\x1a" "eXIf";
    bytes png = png_made(3, 5, 5, 9, 0), webp = fixture("webp_lossy.webp"), big = fixture("tiff_lzw.tif"), b, c;
    size_t at;
    b = spliced(png, 33, chunk, 8, 33);
    c = spliced(b, 41, tiff, sizeof tiff - 1, 41);
    free(b.data);
    b = spliced(c, 67, "\0\0\0\0", 4, 67);
    free(look_at(BZNA_CODEC_STILL, b, 0));
    CHECK(last.status == BZNA_OK && seen.orientation == 6 && seen.width == 3 && seen.height == 5);
    free(look_at(BZNA_CODEC_STILL, b, 1));
    CHECK(last.status == BZNA_OK && seen.orientation == 1);
    free(b.data);
    free(c.data);

    b = spliced(webp, webp.size, "EXIF\x20\0\0\0Exif\0\0", 14, webp.size);
    c = spliced(b, b.size, tiff, sizeof tiff - 1, b.size);
    AV_WL32(c.data + 4, (uint32_t)(c.size - 8));
    free(look_at(BZNA_CODEC_STILL, c, 0));
    CHECK(last.status == BZNA_E_CODEC || (last.status == BZNA_OK && seen.orientation == 6));
    free(b.data);
    free(c.data);

    at = find(big, 0, "\x1c\1\3\0\1\0\0\0", 8);             /* how planes lie (284) becomes the orientation */
    REQUIRE(at < big.size);
    AV_WL16(big.data + at, 274);
    big.data[at + 8] = 6;
    for (int is_signed = 0; is_signed < 2; is_signed++) {   /* SHORT, SSHORT */
        big.data[at + 2] = is_signed ? 8 : 3;
        free(look_at(BZNA_CODEC_STILL, big, 0));
        CHECK(last.status == BZNA_OK && seen.orientation == 6);
    }
    free(big.data);
    free(webp.data);
    free(png.data);
}

/* ---- Orientation that stands in texts: as PIL's ImageOps.exif_transpose has it ----------------------------------- */

#define XMP_PACKET(what) "<x:xmpmeta><rdf:RDF><rdf:Description " what "</rdf:RDF></x:xmpmeta>"

/* A PNG with one more chunk behind its header; nothing looks at the sum of one that is no pixels. */
static bytes png_with(const char *type, const void *keyword, size_t keyword_size, const void *data, size_t size)
{
    bytes png = png_made(3, 5, 5, 9, 0), chunk = bytes_make(NULL, 12 + keyword_size + size), whole;
    AV_WB32(chunk.data, (uint32_t)(keyword_size + size));
    memcpy(chunk.data + 4, type, 4);
    memcpy(chunk.data + 8, keyword, keyword_size);
    memcpy(chunk.data + 8 + keyword_size, data, size);
    memset(chunk.data + 8 + keyword_size + size, 0, 4);
    whole = spliced(png, 33, chunk.data, chunk.size, 33);
    free(chunk.data);
    free(png.data);
    return whole;
}

static void check_orientation(uint32_t codec, bytes b, uint32_t orientation)
{
    free(look_at(codec, b, 0));
    CHECK_EQ(last.status, BZNA_OK);
    CHECK_EQ(seen.orientation, orientation);
    free(b.data);
}

/* PIL reads them, and viewers rarely do. */
TEST(texts_of_a_png_do_not_turn_it)
{
    static const char raw[] = "Raw profile type exif", xml[22] = "XML:com.adobe.xmp";       /* and flags of 0 */
    static const char text[] = "\nexif\n      32\n4578696600004949 2a0008000000010012010300\n"
                               "010000000600000000000000\n";
    static const char xmp[] = XMP_PACKET("tiff:Orientation=\"8\">");
    check_orientation(BZNA_CODEC_STILL, png_with("tEXt", raw, sizeof raw, text, sizeof text - 1), 1);
    check_orientation(BZNA_CODEC_STILL, png_with("iTXt", xml, sizeof xml, xmp, sizeof xmp - 1), 1);
}

/* A JPEG, whose EXIF data (6) stay or become something else, with an XMP packet behind its start. */
static bytes jpeg_with_xmp(const char *packet, int with_exif)
{
    static const char name[] = "http://ns.adobe.com/xap/1.0/";
    bytes whole = fixture("jpeg_exif_6.jpg"), segment = bytes_make(NULL, 4 + sizeof name + strlen(packet)), b;
    AV_WB32(segment.data, 0xffe10000 | (uint32_t)(segment.size - 2));
    memcpy(segment.data + 4, name, sizeof name);
    memcpy(segment.data + 4 + sizeof name, packet, strlen(packet));
    if (!with_exif)
        memcpy(whole.data + find(whole, 0, "Exif\0", 5), "None", 4);
    b = spliced(whole, 2, segment.data, segment.size, 2);
    free(segment.data);
    free(whole.data);
    return b;
}

TEST(xmp_says_the_orientation_where_exif_data_do_not)
{
    NEEDS_JPEG;
    static const char packet[] = XMP_PACKET("tiff:Orientation=\"5\">");
    bytes webp = fixture("webp_lossy.webp"), b, c;
    check_orientation(BZNA_CODEC_JPEG, jpeg_with_xmp(XMP_PACKET("tiff:Orientation=\"8\">"), 0), 8);
    check_orientation(BZNA_CODEC_JPEG, jpeg_with_xmp(XMP_PACKET("><tiff:Orientation>3</tiff:Orientation>"), 0), 3);
    check_orientation(BZNA_CODEC_JPEG, jpeg_with_xmp(XMP_PACKET("tiff:Orientation=\"8\">"), 1), 6);
    check_orientation(BZNA_CODEC_JPEG, jpeg_with_xmp(XMP_PACKET("tiff:Orientation=\"9\">"), 0), 1);
    check_orientation(BZNA_CODEC_JPEG, jpeg_with_xmp(XMP_PACKET("tiff:Orientation=8>"), 0), 1);
    check_orientation(BZNA_CODEC_JPEG,
                      jpeg_with_xmp(XMP_PACKET("tiff:Orientation=\"0\" tiff:Orientation=\"6\">"), 0), 1);
    check_orientation(BZNA_CODEC_JPEG, jpeg_with_xmp("tiff:Orientation", 0), 1);
    check_orientation(BZNA_CODEC_JPEG, jpeg_with_xmp("tiff:Orientation=\"", 0), 1);
    b = spliced(webp, webp.size, "XMP \0\0\0\0", 8, webp.size);
    AV_WL32(b.data + webp.size + 4, sizeof packet - 1 + (sizeof packet - 1) % 2);
    c = spliced(b, b.size, packet, sizeof packet - 1 + (sizeof packet - 1) % 2, b.size);
    AV_WL32(c.data + 4, (uint32_t)(c.size - 8));
    check_orientation(BZNA_CODEC_STILL, c, 5);
    free(b.data);
    free(webp.data);
}

/* ---- EXIF data: as PIL's ImageOps.exif_transpose reads them ------------------------------------------------------ */

static const char exif_name[] = { 'E', 'x', 'i', 'f', 0, 0 };

/* A tag of a directory; its value is in the byte order of the directory. */
typedef struct exif_tag {
    uint32_t    number, type, count;
    const char *value;
    size_t      size;
} exif_tag;

static void put(bytes b, size_t at, size_t size, uint64_t value, int big)
{
    for (size_t i = 0; i < size; i++)
        b.data[at + (big ? size - 1 - i : i)] = (uint8_t)(value >> 8 * i);
}

/* EXIF data without their name: a directory at a place, then the values that have more than four bytes. */
static bytes exif_made(const exif_tag *tags, size_t count, size_t directory, int big)
{
    size_t size = directory + 2 + 12 * count + 4, at = size;
    bytes b;
    for (size_t i = 0; i < count; i++)
        size += tags[i].size > 4 ? tags[i].size : 0;
    b = bytes_make(NULL, size);
    memset(b.data, 0, size);
    memcpy(b.data, big ? "MM\0*" : "II*\0", 4);
    put(b, 4, 4, directory, big);
    put(b, directory, 2, count, big);
    for (size_t i = 0; i < count; i++) {
        const size_t entry = directory + 2 + 12 * i, to = tags[i].size > 4 ? at : entry + 8;
        put(b, entry, 2, tags[i].number, big);
        put(b, entry + 2, 2, tags[i].type, big);
        put(b, entry + 4, 4, tags[i].count, big);
        if (tags[i].size > 4)
            put(b, entry + 8, 4, at, big);
        memcpy(b.data + to, tags[i].value, tags[i].size);
        at += tags[i].size > 4 ? tags[i].size : 0;
    }
    return b;
}

/* A JPEG without EXIF data, or with parts of them: from ends[i - 1] to ends[i]. */
static bytes jpeg_with_exif(bytes exif, const size_t *ends, size_t count)
{
    bytes b = fixture("jpeg_411.jpg"), more;
    for (size_t i = count; i--;) {
        const size_t from = i ? ends[i - 1] : 0, size = ends[i] - from;
        bytes segment = bytes_make(NULL, 10 + size);
        AV_WB32(segment.data, 0xffe10000 | (uint32_t)(8 + size));
        memcpy(segment.data + 4, exif_name, 6);
        memcpy(segment.data + 10, exif.data + from, size);
        more = spliced(b, 2, segment.data, segment.size, 2);
        free(segment.data);
        free(b.data);
        b = more;
    }
    return b;
}

/* The first kinds of files that have EXIF data, with these: JPEG, PNG, WebP. Their orientation must be as PIL's. */
static void check_exif(bytes exif, uint32_t orientation)
{
    bytes webp = fixture("webp_lossy.webp"), b = spliced(webp, webp.size, "EXIF\0\0\0\0", 8, webp.size), whole;
    if (BZI_HAS_JPEG)
        check_orientation(BZNA_CODEC_JPEG, jpeg_with_exif(exif, &exif.size, 1), orientation);
    check_orientation(BZNA_CODEC_STILL, png_with("eXIf", "", 0, exif.data, exif.size), orientation);
    AV_WL32(b.data + webp.size + 4, (uint32_t)exif.size);
    whole = spliced(b, b.size, exif.data, exif.size, b.size);
    free(b.data);
    b = spliced(whole, whole.size, "", exif.size % 2, whole.size);
    AV_WL32(b.data + 4, (uint32_t)(b.size - 8));
    check_orientation(BZNA_CODEC_STILL, b, orientation);
    free(whole.data);
    free(webp.data);
}

/* Software that adds the name to data that have it already wrote such files: Pillow's issue 8348. */
TEST(the_name_of_exif_may_stand_several_times)
{
    for (int big = 0; big < 2; big++) {
        const exif_tag turned = { 0x0112, 3, 1, big ? "\0\6" : "\6\0", 2 };
        bytes exif = exif_made(&turned, 1, 8, big);
        for (int names = 0; names < 4; names++) {
            bytes named = spliced(exif, 0, exif_name, 6, 0);
            check_exif(exif, 6);
            free(exif.data);
            exif = named;
        }
        free(exif.data);
    }
    {
        const exif_tag turned = { 0x0112, 3, 1, "\6\0", 2 };
        bytes exif = exif_made(&turned, 1, 8, 0), other = spliced(exif, 0, "Exif\0\xff", 6, 0);
        check_exif(other, 1);
        free(other.data);
        other = spliced(exif, 0, exif_name, 5, 0);
        check_exif(other, 1);
        free(other.data);
        free(exif.data);
    }
}

TEST(the_first_segment_with_exif_data_counts)
{
    NEEDS_JPEG;
    const exif_tag six = { 0x0112, 3, 1, "\6\0", 2 }, three = { 0x0112, 3, 1, "\3\0", 2 };
    bytes first = exif_made(&six, 1, 8, 0), second = exif_made(&three, 1, 8, 0);
    bytes both = spliced(first, first.size, second.data, second.size, first.size);
    const size_t ends[2] = { first.size, both.size }, cut[2] = { 4, both.size };

    check_orientation(BZNA_CODEC_JPEG, jpeg_with_exif(both, ends, 2), 6);
    check_orientation(BZNA_CODEC_JPEG, jpeg_with_exif(both, cut, 2), 1);
    free(first.data);
    free(second.data);
    free(both.data);
}

/* PIL compares the number that a tag has with 2 to 8, whatever type it has; bytes and text are no numbers for it. Here,
 * fractions are none, either. */
TEST(an_orientation_may_be_a_whole_number_of_any_type)
{
    static const struct {
        uint32_t type, count;
        const char *little, *big;
        size_t size;
        uint32_t orientation;
    } values[] = {
        { 3, 1, "\6\0", "\0\6", 2, 6 },                     /* SHORT */
        { 4, 1, "\6\0\0\0", "\0\0\0\6", 4, 6 },             /* LONG */
        { 6, 1, "\6", "\6", 1, 6 },                         /* SBYTE */
        { 8, 1, "\6\0", "\0\6", 2, 6 },                     /* SSHORT */
        { 9, 1, "\6\0\0\0", "\0\0\0\6", 4, 6 },             /* SLONG */
        { 13, 1, "\6\0\0\0", "\0\0\0\6", 4, 6 },            /* IFD */
        { 5, 1, "\6\0\0\0\1\0\0\0", "\0\0\0\6\0\0\0\1", 8, 1 },           /* RATIONAL */
        { 10, 1, "\6\0\0\0\1\0\0\0", "\0\0\0\6\0\0\0\1", 8, 1 },          /* SRATIONAL */
        { 11, 1, "\0\0\xc0\x40", "\x40\xc0\0\0", 4, 1 },       /* FLOAT */
        { 12, 1, "\0\0\0\0\0\0\x18\x40", "\x40\x18\0\0\0\0\0\0", 8, 1 },    /* DOUBLE */
        { 16, 1, "\6\0\0\0\0\0\0\0", "\0\0\0\0\0\0\0\6", 8, 6 },              /* LONG8 */
        { 3, 2, "\6\0\1\0", "\0\6\0\1", 4, 6 },             /* the first of several */
        { 3, 3, "\6\0\1\0\1\0", "\0\6\0\1\0\1", 6, 6 },
        { 6, 2, "\6\1", "\6\1", 2, 6 },
        { 4, 2, "\6\0\0\0\1\0\0\0", "\0\0\0\6\0\0\0\1", 8, 6 },
        { 3, 1, "\0\0", "\0\0", 2, 1 }, { 3, 1, "\x9\0", "\0\x9", 2, 1 },   /* no orientation */
        { 4, 1, "\6\0\1\0", "\0\1\0\6", 4, 1 }, { 6, 1, "\xfa", "\xfa", 1, 1 },
        { 8, 1, "\xfa\xff", "\xff\xfa", 2, 1 },
        { 1, 1, "\6", "\6", 1, 1 }, { 2, 2, "6", "6", 2, 1 }, { 7, 1, "\6", "\6", 1, 1 },   /* no numbers for PIL */
        { 1, 2, "\6\1", "\6\1", 2, 1 }, { 7, 2, "\6\1", "\6\1", 2, 1 },
        { 0, 1, "\6\0", "\0\6", 2, 0 }, { 14, 1, "\6\0", "\0\6", 2, 0 },    /* no types: the tag is not there */
        { 17, 1, "\6\0\0\0\0\0\0\0", "\0\0\0\0\0\0\0\6", 8, 0 },
        { 3, 0, "\6\0", "\0\6", 2, 0 },
    };
    for (size_t i = 0; i < COUNT(values); i++)
        for (int big = 0; big < 2; big++) {
            const exif_tag one = { 0x0112, values[i].type, values[i].count, big ? values[i].big : values[i].little,
                              values[i].size };
            bytes exif = exif_made(&one, 1, 8, big);
            const bzi_span part = { exif.data, exif.size };
            CHECK_EQ(bzi_exif_orientation(part), values[i].orientation);
            check_exif(exif, values[i].orientation ? values[i].orientation : 1);
            free(exif.data);
        }
}

TEST(a_webp_says_its_orientation_in_its_first_chunk_of_a_kind)
{
    for (int is_xmp = 0; is_xmp < 2; is_xmp++) {
        static const char packet[2][64] = { "<x tiff:Orientation=\"6\"/>", "<x tiff:Orientation=\"3\"/>" };
        bytes whole = fixture("webp_lossy.webp"), b;
        for (int i = 0; i < 2; i++) {
            const exif_tag turned = { 0x0112, 3, 1, i ? "\3\0" : "\6\0", 2 };
            bytes data = is_xmp ? bytes_make(packet[i], 64) : exif_made(&turned, 1, 8, 0);
            b = spliced(whole, whole.size, is_xmp ? "XMP \0\0\0\0" : "EXIF\0\0\0\0", 8, whole.size);
            AV_WL32(b.data + whole.size + 4, (uint32_t)data.size);
            free(whole.data);
            whole = spliced(b, b.size, data.data, data.size, b.size);
            free(b.data);
            free(data.data);
        }
        AV_WL32(whole.data + 4, (uint32_t)(whole.size - 8));
        check_orientation(BZNA_CODEC_STILL, whole, 6);
    }
}

/* What of EXIF data counts where they are damaged or odd; 0: nothing, so that XMP may say it. */
static uint32_t orientation_of(const exif_tag *tags, size_t count, size_t cut)
{
    bytes exif = exif_made(tags, count, 8, 0), left = bytes_make(exif.data, exif.size - cut);
    const bzi_span part = { left.data, left.size };
    const uint32_t orientation = bzi_exif_orientation(part);
    free(exif.data);
    free(left.data);
    return orientation;
}

TEST(a_damaged_directory_counts_up_to_the_damage_as_in_pil)
{
#define TURN(n) { 0x0112, 3, 1, n "\0", 2 }
    static const exif_tag twice[] = { TURN("\6"), TURN("\3") }, later[] = { { 0x0112, 3, 0, "\3\0", 2 }, TURN("\6") },
                     unknown[] = { { 0x0112, 99, 1, "\3\0", 2 }, TURN("\6") },
                     text[] = { { 0x0112, 2, 2, "3", 2 }, TURN("\6") },
                     huge[] = { { 0x0112, 3, 1000, "\3\0\3\0\3\0", 6 }, TURN("\6") },
                     far[] = { { 0x010f, 2, 1000, "abcdefgh", 8 }, TURN("\6") },
                     past[] = { { 0x010f, 2, 12, "abcdefgh", 8 }, TURN("\6") },
                     within[] = { { 0x010f, 2, 8, "abcdefgh", 8 }, TURN("\6") },
                     unsorted[] = { { 0x011a, 3, 1, "\1\0", 2 }, TURN("\6") },
                     most[] = { { 0x0112, 3, UINT32_MAX, "\6\0\6\0\6\0", 6 } };
    CHECK_EQ(orientation_of(twice, 2, 0), 6);
    CHECK_EQ(orientation_of(later, 2, 0), 6);
    CHECK_EQ(orientation_of(unknown, 2, 0), 6);
    CHECK_EQ(orientation_of(text, 2, 0), 1);
    CHECK_EQ(orientation_of(huge, 2, 0), 6);
    CHECK_EQ(orientation_of(far, 2, 0), 6);
    CHECK_EQ(orientation_of(past, 2, 0), 0);
    CHECK_EQ(orientation_of(within, 2, 0), 6);
    CHECK_EQ(orientation_of(unsorted, 2, 0), 6);
    CHECK_EQ(orientation_of(most, 1, 0), 0);
    CHECK_EQ(orientation_of(twice, 2, 4), 6);               /* without the place of the next directory */
    CHECK_EQ(orientation_of(twice, 1, 4), 6);
    CHECK_EQ(orientation_of(twice, 1, 5), 0);               /* the value is cut: the tag has four bytes for it */
    CHECK_EQ(orientation_of(twice, 0, 0), 0);
#undef TURN
}

TEST(other_directories_and_other_headers_have_no_orientation)
{
    static const char *const starts[] = { "II*\0", "II\0*", "II*\1", "II+\0", "IIR\0", "MM\0*", "MM*\0", "IM*\0",
                                          "XX*\0" };
    static const uint32_t turned[] = { 1, 1, 0, 0, 0, 1, 1, 0, 0 };
    for (size_t i = 0; i < COUNT(starts); i++) {
        const int big = *starts[i] == 'M';
        const exif_tag one = { 0x0112, 3, 1, big ? "\0\6" : "\6\0", 2 };
        bytes exif = exif_made(&one, 1, 8, big);
        memcpy(exif.data, starts[i], 4);
        check_exif(exif, turned[i] ? 6 : 1);
        free(exif.data);
    }
    for (int second = 0; second < 2; second++) {            /* that which a first one names; EXIF's own (0x8769) */
        const exif_tag none = { second ? 0x8769 : 0x010f, 4, 1, "\x1a\0\0", 4 }, one = { 0x0112, 3, 1, "\6\0", 2 };
        bytes first = exif_made(&none, 1, 8, 0), other = exif_made(&one, 1, 26, 0);
        AV_WL32(first.data + 22, second ? 0 : 26);
        memcpy(other.data, first.data, 26);
        check_exif(other, 1);
        free(first.data);
        free(other.data);
    }
}

/* ---- JPEG without tables, and JPEG that was cut and then ended --------------------------------------------------- */

/* Frames of cameras and of AVI count on the standard's tables. */
TEST(a_jpeg_without_huffman_tables_has_those_of_the_standard)
{
    NEEDS_JPEG;
    static const char *const names[] = { "jpeg_440.jpg", "jpeg_422_restarts.jpg", "jpeg_exif_6.jpg",
                                         "jpeg_411.jpg" };
    bytes other = fixture("jpeg_rgb_numbers.jpg"), progressive = fixture("jpeg_420_progressive.jpg"), b;
    int equal = 0;
    for (size_t i = 0; i < COUNT(names); i++) {
        bytes whole = fixture(names[i]);
        float *wanted = look_at(BZNA_CODEC_JPEG, whole, 0), *got;
        size_t at;
        while ((at = find(whole, 2, "\xff\xc4", 2)) < whole.size) {
            b = without(whole, 0xc4);
            free(whole.data);
            whole = b;
        }
        free(look_at(BZNA_CODEC_JPEG, other, 0));           /* its tables are its own */
        got = look_at(BZNA_CODEC_JPEG, whole, 0);
        CHECK_EQ(last.status, BZNA_OK);
        equal += wanted && got && !memcmp(wanted, got, 3 * PIXELS * sizeof *got);
        free(wanted);
        free(got);
        free(whole.data);
    }
    CHECK_EQ(equal, COUNT(names));
    while (find(progressive, 2, "\xff\xc4", 2) < progressive.size) {
        b = without(progressive, 0xc4);
        free(progressive.data);
        progressive = b;
    }
    check_refused(BZNA_CODEC_JPEG, progressive, BZNA_E_DECODE, "Huffman table is damaged, or was not defined");
    free(progressive.data);
    free(other.data);
}

/* What is cut, and then got an end marker, is as what is cut: wherever that was, not all of it is there. */
TEST(a_jpeg_that_was_cut_and_then_ended_is_truncated)
{
    NEEDS_JPEG;
    static const char *const names[] = { "jpeg_420_progressive.jpg", "jpeg_gray_progressive.jpg",
                                         "jpeg_rgb_adobe.jpg", "jpeg_ycck_420_scans.jpg" };
    for (size_t i = 0; i < COUNT(names); i++) {
        bytes whole = fixture(names[i]);
        for (size_t size = find(whole, 0, "\xff\xda", 2) + 20; size + 40 < whole.size; size += 7) {
            bytes cut = bytes_make(whole.data, size), ended = spliced(cut, size, "\xff\xd9", 2, size);
            const size_t marker = whole.data[size - 1] == 0xff ? size - 1 : size;
            if (i > 1 || whole.data[marker] != 0xff || !whole.data[marker + 1])         /* not between scans */
                check_refused(BZNA_CODEC_JPEG, ended, BZNA_E_DECODE, "");
            if (i == 2)
                CHECK_CONTAINS(last.message, "truncated after row");
            check_refused(BZNA_CODEC_JPEG, cut, BZNA_E_DECODE, "");
            free(ended.data);
            free(cut.data);
        }
        for (size_t scan = find(whole, 0, "\xff\xda", 2); (scan = find(whole, scan + 1, "\xff\xda", 2)) < whole.size;) {
            bytes ended = spliced(whole, scan, "\xff\xd9", 2, whole.size);          /* between scans */
            if (i > 1)
                check_refused(BZNA_CODEC_JPEG, ended, BZNA_E_DECODE, "truncated: scans are missing");
            ended.size -= 2;
            check_refused(BZNA_CODEC_JPEG, ended, BZNA_E_DECODE, "truncated: scans are missing");
            free(ended.data);
        }
        free(whole.data);
    }
}

/* ---- Stills of all kinds: right, or refused by name -------------------------------------------------------------- */

typedef struct tiff_case {
    uint32_t bits, samples, photometric, planes, fill, compression;
} tiff_case;

enum { TIFF_W = 19, TIFF_H = 4, TIFF_PIXELS = TIFF_W * TIFF_H };

/* Red, green and blue of color c are c times these. */
static const uint32_t tiff_palette[3] = { 37, 11, 101 };

static uint32_t tiff_sample(uint32_t pixel, uint32_t sample, uint32_t bits)
{
    return (pixel * 2654435761u + sample * 40503u * (pixel + 3)) >> 7 & ((1u << bits) - 1);
}

static uint8_t *tiff_entry(uint8_t *at, uint32_t tag, uint32_t type, uint32_t count, uint32_t value)
{
    AV_WL16(at, (uint16_t)tag);
    AV_WL16(at + 2, (uint16_t)type);
    AV_WL32(at + 4, count);
    AV_WL32(at + 8, value);
    return at + 12;
}

/* The samples as they lie in the file, in reverse order of bits where it says so. Returns their size. */
static size_t tiff_pack(const tiff_case *k, uint8_t *dst)
{
    const uint32_t planes = k->planes == 2 ? k->samples : 1, each = k->planes == 2 ? 1 : k->samples;
    size_t size = 0;
    for (uint32_t plane = 0; plane < planes; plane++)
        for (uint32_t y = 0; y < TIFF_H; y++) {
            uint32_t bit = 0;
            for (uint32_t i = 0; i < TIFF_W * each; i++) {
                const uint32_t value = tiff_sample(y * TIFF_W + i / each, plane + i % each, k->bits);
                if (k->bits == 16) {
                    AV_WL16(dst + size + 2 * i, (uint16_t)value);
                } else {
                    dst[size + bit / 8] = (uint8_t)((bit % 8 ? dst[size + bit / 8] : 0) |
                                                    value << (8 - k->bits - bit % 8));
                }
                bit += k->bits;
            }
            size += (bit + 7) / 8;
        }
    for (size_t i = 0; i < size && k->fill == 2; i++)
        dst[i] = (uint8_t)((dst[i] * 0x0202020202ull & 0x010884422010ull) % 1023);
    return size;
}

static bytes tiff_made(const tiff_case *k)
{
    static uint8_t file[16384];
    const uint32_t planes = k->planes == 2 ? k->samples : 1, colors = k->bits <= 8 ? 3u << k->bits : 0;
    uint8_t *at = file + 10, *more = file + 400, *pixels = more + 2048;
    const size_t size = tiff_pack(k, pixels);
    memset(file, 0, 400 + 2048);
    memcpy(file, "II*\0\x08\0\0\0", 8);
    for (uint32_t i = 0; i < k->samples; i++)
        AV_WL16(more + 2 * i, (uint16_t)k->bits);
    for (uint32_t i = 0; i < planes; i++) {
        AV_WL32(more + 32 + 4 * i, 400 + 2048 + (uint32_t)(size / planes * i));
        AV_WL32(more + 64 + 4 * i, (uint32_t)(size / planes));
    }
    for (uint32_t i = 0; i < colors; i++)
        AV_WL16(more + 128 + 2 * i, (uint16_t)((i % (colors / 3) * tiff_palette[i / (colors / 3)] & 255) * 257));
    at = tiff_entry(at, 256, 3, 1, TIFF_W);
    at = tiff_entry(at, 257, 3, 1, TIFF_H);
    at = k->samples < 3 ? tiff_entry(at, 258, 3, k->samples, k->bits | k->bits << 16)
                        : tiff_entry(at, 258, 3, k->samples, 400);
    at = tiff_entry(at, 259, 3, 1, k->compression);
    if (k->photometric != UINT32_MAX)
        at = tiff_entry(at, 262, 3, 1, k->photometric);
    at = tiff_entry(at, 266, 3, 1, k->fill);
    at = tiff_entry(at, 273, 4, planes, planes == 1 ? 400 + 2048 : 432);
    at = tiff_entry(at, 277, 3, 1, k->samples);
    at = tiff_entry(at, 278, 3, 1, TIFF_H);
    at = tiff_entry(at, 279, 4, planes, planes == 1 ? (uint32_t)size : 464);
    at = tiff_entry(at, 284, 3, 1, k->planes);
    if (k->photometric == 3)
        at = tiff_entry(at, 320, 3, colors, 528);
    AV_WL16(file + 8, (uint16_t)((at - file - 10) / 12));
    return bytes_make(file, 400 + 2048 + size);
}

/* What the standard (TIFF 6.0) says of a channel; -1: no picture that this test knows. */
static double tiff_wanted(const tiff_case *k, uint32_t pixel, uint32_t channel)
{
    const double top = (double)((1u << k->bits) - 1), first = tiff_sample(pixel, 0, k->bits);
    if (k->photometric == 3 && k->bits == 16)               /* without a palette, libtiff takes it for gray or RGB */
        return tiff_sample(pixel, k->samples == 3 ? channel : 0, k->bits) * 255 / top;
    if (k->photometric < 2)
        return (k->photometric ? first : top - first) * 255 / top;
    if (k->photometric == 2 && k->samples > 2)
        return tiff_sample(pixel, channel, k->bits) * 255 / top;
    if (k->photometric == 3)
        return tiff_sample(pixel, 0, k->bits) * tiff_palette[channel] & 255;
    if (k->photometric == 5 && k->samples > 3)
        return (top - tiff_sample(pixel, channel, k->bits)) * (top - tiff_sample(pixel, 3, k->bits)) / top * 255 / top;
    return -1;
}

/* 1: it is as wanted; 0: it is refused by name. Others are failures. */
static int tiff_is_right(const tiff_case *k)
{
    bytes b = tiff_made(k);
    float *pixels = look_at(BZNA_CODEC_STILL, b, 0);
    int wrong = 0, is_read = pixels != NULL;
    for (uint32_t i = 0; pixels && i < 3 * TIFF_PIXELS; i++)
        wrong |= !(fabs(tiff_wanted(k, i / 3, i % 3) - (double)pixels[i]) <
                   (k->photometric == 5 && k->bits == 16 ? 2.01 : 1.01));
    if (wrong || (!pixels && last.status != BZNA_E_CODEC && last.status != BZNA_E_UNSUPPORTED)) {
        printf("  %u bits, %u samples, photometric %u, planes %u, fill order %u: %s\n", k->bits, k->samples,
               k->photometric, k->planes, k->fill, wrong ? "wrong pixels" : last.message);
        test_failures++;
    }
    free(pixels);
    free(b.data);
    return is_read;
}

TEST(tiffs_of_every_kind_are_right_or_refused_by_name)
{
    static const uint32_t bits[] = { 1, 2, 4, 8, 16 };
    static const uint32_t photometric[] = { 0, 1, 2, 3, 4, 5, 8, 9, 10, 32803, 32844, 34892, UINT32_MAX };
    int read = 0;
    for (uint32_t n = 0; n < COUNT(bits) * COUNT(photometric) * 5 * 4; n++) {
        const tiff_case k = { bits[n / 20 % COUNT(bits)], n / 4 % 5 + 1, photometric[n / 20 / COUNT(bits)], n % 2 + 1,
                              n / 2 % 2 + 1, 1 };
        read += tiff_is_right(&k);
    }
    CHECK_EQ(read, 376);
}

/* The first directory says a compression that is unknown, or that the data are not of. */
TEST(tiffs_that_are_damaged_are_refused_with_libtiffs_reason)
{
    static const uint32_t compressions[] = { 5, 6, 7, 8, 34712, 34887, 50000, 50001, 9, 12345 };
    tiff_case k = { 8, 3, 2, 1, 1, 1 };
    bytes b = tiff_made(&k);
    b.data[2] = 43;
    check_refused(BZNA_CODEC_STILL, b, BZNA_E_DECODE, "TIFF: libtiff: ");
    memcpy(b.data, "MM\0+", 4);
    check_refused(BZNA_CODEC_STILL, b, BZNA_E_DECODE, "TIFF: libtiff: ");
    free(b.data);
    for (size_t i = 0; i < COUNT(compressions); i++) {
        k.compression = compressions[i];
        b = tiff_made(&k);
        check_refused(BZNA_CODEC_STILL, b, BZNA_E_DECODE, "TIFF: libtiff: ");
        free(b.data);
    }
    k = (tiff_case){ 8, 3, 8, 1, 1, 1 };
    b = tiff_made(&k);
    check_refused(BZNA_CODEC_STILL, b, BZNA_E_CODEC, "TIFF: photometric interpretation 8 with 3 samples of 8 bits");
    free(b.data);
}

TEST(jpeg_2000_of_other_colors_is_refused_by_name)
{
    static const char icc[] = "\0\0\0\x2b" "colr\2\0\0" "\0\0\0\x20" "lcms\2\x10\0\0prtrCMYKLab ";
    bytes jp2 = fixture("jpeg2000.jp2"), b;
    const size_t size = find(jp2, 0, "\xff\x4f\xff\x51", 4), colr = find(jp2, 0, "colr\1", 5);
    REQUIRE(size < jp2.size && colr < jp2.size);
    for (uint32_t space = 0; space < 30; space++) {
        AV_WB32(jp2.data + colr + 7, space);
        if (space >= 16 && space <= 18) {
            free(look_at(BZNA_CODEC_STILL, jp2, 0));
            CHECK(last.status != BZNA_E_CODEC);
        } else if (space != 21) {
            check_refused(BZNA_CODEC_STILL, jp2, BZNA_E_CODEC, "color spaces other than gray, RGB and sYCC");
        }
    }
    AV_WB32(jp2.data + colr + 7, 16);
    b = spliced(jp2, colr - 4, icc, sizeof icc - 1, colr + 11);             /* a profile's header */
    AV_WB32(b.data + colr - 4, sizeof icc - 1);
    for (size_t i = find(b, 0, "jp2h", 4), done = 0; i < b.size && !done++;)
        AV_WB32(b.data + i - 4, AV_RB32(b.data + i - 4) + (uint32_t)(sizeof icc - 1) - 15);
    check_refused(BZNA_CODEC_STILL, b, BZNA_E_CODEC, "JP2 (JPEG 2000): color spaces other than");
    free(b.data);
    free(jp2.data);
}

/* A BMP of 5 x 3 pixels of 8 bits, whose pixels are these codes. */
static bytes bmp_of(const char *codes, size_t size)
{
    uint8_t file[54 + 1024 + 256] = "BM";
    AV_WL32(file + 2, (uint32_t)(1078 + size));
    AV_WL32(file + 10, 1078);
    AV_WL32(file + 14, 40);
    AV_WL32(file + 18, 5);
    AV_WL32(file + 22, 3);
    AV_WL16(file + 26, 1);
    AV_WL16(file + 28, 8);
    AV_WL32(file + 30, 1);
    AV_WL32(file + 34, (uint32_t)size);
    for (int i = 0; i < 256; i++)
        memset(file + 54 + 4 * i, i, 3);
    memcpy(file + 1078, codes, size);
    return bytes_make(file, 1078 + size);
}

TEST(bmps_that_are_not_read_are_called_what_they_are)
{
    static const struct { uint32_t at, value; const char *name; } work[] = {
        { 14, 52, "libavcodec: Not yet implemented" }, { 14, 16, "libavcodec: Not yet implemented" },
        { 30, 4, "its compression" },                  { 30, 5, "its compression" },
        { 30, 6, "its compression" },                  { 30, 3, "masks of R, G and B" } };
    for (size_t i = 0; i < COUNT(work); i++) {
        bytes b = fixture("bmp_palette_8.bmp");
        AV_WL32(b.data + work[i].at, work[i].value);
        check_refused(BZNA_CODEC_STILL, b, BZNA_E_CODEC, work[i].name);
        free(b.data);
    }
}

TEST(run_lengths_of_a_bmp_that_do_not_fill_it_are_damage)
{
    static const struct { const char *codes; size_t size; int sound; } cases[] = {
        { "\5\x11\0\0\5\x22\0\0\5\x33\0\1", 12, 1 },        { "\5\x11\0\0\5\x22\0\0\5\x33\0\0\0\1", 14, 1 },
        { "\5\x11\0\0\5\x22\0\0\5\x33", 10, 1 },            { "\0\5abcde\0\0\0\5\x22\0\0\5\x33\0\1", 18, 1 },
        { "\5\x11\0\2\0\1\0\0\5\x33\0\1", 12, 1 },          { "\2\x11\0\2\3\0\0\0\5\x22\0\0\5\x33\0\1", 16, 1 },
        { "\6\x11\0\0\5\x22\0\0\5\x33\0\1", 12, 0 },        { "\5\x11\0\0\5\x22\0\0", 8, 0 },
        { "\5\x11\0\1", 4, 0 },                             { "\5\x11\0\0\5\x22\0\0\3\x33", 10, 0 },
        { "\5\x11\0\0\5\x22\0\0\0\5ab", 12, 0 },            { "\5\x11\0\2\0\x40\5\x33\0\1", 10, 0 },
        { "\0\6abcdef\0\0\5\x22\0\0\5\x33\0\1", 18, 0 },    { "", 0, 0 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        bytes b = bmp_of(cases[i].codes, cases[i].size);
        float *pixels = look_at(BZNA_CODEC_STILL, b, 0);
        if ((pixels != NULL) != cases[i].sound)
            printf("  case %zu: %s\n", i, last.message);
        CHECK_EQ(pixels != NULL, cases[i].sound);
        CHECK(pixels || (last.status == BZNA_E_DECODE && strstr(last.message, "BMP")));
        CHECK(!pixels || (pixels[0] == 0x33 && pixels[3 * 14] == (cases[i].codes[0] ? i == 5 ? 0 : 0x11 : 'e')));
        free(pixels);
        free(b.data);
    }
}

/* A homography is relative to the picture as it is seen: the same one shows the same of a picture that is stored
 * upright and of one that is stored otherwise. */
TEST(homographies_are_relative_to_the_picture_as_it_is_seen)
{
    AVFrame *frame = frame_random(AV_PIX_FMT_RGB24, 3);
    bytes upright = encoded("png", frame);
    for (uint32_t o = 1; o <= 8; o++) {
        AVFrame *turned = av_frame_alloc();
        bzna_picture pictures[2];
        float pixels[2][3 * 31 * 17];
        bzna_transform t;
        bzna_output out;
        const int other = o == 6 ? 8 : o == 8 ? 6 : (int)o;                 /* what undoes it */
        turned->format = frame->format;
        turned->width = o > 4 ? H : W;
        turned->height = o > 4 ? W : H;
        REQUIRE(av_frame_get_buffer(turned, 0) >= 0);
        for (int y = 0; y < turned->height; y++)
            for (int x = 0; x < turned->width; x++) {
                size_t from = stored((uint32_t)other, x, y);
                memcpy(turned->data[0] + y * turned->linesize[0] + 3 * x,
                       frame->data[0] + (int)(from / (3 * W)) * frame->linesize[0] + from % (3 * W), 3);
            }
        bytes b = encoded("png", turned);
        bzna_transform_init(&t, sizeof t);
        out = (bzna_output){ .struct_size = sizeof out };
        const double h[9] = { 1.1, 0.3, -2.25, -0.2, 0.9, 3.5, 0.001, -0.002, 1 };
        memcpy(t.homography, h, sizeof h);
        out.width = 31;
        out.height = 17;
        for (int i = 0; i < 2; i++) {
            bzna_image image = image_of(BZNA_CODEC_STILL, i ? b : upright);
            image.orientation = i ? o : 1;
            pictures[i] = (bzna_picture){ .struct_size = sizeof pictures[i] };
            REQUIRE(bzna_decoder_decode(decoder, &image, &pictures[i], &last) == BZNA_OK);
            REQUIRE(bzna_picture_render(&pictures[i], &t, &out, pixels[i], sizeof pixels[i], &last) == BZNA_OK);
        }
        int wrong = 0;
        for (size_t i = 0; i < COUNT(pixels[0]); i++)       /* at the border, rounding decides what is outside */
            wrong += fabs((double)(pixels[0][i] - pixels[1][i])) > 0.02;
        CHECK(wrong <= 3);
        free(b.data);
        av_frame_free(&turned);
    }
    free(upright.data);
    av_frame_free(&frame);
}

/* ---- Archives of JPEG -------------------------------------------------------------------------------------------- */

#ifndef BENZINA_NO_WRITER
#define ARCHIVE TEST_BUILD "/tests/pictures.bzna"

static bzna_writer *writer_new(void)
{
    bzna_writer *writer = NULL;
    if (bzna_writer_open(context, ARCHIVE, NULL, &writer, &last) != BZNA_OK)
        exit(1);
    return writer;
}

static bzna_status add(bzna_writer *writer, const bzna_image *image)
{
    bzna_writer_sample sample;
    bzna_writer_sample_init(&sample, sizeof sample);
    sample.image = image;
    sample.has_target = 1;
    sample.target = 1;
    return bzna_writer_add(writer, BZNA_INDEX_NEXT, &sample, 0, &last);
}

static bzna_dataset *finished(bzna_writer *writer, uint32_t orientation)
{
    bzna_dataset *dataset = NULL;
    bzna_dataset_config config;
    bzna_dataset_config_init(&config, sizeof config);
    config.orientation = orientation;
    if (writer && bzna_writer_finish(writer, &last) != BZNA_OK)
        exit(1);
    bzna_writer_close(writer);
    if (bzna_dataset_open(context, ARCHIVE, &config, &dataset, &last) != BZNA_OK) {
        printf("  %s\n", last.message);
        exit(1);
    }
    return dataset;
}

/* Expects the pixels of a file, or of the part of it that an archive shows. */
static void check_archived(bzna_dataset *dataset, uint64_t index, bytes b, const bzna_image *part)
{
    uint8_t memory[16384];
    bzna_image image = { .struct_size = sizeof image };
    bzna_image_info info = { .struct_size = sizeof info };
    float *wanted = look(decoder, part), *pixels = NULL;
    CHECK_EQ(bzna_dataset_read_image(dataset, index, "image", memory, sizeof memory, &image, &last), BZNA_OK);
    CHECK_EQ(bzna_dataset_image_info(dataset, index, "image", &info, sizeof info, &last), BZNA_OK);
    CHECK(image.codec == BZNA_CODEC_JPEG && info.fourcc == BZI_FOURCC('j', 'p', 'e', 'g'));
    CHECK(image.data_size == b.size && !memcmp(image.data, b.data, b.size));
    CHECK(wanted && (pixels = look(decoder, &image)) != NULL);
    CHECK(wanted && pixels && !memcmp(pixels, wanted, 3 * sizeof *pixels * seen.width * seen.height));
    CHECK(image.width == seen.width && image.height == seen.height);
    CHECK((image.orientation ? image.orientation : 1) == seen.orientation);
    free(wanted);
    free(pixels);
}

TEST(jpegs_in_an_archive_are_the_bytes_and_pixels_that_went_in)
{
    NEEDS_JPEG;
    bytes files[COUNT(jpegs) + 1];
    bzna_image images[COUNT(jpegs) + 1];
    AVFrame *narrow = frame_random(AV_PIX_FMT_YUVJ420P, 5);
    bzna_writer *writer = writer_new();
    bzna_dataset *dataset;
    narrow->width = 24;
    for (size_t i = 0; i <= COUNT(jpegs); i++) {
        files[i] = i < COUNT(jpegs) ? fixture(jpegs[i].name) : encoded("mjpeg", narrow);
        images[i] = image_of(BZNA_CODEC_JPEG, files[i]);
        if (i == 1) {                                       /* a part of it */
            images[i].width = 17;
            images[i].height = 11;
            images[i].crop_x = 6;
            images[i].crop_y = 4;
        }
        CHECK_EQ(add(writer, &images[i]), BZNA_OK);
    }
    dataset = finished(writer, BZNA_ORIENTATION_APPLY);
    for (size_t i = 0; i <= COUNT(jpegs); i++) {
        images[i].orientation = i < COUNT(jpegs) && !strcmp(jpegs[i].name, "jpeg_exif_6.jpg") ? 6 : 0;
        check_archived(dataset, i, files[i], &images[i]);
    }
    const uint64_t pixels = bzi_dataset_hash_stills(dataset);
    bzna_dataset_close(dataset);
    dataset = finished(NULL, BZNA_ORIENTATION_IGNORE);
    CHECK(bzi_dataset_hash_stills(dataset) != pixels);      /* states of one are none of the other */
    for (size_t i = 0; i <= COUNT(jpegs); i++) {
        images[i].orientation = 1;
        check_archived(dataset, i, files[i], &images[i]);
        free(files[i].data);
    }
    bzna_dataset_close(dataset);
    av_frame_free(&narrow);
}

/* An archive without its input track is a video of what its thumbnail track plays: here of two sizes, once as QuickTime
 * calls it and once as HEIF does. The writer would not make such a track of two sizes, so that one of the JPEGs is
 * exchanged. */
TEST(a_video_of_jpegs_has_pictures_of_their_own_sizes)
{
    NEEDS_JPEG;
    AVFrame *wide = frame_random(AV_PIX_FMT_YUVJ420P, 5);
    bytes b[2] = { fixture("jpeg_exif_6.jpg"), encoded("mjpeg", wide) }, file, low;
    bzna_writer *writer = writer_new();
    wide->height = 16;
    low = encoded("mjpeg", wide);
    for (int i = 0; i < 2; i++) {
        bzna_image image = image_of(BZNA_CODEC_JPEG, b[i]);
        CHECK_EQ(add(writer, &image), BZNA_OK);
    }
    bzna_dataset_close(finished(writer, BZNA_ORIENTATION_APPLY));
    file = file_read(ARCHIVE);
    size_t entry = find(file, find(file, 0, "bzna_thumb", 10), "jpeg", 4), input = 0, next = 0;
    while ((entry = find(file, find(file, entry + 1, "bzna_thumb", 10), "jpeg", 4)) < file.size)
        next = entry;
    while ((entry = find(file, input + 1, "bzna_input", 10)) < file.size)
        input = entry;
    CHECK(!memcmp(file.data + next + 28, "\0\50\0\31", 4));           /* 40x25 */
    file.data[input] = 'x';
    const size_t at = find(file, 0, (const char *)b[1].data, b[1].size);
    REQUIRE(low.size <= b[1].size && at < file.size);
    memset(file.data + at, 0, b[1].size);
    memcpy(file.data + at, low.data, low.size);
    for (int quicktime = 0; quicktime < 2; quicktime++) {
        bzna_dataset *dataset = NULL;
        memcpy(file.data + next, quicktime ? "jpeg" : "mjpg", 4);
        REQUIRE(bzna_dataset_open_memory(context, file.data, file.size, NULL, &dataset, &last) == BZNA_OK);
        for (uint64_t i = 0; i < 2; i++) {
            bzna_image_info info = { .struct_size = sizeof info };
            bzna_image image = { .struct_size = sizeof image };
            uint8_t memory[16384];
            CHECK_EQ(bzna_dataset_image_info(dataset, i, NULL, &info, sizeof info, &last), BZNA_OK);
            CHECK(info.width == W && info.height == (i ? 16 : H) && info.orientation == (i ? 0 : 6));
            CHECK_EQ(bzna_dataset_read_image(dataset, i, NULL, memory, sizeof memory, &image, &last), BZNA_OK);
            free(look(decoder, &image));
            CHECK(last.status == BZNA_OK && seen.width == W && seen.height == (i ? 16 : H) && seen.color.full_range);
        }
        bzna_dataset_close(dataset);
    }
    free(file.data);
    free(b[0].data);
    free(b[1].data);
    free(low.data);
    av_frame_free(&wide);
}

TEST(what_an_archive_would_say_otherwise_than_its_jpeg_is_refused)
{
    static const struct { uint32_t codec, orientation, frame_width, width, kept; bzna_status status; const char *says; }
    cases[] = {
        { BZNA_CODEC_STILL, 0, 0, 0, 0, BZNA_E_CODEC, "codec: 5 cannot be written, only H.264, H.265, AV1 and JPEG" },
        { 99, 0, 0, 0, 0, BZNA_E_CODEC, "codec: 99 cannot be written" },
        { BZNA_CODEC_JPEG, 1, 0, 0, 0, BZNA_E_ARGUMENT, "the orientation is 1 here, but archives keep the one in the "
          "picture" },
        { BZNA_CODEC_JPEG, 5, 0, 0, 0, BZNA_E_ARGUMENT, "the one in the picture, 6" },
        { BZNA_CODEC_JPEG, 0, W + 1, 0, 0, BZNA_E_MISMATCH, "the stream's frame is 40x25, but its container says "
          "41x25" },
        { BZNA_CODEC_JPEG, 0, 0, W + 1, 0, BZNA_E_MISMATCH, "41x25 at 0,0 is not inside its frame, 40x25" },
        { BZNA_CODEC_JPEG, 0, 0, 0, 100, BZNA_E_DECODE, "sample.image: JPEG" },
        { BZNA_CODEC_JPEG, 6, W, 0, 0, BZNA_OK, "" },
    };
    bytes b = fixture("jpeg_exif_6.jpg");
    bzna_writer *writer = writer_new();
    CHECK(!bzi_codec_of_entry(0));
    for (size_t i = 0; i < COUNT(cases); i++) {
        bzna_image image = image_of(cases[i].codec, b);
        image.orientation = cases[i].orientation;
        image.frame_width = cases[i].frame_width;
        image.width = cases[i].width;
        image.data_size = cases[i].kept ? cases[i].kept : image.data_size;
        last.message[0] = 0;
        CHECK_EQ(add(writer, &image), cases[i].status);
        CHECK_CONTAINS(last.message, cases[i].says);
    }
    bzna_writer_close(writer);
    free(b.data);
}
#endif

#ifdef BENZINA_NO_WRITER
#define RUN_ARCHIVES
#else
#define RUN_ARCHIVES RUN(jpegs_in_an_archive_are_the_bytes_and_pixels_that_went_in)                                    \
                     RUN(a_video_of_jpegs_has_pictures_of_their_own_sizes)                                             \
                     RUN(what_an_archive_would_say_otherwise_than_its_jpeg_is_refused)
#endif

TEST_MAIN(decoder = decoder_new();
          RUN(headers_say_size_and_orientation)
          RUN(without_libjpeg_turbo_jpegs_are_refused_by_name)
          RUN(jpegs_of_every_kind_have_pillows_pixels)
          RUN(jpegs_come_as_their_own_planes)
          RUN(a_forced_matrix_or_a_containers_color_does_not_change_rgb)
          RUN(jfifs_marker_means_y_cb_cr_whatever_the_components_numbers_are)
          RUN(rows_above_are_those_of_the_whole_picture)
          RUN(a_component_without_data_is_damage)
          RUN(a_jpeg_that_ends_anywhere_is_damaged)
          RUN(coded_data_that_end_before_the_end_marker_are_damage)
          RUN(restart_markers_that_are_missing_or_out_of_order_are_damage)
          RUN(tables_of_a_picture_before_are_not_used)
          RUN(jpegs_that_are_not_decoded_are_refused_by_name)
    RUN(a_cmyk_jpeg_without_adobes_marker_has_the_pixels_of_one_with_it)
          RUN(jpeg_headers_that_are_damaged_are_refused_where_they_are)
          RUN(a_jpeg_has_500_scans_at_most)
          RUN(absurd_sizes_are_refused_before_decoding)
          RUN(what_is_not_the_picture_does_no_harm)
          RUN(an_exif_segment_of_any_bytes_does_no_harm)
          RUN(sizes_are_the_streams_or_agree_with_it)
          RUN(the_bytes_of_a_jpeg_are_a_stream_as_they_are)
          RUN(what_bzna_image_says_wrongly_is_named)
          RUN(stills_of_every_kind_have_pillows_pixels)
          RUN(stills_of_every_pixel_format_come_back_exactly)
          RUN(y_cb_cr_stills_come_as_their_planes)
          RUN(what_is_told_of_colors_without_decoding_is_the_formats)
          RUN(a_palette_can_come_as_its_indices)
          RUN(a_gif_gives_its_indices_too)
          RUN(a_png_without_all_of_its_rows_is_damaged)
          RUN(a_picture_that_looks_like_memory_before_it_is_written_is_whole)
    RUN(a_png_without_its_end_or_with_a_wrong_byte_is_damaged)
          RUN(a_still_that_ends_anywhere_is_damaged_or_the_same)
          RUN(a_jpeg_2000_of_unsaid_size_that_ends_early_is_damaged)
          RUN(a_still_of_a_pixel_format_that_has_no_name_is_refused)
          RUN(boxes_of_jpeg_2000_may_have_sizes_of_64_bits)
          RUN(what_a_decoder_has_seen_does_not_show)
          RUN(webps_segments_without_a_map_are_known_by_their_first_bits)
          RUN(a_webps_macroblocks_have_their_bytes)
          RUN(stills_decode_alike_after_any_other)
          RUN(a_decoder_is_made_once)
          RUN(colors_past_the_end_of_a_gifs_palette_are_none_of_the_gif_before)
          RUN(a_webp_takes_nothing_of_the_picture_before_whatever_its_first_bytes_are)
          RUN(stills_that_are_not_read_are_refused_by_name)
          RUN(stills_of_absurd_sizes_are_refused_before_decoding)
          RUN(a_few_bytes_are_no_picture_of_gigabytes) RUN(a_few_bytes_are_no_jpeg_2000_of_a_million_parts)
          RUN(large_pictures_of_one_color_are_decoded)
          RUN(files_are_recognized_by_their_first_bytes)
          RUN(files_that_are_no_pictures_of_ours_are_called_what_they_are)
          RUN(h264_coded_as_rgb_is_rgb)
          RUN(h265_coded_as_rgb_is_rgb)
          RUN(all_orientations_turn_the_picture_exactly)
          RUN(stills_say_their_orientation)
          RUN(texts_of_a_png_do_not_turn_it)
          RUN(xmp_says_the_orientation_where_exif_data_do_not)
          RUN(the_name_of_exif_may_stand_several_times)
          RUN(the_first_segment_with_exif_data_counts)
          RUN(an_orientation_may_be_a_whole_number_of_any_type)
          RUN(a_webp_says_its_orientation_in_its_first_chunk_of_a_kind)
          RUN(a_damaged_directory_counts_up_to_the_damage_as_in_pil)
          RUN(other_directories_and_other_headers_have_no_orientation)
          RUN(a_jpeg_without_huffman_tables_has_those_of_the_standard)
          RUN(a_jpeg_that_was_cut_and_then_ended_is_truncated)
          RUN(tiffs_of_every_kind_are_right_or_refused_by_name)
          RUN(tiffs_that_are_damaged_are_refused_with_libtiffs_reason)
          RUN(jpeg_2000_of_other_colors_is_refused_by_name)
          RUN(bmps_that_are_not_read_are_called_what_they_are)
    RUN(run_lengths_of_a_bmp_that_do_not_fill_it_are_damage)
          RUN(homographies_are_relative_to_the_picture_as_it_is_seen)
          RUN_ARCHIVES)
#endif
