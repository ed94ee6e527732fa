/* policies.c - policies of augmentations that are well known, as torchvision 0.29 has them
 *
 * A policy is a list of operations, which the library draws from. These lists are constants.
 *
 * It needs data.c. */
#include "data.h"

#include <string.h>

#define SIZED(kind_, sign_, from, to) { .kind = BZNA_OP_##kind_, .sign = sign_, .magnitude = { from, to } }

/* The operations of RandAugment and of TrivialAugment, with their largest magnitudes. */
#define CHOICES(shear, move, distance, degrees, color, bits) \
    { { .kind = BZNA_OP_IDENTITY }, SIZED(SHEAR_X, 1, 0, shear), SIZED(SHEAR_Y, 1, 0, shear), \
      SIZED(TRANSLATE_X##move, 1, 0, distance), SIZED(TRANSLATE_Y##move, 1, 0, distance), \
      SIZED(ROTATE, 1, 0, degrees), SIZED(BRIGHTNESS, 1, 0, color), SIZED(SATURATION, 1, 0, color), \
      SIZED(CONTRAST, 1, 0, color), SIZED(SHARPNESS, 1, 0, color), SIZED(POSTERIZE, 0, 8, bits), \
      SIZED(SOLARIZE, 0, 255, 0), { .kind = BZNA_OP_AUTOCONTRAST }, { .kind = BZNA_OP_EQUALIZE } }

static const bzna_operation rand_augment[] = CHOICES(0.3f, , 150.0f / 331, 30, 0.9f, 4);
static const bzna_operation trivial_wide[] = CHOICES(0.99f, _PX, 32, 135, 0.99f, 2);

/* Operations of AutoAugment, with their probability, and one of 10 magnitudes. */
#define AUTO(kind_, sign_, p, value) { .kind = BZNA_OP_##kind_, .sign = sign_, .probability = p, \
                                       .magnitude = { value, value } }
#define AUTO_POSTERIZE(p, bits) AUTO(POSTERIZE, 0, p, bits)
#define AUTO_SOLARIZE(p, bin)   AUTO(SOLARIZE, 0, p, 255 - 255 * bin / 9.0f)
#define AUTO_ROTATE(p, bin)     AUTO(ROTATE, 1, p, 30 * bin / 9.0f)
#define AUTO_COLOR(p, bin)      AUTO(SATURATION, 1, p, 0.9f * bin / 9)
#define AUTO_CONTRAST(p, bin)   AUTO(CONTRAST, 1, p, 0.9f * bin / 9)
#define AUTO_SHARPNESS(p, bin)  AUTO(SHARPNESS, 1, p, 0.9f * bin / 9)
#define AUTO_SHEAR_X(p, bin)    AUTO(SHEAR_X, 1, p, 0.3f * bin / 9)
#define AUTO_PLAIN(kind_, p)    { .kind = BZNA_OP_##kind_, .probability = p }

static const bzna_operation auto_imagenet[] = {
    AUTO_POSTERIZE(0.4f, 4), AUTO_ROTATE(0.6f, 9),
    AUTO_SOLARIZE(0.6f, 5), AUTO_PLAIN(AUTOCONTRAST, 0.6f),
    AUTO_PLAIN(EQUALIZE, 0.8f), AUTO_PLAIN(EQUALIZE, 0.6f),
    AUTO_POSTERIZE(0.6f, 5), AUTO_POSTERIZE(0.6f, 5),
    AUTO_PLAIN(EQUALIZE, 0.4f), AUTO_SOLARIZE(0.2f, 4),
    AUTO_PLAIN(EQUALIZE, 0.4f), AUTO_ROTATE(0.8f, 8),
    AUTO_SOLARIZE(0.6f, 3), AUTO_PLAIN(EQUALIZE, 0.6f),
    AUTO_POSTERIZE(0.8f, 6), AUTO_PLAIN(EQUALIZE, 1),
    AUTO_ROTATE(0.2f, 3), AUTO_SOLARIZE(0.6f, 8),
    AUTO_PLAIN(EQUALIZE, 0.6f), AUTO_POSTERIZE(0.4f, 5),
    AUTO_ROTATE(0.8f, 8), AUTO_COLOR(0.4f, 0),
    AUTO_ROTATE(0.4f, 9), AUTO_PLAIN(EQUALIZE, 0.6f),
    AUTO_PLAIN(IDENTITY, 1), AUTO_PLAIN(EQUALIZE, 0.8f),      /* the first is an EQUALIZE of probability 0 */
    AUTO_PLAIN(INVERT, 0.6f), AUTO_PLAIN(EQUALIZE, 1),
    AUTO_COLOR(0.6f, 4), AUTO_CONTRAST(1, 8),
    AUTO_ROTATE(0.8f, 8), AUTO_COLOR(1, 2),
    AUTO_COLOR(0.8f, 8), AUTO_SOLARIZE(0.8f, 7),
    AUTO_SHARPNESS(0.4f, 7), AUTO_PLAIN(INVERT, 0.6f),
    AUTO_SHEAR_X(0.6f, 5), AUTO_PLAIN(EQUALIZE, 1),
    AUTO_COLOR(0.4f, 0), AUTO_PLAIN(EQUALIZE, 0.6f),
    AUTO_PLAIN(EQUALIZE, 0.4f), AUTO_SOLARIZE(0.2f, 4),
    AUTO_SOLARIZE(0.6f, 5), AUTO_PLAIN(AUTOCONTRAST, 0.6f),
    AUTO_PLAIN(INVERT, 0.6f), AUTO_PLAIN(EQUALIZE, 1),
    AUTO_COLOR(0.6f, 4), AUTO_CONTRAST(1, 8),
    AUTO_PLAIN(EQUALIZE, 0.8f), AUTO_PLAIN(EQUALIZE, 0.6f),
};

bzna_status bzna_formats_policy_preset(uint32_t preset, uint32_t draws, uint32_t magnitude, bzna_policy *policy,
                                       bzna_error *err)
{
    const int is_rand = preset == BZNA_PRESET_RAND_AUGMENT;
    bzna_error e;

    bzna_error_init(&e, sizeof e);
    if (!policy || preset > BZNA_PRESET_AUTO_IMAGENET || draws > (is_rand ? BZNA_OPERATIONS_MAX : 0) ||
        magnitude > (is_rand ? 30 : 0)) {
        DATA_FAIL(&e, BZNA_E_ARGUMENT, policy ? "there is no preset %u of %u draws and magnitude %u" : "policy is NULL",
                  preset, draws, magnitude);
        return bzna_formats_data_return(err, &e);
    }

    memset(policy, 0, sizeof *policy);
    policy->apply = BZNA_POLICY_CHOOSE;
    if (preset == BZNA_PRESET_AUTO_IMAGENET) {
        policy->operations = auto_imagenet;
        policy->operation_count = sizeof auto_imagenet / sizeof *auto_imagenet;
        policy->group_size = 2;
        return BZNA_OK;
    }

    policy->operations = is_rand ? rand_augment : trivial_wide;
    policy->operation_count = sizeof rand_augment / sizeof *rand_augment;
    policy->draws = !is_rand ? 1 : draws ? draws : 2;
    policy->bins = 31;
    policy->bin[0] = magnitude;
    policy->bin[1] = is_rand ? magnitude : 30;
    return BZNA_OK;
}
