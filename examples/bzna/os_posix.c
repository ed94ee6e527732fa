/* os_posix.c - the system: Linux, macOS, FreeBSD */
#ifdef __linux__
#define _GNU_SOURCE                   /* sync_file_range */
#endif
#include "os.h"

#ifndef _WIN32

#include <dirent.h>
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <termios.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* ---- the program ---- */

void os_start(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    signal(SIGXFSZ, SIG_IGN);             /* a file that may not grow is an error, not the end of the program */
}

int os_processor_count(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count > 1024 ? 1024 : (int)count;
}

size_t os_columns(void)
{
    struct winsize terminal = { .ws_col = 0 };
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &terminal) ? 0 : terminal.ws_col;
}

int os_is_terminal(FILE *file) { return isatty(fileno(file)); }

void *os_symbol(const char *name)
{
    void *program = dlopen(NULL, RTLD_LAZY);
    return program ? dlsym(program, name) : NULL;
}

void os_keep_memory(void)
{
#ifdef __GLIBC__
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 64 << 20);
#endif
}

double os_workers_seconds(void)
{
    struct rusage used;
    if (getrusage(RUSAGE_CHILDREN, &used)) return -1;
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec);
}

void os_survive_broken_pipes(void) { signal(SIGPIPE, SIG_IGN); }

static volatile sig_atomic_t interrupted;         /* the signal, or 0 */

static void note_signal(int number) { interrupted = number; }

void os_interrupts_catch(void)
{
    static const int ending[] = { SIGINT, SIGTERM, SIGHUP };
    struct sigaction action;
    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < LENGTH(ending); i++) {
        struct sigaction old;
        action.sa_handler = note_signal;
        if (!sigaction(ending[i], NULL, &old) && old.sa_handler == SIG_IGN) continue;       /* as nohup asks */
        sigaction(ending[i], &action, NULL);
    }
}

int os_interrupted(void) { return interrupted != 0; }

void os_interrupts_end(void)
{
    if (!interrupted) return;
    fflush(NULL);
    signal(interrupted, SIG_DFL);
    raise(interrupted);
}


/* ---- files ---- */

int64_t os_modified_ns(const struct stat *status)
{
#ifdef __APPLE__
    return (int64_t)status->st_mtimespec.tv_sec * 1000000000 + status->st_mtimespec.tv_nsec;
#else
    return (int64_t)status->st_mtim.tv_sec * 1000000000 + status->st_mtim.tv_nsec;
#endif
}

/* Not even where a process of its lives on does a process that is killed leave this lock behind: it is its alone. */
int os_lock(int file)
{
    struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    if (!fcntl(file, F_SETLK, &whole)) return 0;
    return errno == EACCES ? EAGAIN : errno;
}

int os_sync_names(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
    int file = folder ? open(folder, O_RDONLY | O_CLOEXEC) : -1, error = 0;
    free(folder);
    if (file < 0) return errno == EACCES ? 0 : errno;     /* one may write into a folder that one may not read */
    do error = fsync(file) ? errno : 0; while (error == EINTR);
    close(file);
    return error == EINVAL || error == EROFS || error == EBADF ? 0 : error;
}

void os_write_back(int file, off_t offset, off_t size)
{
#ifdef SYNC_FILE_RANGE_WRITE
    (void)!sync_file_range(file, offset, size, SYNC_FILE_RANGE_WRITE);     /* fsync tells of what fails */
#else
    (void)file, (void)offset, (void)size;
#endif
}

int os_folder(const char *path, void (*name)(void *user, const char *name), void *user)
{
    DIR *folder = opendir(path);
    struct dirent *item;
    if (!folder) return errno;
    while ((item = readdir(folder))) name(user, item->d_name);
    closedir(folder);
    return 0;
}

int os_text_begin(os_text *text)
{
    *text = (os_text){ .data = NULL };
    text->file = open_memstream(&text->data, &text->size);
    return text->file ? 0 : errno;
}

int os_text_end(os_text *text) { return fclose(text->file) ? errno : 0; }


/* ---- threads ---- */

static void *thread_main(void *given)
{
    os_thread *thread = given;
    thread->run(thread->job);
    return NULL;
}

_Static_assert(sizeof(pthread_t) <= sizeof(intptr_t), "a thread's name fits");

int os_thread_start(os_thread *thread, void (*run)(void *job), void *job)
{
    pthread_t id;
    *thread = (os_thread){ run, job, 0 };
    int error = pthread_create(&id, NULL, thread_main, thread);
    if (!error) memcpy(&thread->id, &id, sizeof id);
    return error;
}

void os_thread_join(os_thread *thread)
{
    pthread_t id;
    memcpy(&id, &thread->id, sizeof id);
    pthread_join(id, NULL);
}

void os_monitor_init(os_monitor *monitor)
{
    pthread_mutex_init(&monitor->lock, NULL);
    pthread_cond_init(&monitor->changed, NULL);
}

void os_monitor_free(os_monitor *monitor)
{
    pthread_mutex_destroy(&monitor->lock);
    pthread_cond_destroy(&monitor->changed);
}

void os_monitor_enter(os_monitor *monitor) { pthread_mutex_lock(&monitor->lock); }
void os_monitor_leave(os_monitor *monitor) { pthread_mutex_unlock(&monitor->lock); }
void os_monitor_wait(os_monitor *monitor) { pthread_cond_wait(&monitor->changed, &monitor->lock); }
void os_monitor_wake(os_monitor *monitor) { pthread_cond_broadcast(&monitor->changed); }


/* ---- workers ---- */

/* The terminal sends signals to all processes; it is the parent that ends the workers. */
static void worker_signals(void)
{
    static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE };
    for (size_t i = 0; i < LENGTH(ignored); i++) signal(ignored[i], SIG_IGN);
}

int os_worker_start(os_worker *one, void (*run)(const void *job, int in, int out), const void *job,
                    const os_worker *others, size_t count)
{
    int pair[2];
    *one = (os_worker){ .in = -1, .out = -1 };
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return errno;
    fflush(NULL);
    pid_t id = fork();
    if (id < 0) {
        int error = errno;
        close(pair[0]);
        close(pair[1]);
        return error;
    }
    if (!id) {
        /* Of the sockets only one stays open in each worker, so that all end when the parent has. */
        for (size_t i = 0; i < count; i++) if (others[i].in >= 0) close(others[i].in);
        close(pair[0]);
        worker_signals();
        run(job, pair[1], pair[1]);
        _exit(0);
    }
    close(pair[1]);
    *one = (os_worker){ .in = pair[0], .out = pair[0], .id = id };
    return 0;
}

os_worker_end os_worker_wait(os_worker *one)
{
    static const int crashes[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
    os_worker_end end = { .crash = 0 };
    int status = 0;
    if (one->in >= 0) close(one->in);
    one->in = -1;
    while (waitpid((pid_t)one->id, &status, 0) < 0 && errno == EINTR) continue;
    if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
    else                     end.status = WEXITSTATUS(status);
    end.is_killed = end.signal == SIGKILL;
    for (size_t i = 0; i < LENGTH(crashes); i++) if (end.signal == crashes[i]) end.crash = end.signal;
    return end;
}

void os_worker_hang_up(os_worker *one) { shutdown(one->in, SHUT_RDWR); }

void os_worker_kill(os_worker *one)
{
    kill((pid_t)one->id, SIGKILL);
    os_worker_wait(one);
}

void os_workers_wait(const os_worker *list, size_t count, int *ready, int timeout_ms)
{
    struct pollfd *files = calloc(count + 1, sizeof *files);
    memset(ready, 0, count * sizeof *ready);
    for (size_t i = 0; files && i < count; i++) files[i] = (struct pollfd){ .fd = list[i].in, .events = POLLIN };
    if (files && poll(files, (nfds_t)count, timeout_ms) > 0)
        for (size_t i = 0; i < count; i++) ready[i] = files[i].revents != 0;
    free(files);
}

int os_write_parts(int file, const os_part *parts, size_t count)
{
    struct iovec all[8];
    size_t done = 0;
    if (count > LENGTH(all)) return EINVAL;
    for (size_t i = 0; i < count; i++)
        all[i] = (struct iovec){ .iov_base = (void *)(uintptr_t)parts[i].data, .iov_len = parts[i].size };
    for (size_t i = 0; i < count;) {
        ssize_t put = writev(file, all + i, (int)(count - i));
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return put < 0 ? errno : ENOSPC;
        for (done = (size_t)put; i < count && done >= all[i].iov_len; i++) done -= all[i].iov_len;
        if (i < count) {
            all[i].iov_base = (char *)all[i].iov_base + done;
            all[i].iov_len -= done;
        }
    }
    return 0;
}

#endif
