/* os.h - the system: only this file, os_posix.c and os_windows.c ask for which platform the tool is compiled. One of
 * the latter two is empty.
 *
 * The tool makes POSIX calls. On Windows, os_windows.c has those that the tool makes, under their names: paths are
 * UTF-8 of any length, bytes are never translated, and an open file may be renamed. What POSIX does not have, or what
 * is no single call, is an os_ function below. */
#ifndef BZNA_OS_H
#define BZNA_OS_H

#ifndef _WIN32

#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#ifdef __APPLE__
#define _DARWIN_C_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>
#define OS_PRINTF printf
#define os_write  write                /* a name that the tool uses otherwise, too */

#else

#define __USE_MINGW_ANSI_STDIO 1
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#ifdef __MINGW_PRINTF_FORMAT
#define OS_PRINTF __MINGW_PRINTF_FORMAT
#else
#define OS_PRINTF printf
#endif

#undef lseek
#undef off_t
#undef stat
#undef fstat
#define off_t      int64_t
#define stat       os_stat
#define lstat      os_stat
#define fstat      os_fstat
#define open       os_open
#define fopen      os_fopen
#define mkdir      os_mkdir
#define rename     os_rename
#define unlink     os_unlink
#define remove     os_unlink
#define access     os_access
#define pread      os_pread
#define pwrite     os_pwrite
#define lseek      _lseeki64
#define ftruncate  _chsize_s
#define fsync      _commit
#define getline    os_getline
#define getdelim   os_getdelim
#define read       os_read
#define fseeko     _fseeki64
#define ftello     _ftelli64
#define strcasecmp _stricmp

#ifndef S_ISREG
#define S_ISREG(mode) (((mode) & S_IFMT) == S_IFREG)
#define S_ISDIR(mode) (((mode) & S_IFMT) == S_IFDIR)
#endif
#ifndef S_ISFIFO
#define S_ISFIFO(mode) (((mode) & S_IFMT) == S_IFIFO)
#endif
#define S_ISSOCK(mode) 0
#define O_CLOEXEC      _O_NOINHERIT
#define O_NONBLOCK     0
#ifndef W_OK
#define W_OK           2
#endif
#define STDERR_FILENO  2

struct os_stat {
    uint32_t        st_mode;
    int64_t         st_size;
    uint64_t        st_dev, st_ino;
    struct timespec st_mtim;
};

int os_stat(const char *path, struct os_stat *status);
int os_fstat(int file, struct os_stat *status);
int os_open(const char *path, int flags, ...);
FILE *os_fopen(const char *path, const char *mode);
int os_mkdir(const char *path, int mode);
int os_rename(const char *from, const char *to);
int os_unlink(const char *path);
int os_access(const char *path, int mode);
ssize_t os_read(int file, void *dst, size_t size);
ssize_t os_write(int file, const void *src, size_t size);
ssize_t os_pread(int file, void *dst, size_t size, off_t offset);
ssize_t os_pwrite(int file, const void *src, size_t size, off_t offset);
ssize_t os_getdelim(char **line, size_t *capacity, int end, FILE *file);
ssize_t os_getline(char **line, size_t *capacity, FILE *file);

#endif


/* ---- the program ---- */

/* First of all: arguments in UTF-8, and streams and signals as the tool expects them. */
void os_start(int *argc, char ***argv);

int os_processor_count(void);

/* Columns of the terminal that stderr is; 0: unknown. */
size_t os_columns(void);

/* Whether it is a terminal that understands escape sequences. */
int os_is_terminal(FILE *file);

/* What a library that the program has loaded exports under this name, or NULL. */
void *os_symbol(const char *name);

/* Keeps memory that is freed for what is allocated next, where the C library can be told. */
void os_keep_memory(void);

/* Time that ended processes of workers have used; -1: unknown. */
double os_workers_seconds(void);

/* From here on, what cannot be written is an error, not the end of the program. */
void os_survive_broken_pipes(void);

/* From here on, Ctrl-C and the like only make os_interrupted return 1. */
void os_interrupts_catch(void);
int os_interrupted(void);

/* If there was one, ends the program as it would have, so that the shell knows. */
void os_interrupts_end(void);


/* ---- files ---- */

int64_t os_modified_ns(const struct stat *status);

/* Locks a file for this process until it is closed. Returns 0, EAGAIN if another process has it, or another errno. */
int os_lock(int file);

/* Waits until the names of the files beside this one, its own among them, are on the disk, where a system knows that of
 * folders. Returns 0, or errno. */
int os_sync_names(const char *path);

/* Lets the disk begin with a part of a file, where a system can be told, and does not wait for it. */
void os_write_back(int file, off_t offset, off_t size);

/* Names a folder's entries in any order. Returns 0, or errno. */
int os_folder(const char *path, void (*name)(void *user, const char *name), void *user);

/* What is written to a file is a text in the end. */
typedef struct os_text {
    FILE  *file;
    char  *data;                      /* after os_text_end: to be freed */
    size_t size;
} os_text;

int os_text_begin(os_text *text);     /* 0, or errno */
int os_text_end(os_text *text);


/* ---- threads ---- */

typedef struct os_thread {
    void   (*run)(void *job);
    void    *job;
    intptr_t id;
} os_thread;

/* Starts a thread that calls run(job). Returns 0, or errno. Join it before `thread` or the job are gone. */
int os_thread_start(os_thread *thread, void (*run)(void *job), void *job);
void os_thread_join(os_thread *thread);

/* A lock, and a way to wait for a change of what it guards. */
typedef struct os_monitor {
#ifdef _WIN32
    void           *lock, *changed;
#else
    pthread_mutex_t lock;
    pthread_cond_t  changed;
#endif
} os_monitor;

void os_monitor_init(os_monitor *monitor);
void os_monitor_free(os_monitor *monitor);
void os_monitor_enter(os_monitor *monitor);
void os_monitor_leave(os_monitor *monitor);

/* Leaves it, waits for os_monitor_wake, and enters it again. It may return without one. */
void os_monitor_wait(os_monitor *monitor);

/* Wakes all that wait. */
void os_monitor_wake(os_monitor *monitor);


/* ---- workers ----
 * Processes where the system has fork; else threads: there, a decoder that crashes ends the program, and what an
 * encoder leaks lasts as long as that. */

typedef struct os_worker {
    int      in, out;                 /* where its answers come from, where questions go; in: -1 if it does not run */
    intptr_t id;
} os_worker;

typedef struct os_part {
    const void *data;
    size_t      size;
} os_part;

/* How a worker ended. */
typedef struct os_worker_end {
    int crash;                        /* the signal of a fault of its own, or 0 */
    int signal, status;               /* signal: any, or 0 */
    int is_killed;
} os_worker_end;

/* Starts one that calls run with its ends of the two, until that returns. others: all that were started, whose ends it
 * does not keep. Returns 0, or errno. */
int os_worker_start(os_worker *one, void (*run)(const void *job, int in, int out), const void *job,
                    const os_worker *others, size_t count);

/* Closes its ends and waits for its end. */
os_worker_end os_worker_wait(os_worker *one);

/* Cuts it off: os_workers_wait then says that it has ended. */
void os_worker_hang_up(os_worker *one);

/* Ends it, wherever it is, and waits. */
void os_worker_kill(os_worker *one);

/* Waits until one of them has an answer or has ended, and tells which have. */
void os_workers_wait(const os_worker *list, size_t count, int *ready, int timeout_ms);

/* Writes all parts, at once where there is room. Returns 0, or errno. */
int os_write_parts(int file, const os_part *parts, size_t count);

#endif
