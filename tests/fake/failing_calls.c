/* failing_calls.c - a library to preload, which lets one call of the system fail
 *
 *     FAIL_CALL="rename 2 28" FAIL_MET=FILE LD_PRELOAD=failing_calls.so bzna pack ...
 *
 * The second rename of each process fails with error 28. Of reads and writes, "write 2 short" does half of what was
 * asked for, "read 2 end" finds the end of the file, and "write 2 stall" takes five seconds. "malloc 2 12" is the
 * second allocation of any kind, with glibc, and "lock 1 stall" waits before a file is locked. When that happens a byte
 * is added to FILE. "open 0 5" lets all of them fail. With FAIL_PATH=TEXT, only opens of paths that TEXT is in count.
 *
 * "list 4 -" lets none fail. FILE gets a line for the first, the 4th, the 16th call of each kind and so on in any
 * process: "read 16". With "list 1 -" it gets one for each call. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static char name[32], how[32];
static long number;
static const char *met, *part;
static _Atomic long calls;

static const char *const kinds[] = { "malloc", "pthread_create", "open", "read", "write", "pread", "pwrite", "writev",
                                     "rename", "unlink", "fsync", "fdatasync", "ftruncate", "fstat", "mkdir",
                                     "socketpair", "fork" };
enum { KINDS = sizeof kinds / sizeof kinds[0] };
static _Atomic long calls_of[KINDS];

__attribute__((constructor)) static void start(void)
{
    const char *call = getenv("FAIL_CALL");
    met = getenv("FAIL_MET");
    part = getenv("FAIL_PATH");
    if (call && sscanf(call, "%31s %ld %31s", name, &number, how) != 3)
        name[0] = 0;
}

/* Whether a function is of a kind. For files of 64 bits, calls have names of their own: pread64 is a pread. */
static int is_of(const char *kind, const char *function)
{
    const size_t length = strlen(kind);
    return !strncmp(function, kind, length) && (!function[length] || !strcmp(function + length, "64"));
}

/* Adds to FILE. */
static void tell(const char *text, size_t size)
{
    int (*real_open)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
    ssize_t (*real_write)(int, const void *, size_t) =
        (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    const int file = met ? real_open(met, O_WRONLY | O_CREAT | O_APPEND, 0666) : -1;
    if (file < 0) return;
    (void)!real_write(file, text, size);
    close(file);
}

/* Lists this call if it is the first, or the number-th, or that times number and so on. */
static void list(const char *function)
{
    int kind = 0;
    while (kind < KINDS && !is_of(kinds[kind], function)) kind++;
    if (kind == KINDS) return;
    const long call = atomic_fetch_add(&calls_of[kind], 1) + 1;
    long listed = call;
    while (number > 1 && listed % number == 0) listed /= number;
    if (number > 1 && listed != 1) return;
    char line[64];
    tell(line, (size_t)snprintf(line, sizeof line, "%s %ld\n", kinds[kind], call));
}

/* Whether this call is the one; sets errno. */
static int fails(const char *function)
{
    if (!strcmp(name, "list")) {
        list(function);
        return 0;
    }
    if (!is_of(name, function) || (atomic_fetch_add(&calls, 1) + 1 != number && number)) return 0;
    tell("x", 1);
    if (!strcmp(how, "stall")) {      /* for five seconds; then it goes on as if nothing had been */
        sleep(5);
        return 0;
    }
    errno = atoi(how);
    return 1;
}

/* The same of a call with a path. */
static int fails_at(const char *function, const char *path)
{
    return (!part || strstr(path, part)) && fails(function);
}

#define REAL(type, function, ...) ((type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #function))
/* A call that fails with -1. */
#define FAILING(type, function, parameters, arguments, ...) \
    type function parameters { return fails(#function) ? -1 : REAL(type, function, __VA_ARGS__) arguments; }
/* One that may do half of its work instead. */
#define PARTIAL(function, parameters, half, arguments, ...)                                   \
    ssize_t function parameters                                                               \
    {                                                                                         \
        if (fails(#function)) {                                                               \
            if (!strcmp(how, "end")) return 0;                                                \
            if (strcmp(how, "short")) return -1;                                              \
            half;                                                                             \
        }                                                                                     \
        return REAL(ssize_t, function, __VA_ARGS__) arguments;                                \
    }

PARTIAL(read, (int f, void *p, size_t n), n = n > 1 ? n / 2 : n, (f, p, n), int, void *, size_t)
PARTIAL(write, (int f, const void *p, size_t n), n = n > 1 ? n / 2 : n, (f, p, n), int, const void *, size_t)
PARTIAL(pread, (int f, void *p, size_t n, off_t at), n = n > 1 ? n / 2 : n, (f, p, n, at), int, void *, size_t, off_t)
PARTIAL(pread64, (int f, void *p, size_t n, off64_t at), n = n > 1 ? n / 2 : n, (f, p, n, at), int, void *, size_t,
        off64_t)
PARTIAL(pwrite, (int f, const void *p, size_t n, off_t at), n = n > 1 ? n / 2 : n, (f, p, n, at), int, const void *,
        size_t, off_t)
PARTIAL(pwrite64, (int f, const void *p, size_t n, off64_t at), n = n > 1 ? n / 2 : n, (f, p, n, at), int, const void *,
        size_t, off64_t)
PARTIAL(writev, (int f, const struct iovec *v, int n), n = n > 1 ? n / 2 : n, (f, v, n), int, const struct iovec *, int)
FAILING(int, rename, (const char *a, const char *b), (a, b), const char *, const char *)
FAILING(int, unlink, (const char *a), (a), const char *)
FAILING(int, fsync, (int f), (f), int)
FAILING(int, fdatasync, (int f), (f), int)
FAILING(int, ftruncate, (int f, off_t n), (f, n), int, off_t)
FAILING(int, fstat, (int f, struct stat *s), (f, s), int, struct stat *)
FAILING(int, fstat64, (int f, struct stat64 *s), (f, s), int, struct stat64 *)
FAILING(int, mkdir, (const char *p, mode_t m), (p, m), const char *, mode_t)
FAILING(int, socketpair, (int d, int t, int p, int *f), (d, t, p, f), int, int, int, int *)
FAILING(pid_t, fork, (void), (), void)

/* Of these, only the one that locks. */
#define CONTROLLING(function)                                                                 \
    int function(int file, int command, ...)                                                  \
    {                                                                                         \
        va_list rest;                                                                         \
        va_start(rest, command);                                                              \
        void *argument = va_arg(rest, void *);                                                \
        va_end(rest);                                                                         \
        if ((command == F_SETLK || command == F_OFD_SETLK) && fails("lock")) return -1;       \
        return REAL(int, function, int, int, ...)(file, command, argument);                   \
    }
CONTROLLING(fcntl)
CONTROLLING(fcntl64)

int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*run)(void *), void *p)
{
    return fails("pthread_create") ? errno : REAL(int, pthread_create, pthread_t *, const pthread_attr_t *,
                                                  void *(*)(void *), void *)(t, a, run, p);
}

#ifdef __GLIBC__
void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
void *malloc(size_t n) { return fails("malloc") ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t each) { return fails("malloc") ? NULL : __libc_calloc(n, each); }
void *realloc(void *p, size_t n) { return fails("malloc") ? NULL : __libc_realloc(p, n); }
#endif

#define OPENING(function)                                                                     \
    int function(const char *path, int flags, ...)                                            \
    {                                                                                         \
        va_list rest;                                                                         \
        va_start(rest, flags);                                                                \
        const mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;                       \
        va_end(rest);                                                                         \
        return fails_at(#function, path) ? -1 : REAL(int, function, const char *, int, ...)(path, flags, mode); \
    }
OPENING(open)
OPENING(open64)

/* A stream is opened by an open of the C library's own, which nobody sees. */
#define STREAM(function)                                                                      \
    FILE *function(const char *path, const char *mode)                                        \
    {                                                                                         \
        return fails_at("open", path) ? NULL : REAL(FILE *, function, const char *, const char *)(path, mode); \
    }
STREAM(fopen)
STREAM(fopen64)
