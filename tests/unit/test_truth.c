/* test_truth.c - operations and policies beside torchvision's, whose results are in augment.h: no torchvision is
 * needed. test_augment.py compares more where there is one. */
#include "library.h"
#include "../../examples/formats/formats.h"
#include "test.h"
#include "augment.h"

enum { PIXELS = AUGMENT_WIDTH * AUGMENT_HEIGHT, BYTES = 3 * PIXELS };

static uint8_t digit(char c)
{
    return (uint8_t)(c <= '9' ? c - '0' : c - 'a' + 10);
}

static void read_pixels(const char *text, uint8_t out[BYTES])
{
    for (int i = 0; i < BYTES; i++)
        out[i] = (uint8_t)(digit(text[2 * i]) << 4 | digit(text[2 * i + 1]));
}

/* What each of augment.h's names is here; by how many pixels of 1000 a result may differ, and by how much, for the
 * reason beside it. */
static const struct { const char *name; uint32_t kind; int of_1000, most; } kinds[] = {
    { "brightness", BZNA_OP_BRIGHTNESS, 0, 0 },
    { "saturation", BZNA_OP_SATURATION, 0, 0 },
    { "contrast", BZNA_OP_CONTRAST, 0, 0 },
    { "sharpness", BZNA_OP_SHARPNESS, 0, 0 },
    { "hue", BZNA_OP_HUE, 0, 0 },
    { "posterize", BZNA_OP_POSTERIZE, 0, 0 },
    { "solarize", BZNA_OP_SOLARIZE, 0, 0 },
    { "gamma", BZNA_OP_GAMMA, 25, 1 },          /* pow of float32 there, which is then truncated */
    { "invert", BZNA_OP_INVERT, 0, 0 },
    { "grayscale", BZNA_OP_GRAYSCALE, 0, 0 },
    { "autocontrast", BZNA_OP_AUTOCONTRAST, 0, 0 },
    { "equalize", BZNA_OP_EQUALIZE, 0, 0 },
    { "blur", BZNA_OP_BLUR, 5, 1 },             /* rows, then columns here; a square kernel there */
    { "erase", BZNA_OP_ERASE, 0, 0 }
};

static size_t kind_of(const char *name)
{
    size_t i = 0;

    while (i < COUNT(kinds) && strcmp(kinds[i].name, name))
        i++;
    return i;
}

static void render(const uint8_t *pixels, const bzna_drawn *drawn, uint8_t out[BYTES])
{
    bzna_picture picture = {
        .struct_size = sizeof picture, .width = AUGMENT_WIDTH, .height = AUGMENT_HEIGHT,
        .color = { .matrix = 0, .full_range = 1, .present = 1 },
        .plane = { pixels + 1, pixels + 2, pixels },
        .pitch = { 3 * AUGMENT_WIDTH, 3 * AUGMENT_WIDTH, 3 * AUGMENT_WIDTH },
        .step = { 3, 3, 3 }
    };
    bzna_output output = { .struct_size = sizeof output, .width = AUGMENT_WIDTH, .height = AUGMENT_HEIGHT,
                           .dtype = BZNA_DTYPE_UINT8, .layout = BZNA_LAYOUT_NHWC };
    bzna_transform transform;
    bzna_error err = { 0 };

    bzna_transform_init(&transform, sizeof transform);
    transform.operation_count = 1;
    transform.operations[0] = *drawn;
    if (bzna_picture_render(&picture, &transform, &output, out, BYTES, &err) != BZNA_OK)
        CHECK_STR(err.message, "");
}

TEST(each_operation_makes_what_torchvision_makes)
{
    for (size_t i = 0; i < COUNT(augment_cases); i++) {
        uint8_t input[BYTES], expected[BYTES], made[BYTES] = { 0 };
        const double *numbers = augment_cases[i].numbers;
        size_t k = kind_of(augment_cases[i].name);
        int different = 0, most = 0;

        REQUIRE(k < COUNT(kinds));
        bzna_drawn drawn = { .kind = kinds[k].kind, .magnitude = (float)numbers[0] };
        if (kinds[k].kind == BZNA_OP_BLUR) {
            drawn.kernel_px = (uint32_t)numbers[0];
            drawn.magnitude = (float)numbers[1];
        }
        if (kinds[k].kind == BZNA_OP_ERASE)
            for (int j = 0; j < 4; j++)
                drawn.area[j] = (int32_t)numbers[j] + (j > 1 ? (int32_t)numbers[j - 2] : 0);
        read_pixels(augment_pictures[augment_cases[i].picture], input);
        read_pixels(augment_cases[i].pixels, expected);
        render(input, &drawn, made);
        for (int j = 0; j < BYTES; j++) {
            int apart = abs(made[j] - expected[j]);
            different += apart > 0;
            most = apart > most ? apart : most;
        }
        if (1000 * different > kinds[k].of_1000 * BYTES || most > kinds[k].most) {
            printf("  %s %g %g of picture %d: %d of %d differ, by up to %d\n", augment_cases[i].name, numbers[0],
                   numbers[1], augment_cases[i].picture, different, BYTES, most);
            CHECK(0);
        }
    }
}

/* ---- Policies ---------------------------------------------------------------------------------------------------- */

/* An operation's name in torchvision's tables, and what its magnitudes are multiplied by to be those of a picture of
 * 224 x 200. */
static const char *torchvision_name(uint32_t kind, double *times)
{
    *times = kind == BZNA_OP_TRANSLATE_X ? 224 : kind == BZNA_OP_TRANSLATE_Y ? 200 : 1;
    switch (kind) {
    case BZNA_OP_IDENTITY: return "Identity";
    case BZNA_OP_SHEAR_X: return "ShearX";
    case BZNA_OP_SHEAR_Y: return "ShearY";
    case BZNA_OP_TRANSLATE_X: case BZNA_OP_TRANSLATE_X_PX: return "TranslateX";
    case BZNA_OP_TRANSLATE_Y: case BZNA_OP_TRANSLATE_Y_PX: return "TranslateY";
    case BZNA_OP_ROTATE: return "Rotate";
    case BZNA_OP_BRIGHTNESS: return "Brightness";
    case BZNA_OP_SATURATION: return "Color";
    case BZNA_OP_CONTRAST: return "Contrast";
    case BZNA_OP_SHARPNESS: return "Sharpness";
    case BZNA_OP_POSTERIZE: return "Posterize";
    case BZNA_OP_SOLARIZE: return "Solarize";
    case BZNA_OP_AUTOCONTRAST: return "AutoContrast";
    case BZNA_OP_EQUALIZE: return "Equalize";
    case BZNA_OP_INVERT: return "Invert";
    default: return "";
    }
}

/* The magnitude of one of `bins` that are evenly spaced, as a picture of 224 x 200 has it. */
static double magnitude_of(const bzna_operation *o, uint32_t bin, uint32_t bins)
{
    double times, share = bins > 1 ? (double)bin / (bins - 1) : 0;

    torchvision_name(o->kind, &times);
    share = (o->magnitude[0] + (o->magnitude[1] - (double)o->magnitude[0]) * share) * times;
    return o->kind == BZNA_OP_POSTERIZE ? rint(share) : share;
}

TEST(rand_augment_has_torchvisions_table)
{
    bzna_policy policy = { 0 };

    REQUIRE(bzna_formats_policy_preset(BZNA_PRESET_RAND_AUGMENT, 2, 9, &policy, NULL) == BZNA_OK);
    CHECK_EQ(policy.apply, BZNA_POLICY_CHOOSE);
    CHECK_EQ(policy.draws, 2);
    CHECK_EQ(policy.bins, 31);
    CHECK_EQ(policy.bin[0], 9);
    CHECK_EQ(policy.bin[1], 9);
    REQUIRE(policy.operation_count == COUNT(augment_rand));
    for (uint32_t i = 0; i < policy.operation_count; i++) {
        const bzna_operation *o = &policy.operations[i];
        double times;

        CHECK_STR(torchvision_name(o->kind, &times), augment_rand[i].name);
        CHECK_EQ(o->sign, (uint32_t)augment_rand[i].is_signed);
        for (uint32_t bin = 0; augment_rand[i].has_magnitude && bin < 31; bin++)
            CHECK_NEAR(magnitude_of(o, bin, 31), augment_rand[i].magnitudes[bin], 2e-5 * (1 + times));
    }
}

TEST(trivial_augment_wide_has_torchvisions_table)
{
    bzna_policy policy = { 0 };

    REQUIRE(bzna_formats_policy_preset(BZNA_PRESET_TRIVIAL_WIDE, 0, 0, &policy, NULL) == BZNA_OK);
    CHECK_EQ(policy.apply, BZNA_POLICY_CHOOSE);
    CHECK(policy.draws <= 1);
    CHECK_EQ(policy.bins, 31);
    CHECK_EQ(policy.bin[0], 0);
    CHECK_EQ(policy.bin[1], 30);
    REQUIRE(policy.operation_count == COUNT(augment_trivial));
    for (uint32_t i = 0; i < policy.operation_count; i++) {
        const bzna_operation *o = &policy.operations[i];
        double times;

        CHECK_STR(torchvision_name(o->kind, &times), augment_trivial[i].name);
        CHECK_EQ(times, 1);                                     /* its translations are in pixels */
        CHECK_EQ(o->sign, (uint32_t)augment_trivial[i].is_signed);
        for (uint32_t bin = 0; augment_trivial[i].has_magnitude && bin < 31; bin++)
            CHECK_NEAR(magnitude_of(o, bin, 31), augment_trivial[i].magnitudes[bin], 4e-5);
    }
}

/* The row of AutoAugment's space that has an operation's magnitudes. */
static size_t auto_row(const char *name)
{
    size_t i = 0;

    while (i < COUNT(augment_auto_space) && strcmp(augment_auto_space[i].name, name))
        i++;
    return i;
}

TEST(auto_augment_has_torchvisions_table)
{
    bzna_policy policy = { 0 };

    REQUIRE(bzna_formats_policy_preset(BZNA_PRESET_AUTO_IMAGENET, 0, 0, &policy, NULL) == BZNA_OK);
    CHECK_EQ(policy.apply, BZNA_POLICY_CHOOSE);
    CHECK(policy.draws <= 1);
    CHECK_EQ(policy.group_size, 2);
    REQUIRE(policy.operation_count == 2 * COUNT(augment_auto));
    for (uint32_t i = 0; i < policy.operation_count; i++) {
        const bzna_operation *o = &policy.operations[i];
        const char *name = augment_auto[i / 2].name[i % 2];
        double probability = augment_auto[i / 2].probability[i % 2], times;
        int bin = augment_auto[i / 2].bin[i % 2];
        size_t row = auto_row(name);

        REQUIRE(row < COUNT(augment_auto_space));
        if (probability == 0) {                                 /* which would count as 1 */
            CHECK_EQ(o->kind, BZNA_OP_IDENTITY);
            continue;
        }
        CHECK_STR(torchvision_name(o->kind, &times), name);
        CHECK_NEAR(o->probability == 0 ? 1 : (double)o->probability, probability, 1e-6);
        CHECK_EQ(o->sign, (uint32_t)augment_auto_space[row].is_signed);
        if (bin >= 0) {                                         /* both ends are the one magnitude, or the space's */
            uint32_t bins = policy.bins ? policy.bins : 1;
            CHECK_NEAR(magnitude_of(o, bins > 1 ? (uint32_t)bin : 0, bins),
                       augment_auto_space[row].magnitudes[bin], 2e-4);
        }
    }
}

TEST_MAIN(
    RUN(each_operation_makes_what_torchvision_makes)
    RUN(rand_augment_has_torchvisions_table)
    RUN(trivial_augment_wide_has_torchvisions_table)
    RUN(auto_augment_has_torchvisions_table)
)
