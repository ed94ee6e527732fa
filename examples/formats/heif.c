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
 * The tiles of a grid are counted by its size and theirs, so that its own bytes, which repeat that, are not read.
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
 * Bytes of files may be wrong in any way. Boxes are walked anew for each question, so that nothing is allocated for
 * them, and what is walked for each tile has a limit. Only an item that lies in pieces is copied, into memory of the
 * file's size at most. The library checks what is unwrapped: sizes, the decoder configuration, the lengths of NAL
 * units. */
#include "formats.h"

#ifndef BENZINA_FORMATS_NO_HEIF

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEIF_ITEMS       4096u        /* that are looked at: phones write up to about 500 */
#define HEIF_PROPERTIES  32u          /* of an item; writers need 10 */
#define HEIF_TILES       1024u        /* of a grid: 16384 x 16384 pixels in tiles of 512 x 512 */
/* coded bytes for each pixel of a tile, so that a small file whose tiles share their bytes is not as much work as a
 * large one: pixels that are not compressed have at most 6 */
#define HEIF_TILE_RATIO  8u
#define HEIF_CHAIN       8            /* identity items, one leading to the other */

typedef unsigned long long heif_llu;

/* ---- Boxes -------------------------------------------------------------------------------- */

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

    while (formats_box(&b, &found, &payload) > 0)
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

/* How items and tracks are coded. */
typedef struct heif_kind {
    char     types[9];                /* of items, and of a track's samples */
    char     config[5];               /* type of the decoder configuration record */
    uint32_t length_at;               /* which of its bytes says how long the length of a NAL unit is; 0: none */
    uint32_t codec, allow;            /* the library's */
} heif_kind;

/* An item, or a track's first picture. */
typedef struct heif_item {
    uint32_t         id;              /* of the item that has data: identity items lead to it */
    uint32_t         type;
    const uint8_t   *at;              /* where its type in the file ends */
    const heif_kind *kind;            /* how it is coded; NULL: it is a grid, or not read */
    /* how the frame is seen: turned anticlockwise by 0 to 3 quarters; 4 more: mirrored along x before that */
    uint32_t         turn;
    bzna_image       image;           /* as properties describe it. Of a grid, without data */
} heif_item;

typedef struct heif {
    heif_state   *state;
    formats_bytes file;               /* all of it */
    bzna_error   *err;
    uint32_t      primary;            /* number of the item that is the picture; 0: there is none */
    uint32_t      is_miaf;            /* pictures that say nothing of their color are full range */
    uint32_t      id_bytes;           /* of an item's number in iref */
    formats_bytes moov, iloc, iprp, ipco, idat;         /* boxes; those but moov are in meta */
    formats_bytes iinf, iref;         /* the boxes in these */
    heif_item     item;               /* the picture */
    formats_bytes tiles;              /* of a grid: the numbers of the tiles' items, row by row */
    uint64_t      columns;            /* tiles in a row */
    bzna_codec_shape shape;           /* of the first tile, to which the others must be like */
} heif;

/* Fails with a message that says where in the file it is. at: where a type ends, which the message begins with, such as
 * the payload of a box; NULL: nowhere. */
static bzna_status heif_fail(const heif *h, const uint8_t *at, bzna_status status, const char *format, ...)
{
    char *const message = h->err->message;
    const size_t size = sizeof h->err->message;
    va_list arguments;
    int n = 0;

    if (at) {
        h->err->byte_offset = (uint64_t)(at - h->file.at);
        n = snprintf(message, size, "%.4s at byte %llu: ", (const char *)at - 4, (heif_llu)h->err->byte_offset);
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
    uint32_t type;
    int got;

    *h = (heif){ .state = state, .file = c, .err = err, .moov = heif_child(c, "moov") };
    while (ftyp.left >= 4)
        h->is_miaf |= formats_u32(&ftyp) == formats_type("miaf");
    while ((got = formats_box(&c, &type, &box)) > 0)
        continue;
    if (got)
        return heif_fail(h, NULL, BZNA_E_TRUNCATED, "a box goes past the end of the file");

    formats_take(&meta, 4);
    box = heif_child(meta, "pitm");
    h->primary = (uint32_t)formats_number(&box, formats_u32(&box) >> 24 ? 4 : 2);
    h->iloc = heif_child(meta, "iloc");
    h->iprp = heif_child(meta, "iprp");
    h->ipco = heif_child(h->iprp, "ipco");
    h->idat = heif_child(meta, "idat");
    h->iinf = heif_child(meta, "iinf");
    formats_take(&h->iinf, formats_u32(&h->iinf) >> 24 ? 4 : 2);
    h->iref = heif_child(meta, "iref");
    h->id_bytes = formats_u32(&h->iref) >> 24 ? 4 : 2;
    return BZNA_OK;
}

/* ---- Items -------------------------------------------------------------------------------- */

static const heif_kind *heif_kind_of(uint32_t type)
{
    static const heif_kind kinds[] = {
        { "hvc1hev1", "hvcC", 21, BZNA_CODEC_H265, BZNA_ALLOW_H265 },
        { "avc1avc3", "avcC", 4, BZNA_CODEC_H264, BZNA_ALLOW_H264 },
        { "av01", "av1C", 0, BZNA_CODEC_AV1, BZNA_ALLOW_AV1 },
        { "jpegmjpg", "", 0, BZNA_CODEC_JPEG, BZNA_ALLOW_JPEG },
    };

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (heif_is_one_of(type, kinds[i].types))
            return &kinds[i];
    return NULL;
}

/* An entry of iinf. */
typedef struct heif_entry {
    uint32_t       id;
    uint32_t       type;
    uint32_t       is_hidden, is_encrypted;
    const uint8_t *at;                /* where its type ends */
} heif_entry;

/* Takes the next entry. Returns 0 if there is none. */
static int heif_next(formats_bytes *c, heif_entry *entry)
{
    formats_bytes box;
    uint32_t head;

    if (formats_box(c, &entry->type, &box) <= 0)
        return 0;
    head = formats_u32(&box);
    entry->is_hidden = head & 1;
    entry->id = (uint32_t)formats_number(&box, head >> 24 == 2 ? 2 : 4);
    entry->is_encrypted = formats_u16(&box);
    entry->type = formats_u32(&box);
    entry->at = box.at;
    return 1;
}

/* Finds the first reference of a kind from an item, or from any if that is 0. Returns the numbers of the items that it
 * names, of h->id_bytes each; without one, no bytes. */
static formats_bytes heif_reference(const heif *h, const char *kind, uint32_t from)
{
    formats_bytes c = h->iref, ids;
    uint32_t type;

    for (uint32_t n = 0; n < HEIF_ITEMS && formats_box(&c, &type, &ids) > 0; n++) {
        const uint32_t source = (uint32_t)formats_number(&ids, h->id_bytes);
        const uint64_t bytes = (uint64_t)formats_u16(&ids) * h->id_bytes;

        if (type == formats_type(kind) && (!from || source == from) && bytes <= ids.left)
            return (formats_bytes){ ids.at, bytes, 0 };
    }
    return (formats_bytes){ NULL, 0, 0 };
}

/* Finds an item's bytes by iloc. If they lie in pieces, they are put together in memory of the state's, until the next
 * call. An extent's length of 0 stands for all bytes that follow. */
static bzna_status heif_item_bytes(const heif *h, heif_item *item)
{
    heif_state *const state = h->state;
    bzna_image *const image = &item->image;
    formats_bytes c = h->iloc, in;
    const uint32_t version = formats_u32(&c) >> 24, sizes = formats_u16(&c), id_bytes = version < 2 ? 2 : 4;
    const uint32_t offset_bytes = sizes >> 12, size_bytes = sizes >> 8 & 15, base_bytes = sizes >> 4 & 15;
    const uint32_t index_bytes = version ? sizes & 15 : 0;
    const uint64_t count = formats_number(&c, id_bytes);
    uint32_t id = 0, where = 0, extents = 0;
    uint64_t base = 0;

    for (uint32_t n = 0; n < count && n < HEIF_ITEMS && id != item->id; n++) {
        formats_take(&c, (uint64_t)extents * (index_bytes + offset_bytes + size_bytes));
        id = (uint32_t)formats_number(&c, id_bytes);
        where = version ? formats_u16(&c) & 15 : 0;            /* construction_method */
        where |= formats_u16(&c) << 4;                         /* data_reference_index */
        base = formats_number(&c, base_bytes);
        extents = formats_u16(&c);
    }
    if (id != item->id || !extents)
        return heif_fail(h, h->iloc.at, BZNA_E_BOX, "it does not say where item %u is", item->id);
    if (where > 1)
        return heif_fail(h, h->iloc.at, BZNA_E_UNSUPPORTED, "the bytes of item %u are in another file, or in other "
                         "items (construction method 2)", id);

    in = where ? h->idat : h->file;
    if (extents > 1 && state->capacity < h->file.left) {
        free(state->gathered);
        state->gathered = malloc((size_t)h->file.left);
        state->capacity = state->gathered ? h->file.left : 0;
        if (!state->gathered)
            return BZNA_E_MEMORY;
    }
    for (uint32_t i = 0; i < extents; i++) {
        uint64_t offset, size, left;

        formats_take(&c, index_bytes);
        offset = base + formats_number(&c, offset_bytes);
        size = formats_number(&c, size_bytes);
        left = offset < in.left ? in.left - offset : 0;
        size = size ? size : left;
        if (c.overrun || !left || size > left || image->data_size + size > h->file.left)
            return heif_fail(h, h->iloc.at, BZNA_E_BOX, "an extent of item %u, %llu bytes at %llu of %llu, goes past "
                             "the end, or overlaps another", id, (heif_llu)size, (heif_llu)offset, (heif_llu)in.left);
        image->data = in.at + offset;
        if (extents > 1)
            memcpy(state->gathered + image->data_size, image->data, (size_t)size);
        image->data_size += size;
    }
    if (extents > 1)
        image->data = state->gathered;
    return BZNA_OK;
}

/* ---- Properties --------------------------------------------------------------------------- */

/* Reads the clean aperture (ISO/IEC 14496-12 12.1.4), whose center is at (edge - 1) / 2 + offset. Transforms follow
 * each other in the order of ipma, and each applies to the picture as the earlier ones left it. So the clean aperture
 * of a turned picture is converted to one of the frame. Returns 0 if it is not within the picture. */
static int heif_clap(heif_item *item, formats_bytes *c)
{
    bzna_image *const image = &item->image;
    uint32_t *const begins[2] = { &image->crop_x, &image->crop_y }, *const edges[2] = { &image->width, &image->height };
    /* whether the frame's columns and rows are seen from their other end: columns after 1 and 2 quarters (mirrored:
     * after 0 and 3), rows after 2 and 3 */
    const uint32_t is_reversed[2] = { ((item->turn + 1) ^ item->turn >> 1) & 2, item->turn & 2 };
    double numbers[4];                /* width, height, x, y; a denominator of 0 makes one that compares with nothing */

    for (int i = 0; i < 4; i++) {
        const double numerator = (int32_t)formats_u32(c);

        numbers[i] = numerator / (int32_t)formats_u32(c);
    }
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t axis = i ^ (item->turn & 1), edge = *edges[axis];
        const double extent = floor(numbers[i]);
        const double first = floor((edge - extent) / 2 + numbers[2 + i]);   /* half a pixel: the one before */

        if (!(extent >= 1) || !(first >= 0) || !(first + extent <= edge))
            return 0;
        *begins[axis] += (uint32_t)(is_reversed[axis] ? edge - first - extent : first);
        *edges[axis] = (uint32_t)extent;
    }
    return 1;
}

/* Reads a property of an item. essential: ipma says that a reader must understand it. Decoders give the best of several
 * layers, so that a file that selects another is refused. An ICC profile in colr states nothing about Y'CbCr. */
static bzna_status heif_property(const heif *h, heif_item *item, uint32_t type, formats_bytes c, uint32_t essential)
{
    static const uint8_t exif[8] = { 1, 8, 3, 6, 2, 5, 4, 7 };              /* numbers of turns */
    bzna_image *const image = &item->image;
    const uint8_t *const at = c.at;
    int is_inside = 1, is_layer = 0;

    if (item->kind && formats_type(item->kind->config) == type) {
        image->config = c.at;
        image->config_size = c.left;
        formats_take(&c, item->kind->length_at);
        image->length_size = item->kind->length_at ? (formats_u8(&c) & 3) + 1 : 0;
    } else if (type == formats_type("ispe")) {
        formats_take(&c, 4);
        if (!image->frame_width) {                          /* an identity item's size follows from its input's */
            image->width = image->frame_width = formats_u32(&c);
            image->height = image->frame_height = formats_u32(&c);
        }
    } else if (type == formats_type("colr")) {
        if (formats_u32(&c) == formats_type("nclx")) {
            image->color.primaries = (uint16_t)formats_u16(&c);
            image->color.transfer = (uint16_t)formats_u16(&c);
            image->color.matrix = (uint16_t)formats_u16(&c);
            image->color.full_range = formats_u8(&c) >> 7 & 1;
            image->color.present = 1;
        }
    } else if (type == formats_type("clap")) {
        is_inside = heif_clap(item, &c);
    } else if (type == formats_type("irot")) {
        item->turn = (item->turn & 4) | ((item->turn + formats_u8(&c)) & 3);
    } else if (type == formats_type("imir")) {              /* along x; along y it is that, and two quarters more */
        item->turn = (~item->turn & 4) | (((formats_u8(&c) & 1 ? 0 : 2u) - item->turn) & 3);
    } else if (type == formats_type("lsel")) {
        is_layer = formats_u16(&c) != 0xffff;
    } else if (type == formats_type("a1op")) {
        is_layer = formats_u8(&c) != 0;
    } else if (essential && !heif_is_one_of(type, "pixipaspa1lxauxC")) {
        return heif_fail(h, at, BZNA_E_UNSUPPORTED, "item %u needs this property, which is unknown", item->id);
    }
    image->orientation = exif[item->turn];
    if (c.overrun || !is_inside)
        return heif_fail(h, at, BZNA_E_BOX, c.overrun ? "too short" : "it is not within the picture");
    return !is_layer ? BZNA_OK : heif_fail(h, at, BZNA_E_UNSUPPORTED,
                                           "it selects one of several layers, which is not supported");
}

/* Reads the properties that a list in ipma names by numbers, which count from 1 in ipco. ipma: at the list. bytes: of a
 * number, whose top bit says that it is essential. */
static bzna_status heif_listed(const heif *h, formats_bytes ipma, uint32_t count, uint32_t bytes, heif_item *item)
{
    const uint32_t top = 0x80u << 8 * (bytes - 1);
    bzna_status status = BZNA_OK;

    if (count > HEIF_PROPERTIES)
        return heif_fail(h, h->iprp.at, BZNA_E_LIMIT, "item %u has %u properties, more than %u", item->id, count,
                         HEIF_PROPERTIES);
    for (uint32_t i = 0; i < count && status == BZNA_OK; i++) {
        const uint32_t word = (uint32_t)formats_number(&ipma, bytes), number = word & (top - 1);
        formats_bytes ipco = h->ipco, property = { NULL, 0, 0 };
        uint32_t type = 0, n = 0;

        while (n < number && n < HEIF_ITEMS && formats_box(&ipco, &type, &property) > 0)
            n++;
        if (ipma.overrun || n < number)
            return heif_fail(h, h->iprp.at, BZNA_E_BOX, "property %u of item %u is not in ipco", number, item->id);
        if (number)
            status = heif_property(h, item, type, property, word & top);
    }
    return status;
}

/* Reads the properties of an item: those of its first list in the ipma boxes. */
static bzna_status heif_properties(const heif *h, uint32_t id, heif_item *item)
{
    formats_bytes iprp = h->iprp, c;
    uint32_t type;

    for (uint32_t n = 0; n < 4 && formats_box(&iprp, &type, &c) > 0; n++) {
        const uint32_t version = formats_u32(&c), bytes = 1 + (version & 1), count = formats_u32(&c);

        for (uint32_t i = 0; type == formats_type("ipma") && i < count && i < HEIF_ITEMS && !c.overrun; i++) {
            const uint32_t of = (uint32_t)formats_number(&c, version >> 24 ? 4 : 2), listed = formats_u8(&c);

            if (of == id)
                return heif_listed(h, c, listed, bytes, item);
            formats_take(&c, listed * bytes);
        }
    }
    return BZNA_OK;
}

/* Begins an item that has data, or is a grid: no tile may be one. */
static bzna_status heif_begin(const heif *h, heif_item *item, uint32_t id, uint32_t type, const uint8_t *at)
{
    *item = (heif_item){ .id = id, .type = type, .at = at, .kind = heif_kind_of(type),
                         .image = { .struct_size = sizeof item->image, .orientation = 1 } };
    return item->kind || (type == formats_type("grid") && item == &h->item) ? BZNA_OK :
           heif_fail(h, at, BZNA_E_UNSUPPORTED, "the picture, item %u, is of a type that is not read", id);
}

/* Finds an item, or the one that identity items lead to, with the properties of all items on the way. depth: how many
 * identity items led to it. */
static bzna_status heif_find(const heif *h, uint32_t id, uint32_t depth, heif_item *item)
{
    formats_bytes c = h->iinf, ids;
    heif_entry entry;
    uint32_t n = 0;
    bzna_status status;

    do {
        if (n++ == HEIF_ITEMS || !heif_next(&c, &entry))
            return heif_fail(h, NULL, BZNA_E_BOX, "meta/iinf: there is no item %u", id);
    } while (entry.id != id);
    if (entry.is_encrypted)
        return heif_fail(h, entry.at, BZNA_E_UNSUPPORTED, "item %u is encrypted", id);

    if (entry.type == formats_type("iden")) {
        ids = heif_reference(h, "dimg", id);
        if (ids.left != h->id_bytes || depth == HEIF_CHAIN)
            return heif_fail(h, entry.at, BZNA_E_BOX, "identity item %u does not lead to one picture", id);
        status = heif_find(h, (uint32_t)formats_number(&ids, h->id_bytes), depth + 1, item);
    } else {
        status = heif_begin(h, item, id, entry.type, entry.at);
        if (item->kind)
            status = heif_item_bytes(h, item);
    }
    return status == BZNA_OK ? heif_properties(h, id, item) : status;
}

/* Finds the first picture of the first track of pictures, which is the first one in its first chunk. */
static bzna_status heif_sequence(const heif *h, heif_item *item)
{
    static const uint8_t upright[20] = { [1] = 1, [17] = 1 };               /* the first five of a matrix */
    bzna_image *const image = &item->image;
    formats_bytes moov = h->moov, trak, hdlr, tkhd, stbl, stsd, entry = { NULL, 0, 0 }, box;
    uint32_t type = 0;
    uint64_t offset;
    bzna_status status;

    do {
        if (formats_box(&moov, &type, &trak) <= 0)
            return heif_fail(h, NULL, BZNA_E_UNSUPPORTED, "it has neither a primary item nor a track of pictures");
        hdlr = heif_child(trak, "mdiahdlr");
        formats_take(&hdlr, 8);
    } while (!heif_is_one_of(formats_u32(&hdlr), "pictvide"));
    tkhd = heif_child(trak, "tkhd");                                        /* ends with a matrix and two edges */
    if (tkhd.left < 44 || memcmp(tkhd.at + tkhd.left - 44, upright, sizeof upright))
        return heif_fail(h, tkhd.at, BZNA_E_UNSUPPORTED, "a matrix turns or scales its pictures, which is "
                         "not supported");

    stbl = heif_child(trak, "mdiaminfstbl");
    stsd = heif_child(stbl, "stsd");
    formats_take(&stsd, 8);
    formats_box(&stsd, &type, &entry);
    status = heif_begin(h, item, 0, type, entry.at);
    formats_take(&entry, 24);
    image->width = image->frame_width = formats_u16(&entry);
    image->height = image->frame_height = formats_u16(&entry);
    formats_take(&entry, 50);
    while (status == BZNA_OK && formats_box(&entry, &type, &box) > 0)
        status = heif_property(h, item, type, box, 0);

    box = heif_child(stbl, "stsz");
    formats_take(&box, 4);
    image->data_size = formats_u32(&box);                                   /* of each sample; 0: they have their own */
    if (!image->data_size) {
        formats_take(&box, 4);
        image->data_size = formats_u32(&box);
    }
    box = heif_child(stbl, "stco");
    formats_take(&box, 8);
    offset = formats_u32(&box);
    if (offset + image->data_size > h->file.left)
        return heif_fail(h, stbl.at, BZNA_E_BOX, "index entry 0 says %llu bytes at %llu, but there are only %llu",
                         (heif_llu)image->data_size, (heif_llu)offset, (heif_llu)h->file.left);
    image->data = h->file.at + offset;
    return status;
}

/* ---- Pictures ----------------------------------------------------------------------------- */

/* Completes a coded picture. A file that is MIAF's (ISO/IEC 23000-22 7.3.6.4) says what color one has that states none,
 * and so does its stream not. shape: what the library says about it. */
static bzna_status heif_describe(const heif *h, heif_item *item, bzna_codec_shape *shape)
{
    bzna_image *const image = &item->image;
    bzna_status status;

    image->codec = item->kind->codec;
    *shape = (bzna_codec_shape){ .struct_size = sizeof *shape };
    status = bzna_image_inspect(image, shape, h->err);
    if (status == BZNA_OK && !shape->color.present)
        shape->color = image->color = h->is_miaf ? (bzna_color){ 1, 13, 5, 1, 1 } : (bzna_color){ 2, 2, 2, 0, 1 };
    shape->codecs = item->kind->allow;
    return status;
}

/* Finds a tile of a grid. */
static bzna_status heif_find_tile(const heif *h, uint64_t number, heif_item *tile, bzna_codec_shape *shape)
{
    formats_bytes ids = h->tiles;
    bzna_status status;

    formats_take(&ids, number * h->id_bytes);
    status = heif_find(h, (uint32_t)formats_number(&ids, h->id_bytes), 0, tile);
    if (status != BZNA_OK)
        return status;
    if (h->item.image.color.present)
        tile->image.color = h->item.image.color;
    status = heif_describe(h, tile, shape);
    if (status == BZNA_OK && tile->image.data_size > (uint64_t)shape->width * shape->height * HEIF_TILE_RATIO)
        return heif_fail(h, tile->at, BZNA_E_LIMIT, "tile %llu, item %u, has more than %u bytes for each pixel",
                         (heif_llu)number, tile->id, HEIF_TILE_RATIO);
    return status;
}

/* Finds the tiles of a grid (ISO/IEC 23008-12 6.6.2.3), which must be neither turned nor cut. */
static bzna_status heif_read_grid(heif *h)
{
    const bzna_image *const image = &h->item.image;
    const bzna_codec_shape *const shape = &h->shape;
    uint64_t count, rows;
    heif_item tile;
    bzna_status status;

    h->tiles = heif_reference(h, "dimg", h->item.id);
    status = heif_find_tile(h, 0, &tile, &h->shape);
    if (status != BZNA_OK)
        return status;
    count = h->tiles.left / h->id_bytes;
    h->columns = ((uint64_t)image->frame_width + shape->width - 1) / shape->width;
    rows = ((uint64_t)image->frame_height + shape->height - 1) / shape->height;
    if (count != h->columns * rows || count > HEIF_TILES)
        return heif_fail(h, h->item.at, count > HEIF_TILES ? BZNA_E_LIMIT : BZNA_E_BOX, "%ux%u pixels are %llu x %llu "
                         "tiles of %ux%u, of which %llu are named (at most %u)", image->frame_width,
                         image->frame_height, (heif_llu)h->columns, (heif_llu)rows, shape->width, shape->height,
                         (heif_llu)count, HEIF_TILES);
    if (tile.turn || tile.image.width != shape->width || tile.image.height != shape->height ||
        shape->width % (1u << shape->chroma_shift_x) || shape->height % (1u << shape->chroma_shift_y))
        return heif_fail(h, h->item.at, BZNA_E_UNSUPPORTED, "its tiles are turned or cut, or split samples of chroma");
    return BZNA_OK;
}

/* Opens a file, and finds its picture. */
static bzna_status heif_read(heif *h, heif_state *state, const void *data, uint64_t bytes, bzna_error *err)
{
    bzna_status status = heif_open(h, state, data, bytes, err);

    if (status == BZNA_OK)
        status = h->primary ? heif_find(h, h->primary, 0, &h->item) : heif_sequence(h, &h->item);
    return status == BZNA_OK && h->item.type == formats_type("grid") ? heif_read_grid(h) : status;
}

/* A picture that is no grid is unwrapped, which finds out more about it. */
static bzna_status heif_inspect(void *state, const void *data, uint64_t bytes, bzna_codec_shape *shape,
                                bzna_error *err)
{
    heif h;
    const bzna_image *const image = &h.item.image;
    const bzna_status status = heif_read(&h, state, data, bytes, err);

    *shape = h.shape;
    shape->wrapped = !h.columns;
    shape->width = image->frame_width;
    shape->height = image->frame_height;
    shape->orientation = image->orientation;
    shape->crop = (bzna_rectangle){ image->crop_x, image->crop_y, image->crop_x + image->width,
                                    image->crop_y + image->height };
    return status;
}

static bzna_status heif_unwrap(void *state, const void *data, uint64_t bytes, bzna_image *image, bzna_error *err)
{
    heif h;
    bzna_status status = heif_read(&h, state, data, bytes, err);

    if (status == BZNA_OK && h.item.kind)
        status = heif_describe(&h, &h.item, &h.shape);
    *image = h.item.image;
    return status;
}

/* How many samples of a plane show the pixels of a tile, of which so many are left in the picture. */
static uint64_t heif_samples(uint32_t tile, uint32_t left, uint32_t shift)
{
    return ((tile < left ? tile : left) + (UINT64_C(1) << shift) - 1) >> shift;
}

/* Copies a tile to its place, clipped at the right and lower edges of the picture. */
static void heif_put(const bzna_codec_planes *to, const bzna_picture *tile, uint32_t x, uint32_t y)
{
    for (uint32_t i = 0; i < 3 && to->plane[i]; i++) {
        const uint32_t shift_x = i ? tile->chroma_shift_x : 0, shift_y = i ? tile->chroma_shift_y : 0;
        const uint64_t columns = heif_samples(tile->frame_width, to->width - x, shift_x);
        const uint64_t rows = heif_samples(tile->frame_height, to->height - y, shift_y);
        const uint32_t step = tile->step[i] ? tile->step[i] : to->step;
        const uint64_t run = step == to->step ? columns : 1;            /* samples that are copied at once */
        uint8_t *dst = formats_row(to, i, y >> shift_y) + (x >> shift_x) * to->step;
        const uint8_t *src = tile->plane[i];

        for (uint64_t row = 0; row < rows; row++, dst += to->pitch[i], src += tile->pitch[i])
            for (uint64_t column = 0; column < columns; column += run)
                memcpy(dst + column * to->step, src + column * step, (size_t)(run * to->step));
    }
}

/* Decodes a tile, and copies it to its place. */
static bzna_status heif_decode_tile(const heif *h, uint32_t row, uint32_t column, const bzna_codec_planes *planes)
{
    const uint64_t number = row * h->columns + column;
    bzna_picture picture = { .struct_size = sizeof picture };
    bzna_codec_shape shape;
    heif_item tile;
    bzna_error inner;
    bzna_status status = heif_find_tile(h, number, &tile, &shape);

    if (status != BZNA_OK)
        return status;
    if (memcmp(&shape, &h->shape, sizeof shape))
        return heif_fail(h, tile.at, BZNA_E_MISMATCH, "tile %llu is %ux%u, or coded otherwise, the first one is %ux%u",
                         (heif_llu)number, shape.width, shape.height, h->shape.width, h->shape.height);
    bzna_error_init(&inner, sizeof inner);
    status = bzna_decoder_decode(h->state->decoder, &tile.image, &picture, &inner);
    if (status != BZNA_OK)
        return heif_fail(h, NULL, status, "tile %llu (item %u): %s", (heif_llu)number, tile.id, inner.message);
    heif_put(planes, &picture, column * shape.width, row * shape.height);
    return BZNA_OK;
}

static bzna_status heif_decode(void *state, const void *data, uint64_t bytes, const bzna_rectangle *needed,
                               const bzna_codec_planes *planes, bzna_error *err)
{
    heif h;
    const bzna_codec_shape *const tile = &h.shape;
    bzna_status status = heif_read(&h, state, data, bytes, err);

    if (status == BZNA_OK && !h.state->decoder)
        status = bzna_decoder_open(NULL, &h.state->decoder, err);
    if (status != BZNA_OK)
        return status;
    if (!h.columns || h.item.image.frame_width != planes->width || h.item.image.frame_height != planes->height)
        return heif_fail(&h, NULL, BZNA_E_MISMATCH, "the picture's size has changed");

    for (uint32_t y = needed->y0 / tile->height; y <= (needed->y1 - 1) / tile->height; y++)
        for (uint32_t x = needed->x0 / tile->width; status == BZNA_OK && x <= (needed->x1 - 1) / tile->width; x++)
            status = heif_decode_tile(&h, y, x, planes);
    return status;
}

/* ---- The codec ---------------------------------------------------------------------------- */

uint32_t bzna_formats_heif_beside(const void *data, uint64_t bytes)
{
    bzna_error ignored;
    heif h;
    heif_entry entry;
    uint32_t beside;

    if (!formats_is_heif(NULL, data, bytes) || heif_open(&h, NULL, data, bytes, &ignored) != BZNA_OK || !h.primary)
        return 0;
    beside = (h.moov.at ? BZNA_HEIF_SEQUENCE : 0) | (heif_reference(&h, "thmb", 0).at ? BZNA_HEIF_THUMB : 0) |
             (heif_reference(&h, "auxl", 0).at ? BZNA_HEIF_AUXILIARY : 0);
    while (heif_next(&h.iinf, &entry))
        if (entry.id != h.primary && !entry.is_hidden &&
            (heif_kind_of(entry.type) || heif_is_one_of(entry.type, "gridideniovl")))
            beside |= BZNA_HEIF_IMAGES;
    return beside;
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

#endif

void bzna_formats_heif(bzna_codec *codec)
{
    formats_lacks_heif(codec);
#ifndef BENZINA_FORMATS_NO_HEIF
    formats_decodes(codec, heif_inspect, heif_decode);
    codec->fingerprint = 1;                                 /* one more for each change of pixels */
    codec->thread_begin = heif_thread_begin;
    codec->thread_end = heif_thread_end;
    codec->unwrap = heif_unwrap;
#endif
}
