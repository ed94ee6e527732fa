/* elsewhere.c - what only another system or a sanitizer shows, of benzina.c as a part of this program: test_build.sh
 * compiles it with clang's sanitizer of undefined behavior. Its argument is a file that it may write. Prints what is
 * wrong, and ends with 1. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static int errors[4], calls;          /* errno of each fcntl, 0: it succeeds; how many there were */

static int counted_fcntl(int fd, int command, ...)
{
    (void)fd, (void)command;
    errno = errors[calls++];
    return errno ? -1 : 0;
}

/* As on macOS. */
#undef F_FULLFSYNC
#define F_FULLFSYNC 51
#define fcntl counted_fcntl
#include "benzina.c"

/* Returns 1 if a sync whose fcntl ends with two errors returns `wanted` after so many calls. */
static int syncs(int fd, int first, int second, int wanted, int wanted_calls)
{
    bzi_file file = { .fd = fd };
    errors[0] = first;
    errors[1] = second;
    calls = 0;
    const int error = bzi_os_file_sync(&file);
    if (error != wanted || calls != wanted_calls)
        printf("%s, then %s: %s after %d calls\n", strerror(first), strerror(second), strerror(error), calls);
    return error == wanted && calls == wanted_calls;
}

int main(int count, char **arguments)
{
    const int file = open(count > 1 ? arguments[1] : "elsewhere.tmp", O_RDWR | O_CREAT, 0666);
    bzi_value sink = { NULL, 0, 0, 0 };
    /* a file system that has only fsync does that */
    int right = syncs(file, 0, 0, 0, 1) & syncs(file, EINTR, EINTR, 0, 3) & syncs(file, ENOTSUP, 0, 0, 1) &
                syncs(file, EINTR, ENOTSUP, 0, 2) & syncs(-1, EIO, 0, EBADF, 1);

    bzi_value_put(&sink, "abc", 0);                          /* nothing is added to no buffer */
    bzi_value_put(&sink, NULL, 0);
    bzi_value_put(&sink, "abc", 3);
    right &= sink.size == 3;
    close(file);
    return !right;
}
