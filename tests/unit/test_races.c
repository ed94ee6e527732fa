/* test_races.c - what several threads do to loaders at once, on the CPU and on the fake driver: two loaders over one
 * data set, calls while a thread waits, closing everything from several threads, 100,000 tiny batches, callbacks that
 * call back, fork, consumers that are slower and faster. Threads never change batches. With TEST_ALL, and under
 * sanitizers, as often as it takes (`full`). The order of locks is asserted here as in all suites
 * (BENZINA_CHECK_LOCKS); the last tests show that this notices. */
#include "library.h"
#include "../../examples/formats/formats.h"
#include "test.h"

#ifdef BENZINA_NO_AVCODEC

TEST(races_end_well) { SKIP("built without libavcodec [libavcodec-dev]"); }

TEST_MAIN(RUN(races_end_well))

#else

#ifndef BENZINA_NO_CUDA
#  include "../fake/fake.h"
#endif
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

enum { HANG_S = SLOWED(300, 1800) };
enum { PARTS = 24, SAMPLES = 2 * PARTS, BATCH = 5, BATCHES = (SAMPLES + BATCH - 1) / BATCH };

/* Where batches are made. */
enum { ON_CPU, GPU_TO_HOST, ON_GPU, PLACES };
static const char *const place_names[PLACES] = { "CPU", "GPU, to the host", "GPU, on the device" };

static int full(void) { return SANITIZED || test_all(); }
static uint32_t often(uint32_t fully, uint32_t briefly) { return full() ? fully : briefly; }

/* ---- Data, loaders, batches ---- */

static bzna_context *context_at(int place)
{
    bzna_context_config c;
    bzna_context *context = NULL;
    bzna_error err = { 0 };
    bzna_context_config_init(&c, sizeof c);
    c.device.kind = place == ON_CPU ? BZNA_DEVICE_CPU : BZNA_DEVICE_CUDA;
    c.sessions = 2;
    if (bzna_context_open(&c, &context, &err) != BZNA_OK) {
        printf("no context: %s\n", err.message);
        exit(1);
    }
    return context;
}

/* H.264 and H.265 by turns, 16x16 pixels. */
static bzna_dataset *data_in(bzna_context *context)
{
    bzna_dataset *two[2] = { NULL, NULL }, *parts[PARTS], *all = NULL;
    CHECK_EQ(bzna_dataset_open(context, "tests/data/seeds/h264.bzna", NULL, &two[0], NULL), BZNA_OK);
    CHECK_EQ(bzna_dataset_open(context, "tests/data/seeds/h265.bzna", NULL, &two[1], NULL), BZNA_OK);
    for (int i = 0; i < PARTS; i++)
        parts[i] = two[i % 2];
    CHECK_EQ(bzna_dataset_concat(context, parts, PARTS, &all, NULL), BZNA_OK);
    for (int i = 0; i < 2; i++)
        bzna_dataset_close(two[i]);
    return all;
}

static bzna_loader_config config_at(int place, uint64_t seed)
{
    bzna_loader_config c;
    bzna_loader_config_init(&c, sizeof c);
    c.output.batch_size = BATCH;
    c.output.width = c.output.height = 16;
    c.output.dtype = BZNA_DTYPE_UINT8;
    c.output.device.kind = place == ON_GPU ? BZNA_DEVICE_CUDA : BZNA_DEVICE_CPU;
    c.order.kind = BZNA_ORDER_SHUFFLE;
    c.order.seed = seed;
    c.warp.kind = BZNA_WARP_RANDOM_RESIZED_CROP;
    c.decode.decoder = place == ON_CPU ? BZNA_DECODER_SOFTWARE : BZNA_DECODER_NVDEC;
    c.decode.threads = 2;
    c.read.threads = 2;
    return c;
}

static bzna_loader *loader_of(bzna_context *context, bzna_dataset *dataset, const bzna_loader_config *c)
{
    bzna_loader *loader = NULL;
    bzna_error err = { 0 };
    if (bzna_loader_open(context, dataset, c, &loader, &err) != BZNA_OK) {
        printf("no loader: %s\n", err.message);
        exit(1);
    }
    return loader;
}

static uint64_t hash_batch(bzna_loader *loader, bzna_batch *batch)
{
    uint64_t hash = 1469598103934665603u;
    bzna_batch_info info;
    CHECK_EQ(bzna_batch_get_info(batch, &info, sizeof info, NULL), BZNA_OK);
    CHECK_EQ(info.failed, 0);
    if (loader->setup.on_device) {
        bzna_error ignored;
        if (bzi_device_enter(loader->setup.device, &ignored) == BZNA_OK) {
            bzi_device_stream_wait(loader->setup.device, batch->stream);
            bzi_device_leave(loader->setup.device);
        }
    }
    for (uint32_t i = 0; i < info.count; i++)
        hash = (hash ^ info.indices[i]) * 1099511628211u;
    for (uint64_t i = 0; i < info.image.bytes / (uint64_t)info.image.shape[0] * info.count; i++)
        hash = (hash ^ ((const uint8_t *)info.image.data)[i]) * 1099511628211u;
    return hash;
}

/* What the batches of an epoch must be: of a loader alone. */
typedef struct known_epoch { uint64_t hash[BATCHES]; } known_epoch;

static known_epoch epoch_alone(bzna_context *context, bzna_dataset *dataset, int place, uint64_t seed)
{
    known_epoch e = { { 0 } };
    const bzna_loader_config c = config_at(place, seed);
    bzna_loader *loader = loader_of(context, dataset, &c);
    bzna_batch *batch = NULL;
    for (int i = 0; i < BATCHES; i++) {
        CHECK_EQ(bzna_loader_next(loader, (int64_t)HANG_NS, &batch, NULL), BZNA_OK);
        e.hash[i] = hash_batch(loader, batch);
        bzna_batch_release(batch);
    }
    CHECK_EQ(bzna_loader_next(loader, (int64_t)HANG_NS, &batch, NULL), BZNA_END);
    bzna_loader_close(loader);
    return e;
}

/* Each place in turn; a test is run at each. */
static void at_each_place(void (*test)(int place, bzna_context *context, bzna_dataset *dataset))
{
    for (int place = 0; place < PLACES; place++) {
        const int failures = test_failures;
#ifdef BENZINA_NO_CUDA
        if (place != ON_CPU)
            break;
#endif
        alarm(HANG_S);
        bzna_context *context = context_at(place);
        bzna_dataset *dataset = data_in(context);
        test(place, context, dataset);
        bzna_dataset_close(dataset);
        bzna_context_close(context);
#ifndef BENZINA_NO_CUDA
        if (place != ON_CPU) {
            CHECK(!fake_load()->violation());
            CHECK(!fake_load()->leaks());
            fake_load()->reset();
        }
#endif
        if (test_failures != failures)
            printf("  on: %s\n", place_names[place]);
    }
    alarm(0);
}

/* ---- Consumers ---- */

typedef struct consumer {
    bzna_loader       *loader;
    const known_epoch *known;         /* the loader's order.epochs are all like it; NULL: what comes is not compared */
    int                wait_us;       /* before each batch */
    int                polls;         /* 1: with a timeout of 0 */
    uint32_t           epochs;
    pthread_t          thread;
    uint32_t           batches, wrong;
    bzna_status        ended;
} consumer;

static void *consume(void *argument)
{
    consumer *c = argument;
    for (uint32_t e = 0; e < c->epochs; e++)
        for (uint32_t i = 0; i <= BATCHES; i++) {
            bzna_batch *batch = NULL;
            if (c->wait_us)
                usleep((useconds_t)c->wait_us);
            do
                c->ended = bzna_loader_next(c->loader, c->polls ? 0 : (int64_t)HANG_NS, &batch, NULL);
            while (c->polls && c->ended == BZNA_AGAIN);
            if (c->ended != BZNA_OK)
                break;
            c->wrong += c->known && hash_batch(c->loader, batch) != c->known->hash[i];
            c->batches++;
            bzna_batch_release(batch);
            if (i == BATCHES - 1 && e + 1 < c->epochs) {
                bzna_loader_reset(c->loader, 0, NULL);
                break;
            }
        }
    return NULL;
}

static void check_consumed(const consumer *c)
{
    CHECK_EQ(c->ended, BZNA_END);
    CHECK_EQ(c->wrong, 0);
    CHECK_EQ(c->batches, c->epochs * BATCHES);
}

static void two_loaders(int place, bzna_context *context, bzna_dataset *dataset)
{
    consumer c[3] = { { NULL } };
    known_epoch known[3];
    for (uint32_t i = 0; i < 3; i++) {
        known[i] = epoch_alone(context, dataset, place, i);
        const bzna_loader_config config = config_at(place, i);
        c[i] = (consumer){ .loader = loader_of(context, dataset, &config), .known = &known[i], .epochs = often(20, 3) };
    }
    for (int i = 0; i < 3; i++)
        pthread_create(&c[i].thread, NULL, consume, &c[i]);
    for (int i = 0; i < 3; i++) {
        pthread_join(c[i].thread, NULL);
        check_consumed(&c[i]);
        bzna_loader_close(c[i].loader);
    }
}

TEST(loaders_over_one_data_set_have_the_batches_that_each_has_alone) { at_each_place(two_loaders); }

static void consumers_of_all_speeds(int place, bzna_context *context, bzna_dataset *dataset)
{
    const known_epoch known = epoch_alone(context, dataset, place, 7);
    for (int i = 0; i < 4; i++) {
        const bzna_loader_config config = config_at(place, 7);
        consumer c = { .loader = loader_of(context, dataset, &config), .known = &known, .epochs = often(4, 1) };
        c.wait_us = i == 0 ? 3000 : 0;                      /* slower than what makes them; faster */
        c.polls = i == 2;
#ifndef BENZINA_NO_CUDA
        if (i == 3 && place != ON_CPU)                      /* and a device that is slow */
            fake_load()->control->engine_us = 2000;
#endif
        consume(&c);
        check_consumed(&c);
        bzna_loader_close(c.loader);
    }
}

TEST(slower_and_faster_consumers_have_the_same_batches) { at_each_place(consumers_of_all_speeds); }

/* ---- Other calls meanwhile ---- */

typedef struct meddler {
    bzna_loader *loader;
    uint64_t     state;
    atomic_int  *ends;
    pthread_t    thread;
    uint32_t     calls;
} meddler;

static uint32_t meddler_draw(meddler *m, uint32_t count)
{
    m->state = m->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(m->state >> 40) % count;
}

/* Whatever a program may call at any time. Each of them succeeds, or says E_STATE: another thread waits. */
static void *meddle(void *argument)
{
    meddler *m = argument;
    bzna_loader_state state = { 0 };
    bzna_loader_info info;
    bzna_statistics statistics;
    int saved = 0;
    while (!*m->ends) {
        bzna_status status = BZNA_OK;
        const uint32_t what = meddler_draw(m, 12);
        if (what < 2)
            status = bzna_loader_save(m->loader, &state, sizeof state, NULL), saved = 1;
        else if (what == 2 && saved)
            status = bzna_loader_restore(m->loader, &state, NULL);
        else if (what == 3)
            status = bzna_loader_reset(m->loader, 0, NULL);
        else if (what == 4)
            status = bzna_loader_stop(m->loader, NULL);
        else if (what == 5)
            status = bzna_loader_get_info(m->loader, &info, sizeof info, NULL);
        else if (what == 6)
            status = bzna_loader_statistics(m->loader, &statistics, sizeof statistics, NULL);
        else
            usleep(meddler_draw(m, 300));
        CHECK(status == BZNA_OK || status == BZNA_E_STATE);
        m->calls++;
    }
    return NULL;
}

/* Takes batches, gives them back later, goes on after whatever happened. */
static void *take_and_go_on(void *argument)
{
    meddler *m = argument;
    bzna_batch *held = NULL;
    while (!*m->ends) {
        bzna_batch *batch = NULL;
        const bzna_status status = bzna_loader_next(m->loader, 2000000, &batch, NULL);
        CHECK(status == BZNA_OK || status == BZNA_END || status == BZNA_AGAIN || status == BZNA_E_STATE ||
              status == BZNA_E_STOPPED);
        if (held && (batch || meddler_draw(m, 4) == 0)) {
            bzna_batch_release(held);
            held = NULL;
        }
        if (batch)
            hash_batch(m->loader, held = batch);
        if (status == BZNA_END || status == BZNA_E_STOPPED)
            bzna_loader_reset(m->loader, 0, NULL);
        m->calls++;
    }
    if (held)
        bzna_batch_release(held);
    return NULL;
}

static void calls_from_everywhere(int place, bzna_context *context, bzna_dataset *dataset)
{
    enum { THREADS = 5 };
    const known_epoch known = epoch_alone(context, dataset, place, 3);
    bzna_loader_config config = config_at(place, 3);
    atomic_int ends = 0;
    meddler m[THREADS];
    consumer c = { .known = &known, .epochs = 1 };
    config.pipeline.batches_in_flight = 6;
    c.loader = loader_of(context, dataset, &config);
    for (int i = 0; i < THREADS; i++) {
        m[i] = (meddler){ .loader = c.loader, .state = (uint64_t)i + 1, .ends = &ends };
        pthread_create(&m[i].thread, NULL, i < 3 ? take_and_go_on : meddle, &m[i]);
    }
    usleep(often(3000000, 150000));
    ends = 1;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(m[i].thread, NULL);
        CHECK(m[i].calls > 0);
    }
    bzna_loader_reset(c.loader, 0, NULL);                   /* after all that, as it was */
    consume(&c);
    check_consumed(&c);
    bzna_loader_close(c.loader);
}

TEST(calls_from_any_thread_at_any_time_leave_a_loader_whole) { at_each_place(calls_from_everywhere); }

/* ---- Closing ---- */

typedef struct closing {
    pthread_barrier_t *start;
    bzna_context      *context;       /* one of these, or */
    bzna_dataset      *dataset;
    bzna_loader       *loader;
    bzna_batch        *batch;
    pthread_t          thread;
} closing;

static void *close_one(void *argument)
{
    closing *c = argument;
    bzna_status status = BZNA_OK;
    pthread_barrier_wait(c->start);
    if (c->context)
        status = bzna_context_close(c->context);
    else if (c->dataset)
        status = bzna_dataset_close(c->dataset);
    else if (c->loader)
        status = bzna_loader_close(c->loader);
    else if (c->batch)
        status = bzna_batch_release(c->batch);
    CHECK_EQ(status, BZNA_OK);
    return NULL;
}

/* A context, a data set, two loaders and four batches on loan, each closed by a thread of its own, at the same time. */
static void all_at_once(int place, bzna_context *unused, bzna_dataset *unused_too)
{
    enum { THREADS = 8 };
    (void)unused, (void)unused_too;
    for (uint32_t round = 0; round < often(100, 6); round++) {
        closing c[THREADS] = { { NULL } };
        pthread_barrier_t start;
        bzna_context *context = context_at(place);
        bzna_dataset *dataset = data_in(context);
        pthread_barrier_init(&start, NULL, THREADS);
        c[0].context = context;
        c[1].dataset = dataset;
        for (int i = 0; i < 2; i++) {
            const bzna_loader_config config = config_at(place, round);
            c[2 + i].loader = loader_of(context, dataset, &config);
            for (int k = 0; k < 2; k++)
                CHECK_EQ(bzna_loader_next(c[2 + i].loader, (int64_t)HANG_NS, &c[4 + 2 * i + k].batch, NULL), BZNA_OK);
        }
        for (int i = 0; i < THREADS; i++) {
            c[i].start = &start;
            pthread_create(&c[i].thread, NULL, close_one, &c[i]);
        }
        for (int i = 0; i < THREADS; i++)
            pthread_join(c[i].thread, NULL);
        pthread_barrier_destroy(&start);
    }
}

TEST(everything_may_be_closed_by_several_threads_at_once) { at_each_place(all_at_once); }

/* ---- Tiny batches ---- */

static void tiny_batches(int place, bzna_context *context, bzna_dataset *unused)
{
    static const uint8_t bytes[3 * 64] = { 1, 2, 3 };
    const uint32_t wanted = often(100000, place == ON_CPU ? 20000 : 5000);
    bzna_records records = { .struct_size = sizeof records, .data_type = BZNA_RECORD_UINT8, .width = 1, .height = 1,
                             .channels = 3, .layout = BZNA_LAYOUT_NHWC };
    bzna_formats_config opened = { .struct_size = sizeof opened, .records = &records };
    bzna_loader_config c = config_at(place, 1);
    bzna_dataset *dataset = NULL;
    bzna_batch *batch = NULL;
    uint64_t sum = 0;
    (void)unused;
    CHECK_EQ(bzna_formats_open_memory(context, bytes, sizeof bytes, &opened, &dataset, NULL), BZNA_OK);
    c.output.batch_size = c.output.width = c.output.height = 1;
    c.order.epochs = BZNA_EPOCHS_ENDLESS;
    c.decode.decoder = BZNA_DECODER_AUTO;
    bzna_loader *loader = loader_of(context, dataset, &c);
    bzna_dataset_close(dataset);
    for (uint32_t i = 0; i < wanted; i++) {
        bzna_batch_info info;
        REQUIRE(bzna_loader_next(loader, (int64_t)HANG_NS, &batch, NULL) == BZNA_OK);
        bzna_batch_get_info(batch, &info, sizeof info, NULL);
        sum += info.indices[0];
        bzna_batch_release(batch);
        if (i % 64 == 63) {                                 /* each sample once in each epoch */
            CHECK_EQ(sum, 63 * 64 / 2);
            sum = 0;
        }
    }
    bzna_loader_close(loader);
}

TEST(tens_of_thousands_of_tiny_batches_come_in_order) { at_each_place(tiny_batches); }

/* ---- Callbacks that call back ---- */

static struct calling {
    _Atomic(bzna_loader *) loader;
    bzna_dataset          *other;
    uint8_t                bytes[16384];
    size_t                 size;
    atomic_int             reads, transforms, wrong;
} calling;

/* All that a callback may call of the loader that it works for; and close, which it may not. */
static void call_back(void)
{
    bzna_loader *loader = calling.loader;
    bzna_statistics statistics;
    bzna_loader_state state;
    bzna_loader_info info;
    bzna_batch *batch = NULL;
    int64_t target;
    if (bzna_dataset_target(calling.other, 1, &target, NULL) != BZNA_OK)
        calling.wrong++;
    if (!loader)
        return;
    calling.wrong += bzna_loader_statistics(loader, &statistics, sizeof statistics, NULL) != BZNA_OK;
    calling.wrong += bzna_loader_save(loader, &state, sizeof state, NULL) != BZNA_OK;
    calling.wrong += bzna_loader_get_info(loader, &info, sizeof info, NULL) != BZNA_OK;
    calling.wrong += bzna_loader_close(loader) != BZNA_E_STATE;
    calling.wrong += bzna_loader_reset(loader, 0, NULL) != BZNA_E_STATE;
    calling.wrong += bzna_loader_next(loader, 0, &batch, NULL) != BZNA_E_STATE;
}

static int64_t calling_read(void *user, uint64_t offset, void *dst, uint64_t size)
{
    (void)user;
    calling.reads++;
    call_back();
    if (offset >= calling.size)
        return 0;
    size = bzi_min(size, calling.size - offset);
    memcpy(dst, calling.bytes + offset, (size_t)size);
    return (int64_t)size;
}

static int64_t calling_size(void *user)
{
    (void)user;
    return (int64_t)calling.size;
}

/* Of a transform, numbers and warps alone may be called. */
static bzna_status calling_transform(void *user, const bzna_sample_info *sample, bzna_random *random,
                                     bzna_transform *transform)
{
    (void)user, (void)sample;
    transform->bias[0] += (float)(bzna_random_u32(random) % 2);
    calling.transforms++;
    return BZNA_OK;
}

static void callbacks(int place, bzna_context *context, bzna_dataset *other)
{
    const bzna_source source = { sizeof source, 0, NULL, calling_read, calling_size, NULL, NULL };
    bzna_loader_config c = config_at(place, 5);
    bzna_dataset *dataset = NULL;
    bzna_batch *batch = NULL;
    calling.loader = NULL;
    calling.other = other;
    calling.reads = calling.transforms = calling.wrong = 0;
    FILE *file = fopen("tests/data/seeds/h264.bzna", "rb");
    REQUIRE(file);
    calling.size = fread(calling.bytes, 1, sizeof calling.bytes, file);
    fclose(file);
    CHECK_EQ(bzna_dataset_open_source(context, &source, NULL, &dataset, NULL), BZNA_OK);
    c.output.batch_size = 2;
    c.order.epochs = BZNA_EPOCHS_ENDLESS;
    c.pipeline.transform = calling_transform;
    bzna_loader *loader = loader_of(context, dataset, &c);
    calling.loader = loader;
    for (uint32_t i = 0; i < often(2000, 200); i++) {
        REQUIRE(bzna_loader_next(loader, (int64_t)HANG_NS, &batch, NULL) == BZNA_OK);
        bzna_batch_release(batch);
    }
    CHECK_EQ(bzna_loader_stop(loader, NULL), BZNA_OK);
    CHECK_EQ(bzna_loader_reset(loader, 0, NULL), BZNA_OK);
    CHECK_EQ(bzna_loader_next(loader, (int64_t)HANG_NS, &batch, NULL), BZNA_OK);
    bzna_loader_close(loader);
    bzna_batch_release(batch);
    bzna_dataset_close(dataset);
    CHECK_EQ(calling.wrong, 0);
    CHECK(calling.reads > 100 && calling.transforms > 100);
}

TEST(callbacks_may_call_the_loader_that_calls_them) { at_each_place(callbacks); }

/* ---- fork ---- */

/* A child, in mid-epoch: its parent's loader refuses it, and one of its own works. */
static int in_child(bzna_loader *loader, bzna_batch *held, const known_epoch *known)
{
    bzna_batch *batch = NULL;
    bzna_context_config c = { .struct_size = sizeof c, .device.kind = BZNA_DEVICE_CPU, .no_threads = 1 };
    bzna_loader_config config = config_at(ON_CPU, 9);
    bzna_context *context = NULL;
    alarm(HANG_S);
    if (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) != BZNA_E_STATE ||
        bzna_loader_close(loader) != BZNA_E_STATE || bzna_batch_release(held) != BZNA_E_STATE)
        return 1;
    if (bzna_context_open(&c, &context, NULL) != BZNA_OK)
        return 2;
    bzna_dataset *dataset = data_in(context);
    consumer own = { .loader = loader_of(context, dataset, &config), .known = known, .epochs = 1 };
    consume(&own);
    return own.wrong || own.batches != BATCHES ? 3 : 0;
}

static void forks(int place, bzna_context *context, bzna_dataset *dataset)
{
    const known_epoch known = epoch_alone(context, dataset, place, 9);
    bzna_context *cpu = context_at(ON_CPU);
    bzna_dataset *there = data_in(cpu);
    const known_epoch childs = epoch_alone(cpu, there, ON_CPU, 9);
    const bzna_loader_config config = config_at(place, 9);
    consumer c = { .loader = loader_of(context, dataset, &config), .known = &known, .epochs = 1 };
    bzna_batch *held = NULL;
    for (uint32_t i = 0; i < often(20, 4); i++) {
        int result = -1;
        CHECK_EQ(bzna_loader_reset(c.loader, 0, NULL), BZNA_OK);
        CHECK_EQ(bzna_loader_next(c.loader, (int64_t)HANG_NS, &held, NULL), BZNA_OK);
        fflush(stdout);
        const pid_t child = fork();
        if (child == 0)
            _exit(in_child(c.loader, held, &childs));
        CHECK_EQ(hash_batch(c.loader, held) == known.hash[0], 1);
        bzna_batch_release(held);
        CHECK_EQ(waitpid(child, &result, 0), child);
        CHECK(WIFEXITED(result));
        CHECK_EQ(WEXITSTATUS(result), 0);
    }
    CHECK_EQ(bzna_loader_reset(c.loader, 0, NULL), BZNA_OK);
    consume(&c);
    check_consumed(&c);
    bzna_loader_close(c.loader);
    bzna_dataset_close(there);
    bzna_context_close(cpu);
}

TEST(a_fork_in_mid_epoch_disturbs_nobody)
{
    if (ON_WINDOWS)
        SKIP("Windows: nothing forks");
    at_each_place(forks);
}

/* ---- The order of locks ---- */

static bzi_mutex first_lock, second_lock;
static bzi_cond  some_cond;

static void take_in_order(void)     { bzi_os_lock(&first_lock), bzi_os_lock(&second_lock); }
static void take_out_of_order(void) { bzi_os_lock(&second_lock), bzi_os_lock(&first_lock); }
static void take_twice(void)        { bzi_os_lock(&first_lock), bzi_os_lock(&first_lock); }
static void give_back_another(void) { bzi_os_lock(&first_lock), bzi_os_unlock(&second_lock); }
static void wait_with_another(void)
{
    bzi_os_lock(&first_lock), bzi_os_lock(&second_lock);
    bzi_os_wait_until(&some_cond, &second_lock, 0);
}

static void try_out_of_order(void)
{
    bzi_os_lock(&second_lock);
    bzi_os_try_lock(&first_lock);
}

static void call_with_a_lock(void)
{
    bzi_os_lock(&first_lock);
    bzi_os_callback_begin();
}

/* What a child that does this says, with locks of these ranks. said: "" if it ends well. */
static void child_says(void (*what)(void), uint32_t first, uint32_t second, char said[256])
{
    int tube[2], result = 0;
    ssize_t size = 0, n;
    REQUIRE(pipe(tube) == 0);
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        dup2(tube[1], 2);
        close(tube[0]);
        signal(SIGABRT, SIG_DFL);
        bzi_os_mutex_init(&first_lock, first);
        bzi_os_mutex_init(&second_lock, second);
        bzi_os_cond_init(&some_cond);
        what();
        _exit(0);
    }
    close(tube[1]);
    while (size < 255 && (n = read(tube[0], said + size, (size_t)(255 - size))) > 0)
        size += n;
    said[size] = 0;
    close(tube[0]);
    CHECK_EQ(waitpid(child, &result, 0), child);
    CHECK_EQ(WIFEXITED(result) && WEXITSTATUS(result) == 0, said[0] == 0);
}

TEST(locks_that_are_taken_out_of_order_are_noticed_by_name)
{
    char said[256] = "";
    if (ON_WINDOWS)
        SKIP("Windows: nothing forks, and what aborts here is a child");
    child_says(take_in_order, BZI_RANK_LOADER, BZI_RANK_POOL, said);
    CHECK_STR(said, "");
    child_says(take_out_of_order, BZI_RANK_LOADER, BZI_RANK_POOL, said);
    CHECK_CONTAINS(said, "\"loader\" is taken while \"pool\" is held");
    child_says(try_out_of_order, BZI_RANK_LOADER, BZI_RANK_DEVICE, said);
    CHECK_CONTAINS(said, "\"loader\" is taken while \"device\" is held");
    child_says(take_in_order, BZI_RANK_LOADER, BZI_RANK_LOADER, said);
    CHECK_CONTAINS(said, "\"loader\" is taken while \"loader\" is held");
    child_says(take_in_order, BZI_RANK_DEVICE, BZI_RANK_LOG, said);        /* nothing is taken behind a leaf */
    CHECK_CONTAINS(said, "\"log\" is taken while \"device\" is held");
    child_says(take_twice, BZI_RANK_LOADER, BZI_RANK_POOL, said);
    CHECK_CONTAINS(said, "\"loader\" is taken while \"loader\" is held");
}

TEST(waits_and_callbacks_with_a_lock_are_noticed_by_name)
{
    char said[256] = "";
    if (ON_WINDOWS)
        SKIP("Windows: nothing forks, and what aborts here is a child");
    child_says(wait_with_another, BZI_RANK_LOADER, BZI_RANK_POOL, said);
    CHECK_CONTAINS(said, "a thread waits while \"loader\" is held");
    child_says(call_with_a_lock, BZI_RANK_WRITER, BZI_RANK_POOL, said);
    CHECK_CONTAINS(said, "a callback runs while \"writer\" is held");
    child_says(give_back_another, BZI_RANK_LOADER, BZI_RANK_LOG, said);
    CHECK_CONTAINS(said, "\"log\"");
}

TEST_MAIN(RUN(loaders_over_one_data_set_have_the_batches_that_each_has_alone)
    RUN(slower_and_faster_consumers_have_the_same_batches)
    RUN(calls_from_any_thread_at_any_time_leave_a_loader_whole)
    RUN(everything_may_be_closed_by_several_threads_at_once)
    RUN(tens_of_thousands_of_tiny_batches_come_in_order)
    RUN(callbacks_may_call_the_loader_that_calls_them)
    RUN(a_fork_in_mid_epoch_disturbs_nobody)
    RUN(locks_that_are_taken_out_of_order_are_noticed_by_name)
    RUN(waits_and_callbacks_with_a_lock_are_noticed_by_name))

#endif
