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

int main(int argc, char **argv)
{
    test_wanted = argc > 1 ? argv + 1 : NULL;
    RUN(twenty_thousand_archives_are_one_data_set_with_256_descriptors)
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
