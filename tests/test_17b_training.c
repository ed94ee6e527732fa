/* test_17b_training.c - what a training run asks of loaders beyond the first epoch: any order, any world, resuming elsewhere, bad samples, slow and
 * failing sources, little memory, pinned threads, and every way of ending.
 *
 * Where only the plan matters, loaders run with a track that no sample has: each sample then fails at once, and its index and target are still told.
 * `BINARY alone NAME` runs one test in a process of its own, `BINARY resume ...` goes on from a state. BENZINA_STRESS_SECONDS lengthens the stress. */
#include "../benzina.c"
#include "test.h"

#include <dirent.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define COUNT(array) (sizeof (array) / sizeof *(array))

#ifdef BENZINA_NO_AVCODEC
TEST(training_runs) { SKIP("built without libavcodec"); }
TEST_MAIN(RUN(training_runs))
#else

/* ---- Archives ----------------------------------------------------------------------------------------------------------- */

enum { SIDE = 16, SLOT = 3 * SIDE * SIDE };

typedef struct archive {
    uint8_t *bytes;
    uint64_t size, capacity, count;
    int64_t  base;                    /* sample i has target base + i, and the name LETTERiiiii */
    char     letter;
} archive;

typedef struct recipe {
    uint64_t   count;
    int64_t    base;
    char       letter;
    int        heavy;                 /* pictures that take long */
    uint32_t (*split)(uint64_t i);
    uint64_t (*padding)(uint64_t i);  /* bytes of a free box behind each sample */
} recipe;

static bzna_context *context;
static archive small, other, heavy, splits, eighty;         /* 40, 25, 96, 40, 80 samples */
static const int pattern[3] = { 4, 2, 5 };
static float reference[3][SLOT];      /* by i % 3, without a warp */

static void require(bzna_status status, const char *what)
{
    if (status != BZNA_OK) {
        printf("cannot prepare: %s: %s\n", what, bzna_status_name(status));
        exit(1);
    }
}

static bzna_status archive_write(void *user, uint64_t offset, const void *src, uint64_t size)
{
    archive *a = user;
    if (offset + size > a->capacity) {
        uint64_t capacity = 2 * (offset + size);
        a->bytes = realloc(a->bytes, (size_t)capacity);
        if (!a->bytes)
            abort();
        memset(a->bytes + a->capacity, 0, (size_t)(capacity - a->capacity));
        a->capacity = capacity;
    }
    memcpy(a->bytes + offset, src, (size_t)size);
    a->size = offset + size > a->size ? offset + size : a->size;
    return BZNA_OK;
}

/* A free box behind the sample just added, and the index entry as long. */
static void pad(bzna_writer *writer, archive *a, uint64_t bytes)
{
    uint8_t box[8] = { 0, 0, 0, 0, 'f', 'r', 'e', 'e' }, *size = writer->sizes.buffer.data + writer->sizes.size - 4;
    if (bytes < 8)
        return;
    bzi_put_be32(box, (uint32_t)bytes);
    archive_write(a, writer->position + bytes - 1, "", 1);
    archive_write(a, writer->position, box, 8);
    bzi_put_be32(size, bzi_be32(size) + (uint32_t)bytes);
    writer->position += bytes;
}

static archive build(recipe r)
{
    static uint8_t buffers[8][1 << 17];
    archive a = { NULL, 0, 0, r.count, r.base, r.letter };
    bzna_sink sink = { &a, archive_write, NULL };
    bzna_image images[8];
    bzna_dataset *mini = NULL;
    bzna_writer *writer = NULL;
    require(bzna_dataset_open(context, "tests/data/mini_h265.bzna", NULL, &mini, NULL), "dataset");
    for (uint64_t i = 0; i < 8; i++) {
        images[i].struct_size = sizeof images[i];
        require(bzna_dataset_image(mini, i, NULL, buffers[i], sizeof buffers[i], &images[i], NULL), "image");
    }
    require(bzna_writer_open_sink(context, &sink, NULL, &writer, NULL), "writer");
    for (uint64_t i = 0; i < r.count; i++) {
        char name[32];
        bzna_sample_desc desc = { .struct_size = sizeof desc, .has_target = 1, .target = r.base + (int64_t)i, .filename = name,
                                  .input = &images[r.heavy ? 0 : pattern[i % 3]], .split = r.split ? r.split(i) : 0 };
        snprintf(name, sizeof name, "%c%05d", r.letter, (int)i);
        require(bzna_writer_add(writer, &desc, NULL), "add");
        if (r.padding)
            pad(writer, &a, r.padding(i));
    }
    require(bzna_writer_finish(writer, NULL), "finish");
    bzna_writer_close(writer);
    bzna_dataset_close(mini);
    return a;
}

/* ---- Sources ------------------------------------------------------------------------------------------------------------ */

typedef struct fault {
    uint64_t        from, to;         /* reads that touch these bytes return result */
    int64_t         result;
    _Atomic int64_t left;             /* so many times; < 0: always */
} fault;

typedef struct memory {
    const uint8_t  *bytes;
    uint64_t        size;
    atomic_int      delay_us, blocked;
    _Atomic int64_t reads, inside, closes, failures;
    fault           faults[80];
    int             fault_count;
    uint64_t        failed_at_ns[16];
} memory;

static void sleep_us(int us)
{
    struct timespec t = { us / 1000000, (long)(us % 1000000) * 1000 };
    while (nanosleep(&t, &t) && errno == EINTR)
        continue;
}

#define WAIT_FOR(condition) do { for (int wait_i = 0; wait_i < 10000 && !(condition); wait_i++) sleep_us(1000); CHECK(condition); } while (0)

static int64_t memory_read(void *user, uint64_t offset, void *dst, uint64_t size)
{
    memory *m = user;
    m->reads++;
    m->inside++;
    if (m->delay_us)
        sleep_us(m->delay_us);
    while (m->blocked)
        sleep_us(300);
    m->inside--;
    for (int i = 0; i < m->fault_count; i++) {
        fault *f = &m->faults[i];
        if (offset < f->to && offset + size > f->from && f->left != 0) {
            int64_t n = m->failures++;
            if (n < (int64_t)COUNT(m->failed_at_ns))
                m->failed_at_ns[n] = bzi_os_now_ns();
            if (f->left > 0)
                f->left--;
            return f->result;
        }
    }
    if (offset >= m->size)
        return 0;
    size = bzi_min(size, m->size - offset);
    memcpy(dst, m->bytes + offset, (size_t)size);
    return (int64_t)size;
}

static int64_t memory_size(void *user) { return (int64_t)((memory *)user)->size; }
static void memory_close(void *user) { ((memory *)user)->closes++; }

static bzna_dataset *open_split(bzna_context *c, memory *m, const archive *a, const char *split)
{
    bzna_source source = { m, memory_read, memory_size, memory_close };
    bzna_dataset_config config;
    bzna_dataset *dataset = NULL;
    memset(m, 0, sizeof *m);
    m->bytes = a->bytes;
    m->size = a->size;
    bzna_dataset_config_init(&config, sizeof config);
    config.name = "memory.bzna";
    config.split = split;
    require(bzna_dataset_open_source(c, &source, &config, &dataset, NULL), "source");
    return dataset;
}

static bzna_dataset *open_archive(memory *m, const archive *a) { return open_split(context, m, a, NULL); }

static void locate(const bzna_dataset *dataset, uint64_t index, uint64_t *offset, uint64_t *size)
{
    bzna_error e;
    const bzna_dataset *archive_of = bzi_dataset_at(dataset, &index);
    require(bzi_dataset_locate(archive_of, index, offset, size, &e), "locate");
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

/* A copy of an archive in which some samples do not begin with a box. */
static archive damage(const archive *a, const uint64_t *bad, uint64_t bad_count)
{
    memory m;
    archive copy = *a;
    bzna_dataset *dataset = open_archive(&m, a);
    copy.bytes = malloc((size_t)a->size);
    if (!copy.bytes)
        abort();
    memcpy(copy.bytes, a->bytes, (size_t)a->size);
    for (uint64_t i = 0; i < bad_count; i++) {
        uint64_t offset, size;
        locate(dataset, bad[i], &offset, &size);
        memset(copy.bytes + offset, 0xff, 8);
    }
    bzna_dataset_close(dataset);
    return copy;
}

/* ---- Allocator, threads, files ------------------------------------------------------------------------------------------ */

typedef struct ledger { _Atomic int64_t bytes, peak, blocks, calls, mistakes; } ledger;

static void *ledger_alloc(void *user, size_t size, size_t align)
{
    ledger *l = user;
    uint64_t *p = NULL;
    int64_t now, peak;
    if (posix_memalign((void **)&p, 64, size + 64))
        return NULL;
    l->calls++;
    l->blocks++;
    l->mistakes += align > 64;
    now = (l->bytes += (int64_t)size);
    peak = l->peak;
    while (now > peak && !atomic_compare_exchange_weak(&l->peak, &peak, now))
        continue;
    p[0] = size;
    return p + 8;
}

static void ledger_release(void *user, void *ptr, size_t size)
{
    ledger *l = user;
    uint64_t *p = (uint64_t *)ptr - 8;
    l->mistakes += p[0] != size;
    l->bytes -= (int64_t)size;
    l->blocks--;
    free(p);
}

static bzna_context *open_context(ledger *l, bzna_log_fn log)
{
    bzna_context_config config;
    bzna_context *c = NULL;
    bzna_context_config_init(&config, sizeof config);
    memset(l, 0, sizeof *l);
    config.allocator.user = l;
    config.allocator.alloc = ledger_alloc;
    config.allocator.release = ledger_release;
    config.log = log;
    require(bzna_context_open(&config, &c, NULL), "context");
    return c;
}

/* Entries of a folder of /proc; the numbers of the first few. */
static int entries(const char *path, int *numbers, int room)
{
    DIR *d = opendir(path);
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

/* A joined thread may still be listed for a moment. */
static int threads_settle(int expected)
{
    for (int i = 0; i < 1000 && threads_now() != expected; i++)
        sleep_us(1000);
    return threads_now();
}

/* ---- Loaders ------------------------------------------------------------------------------------------------------------ */

static bzna_loader_config config_of(uint32_t batch_size, uint32_t order)
{
    bzna_loader_config c;
    bzna_loader_config_init(&c, sizeof c);
    c.batch_size = batch_size;
    c.width = c.height = SIDE;
    c.order = order;
    c.seed = 77;
    c.threads = 2;
    return c;
}

/* For plans: nothing is decoded. */
static bzna_loader_config plan_of(uint32_t batch_size, uint32_t order)
{
    bzna_loader_config c = config_of(batch_size, order);
    c.track = "none";
    c.threads = 1;
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

static bzna_loader *open_loader(bzna_dataset *dataset, const bzna_loader_config *c) { return open_loader_in(context, dataset, c); }

static bzna_batch_info info_of(const bzna_batch *batch)
{
    bzna_batch_info info;
    memset(&info, 0, sizeof info);
    bzna_batch_describe(batch, &info, sizeof info);
    return info;
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
    CHECK_EQ(bzna_loader_save(loader, &state, sizeof state), BZNA_OK);
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

static bzna_loader_stats stats_of(bzna_loader *loader)
{
    bzna_loader_stats stats;
    memset(&stats, 0, sizeof stats);
    CHECK_EQ(bzna_loader_statistics(loader, &stats, sizeof stats), BZNA_OK);
    return stats;
}

static double ms_since(uint64_t start) { return (double)(bzi_os_now_ns() - start) * 1e-6; }

static uint64_t dice(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static double stress_seconds(void) { const char *s = getenv("BENZINA_STRESS_SECONDS"); return s ? atof(s) : 3; }

/* ---- This program again ------------------------------------------------------------------------------------------------- */

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
        printf("  %s, alone: %s %d\n", name, WIFSIGNALED(status) ? "killed by signal" : "exit status", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
}

/* ---- 1. Order ----------------------------------------------------------------------------------------------------------- */

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
    c.indices = list;
    c.index_count = n;
    loader = open_loader(dataset, &c);
    memset(list, 0xff, sizeof list);                        /* it was copied */
    CHECK_EQ(bzna_loader_describe(loader, &info, sizeof info), BZNA_OK);
    CHECK(info.samples_per_epoch == n && info.batches_per_epoch == 3);
    CHECK_EQ(collect(loader, 99, got, 64), n);
    for (uint64_t i = 0; i < n; i++)
        CHECK_EQ(got[i], given[i]);
    bzna_loader_close(loader);
    memcpy(list, given, sizeof list);
    c.order = BZNA_ORDER_SHUFFLE;
    c.first_epoch = 3;
    c.last_batch = BZNA_LAST_PAD;
    loader = open_loader(dataset, &c);
    for (uint64_t at = 0; (batch = next_batch(loader)) != NULL; at += 4) {
        bzna_batch_info b = info_of(batch);
        CHECK_EQ(b.shape[0], 4);
        for (uint64_t k = 0; k < 4; k++) {
            uint64_t index = given[bzna_permute(77, 3, n, (at + k) % n)];
            CHECK_EQ(b.indices[k], index);
            CHECK_EQ(b.targets[k], small.base + (int64_t)index);
        }
        bzna_batch_release(batch);
    }
    bzna_loader_close(loader);
    list[3] = 40;
    CHECK_EQ(bzna_loader_open(context, dataset, &c, &loader, &e), BZNA_E_RANGE);
    CHECK(loader == NULL);
    CHECK_CONTAINS(e.message, "loader_config.indices[3]: 40");
    c.indices = NULL;
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
    CHECK_EQ(bzna_dataset_describe(view, &info, sizeof info), BZNA_OK);
    CHECK(info.sample_count == n && info.target_count == n);
    for (uint64_t i = 0; i < n; i++) {
        char name[16], expected[16];
        int64_t target = 0;
        bzna_sample sample = { .struct_size = sizeof sample };
        snprintf(expected, sizeof expected, "%c%05d", places[i].a->letter, (int)places[i].local);
        CHECK_EQ(bzna_dataset_target(view, i, &target, NULL), BZNA_OK);
        CHECK_EQ(target, places[i].a->base + (int64_t)places[i].local);
        CHECK_EQ(bzna_dataset_filename(view, i, name, sizeof name, NULL, NULL), BZNA_OK);
        CHECK_STR(name, expected);
        CHECK_EQ(bzna_dataset_sample(view, i, &sample, NULL), BZNA_OK);
        CHECK(sample.index == i && sample.target == target);
    }
    while ((batch = next_batch(loader)) != NULL) {
        bzna_batch_info b = info_of(batch);
        for (uint32_t k = 0; k < b.count; k++, at++)
            CHECK(b.indices[k] == at && b.targets[k] == places[at].a->base + (int64_t)places[at].local);
        bzna_batch_release(batch);
    }
    CHECK_EQ(at, n);
    bzna_loader_close(loader);
}

TEST(ranges_and_concatenations_of_each_other_hold_what_arithmetic_says)
{
    memory m[2];
    bzna_dataset *first = open_archive(&m[0], &small), *second = open_archive(&m[1], &other), *parts[3], *all = NULL, *middle = NULL, *both = NULL, *end = NULL;
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
    CHECK_EQ(bzna_dataset_describe(all, &info, sizeof info), BZNA_OK);
    CHECK(info.part_count == 3 && info.size_bytes == 2 * small.size + other.size);
    CHECK(bzna_dataset_range(all, 35, 34, &middle, &e) == BZNA_OK);        /* 5 of the first, 25, 4 of the third */
    check_view(middle, flat + 35, 34);
    CHECK_EQ(bzna_dataset_describe(middle, &info, sizeof info), BZNA_OK);
    CHECK_EQ(info.part_count, 3);
    CHECK(bzna_dataset_range(middle, 5, 25, &end, &e) == BZNA_OK);         /* exactly the second */
    check_view(end, flat + 40, 25);
    CHECK_EQ(bzna_dataset_describe(end, &info, sizeof info), BZNA_OK);
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
    CHECK_EQ(bzna_dataset_range(both, n, 1, &first, &e), BZNA_E_RANGE);
    CHECK(first == NULL);
    CHECK_EQ(bzna_dataset_range(both, UINT64_MAX, 2, &first, &e), BZNA_E_RANGE);
    CHECK_EQ(bzna_dataset_range(both, 1, n, &first, &e), BZNA_E_RANGE);
    CHECK_EQ(bzna_dataset_range(both, 1, UINT64_MAX, &first, &e), BZNA_E_RANGE);
    CHECK_EQ(bzna_dataset_range(both, 1, 0, &first, &e), BZNA_E_NO_SAMPLES);
    CHECK_EQ(bzna_dataset_filename(both, n, name, sizeof name, NULL, &e), BZNA_E_RANGE);
    CHECK_EQ(bzna_dataset_concat(context, parts, 0, &first, &e), BZNA_E_ARGUMENT);
    bzna_dataset_close(parts[1]);
    parts[1] = NULL;
    CHECK_EQ(bzna_dataset_concat(context, parts, 3, &first, &e), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(e.message, "parts[1]");
    bzna_dataset_close(middle);                             /* the parts live on in the whole */
    bzna_dataset_close(all);
    check_view(both, twice, n);
    CHECK_EQ(m[1].closes, 0);
    bzna_dataset_close(second);
    CHECK_EQ(m[1].closes, 0);
    check_view(both, twice, n);
    bzna_dataset_close(both);
    CHECK_EQ(m[1].closes, 1);
    bzna_dataset_close(parts[2] == all ? NULL : parts[2]);
    CHECK_EQ(m[0].closes, 0);                               /* the test's own handle, which out was not allowed to touch, is gone: see below */
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
    bzna_loader_stats stats;
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
                CHECK(!memcmp((float *)info.data + k * SLOT, reference[number % 3], sizeof reference[0]));
            }
        }
        bzna_batch_release(batch);
    }
    stats = stats_of(loader);
    CHECK(failed == 1 && stats.samples == 65 && stats.samples_failed == 1 && stats.failed_format == 1 && stats.stage[BZNA_STAGE_READ].bytes == bytes);
    bzna_loader_close(loader);
    bzna_dataset_close(all);
    bzna_dataset_close(parts[0]);
    bzna_dataset_close(parts[1]);
    CHECK(m[0].closes == 1 && m[1].closes == 1);
    free(broken.bytes);
}

static uint32_t split_of(uint64_t i) { return i % 5 == 4 ? BZNA_SPLIT_VALIDATION : i % 11 == 3 ? BZNA_SPLIT_NONE : BZNA_SPLIT_TRAIN; }

TEST(splits_are_the_samples_that_were_written_into_them)
{
    static const struct { const char *name; uint32_t split; } ways[] = { { NULL, 99 }, { "train", BZNA_SPLIT_TRAIN }, { "validation", BZNA_SPLIT_VALIDATION } };
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
    source.user = &m;
    source.read_at = memory_read;
    source.size = memory_size;
    source.close = memory_close;
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
    FILE *f = fopen(TEST_BUILD "/tests/training_splits.bzna", "wb");
    char line[256] = "";
    REQUIRE(f != NULL);
    CHECK_EQ(fwrite(splits.bytes, 1, (size_t)splits.size, f), splits.size);
    fclose(f);
    if (system("command -v ffprobe >/dev/null 2>&1"))
        SKIP("no ffprobe");
    f = popen("ffprobe -v error -count_frames -select_streams v -show_entries stream=nb_read_frames,codec_name -of csv=p=0 " TEST_BUILD "/tests/training_splits.bzna 2>&1", "r");
    REQUIRE(f != NULL);
    CHECK(fgets(line, sizeof line, f) != NULL);
    CHECK_EQ(pclose(f), 0);
    CHECK_CONTAINS(line, "hevc,40");
    remove(TEST_BUILD "/tests/training_splits.bzna");
}

TEST(two_ranges_split_a_data_set_by_position)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &small), *parts[2] = { NULL, NULL };
    uint8_t seen[40] = { 0 };
    CHECK(bzna_dataset_range(dataset, 0, 31, &parts[0], NULL) == BZNA_OK && bzna_dataset_range(dataset, 31, 9, &parts[1], NULL) == BZNA_OK);
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

static double chi_square(const uint64_t *counts, const double *weights, uint64_t n, uint64_t draws)
{
    double sum = 0, chi = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += weights[i];
    for (uint64_t i = 0; i < n; i++) {
        double expected = weights[i] / sum * (double)draws;
        if (weights[i] > 0)
            chi += ((double)counts[i] - expected) * ((double)counts[i] - expected) / expected;
        else
            CHECK_EQ(counts[i], 0);
    }
    return chi;
}

TEST(weighted_draws_with_replacement_follow_the_weights)
{
    enum { DRAWS = 24000 };
    static uint64_t got[DRAWS];
    double weights[40], by_part[3] = { 1, 0, 3 };
    uint64_t counts[105] = { 0 };
    memory m, n;
    bzna_dataset *dataset = open_archive(&m, &small), *second = open_archive(&n, &other), *parts[3], *all = NULL;
    bzna_loader_config c = plan_of(100, BZNA_ORDER_SHUFFLE);
    bzna_loader_info info;
    bzna_loader *loader;
    for (int i = 0; i < 40; i++)
        weights[i] = i % 8 == 7 || i == 0 || i == 39 ? 0 : 0.5 + i % 5;
    c.weighting = BZNA_WEIGHTING_REPLACE;
    c.weights = weights;
    c.weight_count = 40;
    c.epoch_samples = DRAWS / 2;
    c.epochs = 2;
    loader = open_loader(dataset, &c);
    CHECK_EQ(bzna_loader_describe(loader, &info, sizeof info), BZNA_OK);
    CHECK(info.samples_per_epoch == DRAWS / 2 && info.batches_per_epoch == DRAWS / 200);
    CHECK_EQ(collect(loader, UINT64_MAX, got, DRAWS), DRAWS);
    bzna_loader_close(loader);
    for (uint64_t i = 0; i < DRAWS; i++)
        counts[got[i]]++;
    CHECK(chi_square(counts, weights, 40, DRAWS) < 33 + 6 * 8.2);          /* 34 weights: 33 degrees; 6 standard deviations */
    uint64_t same = 0;                                      /* epochs and positions are independent: 1/34 or so agree */
    for (uint64_t i = 0; i < DRAWS / 2; i++)
        same += got[i] == got[i + DRAWS / 2];
    CHECK(same > DRAWS / 2 / 80 && same < DRAWS / 2 / 15);

    parts[0] = parts[2] = dataset;
    parts[1] = second;
    REQUIRE(bzna_dataset_concat(context, parts, 3, &all, NULL) == BZNA_OK);
    memset(counts, 0, sizeof counts);
    c.weights = by_part;
    c.weight_count = 3;
    c.weights_by_part = 1;
    CHECK_EQ(collect_all(all, &c, got, DRAWS), DRAWS);
    for (uint64_t i = 0; i < DRAWS; i++)
        counts[got[i]]++;
    double spread[105];
    for (int i = 0; i < 105; i++)
        spread[i] = i < 40 ? 1.0 / 40 : i < 65 ? 0 : 3.0 / 40;             /* a part's weight is shared evenly by its samples */
    CHECK(chi_square(counts, spread, 105, DRAWS) < 79 + 6 * 12.6);
    bzna_dataset_close(all);
    bzna_dataset_close(second);
    bzna_dataset_close(dataset);
}

TEST(weighted_draws_without_replacement_take_each_at_most_once_and_as_often_as_a_simulation)
{
    enum { EPOCHS = 4000, K = 5, N = 12 };
    static uint64_t got[EPOCHS * K];
    double weights[N], chi;
    uint64_t included[N] = { 0 }, simulated[N] = { 0 }, first[N] = { 0 };
    memory m;
    bzna_dataset *whole = open_archive(&m, &small), *dataset = NULL;
    bzna_loader_config c = plan_of(K, BZNA_ORDER_SEQUENTIAL);
    bzna_random random;
    REQUIRE(bzna_dataset_range(whole, 3, N, &dataset, NULL) == BZNA_OK);
    for (int i = 0; i < N; i++)
        weights[i] = i == 4 ? 0 : (double)((i * 7) % 11 + 1);
    c.weighting = BZNA_WEIGHTING_ONCE;
    c.weights = weights;
    c.weight_count = N;
    c.epoch_samples = K;
    c.epochs = EPOCHS;
    CHECK_EQ(collect_all(dataset, &c, got, COUNT(got)), EPOCHS * K);
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        uint8_t seen[N] = { 0 };
        first[got[epoch * K]]++;
        for (uint64_t i = 0; i < K; i++) {
            uint64_t index = got[epoch * K + i];
            CHECK(index < N && !seen[index] && weights[index] > 0);
            seen[index] = 1;
            included[index]++;
        }
    }
    bzna_random_init(&random, 4711, 0, 0, 99);              /* draw, take out, draw again */
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        double left[N], sum = 0;
        for (int i = 0; i < N; i++)
            sum += left[i] = weights[i];
        for (int k = 0; k < K; k++) {
            double u = bzna_random_uniform(&random, 0, sum);
            int i = 0;
            while (i < N - 1 && (left[i] <= 0 || u >= left[i]))
                u -= left[i++];
            while (left[i] <= 0)
                i--;
            simulated[i]++;
            sum -= left[i];
            left[i] = 0;
        }
    }
    for (int i = 0; i < N; i++) {
        double p = (double)simulated[i] / EPOCHS;
        CHECK_NEAR((double)included[i], (double)simulated[i], 5 * sqrt(2 * EPOCHS * p * (1 - p)) + 1e-9);
    }
    chi = chi_square(first, weights, N, EPOCHS);            /* what comes first is a single weighted draw */
    CHECK(chi < 10 + 6 * 4.5);
    c.epoch_samples = 0;                                    /* default: all that have a weight */
    c.epochs = 3;
    CHECK_EQ(collect_all(dataset, &c, got, COUNT(got)), 3 * (N - 1));
    c.epoch_samples = N;
    bzna_loader *loader = NULL;
    bzna_error e = { .struct_size = sizeof e };
    CHECK_EQ(bzna_loader_open(context, dataset, &c, &loader, &e), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(e.message, "loader_config.epoch_samples");
    bzna_dataset_close(dataset);
    bzna_dataset_close(whole);
}

TEST(a_sample_of_no_weight_is_never_drawn_however_small_the_others_are)
{
    static const double ways[][4] = { { 0, 1, 1e-17, 0 }, { 0, 1e300, 1e-300, 1 }, { 0, 1, 4e-324, 0 } };
    static const uint64_t positive[] = { 2, 3, 2 };
    memory m;
    bzna_dataset *whole = open_archive(&m, &small), *dataset = NULL;
    REQUIRE(bzna_dataset_range(whole, 0, 4, &dataset, NULL) == BZNA_OK);
    for (size_t w = 0; w < COUNT(ways); w++) {
        bzna_loader_config c = plan_of(1, BZNA_ORDER_SEQUENTIAL);
        uint64_t got[4], n;
        uint8_t seen[4] = { 0 };
        c.weighting = BZNA_WEIGHTING_ONCE;
        c.weights = ways[w];
        c.weight_count = 4;
        n = collect_all(dataset, &c, got, 4);
        CHECK_EQ(n, positive[w]);
        for (uint64_t i = 0; i < n; i++) {
            CHECK(ways[w][got[i]] > 0 && !seen[got[i]]);
            seen[got[i]] = 1;
        }
    }
    bzna_dataset_close(dataset);
    bzna_dataset_close(whole);
}

TEST(weights_that_mean_nothing_are_refused_and_named)
{
    double weights[40];
    memory m;
    bzna_dataset *dataset = open_archive(&m, &small);
    bzna_error e = { .struct_size = sizeof e };
    bzna_loader *loader = NULL;
    uint64_t index = 0;
    for (int k = 0; k < 9; k++) {
        static const char *const parts[] = { "weights[3]", "weights[3]", "weights[3]", "sum", "weight_count", "only with weighting", "weighting: 3", "weights_by_part", "sum" };
        bzna_loader_config c = plan_of(4, BZNA_ORDER_SEQUENTIAL);
        for (int i = 0; i < 40; i++)
            weights[i] = k == 3 ? 0 : k == 8 ? 1e308 : 1;
        c.weighting = k == 5 ? BZNA_WEIGHTING_NONE : k == 6 ? 3 : k % 2 ? BZNA_WEIGHTING_ONCE : BZNA_WEIGHTING_REPLACE;
        c.weights = weights;
        c.weight_count = k == 4 ? 39 : 40;
        weights[3] = k == 0 ? -1 : k == 1 ? (double)NAN : k == 2 ? (double)INFINITY : weights[3];
        if (k == 7) {
            c.weights_by_part = 1;
            c.weight_count = c.index_count = 1;
            c.indices = &index;
        }
        CHECK_EQ(bzna_loader_open(context, dataset, &c, &loader, &e), BZNA_E_ARGUMENT);
        CHECK(loader == NULL);
        CHECK_CONTAINS(e.message, parts[k]);
    }
    bzna_dataset_close(dataset);
}

/* The four orders that there are, and a list. */
enum { ORDER_KINDS = 5 };
static bzna_loader_config order_kind(int kind, uint32_t batch_size)
{
    static double weights[40];
    static uint64_t list[33];
    bzna_loader_config c = plan_of(batch_size, kind ? BZNA_ORDER_SHUFFLE : BZNA_ORDER_SEQUENTIAL);
    for (uint64_t i = 0; i < 40; i++)
        weights[i] = (double)(1 + i % 7);
    for (uint64_t i = 0; i < 33; i++)
        list[i] = i * i % 40;
    if (kind == 2 || kind == 3) {
        c.weighting = kind == 2 ? BZNA_WEIGHTING_REPLACE : BZNA_WEIGHTING_ONCE;
        c.weights = weights;
        c.weight_count = 40;
        c.epoch_samples = 30;
    }
    if (kind == 4) {
        c.indices = list;
        c.index_count = 33;
    }
    return c;
}

TEST(an_order_is_the_same_from_whatever_position_it_is_entered)
{
    memory m;
    bzna_dataset *dataset = open_archive(&m, &small);
    for (int kind = 0; kind < ORDER_KINDS; kind++) {
        bzna_loader_config c = order_kind(kind, 4);
        uint64_t whole[100], got[100], n, count;
        bzna_loader *loader;
        c.epochs = 2;
        c.first_epoch = 6;
        n = collect_all(dataset, &c, whole, 100);
        count = n / 2;
        c.threads = 3;
        c.reader_threads = 2;
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
        bzna_loader *loader;
        c.batches_in_flight = 7;
        c.epochs = BZNA_EPOCHS_ENDLESS;
        loader = open_loader(dataset, &c);
        WAIT_FOR(stats_of(loader).stage[BZNA_STAGE_DELIVER].depth == 7);
        for (uint64_t epoch = 0, batches = 0; batches < 7; batches++) {
            bzna_batch *batch = NULL;
            CHECK_EQ(bzna_loader_next(loader, 0, &batch, NULL), BZNA_OK);
            REQUIRE(batch != NULL);
            CHECK_EQ(info_of(batch).epoch, epoch);
            epoch += info_of(batch).last_of_epoch;
            CHECK(batches < 6 || epoch >= 2);
        }
        bzna_loader_close(loader);                          /* the batches are still on loan: they are never released, and never freed */
        (void)kind;
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
            c.first_epoch = epochs[k];
            n = collect_all(dataset, &c, fresh, 64);
            CHECK_EQ(bzna_loader_reset(loader, epochs[k], NULL), BZNA_OK);
            CHECK_EQ(collect(loader, k % 2 ? 2 : UINT64_MAX, got, 64), k % 2 ? 16 : n);
            CHECK(!memcmp(fresh, got, (size_t)(8 * (k % 2 ? 16 : n))));
        }
        bzna_loader_close(loader);
    }
    bzna_dataset_close(dataset);
}
