/* bench_rows.c - the warp of one version of the kernels beside another's, by widths of rows, in turns in one run.
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

/* A picture of noise in 4:2:0, linear, shrunk or enlarged to side x side; so many times. */
void bench_rows(int side, int dtype, int nhwc, int times);
void bench_rows(int side, int dtype, int nhwc, int times)
{
    enum { WIDTH = 500, HEIGHT = 375 };
    static uint8_t planes[3][WIDTH * HEIGHT];
    static _Alignas(64) float to[8 * 3 * 512 * 512];
    const int32_t width = side < 100 ? 64 : WIDTH, height = side < 100 ? 48 : HEIGHT;
    bzi_kernel_slot slot = { .x1 = width - 1, .y1 = height - 1, .shift_x = 1, .shift_y = 1, .depth = 8,
                             .step = { 1, 1, 1 }, .pitch = { WIDTH, WIDTH, WIDTH }, .scale = { 1, 1, 1 } };
    slot.h[0] = (float)width / (float)side;
    slot.h[4] = (float)height / (float)side;
    slot.h[8] = 1.0f;
    bzi_kernel_output out = { .width = side, .height = side, .dtype = (uint32_t)dtype, .channels = 3 };
    out.stride_c = nhwc ? 1 : (int64_t)side * side;
    out.stride_x = nhwc ? 3 : 1;
    out.stride_y = side * out.stride_x;
    for (int p = 0; p < 3; p++) {
        for (int i = 0; i < WIDTH * HEIGHT; i++)
            planes[p][i] = (uint8_t)((uint32_t)i * 2654435761u >> 20);
        slot.plane[p] = (uint64_t)(uintptr_t)planes[p];
    }
    bzi_kernel_rgb_matrix(0.299, 0.114, 1, 8, slot.rgb);
    const size_t bytes = bzi_kernel_workspace_bytes(&slot, &out);
    void *workspace = aligned_alloc(64, (bytes + 63) / 64 * 64);
    for (int i = 0; i < times && workspace; i++) {          /* as batches: 8 slots in turn */
        slot.dst = (uint64_t)(uintptr_t)to + (uint64_t)(i % 8) * 3 * (uint64_t)side * (uint64_t)side *
                   (dtype == BZNA_DTYPE_FLOAT32 ? 4 : dtype == BZNA_DTYPE_UINT8 ? 1 : 2);
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

enum { ROUNDS = 41 };
typedef void bench_fn(int, int, int, int);

static double seconds(bench_fn *run, int side, int dtype, int nhwc, int times)
{
    struct timespec a, b;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
    run(side, dtype, nhwc, times);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
    return (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
}

static int is_before(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void compare(bench_fn *const run[2], int side, int dtype, int nhwc)
{
    double taken[2][ROUNDS], ratios[ROUNDS];
    const int times = 8 + 2000000 / (side * side) / 4;
    for (int i = 0; i < 2; i++)
        run[i](side, dtype, nhwc, times);
    for (int r = 0; r < ROUNDS; r++) {
        for (int i = 0; i < 2; i++)
            taken[i ^ (r & 1)][r] = seconds(run[i ^ (r & 1)], side, dtype, nhwc, times);
        ratios[r] = taken[0][r] / taken[1][r];
    }
    qsort(ratios, ROUNDS, sizeof *ratios, is_before);
    for (int i = 0; i < 2; i++)
        qsort(taken[i], ROUNDS, sizeof **taken, is_before);
    static const char *const names[] = { "float32", "float16", "bfloat16", "uint8" };
    printf("| %d x %d | %s | %s | %.1f | %.1f | %.2f |\n", side, side, names[dtype], nhwc ? "NHWC" : "NCHW",
           1e6 * taken[0][ROUNDS / 2] / times, 1e6 * taken[1][ROUNDS / 2] / times, ratios[ROUNDS / 2]);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static const int sides[] = { 28, 32, 40, 224, 299, 300 };
    bench_fn *run[2];
    for (int i = 0; i < 2; i++) {
        void *library = argc > 2 ? dlopen(argv[1 + i], RTLD_NOW | RTLD_LOCAL) : NULL;
        void *found = library ? dlsym(library, "bench_rows") : NULL;
        if (!found)
            return fprintf(stderr, "bench_rows: %s\n", argc > 2 ? dlerror() : "two libraries"), 1;
        *(void **)&run[i] = found;
    }
    puts("| output | type | layout | before, us | after, us | before / after |\n|---|---|---|---|---|---|");
    for (size_t s = 0; s < sizeof sides / sizeof *sides; s++)
        for (int k = 0; k < 4; k++)
            compare(run, sides[s], k & 1 ? 3 : 0, k >> 1);
    return 0;
}
#endif
