/* The order of locks, checked (benzina.c includes this in the room of that name): what breaks a rule ends the process,
 * and says which locks it was. */
static const char *const bzi_rank_names[BZI_RANKS] = { "loader", "pool", "context", "writer", "crew", "device", "log" };
/* In the order in which they were taken. */
extern BZI_THREAD_LOCAL uint32_t bzi_ranks_held[BZI_RANKS], bzi_ranks_count;
extern atomic_uint bzi_lock_delays;   /* 1: threads are held up at locks now and then, so that others overtake them */
#ifndef TEST_LINKED                   /* else the library's object has them */
BZI_THREAD_LOCAL uint32_t bzi_ranks_held[BZI_RANKS], bzi_ranks_count;
atomic_uint bzi_lock_delays;
#endif

static inline void bzi_rank_fail(const char *what, uint32_t held)
{
    fprintf(stderr, "benzina: order of locks: %s while \"%s\" is held\n", what, bzi_rank_names[held]);
    abort();
}

static inline void bzi_rank_take(uint32_t rank)
{
    for (uint32_t i = 0; i < bzi_ranks_count; i++)
        if (bzi_ranks_held[i] >= rank || bzi_ranks_held[i] >= BZI_RANK_LEAVES) {
            char what[64];
            snprintf(what, sizeof what, "\"%s\" is taken", bzi_rank_names[rank]);
            bzi_rank_fail(what, bzi_ranks_held[i]);
        }
    bzi_ranks_held[bzi_ranks_count++] = rank;
}

static inline void bzi_rank_drop(uint32_t rank)
{
    uint32_t at = 0;

    while (at < bzi_ranks_count && bzi_ranks_held[at] != rank)
        at++;
    if (at == bzi_ranks_count)
        bzi_rank_fail("a lock is given back that this thread does not have, nothing", rank);
    for (bzi_ranks_count--; at < bzi_ranks_count; at++)
        bzi_ranks_held[at] = bzi_ranks_held[at + 1];
}

/* A thread is about to wait with this lock, or to call the user (BZI_RANKS). */
static inline void bzi_rank_alone(uint32_t rank)
{
    for (uint32_t i = 0; i < bzi_ranks_count; i++)
        if (bzi_ranks_held[i] != rank)
            bzi_rank_fail(rank == BZI_RANKS ? "a callback runs" : "a thread waits", bzi_ranks_held[i]);
}

#define BZI_RANK_CALLBACK() bzi_rank_alone(BZI_RANKS)

/* A lock that knows its rank, and its functions, each before the system's. */
typedef struct bzi_ranked_mutex {
    bzi_mutex native;
    uint32_t  rank;                   /* BZI_RANK_... */
} bzi_ranked_mutex;

static inline int bzi_ranked_init(bzi_ranked_mutex *mutex, uint32_t rank)
{
    mutex->rank = rank;
    return bzi_os_mutex_init(&mutex->native, rank);
}

static inline void bzi_ranked_free(bzi_ranked_mutex *mutex) { bzi_os_mutex_free(&mutex->native); }

static inline void bzi_rank_delay(void)
{
    static atomic_uint count;
    const unsigned at = bzi_lock_delays ? atomic_fetch_add(&count, 1) * 2654435761u >> 24 : 255;

    if (at < 16)
        bzi_os_sleep_ns(at * 10000);
}

static inline void bzi_ranked_lock(bzi_ranked_mutex *mutex)
{
    bzi_rank_delay();
    bzi_rank_take(mutex->rank);
    bzi_os_lock(&mutex->native);
}

static inline int bzi_ranked_try_lock(bzi_ranked_mutex *mutex)
{
    if (!bzi_os_try_lock(&mutex->native))
        return 0;
    bzi_rank_take(mutex->rank);
    return 1;
}

static inline void bzi_ranked_unlock(bzi_ranked_mutex *mutex)
{
    bzi_rank_drop(mutex->rank);
    bzi_os_unlock(&mutex->native);
    bzi_rank_delay();
}

static inline void bzi_ranked_wait(bzi_cond *cond, bzi_ranked_mutex *mutex)
{
    bzi_rank_alone(mutex->rank);
    bzi_os_wait(cond, &mutex->native);
    bzi_rank_delay();
}

static inline int bzi_ranked_wait_until(bzi_cond *cond, bzi_ranked_mutex *mutex, uint64_t deadline_ns)
{
    bzi_rank_alone(mutex->rank);
    return bzi_os_wait_until(cond, &mutex->native, deadline_ns);
}

#define bzi_mutex         bzi_ranked_mutex
#define bzi_os_mutex_init bzi_ranked_init
#define bzi_os_mutex_free bzi_ranked_free
#define bzi_os_lock       bzi_ranked_lock
#define bzi_os_try_lock   bzi_ranked_try_lock
#define bzi_os_unlock     bzi_ranked_unlock
#define bzi_os_wait       bzi_ranked_wait
#define bzi_os_wait_until bzi_ranked_wait_until
