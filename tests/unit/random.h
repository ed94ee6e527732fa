/* random.h - what tests of the kernels draw: numbers, and where a crop lies. Include after benzina_kernels.cu. */
#ifndef BENZINA_TEST_RANDOM_H
#define BENZINA_TEST_RANDOM_H

static uint64_t random_state = 1;

static uint32_t random_u32(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    uint32_t x = (uint32_t)(random_state >> 32);
    x ^= x >> 15;
    x *= 0x2c1b3c6du;
    return x ^ x >> 13;
}

static int32_t random_int(int32_t lo, int32_t hi) { return lo + (int32_t)(random_u32() % (uint32_t)(hi - lo + 1)); }
static double  random_real(double lo, double hi)  { return lo + (hi - lo) * (random_u32() / 4294967296.0); }

/* Any jitter whose contrast is about no mean. */
__attribute__((unused)) static void random_jitter(bzi_kernel_slot *slot)
{
    static const float most[3] = { 6, 255, 1 };
    slot->flags |= BZI_KERNEL_JITTER | (random_u32() & (BZI_KERNEL_SWAP | BZI_KERNEL_SHIFT | BZI_KERNEL_HUE));
    for (int i = 0; i < 3; i++)
        slot->hls[i] = random_int(0, 2) ? (float)random_real(-1, 1) * most[i] : 0.0f;
    slot->round = random_int(0, 1) ? 6.0f : 0.0f;
    slot->brightness = (float)random_real(0, 2);
    slot->contrast = (float)random_real(0, 3);
    slot->offset = (float)random_real(-200, 100);
    slot->saturation = (float)random_real(0, 2);
    slot->hue = (float)random_real(-3, 3);
    slot->vivid = random_int(0, 2) ? 1.0f : 0.0f;
}

/* A crop, perhaps mirrored, perhaps reaching beyond the picture, scaled to the output. */
__attribute__((unused)) static void random_crop(bzi_kernel_slot *slot, int32_t width, int32_t height)
{
    double w = slot->x1 - slot->x0 + 1, h = slot->y1 - slot->y0 + 1, crop_w = w * random_real(0.05, 1.5),
           crop_h = h * random_real(0.05, 1.5);
    double x = (w - crop_w) * random_real(-0.2, 1.2), y = (h - crop_h) * random_real(-0.2, 1.2), sx = crop_w / width,
           sy = crop_h / height;
    int flip_x = random_int(0, 1), flip_y = random_int(0, 1);
    const double m[9] = { flip_x ? -sx : sx, 0, flip_x ? x + crop_w - sx / 2 - 0.5 : x + sx / 2 - 0.5,
                          0, flip_y ? -sy : sy, flip_y ? y + crop_h - sy / 2 - 0.5 : y + sy / 2 - 0.5, 0, 0, 1 };
    for (int i = 0; i < 9; i++)
        slot->h[i] = (float)m[i];
}

#endif
