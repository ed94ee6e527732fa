/* One call of the system fails: each call of each kind in turn, while data sets are opened, loaded for two epochs and
 * closed, and while archives are written. Whatever fails, nothing leaks and nothing hangs, a sample that is delivered
 * without a status of failure has its own pixels, and what was written is whole or is not there.
 *
 *     build/tests/test_faults --pairs SECONDS [SEED]        two failures at random at once, for so long */
#if defined(BENZINA_NO_AVCODEC) || defined(BENZINA_NO_WRITER) || defined(BENZINA_NO_SHARDS)

#include "library.h"
#include "test.h"

TEST(each_call_of_the_system_may_fail) { SKIP("built without libavcodec, writer or shards [libavcodec-dev]"); }

TEST_MAIN(RUN(each_call_of_the_system_may_fail))

#else

#ifndef _GNU_SOURCE
#  define _GNU_SOURCE
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

enum { ALLOC, READ_FAILS, READ_ENDS, READ_SHORT, READ_INTERRUPTED, OPEN_FAILS, OPEN_INTERRUPTED, STAT_FAILS,
       LIST_FAILS, LIST_INTERRUPTED, THREAD_FAILS, WRITE_FAILS, WRITE_REFUSED, WRITE_BROKEN, WRITE_SHORT,
       WRITE_INTERRUPTED, SYNC_FAILS, KINDS };

static const char *const kind_name[KINDS] = {
    "an allocation", "a read (EIO)", "a read (end of file)", "a read (half of it)", "a read (EINTR)", "open",
    "open (EINTR)", "fstat", "opendir", "opendir (EINTR)", "pthread_create", "a write (ENOSPC)", "a write (EDQUOT)",
    "a write (EIO)", "a write (half of it)", "a write (EINTR)", "fdatasync"
};

/* What fails: the call of a kind with this number, counted from 1; 0: none. lasts: so many of them in a row. */
static struct { atomic_int kind; _Atomic long call; _Atomic long met; _Atomic long lasts; } planned[2];

static int fails(int kind)
{
    int now = 0;
    for (int i = 0; i < 2; i++)
        if (planned[i].kind == kind) {
            const long call = atomic_fetch_add(&planned[i].met, 1) + 1;
            now |= call >= planned[i].call && call - planned[i].call < planned[i].lasts;
        }
    return now;
}

static int fails_with(int kind, int error) { return fails(kind) ? errno = error, 1 : 0; }

/* A disk that stalls: while it is 1, reads wait, and are counted. */
static atomic_int stalls, stalled;

ssize_t test_pread(int fd, void *dst, size_t size, off_t at);
ssize_t test_pread(int fd, void *dst, size_t size, off_t at)
{
    stalled++;
    while (stalls)
        usleep(300);
    stalled--;
    if (fails_with(READ_FAILS, EIO) || fails_with(READ_INTERRUPTED, EINTR))
        return -1;
    if (fails(READ_ENDS))
        return 0;
    return pread(fd, dst, fails(READ_SHORT) && size > 1 ? size / 2 : size, at);
}

ssize_t test_pwrite(int fd, const void *src, size_t size, off_t at);
ssize_t test_pwrite(int fd, const void *src, size_t size, off_t at)
{
    if (fails_with(WRITE_FAILS, ENOSPC) || fails_with(WRITE_REFUSED, EDQUOT) || fails_with(WRITE_BROKEN, EIO) ||
        fails_with(WRITE_INTERRUPTED, EINTR))
        return -1;
    return pwrite(fd, src, fails(WRITE_SHORT) && size > 1 ? size / 2 : size, at);
}

int test_open(const char *path, int flags, ...);
int test_open(const char *path, int flags, ...)
{
    return fails_with(OPEN_FAILS, EMFILE) || fails_with(OPEN_INTERRUPTED, EINTR) ? -1 : open(path, flags, 0666);
}

int test_fstat(int fd, struct stat *info);
int test_fstat(int fd, struct stat *info) { return fails_with(STAT_FAILS, EIO) ? -1 : fstat(fd, info); }
DIR *test_opendir(const char *path);
DIR *test_opendir(const char *path)
{
    return fails_with(LIST_FAILS, ENOMEM) || fails_with(LIST_INTERRUPTED, EINTR) ? NULL : opendir(path);
}

int test_fdatasync(int fd);
int test_fdatasync(int fd) { return fails_with(SYNC_FAILS, EIO) ? -1 : fdatasync(fd); }

int test_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);
int test_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    return fails(THREAD_FAILS) ? EAGAIN : pthread_create(thread, attributes, run, argument);
}

#define pread          test_pread
#define pwrite         test_pwrite
#define open           test_open
#define fstat          test_fstat
#define opendir        test_opendir
#define fdatasync      test_fdatasync
#define pthread_create test_pthread_create
#include "library.h"
#include "with_formats.h"
#undef pread
#undef pwrite
#undef open
#undef fstat
#undef opendir
#undef fdatasync
#undef pthread_create

#include "test.h"
#include "known.h"
#include "open_formats.h"
#include "recordio.h"
#include "tars.h"

#define TOP TEST_BUILD "/tests/faults"

enum { SAMPLES = 12, SIDE = 24, BATCH = 4, EPOCHS = 2, OUT = 8, HANG_S = 300 };
enum { ARCHIVE, FOLDER, RECORDIO, TAR, RECORDS, HELD_RECORDS, FORMATS };

static const char *const format_path[FORMATS] = {
    TOP "/a.bzna", TOP "/folder", TOP "/r.rec", TOP "/t.tar", TOP "/records", TOP "/records" };

/* ---- an allocator that counts, and fails ---- */

static _Atomic int64_t blocks;

static void *fault_alloc(void *user, size_t size, size_t align)
{
    void *p = NULL;
    (void)user;
    if (fails(ALLOC) || posix_memalign(&p, align < sizeof p ? sizeof p : align, size))
        return NULL;
    blocks++;
    return p;
}

static void fault_release(void *user, void *p, size_t size)
{
    (void)user;
    (void)size;
    blocks--;
    free(p);
}

/* ---- what is loaded ---- */

static size_t make_picture(uint8_t *bytes, int number)
{
    const int n = sprintf((char *)bytes, "P6 %d %d 255\n", SIDE, SIDE);
    for (int i = 0; i < SIDE * SIDE * 3; i++)
        bytes[n + i] = (uint8_t)(number * 17 + i % 7);
    return (size_t)n + SIDE * SIDE * 3;
}

static bzna_status context_open(bzna_context **context, bzna_error *err)
{
    const bzna_context_config config = { .struct_size = sizeof config,
                                         .allocator = { NULL, fault_alloc, fault_release } };
    return bzna_context_open(&config, context, err);
}

static const char *const jpeg[] = { "jpeg_420_progressive", "jpeg_440", "jpeg_422_restarts", "jpeg_gray_progressive",
                                    "jpeg_rgb_adobe" };

/* Writes an archive of JPEG files. */
static bzna_status write_archive(bzna_context *context, const char *path, bzna_error *err)
{
    char name[128];
    bzna_writer *writer = NULL;
    bzna_image image;
    bzna_status status = bzna_writer_open(context, path, NULL, &writer, err);
    bzna_image_init(&image, sizeof image);
    image.codec = BZNA_CODEC_JPEG;
    for (int i = 0; i < SAMPLES && status == BZNA_OK; i++) {
        bzna_writer_sample sample = { .struct_size = sizeof sample, .image = &image, .has_target = 1, .target = i };
        size_t size;
        snprintf(name, sizeof name, "tests/data/pictures/%s.jpg", jpeg[(size_t)i % COUNT(jpeg)]);
        uint8_t *bytes = slurp(name, &size);
        image.data = bytes;
        image.data_size = size;
        status = bzna_writer_add(writer, BZNA_INDEX_NEXT, &sample, 0, err);
        free(bytes);
    }
    if (status == BZNA_OK)
        status = bzna_writer_finish(writer, err);
    bzna_writer_close(writer);
    return status;
}

static void make_files(void)
{
    static uint8_t bytes[1 << 16];
    char path[256], name[64];
    bzna_context *context = NULL;
    bzna_error e = { 0 };
    rec_file *rec = rec_new();
    tar t = { NULL, 0, 0, 0 };
    CHECK(system("rm -rf " TOP " && mkdir -p " TOP "/folder/a " TOP "/folder/b " TOP "/written") == 0);
    for (int i = 0; i < SAMPLES; i++) {
        const size_t size = make_picture(bytes, i);
        const float label = (float)i;
        snprintf(path, sizeof path, TOP "/folder/%c/%02d.ppm", i < SAMPLES / 2 ? 'a' : 'b', i);
        spill(path, bytes, size);
        snprintf(name, sizeof name, "%04d.ppm", i);
        tar_file(&t, name, bytes, size);
        snprintf(name, sizeof name, "%04d.cls", i);
        tar_text(&t, name, "7");
        rec_add_picture(rec, (uint64_t)i, &label, 1, bytes, size);
    }
    tar_end(&t);
    spill(format_path[TAR], t.bytes, t.size);
    rec_save(rec, format_path[RECORDIO], 1);
    for (int i = 0; i < SAMPLES; i++)
        memset(bytes + i * SIDE * SIDE, 17 * i, SIDE * SIDE);
    spill(format_path[RECORDS], bytes, SAMPLES * SIDE * SIDE);
    CHECK_EQ(context_open(&context, &e), BZNA_OK);
    CHECK_EQ(write_archive(context, format_path[ARCHIVE], &e), BZNA_OK);
    bzna_context_close(context);
    tar_free(&t);
    free(rec);
}

/* ---- a run: open, two epochs, close ---- */

typedef struct outcome {
    bzna_status status;               /* BZNA_END, or that of the call that failed */
    uint32_t    delivered, failed;    /* slots */
    uint64_t    hash[SAMPLES];        /* of each sample's pixels; 0: it was not delivered */
    bzna_error  error;
} outcome;

static uint64_t hash_of(const uint8_t *p, size_t size)
{
    uint64_t hash = 1469598103934665603u;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ p[i]) * 1099511628211u;
    return hash ? hash : 1;
}

static void take_batch(bzna_batch *batch, outcome *o)
{
    bzna_batch_info info = { 0 };
    CHECK_EQ(bzna_batch_get_info(batch, &info, sizeof info, NULL), BZNA_OK);
    for (uint32_t i = 0; i < info.count; i++) {
        const size_t bytes = (size_t)info.image.bytes / BATCH;
        const uint64_t hash = hash_of((const uint8_t *)info.image.data + i * bytes, bytes);
        o->delivered++;
        if (info.status[i] != BZNA_OK) {
            bzna_error why = { 0 };
            CHECK_EQ(bzna_batch_error(batch, i, &why), info.status[i]);
            CHECK(why.message[0] != 0);
            o->failed++;
        } else if (info.indices[i] < SAMPLES) {
            uint64_t *seen = &o->hash[info.indices[i]];
            CHECK(*seen == 0 || *seen == hash);
            *seen = hash;
        }
    }
    CHECK_EQ(bzna_batch_release(batch), BZNA_OK);
}

/* How samples that fail are treated, and who reads and decodes. */
typedef struct way { uint32_t policy, threads, readers, no_threads; } way;
static way at_hand = { BZNA_ON_ERROR_FILL, 2, 2, 0 };

static bzna_loader_config loader_config(void)
{
    return (bzna_loader_config){
        .errors.on_error = at_hand.policy, .pipeline.no_threads = at_hand.no_threads,
        .struct_size = sizeof(bzna_loader_config),
        .output.batch_size = BATCH, .output.width = OUT, .output.height = OUT,
        .output.dtype = BZNA_DTYPE_UINT8, .output.device.kind = BZNA_DEVICE_CPU, .order.epochs = EPOCHS,
        .decode.decoder = BZNA_DECODER_SOFTWARE, .decode.threads = at_hand.threads, .read.threads = at_hand.readers,
        .read.retries = 0,
        .pipeline.batches_in_flight = 2
    };
}

static void load(bzna_context *context, bzna_dataset *dataset, outcome *o)
{
    const bzna_loader_config c = loader_config();
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    if ((o->status = bzna_loader_open(context, dataset, &c, &loader, &o->error)) != BZNA_OK)
        return;
    while ((o->status = bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &o->error)) == BZNA_OK)
        take_batch(batch, o);
    bzna_loader_close(loader);
}

/* Records are read one by one each time, or held in memory. */
static bzna_status dataset_open(bzna_context *context, int format, bzna_dataset **dataset, bzna_error *err)
{
    const bzna_records records = { .struct_size = sizeof records, .data_type = BZNA_RECORD_UINT8, .channels = 1,
                                   .width = SIDE, .height = SIDE };
    const bzna_formats_config config = { .struct_size = sizeof config,
                                         .hold_bytes = format < HELD_RECORDS,
                                         .records = format == RECORDS || format == HELD_RECORDS ? &records : NULL };
    return bzna_formats_open(context, format_path[format], &config, dataset, err);
}

static outcome run_once(int format)
{
    outcome o = { .status = BZNA_OK };
    bzna_context *context = NULL;
    bzna_dataset *dataset = NULL;
    if ((o.status = context_open(&context, &o.error)) == BZNA_OK &&
        (o.status = dataset_open(context, format, &dataset, &o.error)) == BZNA_OK)
        load(context, dataset, &o);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    return o;
}

/* ---- what must hold afterwards ---- */

static int entries(const char *folder)
{
    int count = 0;
    DIR *open_folder = opendir(folder);
    while (open_folder && readdir(open_folder))
        count++;
    if (open_folder)
        closedir(open_folder);
    return count;
}

typedef struct held { int descriptors, threads; int64_t blocks; } held;

/* QEMU has threads of its own, which come and go. */
static held held_now(void)
{
    return (held){ entries("/proc/self/fd"), EMULATED ? 0 : entries("/proc/self/task"), blocks };
}

/* A thread that was joined leaves /proc a little later: it may be counted now, and in `before`. */
static int check_held(const held *before)
{
    held now = held_now();
    for (int i = 0; i < 1000 && now.threads > before->threads; i++, now = held_now())
        usleep(1000);
    CHECK_EQ(now.descriptors, before->descriptors);
    CHECK(now.threads <= before->threads);
    CHECK_EQ(now.blocks, before->blocks);
    return now.descriptors == before->descriptors && now.threads <= before->threads && now.blocks == before->blocks;
}

/* The clean run's pixels, wherever there are pixels; all slots, if the run came to its end. */
static void check_outcome(const outcome *o, const outcome *clean, int kind)
{
    for (int i = 0; i < SAMPLES; i++)
        CHECK(o->hash[i] == 0 || o->hash[i] == clean->hash[i]);
    if (o->status == BZNA_END)
        CHECK_EQ(o->delivered, SAMPLES * EPOCHS);
    else
        CHECK(o->status < 0 && o->error.message[0] != 0);
    if (kind == READ_SHORT || kind == READ_INTERRUPTED || kind == OPEN_INTERRUPTED || kind == LIST_INTERRUPTED)
        /* which are no failures */
        CHECK(o->status == BZNA_END && o->failed == 0);
    if (kind == ALLOC || kind == THREAD_FAILS) {            /* which are no failures of a sample */
        CHECK_EQ(o->failed, 0);
        CHECK(o->status == BZNA_END || o->status == BZNA_E_MEMORY || o->status == BZNA_E_THREAD);
    }
}

static void plan(int which, int kind, long call)
{
    planned[which].kind = -1;
    planned[which].call = call;
    planned[which].met = 0;
    planned[which].lasts = 1;
    planned[which].kind = kind;
}

static void plan_nothing(void) { plan(0, -1, 0); plan(1, -1, 0); }

/* Fails each call of a kind in turn, until a run does not get that far. Returns how many runs that took. */
static long sweep(int format, int kind, const outcome *clean)
{
    long call = 1, runs = 0, met;
    do {
        const int failures = test_failures;
        const held before = held_now();
        alarm(HANG_S);
        plan(0, kind, call);
        const outcome o = run_once(format);
        met = planned[0].met;
        plan_nothing();
        check_outcome(&o, clean, kind);
        check_held(&before);
        if (test_failures != failures) {
            printf("  %s: %s, call %ld: %s: %s\n", format_path[format], kind_name[kind], call,
                   bzna_status_name(o.status), o.error.message);
            return runs;
        }
        runs++;
        call += ROUNDS(1, 7);
    } while (met >= call - ROUNDS(1, 7));
    return runs;
}

static outcome clean_run(int format)
{
    const outcome o = run_once(format);
    CHECK_EQ(o.status, BZNA_END);
    CHECK_EQ(o.failed, 0);
    CHECK_EQ(o.delivered, SAMPLES * EPOCHS);
    return o;
}

static void sweep_format(int format)
{
    long runs = 0;
    run_once(format);                 /* what libraries allocate once */
    const outcome clean = clean_run(format);
    for (int kind = 0; kind < WRITE_FAILS; kind++)
        runs += sweep(format, kind, &clean);
    CHECK(runs > ROUNDS(100, 20));
}

TEST(an_archive_is_loaded_or_refused_whichever_call_fails)  { make_files(); sweep_format(ARCHIVE); }
TEST(a_folder_is_loaded_or_refused_whichever_call_fails)    { make_files(); sweep_format(FOLDER); }
TEST(recordio_is_loaded_or_refused_whichever_call_fails)    { make_files(); sweep_format(RECORDIO); }
TEST(a_tar_is_loaded_or_refused_whichever_call_fails)       { make_files(); sweep_format(TAR); }
TEST(records_are_loaded_or_refused_whichever_call_fails)
{
    make_files();
    sweep_format(RECORDS);
    sweep_format(HELD_RECORDS);
}

/* Reading a file of records whole is the second read of it, after that of its first bytes. */
/* What a run has allocated when its loader is open. */
static long allocations_of_opening(int format)
{
    bzna_context *context = NULL;
    bzna_dataset *dataset = NULL;
    bzna_loader *loader = NULL;
    bzna_error e = { 0 };
    bzna_loader_config c = loader_config();
    long met;
    c.pipeline.no_threads = 1;        /* so that nothing is read yet */
    plan(0, ALLOC, 0);
    planned[0].lasts = 0;
    CHECK_EQ(context_open(&context, &e), BZNA_OK);
    CHECK_EQ(dataset_open(context, format, &dataset, &e), BZNA_OK);
    CHECK_EQ(bzna_loader_open(context, dataset, &c, &loader, &e), BZNA_OK);
    met = planned[0].met;
    plan_nothing();
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    return met;
}

/* Memory is there again after so many failures, or never. */
TEST(a_lack_of_memory_ends_the_run_or_costs_nothing_and_is_never_a_picture)
{
    static const way ways[] = { { BZNA_ON_ERROR_FILL, 1, 1, 0 }, { BZNA_ON_ERROR_FILL, 4, 2, 0 },
                                { BZNA_ON_ERROR_FILL, 1, 1, 1 }, { BZNA_ON_ERROR_REPLACE, 1, 1, 0 },
                                { BZNA_ON_ERROR_REPLACE, 2, 1, 1 }, { BZNA_ON_ERROR_STOP, 2, 3, 0 } };
    static const long lasts[] = { 1, 2, 3, 7, LONG_MAX };
    const way before = at_hand;
    make_files();
    for (int format = 0; format < FORMATS; format++)
        for (size_t w = 0; w < COUNT(ways); w++) {
            int ended = 0, retried = 0;
            at_hand = ways[w];
            const long opening = allocations_of_opening(format);
            const outcome clean = clean_run(format);
            for (size_t i = 0; i < COUNT(lasts); i++)
                for (long call = opening > 8 ? opening - 8 : 1; call < opening + 40; call += ROUNDS(1, 3)) {
                    const held all = held_now();
                    alarm(HANG_S);
                    plan(0, ALLOC, call);
                    planned[0].lasts = lasts[i];
                    const outcome o = run_once(format);
                    ended += o.status == BZNA_E_MEMORY;
                    retried += o.status == BZNA_END && planned[0].met >= call;
                    plan_nothing();
                    check_outcome(&o, &clean, ALLOC);
                    check_held(&all);
                }
            alarm(0);
            CHECK(ended > 0);
            CHECK(retried > 0 || format == RECORDS || format == HELD_RECORDS);
        }
    at_hand = before;
}

TEST(a_file_that_cannot_be_read_whole_loses_no_sample_that_can_be_read)
{
    static const int kinds[] = { READ_FAILS, READ_ENDS };
    make_files();
    const outcome clean = clean_run(HELD_RECORDS);
    for (size_t i = 0; i < COUNT(kinds); i++) {
        plan(0, kinds[i], 1);
        const outcome o = run_once(HELD_RECORDS);
        CHECK(planned[0].met > SAMPLES);                    /* samples were read one by one */
        plan_nothing();
        CHECK_EQ(o.failed, 0);
        check_outcome(&o, &clean, READ_SHORT);
    }
}

/* ---- writing ---- */

/* An archive that cannot be opened is none; one that can has samples in order, and all of them if finish succeeded. */
static void check_written(const char *path, bzna_status status)
{
    bzna_context *context = NULL;
    bzna_dataset *dataset = NULL;
    bzna_dataset_info info = { .struct_size = sizeof info };
    bzna_error e = { 0 };
    CHECK_EQ(context_open(&context, &e), BZNA_OK);
    const bzna_status opened = bzna_dataset_open(context, path, NULL, &dataset, &e);
    if (status == BZNA_OK)
        CHECK_EQ(opened, BZNA_OK);
    if (opened == BZNA_OK) {
        CHECK_EQ(bzna_dataset_get_info(dataset, &info, sizeof info, &e), BZNA_OK);
        CHECK_EQ(info.sample_count, SAMPLES);
    }
    bzna_dataset_close(dataset);
    bzna_context_close(context);
}

TEST(an_archive_is_written_whole_or_not_at_all_whichever_call_fails)
{
    const char *path = TOP "/written/a.bzna";
    long runs = 0;
    make_files();
    for (int kind = 0; kind < KINDS; kind++) {
        long call = 0, met;
        do {
            const held before = held_now();
            const int failures = test_failures;
            bzna_context *context = NULL;
            bzna_error e = { 0 };
            alarm(HANG_S);
            unlink(path);
            plan(0, kind, ++call);
            bzna_status status = context_open(&context, &e);
            if (status == BZNA_OK)
                status = write_archive(context, path, &e);
            bzna_context_close(context);
            met = planned[0].met;
            plan_nothing();
            CHECK(status == BZNA_OK || (status < 0 && e.message[0]));
            if (kind == WRITE_SHORT || kind == WRITE_INTERRUPTED || kind == OPEN_INTERRUPTED)
                CHECK_EQ(status, BZNA_OK);
            check_written(path, status);
            check_held(&before);
            runs++;
            if (test_failures != failures) {
                printf("  %s, call %ld: %s: %s\n", kind_name[kind], call, bzna_status_name(status), e.message);
                break;
            }
        } while (met >= call);
    }
    CHECK(runs > 60);
}

/* ---- a disk that stalls ---- */

static void wait_for_stall(void)
{
    while (!stalled)
        usleep(300);                  /* what hangs is ended by alarm */
}

static void *next_for_ever(void *loader)
{
    bzna_batch *batch = NULL;
    bzna_error e = { 0 };
    const bzna_status status = bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &e);
    CHECK(status == BZNA_E_STOPPED && !batch);
    return NULL;
}

static void *go_on_soon(void *unused)
{
    usleep(20000);
    stalls = 0;
    return unused;
}

/* Takes batches until the disk stalls them: each call ends in its time. */
static void take_until_stall(bzna_loader *loader, outcome *o)
{
    bzna_batch *batch = NULL;
    bzna_status status;
    do {
        status = bzna_loader_next(loader, 10000000, &batch, &o->error);
        if (status == BZNA_OK)
            take_batch(batch, o);
    } while (status == BZNA_OK || (status == BZNA_AGAIN && !stalled));
    CHECK_EQ(status, BZNA_AGAIN);
    CHECK(!batch);
}

static void take_the_rest(bzna_loader *loader, outcome *o)
{
    bzna_batch *batch = NULL;
    while ((o->status = bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &o->error)) == BZNA_OK)
        take_batch(batch, o);
    CHECK_EQ(o->status, BZNA_END);
}

static void stall(int format, const outcome *clean)
{
    const held before = held_now();
    bzna_loader_config c = loader_config();
    bzna_context *context = NULL;
    bzna_dataset *dataset = NULL;
    bzna_loader *loader = NULL;
    outcome o = { .status = BZNA_OK }, again = { .status = BZNA_OK };
    pthread_t thread, helper;
    alarm(HANG_S);
    REQUIRE(context_open(&context, &o.error) == BZNA_OK);
    REQUIRE(dataset_open(context, format, &dataset, &o.error) == BZNA_OK);
    stalls = 1;
    REQUIRE(bzna_loader_open(context, dataset, &c, &loader, &o.error) == BZNA_OK);

    /* it is over before anybody stops, and nothing is lost */
    take_until_stall(loader, &o);
    stalls = 0;
    take_the_rest(loader, &o);
    CHECK_EQ(o.failed, 0);
    check_outcome(&o, clean, READ_SHORT);

    /* stop waits for nothing; reset waits for the disk */
    stalls = 1;
    CHECK_EQ(bzna_loader_reset(loader, 0, &o.error), BZNA_OK);
    take_until_stall(loader, &again);
    pthread_create(&thread, NULL, next_for_ever, loader);
    usleep(2000);
    CHECK_EQ(bzna_loader_stop(loader, &o.error), BZNA_OK);
    pthread_join(thread, NULL);
    CHECK(stalled > 0);
    pthread_create(&helper, NULL, go_on_soon, NULL);
    CHECK_EQ(bzna_loader_reset(loader, 0, &o.error), BZNA_OK);
    pthread_join(helper, NULL);
    again = (outcome){ .status = BZNA_OK };
    take_the_rest(loader, &again);
    check_outcome(&again, clean, READ_SHORT);

    /* so does close */
    stalls = 1;
    CHECK_EQ(bzna_loader_reset(loader, 0, &o.error), BZNA_OK);
    wait_for_stall();
    pthread_create(&helper, NULL, go_on_soon, NULL);
    CHECK_EQ(bzna_loader_close(loader), BZNA_OK);
    CHECK_EQ(stalled, 0);
    pthread_join(helper, NULL);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    check_held(&before);
    alarm(0);
}

TEST(while_a_disk_stalls_calls_end_in_their_time_and_nothing_is_lost)
{
    char path[256];
    make_files();
    for (int i = 0; i < SAMPLES; i++) {                     /* zeros after the picture: too large to stay in memory */
        snprintf(path, sizeof path, TOP "/folder/%c/%02d.ppm", i < SAMPLES / 2 ? 'a' : 'b', i);
        CHECK(!truncate(path, 20000));
    }
    for (int format = 0; format < HELD_RECORDS; format++) {        /* what is held is not read again */
        run_once(format);
        const outcome clean = clean_run(format);
        stall(format, &clean);
    }
}

/* ---- pairs ---- */

static long pairs(double seconds, uint64_t seed)
{
    const time_t end = time(NULL) + (time_t)seconds;
    long runs = 0;
    make_files();
    outcome clean[FORMATS];
    for (int format = 0; format < FORMATS; format++) {
        run_once(format);
        clean[format] = clean_run(format);
    }
    while (time(NULL) < end && test_failures == 0) {
        int number[5];
        for (int i = 0; i < 5; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            number[i] = (int)(seed >> 40 & 0xffff);
        }
        const int format = number[0] % FORMATS;
        const held before = held_now();
        alarm(HANG_S);
        plan(0, number[1] % WRITE_FAILS, 1 + number[2] % 120);
        plan(1, number[3] % WRITE_FAILS, 1 + number[4] % 120);
        const outcome o = run_once(format);
        plan_nothing();
        check_outcome(&o, &clean[format], -1);
        check_held(&before);
        if (test_failures)
            printf("  %s: %s, call %d, and %s, call %d: %s\n", format_path[format], kind_name[number[1] % WRITE_FAILS],
                   1 + number[2] % 120, kind_name[number[3] % WRITE_FAILS], 1 + number[4] % 120, o.error.message);
        runs++;
    }
    return runs;
}

static void on_alarm(int number) { (void)number; }

/* Without threads the library waits so until a batch's deadline, on the thread that gets the program's signals. */
TEST(a_signal_does_not_end_a_sleep)
{
    enum { SLEEP_NS = 100000000, SIGNALS_US = 5000 };
    const struct itimerval often = { { 0, SIGNALS_US }, { 0, SIGNALS_US } }, never = { { 0, 0 }, { 0, 0 } };
    struct sigaction action = { .sa_handler = on_alarm }, before;
    const uint64_t begin = bzi_os_now_ns();
    REQUIRE(!sigaction(SIGALRM, &action, &before) && !setitimer(ITIMER_REAL, &often, NULL));
    bzi_os_sleep_ns(SLEEP_NS);
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &before, NULL);
    CHECK(bzi_os_now_ns() - begin >= SLEEP_NS);
}

TEST(two_calls_may_fail)
{
    CHECK(pairs(SLOWED(3, 6), 1) > 5);
}

int main(int argc, char **argv)
{
    plan_nothing();
    if (argc > 2 && !strcmp(argv[1], "--pairs")) {
        const long runs = pairs(atof(argv[2]), argc > 3 ? strtoull(argv[3], NULL, 0) : (uint64_t)time(NULL));
        printf("%ld runs with two failures each: %s\n", runs, test_failures ? "faults" : "no fault");
        return test_failures > 0;
    }
    test_start(argv);
    RUN(an_archive_is_loaded_or_refused_whichever_call_fails)
    RUN(a_folder_is_loaded_or_refused_whichever_call_fails)
    RUN(recordio_is_loaded_or_refused_whichever_call_fails)
    RUN(a_tar_is_loaded_or_refused_whichever_call_fails)
    RUN(records_are_loaded_or_refused_whichever_call_fails)
    RUN(a_lack_of_memory_ends_the_run_or_costs_nothing_and_is_never_a_picture)
    RUN(a_file_that_cannot_be_read_whole_loses_no_sample_that_can_be_read)
    RUN(an_archive_is_written_whole_or_not_at_all_whichever_call_fails)
    RUN(while_a_disk_stalls_calls_end_in_their_time_and_nothing_is_lost)
    RUN(a_signal_does_not_end_a_sleep)
    RUN(two_calls_may_fail)
    printf("%s: %d passed, %d failed, %d skipped\n", __FILE__, test_passed, test_failed, test_skipped);
    return test_failed != 0;
}

#endif
