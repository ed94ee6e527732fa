/* tars.h - what tests of tars share: a writer in memory. Every member is a ustar header and its bytes; tests change
 * headers by tar_patch, which mends the check sum. Include after test.h. */
#ifndef BENZINA_TEST_TARS_H
#define BENZINA_TEST_TARS_H

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"          /* not every test needs all of it */

typedef struct tar {
    uint8_t *bytes;
    size_t   size, capacity;
    size_t   last;                    /* of the header written last */
} tar;

static void tar_free(tar *t)
{
    free(t->bytes);
    memset(t, 0, sizeof *t);
}

/* Bytes as they are; NULL: zeros. */
static void tar_raw(tar *t, const void *bytes, size_t size)
{
    if (t->size + size > t->capacity) {
        t->capacity = 2 * (t->size + size);
        t->bytes = realloc(t->bytes, t->capacity);
        if (!t->bytes)
            abort();
    }
    memset(t->bytes + t->size, 0, size);
    if (bytes && size)
        memcpy(t->bytes + t->size, bytes, size);
    t->size += size;
}

static void tar_seal(tar *t, size_t header)
{
    uint8_t *h = t->bytes + header;
    unsigned sum = 0;
    memset(h + 148, ' ', 8);
    for (int i = 0; i < 512; i++)
        sum += h[i];
    snprintf((char *)h + 148, 8, "%06o", sum);
    h[155] = ' ';
}

/* Puts bytes into the header written last. */
static void tar_patch(tar *t, size_t at, const void *bytes, size_t size)
{
    memcpy(t->bytes + t->last + at, bytes, size);
    tar_seal(t, t->last);
}

/* A header, and bytes padded to 512. */
static void tar_member(tar *t, char type, const char *name, const void *bytes, size_t size)
{
    uint8_t h[512] = { 0 };
    size_t length = strlen(name);
    memcpy(h, name, length < 100 ? length : 100);
    memcpy(h + 100, "0000644\0000000000\0000000000", 24);
    snprintf((char *)h + 124, 12, "%011llo", (unsigned long long)size);
    memcpy(h + 136, "00000000000", 12);
    h[156] = (uint8_t)type;
    memcpy(h + 257, "ustar\00000", 8);
    t->last = t->size;
    tar_raw(t, h, 512);
    tar_seal(t, t->last);
    tar_raw(t, bytes, size);
    tar_raw(t, NULL, (512 - size % 512) % 512);
}

static void tar_file(tar *t, const char *name, const void *bytes, size_t size)
{
    tar_member(t, '0', name, bytes, size);
}

static void tar_text(tar *t, const char *name, const char *text) { tar_file(t, name, text, strlen(text)); }

/* A pax header with one record, or (value NULL) with key as all of its bytes. */
static void tar_pax(tar *t, char type, const char *key, const char *value)
{
    char record[8192];
    int length = value ? (int)(strlen(key) + strlen(value)) + 3 : 0, digits = 1;
    if (value) {
        while (snprintf(record, sizeof record, "%d", length + digits) > digits)
            digits++;
        snprintf(record, sizeof record, "%d %s=%s\n", length + digits, key, value);
    }
    tar_member(t, type, "PaxHeaders/x", value ? record : key, strlen(value ? record : key));
}

/* GNU's long name. */
static void tar_long(tar *t, const char *name) { tar_member(t, 'L', "././@LongLink", name, strlen(name) + 1); }

static void tar_end(tar *t) { tar_raw(t, NULL, 1024); }

#pragma GCC diagnostic pop
#endif
