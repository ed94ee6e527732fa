/* test_resampling.c - filters as settings, and what decoders ask about a warp: which rows it reads, and what becomes of
 * it when they shrink. The arithmetic itself is test_kernels.c's. */
#include "library.h"
#include "test.h"
#include "random.h"

enum { EDGE = 40, PIXELS = 3 * EDGE * EDGE };

/* A planar picture of noise with Cb and Cr, or gray; the picture is the frame, or a part of it. */
static bzi_kernel_slot slot_make(uint8_t planes[3][EDGE * EDGE], int32_t width, int32_t height, float *dst)
{
    bzi_kernel_slot slot;
    memset(&slot, 0, sizeof slot);
    slot.shift_x = random_int(0, 2);
    slot.shift_y = random_int(0, 2);
    for (int p = 0; p < 3; p++) {
        slot.plane[p] = p && random_state % 7 == 0 ? 0 : (uint64_t)(uintptr_t)planes[p];
        slot.pitch[p] = EDGE;
        slot.step[p] = 1;
    }
    slot.x1 = random_int(0, EDGE - 1);
    slot.y1 = random_int(0, EDGE - 1);
    slot.x0 = random_int(0, slot.x1);
    slot.y0 = random_int(0, slot.y1);
    slot.left = random_int(0, 1);
    slot.top = random_int(0, 1);
    slot.depth = 8;
    slot.filter = (uint32_t)random_int(0, 6);
    slot.antialias = slot.filter != BZNA_FILTER_AREA && random_int(0, 2) == 0;
    bzi_kernel_rgb_matrix(0.299, 0.114, 1, 8, slot.rgb);
    for (int c = 0; c < 3; c++)
        slot.scale[c] = 1.0f;
    slot.dst = (uint64_t)(uintptr_t)dst;
    random_crop(&slot, width, height);
    slot.h[8] = 1.0f;
    return slot;
}

static void turn(float h[9])
{
    h[1] = h[0];
    h[3] = h[4];
    h[0] = h[4] = 0;
}

/* A slot of random samples. kind: 0 axis-aligned; 1 turned by 90 degrees; else sheared. */
static bzi_kernel_slot slot_of_kind(int kind, uint8_t planes[3][EDGE * EDGE], int32_t width, int32_t height, float *dst)
{
    for (int k = 0; k < 3 * EDGE * EDGE; k++)
        planes[k % 3][k / 3] = (uint8_t)random_u32();
    bzi_kernel_slot slot = slot_make(planes, width, height, dst);
    if (kind == 1)
        turn(slot.h);
    for (int k = 0; kind >= 2 && k < 2; k++)
        slot.h[1 + 2 * k] += (float)random_real(-0.5, 0.5);
    return slot;
}

/* Other bytes from a row of luma on, and from chroma's row that lies there. */
static void overwrite(uint8_t planes[3][EDGE * EDGE], const bzi_kernel_slot *slot, int32_t row, uint8_t change)
{
    for (int p = 0; p < 3; p++) {
        const int32_t first = p ? ((row - 1) >> slot->shift_y) + 1 : row;
        for (int32_t i = (first > 0 ? first : 0) * EDGE; i < EDGE * EDGE; i++)
            planes[p][i] ^= change;
    }
}

TEST(rows_behind_the_last_one_change_no_bit_and_the_last_one_does)
{
    static uint8_t planes[3][EDGE * EDGE];
    static float before[PIXELS], after[PIXELS];
    int wrong = 0, exact = 0, none = 0, aligned = 0;
    random_state = 41;
    for (int i = 0; i < 3000; i++) {
        const int32_t width = random_int(1, 12), height = random_int(1, 12);
        bzi_kernel_slot slot = slot_of_kind(i % 4, planes, width, height, before);
        const bzi_kernel_output out = { width, height, (int64_t)width * height, width, 1, 0, 3, 0 };
        for (int k = 0; i % 4 == 3 && k < 2; k++)
            slot.h[6 + k] += (float)random_real(-0.02, 0.02);
        const int32_t last = bzi_slot_rows(&slot, &out).end - 1;
        CHECK(last >= -1 && last <= slot.y1);
        bzi_kernel_warp_plain(&slot, &out);
        overwrite(planes, &slot, last + 1, 0x55);
        slot.dst = (uint64_t)(uintptr_t)after;
        bzi_kernel_warp_plain(&slot, &out);
        wrong += memcmp(before, after, sizeof(float) * 3 * (size_t)(width * height)) != 0;
        none += last < 0;
        if (i % 4 >= 2 || last < 0)
            continue;
        overwrite(planes, &slot, last, 0x2a);
        bzi_kernel_warp_plain(&slot, &out);
        exact += memcmp(before, after, sizeof(float) * 3 * (size_t)(width * height)) != 0;
        aligned++;
    }
    CHECK_EQ(wrong, 0);
    CHECK(none > 20 && aligned > 1000);
    CHECK(exact * 100 >= aligned * 80);       /* the others have no column inside, or a weight of 0 there */
    printf("  %d of %d axis-aligned warps read the row itself; %d read none\n", exact, aligned, none);
}

/* Rows outside of a clip are read no more than those outside of the output. */
TEST(rows_outside_those_that_a_clip_keeps_change_no_bit)
{
    static uint8_t planes[3][EDGE * EDGE];
    static float before[PIXELS], after[PIXELS];
    int wrong = 0, fewer = 0;
    random_state = 43;
    for (int i = 0; i < 3000; i++) {
        const int32_t width = random_int(1, 12), height = random_int(1, 12);
        bzi_kernel_slot slot = slot_of_kind(i % 4, planes, width, height, before);
        const bzi_kernel_output out = { width, height, (int64_t)width * height, width, 1, 0, 3, 0 };
        const bzi_rows whole = bzi_slot_rows(&slot, &out);
        slot.flags |= BZI_KERNEL_CLIP;
        for (int k = 0; k < 2; k++) {
            slot.clip[4 * k] = (float)random_real(0.5, 1.5);
            slot.clip[1 + 2 * k] = i % 3 ? (float)random_real(-0.5, 0.5) : 0.0f;
            slot.clip[2 + 3 * k] = (float)random_real(-6, 6);
            slot.clip_last[k] = (float)random_int(0, 8);
        }
        const bzi_rows rows = bzi_slot_rows(&slot, &out);
        CHECK((rows.first >= whole.first && rows.end <= whole.end) || rows.end == 0);
        fewer += rows.end - rows.first < whole.end - whole.first;
        bzi_kernel_warp_plain(&slot, &out);
        overwrite(planes, &slot, rows.end, 0x55);
        for (int p = 0; p < 3; p++)
            memset(planes[p], 0x2a, (size_t)((rows.first >> (p ? slot.shift_y : 0)) * slot.pitch[p]));
        slot.dst = (uint64_t)(uintptr_t)after;
        bzi_kernel_warp_plain(&slot, &out);
        wrong += memcmp(before, after, sizeof(float) * 3 * (size_t)(width * height)) != 0;
    }
    CHECK_EQ(wrong, 0);
    CHECK(fewer > 800);
    printf("  %d of 3000 clips need fewer rows\n", fewer);
}

TEST(a_matrix_from_nowhere_has_some_last_row)
{
    static const float hostile[] = { 0, -0.0f, 1e30f, -3.4e38f, NAN, INFINITY, -INFINITY };
    static uint8_t planes[3][EDGE * EDGE];
    static float pixels[PIXELS];
    random_state = 42;
    for (int i = 0; i < 3000; i++) {
        bzi_kernel_slot slot = slot_make(planes, 5, 5, pixels);
        const bzi_kernel_output out = { 5, 5, 25, 5, 1, 0, 3, 0 };
        for (int k = random_int(1, 5); k > 0; k--)
            slot.h[random_int(0, i % 2 ? 8 : 5)] = hostile[random_u32() % COUNT(hostile)];
        const int32_t last = bzi_slot_rows(&slot, &out).end - 1;
        CHECK(last >= -1 && last <= slot.y1);
    }
}

TEST(a_picture_that_was_shrunk_while_decoding_shows_the_same)
{
    const double full[9] = { 3.5, 0.25, 7, -0.5, 2, 11, 0.0009765625, -0.001953125, 1.25 };
    for (uint32_t k = 1; k <= 8; k *= 2) {
        bzi_kernel_slot slot = { .x1 = 90, .y1 = 80 };
        const float *h = slot.h;
        for (int i = 0; i < 9; i++)
            slot.h[i] = (float)full[i];
        bzi_slot_shrink(&slot, k);
        CHECK_EQ(slot.x1, 90 / (int32_t)k);
        CHECK_EQ(slot.y1, 80 / (int32_t)k);
        for (int y = -3; y < 50; y += 7)
            for (int x = -5; x < 60; x += 5) {
                double w = full[6] * x + full[7] * y + full[8], v = (double)h[6] * x + (double)h[7] * y + (double)h[8];
                for (int row = 0; row < 6; row += 3) {
                    double expected = ((full[row] * x + full[row + 1] * y + full[row + 2]) / w + 0.5) / k - 0.5;
                    CHECK_NEAR(((double)h[row] * x + (double)h[row + 1] * y + (double)h[row + 2]) / v, expected, 1e-4);
                }
            }
    }
}

TEST_MAIN(
    RUN(rows_behind_the_last_one_change_no_bit_and_the_last_one_does)
    RUN(rows_outside_those_that_a_clip_keeps_change_no_bit)
    RUN(a_matrix_from_nowhere_has_some_last_row)
    RUN(a_picture_that_was_shrunk_while_decoding_shows_the_same))
