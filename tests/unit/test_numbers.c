/* test_numbers.c - elementary functions beside libm's in more precision; and that orders, random numbers, warps, colors
 * and pixels have the same bits on every machine: each hash here is one constant for all compilers and processors. */
#include "library.h"
#include "../../examples/formats/formats.h"
#include "test.h"
#include "known.h"

/* ---- Elementary functions ---------------------------------------------------------------------------------------- */

/* Numbers that no code of the library makes. */
static uint64_t drawn = 1;
static uint64_t draw_bits(void)
{
    drawn = drawn * 6364136223846793005u + 1442695040888963407u;
    uint64_t x = drawn >> 11;
    return x ^ x >> 23;
}

static double draw(double lo, double hi) { return lo + (hi - lo) * ((double)draw_bits() * 0x1p-53); }

/* Of 0..most, over a power of two. */
static double draw_small(double most, int bits)
{
    const double value = draw(0, most);
    return ldexp(value, -(int)draw(0, bits));
}

static double ours_of(int which, double x)
{
    return which == 0 ? bzi_math_sin(x) : which == 1 ? bzi_math_cos(x) : which == 2 ? bzi_math_tan(x) :
           which == 3 ? bzi_math_exp(x) : bzi_math_log(x);
}

/* A number of the range that row has: those in use, and beyond. */
static double argument_of(int row)
{
    switch (row) {
    case 0: case 1: return draw(-360, 360);
    case 2: return draw(-89.999, 89.999);
    case 3: return draw(-708.4, 13.9);                      /* logarithms of what settings may be */
    case 4: return 1 - draw(0, 1);                          /* of weighted orders */
    case 5: case 6: return draw(-1e6, 1e6);
    case 7: return draw_small(89, 900);
    case 8: return draw(-745, 709);
    case 9: return draw_small(DBL_MAX, 2080);
    case 10: return draw(-1, 1) * DBL_MAX;
    case 11: return 90 - draw_small(1, 40);
    case 12: return draw(-45, 45);
    case 13: return draw_small(1, 60);
    default: return 1 + (row & 1 ? 1 : -1) * draw_small(0.5, 50);
    }
}

#if LDBL_MANT_DIG >= 64

/* How far value lies from exact, in units of exact's last place. */
static double ulps(double value, long double exact)
{
    int exponent;
    frexp((double)exact, &exponent);
    return fabs((double)(((long double)value - exact) / ldexpl(1, exponent - 53 < -1074 ? -1074 : exponent - 53)));
}

/* sin (0), cos (1) and tan (2) of degrees, of which multiples of 90 are taken off exactly. */
static long double turned(int which, double degrees)
{
    const long double unit = 3.14159265358979323846264338327950288419717L / 180;
    int quarters;
    const long double angle = remquo(remainder(degrees, 360), 90, &quarters) * unit;
    const long double s = sinl(angle), c = cosl(angle);
    const long double sines[4] = { s, c, -s, -c }, sine = sines[quarters & 3], cosine = sines[(quarters + 1) & 3];
    return which == 0 ? sine : which == 1 ? cosine : sine / cosine;
}

static long double exact_of(int which, double x)
{
    return which == 3 ? expl(x) : which == 4 ? logl(x) : turned(which, x);
}

TEST(elementary_functions_are_off_by_less_than_1_ulp)
{
    static const struct { const char *name; int which; } rows[] = {
        { "sin, a turn", 0 }, { "cos, a turn", 1 }, { "tan, up to 89.999", 2 }, { "exp, in use", 3 },
        { "log, 0 to 1", 4 }, { "sin, up to 1e6", 0 }, { "cos, up to 1e6", 1 }, { "sin, small", 0 }, { "exp, all", 3 },
        { "log, all", 4 }, { "sin, all", 0 }, { "cos, near 90", 1 }, { "tan, up to 45", 2 }, { "exp, small", 3 },
        { "log, near 1", 4 }, { "log, near 1", 4 },
    };
#ifdef TEST_EMULATED
    const int points = 2000;
#else
    const int points = ROUNDS(1000000, 100000);
#endif
    for (size_t i = 0; i < COUNT(rows); i++) {
        double worst = 0;
        for (int k = 0; k < (i < 5 ? points : points / 5); k++) {
            const double x = argument_of((int)i), off = ulps(ours_of(rows[i].which, x), exact_of(rows[i].which, x));
            worst = off > worst || off != off ? off : worst;
        }
        CHECK(worst < 0.95);
        printf("%s: off by at most %.3f ulp\n", rows[i].name, worst);
    }
}

#else
TEST(elementary_functions_are_off_by_less_than_1_ulp) { SKIP("long double is not more precise than double here"); }
#endif

TEST(elementary_functions_are_exact_where_they_can_be)
{
    static const double sines[4] = { 0, 1, 0, -1 };
    for (int i = -40000; i <= 40000; i++) {
        CHECK(bzi_math_sin(90.0 * i) == sines[i & 3]);
        CHECK(bzi_math_cos(90.0 * i) == sines[(i + 1) & 3]);
        CHECK(!signbit(bzi_math_sin(90.0 * i)) || sines[i & 3] < 0);
    }
    CHECK(bzi_math_sin(30) == 0.5 && bzi_math_cos(60) == 0.5 && bzi_math_tan(45) == 1 && bzi_math_tan(-135) == 1);
    CHECK(bzi_math_sin(1e300) == bzi_math_sin(fmod(1e300, 360)));
    CHECK(bzi_math_exp(0) == 1 && bzi_math_exp(-746) == 0 && bzi_math_exp(-1e300) == 0 && bzi_math_exp(-HUGE_VAL) == 0);
    CHECK(bzi_math_exp(709.7) < HUGE_VAL && bzi_math_exp(-745.1) == 0x1p-1074);
    CHECK(bzi_math_log(1) == 0 && bzi_math_log(DBL_MAX) < 710 && bzi_math_log(0x1p-1074) < -744);
}

/* ---- The same on every machine ----------------------------------------------------------------------------------- */

/* FNV-1a over values, not over how a machine lays them out. */
static uint64_t hash;

static void hash_bits(uint64_t bits)
{
    for (int i = 0; i < 8; i++)
        hash = (hash ^ (bits >> 8 * i & 255)) * 0x100000001b3u;
}

static void hash_double(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    hash_bits(bits);
}

static void hash_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    hash_bits(bits);
}

#define BEGIN_HASH() (hash = 0xcbf29ce484222325u)
#define CHECK_HASH(expected)                                                                          \
    do {                                                                                              \
        printf("%s: 0x%016llx\n", &__func__[sizeof "test"], (unsigned long long)hash);               \
        if (hash != (expected)) {                                                                     \
            test_failures++;                                                                          \
            printf("  %s:%d: the hash is 0x%016llx\n", __FILE__, __LINE__, (unsigned long long)hash); \
        }                                                                                             \
    } while (0)

static bzna_random stream(uint64_t sample)
{
    bzna_random random;
    bzna_random_init(&random, 1234, 5, sample, BZNA_RANDOM_WARP);
    return random;
}

TEST(functions_are_the_same_on_every_machine)
{
    BEGIN_HASH();
    drawn = 7;
    for (int row = 0; row < 16; row++)
        for (int i = 0; i < 500; i++) {
            const double x = argument_of(row);
            for (int which = 0; which < 3; which++) {
                bzi_pair s, c;
                bzi_turn(x, &s, &c);
                if (which < 2 || c.high != 0)
                    hash_double(ours_of(which, x));
            }
            hash_double(x > 710 ? HUGE_VAL : bzi_math_exp(x));
            hash_double(x > 0 ? bzi_math_log(x) : 0);
        }
    CHECK_HASH(0x2a0f543b1a0780e0u);
}

TEST(random_numbers_and_orders_are_the_same_on_every_machine)
{
    bzna_random random = stream(9);
    BEGIN_HASH();
    drawn = 9;
    for (int i = 0; i < 500; i++) {
        hash_bits(bzna_random_u32(&random));
        hash_double(bzna_random_uniform(&random, -3, 1e3));
    }
    for (uint64_t i = 0; i < 1000; i++) {
        hash_bits(bzna_order_permute(1234, i, 1000, i));
        hash_bits(bzna_order_permute(1234, 5, 1281167, 1281 * i));
        hash_bits(bzna_order_permute(1234, 5, 1ull << 52, i << 40));
    }
    CHECK_HASH(0x999950248ff515dcu);
}

/* Warps of every kind and way to draw crops, with everything that is drawn. */
static bzna_warp warp_number(int i)
{
    static const uint32_t kinds[] = { BZNA_WARP_NONE, BZNA_WARP_RANDOM_RESIZED_CROP, BZNA_WARP_CENTER_RESIZED_CROP,
                                      BZNA_WARP_SIMILARITY, BZNA_WARP_MXNET };
    bzna_warp w;
    memset(&w, 0, sizeof w);
    w.kind = kinds[i % 5];
    w.crops = w.kind != BZNA_WARP_NONE && w.kind != BZNA_WARP_MXNET ? (uint32_t)(i / 5 % 3) : 0;
    if (w.kind == BZNA_WARP_CENTER_RESIZED_CROP && !w.crops)
        w.crops = BZNA_CROPS_BENZINA;
    w.flip_h = w.flip_v = 0.5;
    if (w.kind == BZNA_WARP_RANDOM_RESIZED_CROP || w.kind == BZNA_WARP_SIMILARITY) {
        w.scale[0] = 0.1, w.scale[1] = 1;
        w.ratio[0] = 0.6, w.ratio[1] = 1.7;
    }
    if (w.kind == BZNA_WARP_CENTER_RESIZED_CROP)
        w.scale[0] = 0.875;
    if (w.kind >= BZNA_WARP_SIMILARITY) {
        w.degrees[0] = -170, w.degrees[1] = 35;
        w.random_crop = 1;
    }
    if (w.kind == BZNA_WARP_SIMILARITY)
        w.translate[0] = 0.1, w.translate[1] = 0.2;
    if (w.kind == BZNA_WARP_MXNET) {
        w.scale[0] = 0.7, w.scale[1] = 1.4;
        w.ratio[0] = 0.75, w.ratio[1] = 1.25;
        w.mxnet.shear_ratio = 0.2;
        w.mxnet.crop_px[0] = i % 3 ? 0 : 40, w.mxnet.crop_px[1] = i % 3 ? 0 : 60;
        w.mxnet.pad_px = i % 4 ? 0 : 5;
        w.mxnet.short_edge_px = i % 7 ? 0 : 99;
    }
    if (i % 2) {
        w.rotate[0] = -20, w.rotate[1] = 50;
        w.shear[0] = w.shear[2] = -30, w.shear[1] = w.shear[3] = 80;
        w.perspective = 0.4;
    }
    return w;
}

TEST(warps_and_jitters_are_the_same_on_every_machine)
{
    BEGIN_HASH();
    for (int i = 0; i < 600; i++) {
        const bzna_warp w = warp_number(i);
        const bzna_mxnet mxnet = { .hls = { 30, 30, 30 }, .contrast = 0.3f, .illumination = 20 };
        bzna_random random = stream((uint64_t)i);
        bzna_jitter jitter;
        bzna_transform t;
        double h[9];
        CHECK_EQ(bzna_warp_draw(&random, &w, 50 + (uint32_t)i % 300, 375, 224, 160, h, NULL), BZNA_OK);
        for (int k = 0; k < 9; k++)
            hash_double(h[k]);
        memset(&jitter, 0, sizeof jitter);
        bzna_transform_init(&t, sizeof t);
        jitter.brightness[0] = jitter.contrast[0] = jitter.saturation[0] = 0.4f;
        jitter.brightness[1] = jitter.contrast[1] = jitter.saturation[1] = 1.6f;
        jitter.hue[0] = -0.1f, jitter.hue[1] = 0.1f;
        CHECK_EQ(bzna_jitter_draw(&random, &jitter, &mxnet, &t, NULL), BZNA_OK);
        const float of[] = { t.brightness, t.contrast, t.saturation, t.hue, t.hls[0], t.hls[1], t.hls[2], t.bias[0],
                             t.scale[0] };
        for (size_t k = 0; k < COUNT(of); k++)
            hash_float(of[k]);
    }
    CHECK_HASH(0xf6a344a118e448dau);
}

/* A picture of noise of 61 x 47, 4:2:0, 4:4:4 or gray, of so many bits. */
static bzna_picture picture_make(int kind, uint32_t depth)
{
    enum { WIDTH = 61, HEIGHT = 47 };
    static uint8_t bytes[3][WIDTH * HEIGHT];
    static uint16_t words[3][WIDTH * HEIGHT];
    static const uint8_t matrices[6] = { 1, 5, 9, 4, 7, 8 };
    bzna_picture p = { .struct_size = sizeof p, .depth = depth, .width = WIDTH, .height = HEIGHT, .frame_width = WIDTH,
                       .frame_height = HEIGHT, .color = { 1, 1, matrices[kind % 6], (uint8_t)(kind & 1), 1 } };
    p.chroma_shift_x = p.chroma_shift_y = kind % 3 == 0;
    for (int i = 0; i < (kind % 3 == 2 ? 1 : 3); i++) {
        for (int k = 0; k < WIDTH * HEIGHT; k++) {
            words[i][k] = (uint16_t)(draw_bits() & ((1u << depth) - 1));
            bytes[i][k] = (uint8_t)words[i][k];
        }
        p.plane[i] = depth > 8 ? (const void *)words[i] : bytes[i];
        p.pitch[i] = depth > 8 ? 2 * WIDTH : WIDTH;
    }
    return p;
}

static void hash_elements(const void *elements, uint32_t dtype, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (dtype == BZNA_DTYPE_FLOAT32)
            hash_float(((const float *)elements)[i]);
        else if (dtype == BZNA_DTYPE_UINT8)
            hash_bits(((const uint8_t *)elements)[i]);
        else
            hash_bits(((const uint16_t *)elements)[i]);
    }
}

TEST(pixels_are_the_same_on_every_machine)
{
    static float pixels[3 * 45 * 30];
    BEGIN_HASH();
    drawn = 11;
    for (int i = 0; i < 420; i++) {
        const bzna_picture picture = picture_make(i, i % 4 ? 8 : 10);
        const bzna_warp w = warp_number(i % 3 ? i % 5 : i);
        bzna_output out = { .struct_size = sizeof out, .width = 45, .height = 30, .dtype = (uint32_t)(i % 4),
                            .layout = (uint32_t)(i / 4 % 2), .channels = (uint32_t)(i / 8 % 3) };
        bzna_random random = stream((uint64_t)i);
        bzna_transform t;
        bzna_transform_init(&t, sizeof t);
        t.filter = (uint32_t)(i % 7);
        t.antialias = t.filter != BZNA_FILTER_AREA && i % 5 == 0;
        t.bias[0] = t.bias[1] = 103.5f;
        t.scale[2] = 1 / 57.375f;
        if (i % 3 == 1) {
            t.brightness = 1.3f;
            t.contrast = i % 2 ? 1.4f : 0;
            t.saturation = 0.6f;
            t.hue = 0.07f;
        }
        t.color[1] = i % 4 ? 0.1f : 0;
        CHECK_EQ(bzna_warp_draw(&random, &w, 61, 47, out.width, out.height, t.homography, NULL), BZNA_OK);
        CHECK_EQ(bzna_picture_render(&picture, &t, &out, pixels, sizeof pixels, NULL), BZNA_OK);
        hash_elements(pixels, out.dtype, (size_t)out.width * out.height * bzi_channels(out.channels));
    }
    CHECK_HASH(0xcdecc7ffd336dbb5u);
}

/* ---- Files and states -------------------------------------------------------------------------------------------- */

static void hash_bytes(const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
}

#ifndef BENZINA_NO_WRITER
/* Adds a sample of an archive, with a field of every kind. */
static bzna_status write_sample(bzna_writer *writer, const bzna_dataset *from, uint64_t i, bzna_error *err)
{
    static uint8_t buffers[2][1 << 18];
    const float vector[3] = { (float)i, -1.5f, 1 / 3.0f };
    const int64_t integer = -((int64_t)1 << 40) + (int64_t)i;
    bzna_image pictures[2] = { { .struct_size = sizeof *pictures }, { .struct_size = sizeof *pictures } };
    bzna_field_value fields[4];
    bzna_writer_sample sample;
    char name[32];
    CHECK_EQ(bzna_dataset_read_image(from, i, "bzna_input", buffers[0], sizeof buffers[0], &pictures[0], err), BZNA_OK);
    CHECK_EQ(bzna_dataset_read_image(from, i, "bzna_thumb", buffers[1], sizeof buffers[1], &pictures[1], err), BZNA_OK);
    for (size_t k = 0; k < COUNT(fields); k++)
        bzna_field_value_init(&fields[k], sizeof fields[k]);
    fields[0].name = "count", fields[0].kind = BZNA_FIELD_INTEGER;
    fields[0].data = &integer, fields[0].size = sizeof integer;
    fields[1].name = "place", fields[1].kind = BZNA_FIELD_VECTOR;
    fields[1].data = vector, fields[1].size = sizeof vector;
    fields[2].name = "caption", fields[2].kind = BZNA_FIELD_TEXT;
    fields[2].data = "z\xc3\xbcge", fields[2].size = 5;
    fields[3].name = "raw", fields[3].kind = BZNA_FIELD_BYTES;
    fields[3].data = "\0\r\n\x1a", fields[3].size = 4;
    snprintf(name, sizeof name, "z\xc3\xbcge/%02d.jpg", (int)i);
    bzna_writer_sample_init(&sample, sizeof sample);
    sample.image = &pictures[0];
    sample.thumb = &pictures[1];
    sample.has_target = 1;
    sample.target = (int64_t)i % 2;
    sample.split = i % 3 ? BZNA_SPLIT_TRAIN : BZNA_SPLIT_VALIDATION;
    sample.name = name;
    sample.fields = fields;
    sample.field_count = COUNT(fields);
    return bzna_writer_add(writer, BZNA_INDEX_NEXT, &sample, 0, err);
}

TEST(archives_are_the_same_bytes_on_every_machine)
{
    static const char *const classes[] = { "cat", "z\xc3\xbcge" }, *const path = TEST_BUILD "/tests/numbers.bzna";
    bzna_context *context;
    bzna_dataset *from;
    bzna_writer *writer;
    bzna_writer_config config;
    bzna_error err = fresh_error();
    size_t size;
    uint8_t *bytes;
    REQUIRE(bzna_context_open(NULL, &context, NULL) == BZNA_OK);
    REQUIRE(bzna_dataset_open(context, "tests/data/mini_h265.bzna", NULL, &from, NULL) == BZNA_OK);
    bzna_writer_config_init(&config, sizeof config);
    config.class_count = 2;
    config.classes = classes;
    REQUIRE(bzna_writer_open(context, path, &config, &writer, NULL) == BZNA_OK);
    for (uint64_t i = 0; i < 8; i++)
        CHECK_EQ(write_sample(writer, from, i, &err), BZNA_OK);
    CHECK_EQ(bzna_writer_finish(writer, &err), BZNA_OK);
    bzna_writer_close(writer);
    bytes = slurp(path, &size);
    BEGIN_HASH();
    hash_bytes(bytes, size);
    CHECK_HASH(0x4ed37584fe01ac16u);
    free(bytes);
    bzna_dataset_close(from);
    bzna_context_close(context);
}
#else
TEST(archives_are_the_same_bytes_on_every_machine) { SKIP("built without the writer"); }
#endif

/* Vectors and labels, as numbers; the state, member by member, without its hashes, which depend on the byte order. */
static void hash_batch(const bzna_loader_state *state, const bzna_batch *batch)
{
    bzna_batch_info info = { .struct_size = sizeof info };
    bzna_tensor tensor;
    CHECK_EQ(bzna_batch_get_info(batch, &info, sizeof info, NULL), BZNA_OK);
    for (uint32_t i = 0; i < info.count; i++) {
        hash_bits(info.indices[i]);
        hash_bits((uint64_t)info.targets[i]);
    }
    REQUIRE(bzna_batch_tensor(batch, "data", &tensor, sizeof tensor, NULL) == BZNA_OK);
    for (uint32_t i = 0; i < info.count * 8; i++)
        hash_float(((const float *)tensor.data)[i]);
    hash_bits(state->version), hash_bits(state->seed), hash_bits(state->epoch), hash_bits(state->position);
    hash_bits(state->sample_count), hash_bits(state->end_epoch), hash_bits(state->order), hash_bits(state->list);
}

/* A data set of records of noise in memory, and a loader that shuffles it. */
typedef struct run { bzna_context *context; bzna_dataset *dataset; bzna_loader *loader; } run;

static int run_open(run *r)
{
    enum { RECORDS = 100, BYTES = 8 + 1 };
    static uint8_t bytes[RECORDS * BYTES];
    bzna_formats_config opening;
    bzna_records records;
    bzna_loader_config config;
    memset(r, 0, sizeof *r);
    drawn = 3;
    for (int i = 0; i < RECORDS * BYTES; i++)
        bytes[i] = (uint8_t)draw_bits();
    bzna_formats_records_init(&records, sizeof records);
    records.data_type = BZNA_RECORD_UINT8;
    records.channels = 2;                                   /* which makes a vector of it */
    records.height = 1;
    records.width = 4;
    records.scale = 1 / 3.0f;
    records.bias = -7;
    records.label_type = BZNA_RECORD_UINT8;
    records.label_offset = 8;
    bzna_formats_config_init(&opening, sizeof opening);
    opening.records = &records;
    bzna_loader_config_init(&config, sizeof config);
    config.output.batch_size = 7;
    config.fields.tensors = "data";
    config.order.kind = BZNA_ORDER_SHUFFLE;
    config.order.seed = 1234;
    config.order.epochs = 3;
    return bzna_context_open(NULL, &r->context, NULL) == BZNA_OK &&
           bzna_formats_open_memory(r->context, bytes, sizeof bytes, &opening, &r->dataset, NULL) == BZNA_OK &&
           bzna_loader_open(r->context, r->dataset, &config, &r->loader, NULL) == BZNA_OK;
}

static void run_close(run *r)
{
    bzna_loader_close(r->loader);
    bzna_dataset_close(r->dataset);
    bzna_context_close(r->context);
}

/* Hashes all batches that are left; returns how many. */
static int hash_run(const run *r)
{
    int count = 0;
    BEGIN_HASH();
    for (bzna_batch *batch; bzna_loader_next(r->loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK; count++) {
        bzna_loader_state state;
        CHECK_EQ(bzna_loader_save(r->loader, &state, sizeof state, NULL), BZNA_OK);
        hash_batch(&state, batch);
        bzna_batch_release(batch);
    }
    return count;
}

TEST(batches_and_states_are_the_same_on_every_machine)
{
    run r;
    REQUIRE(run_open(&r));
    hash_run(&r);
    CHECK_HASH(0x0b441accbb38b230u);
    run_close(&r);
}

TEST(a_state_is_restored_only_in_its_own_byte_order_and_whole)
{
    run r;
    bzna_loader_state given, bad, saved;
    bzna_error err = fresh_error();
    const uint16_t one = 1;
    const int is_little = *(const uint8_t *)&one;
    REQUIRE(run_open(&r));
    for (int i = 0; i < 20; i++) {
        bzna_batch *batch;
        REQUIRE(bzna_loader_next(r.loader, BZNA_WAIT_FOREVER, &batch, &err) == BZNA_OK);
        bzna_batch_release(batch);
    }
    CHECK_EQ(bzna_loader_save(r.loader, &given, sizeof given, &err), BZNA_OK);
    if (is_little) {                                        /* as 0.3 wrote them */
        CHECK_EQ(given.fingerprint, 0xf6305d622e7e26e7u);
        CHECK_EQ(given.check, 0x86758e47);
        CHECK_EQ(given.pixels, 0x388c744717ff37a0u);
    }
    for (int order = 0; order < 2; order++) {               /* the run itself goes on, then from the state */
        if (order)
            CHECK_EQ(bzna_loader_restore(r.loader, &given, &err), BZNA_OK);
        CHECK_EQ(bzna_loader_save(r.loader, &saved, sizeof saved, &err), BZNA_OK);
        CHECK(!memcmp(&saved, &given, sizeof saved));
        CHECK_EQ(hash_run(&r), 25);
        CHECK_HASH(0x42b7bb584a4657c2u);
    }

    /* One byte that is not as it was, wherever it is, and any version or size; then all of the other byte order. */
    for (size_t i = 0; i < sizeof given; i++) {
        bad = given;
        ((uint8_t *)&bad)[i] ^= 4;
        CHECK_EQ(bzna_loader_restore(r.loader, &bad, &err), BZNA_E_ARGUMENT);
    }
    bad = given;
    bad.version = given.version << 24;
    CHECK_EQ(bzna_loader_restore(r.loader, &bad, &err), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(err.message, "state.version");
    run_close(&r);
}

TEST_MAIN(RUN(elementary_functions_are_off_by_less_than_1_ulp)
    RUN(elementary_functions_are_exact_where_they_can_be)
    RUN(functions_are_the_same_on_every_machine)
    RUN(random_numbers_and_orders_are_the_same_on_every_machine)
    RUN(warps_and_jitters_are_the_same_on_every_machine)
    RUN(pixels_are_the_same_on_every_machine)
    RUN(archives_are_the_same_bytes_on_every_machine)
    RUN(batches_and_states_are_the_same_on_every_machine)
    RUN(a_state_is_restored_only_in_its_own_byte_order_and_whole))
