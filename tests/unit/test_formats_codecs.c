/* The codecs of examples/formats that libraries decode (GIF, BMP, PNM, TIFF, JPEG 2000), called as the library calls
 * them: parts of pictures, memory that ends, and what the libraries' own programs make of the same files. What they
 * make of whole pictures is compared with Pillow in test_pictures. */
#include "../../benzina.h"
#include "test.h"
#include "../../examples/formats/formats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const paths[] = {
    "tests/data/pictures/tiff_lzw.tif",    "tests/data/pictures/tiff_fax.tif",  "tests/data/pictures/tiff_jpeg.tif",
    "tests/data/pictures/tiff_cmyk.tif",   "tests/data/pictures/tiff_palette.tif",
    "tests/data/pictures/jpeg2000.jp2",    "tests/data/pictures/jpeg2000_gray.j2k", "tests/data/seeds/palette.jp2",
    "tests/data/seeds/grid.j2k",           "tests/data/seeds/chroma.j2k",
    "tests/data/pictures/gif_87.gif",      "tests/data/pictures/gif_animated_clear.gif",
    "tests/data/pictures/bmp_1.bmp",       "tests/data/pictures/bmp_palette_8.bmp",
    "tests/data/seeds/gray.pam",           "tests/data/seeds/plain.ppm",
};

/* A file, and the planes that its codec decodes it to. */
typedef struct decoding {
    bzna_codec        codec;
    void             *state;
    uint8_t          *data;
    size_t            size;
    bzna_codec_shape  shape;
    bzna_codec_planes planes;
    uint8_t           palette[768];
    bzna_error        err;
} decoding;

static size_t samples_of(const bzna_codec_shape *s, int plane, size_t *width)
{
    const uint32_t x = plane ? s->chroma_shift_x : 0, y = plane ? s->chroma_shift_y : 0;
    *width = (s->width + (1u << x) - 1) >> x;
    return (s->height + (1u << y) - 1) >> y;
}

static int planes_alloc(decoding *d)
{
    const int count = d->shape.pixels == BZNA_PIXELS_GRAY || d->shape.pixels == BZNA_PIXELS_INDEX ||
                      d->shape.interleaved ? 1 : 3;
    d->planes = (bzna_codec_planes){ .struct_size = sizeof d->planes, .width = d->shape.width,
                                     .height = d->shape.height };
    d->planes.step = (d->shape.depth > 8 ? 2u : 1u) * (d->shape.interleaved ? 3 : 1);
    for (int i = 0; i < count; i++) {
        size_t width, height = samples_of(&d->shape, i, &width);
        d->planes.pitch[i] = (int64_t)((width * d->planes.step + 63) / 64 * 64);
        d->planes.plane[i] = aligned_alloc(64, (size_t)d->planes.pitch[i] * height);
        if (!d->planes.plane[i])
            return 0;
        memset(d->planes.plane[i], 0, (size_t)d->planes.pitch[i] * height);
    }
    if (d->shape.interleaved)
        for (int i = 1; i < 3; i++)
            d->planes.plane[i] = (uint8_t *)d->planes.plane[0] + (uint32_t)i * d->planes.step / 3;
    if (d->shape.pixels == BZNA_PIXELS_INDEX)
        d->planes.palette = memset(d->palette, 0, sizeof d->palette);
    return 1;
}

static void planes_free(decoding *d)
{
    for (int i = 0; i < (d->shape.interleaved ? 1 : 3); i++)
        free(d->planes.plane[i]);
    memset(&d->planes, 0, sizeof d->planes);
}

static void decoding_close(decoding *d)
{
    planes_free(d);
    if (d->codec.thread_end && d->state)
        d->codec.thread_end(d->codec.user, d->state);
    d->state = NULL;
}

/* Reads a file, and finds its codec. Returns 0 if this build has no such codec. */
static int decoding_open(decoding *d, const char *path)
{
    static uint8_t bytes[1 << 22];
    FILE *f = fopen(path, "rb");
    uint64_t count;
    const bzna_codec *codecs = bzna_formats_codecs(&count);
    memset(d, 0, sizeof *d);
    if (!f)
        return 0;
    d->size = fread(bytes, 1, sizeof bytes, f);
    d->data = bytes;
    fclose(f);
    const uint32_t number = bzna_formats_recognize(d->data, d->size);
    if (number < BZNA_CODEC_OWN || number - BZNA_CODEC_OWN >= count)
        return 0;
    d->codec = codecs[number - BZNA_CODEC_OWN];
    d->err.struct_size = sizeof d->err;
    return d->codec.decode != NULL;
}

/* Everything that the library does for a picture, once. */
static bzna_status decode_all(decoding *d)
{
    d->shape = (bzna_codec_shape){ .struct_size = sizeof d->shape, .depth = 8 };
    d->state = d->codec.thread_begin ? NULL : d->codec.user;
    bzna_status status = d->codec.thread_begin ? d->codec.thread_begin(d->codec.user, &d->state, &d->err) : BZNA_OK;
    if (status == BZNA_OK)
        status = d->codec.inspect(d->state, d->data, d->size, &d->shape, &d->err);
    if (status != BZNA_OK)
        return status;
    if (!planes_alloc(d))
        return d->err.message[0] = '-', BZNA_E_MEMORY;
    const bzna_rectangle whole = { 0, 0, d->shape.width, d->shape.height };
    return d->codec.decode(d->state, d->data, d->size, &whole, &d->planes, &d->err);
}

/* Whether two decodings are the same within a rectangle, in all planes. */
static int same_within(const decoding *a, const decoding *b, bzna_rectangle r)
{
    for (int i = 0; i < (a->shape.interleaved ? 1 : 3) && a->planes.plane[i]; i++) {
        const uint32_t x = i ? a->shape.chroma_shift_x : 0, y = i ? a->shape.chroma_shift_y : 0;
        const size_t x0 = r.x0 >> x, x1 = ((r.x1 - 1) >> x) + 1;
        for (size_t row = r.y0 >> y; row <= (r.y1 - 1) >> y; row++)
            if (memcmp((uint8_t *)a->planes.plane[i] + (int64_t)row * a->planes.pitch[i] + x0 * a->planes.step,
                       (uint8_t *)b->planes.plane[i] + (int64_t)row * b->planes.pitch[i] + x0 * b->planes.step,
                       (x1 - x0) * a->planes.step))
                return 0;
    }
    return !memcmp(a->palette, b->palette, sizeof a->palette);
}

TEST(a_part_of_a_picture_is_that_of_the_whole)
{
    uint64_t random = 1;
    int files = 0;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        decoding whole, part;
        if (!decoding_open(&whole, paths[i]))
            continue;
        files++;
        CHECK_EQ(decode_all(&whole), BZNA_OK);
        part = whole;
        for (int round = 0; round < ROUNDS(300, 40); round++) {
            uint32_t draw[4];
            for (int k = 0; k < 4; k++) {
                random = random * 6364136223846793005u + 1442695040888963407u;
                draw[k] = (uint32_t)(random >> 33);
            }
            const uint32_t x = draw[0] % whole.shape.width, y = draw[1] % whole.shape.height;
            const bzna_rectangle r = { x, y, x + 1 + draw[2] % (whole.shape.width - x),
                                       y + 1 + draw[3] % (whole.shape.height - y) };
            REQUIRE(planes_alloc(&part));
            CHECK_EQ(part.codec.decode(part.state, part.data, part.size, &r, &part.planes, &part.err), BZNA_OK);
            if (!same_within(&whole, &part, r)) {
                printf("%s: %u,%u to %u,%u\n", paths[i], r.x0, r.y0, r.x1, r.y1);
                CHECK(0);
            }
            planes_free(&part);
        }
        decoding_close(&whole);
    }
    if (!files)
        SKIP("this build decodes none of them");
}

#if defined(__GLIBC__) && !SANITIZED

#include <sys/wait.h>
#include <unistd.h>

/* The functions of glibc that these stand before. While `armed`, allocation number `failing` of any kind fails. */
extern void *__libc_malloc(size_t size), *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *p, size_t size), *__libc_memalign(size_t align, size_t size);
extern int posix_memalign(void **p, size_t align, size_t size);
static long allocations, failing;
static int armed;

#pragma GCC visibility push(default)
static int allocation_fails(void) { return armed && ++allocations == failing; }
void *malloc(size_t size) { return allocation_fails() ? NULL : __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return allocation_fails() ? NULL : __libc_calloc(count, size); }
void *realloc(void *p, size_t size) { return allocation_fails() ? NULL : __libc_realloc(p, size); }
void *aligned_alloc(size_t align, size_t size) { return allocation_fails() ? NULL : __libc_memalign(align, size); }

int posix_memalign(void **p, size_t align, size_t size)
{
    *p = allocation_fails() ? NULL : __libc_memalign(align, size);
    return *p ? 0 : ENOMEM;
}
#pragma GCC visibility pop

enum { END_WHOLE, END_ERROR, END_WRONG, END_ALL, END_CRASH, ENDS };

/* How a decoding ends of which one allocation fails. END_ALL: there are fewer. */
static int ends_of_failing(const char *path, const decoding *whole, long number)
{
    int state = 0;
    fflush(NULL);
    const pid_t child = fork();
    if (!child) {
        decoding d;
        decoding_open(&d, path);
        failing = number;
        armed = 1;
        const bzna_status status = decode_all(&d);
        armed = 0;
        if (status != BZNA_OK && !*d.err.message)
            fprintf(stderr, "%s: allocation %ld: no message\n", path, number), _exit(END_WRONG);
        if (status != BZNA_OK)
            _exit(allocations < number ? END_WRONG : END_ERROR);
        const bzna_rectangle all = { 0, 0, whole->shape.width, whole->shape.height };
        if (!same_within(whole, &d, all))
            fprintf(stderr, "%s: allocation %ld: other pixels\n", path, number), _exit(END_WRONG);
        decoding_close(&d);
        _exit(allocations < number ? END_ALL : END_WHOLE);
    }
    if (child < 0 || waitpid(child, &state, 0) != child)
        return END_WRONG;
    return WIFEXITED(state) ? WEXITSTATUS(state) : END_CRASH;
}

/* libtiff 4.5 and OpenJPEG 2.5 do not check all of their allocations, so that some crash, which is counted. */
TEST(whichever_allocation_fails_a_picture_is_whole_or_an_error)
{
    int files = 0;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        decoding whole;
        int ends[ENDS] = { 0 };
        if (!decoding_open(&whole, paths[i]))
            continue;
        files++;
        CHECK_EQ(decode_all(&whole), BZNA_OK);
        for (long number = 1; !ends[END_ALL] && number < 5000; number += ROUNDS(1, 3))
            ends[ends_of_failing(paths[i], &whole, number)]++;
        printf("%s: %d whole, %d errors, %d crashes of its library\n", paths[i], ends[END_WHOLE], ends[END_ERROR],
               ends[END_CRASH]);
        CHECK_EQ(ends[END_WRONG], 0);
        if (!strstr(paths[i], ".tif") && !strstr(paths[i], ".j"))
            CHECK_EQ(ends[END_CRASH], 0);
        CHECK(ends[END_ERROR] > 0 && ends[END_ALL] == 1);
        decoding_close(&whole);
    }
    if (!files)
        SKIP("this build decodes none of them");
}
#else
TEST(whichever_allocation_fails_a_picture_is_whole_or_an_error)
{
    SKIP("glibc's malloc is stood before, which a sanitizer does, too");
}
#endif

/* ---- Pictures that are opened from memory and by a source ---- */

static int closes, failing_reads;

static int64_t read_at(void *user, uint64_t offset, void *dst, uint64_t size)
{
    const decoding *d = user;
    size = size > 100 ? 100 : size;                         /* a source may give less than it is asked for */
    if (failing_reads)
        return -7;
    if (offset >= d->size)
        return 0;
    if (size > d->size - offset)
        size = d->size - offset;
    memcpy(dst, d->data + offset, (size_t)size);
    return (int64_t)size;
}

static int64_t size_of(void *user) { return (int64_t)((const decoding *)user)->size; }
static void close_it(void *user) { (void)user, closes++; }

/* The sum of a batch of one sample, or -1 if it failed. */
static double sum_of(bzna_context *context, bzna_dataset *dataset)
{
    bzna_loader_config config = { .struct_size = sizeof config };
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_batch_info info;
    double sum = -1;
    config.output.batch_size = 1;
    config.output.width = config.output.height = 16;
    if (bzna_dataset_count(dataset) == 1 && bzna_loader_open(context, dataset, &config, &loader, NULL) == BZNA_OK &&
        bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK &&
        bzna_batch_get_info(batch, &info, sizeof info, NULL) == BZNA_OK && !info.failed) {
        sum = 0;
        for (size_t i = 0; i < 3 * 16 * 16; i++)
            sum += (double)((const float *)info.image.data)[i];
    }
    bzna_batch_release(batch);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    return sum;
}

TEST(a_picture_in_memory_or_of_a_source_is_the_sample_that_it_is_as_a_file)
{
    static const char *const files[] = { "tests/data/heif/alpha.avif", "tests/data/pictures/tiff_lzw.tif",
                                         "tests/data/pictures/gif_87.gif" };
    bzna_context_config config = { .struct_size = sizeof config };
    bzna_context *context = NULL;
    bzna_error err = { .struct_size = sizeof err };
    config.own_codecs.ptr = bzna_formats_codecs(&config.own_codecs.count);
    config.device.kind = BZNA_DEVICE_CPU;
    REQUIRE(bzna_context_open(&config, &context, &err) == BZNA_OK);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        bzna_dataset *file = NULL, *memory = NULL, *source = NULL;
        decoding d;
        decoding_open(&d, files[i]);
        REQUIRE(d.size > 0);
        const bzna_source s = { .struct_size = sizeof s, .user = &d, .read_at = read_at, .size = size_of,
                                .close = close_it };
        closes = failing_reads = 0;
        REQUIRE(bzna_formats_open(context, files[i], NULL, &file, &err) == BZNA_OK);
        REQUIRE(bzna_formats_open_memory(context, d.data, d.size, NULL, &memory, &err) == BZNA_OK);
        REQUIRE(bzna_formats_open_source(context, &s, NULL, &source, &err) == BZNA_OK);
        const double whole = sum_of(context, file);
        CHECK_EQ(sum_of(context, memory), whole);
        CHECK_EQ(closes, 0);
        CHECK_EQ(sum_of(context, source), whole);
        CHECK_EQ(closes, 1);
        REQUIRE(bzna_formats_open_source(context, &s, NULL, &source, &err) == BZNA_OK);
        failing_reads = 1;
        CHECK_EQ(sum_of(context, source), -1);
        CHECK_EQ(closes, 2);
        failing_reads = 0;
        d.size = 2;                                         /* no picture: refused as before, and not closed */
        CHECK_EQ(bzna_formats_open_source(context, &s, NULL, &source, &err) < 0, 1);
        CHECK(source == NULL);
        CHECK_EQ(closes, 2);
    }
    bzna_context_close(context);
}

TEST(pictures_of_all_brands_of_heif_are_opened_alone)
{
    static const char *const brands[] = { "avci", "mif1", "mif2", "jpeg", "miaf", "heic", "avif", "msf1" };
    static const char path[] = TEST_BUILD "/tests/brand.heic";
    bzna_context_config config = { .struct_size = sizeof config };
    bzna_context *context = NULL;
    bzna_error err = { .struct_size = sizeof err };
    double as_it_was = 0;
    decoding d;
    config.own_codecs.ptr = bzna_formats_codecs(&config.own_codecs.count);
    config.device.kind = BZNA_DEVICE_CPU;
    REQUIRE(bzna_context_open(&config, &context, &err) == BZNA_OK);
    decoding_open(&d, "tests/data/heif/still_h264.heic");
    REQUIRE(d.size > 12 && !memcmp(d.data + 8, "avci", 4));
    failing_reads = 0;
    for (size_t i = 0; i < sizeof brands / sizeof *brands; i++) {
        bzna_dataset *file = NULL, *memory = NULL, *source = NULL, *alone = NULL;
        const bzna_source s = { .struct_size = sizeof s, .user = &d, .read_at = read_at, .size = size_of,
                                .close = close_it };
        memcpy(d.data + 8, brands[i], 4);
        FILE *const f = fopen(path, "wb");
        REQUIRE(f && fwrite(d.data, 1, d.size, f) == d.size && !fclose(f));
        CHECK_EQ(bzna_formats_open(context, path, NULL, &file, &err), BZNA_OK);
        CHECK_EQ(bzna_formats_open_memory(context, d.data, d.size, NULL, &memory, &err), BZNA_OK);
        CHECK_EQ(bzna_formats_open_source(context, &s, NULL, &source, &err), BZNA_OK);
        REQUIRE(file && memory && source);
        as_it_was = i ? as_it_was : sum_of(context, file);
        if (i)
            CHECK_EQ(sum_of(context, file), as_it_was);
        CHECK_EQ(sum_of(context, memory), as_it_was);
        CHECK_EQ(sum_of(context, source), as_it_was);
        CHECK_EQ(bzna_dataset_open_memory(context, d.data, d.size, NULL, &alone, &err), BZNA_E_UNSUPPORTED);
        CHECK_CONTAINS(err.message, "it is a HEIF or AVIF picture");
    }
    memcpy(d.data + 8, "isom", 4);                          /* a video without its moov box */
    bzna_dataset *none = NULL;
    CHECK_EQ(bzna_formats_open_memory(context, d.data, d.size, NULL, &none, &err), BZNA_E_TRUNCATED);
    CHECK_EQ(bzna_formats_open_memory(context, "hello, world", 12, NULL, &none, &err), BZNA_E_FORMAT);
    CHECK_CONTAINS(err.message, "of no known kind");
    CHECK(!strstr(err.message, "examples/formats"));        /* which was called */
    bzna_context_close(context);
}

TEST(a_picture_alone_is_of_the_format_picture)
{
    bzna_dataset_config dataset_config;
    bzna_context_config context_config = { .struct_size = sizeof context_config };
    bzna_formats_config config;
    bzna_context *context = NULL;
    bzna_dataset *dataset = NULL;
    bzna_dataset_info info;
    bzna_error err = { .struct_size = sizeof err };
    context_config.own_codecs.ptr = bzna_formats_codecs(&context_config.own_codecs.count);
    context_config.device.kind = BZNA_DEVICE_CPU;
    REQUIRE(bzna_context_open(&context_config, &context, &err) == BZNA_OK);
    bzna_dataset_config_init(&dataset_config, sizeof dataset_config);
    bzna_formats_config_init(&config, sizeof config);
    config.dataset = &dataset_config;
    dataset_config.format = "picture";
    REQUIRE(bzna_formats_open(context, "tests/data/heif/alpha.avif", &config, &dataset, &err) == BZNA_OK);
    CHECK_EQ(bzna_dataset_get_info(dataset, &info, sizeof info, &err), BZNA_OK);
    CHECK_STR(info.container, "picture");
    bzna_dataset_close(dataset);
    dataset_config.format = "HEIF";
    CHECK_EQ(bzna_formats_open(context, "tests/data/heif/alpha.avif", &config, &dataset, &err), BZNA_E_FORMAT);
    CHECK_CONTAINS(err.message, "it is of the format \"picture\", not \"HEIF\"");
    bzna_context_close(context);
}

/* The kind that bzna_image_info says of a file's only picture, if this build decodes it. */
static void check_kind(bzna_context *context, const char *path, const char *kind)
{
    bzna_image_info info = { .struct_size = sizeof info };
    bzna_error err = { .struct_size = sizeof err };
    bzna_dataset *dataset = NULL;
    decoding d;
    if (!decoding_open(&d, path))
        return;
    CHECK_EQ(bzna_formats_open(context, path, NULL, &dataset, &err), BZNA_OK);
    REQUIRE(dataset);
    CHECK_EQ(bzna_dataset_image_info(dataset, 0, NULL, &info, sizeof info, &err), BZNA_OK);
    const char text[] = { (char)(info.fourcc >> 24), (char)(info.fourcc >> 16), (char)(info.fourcc >> 8),
                          (char)info.fourcc, 0 };
    CHECK_STR(text, kind);
    bzna_dataset_close(dataset);
}

TEST(kinds_of_pictures_are_told_apart)
{
    bzna_context_config config = { .struct_size = sizeof config };
    bzna_context *context = NULL;
    bzna_error err = { .struct_size = sizeof err };
    const bzna_codec *const codecs = bzna_formats_codecs(&config.own_codecs.count);
    config.own_codecs.ptr = codecs;
    config.device.kind = BZNA_DEVICE_CPU;
    REQUIRE(bzna_context_open(&config, &context, &err) == BZNA_OK);
    check_kind(context, "tests/data/heif/alpha.avif", "heif");
    check_kind(context, "tests/data/pictures/gif_87.gif", "gif ");
    check_kind(context, "tests/data/pictures/bmp_1.bmp", "bmp ");
    check_kind(context, "tests/data/seeds/plain.ppm", "pnm ");
    check_kind(context, "tests/data/pictures/tiff_lzw.tif", "tiff");
    check_kind(context, "tests/data/pictures/jpeg2000.jp2", "jp2 ");
    check_kind(context, "tests/data/pictures/jpeg2000_gray.j2k", "jp2 ");
    CHECK(!strncmp(codecs[config.own_codecs.count - 1].name, "JXL ", 4));   /* whose file only cjxl makes */
    for (uint64_t i = 0; i < config.own_codecs.count; i++)
        for (uint64_t k = 0; k < i; k++)
            CHECK(strncmp(codecs[i].name, codecs[k].name, 4));
    bzna_context_close(context);
}

/* ---- JPEG 2000 as OpenJPEG's program decodes it ---- */

/* One component as opj_decompress writes it: "PG ML + 8 640 480\n", then rows, big-endian. */
typedef struct component {
    int      is_signed;
    unsigned bits, width, height;
    FILE    *file;
} component;

static int component_open(component *c, int number)
{
    char path[512], sign[8] = "";
    snprintf(path, sizeof path, "%s/tests/j2k_%d.pgx", TEST_BUILD, number);
    c->file = fopen(path, "rb");
    if (!c->file)
        return 0;
    if (fscanf(c->file, "PG ML %1[+-] %u %u %u", sign, &c->bits, &c->width, &c->height) != 4) {
        fclose(c->file);
        return 0;
    }
    fgetc(c->file);
    c->is_signed = *sign == '-';
    return 1;
}

/* The next sample as planes of so many bits have it. */
static uint32_t component_next(const component *c, uint32_t depth)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < (c->bits <= 8 ? 1u : c->bits <= 16 ? 2u : 4u); i++)
        value = value << 8 | (uint64_t)fgetc(c->file);
    value += c->is_signed ? 1u << (c->bits - 1) : 0;
    value &= (UINT64_C(1) << c->bits) - 1;
    return (uint32_t)(c->bits < depth ? value * ((1u << depth) - 1) / ((1u << c->bits) - 1) :
                      value >> (c->bits - depth));
}

/* Returns how many samples of the components that opj_decompress wrote differ, but for the first columns and rows; or
 * -1 if they have other sizes. */
static long differences(const decoding *d, uint32_t first)
{
    long count = 0;
    for (int plane = 0; plane < (d->planes.plane[1] ? 3 : 1); plane++) {
        component c;
        if (!component_open(&c, plane))
            return -1;
        const int fits = c.width == d->shape.width && c.height == d->shape.height;
        for (uint32_t y = 0; fits && y < c.height; y++)
            for (uint32_t x = 0; x < c.width; x++) {
                const uint8_t *at = (const uint8_t *)d->planes.plane[plane] + (int64_t)y * d->planes.pitch[plane] +
                                    (size_t)x * d->planes.step;
                const uint32_t value = d->shape.depth > 8 ? *(const uint16_t *)(const void *)at : *at;
                const uint32_t wanted = component_next(&c, d->shape.depth);
                count += value != wanted && x >= first && y >= first;
            }
        fclose(c.file);
        if (!fits)
            return -1;
    }
    return count;
}

/* Has opj_decompress decode a file, and counts the samples that differ. Components of other sizes than the first one's
 * are brought to its size by that program, too: which has zeros before their first column and row. */
static long differences_from_opj(const decoding *d, const char *path, uint32_t first)
{
    long count = -1;
    for (int is_scaled = 0; count < 0 && is_scaled < 2; is_scaled++) {
        char command[1400];
        snprintf(command, sizeof command, "rm -f %s/tests/j2k_*.pgx; opj_decompress %s -i '%s' -o %s/tests/j2k.pgx "
                 ">/dev/null 2>&1; cd %s/tests; [ ! -e j2k.pgx ] || mv j2k.pgx j2k_0.pgx", TEST_BUILD,
                 is_scaled ? "-upsample" : "", path, TEST_BUILD, TEST_BUILD);
        if (system(command) != 0)
            return -1;
        count = differences(d, first);
    }
    return count;
}

static int has_opj_decompress(void) { return system("command -v opj_decompress >/dev/null 2>&1") == 0; }

/* Whether a file has an ICC profile, which opj_decompress applies, and this library does not. */
static int has_profile(const decoding *d)
{
    for (size_t i = 0; i + 5 <= d->size && i < 4096; i++)
        if (!memcmp(d->data + i, "colr\2", 5))
            return 1;
    return 0;
}

TEST(conformance_files_of_jpeg_2000_are_decoded_as_by_opj_decompress)
{
    const char *data = getenv("OPENJPEG_DATA");
    int compared = 0;
    if (!data)
        SKIP("OPENJPEG_DATA does not name a checkout of uclouvain/openjpeg-data");
    if (!has_opj_decompress())
        SKIP("no opj_decompress [libopenjp2-tools]");
    for (int kind = 0; kind < 3; kind++)
        for (int number = 1; number <= 16; number++) {
            char path[512];
            decoding d;
            if (kind == 2) snprintf(path, sizeof path, "%s/input/conformance/file%d.jp2", data, number);
            else snprintf(path, sizeof path, "%s/input/conformance/p%d_%02d.j2k", data, kind, number);
            if (!decoding_open(&d, path))
                continue;
            const bzna_status status = decode_all(&d);
            const char *name = strrchr(path, '/') + 1;
            if (status != BZNA_OK)
                printf("%s: %s\n", name, d.err.message);
            CHECK_EQ(status, BZNA_OK);
            if (status == BZNA_OK && has_profile(&d)) {
                printf("%s: decoded, without its ICC profile\n", name);
            } else if (d.shape.pixels == BZNA_PIXELS_GRAY || d.shape.pixels == BZNA_PIXELS_RGB) {
                const long differing = differences_from_opj(&d, path, 0);
                if (differing)
                    printf("%s: %ld samples differ\n", name, differing);
                CHECK_EQ(differing, 0);
                compared++;
            } else {
                printf("%s: decoded, as Y'CbCr or numbers of colors, which opj_decompress makes RGB\n", name);
            }
            decoding_close(&d);
        }
    printf("%d files have opj_decompress's samples\n", compared);
    CHECK(compared > 20);
}

/* The header of grid.j2k is the place where components have their depths: a byte each, of which the next ones are their
 * steps in the grid. */
TEST(components_of_jpeg_2000_may_have_any_sizes_and_depths)
{
    static const uint8_t depths[][3] = { { 8, 8, 8 }, { 8, 12, 5 }, { 12, 8, 5 }, { 4, 16, 9 }, { 16, 8, 20 } };
    static const char path[] = TEST_BUILD "/tests/grid.j2k";
    decoding d;
    if (!decoding_open(&d, "tests/data/seeds/grid.j2k"))
        SKIP("this build has no OpenJPEG [libopenjp2-7-dev]");
    if (!has_opj_decompress())
        SKIP("no opj_decompress [libopenjp2-tools]");
    for (size_t i = 0; i < sizeof depths / sizeof *depths; i++) {
        decoding_open(&d, "tests/data/seeds/grid.j2k");
        for (int k = 0; k < 3; k++)
            d.data[42 + 3 * k] = (uint8_t)(depths[i][k] - 1);
        FILE *const f = fopen(path, "wb");
        REQUIRE(f && fwrite(d.data, 1, d.size, f) == d.size && !fclose(f));
        CHECK_EQ(decode_all(&d), BZNA_OK);
        CHECK_EQ(d.shape.pixels, BZNA_PIXELS_RGB);
        CHECK_EQ(d.shape.depth, depths[i][0] < 8 ? 8 : depths[i][0]);
        CHECK_EQ(differences_from_opj(&d, path, 1), 0);
        decoding_close(&d);
    }
}

/* A small first component must not hide others that take gigabytes. */
TEST(components_of_jpeg_2000_are_not_much_larger_than_the_picture)
{
    decoding d;
    if (!decoding_open(&d, "tests/data/seeds/grid.j2k"))
        SKIP("this build has no OpenJPEG [libopenjp2-7-dev]");
    memset(d.data + 42 + 1, 255, 2);                        /* steps of the first one */
    for (int i = 0; i < 2; i++) {
        memcpy(d.data + 8 + 4 * i, "\0\0\x40\0", 4);        /* the picture's end, and the size of a tile */
        memcpy(d.data + 24 + 4 * i, "\0\0\x40\0", 4);
    }
    CHECK_EQ(decode_all(&d), BZNA_E_LIMIT);
    CHECK_STR(d.err.message, "there are too many samples in its other components");
    decoding_open(&d, "tests/data/seeds/grid.j2k");
    d.data[42 + 4] = 0;                                     /* a step */
    CHECK_EQ(decode_all(&d), BZNA_E_DECODE);
    CHECK_STR(d.err.message, "the header is damaged");
    decoding_close(&d);
}

/* A palette may say how many bits its colors have, of which a number of 32 bits holds no more than 32. */
TEST(palettes_of_more_than_32_bits_are_damage)
{
    decoding d;
    if (!decoding_open(&d, "tests/data/crashers/palette_of_128_bits.jp2"))
        SKIP("this build has no OpenJPEG [libopenjp2-7-dev]");
    CHECK_EQ(decode_all(&d), BZNA_E_DECODE);
    CHECK_STR(d.err.message, "its palette is damaged");
    decoding_close(&d);
    REQUIRE(decoding_open(&d, "tests/data/seeds/palette_16.jp2"));
    CHECK_EQ(decode_all(&d), BZNA_OK);
    for (int i = 0; i < 3; i++)                             /* the second color is (65535, 32768, 3) */
        CHECK_EQ(*(const uint16_t *)d.planes.plane[i], i == 0 ? 65535 : i == 1 ? 32768 : 3);
    decoding_close(&d);
}

TEST_MAIN(RUN(a_part_of_a_picture_is_that_of_the_whole)
          RUN(whichever_allocation_fails_a_picture_is_whole_or_an_error)
          RUN(a_picture_in_memory_or_of_a_source_is_the_sample_that_it_is_as_a_file)
          RUN(pictures_of_all_brands_of_heif_are_opened_alone)
          RUN(kinds_of_pictures_are_told_apart)
          RUN(a_picture_alone_is_of_the_format_picture)
          RUN(palettes_of_more_than_32_bits_are_damage)
          RUN(components_of_jpeg_2000_may_have_any_sizes_and_depths)
          RUN(components_of_jpeg_2000_are_not_much_larger_than_the_picture)
          RUN(conformance_files_of_jpeg_2000_are_decoded_as_by_opj_decompress))
