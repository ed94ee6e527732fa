/* test_training.c - what a training run asks of loaders beyond the first epoch: any order, any world, resuming
 * elsewhere, bad samples, slow and failing sources, little memory, pinned threads, and every way of ending.
 *
 * Where only the plan matters, loaders run with a track that no sample has: each sample then fails at once, and its
 * index and target are still told. `BINARY alone NAME` runs one test in a process of its own, `BINARY resume ...` goes
 * on from a state. BENZINA_STRESS_SECONDS lengthens the stress. */
#include "library.h"
#include "test.h"
#include "orders.h"
#ifdef TEST_NVDEC
#  include "../fake/nvdec.h"
#else
#  define TEST_NVDEC 0
#endif

#include <dirent.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#ifdef BENZINA_NO_AVCODEC
TEST(training_runs) { SKIP("built without libavcodec [libavcodec-dev]"); }
TEST_MAIN(RUN(training_runs))
#else

#include "archives.h"

/* ---- Archives ---------------------------------------------------------------------------------------------------- */

enum { SIDE = 16, SLOT = 3 * SIDE * SIDE };

static bzna_context *context;
static archive small, other, heavy, splits, eighty;         /* 40, 25, 96, 40, 80 samples */
static coded mini_coded[8];           /* the pictures of the H.265 one in tests/data */
static float reference[3][SLOT];      /* by i % 3, without a warp */

static archive build(recipe r)
{
    static const int light[3] = { 4, 2, 5 };
    r.pictures = mini_coded;
    if (!r.pattern) {
        r.pattern = light;
        r.pattern_count = 3;
    }
    r.step = 1;
    return archive_build(context, &r);
}

static bzna_dataset *open_archive(memory *m, const archive *a) { return open_split(context, m, a, NULL); }

static void locate(const bzna_dataset *dataset, uint64_t index, uint64_t *offset, uint64_t *size)
{
    const bzi_container *c = bzi_dataset_at(dataset, &index);
    bzi_extent extent = { 0 };
    bzna_error e;
    require(c->ops->locate(c, index, &extent, &e), "locate");
    *offset = extent.offset;
    *size = extent.size;
}

/* Reads of a sample fail with result, times times. Returns the fault. */
static fault *break_sample(memory *m, const bzna_dataset *dataset, uint64_t index, int64_t result, int64_t times)
{
    fault *f = &m->faults[m->fault_count];
    uint64_t size;
    locate(dataset, index, &f->from, &size);
    f->to = f->from + size;
    f->result = result;
    f->left = times;
    m->fault_count++;
    return f;
}

/* A copy of an archive in which some samples begin with a box of 4 bytes, which no box can have. */
static archive damage(const archive *a, const uint64_t *bad, uint64_t bad_count)
{
    memory m;
    archive copy = archive_copy(a);
    bzna_dataset *dataset = open_archive(&m, a);
    for (uint64_t i = 0; i < bad_count; i++) {
        uint64_t offset, size;
        locate(dataset, bad[i], &offset, &size);
        bzi_put_be32(copy.bytes + offset, 4);
        copy.bad[bad[i]] = 1;
    }
    bzna_dataset_close(dataset);
    return copy;
}

/* The path of a file of this process's own: suites may run beside each other. */
static const char *scratch(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, TEST_BUILD "/tests/training_%s.%ld.bzna", name, (long)getpid());
    return path;
}

/* ---- Allocator, threads, files ----------------------------------------------------------------------------------- */

static bzna_context *open_context(ledger *l, bzna_log_fn log)
{
    bzna_context_config config;
    bzna_context *c = NULL;
    bzna_context_config_init(&config, sizeof config);
    config.allocator = ledger_allocator(l);
    config.log = log;
    require(bzna_context_open(&config, &c, NULL), "context");
    return c;
}

/* Entries of a folder of /proc; the numbers of the first few. */
static int entries(const char *path, int *numbers, int room)
{
    DIR *d = ON_WINDOWS ? NULL : opendir(path);             /* Wine shows another system's /proc */
    struct dirent *entry;
    int n = 0;
    while (d && (entry = readdir(d)) != NULL)
        if (entry->d_name[0] != '.') {
            if (n < room)
                numbers[n] = atoi(entry->d_name);
            n++;
        }
    if (d)
        closedir(d);
    return n;
}

static int threads_now(void) { return entries("/proc/self/task", NULL, 0); }

/* A joined thread may still be listed for a moment: now, and when `before` was counted. */
static int threads_are_at_most(int before)
{
    for (int i = 0; i < 1000 && threads_now() > before; i++)
        sleep_us(1000);
    return threads_now() <= before;
}

/* ---- Loaders ----------------------------------------------------------------------------------------------------- */

static bzna_loader_config config_of(uint32_t batch_size, uint32_t order)
{
    bzna_loader_config c;
    bzna_loader_config_init(&c, sizeof c);
    c.output.batch_size = batch_size;
    c.output.width = c.output.height = SIDE;
    c.order.kind = order;
    c.order.seed = 77;
    c.warp.kind = BZNA_WARP_NONE;
    c.decode.threads = 2;
    return c;
}

/* For plans: nothing is decoded. */
static bzna_loader_config plan_of(uint32_t batch_size, uint32_t order)
{
    bzna_loader_config c = config_of(batch_size, order);
    c.read.memory_bytes = 1;                                /* no sample fits */
    c.decode.threads = 1;
    return c;
}

static bzna_loader *open_loader_in(bzna_context *c, bzna_dataset *dataset, const bzna_loader_config *config)
{
    bzna_loader *loader = NULL;
    bzna_error e = { .struct_size = sizeof e };
    if (bzna_loader_open(c, dataset, config, &loader, &e) != BZNA_OK) {
        printf("  open: %s\n", e.message);
        exit(1);
    }
    return loader;
}

static bzna_loader *open_loader(bzna_dataset *dataset, const bzna_loader_config *c)
{
    return open_loader_in(context, dataset, c);
}

static bzna_batch *next_batch(bzna_loader *loader)
{
    bzna_batch *batch = NULL;
    bzna_error e = { .struct_size = sizeof e };
    bzna_status status = bzna_loader_next(loader, 20000000000, &batch, &e);
    if (status != BZNA_OK && status != BZNA_END) {
        test_failures++;
        printf("  next: %s %s\n", bzna_status_name(status), status < 0 ? e.message : "");
    }
    return batch;
}

/* The indices of the real samples of up to `batches` batches. Returns how many there are. */
static uint64_t collect(bzna_loader *loader, uint64_t batches, uint64_t *indices, uint64_t room)
{
    uint64_t n = 0;
    bzna_batch *batch;
    for (uint64_t i = 0; i < batches && (batch = next_batch(loader)) != NULL; i++) {
        bzna_batch_info info = info_of(batch);
        for (uint32_t k = 0; k < info.count && n < room; k++)
            indices[n++] = info.indices[k];
        bzna_batch_release(batch);
    }
    return n;
}

static uint64_t collect_all(bzna_dataset *dataset, const bzna_loader_config *c, uint64_t *indices, uint64_t room)
{
    bzna_loader *loader = open_loader(dataset, c);
    uint64_t n = collect(loader, UINT64_MAX, indices, room);
    bzna_loader_close(loader);
    return n;
}

static bzna_loader_state state_of(bzna_loader *loader)
{
    bzna_loader_state state;
    CHECK_EQ(bzna_loader_save(loader, &state, sizeof state, NULL), BZNA_OK);
    return state;
}

static bzna_loader_state state_at(bzna_loader *loader, uint64_t epoch, uint64_t position)
{
    bzna_loader_state state = state_of(loader);
    state.epoch = epoch;
    state.position = position;
    state.check = bzi_loader_state_check(&state);
    return state;
}

static bzna_statistics stats_of(bzna_loader *loader)
{
    bzna_statistics stats;
    memset(&stats, 0, sizeof stats);
    CHECK_EQ(bzna_loader_statistics(loader, &stats, sizeof stats, NULL), BZNA_OK);
    return stats;
}

static double ms_since(uint64_t start) { return (double)(bzi_os_now_ns() - start) * 1e-6; }

static uint64_t dice(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static double stress_seconds(void)
{
    const char *s = getenv("BENZINA_STRESS_SECONDS");
    return s ? atof(s) : SANITIZED || test_all() ? 3 : 1;
}

/* ---- This program again ------------------------------------------------------------------------------------------ */

static FILE *again(const char *arguments)
{
    char path[512], command[1400];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n <= 0)
        return NULL;
    path[n] = 0;
    fflush(stdout);
    snprintf(command, sizeof command, "'%s' %s", path, arguments);
    return popen(command, "r");
}

/* Runs a test that may hang or crash in a process of its own; passes on what it says. */
static void alone(const char *name)
{
    char line[512];
    FILE *f;
    int status;
    snprintf(line, sizeof line, "alone %s 2>&1", name);
    REQUIRE((f = again(line)) != NULL);
    while (fgets(line, sizeof line, f))
        printf("  | %s", line);
    status = pclose(f);
    if (status) {
        test_failures++;
        printf("  %s, alone: %s %d\n", name, WIFSIGNALED(status) ? "killed by signal" : "exit status",
               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
}

/* ---- 1. Order ---------------------------------------------------------------------------------------------------- */

TEST(an_index_list_with_repeats_is_the_epoch_in_its_order_or_shuffled)
{
    static const uint64_t given[] = { 5, 5, 39, 0, 2, 7, 5, 38, 11, 12, 13 };
    uint64_t list[COUNT(given)], got[64], n = COUNT(given);
    memory m;
    bzna_dataset *dataset = open_archive(&m, &small);
    bzna_loader_config c = plan_of(4, BZNA_ORDER_SEQUENTIAL);
    bzna_loader_info info;
    bzna_loader *loader = NULL;
    bzna_batch *batch;
    bzna_error e = { .struct_size = sizeof e };
    memcpy(list, given, sizeof list);
    c.order.indices = list;
    c.order.index_count = n;
    loader = open_loader(dataset, &c);
    memset(list, 0xff, sizeof list);                        /* it was copied */
    CHECK_EQ(bzna_loader_get_info(loader, &info, sizeof info, NULL), BZNA_OK);
    CHECK(info.samples_per_epoch == n && info.batches_per_epoch == 3);
    CHECK_EQ(collect(loader, 99, got, 64), n);
    for (uint64_t i = 0; i < n; i++)
        CHECK_EQ(got[i], given[i]);
    bzna_loader_close(loader);
    memcpy(list, given, sizeof list);
    c.order.kind = BZNA_ORDER_SHUFFLE;
    c.order.first_epoch = 3;
    c.order.last_batch = BZNA_LAST_PAD;
    loader = open_loader(dataset, &c);
    for (uint64_t at = 0; (batch = next_batch(loader)) != NULL; at += 4) {
        bzna_batch_info b = info_of(batch);
        CHECK_EQ(b.image.shape[0], 4);
        for (uint64_t k = 0; k < 4; k++) {
            uint64_t index = given[bzna_order_permute(77, 3, n, (at + k) % n)];
            CHECK_EQ(b.indices[k], index);
            CHECK_EQ(b.targets[k], target_of(&small, index));
        }
        bzna_batch_release(batch);
    }
    bzna_loader_close(loader);
    list[3] = 40;
    CHECK_EQ(bzna_loader_open(context, dataset, &c, &loader, &e), BZNA_E_RANGE);
    CHECK(loader == NULL);
    CHECK_CONTAINS(e.message, "loader_config.order.indices[3]: 40");
    c.order.indices = NULL;
    CHECK_EQ(bzna_loader_open(context, dataset, &c, &loader, &e), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(e.message, "index_count");
    bzna_dataset_close(dataset);
}

typedef struct place { const archive *a; uint64_t local; } place;

/* Against a list of what should be there: targets, names, samples, description, and what a loader yields. */
static void check_view(bzna_dataset *view, const place *places, uint64_t n)
{
    bzna_loader_config c = plan_of(7, BZNA_ORDER_SEQUENTIAL);
    bzna_dataset_info info = { .struct_size = sizeof info };
    bzna_loader *loader = open_loader(view, &c);
    bzna_batch *batch;
    uint64_t at = 0;
    CHECK_EQ(bzna_dataset_count(view), n);
    CHECK_EQ(bzna_dataset_get_info(view, &info, sizeof info, NULL), BZNA_OK);
    CHECK(info.sample_count == n && info.target_count == n);
    for (uint64_t i = 0; i < n; i++) {
        char name[16], expected[16];
        int64_t target = 0;
        bzna_sample_ref sample = { .struct_size = sizeof sample };
        snprintf(expected, sizeof expected, "%c%05d", places[i].a->letter, (int)places[i].local);
        CHECK_EQ(bzna_dataset_target(view, i, &target, NULL), BZNA_OK);
        CHECK_EQ(target, target_of(places[i].a, places[i].local));
        CHECK_EQ(bzna_dataset_field(view, i, "name", name, sizeof name, NULL, NULL), BZNA_OK);
        CHECK_STR(name, expected);
        CHECK_EQ(bzna_dataset_sample(view, i, &sample, sizeof sample, NULL), BZNA_OK);
        CHECK(sample.index == i && sample.target == target);
    }
    while ((batch = next_batch(loader)) != NULL) {
        bzna_batch_info b = info_of(batch);
        for (uint32_t k = 0; k < b.count; k++, at++)
            CHECK(b.indices[k] == at && b.targets[k] == target_of(places[at].a, places[at].local));
        bzna_batch_release(batch);
    }
    CHECK_EQ(at, n);
    bzna_loader_close(loader);
}

TEST(ranges_and_concatenations_of_each_other_hold_what_arithmetic_says)
{
    memory m[2];
    bzna_dataset *first = open_archive(&m[0], &small), *second = open_archive(&m[1], &other), *parts[3], *all = NULL,
                 *middle = NULL, *both = NULL, *end = NULL, *none = (bzna_dataset *)&m;
    bzna_dataset_info info = { .struct_size = sizeof info };
    bzna_error e = { .struct_size = sizeof e };
    char name[16];
    uint64_t n = 0, seed = 5;
    place flat[105], twice[140];
    for (uint64_t i = 0; i < 105; i++) {
        place p = { i >= 40 && i < 65 ? &other : &small, i < 40 ? i : i < 65 ? i - 40 : i - 65 };
        flat[i] = p;
    }
    parts[0] = parts[2] = first;
    parts[1] = second;
    REQUIRE(bzna_dataset_concat(context, parts, 3, &all, &e) == BZNA_OK);
    check_view(all, flat, 105);
    CHECK_EQ(bzna_dataset_get_info(all, &info, sizeof info, NULL), BZNA_OK);
    CHECK(info.part_count == 3 && info.size_bytes == 2 * small.size + other.size);
    CHECK(bzna_dataset_range(all, 35, 34, &middle, &e) == BZNA_OK);        /* 5 of the first, 25, 4 of the third */
    check_view(middle, flat + 35, 34);
    CHECK_EQ(bzna_dataset_get_info(middle, &info, sizeof info, NULL), BZNA_OK);
    CHECK_EQ(info.part_count, 3);
    CHECK(bzna_dataset_range(middle, 5, 25, &end, &e) == BZNA_OK);         /* exactly the second */
    check_view(end, flat + 40, 25);
    CHECK_EQ(bzna_dataset_get_info(end, &info, sizeof info, NULL), BZNA_OK);
    CHECK(info.part_count == 1 && info.size_bytes == other.size);
    parts[0] = middle;
    parts[1] = end;
    parts[2] = all;
    CHECK(bzna_dataset_concat(context, parts, 2, &both, &e) == BZNA_OK);
    for (uint64_t i = 0; i < 34; i++)
        twice[n++] = flat[35 + i];
    for (uint64_t i = 0; i < 25; i++)
        twice[n++] = flat[40 + i];
    check_view(both, twice, n);
    for (int k = 0; k < 60; k++) {                          /* any range of it */
        bzna_dataset *range = NULL;
        uint64_t begin = dice(&seed) % n, count = 1 + dice(&seed) % (n - begin);
        REQUIRE(bzna_dataset_range(both, begin, count, &range, &e) == BZNA_OK);
        check_view(range, twice + begin, count);
        bzna_dataset_close(range);
    }
    CHECK_EQ(bzna_dataset_range(both, n, 1, &none, &e), BZNA_E_RANGE);
    CHECK(none == NULL);
    CHECK_EQ(bzna_dataset_range(both, UINT64_MAX, 2, &none, &e), BZNA_E_RANGE);
    CHECK_EQ(bzna_dataset_range(both, 1, n, &none, &e), BZNA_E_RANGE);
    CHECK_EQ(bzna_dataset_range(both, 1, UINT64_MAX, &none, &e), BZNA_E_RANGE);
    CHECK_EQ(bzna_dataset_range(both, 1, 0, &none, &e), BZNA_E_NO_SAMPLES);
    CHECK_EQ(bzna_dataset_field(both, n, "name", name, sizeof name, NULL, &e), BZNA_E_RANGE);
    CHECK_EQ(bzna_dataset_concat(context, parts, 0, &none, &e), BZNA_E_ARGUMENT);
    parts[1] = NULL;
    CHECK_EQ(bzna_dataset_concat(context, parts, 3, &none, &e), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(e.message, "parts[1]");
    bzna_dataset_close(end);                                /* the whole keeps its parts */
    bzna_dataset_close(middle);
    bzna_dataset_close(all);
    bzna_dataset_close(second);
    bzna_dataset_close(first);
    check_view(both, twice, n);
    CHECK(m[0].closes == 0 && m[1].closes == 0);
    bzna_dataset_close(both);
    CHECK(m[0].closes == 1 && m[1].closes == 1);
}

TEST(a_data_set_has_at_most_65536_archives)
{
    enum { MOST = 65536 };
    static bzna_dataset *parts[MOST + 1];
    memory m;
    bzna_dataset *dataset = open_archive(&m, &small), *pair = NULL, *all = NULL;
    bzna_error e = { .struct_size = sizeof e };
    int64_t target = 0;
    for (int i = 0; i <= MOST; i++)
        parts[i] = dataset;
    REQUIRE(bzna_dataset_concat(context, parts, 2, &pair, &e) == BZNA_OK);
    for (uint32_t each = 1; each <= 2; each++) {            /* given as they are, or two by two */
        for (uint32_t i = 0; i <= MOST / each; i++)
            parts[i] = each == 1 ? dataset : pair;
        REQUIRE(bzna_dataset_concat(context, parts, MOST / each, &all, &e) == BZNA_OK);
        CHECK_EQ(bzna_dataset_count(all), 40 * MOST);
        CHECK_EQ(bzna_dataset_target(all, 40 * MOST - 1, &target, &e), BZNA_OK);
        CHECK_EQ(target, target_of(&small, 39));
        bzna_dataset_close(all);
        CHECK_EQ(bzna_dataset_concat(context, parts, MOST / each + 1, &all, &e), BZNA_E_LIMIT);
        CHECK(all == NULL);
        CHECK_CONTAINS(e.message, "65536");
    }
    bzna_dataset_close(pair);
    bzna_dataset_close(dataset);
}

TEST(a_failing_sample_of_a_concatenation_names_its_archive_and_its_number_there)
{
    static const uint64_t bad[] = { 3 };
    memory m[2];
    archive broken = damage(&other, bad, 1);
    bzna_dataset *parts[2] = { open_archive(&m[0], &small), open_archive(&m[1], &broken) }, *all = NULL;
    bzna_loader_config c = config_of(8, BZNA_ORDER_SEQUENTIAL);
    bzna_loader *loader;
    bzna_batch *batch;
    bzna_statistics stats;
    uint64_t failed = 0, offset, size, bytes = 0;
    REQUIRE(bzna_dataset_concat(context, parts, 2, &all, NULL) == BZNA_OK);
    for (uint64_t i = 0; i < 65; i++) {
        locate(all, i, &offset, &size);
        bytes += size;
    }
    loader = open_loader(all, &c);
    while ((batch = next_batch(loader)) != NULL) {
        bzna_batch_info info = info_of(batch);
        for (uint32_t k = 0; k < info.count; k++) {
            bzna_error e = { .struct_size = sizeof e };
            uint64_t index = info.indices[k], number = index < 40 ? index : index - 40;
            if (bzna_batch_error(batch, k, &e) < 0) {
                failed++;
                CHECK_EQ(index, 43);
                CHECK_CONTAINS(e.message, "memory.bzna: sample 3: ");
            } else {
                CHECK(!memcmp((float *)info.image.data + k * SLOT, reference[number % 3], sizeof reference[0]));
            }
        }
        bzna_batch_release(batch);
    }
    stats = stats_of(loader);
    CHECK(failed == 1 && stats.samples == 65 && stats.samples_failed == 1 && stats.failed_format == 1 &&
          stats.stage[BZNA_STAGE_READ].bytes == bytes);
    bzna_loader_close(loader);
    bzna_dataset_close(all);
    bzna_dataset_close(parts[0]);
    bzna_dataset_close(parts[1]);
    CHECK(m[0].closes == 1 && m[1].closes == 1);
    archive_clear(&broken);
}

static uint32_t split_of(uint64_t i)
{
    return i % 5 == 4 ? BZNA_SPLIT_VALIDATION : i % 11 == 3 ? BZNA_SPLIT_NONE : BZNA_SPLIT_TRAIN;
}

TEST(splits_are_the_samples_that_were_written_into_them)
{
    static const struct {
        const char *name;
        uint32_t split;
    } ways[] = { { NULL, 99 }, { "train", BZNA_SPLIT_TRAIN }, { "validation", BZNA_SPLIT_VALIDATION } };
    bzna_source source;
    bzna_dataset_config config;
    bzna_dataset *dataset = NULL;
    bzna_error e = { .struct_size = sizeof e };
    memory m;
    for (size_t w = 0; w < COUNT(ways); w++) {
        place places[40];
        uint64_t n = 0;
        for (uint64_t i = 0; i < 40; i++)
            if (w == 0 || split_of(i) == ways[w].split) {
                places[n].a = &splits;
                places[n++].local = i;
            }
        dataset = open_split(context, &m, &splits, ways[w].name);
        check_view(dataset, places, n);
        bzna_dataset_close(dataset);
    }
    source = memory_source(&m, &splits);
    bzna_dataset_config_init(&config, sizeof config);
    for (int k = 0; k < 3; k++) {                           /* nobody was put there; no such split; not a whole name */
        config.split = k == 0 ? "test" : k == 1 ? "holdout" : "trai";
        dataset = (bzna_dataset *)&m;
        CHECK_EQ(bzna_dataset_open_source(context, &source, &config, &dataset, &e), BZNA_E_NOT_FOUND);
        CHECK(dataset == NULL);
        CHECK_CONTAINS(e.message, "dataset_config.split");
    }
    dataset = open_split(context, &m, &small, NULL);        /* without splits: the same message */
    bzna_dataset_close(dataset);
    config.split = "train";
    CHECK_EQ(bzna_dataset_open_source(context, &source, &config, &dataset, &e), BZNA_E_NOT_FOUND);
}

TEST(an_archive_with_splits_still_plays)
{
    const char *path = scratch("splits");
    FILE *f = fopen(path, "wb");
    char line[512] = "";
    REQUIRE(f != NULL);
    CHECK_EQ(fwrite(splits.bytes, 1, (size_t)splits.size, f), splits.size);
    fclose(f);
    if (system("command -v ffprobe >/dev/null 2>&1"))
        SKIP("no ffprobe [ffmpeg]");
    snprintf(line, sizeof line, "ffprobe -v error -count_frames -select_streams v "
             "-show_entries stream=nb_read_frames,codec_name -of csv=p=0 %s 2>&1", path);
    f = popen(line, "r");
    REQUIRE(f != NULL);
    CHECK(fgets(line, sizeof line, f) != NULL);
    CHECK_EQ(pclose(f), 0);
    CHECK_CONTAINS(line, "hevc,40");
    remove(path);
}

TEST(two_ranges_split_a_data_set_by_position)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &small), *parts[2] = { NULL, NULL };
    uint8_t seen[40] = { 0 };
    CHECK(bzna_dataset_range(dataset, 0, 31, &parts[0], NULL) == BZNA_OK &&
          bzna_dataset_range(dataset, 31, 9, &parts[1], NULL) == BZNA_OK);
    for (int k = 0; k < 2; k++) {
        bzna_loader_config c = plan_of(6, BZNA_ORDER_SHUFFLE);
        bzna_loader *loader = open_loader(parts[k], &c);
        bzna_batch *batch;
        while ((batch = next_batch(loader)) != NULL) {
            bzna_batch_info info = info_of(batch);
            for (uint32_t i = 0; i < info.count; i++) {
                int64_t sample = info.targets[i] - small.base;
                CHECK((k == 0) == (sample < 31));
                seen[sample]++;
            }
            bzna_batch_release(batch);
        }
        bzna_loader_close(loader);
        bzna_dataset_close(parts[k]);
    }
    for (int i = 0; i < 40; i++)
        CHECK_EQ(seen[i], 1);
    bzna_dataset_close(dataset);
}

/* The two orders that there are, and a list. */
enum { ORDER_KINDS = 3 };
static bzna_loader_config order_kind(int kind, uint32_t batch_size)
{
    static uint64_t list[33];
    bzna_loader_config c = plan_of(batch_size, kind ? BZNA_ORDER_SHUFFLE : BZNA_ORDER_SEQUENTIAL);
    for (uint64_t i = 0; i < 33; i++)
        list[i] = i * i % 40;
    if (kind == 2) {
        c.order.indices = list;
        c.order.index_count = 33;
    }
    return c;
}

/* Not by the library's own arithmetic: see orders.py. */
TEST(loaders_take_the_stored_orders)
{
    static uint64_t got[1000], list[1000];
    memory m;
    bzna_dataset *dataset = open_archive(&m, &small);
    uint64_t rows = 0;
    for (uint64_t i = 0; i < 1000; i++)
        list[i] = i * 7 % 40;
    for (size_t k = 0; k < COUNT(stored_orders); k++) {
        const stored_order *o = &stored_orders[k];
        bzna_loader_config c = plan_of(7, BZNA_ORDER_SHUFFLE);
        uint64_t wrong = 0;
        if (o->count > 1000 || o->kind != ORDER_SHUFFLED)   /* others: test_weighted.c */
            continue;
        c.order.seed = o->seed;
        c.order.first_epoch = o->epoch;
        c.order.indices = list;
        c.order.index_count = o->count;
        CHECK_EQ(collect_all(dataset, &c, got, COUNT(got)), o->n);
        for (uint32_t i = 0; i < o->n; i++)
            wrong += got[i] != list[o->at[i]];
        CHECK_EQ(wrong, 0);
        rows++;
    }
    CHECK(rows > 30);
    bzna_dataset_close(dataset);
}

TEST(an_order_is_the_same_from_whatever_position_it_is_entered)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &small);
    for (int kind = 0; kind < ORDER_KINDS; kind++) {
        bzna_loader_config c = order_kind(kind, 4);
        uint64_t whole[100], got[100], n, count;
        bzna_loader *loader;
        c.order.epochs = 2;
        c.order.first_epoch = 6;
        n = collect_all(dataset, &c, whole, 100);
        count = n / 2;
        c.decode.threads = 3;
        c.read.threads = 2;
        loader = open_loader(dataset, &c);
        for (uint64_t epoch = 7; epoch >= 6; epoch--)
            for (uint64_t position = 0; position <= count; position++) {
                bzna_loader_state state = state_at(loader, epoch, position);
                uint64_t from = (epoch - 6) * count + position;
                CHECK_EQ(bzna_loader_restore(loader, &state, NULL), BZNA_OK);
                CHECK_EQ(collect(loader, UINT64_MAX, got, 100), n - from);
                CHECK(!memcmp(got, whole + from, (size_t)(8 * (n - from))));
            }
        bzna_loader_close(loader);
    }
    bzna_dataset_close(dataset);
}

TEST(the_next_epoch_is_ready_before_the_last_batch_of_this_one_is_taken)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &small);
    for (int kind = 0; kind < ORDER_KINDS; kind++) {
        bzna_loader_config c = order_kind(kind, 17);        /* two batches an epoch, three with 40 samples */
        bzna_batch *loans[7];
        bzna_loader *loader;
        c.pipeline.batches_in_flight = 7;
        c.order.epochs = BZNA_EPOCHS_ENDLESS;
        loader = open_loader(dataset, &c);
        WAIT_FOR(stats_of(loader).stage[BZNA_STAGE_DELIVER].depth == 7);
        for (uint64_t epoch = 0, batches = 0; batches < 7; batches++) {
            bzna_batch *batch = NULL;
            CHECK_EQ(bzna_loader_next(loader, 0, &batch, NULL), BZNA_OK);
            REQUIRE(batch != NULL);
            CHECK_EQ(info_of(batch).epoch, epoch);
            epoch += info_of(batch).last_of_epoch;
            CHECK(batches < 6 || epoch >= 2);
            loans[batches] = batch;
        }
        bzna_loader_close(loader);
        for (int i = 0; i < 7; i++)
            CHECK_EQ(bzna_batch_release(loans[i]), BZNA_OK);
    }
    bzna_dataset_close(dataset);
}

TEST(reset_gives_the_order_of_a_loader_opened_at_that_epoch)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &small);
    for (int kind = 0; kind < ORDER_KINDS; kind++) {
        bzna_loader_config c = order_kind(kind, 8);
        bzna_loader *loader = open_loader(dataset, &c);
        static const uint64_t epochs[] = { 4, 0, 4, 1ull << 33, 5 };
        for (size_t k = 0; k < COUNT(epochs); k++) {
            uint64_t fresh[64], got[64], n;
            c.order.first_epoch = epochs[k];
            n = collect_all(dataset, &c, fresh, 64);
            CHECK_EQ(bzna_loader_reset(loader, epochs[k], NULL), BZNA_OK);
            CHECK_EQ(collect(loader, k % 2 ? 2 : UINT64_MAX, got, 64), k % 2 ? 16 : n);
            CHECK(!memcmp(fresh, got, (size_t)(8 * (k % 2 ? 16 : n))));
        }
        bzna_loader_close(loader);
    }
    bzna_dataset_close(dataset);
}

/* ---- 2. Shards --------------------------------------------------------------------------------------------------- */

/* torch's DistributedSampler, from the start of an epoch: rank r takes r, r + world, r + 2 world, ...; here from any
 * position on. */
TEST(every_world_up_to_64_deals_each_position_once_in_equally_many_batches)
{
    static uint8_t seen[2000];
    uint64_t dices = 17;
    for (uint32_t world = 1; world <= 64; world++)
        for (int k = 0; k < 12; k++) {
            uint64_t count = 1 + dice(&dices) % 1999, start = k % 3 ? dice(&dices) % (count + 1) : 0, batches = 0;
            /* BZNA_LAST_PARTIAL, _DROP */
            uint32_t batch = 1 + (uint32_t)(dice(&dices) % 40), policy = (uint32_t)(k % 4 == 3);
            memset(seen, 0, sizeof seen);
            for (uint32_t rank = 0; rank < world; rank++) {
                bzi_shard s = { count, start, batch, world, rank, policy, 0, 0, NULL };
                uint64_t own = start + rank, n = bzi_shard_batches(&s);
                CHECK(rank == 0 || n == batches);
                batches = n;
                for (uint64_t j = 0; j < n; j++) {
                    uint32_t real = bzi_shard_real(&s, j);
                    CHECK(real <= batch);
                    for (uint32_t slot = 0; slot < real; slot++, own += world) {
                        CHECK_EQ(bzi_shard_position(&s, j) + (uint64_t)slot * world, own);
                        REQUIRE(own < count);
                        seen[own]++;
                    }
                    CHECK(real == batch || own >= count);   /* not full: nothing is left for this rank */
                }
                CHECK(policy == BZNA_LAST_DROP || own >= count);
            }
            for (uint64_t p = 0; p < count; p++)
                CHECK_EQ(seen[p], p >= start && (policy != BZNA_LAST_DROP || p - start < batches * batch * world));
            CHECK(policy != BZNA_LAST_DROP || count - start - batches * batch * world < (uint64_t)batch * world);
        }
}

TEST(loaders_of_any_world_take_the_positions_that_the_sampler_of_torch_would)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &small);
    static const uint32_t worlds[] = { 1, 2, 3, 5, 13, 40, 41, 64 };
    uint64_t order[40];
    for (uint64_t i = 0; i < 40; i++)
        order[i] = bzna_order_permute(77, 0, 40, i);              /* of the whole world, whatever its size */
    for (uint32_t policy = 0; policy < 3; policy++)
        for (size_t w = 0; w < COUNT(worlds); w++) {
            uint32_t world = worlds[w];
            uint64_t steps = (40 + 3ull * world - 1) / (3ull * world);
            if (policy == BZNA_LAST_DROP && (steps = 40 / (3ull * world)) == 0)
                continue;
            for (uint32_t rank = 0; rank < world; rank++) {
                bzna_loader_config c = plan_of(3, BZNA_ORDER_SHUFFLE);
                bzna_loader *loader;
                bzna_batch *batch;
                uint64_t batches = 0, position = rank;
                c.shard.rank = rank;
                c.shard.world_size = world;
                c.order.last_batch = policy;
                loader = open_loader(dataset, &c);
                while ((batch = next_batch(loader)) != NULL) {
                    bzna_batch_info info = info_of(batch);
                    uint32_t real = 0;
                    CHECK_EQ(info.position, rank + batches * 3 * world);
                    for (uint32_t k = 0; k < 3; k++, position += world) {
                        real += position < 40;
                        if (k < info.image.shape[0])
                            CHECK_EQ(info.indices[k], order[position % 40]);         /* padding begins anew */
                    }
                    CHECK_EQ(info.count, real);             /* 0 for a rank to which nothing is left */
                    CHECK_EQ(info.image.shape[0], policy == BZNA_LAST_PAD ? 3 : real);
                    CHECK_EQ(info.image.bytes, (uint64_t)info.image.shape[0] * SLOT * 4);
                    batches++;
                    CHECK_EQ(info.last_of_epoch, batches == steps);
                    bzna_batch_release(batch);
                }
                CHECK_EQ(batches, steps);
                bzna_loader_close(loader);
            }
        }
    bzna_dataset_close(dataset);
}

/* ---- 3. Resuming ------------------------------------------------------------------------------------------------- */

static uint64_t hash_floats(const float *data, size_t n)
{
    uint64_t hash = 1;
    for (size_t i = 0; i < n; i++) {
        uint32_t word;
        memcpy(&word, data + i, sizeof word);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
        hash ^= hash >> 29;
    }
    return hash;
}

static bzna_loader_config resume_config(int kind, uint32_t batch_size)
{
    bzna_loader_config c = order_kind(kind, batch_size);
    c.read.memory_bytes = 0;                                /* as config_of has it: samples are decoded */
    c.decode.threads = 2;
    c.warp.kind = BZNA_WARP_RANDOM_RESIZED_CROP;
    c.warp.flip_h = 0.5;
    c.order.epochs = 2;
    return c;
}

/* One line a sample: epoch, position, index, pixels. */
static void print_run(FILE *f, bzna_loader *loader, uint32_t world)
{
    bzna_batch *batch;
    while ((batch = next_batch(loader)) != NULL) {
        bzna_batch_info info = info_of(batch);
        for (uint32_t k = 0; k < info.count; k++)
            fprintf(f, "%llu %llu %llu %llx\n", (unsigned long long)info.epoch,
                    (unsigned long long)(info.position + (uint64_t)k * world), (unsigned long long)info.indices[k],
                    (unsigned long long)hash_floats((const float *)info.image.data + k * SLOT, SLOT));
        bzna_batch_release(batch);
    }
}

/* resume STATE KIND THREADS WORLD: all ranks of a world go on, one after the other. */
static int resume_main(char **argv)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &small);
    bzna_loader_state state;
    uint32_t world = (uint32_t)atoi(argv[3]);
    for (size_t i = 0; i < sizeof state; i++) {
        char two[3] = { argv[0][2 * i], argv[0][2 * i + 1], 0 };
        ((uint8_t *)&state)[i] = (uint8_t)strtoul(two, NULL, 16);
    }
    for (uint32_t rank = 0; rank < world; rank++) {
        bzna_loader_config c = resume_config(atoi(argv[1]), 3);
        bzna_loader *loader;
        c.order.seed = 1;                                   /* comes from the state */
        c.order.epochs = 1;
        c.decode.threads = (uint32_t)atoi(argv[2]);
        c.shard.rank = rank;
        c.shard.world_size = world;
        loader = open_loader(dataset, &c);
        require(bzna_loader_restore(loader, &state, NULL), "restore");
        print_run(stdout, loader, world);
        bzna_loader_close(loader);
    }
    bzna_dataset_close(dataset);
    return test_failures != 0;
}

TEST(a_run_goes_on_in_another_process_with_other_threads_and_another_world)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &small);
    for (int kind = 1; kind < ORDER_KINDS; kind++) {        /* shuffled, a list */
        bzna_loader_config c = resume_config(kind, 7);
        bzna_loader *loader = open_loader(dataset, &c);
        static uint64_t index[2][40], pixels[2][40];
        uint64_t count = kind == 1 ? 40 : 33, cut = 0;
        bzna_loader_state states[16];
        bzna_batch *batch;
        states[0] = state_of(loader);
        while ((batch = next_batch(loader)) != NULL) {
            bzna_batch_info info = info_of(batch);
            for (uint32_t k = 0; k < info.count; k++) {
                index[info.epoch][info.position + k] = info.indices[k];
                pixels[info.epoch][info.position + k] = hash_floats((const float *)info.image.data + k * SLOT, SLOT);
            }
            bzna_batch_release(batch);
            states[++cut] = state_of(loader);
        }
        bzna_loader_close(loader);
        CHECK_EQ(cut, 2 * ((count + 6) / 7));
        for (uint64_t s = 0; s <= cut; s += kind == 1 ? 1 : 3) {
            uint8_t seen[2][40] = { { 0 }, { 0 } };
            char command[7 + 2 * sizeof states[s] + 64] = "resume ";
            unsigned long long line[4];
            FILE *f;
            for (size_t i = 0; i < sizeof states[s]; i++)
                snprintf(command + 7 + 2 * i, 3, "%02x", ((uint8_t *)&states[s])[i]);
            snprintf(command + 7 + 2 * sizeof states[s], 64, " %d %d %d", kind, 1 + (int)(s % 4),
                     1 + (int)((s + 1) % 3));
            REQUIRE((f = again(command)) != NULL);
            while (fscanf(f, "%llu %llu %llu %llx", &line[0], &line[1], &line[2], &line[3]) == 4) {
                REQUIRE(line[0] < 2 && line[1] < count);
                seen[line[0]][line[1]]++;
                CHECK_EQ(line[2], index[line[0]][line[1]]);
                CHECK_EQ(line[3], pixels[line[0]][line[1]]);
            }
            CHECK_EQ(pclose(f), 0);
            for (uint64_t e = 0; e < 2; e++)
                for (uint64_t p = 0; p < count; p++)
                    CHECK_EQ(seen[e][p], e > states[s].epoch || (e == states[s].epoch && p >= states[s].position));
        }
    }
    bzna_dataset_close(dataset);
}

TEST(any_chain_of_worlds_takes_each_position_of_an_epoch_exactly_once)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &small);
    uint64_t dices = 3, links = 0;
    for (int chain = 0; chain < 40; chain++) {
        uint8_t seen[40] = { 0 };
        bzna_loader_state state;
        int begun = 0;
        memset(&state, 0, sizeof state);
        while (!begun || state.epoch == 9) {
            uint32_t world = 1 + (uint32_t)(dice(&dices) % 6), batch_size = 1 + (uint32_t)(dice(&dices) % 3);
            uint64_t batches = chain % 4 == 0 ? 1 : 1 + dice(&dices) % 4, here = 0;
            bzna_loader_state after;
            for (uint32_t rank = 0; rank < world; rank++) {
                bzna_loader_config c = plan_of(batch_size, BZNA_ORDER_SHUFFLE);
                bzna_loader *loader;
                bzna_batch *batch;
                uint64_t taken = 0;
                c.shard.rank = rank;
                c.shard.world_size = world;
                c.order.first_epoch = 9;
                c.order.last_batch = chain % 2 ? BZNA_LAST_PAD : BZNA_LAST_PARTIAL;
                loader = open_loader(dataset, &c);
                if (begun)
                    CHECK_EQ(bzna_loader_restore(loader, &state, NULL), BZNA_OK);
                while (taken < batches && (batch = next_batch(loader)) != NULL) {
                    bzna_batch_info info = info_of(batch);
                    for (uint32_t k = 0; k < info.count; k++)
                        seen[info.indices[k]]++;
                    bzna_batch_release(batch);
                    taken++;
                }
                CHECK(rank == 0 || taken == here);
                here = taken;
                if (rank > 0) {
                    bzna_loader_state mine = state_of(loader);
                    CHECK(!memcmp(&mine, &after, sizeof mine));
                }
                after = state_of(loader);
                bzna_loader_close(loader);
            }
            REQUIRE(here > 0);
            state = after;
            begun = 1;
            links++;
        }
        CHECK(state.epoch == 10 && state.position == 0);
        for (int i = 0; i < 40; i++)
            CHECK_EQ(seen[i], 1);
    }
    CHECK(links > 120);
    bzna_dataset_close(dataset);
}

TEST(a_state_of_other_samples_list_or_order_is_refused)
{
    memory m, n;
    bzna_dataset *dataset = open_archive(&m, &small), *range = NULL, *twin = NULL,
                 *train = open_split(context, &n, &splits, "train");
    uint64_t list[40], swapped[40];
    bzna_loader_config ways[7];
    bzna_dataset *sets[7];
    bzna_loader *loaders[7];
    bzna_error e = { .struct_size = sizeof e };
    REQUIRE(bzna_dataset_range(dataset, 0, 39, &range, NULL) == BZNA_OK &&
            bzna_dataset_range(dataset, 1, 39, &twin, NULL) == BZNA_OK);
    for (uint64_t i = 0; i < 40; i++)
        list[i] = swapped[i] = i;
    swapped[20] = 21;
    swapped[21] = 20;
    for (int i = 0; i < 7; i++) {
        ways[i] = plan_of(4, i == 1 ? BZNA_ORDER_SEQUENTIAL : BZNA_ORDER_SHUFFLE);
        sets[i] = i == 4 ? range : i == 5 ? twin : i == 6 ? train : dataset;
        if (i == 2 || i == 3) {
            ways[i].order.indices = i == 2 ? list : swapped;
            ways[i].order.index_count = 40;
        }
        loaders[i] = open_loader(sets[i], &ways[i]);
    }
    for (int from = 0; from < 7; from++) {
        bzna_loader_state state = state_at(loaders[from], 0, 8), damaged;
        for (int to = 0; to < 7; to++) {
            memset(&e.message, 0, sizeof e.message);
            CHECK_EQ(bzna_loader_restore(loaders[to], &state, &e), from == to ? BZNA_OK : BZNA_E_ARGUMENT);
            if (from != to && from + to == 1)
                CHECK_CONTAINS(e.message, "state.order: ");
            else if (from != to)
                CHECK_CONTAINS(e.message, "state.fingerprint: the state is of another data set");
        }
        damaged = state;
        damaged.position ^= 4;
        CHECK_EQ(bzna_loader_restore(loaders[from], &damaged, &e), BZNA_E_ARGUMENT);
        CHECK_CONTAINS(e.message, "state.check: the state is damaged");
    }
    for (int i = 0; i < 7; i++) {
        uint64_t got[64];
        /* a refused state changes nothing */
        CHECK_EQ(collect(loaders[i], UINT64_MAX, got, 64), loaders[i]->queues.plan.shard.count - 8);
        bzna_loader_close(loaders[i]);
    }
    bzna_dataset_close(range);
    bzna_dataset_close(twin);
    bzna_dataset_close(dataset);
    bzna_dataset_close(train);
}

/* Where the parts of a view begin, how long they are and in which order they stand tells it apart from others. */
TEST(a_state_of_a_view_is_refused_by_views_of_other_lengths_of_the_same_parts)
{
    static const struct { int swapped; uint64_t first, count; } ways[] = { { 0, 0, 10 }, { 0, 0, 20 }, { 0, 5, 10 },
                                                                           { 0, 5, 20 }, { 1, 0, 10 }, { 0, 0, 10 } };
    enum { WAYS = COUNT(ways), TOTAL = 30 };
    memory m[2];
    bzna_dataset *archives[2] = { open_archive(&m[0], &small), open_archive(&m[1], &other) }, *views[WAYS] = { NULL };
    bzna_loader_config c = plan_of(5, BZNA_ORDER_SHUFFLE);
    bzna_loader *loaders[WAYS];
    for (int w = 0; w < WAYS; w++) {
        bzna_dataset *parts[2] = { NULL, NULL };
        require(bzna_dataset_range(archives[0], ways[w].first, ways[w].count, &parts[ways[w].swapped], NULL), "range");
        require(bzna_dataset_range(archives[1], 0, TOTAL - ways[w].count, &parts[!ways[w].swapped], NULL), "range");
        require(bzna_dataset_concat(context, parts, 2, &views[w], NULL), "concat");
        CHECK_EQ(bzna_dataset_count(views[w]), TOTAL);
        bzna_dataset_close(parts[0]);
        bzna_dataset_close(parts[1]);
        loaders[w] = open_loader(views[w], &c);
    }
    for (int from = 0; from < WAYS; from++)
        for (int to = 0; to < WAYS; to++) {
            bzna_loader_state state = state_of(loaders[from]);
            bzna_error e = { .struct_size = sizeof e };
            int same = ways[from].swapped == ways[to].swapped && ways[from].first == ways[to].first &&
                       ways[from].count == ways[to].count;
            CHECK_EQ(bzna_loader_restore(loaders[to], &state, &e), same ? BZNA_OK : BZNA_E_ARGUMENT);
            if (!same)
                CHECK_CONTAINS(e.message,
                               "another data set, of 30 samples an epoch; this one has 30, but not the same");
        }
    for (int w = 0; w < WAYS; w++) {
        bzna_loader_close(loaders[w]);
        bzna_dataset_close(views[w]);
    }
    bzna_dataset_close(archives[0]);
    bzna_dataset_close(archives[1]);
}

/* Opening starts the plan on another thread: whoever restores at once may be first. */
static void alone_restore_at_once(void)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &small);
    for (int k = 0; k < 300; k++) {
        bzna_loader_config c = plan_of(40, BZNA_ORDER_SHUFFLE);
        bzna_loader *loader;
        bzna_loader_state state;
        uint64_t got[40];
        c.order.seed = 0;
        loader = open_loader(dataset, &c);
        memset(&state, 0, sizeof state);
        state.struct_size = sizeof state;
        state.version = 2;
        state.pixels = bzi_setup_pixels(&loader->setup);
        state.seed = UINT64_MAX;                            /* -1, to some */
        state.fingerprint = loader->setup.fingerprint;
        state.sample_count = 40;
        state.end_epoch = 1;
        state.order = BZNA_ORDER_SHUFFLE;
        state.check = bzi_loader_state_check(&state);
        CHECK_EQ(bzna_loader_restore(loader, &state, NULL), BZNA_OK);
        CHECK_EQ(collect(loader, 1, got, 40), 40);
        for (uint64_t i = 0; i < 40; i++)
            CHECK_EQ(got[i], bzna_order_permute(UINT64_MAX, 0, 40, i));
        bzna_loader_close(loader);
    }
    bzna_dataset_close(dataset);
}
TEST(any_seed_can_be_restored_at_once) { alone("restore_at_once"); }

/* The index of an archive of 200000 samples whose bytes are holes, 65536 times: 13 thousand million samples. */
TEST(restoring_far_into_ten_thousand_million_samples_takes_under_a_millisecond)
{
    enum { SAMPLES = 200000, BYTES = 8000, PARTS = 65536 };
    const char *path = scratch("sparse");
    static bzna_dataset *parts[PARTS];
    static uint8_t buffer[1 << 17];
    bzna_image image = { .struct_size = sizeof image };
    bzna_writer_sample desc = { .struct_size = sizeof desc, .name = "00000000.JPEG", .image = &image, .has_target = 1 };
    memory m;
    bzna_dataset *mini = open_archive(&m, &small), *dataset = NULL, *all = NULL;
    bzna_writer *writer = NULL;
    bzna_loader_config c = config_of(8, BZNA_ORDER_SHUFFLE);
    bzna_loader *loader;
    bzna_batch *batch;
    bzna_error e = { .struct_size = sizeof e };
    double best = 1e9, worst = 0, opening;
    uint64_t start;
    require(bzna_dataset_read_image(mini, 0, NULL, buffer, sizeof buffer, &image, NULL), "image");
    require(bzna_writer_open(context, path, NULL, &writer, NULL), "writer");
    require(bzna_writer_add(writer, BZNA_INDEX_NEXT, &desc, 0, NULL), "add");
    for (uint32_t i = 1; i < SAMPLES; i++) {
        const bzi_index_entry entry = { .size = BYTES, .thumb = 28, .thumb_size = 100, .target = i };
        REQUIRE(bzi_writer_note(writer, entry));
    }
    require(bzna_writer_finish(writer, NULL), "finish");
    bzna_writer_close(writer);
    bzna_dataset_close(mini);
    require(bzna_dataset_open(context, path, NULL, &dataset, NULL), "dataset");
    for (int i = 0; i < PARTS; i++)
        parts[i] = dataset;
    REQUIRE(bzna_dataset_concat(context, parts, PARTS, &all, &e) == BZNA_OK);
    CHECK_EQ(bzna_dataset_count(all), (uint64_t)SAMPLES * PARTS);
    c.decode.threads = 1;
    c.order.epochs = BZNA_EPOCHS_ENDLESS;
    start = bzi_os_now_ns();
    loader = open_loader(all, &c);
    opening = ms_since(start);
    for (int k = 0; k < 20; k++) {
        bzna_loader_state state = state_at(loader, (uint64_t)k, 1000000000 + (uint64_t)k);
        double ms;
        start = bzi_os_now_ns();
        CHECK_EQ(bzna_loader_restore(loader, &state, &e), BZNA_OK);
        ms = ms_since(start);
        best = fmin(best, ms);
        worst = fmax(worst, ms);
        state = state_of(loader);
        CHECK_EQ(state.position, 1000000000 + (uint64_t)k);
    }
    REQUIRE((batch = next_batch(loader)) != NULL);
    bzna_batch_info info = info_of(batch);
    for (uint64_t i = 0; i < 8; i++) {
        CHECK_EQ(info.indices[i], bzna_order_permute(77, 19, (uint64_t)SAMPLES * PARTS, 1000000019 + i));
        CHECK_EQ(info.targets[i], info.indices[i] % SAMPLES);
    }
    bzna_batch_release(batch);
    printf("restoring at position 10^9 of 1.3 10^10: best of 20 %.4f ms, worst %.4f ms; opening that loader: %.1f ms\n",
           best, worst, opening);
    CHECK(best < 50);                                       /* one position after another would take seconds */
    bzna_loader_close(loader);
    bzna_dataset_close(all);
    bzna_dataset_close(dataset);
    remove(path);
}

/* ---- 4. Random numbers ------------------------------------------------------------------------------------------- */

TEST(the_published_test_vectors_hold)
{
    static const uint32_t words[2][4] = { { 0xd4abea56, 0xdd653103, 0x04e23b27, 0x74656f08 },
                                          { 0x3cf3e08d, 0x4cc55af4, 0x77c3fa94, 0x890dc105 } };
    static const uint64_t positions[4] = { 298837, 609860, 1210012, 1168792 };
    for (int k = 0; k < 2; k++) {
        bzna_random r;
        bzna_random_init(&r, k ? 1234 : 0, k ? 5 : 0, k ? 1000000 : 0, k ? BZNA_RANDOM_USER : 0);
        for (int i = 0; i < 4; i++)
            CHECK_EQ(bzna_random_u32(&r), words[k][i]);
    }
    for (uint64_t i = 0; i < 4; i++)
        CHECK_EQ(bzna_order_permute(1234, 5, 1281167, i), positions[i]);
}

typedef struct watched { uint64_t seed; int64_t base; _Atomic int64_t calls, wrong; uint8_t seen[3][40]; } watched;

static bzna_status watch_transform(void *user, const bzna_sample_info *sample, bzna_random *random,
                                   bzna_transform *transform)
{
    watched *w = user;
    bzna_random expected;
    bzna_random_init(&expected, w->seed, sample->epoch, sample->index, BZNA_RANDOM_USER);
    w->calls++;
    w->wrong += memcmp(random, &expected, sizeof expected) != 0 || sample->target != w->base + (int64_t)sample->index ||
                sample->slot >= 6 || sample->out_width != SIDE || sample->out_height != SIDE ||
                sample->struct_size != sizeof *sample || transform->struct_size != sizeof *transform;
    bzna_random_u32(random);                                /* drawing is nobody else's business */
    __atomic_fetch_add(&w->seen[sample->epoch - 5][sample->index], 1, __ATOMIC_RELAXED);
    return BZNA_OK;
}

TEST(the_transform_callback_gets_the_generator_of_its_seed_epoch_and_sample)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &small);
    bzna_loader_config c = config_of(6, BZNA_ORDER_SHUFFLE);
    bzna_loader_state state;
    bzna_loader *loader;
    uint64_t got[200];
    static watched w;
    memset(&w, 0, sizeof w);
    w.seed = c.order.seed = 0x123456789abcdef0;
    w.base = small.base;
    c.pipeline.transform = watch_transform;
    c.pipeline.transform_user = &w;
    c.order.first_epoch = 5;
    c.order.epochs = 2;
    loader = open_loader(dataset, &c);
    CHECK_EQ(collect(loader, UINT64_MAX, got, 200), 80);
    for (int i = 0; i < 40; i++)
        CHECK(w.seen[0][i] == 1 && w.seen[1][i] == 1);
    state = state_of(loader);
    bzna_loader_close(loader);
    w.seed = state.seed = 42;                               /* a restored seed is meant, not the config's */
    state.epoch = 6;
    state.check = bzi_loader_state_check(&state);
    c.pipeline.batches_in_flight = 1;
    c.order.seed = 42;
    c.order.first_epoch = 7;
    loader = open_loader(dataset, &c);
    CHECK_EQ(bzna_loader_restore(loader, &state, NULL), BZNA_OK);
    CHECK_EQ(collect(loader, UINT64_MAX, got, 200), 40);
    bzna_loader_close(loader);
    CHECK_EQ(w.wrong, 0);
    bzna_dataset_close(dataset);
}

/* What the loader drew for each slot of a batch. */
typedef struct drawn_warps {
    double   homography[8][9];
    uint64_t occurrence[8];
    uint32_t width[8], height[8];
} drawn_warps;

static bzna_status note_drawn(void *user, const bzna_sample_info *sample, bzna_random *random,
                              bzna_transform *transform)
{
    drawn_warps *d = user;
    (void)random;
    memcpy(d->homography[sample->slot], transform->homography, sizeof transform->homography);
    d->occurrence[sample->slot] = sample->occurrence;
    d->width[sample->slot] = sample->width;
    d->height[sample->slot] = sample->height;
    return BZNA_OK;
}

/* Slot i of an epoch's only batch has the warp of its sample's occurrence number occurrence[i]. */
static void check_drawn(bzna_dataset *dataset, bzna_loader_config c, uint32_t crops, const uint64_t *occurrence)
{
    drawn_warps d;
    bzna_loader *loader;
    bzna_batch *batch;
    bzna_batch_info info;
    memset(&d, 0, sizeof d);
    c.warp.kind = BZNA_WARP_RANDOM_RESIZED_CROP;
    c.pipeline.transform = note_drawn;
    c.pipeline.transform_user = &d;
    loader = open_loader(dataset, &c);
    batch = next_batch(loader);
    info = info_of(batch);
    for (uint32_t i = 0; i < info.count; i++) {
        bzna_random random;
        bzna_warp warp = c.warp;
        double expected[9];
        bzna_random_init(&random, c.order.seed, 0, info.indices[i], BZNA_RANDOM_WARP);
        bzi_random_fork(&random, 0, occurrence[i]);
        warp.crops = crops;
        CHECK_EQ(
            bzna_warp_draw(&random, &warp, d.width[i], d.height[i], c.output.width, c.output.height, expected, NULL),
            BZNA_OK);
        CHECK(!memcmp(d.homography[i], expected, sizeof expected));
        CHECK_EQ(d.occurrence[i], occurrence[i]);
    }
    CHECK_EQ(info.count, c.output.batch_size);
    bzna_batch_release(batch);
    bzna_loader_close(loader);
}

TEST(a_sample_that_is_drawn_more_than_once_is_warped_differently_each_time)
{
    static const uint64_t repeated[4] = { 7, 7, 3, 7 }, different[4] = { 7, 2, 3, 5 };
    static const uint64_t positions[4] = { 0, 1, 2, 3 }, none[4] = { 0 };
    memory m;
    bzna_dataset *dataset = open_archive(&m, &small);
    bzna_loader_config c = config_of(4, BZNA_ORDER_SEQUENTIAL);
    c.order.indices = repeated;
    c.order.index_count = 4;
    check_drawn(dataset, c, BZNA_CROPS_TORCHVISION, positions);
    c.order.indices = different;
    check_drawn(dataset, c, BZNA_CROPS_TORCHVISION, none);
    bzna_dataset_close(dataset);
}

TEST(a_random_resized_crop_is_torchvisions_unless_another_law_is_asked_for)
{
    static const uint64_t none[4] = { 0 }, indices[4] = { 0, 1, 2, 3 };
    memory m;
    bzna_dataset *dataset = open_archive(&m, &small);
    bzna_loader_config c = config_of(4, BZNA_ORDER_SEQUENTIAL);
    c.order.indices = indices;
    c.order.index_count = 4;
    check_drawn(dataset, c, BZNA_CROPS_TORCHVISION, none);
    c.warp.crops = BZNA_CROPS_BENZINA;
    check_drawn(dataset, c, BZNA_CROPS_BENZINA, none);
    bzna_dataset_close(dataset);
}

/* Version 0.3 saved this state behind the first of two batches of four samples. */
TEST(a_state_of_version_0_3_is_restored)
{
    const bzna_loader_state state = { .struct_size = 128, .version = 2, .seed = 12, .position = 4, .end_epoch = 1,
                                      .fingerprint = 0xe9859b27275655b3, .sample_count = 8, .order = BZNA_ORDER_SHUFFLE,
                                      .check = 0xa4f9e5ac, .pixels = 0x45265806ffe82bb8 };
    bzna_loader_config c = config_of(4, BZNA_ORDER_SHUFFLE);
    bzna_dataset *dataset = NULL;
    uint64_t indices[8];
    require(bzna_dataset_open(context, "tests/data/mini_h264.bzna", NULL, &dataset, NULL), "mini");
    c.output.width = c.output.height = 64;
    c.order.seed = 12;
    c.warp = (bzna_warp){ .kind = BZNA_WARP_RANDOM_RESIZED_CROP, .scale = { 0.25, 1 }, .flip_h = 0.25 };
    for (int i = 0; i < 3; i++) {
        bzna_loader_state given = state;
        bzna_loader *loader;
        bzna_error e = { .struct_size = sizeof e };
        c.warp.flip_h = i == 1 ? 0.5 : 0.25;
        given.position += i == 2;
        loader = open_loader(dataset, &c);
        CHECK_EQ(bzna_loader_restore(loader, &given, &e), i ? BZNA_E_ARGUMENT : BZNA_OK);
        if (i)
            CHECK_CONTAINS(e.message, i == 1 ? "state.pixels" : "state.check");
        else
            CHECK(collect(loader, 1, indices, 8) == 4 && indices[0] == 5);
        bzna_loader_close(loader);
    }
    bzna_dataset_close(dataset);
}

TEST(a_state_is_refused_by_a_loader_that_makes_other_pixels)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &small);
    bzna_loader_config base = config_of(4, BZNA_ORDER_SHUFFLE);
    bzna_loader *loader = open_loader(dataset, &base);
    bzna_loader_state state;
    bzna_batch_release(next_batch(loader));
    state = state_of(loader);
    CHECK(state.struct_size == 128 && state.version == 2);
    bzna_loader_close(loader);
    for (int i = 0; i < 14; i++) {
        static const bzna_status expected[14] = { BZNA_OK,         BZNA_OK,         BZNA_OK,         BZNA_OK,
                                                  BZNA_E_ARGUMENT, BZNA_E_ARGUMENT, BZNA_E_ARGUMENT, BZNA_E_ARGUMENT,
                                                  BZNA_E_ARGUMENT, BZNA_E_ARGUMENT, BZNA_OK,         BZNA_E_ARGUMENT,
                                                  BZNA_E_ARGUMENT, BZNA_E_ARGUMENT };
        bzna_loader_config c = base;
        bzna_error e = { .struct_size = sizeof e };
        bzna_loader_state given = state;
        switch (i) {
        case 1:  c.output.dtype = BZNA_DTYPE_FLOAT16; break;
        case 2:  c.output.layout = BZNA_LAYOUT_NHWC; break;
        case 3:  c.output.batch_size = 7; c.decode.threads = 1; break;
        case 4:  c.output.width++; break;
        case 5:  c.warp.flip_h = 0.5; break;
        case 6:  c.warp.kind = BZNA_WARP_RANDOM_RESIZED_CROP; break;
        case 7:  c.color.mean[2] = 1; break;
        case 8:  c.color.fill[0] = 9; break;
        case 9:  c.fields.image = "bzna_input"; break;
        case 10: c.warp.flip_h = 0.5; c.pipeline.restore_any_pixels = 1; break;
        case 11:                                            /* of 0.1: says nothing of pixels, and ends behind check */
            given.struct_size = 64;
            given.version = 1;
            break;
        case 12: c.decode.jpeg_shrink = 1; break;
        case 13: c.output.palette = BZNA_PALETTE_INDEX; break;
        default: break;
        }
#ifdef BENZINA_NO_JPEG
        if (c.decode.jpeg_shrink)
            continue;
#endif
        loader = open_loader(dataset, &c);
        CHECK_EQ(bzna_loader_restore(loader, &given, &e), expected[i]);
        if (expected[i] != BZNA_OK)
            CHECK_CONTAINS(e.message, i == 11 ? "state.version: 1 of 64 bytes is not known" : "state.pixels");
        bzna_loader_close(loader);
    }
#ifndef BENZINA_NO_JPEG
    base.decode.jpeg_shrink = 1;
    loader = open_loader(dataset, &base);
    state = state_of(loader);
    bzna_loader_close(loader);
    for (int margin = 1; margin < 3; margin++) {
        bzna_error e = { .struct_size = sizeof e };
        base.decode.jpeg_shrink_margin = (float)margin;
        loader = open_loader(dataset, &base);
        CHECK_EQ(bzna_loader_restore(loader, &state, &e), margin == 1 ? BZNA_OK : BZNA_E_ARGUMENT);
        bzna_loader_close(loader);
    }
#endif
    bzna_dataset_close(dataset);
}

static bzna_status leave_picture(void *user, const bzna_sample_info *sample, bzna_random *random,
                                 const bzna_picture *picture, void *const planes[3])
{
    (void)user, (void)sample, (void)random, (void)picture, (void)planes;
    return BZNA_OK;
}

static bzna_status leave_transform(void *user, const bzna_sample_info *sample, bzna_random *random,
                                   bzna_transform *transform)
{
    (void)user, (void)sample, (void)random, (void)transform;
    return BZNA_OK;
}

/* What callbacks draw, nobody knows; but whether there are any, and which. */
TEST(a_state_tells_the_callbacks_of_transforms_and_pictures_apart)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &small);
    bzna_loader_state states[4];
    for (int from = 0; from < 4; from++) {                  /* 1: of transforms, 2: of pictures, 3: both */
        bzna_loader_config c = config_of(4, BZNA_ORDER_SHUFFLE);
        bzna_loader *loader;
        c.decode.decoder = BZNA_DECODER_SOFTWARE;
        c.pipeline.transform = from & 1 ? leave_transform : NULL;
        c.pipeline.picture = from & 2 ? leave_picture : NULL;
        loader = open_loader(dataset, &c);
        bzna_batch_release(next_batch(loader));
        states[from] = state_of(loader);
        for (int k = 0; k <= from; k++) {
            bzna_error e = { .struct_size = sizeof e };
            CHECK_EQ(bzna_loader_restore(loader, &states[k], &e), k == from ? BZNA_OK : BZNA_E_ARGUMENT);
            CHECK(k == from || strstr(e.message, "state.pixels"));
        }
        bzna_loader_close(loader);
    }
    bzna_dataset_close(dataset);
}

/* Sample 2 of this archive is larger than its thumbnail. */
TEST(without_a_track_the_size_of_the_output_decides_between_thumbnail_and_picture)
{
    static const uint64_t two = 2;
    bzna_dataset *dataset = NULL;
    bzna_image_info thumb, whole;
    require(bzna_dataset_open(context, "tests/data/mini_h265.bzna", NULL, &dataset, NULL), "mini");
    require(bzna_dataset_image_info(dataset, 2, "bzna_thumb", &thumb, sizeof thumb, NULL), "thumb");
    require(bzna_dataset_image_info(dataset, 2, "bzna_input", &whole, sizeof whole, NULL), "picture");
    CHECK(thumb.width < whole.width);
    for (int i = 0; i < 8; i++) {
        drawn_warps d;
        bzna_loader_config c = config_of(1, BZNA_ORDER_SEQUENTIAL);
        /* of all outputs, the largest decides */
        const bzna_loader_output extra = { .name = "extra", .width = i == 5 ? 513 : 512, .height = i == 6 ? 513 : 512 };
        bzna_loader_info info;
        bzna_loader *loader;
        memset(&d, 0, sizeof d);
        c.extra_outputs.ptr = i >= 4 ? &extra : NULL;
        c.extra_outputs.count = i >= 4;
        c.order.indices = &two;
        c.order.index_count = 1;
        c.pipeline.transform = note_drawn;
        c.pipeline.transform_user = &d;
        c.output.width = i == 1 || i == 7 ? 513 : 512;
        c.output.height = i == 2 ? 513 : 16;
        c.fields.image = i == 3 ? "bzna_input" : NULL;
        loader = open_loader(dataset, &c);
        bzna_batch_release(next_batch(loader));
        CHECK_EQ(d.width[0], i % 4 ? whole.width : thumb.width);
        CHECK_EQ(bzna_loader_get_info(loader, &info, sizeof info, NULL), BZNA_OK);
        CHECK_STR(info.image_field, i % 4 == 0 ? "thumb" : i == 3 ? "bzna_input" : "image");
        CHECK_CONTAINS(info.image_field_reason, i == 3 ? "loader_config.fields.image" : "512");
        bzna_loader_close(loader);
    }
    bzna_dataset_close(dataset);
}

TEST(what_would_have_no_effect_is_refused_when_a_loader_opens)
{
    static const struct { const char *says; bzna_status status; } expected[] = {
        { "loader_config.fields.image: ", BZNA_E_NOT_FOUND }, { "warp.scale", BZNA_E_ARGUMENT },
        { "warp.crops", BZNA_E_ARGUMENT },
        { "warp.degrees", BZNA_E_ARGUMENT }, { "warp.translate", BZNA_E_ARGUMENT },
        { "warp.resize", BZNA_E_ARGUMENT }, { "warp.keep_ratio", BZNA_E_ARGUMENT },
        { "warp.random_crop", BZNA_E_ARGUMENT }, { "warp.ratio", BZNA_E_ARGUMENT },
        { "warp.scale[1]", BZNA_E_ARGUMENT }, { "loader_config.color.std", BZNA_E_ARGUMENT },
        { "warp.kind: ", BZNA_E_ARGUMENT } };
    memory m;
    bzna_dataset *dataset = open_archive(&m, &small);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        bzna_loader_config c = config_of(4, BZNA_ORDER_SEQUENTIAL);
        bzna_loader *loader = NULL;
        bzna_error e = { .struct_size = sizeof e };
        c.warp.kind = i < 3 ? BZNA_WARP_NONE : i < 8 ? BZNA_WARP_RANDOM_RESIZED_CROP : BZNA_WARP_CENTER_RESIZED_CROP;
        switch (i) {
        case 0:  c.fields.image = "bzna_inptu"; break;
        case 1:  c.warp.scale[0] = 0.5; break;
        case 2:  c.warp.crops = BZNA_CROPS_TORCHVISION; break;
        case 3:  c.warp.degrees[1] = 10; break;
        case 4:  c.warp.translate[0] = 0.1; break;
        case 5:  c.warp.resize = 1; break;
        case 6:  c.warp.keep_ratio = 1; break;
        case 7:  c.warp.random_crop = 1; break;
        case 8:  c.warp.ratio[0] = c.warp.ratio[1] = 1; break;
        case 9:  c.warp.scale[0] = c.warp.scale[1] = 0.5; break;
        case 10: c.color.std[1] = -1; break;
        default: c.warp.kind = 5; break;
        }
        CHECK_EQ(bzna_loader_open(context, dataset, &c, &loader, &e), expected[i].status);
        CHECK_CONTAINS(e.message, expected[i].says);
    }
    bzna_dataset_close(dataset);
}

/* ---- 5. Errors --------------------------------------------------------------------------------------------------- */

TEST(replacing_takes_the_next_sample_of_the_rank_that_can_be_had_whatever_the_threads)
{
    static const uint64_t bad[] = { 2, 3, 9, 17, 18, 30, 31, 32, 39 };
    static const struct { uint32_t threads, readers, ahead, world, rank; int kind; } ways[] = {
        { 1, 1, 1, 1, 0, 1 }, { 2, 1, 0, 1, 0, 1 }, { 8, 4, 0, 1, 0, 1 }, { 1, 1, 0, 1, 0, 0 }, { 8, 2, 40, 1, 0, 0 },
        { 2, 1, 0, 3, 2, 1 }, { 8, 3, 0, 3, 1, 1 },
        { 2, 2, 0, 1, 0, 2 }, { 8, 1, 1, 1, 0, 2 }, { 2, 1, 0, 2, 1, 2 },
    };
    archive broken = damage(&small, bad, COUNT(bad));
    memory m;
    bzna_dataset *dataset = open_archive(&m, &broken);
    uint8_t is_bad[40] = { 0 };
    for (size_t i = 0; i < COUNT(bad); i++)
        is_bad[bad[i]] = 1;
    for (size_t w = 0; w < COUNT(ways); w++) {
        bzna_loader_config plan = order_kind(ways[w].kind, 7), c;
        uint64_t order[200], count, attempts = 0, replaced = 0, batches = 0;
        bzna_loader *loader;
        bzna_batch *batch;
        bzna_statistics stats;
        plan.order.epochs = 2;
        count = collect_all(dataset, &plan, order, 200) / 2;
        c = plan;
        c.read.memory_bytes = 0;                            /* as config_of has it: samples are decoded */
        c.errors.on_error = BZNA_ON_ERROR_REPLACE;
        c.order.last_batch = BZNA_LAST_PAD;
        c.decode.threads = ways[w].threads;
        c.read.threads = ways[w].readers;
        c.read.ahead_samples = ways[w].ahead;
        c.shard.world_size = ways[w].world;
        c.shard.rank = ways[w].rank;
        loader = open_loader(dataset, &c);
        while ((batch = next_batch(loader)) != NULL) {
            bzna_batch_info info = info_of(batch);
            uint32_t here = 0;
            for (uint64_t k = 0; k < 7; k++) {
                uint64_t at = (info.position + k * c.shard.world_size) % count, tries = 0, index;
                while (is_bad[index = order[info.epoch * count + at]]) {
                    at = (at + c.shard.world_size) % count;  /* round the end */
                    tries++;
                }
                attempts += tries;
                here += tries > 0 && k < info.count;
                CHECK_EQ(info.indices[k], index);
                CHECK_EQ(info.targets[k], target_of(&small, index));
                CHECK_EQ(info.status[k], BZNA_OK);
                CHECK_EQ(bzna_batch_error(batch, (uint32_t)k, NULL), BZNA_OK);
                CHECK(!memcmp((float *)info.image.data + k * SLOT, reference[index % 3], sizeof reference[0]));
            }
            CHECK_EQ(info.replaced, here);
            CHECK_EQ(info.failed, 0);
            replaced += here;
            batches++;
            bzna_batch_release(batch);
        }
        stats = stats_of(loader);
        CHECK(replaced > 0);
        CHECK_EQ(stats.replaced, attempts);
        CHECK_EQ(stats.samples_failed, attempts);
        CHECK_EQ(stats.samples, batches * 7 + attempts);
        bzna_loader_close(loader);
    }
    bzna_dataset_close(dataset);
    archive_clear(&broken);
}

TEST(a_replacement_in_an_epochs_last_batch_is_of_that_epochs_order)
{
    enum { EPOCHS = 3, LENGTH = 30 };
    static const uint32_t batch_sizes[] = { 15, 10 };       /* the last batch is the second or third in flight */
    for (size_t k = 0; k < COUNT(batch_sizes); k++) {
        bzna_loader_config c = plan_of(batch_sizes[k], BZNA_ORDER_SHUFFLE);
        uint64_t order[EPOCHS][40], list[LENGTH], at = LENGTH - batch_sizes[k], bad;
        memory m;
        bzna_dataset *dataset = open_archive(&m, &small);
        bzna_loader *loader;
        bzna_batch *batch;
        uint32_t replaced = 0;
        c.order.seed = 78;
        c.order.indices = list;
        c.order.index_count = LENGTH;
        for (uint64_t e = 0; e < EPOCHS; e++)
            for (uint64_t i = 0; i < LENGTH; i++)
                order[e][i] = bzna_order_permute(78, e, LENGTH, i);
        for (uint64_t i = 0; i < LENGTH; i++)
            list[i] = i;
        bad = order[0][at];
        CHECK(order[0][at + 1] != order[1][at + 1] && order[0][at + 1] != order[2][at + 1]);
        break_sample(&m, dataset, bad, -5, -1);
        c.read.memory_bytes = 0;                            /* as config_of has it: samples are decoded */
        c.order.epochs = EPOCHS;
        c.decode.threads = c.read.threads = 2;              /* while one pauses, the other could begin the next epoch */
        c.errors.on_error = BZNA_ON_ERROR_REPLACE;
        c.read.retries = 1;
        c.read.backoff_ns = 100000000;
        loader = open_loader(dataset, &c);
        while ((batch = next_batch(loader)) != NULL) {
            bzna_batch_info info = info_of(batch);
            for (uint32_t slot = 0; slot < info.count; slot++) {
                uint64_t position = info.position + slot, index = order[info.epoch][position];
                index = index == bad ? order[info.epoch][(position + 1) % LENGTH] : index;
                CHECK_EQ(info.indices[slot], index);
                CHECK_EQ(info.targets[slot], target_of(&small, index));
                CHECK_EQ(info.status[slot], BZNA_OK);
                CHECK(!memcmp((float *)info.image.data + slot * SLOT, reference[index % 3], sizeof reference[0]));
            }
            CHECK(info.epoch || !info.last_of_epoch || info.replaced == 1);
            replaced += info.replaced;
            bzna_batch_release(batch);
        }
        CHECK_EQ(stats_of(loader).replaced, replaced);
        bzna_loader_close(loader);
        bzna_dataset_close(dataset);
    }
}

TEST(replacing_gives_up_after_64_samples_and_says_why)
{
    uint64_t bad[70];
    archive broken;
    memory m;
    for (uint64_t i = 0; i < 70; i++)
        bad[i] = i;
    broken = damage(&eighty, bad, 70);
    bzna_dataset *dataset = open_archive(&m, &broken);
    for (uint32_t threads = 1; threads <= 8; threads *= 2) {
        bzna_loader_config c = config_of(10, BZNA_ORDER_SEQUENTIAL);
        bzna_loader *loader;
        bzna_batch *batch;
        bzna_batch_info info;
        c.decode.threads = threads;
        c.errors.on_error = BZNA_ON_ERROR_REPLACE;
        loader = open_loader(dataset, &c);
        REQUIRE((batch = next_batch(loader)) != NULL);
        info = info_of(batch);
        CHECK(info.failed == 6 && info.replaced == 4);
        for (uint64_t k = 0; k < 10; k++) {                 /* 64 further on is still bad for the first six */
            bzna_error e = { .struct_size = sizeof e };
            CHECK_EQ(info.indices[k], k < 6 ? k + 64 : 70);
            CHECK_EQ(info.targets[k], target_of(&eighty, info.indices[k]));
            CHECK_EQ(bzna_batch_error(batch, (uint32_t)k, &e), info.status[k]);
            CHECK_EQ(info.status[k] < 0, k < 6);
            if (k < 6) {
                char name[32];
                snprintf(name, sizeof name, "sample %d: ", (int)k + 64);
                CHECK_CONTAINS(e.message, name);
                for (int i = 0; i < SLOT; i++)
                    CHECK(((float *)info.image.data)[k * SLOT + (uint64_t)i] >= 0 &&
                          ((float *)info.image.data)[k * SLOT + (uint64_t)i] <= 0);
            }
        }
        bzna_batch_release(batch);
        bzna_loader_close(loader);
    }
    bzna_dataset_close(dataset);
    archive_clear(&broken);
}

TEST(stopping_at_an_error_delivers_what_comes_before_and_then_the_error_for_ever)
{
    static const uint64_t bad[] = { 17, 23 };
    archive broken = damage(&small, bad, 2);
    memory m;
    bzna_dataset *dataset = open_archive(&m, &broken);
    for (uint32_t threads = 1; threads <= 8; threads *= 2) {
        bzna_loader_config c = config_of(5, BZNA_ORDER_SEQUENTIAL);
        bzna_loader_state state;
        bzna_loader *loader;
        bzna_batch *batch;
        uint64_t got[64];
        c.errors.on_error = BZNA_ON_ERROR_STOP;
        c.decode.threads = threads;
        c.pipeline.batches_in_flight = 6;
        loader = open_loader(dataset, &c);
        for (int round = 0; round < 2; round++) {
            CHECK_EQ(collect(loader, 3, got, 64), 15);
            for (uint64_t i = 0; i < 15; i++)
                CHECK_EQ(got[i], i);
            for (int k = 0; k < 4; k++) {
                bzna_error e = { .struct_size = sizeof e };
                bzna_status status = bzna_loader_next(loader, k % 2 ? 0 : BZNA_WAIT_FOREVER, &batch, &e);
                CHECK_EQ(status, BZNA_E_BOX);
                CHECK(batch == NULL);
                CHECK_EQ(e.status, status);
                CHECK_CONTAINS(e.message, "memory.bzna: sample 17: ");
            }
            state = state_of(loader);
            CHECK(state.epoch == 0 && state.position == 15);
            CHECK_EQ(bzna_loader_stop(loader, NULL), BZNA_OK);
            CHECK_EQ(bzna_loader_next(loader, 0, &batch, NULL), BZNA_E_STOPPED);
            CHECK_EQ(bzna_loader_reset(loader, 0, NULL), BZNA_OK);
        }
        state = state_at(loader, 0, 25);                    /* behind both */
        CHECK_EQ(bzna_loader_restore(loader, &state, NULL), BZNA_OK);
        CHECK_EQ(collect(loader, UINT64_MAX, got, 64), 15);
        CHECK_EQ(got[0], 25);
        bzna_loader_close(loader);
    }
    bzna_dataset_close(dataset);
    archive_clear(&broken);
}

TEST(stopping_reports_a_batchs_only_failure_in_whichever_slot)
{
    static const struct { uint32_t batch_size; uint64_t bad; } ways[] = { { 5, 15 }, { 5, 17 }, { 5, 19 }, { 1, 0 },
                                                                          { 1, 15 }, { 40, 0 }, { 40, 39 } };
    for (size_t w = 0; w < COUNT(ways); w++) {
        archive broken = damage(&small, &ways[w].bad, 1);
        memory m;
        bzna_dataset *dataset = open_archive(&m, &broken);
        bzna_loader_config c = config_of(ways[w].batch_size, BZNA_ORDER_SEQUENTIAL);
        uint64_t before = ways[w].bad / ways[w].batch_size, got[40];
        bzna_error e = { .struct_size = sizeof e };
        char name[32];
        bzna_loader *loader;
        bzna_batch *batch;
        c.errors.on_error = BZNA_ON_ERROR_STOP;
        loader = open_loader(dataset, &c);
        CHECK_EQ(collect(loader, before, got, 40), before * ways[w].batch_size);
        CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &e), BZNA_E_BOX);
        snprintf(name, sizeof name, "sample %d: ", (int)ways[w].bad);
        CHECK_CONTAINS(e.message, name);
        bzna_loader_close(loader);
        bzna_dataset_close(dataset);
        archive_clear(&broken);
    }
}

static bzna_status fail_18(void *user, const bzna_sample_info *sample, bzna_random *random, bzna_transform *transform)
{
    (void)random;
    if (sample->index != 18)
        return BZNA_OK;
    if (user)
        return -7;
    transform->homography[4] = NAN;
    return BZNA_OK;
}

static bzna_status fail_18_drawing(void *user, const bzna_sample_info *sample, bzna_random *random,
                                   const bzna_picture *picture, void *const planes[3])
{
    (void)user;
    (void)random;
    return picture->plane[0] == planes[0] && sample->index == 18 ? -7 : BZNA_OK;
}

/* The callback of sample 18 fails: what returns a code, what leaves a NaN, what draws, what reads. */
static bzna_loader *open_failing(memory *m, bzna_dataset *dataset, uint32_t way, bzna_loader_config *c)
{
    static int code;
    m->fault_count = 0;
    c->decode.decoder = BZNA_DECODER_SOFTWARE;              /* that draws */
    if (way < 2)
        c->pipeline.transform = fail_18;
    if (way == 0)
        c->pipeline.transform_user = &code;
    if (way == 2)
        c->pipeline.picture = fail_18_drawing;
    if (way == 3)
        break_sample(m, dataset, 18, INT64_MAX, -1);
    return open_loader(dataset, c);
}

/* Sample 16, in the same batch, is damaged: it costs its slot alone, and is not what the error is about. */
TEST(a_callback_that_fails_ends_the_run_whatever_is_done_about_damaged_samples)
{
    static const char *const parts[] = { "the transform callback returned -7",
                                         "the transform callback: transform.homography",
                                         "the picture callback returned -7", "read_at failed" };
    static const uint64_t bad[] = { 16 };
    archive broken = damage(&small, bad, 1);
    memory m;
    bzna_dataset *dataset = open_archive(&m, &broken);
    for (uint32_t k = 0; k < 16; k++) {
        const uint32_t way = k % 4;
        bzna_loader_config c = config_of(5, BZNA_ORDER_SEQUENTIAL);
        bzna_loader *loader;
        bzna_batch *batch;
        uint64_t got[64];
        c.errors.on_error = k / 4 % 2 ? BZNA_ON_ERROR_REPLACE : BZNA_ON_ERROR_FILL;
        c.decode.threads = k < 8 ? 1 : 4;
        loader = open_failing(&m, dataset, way, &c);
        for (int round = 0; round < 2; round++) {
            CHECK_EQ(collect(loader, 3, got, 64), 15);
            for (int again = 0; again < 2; again++) {
                bzna_error e = { .struct_size = sizeof e };
                CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &e), BZNA_E_CALLBACK);
                CHECK(!batch && e.status == BZNA_E_CALLBACK);
                CHECK_CONTAINS(e.message, "memory.bzna: sample 18");
                CHECK_CONTAINS(e.message, parts[way]);
                CHECK_EQ(e.native_code, way == 0 || way == 2 ? -7 : 0);
            }
            CHECK_EQ(state_of(loader).position, 15);
            CHECK_EQ(bzna_loader_reset(loader, 0, NULL), BZNA_OK);
        }
        bzna_loader_close(loader);
    }
    bzna_dataset_close(dataset);
    archive_clear(&broken);
}

TEST(a_callback_that_fails_counts_as_a_damaged_sample_where_that_is_asked_for)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &small);
    for (uint32_t k = 0; k < 12; k++) {
        const uint32_t policy = k / 4;
        bzna_loader_config c = config_of(5, BZNA_ORDER_SEQUENTIAL);
        bzna_error e = { .struct_size = sizeof e };
        bzna_loader *loader;
        bzna_batch *batch;
        uint64_t got[64];
        c.errors.on_error = policy;
        c.errors.on_callback_error = BZNA_ON_CALLBACK_ERROR_SAMPLE;
        loader = open_failing(&m, dataset, k % 4, &c);
        CHECK_EQ(collect(loader, 3, got, 64), 15);
        if (policy == BZNA_ON_ERROR_STOP) {
            CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &e), BZNA_E_CALLBACK);
        } else {
            REQUIRE((batch = next_batch(loader)) != NULL);
            const bzna_batch_info info = info_of(batch);
            CHECK_EQ(info.failed, policy == BZNA_ON_ERROR_FILL);
            CHECK_EQ(info.replaced, policy == BZNA_ON_ERROR_REPLACE);
            CHECK_EQ(info.status[3], policy == BZNA_ON_ERROR_FILL ? BZNA_E_CALLBACK : BZNA_OK);
            CHECK_EQ(info.indices[3], policy == BZNA_ON_ERROR_FILL ? 18 : 19);
            bzna_batch_release(batch);
            CHECK_EQ(collect(loader, UINT64_MAX, got, 64), 20);
        }
        bzna_loader_close(loader);
    }
    bzna_loader_config c = config_of(5, BZNA_ORDER_SEQUENTIAL);
    bzna_error e = { .struct_size = sizeof e };
    bzna_loader *loader = NULL;
    c.errors.on_callback_error = 2;
    CHECK_EQ(bzna_loader_open(context, dataset, &c, &loader, &e), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(e.message, "loader_config.errors.on_callback_error: 2 is not known");
    bzna_dataset_close(dataset);
}

static bzna_status refuse_13(void *user, const bzna_sample_info *sample, bzna_random *random, bzna_transform *transform)
{
    (void)user;
    (void)random;
    (void)transform;
    return sample->index == 13 ? -7 : BZNA_OK;
}

TEST(failures_are_counted_by_kind)
{
    static const uint64_t bad[] = { 7 };
    archive broken = damage(&small, bad, 1);
    memory m;
    bzna_dataset *dataset = open_archive(&m, &broken);
    bzna_loader_config c = config_of(40, BZNA_ORDER_SHUFFLE);
    bzna_image_info image;
    bzna_statistics stats;
    bzna_loader *loader;
    bzna_batch *batch;
    static const struct { uint64_t index; bzna_status status; } expected[] = {
        { 3, BZNA_E_IO }, { 5, BZNA_E_TRUNCATED }, { 11, BZNA_E_CALLBACK }, { 9, BZNA_E_DECODE },
        { 13, BZNA_E_CALLBACK },
    };
    require(bzna_dataset_image_info(dataset, 9, NULL, &image, sizeof image, NULL), "image");
    for (uint64_t at = image.data_offset; at + 5 < image.data_offset + image.data_size;
         at += 4 + bzi_be32(broken.bytes + at))
        broken.bytes[at + 4] = 0x46;                        /* every unit becomes an access unit delimiter */
    break_sample(&m, dataset, 3, -5, -1);
    break_sample(&m, dataset, 5, 0, -1);
    break_sample(&m, dataset, 11, INT64_MAX, -1);
    c.pipeline.transform = refuse_13;
    c.errors.on_callback_error = BZNA_ON_CALLBACK_ERROR_SAMPLE;
    loader = open_loader(dataset, &c);
    REQUIRE((batch = next_batch(loader)) != NULL);
    bzna_batch_info info = info_of(batch);
    for (uint32_t k = 0; k < 40; k++)
        for (size_t i = 0; i < COUNT(expected); i++)
            if (info.indices[k] == expected[i].index)
                CHECK_EQ(info.status[k], expected[i].status);
    CHECK_EQ(info.failed, 6);
    bzna_batch_release(batch);
    stats = stats_of(loader);
    CHECK_EQ(stats.samples, 40);
    CHECK_EQ(stats.samples_failed, 6);
    CHECK_EQ(stats.failed_read, 3);                         /* E_IO, E_TRUNCATED, E_CALLBACK of a source */
    CHECK_EQ(stats.failed_format, 1);
    CHECK_EQ(stats.failed_decode, 1);
    CHECK_EQ(stats.failed_other, 1);                        /* the transform */
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    archive_clear(&broken);
}

TEST(a_read_that_fails_is_tried_again_after_pauses_that_double)
{
    enum { BAD = 2, MS = 8 };
    memory m;
    bzna_dataset *dataset = open_archive(&m, &small);
    bzna_loader_config c = config_of(5, BZNA_ORDER_SEQUENTIAL);
    bzna_statistics stats;
    bzna_loader *loader;
    bzna_batch *batch;
    fault *f = break_sample(&m, dataset, BAD, -5, 3);
    c.read.retries = 4;
    c.read.backoff_ns = MS * 1000000;
    loader = open_loader(dataset, &c);
    while ((batch = next_batch(loader)) != NULL) {
        bzna_batch_info info = info_of(batch);
        CHECK_EQ(info.failed, 0);
        for (uint32_t k = 0; k < info.count; k++)
            CHECK(!memcmp((float *)info.image.data + k * SLOT, reference[info.indices[k] % 3], sizeof reference[0]));
        bzna_batch_release(batch);
    }
    stats = stats_of(loader);
    CHECK(m.failures == 3 && stats.retries == 3 && stats.samples == 40 && stats.samples_failed == 0);
    CHECK(m.failed_at_ns[1] - m.failed_at_ns[0] >= MS * 1000000ull);
    CHECK(m.failed_at_ns[2] - m.failed_at_ns[1] >= 2 * MS * 1000000ull);

    f->left = -1;                                           /* for good: it fails after all retries, alone */
    m.failures = 0;
    CHECK_EQ(bzna_loader_reset(loader, 0, NULL), BZNA_OK);
    REQUIRE((batch = next_batch(loader)) != NULL);
    bzna_batch_info info = info_of(batch);
    CHECK(info.failed == 1 && info.status[BAD] == BZNA_E_IO);
    CHECK_EQ(m.failures, 5);
    CHECK_EQ(stats_of(loader).retries, 7);
    bzna_batch_release(batch);
    bzna_loader_close(loader);

    f->result = 0;                                          /* E_TRUNCATED: not tried again */
    m.failures = 0;
    loader = open_loader(dataset, &c);
    REQUIRE((batch = next_batch(loader)) != NULL);
    CHECK_EQ(info_of(batch).status[BAD], BZNA_E_TRUNCATED);
    CHECK(m.failures == 1 && stats_of(loader).retries == 0);
    bzna_batch_release(batch);
    bzna_loader_close(loader);

    f->result = -5;                                         /* the default: none at all */
    m.failures = 0;
    c.read.retries = 0;
    loader = open_loader(dataset, &c);
    REQUIRE((batch = next_batch(loader)) != NULL);
    CHECK_EQ(info_of(batch).status[BAD], BZNA_E_IO);
    CHECK_EQ(m.failures, 1);
    bzna_batch_release(batch);
    bzna_loader_close(loader);
    c.read.retries = 1001;
    CHECK_EQ(bzna_loader_open(context, dataset, &c, &loader, NULL), BZNA_E_ARGUMENT);
    bzna_dataset_close(dataset);
}

TEST(the_longest_pause_is_a_pause)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &small);
    bzna_loader_config c = config_of(5, BZNA_ORDER_SEQUENTIAL);
    bzna_loader *loader;
    break_sample(&m, dataset, 0, -5, -1);
    c.read.retries = 1000;
    c.read.backoff_ns = UINT64_MAX;
    loader = open_loader(dataset, &c);
    WAIT_FOR(m.failures > 0);
    sleep_us(30000);
    CHECK_EQ(m.failures, 1);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

/* ---- 6. Ending promptly ------------------------------------------------------------------------------------------ */

enum { BACKING_OFF, LITTLE_MEMORY, BATCHES_WAIT, OBSTACLES };

/* Samples that are tried again after an hour, with memory for all or for one of them; or batches that nobody takes.
 * Samples that wait hold up neither readers nor others that need their memory. */
static bzna_loader *obstruct(int obstacle, memory *m, bzna_dataset *dataset)
{
    bzna_loader_config c = config_of(2, BZNA_ORDER_SEQUENTIAL);
    bzna_loader *loader;
    uint64_t offset, size;
    m->fault_count = 0;
    m->failures = 0;
    c.read.backoff_ns = 3600000000000;
    c.read.retries = 3;
    c.read.threads = obstacle == BACKING_OFF ? 6 : 2;
    c.pipeline.batches_in_flight = 4;
    if (obstacle != BATCHES_WAIT)                           /* whichever reader comes first */
        for (uint64_t i = 0; i < 40; i++)
            break_sample(m, dataset, i, -5, -1);
    if (obstacle == LITTLE_MEMORY) {
        locate(dataset, 0, &offset, &size);
        c.read.memory_bytes = size + size / 2;
    }
    loader = open_loader(dataset, &c);
    if (obstacle != BATCHES_WAIT)
        WAIT_FOR(m->failures == 8 && peek(loader, &loader->queues.entries[BZI_ENTRY_READING].count) == 0);
    if (obstacle == BATCHES_WAIT)
        WAIT_FOR(stats_of(loader).stage[BZNA_STAGE_DELIVER].depth == 4);
    return loader;
}

TEST(stop_reset_restore_and_close_are_prompt_whatever_the_readers_wait_for)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &small);
    for (int obstacle = 0; obstacle < OBSTACLES; obstacle++)
        for (int way = 0; way < 5; way++) {
            bzna_loader *loader = obstruct(obstacle, &m, dataset);
            bzna_loader_state state = state_of(loader);
            bzna_batch *batch;
            waiter w;
            uint64_t start;
            if (obstacle != BATCHES_WAIT) {
                start = bzi_os_now_ns();
                CHECK_EQ(bzna_loader_next(loader, 0, &batch, NULL), BZNA_AGAIN);
                CHECK_EQ(bzna_loader_next(loader, 2000000, &batch, NULL), BZNA_AGAIN);
                CHECK(ms_since(start) < HANG_NS * 1e-6);
            }
            start = bzi_os_now_ns();
            if (way == 0 && obstacle != BATCHES_WAIT) {     /* stop, from another thread than the one that waits */
                waiter_start(&w, loader);
                start = bzi_os_now_ns();
                CHECK_EQ(bzna_loader_stop(loader, NULL), BZNA_OK);
                pthread_join(w.thread, NULL);
                CHECK(w.status == BZNA_E_STOPPED && w.batch == NULL);
            }
            if (way == 1)
                CHECK_EQ(bzna_loader_reset(loader, 5, NULL), BZNA_OK);
            if (way == 2)
                CHECK_EQ(bzna_loader_restore(loader, &state, NULL), BZNA_OK);
            if (way == 3) {
                CHECK_EQ(bzna_loader_stop(loader, NULL), BZNA_OK);
                CHECK_EQ(bzna_loader_reset(loader, 5, NULL), BZNA_OK);
            }
            CHECK(ms_since(start) < HANG_NS * 1e-6);
            if (way == 1 && obstacle == LITTLE_MEMORY) {        /* and all goes on when the source does */
                uint64_t got[64];
                m.fault_count = 0;
                CHECK_EQ(bzna_loader_reset(loader, 6, NULL), BZNA_OK);
                CHECK_EQ(collect(loader, UINT64_MAX, got, 64), 40);
            }
            start = bzi_os_now_ns();
            CHECK_EQ(bzna_loader_close(loader), BZNA_OK);
            CHECK(ms_since(start) < HANG_NS * 1e-6);
        }
    bzna_dataset_close(dataset);
}

TEST(close_ends_a_thread_that_waits_in_next)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &small);
    for (int k = 0; k < 20; k++) {
        bzna_loader *loader = obstruct(k % 2, &m, dataset);
        waiter w;
        waiter_start(&w, loader);
        CHECK_EQ(bzna_loader_close(loader), BZNA_OK);
        pthread_join(w.thread, NULL);
        CHECK(w.status == BZNA_E_STOPPED && w.batch == NULL);
    }
    bzna_dataset_close(dataset);
}

static atomic_int slow_log_inside, slow_log_calls;
static pthread_t slow_log_not_here;
static void slow_log(void *user, int32_t level, bzna_status code, const char *message)
{
    (void)user;
    (void)level;
    (void)code;
    (void)message;
    slow_log_calls++;
    if (pthread_equal(pthread_self(), slow_log_not_here))
        return;
    slow_log_inside++;
    sleep_us(300000);
    slow_log_inside--;
}

/* What was given back is garbage from then on, and not soon something else: who still uses it notices. */
static void *quarantine[4096];
static atomic_int quarantined;
static void quarantine_release(void *user, void *ptr, size_t size)
{
    int n = quarantined++;
    (void)user;
    memset(ptr, 0xa5, size);
    if (n < (int)COUNT(quarantine))
        quarantine[n] = ptr;
    else
        free(ptr);
}

/* The thread in next is still delivering messages when everything else is closed. */
static void alone_close_while_next_delivers_messages(void)
{
    static const uint64_t bad[] = { 0, 1, 2 };
    archive broken = damage(&small, bad, 3);
    memory m;
    bzna_source source = memory_source(&m, &broken);
    bzna_context_config config;
    bzna_context *c = NULL;
    bzna_dataset *dataset = NULL;
    bzna_loader_config lc = config_of(10, BZNA_ORDER_SEQUENTIAL);
    bzna_loader *loader = NULL;
    waiter w;
    bzna_context_config_init(&config, sizeof config);
    config.log = slow_log;
    config.allocator.alloc = bzi_os_alloc;
    config.allocator.release = quarantine_release;
    require(bzna_context_open(&config, &c, NULL), "context");
    require(bzna_dataset_open_source(c, &source, NULL, &dataset, NULL), "dataset");
    break_sample(&m, dataset, 5, -5, -1);                   /* the batch never comes: an hour's pause */
    lc.read.retries = 1;
    lc.read.backoff_ns = 3600000000000;
    lc.read.threads = 2;
    slow_log_not_here = pthread_self();
    m.blocked = 1;                                          /* no message yet for open to deliver */
    loader = open_loader_in(c, dataset, &lc);
    m.blocked = 0;
    WAIT_FOR(m.failures == 1 && stats_of(loader).samples_failed == 3);
    waiter_start(&w, loader);
    bzna_loader_stop(loader, NULL);
    WAIT_FOR(slow_log_inside);                              /* next is done with the loader, but for the messages */
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    bzna_context_close(c);
    pthread_join(w.thread, NULL);
    CHECK_EQ(w.status, BZNA_E_STOPPED);
    CHECK(slow_log_calls >= 3);
    for (int i = 0; i < quarantined && i < (int)COUNT(quarantine); i++)
        free(quarantine[i]);
    archive_clear(&broken);
}
TEST(closing_waits_for_a_next_that_still_delivers_messages_or_leaves_it_what_it_needs)
{
    alone("close_while_next_delivers_messages");
}

typedef struct seeker { bzna_loader *loader; bzna_loader_state state; pthread_t thread; bzna_status status; } seeker;

static void *seek_run(void *argument)
{
    seeker *s = argument;
    s->status = bzna_loader_restore(s->loader, &s->state, NULL);
    return NULL;
}

/* A restore waits for the sample at hand; meanwhile another thread enters next; the restored run is at its end. */
TEST(a_next_that_begins_during_a_restore_learns_of_the_end)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &small);
    bzna_loader_config c = config_of(5, BZNA_ORDER_SEQUENTIAL);
    bzna_loader *loader;
    seeker s;
    waiter w;
    m.blocked = 1;
    c.read.threads = 1;
    loader = open_loader(dataset, &c);
    WAIT_FOR(m.inside == 1);
    s.loader = loader;
    s.state = state_at(loader, 1, 0);
    pthread_create(&s.thread, NULL, seek_run, &s);
    WAIT_FOR(peek(loader, &loader->queues.paused));
    waiter_start(&w, loader);
    m.blocked = 0;
    pthread_join(s.thread, NULL);
    CHECK_EQ(s.status, BZNA_OK);
    for (int i = 0; i < 2000 && !w.ended; i++)
        sleep_us(1000);
    CHECK(w.ended);
    if (!w.ended)
        bzna_loader_stop(loader, NULL);
    pthread_join(w.thread, NULL);
    CHECK_EQ(w.status, BZNA_END);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

static bzna_status slowly_refuse_1(void *user, const bzna_sample_info *sample, bzna_random *random,
                                   bzna_transform *transform)
{
    (void)user;
    (void)random;
    (void)transform;
    if (sample->index != 1)
        return BZNA_OK;
    sleep_us(60000);
    return -1;
}

TEST(a_replacement_is_read_by_an_idle_reader_while_another_pauses)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &small);
    for (int round = 0; round < 4; round++) {
        bzna_loader_config c = config_of(2, BZNA_ORDER_SEQUENTIAL);
        bzna_loader *loader;
        m.fault_count = 0;
        break_sample(&m, dataset, 0, -5, -1);
        c.read.retries = 1;
        c.read.backoff_ns = 3600000000000;
        c.errors.on_error = BZNA_ON_ERROR_REPLACE;
        c.pipeline.transform = slowly_refuse_1;
        c.errors.on_callback_error = BZNA_ON_CALLBACK_ERROR_SAMPLE;
        c.read.threads = 2;
        c.pipeline.batches_in_flight = 1;
        loader = open_loader(dataset, &c);
        for (int i = 0; i < 1000 && stats_of(loader).samples < 2; i++) /* the refused one, and its replacement */
            sleep_us(1000);
        CHECK_EQ(stats_of(loader).samples, 2);
        CHECK_EQ(stats_of(loader).replaced, 1);
        bzna_loader_close(loader);
    }
    bzna_dataset_close(dataset);
}

/* ---- 7. Reading -------------------------------------------------------------------------------------------------- */

static uint64_t uneven(uint64_t i) { return i % 4 == 3 ? 3000000 : i % 3 ? 100000 * (i % 7) : 0; }
static uint64_t even(uint64_t i) { (void)i; return 32000; }

TEST(all_samples_read_ahead_stay_under_the_ceiling)
{
    enum { CEILING = 5 << 20 };
    ledger l;
    bzna_context *c = open_context(&l, NULL);
    recipe r = { .count = 24, .base = 7, .letter = 'u', .padding = uneven };
    archive a = build(r);
    memory m;
    bzna_dataset *dataset = open_split(c, &m, &a, NULL);
    for (uint32_t readers = 1; readers <= 8; readers += 7)
        for (int decoding = 0; decoding < 2; decoding++) {
            bzna_loader_config lc = config_of(6, BZNA_ORDER_SHUFFLE);
            bzna_loader *loader;
            int64_t without;
            bzna_batch *batch;
            uint64_t good = 0, most = 0;
            lc.read.threads = readers;
            lc.read.ahead_samples = 16;
            lc.order.epochs = 4;
            lc.pipeline.batches_in_flight = 4;
            c->host->max_edge_px = decoding ? BZI_LIMIT_EDGE : 1; /* nothing is decoded: all frames are too large */
            lc.read.memory_bytes = 1; /* every sample is larger: no bytes are held, which shows what the rest takes */
            loader = open_loader_in(c, dataset, &lc);
            WAIT_FOR(stats_of(loader).stage[BZNA_STAGE_DELIVER].depth == 4);
            without = l.bytes;
            CHECK_EQ(stats_of(loader).read_memory_bytes, 0);
            bzna_loader_close(loader);
            lc.read.memory_bytes = CEILING;
            l.peak = 0;
            loader = open_loader_in(c, dataset, &lc);
            while ((batch = next_batch(loader)) != NULL) {
                bzna_batch_info info = info_of(batch);
                uint64_t held = stats_of(loader).read_memory_bytes;
                most = held > most ? held : most;
                for (uint32_t k = 0; decoding && k < info.count; k++) {
                    CHECK_EQ(info.status[k], BZNA_OK);
                    good += !memcmp((float *)info.image.data + k * SLOT, reference[info.indices[k] % 3],
                                    sizeof reference[0]);
                }
                bzna_batch_release(batch);
            }
            CHECK_EQ(good, decoding ? 96 : 0);
            CHECK(most <= CEILING && most > 0);
            if (!decoding)
                CHECK(l.peak - without <= CEILING && l.peak - without > 3000000);
            bzna_loader_close(loader);
        }
    bzna_dataset_close(dataset);
    bzna_context_close(c);
    check_settled(&l);
    archive_clear(&a);
}

TEST(a_sample_larger_than_the_ceiling_fails_alone)
{
    recipe r = { .count = 24, .base = 7, .letter = 'u', .padding = uneven };
    archive a = build(r);
    memory m;
    bzna_dataset *dataset = open_archive(&m, &a);
    for (uint32_t readers = 1; readers <= 16; readers *= 4) {
        bzna_loader_config c = config_of(8, BZNA_ORDER_SHUFFLE);
        bzna_loader *loader;
        bzna_batch *batch;
        uint64_t failed = 0;
        c.read.threads = readers;
        c.read.memory_bytes = 1000000;
        c.order.epochs = 2;
        loader = open_loader(dataset, &c);
        while ((batch = next_batch(loader)) != NULL) {
            bzna_batch_info info = info_of(batch);
            for (uint32_t k = 0; k < info.count; k++) {
                bzna_error e = { .struct_size = sizeof e };
                char name[32];
                snprintf(name, sizeof name, "sample %d: ", (int)info.indices[k]);
                CHECK_EQ(bzna_batch_error(batch, k, &e), uneven(info.indices[k]) > 1000000 ? BZNA_E_LIMIT : BZNA_OK);
                if (info.status[k] < 0) {
                    failed++;
                    CHECK_CONTAINS(e.message, "loader_config.read.memory_bytes");
                    CHECK_CONTAINS(e.message, name);
                    CHECK_EQ(info.targets[k], target_of(&a, info.indices[k]));
                } else {
                    CHECK(!memcmp((float *)info.image.data + k * SLOT, reference[info.indices[k] % 3],
                                  sizeof reference[0]));
                }
            }
            bzna_batch_release(batch);
        }
        CHECK_EQ(failed, 12);
        CHECK_EQ(stats_of(loader).failed_format, 12);
        CHECK(stats_of(loader).read_memory_bytes <= 1000000);
        bzna_loader_close(loader);
    }
    bzna_dataset_close(dataset);
    archive_clear(&a);
}

static bzna_status slowly_refuse_some(void *user, const bzna_sample_info *sample, bzna_random *random,
                                      bzna_transform *transform)
{
    (void)user;
    (void)random;
    (void)transform;
    if (sample->index % 5 != 0)
        return BZNA_OK;
    sleep_us(20000);
    return -1;
}

/* What a slot that is to be replaced holds must not be what its reader waits for. */
TEST(little_memory_and_replacements_do_not_wait_for_each_other)
{
    recipe r = { .count = 20, .base = 7, .letter = 'e', .padding = even };
    archive a = build(r);
    memory m;
    bzna_dataset *dataset = open_archive(&m, &a);
    for (uint32_t readers = 1; readers <= 4; readers++) {
        bzna_loader_config c = config_of(10, BZNA_ORDER_SEQUENTIAL);
        bzna_loader *loader;
        bzna_batch *batch = NULL;
        uint64_t batches = 0;
        c.read.threads = readers;
        c.errors.on_error = BZNA_ON_ERROR_REPLACE;
        c.pipeline.transform = slowly_refuse_some;
        c.errors.on_callback_error = BZNA_ON_CALLBACK_ERROR_SAMPLE;
        c.read.memory_bytes = 65536;                        /* one sample */
        loader = open_loader(dataset, &c);
        while (bzna_loader_next(loader, 2000000000, &batch, NULL) == BZNA_OK) {
            bzna_batch_info info = info_of(batch);
            CHECK(info.failed == 0 && info.replaced == 2);
            batches++;
            bzna_batch_release(batch);
        }
        CHECK_EQ(batches, 2);
        bzna_loader_close(loader);
    }
    bzna_dataset_close(dataset);
    archive_clear(&a);
}

/* As many reads at once as there are readers; when those return, as many again. Rates are left to benchmarks. */
TEST(many_readers_make_up_for_a_slow_source)
{
    enum { READERS = 32, AHEAD = 64 };
    memory m;
    bzna_dataset *slow = open_archive(&m, &heavy);
    bzna_loader_config c = config_of(32, BZNA_ORDER_SHUFFLE);
    bzna_loader *loader;
    bzna_batch *batch;
    c.read.threads = READERS;
    c.read.ahead_samples = AHEAD;
    c.pipeline.batches_in_flight = 4;
    c.order.epochs = BZNA_EPOCHS_ENDLESS;
    m.blocked = 1;
    loader = open_loader(slow, &c);
    for (int round = 0; round < ROUNDS(4, 2); round++) {
        WAIT_FOR(m.inside == READERS);
        m.blocked = 0;
        for (int i = 0; i < 8 && (batch = next_batch(loader)) != NULL; i++)
            bzna_batch_release(batch);
        m.blocked = 1;                                      /* what was read is taken, which makes room for reads */
        for (int i = 0; i < 60000 && m.inside < READERS; i++)
            if (bzna_loader_next(loader, 1000000, &batch, NULL) == BZNA_OK)
                bzna_batch_release(batch);
    }
    m.blocked = 0;
    bzna_loader_close(loader);
    bzna_dataset_close(slow);
}

/* ---- 8. Statistics ----------------------------------------------------------------------------------------------- */

TEST(stage_counts_add_up)
{
    static const uint64_t bad[] = { 4, 22 };
    archive broken = damage(&small, bad, 2);
    memory m;
    bzna_dataset *dataset = open_archive(&m, &broken);
    bzna_loader_config c = config_of(7, BZNA_ORDER_SHUFFLE);
    bzna_statistics stats;
    bzna_loader *loader;
    bzna_batch *batch;
    uint64_t bytes = 0, decoded = 0, offset, size, batches = 0;
    for (uint64_t i = 0; i < 40; i++) {
        locate(dataset, i, &offset, &size);
        bytes += i == 30 ? 0 : size;
        decoded += i == 30 || i == 4 || i == 22 ? 0 : size;
    }
    break_sample(&m, dataset, 30, -5, -1);
    c.order.epochs = 3;
    c.read.threads = 3;
    loader = open_loader(dataset, &c);
    while ((batch = next_batch(loader)) != NULL) {
        bzna_batch_release(batch);
        stats = stats_of(loader);
        batches++;
        CHECK_EQ(stats.stage[BZNA_STAGE_DELIVER].count, batches);
        CHECK(stats.stage[BZNA_STAGE_READ].count >= stats.samples &&
              stats.samples >= stats.stage[BZNA_STAGE_WARP].count);
        for (int k = 0; k < 4; k++)
            CHECK(stats.stage[k].depth <= stats.stage[k].capacity || k == BZNA_STAGE_WARP);
    }
    stats = stats_of(loader);
    CHECK_EQ(batches, 18);
    CHECK(stats.samples == 120 && stats.samples_failed == 9 && stats.failed_read == 3 && stats.failed_format == 6 &&
          stats.failed_decode == 0 && stats.failed_other == 0);
    CHECK(stats.stage[BZNA_STAGE_READ].count == 120 && stats.stage[BZNA_STAGE_READ].bytes == 3 * bytes);
    CHECK(stats.stage[BZNA_STAGE_DECODE].count == 111 && stats.stage[BZNA_STAGE_DECODE].bytes == 3 * decoded);
    CHECK(stats.stage[BZNA_STAGE_WARP].count == 111 && stats.stage[BZNA_STAGE_WARP].bytes == 111 * SLOT * 4);
    CHECK(stats.stage[BZNA_STAGE_DELIVER].count == 18 && stats.stage[BZNA_STAGE_DELIVER].bytes == 120 * SLOT * 4);
    CHECK(stats.stage[BZNA_STAGE_READ].depth == 0 && stats.stage[BZNA_STAGE_DECODE].depth == 0 &&
          stats.stage[BZNA_STAGE_DELIVER].depth == 0);
    CHECK(stats.stage[BZNA_STAGE_DELIVER].capacity == 3 && stats.stage[BZNA_STAGE_DECODE].busy_ns > 0 &&
          stats.stage[BZNA_STAGE_WARP].busy_ns > 0);
    CHECK(stats.replaced == 0 && stats.retries == 0);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    archive_clear(&broken);
}

/* What limits a loader of which the source (0), the decoder (1) or the consumer (2) is slow. */
static uint32_t limiting_stage(int way)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, way == 1 ? &heavy : &small);
    bzna_loader_config c = config_of(8, BZNA_ORDER_SHUFFLE);
    bzna_batch *batch;
    c.decode.threads = way == 1 ? 1 : 2;
    c.order.epochs = BZNA_EPOCHS_ENDLESS;
    m.delay_us = way == 0 ? (EMULATED ? 250000 : SANITIZED ? 60000 : 25000) : 0;
    bzna_loader *loader = open_loader(dataset, &c);
    for (int i = 0; i < 8 && (batch = next_batch(loader)) != NULL; i++) {
        sleep_us(way == 2 ? (SANITIZED ? 600000 : 300000) : 0);
        bzna_batch_release(batch);
    }
    const uint32_t stage = stats_of(loader).limiting_stage;
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    return stage;
}

/* Tried again, since other programs may hold up any of the threads. */
TEST(what_limits_is_the_source_the_decoder_or_the_consumer)
{
    static const uint32_t expected[] = { BZNA_STAGE_READ, BZNA_STAGE_DECODE, BZNA_STAGE_DELIVER };
    for (int way = 0; way < 3; way++) {
        uint32_t stage = BZNA_STAGE_NONE;
        for (int i = 0; i < 5 && stage != expected[way]; i++)
            stage = limiting_stage(way);
        CHECK_EQ(stage, expected[way]);
    }
}

/* ---- 9. Fields, slices, the caller's memory ---------------------------------------------------------------------- */

TEST(fields_say_what_a_batch_holds)
{
    static const struct { const char *name; uint32_t dtype, dimensions; } expected[] = {
        { "image", BZNA_DTYPE_FLOAT32, 4 }, { "target", BZNA_DTYPE_INT64, 1 }, { "index", BZNA_DTYPE_UINT64, 1 },
        { "status", BZNA_DTYPE_INT32, 1 },
    };
    memory m;
    bzna_dataset *dataset = open_archive(&m, &small);
    bzna_loader_config c = plan_of(7, BZNA_ORDER_SHUFFLE);
    bzna_loader *loader;
    bzna_batch *batch;
    bzna_tensor field;
    uint64_t real = 0;
    c.output.width = 24;
    c.order.last_batch = BZNA_LAST_PAD;
    loader = open_loader(dataset, &c);
    for (uint32_t i = 0; i < 4; i++) {
        memset(&field, 0, sizeof field);
        field.struct_size = sizeof field;
        CHECK_EQ(bzna_loader_tensor(loader, i, &field, sizeof field, NULL), BZNA_OK);
        CHECK_STR(field.name, expected[i].name);
        CHECK(field.dtype == expected[i].dtype && field.dimensions == expected[i].dimensions && field.shape[0] == 7);
        CHECK(field.device.kind == (TEST_NVDEC == 2 && !i ? BZNA_DEVICE_CUDA : BZNA_DEVICE_CPU) &&
              field.device.ordinal == 0);
        CHECK(field.shape[1] == (i ? 0 : 3) && field.shape[2] == (i ? 0 : SIDE) && field.shape[3] == (i ? 0 : 24));
    }
    CHECK_EQ(bzna_loader_tensor(loader, 4, &field, sizeof field, NULL), BZNA_E_RANGE);
    CHECK_EQ(bzna_loader_tensor(loader, UINT32_MAX, &field, sizeof field, NULL), BZNA_E_RANGE);
    CHECK_EQ(bzna_loader_tensor(loader, 0, NULL, sizeof field, NULL), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_loader_tensor(NULL, 0, &field, sizeof field, NULL), BZNA_E_ARGUMENT);
    while ((batch = next_batch(loader)) != NULL) { /* padded: always that shape; count says how many are real */
        bzna_batch_info info = info_of(batch);
        CHECK(info.image.shape[0] == 7 && info.image.shape[1] == 3 && info.image.shape[2] == SIDE &&
              info.image.shape[3] == 24);
        CHECK_EQ(info.count, info.last_of_epoch ? 5 : 7);
        real += info.count;
        bzna_batch_release(batch);
    }
    CHECK_EQ(real, 40);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

/* The caller's memory: where the batches are to lie. */
static uint8_t *own_memory(size_t size)
{
#if TEST_NVDEC == 2
    return nvdec_alloc(context, size);
#else
    return malloc(size);
#endif
}

static void own_memory_free(uint8_t *p)
{
#if TEST_NVDEC == 2
    nvdec_free(context, p);
#else
    free(p);
#endif
}

TEST(slices_and_the_callers_buffers_hold_the_same_and_nothing_else_is_written)
{
    enum { BATCH = 12, FLIGHT = 2, GUARD = 64 };
    static const uint8_t guard = 0xa7;
    static float whole[44][SLOT];
    memory m;
    bzna_dataset *dataset = open_archive(&m, &small);
    for (uint32_t slices = 1; slices <= BATCH; slices++) {
        for (int own = 0; own < 2; own++)
            for (uint32_t policy = 0; policy < 3; policy += 2) {
                bzna_loader_config c = config_of(BATCH, BZNA_ORDER_SHUFFLE);
                uint32_t each = BATCH / slices;
                size_t bytes = (size_t)each * SLOT * 4, room = bytes + 2 * GUARD;
                uint8_t *memory_of = own_memory(FLIGHT * BATCH * room + 64);
                bzna_buffer buffers[FLIGHT * BATCH];
                bzna_loader *loader = NULL;
                bzna_error e = { .struct_size = sizeof e };
                bzna_batch *batch;
                uint64_t number = 0, at = 0;
                REQUIRE(memory_of != NULL);
                memset(memory_of, guard, FLIGHT * BATCH * room + 64);
                c.warp.kind = BZNA_WARP_RANDOM_RESIZED_CROP;
                c.order.last_batch = policy;
                c.pipeline.batches_in_flight = FLIGHT;
                c.output.slices = slices;
                for (uint32_t i = 0; i < FLIGHT * slices; i++)
                    buffers[i] = (bzna_buffer){ memory_of + 4 + i * room + GUARD, bytes }; /* aligned to 4 bytes only */
                if (own) {
                    c.output.buffers = buffers;
                    c.output.buffer_count = FLIGHT * slices;
                }
                if (BATCH % slices) {
                    CHECK_EQ(bzna_loader_open(context, dataset, &c, &loader, &e), BZNA_E_ARGUMENT);
                    CHECK_CONTAINS(e.message, "loader_config.output.slices");
                    own_memory_free(memory_of);
                    continue;
                }
                loader = open_loader(dataset, &c);
                while ((batch = next_batch(loader)) != NULL) {
                    bzna_batch_info info = info_of(batch);
                    CHECK_EQ(info.slice_count, slices);
                    CHECK_EQ(info.slice_slots, each);
                    for (uint32_t s = 0; s < slices; s++) {
                        uint32_t filled = info.image.shape[0] <= s * each ?
                                              0 :
                                              (uint32_t)bzi_min(each, (uint64_t)info.image.shape[0] - s * each);
                        const void *data = info.slices[s];
                        CHECK(s > 0 || data == info.image.data);
                        CHECK(own || (uintptr_t)info.image.data % 64 == 0);
                        if (own)
                            CHECK(data == buffers[s].data || data == buffers[slices + s].data);
                        for (uint32_t k = 0; k < filled; k++) {
                            const float *slot = (const float *)data + (size_t)k * SLOT;
                            uint64_t sample = number * BATCH + s * each + k;
                            if (slices == 1 && !own && sample < 40)
                                memcpy(whole[sample], slot, sizeof whole[0]);
                            CHECK(!memcmp(whole[sample % 40], slot, sizeof whole[0]));
                        }
                    }
                    CHECK_EQ(info.count, number == 3 ? 4 : BATCH);
                    at += info.count;
                    number++;
                    bzna_batch_release(batch);
                }
                CHECK_EQ(at, 40);
                bzna_loader_close(loader);
                for (uint32_t i = 0; i < FLIGHT * slices; i++)
                    for (size_t k = 0; k < room; k++) {
                        uint8_t byte = memory_of[4 + i * room + k];
                        if (k < GUARD || k >= GUARD + bytes || !own)
                            REQUIRE(byte == guard);
                    }
                own_memory_free(memory_of);
            }
    }
    bzna_dataset_close(dataset);
}

TEST(buffers_that_do_not_fit_are_refused)
{
    enum { FULL = 2 * SLOT * 4, HALF = FULL / 2 };          /* a batch of two */
    static float block[4][2 * SLOT];
    static const struct {
        bzna_status status;
        uint32_t    dtype, slices, count;
        uint64_t    bytes;
        const char *says, *needed;
    } ways[] = {
        { BZNA_E_ARGUMENT, BZNA_DTYPE_FLOAT32, 1, 3, FULL, "buffers, buffer_count", "3 buffers for 4 batches" },
        { BZNA_E_ARGUMENT, BZNA_DTYPE_FLOAT32, 1, 0, FULL, "buffers, buffer_count", "0 buffers for 4 batches" },
        { BZNA_E_ARGUMENT, BZNA_DTYPE_FLOAT32, 1, 4, FULL, "buffers[2].data", "NULL" },
        { BZNA_E_ARGUMENT, BZNA_DTYPE_FLOAT32, 1, 4, FULL, "buffers[2].data", "aligned" },
        { BZNA_E_BUFFER, BZNA_DTYPE_FLOAT32, 1, 4, FULL - 1, "buffers[2].bytes", "of 2 samples" },
        { BZNA_E_BUFFER, BZNA_DTYPE_FLOAT32, 1, 4, 0, "buffers[2].bytes: 0", "of 2 samples" },
        { BZNA_E_BUFFER, BZNA_DTYPE_FLOAT16, 1, 4, HALF - 1, "buffers[2].bytes", "of 2 samples" },
        { BZNA_E_BUFFER, BZNA_DTYPE_FLOAT32, 2, 8, HALF - 1, "buffers[2].bytes", "of 1 samples" },
        { BZNA_E_BUFFER, BZNA_DTYPE_FLOAT16, 2, 8, HALF / 2 - 1, "buffers[2].bytes", "of 1 samples" },
    };
    memory m;
    bzna_dataset *dataset = open_archive(&m, &small);
    for (size_t k = 0; k < sizeof ways / sizeof ways[0]; k++) {
        bzna_loader_config c = config_of(2, BZNA_ORDER_SHUFFLE);
        bzna_error e = { .struct_size = sizeof e };
        bzna_loader *loader = (bzna_loader *)&m;
        const uint64_t enough = (uint64_t)(ways[k].dtype == BZNA_DTYPE_FLOAT16 ? HALF : FULL) / ways[k].slices;
        bzna_buffer buffers[8];
        char name[64];
        for (uint32_t i = 0; i < 8; i++)                    /* only the third is too small */
            buffers[i] = (bzna_buffer){ block[i % 4], i == 2 ? ways[k].bytes : enough };
        c.pipeline.batches_in_flight = 4;
        c.output.dtype = ways[k].dtype;
        c.output.slices = ways[k].slices;
        c.output.buffers = buffers;
        c.output.buffer_count = ways[k].count;
        if (k == 2)
            buffers[2].data = NULL;
        if (k == 3)
            buffers[2].data = (uint8_t *)buffers[2].data + 2;
        snprintf(name, sizeof name, "loader_config.output.%s", ways[k].says);
        CHECK_EQ(bzna_loader_open(context, dataset, &c, &loader, &e), ways[k].status);
        CHECK(loader == NULL);
        CHECK_CONTAINS(e.message, name);
        CHECK_CONTAINS(e.message, ways[k].needed);
    }
    bzna_dataset_close(dataset);
}

/* ---- 10. Threads ------------------------------------------------------------------------------------------------- */

/* The threads that came after `before`, in the order in which they were started. */
static int threads_since(const int *before, int before_count, int *tids, int room)
{
    int all[256], n = entries("/proc/self/task", all, 256), found = 0;
    for (int i = 0; i < n && i < 256; i++) {
        int old = 0;
        for (int k = 0; k < before_count; k++)
            old |= all[i] == before[k];
        if (!old && found < room)
            tids[found++] = all[i];
    }
    for (int i = 1; i < found; i++)
        for (int k = i; k > 0 && tids[k] < tids[k - 1]; k--) {
            int t = tids[k];
            tids[k] = tids[k - 1];
            tids[k - 1] = t;
        }
    return found;
}

TEST(threads_run_on_the_processors_given_decoders_first)
{
    if (ON_WINDOWS)
        SKIP("there is no /proc here");
    if (TEST_NVDEC)
        SKIP("it counts a loader's threads, and the fake driver has some");
    memory m;
    bzna_dataset *dataset = open_archive(&m, &small);
    bzna_loader_config c = plan_of(4, BZNA_ORDER_SHUFFLE);
    int32_t cpus[2] = { -1, -1 }, given[2];
    int before[64], n = entries("/proc/self/task", before, 64), tids[16];
    cpu_set_t mine, set;
    bzna_loader *loader;
    CHECK_EQ(sched_getaffinity(0, sizeof mine, &mine), 0);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET((size_t)i, &mine)) {
            if (cpus[0] < 0)
                cpus[0] = i;
            else if (cpus[1] < 0)
                cpus[1] = i;
        }
    if (cpus[1] < 0)
        cpus[1] = cpus[0];
    given[0] = cpus[1];
    given[1] = cpus[0];
    c.decode.threads = 3;
    c.read.threads = 2;
    c.pipeline.cpus = given;
    c.pipeline.cpu_count = 2;
    loader = open_loader(dataset, &c);
    CHECK_EQ(threads_since(before, n, tids, 16), 5);
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(sched_getaffinity(tids[i], sizeof set, &set), 0);
        CHECK_EQ(CPU_COUNT(&set), 1);
        CHECK(CPU_ISSET((size_t)cpus[(i + 1) % 2], &set));
    }
    CHECK_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    CHECK(CPU_EQUAL(&set, &mine));                          /* the caller's own thread was left alone */
    bzna_loader_close(loader);
    c.pipeline.cpus = NULL;                                 /* without: wherever the caller may run */
    c.pipeline.cpu_count = 0;
    CHECK(threads_are_at_most(n));
    loader = open_loader(dataset, &c);
    CHECK_EQ(threads_since(before, n, tids, 16), 5);
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(sched_getaffinity(tids[i], sizeof set, &set), 0);
        CHECK(CPU_EQUAL(&set, &mine));
    }
    bzna_loader_close(loader);
    CHECK(threads_are_at_most(n));
    bzna_dataset_close(dataset);
}

TEST(a_processor_that_is_not_there_is_an_error_that_leaves_nothing_behind)
{
    static const int32_t ways[][3] = { { 1023, 1023, 1023 }, { 0, 1023, 0 },      { 0, 0, 1023 },
                                       { 0, 0, 100000 },     { INT32_MAX, 0, 0 }, { 0, -1, 0 } };
    ledger l;
    bzna_context *c = open_context(&l, NULL);
    memory m;
    bzna_dataset *dataset = open_split(c, &m, &small, NULL);
    int64_t bytes = l.bytes;
    int threads = threads_now(), fds = entries("/proc/self/fd", NULL, 0);
    for (size_t w = 0; w < COUNT(ways); w++) {
        bzna_loader_config lc = plan_of(4, BZNA_ORDER_SHUFFLE);
        bzna_error e = { .struct_size = sizeof e };
        bzna_loader *loader = (bzna_loader *)&m;
        lc.decode.threads = 2;
        lc.pipeline.cpus = ways[w];
        lc.pipeline.cpu_count = 3;
        CHECK_EQ(bzna_loader_open(c, dataset, &lc, &loader, &e), w == 5 ? BZNA_E_ARGUMENT : BZNA_E_THREAD);
        CHECK(loader == NULL);
        CHECK_CONTAINS(e.message, "cpus");
        CHECK_CONTAINS(e.message, w == 5 ? "-1" : w == 3 ? "100000" : w == 4 ? "2147483647" : "1023");
        CHECK_EQ(l.bytes, bytes);
        CHECK(TEST_NVDEC || threads_are_at_most(threads)); /* the fake driver starts its own when it likes */
        CHECK_EQ(entries("/proc/self/fd", NULL, 0), fds);
    }
    bzna_dataset_close(dataset);
    bzna_context_close(c);
    check_settled(&l);
}

static _Atomic int64_t signal_hits, signal_elsewhere;
static pthread_t signal_main;
static void on_signal(int number)
{
    (void)number;
    signal_hits++;
    if (!pthread_equal(pthread_self(), signal_main))
        signal_elsewhere++;
}

static int blocks_what_it_should(int tid)
{
    char path[64], line[256];
    unsigned long long blocked = 0, expected = 0;
    FILE *f;
    for (int s = 1; s < 32; s++)                            /* SIGKILL and SIGSTOP cannot be blocked */
        if (s != SIGKILL && s != SIGSTOP && s != SIGSEGV && s != SIGBUS && s != SIGFPE && s != SIGILL && s != SIGTRAP &&
            s != SIGSYS)
            expected |= 1ull << (s - 1);
    snprintf(path, sizeof path, "/proc/self/task/%d/status", tid);
    if ((f = fopen(path, "r")) == NULL)
        return 0;
    while (fgets(line, sizeof line, f))
        sscanf(line, "SigBlk: %llx", &blocked);
    fclose(f);
    return (blocked & 0x7fffffff) == expected;
}

TEST(the_librarys_threads_block_signals_but_those_that_a_thread_causes_itself)
{
    if (ON_WINDOWS)
        SKIP("there are no signals here");
    if (TEST_NVDEC)
        SKIP("it counts a loader's threads, and the fake driver has some");
    memory m;
    bzna_dataset *dataset = open_archive(&m, &small);
    bzna_loader_config c = plan_of(4, BZNA_ORDER_SHUFFLE);
    struct sigaction action, old;
    sigset_t now;
    int before[64], n = entries("/proc/self/task", before, 64), tids[16], found;
    bzna_loader *loader;
    c.decode.threads = 3;
    c.read.threads = 2;
    m.blocked = 1;
    loader = open_loader(dataset, &c);
    found = threads_since(before, n, tids, 16);
    CHECK_EQ(found, 5);
    for (int i = 0; i < found; i++)
        WAIT_FOR(blocks_what_it_should(tids[i]));           /* a thread that is still starting blocks all */
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    CHECK(!sigismember(&now, SIGUSR1) && !sigismember(&now, SIGTERM));     /* the caller's mask is as it was */
    signal_main = pthread_self();
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    sigaction(SIGUSR1, &action, &old);
    for (int i = 0; i < 20; i++)
        kill(getpid(), SIGUSR1);
    WAIT_FOR(signal_hits > 0);
    CHECK_EQ(signal_elsewhere, 0);
    sigaction(SIGUSR1, &old, NULL);
    m.blocked = 0;
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

TEST(hundreds_of_loaders_closed_in_any_phase_leave_no_thread_byte_or_file)
{
    const char *path = scratch("cycles");
    static const uint64_t bad[] = { 3, 8 };
    archive broken = damage(&small, bad, 2);
    FILE *f = fopen(path, "wb");
    ledger l;
    int threads = threads_now(), fds;
    bzna_context *c = open_context(&l, NULL);
    uint64_t dices = 99;
    REQUIRE(f != NULL);
    CHECK_EQ(fwrite(broken.bytes, 1, (size_t)broken.size, f), broken.size);
    fclose(f);
    fds = entries("/proc/self/fd", NULL, 0);
    for (int cycle = 0; cycle < ROUNDS(1000, 300); cycle++) {
        bzna_loader_config lc = cycle % 4 ? plan_of(4, BZNA_ORDER_SHUFFLE) : config_of(4, BZNA_ORDER_SHUFFLE);
        bzna_dataset *dataset = NULL;
        bzna_loader *loader;
        bzna_batch *held[2] = { NULL, NULL };
        require(bzna_dataset_open(c, path, NULL, &dataset, NULL), "dataset");
        lc.decode.threads = 1 + (uint32_t)(dice(&dices) % 2);
        lc.read.threads = 1 + (uint32_t)(dice(&dices) % 3);
        lc.errors.on_error = (uint32_t)(dice(&dices) % 3);
        loader = open_loader_in(c, dataset, &lc);
        bzna_dataset_close(dataset);
        for (uint64_t k = dice(&dices) % 4; k > 0; k--) {
            bzna_batch *batch = NULL;
            switch (dice(&dices) % 5) {
            case 0: bzna_loader_stop(loader, NULL); break;
            case 1: bzna_loader_reset(loader, dice(&dices), NULL); break;
            case 2: sleep_us((int)(dice(&dices) % 800)); break;
            default:
                bzna_loader_next(loader, dice(&dices) % 2 ? 0 : 1000000, &batch, NULL);
                if (batch && !held[k % 2])
                    held[k % 2] = batch;
                else
                    bzna_batch_release(batch);
            }
        }
        if (cycle % 2)
            bzna_batch_release(held[0]);
        bzna_loader_close(loader);
        if (cycle % 2 == 0)
            bzna_batch_release(held[0]);
        bzna_batch_release(held[1]);
        if (cycle % 100 == 99) {
            CHECK(TEST_NVDEC || threads_are_at_most(threads));
            CHECK_EQ(entries("/proc/self/fd", NULL, 0), fds);
        }
    }
    bzna_context_close(c);
    CHECK(threads_are_at_most(threads));
    check_settled(&l);
    remove(path);
    archive_clear(&broken);
}

/* ---- Stress ------------------------------------------------------------------------------------------------------ */

typedef struct stress {
    bzna_loader     *loader;          /* under lock: users share it, whoever closes has it alone */
    pthread_rwlock_t lock;
    atomic_int       closing, quit;
    _Atomic int64_t  batches, wrong, ops, ended;
} stress;

typedef struct stress_thread { stress *s; pthread_t thread; uint64_t dices; } stress_thread;

static int stress_enter(stress *s)
{
    while (s->closing && !s->quit)
        sleep_us(100);
    if (s->quit)
        return 0;
    pthread_rwlock_rdlock(&s->lock);
    return 1;
}

static void stress_check(stress *s, bzna_batch *batch)
{
    bzna_batch_info info = info_of(batch);
    s->batches++;
    for (uint32_t k = 0; k < info.image.shape[0]; k++) {
        int is_bad = info.indices[k] == 3 || info.indices[k] == 8;
        if (info.targets[k] != target_of(&small, info.indices[k]) || (info.status[k] != BZNA_OK) != is_bad ||
            (!is_bad &&
             memcmp((float *)info.image.data + k * SLOT, reference[info.indices[k] % 3], sizeof reference[0])))
            s->wrong++;
    }
}

static void *stress_consume(void *argument)
{
    stress_thread *t = argument;
    stress *s = t->s;
    bzna_batch *held = NULL;
    void *tensor = NULL;
    while (stress_enter(s)) {
        bzna_batch *batch = NULL;
        bzna_status status = BZNA_END;
        if (s->loader)
            status = bzna_loader_next(s->loader, (int64_t)(dice(&t->dices) % 4) * 1000000, &batch, NULL);
        pthread_rwlock_unlock(&s->lock);
        s->ops++;
        if (tensor && dice(&t->dices) % 2) {
            bzi_dl_managed *managed = tensor;
            managed->deleter(managed);
            tensor = NULL;
        }
        if (held && dice(&t->dices) % 2) {
            s->wrong += bzna_batch_release(held) != BZNA_OK;
            held = NULL;
        }
        if (batch) {
            stress_check(s, batch);
            if (!tensor && dice(&t->dices) % 3 == 0)
                s->wrong += bzna_batch_to_dlpack(batch, tensor_names[dice(&t->dices) % 4], BZNA_DLPACK_0, &tensor,
                                                 NULL) != BZNA_OK;
            if (!held && dice(&t->dices) % 2)
                held = batch;                               /* perhaps beyond the loader's end */
            else
                s->wrong += bzna_batch_release(batch) != BZNA_OK;
        } else if (status != BZNA_AGAIN) {
            s->wrong += status != BZNA_END && status != BZNA_E_STOPPED && status != BZNA_E_STATE;
            s->ended += status == BZNA_END;
            sleep_us(200);
        }
    }
    if (tensor)
        ((bzi_dl_managed *)tensor)->deleter(tensor);
    bzna_batch_release(held);
    return NULL;
}

/* Between two resets and in one loader's life there must be time for batches. */
#define UNHURRIED (SANITIZED && TEST_NVDEC ? 6 : 1)

static void *stress_control(void *argument)
{
    stress_thread *t = argument;
    stress *s = t->s;
    bzna_loader_state state;
    int have = 0;
    while (stress_enter(s)) {
        if (s->loader) {
            bzna_loader_info info;
            bzna_statistics stats;
            bzna_tensor field = { .struct_size = sizeof field };
            bzna_status status = BZNA_OK;
            switch (dice(&t->dices) % 8) {
            case 0:
                status = bzna_loader_stop(s->loader, NULL);
                break;
            case 1: case 2:
                status = bzna_loader_reset(s->loader, dice(&t->dices) % 5, NULL);
                break;
            case 3:
                status = bzna_loader_save(s->loader, &state, sizeof state, NULL);
                have = 1;
                break;
            case 4:
                status = have ? bzna_loader_restore(s->loader, &state, NULL) : BZNA_OK;
                break;
            case 5:
                status = bzna_loader_get_info(s->loader, &info, sizeof info, NULL);
                s->wrong += info.batches_per_epoch != 8;
                break;
            case 6:
                status = bzna_loader_statistics(s->loader, &stats, sizeof stats, NULL);
                break;
            default:
                status = bzna_loader_tensor(s->loader, 0, &field, sizeof field, NULL);
                break;
            }
            s->wrong += status != BZNA_OK && status != BZNA_E_STATE;
        }
        pthread_rwlock_unlock(&s->lock);
        s->ops++;
        sleep_us((int)(dice(&t->dices) % (12000 * UNHURRIED)));
    }
    return NULL;
}

TEST(start_stop_reset_restore_next_release_and_close_at_random_from_many_threads)
{
    static const uint64_t bad[] = { 3, 8 };
    archive broken = damage(&small, bad, 2);
    double seconds = stress_seconds();
    int before = threads_now();
    ledger l;
    bzna_context *c = open_context(&l, NULL);
    memory m;
    bzna_dataset *dataset = open_split(c, &m, &broken, NULL);
    static stress s;
    stress_thread threads[5];
    uint64_t dices = 2024, start = bzi_os_now_ns(), lives = 0;
    memset(&s, 0, sizeof s);
    pthread_rwlock_init(&s.lock, NULL);
    for (int i = 0; i < 5; i++) {
        threads[i].s = &s;
        threads[i].dices = 1000 + (uint64_t)i;
        pthread_create(&threads[i].thread, NULL, i < 3 ? stress_consume : stress_control, &threads[i]);
    }
    /* On a busy machine it takes longer until there was something to see. */
    while (ms_since(start) < 1000 * seconds || ((s.batches <= 5 || lives <= 5) && ms_since(start) < HANG_NS * 1e-6)) {
        bzna_loader_config lc = config_of(5, BZNA_ORDER_SHUFFLE);
        bzna_loader *loader;
        lc.decode.threads = 1 + (uint32_t)(dice(&dices) % 3);
        lc.read.threads = 1 + (uint32_t)(dice(&dices) % 3);
        lc.pipeline.batches_in_flight = 1 + (uint32_t)(dice(&dices) % 4);
        lc.read.ahead_samples = (uint32_t)(dice(&dices) % 5);
        lc.order.epochs = dice(&dices) % 2 ? 1 : BZNA_EPOCHS_ENDLESS;
        lc.read.memory_bytes = dice(&dices) % 2 ? 30000 : 0;
        m.delay_us = dice(&dices) % 4 ? 0 : 500;
        loader = open_loader_in(c, dataset, &lc);
        s.closing = 1;
        pthread_rwlock_wrlock(&s.lock);
        s.loader = loader;
        s.closing = 0;
        pthread_rwlock_unlock(&s.lock);
        sleep_us((int)(dice(&dices) % (120000 * UNHURRIED)));
        s.closing = 1;
        pthread_rwlock_wrlock(&s.lock);
        s.loader = NULL;
        bzna_loader_close(loader);
        s.closing = 0;
        pthread_rwlock_unlock(&s.lock);
        lives++;
    }
    s.quit = 1;
    for (int i = 0; i < 5; i++)
        pthread_join(threads[i].thread, NULL);
    pthread_rwlock_destroy(&s.lock);
    printf("stress: %.0f s, %d loaders, %d batches, %d calls, %d ends\n", ms_since(start) / 1000, (int)lives,
           (int)s.batches, (int)s.ops, (int)s.ended);
    CHECK_EQ(s.wrong, 0);
    CHECK(s.batches > 5 && lives > 5);
    bzna_dataset_close(dataset);
    bzna_context_close(c);
    check_settled(&l);
    CHECK(threads_are_at_most(before));
    archive_clear(&broken);
}

/* ---- Main -------------------------------------------------------------------------------------------------------- */

/* These decode nothing, so that a decoder changes nothing. */
static void plans(void)
{
    RUN(loaders_take_the_stored_orders)
    RUN(an_order_is_the_same_from_whatever_position_it_is_entered)
    RUN(every_world_up_to_64_deals_each_position_once_in_equally_many_batches)
    RUN(loaders_of_any_world_take_the_positions_that_the_sampler_of_torch_would)
    RUN(any_chain_of_worlds_takes_each_position_of_an_epoch_exactly_once)
}

static void everything(void)
{
    if (!TEST_NVDEC || test_wanted || test_all())
        plans();
    else
        puts("LEFT orders on the fake driver");
    RUN(an_index_list_with_repeats_is_the_epoch_in_its_order_or_shuffled)
    RUN(ranges_and_concatenations_of_each_other_hold_what_arithmetic_says)
    RUN(a_data_set_has_at_most_65536_archives)
    RUN(a_failing_sample_of_a_concatenation_names_its_archive_and_its_number_there)
    RUN(splits_are_the_samples_that_were_written_into_them)
    RUN(an_archive_with_splits_still_plays)
    RUN(two_ranges_split_a_data_set_by_position)
    RUN(the_next_epoch_is_ready_before_the_last_batch_of_this_one_is_taken)
    RUN(reset_gives_the_order_of_a_loader_opened_at_that_epoch)
    RUN(a_run_goes_on_in_another_process_with_other_threads_and_another_world)
    RUN(a_state_of_other_samples_list_or_order_is_refused)
    RUN(a_state_of_a_view_is_refused_by_views_of_other_lengths_of_the_same_parts)
    RUN(any_seed_can_be_restored_at_once)
    RUN(restoring_far_into_ten_thousand_million_samples_takes_under_a_millisecond)
    RUN(the_published_test_vectors_hold)
    RUN(the_transform_callback_gets_the_generator_of_its_seed_epoch_and_sample)
    RUN(a_sample_that_is_drawn_more_than_once_is_warped_differently_each_time)
    RUN(a_random_resized_crop_is_torchvisions_unless_another_law_is_asked_for)
    RUN(a_state_of_version_0_3_is_restored) RUN(a_state_is_refused_by_a_loader_that_makes_other_pixels)
    RUN(a_state_tells_the_callbacks_of_transforms_and_pictures_apart)
    RUN(without_a_track_the_size_of_the_output_decides_between_thumbnail_and_picture)
    RUN(what_would_have_no_effect_is_refused_when_a_loader_opens)
    RUN(replacing_takes_the_next_sample_of_the_rank_that_can_be_had_whatever_the_threads)
    RUN(a_replacement_in_an_epochs_last_batch_is_of_that_epochs_order)
    RUN(replacing_gives_up_after_64_samples_and_says_why)
    RUN(stopping_at_an_error_delivers_what_comes_before_and_then_the_error_for_ever)
    RUN(stopping_reports_a_batchs_only_failure_in_whichever_slot)
    RUN(a_callback_that_fails_ends_the_run_whatever_is_done_about_damaged_samples)
    RUN(a_callback_that_fails_counts_as_a_damaged_sample_where_that_is_asked_for)
    RUN(failures_are_counted_by_kind)
    RUN(a_read_that_fails_is_tried_again_after_pauses_that_double)
    RUN(the_longest_pause_is_a_pause)
    RUN(stop_reset_restore_and_close_are_prompt_whatever_the_readers_wait_for)
    RUN(close_ends_a_thread_that_waits_in_next)
    RUN(closing_waits_for_a_next_that_still_delivers_messages_or_leaves_it_what_it_needs)
    RUN(a_next_that_begins_during_a_restore_learns_of_the_end)
    RUN(a_replacement_is_read_by_an_idle_reader_while_another_pauses)
    RUN(all_samples_read_ahead_stay_under_the_ceiling)
    RUN(a_sample_larger_than_the_ceiling_fails_alone)
    RUN(little_memory_and_replacements_do_not_wait_for_each_other)
    RUN(many_readers_make_up_for_a_slow_source)
    RUN(stage_counts_add_up)
    RUN(what_limits_is_the_source_the_decoder_or_the_consumer)
    RUN(fields_say_what_a_batch_holds)
    RUN(slices_and_the_callers_buffers_hold_the_same_and_nothing_else_is_written)
    RUN(buffers_that_do_not_fit_are_refused)
    RUN(threads_run_on_the_processors_given_decoders_first)
    RUN(a_processor_that_is_not_there_is_an_error_that_leaves_nothing_behind)
    RUN(the_librarys_threads_block_signals_but_those_that_a_thread_causes_itself)
    RUN(hundreds_of_loaders_closed_in_any_phase_leave_no_thread_byte_or_file)
    RUN(start_stop_reset_restore_next_release_and_close_at_random_from_many_threads)
}

/* Where torchvision's CenterCrop of SIDE pixels begins: it cuts off whole pixels, and of an odd margin the larger part
 * is the last. */
static double where_crop_begins(uint32_t in)
{
    const double margin = ((double)in - SIDE) / 2;
    return margin < 0 ? ceil(margin) : rint(margin);
}

/* What the decoder, the identity warp and the plain kernel make of the three pictures. */
static void reference_make(void)
{
    static uint8_t buffer[1 << 17];
    memory m;
    bzna_dataset *dataset = open_archive(&m, &small);
    bzna_decoder *decoder = NULL;
    bzna_output output = { .struct_size = sizeof output, .width = SIDE, .height = SIDE };
    require(bzna_decoder_open(context, &decoder, NULL), "decoder");
    for (uint64_t i = 0; i < 3; i++) {
        bzna_image image = { .struct_size = sizeof image };
        bzna_picture picture = { .struct_size = sizeof picture };
        bzna_transform t;
        bzna_transform_init(&t, sizeof t);
        require(bzna_dataset_read_image(dataset, i, NULL, buffer, sizeof buffer, &image, NULL), "image");
        require(bzna_decoder_decode(decoder, &image, &picture, NULL), "decode");
        t.homography[2] = where_crop_begins(picture.width);
        t.homography[5] = where_crop_begins(picture.height);
        require(bzna_picture_render(&picture, &t, &output, reference[i], sizeof reference[i], NULL), "render");
    }
    bzna_decoder_close(decoder);
    bzna_dataset_close(dataset);
}

static void prepare(void)
{
    static const int first[1] = { 0 };                      /* takes long */
    static const recipe recipes[5] = { { .count = 40, .base = 1000, .letter = 's' },
                                       { .count = 25, .base = 50000, .letter = 'o' },
                                       { .count = 96, .letter = 'h', .pattern = first, .pattern_count = 1 },
                                       { .count = 40, .base = 7000, .letter = 'p', .split = split_of },
                                       { .count = 80, .base = -400, .letter = 'e' } };
    archive *archives[5] = { &small, &other, &heavy, &splits, &eighty };
    require(bzna_context_open(NULL, &context, NULL), "context");
    for (uint64_t i = 0; i < 8; i++)
        mini_coded[i] = i ? coded_load(context, BZNA_CODEC_H265, i, NULL)
                          : coded_load_from(context, mini_files[1], i, NULL);       /* for heavy, which takes long */
    for (int i = 0; i < 5; i++)
        *archives[i] = build(recipes[i]);
    reference_make();
    if (TEST_NVDEC) {
        /* a context's first loader on NVDEC reads a sample for its sessions, too, and waits for their self-check */
        memory m;
        bzna_dataset *dataset = open_archive(&m, &small);
        bzna_loader_config c = config_of(4, BZNA_ORDER_SEQUENTIAL);
        bzna_loader *loader = open_loader(dataset, &c);
        bzna_batch_release(next_batch(loader));
        bzna_loader_close(loader);
        bzna_dataset_close(dataset);
    }
}

static void finish(void)
{
    archive *archives[5] = { &small, &other, &heavy, &splits, &eighty };
    for (int i = 0; i < 5; i++)
        archive_clear(archives[i]);
    for (int i = 0; i < 8; i++)
        coded_clear(&mini_coded[i]);
    bzna_context_close(context);
}

int main(int argc, char **argv)
{
    static const struct { const char *name; void (*function)(void); } tests[] = {
        { "restore_at_once", alone_restore_at_once },
        { "close_while_next_delivers_messages", alone_close_while_next_delivers_messages },
    };
    int result = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    prepare();
    if (argc == 6 && !strcmp(argv[1], "resume")) {
        result = resume_main(argv + 2);
    } else if (argc == 3 && !strcmp(argv[1], "alone")) {
        alarm((unsigned)(HANG_NS / 1000000000));
        for (size_t i = 0; i < COUNT(tests); i++)
            if (!strcmp(argv[2], tests[i].name))
                tests[i].function();
        result = test_failures != 0;
    } else {
        test_start(argv);
        everything();
        printf("%s: %d passed, %d failed, %d skipped\n", __FILE__, test_passed, test_failed, test_skipped);
        result = test_failed != 0;
    }
    finish();
    return result;
}
#endif
