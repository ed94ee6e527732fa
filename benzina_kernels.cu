/* benzina_kernels.cu - the pixel arithmetic of benzina.c: one source, compiled as CUDA for the GPU and included as C
 * for the CPU.
 *
 * Six parts: 1 portability; 2 plain data, passed by value; 3 arithmetic, static inline functions, and what one GPU
 * thread does with them; 4 CUDA entry points, index arithmetic only; 5 CPU loops; 6 operations on what was warped, each
 * of these things again.
 *
 * Compile with -ffp-contract=off (nvcc: -fmad=false): operations are then rounded one by one, in the order written, so
 * that the GPU, the plain loop and the separable loop give the same bits. As C, gcc and clang are told so below; clang
 * with -ffp-contract=fast, and what makes the GPU's code, need the flag.
 *
 * What decided the CPU loops (500x375 4:2:0 to 224x224, random crops; gcc 12, -O3, taken in turns):
 *   - vectors of eight floats, of gcc and clang. Sixteen (AVX-512) serve where they gain most, for colors of two
 *     rows: a loader of 64x64 pictures, which decode in 16 us, is faster by a tenth. In the horizontal filter they
 *     would save 6 of the 120 us that a 224x224 picture takes;
 *   - no more samples than the filter has: eight instead of five cost a fifth of the warp. The last columns of a row
 *     overlap those before: a test at each store costs a tenth;
 *   - filters are horizontal first: an input row is filtered once, and output rows share it. Samples of four columns
 *     are shuffled out of one window of 16 bytes; where columns lie farther apart, four bytes are loaded for each;
 *   - colors are made of the rows that they are sums of, and of constant filters: tests in that loop, and sums stored
 *     before it, cost a quarter of the warp;
 *   - where a turned H takes samples of each pixel, eight loads are faster than AVX2's gather;
 *   - in loops that compilers make vectors of (jitter, operations), constants (0 and 255) must not meet what a
 *     comparison chose: gcc then keeps them scalar. Hence integers in bzi_kernel_byte, weights in the slot. A weight of
 *     0 changes no bit: loops may have more taps than samples.
 *
 * What decided the GPU kernels, by counting, never by timing: registers (ptxas 13.0, sm_90) and instructions of PTX a
 * pixel, as build/tests/test_ptx executes and prints them (500x375 4:2:0 to 224x224, shrunk by 1.5, float32 in planes):
 *
 *     linear     48 registers    294  linear, not widened
 *     ramp       77             1066  linear, widened
 *     any       119             1840  linear, widened, sheared; cubic, widened: 2879; with a jitter 60 more, with hue
 *                                      140, for contrast all of it twice
 *
 *   - Kernels of their own, because the path with most registers decides for all of a kernel;
 *   - slots as parameters, copied to a local before the loops: they are then in uniform registers, and loops load
 *     nothing but samples; an index into them that varies would put them into memory;
 *   - positions of 32 bits, times the pitch in one IMAD.WIDE; sums of weights in the loops that use them.
 *
 * A second way for NV12, with constants for steps and shifts, Cb and Cr in one load and the x axis once per column,
 * took 205 instructions instead of 294, and 1005 instead of 1066: by this count, 0.2 us of an H100 for a picture. */

/* ---- 1. portability ---------------------------------------------------------------------------------------------- */

/* Nothing is fused where the compiler can be told so here; before the first include, whose functions are inlined.
 * gcc 12 fuses a * b - c beside a * b + c (vfmaddsub), whatever the flag, when it makes vectors of straight code, and
 * makes no vectors of a blur's loops once it has jammed two rounds of them into one. */
#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || \
    (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#  error "compile without -ffast-math (-Ofast) and its parts, with -ffp-contract=off: pixels would not be the same"
#endif
#if defined(__clang__)
#  pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#  pragma GCC optimize ("-ffp-contract=off", "-fno-tree-slp-vectorize", "-fno-loop-unroll-and-jam")
#endif

#include "benzina.h"                  /* numbers of filters, types of elements, operations */

#if defined(__clang__) && defined(__CUDA__)       /* without CUDA's headers */
#  define BZI_KERNEL_CUDA  1
#  define BZI_KERNEL_GLOBAL_FN extern "C" __attribute__((global)) void
#  define BZI_KERNEL_TWO   __attribute__((launch_bounds(256, 2)))
#  define BZI_KERNEL_FN    static inline __attribute__((device, always_inline))
#  define BZI_KERNEL_GLOBAL __attribute__((address_space(1)))
#  define BZI_KERNEL_SHARED    static __attribute__((shared))
#  define BZI_KERNEL_SHARED_ADDRESS(p) ((uint64_t)(__attribute__((address_space(3))) uint32_t *)(p))
#  define BZI_KERNEL_THREAD(d)  ((uint32_t)__nvvm_read_ptx_sreg_tid_##d())        /* of the block */
#  define BZI_KERNEL_THREADS(d) ((uint32_t)__nvvm_read_ptx_sreg_ntid_##d())
#  define BZI_KERNEL_BLOCK(d)   ((uint32_t)__nvvm_read_ptx_sreg_ctaid_##d())      /* of the grid */
#  define BZI_KERNEL_BLOCKS(d)  ((uint32_t)__nvvm_read_ptx_sreg_nctaid_##d())
#  define BZI_KERNEL_READ8(p)  __nvvm_ldg_uc(p)
#  define BZI_KERNEL_READ16(p) __nvvm_ldg_us((const uint16_t *)(p))
#  define BZI_KERNEL_READF(p)  __nvvm_ldg_f(p)
#  define BZI_KERNEL_READ64(p) __nvvm_ldg_ll(p)
#  define BZI_KERNEL_MIN(a, b) __builtin_fminf(a, b)
#  define BZI_KERNEL_MAX(a, b) __builtin_fmaxf(a, b)
#elif defined(__CUDACC__)
#  define BZI_KERNEL_CUDA  1
#  define BZI_KERNEL_GLOBAL_FN extern "C" __global__ void
#  define BZI_KERNEL_TWO   __launch_bounds__(256, 2)
#  define BZI_KERNEL_FN    static __device__ __forceinline__
#  define BZI_KERNEL_GLOBAL
#  define BZI_KERNEL_SHARED    __shared__
#  define BZI_KERNEL_SHARED_ADDRESS(p) ((uint64_t)__cvta_generic_to_shared(p))
#  define BZI_KERNEL_THREAD(d)  threadIdx.d
#  define BZI_KERNEL_THREADS(d) blockDim.d
#  define BZI_KERNEL_BLOCK(d)   blockIdx.d
#  define BZI_KERNEL_BLOCKS(d)  gridDim.d
#  define BZI_KERNEL_READ8(p)  __ldg(p)
#  define BZI_KERNEL_READ16(p) __ldg((const uint16_t *)(p))
#  define BZI_KERNEL_READF(p)  __ldg(p)
#  define BZI_KERNEL_READ64(p) __ldg(p)
#  define BZI_KERNEL_MIN(a, b) fminf(a, b)
#  define BZI_KERNEL_MAX(a, b) fmaxf(a, b)
#else
#  include <math.h>
#  include <string.h>
#  if defined(__x86_64__) && defined(__GNUC__)
#    include <immintrin.h>
#  endif
#  define BZI_KERNEL_CUDA  0
#  define BZI_KERNEL_GLOBAL
#  define BZI_KERNEL_READ8(p)  (*(p))
#  define BZI_KERNEL_READ16(p) bzi_kernel_read16(p)
#  define BZI_KERNEL_READF(p)  (*(p))
#  define BZI_KERNEL_READ64(p) (*(p))
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

/* What is done once a slot: on the CPU, one copy of it is enough. */
#if BZI_KERNEL_CUDA
#  define BZI_KERNEL_ONCE_FN BZI_KERNEL_FN
#  define BZI_KERNEL_SYNC()  __syncthreads()
#  define BZI_KERNEL_ROLLED  _Pragma("unroll 1")
#  define BZI_KERNEL_FIRST(d)  (BZI_KERNEL_BLOCK(d) * BZI_KERNEL_THREADS(d) + BZI_KERNEL_THREAD(d))
#  define BZI_KERNEL_STRIDE(d) (BZI_KERNEL_BLOCKS(d) * BZI_KERNEL_THREADS(d))
#else
#  define BZI_KERNEL_ONCE_FN BZI_KERNEL_CPU
#  define BZI_KERNEL_SYNC()  ((void)0)
#  define BZI_KERNEL_ROLLED
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
#define BZI_KERNEL_JITTER 8u     /* what stands behind color in the slot is done; the flags below say what of it */
#define BZI_KERNEL_SWAP  16u     /* B, G, R */
#define BZI_KERNEL_MEAN_LUMA 32u /* contrast is about the mean luma */
#define BZI_KERNEL_SUM   64u     /* lumas are added to sums, and no pixel is written: bzi_kernel_summing */
#define BZI_KERNEL_SHIFT 128u    /* shift by hls */
#define BZI_KERNEL_HUE   256u    /* shift by hue */
#define BZI_KERNEL_CLIP  512u    /* clip counts */

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
    float    color[12];       /* 3x4 on the clamped R'G'B' (identity mostly), clamped again */
    float    bias[3], scale[3];
    float    fill[3];         /* out of bounds, in OUTPUT units */
    uint32_t flags;           /* BZI_KERNEL_COLOR, _GRAY, _FILL_MEAN */
    float    luma[3];         /* weights for _GRAY; as constants, they would keep gcc from vectorizing */
    uint32_t filter;          /* BZNA_FILTER_... */
    uint32_t antialias;       /* BZNA_ANTIALIAS_...; ROUND is for a separable H and any filter but nearest */
    float    hls[3];          /* added to H (in 0..6), L (0..255), S (0..1) */
    float    brightness;      /* R'G'B' times it */
    float    contrast, offset;/* R'G'B' times contrast, plus offset: (1 - contrast) times the mean luma */
    float    saturation;      /* 1: colors as they are; 0: gray */
    float    hue;             /* as hls[0], but after saturation */
    float    vivid;           /* as saturation, but after hue */
    float    round;           /* 6: H goes round; 0: it stops at 0 and 6, as MXNet's does */
    uint64_t sums;            /* two uint64_t, for MEAN_LUMA: of the lumas of pixels inside, in 1/256; of how many */
    float    clip[6];         /* output pixel -> pixel of a rectangle, row-major; outside of that is fill */
    float    clip_last[2];    /* its width - 1, height - 1 */
} bzi_kernel_slot;

/* The samples of one launch, passed by value: a launch's parameters may be 4096 bytes in all. */
#define BZI_KERNEL_SLOTS 8

typedef struct bzi_kernel_slots {
    bzi_kernel_slot slot[BZI_KERNEL_SLOTS];
} bzi_kernel_slots;

typedef struct bzi_kernel_output {
    int32_t  width, height;
    int64_t  stride_c, stride_y, stride_x;   /* elements between channels, rows, pixels of a slot: NCHW or NHWC */
    uint32_t dtype;
    uint32_t channels;                       /* 3, or the first alone: 1 */
    uint64_t mean;                           /* float32 [channels][height][width], subtracted before scale; 0: none */
} bzi_kernel_output;

BZI_KERNEL_ASSERT(sizeof(bzi_kernel_slot) == 368);
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

/* Philox4x32-10 of counter, in place. */
BZI_KERNEL_FN void bzi_kernel_philox(const uint32_t given[2], uint32_t counter[4])
{
    uint32_t key[2] = { given[0], given[1] };
    BZI_KERNEL_ROLLED
    for (int round = 0; round < 10; round++, key[0] += 0x9e3779b9u, key[1] += 0xbb67ae85u) {
        const uint64_t a = (uint64_t)0xd2511f53u * counter[0], b = (uint64_t)0xcd9e8d57u * counter[2];
        counter[0] = (uint32_t)(b >> 32) ^ counter[1] ^ key[0];
        counter[1] = (uint32_t)b;
        counter[2] = (uint32_t)(a >> 32) ^ counter[3] ^ key[1];
        counter[3] = (uint32_t)a;
    }
}

/* A whole number below 2^31. GPUs and vectors convert signed numbers in one instruction. */
BZI_KERNEL_FN float bzi_kernel_real(uint32_t value) { return (float)(int32_t)value; }

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

BZI_KERNEL_FN int bzi_kernel_affine(const float h[9]) { return h[6] == 0.0f && h[7] == 0.0f && h[8] == 1.0f; }

/* u depends on x alone, v on y alone. */
BZI_KERNEL_FN int bzi_kernel_aligned(const float h[9]) { return h[1] == 0.0f && h[3] == 0.0f && bzi_kernel_affine(h); }

/* The same, or once rows and columns of the output change places. */
BZI_KERNEL_FN int bzi_kernel_is_separable(const float h[9])
{
    return bzi_kernel_aligned(h) || (h[0] == 0.0f && h[4] == 0.0f && bzi_kernel_affine(h));
}

/* Kinds of filters. LERP: two samples an axis. RAMP: linear and area. SHARP: cubic and Lanczos. */
enum { BZI_KERNEL_LERP, BZI_KERNEL_RAMP, BZI_KERNEL_SHARP };

/* At most this many samples an axis where H is not separable, which then shrinks by more than filters widen. */
#define BZI_KERNEL_TAPS 64

/* sqrt(a^2 + b^2), but for 0.6 %; exact where one of them is 0. NaN counts as 0. */
BZI_KERNEL_FN float bzi_kernel_length(float a, float b)
{
    a = bzi_kernel_clamp(BZI_KERNEL_MAX(a, -a), 1e9f);
    b = bzi_kernel_clamp(BZI_KERNEL_MAX(b, -b), 1e9f);
    float longer = BZI_KERNEL_MAX(a, b), shorter = BZI_KERNEL_MIN(a, b);
    return longer + shorter * shorter / (2.0f * longer + 0.41421356f * shorter + 1e-30f);
}

BZI_KERNEL_FN int bzi_kernel_is_lanczos(uint32_t filter)
{
    return filter == BZNA_FILTER_LANCZOS3 || filter == BZNA_FILTER_LANCZOS4;
}

BZI_KERNEL_FN int bzi_kernel_is_cubic(uint32_t filter)
{
    return filter == BZNA_FILTER_CUBIC || filter == BZNA_FILTER_CUBIC_075;
}

BZI_KERNEL_FN int bzi_kernel_is_ramp(uint32_t filter)
{
    return !bzi_kernel_is_lanczos(filter) && !bzi_kernel_is_cubic(filter);
}

/* How far a filter reaches, in samples, where it is not widened. */
BZI_KERNEL_FN float bzi_kernel_support(uint32_t filter)
{
    return filter == BZNA_FILTER_LANCZOS4 ? 4.0f : filter == BZNA_FILTER_LANCZOS3 ? 3.0f :
           bzi_kernel_is_cubic(filter) ? 2.0f : 1.0f;
}

/* The lengths of the gradients of u and v, by which filters widen; du_x is du/dx. */
BZI_KERNEL_FN void bzi_kernel_shrink(const bzi_kernel_slot *slot, float du_x, float du_y, float dv_x, float dv_y,
                                     float shrink[2])
{
    const float most = bzi_kernel_is_separable(slot->h) ? 1e9f :
                                                          0.5f * BZI_KERNEL_TAPS / bzi_kernel_support(slot->filter);
    const int narrow = slot->antialias == BZNA_ANTIALIAS_OFF;
    shrink[0] = narrow ? 0.0f : BZI_KERNEL_MIN(bzi_kernel_length(du_x, du_y), most);
    shrink[1] = narrow ? 0.0f : BZI_KERNEL_MIN(bzi_kernel_length(dv_x, dv_y), most);
}

/* Two samples an axis are enough for nearest, and for linear and area where nothing shrinks. */
BZI_KERNEL_FN int bzi_kernel_kind(const bzi_kernel_slot *slot, const float shrink[2])
{
    const uint32_t filter = slot->filter;
    if (!bzi_kernel_is_ramp(filter))
        return BZI_KERNEL_SHARP;
    if (slot->antialias == BZNA_ANTIALIAS_ROUND)
        return BZI_KERNEL_RAMP;
    return filter == BZNA_FILTER_NEAREST || slot->antialias ||
           (bzi_kernel_affine(slot->h) && shrink[0] <= 1.0f && shrink[1] <= 1.0f) ? BZI_KERNEL_LERP : BZI_KERNEL_RAMP;
}

BZI_KERNEL_ONCE_FN bzi_kernel_view bzi_kernel_view_of(const bzi_kernel_slot *slot)
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

BZI_KERNEL_FN void bzi_kernel_map(const float h[9], int32_t x, int32_t y, float *u, float *v)
{
    bzi_kernel_map_affine(h, x, y, u, v);
    if (!bzi_kernel_affine(h)) {
        float w = (h[6] * (float)x + h[7] * (float)y) + h[8];
        *u /= w;
        *v /= w;
    }
}

/* At most half a pixel outside 0..last? Then it counts as the border. NaN is outside; last < 0 is an empty picture,
 * which has no inside. */
BZI_KERNEL_FN int bzi_kernel_inside(float t, float last) { return t >= -0.5f && t <= last + 0.5f && last >= 0.0f; }

/* Where two samples an axis are taken: chroma of the nearest luma sample, too. */
BZI_KERNEL_FN float bzi_kernel_place(uint32_t filter, float t, float last)
{
    return bzi_kernel_clamp(filter == BZNA_FILTER_NEAREST ? (float)bzi_kernel_floor(t + 0.5f) : t, last);
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

BZI_KERNEL_FN float bzi_kernel_lerp(float a, float b, float weight) { return a + (b - a) * weight; }

#if !BZI_KERNEL_CUDA
BZI_KERNEL_FN uint16_t bzi_kernel_read16(const uint8_t *sample)
{
    uint16_t value;
    memcpy(&value, sample, sizeof value);
    return value;
}
#endif

/* What lies at an address. */
BZI_KERNEL_FN uint8_t *bzi_kernel_at(uint64_t address) { return (uint8_t *)(uintptr_t)address; }

BZI_KERNEL_FN float bzi_kernel_load(const uint8_t *sample, int32_t depth, int32_t low_zeros)
{
    if (depth <= 8)
        return (float)BZI_KERNEL_READ8(sample);
    return (float)(BZI_KERNEL_READ16(sample) >> low_zeros);
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

/* The linear filter: horizontal, then vertical, as the separable loop does; x and y are weights. */
BZI_KERNEL_FN float bzi_kernel_bilinear(float p00, float p01, float p10, float p11, float x, float y)
{
    return bzi_kernel_lerp(bzi_kernel_lerp(p00, p01, x), bzi_kernel_lerp(p10, p11, x), y);
}

/* Sample (x, y) of plane p. Conditions, because an index that varies would put the slot into memory on the GPU. A copy,
 * because clang 19 makes such an index of conditions on what a pointer points to. */
BZI_KERNEL_FN float bzi_kernel_fetch(const bzi_kernel_slot *given, const bzi_kernel_view *view, int p, int32_t x,
                                     int32_t y)
{
    const bzi_kernel_slot slot = *given;
    const uint64_t plane = p == 0 ? view->plane[0] : p == 1 ? view->plane[1] : view->plane[2];
    const int32_t pitch = p == 0 ? slot.pitch[0] : p == 1 ? slot.pitch[1] : slot.pitch[2];
    const int32_t step = p == 0 ? slot.step[0] : p == 1 ? slot.step[1] : slot.step[2];
    const int64_t at = bzi_kernel_offset(y, pitch) + bzi_kernel_offset(x, step);
    return bzi_kernel_load(bzi_kernel_at(plane + (uint64_t)at), slot.depth, slot.low_zeros);
}

BZI_KERNEL_FN float bzi_kernel_sample(const bzi_kernel_slot *slot, const bzi_kernel_view *view, int p, bzi_kernel_tap x,
                                      bzi_kernel_tap y)
{
    const int32_t right = x.index + x.next, below = y.index + y.next;
    return bzi_kernel_bilinear(bzi_kernel_fetch(slot, view, p, x.index, y.index),
                               bzi_kernel_fetch(slot, view, p, right, y.index),
                               bzi_kernel_fetch(slot, view, p, x.index, below),
                               bzi_kernel_fetch(slot, view, p, right, below), x.weight, y.weight);
}

/* The samples of an axis that one pixel is made of, first..last, and what their weights come from. */
typedef struct bzi_kernel_taps {
    int32_t begin, count;     /* the filter's reach; the same count at any position */
    int32_t first, last;      /* what of it has weight */
    int32_t end;              /* the last sample of the axis */
    uint32_t filter;
    float   position, narrow, radius;
} bzi_kernel_taps;

/* OpenCV's filters repeat the samples of the border; PIL's have no weight outside. */
BZI_KERNEL_FN int bzi_kernel_repeats(uint32_t filter)
{
    return filter == BZNA_FILTER_LANCZOS4 || filter == BZNA_FILTER_CUBIC_075;
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

/* The weight at a distance of cubic and Lanczos. */
BZI_KERNEL_FN float bzi_kernel_weight_at(uint32_t filter, float x)
{
    const float a = filter == BZNA_FILTER_CUBIC ? -0.5f : -0.75f;
    if (bzi_kernel_is_lanczos(filter))
        return bzi_kernel_lanczos(filter == BZNA_FILTER_LANCZOS3, x);
    float near = ((a + 2.0f) * x - (a + 3.0f)) * x * x + 1.0f, far = (((x - 5.0f) * x + 8.0f) * x - 4.0f) * a;
    return x < 1.0f ? near : x < 2.0f ? far : 0.0f;
}

/* The weight of sample i; those of an axis are divided by their sum. */
BZI_KERNEL_FN float bzi_kernel_weight(const bzi_kernel_taps *taps, int32_t i)
{
    float x = (float)i - taps->position;
    x = BZI_KERNEL_MAX(x, -x) * taps->narrow;
    return bzi_kernel_is_ramp(taps->filter) ?
           bzi_kernel_clamp((taps->filter == BZNA_FILTER_AREA ? taps->radius : 1.0f) - x, 1.0f) :
           bzi_kernel_weight_at(taps->filter, x);
}

/* Where picture coordinate t takes its samples; shrink: input pixels an output pixel. Chroma of fewer samples than luma
 * comes near to what it is if it is interpolated to luma's size and filtered there: cubic and Lanczos are linear where
 * it is not shrunk; linear and area are wider where luma is shrunk. */
BZI_KERNEL_FN bzi_kernel_taps bzi_kernel_reach(uint32_t filter, bzi_kernel_axis axis, float t, float shrink)
{
    bzi_kernel_taps taps;
    const int is_ramp = bzi_kernel_is_ramp(filter);
    float wide = shrink * axis.scale;
    taps.filter = axis.scale < 1.0f && wide <= 1.0f && !is_ramp ? BZNA_FILTER_LINEAR : filter;
    wide = axis.scale < 1.0f && shrink > 1.0f && is_ramp ? bzi_kernel_length(1.0f, wide) : wide;
    wide = BZI_KERNEL_MIN(BZI_KERNEL_MAX(wide, 1.0f), axis.last + 1.0f);
    taps.radius = taps.filter == BZNA_FILTER_AREA ? 0.5f * wide + 0.5f : bzi_kernel_support(taps.filter) * wide;
    taps.narrow = taps.filter == BZNA_FILTER_AREA ? 1.0f : 1.0f / wide;
    taps.position = t * axis.scale + axis.offset;
    taps.begin = bzi_kernel_floor(taps.position - taps.radius) + 1;
    taps.count = -bzi_kernel_floor(-2.0f * taps.radius);
    taps.end   = (int32_t)axis.last;
    taps.first = taps.begin;
    taps.last  = taps.begin + taps.count - 1;
    if (!bzi_kernel_repeats(taps.filter)) {
        taps.first = taps.first > 0 ? taps.first : 0;
        taps.last  = taps.last < taps.end ? taps.last : taps.end;
    }
    return taps;
}

/* The sample that tap i reads; ramps have none outside. */
BZI_KERNEL_FN int32_t bzi_kernel_nearest_of(const bzi_kernel_taps *taps, int32_t i)
{
    return bzi_kernel_is_ramp(taps->filter) ? i : i < 0 ? 0 : i < taps->end ? i : taps->end;
}

/* axis[p], as bzi_kernel_fetch. */
BZI_KERNEL_FN bzi_kernel_axis bzi_kernel_choose(const bzi_kernel_axis axis[2], int p)
{
    bzi_kernel_axis chosen;
    chosen.scale  = p ? axis[1].scale : axis[0].scale;
    chosen.offset = p ? axis[1].offset : axis[0].offset;
    chosen.last   = p ? axis[1].last : axis[0].last;
    return chosen;
}

/* A whole sample of 0..most, halves up, as PIL rounds. */
BZI_KERNEL_FN float bzi_kernel_whole(float value, float most)
{
    return (float)(int32_t)(bzi_kernel_clamp(value, most) + 0.5f);
}

/* The largest sample. */
BZI_KERNEL_FN float bzi_kernel_most(const bzi_kernel_slot *slot) { return (float)((1 << slot->depth) - 1); }

/* Any filter, of plane p, and of Cr beside Cb: horizontal, then vertical, taps ascending, as the separable loop. */
BZI_KERNEL_FN void bzi_kernel_filter_plane(const bzi_kernel_slot *slot, const bzi_kernel_view *view, int p,
                                           const bzi_kernel_taps *x, const bzi_kernel_taps *y, float sum[2])
{
    const int rounds = slot->antialias == BZNA_ANTIALIAS_ROUND;
    const float most = bzi_kernel_most(slot);
    float weights_x = 0.0f, weights_y = 0.0f;
    sum[0] = sum[1] = 0.0f;
    BZI_KERNEL_ROLLED
    for (int32_t k = y->first; k <= y->last; k++) {
        const int32_t row = bzi_kernel_nearest_of(y, k);
        float part[2] = { 0.0f, 0.0f }, weight;
        weights_x = 0.0f;                      /* summed again, which costs less than a loop of its own */
        BZI_KERNEL_ROLLED
        for (int32_t i = x->first; i <= x->last; i++) {
            const int32_t column = bzi_kernel_nearest_of(x, i);
            weight = bzi_kernel_weight(x, i);
            weights_x += weight;
            part[0] += weight * bzi_kernel_fetch(slot, view, p, column, row);
            if (p)
                part[1] += weight * bzi_kernel_fetch(slot, view, 2, column, row);
        }
        for (int i = 0; i < 2 && rounds; i++)
            part[i] = bzi_kernel_whole(part[i] * (1.0f / weights_x), most);
        weight = bzi_kernel_weight(y, k);
        weights_y += weight;
        sum[0] += weight * part[0];
        sum[1] += weight * part[1];
    }
    const float norm = (rounds ? 1.0f : 1.0f / weights_x) * (1.0f / weights_y);
    for (int i = 0; i < 2; i++)
        sum[i] = rounds ? bzi_kernel_whole(sum[i] * norm, most) : sum[i] * norm;
}

/* Y'CbCr at u, v of the picture. */
BZI_KERNEL_FN void bzi_kernel_filter(const bzi_kernel_slot *slot, const bzi_kernel_view *view, float u, float v,
                                     const float shrink[2], float c[3])
{
    float luma = 0.0f, cb = view->neutral, cr = view->neutral;
    BZI_KERNEL_ROLLED
    for (int p = 0; p < (view->plane[1] ? 2 : 1); p++) {
        const bzi_kernel_taps x = bzi_kernel_reach(slot->filter, bzi_kernel_choose(view->x, p), u, shrink[0]);
        const bzi_kernel_taps y = bzi_kernel_reach(slot->filter, bzi_kernel_choose(view->y, p), v, shrink[1]);
        float sum[2];
        bzi_kernel_filter_plane(slot, view, p, &x, &y, sum);
        luma = p ? luma : sum[0];
        cb   = p ? sum[0] : cb;
        cr   = p ? sum[1] : cr;
    }
    c[0] = luma;
    c[1] = cb;
    c[2] = cr;
}

/* c = m [a b c 1]' clamped to 0..255: three channels at once, m is 3x4. */
BZI_KERNEL_FN void bzi_kernel_apply_matrix(const float m[12], float c[3])
{
    const float c0 = c[0], c1 = c[1], c2 = c[2];
    for (int i = 0; i < 3; i++, m += 4)
        c[i] = bzi_kernel_clamp(((m[0] * c0 + m[1] * c1) + m[2] * c2) + m[3], 255.0f);
}

BZI_KERNEL_FN float bzi_kernel_luma(const float weight[3], const float c[3])
{
    return (weight[0] * c[0] + weight[1] * c[1]) + weight[2] * c[2];
}

/* Moves H, L and S of R, G, B in 0..255, as bzi_kernel_slot.hls: OpenCV's HLS, not rounded. H alone leaves the largest
 * and the smallest as they are, which is HSV's too. gcc makes vectors of choices only between what is computed. */
BZI_KERNEL_FN void bzi_kernel_shift(float h, float l, float s, float round, float c[3])
{
    const float rg = c[0] - c[1], gb = c[1] - c[2], br = c[2] - c[0];
    const float most = BZI_KERNEL_MAX(BZI_KERNEL_MAX(c[0], c[1]), c[2]);
    const float least = BZI_KERNEL_MIN(BZI_KERNEL_MIN(c[0], c[1]), c[2]);
    const float range = BZI_KERNEL_MAX(most - least, 1e-6f);
    const float red = gb / range, green = br / range + 2.0f, blue = rg / range + 4.0f;
    float hue = most == c[0] ? red : most == c[1] ? green : blue;
    const float turned = hue + 6.0f;
    float light = 0.5f * (most + least), half = 0.5f * (most - least);
    hue = (hue < 0.0f ? turned : hue) + h;
    hue = bzi_kernel_clamp(hue - round * (float)bzi_kernel_floor(hue * 0.16666667f), 6.0f);
    s = bzi_kernel_clamp(half / BZI_KERNEL_MAX(BZI_KERNEL_MIN(light, 255.0f - light), 1e-6f) + s, 1.0f);
    light = bzi_kernel_clamp(light + l, 255.0f);
    half = s * BZI_KERNEL_MIN(light, 255.0f - light);
    for (int i = 0; i < 3; i++) {
        float away = hue - (i ? 2.0f * (float)i : 3.0f);
        away = BZI_KERNEL_MAX(away, -away);
        away = bzi_kernel_clamp(i ? 2.0f - away : away - 1.0f, 1.0f);
        c[i] = bzi_kernel_clamp(light - half + 2.0f * half * away, 255.0f);
    }
}

/* A step of jitter on R'G'B' in 0..255: 0 is hls and brightness, 1 contrast and saturation, 2 hue, 3 gray. Each is
 * clamped, as torchvision does with floats. */
BZI_KERNEL_FN void bzi_kernel_jitter_step(const bzi_kernel_slot *slot, uint32_t flags, int step, float c[3])
{
    const float scale = step == 0 ? slot->brightness : step == 1 ? slot->contrast : 1.0f;
    const float blend = step == 1 ? slot->saturation : slot->vivid, add = step == 1 ? slot->offset : 0.0f;
    if (flags & (step == 0 ? BZI_KERNEL_SHIFT : step == 2 ? BZI_KERNEL_HUE : 0))
        bzi_kernel_shift(step ? slot->hue : slot->hls[0], step ? 0.0f : slot->hls[1], step ? 0.0f : slot->hls[2],
                         step ? 6.0f : slot->round, c);
    for (int i = 0; i < 3; i++)
        c[i] = bzi_kernel_clamp(c[i] * scale + add, 255.0f);
    const float gray = (1.0f - blend) * bzi_kernel_luma(slot->luma, c);
    for (int i = 0; i < 3 && (step & 1); i++)
        c[i] = bzi_kernel_clamp(c[i] * blend + gray, 255.0f);
}

/* All of it; with BZI_KERNEL_SUM, what is in front of contrast. */
BZI_KERNEL_FN void bzi_kernel_jitter(const bzi_kernel_slot *slot, uint32_t flags, float c[3])
{
    BZI_KERNEL_ROLLED
    for (int step = 0; step < (flags & BZI_KERNEL_SUM ? 1 : 4); step++)
        bzi_kernel_jitter_step(slot, flags, step, c);
    const float red = flags & BZI_KERNEL_SWAP ? c[2] : c[0];
    c[2] = flags & BZI_KERNEL_SWAP ? c[0] : c[2];
    c[0] = red;
}

/* Y'CbCr -> output units, in place. mean: that of the pixel, where flags have BZI_KERNEL_MEAN. */
#define BZI_KERNEL_MEAN 4u
BZI_KERNEL_FN void bzi_kernel_color_convert(const bzi_kernel_slot *slot, uint32_t flags, const float mean[3],
                                            float c[3])
{
    bzi_kernel_apply_matrix(slot->rgb, c);
    if (flags & BZI_KERNEL_COLOR)
        bzi_kernel_apply_matrix(slot->color, c);
    if (flags & BZI_KERNEL_JITTER)
        bzi_kernel_jitter(slot, flags, c);
    if (flags & BZI_KERNEL_GRAY)
        c[0] = bzi_kernel_luma(slot->luma, c);
    for (int i = 0; i < 3; i++)
        c[i] = (c[i] - slot->bias[i] - (flags & BZI_KERNEL_MEAN ? mean[i] : 0.0f)) * slot->scale[i];
}

/* The mean picture's pixel number `at`, of the channels that there are. */
BZI_KERNEL_FN void bzi_kernel_mean(const bzi_kernel_output *out, int64_t at, float mean[3])
{
    const float *const picture = (const float *)(uintptr_t)out->mean;
    const int64_t plane = (int64_t)out->width * out->height;
    for (uint32_t i = 0; i < 3; i++)
        mean[i] = picture && i < out->channels ? BZI_KERNEL_READF(picture + (at + i * plane)) : 0.0f;
}

BZI_KERNEL_FN void bzi_kernel_fill_color(const bzi_kernel_slot *slot, const float mean[3], float c[3])
{
    for (int i = 0; i < 3; i++)
        c[i] = slot->flags & BZI_KERNEL_FILL_MEAN ? slot->fill[i] - mean[i] * slot->scale[i] : slot->fill[i];
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

/* Does an output pixel lie in the rectangle? */
BZI_KERNEL_FN int bzi_kernel_is_kept(const bzi_kernel_slot *slot, int32_t x, int32_t y)
{
    const float *m = slot->clip;
    return bzi_kernel_inside((m[0] * (float)x + m[1] * (float)y) + m[2], slot->clip_last[0]) &&
           bzi_kernel_inside((m[3] * (float)x + m[4] * (float)y) + m[5], slot->clip_last[1]);
}

/* What lies under an output pixel, in Y'CbCr; returns 0 where that is outside. kind is view->kind; as a constant, it
 * leaves out the others. */
BZI_KERNEL_FN int bzi_kernel_look(const bzi_kernel_slot *slot, const bzi_kernel_view *view, int kind, int32_t x,
                                  int32_t y, float c[3])
{
    float u, v;
    bzi_kernel_map(slot->h, x, y, &u, &v);
    if (!bzi_kernel_inside(u, view->x[0].last) || !bzi_kernel_inside(v, view->y[0].last) ||
        ((slot->flags & BZI_KERNEL_CLIP) && !bzi_kernel_is_kept(slot, x, y)))
        return 0;
    float shrink[2] = { view->shrink[0], view->shrink[1] };
    if (!bzi_kernel_affine(slot->h)) {         /* the gradients there */
        const float *h = slot->h, w = (h[6] * (float)x + h[7] * (float)y) + h[8];
        bzi_kernel_shrink(slot, (h[0] - u * h[6]) / w, (h[1] - u * h[7]) / w, (h[3] - v * h[6]) / w,
                          (h[4] - v * h[7]) / w, shrink);
    }
    if (kind == BZI_KERNEL_LERP)
        bzi_kernel_lerp_pixel(slot, view, u, v, c);
    else
        bzi_kernel_filter(slot, view, u, v, shrink, c);
    return 1;
}

/* What becomes of it, in output units. */
BZI_KERNEL_FN void bzi_kernel_paint(const bzi_kernel_slot *slot, const bzi_kernel_output *out, int inside, int32_t x,
                                    int32_t y, float c[3])
{
    float mean[3];
    bzi_kernel_mean(out, (int64_t)y * out->width + x, mean);
    if (inside)
        bzi_kernel_color_convert(slot, slot->flags | BZI_KERNEL_MEAN, mean, c);
    else
        bzi_kernel_fill_color(slot, mean, c);
}

/* One output pixel: all steps. */
BZI_KERNEL_FN void bzi_kernel_pixel(const bzi_kernel_slot *slot, const bzi_kernel_view *view,
                                    const bzi_kernel_output *out, int kind, int32_t x, int32_t y, float c[3])
{
    const int inside = bzi_kernel_look(slot, view, kind, x, y, c);
    bzi_kernel_paint(slot, out, inside, x, y, c);
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
    half = (half & ~is_tiny) | ((tiny - (126u << 23)) & is_tiny) | (is_nan & (0x200 | (bits >> 13 & 0x3ff)));
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

/* Element `at` of an array of a type, which is a constant where it can be. */
BZI_KERNEL_FN void bzi_kernel_set(uint32_t dtype, void BZI_KERNEL_GLOBAL *array, int64_t at, float value)
{
    if (dtype == BZNA_DTYPE_FLOAT32)
        ((float BZI_KERNEL_GLOBAL *)array)[at] = value;
    else if (dtype == BZNA_DTYPE_FLOAT16)
        ((uint16_t BZI_KERNEL_GLOBAL *)array)[at] = bzi_kernel_half(value);
    else if (dtype == BZNA_DTYPE_BFLOAT16)
        ((uint16_t BZI_KERNEL_GLOBAL *)array)[at] = bzi_kernel_bfloat(value);
    else
        ((uint8_t BZI_KERNEL_GLOBAL *)array)[at] = bzi_kernel_byte(value);
}

/* Calls a function whose first argument is the type, as a constant. */
#define BZI_KERNEL_BY_TYPE(dtype, function, ...)                                                                       \
    do {                                                                                                               \
        if ((dtype) == BZNA_DTYPE_FLOAT32)                                                                             \
            function(BZNA_DTYPE_FLOAT32, __VA_ARGS__);                                                                 \
        else if ((dtype) == BZNA_DTYPE_FLOAT16)                                                                        \
            function(BZNA_DTYPE_FLOAT16, __VA_ARGS__);                                                                 \
        else if ((dtype) == BZNA_DTYPE_BFLOAT16)                                                                       \
            function(BZNA_DTYPE_BFLOAT16, __VA_ARGS__);                                                                \
        else                                                                                                           \
            function(BZNA_DTYPE_UINT8, __VA_ARGS__);                                                                   \
    } while (0)

/* A pixel into the batch, its first element to address. */
BZI_KERNEL_FN void bzi_kernel_put(uint32_t dtype, uint64_t address, const bzi_kernel_output *out, const float c[3])
{
    void BZI_KERNEL_GLOBAL *to = (void BZI_KERNEL_GLOBAL *)(uintptr_t)address;
    bzi_kernel_set(dtype, to, 0, c[0]);
    if (out->channels == 3) {
        bzi_kernel_set(dtype, to, out->stride_c, c[1]);
        bzi_kernel_set(dtype, to, out->stride_c * 2, c[2]);
    }
}

/* log2 of an element's bytes. */
BZI_KERNEL_FN int32_t bzi_kernel_element_shift(uint32_t dtype)
{
    return dtype == BZNA_DTYPE_FLOAT32 ? 2 : dtype == BZNA_DTYPE_UINT8 ? 0 : 1;
}

/* Where channel c of a pixel lies in what begins at dst. */
BZI_KERNEL_FN uint64_t bzi_kernel_address(uint64_t dst, const bzi_kernel_output *out, uint32_t c, int32_t y, int32_t x)
{
    const uint64_t element = (uint64_t)(y * out->stride_y + x * out->stride_x + c * out->stride_c);
    return dst + (element << bzi_kernel_element_shift(out->dtype));
}

/* Pixel x, y of what begins at dst. */
BZI_KERNEL_FN void bzi_kernel_store(uint64_t dst, const bzi_kernel_output *out, int32_t x, int32_t y, const float c[3])
{
    BZI_KERNEL_BY_TYPE(out->dtype, bzi_kernel_put, bzi_kernel_address(dst, out, 0, y, x), out, c);
}

/* A pixel of a slot, or its luma, where that is inside. */
BZI_KERNEL_FN void bzi_kernel_finish(const bzi_kernel_slot *slot, const bzi_kernel_output *out, int32_t x, int32_t y,
                                     const float c[3], uint64_t sums[2])
{
    if (!(slot->flags & BZI_KERNEL_SUM))
        bzi_kernel_store(slot->dst, out, x, y, c);
    else if (c[0] >= 0.0f) {
        sums[0] += (uint64_t)(int32_t)(c[0] * 256.0f + 0.5f);
        sums[1]++;
    }
}

/* Integers: the sums do not depend on the order. */
BZI_KERNEL_FN void bzi_kernel_add_sums(const bzi_kernel_slot *slot, const uint64_t sums[2])
{
    for (uint32_t i = 0; i < 2 && (slot->flags & BZI_KERNEL_SUM); i++) {
#if BZI_KERNEL_CUDA
        __asm__ volatile("red.global.add.u64 [%0], %1;" : : "l"(slot->sums + 8 * i), "l"(sums[i]) : "memory");
#else
        ((uint64_t *)(uintptr_t)slot->sums)[i] += sums[i];
#endif
    }
}

/* The slot, with the mean that its contrast is about. */
BZI_KERNEL_ONCE_FN bzi_kernel_slot bzi_kernel_with_mean(const bzi_kernel_slot *slot)
{
    bzi_kernel_slot local = *slot;
    if (slot->flags & BZI_KERNEL_MEAN_LUMA) {
        const long long *sums = (const long long *)(uintptr_t)slot->sums;
        const float sum = (float)BZI_KERNEL_READ64(sums), count = (float)BZI_KERNEL_READ64(sums + 1);
        local.offset = (1.0f - slot->contrast) * (sum / count * 0.00390625f);
    }
    return local;
}

/* The rest of this part is what one GPU thread does, in C too, for the tests. */

/* A thread's first pixel and the stride to its next; x + step_x and y + step_y stay below 2^32. */
typedef struct bzi_kernel_thread {
    uint32_t x, y, step_x, step_y;
} bzi_kernel_thread;

/* Without jitter, clip, sums or a mean picture. kind is a constant: LERP but for nearest, or RAMP, of an axis-aligned
 * H. The slot is read before the loops, so that what they use stays in registers. */
BZI_KERNEL_FN void bzi_kernel_usual_thread(const bzi_kernel_slot *slot, const bzi_kernel_output *out,
                                           bzi_kernel_thread thread, int kind)
{
    bzi_kernel_slot local = *slot;
    bzi_kernel_output no_mean = *out;
    local.flags &= BZI_KERNEL_COLOR | BZI_KERNEL_GRAY;
    local.filter = kind == BZI_KERNEL_RAMP && local.filter == BZNA_FILTER_AREA ? BZNA_FILTER_AREA : BZNA_FILTER_LINEAR;
    if (kind == BZI_KERNEL_RAMP) {
        local.h[1] = local.h[3] = local.h[6] = local.h[7] = 0.0f;
        local.h[8] = 1.0f;
        local.antialias = BZNA_ANTIALIAS_AUTO;
    }
    no_mean.mean = 0;
    const bzi_kernel_view view = bzi_kernel_view_of(&local);
    for (uint32_t x = thread.x; x < (uint32_t)out->width; x += thread.step_x)
        for (uint32_t y = thread.y; y < (uint32_t)out->height; y += thread.step_y) {
            float c[3];
            bzi_kernel_pixel(&local, &view, &no_mean, kind, (int32_t)x, (int32_t)y, c);
            bzi_kernel_store(local.dst, out, (int32_t)x, (int32_t)y, c);
        }
}

BZI_KERNEL_FN void bzi_kernel_linear_thread(const bzi_kernel_slot *slot, const bzi_kernel_output *out,
                                            bzi_kernel_thread thread)
{
    bzi_kernel_usual_thread(slot, out, thread, BZI_KERNEL_LERP);
}

BZI_KERNEL_FN void bzi_kernel_ramp_thread(const bzi_kernel_slot *slot, const bzi_kernel_output *out,
                                          bzi_kernel_thread thread)
{
    bzi_kernel_usual_thread(slot, out, thread, BZI_KERNEL_RAMP);
}

/* 0, as no flag is the highest bit. Compilers do not know that, and so cannot read what this picks out before the
 * samples are there: all of a slot at once would need more registers than there are. */
BZI_KERNEL_FN uint32_t bzi_kernel_never(const bzi_kernel_slot *slot, float sample)
{
    return slot->flags >> 31 & bzi_kernel_bits(sample);
}

BZI_KERNEL_FN void bzi_kernel_any_thread(const bzi_kernel_slot *slot, const bzi_kernel_output *out,
                                         bzi_kernel_thread thread)
{
    const bzi_kernel_slot local = bzi_kernel_with_mean(slot);
    const bzi_kernel_view view = bzi_kernel_view_of(&local);
    uint64_t sums[2] = { 0, 0 };
    for (uint32_t x = thread.x; x < (uint32_t)out->width; x += thread.step_x)
        for (uint32_t y = thread.y; y < (uint32_t)out->height; y += thread.step_y) {
            float c[3] = { 0.0f, 0.0f, 0.0f };
            const int inside = bzi_kernel_look(&local, &view, view.kind, (int32_t)x, (int32_t)y, c);
            bzi_kernel_slot late = slot[bzi_kernel_never(slot, c[0])];
            late.offset = local.offset;
            bzi_kernel_paint(&late, out, inside, (int32_t)x, (int32_t)y, c);
            bzi_kernel_finish(&late, out, (int32_t)x, (int32_t)y, c, sums);
        }
    bzi_kernel_add_sums(&local, sums);
}

/* The kernels, each with the registers that it needs, and which of them a slot is for. TWO: as many registers as let a
 * multiprocessor have two blocks of 256 threads. */
#define BZI_KERNELS(X)                                                                                                 \
    X(bzi_kernel_warp_linear, bzi_kernel_linear_thread, )      /* two samples an axis */                               \
    X(bzi_kernel_warp_ramp, bzi_kernel_ramp_thread, )          /* more of them, by an axis-aligned H */                \
    X(bzi_kernel_warp_any, bzi_kernel_any_thread, BZI_KERNEL_TWO)
enum { BZI_KERNEL_OF_LERP, BZI_KERNEL_OF_RAMP, BZI_KERNEL_ANY, BZI_KERNEL_COUNT };

BZI_KERNEL_FN int bzi_kernel_of(const bzi_kernel_slot *slot, const bzi_kernel_output *out)
{
    const int kind = bzi_kernel_view_of(slot).kind;
    if (out->mean || slot->filter == BZNA_FILTER_NEAREST || (slot->flags & (BZI_KERNEL_JITTER | BZI_KERNEL_CLIP)) ||
        slot->antialias == BZNA_ANTIALIAS_ROUND || kind == BZI_KERNEL_SHARP)
        return BZI_KERNEL_ANY;
    if (kind == BZI_KERNEL_LERP)
        return BZI_KERNEL_OF_LERP;
    return bzi_kernel_aligned(slot->h) ? BZI_KERNEL_OF_RAMP : BZI_KERNEL_ANY;
}


#if BZI_KERNEL_CUDA
/* ---- 4. CUDA entry points ---------------------------------------------------------------------------------------- */

/* Warp slots 0 .. grid.z - 1, which all are for that kernel (bzi_kernel_of). Any block of up to 256 threads and any
 * grid in x and y, of less than 2^31 threads each: threads stride over the pixels that are left. Blocks of 32 x 8, a
 * grid of width / 32 by height / 32, rounded up: warps then write rows, and a thread has four pixels to spread its
 * setup over. */
#define BZI_KERNEL_ENTRY(name, function, bounds)                                                                       \
    BZI_KERNEL_GLOBAL_FN bounds name(const bzi_kernel_slots slots, const bzi_kernel_output out)                        \
    {                                                                                                                  \
        bzi_kernel_thread thread = { BZI_KERNEL_FIRST(x), BZI_KERNEL_FIRST(y), BZI_KERNEL_STRIDE(x),                   \
                                     BZI_KERNEL_STRIDE(y) };                                                           \
        function(&slots.slot[BZI_KERNEL_BLOCK(z)], &out, thread);                                                      \
    }
BZI_KERNELS(BZI_KERNEL_ENTRY)

#else
/* ---- 5. CPU loops ------------------------------------------------------------------------------------------------ */

/* The 3x4 of bzi_kernel_slot.rgb for code values of depth bits, as ITU-T H.273 defines them: luma, and chroma of which
 * R, G and B take these shares. chroma_range: the codes of its limited range, for 8 bits. */
BZI_KERNEL_CPU void bzi_kernel_matrix(const double cb[3], const double cr[3], double chroma_range, int full_range,
                                      int depth, float rgb[12])
{
    double unit = (double)(1 << (depth - 8)), top = (double)((1 << depth) - 1);
    double black = full_range ? 0.0 : 16.0 * unit, neutral = 128.0 * unit;
    double luma = 255.0 / (full_range ? top : 219.0 * unit), chroma = 255.0 / (full_range ? top : chroma_range * unit);
    for (int c = 0; c < 3; c++) {
        rgb[c * 4 + 0] = (float)luma;
        rgb[c * 4 + 1] = (float)(cb[c] * chroma);
        rgb[c * 4 + 2] = (float)(cr[c] * chroma);
        rgb[c * 4 + 3] = (float)(-luma * black - (cb[c] + cr[c]) * chroma * neutral);
    }
}

/* For Y'CbCr with luma weights kr and kb. */
BZI_KERNEL_CPU void bzi_kernel_rgb_matrix(double kr, double kb, int full_range, int depth, float rgb[12])
{
    const double kg = 1.0 - kr - kb;
    const double cb[3] = { 0.0, -2.0 * kb * (1.0 - kb) / kg, 2.0 * (1.0 - kb) };
    const double cr[3] = { 2.0 * (1.0 - kr), -2.0 * kr * (1.0 - kr) / kg, 0.0 };
    bzi_kernel_matrix(cb, cr, 224.0, full_range, depth, rgb);
}

/* For YCgCo, whose Cg and Co have the range of luma: R = Y - Cg + Co, G = Y + Cg, B = Y - Cg - Co. */
BZI_KERNEL_CPU void bzi_kernel_ycgco_matrix(int full_range, int depth, float rgb[12])
{
    static const double cg[3] = { -1.0, 1.0, -1.0 }, co[3] = { 1.0, 0.0, -1.0 };
    bzi_kernel_matrix(cg, co, 219.0, full_range, depth, rgb);
}

/* The same for planes of G, B and R, and for gray, whose code values need no matrix but their range. */
BZI_KERNEL_CPU void bzi_kernel_identity_matrix(int is_gray, int full_range, int depth, float rgb[12])
{
    static const double none[3] = { 0.0, 0.0, 0.0 };
    bzi_kernel_matrix(none, none, 219.0, full_range, depth, rgb);
    if (!is_gray) {                            /* R is the third plane, and B the second */
        rgb[2] = rgb[9] = rgb[0];
        rgb[0] = rgb[8] = 0.0f;
    }
}

BZI_KERNEL_FN void bzi_kernel_fill_as(uint32_t dtype, void *to, int64_t step, int32_t count, float value)
{
    for (int32_t k = 0; k < count && step == 1; k++)
        bzi_kernel_set(dtype, to, k, value);
    for (int32_t k = 0; k < count && step != 1; k++)
        bzi_kernel_set(dtype, to, k * step, value);
}

/* So many elements of a value, each `step` after the one before. */
BZI_KERNEL_CPU void bzi_kernel_fill_row(uint32_t dtype, float value, int64_t step, int32_t count, uint8_t *to)
{
    BZI_KERNEL_BY_TYPE(dtype, bzi_kernel_fill_as, to, step, count, value);
}

/* turned: rows and columns of the output have changed places, but not those of the mean picture. */
BZI_KERNEL_CPU void bzi_kernel_fill_columns(const bzi_kernel_slot *slot, const bzi_kernel_output *out, int turned,
                                           int32_t y, int32_t first, int32_t end)
{
    const int has_mean = out->mean && (slot->flags & BZI_KERNEL_FILL_MEAN);
    if (first >= end)
        return;
    for (uint32_t i = 0; i < out->channels && !has_mean; i++)
        bzi_kernel_fill_row(out->dtype, slot->fill[i], out->stride_x, end - first,
                            bzi_kernel_at(bzi_kernel_address(slot->dst, out, i, y, first)));
    for (int32_t x = first; x < end && has_mean; x++) {
        float mean[3], c[3];
        bzi_kernel_mean(out, turned ? (int64_t)x * out->height + y : (int64_t)y * out->width + x, mean);
        bzi_kernel_fill_color(slot, mean, c);
        bzi_kernel_store(slot->dst, out, x, y, c);
    }
}

/* The whole slot in its fill color: for a sample that could not be decoded. */
BZI_KERNEL_CPU void bzi_kernel_fill(const bzi_kernel_slot *slot, const bzi_kernel_output *out)
{
    for (int32_t y = 0; y < out->height; y++)
        bzi_kernel_fill_columns(slot, out, 0, y, 0, out->width);
}

/* What adds the lumas of a slot to its sums, of an output without a mean picture: those are fill outside, -1. */
BZI_KERNEL_CPU bzi_kernel_slot bzi_kernel_summing(const bzi_kernel_slot *slot)
{
    bzi_kernel_slot local = *slot;
    local.flags &= BZI_KERNEL_COLOR | BZI_KERNEL_JITTER | BZI_KERNEL_SHIFT | BZI_KERNEL_CLIP;
    local.flags |= BZI_KERNEL_GRAY | BZI_KERNEL_SUM;
    local.bias[0] = 0.0f;
    local.scale[0] = 1.0f;
    local.fill[0] = -1.0f;
    return local;
}

/* The reference, and the loop for every H that is not separable. */
BZI_KERNEL_CPU void bzi_kernel_warp_plain(const bzi_kernel_slot *slot, const bzi_kernel_output *out)
{
    const bzi_kernel_slot local = bzi_kernel_with_mean(slot);  /* the compiler knows that storing does not change it */
    const bzi_kernel_output to = *out;
    const bzi_kernel_view view = bzi_kernel_view_of(&local);
    uint64_t sums[2] = { 0, 0 };
    for (int32_t y = 0; y < to.height; y++)
        for (int32_t x = 0; x < to.width; x++) {
            float c[3];
            bzi_kernel_pixel(&local, &view, &to, view.kind, x, y, c);
            bzi_kernel_finish(&local, &to, x, y, c, sums);
        }
    bzi_kernel_add_sums(&local, sums);
}

/* Where output number i lies along x (0) or y (1) of the picture. */
BZI_KERNEL_FN float bzi_kernel_along(const float h[9], int along, int32_t i)
{
    float u, v;
    bzi_kernel_map_affine(h, along ? 0 : i, along ? i : 0, &u, &v);
    return along ? v : u;
}

/* Output columns first..end - 1 and rows top..bottom - 1: those that show the picture. */
typedef struct bzi_kernel_inner {
    int32_t first, end, top, bottom;
} bzi_kernel_inner;

/* Does an output pixel show the picture? Pre: H is affine. */
BZI_KERNEL_FN int bzi_kernel_is_inside(const bzi_kernel_slot *slot, const bzi_kernel_view *view, int32_t x,
                                       int32_t y)
{
    float u, v;
    bzi_kernel_map_affine(slot->h, x, y, &u, &v);
    return bzi_kernel_inside(u, view->x[0].last) && bzi_kernel_inside(v, view->y[0].last) &&
           (!(slot->flags & BZI_KERNEL_CLIP) || bzi_kernel_is_kept(slot, x, y));
}

/* The columns of row y that lie inside: one piece, as each border is straight, and u and v are monotonic, rounding
 * included. Its ends are looked for from those of the row before; if none of those behind its first one lies inside,
 * from column 0 on. */
BZI_KERNEL_CPU void bzi_kernel_columns_inside(const bzi_kernel_slot *slot, const bzi_kernel_view *view, int32_t width,
                                              int32_t y, bzi_kernel_inner *in)
{
    int32_t first = in->first, end = in->end;
    while (first < width && !bzi_kernel_is_inside(slot, view, first, y))
        first++;
    if (first == width)
        for (first = 0; first < width && !bzi_kernel_is_inside(slot, view, first, y);)
            first++;
    while (first > 0 && first < width && bzi_kernel_is_inside(slot, view, first - 1, y))
        first--;
    while (end > first && !bzi_kernel_is_inside(slot, view, end - 1, y))
        end--;
    for (end = end > first ? end : first; end < width && bzi_kernel_is_inside(slot, view, end, y);)
        end++;
    in->first = first;
    in->end = end;
}

/* Pre: H is aligned, and so is the clip: all rows inside have the same columns. */
BZI_KERNEL_CPU bzi_kernel_inner bzi_kernel_inner_of(const bzi_kernel_slot *slot, const bzi_kernel_view *view,
                                                    const bzi_kernel_output *out)
{
    bzi_kernel_inner in = { 0, out->width, 0, out->height };
    for (; in.top < out->height; in.top++) {
        bzi_kernel_columns_inside(slot, view, out->width, in.top, &in);
        if (in.first < in.end)
            break;
    }
    while (in.bottom > in.top && !bzi_kernel_is_inside(slot, view, in.first, in.bottom - 1))
        in.bottom--;
    return in;
}

/* Are there vectors? Not on machines whose most significant byte comes first, since four samples are read as one
 * number, and on x86-64 without AVX2 (before 2013): bzi_kernel_warp_plain does everything there. */
#if defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && !defined(__i386__)
#  define BZI_KERNEL_VECTORS 1
#else
#  define BZI_KERNEL_VECTORS 0
#endif
#if BZI_KERNEL_VECTORS && defined(__x86_64__)
#  define BZI_KERNEL_X86 1
#  define BZI_KERNEL_AVX2 __attribute__((target("avx2,f16c")))

/* Has the processor AVX2, and does the system save its registers? All that have it have F16C. */
BZI_KERNEL_CPU int bzi_kernel_has_vectors(void) { return __builtin_cpu_supports("avx2") != 0; }
#else
#  define BZI_KERNEL_X86 0
#  define BZI_KERNEL_AVX2
BZI_KERNEL_CPU int bzi_kernel_has_vectors(void) { return BZI_KERNEL_VECTORS; }
#endif
#define BZI_KERNEL_ROW BZI_KERNEL_AVX2 BZI_KERNEL_CPU           /* a loop over a row */
#define BZI_KERNEL_OF_ROW BZI_KERNEL_AVX2 BZI_KERNEL_FN         /* a part of one */

#if BZI_KERNEL_VECTORS
/* Eight columns: operators do all of them at once. There is no FMA in it: the bits are those of bzi_kernel_pixel. */
typedef float    bzi_kernel_reals  __attribute__((vector_size(32)));
typedef int32_t  bzi_kernel_wholes __attribute__((vector_size(32)));
typedef uint32_t bzi_kernel_words  __attribute__((vector_size(32)));
typedef uint16_t bzi_kernel_halves __attribute__((vector_size(16)));
typedef uint8_t  bzi_kernel_bytes  __attribute__((vector_size(8)));

BZI_KERNEL_OF_ROW bzi_kernel_reals bzi_kernel_reals_at(const float *at)
{
    bzi_kernel_reals v;
    memcpy(&v, at, sizeof v);
    return v;
}

BZI_KERNEL_OF_ROW bzi_kernel_wholes bzi_kernel_wholes_at(const int32_t *at)
{
    bzi_kernel_wholes v;
    memcpy(&v, at, sizeof v);
    return v;
}

/* a, or b where a comparison chose that. */
BZI_KERNEL_OF_ROW bzi_kernel_wholes bzi_kernel_either(bzi_kernel_wholes a, bzi_kernel_wholes b,
                                                      bzi_kernel_wholes chosen)
{
#if BZI_KERNEL_X86
    return (bzi_kernel_wholes)_mm256_blendv_ps((__m256)a, (__m256)b, (__m256)chosen);
#else
    return (a & ~chosen) | (b & chosen);
#endif
}

BZI_KERNEL_OF_ROW bzi_kernel_wholes bzi_kernel_least(bzi_kernel_wholes a, bzi_kernel_wholes b)
{
    return bzi_kernel_either(a, b, b < a);
}

/* The lesser of v, which is a number, and last. */
BZI_KERNEL_OF_ROW bzi_kernel_reals bzi_kernel_min8(bzi_kernel_reals v, float last)
{
#if BZI_KERNEL_X86
    return _mm256_min_ps(v, _mm256_set1_ps(last));
#else
    const bzi_kernel_wholes most = (bzi_kernel_wholes)(last - (bzi_kernel_reals){ 0.0f });
    return (bzi_kernel_reals)bzi_kernel_either(most, (bzi_kernel_wholes)v, v < last);
#endif
}

/* As bzi_kernel_clamp, bzi_kernel_floor. */
BZI_KERNEL_OF_ROW bzi_kernel_reals bzi_kernel_clamp8(bzi_kernel_reals v, float last)
{
#if BZI_KERNEL_X86
    v = _mm256_max_ps(v, _mm256_setzero_ps());
#else
    v = (bzi_kernel_reals)((bzi_kernel_wholes)v & (v > 0.0f));
#endif
    return bzi_kernel_min8(v, last);
}

BZI_KERNEL_OF_ROW bzi_kernel_wholes bzi_kernel_floor8(bzi_kernel_reals v)
{
    const bzi_kernel_wholes whole = __builtin_convertvector(v, bzi_kernel_wholes);
    return whole + (__builtin_convertvector(whole, bzi_kernel_reals) > v);
}

/* Four bytes from each of eight places on, of elements of so many bytes. */
BZI_KERNEL_OF_ROW bzi_kernel_words bzi_kernel_quads(const uint8_t *bytes, const int32_t *at, int size)
{
    uint32_t four[8];
    for (int i = 0; i < 8; i++)
        memcpy(&four[i], bytes + at[i] * size, sizeof *four);
    return (bzi_kernel_words){ four[0], four[1], four[2], four[3], four[4], four[5], four[6], four[7] };
}

/* The same of two windows of sixteen bytes, for four columns each; pick: which of them, byte by byte. */
BZI_KERNEL_OF_ROW bzi_kernel_words bzi_kernel_windows(const uint8_t *low, const uint8_t *high, bzi_kernel_wholes pick)
{
#if BZI_KERNEL_X86
    const __m256i window = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const void *)low)),
                                                   _mm_loadu_si128((const void *)high), 1);
    return (bzi_kernel_words)_mm256_shuffle_epi8(window, (__m256i)pick);
#else
    (void)low, (void)high;            /* never called */
    return (bzi_kernel_words)pick;
#endif
}

/* Byte k of four. */
BZI_KERNEL_OF_ROW bzi_kernel_reals bzi_kernel_byte_of(bzi_kernel_words four, int k)
{
#if BZI_KERNEL_X86
    const bzi_kernel_wholes only = { 0, 4, 8, 12, 0, 4, 8, 12 };               /* and, by numbers below 0, zeros */
    return _mm256_cvtepi32_ps(_mm256_shuffle_epi8((__m256i)four, (__m256i)(only + (k - 256))));
#else
    return __builtin_convertvector((bzi_kernel_wholes)(four >> 8 * k & 255), bzi_kernel_reals);
#endif
}

/* Eight bytes, as a number has them. */
BZI_KERNEL_OF_ROW bzi_kernel_reals bzi_kernel_bytes_of(uint64_t eight)
{
#if BZI_KERNEL_X86
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128((int64_t)eight)));
#else
    return __builtin_convertvector((bzi_kernel_bytes)eight, bzi_kernel_reals);
#endif
}

/* Eight elements, as bzi_kernel_set. */
BZI_KERNEL_OF_ROW void bzi_kernel_put8(uint32_t dtype, uint8_t *to, bzi_kernel_reals v)
{
    if (dtype == BZNA_DTYPE_FLOAT32) {
        memcpy(to, &v, sizeof v);
    } else if (dtype == BZNA_DTYPE_BFLOAT16) {
        const bzi_kernel_words bits = (bzi_kernel_words)v, high = bits >> 16, is_nan = (bzi_kernel_words)(v != v);
        const bzi_kernel_words rounded = (bits + (high & 1) + 0x7fff) >> 16;
        const bzi_kernel_halves half = __builtin_convertvector((rounded & ~is_nan) | ((high | 0x40) & is_nan),
                                                               bzi_kernel_halves);
        memcpy(to, &half, sizeof half);
#if BZI_KERNEL_X86
    } else if (dtype == BZNA_DTYPE_FLOAT16) {
        _mm_storeu_si128((void *)to, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
    } else {                                   /* NaN becomes the least integer: min takes its second operand then */
        __m256i bits = _mm256_cvtps_epi32(_mm256_min_ps(_mm256_set1_ps(255.0f), v));
        bits = _mm256_permute4x64_epi64(_mm256_packs_epi32(bits, bits), 8);
        _mm_storel_epi64((void *)to, _mm256_castsi256_si128(_mm256_packus_epi16(bits, bits)));
#else
    } else {
        for (int i = 0; i < 8; i++)
            bzi_kernel_set(dtype, to, i, v[i]);
#endif
    }
}

/* The same, or fewer behind each other, where no more are left. */
BZI_KERNEL_OF_ROW void bzi_kernel_put_most(uint32_t dtype, uint8_t *to, int32_t count, bzi_kernel_reals v)
{
    uint8_t all[sizeof v];
    if (count >= 8) {
        bzi_kernel_put8(dtype, to, v);
    } else {
        bzi_kernel_put8(dtype, all, v);
        memcpy(to, all, (size_t)count << bzi_kernel_element_shift(dtype));
    }
}


/* Rows of the output. For an axis-aligned H, u depends on x alone and v on y alone: rows of the picture are filtered
 * along x (horizontal) and held, since neighboring output rows share them; an output row is a sum of rows so made
 * (vertical), taken where colors are. For one that turns or shears, samples of each pixel are looked for. */
#define BZI_KERNEL_HELD 128           /* rows held at most, a power of two; rows of higher filters are made again */
#define BZI_KERNEL_PARTS 8            /* rows that colors are made of at most; those before are summed first */
#define BZI_KERNEL_TURNED_TAPS 16     /* samples an axis, at most, where H is not aligned */
#define BZI_KERNEL_WORKSPACE (1u << 24)       /* elements of four bytes, at most */

/* What output columns, or rows, inside the picture take of luma's, or of chroma's. */
typedef struct bzi_kernel_scan {
    int32_t  taps;                    /* samples each of them takes */
    size_t   room;                    /* of what has an element for each of them: a multiple of 16 */
    int32_t *index;                   /* their first samples */
    float   *weight;                  /* tap by tap; LERP: of the second sample alone */
    float   *norm;                    /* 1 by the sum of weights */
} bzi_kernel_scan;

/* What rows are made of, in a workspace; of luma [0] and chroma [1], or of planes: */
typedef struct bzi_kernel_lines {
    int      turned;                  /* rows and columns of the output have changed places */
    int      aligned;                 /* H is; otherwise scans are made for output rows, y along their columns, too */
    bzi_kernel_inner in;              /* not aligned: of that row */
    bzi_kernel_scan x[2], y[2];       /* aligned: indices of columns count from low */
    int32_t  low[2], count[2];        /* the first sample that is read, which may lie before the picture; how many */
    int      is_near[2];              /* windows have the samples of four columns */
    int32_t  least[2];                /* which of four columns begins first */
    int32_t *pick[2];                 /* which bytes of a window are a column's four samples */
    float   *samples;                 /* of a row of the picture, as floats or bytes */
    float   *ring[3];                 /* rows held, at their number modulo rows */
    int32_t  rows[2];                 /* how many, a power of two */
    int32_t  held[2][BZI_KERNEL_HELD];/* which those are */
    int      lerp;                    /* Y, Cb, Cr of an output row lie between two parts, share[0] behind the first, */
                                      /* which is 0 if both are the same row; */
    int32_t  parts[2];                /* or are the sum of so many, times their shares, times norm times scale */
    const float *part[3][BZI_KERNEL_PARTS];
    float    share[2][BZI_KERNEL_PARTS], scale[2];
    float   *row[3], *mean[3];        /* sums of what would be too many parts; the mean picture there */
    float   *rgb[3], *color[3];       /* R, G, B of it; its elements */
    bzi_kernel_slot before, colors;   /* what is to do with the colors of a row before jitter, and behind it */
    uint64_t sums[2];                 /* bzi_kernel_slot.sums */
} bzi_kernel_lines;

/* An H that turns the picture by 90 degrees is axis-aligned once rows and columns of the output change places. No bit
 * changes: the products that are added in another order are 0. Returns whether they have. */
BZI_KERNEL_CPU int bzi_kernel_turn(bzi_kernel_slot *slot, bzi_kernel_output *out)
{
    const bzi_kernel_slot s = *slot;
    const bzi_kernel_output o = *out;
    if (s.h[0] != 0.0f || s.h[4] != 0.0f || bzi_kernel_aligned(s.h))
        return 0;
    for (int row = 0; row < 6; row += 3) {
        slot->h[row] = s.h[row + 1];
        slot->h[row + 1] = s.h[row];
    }
    for (int i = 0; i < 6; i++)
        slot->clip[i] = s.clip[i == 2 || i == 5 ? 7 - i : 4 - i];
    slot->clip_last[0] = s.clip_last[1];
    slot->clip_last[1] = s.clip_last[0];
    out->width = o.height;
    out->height = o.width;
    out->stride_x = o.stride_y;
    out->stride_y = o.stride_x;
    return 1;
}

/* Samples an output pixel, the same for all: along x (0) or y (1), of luma (0) or chroma (1). */
BZI_KERNEL_CPU int32_t bzi_kernel_count(const bzi_kernel_slot *slot, const bzi_kernel_view *view, int along, int c)
{
    const bzi_kernel_axis axis = along ? view->y[c] : view->x[c];
    return view->kind == BZI_KERNEL_LERP ? 2 : bzi_kernel_reach(slot->filter, axis, 0.0f, view->shrink[along]).count;
}

/* Parts of a workspace, each of whole cache lines. */
BZI_KERNEL_CPU void *bzi_kernel_part(float *memory, uint64_t *used, uint64_t elements)
{
    float *part = memory ? memory + *used : NULL;
    *used += (elements + 15) / 16 * 16;
    return part;
}

/* What lines need, from memory, or only counted where that is NULL. Returns how many elements of four bytes. */
BZI_KERNEL_CPU uint64_t bzi_kernel_lay_out(bzi_kernel_lines *lines, const bzi_kernel_slot *slot,
                                           const bzi_kernel_view *view, const bzi_kernel_output *out, float *memory)
{
    const uint64_t longer = (uint64_t)(out->width > out->height ? out->width : out->height);
    const uint64_t room = (longer + 15) / 16 * 16;
    uint64_t used = 0, most = 0;
    memory = memory ? memory + (64 - (uintptr_t)memory % 64) % 64 / sizeof *memory : NULL;
    memset(lines, 0, sizeof *lines);
    memset(lines->held, 0xff, sizeof lines->held);
    lines->aligned = bzi_kernel_aligned(slot->h);
    for (int c = 0; c < 2; c++) {
        for (int along = 0; along < 2; along++) {
            bzi_kernel_scan *scan = along ? &lines->y[c] : &lines->x[c];
            scan->taps = bzi_kernel_count(slot, view, along, c);
            scan->room = (size_t)room;
            scan->index = bzi_kernel_part(memory, &used, room);
            scan->norm = bzi_kernel_part(memory, &used, room);
            scan->weight = bzi_kernel_part(memory, &used, (uint64_t)scan->taps * room);
        }
        const uint64_t samples = (uint64_t)view->x[c].last + 1 + 2 * (uint64_t)lines->x[c].taps + 16;
        most = samples > most ? samples : most;
        for (lines->rows[c] = 4; lines->rows[c] < lines->y[c].taps && lines->rows[c] < BZI_KERNEL_HELD;)
            lines->rows[c] *= 2;
        lines->pick[c] = bzi_kernel_part(memory, &used, room);
    }
    for (int p = 0; p < 3; p++) {
        lines->row[p] = bzi_kernel_part(memory, &used, room);
        lines->mean[p] = bzi_kernel_part(memory, &used, room);
        lines->rgb[p] = bzi_kernel_part(memory, &used, room);
        lines->color[p] = bzi_kernel_part(memory, &used, room);
        lines->ring[p] = bzi_kernel_part(memory, &used, (uint64_t)lines->rows[p > 0] * room);
    }
    lines->samples = bzi_kernel_part(memory, &used, most);
    return used + 16;
}

/* Are the rows of this slot made here? Its rows and columns have changed places if H turns it. */
BZI_KERNEL_CPU int bzi_kernel_has_rows(const bzi_kernel_slot *slot, const bzi_kernel_view *view,
                                       const bzi_kernel_output *out)
{
    if (!bzi_kernel_has_vectors() || !bzi_kernel_affine(slot->h) || out->width < 1 || slot->x1 < slot->x0 ||
        slot->y1 < slot->y0)
        return 0;
    if (bzi_kernel_aligned(slot->h))
        return !(slot->flags & BZI_KERNEL_CLIP) || (slot->clip[1] == 0.0f && slot->clip[3] == 0.0f);
    for (int p = 0; p < (view->plane[1] ? 3 : 1); p++)
        if (slot->step[p] != 1 || slot->pitch[p] < 0 || (int64_t)slot->pitch[p] * (slot->y1 + 1) > INT32_MAX ||
            view->x[p > 0].last < 3.0f || view->y[p > 0].last < 1.0f ||
            bzi_kernel_count(slot, view, 0, p > 0) > BZI_KERNEL_TURNED_TAPS ||
            bzi_kernel_count(slot, view, 1, p > 0) > BZI_KERNEL_TURNED_TAPS)
            return 0;
    return slot->depth == 8 && !bzi_kernel_repeats(slot->filter) && slot->antialias <= 1 && out->width <= 16384;
}

/* What that needs, in bytes; 0: they are not, or need very much. */
BZI_KERNEL_CPU size_t bzi_kernel_warp_bytes(const bzi_kernel_slot *given, const bzi_kernel_output *to)
{
    bzi_kernel_slot slot = *given;
    bzi_kernel_output out = *to;
    bzi_kernel_lines lines;
    bzi_kernel_turn(&slot, &out);
    const bzi_kernel_view view = bzi_kernel_view_of(&slot);
    if (!bzi_kernel_has_rows(&slot, &view, &out))
        return 0;
    const uint64_t elements = bzi_kernel_lay_out(&lines, &slot, &view, &out, NULL);
    return elements <= BZI_KERNEL_WORKSPACE ? (size_t)elements * sizeof(float) : 0;
}

/* Outputs first..end - 1 of an axis of a plane: luma (0) or chroma (1), along x (0) or y (1). Of an aligned H, they are
 * columns of x and rows of y; otherwise columns of output row `row`. */
typedef struct bzi_kernel_stretch {
    int     c, along;
    int32_t first, end, row;
} bzi_kernel_stretch;

/* The weights of positions i and seven behind it; taps: what they have in common. Constants: is_ramp, of the filter;
 * is_whole, which says that the plane has all of their samples. */
BZI_KERNEL_OF_ROW void bzi_kernel_weigh(bzi_kernel_scan scan, bzi_kernel_taps taps, int is_ramp, int is_whole,
                                        size_t i)
{
    const bzi_kernel_wholes first = bzi_kernel_wholes_at(scan.index + i);
    const bzi_kernel_reals position = bzi_kernel_reals_at(scan.norm + i);
    const bzi_kernel_wholes begin = bzi_kernel_floor8(position - taps.radius) + 1, stop = begin + taps.count;
    const bzi_kernel_wholes end = bzi_kernel_repeats(taps.filter) ? stop :
                                  bzi_kernel_least(stop, stop - stop + (taps.end + 1));
    const float peak = taps.filter == BZNA_FILTER_AREA ? taps.radius : 1.0f;
    bzi_kernel_reals sum = { 0.0f }, weight = sum;
    for (int32_t k = 0; k < scan.taps; k++) {
        const bzi_kernel_wholes at = first + k;
        bzi_kernel_reals x = __builtin_convertvector(at, bzi_kernel_reals) - position;
        x = (bzi_kernel_reals)((bzi_kernel_wholes)x & INT32_MAX) * taps.narrow;
        if (is_ramp)
            weight = bzi_kernel_clamp8(peak - x, 1.0f);
        for (int32_t j = 0; j < 8 && !is_ramp; j++)
            weight[j] = bzi_kernel_weight_at(taps.filter, x[j]);
        if (!is_whole)
            weight = (bzi_kernel_reals)((bzi_kernel_wholes)weight & (at >= begin) & (at < end));
        memcpy(scan.weight + (size_t)k * scan.room + i, &weight, sizeof weight);
        sum += weight;
    }
    sum = 1.0f / sum;
    memcpy(scan.norm + i, &sum, sizeof sum);
}

/* What a stretch takes; past its end is what the last has. Filters that do not repeat the samples of the border take
 * those that there are. */
BZI_KERNEL_ROW void bzi_kernel_plan_scan(bzi_kernel_scan scan, const bzi_kernel_slot *slot,
                                         const bzi_kernel_view *view, bzi_kernel_stretch of, int aligned)
{
    const bzi_kernel_axis axis = of.along ? view->y[of.c] : view->x[of.c];
    const bzi_kernel_taps taps = bzi_kernel_reach(slot->filter, axis, 0.0f, view->shrink[of.along]);
    const int lerp = view->kind == BZI_KERNEL_LERP, nearest = slot->filter == BZNA_FILTER_NEAREST;
    const int repeats = bzi_kernel_repeats(taps.filter), is_ramp = bzi_kernel_is_ramp(taps.filter);
    const int down = aligned && of.along;
    const float *h = slot->h + 3 * of.along, last = of.along ? view->y[0].last : view->x[0].last;
    const float step = h[down], rest = down ? 0.0f : h[1] * (float)of.row, from = h[2];
    const int32_t most = taps.end >= taps.count ? taps.end + 1 - taps.count : 0;
    const size_t count = ((size_t)(of.end - of.first) + 15) / 16 * 16;
    const bzi_kernel_reals eight = { 0, 1, 2, 3, 4, 5, 6, 7 };
    for (size_t i = 0; i < count; i += 8) {
        bzi_kernel_reals v = bzi_kernel_min8((float)(of.first + (int32_t)i) + eight, (float)(of.end - 1));
        v = (step * v + rest) + from;
        bzi_kernel_wholes index;
        if (lerp) {
            v = nearest ? __builtin_convertvector(bzi_kernel_floor8(v + 0.5f), bzi_kernel_reals) : v;
            v = bzi_kernel_clamp8(bzi_kernel_clamp8(v, last) * axis.scale + axis.offset, axis.last);
            index = __builtin_convertvector(v, bzi_kernel_wholes);
            v -= __builtin_convertvector(index, bzi_kernel_reals);
        } else {
            v = v * axis.scale + axis.offset;
            index = bzi_kernel_floor8(v - taps.radius) + 1;
            index = repeats ? index : bzi_kernel_least(index & (index > 0), index - index + most);
        }
        memcpy(scan.index + i, &index, sizeof index);
        memcpy((lerp ? scan.weight : scan.norm) + i, &v, sizeof v);
    }
    for (size_t i = 0; i < count && !lerp; i += 8) {
        const int32_t a = scan.index[i], b = scan.index[i + 7];
        const int is_whole = is_ramp && a > 0 && a < most && b > 0 && b < most;
        if (is_whole)
            bzi_kernel_weigh(scan, taps, 1, 1, i);
        else if (is_ramp)
            bzi_kernel_weigh(scan, taps, 1, 0, i);
        else
            bzi_kernel_weigh(scan, taps, 0, 0, i);
    }
}

/* Which samples all columns read, and where those of four lie. */
BZI_KERNEL_CPU void bzi_kernel_plan_samples(bzi_kernel_lines *lines, int c, int32_t columns)
{
    int32_t *index = lines->x[c].index, room = (columns + 15) / 16 * 16, a = index[0], b = index[columns - 1];
    lines->low[c]     = a < b ? a : b;                           /* in a mirrored picture, indices decrease */
    lines->count[c]   = (a < b ? b - a : a - b) + lines->x[c].taps;
    lines->least[c]   = a < b ? 0 : 3;
    lines->is_near[c] = 1;
    for (int32_t i = 0; i < room; i++)
        index[i] -= lines->low[c];
    for (int32_t i = 0; i < room; i++) {
        const int32_t away = index[i] - index[i / 4 * 4 + lines->least[c]];
        lines->pick[c][i] = (int32_t)((uint32_t)away * 0x01010101u + 0x03020100u);
        lines->is_near[c] &= away <= 12;
    }
}

/* What every output column and row takes, and which samples columns touch. Pre: lines are laid out, for an aligned
 * H. */
BZI_KERNEL_CPU void bzi_kernel_plan(bzi_kernel_lines *lines, const bzi_kernel_slot *slot, const bzi_kernel_view *view,
                                   const bzi_kernel_output *out)
{
    const bzi_kernel_inner in = lines->in = bzi_kernel_inner_of(slot, view, out);
    for (int c = 0; c < 2 && in.first < in.end; c++) {
        const bzi_kernel_stretch x = { c, 0, in.first, in.end, 0 }, y = { c, 1, in.top, in.bottom, 0 };
        bzi_kernel_plan_scan(lines->x[c], slot, view, x, 1);
        bzi_kernel_plan_scan(lines->y[c], slot, view, y, 1);
        bzi_kernel_plan_samples(lines, c, in.end - in.first);
    }
}

/* The samples of a row of plane p from lines->low on, as bytes or, of a depth above 8, floats; before and behind the
 * picture, those of its border. Bytes where they lie, if what the horizontal filter reads behind them is a row
 * below. */
BZI_KERNEL_CPU const void *bzi_kernel_read_row(const bzi_kernel_slot *slot, const bzi_kernel_view *view,
                                               const bzi_kernel_lines *lines, int p, int32_t index)
{
    const int c = p > 0;
    const int32_t step = slot->step[p], pitch = slot->pitch[p], low = lines->low[c], count = lines->count[c];
    const int32_t last = (int32_t)view->x[c].last - low, first = low < 0 ? -low : 0;
    const int32_t end = last < count ? last + 1 : count;
    const uint8_t *source = bzi_kernel_at(view->plane[p]) + (int64_t)index * pitch + (int64_t)low * step;
    float *floats = lines->samples;
    uint8_t *bytes = (uint8_t *)(void *)floats;
    if (slot->depth > 8) {
        for (int32_t i = first; i < end; i++)
            floats[i] = bzi_kernel_load(source + (int64_t)i * step, slot->depth, slot->low_zeros);
        for (int32_t i = 0; i < first; i++)
            floats[i] = floats[first];
        for (int32_t i = end; i < count; i++)
            floats[i] = floats[end - 1];
        return floats;
    }
    if (step == 1 && first == 0 && end == count && pitch >= 64 && index < (int32_t)view->y[c].last)
        return source;
    if (step == 1)
        memcpy(bytes + first, source + first, (size_t)(end - first));
    for (int32_t i = first; i < end && step != 1; i++)
        bytes[i] = source[(int64_t)i * step];
    memset(bytes, bytes[first], (size_t)first);
    memset(bytes + end, bytes[end - 1], (size_t)(count - end));
    return bytes;
}

/* What sample number k, next, adds to a sum: its weight times it; of the linear filter of two, which has the weight of
 * the second alone, it lies between the two. */
BZI_KERNEL_OF_ROW bzi_kernel_reals bzi_kernel_add8(bzi_kernel_reals sum, bzi_kernel_reals next, const float *weight,
                                                   int lerp, int32_t k)
{
    if (lerp)
        return k ? sum + (next - sum) * bzi_kernel_reals_at(weight) : next;
    return sum + bzi_kernel_reals_at(weight) * next;
}

/* The horizontal filter of bytes, in windows or not (WINDOWS, BYTES), or of floats. kind and lerp are constants. */
enum { BZI_KERNEL_FLOATS, BZI_KERNEL_BYTES, BZI_KERNEL_WINDOWS };

BZI_KERNEL_OF_ROW void bzi_kernel_filter_row(const bzi_kernel_lines *lines, const uint8_t *bytes, int c, int kind,
                                             int lerp, int32_t taps, float *restrict row)
{
    const bzi_kernel_scan scan = lines->x[c];
    const int32_t *least = scan.index + lines->least[c], *pick = lines->pick[c];
    const size_t columns = (size_t)(lines->in.end - lines->in.first);
    for (size_t i = 0; i < columns; i += 8) {
        const bzi_kernel_wholes picks = bzi_kernel_wholes_at(pick + i);
        const int32_t *at = scan.index + i;
        const float *w = scan.weight + i;
        bzi_kernel_words four = { 0 };
        bzi_kernel_reals sum = { 0.0f }, next;
        for (int32_t k = 0; k < taps; k += 4) {
            if (kind == BZI_KERNEL_WINDOWS)
                four = bzi_kernel_windows(bytes + k + least[i], bytes + k + least[i + 4], picks);
            else if (kind == BZI_KERNEL_BYTES)
                four = bzi_kernel_quads(bytes + k, at, 1);
            for (int32_t j = 0; j < 4 && k + j < taps; j++, w += lerp ? 0 : scan.room) {
                next = kind ? bzi_kernel_byte_of(four, j) :
                              (bzi_kernel_reals)bzi_kernel_quads(bytes + 4 * (k + j), at, 4);
                sum = bzi_kernel_add8(sum, next, w, lerp, k + j);
            }
        }
        memcpy(row + i, &sum, sizeof sum);
    }
}

BZI_KERNEL_ROW void bzi_kernel_horizontal(const bzi_kernel_lines *lines, const void *samples, int c, int is_bytes,
                                          int lerp, float *row)
{
    const uint8_t *bytes = (const uint8_t *)samples;
    const int32_t taps = lines->x[c].taps, near = BZI_KERNEL_X86 && is_bytes && lines->is_near[c];
    if (near && lerp)
        bzi_kernel_filter_row(lines, bytes, c, BZI_KERNEL_WINDOWS, 1, 2, row);
    else if (near && taps == 3)
        bzi_kernel_filter_row(lines, bytes, c, BZI_KERNEL_WINDOWS, 0, 3, row);
    else if (near && taps == 4)
        bzi_kernel_filter_row(lines, bytes, c, BZI_KERNEL_WINDOWS, 0, 4, row);
    else if (near && taps == 5)
        bzi_kernel_filter_row(lines, bytes, c, BZI_KERNEL_WINDOWS, 0, 5, row);
    else if (near)
        bzi_kernel_filter_row(lines, bytes, c, BZI_KERNEL_WINDOWS, 0, taps, row);
    else if (is_bytes)
        bzi_kernel_filter_row(lines, bytes, c, BZI_KERNEL_BYTES, lerp, taps, row);
    else
        bzi_kernel_filter_row(lines, bytes, c, BZI_KERNEL_FLOATS, lerp, taps, row);
}

/* A row of whole samples: times norm, or, where that is NULL, times scale. */
BZI_KERNEL_FN void bzi_kernel_round_row(float *restrict row, const float *restrict norm, float scale, size_t count,
                                        float most)
{
    for (size_t i = 0; i < count; i++)
        row[i] = bzi_kernel_whole(row[i] * (norm ? norm[i] : scale), most);
}

/* Row index of luma, or of both chroma planes, filtered along x: held, or made now. Returns where in a ring it is. */
BZI_KERNEL_FN size_t bzi_kernel_hold(bzi_kernel_lines *lines, const bzi_kernel_slot *slot, const bzi_kernel_view *view,
                                      int c, int32_t index)
{
    const int32_t at = index & (lines->rows[c] - 1);
    const size_t place = (size_t)at * lines->x[c].room;
    const int lerp = view->kind == BZI_KERNEL_LERP, as_bytes = slot->depth <= 8;
    if (lines->held[c][at] == index)
        return place;
    lines->held[c][at] = index;
    for (int p = c; p <= 2 * c; p++) {
        const void *samples = bzi_kernel_read_row(slot, view, lines, p, index);
        bzi_kernel_horizontal(lines, samples, c, as_bytes, lerp, lines->ring[p] + place);
        if (slot->antialias == BZNA_ANTIALIAS_ROUND)
            bzi_kernel_round_row(lines->ring[p] + place, lines->x[c].norm, 1.0f, lines->x[c].room,
                                 bzi_kernel_most(slot));
    }
    return place;
}

/* The sum of plane p's parts, of which the first may be that row. */
BZI_KERNEL_ROW void bzi_kernel_sum_parts(const bzi_kernel_lines *lines, int p, float *restrict row)
{
    const size_t room = lines->x[p > 0].room;
    const float *share = lines->share[p > 0];
    for (int32_t k = lines->part[p][0] == row; k < lines->parts[p > 0]; k++) {
        const float *restrict part = lines->part[p][k];
        for (size_t i = 0; i < room; i++)
            row[i] = k ? row[i] + share[k] * part[i] : share[k] * part[i];
    }
}

/* Colors are to be made of one row alone: of planes from p on. */
BZI_KERNEL_CPU void bzi_kernel_take_whole(bzi_kernel_lines *lines, int p, float *const rows[3])
{
    lines->lerp |= p == 0;
    for (int c = p > 0; c < 2; c++) {
        lines->parts[c] = 1;
        lines->share[c][0] = lines->lerp ? 0.0f : 1.0f;
        lines->scale[c] = 1.0f;
    }
    for (; p < 3; p++)
        lines->part[p][0] = lines->part[p][1] = rows[p];
}

/* The rows that output row y is made of, of luma or chroma. */
BZI_KERNEL_FN void bzi_kernel_take(bzi_kernel_lines *lines, const bzi_kernel_slot *slot, const bzi_kernel_view *view,
                                    int c, int32_t y)
{
    const bzi_kernel_scan *scan = &lines->y[c];
    const size_t at = (size_t)(y - lines->in.top);
    const int32_t last = (int32_t)view->y[c].last, taps = scan->taps;
    int32_t n = 0;
    for (int32_t k = 0; k < taps; k++) {
        const int32_t index = scan->index[at] + k;
        const float weight = lines->lerp ? scan->weight[at] : scan->weight[(size_t)k * scan->room + at];
        if (weight == 0.0f && !lines->lerp && (n > 0 || k + 1 < taps))
            continue;                          /* no bit depends on it; nor does the row lie in the picture, perhaps */
        if (n == BZI_KERNEL_PARTS) {
            lines->parts[c] = n;
            for (int p = c; p <= 2 * c; p++) {
                bzi_kernel_sum_parts(lines, p, lines->row[p]);
                lines->part[p][0] = lines->row[p];
            }
            lines->share[c][0] = 1.0f;
            n = 1;
        }
        const size_t place = bzi_kernel_hold(lines, slot, view, c, index < 0 ? 0 : index < last ? index : last);
        for (int p = c; p <= 2 * c; p++)
            lines->part[p][n] = lines->ring[p] + place;
        lines->share[c][n++] = weight;
    }
    lines->parts[c] = n;
    lines->scale[c] = scan->norm[at];
}

/* The same of sums of rounded rows, and each of them rounded. */
BZI_KERNEL_CPU void bzi_kernel_round_rows(const bzi_kernel_slot *slot, bzi_kernel_lines *lines)
{
    for (int p = 0; p < 3; p++) {
        bzi_kernel_sum_parts(lines, p, lines->rgb[p]);
        bzi_kernel_round_row(lines->rgb[p], NULL, lines->scale[p > 0], (size_t)(lines->in.end - lines->in.first),
                             bzi_kernel_most(slot));
    }
    bzi_kernel_take_whole(lines, 0, lines->rgb);
}

/* Column i and seven behind it of plane p. */
BZI_KERNEL_OF_ROW bzi_kernel_reals bzi_kernel_mix(const bzi_kernel_lines *lines, int p, int lerp, int32_t i)
{
    const float *const *part = lines->part[p], *share = lines->share[p > 0];
    bzi_kernel_reals sum = bzi_kernel_reals_at(part[0] + i);
    if (lerp)
        return sum + (bzi_kernel_reals_at(part[1] + i) - sum) * share[0];
    sum *= share[0];
    for (int32_t k = 1; k < lines->parts[p > 0]; k++)
        sum += share[k] * bzi_kernel_reals_at(part[k] + i);
    return sum * (bzi_kernel_reals_at(lines->x[p > 0].norm + i) * lines->scale[p > 0]);
}

/* As bzi_kernel_apply_matrix. none, a constant: R has no part of Cb and B none of Cr, and Y' is the same in all.
 * Without the products with 0, nothing changes but the sign of a zero, which clamping takes. */
BZI_KERNEL_OF_ROW void bzi_kernel_matrix8(const float m[12], int none, bzi_kernel_reals c[3])
{
    const bzi_kernel_reals luma = m[0] * c[0], c0 = c[0], c1 = c[1], c2 = c[2];
    for (int i = 0; i < 3; i++, m += 4) {
        c[i] = luma;
        if (!none)
            c[i] = m[0] * c0;
        if (!none || i != 0)
            c[i] += m[1] * c1;
        if (!none || i != 2)
            c[i] += m[2] * c2;
        c[i] = bzi_kernel_clamp8(c[i] + m[3], 255.0f);
    }
}

/* Colors of an output row, and its elements, by a slot whose flags have BZI_KERNEL_MEAN. lerp and none are constants
 * where they can be; none: there is no flag, the matrix is as above, and at least eight columns are made of other rows
 * than they go to. A test at each store, for the last columns, would cost a tenth of the warp. */
BZI_KERNEL_OF_ROW void bzi_kernel_paint_as(const bzi_kernel_slot *given, const bzi_kernel_lines *lines, uint32_t dtype,
                                           uint32_t channels, int lerp, int none, uint8_t *const to[3])
{
    const bzi_kernel_slot slot = *given;       /* as no store changes it, it stays in registers */
    const int32_t columns = lines->in.end - lines->in.first, size = 1 << bzi_kernel_element_shift(dtype);
    for (int32_t i = 0; i < columns; i += 8) {
        i = !none || i + 8 <= columns ? i : columns - 8;       /* the last vector overlaps, with equal values */
        bzi_kernel_reals c[3] = { bzi_kernel_mix(lines, 0, lerp, i), bzi_kernel_mix(lines, 1, lerp, i),
                                  bzi_kernel_mix(lines, 2, lerp, i) };
        bzi_kernel_matrix8(slot.rgb, none, c);
        if (!none && (slot.flags & BZI_KERNEL_COLOR))
            bzi_kernel_matrix8(slot.color, 0, c);
        if (!none && (slot.flags & BZI_KERNEL_GRAY))
            c[0] = (slot.luma[0] * c[0] + slot.luma[1] * c[1]) + slot.luma[2] * c[2];
        for (uint32_t p = 0; p < 3 && (none || p < channels); p++) {
            c[p] -= slot.bias[p];
            if (!none && (slot.flags & BZI_KERNEL_MEAN))
                c[p] -= bzi_kernel_reals_at(lines->mean[p] + i);
            bzi_kernel_put_most(dtype, to[p] + i * size, none ? 8 : columns - i, c[p] * slot.scale[p]);
        }
    }
}

#if BZI_KERNEL_X86
/* Does what bzi_kernel_paint_as does with lerp and none, for float32 and at least sixteen columns. */
__attribute__((target("avx512bw")))
BZI_KERNEL_CPU void bzi_kernel_paint_wide(const bzi_kernel_slot *slot, const bzi_kernel_lines *lines,
                                          uint8_t *const to[3])
{
    const int32_t columns = lines->in.end - lines->in.first;
    for (int32_t i = 0; i < columns; i += 16) {
        i = i + 16 <= columns ? i : columns - 16;
        __m512 c[3];
        for (int p = 0; p < 3; p++) {
            c[p] = _mm512_loadu_ps(lines->part[p][0] + i);
            c[p] += (_mm512_loadu_ps(lines->part[p][1] + i) - c[p]) * lines->share[p > 0][0];
        }
        c[0] *= slot->rgb[0];
        for (int p = 0; p < 3; p++) {
            const float *m = slot->rgb + 4 * p;
            __m512 v = c[0];
            if (p)
                v += m[1] * c[1];
            if (p != 2)
                v += m[2] * c[2];
            v = _mm512_min_ps(_mm512_max_ps(v + m[3], _mm512_setzero_ps()), _mm512_set1_ps(255.0f));
            _mm512_storeu_ps(to[p] + 4 * i, (v - slot->bias[p]) * slot->scale[p]);
        }
    }
}
#endif

BZI_KERNEL_ROW void bzi_kernel_paint_row(const bzi_kernel_slot *slot, const bzi_kernel_lines *lines, uint32_t dtype,
                                     uint32_t channels, uint8_t *const to[3])
{
    const float *m = slot->rgb;
    const int32_t columns = lines->in.end - lines->in.first;
    const int none = slot->flags == 0 && channels == 3 && m[0] == m[4] && m[0] == m[8] && m[1] == 0.0f &&
                     m[10] == 0.0f && columns >= 8 && (const void *)lines->part[0][0] != to[0];
#if BZI_KERNEL_X86
    if (none && lines->lerp && dtype == BZNA_DTYPE_FLOAT32 && columns >= 16 && __builtin_cpu_supports("avx512bw"))
        bzi_kernel_paint_wide(slot, lines, to);
    else
#endif
    if (none && lines->lerp)
        bzi_kernel_paint_as(slot, lines, dtype, 3, 1, 1, to);
    else if (none)
        bzi_kernel_paint_as(slot, lines, dtype, 3, 0, 1, to);
    else
        bzi_kernel_paint_as(slot, lines, dtype, channels, lines->lerp, 0, to);
}

/* A step of the jitter of a row, in place in rgb. step and flags are constants, for compilers to vectorize. */
BZI_KERNEL_OF_ROW void bzi_kernel_jitter_as(const bzi_kernel_slot *slot, const bzi_kernel_lines *lines, int step,
                                            uint32_t flags)
{
    const bzi_kernel_slot local = *slot;
    float *restrict r = lines->rgb[0], *restrict g = lines->rgb[1], *restrict b = lines->rgb[2];
    for (int32_t i = 0; i < lines->in.end - lines->in.first; i++) {
        float c[3] = { r[i], g[i], b[i] };
        bzi_kernel_jitter_step(&local, flags, step, c);
        r[i] = c[0];
        g[i] = c[1];
        b[i] = c[2];
    }
}

/* Y', Cb, Cr of an output row become R, G, B behind the jitter, or their lumas are added up. */
BZI_KERNEL_ROW void bzi_kernel_jitter_row(const bzi_kernel_slot *slot, bzi_kernel_lines *lines)
{
    const float *restrict r = lines->rgb[0], *restrict g = lines->rgb[1], *restrict b = lines->rgb[2];
    const int32_t columns = lines->in.end - lines->in.first;
    uint8_t *const rgb[3] = { (uint8_t *)lines->rgb[0], (uint8_t *)lines->rgb[1], (uint8_t *)lines->rgb[2] };
    int32_t sum = 0;                           /* of at most 2^14 pixels, below 2^16 each */
    bzi_kernel_paint_row(&lines->before, lines, BZNA_DTYPE_FLOAT32, 3, rgb);
    bzi_kernel_take_whole(lines, 0, lines->rgb);
    if (slot->flags & BZI_KERNEL_SHIFT)
        bzi_kernel_jitter_as(slot, lines, 0, BZI_KERNEL_SHIFT);
    else
        bzi_kernel_jitter_as(slot, lines, 0, 0);
    for (int32_t i = 0; i < columns && (slot->flags & BZI_KERNEL_SUM); i++) {
        const float c[3] = { r[i], g[i], b[i] };
        sum += (int32_t)(bzi_kernel_luma(slot->luma, c) * 256.0f + 0.5f);
    }
    lines->sums[0] += (uint64_t)sum;
    lines->sums[1] += (uint64_t)columns;
    if (slot->flags & BZI_KERNEL_SUM)
        return;
    bzi_kernel_jitter_as(slot, lines, 1, 0);
    if (slot->flags & BZI_KERNEL_HUE)
        bzi_kernel_jitter_as(slot, lines, 2, BZI_KERNEL_HUE);
    if (slot->vivid != 1.0f)
        bzi_kernel_jitter_as(slot, lines, 3, 0);
}

/* What is to do with rows of colors. */
BZI_KERNEL_CPU void bzi_kernel_plan_colors(bzi_kernel_lines *lines, const bzi_kernel_slot *slot,
                                           const bzi_kernel_output *out)
{
    const int swap = slot->flags & BZI_KERNEL_SWAP ? 2 : 0;
    bzi_kernel_slot *before = &lines->before, *colors = &lines->colors;
    *before = *colors = *slot;
    before->flags &= BZI_KERNEL_COLOR;
    for (int i = 0; i < 3; i++) {
        before->bias[i] = 0.0f;
        before->scale[i] = 1.0f;
    }
    if (slot->flags & BZI_KERNEL_JITTER) {
        memset(colors->rgb, 0, sizeof colors->rgb);
        colors->rgb[swap] = colors->rgb[5] = colors->rgb[10 - swap] = 1.0f;
    }
    colors->flags &= slot->flags & BZI_KERNEL_JITTER ? BZI_KERNEL_GRAY : BZI_KERNEL_GRAY | BZI_KERNEL_COLOR;
    colors->flags |= out->mean ? BZI_KERNEL_MEAN : 0;
}

/* Rows of elements to pixels that do not lie side by side. All but the last three are constants where they can be. */
BZI_KERNEL_OF_ROW void bzi_kernel_scatter_as(uint32_t dtype, uint32_t channels, int64_t step, int64_t apart,
                                             const uint8_t *const rows[3], int64_t count, uint8_t *restrict to)
{
    const int shift = bzi_kernel_element_shift(dtype);
    const uint8_t *restrict r = rows[0], *restrict g = rows[1], *restrict b = rows[2];
    for (int64_t i = 0; i < count; i++)
        for (uint32_t p = 0; p < channels; p++)
            memcpy(to + ((i * step + p * apart) << shift), (p == 0 ? r : p == 1 ? g : b) + (i << shift),
                   (size_t)1 << shift);
}

BZI_KERNEL_ROW void bzi_kernel_scatter(const bzi_kernel_output *out, const uint8_t *const rows[3], int64_t count,
                                       uint8_t *to)
{
    if (out->channels == 3 && out->stride_x == 3 && out->stride_c == 1)
        BZI_KERNEL_BY_TYPE(out->dtype, bzi_kernel_scatter_as, 3, 3, 1, rows, count, to);
    else
        BZI_KERNEL_BY_TYPE(out->dtype, bzi_kernel_scatter_as, out->channels, out->stride_x, out->stride_c, rows, count,
                           to);
}

/* The mean picture's pixels of row y. */
BZI_KERNEL_CPU void bzi_kernel_read_mean(const bzi_kernel_lines *lines, const bzi_kernel_output *out, int32_t y)
{
    const float *plane = (const float *)(uintptr_t)out->mean;
    const int64_t step_x = lines->turned ? out->height : 1, step_y = lines->turned ? 1 : out->width;
    for (uint32_t p = 0; p < out->channels; p++, plane += (int64_t)out->width * out->height)
        for (int32_t x = lines->in.first; x < lines->in.end; x++)
            lines->mean[p][x - lines->in.first] = plane[y * step_y + x * step_x];
}


/* Makes colors, and elements, of the parts of output row y. */
BZI_KERNEL_CPU void bzi_kernel_emit(const bzi_kernel_slot *slot, bzi_kernel_lines *lines,
                                    const bzi_kernel_output *out, int32_t y)
{
    const int is_beside = out->stride_x == 1;
    uint8_t *to[3];
    for (uint32_t p = 0; p < 3; p++)           /* of no use where only sums are wanted */
        to[p] = is_beside ? bzi_kernel_at(bzi_kernel_address(slot->dst, out, p, y, lines->in.first)) :
                            (uint8_t *)(void *)lines->color[p];
    if (out->mean)
        bzi_kernel_read_mean(lines, out, y);
    if (slot->flags & BZI_KERNEL_JITTER)
        bzi_kernel_jitter_row(slot, lines);
    if (slot->flags & BZI_KERNEL_SUM)
        return;
    bzi_kernel_paint_row(&lines->colors, lines, out->dtype, out->channels, to);
    if (!is_beside)
        bzi_kernel_scatter(out, (const uint8_t *const *)to, lines->in.end - lines->in.first,
                           bzi_kernel_at(bzi_kernel_address(slot->dst, out, 0, y, lines->in.first)));
}

/* The rows that output row y of an aligned H is made of. */
BZI_KERNEL_FN void bzi_kernel_take_rows(const bzi_kernel_slot *slot, const bzi_kernel_view *view,
                                         bzi_kernel_lines *lines, int32_t y)
{
    lines->lerp = view->kind == BZI_KERNEL_LERP;
    bzi_kernel_take(lines, slot, view, 0, y);
    if (view->plane[1])
        bzi_kernel_take(lines, slot, view, 1, y);
    else
        bzi_kernel_take_whole(lines, 1, lines->row);
    if (slot->antialias == BZNA_ANTIALIAS_ROUND)
        bzi_kernel_round_rows(slot, lines);
}

/* --- An H that turns or shears: eight pixels at a time, each with samples of its own --- */

/* As bzi_kernel_quads, near the end of a plane: of what would lie below, the row above it; the last four samples that
 * there are, shifted, are those that begin behind `last`. */
BZI_KERNEL_OF_ROW bzi_kernel_words bzi_kernel_low_quads(const uint8_t *from, const int32_t *first, int64_t pitch,
                                                        const uint8_t *last)
{
    bzi_kernel_words four = { 0 };
    for (int i = 0; i < 8; i++) {
        const uint8_t *at = from + first[i];
        uint32_t bytes;
        while (at > last + 3)
            at -= pitch;
        memcpy(&bytes, at < last ? at : last, sizeof bytes);
        four[i] = at < last ? bytes : bytes >> 8 * (at - last);
    }
    return four;
}

/* The least of indices 0..3 and of 4..7, four times each; least: it is 0, or 3, of them. */
BZI_KERNEL_OF_ROW bzi_kernel_wholes bzi_kernel_least_of_four(const int32_t *index, int least)
{
    const int32_t a = index[least], b = index[4 + least];
    return (bzi_kernel_wholes){ a, a, a, a, b, b, b, b };
}

/* What an output row takes of luma, or of chroma. */
typedef struct bzi_kernel_turned {
    bzi_kernel_scan x, y;
    int             c, left, top;     /* of four columns, which has the least index along x, and along y */
    int32_t         end, bottom;      /* the last column and row of a plane */
} bzi_kernel_turned;

/* Eight columns from i on, filtered: rows one below the other. lerp, near, and taps of x are constants where they can
 * be. near: samples of four columns lie in windows, of which some begin so many rows below the first; -1: they do not,
 * and is_low: some may lie behind the plane's last. */
BZI_KERNEL_OF_ROW void bzi_kernel_turned_eight(const bzi_kernel_turned *t, const bzi_kernel_lines *lines,
                                               const bzi_kernel_slot *slot, const bzi_kernel_view *view, size_t i,
                                               int lerp, int32_t taps, int near, int is_low)
{
    const int32_t *index = t->x.index + i, *rows = t->y.index + i;
    const bzi_kernel_wholes across_at = bzi_kernel_wholes_at(index), down_at = bzi_kernel_wholes_at(rows);
    const bzi_kernel_wholes below = down_at - bzi_kernel_least_of_four(rows, t->top);
    const bzi_kernel_words away = (bzi_kernel_words)(across_at - bzi_kernel_least_of_four(index, t->left));
    const bzi_kernel_wholes pick = (bzi_kernel_wholes)(away * 0x01010101u + 0x03020100u);
    for (int p = t->c; p <= 2 * t->c; p++) {
        const int64_t pitch = slot->pitch[p];
        const uint8_t *plane = bzi_kernel_at(view->plane[p]), *last = plane + t->bottom * pitch + t->end - 3;
        const bzi_kernel_wholes place = down_at * (int32_t)pitch + across_at;
        const uint8_t *low = plane + rows[t->top] * pitch + index[t->left];
        const uint8_t *high = plane + rows[4 + t->top] * pitch + index[4 + t->left];
        const float *down = t->y.weight + i;
        bzi_kernel_words held[3][BZI_KERNEL_TURNED_TAPS / 4], four;
        bzi_kernel_reals total = { 0.0f };
        for (int n = 0; n < near; n++, low += pitch, high += pitch)
            for (int32_t j = 0; j < taps; j += 4)
                held[n][j / 4] = bzi_kernel_windows(low + j, high + j, pick);
        for (int32_t k = 0; k < (lerp ? 2 : t->y.taps); k++, low += pitch, high += pitch) {
            const float *across = t->x.weight + i;
            bzi_kernel_reals sum = { 0.0f };
            for (int32_t j = 0; j < taps; j += 4) {
                const uint8_t *at = plane + k * pitch + j;
                if (near >= 0) {
                    held[near][j / 4] = bzi_kernel_windows(low + j, high + j, pick);
                    four = held[0][j / 4];
                    for (int n = 0; n < near; n++) {
                        four = (bzi_kernel_words)bzi_kernel_either((bzi_kernel_wholes)four,
                                                                   (bzi_kernel_wholes)held[n + 1][j / 4], below > n);
                        held[n][j / 4] = held[n + 1][j / 4];
                    }
                } else if (is_low) {
                    four = bzi_kernel_low_quads(at, (const int32_t *)&place, pitch, last);
                } else {
                    four = bzi_kernel_quads(at, (const int32_t *)&place, 1);
                }
                for (int32_t n = 0; n < 4 && j + n < taps; n++, across += lerp ? 0 : t->x.room) {
                    const bzi_kernel_reals next = bzi_kernel_byte_of(four, n);
                    sum = bzi_kernel_add8(sum, next, across, lerp, j + n);
                }
            }
            total = bzi_kernel_add8(total, sum, down, lerp, k);
            down += lerp ? 0 : t->y.room;
        }
        if (!lerp)
            total *= bzi_kernel_reals_at(t->x.norm + i) * bzi_kernel_reals_at(t->y.norm + i);
        memcpy(lines->rgb[p] + i, &total, sizeof total);
    }
}

/* How far apart the first and the last of four indices are, at most. */
BZI_KERNEL_FN int32_t bzi_kernel_apart(const int32_t *at, int least)
{
    const int32_t a = at[3 - least] - at[least], b = at[7 - least] - at[4 + least];
    return a > b ? a : b;
}

/* Columns of luma, or of chroma. Samples lie in windows where four columns are near each other, and no plane ends
 * there. */
BZI_KERNEL_OF_ROW void bzi_kernel_turned_as(const bzi_kernel_lines *lines, const bzi_kernel_slot *slot,
                                            const bzi_kernel_view *view, int c, int lerp, int32_t taps)
{
    const bzi_kernel_turned t = { lines->x[c], lines->y[c], c, slot->h[0] < 0.0f ? 3 : 0, slot->h[3] < 0.0f ? 3 : 0,
                                  (int32_t)view->x[c].last, (int32_t)view->y[c].last };
    const size_t columns = (size_t)(lines->in.end - lines->in.first);
    const int is_narrow = slot->pitch[c] < 32 || slot->pitch[2 * c] < 32;      /* what is read is wider than a row */
    const int32_t bottom = is_narrow ? 0 : t.bottom;
    for (size_t i = 0; i < columns; i += 8) {
        const int32_t *down = t.y.index + i, below = bzi_kernel_apart(down, t.top);
        const int32_t lowest = down[t.top ? 0 : 7] + t.y.taps - 1;
        const int is_near = BZI_KERNEL_X86 && lowest + 2 < bottom && below <= 2 &&
                            bzi_kernel_apart(t.x.index + i, t.left) <= 12;
        if (is_near && below <= 1)
            bzi_kernel_turned_eight(&t, lines, slot, view, i, lerp, taps, 1, 0);
        else if (is_near)
            bzi_kernel_turned_eight(&t, lines, slot, view, i, lerp, taps, 2, 0);
        else
            bzi_kernel_turned_eight(&t, lines, slot, view, i, lerp, taps, -1, lowest >= bottom);
    }
}

/* Y', Cb, Cr of the columns of output row y. */
BZI_KERNEL_ROW void bzi_kernel_turned_row(const bzi_kernel_slot *slot, const bzi_kernel_view *view,
                                          bzi_kernel_lines *lines, int32_t y)
{
    const bzi_kernel_inner in = lines->in;
    for (int c = 0; c < (view->plane[1] ? 2 : 1); c++) {
        const int32_t taps = lines->x[c].taps;
        bzi_kernel_plan_scan(lines->x[c], slot, view, (bzi_kernel_stretch){ c, 0, in.first, in.end, y }, 0);
        bzi_kernel_plan_scan(lines->y[c], slot, view, (bzi_kernel_stretch){ c, 1, in.first, in.end, y }, 0);
        switch (view->kind == BZI_KERNEL_LERP ? 0 : taps) {
        case 0:  bzi_kernel_turned_as(lines, slot, view, c, 1, 2); break;
        case 3:  bzi_kernel_turned_as(lines, slot, view, c, 0, 3); break;
        case 4:  bzi_kernel_turned_as(lines, slot, view, c, 0, 4); break;
        default: bzi_kernel_turned_as(lines, slot, view, c, 0, taps);
        }
    }
    bzi_kernel_take_whole(lines, 0, lines->rgb);
    if (!view->plane[1])
        bzi_kernel_take_whole(lines, 1, lines->row);
}

/* Makes the rows of a slot; workspace is aligned as malloc does. Returns 1; or 0, having done nothing, when they are
 * not made here or the workspace is too small. */
BZI_KERNEL_CPU int bzi_kernel_warp_rows(const bzi_kernel_slot *given, const bzi_kernel_output *to, void *workspace,
                                        size_t workspace_bytes)
{
    bzi_kernel_slot slot = bzi_kernel_with_mean(given);
    bzi_kernel_output out = *to;
    bzi_kernel_lines lines;
    const int turned = bzi_kernel_turn(&slot, &out);
    const bzi_kernel_view view = bzi_kernel_view_of(&slot);
    if (!workspace || !bzi_kernel_has_rows(&slot, &view, &out) ||
        bzi_kernel_lay_out(&lines, &slot, &view, &out, workspace) > workspace_bytes / sizeof(float))
        return 0;
    if (lines.aligned)
        bzi_kernel_plan(&lines, &slot, &view, &out);
    lines.turned = turned;
    bzi_kernel_plan_colors(&lines, &slot, &out);
    for (size_t i = 0; i < lines.x[1].room && !view.plane[1]; i++) {
        lines.row[1][i] = lines.row[2][i] = view.neutral;
        lines.x[1].norm[i] = 1.0f;
    }
    for (int32_t y = 0; y < out.height; y++) {
        if (!lines.aligned)
            bzi_kernel_columns_inside(&slot, &view, out.width, y, &lines.in);
        const int inside = lines.aligned ? y >= lines.in.top && y < lines.in.bottom : lines.in.first < lines.in.end;
        if (inside && lines.aligned)
            bzi_kernel_take_rows(&slot, &view, &lines, y);
        else if (inside)
            bzi_kernel_turned_row(&slot, &view, &lines, y);
        if (inside)
            bzi_kernel_emit(&slot, &lines, &out, y);
        if ((slot.flags & BZI_KERNEL_SUM) || (inside && lines.in.end - lines.in.first == out.width))
            continue;
        bzi_kernel_fill_columns(&slot, &out, turned, y, 0, inside ? lines.in.first : out.width);
        bzi_kernel_fill_columns(&slot, &out, turned, y, inside ? lines.in.end : out.width, out.width);
    }
    bzi_kernel_add_sums(&slot, lines.sums);
    return 1;
}

/* --- Copies: an H of whole pixels, 1:1, mirrored or not, of 8-bit samples that each have a color of their own --- */

/* One channel of it: a sample of one plane times m plus add, clamped, minus bias, times scale. */
typedef struct bzi_kernel_channel {
    uint64_t from;                    /* the sample of output pixel 0, 0, which may lie outside the picture */
    int64_t  step, pitch;             /* bytes to those of the next output column and row */
    float    m, add;                  /* plane to R'G'B'; 1 and 0 mostly */
    float    bias, scale;
    const float *luma;                /* of three equal channels, this luma; or NULL */
} bzi_kernel_channel;

/* Is it a whole number, and small enough that floats hold its neighbors? */
BZI_KERNEL_FN int bzi_kernel_is_whole(float value)
{
    return value >= -4194304.0f && value <= 4194304.0f && value == (float)(int32_t)value;
}

/* Returns 0 where a slot is no copy. */
BZI_KERNEL_CPU int bzi_kernel_plan_copy(const bzi_kernel_slot *slot, const bzi_kernel_view *view,
                                        const bzi_kernel_output *out, bzi_kernel_channel channel[3])
{
    const float *h = slot->h;
    const int is_gray = (slot->flags & BZI_KERNEL_GRAY) != 0;
    if (slot->depth != 8 || slot->x1 < slot->x0 || slot->y1 < slot->y0 || out->mean || !bzi_kernel_aligned(h) ||
        (slot->flags & (BZI_KERNEL_COLOR | BZI_KERNEL_JITTER | BZI_KERNEL_SUM | BZI_KERNEL_CLIP)) ||
        out->width > 16384 || out->height > 16384 || h[0] * h[0] != 1.0f || h[4] * h[4] != 1.0f ||
        !bzi_kernel_is_whole(h[2]) || !bzi_kernel_is_whole(h[5]) || view->kind == BZI_KERNEL_SHARP ||
        (view->plane[1] && (slot->shift_x || slot->shift_y || is_gray)))
        return 0;
    for (int i = 0; i < 3; i++) {              /* products with 0 change nothing but the sign of a zero, which clamping
                                                * takes */
        const float *m = slot->rgb + 4 * i;
        const int p = m[0] != 0.0f ? 0 : m[1] != 0.0f ? 1 : 2;
        const int64_t step = slot->step[p], pitch = slot->pitch[p];
        if (m[(p + 1) % 3] != 0.0f || m[(p + 2) % 3] != 0.0f || !view->plane[p])
            return 0;
        channel[i] = (bzi_kernel_channel){
            view->plane[p] + (uint64_t)((int64_t)h[5] * pitch + (int64_t)h[2] * step), step * (int64_t)h[0],
            pitch * (int64_t)h[4], m[p], m[3], slot->bias[i], slot->scale[i], is_gray ? slot->luma : NULL
        };
    }
    return 1;
}

/* Columns of a piece. The last piece of a row has up to eight more. */
#define BZI_KERNEL_COPIED 256

/* Copies rows of at least eight samples that lie side by side; step is 1 or -1. stride: from one row of elements to the
 * next. dtype is a constant. */
BZI_KERNEL_OF_ROW void bzi_kernel_copy_as(uint32_t dtype, const bzi_kernel_channel *given, const uint8_t *from,
                                          int64_t step, int32_t count, int32_t rows, int64_t stride, uint8_t *to)
{
    const bzi_kernel_channel channel = *given;
    const float *w = channel.luma;
    for (; rows > 0; rows--, from += channel.pitch, to += stride << bzi_kernel_element_shift(dtype))
        for (int32_t k = 0; k < count; k += 8) {
            k = k + 8 <= count ? k : count - 8;    /* the last vector overlaps, with equal values */
            uint64_t bytes;
            memcpy(&bytes, step < 0 ? from - k - 7 : from + k, sizeof bytes);
            bytes = step < 0 ? __builtin_bswap64(bytes) : bytes;
            bzi_kernel_reals v = bzi_kernel_clamp8(channel.m * bzi_kernel_bytes_of(bytes) + channel.add, 255.0f);
            if (w)
                v = (w[0] * v + w[1] * v) + w[2] * v;
            bzi_kernel_put8(dtype, to + (k << bzi_kernel_element_shift(dtype)), (v - channel.bias) * channel.scale);
        }
}

/* Copies the pixels inside, at least eight columns. All rows are copied at once if samples and elements lie side by
 * side. Otherwise pieces of rows are copied: their samples are gathered first, and their elements scattered after. */
BZI_KERNEL_ROW void bzi_kernel_copy_rows(uint64_t dst, const bzi_kernel_channel *channel, const bzi_kernel_output *out,
                                         const bzi_kernel_inner *in)
{
    uint8_t bytes[BZI_KERNEL_COPIED + 8], pieces[3][sizeof bytes * sizeof(float)];
    const uint8_t *const elements[3] = { pieces[0], pieces[1], pieces[2] };
    int is_whole = out->stride_x == 1;
    for (uint32_t i = 0; i < out->channels; i++)
        is_whole &= channel[i].step == 1 || channel[i].step == -1;
    const int32_t rows = is_whole ? in->bottom - in->top : 1;
    for (int32_t y = in->top; y < in->bottom; y += rows)
        for (int32_t first = in->first, count; first < in->end; first += count) {
            count = is_whole || in->end - first < (int32_t)sizeof bytes ? in->end - first : BZI_KERNEL_COPIED;
            for (uint32_t i = 0; i < out->channels; i++) {
                const int64_t step = channel[i].step;
                const uint8_t *from = bzi_kernel_at(channel[i].from + (uint64_t)(y * channel[i].pitch + first * step));
                const int is_beside = step == 1 || step == -1;
                uint8_t *to = out->stride_x == 1 ? bzi_kernel_at(bzi_kernel_address(dst, out, i, y, first)) : pieces[i];
                for (int32_t k = 0; k < count && step == 3; k++)
                    bytes[k] = from[3 * k];
                for (int32_t k = 0; k < count && step != 3 && !is_beside; k++)
                    bytes[k] = from[k * step];
                BZI_KERNEL_BY_TYPE(out->dtype, bzi_kernel_copy_as, &channel[i], is_beside ? from : bytes,
                                   is_beside ? step : 1, count, rows, out->stride_y, to);
            }
            if (out->stride_x != 1)
                bzi_kernel_scatter(out, elements, count, bzi_kernel_at(bzi_kernel_address(dst, out, 0, y, first)));
        }
}

/* Copies a slot's picture and returns 1. If a copy is not enough, writes nothing and returns 0. If rows follow each
 * other without a gap, in the picture and in the output, they are copied as one: small pictures have short rows. */
BZI_KERNEL_CPU int bzi_kernel_warp_copy(const bzi_kernel_slot *slot, const bzi_kernel_output *to)
{
    bzi_kernel_output out = *to;
    bzi_kernel_channel channel[3];
    const bzi_kernel_view view = bzi_kernel_view_of(slot);
    if (!bzi_kernel_has_vectors() || !bzi_kernel_plan_copy(slot, &view, to, channel))
        return 0;
    bzi_kernel_inner in = bzi_kernel_inner_of(slot, &view, to);
    if (in.end - in.first < 8)
        return 0;
    int joins = in.end - in.first == out.width && in.bottom - in.top == out.height &&
                out.stride_y == out.width * out.stride_x;
    for (uint32_t i = 0; i < out.channels; i++)
        joins &= channel[i].pitch == out.width * channel[i].step;
    if (joins) {
        in.end = out.width *= out.height;
        in.bottom = out.height = 1;
    }
    bzi_kernel_copy_rows(slot->dst, channel, &out, &in);
    for (int32_t y = 0; y < out.height; y++) {
        const int inside = y >= in.top && y < in.bottom;
        bzi_kernel_fill_columns(slot, &out, 0, y, 0, inside ? in.first : out.width);
        bzi_kernel_fill_columns(slot, &out, 0, y, inside ? in.end : out.width, out.width);
    }
    return 1;
}

#else
#  define bzi_kernel_warp_bytes(slot, out) ((void)(slot), (void)(out), (size_t)0)
#  define bzi_kernel_warp_rows(slot, out, workspace, workspace_bytes) ((void)(workspace), (void)(workspace_bytes), 0)
#  define bzi_kernel_warp_copy(slot, out) 0
#endif

/* The fastest loop for a slot that is no copy. */
BZI_KERNEL_CPU void bzi_kernel_warp_once(const bzi_kernel_slot *slot, const bzi_kernel_output *out, void *workspace,
                                         size_t workspace_bytes)
{
    if (!bzi_kernel_warp_rows(slot, out, workspace, workspace_bytes))
        bzi_kernel_warp_plain(slot, out);
}

/* The fastest loop for the slot; twice, where contrast needs the mean. */
BZI_KERNEL_CPU void bzi_kernel_warp(const bzi_kernel_slot *slot, const bzi_kernel_output *out, void *workspace,
                                    size_t workspace_bytes)
{
    bzi_kernel_slot local = *slot;
    bzi_kernel_output no_mean = *out;
    uint64_t sums[2] = { 0, 0 };
    if (bzi_kernel_warp_copy(slot, out))
        return;
    no_mean.mean = 0;
    if (slot->flags & BZI_KERNEL_MEAN_LUMA) {
        local.sums = (uint64_t)(uintptr_t)sums;
        const bzi_kernel_slot first = bzi_kernel_summing(&local);
        bzi_kernel_warp_once(&first, &no_mean, workspace, workspace_bytes);
    }
    bzi_kernel_warp_once(&local, out, workspace, workspace_bytes);
}
#endif

#ifndef BENZINA_NO_AUGMENT
/* ---- 6. operations ----------------------------------------------------------------------------------------------- */

/* Operations on a view that was warped to planes R, G, B of 8 bits. They are done in passes, each over the whole view
 * and each a launch of its own, which is what keeps blocks apart: a pass reads what passes before it wrote, and writes
 * something else, each byte once. What changes each sample by itself is a table of 256 entries a channel. Tables are
 * composed, and samples go through them where the next pass reads them. A view has the passes of what was drawn for it,
 * and no others.
 *
 * The threads of a block share histograms, and nothing is added up in global memory: each block counts the samples of
 * some consecutive pixels, and who makes tables adds those parts up.
 *
 * Arithmetic and rounding are those of torchvision's functions for uint8 tensors, in float32: blends are truncated, a
 * Gaussian blur is rounded once, here at 1/256 between its two directions, too.
 *
 * Instructions of PTX a pixel of 224 x 224, and loads and stores of global memory, as build/tests/test_ptx counts and
 * limits them:
 *
 *     tally           56.2    3.00  0.20
 *     table           91.1    0.20  0.02    of an operation that needs a tally
 *     mix            102.5    3.00  3.00    saturation
 *     sharpen        330.4   26.57  3.00
 *     blur, rows    1710.0   69.00  3.00    kernel of 23 x 23
 *     blur, columns 1605.0   69.00  3.00
 *     cover           79.5    0.00  0.26    a small rectangle
 *     finish          95.8    3.00  3.00
 *
 * 56 registers for sm_90, 54 for sm_80 and 50 for sm_75 (ptxas 13.0), and 3072 bytes of shared memory: at least four
 * blocks of 256 threads a multiprocessor. Tiles in shared memory would take a third of a blur's instructions and a
 * sixteenth of its loads: by this count, 4 us of an H100 for a blurred picture. */

#define BZI_KERNEL_TABLE 256          /* entries of a table, and bins of a histogram, of a channel */
#define BZI_KERNEL_PART 4096          /* consecutive pixels whose histograms a block makes */
#define BZI_KERNEL_RADIUS 31          /* of a blur, at most */

typedef struct bzi_kernel_op {
    uint32_t kind;
    uint32_t bits;            /* POSTERIZE: those that are kept; BLUR: radius, less than a side; SHUFFLE: channels, R's
                               * first, of 2 bits each; what covers pixels: the mean picture is subtracted from it */
    float    a[3];            /* blends: the sample's share, the other's share; BLUR: exp(-1 / (2 sigma^2)); LIGHTING:
                               * for each channel; SOLARIZE, SOLARIZE_ADD, HUE, GAMMA: the magnitude; what covers
                               * pixels: the color, in OUTPUT units */
    float    noise[3];        /* standard deviations, likewise */
    uint32_t key[2];          /* of noise */
    uint16_t area[4];         /* as in bzna_drawn */
} bzi_kernel_op;

/* A pass over one view. */
typedef struct bzi_kernel_pass {
    uint64_t src, dst;        /* planes R, G, B, side by side; FINISH, COVER: dst is the slot in the batch */
    uint64_t tables;          /* through which samples of src go; 0: as they are */
    uint64_t counts;          /* of each part of the pixels, three histograms of uint32_t */
    float    bias[3], scale[3], luma[3];
    uint32_t flags;           /* BZI_KERNEL_GRAY, _SWAP */
    uint32_t kind;            /* BZI_KERNEL_PASS_... */
    uint32_t first, end;      /* of op: the pass does the first; COVER: all of them */
    uint32_t pixels;          /* so many of op change pixels, the rest covers them */
    bzi_kernel_op op[BZNA_OPERATIONS_MAX];
} bzi_kernel_pass;

typedef struct bzi_kernel_passes {
    bzi_kernel_pass pass[BZI_KERNEL_SLOTS];
} bzi_kernel_passes;

BZI_KERNEL_ASSERT(sizeof(bzi_kernel_op) == 48);
BZI_KERNEL_ASSERT(sizeof(bzi_kernel_pass) == 472);
BZI_KERNEL_ASSERT(sizeof(bzi_kernel_passes) + sizeof(bzi_kernel_output) <= 4096);

/* Kinds of passes. The first two are followed by another one of the same operation. */
enum {
    BZI_KERNEL_PASS_TALLY,            /* histograms of src, or one of its grays */
    BZI_KERNEL_PASS_BLUR_ROWS,        /* from src to lines: planes of uint16_t, in 1/256 */
    BZI_KERNEL_PASS_BLUR_COLUMNS,     /* from lines */
    BZI_KERNEL_PASS_TABLE,            /* tables to dst */
    BZI_KERNEL_PASS_MIX,              /* what mixes channels, from src to dst */
    BZI_KERNEL_PASS_SHARPEN,
    BZI_KERNEL_PASS_FINISH,           /* from src to the batch */
    BZI_KERNEL_PASS_COVER             /* what covers pixels, in the batch */
};

/* A thread's place among those of a block, which share histograms. In C one thread is the block, and the grid. */
typedef struct bzi_kernel_block {
    uint32_t *shared;                 /* 3 * BZI_KERNEL_TABLE */
    uint32_t thread, threads;         /* its number, and how many there are */
    uint32_t number, blocks;          /* the block's, likewise */
} bzi_kernel_block;

BZI_KERNEL_FN int64_t bzi_kernel_plane_bytes(const bzi_kernel_output *out)
{
    return (int64_t)out->width * out->height;
}

/* A sample of plane c, through the tables if there are any. */
BZI_KERNEL_FN uint32_t bzi_kernel_take8(const bzi_kernel_pass *pass, const bzi_kernel_output *out, int c, int64_t at)
{
    const uint8_t *src = bzi_kernel_at(pass->src) + c * bzi_kernel_plane_bytes(out);
    const uint32_t value = BZI_KERNEL_READ8(src + at);
    return pass->tables ? BZI_KERNEL_READ8(bzi_kernel_at(pass->tables) + c * BZI_KERNEL_TABLE + value) : value;
}

/* torchvision's rgb_to_grayscale. */
BZI_KERNEL_FN uint32_t bzi_kernel_gray8(const uint32_t v[3])
{
    return (uint32_t)(int32_t)((0.2989f * bzi_kernel_real(v[0]) + 0.587f * bzi_kernel_real(v[1])) +
                               0.114f * bzi_kernel_real(v[2]));
}

BZI_KERNEL_FN uint32_t bzi_kernel_truncate(float value)
{
    return (uint32_t)(int32_t)bzi_kernel_clamp(value, 255.0f);
}

/* torchvision's _blend. */
BZI_KERNEL_FN uint32_t bzi_kernel_blend(const bzi_kernel_op *op, uint32_t value, float other)
{
    return bzi_kernel_truncate(op->a[0] * bzi_kernel_real(value) + op->a[1] * other);
}

/* --- Tables --- */

/* What a histogram says. */
typedef struct bzi_kernel_stats {
    const uint32_t *bins;
    uint32_t least, most;             /* samples that occur */
    uint32_t total;                   /* samples */
    float    mean;
} bzi_kernel_stats;

BZI_KERNEL_FN bzi_kernel_stats bzi_kernel_stats_of(const uint32_t *bins)
{
    bzi_kernel_stats stats = { bins, 0, 0, 0, 0.0f };
    uint64_t sum = 0;
    BZI_KERNEL_ROLLED
    for (uint32_t i = 0; i < BZI_KERNEL_TABLE; i++) {
        stats.least = stats.total ? stats.least : i;
        stats.most = bins[i] ? i : stats.most;
        stats.total += bins[i];
        sum += (uint64_t)bins[i] * i;
    }
    stats.mean = (float)(int64_t)sum / bzi_kernel_real(stats.total);
    return stats;
}

/* The square root, rounded to nearest. */
BZI_KERNEL_FN float bzi_kernel_root(float value)
{
#if BZI_KERNEL_CUDA
    float root;
    __asm__("sqrt.rn.f32 %0, %1;" : "=f"(root) : "f"(value));
    return root;
#elif BZI_KERNEL_X86
    return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(value)));
#else
    return sqrtf(value);
#endif
}

/* x to the power of e, 0 <= x <= 1, 0 <= e < 65536: squares for the bits of e above the point, roots for 16 below. */
BZI_KERNEL_FN float bzi_kernel_power(float x, float e)
{
    const uint32_t whole = (uint32_t)(int32_t)e;
    const uint32_t part = (uint32_t)(int32_t)((e - bzi_kernel_real(whole)) * 65536.0f + 0.5f);
    float result = 1.0f, factor = x;
    BZI_KERNEL_ROLLED
    for (uint32_t bits = whole + (part >> 16); bits; bits >>= 1, factor *= factor)
        result *= bits & 1 ? factor : 1.0f;
    factor = x;
    BZI_KERNEL_ROLLED
    for (uint32_t bits = part & 0xffff; bits; bits = bits << 1 & 0xffff) {
        factor = bzi_kernel_root(factor);
        result *= bits & 0x8000 ? factor : 1.0f;
    }
    return result;
}

/* torchvision's equalize: (samples below, and half a step) / step. */
BZI_KERNEL_FN uint32_t bzi_kernel_equalize(uint32_t value, const bzi_kernel_stats *stats)
{
    const uint32_t step = (stats->total - stats->bins[stats->most]) / 255;
    uint32_t below = step / 2;
    BZI_KERNEL_ROLLED
    for (uint32_t i = 0; i < value; i++)
        below += stats->bins[i];
    const uint32_t level = step && value ? below / step : 0;
    return !step ? value : level < 255 ? level : 255;
}

/* What an operation makes of a sample of channel c. */
BZI_KERNEL_FN uint32_t bzi_kernel_entry(const bzi_kernel_op *op, int c, uint32_t value, const bzi_kernel_stats *stats)
{
    const float v = bzi_kernel_real(value);
    switch (op->kind) {
    case BZNA_OP_BRIGHTNESS:
        return bzi_kernel_blend(op, value, 0.0f);
    case BZNA_OP_CONTRAST:
        return bzi_kernel_blend(op, value, stats->mean);
    case BZNA_OP_GAMMA:
        return bzi_kernel_truncate(bzi_kernel_power(v / 255.0f, op->a[0]) * 255.999f);
    case BZNA_OP_POSTERIZE:
        return value & op->bits;
    case BZNA_OP_SOLARIZE:
        return v >= op->a[0] ? 255 - value : value;
    case BZNA_OP_SOLARIZE_ADD:
        return value < 128 ? bzi_kernel_truncate(v + op->a[0]) : value;
    case BZNA_OP_INVERT:
        return 255 - value;
    case BZNA_OP_LIGHTING:
        return bzi_kernel_truncate(v + op->a[c] + 0.5f);
    case BZNA_OP_AUTOCONTRAST:
        return stats->least == stats->most ? value :
               bzi_kernel_truncate((v - bzi_kernel_real(stats->least)) *      /* as PyTorch divides by a tensor */
                                   (1.0f / bzi_kernel_real(stats->most - stats->least) * 255.0f));
    case BZNA_OP_EQUALIZE:
        return bzi_kernel_equalize(value, stats);
    default:
        return value;
    }
}

/* Does an operation need counts of all pixels before it? */
BZI_KERNEL_FN int bzi_kernel_counts(uint32_t kind)
{
    return kind == BZNA_OP_CONTRAST || kind == BZNA_OP_AUTOCONTRAST || kind == BZNA_OP_EQUALIZE;
}

/* A histogram of grays stands for the sum that it gives. */
BZI_KERNEL_FN int bzi_kernel_is_gray(uint32_t kind) { return kind == BZNA_OP_CONTRAST; }

BZI_KERNEL_FN uint32_t bzi_kernel_parts(const bzi_kernel_output *out)
{
    return (uint32_t)((bzi_kernel_plane_bytes(out) + BZI_KERNEL_PART - 1) / BZI_KERNEL_PART);
}

/* Tables: a block makes a channel's. */
BZI_KERNEL_FN void bzi_kernel_pass_table(const bzi_kernel_pass *pass, const bzi_kernel_output *out,
                                         bzi_kernel_block block)
{
    const bzi_kernel_op *op = &pass->op[pass->first];
    const uint32_t parts = bzi_kernel_counts(op->kind) ? bzi_kernel_parts(out) : 0;
    for (uint32_t c = block.number; c < 3; c += block.blocks) {
        const uint32_t at = c * BZI_KERNEL_TABLE;
        const float *counts = (const float *)(uintptr_t)pass->counts + (bzi_kernel_is_gray(op->kind) ? 0 : at);
        const uint8_t *from = bzi_kernel_at(pass->tables) + at;
        uint8_t BZI_KERNEL_GLOBAL *to = (uint8_t BZI_KERNEL_GLOBAL *)(uintptr_t)pass->dst + at;
        bzi_kernel_stats stats = { block.shared, 0, 0, 0, 0.0f };
        for (uint32_t i = block.thread; i < BZI_KERNEL_TABLE && parts; i += block.threads) {
            uint32_t count = 0;
            BZI_KERNEL_ROLLED
            for (uint32_t part = 0; part < parts; part++)
                count += bzi_kernel_bits(BZI_KERNEL_READF(counts + (3 * part * BZI_KERNEL_TABLE + i)));
            block.shared[i] = count;
        }
        BZI_KERNEL_SYNC();
        if (parts)
            stats = bzi_kernel_stats_of(block.shared);
        for (uint32_t i = block.thread; i < BZI_KERNEL_TABLE; i += block.threads)
            to[i] = (uint8_t)bzi_kernel_entry(op, (int)c, pass->tables ? BZI_KERNEL_READ8(from + i) : i, &stats);
        BZI_KERNEL_SYNC();                          /* the next channel's counts take the place of these */
    }
}

BZI_KERNEL_FN void bzi_kernel_add_count(uint32_t *bin)
{
#if BZI_KERNEL_CUDA
    __asm__ volatile("red.shared.add.u32 [%0], 1;" : : "l"(BZI_KERNEL_SHARED_ADDRESS(bin)) : "memory");
#else
    ++*bin;
#endif
}

/* Histograms: a block makes those of a part. */
BZI_KERNEL_FN void bzi_kernel_pass_tally(const bzi_kernel_pass *pass, const bzi_kernel_output *out,
                                         bzi_kernel_block block)
{
    const int is_gray = bzi_kernel_is_gray(pass->op[pass->first].kind);
    const uint32_t bins = is_gray ? BZI_KERNEL_TABLE : 3 * BZI_KERNEL_TABLE, parts = bzi_kernel_parts(out);
    for (uint32_t part = block.number; part < parts; part += block.blocks) {
        uint32_t BZI_KERNEL_GLOBAL *to = (uint32_t BZI_KERNEL_GLOBAL *)(uintptr_t)pass->counts +
                                         (int64_t)part * (3 * BZI_KERNEL_TABLE);
        const int64_t first = (int64_t)part * BZI_KERNEL_PART, rest = bzi_kernel_plane_bytes(out) - first;
        const uint32_t count = rest < BZI_KERNEL_PART ? (uint32_t)rest : BZI_KERNEL_PART;
        for (uint32_t i = block.thread; i < bins; i += block.threads)
            block.shared[i] = 0;
        BZI_KERNEL_SYNC();
        for (uint32_t i = block.thread; i < count; i += block.threads) {
            uint32_t v[3];
            for (int c = 0; c < 3; c++)
                v[c] = bzi_kernel_take8(pass, out, c, first + i);
            if (is_gray)
                bzi_kernel_add_count(&block.shared[bzi_kernel_gray8(v)]);
            for (uint32_t c = 0; c < 3 && !is_gray; c++)
                bzi_kernel_add_count(&block.shared[c * BZI_KERNEL_TABLE + v[c]]);
        }
        BZI_KERNEL_SYNC();
        for (uint32_t i = block.thread; i < bins; i += block.threads)
            to[i] = block.shared[i];                /* and the same thread makes that 0 for the next part */
    }
}

/* --- Channels --- */

/* torchvision's adjust_hue: R, G, B to H, S, V and back. */
BZI_KERNEL_FN void bzi_kernel_turn_hue(float turns, uint32_t v[3])
{
    const float r = bzi_kernel_real(v[0]) / 255.0f, g = bzi_kernel_real(v[1]) / 255.0f;
    const float b = bzi_kernel_real(v[2]) / 255.0f;
    const float most = BZI_KERNEL_MAX(BZI_KERNEL_MAX(r, g), b), least = BZI_KERNEL_MIN(BZI_KERNEL_MIN(r, g), b);
    const float range = most - least, by = range > 0.0f ? range : 1.0f, s = range / (range > 0.0f ? most : 1.0f);
    const float rc = (most - r) / by, gc = (most - g) / by, bc = (most - b) / by;
    float h = most == r ? bc - gc : most == g ? 2.0f + rc - bc : 4.0f + gc - rc;
    h = h / 6.0f + 1.0f;
    h = h - (float)(int32_t)h + turns;
    h = h - (float)(int32_t)h;
    h = h < 0.0f ? h + 1.0f : h;
    const int32_t sector = (int32_t)(h * 6.0f);
    const float f = h * 6.0f - (float)sector;
    const float p = bzi_kernel_clamp(most * (1.0f - s), 1.0f), q = bzi_kernel_clamp(most * (1.0f - s * f), 1.0f);
    const float t = bzi_kernel_clamp(most * (1.0f - s * (1.0f - f)), 1.0f);
    const int32_t i = sector >= 6 ? 0 : sector;
    v[0] = bzi_kernel_truncate((i == 1 ? q : i == 2 || i == 3 ? p : i == 4 ? t : most) * 255.999f);
    v[1] = bzi_kernel_truncate((i == 0 ? t : i == 1 || i == 2 ? most : i == 3 ? q : p) * 255.999f);
    v[2] = bzi_kernel_truncate((i == 2 ? t : i == 3 || i == 4 ? most : i == 5 ? q : p) * 255.999f);
}

BZI_KERNEL_FN uint32_t bzi_kernel_pick(const uint32_t v[3], uint32_t c) { return c == 0 ? v[0] : c == 1 ? v[1] : v[2]; }

/* kind is the operation's, a constant where it can be. */
BZI_KERNEL_FN void bzi_kernel_mix_channels(const bzi_kernel_op *op, uint32_t kind, uint32_t v[3])
{
    const uint32_t gray = bzi_kernel_gray8(v), given[3] = { v[0], v[1], v[2] };
    if (kind == BZNA_OP_HUE) {
        bzi_kernel_turn_hue(op->a[0], v);
        return;
    }
    for (uint32_t c = 0; c < 3; c++)
        v[c] = kind == BZNA_OP_SATURATION ? bzi_kernel_blend(op, v[c], bzi_kernel_real(gray)) :
               kind == BZNA_OP_SHUFFLE ? bzi_kernel_pick(given, op->bits >> 2 * c & 3) : gray;
}

/* --- Neighbors --- */

/* The sum of nine samples, of which the middle one counts 5 times, by 13, rounded; no such quotient is a half. */
BZI_KERNEL_FN uint32_t bzi_kernel_smooth(uint32_t nine, uint32_t middle)
{
    return (uint16_t)(2 * (nine + 4 * middle) + 13) / 26u;
}

/* A sample, sharpened: the borders of the picture keep theirs. */
BZI_KERNEL_FN uint32_t bzi_kernel_sharpen(const bzi_kernel_pass *pass, const bzi_kernel_output *out, int c, int32_t x,
                                          int32_t y)
{
    const int64_t at = (int64_t)y * out->width + x;
    const uint32_t value = bzi_kernel_take8(pass, out, c, at);
    uint32_t nine = 0, smooth = value;
    if (x > 0 && x < out->width - 1 && y > 0 && y < out->height - 1) {
        for (int32_t i = 0; i < 9; i++)
            nine += bzi_kernel_take8(pass, out, c, at + (i / 3 - 1) * (int64_t)out->width + (i % 3 - 1));
        smooth = bzi_kernel_smooth(nine, value);
    }
    return bzi_kernel_blend(&pass->op[pass->first], value, bzi_kernel_real(smooth));
}

/* The weights of a Gaussian blur, from the middle on: 1, q, q^4, q^9, ... Begin with weight q, step q^3 and the sum of
 * all weights so far. */
typedef struct bzi_kernel_bell {
    float weight, step, ratio, sum;
} bzi_kernel_bell;

BZI_KERNEL_FN bzi_kernel_bell bzi_kernel_bell_of(const bzi_kernel_op *op)
{
    const float q = op->a[0];
    const bzi_kernel_bell bell = { q, q * q * q, q * q, 1.0f };
    return bell;
}

BZI_KERNEL_FN void bzi_kernel_bell_next(bzi_kernel_bell *bell)
{
    bell->sum += 2.0f * bell->weight;
    bell->weight *= bell->step;
    bell->step *= bell->ratio;
}

/* What the horizontal direction stores, and the vertical one. */
BZI_KERNEL_FN uint16_t bzi_kernel_fixed(float value) { return (uint16_t)(int32_t)(value * 256.0f + 0.5f); }
BZI_KERNEL_FN uint8_t bzi_kernel_unfixed(float value) { return bzi_kernel_byte(value * 0.00390625f); }

/* Borders are reflected, without repeating the last sample. */
BZI_KERNEL_FN int32_t bzi_kernel_reflect(int32_t i, int32_t last)
{
    i = last - (i < 0 ? -i : i);
    return last - (i < 0 ? -i : i);
}

/* A sample of a row, or of a column of lines, which a blur adds to that of x, y: k behind it. */
BZI_KERNEL_FN uint32_t bzi_kernel_blur_take(const bzi_kernel_pass *pass, const bzi_kernel_output *out, int c, int32_t x,
                                            int32_t y, int32_t k)
{
    const int64_t row = bzi_kernel_reflect(y + k, out->height - 1), plane = c * bzi_kernel_plane_bytes(out);
    if (pass->kind == BZI_KERNEL_PASS_BLUR_COLUMNS)
        return BZI_KERNEL_READ16(bzi_kernel_at(pass->src) + 2 * (plane + row * out->width + x));
    return bzi_kernel_take8(pass, out, c, (int64_t)y * out->width + bzi_kernel_reflect(x + k, out->width - 1));
}

/* A sample, blurred along x or y. */
BZI_KERNEL_FN float bzi_kernel_blur(const bzi_kernel_pass *pass, const bzi_kernel_output *out, int c, int32_t x,
                                    int32_t y)
{
    const bzi_kernel_op *op = &pass->op[pass->first];
    bzi_kernel_bell bell = bzi_kernel_bell_of(op);
    float sum = bzi_kernel_real(bzi_kernel_blur_take(pass, out, c, x, y, 0));
    BZI_KERNEL_ROLLED
    for (int32_t k = 1; k <= (int32_t)op->bits; k++, bzi_kernel_bell_next(&bell))
        sum += bell.weight * bzi_kernel_real(bzi_kernel_blur_take(pass, out, c, x, y, -k) +
                                             bzi_kernel_blur_take(pass, out, c, x, y, k));
    return sum * (1.0f / bell.sum);
}

/* --- The batch --- */

/* R, G, B to the channels delivered. */
BZI_KERNEL_FN void bzi_kernel_deliver(const bzi_kernel_pass *pass, const float mean[3], float c[3])
{
    const float red = c[0];
    c[0] = pass->flags & BZI_KERNEL_SWAP ? c[2] : c[0];
    c[2] = pass->flags & BZI_KERNEL_SWAP ? red : c[2];
    if (pass->flags & BZI_KERNEL_GRAY)
        c[0] = bzi_kernel_luma(pass->luma, c);
    for (int i = 0; i < 3; i++)
        c[i] = (c[i] - pass->bias[i] - mean[i]) * pass->scale[i];
}

/* Does an operation cover a pixel? Squares of a grid: see bzna_drawn.area. */
BZI_KERNEL_FN int bzi_kernel_covers(const bzi_kernel_op *op, uint32_t x, uint32_t y)
{
    const uint32_t period = op->area[2];
    if (op->kind != BZNA_OP_GRID_MASK)
        return x >= op->area[0] && x < op->area[2] && y >= op->area[1] && y < op->area[3];
    return period && (x + period - op->area[0]) % period < op->area[3] &&
           (y + period - op->area[1]) % period < op->area[3];
}

/* Three numbers of mean 0 and deviation 1, nearly normal: sums of five bytes of Philox4x32-10. */
BZI_KERNEL_FN void bzi_kernel_noise(const uint32_t key[2], uint32_t x, uint32_t y, float noise[3])
{
    uint32_t counter[4] = { x, y, 0, 0 };
    bzi_kernel_philox(key, counter);
    for (int i = 0; i < 3; i++) {
        const uint32_t w = counter[i];
        const uint32_t sum = (w & 255) + (w >> 8 & 255) + (w >> 16 & 255) + (w >> 24) + (counter[3] >> 8 * i & 255);
        noise[i] = (bzi_kernel_real(sum) - 637.5f) * 0.006051581f;
    }
}

/* What covers a pixel, in OUTPUT units; returns 0 where nothing does. */
BZI_KERNEL_FN int bzi_kernel_cover(const bzi_kernel_pass *pass, const bzi_kernel_output *out, int32_t x, int32_t y,
                                   float c[3])
{
    int is_covered = 0;
    BZI_KERNEL_ROLLED
    for (uint32_t k = pass->first; k < pass->end; k++) {
        const bzi_kernel_op *op = &pass->op[k];
        if (!bzi_kernel_covers(op, (uint32_t)x, (uint32_t)y))
            continue;
        float mean[3], noise[3] = { 0.0f, 0.0f, 0.0f };
        is_covered = 1;
        bzi_kernel_mean(out, (int64_t)y * out->width + x, mean);
        if (op->noise[0] != 0.0f || op->noise[1] != 0.0f || op->noise[2] != 0.0f)
            bzi_kernel_noise(op->key, (uint32_t)x, (uint32_t)y, noise);
        for (int i = 0; i < 3; i++)
            c[i] = op->a[i] - (op->bits ? mean[i] * pass->scale[i] : 0.0f) + op->noise[i] * noise[i];
    }
    return is_covered;
}

/* Samples of a pixel by what looks at neighbors. */
BZI_KERNEL_FN void bzi_kernel_pass_neighbors(const bzi_kernel_pass *pass, const bzi_kernel_output *out, int32_t x,
                                             int32_t y)
{
    int64_t at = (int64_t)y * out->width + x;
    uint8_t BZI_KERNEL_GLOBAL *to = (uint8_t BZI_KERNEL_GLOBAL *)(uintptr_t)pass->dst;
    BZI_KERNEL_ROLLED
    for (int c = 0; c < 3; c++, at += bzi_kernel_plane_bytes(out)) {
        if (pass->kind == BZI_KERNEL_PASS_SHARPEN) {
            to[at] = (uint8_t)bzi_kernel_sharpen(pass, out, c, x, y);
            continue;
        }
        const float blurred = bzi_kernel_blur(pass, out, c, x, y);
        if (pass->kind == BZI_KERNEL_PASS_BLUR_ROWS)
            ((uint16_t BZI_KERNEL_GLOBAL *)to)[at] = bzi_kernel_fixed(blurred);
        else
            to[at] = bzi_kernel_unfixed(blurred);
    }
}

/* A pixel of a pass that looks at no other: MIX, FINISH or COVER. kind is the pass's, a constant. */
BZI_KERNEL_FN void bzi_kernel_pass_pixel(const bzi_kernel_pass *pass, const bzi_kernel_output *out, int32_t x,
                                         int32_t y, uint32_t kind)
{
    const int64_t at = (int64_t)y * out->width + x;
    uint8_t BZI_KERNEL_GLOBAL *to = (uint8_t BZI_KERNEL_GLOBAL *)(uintptr_t)pass->dst;
    float mean[3], c[3] = { 0.0f, 0.0f, 0.0f };
    uint32_t v[3];
    if (kind == BZI_KERNEL_PASS_COVER) {
        if (bzi_kernel_cover(pass, out, x, y, c))
            bzi_kernel_store(pass->dst, out, x, y, c);
        return;
    }
    for (int i = 0; i < 3; i++)
        v[i] = bzi_kernel_take8(pass, out, i, at);
    if (kind == BZI_KERNEL_PASS_MIX) {
        bzi_kernel_mix_channels(&pass->op[pass->first], pass->op[pass->first].kind, v);
        for (int i = 0; i < 3; i++)
            to[i * bzi_kernel_plane_bytes(out) + at] = (uint8_t)v[i];
        return;
    }
    for (int i = 0; i < 3; i++)
        c[i] = bzi_kernel_real(v[i]);
    bzi_kernel_mean(out, at, mean);
    bzi_kernel_deliver(pass, mean, c);
    bzi_kernel_store(pass->dst, out, x, y, c);
}

/* All pixels. kind: a constant; that of all passes with neighbors is SHARPEN. */
BZI_KERNEL_FN void bzi_kernel_pass_pixels(const bzi_kernel_pass *pass, const bzi_kernel_output *out,
                                          bzi_kernel_thread thread, int32_t width, int32_t height, uint32_t kind)
{
    for (uint32_t y = thread.y; y < (uint32_t)height; y += thread.step_y)
        for (uint32_t x = thread.x; x < (uint32_t)width; x += thread.step_x)
            if (kind == BZI_KERNEL_PASS_SHARPEN)
                bzi_kernel_pass_neighbors(pass, out, (int32_t)x, (int32_t)y);
            else
                bzi_kernel_pass_pixel(pass, out, (int32_t)x, (int32_t)y, kind);
}

/* What one thread does of a pass. */
BZI_KERNEL_FN void bzi_kernel_pass_thread(const bzi_kernel_pass *pass, const bzi_kernel_output *out,
                                          bzi_kernel_thread thread, bzi_kernel_block block)
{
    const int32_t width = out->width, height = out->height;
    switch (pass->kind) {
    case BZI_KERNEL_PASS_TALLY: bzi_kernel_pass_tally(pass, out, block); break;
    case BZI_KERNEL_PASS_TABLE: bzi_kernel_pass_table(pass, out, block); break;
    case BZI_KERNEL_PASS_MIX:
        bzi_kernel_pass_pixels(pass, out, thread, width, height, BZI_KERNEL_PASS_MIX);
        break;
    case BZI_KERNEL_PASS_FINISH:
        bzi_kernel_pass_pixels(pass, out, thread, width, height, BZI_KERNEL_PASS_FINISH);
        break;
    case BZI_KERNEL_PASS_SHARPEN: case BZI_KERNEL_PASS_BLUR_ROWS: case BZI_KERNEL_PASS_BLUR_COLUMNS:
        bzi_kernel_pass_pixels(pass, out, thread, width, height, BZI_KERNEL_PASS_SHARPEN);
        break;
    default: bzi_kernel_pass_pixels(pass, out, thread, width, height, BZI_KERNEL_PASS_COVER);
    }
}

/* --- The passes of a view, in order --- */

/* Where in a view's scratch memory what lies; offsets in bytes, multiples of 256. */
typedef struct bzi_kernel_scratch {
    uint64_t image[2], table[2], counts;
    uint64_t lines;                   /* of a blur; on the CPU one more, which has a radius before and behind it */
    uint64_t bytes;
} bzi_kernel_scratch;

BZI_KERNEL_FN bzi_kernel_scratch bzi_kernel_scratch_of(const bzi_kernel_output *out)
{
    const uint64_t samples = 3 * (uint64_t)bzi_kernel_plane_bytes(out), image = (samples + 255) / 256 * 256;
    const uint64_t counts = (uint64_t)bzi_kernel_parts(out) * (3 * BZI_KERNEL_TABLE * sizeof(uint32_t));
    const uint64_t lines = 2 * (samples + (uint64_t)out->width + 2 * BZI_KERNEL_RADIUS);
    bzi_kernel_scratch scratch = { { 0, image }, { 2 * image, 2 * image + 768 }, 2 * image + 1536, 0, 0 };
    scratch.lines = scratch.counts + counts;
    scratch.bytes = scratch.lines + (lines + 255) / 256 * 256;
    return scratch;
}

/* Where a view stands between two passes. */
typedef struct bzi_kernel_stage {
    uint32_t at, step;                /* the operation; passes of it that are done, or of the two behind them all */
    uint32_t image, table;            /* the one of two that holds the samples, and the tables */
    int      mapped;                  /* samples go through those */
} bzi_kernel_stage;

/* The pass that does an operation on pixels, or ends it. */
BZI_KERNEL_FN uint32_t bzi_kernel_pass_of(uint32_t kind)
{
    return kind == BZNA_OP_SHARPNESS ? BZI_KERNEL_PASS_SHARPEN : kind == BZNA_OP_BLUR ? BZI_KERNEL_PASS_BLUR_COLUMNS :
           kind == BZNA_OP_SATURATION || kind == BZNA_OP_HUE || kind == BZNA_OP_GRAYSCALE || kind == BZNA_OP_SHUFFLE ?
           BZI_KERNEL_PASS_MIX : BZI_KERNEL_PASS_TABLE;
}

/* The next pass of a view; returns 0 behind the last one. The view's src is its scratch memory, whose first image is
 * the warp's; its end is the number of all its operations. */
BZI_KERNEL_FN int bzi_kernel_next_pass(const bzi_kernel_pass *view, const bzi_kernel_output *out,
                                       bzi_kernel_stage *stage, bzi_kernel_pass *pass)
{
    const bzi_kernel_scratch scratch = bzi_kernel_scratch_of(out);
    *pass = *view;
    pass->src = view->src + scratch.image[stage->image];
    pass->tables = stage->mapped ? view->src + scratch.table[stage->table] : 0;
    pass->counts = view->src + scratch.counts;
    pass->first = stage->at;
    if (stage->at >= view->pixels) {
        stage->step += !view->pixels && stage->step == 0;      /* the warp wrote to the batch itself */
        stage->step += view->pixels == view->end && stage->step == 1;
        pass->kind = BZI_KERNEL_PASS_FINISH + stage->step;
        return stage->step++ < 2;
    }

    const uint32_t kind = view->op[stage->at].kind;
    pass->kind = bzi_kernel_pass_of(kind);
    if (stage->step++ == 0 && (bzi_kernel_counts(kind) || kind == BZNA_OP_BLUR)) {
        pass->kind = kind == BZNA_OP_BLUR ? BZI_KERNEL_PASS_BLUR_ROWS : BZI_KERNEL_PASS_TALLY;
        pass->dst = view->src + scratch.lines;
        return 1;
    }
    stage->mapped = pass->kind == BZI_KERNEL_PASS_TABLE;
    if (stage->mapped) {
        stage->table ^= 1;
        pass->dst = view->src + scratch.table[stage->table];
    } else {
        pass->src = kind == BZNA_OP_BLUR ? view->src + scratch.lines : pass->src;
        stage->image ^= 1;
        pass->dst = view->src + scratch.image[stage->image];
    }
    stage->at++;
    stage->step = 0;
    return 1;
}

#if BZI_KERNEL_CUDA
/* Passes of views 0 .. grid.z - 1, of one output; blocks and grids as those of the warps. */
BZI_KERNEL_GLOBAL_FN BZI_KERNEL_TWO bzi_kernel_augment(const bzi_kernel_passes passes, const bzi_kernel_output out)
{
    BZI_KERNEL_SHARED uint32_t shared[3 * BZI_KERNEL_TABLE];
    const bzi_kernel_thread thread = { BZI_KERNEL_FIRST(x), BZI_KERNEL_FIRST(y), BZI_KERNEL_STRIDE(x),
                                       BZI_KERNEL_STRIDE(y) };
    const bzi_kernel_block block = { shared, BZI_KERNEL_THREAD(y) * BZI_KERNEL_THREADS(x) + BZI_KERNEL_THREAD(x),
                                     BZI_KERNEL_THREADS(x) * BZI_KERNEL_THREADS(y),
                                     BZI_KERNEL_BLOCK(y) * BZI_KERNEL_BLOCKS(x) + BZI_KERNEL_BLOCK(x),
                                     BZI_KERNEL_BLOCKS(x) * BZI_KERNEL_BLOCKS(y) };
    bzi_kernel_pass_thread(&passes.pass[BZI_KERNEL_BLOCK(z)], &out, thread, block);
}
#else
/* A pass as one thread that is all of a GPU. */
BZI_KERNEL_CPU void bzi_kernel_run_plain(const bzi_kernel_pass *pass, const bzi_kernel_output *out)
{
    const bzi_kernel_thread all = { 0, 0, 1, 1 };
    uint32_t shared[3 * BZI_KERNEL_TABLE];
    const bzi_kernel_block block = { shared, 0, 1, 0, 1 };
    bzi_kernel_pass_thread(pass, out, all, block);
}

/* What covers pixels: each operation in its rectangle, or, as a grid, in all of the output. */
BZI_KERNEL_CPU void bzi_kernel_cover_areas(const bzi_kernel_pass *given, const bzi_kernel_output *out)
{
    bzi_kernel_pass pass = *given;
    for (uint32_t k = given->first; k < given->end; k++) {
        const uint16_t *area = pass.op[k].area;
        const int is_grid = pass.op[k].kind == BZNA_OP_GRID_MASK;
        const bzi_kernel_thread from = { is_grid ? 0 : area[0], is_grid ? 0 : area[1], 1, 1 };
        const int32_t right = is_grid ? out->width : BZI_KERNEL_MIN(area[2], out->width);
        const int32_t bottom = is_grid ? out->height : BZI_KERNEL_MIN(area[3], out->height);
        pass.first = k;
        pass.end = k + 1;
        bzi_kernel_pass_pixels(&pass, out, from, right, bottom, BZI_KERNEL_PASS_COVER);
    }
}

/* The passes again, faster, with the same bits: loops over planes, of which compilers make vectors. Samples go through
 * a table in place as soon as it is made. */

/* One operation on channels, in place. kind is a constant. */
BZI_KERNEL_FN void bzi_kernel_mix_planes(const bzi_kernel_op *given, uint32_t kind, uint8_t *r, int64_t plane)
{
    const bzi_kernel_op op = *given;
    uint8_t *g = r + plane, *b = g + plane;
    for (int64_t i = 0; i < plane; i++) {
        uint32_t v[3] = { r[i], g[i], b[i] };
        bzi_kernel_mix_channels(&op, kind, v);
        r[i] = (uint8_t)v[0];
        g[i] = (uint8_t)v[1];
        b[i] = (uint8_t)v[2];
    }
}

/* A row, sharpened; is_border: it is the first or the last one. */
BZI_KERNEL_FN void bzi_kernel_sharpen_row(const bzi_kernel_op *given, const uint8_t *restrict from, int32_t width,
                                          int is_border, uint8_t *restrict to)
{
    const bzi_kernel_op op = *given;
    const uint8_t *above = from - width, *below = from + width;
    for (int32_t i = 1; i < width - 1 && !is_border; i++) {
        const uint32_t upper = (uint32_t)above[i - 1] + above[i] + above[i + 1];
        const uint32_t lower = (uint32_t)below[i - 1] + below[i] + below[i + 1];
        const uint32_t nine = upper + from[i - 1] + from[i] + from[i + 1] + lower;
        to[i] = (uint8_t)bzi_kernel_blend(&op, from[i], bzi_kernel_real(bzi_kernel_smooth(nine, from[i])));
    }
    for (int32_t i = 0; i < width; i += is_border || i == width - 1 ? 1 : width - 1)
        to[i] = (uint8_t)bzi_kernel_blend(&op, from[i], (float)from[i]);
}

/* A line of uint16_t, blurred with those before and behind it: the middle one of near, which has a radius on either
 * side. To uint16_t (is_last 0), or to bytes. */
BZI_KERNEL_FN void bzi_kernel_blur_line(const bzi_kernel_op *op, const uint16_t *const *near, int32_t width,
                                        int is_last, uint8_t *restrict to)
{
    uint16_t *restrict line = (uint16_t *)(void *)to;
    const int32_t radius = (int32_t)op->bits;
    for (int32_t first = 0; first < width; first += 64) {
        const int32_t count = first + 64 < width ? 64 : width - first;
        bzi_kernel_bell bell = bzi_kernel_bell_of(op);
        float sum[64];
        for (int32_t k = 0; k < count; k++)
            sum[k] = (float)near[radius][first + k];
        for (int32_t n = 1; n <= radius; n++, bzi_kernel_bell_next(&bell)) {
            const uint16_t *a = near[radius - n] + first, *b = near[radius + n] + first;
            for (int32_t k = 0; k < count; k++)
                sum[k] += bell.weight * (float)(a[k] + b[k]);
        }
        const float norm = 1.0f / bell.sum;
        for (int32_t k = 0; k < count && !is_last; k++)
            line[first + k] = bzi_kernel_fixed(sum[k] * norm);
        for (int32_t k = 0; k < count && is_last; k++)
            to[first + k] = bzi_kernel_unfixed(sum[k] * norm);
    }
}

/* Rows to lines. Each is first put behind all lines, with what is reflected before and behind it. */
BZI_KERNEL_FN void bzi_kernel_blur_rows(const bzi_kernel_op *op, const bzi_kernel_output *out, const uint8_t *src,
                                        uint16_t *lines)
{
    const int32_t radius = (int32_t)op->bits, width = out->width;
    const uint16_t *near[2 * BZI_KERNEL_RADIUS + 1];
    uint16_t *row = lines + 3 * bzi_kernel_plane_bytes(out) + radius;
    for (int32_t i = 0; i <= 2 * radius; i++)
        near[i] = row - radius + i;
    for (int32_t y = 0; y < 3 * out->height; y++, src += width, lines += width) {
        for (int32_t i = 0; i < width; i++)
            row[i] = src[i];
        for (int32_t i = 1; i <= radius; i++) {
            row[-i] = row[i];
            row[width - 1 + i] = row[width - 1 - i];
        }
        bzi_kernel_blur_line(op, near, width, 0, (uint8_t *)(void *)lines);
    }
}

BZI_KERNEL_FN void bzi_kernel_blur_columns(const bzi_kernel_op *op, const bzi_kernel_output *out, const uint16_t *lines,
                                           uint8_t *dst)
{
    const int32_t radius = (int32_t)op->bits, height = out->height;
    const uint16_t *near[2 * BZI_KERNEL_RADIUS + 1];
    for (int32_t y = 0; y < 3 * height; y++, dst += out->width) {
        for (int32_t i = 0; i <= 2 * radius; i++)
            near[i] = lines + (y / height * (int64_t)height +
                               bzi_kernel_reflect(y % height + i - radius, height - 1)) * out->width;
        bzi_kernel_blur_line(op, near, out->width, 1, dst);
    }
}

/* Samples to the batch: rows of copies, or, where it takes more than that, pixel by pixel. */
BZI_KERNEL_CPU void bzi_kernel_finish_planes(const bzi_kernel_pass *pass, const bzi_kernel_output *out)
{
    const int takes_more = (pass->flags & BZI_KERNEL_GRAY) || out->mean || out->width < 8;
    bzi_kernel_channel channel[3];
    for (int i = 0; i < 3; i++) {
        const int p = pass->flags & BZI_KERNEL_SWAP ? 2 - i : i;
        channel[i] = (bzi_kernel_channel){ pass->src + (uint64_t)(p * bzi_kernel_plane_bytes(out)), 1, out->width, 1.0f,
                                           0.0f, pass->bias[i], pass->scale[i], NULL };
    }
    const bzi_kernel_inner all = { 0, out->width, 0, out->height };
    if (takes_more)
        bzi_kernel_run_plain(pass, out);
    else
        bzi_kernel_copy_rows(pass->dst, channel, out, &all);
}

BZI_KERNEL_ROW void bzi_kernel_run_pass(const bzi_kernel_pass *pass, const bzi_kernel_output *out)
{
    const int64_t plane = bzi_kernel_plane_bytes(out);
    const int32_t width = out->width, last = out->height - 1;
    const bzi_kernel_op *op = &pass->op[pass->first];
    uint8_t *src = bzi_kernel_at(pass->src), *dst = bzi_kernel_at(pass->dst);
    switch (pass->kind) {
    case BZI_KERNEL_PASS_TABLE:
        bzi_kernel_run_plain(pass, out);
        for (int c = 0; c < 3; c++, src += plane, dst += BZI_KERNEL_TABLE)
            for (int64_t i = 0; i < plane; i++)
                src[i] = dst[src[i]];
        break;
    case BZI_KERNEL_PASS_MIX:
        memcpy(dst, src, (size_t)(3 * plane));
        if (op->kind == BZNA_OP_SATURATION)
            bzi_kernel_mix_planes(op, BZNA_OP_SATURATION, dst, plane);
        else if (op->kind == BZNA_OP_HUE)
            bzi_kernel_mix_planes(op, BZNA_OP_HUE, dst, plane);
        else
            bzi_kernel_mix_planes(op, op->kind, dst, plane);
        break;
    case BZI_KERNEL_PASS_SHARPEN:
        for (int32_t y = 0; y < 3 * (last + 1); y++, src += width, dst += width)
            bzi_kernel_sharpen_row(op, src, width, y % (last + 1) == 0 || y % (last + 1) == last, dst);
        break;
    case BZI_KERNEL_PASS_BLUR_ROWS: bzi_kernel_blur_rows(op, out, src, (uint16_t *)(void *)dst); break;
    case BZI_KERNEL_PASS_BLUR_COLUMNS: bzi_kernel_blur_columns(op, out, (const uint16_t *)(void *)src, dst); break;
    case BZI_KERNEL_PASS_FINISH: bzi_kernel_finish_planes(pass, out); break;
    case BZI_KERNEL_PASS_COVER: bzi_kernel_cover_areas(pass, out); break;
    default: bzi_kernel_run_plain(pass, out);
    }
}

/* All passes of a view whose src is its scratch memory, and whose dst is its slot in the batch. */
BZI_KERNEL_CPU void bzi_kernel_operate(const bzi_kernel_pass *view, const bzi_kernel_output *out)
{
    bzi_kernel_stage stage = { 0, 0, 0, 0, 0 };
    bzi_kernel_pass pass;
    while (bzi_kernel_next_pass(view, out, &stage, &pass)) {
        if (!bzi_kernel_has_vectors()) {
            bzi_kernel_run_plain(&pass, out);
            continue;
        }
        bzi_kernel_run_pass(&pass, out);
        stage.mapped = 0;                           /* samples have gone through the table */
    }
}
#endif
#endif
