/* test_kernels.c - the pixel arithmetic, as C: what each loop computes, and that all of them compute the same. */
#include "library.h"
#include "test.h"
#include "random.h"

#define SENTINEL (-12345.0f)

/* ---- Random pictures --------------------------------------------------------------------------------------------- */

/* A frame in memory of exactly its size, so that a sanitizer sees every step outside. Cr of a semi-planar frame lies in
 * memory[1]. */
typedef struct frame {
    bzi_kernel_slot slot;
    uint8_t *memory[3];
    size_t   bytes[3];
} frame;

static void frame_free(frame *f)
{
    for (int p = 0; p < 3; p++)
        free(f->memory[p]);
}

/* A frame_w x frame_h frame of noise; planes: 1 gray, 2 semi-planar (NV12, P016), 3 planar. The picture is the whole
 * frame. */
static frame frame_make(int32_t frame_w, int32_t frame_h, int planes, int32_t shift_x, int32_t shift_y, int32_t depth,
                        int32_t padding)
{
    frame f;
    memset(&f, 0, sizeof f);
    bzi_kernel_slot *slot = &f.slot;
    int32_t size = depth > 8 ? 2 : 1;
    for (int p = 0; p < planes; p++) {
        int32_t width  = p ? (frame_w + (1 << shift_x) - 1) >> shift_x : frame_w;
        int32_t height = p ? (frame_h + (1 << shift_y) - 1) >> shift_y : frame_h;
        slot->step[p]  = p && planes == 2 ? 2 * size : size;
        slot->pitch[p] = width * slot->step[p] + padding * size;
        f.bytes[p]  = (size_t)slot->pitch[p] * (size_t)(height - 1) + (size_t)(width * slot->step[p]);
        f.memory[p] = malloc(f.bytes[p]);
        if (!f.memory[p])
            abort();
        for (size_t i = 0; i < f.bytes[p]; i++)
            f.memory[p][i] = (uint8_t)random_u32();
        for (size_t i = 0; size == 2 && i + 1 < f.bytes[p]; i += 2)
            f.memory[p][i + 1] &= (uint8_t)((1 << (depth - 8)) - 1);
        slot->plane[p] = (uint64_t)(uintptr_t)f.memory[p];
    }
    if (planes == 2) {
        slot->plane[2] = slot->plane[1] + (uint64_t)size;
        slot->pitch[2] = slot->pitch[1];
        slot->step[2]  = slot->step[1];
    }
    slot->x1 = frame_w - 1;
    slot->y1 = frame_h - 1;
    slot->shift_x = shift_x;
    slot->shift_y = shift_y;
    slot->depth   = depth;
    slot->antialias = 1;
    slot->h[0] = slot->h[4] = slot->h[8] = 1.0f;
    bzi_kernel_rgb_matrix(0.299, 0.114, 1, depth, slot->rgb);
    for (int c = 0; c < 3; c++) {
        slot->color[c * 5] = slot->scale[c] = 1.0f;
        slot->luma[c] = (const float[]){ 0.299f, 0.587f, 0.114f }[c];
        slot->fill[c] = (float)(-1000 - c);
    }
    return f;
}

static frame frame_random(void)
{
    /* wide ones are read where they lie (bzi_kernel_read_row), with pitches of 63 and 64 among them */
    int32_t w = random_int(0, 2) ? random_int(1, 40) : random_int(55, 150), h = random_int(1, 40);
    int32_t depth = random_int(0, 3) ? 8 : random_int(9, 16);
    frame f = frame_make(w, h, random_int(1, 3), random_int(0, 2), random_int(0, 2), depth, random_int(0, 5));
    bzi_kernel_slot *slot = &f.slot;
    if (random_int(0, 2)) {
        slot->x0 = random_int(0, w - 1);
        slot->y0 = random_int(0, h - 1);
        slot->x1 = random_int(slot->x0, w - 1);
        slot->y1 = random_int(slot->y0, h - 1);
    }
    slot->left = random_int(0, 1);
    slot->top  = random_int(0, 1);
    bzi_kernel_rgb_matrix(0.2126, 0.0722, random_int(0, 1), depth, slot->rgb);
    slot->flags = random_int(0, 1) ? BZI_KERNEL_COLOR : 0;
    for (int i = 0; i < 12; i++)
        slot->color[i] += (float)(i % 4 == 3 ? random_real(-30, 30) : random_real(-0.3, 0.3));
    for (int c = 0; c < 3; c++) {
        slot->bias[c]  = (float)random_real(0, 255);
        slot->scale[c] = (float)random_real(-1, 1);
    }
    return f;
}

/* ---- Rendering --------------------------------------------------------------------------------------------------- */

enum { EDGE = 48, ROOM = 3 * EDGE * EDGE + 2 }; /* outputs are at most EDGE x EDGE; one guard before, one behind */
static float buffer_a[ROOM], buffer_b[ROOM];
static _Alignas(16) uint8_t bytes_a[4 * ROOM + 32], bytes_b[4 * ROOM + 32];       /* guards of 16 bytes */

enum { NCHW, NHWC };
static bzi_kernel_output output_of(int32_t width, int32_t height, int layout, uint32_t dtype, uint32_t channels)
{
    bzi_kernel_output out = { .width = width, .height = height, .dtype = dtype, .channels = channels };
    out.stride_c = layout == NHWC ? 1 : (int64_t)width * height;
    out.stride_x = layout == NHWC ? (int64_t)channels : 1;
    out.stride_y = width * out.stride_x;
    return out;
}

static bzi_kernel_output output_nchw(int32_t width, int32_t height) { return output_of(width, height, NCHW, 0, 3); }
static bzi_kernel_output output_nhwc(int32_t width, int32_t height) { return output_of(width, height, NHWC, 0, 3); }

/* Any filter; half of them without antialias, which area does not do without. */
static void random_filter(bzi_kernel_slot *slot)
{
    slot->filter = random_int(0, 2) ? (uint32_t)random_int(0, 6) : BZNA_FILTER_LINEAR;
    slot->antialias = slot->filter != BZNA_FILTER_AREA && random_int(0, 1);
}

/* A mean picture of noise, in memory that all share; fill is in R, G, B or in units of the output. */
static void random_mean(bzi_kernel_slot *slot, bzi_kernel_output *out)
{
    static float mean[3 * EDGE * EDGE];
    for (size_t i = 0; i < sizeof mean / sizeof *mean; i++)
        mean[i] = (float)random_int(0, 255);
    out->mean = (uint64_t)(uintptr_t)mean;
    slot->flags |= random_int(0, 1) ? BZI_KERNEL_FILL_MEAN : 0;
}

/* A slot that is delivered in one channel is mostly gray. */
static bzi_kernel_output output_random(bzi_kernel_slot *slot, int32_t width, int32_t height)
{
    int layout = random_int(0, 2) ? NCHW : NHWC;
    uint32_t dtype = (uint32_t)random_int(0, 3), channels = random_int(0, 3) ? 3 : 1;
    if ((channels == 1) == (random_int(0, 9) != 0))
        slot->flags |= BZI_KERNEL_GRAY;
    bzi_kernel_output out = output_of(width, height, layout, dtype, channels);
    if (random_int(0, 3) == 0)
        random_mean(slot, &out);
    return out;
}

static size_t element_bytes(const bzi_kernel_output *out) { return (const size_t[]){ 4, 2, 2, 1 }[out->dtype]; }

static size_t output_bytes(const bzi_kernel_output *out)
{
    return out->channels * (size_t)out->width * (size_t)out->height * element_bytes(out);
}

typedef void (*warp_fn)(const bzi_kernel_slot *slot, const bzi_kernel_output *out);

/* NaN everywhere: what is read before it is written shows. */
static void *workspace_make(size_t bytes)
{
    void *workspace = malloc(bytes ? bytes : 1);
    if (!workspace)
        abort();
    return memset(workspace, 0xff, bytes);
}

static void warp_front(const bzi_kernel_slot *slot, const bzi_kernel_output *out)
{
    size_t bytes = bzi_kernel_warp_bytes(slot, out);
    void *workspace = workspace_make(bytes);
    bzi_kernel_warp(slot, out, workspace, bytes);
    free(workspace);
}

static void warp_separable(const bzi_kernel_slot *slot, const bzi_kernel_output *out)
{
    size_t bytes = bzi_kernel_warp_bytes(slot, out);
    void *workspace = workspace_make(bytes);
    CHECK_EQ(bytes > 0, bzi_kernel_has_vectors());
    CHECK_EQ(bzi_kernel_warp_rows(slot, out, workspace, bytes), bzi_kernel_has_vectors());
    if (!bzi_kernel_has_vectors())
        bzi_kernel_warp_plain(slot, out);
    free(workspace);
}

/* Renders into buffer[1...]; every element of the slot is written, and no other. Returns the first element. */
static const float *render(warp_fn warp, bzi_kernel_slot slot, bzi_kernel_output out, float *buffer)
{
    size_t count = 3 * (size_t)out.width * (size_t)out.height, unwritten = 0;
    for (size_t i = 0; i < count + 2; i++)
        buffer[i] = SENTINEL;
    slot.dst = (uint64_t)(uintptr_t)(buffer + 1);
    warp(&slot, &out);
    for (size_t i = 1; i <= count; i++)
        unwritten += buffer[i] == SENTINEL;
    CHECK_EQ(unwritten, 0);
    CHECK(buffer[0] == SENTINEL && buffer[count + 1] == SENTINEL);
    return buffer + 1;
}

/* The same of any type, to buffer + 16: what is written over one pattern and over another is equal. */
static const uint8_t *render_bytes(warp_fn warp, bzi_kernel_slot slot, bzi_kernel_output out, uint8_t *buffer)
{
    static uint8_t first[sizeof bytes_a];
    const size_t bytes = output_bytes(&out);
    slot.dst = (uint64_t)(uintptr_t)(buffer + 16);
    for (int way = 0; way < 2; way++) {
        const uint8_t pattern = way ? 0x5a : 0xa5;
        memset(buffer, pattern, bytes + 32);
        warp(&slot, &out);
        for (size_t i = 0; i < 16; i++)
            CHECK(buffer[i] == pattern && buffer[16 + bytes + i] == pattern);
        CHECK(!way || !memcmp(first, buffer + 16, bytes));
        memcpy(first, buffer + 16, bytes);
    }
    return buffer + 16;
}

static int same_bits(warp_fn a, warp_fn b, const bzi_kernel_slot *slot, bzi_kernel_output out)
{
    if (out.dtype != BZNA_DTYPE_FLOAT32 || out.channels != 3) {
        render_bytes(a, *slot, out, bytes_a);
        render_bytes(b, *slot, out, bytes_b);
        return !memcmp(bytes_a + 16, bytes_b + 16, output_bytes(&out));
    }
    render(a, *slot, out, buffer_a);
    render(b, *slot, out, buffer_b);
    return !memcmp(buffer_a, buffer_b, sizeof(float) * (3 * (size_t)out.width * (size_t)out.height + 1));
}

/* One channel of the pixel where (u, v) is sampled. */
static float sample_at(const frame *f, float u, float v, int channel)
{
    bzi_kernel_slot slot = f->slot;
    const float h[9] = { 0, 0, u, 0, 0, v, 0, 0, 1 };
    memcpy(slot.h, h, sizeof h);
    CHECK(same_bits(bzi_kernel_warp_plain, warp_separable, &slot, output_nchw(1, 1)));
    return render(bzi_kernel_warp_plain, slot, output_nchw(1, 1), buffer_a)[channel];
}

/* ---- The oracle: TRANSFORMS in double precision, in frame coordinates -------------------------------------------- */

static double oracle_fetch(const bzi_kernel_slot *slot, int p, int32_t x, int32_t y)
{
    const uint8_t *at = (const uint8_t *)(uintptr_t)slot->plane[p] + (ptrdiff_t)y * slot->pitch[p] +
                        (ptrdiff_t)x * slot->step[p];
    return slot->depth <= 8 ? at[0] : (at[0] + 256 * at[1]) >> slot->low_zeros;
}

static double sinc(double x) { return x == 0 ? 1 : sin(acos(-1) * x) / (acos(-1) * x); }

/* The weight of a sample at distance d where the warp shrinks by s, as the filter is published; area: how much of the
 * sample is covered. */
static double oracle_weight(uint32_t filter, double d, double s)
{
    const double a = filter == BZNA_FILTER_CUBIC ? -0.5 : -0.75, n = filter == BZNA_FILTER_LANCZOS3 ? 3 : 4, x = d / s;
    if (filter == BZNA_FILTER_AREA)
        return fmax(0, fmin(d + 0.5, s / 2) - fmax(d - 0.5, -s / 2));
    if (filter == BZNA_FILTER_LINEAR)
        return fmax(0, 1 - x);
    if (filter == BZNA_FILTER_LANCZOS3 || filter == BZNA_FILTER_LANCZOS4)
        return x < n ? sinc(x) * sinc(x / n) : 0;
    return x < 1 ? (a + 2) * x * x * x - (a + 3) * x * x + 1 : x < 2 ? a * (x * x * x - 5 * x * x + 8 * x - 4) : 0;
}

/* Weights of samples low..high around t, of which there are some; what lies outside has none, or adds to the border. */
typedef struct oracle_axis {
    int    low, high;
    double weight[512];
} oracle_axis;

static oracle_axis oracle_weights(const bzi_kernel_slot *slot, double t, double s, int first, int last)
{
    const int is_opencv = slot->filter == BZNA_FILTER_CUBIC_075 || slot->filter == BZNA_FILTER_LANCZOS4;
    oracle_axis axis = { .low = last, .high = first };
    double sum = 0;
    memset(axis.weight, 0, sizeof axis.weight);
    s = fmin(fmax(s, 1), last - first + 1);
    for (int i = (int)floor(t - 4 * s) - 1; i <= t + 4 * s + 1; i++) {
        double weight = oracle_weight(slot->filter, fabs(i - t), s);
        int at = i < first ? first : i > last ? last : i;
        if ((at != i && !is_opencv) || weight == 0)
            continue;
        axis.weight[at] += weight;
        axis.low  = at < axis.low ? at : axis.low;
        axis.high = at > axis.high ? at : axis.high;
        sum += weight;
    }
    for (int i = axis.low; i <= axis.high; i++)
        axis.weight[i] /= sum;
    return axis;
}

/* The length of a gradient as the kernel approximates it. */
static double oracle_length(double a, double b)
{
    double longer = fmax(fabs(a), fabs(b)), shorter = fmin(fabs(a), fabs(b));
    return longer > 0 ? longer + shorter * shorter / (2 * longer + (sqrt(2) - 1) * shorter) : 0;
}

/* The filter of an axis and what it widens by. Chroma of fewer samples than luma is interpolated linearly if the warp
 * does not shrink it; if it does, linear and area widen as if it had been interpolated to luma's size before. */
static double oracle_filter(bzi_kernel_slot *slot, int shift, double shrink)
{
    const double s = shrink / (1 << shift);
    const int is_ramp = slot->filter <= BZNA_FILTER_AREA && slot->filter != BZNA_FILTER_CUBIC;
    if (shift && s <= 1 && slot->filter != BZNA_FILTER_AREA)
        slot->filter = BZNA_FILTER_LINEAR;
    return shift && shrink > 1 && is_ramp ? oracle_length(1, s) : s;
}

/* Of frame coordinates x, y, where the warp shrinks by shrink[]. */
static double oracle_plane(const bzi_kernel_slot *slot, int p, double x, double y, const double shrink[2])
{
    int32_t sx = p ? slot->shift_x : 0, sy = p ? slot->shift_y : 0;
    double sum = 0;
    if (!slot->plane[p])
        return ldexp(1, slot->depth - 1);
    bzi_kernel_slot at = *slot;
    if (slot->filter == BZNA_FILTER_NEAREST) {
        x = floor(x + 0.5);
        y = floor(y + 0.5);
        at.filter = BZNA_FILTER_LINEAR;
    }
    x = slot->left && p ? x / (1 << sx) : (x + 0.5) / (1 << sx) - 0.5;
    y = slot->top && p ? y / (1 << sy) : (y + 0.5) / (1 << sy) - 0.5;
    bzi_kernel_slot of_x = at, of_y = at;
    const double wide_x = oracle_filter(&of_x, sx, shrink[0]), wide_y = oracle_filter(&of_y, sy, shrink[1]);
    oracle_axis ax = oracle_weights(&of_x, x, wide_x, slot->x0 >> sx, slot->x1 >> sx);
    oracle_axis ay = oracle_weights(&of_y, y, wide_y, slot->y0 >> sy, slot->y1 >> sy);
    for (int j = ay.low; j <= ay.high; j++)
        for (int i = ax.low; i <= ax.high; i++)
            sum += ax.weight[i] * ay.weight[j] * oracle_fetch(slot, p, i, j);
    return sum;
}

/* What filters widen by where x, y is mapped to u, v. */
static void oracle_shrink(const bzi_kernel_slot *slot, double u, double v, double w, double shrink[2])
{
    static const double supports[] = { 1, 1, 2, 1, 4, 3, 2 };
    const float *h = slot->h;
    const int separable = h[6] == 0 && h[7] == 0 && ((h[1] == 0 && h[3] == 0) || (h[0] == 0 && h[4] == 0));
    shrink[0] = oracle_length((h[0] - u * h[6]) / w, (h[1] - u * h[7]) / w);
    shrink[1] = oracle_length((h[3] - v * h[6]) / w, (h[4] - v * h[7]) / w);
    for (int k = 0; k < 2; k++) {
        shrink[k] = separable ? shrink[k] : fmin(shrink[k], BZI_KERNEL_TAPS / 2 / supports[slot->filter]);
        shrink[k] = slot->antialias || slot->filter == BZNA_FILTER_NEAREST ? 1 : shrink[k];
    }
}

static void oracle_mix(const float m[12], double c[3])
{
    const double in[4] = { c[0], c[1], c[2], 1 };
    for (int i = 0; i < 3; i++) {
        double sum = 0;
        for (int k = 0; k < 4; k++)
            sum += (double)m[i * 4 + k] * in[k];
        c[i] = fmin(fmax(sum, 0), 255);
    }
}

/* 0: (x, y) is so near to the edge of the picture that rounding decides. */
static int oracle(const bzi_kernel_slot *slot, int32_t x, int32_t y, double c[3])
{
    const float *h = slot->h;
    double w = (double)h[6] * x + (double)h[7] * y + h[8], u = ((double)h[0] * x + (double)h[1] * y + h[2]) / w;
    double v = ((double)h[3] * x + (double)h[4] * y + h[5]) / w, right = slot->x1 - slot->x0 + 0.5,
           bottom = slot->y1 - slot->y0 + 0.5;
    double near = fmin(fmin(fabs(u + 0.5), fabs(u - right)), fmin(fabs(v + 0.5), fabs(v - bottom)));
    if (near < 1e-3)
        return 0;
    if (slot->filter == BZNA_FILTER_NEAREST && (fabs(u - rint(u)) > 0.499 || fabs(v - rint(v)) > 0.499))
        return 0;
    if (!(u >= -0.5 && v >= -0.5 && u <= right && v <= bottom)) {
        for (int i = 0; i < 3; i++)
            c[i] = slot->fill[i];
        return 1;
    }
    double shrink[2];
    oracle_shrink(slot, u, v, w, shrink);
    if (slot->filter == BZNA_FILTER_NEAREST || slot->antialias ||
        (h[6] == 0 && h[7] == 0 && shrink[0] <= 1 && shrink[1] <= 1)) {     /* the border pixel, and chroma there */
        const int is_ramp = slot->filter <= BZNA_FILTER_NEAREST || slot->filter == BZNA_FILTER_AREA;
        u = is_ramp ? fmin(fmax(u, 0), right - 0.5) : u;
        v = is_ramp ? fmin(fmax(v, 0), bottom - 0.5) : v;
    }
    for (int p = 0; p < 3; p++)
        c[p] = oracle_plane(slot, p, u + slot->x0, v + slot->y0, shrink);
    oracle_mix(slot->rgb, c);
    if (slot->flags & BZI_KERNEL_COLOR)
        oracle_mix(slot->color, c);
    for (int i = 0; i < 3; i++)
        c[i] = (c[i] - slot->bias[i]) * slot->scale[i];
    return 1;
}

/* ---- The loops agree --------------------------------------------------------------------------------------------- */

TEST(the_separable_loop_equals_the_plain_one_to_the_bit)
{
    int different = 0;
    random_state = 1;
    for (int i = 0; i < ROUNDS(1500, 500); i++) {
        frame f = frame_random();
        int32_t width = random_int(1, EDGE), height = random_int(1, EDGE);
        random_crop(&f.slot, width, height);
        random_filter(&f.slot);
        if (i % 3 == 0)
            random_jitter(&f.slot);
        bzi_kernel_output out = output_random(&f.slot, width, height);
        different += !same_bits(bzi_kernel_warp_plain, warp_separable, &f.slot, out);
        frame_free(&f);
    }
    CHECK_EQ(different, 0);
}

/* Rows are written in vectors, of which the last overlaps the one before; at shift elements behind a cache line. */
static int rows_equal_the_plain_loop(const bzi_kernel_slot *given, const bzi_kernel_output *out, warp_fn warp,
                                     int shift)
{
    static _Alignas(64) uint8_t expected[4 * 3 * 300 * 3 + 192], made[sizeof expected];
    const size_t first = 64 + (size_t)shift * element_bytes(out);
    bzi_kernel_slot slot = *given;
    memset(expected, 0xa5, sizeof expected);
    memset(made, 0xa5, sizeof made);
    slot.dst = (uint64_t)(uintptr_t)(expected + first);
    bzi_kernel_warp_plain(&slot, out);
    slot.dst = (uint64_t)(uintptr_t)(made + first);
    warp(&slot, out);
    return !memcmp(expected, made, sizeof made);
}

TEST(rows_of_every_width_equal_the_plain_loop_to_the_bit)
{
    int different = 0;
    random_state = 29;
    for (int32_t i = 1; i <= 82; i++) {
        const int32_t width = i <= 80 ? i : i + 218;        /* 299, 300 */
        for (uint32_t k = ROUNDS(0, (uint32_t)i % 3); k < 4 * 2 * 7; k += ROUNDS(1, 3)) {
            frame f = frame_random();
            random_crop(&f.slot, width, 3);
            f.slot.filter = k % 7;
            f.slot.antialias = f.slot.filter != BZNA_FILTER_AREA && random_int(0, 1);
            if (f.slot.filter != BZNA_FILTER_NEAREST && random_int(0, 3) == 0)
                f.slot.antialias = BZNA_ANTIALIAS_ROUND;
            if (random_int(0, 3) == 0)
                random_jitter(&f.slot);
            f.slot.flags &= random_int(0, 1) ? ~BZI_KERNEL_COLOR : ~0u;     /* is_plain */
            bzi_kernel_output out = output_of(width, 3, k / 7 % 2 ? NHWC : NCHW, k / 14, 3);
            if (random_int(0, 5) == 0)
                random_mean(&f.slot, &out);
            const int shift = random_int(0, 2) ? 0 : random_int(1, 15);
            different += !rows_equal_the_plain_loop(&f.slot, &out, warp_separable, shift);
            frame_free(&f);
        }
    }
    CHECK_EQ(different, 0);
}

static int copied;                                        /* slots that were copies */

static void warp_copy(const bzi_kernel_slot *slot, const bzi_kernel_output *out)
{
    const int is_copy = bzi_kernel_warp_copy(slot, out);
    copied += is_copy;
    if (!is_copy)
        bzi_kernel_warp_plain(slot, out);
}

/* A picture of R'G'B' or gray, in planes or pixels, with `gap` bytes between rows. */
static frame frame_to_copy_of(int32_t w, int32_t h, int is_gray, int32_t gap)
{
    const int32_t is_pixels = !is_gray && random_int(0, 2) == 0;
    frame f = frame_make(is_pixels ? 3 * w : w, h, is_gray || is_pixels ? 1 : 3, 0, 0, 8, gap);
    bzi_kernel_slot *slot = &f.slot;
    for (int p = 1; p < 3 && is_pixels; p++) {
        slot->plane[p] = slot->plane[0] + (uint64_t)p;
        slot->pitch[p] = slot->pitch[0];
    }
    for (int p = 0; p < 3 && is_pixels; p++)
        slot->step[p] = 3;
    slot->x1 = w - 1;
    slot->filter = (uint32_t[]){ BZNA_FILTER_LINEAR, BZNA_FILTER_NEAREST }[random_int(0, 1)];
    slot->antialias = (uint32_t)random_int(0, slot->filter == BZNA_FILTER_LINEAR ? 2 : 1);
    bzi_kernel_identity_matrix(is_gray, random_int(0, 2) > 0, 8, slot->rgb);
    for (int c = 0; c < 3; c++) {
        slot->bias[c] = (float)random_real(0, 255);
        slot->scale[c] = (float)random_real(-1, 1);
        slot->fill[c] = (float)random_real(-300, 300);
    }
    return f;
}

/* Such a picture, of which an H shifts a part by whole pixels, mostly so that parts lie outside, and mirrors. */
static frame frame_to_copy(int32_t width, int32_t height, int is_gray)
{
    const int32_t w = random_int(0, 3) ? random_int(1, 90) : random_int(250, 300), h = random_int(1, 12);
    frame f = frame_to_copy_of(w, h, is_gray, random_int(0, 70));
    bzi_kernel_slot *slot = &f.slot;
    if (random_int(0, 1)) {
        slot->x0 = random_int(0, w - 1);
        slot->y0 = random_int(0, h - 1);
    }
    for (int axis = 0; axis < 2; axis++) {
        const int32_t in = axis ? slot->y1 - slot->y0 : slot->x1 - slot->x0, out = axis ? height : width;
        const int mirrors = random_int(0, 1);
        slot->h[4 * axis] = mirrors ? -1.0f : 1.0f;
        slot->h[3 * axis + 2] = (float)(random_int(-out - 1, in + 1) + (mirrors ? out - 1 : 0));
    }
    return f;
}

/* How many ways to copy differ from the plain loop, of three. */
static int copies_that_differ(const bzi_kernel_slot *slot, const bzi_kernel_output *out, int shift)
{
    return !rows_equal_the_plain_loop(slot, out, warp_copy, shift);
}

/* Are there eight columns inside, the fewest that are copied? */
static int has_columns_to_copy(const bzi_kernel_slot *slot, const bzi_kernel_output *out)
{
    const bzi_kernel_view view = bzi_kernel_view_of(slot);
    const bzi_kernel_inner in = bzi_kernel_inner_of(slot, &view, out);
    return in.end - in.first >= 8;
}

TEST(shifts_flips_and_crops_of_whole_pixels_are_copies_equal_to_the_plain_loop_to_the_bit)
{
    int different = 0, tried = 0;
    random_state = 31;
    copied = 0;
    for (int32_t i = 1; i <= 82; i++) {
        const int32_t width = i <= 80 ? i : i + 218;        /* 299, 300 */
        for (uint32_t k = 0; k < 4 * 2 * 8; k++) {
            const int is_gray = k / 32 == 1 && random_int(0, 1);
            frame f = frame_to_copy(width, 3, is_gray);
            bzi_kernel_output out = output_of(width, 3, k / 4 % 2 ? NHWC : NCHW, k % 4, is_gray && k % 3 ? 1 : 3);
            f.slot.flags |= out.channels == 1 ? BZI_KERNEL_GRAY : 0;
            const int shift = random_int(0, 2) ? 0 : random_int(1, 15);
            different += copies_that_differ(&f.slot, &out, shift);
            different += !rows_equal_the_plain_loop(&f.slot, &out, warp_front, shift);
            tried += has_columns_to_copy(&f.slot, &out);
            frame_free(&f);
        }
    }
    CHECK_EQ(different, 0);
    CHECK_EQ(copied, bzi_kernel_has_vectors() ? tried : 0);
}

/* Rows of pictures as wide as the output follow each other without a gap, and are copied as one. Not so where there is
 * a gap in either of the two, where the picture is shifted or mirrored, or where it ends before the output does. */
TEST(rows_without_gaps_between_them_are_copied_as_the_plain_loop_copies_them)
{
    int different = 0, tried = 0;
    random_state = 41;
    copied = 0;
    for (int32_t width = 1; width <= 70; width++)
        for (uint32_t k = 0; k < 4 * 2 * 16; k++) {
            const int is_gray = k / 32 == 1 && random_int(0, 1), rare = random_int(0, 7);
            frame f = frame_to_copy_of(width, random_int(2, 4), is_gray, rare == 0);
            bzi_kernel_output out = output_of(width, 3, k / 4 % 2 ? NHWC : NCHW, k % 4, is_gray && k % 3 ? 1 : 3);
            f.slot.h[0] = rare == 1 ? -1.0f : 1.0f;
            f.slot.h[4] = rare == 2 ? -1.0f : 1.0f;
            f.slot.h[2] = rare == 1 ? (float)width - 1 : rare == 3 ? 1.0f : 0.0f;
            f.slot.h[5] = rare == 2 ? 2.0f : rare == 4 ? -1.0f : 0.0f;
            out.stride_y += rare == 5 ? out.stride_x : 0;
            out.stride_c *= out.stride_c > 1 && rare == 5 ? 2 : 1;
            f.slot.flags |= out.channels == 1 ? BZI_KERNEL_GRAY : 0;
            different += copies_that_differ(&f.slot, &out, rare);
            tried += has_columns_to_copy(&f.slot, &out);
            frame_free(&f);
        }
    CHECK_EQ(different, 0);
    CHECK_EQ(copied, bzi_kernel_has_vectors() ? tried : 0);
}

/* One thing more than a copy, or half a pixel: the general loops. */
TEST(what_takes_more_than_a_copy_is_none)
{
    random_state = 37;
    for (int k = 0; k < 12; k++) {
        frame f = frame_to_copy(20, 3, 0);
        bzi_kernel_output out = output_of(20, 3, NCHW, 0, 3);
        float mean[3 * 20 * 3] = { 0 };
        uint8_t to[4 * 3 * 20 * 3];
        f.slot.dst = (uint64_t)(uintptr_t)to;
        switch (k) {
        case 0: f.slot.h[2] += 0.5f; break;
        case 1: f.slot.h[0] *= 2.0f; break;
        case 2: f.slot.h[1] = 1.0f; break;
        case 3: f.slot.h[7] = 0.001f; break;
        case 4: f.slot.flags |= BZI_KERNEL_COLOR; break;
        case 5: f.slot.flags |= BZI_KERNEL_JITTER; break;
        case 6: f.slot.filter = BZNA_FILTER_CUBIC; break;
        case 7: f.slot.rgb[0] = 0.5f; break;
        case 8: f.slot.shift_x = 1; break;
        case 9: f.slot.depth = 10; break;
        case 10: out.mean = (uint64_t)(uintptr_t)mean; break;
        default: f.slot.h[5] = NAN; break;
        }
        CHECK_EQ(bzi_kernel_warp_copy(&f.slot, &out), 0);
        frame_free(&f);
    }
}

/* An H of the kind that turns pictures by 90 degrees, from an aligned one. */
static void turn(float h[9])
{
    h[1] = h[0];
    h[3] = h[4];
    h[0] = h[4] = 0;
}

TEST(the_separable_loop_turns_pictures_to_the_bit)
{
    int different = 0;
    random_state = 11;
    for (int i = 0; i < 1500; i++) {
        frame f = frame_random();
        int32_t width = random_int(1, EDGE), height = random_int(1, EDGE);
        random_crop(&f.slot, width, height);
        turn(f.slot.h);
        random_filter(&f.slot);
        bzi_kernel_output out = output_random(&f.slot, width, height);
        different += !same_bits(bzi_kernel_warp_plain, warp_separable, &f.slot, out);
        frame_free(&f);
    }
    CHECK_EQ(different, 0);
}

TEST(the_front_equals_the_plain_loop_for_every_kind_of_matrix)
{
    random_state = 2;
    for (int i = 0; i < 300; i++) {
        frame f = frame_random();
        random_crop(&f.slot, 20, 20);
        random_filter(&f.slot);
        if (i % 3 == 1)
            f.slot.h[1] = 0.2f;
        if (i % 3 == 2)
            f.slot.h[7] = 0.01f;
        bzi_kernel_output out = output_nchw(20, 20);
        CHECK(i % 3 == 1 || (bzi_kernel_warp_bytes(&f.slot, &out) > 0) == (i % 3 == 0 && bzi_kernel_has_vectors()));
        CHECK(same_bits(bzi_kernel_warp_plain, warp_front, &f.slot, out));
        frame_free(&f);
    }
}

TEST(the_plain_loop_equals_an_oracle_in_double_precision)
{
    int compared = 0;
    random_state = 3;
    for (int i = 0; i < 600; i++) {
        frame f = frame_random();
        bzi_kernel_slot *slot = &f.slot;
        random_crop(slot, 24, 24);
        random_filter(slot);
        for (int k = 0; i & 16 && k < 2; k++)              /* twice to six times smaller */
            slot->h[4 * k] *= (float)random_real(2, 6);
        for (int k = 0; i % 2 && k < 2; k++) {
            slot->h[1 + 2 * k] += (float)random_real(-0.5, 0.5);
            slot->h[6 + k]     += (float)random_real(-0.01, 0.02);
        }
        const float *got = render(bzi_kernel_warp_plain, *slot, output_nchw(24, 24), buffer_a);
        double worst = 0;
        for (int32_t p = 0; p < 24 * 24; p++) {
            double c[3];
            if (!oracle(slot, p % 24, p / 24, c))
                continue;
            for (int k = 0; k < 3; k++)
                worst = fmax(worst, fabs(got[k * 24 * 24 + p] - c[k]));
            compared++;
        }
        CHECK_NEAR(worst, 0, 0.05);
        frame_free(&f);
    }
    CHECK(compared > 200000);
}

TEST(the_length_of_a_gradient_is_off_by_less_than_1_percent)
{
    for (double angle = 0; angle < 7; angle += 0.001) {
        double a = 3 * cos(angle), b = 3 * sin(angle);
        CHECK(fabs((double)bzi_kernel_length((float)a, (float)b) / 3 - 1) < 0.006);
    }
    CHECK(bzi_kernel_length(0, -2.5f) == 2.5f && bzi_kernel_length(1.7f, 0) == 1.7f && bzi_kernel_length(0, 0) == 0);
    CHECK(bzi_kernel_length(NAN, 2) == 2 && bzi_kernel_length(INFINITY, NAN) == 1e9f);
}

TEST(lanczos_is_as_near_as_its_comment_says)
{
    for (int three = 0; three < 2; three++) {
        const double n = three ? 3 : 4;
        double worst = 0;
        for (double x = 0; x < 4.5; x += 1.0 / 4096) {
            double expected = x < n ? sinc(x) * sinc(x / n) : 0;
            worst = fmax(worst, fabs((double)bzi_kernel_lanczos(three, (float)x) - expected));
        }
        CHECK(worst < (three ? 3e-7 : 1.1e-5));
        printf("  lanczos%g: off by %.2g\n", n, worst);
    }
}

TEST(interleaved_pixels_have_the_values_of_planar_ones)
{
    random_state = 4;
    for (int i = 0; i < 100; i++) {
        frame f = frame_random();
        int32_t width = random_int(1, 30), height = random_int(1, 30), wrong = 0;
        random_crop(&f.slot, width, height);
        const float *planar = render(warp_front, f.slot, output_nchw(width, height), buffer_a);
        const float *mixed  = render(warp_front, f.slot, output_nhwc(width, height), buffer_b);
        for (int32_t p = 0; p < width * height; p++)
            for (int32_t c = 0; c < 3; c++)
                wrong += planar[c * width * height + p] != mixed[p * 3 + c];
        CHECK_EQ(wrong, 0);
        frame_free(&f);
    }
}

/* ---- Types of elements ------------------------------------------------------------------------------------------- */

/* The value of the half with these bits; that of infinity's is 65536, the next in line. */
static float half_value(int bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    float size = exponent ? ldexpf((float)(1024 + fraction), exponent - 25) : ldexpf((float)fraction, -24);
    return bits & 0x8000 ? -size : size;
}

TEST(every_half_and_what_lies_between_two_is_rounded_to_the_nearest_even_one)
{
    int wrong = 0;
    for (int bits = 0; bits < 0x10000; bits++) {
        if ((bits & 0x7fff) >= 0x7c00)
            continue;
        float value = half_value(bits), middle = (value + half_value(bits + 1)) / 2,
              away = value < 0 || bits & 0x8000 ? -INFINITY : INFINITY;
        wrong += bzi_kernel_half(value) != bits;
        wrong += bzi_kernel_half(middle) != bits + (bits & 1);
        wrong += bzi_kernel_half(nextafterf(middle, 0)) != bits;
        wrong += bzi_kernel_half(nextafterf(middle, away)) != bits + 1;
    }
    CHECK_EQ(wrong, 0);
    CHECK_EQ(bzi_kernel_half(3.4e38f), 0x7c00);
    CHECK_EQ(bzi_kernel_half(INFINITY), 0x7c00);
    CHECK_EQ(bzi_kernel_half(-INFINITY), 0xfc00);
    CHECK_EQ(bzi_kernel_half(1e-45f), 0);
    CHECK_EQ(bzi_kernel_half(-1e-45f), 0x8000);
    CHECK((bzi_kernel_half(NAN) & 0x7fff) > 0x7c00);
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

TEST(every_bfloat_and_what_lies_between_two_is_rounded_to_the_nearest_even_one)
{
    int wrong = 0;
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        if ((bits & 0x7fff) > 0x7f80) {
            uint16_t got = bzi_kernel_bfloat(float_of(bits << 16)), low = bzi_kernel_bfloat(float_of(bits << 16 | 1));
            wrong += (got & 0x7fff) <= 0x7f80 || got >> 15 != bits >> 15 || (low & 0x7fff) <= 0x7f80;
            continue;
        }
        wrong += bzi_kernel_bfloat(float_of(bits << 16)) != bits;
        if ((bits & 0x7fff) == 0x7f80)
            continue;
        wrong += bzi_kernel_bfloat(float_of(bits << 16 | 0x7fff)) != bits;
        wrong += bzi_kernel_bfloat(float_of(bits << 16 | 0x8000)) != bits + (bits & 1);
        wrong += bzi_kernel_bfloat(float_of(bits << 16 | 0x8001)) != bits + 1;
    }
    CHECK_EQ(wrong, 0);
    CHECK_EQ(bzi_kernel_bfloat(3.4028235e38f), 0x7f80);
    CHECK_EQ(bzi_kernel_bfloat(-3.4028235e38f), 0xff80);
    CHECK((bzi_kernel_bfloat(float_of(0x7f800001)) & 0x7fff) > 0x7f80);      /* its upper half is infinity */
    CHECK((bzi_kernel_bfloat(float_of(0xffffffff)) & 0x7fff) > 0x7f80);
}

TEST(bytes_are_rounded_to_the_nearest_even_one_and_saturated)
{
    int wrong = 0;
    for (int value = 0; value < 256; value++) {
        float middle = (float)value + 0.5f;
        wrong += bzi_kernel_byte((float)value) != value;
        wrong += bzi_kernel_byte(nextafterf(middle, 0)) != value;
        wrong += bzi_kernel_byte(middle) != (value == 255 ? 255 : value + (value & 1));
        wrong += bzi_kernel_byte(nextafterf(middle, 999)) != (value == 255 ? 255 : value + 1);
    }
    CHECK_EQ(wrong, 0);
    static const float low[] = { -1e-45f, -0.0f, -0.5f, -0.50001f, -1, -256, -3.4e38f, -INFINITY, NAN };
    static const float high[] = { 255.4f, 255.6f, 256, 257, 511.5f, 8388608, 4294967296, 3.4e38f, INFINITY };
    for (size_t i = 0; i < sizeof low / sizeof *low; i++) {
        CHECK_EQ(bzi_kernel_byte(low[i]), 0);
        CHECK_EQ(bzi_kernel_byte(high[i]), 255);
    }
}

/* The element at a place of bytes is that float, converted. */
static int is_element(const uint8_t *bytes, uint32_t dtype, size_t at, float value)
{
    uint16_t word = 0;
    float number;
    if (dtype == BZNA_DTYPE_UINT8)
        return bytes[at] == bzi_kernel_byte(value);
    if (dtype == BZNA_DTYPE_FLOAT32) {
        memcpy(&number, bytes + 4 * at, sizeof number);
        return !memcmp(&number, &value, sizeof value);
    }
    memcpy(&word, bytes + 2 * at, sizeof word);
    return word == (dtype == BZNA_DTYPE_FLOAT16 ? bzi_kernel_half(value) : bzi_kernel_bfloat(value));
}

TEST(every_type_is_the_float_output_rounded_in_every_loop)
{
    int wrong = 0;
    random_state = 15;
    for (int i = 0; i < 600; i++) {
        frame f = frame_random();
        int32_t width = random_int(1, EDGE), height = random_int(1, EDGE);
        random_crop(&f.slot, width, height);
        random_filter(&f.slot);
        bzi_kernel_output out = random_int(0, 1) ? output_nchw(width, height) : output_nhwc(width, height);
        if (random_int(0, 3) == 0)
            f.slot.scale[1] *= 3000.0f;                   /* up to infinity, beyond 255 */
        if (random_int(0, 3) == 0)
            f.slot.scale[2] *= 1e-7f;                     /* down to subnormals */
        const float *floats = render(bzi_kernel_warp_plain, f.slot, out, buffer_a);
        out.dtype = (uint32_t)i % 3 + 1;
        const uint8_t *got = render_bytes(warp_front, f.slot, out, bytes_a);
        for (int32_t k = 0; k < 3 * width * height; k++)
            wrong += !is_element(got, out.dtype, (size_t)k, floats[k]);
        wrong += !same_bits(bzi_kernel_warp_plain, warp_separable, &f.slot, out);
        frame_free(&f);
    }
    CHECK_EQ(wrong, 0);
}

TEST(one_channel_is_the_luma_of_the_three)
{
    double worst = 0;
    random_state = 17;
    for (int i = 0; i < 200; i++) {
        frame f = frame_random();
        int32_t width = random_int(1, EDGE), height = random_int(1, EDGE);
        random_crop(&f.slot, width, height);
        for (int c = 0; c < 3; c++) {
            f.slot.bias[c] = 0;
            f.slot.scale[c] = 1;
            f.slot.fill[c] = 77;
        }
        render(bzi_kernel_warp_plain, f.slot, output_nhwc(width, height), buffer_a);
        f.slot.flags |= BZI_KERNEL_GRAY;
        bzi_kernel_output out = output_of(width, height, i % 2, BZNA_DTYPE_FLOAT32, 1);
        const uint8_t *got = render_bytes(warp_front, f.slot, out, bytes_a);
        for (size_t k = 0; k < (size_t)(width * height); k++) {
            const float *rgb = buffer_a + 1 + 3 * k;
            float value;
            memcpy(&value, got + 4 * k, sizeof value);
            worst = fmax(worst, fabs(0.299 * (double)rgb[0] + 0.587 * (double)rgb[1] + 0.114 * (double)rgb[2] -
                                     (double)value));
        }
        frame_free(&f);
    }
    CHECK_NEAR(worst, 0, 1e-4);
}

TEST(fill_fills_every_type_and_one_channel)
{
    static const float fills[3] = { -1000, 0.3f, 254.5f };
    frame f = frame_make(1, 1, 1, 0, 0, 8, 0);
    memcpy(f.slot.fill, fills, sizeof fills);
    for (uint32_t k = 0; k < 16; k++) {
        bzi_kernel_output out = output_of(5, 4, k & 1, k >> 1 & 3, k < 8 ? 3 : 1);
        const uint8_t *got = render_bytes(bzi_kernel_fill, f.slot, out, bytes_a);
        for (size_t i = 0; i < 20 * (size_t)out.channels; i++)
            CHECK(is_element(got, out.dtype, i, fills[k >= 8 ? 0 : k & 1 ? i % 3 : i / 20]));
    }
    frame_free(&f);
}

/* ---- What a GPU thread does -------------------------------------------------------------------------------------- */

static int kernels[BZI_KERNEL_COUNT];

/* All threads of a launch, one after the other; fewer than there are pixels, or more. */
static void warp_threads(const bzi_kernel_slot *slot, const bzi_kernel_output *out)
{
#define FUNCTION(name, function, bounds) function,
    static void (*const threads[])(const bzi_kernel_slot *, const bzi_kernel_output *, bzi_kernel_thread) = {
        BZI_KERNELS(FUNCTION)
    };
    uint32_t step_x = random_u32() % 50 + 1, step_y = random_u32() % 50 + 1;
    int kernel = bzi_kernel_of(slot, out);
    kernels[kernel]++;
    for (uint32_t y = 0; y < step_y; y++)
        for (uint32_t x = 0; x < step_x; x++)
            threads[kernel](slot, out, (bzi_kernel_thread){ x, y, step_x, step_y });
}

/* Mostly what a hardware decoder gives: 8 bit NV12 with an even pitch; else P016, planar, 4:4:4, gray, odd pitches. */
static frame frame_decoded(void)
{
    int32_t w = random_int(1, 40), h = random_int(1, 40), shift = random_int(0, 9) ? 1 : 0,
            depth = random_int(0, 9) ? 8 : random_int(9, 16);
    frame f = frame_make(w, h, random_int(0, 9) ? 2 : random_int(1, 3), shift, shift, depth,
                         random_int(0, 9) ? 2 * random_int(0, 3) : 1);
    if (random_int(0, 2)) {
        f.slot.x0 = random_int(0, w - 1);
        f.slot.y0 = random_int(0, h - 1);
        f.slot.x1 = random_int(f.slot.x0 - (random_int(0, 9) == 0), w - 1);        /* sometimes empty */
        f.slot.y1 = random_int(f.slot.y0 - (random_int(0, 9) == 0), h - 1);
    }
    f.slot.left = random_int(0, 1);
    f.slot.top  = random_int(0, 1);
    f.slot.flags = random_int(0, 1) ? BZI_KERNEL_COLOR : 0;
    for (int i = 0; i < 12; i++)
        f.slot.color[i] += (float)(i % 4 == 3 ? random_real(-30, 30) : random_real(-0.3, 0.3));
    for (int c = 0; c < 3; c++) {
        f.slot.bias[c]  = (float)random_real(0, 255);
        f.slot.scale[c] = (float)random_real(-1, 1);
    }
    return f;
}

TEST(gpu_threads_equal_the_plain_loop_to_the_bit)
{
    static const float hostile[] = { 0,        -0.0f,       1,    -1,  1e-45f,   1e30f,
                                     -3.4e38f, 16777216.0f, 4e9f, NAN, INFINITY, -INFINITY };
    int different = 0;
    random_state = 16;
    for (int i = 0; i < ROUNDS(6000, 2000); i++) {
        frame f = frame_decoded();
        bzi_kernel_slot *slot = &f.slot;
        int32_t width = random_int(1, EDGE), height = random_int(1, EDGE);
        random_crop(slot, width, height);
        for (int k = 0; i % 4 == 1 && k < 2; k++)
            slot->h[1 + 2 * k] += (float)random_real(-0.5, 0.5);
        for (int k = 0; i % 4 == 2 && k < 2; k++)
            slot->h[6 + k] += (float)random_real(-0.01, 0.02);
        for (int k = 0; i % 8 == 4 && k < 6; k++)         /* exactly on the edges and between */
            slot->h[k] = k % 4 == 0 ? 0.5f * (float)random_int(-4, 4) :
                         k % 3 == 2 ? 0.5f * (float)random_int(-4, 40) :
                                      0;
        if (i % 4 == 3)
            slot->h[random_int(0, i % 8 == 3 ? 5 : 8)] = hostile[random_u32() % (sizeof hostile / sizeof *hostile)];
        if (i & 16)
            random_filter(slot);
        if (i % 5 == 0)
            random_jitter(slot);
        bzi_kernel_output out = output_random(slot, width, height);
        different += !same_bits(bzi_kernel_warp_plain, warp_threads, slot, out);
        frame_free(&f);
    }
    CHECK_EQ(different, 0);
    for (int i = 0; i < BZI_KERNEL_COUNT; i++)
        CHECK(kernels[i] > ROUNDS(100, 30));
}

/* What a loop adds up for the mean luma of a slot. */
static void sums_of(warp_fn warp, const bzi_kernel_slot *slot, bzi_kernel_output out, uint64_t sums[2])
{
    bzi_kernel_slot first = *slot;
    out.mean = 0;
    sums[0] = sums[1] = 0;
    first.sums = (uint64_t)(uintptr_t)sums;
    first = bzi_kernel_summing(&first);
    first.dst = 0;                                          /* no pixel is written */
    warp(&first, &out);
}

/* The mean from the pixels themselves: those of a slot without bias, scale and what is behind contrast. */
static void check_mean(const frame *f, const bzi_kernel_output *out, const uint64_t sums[2])
{
    bzi_kernel_slot slot = f->slot;
    double sum = 0, count = 0;
    slot.flags &= BZI_KERNEL_COLOR | BZI_KERNEL_JITTER | BZI_KERNEL_SHIFT;
    slot.contrast = slot.saturation = slot.vivid = 1;
    slot.offset = 0;
    for (int i = 0; i < 3; i++) {
        slot.bias[i] = 0;
        slot.scale[i] = 1;
        slot.fill[i] = -1;
    }
    const int pixels = out->width * out->height;
    const float *rgb = render(bzi_kernel_warp_plain, slot, output_nchw(out->width, out->height), buffer_a);
    for (int i = 0; i < pixels; i++)
        if (rgb[i] >= 0) {
            sum += slot.luma[0] * rgb[i] + slot.luma[1] * rgb[i + pixels] + slot.luma[2] * rgb[i + 2 * pixels];
            count++;
        }
    CHECK_EQ(sums[1], (uint64_t)count);
    CHECK_NEAR((double)sums[0] / 256, sum, 1e-6 + count * (0.5 / 256 + 1e-4));
}

TEST(contrast_about_the_mean_is_the_same_in_every_loop)
{
    int some = 0;
    random_state = 19;
    for (int i = 0; i < 400; i++) {
        uint64_t sums[4][2];
        frame f = frame_random();
        int32_t width = random_int(1, EDGE), height = random_int(1, EDGE);
        random_crop(&f.slot, width, height);
        random_filter(&f.slot);
        random_jitter(&f.slot);
        if (i % 3 == 1)
            f.slot.h[1] = 0.2f;
        if (i % 3 == 2)
            f.slot.h[7] = 0.01f;
        if (i % 9 == 0)
            turn(f.slot.h);
        f.slot.flags |= BZI_KERNEL_MEAN_LUMA;
        bzi_kernel_output out = output_random(&f.slot, width, height);
        sums_of(bzi_kernel_warp_plain, &f.slot, out, sums[0]);
        sums_of(warp_threads, &f.slot, out, sums[1]);
        CHECK(!memcmp(sums[0], sums[1], sizeof *sums));
        if (i % 3 == 0) {
            sums_of(warp_separable, &f.slot, out, sums[2]);
            CHECK(!memcmp(sums[0], sums[2], sizeof *sums));
        }
        check_mean(&f, &out, sums[0]);
        f.slot.sums = (uint64_t)(uintptr_t)sums[0];
        CHECK(same_bits(bzi_kernel_warp_plain, warp_front, &f.slot, out));
        some += sums[0][1] > 0;
        frame_free(&f);
    }
    CHECK(some > 300);
}

/* ---- Where samples are read -------------------------------------------------------------------------------------- */

TEST(half_a_pixel_outside_is_the_border_and_more_is_fill)
{
    random_state = 5;
    frame f = frame_make(7, 5, 3, 1, 1, 8, 0);
    for (int axis = 0; axis < 2; axis++) {
        float last = axis ? 4.0f : 6.0f;
#define AT(t) sample_at(&f, axis ? 2.0f : (t), axis ? (t) : 2.0f, 0)
        CHECK(AT(-0.5f) == AT(0.0f) && AT(0.0f) >= 0.0f);
        CHECK(AT(last + 0.5f) == AT(last) && AT(last) >= 0.0f);
        CHECK(AT(nextafterf(-0.5f, -1.0f)) == f.slot.fill[0]);
        CHECK(AT(nextafterf(last + 0.5f, 99.0f)) == f.slot.fill[0]);
        CHECK(AT(NAN) == f.slot.fill[0]);
        CHECK(AT(INFINITY) == f.slot.fill[0]);
        CHECK(AT(-INFINITY) == f.slot.fill[0]);
#undef AT
    }
    frame_free(&f);
}

TEST(padding_is_never_read)
{
    random_state = 6;
    for (int i = 0; i < 200; i++) {
        frame f = frame_random();
        bzi_kernel_slot *slot = &f.slot;
        random_crop(slot, 24, 24);
        random_filter(slot);
        if (i & 1)
            slot->h[1] = 0.3f;
        render(warp_front, *slot, output_nchw(24, 24), buffer_a);
        for (int p = 0; p < 3; p++) {
            int32_t sx = p ? slot->shift_x : 0, sy = p ? slot->shift_y : 0, size = slot->depth > 8 ? 2 : 1;
            for (size_t at = 0; f.memory[p] && at < f.bytes[p]; at++) {
                int32_t x = (int32_t)(at % (size_t)slot->pitch[p]) / slot->step[p],
                        y = (int32_t)(at / (size_t)slot->pitch[p]);
                if (x < slot->x0 >> sx || x > slot->x1 >> sx || y < slot->y0 >> sy || y > slot->y1 >> sy)
                    f.memory[p][at] = (uint8_t)(f.memory[p][at] + 100 * size);
            }
        }
        render(warp_front, *slot, output_nchw(24, 24), buffer_b);
        CHECK(!memcmp(buffer_a, buffer_b, sizeof(float) * 3 * 24 * 24));
        frame_free(&f);
    }
}

TEST(hostile_matrices_read_nothing_outside_and_write_every_pixel)
{
    static const float values[] = { 0,    1,   -1,       1e-45f,   1e30f, -3.4e38f, 16777216.0f, -2147483648.0f,
                                    4e9f, NAN, INFINITY, -INFINITY };
    random_state = 7;
    for (int i = 0; i < 3000; i++) {
        frame f = frame_random();
        if (i & 1)
            random_crop(&f.slot, 9, 5);
        if (i & 4)
            random_filter(&f.slot);
        for (int k = random_int(1, 9); k > 0; k--)
            f.slot.h[random_int(0, i % 3 ? 5 : 8)] = values[random_u32() % (sizeof values / sizeof *values)];
        CHECK(same_bits(bzi_kernel_warp_plain, warp_front, &f.slot, output_nchw(9, 5)));
        for (int k = 0; k < 3 * 9 * 5; k++)
            CHECK(isfinite(buffer_a[k + 1]));
        frame_free(&f);
    }
}

TEST(one_pixel_is_its_color_anywhere_and_no_pixel_is_fill)
{
    random_state = 8;
    for (int shift = 0; shift < 3; shift++) {
        frame f = frame_make(1, 1, 3, shift, shift, 8, 0);
        CHECK(sample_at(&f, -0.5f, 0.5f, 1) == sample_at(&f, 0, 0, 1));
        CHECK(sample_at(&f, 0.75f, 0, 1) == f.slot.fill[1]);
        f.slot.x1 = -1;
        const float *got = render(warp_front, f.slot, output_nchw(3, 3), buffer_a);
        for (int i = 0; i < 27; i++)
            CHECK(got[i] == f.slot.fill[i / 9]);
        f.slot.h[0] = 0.0f;
        f.slot.h[2] = -0.5f;                  /* the only point that is half a pixel from both edges of nothing */
        got = render(bzi_kernel_warp_plain, f.slot, output_nchw(1, 1), buffer_a);
        CHECK(got[0] == f.slot.fill[0]);
        frame_free(&f);
    }
}

/* ---- Chroma ------------------------------------------------------------------------------------------------------ */

TEST(chroma_lies_where_its_siting_says)
{
    /* Cb and Cr rise by 8 a sample, so that the value tells the position; away from the edges. */
    for (int variant = 0; variant < 16; variant++) {
        frame f = frame_make(40, 40, 3, 1, 1, 8, 0);
        bzi_kernel_slot *slot = &f.slot;
        const float pass[12] = { 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0 };
        memcpy(slot->rgb, pass, sizeof pass);
        slot->left = variant & 1;
        slot->top  = variant >> 1 & 1;
        slot->x0   = variant & 4 ? 5 : 0;
        slot->y0   = variant & 8 ? 3 : 0;
        for (int i = 0; i < 400; i++) {
            f.memory[1][i] = (uint8_t)(i % 20 * 8);
            f.memory[2][i] = (uint8_t)(i / 20 * 8);
        }
        for (float t = 4.0f; t < 16.0f; t += 0.37f) {
            double x = (double)t + slot->x0, y = (double)t + slot->y0;
            CHECK_NEAR(sample_at(&f, t, t, 1), 8 * (slot->left ? x / 2 : (x + 0.5) / 2 - 0.5), 1e-4);
            CHECK_NEAR(sample_at(&f, t, t, 2), 8 * (slot->top  ? y / 2 : (y + 0.5) / 2 - 0.5), 1e-4);
        }
        frame_free(&f);
    }
}

TEST(semi_planar_chroma_equals_planar)
{
    random_state = 9;
    for (int i = 0; i < 100; i++) {
        int32_t w = random_int(1, 30), h = random_int(1, 30), shift = random_int(0, 1), depth = i & 1 ? 8 : 10;
        frame a = frame_make(w, h, 2, shift, shift, depth, 2), b = a;
        size_t size = depth > 8 ? 2 : 1, samples = a.bytes[1] / (2 * size);
        for (int p = 1; p < 3; p++) {
            b.memory[p] = malloc(samples * size);
            for (size_t k = 0; k < samples; k++)
                memcpy(b.memory[p] + k * size, a.memory[1] + (2 * k + (size_t)(p - 1)) * size, size);
            b.slot.plane[p] = (uint64_t)(uintptr_t)b.memory[p];
            b.slot.pitch[p] /= 2;
            b.slot.step[p]  /= 2;
        }
        random_crop(&a.slot, 17, 17);
        memcpy(b.slot.h, a.slot.h, sizeof b.slot.h);
        render(warp_front, a.slot, output_nchw(17, 17), buffer_a);
        render(warp_front, b.slot, output_nchw(17, 17), buffer_b);
        CHECK(!memcmp(buffer_a, buffer_b, sizeof(float) * 3 * 17 * 17));
        free(b.memory[1]);
        free(b.memory[2]);
        frame_free(&a);
    }
}

TEST(values_in_the_high_bits_equal_values_in_the_low_bits)
{
    random_state = 10;
    frame f = frame_make(20, 20, 2, 1, 1, 10, 0);
    random_crop(&f.slot, 24, 24);
    render(warp_front, f.slot, output_nchw(24, 24), buffer_a);
    for (int p = 0; p < 2; p++)
        for (size_t i = 0; i < f.bytes[p]; i += 2) {
            int value = (f.memory[p][i] + 256 * f.memory[p][i + 1]) << 6;
            f.memory[p][i]     = (uint8_t)(value & 255);
            f.memory[p][i + 1] = (uint8_t)(value >> 8);
        }
    f.slot.low_zeros = 6;
    render(warp_front, f.slot, output_nchw(24, 24), buffer_b);
    CHECK(!memcmp(buffer_a, buffer_b, sizeof(float) * 3 * 24 * 24));
    frame_free(&f);
}

TEST(gray_has_three_equal_channels)
{
    random_state = 11;
    for (int32_t depth = 8; depth <= 16; depth += 4) {
        frame f = frame_make(20, 20, 1, 1, 1, depth, 0);
        const float *got = render(warp_front, f.slot, output_nchw(20, 20), buffer_a);
        for (int i = 0; i < 400; i++) {
            double gray = 255.0 * oracle_fetch(&f.slot, 0, i % 20, i / 20) / ((1 << depth) - 1);
            for (int c = 0; c < 3; c++)
                CHECK_NEAR(got[c * 400 + i], gray, 1e-4);
        }
        frame_free(&f);
    }
}

/* ---- Color ------------------------------------------------------------------------------------------------------- */

TEST(the_identity_on_444_is_the_color_conversion_alone)
{
    random_state = 12;
    frame f = frame_make(33, 21, 3, 0, 0, 8, 3);
    const float *got = render(warp_front, f.slot, output_nchw(33, 21), buffer_a);
    for (int i = 0; i < 33 * 21; i++) {
        double y = oracle_fetch(&f.slot, 0, i % 33, i / 33);
        double cb = oracle_fetch(&f.slot, 1, i % 33, i / 33) - 128, cr = oracle_fetch(&f.slot, 2, i % 33, i / 33) - 128;
        CHECK_NEAR(got[i],               fmin(fmax(y + 1.402 * cr, 0), 255), 1e-4);
        CHECK_NEAR(got[33 * 21 + i], fmin(fmax(y - 0.114 * 1.772 / 0.587 * cb - 0.299 * 1.402 / 0.587 * cr, 0), 255),
                   1e-4);
        CHECK_NEAR(got[2 * 33 * 21 + i], fmin(fmax(y + 1.772 * cb, 0), 255), 1e-4);
    }
    frame_free(&f);
}

TEST(limited_range_601_gives_the_known_values)
{
    static const struct { float ycc[3], rgb[3]; } known[] = {
        { { 235, 128, 128 }, { 255, 255, 255 } }, { { 16, 128, 128 }, { 0, 0, 0 } },
        { { 126, 128, 128 }, { 128.082f, 128.082f, 128.082f } },
        { { 81, 90, 240 },   { 254.4f, 0, 0 } },  { { 145, 54, 34 },  { 0, 255, 0 } },
        { { 41, 240, 110 }, { 0, 0, 255 } },
        { { 255, 128, 128 }, { 255, 255, 255 } }, { { 0, 128, 128 },  { 0, 0, 0 } },
    };
    float rgb[12];
    bzi_kernel_rgb_matrix(0.299, 0.114, 0, 8, rgb);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        int rounded = i >= 3 && i < 6;        /* the primaries are no exact 8-bit codes */
        float c[3] = { known[i].ycc[0], known[i].ycc[1], known[i].ycc[2] };
        bzi_kernel_apply_matrix(rgb, c);
        for (int k = 0; k < 3; k++)
            CHECK_NEAR(c[k], known[i].rgb[k], rounded ? 1.2 : 1e-3);
    }
}

TEST(every_matrix_and_depth_inverts_its_definition)
{
    static const double weights[][2] = { { 0.299, 0.114 }, { 0.2126, 0.0722 }, { 0.2627, 0.0593 }, { 0.212, 0.087 } };
    for (int i = 0; i < 4 * 2 * 9 * 8; i++) {
        const double *k = weights[i & 3];
        int full = i >> 2 & 1, corner = i >> 3 & 7, depth = 8 + (i >> 6) % 9;
        double r = corner & 1 ? 0.9 : 0.2, g = corner & 2 ? 0.8 : 0.1, b = corner & 4 ? 0.7 : 0.3,
               unit = ldexp(1, depth - 8);
        double y = k[0] * r + (1 - k[0] - k[1]) * g + k[1] * b, cb = (b - y) / (2 * (1 - k[1])),
               cr = (r - y) / (2 * (1 - k[0]));
        double top = ldexp(1, depth) - 1, middle = ldexp(1, depth - 1);
        float rgb[12], c[3] = { (float)(full ? y * top : unit * (219 * y + 16)),
                                (float)(full ? cb * top + middle : unit * (224 * cb + 128)),
                                (float)(full ? cr * top + middle : unit * (224 * cr + 128)) };
        bzi_kernel_rgb_matrix(k[0], k[1], full, depth, rgb);
        bzi_kernel_apply_matrix(rgb, c);
        CHECK_NEAR(c[0], 255 * r, 1e-3);
        CHECK_NEAR(c[1], 255 * g, 1e-3);
        CHECK_NEAR(c[2], 255 * b, 1e-3);
    }
}

TEST(jitter_stays_a_color_and_bias_comes_before_scale)
{
    frame f = frame_make(1, 1, 1, 0, 0, 8, 0);
    const float jitter[12] = { 2, 0, 0, 0, 0, 1, 0, -150, 0, 0, 0.5f, 10 };
    f.memory[0][0] = 140;
    memcpy(f.slot.color, jitter, sizeof jitter);
    for (int c = 0; c < 3; c++) {
        f.slot.bias[c]  = 10.0f * (float)(c + 1);
        f.slot.scale[c] = 2.0f;
    }
    CHECK_NEAR(sample_at(&f, 0, 0, 0), (140 - 10) * 2, 1e-3);
    CHECK_NEAR(sample_at(&f, 0, 0, 2), (140 - 30) * 2, 1e-3);
    f.slot.flags = BZI_KERNEL_COLOR;
    CHECK_NEAR(sample_at(&f, 0, 0, 0), (255 - 10) * 2, 1e-3);
    CHECK_NEAR(sample_at(&f, 0, 0, 1), (0 - 20) * 2, 1e-3);
    CHECK_NEAR(sample_at(&f, 0, 0, 2), (80 - 30) * 2, 1e-3);
    frame_free(&f);
}

TEST(nan_in_a_matrix_of_color_gives_black_not_nan)
{
    random_state = 13;
    frame f = frame_make(9, 9, 3, 1, 1, 8, 0);
    f.slot.rgb[0] = NAN;
    f.slot.rgb[5] = INFINITY;
    CHECK(same_bits(bzi_kernel_warp_plain, warp_separable, &f.slot, output_nchw(9, 9)));
    for (int i = 0; i < 3 * 81; i++)
        CHECK(i < 81 ? buffer_a[i + 1] == 0.0f : buffer_a[i + 1] >= 0.0f && buffer_a[i + 1] <= 255.0f);
    frame_free(&f);
}

TEST(a_mean_picture_is_subtracted_before_scale_from_fill_too_where_it_is_a_color)
{
    random_state = 18;
    for (int i = 0; i < 60; i++) {
        frame f = frame_make(20, 20, 3, 1, 1, 8, 0);
        bzi_kernel_output out = i & 1 ? output_nhwc(17, 9) : output_nchw(17, 9);
        double worst = 0;
        random_crop(&f.slot, 17, 9);
        random_filter(&f.slot);
        for (int c = 0; c < 3; c++)
            f.slot.scale[c] = (float)(c + 1);
        render(warp_front, f.slot, out, buffer_a);
        random_mean(&f.slot, &out);
        render(warp_front, f.slot, out, buffer_b);
        const float *mean = (const float *)(uintptr_t)out.mean;
        for (int k = 0; k < 3 * 17 * 9; k++) {
            int c = i & 1 ? k % 3 : k / (17 * 9), pixel = i & 1 ? k / 3 : k % (17 * 9);
            int is_fill = buffer_a[k + 1] == f.slot.fill[c] && !(f.slot.flags & BZI_KERNEL_FILL_MEAN);
            double expected = (double)buffer_a[k + 1] - (is_fill ? 0 : (double)mean[c * 17 * 9 + pixel] * (c + 1));
            worst = fmax(worst, fabs((double)buffer_b[k + 1] - expected));
        }
        CHECK_NEAR(worst, 0, 1e-3);
        frame_free(&f);
    }
}

/* ---- The rest ---------------------------------------------------------------------------------------------------- */

TEST(fill_fills_its_slot_and_nothing_else)
{
    frame f = frame_make(1, 1, 1, 0, 0, 8, 0);
    const float *got = render(bzi_kernel_fill, f.slot, output_nhwc(5, 4), buffer_a);
    for (int i = 0; i < 60; i++)
        CHECK(got[i] == f.slot.fill[i % 3]);
    frame_free(&f);
}

TEST(a_workspace_too_small_changes_nothing_and_the_front_does_without)
{
    random_state = 14;
    frame f = frame_make(12, 12, 3, 1, 1, 8, 0);
    bzi_kernel_output out = output_nchw(10, 10);
    size_t bytes = bzi_kernel_warp_bytes(&f.slot, &out);
    void *workspace = workspace_make(bytes);
    float pixels[300] = { SENTINEL };
    f.slot.dst = (uint64_t)(uintptr_t)pixels;
    CHECK_EQ(bzi_kernel_warp_rows(&f.slot, &out, workspace, bytes - 1), 0);
    CHECK_EQ(bzi_kernel_warp_rows(&f.slot, &out, NULL, bytes), 0);
    CHECK(pixels[0] == SENTINEL);
    bzi_kernel_warp(&f.slot, &out, NULL, 0);
    render(bzi_kernel_warp_plain, f.slot, out, buffer_a);
    CHECK(!memcmp(pixels, buffer_a + 1, sizeof pixels));
    free(workspace);
    frame_free(&f);
}

TEST(a_workspace_that_would_be_very_large_is_none)
{
    bzi_kernel_slot slot;
    memset(&slot, 0, sizeof slot);
    slot.h[0] = slot.h[4] = slot.h[8] = 1.0f;
    slot.x1 = INT32_MAX;
    slot.depth = 8;
    bzi_kernel_output out = output_nchw(INT32_MAX, 1);
    const size_t bytes = bzi_kernel_warp_bytes(&slot, &out);
    CHECK_EQ(bytes, 0);
}

TEST_MAIN(
    RUN(the_separable_loop_equals_the_plain_one_to_the_bit)
    RUN(rows_of_every_width_equal_the_plain_loop_to_the_bit)
    RUN(shifts_flips_and_crops_of_whole_pixels_are_copies_equal_to_the_plain_loop_to_the_bit)
    RUN(rows_without_gaps_between_them_are_copied_as_the_plain_loop_copies_them)
    RUN(what_takes_more_than_a_copy_is_none)
    RUN(the_separable_loop_turns_pictures_to_the_bit)
    RUN(the_front_equals_the_plain_loop_for_every_kind_of_matrix)
    RUN(contrast_about_the_mean_is_the_same_in_every_loop)
    RUN(the_plain_loop_equals_an_oracle_in_double_precision)
    RUN(the_length_of_a_gradient_is_off_by_less_than_1_percent)
    RUN(lanczos_is_as_near_as_its_comment_says)
    RUN(interleaved_pixels_have_the_values_of_planar_ones)
    RUN(every_half_and_what_lies_between_two_is_rounded_to_the_nearest_even_one)
    RUN(every_bfloat_and_what_lies_between_two_is_rounded_to_the_nearest_even_one)
    RUN(bytes_are_rounded_to_the_nearest_even_one_and_saturated)
    RUN(every_type_is_the_float_output_rounded_in_every_loop)
    RUN(one_channel_is_the_luma_of_the_three)
    RUN(fill_fills_every_type_and_one_channel)
    RUN(gpu_threads_equal_the_plain_loop_to_the_bit)
    RUN(half_a_pixel_outside_is_the_border_and_more_is_fill)
    RUN(padding_is_never_read)
    RUN(hostile_matrices_read_nothing_outside_and_write_every_pixel)
    RUN(one_pixel_is_its_color_anywhere_and_no_pixel_is_fill)
    RUN(chroma_lies_where_its_siting_says)
    RUN(semi_planar_chroma_equals_planar)
    RUN(values_in_the_high_bits_equal_values_in_the_low_bits)
    RUN(gray_has_three_equal_channels)
    RUN(the_identity_on_444_is_the_color_conversion_alone)
    RUN(limited_range_601_gives_the_known_values)
    RUN(every_matrix_and_depth_inverts_its_definition)
    RUN(jitter_stays_a_color_and_bias_comes_before_scale)
    RUN(nan_in_a_matrix_of_color_gives_black_not_nan)
    RUN(a_mean_picture_is_subtracted_before_scale_from_fill_too_where_it_is_a_color)
    RUN(fill_fills_its_slot_and_nothing_else)
    RUN(a_workspace_too_small_changes_nothing_and_the_front_does_without)
    RUN(a_workspace_that_would_be_very_large_is_none))
