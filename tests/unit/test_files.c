/* Data sets of many files: how many are open at once, what they cost, what happens to those that change meanwhile. */
#include "library.h"
#include "../../examples/formats/formats.h"
#include "test.h"
#include "archives.h"
#include "../../examples/formats/formats.h"
#ifndef BENZINA_NO_SHARDS
#  include "open_formats.h"
#  include "recordio.h"
#  include "tars.h"
#endif
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
        const size_t size = sizeof TOP + 16;
        char *path = take_memory(size);
        snprintf(path, size, "%s/%05u.bzna", TOP, i);
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
    DIR *d = ON_WINDOWS ? NULL : opendir("/proc/self/fd");
    struct stat info;
    uint32_t n = 0;
    for (int fd = 0; ON_WINDOWS && fd < 2048; fd++)
        n += fstat(fd, &info) == 0;
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

/* A limit on open files for the time of a test. Windows has none that can be set: what needs one is skipped there. */
#define NO_LIMIT "no limit on open files can be set here"
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
    enum { FILES = ON_WINDOWS ? 2000 : 20000, DISTINCT = 50 };      /* Wine is slow with them */
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
    printf("%d archives: %.2f s, %d bytes of memory each\n", FILES, (double)begin * 1e-9, (int)(before / FILES));
    CHECK(SANITIZED || before / FILES < 2304);
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
    if (ON_WINDOWS)
        narrow->host->file_limit = 6;
    CHECK_EQ(narrow->host->file_limit, 6);
    dataset = open_files(narrow, paths, FILES);
    REQUIRE(dataset);
    CHECK(descriptors() > before && descriptors() <= before + 6);
    for (uint32_t i = 0; i < THREADS; i++) {
        pounders[i] = (pounder){ .dataset = dataset, .count = FILES, .seed = i };
        pthread_create(&pounders[i].thread, NULL, pound, &pounders[i]);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_join(pounders[i].thread, NULL);
        CHECK_EQ(pounders[i].wrong, 0);
    }
    CHECK_EQ(descriptors(), before + narrow->host->files);
    CHECK(narrow->host->files <= 6);
    bzna_dataset_close(dataset);
    CHECK_EQ(narrow->host->files, 0);
    bzna_context_close(narrow);
    free_files(paths, FILES);
    limit_files(was);
}

/* That no two threads touch what they share at once, ThreadSanitizer sees. */
TEST(a_data_set_closes_while_another_is_read)
{
    enum { FILES = 60 };
    const rlim_t was = limit_files(24);
    const char **paths = make_files(FILES, 2);
    bzna_context *narrow = NULL;
    pounder reader = { .count = FILES, .seed = 1 };
    bzna_dataset *all, *one;
    require(bzna_context_open(NULL, &narrow, NULL), "context");
    narrow->host->file_limit = 6;
    reader.dataset = all = open_files(narrow, paths, FILES);
    REQUIRE(all);
    pthread_create(&reader.thread, NULL, pound, &reader);
    for (int i = 0; i < 200; i++) {
        one = open_files(narrow, paths, 1);
        CHECK(one && read_one(one, 0) == BZNA_OK);
        bzna_dataset_close(one);
    }
    pthread_join(reader.thread, NULL);
    CHECK_EQ(reader.wrong, 0);
    bzna_dataset_close(all);
    CHECK_EQ(narrow->host->files, 0);
    bzna_context_close(narrow);
    free_files(paths, FILES);
    limit_files(was);
}

/* Of the files that are opened for each read. */
TEST(a_file_that_changed_since_it_was_opened_is_refused)
{
    enum { FILES = 2 };
    const char **paths = make_files(FILES, FILES);
    bzna_context *narrow = NULL;
    bzna_dataset *dataset;
    struct timespec earlier[2] = { { 1000, 0 }, { 1000, 0 } };
    require(bzna_context_open(NULL, &narrow, NULL), "context");
    narrow->host->file_limit = 0;
    dataset = open_files(narrow, paths, FILES);
    REQUIRE(dataset);
    CHECK_EQ(narrow->host->files, 0);
    CHECK_EQ(read_one(dataset, 0), BZNA_OK);
    CHECK(!rename(paths[0], TOP "/kept"));
    write_archive(paths[0], 5);                             /* the same size, another file */
    CHECK_EQ(read_one(dataset, 0), BZNA_E_IO);
    CHECK_CONTAINS(why.message, "has changed since it was opened");
    CHECK_CONTAINS(why.message, "00000.bzna");
    CHECK(!unlink(paths[0]));
    CHECK_EQ(read_one(dataset, 0), BZNA_E_IO);              /* E_NOT_FOUND: it has no such field */
    CHECK(!rename(TOP "/kept", paths[0]));
    CHECK_EQ(read_one(dataset, 0), BZNA_OK);                /* that is the file again */
    CHECK(!utimensat(AT_FDCWD, paths[0], earlier, 0));
    CHECK_EQ(read_one(dataset, 0), BZNA_E_IO);
    CHECK_EQ(read_one(dataset, 1), BZNA_OK);
    bzna_dataset_close(dataset);
    bzna_context_close(narrow);
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

TEST(a_program_that_has_used_up_its_descriptors_can_read_files_that_are_open)
{
    if (ON_WINDOWS)
        SKIP(NO_LIMIT);
    enum { FILES = 20 };
    const char **paths = make_files(FILES, 2);
    const rlim_t was = limit_files(160);
    int taken[160], count = 0;
    bzna_context *narrow = NULL;
    bzna_dataset *dataset;
    require(bzna_context_open(NULL, &narrow, NULL), "context");
    dataset = open_files(narrow, paths, FILES);
    REQUIRE(dataset);
    while (count < 160 && (taken[count] = dup(0)) >= 0)
        count++;
    for (uint32_t i = 0; i < FILES; i++)
        CHECK_EQ(read_one(dataset, i), BZNA_OK);
    CHECK_EQ(narrow->host->files, FILES);
    while (count)
        close(taken[--count]);
    bzna_dataset_close(dataset);
    bzna_context_close(narrow);
    limit_files(was);
    free_files(paths, FILES);
}

/* A thread that reads one sample. */
typedef struct one_read { const bzna_dataset *dataset; uint64_t index; bzna_status status; atomic_int ended; } one_read;

static void *read_in_thread(void *argument)
{
    one_read *r = argument;
    uint8_t bytes[1 << 16];
    bzna_image image = { .struct_size = sizeof image };
    r->status = bzna_dataset_read_image(r->dataset, r->index, NULL, bytes, sizeof bytes, &image, NULL);
    r->ended = 1;
    return NULL;
}

/* A data set of files that are opened for each read, when the process has no descriptor left; taken[0] to
 * taken[count - 1] are in its way. */
typedef struct exhausted {
    bzna_context *context;
    bzna_dataset *dataset, *folder;
    rlim_t        limit;
    int           taken[64], count;
} exhausted;

static void exhaust(exhausted *x, const char *const *paths)
{
    memset(x, 0, sizeof *x);
    x->limit = limit_files(64);
    require(bzna_context_open(NULL, &x->context, NULL), "context");
    x->context->host->file_limit = 0;
    x->dataset = open_files(x->context, paths, 2);
    CHECK(!mkdir(TOP "/pictures", 0777) && !link(paths[0], TOP "/pictures/1.jpg"));
    CHECK_EQ(bzna_dataset_open(x->context, TOP "/pictures", NULL, &x->folder, NULL), BZNA_OK);
    while (x->count < 64 && (x->taken[x->count] = dup(0)) >= 0)
        x->count++;
}

static void recover(exhausted *x)
{
    while (x->count)
        close(x->taken[--x->count]);
    bzna_dataset_close(x->dataset);
    bzna_dataset_close(x->folder);
    bzna_context_close(x->context);
    limit_files(x->limit);
}

TEST(a_read_without_a_descriptor_waits_until_one_is_free)
{
    if (ON_WINDOWS)
        SKIP(NO_LIMIT);
    const char **paths = make_files(2, 2);
    exhausted x;
    one_read last = { .index = 1 };
    pthread_t thread;
    exhaust(&x, paths);
    REQUIRE(x.dataset);
    last.dataset = x.dataset;
    pthread_create(&thread, NULL, read_in_thread, &last);
    sleep_us(50000);
    CHECK(!last.ended);
    close(x.taken[--x.count]);
    pthread_join(thread, NULL);
    CHECK_EQ(last.status, BZNA_OK);
    recover(&x);
    free_files(paths, 2);
}

TEST(a_file_of_a_folder_waits_for_a_descriptor_too)
{
    if (ON_WINDOWS)
        SKIP(NO_LIMIT);
    const char **paths = make_files(2, 2);
    exhausted x;
    one_read last = { .index = 0 };
    pthread_t thread;
    exhaust(&x, paths);
    REQUIRE(x.folder);
    last.dataset = x.folder;
    pthread_create(&thread, NULL, read_in_thread, &last);
    sleep_us(50000);
    CHECK(!last.ended);
    close(x.taken[--x.count]);                              /* the program's own */
    pthread_join(thread, NULL);
    CHECK(last.status != BZNA_E_IO);                        /* it was read, and is no picture */
    recover(&x);
    free_files(paths, 2);
}

TEST(a_read_that_never_gets_a_descriptor_fails)
{
    if (ON_WINDOWS)
        SKIP(NO_LIMIT);
    const char **paths = make_files(2, 2);
    exhausted x;
    uint64_t begin;
    exhaust(&x, paths);
    REQUIRE(x.dataset);
    begin = bzi_os_now_ns();
    CHECK_EQ(read_one(x.dataset, 1), BZNA_E_IO);
    CHECK_CONTAINS(why.message, strerror(EMFILE));
    CHECK(bzi_os_now_ns() - begin < HANG_NS);
    close(x.taken[--x.count]);
    CHECK_EQ(read_one(x.dataset, 1), BZNA_OK);
    recover(&x);
    free_files(paths, 2);
}

#ifndef BENZINA_NO_SHARDS
/* A loader's statuses of the samples of a file that was shortened after it was opened. */
static void check_shortened(const char *path, const char *field, uint64_t end)
{
    bzna_loader_config config;
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_dataset *dataset = open_files(NULL, &path, 1);
    REQUIRE(dataset);
    CHECK_EQ(bzna_dataset_count(dataset), 4);
    CHECK(!truncate(path, (off_t)end));
    bzna_loader_config_init(&config, sizeof config);
    config.output.batch_size = 4;
    config.fields.bytes = field;
    CHECK_EQ(bzna_loader_open(context, dataset, &config, &loader, &why), BZNA_OK);
    REQUIRE(loader);
    CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &why), BZNA_OK);
    for (uint32_t slot = 0; slot < 4; slot++) {
        char wanted[96];
        CHECK_EQ(bzna_batch_error(batch, slot, &why), slot < 2 ? BZNA_OK : BZNA_E_TRUNCATED);
        if (slot < 2)
            continue;
        snprintf(wanted, sizeof wanted, "at byte %llu: the data end ", (unsigned long long)end);
        CHECK_CONTAINS(why.message, wanted);
        CHECK_CONTAINS(why.message, "the file was shortened after it was opened");
        CHECK_EQ(why.byte_offset, end);
    }
    bzna_batch_release(batch);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

TEST(a_file_that_is_shortened_costs_the_samples_past_its_new_end)
{
    static const char bytes[1000] = "12";
    const float label = 1;
    rec_file *rec = rec_new();
    tar t = { 0 };
    FILE *f;
    clear();
    prepare();
    for (int i = 0; i < 4; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d.bin", i);
        tar_member(&t, '0', name, bytes, sizeof bytes);
        rec_add_picture(rec, (uint64_t)i, &label, 1, bytes, sizeof bytes);
    }
    tar_end(&t);
    f = fopen(TOP "/a.tar", "wb");
    CHECK(f && fwrite(t.bytes, 1, t.size, f) == t.size && !fclose(f));
    rec_save(rec, TOP "/a.rec", 1);
    check_shortened(TOP "/a.tar", "bin", 3 * 1024 + 600);
    check_shortened(TOP "/a.rec", "record", rec->offsets[2] + 100);
    tar_free(&t);
    free(rec);
    clear();
}
#endif

/* Two that fail, one after the other. */
typedef struct failing { uint64_t last; atomic_int begun, failed; } failing;

static bzna_status fail_in_turn(void *user, uint64_t i, bzna_error *err)
{
    failing *f = user;
    f->begun++;
    for (int n = 0; (f->begun < 2 || (i == f->last && !f->failed)) && n < 2000; n++)
        sleep_us(1000);
    sleep_us(i == f->last ? 20000 : 0);                     /* the other's failure is written down by then */
    f->failed = 1;
    return BZI_FAIL(err, BZNA_E_IO, "%d", (int)i);
}

TEST(of_errors_at_once_the_first_index_counts)
{
    if (bzi_os_processors() < 2)
        SKIP("one processor: nothing is opened at once");
    for (uint64_t last = 0; last < 2; last++) {
        failing f = { .last = last };
        CHECK_EQ(bzi_parallel(context->host, fail_in_turn, &f, 2, &why), BZNA_E_IO);
        CHECK_STR(why.message, "0");
    }
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
    CHECK_EQ(context->host->files, 0);
    free_files(paths, FILES);
}

/* ---- Folders of archives ---- */

TEST(a_folder_of_archives_stands_for_them)
{
    const char **files = make_files(5, 5);
    bzna_dataset_config config;
    bzna_dataset *dataset = NULL;
    bzna_dataset_info info;
    int64_t target = -1;
    FILE *f = fopen(TOP "/notes.txt", "w");
    if (f)
        fclose(f);
    bzna_error_init(&why, sizeof why);
    CHECK_EQ(bzna_dataset_open(context, TOP, NULL, &dataset, &why), BZNA_OK);
    CHECK_EQ(bzna_dataset_get_info(dataset, &info, sizeof info, NULL), BZNA_OK);
    CHECK(info.part_count == 5 && info.sample_count == 5);
    CHECK_STR(info.container, "archive");
    CHECK(bzna_dataset_target(dataset, 4, &target, NULL) == BZNA_OK && target == 4);
    bzna_dataset_close(dataset);
    bzna_dataset_config_init(&config, sizeof config);
    config.name = "mine";
    CHECK_EQ(bzna_dataset_open(context, TOP, &config, &dataset, &why), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(why.message, "it is of one file, and these are 5");
    CHECK(!mkdir(TOP "/more", 0777));
    CHECK_EQ(bzna_dataset_open(context, TOP, NULL, &dataset, &why), BZNA_E_FORMAT);
    CHECK_CONTAINS(why.message, "holds folders as well as files of samples");
    free_files(files, 5);
}

/* ---- What is not read, or not so ---- */

static bzna_status open_bytes(const void *bytes, size_t size, bzna_dataset **dataset)
{
    prepare();
    bzna_error_init(&why, sizeof why);
    return bzna_dataset_open_memory(context, bytes, size, NULL, dataset, &why);
}

/* The first bytes of the formats that people have, as their own libraries write them; the rest is zero. */
TEST(formats_of_other_loaders_are_called_by_their_names)
{
    static const struct { const char *head; size_t size; const char *part; } cases[] = {
        { "PAR1\x15\4\x15\x10", 8, "it is a parquet file, which is not read: its own library" },
        { "PK\3\4", 4, "it is a zip file, which is not read: unpack it" },
        { "\x1f\x8b\x08", 3, "it is compressed by gzip: decompress it (gunzip)" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint8_t bytes[1000] = { 0 };
        bzna_dataset *dataset = NULL;
        memcpy(bytes, cases[i].head, cases[i].size);
        CHECK_EQ(open_bytes(bytes, sizeof bytes, &dataset), BZNA_E_UNSUPPORTED);
        CHECK_CONTAINS(why.message, cases[i].part);
    }
}

/* MNIST is read as records, which only the caller can describe. */
static bzna_status open_by_formats(const void *bytes, size_t size, bzna_dataset **dataset)
{
    prepare();
    bzna_error_init(&why, sizeof why);
    return bzna_formats_open_memory(context, bytes, size, NULL, dataset, &why);
}

TEST(idx_files_say_how_to_open_them)
{
    uint8_t idx[16 + 5 * 28 * 30] = { 0, 0, 8, 3, 0, 0, 0, 5, 0, 0, 0, 28, 0, 0, 0, 30 };
    const uint8_t labels[8 + 5] = { 0, 0, 8, 1, 0, 0, 0, 5 };
    bzna_dataset *dataset = NULL;
    CHECK_EQ(open_by_formats(idx, sizeof idx, &dataset), BZNA_E_FORMAT);
    CHECK_CONTAINS(why.message, "it begins like an IDX file (MNIST's): it is cut, or to be opened with "
                                "formats_config.records (header_bytes 16)");
    CHECK_EQ(open_by_formats(labels, sizeof labels, &dataset), BZNA_E_FORMAT);
    CHECK_CONTAINS(why.message, "(header_bytes 8)");
    idx[2] = 9;                                             /* signed bytes */
    CHECK_EQ(open_by_formats(idx, sizeof idx, &dataset), BZNA_E_FORMAT);
    CHECK_CONTAINS(why.message, "of no known kind");
}

static bzna_status open_path(const char *path)
{
    bzna_dataset *dataset = NULL;
    prepare();
    bzna_error_init(&why, sizeof why);
    bzna_status status = bzna_dataset_open(context, path, NULL, &dataset, &why);
    bzna_dataset_close(dataset);
    return status;
}

/* Neither is empty, nor of no known kind. */
TEST(what_cannot_seek_or_tells_no_size_is_refused_for_that)
{
    bzna_formats_config formats = { .struct_size = sizeof formats };
    bzna_dataset *dataset = NULL;
    char path[64];
    int ends[2];
    if (ON_WINDOWS)
        SKIP("pipes and devices have no paths here");
    clear();
    CHECK(!mkfifo(TOP "/fifo.tar", 0666));
    CHECK_EQ(open_path(TOP "/fifo.tar"), BZNA_E_UNSUPPORTED);
    CHECK_CONTAINS(why.message, "fifo.tar: it is a pipe, a socket or a device, which cannot seek");
    CHECK_EQ(why.native_code, ESPIPE);
    REQUIRE(!pipe(ends));
    CHECK_EQ(write(ends[1], "some bytes", 10), 10);
    snprintf(path, sizeof path, "/proc/self/fd/%d", ends[0]);           /* as <(cat x.tar) is */
    CHECK_EQ(open_path(path), BZNA_E_UNSUPPORTED);
    CHECK_CONTAINS(why.message, "cannot seek");
    close(ends[0]);
    close(ends[1]);
    CHECK_EQ(open_path("/dev/zero"), BZNA_E_UNSUPPORTED);
    CHECK_CONTAINS(why.message, "cannot seek");
    CHECK_EQ(open_path("/proc/self/status"), BZNA_E_UNSUPPORTED);
    CHECK_CONTAINS(why.message, "/proc/self/status: it has bytes, but states a size of 0");
    fclose(fopen(TOP "/empty.tar", "wb"));
    CHECK_EQ(open_path(TOP "/empty.tar"), BZNA_E_FORMAT);
    CHECK_CONTAINS(why.message, "the file is empty");
    formats.list = TOP "/fifo.tar";                         /* lists likewise */
    CHECK_EQ(bzna_formats_open(context, TOP, &formats, &dataset, &why), BZNA_E_UNSUPPORTED);
    CHECK_CONTAINS(why.message, "fifo.tar: it is a folder, a pipe, a socket or a device");
    clear();
}

int main(int argc, char **argv)
{
    (void)argc;
    test_start(argv);
    RUN(twenty_thousand_archives_are_one_data_set_with_256_descriptors)
    RUN(more_threads_than_descriptors_read_and_none_fails)
    RUN(a_data_set_closes_while_another_is_read)
    RUN(a_file_that_changed_since_it_was_opened_is_refused)
    RUN(files_are_found_again_when_the_working_folder_changes)
    RUN(a_program_that_has_used_up_its_descriptors_can_read_files_that_are_open)
    RUN(a_read_without_a_descriptor_waits_until_one_is_free)
    RUN(a_file_of_a_folder_waits_for_a_descriptor_too)
    RUN(a_read_that_never_gets_a_descriptor_fails)
#ifndef BENZINA_NO_SHARDS
    RUN(a_file_that_is_shortened_costs_the_samples_past_its_new_end)
#endif
    RUN(of_errors_at_once_the_first_index_counts)
    RUN(the_error_is_that_of_the_first_path_that_fails)
    RUN(a_folder_of_archives_stands_for_them)
    RUN(formats_of_other_loaders_are_called_by_their_names)
    RUN(idx_files_say_how_to_open_them)
    RUN(what_cannot_seek_or_tells_no_size_is_refused_for_that)
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
