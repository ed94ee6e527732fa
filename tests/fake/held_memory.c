/* held_memory.c - a library to preload, which writes down how much memory a process holds at each call of writev
 *
 *     HELD_MEMORY=FILE GLIBC_TUNABLES=glibc.malloc.tcache_count=0 LD_PRELOAD=held_memory.so bzna pack ...
 *
 * FILE gets a line of bytes that are allocated and not freed: one for each answer of a process of pack that encodes,
 * and such a process ends by SIGKILL, so that no sanitizer sees what it holds. glibc's alone, whose caches count as
 * held unless the tunable switches them off. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>

ssize_t writev(int file, const struct iovec *parts, int count)
{
    ssize_t (*real)(int, const struct iovec *, int) =
        (ssize_t (*)(int, const struct iovec *, int))dlsym(RTLD_NEXT, "writev");
    FILE *out = fopen(getenv("HELD_MEMORY"), "a");
    struct mallinfo2 all = mallinfo2();
    if (out) {
        fprintf(out, "%zu\n", all.uordblks + all.hblkhd);
        fclose(out);
    }
    return real(file, parts, count);
}
