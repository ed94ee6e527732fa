/* jpeg2000.c - JPEG 2000 by OpenJPEG: JP2 files and codestreams of part 1, and of part 15 as far as OpenJPEG reads it
 *
 *     bzna_codec codec;
 *     bzna_formats_jpeg2000(&codec);
 *
 * Compile it with $(pkg-config --cflags libopenjp2), and link $(pkg-config --libs libopenjp2), or define
 * BENZINA_FORMATS_NO_JPEG2000. OpenJPEG 2.4 and later will do.
 *
 * Gray, RGB and sYCC, whose chroma may be subsampled, of any number of bits: fewer than 8 are stretched to 0..255, and
 * of more than 16 the upper 16 are taken. OpenJPEG makes colors of numbers (pclr), and puts channels where cdef says.
 * Alpha is dropped. Samples that are signed are moved up by half of their range. Other color spaces are refused.
 *
 * The parts of pictures that are not needed are not decoded. What inspect needs is read here. OpenJPEG allocates notes
 * on each tile, code block and precinct before it decodes, so their number is limited by the bytes of the file. It does
 * not check all of its allocations: version 2.5 may crash when memory ends. */
#include "formats.h"

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

/* What a file says of its picture. Where there are two of a thing, they are of columns and of rows. */
typedef struct j2k_picture {
    uint32_t   origin[2];             /* in the reference grid */
    uint32_t   size[2];               /* of component 0 */
    uint32_t   components;            /* that are coded */
    uint32_t   bits[J2K_COMPONENTS];  /* of a sample; with a palette, of its columns */
    uint32_t   step[J2K_COMPONENTS][2];       /* from one of its samples to the next in the grid */
    uint32_t   space;                 /* enumcs, or of an ICC profile; 0: not said */
    uint32_t   colors;                /* 1 or 3 */
    uint32_t   shift[3][2];           /* of each color: log2 of the subsampling */
    uint32_t   is_ycc;
    formats_bytes pclr;               /* at NULL: there is no palette */
    int        is_file;               /* 1: of boxes */
} j2k_picture;

/* Takes the segment after a marker. */
static formats_bytes j2k_segment(formats_bytes *r)
{
    const uint32_t size = formats_u16(r);
    const formats_bytes segment = { r->at, r->left, 0 };

    formats_take(r, size < 2 ? UINT64_MAX : size - 2);
    return segment;
}

/* Returns how many steps it takes to come to a place in the grid, or past it. */
static uint32_t j2k_steps(uint32_t place, uint32_t step) { return place / step + (place % step != 0); }

/* Reads SIZ: sizes, components, tiles. */
static bzna_status j2k_size(formats_bytes *r, j2k_picture *p, uint64_t bytes, bzna_error *err)
{
    const int begins = formats_u32(r) == 0xff4fff51;
    formats_bytes siz = j2k_segment(r);
    uint32_t n[8];                    /* ends of the picture, its origin, sizes of tiles, the origin of the first one */
    uint64_t tiles = 1;
    int is_damaged = 0;

    if (!begins)
        return bzna_formats_fail(err, BZNA_E_DECODE, "there is no picture, or it is truncated");
    formats_take(&siz, 2);
    for (int i = 0; i < 8; i++)
        n[i] = formats_u32(&siz);
    p->components = formats_u16(&siz);
    if (p->components > J2K_COMPONENTS)
        return bzna_formats_fail(err, BZNA_E_UNSUPPORTED, "pictures of more than 8 components are not read");
    for (uint32_t i = 0; i < p->components; i++) {
        p->bits[i] = (formats_u8(&siz) & 127) + 1;
        p->step[i][0] = formats_u8(&siz);
        p->step[i][1] = formats_u8(&siz);
        is_damaged |= !p->step[i][0] || !p->step[i][1] || p->bits[i] > 31;
    }
    for (int i = 0; i < 2; i++)
        is_damaged |= n[i] <= n[2 + i] || n[i] > INT32_MAX || !n[4 + i] || n[6 + i] > n[2 + i];
    if (is_damaged || siz.overrun || r->overrun || !p->components)
        return bzna_formats_fail(err, BZNA_E_DECODE, "the header is damaged");
    for (int i = 0; i < 2; i++) {
        p->origin[i] = n[2 + i];
        p->size[i] = j2k_steps(n[i], p->step[0][i]) - j2k_steps(n[2 + i], p->step[0][i]);
        tiles *= j2k_steps(n[i] - n[6 + i], n[4 + i]);
    }
    if (tiles > bytes / 14)                                 /* the head of a tile has 14 bytes */
        return bzna_formats_fail(err, BZNA_E_TRUNCATED, "there are more tiles than the file has room for");
    return BZNA_OK;
}

static uint32_t j2k_least(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* Reads what COD and COC have in common, after Scod or Scoc, which is `style`. Returns the samples of the smallest code
 * block, as a power of two; or `least`, the smallest that was found so far. */
static uint32_t j2k_style(formats_bytes *r, uint32_t style, uint32_t least)
{
    const uint32_t levels = formats_u8(r), width = (formats_u8(r) & 15) + 2, height = (formats_u8(r) & 15) + 2;

    least = j2k_least(least, width + height);
    formats_take(r, 2);
    for (uint32_t i = 0; style & 1 && i <= levels && !r->overrun; i++) {
        const uint32_t size = formats_u8(r), x = size & 15, y = size >> 4;

        /* a code block is no larger than its part of a precinct: above the lowest resolution, one of three quarters */
        least = j2k_least(least, j2k_least(width, x - (i && x)) + j2k_least(height, y - (i && y)));
    }
    return least;
}

/* Refuses a picture in so many parts that the notes on them, some 300 bytes for a code block and for a precinct, would
 * take more memory than a picture may. The main header and those of all tiles may say how small they are.
 *     r   after SIZ */
static bzna_status j2k_check_parts(formats_bytes r, const j2k_picture *p, uint64_t bytes, bzna_error *err)
{
    enum { COD = 0xff52, COC = 0xff53, SOT = 0xff90, SOD = 0xff93 };
    const uint64_t samples = (uint64_t)p->size[0] * p->size[1] * p->components;
    uint32_t least = 30, marker;
    uint64_t end = UINT64_MAX, notes; /* end: how many bytes are left after the tile's part */

    while ((marker = formats_u16(&r)) >= 0xff00 && !r.overrun) {
        const uint64_t before = r.left + 2;
        formats_bytes segment;
        uint32_t style;

        if (marker == SOD) {                                /* what is coded goes on to the end of the tile's part */
            if (end > r.left)
                break;
            formats_take(&r, r.left - end);
            continue;
        }
        segment = j2k_segment(&r);
        if (marker == SOT) {
            formats_take(&segment, 2);
            end = formats_u32(&segment);
            end = end && end <= before ? before - end : UINT64_MAX;
        } else if (marker == COD || marker == COC) {
            formats_take(&segment, marker == COC);
            style = formats_u8(&segment);
            formats_take(&segment, marker == COD ? 4 : 0);
            least = j2k_style(&segment, style, least);
        }
    }
    notes = 300 * 2 * (samples >> least) / 3 * 4;           /* no more precincts than code blocks */
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
        }
    }
}

/* Reads all that inspect says. */
static bzna_status j2k_read(const uint8_t *data, uint64_t bytes, j2k_picture *p, bzna_error *err)
{
    enum { SRGB = 16, GRAY = 17, SYCC = 18, ROMM_RGB = 21 };
    formats_bytes r = { data, bytes, 0 }, box = { data, 0, 0 };
    bzna_status status;
    uint32_t type = 0, columns;
    int is_uneven = 0;

    *p = (j2k_picture){ .is_file = !data[0] };
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
    columns = p->components;
    if (p->pclr.at) {
        formats_take(&p->pclr, 2);
        columns = formats_u8(&p->pclr);
        for (uint32_t i = 0; i < 3 && i < columns; i++) {
            p->bits[i] = (formats_u8(&p->pclr) & 127) + 1;
            memcpy(p->step[i], p->step[0], sizeof p->step[0]);
            if (p->bits[i] > 31 || p->pclr.overrun)
                return bzna_formats_fail(err, BZNA_E_DECODE, "its palette is damaged");
        }
    }
    p->colors = columns < 3 || p->space == GRAY || p->space == formats_type("GRAY") ? 1 : 3;
    for (uint32_t i = 0; i < p->colors; i++)
        for (int axis = 0; axis < 2; axis++) {
            const uint32_t step = p->step[i][axis], times = step / p->step[0][axis];
            is_uneven |= step % p->step[0][axis] || (times != 1 && times != 2 && times != 4) ||
                         p->bits[i] != p->bits[0];
            p->shift[i][axis] = times / 2;
        }
    if (is_uneven || memcmp(p->shift[1], p->shift[2], sizeof p->shift[1]))
        return bzna_formats_fail(err, BZNA_E_CODEC, "components of such sizes or depths are not supported");
    /* without a word on color, subsampled chroma is what tells */
    p->is_ycc = p->colors == 3 && (p->space == SYCC || p->shift[1][0] || p->shift[1][1]);
    return BZNA_OK;
}

static bzna_status j2k_inspect(void *state, const void *data, uint64_t bytes, bzna_codec_shape *shape, bzna_error *err)
{
    j2k_picture p;
    const bzna_status status = j2k_read(data, bytes, &p, err);

    (void)state;
    if (status != BZNA_OK)
        return status;
    shape->width = p.size[0];
    shape->height = p.size[1];
    shape->pixels = p.is_ycc ? BZNA_PIXELS_YCBCR : p.colors == 3 ? BZNA_PIXELS_RGB : BZNA_PIXELS_GRAY;
    shape->depth = p.bits[0] <= 8 ? 8 : j2k_least(p.bits[0], 16);
    shape->chroma_shift_x = p.shift[1][0];
    shape->chroma_shift_y = p.shift[1][1];
    return BZNA_OK;
}

/* ---- OpenJPEG ---- */

static OPJ_SIZE_T j2k_stream_read(void *to, OPJ_SIZE_T bytes, void *file)
{
    const uint64_t count = formats_read(file, to, bytes);

    return count ? (OPJ_SIZE_T)count : (OPJ_SIZE_T)-1;
}

static OPJ_BOOL j2k_stream_seek(OPJ_OFF_T at, void *file)
{
    formats_file *f = file;

    if (at < 0 || (uint64_t)at > f->size)
        return OPJ_FALSE;
    f->at = (uint64_t)at;
    return OPJ_TRUE;
}

static OPJ_OFF_T j2k_stream_skip(OPJ_OFF_T bytes, void *file)
{
    formats_file *f = file;

    if (bytes < 0 || (uint64_t)bytes > f->size - f->at)
        return -1;
    f->at += (uint64_t)bytes;
    return bytes;
}

/* Keeps the first message, without the end of its line. */
static void j2k_message(const char *text, void *user)
{
    bzna_error *const err = user;

    if (!*err->message) {
        snprintf(err->message, sizeof err->message, "OpenJPEG: %s", text);
        err->message[strcspn(err->message, "\n")] = 0;
    }
}

/* Returns the column or row of a component for one of the planes. Those of planes count from `origin`, those of the
 * component from `begin`. Chroma may have fewer than planes have. */
static uint32_t j2k_place(uint32_t place, uint32_t origin, uint32_t begin, uint32_t count)
{
    return place + origin < begin ? 0 : j2k_least(place + origin - begin, count - 1);
}

/* Writes what is needed of a color: OpenJPEG's numbers, as samples of 8 or 16 bits. Returns 0 if there are none. */
static int j2k_write(const j2k_picture *p, const opj_image_comp_t *c, const bzna_rectangle *needed,
                     const bzna_codec_planes *planes, uint32_t color)
{
    const uint32_t *shift = p->shift[color], *step = p->step[color];
    const uint32_t x0 = needed->x0 >> shift[0], x1 = ((needed->x1 - 1) >> shift[0]) + 1;
    const uint32_t y1 = ((needed->y1 - 1) >> shift[1]) + 1;
    const uint32_t origin_x = j2k_steps(p->origin[0], step[0]), origin_y = j2k_steps(p->origin[1], step[1]);
    const int64_t middle = c->sgnd ? (int64_t)1 << (c->prec - 1) : 0, top = ((int64_t)1 << c->prec) - 1;

    if (!c->data || !c->w || !c->h)
        return 0;
    for (uint32_t y = needed->y0 >> shift[1]; y < y1; y++) {
        uint8_t *to = formats_row(planes, color, y) + (uint64_t)x0 * planes->step;
        const OPJ_INT32 *row = c->data + (uint64_t)j2k_place(y, origin_y, c->y0, c->h) * c->w;

        for (uint32_t x = x0; x < x1; x++, to += planes->step) {
            int64_t number = row[j2k_place(x, origin_x, c->x0, c->w)] + middle;

            number = number < 0 ? 0 : number > top ? top : number;
            if (c->prec < 8)
                number = number * 255 / top;
            formats_put(to, c->prec > 8, (uint32_t)(number >> (c->prec > 16 ? c->prec - 16 : 0)));
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

    if (done && p->step[0][0] == 1 && p->step[0][1] == 1)
        done = opj_set_decode_area(codec, image, (OPJ_INT32)(p->origin[0] + needed->x0),
                                   (OPJ_INT32)(p->origin[1] + needed->y0), (OPJ_INT32)(p->origin[0] + needed->x1),
                                   (OPJ_INT32)(p->origin[1] + needed->y1));
    done = done && opj_decode(codec, stream, image) && opj_end_decompress(codec, stream);
    for (uint32_t i = 0; i < p->colors && done; i++) {
        const opj_image_comp_t *c = &image->comps[i];
        done = i < image->numcomps && c->prec == p->bits[i] && c->dx == p->step[i][0] && c->dy == p->step[i][1] &&
               j2k_write(p, c, needed, planes, i);
    }
    opj_image_destroy(image);
    return done;
}

static bzna_status j2k_decode(void *state, const void *data, uint64_t bytes, const bzna_rectangle *needed,
                              const bzna_codec_planes *planes, bzna_error *err)
{
    formats_file file = { data, bytes, 0 };
    j2k_picture p;
    opj_dparameters_t parameters;
    opj_codec_t *codec = NULL;
    opj_stream_t *stream = NULL;
    bzna_status status = j2k_read(data, bytes, &p, err);

    (void)state;
    if (status != BZNA_OK)
        return status;
    if (p.size[0] != planes->width || p.size[1] != planes->height)
        return bzna_formats_fail(err, BZNA_E_MISMATCH, "the picture's size has changed");

    opj_set_default_decoder_parameters(&parameters);
    codec = opj_create_decompress(p.is_file ? OPJ_CODEC_JP2 : OPJ_CODEC_J2K);
    stream = opj_stream_create(1u << 16, OPJ_TRUE);
    if (codec && stream) {
        opj_set_error_handler(codec, j2k_message, err);
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
