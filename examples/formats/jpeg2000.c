/* jpeg2000.c - JPEG 2000 by OpenJPEG: JP2 files and codestreams of part 1, and of part 15 as far as OpenJPEG reads it
 *
 *     bzna_codec codec;
 *     bzna_formats_jpeg2000(&codec);
 *
 * Compile it with $(pkg-config --cflags libopenjp2), and link $(pkg-config --libs libopenjp2), or define
 * BENZINA_FORMATS_NO_JPEG2000. OpenJPEG 2.4 and later will do.
 *
 * Gray, RGB and sYCC, whose chroma may be subsampled, of any number of bits: fewer than 8 are stretched to 0..255, and
 * of more than 16 the upper 16 are taken. Colors with numbers (pclr) have a palette. Channels lie where cdef says.
 * Alpha is dropped. Samples that are signed are moved up by half of their range. Other color spaces are refused.
 *
 * The parts of pictures that are not needed are not decoded. What inspect needs is read here. OpenJPEG allocates notes
 * on each tile, code block and precinct before it decodes, so their number is limited by the bytes of the file. It does
 * not check all of its allocations: version 2.5 may crash when memory ends. */
#include "formats.h"

#include <string.h>

static int32_t j2k_recognize(void *user, const void *head, uint64_t bytes)
{
    (void)user;
    return (bytes >= 12 && !memcmp(head, "\0\0\0\x0cjP  \r\n\x87\n", 12)) ||
           (bytes >= 4 && !memcmp(head, "\xff\x4f\xff\x51", 4));
}

#ifndef BENZINA_FORMATS_NO_JPEG2000

#include <openjpeg.h>

#define J2K_COMPONENTS  8u            /* more cost memory, and are no pictures */
#define J2K_PARTS_BYTES (64u << 20)   /* notes on code blocks and precincts, however few bytes a file has */
#define J2K_PARTS_RATIO 4096u         /* bytes of notes for a byte of the file, above that */

/* What a file says of its picture. */
typedef struct j2k_picture {
    uint32_t   x0, y0;                /* of the reference grid */
    uint32_t   width, height;         /* of component 0 */
    uint32_t   components;
    uint32_t   bits[J2K_COMPONENTS];  /* of a sample */
    uint32_t   dx[J2K_COMPONENTS], dy[J2K_COMPONENTS];      /* steps of its samples in the grid */
    uint32_t   space;                 /* enumcs, or of an ICC profile; 0: not said */
    uint32_t   colors;                /* 1 or 3 */
    uint32_t   from[3];               /* the component of each color */
    uint32_t   is_ycc;
    formats_bytes pclr;                  /* at NULL: there is no palette */
    int        is_file;               /* 1: of boxes */
} j2k_picture;

/* Reads SIZ: sizes, components, tiles. */
static bzna_status j2k_size(formats_bytes *r, j2k_picture *p, uint64_t bytes, bzna_error *err)
{
    uint32_t right, bottom, tile[4], size;
    formats_bytes siz;

    if (formats_u32(r) != 0xff4fff51)
        return bzna_formats_fail(err, BZNA_E_DECODE, "there is no picture, or it is truncated");
    size = formats_u16(r);
    siz = *r;
    formats_take(r, size < 2 ? UINT64_MAX : size - 2);
    formats_take(&siz, 2);
    right = formats_u32(&siz);
    bottom = formats_u32(&siz);
    p->x0 = formats_u32(&siz);
    p->y0 = formats_u32(&siz);
    for (int i = 0; i < 4; i++)
        tile[i] = formats_u32(&siz);
    p->components = formats_u16(&siz);
    if (siz.overrun || r->overrun || right <= p->x0 || bottom <= p->y0 || !tile[0] || !tile[1] || !p->components ||
        right > INT32_MAX || bottom > INT32_MAX || tile[2] > p->x0 || tile[3] > p->y0)
        return bzna_formats_fail(err, BZNA_E_DECODE, "the header is damaged");
    if (p->components > J2K_COMPONENTS)
        return bzna_formats_fail(err, BZNA_E_UNSUPPORTED, "pictures of more than 8 components are not read");
    for (uint32_t i = 0; i < p->components; i++) {
        p->bits[i] = (formats_u8(&siz) & 127) + 1;
        p->dx[i] = formats_u8(&siz);
        p->dy[i] = formats_u8(&siz);
        if (siz.overrun || !p->dx[i] || !p->dy[i] || p->bits[i] > 31)
            return bzna_formats_fail(err, BZNA_E_DECODE, "the header is damaged");
    }
    p->width = (right - 1) / p->dx[0] + 1 - (p->x0 ? (p->x0 - 1) / p->dx[0] + 1 : 0);
    p->height = (bottom - 1) / p->dy[0] + 1 - (p->y0 ? (p->y0 - 1) / p->dy[0] + 1 : 0);
    /* the head of a tile has 14 bytes */
    if (((uint64_t)(right - tile[2] - 1) / tile[0] + 1) * ((uint64_t)(bottom - tile[3] - 1) / tile[1] + 1) > bytes / 14)
        return bzna_formats_fail(err, BZNA_E_TRUNCATED, "there are more tiles than the file has room for");
    return BZNA_OK;
}

static uint32_t j2k_least(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* Reads what COD and COC have in common, after Scod or Scoc, which is `style`. parts: samples of a code block and of a
 * precinct, as powers of two; the least that were found so far. */
static void j2k_style(formats_bytes *r, uint32_t style, uint32_t parts[2])
{
    const uint32_t levels = formats_u8(r), width = (formats_u8(r) & 15) + 2, height = (formats_u8(r) & 15) + 2;

    parts[0] = j2k_least(parts[0], width + height);
    formats_take(r, 2);
    for (uint32_t i = 0; style & 1 && i <= levels && !r->overrun; i++) {
        const uint32_t size = formats_u8(r), x = size & 15, y = size >> 4;

        /* above the lowest resolution, a precinct has three bands of a quarter of its samples */
        parts[1] = j2k_least(parts[1], x + y);
        parts[0] = j2k_least(parts[0], j2k_least(width, i && x ? x - 1 : x) + j2k_least(height, i && y ? y - 1 : y));
    }
}

/* Refuses a picture in so many parts that the notes on them, some 300 bytes for a code block and for a precinct, would
 * take more memory than a picture may. The main header and those of all tiles may say how small they are.
 *     r   after SIZ */
static bzna_status j2k_check_parts(formats_bytes r, const j2k_picture *p, uint64_t bytes, bzna_error *err)
{
    enum { COD = 0xff52, COC = 0xff53, SOT = 0xff90, SOD = 0xff93 };
    const uint64_t samples = (uint64_t)p->width * p->height * p->components;
    uint32_t parts[2] = { 30, 30 }, marker;
    uint64_t end = UINT64_MAX, notes; /* end: how many bytes are left after the tile's part */

    while ((marker = formats_u16(&r)) >= 0xff00 && !r.overrun) {
        const uint64_t before = r.left + 2;
        const uint32_t size = marker == SOD ? 2 : formats_u16(&r);
        formats_bytes segment = { r.at, r.left, 0 };
        uint32_t style;

        if (marker == SOD) {                                /* what is coded goes on to the end of the tile's part */
            if (end > r.left)
                break;
            formats_take(&r, r.left - end);
            continue;
        }
        formats_take(&r, size < 2 ? UINT64_MAX : size - 2);
        if (marker == SOT) {
            formats_take(&segment, 2);
            end = formats_u32(&segment);
            end = end && end <= before ? before - end : UINT64_MAX;
        } else if (marker == COD || marker == COC) {
            formats_take(&segment, marker == COC);
            style = formats_u8(&segment);
            formats_take(&segment, marker == COD ? 4 : 0);
            j2k_style(&segment, style, parts);
        }
    }
    notes = 300 * ((samples >> parts[0]) + (samples >> parts[1])) / 3 * 4;
    if (notes > J2K_PARTS_BYTES && notes / J2K_PARTS_RATIO > bytes)
        return bzna_formats_fail(err, BZNA_E_LIMIT, "its code blocks or precincts are too small for so few bytes");
    return BZNA_OK;
}

/* Reads the boxes that say what components mean. */
static void j2k_boxes(formats_bytes boxes, j2k_picture *p)
{
    formats_bytes box;
    uint32_t type;

    while (formats_box(&boxes, &type, &box) > 0) {
        if (type == formats_type("colr") && !p->space) {
            const uint32_t is_icc = formats_u8(&box) != 1;
            formats_take(&box, is_icc ? 2 + 16 : 2);            /* where an ICC profile has its color space */
            p->space = formats_u32(&box);
            p->space = p->space ? p->space : UINT32_MAX;
        } else if (type == formats_type("pclr")) {
            p->pclr = box;
        } else if (type == formats_type("cdef")) {
            for (uint32_t n = formats_u16(&box); n && !box.overrun; n--) {
                const uint32_t channel = formats_u16(&box), kind = formats_u16(&box), color = formats_u16(&box);
                if (!kind && color >= 1 && color <= 3 && !box.overrun)
                    p->from[color - 1] = channel;
            }
        }
    }
}

/* Reads all that inspect says. */
static bzna_status j2k_read(const uint8_t *data, uint64_t bytes, j2k_picture *p, bzna_error *err)
{
    enum { SRGB = 16, GRAY = 17, SYCC = 18, ROMM_RGB = 21 };
    formats_bytes r = { data, bytes, 0 }, box = { data, 0, 0 };
    bzna_status status;
    uint32_t type = 0;

    *p = (j2k_picture){ .from = { 0, 1, 2 }, .is_file = !data[0] };
    while (p->is_file && type != formats_type("jp2c")) {
        if (formats_box(&r, &type, &box) <= 0)
            return bzna_formats_fail(err, BZNA_E_DECODE, "there is no picture, or it is truncated");
        if (type == formats_type("jp2h"))
            j2k_boxes(box, p);
    }
    r = p->is_file ? box : r;
    if ((status = j2k_size(&r, p, bytes, err)) != BZNA_OK || (status = j2k_check_parts(r, p, bytes, err)) != BZNA_OK)
        return status;

    if (p->space && p->space != SRGB && p->space != GRAY && p->space != SYCC && p->space != ROMM_RGB &&
        p->space != formats_type("RGB ") && p->space != formats_type("GRAY"))
        return bzna_formats_fail(err, BZNA_E_CODEC, p->space == 12 || p->space == formats_type("CMYK") ?
                                 "CMYK is not supported" : "its color space is not supported");
    p->colors = p->components < 3 || p->pclr.at || p->space == GRAY || p->space == formats_type("GRAY") ? 1 : 3;
    for (uint32_t i = 0; i < p->colors; i++)
        if (p->from[i] >= p->components)
            return bzna_formats_fail(err, BZNA_E_DECODE, "a color has no component");
    /* without a word on color, subsampled chroma is what tells */
    p->is_ycc = p->colors == 3 && (p->space == SYCC || p->dx[p->from[1]] != p->dx[p->from[0]] ||
                                   p->dy[p->from[1]] != p->dy[p->from[0]]);
    for (uint32_t i = 0; i < p->colors; i++) {
        const uint32_t k = p->from[i], x = p->dx[k] / p->dx[0], y = p->dy[k] / p->dy[0];
        if (p->dx[k] != x * p->dx[0] || p->dy[k] != y * p->dy[0] || p->dx[k] != p->dx[p->from[i ? 1 : 0]] ||
            p->dy[k] != p->dy[p->from[i ? 1 : 0]] || (x != 1 && x != 2 && x != 4) || (y != 1 && y != 2 && y != 4) ||
            ((!i || !p->is_ycc) && (x != 1 || y != 1)) || p->bits[k] != p->bits[p->from[0]])
            return bzna_formats_fail(err, BZNA_E_CODEC, "components of such sizes or depths are not supported");
    }
    if (p->pclr.at && p->bits[0] > 8)
        return bzna_formats_fail(err, BZNA_E_CODEC, "numbers of colors of more than 8 bits are not supported");
    return BZNA_OK;
}

static bzna_status j2k_inspect(void *state, const void *data, uint64_t bytes, bzna_codec_shape *shape, bzna_error *err)
{
    j2k_picture p;
    const bzna_status status = j2k_read(data, bytes, &p, err);

    (void)state;
    if (status != BZNA_OK)
        return status;
    shape->width = p.width;
    shape->height = p.height;
    shape->pixels = p.pclr.at ? BZNA_PIXELS_INDEX : p.is_ycc ? BZNA_PIXELS_YCBCR :
                    p.colors == 3 ? BZNA_PIXELS_RGB : BZNA_PIXELS_GRAY;
    shape->depth = p.pclr.at || p.bits[0] <= 8 ? 8 : p.bits[p.from[0]] < 16 ? p.bits[p.from[0]] : 16;
    if (p.is_ycc) {
        shape->chroma_shift_x = p.dx[p.from[1]] / p.dx[0] / 2;
        shape->chroma_shift_y = p.dy[p.from[1]] / p.dy[0] / 2;
    }
    return BZNA_OK;
}

/* Gives the palette: a number of colors, of columns, the bits of each column, at most 32; then the values. */
static int j2k_palette(formats_bytes r, uint8_t palette[768])
{
    const uint32_t colors = formats_u16(&r), columns = formats_u8(&r);
    uint8_t bits[255] = { 8 };

    for (uint32_t i = 0; i < columns; i++)
        bits[i] = (uint8_t)((formats_u8(&r) & 127) + 1);
    for (uint32_t i = 0; i < colors * columns; i++) {
        const uint32_t c = i % columns, value = (uint32_t)formats_number(&r, (bits[c] + 7u) / 8);
        uint8_t byte;

        if (r.overrun || i / columns > 255 || bits[c] > 32)
            return 0;
        byte = (uint8_t)(bits[c] > 8 ? value >> (bits[c] - 8) : value * 255 / ((1u << bits[c]) - 1));
        for (uint32_t k = 0; k < 3; k++)
            if (k == c || columns < 3)
                palette[3 * (i / columns) + k] = c && columns < 3 ? palette[3 * (i / columns) + k] : byte;
    }
    return colors && columns;
}

/* ---- OpenJPEG ---- */

/* The file as OpenJPEG reads it, and where its message goes. */
typedef struct j2k_file {
    const uint8_t *data;
    uint64_t       size, at;
    bzna_error    *err;
} j2k_file;

static OPJ_SIZE_T j2k_stream_read(void *to, OPJ_SIZE_T bytes, void *user)
{
    j2k_file *f = user;
    const uint64_t left = f->size - f->at, count = bytes < left ? bytes : left;

    if (!count)
        return (OPJ_SIZE_T)-1;
    memcpy(to, f->data + f->at, (size_t)count);
    f->at += count;
    return (OPJ_SIZE_T)count;
}

static OPJ_OFF_T j2k_stream_skip(OPJ_OFF_T bytes, void *user)
{
    j2k_file *f = user;

    if (bytes < 0 || (uint64_t)bytes > f->size - f->at)
        return -1;
    f->at += (uint64_t)bytes;
    return bytes;
}

static OPJ_BOOL j2k_stream_seek(OPJ_OFF_T at, void *user)
{
    j2k_file *f = user;

    if (at < 0 || (uint64_t)at > f->size)
        return OPJ_FALSE;
    f->at = (uint64_t)at;
    return OPJ_TRUE;
}

/* Keeps the first message, without the end of its line. */
static void j2k_message(const char *text, void *user)
{
    bzna_error *err = ((j2k_file *)user)->err;

    if (!*err->message) {
        snprintf(err->message, sizeof err->message, "OpenJPEG: %s", text);
        err->message[strcspn(err->message, "\n")] = 0;
    }
}

/* Writes what is needed of a component: OpenJPEG's numbers, which begin at its x0 and y0, as samples of 8 or 16 bits.
 * Chroma may have a column or a row less than planes have, which are laid out from 0. */
static int j2k_write(const j2k_picture *p, const opj_image_comp_t *c, const bzna_rectangle *needed,
                     const bzna_codec_planes *planes, uint32_t plane, uint32_t shift_x, uint32_t shift_y)
{
    const uint32_t x0 = needed->x0 >> shift_x, x1 = ((needed->x1 - 1) >> shift_x) + 1;
    const uint32_t y0 = needed->y0 >> shift_y, y1 = ((needed->y1 - 1) >> shift_y) + 1;
    const uint32_t first_x = (p->x0 + c->dx - 1) / c->dx, first_y = (p->y0 + c->dy - 1) / c->dy;
    const int64_t middle = c->sgnd ? (int64_t)1 << (c->prec - 1) : 0;
    const uint32_t top = c->prec < 32 ? (1u << c->prec) - 1 : UINT32_MAX;

    if (!c->data || !c->w || !c->h)
        return 0;
    for (uint32_t y = y0; y < y1; y++) {
        uint8_t *to = formats_row(planes, plane, y) + (uint64_t)x0 * planes->step;
        const uint32_t row = j2k_least(y + first_y < c->y0 ? 0 : y + first_y - c->y0, c->h - 1);

        for (uint32_t x = x0; x < x1; x++, to += planes->step) {
            const uint32_t column = j2k_least(x + first_x < c->x0 ? 0 : x + first_x - c->x0, c->w - 1);
            const int64_t number = c->data[(uint64_t)row * c->w + column] + middle;
            uint32_t value = number < 0 ? 0 : number > (int64_t)top ? top : (uint32_t)number;

            if (c->prec < 8 && !planes->palette)
                value = value * 255 / top;
            value >>= c->prec > 16 ? c->prec - 16 : 0;
            formats_put(to, c->prec > 8, value);
        }
    }
    return 1;
}

/* Decodes what is needed. */
static int j2k_run(opj_codec_t *codec, opj_stream_t *stream, const j2k_picture *p, const bzna_rectangle *needed,
                   const bzna_codec_planes *planes)
{
    opj_image_t *image = NULL;
    int done = opj_read_header(stream, codec, &image) && image->numcomps == p->components;

    if (done && p->dx[0] == 1 && p->dy[0] == 1)
        done = opj_set_decode_area(codec, image, (OPJ_INT32)(p->x0 + needed->x0), (OPJ_INT32)(p->y0 + needed->y0),
                                   (OPJ_INT32)(p->x0 + needed->x1), (OPJ_INT32)(p->y0 + needed->y1));
    done = done && opj_decode(codec, stream, image) && opj_end_decompress(codec, stream);
    for (uint32_t i = 0; i < p->colors && done; i++) {
        const uint32_t k = p->from[i];
        done = image->comps[k].prec == p->bits[k] && image->comps[k].dx == p->dx[k] && image->comps[k].dy == p->dy[k] &&
               j2k_write(p, &image->comps[k], needed, planes, i, p->dx[k] / p->dx[0] / 2, p->dy[k] / p->dy[0] / 2);
    }
    opj_image_destroy(image);
    return done;
}

static bzna_status j2k_decode(void *state, const void *data, uint64_t bytes, const bzna_rectangle *needed,
                              const bzna_codec_planes *planes, bzna_error *err)
{
    j2k_file file = { data, bytes, 0, err };
    j2k_picture p;
    opj_dparameters_t parameters;
    opj_codec_t *codec = NULL;
    opj_stream_t *stream = NULL;
    bzna_status status = j2k_read(data, bytes, &p, err);

    (void)state;
    if (status != BZNA_OK)
        return status;
    if (p.width != planes->width || p.height != planes->height)
        return bzna_formats_fail(err, BZNA_E_MISMATCH, "the picture's size has changed");
    if (planes->palette && !j2k_palette(p.pclr, planes->palette))
        return bzna_formats_fail(err, BZNA_E_DECODE, "its palette is damaged");

    opj_set_default_decoder_parameters(&parameters);
    parameters.flags |= OPJ_DPARAMETERS_IGNORE_PCLR_CMAP_CDEF_FLAG;
    codec = opj_create_decompress(p.is_file ? OPJ_CODEC_JP2 : OPJ_CODEC_J2K);
    stream = opj_stream_create(1u << 16, OPJ_TRUE);
    if (codec && stream) {
        opj_set_error_handler(codec, j2k_message, &file);
        opj_stream_set_user_data(stream, &file, NULL);
        opj_stream_set_user_data_length(stream, bytes);
        opj_stream_set_read_function(stream, j2k_stream_read);
        opj_stream_set_skip_function(stream, j2k_stream_skip);
        opj_stream_set_seek_function(stream, j2k_stream_seek);
        if (!opj_setup_decoder(codec, &parameters) || !j2k_run(codec, stream, &p, needed, planes))
            status = *err->message ? BZNA_E_DECODE : bzna_formats_fail(err, BZNA_E_DECODE, "the data are damaged");
    } else {
        status = bzna_formats_fail(err, BZNA_E_MEMORY, "out of memory");
    }
    if (stream)
        opj_stream_destroy(stream);
    if (codec)
        opj_destroy_codec(codec);
    return status;
}

#endif

void bzna_formats_jpeg2000(bzna_codec *codec)
{
    *codec = (bzna_codec){
        .struct_size = sizeof *codec,
        .name = "JPEG 2000",
        .extensions = "jp2 j2k jpx jpf jpc j2c",
        .recognize = j2k_recognize,
#ifdef BENZINA_FORMATS_NO_JPEG2000
        .user = (void *)"OpenJPEG",
        .unwrap = bzna_formats_lacks,
#else
        .inspect = j2k_inspect,
        .decode = j2k_decode,
#endif
    };
}
