/* asking.h - a second thread that asks loaders for everything that may be asked at any time, all the while. Include
 * after benzina.c and test.h.
 *
 * A suite that includes it with ASK_ALWAYS defined has its loaders asked from open to close under a sanitizer, and with
 * TEST_ALL: what one thread does to a loader is then done beside another that reads. */
#ifndef BENZINA_TEST_ASKING_H
#define BENZINA_TEST_ASKING_H
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"          /* not every suite needs all of it */

/* Asks for all of it once. Returns how many answers were none. */
static int ask_everything(bzna_loader *loader)
{
    bzna_loader_info info;
    bzna_statistics stats, since;
    bzna_loader_state state;
    bzna_tensor tensor;
    int wrong = 0;

    memset(&stats, 0, sizeof stats);
    wrong += bzna_loader_get_info(loader, &info, sizeof info, NULL) != BZNA_OK;
    wrong += bzna_loader_statistics(loader, &stats, sizeof stats, NULL) != BZNA_OK;
    wrong += bzna_statistics_since(&stats, &stats, &since, sizeof since, NULL) != BZNA_OK;
    wrong += bzna_loader_save(loader, &state, sizeof state, NULL) != BZNA_OK;
    wrong += bzna_loader_tensor(loader, 0, &tensor, sizeof tensor, NULL) != BZNA_OK;
    return wrong;
}

#ifdef ASK_ALWAYS
enum { ASKED = 64 };
static struct {
    pthread_mutex_t mutex;            /* held while a loader is asked, so that none is closed meanwhile */
    bzna_loader    *loaders[ASKED];
    pthread_once_t  once;
    pid_t           process;          /* that has the thread */
    atomic_int      wrong;
} asked = { .mutex = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT };

static void *ask_always(void *ignored)
{
    const struct timespec pause = { 0, 100000 };
    (void)ignored;
    for (;; nanosleep(&pause, NULL))
        for (int i = 0; i < ASKED; i++) {
            pthread_mutex_lock(&asked.mutex);
            if (asked.loaders[i])
                asked.wrong += ask_everything(asked.loaders[i]);
            pthread_mutex_unlock(&asked.mutex);
        }
    return NULL;
}

static void asked_start(void)
{
    pthread_t thread;
    asked.process = getpid();
    if (pthread_create(&thread, NULL, ask_always, NULL) == 0)
        pthread_detach(thread);
}

/* Puts one loader in another's place. NULL is a place that is free. */
static void asked_exchange(bzna_loader *from, bzna_loader *to)
{
    int i = 0;
    if (!SANITIZED && !test_all())
        return;
    pthread_once(&asked.once, asked_start);
    if (asked.process != getpid())                          /* a child has neither the thread nor its lock */
        return;
    pthread_mutex_lock(&asked.mutex);
    while (i < ASKED && asked.loaders[i] != from)
        i++;
    if (i < ASKED)
        asked.loaders[i] = to;
    pthread_mutex_unlock(&asked.mutex);
    CHECK_EQ(asked.wrong, 0);
}

static bzna_status asked_loader_open(bzna_context *context, bzna_dataset *dataset, const bzna_loader_config *config,
                                     bzna_loader **out, bzna_error *err)
{
    const bzna_status status = bzna_loader_open(context, dataset, config, out, err);
    if (status == BZNA_OK)
        asked_exchange(NULL, *out);
    return status;
}

static bzna_status asked_loader_close(bzna_loader *loader)
{
    bzna_status status;
    if (loader)
        asked_exchange(loader, NULL);
    status = bzna_loader_close(loader);
    if (status != BZNA_OK && loader)                        /* it was refused, and the loader is still there */
        asked_exchange(NULL, loader);
    return status;
}

#define bzna_loader_open asked_loader_open
#define bzna_loader_close asked_loader_close
#endif

#pragma GCC diagnostic pop
#endif
