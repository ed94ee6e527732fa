/* A codec for QOI (qoiformat.org), as somebody writes it who has read benzina.h and nothing else of the library: it
 * decodes files that ffmpeg has written, to the pixels that ffmpeg reads from the same picture as PNM. */
#include "../../benzina.h"
#include "test.h"
#include "with_formats.h"

enum { HEAD = 14, EDGE = 48, PICTURES = 6 };

/* "qoif", width and height (big-endian), 3 or 4 channels, color space. */
static uint32_t number_at(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int32_t qoi_recognize(void *user, const void *head, uint64_t bytes)
{
    (void)user;
    return bytes >= HEAD && !memcmp(head, "qoif", 4);
}

static bzna_status qoi_inspect(void *state, const void *data, uint64_t bytes, bzna_codec_shape *shape, bzna_error *err)
{
    const uint8_t *p = data;
    (void)state, (void)err;
    if (bytes < HEAD)
        return BZNA_E_TRUNCATED;
    shape->width = number_at(p + 4);
    shape->height = number_at(p + 8);
    shape->interleaved = 1;
    return p[12] == 3 || p[12] == 4 ? BZNA_OK : BZNA_E_UNSUPPORTED;
}

typedef struct pixel { uint8_t r, g, b, a; } pixel;

/* Reads what changes the pixel before. Returns how often it is repeated beyond once, or -1 at the data's end. */
static int qoi_next(const uint8_t **at, const uint8_t *end, pixel seen[64], pixel *px)
{
    const uint8_t *p = *at;
    int run = 0, size;
    if (p == end)
        return -1;
    size = p[0] == 254 ? 4 : p[0] == 255 ? 5 : p[0] >> 6 == 2 ? 2 : 1;
    if (end - p < size)
        return -1;
    if (size >= 4) {
        *px = (pixel){ p[1], p[2], p[3], size == 5 ? p[4] : px->a };
    } else if (p[0] >> 6 == 0) {
        *px = seen[p[0]];
    } else if (p[0] >> 6 == 1) {
        px->r = (uint8_t)(px->r + (p[0] >> 4 & 3) - 2);
        px->g = (uint8_t)(px->g + (p[0] >> 2 & 3) - 2);
        px->b = (uint8_t)(px->b + (p[0] & 3) - 2);
    } else if (p[0] >> 6 == 2) {
        const int green = (p[0] & 63) - 32;
        px->r = (uint8_t)(px->r + green - 8 + (p[1] >> 4));
        px->g = (uint8_t)(px->g + green);
        px->b = (uint8_t)(px->b + green - 8 + (p[1] & 15));
    } else {
        run = p[0] & 63;
    }
    seen[(px->r * 3 + px->g * 5 + px->b * 7 + px->a * 11) % 64] = *px;
    *at += size;
    return run;
}

static bzna_status qoi_decode(void *state, const void *data, uint64_t bytes, const bzna_rectangle *needed,
                              const bzna_codec_planes *planes, bzna_error *err)
{
    const uint8_t *at = (const uint8_t *)data + HEAD, *const end = (const uint8_t *)data + bytes;
    pixel seen[64] = { { 0, 0, 0, 0 } }, px = { 0, 0, 0, 255 };
    int run = 0;
    (void)state;
    for (uint32_t y = 0; y < needed->y1; y++) {             /* rows depend on those above; those below can stay */
        uint8_t *to = (uint8_t *)planes->plane[0] + (int64_t)y * planes->pitch[0];
        for (uint32_t x = 0; x < planes->width; x++, to += planes->step) {
            if (run-- == 0 && (run = qoi_next(&at, end, seen, &px)) < 0) {
                snprintf(err->message, sizeof err->message, "the data end in row %u", y);
                err->byte_offset = bytes;
                return BZNA_E_TRUNCATED;
            }
            memcpy(to, &px, 3);
        }
    }
    return BZNA_OK;
}

static const bzna_codec qoi = { .struct_size = sizeof qoi, .name = "QOI", .extensions = "qoi",
                                .recognize = qoi_recognize, .inspect = qoi_inspect, .decode = qoi_decode };

/* Loads a folder's pictures. Returns how many there were. */
static uint32_t load(const char *path, float *pixels, bzna_status *statuses)
{
    const bzna_context_config config = { .struct_size = sizeof config, .own_codecs = { .ptr = &qoi, .count = 1 },
                                         .device = { .kind = BZNA_DEVICE_CPU } };
    const bzna_loader_config loading = { .struct_size = sizeof loading,
                                         .output = { .batch_size = PICTURES, .width = EDGE, .height = EDGE },
                                         .order = { .last_batch = BZNA_LAST_PARTIAL, .seed = 3 },
                                         .warp = { .kind = BZNA_WARP_RANDOM_RESIZED_CROP } };
    bzna_context *context = NULL;
    bzna_dataset *dataset = NULL;
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_error err = { 0 };
    bzna_batch_info info = { 0 };
    uint32_t count = 0;
    if (bzna_context_open(&config, &context, &err) == BZNA_OK &&
        bzna_dataset_open(context, path, NULL, &dataset, &err) == BZNA_OK &&
        bzna_loader_open(context, dataset, &loading, &loader, &err) == BZNA_OK &&
        bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err) == BZNA_OK &&
        bzna_batch_get_info(batch, &info, sizeof info, &err) == BZNA_OK) {
        count = info.count;
        memcpy(pixels, info.image.data, (size_t)count * 3 * EDGE * EDGE * sizeof *pixels);
        memcpy(statuses, info.status, count * sizeof *statuses);
    }
    CHECK_STR(err.message, "");
    bzna_batch_release(batch);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    return count;
}

#define T TEST_BUILD "/tests/qoi"

static float ours[PICTURES * 3 * EDGE * EDGE], theirs[PICTURES * 3 * EDGE * EDGE];

TEST(a_codec_that_was_written_by_the_header_alone_gives_ffmpegs_pixels)
{
    static const char *const sources[PICTURES] = { "testsrc=s=160x120", "mandelbrot=s=131x97", "smptebars=s=64x64",
                                                   "rgbtestsrc=s=200x50", "testsrc2=s=77x150", "color=red:s=50x60" };
    bzna_status statuses[PICTURES];
    const size_t size = (size_t)3 * EDGE * EDGE;
    if (system("ffmpeg -v error -encoders 2>/dev/null | grep -q ' qoi '"))
        SKIP("no ffmpeg that writes QOI [ffmpeg]");
    CHECK_EQ(system("rm -rf " T " && mkdir -p " T "/qoi/a " T "/ppm/a"), 0);
    for (int i = 0; i < PICTURES; i++) {
        char command[512];
        snprintf(command, sizeof command,
                 "ffmpeg -v error -f lavfi -i %s -frames:v 1 -pix_fmt rgb24 " T "/ppm/a/%d.ppm && "
                 "ffmpeg -v error -i " T "/ppm/a/%d.ppm -pix_fmt %s -frames:v 1 " T "/qoi/a/%d.qoi",
                 sources[i], i, i, i % 2 ? "rgba" : "rgb24", i);
        REQUIRE(system(command) == 0);
    }
    CHECK_EQ(load(T "/qoi", ours, statuses), PICTURES);
    CHECK_EQ(load(T "/ppm", theirs, statuses), PICTURES);
    CHECK(!memcmp(ours, theirs, sizeof ours));
    /* one of them ends early: it fails, and the others are as before */
    CHECK_EQ(system("head -c 2000 " T "/qoi/a/1.qoi > " T "/short && mv " T "/short " T "/qoi/a/1.qoi"), 0);
    CHECK_EQ(load(T "/qoi", ours, statuses), PICTURES);
    for (size_t i = 0; i < PICTURES; i++) {
        CHECK_EQ(statuses[i], i == 1 ? BZNA_E_TRUNCATED : BZNA_OK);
        CHECK(i == 1 || !memcmp(ours + i * size, theirs + i * size, size * sizeof *ours));
    }
    CHECK_EQ(system("rm -rf " T), 0);
}

TEST_MAIN(RUN(a_codec_that_was_written_by_the_header_alone_gives_ffmpegs_pixels))
