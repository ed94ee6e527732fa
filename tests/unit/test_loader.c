/* test_loader.c - loaders: the right samples with the right pixels in the right order, whatever the threads, sources,
 * stops and restarts.
 *
 * The oracle is the library's own pure half (decoder, permutation, warp, plain kernel; tested by suites of their own),
 * called one sample at a time: a slot must hold, to the bit, what bzna_picture_render makes of its sample. `run` is a
 * model of a loader that says which sample belongs where. */
#include "library.h"
#include "test.h"
#ifdef TEST_NVDEC
#  include "../fake/nvdec.h"
#else
#  define TEST_NVDEC 0
#  define NVDEC_SESSIONS 0u
#endif

#include <sys/wait.h>

#ifdef BENZINA_NO_AVCODEC
TEST(loaders_yield_batches) { SKIP("built without libavcodec [libavcodec-dev]"); }
TEST_MAIN(RUN(loaders_yield_batches))
#else

#include "archives.h"

/* ---- Archives in memory ------------------------------------------------------------------------------------------ */

enum { WIDTH = 24, HEIGHT = 16, SLOT = 3 * WIDTH * HEIGHT };

static const int mixed_pattern[] = { 4, 2, 5, 1, 6 }, quick_pattern[] = { 4, 2, 5 }, single_pattern[] = { 4 };
static archive mixed, quick, single, h264, twin, hurt;    /* hurt: quick, of which every seventh sample is damaged */
static bzna_context *context;         /* of what belongs to no test alone */
static coded thumbs[2][8];            /* by codec - 1 and number in the mini archive */

/* targets: so many of the first samples have one. */
static archive archive_of(uint32_t codec, uint64_t count, const int *pattern, uint64_t pattern_count, uint64_t targets)
{
    recipe r = { .count = count, .pictures = thumbs[codec - 1], .pattern = pattern, .pattern_count = pattern_count,
                 .base = 17, .step = 1000003, .targets = targets, .letter = 'i' };
    return archive_build(context, &r);
}

static void thumbs_make(void)
{
    bzna_decoder *decoder = NULL;
    require(bzna_decoder_open(context, &decoder, NULL), "decoder");
    for (uint32_t codec = 1; codec <= 2; codec++)
        for (uint64_t i = 0; i < 8; i++) {
            coded *c = &thumbs[codec - 1][i];
            *c = coded_load(context, codec, i, NULL);
            coded_decode(c, decoder, &c->image);
        }
    bzna_decoder_close(decoder);
}

static bzna_dataset *open_archive(memory *m, const archive *a) { return open_split(context, m, a, NULL); }

static bzna_context *open_context(ledger *l, bzna_log_fn log, void *log_user, uint32_t log_any_thread)
{
    bzna_context_config config;
    bzna_context *c = NULL;
    bzna_context_config_init(&config, sizeof config);
    if (l)
        config.allocator = ledger_allocator(l);
    config.log = log;
    config.log_user = log_user;
    config.log_any_thread = log_any_thread;
    require(bzna_context_open(&config, &c, NULL), "context");
    return c;
}

/* ---- The model --------------------------------------------------------------------------------------------------- */

static bzna_loader_config config_of(uint32_t batch_size, uint32_t order)
{
    bzna_loader_config c;
    bzna_loader_config_init(&c, sizeof c);
    c.output.batch_size = batch_size;
    c.output.width = WIDTH;
    c.output.height = HEIGHT;
    c.order.kind = order;
    c.order.seed = 77;
    c.decode.threads = 2;
    c.warp.kind = BZNA_WARP_RANDOM_RESIZED_CROP;
    c.warp.flip_h = 0.5;
    c.filter.antialias = BZNA_ANTIALIAS_OFF;                /* widened filters take long without optimization */
    return c;
}

/* Where a loader stands, by arithmetic of its own. */
typedef struct run {
    const archive      *a;
    bzna_loader_config  c;
    uint64_t            epoch, position, number, end_epoch;
    uint8_t            *seen;         /* how often each index came as a real sample; may be NULL */
    uint64_t            bad_index;    /* sample that must fail; UINT64_MAX: none */
    bzna_status         bad_status;
} run;

static run run_of(const archive *a, const bzna_loader_config *c)
{
    run r;
    memset(&r, 0, sizeof r);
    r.a = a;
    r.c = *c;
    r.c.shard.world_size = c->shard.world_size ? c->shard.world_size : 1;
    r.epoch = c->order.first_epoch;
    r.end_epoch = c->order.epochs == BZNA_EPOCHS_ENDLESS ? UINT64_MAX :
                                                           r.epoch + (c->order.epochs ? c->order.epochs : 1);
    r.bad_index = UINT64_MAX;
    return r;
}

static void transform_of(const bzna_loader_config *c, bzna_transform *t)
{
    bzna_transform_init(t, sizeof *t);
    t->antialias = BZNA_ANTIALIAS_OFF;
    for (int i = 0; i < 3; i++) {
        int divides = c->color.mean[0] != 0 || c->color.std[0] != 0;
        t->bias[i] = divides ? c->color.mean[i] : c->color.bias[i];
        t->scale[i] = divides ? 1 / c->color.std[i] : c->color.scale[i] != 0 ? c->color.scale[i] : 1;
        t->fill[i] = c->color.fill[i];
    }
    t->fill_space = c->color.fill_space;
    t->matrix = c->color.matrix;
}

/* A sample's pixels by the pure functions. */
static void expected_slot(const run *r, uint64_t epoch, uint64_t index, float *out)
{
    const bzna_picture *picture = picture_of(r->a, index);
    bzna_output output = { .struct_size = sizeof output, .width = r->c.output.width, .height = r->c.output.height };
    bzna_transform t;
    bzna_random random;
    transform_of(&r->c, &t);
    bzna_random_init(&random, r->c.order.seed, epoch, index, BZNA_RANDOM_WARP);
    if (bzna_warp_draw(&random, &r->c.warp, picture->width, picture->height, r->c.output.width, r->c.output.height,
                       t.homography, NULL) != BZNA_OK ||
        bzna_picture_render(picture, &t, &output, out, 3 * sizeof(float) * r->c.output.width * r->c.output.height,
                            NULL) != BZNA_OK)
        abort();
}

/* What a failed slot holds. */
static int is_filled(const bzna_loader_config *c, const float *slot)
{
    bzna_transform t;
    transform_of(c, &t);
    for (uint32_t i = 0; i < 3 * c->output.width * c->output.height; i++) {
        uint32_t k = i / (c->output.width * c->output.height);
        if (slot[i] != (t.fill_space == BZNA_FILL_OUTPUT ? t.fill[k] : (t.fill[k] - t.bias[k]) * t.scale[k]))
            return 0;
    }
    return 1;
}

/* Does the slot hold this sample of this epoch? */
static int slot_is_right(const run *r, const bzna_batch_info *info, uint32_t slot, uint64_t epoch, uint64_t index)
{
    size_t floats = (size_t)3 * r->c.output.width * r->c.output.height;
    const float *data = (const float *)info->image.data + slot * floats;
    float *expected;
    int right;
    if (info->indices[slot] != index || info->targets[slot] != target_of(r->a, index))
        return 0;
    if (index == r->bad_index)
        return info->status[slot] == r->bad_status && is_filled(&r->c, data);
    if (info->status[slot] != BZNA_OK)
        return 0;
    expected = malloc(floats * sizeof *expected);
    if (!expected)
        abort();
    expected_slot(r, epoch, index, expected);
    right = !memcmp(expected, data, floats * sizeof *expected);
    free(expected);
    return right;
}

/* Checks one batch against the model, and moves the model on. */
static void run_check(run *r, const bzna_batch *batch)
{
    uint64_t count = r->a->count, step = (uint64_t)r->c.output.batch_size * r->c.shard.world_size,
             left = count - r->position;
    bzna_batch_info info;
    uint32_t real = 0, failed = 0, last;
    memset(&info, 0, sizeof info);
    CHECK_EQ(bzna_batch_get_info(batch, &info, sizeof info, NULL), BZNA_OK);
    while (r->c.order.last_batch == BZNA_LAST_DROP ? left < step : left == 0) {
        r->epoch++;
        r->position = r->number = 0;
        left = count;
    }
    last = r->c.order.last_batch == BZNA_LAST_DROP ? left < 2 * step : left <= step;
    while (real < r->c.output.batch_size &&
           r->position + r->c.shard.rank + (uint64_t)real * r->c.shard.world_size < count)
        real++;
    CHECK(r->epoch < r->end_epoch);
    CHECK_EQ(info.epoch, r->epoch);
    CHECK_EQ(info.batch, r->number);
    CHECK_EQ(info.position, r->position + r->c.shard.rank);
    CHECK_EQ(info.count, real);
    CHECK_EQ(info.last_of_epoch, last);
    CHECK_EQ(info.image.shape[0], r->c.order.last_batch == BZNA_LAST_PAD ? r->c.output.batch_size : real);
    CHECK(info.image.shape[1] == 3 && info.image.shape[2] == r->c.output.height &&
          info.image.shape[3] == r->c.output.width);
    CHECK_EQ(info.image.bytes,
             (uint64_t)info.image.shape[0] * 3 * r->c.output.height * r->c.output.width * sizeof(float));
    CHECK(info.image.device.kind == (TEST_NVDEC == 2 ? BZNA_DEVICE_CUDA : BZNA_DEVICE_CPU) &&
          info.image.device.ordinal == 0);
    CHECK((info.stream != NULL) == (TEST_NVDEC == 2) && info.image.dtype == BZNA_DTYPE_FLOAT32 &&
          info.layout == BZNA_LAYOUT_NCHW);
    CHECK_EQ((uintptr_t)info.image.data % 64, 0);
    for (uint32_t slot = 0; slot < info.image.shape[0]; slot++) {
        /* padding begins the order anew */
        uint64_t position = (r->position + r->c.shard.rank + (uint64_t)slot * r->c.shard.world_size) % count;
        uint64_t index = r->c.order.kind == BZNA_ORDER_SHUFFLE ?
                             bzna_order_permute(r->c.order.seed, r->epoch, count, position) :
                             position;
        if (!slot_is_right(r, &info, slot, r->epoch, index)) {
            test_failures++;
            printf("  epoch %d, batch %d, slot %d: index %d, not %d; target %lld; status %d; or other pixels\n",
                   (int)info.epoch, (int)info.batch, (int)slot, (int)info.indices[slot], (int)index,
                   (long long)info.targets[slot], (int)info.status[slot]);
        }
        failed += slot < real && info.status[slot] < 0;
        if (slot < real && r->seen)
            r->seen[index]++;
    }
    CHECK_EQ(info.failed, failed);
    r->position += step;
    r->number++;
    if (last) {
        r->epoch++;
        r->position = r->number = 0;
    }
}

/* Takes up to n batches, or all to the end, and checks each. Returns how many came. */
static uint64_t walk(bzna_loader *loader, run *r, uint64_t n)
{
    uint64_t taken = 0;
    int failures = test_failures;
    while (taken < n && test_failures == failures) {
        bzna_batch *batch = NULL;
        bzna_error e = { .struct_size = sizeof e };
        bzna_status status = bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &e);
        if (status == BZNA_END) {
            CHECK(batch == NULL);
            break;
        }
        if (status != BZNA_OK) {
            test_failures++;
            printf("  next: %s\n", e.message);
            break;
        }
        run_check(r, batch);
        CHECK_EQ(bzna_batch_release(batch), BZNA_OK);
        taken++;
    }
    return taken;
}

static bzna_loader *open_loader(bzna_dataset *dataset, const bzna_loader_config *c)
{
    bzna_loader *loader = NULL;
    bzna_error e = { .struct_size = sizeof e };
    if (bzna_loader_open(context, dataset, c, &loader, &e) != BZNA_OK) {
        printf("  open: %s\n", e.message);
        exit(1);
    }
    return loader;
}

/* Opens, walks to the end, closes. Returns the number of batches. */
static uint64_t walk_all(bzna_dataset *dataset, const archive *a, const bzna_loader_config *c)
{
    run r = run_of(a, c);
    bzna_loader *loader = open_loader(dataset, c);
    uint64_t batches = walk(loader, &r, UINT64_MAX);
    CHECK_EQ(bzna_loader_close(loader), BZNA_OK);
    return batches;
}

static bzna_batch *next_batch(bzna_loader *loader)
{
    bzna_batch *batch = NULL;
    CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL), BZNA_OK);
    return batch;
}

/* ---- The same bytes ---------------------------------------------------------------------------------------------- */

/* Everything a run delivers, one behind the other. */
static uint64_t dump(bzna_dataset *dataset, const bzna_loader_config *c, uint8_t *out, uint64_t capacity)
{
    bzna_loader *loader = open_loader(dataset, c);
    bzna_batch *batch;
    uint64_t at = 0;
    while (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
        bzna_batch_info info = info_of(batch);
        uint64_t n = (uint64_t)info.image.shape[0];
        if (at + info.image.bytes + 20 * n > capacity)
            abort();
        memcpy(out + at, info.image.data, (size_t)info.image.bytes);
        at += info.image.bytes;
        memcpy(out + at, info.targets, (size_t)(8 * n));
        memcpy(out + at + 8 * n, info.indices, (size_t)(8 * n));
        memcpy(out + at + 16 * n, info.status, (size_t)(4 * n));
        at += 20 * n;
        bzna_batch_release(batch);
    }
    bzna_loader_close(loader);
    return at;
}

TEST(the_same_seed_gives_the_same_bytes_for_any_threads_readers_and_sources)
{
    enum { ROOM = 1 << 20 };
    static uint8_t first[ROOM], other[ROOM];
    static const struct { uint32_t threads, readers, in_flight, ahead; int delay, at_most, mapped; } ways[] = {
        { 1, 1, 1, 1, 0, 0, 1 }, { 2, 1, 3, 0, 0, 0, 1 }, { 8, 4, 3, 0, 0, 0, 1 }, { 1, 4, 2, 40, 0, 0, 0 },
        { 8, 1, 8, 3, 0, 777, 0 }, { 2, 2, 3, 0, 3000, 0, 0 },
        { 8, 4, 3, 0, 3000, 0, 0 }, { 1, 3, 64, 0, 2000, 0, 0 },
    };
    FILE *file;
    bzna_loader_config c = config_of(7, BZNA_ORDER_SHUFFLE);
    uint64_t size = 0;
    char path[256];
    snprintf(path, sizeof path, TEST_BUILD "/tests/loader_mixed.%ld.bzna", (long)getpid());   /* this process's */
    file = fopen(path, "wb");
    REQUIRE(file != NULL);
    CHECK_EQ(fwrite(mixed.bytes, 1, (size_t)mixed.size, file), mixed.size);
    fclose(file);
    c.order.epochs = 2;
    c.order.last_batch = BZNA_LAST_PAD;
    for (size_t w = 0; w < COUNT(ways); w++) {
        memory m;
        bzna_dataset *dataset = NULL;
        c.decode.threads = ways[w].threads;
        c.read.threads = ways[w].readers;
        c.pipeline.batches_in_flight = ways[w].in_flight;
        c.read.ahead_samples = ways[w].ahead;
        if (ways[w].mapped) {
            REQUIRE(bzna_dataset_open(context, path, NULL, &dataset, NULL) == BZNA_OK);
        } else {
            dataset = open_archive(&m, &mixed);
            m.jitter_us = ways[w].delay;
            m.at_most = (uint64_t)ways[w].at_most;
        }
        if (w == 0) {
            size = dump(dataset, &c, first, ROOM);
            CHECK_EQ(size, 2 * 6 * 7 * (SLOT * sizeof(float) + 20));
        } else {
            CHECK_EQ(dump(dataset, &c, other, ROOM), size);
            CHECK(!memcmp(first, other, (size_t)size));
        }
        bzna_dataset_close(dataset);
    }
    c.order.seed++;                                         /* and another seed gives others */
    memory m;
    bzna_dataset *dataset = open_archive(&m, &mixed);
    CHECK_EQ(dump(dataset, &c, other, ROOM), size);
    CHECK(memcmp(first, other, (size_t)size));
    bzna_dataset_close(dataset);
    remove(path);
}

TEST(every_slot_is_what_the_pure_functions_say)
{
    memory m;
    const archive *archives[] = { &mixed, &h264 };
    for (int k = 0; k < 2; k++) {
        bzna_dataset *dataset = open_archive(&m, archives[k]);
        bzna_loader_config c = config_of(4, BZNA_ORDER_SHUFFLE);
        c.order.epochs = 2;
        CHECK_EQ(walk_all(dataset, archives[k], &c), 2 * ((archives[k]->count + 3) / 4));
        c.warp.kind = BZNA_WARP_CENTER_RESIZED_CROP;
        c.warp.scale[0] = 0.875;
        c.warp.flip_v = 0.25;
        for (int i = 0; i < 3; i++) {
            c.color.mean[i] = 120 + (float)i;
            c.color.std[i] = 57 + (float)i;
            c.color.fill[i] = 10 * (float)i;
        }
        CHECK_EQ(walk_all(dataset, archives[k], &c), 2 * ((archives[k]->count + 3) / 4));
        c.warp.kind = BZNA_WARP_SIMILARITY; /* turned pictures take the plain loop and show the fill color */
        c.warp.scale[0] = 0;
        c.warp.degrees[0] = -180;
        c.warp.degrees[1] = 180;
        c.color.fill_space = BZNA_FILL_OUTPUT;
        c.color.matrix = BZNA_MATRIX_BT709;
        CHECK_EQ(walk_all(dataset, archives[k], &c), 2 * ((archives[k]->count + 3) / 4));
        bzna_dataset_close(dataset);
    }
}

/* ---- Order, epochs, last batches --------------------------------------------------------------------------------- */

TEST(sequential_order_is_the_files)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &quick);
    bzna_loader_config c = config_of(16, BZNA_ORDER_SEQUENTIAL);
    bzna_loader *loader = open_loader(dataset, &c);
    uint64_t expected = 0;
    bzna_batch *batch;
    while (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
        bzna_batch_info info = info_of(batch);
        for (uint32_t i = 0; i < info.count; i++, expected++) {
            CHECK_EQ(info.indices[i], expected);
            CHECK_EQ(info.targets[i], target_of(&quick, expected));
        }
        bzna_batch_release(batch);
    }
    CHECK_EQ(expected, quick.count);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

TEST(a_shuffle_takes_each_sample_once_an_epoch_and_each_epoch_another_order)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &quick);
    bzna_loader_config c = config_of(32, BZNA_ORDER_SHUFFLE);
    static uint64_t orders[3][512];
    static uint8_t seen[3][512];
    bzna_loader *loader;
    bzna_batch *batch;
    uint64_t at[3] = { 0, 0, 0 };
    memset(seen, 0, sizeof seen);
    c.order.epochs = 3;
    loader = open_loader(dataset, &c);
    while (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
        bzna_batch_info info = info_of(batch);
        REQUIRE(info.epoch < 3);
        for (uint32_t i = 0; i < info.count; i++) {
            seen[info.epoch][info.indices[i]]++;
            orders[info.epoch][at[info.epoch]++] = info.indices[i];
        }
        bzna_batch_release(batch);
    }
    for (uint64_t i = 0; i < quick.count; i++)
        CHECK(seen[0][i] == 1 && seen[1][i] == 1 && seen[2][i] == 1);
    for (int a = 0; a < 3; a++) {
        int same = 0, stayed = 0;
        for (uint64_t i = 0; i < quick.count; i++) {
            same += orders[a][i] == orders[(a + 1) % 3][i];
            stayed += orders[a][i] == i;
        }
        CHECK(same < 12 && stayed < 12);
    }
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

TEST(last_batches_are_partial_dropped_or_padded)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &mixed);       /* 40 samples */
    static const uint32_t sizes[] = { 3, 8, 39, 40, 41 };
    static const uint64_t expected[3][5] = { { 14, 5, 2, 1, 1 }, { 13, 5, 1, 1, 0 }, { 14, 5, 2, 1, 1 } };
    for (uint32_t policy = 0; policy < 3; policy++)
        for (size_t s = 0; s < COUNT(sizes); s++) {
            bzna_loader_config c = config_of(sizes[s], s % 2 ? BZNA_ORDER_SHUFFLE : BZNA_ORDER_SEQUENTIAL);
            bzna_loader_info info;
            bzna_loader *loader = NULL;
            bzna_error e = { .struct_size = sizeof e };
            run r;
            c.order.last_batch = policy;
            c.order.epochs = 2;
            if (expected[policy][s] == 0) {
                CHECK_EQ(bzna_loader_open(context, dataset, &c, &loader, &e), BZNA_E_ARGUMENT);
                CHECK(loader == NULL);
                CHECK_CONTAINS(e.message, "loader_config.order.last_batch");
                continue;
            }
            loader = open_loader(dataset, &c);
            CHECK_EQ(bzna_loader_get_info(loader, &info, sizeof info, NULL), BZNA_OK);
            CHECK_EQ(info.batches_per_epoch, expected[policy][s]);
            CHECK_EQ(info.samples_per_epoch, policy == BZNA_LAST_DROP ? expected[policy][s] * sizes[s] : 40);
            r = run_of(&mixed, &c);
            CHECK_EQ(walk(loader, &r, UINT64_MAX), 2 * expected[policy][s]);
            bzna_loader_close(loader);
        }
    bzna_dataset_close(dataset);
}

TEST(padding_repeats_the_start_of_the_epochs_order)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &mixed);
    bzna_loader_config c = config_of(100, BZNA_ORDER_SHUFFLE);
    bzna_loader *loader;
    bzna_batch *batch;
    bzna_batch_info info;
    c.order.last_batch = BZNA_LAST_PAD;
    loader = open_loader(dataset, &c);
    batch = next_batch(loader);
    info = info_of(batch);
    CHECK(info.count == 40 && info.image.shape[0] == 100 && info.failed == 0);
    for (uint32_t i = 40; i < 100; i++) {                   /* twice around, and half */
        CHECK_EQ(info.indices[i], info.indices[i - 40]);
        CHECK_EQ(info.targets[i], info.targets[i - 40]);
        CHECK_EQ(info.status[i], BZNA_OK);
        CHECK(!memcmp((float *)info.image.data + i * SLOT, (float *)info.image.data + (i - 40) * SLOT,
                      SLOT * sizeof(float)));
    }
    bzna_batch_release(batch);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

/* In batches of three views, bytes of HWC and fields, on one thread and on several: what follows the last sample is the
 * values that were asked for, and costs no sample. */
TEST(padding_can_have_values_of_its_own)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &mixed);       /* 40 samples */
    static const double values[] = { 0, -2.5, 7 };
    for (uint32_t way = 0; way < 6; way++) {
        bzna_loader_config c = config_of(24, way % 2 ? BZNA_ORDER_SHUFFLE : BZNA_ORDER_SEQUENTIAL);
        bzna_statistics stats = { .struct_size = sizeof stats };
        const double value = values[way / 2];
        bzna_loader *loader;
        bzna_batch *batch;
        bzna_batch_info info;
        const void *name = "";
        uint64_t size;
        c.order.last_batch = BZNA_LAST_FILL;
        c.order.pad_value = value;
        c.order.pad_target = way / 2 ? -7 : 0;
        c.order.epochs = 2;
        c.decode.threads = 1 + way % 3;
        c.fields.bytes = "name";
        c.color.mean[0] = 100;                              /* has no effect on padding */
        c.color.std[0] = c.color.std[1] = c.color.std[2] = 2;
        c.color.fill[1] = 9;
        loader = open_loader(dataset, &c);
        for (int b = 0; b < 4; b++) {
            batch = next_batch(loader);
            info = info_of(batch);
            CHECK(info.count == (b % 2 ? 16 : 24) && info.image.shape[0] == 24 && info.failed == 0);
            for (uint32_t i = 0; i < 24; i++) {
                const float *slot = (const float *)info.image.data + i * SLOT;
                int same = 1;
                for (int k = 0; k < SLOT; k++)
                    same &= slot[k] == (float)value;
                CHECK_EQ(same, i >= info.count);
                CHECK_EQ(info.indices[i] == UINT64_MAX, i >= info.count);
                CHECK_EQ(info.status[i], BZNA_OK);
                CHECK(i < info.count || info.targets[i] == c.order.pad_target);
                CHECK_EQ(bzna_batch_bytes(batch, "name", i, &name, &size, NULL), BZNA_OK);
                CHECK_EQ(name == NULL, i >= info.count);
            }
            bzna_batch_release(batch);
        }
        bzna_loader_statistics(loader, &stats, sizeof stats, NULL);
        CHECK(stats.samples == 80 && stats.samples_failed == 0);
        bzna_loader_close(loader);
    }
    bzna_dataset_close(dataset);
}

TEST(values_of_padding_that_have_no_effect_are_refused)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &mixed);
    for (int way = 0; way < 3; way++) {
        bzna_loader_config c = config_of(24, BZNA_ORDER_SEQUENTIAL);
        bzna_error e = { .struct_size = sizeof e };
        bzna_loader *loader = NULL;
        c.order.last_batch = way == 2 ? BZNA_LAST_FILL : BZNA_LAST_PAD;
        c.order.pad_value = way == 2 ? 1e300 : way == 0;
        c.order.pad_target = way == 1;
        CHECK_EQ(bzna_loader_open(context, dataset, &c, &loader, &e), BZNA_E_ARGUMENT);
        CHECK_CONTAINS(e.message, "loader_config.order.pad_value");
    }
    bzna_dataset_close(dataset);
}

TEST(samples_without_a_target_say_so)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &h264);        /* 12 of 20 have one */
    bzna_loader_config c = config_of(20, BZNA_ORDER_SEQUENTIAL);
    bzna_loader *loader = open_loader(dataset, &c);
    bzna_batch *batch = next_batch(loader);
    bzna_batch_info info = info_of(batch);
    for (uint64_t i = 0; i < 20; i++)
        CHECK_EQ(info.targets[i], i < 12 ? target_of(&h264, i) : -1);
    bzna_batch_release(batch);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

TEST(epochs_follow_each_other_and_then_it_ends_for_good)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &mixed);
    bzna_loader_config c = config_of(17, BZNA_ORDER_SHUFFLE);
    bzna_batch *batch;
    bzna_loader *loader;
    run r;
    c.order.first_epoch = 5;
    c.order.epochs = 4;
    loader = open_loader(dataset, &c);
    r = run_of(&mixed, &c);
    CHECK_EQ(walk(loader, &r, UINT64_MAX), 12);
    CHECK_EQ(r.epoch, 9);
    for (int i = 0; i < 3; i++) {
        batch = (bzna_batch *)&m;
        CHECK_EQ(bzna_loader_next(loader, i ? 0 : BZNA_WAIT_FOREVER, &batch, NULL), BZNA_END);
        CHECK(batch == NULL);
    }
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

TEST(endless_epochs_go_on)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &mixed);
    bzna_loader_config c = config_of(40, BZNA_ORDER_SHUFFLE);
    bzna_loader *loader;
    run r;
    c.order.epochs = BZNA_EPOCHS_ENDLESS;
    c.order.first_epoch = UINT64_MAX - 4;                   /* until numbers end */
    loader = open_loader(dataset, &c);
    r = run_of(&mixed, &c);
    CHECK_EQ(walk(loader, &r, UINT64_MAX), 4);
    CHECK_EQ(bzna_loader_reset(loader, 0, NULL), BZNA_OK);
    r.epoch = 0;
    r.position = r.number = 0;
    CHECK_EQ(walk(loader, &r, 7), 7);
    CHECK_EQ(r.epoch, 7);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

/* ---- Loans, waiting, stopping ------------------------------------------------------------------------------------ */

TEST(several_batches_on_loan_stay_as_they_are_and_come_back_in_any_order)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &mixed);
    bzna_loader_config c = config_of(5, BZNA_ORDER_SHUFFLE);
    bzna_batch *loans[3], *batch;
    bzna_error e = { .struct_size = sizeof e };
    bzna_loader *loader;
    run r, again;
    c.order.epochs = 4;
    loader = open_loader(dataset, &c);
    r = run_of(&mixed, &c);
    for (int round = 0; round < 8; round++) {
        static const int orders[4][3] = { { 0, 1, 2 }, { 2, 1, 0 }, { 1, 2, 0 }, { 1, 0, 2 } };
        again = r;
        for (int i = 0; i < 3; i++) {
            loans[i] = next_batch(loader);
            REQUIRE(loans[i] != NULL);
            run_check(&r, loans[i]);
        }
        for (int wait = 0; wait < 3; wait++) {
            CHECK_EQ(bzna_loader_next(loader,
                                      wait == 0 ? 0 :
                                      wait == 1 ? 1000000 :
                                                  BZNA_WAIT_FOREVER,
                                      &batch, &e),
                     BZNA_E_STATE);
            CHECK(batch == NULL);
            CHECK_CONTAINS(e.message, "all 3 batches are on loan");
        }
        sleep_us(1000);
        for (int i = 0; i < 3; i++)                         /* untouched by what is decoded meanwhile */
            run_check(&again, loans[i]);
        for (int i = 0; i < 3; i++)
            CHECK_EQ(bzna_batch_release(loans[orders[round % 4][i]]), BZNA_OK);
    }
    CHECK_EQ(walk(loader, &r, UINT64_MAX), 8);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

TEST(a_batch_is_released_once)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &mixed);
    bzna_loader_config c = config_of(5, BZNA_ORDER_SHUFFLE);
    bzna_loader *loader = open_loader(dataset, &c);
    bzna_batch *batch = next_batch(loader);
    m.blocked = 1;
    CHECK_EQ(bzna_batch_release(batch), BZNA_OK);
    CHECK_EQ(bzna_batch_release(batch), BZNA_E_STATE);
    CHECK_EQ(bzna_batch_release(NULL), BZNA_OK);
    m.blocked = 0;
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

TEST(polling_and_timeouts_give_again)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &mixed);
    bzna_loader_config c = config_of(5, BZNA_ORDER_SHUFFLE);
    bzna_batch *batch = (bzna_batch *)&m;
    bzna_loader *loader;
    uint64_t start;
    run r = run_of(&mixed, &c);
    m.blocked = 1;
    loader = open_loader(dataset, &c);
    start = bzi_os_now_ns();
    CHECK_EQ(bzna_loader_next(loader, 0, &batch, NULL), BZNA_AGAIN);
    CHECK(batch == NULL);
    CHECK(bzi_os_now_ns() - start < HANG_NS);
    start = bzi_os_now_ns();
    CHECK_EQ(bzna_loader_next(loader, 60000000, &batch, NULL), BZNA_AGAIN);
    CHECK(bzi_os_now_ns() - start >= 60000000 && bzi_os_now_ns() - start < HANG_NS);
    m.blocked = 0;
    CHECK_EQ(bzna_loader_next(loader, INT64_MAX, &batch, NULL), BZNA_OK);        /* a deadline far beyond */
    run_check(&r, batch);
    bzna_batch_release(batch);
    CHECK_EQ(walk(loader, &r, UINT64_MAX), 7);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

static int waiter_ends_within(waiter *w, int ms)
{
    for (int i = 0; i < ms && !w->ended; i++)
        sleep_us(1000);
    return w->ended;
}

TEST(stop_ends_a_waiting_next_at_once_and_until_reset)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &mixed);
    bzna_loader_config c = config_of(5, BZNA_ORDER_SHUFFLE);
    bzna_batch *batch;
    bzna_error e = { .struct_size = sizeof e };
    bzna_loader *loader;
    waiter w;
    run r = run_of(&mixed, &c);
    m.blocked = 1;
    loader = open_loader(dataset, &c);
    waiter_start(&w, loader);
    sleep_us(5000);
    CHECK(!w.ended);
    CHECK_EQ(bzna_loader_next(loader, 0, &batch, &e), BZNA_E_STATE);              /* one thread waits at a time */
    CHECK_CONTAINS(e.message, "another thread");
    CHECK_EQ(bzna_loader_reset(loader, 0, &e), BZNA_E_STATE);
    CHECK_CONTAINS(e.message, "waiting");
    CHECK_EQ(bzna_loader_stop(loader, NULL), BZNA_OK);
    CHECK(waiter_ends_within(&w, 5000));                    /* though the reader is still blocked */
    pthread_join(w.thread, NULL);
    CHECK_EQ(w.status, BZNA_E_STOPPED);
    CHECK(w.batch == NULL);
    CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &e), BZNA_E_STOPPED);
    CHECK_EQ(bzna_loader_next(loader, 0, &batch, &e), BZNA_E_STOPPED);
    CHECK_CONTAINS(e.message, "stopped");
    m.blocked = 0;
    CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL), BZNA_E_STOPPED);
    CHECK_EQ(bzna_loader_reset(loader, 0, NULL), BZNA_OK);
    CHECK_EQ(walk(loader, &r, UINT64_MAX), 8);
    CHECK_EQ(bzna_loader_stop(loader, NULL), BZNA_OK);      /* after the end, too */
    CHECK_EQ(bzna_loader_next(loader, 0, &batch, NULL), BZNA_E_STOPPED);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

/* ---- Reset, save, restore ---------------------------------------------------------------------------------------- */

/* Fails the first sample, once the reader is held up in its read of another one. Later, the last slot of the first
 * batch takes so long that a batch which counts a slot twice comes without it. */
static memory *refusing_memory;
static atomic_int refusals, delayed;

static bzna_status refuse_first(void *user, const bzna_sample_info *info, bzna_random *random, bzna_transform *t)
{
    (void)user, (void)random, (void)t;
    if (refusals++) {
        if (info->slot == 4 && !delayed++)
            sleep_us(300000);
        return BZNA_OK;
    }
    refusing_memory->blocked = 1;
    for (int i = 0; i < 5000 && !refusing_memory->inside; i++)
        sleep_us(300);
    return BZNA_E_CALLBACK;
}

static void *unblock_when_paused(void *argument)
{
    bzna_loader *loader = argument;
    for (int i = 0; i < 10000 && !peek(loader, &loader->queues.paused); i++)
        sleep_us(300);
    refusing_memory->blocked = 0;
    return NULL;
}

TEST(a_reset_drops_a_slot_that_waits_for_another_sample)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &mixed);
    bzna_loader_config c = config_of(5, BZNA_ORDER_SHUFFLE);
    bzna_loader *loader;
    pthread_t opener;
    run r;
    m.delay_us = 20000;                                     /* so that the reader has more to read */
    refusing_memory = &m;
    refusals = delayed = 0;
    c.pipeline.batches_in_flight = 1;                       /* the one whose slot waits is planned again at once */
    c.read.threads = 1;
    c.errors.on_error = BZNA_ON_ERROR_REPLACE;
    c.errors.on_callback_error = BZNA_ON_CALLBACK_ERROR_SAMPLE;
    c.pipeline.transform = refuse_first;
    r = run_of(&mixed, &c);
    loader = open_loader(dataset, &c);
    for (int i = 0; i < 10000 && !peek(loader, &loader->queues.entries[BZI_ENTRY_PLANNED].count); i++)
        sleep_us(300);
    CHECK_EQ(peek(loader, &loader->queues.entries[BZI_ENTRY_PLANNED].count), 1);
    m.delay_us = 0;
    pthread_create(&opener, NULL, unblock_when_paused, loader);
    CHECK_EQ(bzna_loader_reset(loader, 0, NULL), BZNA_OK);
    pthread_join(opener, NULL);
    CHECK_EQ(walk(loader, &r, UINT64_MAX), 8);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

TEST(reset_goes_to_the_start_of_any_epoch)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &mixed);
    bzna_loader_config c = config_of(6, BZNA_ORDER_SHUFFLE);
    static const uint64_t epochs[] = { 3, 1, 1ull << 40, 0 };
    bzna_loader *loader;
    c.order.epochs = 2;
    loader = open_loader(dataset, &c);
    for (size_t k = 0; k < COUNT(epochs); k++)
        for (uint64_t before = 0; before < 20; before += 7) { /* from any place, the end included; with a batch kept */
            run r = run_of(&mixed, &c);
            bzna_batch *kept;
            CHECK_EQ(bzna_loader_reset(loader, epochs[k], NULL), BZNA_OK);
            r.epoch = epochs[k];
            r.end_epoch = r.epoch + 2;
            CHECK_EQ(walk(loader, &r, before), bzi_min(before, 14));
            if (before >= 14)
                continue;
            run again = r;
            kept = next_batch(loader);
            run_check(&r, kept);
            CHECK_EQ(bzna_loader_reset(loader, epochs[k] + 1, NULL), BZNA_OK);
            r.epoch = epochs[k] + 1;
            r.end_epoch = r.epoch + 2;
            r.position = r.number = 0;
            CHECK_EQ(walk(loader, &r, 2), 2);
            run_check(&again, kept);                        /* batches already delivered stay valid */
            CHECK_EQ(bzna_batch_release(kept), BZNA_OK);
        }
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

static bzna_loader_state state_of(bzna_loader *loader)
{
    bzna_loader_state state;
    CHECK_EQ(bzna_loader_save(loader, &state, sizeof state, NULL), BZNA_OK);
    return state;
}

/* Positions the model where a state says, with the rest of a config. */
static run run_from(const archive *a, const bzna_loader_config *c, const bzna_loader_state *state)
{
    run r = run_of(a, c);
    r.c.order.seed = state->seed;
    r.epoch = state->epoch;
    r.position = state->position;
    r.end_epoch = state->end_epoch;
    return r;
}

TEST(a_run_goes_on_from_any_state_with_other_threads_and_batches)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &mixed);
    bzna_loader_config c = config_of(6, BZNA_ORDER_SHUFFLE), other = config_of(9, BZNA_ORDER_SHUFFLE);
    bzna_loader *loader, *second;
    c.order.epochs = 2;
    other.order.seed = 1;                                   /* seed and epochs come from the state */
    other.order.epochs = 9;
    other.order.first_epoch = 100;
    other.decode.threads = 5;
    other.read.threads = 2;
    loader = open_loader(dataset, &c);
    second = open_loader(dataset, &other);
    for (uint64_t cut = 0; cut <= 14; cut += cut == 1 || cut == 8 ? 5 : 1) {      /* around both ends of both epochs */
        bzna_loader_state state, restored;
        uint8_t seen[2][40] = { { 0 }, { 0 } };
        run r = run_of(&mixed, &c);
        CHECK_EQ(bzna_loader_reset(loader, 0, NULL), BZNA_OK);
        r.seen = seen[0];
        for (uint64_t i = 0; i < cut; i++) {
            r.seen = seen[r.epoch];
            walk(loader, &r, 1);
        }
        state = state_of(loader);
        CHECK_EQ(state.epoch, r.epoch);
        CHECK_EQ(state.position, r.position);
        CHECK_EQ(bzna_loader_restore(second, &state, NULL), BZNA_OK);
        restored = state_of(second);
        CHECK(!memcmp(&state, &restored, sizeof state));
        r = run_from(&mixed, &other, &state);
        for (;;) {
            r.seen = r.epoch < 2 ? seen[r.epoch] : NULL;
            if (!walk(second, &r, 1))
                break;
        }
        CHECK(r.epoch == 2 || cut == 14);
        for (int i = 0; i < 40; i++)                        /* both parts together: each sample once an epoch */
            CHECK(seen[0][i] == 1 && seen[1][i] == 1);
    }
    bzna_loader_close(loader);
    bzna_loader_close(second);
    bzna_dataset_close(dataset);
}

TEST(a_state_is_that_of_the_last_delivered_batch_not_of_what_is_read_ahead)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &mixed);
    bzna_loader_config c = config_of(5, BZNA_ORDER_SHUFFLE);
    bzna_loader *loader;
    bzna_loader_state state;
    bzna_batch *batch;
    c.pipeline.batches_in_flight = 6;
    loader = open_loader(dataset, &c);
    for (int i = 0; i < 200 && m.reads < 20; i++)
        sleep_us(5000);
    state = state_of(loader);
    CHECK(state.epoch == 0 && state.position == 0);
    batch = next_batch(loader);
    state = state_of(loader);                               /* on loan counts as delivered */
    CHECK(state.epoch == 0 && state.position == 5);
    bzna_batch_release(batch);
    bzna_loader_stop(loader, NULL);
    state = state_of(loader);
    CHECK(state.position == 5);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

TEST(a_state_restored_in_a_world_of_another_size_leaves_nothing_out)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &mixed);
    for (uint32_t policy = 0; policy < 3; policy += 2)
        for (uint64_t cut = 0; cut < 4; cut++) {
            uint8_t seen[40] = { 0 };
            bzna_loader_state state;
            memset(&state, 0, sizeof state);
            for (uint32_t rank = 0; rank < 2; rank++) {     /* two ranks of five a batch, up to the cut */
                bzna_loader_config c = config_of(5, BZNA_ORDER_SHUFFLE);
                bzna_loader_state here;
                c.shard.rank = rank;
                c.shard.world_size = 2;
                c.order.last_batch = policy;
                bzna_loader *loader = open_loader(dataset, &c);
                run r = run_of(&mixed, &c);
                r.seen = seen;
                CHECK_EQ(walk(loader, &r, cut), cut);
                here = state_of(loader);
                CHECK(rank == 0 || !memcmp(&here, &state, sizeof state));        /* all ranks save the same */
                state = here;
                bzna_loader_close(loader);
            }
            for (uint32_t rank = 0; rank < 3; rank++) {     /* three ranks of four go on */
                bzna_loader_config c = config_of(4, BZNA_ORDER_SHUFFLE);
                c.shard.rank = rank;
                c.shard.world_size = 3;
                c.order.last_batch = policy;
                c.decode.threads = 1;
                bzna_loader *loader = open_loader(dataset, &c);
                run r = run_from(&mixed, &c, &state);
                r.seen = seen;
                CHECK_EQ(bzna_loader_restore(loader, &state, NULL), BZNA_OK);
                CHECK_EQ(walk(loader, &r, UINT64_MAX), (40 - cut * 10 + 11) / 12);
                bzna_loader_close(loader);
            }
            for (int i = 0; i < 40; i++)
                CHECK_EQ(seen[i], 1);
        }
    bzna_dataset_close(dataset);
}

TEST(states_of_other_datasets_or_orders_and_damaged_ones_are_refused)
{
    memory m, n, o;
    bzna_dataset *dataset = open_archive(&m, &mixed), *another = open_archive(&n, &quick),
                 *as_many = open_archive(&o, &twin);
    bzna_loader_config c = config_of(6, BZNA_ORDER_SHUFFLE), sequential = config_of(6, BZNA_ORDER_SEQUENTIAL);
    bzna_loader *loader = open_loader(dataset, &c), *other_data = open_loader(another, &c),
                *other_order = open_loader(dataset, &sequential);
    bzna_loader *same_count = open_loader(as_many, &c);
    bzna_loader_state state, bad;
    bzna_error e = { .struct_size = sizeof e };
    run r = run_of(&mixed, &c);
    walk(loader, &r, 2);
    state = state_of(loader);
    CHECK_EQ(bzna_loader_restore(other_data, &state, &e), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(e.message, "state.fingerprint");
    CHECK_EQ(bzna_loader_restore(same_count, &state, &e), BZNA_E_ARGUMENT);       /* other samples, as many */
    CHECK_CONTAINS(e.message, "state.fingerprint");
    CHECK_EQ(bzna_loader_restore(other_order, &state, &e), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(e.message, "state.order");
    for (size_t byte = 0; byte < sizeof state; byte++)
        for (int bit = 0; bit < 8; bit++) {
            bad = state;
            ((uint8_t *)&bad)[byte] = (uint8_t)(((uint8_t *)&bad)[byte] ^ 1 << bit);
            CHECK_EQ(bzna_loader_restore(loader, &bad, &e), BZNA_E_ARGUMENT);
        }
    CHECK_CONTAINS(e.message, "state.check");
    bad = state;
    bad.position = 41;                                      /* a state that someone made, with the right check */
    bad.check = bzi_loader_state_check(&bad);
    CHECK_EQ(bzna_loader_restore(loader, &bad, &e), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(e.message, "state.position");
    bad.check = 0;                                          /* with none */
    CHECK_EQ(bzna_loader_restore(loader, &bad, &e), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(e.message, "state.position");
    CHECK_EQ(bzna_loader_restore(loader, NULL, &e), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_loader_restore(NULL, &state, &e), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_loader_save(loader, &state, sizeof state - 1, NULL), BZNA_E_STRUCT_SIZE);
    CHECK_EQ(bzna_loader_save(loader, NULL, sizeof state, NULL), BZNA_E_ARGUMENT);
    CHECK_EQ(walk(loader, &r, UINT64_MAX), 5);              /* and the loader goes on as if nothing had been asked */
    bad.position = 8;                                       /* a position that the program has set */
    CHECK_EQ(bzna_loader_restore(loader, &bad, &e), BZNA_OK);
    CHECK_EQ(state_of(loader).position, 8);
    bzna_loader_close(loader);
    bzna_loader_close(other_data);
    bzna_loader_close(other_order);
    bzna_loader_close(same_count);
    bzna_dataset_close(dataset);
    bzna_dataset_close(another);
    bzna_dataset_close(as_many);
}

/* ---- Shards ------------------------------------------------------------------------------------------------------ */

TEST(all_ranks_together_see_each_sample_once)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &mixed);
    static const uint32_t worlds[] = { 3, 64 };
    for (uint32_t policy = 0; policy < 3; policy++)
        for (size_t w = 0; w < COUNT(worlds); w++) {
            uint8_t seen[40] = { 0 };
            uint64_t batches = 0, real = 0, total = 0;
            if (policy == BZNA_LAST_DROP && 4 * worlds[w] > 40)
                continue;
            for (uint32_t rank = 0; rank < worlds[w]; rank++) {
                bzna_loader_config c = config_of(4, BZNA_ORDER_SHUFFLE);
                bzna_loader_info info;
                uint64_t here;
                c.shard.rank = rank;
                c.shard.world_size = worlds[w];
                c.order.last_batch = policy;
                bzna_loader *loader = open_loader(dataset, &c);
                run r = run_of(&mixed, &c);
                r.seen = seen;
                here = walk(loader, &r, UINT64_MAX);
                CHECK(rank == 0 || here == batches);
                batches = here;
                CHECK_EQ(bzna_loader_get_info(loader, &info, sizeof info, NULL), BZNA_OK);
                CHECK_EQ(info.batches_per_epoch, here);
                total += info.samples_per_epoch;
                bzna_loader_close(loader);
            }
            for (int i = 0; i < 40; i++) {
                CHECK(seen[i] == 1 || (policy == BZNA_LAST_DROP && seen[i] == 0));
                real += seen[i];
            }
            CHECK_EQ(real, policy == BZNA_LAST_DROP ? batches * 4 * worlds[w] : 40);
            CHECK_EQ(total, real);
        }
    bzna_dataset_close(dataset);
}

/* ---- Samples that fail ------------------------------------------------------------------------------------------- */

/* Where the access unit of a sample lies. */
static bzna_image_info image_at(bzna_dataset *dataset, uint64_t index)
{
    bzna_image_info image;
    require(bzna_dataset_image_info(dataset, index, NULL, &image, sizeof image, NULL), "image");
    return image;
}

static void find_error(bzna_loader *loader, uint64_t index, bzna_error *e)
{
    bzna_batch *batch;
    memset(e, 0, sizeof *e);
    e->struct_size = sizeof *e;
    while (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
        bzna_batch_info info = info_of(batch);
        for (uint32_t i = 0; i < info.image.shape[0]; i++) {
            bzna_error other = { .struct_size = sizeof other };
            CHECK_EQ(bzna_batch_error(batch, i, info.indices[i] == index ? e : &other), info.status[i]);
            CHECK(info.indices[i] == index || (other.status == 0 && other.message[0] == 0));
        }
        CHECK_EQ(bzna_batch_error(batch, (uint32_t)info.image.shape[0], e->message[0] ? NULL : e), BZNA_E_RANGE);
        bzna_batch_release(batch);
    }
}

/* Damages each n-th sample: the length of its first NAL unit is more than there is. */
static void hurt_every(archive *a, uint64_t n)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, a);
    for (uint64_t i = 0; i < a->count; i += n) {
        a->bytes[image_at(dataset, i).data_offset] = 0xff;
        a->bad[i] = 1;
    }
    bzna_dataset_close(dataset);
}

TEST(a_corrupt_sample_costs_its_own_slot_and_no_other)
{
    enum { BAD = 23 };
    memory m;
    bzna_dataset *clean = open_archive(&m, &mixed);
    bzna_image_info image = image_at(clean, BAD);
    archive damaged = archive_copy(&mixed);
    uint8_t *bytes = damaged.bytes;
    static const char *const parts[] = { "a unit of the picture is longer", "no picture", "no moov box" };
    static const bzna_status statuses[] = { BZNA_E_BOX, BZNA_E_DECODE, BZNA_E_BOX };
    for (int kind = 0; kind < 3; kind++)
        for (int fill = 0; fill < 3; fill++)
            for (uint32_t policy = 0; policy < (kind == fill ? 3u : 1u); policy += 2) {
                bzna_loader_config c = config_of(9, BZNA_ORDER_SHUFFLE);
                memory broken;
                bzna_dataset *dataset;
                bzna_loader *loader;
                bzna_error e;
                run r;
                memcpy(bytes, mixed.bytes, (size_t)mixed.size);
                if (kind == 0) {
                    bytes[image.data_offset] = 0xff;
                } else if (kind == 1) {                     /* every unit becomes an access unit delimiter */
                    for (uint64_t at = image.data_offset; at + 5 < image.data_offset + image.data_size;
                         at += 4 + bzi_be32(bytes + at))
                        bytes[at + 4] = 0x46;
                } else {
                    for (uint64_t at = image.data_offset; at + 4 < image.data_offset + 40000 && at + 4 < mixed.size;
                         at++)
                        if (!memcmp(bytes + at, "moov", 4)) {
                            memcpy(bytes + at, "free", 4);
                            break;
                        }
                }
                c.order.last_batch = policy;
                if (fill > 0)
                    for (int i = 0; i < 3; i++) {
                        c.color.fill[i] = 30 + 7 * (float)i;
                        c.color.mean[i] = 120 + (float)i;
                        c.color.std[i] = 55 + (float)i;
                    }
                c.color.fill_space = fill == 2 ? BZNA_FILL_OUTPUT : BZNA_FILL_RGB;
                dataset = open_archive(&broken, &damaged);
                loader = open_loader(dataset, &c);
                r = run_of(&mixed, &c);
                r.bad_index = BAD;
                r.bad_status = statuses[kind];
                /* every other slot is what it is in a clean run, to the bit */
                CHECK_EQ(walk(loader, &r, UINT64_MAX), 5);
                CHECK_EQ(bzna_loader_reset(loader, 0, NULL), BZNA_OK);
                find_error(loader, BAD, &e);
                CHECK_EQ(e.status, statuses[kind]);
                CHECK_CONTAINS(e.message, "memory.bzna: ");
                CHECK_CONTAINS(e.message, "sample 23: ");
                CHECK_CONTAINS(e.message, parts[kind]);
                bzna_loader_close(loader);
                bzna_dataset_close(dataset);
            }
    archive_clear(&damaged);
    bzna_dataset_close(clean);
}

/* Damage that may or may not be noticed: the loader then says what a decoder without a past says. */
TEST(damage_in_a_slice_has_the_same_outcome_in_a_loader_as_alone)
{
    enum { BAD = 6 };
    memory m;
    bzna_dataset *clean = open_archive(&m, &mixed);
    bzna_image_info image = image_at(clean, BAD);
    archive damaged = archive_copy(&mixed);
    uint8_t *bytes = damaged.bytes, *buffer = malloc((size_t)mixed.size);
    int failed = 0;
    REQUIRE(buffer != NULL);
    for (uint64_t k = 0; k < 12; k++) {
        bzna_loader_config c = config_of(4, BZNA_ORDER_SEQUENTIAL);
        bzna_image whole = { .struct_size = sizeof whole };
        bzna_picture picture = { .struct_size = sizeof picture };
        bzna_output output = { .struct_size = sizeof output, .width = WIDTH, .height = HEIGHT };
        bzna_decoder *decoder = NULL;
        bzna_transform t;
        memory broken;
        bzna_dataset *dataset;
        bzna_loader *loader;
        bzna_batch *batch;
        bzna_status alone;
        float expected[SLOT];
        memcpy(bytes, mixed.bytes, (size_t)mixed.size);
        for (uint64_t at = 8 + k; at < image.data_size; at += 60)
            bytes[image.data_offset + at] ^= (uint8_t)(1 + k * 9);
        dataset = open_archive(&broken, &damaged);
        c.warp.kind = BZNA_WARP_NONE;
        c.warp.flip_h = 0;
        c.decode.threads = 1;
        require(bzna_decoder_open(context, &decoder, NULL), "decoder");
        require(bzna_dataset_read_image(dataset, BAD, NULL, buffer, (size_t)mixed.size, &whole, NULL), "image");
        alone = bzna_decoder_decode(decoder, &whole, &picture, NULL);
        loader = open_loader(dataset, &c);
        for (int n = 0; n < 3; n++) {                       /* it is in the second of them */
            batch = next_batch(loader);
            bzna_batch_info info = info_of(batch);
            run r = run_of(&mixed, &c);
            for (uint32_t i = 0; i < info.image.shape[0]; i++) {
                const float *data = (const float *)info.image.data + i * SLOT;
                if (info.indices[i] != BAD) {
                    CHECK(slot_is_right(&r, &info, i, 0, info.indices[i]));
                    continue;
                }
                CHECK_EQ(info.status[i], alone);
                failed += alone < 0;
                if (alone < 0) {
                    CHECK(is_filled(&c, data));
                    continue;
                }
                bzna_transform_init(&t, sizeof t);
                t.homography[2] = (picture.width - WIDTH) / 2.0;
                t.homography[5] = (picture.height - HEIGHT) / 2.0;
                CHECK_EQ(bzna_picture_render(&picture, &t, &output, expected, sizeof expected, NULL), BZNA_OK);
                CHECK(!memcmp(expected, data, sizeof expected));
            }
            bzna_batch_release(batch);
        }
        bzna_loader_close(loader);
        bzna_decoder_close(decoder);
        bzna_dataset_close(dataset);
    }
    CHECK(failed > 0);
    archive_clear(&damaged);
    free(buffer);
    bzna_dataset_close(clean);
}

TEST(a_read_that_fails_costs_its_own_sample)
{
    enum { BAD = 11 };
    static const struct { int64_t result; bzna_status status; int32_t native; const char *part; } ways[] = {
        { -5, BZNA_E_IO, -5, "failed with -5" }, { 0, BZNA_E_TRUNCATED, 0, "too early" },
        { INT64_MAX, BZNA_E_CALLBACK, 0, "read_at failed" }, { INT64_MAX - 1, BZNA_E_CALLBACK, 0, "read_at returned" },
        { INT64_MIN, BZNA_E_IO, -1, "failed with" },
    };
    for (size_t k = 0; k < COUNT(ways); k++) {
        memory m;
        bzna_dataset *dataset = open_archive(&m, &mixed);
        bzna_image_info image = image_at(dataset, BAD);
        bzna_loader_config c = config_of(9, BZNA_ORDER_SHUFFLE);
        bzna_loader *loader;
        bzna_error e;
        run r = run_of(&mixed, &c);
        c.errors.on_callback_error = BZNA_ON_CALLBACK_ERROR_SAMPLE;
        m.faults[0] = (fault){ image.data_offset, image.data_offset + 1, ways[k].result, -1 };
        m.fault_count = 1;
        r.bad_index = BAD;
        r.bad_status = ways[k].status;
        loader = open_loader(dataset, &c);
        CHECK_EQ(walk(loader, &r, UINT64_MAX), 5);
        bzna_loader_reset(loader, 0, NULL);
        find_error(loader, BAD, &e);
        CHECK_EQ(e.status, ways[k].status);
        CHECK_EQ(e.native_code, ways[k].native);
        CHECK_CONTAINS(e.message, "memory.bzna: sample 11");
        CHECK_CONTAINS(e.message, ways[k].part);
        m.fault_count = 0;                                  /* when reading works again, so does the sample */
        bzna_loader_reset(loader, 1, NULL);
        r.bad_index = UINT64_MAX;
        r.epoch = 1;
        r.end_epoch = 2;
        r.position = r.number = 0;
        CHECK_EQ(walk(loader, &r, UINT64_MAX), 5);
        bzna_loader_close(loader);
        bzna_dataset_close(dataset);
    }
}

TEST(a_track_that_is_not_there_is_refused_and_one_that_is_serves)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &mixed);
    bzna_loader_config c = config_of(40, BZNA_ORDER_SEQUENTIAL);
    bzna_loader *loader = NULL;
    bzna_error e = { .struct_size = sizeof e };
    char name[16] = "bzna_input";
    run r;
    c.fields.image = "no_such_track";
    CHECK_EQ(bzna_loader_open(context, dataset, &c, &loader, &e), BZNA_E_NOT_FOUND);
    CHECK(loader == NULL);
    CHECK_CONTAINS(e.message, "loader_config.fields.image: ");
    CHECK_CONTAINS(e.message, "no_such_track");
    c.fields.image = name;
    loader = open_loader(dataset, &c);
    memset(name, 'x', sizeof name);                         /* the name was copied */
    r = run_of(&mixed, &c);
    CHECK_EQ(walk(loader, &r, UINT64_MAX), 1);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

/* ---- The transform callback -------------------------------------------------------------------------------------- */

/* What the callback was told, by index, and what it makes of samples: index % 8 chooses. */
typedef struct told {
    bzna_sample_info info[64];
    uint32_t         words[64];
    atomic_int       calls[64], wrong;
} told;

enum { LEAVE, TURN, RECOLOR, FAIL, NOT_A_NUMBER, FORCE_MATRIX, SHIFT_OUT, HUGE_MATRIX };

/* The change itself, for the callback and for the oracle. */
static bzna_status change(uint64_t index, uint32_t word, bzna_transform *t)
{
    switch (index % 8) {
    case TURN:
        t->homography[0] = 0.5, t->homography[1] = 3 + (word & 7), t->homography[2] = 10;
        t->homography[3] = -4, t->homography[4] = 0.25, t->homography[5] = 120;
        t->homography[6] = 1e-3, t->homography[7] = -2e-3, t->homography[8] = 1;
        return BZNA_OK;
    case RECOLOR:
        for (int i = 0; i < 3; i++) {
            t->bias[i] = 10 + (float)i;
            t->scale[i] = 0.5f + (float)i;
            t->fill[i] = 3;
        }
        t->color[0] = 0.25f, t->color[1] = 0.5f, t->color[2] = 0.25f, t->color[3] = 9;
        return BZNA_OK;
    case FAIL:
        return -1234;
    case NOT_A_NUMBER:
        t->homography[4] = NAN;
        return BZNA_OK;
    case FORCE_MATRIX:
        t->matrix = BZNA_MATRIX_BT2020;
        return 7;                                           /* a positive result is no failure */
    case SHIFT_OUT:
        t->homography[2] += 100000;
        t->fill[0] = 1, t->fill[1] = 2, t->fill[2] = 3;
        t->fill_space = BZNA_FILL_OUTPUT;
        return BZNA_OK;
    case HUGE_MATRIX:
        t->homography[0] = 1e300;
        return BZNA_OK;
    default:
        return BZNA_OK;
    }
}

static bzna_status callback(void *user, const bzna_sample_info *info, bzna_random *random, bzna_transform *t)
{
    told *all = user;
    uint32_t word = bzna_random_u32(random);
    if (info->index >= 64 || info->struct_size != sizeof *info || t->struct_size != sizeof *t) {
        all->wrong++;
        return BZNA_OK;
    }
    if (all->calls[info->index]++ == 0) {
        all->info[info->index] = *info;
        all->words[info->index] = word;
    }
    return change(info->index, word, t);
}

TEST(a_callback_may_change_everything_and_its_failure_costs_its_own_slot)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &mixed);
    static told all;
    bzna_loader_config c = config_of(9, BZNA_ORDER_SHUFFLE);
    bzna_loader *loader;
    bzna_batch *batch;
    uint64_t position = 0;
    memset(&all, 0, sizeof all);
    c.pipeline.transform = callback;
    c.errors.on_callback_error = BZNA_ON_CALLBACK_ERROR_SAMPLE;
    c.pipeline.transform_user = &all;
    c.order.first_epoch = 3;
    for (int i = 0; i < 3; i++)
        c.color.fill[i] = 50 + (float)i, c.color.bias[i] = 20, c.color.scale[i] = 2;
    loader = open_loader(dataset, &c);
    while (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
        bzna_batch_info info = info_of(batch);
        for (uint32_t i = 0; i < info.count; i++, position++) {
            uint64_t index = bzna_order_permute(c.order.seed, 3, 40, position);
            const bzna_picture *picture = picture_of(&mixed, index);
            const bzna_sample_info *told_of = &all.info[index];
            const float *data = (const float *)info.image.data + i * SLOT;
            bzna_transform t;
            bzna_random random;
            bzna_error e = { .struct_size = sizeof e };
            bzna_output output = { .struct_size = sizeof output, .width = WIDTH, .height = HEIGHT };
            float expected[SLOT];
            bzna_random_init(&random, c.order.seed, 3, index, BZNA_RANDOM_USER);
            CHECK_EQ(info.indices[i], index);
            CHECK_EQ(all.calls[index], 1);
            CHECK_EQ(all.words[index], bzna_random_u32(&random));
            CHECK(told_of->slot == i && told_of->index == index && told_of->epoch == 3 &&
                  told_of->target == target_of(&mixed, index));
            CHECK(told_of->width == picture->width && told_of->height == picture->height &&
                  told_of->out_width == WIDTH && told_of->out_height == HEIGHT);
            transform_of(&c, &t);
            bzna_random_init(&random, c.order.seed, 3, index, BZNA_RANDOM_WARP);
            CHECK_EQ(
                bzna_warp_draw(&random, &c.warp, picture->width, picture->height, WIDTH, HEIGHT, t.homography, NULL),
                BZNA_OK);
            change(index, all.words[index], &t);
            if (index % 8 == FAIL || index % 8 == NOT_A_NUMBER) {
                CHECK_EQ(info.status[i], BZNA_E_CALLBACK);
                CHECK(is_filled(&c, data));                 /* the config's color */
                CHECK_EQ(bzna_batch_error(batch, i, &e), BZNA_E_CALLBACK);
                CHECK_CONTAINS(e.message, index % 8 == FAIL ? "callback returned -1234" : "transform.homography");
                CHECK(index % 8 != FAIL || e.native_code == -1234);
                continue;
            }
            CHECK_EQ(info.status[i], BZNA_OK);
            CHECK_EQ(bzna_picture_render(picture, &t, &output, expected, sizeof expected, NULL), BZNA_OK);
            CHECK(!memcmp(expected, data, sizeof expected));
            CHECK(index % 8 != SHIFT_OUT ||
                  (data[0] == 1 && data[WIDTH * HEIGHT] == 2 && data[2 * WIDTH * HEIGHT] == 3));
        }
        bzna_batch_release(batch);
    }
    CHECK_EQ(position, 40);
    CHECK_EQ(all.wrong, 0);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

/* Numbers that the kernels could not bear: the library must look at what a callback returns before it uses it. */
static bzna_status wild_callback(void *user, const bzna_sample_info *info, bzna_random *random, bzna_transform *t)
{
    (void)user;
    (void)random;
    switch (info->index % 8) {
    case 0: t->matrix = 7; break;
    case 1: t->matrix = UINT32_MAX; break;
    case 2: t->filter = 99; break;
    case 3: t->antialias = 3; break;
    case 4: t->fill_space = 2; break;
    case 5: t->scale[1] = INFINITY; break;
    case 6: t->color[11] = NAN; break;
    default: t->fill[2] = NAN; break;
    }
    return BZNA_OK;
}

TEST(what_a_callback_returns_is_checked_before_it_is_used)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &mixed);
    bzna_loader_config c = config_of(40, BZNA_ORDER_SEQUENTIAL);
    static const char *const fields[] = { "transform.matrix",     "transform.matrix",
                                          "transform.filter",     "transform.antialias",
                                          "transform.fill_space", "is not a finite number",
                                          "transform.color",      "is not a finite number" };
    bzna_statistics stats = { .struct_size = sizeof stats };
    bzna_loader *loader;
    bzna_batch *batch;
    c.pipeline.transform = wild_callback;
    c.errors.on_callback_error = BZNA_ON_CALLBACK_ERROR_SAMPLE;
    loader = open_loader(dataset, &c);
    batch = next_batch(loader);
    CHECK_EQ(info_of(batch).failed, 40);
    CHECK_EQ(bzna_loader_statistics(loader, &stats, sizeof stats, NULL), BZNA_OK);
    CHECK_EQ(stats.first_failed_status, BZNA_E_CALLBACK);   /* kept without a log */
    CHECK(stats.first_failed_index < mixed.count);
    CHECK_CONTAINS(stats.first_failed_message, fields[stats.first_failed_index % 8]);
    for (uint32_t i = 0; i < 40; i++) {
        bzna_error e = { .struct_size = sizeof e };
        CHECK_EQ(bzna_batch_error(batch, i, &e), BZNA_E_CALLBACK);
        CHECK_CONTAINS(e.message, fields[i % 8]);
    }
    bzna_batch_release(batch);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

/* ---- Callbacks that try to close what they run in ---------------------------------------------------------------- */

static bzna_loader *_Atomic meddled_loader;
static bzna_dataset *_Atomic meddled_dataset;
static bzna_context *_Atomic meddled_context;
static atomic_int meddled, not_refused;

static bzna_status meddle(void)
{
    bzna_loader *loader = meddled_loader;
    bzna_batch *batch;
    if (!loader)
        return BZNA_OK;
    meddled++;
    not_refused += bzna_loader_close(loader) != BZNA_E_STATE;
    not_refused += bzna_dataset_close(meddled_dataset) != BZNA_E_STATE;
    not_refused += bzna_context_close(meddled_context) != BZNA_E_STATE;
    not_refused += bzna_loader_next(loader, 0, &batch, NULL) != BZNA_E_STATE;
    not_refused += bzna_loader_reset(loader, 0, NULL) != BZNA_E_STATE;
    return BZNA_OK;
}

static bzna_status meddling_transform(void *user, const bzna_sample_info *info, bzna_random *random, bzna_transform *t)
{
    (void)user;
    (void)info;
    (void)random;
    (void)t;
    return meddle();
}

static void meddling_log(void *user, int32_t level, bzna_status code, const char *message)
{
    (void)user;
    (void)level;
    (void)code;
    (void)message;
    meddle();
}

TEST(closing_inside_a_callback_is_refused_and_does_nothing)
{
    for (int where = 0; where < 4; where++) {               /* transform, read_at, log, log from any thread */
        memory m;
        ledger l;
        bzna_context *own = open_context(&l, where >= 2 ? meddling_log : NULL, NULL, where == 3);
        bzna_dataset *dataset;
        bzna_loader_config c = config_of(9, BZNA_ORDER_SHUFFLE);
        bzna_loader *loader = NULL;
        uint64_t batches = 0;
        bzna_batch *batch;
        dataset = open_split(own, &m, &mixed, NULL);
        meddled = not_refused = 0;
        c.order.epochs = 3;
        if (where == 0)
            c.pipeline.transform = meddling_transform;
        if (where == 1)
            m.meddle = meddle;
        if (where >= 2)
            c.read.memory_bytes = 1;                        /* so that there is something to log */
        meddled_dataset = dataset;
        meddled_context = own;
        require(bzna_loader_open(own, dataset, &c, &loader, NULL), "loader");
        meddled_loader = loader;
        while (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
            batches++;
            bzna_batch_release(batch);
        }
        CHECK_EQ(batches, 15);
        CHECK(meddled > 0);
        CHECK_EQ(not_refused, 0);
        meddled_loader = NULL;
        CHECK_EQ(bzna_loader_close(loader), BZNA_OK);
        CHECK_EQ(bzna_dataset_close(dataset), BZNA_OK);
        CHECK_EQ(bzna_context_close(own), BZNA_OK);
        CHECK_EQ(m.closes, 1);
        check_settled(&l);
    }
}

/* ---- Messages ---------------------------------------------------------------------------------------------------- */

typedef struct listener {
    pthread_t  caller;
    atomic_int here, elsewhere, with_names, errors, in_a_row;
} listener;

static void listen_log(void *user, int32_t level, bzna_status code, const char *message)
{
    listener *l = user;
    if (pthread_equal(pthread_self(), l->caller))
        l->here++;
    else
        l->elsewhere++;
    l->errors += level == BZNA_LOG_ERROR && strstr(message, "all 10 samples of batch ") != NULL;
    l->with_names += level == BZNA_LOG_WARNING && code == BZNA_E_LIMIT &&
                     strstr(message, "memory.bzna: sample ") != NULL;
}

TEST(warnings_come_on_the_callers_thread_unless_asked_otherwise)
{
    for (uint32_t any = 0; any < 2; any++) {
        listener heard;
        memory m;
        bzna_context *own;
        bzna_dataset *dataset;
        bzna_loader *loader = NULL;
        bzna_loader_config c = config_of(10, BZNA_ORDER_SEQUENTIAL);
        bzna_batch *batch;
        memset(&heard, 0, sizeof heard);
        heard.caller = pthread_self();
        own = open_context(NULL, listen_log, &heard, any);
        dataset = open_split(own, &m, &mixed, NULL);
        c.read.memory_bytes = 1;                            /* so that there is something to log */
        require(bzna_loader_open(own, dataset, &c, &loader, NULL), "loader");
        while (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK)
            bzna_batch_release(batch);
        bzna_loader_close(loader);
        bzna_dataset_close(dataset);
        bzna_context_close(own);
        CHECK_EQ(heard.errors, 4); /* one a batch of which nothing is left: by the thread that takes it */
        CHECK_EQ(any ? heard.here : heard.elsewhere, any ? 4 : 0);
        /* the queue holds 32 at a time */
        CHECK(any ? heard.elsewhere == 40 && heard.with_names == 40 : heard.here >= 30 && heard.with_names >= 30);
    }
}

/* ---- Lifetimes --------------------------------------------------------------------------------------------------- */

TEST(batches_outlive_loader_dataset_and_context_and_then_all_memory_is_back)
{
    static const int orders[3][3] = { { 0, 1, 2 }, { 2, 0, 1 }, { 1, 2, 0 } }; /* of closing loader, dataset, context */
    for (int k = 0; k < 6; k++) {
        memory m;
        ledger l;
        bzna_context *own = open_context(&l, NULL, NULL, 0);
        bzna_dataset *dataset;
        bzna_loader_config c = config_of(7, BZNA_ORDER_SHUFFLE);
        bzna_loader *loader = NULL;
        bzna_batch *loans[3];
        run r = run_of(&mixed, &c), again = r;
        dataset = open_split(own, &m, &mixed, NULL);
        require(bzna_loader_open(own, dataset, &c, &loader, NULL), "loader");
        for (int i = 0; i < 3; i++) {
            loans[i] = next_batch(loader);
            REQUIRE(loans[i] != NULL);
            run_check(&r, loans[i]);
        }
        for (int i = 0; i < 3; i++)
            CHECK_EQ(orders[k % 3][i] == 0 ? bzna_loader_close(loader) :
                     orders[k % 3][i] == 1 ? bzna_dataset_close(dataset) :
                                             bzna_context_close(own),
                     BZNA_OK);
        CHECK_EQ(m.closes, 1);                              /* batches need no dataset */
        CHECK(l.blocks > 0);
        for (int i = 0; i < 3; i++)
            run_check(&again, loans[i]);
        for (int i = 0; i < 3; i++) {
            CHECK(l.blocks > 0);
            CHECK_EQ(bzna_batch_release(loans[k < 3 ? i : 2 - i]), BZNA_OK);
        }
        check_settled(&l);
    }
}

TEST(a_loader_can_be_closed_in_every_phase)
{
    for (int phase = 0; phase < 8; phase++)
        for (int repeat = 0; repeat < 3; repeat++) {
            memory m;
            ledger l;
            bzna_context *own = open_context(&l, NULL, NULL, 0);
            bzna_dataset *dataset;
            bzna_loader_config c = config_of(5, BZNA_ORDER_SHUFFLE);
            bzna_loader *loader = NULL;
            bzna_batch *batch = NULL;
            dataset = open_split(own, &m, &mixed, NULL);
            m.jitter_us = phase >= 6 ? 4000 : 0;
            c.order.epochs = phase == 3 ? 1 : BZNA_EPOCHS_ENDLESS;
            c.decode.threads = 3;
            c.read.threads = 2;
            require(bzna_loader_open(own, dataset, &c, &loader, NULL), "loader");
            switch (phase) {
            case 0:                                         /* right after open */
                break;
            case 1:                                         /* with a batch on loan */
                batch = next_batch(loader);
                break;
            case 2:                                         /* stopped */
                batch = next_batch(loader);
                CHECK_EQ(bzna_loader_stop(loader, NULL), BZNA_OK);
                break;
            case 3:                                         /* at the end */
                while (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK)
                    bzna_batch_release(batch);
                break;
            case 4:                                         /* all is full, and everyone waits for the consumer */
                for (int i = 0; i < 100 && m.reads < 15; i++)
                    sleep_us(1000);
                sleep_us(3000);
                break;
            case 5:                                         /* reset and stopped */
                CHECK_EQ(bzna_loader_reset(loader, 9, NULL), BZNA_OK);
                CHECK_EQ(bzna_loader_stop(loader, NULL), BZNA_OK);
                break;
            case 6:                                         /* while all are reading */
                break;
            default:                                        /* while reading, one on loan */
                batch = next_batch(loader);
                break;
            }
            CHECK_EQ(bzna_loader_close(loader), BZNA_OK);
            CHECK_EQ(m.inside, 0);                          /* nothing fires after close */
            CHECK_EQ(bzna_batch_release(batch), BZNA_OK);
            CHECK_EQ(bzna_dataset_close(dataset), BZNA_OK);
            CHECK_EQ(bzna_context_close(own), BZNA_OK);
            CHECK_EQ(m.closes, 1);
            check_settled(&l);
        }
}

/* The waiting thread must have left the loader's and the context's memory before it goes. */
TEST(closing_ends_a_waiting_next)
{
    for (int repeat = 0; repeat < 12; repeat++) {
        memory m;
        ledger l;
        bzna_context *own = open_context(&l, meddling_log, NULL, 0);
        bzna_dataset *dataset;
        bzna_loader_config c = config_of(20, BZNA_ORDER_SHUFFLE);
        bzna_loader *loader = NULL;
        waiter w;
        dataset = open_split(own, &m, &mixed, NULL);
        m.delay_us = 20000;                                 /* the batch is not there before its waiter */
        m.jitter_us = 8000;
        require(bzna_loader_open(own, dataset, &c, &loader, NULL), "loader");
        waiter_start(&w, loader);
        CHECK_EQ(bzna_dataset_close(dataset), BZNA_OK);
        CHECK_EQ(bzna_context_close(own), BZNA_OK);         /* the loader holds the last references to both */
        CHECK_EQ(bzna_loader_close(loader), BZNA_OK);
        pthread_join(w.thread, NULL);
        CHECK_EQ(w.status, BZNA_E_STOPPED);
        CHECK(w.batch == NULL);
        CHECK_EQ(m.closes, 1);
        check_settled(&l);
    }
}

TEST(closing_null_does_nothing)
{
    bzna_batch *batch;
    bzna_loader_info info;
    bzna_statistics stats;
    CHECK_EQ(bzna_loader_close(NULL), BZNA_OK);
    CHECK_EQ(bzna_loader_stop(NULL, NULL), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_loader_next(NULL, 0, &batch, NULL), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_loader_reset(NULL, 0, NULL), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_loader_get_info(NULL, &info, sizeof info, NULL), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_loader_statistics(NULL, &stats, sizeof stats, NULL), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_batch_error(NULL, 0, NULL), BZNA_E_ARGUMENT);
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

TEST(every_allocation_of_open_may_fail)
{
    memory m;
    ledger l;
    bzna_context *own = open_context(&l, NULL, NULL, 0);
    bzna_dataset *dataset;
    bzna_loader_config c = config_of(5, BZNA_ORDER_SHUFFLE);
    int64_t blocks, bytes;
    int n = 1, opened = 0;
    dataset = open_split(own, &m, &mixed, NULL);
    c.fields.image = "bzna_thumb";
    blocks = l.blocks;
    bytes = l.bytes;
    for (; n < 100 && !opened; n++) {
        bzna_loader *loader = (bzna_loader *)&m;
        bzna_error e = { .struct_size = sizeof e };
        bzna_status status;
        l.fail_at = n;
        status = bzna_loader_open(own, dataset, &c, &loader, &e);
        opened = status == BZNA_OK;
        l.fail_at = 0;
        if (opened) {
            run r = run_of(&mixed, &c);
            CHECK_EQ(walk(loader, &r, UINT64_MAX), 8);
            bzna_loader_close(loader);
        } else {
            CHECK_EQ(status, BZNA_E_MEMORY);
            CHECK_CONTAINS(e.message, "out of memory");
            CHECK(loader == NULL);
        }
        if (TEST_NVDEC && opened)
            break;                                          /* the context's sessions keep their buffers */
        CHECK_EQ(l.blocks, blocks);
        CHECK_EQ(l.bytes, bytes);
    }
    CHECK(opened && n > 10);
    CHECK_EQ(m.closes, 0);
    bzna_dataset_close(dataset);
    bzna_context_close(own);
    check_settled(&l);
}

TEST(without_memory_a_run_ends_whatever_the_policy_is_and_goes_on_after_a_reset)
{
    for (uint32_t policy = BZNA_ON_ERROR_FILL; policy <= BZNA_ON_ERROR_STOP; policy++) {
        memory m;
        ledger l;
        bzna_context *own = open_context(&l, NULL, NULL, 0);
        bzna_dataset *dataset;
        bzna_loader_config c = config_of(10, BZNA_ORDER_SHUFFLE);
        bzna_loader *loader = NULL;
        bzna_batch *batch = NULL;
        bzna_statistics stats = { .struct_size = sizeof stats };
        bzna_error e = { 0 };
        run r;
        dataset = open_split(own, &m, &mixed, NULL);
        m.blocked = 1;                                      /* the first sample has its bytes; no other gets any */
        c.order.epochs = 2;
        c.errors.on_error = policy;
        require(bzna_loader_open(own, dataset, &c, &loader, NULL), "loader");
        for (int i = 0; i < 1000 && !m.inside; i++)
            sleep_us(1000);
        l.fail_all = 1;
        m.blocked = 0;
        for (int i = 0; i < 3; i++) {
            CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &e), BZNA_E_MEMORY);
            CHECK(batch == NULL);
            CHECK_CONTAINS(e.message, "out of memory for ");
        }
        CHECK_EQ(bzna_loader_statistics(loader, &stats, sizeof stats, NULL), BZNA_OK);
        CHECK(stats.samples_failed > 0 && stats.retries >= stats.samples_failed && stats.replaced == 0);
        CHECK_EQ(stats.first_failed_status, BZNA_E_MEMORY);
        CHECK(stats.first_failed_index < mixed.count);
        CHECK_CONTAINS(stats.first_failed_message, "out of memory for ");
        l.fail_all = 0;
        CHECK_EQ(bzna_loader_reset(loader, 0, NULL), BZNA_OK);
        r = run_of(&mixed, &c);
        CHECK_EQ(walk(loader, &r, UINT64_MAX), 8);
        bzna_loader_close(loader);
        bzna_dataset_close(dataset);
        bzna_context_close(own);
        check_settled(&l);
    }
}

static bzna_status refuse_padding(void *user, const bzna_sample_info *info, bzna_random *random, bzna_transform *t)
{
    (void)user, (void)random, (void)t;
    return info->slot < 40 ? BZNA_OK : BZNA_E_CALLBACK;
}

TEST(what_ends_a_run_also_does_so_in_a_slot_of_padding)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &mixed);
    bzna_loader_config c = config_of(42, BZNA_ORDER_SHUFFLE);         /* of 40 samples: two slots are padding */
    bzna_loader *loader;
    bzna_batch *batch = NULL;
    bzna_error e = { .struct_size = sizeof e };
    c.order.last_batch = BZNA_LAST_PAD;
    c.pipeline.transform = refuse_padding;
    loader = open_loader(dataset, &c);
    CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &e), BZNA_E_CALLBACK);
    CHECK(batch == NULL);
    CHECK_CONTAINS(e.message, "transform");
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

/* Workers wait in the callback until every item of the loader has been read into: then each has met the largest
 * sample. */
static memory *gate_memory;
static atomic_int gate_reads, gate_open;

static bzna_status gate_transform(void *user, const bzna_sample_info *info, bzna_random *random, bzna_transform *t)
{
    (void)user;
    (void)info;
    (void)random;
    (void)t;
    while (!gate_open && gate_memory->reads < gate_reads)
        sleep_us(300);
    gate_open = 1;
    return BZNA_OK;
}

TEST(in_steady_state_nothing_is_allocated)
{
    memory m;
    ledger l;
    bzna_context *own = open_context(&l, NULL, NULL, 0);
    bzna_dataset *dataset;
    bzna_loader_config c = config_of(20, BZNA_ORDER_SHUFFLE);
    bzna_loader *loader = NULL;
    bzna_batch *batch;
    int64_t calls = 0;
    uint64_t batches = 0;
    dataset = open_split(own, &m, &single, NULL);                                 /* 60 samples of one size */
    c.order.epochs = 12;
    c.pipeline.transform = gate_transform;
    gate_memory = &m;
    gate_open = 0;
    c.read.ahead_samples = TEST_NVDEC ? 0 : 1;              /* more is not always read as far as that */
    gate_reads = (int)m.reads + (TEST_NVDEC ? 6 + 1 : 1) + 2;     /* that, with NVDEC a reader, threads */
    require(bzna_loader_open(own, dataset, &c, &loader, NULL), "loader");
    while (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
        if (info_of(batch).epoch == 2 && !calls)
            calls = l.calls;
        bzna_batch_release(batch);
        batches++;
    }
    CHECK_EQ(batches, 36);
    CHECK(calls > 0);
    CHECK_EQ(l.calls, calls);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    bzna_context_close(own);
    check_settled(&l);
}

TEST(with_samples_of_all_sizes_buffers_grow_a_bounded_number_of_times)
{
    memory m;
    ledger l;
    bzna_context *own = open_context(&l, NULL, NULL, 0);
    bzna_dataset *dataset;
    bzna_loader_config c = config_of(8, BZNA_ORDER_SHUFFLE);
    bzna_loader *loader = NULL;
    int64_t before;
    run r = run_of(&mixed, &c);
    dataset = open_split(own, &m, &mixed, NULL);
    c.read.ahead_samples = TEST_NVDEC ? 0 : 6;
    c.order.epochs = 12;
    r.end_epoch = 12;
    require(bzna_loader_open(own, dataset, &c, &loader, NULL), "loader");
    before = l.calls;
    CHECK_EQ(walk(loader, &r, UINT64_MAX), 60);
    /* Nine items and two workers, a few doublings each; with NVDEC, sessions of 8 items and 4 buffers. Not one a
     * sample, of 480. */
    CHECK(l.calls - before <= (6 + 2 + 1) * 4 + 2 * 8 + (TEST_NVDEC ? NVDEC_SESSIONS * (8 + 4) * 4 : 0));
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    bzna_context_close(own);
    check_settled(&l);
}

/* ---- Processes and signals --------------------------------------------------------------------------------------- */

TEST(after_fork_the_child_gets_e_state_and_the_parent_goes_on)
{
    if (ON_WINDOWS)
        SKIP("nothing forks here");
    memory m;
    bzna_dataset *dataset = open_archive(&m, &mixed);
    bzna_loader_config c = config_of(5, BZNA_ORDER_SHUFFLE);
    bzna_loader *loader = open_loader(dataset, &c);
    bzna_batch *held;
    run r = run_of(&mixed, &c);
    held = next_batch(loader);
    run_check(&r, held);
    for (int i = 0; i < 4; i++) {
        int result = -1;
        pid_t child;
        fflush(stdout);
        child = fork();
        if (child == 0) {
            bzna_batch *batch;
            bzna_loader_state state;
            bzna_statistics stats;
            void *tensor;
            memset(&state, 0, sizeof state);
            alarm(20);
            _exit((bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_E_STATE ? 0 : 1) |
                  (bzna_loader_close(loader) == BZNA_E_STATE ? 0 : 2) |
                  (bzna_loader_stop(loader, NULL) == BZNA_E_STATE ? 0 : 4) |
                  (bzna_loader_reset(loader, 0, NULL) == BZNA_E_STATE ? 0 : 8) |
                  (bzna_loader_save(loader, &state, sizeof state, NULL) == BZNA_E_STATE ? 0 : 16) |
                  (bzna_loader_restore(loader, &state, NULL) == BZNA_E_STATE ? 0 : 32) |
                  (bzna_loader_statistics(loader, &stats, sizeof stats, NULL) == BZNA_E_STATE &&
                           bzna_batch_to_dlpack(held, "image", BZNA_DLPACK_1, &tensor, NULL) == BZNA_E_STATE ?
                       0 :
                       64));
        }
        REQUIRE(child > 0);
        CHECK_EQ(waitpid(child, &result, 0), child);
        CHECK(WIFEXITED(result) && WEXITSTATUS(result) == 0);
        if (WIFEXITED(result) && WEXITSTATUS(result))
            printf("  refused all but (bits): %d\n", WEXITSTATUS(result));
        CHECK_EQ(walk(loader, &r, 1), 1);
    }
    CHECK_EQ(bzna_batch_release(held), BZNA_OK);
    CHECK_EQ(walk(loader, &r, UINT64_MAX), 3);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

static atomic_int signals_taken;

static void take_signal(int number)
{
    (void)number;
    signals_taken++;
}

/* A signal to the process goes to any thread that does not block it. This one does: so nobody takes it. */
TEST(the_librarys_threads_block_all_signals)
{
    if (ON_WINDOWS)
        SKIP("there are no signals here");
    static const int numbers[] = { SIGUSR1, SIGUSR2, SIGINT, SIGTERM, SIGALRM, SIGCHLD, SIGHUP };
    memory m;
    bzna_dataset *dataset = open_archive(&m, &mixed);
    bzna_loader_config c = config_of(5, BZNA_ORDER_SHUFFLE);
    bzna_loader *loader;
    struct sigaction action, old[COUNT(numbers)];
    sigset_t set, before, pending;
    run r = run_of(&mixed, &c);
    c.decode.threads = 4;
    c.read.threads = 3;
    c.order.epochs = r.end_epoch = 3;
    memset(&action, 0, sizeof action);
    action.sa_handler = take_signal;
    sigemptyset(&set);
    for (size_t i = 0; i < COUNT(numbers); i++) {
        sigaddset(&set, numbers[i]);
        sigaction(numbers[i], &action, &old[i]);
    }
    loader = open_loader(dataset, &c);
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    for (size_t i = 0; i < COUNT(numbers); i++)
        CHECK(!sigismember(&before, numbers[i]));           /* opening left the caller's mask alone */
    pthread_sigmask(SIG_BLOCK, &set, &before);
    signals_taken = 0;
    for (size_t i = 0; i < COUNT(numbers); i++)
        kill(getpid(), numbers[i]);
    CHECK_EQ(walk(loader, &r, UINT64_MAX), 24);
    CHECK_EQ(signals_taken, 0);
    sigpending(&pending);
    for (size_t i = 0; i < COUNT(numbers); i++)
        CHECK(sigismember(&pending, numbers[i]));
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    sleep_us(1000);
    CHECK_EQ(signals_taken, (long)COUNT(numbers));          /* now they came */
    bzna_loader_close(loader);
    for (size_t i = 0; i < COUNT(numbers); i++)
        sigaction(numbers[i], &old[i], NULL);
    bzna_dataset_close(dataset);
}

/* ---- Configs ----------------------------------------------------------------------------------------------------- */

TEST(configs_without_meaning_are_refused_by_field)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &mixed);
    bzna_loader_config c;
    enum { RRC = BZNA_WARP_RANDOM_RESIZED_CROP, CENTER = BZNA_WARP_CENTER_RESIZED_CROP, SIM = BZNA_WARP_SIMILARITY };
    const struct {
        void *field;
        double value;
        int floating;
        uint32_t warp;
        bzna_status status;
        const char *name;
    } bad[] = {
        { &c.output.batch_size, 0, 0, 0, BZNA_E_ARGUMENT, "output.batch_size" },
        { &c.output.batch_size, 65537, 0, 0, BZNA_E_ARGUMENT, "output.batch_size" },
        { &c.output.width, 0, 0, 0, BZNA_E_ARGUMENT, "output.width" },
        { &c.output.height, 20000, 0, 0, BZNA_E_ARGUMENT, "output.height" },
        { &c.output.height, 0, 0, 0, BZNA_E_ARGUMENT, "output.height" },
        { &c.output.dtype, 9, 0, 0, BZNA_E_UNSUPPORTED, "output.dtype" },
        { &c.output.layout, 2, 0, 0, BZNA_E_UNSUPPORTED, "output.layout" },
        { &c.order.kind, 3, 0, 0, BZNA_E_ARGUMENT, "order.kind" },
        { &c.order.last_batch, 4, 0, 0, BZNA_E_ARGUMENT, "order.last_batch" },
        { &c.shard.rank, 1, 0, 0, BZNA_E_ARGUMENT, "shard.rank" },
        { &c.decode.threads, 1025, 0, 0, BZNA_E_ARGUMENT, "decode.threads" },
        { &c.read.threads, 257, 0, 0, BZNA_E_ARGUMENT, "read.threads" },
        { &c.pipeline.batches_in_flight, 65, 0, 0, BZNA_E_ARGUMENT, "pipeline.batches_in_flight" },
        { &c.read.ahead_samples, 65537, 0, 0, BZNA_E_ARGUMENT, "read.ahead_samples" },
        { &c.output.device.kind, 3, 0, 0, BZNA_E_ARGUMENT, "output.device.kind" },
        { &c.decode.decoder, 3, 0, 0, BZNA_E_ARGUMENT, "decode.decoder" },
        { &c.warp.kind, 5, 0, 5, BZNA_E_ARGUMENT, "warp.kind" },
        { &c.warp.crops, 2, 0, BZNA_WARP_NONE, BZNA_E_ARGUMENT, "warp.crops" },
        { &c.color.fill_space, 2, 0, 0, BZNA_E_ARGUMENT, "fill_space" },
        { &c.color.matrix, 7, 0, 0, BZNA_E_ARGUMENT, "matrix" },
        { &c.filter.kind, 7, 0, 0, BZNA_E_ARGUMENT, "filter.kind" },
        { &c.filter.antialias, 3, 0, 0, BZNA_E_ARGUMENT, "filter.antialias" },
        { &c.warp.scale[0], NAN, 2, RRC, BZNA_E_ARGUMENT, "warp.scale" },
        { &c.warp.scale[1], NAN, 2, RRC, BZNA_E_ARGUMENT, "warp.scale" },
        { &c.warp.scale[0], -1, 2, SIM, BZNA_E_ARGUMENT, "warp.scale" },
        { &c.warp.scale[0], NAN, 2, CENTER, BZNA_E_ARGUMENT, "warp.scale" },
        { &c.warp.scale[0], -0.875, 2, CENTER, BZNA_E_ARGUMENT, "warp.scale" },
        { &c.warp.ratio[0], NAN, 2, RRC, BZNA_E_ARGUMENT, "warp.ratio" },
        { &c.warp.ratio[1], 1, 2, SIM, BZNA_E_ARGUMENT, "warp.ratio" },
        { &c.warp.degrees[0], NAN, 2, SIM, BZNA_E_ARGUMENT, "warp.degrees" },
        { &c.warp.degrees[0], 1, 2, SIM, BZNA_E_ARGUMENT, "warp.degrees" },
        { &c.warp.translate[1], NAN, 2, SIM, BZNA_E_ARGUMENT, "warp.translate" },
        { &c.warp.translate[0], -1, 2, SIM, BZNA_E_ARGUMENT, "warp.translate" },
        { &c.warp.flip_h, NAN, 2, 0, BZNA_E_ARGUMENT, "warp.flip_h" },
        { &c.warp.flip_v, 1.5, 2, 0, BZNA_E_ARGUMENT, "warp.flip_v" },
        { &c.warp.flip_h, -0.5, 2, 0, BZNA_E_ARGUMENT, "warp.flip_h" },
        { &c.color.mean[1], NAN, 1, 0, BZNA_E_ARGUMENT, "mean" },
        { &c.color.mean[0], INFINITY, 1, 0, BZNA_E_ARGUMENT, "mean" },
        { &c.color.std[2], NAN, 1, 0, BZNA_E_ARGUMENT, "std" },
        { &c.color.bias[1], NAN, 1, 0, BZNA_E_ARGUMENT, "bias" },
        { &c.color.scale[2], NAN, 1, 0, BZNA_E_ARGUMENT, "scale" },
        { &c.color.scale[2], INFINITY, 1, 0, BZNA_E_ARGUMENT, "scale" },
        { &c.color.fill[0], NAN, 1, 0, BZNA_E_ARGUMENT, "fill" },
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        bzna_loader *loader = (bzna_loader *)&m;
        bzna_error e = { .struct_size = sizeof e };
        bzna_status status;
        c = config_of(5, BZNA_ORDER_SHUFFLE);
        c.warp.kind = bad[i].warp;
        if (bad[i].floating == 2)
            *(double *)bad[i].field = bad[i].value;
        else if (bad[i].floating)
            *(float *)bad[i].field = (float)bad[i].value;
        else
            *(uint32_t *)bad[i].field = (uint32_t)bad[i].value;
        status = bzna_loader_open(context, dataset, &c, &loader, &e);
        if (status != bad[i].status || loader || !strstr(e.message, bad[i].name) ||
            !strstr(e.message, "loader_config")) {
            test_failures++;
            printf("  %s = %g: %s \"%s\"\n", bad[i].name, bad[i].value, bzna_status_name(status), e.message);
        }
        if (status == BZNA_OK)
            bzna_loader_close(loader);
    }
    bzna_dataset_close(dataset);
}

#ifdef BENZINA_NO_CUDA
#  define WITHOUT_GPU 1
#else
#  define WITHOUT_GPU 0
#endif

/* A config that is accepted gets as far as the first allocation, which fails: so no thread is started. */
TEST(every_limit_is_accepted_and_one_more_is_refused)
{
    memory m;
    ledger l;
    bzna_context *own = open_context(&l, NULL, NULL, 0);
    bzna_dataset *dataset;
    bzna_loader_config c;
    const struct { uint32_t *field; uint32_t limit; int unsupported; const char *name; } limits[] = {
        { &c.output.batch_size, 65536, 0, "output.batch_size" }, { &c.output.width, 16384, 0, "output.width" },
        { &c.output.height, 16384, 0, "output.height" }, { &c.output.dtype, BZNA_DTYPE_UINT8, 1, "output.dtype" },
        { &c.output.layout, BZNA_LAYOUT_NHWC, 1, "output.layout" },
        { &c.order.kind, BZNA_ORDER_GIVEN, 0, "order.kind" },
        { &c.order.last_batch, BZNA_LAST_FILL, 0, "order.last_batch" }, { &c.shard.rank, 3, 0, "shard.rank" },
        { &c.decode.threads, 1024, 0, "decode.threads" }, { &c.read.threads, 256, 0, "read.threads" },
        { &c.pipeline.batches_in_flight, 64, 0, "pipeline.batches_in_flight" },
        { &c.read.ahead_samples, 65536, 0, "read.ahead_samples" },
        { &c.decode.decoder, BZNA_DECODER_NVDEC, 0, "decode.decoder" },
        { (uint32_t *)&c.output.device.kind, BZNA_DEVICE_CUDA, 0, "output.device.kind" },
        { &c.errors.on_error, BZNA_ON_ERROR_STOP, 0, "errors.on_error" }, { &c.read.retries, 1000, 0, "read.retries" },
        { &c.output.slices, 4, 0, "output.slices" }, { &c.warp.kind, BZNA_WARP_MXNET, 0, "warp.kind" },
        { &c.warp.crops, BZNA_CROPS_TORCHVISION, 0, "warp.crops" },
        { &c.color.fill_space, BZNA_FILL_OUTPUT, 0, "fill_space" },
        { &c.color.matrix, BZNA_MATRIX_BT2020_FULL, 0, "matrix" },
        { &c.filter.kind, BZNA_FILTER_CUBIC_075, 0, "filter" },
        { &c.filter.antialias, BZNA_ANTIALIAS_ROUND, 0, "antialias" },
        { &c.errors.on_callback_error, BZNA_ON_CALLBACK_ERROR_SAMPLE, 0, "errors.on_callback_error" },
        { &c.pipeline.restore_any_pixels, 1, 0, "restore_any_pixels" }, { &c.warp.resize, 1, 0, "warp.resize" },
        { &c.decode.hybrid, 1, 0, "decode.hybrid" },
        { &c.warp.keep_ratio, 1, 0, "keep_ratio" }, { &c.warp.random_crop, 1, 0, "random_crop" },
    };
    const struct { double *field, limit, past; const char *name; } ranges[] = {
        { &c.warp.flip_h, 0, -1, "warp.flip_h" }, { &c.warp.flip_h, 1, 2, "warp.flip_h" },
        { &c.warp.flip_v, 0, -1, "warp.flip_v" },
        { &c.warp.flip_v, 1, 2, "warp.flip_v" }, { &c.warp.scale[1], 1e6, 2e6, "warp.scale" },
        { &c.warp.ratio[1], 1e6, 2e6, "warp.ratio" }, { &c.warp.translate[0], 0, -1, "warp.translate" },
        { &c.warp.translate[1], 0, -1, "warp.translate" },
    };
    dataset = open_split(own, &m, &mixed, NULL);
    for (size_t i = 0; i < COUNT(limits) + COUNT(ranges); i++)
        for (int past = 0; past < 2; past++) {
            size_t k = i < COUNT(limits) ? i : i - COUNT(limits);
            bzna_loader *loader = (bzna_loader *)&m;
            bzna_error e = { .struct_size = sizeof e };
            bzna_status status, expected = !past ? BZNA_E_MEMORY : BZNA_E_ARGUMENT;
            const char *name = i < COUNT(limits) ? limits[k].name : ranges[k].name;
            c = config_of(4, BZNA_ORDER_SHUFFLE);
            c.warp.kind = BZNA_WARP_SIMILARITY;
            c.warp.scale[0] = c.warp.scale[1] = c.warp.ratio[0] = c.warp.ratio[1] = 1;
            c.shard.world_size = 4;
            if (past && i < COUNT(limits) && limits[k].unsupported)
                expected = BZNA_E_UNSUPPORTED;
            if (i < COUNT(limits))
                *limits[k].field = limits[k].limit + (uint32_t)past;
            else
                *ranges[k].field = past ? nextafter(ranges[k].limit, ranges[k].past) : ranges[k].limit;
            l.only = pthread_self();
            l.fail_at = 2;                                  /* the first is of the loader itself */
            status = bzna_loader_open(own, dataset, &c, &loader, &e);
            l.fail_at = 0;
            CHECK(loader == NULL);
            if (WITHOUT_GPU && !past && status == BZNA_E_UNSUPPORTED && strstr(e.message, "BENZINA_NO_CUDA"))
                continue;                                   /* the two settings whose largest value is the GPU's */
            if (status != expected || !strstr(e.message, past ? name : "out of memory for a")) {
                test_failures++;
                printf("  %s, %s: %s \"%s\"\n", name, past ? "one more" : "at the limit", bzna_status_name(status),
                       e.message);
            }
        }
    bzna_dataset_close(dataset);
    bzna_context_close(own);
    check_settled(&l);
}

TEST(loaders_work_at_their_limits)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &mixed);
    bzna_loader_config c = config_of(65536, BZNA_ORDER_SHUFFLE);
    c.output.width = c.output.height = 1;
    c.pipeline.batches_in_flight = 1;
    CHECK_EQ(walk_all(dataset, &mixed, &c), 1);
    c = config_of(1, BZNA_ORDER_SHUFFLE);
    c.read.threads = 256;
    c.pipeline.batches_in_flight = 64;
    c.read.ahead_samples = 65536;
    c.output.width = 16384;
    c.output.height = 1;
    CHECK_EQ(walk_all(dataset, &mixed, &c), 40);
    c.output.width = 1;
    c.output.height = 16384;
    CHECK_EQ(walk_all(dataset, &mixed, &c), 40);
    bzna_dataset_close(dataset);
}

TEST(a_sample_as_large_as_a_limit_is_read_and_one_of_a_byte_more_is_not)
{
    uint64_t sizes[40], largest = 0;
    memory m;
    bzna_dataset *dataset = open_archive(&m, &mixed);
    for (uint64_t i = 0; i < 40; i++) {
        bzna_sample_ref sample = { .struct_size = sizeof sample };
        require(bzna_dataset_sample(dataset, i, &sample, sizeof sample, NULL), "sample");
        sizes[i] = sample.size;
        largest = sample.size > largest ? sample.size : largest;
    }
    bzna_dataset_close(dataset);
    for (int k = 0; k < 4; k++) {                           /* context, then loader; enough, then one less */
        uint64_t limit = largest - (uint64_t)(k % 2), failed = 0;
        bzna_context_config own_config;
        bzna_context *own = NULL;
        bzna_loader_config c = config_of(40, BZNA_ORDER_SEQUENTIAL);
        bzna_loader *loader = NULL;
        bzna_batch *batch;
        bzna_batch_info info;
        bzna_context_config_init(&own_config, sizeof own_config);
        own_config.max_sample_bytes = k < 2 ? limit : 0;
        c.read.memory_bytes = k < 2 ? 0 : limit;
        require(bzna_context_open(&own_config, &own, NULL), "context");
        dataset = open_split(own, &m, &mixed, NULL);
        require(bzna_loader_open(own, dataset, &c, &loader, NULL), "loader");
        batch = next_batch(loader);
        REQUIRE(batch != NULL);
        info = info_of(batch);
        for (uint32_t i = 0; i < 40; i++) {
            CHECK_EQ(info.status[i], sizes[i] > limit ? BZNA_E_LIMIT : BZNA_OK);
            failed += info.status[i] < 0;
        }
        CHECK_EQ(failed, k % 2 ? 8 : 0);
        bzna_batch_release(batch);
        bzna_loader_close(loader);
        bzna_dataset_close(dataset);
        bzna_context_close(own);
    }
}

/* Places in the config for what cannot be done yet. */
TEST(what_is_kept_for_later_is_refused_by_name)
{
    static const char *const later[] = {
        "loader_config.output.channels: 3", "loader_config.output.channels: 4",
        "loader_config.output.dtype: 4",  "loader_config.output.dtype: 15",   "loader_config.output.dtype: 16",
        "loader_config.output.dtype: 17", "loader_config.output.dtype: 18",
    };
    memory m;
    bzna_dataset *dataset = open_archive(&m, &mixed);
    bzna_loader_config c;
    for (size_t i = 0; i < COUNT(later); i++) {
        bzna_loader *loader = (bzna_loader *)&m;
        bzna_error e = { .struct_size = sizeof e };
        c = config_of(5, BZNA_ORDER_SHUFFLE);
        switch (i) {
        case 0:  c.output.channels = 3; break;
        case 1:  c.output.channels = 4; break;
        case 2:  c.output.dtype = BZNA_DTYPE_UINT8 + 1; break;
        case 3:  c.output.dtype = 15; break;
        case 4:  c.output.dtype = BZNA_DTYPE_INT32; break;
        case 5:  c.output.dtype = BZNA_DTYPE_INT64; break;
        default: c.output.dtype = BZNA_DTYPE_UINT64; break;
        }
        CHECK_EQ(bzna_loader_open(context, dataset, &c, &loader, &e), BZNA_E_UNSUPPORTED);
        CHECK_CONTAINS(e.message, later[i]);
        CHECK(loader == NULL);
    }
    c = config_of(5, BZNA_ORDER_SHUFFLE);                   /* what is done anyway may be said */
    c.output.views = 1;
    CHECK_EQ(walk_all(dataset, &mixed, &c), 8);
    bzna_dataset_close(dataset);
}

TEST(area_is_not_refused_but_without_antialias)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &mixed);
    bzna_loader *loader = (bzna_loader *)&m;
    bzna_loader_config c = config_of(5, BZNA_ORDER_SHUFFLE);
    bzna_error e = { .struct_size = sizeof e };
    c.filter.kind = BZNA_FILTER_AREA;
    c.filter.antialias = BZNA_ANTIALIAS_OFF;
    CHECK_EQ(bzna_loader_open(context, dataset, &c, &loader, &e), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(e.message, "loader_config.filter.antialias: the area filter");
    c.filter.antialias = BZNA_ANTIALIAS_AUTO;
    loader = open_loader(dataset, &c);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

TEST(reserved_words_that_are_set_are_refused_by_their_names)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &mixed);
    bzna_loader_config c;
    const struct { const char *group; uint64_t *words; size_t count; uint32_t *padding; } groups[] = {
        { "output", c.output.reserved, COUNT(c.output.reserved), NULL },
        { "order", c.order.reserved, COUNT(c.order.reserved), NULL },
        { "shard", c.shard.reserved, COUNT(c.shard.reserved), NULL },
        { "warp", c.warp.reserved, COUNT(c.warp.reserved), &c.warp.reserved0 },
        { "filter", c.filter.reserved, COUNT(c.filter.reserved), NULL },
        { "color", c.color.reserved, COUNT(c.color.reserved), &c.color.reserved0 },
        { "fields", c.fields.reserved, COUNT(c.fields.reserved), NULL },
        { "read", c.read.reserved, COUNT(c.read.reserved), &c.read.reserved0 },
        { "decode", c.decode.reserved, COUNT(c.decode.reserved), NULL },
        { "errors", c.errors.reserved, COUNT(c.errors.reserved), NULL },
        { "pipeline", c.pipeline.reserved, COUNT(c.pipeline.reserved), NULL },
    };
    for (size_t g = 0; g < COUNT(groups); g++)
        for (size_t k = 0; k < groups[g].count + (groups[g].padding ? 1 : 0); k++) {
            bzna_loader *loader = (bzna_loader *)&m;
            bzna_error e = { .struct_size = sizeof e };
            char name[64];
            snprintf(name, sizeof name, "loader_config.%s.reserved[%u]: a reserved word", groups[g].group, (unsigned)k);
            if (k == groups[g].count)
                snprintf(name, sizeof name, "loader_config.%s.reserved0: a reserved word", groups[g].group);
            c = config_of(5, BZNA_ORDER_SHUFFLE);
            if (k < groups[g].count)
                groups[g].words[k] = (uint64_t)1 << (k % 2 ? 63 : 0);  /* the upper half counts, too */
            else
                *groups[g].padding = 1;
            CHECK_EQ(bzna_loader_open(context, dataset, &c, &loader, &e), BZNA_E_STRUCT_SIZE);
            CHECK_CONTAINS(e.message, name);
            CHECK(loader == NULL);
        }
    bzna_dataset_close(dataset);
}

TEST(other_misuse_of_open_is_refused)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &mixed);
    bzna_loader_config c = config_of(5, BZNA_ORDER_SHUFFLE);
    bzna_loader *loader = (bzna_loader *)&m;
    bzna_error e = { .struct_size = sizeof e };
    struct { bzna_loader_config known; uint8_t tail[8]; } future;
    for (int k = 0; k < 4; k++) {                           /* two spellings at once */
        c = config_of(5, BZNA_ORDER_SHUFFLE);
        *(k & 1 ? &c.color.mean[1] : &c.color.std[2]) = 3;
        *(k & 2 ? &c.color.bias[0] : &c.color.scale[1]) = 4;
        CHECK_EQ(bzna_loader_open(context, dataset, &c, &loader, &e), BZNA_E_ARGUMENT);
        CHECK_CONTAINS(e.message, "loader_config.color.mean, std, bias, scale");
        CHECK(loader == NULL);
    }
    c = config_of(5, BZNA_ORDER_SHUFFLE);
    c.shard.world_size = 4;
    c.shard.rank = 4;
    CHECK_EQ(bzna_loader_open(context, dataset, &c, &loader, &e), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(e.message, "loader_config.shard.rank");
    c.shard.rank = 0;
    c.shard.world_size = 9;
    c.order.last_batch = BZNA_LAST_DROP;                    /* 45 a step, of 40 */
    CHECK_EQ(bzna_loader_open(context, dataset, &c, &loader, &e), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(e.message, "DROP leaves no batch");
    c = config_of(5, BZNA_ORDER_SHUFFLE);
    CHECK_EQ(bzna_loader_open(NULL, dataset, &c, &loader, &e), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(e.message, "context is NULL");
    CHECK_EQ(bzna_loader_open(context, NULL, &c, &loader, &e), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(e.message, "dataset is NULL");
    CHECK_EQ(bzna_loader_open(context, dataset, NULL, &loader, &e), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(e.message, "config is NULL");
    CHECK_EQ(bzna_loader_open(context, dataset, &c, NULL, &e), BZNA_E_ARGUMENT);
    c.struct_size = 0;
    CHECK_EQ(bzna_loader_open(context, dataset, &c, &loader, &e), BZNA_E_STRUCT_SIZE);
    memset(&future, 0, sizeof future);
    future.known = config_of(5, BZNA_ORDER_SHUFFLE);
    future.known.struct_size = sizeof future;
    future.tail[3] = 1;
    CHECK_EQ(bzna_loader_open(context, dataset, &future.known, &loader, &e), BZNA_E_STRUCT_SIZE);
    future.tail[3] = 0;
    CHECK_EQ(bzna_loader_open(context, dataset, &future.known, &loader, &e), BZNA_OK);
    bzna_loader_close(loader);
    CHECK_EQ(m.closes, 0);
    bzna_dataset_close(dataset);
}

TEST(absurd_sizes_are_refused_without_harm)
{
    memory m;
    ledger l;
    bzna_context *own = open_context(&l, NULL, NULL, 0);    /* whose allocator gives at most 1 GiB at once */
    bzna_dataset *dataset;
    bzna_loader *loader;
    int64_t blocks;
    bzna_loader_config c = config_of(65536, BZNA_ORDER_SHUFFLE);
    bzna_error e = { .struct_size = sizeof e };
    dataset = open_split(own, &m, &mixed, NULL);
    blocks = l.blocks;
    c.output.width = c.output.height = 16384;
    CHECK_EQ(bzna_loader_open(own, dataset, &c, &loader, &e), BZNA_E_MEMORY);
    CHECK_CONTAINS(e.message, "batch_size");
    CHECK_EQ(l.blocks, blocks);
    c.pipeline.batches_in_flight = 64;
    c.read.ahead_samples = 65536;
    c.output.batch_size = 1;
    c.output.width = c.output.height = 12000;
    CHECK_EQ(bzna_loader_open(own, dataset, &c, &loader, &e), BZNA_E_MEMORY);
    CHECK_EQ(l.blocks, blocks);
    bzna_dataset_close(dataset);
    bzna_context_close(own);
    check_settled(&l);
}

TEST(defaults_are_filled_in_and_can_be_asked)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &mixed);
    bzna_loader_config c;
    bzna_loader *loader;
    bzna_loader_info info;
    bzna_statistics stats;
    bzna_loader_config_init(&c, sizeof c);
    c.output.batch_size = 16;
    c.output.width = 10;
    c.output.height = 12;
    c.warp.kind = BZNA_WARP_NONE;                           /* what walk compares */
    loader = open_loader(dataset, &c);
    CHECK_EQ(bzna_loader_get_info(loader, &info, sizeof info, NULL), BZNA_OK);
    CHECK(info.threads == bzi_os_processors() && info.reader_threads == (TEST_NVDEC ? 2 : 1) &&
          info.batches_in_flight == 3);
    /* Software reads ahead what batches in flight have, and goes on by bytes. */
    CHECK(info.read_ahead == (TEST_NVDEC || 3 * 16 < 2 * info.threads + 2 ? 2 * info.threads + 2 + 4 * info.sessions :
                                                                            3 * 16) &&
          info.sessions == (TEST_NVDEC ? NVDEC_SESSIONS : 0));
    CHECK(info.image.shape[0] == 16 && info.image.shape[1] == 3 && info.image.shape[2] == 12 &&
          info.image.shape[3] == 10);
    CHECK(info.decoder == (TEST_NVDEC ? BZNA_DECODER_NVDEC : BZNA_DECODER_SOFTWARE) &&
          info.image.device.kind == (TEST_NVDEC == 2 ? BZNA_DEVICE_CUDA : BZNA_DEVICE_CPU));
    CHECK(info.samples_per_epoch == 40 && info.batches_per_epoch == 3);
    CHECK_CONTAINS(info.decoder_name, TEST_NVDEC ? "NVDEC of Fake GPU" : "libavcodec ");
    CHECK_CONTAINS(info.decoder_reason, TEST_NVDEC ? "NVDEC decodes" : "NVDEC");
    run r = run_of(&mixed, &c);
    CHECK_EQ(walk(loader, &r, UINT64_MAX), 3);
    CHECK_EQ(bzna_loader_statistics(loader, &stats, sizeof stats, NULL), BZNA_OK);
    CHECK(stats.stage[BZNA_STAGE_DELIVER].count == 3 && stats.samples == 40 && stats.samples_failed == 0);
    CHECK(stats.stage[BZNA_STAGE_READ].count == 40 && stats.stage[BZNA_STAGE_DECODE].count == 40 &&
          stats.stage[BZNA_STAGE_WARP].count == 40);
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < 40; i++) {
        bzna_sample_ref sample = { .struct_size = sizeof sample };
        CHECK_EQ(bzna_dataset_sample(dataset, i, &sample, sizeof sample, NULL), BZNA_OK);
        bytes += sample.size;
    }
    CHECK_EQ(stats.stage[BZNA_STAGE_READ].bytes, bytes);
    CHECK(stats.stage[BZNA_STAGE_DECODE].busy_ns > 40 * 50000 &&
          stats.stage[BZNA_STAGE_DECODE].busy_ns < 600000000000u && stats.stage[BZNA_STAGE_WARP].busy_ns > 0);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

TEST(a_config_comes_back_with_its_defaults_and_opens_the_same_loader_again)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &mixed);
    bzna_loader_config c, filled, again;
    bzna_loader *loader, *other;
    bzna_batch *batch, *same;
    bzna_error e = { .struct_size = sizeof e };
    static float mean[3 * 10 * 12];
    bzna_loader_config_init(&c, sizeof c);
    c.output.batch_size = 16;
    c.output.width = 10;
    c.output.height = 12;
    c.color.mean_image = mean;
    c.color.mean_image_bytes = sizeof mean;
    loader = open_loader(dataset, &c);
    CHECK_EQ(bzna_loader_get_config(loader, &filled, sizeof filled, NULL), BZNA_OK);
    CHECK(!filled.color.mean_image && filled.color.mean_image_bytes == sizeof mean);
    CHECK_EQ(bzna_loader_open(context, dataset, &filled, &other, &e), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(e.message, "color.mean_image");
    filled.color.mean_image = mean;
    CHECK_EQ(filled.struct_size, sizeof filled);
    CHECK(filled.output.batch_size == 16 && filled.output.width == 10 && filled.output.height == 12);
    CHECK_EQ(filled.pipeline.batches_in_flight, 3);
    CHECK_EQ(filled.decode.threads, bzi_os_processors());
    CHECK(filled.read.threads > 0 && filled.read.ahead_samples > 0 && filled.read.memory_bytes > 0);
    CHECK(filled.shard.world_size == 1 && filled.order.epochs == 1 && filled.output.views == 1);
    CHECK(filled.warp.scale[0] == 1 && filled.warp.crops == BZNA_CROPS_TORCHVISION);
    CHECK_EQ(filled.output.device.kind, TEST_NVDEC == 2 ? BZNA_DEVICE_CUDA : BZNA_DEVICE_CPU);
    CHECK_EQ(filled.decode.decoder, TEST_NVDEC ? BZNA_DECODER_NVDEC : BZNA_DECODER_SOFTWARE);

    other = open_loader(dataset, &filled);
    CHECK_EQ(bzna_loader_get_config(other, &again, sizeof again, NULL), BZNA_OK);
    filled.color.mean_image = NULL;
    CHECK(!memcmp(&filled, &again, sizeof filled));
    batch = next_batch(loader);
    same = next_batch(other);
    CHECK(!memcmp(info_of(batch).image.data, info_of(same).image.data, info_of(batch).image.bytes));
    bzna_batch_release(batch);
    bzna_batch_release(same);
    CHECK_EQ(bzna_loader_get_config(NULL, &again, sizeof again, &e), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_loader_get_config(loader, NULL, sizeof again, &e), BZNA_E_ARGUMENT);
    bzna_loader_close(loader);
    bzna_loader_close(other);
    bzna_dataset_close(dataset);
}

/* Any thread may ask while the loader goes from epoch to epoch. */
typedef struct asker {
    bzna_loader *loader;
    atomic_int   done, wrong;
} asker;

static void *ask(void *argument)
{
    asker *a = argument;
    while (!a->done) {
        bzna_loader_info info;
        bzna_statistics stats;
        bzna_loader_state state;
        a->wrong += bzna_loader_get_info(a->loader, &info, sizeof info, NULL) != BZNA_OK ||
                    info.batches_per_epoch != 2 || info.samples_per_epoch != 40;
        a->wrong += bzna_loader_statistics(a->loader, &stats, sizeof stats, NULL) != BZNA_OK;
        a->wrong += bzna_loader_save(a->loader, &state, sizeof state, NULL) != BZNA_OK || state.position % 20;
        sleep_us(50);
    }
    return NULL;
}

TEST(other_threads_may_ask_while_epochs_change)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &mixed);
    bzna_loader_config c = config_of(20, BZNA_ORDER_SHUFFLE);
    asker a;
    pthread_t thread;
    run r;
    memset(&a, 0, sizeof a);
    c.order.epochs = 6;
    a.loader = open_loader(dataset, &c);
    pthread_create(&thread, NULL, ask, &a);
    r = run_of(&mixed, &c);
    CHECK_EQ(walk(a.loader, &r, UINT64_MAX), 12);
    a.done = 1;
    pthread_join(thread, NULL);
    CHECK_EQ(a.wrong, 0);
    bzna_loader_close(a.loader);
    bzna_dataset_close(dataset);
}

static void *ask_once(void *argument)
{
    bzna_statistics stats;
    bzna_loader_statistics(argument, &stats, sizeof stats, NULL);
    return NULL;
}

/* While this thread has the lock, another asks for it: until one of its attempts was early enough to have to wait. */
TEST(waits_for_the_loaders_lock_are_counted)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &mixed);
    bzna_loader_config c = config_of(20, BZNA_ORDER_SHUFFLE);
    bzna_loader *loader = open_loader(dataset, &c);
    bzna_statistics before, after;
    pthread_t thread;

    CHECK_EQ(bzna_loader_stop(loader, NULL), BZNA_OK);              /* its own threads leave the lock alone soon */
    CHECK_EQ(bzna_loader_statistics(loader, &before, sizeof before, NULL), BZNA_OK);
    for (int attempts = 0; attempts < 1000; attempts++) {
        bzi_os_lock(&loader->queues.mutex);
        pthread_create(&thread, NULL, ask_once, loader);
        sleep_us(2000);
        bzi_os_unlock(&loader->queues.mutex);
        pthread_join(thread, NULL);
        CHECK_EQ(bzna_loader_statistics(loader, &after, sizeof after, NULL), BZNA_OK);
        if (after.lock_waits > before.lock_waits)
            break;
    }
    CHECK(after.lock_waits > before.lock_waits);
    CHECK(after.lock_wait_ns > before.lock_wait_ns);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

/* ---- Pictures ---------------------------------------------------------------------------------------------------- */

TEST(no_warp_of_a_512x512_sample_is_the_picture_itself_to_the_bit)
{
    static const int first[1] = { 0 };
    memory m;
    coded chart = coded_load_from(context, mini_files[1], 6, NULL);
    const recipe of_one = { .count = 1, .pictures = &chart, .pattern = first, .pattern_count = 1 };
    archive one = archive_build(context, &of_one);
    bzna_dataset *dataset = open_archive(&m, &one);
    bzna_loader_config c = config_of(1, BZNA_ORDER_SEQUENTIAL);
    bzna_loader *loader;
    bzna_batch *batch;
    bzna_decoder *decoder = NULL;
    bzna_transform t;
    bzna_output output = { .struct_size = sizeof output, .width = 512, .height = 512 };
    size_t bytes = (size_t)3 * 512 * 512 * sizeof(float);
    float *expected = take_memory(bytes);
    require(bzna_decoder_open(context, &decoder, NULL), "decoder");
    coded_decode(&chart, decoder, &chart.image);
    bzna_decoder_close(decoder);
    c.warp.kind = BZNA_WARP_NONE;
    c.warp.flip_h = 0;
    c.output.width = c.output.height = 512;
    loader = open_loader(dataset, &c);
    batch = next_batch(loader);
    bzna_transform_init(&t, sizeof t);
    CHECK_EQ(bzna_picture_render(&chart.picture, &t, &output, expected, bytes, NULL), BZNA_OK);
    CHECK(!memcmp(expected, info_of(batch).image.data, bytes));
    bzna_batch_release(batch);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    archive_clear(&one);
    coded_clear(&chart);
    free(expected);
}

/* Pictures of the output's size are copied by the default warp, whatever filter is asked for. */
TEST(without_a_warp_a_sample_of_the_outputs_size_is_copied_to_the_bit)
{
    static const int first[1] = { 0 };
    memory m;
    coded chart = coded_load_from(context, mini_files[1], 6, NULL);
    const recipe of_one = { .count = 1, .pictures = &chart, .pattern = first, .pattern_count = 1 };
    archive one = archive_build(context, &of_one);
    bzna_dataset *dataset = open_archive(&m, &one);
    const size_t bytes = (size_t)3 * 512 * 512 * sizeof(float);
    float *copied = take_memory(bytes);
    for (uint32_t filter = 0; filter <= 2 * BZNA_FILTER_CUBIC_075 + 1; filter++)
        for (int is_default = 0; is_default < 2; is_default++) {
            bzna_loader_config c = config_of(1, BZNA_ORDER_SEQUENTIAL);
            bzna_loader *loader;
            bzna_batch *batch;
            c.warp = (bzna_warp){ .kind = is_default ? 0 : BZNA_WARP_NONE };
            c.output.width = c.output.height = 512;
            c.filter.kind = filter / 2;
            c.filter.antialias = filter % 2 && filter / 2 != BZNA_FILTER_AREA ? BZNA_ANTIALIAS_OFF : 0;
            loader = open_loader(dataset, &c);
            batch = next_batch(loader);
            if (is_default)
                CHECK(!memcmp(copied, info_of(batch).image.data, bytes));
            else
                memcpy(copied, info_of(batch).image.data, bytes);
            bzna_batch_release(batch);
            bzna_loader_close(loader);
        }
    bzna_dataset_close(dataset);
    archive_clear(&one);
    coded_clear(&chart);
    free(copied);
}

static double reference_plane(const bzna_picture *p, int k, double x, double y, int shift)
{
    const uint8_t *plane = p->plane[k];
    double x0 = p->crop_x >> shift, x1 = (p->crop_x + p->width - 1) >> shift, y0 = p->crop_y >> shift,
           y1 = (p->crop_y + p->height - 1) >> shift, v[4];
    x = fmin(fmax(x, x0), x1);
    y = fmin(fmax(y, y0), y1);
    for (int i = 0; i < 4; i++) {
        int64_t column = (int64_t)fmin(floor(x) + (i & 1), x1), row = (int64_t)fmin(floor(y) + (i >> 1), y1);
        v[i] = plane[row * p->pitch[k] + column];
    }
    x -= floor(x);
    y -= floor(y);
    return (v[0] * (1 - x) + v[1] * x) * (1 - y) + (v[2] * (1 - x) + v[3] * x) * y;
}

/* JFIF in double precision, from the planes: what a slot should look like, whatever the kernels think. */
TEST(a_center_crop_is_the_picture_that_a_double_precision_reference_paints)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &mixed);
    bzna_loader_config c = config_of(5, BZNA_ORDER_SEQUENTIAL);
    bzna_loader *loader;
    bzna_batch *batch;
    bzna_batch_info info;
    c.filter.antialias = BZNA_ANTIALIAS_OFF;             /* the reference takes two samples an axis */
    c.warp.kind = BZNA_WARP_CENTER_RESIZED_CROP;
    c.warp.crops = BZNA_CROPS_BENZINA;                          /* exactly centered */
    c.warp.scale[0] = 0.875;
    c.warp.flip_h = 0;
    c.output.width = c.output.height = 64;
    loader = open_loader(dataset, &c);
    batch = next_batch(loader);
    info = info_of(batch);
    for (uint32_t i = 0; i < 5; i++) {
        const bzna_picture *p = picture_of(&mixed, i);
        const float *data = (const float *)info.image.data + i * 3 * 64 * 64;
        double shrink = fmin(p->width, p->height) * 0.875 / 64, worst = 0, lowest = 255, highest = 0;
        for (int y = 0; y < 64; y++)
            for (int x = 0; x < 64; x++) {
                double u = p->crop_x + (p->width - 1) / 2.0 + (x - 31.5) * shrink,
                       v = p->crop_y + (p->height - 1) / 2.0 + (y - 31.5) * shrink;
                double luma = reference_plane(p, 0, u, v, 0),
                       cb = reference_plane(p, 1, (u + 0.5) / 2 - 0.5, (v + 0.5) / 2 - 0.5, 1) - 128;
                double cr = reference_plane(p, 2, (u + 0.5) / 2 - 0.5, (v + 0.5) / 2 - 0.5, 1) - 128;
                double rgb[3] = { luma + 1.402 * cr, luma - 0.344136286 * cb - 0.714136286 * cr, luma + 1.772 * cb };
                for (int k = 0; k < 3; k++) {
                    double value = (double)data[(k * 64 + y) * 64 + x];
                    worst = fmax(worst, fabs(value - fmin(fmax(rgb[k], 0), 255)));
                    lowest = fmin(lowest, value);
                    highest = fmax(highest, value);
                }
            }
        CHECK(worst < 0.02); /* floats, at coordinates up to 512, times slopes up to 255 */
        CHECK(highest - lowest > 50);                       /* and it is a picture */
    }
    bzna_batch_release(batch);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

/* ---- Everything at once ------------------------------------------------------------------------------------------ */

/* A consumer takes batches and holds some, a releaser gives them back out of order, a controller stops, resets, saves
 * and restores, and memory runs out now and then; then all is closed, with batches still on loan. Whatever comes out is
 * right for the epoch and the position that it says, and for the policy for errors. */
typedef struct storm {
    bzna_loader   *loader;
    ledger        *memory;
    run            model;             /* for the oracle; epoch and position come from the batches */
    uint32_t       world;
    uint32_t       shelves;           /* batches that are held; 0: each is released at once */
    int            starves;           /* memory runs out now and then, which may end a run, and costs no sample */
    atomic_int     done, wrong;
    _Atomic int64_t delivered, resets, restores;
    bzna_batch    *_Atomic shelf[8];
    uint64_t       random;
} storm;

static uint32_t storm_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* The sample at a position of a batch's epoch. */
static uint64_t storm_index(const storm *s, const bzna_batch_info *info, uint64_t position)
{
    return s->model.c.order.kind == BZNA_ORDER_SHUFFLE ?
        bzna_order_permute(s->model.c.order.seed, info->epoch, s->model.a->count, position) : position;
}

static void storm_check(storm *s, const bzna_batch *batch, uint64_t *random)
{
    bzna_batch_info info = info_of(batch);
    uint64_t count = s->model.a->count;
    for (int64_t i = 0; i < info.image.shape[0]; i++) {
        uint64_t position = (info.position + (uint64_t)i * s->world) % count, index = storm_index(s, &info, position);
        while (s->model.a->bad[index] && s->model.c.errors.on_error == BZNA_ON_ERROR_REPLACE) {
            position = (position + s->world) % count;
            index = storm_index(s, &info, position);
        }
        s->wrong += info.indices[i] != index;
        if (s->model.a->bad[index])
            s->wrong += info.status[i] != BZNA_E_BOX ||
                        !is_filled(&s->model.c, (const float *)info.image.data + i * SLOT);
        else if (storm_random(random) % 4 == 0)
            s->wrong += !slot_is_right(&s->model, &info, (uint32_t)i, info.epoch, index);
    }
}

/* Whoever waits for something that is there was woken, each thread that waits is counted as such, no thread is counted
 * twice, and no entry is lost. Once nothing is left to do, all wait. */
static int storm_counts(storm *s, int all)
{
    bzi_queues *q = &s->loader->queues;
    const bzi_entries *entries = q->entries;
    uint32_t counts[BZI_ENTRY_STATES] = { 0 };
    int right = 1;
    bzi_os_lock(&q->mutex);
    for (uint32_t i = 0; i < s->loader->entry_count; i++)
        counts[s->loader->entries[i].state]++;
    for (uint32_t state = 0; state < BZI_ENTRY_STATES; state++)
        right &= counts[state] == entries[state].count;
    for (uint32_t role = 0; role < BZI_ROLES; role++)
        right &= !q->sleeping[role] || q->woken[role] || !bzi_can(q, role) || q->alarm <= bzi_os_now_ns();
    right &= q->sleeping[BZI_ROLE_READ] + entries[BZI_ENTRY_READING].count <=
             q->reader_count + (q->reader_count ? 0 : q->worker_count) &&
             q->sleeping[BZI_ROLE_WORK] + entries[BZI_ENTRY_TAKEN].count <= q->worker_count &&
             q->held_bytes <= q->memory_bytes;
    if (all)
        right &= q->sleeping[BZI_ROLE_READ] == q->reader_count && q->sleeping[BZI_ROLE_WORK] == q->worker_count &&
                 bzi_can(q, BZI_ROLE_CONTROL);
    bzi_os_unlock(&q->mutex);
    return right;
}

static void *storm_consume(void *argument)
{
    storm *s = argument;
    uint64_t random = s->random + 1;
    while (!s->done) {
        bzna_batch *batch = NULL;
        int64_t timeout = storm_random(&random) % 3 * 500000;
        bzna_status status;
        if (storm_random(&random) % 3)
            timeout = BZNA_WAIT_FOREVER;
        status = bzna_loader_next(s->loader, timeout, &batch, NULL);
        s->wrong += (status == BZNA_OK) != (batch != NULL);
        if (status == BZNA_OK) {
            s->delivered++;
            storm_check(s, batch, &random);
            if (s->shelves)
                batch = atomic_exchange(&s->shelf[storm_random(&random) % s->shelves], batch);
            if (batch)
                s->wrong += bzna_batch_release(batch) != BZNA_OK;
        } else if (status == BZNA_E_STOPPED || status == BZNA_E_STATE || status == BZNA_AGAIN || status == BZNA_END ||
                   (s->starves && status == BZNA_E_MEMORY) ||
                   (s->model.c.errors.on_error == BZNA_ON_ERROR_STOP && status == BZNA_E_BOX)) {
            sleep_us(200);
        } else {
            s->wrong++;
        }
    }
    return NULL;
}

static void *storm_release(void *argument)
{
    storm *s = argument;
    uint64_t random = s->random + 2;
    while (!s->done) {
        bzna_batch *batch = atomic_exchange(&s->shelf[storm_random(&random) % 8], NULL);
        if (batch) {
            storm_check(s, batch, &random);
            s->wrong += bzna_batch_release(batch) != BZNA_OK;
        }
        sleep_us((int)(storm_random(&random) % 400));
    }
    return NULL;
}

static void *storm_control(void *argument)
{
    storm *s = argument;
    uint64_t random = s->random + 3;
    bzna_loader_state state;
    s->wrong += bzna_loader_save(s->loader, &state, sizeof state, NULL) != BZNA_OK;
    while (!s->done) {
        bzna_status status = BZNA_OK;
        s->wrong += !storm_counts(s, 0);
        s->memory->fail_all = s->starves && storm_random(&random) % 3 == 0;
        switch (storm_random(&random) % 8) {
        case 0:
            status = bzna_loader_stop(s->loader, NULL);
            break;
        case 1: case 2:
            status = bzna_loader_reset(s->loader, storm_random(&random) % 5, NULL);
            s->resets += status == BZNA_OK;
            break;
        case 3: case 4:
            status = bzna_loader_restore(s->loader, &state, NULL);
            s->restores += status == BZNA_OK;
            break;
        case 5: {
            bzna_loader_info info;
            s->wrong += bzna_loader_get_info(s->loader, &info, sizeof info, NULL) != BZNA_OK;
            break;
        }
        case 6: {
            bzna_statistics stats;
            s->wrong += bzna_loader_statistics(s->loader, &stats, sizeof stats, NULL) != BZNA_OK;
            break;
        }
        default:
            s->wrong += bzna_loader_save(s->loader, &state, sizeof state, NULL) != BZNA_OK;
            break;
        }
        s->wrong += status != BZNA_OK && status != BZNA_E_STATE;
        sleep_us((int)(storm_random(&random) % 3000));
    }
    s->memory->fail_all = 0;
    return NULL;
}

/* The numbers of a list's entries, as digits. */
static unsigned digits_of(const bzi_entries *list, const bzi_entry *table)
{
    unsigned digits = 0;
    for (const bzi_entry *entry = list->first; entry; entry = entry->next)
        digits = 10 * digits + (unsigned)(entry - table);
    return digits;
}

TEST(planned_entries_are_read_in_their_order_when_their_time_has_come_and_there_is_memory)
{
    static bzi_queues q = { .memory_bytes = 100, .held_bytes = 60 };
    static bzi_entry entries[5];
    bzi_entries *planned = &q.entries[BZI_ENTRY_PLANNED];
    const uint64_t later = bzi_os_now_ns() + 3600000000000u;
    bzi_entry *found;
    uint64_t when;
    CHECK(!bzi_queues_find_planned(&q, &when) && when == UINT64_MAX);
    for (uint32_t i = 0; i < 5; i++) {
        entries[i] = (bzi_entry){ .queues = &q, .ticket = i, .left = 2, .size = 7, .not_before = later + i };
        bzi_entries_add(&q.entries[BZI_ENTRY_EMPTY], &entries[i], NULL);
        q.entries[BZI_ENTRY_EMPTY].left += 2;
        q.entries[BZI_ENTRY_EMPTY].size += 7;
    }
    bzi_entry_move(&entries[3], BZI_ENTRY_PLANNED);
    bzi_entry_move(&entries[1], BZI_ENTRY_PLANNED);
    bzi_entry_move(&entries[4], BZI_ENTRY_PLANNED);
    bzi_entry_move(&entries[2], BZI_ENTRY_PLANNED);
    CHECK_EQ(digits_of(planned, entries), 1234);
    CHECK_EQ(planned->count, 4);
    CHECK_EQ(planned->left, 8);
    CHECK_EQ(planned->size, 28);
    CHECK(planned->last == &entries[4] && entries[4].before == &entries[3]);
    CHECK(!bzi_queues_find_planned(&q, &when) && when == later + 1);
    entries[3].not_before = 1;
    CHECK(bzi_queues_find_planned(&q, &when) == &entries[3]);

    /* an entry that waits for memory holds up those after it, until there is some, or until another entry can free
     * some */
    CHECK(bzi_queues_first_short(&q) == NULL);
    entries[2].not_before = 0;
    entries[2].wants = 41;
    CHECK(bzi_queues_first_short(&q) == &entries[2]);
    CHECK(!bzi_queues_find_planned(&q, &when) && when == later + 1);
    q.held_bytes = 59;
    CHECK(bzi_queues_find_planned(&q, &when) == &entries[2]);
    q.held_bytes = 60;
    entries[4].bytes.capacity = planned->memory = 1;
    CHECK(bzi_queues_find_planned(&q, &when) == &entries[2]);
    entries[4].bytes.capacity = planned->memory = 0;
    CHECK(!bzi_queues_find_planned(&q, &when));
    entries[0].bytes.capacity = q.entries[BZI_ENTRY_EMPTY].memory = 1;
    CHECK(bzi_queues_find_planned(&q, &when) == &entries[2]);
    q.stopped = 1;
    entries[2].wants = 0;
    entries[2].not_before = later;
    CHECK(!bzi_can_read(&q, &found, &when) && when == UINT64_MAX);
    q.stopped = 0;

    /* what is taken out leaves both ends right, and an entry whose slots are ended is planned again, or empty */
    bzi_entry_move(&entries[1], BZI_ENTRY_TAKEN);
    bzi_entry_move(&entries[4], BZI_ENTRY_FULL);
    CHECK(planned->memory == 0 && q.entries[BZI_ENTRY_EMPTY].memory == 1);
    CHECK_EQ(digits_of(planned, entries), 23);
    CHECK(planned->first == &entries[2] && !entries[2].before && planned->last == &entries[3] && !entries[3].next);
    CHECK_EQ(q.entries[BZI_ENTRY_TAKEN].count, 1);
    entries[1].again = 1;
    bzi_entry_leave(&entries[1], 1);
    CHECK(entries[1].state == BZI_ENTRY_TAKEN && entries[1].left == 1);
    bzi_entry_leave(&entries[1], 1);
    CHECK(planned->first == &entries[1] && entries[1].left == 1 && !entries[1].again && planned->left == 5);
    bzi_entry_move(&entries[1], BZI_ENTRY_READING);
    bzi_entry_leave(&entries[1], 1);
    CHECK_EQ(digits_of(&q.entries[BZI_ENTRY_EMPTY], entries), 10);
}

TEST(starts_stops_resets_restores_and_closes_at_random_do_no_harm)
{
    const char *seconds = getenv("BENZINA_STRESS_SECONDS");
    const double storm_s = seconds ? atof(seconds) : SANITIZED || test_all() ? 3 : 1;
    uint64_t random = 20240607, end = bzi_os_now_ns() + (uint64_t)(storm_s * 1e9);
    int64_t delivered = 0, resets = 0, restores = 0;
    int rounds = 0;
    while (bzi_os_now_ns() < end ||
           ((rounds < 4 || delivered < 20 || resets < 5 || restores < 5) && bzi_os_now_ns() < end + 60000000000u)) {
        memory m;
        ledger l;
        storm s;
        bzna_context *own = open_context(&l, NULL, NULL, 0);
        bzna_dataset *dataset;
        bzna_loader_config c = config_of(1 + storm_random(&random) % 12, storm_random(&random) % 2);
        bzna_loader_output more = { .name = "more", .width = 8, .height = 8 };
        pthread_t threads[4];
        const archive *const archives[] = { &quick, &mixed, &hurt, &hurt }, *a = archives[storm_random(&random) % 4];
        const int in_memory = storm_random(&random) % 4 == 0;         /* workers read it */
        dataset = open_split(own, &m, a, NULL);
        if (in_memory) {
            bzna_dataset_close(dataset);
            require(bzna_dataset_open_memory(own, a->bytes, a->size, NULL, &dataset, NULL), "memory");
        }
        m.jitter_us = (int)(storm_random(&random) % 3 * 1000);
        m.unreliable = storm_random(&random) % 3 ? 0 : 3;
        c.read.retries = 60;
        c.read.backoff_ns = 1 + storm_random(&random) % 20000;
        c.decode.threads = 1 + storm_random(&random) % 4;
        c.read.threads = in_memory ? 0 : storm_random(&random) % 8 ? 1 + storm_random(&random) % 3 : 40;
        bzi_lock_delays = storm_random(&random) % 2;
        c.read.memory_bytes = storm_random(&random) % 2 ? 1 << 16 : 0;         /* a few samples' */
        c.pipeline.batches_in_flight = 1 + storm_random(&random) % 5;
        c.errors.on_error = storm_random(&random) % 3;
        c.decode.hybrid = c.errors.on_error == BZNA_ON_ERROR_FILL && storm_random(&random) % 2;
        if (storm_random(&random) % 3 == 0) {
            c.extra_outputs.ptr = &more;
            c.extra_outputs.count = 1;
        }
        c.read.ahead_samples = storm_random(&random) % 10;
        c.shard.world_size = 1 + storm_random(&random) % 3;
        c.shard.rank = storm_random(&random) % c.shard.world_size;
        c.order.last_batch = storm_random(&random) % 3;
        c.order.epochs = 1 + storm_random(&random) % 4;
        memset(&s, 0, sizeof s);
        s.model = run_of(a, &c);
        s.world = c.shard.world_size;
        s.random = random;
        s.memory = &l;
        s.shelves = storm_random(&random) % (c.pipeline.batches_in_flight + 1);
        s.starves = storm_random(&random) % 4 == 0;
        require(bzna_loader_open(own, dataset, &c, &s.loader, NULL), "loader");
        pthread_create(&threads[0], NULL, storm_consume, &s);
        pthread_create(&threads[1], NULL, storm_release, &s);
        pthread_create(&threads[2], NULL, storm_control, &s);
        pthread_create(&threads[3], NULL, storm_release, &s);
        sleep_us((int)(20000 + storm_random(&random) % 120000));
        s.done = 1;
        pthread_join(threads[2], NULL);                     /* who might reset */
        bzna_loader_stop(s.loader, NULL);
        pthread_join(threads[0], NULL);
        pthread_join(threads[1], NULL);
        pthread_join(threads[3], NULL);
        WAIT_FOR(storm_counts(&s, 1));
        if (rounds % 2)
            bzna_context_close(own);
        CHECK_EQ(bzna_loader_close(s.loader), BZNA_OK);
        bzi_lock_delays = 0;
        bzna_dataset_close(dataset);
        for (int i = 0; i < 8; i++) {
            if (s.shelf[i])
                storm_check(&s, s.shelf[i], &random);
            bzna_batch_release(s.shelf[i]);
        }
        if (rounds % 2 == 0)
            bzna_context_close(own);
        CHECK_EQ(s.wrong, 0);
        CHECK_EQ(m.closes, 1);
        check_settled(&l);
        delivered += s.delivered;
        resets += s.resets;
        restores += s.restores;
        rounds++;
    }
    printf("stress: %d loaders, %d batches, %d resets, %d restores\n", rounds, (int)delivered, (int)resets,
           (int)restores);
    /* the fake driver shares the processors */
    CHECK(rounds >= 4 && resets >= 5 && restores >= 5 && (delivered >= 20 || TEST_NVDEC));
}

static void everything(void)
{
    RUN(the_same_seed_gives_the_same_bytes_for_any_threads_readers_and_sources)
    RUN(every_slot_is_what_the_pure_functions_say)
    RUN(sequential_order_is_the_files)
    RUN(a_shuffle_takes_each_sample_once_an_epoch_and_each_epoch_another_order)
    RUN(last_batches_are_partial_dropped_or_padded)
    RUN(padding_repeats_the_start_of_the_epochs_order)
    RUN(padding_can_have_values_of_its_own)
    RUN(values_of_padding_that_have_no_effect_are_refused)
    RUN(samples_without_a_target_say_so)
    RUN(epochs_follow_each_other_and_then_it_ends_for_good)
    RUN(endless_epochs_go_on)
    RUN(several_batches_on_loan_stay_as_they_are_and_come_back_in_any_order)
    RUN(a_batch_is_released_once)
    RUN(polling_and_timeouts_give_again)
    RUN(stop_ends_a_waiting_next_at_once_and_until_reset)
    RUN(a_reset_drops_a_slot_that_waits_for_another_sample)
    RUN(reset_goes_to_the_start_of_any_epoch)
    RUN(a_run_goes_on_from_any_state_with_other_threads_and_batches)
    RUN(a_state_is_that_of_the_last_delivered_batch_not_of_what_is_read_ahead)
    RUN(a_state_restored_in_a_world_of_another_size_leaves_nothing_out)
    RUN(states_of_other_datasets_or_orders_and_damaged_ones_are_refused)
    RUN(all_ranks_together_see_each_sample_once)
    RUN(a_corrupt_sample_costs_its_own_slot_and_no_other)
    RUN(damage_in_a_slice_has_the_same_outcome_in_a_loader_as_alone)
    RUN(a_read_that_fails_costs_its_own_sample)
    RUN(a_track_that_is_not_there_is_refused_and_one_that_is_serves)
    RUN(a_callback_may_change_everything_and_its_failure_costs_its_own_slot)
    RUN(what_a_callback_returns_is_checked_before_it_is_used)
    RUN(closing_inside_a_callback_is_refused_and_does_nothing)
    RUN(warnings_come_on_the_callers_thread_unless_asked_otherwise)
    RUN(batches_outlive_loader_dataset_and_context_and_then_all_memory_is_back)
    RUN(a_loader_can_be_closed_in_every_phase)
    RUN(closing_ends_a_waiting_next)
    RUN(closing_null_does_nothing)
    RUN(every_allocation_of_open_may_fail)
    RUN(without_memory_a_run_ends_whatever_the_policy_is_and_goes_on_after_a_reset)
    RUN(what_ends_a_run_also_does_so_in_a_slot_of_padding)
    RUN(in_steady_state_nothing_is_allocated)
    RUN(with_samples_of_all_sizes_buffers_grow_a_bounded_number_of_times)
    RUN(after_fork_the_child_gets_e_state_and_the_parent_goes_on)
    RUN(the_librarys_threads_block_all_signals)
    RUN(configs_without_meaning_are_refused_by_field)
    RUN(every_limit_is_accepted_and_one_more_is_refused)
    RUN(loaders_work_at_their_limits)
    RUN(a_sample_as_large_as_a_limit_is_read_and_one_of_a_byte_more_is_not)
    RUN(what_is_kept_for_later_is_refused_by_name)
    RUN(area_is_not_refused_but_without_antialias)
    RUN(reserved_words_that_are_set_are_refused_by_their_names)
    RUN(other_misuse_of_open_is_refused)
    RUN(absurd_sizes_are_refused_without_harm)
    RUN(defaults_are_filled_in_and_can_be_asked)
    RUN(a_config_comes_back_with_its_defaults_and_opens_the_same_loader_again)
    RUN(other_threads_may_ask_while_epochs_change)
    RUN(waits_for_the_loaders_lock_are_counted)
    RUN(no_warp_of_a_512x512_sample_is_the_picture_itself_to_the_bit)
    RUN(without_a_warp_a_sample_of_the_outputs_size_is_copied_to_the_bit)
    RUN(a_center_crop_is_the_picture_that_a_double_precision_reference_paints)
    RUN(planned_entries_are_read_in_their_order_when_their_time_has_come_and_there_is_memory)
    RUN(starts_stops_resets_restores_and_closes_at_random_do_no_harm)
}

static int prepare(void)
{
    if (bzna_context_open(NULL, &context, NULL) != BZNA_OK)
        return 0;
    thumbs_make();
    mixed = archive_of(BZNA_CODEC_H265, 40, mixed_pattern, 5, 40);
    quick = archive_of(BZNA_CODEC_H265, 300, quick_pattern, 3, 300);
    single = archive_of(BZNA_CODEC_H265, 60, single_pattern, 1, 60);
    twin = archive_of(BZNA_CODEC_H265, 40, quick_pattern, 3, 40);
    hurt = archive_copy(&quick);
    hurt_every(&hurt, 7);
    h264 = archive_of(BZNA_CODEC_H264, 20, mixed_pattern, 5, 12);
    return 1;
}

static void finish(void)
{
    archive *archives[] = { &mixed, &quick, &single, &h264, &twin, &hurt };
    for (size_t i = 0; i < COUNT(archives); i++)
        archive_clear(archives[i]);
    for (int i = 0; i < 16; i++)
        coded_clear(&thumbs[i / 8][i % 8]);
    bzna_context_close(context);
}

TEST_MAIN(if (!prepare()) return 1; everything(); finish();)
#endif
