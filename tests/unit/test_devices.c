/* test_devices.c - several GPUs, on tests/fake's driver: contexts of two devices in one process, and in two. The fake
 * reports what is used in a context that it does not belong to, and what is alive at the end. */
#ifndef _GNU_SOURCE
#  define _GNU_SOURCE
#endif
#include "library.h"
#include "test.h"

#if defined(BENZINA_NO_CUDA) || defined(BENZINA_NO_AVCODEC)
TEST(two_devices_work_on_the_fake)
{
    SKIP("built without nv-codec-headers, clang or libavcodec [clang libffmpeg-nvenc-dev libavcodec-dev]");
}
TEST_MAIN(RUN(two_devices_work_on_the_fake))
#else

#include "archives.h"
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include "../fake/watch.h"

/* A run has so many batches; so many are known in advance. */
enum { WIDTH = 40, HEIGHT = 24, BATCH = 4, BATCHES = 6, EXPECTED = BATCHES + 2, FLOATS = BATCH * 3 * WIDTH * HEIGHT };
#define BEGIN fake_begin(__func__ + 5, 120)                 /* each test's first line */

/* A loader of one device. */
typedef struct loading {
    int32_t       device;             /* CUDA's number, or -1: the CPU */
    bzna_context *context;
    bzna_dataset *dataset;
    bzna_loader  *loader;
    uint64_t      epoch;
    uint64_t      delivered;          /* batches that were right */
    bzna_status   ended;              /* what the last call for a batch returned */
} loading;

static float expected[EXPECTED][FLOATS];

static loading loading_open(int32_t device)
{
    loading l = { .device = device };
    bzna_context_config config;
    bzna_loader_config c;

    bzna_context_config_init(&config, sizeof config);
    config.device = (bzna_device){ device < 0 ? BZNA_DEVICE_CPU : BZNA_DEVICE_CUDA, device < 0 ? 0 : device };
    config.sessions = 2;
    require(bzna_context_open(&config, &l.context, NULL), "a context");
    require(bzna_dataset_open(l.context, "tests/data/mini_h265.bzna", NULL, &l.dataset, NULL), "an archive");
    bzna_loader_config_init(&c, sizeof c);
    c.output.batch_size = BATCH;
    c.output.width = WIDTH;
    c.output.height = HEIGHT;
    c.output.device = config.device;
    c.order.kind = BZNA_ORDER_SHUFFLE;
    c.order.seed = 5;
    c.decode.threads = 2;
    c.decode.decoder = device < 0 ? BZNA_DECODER_SOFTWARE : BZNA_DECODER_NVDEC;
    c.warp.kind = BZNA_WARP_RANDOM_RESIZED_CROP;
    l.ended = bzna_loader_open(l.context, l.dataset, &c, &l.loader, NULL);
    return l;
}

static void loading_close(loading *l)
{
    bzna_loader_close(l->loader);
    bzna_dataset_close(l->dataset);
    bzna_context_close(l->context);
}

/* The fake's device memory is the host's, and can be read when its stream is done. */
static void loading_wait(loading *l, void *stream)
{
    bzna_error e;
    if (l->device >= 0 && bzi_device_enter(l->loader->setup.device, &e) == BZNA_OK) {
        l->loader->setup.device->cu.cuStreamSynchronize(stream);
        bzi_device_leave(l->loader->setup.device);
    }
}

/* The next batch, finished, of this epoch or of the one after it; NULL: there is none. */
static bzna_batch *loading_take(loading *l, bzna_batch_info *info)
{
    bzna_batch *batch = NULL;

    l->ended = bzna_loader_next(l->loader, BZNA_WAIT_FOREVER, &batch, NULL);
    if (l->ended == BZNA_END && (l->ended = bzna_loader_reset(l->loader, ++l->epoch, NULL)) == BZNA_OK)
        l->ended = bzna_loader_next(l->loader, BZNA_WAIT_FOREVER, &batch, NULL);
    if (l->ended != BZNA_OK)
        return NULL;
    bzna_batch_get_info(batch, info, sizeof *info, NULL);
    loading_wait(l, info->stream);
    return batch;
}

/* The next batch is on the loader's device, and has the pixels of the CPU's. Returns 0 if there is none. */
static int loading_next(loading *l)
{
    bzna_batch_info info = { 0 };
    bzna_batch *batch = loading_take(l, &info);

    if (!batch)
        return 0;
    if (l->delivered < EXPECTED && info.failed == 0 &&
        info.image.device.kind == (l->device < 0 ? BZNA_DEVICE_CPU : BZNA_DEVICE_CUDA) &&
        info.image.device.ordinal == (l->device < 0 ? 0 : l->device) &&
        !memcmp(info.image.data, expected[l->delivered], sizeof expected[0]))
        l->delivered++;
    bzna_batch_release(batch);
    return 1;
}

static void *loading_run(void *argument)
{
    loading *l = argument;
    for (int i = 0; i < BATCHES && loading_next(l); i++) {}
    return NULL;
}

/* What the CPU makes of the first batches, epoch after epoch, of two batches each. */
static void expect(void)
{
    loading l = loading_open(-1);
    REQUIRE(l.ended == BZNA_OK);
    for (int i = 0; i < EXPECTED; i++) {
        bzna_batch_info info = { 0 };
        bzna_batch *batch = loading_take(&l, &info);
        REQUIRE(batch);
        CHECK_EQ(info.image.bytes, sizeof expected[0]);
        memcpy(expected[i], info.image.data, sizeof expected[0]);
        bzna_batch_release(batch);
    }
    loading_close(&l);
}

/* A device is lost by a call that the library makes when it opens one, and that nothing else makes. */
static void lose(int32_t device, loading *l)
{
    bzna_error e;
    char name[64];
    control->lost_alone = 1;
    CHECK_EQ(bzi_device_enter(l->loader->setup.device, &e), BZNA_OK);
    fake->fail("cuDeviceGetName", 1, 719, 0);
    CHECK_EQ(l->loader->setup.device->cu.cuDeviceGetName(name, (int)sizeof name, device), 719);
    bzi_device_leave(l->loader->setup.device);
}

TEST(loaders_of_two_devices_in_one_process_deliver_at_once_what_the_cpu_does)
{
    loading l[2];
    pthread_t threads[2];
    BEGIN;
    control->devices = 2;
    control->stream_delay_us = 200;
    control->engine_delay_us = 500;
    for (int i = 0; i < 2; i++) {
        l[i] = loading_open(i);
        REQUIRE(l[i].ended == BZNA_OK);
    }
    CHECK(l[0].loader->setup.device != l[1].loader->setup.device);
    for (int i = 0; i < 2; i++)
        REQUIRE(pthread_create(&threads[i], NULL, loading_run, &l[i]) == 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++) {
        bzna_statistics stats = { 0 };
        CHECK_EQ(l[i].delivered, BATCHES);
        CHECK_EQ(bzna_loader_statistics(l[i].loader, &stats, sizeof stats, NULL), BZNA_OK);
        CHECK(stats.samples_nvdec >= BATCHES * BATCH);
        CHECK_EQ(stats.samples_software + stats.fallbacks + stats.sessions_lost, 0);
    }
    for (int i = 0; i < 2; i++)
        loading_close(&l[i]);
    fake_finish();
}

/* Sessions and the memory of decoders are counted by context: one that has taken all it may leaves another's alone. */
TEST(what_one_device_has_taken_is_not_counted_against_another)
{
    loading l[2];
    long long first;
    BEGIN;
    control->devices = 2;
    l[0] = loading_open(0);
    REQUIRE(l[0].ended == BZNA_OK);
    CHECK(loading_next(&l[0]));
    first = control->live_decoders;
    CHECK(first >= 1 && first <= 2);
    l[1] = loading_open(1);
    REQUIRE(l[1].ended == BZNA_OK);
    loading_run(&l[1]);
    CHECK_EQ(l[1].delivered, BATCHES);
    CHECK(control->live_decoders > first && control->live_decoders <= 4);
    loading_close(&l[0]);                                   /* and may go first */
    CHECK(loading_next(&l[1]));
    CHECK_EQ(l[1].delivered, BATCHES + 1);
    loading_close(&l[1]);
    fake_finish();
}

TEST(a_device_that_is_lost_takes_only_its_own_loaders_with_it)
{
    BEGIN;
    for (int32_t gone = 0; gone < 2; gone++) {
        loading l[2], later;
        bzna_dataset *dataset = NULL;
        bzna_loader *loader = NULL;
        bzna_loader_config c;
        bzna_error e = { .struct_size = sizeof e };
        control->devices = 2;
        control->engine_us = 200;
        for (int i = 0; i < 2; i++) {
            l[i] = loading_open(i);
            REQUIRE(l[i].ended == BZNA_OK);
            CHECK(loading_next(&l[i]));
        }
        lose(gone, &l[gone]);
        while (loading_next(&l[gone])) {}
        CHECK_EQ(l[gone].ended, BZNA_E_DEVICE_LOST);
        for (int i = 1; i < BATCHES; i++)
            CHECK(loading_next(&l[!gone]));
        CHECK_EQ(l[!gone].delivered, BATCHES);

        /* the same holds for loaders that are opened afterwards */
        bzna_loader_config_init(&c, sizeof c);
        c.output.batch_size = c.output.width = c.output.height = 32;
        REQUIRE(bzna_dataset_open(l[gone].context, "tests/data/mini_h265.bzna", NULL, &dataset, NULL) == BZNA_OK);
        CHECK_EQ(bzna_loader_open(l[gone].context, dataset, &c, &loader, &e), BZNA_E_DEVICE_LOST);
        CHECK_CONTAINS(e.message, gone ? "CUDA device 1 was lost" : "CUDA device 0 was lost");
        bzna_dataset_close(dataset);
        later = loading_open(!gone);
        REQUIRE(later.ended == BZNA_OK);
        loading_run(&later);
        CHECK_EQ(later.delivered, BATCHES);
        loading_close(&later);
        for (int i = 0; i < 2; i++)
            loading_close(&l[i]);
        fake_finish();
    }
}

/* In a child, which has a driver of its own: a loader of one device to the end, or until the device is lost. */
static int child_loads(int32_t device, int is_lost)
{
    loading l;
    control->devices = 2;
    l = loading_open(device);
    if (l.ended != BZNA_OK || !loading_next(&l))
        return 10;
    if (is_lost)
        lose(device, &l);
    loading_run(&l);
    loading_close(&l);
    if (fake->leaks() || control->violations)
        return 11;
    return l.ended == (is_lost ? BZNA_E_DEVICE_LOST : BZNA_OK) && (is_lost || l.delivered == BATCHES + 1) ? 0 : 12;
}

static int the_child(int32_t device, int is_lost)
{
    pid_t child = fork();
    if (child == 0) {
        fake_setup();
        alarm(60);
        expect();
        _exit(test_failures ? 9 : child_loads(device, is_lost));
    }
    return (int)child;
}

/* Before this process has loaded the driver, which cannot be used in children after that. */
TEST(two_processes_with_a_device_each_do_not_know_of_one_another)
{
    for (int32_t lost = -1; lost < 2; lost++) {
        pid_t children[2];
        for (int32_t i = 0; i < 2; i++)
            REQUIRE((children[i] = the_child(i, i == lost)) > 0);
        for (int i = 0; i < 2; i++) {
            int status = -1;
            CHECK_EQ(waitpid(children[i], &status, 0), children[i]);
            CHECK(WIFEXITED(status));
            CHECK_EQ(WEXITSTATUS(status), 0);
        }
    }
}

TEST_MAIN(
    RUN(two_processes_with_a_device_each_do_not_know_of_one_another) fake_setup(); expect();
    RUN(loaders_of_two_devices_in_one_process_deliver_at_once_what_the_cpu_does)
    RUN(what_one_device_has_taken_is_not_counted_against_another)
    RUN(a_device_that_is_lost_takes_only_its_own_loaders_with_it)
)
#endif
