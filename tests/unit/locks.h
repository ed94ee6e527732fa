/* The order of locks, checked (benzina.c includes this in the room of that name): what breaks a rule ends the process,
 * and says which locks it was. */
static const char *const bzi_rank_names[BZI_RANKS] = { "loader", "pool", "context", "writer", "crew", "device", "log",
                                                       "blocks" };
/* In the order in which they were taken. */
static BZI_THREAD_LOCAL uint32_t bzi_ranks_held[BZI_RANKS], bzi_ranks_count;

static void bzi_rank_fail(const char *what, uint32_t held)
{
    fprintf(stderr, "benzina: order of locks: %s while \"%s\" is held\n", what, bzi_rank_names[held]);
    abort();
}

static void bzi_rank_take(uint32_t rank)
{
    for (uint32_t i = 0; i < bzi_ranks_count; i++)
        if (bzi_ranks_held[i] >= rank || bzi_ranks_held[i] >= BZI_RANK_LEAVES) {
            char what[64];
            snprintf(what, sizeof what, "\"%s\" is taken", bzi_rank_names[rank]);
            bzi_rank_fail(what, bzi_ranks_held[i]);
        }
    bzi_ranks_held[bzi_ranks_count++] = rank;
}

static void bzi_rank_drop(uint32_t rank)
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
static void bzi_rank_alone(uint32_t rank)
{
    for (uint32_t i = 0; i < bzi_ranks_count; i++)
        if (bzi_ranks_held[i] != rank)
            bzi_rank_fail(rank == BZI_RANKS ? "a callback runs" : "a thread waits", bzi_ranks_held[i]);
}

#define BZI_RANK_MEMBER         uint32_t rank;             /* BZI_RANK_... */
#define BZI_RANK_SET(mutex, of) ((void)((mutex)->rank = (of)))
#define BZI_RANK_TAKE(mutex)    bzi_rank_take((mutex)->rank)
#define BZI_RANK_DROP(mutex)    bzi_rank_drop((mutex)->rank)
#define BZI_RANK_WAIT(mutex)    bzi_rank_alone((mutex)->rank)
#define BZI_RANK_CALLBACK()     bzi_rank_alone(BZI_RANKS)
