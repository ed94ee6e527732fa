/* test_jpeg.c - JPEG as libjpeg-turbo decodes it: planes as TurboJPEG has them, no rows but those that a warp needs,
 * shrunk where that is allowed, damage where it is. test_pictures.c has what Pillow makes of them. */
#include "library.h"
#include "test.h"
#ifdef TEST_NVDEC
#  include "../fake/nvdec.h"
#  define TEST_PLACE "_device"
#else
#  define TEST_NVDEC 0
#  define TEST_PLACE ""
#endif

#ifdef BENZINA_NO_JPEG
TEST(jpegs_are_decoded) { SKIP("built without libjpeg-turbo [libjpeg-dev]"); }
TEST_MAIN(RUN(jpegs_are_decoded))
#else

#include "bytes.h"

enum { W = 93, H = 77, PIXELS = W * H };      /* neither is a multiple of anything */

static size_t find_last(bytes b, const void *what, size_t size)
{
    size_t at = b.size, next = 0;
    while ((next = find(b, next, what, size)) < b.size)
        at = next++;
    return at;
}

/* ---- Encoding ---------------------------------------------------------------------------------------------------- */

enum { BASELINE, PROGRESSIVE, SCANS };        /* SCANS: one a component */

typedef struct kind {
    const char *name;
    int         h, v, components, rgb;        /* h, v: luma's sampling factors */
    int         coding, restart, arithmetic;  /* restart: rows of MCUs; less than 0: so many MCUs */
} kind;

static const kind kinds[] = {
    { "4:2:0", 2, 2, 3, 0, BASELINE, 0, 0 },      { "4:2:0 progressive", 2, 2, 3, 0, PROGRESSIVE, 0, 0 },
    { "4:2:0 scans", 2, 2, 3, 0, SCANS, 0, 0 },   { "4:2:0 restarts", 2, 2, 3, 0, BASELINE, 1, 0 },
    { "4:2:2", 2, 1, 3, 0, BASELINE, 0, 0 },      { "4:2:2 progressive", 2, 1, 3, 0, PROGRESSIVE, 1, 0 },
    { "4:4:4", 1, 1, 3, 0, BASELINE, 0, 0 },      { "4:4:4 progressive", 1, 1, 3, 0, PROGRESSIVE, 0, 0 },
    { "4:4:0", 1, 2, 3, 0, BASELINE, 0, 0 },      { "4:1:1", 4, 1, 3, 0, BASELINE, 0, 0 },
    { "gray", 1, 1, 1, 0, BASELINE, 0, 0 },       { "gray progressive", 2, 2, 1, 0, PROGRESSIVE, 0, 0 },
    { "RGB", 1, 1, 3, 1, BASELINE, 0, 0 },        { "RGB progressive", 1, 1, 3, 1, PROGRESSIVE, 0, 0 },
    { "4:2:0 arithmetic", 2, 2, 3, 0, BASELINE, 0, 1 }, { "4:2:0 both", 2, 2, 3, 0, PROGRESSIVE, 0, 1 },
};

/* What TurboJPEG has no planes of. */
static const kind with_black[] = {
    { "CMYK", 1, 1, 4, 1, BASELINE, 0, 0 }, { "YCCK 4:2:0", 2, 2, 4, 0, BASELINE, 0, 0 },
};

static double waves(int x, int y, int channel)
{
    static bzna_random random;
    if (!x && !y && !channel)
        bzna_random_init(&random, 7, 0, 0, 0);
    return 128 + 90 * sin((x + channel / 3.) / 29. + y / 11.) + bzna_random_u32(&random) % 31;
}

/* picture: a sample of a channel, in turns. */
static bytes encode(const kind *k, double (*picture)(int x, int y, int channel))
{
    static const jpeg_scan_info scans[3] = { { 1, { 0 }, 0, 63, 0, 0 }, { 1, { 1 }, 0, 63, 0, 0 },
                                             { 1, { 2 }, 0, 63, 0, 0 } };
    struct jpeg_compress_struct info;
    struct jpeg_error_mgr errors;
    unsigned char *data = NULL;
    unsigned long size = 0;
    uint8_t row[4 * W];
    JSAMPROW rows[1] = { row };
    bytes b;
    info.err = jpeg_std_error(&errors);
    jpeg_create_compress(&info);
    jpeg_mem_dest(&info, &data, &size);
    info.image_width = W;
    info.image_height = H;
    info.input_components = k->components;
    info.in_color_space = k->components == 1 ? JCS_GRAYSCALE : k->components == 4 ? JCS_CMYK : JCS_RGB;
    jpeg_set_defaults(&info);
    jpeg_set_colorspace(&info, k->components == 1 ? JCS_GRAYSCALE : k->components == 4 ? k->rgb ? JCS_CMYK : JCS_YCCK :
                               k->rgb ? JCS_RGB : JCS_YCbCr);
    jpeg_set_quality(&info, 85, TRUE);
    info.comp_info[0].h_samp_factor = k->h;
    info.comp_info[0].v_samp_factor = k->v;
    info.restart_in_rows = k->restart > 0 ? k->restart : 0;
    info.restart_interval = k->restart < 0 ? (unsigned)-k->restart : 0;
    info.arith_code = k->arithmetic;
    if (k->coding == PROGRESSIVE)
        jpeg_simple_progression(&info);
    if (k->coding == SCANS) {
        info.scan_info = scans;
        info.num_scans = 3;
    }
    jpeg_start_compress(&info, TRUE);
    for (int y = 0; y < H; y++) {
        for (int i = 0; i < W * k->components; i++)
            row[i] = (uint8_t)picture(i / k->components, y, i % k->components);
        jpeg_write_scanlines(&info, rows, 1);
    }
    jpeg_finish_compress(&info);
    jpeg_destroy_compress(&info);
    b = bytes_make(data, size);
    free(data);
    return b;
}

static bytes encoded(const kind *k) { return encode(k, waves); }

static const kind *kind_of(const char *name)
{
    for (size_t i = 0; i < COUNT(kinds); i++)
        if (!strcmp(kinds[i].name, name))
            return &kinds[i];
    abort();
}

/* ---- Decoding ---------------------------------------------------------------------------------------------------- */

static bzi_host host = { .memory = { .alloc = bzi_os_alloc, .release = bzi_os_release }, .max_edge_px = 16384 };
static bzi_software decoders[2];              /* of all rows; of some */
static bzna_error last = { .struct_size = sizeof last };

/* What is wanted; other rows keep nothing of pictures before. */
static bzna_status decode_wanted(bzi_software *decoder, bytes b, bzi_wanted wanted, bzna_picture *picture)
{
    bzna_image coded;
    bzi_image image;
    bzi_format format;
    bzna_status status;
    bzna_image_init(&coded, sizeof coded);
    coded.codec = BZNA_CODEC_JPEG;
    coded.data = b.data;
    coded.data_size = b.size;
    image = bzi_image_alone(&coded);
    if (!decoder->memory && bzi_software_open(decoder, &host, &last) != BZNA_OK)
        abort();
    if (decoder->turbo.pixels.data)
        memset(decoder->turbo.pixels.data, decoder == decoders ? 0xa5 : 0x5a, (size_t)decoder->turbo.pixels.capacity);
    bzi_error_init(&last);
    status = bzi_picture_describe(&image, 16384, &format, picture, &last);
    return status ? status : bzi_software_decode(decoder, &coded, &format, wanted, picture, &last);
}

/* So many rows. */
static bzna_status decode(bzi_software *decoder, bytes b, uint32_t rows, bzna_picture *picture)
{
    return decode_wanted(decoder, b, (bzi_wanted){ .rows = { 0, (int32_t)rows }, .shrink = 1 }, picture);
}

/* Whether so many samples of a row of a plane are the same. */
static int same_row(const bzna_picture *a, const bzna_picture *b, int p, int64_t y, uint32_t samples)
{
    const uint8_t *one = (const uint8_t *)a->plane[p] + y * a->pitch[p];
    const uint8_t *other = (const uint8_t *)b->plane[p] + y * b->pitch[p];
    for (uint32_t x = 0; x < samples; x++)
        if (one[x * (a->step[p] ? a->step[p] : 1)] != other[x * (b->step[p] ? b->step[p] : 1)])
            return 0;
    return 1;
}

/* Whether two pictures are the same down to a row of luma. */
static int same_rows(const bzna_picture *a, const bzna_picture *b, uint32_t rows)
{
    for (int p = 0; p < 3 && a->plane[p]; p++) {
        if (!b->plane[p])
            return 0;
        const uint32_t sx = p ? a->chroma_shift_x : 0, sy = p ? a->chroma_shift_y : 0;
        for (uint32_t y = 0; y < (rows + (1u << sy) - 1) >> sy; y++)
            if (!same_row(a, b, p, y, (W + (1u << sx) - 1) >> sx))
                return 0;
    }
    return 1;
}

/* ---- Headers ----------------------------------------------------------------------------------------------------- */

static bzi_format described(bytes b)
{
    bzi_format format = { 0 };
    CHECK_EQ(bzi_jpeg_inspect(&(bzna_image){ .data = b.data, .data_size = b.size }, &format, &last), BZNA_OK);
    return format;
}

/* libjpeg-turbo refuses such headers itself. A driver that is given one may do anything. */
TEST(headers_that_only_libjpeg_turbo_may_judge_are_never_nvdecs)
{
    static const struct {
        const char *what, *marker;
        size_t      at;                       /* of the byte, from the marker on */
        uint8_t     byte;
    } changes[] = {
        { "a component with quantization table 4", "\xff\xc0", 12, 4 },
        { "quantization table 4", "\xff\xdb", 4, 4 },
        { "a quantization table of another precision", "\xff\xdb", 4, 0x20 },
        { "a quantization table that ends early", "\xff\xdb", 3, 60 },
        { "Huffman table 4", "\xff\xc4", 4, 4 },
        { "a Huffman table of 511 codes", "\xff\xc4", 5, 255 },
        { "a scan with the first component twice", "\xff\xda", 7, 1 },
        { "a scan with Huffman table 4", "\xff\xda", 6, 0x40 },
        { "a scan header that is a byte longer", "\xff\xda", 3, 13 },
    };
    bytes b = encoded(kind_of("4:2:0"));

    CHECK_EQ(described(b).profile[0], 1);
    for (size_t i = 0; i < COUNT(changes); i++) {
        uint8_t *byte = b.data + find(b, 0, changes[i].marker, 2) + changes[i].at, before = *byte;
        *byte = changes[i].byte;
        if (described(b).profile[0]) {
            printf("  %s\n", changes[i].what);
            CHECK_EQ(described(b).profile[0], 0);
        }
        *byte = before;
    }

    /* a Huffman table of 300 codes, all of which are there */
    static const uint8_t many[2 + 2 + 17 + 300] = { 0xff, 0xc4, 319 >> 8, 319 & 255, 3, [4 + 15] = 255, 45 };
    bytes longer = spliced(b, 2, many, sizeof many, 2);
    CHECK_EQ(described(longer).profile[0], 0);
    free(longer.data);
    free(b.data);
}

TEST(an_orientation_needs_the_name_of_exif)
{
    static const char segment[] = "\xff\xe1\0\x22" "Exif\0\0" "II*\0\x08\0\0\0" "\x01\0" "\x12\x01\x03\0\x01\0\0\0"
                                  "\x06\0\0\0" "\0\0\0\0";
    static const char nameless[] = "\xff\xe1\0\x1c" "II*\0\x08\0\0\0" "\x01\0" "\x12\x01\x03\0\x01\0\0\0"
                                   "\x03\0\0\0" "\0\0\0\0";
    bytes plain = encoded(kind_of("4:2:0")), named = spliced(plain, 2, segment, sizeof segment - 1, 2);
    bytes both = spliced(named, 2, nameless, sizeof nameless - 1, 2);

    CHECK_EQ(described(plain).orientation, 0);
    CHECK_EQ(described(named).orientation, 6);
    CHECK_EQ(described(both).orientation, 6);
    free(plain.data);
    free(named.data);
    free(both.data);
}

/* ---- Planes ------------------------------------------------------------------------------------------------------ */

TEST(planes_are_those_of_turbojpeg)
{
    enum { ACCURATE_DCT = 4096 };             /* TJFLAG_ACCURATEDCT */
    void *library = dlopen("libturbojpeg.so.0", RTLD_NOW), *handle;
    void *(*init)(void);
    int (*to_planes)(void *, const unsigned char *, unsigned long, unsigned char **, int, int *, int, int);
    int (*destroy)(void *);
    uint32_t compared = 0;
    if (!library)
        SKIP("there is no libturbojpeg.so.0 [libturbojpeg0]");
    *(void **)(void *)&init = dlsym(library, "tjInitDecompress");
    *(void **)(void *)&to_planes = dlsym(library, "tjDecompressToYUVPlanes");
    *(void **)(void *)&destroy = dlsym(library, "tjDestroy");
    REQUIRE(init && to_planes && destroy && (handle = init()));
    for (size_t i = 0; i < COUNT(kinds); i++) {
        static uint8_t wanted[3][2 * PIXELS];
        bytes b = encoded(&kinds[i]);
        bzna_picture picture, theirs;
        CHECK_EQ(decode(&decoders[0], b, H, &picture), BZNA_OK);
        theirs = picture;
        for (int p = 0; p < 3; p++) {
            theirs.plane[p] = picture.plane[p] ? wanted[p] : NULL;
            theirs.pitch[p] = (W + 3) / 4 * 4;
        }
        unsigned char *planes[3] = { wanted[0], wanted[1], wanted[2] };
        int strides[3] = { (W + 3) / 4 * 4, (W + 3) / 4 * 4, (W + 3) / 4 * 4 };
        if (!kinds[i].rgb && last.status == BZNA_OK &&
            to_planes(handle, b.data, (unsigned long)b.size, planes, 0, strides, 0, ACCURATE_DCT) == 0) {
            if (!same_rows(&picture, &theirs, H)) {
                printf("  %s: not TurboJPEG's planes\n", kinds[i].name);
                test_failures++;
            }
            compared++;
        }
        free(b.data);
    }
    CHECK(compared >= 12);
    destroy(handle);
    dlclose(library);
}

TEST(arithmetic_coding_has_the_pixels_of_huffmans)
{
    bytes a = encoded(kind_of("4:2:0")), b = encoded(kind_of("4:2:0 arithmetic")), c = encoded(kind_of("4:2:0 both"));
    bzna_picture pictures[2];
    CHECK_EQ(decode(&decoders[0], a, H, &pictures[0]), BZNA_OK);
    CHECK_EQ(decode(&decoders[1], b, H, &pictures[1]), BZNA_OK);
    CHECK(same_rows(&pictures[0], &pictures[1], H));
    CHECK_EQ(decode(&decoders[1], c, H, &pictures[1]), BZNA_OK);
    CHECK(same_rows(&pictures[0], &pictures[1], H));
    free(a.data);
    free(b.data);
    free(c.data);
}

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

/* A crop, wherever, sometimes with its edges turned a little, sometimes in perspective; any filter. */
static void random_transform(bzna_random *random, bzna_transform *t, const bzna_output *out)
{
    const double width = bzna_random_uniform(random, 3, W), height = bzna_random_uniform(random, 3, H);
    const double sx = width / out->width, sy = height / out->height;
    const double h[9] = { sx, 0, bzna_random_uniform(random, -5, W - width), 0, sy,
                          bzna_random_uniform(random, -5, H - height), 0, 0, 1 };
    const uint32_t how = bzna_random_u32(random) % 8;
    bzna_transform_init(t, sizeof *t);
    memcpy(t->homography, h, sizeof h);
    if (how < 2) {
        t->homography[1] = bzna_random_uniform(random, -0.5, 0.5);
        t->homography[3] = bzna_random_uniform(random, -0.5, 0.5);
    }
    if (how == 1)
        t->homography[7] = bzna_random_uniform(random, -0.01, 0.01);
    t->filter = bzna_random_u32(random) % 2 ? bzna_random_u32(random) % 7 : BZNA_FILTER_LINEAR;
    t->antialias = t->filter == BZNA_FILTER_AREA ? BZNA_ANTIALIAS_AUTO : bzna_random_u32(random) % 2;
}

/* The slot of a warp of a picture at 1/k of its size. */
static bzi_kernel_slot slot_of(const bzna_picture *picture, const bzna_transform *t, uint32_t k)
{
    bzi_kernel_slot slot;
    CHECK_EQ(bzi_slot_make(&slot, picture, t, BZNA_CHANNELS_RGB, &last), BZNA_OK);
    bzi_slot_shrink(&slot, k);
    return slot;
}

static void warp(const bzna_picture *picture, const bzna_transform *t, uint32_t k, const bzi_kernel_output *to,
                 float *pixels)
{
    static float workspace[1 << 18];
    bzi_kernel_slot slot = slot_of(picture, t, k);
    slot.dst = (uint64_t)(uintptr_t)pixels;
    CHECK(bzi_kernel_warp_bytes(&slot, to) <= sizeof workspace);
    bzi_kernel_warp(&slot, to, workspace, sizeof workspace);
}

/* Whether the rows of MCUs above those that are wanted are as they were before: luma's of v blocks each, of the other
 * components at least one block's (libjpeg has released what it knew of them). */
static int is_untouched(const bzi_turbo *turbo, uint32_t v, bzi_rows rows)
{
    const struct jpeg_decompress_struct *info = &turbo->info;
    const uint32_t edge = DCTSIZE / turbo->wanted.shrink,
                   lines = (uint32_t)info->max_v_samp_factor * DCTSIZE / turbo->wanted.shrink;
    for (int i = 0; i < info->num_components; i++) {
        const uint64_t each = i ? edge : (uint64_t)v * edge;
        for (uint64_t n = 0; n < (uint64_t)rows.first / lines * each * (uint64_t)turbo->pitch[i]; n++)
            if (turbo->plane[i][n] != 0x5a)
                return 0;
    }
    return 1;
}

enum { OUT_W = 9, OUT_H = 7 };

TEST(a_warp_of_the_rows_that_it_needs_is_that_of_the_whole_picture)
{
    const uint32_t rounds = ROUNDS(80, 20);
    const bzna_output out = { .struct_size = sizeof out, .width = OUT_W, .height = OUT_H };
    const bzi_kernel_output to = bzi_output_make(&out);
    uint32_t stopped = 0, tried = 0, above = 0, shrunk[9] = { 0 };
    bzna_random random;
    bzna_random_init(&random, 3, 0, 0, 0);
    for (size_t i = 0; i < COUNT(kinds) + COUNT(with_black); i++) {
        const kind *one = i < COUNT(kinds) ? &kinds[i] : &with_black[i - COUNT(kinds)];
        bytes b = encoded(one);
        uint32_t different = 0;
        bzna_picture all, some;
        CHECK_EQ(decode(&decoders[1], b, H, &some), BZNA_OK);   /* has memory for all rows */
        for (uint32_t n = 0; n < rounds; n++) {
            static float pixels[2][3 * OUT_W * OUT_H];
            bzna_transform t;
            bzi_wanted wanted = { .rows = { 0, H }, .shrink = 1 };
            bzi_kernel_slot slot;
            random_transform(&random, &t, &out);
            CHECK_EQ(decode_wanted(&decoders[0], b, wanted, &all), BZNA_OK);
            some = all;
            some.orientation = 1 + n % 8;
            memset(some.plane, 0, sizeof some.plane);       /* as a loader asks: planes come later */
            slot = slot_of(&some, &t, 1);
            wanted.shrink = n % 3 ? bzi_slot_may_shrink(&slot, 1) : 1;
            if (wanted.shrink > 1)
                CHECK_EQ(decode_wanted(&decoders[0], b, wanted, &all), BZNA_OK);
            bzi_slot_shrink(&slot, wanted.shrink);
            wanted.rows = bzi_slot_rows(&slot, &to);
            CHECK_EQ(decode_wanted(&decoders[1], b, wanted, &some), BZNA_OK);
            all.orientation = some.orientation = 1 + n % 8;
            warp(&all, &t, wanted.shrink, &to, pixels[0]);
            warp(&some, &t, wanted.shrink, &to, pixels[1]);
            different += memcmp(pixels[0], pixels[1], sizeof pixels[0]) != 0;
            tried++;
            shrunk[wanted.shrink]++;
            above += wanted.rows.first >= 16;
            stopped += decoders[1].turbo.info.output_scanline < decoders[1].turbo.info.output_height;
            CHECK(decoders[1].turbo.info.output_scanline < (uint32_t)wanted.rows.end + 8 * (uint32_t)one->v);
            CHECK(one->components == 4 || is_untouched(&decoders[1].turbo, (uint32_t)one->v, wanted.rows));
        }
        if (different) {
            printf("  %s: %u of %u warps are not those of the whole picture\n", one->name, different, rounds);
            test_failures++;
        }
        free(b.data);
    }
    CHECK(stopped > tried / 4 && above > tried / 8);
    CHECK(shrunk[2] > tried / 16 && shrunk[4] > tried / 16 && shrunk[8] > tried / 200);
}

/* ---- Shrunk ------------------------------------------------------------------------------------------------------ */

/* The other way to have libjpeg shrink: rows of pixels, where chroma that is subsampled repeats. */
static void scanlines(bytes b, uint32_t k, uint8_t *pixels, uint32_t *width, uint32_t *height)
{
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    info.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&info);
    jpeg_mem_src(&info, b.data, (unsigned long)b.size);
    jpeg_read_header(&info, TRUE);
    info.out_color_space = info.jpeg_color_space;
    info.do_fancy_upsampling = info.do_block_smoothing = FALSE;
    info.dct_method = JDCT_ISLOW;
    info.scale_num = 1;
    info.scale_denom = k;
    jpeg_start_decompress(&info);
    *width = info.output_width;
    *height = info.output_height;
    while (info.output_scanline < info.output_height) {
        JSAMPROW row = pixels + (size_t)info.output_scanline * info.output_width * (size_t)info.num_components;
        jpeg_read_scanlines(&info, &row, 1);
    }
    jpeg_finish_decompress(&info);
    jpeg_destroy_decompress(&info);
}

TEST(shrunk_planes_are_libjpegs_rows)
{
    static uint8_t rows[4 * PIXELS];
    for (size_t i = 0; i < COUNT(kinds) + COUNT(with_black); i++) {
        const kind *one = i < COUNT(kinds) ? &kinds[i] : &with_black[i - COUNT(kinds)];
        const uint32_t n = (uint32_t)one->components;
        bytes b = encoded(one);
        for (uint32_t k = 1; k <= 8; k *= 2) {
            const bzi_wanted wanted = { .rows = { 0, H }, .shrink = k };
            uint32_t width, height, different = 0;
            bzna_picture picture;
            CHECK_EQ(decode_wanted(&decoders[0], b, wanted, &picture), BZNA_OK);
            scanlines(b, k, rows, &width, &height);
            CHECK(width == (W + k - 1) / k && height == (H + k - 1) / k);
            CHECK(picture.width == W && picture.height == H);
            if (!strcmp(one->name, "4:2:0"))
                CHECK_EQ(picture.chroma_shift_x | picture.chroma_shift_y, k == 1);
            for (uint32_t p = 0; p < (n == 1 ? 1 : 3); p++)
                for (uint32_t at = 0; at < width * height; at++) {
                    const uint32_t x = at % width >> (p ? picture.chroma_shift_x : 0);
                    const uint32_t y = at / width >> (p ? picture.chroma_shift_y : 0);
                    const uint8_t *plane = picture.plane[one->rgb ? (p + 2) % 3 : p], *pixel = rows + at * n;
                    const int value = plane[y * (uint64_t)picture.pitch[p] + x * picture.step[p]];
                    const int wish = n < 4     ? pixel[p] :
                                     one->rgb ? (pixel[p] * pixel[3] + 127) / 255 :
                                     p == 0    ? ((255 - pixel[0]) * pixel[3] + 127) / 255 :
                                                 128 + (128 - pixel[p]) * pixel[3] / 255;
                    different += value != (wish > 255 ? 255 : wish);
                }
            if (different) {
                printf("  %s at 1/%u: %u samples differ\n", one->name, k, different);
                test_failures++;
            }
        }
        free(b.data);
    }
}

static double slopes(int x, int y, int channel) { return channel ? 60 + 1.5 * y : 15 + 2.4 * x; }

/* A slope shows where samples lie: half a pixel of the shrunk picture would be 1.2 or more of 255. */
TEST(a_shrunk_picture_lies_where_the_whole_one_does)
{
    static const char *const names[] = { "4:2:0", "4:2:2", "4:4:4", "4:4:0", "gray" };
    const bzna_output out = { .struct_size = sizeof out, .width = OUT_W, .height = OUT_H };
    const bzi_kernel_output to = bzi_output_make(&out);
    for (size_t i = 0; i < COUNT(names); i++) {
        kind like = *kind_of(names[i]);
        bytes b = encode(&like, slopes);
        for (uint32_t n = 0; n < 24; n++) {
            static float pixels[2][3 * OUT_W * OUT_H];
            const uint32_t k = 2u << n / 8, orientation = 1 + n % 8;
            const int turned = orientation > 4;
            double difference[3] = { 0 }, shrink = k * 1.02;
            bzna_picture picture;
            bzna_transform t;
            bzna_transform_init(&t, sizeof t);
            memset(t.homography, 0, sizeof t.homography);
            t.homography[0] = t.homography[4] = shrink;
            t.homography[2] = ((turned ? H : W) - 1 - shrink * (OUT_W - 1)) / 2;
            t.homography[5] = ((turned ? W : H) - 1 - shrink * (OUT_H - 1)) / 2;
            t.homography[8] = 1;
            if (k == 8)                       /* otherwise it would reach outside */
                t.homography[0] = t.homography[4] = 8, t.homography[2] = 3.5, t.homography[5] = 3.5;
            for (int j = 0; j < 2; j++) {
                const bzi_wanted wanted = { .rows = { 0, H }, .shrink = j ? k : 1 };
                CHECK_EQ(decode_wanted(&decoders[0], b, wanted, &picture), BZNA_OK);
                picture.orientation = orientation;
                bzi_kernel_slot slot = slot_of(&picture, &t, 1);
                CHECK_EQ(bzi_slot_may_shrink(&slot, 1), k);
                warp(&picture, &t, wanted.shrink, &to, pixels[j]);
            }
            for (int at = 0; at < 3 * OUT_W * OUT_H; at++) {
                const int x = at % OUT_W, y = at / OUT_W % OUT_H;   /* taps at the edges are cut off otherwise */
                if (x && y && x < OUT_W - 2 && y < OUT_H - 2)
                    difference[at / (OUT_W * OUT_H)] += pixels[0][at] - pixels[1][at];
            }
            for (int p = 0; p < 3; p++)
                if (fabs(difference[p] / ((OUT_W - 3) * (OUT_H - 3))) > 0.5) {
                    printf("  %s at 1/%u, orientation %u: %.2f\n", names[i], k, orientation, difference[p]);
                    test_failures++;
                }
        }
        free(b.data);
    }
}

/* No more than the least of what it does along its two axes; not where the filter would not antialias then. */
TEST(a_picture_is_shrunk_by_no_more_than_its_warp_does)
{
    static const struct { double h[9]; uint32_t filter, antialias, shrink; } cases[] = {
        { { 1.9, 0, 0, 0, 9, 0, 0, 0, 1 }, 0, 0, 1 },     { { 2, 0, 0, 0, 9, 0, 0, 0, 1 }, 0, 0, 2 },
        { { -3.99, 0, 90, 0, 4, 0, 0, 0, 1 }, 0, 0, 2 },  { { 4, 0, 0, 0, -4, 70, 0, 0, 1 }, 0, 0, 4 },
        { { 0, 9, 0, 8, 0, 0, 0, 0, 1 }, 0, 0, 8 },       { { 99, 0, 0, 0, 99, 0, 0, 0, 1 }, 0, 0, 8 },
        { { 4, 4, 0, -4, 4, 40, 0, 0, 1 }, 0, 0, 4 },     { { 4, 0, 0, 0, 4, 0, 0.001, 0, 1 }, 0, 0, 1 },
        { { 4, 0, 0, 0, 4, 0, 0, 0, 1 }, BZNA_FILTER_NEAREST, 0, 1 },
        { { 4, 0, 0, 0, 4, 0, 0, 0, 1 }, BZNA_FILTER_LINEAR, BZNA_ANTIALIAS_OFF, 1 },
        { { 4, 0, 0, 0, 4, 0, 0, 0, 1 }, BZNA_FILTER_LANCZOS3, 0, 4 },
    };
    bzna_picture picture = { .struct_size = sizeof picture, .depth = 8, .width = W, .height = H, .frame_width = W,
                             .frame_height = H, .orientation = 1, .color = { 1, 13, 5, 1, 1 } };
    for (size_t i = 0; i < COUNT(cases); i++) {
        bzna_transform t;
        bzna_transform_init(&t, sizeof t);
        memcpy(t.homography, cases[i].h, sizeof t.homography);
        t.filter = cases[i].filter;
        t.antialias = cases[i].antialias;
        const bzi_kernel_slot slot = slot_of(&picture, &t, 1);
        CHECK_EQ(bzi_slot_may_shrink(&slot, 1), cases[i].shrink);
        CHECK(cases[i].shrink == 8 || bzi_slot_may_shrink(&slot, 2) == (cases[i].shrink > 1 ? cases[i].shrink / 2 : 1));
        CHECK_EQ(bzi_slot_may_shrink(&slot, 64), 1);
        picture.crop_x = 1;
        const bzi_kernel_slot cropped = slot_of(&picture, &t, 1);
        CHECK_EQ(bzi_slot_may_shrink(&cropped, 1), 1);
        picture.crop_x = 0;
    }
}

/* ---- Damage ------------------------------------------------------------------------------------------------------ */

/* The row that a message names; UINT32_MAX: none. */
static uint32_t row_said(void)
{
    const char *row = strstr(last.message, " row ");
    return row ? (uint32_t)strtoul(row + 5, NULL, 10) : UINT32_MAX;
}

TEST(what_ends_early_is_good_down_to_the_row_that_is_named)
{
    static const char *const names[] = { "4:2:0", "4:4:4", "4:2:0 restarts", "gray", "4:2:0 arithmetic" };
    for (size_t i = 0; i < COUNT(names); i++) {
        bytes whole = encoded(kind_of(names[i])), b = bytes_make(whole.data, whole.size);
        const size_t scan = find(whole, 0, "\xff\xda", 2) + 16;
        bzna_picture all, some;
        uint32_t before = 0, failed = 0;
        CHECK_EQ(decode(&decoders[0], whole, H, &all), BZNA_OK);
        for (b.size = scan; b.size < whole.size; b.size += ROUNDS(5, 29)) {
            uint32_t good = H;
            if (decode(&decoders[1], b, H, &some) != BZNA_OK) {
                CHECK_EQ(last.status, BZNA_E_DECODE);
                CHECK_CONTAINS(last.message, "truncated after row ");
                CHECK(last.byte_offset == b.size);
                good = row_said();
                CHECK_EQ(decode(&decoders[1], b, good + 1, &some), BZNA_E_DECODE);
                CHECK_EQ(decode(&decoders[1], b, good, &some), BZNA_OK);
                failed++;
            }
            CHECK(good >= before && good <= H && same_rows(&all, &some, good));
            before = good;
        }
        CHECK(before >= H - 16 && failed > 20);
        free(b.data);
        free(whole.data);
    }
}

/* A byte of the coded data is another: what is above stays, and what is said lies below. */
TEST(damage_is_of_no_matter_above_it)
{
    bytes whole = encoded(kind_of("4:2:0 restarts")), b = bytes_make(whole.data, whole.size);
    const size_t scan = find(whole, 0, "\xff\xda", 2) + 14;
    const size_t rows[3] = { find(whole, scan, "\xff\xd0", 2), find(whole, scan, "\xff\xd1", 2),
                             find(whole, scan, "\xff\xd2", 2) };
    bzna_picture all, some;
    uint32_t noticed = 0;
    bzna_random random;
    bzna_random_init(&random, 5, 0, 0, 0);
    CHECK_EQ(decode(&decoders[0], whole, H, &all), BZNA_OK);
    for (uint32_t n = 0; n < ROUNDS(1000, 200); n++) {
        const size_t at = rows[2] + 2 + bzna_random_u32(&random) % (whole.size - 4 - rows[2]);
        memcpy(b.data, whole.data, whole.size);
        b.data[at] = (uint8_t)bzna_random_u32(&random);
        CHECK_EQ(decode(&decoders[1], b, 32, &some), BZNA_OK);
        CHECK(same_rows(&all, &some, 32));
        if (decode(&decoders[1], b, H, &some) != BZNA_OK) {
            CHECK_CONTAINS(last.message, "libjpeg-turbo");
            CHECK(row_said() >= 48 && row_said() < H);
            CHECK(last.byte_offset > rows[2] && last.byte_offset <= b.size);
            noticed++;
        }
    }
    CHECK(noticed > ROUNDS(20, 0));
    free(b.data);
    b = spliced(whole, rows[1], NULL, 0, rows[1] + 2);
    CHECK_EQ(decode(&decoders[1], b, 16, &some), BZNA_OK);
    CHECK(same_rows(&all, &some, 16));
    CHECK_EQ(decode(&decoders[1], b, H, &some), BZNA_E_DECODE);
    CHECK_CONTAINS(last.message, "damaged near row 32");
    free(b.data);
    free(whole.data);
}

/* ---- Restart markers --------------------------------------------------------------------------------------------- */

/* Whether two pictures of some width are the same from one row of luma to another. */
static int same_between(const bzna_picture *a, const bzna_picture *b, bzi_rows rows, uint32_t width)
{
    for (int p = 0; p < 3 && a->plane[p]; p++) {
        const uint32_t sx = p ? a->chroma_shift_x : 0, sy = p ? a->chroma_shift_y : 0;
        for (int32_t y = rows.first >> sy; y <= (rows.end - 1) >> sy; y++)
            if (!same_row(a, b, p, y, (width + (1u << sx) - 1) >> sx))
                return 0;
    }
    return 1;
}

static const kind with_restarts[] = {
    { "4:2:0", 2, 2, 3, 0, BASELINE, 0, 0 }, { "4:2:2", 2, 1, 3, 0, BASELINE, 0, 0 },
    { "4:4:4", 1, 1, 3, 0, BASELINE, 0, 0 }, { "4:4:0", 1, 2, 3, 0, BASELINE, 0, 0 },
    { "4:1:1", 4, 1, 3, 0, BASELINE, 0, 0 }, { "gray", 1, 1, 1, 0, BASELINE, 0, 0 },
    { "RGB", 1, 1, 3, 1, BASELINE, 0, 0 },   { "4:2:0 arithmetic", 2, 2, 3, 0, BASELINE, 0, 1 },
    { "CMYK", 1, 1, 4, 1, BASELINE, 0, 0 },
};

/* Intervals of a row, of several, and of MCUs that make up whole rows or do not: rows are those of the whole
 * picture. */
TEST(rows_between_restart_markers_are_those_of_the_whole_picture)
{
    static const int intervals[] = { 1, 2, 3, -1, -2, -3, -5, -8, -9, -1000 };
    for (size_t k = 0; k < COUNT(with_restarts); k++)
        for (size_t i = 0; i < COUNT(intervals); i++)
            for (uint32_t shrink = 1; shrink <= 2; shrink++) {
                kind one = with_restarts[k];
                const int height = (H + (int)shrink - 1) / (int)shrink;
                bzna_picture all, some;
                one.restart = intervals[i];
                const bytes b = encoded(&one);
                const bzi_wanted whole = { .rows = { 0, height }, .shrink = shrink };
                CHECK_EQ(decode_wanted(&decoders[0], b, whole, &all), BZNA_OK);
                for (int first = 0; first < height - 1; first += 3 + first % 4) {
                    const int lengths[] = { 1, 9, height - first };
                    for (size_t n = 0; n < COUNT(lengths) && first + lengths[n] <= height; n++) {
                        const bzi_wanted wanted = { .rows = { first, first + lengths[n] }, .shrink = shrink };
                        REQUIRE(decode_wanted(&decoders[1], b, wanted, &some) == BZNA_OK);
                        CHECK(same_between(&all, &some, wanted.rows, (W + shrink - 1) / shrink));
                    }
                }
                free(b.data);
            }
}

/* Markers that libjpeg would continue from with other pixels are damage. Fill bytes before a marker are none. */
TEST(damaged_restart_markers_above_the_wanted_rows_are_damage)
{
    kind one = *kind_of("4:2:0 restarts");
    enum { ROWS = (H + 15) / 16, MARKERS = ROWS - 1 };
    const bytes whole = encoded(&one);
    const bzi_wanted last_row = { .rows = { 64, H }, .shrink = 1 }, middle = { .rows = { 32, 48 }, .shrink = 1 };
    size_t at[MARKERS];
    bzna_picture all, some;
    for (size_t i = 0, from = find(whole, 0, "\xff\xda", 2) + 14; i < MARKERS; i++)
        from = at[i] = find(whole, from, (char[]){ (char)0xff, (char)(0xd0 + i) }, 2);
    CHECK_EQ(decode(&decoders[0], whole, H, &all), BZNA_OK);
    for (size_t i = 0; i < MARKERS; i++)
        for (int number = 0; number < 16; number++) {       /* other markers, and none */
            bytes b = bytes_make(whole.data, whole.size);
            b.data[at[i] + 1] = (uint8_t)(number < 8 ? 0xd0 + number : number == 8 ? 0 : 0xd6 + number);
            if (number != (int)i) {
                CHECK_EQ(decode_wanted(&decoders[1], b, last_row, &some), BZNA_E_DECODE);
                CHECK_EQ(decode_wanted(&decoders[1], b, middle, &some), i < 2 ? BZNA_E_DECODE : BZNA_OK);
                CHECK(i < 2 || same_between(&all, &some, middle.rows, W));
            }
            free(b.data);
        }
    for (size_t i = 0; i < MARKERS; i++) {                  /* one that is there twice, or missing */
        const uint8_t marker[2] = { 0xff, (uint8_t)(0xd0 + i) };
        bytes b = spliced(whole, at[i] - 9, marker, 2, at[i] - 9);
        CHECK_EQ(decode_wanted(&decoders[1], b, last_row, &some), BZNA_E_DECODE);
        CHECK(decode_wanted(&decoders[1], b, middle, &some) == BZNA_E_DECODE || i >= 2);
        free(b.data);
        b = spliced(whole, at[i], NULL, 0, at[i] + 2);
        CHECK_EQ(decode_wanted(&decoders[1], b, last_row, &some), BZNA_E_DECODE);
        free(b.data);
    }
    for (size_t i = 0; i < MARKERS; i++) {
        static const uint8_t fill[3] = { 0xff, 0xff, 0xff };
        bytes filled = spliced(whole, at[i], fill, sizeof fill, at[i]);
        CHECK_EQ(decode_wanted(&decoders[1], filled, last_row, &some), BZNA_OK);
        CHECK(same_between(&all, &some, last_row.rows, W));
        free(filled.data);
    }
    free(whole.data);
}

/* The row and the byte that a message names are those of the file. */
TEST(damage_in_the_wanted_rows_is_said_where_it_is)
{
    kind one = *kind_of("4:2:0 restarts");
    const bytes whole = encoded(&one);
    const size_t fourth = find(whole, find(whole, 0, "\xff\xda", 2) + 14, "\xff\xd3", 2);
    const bzi_wanted wanted = { .rows = { 48, H }, .shrink = 1 };
    bytes b = bytes_make(whole.data, whole.size);
    bzna_picture some;
    memset(b.data + fourth + 20, 0, b.size - fourth - 22);
    CHECK_EQ(decode_wanted(&decoders[1], b, wanted, &some), BZNA_E_DECODE);
    CHECK_EQ(row_said(), 64);
    CHECK(last.byte_offset > fourth && last.byte_offset <= b.size);
    free(b.data);
    free(whole.data);
}

TEST(of_several_scans_all_must_be_whole)
{
    static const char *const names[] = { "4:2:0 progressive", "4:2:0 scans", "4:2:0 both", "gray progressive" };
    bzna_random random;
    bzna_random_init(&random, 6, 0, 0, 0);
    for (size_t i = 0; i < COUNT(names); i++) {
        bytes whole = encoded(kind_of(names[i])), b = bytes_make(whole.data, whole.size);
        const size_t first = find(whole, 0, "\xff\xda", 2);
        const int arithmetic = kind_of(names[i])->arithmetic;
        uint32_t damaged = 0;
        bzna_picture all, some;
        CHECK_EQ(decode(&decoders[0], whole, H, &all), BZNA_OK);
        for (b.size = first; b.size + 4 < whole.size; b.size += ROUNDS(5, 29))
            CHECK_EQ(decode(&decoders[1], b, 1, &some), BZNA_E_DECODE);
        b.size = whole.size - 2;                            /* but for the end marker */
        CHECK_EQ(decode(&decoders[1], b, H, &some), arithmetic ? BZNA_E_DECODE : BZNA_OK);
        CHECK(arithmetic || same_rows(&all, &some, H));
        b.size = whole.size;
        for (uint32_t n = 0; n < ROUNDS(200, 40); n++) {
            const size_t at = first + bzna_random_u32(&random) % (whole.size - first);
            memcpy(b.data, whole.data, whole.size);
            b.data[at] ^= (uint8_t)(1 << n % 8);
            bzna_status status = decode(&decoders[1], b, H, &some);
            damaged += status != BZNA_OK;
            CHECK_EQ(decode(&decoders[1], b, 1, &some), status);
        }
        CHECK(arithmetic || damaged > ROUNDS(5, 0));
        free(b.data);
        free(whole.data);
    }
}

/* Scans that refine a progressive picture may be left out by its encoder, which then ends it. Those that a component
 * begins with may not, and without the end marker the file was cut. */
TEST(scans_that_are_left_out_are_damage_but_those_that_an_encoder_need_not_write)
{
    bytes whole = encoded(kind_of("4:2:0 progressive")), scans = encoded(kind_of("4:2:0 scans")), b;
    bzna_picture picture;
    for (size_t at = find(whole, 0, "\xff\xda", 2); (at = find(whole, at + 1, "\xff\xda", 2)) < whole.size;) {
        b = spliced(whole, at, NULL, 0, whole.size - 2);
        CHECK_EQ(decode(&decoders[0], b, H, &picture), BZNA_OK);
        b.size -= 2;
        CHECK_EQ(decode(&decoders[0], b, H, &picture), BZNA_E_DECODE);
        CHECK_CONTAINS(last.message, "truncated: scans are missing");
        free(b.data);
    }
    size_t at;
    at = find_last(scans, "\xff\xda", 2);
    b = spliced(scans, at, NULL, 0, scans.size - 2);
    CHECK_EQ(decode(&decoders[0], b, H, &picture), BZNA_E_DECODE);
    CHECK_CONTAINS(last.message, "truncated: scans are missing");
    free(b.data);
    free(scans.data);
    free(whole.data);
}

TEST(what_is_not_damage_changes_nothing)
{
    bytes whole = encoded(kind_of("4:2:0")), b;
    const size_t table = find(whole, 0, "\xff\xdb", 2), scan = find(whole, 0, "\xff\xda", 2);
    const size_t jfif = find(whole, 0, "JFIF", 4);
    static const struct { const char *data; size_t size; } more[] = {
        { "some bytes", 10 }, { "\xff\xff\xff", 3 }, { "\xff\xee\0\x0e" "Adobe\0\x64\0\0\0\0\x07", 16 },
        { "\xff\xe3\0\3x", 5 } };
    bzna_picture all, some;
    CHECK_EQ(decode(&decoders[0], whole, H, &all), BZNA_OK);
    for (size_t i = 0; i < 2 * COUNT(more); i++) {
        const size_t n = i / 2, at = i % 2 ? whole.size - 2 : table;
        b = spliced(whole, at, more[n].data, more[n].size, at);
        CHECK_EQ(decode(&decoders[1], b, H, &some), BZNA_OK);
        CHECK(same_rows(&all, &some, H));
        free(b.data);
    }
    b = spliced(whole, 2, more[2].data, more[2].size, jfif + 14);           /* Adobe's marker in place of JFIF's */
    CHECK_EQ(decode(&decoders[1], b, H, &some), BZNA_OK);
    CHECK(same_rows(&all, &some, H));
    free(b.data);
    b = bytes_make(whole.data, whole.size);
    b.data[jfif + 5] = 9;                                   /* the version */
    b.data[scan + 11] = 1;                                  /* the first coefficient */
    CHECK_EQ(decode(&decoders[1], b, H, &some), BZNA_OK);
    CHECK(same_rows(&all, &some, H));
    free(b.data);
    free(whole.data);
}

/* Scans of other coefficients than the first of each block have no use for tables of those: number 0 is not there. */
TEST(progressive_scans_need_the_tables_of_their_coefficients_alone)
{
    bytes whole = encoded(kind_of("gray progressive")), b = bytes_make(whole.data, whole.size);
    uint32_t tables = 0, scans = 0;
    bzna_picture all, some;
    for (size_t at = 2; at + 4 < b.size; at += 2 + bzi_be16(b.data + at + 2)) {
        while (at + 4 < b.size && (b.data[at] != 0xff || b.data[at + 1] < 0xc0 || (b.data[at + 1] & 0xf8) == 0xd0))
            at++;                                           /* coded data */
        if (at + 4 < b.size && b.data[at + 1] == 0xc4 && b.data[at + 4] == 0) {
            b.data[at + 4] = 1;
            tables++;
        }
        if (at + 4 < b.size && b.data[at + 1] == 0xda && b.data[at + 7] == 0) {
            b.data[at + 6] = 0x10;
            scans++;
        }
    }
    CHECK(tables == 1 && scans >= 1);
    CHECK_EQ(decode(&decoders[0], whole, H, &all), BZNA_OK);
    CHECK_EQ(decode(&decoders[1], b, H, &some), BZNA_OK);
    CHECK(same_rows(&all, &some, H));
    free(b.data);
    free(whole.data);
}

TEST(tables_of_a_picture_before_are_not_used)
{
    for (size_t i = 0; i < COUNT(kinds); i++) {
        bytes whole = encoded(&kinds[i]), b;
        size_t at = find(whole, 0, kinds[i].arithmetic ? "\xff\xdb" : "\xff\xc4", 2);
        bzna_picture picture;
        CHECK_EQ(decode(&decoders[0], whole, H, &picture), BZNA_OK);
        b = spliced(whole, at, NULL, 0, at + 2 + bzi_be16(whole.data + at + 2));
        CHECK_EQ(decode(&decoders[0], b, H, &picture), BZNA_E_DECODE);
        CHECK_CONTAINS(last.message, "was not defined");
        free(b.data);
        free(whole.data);
    }
}

TEST(coefficients_of_several_scans_are_bounded)
{
    static const char *const names[] = { "4:2:0 progressive", "4:2:0 scans" };
    for (size_t i = 0; i < COUNT(names); i++) {
        bytes b = encoded(kind_of(names[i]));
        const size_t frame = find(b, 0, i ? "\xff\xc0" : "\xff\xc2", 2);
        bzna_picture picture;
        memcpy(b.data + frame + 5, "\x40\0\x40\0", 4);      /* 16384x16384 */
        CHECK_EQ(decode(&decoders[0], b, H, &picture), BZNA_E_LIMIT);
        CHECK_CONTAINS(last.message, "coefficients of 16384x16384");
        free(b.data);
    }
}

/* libjpeg says that four components without Adobe's marker are CMYK, and djpeg makes R'G'B' of them as of Adobe's. */
TEST(cmyk_without_adobes_marker_has_the_pixels_that_djpeg_writes)
{
    const bytes whole = encoded(&with_black[0]);
    const size_t at = find(whole, 0, "\xff\xee", 2);
    bytes bare = spliced(whole, at, NULL, 0, at + 2 + (size_t)whole.data[at + 2] * 256 + whole.data[at + 3]);
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    bzna_picture picture;
    uint8_t row[4 * W];
    uint32_t differ = 0;

    CHECK_EQ(decode(&decoders[0], bare, H, &picture), BZNA_OK);
    info.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&info);
    jpeg_mem_src(&info, bare.data, (unsigned long)bare.size);
    jpeg_read_header(&info, TRUE);
    CHECK(!info.saw_Adobe_marker && info.out_color_space == JCS_CMYK);
    jpeg_start_decompress(&info);
    for (int y = 0; y < H; y++) {
        jpeg_read_scanlines(&info, (JSAMPROW[]){ row }, 1);
        for (int i = 0; i < 3 * W; i++) {                   /* cmyk_to_rgb() of libjpeg-turbo's cmyk.h */
            const int value = (int)((double)row[i / 3 * 4 + i % 3] * row[i / 3 * 4 + 3] / 255 + 0.5);
            differ += ((const uint8_t *)picture.plane[(i + 2) % 3])[y * picture.pitch[0] + i / 3 * 4] != value;
        }
    }
    CHECK_EQ(differ, 0);
    jpeg_finish_decompress(&info);
    jpeg_destroy_decompress(&info);
    free(bare.data);
    free(whole.data);
}

/* ---- Through the interface --------------------------------------------------------------------------------------- */

static uint64_t allocations;

static void *counting_alloc(void *user, size_t size, size_t align)
{
    allocations++;
    return bzi_os_alloc(user, size, align);
}

TEST(a_decoder_that_has_seen_as_large_a_picture_allocates_nothing)
{
    bzna_context_config config;
    bzna_context *context = NULL;
    bzna_decoder *decoder = NULL;
    uint64_t before = 0;
    bzna_context_config_init(&config, sizeof config);
    config.allocator.alloc = counting_alloc;
    config.allocator.release = bzi_os_release;
    REQUIRE(bzna_context_open(&config, &context, NULL) == BZNA_OK);
    REQUIRE(bzna_decoder_open(context, &decoder, NULL) == BZNA_OK);
    for (size_t i = 0; i < 2 * COUNT(kinds); i++) {
        bytes b = encoded(&kinds[i % COUNT(kinds)]);
        bzna_image image;
        bzna_picture picture = { .struct_size = sizeof picture };
        bzna_image_init(&image, sizeof image);
        image.codec = BZNA_CODEC_JPEG;
        image.data = b.data;
        image.data_size = b.size;
        CHECK_EQ(bzna_decoder_decode(decoder, &image, &picture, NULL), BZNA_OK);
        before = i < COUNT(kinds) ? allocations : before;
        free(b.data);
    }
    CHECK_EQ(allocations, before);
    bzna_decoder_close(decoder);
    bzna_context_close(context);
}

/* To the device, in test_jpeg_device.c: planes of the size at which they were decoded are uploaded. */
static void config_init(bzna_loader_config *config, int32_t device_kind)
{
    bzna_loader_config_init(config, sizeof *config);
    config->output.device.kind = device_kind;
    config->decode.decoder = BZNA_DECODER_SOFTWARE;
}

static const int32_t here = TEST_NVDEC ? BZNA_DEVICE_CUDA : BZNA_DEVICE_CPU;

static void file_write(const char *folder, int number, bytes b, size_t size)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%d.jpg", folder, number);
    FILE *file = fopen(path, "wb");
    REQUIRE(file && fwrite(b.data, 1, size, file) == size);
    fclose(file);
}

enum { READ_W = 16, READ_H = 4, READ = 3 * READ_W * READ_H };

static bzna_status crop(void *user, const bzna_sample_info *sample, bzna_random *random, bzna_transform *transform)
{
    const double rows = *(const uint32_t *)user;
    (void)sample, (void)random;
    memset(transform->homography, 0, sizeof transform->homography);
    transform->homography[0] = (double)W / READ_W;
    transform->homography[4] = rows / READ_H;
    transform->homography[8] = 1;
    return BZNA_OK;
}

/* A batch of a folder's four: whole, cut off, whole, damaged. */
static void check_damage(bzna_context *context, bzna_dataset *dataset, uint32_t rows, uint32_t shrink, float *pixels)
{
    static const char *const said[] = { "", "truncated after row ", "", "damaged near row " };
    bzna_error err = { .struct_size = sizeof err };
    bzna_loader_config config;
    bzna_loader *loader = NULL;
    bzna_loader_info info;
    bzna_batch *batch = NULL;
    bzna_batch_info got;
    config_init(&config, here);
    config.output.batch_size = 4;
    config.output.width = READ_W;
    config.output.height = READ_H;
    config.pipeline.transform = crop;
    config.pipeline.transform_user = &rows;
    config.decode.jpeg_shrink = shrink;
    REQUIRE(bzna_loader_open(context, dataset, &config, &loader, &err) == BZNA_OK);
    bzna_loader_get_info(loader, &info, sizeof info, &err);
    CHECK_CONTAINS(info.decoder_name, "libjpeg-turbo ");
    REQUIRE(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err) == BZNA_OK);
    bzna_batch_get_info(batch, &got, sizeof got, &err);
    memcpy(pixels, got.image.data, READ * sizeof *pixels);
    for (uint32_t i = 0; i < 4; i++) {
        CHECK_EQ(got.status[i], rows > 16 && i % 2 ? BZNA_E_DECODE : BZNA_OK);
        if (got.status[i] == BZNA_OK) {
            CHECK(!memcmp(pixels, (const float *)got.image.data + i * READ, READ * sizeof *pixels));
        } else {
            bzna_batch_error(batch, i, &err);
            CHECK_CONTAINS(err.message, ".jpg: JPEG at byte ");
            CHECK_CONTAINS(err.message, said[i]);
        }
    }
    bzna_batch_release(batch);
    bzna_loader_close(loader);
}

/* A sample fails by damage in rows that its warp reads, and by no other; shrunk to a quarter, too. */
TEST(a_loader_decodes_what_the_warp_reads)
{
    static const char folder[] = TEST_BUILD "/tests/jpeg_folder" TEST_PLACE;
    bytes whole = encoded(kind_of("4:2:0 restarts")), damaged = bytes_make(whole.data, whole.size);
    bzna_error err = { .struct_size = sizeof err };
    bzna_context *context = NULL;
    bzna_dataset *dataset = NULL;
    const size_t third = find(whole, 0, "\xff\xd2", 2);
    mkdir(folder, 0777);
    damaged.data[third + 1] = 0xd7;                         /* not the restart that is due */
    memset(damaged.data + third + 2, 0, 40);
    file_write(folder, 0, whole, whole.size);
    file_write(folder, 1, whole, third);
    file_write(folder, 2, whole, whole.size);
    file_write(folder, 3, damaged, damaged.size);
    REQUIRE(bzna_context_open(NULL, &context, &err) == BZNA_OK);
    REQUIRE(bzna_dataset_open(context, folder, NULL, &dataset, &err) == BZNA_OK);
    for (uint32_t rows = 16; rows <= H; rows += H - 16) {
        static float pixels[2][READ];
        check_damage(context, dataset, rows, 0, pixels[0]);
        check_damage(context, dataset, rows, 1, pixels[1]);
        CHECK(memcmp(pixels[0], pixels[1], sizeof pixels[0]));
    }
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    free(damaged.data);
    free(whole.data);
}

static double difference_of(const float *a, const float *b, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += fabs(a[i] - b[i]);
    return sum / (double)count;
}

enum { SMALL = 3 * 16 * 12, OTHER = 3 * 60 * 60 };

/* What a loader is asked for beside the first output: 16x12 pixels of the whole picture, which shrinks it by 5.8. */
typedef struct asked {
    float    margin;
    uint32_t jpeg_shrink, edge, antialias;                  /* edge: of another output; 0: there is none */
    uint32_t own_warp, warp, views;                         /* own_warp 0: the other output has the first one's warp */
    int32_t  device_kind;
} asked;

/* The first of a data set's pictures; `other`, if it is not NULL, has the other output's views. */
static bzna_status load_small(bzna_context *context, bzna_dataset *dataset, const asked *a, float *pixels, float *other)
{
    const bzna_warp warp = { .kind = a->warp };
    const bzna_loader_output extra = { .name = "other", .width = a->edge, .height = a->edge, .views = a->views,
                                       .warp = a->own_warp ? &warp : NULL };
    bzna_loader_config config;
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_batch_info info;
    bzna_status status;
    config_init(&config, a->device_kind);
    config.output.batch_size = 1;
    config.output.width = 16;
    config.output.height = 12;
    config.warp.kind = BZNA_WARP_CENTER_RESIZED_CROP;
    config.filter.antialias = a->antialias;
    config.decode.jpeg_shrink = a->jpeg_shrink;
    config.decode.jpeg_shrink_margin = a->margin;
    config.extra_outputs.ptr = a->edge ? &extra : NULL;
    config.extra_outputs.count = a->edge != 0;
    if ((status = bzna_loader_open(context, dataset, &config, &loader, &last)) != BZNA_OK)
        return status;
    if ((status = bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &last)) == BZNA_OK) {
        bzna_tensor tensor = { .struct_size = sizeof tensor };
        bzna_batch_get_info(batch, &info, sizeof info, &last);
        status = info.status[0];
        memcpy(pixels, info.image.data, SMALL * sizeof *pixels);
        if (other && bzna_batch_tensor(batch, extra.name, &tensor, sizeof tensor, &last) == BZNA_OK)
            memcpy(other, tensor.data, (size_t)tensor.bytes);
    }
    bzna_batch_release(batch);
    bzna_loader_close(loader);
    return status;
}

/* Loads as asked on the device, if there is one, and on the host, which has the same bits. */
static bzna_status load_twice(bzna_context *context, bzna_dataset *dataset, asked a, float *pixels, float *other)
{
    static float small[SMALL], large[OTHER];
    bzna_status status;
    a.device_kind = BZNA_DEVICE_CPU;
    status = load_small(context, dataset, &a, pixels, other);
    if (!TEST_NVDEC || status != BZNA_OK)
        return status;
    a.device_kind = BZNA_DEVICE_CUDA;
    CHECK_EQ(load_small(context, dataset, &a, small, other ? large : NULL), BZNA_OK);
    CHECK(!memcmp(small, pixels, sizeof small));
    CHECK(!other || !memcmp(large, other, 3ull * a.edge * a.edge * (a.views ? a.views : 1) * sizeof *other));
    return status;
}

TEST(a_loader_shrinks_by_what_all_views_of_a_picture_allow)
{
    static const char folder[] = TEST_BUILD "/tests/jpeg_shrunk" TEST_PLACE;
    static float whole[SMALL], shrunk[SMALL], other[SMALL], views[2][OTHER];
    static const asked none = { .edge = 0 }, alone = { .jpeg_shrink = 1 }, unknown = { .jpeg_shrink = 2 },
                       sharp = { .jpeg_shrink = 1, .antialias = BZNA_ANTIALIAS_OFF };
    static const struct { asked asked; int is_shrunk; } with_others[] = {
        { { .jpeg_shrink = 1, .edge = 8 }, 1 },             /* shrinks by more */
        { { .jpeg_shrink = 1, .edge = 60 }, 0 },            /* by less than two */
        { { .jpeg_shrink = 1, .edge = 8, .own_warp = 1, .warp = BZNA_WARP_CENTER_RESIZED_CROP }, 1 },
        { { .jpeg_shrink = 1, .edge = 30, .own_warp = 1, .warp = BZNA_WARP_NONE }, 0 },         /* does not resize */
        { { .jpeg_shrink = 1, .edge = 40, .own_warp = 1, .warp = BZNA_WARP_RANDOM_RESIZED_CROP, .views = 2 }, 0 },
    };
    static const struct { float margin; uint32_t shrink; } margins[] = {
        { 1, 4 }, { 1.4f, 4 }, { 1.5f, 2 }, { 2.8f, 2 }, { 3, 1 }, { 64, 1 } };
    static const asked wrong[] = { { .margin = 2 }, { .jpeg_shrink = 1, .margin = 0.5f },
                                   { .jpeg_shrink = 1, .margin = -1 }, { .jpeg_shrink = 1, .margin = 65 },
                                   { .jpeg_shrink = 1, .margin = NAN }, { .margin = NAN } };
    bytes b = encoded(kind_of("4:2:0"));
    bzna_context *context = NULL;
    bzna_dataset *dataset = NULL;
    mkdir(folder, 0777);
    file_write(folder, 0, b, b.size);
    REQUIRE(bzna_context_open(NULL, &context, &last) == BZNA_OK);
    REQUIRE(bzna_dataset_open(context, folder, NULL, &dataset, &last) == BZNA_OK);
    CHECK_EQ(load_twice(context, dataset, none, whole, NULL), BZNA_OK);
    CHECK_EQ(load_twice(context, dataset, alone, shrunk, NULL), BZNA_OK);
    CHECK(memcmp(whole, shrunk, sizeof whole) && difference_of(whole, shrunk, SMALL) < 2);
    for (size_t i = 0; i < COUNT(with_others); i++) {
        asked a = with_others[i].asked;
        const float *as = with_others[i].is_shrunk ? shrunk : whole;
        CHECK_EQ(load_twice(context, dataset, a, other, views[0]), BZNA_OK);
        CHECK(!memcmp(as, other, sizeof other));
        a.jpeg_shrink = 0;
        CHECK_EQ(load_twice(context, dataset, a, other, views[1]), BZNA_OK);
        CHECK(!memcmp(views[0], views[1], sizeof views[0]) == !with_others[i].is_shrunk);
    }
    for (size_t i = 0; i < COUNT(margins); i++) {           /* the views shrink by 5.8: by 4, and 1.45 more */
        const asked a = { .jpeg_shrink = 1, .margin = margins[i].margin };
        CHECK_EQ(load_twice(context, dataset, a, other, NULL), BZNA_OK);
        CHECK(!memcmp(shrunk, other, sizeof other) == (margins[i].shrink == 4));
        CHECK(!memcmp(whole, other, sizeof other) == (margins[i].shrink == 1));
    }
    for (size_t i = 0; i < COUNT(wrong); i++) {
        CHECK_EQ(load_twice(context, dataset, wrong[i], other, NULL), BZNA_E_ARGUMENT);
        CHECK_CONTAINS(last.message, "loader_config.decode.jpeg_shrink_margin: ");
    }
    CHECK_EQ(load_twice(context, dataset, sharp, other, NULL), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(last.message, "decode.jpeg_shrink: loader_config.output has a filter without antialias");
    CHECK_EQ(load_twice(context, dataset, unknown, other, NULL), BZNA_E_ARGUMENT);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    free(b.data);
}

/* Which samples of an archive are JPEG, is known when they are read: where libavcodec decodes them, all states say so.
 * It decodes all else as others do, so that states of other builds agree. */
TEST(a_state_knows_who_decodes_the_jpegs_of_a_folder)
{
    static const char archive[] = "tests/data/mini_h265.bzna", folder[] = TEST_BUILD "/tests/jpeg_shrunk" TEST_PLACE;
    static const uint32_t settings[3] = { 0, 0, 0 };        /* of the part, its orientation and its palettes */
    bzna_context *context = NULL;
    bzna_dataset *datasets[2] = { NULL, NULL };
    REQUIRE(bzna_context_open(NULL, &context, &last) == BZNA_OK);
    REQUIRE(bzna_dataset_open(context, archive, NULL, &datasets[0], &last) == BZNA_OK);
    REQUIRE(bzna_dataset_open(context, folder, NULL, &datasets[1], &last) == BZNA_OK);
    CHECK_EQ(bzi_dataset_hash_stills(datasets[0]), 0);
    CHECK_EQ(bzi_dataset_hash_stills(datasets[1]),
             bzi_hash(bzi_hash(BZI_HASH_START, "libjpeg-turbo", 14), settings, sizeof settings));
    bzna_dataset_close(datasets[0]);
    bzna_dataset_close(datasets[1]);
    bzna_context_close(context);
}

/* The sum of a picture's luma; planes may be padded. */
static uint64_t luma_sum(const bzna_picture *picture, const void *plane)
{
    uint64_t sum = 0;
    for (uint32_t y = 0; y < picture->frame_height; y++)
        for (uint32_t x = 0; x < picture->frame_width; x++)
            sum = sum * 31 + ((const uint8_t *)plane)[(int64_t)y * picture->pitch[0] +
                                                      (int64_t)x * (picture->step[0] ? picture->step[0] : 1)];
    return sum;
}

static bzna_status sum_luma(void *user, const bzna_sample_info *sample, bzna_random *random,
                            const bzna_picture *picture, void *const planes[3])
{
    (void)sample, (void)random;
    *(uint64_t *)user = luma_sum(picture, planes[0]);
    return BZNA_OK;
}

TEST(who_draws_into_a_picture_sees_all_of_it)
{
    static const char folder[] = TEST_BUILD "/tests/jpeg_seen" TEST_PLACE;
    bytes b = encoded(kind_of("4:2:0"));
    bzna_context *context = NULL;
    bzna_dataset *dataset = NULL;
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_loader_config config;
    bzna_picture whole;
    uint64_t seen = 0;
    mkdir(folder, 0777);
    file_write(folder, 0, b, b.size);
    config_init(&config, BZNA_DEVICE_CPU);
    config.output.batch_size = 1;
    config.output.width = config.output.height = 4;         /* of the middle: half the rows are below it */
    config.decode.jpeg_shrink = 1;
    config.pipeline.picture = sum_luma;
    config.pipeline.picture_user = &seen;
    REQUIRE(bzna_context_open(NULL, &context, &last) == BZNA_OK);
    REQUIRE(bzna_dataset_open(context, folder, NULL, &dataset, &last) == BZNA_OK);
    for (int i = 0; i < 2; i++) {
        config.warp.kind = i ? BZNA_WARP_CENTER_RESIZED_CROP : BZNA_WARP_NONE;
        REQUIRE(bzna_loader_open(context, dataset, &config, &loader, &last) == BZNA_OK);
        CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &last), BZNA_OK);
        bzna_batch_release(batch);
        bzna_loader_close(loader);
        CHECK_EQ(decode(&decoders[0], b, H, &whole), BZNA_OK);
        CHECK_EQ(seen, luma_sum(&whole, whole.plane[0]));
        seen = 0;
    }
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    free(b.data);
}

TEST(nothing_is_printed)
{
    static const char path[] = TEST_BUILD "/tests/jpeg_stderr.txt";
    bytes whole = encoded(kind_of("4:2:0")), b = bytes_make(whole.data, whole.size / 2);
    FILE *file = fopen(path, "w+");
    const int before = dup(2);
    bzna_picture picture;
    REQUIRE(file && before >= 0 && dup2(fileno(file), 2) >= 0);
    CHECK_EQ(decode(&decoders[0], b, H, &picture), BZNA_E_DECODE);
    fflush(stderr);
    dup2(before, 2);
    close(before);
    fseek(file, 0, SEEK_END);
    CHECK_EQ(ftell(file), 0);
    fclose(file);
    free(b.data);
    free(whole.data);
}

TEST(decoders_are_closed)                     /* what the tests above have used */
{
    for (size_t i = 0; i < COUNT(decoders); i++)
        if (decoders[i].memory)
            bzi_software_close(&decoders[i]);
}

#if TEST_NVDEC
TEST_MAIN(RUN(a_loader_decodes_what_the_warp_reads)
          RUN(a_loader_shrinks_by_what_all_views_of_a_picture_allow)
          RUN(decoders_are_closed))
#else
TEST_MAIN(RUN(headers_that_only_libjpeg_turbo_may_judge_are_never_nvdecs)
          RUN(an_orientation_needs_the_name_of_exif)
          RUN(planes_are_those_of_turbojpeg)
          RUN(arithmetic_coding_has_the_pixels_of_huffmans)
          RUN(a_warp_of_the_rows_that_it_needs_is_that_of_the_whole_picture)
          RUN(shrunk_planes_are_libjpegs_rows)
          RUN(a_shrunk_picture_lies_where_the_whole_one_does)
          RUN(a_picture_is_shrunk_by_no_more_than_its_warp_does)
          RUN(what_ends_early_is_good_down_to_the_row_that_is_named)
          RUN(damage_is_of_no_matter_above_it)
          RUN(rows_between_restart_markers_are_those_of_the_whole_picture)
          RUN(damaged_restart_markers_above_the_wanted_rows_are_damage)
          RUN(damage_in_the_wanted_rows_is_said_where_it_is)
          RUN(of_several_scans_all_must_be_whole)
          RUN(scans_that_are_left_out_are_damage_but_those_that_an_encoder_need_not_write)
          RUN(what_is_not_damage_changes_nothing)
          RUN(progressive_scans_need_the_tables_of_their_coefficients_alone)
          RUN(tables_of_a_picture_before_are_not_used)
          RUN(coefficients_of_several_scans_are_bounded)
          RUN(cmyk_without_adobes_marker_has_the_pixels_that_djpeg_writes)
          RUN(a_decoder_that_has_seen_as_large_a_picture_allocates_nothing)
          RUN(a_loader_decodes_what_the_warp_reads)
          RUN(a_loader_shrinks_by_what_all_views_of_a_picture_allow)
          RUN(a_state_knows_who_decodes_the_jpegs_of_a_folder)
          RUN(who_draws_into_a_picture_sees_all_of_it)
          RUN(nothing_is_printed)
          RUN(decoders_are_closed))
#endif
#endif
