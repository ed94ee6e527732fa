/* Streams (examples/stream), from inside: pipes that stall, closing, stopping, states that are damaged, the log, what
 * stays valid. test_stream.py looks at the samples that a stream gives, from the sources that others make. */
#include "library.h"
#include "with_formats.h"
#include "../../examples/stream/stream.h"
#include "test.h"
#include "known.h"
#include "tars.h"

#include <sys/stat.h>
#include <sys/wait.h>

enum { SHARDS = 6, EACH = 12, BATCH = 8, EDGE = 8, TOTAL = SHARDS * EACH };

static bzna_context *context;
static char folder[] = TEST_BUILD "/tests/stream";

static const char *path_of(const char *name)
{
    static char path[4][256];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static void write_file(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    REQUIRE(file && fwrite(bytes, 1, size, file) == size && !fclose(file));
}

/* Shards of gray PGM pictures, whose pixels are all the sample's number. */
static void make_shards(void)
{
    mkdir(TEST_BUILD "/tests", 0777);
    mkdir(folder, 0777);
    for (int shard = 0; shard < SHARDS; shard++) {
        tar t = { 0 };
        for (int i = 0; i < EACH; i++) {
            uint8_t picture[32 + EDGE * EDGE];
            char name[32], text[16];
            const int number = shard * EACH + i;
            const int head = snprintf((char *)picture, 32, "P5 %d %d 255\n", EDGE, EDGE);
            memset(picture + head, number, EDGE * EDGE);
            snprintf(name, sizeof name, "%04d.pgm", number);
            tar_file(&t, name, picture, (size_t)head + EDGE * EDGE);
            snprintf(name, sizeof name, "%04d.cls", number);
            snprintf(text, sizeof text, "%d", number);
            tar_text(&t, name, text);
        }
        tar_raw(&t, NULL, 1024);
        char name[32];
        snprintf(name, sizeof name, "s%d.tar", shard);
        write_file(path_of(name), t.bytes, t.size);
        tar_free(&t);
    }
}

typedef struct setup {
    bzna_loader_config loader;
    bzna_stream_config config;
    const char        *sources[4];
} setup;

static void setup_init(setup *s, const char *first)
{
    memset(s, 0, sizeof *s);
    bzna_loader_config_init(&s->loader, sizeof s->loader);
    s->loader.output = (bzna_loader_output){ .batch_size = BATCH, .width = EDGE, .height = EDGE,
                                             .dtype = BZNA_DTYPE_UINT8, .device = { BZNA_DEVICE_CPU, 0 } };
    s->loader.order.kind = BZNA_ORDER_SHUFFLE;
    s->loader.order.seed = 5;
    s->loader.decode.threads = 2;
    bzna_stream_config_init(&s->config, sizeof s->config);
    s->sources[0] = first;
    s->config.sources = s->sources;
    s->config.source_count = 1;
    s->config.loader = &s->loader;
    s->config.memory_bytes = 90000;                         /* two shards a window */
}

/* Takes batches until there is none. Returns the last status; *count is increased by the samples, *sum by a hash. */
static bzna_status drain(bzna_stream *stream, uint32_t *count, uint64_t *sum, bzna_error *err)
{
    bzna_status status;
    bzna_batch *batch;

    while ((status = bzna_stream_next(stream, BZNA_WAIT_FOREVER, &batch, err)) == BZNA_OK) {
        bzna_batch_info info = { .struct_size = sizeof info };
        bzna_batch_get_info(batch, &info, sizeof info, NULL);
        for (uint32_t i = 0; i < info.count; i++) {
            const uint8_t *pixels = (const uint8_t *)info.image.data + (size_t)i * 3 * EDGE * EDGE;
            CHECK_EQ(info.status[i], BZNA_OK);
            CHECK_EQ(pixels[0], (uint64_t)info.targets[i]);
            CHECK_EQ(info.targets[i], (int64_t)((info.indices[i] >> 32) * EACH + (info.indices[i] & UINT32_MAX)));
            *sum = *sum * 31 + (uint64_t)info.targets[i];
        }
        *count += info.count;
        bzna_batch_release(batch);
    }
    return status;
}

static char all_shards[256];

TEST(a_stream_gives_every_sample_of_its_shards)
{
    setup s;
    bzna_stream *stream = NULL;
    bzna_error err = { 0 };
    uint32_t count = 0;
    uint64_t sum = 0;
    bzna_stream_info info = { .struct_size = sizeof info };

    setup_init(&s, all_shards);
    REQUIRE(bzna_stream_open(context, &s.config, &stream, &err) == BZNA_OK);
    CHECK_EQ(drain(stream, &count, &sum, &err), BZNA_END);
    CHECK_EQ(count, TOTAL);
    CHECK_EQ(bzna_stream_get_info(stream, &info, sizeof info, &err), BZNA_OK);
    CHECK_EQ(info.samples, TOTAL);
    CHECK_EQ(info.shards_read, SHARDS);
    CHECK_EQ(info.last_of_epoch, 1);
    CHECK_EQ(info.memory_bytes, 0);
    CHECK(info.window >= 2 && info.peak_bytes <= 90000);
    CHECK_CONTAINS(bzna_stream_source(stream, (uint64_t)3 << 32), "s3.tar");
    CHECK(!bzna_stream_source(stream, (uint64_t)SHARDS << 32));
    CHECK_EQ(bzna_stream_close(stream), BZNA_OK);
    CHECK_EQ(bzna_stream_close(NULL), BZNA_OK);
}

/* The process that a command wrote into a file; 0: none yet. */
static pid_t child_of(const char *path)
{
    long number = 0;
    FILE *file = fopen(path, "r");
    if (file) {
        if (fscanf(file, "%ld", &number) != 1)
            number = 0;
        fclose(file);
    }
    return (pid_t)number;
}

static void closes_while_stalled(const char *tail)
{
    setup s;
    char command[1024];
    bzna_stream *stream = NULL;
    bzna_batch *batch;
    bzna_error err = { 0 };
    pid_t child = 0;

    snprintf(command, sizeof command, "pipe:echo $$ > %s; %s", path_of("pid"), tail);
    remove(path_of("pid"));
    setup_init(&s, command);
    REQUIRE(bzna_stream_open(context, &s.config, &stream, &err) == BZNA_OK);
    while (!(child = child_of(path_of("pid"))))
        CHECK_EQ(bzna_stream_next(stream, 1000000, &batch, &err), BZNA_AGAIN);
    CHECK_EQ(bzna_stream_wait(stream, 1000000, &err), BZNA_AGAIN);
    CHECK_EQ(kill(child, 0), 0);
    bzna_stream_close(stream);
    CHECK(kill(child, 0) < 0 && errno == ESRCH);            /* it is gone, and was waited for */
}

TEST(close_ends_a_command_that_stalls)
{
    closes_while_stalled("sleep 1000");
    closes_while_stalled("head -c 700 " TEST_BUILD "/tests/stream/s0.tar; sleep 1000");
    closes_while_stalled("cat " TEST_BUILD "/tests/stream/s0.tar; exec >&-; sleep 1000");
}

TEST(close_ends_the_reading_of_a_fifo_without_a_writer)
{
    setup s;
    bzna_stream *stream = NULL;
    bzna_error err = { 0 };

    remove(path_of("fifo"));
    REQUIRE(mkfifo(path_of("fifo"), 0600) == 0);
    setup_init(&s, path_of("fifo"));
    REQUIRE(bzna_stream_open(context, &s.config, &stream, &err) == BZNA_OK);
    CHECK_EQ(bzna_stream_wait(stream, 20000000, &err), BZNA_AGAIN);
    bzna_stream_close(stream);
}

static void *stop_soon(void *user)
{
    nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
    bzna_stream_stop(user);
    return NULL;
}

static void stops(int no_threads)
{
    setup s;
    char source[512];
    bzna_stream *stream = NULL;
    bzna_batch *batch;
    bzna_error err = { 0 };
    pthread_t thread;

    snprintf(source, sizeof source, "pipe:cat %s; sleep 1000", path_of("s0.tar"));
    setup_init(&s, source);
    s.loader.pipeline.no_threads = (uint32_t)no_threads;
    REQUIRE(bzna_stream_open(context, &s.config, &stream, &err) == BZNA_OK);
    REQUIRE(!pthread_create(&thread, NULL, stop_soon, stream));
    CHECK_EQ(bzna_stream_next(stream, BZNA_WAIT_FOREVER, &batch, &err), BZNA_E_STOPPED);
    pthread_join(thread, NULL);
    CHECK_EQ(bzna_stream_next(stream, BZNA_WAIT_FOREVER, &batch, &err), BZNA_E_STOPPED);
    bzna_stream_close(stream);
}

TEST(stop_ends_waiting_from_another_thread)
{
    stops(0);
    stops(1);
}

TEST(a_stream_goes_on_after_it_was_stopped)
{
    setup s;
    bzna_stream *stream = NULL;
    bzna_batch *batch;
    bzna_error err = { 0 };
    bzna_stream_state state;
    uint32_t count = 0, rest = 0;
    uint64_t sum = 0, again = 0;

    setup_init(&s, all_shards);
    REQUIRE(bzna_stream_open(context, &s.config, &stream, &err) == BZNA_OK);
    CHECK_EQ(bzna_stream_save(stream, &state, sizeof state, &err), BZNA_E_STATE);
    for (int i = 0; i < 4; i++) {
        REQUIRE(bzna_stream_next(stream, BZNA_WAIT_FOREVER, &batch, &err) == BZNA_OK);
        bzna_batch_release(batch);
    }
    REQUIRE(bzna_stream_save(stream, &state, sizeof state, &err) == BZNA_OK);
    CHECK_EQ(drain(stream, &count, &sum, &err), BZNA_END);
    CHECK_EQ(count, TOTAL - 4 * BATCH);

    for (int round = 0; round < 3; round++) {               /* at the end, after a stop, in the middle */
        rest = 0, again = 0;
        if (round == 1)
            bzna_stream_stop(stream);
        REQUIRE(bzna_stream_restore(stream, &state, &err) == BZNA_OK);
        if (round == 2) {
            REQUIRE(bzna_stream_next(stream, BZNA_WAIT_FOREVER, &batch, &err) == BZNA_OK);
            bzna_batch_release(batch);
            REQUIRE(bzna_stream_restore(stream, &state, &err) == BZNA_OK);
        }
        CHECK_EQ(drain(stream, &rest, &again, &err), BZNA_END);
        CHECK_EQ(rest, count);
        CHECK_EQ(again, sum);
    }
    bzna_stream_close(stream);
}

TEST(damaged_states_are_refused_or_end_in_an_error)
{
    setup s;
    bzna_stream *stream = NULL;
    bzna_batch *batch;
    bzna_error err = { 0 };
    bzna_stream_state state, changed;
    uint32_t refused = 0;

    setup_init(&s, all_shards);
    s.config.samples_per_epoch = 50;
    s.loader.order.epochs = 3;
    REQUIRE(bzna_stream_open(context, &s.config, &stream, &err) == BZNA_OK);
    for (int i = 0; i < 5; i++) {
        REQUIRE(bzna_stream_next(stream, BZNA_WAIT_FOREVER, &batch, &err) == BZNA_OK);
        bzna_batch_release(batch);
    }
    REQUIRE(bzna_stream_save(stream, &state, sizeof state, &err) == BZNA_OK);
    for (size_t at = 0; at < sizeof state; at += 4)
        for (int bit = 0; bit < 32; bit += 31) {
            uint32_t word, count = 0;
            uint64_t sum = 0;
            memcpy(&changed, &state, sizeof state);
            memcpy(&word, (uint8_t *)&changed + at, sizeof word);
            word ^= 1u << bit;
            memcpy((uint8_t *)&changed + at, &word, sizeof word);
            if (bzna_stream_restore(stream, &changed, &err) != BZNA_OK) {
                refused++;
                continue;
            }
            bzna_status status = drain(stream, &count, &sum, &err);
            CHECK(status == BZNA_END || status == BZNA_E_ARGUMENT || status == BZNA_E_LIMIT);
        }
    CHECK(refused > 60);
    memcpy(&changed, &state, sizeof state);
    changed.mark.epoch_samples = s.config.samples_per_epoch;      /* an epoch without a sample that is left */
    CHECK_EQ(bzna_stream_restore(stream, &changed, &err), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_stream_save(stream, &state, sizeof state - 8, &err), BZNA_E_STRUCT_SIZE);
    bzna_stream_close(stream);
}

TEST(batches_stay_valid_after_the_stream_is_closed)
{
    setup s;
    bzna_stream *stream = NULL;
    bzna_batch *batch;
    bzna_error err = { 0 };
    bzna_batch_info info = { .struct_size = sizeof info };

    setup_init(&s, all_shards);
    s.loader.fields.bytes = "cls,name";
    REQUIRE(bzna_stream_open(context, &s.config, &stream, &err) == BZNA_OK);
    REQUIRE(bzna_stream_next(stream, BZNA_WAIT_FOREVER, &batch, &err) == BZNA_OK);
    bzna_stream_close(stream);
    bzna_batch_get_info(batch, &info, sizeof info, NULL);
    for (uint32_t i = 0; i < BATCH; i++) {
        const void *data;
        uint64_t size;
        char name[16];
        int64_t target;
        CHECK_EQ(((const uint8_t *)info.image.data)[(size_t)i * 3 * EDGE * EDGE], (uint64_t)info.targets[i]);
        REQUIRE(bzna_batch_bytes(batch, "cls", i, &data, &size, &err) == BZNA_OK && size == sizeof target);
        memcpy(&target, data, sizeof target);
        CHECK_EQ(target, info.targets[i]);
        REQUIRE(bzna_batch_bytes(batch, "name", i, &data, &size, &err) == BZNA_OK);
        snprintf(name, sizeof name, "%04d", (int)target);
        CHECK_STR((const char *)data, name);
    }
    bzna_batch_release(batch);
}

static pthread_t log_thread;
static char      log_text[1024];

static void take_log(void *user, int32_t level, bzna_status code, const char *message)
{
    (void)user, (void)code;
    CHECK_EQ(level, BZNA_LOG_WARNING);
    CHECK(pthread_equal(pthread_self(), log_thread));
    snprintf(log_text + strlen(log_text), sizeof log_text - strlen(log_text), "%s\n", message);
}

TEST(shards_that_are_left_out_are_told_on_the_callers_thread)
{
    setup s;
    bzna_stream *stream = NULL;
    bzna_error err = { 0 };
    uint32_t count = 0;
    uint64_t sum = 0;

    setup_init(&s, "pipe:exit 4");
    s.sources[1] = all_shards;
    s.sources[2] = "absent";
    s.config.source_count = 3;
    s.config.on_error = BZNA_STREAM_ON_ERROR_LEAVE;
    s.config.log = take_log;
    log_thread = pthread_self();
    log_text[0] = 0;
    REQUIRE(bzna_stream_open(context, &s.config, &stream, &err) == BZNA_OK);
    bzna_status status;
    bzna_batch *batch;
    while ((status = bzna_stream_next(stream, BZNA_WAIT_FOREVER, &batch, &err)) == BZNA_OK) {
        bzna_batch_info info = { .struct_size = sizeof info };
        bzna_batch_get_info(batch, &info, sizeof info, NULL);
        count += info.count;
        bzna_batch_release(batch);
    }
    (void)sum;
    CHECK_EQ(status, BZNA_END);
    CHECK_EQ(count, TOTAL);
    CHECK_CONTAINS(log_text, "status 4");
    CHECK_CONTAINS(log_text, "absent");
    bzna_stream_close(stream);
}

static bzna_stream *to_close;

static bzna_status close_inside(void *user, const bzna_sample_info *sample, bzna_random *random, bzna_transform *t)
{
    (void)user, (void)sample, (void)random, (void)t;
    CHECK_EQ(bzna_stream_close(to_close), BZNA_E_STATE);
    return BZNA_OK;
}

TEST(closing_inside_a_callback_does_nothing)
{
    setup s;
    bzna_error err = { 0 };
    uint32_t count = 0;
    uint64_t sum = 0;

    setup_init(&s, all_shards);
    s.loader.pipeline.no_threads = 1;                       /* the loader is known when the callback runs */
    s.loader.pipeline.transform = close_inside;
    REQUIRE(bzna_stream_open(context, &s.config, &to_close, &err) == BZNA_OK);
    REQUIRE(bzna_stream_wait(to_close, BZNA_WAIT_FOREVER, &err) == BZNA_OK);
    CHECK_EQ(drain(to_close, &count, &sum, &err), BZNA_END);
    CHECK_EQ(count, TOTAL);
    CHECK_EQ(bzna_stream_close(to_close), BZNA_OK);
}

TEST(wrong_settings_are_named)
{
    setup s;
    bzna_stream *stream;
    bzna_error err = { 0 };
    bzna_dataset_config named = { .struct_size = sizeof named, .name = "x" };
    const char *none[] = { "" };

#define REFUSED(change, status, text) do {                                                          \
        setup_init(&s, all_shards);                                                                 \
        change;                                                                                     \
        CHECK_EQ(bzna_stream_open(context, &s.config, &stream, &err), status);                      \
        CHECK(!stream);                                                                             \
        CHECK_CONTAINS(err.message, text);                                                          \
    } while (0)
    REFUSED(s.config.struct_size = 8, BZNA_E_STRUCT_SIZE, "struct_size");
    REFUSED(s.config.source_count = 0, BZNA_E_ARGUMENT, "source_count");
    REFUSED(s.config.sources = none, BZNA_E_ARGUMENT, "sources[0]");
    REFUSED(s.config.loader = NULL, BZNA_E_ARGUMENT, "loader");
    REFUSED(s.config.on_error = 2, BZNA_E_ARGUMENT, "on_error");
    REFUSED(s.config.reserved[2] = 1, BZNA_E_ARGUMENT, "reserved");
    REFUSED(s.config.memory_bytes = 1, BZNA_E_ARGUMENT, "memory_bytes");
    REFUSED(s.config.dataset = &named, BZNA_E_ARGUMENT, "name");
    REFUSED(s.loader.struct_size = 16, BZNA_E_STRUCT_SIZE, "loader");
    REFUSED(s.loader.order.kind = BZNA_ORDER_GIVEN, BZNA_E_ARGUMENT, "order.kind");
    REFUSED(s.loader.output.batch_size = 0, BZNA_E_ARGUMENT, "batch_size");
    REFUSED(s.loader.shard.rank = 1, BZNA_E_ARGUMENT, "rank");
    REFUSED((s.loader.shard.rank = 7, s.loader.shard.world_size = 9), BZNA_E_NO_SAMPLES, "rank 7 has none");
    REFUSED((s.config.samples_per_epoch = 5, s.loader.order.last_batch = BZNA_LAST_DROP), BZNA_E_ARGUMENT,
            "samples_per_epoch");
    setup_init(&s, all_shards);
    s.loader.output.width = 0;                              /* what the loader refuses is told by the first wait */
    REQUIRE(bzna_stream_open(context, &s.config, &stream, &err) == BZNA_OK);
    CHECK_EQ(bzna_stream_wait(stream, BZNA_WAIT_FOREVER, &err), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(err.message, "output");
    bzna_stream_close(stream);
}

TEST(a_source_is_read_into_memory_up_to_a_limit)
{
    void *bytes;
    size_t size;
    bzna_error err = { 0 };
    struct stat about;

    REQUIRE(stat(path_of("s1.tar"), &about) == 0);
    CHECK_EQ(bzna_stream_read(path_of("s1.tar"), (uint64_t)about.st_size, &bytes, &size, &err), BZNA_OK);
    CHECK_EQ(size, (uint64_t)about.st_size);
    free(bytes);
    CHECK_EQ(bzna_stream_read(path_of("s1.tar"), (uint64_t)about.st_size - 1, &bytes, &size, &err), BZNA_E_LIMIT);
    CHECK(!bytes && !size);
    CHECK_EQ(bzna_stream_read("pipe:yes", 1 << 20, &bytes, &size, &err), BZNA_E_LIMIT);
    CHECK_EQ(bzna_stream_read("pipe:exit 5", 1 << 20, &bytes, &size, &err), BZNA_E_IO);
    CHECK_EQ(err.native_code, 5);
    CHECK_EQ(bzna_stream_read("absent", 1 << 20, &bytes, &size, &err), BZNA_E_NOT_FOUND);
}

TEST_MAIN(
    if (bzna_context_open(NULL, &context, NULL) != BZNA_OK) abort();
    make_shards();
    snprintf(all_shards, sizeof all_shards, "%s/s{0..%d}.tar", folder, SHARDS - 1);
    RUN(a_stream_gives_every_sample_of_its_shards)
    RUN(close_ends_a_command_that_stalls)
    RUN(close_ends_the_reading_of_a_fifo_without_a_writer)
    RUN(stop_ends_waiting_from_another_thread)
    RUN(a_stream_goes_on_after_it_was_stopped)
    RUN(damaged_states_are_refused_or_end_in_an_error)
    RUN(batches_stay_valid_after_the_stream_is_closed)
    RUN(shards_that_are_left_out_are_told_on_the_callers_thread)
    RUN(closing_inside_a_callback_does_nothing)
    RUN(wrong_settings_are_named)
    RUN(a_source_is_read_into_memory_up_to_a_limit)
    bzna_context_close(context);
)
