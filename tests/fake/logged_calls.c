/* logged_calls.c - a library to preload, which writes down what a program does to files below a folder
 *
 *     LOG_ROOT=/folder LOG_CALLS=FILE LD_PRELOAD=logged_calls.so bzna pack ...
 *
 * FILE gets a line for each call that changed something, or waited for the disk, in their order, with bytes behind it:
 *
 *     O INODE NEW EMPTIED PATH      opened to be written; NEW: 1, made by that; EMPTIED: 1, what was in it is gone
 *     W INODE OFFSET SIZE           written; SIZE bytes follow
 *     T INODE SIZE                  truncated
 *     S INODE SIZE                  fsync or fdatasync; SIZE bytes follow: all that is in the file
 *     D PATH                        fsync of a folder
 *     R FROM TO                     renamed
 *     U PATH                        unlinked
 *
 * What a stream of the C library writes is not seen but by S. Paths must not have blanks. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(type, function, ...) ((type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #function))

static int log_file = -1;
static const char *root;

__attribute__((constructor)) static void start(void)
{
    const char *path = getenv("LOG_CALLS");
    root = getenv("LOG_ROOT");
    if (path && root)
        log_file = REAL(int, open, const char *, int, ...)(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

static int is_ours(const char *path) { return log_file >= 0 && path && !strncmp(path, root, strlen(root)); }

/* Whether an open file lies below the folder. */
static int is_our_file(int file, struct stat *info)
{
    char link[64], path[4096];
    ssize_t size;
    if (log_file < 0 || fstat(file, info) || (!S_ISREG(info->st_mode) && !S_ISDIR(info->st_mode)))
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    size = readlink(link, path, sizeof path - 1);
    path[size > 0 ? size : 0] = 0;
    return is_ours(path);
}

/* A line and bytes behind it, at once, since several processes may write. */
static void put(const void *bytes, size_t size, const char *format, ...)
{
    char line[9000];
    va_list rest;
    va_start(rest, format);
    const int length = vsnprintf(line, sizeof line, format, rest);
    va_end(rest);
    struct iovec parts[2] = { { line, (size_t)length }, { (void *)(size_t)bytes, size } };
    ssize_t (*real)(int, const struct iovec *, int) = REAL(ssize_t, writev, int, const struct iovec *, int);
    if (real(log_file, parts, size ? 2 : 1) != (ssize_t)(size + (size_t)length))
        abort();
}

static int logged_open(int (*real)(const char *, int, ...), const char *path, int flags, mode_t mode)
{
    struct stat info;
    const int writes = is_ours(path) && (flags & O_ACCMODE) != O_RDONLY, is_new = writes && stat(path, &info) != 0;
    const int file = real(path, flags, mode);
    if (writes && file >= 0 && !fstat(file, &info) && S_ISREG(info.st_mode))
        put(NULL, 0, "O %lu %d %d %s\n", (unsigned long)info.st_ino, is_new, !!(flags & O_TRUNC), path);
    return file;
}

#define OPENING(function)                                                                     \
    int function(const char *path, int flags, ...)                                            \
    {                                                                                         \
        va_list rest;                                                                         \
        va_start(rest, flags);                                                                \
        const mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;                       \
        va_end(rest);                                                                         \
        return logged_open(REAL(int, function, const char *, int, ...), path, flags, mode);   \
    }
OPENING(open)
OPENING(open64)

#define STREAM(function)                                                                      \
    FILE *function(const char *path, const char *mode)                                        \
    {                                                                                         \
        struct stat info;                                                                     \
        const int writes = is_ours(path) && *mode != 'r', is_new = writes && stat(path, &info) != 0;   \
        FILE *file = REAL(FILE *, function, const char *, const char *)(path, mode);          \
        if (writes && file && !fstat(fileno(file), &info) && S_ISREG(info.st_mode))           \
            put(NULL, 0, "O %lu %d 1 %s\n", (unsigned long)info.st_ino, is_new, path);        \
        return file;                                                                          \
    }
STREAM(fopen)
STREAM(fopen64)

/* The call and its line must not be torn apart by another thread's call on the same file: the tool writes a file from
 * one thread. */
static void wrote(int file, const void *bytes, ssize_t size, off_t at)
{
    struct stat info;
    if (size > 0 && is_our_file(file, &info))
        put(bytes, (size_t)size, "W %lu %ld %ld\n", (unsigned long)info.st_ino, (long)at, (long)size);
}

ssize_t write(int file, const void *bytes, size_t size)
{
    const ssize_t done = REAL(ssize_t, write, int, const void *, size_t)(file, bytes, size);
    if (log_file >= 0 && file != log_file && done > 0)
        wrote(file, bytes, done, lseek(file, 0, SEEK_CUR) - done);
    return done;
}

#define WRITING(function, offset)                                                             \
    ssize_t function(int file, const void *bytes, size_t size, offset at)                     \
    {                                                                                         \
        const ssize_t done = REAL(ssize_t, function, int, const void *, size_t, offset)(file, bytes, size, at); \
        wrote(file, bytes, done, (off_t)at);                                                  \
        return done;                                                                          \
    }
WRITING(pwrite, off_t)
WRITING(pwrite64, off64_t)

#define CUTTING(function, offset)                                                             \
    int function(int file, offset size)                                                       \
    {                                                                                         \
        struct stat info;                                                                     \
        const int failed = REAL(int, function, int, offset)(file, size);                      \
        if (!failed && is_our_file(file, &info))                                              \
            put(NULL, 0, "T %lu %ld\n", (unsigned long)info.st_ino, (long)size);              \
        return failed;                                                                        \
    }
CUTTING(ftruncate, off_t)
CUTTING(ftruncate64, off64_t)

static void synced(int file)
{
    struct stat info;
    char link[64], path[4096];
    if (!is_our_file(file, &info))
        return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    if (S_ISDIR(info.st_mode)) {
        const ssize_t size = readlink(link, path, sizeof path - 1);
        path[size > 0 ? size : 0] = 0;
        put(NULL, 0, "D %s\n", path);
        return;
    }
    const int again = REAL(int, open, const char *, int, ...)(link, O_RDONLY);
    char *bytes = malloc((size_t)info.st_size + 1);
    const ssize_t size = again >= 0 && bytes ? pread(again, bytes, (size_t)info.st_size, 0) : -1;
    if (size != info.st_size)
        abort();
    put(bytes, (size_t)size, "S %lu %ld\n", (unsigned long)info.st_ino, (long)size);
    free(bytes);
    close(again);
}

#define SYNCING(function)                                                                     \
    int function(int file)                                                                    \
    {                                                                                         \
        const int failed = REAL(int, function, int)(file);                                    \
        if (!failed)                                                                          \
            synced(file);                                                                     \
        return failed;                                                                        \
    }
SYNCING(fsync)
SYNCING(fdatasync)

int rename(const char *from, const char *to)
{
    const int failed = REAL(int, rename, const char *, const char *)(from, to);
    if (!failed && is_ours(to))
        put(NULL, 0, "R %s %s\n", from, to);
    return failed;
}

#define REMOVING(function)                                                                    \
    int function(const char *path)                                                            \
    {                                                                                         \
        const int failed = REAL(int, function, const char *)(path);                           \
        if (!failed && is_ours(path))                                                         \
            put(NULL, 0, "U %s\n", path);                                                     \
        return failed;                                                                        \
    }
REMOVING(unlink)
REMOVING(remove)
