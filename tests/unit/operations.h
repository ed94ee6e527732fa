/* operations.h - any operations of a transform, for tests. Include after benzina.c and random.h. */
#ifndef BENZINA_TEST_OPERATIONS_H
#define BENZINA_TEST_OPERATIONS_H

static const uint32_t pixel_kinds[] = {
    BZNA_OP_BRIGHTNESS, BZNA_OP_CONTRAST, BZNA_OP_SATURATION, BZNA_OP_HUE, BZNA_OP_GAMMA, BZNA_OP_POSTERIZE,
    BZNA_OP_SOLARIZE, BZNA_OP_SOLARIZE_ADD, BZNA_OP_INVERT, BZNA_OP_GRAYSCALE, BZNA_OP_LIGHTING, BZNA_OP_SHUFFLE,
    BZNA_OP_AUTOCONTRAST, BZNA_OP_EQUALIZE, BZNA_OP_SHARPNESS, BZNA_OP_BLUR
};

/* Any operation of a kind, on an output of that size. */
static bzna_drawn any_drawn(uint32_t kind, int32_t width, int32_t height)
{
    static const float orders[4][3] = { { 1, 2, 0 }, { 2, 1, 0 }, { 1, 0, 2 }, { 2, 0, 1 } };
    const float least = bzi_op_ranges[kind][0], limit = bzi_op_ranges[kind][1];
    bzna_drawn d = { .kind = kind, .key = { random_u32(), random_u32() } };
    const float most = limit < 3 ? limit : kind == BZNA_OP_SOLARIZE_ADD ? 255 : kind >= BZNA_OP_POSTERIZE &&
                       kind <= BZNA_OP_SOLARIZE ? limit : 3;
    d.magnitude = (float)random_real(least > 0 ? 0.2 : least, most);
    if (kind == BZNA_OP_BLUR)
        d.kernel_px = (uint32_t)random_int(0, 31) * 2 + 1;
    for (int i = 0; i < 3; i++)
        d.value[i] = kind == BZNA_OP_SHUFFLE ? orders[d.key[0] % 4][i] : (float)random_real(-60, 200);
    if (kind >= BZNA_OP_ERASE) {
        d.area[0] = random_int(0, width - 1);
        d.area[1] = random_int(0, height - 1);
        d.area[2] = kind == BZNA_OP_GRID_MASK ? random_int(0, 20) : random_int(d.area[0], width);
        d.area[3] = kind == BZNA_OP_GRID_MASK ? random_int(0, d.area[2]) : random_int(d.area[1], height);
        d.noise = random_int(0, 1) ? 20.0f : 0.0f;
        d.value_space = (uint32_t)random_int(0, 1);
    }
    return d;
}

static bzna_transform any_operations(uint32_t count, int32_t width, int32_t height)
{
    bzna_transform t;
    bzna_transform_init(&t, sizeof t);
    for (int i = 0; i < 3; i++) {
        t.bias[i] = (float)random_real(0, 200);
        t.scale[i] = (float)random_real(-1, 1);
    }
    t.operation_count = count;
    for (uint32_t i = 0; i < count; i++)
        t.operations[i] = any_drawn(random_int(0, 7) ? pixel_kinds[(size_t)random_int(0, COUNT(pixel_kinds) - 1)] :
                                                       BZNA_OP_ERASE + (uint32_t)random_int(0, 2), width, height);
    return t;
}
#endif
