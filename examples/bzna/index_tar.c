/* index_tar.c - the index of a tar as wds2idx of NVIDIA DALI writes it: a line "v1.2 N", then for each of the N samples
 * a line of the field, offset, size and name of each of its members. Names are as the tar has them, which the library
 * does not tell: it knows fields in lower case. */
#include "tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 512, LONGEST = 1 << 20 };

typedef struct tar_file {
    const char   *path;
    FILE         *file;
    uint64_t      file_size, at;      /* at: of the header */
    unsigned char header[BLOCK];
    uint64_t      size;
    char         *told_name;          /* by a header before; NULL: there was none */
    uint64_t      told_size;          /* UINT64_MAX: likewise */
    tool_buffer   text, previous;     /* the index so far, a line a sample; the key of its last sample */
    size_t        length;
    uint64_t      samples, files;
} tar_file;

static int tar_damaged(const tar_file *t, const char *what)
{
    return tool_error("%s: byte %" PRIu64 ": %s", t->path, t->at, what);
}

/* Octal digits, or base 256. UINT64_MAX: neither, or too large. */
static uint64_t tar_number(const unsigned char *field, int size)
{
    uint64_t value = field[0] & 0x80 ? field[0] & 0x7F : 0;
    int i = field[0] & 0x80 ? 1 : 0;
    if (i)
        for (; i < size; i++) {
            if (value >> 55) return UINT64_MAX;
            value = value << 8 | field[i];
        }
    while (i < size && field[i] == ' ') i++;
    for (; i < size && field[i] >= '0' && field[i] <= '7'; i++) value = value << 3 | (uint64_t)(field[i] - '0');
    return i == size || field[i] == 0 || field[i] == ' ' ? value : UINT64_MAX;
}

static int tar_sum_is_right(const unsigned char *header)
{
    uint64_t sum = 0, high = 0, told = tar_number(header + 148, 8);
    for (int i = 0; i < BLOCK; i++) {
        unsigned char byte = i >= 148 && i < 156 ? ' ' : header[i];
        sum += byte;
        high += byte >> 7;
    }
    return told == sum || told == sum - 256 * high;
}

/* The name in the header: ustar has its folder apart. To be freed. */
static char *tar_own_name(const unsigned char *h)
{
    int has_folder = !memcmp(h + 257, "ustar", 6) && h[345];
    return tool_format("%.*s%s%.100s", has_folder ? 155 : 0, (const char *)h + 345, has_folder ? "/" : "",
                       (const char *)h);
}

/* The member's bytes as text, to be freed. NULL after an error. */
static char *tar_read(const tar_file *t)
{
    if (t->size > LONGEST) return tar_damaged(t, "a name or a pax header of more than 1 MiB"), NULL;
    char *text = tool_checked(calloc(1, (size_t)t->size + 1));
    if (fread(text, 1, (size_t)t->size, t->file) == t->size) return text;
    free(text);
    return tar_damaged(t, "the file ends too early"), NULL;
}

/* The records of a pax header, "27 path=a/b/000.jpg\n". */
static int tar_read_pax(tar_file *t, char *text)
{
    for (char *at = text, *end = text + t->size; at < end;) {
        char *key = at;
        uint64_t length = strtoull(at, &key, 10);
        if (key == at || *key != ' ' || length > (uint64_t)(end - at) || at + length <= key + 1 ||
            at[length - 1] != '\n')
            return tar_damaged(t, "a pax header with a damaged record");
        at += length;
        at[-1] = 0;
        key++;
        if (!strncmp(key, "GNU.sparse.", 11)) return tar_damaged(t, "a sparse file, which is not read");
        if (!strncmp(key, "path=", 5)) {
            free(t->told_name);
            t->told_name = key[5] ? tool_format("%s", key + 5) : NULL;
        }
        if (!strncmp(key, "size=", 5)) t->told_size = key[5] ? strtoull(key + 5, NULL, 10) : UINT64_MAX;
    }
    return EXIT_OK;
}

/* A header that tells of the next one: GNU's long name, or pax. */
static int tar_read_told(tar_file *t, char type)
{
    char *text = tar_read(t);
    int result = text ? EXIT_OK : EXIT_INPUT;
    if (text && type == 'L') {
        free(t->told_name);
        t->told_name = text;
        return EXIT_OK;
    }
    if (text && (type == 'x' || type == 'X')) result = tar_read_pax(t, text);
    free(text);
    return result;
}

static void tar_append(tar_file *t, const char *text)
{
    size_t length = strlen(text);
    if (t->length + length + 1 > t->text.size) tool_buffer_reserve(&t->text, 2 * (t->length + length + 1));
    memcpy(t->text.data + t->length, text, length + 1);
    t->length += length;
}

/* Whether a component of the path is called __so__. */
static int tar_is_apart(const char *name)
{
    for (size_t length; *name; name += length + (name[length] == '/')) {
        length = strcspn(name, "/");
        if (length >= 4 && !strncmp(name, "__", 2) && !strncmp(name + length - 2, "__", 2)) return 1;
    }
    return 0;
}

/* A file goes to the sample before, if that has its key, else it begins one. */
static int tar_add(tar_file *t, const char *name)
{
    t->files++;
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name, *dot = strchr(base, '.');
    if (!dot || dot == base || !dot[1] || tar_is_apart(name)) return EXIT_OK;
    if (strpbrk(name, " \t\r\n\v\f"))
        return tar_damaged(t, "its name has a blank, which an index cannot hold");
    size_t key = (size_t)(dot - name);
    int goes_on = t->samples && !strncmp((const char *)t->previous.data, name, key) && !t->previous.data[key];
    tool_buffer_reserve(&t->previous, key + 1);
    memcpy(t->previous.data, name, key);
    t->previous.data[key] = 0;
    t->samples += !goes_on;
    char *text = tool_format("%s%s %" PRIu64 " %" PRIu64 " %s", goes_on ? " " : t->samples > 1 ? "\n" : "", dot + 1,
                             t->at + BLOCK, t->size, name);
    tar_append(t, text);
    free(text);
    return EXIT_OK;
}

/* The member at t->at, whose header was read: its size, what it tells, or its place in the index. */
static int tar_take(tar_file *t)
{
    char type = (char)t->header[156];
    int tells = type && strchr("LKxXg", type) != NULL, result = EXIT_OK;
    if (!tar_sum_is_right(t->header)) return tar_damaged(t, "no tar header");
    if (type == 'S') return tar_damaged(t, "a sparse file, which is not read");
    t->size = type >= '1' && type <= '6' ? 0 : tar_number(t->header + 124, 12);
    if (!tells && t->size && t->told_size != UINT64_MAX) t->size = t->told_size;
    if (t->size > t->file_size - t->at - BLOCK) return tar_damaged(t, "the member ends beyond the file");
    if (tells) {
        result = tar_read_told(t, type);
    } else {
        char *name = t->told_name ? t->told_name : tar_own_name(t->header);
        size_t length = strlen(name);
        if (!type && length && name[length - 1] == '/') t->size = 0;
        if (!type || type == '0' || type == '7') result = tar_add(t, name);
        free(name);
        t->told_name = NULL;
        t->told_size = UINT64_MAX;
    }
    t->at += BLOCK + (t->size + BLOCK - 1) / BLOCK * BLOCK;
    return result;
}

static int tar_walk(tar_file *t)
{
    static const unsigned char zeros[BLOCK];
    off_t end = fseeko(t->file, 0, SEEK_END) ? -1 : ftello(t->file);
    t->file_size = end < 0 ? 0 : (uint64_t)end;
    while (end >= 0 && !fseeko(t->file, (off_t)t->at, SEEK_SET)) {
        size_t read = fread(t->header, 1, BLOCK, t->file);
        if (ferror(t->file)) break;
        if (t->at > t->file_size) return tar_damaged(t, "the file ends inside the padding before it");
        if (read == 0 || (read == BLOCK && !memcmp(t->header, zeros, BLOCK))) return EXIT_OK;
        if (read < BLOCK) return tar_damaged(t, "the file ends too early");
        if (tar_take(t) != EXIT_OK) return EXIT_INPUT;
    }
    return tool_error("%s: cannot be read: %s", t->path, strerror(errno));
}

int index_write_tar(const char *path, FILE *out, uint64_t *samples)
{
    tar_file t = { .path = path, .file = fopen(path, "rb"), .told_size = UINT64_MAX };
    int result = t.file ? tar_walk(&t) : tool_error("%s: cannot be read: %s", path, strerror(errno));
    int is_empty = result == EXIT_OK && !t.files && t.file_size >= BLOCK;     /* as writers of shards leave them */
    if (result == EXIT_OK && !t.samples && !is_empty) result = tool_error("%s: there are no samples", path);
    if (result == EXIT_OK)
        fprintf(out, "v1.2 %" PRIu64 "\n%s%s", t.samples, is_empty ? "" : (const char *)t.text.data,
                is_empty ? "" : "\n");
    *samples = t.samples;
    if (t.file) fclose(t.file);
    free(t.told_name);
    free(t.text.data);
    free(t.previous.data);
    return result;
}
