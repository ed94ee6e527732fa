/* windows.h - what the suites use of POSIX and MinGW-w64 does not have. Include after benzina.c. */
#ifndef BENZINA_TEST_WINDOWS_H
#define BENZINA_TEST_WINDOWS_H
#ifndef WIN32_LEAN_AND_MEAN
#  define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOGDI
#  define NOGDI
#endif
#include <direct.h>
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <io.h>
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <windows.h>
#include <synchapi.h>
#undef near
#undef far
#undef small
#undef interface
#undef IN
#undef OUT
#define tell test_tell                /* io.h has another one */

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"          /* not every suite needs all of it */

#define AT_FDCWD 0
#define mkdir(path, mode) _mkdir(path)
#define fsync(fd) _commit(fd)
#undef popen
#undef pclose
#define popen(command, mode) test_popen(command, mode)
#define pclose(stream) _pclose(stream)
#define aligned_free(block) _aligned_free(block)
#define aligned_alloc(align, size) _aligned_malloc(size, align)

typedef unsigned sigset_t_of_none;
#ifndef SIG_SETMASK
#define SIG_SETMASK 2
#endif
#define sigset_t sigset_t_of_none
#define sigfillset(set)                ((void)(set))
#undef pthread_sigmask
#define SIGTRAP 5
#define SIGBUS  7
#define SIGKILL 9
#define SIGUSR1 10
#define SIGUSR2 12
#define SIGALRM 14
#define SIGCHLD 17
#define SIGSTOP 19
#define SIGSYS  31
#define SIGHUP  1
#define SIGPIPE 13
#define WIFEXITED(status)      ((status) >= 0)
#define WEXITSTATUS(status)    (status)
#define WIFSIGNALED(status)    0
#define WTERMSIG(status)       0
#define alarm(seconds)         ((void)(seconds))
#define sigaction(number, new_one, old_one) (0)
#define posix_memalign(block, align, size) (!(*(block) = malloc(size)))     /* likewise */
#define dlclose(library)       ((void)FreeLibrary((HMODULE)(library)))
#define flockfile(file)   _lock_file(file)
#define funlockfile(file) _unlock_file(file)
#define pthread_sigmask(how, set, old) ((void)(set), (void)(old))
#define RTLD_NOW   0
#define RTLD_LOCAL 0

/* NVIDIA's libraries, and the fakes, have other names here. */
static void *dlopen(const char *name, int flags)
{
    (void)flags;
    return (void *)LoadLibraryA(!strcmp(name, "libcuda.so.1") ? "nvcuda.dll" :
                                !strcmp(name, "libnvcuvid.so.1") ? "nvcuvid.dll" : name);
}

static void *dlsym(void *library, const char *name)
{
    return (void *)(intptr_t)GetProcAddress((HMODULE)library, name);
}

static const char *dlerror(void) { return "LoadLibrary failed"; }

/* No pipe, socket or device has a name here, links need a right that few have, and the C library opens 2048 files. */
struct sockaddr { int family; };
struct sockaddr_un {
    int  sun_family;
    char sun_path[108];
};
#define AF_UNIX     1
#define SOCK_STREAM 1
#define socket(family, kind, protocol)  (errno = ENOSYS, -1)
#define bind(fd, address, size)         ((void)(address), -1)
#define mkfifo(path, mode)              (errno = ENOSYS, -1)
#define symlink(to, path)               ((void)(to), (void)(path), errno = ENOSYS, -1)
#define link(from, to)                  (CreateHardLinkA(to, from, NULL) ? 0 : -1)
#define pipe(ends)                      _pipe(ends, 4096, _O_BINARY)
#define geteuid()                       1
typedef uint64_t rlim_t;
struct rlimit { rlim_t rlim_cur; };
#define RLIMIT_NOFILE 0
#define getrlimit(what, limit)          ((limit)->rlim_cur = 2048, 0)
#define setrlimit(what, limit)          ((void)(limit), 0)
struct FTW { int level; };
#define FTW_DEPTH 0
#define FTW_PHYS  0
#define nftw(path, function, files, how) ((void)(function), remove_all(path))

/* There are no signals but Ctrl-C's, and nothing forks: tests of these are skipped. */
struct sigaction {
    void   (*sa_handler)(int);
    sigset_t sa_mask;
    int      sa_flags;
};
typedef struct cpu_set_t { unsigned long long bits; } cpu_set_t;
#define CPU_SETSIZE 64
#define CPU_ISSET(i, set) ((int)((set)->bits >> (i) & 1))
#define CPU_SET(i, set)   ((set)->bits |= 1ull << (i))
#define CPU_ZERO(set)     ((set)->bits = 0)
static int fork(void) { return errno = ENOSYS, -1; }
static int waitpid(int child, int *status, int flags) { return (void)child, (void)flags, *status = -1; }

/* A folder and what is in it, or a file. */
static void remove_all(const char *path)
{
    char inside[1024];
    WIN32_FIND_DATAA entry;
    HANDLE find;
    snprintf(inside, sizeof inside, "%s/*", path);
    if ((find = FindFirstFileA(inside, &entry)) != INVALID_HANDLE_VALUE) {
        do {
            snprintf(inside, sizeof inside, "%s/%s", path, entry.cFileName);
            if (strcmp(entry.cFileName, ".") && strcmp(entry.cFileName, ".."))
                remove_all(inside);
        } while (FindNextFileA(find, &entry));
        FindClose(find);
    }
    if (!RemoveDirectoryA(path))
        DeleteFileA(path);
}

static void make_folder_all(char *path)
{
    for (char *at = strchr(path, '/'); at; at = strchr(at + 1, '/')) {
        *at = 0;
        _mkdir(path);
        *at = '/';
    }
    _mkdir(path);
}

/* Of the commands that tests give, only these: rm -rf PATH..., mkdir -p PATH..., and both by &&. */
static int test_system(const char *command)
{
    char line[2048];
    int removes = 0;
    snprintf(line, sizeof line, "%s", command);
    if (strncmp(line, "rm -rf ", 7) && strncmp(line, "mkdir -p ", 9))
        return 1;
    for (char *word = strtok(line, " '"); word; word = strtok(NULL, " '")) {
        if (!strcmp(word, "rm"))                             removes = 1;
        else if (!strcmp(word, "mkdir"))                     removes = 0;
        else if (*word == '-' || !strcmp(word, "&&"))        continue;
        else if (removes)                                    remove_all(word);
        else                                                 make_folder_all(word);
    }
    return 0;
}
#define system(command) test_system(command)

/* Nothing takes the name of a file that is open: that one goes out of its way first. */
static int test_rename(const char *from, const char *to)
{
    char away[1024];
    if (MoveFileExA(from, to, MOVEFILE_REPLACE_EXISTING))
        return 0;
    snprintf(away, sizeof away, "%s.away", to);
    return MoveFileExA(to, away, MOVEFILE_REPLACE_EXISTING) && MoveFileExA(from, to, 0) ? 0 : -1;
}
#define rename(from, to) test_rename(from, to)

static int setenv(const char *name, const char *value, int replace)
{
    return replace || !getenv(name) ? _putenv_s(name, value) : 0;
}

static int unsetenv(const char *name) { return _putenv_s(name, ""); }

/* The shell here knows only double quotes, and takes the outermost away. */
static FILE *test_popen(const char *command, const char *mode)
{
    char line[4096];
    snprintf(line, sizeof line, "\"%s\"", command);
    for (char *at = line; *at; at++)
        if (*at == '\'')
            *at = '"';
    return _popen(line, mode);
}

/* Of /proc/self/exe alone. */
static ssize_t readlink(const char *path, char *out, size_t size)
{
    (void)path;
    return (ssize_t)GetModuleFileNameA(NULL, out, (DWORD)size);
}

static ssize_t pwrite(int fd, const void *src, size_t size, int64_t offset)
{
    _setmode(fd, _O_BINARY);
    return _lseeki64(fd, offset, SEEK_SET) == offset ? _write(fd, src, (unsigned)size) : -1;
}

static int utimensat(int folder, const char *path, const struct timespec times[2], int flags)
{
    const uint64_t time = (uint64_t)times[1].tv_sec * 10000000 + (uint64_t)times[1].tv_nsec / 100 + 116444736000000000;
    const FILETIME changed = { (DWORD)time, (DWORD)(time >> 32) };
    HANDLE file = CreateFileA(path, FILE_WRITE_ATTRIBUTES, FILE_SHARE_READ | FILE_SHARE_WRITE, NULL, OPEN_EXISTING, 0,
                              NULL);
    const int done = file != INVALID_HANDLE_VALUE && SetFileTime(file, NULL, NULL, &changed);
    (void)folder, (void)flags;
    if (file != INVALID_HANDLE_VALUE)
        CloseHandle(file);
    return done ? 0 : -1;
}

#pragma GCC diagnostic pop
#endif
