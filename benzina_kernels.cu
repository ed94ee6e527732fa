/* benzina_kernels.cu - the pixel arithmetic of benzina.c: one source, compiled as CUDA for the GPU and included as C for the CPU.
 *
 * Five parts: 1 portability; 2 plain data, passed by value or as a descriptor array; 3 arithmetic, static inline functions without a
 * loop over pixels; 4 CUDA entry points, index arithmetic only; 5 CPU row loops. */

/* ---- 2. plain data ------------------------------------------------------------------------------------------------------ */

/* One sample: surface, warp, colour, destination. Addresses are integers so that one layout serves host and device. */
typedef struct bzi_kernel_slot {
    uint64_t plane[3];        /* first sample of Y, Cb, Cr in the whole FRAME (frame's top left corner); Cb, Cr = 0: grey */
    uint64_t dst;             /* first element of this slot in the batch */
    int32_t  pitch[3];        /* bytes between rows */
    int32_t  step[3];         /* bytes between samples of a row: 1 planar 8 bit, 2 NV12 chroma or P016 luma, 4 P016 chroma */
    int32_t  x0, y0, x1, y1;  /* the picture's rectangle in frame luma samples, x1 and y1 inclusive */
    int32_t  shift_x, shift_y;/* log2 of the chroma subsampling, 0 or 1 (0..2) */
    int32_t  left, top;       /* chroma co-sited with the left column / top row (1) or centred between (0) */
    int32_t  depth;           /* 8 now; later up to 16: two bytes a sample */
    int32_t  reserved;
    float    h[9];            /* output pixel -> picture pixel (relative to x0, y0), row-major */
    float    rgb[12];         /* [R G B]' = rgb * [Y Cb Cr 1]', 3x4: range and matrix folded in, result in 0..255 */
    float    colour[12];      /* 3x4 on the clamped R'G'B' (identity mostly) */
    float    bias[3], scale[3];
    float    fill[3];         /* out of bounds, in OUTPUT units */
    uint32_t flags;           /* BZI_KERNEL_COLOUR: colour is not the identity */
} bzi_kernel_slot;

typedef struct bzi_kernel_output {
    int32_t width, height;
    int64_t stride_c, stride_y, stride_x;    /* elements between channels, rows, pixels of a slot: NCHW and NHWC alike */
} bzi_kernel_output;
