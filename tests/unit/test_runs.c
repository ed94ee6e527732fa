/* Runs of samples: small samples go through a loader's queues many at a time. Nothing that a consumer sees depends on
 * how many that are: pixels, order, failures, states. */
#include "library.h"
#include "../../examples/formats/formats.h"
#include "test.h"
#include "known.h"

#include <pthread.h>
#include <unistd.h>

enum { EDGE = 12, LABEL = 1, PIXELS = 3 * EDGE * EDGE, RECORD = LABEL + PIXELS, FILES = 3, SAMPLES = 1500 };
static const uint32_t counts[FILES] = { 700, 1, 799 };
static uint8_t *records;                                  /* of all files, one behind the other */
static bzna_context *context;

static void require(bzna_status status, const bzna_error *err)
{
    if (status >= 0)
        return;
    fprintf(stderr, "%s\n", err->message);
    abort();
}

static uint8_t byte_at(uint64_t i) { return (uint8_t)((i * 2654435761u + i / 7) >> 5); }

static void path_of(char path[64], int file) { snprintf(path, 64, TEST_BUILD "/tests/run%d.records", file); }

static bzna_records record_layout(void)
{
    bzna_records r;
    bzna_formats_records_init(&r, sizeof r);
    r.data_type = BZNA_RECORD_UINT8;
    r.channels = 3;
    r.width = r.height = EDGE;
    r.data_offset = LABEL;
    r.label_type = BZNA_RECORD_UINT8;
    return r;
}

/* A source of the user's, whose reads fail where `bad` lies, and take some time. */
typedef struct slow_source {
    uint64_t    bad;                                        /* a record, or UINT64_MAX */
    atomic_int  failures, left;                             /* so many reads of it have failed; are to fail yet */
    int         us;
} slow_source;

static int64_t slow_read(void *user, uint64_t offset, void *dst, uint64_t size)
{
    slow_source *s = user;
    const uint64_t at = s->bad * RECORD;
    if (s->us)
        usleep((useconds_t)s->us);
    if (s->bad < SAMPLES && offset < at + RECORD && offset + size > at && s->left > 0) {
        s->left--;
        s->failures++;
        return -5;
    }
    if (offset >= (uint64_t)SAMPLES * RECORD)
        return 0;
    size = size < (uint64_t)SAMPLES * RECORD - offset ? size : (uint64_t)SAMPLES * RECORD - offset;
    memcpy(dst, records + offset, size);
    return (int64_t)size;
}

static int64_t slow_size(void *user) { (void)user; return (int64_t)SAMPLES * RECORD; }

/* By the source, or from memory if that is NULL. */
static bzna_dataset *open_records(slow_source *s, const bzna_records *layout)
{
    bzna_source source = { sizeof source, 0, s, slow_read, slow_size, NULL, NULL };
    const bzna_formats_config config = { .struct_size = sizeof config, .records = layout };
    bzna_dataset *dataset = NULL;
    bzna_error err = fresh_error();
    require(s ? bzna_formats_open_source(context, &source, &config, &dataset, &err) :
                bzna_formats_open_memory(context, records, (size_t)SAMPLES * RECORD, &config, &dataset, &err), &err);
    return dataset;
}

static bzna_dataset *open_source(slow_source *s)
{
    const bzna_records r = record_layout();
    return open_records(s, &r);
}

/* Three files, of which one has one record. They are held in memory if they have at most so many bytes together. */
static bzna_dataset *open_held(uint64_t hold_bytes)
{
    char paths[FILES][64];
    const char *list[FILES];
    const bzna_records r = record_layout();
    const bzna_formats_config config = { .struct_size = sizeof config, .records = &r, .hold_bytes = hold_bytes };
    bzna_dataset *dataset = NULL;
    bzna_error err = fresh_error();
    size_t at = 0;
    for (int i = 0; i < FILES; i++) {
        path_of(paths[i], i);
        spill(paths[i], records + at, (size_t)counts[i] * RECORD);
        at += (size_t)counts[i] * RECORD;
        list[i] = paths[i];
    }
    require(bzna_formats_open_list(context, list, FILES, &config, &dataset, &err), &err);
    return dataset;
}

/* Each sample is read from its file. */
static bzna_dataset *open_files(void) { return open_held(1); }

/* Padded by 2, cropped, flipped and normalized, as CIFAR is. */
static bzna_loader_config config_of(uint32_t batch)
{
    bzna_loader_config c;
    bzna_loader_config_init(&c, sizeof c);
    c.output.width = c.output.height = EDGE;
    c.output.batch_size = batch;
    c.order.kind = BZNA_ORDER_SHUFFLE;
    c.order.seed = 5;
    c.order.epochs = 2;
    c.decode.threads = 2;
    c.warp.kind = BZNA_WARP_MXNET;
    c.warp.mxnet.pad_px = 2;
    c.warp.random_crop = 1;
    c.warp.flip_h = 0.5;
    for (int i = 0; i < 3; i++) {
        c.color.mean[i] = (float)(100 + i);
        c.color.std[i] = (float)(50 + i);
    }
    return c;
}

/* The records' own bytes, in the order of the files. */
static bzna_loader_config config_of_bytes(uint32_t batch)
{
    bzna_loader_config c = config_of(batch);
    memset(&c.warp, 0, sizeof c.warp);
    memset(&c.color, 0, sizeof c.color);
    c.order.kind = BZNA_ORDER_SEQUENTIAL;
    c.output.dtype = BZNA_DTYPE_UINT8;
    return c;
}

static bzna_loader *open_loader(bzna_dataset *dataset, const bzna_loader_config *c)
{
    bzna_loader *loader = NULL;
    bzna_error err = fresh_error();
    require(bzna_loader_open(context, dataset, c, &loader, &err), &err);
    return loader;
}

/* Of all that a batch has. */
static uint64_t hash_batch(bzna_batch *batch, uint64_t hash)
{
    static const char *const others[] = { "large", "small", "geometry" };
    bzna_batch_info info = { .struct_size = sizeof info };
    CHECK_EQ(bzna_batch_get_info(batch, &info, sizeof info, NULL), BZNA_OK);
    for (size_t i = 0; i < COUNT(others); i++) {
        bzna_tensor tensor = { .struct_size = sizeof tensor };
        if (bzna_batch_tensor(batch, others[i], &tensor, sizeof tensor, NULL) == BZNA_OK)
            hash = bzi_hash(hash, tensor.data, (size_t)tensor.bytes);
    }
    hash = bzi_hash(hash, info.image.data, (size_t)info.image.bytes);
    hash = bzi_hash(hash, info.indices, info.count * sizeof *info.indices);
    hash = bzi_hash(hash, info.targets, info.count * sizeof *info.targets);
    hash = bzi_hash(hash, info.status, info.count * sizeof *info.status);
    return bzi_hash(hash, &info.failed, sizeof info.failed);
}

/* Of all batches up to the end, or so many. */
static uint64_t hash_batches(bzna_loader *loader, uint64_t most)
{
    uint64_t hash = BZI_HASH_START;
    bzna_batch *batch;
    while (most-- && bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
        hash = hash_batch(batch, hash);
        bzna_batch_release(batch);
    }
    return hash;
}

static uint64_t hash_run(bzna_dataset *dataset, const bzna_loader_config *c)
{
    bzna_loader *loader = open_loader(dataset, c);
    const uint64_t hash = hash_batches(loader, UINT64_MAX);
    bzna_loader_close(loader);
    return hash;
}

TEST(batches_do_not_depend_on_how_long_runs_are_nor_on_where_samples_lie)
{
    slow_source source = { .bad = UINT64_MAX };
    const bzna_records layout = record_layout();
    bzna_dataset *const sets[] = { open_files(), open_held(0), open_records(NULL, &layout),
                                   open_source(&source) };
    static const struct { uint32_t dtype, layout; } types[] = {
        { BZNA_DTYPE_FLOAT32, BZNA_LAYOUT_NCHW }, { BZNA_DTYPE_FLOAT16, BZNA_LAYOUT_NHWC },
        { BZNA_DTYPE_BFLOAT16, BZNA_LAYOUT_NCHW }, { BZNA_DTYPE_UINT8, BZNA_LAYOUT_NHWC },
        { BZNA_DTYPE_FLOAT32, BZNA_LAYOUT_NHWC }, { BZNA_DTYPE_UINT8, BZNA_LAYOUT_NCHW } };
    static const struct { uint32_t ahead, threads, readers; } ways[] = {
        { 0, 2, 0 }, { 0, 1, 3 }, { 0, 5, 2 }, { 40, 2, 1 }, { 2000, 1, 1 } };
    static const uint32_t batches[] = { 256, 7, 1 };
    for (size_t i = 0; i < COUNT(types); i++)
        for (size_t b = 0; b < (i ? 1 : COUNT(batches)); b++) {
            bzna_loader_config c = config_of(batches[b]);
            uint64_t expected;
            c.order.kind = i % 2 ? BZNA_ORDER_SEQUENTIAL : BZNA_ORDER_SHUFFLE;
            c.order.epochs = b < 2 ? 2 : ROUNDS(2, 1);      /* batches of one take longest */
            c.output.dtype = types[i].dtype;
            c.output.layout = types[i].layout;
            c.decode.threads = c.read.threads = c.read.ahead_samples = 1;
            expected = hash_run(sets[3], &c);              /* runs of one */
            for (size_t set = 0; set < COUNT(sets); set++)
                for (size_t w = ROUNDS(0, (i + set) % 2); w < COUNT(ways); w += ROUNDS(1, 2)) {
                    c.read.ahead_samples = ways[w].ahead;
                    c.decode.threads = ways[w].threads;
                    c.read.threads = ways[w].readers;
                    CHECK_EQ(hash_run(sets[set], &c), expected);
                }
        }
    for (size_t i = 0; i < COUNT(sets); i++)
        bzna_dataset_close(sets[i]);
}

/* What is delivered is what the files have, read one range a run of neighbors. */
TEST(pictures_of_runs_across_files_are_those_of_the_files)
{
    bzna_dataset *dataset = open_files();
    bzna_loader_config c = config_of_bytes(256);
    bzna_loader *loader = open_loader(dataset, &c);
    bzna_batch *batch;
    uint64_t at = 0, wrong = 0, longest = 0;
    while (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
        bzna_batch_info info = { .struct_size = sizeof info };
        CHECK_EQ(bzna_batch_get_info(batch, &info, sizeof info, NULL), BZNA_OK);
        for (uint32_t k = 0; k < info.count; k++, at++) {
            const uint8_t *record = records + at % SAMPLES * RECORD;
            wrong += info.indices[k] != at % SAMPLES || info.targets[k] != record[0] || info.status[k] != BZNA_OK ||
                     memcmp((uint8_t *)info.image.data + k * PIXELS, record + LABEL, PIXELS) != 0;
        }
        bzi_queues_lock(&loader->queues);
        longest = bzi_queues_run_length(&loader->queues) > longest ? bzi_queues_run_length(&loader->queues) : longest;
        bzi_os_unlock(&loader->queues.mutex);
        bzna_batch_release(batch);
    }
    CHECK_EQ(at, 2 * SAMPLES);
    CHECK_EQ(wrong, 0);
    CHECK(longest > 1);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

/* Every policy, read again or not: the others are as they were. */
TEST(a_sample_that_cannot_be_read_costs_its_own_slot_only)
{
    for (uint32_t readers = 1; readers <= 3; readers += 2)
        for (uint64_t bad = 0; bad < SAMPLES; bad += 701)
            for (uint32_t retries = 0; retries < 2; retries++) {
                slow_source source = { .bad = bad };
                bzna_dataset *dataset = open_source(&source);
                bzna_loader_config c = config_of(300);
                bzna_loader *loader;
                bzna_batch *batch;
                uint64_t failed = 0, wrong = 0;
                source.left = 2;                            /* opening has read it */
                memset(&c.warp, 0, sizeof c.warp);
                memset(&c.color, 0, sizeof c.color);
                c.order.epochs = 1;
                c.output.dtype = BZNA_DTYPE_UINT8;
                c.read.threads = readers;
                c.read.retries = 2 * retries;
                c.read.backoff_ns = 1000;
                loader = open_loader(dataset, &c);
                while (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
                    bzna_batch_info info = { .struct_size = sizeof info };
                    CHECK_EQ(bzna_batch_get_info(batch, &info, sizeof info, NULL), BZNA_OK);
                    for (uint32_t k = 0; k < info.count; k++) {
                        const int is_bad = info.indices[k] == bad && !retries;
                        const uint8_t *record = records + info.indices[k] * RECORD;
                        failed += info.status[k] == BZNA_E_IO;
                        wrong += is_bad ? info.status[k] != BZNA_E_IO :
                                          info.status[k] != BZNA_OK || info.targets[k] != record[0] ||
                                          memcmp((uint8_t *)info.image.data + k * PIXELS, record + LABEL, PIXELS) != 0;
                    }
                    bzna_batch_release(batch);
                }
                CHECK_EQ(wrong, 0);
                CHECK_EQ(failed, !retries);
                CHECK_EQ(source.failures, retries ? 2 : 1);         /* a read a sample of a source of the user's */
                bzna_loader_close(loader);
                bzna_dataset_close(dataset);
            }
}

/* The range of a run cannot be read then, and what is there is read by itself. */
TEST(of_a_file_that_was_cut_after_opening_only_what_is_gone_fails)
{
    bzna_dataset *dataset = open_files();
    bzna_loader_config c = config_of(250);
    bzna_loader *loader;
    bzna_batch *batch;
    uint64_t failed = 0, wrong = 0;
    char path[64];
    path_of(path, 2);
    CHECK_EQ(truncate(path, 500 * RECORD + 3), 0);
    c.order.kind = BZNA_ORDER_SEQUENTIAL;
    c.order.epochs = 1;
    loader = open_loader(dataset, &c);
    while (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
        bzna_batch_info info = { .struct_size = sizeof info };
        CHECK_EQ(bzna_batch_get_info(batch, &info, sizeof info, NULL), BZNA_OK);
        for (uint32_t k = 0; k < info.count; k++) {
            failed += info.status[k] != BZNA_OK;
            wrong += (info.status[k] != BZNA_OK) != (info.indices[k] >= 1201);
        }
        bzna_batch_release(batch);
    }
    CHECK_EQ(failed, 299);
    CHECK_EQ(wrong, 0);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

/* In their order, so that which files are held does not depend on which of them is opened first. */
TEST(the_first_files_are_held_in_memory_as_long_as_they_fit)
{
    static const struct { uint64_t hold; uint32_t open; } cases[] = {
        { 0, 0 }, { 1, FILES - 1 }, { SAMPLES * RECORD - 1, 1 }, { SAMPLES * RECORD, 0 }, { UINT64_MAX, 0 } };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const uint32_t open_before = atomic_load(&context->host->files);
        bzna_dataset *dataset = open_held(cases[i].hold);
        /* that of one record is opened when it is read */
        CHECK_EQ(atomic_load(&context->host->files) - open_before, cases[i].open);
        bzna_dataset_close(dataset);
        CHECK_EQ(atomic_load(&context->host->files), open_before);
    }
}

/* What becomes of the files is of no interest any more. */
TEST(files_that_are_held_in_memory_may_be_cut_and_removed)
{
    bzna_dataset *dataset = open_held(0);
    const bzna_loader_config c = config_of(256);
    const uint64_t expected = hash_run(dataset, &c);
    char path[64];
    path_of(path, 0);
    spill(path, "others", 6);
    path_of(path, 2);
    CHECK_EQ(remove(path), 0);
    CHECK_EQ(hash_run(dataset, &c), expected);
    bzna_dataset_close(dataset);
}

TEST(a_run_that_is_resumed_anywhere_goes_on_as_it_would_have)
{
    bzna_dataset *dataset = open_files();
    for (uint32_t batch = 5; batch <= 300; batch += 295)
        for (uint64_t taken = 1; taken < 8; taken += 3) {
            bzna_loader_config c = config_of(batch);
            bzna_loader *a = open_loader(dataset, &c), *b;
            bzna_loader_state state = { .struct_size = sizeof state };
            hash_batches(a, taken);
            CHECK_EQ(bzna_loader_save(a, &state, sizeof state, NULL), BZNA_OK);
            c.read.threads = 2;
            c.read.ahead_samples = 3;
            b = open_loader(dataset, &c);
            CHECK_EQ(bzna_loader_restore(b, &state, NULL), BZNA_OK);
            CHECK_EQ(hash_batches(b, UINT64_MAX), hash_batches(a, UINT64_MAX));
            bzna_loader_close(a);
            bzna_loader_close(b);
        }
    bzna_dataset_close(dataset);
}

/* Runs are cut where memory is short, and no reader waits with some in hand. */
TEST(runs_stay_under_the_ceiling_of_memory)
{
    slow_source source = { .bad = UINT64_MAX };
    bzna_dataset *const sets[] = { open_files(), open_source(&source) };
    for (int i = 0; i < ROUNDS(40, 12); i++) {              /* where memory is short, timing decides */
        bzna_loader_config c = config_of(256);
        bzna_loader *loader;
        bzna_batch *batch;
        uint64_t expected, hash = BZI_HASH_START, most = 0;
        c.order.kind = i / 2 % 2 ? BZNA_ORDER_SEQUENTIAL : BZNA_ORDER_SHUFFLE;
        expected = hash_run(sets[i % 2], &c);
        c.read.memory_bytes = 10000;                        /* of two samples: they take 4096 each */
        c.read.threads = 3;
        loader = open_loader(sets[i % 2], &c);
        while (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
            bzna_statistics stats = { .struct_size = sizeof stats };
            CHECK_EQ(bzna_loader_statistics(loader, &stats, sizeof stats, NULL), BZNA_OK);
            most = stats.read_memory_bytes > most ? stats.read_memory_bytes : most;
            hash = hash_batch(batch, hash);
            bzna_batch_release(batch);
        }
        CHECK_EQ(hash, expected);
        CHECK(most > 0 && most <= 10000);
        bzna_loader_close(loader);
    }
    bzna_dataset_close(sets[0]);
    bzna_dataset_close(sets[1]);
}

TEST(resets_and_stops_in_the_middle_of_runs_lose_nothing)
{
    slow_source source = { .bad = UINT64_MAX, .us = 1 };
    bzna_dataset *const sets[] = { open_files(), open_source(&source) };
    for (size_t i = 0; i < COUNT(sets); i++) {
        bzna_loader_config c = config_of(200);
        const uint64_t expected = hash_run(sets[i], &c);
        bzna_loader *loader = open_loader(sets[i], &c);
        for (int k = 0; k < 30; k++) {
            hash_batches(loader, (uint64_t)k % 5);
            if (k % 3 == 0)
                bzna_loader_stop(loader, NULL);
            CHECK_EQ(bzna_loader_reset(loader, 0, NULL), BZNA_OK);
        }
        CHECK_EQ(hash_batches(loader, UINT64_MAX), expected);
        bzna_loader_close(loader);
    }
    bzna_dataset_close(sets[0]);
    bzna_dataset_close(sets[1]);
}

/* ---- Fields without pictures ---- */

/* The same records as vectors of floats, whose bits are those of any: NaN of all kinds, -0, numbers too small. */
static bzna_records vector_layout(void)
{
    bzna_records r = record_layout();
    r.data_type = BZNA_RECORD_FLOAT32;
    r.channels = r.height = 1;
    r.width = PIXELS / sizeof(float);
    return r;
}

static bzna_dataset *open_vectors(slow_source *s)
{
    const bzna_records r = vector_layout();
    return open_records(s, &r);
}

static bzna_loader_config vector_config(uint32_t batch)
{
    bzna_loader_config c;
    bzna_loader_config_init(&c, sizeof c);
    c.output.batch_size = batch;
    c.fields.tensors = "data";
    c.order.kind = BZNA_ORDER_SHUFFLE;
    c.order.seed = 5;
    c.order.epochs = 2;
    c.decode.threads = 2;
    c.read.backoff_ns = 1000;
    return c;
}

/* Takes batches up to the end, or so many, and checks all slots. The bad record's, if there is one, has NaN. Returns a
 * hash of the order. */
static uint64_t check_vectors(bzna_loader *loader, uint64_t most, uint64_t bad)
{
    uint64_t hash = BZI_HASH_START, wrong = 0;
    bzna_batch *batch;
    while (most-- && bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
        bzna_batch_info info = { .struct_size = sizeof info };
        bzna_tensor t = { .struct_size = sizeof t };
        CHECK_EQ(bzna_batch_get_info(batch, &info, sizeof info, NULL), BZNA_OK);
        CHECK_EQ(bzna_batch_tensor(batch, "data", &t, sizeof t, NULL), BZNA_OK);
        for (uint32_t k = 0; k < info.count; k++) {
            const uint8_t *record = records + info.indices[k] * RECORD, *slot = (const uint8_t *)t.data + k * PIXELS;
            int is_nan = 1;
            for (uint32_t i = 0; i < PIXELS / sizeof(float); i++) {
                float number;
                memcpy(&number, slot + i * sizeof number, sizeof number);
                is_nan &= number != number;
            }
            wrong += info.indices[k] == bad ? info.status[k] != BZNA_E_IO || !is_nan :
                     info.status[k] != BZNA_OK || info.targets[k] != record[0] || memcmp(slot, record + LABEL, PIXELS);
        }
        hash = bzi_hash(hash, info.indices, info.count * sizeof *info.indices);
        bzna_batch_release(batch);
    }
    CHECK_EQ(wrong, 0);
    return hash;
}

/* Workers read where nothing is decoded, unless readers are asked for, and a thread in next without threads. */
TEST(vectors_are_copied_bit_by_bit_whoever_reads_them)
{
    slow_source source = { .bad = UINT64_MAX }, bad = { .bad = 1203 };
    bzna_dataset *const sets[] = { open_vectors(NULL), open_vectors(&source), open_vectors(&bad) };
    static const struct { uint32_t threads, readers, no_threads; uint64_t memory; } ways[] = {
        { 2, 0, 0, 0 }, { 1, 0, 0, 0 }, { 5, 0, 0, 0 }, { 5, 0, 0, 10000 }, { 2, 3, 0, 0 }, { 1, 1, 0, 10000 },
        { 0, 0, 1, 0 }, { 0, 0, 1, 10000 } };
    for (uint32_t batch = 7; batch <= 700; batch *= 10) {
        uint64_t expected = 0;
        for (size_t i = 0; i < COUNT(sets) * COUNT(ways); i++) {
            const size_t w = i / COUNT(sets), set = i % COUNT(sets);
            bzna_loader_config c = vector_config(batch);
            bzna_loader_info info = { .struct_size = sizeof info };
            bzna_loader *loader;
            uint64_t hash;
            c.decode.threads = ways[w].threads;
            c.read.threads = ways[w].readers;
            c.pipeline.no_threads = ways[w].no_threads || !BZI_THREADS;
            c.read.memory_bytes = ways[w].memory;
            bad.left = INT32_MAX;
            loader = open_loader(sets[set], &c);
            CHECK_EQ(bzna_loader_get_info(loader, &info, sizeof info, NULL), BZNA_OK);
            CHECK_EQ(info.reader_threads, c.pipeline.no_threads ? 0 : ways[w].readers);
            check_vectors(loader, i % 4, set == 2 ? bad.bad : UINT64_MAX);
            CHECK_EQ(bzna_loader_reset(loader, 0, NULL), BZNA_OK);
            hash = check_vectors(loader, UINT64_MAX, set == 2 ? bad.bad : UINT64_MAX);
            expected = i ? expected : hash;
            CHECK_EQ(hash, expected);
            bzna_loader_close(loader);
        }
    }
    for (size_t i = 0; i < COUNT(sets); i++)
        bzna_dataset_close(sets[i]);
}

/* One of the two is enough, so that numbers are not copied. */
TEST(vectors_are_calculated_where_the_layout_has_a_scale_or_a_bias)
{
    static const struct { float scale, bias; } ways[] = { { 2, 0 }, { 0, 0.5f }, { 1, -3 }, { 0.25f, 8 } };
    for (size_t w = 0; w < COUNT(ways); w++) {
        bzna_records r = vector_layout();
        bzna_loader_config c = vector_config(SAMPLES);
        bzna_batch_info info = { .struct_size = sizeof info };
        bzna_tensor t = { .struct_size = sizeof t };
        bzna_batch *batch;
        bzna_dataset *dataset;
        bzna_loader *loader;
        const double scale = ways[w].scale != 0 ? (double)ways[w].scale : 1;
        uint64_t wrong = 0, finite = 0;
        r.scale = ways[w].scale;
        r.bias = ways[w].bias;
        dataset = open_records(NULL, &r);
        loader = open_loader(dataset, &c);
        CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL), BZNA_OK);
        CHECK_EQ(bzna_batch_get_info(batch, &info, sizeof info, NULL), BZNA_OK);
        CHECK_EQ(bzna_batch_tensor(batch, "data", &t, sizeof t, NULL), BZNA_OK);
        for (uint64_t k = 0; k < info.count; k++)
            for (uint64_t i = 0; i < PIXELS / sizeof(float); i++) {
                float from, to, wanted;
                memcpy(&from, records + info.indices[k] * RECORD + LABEL + i * sizeof from, sizeof from);
                memcpy(&to, (const uint8_t *)t.data + k * PIXELS + i * sizeof to, sizeof to);
                wanted = (float)((double)from * scale + (double)ways[w].bias);
                wrong += to != wanted && (to == to || wanted == wanted);
                finite += from - from == 0 && from != 0;
            }
        CHECK_EQ(wrong, 0);
        CHECK(finite > 1000);
        bzna_batch_release(batch);
        bzna_loader_close(loader);
        bzna_dataset_close(dataset);
    }
}

static void count_close(void *user) { ++*(int *)user; }

/* Its bytes are not copied, and its owner hears when nobody reads them any more. */
TEST(a_source_in_memory_is_read_where_it_lies_until_the_last_who_reads_it_is_closed)
{
    int closed = 0;
    bzna_source source = { .struct_size = sizeof source, .user = &closed, .size = slow_size, .close = count_close,
                           .memory = records };
    bzna_records r = vector_layout();
    bzna_formats_config config = { .struct_size = sizeof config, .records = &r };
    bzna_loader_config c = vector_config(64);
    bzna_dataset *dataset = NULL, *part = NULL;
    bzna_error err = fresh_error();
    bzna_loader *loader;
    require(bzna_formats_open_source(context, &source, &config, &dataset, &err), &err);
    require(bzna_dataset_range(dataset, 0, SAMPLES, &part, &err), &err);
    bzna_dataset_close(dataset);
    loader = open_loader(part, &c);
    bzna_dataset_close(part);
    check_vectors(loader, UINT64_MAX, UINT64_MAX);
    CHECK_EQ(closed, 0);
    bzna_loader_close(loader);
    CHECK_EQ(closed, 1);
    source.memory = NULL;
    CHECK_EQ(bzna_formats_open_source(context, &source, &config, &dataset, &err), BZNA_E_ARGUMENT);
    CHECK(strstr(err.message, "source.read_at: required") != NULL);
    CHECK_EQ(closed, 1);
}

/* A worker that pauses before it reads again leaves the others at work. */
TEST(workers_that_read_try_again_and_take_other_samples)
{
    for (uint32_t threads = 1; threads <= 3; threads += 2)
        for (int replace = 0; replace < 2; replace++) {
            slow_source source = { .bad = 99 };
            bzna_dataset *dataset = open_vectors(&source);
            bzna_loader_config c = vector_config(100);
            bzna_statistics stats = { .struct_size = sizeof stats };
            bzna_loader *loader;
            c.order.epochs = 1;
            c.decode.threads = threads;
            c.read.retries = 2;
            c.errors.on_error = replace ? BZNA_ON_ERROR_REPLACE : BZNA_ON_ERROR_FILL;
            source.left = replace ? INT32_MAX : 2;
            loader = open_loader(dataset, &c);
            check_vectors(loader, UINT64_MAX, UINT64_MAX);
            CHECK_EQ(bzna_loader_statistics(loader, &stats, sizeof stats, NULL), BZNA_OK);
            CHECK_EQ(stats.retries, 2);
            CHECK_EQ(stats.replaced, replace);
            CHECK_EQ(stats.stage[BZNA_STAGE_READ].threads, c.pipeline.no_threads || !BZI_THREADS ? 0 : threads);
            bzna_loader_close(loader);
            bzna_dataset_close(dataset);
        }
}

/* Given indices put samples of all files, some twice, into one run. */
TEST(given_indices_are_followed_by_runs)
{
    static uint64_t indices[900];
    bzna_dataset *dataset = open_files();
    bzna_loader_config c = config_of(128);
    uint64_t expected;
    for (uint64_t i = 0; i < 900; i++)
        indices[i] = i * i * 7 % SAMPLES;
    c.order.indices = indices;
    c.order.index_count = 900;
    c.read.ahead_samples = c.decode.threads = 1;
    expected = hash_run(dataset, &c);
    c.read.ahead_samples = 0;
    c.decode.threads = 3;
    c.read.threads = 2;
    CHECK_EQ(hash_run(dataset, &c), expected);
    bzna_dataset_close(dataset);
}

/* What is read ahead: as many small samples as are in flight; of large ones, as many as have some bytes; or what was
 * asked for. */
TEST(what_is_read_ahead_is_counted_in_bytes)
{
    bzna_dataset *dataset = open_files();
    bzna_loader_config c = config_of(256);
    bzna_loader *loader = open_loader(dataset, &c);
    CHECK_EQ(loader->queues.ahead_samples, 768);
    CHECK_EQ(loader->queues.ahead_least, 6);
    CHECK_EQ(loader->queues.ahead_bytes, 2 << 20);
    CHECK_EQ(loader->queues.run_most, 64);
    bzna_loader_close(loader);
    c.read.ahead_samples = 9;
    loader = open_loader(dataset, &c);
    CHECK_EQ(loader->queues.ahead_samples, 9);
    CHECK_EQ(loader->queues.ahead_least, 9);
    CHECK_EQ(loader->queues.run_most, 1);
    bzna_loader_close(loader);
    c.read.ahead_samples = 0;
    c.output.batch_size = 1;
    loader = open_loader(dataset, &c);
    CHECK_EQ(loader->queues.ahead_samples, 6);
    CHECK_EQ(loader->queues.run_most, 1);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

/* --- Samples that are alike, of which a worker describes the first and goes on from there --- */

/* Of two data sets by turns: 0 of the first, 1 of the second, 2 of the first ... */
static bzna_dataset *open_by_turns(const bzna_records *one, const bzna_records *other, uint64_t indices[SAMPLES])
{
    bzna_dataset *parts[2] = { open_records(NULL, one), open_records(NULL, other) }, *both = NULL;
    bzna_error err = fresh_error();
    require(bzna_dataset_concat(context, parts, 2, &both, &err), &err);
    for (uint64_t i = 0; i < SAMPLES; i++)
        indices[i] = i % 2 * bzna_dataset_count(parts[0]) + i;
    bzna_dataset_close(parts[0]);
    bzna_dataset_close(parts[1]);
    return both;
}

/* What `by_turns` describes anew for each sample, because it is told that none is like another. */
TEST(samples_that_are_alike_are_what_they_are_when_each_is_described_anew)
{
    const bzna_records layout = record_layout();
    static const bzna_operation erase = { .kind = BZNA_OP_ERASE, .probability = 0.5f, .magnitude = { 0.1f, 0.3f } };
    const bzna_policy policy = { .operations = &erase, .operation_count = 1 };
    const bzna_warp central = { .kind = BZNA_WARP_CENTER_RESIZED_CROP };
    const bzna_loader_output extra[2] = { { .name = "large", .width = 17, .height = 17 },
                                          { .name = "small", .width = 5, .height = 5, .warp = &central } };
    uint64_t indices[SAMPLES], different[8];
    bzna_dataset *alike, *by_turns;
    alike = open_by_turns(&layout, &layout, indices);
    by_turns = open_by_turns(&layout, &layout, indices);
    for (uint32_t i = 0; i < 2; i++)
        by_turns->parts[i].container->alike = 0;
    for (uint32_t way = 0; way < 8; way++) {
        bzna_loader_config c = config_of(100);
        c.order.kind = BZNA_ORDER_SEQUENTIAL;
        c.order.indices = indices;
        c.order.index_count = SAMPLES;
        c.decode.threads = 1;
        if (way % 2)
            memset(&c.warp, 0, sizeof c.warp);
        if (way == 2 || way == 3)
            c.color.jitter.brightness[0] = 0.5f, c.color.jitter.brightness[1] = 1.5f;
        if (way == 4 || way == 5) {
            c.augment.policies = &policy;
            c.augment.policy_count = 1;
        }
        c.output.channels = way >= 6 ? BZNA_CHANNELS_GRAY : way == 1 ? BZNA_CHANNELS_BGR : 0;
        c.fields.geometry = way == 0;
        c.extra_outputs.ptr = way < 2 ? extra : NULL;
        c.extra_outputs.count = way < 2 ? 2 : 0;
        different[way] = hash_run(alike, &c);
        CHECK_EQ(different[way], hash_run(by_turns, &c));
        for (uint32_t i = 0; i < way; i++)
            CHECK(different[i] != different[way]);
    }
    bzna_dataset_close(alike);
    bzna_dataset_close(by_turns);
}

/* 12x12 in planes, and the same bytes as 18x8 pixels side by side. */
TEST(samples_of_other_sizes_between_them_change_no_picture)
{
    const bzna_records layout = record_layout();
    bzna_records other = layout;
    uint64_t indices[SAMPLES], wrong = 0, at = 0;
    bzna_loader_config c = config_of(100);
    bzna_dataset *dataset;
    bzna_loader *loader;
    bzna_batch *batch;
    other.width = 18;
    other.height = 8;
    other.layout = BZNA_LAYOUT_NHWC;
    dataset = open_by_turns(&layout, &other, indices);
    c.warp = (bzna_warp){ .kind = BZNA_WARP_NONE };
    memset(&c.color, 0, sizeof c.color);
    c.order.kind = BZNA_ORDER_SEQUENTIAL;
    c.order.indices = indices;
    c.order.index_count = SAMPLES;
    c.order.epochs = 1;
    c.output.dtype = BZNA_DTYPE_UINT8;
    loader = open_loader(dataset, &c);
    while (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
        bzna_batch_info info = { .struct_size = sizeof info };
        CHECK_EQ(bzna_batch_get_info(batch, &info, sizeof info, NULL), BZNA_OK);
        for (uint32_t k = 0; k < info.count; k++, at++) {
            const uint8_t *record = records + at * RECORD, *pixels = (uint8_t *)info.image.data + k * PIXELS;
            const uint8_t *of_other = record + LABEL + 3 * 3;           /* its middle begins 3 columns from the left */
            for (int i = 0; i < PIXELS; i++) {
                const int x = i % EDGE, y = i / EDGE % EDGE - 2, channel = i / EDGE / EDGE;
                const uint8_t there = y < 0 || y >= 8 ? 0 : of_other[3 * (18 * y + x) + channel];
                wrong += pixels[i] != (at % 2 ? there : record[LABEL + i]);
            }
            wrong += info.targets[k] != record[0];
        }
        bzna_batch_release(batch);
    }
    CHECK_EQ(at, SAMPLES);
    CHECK_EQ(wrong, 0);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

/* Fails for each third sample, and inverts the others. */
static int32_t invert_or_fail(void *user, const bzna_sample_info *info, bzna_random *random,
                              const bzna_picture *picture, void *const planes[3])
{
    (void)user, (void)random;
    for (uint32_t y = 0; y < picture->height && info->index % 3; y++)
        for (uint32_t x = 0; x < picture->width; x++)
            for (int p = 0; p < 3; p++)
                ((uint8_t *)planes[p])[(int64_t)y * picture->pitch[p] + x] ^= 255;
    return info->index % 3 ? 0 : -7;
}

TEST(a_sample_that_fails_between_others_that_are_alike_costs_its_own_slot_only)
{
    const bzna_records layout = record_layout();
    bzna_dataset *dataset = open_records(NULL, &layout);
    bzna_loader_config c = config_of_bytes(100);
    bzna_loader *loader;
    bzna_batch *batch;
    uint64_t at = 0, wrong = 0;
    c.order.epochs = 1;
    c.pipeline.picture = invert_or_fail;
    c.errors.on_callback_error = BZNA_ON_CALLBACK_ERROR_SAMPLE;
    loader = open_loader(dataset, &c);
    while (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
        bzna_batch_info info = { .struct_size = sizeof info };
        CHECK_EQ(bzna_batch_get_info(batch, &info, sizeof info, NULL), BZNA_OK);
        for (uint32_t k = 0; k < info.count; k++, at++) {
            const uint8_t *record = records + at * RECORD + LABEL, *pixels = (uint8_t *)info.image.data + k * PIXELS;
            wrong += info.status[k] != (at % 3 ? BZNA_OK : BZNA_E_CALLBACK) || info.indices[k] != at;
            for (int i = 0; i < PIXELS; i++)
                wrong += pixels[i] != (at % 3 ? record[i] ^ 255 : 0);
        }
        bzna_batch_release(batch);
    }
    CHECK_EQ(at, SAMPLES);
    CHECK_EQ(wrong, 0);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

int main(int argc, char **argv)
{
    (void)argc;
    test_start(argv);
    if (bzna_context_open(NULL, &context, NULL) != BZNA_OK)
        return 1;
    records = malloc((size_t)SAMPLES * RECORD);
    if (!records)
        return 1;
    for (size_t i = 0; i < (size_t)SAMPLES * RECORD; i++)
        records[i] = byte_at(i);
    RUN(batches_do_not_depend_on_how_long_runs_are_nor_on_where_samples_lie)
    RUN(pictures_of_runs_across_files_are_those_of_the_files)
    RUN(a_sample_that_cannot_be_read_costs_its_own_slot_only)
    RUN(of_a_file_that_was_cut_after_opening_only_what_is_gone_fails)
    RUN(the_first_files_are_held_in_memory_as_long_as_they_fit)
    RUN(files_that_are_held_in_memory_may_be_cut_and_removed)
    RUN(a_run_that_is_resumed_anywhere_goes_on_as_it_would_have)
    RUN(runs_stay_under_the_ceiling_of_memory)
    RUN(resets_and_stops_in_the_middle_of_runs_lose_nothing)
    RUN(vectors_are_copied_bit_by_bit_whoever_reads_them)
    RUN(vectors_are_calculated_where_the_layout_has_a_scale_or_a_bias)
    RUN(a_source_in_memory_is_read_where_it_lies_until_the_last_who_reads_it_is_closed)
    RUN(workers_that_read_try_again_and_take_other_samples)
    RUN(given_indices_are_followed_by_runs)
    RUN(what_is_read_ahead_is_counted_in_bytes)
    RUN(samples_that_are_alike_are_what_they_are_when_each_is_described_anew)
    RUN(samples_of_other_sizes_between_them_change_no_picture)
    RUN(a_sample_that_fails_between_others_that_are_alike_costs_its_own_slot_only)
    free(records);
    bzna_context_close(context);
    printf("%s: %d passed, %d failed, %d skipped\n", __FILE__, test_passed, test_failed, test_skipped);
    return test_failed != 0;
}
