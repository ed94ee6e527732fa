/* test_given.c - orders from outside: lists of samples and of batches that the caller gives for each epoch.
 *
 * The oracle is the library itself with order.indices, which other suites hold against their own oracles: whatever is
 * given, the slot at a position of an epoch must hold the sample and the bytes of that position. The data set is one of
 * raw records, which cost nothing to decode. */
#include "library.h"
#include "../../examples/formats/formats.h"
#include "test.h"
#include "archives.h"
#define ASK_ALWAYS
#include "asking.h"

#include <sys/wait.h>

enum { SAMPLES = 50, EDGE = 8, BYTES = 3 * EDGE * EDGE, STRIDE = BYTES + 1, LONGEST = 160 };

static uint8_t file_bytes[SAMPLES * STRIDE];
static archive file;                  /* of which reads are made */
static bzna_context *context;

static uint64_t dice_state = 88172645463325252ull;

static uint32_t dice(uint32_t limit)
{
    dice_state ^= dice_state << 13;
    dice_state ^= dice_state >> 7;
    dice_state ^= dice_state << 17;
    return (uint32_t)(dice_state >> 33) % limit;
}

static void prepare(void)
{
    for (int i = 0; i < SAMPLES * STRIDE; i++)
        file_bytes[i] = (uint8_t)(i % STRIDE ? dice(256) : (uint32_t)(i / STRIDE));
    file = (archive){ .bytes = file_bytes, .size = sizeof file_bytes };
    require(bzna_context_open(NULL, &context, NULL), "context");
}

static bzna_dataset *open_records(bzna_context *of, memory *m)
{
    const bzna_records records = { .struct_size = sizeof records, .data_type = BZNA_RECORD_UINT8, .width = EDGE,
                                   .height = EDGE, .channels = 3, .data_offset = 1,
                                   .label_type = BZNA_RECORD_UINT8 };
    bzna_source source = memory_source(m, &file);
    const bzna_dataset_config named = { .struct_size = sizeof named, .name = "given.bin" };
    const bzna_formats_config config = { .struct_size = sizeof config, .dataset = &named, .records = &records };
    bzna_dataset *dataset = NULL;
    require(bzna_formats_open_source(of, &source, &config, &dataset, NULL), "records");
    return dataset;
}

static bzna_loader_config config_of(uint32_t batch_size, uint32_t kind)
{
    bzna_loader_config c;
    bzna_loader_config_init(&c, sizeof c);
    c.output.batch_size = batch_size;
    c.output.width = EDGE;
    c.output.height = EDGE;
    c.output.dtype = BZNA_DTYPE_UINT8;
    c.output.device.kind = BZNA_DEVICE_CPU;
    c.order.kind = kind;
    c.order.seed = 7;
    c.decode.threads = 2;
    c.decode.decoder = BZNA_DECODER_SOFTWARE;
    c.warp.kind = BZNA_WARP_RANDOM_RESIZED_CROP;
    c.warp.flip_h = 0.5;
    return c;
}

static bzna_loader *open_loader(bzna_dataset *dataset, const bzna_loader_config *c)
{
    bzna_loader *loader = NULL;
    bzna_error e = { .struct_size = sizeof e };
    if (bzna_loader_open(context, dataset, c, &loader, &e) != BZNA_OK) {
        printf("cannot prepare: loader: %s\n", e.message);
        exit(1);
    }
    return loader;
}

/* ---- Lists, and what they must give ------------------------------------------------------------------------------ */

typedef struct list {
    uint64_t epoch, count, batches;   /* batches 0: of equal size */
    uint64_t indices[LONGEST];
    uint32_t sizes[LONGEST];
    uint8_t  bytes[LONGEST][BYTES];   /* of each position: list_know */
} list;

/* repeats: samples come more than once. */
static void list_draw(list *l, uint64_t epoch, uint64_t count, int repeats)
{
    memset(l, 0, sizeof *l);
    l->epoch = epoch;
    l->count = count;
    for (uint64_t i = 0; i < count; i++)
        l->indices[i] = repeats ? dice(SAMPLES) : i % SAMPLES;
    for (uint64_t i = count; !repeats && i > 1; i--) {
        const uint64_t k = dice((uint32_t)i), other = l->indices[k];
        l->indices[k] = l->indices[i - 1];
        l->indices[i - 1] = other;
    }
}

/* Cuts it into batches of up to so many samples. */
static void list_cut(list *l, uint32_t most)
{
    uint64_t left = l->count;
    for (l->batches = 0; left; l->batches++) {
        const uint32_t size = (uint32_t)bzi_min(left, 1 + dice(most));
        l->sizes[l->batches] = size;
        left -= size;
    }
}

/* Asks order.indices for the bytes at each of its positions. seed: of the loader's order. */
static void list_know(list *l, uint64_t seed)
{
    bzna_loader_config c = config_of(16, BZNA_ORDER_SEQUENTIAL);
    bzna_dataset *dataset;
    bzna_loader *loader;
    bzna_batch *batch;
    uint64_t at = 0;
    memory m;
    c.order.seed = seed;
    c.order.indices = l->indices;
    c.order.index_count = l->count;
    c.order.first_epoch = l->epoch;
    dataset = open_records(context, &m);
    loader = open_loader(dataset, &c);
    while (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
        const bzna_batch_info info = info_of(batch);
        for (uint32_t slot = 0; slot < info.count; slot++)
            memcpy(l->bytes[at++], (const uint8_t *)info.image.data + (size_t)slot * BYTES, BYTES);
        bzna_batch_release(batch);
    }
    CHECK_EQ(at, l->count);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

static bzna_status give(bzna_loader *loader, const list *l, bzna_error *e)
{
    return l->batches ?
        bzna_loader_set_batches(loader, l->epoch, l->indices, l->count, l->sizes, l->batches, e) :
        bzna_loader_set_batches(loader, l->epoch, l->indices, l->count, NULL, 0, e);
}

static void give_all(bzna_loader *loader, const list *lists, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        bzna_error e = { .struct_size = sizeof e };
        if (give(loader, &lists[i], &e) != BZNA_OK) {
            test_failures++;
            printf("  the list of epoch %d: %s\n", (int)lists[i].epoch, e.message);
        }
    }
}

/* Where batch j of a rank begins in the list's order, how many samples it has, and how far they are from each other;
 * for ranks that share from a position on. A model of its own: it deals one batch or sample after the other. */
typedef struct hand { uint64_t begin; uint32_t count, stride; } hand;

static hand hand_of(const list *l, const bzna_loader_config *c, uint64_t from, uint64_t j)
{
    const uint32_t world = c->shard.world_size ? c->shard.world_size : 1;
    hand h = { from, 0, l->batches ? 1 : world };
    uint64_t n = j * world + c->shard.rank, k = 0, at = 0;
    if (!l->batches) {
        h.begin = from + j * c->output.batch_size * world + c->shard.rank;
        while (h.count < c->output.batch_size && h.begin + (uint64_t)h.count * world < l->count)
            h.count++;
        return h;
    }
    while (at < from)
        at += l->sizes[k++];
    for (; n && k < l->batches; n--)
        at += l->sizes[k++];
    h.begin = k < l->batches ? at : l->count;
    h.count = k < l->batches ? l->sizes[k] : 0;
    return h;
}

/* How many batches each rank has from a position on. */
static uint64_t hands_of(const list *l, const bzna_loader_config *c, uint64_t from)
{
    const uint32_t world = c->shard.world_size ? c->shard.world_size : 1;
    uint64_t each = (uint64_t)c->output.batch_size * world, left = l->count - from, k = 0;
    for (uint64_t at = 0; l->batches && at < from; )
        at += l->sizes[k++];
    left = l->batches ? l->batches - k : left;
    each = l->batches ? world : each;
    return c->order.last_batch == BZNA_LAST_DROP ? left / each : (left + each - 1) / each;
}

/* A batch is this hand of the list: each of its slots has the sample and the bytes of its position. */
static void check_hand(const bzna_batch *batch, const list *l, const bzna_loader_config *c, uint64_t from, uint64_t j)
{
    const bzna_batch_info info = info_of(batch);
    const hand h = hand_of(l, c, from, j);
    const int fills = c->order.last_batch == BZNA_LAST_FILL;
    const uint32_t slots = c->order.last_batch >= BZNA_LAST_PAD ? c->output.batch_size : h.count;
    CHECK_EQ(info.epoch, l->epoch);
    CHECK_EQ(info.batch, j);
    CHECK_EQ(info.count, h.count);
    CHECK_EQ(info.image.shape[0], slots);
    CHECK(!h.count || info.position == h.begin);
    CHECK_EQ(info.last_of_epoch, j + 1 == hands_of(l, c, from));
    for (uint32_t slot = 0; slot < slots && slot < info.image.shape[0]; slot++) {
        const uint64_t at = (h.begin + (uint64_t)slot * h.stride) % l->count;
        CHECK_EQ(info.status[slot], BZNA_OK);
        if (fills && slot >= h.count) {
            CHECK_EQ(info.indices[slot], UINT64_MAX);
            continue;
        }
        CHECK_EQ(info.indices[slot], l->indices[at]);
        CHECK_EQ(info.targets[slot], l->indices[at]);
        CHECK(!memcmp((const uint8_t *)info.image.data + (size_t)slot * BYTES, l->bytes[at], BYTES));
    }
}

/* Takes so many batches, each of which must be right. Returns the number that came. */
static uint64_t walk(bzna_loader *loader, const list *l, const bzna_loader_config *c, uint64_t from, uint64_t first,
                     uint64_t count)
{
    const int failures = test_failures;
    uint64_t j = first;
    for (; j < first + count && test_failures == failures; j++) {
        bzna_batch *batch = NULL;
        bzna_error e = { .struct_size = sizeof e };
        const bzna_status status = bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &e);
        if (status != BZNA_OK) {
            test_failures++;
            printf("  epoch %d, batch %d: %d: %s\n", (int)l->epoch, (int)j, (int)status, e.message);
            break;
        }
        check_hand(batch, l, c, from, j);
        bzna_batch_release(batch);
    }
    return j - first;
}

/* The whole epoch. */
static void walk_epoch(bzna_loader *loader, const list *l, const bzna_loader_config *c)
{
    walk(loader, l, c, 0, 0, hands_of(l, c, 0));
}

static bzna_status next_status(bzna_loader *loader, int64_t timeout_ns, bzna_error *e)
{
    bzna_batch *batch = NULL;
    const bzna_status status = bzna_loader_next(loader, timeout_ns, &batch, e);
    CHECK((batch != NULL) == (status == BZNA_OK));
    bzna_batch_release(batch);
    return status;
}

/* ---- Batches ----------------------------------------------------------------------------------------------------- */

TEST(a_given_permutation_gives_the_bytes_of_a_shuffle)
{
    static const struct { uint32_t threads, readers, no_threads; } ways[] = { { 1, 1, 0 }, { 4, 1, 0 }, { 2, 4, 0 },
                                                                              { 0, 0, 1 } };
    for (size_t way = 0; way < COUNT(ways); way++) {
        bzna_loader_config c = config_of(7, BZNA_ORDER_SHUFFLE);
        bzna_loader *loaders[2];
        bzna_dataset *dataset;
        bzna_batch *batches[2] = { NULL, NULL };
        memory m;
        int count = 0;
        c.order.epochs = 3;
        c.decode.threads = ways[way].threads;
        c.read.threads = ways[way].readers;
        c.pipeline.no_threads = ways[way].no_threads;
        dataset = open_records(context, &m);
        loaders[0] = open_loader(dataset, &c);
        c.order.kind = BZNA_ORDER_GIVEN;
        loaders[1] = open_loader(dataset, &c);
        CHECK_EQ(next_status(loaders[1], BZNA_WAIT_FOREVER, NULL), BZNA_E_STATE);
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            uint64_t indices[SAMPLES];
            for (uint64_t i = 0; i < SAMPLES; i++)
                indices[i] = bzna_order_permute(c.order.seed, epoch, SAMPLES, i);
            CHECK_EQ(bzna_loader_set_batches(loaders[1], epoch, indices, SAMPLES, NULL, 0, NULL), BZNA_OK);
            memset(indices, 0xff, sizeof indices);          /* they were copied */
        }
        while (bzna_loader_next(loaders[0], BZNA_WAIT_FOREVER, &batches[0], NULL) == BZNA_OK) {
            REQUIRE(bzna_loader_next(loaders[1], BZNA_WAIT_FOREVER, &batches[1], NULL) == BZNA_OK);
            const bzna_batch_info a = info_of(batches[0]), b = info_of(batches[1]);
            CHECK(a.count == b.count && a.epoch == b.epoch && a.batch == b.batch && a.position == b.position &&
                  a.last_of_epoch == b.last_of_epoch);
            CHECK(!memcmp(a.indices, b.indices, a.count * sizeof *a.indices));
            CHECK(!memcmp(a.image.data, b.image.data, (size_t)a.count * BYTES));
            bzna_batch_release(batches[0]);
            bzna_batch_release(batches[1]);
            count++;
        }
        CHECK_EQ(count, 24);
        CHECK_EQ(next_status(loaders[1], BZNA_WAIT_FOREVER, NULL), BZNA_END);
        bzna_loader_close(loaders[0]);
        bzna_loader_close(loaders[1]);
        bzna_dataset_close(dataset);
    }
}

TEST(no_sample_of_an_epoch_is_read_before_its_list_was_given)
{
    bzna_loader_config c = config_of(8, BZNA_ORDER_GIVEN);
    bzna_error e = { .struct_size = sizeof e };
    bzna_statistics stats;
    bzna_dataset *dataset;
    bzna_loader *loader;
    list lists[2];
    int64_t reads;
    memory m;
    c.order.epochs = 2;
    c.order.first_epoch = 3;
    list_draw(&lists[0], 3, 20, 0);
    list_draw(&lists[1], 4, 30, 1);
    list_know(&lists[0], 7);
    list_know(&lists[1], 7);
    dataset = open_records(context, &m);
    loader = open_loader(dataset, &c);
    reads = m.reads;                                        /* those of opening */
    CHECK_EQ(next_status(loader, 0, &e), BZNA_E_STATE);
    CHECK_CONTAINS(e.message, "epoch 3");
    CHECK_CONTAINS(e.message, "bzna_loader_set_batches");
    CHECK_EQ(next_status(loader, BZNA_WAIT_FOREVER, &e), BZNA_E_STATE);       /* it does not wait for a list */
    give_all(loader, &lists[0], 1);
    walk_epoch(loader, &lists[0], &c);
    CHECK_EQ(next_status(loader, BZNA_WAIT_FOREVER, &e), BZNA_E_STATE);
    CHECK_CONTAINS(e.message, "epoch 4");
    require(bzna_loader_statistics(loader, &stats, sizeof stats, NULL), "statistics");
    CHECK_EQ(stats.samples, 20);
    CHECK_EQ(stats.stage[BZNA_STAGE_READ].count, 20);
    CHECK(m.reads - reads <= 40);                           /* of a label and of a picture */
    give_all(loader, &lists[1], 1);
    walk_epoch(loader, &lists[1], &c);
    CHECK_EQ(next_status(loader, BZNA_WAIT_FOREVER, &e), BZNA_END);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

TEST(lists_of_later_epochs_can_be_given_early_in_any_order)
{
    bzna_loader_config c = config_of(16, BZNA_ORDER_GIVEN);
    static list lists[5];
    bzna_dataset *dataset;
    bzna_loader *loader;
    memory m;
    c.order.epochs = BZNA_EPOCHS_ENDLESS;
    for (uint64_t i = 0; i < 5; i++) {
        list_draw(&lists[i], i, 10 + 23 * i, i % 2);
        if (i > 2)
            list_cut(&lists[i], 16);
        list_know(&lists[i], 7);
    }
    dataset = open_records(context, &m);
    loader = open_loader(dataset, &c);
    give_all(loader, &lists[4], 1);
    give_all(loader, &lists[2], 2);
    give_all(loader, &lists[0], 2);
    for (int i = 0; i < 5; i++)
        walk_epoch(loader, &lists[i], &c);
    CHECK_EQ(next_status(loader, BZNA_WAIT_FOREVER, NULL), BZNA_E_STATE);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

/* The batches after the end of an epoch are made ahead, from lists of other lengths; a slot of the end of an epoch is
 * padded from its own epoch's start. */
TEST(padding_comes_from_the_epochs_own_list)
{
    bzna_loader_config c = config_of(16, BZNA_ORDER_GIVEN);
    static list lists[4];
    bzna_dataset *dataset;
    bzna_loader *loader;
    memory m;
    c.order.epochs = 4;
    c.order.last_batch = BZNA_LAST_PAD;
    c.pipeline.batches_in_flight = 6;
    for (uint64_t i = 0; i < 4; i++) {
        list_draw(&lists[i], i, i % 2 ? 3 : 37, 1);
        if (i > 1)
            list_cut(&lists[i], 9);
        list_know(&lists[i], 7);
    }
    dataset = open_records(context, &m);
    loader = open_loader(dataset, &c);
    give_all(loader, lists, 4);
    for (int i = 0; i < 4; i++)
        walk_epoch(loader, &lists[i], &c);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

TEST(ranks_share_lists_and_whole_batches_evenly)
{
    static list lists[2];
    for (int round = 0; round < ROUNDS(60, 12); round++) {
        const uint32_t world = 1 + dice(5), last = dice(4), batch = 1 + dice(16);
        const uint64_t count = 1 + dice(LONGEST);
        uint8_t seen[LONGEST] = { 0 };
        uint64_t wrong = 0;
        list_draw(lists, 0, count, 1);
        if (round % 3)
            list_cut(lists, batch);
        list_know(lists, 7);
        for (uint32_t rank = 0; rank < world; rank++) {
            bzna_loader_config c = config_of(batch, BZNA_ORDER_GIVEN);
            bzna_error e = { .struct_size = sizeof e };
            bzna_loader_info info;
            bzna_dataset *dataset;
            bzna_loader *loader;
            uint64_t hands, samples = 0;
            memory m;
            c.shard.world_size = world;
            c.shard.rank = rank;
            c.order.last_batch = last;
            hands = hands_of(lists, &c, 0);
            dataset = open_records(context, &m);
            loader = open_loader(dataset, &c);
            if (!hands) {
                CHECK_EQ(give(loader, lists, &e), BZNA_E_ARGUMENT);
                CHECK_CONTAINS(e.message, "DROP");
            } else {
                give_all(loader, lists, 1);
                for (uint64_t j = 0; j < hands; j++) {
                    const hand h = hand_of(lists, &c, 0, j);
                    for (uint32_t slot = 0; slot < h.count; slot++)
                        seen[h.begin + (uint64_t)slot * h.stride]++;
                    samples += h.count;
                }
                require(bzna_loader_get_info(loader, &info, sizeof info, NULL), "info");
                CHECK_EQ(info.batches_per_epoch, hands);
                CHECK_EQ(info.samples_per_epoch, samples);
                walk_epoch(loader, lists, &c);
                CHECK_EQ(next_status(loader, BZNA_WAIT_FOREVER, NULL), BZNA_END);
            }
            bzna_loader_close(loader);
            bzna_dataset_close(dataset);
        }
        for (uint64_t i = 0; i < count; i++)
            wrong += last == BZNA_LAST_DROP ? seen[i] > 1 : seen[i] != 1;
        CHECK_EQ(wrong, 0);
    }
}

TEST(a_sample_that_a_list_repeats_is_augmented_anew)
{
    bzna_loader_config c = config_of(12, BZNA_ORDER_GIVEN);
    static list l;
    int equal = 0;
    bzna_dataset *dataset;
    bzna_loader *loader;
    memory m;
    list_draw(&l, 0, 12, 0);
    for (int i = 0; i < 12; i++)
        l.indices[i] = 31;
    list_know(&l, 7);
    for (int i = 1; i < 12; i++)
        equal += !memcmp(l.bytes[0], l.bytes[i], BYTES);
    CHECK_EQ(equal, 0);
    dataset = open_records(context, &m);
    loader = open_loader(dataset, &c);
    give_all(loader, &l, 1);
    walk_epoch(loader, &l, &c);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

/* order.indices, the oracle above, asks the same function. */
TEST(indices_that_repeat_are_found)
{
    bzna_loader_config c = config_of(12, BZNA_ORDER_GIVEN);
    uint64_t indices[SAMPLES + 1];
    bzna_error e = { .struct_size = sizeof e };
    bzna_dataset *dataset;
    bzna_loader *loader;
    uint32_t repeats = 7;
    memory m;
    dataset = open_records(context, &m);
    loader = open_loader(dataset, &c);
    for (uint64_t i = 0; i < SAMPLES; i++)
        indices[i] = i * 7 % SAMPLES;
    CHECK_EQ(bzi_indices_repeat(&loader->setup, indices, SAMPLES, &repeats, &e), BZNA_OK);
    CHECK_EQ(repeats, 0);
    for (uint64_t i = 0; i < SAMPLES; i++) {
        indices[SAMPLES] = i;
        CHECK_EQ(bzi_indices_repeat(&loader->setup, indices, SAMPLES + 1, &repeats, &e), BZNA_OK);
        CHECK_EQ(repeats, 1);
    }
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

/* ---- What is refused --------------------------------------------------------------------------------------------- */

TEST(an_epochs_list_is_given_once)
{
    bzna_loader_config c = config_of(4, BZNA_ORDER_GIVEN);
    bzna_error e = { .struct_size = sizeof e };
    static list lists[3];
    bzna_dataset *dataset;
    bzna_loader *loader;
    memory m;
    c.order.epochs = 3;
    for (uint64_t i = 0; i < 3; i++) {
        list_draw(&lists[i], i, 20, 0);
        list_know(&lists[i], 7);
    }
    dataset = open_records(context, &m);
    loader = open_loader(dataset, &c);
    give_all(loader, lists, 2);
    CHECK_EQ(give(loader, &lists[0], &e), BZNA_E_STATE);                      /* the one under way */
    CHECK_CONTAINS(e.message, "bzna_loader_set_batches: epoch 0 has its list already");
    CHECK_EQ(give(loader, &lists[1], &e), BZNA_E_STATE);                      /* a later one */
    CHECK_CONTAINS(e.message, "epoch 1 has its list");
    walk_epoch(loader, &lists[0], &c);
    CHECK_EQ(give(loader, &lists[0], &e), BZNA_E_STATE);
    CHECK_CONTAINS(e.message, "epoch 0 is over");
    lists[2].epoch = 3;
    CHECK_EQ(give(loader, &lists[2], &e), BZNA_E_RANGE);
    CHECK_CONTAINS(e.message, "epoch 3 is not below 3");
    lists[2].epoch = UINT64_MAX;
    CHECK_EQ(give(loader, &lists[2], &e), BZNA_E_RANGE);
    lists[2].epoch = 2;
    give_all(loader, &lists[2], 1);
    walk_epoch(loader, &lists[1], &c);
    walk_epoch(loader, &lists[2], &c);
    CHECK_EQ(next_status(loader, 0, NULL), BZNA_END);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

TEST(lists_are_checked_at_once_and_a_refused_one_changes_nothing)
{
    bzna_loader_config c = config_of(4, BZNA_ORDER_GIVEN);
    const uint64_t indices[6] = { 3, 49, 0, SAMPLES, 1, 2 }, good[6] = { 3, 49, 0, 7, 1, 2 };
    const uint32_t sizes[3] = { 4, 0, 2 }, large[2] = { 5, 1 }, few[2] = { 4, 1 }, right[2] = { 4, 2 };
    bzna_error e = { .struct_size = sizeof e };
    bzna_dataset *dataset;
    bzna_loader *loader;
    memory m;
    dataset = open_records(context, &m);
    loader = open_loader(dataset, &c);
    CHECK_EQ(bzna_loader_set_batches(loader, 0, indices, 6, NULL, 0, &e), BZNA_E_RANGE);
    CHECK_CONTAINS(e.message, "bzna_loader_set_batches: indices[3] of epoch 0: 50 is not below the 50 samples");
    CHECK_EQ(bzna_loader_set_batches(loader, 0, indices, 4, NULL, 0, &e), BZNA_E_RANGE);
    CHECK_EQ(bzna_loader_set_batches(loader, 0, indices, 0, NULL, 0, &e), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(e.message, "empty");
    CHECK_EQ(bzna_loader_set_batches(loader, 0, NULL, 6, NULL, 0, &e), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_loader_set_batches(NULL, 0, indices, 6, NULL, 0, &e), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_loader_set_batches(loader, 0, good, UINT64_MAX / 8 + 1, NULL, 0, &e), BZNA_E_MEMORY);
    CHECK_EQ(bzna_loader_set_batches(loader, 0, good, UINT64_MAX, NULL, 0, &e), BZNA_E_MEMORY);
    CHECK_EQ(bzna_loader_set_batches(loader, 0, good, 6, sizes, 3, &e), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(e.message, "bzna_loader_set_batches: sizes[1] of epoch 0: 0 is not in 1..4");
    CHECK_EQ(bzna_loader_set_batches(loader, 0, good, 6, large, 2, &e), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(e.message, "5 is not in 1..4");
    CHECK_EQ(bzna_loader_set_batches(loader, 0, good, 6, few, 2, &e), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(e.message, "their sum is 5, but there are 6 indices");
    CHECK_EQ(bzna_loader_set_batches(loader, 0, good, 6, right, 0, &e), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_loader_set_batches(loader, 0, good, 6, NULL, 2, &e), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_loader_set_batches(loader, 0, indices, 6, right, 2, &e), BZNA_E_RANGE);
    CHECK_EQ(next_status(loader, 0, &e), BZNA_E_STATE);
    CHECK_EQ(bzna_loader_set_batches(loader, 0, good, 6, right, 2, &e), BZNA_OK);
    CHECK_EQ(next_status(loader, BZNA_WAIT_FOREVER, &e), BZNA_OK);
    CHECK_EQ(next_status(loader, BZNA_WAIT_FOREVER, &e), BZNA_OK);
    CHECK_EQ(next_status(loader, BZNA_WAIT_FOREVER, &e), BZNA_END);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

TEST(other_orders_take_no_lists_and_a_given_one_no_other_choice_of_samples)
{
    static const uint64_t indices[2] = { 0, 1 };
    bzna_loader_config c = config_of(4, BZNA_ORDER_SHUFFLE);
    bzna_error e = { .struct_size = sizeof e };
    bzna_loader *loader, *none;
    bzna_dataset *dataset;
    memory m;
    dataset = open_records(context, &m);
    loader = open_loader(dataset, &c);
    CHECK_EQ(bzna_loader_set_batches(loader, 0, indices, 2, NULL, 0, &e), BZNA_E_STATE);
    CHECK_CONTAINS(e.message, "order.kind is not BZNA_ORDER_GIVEN");
    bzna_loader_close(loader);
    c = config_of(4, BZNA_ORDER_GIVEN);
    c.order.indices = indices;
    c.order.index_count = 2;
    CHECK_EQ(bzna_loader_open(context, dataset, &c, &none, &e), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(e.message, "BZNA_ORDER_GIVEN");
    bzna_dataset_close(dataset);
}

/* ---- States, resets, stops --------------------------------------------------------------------------------------- */

static bzna_loader_state state_of(bzna_loader *loader)
{
    bzna_loader_state state = { .struct_size = sizeof state };
    require(bzna_loader_save(loader, &state, sizeof state, NULL), "state");
    return state;
}

/* Takes batches of a list in each rank of a world, after a state or from the start. Returns the state then, which all
 * ranks have. */
static bzna_loader_state deal(const bzna_loader_config *given, const list *lists, uint32_t world, uint64_t batches,
                              const bzna_loader_state *from, uint8_t *seen)
{
    bzna_loader_config c = *given;
    bzna_loader_state state = { .struct_size = sizeof state };
    c.shard.world_size = world;
    for (uint32_t rank = 0; rank < world; rank++) {
        const uint64_t start = from ? from->position : 0;
        bzna_loader_state now;
        bzna_dataset *dataset;
        bzna_loader *loader;
        uint64_t left;
        memory m;
        c.shard.rank = rank;
        left = hands_of(lists, &c, start);
        left = left < batches ? left : batches;
        dataset = open_records(context, &m);
        loader = open_loader(dataset, &c);
        if (from) {
            CHECK_EQ(bzna_loader_restore(loader, from, NULL), BZNA_OK);
            now = state_of(loader);
            CHECK(!memcmp(&now, from, sizeof now));         /* also before its list is given again */
            CHECK_EQ(next_status(loader, 0, NULL), BZNA_E_STATE);
        }
        give_all(loader, lists, 1);
        for (uint64_t j = 0; j < left; j++) {
            const hand h = hand_of(lists, &c, start, j);
            for (uint32_t slot = 0; slot < h.count; slot++)
                seen[h.begin + (uint64_t)slot * h.stride]++;
        }
        walk(loader, lists, &c, start, 0, left);
        now = state_of(loader);
        CHECK(!rank || !memcmp(&now, &state, sizeof now));
        state = now;
        bzna_loader_close(loader);
        bzna_dataset_close(dataset);
    }
    return state;
}

TEST(a_run_goes_on_in_a_list_with_other_ranks_and_leaves_nothing_out)
{
    static list l;
    for (int round = 0; round < ROUNDS(24, 6); round++) {
        bzna_loader_config c = config_of(9, BZNA_ORDER_GIVEN);
        bzna_loader_state state, *from = NULL;
        uint8_t seen[LONGEST] = { 0 };
        uint64_t wrong = 0;
        c.order.epochs = 5;
        c.order.first_epoch = 2;
        list_draw(&l, 2, 40 + dice(LONGEST - 40), round % 2);
        if (round % 4 > 1)
            list_cut(&l, 7);
        list_know(&l, 7);
        do {
            state = deal(&c, &l, 1 + dice(4), 1 + dice(4), from, seen);
            from = &state;
            c.order.seed = 99;                              /* that of the state counts */
            c.output.batch_size = l.batches ? 7 + dice(4) : 3 + dice(9);
            c.decode.threads = 1 + dice(3);
        } while (state.epoch == 2 && !test_failures);
        CHECK_EQ(state.epoch, 3);
        CHECK_EQ(state.position, 0);
        CHECK_EQ(state.list, 0);
        CHECK_EQ(state.sample_count, 0);
        for (uint64_t i = 0; i < l.count; i++)
            wrong += seen[i] != 1;
        CHECK_EQ(wrong, 0);
    }
}

TEST(a_state_inside_an_epoch_refuses_another_list_and_one_between_epochs_takes_any)
{
    bzna_loader_config c = config_of(4, BZNA_ORDER_GIVEN);
    bzna_error e = { .struct_size = sizeof e };
    bzna_loader_state inside, between;
    bzna_dataset *dataset;
    bzna_loader *loader;
    static list lists[2], other;
    memory m;
    c.order.epochs = 2;
    list_draw(&lists[0], 0, 30, 0);
    list_draw(&lists[1], 1, 20, 0);
    list_know(&lists[0], 7);
    list_know(&lists[1], 7);
    dataset = open_records(context, &m);
    loader = open_loader(dataset, &c);
    give_all(loader, lists, 2);
    walk(loader, &lists[0], &c, 0, 0, 3);
    inside = state_of(loader);
    CHECK(inside.list != 0);
    CHECK_EQ(inside.sample_count, 30);
    CHECK_EQ(inside.position, 12);
    walk(loader, &lists[0], &c, 0, 3, 5);
    between = state_of(loader);
    CHECK_EQ(bzna_loader_restore(loader, &inside, &e), BZNA_OK);
    CHECK_EQ(next_status(loader, BZNA_WAIT_FOREVER, &e), BZNA_E_STATE);       /* the lists are forgotten */
    CHECK_CONTAINS(e.message, "epoch 0");
    for (int i = 0; i < 4; i++) {
        other = lists[0];
        other.count -= i == 0;                              /* one less */
        other.indices[29] = i == 1 ? 1 + lists[0].indices[29] % 40 : other.indices[29];
        if (i == 2) {                                       /* two that changed places, both delivered already */
            other.indices[0] = lists[0].indices[1];
            other.indices[1] = lists[0].indices[0];
        }
        if (i == 3)
            list_cut(&other, 4);                            /* the same samples, in batches */
        CHECK_EQ(give(loader, &other, &e), BZNA_E_ARGUMENT);
        CHECK_CONTAINS(e.message, "the list of epoch 0");
        CHECK_CONTAINS(e.message, "state.list");
    }
    give_all(loader, &lists[1], 1);                         /* one of a later epoch */
    give_all(loader, &lists[0], 1);
    walk(loader, &lists[0], &c, 12, 0, 5);
    walk_epoch(loader, &lists[1], &c);

    CHECK_EQ(bzna_loader_restore(loader, &between, &e), BZNA_OK);
    other = lists[1];
    other.count = 11;
    list_know(&other, 7);
    give_all(loader, &other, 1);
    walk_epoch(loader, &other, &c);
    CHECK_EQ(next_status(loader, 0, NULL), BZNA_END);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

/* As a program makes one that skips batches: it knows the length of the list alone. */
TEST(a_state_without_a_hash_takes_any_list_of_its_length)
{
    bzna_loader_config c = config_of(4, BZNA_ORDER_GIVEN);
    bzna_error e = { .struct_size = sizeof e };
    bzna_loader_state state;
    bzna_dataset *dataset;
    bzna_loader *loader;
    static list l, other;
    memory m;
    list_draw(&l, 0, 30, 0);
    list_know(&l, 7);
    other = l;
    other.count--;
    dataset = open_records(context, &m);
    loader = open_loader(dataset, &c);
    state = state_of(loader);
    CHECK(state.list == 0 && state.sample_count == 0);      /* no list was given yet */
    state.sample_count = 30;
    state.position = 12;
    state.check = 0;
    CHECK_EQ(bzna_loader_restore(loader, &state, &e), BZNA_OK);
    CHECK_EQ(give(loader, &other, &e), BZNA_E_ARGUMENT);
    give_all(loader, &l, 1);
    walk(loader, &l, &c, 12, 0, 5);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

/* A state whose position is inside a batch can only be made by hand. */
TEST(a_position_where_no_batch_of_the_list_begins_is_refused)
{
    bzna_loader_config c = config_of(4, BZNA_ORDER_GIVEN);
    bzna_error e = { .struct_size = sizeof e };
    bzna_loader_state state;
    bzna_dataset *dataset;
    bzna_loader *loader;
    static list l;
    memory m;
    list_draw(&l, 0, 30, 0);
    for (l.batches = 0; l.batches < 10; l.batches++)
        l.sizes[l.batches] = 3;
    list_know(&l, 7);
    dataset = open_records(context, &m);
    loader = open_loader(dataset, &c);
    give_all(loader, &l, 1);
    walk(loader, &l, &c, 0, 0, 2);
    state = state_of(loader);
    CHECK_EQ(state.position, 6);
    for (uint64_t position = 1; position <= 30; position++) {
        state.position = position;
        state.check = bzi_loader_state_check(&state);
        REQUIRE(bzna_loader_restore(loader, &state, &e) == BZNA_OK);
        CHECK_EQ(give(loader, &l, &e), position % 3 ? BZNA_E_ARGUMENT : BZNA_OK);
        if (position % 3 == 0)
            walk(loader, &l, &c, position, 0, 10 - position / 3);
        CHECK(position % 3 || next_status(loader, 0, &e) == BZNA_END);
    }
    state.position = 31;
    state.check = bzi_loader_state_check(&state);
    CHECK_EQ(bzna_loader_restore(loader, &state, &e), BZNA_E_ARGUMENT);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

TEST(a_state_of_another_order_is_refused)
{
    bzna_loader_config c = config_of(4, BZNA_ORDER_SEQUENTIAL);
    bzna_error e = { .struct_size = sizeof e };
    bzna_loader *drawn, *given;
    bzna_loader_state state;
    bzna_dataset *dataset;
    static list l;
    memory m;
    list_draw(&l, 0, 30, 0);
    list_know(&l, 7);
    dataset = open_records(context, &m);
    drawn = open_loader(dataset, &c);
    c.order.kind = BZNA_ORDER_GIVEN;
    given = open_loader(dataset, &c);
    state = state_of(drawn);
    CHECK_EQ(bzna_loader_restore(given, &state, &e), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(e.message, "state.order");
    give_all(given, &l, 1);
    walk(given, &l, &c, 0, 0, 2);
    state = state_of(given);
    CHECK_EQ(bzna_loader_restore(drawn, &state, &e), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(e.message, "state.");
    bzna_loader_close(drawn);
    bzna_loader_close(given);
    bzna_dataset_close(dataset);
}

TEST(reset_forgets_all_lists_so_that_an_epoch_can_have_another_one)
{
    bzna_loader_config c = config_of(4, BZNA_ORDER_GIVEN);
    bzna_error e = { .struct_size = sizeof e };
    bzna_loader_info info;
    bzna_dataset *dataset;
    bzna_loader *loader;
    static list lists[3];
    memory m;
    c.order.epochs = 2;
    for (uint64_t i = 0; i < 3; i++)
        list_draw(&lists[i], i % 2, 20 + 15 * i, 0);
    lists[2].epoch = 0;
    for (int i = 0; i < 3; i++)
        list_know(&lists[i], 7);
    dataset = open_records(context, &m);
    loader = open_loader(dataset, &c);
    give_all(loader, lists, 2);
    walk(loader, &lists[0], &c, 0, 0, 2);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(bzna_loader_stop(loader, NULL), BZNA_OK);
        CHECK_EQ(next_status(loader, BZNA_WAIT_FOREVER, &e), BZNA_E_STOPPED);
        CHECK_EQ(bzna_loader_reset(loader, 0, &e), BZNA_OK);
        CHECK_EQ(next_status(loader, BZNA_WAIT_FOREVER, &e), BZNA_E_STATE);
        require(bzna_loader_get_info(loader, &info, sizeof info, NULL), "info");
        CHECK_EQ(info.samples_per_epoch, 0);
        CHECK_EQ(info.batches_per_epoch, 0);
        give_all(loader, i ? &lists[0] : &lists[2], 1);
        require(bzna_loader_get_info(loader, &info, sizeof info, NULL), "info");
        CHECK_EQ(info.samples_per_epoch, i ? 20 : 50);
        walk_epoch(loader, i ? &lists[0] : &lists[2], &c);
        CHECK_EQ(next_status(loader, BZNA_WAIT_FOREVER, &e), BZNA_E_STATE);
        CHECK_CONTAINS(e.message, "epoch 1");
    }
    CHECK_EQ(bzna_loader_reset(loader, 1, &e), BZNA_OK);
    give_all(loader, &lists[1], 1);
    walk_epoch(loader, &lists[1], &c);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

/* ---- Samples that fail ------------------------------------------------------------------------------------------- */

/* A batch in which sample 48 cannot be read. Returns how many of its samples are that one. */
static uint64_t check_broken(const bzna_batch *batch, const list *l, const hand *h, uint32_t policy)
{
    const bzna_batch_info info = info_of(batch);
    uint32_t failed = 0, replaced = 0;
    CHECK_EQ(info.count, h->count);
    for (uint32_t slot = 0; slot < info.count; slot++) {
        const uint64_t at = (h->begin + (uint64_t)slot * h->stride) % l->count, next = (at + h->stride) % l->count;
        const int is_bad = l->indices[at] == 48, replaces = is_bad && policy == BZNA_ON_ERROR_REPLACE;
        CHECK_EQ(info.indices[slot], l->indices[replaces ? next : at]);
        CHECK_EQ(info.status[slot], is_bad && !replaces ? BZNA_E_IO : BZNA_OK);
        failed += is_bad && !replaces;
        replaced += (uint32_t)replaces;
    }
    CHECK_EQ(info.failed, failed);
    CHECK_EQ(info.replaced, replaced);
    return failed + replaced;
}

/* The lists differ in length and several epochs are in flight, so what replaces a sample must not be looked for in the
 * list that is being planned. */
TEST(a_sample_that_fails_costs_its_slot_or_takes_the_next_of_its_own_list)
{
    static list lists[4];
    for (uint32_t world = 1; world <= 2; world++)
        for (uint32_t policy = BZNA_ON_ERROR_FILL; policy <= BZNA_ON_ERROR_REPLACE; policy++) {
            bzna_loader_config c = config_of(5, BZNA_ORDER_GIVEN);
            bzna_statistics stats;
            bzna_dataset *dataset;
            bzna_loader *loader;
            uint64_t broken = 0;
            memory m;
            c.errors.on_error = policy;
            c.order.epochs = 4;
            c.shard.world_size = world;
            c.shard.rank = world - 1;
            c.pipeline.batches_in_flight = 12;
            for (uint64_t i = 0; i < 4; i++) {
                list_draw(&lists[i], i, i % 2 ? 6 : 30, 0);
                for (uint64_t k = 0; k < lists[i].count; k++)
                    lists[i].indices[k] = (k + 3 * i) % 48;
                lists[i].indices[lists[i].count - 1] = 48;  /* it comes last: the first of the list replaces it */
                if (i > 1)
                    list_cut(&lists[i], 5);
            }
            dataset = open_records(context, &m);
            m.faults[0] = (fault){ 48 * STRIDE, 49 * STRIDE, -5, -1 };
            m.fault_count = 1;
            loader = open_loader(dataset, &c);
            give_all(loader, lists, 4);
            for (int i = 0; i < 4; i++)
                for (uint64_t j = 0; j < hands_of(&lists[i], &c, 0); j++) {
                    const hand h = hand_of(&lists[i], &c, 0, j);
                    bzna_batch *batch = NULL;
                    REQUIRE(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK);
                    broken += check_broken(batch, &lists[i], &h, policy);
                    bzna_batch_release(batch);
                }
            require(bzna_loader_statistics(loader, &stats, sizeof stats, NULL), "statistics");
            CHECK_EQ(policy == BZNA_ON_ERROR_FILL ? stats.samples_failed : stats.replaced, broken);
            CHECK(world == 2 || broken == 4);
            bzna_loader_close(loader);
            bzna_dataset_close(dataset);
        }
}

TEST(a_sample_can_end_the_run_which_a_reset_and_another_list_begin_anew)
{
    bzna_loader_config c = config_of(5, BZNA_ORDER_GIVEN);
    bzna_error e = { .struct_size = sizeof e };
    bzna_dataset *dataset;
    bzna_loader *loader;
    static list l;
    memory m;
    c.errors.on_error = BZNA_ON_ERROR_STOP;
    list_draw(&l, 0, SAMPLES, 0);
    dataset = open_records(context, &m);
    m.faults[0] = (fault){ 48 * STRIDE, 49 * STRIDE, -5, -1 };
    m.fault_count = 1;
    loader = open_loader(dataset, &c);
    give_all(loader, &l, 1);
    while (next_status(loader, BZNA_WAIT_FOREVER, &e) == BZNA_OK)
        continue;
    CHECK_EQ(e.status, BZNA_E_IO);
    CHECK_EQ(next_status(loader, BZNA_WAIT_FOREVER, &e), BZNA_E_IO);
    CHECK_EQ(bzna_loader_reset(loader, 0, &e), BZNA_OK);
    l.count = 10;
    for (uint64_t i = 0; i < l.count; i++)
        l.indices[i] = 2 * i;
    list_know(&l, 7);
    give_all(loader, &l, 1);
    walk_epoch(loader, &l, &c);
    CHECK_EQ(next_status(loader, BZNA_WAIT_FOREVER, &e), BZNA_END);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

/* ---- Memory, threads, processes ---------------------------------------------------------------------------------- */

static bzna_context *open_counted(ledger *l)
{
    bzna_context_config config;
    bzna_context *own = NULL;
    bzna_context_config_init(&config, sizeof config);
    config.allocator = ledger_allocator(l);
    require(bzna_context_open(&config, &own, NULL), "context");
    return own;
}

/* An allocator that also counts the calls of the thread that made it. */
static ledger counted;
static atomic_int own_calls;

static void *count_alloc(void *user, size_t size, size_t align)
{
    own_calls += pthread_equal(counted.only, pthread_self()) != 0;
    return ledger_alloc(user, size, align);
}

static int lists_of(bzna_loader *loader)
{
    int count = 0;
    bzi_os_lock(&loader->queues.mutex);
    for (const bzi_sequence *one = loader->queues.plan.lists; one; one = one->next)
        count++;
    bzi_os_unlock(&loader->queues.mutex);
    return count;
}

/* Giving allocates the list, and bits that find indices which repeat. Other threads may allocate meanwhile, as their
 * read buffers grow. */
TEST(an_epoch_allocates_only_its_list_and_frees_the_one_before)
{
    enum { EPOCHS = 12 };
    bzna_loader_config c = config_of(8, BZNA_ORDER_GIVEN);
    bzna_context_config config;
    bzna_context *own = NULL;
    bzna_dataset *dataset;
    bzna_loader *loader = NULL;
    static list l;
    memory m;
    bzna_context_config_init(&config, sizeof config);
    config.allocator = ledger_allocator(&counted);
    config.allocator.alloc = count_alloc;
    require(bzna_context_open(&config, &own, NULL), "context");
    c.order.epochs = EPOCHS;
    dataset = open_records(own, &m);
    require(bzna_loader_open(own, dataset, &c, &loader, NULL), "loader");
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        int calls = own_calls;
        list_draw(&l, epoch, 100, 1);
        if (epoch % 2)
            list_cut(&l, 8);
        give_all(loader, &l, 1);
        CHECK_EQ(own_calls, calls + 2);
        CHECK_EQ(lists_of(loader), 1);
        calls = own_calls;
        for (uint64_t j = hands_of(&l, &c, 0); j; j--)
            CHECK_EQ(next_status(loader, BZNA_WAIT_FOREVER, NULL), BZNA_OK);
        CHECK_EQ(own_calls, calls);
        CHECK_EQ(give(loader, &l, NULL), BZNA_E_STATE);     /* it is over, and its list is freed now */
        CHECK_EQ(lists_of(loader), 0);
    }
    CHECK_EQ(next_status(loader, BZNA_WAIT_FOREVER, NULL), BZNA_END);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    bzna_context_close(own);
    check_settled(&counted);
}

TEST(every_allocation_of_giving_may_fail_and_the_list_can_be_given_then)
{
    bzna_loader_config c = config_of(8, BZNA_ORDER_GIVEN);
    bzna_error e = { .struct_size = sizeof e };
    ledger counts;
    bzna_context *own = open_counted(&counts);
    bzna_dataset *dataset;
    bzna_loader *loader = NULL;
    static list l;
    memory m;
    list_draw(&l, 0, 30, 0);
    list_cut(&l, 8);
    list_know(&l, 7);
    dataset = open_records(own, &m);
    require(bzna_loader_open(own, dataset, &c, &loader, NULL), "loader");
    for (int64_t n = 1; n <= 2; n++) {
        counts.fail_at = n;
        CHECK_EQ(give(loader, &l, &e), BZNA_E_MEMORY);
        CHECK_CONTAINS(e.message, "bzna_loader_set_batches");
        CHECK_EQ(next_status(loader, 0, &e), BZNA_E_STATE);
    }
    counts.fail_at = 0;
    give_all(loader, &l, 1);
    walk_epoch(loader, &l, &c);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    bzna_context_close(own);
    check_settled(&counts);
}

TEST(a_loader_closes_with_lists_that_were_not_begun)
{
    bzna_loader_config c = config_of(8, BZNA_ORDER_GIVEN);
    ledger counts;
    bzna_context *own = open_counted(&counts);
    bzna_dataset *dataset = NULL;
    static list l;
    memory m;
    c.order.epochs = 9;
    dataset = open_records(own, &m);
    for (int taken = 0; taken < 4; taken++) {
        bzna_loader *loader = NULL;
        bzna_batch *batch = NULL;
        require(bzna_loader_open(own, dataset, &c, &loader, NULL), "loader");
        for (uint64_t epoch = 0; epoch < 5; epoch++) {
            list_draw(&l, epoch, 30, 1);
            give_all(loader, &l, 1);
        }
        for (int i = 0; i < taken; i++)
            CHECK_EQ(next_status(loader, BZNA_WAIT_FOREVER, NULL), BZNA_OK);
        CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL), BZNA_OK);
        bzna_loader_close(loader);
        CHECK(info_of(batch).count > 0);                    /* it stays as it is */
        bzna_batch_release(batch);
    }
    bzna_dataset_close(dataset);
    bzna_context_close(own);
    check_settled(&counts);
}

/* A list can be given while a thread waits in bzna_loader_next, which goes on undisturbed. */
TEST(lists_can_be_given_while_another_thread_waits_for_a_batch)
{
    bzna_loader_config c = config_of(8, BZNA_ORDER_GIVEN);
    static list lists[2];
    bzna_dataset *dataset;
    bzna_loader *loader;
    waiter w;
    memory m;
    c.order.epochs = 2;
    for (uint64_t i = 0; i < 2; i++) {
        list_draw(&lists[i], i, 8, 0);
        list_know(&lists[i], 7);
    }
    dataset = open_records(context, &m);
    loader = open_loader(dataset, &c);
    m.blocked = 1;
    give_all(loader, &lists[0], 1);
    waiter_start(&w, loader);
    give_all(loader, &lists[1], 1);
    CHECK_EQ(give(loader, &lists[0], NULL), BZNA_E_STATE);
    CHECK(!w.ended);
    m.blocked = 0;
    pthread_join(w.thread, NULL);
    REQUIRE(w.status == BZNA_OK);
    check_hand(w.batch, &lists[0], &c, 0, 0);
    bzna_batch_release(w.batch);
    walk_epoch(loader, &lists[1], &c);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

enum { STRESS_EPOCHS = 60 };

typedef struct giver {
    bzna_loader *loader;
    const list  *lists;
    atomic_int   given;               /* epochs below this have their list */
    atomic_int   wrong;
} giver;

/* Gives lists a few epochs ahead of the consumer, and asks about everything meanwhile. */
static void *giver_run(void *argument)
{
    giver *g = argument;
    for (int epoch = 0; epoch < STRESS_EPOCHS; epoch++) {
        bzna_loader_state state = { .struct_size = sizeof state };
        bzna_statistics stats;
        bzna_loader_info info;
        list l = g->lists[epoch % 4];
        l.epoch = (uint64_t)epoch;
        g->wrong += give(g->loader, &l, NULL) != BZNA_OK;
        g->given = epoch + 1;
        g->wrong += give(g->loader, &l, NULL) != BZNA_E_STATE;
        g->wrong += bzna_loader_get_info(g->loader, &info, sizeof info, NULL) != BZNA_OK;
        g->wrong += bzna_loader_save(g->loader, &state, sizeof state, NULL) != BZNA_OK;
        g->wrong += bzna_loader_statistics(g->loader, &stats, sizeof stats, NULL) != BZNA_OK;
        while (state.epoch + 3 < (uint64_t)epoch && !g->wrong) {
            sleep_us(200);
            g->wrong += bzna_loader_save(g->loader, &state, sizeof state, NULL) != BZNA_OK;
        }
    }
    return NULL;
}

TEST(another_thread_gives_lists_while_epochs_run)
{
    bzna_loader_config c = config_of(8, BZNA_ORDER_GIVEN);
    bzna_error e = { .struct_size = sizeof e };
    static list lists[4];
    giver g = { .lists = lists };
    bzna_dataset *dataset;
    bzna_batch *batch;
    bzna_status status;
    uint64_t epoch = 0, j = 0;
    pthread_t thread;
    memory m;
    c.order.epochs = STRESS_EPOCHS;
    c.decode.threads = 4;
    c.read.threads = 3;
    for (uint64_t i = 0; i < 4; i++) {
        list_draw(&lists[i], i, 1 + dice(60), 1);
        if (i % 2)
            list_cut(&lists[i], 8);
    }
    dataset = open_records(context, &m);
    g.loader = open_loader(dataset, &c);
    pthread_create(&thread, NULL, giver_run, &g);
    while ((status = bzna_loader_next(g.loader, BZNA_WAIT_FOREVER, &batch, &e)) != BZNA_END) {
        const list *l = &lists[epoch % 4];
        if (status == BZNA_E_STATE) {                       /* its list is to come */
            CHECK_CONTAINS(e.message, "the list of epoch");
            sleep_us(100);
            continue;
        }
        REQUIRE(status == BZNA_OK);
        const bzna_batch_info info = info_of(batch);
        const hand h = hand_of(l, &c, 0, j);
        CHECK(info.epoch == epoch && info.batch == j && info.count == h.count && !info.failed);
        for (uint32_t slot = 0; slot < info.count; slot++)
            CHECK_EQ(info.indices[slot], l->indices[h.begin + (uint64_t)slot * h.stride]);
        epoch += info.last_of_epoch;
        j = info.last_of_epoch ? 0 : j + 1;
        bzna_batch_release(batch);
    }
    pthread_join(thread, NULL);
    CHECK_EQ(g.wrong, 0);
    CHECK_EQ(epoch, STRESS_EPOCHS);
    bzna_loader_close(g.loader);
    bzna_dataset_close(dataset);
}

/* Gives, resets, restores and takes at random, in one thread, while readers and decoders run. What comes is right. */
TEST(resets_and_restores_at_any_time_leave_the_lists_right)
{
    bzna_loader_config c = config_of(8, BZNA_ORDER_GIVEN);
    static list lists[3];
    bzna_dataset *dataset;
    bzna_loader *loader;
    bzna_loader_state state = { .struct_size = 0 };
    uint64_t epoch = 0, from = 0, j = 0, given = 0;
    memory m;
    c.order.epochs = BZNA_EPOCHS_ENDLESS;
    c.decode.threads = 3;
    c.read.threads = 2;
    c.pipeline.batches_in_flight = 5;
    for (uint64_t i = 0; i < 3; i++) {
        list_draw(&lists[i], i, 5 + 20 * i, 1);
        if (i)
            list_cut(&lists[i], 8);
        list_know(&lists[i], 7);
    }
    dataset = open_records(context, &m);
    loader = open_loader(dataset, &c);
    for (int step = 0; step < ROUNDS(1500, 300) && !test_failures; step++) {
        const uint32_t what = dice(12);
        if (what == 0) {
            CHECK_EQ(bzna_loader_reset(loader, epoch = dice(3), NULL), BZNA_OK);
            from = j = 0;
            given = epoch;
        } else if (what == 1) {
            state = state_of(loader);
        } else if (what == 2 && state.struct_size) {
            CHECK_EQ(bzna_loader_restore(loader, &state, NULL), BZNA_OK);
            given = epoch = state.epoch;
            from = state.position;
            j = 0;
        }
        while (epoch < 3 && (given <= epoch || (what == 3 && given < 3)))
            give_all(loader, &lists[given++], 1);
        if (epoch < 3) {
            const list *l = &lists[epoch];
            walk(loader, l, &c, from, j++, 1);
            if (j == hands_of(l, &c, from)) {
                epoch++;
                from = j = 0;
            }
        } else {
            CHECK_EQ(next_status(loader, 0, NULL), BZNA_E_STATE);
        }
    }
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

TEST(after_fork_lists_are_refused)
{
    if (ON_WINDOWS)
        SKIP("nothing forks here");
    bzna_loader_config c = config_of(8, BZNA_ORDER_GIVEN);
    bzna_loader_info info;
    bzna_dataset *dataset;
    bzna_loader *loader;
    static list l;
    int status = 0;
    pid_t child;
    memory m;
    list_draw(&l, 0, 30, 0);
    list_know(&l, 7);
    dataset = open_records(context, &m);
    loader = open_loader(dataset, &c);
    child = fork();
    if (child == 0)
        _exit(give(loader, &l, NULL) == BZNA_E_STATE &&
              bzna_loader_get_info(loader, &info, sizeof info, NULL) == BZNA_E_STATE ? 0 : 1);
    REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
    CHECK_EQ(status, 0);
    give_all(loader, &l, 1);
    walk_epoch(loader, &l, &c);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

TEST_MAIN(
    prepare();
    RUN(a_given_permutation_gives_the_bytes_of_a_shuffle)
    RUN(no_sample_of_an_epoch_is_read_before_its_list_was_given)
    RUN(lists_of_later_epochs_can_be_given_early_in_any_order)
    RUN(padding_comes_from_the_epochs_own_list)
    RUN(ranks_share_lists_and_whole_batches_evenly)
    RUN(a_sample_that_a_list_repeats_is_augmented_anew)
    RUN(indices_that_repeat_are_found)
    RUN(an_epochs_list_is_given_once)
    RUN(lists_are_checked_at_once_and_a_refused_one_changes_nothing)
    RUN(other_orders_take_no_lists_and_a_given_one_no_other_choice_of_samples)
    RUN(a_run_goes_on_in_a_list_with_other_ranks_and_leaves_nothing_out)
    RUN(a_state_inside_an_epoch_refuses_another_list_and_one_between_epochs_takes_any)
    RUN(a_state_without_a_hash_takes_any_list_of_its_length)
    RUN(a_position_where_no_batch_of_the_list_begins_is_refused)
    RUN(a_state_of_another_order_is_refused)
    RUN(reset_forgets_all_lists_so_that_an_epoch_can_have_another_one)
    RUN(a_sample_that_fails_costs_its_slot_or_takes_the_next_of_its_own_list)
    RUN(a_sample_can_end_the_run_which_a_reset_and_another_list_begin_anew)
    RUN(an_epoch_allocates_only_its_list_and_frees_the_one_before)
    RUN(every_allocation_of_giving_may_fail_and_the_list_can_be_given_then)
    RUN(a_loader_closes_with_lists_that_were_not_begun)
    RUN(lists_can_be_given_while_another_thread_waits_for_a_batch)
    RUN(another_thread_gives_lists_while_epochs_run)
    RUN(resets_and_restores_at_any_time_leave_the_lists_right)
    RUN(after_fork_lists_are_refused)
    bzna_context_close(context);
)
