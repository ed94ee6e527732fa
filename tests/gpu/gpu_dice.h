/* gpu_dice.h - random slots for the kernels, for gpu_check.c and gpu_bench.c: any size, format, matrix, output. Include
 * after benzina.c. */
#ifndef BENZINA_TEST_GPU_DICE_H
#define BENZINA_TEST_GPU_DICE_H

static uint64_t dice_state = 1;

static uint32_t dice(uint32_t sides)
{
    dice_state = dice_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(dice_state >> 33) % sides;
}

static float dice_real(double lo, double hi) { return (float)(lo + (hi - lo) * dice(1 << 24) / (1 << 24)); }

enum { ARENA = 1 << 20 };             /* bytes for a slot's planes, and for its output */

/* A slot over an arena of random bytes. base: what its addresses begin with. */
static void dice_slot(bzi_kernel_slot *slot, uint64_t base, uint8_t *arena, uint32_t out_width, uint32_t out_height)
{
    static const uint32_t depths[4] = { 8, 10, 12, 16 };
    int32_t width = 1 + (int32_t)dice(300), height = 1 + (int32_t)dice(300), nv12 = dice(2) != 0;
    uint32_t chroma = nv12 ? 1 : dice(4), kind = dice(8);
    float sx = (float)width / (float)out_width, sy = (float)height / (float)out_height;
    memset(slot, 0, sizeof *slot);
    slot->depth = (int32_t)(dice(2) ? 8 : depths[dice(4)]);
    int32_t bytes = slot->depth > 8 ? 2 : 1, cw = (width + 1) / 2,
            pitch = ((nv12 ? 2 * cw : width) * bytes + (int32_t)dice(40) + 1) & ~1;
    slot->low_zeros = slot->depth > 8 && dice(2) ? 16 - slot->depth : 0;
    slot->shift_x = chroma == 1 || chroma == 2;
    slot->shift_y = chroma == 1;
    slot->left = (int32_t)dice(2);
    slot->top = (int32_t)dice(2);
    for (int i = 0; i < 3; i++) {
        slot->pitch[i] = pitch;
        slot->step[i] = i && nv12 ? 2 * bytes : bytes;
        slot->plane[i] = base + (uint64_t)(i * (pitch * (height + 1)));
    }
    if (nv12)
        slot->plane[2] = slot->plane[1] + (uint64_t)bytes;
    if (chroma == 0)
        slot->plane[1] = slot->plane[2] = 0;
    for (int32_t i = 0; i < 3 * pitch * (height + 1); i += bytes) {
        uint16_t value = (uint16_t)(dice(1u << slot->depth) << slot->low_zeros);
        memcpy(arena + i, &value, (size_t)bytes);
    }
    slot->x0 = (int32_t)dice((uint32_t)width);
    slot->y0 = (int32_t)dice((uint32_t)height);
    slot->x1 = slot->x0 + (int32_t)dice((uint32_t)(width - slot->x0));
    slot->y1 = slot->y0 + (int32_t)dice((uint32_t)(height - slot->y0));
    if (dice(20) == 0)
        slot->x1 = slot->x0 - 1;                            /* an empty picture */
    float h[9] = { 1, 0, 0, 0, 1, 0, 0, 0, 1 };
    if (kind > 0) {
        h[0] = sx * dice_real(-2, 2);
        h[4] = sy * dice_real(-2, 2);
        h[2] = dice_real(-40, 40);
        h[5] = dice_real(-40, 40);
    }
    if (kind > 3) {
        h[1] = dice_real(-1, 1);
        h[3] = dice_real(-1, 1);
    }
    if (kind > 5) {
        h[6] = dice_real(-0.01, 0.01);
        h[7] = dice_real(-0.01, 0.01);
        h[8] = dice_real(-1, 1);
    }
    if (dice(16) == 0)
        h[dice(9)] = dice(2) ? (float)NAN : dice(2) ? (float)INFINITY : 1e30f;
    memcpy(slot->h, h, sizeof h);
    bzi_kernel_rgb_matrix(0.299, 0.114, (int)dice(2), slot->depth, slot->rgb);
    slot->flags = dice(4);
    for (int i = 0; i < 12; i++)
        slot->color[i] = dice_real(-1, 1) + (i % 5 == 0 ? 1.0f : 0.0f);
    for (int i = 0; i < 3; i++) {
        slot->bias[i] = dice_real(-200, 200);
        slot->scale[i] = dice_real(-0.1, 0.1);
        slot->fill[i] = dice_real(-5, 5);
    }
}

static bzi_kernel_output dice_output(void)
{
    uint32_t width = 1 + dice(180), height = 1 + dice(180);
    const bzna_output output = { .width = width, .height = height, .dtype = dice(4), .channels = dice(4) ? 0 : 2,
                                 .layout = dice(3) ? BZNA_LAYOUT_NCHW : BZNA_LAYOUT_NHWC };
    return bzi_output_make(&output);
}
#endif
