/* weighted.c - weighted orders: fills the list of an epoch, for a loader with BZNA_ORDER_GIVEN
 *
 * A list depends on seed and epoch alone, so that a run that goes on draws the same samples as before.
 *
 * It needs data.c. */
#include "data.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Logarithms differ in the last bit from one libm to another, and so would drawn orders if two keys are close. With a
 * fused multiply-add they would, too: the Makefile compiles with -ffp-contract=off, as benzina.c is. */
#if defined(__clang__)
#  pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#  pragma GCC optimize ("-ffp-contract=off")
#endif

/* A sample, or a part of a concatenation with its samples: it has one weight. */
typedef struct group {
    uint64_t begin, end;              /* its first sample, and the one after its last */
    double   sum;                     /* of its weight and those before, rounded: the smallest weights are lost */
} group;

/* What is drawn from. */
typedef struct draws {
    bzna_formats_weights w;
    uint64_t samples;                 /* of the data set, or of w.indices */
    group   *groups;                  /* w.weight_count of them */
    uint64_t count;                   /* draws in an epoch */
} draws;

/* A sample of a draw without replacement. */
typedef struct ranked {
    double   key;                     /* samples with the smallest keys come first */
    uint64_t sample;                  /* of equal keys the smaller number comes first */
} ranked;

/* ---- Checks --------------------------------------------------------------------------------- */

void bzna_formats_weights_init(bzna_formats_weights *weights, size_t struct_size)
{
    bzna_formats_data_init(weights, struct_size);
}

/* Completes the caller's struct, and checks it. */
static bzna_status take(draws *d, const bzna_dataset *dataset, const bzna_formats_weights *weights, bzna_error *err)
{
    bzna_formats_weights *w = &d->w;
    bzna_dataset_info info;
    uint64_t groups;

    if (bzna_formats_data_copy(w, sizeof *w, weights, "formats_weights", err) != BZNA_OK ||
        bzna_dataset_get_info(dataset, &info, sizeof info, err) != BZNA_OK)
        return err->status;
    d->samples = w->indices ? w->index_count : info.sample_count;
    groups = w->by_part ? info.part_count : d->samples;
    if (w->reserved0)
        return DATA_FAIL(err, BZNA_E_STRUCT_SIZE, "formats_weights.reserved0: a reserved word must be 0");
    if (w->weighting > BZNA_WEIGHTING_ONCE)
        return DATA_MISUSE(err, "formats_weights.weighting: %u is not in 0..2", w->weighting);
    if (w->by_part > 1 || (w->by_part && w->indices))
        return DATA_MISUSE(err, "formats_weights.by_part: it is 0 or 1, and not together with indices");
    if (!w->indices != !w->index_count)
        return DATA_MISUSE(err, "formats_weights.indices, index_count: give both or none");
    if (!w->weights || w->weight_count != groups)
        return DATA_MISUSE(err, "formats_weights.weights, weight_count: %llu weights for %llu %s",
                           (data_llu)w->weight_count, (data_llu)groups, w->by_part ? "parts" : "samples");
    return BZNA_OK;
}

static void *allocate(uint64_t count, size_t size, bzna_error *err)
{
    void *const memory = count < SIZE_MAX / size ? malloc((size_t)(count + 1) * size) : NULL;

    if (!memory)
        bzna_formats_data_no_memory(err);
    return memory;
}

/* Makes the groups, whose weights it checks and adds up, and counts the draws of an epoch. */
static bzna_status add_up(draws *d, const bzna_dataset *dataset, bzna_error *err)
{
    const bzna_formats_weights *w = &d->w;
    uint64_t positive = 0, end = 0;
    double sum = 0;

    if (!(d->groups = allocate(w->weight_count, sizeof *d->groups, err)))
        return err->status;
    for (uint64_t i = 0; i < w->weight_count; i++) {
        const uint64_t size = w->by_part ? bzna_dataset_part_count(dataset, (uint32_t)i) : 1;
        const double weight = w->weights[i];

        if (!isfinite(weight) || weight < 0)
            return DATA_MISUSE(err, "formats_weights.weights[%llu]: %g is negative or not a number",
                               (data_llu)i, weight);
        positive += weight > 0 ? size : 0;
        sum += weight;
        d->groups[i] = (group){ .begin = end, .end = end + size, .sum = sum };
        end += size;
    }

    if (!(sum > 0) || !isfinite(sum))
        return DATA_MISUSE(err, "formats_weights.weights: their sum is %g", sum);
    if (w->weighting == BZNA_WEIGHTING_ONCE && w->epoch_samples > positive)
        return DATA_MISUSE(err, "formats_weights.epoch_samples: %llu draws without replacement from "
                           "%llu samples with a weight", (data_llu)w->epoch_samples, (data_llu)positive);
    d->count = w->epoch_samples ? w->epoch_samples : w->weighting == BZNA_WEIGHTING_ONCE ? positive : d->samples;
    return BZNA_OK;
}

/* ---- With replacement ----------------------------------------------------------------------- */

/* Draws the sample at one position. The position is the counter of the random numbers. */
static uint64_t draw(const draws *d, uint64_t epoch, uint64_t position)
{
    uint64_t low = 0, high = d->w.weight_count - 1, sample;
    bzna_random random;
    double u;

    bzna_random_init(&random, d->w.seed, epoch, position, BZNA_RANDOM_ORDER);
    u = bzna_random_uniform(&random, 0, d->groups[high].sum);
    while (low < high) {                                    /* the first group whose sum is above u */
        const uint64_t middle = low + (high - low) / 2;
        if (d->groups[middle].sum > u)
            high = middle;
        else
            low = middle + 1;
    }
    /* u can be rounded up to the whole sum: then the last group that has a weight is taken, and its last sample */
    while (low && !(d->w.weights[low] > 0))
        low--;

    const group *const drawn = &d->groups[low];
    sample = drawn->begin + (uint64_t)bzna_random_uniform(&random, 0, (double)(drawn->end - drawn->begin));
    return sample < drawn->end ? sample : drawn->end - 1;
}

/* ---- Without replacement -------------------------------------------------------------------- */

#define LN2_HIGH 0x1.62e42fefap-1     /* 36 bits of ln 2: the product with an exponent is exact */
#define LN2_LOW  0x1.cf79abc9e3b3ap-40                      /* ln 2 less LN2_HIGH */

/* Returns the natural logarithm of a number above 0 and at most 1, from + - x / alone, which IEEE 754 fixes: the same
 * number on every machine. The error is below 1 ulp. Series: Abramowitz and Stegun 1964, 4.1.27. */
static double log_of(double x)
{
    int k;

    /* x = 2^k (1 + f), with 1 + f between the square roots of 1/2 and 2 */
    double f = frexp(x, &k);
    if (f < 0.70710678118654752) {
        f *= 2;
        k--;
    }
    f -= 1;

    /* log(1 + f) = 2 (s + s^3/3 + s^5/5 + ...), s = f / (2 + f); 2 s = f - s f */
    const double s = f / (2 + f), z = s * s;
    double sum = 0;
    for (int n = 25; n > 1; n -= 2)
        sum = (sum + 2.0 / n) * z;

    const double whole = k * LN2_HIGH, high = whole + f, low = f - (high - whole);
    return high + (low - (s * (f - sum) - k * LN2_LOW));
}

static int by_key(const void *left, const void *right)
{
    const ranked *a = left, *b = right;

    return a->key < b->key ? -1 : a->key > b->key ? 1 : a->sample < b->sample ? -1 : a->sample > b->sample;
}

/* Efraimidis and Spirakis (2006) order samples by u^(1/w), largest first. Here the key is -log(u)/w, smallest first,
 * which is the same order. Samples without a weight come last. */
static bzna_status draw_once(const draws *d, uint64_t epoch, uint64_t *list, bzna_error *err)
{
    ranked *all = allocate(d->samples, sizeof *all, err);
    bzna_random random;

    if (!all)
        return err->status;
    for (uint64_t i = 0; i < d->w.weight_count; i++) {
        const group *const g = &d->groups[i];
        const double weight = d->w.weights[i] / (double)(g->end - g->begin);

        for (uint64_t sample = g->begin; sample < g->end; sample++) {
            bzna_random_init(&random, d->w.seed, epoch, sample, BZNA_RANDOM_ORDER);
            all[sample].sample = sample;
            all[sample].key = HUGE_VAL;
            if (weight > 0)                                 /* 1 - u is exact, and never 0 */
                all[sample].key = fmin(-log_of(1 - bzna_random_uniform(&random, 0, 1)) / weight, DBL_MAX);
        }
    }

    qsort(all, (size_t)d->samples, sizeof *all, by_key);
    for (uint64_t i = 0; i < d->count; i++)
        list[i] = all[i].sample;
    free(all);
    return BZNA_OK;
}

/* ---- Lists ---------------------------------------------------------------------------------- */

bzna_status bzna_formats_weighted_list(const bzna_dataset *dataset, const bzna_formats_weights *weights, uint64_t epoch,
                                       uint64_t *list, uint64_t capacity, uint64_t *count, bzna_error *err)
{
    draws d = { .count = 0 };
    bzna_error e;

    bzna_error_init(&e, sizeof e);
    if (take(&d, dataset, weights, &e) == BZNA_OK && add_up(&d, dataset, &e) == BZNA_OK) {
        if (!list || capacity < d.count)
            DATA_FAIL(&e, BZNA_E_BUFFER, "the list needs %llu numbers, the buffer has %llu", (data_llu)d.count,
                      (data_llu)(list ? capacity : 0));
        else if (d.w.weighting == BZNA_WEIGHTING_ONCE)
            draw_once(&d, epoch, list, &e);
        else
            for (uint64_t i = 0; i < d.count; i++)
                list[i] = draw(&d, epoch, i);
        for (uint64_t i = 0; d.w.indices && e.status == BZNA_OK && i < d.count; i++)
            list[i] = d.w.indices[list[i]];
    }
    if (count)
        *count = d.count;
    free(d.groups);
    return bzna_formats_data_return(err, &e);
}

bzna_status bzna_formats_weighted_give(bzna_loader *loader, const bzna_dataset *dataset,
                                       const bzna_formats_weights *weights, uint64_t epoch, bzna_error *err)
{
    uint64_t count, *list = NULL;
    bzna_error e;

    bzna_error_init(&e, sizeof e);
    if (bzna_formats_weighted_list(dataset, weights, epoch, NULL, 0, &count, &e) == BZNA_E_BUFFER) {
        bzna_error_init(&e, sizeof e);                      /* it has said how long the list is */
        if ((list = allocate(count, sizeof *list, &e)) != NULL &&
            bzna_formats_weighted_list(dataset, weights, epoch, list, count, NULL, &e) == BZNA_OK)
            bzna_loader_set_batches(loader, epoch, list, count, NULL, 0, &e);
    }
    free(list);
    return bzna_formats_data_return(err, &e);
}
