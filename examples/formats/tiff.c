/* tiff.c - TIFF by libtiff: the first picture of a file
 *
 *     bzna_codec codec;
 *     bzna_formats_tiff(&codec);
 *
 * Compile it with $(pkg-config --cflags libtiff-4), and link $(pkg-config --libs libtiff-4), or define
 * BENZINA_FORMATS_NO_TIFF. libtiff 4.5 and later will do.
 *
 * Strips and tiles, BigTIFF, samples side by side or in planes, and every compression that libtiff was built with:
 *
 *     gray, also with 0 for white    1 to 16 and 32 bits
 *     RGB                            1 to 16 and 32 bits
 *     colors with numbers            up to 8 bits; the numbers are pixels where a data set asks for them
 *     CMYK                           8 and 16 bits, by Pillow's formula, without a profile
 *     Y'CbCr                         8 bits, made RGB by libtiff
 *
 * Less than 8 bits are stretched to 0..255, of 32 the upper 16 are taken. Signed samples are moved up by half of their
 * range, so that the lowest becomes 0. Alpha is dropped; colors that were multiplied by it are divided by it, as Pillow
 * does. Floats and other color spaces are refused. The planes are as they are stored: the orientation is the warp's.
 *
 * libtiff does not check all of its allocations: version 4.5 may crash when memory ends. */
#include "formats.h"

/* II or MM; then 42, or 43 of BigTIFF, in that order of bytes. */
static int32_t tiff_recognize(void *user, const void *head, uint64_t bytes)
{
    (void)user;
    return bytes >= 4 && (!memcmp(head, "II*\0", 4) || !memcmp(head, "MM\0*", 4) || !memcmp(head, "II+\0", 4) ||
                          !memcmp(head, "MM\0+", 4));
}

#ifndef BENZINA_FORMATS_NO_TIFF

#include <stdlib.h>
#include <tiffio.h>

/* bytes of a row, a tile, or anything that libtiff allocates at once: files may say any sizes */
#define TIFF_LIMIT_BYTES (256u << 20)

/* An open file. */
typedef struct tiff_file {
    TIFF          *tiff;
    formats_file   file;
    bzna_error    *err;               /* has libtiff's first message */
    int            is_damaged;        /* 1: libtiff has warned of damage */
    int            is_cut;            /* 1: libtiff has found less than the tags say */
    uint32_t       width, height;
    uint16_t       bits, samples;     /* of a sample; of a pixel */
    uint16_t       photometric, compression, format;
    uint16_t       has_planes;        /* samples lie in planes */
    uint16_t       colors;            /* samples that are colors: 1, 3, or 4 of CMYK */
    uint16_t       is_multiplied;     /* the sample after the colors is alpha, by which they were multiplied */
    uint16_t       by_libtiff;        /* libtiff makes RGB of it */
    uint8_t       *buffer;            /* a row, a tile, or a picture that libtiff makes RGB of */
    uint64_t       capacity;          /* bytes at buffer */
} tiff_file;

static tmsize_t tiff_read(thandle_t handle, void *to, tmsize_t bytes)
{
    return (tmsize_t)formats_read(&((tiff_file *)handle)->file, to, (uint64_t)bytes);
}

static tmsize_t tiff_write(thandle_t handle, void *from, tmsize_t bytes)
{
    (void)handle, (void)from, (void)bytes;
    return 0;
}

static toff_t tiff_seek(thandle_t handle, toff_t offset, int whence)
{
    formats_file *f = &((tiff_file *)handle)->file;
    return f->at = offset + (whence == SEEK_CUR ? f->at : whence == SEEK_END ? f->size : 0);
}

static toff_t tiff_size(thandle_t handle) { return ((tiff_file *)handle)->file.size; }
static int tiff_close(thandle_t handle) { (void)handle; return 0; }

/* Keeps the first message. Returning 1 stops libtiff from printing it. */
static int tiff_error(TIFF *tiff, void *user, const char *module, const char *format, va_list arguments)
{
    tiff_file *f = user;
    size_t head;

    (void)tiff, (void)module;
    if (*f->err->message)
        return 1;
    f->is_cut = strstr(format, "; got ") != NULL;
    head = (size_t)snprintf(f->err->message, sizeof f->err->message, f->is_cut ? "truncated: libtiff: " : "libtiff: ");
    vsnprintf(f->err->message + head, sizeof f->err->message - head, format, arguments);
    return 1;
}

/* Where a decoder goes on after damage, as those of fax and JPEG do, libtiff warns. */
static int tiff_warning(TIFF *tiff, void *user, const char *module, const char *format, va_list arguments)
{
    if ((module && !strncmp(module, "Fax", 3)) || strstr(format, "orrupt") || strstr(format, "remature")) {
        ((tiff_file *)user)->is_damaged = 1;
        return tiff_error(tiff, user, module, format, arguments);
    }
    return 1;
}

static bzna_status tiff_fail(tiff_file *f, bzna_status status, const char *why)
{
    if (*f->err->message)
        return f->is_cut ? BZNA_E_TRUNCATED : status;
    return bzna_formats_fail(f->err, status, why);
}

/* Reads the tags. */
static bzna_status tiff_tags(tiff_file *f)
{
    TIFF *t = f->tiff;
    uint16_t extras = 0, *kinds = NULL, planes = 0;

    TIFFGetField(t, TIFFTAG_IMAGEWIDTH, &f->width);
    TIFFGetField(t, TIFFTAG_IMAGELENGTH, &f->height);
    TIFFGetFieldDefaulted(t, TIFFTAG_BITSPERSAMPLE, &f->bits);
    TIFFGetFieldDefaulted(t, TIFFTAG_SAMPLESPERPIXEL, &f->samples);
    TIFFGetFieldDefaulted(t, TIFFTAG_SAMPLEFORMAT, &f->format);
    TIFFGetFieldDefaulted(t, TIFFTAG_COMPRESSION, &f->compression);
    TIFFGetFieldDefaulted(t, TIFFTAG_PLANARCONFIG, &planes);
    TIFFGetFieldDefaulted(t, TIFFTAG_EXTRASAMPLES, &extras, &kinds);
    f->has_planes = planes == PLANARCONFIG_SEPARATE && f->samples > 1;
    if (!f->width || !f->height)
        return tiff_fail(f, BZNA_E_DECODE, "there is no size");
    if (!TIFFGetField(t, TIFFTAG_PHOTOMETRIC, &f->photometric))
        return tiff_fail(f, BZNA_E_CODEC, "it does not say what its samples mean (photometric interpretation)");

    if (f->photometric == PHOTOMETRIC_YCBCR && f->compression == COMPRESSION_JPEG && !f->has_planes) {
        TIFFSetField(t, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
        f->photometric = PHOTOMETRIC_RGB;
    }
    f->by_libtiff = f->photometric == PHOTOMETRIC_YCBCR;
    f->colors = f->photometric == PHOTOMETRIC_RGB || f->by_libtiff ? 3 :
                f->photometric == PHOTOMETRIC_SEPARATED ? 4 : 1;
    f->is_multiplied = extras && kinds[0] == EXTRASAMPLE_ASSOCALPHA && f->samples > f->colors;
    if (f->photometric > PHOTOMETRIC_YCBCR || f->photometric == PHOTOMETRIC_MASK || f->samples < f->colors ||
        !f->bits || (f->bits > 16 && f->bits != 32) ||
        (f->format != SAMPLEFORMAT_UINT && f->format != SAMPLEFORMAT_INT && f->format != SAMPLEFORMAT_VOID) ||
        (f->photometric == PHOTOMETRIC_PALETTE && f->bits > 8) ||
        (f->photometric == PHOTOMETRIC_SEPARATED && f->bits != 8 && f->bits != 16) || (f->by_libtiff && f->bits != 8)) {
        snprintf(f->err->message, sizeof f->err->message, "photometric interpretation %u with %u samples of %u bits, "
                 "sample format %u%s, is not supported", f->photometric, f->samples, f->bits, f->format,
                 f->has_planes ? ", in planes" : "");
        return BZNA_E_CODEC;
    }
    return BZNA_OK;
}

/* Opens a file and reads its tags. f->tiff is to be closed in any case; NULL: it is not open. */
static bzna_status tiff_open(tiff_file *f, const void *data, uint64_t bytes, bzna_error *err)
{
    TIFFOpenOptions *options = TIFFOpenOptionsAlloc();

    *f = (tiff_file){ .file = { data, bytes, 0 }, .err = err };
    if (!options)
        return tiff_fail(f, BZNA_E_MEMORY, "out of memory");
    TIFFOpenOptionsSetMaxSingleMemAlloc(options, TIFF_LIMIT_BYTES);
    TIFFOpenOptionsSetErrorHandlerExtR(options, tiff_error, f);
    TIFFOpenOptionsSetWarningHandlerExtR(options, tiff_warning, f);
    f->tiff = TIFFClientOpenExt("TIFF", "r", (thandle_t)f, tiff_read, tiff_write, tiff_seek, tiff_close, tiff_size,
                                NULL, NULL, options);
    TIFFOpenOptionsFree(options);
    return f->tiff ? tiff_tags(f) : tiff_fail(f, BZNA_E_DECODE, "the file is damaged");
}

static void tiff_end(tiff_file *f)
{
    free(f->buffer);
    if (f->tiff)
        TIFFClose(f->tiff);
}

/* Bits of a sample of the planes. */
static uint32_t tiff_depth(const tiff_file *f)
{
    return f->bits <= 8 || f->photometric == PHOTOMETRIC_SEPARATED ? 8 : f->bits < 16 ? f->bits : 16;
}

static bzna_status tiff_inspect(void *state, const void *data, uint64_t bytes, bzna_codec_shape *shape,
                                bzna_error *err)
{
    tiff_file f;
    uint16_t orientation = 1;
    const bzna_status status = tiff_open(&f, data, bytes, err);

    (void)state;
    if (status == BZNA_OK) {
        TIFFGetField(f.tiff, TIFFTAG_ORIENTATION, &orientation);
        shape->width = f.width;
        shape->height = f.height;
        shape->pixels = f.photometric == PHOTOMETRIC_PALETTE ? BZNA_PIXELS_INDEX :
                        f.colors == 1 ? BZNA_PIXELS_GRAY : BZNA_PIXELS_RGB;
        shape->interleaved = f.colors > 1;
        shape->depth = tiff_depth(&f);
        shape->orientation = orientation <= 8 ? orientation : 1;
    }
    tiff_end(&f);
    return status;
}

/* Gives colors with numbers. Old programs wrote values of 8 bits, instead of 16. */
static int tiff_palette(const tiff_file *f, uint8_t palette[768])
{
    uint16_t *map[3];
    const uint32_t colors = 1u << f->bits;
    uint16_t top = 0;

    if (!TIFFGetField(f->tiff, TIFFTAG_COLORMAP, &map[0], &map[1], &map[2]))
        return 0;
    for (uint32_t i = 0; i < 3 * colors; i++)
        top |= map[i % 3][i / 3];
    for (uint32_t i = 0; i < 3 * colors; i++)
        palette[i] = (uint8_t)(map[i % 3][i / 3] >> (top > 255 ? 8 : 0));
    return 1;
}

/* Returns sample i of a row, as many bits as the planes have, unsigned. */
static uint32_t tiff_sample(const tiff_file *f, const uint8_t *row, uint64_t i)
{
    const uint64_t at = i * f->bits;
    uint32_t value = 0;

    if (f->bits == 32)
        value = ((const uint32_t *)(const void *)row)[i];
    else if (f->bits == 16)
        value = ((const uint16_t *)(const void *)row)[i];
    else if (f->bits == 8)
        value = row[i];
    else
        for (uint64_t k = at; k < at + f->bits; k++)
            value = value << 1 | (row[k / 8] >> (7 - k % 8) & 1u);

    if (f->format == SAMPLEFORMAT_INT)
        value ^= 1u << (f->bits - 1);
    if (f->photometric == PHOTOMETRIC_MINISWHITE)
        value ^= 0xffffffffu >> (32 - f->bits);
    if (f->bits == 32)
        return value >> 16;
    if (f->bits < 8 && f->photometric != PHOTOMETRIC_PALETTE)
        return value * 255 / ((1u << f->bits) - 1);
    return f->photometric == PHOTOMETRIC_SEPARATED && f->bits == 16 ? value >> 8 : value;
}

/* Writes one sample of some pixels of a row: a color; alpha, by which the colors that stand there are divided; or the K
 * of CMYK, which makes R, G and B of them.
 *   row     what libtiff gave; the first pixel there is x0
 *   each    samples of a pixel in it
 *   s       the sample, and where it is among them */
static void tiff_write_row(const tiff_file *f, const bzna_codec_planes *planes, uint32_t y, uint32_t x0, uint32_t x1,
                           const uint8_t *row, uint32_t each, uint32_t s)
{
    const int is_deep = tiff_depth(f) > 8, is_cmyk = f->colors == 4;
    const uint32_t size = is_deep ? 2 : 1, written = f->colors < 3 ? 1 : 3, top = (1u << tiff_depth(f)) - 1;
    uint8_t *to = formats_row(planes, 0, y) + (uint64_t)x0 * planes->step;

    for (uint64_t x = 0; x < x1 - x0; x++, to += planes->step) {
        const uint32_t value = tiff_sample(f, row, x * each + (each > 1 ? s : 0));

        if (s < written) {
            formats_put(to + s * size, is_deep, value);
            continue;
        }
        for (uint32_t c = 0; c < written; c++) {
            uint8_t *const place = to + c * size;
            uint32_t color = is_deep ? *(const uint16_t *)(const void *)place : *place;

            if (is_cmyk && s == 3) {
                const uint32_t light = 255 - value, product = color * light + 128;
                color = light - ((product + (product >> 8)) >> 8);
            } else {
                color = value ? (uint32_t)((uint64_t)color * top / value) : 0;
            }
            formats_put(place, is_deep, color < top ? color : top);
        }
    }
}

/* Reads tiles, or rows: each sample's from the first row of the strip in which the first needed one lies, since most
 * decompressors cannot skip any. */
static int tiff_samples(tiff_file *f, const bzna_rectangle *needed, const bzna_codec_planes *planes)
{
    const uint32_t used = f->colors + f->is_multiplied;
    const int is_tiled = TIFFIsTiled(f->tiff);
    const tmsize_t pitch = is_tiled ? TIFFTileRowSize(f->tiff) : 0;
    uint32_t width = f->width, height = 0;

    TIFFGetFieldDefaulted(f->tiff, is_tiled ? TIFFTAG_TILELENGTH : TIFFTAG_ROWSPERSTRIP, &height);
    if (is_tiled)
        TIFFGetField(f->tiff, TIFFTAG_TILEWIDTH, &width);
    if (!width || !height)
        return 0;
    for (uint32_t plane = 0; plane < (f->has_planes ? used : 1); plane++)
        for (uint64_t y = needed->y0 / height * height; y < needed->y1; y += height)
            for (uint64_t x = is_tiled ? needed->x0 / width * width : 0; x < needed->x1; x += width) {
                const uint32_t tile = TIFFComputeTile(f->tiff, (uint32_t)x, (uint32_t)y, 0, (uint16_t)plane);
                const uint32_t right = x + width < f->width ? (uint32_t)x + width : f->width;

                if (is_tiled && TIFFReadEncodedTile(f->tiff, tile, f->buffer, (tmsize_t)f->capacity) < 0)
                    return 0;
                for (uint32_t row = (uint32_t)y; row < y + height && row < needed->y1; row++) {
                    if (!is_tiled && TIFFReadScanline(f->tiff, f->buffer, row, (uint16_t)plane) < 0)
                        return 0;
                    for (uint32_t i = plane; i < (f->has_planes ? plane + 1 : used) && row >= needed->y0; i++)
                        tiff_write_row(f, planes, row, (uint32_t)x, right, f->buffer + (row - (uint32_t)y) * pitch,
                                       f->has_planes ? 1 : f->samples, i);
                }
            }
    return 1;
}

/* Has libtiff make RGB of the whole picture, without turning it. */
static int tiff_by_libtiff(tiff_file *f, const bzna_rectangle *needed, const bzna_codec_planes *planes)
{
    uint32_t *const pixels = (uint32_t *)(void *)f->buffer;
    uint16_t orientation = ORIENTATION_TOPLEFT;

    TIFFGetField(f->tiff, TIFFTAG_ORIENTATION, &orientation);
    if (!TIFFReadRGBAImageOriented(f->tiff, f->width, f->height, pixels, orientation, 1))
        return 0;
    for (uint32_t y = needed->y0; y < needed->y1; y++) {
        uint8_t *to = formats_row(planes, 0, y);

        for (uint64_t x = 0; x < f->width; x++)
            for (uint32_t c = 0; c < 3; c++)
                *to++ = (uint8_t)(pixels[(uint64_t)y * f->width + x] >> 8 * c);
    }
    return 1;
}

static bzna_status tiff_decode(void *state, const void *data, uint64_t bytes, const bzna_rectangle *needed,
                               const bzna_codec_planes *planes, bzna_error *err)
{
    tiff_file f;
    bzna_status status = tiff_open(&f, data, bytes, err);
    int done = 0;

    (void)state;
    if (status == BZNA_OK) {
        f.capacity = f.by_libtiff ? 4 * (uint64_t)f.width * f.height :
               TIFFIsTiled(f.tiff) ? TIFFTileSize64(f.tiff) : TIFFScanlineSize64(f.tiff);
        if (f.width != planes->width || f.height != planes->height)
            status = bzna_formats_fail(err, BZNA_E_MISMATCH, "the picture's size has changed");
        else if (!f.capacity || (!f.by_libtiff && f.capacity > TIFF_LIMIT_BYTES))
            status = tiff_fail(&f, BZNA_E_LIMIT, "its rows or tiles are too large");
        else if (!(f.buffer = calloc(1, (size_t)f.capacity)))
            status = tiff_fail(&f, BZNA_E_MEMORY, "out of memory");
    }
    if (status == BZNA_OK) {
        done = (!planes->palette || tiff_palette(&f, planes->palette)) &&
               (f.by_libtiff ? tiff_by_libtiff : tiff_samples)(&f, needed, planes);
        if (!done || f.is_damaged)
            status = tiff_fail(&f, BZNA_E_DECODE, "the data are damaged");
    }
    tiff_end(&f);
    return status;
}

#endif

void bzna_formats_tiff(bzna_codec *codec)
{
    *codec = (bzna_codec){
        .struct_size = sizeof *codec,
        .name = "TIFF",
        .extensions = "tif tiff",
        .recognize = tiff_recognize,
#ifdef BENZINA_FORMATS_NO_TIFF
        .user = (void *)"libtiff",
        .unwrap = bzna_formats_lacks,
#else
        .inspect = tiff_inspect,
        .decode = tiff_decode,
#endif
    };
}
