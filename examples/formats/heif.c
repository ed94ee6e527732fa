/* heif.c - HEIF and AVIF: a codec that unwraps pictures, and puts grids of them together
 *
 *     bzna_codec codec;
 *     bzna_formats_heif(&codec);
 *     bzna_context_config config = { .struct_size = sizeof config,
 *                                    .own_codecs = { .ptr = &codec, .count = 1 } };
 *
 * The picture of a file is its primary item (ISO/IEC 23008-12), or without one, the first picture of its first track of
 * pictures. An item that is coded as H.265, H.264, AV1 or JPEG is unwrapped, so that the library decodes it as if it
 * had come alone: by NVDEC, too. A grid is decoded here, by a decoder of the library's for each thread: of its tiles,
 * those that the warp reads. Items are cut and turned by their properties. Overlays are refused, and so are items in
 * other files, properties that select one of several layers, and tracks whose matrix turns or scales their pictures.
 * Thumbnails, alpha and further images are not read; bzna_formats_heif_beside says which of them a file has.
 *
 * The color of a picture is that of the item's colr, else of the stream. Where neither says any, it is BT.601:
 * full-range if the brand miaf is among those of the file's ftyp box, as its standard wants it (ISO/IEC 23000-22), else
 * limited-range. FFmpeg and libheif take both for limited-range, so their colors of such files differ by 8 to 12 of
 * 255.
 *
 * context_config.codecs counts: it must have BZNA_ALLOW_OWN, and the codec of the picture or of the tiles. The
 * decoder of tiles has the defaults of a context: no edge of a tile may be longer than 16384 pixels, and its memory is
 * malloc's.
 *
 * Bytes of files may be wrong in any way. Boxes are walked anew for each question, and their number is limited, so that
 * nothing is allocated for them. Only an item that lies in pieces is copied, into memory of the file's size at most. */
#include "formats.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEIF_ITEMS       4096u        /* boxes in a box: phones write up to about 500 items */
#define HEIF_PROPERTIES  32u          /* of an item; writers need 10 */
#define HEIF_TILES       1024u        /* of a grid: 16384 x 16384 pixels in tiles of 512 x 512 */
/* coded bytes for each pixel of a grid whose tiles share bytes of the file: no picture that is worth coding has more */
#define HEIF_TILE_RATIO  4u
#define HEIF_CHAIN       8            /* identity items, one leading to the other */

typedef unsigned long long heif_llu;

/* ---- Boxes -------------------------------------------------------------------------------- */

/* Writes a type as four characters and a NUL. */
static const char *heif_name(uint32_t type, char name[5])
{
    for (int i = 0; i < 4; i++)
        name[i] = (char)(type >> (24 - 8 * i));
    name[4] = 0;
    return name;
}

/* Returns 1 if a type is in a list of types. */
static int heif_is_one_of(uint32_t type, const char *types)
{
    for (; *types; types += 4)
        if (formats_type(types) == type)
            return 1;
    return 0;
}

/* Finds the first box of a type, and in it the first one of the next type of a list. If there is none, the result has
 * no bytes. */
static formats_bytes heif_child(formats_bytes b, const char *types)
{
    formats_bytes payload;
    uint32_t found;

    for (uint32_t n = 0; n < HEIF_ITEMS && formats_box(&b, &found, &payload) > 0; n++)
        if (found == formats_type(types))
            return types[4] ? heif_child(payload, types + 4) : payload;
    return (formats_bytes){ NULL, 0, 0 };
}

/* ---- A file ------------------------------------------------------------------------------- */

/* What a thread keeps. */
typedef struct heif_state {
    bzna_decoder *decoder;            /* of tiles; opened with the first grid */
    uint8_t      *gathered;           /* an item that lies in pieces, put together */
    uint64_t      capacity;           /* bytes at gathered */
} heif_state;

typedef struct heif {
    heif_state *state;
    formats_bytes  file;                 /* all of it */
    bzna_error *err;
    uint32_t    primary;              /* number of the item that is the picture; 0: there is none */
    uint32_t    is_miaf;              /* pictures that say nothing of their color are full range */
    formats_bytes  moov, iloc, iinf, iref, iprp, idat;         /* boxes; those but moov are in meta */
} heif;

/* Fails with a message that names a box, and where in the file it is. */
static bzna_status heif_fail(const heif *h, const uint8_t *at, bzna_status status, const char *box, const char *format,
                             ...)
{
    const uint64_t offset = (uint64_t)((uintptr_t)at - (uintptr_t)h->file.at);
    char *const message = h->err->message;
    const size_t size = sizeof h->err->message;
    va_list arguments;
    int n = snprintf(message, size, "%s: ", box);

    if (at && offset <= h->file.left) {
        h->err->byte_offset = offset;
        n = snprintf(message, size, "%s at byte %llu: ", box, (heif_llu)offset);
    }
    va_start(arguments, format);
    vsnprintf(message + n, size - (size_t)n, format, arguments);
    va_end(arguments);
    return status;
}

/* Reads the boxes of a file. The first box of each kind counts. */
static bzna_status heif_open(heif *h, heif_state *state, const void *data, uint64_t bytes, bzna_error *err)
{
    formats_bytes c = { data, bytes, 0 }, ftyp = heif_child(c, "ftyp"), meta = heif_child(c, "meta"), box;
    uint32_t type, n = 0;
    int got;

    *h = (heif){ .state = state, .file = c, .err = err, .moov = heif_child(c, "moov") };
    while (ftyp.left >= 4)
        h->is_miaf |= formats_u32(&ftyp) == formats_type("miaf");
    while ((got = formats_box(&c, &type, &box)) > 0 && n < HEIF_ITEMS)
        n++;
    if (got)
        return heif_fail(h, c.at, got < 0 ? BZNA_E_TRUNCATED : BZNA_E_LIMIT, "file", got < 0 ?
                         "a box goes past the end" : "more than %u boxes", n);

    formats_take(&meta, 4);
    box = heif_child(meta, "pitm");
    h->primary = (uint32_t)formats_number(&box, formats_u32(&box) >> 24 ? 4 : 2);
    h->iloc = heif_child(meta, "iloc");
    h->iinf = heif_child(meta, "iinf");
    h->iref = heif_child(meta, "iref");
    h->iprp = heif_child(meta, "iprp");
    h->idat = heif_child(meta, "idat");
    return BZNA_OK;
}

/* ---- Items: types, references, bytes ------------------------------------------------------ */

/* An entry of iinf. */
typedef struct heif_entry {
    uint32_t id;
    uint32_t type;                    /* 0: of a version that has none */
    uint32_t is_hidden, is_encrypted;
} heif_entry;

/* Begins at the first entry. */
static formats_bytes heif_entries(const heif *h)
{
    formats_bytes c = h->iinf;

    formats_number(&c, formats_u32(&c) >> 24 ? 4 : 2);
    return c;
}

/* Takes the next entry. Returns what formats_box does. */
static int heif_next(formats_bytes *c, heif_entry *entry)
{
    formats_bytes box;
    uint32_t kind, head;
    const int got = formats_box(c, &kind, &box);

    if (got <= 0)
        return got;
    head = formats_u32(&box);
    entry->is_hidden = head & 1;
    entry->id = (uint32_t)formats_number(&box, head >> 24 == 2 ? 2 : 4);
    entry->is_encrypted = formats_u16(&box);
    entry->type = head >> 24 < 2 ? 0 : formats_u32(&box);
    return 1;
}

/* Reads an item's type. It is an error if there is no such item. */
static bzna_status heif_find_type(const heif *h, uint32_t id, uint32_t *type)
{
    formats_bytes c = heif_entries(h);
    heif_entry entry;
    int got;

    for (uint32_t n = 0; (got = heif_next(&c, &entry)) > 0; n++) {
        if (n == HEIF_ITEMS)
            return heif_fail(h, c.at, BZNA_E_LIMIT, "meta/iinf", "more than %u items", n);
        if (entry.id != id || !entry.type)
            continue;
        if (entry.is_encrypted)
            return heif_fail(h, c.at, BZNA_E_UNSUPPORTED, "meta/iinf/infe", "item %u is encrypted", id);
        *type = entry.type;
        return BZNA_OK;
    }
    return heif_fail(h, c.at, BZNA_E_BOX, "meta/iinf", got < 0 ? "a box goes past the end of iinf" :
                     "there is no item %u", id);
}

/* Finds the first reference of a kind from an item to another, of which one may be 0 for any. Returns how many items it
 * names, or 0 if there is none. ids: their numbers, of *bytes each. */
static uint64_t heif_reference(const heif *h, const char *kind, uint32_t from, uint32_t to, formats_bytes *ids,
                               uint32_t *bytes)
{
    formats_bytes c = h->iref, rest;
    uint32_t type;

    *bytes = formats_u32(&c) >> 24 ? 4 : 2;
    for (uint32_t n = 0; n < HEIF_ITEMS && formats_box(&c, &type, ids) > 0; n++) {
        const uint32_t source = (uint32_t)formats_number(ids, *bytes), count = formats_u16(ids);
        int is_found = !to;

        if (type != formats_type(kind) || (from && source != from) || ids->left < (uint64_t)count * *bytes)
            continue;
        ids->left = (uint64_t)count * *bytes;
        for (rest = *ids; rest.left && !is_found;)
            is_found = formats_number(&rest, *bytes) == to;
        if (count && is_found)
            return count;
    }
    return 0;
}

/* Where an item's bytes lie, as iloc says. */
typedef struct heif_extents {
    formats_bytes c;                     /* at the first extent */
    uint32_t   count;                 /* of extents, which are read one after the other */
    uint32_t   bytes[4];              /* of an extent's offset and length, of the base, of an extent's index */
    uint64_t   base;                  /* added to offsets */
    formats_bytes in;                    /* what offsets count in: the file, or idat */
} heif_extents;

/* Finds the extents of an item, which must lie in this file or in idat. */
static bzna_status heif_find_extents(const heif *h, uint32_t id, heif_extents *e)
{
    formats_bytes c = h->iloc;
    const uint32_t version = formats_u32(&c) >> 24, sizes = formats_u16(&c), id_bytes = version < 2 ? 2 : 4;
    const uint64_t count = formats_number(&c, id_bytes);
    uint32_t found = 0, where = 0;

    for (int i = 0; i < 4; i++) {
        e->bytes[i] = i < 3 || version ? sizes >> (12 - 4 * i) & 15 : 0;
        if (e->bytes[i] % 4 || e->bytes[i] > 8)
            return heif_fail(h, h->iloc.at, BZNA_E_BOX, "meta/iloc", "numbers of %u bytes, not of 0, 4 or 8",
                             e->bytes[i]);
    }
    if (version > 2 || count > HEIF_ITEMS)
        return heif_fail(h, h->iloc.at, BZNA_E_LIMIT, "meta/iloc", "version %u, %llu items", version,
                         (heif_llu)count);

    for (uint64_t i = 0; i < count && !c.overrun && found != id; i++) {
        found = (uint32_t)formats_number(&c, id_bytes);
        where = version ? formats_u16(&c) & 15 : 0;            /* construction_method */
        where |= formats_u16(&c) << 4;                         /* data_reference_index */
        e->base = formats_number(&c, e->bytes[2]);
        e->count = formats_u16(&c);
        e->c = c;
        formats_take(&c, (uint64_t)e->count * (e->bytes[0] + e->bytes[1] + e->bytes[3]));
    }
    if (c.overrun || found != id)
        return heif_fail(h, h->iloc.at, BZNA_E_BOX, "meta/iloc", c.overrun ? "too short for its items" :
                         "it does not say where item %u is", id);
    if (where > 1)
        return heif_fail(h, e->c.at, BZNA_E_UNSUPPORTED, "meta/iloc", "the bytes of item %u are in %s", id,
                         where & 15 ? "other items (construction method 2)" : "another file");
    e->in = where ? h->idat : h->file;
    return BZNA_OK;
}

/* Finds an item's bytes. If they lie in pieces, they are put together in memory of the state's, until the next call. An
 * extent's length of 0 stands for all bytes that follow. */
static bzna_status heif_item_bytes(const heif *h, uint32_t id, formats_bytes *bytes)
{
    heif_state *const state = h->state;
    heif_extents e = { 0 };
    const bzna_status status = heif_find_extents(h, id, &e);

    *bytes = (formats_bytes){ NULL, 0, 0 };
    if (status != BZNA_OK)
        return status;
    if (e.count > 1 && state->capacity < h->file.left) {
        free(state->gathered);
        state->gathered = malloc((size_t)h->file.left);
        state->capacity = state->gathered ? h->file.left : 0;
        if (!state->gathered)
            return BZNA_E_MEMORY;
    }
    for (uint32_t i = 0; i < e.count && e.in.at; i++) {
        const uint8_t *const at = e.c.at, *first;
        uint64_t offset, size, left;

        formats_take(&e.c, e.bytes[3]);
        offset = e.base + formats_number(&e.c, e.bytes[0]);
        size = formats_number(&e.c, e.bytes[1]);
        left = offset < e.base || offset > e.in.left ? 0 : e.in.left - offset;
        if (!left || size > left)
            return heif_fail(h, at, BZNA_E_BOX, "meta/iloc", "an extent of %llu bytes at %llu goes past the end, "
                             "%llu", (heif_llu)size, (heif_llu)offset, (heif_llu)e.in.left);
        size = size ? size : left;
        first = e.in.at + offset;
        if (first < h->iloc.at + h->iloc.left && h->iloc.at < first + size)
            return heif_fail(h, at, BZNA_E_BOX, "meta/iloc", "an extent at %llu is in iloc itself", (heif_llu)offset);
        if (bytes->left + size > h->file.left)
            return heif_fail(h, at, BZNA_E_BOX, "meta/iloc", "the extents of item %u overlap", id);
        bytes->at = first;
        if (e.count > 1) {
            memcpy(state->gathered + bytes->left, first, (size_t)size);
            bytes->at = state->gathered;
        }
        bytes->left += size;
    }
    return bytes->left ? BZNA_OK : heif_fail(h, h->iloc.at, BZNA_E_BOX, "meta/iloc", "item %u has no bytes", id);
}

/* ---- Items: properties -------------------------------------------------------------------- */

/* How items and tracks are coded. */
static const struct heif_kind {
    char     entries[2][5];           /* types of items, which are those of tracks */
    char     config[5];               /* type of the decoder configuration record */
    uint32_t config_bytes;            /* that it has at least */
    uint32_t length_at;               /* which of them says how many bytes the length of a NAL unit has; 0: none */
    uint32_t codec, allow;            /* the library's */
} heif_kinds[] = {
    { { "hvc1", "hev1" }, "hvcC", 23, 21, BZNA_CODEC_H265, BZNA_ALLOW_H265 },
    { { "avc1", "avc3" }, "avcC", 7, 4, BZNA_CODEC_H264, BZNA_ALLOW_H264 },
    { { "av01", "av01" }, "av1C", 4, 0, BZNA_CODEC_AV1, BZNA_ALLOW_AV1 },
    { { "jpeg", "mjpg" }, "    ", 0, 0, BZNA_CODEC_JPEG, BZNA_ALLOW_JPEG },
};

static const struct heif_kind *heif_kind_of(uint32_t type)
{
    for (size_t i = 0; i < sizeof heif_kinds / sizeof *heif_kinds; i++)
        if (formats_type(heif_kinds[i].entries[0]) == type || formats_type(heif_kinds[i].entries[1]) == type)
            return &heif_kinds[i];
    return NULL;
}

/* The picture that an item is, or is made of, as its properties describe it: a part of the frame, turned. */
typedef struct heif_item {
    uint32_t   id;                    /* of the item that has data: identity items lead to it */
    uint32_t   type;                  /* its type */
    const struct heif_kind *kind;     /* how it is coded; NULL: it is a grid */
    uint32_t   width;                 /* of its frame; 0: not stated */
    uint32_t   height;
    uint32_t   crop[4];               /* x, y, width, height of the part that is seen, as it lies in the frame */
    uint32_t   turn;                  /* bits: HEIF_... */
    uint32_t   associated;            /* the item, among those on the way to it, whose properties were read last */
    bzna_color color;                 /* as colr states it */
    formats_bytes config;                /* the decoder configuration record */
} heif_item;

/* How a frame is seen: mirrored along its axes, and after that with its axes exchanged. */
enum { HEIF_MIRROR_X = 1, HEIF_MIRROR_Y = 2, HEIF_TRANSPOSE = 4 };

/* Turns a picture once more. */
static void heif_turn(heif_item *item, uint32_t then)
{
    const uint32_t mirrors = then & 3;

    item->turn ^= item->turn & HEIF_TRANSPOSE ? mirrors >> 1 | (mirrors & 1) << 1 : mirrors;
    item->turn ^= then & HEIF_TRANSPOSE;
}

static uint32_t heif_exif(uint32_t turn)
{
    static const uint8_t numbers[8] = { 1, 2, 4, 3, 5, 8, 6, 7 };

    return numbers[turn];
}

/* Reads the clean aperture (ISO/IEC 14496-12 12.1.4), whose center is at (edge - 1) / 2 + offset. Transforms follow
 * each other in the order of ipma, and each applies to the picture as the earlier ones left it. So the clean aperture
 * of a turned picture is converted to one of the frame. Returns NULL, or what is wrong with it. */
static const char *heif_clap(heif_item *item, formats_bytes *c)
{
    int32_t n[8];                     /* width, height, x, y, each a fraction */

    for (int i = 0; i < 8; i++)
        n[i] = (int32_t)formats_u32(c);
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t axis = item->turn & HEIF_TRANSPOSE ? 1 - i : i, edge = item->crop[2 + axis];
        const int32_t *size = n + 2 * i, *offset = n + 4 + 2 * i;
        const double extent = floor((double)size[0] / size[1]);
        const double center = (edge - 1.0) / 2 + (double)offset[0] / offset[1];
        const double first = floor(center - (extent - 1) / 2);          /* a half pixel belongs to the pixel before */

        /* a denominator of 0 makes numbers that compare with nothing */
        if (size[0] <= 0 || size[1] <= 0 || !(extent >= 1) || !(first >= 0) || !(first + extent <= edge))
            return "it is not within the picture";
        item->crop[axis] += (uint32_t)(item->turn >> axis & 1 ? edge - first - extent : first);
        item->crop[2 + axis] = (uint32_t)extent;
    }
    return NULL;
}

/* Sets the size of the frame, of which all is seen at first. Returns NULL, or what is wrong with it. */
static const char *heif_set_size(heif_item *item, uint32_t width, uint32_t height)
{
    item->crop[2] = item->width = width;
    item->crop[3] = item->height = height;
    return width && height ? NULL : "a picture without pixels";
}

/* Reads a color. An ICC profile states nothing about Y'CbCr. QuickTime's nclc ends before the range. */
static void heif_colr(heif_item *item, formats_bytes *c)
{
    const uint32_t type = formats_u32(c);

    if (!heif_is_one_of(type, "nclxnclc"))
        return;
    item->color.primaries = (uint16_t)formats_u16(c);
    item->color.transfer = (uint16_t)formats_u16(c);
    item->color.matrix = (uint16_t)formats_u16(c);
    item->color.full_range = type == formats_type("nclx") && formats_u8(c) >> 7;
    item->color.present = 1;
}

/* Reads a property of an item. essential: ipma says that a reader must understand it. Decoders give the best of several
 * layers, so that a file that selects another is refused. */
static bzna_status heif_property(const heif *h, heif_item *item, uint32_t type, formats_bytes c, uint32_t essential)
{
    static const uint8_t quarters[4] = { 0, HEIF_TRANSPOSE | HEIF_MIRROR_X, HEIF_MIRROR_X | HEIF_MIRROR_Y,
                                         HEIF_TRANSPOSE | HEIF_MIRROR_Y };          /* anticlockwise */
    const uint8_t *const at = c.at;
    const char *wrong = NULL;
    char path[20] = "meta/iprp/ipco/";
    int is_layer = 0;

    heif_name(type, path + 15);
    if (item->kind && formats_type(item->kind->config) == type) {
        item->config = item->config.at ? item->config : c;
    } else if (type == formats_type("ispe")) {
        const uint64_t size = (formats_take(&c, 4), formats_number(&c, 8));

        if (!item->width)                                   /* an identity item's size follows from its input's */
            wrong = heif_set_size(item, (uint32_t)(size >> 32), (uint32_t)size);
    } else if (type == formats_type("colr")) {
        heif_colr(item, &c);
    } else if (type == formats_type("clap")) {
        wrong = heif_clap(item, &c);
    } else if (type == formats_type("irot")) {
        heif_turn(item, quarters[formats_u8(&c) & 3]);
    } else if (type == formats_type("imir")) {
        heif_turn(item, formats_u8(&c) & 1 ? HEIF_MIRROR_X : HEIF_MIRROR_Y);
    } else if (type == formats_type("lsel")) {
        is_layer = formats_u16(&c) != 0xffff;
    } else if (type == formats_type("a1op")) {
        is_layer = formats_u8(&c) != 0;
    } else if (essential && !heif_is_one_of(type, "pixipaspa1lxauxC")) {
        return heif_fail(h, at, BZNA_E_UNSUPPORTED, path, "item %u needs this property, which is unknown", item->id);
    }
    if (c.overrun || wrong)
        return heif_fail(h, at, BZNA_E_BOX, path, "%s", c.overrun ? "too short" : wrong);
    return !is_layer ? BZNA_OK : heif_fail(h, at, BZNA_E_UNSUPPORTED, path,
                                           "it selects one of several layers, which is not supported");
}

/* Reads the property with a number, which counts from 1. */
static bzna_status heif_numbered_property(const heif *h, heif_item *item, uint32_t number, uint32_t essential)
{
    formats_bytes ipco = heif_child(h->iprp, "ipco"), property = { NULL, 0, 0 };
    uint32_t type = 0, n = 0;

    while (n < number && number <= HEIF_ITEMS && formats_box(&ipco, &type, &property) > 0)
        n++;
    return n == number ? heif_property(h, item, type, property, essential) :
           heif_fail(h, h->iprp.at, BZNA_E_BOX, "meta/iprp/ipma", "an item has property %u, but ipco has fewer",
                     number);
}

/* Reads the properties that one ipma gives an item; c is its payload. */
static bzna_status heif_associations(const heif *h, formats_bytes c, uint32_t id, heif_item *item)
{
    const uint32_t version = formats_u32(&c), is_wide = version & 1, count = formats_u32(&c);
    const uint32_t top = is_wide ? 0x8000 : 0x80;
    bzna_status status = BZNA_OK;

    for (uint32_t i = 0; i < count && !c.overrun; i++) {
        const uint32_t of = (uint32_t)formats_number(&c, version >> 24 ? 4 : 2), n = formats_u8(&c);

        if (i == HEIF_ITEMS)
            return heif_fail(h, c.at, BZNA_E_LIMIT, "meta/iprp/ipma", "more than %u items", i);
        if (of != id) {
            formats_take(&c, n * (1ull + is_wide));
            continue;
        }
        if (n > HEIF_PROPERTIES)
            return heif_fail(h, c.at, BZNA_E_LIMIT, "meta/iprp/ipma", "item %u has %u properties, more than %u", id, n,
                             HEIF_PROPERTIES);
        /* only once in all ipma boxes: else a file could make this take any time */
        if (item->associated == id)
            return heif_fail(h, c.at, BZNA_E_BOX, "meta/iprp/ipma", "item %u is listed twice", id);

        item->associated = id;
        for (uint32_t k = 0; k < n && !c.overrun; k++) {
            const uint32_t word = (uint32_t)formats_number(&c, 1 + is_wide), number = word & (top - 1);
            if (number && (status = heif_numbered_property(h, item, number, word & top)) != BZNA_OK)
                return status;
        }
    }
    return c.overrun ? heif_fail(h, h->iprp.at, BZNA_E_BOX, "meta/iprp/ipma", "too short for its items") : BZNA_OK;
}

/* Reads the properties of an item, in all ipma boxes. */
static bzna_status heif_properties(const heif *h, uint32_t id, heif_item *item)
{
    formats_bytes c = h->iprp, box;
    bzna_status status = BZNA_OK;
    uint32_t type;

    for (uint32_t n = 0; n < 4 && status == BZNA_OK && formats_box(&c, &type, &box) > 0; n++)
        if (type == formats_type("ipma"))
            status = heif_associations(h, box, id, item);
    return status;
}

/* Finds an item, or the one that identity items lead to, with the properties of all items on the way. is_tile: it may
 * be no grid. */
static bzna_status heif_find(const heif *h, uint32_t id, int is_tile, heif_item *item)
{
    uint32_t chain[HEIF_CHAIN], n = 0, bytes;
    char name[5];
    formats_bytes ids;
    bzna_status status;

    *item = (heif_item){ .id = 0 };
    while ((status = heif_find_type(h, id, &item->type)) == BZNA_OK) {
        chain[n++] = item->id = id;
        if (item->type != formats_type("iden"))
            break;
        if (n == HEIF_CHAIN || heif_reference(h, "dimg", id, 0, &ids, &bytes) != 1)
            return heif_fail(h, h->iref.at, BZNA_E_BOX, "meta/iref", n == HEIF_CHAIN ?
                             "item %u is the last of too many identity items" :
                             "identity item %u does not have one input", id);
        id = (uint32_t)formats_number(&ids, bytes);
    }
    if (status == BZNA_OK && !(item->kind = heif_kind_of(item->type)) &&
        (is_tile || item->type != formats_type("grid")))
        return heif_fail(h, h->iinf.at, BZNA_E_UNSUPPORTED, "meta/iinf", "the picture, item %u, is of type "
                         "'%s', which is not read", id, heif_name(item->type, name));
    while (status == BZNA_OK && n)
        status = heif_properties(h, chain[--n], item);
    if (status == BZNA_OK && !item->width)
        return heif_fail(h, h->iprp.at, BZNA_E_BOX, "meta/iprp/ipma", "item %u has no size (ispe)", item->id);
    return status;
}

/* ---- Coded pictures ----------------------------------------------------------------------- */

/* Describes a coded picture. A file that is MIAF's (ISO/IEC 23000-22 7.3.6.4) says what color one has that states none,
 * and so does its stream not. shape: what the library says about it. */
static bzna_status heif_describe(const heif *h, const heif_item *item, formats_bytes data, bzna_image *image,
                                 bzna_codec_shape *shape)
{
    const struct heif_kind *const kind = item->kind;
    bzna_status status;

    if (item->config.left < kind->config_bytes)
        return heif_fail(h, h->iprp.at, BZNA_E_BOX, "meta/iprp/ipma",
                         "the decoder configuration of item %u (%s) is missing or too short", item->id, kind->config);
    image->codec = kind->codec;
    image->length_size = kind->length_at ? (item->config.at[kind->length_at] & 3u) + 1 : 0;
    if (image->length_size == 3)
        return heif_fail(h, item->config.at, BZNA_E_BOX, "meta/iprp/ipco",
                         "NAL unit lengths of 3 bytes are not allowed");
    image->config = item->config.at;
    image->config_size = item->config.left;
    image->data = data.at;
    image->data_size = data.left;
    image->frame_width = item->width;
    image->frame_height = item->height;
    image->crop_x = item->crop[0];
    image->crop_y = item->crop[1];
    image->width = item->crop[2];
    image->height = item->crop[3];
    image->orientation = heif_exif(item->turn);
    image->color = item->color;

    *shape = (bzna_codec_shape){ .struct_size = sizeof *shape };
    status = bzna_image_inspect(image, shape, h->err);
    if (status == BZNA_OK && !shape->color.present)
        shape->color = image->color = h->is_miaf ? (bzna_color){ 1, 13, 5, 1, 1 } : (bzna_color){ 2, 2, 2, 0, 1 };
    return status;
}

/* Finds the first picture of the first track of pictures, which is the first one in its first chunk. */
static bzna_status heif_sequence(const heif *h, heif_item *item, formats_bytes *data)
{
    static const uint8_t upright[20] = { [1] = 1, [17] = 1 };               /* the first five of a matrix */
    formats_bytes c = h->moov, trak = c, hdlr, tkhd, stbl, stsd, entry, sizes, chunks;
    uint32_t type, handler = 0;
    uint64_t size, offset;
    bzna_status status = BZNA_OK;

    for (uint32_t n = 0; !heif_is_one_of(handler, "pictvide"); n++) {
        if (n == HEIF_ITEMS || formats_box(&c, &type, &trak) <= 0)
            return heif_fail(h, NULL, BZNA_E_UNSUPPORTED, "file",
                             "it has neither a primary item nor a track of pictures");
        hdlr = heif_child(trak, "mdiahdlr");
        formats_take(&hdlr, 8);
        handler = type == formats_type("trak") ? formats_u32(&hdlr) : 0;
    }
    stbl = heif_child(trak, "mdiaminfstbl");
    stsd = heif_child(stbl, "stsd");
    formats_take(&stsd, 8);
    if (formats_box(&stsd, &item->type, &entry) <= 0 || !(item->kind = heif_kind_of(item->type)))
        return heif_fail(h, stsd.at, BZNA_E_CODEC, "moov/trak/mdia/minf/stbl/stsd", "it is not of a known codec");
    formats_take(&entry, 24);
    offset = formats_u16(&entry);
    if (heif_set_size(item, (uint32_t)offset, formats_u16(&entry)))
        return heif_fail(h, entry.at, BZNA_E_BOX, "moov/trak/mdia/minf/stbl/stsd", "pictures without pixels");
    formats_take(&entry, 50);
    for (uint32_t n = 0; n < HEIF_PROPERTIES && status == BZNA_OK && formats_box(&entry, &type, &c) > 0; n++)
        status = heif_property(h, item, type, c, 0);
    if (status != BZNA_OK)
        return status;
    tkhd = heif_child(trak, "tkhd");
    formats_take(&tkhd, formats_u32(&tkhd) >> 24 ? 48 : 36);
    if (!tkhd.overrun && tkhd.left >= sizeof upright && memcmp(tkhd.at, upright, sizeof upright))
        return heif_fail(h, tkhd.at, BZNA_E_UNSUPPORTED, "moov/trak/tkhd", "a matrix turns or scales its pictures, "
                         "which is not supported");

    sizes = heif_child(stbl, "stsz");
    formats_take(&sizes, 4);
    size = formats_u32(&sizes);
    if (formats_u32(&sizes) && !size)
        size = formats_u32(&sizes);
    chunks = heif_child(stbl, "stco");
    formats_take(&chunks, 8);
    offset = formats_u32(&chunks);
    if (chunks.overrun || sizes.overrun || !size || offset > h->file.left || size > h->file.left - offset)
        return heif_fail(h, stbl.at, BZNA_E_BOX, "moov/trak/mdia/minf/stbl", "index entry 0 says %llu bytes at %llu, "
                         "but there are only %llu", (heif_llu)size, (heif_llu)offset,
                         (heif_llu)h->file.left);
    *data = (formats_bytes){ h->file.at + offset, size, 0 };
    return BZNA_OK;
}

/* Finds the item that is the file's picture. */
static bzna_status heif_find_primary(const heif *h, heif_item *item)
{
    formats_bytes ids;
    uint32_t bytes;

    if (heif_reference(h, "thmb", h->primary, 0, &ids, &bytes))
        return heif_fail(h, h->iref.at, BZNA_E_UNSUPPORTED, "meta/iref",
                         "the primary item, %u, is the thumbnail of another, and readers differ in which they show",
                         h->primary);
    return heif_find(h, h->primary, 0, item);
}

static bzna_status heif_unwrap(void *state, const void *data, uint64_t bytes, bzna_image *image, bzna_error *err)
{
    heif h;
    heif_item item = { .id = 0 };
    formats_bytes coded;
    bzna_codec_shape shape;
    bzna_status status = heif_open(&h, state, data, bytes, err);

    if (status != BZNA_OK)
        return status;
    if (!h.primary)
        status = heif_sequence(&h, &item, &coded);
    else if ((status = heif_find_primary(&h, &item)) == BZNA_OK)
        status = heif_item_bytes(&h, item.id, &coded);
    return status == BZNA_OK ? heif_describe(&h, &item, coded, image, &shape) : status;
}

/* ---- Grids -------------------------------------------------------------------------------- */

/* A picture that is made of tiles. */
typedef struct heif_grid {
    heif_item  item;
    uint32_t   columns;               /* tiles in a row */
    uint32_t   rows;                  /* rows of tiles */
    formats_bytes ids;                   /* the numbers of the tiles' items, row by row */
    uint32_t   id_bytes;              /* bytes of each number */
    heif_item  first;                 /* the first tile, to which the others must be like */
    bzna_codec_shape shape;           /* of a tile */
} heif_grid;

/* Finds a tile, which must be neither turned nor cut. */
static bzna_status heif_find_tile(const heif *h, const heif_grid *grid, uint32_t number, heif_item *tile,
                                  bzna_image *image, bzna_codec_shape *shape)
{
    formats_bytes ids = grid->ids, coded;
    bzna_status status;

    formats_take(&ids, (uint64_t)number * grid->id_bytes);
    if ((status = heif_find(h, (uint32_t)formats_number(&ids, grid->id_bytes), 1, tile)) != BZNA_OK ||
        (status = heif_item_bytes(h, tile->id, &coded)) != BZNA_OK)
        return status;
    if (tile->turn || tile->crop[2] != tile->width || tile->crop[3] != tile->height)
        return heif_fail(h, h->iprp.at, BZNA_E_UNSUPPORTED, "meta/iprp/ipma", "tile %u is turned or cut", number);
    if (grid->item.color.present)
        tile->color = grid->item.color;
    bzna_image_init(image, sizeof *image);
    return heif_describe(h, tile, coded, image, shape);
}

/* Reads a grid item (ISO/IEC 23008-12 6.6.2.3.2), and its first tile. */
static bzna_status heif_read_grid(const heif *h, heif_grid *grid)
{
    const heif_item *const item = &grid->item, *const tile = &grid->first;
    const bzna_codec_shape *const shape = &grid->shape;
    formats_bytes c;
    uint64_t tiles, size;
    uint32_t flags, edge[2];
    bzna_image image;
    bzna_status status = heif_item_bytes(h, item->id, &c);

    if (status != BZNA_OK)
        return status;
    size = c.left;
    flags = formats_u16(&c);
    grid->rows = formats_u8(&c) + 1;
    grid->columns = formats_u8(&c) + 1;
    edge[0] = (uint32_t)formats_number(&c, flags & 1 ? 4 : 2);
    edge[1] = (uint32_t)formats_number(&c, flags & 1 ? 4 : 2);
    tiles = heif_reference(h, "dimg", item->id, 0, &grid->ids, &grid->id_bytes);

    if (flags > 1 || c.overrun)
        return heif_fail(h, h->iloc.at, BZNA_E_BOX, "meta/iloc", "grid item %u: version %u in %llu bytes is not "
                         "supported", item->id, flags >> 8, (heif_llu)size);
    if (tiles != (uint64_t)grid->rows * grid->columns || tiles > HEIF_TILES)
        return heif_fail(h, h->iref.at, tiles > HEIF_TILES ? BZNA_E_LIMIT : BZNA_E_BOX, "meta/iref",
                         "grid item %u has %u x %u tiles, of which %llu are named (at most %u)", item->id,
                         grid->columns, grid->rows, (heif_llu)tiles, HEIF_TILES);
    if (edge[0] != item->width || edge[1] != item->height)
        return heif_fail(h, h->iprp.at, BZNA_E_BOX, "meta/iprp/ipco", "grid item %u is %ux%u, its ispe says %ux%u",
                         item->id, edge[0], edge[1], item->width, item->height);
    if ((status = heif_find_tile(h, grid, 0, &grid->first, &image, &grid->shape)) != BZNA_OK)
        return status;
    if ((edge[0] - 1) / tile->width != grid->columns - 1 || (edge[1] - 1) / tile->height != grid->rows - 1)
        return heif_fail(h, h->iprp.at, BZNA_E_BOX, "meta/iprp/ipco", "%u x %u tiles of %ux%u do not make %ux%u",
                         grid->columns, grid->rows, tile->width, tile->height, edge[0], edge[1]);
    if ((grid->columns > 1 && tile->width & ((1u << shape->chroma_shift_x) - 1)) ||
        (grid->rows > 1 && tile->height & ((1u << shape->chroma_shift_y) - 1)))
        return heif_fail(h, h->iprp.at, BZNA_E_UNSUPPORTED, "meta/iprp/ipco",
                         "tiles of %ux%u split samples of chroma", tile->width, tile->height);
    return BZNA_OK;
}

/* Opens a file, and reads its grid. A picture that is no grid has a kind, or no primary item. */
static bzna_status heif_open_grid(heif *h, heif_grid *grid, heif_state *state, const void *data, uint64_t bytes,
                                  bzna_error *err)
{
    bzna_status status = heif_open(h, state, data, bytes, err);

    if (status != BZNA_OK || !h->primary)
        return status;
    status = heif_find_primary(h, &grid->item);
    return status != BZNA_OK || grid->item.kind ? status : heif_read_grid(h, grid);
}

/* A picture that is no grid is unwrapped, which finds out more about it. */
static bzna_status heif_inspect(void *state, const void *data, uint64_t bytes, bzna_codec_shape *shape,
                                bzna_error *err)
{
    heif h;
    heif_grid grid;
    const heif_item *const item = &grid.item;
    const bzna_status status = heif_open_grid(&h, &grid, state, data, bytes, err);

    shape->wrapped = 1;
    if (status != BZNA_OK || !h.primary || item->kind)
        return status;
    *shape = grid.shape;
    shape->width = item->width;
    shape->height = item->height;
    shape->orientation = heif_exif(item->turn);
    shape->crop = (bzna_rectangle){ item->crop[0], item->crop[1], item->crop[0] + item->crop[2],
                                    item->crop[1] + item->crop[3] };
    shape->codecs = grid.first.kind->allow;
    return BZNA_OK;
}

/* Copies a tile to its place, clipped at the right and lower edges of the picture. */
static void heif_put(const bzna_codec_planes *to, const bzna_picture *tile, uint32_t x, uint32_t y)
{
    const uint32_t width = to->width - x < tile->frame_width ? to->width - x : tile->frame_width;
    const uint32_t height = to->height - y < tile->frame_height ? to->height - y : tile->frame_height;

    for (uint32_t i = 0; i < 3 && to->plane[i]; i++) {
        const uint32_t shift_x = i ? tile->chroma_shift_x : 0, shift_y = i ? tile->chroma_shift_y : 0;
        const uint64_t columns = ((uint64_t)width + (1u << shift_x) - 1) >> shift_x;
        const uint64_t rows = ((uint64_t)height + (1u << shift_y) - 1) >> shift_y;
        const uint32_t step = tile->step[i] ? tile->step[i] : to->step;
        const uint64_t run = step == to->step ? columns : 1;            /* samples that are copied at once */
        uint8_t *dst = formats_row(to, i, y >> shift_y) + (x >> shift_x) * to->step;
        const uint8_t *src = tile->plane[i];

        for (uint64_t row = 0; row < rows; row++, dst += to->pitch[i], src += tile->pitch[i])
            for (uint64_t column = 0; column < columns; column += run)
                memcpy(dst + column * to->step, src + column * step, (size_t)(run * to->step));
    }
}

/* Decodes a tile, and copies it to its place. *budget: coded bytes that may still be decoded. */
static bzna_status heif_decode_tile(const heif *h, const heif_grid *grid, uint32_t number,
                                    const bzna_codec_planes *planes, uint64_t *budget)
{
    bzna_picture picture = { .struct_size = sizeof picture };
    bzna_codec_shape shape;
    bzna_image image;
    heif_item tile;
    bzna_error inner;
    bzna_status status = heif_find_tile(h, grid, number, &tile, &image, &shape);

    if (status != BZNA_OK)
        return status;
    if (tile.kind != grid->first.kind || memcmp(&shape, &grid->shape, sizeof shape))
        return heif_fail(h, NULL, BZNA_E_MISMATCH, "tiles", "tile %u is %ux%u, or coded otherwise, the first one is "
                         "%ux%u", number, tile.width, tile.height, grid->first.width, grid->first.height);

    *budget += (uint64_t)tile.width * tile.height * HEIF_TILE_RATIO;
    if (image.data_size > *budget)
        return heif_fail(h, NULL, BZNA_E_LIMIT, "tiles", "they share bytes of the file, and their sum is more than its "
                         "%llu bytes and %u for each pixel", (heif_llu)h->file.left, HEIF_TILE_RATIO);
    *budget -= image.data_size;

    bzna_error_init(&inner, sizeof inner);
    status = bzna_decoder_decode(h->state->decoder, &image, &picture, &inner);
    if (status != BZNA_OK)
        return heif_fail(h, NULL, status, "tiles", "tile %u (item %u): %s", number, tile.id, inner.message);
    heif_put(planes, &picture, number % grid->columns * tile.width, number / grid->columns * tile.height);
    return BZNA_OK;
}

static bzna_status heif_decode(void *state, const void *data, uint64_t bytes, const bzna_rectangle *needed,
                               const bzna_codec_planes *planes, bzna_error *err)
{
    heif h;
    heif_grid grid;
    uint64_t budget = bytes;
    bzna_status status = heif_open_grid(&h, &grid, state, data, bytes, err);

    if (status != BZNA_OK ||
        (!h.state->decoder && (status = bzna_decoder_open(NULL, &h.state->decoder, err)) != BZNA_OK))
        return status;
    if (!h.primary || grid.item.kind || grid.item.width != planes->width || grid.item.height != planes->height)
        return heif_fail(&h, NULL, BZNA_E_MISMATCH, "file", "the picture's size has changed");

    for (uint32_t row = needed->y0 / grid.first.height; row <= (needed->y1 - 1) / grid.first.height; row++)
        for (uint32_t column = needed->x0 / grid.first.width;
             column <= (needed->x1 - 1) / grid.first.width && status == BZNA_OK; column++)
            status = heif_decode_tile(&h, &grid, row * grid.columns + column, planes, &budget);
    return status;
}

/* ---- The codec ---------------------------------------------------------------------------- */

/* A file begins with a list of brands, of which the first is one of stills or sequences. */
static int32_t heif_recognize(void *user, const void *head, uint64_t bytes)
{
    (void)user;
    return bytes >= 12 && !memcmp((const char *)head + 4, "ftyp", 4) &&
           heif_is_one_of(formats_type((const char *)head + 8),
                          "mif1mif2msf1heicheixheimheishevchevxhevmhevsavcijpegavifavismiaf");
}

uint32_t bzna_formats_heif_beside(const void *data, uint64_t bytes)
{
    bzna_error ignored;
    heif h;
    formats_bytes c, ids;
    heif_entry entry;
    uint32_t beside, bytes_of_id;

    if (!heif_recognize(NULL, data, bytes) || heif_open(&h, NULL, data, bytes, &ignored) != BZNA_OK)
        return 0;
    beside = (h.moov.at ? BZNA_HEIF_SEQUENCE : 0) |
             (heif_reference(&h, "thmb", 0, h.primary, &ids, &bytes_of_id) ? BZNA_HEIF_THUMB : 0) |
             (heif_reference(&h, "auxl", 0, h.primary, &ids, &bytes_of_id) ? BZNA_HEIF_AUXILIARY : 0);
    c = heif_entries(&h);
    for (uint32_t n = 0; n < HEIF_ITEMS && heif_next(&c, &entry) > 0; n++)
        if (entry.id != h.primary && !entry.is_hidden &&
            (heif_kind_of(entry.type) || heif_is_one_of(entry.type, "gridideniovl")))
            beside |= BZNA_HEIF_IMAGES;
    return h.primary ? beside : 0;
}

static bzna_status heif_thread_begin(void *user, void **state, bzna_error *err)
{
    (void)user, (void)err;
    *state = calloc(1, sizeof(heif_state));
    return *state ? BZNA_OK : BZNA_E_MEMORY;
}

static void heif_thread_end(void *user, void *state)
{
    heif_state *const s = state;

    (void)user;
    bzna_decoder_close(s->decoder);
    free(s->gathered);
    free(s);
}

BZNA_FORMATS_API void bzna_formats_heif(bzna_codec *codec)
{
    *codec = (bzna_codec){
        .struct_size = sizeof *codec,
        .name = "HEIF",
        .extensions = "heic heif hif avif",
        .fingerprint = 1,                                   /* one more for each change of pixels */
        .recognize = heif_recognize,
        .thread_begin = heif_thread_begin,
        .thread_end = heif_thread_end,
        .inspect = heif_inspect,
        .decode = heif_decode,
        .unwrap = heif_unwrap,
    };
}
