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
 * Alpha and components after the third are dropped. Samples that are signed are moved up by half of their range. Other
 * color spaces are refused.
 *
 * A picture has the size of its first component. If the second and third are no chroma of such a picture, their samples
 * are repeated or left out as the reference grid says. Colors of fewer bits than the first one are stretched, and of
 * more bits, the upper ones are taken.
 *
 * The parts of pictures that are not needed are not decoded. OpenJPEG allocates notes on each tile, code block and
 * precinct, so their number is limited by the bytes of the file before it sees the file. It does not check all of its
 * allocations: version 2.5 may crash when memory ends. */
#include "formats.h"

#ifndef BENZINA_FORMATS_NO_JPEG2000

#include <openjpeg.h>

#define J2K_COMPONENTS  512u          /* 257 are in a conformance file */
#define J2K_RATIO       8u            /* samples of all components for one of the first, which the library limits */
#define J2K_SAMPLES     (1u << 24)    /* of all components, however small the first one is */
#define J2K_PARTS_BYTES (64u << 20)   /* notes on code blocks and precincts, however few bytes a file has */
#define J2K_PARTS_RATIO 4096u         /* bytes of notes for a byte of the file, above that */

/* An open file. Where there are two of a thing, they are of columns and of rows. */
typedef struct j2k_file {
    formats_file  file;
    opj_codec_t  *codec;
    opj_stream_t *stream;
    opj_image_t  *image;              /* as its header says, until it is decoded */
    uint32_t      origin[2];          /* in the reference grid */
    uint32_t      colors;             /* 1 or 3 */
    uint32_t      bits;               /* of a sample of the first color */
    uint32_t      step[2];            /* of the first component in the reference grid */
    uint32_t      shift[2];           /* log2 of the subsampling of the planes of the second and third color */
} j2k_file;

/* Returns the content of the first box of a type, without an address if there is none. */
static formats_bytes j2k_find(formats_bytes boxes, const char *type)
{
    formats_bytes box;
    uint32_t number;

    while (formats_box(&boxes, &number, &box) > 0)
        if (number == formats_type(type))
            return box;
    return (formats_bytes){ NULL, 0, 0 };
}

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

/* Refuses a picture of so many tiles, or in so many parts that OpenJPEG's notes on them, some 300 bytes for a code
 * block and for a precinct, would take more memory than a picture may. The main header and those of all tiles may say
 * how small the parts are.
 *     r        the codestream
 *     bytes    of the file */
static bzna_status j2k_check(formats_bytes r, uint64_t bytes, bzna_error *err)
{
    enum { COD = 0xff52, COC = 0xff53, SOT = 0xff90, SOD = 0xff93 };
    const int begins = formats_u32(&r) == 0xff4fff51;      /* SOC, SIZ */
    formats_bytes siz = j2k_segment(&r);
    uint32_t n[8];                    /* ends of the picture, its origin, sizes of tiles, the origin of the first one */
    uint32_t components, least = 30, marker;
    uint64_t tiles = 1, samples = 0, first = 0, notes;
    uint64_t end = UINT64_MAX;        /* how many bytes are left after the tile's part */

    formats_take(&siz, 2);
    for (int i = 0; i < 8; i++)
        n[i] = formats_u32(&siz);
    components = formats_u16(&siz);
    if (!begins || siz.overrun || r.overrun)
        return bzna_formats_fail(err, BZNA_E_DECODE, "there is no picture, or it is truncated");
    if (components > J2K_COMPONENTS)
        return bzna_formats_fail(err, BZNA_E_UNSUPPORTED, "pictures of more than 512 components are not read");
    for (int i = 0; i < 2; i++) {
        if (n[i] <= n[2 + i] || n[i] > INT32_MAX || !n[4 + i] || n[6 + i] > n[2 + i])
            return bzna_formats_fail(err, BZNA_E_DECODE, "the header is damaged");
        tiles *= j2k_steps(n[i] - n[6 + i], n[4 + i]);
    }
    for (uint32_t i = 0; i < components; i++) {
        const uint32_t step_x = (formats_take(&siz, 1), formats_u8(&siz)), step_y = formats_u8(&siz);

        if (!step_x || !step_y)
            return bzna_formats_fail(err, BZNA_E_DECODE, "the header is damaged");
        samples += (uint64_t)j2k_steps(n[0] - n[2], step_x) * j2k_steps(n[1] - n[3], step_y);
        first = i ? first : samples;
    }
    if (tiles > bytes / (14 + components))                  /* the head of a tile has 14 bytes, a packet at least 1 */
        return bzna_formats_fail(err, BZNA_E_TRUNCATED, "there are more tiles than the file has room for");
    if (samples > J2K_SAMPLES && samples / J2K_RATIO > first)
        return bzna_formats_fail(err, BZNA_E_LIMIT, "there are too many samples in its other components");

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
    notes = 300 * 2 * (samples >> least) / 3 * 4;      /* no more precincts than code blocks */
    if (notes > J2K_PARTS_BYTES && notes / J2K_PARTS_RATIO > bytes)
        return bzna_formats_fail(err, BZNA_E_LIMIT, "its code blocks or precincts are too small for so few bytes");
    return BZNA_OK;
}

/* Reads all of the file at once, so that OpenJPEG finds in its own memory whatever it skips. */
static OPJ_SIZE_T j2k_stream_read(void *to, OPJ_SIZE_T bytes, void *file)
{
    const uint64_t count = formats_read(file, to, bytes);

    return count ? (OPJ_SIZE_T)count : (OPJ_SIZE_T)-1;
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

/* Has OpenJPEG read the header. */
static bzna_status j2k_header(j2k_file *j, int is_file, bzna_error *err)
{
    opj_dparameters_t parameters;

    opj_set_default_decoder_parameters(&parameters);
    j->codec = opj_create_decompress(is_file ? OPJ_CODEC_JP2 : OPJ_CODEC_J2K);
    j->stream = opj_stream_create((OPJ_SIZE_T)j->file.size, OPJ_TRUE);
    if (!j->codec || !j->stream)
        return bzna_formats_fail(err, BZNA_E_MEMORY, "out of memory");
    opj_set_error_handler(j->codec, j2k_message, err);
    opj_stream_set_user_data(j->stream, &j->file, NULL);
    opj_stream_set_user_data_length(j->stream, j->file.size);
    opj_stream_set_read_function(j->stream, j2k_stream_read);
    if (!opj_setup_decoder(j->codec, &parameters) || !opj_read_header(j->stream, j->codec, &j->image))
        return bzna_formats_fail(err, BZNA_E_DECODE, "the header is damaged");
    return BZNA_OK;
}

/* Log2 of the subsampling of planes for chroma of such steps; 0: its samples are placed by the reference grid. */
static uint32_t j2k_shift(uint32_t step, uint32_t chroma)
{
    return chroma == 2 * step ? 1 : chroma == 4 * step ? 2 : 0;
}

/* Bits of a sample of the planes. */
static uint32_t j2k_depth(const j2k_file *j) { return j->bits <= 8 ? 8 : j2k_least(j->bits, 16); }

/* Opens a file, and reads all that inspect says. It is to be closed in any case. */
static bzna_status j2k_open(j2k_file *j, const void *data, uint64_t bytes, bzna_codec_shape *shape, bzna_error *err)
{
    enum { SRGB = 16, GRAY = 17, SYCC = 18, ROMM_RGB = 21, ICC_GRAY = 0x47524159, ICC_RGB = 0x52474220 };
    const formats_bytes file = { data, bytes, 0 }, boxes = j2k_find(file, "jp2h");
    formats_bytes colr = j2k_find(boxes, "colr"), pclr = j2k_find(boxes, "pclr");
    const int is_file = !*(const uint8_t *)data;
    uint32_t space = SRGB, columns;
    bzna_status status;

    *j = (j2k_file){ .file = { data, bytes, 0 } };
    if ((status = j2k_check(is_file ? j2k_find(file, "jp2c") : file, bytes, err)) != BZNA_OK ||
        (status = j2k_header(j, is_file, err)) != BZNA_OK)
        return status;
    if (colr.at) {
        formats_take(&colr, formats_u8(&colr) == 1 ? 2 : 2 + 16);   /* where an ICC profile has its color space */
        space = formats_u32(&colr);
    }
    if (space != SRGB && space != GRAY && space != SYCC && space != ROMM_RGB && space != ICC_RGB && space != ICC_GRAY)
        return bzna_formats_fail(err, BZNA_E_CODEC, "color spaces other than gray, RGB and sYCC are not supported");

    const opj_image_comp_t *const c = j->image->comps;
    columns = j->image->numcomps;
    j->bits = c->prec;
    if (pclr.at) {
        formats_take(&pclr, 2);
        columns = formats_u8(&pclr);
        j->bits = (formats_u8(&pclr) & 127) + 1;
        if (j->bits > 31 || pclr.overrun)
            return bzna_formats_fail(err, BZNA_E_DECODE, "its palette is damaged");
    } else if (columns > 2 && c[1].dx == c[2].dx && c[1].dy == c[2].dy) {
        j->shift[0] = j2k_shift(c->dx, c[1].dx);
        j->shift[1] = j2k_shift(c->dy, c[1].dy);
    }
    j->colors = columns < 3 || space == GRAY || space == ICC_GRAY ? 1 : 3;
    j->origin[0] = j->image->x0;
    j->origin[1] = j->image->y0;
    j->step[0] = c->dx;
    j->step[1] = c->dy;
    shape->width = c->w;
    shape->height = c->h;
    shape->depth = j2k_depth(j);
    shape->chroma_shift_x = j->shift[0];
    shape->chroma_shift_y = j->shift[1];
    /* without a word on color, subsampled chroma is what tells */
    shape->pixels = j->colors == 1 ? BZNA_PIXELS_GRAY :
                    space == SYCC || j->shift[0] || j->shift[1] ? BZNA_PIXELS_YCBCR : BZNA_PIXELS_RGB;
    return BZNA_OK;
}

static void j2k_close(j2k_file *j)
{
    opj_image_destroy(j->image);
    if (j->stream)
        opj_stream_destroy(j->stream);
    if (j->codec)
        opj_destroy_codec(j->codec);
}

static bzna_status j2k_inspect(void *state, const void *data, uint64_t bytes, bzna_codec_shape *shape, bzna_error *err)
{
    j2k_file j;
    const bzna_status status = j2k_open(&j, data, bytes, shape, err);

    (void)state;
    j2k_close(&j);
    return status;
}

/* Returns the column or row of a component for one of a plane: the one at its place in the reference grid or before.
 * Components begin after the picture's origin if they have no sample there, and chroma may have fewer than planes have.
 *     place    of the plane, whose samples are `step` apart in the grid
 *     apart    how far those of the component are apart
 *     begin    the number of the component's first one, and their `count` */
static uint32_t j2k_place(uint64_t place, uint32_t origin, uint32_t step, uint32_t apart, uint32_t begin,
                          uint32_t count)
{
    const uint64_t number = (place + j2k_steps(origin, step)) * step / apart;

    return number < begin ? 0 : number - begin < count ? (uint32_t)(number - begin) : count - 1;
}

/* Writes what is needed of a color: OpenJPEG's numbers, as samples of 8 or 16 bits. Returns 0 if they are not as the
 * header says. */
static int j2k_write(const j2k_file *j, const bzna_rectangle *needed, const bzna_codec_planes *planes, uint32_t color)
{
    const opj_image_comp_t *const c = &j->image->comps[color];
    const uint32_t shift_x = color ? j->shift[0] : 0, shift_y = color ? j->shift[1] : 0;
    const uint32_t x0 = needed->x0 >> shift_x, x1 = ((needed->x1 - 1) >> shift_x) + 1;
    const uint32_t y1 = ((needed->y1 - 1) >> shift_y) + 1;
    const uint32_t step_x = j->step[0] << shift_x, step_y = j->step[1] << shift_y, depth = j2k_depth(j);

    if (!c->data || !c->w || !c->h || !c->prec || c->prec > 31)
        return 0;
    for (uint32_t y = needed->y0 >> shift_y; y < y1; y++) {
        uint8_t *to = formats_row(planes, color, y) + (uint64_t)x0 * planes->step;
        const OPJ_INT32 *row = c->data + (uint64_t)j2k_place(y, j->origin[1], step_y, c->dy, c->y0, c->h) * c->w;

        for (uint32_t x = x0; x < x1; x++, to += planes->step) {
            const uint32_t number = (uint32_t)row[j2k_place(x, j->origin[0], step_x, c->dx, c->x0, c->w)] +
                                    (c->sgnd ? 1u << (c->prec - 1) : 0);
            formats_put(to, depth > 8, formats_scale(number, c->prec, depth));
        }
    }
    return 1;
}

/* Asks for a part of a picture whose samples are those of the grid. The samples of another component that belong to it
 * may be beside it, by fewer columns or rows than they are apart. */
static int j2k_area(j2k_file *j, const bzna_rectangle *needed)
{
    const opj_image_t *const image = j->image;
    const uint32_t x = image->x0 + needed->x0, y = image->y0 + needed->y0;
    uint32_t more[2] = { 0, 0 };

    for (uint32_t i = 0; i < j->colors && i < image->numcomps; i++) {
        more[0] = more[0] < image->comps[i].dx ? image->comps[i].dx - 1 : more[0];
        more[1] = more[1] < image->comps[i].dy ? image->comps[i].dy - 1 : more[1];
    }
    return opj_set_decode_area(j->codec, j->image, (OPJ_INT32)(x - j2k_least(needed->x0, more[0])),
                               (OPJ_INT32)(y - j2k_least(needed->y0, more[1])),
                               (OPJ_INT32)j2k_least(image->x0 + needed->x1 + more[0], image->x1),
                               (OPJ_INT32)j2k_least(image->y0 + needed->y1 + more[1], image->y1));
}

static bzna_status j2k_decode(void *state, const void *data, uint64_t bytes, const bzna_rectangle *needed,
                              const bzna_codec_planes *planes, bzna_error *err)
{
    bzna_codec_shape shape;
    j2k_file j;
    bzna_status status = j2k_open(&j, data, bytes, &shape, err);

    (void)state;
    if (status == BZNA_OK && (shape.width != planes->width || shape.height != planes->height))
        status = bzna_formats_fail(err, BZNA_E_MISMATCH, "the picture's size has changed");
    else if (status == BZNA_OK &&
             ((j.step[0] == 1 && j.step[1] == 1 && !j2k_area(&j, needed)) ||
              !opj_decode(j.codec, j.stream, j.image) || !opj_end_decompress(j.codec, j.stream)))
        status = bzna_formats_fail(err, BZNA_E_DECODE, "the data are damaged");
    for (uint32_t i = 0; status == BZNA_OK && i < j.colors; i++)
        if (i >= j.image->numcomps || !j2k_write(&j, needed, planes, i))
            status = bzna_formats_fail(err, BZNA_E_CODEC, "components without samples are not supported");
    j2k_close(&j);
    return status;
}

#endif

void bzna_formats_jpeg2000(bzna_codec *codec)
{
    formats_lacks_jpeg2000(codec);
#ifndef BENZINA_FORMATS_NO_JPEG2000
    formats_decodes(codec, j2k_inspect, j2k_decode);
#endif
}
