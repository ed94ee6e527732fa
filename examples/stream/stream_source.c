/* stream_source.c - reads one source of a stream, whatever it is, into memory: see stream.h
 *
 * From top to bottom: errors, lists of sources, commands, reading and unpacking. Every wait is a poll that looks at a
 * wake-up pipe, too, so that another thread can end it. */
#ifndef _POSIX_C_SOURCE                 /* a header before this may have asked for more */
#  define _POSIX_C_SOURCE 200809L
#endif
#include "stream_source.h"
#include "formats.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum {
    IN_BYTES    = 256 << 10,          /* of a source, read at once where it is unpacked */
    OUT_BYTES   = 1 << 20,            /* that a shard begins with, where its size is not known */
    SOURCES_MAX = 65536,
    EXIT_POLL_MS = 20                 /* how often a command that has closed its output is asked if it has ended */
};

/* ---- Errors ------------------------------------------------------------------------------- */

void bzns_error_copy(bzna_error *err, const bzna_error *from)
{
    const uint32_t size = err && err->struct_size ? err->struct_size : (uint32_t)sizeof *from;

    if (!err || size < sizeof *from)
        return;                       /* no version of the struct is smaller */
    memcpy(err, from, sizeof *from);
    err->struct_size = size;
}

bzna_status bzns_fail(bzna_error *err, bzna_status status, uint64_t offset, int native, const char *format, ...)
{
    bzna_error e = { .struct_size = sizeof e, .status = status, .byte_offset = offset, .native_code = native };
    va_list list;

    va_start(list, format);
    vsnprintf(e.message, sizeof e.message, format, list);
    va_end(list);
    bzns_error_copy(err, &e);
    return status;
}

bzna_status bzns_fail_memory(bzna_error *err, const char *what)
{
    return bzns_fail(err, BZNA_E_MEMORY, BZNA_NO_OFFSET, 0, "out of memory: %s", what);
}

/* ---- Lists of sources --------------------------------------------------------------------- */

static bzna_status fail_many(bzna_error *err)
{
    return bzns_fail(err, BZNA_E_LIMIT, BZNA_NO_OFFSET, 0, "sources: there are more than %d", (int)SOURCES_MAX);
}

/* Makes room for size more bytes. */
static bzna_status texts_reserve(bzns_texts *t, size_t size, bzna_error *err)
{
    const size_t room = 2 * t->room + size + 256;
    char *bytes;

    if (t->room - t->size >= size)
        return BZNA_OK;
    if (!(bytes = realloc(t->bytes, room)))
        return bzns_fail_memory(err, "sources");
    t->bytes = bytes;
    t->room = room;
    return BZNA_OK;
}

/* A text without braces is added as it is, backslashes and all: most commands are such. */
bzna_status bzns_texts_add(bzns_texts *t, const char *pattern, int is_literal, bzna_error *err)
{
    size_t size = strlen(pattern) + 1;
    uint32_t count = 1;
    bzna_status status = BZNA_OK;

    is_literal |= !strchr(pattern, '{');
    if (!is_literal) {
        status = bzna_formats_braces(pattern, NULL, 0, &size, &count, err);
        status = status == BZNA_E_BUFFER ? BZNA_OK : status;
    }
    if (status != BZNA_OK || (status = texts_reserve(t, size, err)) != BZNA_OK)
        return status;
    if (count > SOURCES_MAX - t->count)
        return fail_many(err);
    if (is_literal)
        memcpy(t->bytes + t->size, pattern, size);
    else
        status = bzna_formats_braces(pattern, t->bytes + t->size, size, &size, &count, err);
    t->size += size;
    t->count += count;
    return status;
}

/* One block: the pointers, then the texts. */
bzna_status bzns_texts_list(const bzns_texts *t, char ***list, uint32_t *count, bzna_error *err)
{
    char **block = malloc(t->count * sizeof *block + t->size), *at;

    if (!block)
        return bzns_fail_memory(err, "sources");
    at = memcpy(block + t->count, t->bytes, t->size);
    for (uint32_t i = 0; i < t->count; i++, at += strlen(at) + 1)
        block[i] = at;
    *list = block;
    *count = t->count;
    return BZNA_OK;
}

bzna_status bzna_stream_expand(const char *pattern, char ***list, uint32_t *count, bzna_error *err)
{
    bzns_texts t = { 0 };
    bzna_status status = bzns_texts_add(&t, pattern, 0, err);

    if (status == BZNA_OK)
        status = bzns_texts_list(&t, list, count, err);
    free(t.bytes);
    return status;
}

/* ---- Reading a source --------------------------------------------------------------------- */

static int set_cloexec(int fd) { return fd < 0 ? fd : fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 ? (close(fd), -1) : fd; }

/* A pipe of which no child inherits an end. Returns 0, or -1 with errno. */
int bzns_open_pipe(int ends[2])
{
    if (pipe(ends) < 0)
        return -1;
    if (fcntl(ends[0], F_SETFD, FD_CLOEXEC) >= 0 && fcntl(ends[1], F_SETFD, FD_CLOEXEC) >= 0)
        return 0;
    close(ends[0]);
    close(ends[1]);
    return -1;
}

/* Starts sh -c command, in a process group of its own, with the signals of a fresh program. Returns 0 or an errno. */
static int spawn_command(const char *command, int output, pid_t *child)
{
    char sh[] = "sh", c[] = "-c";
    char *text = strdup(command), *const arguments[] = { sh, c, text, NULL };
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, defaults;
    int failed = text ? posix_spawn_file_actions_init(&actions) : ENOMEM;

    if (failed) {
        free(text);
        return failed;
    }
    if (!(failed = posix_spawnattr_init(&attributes))) {
        sigemptyset(&none);
        sigemptyset(&defaults);
        sigaddset(&defaults, SIGPIPE);                      /* which Python, for one, ignores */
        if (!(failed = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)) &&
            !(failed = posix_spawn_file_actions_adddup2(&actions, output, 1)) &&
            !(failed = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                                             POSIX_SPAWN_SETSIGDEF)) &&
            !(failed = posix_spawnattr_setpgroup(&attributes, 0)) &&
            !(failed = posix_spawnattr_setsigmask(&attributes, &none)) &&
            !(failed = posix_spawnattr_setsigdefault(&attributes, &defaults)))
            failed = posix_spawn(child, "/bin/sh", &actions, &attributes, arguments, environ);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    free(text);
    return failed;
}

static bzna_status reader_open_command(bzns_reader *r, const char *command, bzna_error *err)
{
    int ends[2], failed;

    if (bzns_open_pipe(ends) < 0)
        return bzns_fail(err, BZNA_E_IO, BZNA_NO_OFFSET, errno, "%s: no pipe: %s", r->name, strerror(errno));
    failed = spawn_command(command, ends[1], &r->child);
    close(ends[1]);
    if (failed) {
        close(ends[0]);
        r->child = 0;
        return bzns_fail(err, BZNA_E_IO, BZNA_NO_OFFSET, failed, "%s: the command could not be started: %s", r->name,
                         strerror(failed));
    }
    r->fd = ends[0];
    return BZNA_OK;
}

/* The number of a descriptor that this process has, which a path stands for; -1: it stands for none. It is duplicated
 * rather than opened, because a pipe that is opened anew does not report that its writers are gone. */
static int descriptor_of(const char *name)
{
    static const char *const folders[] = { "/dev/fd/", "/proc/self/fd/" };
    char *end;

    if (!strcmp(name, "-") || !strcmp(name, "/dev/stdin"))
        return 0;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        const size_t size = strlen(folders[i]);
        if (!strncmp(name, folders[i], size) && name[size] >= '0' && name[size] <= '9') {
            const long number = strtol(name + size, &end, 10);
            return *end || number > 1 << 20 ? -1 : (int)number;
        }
    }
    return -1;
}

bzna_status bzns_reader_open(bzns_reader *r, const char *name, int wake, bzna_error *err)
{
    struct stat about;
    int number;

    memset(r, 0, sizeof *r);
    r->name = name;
    r->wake = wake;
    r->fd = -1;
    if (!(r->in = malloc(IN_BYTES)))
        return bzns_fail_memory(err, name);
    if (!strncmp(name, "pipe:", 5))
        return reader_open_command(r, name + 5, err);

    number = descriptor_of(name);
    /* without O_NONBLOCK, opening a FIFO waits for its writer, and could not be ended */
    r->fd = number >= 0 ? set_cloexec(dup(number)) : open(name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (r->fd < 0)
        return bzns_fail(err, errno == ENOENT ? BZNA_E_NOT_FOUND : BZNA_E_IO, BZNA_NO_OFFSET, errno,
                         "%s: it cannot be opened: %s", name, strerror(errno));
    if (fstat(r->fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0)
        r->expected = (uint64_t)about.st_size;
    return BZNA_OK;
}

/* Ends reading, whatever is under way. */
void bzns_reader_close(bzns_reader *r)
{
#ifndef BZNA_STREAM_NO_ZLIB
    if (r->kind == BZNS_KIND_GZIP)
        inflateEnd(&r->gzip);
#endif
#ifndef BZNA_STREAM_NO_ZSTD
    ZSTD_freeDStream(r->zstd);
#endif
    if (r->fd >= 0)
        close(r->fd);
    if (r->child) {
        kill(-r->child, SIGKILL);
        kill(r->child, SIGKILL);                            /* before it has its own group */
        while (waitpid(r->child, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    free(r->in);
    free(r->out);
    memset(r, 0, sizeof *r);
    r->fd = -1;
}

/* Returns 1 if the wake-up pipe says so within so many milliseconds. */
int bzns_is_woken(int wake, int timeout_ms)
{
    struct pollfd p = { .fd = wake, .events = POLLIN };
    return poll(&p, 1, timeout_ms) > 0 && p.revents;
}

/* Reads up to room bytes. *got 0 is the end. */
static bzna_status reader_get(bzns_reader *r, uint8_t *dst, size_t room, size_t *got, bzna_error *err)
{
    for (;;) {
        struct pollfd p[2] = { { .fd = r->fd, .events = POLLIN }, { .fd = r->wake, .events = POLLIN } };
        ssize_t n;

        if (poll(p, 2, -1) < 0 && errno != EINTR)
            return bzns_fail(err, BZNA_E_IO, r->taken, errno, "%s: %s", r->name, strerror(errno));
        if (p[1].revents)
            return bzns_fail(err, BZNA_E_STOPPED, BZNA_NO_OFFSET, 0, "%s: reading was stopped", r->name);
        if (!p[0].revents)
            continue;

        n = read(r->fd, dst, room < (1u << 30) ? room : 1u << 30);
        if (n >= 0) {
            *got = (size_t)n;
            return BZNA_OK;
        }
        if (errno != EINTR && errno != EAGAIN)
            return bzns_fail(err, BZNA_E_IO, r->taken + (r->end - r->at), errno, "%s: reading failed: %s", r->name,
                             strerror(errno));
    }
}

/* Waits for the command's end, and judges its status. */
static bzna_status reader_reap(bzns_reader *r, bzna_error *err)
{
    int status = 0;
    pid_t pid;

    if (!r->child)
        return BZNA_OK;
    while ((pid = waitpid(r->child, &status, WNOHANG)) == 0 || (pid < 0 && errno == EINTR))
        if (bzns_is_woken(r->wake, EXIT_POLL_MS))
            return bzns_fail(err, BZNA_E_STOPPED, BZNA_NO_OFFSET, 0, "%s: reading was stopped", r->name);

    r->child = 0;
    if (pid < 0)
        return BZNA_OK;               /* a program that ignores SIGCHLD is not told */
    if (WIFSIGNALED(status))
        return bzns_fail(err, BZNA_E_IO, r->taken, 128 + WTERMSIG(status), "the command was ended by signal %d after %"
                         PRIu64 " bytes: %s", WTERMSIG(status), r->taken, r->name);
    if (WEXITSTATUS(status))
        return bzns_fail(err, BZNA_E_IO, r->taken, WEXITSTATUS(status), "the command ended with status %d after %"
                         PRIu64 " bytes: %s", WEXITSTATUS(status), r->taken, r->name);
    return BZNA_OK;
}

/* Makes room for more of the shard: at least a byte, and at most limit + 1 in all. */
static bzna_status reader_reserve(bzns_reader *r, uint64_t limit, bzna_error *err)
{
    const uint64_t first = r->kind == BZNS_KIND_PLAIN && r->expected ? r->expected + 1 : OUT_BYTES;
    uint64_t room = r->room ? 2 * (uint64_t)r->room : first;
    uint8_t *out;

    if (r->size < r->room)
        return BZNA_OK;
    room = room > limit + 1 ? limit + 1 : room;
    if (!(out = realloc(r->out, (size_t)room)))
        return bzns_fail_memory(err, r->name);
    r->out = out;
    r->room = (size_t)room;
    return BZNA_OK;
}

/* Reads more of the source if all of it is unpacked. *is_end becomes 1 at the end. */
static bzna_status reader_refill(bzns_reader *r, int *is_end, bzna_error *err)
{
    size_t got = 0;
    bzna_status status = BZNA_OK;

    *is_end = 0;
    if (r->at == r->end && (status = reader_get(r, r->in, IN_BYTES, &got, err)) == BZNA_OK) {
        r->at = 0;
        r->end = got;
        *is_end = got == 0;
    }
    return status;
}

static void reader_take(bzns_reader *r, size_t bytes)
{
    r->at += bytes;
    r->taken += bytes;
}

static bzna_status reader_plain(bzns_reader *r, uint64_t limit, bzna_error *err)
{
    bzna_status status;

    while (r->size <= limit) {
        size_t got = r->end - r->at;
        if ((status = reader_reserve(r, limit, err)) != BZNA_OK)
            return status;
        if (got) {                                          /* of the first bytes, by which its kind was found */
            got = got < r->room - r->size ? got : r->room - r->size;
            memcpy(r->out + r->size, r->in + r->at, got);
            r->at += got;
        } else if ((status = reader_get(r, r->out + r->size, r->room - r->size, &got, err)) != BZNA_OK)
            return status;
        if (!got)
            return BZNA_OK;
        r->size += got;
        r->taken += got;
    }
    return BZNA_AGAIN;
}

static bzna_status fail_packed(const bzns_reader *r, bzna_status status, const char *why, bzna_error *err)
{
    return bzns_fail(err, status, r->taken, 0, "%s: %s at byte %" PRIu64 ": %s", r->name,
                     r->kind == BZNS_KIND_GZIP ? "gzip" : "zstd", r->taken, why);
}

/* Unpacks a piece of what was read: sets is_inside. Returns BZNA_OK, or an error. */
#ifndef BZNA_STREAM_NO_ZLIB
static bzna_status gzip_step(bzns_reader *r, bzna_error *err)
{
    z_stream *z = &r->gzip;
    const size_t in = r->end - r->at, out = r->room - r->size;
    const uInt room = out < 1u << 30 ? (uInt)out : 1u << 30;
    int result;

    if (!r->is_inside && r->taken && inflateReset(z) != Z_OK)
        return fail_packed(r, BZNA_E_FORMAT, "zlib failed", err);
    z->next_in = r->in + r->at;
    z->avail_in = (uInt)in;
    z->next_out = r->out + r->size;
    z->avail_out = room;
    result = inflate(z, Z_NO_FLUSH);
    r->size += room - z->avail_out;
    r->is_pending = z->avail_out == 0 && result != Z_STREAM_END;
    reader_take(r, in - z->avail_in);
    r->is_inside = result != Z_STREAM_END;
    if (result == Z_MEM_ERROR)
        return bzns_fail_memory(err, r->name);
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
        return fail_packed(r, BZNA_E_FORMAT, z->msg ? z->msg : "damaged", err);
    return BZNA_OK;
}
#endif

#ifndef BZNA_STREAM_NO_ZSTD
static bzna_status zstd_step(bzns_reader *r, bzna_error *err)
{
    ZSTD_inBuffer in = { r->in, r->end, r->at };
    ZSTD_outBuffer out = { r->out, r->room, r->size };
    const size_t left = ZSTD_decompressStream(r->zstd, &out, &in);

    r->size = out.pos;
    reader_take(r, in.pos - r->at);
    if (ZSTD_isError(left))
        return fail_packed(r, BZNA_E_FORMAT, ZSTD_getErrorName(left), err);
    r->is_inside = left != 0;
    r->is_pending = left != 0 && out.pos == out.size;
    return BZNA_OK;
}
#endif

static bzna_status packed_step(bzns_reader *r, bzna_error *err)
{
#ifndef BZNA_STREAM_NO_ZLIB
    if (r->kind == BZNS_KIND_GZIP)
        return gzip_step(r, err);
#endif
#ifndef BZNA_STREAM_NO_ZSTD
    if (r->kind == BZNS_KIND_ZSTD)
        return zstd_step(r, err);
#endif
    return bzns_fail(err, BZNA_E_UNSUPPORTED, 0, 0, "%s: %s, and this build has no %s", r->name,
                     r->kind == BZNS_KIND_GZIP ? "it is packed by gzip" : "it is packed by zstd",
                     r->kind == BZNS_KIND_GZIP ? "zlib (Debian: zlib1g-dev)" : "libzstd (Debian: libzstd-dev)");
}

/* Members and frames one after the other are one text. Zeros between and behind them, with which tapes are filled up,
 * are skipped. */
static bzna_status reader_packed(bzns_reader *r, uint64_t limit, bzna_error *err)
{
    bzna_status status;
    int is_end;

    while (r->size <= limit) {
        if (!r->is_pending) {
            if ((status = reader_refill(r, &is_end, err)) != BZNA_OK)
                return status;
            if (is_end)
                return r->is_inside ? fail_packed(r, BZNA_E_TRUNCATED, "the source ends too early", err) : BZNA_OK;
            while (!r->is_inside && r->at < r->end && r->taken && !r->in[r->at])
                reader_take(r, 1);
            if (r->at == r->end)
                continue;
        }
        if ((status = reader_reserve(r, limit, err)) != BZNA_OK || (status = packed_step(r, err)) != BZNA_OK)
            return status;
    }
    return BZNA_AGAIN;
}

/* Finds by its first bytes how the source is packed. */
static bzna_status reader_find_kind(bzns_reader *r, bzna_error *err)
{
    const uint8_t *b = r->in;
    size_t got = 1;
    bzna_status status;

    while (r->end < 4 && got) {
        if ((status = reader_get(r, r->in + r->end, IN_BYTES - r->end, &got, err)) != BZNA_OK)
            return status;
        r->end += got;
    }
    r->kind = BZNS_KIND_PLAIN;
    if (r->end >= 4 && b[0] == 0x1f && b[1] == 0x8b)
        r->kind = BZNS_KIND_GZIP;
    if (r->end >= 4 && ((b[0] == 0x28 && b[1] == 0xb5 && b[2] == 0x2f && b[3] == 0xfd) ||
                        ((b[0] & 0xf0) == 0x50 && b[1] == 0x2a && b[2] == 0x4d && b[3] == 0x18)))
        r->kind = BZNS_KIND_ZSTD;
#ifndef BZNA_STREAM_NO_ZLIB
    if (r->kind == BZNS_KIND_GZIP && inflateInit2(&r->gzip, 15 + 16) != Z_OK) {
        r->kind = BZNS_KIND_PLAIN;                               /* there is nothing to end */
        return bzns_fail_memory(err, r->name);
    }
#endif
#ifndef BZNA_STREAM_NO_ZSTD
    if (r->kind == BZNS_KIND_ZSTD && !(r->zstd = ZSTD_createDStream()))
        return bzns_fail_memory(err, r->name);
#endif
    return BZNA_OK;
}

/* Reads the whole source into r->out. Returns BZNA_AGAIN if it has more than limit bytes: a call with a larger limit
 * goes on. */
bzna_status bzns_reader_read(bzns_reader *r, uint64_t limit, bzna_error *err)
{
    bzna_status status = r->kind == BZNS_KIND_UNKNOWN ? reader_find_kind(r, err) : BZNA_OK;
    uint8_t *out;

    if (status == BZNA_OK)
        status = r->kind == BZNS_KIND_PLAIN ? reader_plain(r, limit, err) : reader_packed(r, limit, err);
    if (status != BZNA_OK || (status = reader_reap(r, err)) != BZNA_OK)
        return status;
    if (!r->size)
        return bzns_fail(err, BZNA_E_TRUNCATED, 0, 0, "%s: there is nothing to read%s", r->name,
                         descriptor_of(r->name) >= 0 ? ": a descriptor can be read once" : "");
    if ((out = realloc(r->out, r->size)) != NULL)
        r->out = out;
    return BZNA_OK;
}

bzna_status bzna_stream_read(const char *source, uint64_t max_bytes, void **bytes, size_t *size, bzna_error *err)
{
    bzns_reader r;
    bzna_status status;

    if (!source || !bytes || !size)
        return bzns_fail(err, BZNA_E_ARGUMENT, BZNA_NO_OFFSET, 0, "bzna_stream_read: an argument is NULL");
    *bytes = NULL;
    *size = 0;
    status = bzns_reader_open(&r, source, -1, err);
    if (status == BZNA_OK)
        status = bzns_reader_read(&r, max_bytes < SIZE_MAX / 2 ? max_bytes : SIZE_MAX / 2, err);
    if (status == BZNA_AGAIN)
        status = bzns_fail(err, BZNA_E_LIMIT, r.taken, 0, "%s: it has more than %" PRIu64 " bytes%s", source, max_bytes,
                           r.kind == BZNS_KIND_PLAIN ? "" : ", unpacked");
    if (status == BZNA_OK) {
        *bytes = r.out;
        *size = r.size;
        r.out = NULL;
    }
    bzns_reader_close(&r);
    return status;
}
