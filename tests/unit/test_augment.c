/* test_augment.c - policies: which operations are drawn, that they are the same whatever the threads, what they do to
 * pixels, and what comes out of them. What other libraries make of the same operations is compared elsewhere; here
 * stands what needs none. */
#include "library.h"
#include "../../examples/formats/formats.h"
#ifdef TEST_NVDEC
#  include "../fake/nvdec.h"
#endif
#include "test.h"
#include "masks.h"
#include "random.h"
#include <stdatomic.h>

#ifdef BENZINA_NO_AUGMENT
TEST(settings_with_policies_are_refused_by_name)
{
    static const bzna_operation blur = { .kind = BZNA_OP_BLUR, .magnitude = { 1, 1 } };
    const bzna_policy policy = { .operations = &blur, .operation_count = 1 };
    const bzna_loader_augment augment = { .policies = &policy, .policy_count = 1 };
    bzna_transform transform;
    bzna_error err = { 0 };
    bzna_transform_init(&transform, sizeof transform);
    CHECK_EQ(bzi_augment_check(&augment, "augment", 1, &err), BZNA_E_UNSUPPORTED);
    CHECK_CONTAINS(err.message, "BENZINA_NO_AUGMENT");
    transform.operation_count = 1;
    CHECK_EQ(bzi_transform_check(&transform, &err), BZNA_E_UNSUPPORTED);
    CHECK_CONTAINS(err.message, "BENZINA_NO_AUGMENT");
}
TEST_MAIN(RUN(settings_with_policies_are_refused_by_name))
#else

#include "operations.h"
#include "passes.h"

/* ---- Passes ------------------------------------------------------------------------------------------------------ */

enum { EDGE = 70, ROOM = 3 * EDGE * EDGE };
static _Alignas(64) uint8_t scratch_a[16 * EDGE * EDGE + 65536], scratch_b[sizeof scratch_a];
static _Alignas(64) float pixels_a[ROOM], pixels_b[ROOM];

TEST(vectors_give_the_bits_of_the_functions_of_a_gpu_thread)
{
    static float mean[ROOM];
    random_state = 5;
    for (int i = 0; i < ROOM; i++)
        mean[i] = (float)random_real(0, 200);
    for (int round = 0; round < ROUNDS(1500, 200); round++) {
        const uint32_t channels = (uint32_t)random_int(0, 2);
        bzna_output o = { .width = (uint32_t)random_int(1, EDGE), .height = (uint32_t)random_int(1, EDGE),
                          .dtype = (uint32_t)random_int(0, 3), .layout = (uint32_t)random_int(0, 1),
                          .channels = channels };
        bzi_kernel_output out = bzi_output_make(&o);
        bzna_transform t = any_operations((uint32_t)random_int(1, 8), out.width, out.height);
        bzi_kernel_pass a, b;
        bzna_error err;
        out.mean = random_int(0, 5) ? 0 : (uint64_t)(uintptr_t)mean;
        CHECK_EQ(bzi_transform_check(&t, &err), BZNA_OK);
        bzi_operations_make(&t, channels, &out, &a);
        if (!a.end)
            continue;
        const int smooth = random_int(0, 2);
        for (size_t i = 0; i < 3u * o.width * o.height; i++)
            scratch_a[i] = scratch_b[i] = (uint8_t)(smooth == 0 ? random_u32() : smooth == 1 ? i / 7 + i % 5 : 77);
        b = a;
        a.src = (uint64_t)(uintptr_t)scratch_a;
        b.src = (uint64_t)(uintptr_t)scratch_b;
        CHECK(bzi_scratch_bytes(&out) <= sizeof scratch_a);
        a.dst = (uint64_t)(uintptr_t)pixels_a;
        b.dst = (uint64_t)(uintptr_t)pixels_b;
        memset(pixels_a, 9, sizeof pixels_a);
        memset(pixels_b, 9, sizeof pixels_b);
        bzi_kernel_operate(&a, &out);
        bzi_kernel_stage stage = { 0, 0, 0, 0, 0 };
        for (bzi_kernel_pass pass; bzi_kernel_next_pass(&b, &out, &stage, &pass);)
            pass_plain(&pass, &out);
        if (memcmp(pixels_a, pixels_b, sizeof pixels_a)) {
            printf("  round %d: %ux%u, dtype %u, layout %u, channels %u:", round, o.width, o.height, o.dtype, o.layout,
                   channels);
            for (uint32_t i = 0; i < t.operation_count; i++)
                printf(" %u", t.operations[i].kind);
            printf("\n");
            CHECK(!"equal");
            return;
        }
    }
}

/* A picture of R, G, B bytes at `rgb`, rendered with a transform. */
static bzna_picture picture_of(const uint8_t *rgb, uint32_t width, uint32_t height)
{
    bzna_picture p;
    p = (bzna_picture){ .struct_size = sizeof p };
    p.width = width;
    p.height = height;
    p.color.full_range = p.color.present = 1;
    for (int i = 0; i < 3; i++) {
        p.plane[i] = rgb + (i + 1) % 3 * (int)(width * height);
        p.pitch[i] = (int64_t)width;
    }
    return p;
}

static void render_bytes(const bzna_picture *p, const bzna_transform *t, uint8_t *dst)
{
    const bzna_output o = { .struct_size = sizeof o, .width = p->width, .height = p->height,
                            .dtype = BZNA_DTYPE_UINT8 };
    bzna_error err = { 0 };
    if (bzna_picture_render(p, t, &o, dst, (size_t)3 * p->width * p->height, &err) != BZNA_OK)
        printf("  %s\n", err.message);
    CHECK_EQ(err.status, BZNA_OK);
}

TEST(rows_that_turn_or_shear_give_the_bits_of_the_plain_loop)
{
    static uint8_t planes[3][200 * 150];
    static _Alignas(64) uint8_t workspace[65536];
    int turned = 0;
    random_state = 6;
    for (size_t i = 0; i < sizeof planes; i++)
        planes[i / sizeof planes[0]][i % sizeof planes[0]] = (uint8_t)random_u32();
    for (int round = 0; round < ROUNDS(600, 100); round++) {
        const bzna_output o = { .width = (uint32_t)random_int(1, EDGE), .height = (uint32_t)random_int(1, EDGE),
                                .dtype = (uint32_t)random_int(0, 3), .layout = (uint32_t)random_int(0, 1),
                                .channels = (uint32_t)random_int(0, 2) };
        bzi_kernel_output out = bzi_output_make(&o);
        const int shift = random_int(0, 1), planes_are = random_int(0, 3);
        bzna_picture p = { .struct_size = sizeof p, .depth = 8, .width = (uint32_t)random_int(8, 200),
                           .height = (uint32_t)random_int(8, 150), .chroma_shift_x = (uint32_t)shift,
                           .chroma_shift_y = (uint32_t)shift, .color = { .matrix = 6, .present = 1 } };
        bzna_transform t;
        bzi_kernel_slot slot;
        bzna_error err;
        bzna_transform_init(&t, sizeof t);
        for (int i = 0; i < 3; i++) {       /* nothing lies behind the last sample: AddressSanitizer sees what does */
            const int s = i ? shift : 0, rows = ((int)p.height - 1) >> s, columns = (((int)p.width - 1) >> s) + 1;
            p.plane[i] = i == 0 || planes_are ? planes[i] + sizeof planes[i] - (size_t)(200 * rows + columns) : NULL;
            p.pitch[i] = 200;
            t.bias[i] = (float)random_real(0, 100);
            t.fill[i] = (float)random_real(0, 255);
        }
        const double angle = random_real(-180, 180), scale = random_real(0.2, 3);
        t.homography[0] = scale * bzi_math_cos(angle);
        t.homography[1] = -scale * bzi_math_sin(angle) + random_real(-0.3, 0.3);
        t.homography[3] = scale * bzi_math_sin(angle);
        t.homography[4] = scale * bzi_math_cos(angle);
        t.homography[2] = p.width / 2.0 - (t.homography[0] * o.width + t.homography[1] * o.height) / 2;
        t.homography[5] = p.height / 2.0 - (t.homography[3] * o.width + t.homography[4] * o.height) / 2;
        t.antialias = random_int(0, 2) ? BZNA_ANTIALIAS_AUTO : BZNA_ANTIALIAS_OFF;
        t.brightness = random_int(0, 3) ? 0 : 0.7f;
        t.contrast = random_int(0, 3) ? 0 : 1.5f;
        t.hue = random_int(0, 3) ? 0 : 0.2f;
        if (random_int(0, 1)) {
            t.clip[0] = t.clip[4] = 1;
            t.clip[1] = random_real(-0.4, 0.4);
            t.clip_size[0] = random_real(1, EDGE);
            t.clip_size[1] = random_real(1, EDGE);
        }
        REQUIRE(bzi_slot_make(&slot, &p, &t, o.channels, &err) == BZNA_OK);
        memset(pixels_a, 9, sizeof pixels_a);
        memset(pixels_b, 9, sizeof pixels_b);
        uint64_t sums[2] = { 0, 0 };
        slot.sums = (uint64_t)(uintptr_t)sums;
        slot.dst = (uint64_t)(uintptr_t)pixels_a;
        turned += !bzi_kernel_is_separable(slot.h) && bzi_kernel_warp_bytes(&slot, &out) > 0;
        CHECK(bzi_kernel_warp_bytes(&slot, &out) <= sizeof workspace);
        bzi_kernel_warp(&slot, &out, workspace, sizeof workspace);
        slot.dst = (uint64_t)(uintptr_t)pixels_b;
        bzi_kernel_warp(&slot, &out, NULL, 0);
        if (memcmp(pixels_a, pixels_b, sizeof pixels_a)) {
            printf("  round %d: %ux%u to %ux%u, dtype %u, layout %u, channels %u, scale %g, flags %u\n", round, p.width,
                   p.height, o.width, o.height, o.dtype, o.layout, o.channels, scale, slot.flags);
            CHECK(!"equal");
            return;
        }
    }
    CHECK(turned > ROUNDS(500, 80) || !bzi_kernel_has_vectors());
}

/* What one operation makes of a sample of a picture of 16 x 16, which runs from 0 to 255 in all channels. */
static uint8_t ramp_at(bzna_drawn d, uint32_t value)
{
    static uint8_t ramp[3 * 256], made[3 * 256];
    const bzna_picture p = picture_of(ramp, 16, 16);
    bzna_transform t;
    for (int i = 0; i < 3 * 256; i++)
        ramp[i] = (uint8_t)i;
    bzna_transform_init(&t, sizeof t);
    t.operation_count = 1;
    t.operations[0] = d;
    render_bytes(&p, &t, made);
    return made[value];
}

TEST(operations_have_their_formulas)
{
    static const struct { uint32_t kind; float magnitude; uint32_t value, result; } known[] = {
        { BZNA_OP_IDENTITY, 0, 77, 77 },           { BZNA_OP_BRIGHTNESS, 0.5f, 101, 151 },
        { BZNA_OP_BRIGHTNESS, -1, 200, 0 },        { BZNA_OP_BRIGHTNESS, 1, 200, 255 },
        { BZNA_OP_CONTRAST, -1, 3, 126 },          { BZNA_OP_CONTRAST, -0.5f, 255, 190 },
        { BZNA_OP_POSTERIZE, 1, 200, 128 },        { BZNA_OP_POSTERIZE, 0, 200, 0 },
        { BZNA_OP_POSTERIZE, 7, 255, 254 },        { BZNA_OP_SOLARIZE, 128, 127, 127 },
        { BZNA_OP_SOLARIZE, 128, 128, 127 },       { BZNA_OP_SOLARIZE_ADD, 60, 127, 187 },
        { BZNA_OP_SOLARIZE_ADD, 60, 128, 128 },    { BZNA_OP_SOLARIZE_ADD, -60, 30, 0 },
        { BZNA_OP_INVERT, 0, 1, 254 },             { BZNA_OP_GAMMA, 1, 128, 128 },
        { BZNA_OP_GAMMA, 2, 128, 64 },             { BZNA_OP_GAMMA, 0.5f, 64, 128 },
        { BZNA_OP_EQUALIZE, 0, 100, 100 },         { BZNA_OP_AUTOCONTRAST, 0, 9, 9 },
        { BZNA_OP_SATURATION, 0.9f, 50, 50 },      { BZNA_OP_HUE, 0.3f, 50, 50 },
    };
    for (size_t i = 0; i < COUNT(known); i++) {
        const uint8_t got = ramp_at((bzna_drawn){ .kind = known[i].kind, .magnitude = known[i].magnitude },
                                    known[i].value);
        if (got != known[i].result)
            printf("  operation %u of %g\n", known[i].kind, (double)known[i].magnitude);
        CHECK_EQ(got, known[i].result);
    }
    CHECK_EQ(ramp_at((bzna_drawn){ .kind = BZNA_OP_LIGHTING, .value = { 10.4f, 0, 0 } }, 20), 30);
    CHECK_EQ(ramp_at((bzna_drawn){ .kind = BZNA_OP_LIGHTING, .value = { 10.5f, 0, 0 } }, 20), 31);
}

TEST(a_division_by_26_is_a_product)
{
    for (uint32_t nine = 0; nine <= 9 * 255; nine++)
        for (uint32_t middle = 0; middle < 256; middle += 5)
            if (bzi_kernel_smooth(nine, middle) != (2 * (nine + 4 * middle) + 13) / 26) {
                CHECK_EQ(nine, middle);
                return;
            }
}

TEST(noise_has_mean_0_and_deviation_1)
{
    const uint32_t key[2] = { 1, 2 };
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < 100000; i++) {
        float n[3];
        bzi_kernel_noise(key, i % 317, i / 317, n);
        sum += (double)n[i % 3];
        squares += (double)n[i % 3] * (double)n[i % 3];
    }
    CHECK_NEAR(sum / 1e5, 0, 0.015);
    CHECK_NEAR(squares / 1e5, 1, 0.02);
}

/* ---- Drawing ----------------------------------------------------------------------------------------------------- */

static bzna_transform draw(const bzna_loader_augment *a, uint64_t sample, uint32_t width, uint32_t height)
{
    bzna_transform t;
    bzna_random random;
    bzna_error err = { 0 };
    bzna_transform_init(&t, sizeof t);
    bzna_random_init(&random, 3, 0, sample, BZNA_RANDOM_AUGMENT);
    bzna_augment_draw(&random, a, width, height, &t, &err);
    CHECK_STR(err.message, "");
    return t;
}

/* The statistic, of counts that should be equal. */
static double chi_squared(const double *counts, const double *shares, int n)
{
    double total = 0, sum = 0;
    for (int i = 0; i < n; i++)
        total += counts[i];
    for (int i = 0; i < n; i++)
        sum += pow(counts[i] - total * shares[i], 2) / (total * shares[i]);
    return sum;
}

TEST(rand_augment_draws_each_operation_as_often_and_both_signs)
{
    bzna_policy policy;
    const bzna_loader_augment augment = { .policies = &policy, .policy_count = 1 };
    double counts[28] = { 0 }, shares[28];
    REQUIRE(bzna_formats_policy_preset(BZNA_PRESET_RAND_AUGMENT, 2, 9, &policy, NULL) == BZNA_OK);
    for (uint64_t s = 0; s < 20000; s++) {
        const bzna_transform t = draw(&augment, s, 224, 224);
        CHECK_EQ(t.operation_count, 2);
        for (uint32_t i = 0; i < t.operation_count; i++)
            for (uint32_t k = 0; k < policy.operation_count; k++)
                if (policy.operations[k].kind == t.operations[i].kind) {
                    const bzna_operation *o = &policy.operations[k];
                    const double m = o->magnitude[0] + ((double)o->magnitude[1] - o->magnitude[0]) * 9 / 30;
                    const double want = o->kind == BZNA_OP_POSTERIZE ? 7 : m;
                    CHECK_NEAR(fabs((double)t.operations[i].magnitude), want, 1e-5);
                    counts[2 * k + (t.operations[i].magnitude < 0)]++;
                }
    }
    int n = 0;
    for (uint32_t k = 0; k < policy.operation_count; k++)
        for (int sign = 0; sign <= (int)policy.operations[k].sign; sign++) {
            counts[n] = counts[2 * k + (uint32_t)sign];
            shares[n++] = (policy.operations[k].sign ? 0.5 : 1.0) / 14;
        }
    CHECK_EQ(n, 23);
    CHECK(chi_squared(counts, shares, n) < 48.3);           /* 22 degrees of freedom, 0.1 % */
}

TEST(trivial_augment_draws_every_magnitude_and_auto_augment_its_pairs)
{
    bzna_policy policy;
    const bzna_loader_augment augment = { .policies = &policy, .policy_count = 1 };
    double bins[31] = { 0 }, shares[31], pairs[2] = { 0 };
    REQUIRE(bzna_formats_policy_preset(BZNA_PRESET_TRIVIAL_WIDE, 0, 0, &policy, NULL) == BZNA_OK);
    for (uint64_t s = 0; s < 40000; s++) {
        const bzna_transform t = draw(&augment, s, 224, 224);
        CHECK_EQ(t.operation_count, 1);
        if (t.operations[0].kind == BZNA_OP_ROTATE || t.operations[0].kind == BZNA_OP_SOLARIZE) {
            const double share = t.operations[0].kind == BZNA_OP_ROTATE ?
                                 fabs((double)t.operations[0].magnitude) / 135 :
                                 1 - (double)t.operations[0].magnitude / 255;
            bins[(int)(share * 30 + 0.5)]++;
        }
    }
    for (int i = 0; i < 31; i++)
        shares[i] = 1.0 / 31;
    CHECK(chi_squared(bins, shares, 31) < 59.7);            /* 30, 0.1 % */

    REQUIRE(bzna_formats_policy_preset(BZNA_PRESET_AUTO_IMAGENET, 0, 0, &policy, NULL) == BZNA_OK);
    CHECK_EQ(policy.operation_count, 50);
    for (uint64_t s = 0; s < 20000; s++) {
        const bzna_transform t = draw(&augment, s, 224, 224);
        CHECK(t.operation_count <= 2);
        for (uint32_t i = 0; i < t.operation_count; i++) {
            pairs[0] += t.operations[i].kind == BZNA_OP_SHEAR_X;      /* one pair of 25, 0.6 */
            pairs[1] += t.operations[i].kind == BZNA_OP_AUTOCONTRAST; /* two, 0.6 */
        }
    }
    CHECK_NEAR(pairs[0], 20000 * 0.6 / 25, 4 * sqrt(480));
    CHECK_NEAR(pairs[1], 20000 * 1.2 / 25, 4 * sqrt(960));
}

TEST(a_shuffle_draws_every_order_and_a_probability_is_met)
{
    static const bzna_operation operations[] = {
        { .kind = BZNA_OP_BRIGHTNESS, .magnitude = { -0.4f, 0.4f } },
        { .kind = BZNA_OP_CONTRAST, .magnitude = { -0.4f, 0.4f } },
        { .kind = BZNA_OP_SATURATION, .magnitude = { -0.4f, 0.4f } },
        { .kind = BZNA_OP_HUE, .magnitude = { -0.1f, 0.1f }, .probability = 0.5f },
    };
    const bzna_policy policy = { .operations = operations, .operation_count = 4, .apply = BZNA_POLICY_SHUFFLE,
                                 .probability = 0.8f };
    const bzna_loader_augment augment = { .policies = &policy, .policy_count = 1 };
    double orders[6] = { 0 }, shares[6], none = 0, hues = 0, low = 1, high = -1;
    for (uint64_t s = 0; s < 20000; s++) {
        const bzna_transform t = draw(&augment, s, 10, 10);
        int seen[3], n = 0;
        none += t.operation_count == 0;
        for (uint32_t i = 0; i < t.operation_count; i++) {
            hues += t.operations[i].kind == BZNA_OP_HUE;
            if (t.operations[i].kind != BZNA_OP_HUE)
                seen[n++] = (int)(t.operations[i].kind - BZNA_OP_BRIGHTNESS);
            if (t.operations[i].kind == BZNA_OP_BRIGHTNESS) {
                low = fmin(low, (double)t.operations[i].magnitude);
                high = fmax(high, (double)t.operations[i].magnitude);
            }
        }
        if (n == 3)
            orders[seen[0] * 2 + (seen[1] > seen[2])]++;
    }
    for (int i = 0; i < 6; i++)
        shares[i] = 1.0 / 6;
    CHECK(chi_squared(orders, shares, 6) < 20.5);           /* 5, 0.1 % */
    CHECK_NEAR(none, 4000, 4 * sqrt(3200));
    CHECK_NEAR(hues, 8000, 4 * sqrt(4800));
    CHECK(low > -0.4001 && low < -0.399 && high < 0.4001 && high > 0.399);
}

TEST(rectangles_follow_their_laws_and_stay_inside)
{
    static const bzna_operation operations[] = {
        { .kind = BZNA_OP_ERASE, .magnitude = { 0.02f, 0.33f }, .noise = 1, .value_space = BZNA_FILL_OUTPUT },
        { .kind = BZNA_OP_CUTOUT, .magnitude = { 0.5f, 0.5f } },
        { .kind = BZNA_OP_GRID_MASK, .magnitude = { 0.2f, 0.4f }, .ratio = { 0.6f, 0 } },
    };
    const bzna_policy policy = { .operations = operations, .operation_count = 3 };
    const bzna_loader_augment augment = { .policies = &policy, .policy_count = 1 };
    double area = 0, ratio = 0, cut = 0, keys = 0;
    int n = 0;
    for (uint64_t s = 0; s < 8000; s++) {
        const bzna_transform t = draw(&augment, s, 200, 160);
        CHECK_EQ(t.operation_count, 3);
        for (int i = 0; i < 3; i++) {
            const int32_t *a = t.operations[i].area;
            CHECK(a[0] >= 0 && a[1] >= 0 && a[2] <= 200 && a[3] <= 160);
        }
        const int32_t *e = t.operations[0].area, *c = t.operations[1].area, *g = t.operations[2].area;
        if (e[2]) {
            area += (double)(e[2] - e[0]) * (e[3] - e[1]) / 200 / 160;
            ratio += log((double)(e[3] - e[1]) / (e[2] - e[0]));
            n++;
        }
        cut += (c[2] - c[0]) * (double)(c[3] - c[1]);
        keys += t.operations[0].key[0] / 4294967296.0;
        CHECK(g[2] >= 32 && g[2] <= 64 && g[0] < g[2] && g[1] < g[2] && abs(g[3] * 10 - g[2] * 6) <= 5);
    }
    CHECK(n > 7990);
    CHECK_NEAR(area / n, 0.175, 0.003);                     /* the uniform mean of 0.02..0.33 */
    CHECK_NEAR(ratio / n, (log(0.3) + log(3.3)) / 2, 0.04);
    CHECK_NEAR(cut / 8000, 80 * (1 - 0.1) * 80 * (1 - 0.125), 60);   /* a quarter of an edge is lost at each end */
    CHECK_NEAR(keys / 8000, 0.5, 0.02);
}

TEST(bad_policies_are_refused_by_the_name_of_their_member)
{
    static const bzna_operation good = { .kind = BZNA_OP_SHEAR_X, .magnitude = { 0, 0.3f }, .sign = 1 };
    static const struct { const char *text; bzna_operation o; bzna_policy p; } bad[] = {
        { "kind", { .kind = 8 }, { 0 } },
        { "kind", { .kind = 51 }, { 0 } },
        { "sign", { .kind = BZNA_OP_ROTATE, .sign = 2 }, { 0 } },
        { "sign", { .kind = BZNA_OP_INVERT, .sign = 1 }, { 0 } },
        { "probability", { .kind = BZNA_OP_INVERT, .probability = 1.5f }, { 0 } },
        { "probability", { .kind = BZNA_OP_INVERT, .probability = NAN }, { 0 } },
        { "magnitude", { .kind = BZNA_OP_HUE, .magnitude = { 0, 0.6f } }, { 0 } },
        { "magnitude", { .kind = BZNA_OP_POSTERIZE, .magnitude = { 4, 8 }, .sign = 1 }, { 0 } },
        { "magnitude", { .kind = BZNA_OP_GAMMA }, { 0 } },
        { "magnitude", { .kind = BZNA_OP_BLUR }, { 0 } },
        { "magnitude", { .kind = BZNA_OP_ERASE, .magnitude = { 0.1f, INFINITY } }, { 0 } },
        { "kernel_px", { .kind = BZNA_OP_BLUR, .magnitude = { 1, 1 }, .kernel_px = 4 }, { 0 } },
        { "kernel_px", { .kind = BZNA_OP_BLUR, .magnitude = { 1, 1 }, .kernel_px = 65 }, { 0 } },
        { "kernel_px", { .kind = BZNA_OP_INVERT, .kernel_px = 3 }, { 0 } },
        { "ratio", { .kind = BZNA_OP_ERASE, .magnitude = { 0.1f, 0.2f }, .ratio = { 2, 1 } }, { 0 } },
        { "ratio", { .kind = BZNA_OP_GRID_MASK, .magnitude = { 0.1f, 0.2f }, .ratio = { 2, 0 } }, { 0 } },
        { "value", { .kind = BZNA_OP_INVERT, .value = { 1, 0, 0 } }, { 0 } },
        { "value_space", { .kind = BZNA_OP_CUTOUT, .magnitude = { 0.1f, 0.2f }, .value_space = 2 }, { 0 } },
        { "noise", { .kind = BZNA_OP_CUTOUT, .magnitude = { 0.1f, 0.2f }, .noise = 1 }, { 0 } },
        { "operations[0].reserved0", { .kind = BZNA_OP_INVERT, .reserved0 = 1 }, { 0 } },
        { "operations[0].reserved[3]", { .kind = BZNA_OP_INVERT, .reserved = { [3] = 1 } }, { 0 } },
        { "group_size", { .kind = BZNA_OP_INVERT }, { .group_size = 2 } },
        { "apply", { .kind = BZNA_OP_INVERT }, { .apply = 3 } },
        { "draws", { .kind = BZNA_OP_INVERT }, { .draws = 1 } },
        { "draws", { .kind = BZNA_OP_INVERT }, { .apply = BZNA_POLICY_SHUFFLE, .draws = 2 } },
        { "bins", { .kind = BZNA_OP_INVERT }, { .bins = 1 } },
        { "bin", { .kind = BZNA_OP_INVERT }, { .bins = 31, .bin = { 0, 31 } } },
        { "bin", { .kind = BZNA_OP_INVERT }, { .bins = 31, .bin = { 3, 2 } } },
        { "probability", { .kind = BZNA_OP_INVERT }, { .probability = -1 } },
        { "policies[0].reserved[0]", { .kind = BZNA_OP_INVERT }, { .reserved = { 1 } } },
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        bzna_policy p = bad[i].p;
        const bzna_loader_augment a = { .policies = &p, .policy_count = 1 };
        char name[64];
        bzna_error err = { 0 };
        p.operations = &bad[i].o;
        p.operation_count = 1;
        CHECK_EQ(bzi_augment_check(&a, "augment", 1, &err), strstr(bad[i].text, "reserved") ? BZNA_E_STRUCT_SIZE :
                                                                                              BZNA_E_ARGUMENT);
        snprintf(name, sizeof name, ".%s: ", bad[i].text);
        CHECK_CONTAINS(err.message, name);
    }
    const bzna_operation ratio = { .kind = BZNA_OP_ERASE, .magnitude = { 0.1f, 0.2f }, .ratio = { 0.5f, 2 } };
    const bzna_policy with_ratio = { .operations = &ratio, .operation_count = 1 };
    const bzna_loader_augment erases = { .policies = &with_ratio, .policy_count = 1 };
    const bzna_policy policy = { .operations = &good, .operation_count = 1 };
    bzna_loader_augment a = { .policies = &policy, .policy_count = 1 };
    bzna_error err = { 0 };
    CHECK_EQ(bzi_augment_check(&erases, "augment", 1, &err), BZNA_OK);
    CHECK_EQ(bzi_augment_check(&a, "augment", 1, &err), BZNA_OK);
    CHECK_EQ(bzi_augment_check(&a, "augment", 0, &err), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(err.message, "augment.policies[0].operations[0].kind: it moves pixels");
    a.beyond_crop = 2;
    CHECK_EQ(bzi_augment_check(&a, "augment", 1, &err), BZNA_E_ARGUMENT);
    a = (bzna_loader_augment){ .policies = &policy };
    CHECK_EQ(bzi_augment_check(&a, "augment", 1, &err), BZNA_E_ARGUMENT);
    a = (bzna_loader_augment){ .reserved = { 1 } };
    CHECK_EQ(bzi_augment_check(&a, "augment", 1, &err), BZNA_E_STRUCT_SIZE);
}

/* A color is R, G, B, and what is in units of the output is in the order of its channels. */
TEST(what_covers_pixels_has_its_color_in_the_order_of_the_channels)
{
    static const struct { uint32_t channels, space; float wanted[3]; } cases[] = {
        { BZNA_CHANNELS_RGB, BZNA_FILL_RGB, { 10, 40, 90 } },
        { BZNA_CHANNELS_BGR, BZNA_FILL_RGB, { 90, 40, 10 } },
        { BZNA_CHANNELS_RGB, BZNA_FILL_OUTPUT, { 10, 40, 90 } },
        { BZNA_CHANNELS_BGR, BZNA_FILL_OUTPUT, { 10, 40, 90 } } };
    const bzna_transform t = { .scale = { 1, 1, 1 } };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const bzna_drawn d = { .kind = BZNA_OP_CUTOUT, .value = { 10, 40, 90 }, .value_space = cases[i].space };
        bzi_kernel_op op = { .kind = BZNA_OP_CUTOUT };
        bzi_operation_color(&op, &d, &t, cases[i].channels);
        for (int k = 0; k < 3; k++)
            CHECK_EQ(op.a[k], cases[i].wanted[k]);
    }
}

TEST(more_than_eight_operations_are_refused)
{
    static const bzna_operation inverts[9] = {
        { .kind = BZNA_OP_INVERT }, { .kind = BZNA_OP_INVERT }, { .kind = BZNA_OP_INVERT }, { .kind = BZNA_OP_INVERT },
        { .kind = BZNA_OP_INVERT }, { .kind = BZNA_OP_INVERT }, { .kind = BZNA_OP_INVERT }, { .kind = BZNA_OP_INVERT },
        { .kind = BZNA_OP_INVERT },
    };
    bzna_policy policies[2] = { { .operations = inverts, .operation_count = 5 },
                                { .operations = inverts, .operation_count = 9, .apply = BZNA_POLICY_CHOOSE,
                                  .draws = 3 } };
    const bzna_loader_augment a = { .policies = policies, .policy_count = 2 };
    bzna_transform t = draw(&a, 1, 8, 8);
    bzna_random random;
    bzna_error err = { 0 };
    CHECK_EQ(t.operation_count, 8);
    bzna_random_init(&random, 1, 0, 0, BZNA_RANDOM_AUGMENT);
    CHECK_EQ(bzna_augment_draw(&random, &a, 8, 8, &t, &err), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(err.message, "transform has 8 operations");
    policies[1].draws = 4;
    CHECK_EQ(bzi_augment_check(&a, "augment", 1, &err), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(err.message, "may draw 9 operations for a view, and 8 are allowed");
}

/* ---- Loaders ----------------------------------------------------------------------------------------------------- */

#ifdef BENZINA_NO_AVCODEC
#  define NEED_LOADERS() SKIP("built without libavcodec [libavcodec-dev]")
#else
#  define NEED_LOADERS() do { } while (0)
#endif

enum { WIDTH = 48, HEIGHT = 40, PICTURE = 3 * WIDTH * HEIGHT, SAMPLES = 40, OUT = 32, BATCH = 8 };

static uint8_t records[SAMPLES * PICTURE];
static bzna_context *context;
static bzna_dataset *dataset;

static void open_all(void)
{
    bzna_formats_config config;
    bzna_records r;
    if (dataset)
        return;
    for (size_t i = 0; i < sizeof records; i++)
        records[i] = (uint8_t)((i % WIDTH * 3 + i / WIDTH % HEIGHT * 2 + i / PICTURE * 5) ^ (i * 2654435761u >> 29));
    bzna_formats_records_init(&r, sizeof r);
    r.data_type = BZNA_RECORD_UINT8;
    r.channels = 3;
    r.width = WIDTH;
    r.height = HEIGHT;
    bzna_formats_config_init(&config, sizeof config);
    config.records = &r;
    REQUIRE(bzna_context_open(NULL, &context, NULL) == BZNA_OK);
    REQUIRE(bzna_formats_open_memory(context, records, sizeof records, &config, &dataset, NULL) == BZNA_OK);
}

static bzna_policy recipe[2];
static const bzna_operation erase = { .kind = BZNA_OP_ERASE, .probability = 0.5f, .magnitude = { 0.02f, 0.33f },
                                      .noise = 1, .value_space = BZNA_FILL_OUTPUT };

static bzna_loader_config config_of(void)
{
    bzna_loader_config c;
    bzna_formats_policy_preset(BZNA_PRESET_RAND_AUGMENT, 3, 20, &recipe[0], NULL);
    recipe[1] = (bzna_policy){ .operations = &erase, .operation_count = 1 };
    bzna_loader_config_init(&c, sizeof c);
    c.output.batch_size = BATCH;
    c.output.width = c.output.height = OUT;
    c.order.kind = BZNA_ORDER_SHUFFLE;
    c.order.seed = 11;
    c.order.epochs = 2;
    c.warp.kind = BZNA_WARP_RANDOM_RESIZED_CROP;
    c.warp.flip_h = 0.5;
    c.color.mean[0] = c.color.mean[1] = c.color.mean[2] = 120;
    c.color.std[0] = c.color.std[1] = c.color.std[2] = 60;
    c.augment.policies = recipe;
    c.augment.policy_count = 2;
    c.errors.on_error = BZNA_ON_ERROR_STOP;
    c.decode.decoder = BZNA_DECODER_SOFTWARE;
    return c;
}

static bzna_loader *open_loader(const bzna_loader_config *config)
{
    bzna_loader *loader = NULL;
    bzna_error err = { 0 };
    bzna_loader_open(context, dataset, config, &loader, &err);
    CHECK_STR(err.message, "");
    return loader;
}

static bzna_batch *next_batch(bzna_loader *loader, bzna_batch_info *info)
{
    bzna_batch *batch = NULL;
    bzna_error err = { 0 };
    bzna_status status = bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err);
    if (status < 0)
        printf("  %s\n", err.message);
    CHECK(status >= 0);
    if (status == BZNA_OK)
        bzna_batch_get_info(batch, info, sizeof *info, NULL);
    return batch;
}

/* A hash of all pixels, indices and drawn operations that are left of a loader's epochs. */
static uint64_t hash_rest(bzna_loader *loader)
{
    uint64_t hash = BZI_HASH_START;
    bzna_batch_info info;
    bzna_batch *batch;
    while ((batch = next_batch(loader, &info)) != NULL) {
        hash = bzi_hash(hash, info.image.data, (size_t)info.image.bytes);
        hash = bzi_hash(hash, info.indices, info.count * sizeof *info.indices);
        if (info.operation_views) {
            hash = bzi_hash(hash, info.operations,
                            (size_t)info.count * info.operation_views * BZNA_OPERATIONS_MAX * sizeof *info.operations);
            hash = bzi_hash(hash, info.operation_counts, info.count * info.operation_views * sizeof(uint32_t));
        }
        bzna_batch_release(batch);
    }
    return hash;
}

static uint64_t hash_of(const bzna_loader_config *config)
{
    bzna_loader *loader = open_loader(config);
    const uint64_t hash = loader ? hash_rest(loader) : 0;
    bzna_loader_close(loader);
    return hash;
}

TEST(batches_are_the_same_for_any_number_of_threads_and_after_a_reset)
{
    static const uint32_t threads[] = { 2, 5 };
    NEED_LOADERS();
    open_all();
    bzna_loader_config c = config_of();
    c.output.views = 2;
    c.decode.threads = 1;
    const uint64_t once = hash_of(&c);
    for (size_t i = 0; i < COUNT(threads); i++) {
        c.decode.threads = threads[i];
        CHECK(hash_of(&c) == once);
    }
#ifndef TEST_NVDEC
    c.pipeline.no_threads = 1;
    CHECK(hash_of(&c) == once);
    c.pipeline.no_threads = 0;
#endif
    bzna_loader *loader = open_loader(&c);
    bzna_batch_info info;
    bzna_batch_release(next_batch(loader, &info));
    REQUIRE(bzna_loader_reset(loader, 0, NULL) == BZNA_OK);
    CHECK(hash_rest(loader) == once);
    bzna_loader_close(loader);
    c.order.seed++;
    CHECK(hash_of(&c) != once);
}

/* What the public functions make of a sample. */
static bzna_transform transform_of(const bzna_loader_config *c, uint64_t index, uint32_t view)
{
    bzna_transform t;
    bzna_random random;
    bzna_transform_init(&t, sizeof t);
    for (int i = 0; i < 3; i++) {
        t.bias[i] = c->color.mean[i];
        t.scale[i] = 1 / c->color.std[i];
    }
    bzna_random_init(&random, c->order.seed, 0, index, BZNA_RANDOM_WARP);
    bzi_random_fork(&random, view, 0);
    CHECK_EQ(bzna_warp_draw(&random, &c->warp, WIDTH, HEIGHT, OUT, OUT, t.homography, NULL), BZNA_OK);
    bzna_random_init(&random, c->order.seed, 0, index, BZNA_RANDOM_AUGMENT);
    bzi_random_fork(&random, view, 0);
    CHECK_EQ(bzna_augment_draw(&random, &c->augment, OUT, OUT, &t, NULL), BZNA_OK);
    return t;
}

TEST(a_loader_gives_the_bits_of_the_public_functions)
{
    static float expected[3 * OUT * OUT];
    static const uint32_t layouts[] = { BZNA_LAYOUT_NCHW, BZNA_LAYOUT_NHWC };
    int different = 0, drawn = 0;
    NEED_LOADERS();
    open_all();
    for (size_t l = 0; l < COUNT(layouts); l++)
        for (uint32_t beyond = 0; beyond < 2; beyond++) {
            bzna_loader_config c = config_of();
            bzna_batch_info info;
            bzna_batch *batch;
            c.output.layout = layouts[l];
            c.output.channels = beyond ? BZNA_CHANNELS_BGR : BZNA_CHANNELS_RGB;
            c.output.views = 2;
            c.order.epochs = 1;
            c.augment.beyond_crop = beyond;
            bzna_loader *loader = open_loader(&c);
            while (loader && (batch = next_batch(loader, &info)) != NULL) {
                CHECK_EQ(info.operation_views, 2);
                for (uint32_t v = 0; v < 2; v++)
                    for (uint32_t i = 0; i < info.count; i++) {
                        const bzna_picture p = picture_of(records + info.indices[i] * PICTURE, WIDTH, HEIGHT);
                        const bzna_transform t = transform_of(&c, info.indices[i], v);
                        const bzna_output o = { .struct_size = sizeof o, .width = OUT, .height = OUT,
                                                .layout = c.output.layout, .channels = c.output.channels };
                        CHECK_EQ(bzna_picture_render(&p, &t, &o, expected, sizeof expected, NULL), BZNA_OK);
                        different += memcmp((const float *)info.image.data + (v * BATCH + i) * COUNT(expected),
                                            expected, sizeof expected) != 0;
                        CHECK_EQ(info.operation_counts[i * 2 + v], t.operation_count);
                        drawn += (int)t.operation_count;
                        CHECK(!memcmp(&info.operations[(i * 2 + v) * BZNA_OPERATIONS_MAX], t.operations,
                                      t.operation_count * sizeof t.operations[0]));
                    }
                bzna_batch_release(batch);
            }
            bzna_loader_close(loader);
        }
    CHECK_EQ(different, 0);
    CHECK(drawn > 4 * 2 * SAMPLES * 3);
}

TEST(without_operations_pixels_are_as_they_were)
{
    static const bzna_operation nothing = { .kind = BZNA_OP_IDENTITY };
    const bzna_policy identity = { .operations = &nothing, .operation_count = 1 };
    NEED_LOADERS();
    open_all();
    bzna_loader_config c = config_of();
    bzna_batch_info info = { 0 }, other = { 0 };
    c.augment.policies = &identity;
    c.augment.policy_count = 1;
    bzna_loader *some = open_loader(&c);
    memset(&c.augment, 0, sizeof c.augment);
    bzna_loader *none = open_loader(&c);
    bzna_batch *a = next_batch(some, &info), *b = next_batch(none, &other);
    REQUIRE(a && b);
    CHECK(!memcmp(info.image.data, other.image.data, (size_t)info.image.bytes));
    CHECK_EQ(info.operation_counts[3], 1);
    CHECK(!other.operations && !other.operation_counts && !other.operation_views);
    bzna_batch_release(a);
    bzna_batch_release(b);
    bzna_loader_close(some);
    bzna_loader_close(none);
}

TEST(outputs_have_policies_of_their_own_and_masks_follow_what_moves)
{
    static const bzna_operation turn[2] = { { .kind = BZNA_OP_ROTATE, .magnitude = { 40, 40 } },
                                            { .kind = BZNA_OP_INVERT } };
    static const bzna_operation blur = { .kind = BZNA_OP_BLUR, .magnitude = { 2, 2 }, .probability = 0.5f };
    const bzna_policy first = { .operations = turn, .operation_count = 2 };
    const bzna_policy second = { .operations = &blur, .operation_count = 1 };
    const bzna_loader_augment blurs = { .policies = &second, .policy_count = 1 }, none = { 0 };
    const bzna_warp whole = { .kind = BZNA_WARP_CENTER_RESIZED_CROP };
    bzna_loader_output more[4];
    bzna_batch_info info;
    bzna_tensor mask, plain, same;
    int wrong = 0, blurred = 0, outside = 0;
    NEED_LOADERS();
    open_all();
    bzna_loader_config c = config_of();
    c.augment.policies = &first;
    c.augment.policy_count = 1;
    c.color.fill[0] = c.color.fill[1] = c.color.fill[2] = 255;        /* which is 0 when it is inverted */
    c.output.dtype = BZNA_DTYPE_UINT8;
    memset(c.color.mean, 0, sizeof c.color.mean);
    memset(c.color.std, 0, sizeof c.color.std);
    memset(more, 0, sizeof more);
    more[0] = mask_of("mask", "image");
    more[0].palette = BZNA_PALETTE_COLORS;                  /* as the first output, whose picture it is */
    more[1].name = "own";
    more[1].warp = &whole;
    more[1].augment = &blurs;
    more[2].name = "plain";
    more[2].warp = &whole;
    more[2].augment = &none;
    more[3].name = "same";
    more[3].dtype = BZNA_DTYPE_UINT8;
    c.extra_outputs.ptr = more;
    c.extra_outputs.count = 4;
    bzna_loader *loader = open_loader(&c);
    bzna_batch *batch = loader ? next_batch(loader, &info) : NULL;
    REQUIRE(batch);
    CHECK_EQ(info.operation_views, 5);
    CHECK(bzna_batch_tensor(batch, "mask", &mask, sizeof mask, NULL) == BZNA_OK);
    CHECK(bzna_batch_tensor(batch, "plain", &plain, sizeof plain, NULL) == BZNA_OK);
    CHECK(bzna_batch_tensor(batch, "same", &same, sizeof same, NULL) == BZNA_OK);
    CHECK(!memcmp(same.data, info.image.data, (size_t)same.bytes));
    for (uint32_t i = 0; i < BATCH; i++) {
        static const uint32_t counts[5] = { 2, 0, 2, 0, 2 };          /* [2] is that of the blur, at most 1 */
        for (uint32_t v = 0; v < 5; v++)
            if (v != 2)
                CHECK_EQ(info.operation_counts[i * 5 + v], counts[v]);
        blurred += (int)info.operation_counts[i * 5 + 2];
        for (uint32_t k = 0; k < OUT * OUT; k++) {
            const uint8_t *image = (const uint8_t *)info.image.data + i * 3 * OUT * OUT + k;
            const int is_out = !image[0] && !image[OUT * OUT] && !image[2 * OUT * OUT];
            wrong += is_out && ((const uint8_t *)mask.data)[i * OUT * OUT + k];
            outside += is_out;
        }
    }
    CHECK_EQ(wrong, 0);
    CHECK(outside > BATCH * OUT * OUT / 20 && outside < BATCH * OUT * OUT / 2);
    CHECK(blurred > 0 && blurred < BATCH);
    bzna_batch_release(batch);
    bzna_loader_close(loader);

    more[3].augment = &c.augment;                           /* which moves pixels */
    bzna_error err = { 0 };
    CHECK_EQ(bzna_loader_open(context, dataset, &c, &loader, &err), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(err.message, "loader_config.extra_outputs[3].augment.policies[0].operations[0].kind: it moves");
    c = config_of();
    c.output.augment = &none;
    CHECK_EQ(bzna_loader_open(context, dataset, &c, &loader, &err), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(err.message, "output.augment: is only for extra_outputs");
}

TEST(a_state_of_a_run_with_other_policies_is_refused)
{
    bzna_loader_state state;
    NEED_LOADERS();
    open_all();
    bzna_loader_config c = config_of();
    bzna_loader *loader = open_loader(&c);
    bzna_batch_info info;
    bzna_error err = { 0 };
    bzna_batch_release(next_batch(loader, &info));
    REQUIRE(bzna_loader_save(loader, &state, sizeof state, NULL) == BZNA_OK);
    const uint64_t rest = hash_rest(loader);
    bzna_loader_close(loader);
    loader = open_loader(&c);
    CHECK_EQ(bzna_loader_restore(loader, &state, &err), BZNA_OK);
    CHECK(hash_rest(loader) == rest);
    bzna_loader_close(loader);
    recipe[0].bin[0] = recipe[0].bin[1] = 21;
    loader = open_loader(&c);
    CHECK_EQ(bzna_loader_restore(loader, &state, &err), BZNA_E_ARGUMENT);
    bzna_loader_close(loader);
}

/* An output without policies of its own has the operations that were drawn for the first one, or draws them anew. */
TEST(a_state_tells_whether_an_output_has_policies_of_its_own)
{
    static const bzna_operation inverts = { .kind = BZNA_OP_INVERT, .probability = 0.5f };
    static const bzna_policy policy = { .operations = &inverts, .operation_count = 1 };
    static const bzna_loader_augment same = { .policies = &policy, .policy_count = 1 };
    bzna_loader_output more = { .name = "more" };
    bzna_loader_state states[2];
    NEED_LOADERS();
    open_all();
    bzna_loader_config c = config_of();
    c.augment = same;
    c.extra_outputs.ptr = &more;
    c.extra_outputs.count = 1;
    for (int own = 0; own < 2; own++) {
        more.augment = own ? &same : NULL;
        bzna_loader *loader = open_loader(&c);
        REQUIRE(loader && bzna_loader_save(loader, &states[own], sizeof states[own], NULL) == BZNA_OK);
        bzna_loader_close(loader);
    }
    for (int own = 0; own < 2; own++) {
        more.augment = own ? &same : NULL;
        bzna_loader *loader = open_loader(&c);
        bzna_error err = { 0 };
        CHECK_EQ(bzna_loader_restore(loader, &states[own], &err), BZNA_OK);
        CHECK_EQ(bzna_loader_restore(loader, &states[!own], &err), BZNA_E_ARGUMENT);
        CHECK_CONTAINS(err.message, "state.pixels");
        bzna_loader_close(loader);
    }
}

/* Inverts what has an even index, whatever was drawn; user: how many operations it was given. */
static bzna_status only_invert(void *user, const bzna_sample_info *sample, bzna_random *random, bzna_transform *t)
{
    (void)random;
    atomic_fetch_add((atomic_uint *)user, t->operation_count);
    if (sample->index == 5)
        t->operation_count = 9;
    else if (sample->index % 2 == 0) {
        t->operation_count = 1;
        t->operations[0] = (bzna_drawn){ .kind = BZNA_OP_BLUR, .magnitude = 1 };
    }
    return BZNA_OK;
}

TEST(a_transform_callback_sees_operations_and_changes_them)
{
    atomic_uint given = 0;
    bzna_batch_info info;
    int blurs = 0;
    NEED_LOADERS();
    open_all();
    bzna_loader_config c = config_of();
    c.pipeline.transform = only_invert;
    c.pipeline.transform_user = &given;
    c.errors.on_error = BZNA_ON_ERROR_FILL;
    c.errors.on_callback_error = BZNA_ON_CALLBACK_ERROR_SAMPLE;
    c.order.kind = BZNA_ORDER_SEQUENTIAL;
    bzna_loader *loader = open_loader(&c);
    bzna_batch *batch = next_batch(loader, &info);
    REQUIRE(batch);
    for (uint32_t i = 0; i < BATCH; i += 2)
        blurs += info.operation_counts[i] == 1 && info.operations[i * BZNA_OPERATIONS_MAX].kind == BZNA_OP_BLUR;
    CHECK_EQ(blurs, BATCH / 2);
    CHECK_EQ(info.status[5], BZNA_E_CALLBACK);
    CHECK_EQ(info.operation_counts[5], 0);
    CHECK_EQ(info.failed, 1);
    CHECK(atomic_load(&given) >= 3 * BATCH);
    bzna_batch_release(batch);
    bzna_loader_close(loader);
}

#if defined(TEST_NVDEC) && TEST_NVDEC == 2
/* Runs a loader on the device. Returns the scratch memory that it made for a view; opening, running: how often memory
 * was allocated meanwhile. */
static uint64_t scratch_of(const bzna_loader_config *c, long long *opening, long long *running)
{
    fake_control *control = fake_load()->control;
    const long long before = control->calls[FAKE_cuMemAlloc_v2];
    bzna_loader *loader = open_loader(c);
    const long long opened = control->calls[FAKE_cuMemAlloc_v2];
    CHECK(loader);
    if (!loader)
        return 0;
    const uint64_t bytes = loader->setup.view_scratch;
    CHECK_EQ(loader->setup.scratch_bytes, loader->setup.lanes * (256 + 8 * bytes));
    hash_rest(loader);
    *opening = opened - before;
    *running = control->calls[FAKE_cuMemAlloc_v2] - opened;
    bzna_loader_close(loader);
    return bytes;
}

TEST(device_memory_for_operations_is_allocated_when_a_loader_opens_and_bounded)
{
    static const bzna_operation equalize = { .kind = BZNA_OP_EQUALIZE };
    static const bzna_policy counts = { .operations = &equalize, .operation_count = 1 };
    const bzna_loader_augment own = { .policies = &counts, .policy_count = 1 };
    bzna_loader_output larger = { .name = "larger", .width = 2 * OUT, .height = 3 * OUT };
    const bzi_kernel_output out = { .width = OUT, .height = OUT }, large = { .width = 2 * OUT, .height = 3 * OUT };
    long long opening[6] = { 0 }, running[6] = { 0 };
    atomic_uint given = 0;
    uint64_t bytes[6];
    NEED_LOADERS();
    open_all();
    bzna_loader_config c = config_of();
    c.decode.threads = 1;
    c.augment = (bzna_loader_augment){ 0 };
    bytes[0] = scratch_of(&c, &opening[0], &running[0]);                  /* no operations */
    c.color.jitter.contrast[0] = 0.5f;
    c.color.jitter.contrast[1] = 1.5f;
    bytes[1] = scratch_of(&c, &opening[1], &running[1]);                  /* a mean of lumas */
    c.augment.policies = &recipe[1];
    c.augment.policy_count = 1;
    bytes[2] = scratch_of(&c, &opening[2], &running[2]);                  /* erasing, which is done in the batch */
    c.augment.policies = recipe;
    c.augment.policy_count = 2;
    bytes[3] = scratch_of(&c, &opening[3], &running[3]);
    c.augment = (bzna_loader_augment){ 0 };
    c.pipeline.transform = only_invert;
    c.pipeline.transform_user = &given;
    c.errors.on_error = BZNA_ON_ERROR_FILL;
    c.errors.on_callback_error = BZNA_ON_CALLBACK_ERROR_SAMPLE;
    bytes[4] = scratch_of(&c, &opening[4], &running[4]);                  /* whatever a callback says */
    c.pipeline.transform = NULL;
    larger.augment = &own;
    c.extra_outputs.ptr = &larger;
    c.extra_outputs.count = 1;
    bytes[5] = scratch_of(&c, &opening[5], &running[5]);                  /* another output's */
    for (int i = 0; i < 6; i++) {
        CHECK_EQ(opening[i] + running[i], opening[0] + running[0]);
        CHECK(running[i] <= 1);                             /* the worker's, for its pictures, perhaps made before */
        CHECK_EQ(bytes[i], i < 3 ? 0 : bzi_scratch_bytes(i < 5 ? &out : &large));
    }
    CHECK(bytes[5] <= (2 * 3 + 6) * 2 * OUT * 3 * OUT + 2 * 3072 + 4096); /* two images, a blur's lines, little else */
}

/* Gives samples of an even index an operation; user: its kind. */
static bzna_status every_second(void *user, const bzna_sample_info *sample, bzna_random *random, bzna_transform *t)
{
    (void)random;
    t->operation_count = sample->index % 2 == 0;
    t->operations[0] = (bzna_drawn){ .kind = *(const uint32_t *)user, .magnitude = 1, .area = { 0, 0, 9, 9 } };
    return BZNA_OK;
}

TEST(samples_have_no_part_in_launches_of_operations_that_others_drew)
{
    /* tally, table, finish; sharpen, finish; rows and columns, finish; mix, finish; table, finish; cover */
    static const struct { uint32_t kind, passes; } known[] = {
        { BZNA_OP_EQUALIZE, 3 }, { BZNA_OP_CONTRAST, 3 }, { BZNA_OP_SHARPNESS, 2 }, { BZNA_OP_BLUR, 3 },
        { BZNA_OP_GRAYSCALE, 2 }, { BZNA_OP_BRIGHTNESS, 2 }, { BZNA_OP_ERASE, 1 }
    };
    fake_control *control = fake_load()->control;
    NEED_LOADERS();
    open_all();
    for (size_t i = 0; i < COUNT(known); i++) {
        uint32_t kind = known[i].kind;
        bzna_loader_config c = config_of();
        c.augment = (bzna_loader_augment){ 0 };
        c.pipeline.transform = every_second;
        c.pipeline.transform_user = &kind;
        c.order.epochs = 1;
        const long long before = control->slots;
        hash_of(&c);
        CHECK_EQ(control->slots - before, SAMPLES + SAMPLES / 2 * known[i].passes);
    }
}
#  define RUN_ON_DEVICE                                                                   \
    RUN(device_memory_for_operations_is_allocated_when_a_loader_opens_and_bounded)        \
    RUN(samples_have_no_part_in_launches_of_operations_that_others_drew)
#else
#  define RUN_ON_DEVICE
#endif

TEST(what_a_translation_brings_in_is_fill_or_the_picture)
{
    static const bzna_operation right = { .kind = BZNA_OP_TRANSLATE_X_PX, .magnitude = { 8, 8 } };
    const bzna_policy policy = { .operations = &right, .operation_count = 1 };
    bzna_loader_augment a = { .policies = &policy, .policy_count = 1 };
    static uint8_t moved[PICTURE];
    open_all();
    for (a.beyond_crop = 0; a.beyond_crop < 2; a.beyond_crop++) {
        const bzna_picture p = picture_of(records, WIDTH, HEIGHT);
        bzna_transform t = draw(&a, 0, WIDTH, HEIGHT);
        int wrong = 0;
        t.homography[2] += 8;                               /* a crop that begins 8 pixels inside */
        t.fill[0] = 99;
        render_bytes(&p, &t, moved);
        for (uint32_t i = 0; i < WIDTH * HEIGHT; i++)
            wrong += moved[i] != (i % WIDTH < 8 && !a.beyond_crop ? 99 : records[i]);
        CHECK_EQ(wrong, 0);
    }
}

static void close_all(void)
{
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    dataset = NULL;
    context = NULL;
}

TEST(all_is_given_back)
{
    close_all();
}

TEST_MAIN(
    RUN(vectors_give_the_bits_of_the_functions_of_a_gpu_thread)
    RUN(rows_that_turn_or_shear_give_the_bits_of_the_plain_loop)
    RUN(operations_have_their_formulas)
    RUN(a_division_by_26_is_a_product)
    RUN(noise_has_mean_0_and_deviation_1)
    RUN(rand_augment_draws_each_operation_as_often_and_both_signs)
    RUN(trivial_augment_draws_every_magnitude_and_auto_augment_its_pairs)
    RUN(a_shuffle_draws_every_order_and_a_probability_is_met)
    RUN(rectangles_follow_their_laws_and_stay_inside)
    RUN(bad_policies_are_refused_by_the_name_of_their_member)
    RUN(what_covers_pixels_has_its_color_in_the_order_of_the_channels) RUN(more_than_eight_operations_are_refused)
    RUN(batches_are_the_same_for_any_number_of_threads_and_after_a_reset)
    RUN(a_loader_gives_the_bits_of_the_public_functions)
    RUN(without_operations_pixels_are_as_they_were)
    RUN(outputs_have_policies_of_their_own_and_masks_follow_what_moves)
    RUN(a_state_of_a_run_with_other_policies_is_refused)
    RUN(a_state_tells_whether_an_output_has_policies_of_its_own)
    RUN(a_transform_callback_sees_operations_and_changes_them)
    RUN_ON_DEVICE
    RUN(what_a_translation_brings_in_is_fill_or_the_picture)
    RUN(all_is_given_back)
)
#endif
