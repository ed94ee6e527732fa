/* recordio.h - a writer of RecordIO files for tests, as MXNet writes them: records end to end, in parts where their
 * bytes hold the magic number. Include after benzina.c and test.h. */
#ifndef BENZINA_TEST_RECORDIO_H
#define BENZINA_TEST_RECORDIO_H

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"          /* not every test needs all of it */

static const uint8_t rec_magic[4] = { 0x0a, 0x23, 0xd7, 0xce };

enum { REC_ROOM = 1 << 20, REC_COUNT = 256 };

/* A file, and where its records begin. */
typedef struct rec_file {
    uint8_t  bytes[REC_ROOM];
    size_t   size;
    uint64_t offsets[REC_COUNT];
    int      count;
} rec_file;

static rec_file *rec_new(void)
{
    rec_file *f = calloc(1, sizeof *f);
    if (!f)
        abort();
    return f;
}

static void rec_put(rec_file *f, const void *bytes, size_t size)
{
    if (size > REC_ROOM - f->size)
        abort();
    memcpy(f->bytes + f->size, bytes, size);
    f->size += size;
}

static void rec_put_number(rec_file *f, uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++)
        rec_put(f, &(uint8_t){ (uint8_t)(value >> 8 * i) }, 1);
}

/* One part: cflag 0 whole, 1 first, 2 middle, 3 last. */
static void rec_put_part(rec_file *f, uint32_t cflag, const void *bytes, size_t size)
{
    rec_put(f, rec_magic, 4);
    rec_put_number(f, cflag << 29 | size, 4);
    rec_put(f, bytes, size);
    rec_put(f, "\0\0\0", (4 - size % 4) % 4);
}

/* A record, cut where its bytes hold the magic number at a multiple of 4. */
static void rec_add(rec_file *f, const void *bytes, size_t size)
{
    const uint8_t *p = bytes;
    size_t begin = 0;
    f->offsets[f->count++] = f->size;
    for (size_t at = 0; at + 4 <= size; at += 4)
        if (!memcmp(p + at, rec_magic, 4)) {
            rec_put_part(f, begin ? 2 : 1, p + begin, at - begin);
            begin = at + 4;
        }
    rec_put_part(f, begin ? 3 : 0, p + begin, size - begin);
}

/* A record of a picture: one label, or count of them. */
static void rec_add_picture(rec_file *f, uint64_t id, const float *labels, uint32_t count, const void *picture,
                            size_t size)
{
    static rec_file payload;
    uint32_t bits;
    payload.size = 0;
    memcpy(&bits, labels, 4);
    rec_put_number(&payload, count == 1 ? 0 : count, 4);
    rec_put_number(&payload, count == 1 ? bits : 0, 4);
    rec_put_number(&payload, id, 8);
    rec_put_number(&payload, 0, 8);
    for (uint32_t i = 0; count != 1 && i < count; i++) {
        memcpy(&bits, labels + i, 4);
        rec_put_number(&payload, bits, 4);
    }
    rec_put(&payload, picture, size);
    rec_add(f, payload.bytes, payload.size);
}

/* NAME.rec, and NAME.idx beside it where it is wanted; its keys count from 0. */
static void rec_save(const rec_file *f, const char *path, int with_idx)
{
    char name[512];
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(f->bytes, 1, f->size, file) != f->size || fclose(file))
        abort();
    snprintf(name, sizeof name, "%.*sidx", (int)strlen(path) - 3, path);
    remove(name);
    if (!with_idx)
        return;
    if (!(file = fopen(name, "wb")))
        abort();
    for (int i = 0; i < f->count; i++)
        fprintf(file, "%d\t%llu\n", i, (unsigned long long)f->offsets[i]);
    fclose(file);
}

#pragma GCC diagnostic pop
#endif
