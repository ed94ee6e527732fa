/* mutate.h - changes to files that leave their structure as it is: the sizes of boxes around what was changed, the
 * check sums of tar headers, lengths of RecordIO's records and of a JPEG's segments, CRCs of a PNG's chunks. Include
 * behind fuzz.h. */
#ifndef BENZINA_FUZZ_MUTATE_H
#define BENZINA_FUZZ_MUTATE_H

/* A box type as a constant, for arrays; elsewhere bzi_type("moov") does. */
#ifndef BZI_FOURCC
#  define BZI_FOURCC(a, b, c, d) ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (uint32_t)(d))
#endif

typedef struct mutation {
    uint8_t *data;
    size_t   size, capacity;
    uint32_t random;
} mutation;

static uint32_t mutation_number(mutation *m, uint32_t count)
{
    m->random = m->random * 1664525u + 1013904223u;
    return count ? (m->random >> 8) % count : 0;
}

static void put_be32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (24 - 8 * i));
}

/* Changes data[at .. at + size), which may grow or shrink, or removes or doubles it. Returns the new size of it. */
static size_t mutation_apply(mutation *m, size_t at, size_t size)
{
    uint8_t *part = m->data + at;
    const size_t rest = m->size - at - size, room = m->capacity - m->size;
    const uint32_t kind = mutation_number(m, 16);
    size_t now = size;
    uint8_t *copy = malloc(m->capacity + 1);
    if (!copy)
        return size;
    memcpy(copy, part, size);
    if (kind == 0) {
        now = 0;
    } else if (kind == 1 && size <= room) {
        memcpy(copy + size, part, size);
        now = 2 * size;
    } else {                                                /* offsets behind it stay right if its size does */
        now = LLVMFuzzerMutate(copy, size, kind < 9 ? size : size + room);
        now = bzi_min(now, size + room);                    /* of nothing, libFuzzer makes a byte, even without room */
        if (kind < 9 && now < size) {
            memcpy(copy + now, part + now, size - now);
            now = size;
        }
    }
    memmove(part + now, part + size, rest);
    memcpy(part, copy, now);
    free(copy);
    m->size = m->size - size + now;
    return now;
}

/* ---- Boxes ---- */

enum { MUTATE_DEPTH = 10, MUTATE_BOXES = 128 };
typedef struct mutate_box { size_t at, size; uint32_t parent; } mutate_box;

/* Where the boxes in a box begin, after its payload; SIZE_MAX: it has none. */
static size_t mutate_box_inside(uint32_t type)
{
    static const uint32_t plain[] = {
        BZI_FOURCC('m', 'o', 'o', 'v'), BZI_FOURCC('t', 'r', 'a', 'k'), BZI_FOURCC('m', 'd', 'i', 'a'),
        BZI_FOURCC('m', 'i', 'n', 'f'), BZI_FOURCC('s', 't', 'b', 'l'), BZI_FOURCC('d', 'i', 'n', 'f'),
        BZI_FOURCC('e', 'd', 't', 's'), BZI_FOURCC('m', 'v', 'e', 'x'), BZI_FOURCC('m', 'o', 'o', 'f'),
        BZI_FOURCC('t', 'r', 'a', 'f'), BZI_FOURCC('i', 'p', 'r', 'p'), BZI_FOURCC('i', 'p', 'c', 'o'),
        BZI_FOURCC('j', 'p', '2', 'h'),
    };
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (type == plain[i])
            return 0;
    if (type == BZI_FOURCC('m', 'e', 't', 'a') || type == BZI_FOURCC('i', 'r', 'e', 'f'))
        return 4;
    if (type == BZI_FOURCC('i', 'i', 'n', 'f'))
        return 6;
    if (type == BZI_FOURCC('s', 't', 's', 'd') || type == BZI_FOURCC('d', 'r', 'e', 'f'))
        return 8;
    if (type == BZI_FOURCC('h', 'v', 'c', '1') || type == BZI_FOURCC('a', 'v', 'c', '1') ||
        type == BZI_FOURCC('a', 'v', '0', '1') || type == BZI_FOURCC('h', 'e', 'v', '1'))
        return 78;
    return SIZE_MAX;
}

/* Lists the boxes of [at, end), each behind its parent, as far as there is room. */
static uint32_t mutate_boxes(const mutation *m, mutate_box *boxes, uint32_t count, size_t at, size_t end,
                             uint32_t parent, int depth)
{
    while (count < MUTATE_BOXES && end - at >= 8 && depth < MUTATE_DEPTH) {
        const uint32_t stated = bzi_be32(m->data + at), type = bzi_be32(m->data + at + 4), here = count;
        const size_t size = stated >= 8 && stated <= end - at ? stated : end - at, inside = mutate_box_inside(type);
        boxes[count++] = (mutate_box){ at, size, parent };
        if (inside != SIZE_MAX && inside + 8 <= size)
            count = mutate_boxes(m, boxes, count, at + 8 + inside, at + size, here, depth + 1);
        at += size;
    }
    return count;
}

/* Changes one box or its payload; those around it get their new sizes. */
static void mutate_box_tree(mutation *m)
{
    static mutate_box boxes[MUTATE_BOXES];
    const uint32_t count = mutate_boxes(m, boxes, 0, 0, m->size, UINT32_MAX, 0);
    uint32_t which = mutation_number(m, count);
    const int whole = mutation_number(m, 4) == 0;
    const size_t skip = whole ? 0 : 8, before = m->size;
    if (!count || boxes[which].size < skip)
        return;
    mutation_apply(m, boxes[which].at + skip, boxes[which].size - skip);
    if (whole)
        which = boxes[which].parent;
    for (; which != UINT32_MAX; which = boxes[which].parent)
        if (boxes[which].size + m->size - before >= 8)
            put_be32(m->data + boxes[which].at, (uint32_t)(boxes[which].size + m->size - before));
}

/* ---- Tar, RecordIO, JPEG, PNG ---- */

/* What are headers get their check sums, so that what was changed in them is looked at. */
static void mend_tar(uint8_t *data, size_t size)
{
    for (uint8_t *h = data; (size_t)(data + size - h) >= 512; h += 512) {
        unsigned sum = 8 * ' ';
        if (memcmp(h + 257, "ustar", 5))
            continue;
        for (int i = 0; i < 512; i++)
            sum += i >= 148 && i < 156 ? 0 : h[i];
        snprintf((char *)h + 148, 8, "%06o", sum);
        h[155] = ' ';
    }
}

/* A record's payload is changed; its length follows, and those behind it stay where they can be found. */
static void mutate_recordio(mutation *m)
{
    size_t at = 0, starts[64], count = 0;
    while (at + 8 <= m->size && count < 64) {
        const size_t size = (bzi_le32(m->data + at + 4) & 0x1fffffff) + 3;
        starts[count++] = at;
        if (size / 4 * 4 > m->size - at - 8)
            break;
        at += 8 + size / 4 * 4;
    }
    if (count) {
        const size_t begin = starts[mutation_number(m, (uint32_t)count)];
        const uint32_t word = bzi_le32(m->data + begin + 4);
        const size_t size = word & 0x1fffffff, had = m->size - begin - 8;
        const size_t stored = bzi_min((size + 3) / 4 * 4, had), now = mutation_apply(m, begin + 8, stored);
        const size_t filled = (now + 3) / 4 * 4, more = filled - now;
        const uint32_t length = (uint32_t)filled | (word & 0xe0000000);
        if (m->size + more > m->capacity)
            return;
        memmove(m->data + begin + 8 + filled, m->data + begin + 8 + now, m->size - begin - 8 - now);
        memset(m->data + begin + 8 + now, 0, more);
        m->size += more;
        for (int i = 0; i < 4; i++)
            m->data[begin + 4 + (size_t)i] = (uint8_t)(length >> 8 * i);
    }
}

/* One of a JPEG's segments is changed; its length follows. */
static void mutate_jpeg(mutation *m)
{
    size_t at = 2, starts[64], count = 0;
    while (at + 4 <= m->size && count < 64 && m->data[at] == 0xff) {
        const size_t size = bzi_be16(m->data + at + 2);
        if (size < 2 || size > m->size - at - 2)
            break;
        starts[count++] = at;
        at += 2 + size;
        if (m->data[starts[count - 1] + 1] == 0xda)         /* what was coded, up to the next marker */
            while (at + 2 <= m->size && (m->data[at] != 0xff || !m->data[at + 1]))
                at++;
    }
    if (count) {
        const size_t begin = starts[mutation_number(m, (uint32_t)count)], size = bzi_be16(m->data + begin + 2);
        const size_t now = mutation_apply(m, begin + 4, size - 2) + 2;
        m->data[begin + 2] = (uint8_t)(now >> 8);
        m->data[begin + 3] = (uint8_t)now;
    }
}

static void mend_png(uint8_t *data, size_t size)
{
    for (size_t at = 8; at + 12 <= size && bzi_be32(data + at) <= size - at - 12; at += 12 + bzi_be32(data + at)) {
        const size_t length = bzi_be32(data + at) + 4;
        uint32_t crc = UINT32_MAX;
        for (size_t i = 0; i < length; i++) {
            crc ^= data[at + 4 + i];
            for (int k = 0; k < 8; k++)
                crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
        }
        put_be32(data + at + 4 + length, ~crc);
    }
}

/* ---- A file of any kind ---- */

static size_t mutate_file(uint8_t *data, size_t size, size_t capacity, unsigned seed)
{
    mutation m = { data, size, capacity, seed };
    const int in_structure = mutation_number(&m, 8) != 0;
    if (in_structure && size >= 16 && bzi_be32(data + 4) == BZI_FOURCC('f', 't', 'y', 'p'))
        return mutate_box_tree(&m), m.size;
    if (in_structure && size >= 16 && bzi_be32(data) == 0x0a23d7ce)
        return mutate_recordio(&m), m.size;
    if (in_structure && size >= 16 && bzi_be32(data) >> 8 == 0xffd8ff)
        return mutate_jpeg(&m), m.size;
    size = LLVMFuzzerMutate(data, size, capacity);
    if (in_structure && size >= 512 && !memcmp(data + 257, "ustar", 5))
        mend_tar(data, size);
    if (in_structure && size >= 16 && !memcmp(data, "\x89PNG", 4))
        mend_png(data, size);
    return size;
}

/* The same behind so many bytes of settings, which are changed at times. */
static size_t mutate_behind(size_t head, uint8_t *data, size_t size, size_t capacity, unsigned seed)
{
    if (size <= head || capacity <= head || seed % 4 == 0)
        return LLVMFuzzerMutate(data, bzi_min(size, head), bzi_min(size, head)), size;
    return head + mutate_file(data + head, size - head, capacity - head, seed / 4);
}

#endif
