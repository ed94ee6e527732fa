/* bench_rows.c - the warps of up to four versions of the kernels, by widths of rows, in turns in one run.
 *
 *     git show COMMIT:benzina_kernels.cu > before.cu
 *     flags="-O3 -std=c11 -ffp-contract=off -fPIC -shared -I."
 *     cc $flags -DKERNELS='"before.cu"' tests/bench/bench_rows.c -o before.so
 *     cc $flags -DKERNELS='"benzina_kernels.cu"' tests/bench/bench_rows.c -o after.so
 *     cc -O2 -std=c11 tests/bench/bench_rows.c -ldl -o bench_rows && taskset -c 0 ./bench_rows ./before.so ./after.so
 */
#ifdef KERNELS
#include "benzina.h"           /* older kernels do not include it */
#include <stdlib.h>
#include KERNELS

/* A picture of noise in 4:2:0, linear, shrunk or enlarged to side x side; so many times. padded: one of side x side in
 * planes of G, B and R instead, moved by two columns and a row, so that its neighborhood shows. */
void bench_rows(int side, int dtype, int nhwc, int padded, int times);
void bench_rows(int side, int dtype, int nhwc, int padded, int times)
{
    enum { WIDTH = 500, HEIGHT = 375 };
    static uint8_t planes[3][WIDTH * HEIGHT];
    static _Alignas(64) float to[8 * 3 * 512 * 512];
    const int32_t width = padded ? side : side < 100 ? 64 : WIDTH, height = padded ? side : side < 100 ? 48 : HEIGHT;
    const int32_t shift = !padded;
    const uint64_t size = dtype == 0 ? 4 : dtype == 3 ? 1 : 2;      /* numbers, for versions that name them otherwise */
    bzi_kernel_slot slot = { .x1 = width - 1, .y1 = height - 1, .shift_x = shift, .shift_y = shift, .depth = 8,
                             .step = { 1, 1, 1 }, .pitch = { WIDTH, WIDTH, WIDTH }, .scale = { 1, 1, 1 } };
    slot.h[0] = (float)width / (float)side;
    slot.h[4] = (float)height / (float)side;
    slot.h[8] = 1.0f;
    slot.h[2] = padded ? -2.0f : 0.0f;
    slot.h[5] = padded ? 1.0f : 0.0f;
    bzi_kernel_output out = { .width = side, .height = side, .dtype = (uint32_t)dtype, .channels = 3 };
    out.stride_c = nhwc ? 1 : (int64_t)side * side;
    out.stride_x = nhwc ? 3 : 1;
    out.stride_y = side * out.stride_x;
    for (int p = 0; p < 3; p++) {
        for (int i = 0; i < WIDTH * HEIGHT; i++)
            planes[p][i] = (uint8_t)((uint32_t)i * 2654435761u >> 20);
        slot.plane[p] = (uint64_t)(uintptr_t)planes[p];
    }
    if (padded) bzi_kernel_identity_matrix(0, 1, 8, slot.rgb);
    else        bzi_kernel_rgb_matrix(0.299, 0.114, 1, 8, slot.rgb);
    const size_t bytes = bzi_kernel_warp_bytes(&slot, &out);
    void *workspace = aligned_alloc(64, (bytes + 63) / 64 * 64);
    for (int i = 0; i < times && workspace; i++) {          /* as batches: 8 slots in turn */
        slot.dst = (uint64_t)(uintptr_t)to + (uint64_t)(i % 8) * 3 * (uint64_t)side * (uint64_t)side * size;
        bzi_kernel_warp(&slot, &out, workspace, bytes);
    }
    free(workspace);
}
#else
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 41, VERSIONS = 4 };
typedef void bench_fn(int, int, int, int, int);

typedef struct bench_case { int side, dtype, nhwc, padded; } bench_case;

static double seconds(bench_fn *run, const bench_case *c, int times)
{
    struct timespec a, b;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
    run(c->side, c->dtype, c->nhwc, c->padded, times);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
    return (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
}

static int is_before(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *list)
{
    qsort(list, ROUNDS, sizeof *list, is_before);
    return list[ROUNDS / 2];
}

/* Time of each version, and of each but the last the ratio to the last. */
static void compare(bench_fn *const *run, int count, const bench_case *c)
{
    double taken[VERSIONS][ROUNDS], ratios[VERSIONS][ROUNDS];
    const int times = 8 + 2000000 / (c->side * c->side) / 4;
    for (int i = 0; i < count; i++)
        run[i](c->side, c->dtype, c->nhwc, c->padded, times);
    for (int r = 0; r < ROUNDS; r++) {
        for (int i = 0; i < count; i++)
            taken[(i + r) % count][r] = seconds(run[(i + r) % count], c, times);
        for (int i = 0; i < count; i++)
            ratios[i][r] = taken[i][r] / taken[count - 1][r];
    }
    static const char *const names[] = { "float32", "float16", "bfloat16", "uint8" };
    printf("| %d x %d%s | %s | %s |", c->side, c->side, c->padded ? ", padded" : "", names[c->dtype],
           c->nhwc ? "NHWC" : "NCHW");
    for (int i = 0; i < count; i++)
        printf(" %.2f |", 1e6 * median(taken[i]) / times);
    for (int i = 0; i + 1 < count; i++)
        printf(" %.2f |", median(ratios[i]));
    puts("");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static const int sides[] = { 28, 32, 40, 224, 299, 300 }, dtypes[] = { 0, 1, 3 };
    bench_fn *run[VERSIONS];
    const int count = argc - 1;
    if (count < 2 || count > VERSIONS)
        return fprintf(stderr, "bench_rows: two to %d libraries\n", VERSIONS), 1;
    for (int i = 0; i < count; i++) {
        void *library = dlopen(argv[1 + i], RTLD_NOW | RTLD_LOCAL);
        void *found = library ? dlsym(library, "bench_rows") : NULL;
        if (!found)
            return fprintf(stderr, "bench_rows: %s\n", dlerror()), 1;
        *(void **)&run[i] = found;
    }
    printf("| output | type | layout |");
    for (int i = 0; i < count; i++)
        printf(" %s, us |", argv[1 + i]);
    for (int i = 0; i + 1 < count; i++)
        printf(" %s / %s |", argv[1 + i], argv[count]);
    puts("");
    for (size_t s = 0; s < sizeof sides / sizeof *sides; s++)
        for (int padded = 0; padded <= (sides[s] == 32); padded++)
            for (int k = 0; k < 6; k++)
                compare(run, count, &(bench_case){ sides[s], dtypes[k % 3], k / 3, padded });
    return 0;
}
#endif
