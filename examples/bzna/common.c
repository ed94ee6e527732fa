/* common.c - errors, memory, clock, files, progress */
#include "tool.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int tool_error(const char *format, ...)
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

bzna_error tool_empty_error(void)
{
    return (bzna_error){ .struct_size = sizeof(bzna_error), .byte_offset = BZNA_NO_OFFSET };
}

/* Ending the program here leaves nothing behind that a later run could not cope with. */
void *tool_checked(void *pointer)
{
    if (!pointer) exit(tool_error("out of memory"));
    return pointer;
}

char *tool_format(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *text = tool_checked(malloc(length < 0 ? 1 : (size_t)length + 1));
    text[0] = 0;
    va_start(arguments, format);
    if (length > 0) vsnprintf(text, (size_t)length + 1, format, arguments);
    va_end(arguments);
    return text;
}

int64_t tool_now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

void tool_sleep_ns(int64_t duration_ns)
{
    struct timespec time = {
        .tv_sec = (time_t)(duration_ns / 1000000000), .tv_nsec = (long)(duration_ns % 1000000000),
    };
    nanosleep(&time, NULL);
}

/* A link that leads nowhere exists, too. */
int tool_path_exists(const char *path)
{
    struct stat status;
    return !lstat(path, &status);
}

int tool_is_folder(const char *path)
{
    struct stat status;
    return !stat(path, &status) && S_ISDIR(status.st_mode);
}

int tool_processor_count(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count > 1024 ? 1024 : (int)count;
}

void tool_buffer_reserve(tool_buffer *buffer, uint64_t size)
{
    if (size <= buffer->size) return;
    if (size > SIZE_MAX / 2) exit(tool_error("out of memory"));
    buffer->data = tool_checked(realloc(buffer->data, (size_t)size));
    buffer->size = (size_t)size;
}

tool_progress tool_progress_start(const char *items, uint64_t total)
{
    return (tool_progress){
        .items = items, .total = total, .start_ns = tool_now_ns(), .is_terminal = isatty(STDERR_FILENO),
    };
}

void tool_progress_show(tool_progress *p, uint64_t done)
{
    int64_t now = tool_now_ns();
    if (!p->is_terminal || now - p->shown_ns < 200000000) return;
    double seconds = (double)(now - p->start_ns) * 1e-9;
    double rate = seconds > 0 ? (double)done / seconds : 0;
    uint64_t left = rate > 0 ? (uint64_t)((double)(p->total - done) / rate + 0.5) : 0;
    fprintf(stderr, "\r%" PRIu64 " of %" PRIu64 " %s, %.1f a second, %" PRIu64 ":%02" PRIu64 ":%02" PRIu64 " left   ",
            done, p->total, p->items, rate, left / 3600, left / 60 % 60, left % 60);
    p->shown_ns = now;
    p->is_shown = 1;
}

void tool_progress_end(const tool_progress *p)
{
    if (p->is_shown) fprintf(stderr, "\r%78s\r", "");
}
