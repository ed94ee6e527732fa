/* sink.h - archives that are written to memory, by the suites of the writer */
#ifndef BENZINA_TESTS_SINK_H
#define BENZINA_TESTS_SINK_H

typedef struct memory_sink {
    uint8_t *data;
    size_t size, room;
    long long writes, closes, fail_at, appended, patched;    /* fail_at: this write and all after it; 0: none */
    bzna_status fail_with;
    int wrong;                        /* writes that neither append nor patch 8 bytes */
    atomic_int inside;
    int concurrent;                   /* writes while another one was going on */
} memory_sink;

static bzna_status sink_store(memory_sink *s, uint64_t offset, const void *src, uint64_t size)
{
    s->writes++;
    if (s->fail_at && s->writes >= s->fail_at)
        return s->fail_with;
    if (offset == s->size) {
        s->appended++;
    } else if (size == 8) {
        s->patched++;
    } else {
        s->wrong++;
        return BZNA_E_RANGE;
    }
    if (offset + size > s->room) {
        s->room = (size_t)(offset + size) * 2;
        s->data = realloc(s->data, s->room);
    }
    memcpy(s->data + offset, src, (size_t)size);
    if (offset + size > s->size)
        s->size = (size_t)(offset + size);
    return BZNA_OK;
}

static bzna_status sink_write(void *user, uint64_t offset, const void *src, uint64_t size)
{
    memory_sink *s = user;
    bzna_status status;
    s->concurrent += atomic_fetch_add(&s->inside, 1) != 0;
    status = sink_store(s, offset, src, size);
    atomic_fetch_sub(&s->inside, 1);
    return status;
}

static void sink_close(void *user) { ((memory_sink *)user)->closes++; }

/* Empties it. */
static bzna_sink sink_of(memory_sink *s)
{
    bzna_sink sink = { sizeof(bzna_sink), 0, s, sink_write, sink_close };
    memset(s, 0, sizeof *s);
    s->fail_with = BZNA_E_IO;
    return sink;
}

#endif
