/* common.c - errors, memory, clock, files, progress */
#include "tool.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int tool_error(const char *format, ...)
{
    va_list arguments;
    tool_stdout_flush();
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
    char most[256] = "";              /* most texts fit, and need not be formatted twice */
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(most, sizeof most, format, arguments);
    va_end(arguments);
    size_t size = length < 0 ? 1 : (size_t)length + 1;
    char *text = tool_checked(malloc(size));
    if (size <= sizeof most) return memcpy(text, most, size);
    va_start(arguments, format);
    vsnprintf(text, size, format, arguments);
    va_end(arguments);
    return text;
}

void tool_names_add(tool_names *n, char *name)
{
    if (n->count == n->capacity) {
        n->capacity = n->capacity ? 2 * n->capacity : 64;
        n->names = tool_checked(realloc(n->names, n->capacity * sizeof *n->names));
    }
    n->names[n->count++] = name;
}

size_t tool_names_find(const tool_names *n, const char *name)
{
    size_t i = 0;
    while (i < n->count && strcmp(n->names[i], name)) i++;
    return i;
}

int tool_names_read(tool_names *n, const char *path)
{
    FILE *in = fopen(path, "r");
    char *line = NULL;
    size_t capacity = 0;
    if (!in) return tool_error("%s: cannot be opened: %s", path, strerror(errno));
    while (getline(&line, &capacity, in) >= 0) {
        line[strcspn(line, "\r\n")] = 0;
        if (*line) tool_names_add(n, tool_format("%s", line));
    }
    int failed = ferror(in);
    fclose(in);
    free(line);
    return failed ? tool_error("%s: cannot be read", path) : EXIT_OK;
}

void tool_names_free(tool_names *n)
{
    for (size_t i = 0; i < n->count; i++) free(n->names[i]);
    free(n->names);
    *n = (tool_names){ NULL, 0, 0 };
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

int tool_refuse_existing(const char *path, int64_t overwrite)
{
    if (overwrite || !tool_path_exists(path)) return EXIT_OK;
    tool_error("%s: already exists; to replace it: --overwrite", path);
    return EXIT_USAGE;
}

int tool_is_folder(const char *path)
{
    struct stat status;
    return !stat(path, &status) && S_ISDIR(status.st_mode);
}

void tool_buffer_reserve(tool_buffer *buffer, uint64_t size)
{
    if (size <= buffer->size) return;
    if (size > SIZE_MAX / 2) exit(tool_error("out of memory"));
    buffer->data = tool_checked(realloc(buffer->data, (size_t)size));
    buffer->size = (size_t)size;
}

int tool_write_all(int file, const void *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t put = os_write(file, (const char *)data + done, size - done);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return put < 0 ? errno : ENOSPC;
        done += (size_t)put;
    }
    return 0;
}

tool_progress tool_progress_start(const char *items, uint64_t total)
{
    int64_t now = tool_now_ns();
    return (tool_progress){
        .items = items, .total = total, .start_ns = now, .shown_ns = now, .is_terminal = os_is_terminal(stderr),
    };
}

enum { PROGRESS_TERMINAL_MS = 200, PROGRESS_LINE_MS = 10000, PROGRESS_BAR = 20 };

static void progress_json(const tool_progress *p, uint64_t done, double seconds)
{
    fprintf(stderr, "{\"done\":%" PRIu64 ",\"total\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"left_out\":%" PRIu64
            ",\"seconds\":%.1f,\"per_second\":%.1f}\n", done, p->total, p->bytes, p->failed, seconds,
            seconds > 0 ? (double)(done - p->first) / seconds : 0);
}

/* "12 of 100 pictures, 3.4 MB, 1 left out, 52.1 a second, 0:00:02 left" */
static void progress_text(const tool_progress *p, uint64_t done, double seconds, char *text, size_t size)
{
    char bytes[32] = "", failed[32] = "", rate_text[80] = "";
    double rate = seconds > 0 ? (double)(done - p->first) / seconds : 0;
    uint64_t left = rate > 0 ? (uint64_t)((double)(p->total - done) / rate + 0.5) : 0;
    if (p->bytes) snprintf(bytes, sizeof bytes, ", %.1f MB", (double)p->bytes * 1e-6);
    if (p->failed) snprintf(failed, sizeof failed, ", %" PRIu64 " left out", p->failed);
    if (rate > 0)
        snprintf(rate_text, sizeof rate_text, ", %.1f a second, %" PRIu64 ":%02" PRIu64 ":%02" PRIu64 " left", rate,
                 left / 3600, left / 60 % 60, left % 60);
    snprintf(text, size, "%" PRIu64 " of %" PRIu64 " %s%s%s%s", done, p->total, p->items, bytes, failed, rate_text);
}

/* A line that is as long as the terminal is wide is not written over: the bar gives way, then the text. */
static void progress_bar(const tool_progress *p, uint64_t done, char *text)
{
    char bar[PROGRESS_BAR + 4] = "";
    size_t columns = os_columns();
    if (!columns) columns = 80;
    if (strlen(text) + PROGRESS_BAR + 3 < columns) {
        int filled = p->total ? (int)((double)done * (double)PROGRESS_BAR / (double)p->total) : 0;
        snprintf(bar, sizeof bar, "[%-*.*s] ", PROGRESS_BAR, filled, "====================");
    } else if (strlen(text) >= columns) {
        text[columns - 1] = 0;
    }
    fprintf(stderr, "\r%s%s\033[K", bar, text);
}

void tool_progress_show(tool_progress *p, uint64_t done)
{
    int64_t now = tool_now_ns();
    char text[200];
    int is_bar = p->is_terminal && !p->is_json;
    if (now - p->shown_ns < (is_bar ? PROGRESS_TERMINAL_MS : PROGRESS_LINE_MS) * INT64_C(1000000)) return;
    double seconds = (double)(now - p->start_ns) * 1e-9;
    p->shown_ns = now;
    if (p->is_json) { progress_json(p, done, seconds); return; }
    progress_text(p, done, seconds, text, sizeof text);
    if (is_bar) progress_bar(p, done, text);
    else        fprintf(stderr, "%s\n", text);
    p->is_shown = is_bar;
}

void tool_progress_end(const tool_progress *p)
{
    if (p->is_shown) fputs("\r\033[K", stderr);
}
