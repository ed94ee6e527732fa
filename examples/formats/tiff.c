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

#ifndef BENZINA_FORMATS_NO_TIFF

#include <stdlib.h>
#include <tiffio.h>

/* bytes of a strip, a tile, or anything that libtiff allocates at once: files may say any sizes */
#define TIFF_LIMIT_BYTES (1u << 30)

/* An open file. */
typedef struct tiff_file {
    TIFF          *tiff;
    formats_file   file;
    bzna_error    *err;               /* has libtiff's first message */
    int            is_damaged;        /* 1: libtiff has warned of damage */
    uint32_t       width, height;
    uint16_t       bits, samples;     /* of a sample; of a pixel */
    uint16_t       photometric, orientation;
    uint16_t       has_planes;        /* samples lie in planes */
    uint16_t       colors;            /* samples that are colors: 1, 3, or 4 of CMYK */
    uint16_t       is_multiplied;     /* the sample after the colors is alpha, by which they were multiplied */
    uint32_t       flip;              /* bits of each sample that are inverted: it is signed, or 0 is white */
    uint16_t       depth;             /* bits of a sample of the planes */
} tiff_file;

static tmsize_t tiff_read(thandle_t handle, void *to, tmsize_t bytes)
{
    return (tmsize_t)formats_read(&((tiff_file *)handle)->file, to, (uint64_t)bytes);
}

static toff_t tiff_seek(thandle_t handle, toff_t offset, int whence)
{
    (void)whence;                     /* what only reads counts from the beginning */
    return ((tiff_file *)handle)->file.at = offset;
}

static toff_t tiff_size(thandle_t handle) { return ((tiff_file *)handle)->file.size; }
static int tiff_close(thandle_t handle) { (void)handle; return 0; }

/* Keeps the first message. Returning 1 stops libtiff from printing it. */
static int tiff_error(TIFF *tiff, void *user, const char *module, const char *format, va_list arguments)
{
    bzna_error *const err = ((tiff_file *)user)->err;

    (void)tiff, (void)module;
    if (!*err->message) {
        const int used = snprintf(err->message, sizeof err->message, "libtiff: %s",
                                  strncmp(format, "Read error", 10) ? "" : "the file is cut off: ");
        vsnprintf(err->message + used, sizeof err->message - (size_t)used, format, arguments);
    }
    return 1;
}

/* Where a decoder goes on after damage, as those of fax and JPEG do, libtiff warns. */
static int tiff_warning(TIFF *tiff, void *user, const char *module, const char *format, va_list arguments)
{
    if ((!module || strncmp(module, "Fax", 3)) && !strstr(format, "orrupt") && !strstr(format, "remature"))
        return 1;
    ((tiff_file *)user)->is_damaged = 1;
    return tiff_error(tiff, user, module, format, arguments);
}

/* Reads the tags. */
static bzna_status tiff_tags(tiff_file *f)
{
    TIFF *const t = f->tiff;
    uint16_t extras = 0, *kinds = NULL, planes = 0, compression = 0, format = 0;

    f->photometric = UINT16_MAX;                            /* unless the file says it */
    TIFFGetField(t, TIFFTAG_IMAGEWIDTH, &f->width);
    TIFFGetField(t, TIFFTAG_IMAGELENGTH, &f->height);
    TIFFGetField(t, TIFFTAG_PHOTOMETRIC, &f->photometric);
    TIFFGetFieldDefaulted(t, TIFFTAG_BITSPERSAMPLE, &f->bits);
    TIFFGetFieldDefaulted(t, TIFFTAG_SAMPLESPERPIXEL, &f->samples);
    TIFFGetFieldDefaulted(t, TIFFTAG_SAMPLEFORMAT, &format);
    TIFFGetFieldDefaulted(t, TIFFTAG_COMPRESSION, &compression);
    TIFFGetFieldDefaulted(t, TIFFTAG_ORIENTATION, &f->orientation);
    TIFFGetFieldDefaulted(t, TIFFTAG_PLANARCONFIG, &planes);
    TIFFGetFieldDefaulted(t, TIFFTAG_EXTRASAMPLES, &extras, &kinds);
    f->has_planes = planes == PLANARCONFIG_SEPARATE && f->samples > 1;
    if (f->photometric == PHOTOMETRIC_YCBCR && compression == COMPRESSION_JPEG && !f->has_planes) {
        TIFFSetField(t, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
        f->photometric = PHOTOMETRIC_RGB;
    }
    f->colors = f->photometric == PHOTOMETRIC_RGB || f->photometric == PHOTOMETRIC_YCBCR ? 3 :
                f->photometric == PHOTOMETRIC_SEPARATED ? 4 : 1;
    f->is_multiplied = extras && kinds[0] == EXTRASAMPLE_ASSOCALPHA && f->samples > f->colors;
    f->depth = f->bits <= 8 || f->photometric == PHOTOMETRIC_SEPARATED ? 8 : f->bits < 16 ? f->bits : 16;
    if (f->photometric > PHOTOMETRIC_YCBCR || f->photometric == PHOTOMETRIC_MASK || f->samples < f->colors ||
        !f->bits || (f->bits > 16 && f->bits != 32) || format == SAMPLEFORMAT_IEEEFP || format > SAMPLEFORMAT_VOID ||
        (f->photometric == PHOTOMETRIC_PALETTE && f->bits > 8) ||
        (f->photometric == PHOTOMETRIC_SEPARATED && f->bits != 8 && f->bits != 16) ||
        (f->photometric == PHOTOMETRIC_YCBCR && f->bits != 8)) {
        snprintf(f->err->message, sizeof f->err->message, "photometric interpretation %u with %u samples of %u bits, "
                 "sample format %u%s, is not supported", f->photometric, f->samples, f->bits, format,
                 f->has_planes ? ", in planes" : "");
        return BZNA_E_CODEC;
    }
    f->flip = (format == SAMPLEFORMAT_INT ? 1u << (f->bits - 1) : 0) ^
              (f->photometric == PHOTOMETRIC_MINISWHITE ? UINT32_MAX >> (32 - f->bits) : 0);
    return BZNA_OK;
}

/* Opens a file and reads its tags. f->tiff is to be closed in any case; NULL: it is not open. */
static bzna_status tiff_open(tiff_file *f, const void *data, uint64_t bytes, bzna_error *err)
{
    TIFFOpenOptions *options = TIFFOpenOptionsAlloc();

    *f = (tiff_file){ .file = { data, bytes, 0 }, .err = err };
    if (!options)
        return bzna_formats_fail(f->err, BZNA_E_MEMORY, "out of memory");
    TIFFOpenOptionsSetMaxSingleMemAlloc(options, TIFF_LIMIT_BYTES);
    TIFFOpenOptionsSetErrorHandlerExtR(options, tiff_error, f);
    TIFFOpenOptionsSetWarningHandlerExtR(options, tiff_warning, f);
    f->tiff = TIFFClientOpenExt("TIFF", "r", (thandle_t)f, tiff_read, tiff_read, tiff_seek, tiff_close, tiff_size,
                                NULL, NULL, options);    /* nothing is written */
    TIFFOpenOptionsFree(options);
    return f->tiff ? tiff_tags(f) : bzna_formats_fail(f->err, BZNA_E_DECODE, "the file is damaged");
}

static bzna_status tiff_inspect(void *state, const void *data, uint64_t bytes, bzna_codec_shape *shape,
                                bzna_error *err)
{
    tiff_file f;
    const bzna_status status = tiff_open(&f, data, bytes, err);

    (void)state;
    if (status == BZNA_OK) {
        shape->width = f.width;
        shape->height = f.height;
        shape->pixels = f.photometric == PHOTOMETRIC_PALETTE ? BZNA_PIXELS_INDEX :
                        f.colors == 1 ? BZNA_PIXELS_GRAY : BZNA_PIXELS_RGB;
        shape->interleaved = f.colors > 1;
        shape->depth = f.depth;
        shape->orientation = f.orientation;
    }
    if (f.tiff)
        TIFFClose(f.tiff);
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

/* Returns sample i of a row, unsigned. */
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
            value = value << 1 | ((uint32_t)row[k / 8] >> (7 - k % 8) & 1);
    return value ^ f->flip;
}

/* Writes pixels of a row: without alpha, by which the colors are divided if they were multiplied by it; and CMYK as
 * R, G and B.
 *   row     the samples that libtiff gave, of `count` pixels
 *   plane   bytes from one plane of samples to the next; 0: they are side by side */
static void tiff_write(const tiff_file *f, uint8_t *to, uint64_t count, const uint8_t *row, uint64_t plane)
{
    const uint32_t used = f->colors + f->is_multiplied, written = f->colors < 3 ? 1 : 3, top = (1u << f->depth) - 1;

    for (uint64_t x = 0; x < count; x++) {
        uint32_t v[5];

        for (uint32_t i = 0; i < used; i++) {
            v[i] = tiff_sample(f, row + i * plane, plane ? x : x * f->samples + i);
            if (f->photometric != PHOTOMETRIC_PALETTE)
                v[i] = formats_scale(v[i], f->bits, f->depth);
        }
        for (uint32_t i = 0; i < written; i++) {
            if (f->colors == 4) {
                const uint32_t light = 255 - v[3], product = v[i] * light + 128;
                v[i] = light - ((product + (product >> 8)) >> 8);
            }
            if (f->is_multiplied) {
                const uint64_t color = v[f->colors] ? (uint64_t)v[i] * top / v[f->colors] : 0;
                v[i] = color < top ? (uint32_t)color : top;
            }
            formats_put(to, f->depth > 8, v[i]);
            to += f->depth > 8 ? 2 : 1;
        }
    }
}

/* Decodes a tile, or as many bytes of a strip as are needed: of one plane. A picture of Y'CbCr counts as one tile, of
 * which libtiff makes R, G, B and A, without turning it. */
static int tiff_block(tiff_file *f, uint32_t x, uint32_t y, uint16_t plane, uint8_t *to, uint64_t bytes)
{
    if (f->photometric == PHOTOMETRIC_YCBCR)
        return TIFFReadRGBAImageOriented(f->tiff, f->width, f->height, (uint32_t *)(void *)to, f->orientation, 1);
    if (TIFFIsTiled(f->tiff))
        return TIFFReadEncodedTile(f->tiff, TIFFComputeTile(f->tiff, x, y, 0, plane), to, (tmsize_t)bytes) >= 0;
    return TIFFReadEncodedStrip(f->tiff, TIFFComputeStrip(f->tiff, y, plane), to, (tmsize_t)bytes) >= 0;
}

/* Decodes the tiles or strips that are needed. */
static bzna_status tiff_run(tiff_file *f, const bzna_rectangle *needed, const bzna_codec_planes *planes)
{
    const int is_tiled = TIFFIsTiled(f->tiff);
    uint64_t pitch = is_tiled ? TIFFTileRowSize64(f->tiff) : TIFFScanlineSize64(f->tiff), size;
    uint32_t width = f->width, height = f->height;
    uint16_t count;                   /* planes */
    uint8_t *block;
    int done = 1;

    if (f->photometric == PHOTOMETRIC_YCBCR) {
        pitch = 4 * (uint64_t)width;
        f->samples = 4;
        f->has_planes = f->is_multiplied = 0;
    } else if (is_tiled) {
        TIFFGetField(f->tiff, TIFFTAG_TILEWIDTH, &width);
        TIFFGetField(f->tiff, TIFFTAG_TILELENGTH, &height);
    } else {
        TIFFGetField(f->tiff, TIFFTAG_ROWSPERSTRIP, &height);
        height = height < f->height ? height : f->height;
    }
    count = f->has_planes ? f->colors + f->is_multiplied : 1;
    if (!width || !height || !pitch || pitch > TIFF_LIMIT_BYTES / count / height)
        return bzna_formats_fail(f->err, BZNA_E_LIMIT, "its strips or tiles are too large");
    size = pitch * height;
    if (!(block = calloc(count, (size_t)size)))
        return bzna_formats_fail(f->err, BZNA_E_MEMORY, "out of memory");
    for (uint64_t y = needed->y0 / height * height; y < needed->y1; y += height)
        for (uint64_t x = needed->x0 / width * width; x < needed->x1; x += width) {
            const uint64_t right = x + width < f->width ? x + width : f->width;
            const uint64_t end = y + height < needed->y1 ? y + height : needed->y1;

            for (uint16_t i = 0; i < count && done; i++)
                done = tiff_block(f, (uint32_t)x, (uint32_t)y, i, block + i * size,
                                  is_tiled ? size : (end - y) * pitch);
            for (uint64_t row = needed->y0 > y ? needed->y0 : y; row < end && done; row++)
                tiff_write(f, formats_row(planes, 0, (uint32_t)row) + x * planes->step, right - x,
                           block + (row - y) * pitch, f->has_planes ? size : 0);
        }
    free(block);
    return done && !f->is_damaged ? BZNA_OK : bzna_formats_fail(f->err, BZNA_E_DECODE, "the data are damaged");
}

static bzna_status tiff_decode(void *state, const void *data, uint64_t bytes, const bzna_rectangle *needed,
                               const bzna_codec_planes *planes, bzna_error *err)
{
    tiff_file f;
    bzna_status status = tiff_open(&f, data, bytes, err);

    (void)state;
    if (status == BZNA_OK && (f.width != planes->width || f.height != planes->height))
        status = bzna_formats_fail(err, BZNA_E_MISMATCH, "the picture's size has changed");
    else if (status == BZNA_OK && planes->palette && !tiff_palette(&f, planes->palette))
        status = bzna_formats_fail(err, BZNA_E_DECODE, "there is no palette");
    else if (status == BZNA_OK)
        status = tiff_run(&f, needed, planes);
    if (f.tiff)
        TIFFClose(f.tiff);
    return status;
}

#endif

void bzna_formats_tiff(bzna_codec *codec)
{
    formats_lacks_tiff(codec);
#ifndef BENZINA_FORMATS_NO_TIFF
    formats_decodes(codec, tiff_inspect, tiff_decode);
#endif
}
