/* bench_augment.c - what operations cost beside the crop that they follow, by processor time
 *
 *     make bench-augment PICTURES=DIR [SHORT=1]        this, and bench_peers.py on the same recipe
 *     build/bench/augment DIR [ROUNDS [THREADS [each]]]
 *
 * DIR is a folder of class folders of pictures. A loader crops them as torchvision's RandomResizedCrop(224) does, flips
 * half of them and delivers float32; another one then does RandAugment(2, 9) and erases a rectangle of a quarter of
 * them. Both have the same seed, so that they decode the same pixels. They take turns, ROUNDS times (11), each for
 * PICTURES pictures; a round's ratio is of its two times of the process. Median, quartiles and extremes are printed.
 *
 * With "each", each operation of RandAugment has a loader of its own, too, which does nothing else. */
#include "../../examples/formats/formats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIZE = 224, BATCH = 64, PICTURES = 1024, MOST_ROUNDS = 99 };

typedef struct bench {
    bzna_context *context;
    bzna_dataset *dataset;
    uint32_t      threads;
} bench;

static void check(bzna_status status, const bzna_error *err)
{
    if (status >= 0)
        return;
    fprintf(stderr, "%s\n", err->message);
    exit(1);
}

static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Returns microseconds of a processor for a picture, of a loader with policies. */
static double measure(const bench *b, const bzna_policy *policies, uint32_t count, uint64_t seed)
{
    bzna_loader_config config;
    bzna_loader *loader;
    bzna_batch *batch;
    bzna_batch_info info;
    bzna_error err;
    uint64_t pictures = 0;
    double begin = 0;

    bzna_loader_config_init(&config, sizeof config);
    config.output.batch_size = BATCH;
    config.output.width = config.output.height = SIZE;
    config.output.device.kind = BZNA_DEVICE_CPU;
    config.order.kind = BZNA_ORDER_SHUFFLE;
    config.order.seed = seed;
    config.order.epochs = BZNA_EPOCHS_ENDLESS;
    config.warp.kind = BZNA_WARP_RANDOM_RESIZED_CROP;
    config.warp.flip_h = 0.5;
    for (int i = 0; i < 3; i++) {
        config.color.mean[i] = 120;
        config.color.std[i] = 58;
    }
    config.augment.policies = policies;
    config.augment.policy_count = count;
    config.decode.threads = b->threads;
    check(bzna_loader_open(b->context, b->dataset, &config, &loader, &err), &err);

    for (int i = 0; pictures < PICTURES; i++) {              /* the first batch is a warm-up */
        check(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err), &err);
        check(bzna_batch_get_info(batch, &info, sizeof info, &err), &err);
        pictures += i ? info.count : 0;
        bzna_batch_release(batch);
        if (!i)
            begin = processor_seconds();
    }
    begin = processor_seconds() - begin;
    bzna_loader_close(loader);
    return begin * 1e6 / (double)pictures;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_quartiles(const char *name, double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, compare);
    printf("%-28s median %.3f, quartiles %.3f to %.3f, extremes %.3f to %.3f\n", name, values[count / 2],
           values[count / 4], values[count - 1 - count / 4], values[0], values[count - 1]);
}

static void bench_recipe(const bench *b, const bzna_policy recipe[2], int rounds)
{
    double crops[MOST_ROUNDS], recipes[MOST_ROUNDS], ratios[MOST_ROUNDS];

    for (int i = 0; i < rounds; i++) {
        for (int k = 0; k < 2; k++) {
            const int is_recipe = (i + k) % 2;
            (is_recipe ? recipes : crops)[i] = measure(b, is_recipe ? recipe : NULL, is_recipe ? 2 : 0, (uint64_t)i);
        }
        ratios[i] = recipes[i] / crops[i];
    }
    print_quartiles("crop, us a picture", crops, rounds);
    print_quartiles("recipe, us a picture", recipes, rounds);
    print_quartiles("recipe / crop", ratios, rounds);
}

/* Each operation of RandAugment alone, with a sign that is drawn. Without operations is its first one. */
static void bench_each(const bench *b, const bzna_policy recipe[2], int rounds)
{
    static const char *const names[] = { "identity", "shear x", "shear y", "translate x", "translate y", "rotate",
                                         "brightness", "color", "contrast", "sharpness", "posterize", "solarize",
                                         "autocontrast", "equalize", "erasing" };
    enum { COUNT = sizeof names / sizeof names[0] };
    static double ratios[COUNT][MOST_ROUNDS];

    for (int i = 0; i < rounds; i++) {
        const double crop = measure(b, NULL, 0, (uint64_t)i);
        for (uint32_t k = 0; k < COUNT; k++) {
            bzna_policy one = recipe[k == COUNT - 1];
            if (k < COUNT - 1) {
                one.operations += k;
                one.operation_count = one.draws = 1;
            }
            ratios[k][i] = measure(b, &one, 1, (uint64_t)i) / crop;
        }
    }
    printf("\neach alone, beside the crop\n");
    for (int k = 0; k < COUNT; k++)
        print_quartiles(names[k], ratios[k], rounds);
}

int main(int argc, char **argv)
{
    const bzna_operation erase = { .kind = BZNA_OP_ERASE, .magnitude = { 0.02f, 0.33f }, .probability = 0.25f };
    const int rounds = argc > 2 ? atoi(argv[2]) : 11;
    bench b = { .threads = argc > 3 ? (uint32_t)atoi(argv[3]) : 1 };
    bzna_policy recipe[2] = { { 0 }, { .operations = &erase, .operation_count = 1 } };
    bzna_error err;

    if (argc < 2 || rounds < 1 || rounds > MOST_ROUNDS) {
        fprintf(stderr, "usage: augment DIR [ROUNDS [THREADS [each]]]\n");
        return 2;
    }

    check(bzna_formats_policy_preset(BZNA_PRESET_RAND_AUGMENT, 2, 9, &recipe[0], &err), &err);
    check(bzna_context_open(NULL, &b.context, &err), &err);
    check(bzna_dataset_open(b.context, argv[1], NULL, &b.dataset, &err), &err);
    bench_recipe(&b, recipe, rounds);
    if (argc > 4 && !strcmp(argv[4], "each"))
        bench_each(&b, recipe, rounds);
    bzna_dataset_close(b.dataset);
    bzna_context_close(b.context);
    return 0;
}
