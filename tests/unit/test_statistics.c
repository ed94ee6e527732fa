/* What limits a loader, and which setting would change it: judged from counts that are made up, and from runs that are
 * slow on purpose in one way each. Times of those are sleeps, so that a busy machine does not change who waits. */
#include "library.h"
#include "../../examples/formats/formats.h"
#include "test.h"
#include "known.h"
#define ASK_ALWAYS
#include "asking.h"

#include <unistd.h>

enum { EDGE = 8, RECORD = 3 * EDGE * EDGE, SAMPLES = 600, TRIES = 100 };
static uint8_t records[SAMPLES * RECORD];
static bzna_context *context;

/* ---- Counts that are made up ------------------------------------------------------------------------------------- */

/* Of a second of a loader with one reader thread: shares of the time, in percent. */
typedef struct shares {
    int consumer, starved, blocked, decode, warp, reading, full;
    int threads, nvdec, shrinkable;           /* threads 0: pipeline.no_threads */
} shares;

static bzna_statistics counted(const shares *s, uint64_t seconds)
{
    const uint64_t percent = 10000000 * seconds, threads = s->threads ? (uint64_t)s->threads : 1;
    bzna_statistics stats;
    memset(&stats, 0, sizeof stats);
    stats.struct_size = sizeof stats;
    stats.elapsed_ns = 100 * percent;
    stats.stage[BZNA_STAGE_READ].threads = s->threads != 0;
    stats.stage[BZNA_STAGE_READ].busy_ns = (uint64_t)s->reading * percent;
    stats.stage[BZNA_STAGE_READ].wait_after_ns = (uint64_t)s->full * percent;
    stats.stage[BZNA_STAGE_DECODE].threads = (uint64_t)s->threads;
    stats.stage[BZNA_STAGE_DECODE].busy_ns = (uint64_t)s->decode * percent * threads;
    stats.stage[BZNA_STAGE_DECODE].wait_before_ns = (uint64_t)s->starved * percent * threads;
    stats.stage[BZNA_STAGE_DECODE].wait_after_ns = (uint64_t)s->blocked * percent * threads;
    stats.stage[BZNA_STAGE_WARP].busy_ns = (uint64_t)s->warp * percent * threads;
    stats.stage[BZNA_STAGE_DELIVER].wait_before_ns = (uint64_t)s->consumer * percent;
    stats.samples = 1000 * seconds;
    *(s->nvdec ? &stats.samples_nvdec : &stats.samples_software) = stats.samples;
    stats.samples_shrinkable = (uint64_t)s->shrinkable * 10 * seconds;
    return stats;
}

TEST(what_limits_is_told_from_who_waits_for_whom)
{
    static const struct { shares shares; uint32_t stage; const char *said[2]; } cases[] = {
        { { .consumer = 95, .starved = 90, .decode = 8, .reading = 97, .threads = 900 }, BZNA_STAGE_READ,
          { "reading: decoders wait for it 90 %", "(read.threads: 1 now)" } },
        { { .consumer = 95, .blocked = 90, .decode = 8, .reading = 97, .threads = 900 }, BZNA_STAGE_READ,
          { "reading: decoders wait for it 90 %", "read.threads" } },
        { { .consumer = 95, .starved = 30, .decode = 65, .reading = 97, .threads = 900 }, BZNA_STAGE_READ,
          { "reading: ", "read.threads" } },
        { { .consumer = 95, .decode = 80, .warp = 18, .reading = 5, .threads = 900 }, BZNA_STAGE_DECODE,
          { "decoding: 80 % of the decoder threads' time, the warp 18 %", "a codec that is decoded faster" } },
        { { .consumer = 95, .decode = 80, .warp = 18, .shrinkable = 70, .threads = 900 }, BZNA_STAGE_DECODE,
          { "decoding: 80 % of the decoder threads' time", "decode.jpeg_shrink decodes large JPEGs, most of" } },
        { { .consumer = 95, .decode = 80, .warp = 18, .shrinkable = 40, .threads = 900 }, BZNA_STAGE_DECODE,
          { "decoding: ", "a codec that is decoded faster" } },
        { { .consumer = 95, .decode = 18, .warp = 80, .shrinkable = 70, .threads = 900 }, BZNA_STAGE_WARP,
          { "the warp: 80 %", "output.dtype" } },
        { { .consumer = 2, .blocked = 80, .decode = 18, .full = 90, .threads = 900 }, BZNA_STAGE_DELIVER,
          { "the consumer: it waits for batches only 2 %", "no setting" } },
        { { .consumer = 2, .decode = 98, .threads = 900 }, BZNA_STAGE_DELIVER, { "the consumer: ", "2 %" } },
        { { .consumer = 70, .starved = 70, .decode = 20, .reading = 30, .threads = 900 }, BZNA_STAGE_NONE,
          { "decoders wait for samples 70 % of the time, and readers read 30 %", "read.ahead_samples" } },
        { { .consumer = 70, .blocked = 70, .decode = 20, .reading = 3, .threads = 900 }, BZNA_STAGE_NONE,
          { "waking threads: decoders wait 70 %", "output.batch_size" } },
        { { .consumer = 60, .decode = 20, .warp = 10, .reading = 30 }, BZNA_STAGE_READ,
          { "work in bzna_loader_next: of the time, reading takes 30 %", "pipeline.no_threads" } },
        { { .consumer = 60, .decode = 30, .warp = 20, .reading = 10 }, BZNA_STAGE_DECODE,
          { "work in bzna_loader_next", "decoding 30 %" } },
        { { .consumer = 40, .decode = 20, .warp = 10, .reading = 5 }, BZNA_STAGE_DELIVER,
          { "the consumer: it waits for batches only 40 %", "no setting" } },
        { { .consumer = 70, .starved = 10, .decode = 5, .nvdec = 1, .threads = 14 }, BZNA_STAGE_DECODE,
          { "NVDEC: its sessions have samples 90 % of the time; decode.hybrid, so that idle", "fewer bytes" } },
        { { .consumer = 70, .starved = 60, .full = 80, .nvdec = 1, .threads = 14 }, BZNA_STAGE_DELIVER,
          { "the consumer: its work on the device", "pipeline.batches_in_flight" } },
        { { .consumer = 70, .starved = 60, .full = 10, .nvdec = 1, .threads = 14 }, BZNA_STAGE_READ,
          { "reading: ", "read.threads" } },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const bzna_statistics stats = counted(&cases[i].shares, 1);
        bzna_statistics nothing = { .struct_size = sizeof nothing }, since;
        CHECK_EQ(bzna_statistics_since(&stats, &nothing, &since, sizeof since, NULL), BZNA_OK);
        CHECK_EQ(since.limiting_stage, cases[i].stage);
        CHECK_CONTAINS(since.advice, cases[i].said[0]);
        CHECK_CONTAINS(since.advice, cases[i].said[1]);
        CHECK(strlen(since.advice) < sizeof since.advice - 20);
    }
}

TEST(where_processors_are_left_more_decoder_threads_are_named_first)
{
    const shares one = { .consumer = 95, .decode = 80, .warp = 18, .shrinkable = 90, .threads = 1 };
    const bzna_statistics stats = counted(&one, 1), nothing = { .struct_size = sizeof nothing };
    bzna_statistics since;
    if (bzi_os_processors() < 2)
        SKIP("one processor");
    CHECK_EQ(bzna_statistics_since(&stats, &nothing, &since, sizeof since, NULL), BZNA_OK);
    CHECK_EQ(since.limiting_stage, BZNA_STAGE_DECODE);
    CHECK_CONTAINS(since.advice, "decode.threads: 1 now");
}

/* Ten seconds of reading, then one of a consumer that is slow. */
TEST(a_later_time_is_judged_without_the_earlier_one)
{
    const shares reading = { .consumer = 95, .starved = 90, .decode = 8, .reading = 97, .threads = 900 };
    const shares consumer = { .consumer = 1, .blocked = 90, .decode = 8, .full = 97, .threads = 900 };
    const bzna_statistics earlier = counted(&reading, 10), added = counted(&consumer, 1);
    bzna_statistics later = earlier, since, small = { .struct_size = 8 };
    uint64_t *words = (uint64_t *)&later, wrong = 0;
    const uint64_t *more = (const uint64_t *)&added;
    for (size_t i = 1; i < offsetof(bzna_statistics, advice) / 8; i++)
        words[i] += more[i];
    for (int i = 0; i < 4; i++)
        later.stage[i].threads = added.stage[i].threads;
    later.read_memory_bytes = 77;
    CHECK_EQ(bzna_statistics_since(&later, &earlier, &since, sizeof since, NULL), BZNA_OK);
    CHECK_EQ(since.limiting_stage, BZNA_STAGE_DELIVER);
    CHECK_EQ(since.read_memory_bytes, 77);
    since.read_memory_bytes = 0;
    for (size_t i = 1; i < offsetof(bzna_statistics, advice) / 8; i++)
        wrong += ((const uint64_t *)&since)[i] != more[i];
    CHECK_EQ(wrong, 0);
    CHECK_EQ(bzna_statistics_since(&later, &earlier, &later, sizeof later, NULL), BZNA_OK);
    CHECK_EQ(later.samples, 1000);
    CHECK_EQ(bzna_statistics_since(&earlier, &small, &since, sizeof since, NULL), BZNA_OK); /* of a shorter struct */
    CHECK_EQ(since.samples, 10000);
    CHECK_EQ(bzna_statistics_since(NULL, &small, &since, sizeof since, NULL), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_statistics_since(&small, NULL, &since, sizeof since, NULL), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_statistics_since(&small, &small, NULL, sizeof since, NULL), BZNA_E_ARGUMENT);
    memset(&since, 0, sizeof since);
    bzna_error e = { 0 };
    since.struct_size = small.struct_size = sizeof since;
    since.elapsed_ns = earlier.elapsed_ns + 1;
    CHECK_EQ(bzna_statistics_since(&earlier, &since, &small, sizeof small, &e), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(e.message, "later has counted less than earlier");
    since.elapsed_ns = 0;
    since.samples = earlier.samples + 1;
    CHECK_EQ(bzna_statistics_since(&earlier, &since, &small, sizeof small, &e), BZNA_E_ARGUMENT);
    small.struct_size = 2;
    CHECK_EQ(bzna_statistics_since(&earlier, &small, &since, sizeof since, NULL), BZNA_E_STRUCT_SIZE);
}

/* ---- Runs that are slow on purpose ------------------------------------------------------------------------------- */

static int64_t read_records(void *user, uint64_t offset, void *dst, uint64_t size)
{
    const int us = atomic_load((atomic_int *)user);
    if (us)
        usleep((useconds_t)us);
    if (offset >= sizeof records)
        return 0;
    size = size < sizeof records - offset ? size : sizeof records - offset;
    memcpy(dst, records + offset, size);
    return (int64_t)size;
}

static int64_t size_records(void *user) { (void)user; return sizeof records; }

static bzna_status draw_slowly(void *user, const bzna_sample_info *sample, bzna_random *random,
                               const bzna_picture *picture, void *const planes[3])
{
    (void)user, (void)sample, (void)random, (void)picture, (void)planes;
    usleep(10000);
    return BZNA_OK;
}

static bzna_dataset *open_records(atomic_int *us)
{
    bzna_source source = { sizeof source, 0, us, read_records, size_records, NULL, NULL };
    bzna_formats_config config;
    bzna_records r;
    bzna_dataset *dataset = NULL;
    bzna_error err = fresh_error();
    bzna_formats_records_init(&r, sizeof r);
    r.data_type = BZNA_RECORD_UINT8;
    r.channels = 3;
    r.width = r.height = EDGE;
    bzna_formats_config_init(&config, sizeof config);
    config.records = &r;
    if (bzna_formats_open_source(context, &source, &config, &dataset, &err) != BZNA_OK)
        printf("  %s\n", err.message);
    return dataset;
}

static bzna_statistics stats_of(bzna_loader *loader)
{
    bzna_statistics stats = { .struct_size = sizeof stats };
    CHECK_EQ(bzna_loader_statistics(loader, &stats, sizeof stats, NULL), BZNA_OK);
    return stats;
}

/* Takes so many batches, with a pause after each, and judges that time. */
static bzna_statistics take(bzna_loader *loader, int batches, int pause_us)
{
    const bzna_statistics before = stats_of(loader);
    bzna_statistics after;
    bzna_batch *batch;
    for (int i = 0; i < batches && bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK; i++) {
        bzna_batch_release(batch);
        if (pause_us)
            usleep((useconds_t)pause_us);
    }
    after = stats_of(loader);
    CHECK_EQ(bzna_statistics_since(&after, &before, &after, sizeof after, NULL), BZNA_OK);
    return after;
}

/* Other work on the machine may disturb one time, but not a hundred: one of them must be judged as expected. */
static void expect(const bzna_loader_config *c, int read_us, int batches, int pause_us, uint32_t stage,
                   const char *said)
{
    atomic_int us = 0;                                      /* a reader thread looks at it */
    int tries = 0;
    bzna_dataset *dataset = open_records(&us);
    bzna_loader *loader = NULL;
    bzna_statistics stats;
    bzna_error err = fresh_error();
    REQUIRE(dataset && bzna_loader_open(context, dataset, c, &loader, &err) == BZNA_OK);
    atomic_store(&us, read_us);
    take(loader, 6, pause_us);                              /* what was read ahead before */
    do
        stats = take(loader, batches, pause_us);
    while (stats.limiting_stage != stage && ++tries < TRIES);
    CHECK_EQ(stats.limiting_stage, stage);
    CHECK_CONTAINS(stats.advice, said);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

static bzna_loader_config config_of(uint32_t batch)
{
    bzna_loader_config c;
    bzna_loader_config_init(&c, sizeof c);
    c.output.width = c.output.height = 2;
    c.output.batch_size = batch;
    c.output.device.kind = BZNA_DEVICE_CPU;
    c.order.epochs = BZNA_EPOCHS_ENDLESS;
    c.decode.threads = 2;
    return c;
}

TEST(a_source_that_is_slow_is_what_limits)
{
    const bzna_loader_config c = config_of(4);
    expect(&c, 5000, 4, 0, BZNA_STAGE_READ, "more reader threads (read.threads: 1 now)");
}

TEST(a_consumer_that_is_slow_is_what_limits)
{
    const bzna_loader_config c = config_of(4);
    expect(&c, 0, 4, 20000, BZNA_STAGE_DELIVER, "the consumer: it waits for batches only");
}

/* A callback for pictures counts as decoding. */
TEST(decoding_that_is_slow_is_what_limits)
{
    bzna_loader_config c = config_of(4);
    c.pipeline.picture = draw_slowly;
    c.decode.threads = bzi_os_processors();
    expect(&c, 0, 4, 0, BZNA_STAGE_DECODE, "decoding: ");
}

/* The warp of a large output of a small picture. */
TEST(a_warp_that_is_slow_is_what_limits)
{
    bzna_loader_config c = config_of(2);
    c.output.width = c.output.height = 500;
    c.decode.threads = bzi_os_processors();
    c.warp.kind = BZNA_WARP_CENTER_RESIZED_CROP;
    expect(&c, 0, 4, 0, BZNA_STAGE_WARP, "the warp: ");
}

/* The sleeps of the source are in the consumer's own thread. */
TEST(without_threads_what_limits_is_said_of_the_thread_that_does_it)
{
    bzna_loader_config c = config_of(4);
    c.pipeline.no_threads = 1;
    expect(&c, 2000, 4, 0, BZNA_STAGE_READ, "work in bzna_loader_next: of the time, reading takes ");
    expect(&c, 0, 4, 10000, BZNA_STAGE_DELIVER, "the consumer: ");
}

TEST(tiny_batches_are_limited_by_waking_threads)
{
    const bzna_loader_config c = config_of(1);
    expect(&c, 0, 200, 0, BZNA_STAGE_NONE, "larger batches (output.batch_size)");
}

/* Reading ends when 65 samples wait, which are 72 if each run has 8 of them. */
TEST(no_queue_holds_more_samples_than_its_capacity)
{
    bzna_loader_config c = config_of(512);
    atomic_int us = 0;
    bzna_dataset *dataset = open_records(&us);
    bzna_loader *loader = NULL;
    bzna_error err = fresh_error();
    c.decode.threads = 1;
    c.read.ahead_samples = 65;
    REQUIRE(dataset && bzna_loader_open(context, dataset, &c, &loader, &err) == BZNA_OK);
    for (int i = 0; i < 2000; i++) {
        if (i % 50 == 0)
            take(loader, 1, 0);
        const bzna_statistics stats = stats_of(loader);
        for (int k = 0; k < 4; k++)
            CHECK(stats.stage[k].depth <= stats.stage[k].capacity);
        usleep(20);
    }
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

int main(int argc, char **argv)
{
    (void)argc;
    test_start(argv);
    if (bzna_context_open(NULL, &context, NULL) != BZNA_OK)
        return 1;
    for (size_t i = 0; i < sizeof records; i++)
        records[i] = (uint8_t)(i * 2654435761u >> 9);
    RUN(what_limits_is_told_from_who_waits_for_whom)
    RUN(where_processors_are_left_more_decoder_threads_are_named_first)
    RUN(a_later_time_is_judged_without_the_earlier_one)
    RUN(a_source_that_is_slow_is_what_limits)
    RUN(a_consumer_that_is_slow_is_what_limits)
    RUN(decoding_that_is_slow_is_what_limits)
    RUN(a_warp_that_is_slow_is_what_limits)
    RUN(without_threads_what_limits_is_said_of_the_thread_that_does_it)
    RUN(tiny_batches_are_limited_by_waking_threads)
    RUN(no_queue_holds_more_samples_than_its_capacity)
    bzna_context_close(context);
    printf("%s: %d passed, %d failed, %d skipped\n", __FILE__, test_passed, test_failed, test_skipped);
    return test_failed != 0;
}
