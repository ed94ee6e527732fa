/* bytes.h - bytes that tests make, change and look into. */
#ifndef BENZINA_BYTES_H
#define BENZINA_BYTES_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Bytes in memory of exactly their size, so that a sanitizer sees every step outside. */
typedef struct bytes {
    uint8_t *data;
    size_t   size;
} bytes;

static inline bytes bytes_make(const void *data, size_t size)
{
    bytes b = { malloc(size ? size : 1), size };
    if (!b.data)
        abort();
    if (data && size)
        memcpy(b.data, data, size);
    return b;
}

/* The bytes before `at`, others, and those from `after`. */
static inline bytes spliced(bytes b, size_t at, const void *insert, size_t size, size_t after)
{
    bytes s = bytes_make(NULL, at + size + (b.size - after));
    memcpy(s.data, b.data, at);
    if (size)
        memcpy(s.data + at, insert, size);
    memcpy(s.data + at + size, b.data + after, b.size - after);
    return s;
}

/* Where these bytes are; the end where they are not. */
static inline size_t find(bytes b, size_t from, const void *what, size_t size)
{
    while (from + size <= b.size && memcmp(b.data + from, what, size))
        from++;
    return from + size <= b.size ? from : b.size;
}

#endif
