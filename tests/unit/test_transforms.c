/* test_transforms.c - parameters and random numbers to homographies; color descriptions to colors. The oracle
 * multiplies the published matrices out one by one and draws in the documented order; the draws are then tested
 * on their distributions, which no code here repeats. */
#include "library.h"
#include "test.h"
#include "colors.h"
#include "geometry.h"
#include "mxnet_crops.h"

/* ---- Oracles ----------------------------------------------------------------------------------------------------- */

static void multiply(const double a[9], const double b[9], double out[9])
{
    double c[9];
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            c[i * 3 + j] = a[i * 3] * b[j] + a[i * 3 + 1] * b[3 + j] + a[i * 3 + 2] * b[6 + j];
    memcpy(out, c, sizeof c);
}

/* The parameters of the original's compute_affine_matrix. */
typedef struct affine {
    uint32_t in_width, in_height, out_width, out_height, has_crop;
    double   crop_x, crop_y, crop_width, crop_height, degrees, translate_x, translate_y;
    uint32_t flip_h, flip_v, resize, keep_ratio;
} affine;

/* T_in * T_crop * R * S * T_out, factor by factor. */
static void oracle_affine(const affine *a, double h[9])
{
    double r = a->degrees * acos(-1) / 180, cw = a->has_crop ? a->crop_width : a->in_width,
           ch = a->has_crop ? a->crop_height : a->in_height;
    double t_in[9] = {
        a->flip_h ? -1 : 1, 0, (a->in_width - 1.0) / 2, 0, a->flip_v ? -1 : 1, (a->in_height - 1.0) / 2, 0, 0, 1
    };
    double t_crop[9] = { 1, 0, a->has_crop ? a->crop_x : 0, 0, 1, a->has_crop ? a->crop_y : 0, 0, 0, 1 };
    double rotation[9] = { cos(r), -sin(r), 0, sin(r), cos(r), 0, 0, 0, 1 };
    double s[9] = { 1, 0, 0, 0, 1, 0, 0, 0, 1 };
    double t_out[9] = { 1, 0, a->translate_x - (a->out_width - 1.0) / 2,
                        0, 1, a->translate_y - (a->out_height - 1.0) / 2,
                        0, 0, 1 };
    if (a->resize) {
        double x0 = rotation[0] * -cw / 2 + rotation[1] * -ch / 2, y0 = rotation[3] * -cw / 2 + rotation[4] * -ch / 2;
        double x1 = rotation[0] * cw / 2 + rotation[1] * ch / 2, y1 = rotation[3] * cw / 2 + rotation[4] * ch / 2;
        s[0] = fabs(x1 - x0) / a->out_width;
        s[4] = fabs(y1 - y0) / a->out_height;
        if (a->keep_ratio)
            s[0] = s[4] = fmin(s[0], s[4]);
    }
    multiply(t_in, t_crop, h);
    multiply(h, rotation, h);
    multiply(h, s, h);
    multiply(h, t_out, h);
}

static double draw(bzna_random *random, double lo, double hi)
{
    return lo < hi ? bzna_random_uniform(random, lo, hi) : lo;
}

static double draw_log(bzna_random *random, double lo, double hi)
{
    return lo < hi ? exp(bzna_random_uniform(random, log(lo), log(hi))) : lo;
}

static uint32_t draw_flip(bzna_random *random, double p)
{
    return p <= 0 ? 0 : p >= 1 ? 1 : bzna_random_uniform(random, 0, 1) < p;
}

/* TRANSFORMS.md's Similarity, with the documented order of draws: s, (ar) up to 10 times, cx, cy, degrees, tx, ty,
 * flip_h, flip_v. */
static void oracle_similarity(bzna_random *random, const bzna_warp *p, uint32_t iw, uint32_t ih, uint32_t ow,
                              uint32_t oh, double h[9])
{
    int resize = p->resize || p->ratio[0] > 0 || p->scale[0] != 1 || p->scale[1] != 1,
        random_crop = p->random_crop != 0;
    affine a = {
        .in_width = iw, .in_height = ih, .out_width = ow, .out_height = oh, .has_crop = 1
    };
    double s = draw_log(random, p->scale[0], p->scale[1]), cw = ow, ch = oh;
    if (p->ratio[0] > 0) {
        int tries = 0, found = 0;
        while (tries++ < 10 && !found) {
            double ar = draw_log(random, p->ratio[0], p->ratio[1]);
            cw = sqrt(s * iw * ih * ar);
            ch = sqrt(s * iw * ih / ar);
            found = cw > 0 && cw <= iw && ch > 0 && ch <= ih;
        }
        if (!found) {
            double in = (double)iw / ih;
            cw = in > p->ratio[1] ? round(ih * p->ratio[1]) : iw;
            ch = in < p->ratio[0] ? round(iw / p->ratio[0]) : ih;
            random_crop = 0;
        }
    } else if (resize) {
        cw = iw * sqrt(s);
        ch = ih * sqrt(s);
    }
    if (random_crop) {
        double mx = fmax(0, (iw - cw) / 2), my = fmax(0, (ih - ch) / 2);
        a.crop_x = draw(random, -mx, mx);
        a.crop_y = draw(random, -my, my);
    }
    a.crop_width = cw;
    a.crop_height = ch;
    a.degrees = draw(random, p->degrees[0], p->degrees[1]);
    a.translate_x = draw(random, -p->translate[0] * ow, p->translate[0] * ow);
    a.translate_y = draw(random, -p->translate[1] * oh, p->translate[1] * oh);
    a.flip_h = draw_flip(random, p->flip_h);
    a.flip_v = draw_flip(random, p->flip_v);
    a.resize = (uint32_t)resize;
    a.keep_ratio = p->keep_ratio;
    oracle_affine(&a, h);
}

static double relative(double actual, double expected) { return fabs(actual - expected) / fmax(1, fabs(expected)); }

static int matrices_agree(const double a[9], const double b[9], double tolerance)
{
    for (int i = 0; i < 9; i++)
        if (!(relative(a[i], b[i]) <= tolerance))
            return 0;
    return 1;
}

static bzna_random stream(uint64_t sample)
{
    bzna_random random;
    bzna_random_init(&random, 4711, 3, sample, BZNA_RANDOM_WARP);
    return random;
}

static uint32_t words_taken(const bzna_random *random) { return random->counter[3] * 4 - (4 - random->used); }

static bzna_warp warp_of(uint32_t kind)
{
    bzna_warp w;
    memset(&w, 0, sizeof w);
    w.kind = kind;
    return w;
}

static bzna_warp similarity(void)
{
    bzna_warp w = warp_of(BZNA_WARP_SIMILARITY);
    w.scale[0] = w.scale[1] = 1;
    return w;
}

/* The crop that an axis-aligned matrix shows, in pixel edges: 0..in_width. */
typedef struct crop {
    double left, right, top, bottom, width, height;
    int    mirrored, upside_down;
} crop;

static crop crop_of(const double h[9], uint32_t ow, uint32_t oh)
{
    double x0 = h[0] * -0.5 + h[2] + 0.5, x1 = h[0] * (ow - 0.5) + h[2] + 0.5, y0 = h[4] * -0.5 + h[5] + 0.5,
           y1 = h[4] * (oh - 0.5) + h[5] + 0.5;
    crop c = { fmin(x0, x1), fmax(x0, x1), fmin(y0, y1), fmax(y0, y1), fabs(x1 - x0), fabs(y1 - y0), x1 < x0, y1 < y0 };
    return c;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Kolmogorov-Smirnov: are n values in 0..1 uniform? 2.2 / sqrt(n) is exceeded by chance once in 8000. */
static void check_uniform(const char *what, double *values, int n)
{
    double worst = 0;
    qsort(values, (size_t)n, sizeof *values, by_value);
    for (int i = 0; i < n; i++)
        worst = fmax(worst, fmax(fabs(values[i] - (double)i / n), fabs(values[i] - (i + 1.0) / n)));
    if (n < 500 || !(worst <= 2.2 / sqrt(n))) {
        test_failures++;
        printf("  %s: %d values differ by %.4f from uniform\n", what, n, worst);
    }
}

/* ---- compute_affine_matrix --------------------------------------------------------------------------------------- */

TEST(the_affine_matrix_is_the_originals)
{
    char line[2048];
    int cases = 0;
    double worst = 0;
    FILE *file = fopen("tests/data/affine.txt", "r");
    REQUIRE(file != NULL);
    while (fgets(line, sizeof line, file)) {
        double v[25], h[9];
        char *at = line;
        int n = 0;
        if (line[0] == '#')
            continue;
        for (; n < 25; n++) {
            char *end;
            v[n] = strtod(at, &end);
            if (end == at)
                break;
            at = end;
        }
        if (n == 0)
            continue;
        CHECK_EQ(n, 25);
        const affine a = { (uint32_t)v[0], (uint32_t)v[1], (uint32_t)v[2], (uint32_t)v[3], (uint32_t)v[4], v[5], v[6],
                           v[7], v[8], v[9], v[10], v[11], (uint32_t)v[12], (uint32_t)v[13], (uint32_t)v[14],
                           (uint32_t)v[15] };
        const bzi_affine own = { .in = { v[0], v[1] },
                                 .out = { v[2], v[3] },
                                 .center = { a.has_crop ? v[5] : 0, a.has_crop ? v[6] : 0 },
                                 .crop = { a.has_crop ? v[7] : v[0], a.has_crop ? v[8] : v[1] },
                                 .shift = { v[10], v[11] },
                                 .degrees = v[9],
                                 .flip = { a.flip_h, a.flip_v },
                                 .resize = a.resize,
                                 .keep_ratio = a.keep_ratio };
        bzi_affine_matrix(&own, h);
        for (int i = 0; i < 9; i++)
            worst = fmax(worst, relative(h[i], v[16 + i]));
        oracle_affine(&a, h);                               /* the oracle of the tests below */
        CHECK(matrices_agree(h, v + 16, 1e-9));
        cases++;
    }
    fclose(file);
    CHECK_EQ(cases, 240);
    CHECK(worst <= 1e-9);
}

TEST(a_larger_struct_is_taken_when_its_tail_is_zero)
{
    struct { bzna_transform known; uint8_t tail[16]; } future;
    const bzna_jitter jitter = { .grayscale = 0 };
    bzna_random random = stream(1);
    memset(&future, 0, sizeof future);
    future.known.struct_size = sizeof future;
    CHECK_EQ(bzna_jitter_draw(&random, &jitter, NULL, &future.known, NULL), BZNA_OK);
    memset(&future, 0, sizeof future);
    future.known.struct_size = sizeof future;
    future.tail[15] = 1;
    CHECK_EQ(bzna_jitter_draw(&random, &jitter, NULL, &future.known, NULL), BZNA_E_STRUCT_SIZE);
}

/* ---- Similarity against the oracle ------------------------------------------------------------------------------- */

TEST(a_similarity_is_drawn_as_documented)
{
    static const uint32_t sizes[][2] = { { 500, 375 }, { 375, 500 }, { 1, 1 },    { 2000, 30 },
                                         { 17, 900 },  { 224, 224 }, { 16384, 1 } };
    int differ = 0, runs = 0;
    for (uint64_t i = 0; i < 20000; i++) {
        bzna_random choice, a, b;
        bzna_warp p = similarity();
        double h[9], expected[9];
        const uint32_t *in = sizes[i % COUNT(sizes)];
        uint32_t out[2];
        bzna_random_init(&choice, 1, 1, i, BZNA_RANDOM_USER);
        out[0] = 1 + bzna_random_u32(&choice) % 300;
        out[1] = 1 + bzna_random_u32(&choice) % 300;
        uint32_t bits = bzna_random_u32(&choice);
        if (bits & 1)
            p.scale[0] = 0.08;
        if (bits & 2)
            p.scale[1] = 1.8;
        if (bits & 4)
            p.ratio[0] = 0.5, p.ratio[1] = bits & 8 ? 0.5 : 2;
        if (bits & 16)
            p.degrees[0] = -40, p.degrees[1] = bits & 32 ? 110 : -40;
        if (bits & 64)
            p.translate[0] = 0.25;
        if (bits & 128)
            p.translate[1] = 1.5;
        p.flip_h = bits & 256 ? 0.5 : bits & 512 ? 1 : 0;
        p.flip_v = bits & 1024 ? 0.25 : 0;
        p.resize = bits >> 11 & 1;
        p.keep_ratio = bits >> 12 & 1;
        p.random_crop = bits >> 13 & 1;
        a = b = stream(i);
        CHECK_EQ(bzna_warp_draw(&a, &p, in[0], in[1], out[0], out[1], h, NULL), BZNA_OK);
        oracle_similarity(&b, &p, in[0], in[1], out[0], out[1], expected);
        differ += !matrices_agree(h, expected, 1e-9) || words_taken(&a) != words_taken(&b);
        runs++;
    }
    CHECK_EQ(differ, 0);
    CHECK_EQ(runs, 20000);
}

TEST(a_range_of_no_width_takes_no_random_number)
{
    bzna_warp p = similarity();
    bzna_random random = stream(1), untouched = random;
    double h[9];
    CHECK_EQ(bzna_warp_draw(&random, &p, 300, 200, 100, 100, h, NULL), BZNA_OK);
    CHECK(!memcmp(&random, &untouched, sizeof random));
    p.scale[0] = p.scale[1] = 0.5;                          /* fixed, but not one */
    p.ratio[0] = p.ratio[1] = 1;
    p.degrees[0] = p.degrees[1] = 30;
    p.flip_h = 1;
    CHECK_EQ(bzna_warp_draw(&random, &p, 300, 200, 100, 100, h, NULL), BZNA_OK);
    CHECK(!memcmp(&random, &untouched, sizeof random));
    p = similarity();
    p.random_crop = 1;                                      /* nowhere to go: the output is larger than the input */
    CHECK_EQ(bzna_warp_draw(&random, &p, 300, 200, 300, 400, h, NULL), BZNA_OK);
    CHECK(!memcmp(&random, &untouched, sizeof random));
    p = warp_of(BZNA_WARP_CENTER_RESIZED_CROP);
    p.scale[0] = 0.875;
    CHECK_EQ(bzna_warp_draw(&random, &p, 300, 200, 224, 224, h, NULL), BZNA_OK);
    CHECK(!memcmp(&random, &untouched, sizeof random));
}

TEST(each_range_takes_one_number_of_two_words)
{
    for (int field = 0; field < 8; field++) {
        bzna_warp p = similarity();
        bzna_random random = stream(1);
        double h[9];
        int numbers = 1;
        switch (field) {
        case 0: p.scale[0] = 0.5; break;
        case 1: p.ratio[0] = 0.99; p.ratio[1] = 1.01; p.scale[0] = p.scale[1] = 0.25; break;
        case 2: p.degrees[1] = 1; break;
        case 3: p.translate[0] = 0.1; break;
        case 4: p.translate[1] = 0.1; break;
        case 5: p.flip_h = 0.5; break;
        case 6: p.flip_v = 0.5; break;
        case 7: p.random_crop = 1; numbers = 2; break;
        }
        CHECK_EQ(bzna_warp_draw(&random, &p, 100, 100, 50, 50, h, NULL), BZNA_OK);
        CHECK_EQ(words_taken(&random), 2 * numbers);
    }
}

/* ---- How crops are distributed ---------------------------------------------------------------------------------- */

enum { DRAWS = 20000 };
static double first[DRAWS], second[DRAWS], third[DRAWS], fourth[DRAWS];

/* Crops of less than half the area are never refused, whatever the ratio: there the distributions show themselves
 * undisturbed. */
static void check_crop_distribution(uint32_t crops)
{
    bzna_warp p;
    int small = 0, all_inside = 1, whole_pixels = 1, ratio_holds = 1;
    p = warp_of(BZNA_WARP_RANDOM_RESIZED_CROP);
    p.crops = crops;
    for (uint64_t i = 0; i < DRAWS; i++) {
        bzna_random random = stream(i);
        double h[9], area, ratio;
        crop c;
        CHECK_EQ(bzna_warp_draw(&random, &p, 4000, 4000, 224, 224, h, NULL), BZNA_OK);
        c = crop_of(h, 224, 224);
        area = c.width * c.height / 16e6;
        ratio = c.width / c.height;
        all_inside &= c.left >= -1e-6 && c.right <= 4000 + 1e-6 && c.top >= -1e-6 && c.bottom <= 4000 + 1e-6;
        whole_pixels &= fabs(c.left - round(c.left)) < 1e-6 && fabs(c.right - round(c.right)) < 1e-6 &&
                        fabs(c.top - round(c.top)) < 1e-6;
        ratio_holds &= ratio > 0.749 && ratio < 1.335 && area > 0.0799 && area < 1.0001;
        if (area < 0.5) {
            first[small] = crops == BZNA_CROPS_BENZINA ? log(area / 0.08) / log(0.5 / 0.08) :
                                                           (area - 0.08) / (0.5 - 0.08);
            second[small] = log(ratio * 4 / 3) / log(16.0 / 9);
            third[small] = c.left / (4000 - c.width);
            fourth[small] = c.top / (4000 - c.height);
            small++;
        }
    }
    check_uniform("area", first, small);
    check_uniform("ratio", second, small);
    check_uniform("left", third, small);
    check_uniform("top", fourth, small);
    CHECK(all_inside);
    CHECK(ratio_holds);
    CHECK_EQ(whole_pixels, crops == BZNA_CROPS_TORCHVISION);
    /* s is drawn once, so that half the area splits the distribution where it says */
    if (crops == BZNA_CROPS_BENZINA) {
        double share = log(0.5 / 0.08) / log(1 / 0.08);
        CHECK_NEAR((double)small / DRAWS, share, 5 * sqrt(share * (1 - share) / DRAWS));
    } else { /* s is drawn anew after each refusal: P(accept | s) = min(1, -ln s / ln 4/3), integrated over s */
        double accepted = 0, share;
        for (int i = 0; i < 100000; i++)
            accepted += fmin(1, -log(0.08 + 0.92 * (i + 0.5) / 100000) / log(4.0 / 3)) / 100000;
        share = (0.5 - 0.08) / 0.92 / accepted;
        CHECK_NEAR((double)small / DRAWS, share, 5 * sqrt(share * (1 - share) / DRAWS));
    }
}

TEST(the_law_of_benzina_is_log_uniform_in_area_and_ratio)    { check_crop_distribution(BZNA_CROPS_BENZINA); }
TEST(the_law_of_torchvision_is_uniform_in_area_and_rounds)   { check_crop_distribution(BZNA_CROPS_TORCHVISION); }

TEST(crops_stay_inside_pictures_of_any_size)
{
    static const uint32_t sizes[][2] = { { 1, 1 },     { 2, 1 },     { 1, 3 },     { 500, 375 },    { 127, 95 },
                                         { 3000, 11 }, { 11, 3000 }, { 65535, 1 }, { 16384, 16384 } };
    for (uint32_t crops = BZNA_CROPS_BENZINA; crops <= BZNA_CROPS_TORCHVISION; crops++)
        for (size_t s = 0; s < COUNT(sizes); s++)
            for (uint64_t i = 0; i < 2000; i++) {
                bzna_warp p;
                bzna_random random = stream(i);
                double h[9], slack = 1e-9 * sizes[s][0] + 1e-9 * sizes[s][1];
                crop c;
                p = warp_of(BZNA_WARP_RANDOM_RESIZED_CROP);
                p.crops = crops;
                p.flip_h = p.flip_v = 0.5;
                CHECK_EQ(bzna_warp_draw(&random, &p, sizes[s][0], sizes[s][1], 33, 57, h, NULL), BZNA_OK);
                c = crop_of(h, 33, 57);
                CHECK(c.left >= -slack && c.right <= sizes[s][0] + slack && c.top >= -slack &&
                      c.bottom <= sizes[s][1] + slack);
                CHECK(c.width > 0 && c.height > 0);
            }
}

/* A crop may be exactly as wide, or as high, as the picture: it is taken at the first try, and its place on that side,
 * though there is but one, takes a number like any other. What is drawn behind, the flip, would notice. */
TEST(a_crop_as_wide_as_the_picture_is_drawn_like_any_other)
{
    int flipped = 0, moved = 0;
    for (int high = 0; high < 2; high++)
        for (uint64_t i = 0; i < 200; i++) {
            bzna_warp p = warp_of(BZNA_WARP_RANDOM_RESIZED_CROP);
            bzna_random random = stream(i), oracle = random;
            double h[9], across, down, flip;
            uint32_t width = high ? 100 : 200, height = high ? 200 : 100;
            crop c;
            p.scale[0] = p.scale[1] = 0.5;
            p.ratio[0] = p.ratio[1] = high ? 0.25 : 4;      /* 200x50 of 200x100, or the same upright */
            p.flip_h = 0.5;
            CHECK_EQ(bzna_warp_draw(&random, &p, width, height, 20, 20, h, NULL), BZNA_OK);
            across = floor(bzna_random_uniform(&oracle, 0, high ? 51 : 1));
            down = floor(bzna_random_uniform(&oracle, 0, high ? 1 : 51));
            flip = bzna_random_uniform(&oracle, 0, 1);
            c = crop_of(h, 20, 20);
            CHECK_EQ(c.mirrored, flip < 0.5);
            CHECK_NEAR(c.left, flip < 0.5 ? width - across - (high ? 50 : 200) : across, 1e-9);
            CHECK_NEAR(c.top, down, 1e-9);
            CHECK_NEAR(c.width, high ? 50 : 200, 1e-9);
            CHECK_NEAR(c.height, high ? 200 : 50, 1e-9);
            CHECK_EQ(words_taken(&random), words_taken(&oracle));
            flipped += c.mirrored;
            moved += across + down > 0 && across + down < 50;
        }
    CHECK(flipped > 100 && flipped < 300 && moved > 300);
}

TEST(extreme_pictures_get_the_largest_central_crop)
{
    for (uint32_t crops = BZNA_CROPS_BENZINA; crops <= BZNA_CROPS_TORCHVISION; crops++)
        for (uint64_t i = 0; i < 200; i++) {
            bzna_warp p;
            bzna_random random = stream(i);
            double h[9];
            crop c;
            p = warp_of(BZNA_WARP_RANDOM_RESIZED_CROP);
            p.crops = crops;
            /* no crop within 3/4..4/3 has 8% of that area */
            CHECK_EQ(bzna_warp_draw(&random, &p, 1001, 10, 224, 224, h, NULL), BZNA_OK);
            c = crop_of(h, 224, 224);
            CHECK_NEAR(c.width, 13, 1e-9);                                                   /* round(10 * 4/3) */
            CHECK_NEAR(c.height, 10, 1e-9);
            CHECK_NEAR(c.left + c.right, 1001, 1e-6);
            CHECK_EQ(bzna_warp_draw(&random, &p, 10, 1000, 224, 224, h, NULL), BZNA_OK);
            c = crop_of(h, 224, 224);
            CHECK_NEAR(c.width, 10, 1e-9);
            CHECK_NEAR(c.height, 13, 1e-9);                                                  /* round(10 / (3/4)) */
            CHECK_NEAR(c.top + c.bottom, 1000, 1e-6);
        }
}

/* The original switched random crops off for ever after the first fallback. */
TEST(a_fallback_leaves_the_next_sample_alone)
{
    bzna_warp p;
    bzna_random before = stream(5), after = stream(5), other = stream(6);
    double h[9], expected[9];
    p = warp_of(BZNA_WARP_RANDOM_RESIZED_CROP);
    bzna_warp_draw(&before, &p, 500, 375, 224, 224, expected, NULL);
    bzna_warp_draw(&other, &p, 1001, 10, 224, 224, h, NULL);
    bzna_warp_draw(&after, &p, 500, 375, 224, 224, h, NULL);
    CHECK(!memcmp(h, expected, sizeof h));
}

/* Without a ratio there is nothing that a central crop could be cut to: an area above 1 is then the whole picture, not
 * a sliver of it. */
TEST(a_crop_larger_than_the_picture_without_a_ratio_is_no_sliver)
{
    for (uint32_t crops = BZNA_CROPS_BENZINA; crops <= BZNA_CROPS_TORCHVISION; crops++) {
        bzna_warp p = similarity();
        bzna_random random = stream(1);
        double h[9];
        crop c;
        p.crops = crops;
        p.scale[0] = p.scale[1] = 1.5;
        CHECK_EQ(bzna_warp_draw(&random, &p, 300, 200, 60, 40, h, NULL), BZNA_OK);
        c = crop_of(h, 60, 40);
        CHECK(c.width >= 299);
        CHECK(c.height >= 199);
    }
}

TEST(flips_come_with_their_probabilities)
{
    static const double probabilities[] = { 0, 0.1, 0.5, 0.9, 1 };
    for (size_t k = 0; k < COUNT(probabilities); k++) {
        double p_h = probabilities[k], p_v = probabilities[COUNT(probabilities) - 1 - k];
        int across = 0, down = 0, both = 0;
        for (uint64_t i = 0; i < DRAWS; i++) {
            bzna_warp p = similarity();
            bzna_random random = stream(i);
            double h[9];
            p.flip_h = p_h;
            p.flip_v = p_v;
            bzna_warp_draw(&random, &p, 100, 80, 50, 40, h, NULL);
            across += h[0] < 0;
            down += h[4] < 0;
            both += h[0] < 0 && h[4] < 0;
        }
        CHECK_NEAR((double)across / DRAWS, p_h, 5 * sqrt(p_h * (1 - p_h) / DRAWS));
        CHECK_NEAR((double)down / DRAWS, p_v, 5 * sqrt(p_v * (1 - p_v) / DRAWS));
        CHECK_NEAR((double)both / DRAWS, p_h * p_v, 5 * sqrt(p_h * p_v * (1 - p_h * p_v) / DRAWS));
    }
}

TEST(a_flip_mirrors_about_the_middle)
{
    bzna_warp p = similarity();
    bzna_random random = stream(1);
    double plain[9], flipped[9];
    bzna_warp_draw(&random, &p, 101, 80, 33, 40, plain, NULL);
    p.flip_h = p.flip_v = 1;
    bzna_warp_draw(&random, &p, 101, 80, 33, 40, flipped, NULL);
    for (int x = 0; x < 33; x++)
        CHECK_NEAR(flipped[0] * x + flipped[2], 100 - (plain[0] * x + plain[2]), 1e-9);
    for (int y = 0; y < 40; y++)
        CHECK_NEAR(flipped[4] * y + flipped[5], 79 - (plain[4] * y + plain[5]), 1e-9);
}

TEST(rotations_and_shifts_are_uniform_and_turn_about_the_middle)
{
    for (uint64_t i = 0; i < DRAWS; i++) {
        bzna_warp p = similarity();
        bzna_random random = stream(i);
        double h[9], angle, x, y;
        p.degrees[0] = -30;
        p.degrees[1] = 70;
        p.translate[0] = 0.1;
        p.translate[1] = 0.4;
        CHECK_EQ(bzna_warp_draw(&random, &p, 101, 81, 50, 40, h, NULL), BZNA_OK);
        angle = atan2(h[3], h[0]) * 180 / acos(-1);
        CHECK_NEAR(h[0] * h[4] - h[1] * h[3], 1, 1e-9);         /* nothing but a rotation */
        x = h[0] * 24.5 + h[1] * 19.5 + h[2] - 50; /* where the output's middle lands, from the input's middle */
        y = h[3] * 24.5 + h[4] * 19.5 + h[5] - 40;
        first[i] = (angle + 30) / 100;
        second[i] = ((h[0] * x + h[3] * y) / 50 + 0.1) / 0.2;   /* turned back: the shift in output pixels */
        third[i] = ((h[1] * x + h[4] * y) / 40 + 0.4) / 0.8;
    }
    check_uniform("degrees", first, DRAWS);
    check_uniform("translate_x", second, DRAWS);
    check_uniform("translate_y", third, DRAWS);
}

TEST(center_resized_crop_by_the_originals_law_resizes_the_short_edge_to_256_and_crops_224)
{
    static const uint32_t sizes[][2] = { { 500, 375 }, { 375, 500 },  { 256, 256 }, { 1300, 900 },
                                         { 127, 95 },  { 100, 3000 }, { 3000, 100 } };
    bzna_warp p;
    p = warp_of(BZNA_WARP_CENTER_RESIZED_CROP);
    p.crops = BZNA_CROPS_BENZINA;
    p.scale[0] = 224.0 / 256;
    for (size_t s = 0; s < COUNT(sizes); s++) {
        double iw = sizes[s][0], ih = sizes[s][1], shrink = fmin(iw, ih) / 256, rw = iw / shrink, rh = ih / shrink,
               h[9];
        bzna_random random = stream(s);
        CHECK_EQ(bzna_warp_draw(&random, &p, sizes[s][0], sizes[s][1], 224, 224, h, NULL), BZNA_OK);
        for (int corner = 0; corner < 4; corner++) {
            double x = corner & 1 ? 223 : 0, y = corner & 2 ? 223 : 0;
            double in_x = (x + 0.5 + (rw - 224) / 2) * shrink - 0.5, in_y = (y + 0.5 + (rh - 224) / 2) * shrink - 0.5;
            CHECK_NEAR(h[0] * x + h[1] * y + h[2], in_x, 1e-9 * iw);
            CHECK_NEAR(h[3] * x + h[4] * y + h[5], in_y, 1e-9 * ih);
        }
    }
}

/* What torchvision 0.29 makes of a picture of the first two numbers: Resize(to) gives the size width x height, and
 * CenterCrop(out) begins at left, top there. Less than 0: a margin. */
static const struct {
    uint32_t in_width, in_height, out, to;
    double   width, height, left, top;
} torchvision_crops[] = {
    { 500, 375, 224, 256, 341, 256, 58, 16 }, { 375, 500, 224, 256, 256, 341, 16, 58 },
    { 1300, 900, 224, 256, 369, 256, 72, 16 }, { 640, 427, 224, 256, 383, 256, 80, 16 },
    { 7, 3000, 224, 256, 256, 109714, 16, 54745 }, { 301, 299, 224, 256, 257, 256, 16, 16 },
    { 500, 375, 299, 342, 456, 342, 78, 22 }, { 375, 500, 299, 342, 342, 456, 22, 78 },
    { 1300, 900, 299, 342, 494, 342, 98, 22 }, { 640, 427, 299, 342, 512, 342, 106, 22 },
    { 7, 3000, 299, 342, 342, 146571, 22, 73136 }, { 301, 299, 299, 342, 344, 342, 22, 22 },
    { 500, 375, 32, 33, 44, 33, 6, 0 }, { 375, 500, 32, 33, 33, 44, 0, 6 },
    { 1300, 900, 32, 33, 47, 33, 8, 0 }, { 640, 427, 32, 33, 49, 33, 8, 0 },
    { 7, 3000, 32, 33, 33, 14142, 0, 7055 }, { 301, 299, 32, 33, 33, 33, 0, 0 },
    { 500, 375, 32, 35, 46, 35, 7, 2 }, { 375, 500, 32, 35, 35, 46, 2, 7 },
    { 1300, 900, 32, 35, 50, 35, 9, 2 }, { 640, 427, 32, 35, 52, 35, 10, 2 },
    { 7, 3000, 32, 35, 35, 15000, 2, 7484 }, { 301, 299, 32, 35, 35, 35, 2, 2 },
    { 500, 375, 66, 47, 62, 47, -2, -9 }, { 375, 500, 66, 47, 47, 62, -9, -2 },
    { 1300, 900, 66, 47, 67, 47, 0, -9 }, { 640, 427, 66, 47, 70, 47, 2, -9 },
    { 7, 3000, 66, 47, 47, 20142, -9, 10038 }, { 301, 299, 66, 47, 47, 47, -9, -9 },
};

TEST(center_resized_crop_by_torchvisions_law_is_its_resize_and_center_crop)
{
    for (int i = 0; i < 2 * (int)COUNT(torchvision_crops); i++) {
        const int k = i / 2, mirrored = i % 2;
        const uint32_t iw = torchvision_crops[k].in_width, ih = torchvision_crops[k].in_height,
                       out = torchvision_crops[k].out;
        const double step_x = iw / torchvision_crops[k].width, step_y = ih / torchvision_crops[k].height,
                     left = (torchvision_crops[k].left + 0.5) * step_x - 0.5,
                     top = (torchvision_crops[k].top + 0.5) * step_y - 0.5;
        bzna_warp p = warp_of(BZNA_WARP_CENTER_RESIZED_CROP);
        bzna_random random = stream(1), untouched = random;
        double h[9];
        p.crops = BZNA_CROPS_TORCHVISION;
        p.scale[0] = (double)out / torchvision_crops[k].to;
        p.flip_h = mirrored;
        CHECK_EQ(bzna_warp_draw(&random, &p, iw, ih, out, out, h, NULL), BZNA_OK);
        CHECK(!memcmp(&random, &untouched, sizeof random));
        CHECK_NEAR(h[0], mirrored ? -step_x : step_x, 1e-12 * iw);
        CHECK_NEAR(h[4], step_y, 1e-12 * ih);
        CHECK_NEAR(h[2], mirrored ? iw - 1 - left : left, 1e-9 * iw);
        CHECK_NEAR(h[5], top, 1e-9 * ih);
        CHECK(h[1] == 0 && h[3] == 0);
    }
}

/* An output that is no square: the edge that limits is resized to a whole number, and the other one covers its own. */
TEST(torchvisions_law_fills_outputs_that_are_no_squares)
{
    static const uint32_t outs[][2] = { { 64, 32 }, { 32, 64 }, { 1, 300 }, { 300, 1 } };
    for (size_t i = 0; i < 2 * COUNT(outs); i++) {
        const uint32_t *out = outs[i / 2];
        bzna_warp p = warp_of(BZNA_WARP_CENTER_RESIZED_CROP);
        bzna_random random = stream(i);
        double h[9];
        p.crops = BZNA_CROPS_TORCHVISION;
        p.scale[0] = i % 2 ? 0.9 : 0;
        CHECK_EQ(bzna_warp_draw(&random, &p, 500, 375, out[0], out[1], h, NULL), BZNA_OK);
        crop c = crop_of(h, out[0], out[1]);
        CHECK(c.left >= -1e-9 && c.right <= 500 + 1e-9 && c.top >= -1e-9 && c.bottom <= 375 + 1e-9);
        CHECK(i % 2 || fabs(fmin(500 - c.width, 375 - c.height)) < 1e-9);
        CHECK_NEAR(500 / h[0], round(500 / h[0]), 1e-9);    /* whole pixels, both ways */
        CHECK_NEAR(375 / h[4], round(375 / h[4]), 1e-9);
    }
}

TEST(no_warp_is_the_centered_picture_one_to_one)
{
    bzna_warp p = similarity();
    bzna_random random = stream(1);
    static const double identity[9] = { 1, 0, 0, 0, 1, 0, 0, 0, 1 };
    double h[9];
    CHECK_EQ(bzna_warp_draw(&random, &p, 512, 512, 512, 512, h, NULL), BZNA_OK);
    for (int i = 0; i < 9; i++)
        CHECK(h[i] == identity[i]);
    CHECK_EQ(bzna_warp_draw(&random, &p, 500, 375, 224, 101, h, NULL), BZNA_OK);
    CHECK(h[0] == 1 && h[4] == 1 && h[2] == 138 && h[5] == 137);
    CHECK_EQ(bzna_warp_draw(&random, &p, 127, 95, 224, 224, h, NULL), BZNA_OK);
    CHECK(h[0] == 1 && h[4] == 1 && h[2] == -48.5 && h[5] == -64.5);
}

TEST(a_similarity_without_meaning_is_refused)
{
    bzna_warp p = similarity();
    bzna_random random = stream(1);
    bzna_error err = { .struct_size = sizeof err };
    double h[9];
    struct { double *field, value; } bad[] = {
        { &p.scale[0], 0 }, { &p.scale[0], -1 }, { &p.scale[0], NAN }, { &p.scale[1], NAN }, { &p.scale[1], 0.5 },
        { &p.scale[1], INFINITY },
        { &p.ratio[0], 1 }, { &p.ratio[1], 1 }, { &p.ratio[0], NAN }, { &p.ratio[1], INFINITY }, { &p.ratio[0], -1 },
        { &p.degrees[0], 1 }, { &p.degrees[0], NAN }, { &p.degrees[1], INFINITY }, { &p.translate[0], -0.1 },
        { &p.translate[1], NAN },
        { &p.flip_h, 1.1 }, { &p.flip_h, -0.1 }, { &p.flip_h, NAN }, { &p.flip_v, 2 }, { &p.flip_v, NAN },
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        p = similarity();
        *bad[i].field = bad[i].value;
        if (bzna_warp_draw(&random, &p, 10, 10, 10, 10, h, NULL) != BZNA_E_ARGUMENT) {
            test_failures++;
            printf("  case %d was taken\n", (int)i);
        }
    }
    p = similarity();
    p.crops = 3;
    CHECK_EQ(bzna_warp_draw(&random, &p, 10, 10, 10, 10, h, NULL), BZNA_E_ARGUMENT);
    p = similarity();
    CHECK_EQ(bzna_warp_draw(&random, &p, 0, 10, 10, 10, h, NULL), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_warp_draw(&random, &p, 10, 0, 10, 10, h, NULL), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_warp_draw(&random, &p, 10, 10, 0, 10, h, NULL), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_warp_draw(&random, &p, 10, 10, 10, 0, h, NULL), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_warp_draw(NULL, &p, 10, 10, 10, 10, h, NULL), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_warp_draw(&random, NULL, 10, 10, 10, 10, h, NULL), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_warp_draw(&random, &p, 10, 10, 10, 10, NULL, NULL), BZNA_E_ARGUMENT);
    p.reserved[3] = 1;
    CHECK_EQ(bzna_warp_draw(&random, &p, 10, 10, 10, 10, h, NULL), BZNA_E_STRUCT_SIZE);
    p = similarity();
    p.kind = 5;
    CHECK_EQ(bzna_warp_draw(&random, &p, 10, 10, 10, 10, h, &err), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(err.message, "warp.kind");
    p = warp_of(BZNA_WARP_RANDOM_RESIZED_CROP);
    p.degrees[1] = 10;
    CHECK_EQ(bzna_warp_draw(&random, &p, 10, 10, 10, 10, h, &err), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(err.message, "warp.degrees: has no effect");
}

/* Where torchvision 0.29's CenterCrop(out) of `in` pixels begins, by its own pixels. */
static const struct { uint32_t in, out; int first; } center_crops[] = {
    { 17, 16, 0 }, { 19, 16, 2 }, { 21, 16, 2 }, { 23, 16, 4 }, { 16, 16, 0 }, { 18, 16, 1 }, { 224, 31, 96 },
    { 16, 17, 0 }, { 16, 19, -1 }, { 15, 18, -1 }, { 1, 2, 0 }, { 1, 4, -1 }, { 2, 1, 0 }, { 4, 1, 2 },
    { 500, 375, 62 }, { 375, 500, -62 },
};

TEST(no_warp_takes_whole_pixels_where_torchvisions_center_crop_does)
{
    for (size_t i = 0; i < COUNT(center_crops); i++)
        for (size_t k = 0; k < COUNT(center_crops); k++) {
            bzna_warp p = warp_of(BZNA_WARP_NONE);
            bzna_random random = stream(1);
            double h[9];
            const double expected[9] = { 1, 0, center_crops[i].first, 0, 1, center_crops[k].first, 0, 0, 1 };
            CHECK_EQ(bzna_warp_draw(&random, &p, center_crops[i].in, center_crops[k].in, center_crops[i].out,
                                    center_crops[k].out, h, NULL), BZNA_OK);
            for (int m = 0; m < 9; m++)
                CHECK(h[m] == expected[m]);
            p.flip_h = 1;                                   /* of the mirrored picture */
            CHECK_EQ(bzna_warp_draw(&random, &p, center_crops[i].in, center_crops[k].in, center_crops[i].out,
                                    center_crops[k].out, h, NULL), BZNA_OK);
            CHECK(h[0] == -1 && h[2] == center_crops[i].in - 1.0 - center_crops[i].first && h[5] == expected[5]);
        }
}

/* The default: the picture just covers the output, and its middle is shown. */
TEST(without_a_warp_a_picture_just_covers_the_output_and_is_centered)
{
    const bzna_warp p = { 0 };
    for (uint64_t i = 0; i < 3000; i++) {
        bzna_random random = stream(i), sizes = stream(i + 100000);
        uint32_t in[2], out[2];
        double h[9];
        int covered = 0;
        for (int k = 0; k < 2; k++) {
            in[k] = 1 + bzna_random_u32(&sizes) % 700;
            out[k] = i % 5 ? 1 + bzna_random_u32(&sizes) % 400 : in[k];
        }
        CHECK_EQ(bzna_warp_draw(&random, &p, in[0], in[1], out[0], out[1], h, NULL), BZNA_OK);
        CHECK_EQ(words_taken(&random), 0);
        CHECK(i % 5 || (h[0] == 1 && h[4] == 1 && h[2] == 0 && h[5] == 0));
        for (int k = 0; k < 2; k++) {
            const double step = h[4 * k], begin = h[3 * k + 2] - step / 2, end = begin + step * out[k];
            CHECK(begin >= -0.5 - 1e-9 && end <= in[k] - 0.5 + 1e-9);
            CHECK(fabs((begin + end) / 2 - (in[k] - 1.0) / 2) <= step + 1e-9);          /* the crop's whole pixels */
            covered |= fabs(step * out[k] - in[k]) < 1e-9;
        }
        CHECK(covered);                                     /* one axis is shown as a whole */
    }
}

/* These scale by what they are given alone, as MXNet and the original do. */
TEST(mxnets_warp_and_the_originals_do_not_scale_by_themselves)
{
    const bzna_warp mxnet = { .kind = BZNA_WARP_MXNET }, similarity = { .kind = BZNA_WARP_SIMILARITY };
    for (size_t i = 0; i < COUNT(center_crops); i++) {
        const uint32_t in = center_crops[i].in, out = center_crops[i].out;
        const double middle = ((double)in - out) / 2;
        bzna_random random = stream(1);
        double h[9];
        CHECK_EQ(bzna_warp_draw(&random, &similarity, in, in, out, out, h, NULL), BZNA_OK);
        CHECK(h[0] == 1 && h[4] == 1 && h[2] == middle && h[5] == middle);
        CHECK_EQ(bzna_warp_draw(&random, &mxnet, in, in, out, out, h, NULL), BZNA_OK);
        if (in >= out)                                      /* it enlarges smaller pictures */
            CHECK(fabs(h[0] - 1) + fabs(h[4] - 1) + fabs(h[2] - floor(middle)) + fabs(h[5] - floor(middle)) < 1e-9);
    }
}

/* ---- What goes on top of a warp, MXNet's, color ------------------------------------------------------------------ */

static void map(const double h[9], double x, double y, double out[2])
{
    const double w = h[6] * x + h[7] * y + h[8];
    out[0] = (h[0] * x + h[1] * y + h[2]) / w;
    out[1] = (h[3] * x + h[4] * y + h[5]) / w;
}

/* x is h's image of the result: Cramer's rule. */
static void unmap(const double h[9], double x, double y, double out[2])
{
    const double a = h[0] - x * h[6], b = h[1] - x * h[7], c = h[3] - y * h[6], d = h[4] - y * h[7];
    const double e = x * h[8] - h[2], f = y * h[8] - h[5];
    out[0] = (e * d - b * f) / (a * d - b * c);
    out[1] = (a * f - c * e) / (a * d - b * c);
}

static const double identity[9] = { 1, 0, 0, 0, 1, 0, 0, 0, 1 };

static int is_identity(const double h[9])
{
    for (int i = 0; i < 9; i++)
        if (h[i] != identity[i])
            return 0;
    return 1;
}

TEST(a_perspective_is_torchvisions)
{
    for (size_t i = 0; i < COUNT(torchvision_perspectives); i++) {
        const double size[2] = { torchvision_perspectives[i].width, torchvision_perspectives[i].height };
        const double *c = torchvision_perspectives[i].coefficients;
        double corners[4][2], h[9];
        memcpy(h, identity, sizeof h);
        for (int k = 0; k < 8; k++)
            corners[k / 2][k % 2] = torchvision_perspectives[i].corners[k];
        bzi_distort_perspective(corners, size, h);
        for (int k = 0; k < 9; k++) {                       /* edges of pixels there, centers here */
            const double x = size[0] * (k % 3) / 2, y = size[1] * (k / 3) / 2, w = c[6] * x + c[7] * y + 1;
            double at[2];
            if (fabs(w) < 0.05)
                continue;
            map(h, x - 0.5, y - 0.5, at);
            CHECK_NEAR(at[0] + 0.5, (c[0] * x + c[1] * y + c[2]) / w, 2e-4 * size[0] / fabs(w));
            CHECK_NEAR(at[1] + 0.5, (c[3] * x + c[4] * y + c[5]) / w, 2e-4 * size[1] / fabs(w));
        }
    }
}

TEST(rotation_and_shear_are_torchvisions)
{
    for (size_t i = 0; i < COUNT(torchvision_affines); i++) {
        const int width = torchvision_affines[i].width, height = torchvision_affines[i].height;
        const double *c = torchvision_affines[i].matrix;
        bzna_warp p = warp_of(BZNA_WARP_NONE);
        bzna_random random = stream(i);
        double h[9], at[2];
        p.rotate[0] = p.rotate[1] = torchvision_affines[i].rotate;
        p.shear[0] = p.shear[1] = torchvision_affines[i].shear[0];
        p.shear[2] = p.shear[3] = torchvision_affines[i].shear[1];
        CHECK_EQ(bzna_warp_draw(&random, &p, (uint32_t)width, (uint32_t)height, (uint32_t)width, (uint32_t)height, h,
                                NULL), BZNA_OK);
        CHECK_EQ(words_taken(&random), 0);
        for (int k = 0; k < 4; k++) {
            const double x = k & 1 ? width : 0, y = k & 2 ? height : 0;
            map(h, x - 0.5, y - 0.5, at);
            CHECK_NEAR(at[0] + 0.5, c[0] * x + c[1] * y + c[2], 1e-6);
            CHECK_NEAR(at[1] + 0.5, c[3] * x + c[4] * y + c[5], 1e-6);
        }
    }
}

TEST(what_goes_on_top_of_a_warp_is_of_its_output)
{
    bzna_warp p = warp_of(BZNA_WARP_RANDOM_RESIZED_CROP), top = warp_of(BZNA_WARP_NONE);
    double plain[9], both[9], alone[9], expected[9];
    p.flip_h = 0.5;
    for (uint64_t i = 0; i < 100; i++) {
        bzna_random random = stream(i), again = stream(i);
        CHECK_EQ(bzna_warp_draw(&random, &p, 500, 375, 224, 160, plain, NULL), BZNA_OK);
        bzna_warp whole = p;
        top.rotate[0] = -30, top.rotate[1] = 30;
        top.shear[0] = -10, top.shear[1] = 5, top.shear[2] = 1, top.shear[3] = 9;
        top.perspective = 0.5, top.perspective_p = 0.7;
        memcpy(whole.rotate, top.rotate, sizeof top.rotate);
        memcpy(whole.shear, top.shear, sizeof top.shear);
        whole.perspective = 0.5, whole.perspective_p = 0.7;
        CHECK_EQ(bzna_warp_draw(&again, &whole, 500, 375, 224, 160, both, NULL), BZNA_OK);
        CHECK_EQ(bzna_warp_draw(&random, &top, 224, 160, 224, 160, alone, NULL), BZNA_OK);   /* the draws go on */
        bzi_homography_multiply(plain, alone, expected);
        multiply(plain, alone, alone);
        for (int k = 0; k < 9; k++) {
            CHECK_NEAR(both[k], expected[k], 1e-9 * (1 + fabs(expected[k])));
            CHECK(expected[k] == alone[k]);
        }
        CHECK_EQ(words_taken(&again), words_taken(&random));
    }
}

TEST(rotation_shear_and_corners_are_uniform)
{
    static double corner[8][DRAWS];
    int applied = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        const uint32_t width = 40001, height = 60001;
        bzna_warp p = warp_of(BZNA_WARP_NONE);
        bzna_random random = stream(i);
        double h[9], at[2];
        p.rotate[0] = -20, p.rotate[1] = 60, p.shear[0] = -30, p.shear[1] = 10;
        CHECK_EQ(bzna_warp_draw(&random, &p, 100, 100, 100, 100, h, NULL), BZNA_OK);
        first[i] = (atan2(-h[3], h[4]) * 180 / acos(-1) + 20) / 80;              /* column x of the forward matrix */
        second[i] = (atan((h[0] * h[3] + h[1] * h[4]) / (h[3] * h[3] + h[4] * h[4])) * 180 / acos(-1) + 30) / 40;
        p = warp_of(BZNA_WARP_NONE);
        p.perspective = 0.5;
        CHECK_EQ(bzna_warp_draw(&random, &p, width, height, width, height, h, NULL), BZNA_OK);
        if (is_identity(h))
            continue;
        for (int k = 0; k < 4; k++) {
            const int far_x = k == 1 || k == 2, far_y = k >= 2;
            unmap(h, (far_x ? width - 1 : 0) - 0.5, (far_y ? height - 1 : 0) - 0.5, at);
            corner[2 * k][applied] = (at[0] + 0.5 - (far_x ? width - 1 - 10000 : 0) + 0.5) / 10001;
            corner[2 * k + 1][applied] = (at[1] + 0.5 - (far_y ? height - 1 - 15000 : 0) + 0.5) / 15001;
        }
        applied++;
    }
    check_uniform("rotate", first, DRAWS);
    check_uniform("shear", second, DRAWS);
    CHECK_NEAR((double)applied / DRAWS, 0.5, 2.5 / sqrt(DRAWS));                /* torchvision's p */
    for (int k = 0; k < 8; k++)
        check_uniform("a corner", corner[k], applied);
}

/* Where MXNet puts a pixel of the picture: forwards, as its source has it. */
static void mxnet_forward(const bzna_warp *p, bzna_random *random, const double in[2], const double out[2],
                          const double from[2], double to[2])
{
    const double s = draw(random, -p->mxnet.shear_ratio, p->mxnet.shear_ratio);
    const double angle = p->degrees[0] < p->degrees[1] ?
                             floor(draw(random, p->degrees[0], p->degrees[1] + 1)) : p->degrees[0];
    const double k = draw(random, p->scale[0], p->scale[1]), r = draw(random, p->ratio[0], p->ratio[1]);
    const double a = cos(angle * acos(-1) / 180), b = sin(angle * acos(-1) / 180), hs = 2 * k / (1 + r), ws = r * hs;
    const double m[2][2] = { { hs * a - s * b * ws, hs * b + s * a * ws }, { -b * ws, a * ws } };
    double size[2] = { out[0], out[1] };
    if (p->mxnet.crop_px[1])
        size[0] = size[1] = p->mxnet.crop_px[0] == p->mxnet.crop_px[1] ? p->mxnet.crop_px[0] :
                                floor(draw(random, p->mxnet.crop_px[0], p->mxnet.crop_px[1] + 1.0));
    for (int i = 0; i < 2; i++) {
        double canvas = k * in[i];
        if (p->mxnet.canvas_px[1] && canvas > p->mxnet.canvas_px[1])
            canvas = p->mxnet.canvas_px[1];
        if (canvas < p->mxnet.canvas_px[0])
            canvas = p->mxnet.canvas_px[0];
        const double t = (canvas - (m[i][0] * in[0] + m[i][1] * in[1])) / 2;
        const double room = floor(canvas) + 2 * p->mxnet.pad_px - size[i];
        const double begin = p->mxnet.has_crop_start ? (i ? p->mxnet.crop_y_start : p->mxnet.crop_x_start) :
                             p->random_crop && room > 0 ? floor(draw(random, 0, room + 1)) : floor(room / 2);
        const double cropped = m[i][0] * from[0] + m[i][1] * from[1] + t + p->mxnet.pad_px - begin;
        to[i] = (cropped + 0.5) * out[i] / size[i] - 0.5;
    }
    if (draw_flip(random, p->flip_h))
        to[0] = out[0] - 1 - to[0];
}

TEST(mxnets_affine_is_drawn_as_documented)
{
    for (uint64_t i = 0; i < 400; i++) {
        bzna_warp p = warp_of(BZNA_WARP_MXNET);
        bzna_random random = stream(i), again;
        const double in[2] = { 333, 251 }, out[2] = { 224, 160 };
        double h[9], at[2], to[2];
        p.mxnet.shear_ratio = i & 1 ? 0.2 : 0;
        p.degrees[0] = i & 2 ? -15 : 10, p.degrees[1] = i & 2 ? 15 : 10;
        p.scale[0] = 0.7, p.scale[1] = i & 4 ? 1.4 : 0.7;
        p.ratio[0] = i & 8 ? 0.75 : 1, p.ratio[1] = i & 8 ? 1.25 : 1;
        p.mxnet.canvas_px[0] = i & 16 ? 240 : 0, p.mxnet.canvas_px[1] = i & 16 ? 300 : 0;
        p.mxnet.crop_px[0] = i & 32 ? 100 : 0, p.mxnet.crop_px[1] = i & 32 ? 220 : 0;
        p.mxnet.pad_px = i & 64 ? 7 : 0;
        p.random_crop = (uint32_t)(i >> 7 & 1);
        p.mxnet.has_crop_start = i % 5 == 4;
        p.mxnet.crop_x_start = p.mxnet.has_crop_start * 11, p.mxnet.crop_y_start = p.mxnet.has_crop_start * 5;
        p.flip_h = (int)(i % 3) / 2.0;
        again = random;
        CHECK_EQ(bzna_warp_draw(&random, &p, 333, 251, 224, 160, h, NULL), BZNA_OK);
        for (int k = 0; k < 4; k++) {
            const double from[2] = { k & 1 ? 332 : 0, k & 2 ? 250 : 0 };
            bzna_random same = again;
            mxnet_forward(&p, &same, in, out, from, to);
            map(h, to[0], to[1], at);
            CHECK_NEAR(at[0], from[0], 1e-8);
            CHECK_NEAR(at[1], from[1], 1e-8);
            CHECK_EQ(words_taken(&same), words_taken(&random));
        }
    }
}

/* M comes back from its inverse: angle, scale, ratio and shear from that. Of integers, a part of the next one is added:
 * uniform ones then are. */
TEST(mxnets_affine_and_crops_are_uniform)
{
    static double angle[DRAWS], left[DRAWS], top[DRAWS], side[DRAWS];
    for (uint64_t i = 0; i < DRAWS; i++) {
        bzna_warp p = warp_of(BZNA_WARP_MXNET);
        bzna_random random = stream(i);
        double h[9];
        p.mxnet.shear_ratio = 0.2;
        p.degrees[0] = -15, p.degrees[1] = 15;
        p.scale[0] = 0.7, p.scale[1] = 1.4;
        p.ratio[0] = 0.75, p.ratio[1] = 1.25;
        CHECK_EQ(bzna_warp_draw(&random, &p, 333, 251, 224, 160, h, NULL), BZNA_OK);
        const double one = h[0] * h[4] - h[1] * h[3];
        const double m[2][2] = { { h[4] / one, -h[1] / one }, { -h[3] / one, h[0] / one } };
        const double ws = hypot(m[1][0], m[1][1]), a = m[1][1] / ws, b = -m[1][0] / ws, hs = m[0][0] * a + m[0][1] * b;
        const double degrees = atan2(b, a) * 180 / acos(-1);
        CHECK_NEAR(degrees, round(degrees), 1e-6);
        angle[i] = (round(degrees) + 15 + bzna_random_uniform(&random, 0, 1)) / 31;
        first[i] = ((hs + ws) / 2 - 0.7) / 0.7;
        second[i] = (ws / hs - 0.75) / 0.5;
        third[i] = ((m[0][1] * a - m[0][0] * b) / ws + 0.2) / 0.4;
        p = warp_of(BZNA_WARP_MXNET);
        p.random_crop = 1;
        p.mxnet.crop_px[0] = 100, p.mxnet.crop_px[1] = 180;
        CHECK_EQ(bzna_warp_draw(&random, &p, 333, 251, 100, 100, h, NULL), BZNA_OK);
        const double shown = h[0] * 100;                    /* its first pixel begins half a pixel before */
        side[i] = (round(shown) - 100 + bzna_random_uniform(&random, 0, 1)) / 81;
        left[i] = (round(h[2] + 0.5 - h[0] / 2) + bzna_random_uniform(&random, 0, 1)) / (333 - shown + 1);
        top[i] = (round(h[5] + 0.5 - h[4] / 2) + bzna_random_uniform(&random, 0, 1)) / (251 - shown + 1);
        p = warp_of(BZNA_WARP_NONE);
        p.shear[2] = -30, p.shear[3] = 10;
        CHECK_EQ(bzna_warp_draw(&random, &p, 100, 100, 100, 100, h, NULL), BZNA_OK);
        fourth[i] = (atan(h[3]) * 180 / acos(-1) + 30) / 40;
    }
    check_uniform("angle", angle, DRAWS);
    check_uniform("scale", first, DRAWS);
    check_uniform("ratio", second, DRAWS);
    check_uniform("shear", third, DRAWS);
    check_uniform("side", side, DRAWS);
    check_uniform("left", left, DRAWS);
    check_uniform("top", top, DRAWS);
    check_uniform("shear along y", fourth, DRAWS);
}

TEST(mxnets_resize_of_the_short_edge_is_before_all)
{
    bzna_warp p = warp_of(BZNA_WARP_MXNET);
    bzna_random random = stream(1);
    double h[9];
    p.mxnet.short_edge_px = 100;                            /* 301 x 201 becomes 149 x 100, then its middle 40 x 20 */
    CHECK_EQ(bzna_warp_draw(&random, &p, 301, 201, 40, 20, h, NULL), BZNA_OK);
    CHECK_NEAR(h[0], 301 / 149.0, 1e-12);
    CHECK_NEAR(h[4], 2.01, 1e-12);
    CHECK_NEAR(h[2], (54 + 0.5) * 301 / 149.0 - 0.5, 1e-9);
    CHECK_NEAR(h[5], (40 + 0.5) * 2.01 - 0.5, 1e-9);
    CHECK_EQ(words_taken(&random), 0);
}

/* Pixels show where they are from, to a unit and a half, since each of MXNet's steps rounds; but for what it mixes with
 * fill or repeats at borders: three pixels there. */
TEST(mxnet_takes_its_pixels_from_the_same_places)
{
    int compared = 0, filled = 0, enlarged = 0;
    for (size_t i = 0; i < COUNT(mxnet_crops); i++) {
        const short *row = mxnet_crops[i], *from = row + 11;
        const uint32_t in[2] = { (uint32_t)row[0], (uint32_t)row[1] }, out[2] = { (uint32_t)row[2], (uint32_t)row[3] };
        bzna_warp p = warp_of(BZNA_WARP_MXNET);
        bzna_random random = stream(i);
        double h[9], at[2];
        p.scale[0] = p.scale[1] = row[4] / 10.0;
        p.degrees[0] = p.degrees[1] = row[5];
        p.mxnet.canvas_px[0] = (uint32_t)row[6], p.mxnet.canvas_px[1] = (uint32_t)row[7];
        p.mxnet.crop_px[0] = p.mxnet.crop_px[1] = (uint32_t)row[8];
        p.mxnet.pad_px = (uint32_t)row[9];
        p.mxnet.short_edge_px = (uint32_t)row[10];
        CHECK_EQ(bzna_warp_draw(&random, &p, in[0], in[1], out[0], out[1], h, NULL), BZNA_OK);
        CHECK_EQ(words_taken(&random), 0);
        enlarged += !row[8] && !row[10] && (in[0] < out[0] || in[1] < out[1]);
        for (uint32_t k = 0; k < 9; k++, from += 2) {
            double inside = 1e9;
            map(h, out[0] * (2 * k % 6 + 1) / 6, out[1] * (k / 3 * 2 + 1) / 6, at);
            for (int c = 0; c < 2; c++)
                inside = fmin(inside, fmin(at[c], in[c] - 1.0 - at[c]));
            if (inside < -3)
                CHECK_EQ(from[0], 255);
            filled += inside < -3;
            for (int c = 0; c < 2 && inside >= 3; c++, compared++)
                CHECK_NEAR(at[c], from[c] * (in[c] - 1.0) / 240, 1.5 * (in[c] - 1) / 240 + 0.05);
        }
    }
    CHECK(compared > 4000 && filled > 40 && enlarged > 150);
    printf("%d coordinates compared, %d points of fill, %d pictures enlarged\n", compared, filled, enlarged);
}

/* What is enlarged has the output's size along one axis; along the other it is cropped anywhere. */
TEST(mxnet_crops_at_random_from_what_it_has_enlarged)
{
    double least = 1e9, most = -1e9;
    for (uint64_t i = 0; i < 300; i++) {
        bzna_warp p = warp_of(BZNA_WARP_MXNET);
        bzna_random random = stream(i);
        double h[9];
        p.random_crop = 1;
        CHECK_EQ(bzna_warp_draw(&random, &p, 20, 10, 40, 40, h, NULL), BZNA_OK);
        CHECK_NEAR(h[0], 0.25, 1e-12);
        CHECK_NEAR(h[4], 0.25, 1e-12);
        CHECK_NEAR(h[5], 0.125 - 0.5, 1e-12);
        CHECK_EQ(words_taken(&random), 2);                  /* x alone */
        least = fmin(least, h[2] + 0.375);
        most = fmax(most, h[2] + 0.375);
    }
    CHECK_NEAR(least, 0, 1e-9);
    CHECK_NEAR(most, 10, 1e-9);
}

TEST(settings_on_top_of_a_warp_are_checked)
{
    bzna_warp p = warp_of(BZNA_WARP_NONE);
    bzna_random random = stream(1);
    bzna_error err = { .struct_size = sizeof err };
    double h[9];
    struct { double *field, value; const char *says; } bad[] = {
        { &p.rotate[0], 1, "rotate" }, { &p.rotate[1], NAN, "rotate" }, { &p.shear[0], 1, "shear" },
        { &p.shear[1], 90, "shear" }, { &p.shear[2], -90, "shear" }, { &p.shear[3], NAN, "shear" },
        { &p.perspective, 1.01, "perspective" }, { &p.perspective, -0.1, "perspective" },
        { &p.perspective, NAN, "perspective" }, { &p.perspective_p, 0.5, "perspective_p: has no effect" },
        { &p.mxnet.shear_ratio, 0.5, "mxnet.shear_ratio to crop_y_start: has no effect" },
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        p = warp_of(BZNA_WARP_NONE);
        *bad[i].field = bad[i].value;
        err.message[0] = 0;
        CHECK_EQ(bzna_warp_draw(&random, &p, 10, 10, 10, 10, h, &err), BZNA_E_ARGUMENT);
        CHECK_CONTAINS(err.message, bad[i].says);
    }
    p = warp_of(BZNA_WARP_MXNET);
    p.mxnet.canvas_px[0] = 10, p.mxnet.canvas_px[1] = 9;
    CHECK_EQ(bzna_warp_draw(&random, &p, 10, 10, 10, 10, h, NULL), BZNA_E_ARGUMENT);
    p = warp_of(BZNA_WARP_MXNET);
    p.mxnet.crop_px[1] = 9;
    CHECK_EQ(bzna_warp_draw(&random, &p, 10, 10, 10, 10, h, NULL), BZNA_E_ARGUMENT);
    p = warp_of(BZNA_WARP_MXNET);
    p.mxnet.shear_ratio = NAN;
    CHECK_EQ(bzna_warp_draw(&random, &p, 10, 10, 10, 10, h, NULL), BZNA_E_ARGUMENT);
    p = warp_of(BZNA_WARP_NONE);                            /* a line has no perspective: it stays as it is */
    p.perspective = p.perspective_p = 1;
    CHECK_EQ(bzna_warp_draw(&random, &p, 1, 9, 1, 9, h, NULL), BZNA_OK);
    CHECK(is_identity(h));
}

static bzna_jitter jitter_of(double brightness, double contrast, double saturation, double hue)
{
    bzna_jitter j;
    memset(&j, 0, sizeof j);
    j.brightness[0] = j.brightness[1] = (float)brightness;
    j.contrast[0] = j.contrast[1] = (float)contrast;
    j.saturation[0] = j.saturation[1] = (float)saturation;
    j.hue[0] = j.hue[1] = (float)hue;
    return j;
}

/* Pixels of R, G, B, in planes of width * height, as they are, but for their colors. */
static void recolor(const bzna_transform *t, uint32_t width, uint32_t height, const int *rgb, uint32_t channels,
                    float *out)
{
    uint8_t planes[3][64];
    bzna_output output = { .struct_size = sizeof output, .width = width, .height = height, .channels = channels };
    bzna_picture p = { .struct_size = sizeof p, .depth = 8, .width = width, .height = height, .frame_width = width,
                       .frame_height = height, .color = { 1, 13, 0, 1, 1 } };
    for (uint32_t i = 0; i < 3; i++) {                      /* planes of G, B, R */
        for (uint32_t k = 0; k < width * height; k++)
            planes[i][k] = (uint8_t)rgb[(i + 1) % 3 * width * height + k];
        p.plane[i] = planes[i];
        p.pitch[i] = width;
    }
    CHECK_EQ(bzna_picture_render(&p, t, &output, out, 3 * 64 * sizeof *out, NULL), BZNA_OK);
}

TEST(every_step_of_color_is_torchvisions_and_in_its_order)
{
    int clamped = 0;
    for (size_t i = 0; i < COUNT(torchvision_jitters); i++) {
        bzna_jitter j = jitter_of(torchvision_jitters[i].brightness, torchvision_jitters[i].contrast,
                                  torchvision_jitters[i].saturation, torchvision_jitters[i].hue);
        bzna_random random = stream(i);
        bzna_transform t;
        float out[2][3 * 64], worst = 0;
        bzna_transform_init(&t, sizeof t);
        j.grayscale = (float)torchvision_jitters[i].gray;
        CHECK_EQ(bzna_jitter_draw(&random, &j, NULL, &t, NULL), BZNA_OK);
        CHECK_EQ(words_taken(&random), 0);
        clamped += torchvision_jitters[i].is_clamped;
        recolor(&t, 4, 2, torchvision_jitters[i].rgb, BZNA_CHANNELS_RGB, out[0]);
        recolor(&t, 4, 2, torchvision_jitters[i].rgb, BZNA_CHANNELS_BGR, out[1]);
        for (int k = 0; k < 24; k++) {                      /* 0.2989 there: 0.0255 of 255, more after blends */
            worst = fmaxf(worst, fabsf(out[0][k] - (float)torchvision_jitters[i].expected[k]));
            CHECK(out[0][k] == out[1][(16 - k / 8 * 8) + k % 8]);
        }
        if (!(worst < 0.1f))
            printf("  case %d: off by %g\n", (int)i, (double)worst);
        CHECK(worst < 0.1f);
    }
    CHECK(clamped > 10 && clamped < (int)COUNT(torchvision_jitters) - 10);
}

TEST(moves_of_hue_lightness_and_saturation_are_opencvs)
{
    for (size_t i = 0; i < COUNT(opencv_shifts); i++) {
        bzna_transform t;
        float out[3 * 64];
        bzna_transform_init(&t, sizeof t);
        t.clamp_hue = (uint32_t)opencv_shifts[i].clamps;
        for (int k = 0; k < 3; k++)
            t.hls[k] = (float)opencv_shifts[i].hls[k];
        recolor(&t, 1, 1, opencv_shifts[i].rgb, BZNA_CHANNELS_RGB, out);
        for (int k = 0; k < 3; k++)
            CHECK_NEAR(out[k], opencv_shifts[i].expected[k], 0.01);
    }
}

TEST(hls_comes_before_brightness_and_contrast_after_it)
{
    const int rgb[3] = { 100, 50, 200 };
    bzna_transform t;
    float out[3 * 64];
    bzna_transform_init(&t, sizeof t);
    t.hls[1] = 60;                                          /* to a lightness of 185, of the same S */
    t.brightness = 0.5f;
    recolor(&t, 1, 1, rgb, BZNA_CHANNELS_RGB, out);
    const double s = 75 / 125.0, half = s * 70;
    CHECK_NEAR(out[2], (185 + half) / 2, 1e-3);
    CHECK_NEAR(out[1], (185 - half) / 2, 1e-3);
    t.contrast = 3;
    recolor(&t, 1, 1, rgb, BZNA_CHANNELS_RGB, out + 3);
    const double mean = 0.299 * out[0] + 0.587 * out[1] + 0.114 * out[2];
    for (int c = 0; c < 3; c++)
        CHECK_NEAR(out[3 + c], fmin(fmax(3 * out[c] - 2 * mean, 0), 255), 0.01);
}

TEST(contrast_is_about_the_mean_of_what_is_inside_and_the_fill_stays)
{
    const int rgb[12] = { 10, 20, 30, 40, 10, 20, 30, 40, 10, 20, 30, 40 };
    bzna_transform t;
    float out[3 * 64];
    bzna_transform_init(&t, sizeof t);
    t.contrast = 0.5f;
    t.homography[2] = 2;                                    /* the right two columns, and two outside */
    t.fill[0] = t.fill[1] = t.fill[2] = 77;
    recolor(&t, 4, 1, rgb, BZNA_CHANNELS_RGB, out);
    const double expected[4] = { 32.5, 37.5, 77, 77 };
    for (int k = 0; k < 12; k++)
        CHECK_NEAR(out[k], expected[k % 4], 0.01);
    t.homography[2] = 9;                                    /* nothing is inside */
    recolor(&t, 4, 1, rgb, BZNA_CHANNELS_RGB, out);
    for (int k = 0; k < 12; k++)
        CHECK(out[k] == 77);
}

TEST(mxnets_contrast_and_illumination_are_about_the_mean)
{
    for (uint64_t i = 0; i < 100; i++) {
        const bzna_jitter j = { .grayscale = 0 };
        const bzna_mxnet m = { .contrast = 0.4f, .illumination = 30 };
        bzna_random random = stream(i), again = random;
        bzna_transform t;
        bzna_transform_init(&t, sizeof t);
        t.bias[1] = 116;
        t.scale[1] = 1 / 57.f;
        CHECK_EQ(bzna_jitter_draw(&random, &j, &m, &t, NULL), BZNA_OK);
        const double c = 1 + draw(&again, -m.contrast, m.contrast), l = draw(&again, -30, 30);
        for (float x = 0; x < 256; x += 51)
            CHECK_NEAR((x - t.bias[1]) * t.scale[1], ((x - 116) * c + l) / 57, 1e-4);
        CHECK_EQ(words_taken(&again), words_taken(&random));
    }
}

TEST(factors_are_uniform_and_gray_comes_with_its_probability)
{
    int gray = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        bzna_jitter j = jitter_of(0.5, 0, 0.25, -0.2);
        bzna_random random = stream(i);
        bzna_transform t;
        bzna_transform_init(&t, sizeof t);
        j.brightness[1] = 1.5f;
        j.contrast[1] = 2;
        j.saturation[1] = 1.25f;
        j.hue[1] = 0.3f;
        CHECK_EQ(bzna_jitter_draw(&random, &j, NULL, &t, NULL), BZNA_OK);
        first[i] = t.brightness - 0.5;
        second[i] = t.saturation - 0.25;
        third[i] = t.contrast / 2;
        fourth[i] = (t.hue + 0.2) * 2;
        j = jitter_of(0, 0, 0, 0);
        j.grayscale = 0.2f;
        bzna_transform_init(&t, sizeof t);
        CHECK_EQ(bzna_jitter_draw(&random, &j, NULL, &t, NULL), BZNA_OK);
        gray += t.grayscale == 1;
    }
    check_uniform("brightness", first, DRAWS);
    check_uniform("saturation", second, DRAWS);
    check_uniform("contrast", third, DRAWS);
    check_uniform("hue", fourth, DRAWS);
    CHECK_NEAR((double)gray / DRAWS, 0.2, 2.5 * sqrt(0.2 * 0.8 / DRAWS));
}

/* The share of (u + 4 v) / 5 below x, for uniform u and v. */
static double mxnet_law(double x)
{
    const double low = fmin(fmax(x, 0), 0.2), high = fmin(fmax(1 - x, 0), 0.2);
    return x <= 0.2 ? 3.125 * low * low : x >= 0.8 ? 1 - 3.125 * high * high : 0.125 + 1.25 * (x - 0.2);
}

TEST(mxnets_hls_are_integers_by_its_law_drawn_one_after_the_other)
{
    static const float most[3] = { 36, 50, 255 };
    static int count[3][511];
    for (uint64_t i = 0; i < DRAWS; i++) {
        const bzna_jitter j = jitter_of(0, 0, 0, 0);
        const bzna_mxnet m = { .hls = { most[0], most[1], most[2] } };
        bzna_random random = stream(i), again = random;
        bzna_transform t;
        bzna_transform_init(&t, sizeof t);
        CHECK_EQ(bzna_jitter_draw(&random, &j, &m, &t, NULL), BZNA_OK);
        for (int k = 0; k < 3; k++) {
            const double u = draw(&again, 0, 1), v = draw(&again, 0, 1);
            CHECK_EQ(t.hls[k], trunc((u + 4 * v) / 5 * most[k] * 2 - most[k]));
            count[k][255 + (int)t.hls[k]]++;
        }
        CHECK_EQ(words_taken(&again), words_taken(&random));
    }
    for (int k = 0; k < 3; k++) {
        double sum = 0, worst = 0;
        for (int x = -255; x <= 255; x++) {                 /* truncated: x of 0 is of -1..1 */
            sum += count[k][255 + x];
            worst = fmax(worst, fabs(sum / DRAWS - mxnet_law(((double)(x >= 0 ? x + 1 : x) / most[k] + 1) / 2)));
        }
        CHECK(worst <= 2.2 / sqrt(DRAWS));
    }
}

TEST(a_jitter_goes_behind_the_color_that_is_there_and_is_checked)
{
    bzna_jitter j = jitter_of(2, 0, 0.5, 0);
    bzna_mxnet m = { .pad_px = 0 };
    bzna_random random = stream(1);
    bzna_error err = { .struct_size = sizeof err };
    bzna_transform t;
    const int rgb[3] = { 10, 20, 130 };
    const double expected[3] = { 135, 20, 10 };             /* swapped, and 5 more of red */
    float out[3 * 64];
    bzna_transform_init(&t, sizeof t);
    const float swap[12] = { 0, 0, 1, 5, 0, 1, 0, 0, 1, 0, 0, 0 };
    memcpy(t.color, swap, sizeof swap);
    CHECK_EQ(bzna_jitter_draw(&random, &j, NULL, &t, NULL), BZNA_OK);
    recolor(&t, 1, 1, rgb, BZNA_CHANNELS_RGB, out);
    const double luma = 0.299 * 255 + 0.587 * 40 + 0.114 * 20;
    for (int c = 0; c < 3; c++)
        CHECK_NEAR(out[c], 0.5 * fmin(2 * expected[c], 255) + 0.5 * luma, 1e-3);
    struct { float *field, value; const char *says; } bad[] = {
        { &j.brightness[0], 3, "brightness" }, { &j.brightness[1], NAN, "brightness" },
        { &j.contrast[0], -1, "contrast" }, { &j.contrast[1], INFINITY, "contrast" },
        { &j.saturation[0], -1, "saturation" }, { &j.grayscale, 1.5f, "grayscale" },
        { &j.hue[0], -0.51f, "hue" }, { &j.hue[1], 0.51f, "hue" }, { &j.hue[0], 0.1f, "hue" },
        { &m.hls[0], 181, "mxnet.hls" }, { &m.hls[1], -1, "mxnet.hls" }, { &m.hls[2], NAN, "mxnet.hls" },
        { &m.contrast, 1, "mxnet.contrast" }, { &m.illumination, -1, "mxnet.illumination" },
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        j = jitter_of(2, 0, 0.5, 0);
        memset(&m, 0, sizeof m);
        *bad[i].field = bad[i].value;
        CHECK_EQ(bzna_jitter_draw(&random, &j, &m, &t, &err), BZNA_E_ARGUMENT);
        CHECK_CONTAINS(err.message, bad[i].says);
    }
    j = jitter_of(1, 1, 1, 0);
    j.reserved[7] = 1;
    CHECK_EQ(bzna_jitter_draw(&random, &j, NULL, &t, NULL), BZNA_E_STRUCT_SIZE);
    j = jitter_of(1, 1, 1, 0);
    m = (bzna_mxnet){ .clamp_hue = 2 };
    CHECK_EQ(bzna_jitter_draw(&random, &j, &m, &t, NULL), BZNA_E_ARGUMENT);
    m = (bzna_mxnet){ .reserved = { 0, 0, 0, 1 } };
    CHECK_EQ(bzna_jitter_draw(&random, &j, &m, &t, NULL), BZNA_E_STRUCT_SIZE);
    CHECK_EQ(bzna_jitter_draw(NULL, &j, NULL, &t, NULL), BZNA_E_ARGUMENT);
}

TEST(colors_of_a_transform_are_checked)
{
    bzna_transform t;
    struct { float *field, value; const char *says; } bad[] = {
        { &t.brightness, -1, "brightness" }, { &t.contrast, NAN, "contrast" }, { &t.saturation, 2e6f, "saturation" },
        { &t.hue, 0.6f, "hue" }, { &t.hue, NAN, "hue" }, { &t.hls[0], -181, "hls" }, { &t.hls[2], 256, "hls" },
    };
    for (size_t i = 0; i < COUNT(bad) + 2; i++) {
        bzna_error err;
        bzna_transform_init(&t, sizeof t);
        if (i < COUNT(bad))
            *bad[i].field = bad[i].value;
        else
            *(i == COUNT(bad) ? &t.clamp_hue : &t.grayscale) = 2;
        CHECK_EQ(bzi_transform_check(&t, &err), BZNA_E_ARGUMENT);
        CHECK_CONTAINS(err.message, i < COUNT(bad) ? bad[i].says : i == COUNT(bad) ? "clamp_hue" : "grayscale");
    }
}

/* ---- What a loader's config becomes ------------------------------------------------------------------------------ */

static int same_warp(const bzna_loader_config *c, const bzna_warp *expected)
{
    bzna_warp p;
    bzna_error e = { .struct_size = sizeof e };
    if (bzi_warp_resolve(&c->warp, "warp", &p, &e) != BZNA_OK) {
        printf("  %s\n", e.message);
        return 0;
    }
    return p.crops == expected->crops && !memcmp(p.scale, expected->scale, sizeof p.scale) &&
           !memcmp(p.ratio, expected->ratio, sizeof p.ratio) &&
           !memcmp(p.degrees, expected->degrees, sizeof p.degrees) &&
           !memcmp(p.translate, expected->translate, sizeof p.translate) && p.flip_h == expected->flip_h &&
           p.flip_v == expected->flip_v && p.resize == expected->resize && p.keep_ratio == expected->keep_ratio &&
           p.random_crop == expected->random_crop;
}

/* A kind of warp with its defaults. */
static bzna_warp resolved(uint32_t kind)
{
    const bzna_warp given = { .kind = kind };
    bzna_warp warp = { 0 };
    bzna_error e = { .struct_size = sizeof e };
    CHECK_EQ(bzi_warp_resolve(&given, "warp", &warp, &e), BZNA_OK);
    return warp;
}

TEST(a_loaders_warp_fields_mean_what_the_header_says)
{
    bzna_loader_config c;
    bzna_warp p = resolved(BZNA_WARP_SIMILARITY);
    bzna_loader_config_init(&c, sizeof c);
    c.warp.kind = BZNA_WARP_NONE;
    CHECK(same_warp(&c, &p));
    c.warp.flip_h = 0.5f;
    c.warp.flip_v = 0.25f;
    p.flip_h = 0.5;
    p.flip_v = 0.25;
    CHECK(same_warp(&c, &p));                               /* flips go with every warp */

    p = resolved(BZNA_WARP_RANDOM_RESIZED_CROP);
    CHECK(p.scale[0] == 0.08 && p.scale[1] == 1 && p.ratio[0] == 3.0 / 4 && p.ratio[1] == 4.0 / 3 && p.resize &&
          p.random_crop);
    p.flip_h = 0.5;
    p.flip_v = 0.25;
    c.warp.kind = BZNA_WARP_RANDOM_RESIZED_CROP;
    CHECK(same_warp(&c, &p));
    c.warp.crops = p.crops = BZNA_CROPS_TORCHVISION;
    c.warp.scale[0] = 0.25f;
    c.warp.scale[1] = 0.5f;
    c.warp.ratio[0] = 1;
    c.warp.ratio[1] = 2;
    p.scale[0] = 0.25;
    p.scale[1] = 0.5;
    p.ratio[0] = 1;
    p.ratio[1] = 2;
    CHECK(same_warp(&c, &p));

    bzna_loader_config_init(&c, sizeof c);
    p = resolved(BZNA_WARP_CENTER_RESIZED_CROP);
    CHECK(p.scale[0] == 1 && p.scale[1] == 1);
    c.warp.kind = BZNA_WARP_CENTER_RESIZED_CROP;
    CHECK(same_warp(&c, &p));
    p = resolved(BZNA_WARP_CENTER_RESIZED_CROP);
    p.scale[0] = p.scale[1] = 0.875;
    CHECK(p.keep_ratio && p.resize && !p.random_crop);
    c.warp.scale[0] = 0.875f;
    CHECK(same_warp(&c, &p));

    bzna_loader_config_init(&c, sizeof c);
    p = resolved(BZNA_WARP_SIMILARITY);
    c.warp.kind = BZNA_WARP_SIMILARITY;
    CHECK(same_warp(&c, &p));
    c.warp.scale[0] = 0.5f, c.warp.scale[1] = 2;
    c.warp.ratio[0] = 0.5f, c.warp.ratio[1] = 1.5f;
    c.warp.degrees[0] = -10, c.warp.degrees[1] = 20;
    c.warp.translate[0] = 0.125f, c.warp.translate[1] = 0.25f;
    c.warp.resize = c.warp.keep_ratio = c.warp.random_crop = 1;
    p.scale[0] = 0.5, p.scale[1] = 2;
    p.ratio[0] = 0.5, p.ratio[1] = 1.5;
    p.degrees[0] = -10, p.degrees[1] = 20;
    p.translate[0] = 0.125, p.translate[1] = 0.25;
    p.resize = p.keep_ratio = p.random_crop = 1;
    CHECK(same_warp(&c, &p));
}

TEST(both_resized_crops_follow_torchvision_where_no_law_is_named)
{
    static const uint32_t kinds[] = { BZNA_WARP_CENTER_RESIZED_CROP, BZNA_WARP_RANDOM_RESIZED_CROP };
    for (size_t k = 0; k < COUNT(kinds); k++) {
        double drawn[3][9];
        for (uint32_t crops = BZNA_CROPS_AUTO; crops <= BZNA_CROPS_TORCHVISION; crops++) {
            bzna_warp w = { .kind = kinds[k], .crops = crops, .scale = { 0.5, k ? 1 : 0 } };
            bzna_random random = stream(5);
            CHECK_EQ(bzna_warp_draw(&random, &w, 301, 299, 224, 224, drawn[crops], NULL), BZNA_OK);
        }
        CHECK(!memcmp(drawn[BZNA_CROPS_AUTO], drawn[BZNA_CROPS_TORCHVISION], sizeof drawn[0]));
        CHECK(memcmp(drawn[BZNA_CROPS_AUTO], drawn[BZNA_CROPS_BENZINA], sizeof drawn[0]));
    }
}

TEST(zeros_of_a_transform_and_of_a_picture_are_their_defaults)
{
    static const uint8_t gray[12] = { 10, 200, 30, 40, 50, 60, 70, 80, 90, 7, 8, 9 };
    const bzna_picture whole = { .struct_size = sizeof whole, .depth = 8, .width = 3, .height = 2, .crop_x = 1,
                                 .crop_y = 1, .frame_width = 4, .frame_height = 3, .plane = { gray }, .pitch = { 4 } };
    const bzna_picture brief = { .struct_size = sizeof brief, .width = 3, .height = 2, .crop_x = 1, .crop_y = 1,
                                 .plane = { gray }, .pitch = { 4 } };
    const bzna_output output = { .struct_size = sizeof output, .width = 3, .height = 2 };
    const bzna_transform zeros = { .struct_size = sizeof zeros };
    const bzna_jitter jitter = { .brightness = { 2, 2 } };
    bzna_transform identities, half = zeros, drawn = zeros;
    bzna_random random = stream(1);
    float a[18], b[18];
    bzna_transform_init(&identities, sizeof identities);
    CHECK_EQ(bzna_picture_render(&whole, &identities, &output, a, sizeof a, NULL), BZNA_OK);
    CHECK_EQ(bzna_picture_render(&brief, &zeros, &output, b, sizeof b, NULL), BZNA_OK);
    CHECK(!memcmp(a, b, sizeof a));
    CHECK_NEAR(b[0], (60 - 16) * 255.0 / 219, 1e-3);

    half.scale[1] = 0.5f;                                   /* each channel's by itself */
    CHECK_EQ(bzna_picture_render(&brief, &half, &output, b, sizeof b, NULL), BZNA_OK);
    CHECK(b[0] == a[0] && b[6] == a[6] / 2 && b[12] == a[12]);

    CHECK_EQ(bzna_jitter_draw(&random, &jitter, NULL, &drawn, NULL), BZNA_OK);  /* written out: the caller may add */
    CHECK(!memcmp(drawn.homography, identities.homography, sizeof drawn.homography));
    CHECK(!memcmp(drawn.color, identities.color, sizeof drawn.color));
    CHECK(!memcmp(drawn.scale, identities.scale, sizeof drawn.scale));
}

TEST(inits_fill_no_more_than_the_caller_has)
{
    struct { bzna_transform t; uint8_t guard[8]; } room;
    memset(&room, 0xaa, sizeof room);
    bzna_transform_init(&room.t, offsetof(bzna_transform, fill));
    CHECK_EQ(room.t.struct_size, offsetof(bzna_transform, fill));
    CHECK(room.t.homography[0] == 1 && room.t.scale[2] == 1);
    CHECK_EQ(((uint8_t *)&room.t)[offsetof(bzna_transform, fill)], 0xaa);
    bzna_transform_init(&room.t, sizeof room);              /* a future struct: its tail is the caller's */
    CHECK_EQ(room.guard[0], 0xaa);
    for (int i = 0; i < 9; i++)
        CHECK(room.t.homography[i] == (i % 4 == 0));
    for (int i = 0; i < 12; i++)
        CHECK(room.t.color[i] == (float)(i % 5 == 0));
    for (int i = 0; i < 3; i++)
        CHECK(room.t.bias[i] == 0 && room.t.scale[i] == 1 && room.t.fill[i] == 0);
    bzna_transform_init(NULL, sizeof room.t);
}

/* ---- Color ------------------------------------------------------------------------------------------------------- */

TEST(matrix_code_points_have_their_weights)
{
    static const struct { uint32_t matrix; double kr, kb; } known[] = {
        { 1, 0.2126, 0.0722 }, { 2, 0.299, 0.114 }, { 4, 0.30, 0.11 }, { 5, 0.299, 0.114 }, { 6, 0.299, 0.114 },
        { 7, 0.212, 0.087 },
        { 9, 0.2627, 0.0593 }, { 10, 0.2627, 0.0593 },
    };
    for (uint32_t matrix = 0, n = 0; matrix < 300; matrix++) {
        double kr = -1, kb = -1;
        int is = bzi_color_weights(matrix, &kr, &kb);
        if (n < COUNT(known) && known[n].matrix == matrix) {
            CHECK(is && kr == known[n].kr && kb == known[n].kb);
            n++;
        } else {
            CHECK(!is);
        }
    }
}

TEST(forced_matrices_replace_the_streams)
{
    static const struct { uint32_t force; uint16_t matrix; uint8_t full; } known[] = {
        { BZNA_MATRIX_BT601_FULL, 5, 1 }, { BZNA_MATRIX_BT601, 5, 0 }, { BZNA_MATRIX_BT709, 1, 0 },
        { BZNA_MATRIX_BT2020, 9, 0 },
        { BZNA_MATRIX_BT709_FULL, 1, 1 }, { BZNA_MATRIX_BT2020_FULL, 9, 1 },
    };
    bzna_color stream_color = { 1, 13, 7, 1, 1 }, c = bzi_color_forced(BZNA_MATRIX_AUTO, stream_color);
    CHECK(c.matrix == 7 && c.full_range == 1);
    for (size_t i = 0; i < COUNT(known); i++) {
        c = bzi_color_forced(known[i].force, stream_color);
        CHECK_EQ(c.matrix, known[i].matrix);
        CHECK_EQ(c.full_range, known[i].full);
    }
}

/* Colors coded by the definition of each matrix come back through the public renderer. */
TEST(colors_coded_by_a_matrix_come_back_through_it)
{
    static const struct { uint32_t force; uint16_t matrix; uint8_t full; double kr, kb; } known[] = {
        { BZNA_MATRIX_BT601_FULL, 5, 1, 0.299, 0.114 }, { BZNA_MATRIX_BT601, 6, 0, 0.299, 0.114 },
        { BZNA_MATRIX_BT709, 1, 0, 0.2126, 0.0722 },
        { BZNA_MATRIX_BT2020, 9, 0, 0.2627, 0.0593 }, { BZNA_MATRIX_BT709_FULL, 1, 1, 0.2126, 0.0722 },
        { BZNA_MATRIX_BT2020_FULL, 9, 1, 0.2627, 0.0593 },
    };
    for (size_t k = 0; k < COUNT(known); k++)
        for (int n = 0; n < 216; n++) {
            double rgb[3] = { n % 6 * 51, n / 6 % 6 * 51, n / 36 * 51 };
            double y = known[k].kr * rgb[0] + (1 - known[k].kr - known[k].kb) * rgb[1] + known[k].kb * rgb[2];
            double cb = (rgb[2] - y) / (2 - 2 * known[k].kb), cr = (rgb[0] - y) / (2 - 2 * known[k].kr);
            uint8_t planes[3];
            bzna_picture picture = {
                .struct_size = sizeof picture, .depth = 8, .width = 1, .height = 1, .frame_width = 1, .frame_height = 1
            };
            bzna_transform t;
            bzna_output output = { .struct_size = sizeof output, .width = 1, .height = 1 };
            float out[3];
            planes[0] = (uint8_t)lround(known[k].full ? y : 16 + y * 219 / 255);
            planes[1] = (uint8_t)fmin(255, round(known[k].full ? 128 + cb : 128 + cb * 224 / 255));
            planes[2] = (uint8_t)fmin(255, round(known[k].full ? 128 + cr : 128 + cr * 224 / 255));
            for (int i = 0; i < 3; i++) {
                picture.plane[i] = &planes[i];
                picture.pitch[i] = 1;
            }
            for (int forced = 0; forced < 2; forced++) {
                picture.color.matrix = forced ? 7 : known[k].matrix;
                picture.color.full_range = forced ? !known[k].full : known[k].full;
                picture.color.present = 1;
                bzna_transform_init(&t, sizeof t);
                t.matrix = forced ? known[k].force : BZNA_MATRIX_AUTO;
                REQUIRE(bzna_picture_render(&picture, &t, &output, out, sizeof out, NULL) == BZNA_OK);
                for (int i = 0; i < 3; i++)
                    CHECK_NEAR(out[i], rgb[i],
                               2.3); /* half a step of Y', and of Cb or Cr stretched by up to 2 * 1.17 * 0.96 */
            }
        }
}

/* One pixel, of three code values or, gray, of one. */
static void render_code(int matrix, int full, int depth, const int *code, int planes, float out[3])
{
    uint16_t wide[3];
    uint8_t narrow[3];
    bzna_picture picture;
    bzna_transform t;
    bzna_output output = { .struct_size = sizeof output, .width = 1, .height = 1 };
    picture = (bzna_picture){ .struct_size = sizeof picture };
    bzna_transform_init(&t, sizeof t);
    picture.depth = (uint32_t)depth;
    picture.width = picture.height = picture.frame_width = picture.frame_height = 1;
    picture.color = (bzna_color){ 1, 1, (uint16_t)matrix, (uint8_t)full, 1 };
    for (int i = 0; i < planes; i++) {
        wide[i] = (uint16_t)code[i];
        narrow[i] = (uint8_t)code[i];
        picture.plane[i] = depth > 8 ? (const void *)&wide[i] : &narrow[i];
        picture.pitch[i] = 2;
    }
    CHECK_EQ(bzna_picture_render(&picture, &t, &output, out, 3 * sizeof *out, NULL), BZNA_OK);
}

TEST(every_matrix_range_and_depth_gives_what_zscale_gives)
{
    double worst = 0;
    for (size_t i = 0; i < COUNT(zscale_colors); i++) {
        float out[3];
        render_code(zscale_colors[i].matrix, zscale_colors[i].full, zscale_colors[i].depth, zscale_colors[i].code, 3,
                    out);
        for (int c = 0; c < 3; c++)
            worst = fmax(worst, fabs((double)out[c] - zscale_colors[i].rgb[c]));
    }
    CHECK_EQ(COUNT(zscale_colors), 480);
    CHECK_NEAR(worst, 0, 0.002);                            /* it is written to three decimals */
}

/* ITU-T H.273: a color, each of its channels 0..1, to code values, unrounded. */
static void h273_encode(int matrix, int full, double unit, const double rgb[3], double code[3])
{
    static const double weights[10][2] = { { 0, 0 },       { 0.2126, 0.0722 }, { 0.299, 0.114 }, { 0, 0 },
                                           { 0.30, 0.11 }, { 0.299, 0.114 },   { 0.299, 0.114 }, { 0.212, 0.087 },
                                           { 0, 0 },       { 0.2627, 0.0593 } };
    const double top = 256 * unit - 1, kr = weights[matrix][0], kb = weights[matrix][1];
    const double y = kr * rgb[0] + (1 - kr - kb) * rgb[1] + kb * rgb[2], pb = (rgb[2] - y) / (2 * (1 - kb)),
                 pr = (rgb[0] - y) / (2 * (1 - kr));
    double level[3];                                        /* of R, G, B, for the two matrices of code values */
    for (int i = 0; i < 3; i++)
        level[i] = full ? top * rgb[i] : unit * (219 * rgb[i] + 16);
    if (matrix == 0) {
        code[0] = level[1];
        code[1] = level[2];
        code[2] = level[0];
    } else if (matrix == 8) {
        code[0] = 0.5 * level[1] + 0.25 * (level[0] + level[2]);
        code[1] = 0.5 * level[1] - 0.25 * (level[0] + level[2]) + 128 * unit;
        code[2] = 0.5 * (level[0] - level[2]) + 128 * unit;
    } else {
        code[0] = full ? top * y : unit * (219 * y + 16);
        code[1] = full ? top * pb + 128 * unit : unit * (224 * pb + 128);
        code[2] = full ? top * pr + 128 * unit : unit * (224 * pr + 128);
    }
}

/* What rounding code values by up to a half may change: Cb by 2 (1 - kb) of 255/224, at most. */
TEST(a_chart_encoded_as_h273_says_comes_back)
{
    for (int run = 0; run < 10 * 2 * 9; run++) {
        const int matrix = run % 10, full = run / 10 % 2, depth = 8 + run / 20;
        const double unit = ldexp(1, depth - 8), step = 255 / (219 * unit);
        for (int color = 0; color < 64 && matrix != 3; color++) {
            const double rgb[3] = { color % 4 / 3.0, color / 4 % 4 / 3.0, color / 16 / 3.0 };
            double code[3];
            int rounded[3];
            float out[3];
            h273_encode(matrix, full, unit, rgb, code);
            for (int i = 0; i < 3; i++)
                rounded[i] = (int)fmin(round(code[i]), 256 * unit - 1);
            render_code(matrix, full, depth, rounded, 3, out);
            for (int i = 0; i < 3; i++)
                CHECK_NEAR(out[i], 255 * rgb[i], 1.7 * step + 2e-3);
        }
    }
}

TEST(gray_has_a_range_and_no_matrix)
{
    for (int depth = 8; depth <= 16; depth++)
        for (int i = 0; i < 20; i++) {
            const double unit = ldexp(1, depth - 8), light = i % 10 / 9.0;
            const int full = i / 10, code = (int)lround(full ? light * (256 * unit - 1) : unit * (219 * light + 16));
            float out[3];
            render_code(14, full, depth, &code, 1, out);
            CHECK(out[0] == out[1] && out[1] == out[2]);
            CHECK_NEAR(out[0], 255 * light, 0.6 / unit);
        }
}

/* ---- Chroma formats ---------------------------------------------------------------------------------------------- */

enum { CHART_WIDTH = 32, CHART_HEIGHT = 24, CHART_AREA = CHART_WIDTH * CHART_HEIGHT };

/* Planes of code values in memory, and the picture over them. planes: 1 is gray. */
typedef struct chart {
    bzna_picture picture;
    uint8_t      narrow[3][CHART_AREA];
    uint16_t     wide[3][CHART_AREA];
} chart;

static void chart_init(chart *c, int width, int height, int depth, int planes, int shift_x, int shift_y)
{
    c->picture = (bzna_picture){ .struct_size = sizeof c->picture };
    c->picture.width = c->picture.frame_width = (uint32_t)width;
    c->picture.height = c->picture.frame_height = (uint32_t)height;
    c->picture.depth = (uint32_t)depth;
    c->picture.chroma_shift_x = (uint32_t)shift_x;
    c->picture.chroma_shift_y = (uint32_t)shift_y;
    c->picture.color.present = 1;
    for (int p = 0; p < planes; p++) {
        c->picture.plane[p] = depth > 8 ? (const void *)c->wide[p] : c->narrow[p];
        c->picture.pitch[p] = (width >> (p ? shift_x : 0)) * (depth > 8 ? 2 : 1);
    }
}

static void chart_put(chart *c, int plane, int at, int code)
{
    c->wide[plane][at] = (uint16_t)code;
    c->narrow[plane][at] = (uint8_t)code;
}

static double chart_get(const chart *c, int plane, int at)
{
    return c->picture.depth > 8 ? c->wide[plane][at] : c->narrow[plane][at];
}

/* What lies at a pixel: of luma its sample; of chroma the linear interpolation between samples, which lie where the
 * siting says. */
static double chart_at(const chart *c, int plane, int x, int y)
{
    const int sx = plane ? (int)c->picture.chroma_shift_x : 0, sy = plane ? (int)c->picture.chroma_shift_y : 0;
    const int width = (int)c->picture.width >> sx, height = (int)c->picture.height >> sy;
    double u = c->picture.chroma_left || !sx ? x / ldexp(1, sx) : (x + 0.5) / ldexp(1, sx) - 0.5;
    double v = c->picture.chroma_top || !sy ? y / ldexp(1, sy) : (y + 0.5) / ldexp(1, sy) - 0.5;
    u = fmin(fmax(u, 0), width - 1);
    v = fmin(fmax(v, 0), height - 1);
    const int i = (int)u, j = (int)v, right = i + 1 < width;
    const int at = j * width + i, below = j + 1 < height ? at + width : at;
    u -= i;
    v -= j;
    return (1 - v) * ((1 - u) * chart_get(c, plane, at) + u * chart_get(c, plane, at + right)) +
           v * ((1 - u) * chart_get(c, plane, below) + u * chart_get(c, plane, below + right));
}

/* ITU-T H.273 the other way: code values, which need not be whole, to 0..255. */
static void h273_decode(int matrix, int full, double unit, const double code[3], double rgb[3])
{
    static const double weights[10][2] = { { 0, 0 },       { 0.2126, 0.0722 }, { 0.299, 0.114 }, { 0, 0 },
                                           { 0.30, 0.11 }, { 0.299, 0.114 },   { 0.299, 0.114 }, { 0.212, 0.087 },
                                           { 0, 0 },       { 0.2627, 0.0593 } };
    const double top = 256 * unit - 1, kr = weights[matrix][0], kb = weights[matrix][1];
    const double range = full ? top : 219 * unit, chroma = full ? top : 224 * unit, black = full ? 0 : 16 * unit;
    if (matrix == 0) {
        rgb[0] = code[2] - black;
        rgb[1] = code[0] - black;
        rgb[2] = code[1] - black;
    } else if (matrix == 8) {
        double y = code[0] - black, cg = code[1] - 128 * unit, co = code[2] - 128 * unit;
        rgb[0] = y - cg + co;
        rgb[1] = y + cg;
        rgb[2] = y - cg - co;
    } else {
        double y = code[0] - black;
        rgb[0] = y + 2 * (1 - kr) * (code[2] - 128 * unit) / chroma * range;
        rgb[2] = y + 2 * (1 - kb) * (code[1] - 128 * unit) / chroma * range;
        rgb[1] = (y - kr * rgb[0] - kb * rgb[2]) / (1 - kr - kb);
    }
    for (int i = 0; i < 3; i++)
        rgb[i] = fmin(fmax(255 * rgb[i] / range, 0), 255);
}

/* Twelve colors in blocks of 8x8 pixels, coded as H.273 says and rounded. */
static void chart_draw(chart *c, int planes, double colors[12][3])
{
    const double unit = ldexp(1, (int)c->picture.depth - 8);
    for (int i = 0; i < 12; i++) {
        double code[3];
        for (int k = 0; k < 3; k++)
            colors[i][k] = (i * (k + 2) * 7 + i / 4 * 3 + k) % 11 / 10.0;
        h273_encode(c->picture.color.matrix, c->picture.color.full_range, unit, colors[i], code);
        for (int p = 0; p < planes; p++) {
            const int sx = p ? (int)c->picture.chroma_shift_x : 0, sy = p ? (int)c->picture.chroma_shift_y : 0;
            for (int y = i / 4 * 8 >> sy; y < (i / 4 + 1) * 8 >> sy; y++)
                for (int x = i % 4 * 8 >> sx; x < (i % 4 + 1) * 8 >> sx; x++)
                    chart_put(c, p, y * (CHART_WIDTH >> sx) + x, (int)fmin(round(code[p]), 256 * unit - 1));
        }
    }
}

/* The largest difference from H.273's formulas over the chart, and in the middle of its blocks from the colors that it
 * was drawn in: half a code value of each plane, at most. */
static void chart_check(const chart *c, int planes, double colors[12][3], double *worst, double *middle)
{
    static float out[3 * CHART_AREA];
    const int matrix = c->picture.color.matrix, full = c->picture.color.full_range;
    const double unit = ldexp(1, (int)c->picture.depth - 8);
    bzna_output output = { .struct_size = sizeof output, .width = CHART_WIDTH, .height = CHART_HEIGHT,
                           .layout = BZNA_LAYOUT_NHWC };
    bzna_transform t;
    bzna_transform_init(&t, sizeof t);
    REQUIRE(bzna_picture_render(&c->picture, &t, &output, out, sizeof out, NULL) == BZNA_OK);
    for (int i = 0; i < CHART_AREA; i++) {
        const int x = i % CHART_WIDTH, y = i / CHART_WIDTH, block = y / 8 * 4 + x / 8;
        double code[3] = { 0, 128 * unit, 128 * unit }, rgb[3];
        for (int p = 0; p < planes; p++)
            code[p] = chart_at(c, p, x, y);
        h273_decode(matrix, full, unit, code, rgb);
        for (int k = 0; k < 3; k++) {
            *worst = fmax(*worst, fabs((double)out[3 * i + k] - rgb[k]));
            if (planes == 3 && x % 8 == 4 && y % 8 == 4)
                *middle = fmax(*middle, fabs((double)out[3 * i + k] - 255 * colors[block][k]) * unit);
        }
    }
}

static const struct { int planes, shift_x, shift_y; } chroma_formats[] = {
    { 1, 0, 0 }, { 3, 0, 0 }, { 3, 1, 0 }, { 3, 1, 1 }, { 3, 2, 0 }, { 3, 0, 1 }, { 3, 2, 2 },  /* 4:0:0 .. 4:1:0 */
};

TEST(a_chart_comes_back_in_every_chroma_format_matrix_range_depth_and_siting)
{
    static const int depths[] = { 8, 10, 12, 16 };
    static chart c;
    double worst = 0, middle = 0;
    int charts = 0;
    for (size_t f = 0; f < COUNT(chroma_formats); f++)
        for (int run = 0; run < 10 * 2 * 4 * 4; run++) {
            const int matrix = run % 10, full = run / 10 % 2, siting = run / 80, planes = chroma_formats[f].planes;
            const int is_444 = !chroma_formats[f].shift_x && !chroma_formats[f].shift_y;
            double colors[12][3];
            if (matrix == 3 || (matrix == 0 && (!is_444 || planes == 1)) || (is_444 && siting))
                continue;
            chart_init(&c, CHART_WIDTH, CHART_HEIGHT, depths[run / 20 % 4], planes, chroma_formats[f].shift_x,
                       chroma_formats[f].shift_y);
            c.picture.chroma_left = (uint32_t)siting & 1;
            c.picture.chroma_top = (uint32_t)siting >> 1;
            c.picture.color.matrix = (uint16_t)(planes == 1 && matrix == 8 ? 1 : matrix);   /* YCgCo's Y' is another */
            c.picture.color.full_range = (uint8_t)full;
            chart_draw(&c, planes, colors);
            chart_check(&c, planes, colors, &worst, &middle);
            charts++;
        }
    CHECK_EQ(charts, 4 * 2 * (8 + 9 + 5 * 4 * 8));
    CHECK_NEAR(worst, 0, 1e-3);
    CHECK(middle <= 1.7 * 255 / 219 + 0.6);                 /* as above; of 16 bits, floats round as much again */
}

TEST(gbr_with_less_chroma_is_refused)
{
    static chart c;
    for (size_t f = 2; f < COUNT(chroma_formats); f++) {
        bzna_output output = { .struct_size = sizeof output, .width = 1, .height = 1 };
        bzna_transform t;
        float out[3];
        chart_init(&c, 8, 8, 8, 3, chroma_formats[f].shift_x, chroma_formats[f].shift_y);
        bzna_transform_init(&t, sizeof t);
        CHECK_EQ(bzna_picture_render(&c.picture, &t, &output, out, sizeof out, NULL), BZNA_E_UNSUPPORTED);
    }
}

/* tests/peers/colors.py has the same. */
static int code_of(int plane, int x, int y, int depth)
{
    const int unit = 1 << (depth - 8);
    return ((plane ? 100 : 70) + (x * 37 + y * 101 + plane * 59) % 64) * unit + (x * 7 + y * 13 + plane) % unit;
}

TEST(chroma_of_every_format_and_siting_is_upsampled_as_zscale_does)
{
    static chart c;
    double worst = 0;
    for (size_t i = 0; i < COUNT(zscale_pictures); i++) {
        const int depth = zscale_pictures[i].depth;
        bzna_output output = { .struct_size = sizeof output, .width = 8, .height = 4 };
        bzna_transform t;
        float out[3 * 8 * 4];
        chart_init(&c, 8, 4, depth, 3, zscale_pictures[i].shift_x, zscale_pictures[i].shift_y);
        c.picture.color.matrix = 1;
        c.picture.chroma_left = (uint32_t)zscale_pictures[i].left;
        c.picture.chroma_top = (uint32_t)zscale_pictures[i].top;
        for (int p = 0; p < 3; p++) {
            const int width = 8 >> (p ? zscale_pictures[i].shift_x : 0),
                      height = 4 >> (p ? zscale_pictures[i].shift_y : 0);
            for (int at = 0; at < width * height; at++)
                chart_put(&c, p, at, code_of(p, at % width, at / width, depth));
        }
        bzna_transform_init(&t, sizeof t);
        REQUIRE(bzna_picture_render(&c.picture, &t, &output, out, sizeof out, NULL) == BZNA_OK);
        for (int k = 0; k < 3 * 8 * 4; k++)
            worst = fmax(worst, fabs((double)out[k] - zscale_pictures[i].rgb[k] / 100.0));
    }
    CHECK_EQ(COUNT(zscale_pictures), 4 + 5 + 7 + 2 + 2 + 3);
    CHECK_NEAR(worst, 0, 0.0062);                           /* it is written to two decimals */
}

/* A picture of nine gray samples, a row of them. */
static bzna_picture gray_row(const uint8_t gray[9])
{
    bzna_picture picture;
    picture = (bzna_picture){ .struct_size = sizeof picture };
    picture.depth = 8;
    picture.width = picture.frame_width = 9;
    picture.height = picture.frame_height = 1;
    picture.plane[0] = gray;
    picture.pitch[0] = 9;
    return picture;
}

/* Two pixels, R, G, B = 90, 200, 40 and the color out of bounds, by every order of channels: as they are, and with a
 * matrix that gives G, B, R for R, G, B. bias and scale are of the channels delivered. */
TEST(channels_come_in_the_order_asked_for)
{
    static const uint8_t samples[3] = { 200, 40, 90 };
    static const float turned[12] = { 0, 1, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0 };
    static const struct { float plain[3], turned[3], fill[3]; } expected[] = {
        { { 89, 396, 111 }, { 199, 76, 261 }, { -1, 56, 171 } },
        { { 39, 396, 261 }, { 89, 76, 591 }, { 59, 56, -9 } },
        { { 147.87f, 0, 0 }, { 92.54f, 0, 0 }, { 23.45f, 0, 0 } },
    };
    for (uint32_t run = 0; run < 3 * 2 * 2; run++) {
        const uint32_t channels = run % 3, count = channels == BZNA_CHANNELS_GRAY ? 1 : 3;
        bzna_output output = { .struct_size = sizeof output, .width = 2, .height = 1, .layout = BZNA_LAYOUT_NHWC,
                               .channels = channels };
        bzna_picture picture;
        bzna_transform t;
        float out[6];
        picture = (bzna_picture){ .struct_size = sizeof picture };
        bzna_transform_init(&t, sizeof t);
        picture.depth = 8;
        picture.width = picture.height = picture.frame_width = picture.frame_height = 1;
        picture.color = (bzna_color){ 1, 1, 0, 1, 1 };
        for (int i = 0; i < 3; i++) {
            picture.plane[i] = &samples[i];
            picture.pitch[i] = 1;
            t.bias[i] = t.scale[i] = 1 + (float)i;
            t.fill[i] = 30.0f * (float)i;
        }
        if (run / 3 % 2)
            memcpy(t.color, turned, sizeof turned);
        t.fill_space = run / 6 ? BZNA_FILL_OUTPUT : BZNA_FILL_RGB;
        CHECK_EQ(bzna_picture_render(&picture, &t, &output, out, 2 * count * sizeof *out - 1, NULL), BZNA_E_BUFFER);
        REQUIRE(bzna_picture_render(&picture, &t, &output, out, 2 * count * sizeof *out, NULL) == BZNA_OK);
        for (uint32_t i = 0; i < count; i++) {
            CHECK_NEAR(out[i], (run / 3 % 2 ? expected[channels].turned : expected[channels].plain)[i], 1e-3);
            CHECK_NEAR(out[count + i], t.fill_space ? t.fill[i] : expected[channels].fill[i], 1e-3);
        }
    }
}

/* An element of any type, as a number. */
static double element_of(const void *elements, uint32_t dtype, size_t at)
{
    const uint16_t *words = elements;
    if (dtype == BZNA_DTYPE_UINT8)
        return ((const uint8_t *)elements)[at];
    if (dtype == BZNA_DTYPE_FLOAT32)
        return (double)((const float *)elements)[at];
    const int bits = dtype == BZNA_DTYPE_FLOAT16 ? 10 : 7, bias = dtype == BZNA_DTYPE_FLOAT16 ? 15 : 127;
    const int exponent = (words[at] & 0x7fff) >> bits, fraction = words[at] & ((1 << bits) - 1);
    const double size = ldexp(fraction + (exponent ? 1 << bits : 0), (exponent ? exponent : 1) - bias - bits);
    return words[at] & 0x8000 ? -size : size;
}

/* Every type keeps the number but for its own rounding, here of at most half a unit in the last place. */
TEST(the_color_outside_is_in_units_of_input_or_output_in_every_type)
{
    static const uint8_t gray[9] = { 0 };
    static const float fill[3] = { 200, 31.4f, 300 }, bias[3] = { 12.5f, 40, -20 }, scale[3] = { 0.5f, 2, 1 };
    static const double steps[4] = { 0x1p-24, 0x1p-11, 0x1p-8, 0 };
    for (uint32_t run = 0; run < 4 * 3 * 2 * 2; run++) {
        const uint32_t dtype = run % 4, channels = run / 4 % 3, layout = run / 12 % 2, space = run / 24;
        const size_t count = channels == BZNA_CHANNELS_GRAY ? 1 : 3;
        bzna_output output = { .struct_size = sizeof output, .width = 2, .height = 2, .dtype = dtype, .layout = layout,
                               .channels = channels };
        bzna_picture picture = gray_row(gray);
        bzna_transform t;
        float out[12];
        bzna_transform_init(&t, sizeof t);
        memcpy(t.fill, fill, sizeof fill);
        memcpy(t.bias, bias, sizeof bias);
        memcpy(t.scale, scale, sizeof scale);
        t.fill_space = space;
        t.homography[2] = 1000;
        REQUIRE(bzna_picture_render(&picture, &t, &output, out, sizeof out, NULL) == BZNA_OK);
        for (size_t i = 0; i < 4 * count; i++) {
            const size_t c = layout == BZNA_LAYOUT_NHWC ? i % count : i / 4;
            const double luma = 0.299 * 200 + 0.587 * 31.4 + 0.114 * 300;
            const double x = count == 1 ? luma : (double)fill[channels == BZNA_CHANNELS_BGR ? 2 - c : c];
            double y = space == BZNA_FILL_OUTPUT ? (double)fill[c] : (x - (double)bias[c]) * (double)scale[c];
            y = dtype == BZNA_DTYPE_UINT8 ? fmin(fmax(rint(y), 0), 255) : y;
            CHECK_NEAR(element_of(out, dtype, i), y, steps[dtype] * fabs(y) + (dtype == BZNA_DTYPE_UINT8 ? 0 : 1e-5));
        }
    }
}

/* uint8 needs no alignment, and is y, not x: bias and scale come first. */
TEST(bytes_are_what_scale_and_bias_give)
{
    static const uint8_t gray[9] = { 0, 1, 2, 3, 100, 127, 128, 200, 255 };
    static const uint8_t expected[9] = { 0, 0, 0, 0, 138, 192, 194, 255, 255 };      /* (x - 31) * 2 */
    bzna_picture picture = gray_row(gray);
    bzna_output output = { .struct_size = sizeof output, .width = 9, .height = 1, .dtype = BZNA_DTYPE_UINT8,
                           .channels = BZNA_CHANNELS_GRAY };
    bzna_transform t;
    uint8_t out[10];
    bzna_transform_init(&t, sizeof t);
    picture.color = (bzna_color){ 1, 1, 1, 1, 1 };
    t.bias[0] = 31;
    t.scale[0] = 2;
    CHECK_EQ(bzna_picture_render(&picture, &t, &output, out + 1, 9, NULL), BZNA_OK);
    CHECK(!memcmp(out + 1, expected, 9));
    CHECK_EQ(bzna_picture_render(&picture, &t, &output, out + 1, 8, NULL), BZNA_E_BUFFER);
}

TEST(matrices_that_are_not_known_are_refused)
{
    uint8_t luma = 100, neutral = 128;
    bzna_picture picture = { .struct_size = sizeof picture,
                             .depth = 8,
                             .width = 1,
                             .height = 1,
                             .frame_width = 1,
                             .frame_height = 1,
                             .color = { 1, 1, 14, 1, 1 },
                             .plane = { &luma, &neutral, &neutral },
                             .pitch = { 1, 1, 1 } };
    bzna_output output = { .struct_size = sizeof output, .width = 1, .height = 1 };
    bzna_error e = { .struct_size = sizeof e };
    bzna_transform t;
    float out[3];
    bzna_transform_init(&t, sizeof t);
    for (uint16_t matrix = 0; matrix < 300; matrix++) {     /* 3 is reserved, 11 and 14 are Y'DzDx and ICtCp */
        picture.color.matrix = matrix;
        bzna_status status = bzna_picture_render(&picture, &t, &output, out, sizeof out, &e);
        CHECK_EQ(status, matrix < 11 && matrix != 3 ? BZNA_OK : BZNA_E_UNSUPPORTED);
        if (status != BZNA_OK)
            CHECK_CONTAINS(e.message, matrix == 3 ? "matrix 3 " : matrix == 14 ? "matrix 14 " : "matrix ");
    }
    t.matrix = BZNA_MATRIX_BT601_FULL;
    CHECK_EQ(bzna_picture_render(&picture, &t, &output, out, sizeof out, &e), BZNA_OK);
    for (int i = 0; i < 3; i++)
        CHECK_NEAR(out[i], 100, 1e-3);
    t.matrix = BZNA_MATRIX_BT2020_FULL + 1;
    CHECK_EQ(bzna_picture_render(&picture, &t, &output, out, sizeof out, &e), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(e.message, "transform.matrix");
    t.matrix = BZNA_MATRIX_AUTO;
    picture.plane[1] = picture.plane[2] = NULL;
    CHECK_EQ(bzna_picture_render(&picture, &t, &output, out, sizeof out, &e), BZNA_OK);         /* gray needs none */
    CHECK(out[0] == 100 && out[1] == 100 && out[2] == 100);
}

TEST(what_a_picture_is_rendered_with_is_checked)
{
    static const uint8_t gray[9] = { 16, 235, 126, 16, 16, 16, 16, 16, 16 };
    bzna_picture picture = gray_row(gray);
    bzna_output output;
    bzna_error e;
    bzna_transform t;
    float out[3 * 9 + 1];
    bzna_error_init(&e, sizeof e);
    output = (bzna_output){ .struct_size = sizeof output };
    output.width = 9;
    output.height = 1;
    bzna_transform_init(&t, sizeof t);
    CHECK_EQ(bzna_picture_render(&picture, &t, &output, out, 27 * sizeof *out, &e), BZNA_OK);
    CHECK_NEAR(out[0], 0, 1e-3);                            /* no color is said: limited-range BT.601 */
    CHECK_NEAR(out[1], 255, 1e-3);
    CHECK_EQ(bzna_picture_render(NULL, &t, &output, out, sizeof out, &e), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_picture_render(&picture, NULL, &output, out, sizeof out, &e), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_picture_render(&picture, &t, NULL, out, sizeof out, &e), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_picture_render(&picture, &t, &output, NULL, sizeof out, &e), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_picture_render(&picture, &t, &output, (uint8_t *)out + 2, 27 * sizeof *out, &e), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(e.message, "aligned");
    CHECK_EQ(bzna_picture_render(&picture, &t, &output, out, 26 * sizeof *out, &e), BZNA_E_BUFFER);
    picture.struct_size = 3;
    CHECK_EQ(bzna_picture_render(&picture, &t, &output, out, sizeof out, &e), BZNA_E_STRUCT_SIZE);
    picture = gray_row(gray);
    t.struct_size = 3;
    CHECK_EQ(bzna_picture_render(&picture, &t, &output, out, sizeof out, &e), BZNA_E_STRUCT_SIZE);
    bzna_transform_init(&t, sizeof t);
    output.channels = 3;
    CHECK_EQ(bzna_picture_render(&picture, &t, &output, out, sizeof out, &e), BZNA_E_UNSUPPORTED);
    CHECK_CONTAINS(e.message, "output.channels: 3");
}

/* What a picture shows of its frame: sizes that just fit, and one more. */
TEST(a_crop_must_lie_in_its_frame)
{
    static const struct { uint32_t width, height, x, y, frame_width, frame_height; bzna_status status; } cases[] = {
        { 9, 4, 0, 0, 9, 4, BZNA_OK },            { 4, 2, 5, 2, 9, 4, BZNA_OK },
        { 1, 1, 8, 3, 9, 4, BZNA_OK },            { 10, 4, 0, 0, 9, 4, BZNA_E_ARGUMENT },
        { 9, 5, 0, 0, 9, 4, BZNA_E_ARGUMENT },    { 4, 2, 6, 2, 9, 4, BZNA_E_ARGUMENT },
        { 4, 2, 5, 3, 9, 4, BZNA_E_ARGUMENT },    { 9, 4, 1, 0, 9, 4, BZNA_E_ARGUMENT },
        { 9, 4, 0, 1, 9, 4, BZNA_E_ARGUMENT },    { 4, 2, UINT32_MAX, 0, 9, 4, BZNA_E_ARGUMENT },
        { 4, 2, 0, UINT32_MAX, 9, 4, BZNA_E_ARGUMENT }, { UINT32_MAX, 2, 5, 0, 9, 4, BZNA_E_ARGUMENT },
        { 0, 2, 0, 0, 9, 4, BZNA_E_ARGUMENT },    { 4, 0, 0, 0, 9, 4, BZNA_E_ARGUMENT },
        { 4, 2, 0, 0, 65536, 4, BZNA_E_ARGUMENT }, { 4, 2, 0, 0, 9, 65536, BZNA_E_ARGUMENT },
        { 4, 2, 0, 0, 65535, 4, BZNA_OK }, { 4, 2, 0, 0, 4, 65535, BZNA_OK }, { 4, 2, 0, 2, 65535, 65535, BZNA_OK },
    };
    static uint8_t gray[2 * 65536 * 4];                     /* the frame's row y has 40 * y in all places */
    bzna_picture picture = { .struct_size = sizeof picture, .depth = 8, .plane = { gray }, .color = { 1, 1, 1, 1, 1 } };
    bzna_output output = { .struct_size = sizeof output, .width = 1, .height = 1 };
    bzna_transform t;
    bzna_error e = { .struct_size = sizeof e };
    float out[3];
    bzna_transform_init(&t, sizeof t);
    for (size_t i = 0; i < COUNT(cases); i++) {
        picture.width = cases[i].width;
        picture.height = cases[i].height;
        picture.crop_x = cases[i].x;
        picture.crop_y = cases[i].y;
        picture.frame_width = cases[i].frame_width;
        picture.frame_height = cases[i].frame_height;
        picture.pitch[0] = 65536;
        for (size_t k = 0; k < sizeof gray; k++)
            gray[k] = (uint8_t)(40 * (k / 65536));
        CHECK_EQ(bzna_picture_render(&picture, &t, &output, out, sizeof out, &e), cases[i].status);
        if (cases[i].status == BZNA_OK)                     /* the identity: the crop's first pixel */
            CHECK_NEAR(out[0], 40 * cases[i].y, 1e-3);
        else
            CHECK_CONTAINS(e.message, "is not inside its");
    }
}

/* Of each plane, whatever the others are. */
TEST(planes_that_cannot_be_are_refused_one_by_one)
{
    static uint16_t samples[64];
    const bzna_picture good = { .struct_size = sizeof good, .depth = 10, .width = 4, .height = 4, .frame_width = 4,
                                .frame_height = 4, .plane = { samples, samples, samples }, .pitch = { 8, 8, 8 } };
    bzna_output output = { .struct_size = sizeof output, .width = 4, .height = 4 };
    bzna_transform t;
    bzna_error e = { .struct_size = sizeof e };
    float out[48];
    bzna_transform_init(&t, sizeof t);
    CHECK_EQ(bzna_picture_render(&good, &t, &output, out, sizeof out, &e), BZNA_OK);
    for (int i = 0; i < 23; i++) {
        bzna_picture p = good;
        const int plane = i % 3;
        if (i < 15 && i / 3 != 0 && i / 3 != 1)
            p.depth = i / 3 == 2 ? 8 : 10;
        switch (i < 15 ? i / 3 : i) {
        case 0: p.plane[plane] = (const uint8_t *)samples + 1; break;
        case 1: p.pitch[plane] = 9; break;
        case 2: p.step[plane] = 65536; break;
        case 3: p.step[plane] = 3; break;
        case 4: p.pitch[plane] = plane == 1 ? (int64_t)INT32_MIN - 2 : (int64_t)INT32_MAX + 1; break;
        case 15: p.depth = 7; break;
        case 16: p.depth = 17; break;
        case 17: p.chroma_shift_x = 3; break;
        case 18: p.chroma_shift_y = 3; break;
        case 19: p.plane[0] = NULL; break;
        case 20: p.plane[1] = NULL; break;
        case 21: p.plane[2] = NULL; break;
        default: p.orientation = 9; break;
        }
        CHECK_EQ(bzna_picture_render(&p, &t, &output, out, sizeof out, &e), BZNA_E_ARGUMENT);
        CHECK_CONTAINS(e.message, i < 6 ? "must be aligned" : i < 12 ? "picture.step[" : i < 15 ? "picture.pitch[" :
                                  "8 to 16 bits");
    }
}

/* Of a program whose header ends before scale, color, hls: what is missing is the identity's. */
TEST(what_a_shorter_transform_lacks_has_its_default)
{
    static const size_t sizes[] = { 8, offsetof(bzna_transform, bias), offsetof(bzna_transform, scale),
                                    offsetof(bzna_transform, fill), offsetof(bzna_transform, color),
                                    offsetof(bzna_transform, hls) };
    static const uint8_t gray[9] = { 10, 20, 30, 40, 50, 60, 70, 80, 90 };
    bzna_picture picture = gray_row(gray);
    bzna_output output = { .struct_size = sizeof output, .width = 9, .height = 1 };
    bzna_jitter jitter = { .brightness = { 2, 2 } };
    bzna_transform whole, t;
    bzna_error e = { .struct_size = sizeof e };
    float a[27], b[27];
    bzna_transform_init(&whole, sizeof whole);
    picture.color = (bzna_color){ 1, 1, 1, 1, 1 };
    CHECK_EQ(bzna_picture_render(&picture, &whole, &output, a, sizeof a, &e), BZNA_OK);
    CHECK_NEAR(a[8], 90, 1e-3);
    for (size_t i = 0; i < COUNT(sizes); i++) {
        bzna_random random = stream(3);
        bzna_transform_init(&t, sizes[i]);
        memset((uint8_t *)&t + sizes[i], 0xaa, sizeof t - sizes[i]);
        CHECK_EQ(bzna_picture_render(&picture, &t, &output, b, sizeof b, &e), BZNA_OK);
        CHECK(!memcmp(a, b, sizeof a));
        CHECK_EQ(bzna_jitter_draw(&random, &jitter, NULL, &t, &e), BZNA_OK);
        CHECK_EQ(t.struct_size, sizes[i]);
        CHECK_EQ(((const uint8_t *)&t)[sizes[i]], 0xaa);
    }
}

/* Those of a program that was compiled with an older header, and with a newer one. */
TEST(a_transform_of_another_size_is_filled_in_and_taken_as_far_as_both_know_it)
{
    enum { OLDER = offsetof(bzna_transform, hls) };
    struct { bzna_transform known; uint32_t added[4]; } future;
    bzna_transform t, whole;
    bzna_jitter jitter = { .brightness = { 2, 2 } };
    bzna_random random = stream(3);
    static const uint8_t gray[9] = { 100, 100, 100, 100, 100, 100, 100, 100, 100 };
    bzna_picture picture = gray_row(gray);
    bzna_output output = { .struct_size = sizeof output, .width = 9, .height = 1 };
    bzna_error e = { .struct_size = sizeof e };
    float a[27], b[27];
    bzna_transform_init(&whole, sizeof whole);
    CHECK_EQ(whole.struct_size, sizeof whole);
    memset(&t, 0xaa, sizeof t);
    bzna_transform_init(&t, OLDER);
    CHECK_EQ(t.struct_size, OLDER);
    CHECK(!memcmp((const uint8_t *)&t + 4, (const uint8_t *)&whole + 4, OLDER - 4));
    for (size_t i = OLDER; i < sizeof t; i++)
        CHECK_EQ(((const uint8_t *)&t)[i], 0xaa);
    picture.color = (bzna_color){ 1, 1, 1, 1, 1 };
    CHECK_EQ(bzna_picture_render(&picture, &whole, &output, a, sizeof a, &e), BZNA_OK);
    CHECK_EQ(bzna_picture_render(&picture, &t, &output, b, sizeof b, &e), BZNA_OK);       /* 0xaa would be an hls */
    CHECK(!memcmp(a, b, sizeof a));
    CHECK_EQ(bzna_jitter_draw(&random, &jitter, NULL, &t, &e), BZNA_OK);
    CHECK_EQ(t.struct_size, OLDER);
    for (size_t i = OLDER; i < sizeof t; i++)
        CHECK_EQ(((const uint8_t *)&t)[i], 0xaa);
    memset(&future, 0, sizeof future);
    memset(&future.known, 0xaa, sizeof future.known);
    bzna_transform_init(&future.known, sizeof future);
    CHECK_EQ(future.known.struct_size, sizeof future);
    CHECK_EQ(bzna_picture_render(&picture, &future.known, &output, b, sizeof b, &e), BZNA_OK);
    CHECK(!memcmp(a, b, sizeof a));
    future.added[3] = 1;
    CHECK_EQ(bzna_picture_render(&picture, &future.known, &output, b, sizeof b, &e), BZNA_E_STRUCT_SIZE);
    CHECK_CONTAINS(e.message, "transform.struct_size");
    CHECK_EQ(bzna_jitter_draw(&random, &jitter, NULL, &future.known, &e), BZNA_E_STRUCT_SIZE);
    for (uint32_t size = 0; size < 4; size++) {
        t.struct_size = size;
        CHECK_EQ(bzna_jitter_draw(&random, &jitter, NULL, &t, &e), BZNA_E_STRUCT_SIZE);
    }
    memset(&t, 0xaa, sizeof t);
    bzna_transform_init(&t, 3);                             /* no room for the size itself: nothing is written */
    CHECK_EQ(t.struct_size, 0xaaaaaaaa);
    bzna_transform_init(NULL, sizeof t);
}

TEST(numbers_that_would_overflow_are_refused)
{
    bzna_warp w = similarity();
    bzna_random random = stream(1);
    double h[9];
    w.translate[0] = 1e308;
    CHECK_EQ(bzna_warp_draw(&random, &w, 10, 10, 10, 10, h, NULL), BZNA_E_ARGUMENT);
    w = similarity();
    w.degrees[1] = 1e300;
    CHECK_EQ(bzna_warp_draw(&random, &w, 10, 10, 10, 10, h, NULL), BZNA_E_ARGUMENT);
}

TEST_MAIN(
    RUN(what_a_picture_is_rendered_with_is_checked)
    RUN(a_crop_must_lie_in_its_frame)
    RUN(planes_that_cannot_be_are_refused_one_by_one)
    RUN(a_transform_of_another_size_is_filled_in_and_taken_as_far_as_both_know_it)
    RUN(numbers_that_would_overflow_are_refused)
    RUN(the_affine_matrix_is_the_originals)
    RUN(a_larger_struct_is_taken_when_its_tail_is_zero)
    RUN(a_similarity_is_drawn_as_documented)
    RUN(a_range_of_no_width_takes_no_random_number)
    RUN(each_range_takes_one_number_of_two_words)
    RUN(the_law_of_benzina_is_log_uniform_in_area_and_ratio)
    RUN(the_law_of_torchvision_is_uniform_in_area_and_rounds)
    RUN(crops_stay_inside_pictures_of_any_size)
    RUN(a_crop_as_wide_as_the_picture_is_drawn_like_any_other)
    RUN(extreme_pictures_get_the_largest_central_crop)
    RUN(a_fallback_leaves_the_next_sample_alone)
    RUN(a_crop_larger_than_the_picture_without_a_ratio_is_no_sliver)
    RUN(flips_come_with_their_probabilities)
    RUN(a_flip_mirrors_about_the_middle)
    RUN(rotations_and_shifts_are_uniform_and_turn_about_the_middle)
    RUN(center_resized_crop_by_the_originals_law_resizes_the_short_edge_to_256_and_crops_224)
    RUN(both_resized_crops_follow_torchvision_where_no_law_is_named)
    RUN(center_resized_crop_by_torchvisions_law_is_its_resize_and_center_crop)
    RUN(torchvisions_law_fills_outputs_that_are_no_squares)
    RUN(no_warp_is_the_centered_picture_one_to_one)
    RUN(a_similarity_without_meaning_is_refused)
    RUN(a_perspective_is_torchvisions)
    RUN(no_warp_takes_whole_pixels_where_torchvisions_center_crop_does)
    RUN(without_a_warp_a_picture_just_covers_the_output_and_is_centered)
    RUN(mxnets_warp_and_the_originals_do_not_scale_by_themselves)
    RUN(rotation_and_shear_are_torchvisions)
    RUN(what_goes_on_top_of_a_warp_is_of_its_output)
    RUN(rotation_shear_and_corners_are_uniform)
    RUN(mxnets_affine_is_drawn_as_documented)
    RUN(mxnets_affine_and_crops_are_uniform)
    RUN(mxnets_resize_of_the_short_edge_is_before_all)
    RUN(mxnet_takes_its_pixels_from_the_same_places)
    RUN(mxnet_crops_at_random_from_what_it_has_enlarged)
    RUN(settings_on_top_of_a_warp_are_checked)
    RUN(every_step_of_color_is_torchvisions_and_in_its_order)
    RUN(moves_of_hue_lightness_and_saturation_are_opencvs)
    RUN(hls_comes_before_brightness_and_contrast_after_it)
    RUN(contrast_is_about_the_mean_of_what_is_inside_and_the_fill_stays)
    RUN(mxnets_hls_are_integers_by_its_law_drawn_one_after_the_other)
    RUN(colors_of_a_transform_are_checked)
    RUN(mxnets_contrast_and_illumination_are_about_the_mean)
    RUN(factors_are_uniform_and_gray_comes_with_its_probability)
    RUN(a_jitter_goes_behind_the_color_that_is_there_and_is_checked)
    RUN(a_loaders_warp_fields_mean_what_the_header_says)
    RUN(what_a_shorter_transform_lacks_has_its_default)
    RUN(zeros_of_a_transform_and_of_a_picture_are_their_defaults)
    RUN(inits_fill_no_more_than_the_caller_has)
    RUN(matrix_code_points_have_their_weights)
    RUN(forced_matrices_replace_the_streams)
    RUN(colors_coded_by_a_matrix_come_back_through_it)
    RUN(every_matrix_range_and_depth_gives_what_zscale_gives)
    RUN(a_chart_encoded_as_h273_says_comes_back)
    RUN(gray_has_a_range_and_no_matrix)
    RUN(a_chart_comes_back_in_every_chroma_format_matrix_range_depth_and_siting)
    RUN(gbr_with_less_chroma_is_refused)
    RUN(chroma_of_every_format_and_siting_is_upsampled_as_zscale_does)
    RUN(channels_come_in_the_order_asked_for)
    RUN(the_color_outside_is_in_units_of_input_or_output_in_every_type)
    RUN(bytes_are_what_scale_and_bias_give)
    RUN(matrices_that_are_not_known_are_refused)
)
