/* test_threads.c - who waits for whom in a loader, on the CPU and on the fake driver: no wake-up is lost, no thread
 * wakes without a reason, no call waits for what takes long, and nothing is read that another thread may have freed.
 *
 * The suite stands between the library and its waits, and counts how often they end. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#ifndef _WIN32
static atomic_llong wakes;            /* waits of the library's threads that have ended */

int test_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int test_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
    const int error = pthread_cond_wait(cond, mutex);
    wakes++;
    return error;
}
#define pthread_cond_wait test_pthread_cond_wait
#endif
#include "library.h"
#include "../../examples/formats/formats.h"
#undef pthread_cond_wait
#include "test.h"

#ifdef BENZINA_NO_AVCODEC

TEST(threads_wait_for_each_other) { SKIP("built without libavcodec [libavcodec-dev]"); }
TEST_MAIN(RUN(threads_wait_for_each_other))

#else

#include "archives.h"
#include "asking.h"
#ifndef BENZINA_NO_CUDA
#  include "../fake/fake.h"
#endif

enum { HANG_S = SLOWED(120, 900), EDGE = 16 };

/* ---- Data -------------------------------------------------------------------------------------------------------- */

enum { SAMPLES = 12 };
static coded pictures[4];
static archive plain;
static bzna_context *maker;           /* of what belongs to no test alone */

static void prepare(void)
{
    static const int pattern[] = { 0, 1, 2, 3 };
    require(bzna_context_open(NULL, &maker, NULL), "context");
    for (uint64_t i = 0; i < COUNT(pictures); i++)
        pictures[i] = coded_load(maker, BZNA_CODEC_H264, i, NULL);
    plain = archive_build(maker, &(recipe){ .count = SAMPLES, .pictures = pictures, .pattern = pattern,
                                            .pattern_count = 4, .step = 1 });
}

static void finish(void)
{
    archive_clear(&plain);
    for (size_t i = 0; i < COUNT(pictures); i++)
        coded_clear(&pictures[i]);
    bzna_context_close(maker);
}

/* Raw records of one pixel, which cost nothing to decode. */
static bzna_dataset *pixels_open(bzna_context *context, const uint8_t *pixels, uint64_t count)
{
    const bzna_records records = { .struct_size = sizeof records, .data_type = BZNA_RECORD_UINT8, .width = 1,
                                   .height = 1, .channels = 1 };
    const bzna_dataset_config named = { .struct_size = sizeof named, .name = "pixels.bin" };
    const bzna_formats_config config = { .struct_size = sizeof config, .dataset = &named, .records = &records };
    bzna_dataset *dataset = NULL;
    require(bzna_formats_open_memory(context, pixels, count, &config, &dataset, NULL), "records");
    return dataset;
}

/* Where pictures are decoded, and where batches go. */
enum { ON_CPU, UPLOADED, NVDEC_TO_HOST, NVDEC, PLACES };
static const char *const place_names[PLACES] = { "CPU", "software, on the device", "NVDEC, to the host",
                                                 "NVDEC, on the device" };
#ifdef BENZINA_NO_CUDA
enum { PLACES_HERE = 1 };
#else
enum { PLACES_HERE = PLACES };
#endif

static bzna_context *context_at(int place, const bzna_allocator *allocator)
{
    bzna_context_config c;
    bzna_context *context = NULL;
    bzna_context_config_init(&c, sizeof c);
    c.device.kind = place == ON_CPU ? BZNA_DEVICE_CPU : BZNA_DEVICE_CUDA;
    c.sessions = 2;
    if (allocator)
        c.allocator = *allocator;
    require(bzna_context_open(&c, &context, NULL), "context");
    return context;
}

static void context_leave(int place, bzna_context *context)
{
    bzna_context_close(context);
#ifndef BENZINA_NO_CUDA
    if (place != ON_CPU) {
        CHECK(!fake_load()->violation());
        CHECK(!fake_load()->leaks());
        fake_load()->reset();
    }
#else
    (void)place;
#endif
}

static bzna_loader_config config_at(int place)
{
    bzna_loader_config c;
    bzna_loader_config_init(&c, sizeof c);
    c.output.batch_size = 2;
    c.output.width = c.output.height = EDGE;
    c.output.device.kind = place == UPLOADED || place == NVDEC ? BZNA_DEVICE_CUDA : BZNA_DEVICE_CPU;
    c.decode.decoder = place >= NVDEC_TO_HOST ? BZNA_DECODER_NVDEC : BZNA_DECODER_SOFTWARE;
    c.decode.threads = 2;
    c.filter.antialias = BZNA_ANTIALIAS_OFF;
    return c;
}

static bzna_loader *loader_of(bzna_context *context, bzna_dataset *dataset, const bzna_loader_config *c)
{
    bzna_loader *loader = NULL;
    bzna_error e = { .struct_size = sizeof e };
    if (bzna_loader_open(context, dataset, c, &loader, &e) != BZNA_OK) {
        printf("  open: %s\n", e.message);
        exit(1);
    }
    return loader;
}

static bzna_status take(bzna_loader *loader, bzna_batch **batch)
{
    return bzna_loader_next(loader, (int64_t)HANG_NS, batch, NULL);
}

/* ---- What is freed ----------------------------------------------------------------------------------------------- */

enum { LISTED = 2000, LIST_BATCHES = LISTED / 2 };

typedef struct asker {
    bzna_loader *loader;
    pthread_t    thread;
    atomic_int   done, wrong;
} asker;

/* Of an epoch under way, it must be told all or nothing. */
static void *ask(void *argument)
{
    asker *a = argument;
    while (!a->done) {
        bzna_loader_info info;
        a->wrong += bzna_loader_get_info(a->loader, &info, sizeof info, NULL) != BZNA_OK;
        a->wrong += info.samples_per_epoch != 2 * info.batches_per_epoch ||
                    (info.samples_per_epoch && info.samples_per_epoch != LISTED);
        a->wrong += ask_everything(a->loader);
    }
    return NULL;
}

/* Freed memory is overwritten by the ledger, so that this also fails without a sanitizer. */
TEST(what_is_asked_while_lists_are_freed_is_not_read_from_them)
{
    static uint64_t indices[LISTED];
    static uint32_t sizes[LIST_BATCHES];
    static const uint8_t pixels[1];
    ledger l;
    const bzna_allocator allocator = ledger_allocator(&l);
    bzna_context *context = context_at(ON_CPU, &allocator);
    bzna_dataset *dataset = pixels_open(context, pixels, 1);
    bzna_loader_config c = config_at(ON_CPU);
    bzna_loader_state state;
    asker askers[2];

    for (int i = 0; i < LIST_BATCHES; i++)
        sizes[i] = 2;
    c.order.kind = BZNA_ORDER_GIVEN;
    c.order.epochs = BZNA_EPOCHS_ENDLESS;
    memset(askers, 0, sizeof askers);
    askers[0].loader = askers[1].loader = loader_of(context, dataset, &c);
    for (int i = 0; i < 2; i++)
        pthread_create(&askers[i].thread, NULL, ask, &askers[i]);
    CHECK_EQ(bzna_loader_save(askers->loader, &state, sizeof state, NULL), BZNA_OK);

    for (int i = 0; i < ROUNDS(20000, 1500); i++) {
        bzna_loader *loader = askers->loader;
        bzna_batch *batch = NULL;
        CHECK_EQ(i % 3 ? bzna_loader_set_batches(loader, 0, indices, LISTED, sizes, LIST_BATCHES, NULL) :
                         bzna_loader_set_batches(loader, 0, indices, LISTED, NULL, 0, NULL), BZNA_OK);
        CHECK_EQ(take(loader, &batch), BZNA_OK);
        bzna_batch_release(batch);
        if (i % 5 == 4)
            CHECK_EQ(bzna_loader_stop(loader, NULL), BZNA_OK);
        CHECK_EQ(i % 2 ? bzna_loader_reset(loader, 0, NULL) : bzna_loader_restore(loader, &state, NULL), BZNA_OK);
    }

    for (int i = 0; i < 2; i++) {
        askers[i].done = 1;
        pthread_join(askers[i].thread, NULL);
        CHECK_EQ(askers[i].wrong, 0);
    }
    bzna_loader_close(askers->loader);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    check_settled(&l);
}

/* A list is also freed when another epoch's is given, once its own epoch is over. */
TEST(what_is_asked_while_epochs_end_is_not_read_from_their_lists)
{
    enum { BATCHES = 20 };
    static uint64_t indices[2 * BATCHES];
    static uint32_t sizes[BATCHES];
    static const uint8_t pixels[1];
    ledger l;
    const bzna_allocator allocator = ledger_allocator(&l);
    bzna_context *context = context_at(ON_CPU, &allocator);
    bzna_dataset *dataset = pixels_open(context, pixels, 1);
    bzna_loader_config c = config_at(ON_CPU);
    asker a;

    for (int i = 0; i < BATCHES; i++)
        sizes[i] = 2;
    c.order.kind = BZNA_ORDER_GIVEN;
    c.order.epochs = BZNA_EPOCHS_ENDLESS;
    memset(&a, 0, sizeof a);
    a.loader = loader_of(context, dataset, &c);
    pthread_create(&a.thread, NULL, ask, &a);
    for (uint64_t epoch = 0; epoch < (uint64_t)ROUNDS(3000, 300); epoch++) {
        CHECK_EQ(bzna_loader_set_batches(a.loader, epoch, indices, 2 * BATCHES, sizes, BATCHES, NULL), BZNA_OK);
        for (int i = 0; i < BATCHES; i++) {
            bzna_batch *batch = NULL;
            CHECK_EQ(take(a.loader, &batch), BZNA_OK);
            bzna_batch_release(batch);
        }
    }
    a.done = 1;
    pthread_join(a.thread, NULL);
    bzna_loader_close(a.loader);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    check_settled(&l);
}

/* ---- Who waits for whom ------------------------------------------------------------------------------------------ */

typedef struct setting {
    int      place, in_memory;        /* in_memory: workers read, so that no sample can be made to fail */
    uint32_t policy, readers, held, outputs, in_flight;
} setting;

static uint64_t data_offset_of(bzna_dataset *dataset, uint64_t index)
{
    bzna_image_info info;
    require(bzna_dataset_image_info(dataset, index, NULL, &info, sizeof info, NULL), "image");
    return info.data_offset;
}

/* Takes all batches of two epochs, and holds so many meanwhile. Every third sample fails, with STOP those of the second
 * epoch. Returns what ended it. */
static bzna_status walk_held(bzna_loader *loader, const setting *s, uint32_t *taken)
{
    bzna_batch *held[8] = { NULL };
    uint32_t first = 0, count = 0;
    bzna_status status;

    for (*taken = 0;; ++*taken) {
        bzna_batch *batch = NULL;
        status = take(loader, &batch);
        if (status == BZNA_E_STATE && count == s->in_flight) {    /* all are on loan */
            CHECK_EQ(bzna_batch_release(held[first]), BZNA_OK);
            first = (first + 1) % 8;
            count--;
            status = take(loader, &batch);
        }
        if (status != BZNA_OK)
            break;
        held[(first + count++) % 8] = batch;
        for (; count > s->held; count--, first = (first + 1) % 8)
            CHECK_EQ(bzna_batch_release(held[first]), BZNA_OK);
    }
    for (; count; count--, first = (first + 1) % 8)
        CHECK_EQ(bzna_batch_release(held[first]), BZNA_OK);
    return status;
}

static void try_setting(bzna_context *context, const setting *s)
{
    const int failures = test_failures, fails = !s->in_memory;
    bzna_loader_output more = { .name = "more", .width = 8, .height = 8 };
    bzna_loader_config c = config_at(s->place);
    bzna_dataset *dataset = NULL;
    bzna_loader *loader;
    bzna_status status;
    uint32_t taken;
    memory m;

    if (s->in_memory)
        require(bzna_dataset_open_memory(context, plain.bytes, plain.size, NULL, &dataset, NULL), "memory");
    else
        dataset = open_split(context, &m, &plain, NULL);
    c.extra_outputs.ptr = s->outputs > 1 ? &more : NULL;
    c.extra_outputs.count = s->outputs - 1;
    c.errors.on_error = s->policy;
    c.errors.on_callback_error = BZNA_ON_CALLBACK_ERROR_SAMPLE;
    c.read.threads = s->readers;
    c.pipeline.batches_in_flight = s->in_flight;
    c.order.epochs = 2;
    if (fails && s->policy != BZNA_ON_ERROR_STOP)
        for (uint64_t i = 0; i < SAMPLES; i += 3) {
            const uint64_t at = data_offset_of(dataset, i);
            m.faults[m.fault_count++] = (fault){ at, at + 1, -5, -1 };
        }
    loader = loader_of(context, dataset, &c);
    status = walk_held(loader, s, &taken);
    CHECK_EQ(status, BZNA_END);
    CHECK_EQ(taken, SAMPLES);
    if (fails && s->policy == BZNA_ON_ERROR_STOP) {
        const uint64_t at = data_offset_of(dataset, 5);
        m.faults[m.fault_count++] = (fault){ at, at + 1, -5, -1 };
        CHECK_EQ(bzna_loader_reset(loader, 0, NULL), BZNA_OK);
        CHECK_EQ(walk_held(loader, s, &taken), BZNA_E_IO);
        CHECK_EQ(taken, 2);
        m.fault_count = 0;
        CHECK_EQ(bzna_loader_reset(loader, 1, NULL), BZNA_OK);
        CHECK_EQ(walk_held(loader, s, &taken), BZNA_END);
        CHECK_EQ(taken, SAMPLES);
    }
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    if (test_failures > failures)
        printf("  %s: policy %u, readers %u, %u batches held of %u, %u outputs: %d after %u batches\n",
               place_names[s->place], s->policy, s->readers, s->held, s->in_flight, s->outputs, (int)status, taken);
}

/* Each consumer holds from none to all of the batches in flight. */
TEST(every_batch_comes_whatever_fails_and_however_many_are_held)
{
    uint32_t number = 0;

    for (int place = 0; place < PLACES_HERE; place++) {
        const int failures = test_failures;
        alarm(HANG_S);
        bzna_context *context = context_at(place, NULL);
        for (setting s = { .place = place, .in_flight = 1 }; s.in_flight <= 3; s.in_flight++)
            for (s.held = 0; s.held <= s.in_flight; s.held++)
                for (s.policy = 0; s.policy < 3; s.policy++)
                    for (s.readers = 0; s.readers < 4; s.readers += s.readers ? 2 : 1)
                        for (s.outputs = 1; s.outputs <= 2 && test_failures == failures; s.outputs++) {
                            s.in_memory = place == ON_CPU && !s.readers;
                            if (ROUNDS(1, number++ % SLOWED(5, 11) == 0 ||
                                          (place == UPLOADED && s.held && s.outputs == 1 &&
                                           s.policy == BZNA_ON_ERROR_REPLACE)))
                                try_setting(context, &s);
                        }
        context_leave(place, context);
        alarm(0);
    }
}

#ifndef BENZINA_NO_CUDA
static uint32_t ready_in(bzna_loader *loader)
{
    uint32_t count;
    bzi_os_lock(&loader->queues.mutex);
    count = bzi_queues_count(&loader->queues, BZI_BATCH_READY);
    bzi_os_unlock(&loader->queues.mutex);
    return count;
}

/* A batch is ready, and the consumer's thread cannot enter the device to wait for it: it does not use the device. */
TEST(a_batch_whose_device_cannot_be_entered_is_not_delivered)
{
    alarm(HANG_S);
    for (int place = UPLOADED; place < PLACES; place++) {
        bzna_context *context = context_at(place, NULL);
        bzna_loader_config c = config_at(place);
        bzna_batch *batch = NULL;
        bzna_dataset *dataset;
        bzna_loader *loader;
        memory m;
        dataset = open_split(context, &m, &plain, NULL);
        loader = loader_of(context, dataset, &c);
        WAIT_FOR(ready_in(loader) == loader->queues.batch_count);
        fake_load()->fail("cuCtxPushCurrent_v2", 1, 999, 0);
        CHECK(take(loader, &batch) < 0);
        CHECK(!batch);
        CHECK(take(loader, &batch) < 0);                    /* now and ever after */
        bzna_batch_release(batch);
        bzna_loader_close(loader);
        bzna_dataset_close(dataset);
        context_leave(place, context);
    }
    alarm(0);
}
#else
TEST(a_batch_whose_device_cannot_be_entered_is_not_delivered)
{
    SKIP("built without nv-codec-headers or clang [clang libffmpeg-nvenc-dev]");
}
#endif

/* ---- Threads that have nothing to do ----------------------------------------------------------------------------- */

#ifndef _WIN32
/* Returns 1 once no wait of the library's has ended for a while, else 0: threads wake each other without end. */
static int falls_asleep(void)
{
    for (int i = 0; i < 300; i++) {
        const long long before = wakes;
        sleep_us(20000);
        if (wakes == before)
            return 1;
    }
    return 0;
}

/* How samples reach the loader. */
enum { IN_MEMORY, IN_FILE, FROM_SOURCE, TAR, RECORDS, RECORDS_IN_MEMORY, PROVIDED, FIELDS_ONLY, KINDS };
static const char *const kind_names[KINDS] = { "an archive in memory", "an archive", "a source", "a tar", "records",
                                               "records in memory", "a provider", "fields without pictures" };

static bzna_status provide(void *user, uint64_t index, uint32_t field, void *dst, uint64_t capacity, uint64_t *size,
                           bzna_error *err)
{
    (void)err;
    (void)user, (void)field;
    *size = 1;
    if (capacity)
        *(uint8_t *)dst = (uint8_t)index;
    return BZNA_OK;
}

static bzna_dataset *kind_open(bzna_context *context, int kind, memory *m)
{
    static const uint8_t pixels[SAMPLES];
    static const bzna_provider_field field = { .name = "image", .kind = BZNA_FIELD_IMAGE,
                                               .codec = BZNA_CODEC_RAW, .width = 1, .height = 1, .channels = 1 };
    bzna_dataset *dataset = NULL;
    bzna_provider provider;

    switch (kind) {
    case IN_FILE: case FIELDS_ONLY:
        require(bzna_dataset_open(context, small_files[0], NULL, &dataset, NULL), small_files[0]);
        return dataset;
    case FROM_SOURCE:
        return open_split(context, m, &plain, NULL);
    case TAR:
        require(bzna_dataset_open(context, "tests/data/seeds/ustar.tar", NULL, &dataset, NULL), "ustar.tar");
        return dataset;
    case RECORDS: case RECORDS_IN_MEMORY:
        return pixels_open(context, pixels, SAMPLES);
    case PROVIDED:
        bzna_provider_init(&provider, sizeof provider);
        provider.count = SAMPLES;
        provider.fields = &field;
        provider.field_count = 1;
        provider.read = provide;
        require(bzna_dataset_open_provider(context, &provider, NULL, &dataset, NULL), "provider");
        return dataset;
    default:
        require(bzna_dataset_open_memory(context, plain.bytes, plain.size, NULL, &dataset, NULL), "memory");
        return dataset;
    }
}

static void try_idle(bzna_context *context, int place, int kind, uint32_t threads, uint32_t readers)
{
    bzna_loader_config c = config_at(place);
    bzna_batch *held[2] = { NULL, NULL };
    bzna_dataset *dataset;
    bzna_loader *loader;
    bzna_status status;
    uint64_t indices[4] = { 0 };
    const char *when = NULL;
    memory m;

    dataset = kind_open(context, kind, &m);
    c.decode.threads = threads;
    c.read.threads = readers;
    c.pipeline.batches_in_flight = 2;
    c.order.kind = BZNA_ORDER_GIVEN;
    c.order.epochs = 2;
    if (kind == FIELDS_ONLY) {
        c.fields.bytes = "target";
        c.output.width = c.output.height = 0;
    }
    loader = loader_of(context, dataset, &c);

#define IDLE(state) when = when || falls_asleep() ? when : (state)
    IDLE("before a list is given");
    CHECK_EQ(bzna_loader_set_batches(loader, 0, indices, 4, NULL, 0, NULL), BZNA_OK);
    IDLE("when all batches are ready");
    for (int i = 0; i < 2; i++)
        CHECK_EQ(take(loader, &held[i]), BZNA_OK);
    IDLE("when all batches are on loan");
    for (int i = 0; i < 2; i++)
        bzna_batch_release(held[i]);
    CHECK_EQ(take(loader, &held[0]), BZNA_E_STATE);
    IDLE("while the next epoch's list is awaited");
    CHECK_EQ(bzna_loader_set_batches(loader, 1, indices, 4, NULL, 0, NULL), BZNA_OK);
    while ((status = take(loader, &held[0])) == BZNA_OK)
        bzna_batch_release(held[0]);
    CHECK_EQ(status, BZNA_END);
    IDLE("after the last batch");
    CHECK_EQ(bzna_loader_stop(loader, NULL), BZNA_OK);
    IDLE("after stop");
    CHECK_EQ(bzna_loader_reset(loader, 0, NULL), BZNA_OK);
    IDLE("after reset");
    if (when) {
        test_failures++;
        printf("  %s, %s, %u decoder threads, %u readers: threads wake each other %s\n", place_names[place],
               kind_names[kind], threads, readers, when);
    }
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

TEST(a_loader_that_has_nothing_to_do_sleeps)
{
    for (int place = 0; place < PLACES_HERE; place++) {
        alarm(HANG_S);
        bzna_context *context = context_at(place, NULL);
        for (int kind = 0; kind < (place == ON_CPU ? KINDS : FROM_SOURCE + 1) && !test_failures; kind++)
            for (uint32_t threads = ROUNDS(1, 3); threads <= 4; threads++)
                if (threads != 4 || kind == IN_MEMORY)
                    try_idle(context, place, kind, threads, threads == 4 ? 2 : 0);
        context_leave(place, context);
        alarm(0);
    }
}
#else
TEST(a_loader_that_has_nothing_to_do_sleeps) { SKIP("waits of this system are not watched"); }
#endif

TEST_MAIN(
    prepare();
    RUN(what_is_asked_while_lists_are_freed_is_not_read_from_them)
    RUN(what_is_asked_while_epochs_end_is_not_read_from_their_lists)
    RUN(every_batch_comes_whatever_fails_and_however_many_are_held)
    RUN(a_batch_whose_device_cannot_be_entered_is_not_delivered)
    RUN(a_loader_that_has_nothing_to_do_sleeps)
    finish();
)
#endif
