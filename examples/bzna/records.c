/* records.c - record files: what --records says of them; and IDX, MNIST's format, which says it itself
 *
 * A spec names the contents of a record, in their order, with + between: CIFAR-10's is label+32x32x3. An IDX file has
 * its sizes at its beginning, and its labels in another file: where that lies beside it, the library gets both as one,
 * a label before each picture. */
#include "tool.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- --records ---- */

static const char usage[] = "it must be parts with + between them: header:BYTES first, WxH or WxHxC (:nhwc, :int32, "
                            ":int64, :float32), label (:int32, ...), skip:BYTES; or cifar10, cifar100";

static uint32_t type_of(const char *word, size_t length)
{
    static const struct { const char *word; uint32_t type; } types[] = {
        { "uint8", BZNA_RECORD_UINT8 }, { "int32", BZNA_RECORD_INT32 }, { "int64", BZNA_RECORD_INT64 },
        { "float32", BZNA_RECORD_FLOAT32 },
    };
    for (size_t i = 0; i < LENGTH(types); i++)
        if (length == strlen(types[i].word) && !strncmp(word, types[i].word, length)) return types[i].type;
    return BZNA_RECORD_NONE;
}

static uint32_t type_bytes(uint32_t type)
{
    return type == BZNA_RECORD_UINT8 ? 1 : type == BZNA_RECORD_INT64 ? 8 : 4;
}

/* Reads a number of at most nine digits, and moves *at behind it. Returns 0 where there is none. */
static int number_read(const char **at, uint32_t *number)
{
    const char *begin = *at;
    for (*number = 0; isdigit((unsigned char)**at) && *at - begin < 9; (*at)++)
        *number = *number * 10 + (uint32_t)(**at - '0');
    return *at > begin && !isdigit((unsigned char)**at);
}

/* WxH, WxHxC, and after a colon the type of the numbers, or that channels are interleaved. */
static int picture_read(const char *at, const char *end, bzna_records *r)
{
    r->channels = 1;
    if (r->data_type || !number_read(&at, &r->width) || *at++ != 'x' || !number_read(&at, &r->height)) return -1;
    if (*at == 'x' && (at++, !number_read(&at, &r->channels))) return -1;
    r->data_type = BZNA_RECORD_UINT8;
    if (at == end) return 0;
    if (*at++ != ':') return -1;
    if (end - at == 4 && !strncmp(at, "nhwc", 4)) return r->layout = BZNA_LAYOUT_NHWC, 0;
    r->data_type = type_of(at, (size_t)(end - at));
    return r->data_type ? 0 : -1;
}

/* One part, from at to end. Returns the bytes that it has in a record, or -1. */
static int64_t part_read(const char *at, const char *end, int is_first, bzna_records *r)
{
    size_t word = strcspn(at, ":+");
    const char *value = at + word + 1;
    uint32_t number = 1;
    if (word == 5 && !strncmp(at, "label", 5) && !r->label_type) {
        r->label_type = at + 5 == end ? BZNA_RECORD_UINT8 : type_of(value, (size_t)(end - value));
        return r->label_type ? (int64_t)type_bytes(r->label_type) : -1;
    }
    if (word == 4 && !strncmp(at, "skip", 4))
        return at + 4 == end || (number_read(&value, &number) && value == end) ? (int64_t)number : -1;
    if (word == 6 && is_first && !strncmp(at, "header", 6) && at + 6 != end) {
        if (!number_read(&value, &number) || value != end) return -1;
        r->header_bytes = number;
        return 0;
    }
    if (picture_read(at, end, r)) return -1;
    return (int64_t)r->width * r->height * type_bytes(r->data_type) * r->channels;
}

const char *records_parse(const char *text, bzna_records *r)
{
    uint64_t size = 0;
    if (!strcmp(text, "cifar10")) text = "label+32x32x3";
    if (!strcmp(text, "cifar100")) text = "skip+label+32x32x3";
    bzna_formats_records_init(r, sizeof *r);
    for (const char *at = text, *end; at; at = *end ? end + 1 : NULL) {
        const int had_picture = r->data_type != 0, had_label = r->label_type != 0;
        end = at + strcspn(at, "+");
        int64_t bytes = part_read(at, end, at == text, r);
        if (bytes < 0 || size > INT64_MAX / 4) return usage;
        if (!had_picture && r->data_type) r->data_offset = size;
        if (!had_label && r->label_type) r->label_offset = size;
        size += (uint64_t)bytes;
    }
    r->stride = size;
    return r->data_type ? NULL : usage;
}


/* ---- IDX ---- */

enum { IDX_SIZES_MAX = 4 };

typedef struct idx_head {
    uint32_t dimensions, sizes[IDX_SIZES_MAX];
    uint64_t bytes;                   /* of the header, and of the file */
    uint64_t file_bytes;
} idx_head;

/* 0, 0, the type (8: bytes), the number of sizes, and the sizes, big-endian. Returns 0 where the file is no IDX. */
static int idx_read(int file, idx_head *head)
{
    uint8_t bytes[4 + 4 * IDX_SIZES_MAX] = { 0 };
    struct stat status;
    ssize_t got = fstat(file, &status) ? -1 : pread(file, bytes, sizeof bytes, 0);
    *head = (idx_head){ .dimensions = bytes[3], .bytes = 4 + 4 * (uint64_t)bytes[3] };
    if (got < 4 || memcmp(bytes, "\0\0\x08", 3) || !head->dimensions || head->dimensions > IDX_SIZES_MAX ||
        (uint64_t)got < head->bytes) return 0;
    for (uint32_t i = 0; i < head->dimensions; i++) {
        const uint8_t *p = bytes + 4 + 4 * i;
        head->sizes[i] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
    }
    head->file_bytes = (uint64_t)status.st_size;
    return 1;
}

/* Opens a file that is an IDX. Returns its descriptor, or -1. */
static int idx_open(const char *path, idx_head *head)
{
    struct stat status;
    int is_plain = !stat(path, &status) && S_ISREG(status.st_mode);     /* to open a pipe would disturb who writes it */
    int file = is_plain ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0 || idx_read(file, head)) return file;
    close(file);
    return -1;
}

/* train-labels-idx1-ubyte of train-images-idx3-ubyte; NULL: it is not called so. To be freed. */
static char *labels_path(const char *path)
{
    const char *slash = strrchr(path, '/'), *images = strstr(slash ? slash : path, "images");
    if (!images) return NULL;
    char *labels = tool_format("%.*slabels%s", (int)(images - path), path, images + 6), *idx = strstr(labels, "idx");
    while (idx && idx[3] != '3' && idx[3] != '4') idx = strstr(idx + 1, "idx");
    if (idx) idx[3] = '1';
    return labels;
}

/* Pictures and labels as one: each label in front of its picture. */
typedef struct idx_pair {
    int      pictures, labels;
    uint64_t pictures_at, labels_at, picture_bytes, count;
} idx_pair;

static int64_t pair_size(void *user)
{
    const idx_pair *p = user;
    return (int64_t)(p->count * (p->picture_bytes + 1));
}

static int64_t pair_read_at(void *user, uint64_t offset, void *dst, uint64_t size)
{
    const idx_pair *p = user;
    uint64_t index = offset / (p->picture_bytes + 1), in_record = offset % (p->picture_bytes + 1);
    if (index >= p->count || !size) return 0;
    ssize_t got = in_record ? pread(p->pictures, dst, (size_t)(size < p->picture_bytes - in_record + 1
                                                               ? size : p->picture_bytes - in_record + 1),
                                    (off_t)(p->pictures_at + index * p->picture_bytes + in_record - 1))
                            : pread(p->labels, dst, 1, (off_t)(p->labels_at + index));
    return got < 0 ? -(int64_t)errno : (int64_t)got;
}

static void pair_close(void *user)
{
    idx_pair *p = user;
    close(p->pictures);
    close(p->labels);
    free(p);
}

/* Takes the labels that lie beside the pictures, and over the pictures' descriptor. Returns 0 where there are none. */
static int labels_take(int pictures, const idx_head *head, const char *path, records_idx *idx)
{
    char *beside = labels_path(path);
    idx_head labels = { 0 };
    int file = beside ? idx_open(beside, &labels) : -1;
    int fit = file >= 0 && labels.dimensions == 1 && labels.sizes[0] == head->sizes[0] &&
              labels.file_bytes >= labels.bytes + labels.sizes[0];
    if (beside && !fit && tool_path_exists(beside))
        fprintf(stderr, "bzna: note: %s is not used: it has no labels of %" PRIu32 " pictures\n", beside,
                head->sizes[0]);
    free(beside);
    if (!fit) {
        if (file >= 0) close(file);
        return 0;
    }
    idx_pair *pair = tool_checked(malloc(sizeof *pair));
    *pair = (idx_pair){ pictures, file, head->bytes, labels.bytes,
                        (uint64_t)idx->records.width * idx->records.height * idx->records.channels, head->sizes[0] };
    idx->source = (bzna_source){ .struct_size = sizeof idx->source, .user = pair, .read_at = pair_read_at,
                                 .size = pair_size, .close = pair_close };
    idx->records.header_bytes = 0;
    idx->records.label_type = BZNA_RECORD_UINT8;
    idx->records.data_offset = 1;
    idx->records.stride = pair->picture_bytes + 1;
    return 1;
}

int records_idx_find(const char *path, records_idx *idx)
{
    idx_head head;
    int file = idx_open(path, &head);
    memset(idx, 0, sizeof *idx);
    bzna_formats_records_init(&idx->records, sizeof idx->records);
    if (file < 0) return 0;
    idx->records.data_type = BZNA_RECORD_UINT8;
    idx->records.header_bytes = head.bytes;
    idx->records.height = head.sizes[1];
    idx->records.width = head.sizes[2];
    idx->records.channels = head.dimensions == 4 ? head.sizes[3] : 1;
    idx->records.layout = head.dimensions == 4 ? BZNA_LAYOUT_NHWC : BZNA_LAYOUT_NCHW;
    uint64_t pixels = (uint64_t)head.sizes[1] * head.sizes[2], size = 0;
    int is_whole = head.dimensions > 2 && pixels && pixels < UINT64_C(1) << 31 && idx->records.channels < 4 &&
                   head.sizes[0] && (size = pixels * idx->records.channels) &&
                   (head.file_bytes - head.bytes) / size == head.sizes[0] &&
                   (head.file_bytes - head.bytes) % size == 0;
    if (is_whole && labels_take(file, &head, path, idx)) return 1;
    close(file);
    return is_whole;
}
