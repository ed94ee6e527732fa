/* benzina_kernels.cu - the pixel arithmetic of benzina.c: one source, compiled as CUDA for the GPU and included as C
 * for the CPU.
 *
 * Five parts: 1 portability; 2 plain data, passed by value; 3 arithmetic, static inline functions, and what one GPU
 * thread does with them; 4 CUDA entry points, index arithmetic only; 5 CPU loops.
 *
 * Compile with -ffp-contract=off (nvcc: -fmad=false): operations are then rounded one by one, in the order written, so
 * that the GPU, the plain loop and the separable loop give the same bits.
 *
 * What decided the CPU loops (500x375 4:2:0 to 224x224, random crops; gcc 12 and clang 14, -O3, x86-64):
 *   - vertical, horizontal and color as three loops a row take 0.15 of the plain loop's time: 0.13 ms for 0.85 ms with
 *     SSE2;
 *   - they must stay three, and free of tests: a test of flags in the color loop costs 3x with gcc, one fused loop 1.7x
 *     with clang, since either keeps them scalar;
 *   - the same source compiled for AVX2 takes 0.7 of the time of SSE2, and is chosen at run time;
 *   - constants (0 and 255, luma weights) must not meet what a comparison chose: gcc carries them into the choice, and
 *     the loop stays scalar (4x) or compares bytes (1.2x). Hence integers in bzi_kernel_byte, weights in the slot;
 *   - of float32 in planes, uint8 takes 1.03 times the time, its pixels 1.08; float32's pixels 1.27.
 *
 * What decided the GPU kernel, by counting instructions in the code for sm_90 (PTX of clang 14, ptxas 13.0), never by
 * timing, before there were four types of elements, which a whole launch has in common: a pixel of 8 bit NV12 under an
 * axis-aligned H, float32 out, without a color matrix, is 137 instructions, and 192 more once per thread; under any
 * affine H 166. It was 299 with one loop for everything. 64 registers, no spills: half of all warps fit. What brought
 * it down:
 *   - slots as parameters, copied to a local before the loops: they are then in uniform registers, and loops load
 *     nothing but samples;
 *   - positions of 32 bits, times the pitch in one IMAD.WIDE; constants for shifts and steps; Cb and Cr in one load;
 *   - the x axis once per column, where H allows it.
 * 68 of the 137 are the additions, products and bounds of part 3, which cannot change: the bits must be the
 * CPU's. */

/* ---- 1. portability ---------------------------------------------------------------------------------------------- */

#if defined(__clang__) && defined(__CUDA__)       /* without CUDA's headers, nor any other */
typedef __UINT8_TYPE__  uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __INT32_TYPE__  int32_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __INT64_TYPE__  int64_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __UINTPTR_TYPE__ uintptr_t;
#  define BZI_KERNEL_CUDA  1
#  define BZI_KERNEL_ENTRY extern "C" __attribute__((global)) void
#  define BZI_KERNEL_FN    static inline __attribute__((device, always_inline))
#  define BZI_KERNEL_GLOBAL __attribute__((address_space(1)))
#  define BZI_KERNEL_FIRST(d)                                                                        \
    ((uint32_t)(__nvvm_read_ptx_sreg_ctaid_##d() * __nvvm_read_ptx_sreg_ntid_##d() + __nvvm_read_ptx_sreg_tid_##d()))
#  define BZI_KERNEL_STRIDE(d) ((uint32_t)(__nvvm_read_ptx_sreg_nctaid_##d() * __nvvm_read_ptx_sreg_ntid_##d()))
#  define BZI_KERNEL_SLOT()    __nvvm_read_ptx_sreg_ctaid_z()
#  define BZI_KERNEL_READ8(p)  __nvvm_ldg_uc(p)
#  define BZI_KERNEL_READ16(p) __nvvm_ldg_us((const uint16_t *)(p))
#  define BZI_KERNEL_ROLLED    _Pragma("unroll 1")
#  define BZI_KERNEL_MIN(a, b) __builtin_fminf(a, b)
#  define BZI_KERNEL_MAX(a, b) __builtin_fmaxf(a, b)
#elif defined(__CUDACC__)
#  include <stdint.h>
#  define BZI_KERNEL_CUDA  1
#  define BZI_KERNEL_ENTRY extern "C" __global__ void
#  define BZI_KERNEL_FN    static __device__ __forceinline__
#  define BZI_KERNEL_GLOBAL
#  define BZI_KERNEL_FIRST(d)  (blockIdx.d * blockDim.d + threadIdx.d)
#  define BZI_KERNEL_STRIDE(d) (gridDim.d * blockDim.d)
#  define BZI_KERNEL_SLOT()    blockIdx.z
#  define BZI_KERNEL_READ8(p)  __ldg(p)
#  define BZI_KERNEL_READ16(p) __ldg((const uint16_t *)(p))
#  define BZI_KERNEL_ROLLED    _Pragma("unroll 1")
#  define BZI_KERNEL_MIN(a, b) fminf(a, b)
#  define BZI_KERNEL_MAX(a, b) fmaxf(a, b)
#else
#  include <stddef.h>
#  include <stdint.h>
#  include <string.h>
#  define BZI_KERNEL_CUDA  0
#  define BZI_KERNEL_GLOBAL
#  define BZI_KERNEL_READ8(p)  (*(p))
#  define BZI_KERNEL_READ16(p) bzi_kernel_read16(p)
#  define BZI_KERNEL_ROLLED
#  define BZI_KERNEL_MIN(a, b) ((a) < (b) ? (a) : (b))   /* instructions differ on NaN and -0; the uses below do not */
#  define BZI_KERNEL_MAX(a, b) ((a) > (b) ? (a) : (b))
#  if defined(__GNUC__) || defined(__clang__)
#    define BZI_KERNEL_FN  static inline __attribute__((always_inline, unused))
#    define BZI_KERNEL_CPU static __attribute__((unused))
#  else
#    define BZI_KERNEL_FN  static inline
#    define BZI_KERNEL_CPU static
#  endif
#endif

#ifdef __cplusplus
#  define BZI_KERNEL_ASSERT(condition) static_assert(condition, #condition)
#else
#  define BZI_KERNEL_ASSERT(condition) _Static_assert(condition, #condition)
#endif


/* ---- 2. plain data ----------------------------------------------------------------------------------------------- */

#define BZI_KERNEL_COLOR 1u      /* bzi_kernel_slot.flags: color is not the identity */
#define BZI_KERNEL_GRAY  2u      /* the first channel is the luma of R'G'B' */
#define BZI_KERNEL_FILL_MEAN 4u  /* the mean picture is subtracted from fill as well */

/* BZNA_FILTER_... */
enum {
    BZI_KERNEL_LINEAR = 0, BZI_KERNEL_NEAREST = 1, BZI_KERNEL_CUBIC = 2, BZI_KERNEL_AREA = 3, BZI_KERNEL_LANCZOS4 = 4,
    BZI_KERNEL_LANCZOS3 = 5, BZI_KERNEL_CUBIC_075 = 6
};

/* One sample: surface, warp, color, destination. Addresses are integers so that one layout serves host and device. The
 * rectangle lies inside the frame, 0 <= x0, 0 <= y0; x1 < x0 or y1 < y0 is an empty picture, which is all fill. H,
 * colors and fill may hold anything at all. */
typedef struct bzi_kernel_slot {
    uint64_t plane[3];        /* first sample of Y, Cb, Cr in the whole frame (its top left corner); Cb, Cr = 0: gray */
    uint64_t dst;             /* first element of this slot in the batch */
    int32_t  pitch[3];        /* bytes between rows */
    int32_t  step[3];         /* bytes between samples: 1 planar 8 bit, 2 NV12 chroma or P016 luma, 4 P016 chroma */
    int32_t  x0, y0, x1, y1;  /* the picture's rectangle in frame luma samples, x1 and y1 inclusive */
    int32_t  shift_x, shift_y;/* log2 of the chroma subsampling, 0..2 */
    int32_t  left, top;       /* chroma co-sited with the left column / top row (1) or centered between (0) */
    int32_t  depth;           /* bits, 8..16; above 8, samples are two bytes long and aligned */
    int32_t  low_zeros;       /* bits below the value in two bytes: 16 - depth for P016, 0 for libavcodec's formats */
    float    h[9];            /* output pixel -> picture pixel (relative to x0, y0), row-major */
    float    rgb[12];         /* [R G B]' = rgb * [Y Cb Cr 1]', 3x4: range and matrix folded in, result in 0..255 */
    float    color[12];      /* 3x4 on the clamped R'G'B' (identity mostly), clamped again */
    float    bias[3], scale[3];
    float    fill[3];         /* out of bounds, in OUTPUT units */
    uint32_t flags;           /* BZI_KERNEL_COLOR, _GRAY, _FILL_MEAN */
    float    luma[3];         /* weights for _GRAY; as constants, they would keep gcc from vectorizing */
    uint32_t filter;          /* BZI_KERNEL_LINEAR, ... */
    uint32_t antialias;       /* 0: where the warp shrinks, the filter widens; 1: never */
} bzi_kernel_slot;

/* The samples of one launch, passed by value: a launch's parameters may be 4096 bytes in all. */
#define BZI_KERNEL_SLOTS 8

typedef struct bzi_kernel_slots {
    bzi_kernel_slot slot[BZI_KERNEL_SLOTS];
} bzi_kernel_slots;

/* Types of elements: BZNA_DTYPE_... */
enum { BZI_KERNEL_FLOAT32 = 0, BZI_KERNEL_FLOAT16 = 1, BZI_KERNEL_BFLOAT16 = 2, BZI_KERNEL_UINT8 = 3 };

typedef struct bzi_kernel_output {
    int32_t  width, height;
    int64_t  stride_c, stride_y, stride_x;   /* elements between channels, rows, pixels of a slot: NCHW or NHWC */
    uint32_t dtype;
    uint32_t channels;                       /* 3, or the first alone: 1 */
    uint64_t mean;                           /* float32 [channels][height][width], subtracted before scale; 0: none */
} bzi_kernel_output;

BZI_KERNEL_ASSERT(sizeof(bzi_kernel_slot) == 288);
BZI_KERNEL_ASSERT(sizeof(bzi_kernel_slots) == 2304);
BZI_KERNEL_ASSERT(sizeof(bzi_kernel_output) == 48);
BZI_KERNEL_ASSERT(sizeof(bzi_kernel_slots) + sizeof(bzi_kernel_output) <= 4096);


/* ---- 3. arithmetic ----------------------------------------------------------------------------------------------- */

/* One axis of one plane: the sample coordinate of picture coordinate t is t * scale + offset, clamped to 0..last. */
typedef struct bzi_kernel_axis {
    float scale, offset, last;
} bzi_kernel_axis;

/* Two neighboring samples of an axis, index and index + next, and the weight of the second. */
typedef struct bzi_kernel_tap {
    int32_t index, next;
    float   weight;
} bzi_kernel_tap;

/* What pixels of a slot share. */
typedef struct bzi_kernel_view {
    bzi_kernel_axis x[2], y[2];       /* luma, chroma */
    uint64_t        plane[3];         /* first sample of the picture's rectangle; Cb, Cr = 0: gray */
    float           neutral;          /* Cb and Cr of gray */
    float           shrink[2];        /* input pixels an output pixel, in x and y; of an affine H */
    int             kind;             /* BZI_KERNEL_LERP, ... */
} bzi_kernel_view;

BZI_KERNEL_FN float bzi_kernel_clamp(float value, float last)    /* NaN gives 0 */
{
    value = BZI_KERNEL_MAX(value, 0.0f);
    return BZI_KERNEL_MIN(value, last);
}

BZI_KERNEL_FN int32_t bzi_kernel_floor(float value)
{
    int32_t whole = (int32_t)value;
    return whole - ((float)whole > value);
}

/* Samples first >> shift .. last >> shift. A centered chroma sample lies (2^shift - 1) / 2 luma samples to the right of
 * the first it covers. */
BZI_KERNEL_FN bzi_kernel_axis bzi_kernel_axis_of(int32_t first, int32_t last, int32_t shift, int32_t cosited)
{
    bzi_kernel_axis axis;
    axis.scale  = 1.0f / (float)(1 << shift);
    axis.offset = (float)(first & ((1 << shift) - 1)) * axis.scale + (cosited ? 0.0f : 0.5f * axis.scale - 0.5f);
    axis.last   = (float)((last >> shift) - (first >> shift));
    return axis;
}

BZI_KERNEL_FN int bzi_kernel_affine(const float h[9])
{
    return h[6] == 0.0f && h[7] == 0.0f && h[8] == 1.0f;
}

/* u depends on x alone, v on y alone. */
BZI_KERNEL_FN int bzi_kernel_aligned(const float h[9])
{
    return h[1] == 0.0f && h[3] == 0.0f && bzi_kernel_affine(h);
}

/* Kinds of formulas for weights. LERP: two samples an axis. RAMP: linear and area. */
enum { BZI_KERNEL_LERP, BZI_KERNEL_RAMP, BZI_KERNEL_CUBICS, BZI_KERNEL_LANCZOS };

/* At most this many samples an axis where H is not axis-aligned: it then shrinks by more than filters widen. */
#define BZI_KERNEL_TAPS 64

/* sqrt(a^2 + b^2), but for 0.5 %; exact where one of them is 0. NaN counts as 0. */
BZI_KERNEL_FN float bzi_kernel_length(float a, float b)
{
    a = bzi_kernel_clamp(BZI_KERNEL_MAX(a, -a), 1e9f);
    b = bzi_kernel_clamp(BZI_KERNEL_MAX(b, -b), 1e9f);
    float longer = BZI_KERNEL_MAX(a, b), shorter = BZI_KERNEL_MIN(a, b);
    return longer > 0.0f ? longer + shorter * shorter / (2.0f * longer + 0.41421356f * shorter) : 0.0f;
}

/* How far a filter reaches, in samples, where it is not widened. */
BZI_KERNEL_FN float bzi_kernel_support(uint32_t filter)
{
    return filter == BZI_KERNEL_LANCZOS4 ? 4.0f : filter == BZI_KERNEL_LANCZOS3 ? 3.0f :
           filter == BZI_KERNEL_CUBIC || filter == BZI_KERNEL_CUBIC_075 ? 2.0f : 1.0f;
}

/* The lengths of the gradients of u and v, by which filters widen; du_x is du/dx. */
BZI_KERNEL_FN void bzi_kernel_shrink(const bzi_kernel_slot *slot, float du_x, float du_y, float dv_x, float dv_y,
                                     float shrink[2])
{
    const float most = bzi_kernel_aligned(slot->h) ? 1e9f : 0.5f * BZI_KERNEL_TAPS / bzi_kernel_support(slot->filter);
    shrink[0] = slot->antialias ? 0.0f : BZI_KERNEL_MIN(bzi_kernel_length(du_x, du_y), most);
    shrink[1] = slot->antialias ? 0.0f : BZI_KERNEL_MIN(bzi_kernel_length(dv_x, dv_y), most);
}

/* Two samples an axis are enough for nearest, and for linear and area where nothing shrinks. */
BZI_KERNEL_FN int bzi_kernel_kind(const bzi_kernel_slot *slot, const float shrink[2])
{
    const uint32_t filter = slot->filter;
    if (filter == BZI_KERNEL_LANCZOS3 || filter == BZI_KERNEL_LANCZOS4)
        return BZI_KERNEL_LANCZOS;
    if (filter == BZI_KERNEL_CUBIC || filter == BZI_KERNEL_CUBIC_075)
        return BZI_KERNEL_CUBICS;
    return filter == BZI_KERNEL_NEAREST || slot->antialias ||
           (bzi_kernel_affine(slot->h) && shrink[0] <= 1.0f && shrink[1] <= 1.0f) ? BZI_KERNEL_LERP : BZI_KERNEL_RAMP;
}

BZI_KERNEL_FN bzi_kernel_view bzi_kernel_view_of(const bzi_kernel_slot *slot)
{
    bzi_kernel_view view;
    view.x[0] = bzi_kernel_axis_of(slot->x0, slot->x1, 0, 0);
    view.y[0] = bzi_kernel_axis_of(slot->y0, slot->y1, 0, 0);
    view.x[1] = bzi_kernel_axis_of(slot->x0, slot->x1, slot->shift_x, slot->left);
    view.y[1] = bzi_kernel_axis_of(slot->y0, slot->y1, slot->shift_y, slot->top);
    for (int p = 0; p < 3; p++) {
        int64_t x = slot->x0 >> (p ? slot->shift_x : 0), y = slot->y0 >> (p ? slot->shift_y : 0);
        view.plane[p] = slot->plane[p] ? slot->plane[p] + (uint64_t)(y * slot->pitch[p] + x * slot->step[p]) : 0;
    }
    view.neutral = (float)(1 << (slot->depth - 1));
    bzi_kernel_shrink(slot, slot->h[0], slot->h[1], slot->h[3], slot->h[4], view.shrink);
    view.kind = bzi_kernel_kind(slot, view.shrink);
    return view;
}

/* Output pixel -> picture coordinates. W is exactly 1 for an affine H, so that leaving out the division changes no
 * bit. */
BZI_KERNEL_FN void bzi_kernel_map_affine(const float h[9], int32_t x, int32_t y, float *u, float *v)
{
    float fx = (float)x, fy = (float)y;
    *u = (h[0] * fx + h[1] * fy) + h[2];
    *v = (h[3] * fx + h[4] * fy) + h[5];
}

BZI_KERNEL_FN void bzi_kernel_project(const float h[9], int32_t x, int32_t y, float *u, float *v)
{
    float w = (h[6] * (float)x + h[7] * (float)y) + h[8];
    *u /= w;
    *v /= w;
}

BZI_KERNEL_FN void bzi_kernel_map(const float h[9], int32_t x, int32_t y, float *u, float *v)
{
    bzi_kernel_map_affine(h, x, y, u, v);
    if (!bzi_kernel_affine(h))
        bzi_kernel_project(h, x, y, u, v);
}

/* At most half a pixel outside 0..last? Then it counts as the border. NaN is outside; last < 0 is an empty picture,
 * which has no inside. */
BZI_KERNEL_FN int bzi_kernel_inside(float t, float last)
{
    return t >= -0.5f && t <= last + 0.5f && last >= 0.0f;
}

/* Where two samples an axis are taken: chroma of the nearest luma sample, too. */
BZI_KERNEL_FN float bzi_kernel_place(uint32_t filter, float t, float last)
{
    return bzi_kernel_clamp(filter == BZI_KERNEL_NEAREST ? (float)bzi_kernel_floor(t + 0.5f) : t, last);
}

BZI_KERNEL_FN bzi_kernel_tap bzi_kernel_tap_of(bzi_kernel_axis axis, float t)
{
    float position = bzi_kernel_clamp(t * axis.scale + axis.offset, axis.last);
    bzi_kernel_tap tap;
    tap.index  = (int32_t)position;
    tap.next   = position < axis.last;
    tap.weight = position - (float)tap.index;
    return tap;
}

BZI_KERNEL_FN float bzi_kernel_lerp(float a, float b, float weight)
{
    return a + (b - a) * weight;
}

#if !BZI_KERNEL_CUDA
BZI_KERNEL_FN uint16_t bzi_kernel_read16(const uint8_t *sample)
{
    uint16_t value;
    memcpy(&value, sample, sizeof value);
    return value;
}
#endif

BZI_KERNEL_FN float bzi_kernel_load(const uint8_t *sample, int32_t depth, int32_t low_zeros)
{
    if (depth <= 8)
        return (float)BZI_KERNEL_READ8(sample);
    return (float)(BZI_KERNEL_READ16(sample) >> low_zeros);
}

BZI_KERNEL_FN const uint8_t *bzi_kernel_row(const bzi_kernel_slot *slot, const bzi_kernel_view *view, int p,
                                            int32_t index)
{
    return (const uint8_t *)(uintptr_t)(view->plane[p] + (uint64_t)((int64_t)index * slot->pitch[p]));
}

/* The linear filter: vertical first, then horizontal, as the separable loop does; x and y are weights. */
BZI_KERNEL_FN float bzi_kernel_bilinear(float p00, float p01, float p10, float p11, float x, float y)
{
    return bzi_kernel_lerp(bzi_kernel_lerp(p00, p10, y), bzi_kernel_lerp(p01, p11, y), x);
}

BZI_KERNEL_FN float bzi_kernel_sample(const bzi_kernel_slot *slot, const bzi_kernel_view *view, int p, bzi_kernel_tap x,
                                      bzi_kernel_tap y)
{
    const uint8_t *row0 = bzi_kernel_row(slot, view, p, y.index) + (int64_t)x.index * slot->step[p];
    const uint8_t *row1 = row0 + (int64_t)y.next * slot->pitch[p];
    int64_t right = (int64_t)x.next * slot->step[p];
    float p00 = bzi_kernel_load(row0, slot->depth, slot->low_zeros);
    float p01 = bzi_kernel_load(row0 + right, slot->depth, slot->low_zeros);
    float p10 = bzi_kernel_load(row1, slot->depth, slot->low_zeros);
    float p11 = bzi_kernel_load(row1 + right, slot->depth, slot->low_zeros);
    return bzi_kernel_bilinear(p00, p01, p10, p11, x.weight, y.weight);
}

/* The samples of an axis that one pixel is made of, first..last, and what their weights come from. */
typedef struct bzi_kernel_taps {
    int32_t begin, count;     /* the filter's reach; the same count at any position */
    int32_t first, last;      /* what of it has weight */
    int32_t end;              /* the last sample of the axis */
    float   position, narrow, radius;
    float   norm;             /* 1 / sum of the weights */
} bzi_kernel_taps;

/* OpenCV's filters repeat the samples of the border; PIL's have no weight outside. */
BZI_KERNEL_FN int bzi_kernel_repeats(uint32_t filter)
{
    return filter == BZI_KERNEL_LANCZOS4 || filter == BZI_KERNEL_CUBIC_075;
}

/* sin(pi x) sin(pi x / n) n / (pi x)^2 for 0 <= x < n = 3 or 4: its zeros, times a polynomial in x^2. Off by at most
 * 3e-7 for n = 3, 1.1e-5 for 4, rounding included. */
BZI_KERNEL_FN float bzi_kernel_lanczos(int three, float x)
{
    float y = x * x, q = three ? -1.476793e-08f : -3.309155e-09f;
    q = q * y + (three ? 8.153954e-07f : 2.8602853e-07f);
    q = q * y + (three ? -2.2995495e-05f : -1.1329991e-05f);
    q = q * y + (three ? 4.3999692e-04f : 2.7388491e-04f);
    q = q * y + (three ? -6.0913907e-03f : -4.4444515e-03f);
    q = q * y + (three ? 5.8929272e-02f : 4.8474457e-02f);
    q = q * y + (three ? -3.5548037e-01f : -3.2402802e-01f);
    q = q * y + (three ? 9.9999994e-01f : 9.9999273e-01f);
    q = q * (1.0f - y) * (1.0f - y * 0.25f) * (1.0f - y * 0.11111111f) * (1.0f - y * (three ? 0.11111111f : 0.0625f));
    return x < (three ? 3.0f : 4.0f) ? q : 0.0f;
}

/* The weight of sample i, before norm. kind is a constant. */
BZI_KERNEL_FN float bzi_kernel_weight(uint32_t filter, int kind, const bzi_kernel_taps *taps, int32_t i)
{
    float x = (float)i - taps->position, a = filter == BZI_KERNEL_CUBIC ? -0.5f : -0.75f;
    x = BZI_KERNEL_MAX(x, -x);
    if (kind == BZI_KERNEL_RAMP)
        return bzi_kernel_clamp((filter == BZI_KERNEL_AREA ? taps->radius : 1.0f) - x * taps->narrow, 1.0f);
    x = x * taps->narrow;
    if (kind == BZI_KERNEL_LANCZOS)
        return bzi_kernel_lanczos(filter == BZI_KERNEL_LANCZOS3, x);
    float near = ((a + 2.0f) * x - (a + 3.0f)) * x * x + 1.0f, far = (((x - 5.0f) * x + 8.0f) * x - 4.0f) * a;
    return x < 1.0f ? near : x < 2.0f ? far : 0.0f;
}

/* Where picture coordinate t takes its samples; shrink: input pixels an output pixel. norm is not set. */
BZI_KERNEL_FN bzi_kernel_taps bzi_kernel_reach(uint32_t filter, bzi_kernel_axis axis, float t, float shrink)
{
    bzi_kernel_taps taps;
    float wide = BZI_KERNEL_MIN(BZI_KERNEL_MAX(shrink * axis.scale, 1.0f), axis.last + 1.0f);
    taps.radius = filter == BZI_KERNEL_AREA ? 0.5f * wide + 0.5f : bzi_kernel_support(filter) * wide;
    taps.narrow = filter == BZI_KERNEL_AREA ? 1.0f : 1.0f / wide;
    taps.position = t * axis.scale + axis.offset;
    taps.begin = bzi_kernel_floor(taps.position - taps.radius) + 1;
    taps.count = -bzi_kernel_floor(-2.0f * taps.radius);
    taps.end   = (int32_t)axis.last;
    taps.first = taps.begin;
    taps.last  = taps.begin + taps.count - 1;
    if (!bzi_kernel_repeats(filter)) {
        taps.first = taps.first > 0 ? taps.first : 0;
        taps.last  = taps.last < taps.end ? taps.last : taps.end;
    }
    return taps;
}

BZI_KERNEL_FN bzi_kernel_taps bzi_kernel_taps_of(uint32_t filter, int kind, bzi_kernel_axis axis, float t, float shrink)
{
    bzi_kernel_taps taps = bzi_kernel_reach(filter, axis, t, shrink);
    float sum = 0.0f;
    BZI_KERNEL_ROLLED
    for (int32_t i = taps.first; i <= taps.last; i++)
        sum += bzi_kernel_weight(filter, kind, &taps, i);
    taps.norm = 1.0f / sum;
    return taps;
}

/* The sample that tap i reads. */
BZI_KERNEL_FN int32_t bzi_kernel_nearest_of(const bzi_kernel_taps *taps, int32_t i)
{
    return i < 0 ? 0 : i < taps->end ? i : taps->end;
}

/* Any filter: vertical first, then horizontal, taps ascending, as the separable loop does. */
BZI_KERNEL_FN float bzi_kernel_filtered(const bzi_kernel_slot *slot, const bzi_kernel_view *view, int p, int kind,
                                        const bzi_kernel_taps *x, const bzi_kernel_taps *y)
{
    float sum = 0.0f;
    BZI_KERNEL_ROLLED
    for (int32_t i = x->first; i <= x->last; i++) {
        int64_t column = (int64_t)bzi_kernel_nearest_of(x, i) * slot->step[p];
        float part = 0.0f;
        BZI_KERNEL_ROLLED
        for (int32_t k = y->first; k <= y->last; k++) {
            const uint8_t *row = bzi_kernel_row(slot, view, p, bzi_kernel_nearest_of(y, k));
            part += bzi_kernel_weight(slot->filter, kind, y, k) *
                    bzi_kernel_load(row + column, slot->depth, slot->low_zeros);
        }
        sum += bzi_kernel_weight(slot->filter, kind, x, i) * part;
    }
    return sum * (x->norm * y->norm);
}

/* Y'CbCr at u, v of the picture. */
BZI_KERNEL_FN void bzi_kernel_filter(const bzi_kernel_slot *slot, const bzi_kernel_view *view, int kind, float u,
                                     float v, const float shrink[2], float c[3])
{
    bzi_kernel_taps x = bzi_kernel_taps_of(slot->filter, kind, view->x[0], u, shrink[0]);
    bzi_kernel_taps y = bzi_kernel_taps_of(slot->filter, kind, view->y[0], v, shrink[1]);
    c[0] = bzi_kernel_filtered(slot, view, 0, kind, &x, &y);
    c[1] = c[2] = view->neutral;
    if (view->plane[1]) {
        x = bzi_kernel_taps_of(slot->filter, kind, view->x[1], u, shrink[0]);
        y = bzi_kernel_taps_of(slot->filter, kind, view->y[1], v, shrink[1]);
        c[1] = bzi_kernel_filtered(slot, view, 1, kind, &x, &y);
        c[2] = bzi_kernel_filtered(slot, view, 2, kind, &x, &y);
    }
}

/* c = m [a b c 1]' clamped to 0..255: three channels at once, m is 3x4. */
BZI_KERNEL_FN void bzi_kernel_apply_matrix(const float m[12], float c[3])
{
    float c0 = c[0], c1 = c[1], c2 = c[2];
    c[0] = bzi_kernel_clamp(((m[0] * c0 + m[1] * c1) + m[2]  * c2) + m[3],  255.0f);
    c[1] = bzi_kernel_clamp(((m[4] * c0 + m[5] * c1) + m[6]  * c2) + m[7],  255.0f);
    c[2] = bzi_kernel_clamp(((m[8] * c0 + m[9] * c1) + m[10] * c2) + m[11], 255.0f);
}

BZI_KERNEL_FN float bzi_kernel_luma(const float weight[3], const float c[3])
{
    return (weight[0] * c[0] + weight[1] * c[1]) + weight[2] * c[2];
}

/* Y'CbCr -> output units, in place. mean: that of the pixel, where flags have BZI_KERNEL_MEAN. */
#define BZI_KERNEL_MEAN 4u
BZI_KERNEL_FN void bzi_kernel_color_convert(const bzi_kernel_slot *slot, uint32_t flags, const float mean[3],
                                            float c[3])
{
    bzi_kernel_apply_matrix(slot->rgb, c);
    if (flags & BZI_KERNEL_COLOR)
        bzi_kernel_apply_matrix(slot->color, c);
    if (flags & BZI_KERNEL_GRAY)
        c[0] = bzi_kernel_luma(slot->luma, c);
    for (int i = 0; i < 3; i++)
        c[i] = (c[i] - slot->bias[i] - (flags & BZI_KERNEL_MEAN ? mean[i] : 0.0f)) * slot->scale[i];
}

/* The mean picture's pixel, of the channels that there are. */
BZI_KERNEL_FN void bzi_kernel_mean(const bzi_kernel_output *out, int32_t x, int32_t y, float mean[3])
{
    const float BZI_KERNEL_GLOBAL *at = (const float BZI_KERNEL_GLOBAL *)(uintptr_t)out->mean +
                                        ((int64_t)y * out->width + x);
    int64_t plane = (int64_t)out->width * out->height;
    for (uint32_t i = 0; i < 3; i++)
        mean[i] = out->mean && i < out->channels ? at[i * plane] : 0.0f;
}

BZI_KERNEL_FN void bzi_kernel_fill_pixel(const bzi_kernel_slot *slot, const bzi_kernel_output *out, int32_t x,
                                         int32_t y, float c[3])
{
    float mean[3];
    bzi_kernel_mean(out, x, y, mean);
    for (int i = 0; i < 3; i++)
        c[i] = slot->fill[i] - (slot->flags & BZI_KERNEL_FILL_MEAN ? mean[i] * slot->scale[i] : 0.0f);
}

/* Y'CbCr at u, v, inside the picture, of two samples an axis. */
BZI_KERNEL_FN void bzi_kernel_lerp_pixel(const bzi_kernel_slot *slot, const bzi_kernel_view *view, float u, float v,
                                         float c[3])
{
    u = bzi_kernel_place(slot->filter, u, view->x[0].last);
    v = bzi_kernel_place(slot->filter, v, view->y[0].last);
    c[0] = bzi_kernel_sample(slot, view, 0, bzi_kernel_tap_of(view->x[0], u), bzi_kernel_tap_of(view->y[0], v));
    c[1] = c[2] = view->neutral;
    if (view->plane[1]) {
        bzi_kernel_tap tap_x = bzi_kernel_tap_of(view->x[1], u), tap_y = bzi_kernel_tap_of(view->y[1], v);
        c[1] = bzi_kernel_sample(slot, view, 1, tap_x, tap_y);
        c[2] = bzi_kernel_sample(slot, view, 2, tap_x, tap_y);
    }
}

/* The lengths of the gradients of u and v where pixel x, y is mapped to u, v. */
BZI_KERNEL_FN void bzi_kernel_shrink_at(const bzi_kernel_slot *slot, int32_t x, int32_t y, float u, float v,
                                        float shrink[2])
{
    const float *h = slot->h;
    float w = (h[6] * (float)x + h[7] * (float)y) + h[8];
    bzi_kernel_shrink(slot, (h[0] - u * h[6]) / w, (h[1] - u * h[7]) / w, (h[3] - v * h[6]) / w,
                      (h[4] - v * h[7]) / w, shrink);
}

/* One output pixel: all steps. kind is view->kind, as a constant. */
BZI_KERNEL_FN void bzi_kernel_pixel(const bzi_kernel_slot *slot, const bzi_kernel_view *view,
                                    const bzi_kernel_output *out, int kind, int32_t x, int32_t y, float c[3])
{
    float u, v, mean[3];
    bzi_kernel_map(slot->h, x, y, &u, &v);
    if (!bzi_kernel_inside(u, view->x[0].last) || !bzi_kernel_inside(v, view->y[0].last)) {
        bzi_kernel_fill_pixel(slot, out, x, y, c);
        return;
    }
    if (kind == BZI_KERNEL_LERP) {
        bzi_kernel_lerp_pixel(slot, view, u, v, c);
    } else {
        float shrink[2] = { view->shrink[0], view->shrink[1] };
        if (!bzi_kernel_affine(slot->h))
            bzi_kernel_shrink_at(slot, x, y, u, v, shrink);
        bzi_kernel_filter(slot, view, kind, u, v, shrink, c);
    }
    bzi_kernel_mean(out, x, y, mean);
    bzi_kernel_color_convert(slot, (slot->flags & 3) | BZI_KERNEL_MEAN, mean, c);
}

BZI_KERNEL_FN uint32_t bzi_kernel_bits(float value)
{
    uint32_t bits;
#if BZI_KERNEL_CUDA
    __asm__("mov.b32 %0, %1;" : "=r"(bits) : "f"(value));
#else
    memcpy(&bits, &value, sizeof bits);
#endif
    return bits;
}

/* The nearest binary16, ties to even: beyond the largest is infinity, subnormals are kept, NaN stays one. Masks,
 * because gcc makes branches of several ?: and no vectors of those. */
BZI_KERNEL_FN uint16_t bzi_kernel_half(float value)
{
#if BZI_KERNEL_CUDA
    uint16_t half;
    __asm__("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
    return half;
#else
    uint32_t bits, size, half, tiny;
    float    sum;
    memcpy(&bits, &value, sizeof bits);
    size = bits & 0x7fffffff;
    memcpy(&sum, &size, sizeof sum);
    sum += 0.5f;                               /* whose last bit has the value of a subnormal's: the addition rounds */
    memcpy(&tiny, &sum, sizeof tiny);
    half = size < 0x47800000 ? size : 0x47800000;      /* 65536 */
    half = (half - (112u << 23) + 0xfff + (half >> 13 & 1)) >> 13;
    uint32_t is_tiny = 0u - (uint32_t)(size < 113u << 23), is_nan = 0u - (uint32_t)(size > 0x7f800000);
    half = (half & ~is_tiny) | ((tiny - (126u << 23)) & is_tiny) | (is_nan & 0x3ff);
    return (uint16_t)((bits >> 16 & 0x8000) | half);
#endif
}

/* The nearest bfloat16, ties to even: the upper half of a float. NaN stays one. */
BZI_KERNEL_FN uint16_t bzi_kernel_bfloat(float value)
{
    uint32_t bits = bzi_kernel_bits(value), is_nan = 0u - (uint32_t)((bits & 0x7fffffff) > 0x7f800000);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (uint16_t)((rounded & ~is_nan) | ((bits >> 16 | 0x40) & is_nan));
}

/* The nearest of 0..255, ties to even; NaN gives 0. The sum's last bit has the value 1: the addition rounds. Bits of
 * positive floats are in the order of their values: integers are compared, which gcc makes vectors of. */
BZI_KERNEL_FN uint8_t bzi_kernel_byte(float value)
{
    uint32_t is_number = 0u - (uint32_t)(value == value);
    int32_t bits = (int32_t)(bzi_kernel_bits(value + 8388608.0f) & is_number);
    bits = bits > 0x4b000000 ? bits : 0x4b000000;
    bits = bits < 0x4b0000ff ? bits : 0x4b0000ff;
    return (uint8_t)bits;
}

BZI_KERNEL_FN float bzi_kernel_float(float value) { return value; }

/* A pixel into the batch, its first element to address: a function a type. */
#define BZI_KERNEL_PUT(convert, type)                                                                                  \
    BZI_KERNEL_FN void convert##_put(uint64_t address, const bzi_kernel_output *out, const float c[3])                 \
    {                                                                                                                  \
        type BZI_KERNEL_GLOBAL *dst = (type BZI_KERNEL_GLOBAL *)(uintptr_t)address;                                    \
        dst[0] = convert(c[0]);                                                                                        \
        if (out->channels == 3) {                                                                                      \
            dst[out->stride_c] = convert(c[1]);                                                                        \
            dst[out->stride_c * 2] = convert(c[2]);                                                                    \
        }                                                                                                              \
    }
BZI_KERNEL_PUT(bzi_kernel_float, float)
BZI_KERNEL_PUT(bzi_kernel_half, uint16_t)
BZI_KERNEL_PUT(bzi_kernel_bfloat, uint16_t)
BZI_KERNEL_PUT(bzi_kernel_byte, uint8_t)

BZI_KERNEL_FN void bzi_kernel_put(uint64_t address, const bzi_kernel_output *out, const float c[3])
{
    if (out->dtype == BZI_KERNEL_FLOAT32)
        bzi_kernel_float_put(address, out, c);
    else if (out->dtype == BZI_KERNEL_FLOAT16)
        bzi_kernel_half_put(address, out, c);
    else if (out->dtype == BZI_KERNEL_BFLOAT16)
        bzi_kernel_bfloat_put(address, out, c);
    else
        bzi_kernel_byte_put(address, out, c);
}

/* log2 of an element's bytes. */
BZI_KERNEL_FN int32_t bzi_kernel_element_shift(const bzi_kernel_output *out)
{
    return out->dtype == BZI_KERNEL_FLOAT32 ? 2 : out->dtype == BZI_KERNEL_UINT8 ? 0 : 1;
}

BZI_KERNEL_FN void bzi_kernel_store(const bzi_kernel_slot *slot, const bzi_kernel_output *out, int32_t x, int32_t y,
                                    const float c[3])
{
    uint64_t element = (uint64_t)(y * out->stride_y + x * out->stride_x);
    bzi_kernel_put(slot->dst + (element << bzi_kernel_element_shift(out)), out, c);
}

/* The rest of this part is what one GPU thread does, in C too, for the tests. For the pictures that hardware decoders
 * give there is a second way through the functions above: the same operations in the same order, but positions of 32
 * bits, Cb and Cr in one load, constants instead of fields, and the x axis once per column when H is axis-aligned. */

/* A thread's first pixel and the stride to its next; x + step_x and y + step_y stay below 2^32. */
typedef struct bzi_kernel_thread {
    uint32_t x, y, step_x, step_y;
} bzi_kernel_thread;

/* Two samples of an axis, by their positions in the picture, and the weight of the second. */
typedef struct bzi_kernel_span {
    int32_t first, second;
    float   weight;
} bzi_kernel_span;

/* Is this, by linear interpolation, 8 bit NV12, not empty, Cb and Cr aligned for one load, its positions and the row stride of the batch small
 * enough for 32 bits? */
BZI_KERNEL_FN int bzi_kernel_nv12(const bzi_kernel_slot *slot, const bzi_kernel_output *out)
{
    return slot->filter != BZI_KERNEL_NEAREST && !out->mean && slot->depth <= 8 && slot->step[0] == 1 && slot->step[1] == 2 && slot->step[2] == 2 && slot->shift_x == 1 &&
           slot->shift_y == 1 && slot->plane[1] != 0 && slot->plane[2] == slot->plane[1] + 1 &&
           slot->pitch[2] == slot->pitch[1] && ((slot->plane[1] | (uint64_t)slot->pitch[1]) & 1) == 0 &&
           slot->x0 <= slot->x1 && slot->y0 <= slot->y1 && slot->x1 < 1 << 24 && slot->y1 < 1 << 24 &&
           out->stride_y >= 0 && out->stride_y < 1 << 29;
}

/* index * pitch in one instruction; compilers that widen pitch before the loop spend five on it. */
BZI_KERNEL_FN int64_t bzi_kernel_offset(int32_t index, int32_t pitch)
{
#if BZI_KERNEL_CUDA
    int64_t offset;
    __asm__("mul.wide.s32 %0, %1, %2;" : "=l"(offset) : "r"(index), "r"(pitch));
    return offset;
#else
    return (int64_t)index * pitch;
#endif
}

BZI_KERNEL_FN bzi_kernel_span bzi_kernel_span_of(float position, float last)
{
    bzi_kernel_span span;
    int32_t end = (int32_t)last;
    span.first  = (int32_t)position;
    span.second = span.first + 1 < end ? span.first + 1 : end;
    span.weight = position - (float)span.first;
    return span;
}

/* Luma and chroma at picture coordinate t; 0: outside. */
BZI_KERNEL_FN int bzi_kernel_spans(const bzi_kernel_axis axis[2], float t, bzi_kernel_span span[2])
{
    int inside = t >= -0.5f && t <= axis[0].last + 0.5f;
    t = bzi_kernel_clamp(t, axis[0].last);
    span[0] = bzi_kernel_span_of(t, axis[0].last);
    span[1] = bzi_kernel_span_of(bzi_kernel_clamp(t * axis[1].scale + axis[1].offset, axis[1].last), axis[1].last);
    return inside;
}

BZI_KERNEL_FN void bzi_kernel_nv12_sample(const bzi_kernel_slot *slot, const bzi_kernel_view *view,
                                          const bzi_kernel_span x[2], const bzi_kernel_span y[2], float c[3])
{
    const uint8_t *plane = (const uint8_t *)(uintptr_t)view->plane[0], *left = plane + x[0].first,
                  *right = plane + x[0].second;
    int64_t row0 = bzi_kernel_offset(y[0].first, slot->pitch[0]), row1 = bzi_kernel_offset(y[0].second, slot->pitch[0]);
    float   y00 = BZI_KERNEL_READ8(left + row0), y01 = BZI_KERNEL_READ8(right + row0);
    float   y10 = BZI_KERNEL_READ8(left + row1), y11 = BZI_KERNEL_READ8(right + row1);
    plane = (const uint8_t *)(uintptr_t)view->plane[1];
    left  = plane + 2 * x[1].first;
    right = plane + 2 * x[1].second;
    row0  = bzi_kernel_offset(y[1].first, slot->pitch[1]);
    row1  = bzi_kernel_offset(y[1].second, slot->pitch[1]);
    uint32_t c00 = BZI_KERNEL_READ16(left + row0), c01 = BZI_KERNEL_READ16(right + row0);
    uint32_t c10 = BZI_KERNEL_READ16(left + row1), c11 = BZI_KERNEL_READ16(right + row1);
    c[0] = bzi_kernel_bilinear(y00, y01, y10, y11, x[0].weight, y[0].weight);
    c[1] = bzi_kernel_bilinear((float)(c00 & 255), (float)(c01 & 255), (float)(c10 & 255), (float)(c11 & 255),
                               x[1].weight, y[1].weight);
    c[2] = bzi_kernel_bilinear((float)(c00 >> 8), (float)(c01 >> 8), (float)(c10 >> 8), (float)(c11 >> 8), x[1].weight,
                               y[1].weight);
}

/* Column x of the thread. aligned is a constant: H is affine and h[1], h[3] are 0, so that u is that of any row. */
BZI_KERNEL_FN void bzi_kernel_nv12_column(const bzi_kernel_slot *slot, const bzi_kernel_view *view,
                                          const bzi_kernel_output *out, bzi_kernel_thread thread, uint32_t x,
                                          int aligned)
{
    int32_t  size = 1 << bzi_kernel_element_shift(out), step_y = (int32_t)out->stride_y * size;
    uint64_t dst = slot->dst + x * (uint64_t)(out->stride_x * size);
    bzi_kernel_span column[2], row[2];
    float u, v;
    bzi_kernel_map_affine(slot->h, (int32_t)x, 0, &u, &v);
    int inside = bzi_kernel_spans(view->x, u, column);
    for (uint32_t y = thread.y; y < (uint32_t)out->height; y += thread.step_y) {
        float c[3] = { slot->fill[0], slot->fill[1], slot->fill[2] };
        bzi_kernel_map_affine(slot->h, (int32_t)x, (int32_t)y, &u, &v);
        if (!aligned) {
            if (!bzi_kernel_affine(slot->h))
                bzi_kernel_project(slot->h, (int32_t)x, (int32_t)y, &u, &v);
            inside = bzi_kernel_spans(view->x, u, column);
        }
        if (bzi_kernel_spans(view->y, v, row) && inside) {
            bzi_kernel_nv12_sample(slot, view, column, row, c);
            bzi_kernel_color_convert(slot, slot->flags & 3, slot->bias, c);
        }
        bzi_kernel_put(dst + (uint64_t)bzi_kernel_offset((int32_t)y, step_y), out, c);
    }
}

BZI_KERNEL_FN void bzi_kernel_nv12_pixels(const bzi_kernel_slot *slot, const bzi_kernel_output *out,
                                          bzi_kernel_thread thread, int aligned)
{
    bzi_kernel_slot known = *slot;             /* as bzi_kernel_nv12 has found it */
    known.step[0] = 1;
    known.step[1] = 2;
    known.shift_x = known.shift_y = 1;
    const bzi_kernel_view view = bzi_kernel_view_of(&known);
    for (uint32_t x = thread.x; x < (uint32_t)out->width; x += thread.step_x)
        bzi_kernel_nv12_column(&known, &view, out, thread, x, aligned);
}

BZI_KERNEL_FN void bzi_kernel_pixels(const bzi_kernel_slot *slot, const bzi_kernel_view *view,
                                     const bzi_kernel_output *out, bzi_kernel_thread thread, int kind)
{
    for (uint32_t x = thread.x; x < (uint32_t)out->width; x += thread.step_x)
        for (uint32_t y = thread.y; y < (uint32_t)out->height; y += thread.step_y) {
            float c[3];
            bzi_kernel_pixel(slot, view, out, kind, (int32_t)x, (int32_t)y, c);
            bzi_kernel_store(slot, out, (int32_t)x, (int32_t)y, c);
        }
}

/* The branches are the same for a whole block. */
BZI_KERNEL_FN void bzi_kernel_warp_thread(const bzi_kernel_slot *slot, const bzi_kernel_output *out,
                                          bzi_kernel_thread thread)
{
    const bzi_kernel_slot local = *slot;       /* read before the loops: what they use then stays in registers */
    const bzi_kernel_view view = bzi_kernel_view_of(&local);
    if (view.kind == BZI_KERNEL_RAMP)
        bzi_kernel_pixels(&local, &view, out, thread, BZI_KERNEL_RAMP);
    else if (view.kind == BZI_KERNEL_CUBICS)
        bzi_kernel_pixels(&local, &view, out, thread, BZI_KERNEL_CUBICS);
    else if (view.kind == BZI_KERNEL_LANCZOS)
        bzi_kernel_pixels(&local, &view, out, thread, BZI_KERNEL_LANCZOS);
    else if (!bzi_kernel_nv12(&local, out))
        bzi_kernel_pixels(&local, &view, out, thread, BZI_KERNEL_LERP);
    else if (bzi_kernel_aligned(local.h))
        bzi_kernel_nv12_pixels(&local, out, thread, 1);
    else
        bzi_kernel_nv12_pixels(&local, out, thread, 0);
}


#if BZI_KERNEL_CUDA
/* ---- 4. CUDA entry points ---------------------------------------------------------------------------------------- */

/* Warps slots 0 .. grid.z - 1. Any block of up to 1024 threads and any grid in x and y, of less than 2^31 threads each:
 * threads stride over the pixels that are left. Blocks of 32 x 8, a grid of width / 32 by height / 32, rounded up:
 * warps then write rows, and a thread has four pixels to spread its setup over. */
BZI_KERNEL_ENTRY bzi_kernel_warp_slots(const bzi_kernel_slots slots, const bzi_kernel_output out)
{
    bzi_kernel_thread thread = { BZI_KERNEL_FIRST(x), BZI_KERNEL_FIRST(y), BZI_KERNEL_STRIDE(x), BZI_KERNEL_STRIDE(y) };
    bzi_kernel_warp_thread(&slots.slot[BZI_KERNEL_SLOT()], &out, thread);
}

#else
/* ---- 5. CPU loops ------------------------------------------------------------------------------------------------ */

/* The 3x4 of bzi_kernel_slot.rgb for Y'CbCr with luma weights kr and kb and code values of depth bits, as ITU-T H.273
 * defines them. */
BZI_KERNEL_CPU void bzi_kernel_rgb_matrix(double kr, double kb, int full_range, int depth, float rgb[12])
{
    double unit = (double)(1 << (depth - 8)), top = (double)((1 << depth) - 1), kg = 1.0 - kr - kb;
    double black = full_range ? 0.0 : 16.0 * unit, neutral = 128.0 * unit;
    double luma = 255.0 / (full_range ? top : 219.0 * unit), chroma = 255.0 / (full_range ? top : 224.0 * unit);
    double cb[3] = { 0.0, -2.0 * kb * (1.0 - kb) / kg, 2.0 * (1.0 - kb) };
    double cr[3] = { 2.0 * (1.0 - kr), -2.0 * kr * (1.0 - kr) / kg, 0.0 };
    for (int c = 0; c < 3; c++) {
        rgb[c * 4 + 0] = (float)luma;
        rgb[c * 4 + 1] = (float)(cb[c] * chroma);
        rgb[c * 4 + 2] = (float)(cr[c] * chroma);
        rgb[c * 4 + 3] = (float)(-luma * black - (cb[c] + cr[c]) * chroma * neutral);
    }
}

/* The same for YCgCo, whose Cg and Co have the range of luma: R = Y - Cg + Co, G = Y + Cg, B = Y - Cg - Co. */
BZI_KERNEL_CPU void bzi_kernel_ycgco_matrix(int full_range, int depth, float rgb[12])
{
    static const double cg[3] = { -1.0, 1.0, -1.0 }, co[3] = { 1.0, 0.0, -1.0 };
    double unit = (double)(1 << (depth - 8)), top = (double)((1 << depth) - 1), neutral = 128.0 * unit;
    double scale = 255.0 / (full_range ? top : 219.0 * unit), black = full_range ? 0.0 : 16.0 * unit;
    for (int c = 0; c < 3; c++) {
        rgb[c * 4 + 0] = (float)scale;
        rgb[c * 4 + 1] = (float)(cg[c] * scale);
        rgb[c * 4 + 2] = (float)(co[c] * scale);
        rgb[c * 4 + 3] = (float)(-scale * (black + (cg[c] + co[c]) * neutral));
    }
}

/* The same for planes of G, B and R, and for gray, whose code values need no matrix but their range. */
BZI_KERNEL_CPU void bzi_kernel_identity_matrix(int is_gray, int full_range, int depth, float rgb[12])
{
    static const int plane_of[3] = { 2, 0, 1 };
    double unit = (double)(1 << (depth - 8)), top = (double)((1 << depth) - 1);
    double scale = 255.0 / (full_range ? top : 219.0 * unit), black = full_range ? 0.0 : 16.0 * unit;
    memset(rgb, 0, 12 * sizeof *rgb);
    for (int c = 0; c < 3; c++) {
        rgb[c * 4 + (is_gray ? 0 : plane_of[c])] = (float)scale;
        rgb[c * 4 + 3] = (float)(-scale * black);
    }
}

/* The whole slot in its fill color: for a sample that could not be decoded. */
BZI_KERNEL_CPU void bzi_kernel_fill(const bzi_kernel_slot *slot, const bzi_kernel_output *out)
{
    for (int32_t y = 0; y < out->height; y++)
        for (int32_t x = 0; x < out->width; x++) {
            float c[3];
            bzi_kernel_fill_pixel(slot, out, x, y, c);
            bzi_kernel_store(slot, out, x, y, c);
        }
}

BZI_KERNEL_FN void bzi_kernel_plain(const bzi_kernel_slot *slot, const bzi_kernel_output *out, int kind)
{
    const bzi_kernel_slot local = *slot;       /* the compiler knows that storing pixels does not change them */
    const bzi_kernel_output to = *out;
    const bzi_kernel_view view = bzi_kernel_view_of(&local);
    for (int32_t y = 0; y < to.height; y++)
        for (int32_t x = 0; x < to.width; x++) {
            float c[3];
            bzi_kernel_pixel(&local, &view, &to, kind, x, y, c);
            bzi_kernel_store(&local, &to, x, y, c);
        }
}

/* The reference, and the loop for every H that is not axis-aligned. */
BZI_KERNEL_CPU void bzi_kernel_warp_plain(const bzi_kernel_slot *slot, const bzi_kernel_output *out)
{
    switch (bzi_kernel_view_of(slot).kind) {
    case BZI_KERNEL_LERP:    bzi_kernel_plain(slot, out, BZI_KERNEL_LERP); break;
    case BZI_KERNEL_RAMP:    bzi_kernel_plain(slot, out, BZI_KERNEL_RAMP); break;
    case BZI_KERNEL_CUBICS:  bzi_kernel_plain(slot, out, BZI_KERNEL_CUBICS); break;
    case BZI_KERNEL_LANCZOS: bzi_kernel_plain(slot, out, BZI_KERNEL_LANCZOS); break;
    }
}

/* The separable loop, for an axis-aligned H: u depends on x alone and v on y alone. For each output row it blends two
 * rows of each plane over the columns that are needed (vertical), then blends two samples of that line for each output
 * pixel (horizontal), then converts color: three loops that compilers vectorize. Its workspace: */
typedef struct bzi_kernel_lines {
    int32_t  first, end;              /* output columns inside the picture */
    int32_t  low[2], count[2];        /* luma, chroma: the first sample column that is needed, and how many are */
    int32_t *index[2];                /* per output column: the left sample, counted from low */
    float   *weight[2];               /* and the weight of the right one */
    float   *line[3];                 /* Y, Cb, Cr: the two rows blended, count samples and one more */
    float   *row[3];                  /* R, G, B of an output row, unless the batch holds it just so */
} bzi_kernel_lines;

/* An H that turns the picture by 90 degrees is axis-aligned once rows and columns of the output change places. No bit
 * changes: the products that are added in another order are 0. */
BZI_KERNEL_CPU void bzi_kernel_turn(bzi_kernel_slot *slot, bzi_kernel_output *out)
{
    const bzi_kernel_slot s = *slot;
    const bzi_kernel_output o = *out;
    if (s.h[0] != 0.0f || s.h[4] != 0.0f || bzi_kernel_aligned(s.h))
        return;
    for (int row = 0; row < 6; row += 3) {
        slot->h[row] = s.h[row + 1];
        slot->h[row + 1] = s.h[row];
    }
    out->width = o.height;
    out->height = o.width;
    out->stride_x = o.stride_y;
    out->stride_y = o.stride_x;
}

/* What the separable loop needs for this slot, in bytes; 0: the loop is not for it. */
BZI_KERNEL_CPU size_t bzi_kernel_workspace_bytes(const bzi_kernel_slot *given, const bzi_kernel_output *to)
{
    bzi_kernel_slot local = *given, *slot = &local;
    bzi_kernel_output turned = *to, *out = &turned;
    bzi_kernel_turn(slot, out);
    if (!bzi_kernel_aligned(slot->h) || out->width < 1 || slot->x1 < slot->x0 || out->mean ||
        bzi_kernel_view_of(slot).kind != BZI_KERNEL_LERP)
        return 0;
    uint64_t columns = (uint64_t)out->width, samples = (uint64_t)((int64_t)slot->x1 - slot->x0) + 2;
    uint64_t bytes = (7 * columns + 3 * samples) * sizeof(float);      /* columns < 2^31, samples < 2^33 */
    return bytes <= SIZE_MAX ? (size_t)bytes : SIZE_MAX;
}

/* The taps of every output column and the span of samples they touch. u(x) is monotonic, rounding included: the inside
 * is one piece. */
BZI_KERNEL_CPU void bzi_kernel_plan(bzi_kernel_lines *lines, const bzi_kernel_slot *slot, const bzi_kernel_view *view,
                                    int32_t width, float *memory)
{
    memset(lines, 0, sizeof *lines);
    for (int c = 0; c < 2; c++, memory += 2 * (size_t)width) {
        lines->index[c]  = (int32_t *)(void *)memory;
        lines->weight[c] = memory + width;
    }
    for (int c = 0; c < 3; c++, memory += width)
        lines->row[c] = memory;
    for (int32_t x = 0; x < width; x++) {
        float u, v;
        bzi_kernel_map(slot->h, x, 0, &u, &v);
        if (!bzi_kernel_inside(u, view->x[0].last))
            continue;
        u = bzi_kernel_place(slot->filter, u, view->x[0].last);
        if (lines->end == 0)
            lines->first = x;
        lines->end = x + 1;
        for (int c = 0; c < 2; c++) {
            bzi_kernel_tap tap = bzi_kernel_tap_of(view->x[c], u);
            lines->index[c][x]  = tap.index;
            lines->weight[c][x] = tap.weight;
        }
    }
    for (int c = 0; c < 2 && lines->end; c++) {
        int32_t a = lines->index[c][lines->first], b = lines->index[c][lines->end - 1], last = (int32_t)view->x[c].last;
        int32_t low = a < b ? a : b, high = a < b ? b : a;       /* in a mirrored picture, indices decrease */
        lines->low[c]   = low;
        lines->count[c] = (high < last ? high + 1 : last) - low + 1;
        for (int32_t x = lines->first; x < lines->end; x++)
            lines->index[c][x] -= low;
    }
    for (int p = 0; p < 3; memory += lines->count[p > 0] + 1, p++)
        lines->line[p] = memory;
}

BZI_KERNEL_FN void bzi_kernel_blend(float *restrict line, const uint8_t *restrict row0, const uint8_t *restrict row1,
                                    int32_t count, int32_t step, int32_t depth, int32_t low_zeros, float weight)
{
    for (int32_t i = 0; i < count; i++)
        line[i] = bzi_kernel_lerp(bzi_kernel_load(row0 + (int64_t)i * step, depth, low_zeros),
                                  bzi_kernel_load(row1 + (int64_t)i * step, depth, low_zeros), weight);
    line[count] = line[count - 1];        /* the right tap of the last sample, whose weight is 0 */
}

/* The vertical filter: two rows of plane p become a line. The common layouts are given as constants, for which the loop
 * is vectorized. */
BZI_KERNEL_FN void bzi_kernel_vertical(const bzi_kernel_slot *slot, const bzi_kernel_view *view,
                                       const bzi_kernel_lines *lines, int p, float v)
{
    bzi_kernel_tap tap = bzi_kernel_tap_of(view->y[p > 0], v);
    const uint8_t *row0 = bzi_kernel_row(slot, view, p, tap.index) + (int64_t)lines->low[p > 0] * slot->step[p];
    const uint8_t *row1 = row0 + (int64_t)tap.next * slot->pitch[p];
    int32_t count = lines->count[p > 0], step = slot->step[p];
    if (slot->depth <= 8 && step == 1)
        bzi_kernel_blend(lines->line[p], row0, row1, count, 1, 8, 0, tap.weight);
    else if (slot->depth <= 8 && step == 2)
        bzi_kernel_blend(lines->line[p], row0, row1, count, 2, 8, 0, tap.weight);
    else
        bzi_kernel_blend(lines->line[p], row0, row1, count, step, slot->depth, slot->low_zeros, tap.weight);
}

BZI_KERNEL_FN void bzi_kernel_horizontal(float *restrict row, const float *restrict line, const int32_t *restrict index,
                                         const float *restrict weight, int32_t first, int32_t end)
{
    for (int32_t x = first; x < end; x++)
        row[x] = bzi_kernel_lerp(line[index[x]], line[index[x] + 1], weight[x]);
}

BZI_KERNEL_FN void bzi_kernel_color_convert_row(const bzi_kernel_slot *slot, uint32_t flags, float *restrict r,
                                                float *restrict g, float *restrict b, int32_t first, int32_t end)
{
    const bzi_kernel_slot local = *slot;       /* the compiler knows that storing pixels does not change it */
    for (int32_t x = first; x < end; x++) {
        float c[3] = { r[x], g[x], b[x] };
        bzi_kernel_color_convert(&local, flags, local.bias, c);
        r[x] = c[0];
        g[x] = c[1];
        b[x] = c[2];
    }
}

/* Columns of an output row to the batch: one channel, whose elements lie side by side, or three in pixels. A function
 * of each kind a type. */
#define BZI_KERNEL_ROWS(convert, type)                                                                                 \
    BZI_KERNEL_FN void convert##_plane(uint64_t address, const float *restrict row, int32_t first, int32_t end)        \
    {                                                                                                                  \
        type *restrict dst = (type *)(uintptr_t)address;                                                               \
        for (int32_t x = first; x < end; x++)                                                                          \
            dst[x] = convert(row[x]);                                                                                  \
    }                                                                                                                  \
    BZI_KERNEL_FN void convert##_pixels(uint64_t address, const float *restrict c0, const float *restrict c1,          \
                                        const float *restrict c2, int32_t first, int32_t end)                          \
    {                                                                                                                  \
        type *restrict dst = (type *)(uintptr_t)address;                                                               \
        for (int32_t x = first; x < end; x++) {                                                                        \
            dst[(int64_t)x * 3] = convert(c0[x]);                                                                      \
            dst[(int64_t)x * 3 + 1] = convert(c1[x]);                                                                  \
            dst[(int64_t)x * 3 + 2] = convert(c2[x]);                                                                  \
        }                                                                                                              \
    }
BZI_KERNEL_ROWS(bzi_kernel_float, float)
BZI_KERNEL_ROWS(bzi_kernel_half, uint16_t)
BZI_KERNEL_ROWS(bzi_kernel_bfloat, uint16_t)
BZI_KERNEL_ROWS(bzi_kernel_byte, uint8_t)

BZI_KERNEL_FN void bzi_kernel_store_plane(uint64_t address, uint32_t dtype, const float *row, int32_t first,
                                          int32_t end)
{
    if (dtype == BZI_KERNEL_FLOAT32)
        bzi_kernel_float_plane(address, row, first, end);
    else if (dtype == BZI_KERNEL_FLOAT16)
        bzi_kernel_half_plane(address, row, first, end);
    else if (dtype == BZI_KERNEL_BFLOAT16)
        bzi_kernel_bfloat_plane(address, row, first, end);
    else
        bzi_kernel_byte_plane(address, row, first, end);
}

BZI_KERNEL_FN void bzi_kernel_store_pixels(uint64_t address, uint32_t dtype, const bzi_kernel_lines *l)
{
    if (dtype == BZI_KERNEL_FLOAT32)
        bzi_kernel_float_pixels(address, l->row[0], l->row[1], l->row[2], l->first, l->end);
    else if (dtype == BZI_KERNEL_FLOAT16)
        bzi_kernel_half_pixels(address, l->row[0], l->row[1], l->row[2], l->first, l->end);
    else if (dtype == BZI_KERNEL_BFLOAT16)
        bzi_kernel_bfloat_pixels(address, l->row[0], l->row[1], l->row[2], l->first, l->end);
    else
        bzi_kernel_byte_pixels(address, l->row[0], l->row[1], l->row[2], l->first, l->end);
}

/* lines->row to the batch, unless it lies there already. */
BZI_KERNEL_FN void bzi_kernel_store_row(const bzi_kernel_slot *slot, const bzi_kernel_lines *lines,
                                        const bzi_kernel_output *out, int32_t y)
{
    const int32_t shift = bzi_kernel_element_shift(out), channels = (int32_t)out->channels;
    const uint64_t address = slot->dst + ((uint64_t)(y * out->stride_y) << shift);
    if (out->stride_x == 1) {
        for (int p = 0; p < channels; p++)
            bzi_kernel_store_plane(address + ((uint64_t)(p * out->stride_c) << shift), out->dtype, lines->row[p],
                                   lines->first, lines->end);
    } else if (out->stride_x == 3 && out->stride_c == 1 && channels == 3) {
        bzi_kernel_store_pixels(address, out->dtype, lines);
    } else {
        for (int32_t x = lines->first; x < lines->end; x++) {
            float c[3] = { lines->row[0][x], lines->row[1][x], lines->row[2][x] };
            bzi_kernel_store(slot, out, x, y, c);
        }
    }
}

/* The inside of output row y. */
BZI_KERNEL_FN void bzi_kernel_columns(const bzi_kernel_slot *slot, const bzi_kernel_view *view,
                                      const bzi_kernel_lines *lines, const bzi_kernel_output *out, int32_t y, float v)
{
    float *row[3];
    int32_t first = lines->first, end = lines->end;
    int direct = out->stride_x == 1 && out->dtype == BZI_KERNEL_FLOAT32;
    for (int p = 0; p < 3; p++) {
        row[p] = direct && p < (int)out->channels ?
                     (float *)(uintptr_t)slot->dst + y * out->stride_y + p * out->stride_c : lines->row[p];
        if (view->plane[p]) {
            bzi_kernel_vertical(slot, view, lines, p, v);
            bzi_kernel_horizontal(row[p], lines->line[p], lines->index[p > 0], lines->weight[p > 0], first, end);
        } else {
            for (int32_t x = first; x < end; x++)
                row[p][x] = view->neutral;
        }
    }
    switch (slot->flags & (BZI_KERNEL_COLOR | BZI_KERNEL_GRAY)) {  /* four loops: a test inside keeps one scalar */
    case 0: bzi_kernel_color_convert_row(slot, 0, row[0], row[1], row[2], first, end); break;
    case 1: bzi_kernel_color_convert_row(slot, 1, row[0], row[1], row[2], first, end); break;
    case 2: bzi_kernel_color_convert_row(slot, 2, row[0], row[1], row[2], first, end); break;
    case 3: bzi_kernel_color_convert_row(slot, 3, row[0], row[1], row[2], first, end); break;
    }
    if (!direct)
        bzi_kernel_store_row(slot, lines, out, y);
}

BZI_KERNEL_FN void bzi_kernel_rows(const bzi_kernel_slot *slot, const bzi_kernel_view *view,
                                   const bzi_kernel_lines *lines, const bzi_kernel_output *out)
{
    for (int32_t y = 0; y < out->height; y++) {
        float u, v;
        bzi_kernel_map(slot->h, 0, y, &u, &v);
        int inside = bzi_kernel_inside(v, view->y[0].last) && lines->end > 0;
        if (inside)
            bzi_kernel_columns(slot, view, lines, out, y, bzi_kernel_place(slot->filter, v, view->y[0].last));
        for (int32_t x = 0; x < (inside ? lines->first : out->width); x++)
            bzi_kernel_store(slot, out, x, y, slot->fill);
        for (int32_t x = inside ? lines->end : out->width; x < out->width; x++)
            bzi_kernel_store(slot, out, x, y, slot->fill);
    }
}

/* The same rows, eight lanes instead of four. AVX2 alone, without FMA: the bits stay the same. */
#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx2")))
BZI_KERNEL_CPU void bzi_kernel_rows_avx2(const bzi_kernel_slot *slot, const bzi_kernel_view *view,
                                         const bzi_kernel_lines *lines, const bzi_kernel_output *out)
{
    bzi_kernel_rows(slot, view, lines, out);
}
#  define BZI_KERNEL_HAS_AVX2() __builtin_cpu_supports("avx2")
#else
#  define bzi_kernel_rows_avx2  bzi_kernel_rows
#  define BZI_KERNEL_HAS_AVX2() 0
#endif

/* Warps a slot with axis-aligned H, turned or not; workspace is aligned as malloc does. Returns 1; or 0, having done
 * nothing, when H is another or the workspace too small. */
BZI_KERNEL_CPU int bzi_kernel_warp_separable(const bzi_kernel_slot *slot, const bzi_kernel_output *out, void *workspace,
                                             size_t workspace_bytes)
{
    size_t needed = bzi_kernel_workspace_bytes(slot, out);
    if (!needed || !workspace || workspace_bytes < needed)
        return 0;
    bzi_kernel_slot local = *slot;
    bzi_kernel_output to = *out;
    bzi_kernel_turn(&local, &to);
    bzi_kernel_view view = bzi_kernel_view_of(&local);
    bzi_kernel_lines lines;
    bzi_kernel_plan(&lines, &local, &view, to.width, workspace);
    if (BZI_KERNEL_HAS_AVX2())
        bzi_kernel_rows_avx2(&local, &view, &lines, &to);
    else
        bzi_kernel_rows(&local, &view, &lines, &to);
    return 1;
}

/* The fastest loop for the slot. */
BZI_KERNEL_CPU void bzi_kernel_warp(const bzi_kernel_slot *slot, const bzi_kernel_output *out, void *workspace,
                                    size_t workspace_bytes)
{
    if (!bzi_kernel_warp_separable(slot, out, workspace, workspace_bytes))
        bzi_kernel_warp_plain(slot, out);
}
#endif
