/* common.c - messages, memory, clock, files, progress */
#include "tool.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Says what is wrong with the input, and returns the exit status for that. */
int complain(const char *format, ...)
{
    va_list arguments;
    fflush(stdout);
    fputs("bzna: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    return EXIT_INPUT;
}

/* A tool of one run may give up here: nothing is half done that another run would trip over. */
void *checked(void *pointer)
{
    if (!pointer) exit(complain("out of memory"));
    return pointer;
}

char *text_make(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *text = checked(malloc(length < 0 ? 1 : (size_t)length + 1));
    text[0] = 0;
    va_start(arguments, format);
    if (length > 0) vsnprintf(text, (size_t)length + 1, format, arguments);
    va_end(arguments);
    return text;
}

int64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

void sleep_ns(int64_t duration_ns)
{
    struct timespec time = { .tv_sec = (time_t)(duration_ns / 1000000000), .tv_nsec = (long)(duration_ns % 1000000000) };
    nanosleep(&time, NULL);
}

/* Whether anything has that name. */
int is_there(const char *path)
{
    struct stat status;
    return !lstat(path, &status);
}

int is_folder(const char *path)
{
    struct stat status;
    return !stat(path, &status) && S_ISDIR(status.st_mode);
}

int processors(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count > 1024 ? 1024 : (int)count;
}

void bytes_reserve(bytes *buffer, uint64_t size)
{
    if (size <= buffer->size) return;
    if (size > SIZE_MAX / 2) exit(complain("out of memory"));
    buffer->data = checked(realloc(buffer->data, (size_t)size));
    buffer->size = (size_t)size;
}

progress progress_start(const char *what, uint64_t total)
{
    return (progress){ .what = what, .total = total, .start_ns = now_ns(), .terminal = isatty(STDERR_FILENO) };
}

void progress_show(progress *p, uint64_t done)
{
    int64_t now = now_ns();
    if (!p->terminal || now - p->shown_ns < 200000000) return;
    double seconds = (double)(now - p->start_ns) * 1e-9;
    double rate = seconds > 0 ? (double)done / seconds : 0;
    uint64_t left = rate > 0 ? (uint64_t)((double)(p->total - done) / rate + 0.5) : 0;
    fprintf(stderr, "\r%" PRIu64 " of %" PRIu64 " %s, %.1f a second, %" PRIu64 ":%02" PRIu64 ":%02" PRIu64 " left   ",
            done, p->total, p->what, rate, left / 3600, left / 60 % 60, left % 60);
    p->shown_ns = now;
    p->shown = 1;
}

void progress_end(const progress *p)
{
    if (p->shown) fprintf(stderr, "\r%78s\r", "");
}

bzna_error error_empty(void)
{
    return (bzna_error){ .struct_size = sizeof(bzna_error), .byte_offset = BZNA_NO_OFFSET };
}
