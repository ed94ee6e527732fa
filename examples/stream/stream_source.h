/* stream_source.h - what stream.c shares with stream_source.c: errors, lists of sources, reading and unpacking one
 *
 * For these two files only: programs include stream.h. */
#ifndef BENZINA_STREAM_SOURCE_H
#define BENZINA_STREAM_SOURCE_H

#include "stream.h"

#include <sys/types.h>
#ifndef BZNA_STREAM_NO_ZLIB
#include <zlib.h>
#endif
#ifndef BZNA_STREAM_NO_ZSTD
#include <zstd.h>
#endif

#if defined(__GNUC__) || defined(__clang__)
#define BZNS_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define BZNS_PRINTF(text, first)
#endif

/* Fills in *err, which may be NULL. Returns status. native: errno, or the status of a command. */
BZNS_PRINTF(5, 6) bzna_status bzns_fail(bzna_error *err, bzna_status status, uint64_t offset, int native,
                                        const char *format, ...);
bzna_status bzns_fail_memory(bzna_error *err, const char *what);
void bzns_error_copy(bzna_error *err, const bzna_error *from);

/* A pipe of which no child inherits an end. Returns 0, or -1 with errno. */
int bzns_open_pipe(int ends[2]);

/* Returns 1 if the wake-up pipe says so within so many milliseconds. */
int bzns_is_woken(int wake, int timeout_ms);

/* Texts, one after the other, each with a NUL behind it. bytes is to be freed. */
typedef struct bzns_texts {
    char    *bytes;
    size_t   size, room;
    uint32_t count;
} bzns_texts;

/* Adds the texts to which the braces of a pattern expand, or the pattern itself if it is literal. */
bzna_status bzns_texts_add(bzns_texts *t, const char *pattern, int is_literal, bzna_error *err);

/* Makes a list in one block, to be freed by free(). */
bzna_status bzns_texts_list(const bzns_texts *t, char ***list, uint32_t *count, bzna_error *err);

enum { BZNS_KIND_UNKNOWN, BZNS_KIND_PLAIN, BZNS_KIND_GZIP, BZNS_KIND_ZSTD };

/* A source that is being read and unpacked into memory. */
typedef struct bzns_reader {
    const char *name;
    int         wake;                 /* readable: give up. -1: none */
    int         fd;
    pid_t       child;                /* of pipe:COMMAND; 0: none */
    int         kind;
    uint8_t    *in;                   /* what was read and not unpacked: in[at..end) */
    size_t      at, end;
    uint64_t    taken;                /* bytes of the source before in[at] */
    int         is_inside;            /* a gzip member or zstd frame has begun and not ended */
    int         is_pending;           /* the unpacker may have more for the same bytes */
    uint8_t    *out;
    size_t      size, room;           /* of out */
    uint64_t    expected;             /* bytes of a plain file; 0: not known */
#ifndef BZNA_STREAM_NO_ZLIB
    z_stream    gzip;
#endif
#ifndef BZNA_STREAM_NO_ZSTD
    ZSTD_DStream *zstd;
#endif
} bzns_reader;

/* Begins to read a source. wake is a descriptor: once it is readable, reading ends with E_STOPPED; -1: none. The reader
 * is to be closed, also after a failure. */
bzna_status bzns_reader_open(bzns_reader *r, const char *name, int wake, bzna_error *err);

/* Reads the whole source into r->out. Returns BZNA_AGAIN if it has more than limit bytes: a call with a larger limit
 * goes on. */
bzna_status bzns_reader_read(bzns_reader *r, uint64_t limit, bzna_error *err);

/* Ends reading, whatever is under way, and kills the command. */
void bzns_reader_close(bzns_reader *r);

#endif
