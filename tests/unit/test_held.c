/* Small files of folders that are held in memory once they were read (dataset_config.hold_bytes): they are not opened
 * again, their pixels are the same, and what is held stays below its limit. */
#if defined(BENZINA_NO_AVCODEC) || defined(BENZINA_NO_STILLS) || defined(BENZINA_NO_FOLDERS)

#include "library.h"
#include "test.h"

TEST(small_files_are_held) { SKIP("built without libavcodec [libavcodec-dev], stills or folders"); }

TEST_MAIN(RUN(small_files_are_held))

#else

#ifndef _GNU_SOURCE
#  define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/types.h>

/* The calls of the system by which the library opens and reads files. */
static _Atomic long opens, reads;

int test_open(const char *path, int flags, ...);
int test_open(const char *path, int flags, ...)
{
    opens++;
    return open(path, flags, 0666);
}

ssize_t test_pread(int fd, void *dst, size_t size, off_t at);
ssize_t test_pread(int fd, void *dst, size_t size, off_t at)
{
    reads++;
    return pread(fd, dst, size, at);
}

#define open  test_open
#define pread test_pread
#include "library.h"
#undef open
#undef pread

#include "test.h"
#include "archives.h"

#define TOP TEST_BUILD "/tests/held"

enum { SAMPLES = 90, WIDTH = 24, HEIGHT = 16, HEADER = 13, BYTES = HEADER + WIDTH * HEIGHT * 3, BATCH = 8, OUT = 8,
       LOOKERS = 4 };
/* What places for the samples take, and each that is held. */
#define PLACES(count)  (sizeof(bzi_held) + (count) * sizeof(void *))
#define TAKEN(size)    (sizeof(uint64_t) + (size))
#define ALL_HELD       (PLACES(SAMPLES) + SAMPLES * TAKEN(BYTES))

/* ---- folders ---- */

static ledger memory_used;
static bzna_context *context;
static bzna_error why;

static void spill(const char *path, const void *bytes, size_t size)
{
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(bytes, 1, size, f) == size && !fclose(f));
}

/* Writes a picture into a file that has `size` bytes. */
static void spill_picture(const char *path, int number, size_t size)
{
    static uint8_t bytes[BZI_HOLD_SAMPLE_BYTES + 1];
    const int n = snprintf((char *)bytes, sizeof bytes, "P6 %d %d 255\n", WIDTH, HEIGHT);
    CHECK_EQ(n, HEADER);
    for (int i = n; i < BYTES; i++)
        bytes[i] = (uint8_t)(number * 29 + i * i % 253);
    spill(path, bytes, size);
}

static const char *path_of(const char *folder, int i)
{
    static char path[256];
    snprintf(path, sizeof path, TOP "/%s/%c/%03d.ppm", folder, "ab"[i % 2], i);
    return path;
}

/* Makes a folder of two classes, with so many pictures. */
static void make_folder(const char *folder, int count)
{
    char command[512];
    snprintf(command, sizeof command, "mkdir -p " TOP "/%s/a " TOP "/%s/b", folder, folder);
    CHECK_EQ(system(command), 0);
    for (int i = 0; i < count; i++)
        spill_picture(path_of(folder, i), i, BYTES);
}

/* Makes a folder of SAMPLES pictures, and a context over a ledger. */
static void begin(void)
{
    bzna_context_config all;
    CHECK_EQ(system("rm -rf " TOP), 0);
    make_folder("d", SAMPLES);
    bzna_error_init(&why, sizeof why);
    bzna_context_config_init(&all, sizeof all);
    all.allocator = ledger_allocator(&memory_used);
    CHECK_EQ(bzna_context_open(&all, &context, &why), BZNA_OK);
}

static void end(void)
{
    bzna_context_close(context);
    check_settled(&memory_used);
}

static bzna_dataset *open_all(const char *const *paths, uint32_t count, uint64_t hold_bytes)
{
    const bzna_dataset_config config = { .struct_size = sizeof config, .hold_bytes = hold_bytes };
    bzna_dataset *dataset = NULL;
    CHECK_EQ(bzna_dataset_open_list(context, paths, count, &config, &dataset, &why), BZNA_OK);
    return dataset;
}

static bzna_dataset *open_folder(uint64_t hold_bytes)
{
    const char *path = TOP "/d";
    return open_all(&path, 1, hold_bytes);
}

static uint64_t held_bytes(const bzna_dataset *dataset)
{
    bzna_dataset_info info = { .struct_size = sizeof info };
    CHECK_EQ(bzna_dataset_get_info(dataset, &info, sizeof info, NULL), BZNA_OK);
    return info.held_bytes;
}

/* ---- epochs ---- */

typedef struct epoch {
    uint64_t hash;                    /* of its pixels, targets and statuses, in its order */
    uint64_t failed;                  /* slots */
    long     opens, reads;            /* calls of the system */
    char     errors[400];             /* messages of slots that failed */
} epoch;

static bzna_loader_config config_of(uint32_t threads, uint32_t readers)
{
    return (bzna_loader_config){
        .struct_size = sizeof(bzna_loader_config), .output.batch_size = BATCH, .output.width = OUT,
        .output.height = OUT, .output.device.kind = BZNA_DEVICE_CPU, .order.kind = BZNA_ORDER_SHUFFLE, .order.seed = 3,
        .decode.threads = threads, .read.threads = readers, .read.retries = 0
    };
}

static uint64_t hash_bytes(uint64_t hash, const void *p, uint64_t size)
{
    for (uint64_t i = 0; i < size; i++)
        hash = (hash ^ ((const uint8_t *)p)[i]) * 1099511628211u;
    return hash;
}

static void take(bzna_batch *batch, epoch *e)
{
    const bzna_batch_info info = info_of(batch);
    for (size_t i = 0; i < COUNT(tensor_names); i++) {
        bzna_tensor t = { .struct_size = sizeof t };
        CHECK_EQ(bzna_batch_tensor(batch, tensor_names[i], &t, sizeof t, NULL), BZNA_OK);
        e->hash = hash_bytes(e->hash, t.data, t.bytes);
    }
    for (uint32_t i = 0; i < info.count; i++) {
        bzna_error error = { 0 };
        if (bzna_batch_error(batch, i, &error) == BZNA_OK)
            continue;
        e->failed++;
        snprintf(e->errors + strlen(e->errors), sizeof e->errors - strlen(e->errors), "%.180s\n", error.message);
    }
    bzna_batch_release(batch);
}

/* The same samples in the same order each time, by a loader of its own. */
static epoch run_with(const bzna_dataset *dataset, const bzna_loader_config *c)
{
    epoch e = { .hash = 1469598103934665603u, .opens = -opens, .reads = -reads };
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    CHECK_EQ(bzna_loader_open(context, (bzna_dataset *)(uintptr_t)dataset, c, &loader, &why), BZNA_OK);
    while (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &why) == BZNA_OK)
        take(batch, &e);
    bzna_loader_close(loader);
    e.opens += opens;
    e.reads += reads;
    return e;
}

static epoch run(const bzna_dataset *dataset)
{
    const bzna_loader_config c = config_of(2, 1);
    return run_with(dataset, &c);
}

/* ---- tests ---- */

TEST(in_the_second_epoch_no_file_is_opened_or_read)
{
    begin();
    bzna_dataset *dataset = open_folder(0);
    CHECK_EQ(held_bytes(dataset), PLACES(SAMPLES));
    const epoch first = run(dataset), second = run(dataset);
    CHECK_EQ(first.opens, SAMPLES);
    CHECK_EQ(first.reads, SAMPLES);
    CHECK_EQ(second.opens, 0);
    CHECK_EQ(second.reads, 0);
    CHECK_EQ(first.failed, 0);
    CHECK(second.hash == first.hash);
    CHECK_EQ(held_bytes(dataset), ALL_HELD);
    bzna_dataset_close(dataset);
    end();
}

TEST(held_or_not_and_by_however_many_threads_samples_are_the_same)
{
    static const uint32_t ways[][2] = { { 1, 1 }, { 4, 1 }, { 2, 3 } };
    begin();
    bzna_dataset *once = open_folder(1), *held = open_folder(0);
    const epoch plain = run(once);
    CHECK_EQ(plain.failed, 0);
    CHECK_EQ(held_bytes(once), 0);
    for (size_t i = 0; i < COUNT(ways); i++) {
        bzna_loader_config c = config_of(ways[i][0], ways[i][1]);
        CHECK(run_with(held, &c).hash == plain.hash);
        CHECK(run_with(once, &c).hash == plain.hash);
    }
    bzna_loader_config c = config_of(1, 0);
    c.pipeline.no_threads = 1;
    CHECK(run_with(held, &c).hash == plain.hash);
    bzna_dataset_close(held);
    held = open_folder(0);
    CHECK(run_with(held, &c).hash == plain.hash);
    CHECK_EQ(held_bytes(held), ALL_HELD);
    bzna_dataset_close(held);
    bzna_dataset_close(once);
    end();
}

TEST(no_more_is_held_than_hold_bytes_says)
{
    static const struct { uint64_t hold; int held; } cases[] = {
        { 1, 0 }, { PLACES(SAMPLES) - SAMPLES, 0 }, { PLACES(SAMPLES) + SAMPLES, 0 },
        { PLACES(SAMPLES) + 31 * TAKEN(BYTES) + SAMPLES, 31 }, { ALL_HELD - 2 * SAMPLES, SAMPLES - 1 },
        { ALL_HELD + SAMPLES, SAMPLES }, { UINT64_MAX, SAMPLES } };
    begin();
    for (size_t i = 0; i < COUNT(cases); i++) {
        bzna_dataset *dataset = open_folder(cases[i].hold);
        CHECK_EQ(held_bytes(dataset), cases[i].hold < PLACES(SAMPLES) ? 0 : PLACES(SAMPLES));
        for (int round = 0; round < 3; round++) {
            const epoch e = run(dataset);
            CHECK_EQ(e.failed, 0);
            CHECK_EQ(e.opens, round ? SAMPLES - cases[i].held : SAMPLES);
            CHECK(held_bytes(dataset) <= cases[i].hold);
        }
        if (cases[i].held)
            CHECK_EQ(held_bytes(dataset), PLACES(SAMPLES) + (uint64_t)cases[i].held * TAKEN(BYTES));
        bzna_dataset_close(dataset);
    }
    end();
}

TEST(files_of_more_than_16_kib_are_not_held)
{
    begin();
    spill_picture(path_of("d", 0), 0, BZI_HOLD_SAMPLE_BYTES);
    spill_picture(path_of("d", 1), 1, BZI_HOLD_SAMPLE_BYTES + 1);
    CHECK_EQ(BZI_HOLD_SAMPLE_BYTES, 16384);
    bzna_dataset *dataset = open_folder(0);
    run(dataset);
    CHECK_EQ(held_bytes(dataset), ALL_HELD - TAKEN(BYTES) * 2 + TAKEN(BZI_HOLD_SAMPLE_BYTES));
    CHECK_EQ(run(dataset).opens, 1);
    bzna_dataset_close(dataset);
    end();
}

TEST(what_becomes_of_a_file_that_is_held_is_seen_when_the_data_set_is_opened_anew)
{
    begin();
    bzna_dataset *dataset = open_folder(0);
    const epoch first = run(dataset);
    spill_picture(path_of("d", 0), 77, BYTES);
    CHECK(!truncate(path_of("d", 1), 20));
    CHECK(!unlink(path_of("d", 2)));
    const epoch second = run(dataset);
    CHECK(second.failed == 0 && second.hash == first.hash);
    bzna_dataset_close(dataset);
    dataset = open_folder(0);
    CHECK_EQ(bzna_dataset_count(dataset), SAMPLES - 1);
    const epoch anew = run(dataset);
    CHECK(anew.failed == 1 && anew.hash != first.hash);
    bzna_dataset_close(dataset);
    end();
}

TEST(a_sample_that_fails_does_so_each_time_with_the_same_error)
{
    begin();
    bzna_dataset *dataset = open_folder(0), *once = open_folder(1);
    spill(path_of("d", 5), "", 0);
    spill(path_of("d", 6), "no picture", 10);
    CHECK(!truncate(path_of("d", 7), 200));
    CHECK(!unlink(path_of("d", 8)));
    const epoch plain = run(once), first = run(dataset), second = run(dataset);
    CHECK_EQ(plain.failed, 4);
    CHECK(first.hash == plain.hash && second.hash == plain.hash);
    CHECK_STR(first.errors, plain.errors);
    CHECK_STR(second.errors, plain.errors);
    CHECK_CONTAINS(second.errors, "008.ppm: cannot open");
    CHECK_EQ(second.opens, 1);                              /* what could not be read is tried again */
    spill_picture(path_of("d", 8), 8, BYTES);
    CHECK_EQ(run(dataset).failed, 3);
    CHECK_EQ(run(dataset).opens, 0);
    bzna_dataset_close(dataset);
    bzna_dataset_close(once);
    end();
}

TEST(folders_share_the_limit_by_their_samples)
{
    const char *const paths[] = { TOP "/d", TOP "/few" };
    enum { FEW = 10, BOTH = SAMPLES + FEW };
    begin();
    make_folder("few", FEW);
    bzna_dataset *dataset = open_all(paths, 2, BOTH * (TAKEN(BYTES) + 8) + 4 * sizeof(bzi_held));
    run(dataset);
    CHECK_EQ(run(dataset).opens, 1);                        /* the few lack room for their head */
    CHECK_EQ(held_bytes(dataset), PLACES(SAMPLES) + PLACES(FEW) + (BOTH - 1) * TAKEN(BYTES));
    bzna_dataset_close(dataset);
    end();
}

TEST(parts_of_a_data_set_hold_what_it_holds)
{
    bzna_dataset *some = NULL, *both = NULL;
    begin();
    bzna_dataset *dataset = open_folder(0), *parts[2] = { dataset };
    CHECK_EQ(bzna_dataset_range(dataset, 10, 20, &some, &why), BZNA_OK);
    parts[1] = some;
    CHECK_EQ(run(some).opens, 20);
    CHECK_EQ(run(dataset).opens, SAMPLES - 20);
    CHECK_EQ(bzna_dataset_concat(context, parts, 2, &both, &why), BZNA_OK);
    bzna_dataset_close(dataset);
    bzna_dataset_close(some);
    CHECK_EQ(run(both).opens, 0);
    bzna_dataset_close(both);
    end();
}

TEST(pairs_are_held_together)
{
    const bzna_dataset_config configs[2] = { { .struct_size = sizeof *configs, .pairs = "images,masks" },
                                             { .struct_size = sizeof *configs, .pairs = "images,masks",
                                               .hold_bytes = 1 } };
    const bzna_loader_output mask = { .name = "mask", .field = "masks", .width = OUT, .height = OUT };
    bzna_loader_config c = config_of(2, 1);
    uint64_t hashes[4];
    begin();
    CHECK_EQ(system("mkdir -p " TOP "/p/images " TOP "/p/masks"), 0);
    for (int i = 0; i < 12; i++) {
        char path[256];
        snprintf(path, sizeof path, TOP "/p/images/%d.ppm", i);
        spill_picture(path, i, BYTES);
        snprintf(path, sizeof path, TOP "/p/masks/%d.ppm", i);
        spill_picture(path, 50 + i, BYTES + (size_t)i);
    }
    c.extra_outputs.ptr = &mask;
    c.extra_outputs.count = 1;
    for (int i = 0; i < 4; i++) {
        static bzna_dataset *dataset;
        if (i % 2 == 0)
            CHECK_EQ(bzna_dataset_open(context, TOP "/p", &configs[i / 2], &dataset, &why), BZNA_OK);
        const epoch e = run_with(dataset, &c);
        CHECK_EQ(e.failed, 0);
        CHECK_EQ(e.opens, i == 0 ? 24 : i == 1 ? 0 : 26);   /* opening a loader looks at the first sample, too */
        hashes[i] = e.hash;
        if (i == 1)
            CHECK_EQ(held_bytes(dataset), PLACES(12) + 12 * TAKEN(2 * BYTES + 16) + 66);
        if (i % 2)
            bzna_dataset_close(dataset);
    }
    CHECK(hashes[1] == hashes[0] && hashes[2] == hashes[0] && hashes[3] == hashes[0]);
    end();
}

/* All the same samples at once, on threads of the caller's. */
static void *look(void *dataset)
{
    for (uint64_t i = 0; i < SAMPLES; i++) {
        uint8_t bytes[BYTES] = { 0 };
        size_t size = 0;
        CHECK_EQ(bzna_dataset_field(dataset, i, "image", bytes, sizeof bytes, &size, NULL), BZNA_OK);
        CHECK(size == BYTES && !memcmp(bytes, "P6 24 16 255\n", HEADER));
    }
    return NULL;
}

TEST(threads_that_read_the_same_files_at_once_hold_each_once)
{
    pthread_t threads[LOOKERS];
    begin();
    bzna_dataset *dataset = open_folder(0);
    for (int i = 0; i < LOOKERS; i++)
        CHECK(!pthread_create(&threads[i], NULL, look, dataset));
    const epoch e = run(dataset);
    CHECK_EQ(e.failed, 0);
    for (int i = 0; i < LOOKERS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ(held_bytes(dataset), ALL_HELD);
    CHECK(run(dataset).hash == e.hash);
    const long before = opens;
    look(dataset);
    CHECK_EQ(opens, before);
    bzna_dataset_close(dataset);
    end();
}

/* An allocator that has none for what would be held. */
static void *scarce_alloc(void *user, size_t size, size_t align)
{
    return size == TAKEN(BYTES) ? NULL : ledger_alloc(user, size, align);
}

TEST(without_memory_for_a_sample_it_is_read_each_time)
{
    begin();
    bzna_context_config scarce = { .struct_size = sizeof scarce };
    scarce.allocator = (bzna_allocator){ &memory_used, scarce_alloc, ledger_release };
    bzna_context_close(context);
    CHECK_EQ(bzna_context_open(&scarce, &context, &why), BZNA_OK);
    bzna_dataset *dataset = open_folder(0);
    const epoch first = run(dataset), second = run(dataset);
    CHECK_EQ(first.failed + second.failed, 0);
    CHECK_EQ(second.opens, SAMPLES);
    CHECK_EQ(held_bytes(dataset), PLACES(SAMPLES));
    bzna_dataset_close(dataset);
    end();
}

TEST_MAIN(RUN(in_the_second_epoch_no_file_is_opened_or_read)
          RUN(held_or_not_and_by_however_many_threads_samples_are_the_same) RUN(no_more_is_held_than_hold_bytes_says)
          RUN(files_of_more_than_16_kib_are_not_held)
          RUN(what_becomes_of_a_file_that_is_held_is_seen_when_the_data_set_is_opened_anew)
          RUN(a_sample_that_fails_does_so_each_time_with_the_same_error) RUN(folders_share_the_limit_by_their_samples)
          RUN(parts_of_a_data_set_hold_what_it_holds) RUN(pairs_are_held_together)
          RUN(threads_that_read_the_same_files_at_once_hold_each_once)
          RUN(without_memory_for_a_sample_it_is_read_each_time))

#endif
