/* hard_examples.c - hard-example mining: what a model finds hard decides which samples the next epoch has
 *
 *     cc -std=c11 hard_examples.c benzina.o $(pkg-config --libs libavcodec libavutil libjpeg) -lm -lpthread -ldl \
 *        -o hard
 *     ./hard train.bzna [EPOCHS]
 *
 * The model is softmax regression on pictures of 8x8 pixels, so that the program needs no other library. Every third
 * epoch has all samples. The others have the half whose loss was largest, hardest first, each of them twice: with
 * another crop each time. */
#include "../benzina.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { EDGE = 8, FEATURES = 3 * EDGE * EDGE, BATCH = 32 };

typedef struct model {
    uint64_t classes;
    float   *weights;                 /* classes x FEATURES */
    float   *scores;                  /* of one sample: classes */
} model;

/* A sample, and its loss when it came last. */
typedef struct example {
    double   loss;
    uint64_t index;
} example;

typedef struct miner {
    uint64_t  count;                  /* of samples */
    double   *losses;                 /* by index */
    example  *ranked;                 /* hardest first */
    uint64_t *list;                   /* of the next epoch: at most count + 1 indices */
    uint64_t  length;                 /* of list */
} miner;

static int compare(const void *left, const void *right)
{
    const example *a = left, *b = right;
    if (a->loss > b->loss || a->loss < b->loss) return a->loss > b->loss ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* One step of gradient descent. Returns the loss before it. */
static double learn(model *m, const float *picture, int64_t target)
{
    double sum = 0, most = -INFINITY, p = 0;
    for (uint64_t c = 0; c < m->classes; c++) {
        double score = 0;
        for (uint32_t i = 0; i < FEATURES; i++) score += (double)m->weights[c * FEATURES + i] * picture[i];
        m->scores[c] = (float)score;
        most = fmax(most, score);
    }
    for (uint64_t c = 0; c < m->classes; c++) sum += exp(m->scores[c] - most);
    for (uint64_t c = 0; c < m->classes; c++) {
        const double share = exp(m->scores[c] - most) / sum, wanted = c == (uint64_t)target;
        if (wanted > 0) p = share;
        for (uint32_t i = 0; i < FEATURES; i++)
            m->weights[c * FEATURES + i] += (float)(0.01 * (wanted - share)) * picture[i];
    }
    return -log(fmax(p, 1e-30));
}

/* As many classes as targets need; 0 if no sample has one. */
static uint64_t classes_of(const bzna_dataset *dataset)
{
    int64_t classes = 0, target;
    for (uint64_t i = 0; i < bzna_dataset_count(dataset); i++)
        if (bzna_dataset_target(dataset, i, &target, NULL) == BZNA_OK && target >= classes && target < 1 << 20)
            classes = target + 1;
    return (uint64_t)classes;
}

/* Gives an epoch its list: all samples, or each of the hardest half twice. */
static bzna_status give(bzna_loader *loader, uint64_t epoch, miner *m, bzna_error *err)
{
    const uint64_t half = (m->count + 1) / 2;
    const int all = epoch % 3 == 0;
    for (uint64_t i = 0; i < m->count; i++) m->ranked[i] = (example){ m->losses[i], i };
    qsort(m->ranked, (size_t)m->count, sizeof *m->ranked, compare);
    m->length = all ? m->count : 2 * half;
    for (uint64_t i = 0; i < m->length; i++) m->list[i] = m->ranked[all ? i : i % half].index;
    return bzna_loader_set_indices(loader, epoch, m->list, m->length, err);
}

static bzna_status train(bzna_loader *loader, model *net, miner *m, bzna_error *err)
{
    uint64_t seen = 0;
    double sum = 0;
    bzna_batch *batch;
    bzna_status status = give(loader, 0, m, err);
    while (status == BZNA_OK && (status = bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, err)) == BZNA_OK) {
        bzna_batch_info info;
        bzna_batch_get_info(batch, &info, sizeof info, NULL);
        if (info.failed) fprintf(stderr, "%" PRIu32 " of %" PRIu32 " samples failed\n", info.failed, info.count);
        for (uint32_t slot = 0; slot < info.count; slot++) {
            const float *picture = (const float *)info.image.data + (size_t)slot * FEATURES;
            const int64_t target = info.targets[slot];
            if (info.status[slot] < 0 || target < 0 || (uint64_t)target >= net->classes) continue;
            m->losses[info.indices[slot]] = learn(net, picture, target);
            sum += m->losses[info.indices[slot]];
            seen++;
        }
        if (info.last_of_epoch) {
            printf("epoch %" PRIu64 ": %" PRIu64 " samples, mean loss %.4f\n", info.epoch, m->length,
                   seen ? sum / (double)seen : 0);
            sum = 0;
            seen = 0;
            status = give(loader, info.epoch + 1, m, err);
            if (status == BZNA_E_RANGE) status = BZNA_OK;        /* that was the last epoch: BZNA_END comes next */
        }
        bzna_batch_release(batch);
    }
    return status == BZNA_END ? BZNA_OK : status;
}

int main(int argc, char **argv)
{
    bzna_error    err     = { .struct_size = sizeof err };
    bzna_context *context = NULL;
    bzna_dataset *dataset = NULL;
    bzna_loader  *loader  = NULL;
    model         net     = { 0, NULL, NULL };
    miner         m       = { 0, NULL, NULL, NULL, 0 };
    bzna_status   status;

    bzna_loader_config config = {
        .struct_size = sizeof config,
        .output = { .batch_size = BATCH, .width = EDGE, .height = EDGE },
        .order = { .kind = BZNA_ORDER_GIVEN, .seed = 7, .epochs = argc > 2 ? strtoull(argv[2], NULL, 10) : 9 },
        .warp = { .kind = BZNA_WARP_RANDOM_RESIZED_CROP, .scale = { 0.5, 1 }, .flip_h = 0.5 },
        .color = { .mean = { 123.675f, 116.28f, 103.53f }, .std = { 58.395f, 57.12f, 57.375f } },
    };

    if (argc < 2 || argc > 3 || !config.order.epochs) {
        fprintf(stderr, "usage: %s DATA [EPOCHS]\n", argv[0]);
        return 2;
    }

    if ((status = bzna_context_open(NULL, &context, &err)) >= 0 &&
        (status = bzna_dataset_open(context, argv[1], NULL, &dataset, &err)) >= 0 &&
        (status = bzna_loader_open(context, dataset, &config, &loader, &err)) >= 0) {
        net.classes = classes_of(dataset);
        net.weights = calloc((size_t)net.classes * FEATURES, sizeof *net.weights);
        net.scores = calloc((size_t)net.classes, sizeof *net.scores);
        m.count = bzna_dataset_count(dataset);
        m.losses = calloc((size_t)m.count, sizeof *m.losses);
        m.ranked = calloc((size_t)m.count, sizeof *m.ranked);
        m.list = calloc((size_t)m.count + 1, sizeof *m.list);
        if (!net.classes) {
            fprintf(stderr, "%s: its samples have no class numbers\n", argv[1]);
            status = BZNA_E_NOT_FOUND;
        } else if (!net.weights || !net.scores || !m.losses || !m.ranked || !m.list) {
            fprintf(stderr, "out of memory\n");
            status = BZNA_E_MEMORY;
        } else {
            status = train(loader, &net, &m, &err);
        }
    }
    if (status < 0 && err.message[0]) fprintf(stderr, "%s\n", err.message);
    free(m.list);
    free(m.ranked);
    free(m.losses);
    free(net.scores);
    free(net.weights);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    return status < 0;
}
