/* Loaders without threads: the thread in next does all the work, and batches are those of any other loader. */
#define _GNU_SOURCE
#include <pthread.h>
#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__)) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#  include <linux/filter.h>
#  include <linux/seccomp.h>
#  include <signal.h>
#  include <stddef.h>
#  include <sys/prctl.h>
#  include <sys/syscall.h>
#  include <sys/wait.h>
#  include <unistd.h>
#  define HAVE_SANDBOX
#endif

static int threads_made;              /* that the library has started */
int test_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);
int test_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    threads_made++;
    return pthread_create(thread, attributes, run, argument);
}
#define pthread_create test_pthread_create
#include "library.h"
#undef pthread_create
#include "test.h"

#if defined(BENZINA_NO_AVCODEC)
TEST(a_loader_without_threads_starts_none) { SKIP("built without libavcodec [libavcodec-dev]"); }
TEST_MAIN((void)threads_made; RUN(a_loader_without_threads_starts_none))
#else
#include "known.h"
#ifdef HAVE_SANDBOX
#  include "heif.h"
#endif

enum { ARCHIVES = 2, EACH = 8, SAMPLES = ARCHIVES * EACH, BATCH = 5 };
static bzna_context *context;         /* with threads */
static bzna_dataset *dataset;

static void require(bzna_status status, const bzna_error *err)
{
    if (status >= 0)
        return;
    fprintf(stderr, "%s\n", err->message);
    abort();
}

static bzna_dataset *open_dataset(bzna_context *in)
{
    bzna_dataset *opened = NULL;
    bzna_error err = fresh_error();
    require(bzna_dataset_open_list(in, ROUNDS(archives, small_archives), ARCHIVES, NULL, &opened, &err), &err);
    return opened;
}

static bzna_loader_config config_of(int no_threads)
{
    bzna_loader_config c = { .struct_size = sizeof c };
    c.output.batch_size = BATCH;
    c.output.width = c.output.height = 24;
    c.output.device.kind = BZNA_DEVICE_CPU;
    c.order.kind = BZNA_ORDER_SHUFFLE;
    c.order.seed = 11;
    c.order.epochs = 2;
    c.warp.kind = BZNA_WARP_RANDOM_RESIZED_CROP;
    c.warp.flip_h = 0.5;
    c.decode.threads = 2;
    c.pipeline.no_threads = (uint32_t)no_threads;
    return c;
}

static bzna_loader *open_loader(bzna_context *in, bzna_dataset *of, const bzna_loader_config *c)
{
    bzna_loader *loader = NULL;
    bzna_error err = fresh_error();
    require(bzna_loader_open(in, of, c, &loader, &err), &err);
    return loader;
}

static uint64_t hash_batch(const bzna_batch *batch, uint64_t hash)
{
    bzna_batch_info info = { .struct_size = sizeof info };
    CHECK_EQ(bzna_batch_get_info(batch, &info, sizeof info, NULL), BZNA_OK);
    hash = bzi_hash(hash, info.image.data, (size_t)info.image.bytes);
    hash = bzi_hash(hash, info.indices, info.count * sizeof *info.indices);
    hash = bzi_hash(hash, info.targets, info.count * sizeof *info.targets);
    return bzi_hash(hash, info.status, info.count * sizeof *info.status);
}

/* Takes so many batches, or all up to the end. Returns their number. */
static uint64_t take(bzna_loader *loader, uint64_t most, uint64_t *hash)
{
    uint64_t count = 0;
    bzna_batch *batch;
    while (count < most && bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
        *hash = hash_batch(batch, *hash);
        bzna_batch_release(batch);
        count++;
    }
    return count;
}

static uint64_t hash_run(bzna_context *in, bzna_dataset *of, const bzna_loader_config *c)
{
    bzna_loader *loader = open_loader(in, of, c);
    uint64_t hash = BZI_HASH_START;
    CHECK_EQ(take(loader, UINT64_MAX, &hash), 2 * ((SAMPLES + BATCH - 1) / BATCH));
    bzna_loader_close(loader);
    return hash;
}

/* Where threads cannot be had at all, there is nothing to compare with but itself. */
static uint64_t expected(const bzna_loader_config *config)
{
    bzna_loader_config c = *config;
    c.pipeline.no_threads = !BZI_THREADS;
    return hash_run(context, dataset, &c);
}

TEST(a_loader_without_threads_starts_none_and_gives_the_same_batches)
{
    static const uint32_t in_flight[] = { 1, 3, 8 };
    for (size_t i = 0; i < sizeof in_flight / sizeof in_flight[0]; i++)
        for (uint32_t ahead = 0; ahead <= 64; ahead += 32) {
            bzna_loader_config c = config_of(1);
            uint64_t hash;
            threads_made = 0;
            c.pipeline.batches_in_flight = in_flight[i];
            c.read.ahead_samples = ahead;
            hash = hash_run(context, dataset, &c);
            CHECK_EQ(threads_made, 0);
            CHECK_EQ(hash, expected(&c));
        }
}

TEST(a_context_without_threads_opens_data_sets_and_loaders_without)
{
    bzna_context_config config = { .struct_size = sizeof config, .no_threads = 1 };
    bzna_loader_config c = config_of(0);
    bzna_loader_info info = { .struct_size = sizeof info };
    bzna_context *own = NULL;
    bzna_dataset *opened;
    bzna_loader *loader;
    REQUIRE(bzna_context_open(&config, &own, NULL) == BZNA_OK);
    threads_made = 0;
    opened = open_dataset(own);
    CHECK_EQ(hash_run(own, opened, &c), expected(&c));
    threads_made = 0;
    bzna_dataset_close(open_dataset(own));
    loader = open_loader(own, opened, &c);
    CHECK_EQ(bzna_loader_get_info(loader, &info, sizeof info, NULL), BZNA_OK);
    CHECK_EQ(info.threads, 1);
    CHECK_EQ(info.reader_threads, 0);
    bzna_loader_close(loader);
    bzna_dataset_close(opened);
    CHECK_EQ(bzna_context_close(own), BZNA_OK);
    CHECK_EQ(threads_made, 0);
}

TEST(settings_that_are_not_known_are_refused)
{
    bzna_context_config config = { .struct_size = sizeof config, .no_threads = 2 };
    bzna_loader_config c = config_of(2);
    bzna_context *own = NULL;
    bzna_loader *loader = NULL;
    bzna_error err = fresh_error();
    CHECK_EQ(bzna_context_open(&config, &own, &err), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(err.message, "context_config.no_threads");
    CHECK_EQ(bzna_loader_open(context, dataset, &c, &loader, &err), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(err.message, "loader_config.pipeline.no_threads");
    c = config_of(1);
    c.decode.decoder = BZNA_DECODER_NVDEC;
    CHECK(bzna_loader_open(context, dataset, &c, &loader, &err) < 0);
    CHECK_CONTAINS(err.message, "loader_config.decode.decoder: pipeline.no_threads");
    CHECK(!own && !loader);
}

/* ---- Callbacks --------------------------------------------------------------------------------------------------- */

typedef struct visit {
    pthread_t    thread;              /* of the program */
    int          calls, elsewhere;
    int          stop_at;             /* the call that stops the loader; 0: none */
    bzna_loader *loader;
    bzna_status  stopped;
} visit;

static bzna_status note_thread(void *user, const bzna_sample_info *sample, bzna_random *random, bzna_transform *t)
{
    visit *v = user;
    (void)sample, (void)random, (void)t;
    v->elsewhere += !pthread_equal(v->thread, pthread_self());
    if (++v->calls == v->stop_at)
        v->stopped = bzna_loader_stop(v->loader, NULL);
    return BZNA_OK;
}

TEST(callbacks_run_on_the_thread_that_is_in_next)
{
    bzna_loader_config c = config_of(1);
    visit v = { .thread = pthread_self() };
    uint64_t hash = BZI_HASH_START;
    bzna_loader *loader;
    c.pipeline.transform = note_thread;
    c.pipeline.transform_user = &v;
    loader = open_loader(context, dataset, &c);
    CHECK_EQ(v.calls, 0);                                   /* nothing is done before it is asked for */
    take(loader, 1, &hash);
    CHECK(v.calls >= BATCH);
    take(loader, UINT64_MAX, &hash);
    CHECK(v.calls >= 2 * SAMPLES);
    CHECK_EQ(v.elsewhere, 0);
    bzna_loader_close(loader);
}

/* A stop in the middle of a batch ends it. After a reset the epoch is whole again, whatever was in hand. */
TEST(a_callback_stops_the_loader_and_a_reset_starts_it_again)
{
    bzna_loader_config c = config_of(1);
    const uint64_t whole = hash_run(context, dataset, &c);
    for (int at = 1; at <= 2 * BATCH + 1; at++) {
        visit v = { .thread = pthread_self(), .stop_at = at };
        bzna_batch *batch = NULL;
        bzna_status status;
        uint64_t hash = BZI_HASH_START;
        c.pipeline.transform = note_thread;
        c.pipeline.transform_user = &v;
        v.loader = open_loader(context, dataset, &c);
        while ((status = bzna_loader_next(v.loader, BZNA_WAIT_FOREVER, &batch, NULL)) == BZNA_OK)
            bzna_batch_release(batch);
        CHECK_EQ(status, BZNA_E_STOPPED);
        CHECK_EQ(v.stopped, BZNA_OK);
        CHECK_EQ(bzna_loader_next(v.loader, BZNA_WAIT_FOREVER, &batch, NULL), BZNA_E_STOPPED);
        CHECK_EQ(bzna_loader_reset(v.loader, 0, NULL), BZNA_OK);
        take(v.loader, UINT64_MAX, &hash);
        CHECK_EQ(hash, whole);
        bzna_loader_close(v.loader);
    }
}

/* ---- Time, memory, state ----------------------------------------------------------------------------------------- */

TEST(polling_works_a_little_each_time_and_comes_to_the_end)
{
    bzna_loader_config c = config_of(1);
    const uint64_t whole = hash_run(context, dataset, &c);
    for (int64_t timeout = 0; timeout <= 1; timeout++) {
        bzna_loader *loader = open_loader(context, dataset, &c);
        uint64_t hash = BZI_HASH_START, again = 0;
        bzna_batch *batch;
        bzna_status status;
        while ((status = bzna_loader_next(loader, timeout, &batch, NULL)) >= BZNA_OK && status != BZNA_END) {
            again += status == BZNA_AGAIN;
            REQUIRE(again < 100 * SAMPLES);
            if (status != BZNA_OK)
                continue;
            hash = hash_batch(batch, hash);
            bzna_batch_release(batch);
        }
        CHECK_EQ(status, BZNA_END);
        CHECK(again > 0);
        CHECK_EQ(hash, whole);
        bzna_loader_close(loader);
    }
}

/* A sample that is larger than all memory fails, as with threads. The others are read one after the other. */
TEST(short_memory_does_not_hold_it_up)
{
    bzna_loader_config c = config_of(1);
    c.read.ahead_samples = 64;
    c.pipeline.batches_in_flight = 8;
    for (c.read.memory_bytes = ROUNDS(16384, 4096); c.read.memory_bytes <= 1 << 18; c.read.memory_bytes *= 2)
        CHECK_EQ(hash_run(context, dataset, &c), expected(&c));
}

TEST(with_all_batches_on_loan_next_says_so)
{
    bzna_loader_config c = config_of(1);
    bzna_loader *loader;
    bzna_batch *batches[3], *batch;
    bzna_error err = fresh_error();
    c.pipeline.batches_in_flight = 3;
    loader = open_loader(context, dataset, &c);
    for (int i = 0; i < 3; i++)
        REQUIRE(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batches[i], NULL) == BZNA_OK);
    CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err), BZNA_E_STATE);
    CHECK_CONTAINS(err.message, "all 3 batches are on loan");
    bzna_batch_release(batches[1]);
    CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batches[1], NULL), BZNA_OK);
    for (int i = 0; i < 3; i++)
        bzna_batch_release(batches[i]);
    bzna_loader_close(loader);
}

TEST(states_go_from_loaders_with_threads_to_those_without_and_back)
{
    for (int without = 0; without < 2; without++)
        for (uint64_t before = 0; before < 8; before++) {
            const bzna_loader_config c = config_of(without), other = config_of(!without);
            bzna_loader_state state = { .struct_size = sizeof state };
            bzna_loader *loader = open_loader(context, dataset, &c);
            uint64_t hash = BZI_HASH_START;
            take(loader, before, &hash);
            CHECK_EQ(bzna_loader_save(loader, &state, sizeof state, NULL), BZNA_OK);
            bzna_loader_close(loader);
            loader = open_loader(context, dataset, &other);
            CHECK_EQ(bzna_loader_restore(loader, &state, NULL), BZNA_OK);
            take(loader, UINT64_MAX, &hash);
            CHECK_EQ(hash, expected(&c));
            bzna_loader_close(loader);
        }
}

/* Where a rank has no samples left for its last batch, that batch is empty, and nothing need be done for it. */
TEST(ranks_without_samples_get_their_empty_batches)
{
    for (uint32_t world = 1; world <= 2 * SAMPLES; world += world < 6 ? 1 : ROUNDS(5, 13))
        for (uint32_t rank = 0; rank < world; rank++)
            for (uint32_t batch = 1; batch <= BATCH; batch += 2) {
                bzna_loader_config c = config_of(1);
                uint64_t hashes[2] = { BZI_HASH_START, BZI_HASH_START }, counts[2];
                c.shard.world_size = world;
                c.shard.rank = rank;
                c.output.batch_size = batch;
                for (uint32_t i = 0; i < 2; i++) {
                    bzna_loader *loader;
                    c.pipeline.no_threads = i || !BZI_THREADS;
                    loader = open_loader(context, dataset, &c);
                    counts[i] = take(loader, UINT64_MAX, &hashes[i]);
                    bzna_loader_close(loader);
                }
                CHECK_EQ(counts[1], counts[0]);
                CHECK_EQ(counts[1], 2 * (((uint64_t)SAMPLES + world * batch - 1) / (world * batch)));
                CHECK_EQ(hashes[1], hashes[0]);
            }
}

/* What is in hand when a loader closes or is reset is not lost, and a sanitizer sees that nothing of it leaks. */
TEST(closing_and_resetting_in_the_middle_of_a_batch_loses_nothing)
{
    const bzna_loader_config c = config_of(1);
    const uint64_t whole = hash_run(context, dataset, &c);
    for (int polls = 0; polls < 12; polls++)
        for (int reset = 0; reset < 2; reset++) {
            bzna_loader *loader = open_loader(context, dataset, &c);
            uint64_t hash = BZI_HASH_START;
            bzna_batch *batch;
            for (int i = 0; i < polls; i++)
                if (bzna_loader_next(loader, 0, &batch, NULL) == BZNA_OK)
                    bzna_batch_release(batch);
            if (reset) {
                CHECK_EQ(bzna_loader_reset(loader, 0, NULL), BZNA_OK);
                take(loader, UINT64_MAX, &hash);
                CHECK_EQ(hash, whole);
            }
            CHECK_EQ(bzna_loader_close(loader), BZNA_OK);
        }
}

/* ---- In a sandbox ---- */

#ifdef HAVE_SANDBOX
static void say_call(int number, siginfo_t *info, void *context_of_signal)
{
    char text[80];
    int length = snprintf(text, sizeof text, "call %d of the system in the sandbox\n", info->si_syscall);
    (void)number, (void)context_of_signal;
    _exit(write(2, text, (size_t)length) < 0 ? 101 : 100);
}

/* From now on, a call that opens a file, connects, or starts a thread or a process ends this process. */
static int forbid_files_and_threads(void)
{
    static const uint32_t forbidden[] = {
#  ifdef __NR_open
        __NR_open, __NR_creat, __NR_fork, __NR_vfork,
#  endif
        __NR_openat, __NR_clone, __NR_socket, __NR_execve, 435 /* clone3 */, 437 /* openat2 */ };
    enum { CALLS = sizeof forbidden / sizeof *forbidden };
    struct sock_filter code[2 * CALLS + 2];
    const struct sock_fprog program = { .len = 2 * CALLS + 2, .filter = code };
    struct sigaction action = { .sa_sigaction = say_call, .sa_flags = SA_SIGINFO };
    code[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < CALLS; i++) {
        code[1 + 2 * i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, forbidden[i], 0, 1);
        code[2 + 2 * i] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
    }
    code[2 * CALLS + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    return !sigaction(SIGSYS, &action, NULL) && !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
           !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

enum { NO_SANDBOX = 77 };

/* Delivers an epoch of each file, all of which lie in memory. Returns the exit status of its process. */
static int run_in_sandbox(uint8_t *const *files, const size_t *sizes, size_t count)
{
    const bzna_context_config config = { .struct_size = sizeof config, .device = { .kind = BZNA_DEVICE_CPU },
                                         .no_threads = 1 };
    bzna_context *own = NULL;
    int good = 1;
    if (!forbid_files_and_threads())
        return NO_SANDBOX;
    good = (own = heif_context(&config)) != NULL;
    for (size_t i = 0; good && i < count; i++) {
        bzna_loader_config c = config_of(0);
        bzna_dataset *opened = NULL;
        bzna_loader *loader = NULL;
        bzna_batch *batch;
        bzna_statistics statistics = { .struct_size = sizeof statistics };
        c.order.epochs = 1;
        if (formats_is_heif(NULL, files[i], sizes[i]))
            opened = heif_open_bytes(own, files[i], sizes[i], NULL);
        else
            bzna_dataset_open_memory(own, files[i], sizes[i], NULL, &opened, NULL);
        good = opened &&
               bzna_loader_open(own, opened, &c, &loader, NULL) == BZNA_OK;
        while (good && bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
            bzna_batch_info info = { .struct_size = sizeof info };
            good = bzna_batch_get_info(batch, &info, sizeof info, NULL) == BZNA_OK && info.count > 0;
            for (uint32_t k = 0; good && k < info.count; k++)
                good = info.status[k] == BZNA_OK;
            bzna_batch_release(batch);
        }
        good = good && bzna_loader_statistics(loader, &statistics, sizeof statistics, NULL) == BZNA_OK &&
               statistics.samples > 0;
        bzna_loader_close(loader);
        bzna_dataset_close(opened);
    }
    return good && bzna_context_close(own) == BZNA_OK ? 0 : 1;
}
#endif

/* Chapter 8 of benzina.h: a process may be forbidden to open files, to connect, and to start threads. */
TEST(a_process_that_may_neither_open_files_nor_start_threads_delivers_what_lies_in_memory)
{
#ifdef HAVE_SANDBOX
    static const char *const names[] = { "tests/data/mini_h264.bzna", "tests/data/mini_h265.bzna",
                                         "tests/data/heif/still.heic", "tests/data/heif/still_jpeg.heif",
                                         "tests/data/heif/still.avif" };
    enum { FILES = sizeof names / sizeof *names };
    uint8_t *files[FILES];
    size_t sizes[FILES];
    int status = 0;
    pid_t child;
    for (size_t i = 0; i < FILES; i++)
        REQUIRE((files[i] = slurp(names[i], &sizes[i])));
    fflush(NULL);
    child = fork();
    if (child == 0)
        _exit(run_in_sandbox(files, sizes, FILES));
    REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
    for (size_t i = 0; i < FILES; i++)
        free(files[i]);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NO_SANDBOX)
        SKIP("this system has no filters of system calls");
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 0);
#else
    SKIP("filters of system calls are Linux's, and sanitizers open files themselves");
#endif
}

int main(int argc, char **argv)
{
    const bzna_context_config config = { .struct_size = sizeof config, .device = { .kind = BZNA_DEVICE_CPU } };
    bzna_error err = fresh_error();
    (void)argc;
    test_start(argv);
    require(bzna_context_open(&config, &context, &err), &err);
    dataset = open_dataset(context);
    RUN(a_loader_without_threads_starts_none_and_gives_the_same_batches)
    RUN(a_context_without_threads_opens_data_sets_and_loaders_without)
    RUN(settings_that_are_not_known_are_refused)
    RUN(callbacks_run_on_the_thread_that_is_in_next)
    RUN(a_callback_stops_the_loader_and_a_reset_starts_it_again)
    RUN(polling_works_a_little_each_time_and_comes_to_the_end)
    RUN(short_memory_does_not_hold_it_up)
    RUN(with_all_batches_on_loan_next_says_so)
    RUN(states_go_from_loaders_with_threads_to_those_without_and_back)
    RUN(ranks_without_samples_get_their_empty_batches)
    RUN(closing_and_resetting_in_the_middle_of_a_batch_loses_nothing)
    RUN(a_process_that_may_neither_open_files_nor_start_threads_delivers_what_lies_in_memory)
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    printf("%s: %d passed, %d failed, %d skipped\n", __FILE__, test_passed, test_failed, test_skipped);
    return test_failed != 0;
}
#endif
