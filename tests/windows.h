/* windows.h - what the suites use of POSIX and MinGW-w64 does not have. Include after benzina.c. */
#ifndef BENZINA_TEST_WINDOWS_H
#define BENZINA_TEST_WINDOWS_H
#include <direct.h>
#include <fcntl.h>
#include <io.h>
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <windows.h>
#undef near
#undef far

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"          /* not every suite needs all of it */

#define AT_FDCWD 0
#define mkdir(path, mode) _mkdir(path)
#define fsync(fd) _commit(fd)
#define popen(command, mode) _popen(command, mode)
#define pclose(stream) _pclose(stream)
#define aligned_alloc(align, size) malloc(size)             /* freed by free, and malloc's 16 bytes are enough here */

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
