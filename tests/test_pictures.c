/* test_pictures.c - JPEG and stills: the pixels that Pillow has of them, and what they say of themselves; damage that
 * is noticed; nothing of one picture in the next. tests/data/pictures has what libavcodec does not encode, beside it
 * Pillow's pixels, and the program that made both. */
#include "../benzina.c"
#include "test.h"

#ifdef BENZINA_NO_AVCODEC
TEST(pictures_are_decoded) { SKIP("built without libavcodec"); }
TEST_MAIN(RUN(pictures_are_decoded))
#else
#include <libavutil/imgutils.h>
#include <libavutil/opt.h>

#define DATA "tests/data/pictures/"
enum { W = 40, H = 25, PIXELS = W * H };      /* of every picture there */

/* ---- Files and pictures ------------------------------------------------------------------------------------------ */

/* Bytes in memory of exactly their size, so that a sanitizer sees every step outside. */
typedef struct bytes {
    uint8_t *data;
    size_t   size;
} bytes;

static bzna_context *context;
static bzna_decoder *decoder;                 /* the one that has seen every picture of this binary */

static bytes bytes_make(const void *data, size_t size)
{
    bytes b = { malloc(size ? size : 1), size };
    if (!b.data)
        abort();
    if (data && size)
        memcpy(b.data, data, size);
    return b;
}

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

/* The bytes before `at`, others, and those from `after`. */
static bytes spliced(bytes b, size_t at, const void *insert, size_t size, size_t after)
{
    bytes s = bytes_make(NULL, at + size + (b.size - after));
    memcpy(s.data, b.data, at);
    if (size)
        memcpy(s.data + at, insert, size);
    memcpy(s.data + at + size, b.data + after, b.size - after);
    return s;
}

/* Where these bytes are; the end where they are not. */
static size_t find(bytes b, size_t from, const void *what, size_t size)
{
    while (from + size <= b.size && memcmp(b.data + from, what, size))
        from++;
    return from + size <= b.size ? from : b.size;
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

static bzna_error last;                       /* of look */
static bzna_picture seen;                     /* likewise */

/* The picture as it is seen, R, G, B in 0..255, row by row, by an identity warp; NULL: last says why. */
static float *look(bzna_decoder *d, const bzna_image *image)
{
    bzna_transform t;
    bzna_output o;
    float *pixels = NULL;
    size_t size;
    bzna_error_init(&last, sizeof last);
    bzna_picture_init(&seen, sizeof seen);
    if (bzna_decoder_decode(d, image, &seen, &last) != BZNA_OK)
        return NULL;
    bzna_transform_init(&t, sizeof t);
    bzna_output_init(&o, sizeof o);
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
    if (!decoder)
        decoder = decoder_new();
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
};

TEST(jpegs_of_every_kind_have_pillows_pixels)
{
    for (size_t i = 0; i < COUNT(jpegs); i++)
        check_fixture(jpegs[i].name, BZNA_CODEC_JPEG, jpegs[i].tolerance);
}

TEST(jpegs_come_as_their_own_planes)
{
    for (size_t i = 0; i < COUNT(jpegs); i++) {
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
    bzna_output_init(&o, sizeof o);
    o.width = W;
    o.height = H;
    o.layout = BZNA_LAYOUT_NHWC;
    CHECK_EQ(bzna_decoder_decode(decoder, &image, &seen, &last), BZNA_OK);
    CHECK_EQ(bzna_picture_render(&seen, &t, &o, forced, sizeof forced, &last), BZNA_OK);
    CHECK(!memcmp(plain, forced, sizeof forced));
    free(plain);
    free(b.data);
}

TEST(a_jpeg_that_ends_anywhere_is_damaged)
{
    static const char *const names[] = { "jpeg_420_progressive.jpg", "jpeg_422_restarts.jpg", "jpeg_rgb_adobe.jpg" };
    for (size_t i = 0; i < COUNT(names); i++) {
        bytes whole = fixture(names[i]);
        for (size_t size = 4; size < whole.size; size += i ? 7 : 1) {
            bytes b = bytes_make(whole.data, size);
            check_refused(BZNA_CODEC_JPEG, b, BZNA_E_DECODE, "truncated");
            CHECK(last.byte_offset <= size);
            free(b.data);
        }
        free(whole.data);
    }
}

TEST(coded_data_that_end_before_the_end_marker_are_damage)
{
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
    bytes whole = fixture("jpeg_422_restarts.jpg");
    size_t third = find(whole, 0, "\xff\xd2", 2), end = whole.size - 2;
    bytes lost = spliced(whole, third, NULL, 0, third + 2), more = spliced(whole, end, "\xff\xd0\xff\xd1", 4, end);
    bytes one_more;
    size_t highest = 0;
    uint8_t marker[2] = { 0xff, 0 };
    check_refused(BZNA_CODEC_JPEG, lost, BZNA_E_DECODE, "restart markers are out of order");
    CHECK_EQ(last.byte_offset > third, 1);
    for (size_t at = 0; at + 1 < whole.size; at++)          /* the last one: what follows it in order */
        if (whole.data[at] == 0xff && (whole.data[at + 1] & 0xf8) == 0xd0)
            highest = at;
    marker[1] = (uint8_t)(0xd0 + (whole.data[highest + 1] + 1) % 8);
    free(more.data);
    one_more = spliced(whole, end, marker, 2, end);
    free(look_at(BZNA_CODEC_JPEG, one_more, 0));
    CHECK_EQ(last.status, BZNA_OK);
    marker[1] = (uint8_t)(0xd0 + (marker[1] + 1) % 8);
    more = spliced(one_more, end + 2, marker, 2, end + 2);
    check_refused(BZNA_CODEC_JPEG, more, BZNA_E_DECODE, "restart markers are missing, or too many");
    free(more.data);
    free(one_more.data);
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
    bytes whole = fixture("jpeg_rgb_adobe.jpg");
    static const uint8_t markers[] = { 0xdb, 0xc4 };
    for (size_t i = 0; i < COUNT(markers); i++) {
        bytes b = without(whole, markers[i]);
        free(look_at(BZNA_CODEC_JPEG, whole, 0));
        CHECK_EQ(last.status, BZNA_OK);
        check_refused(BZNA_CODEC_JPEG, b, BZNA_E_DECODE, "a scan uses a table that the picture does not define");
        CHECK(last.byte_offset > find(b, 0, "\xff\xda", 2) && last.byte_offset < b.size);
        free(b.data);
    }
    free(whole.data);
}

TEST(jpegs_that_are_not_decoded_are_refused_by_name)
{
    static const struct { uint8_t marker; const char *name; } codings[] = {
        { 0xc3, "lossless" }, { 0xc5, "hierarchical" }, { 0xc7, "lossless" }, { 0xc9, "arithmetic" },
        { 0xca, "arithmetic" }, { 0xcb, "lossless" }, { 0xcd, "hierarchical" }, { 0xf7, "JPEG-LS" } };
    bytes b = fixture("jpeg_440.jpg");
    size_t frame = find(b, 0, "\xff\xc0", 2);
    for (size_t i = 0; i < COUNT(codings); i++) {
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
    b = fixture("jpeg_ycck.jpg");
    b.data[find(b, 0, "Adobe", 5) + 11] = 1;
    check_refused(BZNA_CODEC_JPEG, b, BZNA_E_CODEC, "four components");
    free(b.data);
}

TEST(a_jpeg_has_500_scans_at_most)
{
    bytes whole = fixture("jpeg_420_progressive.jpg"), b;
    size_t at = 0, next, scan;
    while ((next = find(whole, at + 1, "\xff\xda", 2)) < whole.size)
        at = next;
    scan = whole.size - 2 - at;
    b = bytes_make(whole.data, whole.size + 500 * scan);
    for (size_t i = 0; i <= 500; i++)
        memcpy(b.data + at + i * scan, whole.data + at, scan);
    memcpy(b.data + b.size - 2, "\xff\xd9", 2);
    check_refused(BZNA_CODEC_JPEG, b, BZNA_E_LIMIT, "more than 500 scans");
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

TEST_MAIN(RUN(jpegs_of_every_kind_have_pillows_pixels)
          RUN(jpegs_come_as_their_own_planes)
          RUN(a_forced_matrix_or_a_containers_color_does_not_change_rgb)
          RUN(a_jpeg_that_ends_anywhere_is_damaged)
          RUN(coded_data_that_end_before_the_end_marker_are_damage)
          RUN(restart_markers_that_are_missing_or_out_of_order_are_damage)
          RUN(tables_of_a_picture_before_are_not_used)
          RUN(jpegs_that_are_not_decoded_are_refused_by_name)
          RUN(a_jpeg_has_500_scans_at_most)
          RUN(absurd_sizes_are_refused_before_decoding)
          RUN(what_is_not_the_picture_does_no_harm)
          RUN(an_exif_segment_of_any_bytes_does_no_harm)
          RUN(sizes_are_the_streams_or_agree_with_it)
          RUN(the_bytes_of_a_jpeg_are_a_stream_as_they_are)
          RUN(what_bzna_image_says_wrongly_is_named)
          RUN(all_orientations_turn_the_picture_exactly))
#endif
