/* test_heif.c - HEIF and AVIF, by the codec in examples/formats/heif.c: the pixels that libheif has of them, turned and
 * cut; what they say of themselves; grids, of which only the tiles that a warp reads are decoded; damage.
 * tests/data/heif has the files, and the program that made them. */
#include "library.h"
#include "test.h"
#include <time.h>
#ifdef TEST_NVDEC
#  include "../fake/nvdec.h"
#  define TEST_PLACE "nvdec"
#else
#  define TEST_NVDEC 0
#  define TEST_PLACE "cpu"
#endif
#include "heif.h"                     /* before bytes.h, which has a type of that name */
#include "open_formats.h"
#include "recordio.h"
#include "tars.h"
#include "bytes.h"

#define DATA "tests/data/heif/"

static const struct {
    const char *name;
    uint32_t    codec, beside;        /* a grid's own, any other one's that is unwrapped */
} files[] = {
    { "still.heic", BZNA_CODEC_OWN, 0 },        { "still_10.heic", BZNA_CODEC_OWN, 0 },
    { "thumb.heic", BZNA_CODEC_H265, 1 | 4 },    { "idat.heic", BZNA_CODEC_H265, 0 },
    { "wide.heic", BZNA_CODEC_H265, 0 },         { "pieces.heic", BZNA_CODEC_H265, 0 },
    { "identity.heic", BZNA_CODEC_H265, 4 },     { "grid.heic", BZNA_CODEC_OWN, 0 },
    { "sequence.heics", BZNA_CODEC_H265, 0 },    { "still_jpeg.heif", BZNA_CODEC_JPEG, 0 },
    { "still_h264.heic", BZNA_CODEC_H264, 0 },   { "grid_jpeg.heif", BZNA_CODEC_OWN, 4 },
    { "no_color.heic", BZNA_CODEC_H264, 0 },
    { "still.avif", BZNA_CODEC_AV1, 0 },         { "layered.avif", BZNA_CODEC_AV1, 0 },
    { "gray.avif", BZNA_CODEC_AV1, 0 },          { "limited_709.avif", BZNA_CODEC_AV1, 0 },
    { "rgb.avif", BZNA_CODEC_AV1, 0 },           { "depth_10.avif", BZNA_CODEC_AV1, 0 },
    { "alpha.avif", BZNA_CODEC_AV1, 2 | 4 },     { "grid.avif", BZNA_CODEC_OWN, 0 },
    { "crop.avif", BZNA_CODEC_AV1, 0 },          { "crop_turned.avif", BZNA_CODEC_AV1, 0 },
    { "turned_0_0.avif", BZNA_CODEC_AV1, 0 },    { "turned_0_1.avif", BZNA_CODEC_AV1, 0 },
    { "turned_1.avif", BZNA_CODEC_AV1, 0 },      { "turned_1_0.avif", BZNA_CODEC_AV1, 0 },
    { "turned_1_1.avif", BZNA_CODEC_AV1, 0 },    { "turned_2.avif", BZNA_CODEC_AV1, 0 },
    { "turned_2_0.avif", BZNA_CODEC_AV1, 0 },    { "turned_2_1.avif", BZNA_CODEC_AV1, 0 },
    { "turned_3.avif", BZNA_CODEC_AV1, 0 },      { "turned_3_0.avif", BZNA_CODEC_AV1, 0 },
    { "turned_3_1.avif", BZNA_CODEC_AV1, 0 },
};

static bzna_context *context;
static bzna_decoder *decoder;
static bzna_error err;

static void setup(void)
{
    (void)decoder;                    /* without libavcodec */
    bzna_error_init(&err, sizeof err);
    if (!context && !(context = heif_context(NULL)))
        exit(1);
#ifndef BENZINA_NO_AVCODEC
    if (!decoder && bzna_decoder_open(context, &decoder, &err) != BZNA_OK)
        exit(1);
#endif
}

static bytes file_read(const char *name, const char *suffix)
{
    char path[256];
    FILE *file;
    bytes b = { NULL, 0 };
    uint8_t data[16384];
    snprintf(path, sizeof path, DATA "%s%s", name, suffix);
    if (!(file = fopen(path, "rb"))) {
        printf("cannot read %s\n", path);
        exit(1);
    }
    b = bytes_make(data, fread(data, 1, sizeof data, file));
    fclose(file);
    return b;
}

static bzna_dataset *open_bytes(bytes b)
{
    setup();
    return heif_open_bytes(context, b.data, b.size, &err);
}

/* The picture of a file in memory, or why not; its pointers go into copy, where an item in pieces follows the file. */
static bzna_status read_image(bytes b, const char *name, bytes *copy, bzna_image *image)
{
    bzna_dataset *dataset = open_bytes(b);
    bzna_status status = err.status;
    *copy = bytes_make(NULL, 2 * b.size + 256);
    bzna_image_init(image, sizeof *image);
    if (dataset)
        status = bzna_dataset_read_image(dataset, 0, name, copy->data, copy->size, image, &err);
    bzna_dataset_close(dataset);
    return status;
}

TEST(files_say_what_they_are_and_what_they_hold_beside_their_picture)
{
    for (size_t i = 0; i < COUNT(files); i++) {
        bytes b = file_read(files[i].name, ""), mean = file_read(files[i].name, ".mean");
        bzna_dataset *dataset = open_bytes(b);
        bzna_image_info info = { .struct_size = sizeof info };
        uint32_t turned;
        if (!dataset || bzna_dataset_image_info(dataset, 0, NULL, &info, sizeof info, &err) != BZNA_OK) {
            printf("  %s: %s\n", files[i].name, err.message);
            test_failures++;
        } else {
            turned = info.orientation > 4;
            CHECK_EQ(info.codec, files[i].codec);
            CHECK_EQ(turned ? info.height : info.width, bzi_be16(mean.data));
            CHECK_EQ(turned ? info.width : info.height, bzi_be16(mean.data + 2));
            if (bzna_formats_heif_beside(b.data, b.size) != files[i].beside)
                printf("  %s\n", files[i].name);
            CHECK_EQ(bzna_formats_heif_beside(b.data, b.size), files[i].beside);
        }
        bzna_dataset_close(dataset);
        free(mean.data);
        free(b.data);
    }
}

/* ---- Damage: refused with place and offset, whatever decodes ----------------------------------------------------- */

static void check_refused(bytes b, bzna_status status, const char *part)
{
    bzna_image image;
    bytes copy;
    bzi_format format;
    bzna_picture picture;
    bzna_status got = read_image(b, NULL, &copy, &image);
    const bzi_image alone = bzi_image_alone(&image);
    if (got == BZNA_OK && image.codec < BZNA_CODEC_OWN)
        got = bzi_picture_describe(&alone, 16384, &format, &picture, &err);
    CHECK_EQ(got, status);
    CHECK_CONTAINS(err.message, part);
    free(copy.data);
}

/* A file with one field changed: `at` bytes behind the first place where kind stands. */
static void check_changed(const char *name, const char *kind, size_t at, const char *to, size_t size,
                          bzna_status status, const char *part)
{
    bytes b = file_read(name, "");
    size_t place = find(b, 0, kind, 4);
    if (place + at + size > b.size) {
        printf("  %s has no %s\n", name, kind);
        test_failures++;
    } else {
        memcpy(b.data + place + at, to, size);
        check_refused(b, status, part);
    }
    free(b.data);
}

TEST(items_that_lie_nowhere_are_refused_with_box_and_offset)
{
    check_changed("still.avif", "iloc", 18, "\x7f\xff\xff\xff", 4, BZNA_E_BOX, "HEIF: iloc at byte ");
    check_changed("still.avif", "iloc", 22, "\x7f\xff\xff\xff", 4, BZNA_E_BOX,
                  "goes past the end, or overlaps another");
    check_changed("still.avif", "iloc", 16, "\0\0", 2, BZNA_E_BOX, "does not say where item 1 is");
    check_changed("still.avif", "iloc", 16, "\xff\xff", 2, BZNA_E_BOX, "goes past the end, or overlaps another");
    check_changed("still.avif", "iloc", 14, "\0\1", 2, BZNA_E_UNSUPPORTED, "another file");
    check_changed("still.avif", "iloc", 12, "\0\2", 2, BZNA_E_BOX, "does not say where item 1 is");
    check_changed("still.avif", "iloc", 8, "\x34", 1, BZNA_E_BOX, "iloc at byte ");
    check_changed("idat.heic", "iloc", 14, "\0\2", 2, BZNA_E_UNSUPPORTED, "construction method 2");
    check_changed("idat.heic", "idat", 0, "free", 4, BZNA_E_BOX, "iloc at byte ");
    check_changed("pieces.heic", "iloc", 24, "\0\0\2\0", 4, BZNA_E_BOX, "iloc at byte ");
    check_changed("still.avif", "iloc", 0, "free", 4, BZNA_E_BOX, "does not say where item 1 is");
}

TEST(properties_that_are_missing_or_contradict_the_stream_are_refused)
{
    check_changed("still.avif", "ispe", 8, "\0\0\0\x29", 4, BZNA_E_MISMATCH, "41x24");
    check_changed("still.avif", "ispe", 8, "\0\0\0\0", 4, BZNA_E_MISMATCH, "its container says 0x24");
    check_changed("still.avif", "ispe", 0, "free", 4, BZNA_E_MISMATCH, "its container says 0x0");
    check_changed("wide.heic", "hvcC", 0, "free", 4, BZNA_E_UNSUPPORTED, "free at byte ");
    check_changed("wide.heic", "ipma", 16, "\xff", 1, BZNA_E_LIMIT, "255 properties, more than 32");
    check_changed("wide.heic", "ipma", 17, "\xff\xff", 2, BZNA_E_BOX, "of item 70000 is not in ipco");
    check_changed("wide.heic", "ipma", 0, "free", 4, BZNA_E_DECODE, "the access unit has no picture");
    check_changed("crop.avif", "clap", 4, "\0\1\0\0", 4, BZNA_E_BOX, "clap at byte ");
    check_changed("crop.avif", "clap", 8, "\0\0\0\0", 4, BZNA_E_BOX, "is not within the picture");
    check_changed("grid.avif", "ispe", 8, "\0\0\0\xc1", 4, BZNA_E_BOX,
                  "193x128 pixels are 4 x 2 tiles of 64x64, of which 6");
}

TEST(properties_that_ask_for_one_of_several_layers_are_refused)
{
    check_changed("layered.avif", "lsel", 4, "\0\1", 2, BZNA_E_UNSUPPORTED, "lsel at byte 241: ");
    check_changed("layered.avif", "a1op", 4, "\1", 1, BZNA_E_UNSUPPORTED, "a1op at byte 251: ");
}

/* MIAF says what an unsaid color is, HEIF does not: it is the stream's, or what is usual for its codec. */
TEST(an_unsaid_color_is_miafs_where_the_file_says_that_it_is_miaf)
{
    bytes b = file_read("no_color.heic", ""), copy;
    const size_t brand = find(b, 0, "mif1", 4);
    bzna_image image;
    CHECK_EQ(read_image(b, NULL, &copy, &image), BZNA_OK);
    CHECK(image.color.full_range == 0);
    free(copy.data);
    REQUIRE(brand < b.size);
    memcpy(b.data + brand, "miaf", 4);
    CHECK_EQ(read_image(b, NULL, &copy, &image), BZNA_OK);
    CHECK(image.color.full_range == 1);
    free(copy.data);
    free(b.data);
}

TEST(items_that_are_absent_of_other_kinds_or_in_circles_are_refused)
{
    bytes b = file_read("overlay.heic", "");
    check_refused(b, BZNA_E_UNSUPPORTED, "iovl at byte 182: the picture, item 2, is of a type that is not read");
    free(b.data);
    check_changed("still.avif", "pitm", 8, "\0\x9", 2, BZNA_E_BOX, "meta/iinf: there is no item 9");
    check_changed("still.avif", "pitm", 8, "\0\0", 2, BZNA_E_UNSUPPORTED, "neither a primary item nor a track");
    check_changed("still.avif", "infe", 10, "\0\1", 2, BZNA_E_UNSUPPORTED, "is encrypted");
    check_changed("still.avif", "infe", 12, "hvc2", 4, BZNA_E_UNSUPPORTED, "hvc2 at byte ");
    check_changed("identity.heic", "dimg", 8, "\0\2", 2, BZNA_E_BOX, "does not lead to one");       /* but to itself */
    check_changed("identity.heic", "dimg", 6, "\0\0", 2, BZNA_E_BOX, "does not lead to one");
    check_changed("sequence.heics", "pict", 0, "auxv", 4, BZNA_E_UNSUPPORTED, "track of pictures");
    check_changed("sequence.heics", "stco", 12, "\x7f\0\0\0", 4, BZNA_E_BOX, "index entry 0");
}

TEST(grids_that_do_not_fit_are_refused)
{
    bytes b = file_read("grid.avif", "");
    const size_t dimg = find(b, 0, "dimg", 4), ispe = find(b, 0, "ispe", 4);
    const struct { uint8_t width, height; bzna_status status; const char *part; } sizes[] = {
        { 0, 128, BZNA_E_BOX, "grid at byte 246: 0x128 pixels are 0 x 2 tiles of 64x64, of which 6 are named" },
        { 129, 192, BZNA_E_BOX, "129x192 pixels are 3 x 3 tiles" }, { 192, 64, BZNA_E_BOX, "3 x 1 tiles" },
        { 128, 128, BZNA_E_BOX, "2 x 2 tiles of 64x64, of which 6" },
    };
    REQUIRE(dimg < b.size && ispe < b.size);
    for (size_t i = 0; i < COUNT(sizes); i++) {
        b.data[ispe + 11] = sizes[i].width;
        b.data[ispe + 15] = sizes[i].height;
        check_refused(b, sizes[i].status, sizes[i].part);
    }
    b.data[ispe + 11] = 192;
    b.data[ispe + 15] = 128;
    b.data[dimg + 9] = b.data[dimg + 5];                    /* a tile that is the grid */
    check_refused(b, BZNA_E_UNSUPPORTED, "grid at byte 246: the picture, item 1, is of a type that is not read");
    b.data[dimg + 9] = 99;
    check_refused(b, BZNA_E_BOX, "there is no item 99");
    free(b.data);
}

TEST(grids_of_more_tiles_than_are_read_are_refused)
{
    bytes b = file_read("crowded.heic", "");
    check_refused(b, BZNA_E_LIMIT, "45 x 45 tiles of 64x64, of which 2025 are named (at most 1024)");
    free(b.data);
}

/* The same file, of whose 2025 references the grid keeps so many, and another kind has the rest. */
static bytes crowd(uint32_t columns, uint32_t rows)
{
    bytes b = file_read("crowded.heic", "");
    const uint32_t tiles = columns * rows, left = 45 * 45 - tiles;
    const size_t dimg = find(b, 0, "dimg", 4), size = find(b, 0, "idat", 4) + 4, ispe = find(b, 0, "ispe", 4);
    uint8_t *grid = b.data + size, *whole = b.data + find(b, ispe + 4, "ispe", 4) + 8, *p = b.data + dimg - 4;
    for (int i = 0; i < 2; i++) {
        const uint32_t edge = 64 * (i ? rows : columns);
        grid[2 + i] = (uint8_t)((i ? columns : rows) - 1);
        grid[4 + 2 * i] = (uint8_t)(edge >> 8);
        grid[5 + 2 * i] = (uint8_t)edge;
        memcpy(whole + 4 * i, (const uint8_t[]){ 0, 0, (uint8_t)(edge >> 8), (uint8_t)edge }, 4);
    }
    for (int i = 0; i < 2; i++) {                           /* boxes: size, type, the item, its references' number */
        const uint32_t count = i ? left - 6 : tiles, size_ = 12 + 2 * count;
        memcpy(p, (const uint8_t[]){ 0, 0, (uint8_t)(size_ >> 8), (uint8_t)size_ }, 4);
        memcpy(p + 4, i ? "cdsc" : "dimg", 4);
        memcpy(p + 8, (const uint8_t[]){ 0, i ? 1 : 2, (uint8_t)(count >> 8), (uint8_t)count }, 4);
        p += size_;
    }
    return b;
}

TEST(a_grid_has_1024_tiles_at_most)
{
    static const struct { uint32_t columns, rows; bzna_status status; } cases[] = {
        { 32, 32, BZNA_OK }, { 25, 41, BZNA_E_LIMIT }, { 16, 64, BZNA_OK } };
    for (size_t i = 0; i < COUNT(cases); i++) {
        bytes b = crowd(cases[i].columns, cases[i].rows);
        bzna_image_info info = { .struct_size = sizeof info };
        bzna_dataset *dataset = NULL;
        if (cases[i].status == BZNA_OK) {
            dataset = open_bytes(b);
            REQUIRE(dataset);
            CHECK_EQ(bzna_dataset_image_info(dataset, 0, NULL, &info, sizeof info, NULL), BZNA_OK);
            CHECK(info.width == 64 * cases[i].columns && info.height == 64 * cases[i].rows);
        } else {
            check_refused(b, BZNA_E_LIMIT, "25 x 41 tiles of 64x64, of which 1025 are named (at most 1024)");
        }
        bzna_dataset_close(dataset);
        free(b.data);
    }
}

/* Tiles are 64 pixels wide and high, and the picture is one more. */
TEST(the_last_row_and_column_of_a_grid_may_show_one_pixel)
{
    bytes b = crowd(2, 2);
    const size_t ispe = find(b, 0, "ispe", 4);
    uint8_t *grid = b.data + find(b, 0, "idat", 4) + 4, *whole = b.data + find(b, ispe + 4, "ispe", 4) + 8;
    bzna_image_info info = { .struct_size = sizeof info };
    bzna_dataset *dataset;
    memcpy(grid + 4, "\0\x41\0\x41", 4);
    memcpy(whole, "\0\0\0\x41\0\0\0\x41", 8);
    dataset = open_bytes(b);
    REQUIRE(dataset);
    CHECK_EQ(bzna_dataset_image_info(dataset, 0, NULL, &info, sizeof info, NULL), BZNA_OK);
    CHECK(info.width == 65 && info.height == 65);
    bzna_dataset_close(dataset);
    free(b.data);
}

/* The item of still.avif in two extents with a byte between them, of which the first has so many bytes: the temporal
 * delimiter has two, the sequence header behind it eleven, the frame the rest. */
static bytes avif_in_pieces(uint32_t first)
{
    bytes still = file_read("still.avif", ""), b = bytes_make(NULL, still.size + 9);
    const size_t iloc = find(still, 0, "iloc", 4), meta = find(still, 0, "meta", 4), mdat = find(still, 0, "mdat", 4);
    const size_t extent = iloc + 18, cut = mdat + 4 + first, size = still.size - mdat - 4;
    const size_t numbers[4] = { mdat + 12, first, cut + 9, size - first };
    memcpy(b.data, still.data, extent + 8);
    memcpy(b.data + extent + 16, still.data + extent + 8, cut - extent - 8);
    memcpy(b.data + cut + 9, still.data + cut, still.size - cut);
    b.data[cut + 8] = 0xee;
    b.data[iloc - 1] = (uint8_t)(b.data[iloc - 1] + 8);
    b.data[meta - 1] = (uint8_t)(b.data[meta - 1] + 8);
    b.data[mdat + 7] = (uint8_t)(b.data[mdat + 7] + 1);
    b.data[extent - 1] = 2;
    for (size_t i = 0; i < 16; i++)
        b.data[extent + i] = (uint8_t)(numbers[i / 4] >> (8 * (3 - i % 4)));
    free(still.data);
    return b;
}

TEST(an_avif_in_pieces_is_unwrapped_wherever_it_is_cut)
{
    bytes whole = file_read("still.avif", ""), expected;
    bzna_image image, other;
    CHECK_EQ(read_image(whole, NULL, &expected, &image), BZNA_OK);
    for (uint32_t first = 1; first < image.data_size; first++) {
        bytes b = avif_in_pieces(first), copy;
        CHECK_EQ(read_image(b, NULL, &copy, &other), BZNA_OK);
        CHECK(other.data_size == image.data_size && !memcmp(other.data, image.data, (size_t)image.data_size));
        CHECK(other.config_size == image.config_size && !memcmp(other.config, image.config, (size_t)image.config_size));
        free(copy.data);
        free(b.data);
    }
    free(expected.data);
    free(whole.data);
}

/* ---- What could go in circles, or on without end, and where it ends ----------------------------------------------
 *     an identity item of itself, or in a circle               at the eighth: items_that_are_absent_...
 *     a grid of itself, or of grids                            no tile is a grid: grids_that_do_not_fit_...
 *     an item in other items' bytes (construction method 2)    not read: items_that_lie_nowhere_...
 *     a thumbnail or alpha of itself, or in a circle           these are followed for one step
 *     properties that are not there, or too many of an item    refused: properties_that_are_missing_...
 *     an item that ipma lists again and again                  the first time counts: below
 *     as many items, references and tiles as boxes have room   HEIF_ITEMS, HEIF_TILES: below */

static uint8_t *put_number(uint8_t *to, uint64_t number, int size)
{
    for (int i = 0; i < size; i++)
        to[i] = (uint8_t)(number >> (8 * (size - 1 - i)));
    return to + size;
}

/* The box that began at `begin` and ends here, of version 0 if it has one. */
static uint8_t *end_box(uint8_t *begin, uint8_t *end, const char *type)
{
    put_number(begin, (uint64_t)(end - begin), 4);
    memcpy(begin + 4, type, 4);
    return end;
}

/* Item 1, a grid of so many tiles; items up to that number; ipma lists item 1 so often, with 32 properties of 4000. */
static bytes hostile_file(uint32_t tiles, uint32_t items, uint32_t listed)
{
    bytes b = bytes_make(NULL, 6000000);
    uint8_t *p = b.data, *meta, *outer, *inner;
    memset(p, 0, b.size);
    memcpy(p, "\0\0\0\x10" "ftypheic\0\0\0", 16);
    meta = p + 16;
    p = end_box(meta + 12, put_number(meta + 24, 1, 2), "pitm");
    p = put_number((outer = p) + 12, items, 2);
    for (uint32_t i = 1; i <= items; i++) {
        put_number((inner = p) + 8, 2, 1);
        put_number(p + 12, i, 2);
        memcpy(p + 16, i > 1 ? "iden" : "grid", 4);
        p = end_box(inner, p + 21, "infe");
    }
    p = end_box(outer, p, "iinf");
    inner = (outer = p) + 12;
    p = put_number(put_number(inner + 8, 1, 2), tiles, 2);
    for (uint32_t i = 0; i < tiles; i++)
        p = put_number(p, i % items + 1, 2);
    p = end_box(outer, end_box(inner, p, "dimg"), "iref");
    inner = (outer = p) + 8;
    p = inner + 8;
    for (uint32_t i = 0; i < 4000; i++)
        p = end_box(p, p + 8, "free");
    p = end_box(inner, p, "ipco");
    put_number((inner = p) + 8, 1, 4);                      /* numbers of two bytes */
    p = put_number(p + 12, listed, 4);
    for (uint32_t i = 0; i < listed; i++) {
        p = put_number(put_number(p, 1, 2), 32, 1);
        for (int k = 0; k < 32; k++)
            p = put_number(p, 4000, 2);
    }
    p = end_box(outer, end_box(inner, p, "ipma"), "iprp");
    p = end_box(meta, p, "meta");
    b.size = (size_t)(p - b.data);
    return b;
}

TEST(what_is_listed_or_referred_to_again_and_again_costs_no_time)
{
    static const struct { uint32_t tiles, items, listed; bzna_status status; const char *part; } cases[] = {
        { 6, 4, 4096, BZNA_E_UNSUPPORTED, "grid at byte 76: the picture, item 1, is of a type that" },
        { 6, 4, 65535, BZNA_E_UNSUPPORTED, "grid at byte 76: the picture, item 1, is of a type that" },
        { 65535, 4000, 1, BZNA_E_UNSUPPORTED, "grid at byte 76: the picture, item 1, is of a type that" },
        { 65535, 65535, 1, BZNA_E_UNSUPPORTED, "grid at byte 76: the picture, item 1, is of a type that" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const clock_t begin = clock();                      /* the processor's: other programs do not count */
        bytes b = hostile_file(cases[i].tiles, cases[i].items, cases[i].listed);
        check_refused(b, cases[i].status, cases[i].part);
        CHECK((double)(clock() - begin) < 0.5 * CLOCKS_PER_SEC * (SANITIZED ? 10 : 1));
        free(b.data);
    }
}

/* The payloads of iinf, iloc and ipma, each with so many items, of which the last one has the property. */
TEST(of_a_file_4096_items_are_looked_at)
{
    enum { MOST = 4097 };
    static uint8_t iinf[6 + 21 * MOST], iloc_box[12 + 14 * MOST], iprp[16 + 3 * MOST + 1];
    uint8_t *const iloc = iloc_box + 4;                     /* messages show the type before it */
    static uint8_t ispe[20] = { [3] = 20, [4] = 'i', 's', 'p', 'e', [15] = 7, [19] = 9 };
    for (uint32_t items = MOST - 1; items <= MOST; items++) {
        const int is_seen = items < MOST;
        bzna_error e = { 0 };
        heif h = { .file = { iinf, sizeof iinf, 0 }, .err = &e, .ipco = { ispe, sizeof ispe, 0 } };
        heif_item item = { .id = items };
        uint8_t *n = iinf, *l = put_number(iloc + 4, 0x4400, 2), *a = iprp + 12;
        l = put_number(l, items, 2);
        a = put_number(a, items, 4);
        for (uint32_t id = 1; id <= items; id++) {
            n = put_number(put_number(n, 21, 4), formats_type("infe"), 4);
            n = put_number(put_number(put_number(n, 2u << 24, 4), id, 2), 0, 2);
            n = put_number(put_number(n, formats_type("hvc1"), 4), 0, 1);
            l = put_number(put_number(put_number(l, id, 2), 0, 2), 1, 2);
            l = put_number(put_number(l, id, 4), 1, 4);
            a = put_number(put_number(a, id, 2), id == items, 1);
        }
        end_box(iprp, put_number(a, 1, 1), "ipma");
        h.iinf = (formats_bytes){ iinf, (uint64_t)(n - iinf), 0 };
        h.iloc = (formats_bytes){ iloc, (uint64_t)(l - iloc), 0 };
        h.iprp = (formats_bytes){ iprp, (uint64_t)(a + 1 - iprp), 0 };
        CHECK_EQ(heif_item_bytes(&h, &item), is_seen ? BZNA_OK : BZNA_E_BOX);
        CHECK(is_seen ? item.image.data == iinf + items : strstr(e.message, "does not say where item 4097 is") != NULL);
        CHECK_EQ(heif_properties(&h, items, &item), BZNA_OK);
        CHECK(item.image.width == (is_seen ? 7 : 0) && item.image.height == (is_seen ? 9 : 0));
        CHECK_EQ(heif_find(&h, items, 0, &item), is_seen ? BZNA_OK : BZNA_E_BOX);
        CHECK(is_seen || strstr(e.message, "there is no item 4097"));
    }
}

TEST(an_item_has_32_properties_at_most)
{
    for (int count = 32; count <= 33; count++) {
        bytes b = file_read("still.heic", ""), copy;
        const size_t ipma = find(b, 0, "ipma", 4);
        bzna_image image;
        b.data[ipma + 19] = (uint8_t)count;                 /* what the picture, item 2, has */
        CHECK_EQ(read_image(b, NULL, &copy, &image), count == 32 ? BZNA_E_BOX : BZNA_E_LIMIT);
        if (count == 33)
            CHECK_CONTAINS(err.message, "33 properties, more than 32");
        free(copy.data);
        free(b.data);
    }
}

TEST(files_that_end_early_fail_everywhere)
{
    for (size_t i = 0; i < COUNT(files); i++) {
        bytes b = file_read(files[i].name, "");
        for (size_t size = 0; size < b.size; size++) {
            bytes part = bytes_make(b.data, size), copy;
            bzna_image image;
            CHECK(read_image(part, NULL, &copy, &image) != BZNA_OK);
            free(copy.data);
            free(part.data);
        }
        free(b.data);
    }
}

#ifdef BENZINA_NO_AVCODEC
#define PIXEL_TESTS
#else

/* ---- Pixels ------------------------------------------------------------------------------------------------------ */

static bzna_picture seen;

/* The picture as it is seen, R, G, B in 0..255, row by row; NULL: err says why. */
static float *look(const bzna_image *image, uint32_t *width, uint32_t *height)
{
    bzna_transform t;
    bzna_output o;
    float *pixels;
    size_t size;
    seen = (bzna_picture){ .struct_size = sizeof seen };
    if (bzna_decoder_decode(decoder, image, &seen, &err) != BZNA_OK)
        return NULL;
    bzna_transform_init(&t, sizeof t);
    o = (bzna_output){ .struct_size = sizeof o };
    *width = o.width = bzi_picture_width(&seen);
    *height = o.height = bzi_picture_height(&seen);
    o.layout = BZNA_LAYOUT_NHWC;
    size = 3 * sizeof *pixels * o.width * o.height;
    if (!(pixels = malloc(size)) || bzna_picture_render(&seen, &t, &o, pixels, size, &err) != BZNA_OK)
        abort();
    return pixels;
}

/* The largest difference of a block's mean from what others see. */
static double difference(const float *pixels, uint32_t width, uint32_t height, const uint8_t *mean)
{
    double most = 0;
    for (uint32_t y = 0; y < height / 4; y++)
        for (uint32_t x = 0; x < width / 4; x++)
            for (uint32_t c = 0; c < 3; c++) {
                double sum = 0;
                for (uint32_t i = 0; i < 16; i++)
                    sum += pixels[3 * ((4 * y + i / 4) * width + 4 * x + i % 4) + c];
                most = fmax(most, fabs(sum / 16 - mean[3 * (y * (width / 4) + x) + c]));
            }
    return most;
}

/* About half of what one pixel's move does. libheif repeats chroma, and ffmpeg's R'G'B' is coarser; under alpha,
 * encoders save bits. */
static void check_seen(const char *name, const bzna_image *image)
{
    const int is_limited = !strcmp(name, "sequence.heics") || !strcmp(name, "no_color.heic");
    const double tolerance = !strcmp(name, "alpha.avif") ? 4 : is_limited ? 3.2 : strstr(name, ".avif") ? 1.5 : 2.3;
    bytes mean = file_read(name, ".mean");
    uint32_t width = 0, height = 0;
    float *pixels = look(image, &width, &height);
    if (!pixels || width != bzi_be16(mean.data) || height != bzi_be16(mean.data + 2)) {
        printf("  %s: %ux%u: %s\n", name, width, height, err.message);
        test_failures++;
    } else if (!(difference(pixels, width, height, mean.data + 4) <= tolerance)) {
        printf("  %s: a block is %.2f of 255 from libheif's\n", name,
               difference(pixels, width, height, mean.data + 4));
        test_failures++;
    }
    free(pixels);
    free(mean.data);
}

static int has_decoder(const char *name)
{
    return strstr(name, ".avif") ? avcodec_find_decoder_by_name("libdav1d") != NULL :
                                   avcodec_find_decoder(AV_CODEC_ID_HEVC) != NULL;
}

TEST(pictures_are_as_libheif_sees_them)
{
    for (size_t i = 0; i < COUNT(files); i++) {
        bytes b = file_read(files[i].name, ""), copy;
        bzna_image image;
        if (!has_decoder(files[i].name)) {
            printf("%s: this libavcodec has no decoder\n", files[i].name);
        } else if (read_image(b, NULL, &copy, &image) == BZNA_OK) {
            check_seen(files[i].name, &image);
            bzna_image_init(&image, sizeof image);          /* by itself, a file says all of that, too */
            image.codec = BZNA_CODEC_OWN;
            image.data = b.data;
            image.data_size = b.size;
            check_seen(files[i].name, &image);
            free(copy.data);
        } else {
            printf("  %s: %s\n", files[i].name, err.message);
            test_failures++;
        }
        free(b.data);
    }
}

/* ---- Grids: of which tiles are decoded --------------------------------------------------------------------------- */

static bzna_transform drawn_transform(uint32_t number)
{
    static const uint32_t filters[] = { BZNA_FILTER_LINEAR, BZNA_FILTER_NEAREST, BZNA_FILTER_CUBIC, BZNA_FILTER_AREA,
                                        BZNA_FILTER_LANCZOS4, BZNA_FILTER_LANCZOS3, BZNA_FILTER_CUBIC_075 };
    bzna_transform t;
    bzna_random random;
    double scale, angle;
    bzna_transform_init(&t, sizeof t);
    bzna_random_init(&random, 7, 0, number, 0);
    scale = exp(bzna_random_uniform(&random, -2.5, 1.5));
    angle = number % 3 ? bzna_random_uniform(&random, -3.2, 3.2) : 0;
    t.homography[0] = scale * cos(angle);
    t.homography[1] = -scale * sin(angle);
    t.homography[3] = scale * sin(angle) * bzna_random_uniform(&random, 0.5, 2);
    t.homography[4] = scale * cos(angle) * bzna_random_uniform(&random, 0.5, 2);
    t.homography[2] = bzna_random_uniform(&random, -20, 200);
    t.homography[5] = bzna_random_uniform(&random, -20, 130);
    if (number % 16 == 15)
        t.homography[6] = bzna_random_uniform(&random, -0.05, 0.05);
    t.filter = filters[number % COUNT(filters)];
    t.antialias = t.filter != BZNA_FILTER_AREA && number % 5 == 0 ? BZNA_ANTIALIAS_OFF : 0;
    return t;
}

/* What a loader asks for: the tiles of a part of the frame. */
static void decode_part(const bzna_image *image, bzi_wanted wanted, bzna_picture *picture)
{
    bzi_image alone = bzi_image_alone(image);
    bzi_format format;
    bzna_error e;
    bzna_error_init(&e, sizeof e);
    CHECK_EQ(bzi_own_prepare(&decoder->software.own, &alone, &e), BZNA_OK);
    CHECK_EQ(bzi_picture_describe(&alone, decoder->software.own.host->max_edge_px, &format, picture, &e), BZNA_OK);
    CHECK_EQ(bzi_software_decode(&decoder->software, &alone.coded, &format, wanted, picture, &e), BZNA_OK);
}

/* Planes hold what they were filled with where no tile was decoded: a warp must not read it. */
static uint32_t check_region(const bzna_image *image, const bzna_transform *t)
{
    static float whole[3 * 16 * 16], part[3 * 16 * 16];
    bzna_output o = { .struct_size = sizeof o, .width = 16, .height = 16 };
    const bzi_kernel_output out = bzi_output_make(&o);
    bzi_wanted wanted = { .shrink = 1 };
    bzi_kernel_slot slot;
    uint32_t tiles;
    seen = (bzna_picture){ .struct_size = sizeof seen };
    tiles = atomic_load(&heif_tiles);
    CHECK_EQ(bzna_decoder_decode(decoder, image, &seen, &err), BZNA_OK);
    CHECK_EQ(atomic_load(&heif_tiles) - tiles, 6);
    CHECK_EQ(bzna_picture_render(&seen, t, &o, whole, sizeof whole, &err), BZNA_OK);
    CHECK_EQ(bzi_slot_make(&slot, &seen, t, 0, &err), BZNA_OK);
    wanted.rows = bzi_slot_rows(&slot, &out);
    wanted.columns = bzi_slot_columns(&slot, &out);
    tiles = atomic_load(&heif_tiles);
    decode_part(image, wanted, &seen);
    tiles = atomic_load(&heif_tiles) - tiles;
    CHECK_EQ(bzna_picture_render(&seen, t, &o, part, sizeof part, &err), BZNA_OK);
    if (memcmp(whole, part, sizeof whole)) {
        printf("  filter %u: %u tiles, not all that the warp reads\n", t->filter, tiles);
        test_failures++;
    }
    return tiles;
}

TEST(warps_read_no_tile_that_was_not_decoded)
{
    static const char *const names[] = { "grid.heic", "grid.avif" };
    for (size_t i = 0; i < COUNT(names); i++) {
        bytes b = file_read(names[i], ""), copy;
        uint32_t by_count[7] = { 0 };
        bzna_image image;
        CHECK_EQ(read_image(b, NULL, &copy, &image), BZNA_OK);
        for (uint32_t number = 0; number < ROUNDS(300, 60) && has_decoder(names[i]); number++) {
            const bzna_transform t = drawn_transform(number);
            image.orientation = 1 + number % 8;
            by_count[check_region(&image, &t)]++;
        }
        CHECK(!has_decoder(names[i]) || (by_count[1] && by_count[2] && by_count[4] && by_count[6]));
        free(copy.data);
        free(b.data);
    }
}

/* A loader's crop of 24 x 24 pixels, always at the same place. */
static bzna_status crop(void *user, const bzna_sample_info *sample, bzna_random *random, bzna_transform *t)
{
    const double *place = user;
    (void)sample, (void)random;
    t->homography[0] = t->homography[4] = 1;
    t->homography[2] = place[0];
    t->homography[5] = place[1];
    return BZNA_OK;
}

/* Files as they lie on the disk. */
static bzna_dataset *open_files(bzna_context *on, const char *const *paths, uint64_t count)
{
    static const bzna_provider_field field = { .name = "image", .kind = BZNA_FIELD_IMAGE, .located = 1 };
    static bzna_place places[16];
    const bzna_provider provider = { .struct_size = sizeof provider, .count = count, .fields = &field,
                                     .field_count = 1, .places = places, .files = paths, .file_count = count };
    bzna_dataset *dataset = NULL;
    for (uint64_t i = 0; i < 16; i++)
        places[i] = (bzna_place){ .file = i, .size = BZNA_SIZE_UNKNOWN };
    CHECK_EQ(bzna_dataset_open_provider(on, &provider, NULL, &dataset, &err), BZNA_OK);
    return dataset;
}

TEST(a_loader_decodes_the_tiles_of_its_crop_alone)
{
    static const struct { double place[2]; uint32_t tiles; } crops[] = {
        { { 14, 14 }, 1 }, { { 150, 90 }, 1 }, { { 52, 14 }, 2 }, { { 52, 52 }, 4 }, { { 84, 52 }, 2 },
    };
    static const char *const paths[] = { DATA "grid.avif", DATA "grid.avif", DATA "still.avif" };
    bzna_dataset *dataset;
    if (!has_decoder("grid.avif"))
        SKIP("this libavcodec has no decoder of AV1");
    setup();
    REQUIRE((dataset = open_files(context, paths, 3)) != NULL);
    for (size_t i = 0; i < COUNT(crops); i++) {
        bzna_loader_config config;
        bzna_statistics stats = { .struct_size = sizeof stats };
        bzna_loader *loader = NULL;
        bzna_batch *batch = NULL;
        double place[2] = { crops[i].place[0], crops[i].place[1] };
        bzna_loader_config_init(&config, sizeof config);
        config.output.batch_size = 3;
        config.output.width = config.output.height = 24;
        config.output.device.kind = BZNA_DEVICE_CPU;
        config.pipeline.transform = crop;
        config.pipeline.transform_user = place;
        atomic_store(&heif_tiles, 0);
        CHECK_EQ(bzna_loader_open(context, dataset, &config, &loader, &err), BZNA_OK);
        CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err), BZNA_OK);
        bzna_batch_release(batch);
        CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err), BZNA_END);
        CHECK_EQ(bzna_loader_statistics(loader, &stats, sizeof stats, &err), BZNA_OK);
        CHECK_EQ(stats.samples_failed, 0);
        CHECK_EQ(atomic_load(&heif_tiles), 2 * crops[i].tiles);
        bzna_loader_close(loader);
    }
    bzna_dataset_close(dataset);
}

/* ---- Grids among other pictures ------------------------------------------------------------------------------ */

/* Beside this suite, its twin may run. */
#define DAMAGED(n) TEST_BUILD "/tests/heif_damaged_" #n "_" TEST_PLACE ".heic"

/* A grid of which two tiles are damaged: the first one with bytes of 0xff, the second one with bytes of 0xfe. */
static void damage_tiles(const char *path, uint32_t first, uint32_t second)
{
    const uint32_t tiles[2] = { first, second };
    bytes b = file_read("grid.heic", "");
    FILE *file = fopen(path, "wb");
    heif_state state = { .capacity = 0 };
    heif h;
    heif_item tile;
    bzna_codec_shape shape;
    CHECK_EQ(heif_read(&h, &state, b.data, b.size, &err), BZNA_OK);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(heif_find_tile(&h, tiles[i], &tile, &shape), BZNA_OK);
        memset((uint8_t *)(uintptr_t)tile.image.data + 6, 0xff - i,          /* length, header */
               (size_t)tile.image.data_size - 6);
    }
    REQUIRE(file && fwrite(b.data, 1, b.size, file) == b.size && fclose(file) == 0);
    free(b.data);
}

enum { MIXED = 8, MIXED_SIZE = 3 * 24 * 24, MIXED_BATCHES = 12 };

static bzna_dataset *open_mixed(bzna_context *on)
{
    static const char *const paths[MIXED] = { DATA "grid.heic", DAMAGED(1), DATA "grid.avif", DATA "wide.heic",
                                              DATA "grid.heic", DATA "grid_jpeg.heif", DAMAGED(2), DATA "grid.heic" };
    damage_tiles(DAMAGED(1), 5, 1);
    damage_tiles(DAMAGED(2), 2, 4);
    return open_files(on, paths, MIXED);
}

static bzna_loader *open_mixed_loader(bzna_context *on, bzna_dataset *dataset, uint32_t threads,
                                      uint32_t decoder_kind)
{
    bzna_loader_config config;
    bzna_loader *loader = NULL;
    bzna_loader_config_init(&config, sizeof config);
    config.output.batch_size = MIXED;
    config.output.width = config.output.height = 24;
    config.output.device.kind = BZNA_DEVICE_CPU;
    config.decode.threads = threads;
    config.decode.decoder = decoder_kind;
    config.warp.kind = BZNA_WARP_RANDOM_RESIZED_CROP;
    config.warp.scale[0] = 0.005;
    config.warp.scale[1] = 0.2;
    config.order.epochs = MIXED_BATCHES;
    config.order.seed = 3;
    CHECK_EQ(bzna_loader_open(on, dataset, &config, &loader, &err), BZNA_OK);
    return loader;
}

typedef struct mixed_result {
    float       pixels[MIXED_BATCHES][MIXED][MIXED_SIZE];
    bzna_status status[MIXED_BATCHES][MIXED];
    char        messages[MIXED_BATCHES][MIXED][256];
    uint64_t    nvdec, fallbacks;
} mixed_result;

static void run_mixed(bzna_loader *loader, mixed_result *result)
{
    bzna_statistics stats = { .struct_size = sizeof stats };
    bzna_batch_info info = { .struct_size = sizeof info };
    REQUIRE(loader);
    memset(result, 0, sizeof *result);
    for (uint32_t n = 0; n < MIXED_BATCHES; n++) {
        bzna_batch *batch = NULL;
        CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err), BZNA_OK);
        CHECK_EQ(bzna_batch_get_info(batch, &info, sizeof info, &err), BZNA_OK);
        memcpy(result->pixels[n], info.image.data, sizeof result->pixels[n]);
        memcpy(result->status[n], info.status, sizeof result->status[n]);
        for (uint32_t i = 0; i < MIXED; i++)
            if (info.status[i] != BZNA_OK)
                bzi_string_copy(result->messages[n][i], 256, batch->errors[i].message);
        bzna_batch_release(batch);
    }
    CHECK_EQ(bzna_loader_statistics(loader, &stats, sizeof stats, &err), BZNA_OK);
    result->nvdec = stats.samples_nvdec;
    result->fallbacks = stats.fallbacks;
    bzna_loader_close(loader);
}

/* Crops that touch a damaged tile fail; others, and all other slots, are not disturbed. Messages are the same as far as
 * they say where: "grid.heic: sample 0: tile 1 (item 3)". */
static void check_mixed(const mixed_result *a, const mixed_result *b)
{
    uint32_t failed = 0;
    for (uint32_t n = 0; n < MIXED_BATCHES; n++)
        for (uint32_t i = 0; i < MIXED; i++) {
            failed += a->status[n][i] != BZNA_OK;
            CHECK_EQ(a->status[n][i], b->status[n][i]);
            CHECK(!memcmp(a->pixels[n][i], b->pixels[n][i], sizeof a->pixels[n][i]));
            CHECK(!strncmp(a->messages[n][i], b->messages[n][i], strcspn(a->messages[n][i], ")") + 2));
        }
    CHECK(failed > 4 && failed < 2 * MIXED_BATCHES);
}

static mixed_result one, many;

TEST(any_number_of_threads_gives_the_same_pixels_and_failures)
{
    bzna_dataset *dataset;
    if (!has_decoder("grid.heic") || !has_decoder("grid.avif"))
        SKIP("this libavcodec has no decoder of H.265, or of AV1");
    setup();
    dataset = open_mixed(context);
    run_mixed(open_mixed_loader(context, dataset, 1, BZNA_DECODER_SOFTWARE), &one);
    for (uint32_t threads = 2; threads < 8; threads += 5) {
        run_mixed(open_mixed_loader(context, dataset, threads, BZNA_DECODER_SOFTWARE), &many);
        check_mixed(&one, &many);
    }
    bzna_dataset_close(dataset);
}

TEST(a_loader_can_be_closed_while_tiles_are_decoded)
{
    bzna_dataset *dataset = NULL;
    if (!has_decoder("grid.heic"))
        SKIP("this libavcodec has no decoder of H.265");
    setup();
    dataset = open_mixed(context);
    for (uint32_t round = 0; round < ROUNDS(60, 20); round++) {
        bzna_loader *loader = open_mixed_loader(context, dataset, 1 + round % 6, BZNA_DECODER_SOFTWARE);
        bzna_batch *batch = NULL;
        bzi_os_sleep_ns(200000ull * (round % 11));
        if (round % 3 == 0) {
            CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err), BZNA_OK);
            bzna_batch_release(batch);
        }
        if (round % 3 == 1)
            CHECK_EQ(bzna_loader_reset(loader, 7, &err), BZNA_OK);
        bzna_loader_close(loader);
    }
    bzna_dataset_close(dataset);
}

#if TEST_NVDEC
/* min_size: of frames that this GPU decodes; tiles have 64. */
static void run_on_gpu(uint32_t min_size, mixed_result *result)
{
    fake_control *control = fake_load()->control;
    bzna_context *gpu = NULL;
    bzna_dataset *dataset;
    const long long min_width = control->caps[FAKE_HEVC].min_width, min_height = control->caps[FAKE_HEVC].min_height;
    control->caps[FAKE_HEVC].min_width = control->caps[FAKE_HEVC].min_height = min_size;
    REQUIRE((gpu = heif_context(NULL)) != NULL);
    dataset = open_mixed(gpu);
    run_mixed(open_mixed_loader(gpu, dataset, 2, BZNA_DECODER_NVDEC), result);
    bzna_dataset_close(dataset);
    bzna_context_close(gpu);
    control->caps[FAKE_HEVC].min_width = min_width;
    control->caps[FAKE_HEVC].min_height = min_height;
}

TEST(nvdec_decodes_what_is_unwrapped_and_grids_are_decoded_in_software)
{
    bzna_dataset *dataset;
    if (!has_decoder("grid.heic") || !has_decoder("grid.avif"))
        SKIP("this libavcodec has no decoder of H.265, or of AV1");
    setup();
    dataset = open_mixed(context);
    run_mixed(open_mixed_loader(context, dataset, 1, BZNA_DECODER_SOFTWARE), &one);
    bzna_dataset_close(dataset);
    run_on_gpu(144, &many);
    check_mixed(&one, &many);
    CHECK_EQ(many.nvdec, 0);
    run_on_gpu(16, &many);
    check_mixed(&one, &many);
    CHECK_EQ(many.nvdec, MIXED_BATCHES);                    /* wide.heic, in each epoch */
    CHECK_EQ(many.fallbacks, 0);
}
#define GRID_TESTS RUN(nvdec_decodes_what_is_unwrapped_and_grids_are_decoded_in_software)
#else
#define GRID_TESTS
#endif

/* Of a file in memory, as 4x4 pixels, which is no more than an eighth of it. */
static void load_shrunk(bytes b, uint32_t jpeg_shrink, float *pixels)
{
    bzna_dataset *dataset = open_bytes(b);
    bzna_loader_config config;
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_batch_info info = { .struct_size = sizeof info };
    bzna_loader_config_init(&config, sizeof config);
    config.output.batch_size = 1;
    config.output.width = config.output.height = 4;
    config.output.device.kind = BZNA_DEVICE_CPU;
    config.decode.decoder = BZNA_DECODER_SOFTWARE;
    config.decode.jpeg_shrink = jpeg_shrink;
    config.warp.kind = BZNA_WARP_CENTER_RESIZED_CROP;
    REQUIRE(dataset && bzna_loader_open(context, dataset, &config, &loader, &err) == BZNA_OK);
    CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err), BZNA_OK);
    bzna_batch_get_info(batch, &info, sizeof info, &err);
    CHECK_EQ(info.failed, 0);
    memcpy(pixels, info.image.data, 3 * 4 * 4 * sizeof *pixels);
    bzna_batch_release(batch);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

/* Of an item that lies in one piece, and of one in several. */
TEST(a_size_that_contradicts_the_stream_fails_the_sample)
{
    static const struct { const char *name, *part; } cases[] = {
        { "still.avif", "sample 0: HEIF: the stream's frame is 40x24, but its container says 41x24" },
        { "pieces.heic", "sample 0: HEIF: the stream's frame is " },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        bytes b = file_read(cases[i].name, "");
        const size_t place = find(b, 0, "ispe", 4);
        bzna_dataset *dataset;
        bzna_loader_config config;
        bzna_loader *loader = NULL;
        bzna_batch *batch = NULL;
        b.data[place + 11]++;
        dataset = open_bytes(b);
        bzna_loader_config_init(&config, sizeof config);
        config.output.batch_size = 1;
        config.output.width = config.output.height = 4;
        config.output.device.kind = BZNA_DEVICE_CPU;
        REQUIRE(dataset && bzna_loader_open(context, dataset, &config, &loader, &err) == BZNA_OK);
        CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err), BZNA_OK);
        CHECK_EQ(bzna_batch_error(batch, 0, &err), BZNA_E_MISMATCH);
        CHECK_CONTAINS(err.message, cases[i].part);
        bzna_batch_release(batch);
        bzna_loader_close(loader);
        bzna_dataset_close(dataset);
        free(b.data);
    }
}

/* A picture that is one JPEG may be decoded at a fraction of its size; tiles of a grid are not. */
TEST(no_tile_is_shrunk)
{
#ifdef BENZINA_NO_JPEG
    SKIP("built without libjpeg-turbo [libjpeg-dev]");
#else
    static float whole[3 * 4 * 4], shrunk[3 * 4 * 4];
    double worst = 0;
    bytes still = file_read("still_jpeg.heif", ""), grid = file_read("grid_jpeg.heif", "");
    load_shrunk(grid, 0, whole);
    load_shrunk(grid, 1, shrunk);
    CHECK(!memcmp(whole, shrunk, sizeof whole));
    load_shrunk(still, 0, whole);
    load_shrunk(still, 1, shrunk);
    for (size_t i = 0; i < COUNT(whole); i++)
        worst = fmax(worst, fabs(whole[i] - shrunk[i]));
    CHECK(worst > 0 && worst < 12);
    free(still.data);
    free(grid.data);
#endif
}

/* ---- Folders ----------------------------------------------------------------------------------------------------- */

static bzna_status as_it_is(void *user, const bzna_sample_info *sample, bzna_random *random, bzna_transform *t)
{
    const double identity[9] = { 1, 0, 0, 0, 1, 0, 0, 0, 1 };
    (void)user, (void)sample, (void)random;
    memcpy(t->homography, identity, sizeof identity);
    return BZNA_OK;
}

/* What a slot of 20 x 20 pixels must hold. */
static void draw_sample(const bzna_dataset *dataset, uint64_t i, float *pixels)
{
    static uint8_t copy[16384];
    bzna_image image = { .struct_size = sizeof image };
    bzna_output o = { .struct_size = sizeof o, .width = 20, .height = 20 };
    bzna_transform t;
    bzna_transform_init(&t, sizeof t);
    seen = (bzna_picture){ .struct_size = sizeof seen };
    CHECK_EQ(bzna_dataset_read_image(dataset, i, NULL, copy, sizeof copy, &image, &err), BZNA_OK);
    decode_part(&image, (bzi_wanted){ { 0, 64 }, { 0, 64 }, 1 }, &seen);
    CHECK_EQ(bzna_picture_render(&seen, &t, &o, pixels, 1200 * sizeof *pixels, &err), BZNA_OK);
}

TEST(a_folder_of_them_is_a_data_set)
{
    static float wanted[1200];
    bzna_dataset *dataset = NULL;
    bzna_loader *loader = NULL;
    bzna_loader_config config;
    bzna_statistics stats = { .struct_size = sizeof stats };
    bzna_batch_info info = { .struct_size = sizeof info };
    bzna_batch *batch = NULL;
    uint64_t count, equal = 0;
    if (!has_decoder("still.heic") || !has_decoder("still.avif"))
        SKIP("this libavcodec has no decoder of H.265, or of AV1");
    setup();
    REQUIRE(bzna_dataset_open(context, DATA, NULL, &dataset, &err) == BZNA_OK);
    count = bzna_dataset_count(dataset);
    CHECK_EQ(count, COUNT(files) + 3);                      /* .heics is no such name */
    bzna_loader_config_init(&config, sizeof config);
    config.output.batch_size = (uint32_t)count;
    config.output.width = config.output.height = 20;
    config.pipeline.transform = as_it_is;
    if (!TEST_NVDEC)
        config.output.device.kind = BZNA_DEVICE_CPU;
    REQUIRE(bzna_loader_open(context, dataset, &config, &loader, &err) == BZNA_OK);
    CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err), BZNA_OK);
    CHECK_EQ(bzna_batch_get_info(batch, &info, sizeof info, &err), BZNA_OK);
    CHECK_EQ(info.failed, 2);                               /* overlay.heic, crowded.heic */
    for (uint64_t i = 0; i < count; i++) {
        if (info.status[i] != BZNA_OK)
            continue;
        draw_sample(dataset, info.indices[i], wanted);
        equal += !memcmp((const float *)info.image.data + 1200 * i, wanted, sizeof wanted);
    }
    CHECK_EQ(equal, count - 2);
    CHECK_EQ(bzna_loader_statistics(loader, &stats, sizeof stats, &err), BZNA_OK);
    CHECK(TEST_NVDEC ? stats.samples_nvdec > 0 : !stats.samples_nvdec);
    bzna_batch_release(batch);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

static const char *const packed[] = { "still.heic", "grid.heic", "grid.avif", "alpha.avif", "turned_1_1.avif",
                                      "pieces.heic", "no_color.heic" };

/* Each picture is as libheif sees it in a file of its own, and as the loader delivers it. */
static void check_packed(const void *data, size_t size)
{
    static float wanted[1200];
    bzna_dataset *dataset = NULL;
    bzna_loader_config config;
    bzna_batch_info info = { .struct_size = sizeof info };
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_loader_config_init(&config, sizeof config);
    config.output.batch_size = COUNT(packed);
    config.output.width = config.output.height = 20;
    config.output.device.kind = BZNA_DEVICE_CPU;
    config.pipeline.transform = as_it_is;
    setup();
    bzna_dataset_open_memory(context, data, size, NULL, &dataset, &err);
    REQUIRE(dataset && bzna_dataset_count(dataset) == COUNT(packed));
    REQUIRE(bzna_loader_open(context, dataset, &config, &loader, &err) == BZNA_OK);
    CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err), BZNA_OK);
    CHECK_EQ(bzna_batch_get_info(batch, &info, sizeof info, &err), BZNA_OK);
    CHECK_EQ(info.failed, 0);
    for (uint64_t i = 0; i < COUNT(packed); i++) {
        static uint8_t copy[16384];
        bzna_image image = { .struct_size = sizeof image };
        if (bzna_dataset_read_image(dataset, i, NULL, copy, sizeof copy, &image, &err) != BZNA_OK)
            continue;                                       /* it failed in the batch, too */
        check_seen(packed[i], &image);
        draw_sample(dataset, i, wanted);
        CHECK(!memcmp((const float *)info.image.data + 1200 * i, wanted, sizeof wanted));
    }
    bzna_batch_release(batch);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

TEST(tars_and_recordio_files_of_them_are_data_sets)
{
    tar t = { NULL, 0, 0, 0 };
    rec_file *records = rec_new();
    if (!has_decoder("still.heic") || !has_decoder("still.avif"))
        SKIP("this libavcodec has no decoder of H.265, or of AV1");
    for (size_t i = 0; i < COUNT(packed); i++) {
        bytes b = file_read(packed[i], "");
        const float label = (float)i;
        char name[32];
        snprintf(name, sizeof name, "%03d%s", (int)i, strrchr(packed[i], '.'));
        tar_file(&t, name, b.data, b.size);
        snprintf(name, sizeof name, "%03d.cls", (int)i);
        tar_text(&t, name, "7");
        rec_add_picture(records, i, &label, 1, b.data, b.size);
        free(b.data);
    }
    tar_end(&t);
    check_packed(t.bytes, t.size);
    check_packed(records->bytes, records->size);
    tar_free(&t);
    free(records);
}

/* avifenc writes equal tiles once: together they have more bytes than the file. */
TEST(tiles_that_share_their_bytes_are_decoded)
{
    bytes b = file_read("shared.avif", ""), copy;
    bzna_image image;
    uint32_t width, height;
    float *pixels = NULL;
    if (!has_decoder("shared.avif"))
        SKIP("libavcodec has no libdav1d");
    CHECK_EQ(read_image(b, NULL, &copy, &image), BZNA_OK);
    atomic_store(&heif_tiles, 0);
    REQUIRE((pixels = look(&image, &width, &height)) != NULL);
    CHECK(width == 384 && height == 384 && atomic_load(&heif_tiles) == 36);
    for (size_t i = 0; i < 384 * 384; i++) {
        const size_t first = i / 384 % 64 * 384 + i % 384 % 64;
        if (memcmp(pixels + 3 * i, pixels + 3 * first, 3 * sizeof *pixels)) {
            printf("  pixel %zu is not that of the first tile\n", i);
            test_failures++;
            break;
        }
    }
    CHECK(fabs(pixels[0] - 40) < 8 && fabs(pixels[1] - 60) < 8 && fabs(pixels[2] - 128) < 8);
    free(pixels);
    free(copy.data);
    free(b.data);
}

/* Tiles may share bytes, but not so many that a small file costs as much as a large one. */
TEST(a_large_tile_that_is_named_again_and_again_is_refused)
{
    enum { MORE = 8 * 64 * 64 + 2048 };
    bytes b = file_read("repeated.heic", ""), copy, large = bytes_make(NULL, b.size + 8 + MORE);
    const size_t iloc = find(b, 0, "iloc", 4);
    uint8_t *tile;
    bzna_image image;
    seen = (bzna_picture){ .struct_size = sizeof seen };
    CHECK_EQ(read_image(b, NULL, &copy, &image), BZNA_OK);
    atomic_store(&heif_tiles, 0);
    CHECK_EQ(bzna_decoder_decode(decoder, &image, &seen, &err), BZNA_OK);
    CHECK_EQ(atomic_load(&heif_tiles), 900);
    free(copy.data);
    REQUIRE(iloc + 30 < b.size && find(b, iloc, "\0\0\1\x5e", 4) == iloc + 24);      /* the tile's length */
    memcpy(large.data, b.data, b.size);
    memset(large.data + b.size, 0, 8);                      /* a box to the file's end */
    tile = large.data + b.size + 8;                         /* the same tile, and a NAL unit of filler data behind it */
    memcpy(tile, b.data + bzi_be32(b.data + iloc + 20), 0x15e);
    memset(tile + 0x15e, 0xff, MORE - 0x15e);
    put_number(tile + 0x15e, MORE - 0x15e - 4, 4);
    put_number(tile + 0x15e + 4, 0x4c01, 2);
    tile[MORE - 1] = 0x80;
    put_number(put_number(large.data + iloc + 20, b.size + 8, 4), MORE, 4);
    CHECK_EQ(read_image(large, NULL, &copy, &image), BZNA_E_LIMIT);
    CHECK_CONTAINS(err.message, "has more than 8 bytes for each pixel");
    free(copy.data);
    free(large.data);
    free(b.data);
}

#define PIXEL_TESTS GRID_TESTS RUN(a_size_that_contradicts_the_stream_fails_the_sample) \
    RUN(tars_and_recordio_files_of_them_are_data_sets) \
    RUN(any_number_of_threads_gives_the_same_pixels_and_failures) \
    RUN(a_loader_can_be_closed_while_tiles_are_decoded) RUN(a_large_tile_that_is_named_again_and_again_is_refused) \
    RUN(tiles_that_share_their_bytes_are_decoded) \
    RUN(pictures_are_as_libheif_sees_them) RUN(a_folder_of_them_is_a_data_set) RUN(no_tile_is_shrunk) \
    RUN(warps_read_no_tile_that_was_not_decoded) RUN(a_loader_decodes_the_tiles_of_its_crop_alone)
#endif

TEST_MAIN(RUN(properties_that_ask_for_one_of_several_layers_are_refused)
          RUN(an_unsaid_color_is_miafs_where_the_file_says_that_it_is_miaf)
          RUN(files_say_what_they_are_and_what_they_hold_beside_their_picture)
          RUN(items_that_lie_nowhere_are_refused_with_box_and_offset)
          RUN(properties_that_are_missing_or_contradict_the_stream_are_refused)
          RUN(items_that_are_absent_of_other_kinds_or_in_circles_are_refused) RUN(grids_that_do_not_fit_are_refused)
          RUN(grids_of_more_tiles_than_are_read_are_refused)
          RUN(a_grid_has_1024_tiles_at_most) RUN(the_last_row_and_column_of_a_grid_may_show_one_pixel)
          RUN(an_avif_in_pieces_is_unwrapped_wherever_it_is_cut)
          RUN(what_is_listed_or_referred_to_again_and_again_costs_no_time)
          RUN(of_a_file_4096_items_are_looked_at)
          RUN(an_item_has_32_properties_at_most) RUN(files_that_end_early_fail_everywhere) PIXEL_TESTS)
