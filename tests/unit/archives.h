/* archives.h - what tests of loaders share: archives written in memory, sources that are slow, blocked or broken, an
 * allocator that counts. Include after benzina.c, test.h and fake/nvdec.h, which renames calls. */
#ifndef BENZINA_TEST_ARCHIVES_H
#define BENZINA_TEST_ARCHIVES_H
#include <pthread.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"          /* not every test needs all of it */

static void require(bzna_status status, const char *what)
{
    if (status != BZNA_OK) {
        printf("cannot prepare: %s: %s\n", what, bzna_status_name(status));
        exit(1);
    }
}

static void *take_memory(size_t size)
{
    void *p = calloc(1, size ? size : 1);
    if (!p)
        abort();
    return p;
}

static void sleep_us(int us)
{
    struct timespec t = { us / 1000000, (long)(us % 1000000) * 1000 };
    while (nanosleep(&t, &t) && errno == EINTR)
        continue;
}

#define WAIT_FOR(condition) do { for (int wait_i = 0; wait_i < 60000 && !(condition); wait_i++) sleep_us(1000); \
    CHECK(condition); } while (0)

/* ---- Coded pictures ---- */

typedef struct coded {
    bzna_image   image;
    uint8_t     *memory;              /* that image lies in */
    bzna_picture picture;             /* what libavcodec makes of it, where a test asked; in memory of its own */
} coded;

/* The archives of tests/data by codec - 1, and the same pictures with edges of 5/16 in frames of 160x160. Suites of
 * loaders take most of their time for decoding, so these are taken but for make test-all. */
static const char *const mini_files[] = { "tests/data/mini_h264.bzna", "tests/data/mini_h265.bzna" };
static const char *const small_files[] = { "tests/data/small_h264.bzna", "tests/data/small_h265.bzna" };

static coded coded_load_from(bzna_context *context, const char *path, uint64_t index, const char *track)
{
    enum { ROOM = 1 << 18 };
    coded c = { .image.struct_size = sizeof c.image, .memory = take_memory(ROOM) };
    bzna_dataset *dataset = NULL;
    require(bzna_dataset_open(context, path, NULL, &dataset, NULL), path);
    require(bzna_dataset_read_image(dataset, index, track, c.memory, ROOM, &c.image, NULL), "image");
    bzna_dataset_close(dataset);
    return c;
}

static coded coded_load(bzna_context *context, uint32_t codec, uint64_t index, const char *track)
{
    return coded_load_from(context, (ROUNDS(1, 0) ? mini_files : small_files)[codec - 1], index, track);
}

/* image: what to decode; c's own, or as an archive has it. */
static void coded_decode(coded *c, bzna_decoder *decoder, const bzna_image *image)
{
    bzna_picture *p = &c->picture;
    p->struct_size = sizeof *p;
    require(bzna_decoder_decode(decoder, image, p, NULL), "decode");
    for (int k = 0; k < 3 && p->plane[k]; k++) {
        uint32_t sx = k ? p->chroma_shift_x : 0, sy = k ? p->chroma_shift_y : 0;
        size_t sample = p->depth > 8 ? 2 : 1, step = p->step[k] ? p->step[k] : sample;
        size_t w = ((p->frame_width + (1u << sx) - 1) >> sx) * sample;
        size_t h = (p->frame_height + (1u << sy) - 1) >> sy;
        uint8_t *copy = take_memory(w * h);
        for (size_t y = 0; y < h; y++)
            for (size_t i = 0; i < w; i++)
                copy[y * w + i] = ((const uint8_t *)p->plane[k] +
                                   (int64_t)y * p->pitch[k])[i / sample * step + i % sample];
        p->plane[k] = copy;
        p->pitch[k] = (int64_t)w;
        p->step[k] = 0;
    }
}

static void coded_clear(coded *c)
{
    free(c->memory);
    for (int k = 0; k < 3; k++)
        free((void *)(uintptr_t)c->picture.plane[k]);
    memset(c, 0, sizeof *c);
}

/* ---- Archives ---- */

typedef struct recipe {
    uint64_t     count;
    const coded *pictures;            /* sample i is pictures[pattern[i % pattern_count]] */
    const int   *pattern;
    uint64_t     pattern_count;
    int64_t      base, step;          /* its target is base + step * i */
    uint64_t     targets;             /* so many of the first have one; 0: all */
    char         letter;              /* its name is LETTERiiiii; 0: it has none */
    uint32_t   (*split)(uint64_t i);
    uint64_t   (*padding)(uint64_t i);        /* bytes of a free box behind it */
} recipe;

typedef struct archive {
    uint8_t      *bytes;
    uint64_t      size, capacity, count;
    const coded **pictures;           /* by sample */
    uint8_t      *bad;                /* by sample: a test has damaged it, and said so here */
    int64_t       base, step;
    uint64_t      targets;
    char          letter;
    uint64_t      hole, hole_end;     /* a source has no bytes for reads that begin there */
} archive;

static int64_t target_of(const archive *a, uint64_t index)
{
    return index < a->targets ? a->base + a->step * (int64_t)index : BZNA_TARGET_NONE;
}

static const bzna_picture *picture_of(const archive *a, uint64_t index) { return &a->pictures[index]->picture; }

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

static int64_t archive_read(void *user, uint64_t offset, void *dst, uint64_t size)
{
    const archive *a = user;
    if (offset >= a->size || (offset >= a->hole && offset < a->hole_end))
        return 0;
    size = bzi_min(size, a->size - offset);
    memcpy(dst, a->bytes + offset, (size_t)size);
    return (int64_t)size;
}

static int64_t archive_size(void *user) { return (int64_t)((const archive *)user)->size; }

static bzna_source archive_source(const archive *a)
{
    bzna_source source = { sizeof source, 0, (void *)(uintptr_t)a, archive_read, archive_size, NULL, NULL };
    return source;
}

/* A free box behind the sample just added, and the index entry as long. */
static void pad(bzna_writer *writer, archive *a, uint64_t bytes)
{
    uint8_t box[8] = { 0, 0, 0, 0, 'f', 'r', 'e', 'e' };
    if (bytes < 8)
        return;
    bzi_put_be32(box, (uint32_t)bytes);
    archive_write(a, writer->position + bytes - 1, "", 1);
    archive_write(a, writer->position, box, 8);
    bzi_index_at(&writer->index, writer->index.counts[0] - 1)->size += (uint32_t)bytes;
    writer->position += bytes;
}

static archive archive_build(bzna_context *context, const recipe *r)
{
    archive a = { .count = r->count, .base = r->base, .step = r->step, .letter = r->letter };
    bzna_sink sink = { sizeof sink, 0, &a, archive_write, NULL };
    bzna_writer *writer = NULL;
    a.targets = r->targets ? r->targets : r->count;
    a.pictures = take_memory((size_t)r->count * sizeof *a.pictures);
    a.bad = take_memory((size_t)r->count);
    require(bzna_writer_open_sink(context, &sink, NULL, &writer, NULL), "writer");
    for (uint64_t i = 0; i < r->count; i++) {
        char name[32];
        bzna_writer_sample desc = { .struct_size = sizeof desc, .target = target_of(&a, i) };
        desc.has_target = desc.target != BZNA_TARGET_NONE;
        a.pictures[i] = &r->pictures[r->pattern[i % r->pattern_count]];
        desc.image = &a.pictures[i]->image;
        desc.name = r->letter ? name : NULL;
        desc.split = r->split ? r->split(i) : 0;
        snprintf(name, sizeof name, "%c%05d", r->letter, (int)i);
        require(bzna_writer_add(writer, BZNA_INDEX_NEXT, &desc, 0, NULL), "sample");
        if (r->padding)
            pad(writer, &a, r->padding(i));
    }
    require(bzna_writer_finish(writer, NULL), "archive");
    bzna_writer_close(writer);
    return a;
}

static archive archive_copy(const archive *a)
{
    archive copy = *a;
    copy.bytes = take_memory((size_t)a->size);
    copy.capacity = a->size;
    copy.pictures = take_memory((size_t)a->count * sizeof *a->pictures);
    copy.bad = take_memory((size_t)a->count);
    memcpy(copy.bytes, a->bytes, (size_t)a->size);
    memcpy(copy.pictures, a->pictures, (size_t)a->count * sizeof *a->pictures);
    memcpy(copy.bad, a->bad, (size_t)a->count);
    return copy;
}

static void archive_clear(archive *a)
{
    free(a->bytes);
    free(a->pictures);
    free(a->bad);
    memset(a, 0, sizeof *a);
}

/* ---- Sources ---- */

typedef struct fault {
    uint64_t        from, to;         /* reads that touch these bytes return result */
    int64_t         result;
    _Atomic int64_t left;             /* so many times; < 0: always */
} fault;

/* A source that can be slow, stingy, blocked or broken. */
typedef struct memory {
    archive         a;                /* what is read */
    _Atomic int64_t reads, closes, inside, failures;
    atomic_int      delay_us, jitter_us;      /* each read takes so long, and up to so much longer */
    atomic_int      unreliable;       /* one of so many reads fails, which one does not depend on what; 0: none */
    atomic_int      blocked;          /* reads wait until it is 0 */
    uint64_t        at_most;          /* bytes a read; 0: all */
    bzna_status   (*meddle)(void);    /* called inside each read */
    fault           faults[80];
    atomic_int      fault_count;
    uint64_t        failed_at_ns[16];
} memory;

/* The fault that a read meets; NULL: none. */
static fault *memory_fault(memory *m, uint64_t offset, uint64_t size)
{
    for (int i = 0; i < m->fault_count; i++) {
        fault *f = &m->faults[i];
        if (offset < f->to && offset + size > f->from && f->left != 0)
            return f;
    }
    return NULL;
}

static int64_t memory_read(void *user, uint64_t offset, void *dst, uint64_t size)
{
    memory *m = user;
    int64_t number = m->reads++;
    int delay = m->delay_us, jitter = m->jitter_us;
    fault *f;
    m->inside++;
    if (jitter)
        delay += (int)((uint64_t)number * 2654435761u % (uint64_t)jitter);
    if (delay)
        sleep_us(delay);
    while (m->blocked)
        sleep_us(300);
    if (m->meddle)
        m->meddle();
    m->inside--;
    if (m->unreliable && ((uint64_t)number * 2654435761u >> 7) % (uint64_t)m->unreliable == 0)
        return -1;
    f = memory_fault(m, offset, size);
    if (f) {
        int64_t n = m->failures++;
        if (n < (int64_t)(sizeof m->failed_at_ns / sizeof *m->failed_at_ns))
            m->failed_at_ns[n] = bzi_os_now_ns();
        if (f->left > 0)
            f->left--;
        return f->result;
    }
    return archive_read(&m->a, offset, dst, m->at_most ? bzi_min(size, m->at_most) : size);
}

static int64_t memory_size(void *user) { return archive_size(&((memory *)user)->a); }
static void memory_close(void *user) { ((memory *)user)->closes++; }

static bzna_source memory_source(memory *m, const archive *a)
{
    bzna_source source = { sizeof source, 0, m, memory_read, memory_size, memory_close, NULL };
    memset(m, 0, sizeof *m);
    m->a = *a;
    return source;
}

/* split: NULL: all samples. */
static bzna_dataset *open_split(bzna_context *context, memory *m, const archive *a, const char *split)
{
    bzna_source source = memory_source(m, a);
    bzna_dataset_config config;
    bzna_dataset *dataset = NULL;
    bzna_dataset_config_init(&config, sizeof config);
    config.name = "memory.bzna";
    config.split = split;
    require(bzna_dataset_open_source(context, &source, &config, &dataset, NULL), "source");
    return dataset;
}

/* ---- An allocator ---- */

/* Counts everything; releases must give the right size back; can fail. Gives at most 1 GiB at once. */
typedef struct ledger {
    _Atomic int64_t bytes, peak, blocks, calls, releases, mistakes;
    _Atomic int64_t fail_at;          /* this call from now fails, of those on the thread `only`; 0: none */
    atomic_int      fail_all;
    pthread_t       only;
} ledger;

static void *ledger_alloc(void *user, size_t size, size_t align)
{
    ledger *l = user;
    uint64_t *p = NULL;
    int64_t now, peak;
    if (size > (size_t)1 << 30 || l->fail_all ||
        (l->fail_at && pthread_equal(l->only, pthread_self()) && --l->fail_at == 0) ||
        !(p = aligned_alloc(64, (size + 127) / 64 * 64)))
        return NULL;
    l->calls++;
    l->blocks++;
    l->mistakes += align > 64 || !align || (align & (align - 1));
    now = atomic_fetch_add(&l->bytes, (int64_t)size) + (int64_t)size;
    peak = l->peak;
    while (now > peak && !atomic_compare_exchange_weak(&l->peak, &peak, now))
        continue;
    p[0] = size;
    p[1] = (uint64_t)(uintptr_t)p ^ 0x600dc0de;
    return p + 8;
}

static void ledger_release(void *user, void *ptr, size_t size)
{
    ledger *l = user;
    uint64_t *p = (uint64_t *)ptr - 8;
    int right = p[0] == size && p[1] == ((uint64_t)(uintptr_t)p ^ 0x600dc0de);
    l->mistakes += !right;
    l->bytes -= (int64_t)size;
    l->blocks--;
    l->releases++;
    memset(p, 0xa5, right ? size + 64 : 64);                /* nobody reads it any more, or sees this */
    aligned_free(p);
}

static bzna_allocator ledger_allocator(ledger *l)
{
    memset(l, 0, sizeof *l);
    l->only = pthread_self();
    return (bzna_allocator){ l, ledger_alloc, ledger_release };
}

static void check_settled(ledger *l)
{
    CHECK_EQ(l->bytes, 0);
    CHECK_EQ(l->blocks, 0);
    CHECK_EQ(l->mistakes, 0);
}

/* ---- Loaders ---- */

static const char *const tensor_names[4] = { "image", "target", "index", "status" };

static bzna_batch_info info_of(const bzna_batch *batch)
{
    bzna_batch_info info;
    memset(&info, 0, sizeof info);
    bzna_batch_get_info(batch, &info, sizeof info, NULL);
    return info;
}

/* A thread that calls bzna_loader_next. */
typedef struct waiter {
    bzna_loader *loader;
    pthread_t    thread;
    atomic_int   ended;
    bzna_status  status;
    bzna_batch  *batch;
} waiter;

static void *waiter_run(void *argument)
{
    waiter *w = argument;
    w->status = bzna_loader_next(w->loader, BZNA_WAIT_FOREVER, &w->batch, NULL);
    w->ended = 1;
    return NULL;
}

static uint32_t peek(bzna_loader *loader, const uint32_t *field)
{
    uint32_t value;
    bzi_os_lock(&loader->queues.mutex);
    value = *field;
    bzi_os_unlock(&loader->queues.mutex);
    return value;
}

/* Returns when the thread is in next, as the loader sees it. */
static void waiter_start(waiter *w, bzna_loader *loader)
{
    uint32_t waiting = 0;
    memset(w, 0, sizeof *w);
    w->loader = loader;
    pthread_create(&w->thread, NULL, waiter_run, w);
    for (int i = 0; i < 300000 && !waiting && !w->ended; i++) {
        waiting = peek(loader, &loader->queues.waiting);
        if (!waiting)
            sleep_us(200);
    }
    CHECK(waiting);
}

#pragma GCC diagnostic pop
#endif
