/* Data sets of many files: how many are open at once, what they cost, what happens to those that change meanwhile; and
 * paths with patterns. */
#include "../benzina.c"
#include "test.h"
#include "archives.h"
#include <ftw.h>

#define TOP TEST_BUILD "/tests/files"

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    (void)info;
    (void)type;
    (void)walk;
    return remove(path);
}

static void clear(void)
{
    nftw(TOP, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    mkdir(TOP, 0777);
}

BZI_MAYBE_UNUSED static const char *under(const char *path)
{
    static char full[8][4096];
    static int turn;
    turn = (turn + 1) % 8;
    snprintf(full[turn], sizeof *full, "%s/%s", TOP, path);
    return full[turn];
}

/* ---- Archives of one sample ---- */

static ledger memory_used;
static bzna_context *context;
static coded picture;

static void prepare(void)
{
    bzna_context_config config;
    if (context)
        return;
    bzna_context_config_init(&config, sizeof config);
    config.allocator = ledger_allocator(&memory_used);
    require(bzna_context_open(&config, &context, NULL), "context");
    picture = coded_load(context, BZNA_CODEC_H265, 0, "bzna_thumb");
}

/* An archive of one sample with that target. */
static void write_archive(const char *path, int64_t target)
{
    static const int first = 0;
    const recipe one = { .count = 1, .pictures = &picture, .pattern = &first, .pattern_count = 1, .base = target };
    archive a;
    FILE *f = fopen(path, "wb");
    prepare();
    a = archive_build(context, &one);
    if (!f || fwrite(a.bytes, 1, (size_t)a.size, f) != a.size || fclose(f))
        printf("  cannot write %s\n", path);
    archive_clear(&a);
}

/* Files 00000, 00001, ...: file i has the target i % distinct. */
static const char **make_files(uint32_t count, uint32_t distinct)
{
    const char **paths = take_memory(count * sizeof *paths);
    clear();
    for (uint32_t i = 0; i < count; i++) {
        char *path = take_memory(64);
        snprintf(path, 64, "%s/%05u.bzna", TOP, i);
        paths[i] = path;
        if (i < distinct)
            write_archive(path, i);
        else if (link(paths[i % distinct], path))
            printf("  cannot make %s\n", path);
    }
    return paths;
}

static void free_files(const char **paths, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        free((void *)(uintptr_t)paths[i]);
    free(paths);
    clear();
}

static uint32_t descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    uint32_t n = 0;
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

/* Resident memory that belongs to nobody else, bytes: not that of files. */
static uint64_t resident(void)
{
    unsigned long all = 0, files = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%*u %lu %lu", &all, &files) != 2)
        all = files = 0;
    if (f)
        fclose(f);
    return (all - files) * 4096ull;
}

static bzna_error why;

/* in: NULL: the context of all tests */
static bzna_dataset *open_files(bzna_context *in, const char *const *paths, uint32_t count)
{
    bzna_dataset *dataset = NULL;
    prepare();
    bzna_error_init(&why, sizeof why);
    if (bzna_dataset_open_list(in ? in : context, paths, count, NULL, &dataset, &why) != BZNA_OK)
        printf("  %s\n", why.message);
    return dataset;
}

static bzna_status read_one(const bzna_dataset *dataset, uint64_t index)
{
    static uint8_t bytes[1 << 16];
    bzna_image image = { .struct_size = sizeof image };
    bzna_error_init(&why, sizeof why);
    return bzna_dataset_read_image(dataset, index, NULL, bytes, sizeof bytes, &image, &why);
}

/* A limit on open files for the time of a test. */
static rlim_t limit_files(rlim_t now)
{
    struct rlimit limit;
    rlim_t was;
    getrlimit(RLIMIT_NOFILE, &limit);
    was = limit.rlim_cur;
    limit.rlim_cur = now;
    CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
    return was;
}

/* ---- Many files ---- */

TEST(twenty_thousand_archives_are_one_data_set_with_256_descriptors)
{
    enum { FILES = 20000, DISTINCT = 50 };
    const rlim_t was = limit_files(256);
    const char **paths = make_files(FILES, DISTINCT);
    uint32_t open_before = descriptors(), wrong = 0;
    uint64_t begin, before;
    bzna_dataset *dataset;
    bzna_context *plain = NULL;       /* the C library's memory */
    require(bzna_context_open(NULL, &plain, NULL), "context");
    begin = bzi_os_now_ns();
    before = resident();
    dataset = open_files(plain, paths, FILES);
    REQUIRE(dataset);
    begin = bzi_os_now_ns() - begin;
    before = resident() - before;
    printf("20,000 archives: %.2f s, %d bytes of memory each\n", (double)begin * 1e-9, (int)(before / FILES));
    CHECK(SANITIZED || before / FILES < 2048);
    CHECK_EQ(bzna_dataset_count(dataset), FILES);
    CHECK(descriptors() - open_before <= 64);
    for (uint32_t i = 0; i < FILES; i++) {
        int64_t target = -1;
        uint32_t k = (uint32_t)((uint64_t)i * 7919 % FILES);
        wrong += bzna_dataset_target(dataset, k, &target, NULL) != BZNA_OK || target != k % DISTINCT;
        wrong += i % 4 == 0 && read_one(dataset, k) != BZNA_OK;
    }
    CHECK_EQ(wrong, 0);
    CHECK(descriptors() - open_before <= 64);
    bzna_dataset_close(dataset);
    bzna_context_close(plain);
    CHECK_EQ(descriptors(), open_before);
    free_files(paths, FILES);
    limit_files(was);
}

/* Reads all files again and again, on its own. */
typedef struct pounder { pthread_t thread; const bzna_dataset *dataset; uint32_t count, seed, wrong; } pounder;

static void *pound(void *argument)
{
    pounder *p = argument;
    uint32_t x = p->seed;
    for (int i = 0; i < 2000; i++) {
        uint8_t bytes[1 << 16];
        bzna_image image = { .struct_size = sizeof image };
        x = x * 1664525u + 1013904223u;
        p->wrong += bzna_dataset_read_image(p->dataset, (x >> 8) % p->count, NULL, bytes, sizeof bytes, &image, NULL) !=
                    BZNA_OK;
    }
    return NULL;
}

TEST(more_threads_than_descriptors_read_and_none_fails)
{
    enum { FILES = 60, THREADS = 12 };
    const rlim_t was = limit_files(24);
    const char **paths = make_files(FILES, FILES);
    pounder pounders[THREADS];
    bzna_context *narrow = NULL;
    uint32_t before = descriptors();
    bzna_dataset *dataset;
    require(bzna_context_open(NULL, &narrow, NULL), "context");
    CHECK_EQ(narrow->host->files.limit, 6);
    dataset = open_files(narrow, paths, FILES);
    REQUIRE(dataset);
    CHECK_EQ(descriptors(), before + 6);
    for (uint32_t i = 0; i < THREADS; i++) {
        pounders[i] = (pounder){ .dataset = dataset, .count = FILES, .seed = i };
        pthread_create(&pounders[i].thread, NULL, pound, &pounders[i]);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_join(pounders[i].thread, NULL);
        CHECK_EQ(pounders[i].wrong, 0);
    }
    CHECK_EQ(descriptors(), before + 6);
    CHECK(narrow->host->files.open == 6 && !narrow->host->files.waiting);
    bzna_dataset_close(dataset);
    CHECK_EQ(narrow->host->files.open, 0);
    CHECK_EQ(narrow->host->files.maps, 0);
    bzna_context_close(narrow);
    free_files(paths, FILES);
    limit_files(was);
}

/* Reads enough others that file 0 is closed. */
static void close_first(const bzna_dataset *dataset)
{
    for (uint32_t i = 1; i < 80; i++)
        CHECK_EQ(read_one(dataset, i), BZNA_OK);
}

TEST(a_file_that_changed_while_it_was_closed_is_refused)
{
    enum { FILES = 80 };
    const char **paths = make_files(FILES, 2);
    bzna_dataset *dataset;
    struct timespec earlier[2] = { { 1000, 0 }, { 1000, 0 } };
    dataset = open_files(NULL, paths, FILES);
    REQUIRE(dataset);
    CHECK_EQ(read_one(dataset, 0), BZNA_OK);
    close_first(dataset);
    CHECK(!unlink(paths[0]));
    write_archive(paths[0], 5);                             /* the same size, another file */
    CHECK_EQ(read_one(dataset, 0), BZNA_E_IO);
    CHECK_CONTAINS(why.message, "has changed since it was opened");
    CHECK_CONTAINS(why.message, "00000.bzna");
    CHECK(!unlink(paths[0]));
    CHECK_EQ(read_one(dataset, 0), BZNA_E_NOT_FOUND);
    CHECK(!link(paths[2], paths[0]));
    CHECK_EQ(read_one(dataset, 0), BZNA_OK);                /* that is the file again */
    close_first(dataset);
    CHECK(!utimensat(AT_FDCWD, paths[0], earlier, 0));
    CHECK_EQ(read_one(dataset, 0), BZNA_E_IO);
    CHECK_EQ(read_one(dataset, 1), BZNA_OK);
    bzna_dataset_close(dataset);
    free_files(paths, FILES);
}

TEST(files_are_found_again_when_the_working_folder_changes)
{
    enum { FILES = 80 };
    const char **paths = make_files(FILES, 2);
    char here[4096];
    bzna_dataset *dataset = open_files(NULL, paths, FILES);
    REQUIRE(dataset && getcwd(here, sizeof here));
    CHECK(!chdir("/"));
    for (uint32_t i = 0; i < FILES; i++)
        CHECK_EQ(read_one(dataset, i), BZNA_OK);
    CHECK(!chdir(here));
    bzna_dataset_close(dataset);
    free_files(paths, FILES);
}

TEST(a_program_that_has_used_up_its_descriptors_can_still_read)
{
    enum { FILES = 40 };
    const char **paths = make_files(FILES, 2);
    const rlim_t was = limit_files(160);
    int taken[160], count = 0;
    bzna_context *narrow = NULL;
    bzna_dataset *dataset, *more;
    require(bzna_context_open(NULL, &narrow, NULL), "context");
    dataset = open_files(narrow, paths, 20);
    REQUIRE(dataset);
    while (count < 160 && (taken[count] = dup(0)) >= 0)
        count++;
    more = open_files(narrow, paths + 20, 10);              /* in the place of idle ones */
    CHECK(more);
    for (uint32_t i = 0; i < 30; i++)
        CHECK_EQ(read_one(i < 20 ? dataset : more, i % 20), BZNA_OK);
    CHECK_EQ(narrow->host->files.open, 20);
    while (count)
        close(taken[--count]);
    bzna_dataset_close(more);
    bzna_dataset_close(dataset);
    bzna_context_close(narrow);
    limit_files(was);
    free_files(paths, FILES);
}

TEST(the_error_is_that_of_the_first_path_that_fails)
{
    enum { FILES = 300 };
    const char **paths = make_files(FILES, 2);
    bzna_dataset *dataset = NULL;
    int64_t before;
    CHECK(!unlink(paths[120]) && !unlink(paths[121]) && !unlink(paths[299]));
    before = memory_used.bytes;
    for (int i = 0; i < 30; i++) {
        bzna_error_init(&why, sizeof why);
        CHECK_EQ(bzna_dataset_open_list(context, paths, FILES, NULL, &dataset, &why), BZNA_E_NOT_FOUND);
        CHECK(!dataset);
        CHECK_CONTAINS(why.message, "00120.bzna: cannot open");
    }
    CHECK_EQ(memory_used.bytes, before);
    CHECK_EQ(context->host->files.open, 0);
    free_files(paths, FILES);
}

int main(int argc, char **argv)
{
    test_wanted = argc > 1 ? argv + 1 : NULL;
    RUN(twenty_thousand_archives_are_one_data_set_with_256_descriptors)
    RUN(more_threads_than_descriptors_read_and_none_fails)
    RUN(a_file_that_changed_while_it_was_closed_is_refused)
    RUN(files_are_found_again_when_the_working_folder_changes)
    RUN(a_program_that_has_used_up_its_descriptors_can_still_read)
    RUN(the_error_is_that_of_the_first_path_that_fails)
    bzna_context_close(context);
    coded_clear(&picture);
    if (memory_used.bytes || memory_used.blocks || memory_used.mistakes) {
        printf("FAIL memory_is_given_back: %d bytes are left, %d releases were wrong\n", (int)memory_used.bytes,
               (int)memory_used.mistakes);
        test_failed++;
    }
    printf("%s: %d passed, %d failed, %d skipped\n", __FILE__, test_passed, test_failed, test_skipped);
    return test_failed != 0;
}
