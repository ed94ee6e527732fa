/* test_soak.c - loaders with random settings, one after the other, over data sets of all kinds, some of them damaged,
 * on the CPU and on the fake driver, with saved states, resets and stops between their batches. What they take must
 * come back: memory, descriptors and threads stay flat. Equal seeds make equal batches, whatever the threads.
 *
 *     build/tests/test_soak --soak SECONDS [SEED]           make soak
 *     build/tests/test_soak --replay SEED ROUND             one round again */
#include "library.h"
#include "with_formats.h"
#include "test.h"

#if defined(BENZINA_NO_AVCODEC) || defined(BENZINA_NO_JPEG) || defined(BENZINA_NO_CUDA)

TEST(loaders_with_random_settings_give_everything_back)
{
    SKIP("built without libavcodec, libjpeg-turbo or NVIDIA's headers "
         "[libavcodec-dev libjpeg-dev libffmpeg-nvenc-dev]");
}

TEST_MAIN(RUN(loaders_with_random_settings_give_everything_back))

#else

#include "../fake/fake.h"
#include "known.h"
#include "open_formats.h"
#include "recordio.h"
#include "tars.h"
#include <dirent.h>
#include <time.h>
#if ON_WINDOWS
#  include <psapi.h>
#  include <tlhelp32.h>
#endif
#ifdef __GLIBC__
#  include <malloc.h>
#endif

#define TOP TEST_BUILD "/tests/soak"

enum { HANG_S = 300, KINDS = 7, FOLDER = 6, PICTURES = 8, ROUND_BATCHES = 12 };

/* ---- Numbers ---- */

static uint64_t drawn(uint64_t *state)                      /* splitmix64 */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static uint32_t below(uint64_t *state, uint32_t count) { return (uint32_t)(drawn(state) % count); }
static int one_in(uint64_t *state, uint32_t count) { return below(state, count) == 0; }

/* ---- Files ---- */

typedef struct content {
    const char *name;                 /* also the file that it is made of, if that is one */
    const char *numbers, *text;       /* fields for tensors and for bytes; NULL: none */
    uint8_t    *bytes;
    size_t      size;
} content;

static content contents[KINDS] = {
    { "tests/data/mini_h264.bzna", NULL, "name", NULL, 0 }, { "tests/data/mini_h265.bzna", NULL, "name", NULL, 0 },
    { "tests/data/slices_h264.bzna", NULL, NULL, NULL, 0 }, { "tests/data/seeds/av1.mp4", NULL, NULL, NULL, 0 },
    { "tar", "cls", NULL, NULL, 0 }, { "RecordIO", "label", NULL, NULL, 0 }, { "folder", NULL, "name", NULL, 0 } };

static const char *const pictures[PICTURES] = {
    "jpeg_420_progressive.jpg", "jpeg_440.jpg", "jpeg_422_restarts.jpg", "jpeg_exif_6.jpg", "jpeg_cmyk.jpg",
    "bmp_palette_8.bmp", "gif_87.gif", "jpeg2000.jp2" };

static void contents_make(void)
{
    char name[256];
    rec_file *rec = rec_new();
    tar t = { NULL, 0, 0, 0 };
    if (system("rm -rf " TOP " && mkdir -p " TOP "/folder/a " TOP "/folder/b"))
        exit(1);
    for (int i = 0; i < 3 * PICTURES; i++) {
        const float label[2] = { (float)i, 0.5f };
        const char *picture = pictures[i % PICTURES];
        size_t size;
        snprintf(name, sizeof name, "tests/data/pictures/%s", picture);
        uint8_t *bytes = slurp(name, &size);
        if (!bytes)
            exit(1);
        snprintf(name, sizeof name, TOP "/folder/%c/%d_%s", i % 2 ? 'a' : 'b', i, picture);
        spill(name, bytes, size);
        snprintf(name, sizeof name, "%04d%s", i, strrchr(picture, '.'));
        tar_file(&t, name, bytes, size);
        snprintf(name, sizeof name, "%04d.cls", i);
        tar_text(&t, name, i % 2 ? "7" : "12");
        rec_add_picture(rec, (uint64_t)i, label, 1, bytes, size);
        free(bytes);
    }
    tar_end(&t);
    contents[4].bytes = t.bytes;
    contents[4].size = t.size;
    contents[5].bytes = rec->bytes;
    contents[5].size = rec->size;
    contents[FOLDER].bytes = slurp(TOP "/folder/b/0_jpeg_420_progressive.jpg", &contents[FOLDER].size);
    if (!test_all()) {
        contents[0].name = small_archives[1];
        contents[1].name = small_archives[0];
    }
    for (int i = 0; i < KINDS; i++)
        if (!contents[i].bytes && !(contents[i].bytes = slurp(contents[i].name, &contents[i].size)))
            exit(1);
}

/* A copy, of which some bytes are changed, or some are missing at its end. */
static uint8_t *damaged(const content *c, uint64_t seed, uint32_t places, size_t *size)
{
    uint8_t *copy = malloc(c->size);
    if (!copy)
        abort();
    memcpy(copy, c->bytes, c->size);
    *size = c->size;
    for (uint32_t i = 0; i < places; i++) {
        const size_t at = (size_t)(drawn(&seed) % *size);
        if (one_in(&seed, 16))
            *size -= bzi_min(at, 1 + below(&seed, 4096));
        else
            copy[at] = (uint8_t)(one_in(&seed, 2) ? copy[at] ^ 1u << below(&seed, 8) : drawn(&seed));
    }
    return copy;
}

/* ---- What is counted ---- */

static _Atomic int64_t held_bytes, held_blocks;

static void *soak_alloc(void *user, size_t size, size_t align)
{
    void *p = bzi_os_alloc(user, size, align);
    held_bytes += p ? (int64_t)size : 0;
    held_blocks += p != NULL;
    return p;
}

static void soak_release(void *user, void *ptr, size_t size)
{
    held_bytes -= (int64_t)size;
    held_blocks--;
    bzi_os_release(user, ptr, size);
}

#if ON_WINDOWS
/* Handles are of files, threads and all else that waits: they change with the threads. Wine 8 has no
 * GetProcessHandleCount, so that each number that could be one is tried. */
enum { DESCRIPTORS_ALLOWED = 64, HANDLES = 4096 };

static int descriptors(void)
{
    int count = 0;
    DWORD ignored;
    for (uintptr_t i = 1; i <= HANDLES; i++)
        count += GetHandleInformation((HANDLE)(4 * i), &ignored) != 0;
    return count;
}

static int threads(void)
{
    THREADENTRY32 entry = { .dwSize = sizeof entry };
    HANDLE all = CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0);
    int count = 0;
    for (BOOL found = Thread32First(all, &entry); found; found = Thread32Next(all, &entry))
        count += entry.th32OwnerProcessID == GetCurrentProcessId();
    CloseHandle(all);
    return count;
}

static int64_t resident_bytes(void)
{
    PROCESS_MEMORY_COUNTERS counters = { .cb = sizeof counters };
    return K32GetProcessMemoryInfo(GetCurrentProcess(), &counters, sizeof counters)
           ? (int64_t)counters.WorkingSetSize : 0;
}
#else
enum { DESCRIPTORS_ALLOWED = 0 };

static int entries(const char *folder)
{
    int count = 0;
    DIR *open_folder = opendir(folder);
    const struct dirent *entry;
    while (open_folder && (entry = readdir(open_folder)))
        count += entry->d_name[0] != '.';
    if (open_folder)
        closedir(open_folder);
    return count;
}

static int64_t resident_bytes(void)
{
    long long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%lld %lld", &pages, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return resident * sysconf(_SC_PAGESIZE);
}

static int descriptors(void) { return entries("/proc/self/fd"); }
static int threads(void) { return entries("/proc/self/task"); }
#endif

/* Bytes that malloc has given to all libraries. 0: it does not say. */
static int64_t heap_bytes(void)
{
#if defined(__GLIBC__) && !SANITIZED
    const struct mallinfo2 info = mallinfo2();
    return (int64_t)(info.uordblks + info.hblkhd);
#else
    return 0;
#endif
}

enum { RESIDENT, HEAP, HELD, DESCRIPTORS, THREADS, MEASURES };

/* A value over time, of which the line of least squares is known. */
typedef struct measure {
    const char *name;
    double      n, t, v, tt, tv;      /* sums, after the warm-up */
    double      first, least, most, last;
    double      allowed;              /* by how much it may grow meanwhile */
} measure;

static void measure_add(measure *m, double t, double v)
{
    m->first = m->n ? m->first : v;
    m->least = m->n && m->least < v ? m->least : v;
    m->most = m->n && m->most > v ? m->most : v;
    m->last = v;
    m->n++;
    m->t += t;
    m->v += v;
    m->tt += t * t;
    m->tv += t * v;
}

/* A second's growth. */
static double measure_slope(const measure *m)
{
    const double spread = m->n * m->tt - m->t * m->t;
    return spread > 0 ? (m->n * m->tv - m->t * m->v) / spread : 0;
}

/* ---- A round ---- */

typedef struct round_plan {
    uint64_t           seed;
    int                kind, gpu, on_device, opened_as, twice;
    uint32_t           damage;        /* bytes */
    bzna_loader_config config;
    bzna_loader_output extra;
    bzna_policy        policy;
} round_plan;

static int is_replay;                 /* say of each batch what it is */

typedef struct totals { uint64_t rounds, refused, batches, samples, failed; } totals;

static void plan_output(round_plan *p, uint64_t *s)
{
    bzna_loader_config *c = &p->config;
    c->output.batch_size = 1 + below(s, 6);
    c->output.width = 1 + below(s, 64);
    c->output.height = 1 + below(s, 64);
    c->output.dtype = below(s, 4);
    c->output.layout = below(s, 2);
    c->output.channels = below(s, 3);
    c->output.views = one_in(s, 4) ? 2 : 0;
    c->output.device.kind = p->on_device ? BZNA_DEVICE_CUDA : BZNA_DEVICE_CPU;
    if (one_in(s, 4)) {
        p->extra = (bzna_loader_output){ .name = "second", .width = 1 + below(s, 32), .height = 1 + below(s, 32),
                                         .dtype = below(s, 4), .layout = below(s, 2) };
        c->extra_outputs.ptr = &p->extra;
        c->extra_outputs.count = 1;
    }
    c->filter.kind = below(s, 4);
    c->filter.antialias = c->filter.kind == BZNA_FILTER_AREA ? BZNA_ANTIALIAS_AUTO : below(s, 3);
    c->warp.kind = below(s, 4);
    c->warp.flip_h = 0.5 * below(s, 3);
    c->warp.flip_v = one_in(s, 3) ? 0.5 : 0;
    c->warp.perspective = one_in(s, 8) ? 0.4 : 0;
    c->warp.rotate[1] = below(s, 2) * 30;
    c->color.jitter.brightness[0] = one_in(s, 2) ? 0.6f : 0;
    c->color.jitter.brightness[1] = c->color.jitter.brightness[0] > 0 ? 1.4f : 0;
    if (one_in(s, 4) && bzna_formats_policy_preset(BZNA_PRESET_RAND_AUGMENT, 2, 9, &p->policy, NULL) == BZNA_OK) {
        c->augment.policies = &p->policy;
        c->augment.policy_count = 1;
    }
}

static void plan_run(round_plan *p, uint64_t *s)
{
    bzna_loader_config *c = &p->config;
    c->order.kind = below(s, 2);
    c->order.last_batch = below(s, 4);
    c->order.seed = drawn(s);
    c->order.epochs = 1 + below(s, 3);
    c->shard.world_size = one_in(s, 4) ? 2 : 0;
    c->fields.tensors = one_in(s, 2) ? contents[p->kind].numbers : NULL;
    c->fields.bytes = one_in(s, 2) ? contents[p->kind].text : NULL;
    c->fields.geometry = below(s, 2);
    c->errors.on_error = one_in(s, 6) ? BZNA_ON_ERROR_STOP : below(s, 2);
    c->decode.hybrid = c->errors.on_error == BZNA_ON_ERROR_FILL && one_in(s, 2);
    c->pipeline.batches_in_flight = 2 + below(s, 3);
    c->decode.decoder = p->gpu ? (uint32_t)BZNA_DECODER_NVDEC : (uint32_t)BZNA_DECODER_SOFTWARE;
    c->decode.jpeg_shrink = c->filter.antialias == BZNA_ANTIALIAS_AUTO && c->filter.kind != BZNA_FILTER_NEAREST &&
                            one_in(s, 2);
}

/* The plan points into itself. */
static void plan_make(round_plan *p, uint64_t seed)
{
    uint64_t s = seed;
    memset(p, 0, sizeof *p);
    p->seed = seed;
    bzna_loader_config_init(&p->config, sizeof p->config);
    p->kind = (int)below(&s, KINDS);
    p->gpu = one_in(&s, 2);
    p->on_device = p->gpu && one_in(&s, 2);
    p->opened_as = p->kind == FOLDER ? 2 : (int)below(&s, 3);
    p->twice = one_in(&s, 3);
    p->damage = one_in(&s, 2) ? 0 : 1 + below(&s, 8);
    plan_output(p, &s);
    plan_run(p, &s);
}

/* What must not change the batches. */
static void plan_vary(round_plan *p, uint64_t *s)
{
    bzna_loader_config *c = &p->config;
    c->decode.threads = 1 + below(s, 4);
    c->read.threads = 1 + below(s, 3);
    c->read.ahead_samples = one_in(s, 2) ? 1 + below(s, 32) : 0;
    c->pipeline.no_threads = !p->gpu && one_in(s, 4);
}

typedef struct memory_file { const uint8_t *data; uint64_t size; } memory_file;

static int64_t file_read(void *user, uint64_t offset, void *dst, uint64_t size)
{
    const memory_file *file = user;
    if (offset >= file->size)
        return 0;
    size = bzi_min(size, file->size - offset);
    memcpy(dst, file->data + offset, (size_t)size);
    return (int64_t)size;
}

static int64_t file_size(void *user) { return (int64_t)((memory_file *)user)->size; }

static bzna_status plan_open(const round_plan *p, bzna_context *context, memory_file *file, bzna_dataset **out,
                             bzna_error *err)
{
    const bzna_source source = { sizeof source, 0, file, file_read, file_size, NULL, NULL };
    bzna_dataset *one = NULL, *parts[2];
    bzna_status status;
    if (p->kind == FOLDER) {
        spill(TOP "/folder/a/damaged.jpg", file->data, (size_t)file->size);
        status = bzna_dataset_open(context, TOP "/folder", NULL, &one, err);
    } else if (p->opened_as == 2) {
        spill(TOP "/file", file->data, (size_t)file->size);
        status = bzna_dataset_open(context, TOP "/file", NULL, &one, err);
    } else if (p->opened_as == 1) {
        status = bzna_dataset_open_memory(context, file->data, (size_t)file->size, NULL, &one, err);
    } else {
        status = bzna_dataset_open_source(context, &source, NULL, &one, err);
    }
    *out = one;
    if (status == BZNA_OK && p->twice) {
        parts[0] = parts[1] = one;
        status = bzna_dataset_concat(context, parts, 2, out, err);
        bzna_dataset_close(one);
    }
    return status;
}

static uint64_t hashed(uint64_t hash, const void *data, size_t size)
{
    const uint8_t *p = data;
    for (; size >= 8; p += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        hash = (hash ^ word) * 1099511628211u;
        hash ^= hash >> 29;
    }
    for (; size; p++, size--)
        hash = (hash ^ *p) * 1099511628211u;
    return hash;
}

/* The slots that have samples. What stands in the others of a short batch is left from before. */
static uint64_t hash_tensor(uint64_t hash, const bzna_tensor *t, uint32_t count)
{
    const int is_picture = !strcmp(t->name, "image") || !strcmp(t->name, "second");
    const int64_t views = is_picture && t->dimensions == 5 ? t->shape[0] : 1, slots = t->shape[views > 1];
    const size_t slot = (size_t)t->bytes / (size_t)(views * slots);
    for (int64_t v = 0; v < views; v++)
        hash = hashed(hash, (const uint8_t *)t->data + (size_t)(v * slots) * slot, count * slot);
    return hash;
}

static uint64_t hash_batch(bzna_loader *loader, const char *names, bzna_batch *batch, uint64_t hash, totals *t)
{
    bzna_batch_info info;
    bzna_tensor listed, tensor;
    CHECK_EQ(bzna_batch_get_info(batch, &info, sizeof info, NULL), BZNA_OK);
    if (loader->setup.on_device) {
        bzna_error ignored;
        if (bzi_device_enter(loader->setup.device, &ignored) == BZNA_OK) {
            bzi_device_stream_wait(loader->setup.device, batch->stream);
            bzi_device_leave(loader->setup.device);
        }
    }
    t->batches++;
    t->samples += info.count;
    t->failed += info.failed;
    hash = hashed(hash, &info.count, sizeof info.count);
    hash = hashed(hash, &info.failed, sizeof info.failed);
    for (uint32_t n = 0; bzna_loader_tensor(loader, n, &listed, sizeof listed, NULL) == BZNA_OK; n++)
        if (bzna_batch_tensor(batch, listed.name, &tensor, sizeof tensor, NULL) == BZNA_OK) {
            hash = hash_tensor(hash, &tensor, info.count);
            if (is_replay)
                printf("    %s %016llx\n", listed.name, (unsigned long long)hash_tensor(0, &tensor, info.count));
        }
    for (uint32_t i = 0; i < info.count; i++) {
        const void *data = NULL;
        uint64_t size = 0;
        bzna_error why = { 0 };
        if (info.status[i] < 0) {
            CHECK_EQ(bzna_batch_error(batch, i, &why), info.status[i]);
            CHECK(why.message[0] != 0);
        }
        if (is_replay)
            printf("    slot %u, sample %llu: %s\n", i, (unsigned long long)info.indices[i], why.message);
        if (names && bzna_batch_bytes(batch, names, i, &data, &size, NULL) == BZNA_OK)
            hash = hashed(hash, data, (size_t)size);
    }
    return hash;
}

/* Batches, and what a program may do between them. */
static uint64_t run_loader(const round_plan *p, bzna_loader *loader, totals *t)
{
    const uint32_t most_held = p->config.pipeline.batches_in_flight - 1;
    uint64_t s = p->seed ^ 0x736f616b, hash = p->seed;
    bzna_loader_state state = { 0 };
    bzna_statistics statistics;
    bzna_batch *held[4] = { NULL }, *batch = NULL;
    uint32_t held_count = 0;
    int saved = 0;
    for (int n = 0; n < ROUND_BATCHES; n++) {
        const uint32_t what = below(&s, 32);
        bzna_error err = { 0 };
        bzna_status status = BZNA_OK;
        if (what < 3)
            status = bzna_loader_save(loader, &state, sizeof state, &err), saved = status == BZNA_OK;
        else if (what < 5 && saved)
            status = bzna_loader_restore(loader, &state, &err);
        else if (what < 7)
            status = bzna_loader_reset(loader, below(&s, 3), &err);
        else if (what == 7 && (status = bzna_loader_stop(loader, &err)) == BZNA_OK)
            status = bzna_loader_reset(loader, 0, &err);
        else if (what == 8)
            status = bzna_loader_statistics(loader, &statistics, sizeof statistics, &err);
        if (status != BZNA_OK)
            printf("  call %u: %s\n", what, err.message);
        CHECK_EQ(status, BZNA_OK);
        status = bzna_loader_next(loader, (int64_t)HANG_NS, &batch, &err);
        hash = hashed(hash, &status, sizeof status);
        if (status == BZNA_OK) {
            hash = hash_batch(loader, p->config.fields.bytes, batch, hash, t);
            if (held_count < most_held && what % 4 == 0)
                held[held_count++] = batch;
            else
                bzna_batch_release(batch);
        } else if (status != BZNA_END) {
            CHECK(err.message[0] != 0 && status != BZNA_AGAIN && status != BZNA_E_STATE);
            if (bzna_loader_reset(loader, below(&s, 3), &err) != BZNA_OK)
                break;
        }
        if (held_count && what % 5 == 0)
            bzna_batch_release(held[--held_count]);
    }
    while (held_count)
        bzna_batch_release(held[--held_count]);
    return hash;
}

/* Opens, runs and closes. */
static uint64_t run_plan(round_plan *p, bzna_context *context, uint64_t variation, totals *t)
{
    uint64_t hash = 0;
    size_t size;
    uint8_t *copy = damaged(&contents[p->kind], p->seed, p->damage, &size);
    memory_file file = { copy, size };
    bzna_dataset *dataset = NULL;
    bzna_loader *loader = NULL;
    bzna_error err = { 0 };
    plan_vary(p, &variation);
    if (is_replay)
        printf("  %u decode, %u read, %u ahead\n", p->config.decode.threads, p->config.read.threads,
               p->config.read.ahead_samples);
    if (plan_open(p, context, &file, &dataset, &err) == BZNA_OK &&
        bzna_loader_open(context, dataset, &p->config, &loader, &err) == BZNA_OK) {
        bzna_dataset_close(dataset);
        dataset = NULL;
        hash = run_loader(p, loader, t);
    } else {
        CHECK(err.status < 0 && err.message[0] != 0);
        t->refused++;
        hash = (uint64_t)err.status;
    }
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    free(copy);
    t->rounds++;
    return hash;
}

static bzna_context *soak_context(int gpu)
{
    bzna_context_config c;
    bzna_context *context = NULL;
    bzna_error err = { 0 };
    bzna_context_config_init(&c, sizeof c);
    c.allocator = (bzna_allocator){ NULL, soak_alloc, soak_release };
    c.device.kind = gpu ? BZNA_DEVICE_CUDA : BZNA_DEVICE_CPU;
    c.sessions = 2;
    if (bzna_context_open(&c, &context, &err) != BZNA_OK) {
        printf("no context: %s\n", err.message);
        exit(1);
    }
    return context;
}

/* ---- The whole ---- */

typedef struct soak {
    uint64_t      seed;
    bzna_context *kept[2];            /* the CPU's, the GPU's: open all the time */
    totals        total;
    measure       measures[MEASURES];
} soak;

static void say_plan(const char *what, const soak *k, uint64_t round, const round_plan *p)
{
    printf("  %s: --replay %llu %llu: %s, %s, %u bytes damaged\n", what, (unsigned long long)k->seed,
           (unsigned long long)round, contents[p->kind].name,
           !p->gpu ? "CPU" : p->on_device ? "GPU, on the device" : "GPU, to the host", p->damage);
}

/* One round, twice: in a context of its own, and in one that stays. Returns the hash. */
static uint64_t soak_round(soak *k, uint64_t round)
{
    const int failures = test_failures;
    uint64_t hashes[2], s = k->seed + round * 0x632be59bd9b4e019u;
    static round_plan plan;
    for (int i = 0; i < 2; i++) {
        plan_make(&plan, drawn(&(uint64_t){ s }));
        bzna_context *own = i ? NULL : soak_context(plan.gpu);
        alarm(HANG_S);
        hashes[i] = run_plan(&plan, own ? own : k->kept[plan.gpu], s + (uint64_t)i, &k->total);
        if (own)
            bzna_context_close(own);
    }
    CHECK(hashes[0] == hashes[1]);
    CHECK(!fake_load()->violation());
    if (test_failures != failures)
        say_plan("fails", k, round, &plan);
    return hashes[0];
}

static void look(double values[MEASURES])
{
    values[RESIDENT] = (double)resident_bytes();
    values[HEAP] = (double)heap_bytes();
    values[HELD] = (double)held_bytes;
    values[DESCRIPTORS] = descriptors();
    values[THREADS] = threads();
}

static void say(const soak *k, double t)
{
    const totals *n = &k->total;
    double v[MEASURES];
    look(v);
    printf("%6.0f s: %llu rounds (%llu refused), %llu batches, %llu samples (%llu failed); ", t,
           (unsigned long long)n->rounds, (unsigned long long)n->refused, (unsigned long long)n->batches,
           (unsigned long long)n->samples, (unsigned long long)n->failed);
    printf("%.1f MiB resident, %.1f MiB of malloc, %.0f KiB of the library, %.0f descriptors, %.0f threads\n",
           v[RESIDENT] / 1048576, v[HEAP] / 1048576, v[HELD] / 1024, v[DESCRIPTORS], v[THREADS]);
    fflush(stdout);
}

static double now_s(void) { return (double)bzi_os_now_ns() * 1e-9; }

/* The warm-up is the first half. By how much the line through the rest may rise: in a short run, contexts that stay
 * still make decoders for kinds of pictures that they had not met, of which each has a thread on the fake. */
static void soak_start(soak *k, uint64_t seed, double seconds)
{
    const int is_long = seconds >= 3000;
    memset(k, 0, sizeof *k);
    k->seed = seed;
    k->measures[RESIDENT] = (measure){ .name = "resident bytes", .allowed = is_long ? 16 << 20 : 128 << 20 };
    k->measures[HEAP] = (measure){ .name = "bytes of malloc", .allowed = is_long ? 4 << 20 : 96 << 20 };
    k->measures[HELD] = (measure){ .name = "bytes of the library", .allowed = is_long ? 4 << 20 : 32 << 20 };
    k->measures[DESCRIPTORS] = (measure){ .name = "descriptors", .allowed = DESCRIPTORS_ALLOWED + 0.5 };
    k->measures[THREADS] = (measure){ .name = "threads", .allowed = is_long ? 4 : 32 };
    k->kept[0] = soak_context(0);
    k->kept[1] = soak_context(1);
}

/* Looks at the line through the values of so many seconds. */
static void soak_judge(const soak *k, double seconds)
{
    for (int i = 0; i < MEASURES; i++) {
        const measure *m = &k->measures[i];
        const double growth = measure_slope(m) * seconds;
        printf("  %s: first %.0f, least %.0f, most %.0f, last %.0f; the line through them rises by %.1f\n", m->name,
               m->first, m->least, m->most, m->last, growth);
        if (i <= HEAP && SANITIZED)                         /* a sanitizer keeps what was freed */
            continue;
        CHECK(growth <= m->allowed);
    }
}

static BZI_OS_THREAD no_work(void *argument) { (void)argument; return 0; }

static void run_soak(double seconds, uint64_t seed)
{
    static soak k;
    const double start = now_s();
    bzi_thread first;                 /* with it, a sanitizer starts one of its own, which stays */
#ifdef __GLIBC__
    mallopt(M_ARENA_MAX, 1);                                /* what is free goes back, and does not look like a leak */
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
#endif
    if (!bzi_os_thread_start(&first, no_work, NULL, -1))
        bzi_os_thread_join(first);
    const int descriptors_before = descriptors(), threads_before = threads();
    double said = 0, looked = 0, t, values[MEASURES];
    uint64_t round = 0, hash = 0;
    printf("seed %llu, %.0f s\n", (unsigned long long)seed, seconds);
    contents_make();
    soak_start(&k, seed, seconds);
    while ((t = now_s() - start) < seconds && !test_failures) {
        hash = hashed(hash, &(uint64_t){ soak_round(&k, round++) }, 8);
        if (t > seconds / 2 && t > looked + seconds / 200) {
#ifdef __GLIBC__
            malloc_trim(0);
#endif
            look(values);
            for (int i = 0; i < MEASURES; i++)
                measure_add(&k.measures[i], t, values[i]);
            looked = t;
        }
        if (seconds >= 60 && t > said + seconds / 60)
            say(&k, said = t);
    }
    say(&k, now_s() - start);
    soak_judge(&k, 0.5 * seconds);
    for (int i = 0; i < 2; i++)
        bzna_context_close(k.kept[i]);
    CHECK_EQ(held_bytes, 0);
    CHECK_EQ(held_blocks, 0);
    CHECK(!fake_load()->leaks());
    for (int i = 0; i < 1000 && threads() > threads_before; i++)
        usleep(1000);
    CHECK_NEAR(descriptors(), descriptors_before, DESCRIPTORS_ALLOWED);
    CHECK(EMULATED || threads() <= threads_before);         /* QEMU has threads of its own */
    printf("  the hash of %llu plans: %016llx\n", (unsigned long long)round, (unsigned long long)hash);
}

static void replay(uint64_t seed, uint64_t round)
{
    static soak k;
    is_replay = 1;
    contents_make();
    soak_start(&k, seed, 0);
    printf("hash %016llx\n", (unsigned long long)soak_round(&k, round));
    for (int i = 0; i < 2; i++)
        bzna_context_close(k.kept[i]);
}

TEST(loaders_with_random_settings_give_everything_back)
{
    if (!descriptors())
        SKIP("no /proc");
    run_soak(test_all() ? 20 : 2, (uint64_t)time(NULL));
}

int main(int argc, char **argv)
{
    if (argc > 2 && !strcmp(argv[1], "--soak")) {
        run_soak(atof(argv[2]), argc > 3 ? strtoull(argv[3], NULL, 0) : (uint64_t)time(NULL));
        puts(test_failures ? "it failed" : "nothing failed");
        return test_failures > 0;
    }
    if (argc > 3 && !strcmp(argv[1], "--replay")) {
        replay(strtoull(argv[2], NULL, 0), strtoull(argv[3], NULL, 0));
        return test_failures > 0;
    }
    test_start(argv);
    RUN(loaders_with_random_settings_give_everything_back)
    printf("%s: %d passed, %d failed, %d skipped\n", __FILE__, test_passed, test_failed, test_skipped);
    return test_failed != 0;
}

#endif
