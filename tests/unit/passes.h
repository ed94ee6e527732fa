/* passes.h - operations by the functions that a GPU's thread calls: what the loops of the CPU are compared with, and
 * what the fake driver launches. Include after benzina_kernels.cu. */
#ifndef BENZINA_TEST_PASSES_H
#define BENZINA_TEST_PASSES_H

/* A pass by one thread, which is all of its block, and that all of the grid. */
static void pass_plain(const bzi_kernel_pass *pass, const bzi_kernel_output *out)
{
    const bzi_kernel_thread all = { 0, 0, 1, 1 };
    uint32_t shared[3 * BZI_KERNEL_TABLE];
    const bzi_kernel_block block = { shared, 0, 1, 0, 1 };
    bzi_kernel_pass_thread(pass, out, all, block);
}
#endif
