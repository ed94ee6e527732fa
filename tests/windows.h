/* windows.h - what the suites use of POSIX and MinGW-w64 does not have. Include after benzina.c. */
#ifndef BENZINA_TEST_WINDOWS_H
#define BENZINA_TEST_WINDOWS_H
#include <direct.h>
#include <stdint.h>
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
#ifndef popen
#define popen(command, mode) _popen(command, mode)
#define pclose(stream) _pclose(stream)
#endif
#define aligned_alloc(align, size) malloc(size)             /* freed by free, and malloc's 16 bytes are enough here */

typedef unsigned sigset_t_of_none;
#ifndef SIG_SETMASK
#define SIG_SETMASK 2
#endif
#define sigset_t sigset_t_of_none
#define sigfillset(set)                ((void)(set))
#undef pthread_sigmask
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

/* Of /proc/self/exe alone. */
static ssize_t readlink(const char *path, char *out, size_t size)
{
    (void)path;
    return (ssize_t)GetModuleFileNameA(NULL, out, (DWORD)size);
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
