/* hard_examples.c - hard-example mining: the losses of a model decide which samples the next epoch has
 *
 *     cc hard_examples.c benzina.o $(pkg-config --libs libavcodec libavutil libjpeg) -lm -lpthread -ldl -o hard
 *     ./hard train.bzna [EPOCHS]
 *
 * The model is softmax regression on pictures of 8x8 pixels, so that the program needs no other library. Every third
 * epoch has all samples, and their mean loss is printed, which falls. The other epochs have the half of the samples
 * with the largest losses, hardest first, each sample twice: with another crop each time. */
#include "example.h"

#include <math.h>

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
            m->weights[c * FEATURES + i] += (float)(0.005 * (wanted - share)) * picture[i];
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

/* Gives an epoch its list: all samples, or each of the hardest half twice. BZNA_E_RANGE: there is no such epoch. */
static bzna_status give(bzna_loader *loader, uint64_t epoch, miner *m, bzna_error *err)
{
    const uint64_t half = (m->count + 1) / 2;
    const int all = epoch % 3 == 0;
    for (uint64_t i = 0; i < m->count; i++) m->ranked[i] = (example){ m->losses[i], i };
    qsort(m->ranked, (size_t)m->count, sizeof *m->ranked, compare);
    m->length = all ? m->count : 2 * half;
    for (uint64_t i = 0; i < m->length; i++) m->list[i] = m->ranked[all ? i : i % half].index;
    return bzna_loader_set_batches(loader, epoch, m->list, m->length, NULL, 0, err);
}

/* Learns a batch, and keeps the losses of its samples. */
static void learn_batch(model *net, miner *m, const bzna_batch_info *info)
{
    for (uint32_t slot = 0; slot < info->count; slot++) {
        const float *picture = (const float *)info->image.data + (size_t)slot * FEATURES;
        const int64_t target = info->targets[slot];
        if (info->status[slot] == BZNA_OK && target >= 0 && (uint64_t)target < net->classes)
            m->losses[info->indices[slot]] = learn(net, picture, target);
    }
}

static void train(bzna_loader *loader, model *net, miner *m, bzna_error *err)
{
    bzna_batch *batch;
    bzna_status status;
    check(give(loader, 0, m, err), err);
    while ((status = bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, err)) == BZNA_OK) {
        bzna_batch_info info;
        check(bzna_batch_get_info(batch, &info, sizeof info, err), err);
        report_failed(batch, &info);
        learn_batch(net, m, &info);
        if (info.last_of_epoch) {
            double sum = 0;
            for (uint64_t i = 0; i < m->count; i++) sum += m->losses[i];
            printf("epoch %" PRIu64 ": %" PRIu64 " samples", info.epoch, m->length);
            if (info.epoch % 3 == 0) printf(", mean loss %.4f", sum / (double)m->count);
            puts(info.epoch % 3 == 0 ? "" : ", the hardest half twice");
            status = give(loader, info.epoch + 1, m, err);
            if (status != BZNA_E_RANGE) check(status, err);      /* that was the last epoch: BZNA_END comes next */
        }
        bzna_batch_release(batch);
    }
    check(status, err);
}

static void *zeros(uint64_t count, size_t size)
{
    void *memory = calloc((size_t)count, size);
    if (memory) return memory;
    fprintf(stderr, "out of memory\n");
    exit(1);
}

int main(int argc, char **argv)
{
    bzna_error    err     = { .struct_size = sizeof err };
    bzna_context *context = NULL;
    bzna_dataset *dataset = NULL;
    bzna_loader  *loader  = NULL;
    model         net     = { 0, NULL, NULL };
    miner         m       = { 0, NULL, NULL, NULL, 0 };

    bzna_loader_config config = {
        .struct_size = sizeof config,
        .output = { .batch_size = BATCH, .width = EDGE, .height = EDGE },
        .order = { .kind = BZNA_ORDER_GIVEN, .seed = 7, .epochs = argc > 2 ? strtoull(argv[2], NULL, 10) : 10 },
        .warp = { .kind = BZNA_WARP_RANDOM_RESIZED_CROP, .scale = { 0.95, 1 }, .flip_h = 0.5 },
        .color = { .mean = { 123.675f, 116.28f, 103.53f }, .std = { 58.395f, 57.12f, 57.375f } },
    };

    if (argc < 2 || argc > 3 || !config.order.epochs) {
        fprintf(stderr, "usage: %s DATA [EPOCHS]\n", argv[0]);
        return 2;
    }

    check(bzna_context_open(NULL, &context, &err), &err);
    check(bzna_dataset_open(context, argv[1], NULL, &dataset, &err), &err);
    check(bzna_loader_open(context, dataset, &config, &loader, &err), &err);
    net.classes = classes_of(dataset);
    if (!net.classes) {
        fprintf(stderr, "%s: its samples have no class numbers\n", argv[1]);
        return 1;
    }
    net.weights = zeros(net.classes * FEATURES, sizeof *net.weights);
    net.scores = zeros(net.classes, sizeof *net.scores);
    m.count = bzna_dataset_count(dataset);
    m.losses = zeros(m.count, sizeof *m.losses);
    m.ranked = zeros(m.count, sizeof *m.ranked);
    m.list = zeros(m.count + 1, sizeof *m.list);
    train(loader, &net, &m, &err);

    free(m.list);
    free(m.ranked);
    free(m.losses);
    free(net.scores);
    free(net.weights);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    return 0;
}
