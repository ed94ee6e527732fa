/* All orders in which the threads of a loader can run, for small loaders: 2 to 4 threads and the consumer, few samples,
 * 2 batches. A thread runs from where it takes the loader's lock to where it takes it next, or waits: what is between
 * is a step, since everything that threads share changes under the lock. The explorer begins with an open loader, and
 * makes each step that some thread can make, in each state that can be reached so. It finds
 *   - a wake-up that is lost: a state from which nobody goes on, though not all threads have ended;
 *   - a busy loop: a state to which the loader comes back;
 *   - a sample that is lost, delivered twice, or in another's slot; a batch out of order; memory that is not freed.
 *
 * Threads are coroutines here, with their stacks in one region of memory, as all that the library allocates is. A state
 * is that region: it is copied, hashed, and put back. Time passes only in steps of its own. The library is that of all
 * suites; pthread_... and the clock are functions of this suite. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <time.h>
#include "library.h"
#include "test.h"

#if SANITIZED || !defined(__x86_64__) || !defined(__GLIBC__) || defined(BENZINA_NO_THREADS)
TEST(every_order_of_steps_ends_well) { SKIP("sanitizers and other systems do not know stacks that are put back"); }
TEST_MAIN(RUN(every_order_of_steps_ends_well))
#else
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { PAGE = 4096, STACK = 16 * PAGE, THREADS = 8, DEAF_POOL = BZI_ROLES, CLASSES = 24, BATCH = 2, MOST_SAMPLES = 8 };

/* Where a thread stands. */
enum { ABSENT, AT_LOCK, ASLEEP, JOINING, ENDED };

typedef struct coroutine {
    ucontext_t      context;
    uint32_t        state;            /* ABSENT, ... */
    uint32_t        timed;            /* asleep, 1: until `deadline` */
    uint32_t        expired;          /* woken, 1: by the time */
    uint32_t        joins;            /* number of the thread that it waits for */
    uint64_t        deadline;
    const void     *condition;        /* that it sleeps on */
    void         *(*run)(void *argument);
    void           *argument;
    uint32_t        ranks[BZI_RANKS], rank_count;     /* the locks that it holds, for the check of their order */
} coroutine;

/* What a scenario is, besides the loader's config. */
typedef struct scenario {
    const char *name;
    uint32_t    samples, readers, workers;
    uint32_t    ahead;                /* samples that are read ahead */
    uint32_t    policy;               /* BZNA_ON_ERROR_... */
    uint32_t    memory;               /* bytes for samples that are read; 0: enough */
    uint32_t    bad;                  /* number of a sample that always fails, + 1; 0: none */
    uint32_t    weak;                 /* number of a sample whose first read fails, + 1; 0: none */
    uint32_t    holds;                /* batches that the consumer holds */
    uint32_t    given;                /* 1: the order is a list, which the controller gives */
    uint32_t    control;              /* what the controller does: 's' stop, 'r' reset, 0: nothing */
    uint32_t    hybrid;               /* an engine and workers share samples; the engine 'e' goes on, 'r' retires */
    uint32_t    all;                  /* 1: in test-all alone */
} scenario;

/* All that can change. */
typedef struct region {
    coroutine       threads[THREADS];
    uint64_t        now;
    uint32_t        count;            /* of threads */
    uint32_t        current;          /* the thread that runs, if `running` */
    uint32_t        running;          /* 1: the explorer makes a step */
    uint32_t        choice;           /* which sleeping thread a signal wakes */
    uint32_t        choices;          /* most threads among which one was chosen in this step */
    int64_t         blocks;           /* of memory that are allocated */
    uint64_t        used;             /* bytes of the arena */
    void           *freed[CLASSES];
    bzna_context   *context;
    bzna_dataset   *dataset;
    bzna_loader    *loader;
    bzna_batch     *held[2];
    uint32_t        weak_reads;
    uint32_t        delivered;        /* batches since the last reset */
    uint32_t        controlled;       /* 1: the controller is done */
    uint32_t        stopped;          /* 1: it has called stop */
    bzi_pool        pool;             /* of an engine */
    uint32_t        engine_made;      /* 1: the engine has taken a sample */
    const char     *wrong;            /* what was found; NULL: nothing yet */
    uint8_t         arena[];
} region;

enum { ARENA = 6 << 20 };
static region *all;
static uint8_t *stacks;
static size_t region_bytes;
static scenario at;
static ucontext_t explorer;
static uint32_t deaf;                 /* a role whose signals are lost, or DEAF_POOL, + 1; 0: none */
static bzi_device device;             /* that never changes */
static bzi_engine engine;             /* of which only `retired` changes, which is set back before it is used */

/* ---- Threads, locks and time as the library sees them ------------------------------------------------------------ */

static void check(int right, const char *what)
{
    if (!right && !all->wrong)
        all->wrong = what;
}

/* Goes on with the explorer, until it lets this thread make its next step. */
static void yield(void)
{
    coroutine *self = &all->threads[all->current];
    memcpy(self->ranks, bzi_ranks_held, sizeof self->ranks);
    self->rank_count = bzi_ranks_count;
    swapcontext(&self->context, &explorer);
}

static int is_loaders(const void *mutex)
{
    return all->running && all->loader && mutex == (const void *)&all->loader->queues.mutex;
}

int test_pthread_mutex_lock(pthread_mutex_t *mutex);
int test_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    if (is_loaders(mutex))
        yield();
    return 0;
}

int test_pthread_mutex_trylock(pthread_mutex_t *mutex);
int test_pthread_mutex_trylock(pthread_mutex_t *mutex) { return test_pthread_mutex_lock(mutex); }
int test_pthread_mutex_unlock(pthread_mutex_t *mutex);
int test_pthread_mutex_unlock(pthread_mutex_t *mutex) { return (void)mutex, 0; }

static int sleep_on(const void *condition, uint32_t timed, uint64_t deadline)
{
    coroutine *self = &all->threads[all->current];
    self->state = ASLEEP;
    self->condition = condition;
    self->timed = timed;
    self->deadline = deadline;
    self->expired = 0;
    yield();
    self->condition = NULL;
    self->timed = 0;
    self->deadline = 0;
    return self->expired ? ETIMEDOUT : 0;
}

int test_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
int test_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
    return (void)mutex, sleep_on(condition, 0, 0);
}

int test_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until);
int test_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until)
{
    if (at.hybrid)                                      /* only looks after engines, which do not hang, end by time */
        return (void)mutex, sleep_on(condition, 0, 0);
    return (void)mutex, sleep_on(condition, 1, (uint64_t)until->tv_sec * 1000000000u + (uint64_t)until->tv_nsec);
}

static int is_deaf(const void *condition)
{
    if (deaf == DEAF_POOL + 1)
        return condition == (const void *)&all->pool.wake;
    return deaf && all->loader && condition == (const void *)&all->loader->queues.wake[deaf - 1];
}

int test_pthread_cond_signal(pthread_cond_t *condition);
int test_pthread_cond_signal(pthread_cond_t *condition)
{
    uint32_t found[THREADS], count = 0;
    for (uint32_t i = 0; i < all->count && !is_deaf(condition); i++)
        if (all->threads[i].state == ASLEEP && all->threads[i].condition == condition)
            found[count++] = i;
    if (count)
        all->threads[found[all->choice % count]].state = AT_LOCK;
    all->choices = bzi_max32(all->choices, count);
    return 0;
}

int test_pthread_cond_broadcast(pthread_cond_t *condition);
int test_pthread_cond_broadcast(pthread_cond_t *condition)
{
    for (uint32_t i = 0; i < all->count && !is_deaf(condition); i++)
        if (all->threads[i].state == ASLEEP && all->threads[i].condition == condition)
            all->threads[i].state = AT_LOCK;
    return 0;
}

static void coroutine_main(void)
{
    coroutine *self = &all->threads[all->current];
    self->run(self->argument);
    self->state = ENDED;
    for (uint32_t i = 0; i < all->count; i++)
        if (all->threads[i].state == JOINING && all->threads[i].joins == all->current)
            all->threads[i].state = AT_LOCK;
    swapcontext(&self->context, &explorer);
}

static uint32_t start(void *(*run)(void *), void *argument)
{
    coroutine *new = &all->threads[all->count];
    getcontext(&new->context);
    new->context.uc_stack.ss_sp = stacks + all->count * STACK;
    new->context.uc_stack.ss_size = STACK;
    new->context.uc_link = NULL;
    new->state = AT_LOCK;
    new->run = run;
    new->argument = argument;
    makecontext(&new->context, coroutine_main, 0);
    return all->count++;
}

int test_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);
int test_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    (void)attributes;
    *thread = start(run, argument);
    return 0;
}

static void join(uint32_t number)
{
    coroutine *self = &all->threads[all->current];
    if (all->threads[number].state == ENDED)
        return;
    self->state = JOINING;
    self->joins = number;
    yield();
}

int test_pthread_join(pthread_t thread, void **result);
int test_pthread_join(pthread_t thread, void **result) { return (void)result, join((uint32_t)thread), 0; }

int test_clock_gettime(clockid_t clock, struct timespec *now);
int test_clock_gettime(clockid_t clock, struct timespec *now)
{
    (void)clock;
    now->tv_sec = (time_t)(all->now / 1000000000u);
    now->tv_nsec = (long)(all->now % 1000000000u);
    return 0;
}

/* What other libraries have allocated lies elsewhere, and is not used here: nothing is freed twice. */
#ifndef BENZINA_NO_AVCODEC
void test_av_frame_free(AVFrame **frame);
void test_av_frame_free(AVFrame **frame) { *frame = NULL; }
void test_av_packet_free(AVPacket **packet);
void test_av_packet_free(AVPacket **packet) { *packet = NULL; }
#endif
#ifndef BENZINA_NO_JPEG
void test_jpeg_destroy_decompress(j_decompress_ptr info);
void test_jpeg_destroy_decompress(j_decompress_ptr info) { (void)info; }
void test_jpeg_destroy_compress(j_compress_ptr info);
void test_jpeg_destroy_compress(j_compress_ptr info) { (void)info; }
#endif

/* ---- Memory: blocks of powers of two ----------------------------------------------------------------------------- */

static uint32_t class_of(size_t size)
{
    uint32_t class = 6;
    while ((size_t)1 << class < size)
        class++;
    return class;
}

static void *region_alloc(void *user, size_t size, size_t align)
{
    const uint32_t class = class_of(size);
    void **block = class < CLASSES ? all->freed[class] : NULL;
    (void)user;
    (void)align;
    if (class >= CLASSES)
        return NULL;
    if (block)
        all->freed[class] = *block;
    else if (all->used + ((uint64_t)1 << class) > ARENA)
        return NULL;
    else
        block = (void **)(void *)(all->arena + all->used), all->used += (uint64_t)1 << class;
    memset(block, 0, (size_t)1 << class);
    all->blocks++;
    return block;
}

static void region_release(void *user, void *block, size_t size)
{
    const uint32_t class = class_of(size);
    (void)user;
    memset(block, 0, (size_t)1 << class);                   /* what lay there is no part of a state */
    *(void **)block = all->freed[class];
    all->freed[class] = block;
    all->blocks--;
}

/* ---- The program: a data set, a consumer, a controller ----------------------------------------------------------- */

static bzna_status read_sample(void *user, uint64_t index, uint32_t field, void *buffer, uint64_t capacity,
                               uint64_t *size, bzna_error *err)
{
    (void)user, (void)err;
    (void)field;
    *size = 1;
    if (capacity)
        *(uint8_t *)buffer = (uint8_t)(100 + index);
    if (at.bad == index + 1)
        return BZNA_E_FORMAT;
    return at.weak == index + 1 && all->weak_reads++ == 0 ? BZNA_E_IO : BZNA_OK;
}

static uint64_t expected(uint32_t batch, uint32_t slot)
{
    const uint64_t index = (uint64_t)batch * BATCH + slot;
    return at.policy == BZNA_ON_ERROR_REPLACE && at.bad == index + 1 ? (index + 1) % at.samples : index;
}

static void check_batch(const bzna_batch *batch)
{
    const uint32_t number = all->delivered++;               /* before the next lock, where a reset may come between */
    bzna_batch_info info;
    bzna_batch_get_info(batch, &info, sizeof info, NULL);
    check(info.position == number * BATCH && info.count == BATCH, "a batch is out of order");
    for (uint32_t i = 0; i < info.count; i++) {
        const uint64_t index = expected((uint32_t)info.position / BATCH, i);
        const int failed = at.bad == index + 1;
        check(info.indices[i] == index, "a slot has another sample");
        check(failed == (info.status[i] != BZNA_OK), "a slot has another status");
        check(((const uint8_t *)info.image.data)[i * 3] == (failed ? 0 : 100 + index), "a slot has other pixels");
    }
}

static void *consume(void *argument)
{
    bzna_status status;
    (void)argument;
    for (;;) {
        bzna_batch *batch = NULL;
        status = bzna_loader_next(all->loader, BZNA_WAIT_FOREVER, &batch, NULL);
        if (status == BZNA_OK) {
            check_batch(batch);
            for (uint32_t i = 0; i < at.holds; i++) {
                bzna_batch *before = all->held[i];
                all->held[i] = batch;
                batch = before;
            }
            if (batch)
                check(bzna_batch_release(batch) == BZNA_OK, "a batch cannot be released");
        } else if (!all->controlled && (status == BZNA_E_STOPPED || status == BZNA_E_STATE || status == BZNA_END)) {
            join(at.control || at.given ? all->count - 1 : all->current);
        } else {
            break;
        }
    }
    if (status == BZNA_END)
        check(all->delivered == at.samples / BATCH, "the epoch ends early");
    else
        check(all->stopped && status == BZNA_E_STOPPED, "next has another status");
    for (uint32_t i = 0; i < at.holds; i++)
        check(bzna_batch_release(all->held[i]) == BZNA_OK, "a held batch cannot be released");
    bzna_loader_close(all->loader);
    all->loader = NULL;
    if (at.hybrid) {
        check(all->engine_made || all->stopped, "the engine has nothing to do");
        all->pool.quit = 1;
        bzi_os_wake_all(&all->pool.wake);
    }
    bzna_dataset_close(all->dataset);
    bzna_context_close(all->context);
    check(all->blocks == 0, "memory is not freed");
    return NULL;
}

static void *control(void *argument)
{
    static const uint64_t indices[MOST_SAMPLES] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    bzna_statistics statistics;
    (void)argument;
    if (at.given)
        check(bzna_loader_set_batches(all->loader, 0, indices, at.samples, NULL, 0, NULL) == BZNA_OK,
              "a list is refused");
    if (at.control == 's') {
        all->stopped = 1;
        check(bzna_loader_stop(all->loader, NULL) == BZNA_OK, "stop fails");
    }
    if (at.control == 'r') {                                /* the consumer may be in next, which is E_STATE */
        bzna_status status = bzna_loader_stop(all->loader, NULL);
        check(status == BZNA_OK, "stop fails");
        status = bzna_loader_reset(all->loader, 0, NULL);
        check(status == BZNA_OK || status == BZNA_E_STATE, "reset fails");
        all->stopped = status != BZNA_OK;
        all->delivered = all->stopped ? all->delivered : 0;
    }
    if (at.control == 'a')
        check(bzna_loader_statistics(all->loader, &statistics, sizeof statistics, NULL) == BZNA_OK, "statistics fail");
    all->controlled = 1;
    return NULL;
}

/* What an engine does, without a driver: it makes samples, refuses those of odd numbers, and perhaps ends after the
 * first one. */
static void *decode(void *argument)
{
    bzna_error why = { .struct_size = sizeof why, .status = BZNA_E_DEVICE };
    bzi_item *item;
    (void)argument;
    yield();
    while (engine.retired = 0, (item = bzi_pool_take(&engine, 0)) != NULL) {
        bzi_queues *queues = item->queues;
        const int retires = all->engine_made && at.hybrid == 'r';
        all->engine_made = 1;
        yield();                                            /* the pool's lock is none where threads are exchanged */
        if (retires || (item->index & 1)) {
            bzi_engine_refuse(&engine, item, 0);
        } else {
            memset(bzi_batch_slot(item->batch, item->setup->views, item->slot), *item->data, 3);
            item->by_nvdec = 1;
            item->result = BZNA_OK;
            bzi_queues_lock(queues);
            bzi_item_finish(item);
            bzi_queues_unlock(queues);
        }
        yield();
        if (retires) {
            bzi_engine_retire(&engine, &why);
            break;
        }
    }
    return NULL;
}

/* Gives a loader that is open, and whose threads have not begun, the pool of an engine. */
static void open_pool(void)
{
    bzi_queues *queues = &all->loader->queues;
    all->pool.device = engine.lane.device = &device;
    all->pool.host = all->loader->setup.host;
    all->pool.live = 1;
    all->pool.watches.looked_ns = all->now;
    check(bzi_os_locks_init(&all->pool.mutex, BZI_RANK_POOL, &all->pool.wake, 1), "no locks");
    engine.pool = &all->pool;
    all->loader->setup.pool = queues->hybrid = &all->pool;
    queues->sessions = queues->run_most = 1;
    all->dataset->parts[0].container->still = 0;            /* as of a codec that engines decode */
    start(decode, NULL);
}

static void open_all(void)
{
    static const bzna_provider_field image = { .name = "image", .kind = BZNA_FIELD_IMAGE, .codec = BZNA_CODEC_RAW,
                                               .width = 1, .height = 1, .channels = 1 };
    bzna_context_config cc = { .struct_size = sizeof cc };
    bzna_provider provider = { .struct_size = sizeof provider, .field_count = 1, .fields = &image,
                               .count = at.samples, .read = read_sample };
    bzna_loader_config c = { .struct_size = sizeof c };
    bzna_error err = { .struct_size = sizeof err };
    bzi_container *container;
    cc.allocator.alloc = region_alloc;
    cc.allocator.release = region_release;
    c.output.batch_size = BATCH;
    c.output.width = c.output.height = 1;
    c.output.dtype = BZNA_DTYPE_UINT8;
    c.output.device.kind = BZNA_DEVICE_CPU;
    c.decode.decoder = BZNA_DECODER_SOFTWARE;
    c.order.kind = at.given ? BZNA_ORDER_GIVEN : BZNA_ORDER_SEQUENTIAL;
    c.order.epochs = 1;
    c.read.threads = at.readers;
    c.read.ahead_samples = at.ahead;
    c.read.retries = 1;
    c.read.backoff_ns = 1;
    c.read.memory_bytes = at.memory;
    c.decode.threads = at.workers;
    c.pipeline.batches_in_flight = 2;
    c.errors.on_error = at.policy;
    memset(all, 0, sizeof *all);
    all->now = 1000000000;
    if (bzna_context_open(&cc, &all->context, &err) != BZNA_OK ||
        bzna_dataset_open_provider(all->context, &provider, NULL, &all->dataset, &err) != BZNA_OK) {
        fprintf(stderr, "%s: %s\n", at.name, err.message);
        abort();
    }
    container = all->dataset->parts[0].container;
    container->source.held = at.readers ? NULL : all->arena;            /* then workers read */
    if (bzna_loader_open(all->context, all->dataset, &c, &all->loader, &err) != BZNA_OK) {
        fprintf(stderr, "%s: %s\n", at.name, err.message);
        abort();
    }
    container->source.held = NULL;
    check(all->loader->queues.reader_count == at.readers, "others read");
    if (at.hybrid)
        open_pool();
    start(consume, NULL);
    if (at.control || at.given)
        start(control, NULL);
    else
        all->controlled = 1;
}

/* ---- The explorer ------------------------------------------------------------------------------------------------ */

static uint8_t *base;                 /* the region as it is at the beginning */
static uint32_t *dirty;               /* numbers of pages that differ from it, in this state */
static uint32_t *written;             /* numbers of pages that were written since; others are write-protected */
static uint32_t dirty_count, written_count, pages;

/* A state: its pages that differ from the beginning. */
typedef struct snapshot {
    uint32_t  count;
    uint32_t *numbers;
    uint8_t  *bytes;
} snapshot;

/* A page is written for the first time: from now on it is looked at in each state. */
static void on_write(int number, siginfo_t *info, void *context)
{
    const uintptr_t at_byte = (uintptr_t)info->si_addr - (uintptr_t)all;
    (void)context;
    if (at_byte >= region_bytes) {
        signal(number, SIG_DFL);
        return;
    }
    written[written_count++] = (uint32_t)(at_byte / PAGE);
    mprotect((uint8_t *)all + at_byte / PAGE * PAGE, PAGE, PROT_READ | PROT_WRITE);
}

/* Makes the region as it is now the beginning. The contexts of threads stay open, because the system writes there. */
static void begin_here(void)
{
    const uint32_t open = (uint32_t)(offsetof(region, arena) / PAGE) + 1;
    memcpy(base, all, region_bytes);
    dirty_count = 0;
    for (written_count = 0; written_count < open; written_count++)
        written[written_count] = written_count;
    mprotect((uint8_t *)all + open * PAGE, region_bytes - open * PAGE, PROT_READ);
}

static void find_dirty(void)
{
    dirty_count = 0;
    for (uint32_t i = 0; i < written_count; i++)
        if (memcmp((uint8_t *)all + (size_t)written[i] * PAGE, base + (size_t)written[i] * PAGE, PAGE))
            dirty[dirty_count++] = written[i];
}

static snapshot take(void)
{
    snapshot s = { dirty_count, malloc(dirty_count * sizeof *s.numbers), malloc((size_t)dirty_count * PAGE) };
    for (uint32_t i = 0; i < dirty_count; i++) {
        s.numbers[i] = dirty[i];
        memcpy(s.bytes + (size_t)i * PAGE, (uint8_t *)all + (size_t)dirty[i] * PAGE, PAGE);
    }
    return s;
}

static void put_back(const snapshot *s)
{
    for (uint32_t i = 0; i < dirty_count; i++)
        memcpy((uint8_t *)all + (size_t)dirty[i] * PAGE, base + (size_t)dirty[i] * PAGE, PAGE);
    for (uint32_t i = 0; i < s->count; i++)
        memcpy((uint8_t *)all + (size_t)s->numbers[i] * PAGE, s->bytes + (size_t)i * PAGE, PAGE);
    memcpy(dirty, s->numbers, s->count * sizeof *dirty);
    dirty_count = s->count;
}

static void drop(snapshot *s)
{
    free(s->numbers);
    free(s->bytes);
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t size)
{
    uint64_t words[4], parts[4] = { hash, 1, 2, 3 };         /* four at once, since a multiplication waits */
    for (size_t i = 0; i < size; i += sizeof words) {
        memset(words, 0, sizeof words);
        memcpy(words, (const uint8_t *)bytes + i, size - i < sizeof words ? size - i : sizeof words);
        for (int k = 0; k < 4; k++) {
            parts[k] = (parts[k] ^ words[k]) * 0x9e3779b97f4a7c15u;
            parts[k] ^= parts[k] >> 29;
        }
    }
    for (int k = 1; k < 4; k++) {
        parts[0] = (parts[0] ^ parts[k]) * 0x9e3779b97f4a7c15u;
        parts[0] ^= parts[0] >> 29;
    }
    return parts[0];
}

/* Two states are one if the library's memory, the live parts of the stacks and what threads wait for are the same.
 * Statistics, which only count, and what lies in dead parts of stacks, are no part of it. */
static uint64_t hash_state(void)
{
    uint64_t hash = 1;
    bzna_statistics stats;
    bzi_queues *queues = all->loader ? &all->loader->queues : NULL;
    if (queues) {
        memcpy(&stats, &queues->stats, sizeof stats);
        memset(&queues->stats, 0, sizeof queues->stats);
    }
    for (uint32_t i = 0; i < all->count; i++) {
        const coroutine *t = &all->threads[i];
        const greg_t *registers = t->context.uc_mcontext.gregs;
        const uint8_t *top = stacks + (i + 1) * STACK, *sp = (const uint8_t *)registers[REG_RSP];
        const greg_t kept[] = { registers[REG_RSP], registers[REG_RIP], registers[REG_RBX], registers[REG_RBP],
                                registers[REG_R12], registers[REG_R13], registers[REG_R14], registers[REG_R15] };
        hash = mix(hash, &t->state, sizeof *t - offsetof(coroutine, state));
        if (t->state == ENDED || sp < stacks + i * STACK || sp > top)
            continue;
        hash = mix(mix(hash, kept, sizeof kept), sp, (size_t)(top - sp));
    }
    hash = mix(hash, &all->now, (size_t)((uint8_t *)all->arena - (uint8_t *)&all->now));
    for (uint32_t i = 0; i < dirty_count; i++) {
        const uint8_t *page = (const uint8_t *)all + (size_t)dirty[i] * PAGE;
        const uint8_t *begin = page < all->arena ? all->arena : page;
        const uint64_t number = dirty[i];
        if (page + PAGE > all->arena && page < all->arena + ARENA)
            hash = mix(mix(hash, &number, sizeof number), begin, (size_t)(page + PAGE - begin));
    }
    if (queues)
        memcpy(&queues->stats, &stats, sizeof stats);
    return hash ? hash : 1;
}

/* States that were seen; 1 in `open` while those after it are explored. */
static uint64_t *seen;
static uint8_t *open_now;
static uint32_t seen_count;
enum { SEEN = 1 << 22 };

static uint32_t find_state(uint64_t hash)
{
    uint32_t i = (uint32_t)hash & (SEEN - 1);
    while (seen[i] && seen[i] != hash)
        i = (i + 1) & (SEEN - 1);
    return i;
}

enum { DEPTH = 2000 };
static char path[DEPTH + 1];          /* the threads that have made the steps so far */
static uint32_t depth, deepest, most_states, cut;
static const char *found;             /* the first thing that is wrong */

static void report(const char *what)
{
    if (found)
        return;
    found = what;
    if (!deaf)
        printf("%s: %s after %u steps: %.*s\n", at.name, what, depth, (int)depth, path);
}

/* Clears what calls that have returned left on a thread's stack, so that it is no part of a state. */
static void clear_dead(uint32_t number)
{
    static const uint8_t zeros[PAGE];
    uint8_t *page = stacks + (size_t)number * STACK, *end = page + STACK;
    if (all->threads[number].state != ENDED)
        end = (uint8_t *)all->threads[number].context.uc_mcontext.gregs[REG_RSP];
    for (; page < end; page += PAGE)
        if (memcmp(page, zeros, end - page < PAGE ? (size_t)(end - page) : PAGE))
            memset(page, 0, end - page < PAGE ? (size_t)(end - page) : PAGE);
}

/* Lets a thread make its next step. Returns among how many threads it has chosen one to wake. */
static uint32_t step(uint32_t number, uint32_t choice)
{
    coroutine *t = &all->threads[number];
    if (t->state == ASLEEP) {
        all->now = bzi_max(all->now, t->deadline);
        t->expired = 1;
        t->state = AT_LOCK;
    }
    all->current = number;
    all->choice = choice;
    all->choices = 0;
    all->running = 1;
    memcpy(bzi_ranks_held, t->ranks, sizeof t->ranks);
    bzi_ranks_count = t->rank_count;
    swapcontext(&explorer, &t->context);
    bzi_ranks_count = 0;
    all->running = 0;
    clear_dead(number);
    choice = all->choices;
    all->current = all->choice = all->choices = 0;
    return choice;
}

static int can_step(const coroutine *t) { return t->state == AT_LOCK || (t->state == ASLEEP && t->timed); }

static void explore(void)
{
    snapshot here;
    uint32_t place, able = 0, ended = 0;
    uint64_t hash;
    find_dirty();
    hash = hash_state();
    place = find_state(hash);
    if (seen[place]) {
        if (open_now[place])
            report("the loader comes back to a state");
        return;
    }
    if (all->wrong) {
        report(all->wrong);
        return;
    }
    if (seen_count >= most_states || depth == DEPTH) {
        cut = 1;
        return;
    }
    seen[place] = hash;
    seen_count++;
    for (uint32_t i = 0; i < all->count; i++) {
        able += can_step(&all->threads[i]) != 0;
        ended += all->threads[i].state == ENDED;
    }
    if (!able) {
        if (ended < all->count)
            report("nobody goes on");
        return;
    }
    deepest = bzi_max32(deepest, depth);
    open_now[place] = 1;
    here = take();
    for (uint32_t i = 0; i < all->count && !found; i++)
        for (uint32_t choice = 0, choices = 1; can_step(&all->threads[i]) && choice < choices && !found; choice++) {
            path[depth++] = (char)('0' + i);
            choices = bzi_max32(step(i, choice), 1);
            explore();
            depth--;
            find_dirty();
            put_back(&here);
        }
    drop(&here);
    open_now[place] = 0;
}

/* Explores a scenario. Returns what is wrong with it, or NULL. */
static const char *run_scenario(const scenario *s, uint32_t most)
{
    at = *s;
    found = NULL;
    cut = depth = deepest = seen_count = 0;
    most_states = most;
    memset(seen, 0, SEEN * sizeof *seen);
    memset(open_now, 0, SEEN);
    mprotect(all, region_bytes, PROT_READ | PROT_WRITE);
    memset(all, 0, region_bytes);
    open_all();
    begin_here();
    explore();
    if (!deaf)
        printf("%-60s %8u states, most steps %u%s\n", at.name, seen_count, deepest, cut ? ", more were left" : "");
    return found;
}

static int prepare(void)
{
    static uint8_t own_stack[16 * PAGE];                    /* the thread's own may be what is written */
    const stack_t stack = { .ss_sp = own_stack, .ss_size = sizeof own_stack };
    struct sigaction action = { .sa_flags = SA_SIGINFO | SA_ONSTACK, .sa_sigaction = on_write };
    region_bytes = (sizeof(region) + ARENA + PAGE - 1) / PAGE * PAGE + (size_t)THREADS * STACK;
    pages = (uint32_t)(region_bytes / PAGE);
    all = mmap(NULL, region_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    base = malloc(region_bytes);
    dirty = malloc(pages * sizeof *dirty);
    written = malloc(pages * sizeof *written);
    seen = malloc(SEEN * sizeof *seen);
    open_now = malloc(SEEN);
    stacks = (uint8_t *)all + region_bytes - (size_t)THREADS * STACK;
    return all != MAP_FAILED && base && dirty && written && seen && open_now && !sigaltstack(&stack, NULL) &&
           !sigaction(SIGSEGV, &action, NULL);
}

static const scenario scenarios[] = {
    { .name = "a reader and a worker",
      .samples = 4, .readers = 1, .workers = 1, .ahead = 1 },
    { .name = "a sample that is replaced",
      .samples = 4, .readers = 1, .workers = 1, .ahead = 1, .bad = 2, .policy = BZNA_ON_ERROR_REPLACE },
    { .name = "memory for one sample",
      .samples = 4, .readers = 1, .workers = 1, .ahead = 2, .memory = 4096 },
    { .name = "an engine that shares with a worker",
      .samples = 2, .readers = 1, .workers = 1, .ahead = 1, .hybrid = 'e' },
    { .name = "an engine that shares with a worker, 4 samples",
      .samples = 4, .readers = 1, .workers = 1, .ahead = 2, .hybrid = 'e', .all = 1 },
    { .name = "an engine that ends while it shares with a worker, 2 samples",
      .samples = 2, .readers = 1, .workers = 1, .ahead = 1, .hybrid = 'r', .all = 1 },
    { .name = "an engine that shares with a worker, stop and reset, 2 samples",
      .samples = 2, .readers = 1, .workers = 1, .ahead = 1, .hybrid = 'e', .control = 'r', .all = 1 },
    { .name = "an engine that ends while it shares with a worker",
      .samples = 4, .readers = 1, .workers = 1, .ahead = 2, .hybrid = 'r', .all = 1 },
    { .name = "an engine that shares with a worker, stop and reset",
      .samples = 4, .readers = 1, .workers = 1, .ahead = 2, .hybrid = 'e', .control = 'r', .all = 1 },
    { .name = "a read that is tried again",
      .samples = 4, .readers = 1, .workers = 1, .ahead = 1, .weak = 2, .all = 1 },
    { .name = "a sample that fails",
      .samples = 4, .readers = 1, .workers = 1, .ahead = 1, .bad = 2, .all = 1 },
    { .name = "a consumer that holds a batch",
      .samples = 6, .readers = 1, .workers = 1, .ahead = 1, .holds = 1, .all = 1 },
    { .name = "a list that comes late",
      .samples = 4, .readers = 1, .workers = 1, .ahead = 1, .given = 1, .all = 1 },
    { .name = "stop",
      .samples = 4, .readers = 1, .workers = 1, .ahead = 1, .control = 's', .all = 1 },
    { .name = "stop, a read that is tried again",
      .samples = 4, .readers = 1, .workers = 1, .ahead = 1, .weak = 1, .control = 's', .all = 1 },
    { .name = "stop and reset",
      .samples = 2, .readers = 1, .workers = 1, .ahead = 1, .control = 'r', .all = 1 },
    { .name = "stop and reset, 4 samples",
      .samples = 4, .readers = 1, .workers = 1, .ahead = 1, .control = 'r', .all = 1 },
    { .name = "two workers that read",
      .samples = 2, .workers = 2, .ahead = 1, .all = 1 },
    { .name = "two workers that read, 4 samples",
      .samples = 4, .workers = 2, .ahead = 1, .all = 1 },
    { .name = "a read that workers try again",
      .samples = 2, .workers = 2, .ahead = 1, .weak = 1, .all = 1 },
    { .name = "a read that workers try again, 4 samples",
      .samples = 4, .workers = 2, .ahead = 1, .weak = 1, .all = 1 },
    { .name = "two workers that read, memory for one sample",
      .samples = 2, .workers = 2, .ahead = 2, .memory = 4096, .all = 1 },
    { .name = "two workers that read, memory for one sample, 4 samples",
      .samples = 4, .workers = 2, .ahead = 2, .memory = 4096, .all = 1 },
    { .name = "a list that comes late, workers that read",
      .samples = 2, .workers = 2, .ahead = 1, .given = 1, .all = 1 },
    { .name = "a list that comes late, workers that read, 4 samples",
      .samples = 4, .workers = 2, .ahead = 1, .given = 1, .all = 1 },
    { .name = "a reader and two workers",
      .samples = 2, .readers = 1, .workers = 2, .ahead = 1, .all = 1 },
    { .name = "a reader and two workers, 4 samples",
      .samples = 4, .readers = 1, .workers = 2, .ahead = 1, .all = 1 },
    { .name = "two readers and a worker",
      .samples = 2, .readers = 2, .workers = 1, .ahead = 1, .all = 1 },
    { .name = "two readers and a worker, 4 samples",
      .samples = 4, .readers = 2, .workers = 1, .ahead = 1, .all = 1 },
    { .name = "two readers, a read that is tried again",
      .samples = 2, .readers = 2, .workers = 1, .ahead = 1, .weak = 1, .all = 1 },
    { .name = "two readers, a read that is tried again, 4 samples",
      .samples = 4, .readers = 2, .workers = 1, .ahead = 1, .weak = 1, .all = 1 },
    { .name = "two readers, memory for one sample",
      .samples = 2, .readers = 2, .workers = 1, .ahead = 2, .memory = 4096, .all = 1 },
    { .name = "two readers, memory for one sample, 4 samples",
      .samples = 4, .readers = 2, .workers = 1, .ahead = 2, .memory = 4096, .all = 1 },
};

TEST(every_order_of_steps_ends_well)
{
    for (size_t i = 0; i < COUNT(scenarios); i++)
        if (!scenarios[i].all || test_all())
            CHECK(run_scenario(&scenarios[i], 100000) == NULL);
}

/* Without the signals of a role, somebody sleeps forever in some order of steps. */
TEST(a_wake_up_that_is_left_out_is_found)
{
    static const struct { uint32_t role, hybrid; } ways[] = {
        { BZI_ROLE_READ, 0 }, { BZI_ROLE_WORK, 0 }, { BZI_ROLE_DONE, 0 }, { BZI_ROLE_CONTROL, 0 },
        { BZI_ROLE_READ, 'e' }, { BZI_ROLE_WORK, 'e' }, { BZI_ROLE_DONE, 'e' }, { DEAF_POOL, 'e' },
    };
    for (size_t i = 0; i < COUNT(ways); i++) {
        const scenario s = { .name = "deaf", .samples = 4, .readers = 1, .workers = 1, .ahead = 1,
                             .control = ways[i].hybrid ? 0 : 'r', .hybrid = ways[i].hybrid };
        const char *what;
        deaf = ways[i].role + 1;
        what = run_scenario(&s, 100000);
        deaf = 0;
        CHECK(what && !strcmp(what, "nobody goes on"));
    }
}

TEST_MAIN(if (!prepare()) return 1; RUN(every_order_of_steps_ends_well) RUN(a_wake_up_that_is_left_out_is_found))
#endif
