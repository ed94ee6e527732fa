/* Codecs of the program's own (bzna_codec): a codec for a format of this file's is held to PNM files of the same
 * pixels, which libavcodec decodes; wrappers to what they wrap. Then codecs that lie, fail, are slow, and write where
 * they must not: their samples fail, and the others have the bits that they have without them. */
#include "library.h"
#include "with_formats.h"
#include "test.h"
#include "../../examples/formats/data.h"
#ifdef TEST_NVDEC
#  include "../fake/nvdec.h"
#else
#  define TEST_NVDEC 0
#endif
#include "open_formats.h"
#include "recordio.h"
#include "known.h"
#include "sink.h"
#include "tars.h"

#include <pthread.h>
#include <stdatomic.h>

enum { FILES = 32, BATCH = 8, ROOM = 1 << 16, TOY_HEAD = 16 };

/* What a toy file's codec does with it, beside decoding it. */
enum { GOOD, INSPECT_FAILS, DECODE_FAILS, SAYS_MEMORY, SAYS_NUMBER, SAYS_POSITIVE, NO_SIZE, HUGE_SIZE, LARGE_FOR_BYTES,
       BAD_PIXELS, BAD_DEPTH, BAD_SHIFT, BAD_ORIENTATION, DEEP_INDEX, WRITES_NOTHING, LEAVES_LAST_ROW, LEAVES_BLOCK,
       WRITES_BEFORE, WRITES_BEHIND, GROWS_BETWEEN, SHRINKS_BETWEEN, CLOSES, IS_SLOW, LONG_MESSAGE, BAD_CROP,
       OUTER_CROP, USES_H264, MODES };

/* A picture, and how its toy file stores it. */
typedef struct toy {
    uint32_t width, height, pixels, depth, interleaved, shift_x, shift_y, orientation, mode, seed;
} toy;

/* What the codec has seen. */
typedef struct model {
    atomic_int begins, ends, inspects, decodes, unwraps, recognizes, closes, inside_state, parts, fails_begin;
    int        only_needed;           /* writes other pixels outside of the rectangle that is needed */
    int        claims_all, copies, slow;
    pthread_t  thread;
    int        one_thread, elsewhere;
    bzna_context *context;            /* which a function tries to close */
} model;

typedef struct state {
    model     *m;
    atomic_int busy;
    uint8_t    memory[ROOM];          /* where a wrapped picture is put together */
} state;

static uint32_t sample_at(const toy *t, uint32_t channel, uint32_t x, uint32_t y)
{
    const uint32_t n = t->seed * 7919 + channel * 104729 + x * 31 + y * 17 + (x * y) % 13 * 29;
    return n % (t->pixels == BZNA_PIXELS_INDEX ? 16 : 1u << t->depth);
}

static uint8_t color_at(uint32_t index, uint32_t channel) { return (uint8_t)(index * 41 + channel * 83); }

static uint32_t subsampled(uint32_t n, uint32_t shift) { return (n + (1u << shift) - 1) >> shift; }

static uint32_t channels_of(const toy *t)
{
    return t->pixels == BZNA_PIXELS_RGB || t->pixels == BZNA_PIXELS_YCBCR ? 3 : 1;
}

static size_t toy_write(const toy *t, uint8_t *out)
{
    const uint8_t head[TOY_HEAD] = { 'T', 'O', 'Y', '!', (uint8_t)t->width, (uint8_t)t->height, (uint8_t)t->pixels,
                                     (uint8_t)t->depth, (uint8_t)t->interleaved, (uint8_t)t->shift_x,
                                     (uint8_t)t->shift_y, (uint8_t)t->orientation, (uint8_t)t->mode,
                                     (uint8_t)t->seed };
    memcpy(out, head, sizeof head);
    return sizeof head;
}

static toy toy_read(const void *data)
{
    const uint8_t *h = data;
    return (toy){ h[4], h[5], h[6], h[7], h[8], h[9], h[10], h[11], h[12], h[13] };
}

/* ---- The codec -------------------------------------------------------------------------------------------------- */

static void enter(state *s)
{
    CHECK_EQ(atomic_fetch_add(&s->busy, 1), 0);
    if (s->m->one_thread && !pthread_equal(s->m->thread, pthread_self()))
        s->m->elsewhere = 1;
    if (s->m->slow) {
        struct timespec t = { 0, 2000000 };
        nanosleep(&t, NULL);
    }
}

static bzna_status leave(state *s, bzna_status status)
{
    atomic_fetch_sub(&s->busy, 1);
    return status;
}

static int32_t toy_recognize(void *user, const void *head, uint64_t bytes)
{
    model *m = user;
    atomic_fetch_add(&m->recognizes, 1);
    CHECK(bytes > 0 && bytes <= 512);
    return m->claims_all || (bytes >= TOY_HEAD && !memcmp(head, "TOY!", 4));
}

static bzna_status toy_thread_begin(void *user, void **out, bzna_error *err)
{
    model *m = user;
    state *s;
    CHECK(*out == NULL);
    if (m->fails_begin) {
        snprintf(err->message, sizeof err->message, "no state");
        return BZNA_E_UNSUPPORTED;
    }
    s = calloc(1, sizeof *s);
    s->m = m;
    *out = s;
    atomic_fetch_add(&m->begins, 1);
    return BZNA_OK;
}

static void toy_thread_end(void *user, void *s)
{
    atomic_fetch_add(&((model *)user)->ends, 1);
    free(s);
}

static bzna_status toy_inspect(void *user, const void *data, uint64_t bytes, bzna_codec_shape *shape, bzna_error *err)
{
    state *s = user;
    toy t;
    enter(s);
    atomic_fetch_add(&s->m->inspects, 1);
    CHECK_EQ(shape->struct_size, sizeof *shape);
    if (bytes < TOY_HEAD || memcmp(data, "TOY!", 4))
        return leave(s, BZNA_E_DECODE);
    t = toy_read(data);
    shape->width = t.mode == NO_SIZE ? 0 : t.mode == HUGE_SIZE ? 1u << 30 : t.mode == LARGE_FOR_BYTES ? 16384 : t.width;
    shape->height = t.mode == LARGE_FOR_BYTES ? 16384 : t.height;
    shape->pixels = t.mode == BAD_PIXELS ? 4 : t.mode == DEEP_INDEX ? BZNA_PIXELS_INDEX : t.pixels;
    shape->depth = t.mode == BAD_DEPTH ? 17 : t.mode == DEEP_INDEX ? 9 : t.depth;
    shape->interleaved = t.interleaved;
    shape->chroma_shift_x = t.mode == BAD_SHIFT ? 3 : t.shift_x;
    shape->chroma_shift_y = t.shift_y;
    shape->orientation = t.mode == BAD_ORIENTATION ? 9 : t.orientation;
    if (t.mode == BAD_CROP || t.mode == OUTER_CROP)
        shape->crop = (bzna_rectangle){ 5, 0, t.mode == BAD_CROP ? 4 : t.width + 1, 1 };
    if (t.mode == USES_H264)
        shape->codecs = BZNA_ALLOW_H264 | BZNA_ALLOW_OWN;
    if (t.mode == CLOSES)
        CHECK_EQ(bzna_context_close(s->m->context), BZNA_E_STATE);
    if (t.mode == INSPECT_FAILS) {
        snprintf(err->message, sizeof err->message, "its head is damaged");
        err->byte_offset = 4;
        return leave(s, BZNA_E_DECODE);
    }
    if (t.mode == LONG_MESSAGE) {
        memset(err->message, 'x', sizeof err->message);
        err->byte_offset = 1u << 20;
        return leave(s, BZNA_E_LIMIT);
    }
    return leave(s, t.mode == SAYS_MEMORY ? BZNA_E_MEMORY : t.mode == SAYS_NUMBER ? -12345 : t.mode == SAYS_POSITIVE ?
                    7 : BZNA_OK);
}

static void put(const bzna_codec_planes *planes, uint32_t plane, uint32_t x, uint32_t y, uint32_t depth, uint32_t value)
{
    uint8_t *at = (uint8_t *)planes->plane[plane] + (int64_t)y * planes->pitch[plane] + (int64_t)x * planes->step;
    const uint16_t wide = (uint16_t)value;
    if (depth > 8)
        memcpy(at, &wide, sizeof wide);
    else
        *at = (uint8_t)value;
}

static bzna_status toy_decode(void *user, const void *data, uint64_t bytes, const bzna_rectangle *needed,
                              const bzna_codec_planes *planes, bzna_error *err)
{
    state *s = user;
    const toy t = toy_read(data);
    const uint32_t skipped = t.mode == LEAVES_LAST_ROW ? 1 : 0;
    enter(s);
    atomic_fetch_add(&s->m->decodes, 1);
    CHECK(needed->x0 < needed->x1 && needed->x1 <= t.width && needed->y0 < needed->y1 && needed->y1 <= t.height);
    CHECK(planes->width == t.width && planes->height == t.height && planes->struct_size == sizeof *planes);
    CHECK((uintptr_t)planes->plane[0] % 64 == 0 && planes->pitch[0] % 64 == 0);
    CHECK((planes->palette != NULL) == (t.pixels == BZNA_PIXELS_INDEX));
    (void)bytes;
    if (needed->x1 - needed->x0 < t.width || needed->y1 - needed->y0 < t.height)
        atomic_fetch_add(&s->m->parts, 1);
    if (t.mode == DECODE_FAILS) {
        snprintf(err->message, sizeof err->message, "its pixels are damaged");
        return leave(s, BZNA_E_DECODE);
    }
    if (t.mode == WRITES_NOTHING)
        return leave(s, BZNA_OK);
    for (uint32_t c = 0; c < channels_of(&t); c++) {
        const uint32_t sx = c ? t.shift_x : 0, sy = c ? t.shift_y : 0;
        for (uint32_t y = 0; y + skipped < subsampled(t.height, sy); y++)
            for (uint32_t x = 0; x < subsampled(t.width, sx); x++) {
                const int is_needed = x >= needed->x0 >> sx && x < subsampled(needed->x1, sx) &&
                                      y >= needed->y0 >> sy && y < subsampled(needed->y1, sy);
                if (t.mode == LEAVES_BLOCK && x >= 8 && x < 16 && y >= 8 && y < 16)
                    continue;
                put(planes, c, x, y, t.depth, is_needed || !s->m->only_needed ? sample_at(&t, c, x, y) :
                    (uint32_t)atomic_load(&s->m->decodes) % (t.pixels == BZNA_PIXELS_INDEX ? 16 : 256));
            }
    }
    for (uint32_t i = 0; planes->palette && i < 48; i++)
        planes->palette[i] = color_at(i / 3, i % 3);
    if (t.mode == WRITES_BEFORE)
        ((uint8_t *)planes->plane[0])[-1] ^= 1;
    if (t.mode == WRITES_BEHIND)
        ((uint8_t *)planes->plane[0])[planes->pitch[0] * t.height] ^= 1;
    return leave(s, BZNA_OK);
}

static void model_close(void *user) { atomic_fetch_add(&((model *)user)->closes, 1); }

static bzna_codec toy_codec(model *m)
{
    bzna_codec codec = { .struct_size = sizeof codec };
    codec.user = m;
    codec.name = "Toy picture";
    codec.extensions = "toy wrp";
    codec.fingerprint = 5;
    codec.recognize = toy_recognize;
    codec.thread_begin = toy_thread_begin;
    codec.thread_end = toy_thread_end;
    codec.inspect = toy_inspect;
    codec.decode = toy_decode;
    codec.close = model_close;
    return codec;
}

/* ---- Files, and the provider that has them ---------------------------------------------------------------------- */

typedef struct file_set {
    uint8_t  bytes[FILES][ROOM];
    size_t   sizes[FILES];
    uint32_t count;
} file_set;

static void files_add(file_set *f, const void *bytes, size_t size)
{
    memcpy(f->bytes[f->count], bytes, size);
    f->sizes[f->count++] = size;
}

static void files_add_toy(file_set *f, const toy *t)
{
    f->sizes[f->count] = toy_write(t, f->bytes[f->count]);
    f->count++;
}

/* The same picture as PPM or PGM, turned as it is to be seen. as_index: numbers of colors, not colors. */
static void files_add_pnm(file_set *f, const toy *t, int as_index)
{
    const int is_gray = t->pixels == BZNA_PIXELS_GRAY || (as_index && t->pixels == BZNA_PIXELS_INDEX);
    const uint32_t o = t->orientation ? t->orientation : 1, is_transposed = o > 4;
    const uint32_t width = is_transposed ? t->height : t->width, height = is_transposed ? t->width : t->height;
    uint8_t *out = f->bytes[f->count];
    size_t n = (size_t)sprintf((char *)out, "P%d\n%u %u\n%u\n", is_gray ? 5 : 6, width, height, (1u << t->depth) - 1);
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++)
            for (uint32_t c = 0; c < (is_gray ? 1u : 3u); c++) {
                uint32_t u = is_transposed ? y : x, v = is_transposed ? x : y, value;
                if (o == 2 || o == 3 || o == 7 || o == 8)
                    u = t->width - 1 - u;
                if (o == 3 || o == 4 || o == 6 || o == 7)
                    v = t->height - 1 - v;
                value = sample_at(t, t->pixels == BZNA_PIXELS_INDEX ? 0 : c, u, v);
                if (t->pixels == BZNA_PIXELS_INDEX && !is_gray)
                    value = color_at(value, c);
                if (t->depth > 8)
                    out[n++] = (uint8_t)(value >> 8);
                out[n++] = (uint8_t)value;
            }
    f->sizes[f->count++] = n;
}

static uint8_t *put_be32(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        *to++ = (uint8_t)(value >> (24 - 8 * i));
    return to;
}

/* A chunk of a PNG whose data stand behind its head already. */
static uint8_t *png_chunk(uint8_t *chunk, const char *type, uint32_t size)
{
    uint32_t crc = UINT32_MAX;
    put_be32(chunk, size);
    memcpy(chunk + 4, type, 4);
    for (uint32_t i = 0; i < size + 4; i++) {
        crc ^= chunk[4 + i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return put_be32(chunk + 8 + size, ~crc);
}

/* An RGB picture of 8 bits as PNG, which the library decodes itself; its deflated data are one stored block. */
static void files_add_png(file_set *f, const toy *t)
{
    files_add_pnm(f, t, 0);
    const uint32_t is_transposed = t->orientation > 4;
    const uint32_t width = is_transposed ? t->height : t->width, height = is_transposed ? t->width : t->height;
    const uint32_t row = 1 + 3 * width, size = row * height;
    uint8_t *out = f->bytes[--f->count], *at = out + 8;
    static uint8_t pixels[ROOM];
    uint32_t a = 1, b = 0;
    memcpy(pixels, out + f->sizes[f->count] - 3 * width * height, 3 * width * height);
    memcpy(out, "\x89PNG\r\n\x1a\n", 8);
    memcpy(put_be32(put_be32(at + 8, width), height), "\x08\2\0\0\0", 5);
    at = png_chunk(at, "IHDR", 13);
    memcpy(at + 8, (uint8_t[7]){ 0x78, 1, 1, (uint8_t)size, (uint8_t)(size >> 8), (uint8_t)~size,
                                 (uint8_t)(~size >> 8) }, 7);
    for (uint32_t y = 0; y < height; y++) {
        at[15 + row * y] = 0;
        memcpy(at + 16 + row * y, pixels + 3 * width * y, 3 * width);
    }
    for (uint32_t i = 0; i < size; i++) {
        a = (a + at[15 + i]) % 65521;
        b = (b + a) % 65521;
    }
    put_be32(at + 15 + size, b << 16 | a);
    at = png_chunk(at, "IDAT", 7 + size + 4);
    f->sizes[f->count++] = (size_t)(png_chunk(at, "IEND", 0) - out);
}

static bzna_status files_read(void *user, uint64_t index, uint32_t field, void *buffer, uint64_t capacity,
                              uint64_t *size, bzna_error *err)
{
    (void)err;
    const file_set *f = user;
    (void)field;
    *size = f->sizes[index];
    if (*size <= capacity)
        memcpy(buffer, f->bytes[index], (size_t)*size);
    return BZNA_OK;
}

static bzna_dataset *files_open(bzna_context *context, file_set *f, const bzna_dataset_config *config)
{
    static const bzna_provider_field field = { .name = "image", .kind = BZNA_FIELD_IMAGE };
    bzna_provider provider = { .struct_size = sizeof provider, .user = f, .count = f->count, .fields = &field,
                               .field_count = 1, .read = files_read };
    bzna_dataset *dataset = NULL;
    bzna_error err = fresh_error();
    if (bzna_dataset_open_provider(context, &provider, config, &dataset, &err) != BZNA_OK) {
        printf("  open: %s\n", err.message);
        exit(1);
    }
    return dataset;
}

static bzna_context *context_with(const bzna_codec *codecs, uint64_t count, uint32_t allowed, uint32_t no_threads)
{
    bzna_context_config c = { .struct_size = sizeof c, .codecs = allowed, .no_threads = no_threads,
                              .device = { TEST_NVDEC && !no_threads ? BZNA_DEVICE_AUTO : BZNA_DEVICE_CPU, 0 },
                              .own_codecs = { .ptr = codecs, .count = count } };
    bzna_context *context = NULL;
    bzna_error err = fresh_error();
    if (bzna_context_open(&c, &context, &err) != BZNA_OK) {
        printf("  context: %s\n", err.message);
        exit(1);
    }
    return context;
}

/* ---- Runs ------------------------------------------------------------------------------------------------------- */

enum { EDGE = 24, SLOT = 3 * EDGE * EDGE };

typedef struct result {
    float       pixels[FILES][SLOT];
    bzna_status status[FILES];
    char        message[FILES][256];
    uint32_t    count;
    uint64_t    by_nvdec, fallbacks;
} result;

static bzna_loader_config config_of(void)
{
    bzna_loader_config c = { .struct_size = sizeof c };
    c.output.batch_size = BATCH;
    c.output.width = c.output.height = EDGE;
    c.decode.threads = 3;
    c.order.last_batch = BZNA_LAST_PARTIAL;
    return c;
}

static void run(bzna_context *context, bzna_dataset *dataset, const bzna_loader_config *c, result *r)
{
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_error err = fresh_error();
    bzna_loader_config software = *c;
    bzna_statistics statistics = { .struct_size = sizeof statistics };
    memset(r, 0, sizeof *r);
    if (context->config.device.kind == BZNA_DEVICE_CPU)
        software.decode.decoder = BZNA_DECODER_SOFTWARE;
    if (bzna_loader_open(context, dataset, &software, &loader, &err) != BZNA_OK) {
        printf("  loader: %s\n", err.message);
        exit(1);
    }
    while (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err) == BZNA_OK) {
        bzna_batch_info info = { .struct_size = sizeof info };
        bzna_batch_get_info(batch, &info, sizeof info, NULL);
        for (uint32_t i = 0; i < info.count; i++) {
            const uint64_t index = info.indices[i];
            bzna_error why = fresh_error();
            memcpy(r->pixels[index], (const float *)info.image.data + (size_t)i * SLOT, sizeof r->pixels[index]);
            r->status[index] = info.status[i];
            if (info.status[i] != BZNA_OK)
                bzna_batch_error(batch, i, &why);
            bzi_string_copy(r->message[index], sizeof r->message[index], why.message);
            r->count++;
        }
        bzna_batch_release(batch);
    }
    bzna_loader_statistics(loader, &statistics, sizeof statistics, NULL);
    r->by_nvdec = statistics.samples_nvdec;
    r->fallbacks = statistics.fallbacks;
    if (err.status < 0) {
        printf("  next: %s\n", err.message);
        test_failures++;
    }
    bzna_loader_close(loader);
}

/* The largest difference of two pixels. */
static double difference(const result *a, const result *b, uint32_t i)
{
    double most = 0;
    for (uint32_t k = 0; k < SLOT; k++)
        most = fmax(most, fabs((double)a->pixels[i][k] - (double)b->pixels[i][k]));
    return most;
}

static result first, second;
static file_set toys, others;

static bzna_loader_config config_number(uint32_t i)
{
    bzna_loader_config c = config_of();
    c.order.seed = i;
    c.warp.kind = i == 0 ? BZNA_WARP_NONE : BZNA_WARP_RANDOM_RESIZED_CROP;
    c.warp.flip_h = i ? 0.5 : 0;
    c.filter.kind = i == 2 ? BZNA_FILTER_CUBIC_075 : 0;
    c.filter.antialias = i == 3 ? BZNA_ANTIALIAS_ROUND : 0;
    return c;
}

TEST(pixels_are_those_of_pnm_files_in_every_form_depth_and_orientation)
{
    static const struct { uint32_t pixels, interleaved; } forms[] = {
        { BZNA_PIXELS_RGB, 0 }, { BZNA_PIXELS_RGB, 1 }, { BZNA_PIXELS_GRAY, 0 }, { BZNA_PIXELS_INDEX, 0 } };
    model m = { .only_needed = 1 };
    const bzna_codec codec = toy_codec(&m);
    bzna_context *context = context_with(&codec, 1, 0, 0);
    for (uint32_t depth = 8; depth <= 16; depth += 8)
        for (uint32_t k = 0; k < COUNT(forms); k++) {
            toys.count = others.count = 0;
            if (forms[k].pixels == BZNA_PIXELS_INDEX && depth > 8)
                continue;
            for (uint32_t i = 0; i < FILES; i++) {
                const toy t = { 40 + i % 3, 37 + i % 5, forms[k].pixels, depth, forms[k].interleaved, 0, 0, i % 9, 0,
                                i };
                files_add_toy(&toys, &t);
                files_add_pnm(&others, &t, 0);
            }
            for (uint32_t i = 0; i < 4; i++) {
                const bzna_loader_config c = config_number(i);
                bzna_dataset *a = files_open(context, &toys, NULL), *b = files_open(context, &others, NULL);
                run(context, a, &c, &first);
                run(context, b, &c, &second);
                CHECK_EQ(first.count, FILES);
                CHECK_EQ(second.count, FILES);
                for (uint32_t n = 0; n < FILES; n++) {
                    CHECK_STR(first.message[n], "");
                    CHECK_STR(second.message[n], "");
                    /* a picture that the warp turns is rounded otherwise than one that was turned before */
                    CHECK(difference(&first, &second, n) <= (i == 0 || n % 9 < 2 ? 0 : i == 3 ? 1 : 0.01));
                }
                bzna_dataset_close(a);
                bzna_dataset_close(b);
            }
        }
    CHECK(m.parts > 100);
    CHECK_EQ(m.begins, m.ends);
    CHECK(m.begins > 0);
    bzna_context_close(context);
    CHECK_EQ(m.closes, 1);
}


/* The same for planes of chroma, which no file of another format has in all these forms. */
TEST(planes_of_every_subsampling_and_depth_come_as_they_were_written)
{
    model m = { 0 };
    const bzna_codec codec = toy_codec(&m);
    bzna_context *context = context_with(&codec, 1, 0, 0);
    bzna_decoder *decoder = NULL;
    REQUIRE(bzna_decoder_open(context, &decoder, NULL) == BZNA_OK);
    for (uint32_t n = 0; n < 27; n++) {
        const toy t = { 41, 39, BZNA_PIXELS_YCBCR, 8 + n / 9 * 3, 0, n % 3, n / 3 % 3, n % 9, 0, n };
        uint8_t bytes[TOY_HEAD];
        bzna_image image = { .struct_size = sizeof image, .codec = BZNA_CODEC_OWN, .data = bytes };
        bzna_picture p = { .struct_size = sizeof p };
        bzna_error err = fresh_error();
        uint32_t wrong = 0;
        image.data_size = toy_write(&t, bytes);
        CHECK_EQ(bzna_decoder_decode(decoder, &image, &p, &err), BZNA_OK);
        CHECK_STR(err.message, "");
        CHECK(p.width == 41 && p.height == 39 && p.depth == t.depth && p.orientation == (n % 9 ? n % 9 : 1));
        CHECK(p.chroma_shift_x == t.shift_x && p.chroma_shift_y == t.shift_y && !p.chroma_left && !p.chroma_top);
        CHECK(p.color.present && p.color.full_range && p.color.matrix == 5);
        for (uint32_t c = 0; c < 3; c++)
            for (uint32_t y = 0; y < subsampled(39, c ? t.shift_y : 0); y++)
                for (uint32_t x = 0; x < subsampled(41, c ? t.shift_x : 0); x++) {
                    const uint8_t *at = (const uint8_t *)p.plane[c] + (int64_t)y * p.pitch[c] + (size_t)x * p.step[c];
                    wrong += (t.depth > 8 ? at[0] | at[1] << 8 : at[0]) != (int)sample_at(&t, c, x, y);
                }
        CHECK_EQ(wrong, 0);
    }
    CHECK_EQ(m.begins, 1);
    CHECK_EQ(bzna_decoder_close(decoder), BZNA_OK);
    CHECK_EQ(m.ends, 1);
    bzna_context_close(context);
    CHECK_EQ(m.closes, 1);
}

TEST(a_palette_gives_colors_or_the_numbers_of_a_mask)
{
    const bzna_dataset_config config = { .struct_size = sizeof config, .palette = BZNA_PALETTE_INDEX };
    const bzna_loader_config c = config_number(0);
    model m = { 0 };
    const bzna_codec codec = toy_codec(&m);
    bzna_context *context = context_with(&codec, 1, 0, 0);
    bzna_dataset *a, *b;
    toys.count = others.count = 0;
    for (uint32_t i = 0; i < FILES; i++) {
        const toy t = { 30, 31, BZNA_PIXELS_INDEX, 8, 0, 0, 0, i % 9, 0, i };
        files_add_toy(&toys, &t);
        files_add_pnm(&others, &t, 1);
    }
    a = files_open(context, &toys, &config);
    b = files_open(context, &others, &config);
    run(context, a, &c, &first);
    run(context, b, &c, &second);
    for (uint32_t n = 0; n < FILES; n++)
        CHECK(first.status[n] == BZNA_OK && second.status[n] == BZNA_OK && difference(&first, &second, n) == 0);
    bzna_dataset_close(a);
    bzna_dataset_close(b);
    bzna_context_close(context);
}

TEST(orientation_is_ignored_where_the_data_set_says_so)
{
    const bzna_dataset_config config = { .struct_size = sizeof config, .orientation = BZNA_ORIENTATION_IGNORE };
    const bzna_loader_config c = config_number(0);
    model m = { 0 };
    const bzna_codec codec = toy_codec(&m);
    bzna_context *context = context_with(&codec, 1, 0, 0);
    bzna_dataset *a, *b;
    toys.count = others.count = 0;
    for (uint32_t i = 0; i < 9; i++) {
        toy t = { 30, 35, BZNA_PIXELS_RGB, 8, 0, 0, 0, i, 0, i };
        files_add_toy(&toys, &t);
        t.orientation = 1;
        files_add_pnm(&others, &t, 0);
    }
    a = files_open(context, &toys, &config);
    b = files_open(context, &others, &config);
    run(context, a, &c, &first);
    run(context, b, &c, &second);
    for (uint32_t n = 0; n < 9; n++)
        CHECK(first.status[n] == BZNA_OK && difference(&first, &second, n) == 0);
    bzna_dataset_close(a);
    bzna_dataset_close(b);
    bzna_context_close(context);
}

/* ---- Every kind of data set ------------------------------------------------------------------------------------- */

#define FOLDER TEST_BUILD "/tests/codec_folder"

static bzna_dataset *open_path(bzna_context *context, const char *path, const bzna_dataset_config *config)
{
    bzna_dataset *dataset = NULL;
    bzna_error err = fresh_error();
    if (bzna_dataset_open(context, path, config, &dataset, &err) != BZNA_OK)
        printf("  %s: %s\n", path, err.message);
    return dataset;
}

static bzna_dataset *open_memory(bzna_context *context, const void *bytes, size_t size)
{
    bzna_dataset *dataset = NULL;
    bzna_error err = fresh_error();
    if (bzna_dataset_open_memory(context, bytes, size, NULL, &dataset, &err) != BZNA_OK)
        printf("  memory: %s\n", err.message);
    return dataset;
}

/* Six toys and their PNMs. */
static void make_six(void)
{
    toys.count = others.count = 0;
    for (uint32_t i = 0; i < 6; i++) {
        const toy t = { 26 + i, 33 - i, i % 2 ? BZNA_PIXELS_RGB : BZNA_PIXELS_GRAY, 8, 0, 0, 0, 1, 0, i };
        files_add_toy(&toys, &t);
        files_add_pnm(&others, &t, 0);
    }
}

static void check_six(bzna_context *context, bzna_dataset *dataset, const char *field)
{
    bzna_loader_config c = config_number(1);
    bzna_dataset *pnm = files_open(context, &others, NULL);
    REQUIRE(dataset);
    CHECK_EQ(bzna_dataset_count(dataset), 6);
    run(context, pnm, &c, &second);
    c.fields.image = field;
    run(context, dataset, &c, &first);
    for (uint32_t n = 0; n < 6; n++) {
        CHECK_STR(first.message[n], "");
        CHECK_EQ(difference(&first, &second, n), 0);
    }
    bzna_dataset_close(pnm);
    bzna_dataset_close(dataset);
}

TEST(folders_and_pairs_list_files_by_the_extensions_of_codecs)
{
    model m = { 0 };
    const bzna_codec codec = toy_codec(&m);
    bzna_context *context = context_with(&codec, 1, 0, 0), *without = context_with(NULL, 0, 0, 0);
    const bzna_formats_config pairs = { .struct_size = sizeof pairs, .pairs = "image=a,mask=b", .extensions = "toy" };
    bzna_dataset *dataset = NULL;
    bzna_error err = fresh_error();
    make_six();
    CHECK_EQ(system("rm -rf " FOLDER " && mkdir -p " FOLDER "/classes/x " FOLDER "/classes/y " FOLDER "/pairs/a " FOLDER
                    "/pairs/b"), 0);
    for (uint32_t i = 0; i < 6; i++) {
        char path[256];
        snprintf(path, sizeof path, FOLDER "/classes/%s/%u.%s", i < 3 ? "x" : "y", i, i % 2 ? "toy" : "TOY");
        spill(path, toys.bytes[i], toys.sizes[i]);
        snprintf(path, sizeof path, FOLDER "/pairs/a/%u.toy", i);
        spill(path, toys.bytes[i], toys.sizes[i]);
        snprintf(path, sizeof path, FOLDER "/pairs/b/%u.ppm", i);
        spill(path, others.bytes[i], others.sizes[i]);
    }
    spill(FOLDER "/classes/x/other.text", "TOY!", 4);
    check_six(context, open_path(context, FOLDER "/classes", NULL), NULL);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(bzna_formats_open(context, FOLDER "/pairs", &pairs, &dataset, &err), BZNA_OK);
        check_six(context, dataset, i ? "mask" : "image");
    }
    CHECK_EQ(bzna_dataset_open(without, FOLDER "/classes", NULL, &dataset, &err), BZNA_E_NO_SAMPLES);
    CHECK_EQ(system("rm -rf " FOLDER), 0);
    bzna_context_close(context);
    bzna_context_close(without);
}

TEST(tars_know_pictures_by_the_extensions_of_codecs)
{
    model m = { 0 };
    const bzna_codec codec = toy_codec(&m);
    bzna_context *context = context_with(&codec, 1, 0, 0);
    tar t = { 0 };
    make_six();
    for (uint32_t i = 0; i < 6; i++) {
        char name[32];
        snprintf(name, sizeof name, "%u.left.toy", i);
        tar_file(&t, name, toys.bytes[i], toys.sizes[i]);
        snprintf(name, sizeof name, "%u.ppm", i);
        tar_file(&t, name, others.bytes[i], others.sizes[i]);
    }
    tar_end(&t);
    check_six(context, open_memory(context, t.bytes, t.size), "left.toy");
    check_six(context, open_memory(context, t.bytes, t.size), "ppm");
    tar_free(&t);
    bzna_context_close(context);
}

TEST(records_of_recordio_hold_files_of_codecs)
{
    model m = { 0 };
    const bzna_codec codec = toy_codec(&m);
    bzna_context *context = context_with(&codec, 1, 0, 0);
    tar bytes = { 0 };                                      /* bytes that grow: it is no tar */
    make_six();
    for (uint32_t i = 0; i < 6; i++) {
        const uint32_t length = 24 + (uint32_t)toys.sizes[i], head[8] = { 0xced7230a, length, 0, 0, i, 0, 0, 0 };
        tar_raw(&bytes, head, sizeof head);
        tar_raw(&bytes, toys.bytes[i], toys.sizes[i]);
        tar_raw(&bytes, NULL, (4 - toys.sizes[i] % 4) % 4);
    }
    check_six(context, open_memory(context, bytes.bytes, bytes.size), NULL);
    tar_free(&bytes);
    bzna_context_close(context);
}

TEST(archives_hold_files_of_codecs)
{
    model m = { 0 };
    const bzna_codec codec = toy_codec(&m);
    bzna_context *context = context_with(&codec, 1, 0, 0), *without = context_with(NULL, 0, 0, 0);
    size_t size;
    uint8_t *jpeg = slurp("tests/data/pictures/jpeg_422_restarts.jpg", &size);
    const bzna_image image = { .struct_size = sizeof image, .codec = BZNA_CODEC_JPEG, .data = jpeg, .data_size = size };
    memory_sink memory;
    bzna_sink sink = sink_of(&memory);
    bzna_writer *writer = NULL;
    bzna_dataset *dataset;
    const bzna_loader_config c = config_number(0);
    bzna_error err = fresh_error();
    make_six();
    REQUIRE(jpeg);
    CHECK_EQ(bzna_writer_open_sink(context, &sink, NULL, &writer, &err), BZNA_OK);
    CHECK_STR(err.message, "");
    for (uint32_t i = 0; i < 6 && writer; i++) {
        const bzna_field_value field = { .struct_size = sizeof field, .kind = BZNA_FIELD_IMAGE, .name = "toy",
                                         .data = toys.bytes[i], .size = toys.sizes[i] };
        const bzna_writer_sample sample = { .struct_size = sizeof sample, .image = &image, .fields = &field,
                                            .field_count = 1 };
        CHECK_EQ(bzna_writer_add(writer, BZNA_INDEX_NEXT, &sample, 0, &err), BZNA_OK);
        CHECK_STR(err.message, "");
    }
    CHECK_EQ(bzna_writer_finish(writer, &err), BZNA_OK);
    bzna_writer_close(writer);
    check_six(context, open_memory(context, memory.data, memory.size), "toy");
    /* a sample that is no mp4 file of its own, but a file of the codec's */
    dataset = open_memory(context, memory.data, memory.size);
    for (uint32_t i = 0; i < 6 && dataset; i++) {
        bzna_sample_ref ref;
        REQUIRE(bzna_dataset_sample(dataset, i, &ref, sizeof ref, NULL) == BZNA_OK);
        memcpy(memory.data + ref.offset, toys.bytes[i], toys.sizes[i]);
    }
    bzna_dataset_close(dataset);
    check_six(context, open_memory(context, memory.data, memory.size), NULL);
    dataset = open_memory(without, memory.data, memory.size);
    run(without, dataset, &c, &first);
    for (uint32_t i = 0; i < 6; i++)
        CHECK(first.status[i] < 0);
    bzna_dataset_close(dataset);
    free(memory.data);
    free(jpeg);
    bzna_context_close(context);
    bzna_context_close(without);
}

/* ---- Wrappers --------------------------------------------------------------------------------------------------- */

/* A wrapper is "WRAP", the codec's number, orientation, what is wrong with it, and the picture. */
enum { WRAP_HEAD = 8, WRAP_GOOD = 0, WRAP_FAILS, WRAP_CODEC, WRAP_PAST, WRAP_NULL, WRAP_NUMBER, WRAP_OWN, WRAP_MODES };

static int32_t wrap_recognize(void *user, const void *head, uint64_t bytes)
{
    (void)user;
    return bytes >= WRAP_HEAD && !memcmp(head, "WRAP", 4);
}

static bzna_status wrap_unwrap(void *user, const void *data, uint64_t bytes, bzna_image *image, bzna_error *err)
{
    state *s = user;
    const uint8_t *p = data;
    enter(s);
    (void)err;
    atomic_fetch_add(&s->m->unwraps, 1);
    CHECK(image->struct_size == sizeof *image && !image->data && !image->codec);
    image->codec = p[4];
    image->orientation = p[5];
    image->data = p + WRAP_HEAD;
    image->data_size = bytes - WRAP_HEAD;
    if (s->m->copies) {
        memcpy(s->memory, p + WRAP_HEAD, (size_t)(bytes - WRAP_HEAD));
        image->data = s->memory;
    }
    if (p[6] == WRAP_CODEC)
        image->codec = BZNA_CODEC_RAW;
    if (p[6] == WRAP_OWN)
        image->codec = BZNA_CODEC_OWN;
    if (p[6] == WRAP_PAST)
        image->data_size = (uint64_t)1 << 40;
    if (p[6] == WRAP_NULL)
        image->data = NULL;
    return leave(s, p[6] == WRAP_FAILS ? BZNA_E_UNSUPPORTED : p[6] == WRAP_NUMBER ? -7 : BZNA_OK);
}

static bzna_codec wrap_codec(model *m)
{
    bzna_codec codec = toy_codec(m);
    codec.name = "Wrapper";
    codec.extensions = "wrp";
    codec.recognize = wrap_recognize;
    codec.inspect = NULL;
    codec.decode = NULL;
    codec.unwrap = wrap_unwrap;
    return codec;
}

static void files_add_wrapped(file_set *f, const void *bytes, size_t size, uint32_t codec, uint32_t orientation,
                              uint32_t mode)
{
    const uint8_t head[WRAP_HEAD] = { 'W', 'R', 'A', 'P', (uint8_t)codec, (uint8_t)orientation, (uint8_t)mode };
    memcpy(f->bytes[f->count], head, sizeof head);
    memcpy(f->bytes[f->count] + WRAP_HEAD, bytes, size);
    f->sizes[f->count++] = WRAP_HEAD + size;
}

static const struct { const char *path; uint32_t codec; } wrapped[] = {
    { "tests/data/pictures/jpeg_422_restarts.jpg", BZNA_CODEC_JPEG },
    { "tests/data/pictures/png_palette_2.png", BZNA_CODEC_STILL } };

/* Wraps files of JPEG and PNG, and PNMs. */
static void make_wrapped(uint32_t orientation, uint32_t mode)
{
    toys.count = others.count = 0;
    for (uint32_t i = 0; i < 6; i++) {
        size_t size = 0;
        uint8_t *bytes = i < COUNT(wrapped) ? slurp(wrapped[i].path, &size) : NULL;
        if (i < COUNT(wrapped) && (!bytes || size > ROOM - WRAP_HEAD)) {
            printf("  %s: cannot be taken\n", wrapped[i].path);
            exit(1);
        }
        if (i >= COUNT(wrapped)) {
            const toy t = { 26 + i, 33 - i, BZNA_PIXELS_RGB, 8, 0, 0, 0, 1, 0, i };
            files_add_png(&others, &t);
        } else {
            files_add(&others, bytes, size);
        }
        files_add_wrapped(&toys, others.bytes[i], others.sizes[i],
                          i < COUNT(wrapped) ? wrapped[i].codec : BZNA_CODEC_STILL, orientation, mode);
        free(bytes);
    }
}

TEST(what_a_codec_unwraps_is_decoded_as_if_it_had_come_alone)
{
    for (int copies = 0; copies < 2; copies++)
        for (uint32_t no_threads = 0; no_threads < 2; no_threads++) {
            model m = { .copies = copies };
            const bzna_codec codec = wrap_codec(&m);
            bzna_context *context = context_with(&codec, 1, 0, no_threads);
            static uint8_t room[2 * ROOM];
            bzna_image image;
            bzna_image_info info = { .struct_size = sizeof info };
            bzna_error err = fresh_error();
            bzna_dataset *dataset;
            make_wrapped(0, WRAP_GOOD);
            check_six(context, files_open(context, &toys, NULL), NULL);
            CHECK(m.unwraps >= 6 && m.inspects == 0 && m.decodes == 0);
            dataset = files_open(context, &toys, NULL);
            bzna_image_init(&image, sizeof image);
            CHECK_EQ(bzna_dataset_read_image(dataset, 0, "image", room, sizeof room, &image, &err), BZNA_OK);
            CHECK_STR(err.message, "");
            CHECK(image.codec == BZNA_CODEC_JPEG && image.data_size == others.sizes[0] &&
                  !memcmp(image.data, others.bytes[0], others.sizes[0]));
            CHECK((const uint8_t *)image.data == room + (copies ? toys.sizes[0] : WRAP_HEAD));
            CHECK_EQ(bzna_dataset_read_image(dataset, 0, "image", room, toys.sizes[0], &image, &err),
                     copies ? BZNA_E_BUFFER : BZNA_OK);
            CHECK_EQ(bzna_dataset_image_info(dataset, 1, "image", &info, sizeof info, &err), BZNA_OK);
            CHECK_EQ(info.codec, BZNA_CODEC_STILL);
            CHECK_EQ(info.fourcc, BZI_FOURCC('w', 'r', 'a', 'p'));      /* the file's kind stays the codec's name */
            bzna_dataset_close(dataset);
            bzna_context_close(context);
            CHECK_EQ(m.begins, m.ends);
            CHECK_EQ(m.closes, 1);
        }
}

/* A wrapper "FRAM": the codec, the bytes of its lengths, those of config, sizes, color, config and access unit. */
enum { FRAME_HEAD = 48 };

static int32_t frame_recognize(void *user, const void *head, uint64_t bytes)
{
    (void)user;
    return bytes >= 16 && !memcmp(head, "FRAM", 4);
}

static bzna_status frame_unwrap(void *user, const void *data, uint64_t bytes, bzna_image *image, bzna_error *err)
{
    const uint8_t *p = data;
    uint32_t sizes[6], config;
    (void)user, (void)err;
    memcpy(&config, p + 8, sizeof config);
    memcpy(sizes, p + 16, sizeof sizes);
    image->codec = p[4];
    image->length_size = p[5];
    image->orientation = p[6];
    image->config = p + FRAME_HEAD;
    image->config_size = config;
    image->data = p + FRAME_HEAD + config;
    image->data_size = bytes - FRAME_HEAD - config;
    image->width = sizes[0];
    image->height = sizes[1];
    image->frame_width = sizes[2];
    image->frame_height = sizes[3];
    image->crop_x = sizes[4];
    image->crop_y = sizes[5];
    memcpy(&image->color, p + 40, sizeof image->color);
    return BZNA_OK;
}

/* Frames of H.264 and H.265 that a codec unwraps are those of the archive that they were taken from, in software as on
 * NVDEC, which decodes all of them. */
TEST(frames_that_a_codec_unwraps_are_those_of_their_archive)
{
    static const char *const paths[] = { "tests/data/small_h264.bzna", "tests/data/small_h265.bzna" };
    const bzna_codec codec = { .struct_size = sizeof codec, .name = "frame", .recognize = frame_recognize,
                               .unwrap = frame_unwrap };
    bzna_context *context = context_with(&codec, 1, 0, 0);
    for (uint32_t n = 0; n < COUNT(paths); n++) {
        bzna_loader_config c = config_number(1);
        bzna_dataset *archive = open_path(context, paths[n], NULL), *a;
        static uint8_t room[ROOM];
        c.fields.image = "image";                            /* not the thumbnail */
        REQUIRE(archive);
        toys.count = 0;
        for (uint64_t i = 0; i < bzna_dataset_count(archive) && i < FILES; i++) {
            bzna_image image;
            uint8_t *out = toys.bytes[toys.count];
            uint32_t sizes[6], config;
            bzna_image_init(&image, sizeof image);
            REQUIRE(bzna_dataset_read_image(archive, i, "image", room, sizeof room, &image, NULL) == BZNA_OK);
            config = (uint32_t)image.config_size;
            memcpy(sizes, (uint32_t[6]){ image.width, image.height, image.frame_width, image.frame_height,
                                         image.crop_x, image.crop_y }, sizeof sizes);
            memcpy(out, "FRAM", 4);
            out[4] = (uint8_t)image.codec;
            out[5] = (uint8_t)image.length_size;
            out[6] = (uint8_t)image.orientation;
            memcpy(out + 8, &config, sizeof config);
            memcpy(out + 16, sizes, sizeof sizes);
            memcpy(out + 40, &image.color, sizeof image.color);
            memcpy(out + FRAME_HEAD, image.config, config);
            memcpy(out + FRAME_HEAD + config, image.data, (size_t)image.data_size);
            toys.sizes[toys.count++] = FRAME_HEAD + config + (size_t)image.data_size;
        }
        a = files_open(context, &toys, NULL);
        run(context, archive, &c, &second);
        run(context, a, &c, &first);
        CHECK(first.count == toys.count && second.count >= toys.count && first.count > 0);
        for (uint32_t i = 0; i < first.count; i++) {
            CHECK_STR(first.message[i], "");
            CHECK_EQ(difference(&first, &second, i), 0);
        }
        CHECK_EQ(first.by_nvdec, second.by_nvdec);
        CHECK_EQ(first.by_nvdec, TEST_NVDEC ? first.count : 0);
        CHECK_EQ(first.fallbacks, 0);
        bzna_dataset_close(a);
        bzna_dataset_close(archive);
    }
    bzna_context_close(context);
}

TEST(a_wrapper_says_how_its_picture_is_turned)
{
    for (uint32_t ignore = 0; ignore < 2; ignore++) {
        const bzna_dataset_config config = { .struct_size = sizeof config, .orientation = ignore };
        model m = { 0 };
        const bzna_codec codec = wrap_codec(&m);
        bzna_context *context = context_with(&codec, 1, 0, 0);
        const bzna_loader_config c = config_number(0);
        bzna_dataset *a, *b;
        toys.count = others.count = 0;
        for (uint32_t i = 0; i < 9; i++) {
            static file_set upright;
            toy t = { 26, 33, BZNA_PIXELS_RGB, 8, 0, 0, 0, 1, 0, i };
            upright.count = 0;
            files_add_png(&upright, &t);
            files_add_wrapped(&toys, upright.bytes[0], upright.sizes[0], BZNA_CODEC_STILL, i, WRAP_GOOD);
            t.orientation = ignore ? 1 : i;
            files_add_pnm(&others, &t, 0);
        }
        a = files_open(context, &toys, &config);
        b = files_open(context, &others, &config);
        run(context, a, &c, &first);
        run(context, b, &c, &second);
        for (uint32_t n = 0; n < 9; n++) {
            CHECK_STR(first.message[n], "");
            CHECK_EQ(difference(&first, &second, n), 0);
        }
        bzna_dataset_close(a);
        bzna_dataset_close(b);
        bzna_context_close(context);
    }
}

/* ---- Codecs and files at fault ---------------------------------------------------------------------------------- */

/* What a sample of each mode fails with, and what its message says; OK: it does not fail. */
static const struct { uint32_t mode; bzna_status status; const char *says; } faults[] = {
    { INSPECT_FAILS, BZNA_E_DECODE, "Toy picture: its head is damaged" },
    { DECODE_FAILS, BZNA_E_DECODE, "Toy picture: its pixels are damaged" },
    { SAYS_NUMBER, BZNA_E_DECODE, "Toy picture: inspect returned -12345" },
    { SAYS_POSITIVE, BZNA_E_DECODE, "Toy picture: inspect returned 7" },
    { NO_SIZE, BZNA_E_DECODE, "Toy picture: inspect says 0x24" },
    { HUGE_SIZE, BZNA_E_LIMIT, "a picture of more than 64 MiB needs a coded byte" },
    { LARGE_FOR_BYTES, BZNA_E_LIMIT, "a picture of more than 64 MiB needs a coded byte" },
    { BAD_PIXELS, BZNA_E_DECODE, "pixels 4" },
    { BAD_DEPTH, BZNA_E_DECODE, "depth 17" },
    { BAD_SHIFT, BZNA_E_DECODE, "chroma_shift 3,0" },
    { BAD_ORIENTATION, BZNA_E_DECODE, "orientation 9" },
    { DEEP_INDEX, BZNA_E_DECODE, "depth 9" },
    { WRITES_NOTHING, BZNA_E_DECODE, "decode has not written all pixels" },
    { LEAVES_LAST_ROW, BZNA_E_DECODE, "decode has not written all pixels" },
    { LEAVES_BLOCK, BZNA_E_DECODE, "decode has not written all pixels" },
    { WRITES_BEFORE, BZNA_E_DECODE, "decode wrote outside of its planes" },
    { WRITES_BEHIND, BZNA_E_DECODE, "decode wrote outside of its planes" },
    { CLOSES, BZNA_OK, "" },
    { LONG_MESSAGE, BZNA_E_LIMIT, "Toy picture: xxxx" },
    { BAD_CROP, BZNA_E_DECODE, "orientation 1, or a crop, which no picture is" },
    { OUTER_CROP, BZNA_E_MISMATCH, "at 5,0 is not inside its frame" },
    { USES_H264, BZNA_OK, "" },
};

/* Good pictures, and one of each fault among them: those of `good` have the same pixels at all other places. */
TEST(a_sample_whose_codec_is_at_fault_fails_alone)
{
    model m = { 0 };
    const bzna_codec codec = toy_codec(&m);
    for (uint32_t no_threads = 0; no_threads < 2; no_threads++)
        for (uint32_t interleaved = 0; interleaved < 2; interleaved++) {
            bzna_context *context = context_with(&codec, 1, 0, no_threads);
            bzna_loader_config c = config_number(0);
            bzna_dataset *a, *b;
            m.context = context;
            toys.count = others.count = 0;
            for (uint32_t i = 0; i < FILES; i++) {
                toy t = { EDGE, EDGE, BZNA_PIXELS_RGB, 8, interleaved, 0, 0, 1, GOOD, i };
                files_add_toy(&others, &t);
                t.mode = i % 2 || i / 2 >= COUNT(faults) ? GOOD : faults[i / 2].mode;
                files_add_toy(&toys, &t);
            }
            b = files_open(context, &others, NULL);
            run(context, b, &c, &second);
            for (uint32_t half = 0; half < 2; half++) {
                for (uint32_t i = 0; i < FILES && half; i += 2) {       /* the other half of the faults */
                    const toy t = { EDGE, EDGE, BZNA_PIXELS_RGB, 8, interleaved, 0, 0, 1,
                                    16 + i / 2 < COUNT(faults) ? faults[16 + i / 2].mode : GOOD, i };
                    toy_write(&t, toys.bytes[i]);
                }
                a = files_open(context, &toys, NULL);
                run(context, a, &c, &first);
                CHECK_EQ(first.count, FILES);
                for (uint32_t i = 0; i < FILES; i++) {
                    const uint32_t n = 16 * half + i / 2, is_fault = i % 2 == 0 && n < COUNT(faults);
                    CHECK_EQ(first.status[i], is_fault ? faults[n].status : BZNA_OK);
                    CHECK_CONTAINS(first.message[i], is_fault ? faults[n].says : "");
                    CHECK(first.status[i] != BZNA_OK || difference(&first, &second, i) == 0);
                }
                bzna_dataset_close(a);
            }
            bzna_dataset_close(b);
            bzna_context_close(context);
        }
    CHECK_EQ(m.begins, m.ends);
}

/* The codec says one size and decodes another: it is given planes of the first, and what it leaves is noticed. */
static bzna_status changing_inspect(void *user, const void *data, uint64_t bytes, bzna_codec_shape *shape,
                                    bzna_error *err)
{
    const bzna_status status = toy_inspect(user, data, bytes, shape, err);
    const uint32_t mode = toy_read(data).mode;
    shape->height += mode == SHRINKS_BETWEEN ? 9 : 0;
    shape->width += mode == SHRINKS_BETWEEN ? 9 : 0;
    return status;
}

static bzna_status changing_decode(void *user, const void *data, uint64_t bytes, const bzna_rectangle *needed,
                                   const bzna_codec_planes *planes, bzna_error *err)
{
    const toy t = toy_read(data);
    (void)user, (void)bytes, (void)err;
    for (uint32_t y = 0; y < t.height + (t.mode == GROWS_BETWEEN ? 1u : 0u); y++)       /* the row behind the last */
        for (uint32_t x = 0; x < (y < t.height ? t.width : 16); x++)
            put(planes, 0, x, y, 8, sample_at(&t, 0, x, y));
    return needed->x1 ? BZNA_OK : BZNA_E_DECODE;
}

TEST(sizes_that_change_between_inspect_and_decode_are_noticed)
{
    model m = { 0 };
    bzna_codec codec = toy_codec(&m);
    bzna_loader_config c = config_number(0);
    bzna_context *context;
    bzna_dataset *a;
    codec.inspect = changing_inspect;
    codec.decode = changing_decode;
    context = context_with(&codec, 1, 0, 0);
    toys.count = 0;
    for (uint32_t i = 0; i < FILES; i++) {
        const toy t = { 16, 16, BZNA_PIXELS_GRAY, 8, 0, 0, 0, 1, i % 4 == 1 ? GROWS_BETWEEN : i % 4 == 3 ?
                        SHRINKS_BETWEEN : GOOD, i };
        files_add_toy(&toys, &t);
    }
    a = files_open(context, &toys, NULL);
    run(context, a, &c, &first);
    for (uint32_t i = 0; i < FILES; i++) {
        CHECK_EQ(first.status[i], i % 2 ? BZNA_E_DECODE : BZNA_OK);
        CHECK_CONTAINS(first.message[i], i % 4 == 1 ? "wrote outside" : i % 4 == 3 ? "has not written all" : "");
    }
    bzna_dataset_close(a);
    bzna_context_close(context);
}

TEST(a_codec_that_claims_everything_is_given_only_what_no_other_takes)
{
    model all = { .claims_all = 1 }, none = { 0 };
    bzna_codec codecs[2] = { toy_codec(&none), toy_codec(&all) };
    bzna_loader_config c = config_number(0);
    bzna_context *context;
    bzna_dataset *a;
    toy t = { 32, 33, BZNA_PIXELS_RGB, 8, 0, 0, 0, 1, GOOD, 0 };
    codecs[1].name = "Greedy";
    context = context_with(codecs, 2, 0, 0);
    toys.count = others.count = 0;
    for (uint32_t i = 0; i < FILES; i++) {
        t.seed = i;
        if (i % 3 == 0)
            files_add_toy(&toys, &t);
        else if (i % 3 == 1)
            files_add_png(&toys, &t);
        else
            files_add(&toys, "what is this?", 13);
    }
    a = files_open(context, &toys, NULL);
    run(context, a, &c, &first);
    for (uint32_t i = 0; i < FILES; i++) {
        CHECK_EQ(first.status[i], i % 3 == 2 ? BZNA_E_DECODE : BZNA_OK);
        CHECK_CONTAINS(first.message[i], i % 3 == 2 ? "Greedy: inspect returned" : "");
    }
    CHECK_EQ(all.decodes, 0);
    bzna_dataset_close(a);
    /* an archive of the library's is one as before */
    a = open_path(context, "tests/data/small_h264.bzna", NULL);
    run(context, a, &c, &first);
    CHECK(first.count > 0);
    for (uint32_t i = 0; i < first.count; i++)
        CHECK_EQ(first.status[i], BZNA_OK);
    bzna_dataset_close(a);
    bzna_context_close(context);
    CHECK(all.closes == 1 && none.closes == 1);
}

TEST(a_wrapper_at_fault_costs_its_sample)
{
    static const struct { bzna_status status; const char *says; } says[WRAP_MODES] = {
        { BZNA_OK, "" }, { BZNA_E_UNSUPPORTED, "Wrapper: unwrap returned" }, { BZNA_E_CODEC, "unwrap: codec 6 is not" },
        { BZNA_E_LIMIT, "more than context_config.max_sample_bytes" }, { BZNA_E_DECODE, "image.data: no bytes" },
        { BZNA_E_DECODE, "unwrap returned -7" }, { BZNA_E_CODEC, "unwrap: codec 1000 is not" } };
    for (uint32_t mode = 0; mode < WRAP_MODES; mode++) {
        model m = { 0 };
        const bzna_codec codec = wrap_codec(&m);
        bzna_context *context = context_with(&codec, 1, 0, 0);
        const bzna_loader_config c = config_number(0);
        bzna_dataset *a;
        make_wrapped(0, mode);
        toys.bytes[3][6] = WRAP_GOOD;
        a = files_open(context, &toys, NULL);
        run(context, a, &c, &first);
        for (uint32_t i = 0; i < 6; i++) {
            CHECK_EQ(first.status[i], i == 3 ? BZNA_OK : says[mode].status);
            CHECK_CONTAINS(first.message[i], i == 3 ? "" : says[mode].says);
        }
        bzna_dataset_close(a);
        bzna_context_close(context);
    }
}

TEST(a_lack_of_memory_of_a_codec_is_tried_again_and_ends_the_run)
{
    model m = { 0 };
    const bzna_codec codec = toy_codec(&m);
    bzna_context *context = context_with(&codec, 1, 0, 0);
    const bzna_loader_config c = config_number(0);
    const toy t = { 32, 33, BZNA_PIXELS_RGB, 8, 0, 0, 0, 1, SAYS_MEMORY, 0 };
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_error err = fresh_error();
    bzna_dataset *a;
    toys.count = 0;
    files_add_toy(&toys, &t);
    a = files_open(context, &toys, NULL);
    CHECK_EQ(bzna_loader_open(context, a, &c, &loader, &err), BZNA_OK);
    CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err), BZNA_E_MEMORY);
    CHECK(m.inspects >= 2);
    bzna_loader_close(loader);
    bzna_dataset_close(a);
    bzna_context_close(context);
}

/* ---- Threads, lives, settings ----------------------------------------------------------------------------------- */

TEST(slow_functions_run_at_once_each_with_its_own_state)
{
    model m = { .slow = 1 };
    const bzna_codec codec = toy_codec(&m);
    bzna_context *context = context_with(&codec, 1, 0, 0);
    bzna_loader_config c = config_number(1);
    bzna_dataset *a;
    make_six();
    for (uint32_t i = 6; i < FILES; i++) {
        const toy t = { 32, 33, BZNA_PIXELS_RGB, 8, 0, 0, 0, 1, GOOD, i };
        files_add_toy(&toys, &t);
    }
    a = files_open(context, &toys, NULL);
    c.decode.threads = 4;
    c.order.epochs = 3;
    run(context, a, &c, &first);
    CHECK(first.count == 3 * FILES && m.begins >= 1 && m.begins <= 5 && m.begins == m.ends);
    bzna_dataset_close(a);
    bzna_context_close(context);
}

TEST(without_threads_every_function_runs_on_the_callers)
{
    model m = { .one_thread = 1, .thread = pthread_self() };
    const bzna_codec codec = toy_codec(&m);
    bzna_context *context = context_with(&codec, 1, 0, 1);
    const bzna_loader_config c = config_number(1);
    bzna_dataset *a;
    make_six();
    a = files_open(context, &toys, NULL);
    run(context, a, &c, &first);
    CHECK(first.count == 6 && !m.elsewhere && m.decodes >= 6);
    bzna_dataset_close(a);
    bzna_context_close(context);
}

TEST(a_codec_is_closed_once_and_after_all_that_uses_it)
{
    model m = { 0 };
    const bzna_codec codec = toy_codec(&m);
    bzna_context *context = context_with(&codec, 1, 0, 0);
    const bzna_loader_config c = config_number(0);
    const bzna_context_config wrong = { .struct_size = sizeof wrong, .device = { BZNA_DEVICE_CUDA, 4711 },
                                        .own_codecs = { .ptr = &codec, .count = 1 } };
    bzna_dataset *a;
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_decoder *decoder = NULL;
    make_six();
    a = files_open(context, &toys, NULL);
    CHECK_EQ(bzna_loader_open(context, a, &c, &loader, NULL), BZNA_OK);
    CHECK_EQ(bzna_decoder_open(context, &decoder, NULL), BZNA_OK);
    bzna_context_close(context);
    bzna_dataset_close(a);
    CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL), BZNA_OK);
    bzna_loader_close(loader);
    CHECK_EQ(m.begins, m.ends);
    bzna_decoder_close(decoder);
    CHECK_EQ(m.closes, 0);
    bzna_batch_release(batch);
    CHECK_EQ(m.closes, 1);
    context = NULL;
    CHECK(bzna_context_open(&wrong, &context, NULL) < 0);
    CHECK(!context && m.closes == 1);
}

TEST(a_state_that_cannot_be_made_costs_samples_and_is_tried_again)
{
    model m = { .fails_begin = 1 };
    const bzna_codec codec = toy_codec(&m);
    bzna_context *context = context_with(&codec, 1, 0, 1);
    const bzna_loader_config c = config_number(0);
    bzna_dataset *a;
    make_six();
    a = files_open(context, &toys, NULL);
    run(context, a, &c, &first);
    for (uint32_t i = 0; i < 6; i++) {
        CHECK_EQ(first.status[i], BZNA_E_UNSUPPORTED);
        CHECK_CONTAINS(first.message[i], "Toy picture: no state");
    }
    CHECK(m.begins == 0 && m.ends == 0);
    m.fails_begin = 0;
    run(context, a, &c, &first);
    CHECK_EQ(first.status[0], BZNA_OK);
    bzna_dataset_close(a);
    bzna_context_close(context);
}

TEST(codecs_that_are_not_allowed_are_not_asked)
{
    static const struct { uint32_t allowed; bzna_status toy, jpeg; } cases[] = {
        { 0, BZNA_OK, BZNA_OK }, { BZNA_ALLOW_OWN, BZNA_OK, BZNA_E_CODEC }, { BZNA_ALLOW_JPEG, BZNA_E_CODEC,
        BZNA_E_CODEC }, { BZNA_ALLOW_OWN | BZNA_ALLOW_JPEG, BZNA_OK, BZNA_OK } };
    for (uint32_t i = 0; i < COUNT(cases); i++) {
        model m = { 0 }, w = { 0 };
        const bzna_codec codecs[2] = { toy_codec(&m), wrap_codec(&w) };
        bzna_context *context = context_with(codecs, 2, cases[i].allowed, 0);
        const bzna_loader_config c = config_number(0);
        bzna_dataset *a;
        toy t = { 32, 33, BZNA_PIXELS_RGB, 8, 0, 0, 0, 1, GOOD, i };
        make_wrapped(0, WRAP_GOOD);
        toys.count = 1;
        files_add_toy(&toys, &t);
        t.mode = USES_H264;                                 /* which only the first case allows */
        files_add_toy(&toys, &t);
        a = files_open(context, &toys, NULL);
        run(context, a, &c, &first);
        CHECK_EQ(first.status[1], cases[i].toy);
        CHECK_EQ(first.status[0], cases[i].jpeg);
        CHECK_CONTAINS(first.message[1], cases[i].toy ? "Toy picture: context_config.codecs does not allow it" : "");
        CHECK_EQ(first.status[2], cases[i].allowed ? BZNA_E_CODEC : BZNA_OK);
        CHECK_CONTAINS(first.message[2], cases[i].toy || !cases[i].allowed ? "" : "does not allow what it is made of");
        CHECK(!cases[i].toy || (m.inspects == 0 && m.begins == 0 && w.unwraps == 0));
        bzna_dataset_close(a);
        bzna_context_close(context);
    }
}

TEST(states_are_restored_with_codecs_of_the_same_fingerprints_only)
{
    static const struct { uint64_t fingerprint; bzna_status status; } cases[] = { { 5, BZNA_OK },
                                                                                 { 6, BZNA_E_ARGUMENT } };
    bzna_loader_state saved = { .struct_size = sizeof saved };
    make_six();
    for (uint32_t i = 0; i < 2 + COUNT(cases); i++) {
        model m = { 0 };
        bzna_codec codec = toy_codec(&m);
        bzna_loader_config c = config_number(0);
        bzna_context *context;
        bzna_dataset *a;
        bzna_loader *loader = NULL;
        bzna_error err = fresh_error();
        codec.fingerprint = i ? cases[(i - 1) % 2].fingerprint : 5;
        context = context_with(&codec, 1, 0, 0);
        a = files_open(context, &toys, NULL);
        c.pipeline.restore_any_pixels = i > 2;
        CHECK_EQ(bzna_loader_open(context, a, &c, &loader, NULL), BZNA_OK);
        if (i == 0)
            CHECK_EQ(bzna_loader_save(loader, &saved, sizeof saved, NULL), BZNA_OK);
        else
            CHECK_EQ(bzna_loader_restore(loader, &saved, &err), i > 2 ? BZNA_OK : cases[i - 1].status);
        bzna_loader_close(loader);
        bzna_dataset_close(a);
        bzna_context_close(context);
    }
}

TEST(limits_are_checked_before_anything_is_decoded)
{
    model m = { 0 };
    const bzna_codec codec = toy_codec(&m);
    const bzna_context_config c = { .struct_size = sizeof c, .max_edge_px = 32, .device = { BZNA_DEVICE_CPU, 0 },
                                    .own_codecs = { .ptr = &codec, .count = 1 } };
    const bzna_loader_config l = config_number(0);
    bzna_context *context = NULL;
    bzna_dataset *a;
    REQUIRE(bzna_context_open(&c, &context, NULL) == BZNA_OK);
    toys.count = 0;
    for (uint32_t i = 0; i < 4; i++) {
        const toy t = { 32 + i % 2, 32 + i / 2, BZNA_PIXELS_RGB, 8, 0, 0, 0, 1, GOOD, i };
        files_add_toy(&toys, &t);
    }
    a = files_open(context, &toys, NULL);
    run(context, a, &l, &first);
    for (uint32_t i = 0; i < 4; i++)
        CHECK_EQ(first.status[i], i ? BZNA_E_LIMIT : BZNA_OK);
    CHECK_EQ(m.decodes, 1);
    bzna_dataset_close(a);
    bzna_context_close(context);
}

TEST(codecs_that_cannot_be_are_refused_by_name)
{
    static char long_text[300];
    model m = { 0 };
    static bzna_codec many[33];
    bzna_context *context = NULL;
    memset(long_text, 'a', sizeof long_text - 1);
    for (uint32_t i = 0; i < 13; i++) {
        static const char *const says[] = {
            "", "reserved0", "[1].name: must have", "[1].name: must have", "[1].name: must have",
            "extensions: has more", "recognize: is NULL", "decode, unwrap: both", "inspect: is NULL",
            "thread_begin: is NULL", "struct_size", "own_codecs.count: 33 is not in",
            "own_codecs.ptr, own_codecs.count: one is given without" };
        bzna_codec codecs[2] = { toy_codec(&m), toy_codec(&m) };
        bzna_codec *c = &codecs[1];
        bzna_context_config config = { .struct_size = sizeof config, .own_codecs = { .ptr = codecs, .count = 2 } };
        bzna_error err = fresh_error();
        c->reserved0 = i == 1;
        c->name = i == 2 ? NULL : i == 3 ? "" : i == 4 ? long_text : c->name;
        c->extensions = i == 5 ? long_text : i == 0 ? long_text + sizeof long_text - 256 : c->extensions;
        c->recognize = i == 6 ? NULL : c->recognize;
        c->decode = i == 7 ? NULL : c->decode;
        c->inspect = i == 8 ? NULL : c->inspect;
        c->thread_begin = i == 9 ? NULL : c->thread_begin;
        c->struct_size -= i == 10 ? 8 : 0;
        for (uint32_t k = 0; k < COUNT(many) && i == 11; k++)
            many[k] = toy_codec(&m);
        if (i == 11)
            config.own_codecs = (bzna_own_codecs){ .ptr = many, .count = COUNT(many) };
        config.own_codecs.ptr = i == 12 ? NULL : config.own_codecs.ptr;
        CHECK_EQ(bzna_context_open(&config, &context, &err) == BZNA_OK, i == 0);
        CHECK_CONTAINS(err.message, says[i]);
        bzna_context_close(context);
        context = context_with(i == 11 ? many : NULL, i == 11 ? 32 : 0, 0, 0);
        bzna_context_close(context);
    }
    CHECK_EQ(m.closes, 2 + 32);
}

TEST_MAIN(RUN(pixels_are_those_of_pnm_files_in_every_form_depth_and_orientation)
          RUN(planes_of_every_subsampling_and_depth_come_as_they_were_written)
          RUN(a_palette_gives_colors_or_the_numbers_of_a_mask)
          RUN(orientation_is_ignored_where_the_data_set_says_so)
          RUN(folders_and_pairs_list_files_by_the_extensions_of_codecs)
          RUN(tars_know_pictures_by_the_extensions_of_codecs)
          RUN(records_of_recordio_hold_files_of_codecs)
          RUN(archives_hold_files_of_codecs)
          RUN(what_a_codec_unwraps_is_decoded_as_if_it_had_come_alone)
          RUN(frames_that_a_codec_unwraps_are_those_of_their_archive)
          RUN(a_wrapper_says_how_its_picture_is_turned)
          RUN(a_sample_whose_codec_is_at_fault_fails_alone)
          RUN(sizes_that_change_between_inspect_and_decode_are_noticed)
          RUN(a_codec_that_claims_everything_is_given_only_what_no_other_takes)
          RUN(a_wrapper_at_fault_costs_its_sample)
          RUN(a_lack_of_memory_of_a_codec_is_tried_again_and_ends_the_run)
          RUN(slow_functions_run_at_once_each_with_its_own_state)
          RUN(without_threads_every_function_runs_on_the_callers)
          RUN(a_codec_is_closed_once_and_after_all_that_uses_it)
          RUN(a_state_that_cannot_be_made_costs_samples_and_is_tried_again)
          RUN(codecs_that_are_not_allowed_are_not_asked)
          RUN(states_are_restored_with_codecs_of_the_same_fingerprints_only)
          RUN(limits_are_checked_before_anything_is_decoded)
          RUN(codecs_that_cannot_be_are_refused_by_name))
