/* stills.c - GIF, BMP and PNM (PBM, PGM, PPM, PAM) by libavcodec
 *
 *     bzna_codec codecs[3];
 *     bzna_formats_gif(&codecs[0]);
 *     bzna_formats_bmp(&codecs[1]);
 *     bzna_formats_pnm(&codecs[2]);
 *
 * Compile it with $(pkg-config --cflags libavcodec libavutil), and link $(pkg-config --libs libavcodec libavutil), or
 * define BENZINA_FORMATS_NO_STILLS.
 *
 * GIF      the first picture, on the screen's background if it is smaller than the screen. A transparent color is a
 *          color as any other. Colors are numbers with a palette.
 * BMP      colors of up to 8 bits are numbers with a palette. JPEG and PNG in BMP are refused.
 * PNM      samples are stretched to 0..255, or to 0..65535 if their largest value is above 255.
 *
 * Alpha is dropped. libavcodec conceals what is missing, and decodes some variants to wrong pixels without an error. So
 * inspect looks for the end of each file, and takes only variants that libavcodec is known to decode. */
#include "formats.h"

#include <string.h>

static int32_t gif_recognize(void *user, const void *head, uint64_t bytes)
{
    (void)user;
    return bytes >= 6 && (!memcmp(head, "GIF87a", 6) || !memcmp(head, "GIF89a", 6));
}

/* "BM", and the upper bytes of the size of the second header, which has at most 124 bytes. */
static int32_t bmp_recognize(void *user, const void *head, uint64_t bytes)
{
    (void)user;
    return bytes >= 18 && !memcmp(head, "BM", 2) && !memcmp((const uint8_t *)head + 15, "\0\0\0", 3);
}

static int pnm_is_space(uint32_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static int32_t pnm_recognize(void *user, const void *head, uint64_t bytes)
{
    const uint8_t *p = head;
    (void)user;
    return bytes >= 3 && p[0] == 'P' && p[1] >= '1' && p[1] <= '7' && pnm_is_space(p[2]);
}

#ifndef BENZINA_FORMATS_NO_STILLS

#include <libavcodec/avcodec.h>
#include <libavutil/imgutils.h>
#include <libavutil/pixdesc.h>
#include <stdlib.h>

/* Reads a little-endian number of 1 to 4 bytes; 0 past the end. */
static uint32_t still_number(formats_bytes *r, uint32_t bytes)
{
    const uint8_t *at = formats_take(r, bytes);
    uint32_t value = 0;

    for (uint32_t i = 0; at && i < bytes; i++)
        value |= (uint32_t)at[i] << 8 * i;
    return value;
}

static bzna_status still_fail(bzna_error *err, const char *why) { return bzna_formats_fail(err, BZNA_E_DECODE, why); }

/* ---- GIF ---- */

typedef struct gif {
    uint32_t place[4];                /* of the picture on the screen: x, y, width, height */
    uint32_t flags;                   /* of the picture */
    formats_bytes codes;              /* of the picture */
    uint8_t  palette[768];            /* R, G, B */
    uint32_t background;              /* number of the color around the picture */
} gif;

/* Reads a palette, if the flags say that there is one. Returns the number of its colors. */
static uint32_t gif_palette(formats_bytes *r, uint32_t flags, uint8_t palette[768])
{
    const uint32_t colors = flags & 0x80 ? 2u << (flags & 7) : 0;
    const uint8_t *at = formats_take(r, 3 * colors);

    if (!at)
        return 0;
    memset(palette, 0, 768);
    memcpy(palette, at, 3 * colors);
    return colors;
}

static void gif_skip_blocks(formats_bytes *r)
{
    uint32_t size;
    while ((size = formats_u8(r)) != 0)
        formats_take(r, size);
}

/* Reads up to the end of the first picture. */
static bzna_status gif_read(formats_bytes *r, gif *g, bzna_codec_shape *shape, bzna_error *err)
{
    uint8_t around[3] = { 255, 255, 255 };
    uint32_t flags, block, colors, own;

    formats_take(r, 6);
    shape->width = still_number(r, 2);
    shape->height = still_number(r, 2);
    shape->pixels = BZNA_PIXELS_INDEX;
    flags = formats_u8(r);
    g->background = formats_u8(r);
    formats_take(r, 1);
    if ((colors = gif_palette(r, flags, g->palette)) != 0)
        memcpy(around, g->palette + 3 * g->background, 3);
    while ((block = formats_u8(r)) == 0x21) {          /* an extension, such as the delay */
        formats_take(r, 1);
        gif_skip_blocks(r);
    }
    if (block != 0x2c)
        return still_fail(err, "there is no picture");

    for (int i = 0; i < 4; i++)
        g->place[i] = still_number(r, 2);
    g->flags = formats_u8(r);
    own = gif_palette(r, g->flags, g->palette);
    if (!colors && !own)
        return still_fail(err, "there is no palette");
    if (own) {                        /* the screen's background may be none of its colors */
        if (!colors || (g->background < own && memcmp(g->palette + 3 * g->background, around, 3)))
            g->background = 255;
        if (g->background >= own)
            memcpy(g->palette + 3 * g->background, around, 3);
    }
    g->codes = *r;
    formats_take(r, 1);
    gif_skip_blocks(r);
    g->codes.left -= r->left;
    return BZNA_OK;
}

static bzna_status gif_inspect(formats_bytes *r, bzna_codec_shape *shape, bzna_error *err)
{
    gif g;
    return gif_read(r, &g, shape, err);
}

enum { GIF_HEAD = 13 + 768 + 10 };

/* Writes a file of the first picture's codes, and a palette in which each color has its number as its value, so that
 * libavcodec decodes the picture to numbers. Returns its bytes. */
static uint64_t gif_rewrite(formats_bytes r, uint8_t *to, uint8_t *palette)
{
    const uint8_t *data = r.at;
    gif g;
    bzna_codec_shape shape;
    bzna_error err;
    uint8_t *p = to + 13 + 768;

    if (gif_read(&r, &g, &shape, &err) != BZNA_OK || r.overrun)
        return 0;
    memcpy(to, data, 13);
    to[10] = 0xf7;
    to[11] = (uint8_t)g.background;
    for (uint32_t i = 0; i < 768; i++)
        to[13 + i] = (uint8_t)(i / 3);
    *p++ = 0x2c;
    for (int i = 0; i < 4; i++) {
        *p++ = (uint8_t)g.place[i];
        *p++ = (uint8_t)(g.place[i] >> 8);
    }
    *p++ = g.flags & 0x40;                                  /* rows in four passes */
    memcpy(p, g.codes.at, (size_t)g.codes.left);
    memcpy(palette, g.palette, sizeof g.palette);
    return GIF_HEAD + g.codes.left;
}

/* ---- BMP ---- */

enum { BMP_RLE8 = 1, BMP_RLE4 = 2, BMP_MASKS = 3 };         /* kinds of compression */

/* Returns 1 if run lengths (RLE8, or RLE4 with two pixels a byte) fill a picture, and none goes past its edges.
 * libavcodec leaves out runs that do, and pixels that are missing. Pixels of the last row may be missing if the end is
 * marked. */
static int bmp_is_filled(formats_bytes r, uint32_t width, uint32_t height, int is_rle4)
{
    uint32_t x = 0, y = 0;

    while (y < height) {
        const uint32_t count = formats_u8(&r), code = formats_u8(&r);

        if (r.overrun)
            return y == height - 1 && x == width;
        if (!count && code == 1)
            return y == height - 1;
        if (!count && code == 0) {
            x = 0;
            y++;
        } else if (!count && code == 2) {
            x += formats_u8(&r);
            y += formats_u8(&r);
        } else {
            x += count ? count : code;
            if (!count)
                formats_take(&r, ((is_rle4 ? (code + 1) / 2 : code) + 1) & ~1u);
        }
        if (x > width || y > height || (y == height && x) || r.overrun)
            return 0;
    }
    return 1;
}

static bzna_status bmp_inspect(formats_bytes *r, bzna_codec_shape *shape, bzna_error *err)
{
    const formats_bytes file = *r;
    uint32_t pixels, header, bits, compression, is_run;

    formats_take(r, 10);
    pixels = still_number(r, 4);
    header = still_number(r, 4);
    shape->width = still_number(r, header == 12 ? 2 : 4);
    shape->height = still_number(r, header == 12 ? 2 : 4);
    if (header != 12 && shape->height > INT32_MAX)
        shape->height = 0 - shape->height;                  /* a negative height: rows are stored from the top */
    formats_take(r, 2);
    bits = still_number(r, 2);
    compression = header == 12 ? 0 : still_number(r, 4);
    is_run = compression == BMP_RLE8 || compression == BMP_RLE4;
    shape->pixels = bits > 8 ? BZNA_PIXELS_RGB : pixels > 14 + header ? BZNA_PIXELS_INDEX : BZNA_PIXELS_GRAY;

    if (r->overrun || !shape->width || !shape->height || bits > 32 || pixels > file.left ||
        (!is_run && ((uint64_t)shape->width * bits + 31) / 32 * 4 > (file.left - pixels) / shape->height))
        return still_fail(err, "truncated, or the header is damaged");
    if (header != 12 && header != 40 && header != 56 && header != 64 && header != 108 && header != 124) {
        snprintf(err->message, sizeof err->message, "a header of %u bytes is not supported", (unsigned)header);
        return BZNA_E_CODEC;
    }
    if (compression > BMP_MASKS)
        return bzna_formats_fail(err, BZNA_E_CODEC, compression == 4 ? "a JPEG in it is not supported" :
                                 compression == 5 ? "a PNG in it is not supported" : "its compression is unknown");
    if (is_run && bits != (compression == BMP_RLE8 ? 8 : 4))
        return still_fail(err, "its run-length code and its bits a pixel do not match");
    if (compression == BMP_MASKS && bits != 16 && bits != 32)
        return bzna_formats_fail(err, BZNA_E_CODEC, "its masks of R, G and B are not supported");
    *r = file;
    formats_take(r, pixels);
    if (is_run && !bmp_is_filled(*r, shape->width, shape->height, compression == BMP_RLE4))
        return bzna_formats_fail(err, BZNA_E_DECODE, "run lengths do not fill the picture, or go past it");
    return BZNA_OK;
}

/* ---- PNM ---- */

/* Reads the next word of a header, up to 8 characters of it, and the blank after it. Comments are skipped. */
static void pnm_word(formats_bytes *r, char word[9])
{
    uint32_t n = 0, c = formats_u8(r);

    while (!r->overrun && (pnm_is_space(c) || c == '#')) {
        while (c == '#' && !r->overrun && formats_u8(r) != '\n')
            ;
        c = formats_u8(r);
    }
    for (; !r->overrun && !pnm_is_space(c); c = formats_u8(r))
        if (n < 8)
            word[n++] = (char)c;
    word[n] = 0;
}

static uint32_t pnm_number(formats_bytes *r)
{
    char word[9];
    pnm_word(r, word);
    return (uint32_t)strtoul(word, NULL, 10);
}

static bzna_status pnm_inspect(formats_bytes *r, bzna_codec_shape *shape, bzna_error *err)
{
    static const char *const names[] = { "WIDTH", "HEIGHT", "DEPTH", "MAXVAL" };
    const uint32_t kind = r->at[1], is_bits = kind == '1' || kind == '4';
    uint32_t samples = kind == '3' || kind == '6' ? 3 : 1, top = 1;
    uint32_t *const values[] = { &shape->width, &shape->height, &samples, &top };
    char word[9] = "";
    uint64_t row;

    formats_take(r, 2);
    for (int i = 0; i < 4 && kind != '7'; i++)
        if (i != 2 && (i != 3 || !is_bits))
            *values[i] = pnm_number(r);
    while (kind == '7' && !r->overrun && strcmp(word, "ENDHDR")) {
        pnm_word(r, word);
        for (int i = 0; i < 4; i++)
            if (!strcmp(word, names[i]))
                *values[i] = pnm_number(r);
    }

    shape->depth = top > 255 ? 16 : 8;
    shape->pixels = samples < 3 ? BZNA_PIXELS_GRAY : BZNA_PIXELS_RGB;
    row = kind == '4' ? ((uint64_t)shape->width + 7) / 8 : (uint64_t)shape->width * samples * (top > 255 ? 2 : 1);
    if (kind < '4')
        row = shape->width;                                 /* a character for each pixel, at least */
    if (r->overrun || !top || top > 65535 || !samples || samples > 4 || !shape->height ||
        row > r->left / shape->height)
        return still_fail(err, "truncated, or the header is damaged");
    return BZNA_OK;
}

/* ---- libavcodec ---- */

typedef struct still_kind {
    enum AVCodecID id;
    bzna_status  (*inspect)(formats_bytes *r, bzna_codec_shape *shape, bzna_error *err);
} still_kind;

static const still_kind still_kinds[] = {
    { AV_CODEC_ID_GIF, gif_inspect },
    { AV_CODEC_ID_BMP, bmp_inspect },
    { AV_CODEC_ID_PPM, pnm_inspect },           /* one decoder reads all of PNM */
};

/* What decoding a picture takes. Decoders remember palettes and damage, so each picture has its own. */
typedef struct still {
    AVCodecContext *decoder;
    AVFrame        *frame;
    AVPacket       *packet;
    uint8_t        *file;             /* the picture as libavcodec takes it: padded */
    uint16_t       *line;             /* a row of samples */
} still;

static bzna_status still_inspect(void *state, const void *data, uint64_t bytes, bzna_codec_shape *shape,
                                 bzna_error *err)
{
    formats_bytes r = { data, bytes, 0 };
    bzna_status status = ((const still_kind *)state)->inspect(&r, shape, err);

    shape->interleaved = shape->pixels == BZNA_PIXELS_RGB;
    if (r.overrun)
        status = bzna_formats_fail(err, BZNA_E_TRUNCATED, "truncated");
    err->byte_offset = status == BZNA_OK ? err->byte_offset : bytes - r.left;
    return status;
}

/* Decodes the file to the frame. Where memory lacks, libavcodec may call the picture damaged: so what fails is decoded
 * again, and damage is found each time. */
static bzna_status still_run(still *s, enum AVCodecID id, uint64_t bytes, bzna_error *err)
{
    const AVCodec *codec = avcodec_find_decoder(id);
    char text[AV_ERROR_MAX_STRING_SIZE] = "";
    int result = codec ? -1 : AVERROR_DECODER_NOT_FOUND;

    memset(s->file + bytes, 0, AV_INPUT_BUFFER_PADDING_SIZE);
    s->packet->data = s->file;
    s->packet->size = (int)bytes;
    s->packet->flags = AV_PKT_FLAG_KEY;
    for (int i = 0; i < 2 && codec && result < 0; i++) {
        avcodec_free_context(&s->decoder);
        result = AVERROR(ENOMEM);
        if (!(s->decoder = avcodec_alloc_context3(codec)))
            break;
        s->decoder->thread_count = 1;
        s->decoder->err_recognition = AV_EF_EXPLODE | AV_EF_BITSTREAM | AV_EF_BUFFER | AV_EF_CRCCHECK;
        s->decoder->log_level_offset = 64;                  /* errors are returned, not printed */
        if ((result = avcodec_open2(s->decoder, codec, NULL)) >= 0 &&
            (result = avcodec_send_packet(s->decoder, s->packet)) >= 0)
            result = avcodec_receive_frame(s->decoder, s->frame);
    }
    if (result >= 0)
        return BZNA_OK;
    av_strerror(result, text, sizeof text);
    snprintf(err->message, sizeof err->message, "libavcodec: %s", text);
    err->native_code = result;
    return result == AVERROR(ENOMEM) ? BZNA_E_MEMORY :
           result == AVERROR_PATCHWELCOME || result == AVERROR_DECODER_NOT_FOUND ? BZNA_E_CODEC : BZNA_E_DECODE;
}

/* Writes the rows of the frame that are needed. Fewer than 8 bits are stretched to 0..255, but not numbers of colors.
 * Returns 0 if the frame is not as inspect said. */
static int still_copy(const still *s, const bzna_rectangle *needed, const bzna_codec_planes *planes)
{
    const AVFrame *frame = s->frame;
    const AVPixFmtDescriptor *format = av_pix_fmt_desc_get(frame->format);
    const uint32_t depth = format ? (uint32_t)format->comp[0].depth : 0;
    const int is_deep = depth > 8;
    const uint32_t has_palette = format && (format->flags & AV_PIX_FMT_FLAG_PAL);
    const uint32_t size = is_deep ? 2 : 1, count = planes->palette || !format || format->nb_components < 3 ? 1 : 3;
    const uint32_t flip = frame->format == AV_PIX_FMT_MONOWHITE;

    if (!format || (uint32_t)frame->width != planes->width || (uint32_t)frame->height != planes->height ||
        count * size != planes->step || (has_palette && !planes->palette))
        return 0;
    for (uint32_t i = 0; has_palette && i < 768; i++)
        planes->palette[i] = (uint8_t)(((const uint32_t *)(const void *)frame->data[1])[i / 3] >> (16 - 8 * (i % 3)));
    for (uint32_t y = needed->y0; y < needed->y1; y++)
        for (uint32_t c = 0; c < count; c++) {
            uint8_t *to = formats_row(planes, 0, y) + c * size;
            const uint32_t bits = (uint32_t)format->comp[c].depth, top = has_palette ? 255 : (1u << bits) - 1;

            av_read_image_line2(s->line, (const uint8_t **)(uintptr_t)frame->data, frame->linesize, format, 0, (int)y,
                                (int)c, frame->width, 0, 2);
            for (uint32_t x = 0; x < planes->width; x++, to += planes->step)
                formats_put(to, is_deep, is_deep ? s->line[x] : (s->line[x] ^ flip) * 255u / top);
        }
    return 1;
}

static bzna_status still_decode(void *state, const void *data, uint64_t bytes, const bzna_rectangle *needed,
                                const bzna_codec_planes *planes, bzna_error *err)
{
    const still_kind *const kind = state;
    still s = { .frame = av_frame_alloc(), .packet = av_packet_alloc(),
                .file = malloc((size_t)bytes + GIF_HEAD + AV_INPUT_BUFFER_PADDING_SIZE),
                .line = malloc(planes->width * sizeof *s.line) };
    uint64_t size = bytes;
    bzna_status status;

    if (bytes > INT32_MAX / 2) {
        status = bzna_formats_fail(err, BZNA_E_LIMIT, "the file is larger than libavcodec takes");
    } else if (s.frame && s.packet && s.file && s.line) {
        if (kind->id == AV_CODEC_ID_GIF)
            size = gif_rewrite((formats_bytes){ data, bytes, 0 }, s.file, planes->palette);
        else
            memcpy(s.file, data, (size_t)bytes);
        status = still_run(&s, kind->id, size, err);
        if (status == BZNA_OK && !still_copy(&s, needed, planes))
            status = bzna_formats_fail(err, BZNA_E_MISMATCH, "libavcodec's picture is not what the header says");
    } else {
        status = bzna_formats_fail(err, BZNA_E_MEMORY, "out of memory");
    }
    avcodec_free_context(&s.decoder);
    av_frame_free(&s.frame);
    av_packet_free(&s.packet);
    free(s.file);
    free(s.line);
    return status;
}

#endif

static void still_fill(bzna_codec *codec, int kind)
{
    *codec = (bzna_codec){ .struct_size = sizeof *codec };
#ifdef BENZINA_FORMATS_NO_STILLS
    (void)kind;
    codec->user = (void *)"libavcodec";
    codec->unwrap = bzna_formats_lacks;
#else
    codec->user = (void *)(uintptr_t)&still_kinds[kind];
    codec->inspect = still_inspect;
    codec->decode = still_decode;
#endif
}

void bzna_formats_gif(bzna_codec *codec)
{
    still_fill(codec, 0);
    codec->name = "GIF";
    codec->extensions = "gif";
    codec->recognize = gif_recognize;
}

void bzna_formats_bmp(bzna_codec *codec)
{
    still_fill(codec, 1);
    codec->name = "BMP";
    codec->extensions = "bmp";
    codec->recognize = bmp_recognize;
}

void bzna_formats_pnm(bzna_codec *codec)
{
    still_fill(codec, 2);
    codec->name = "PNM";
    codec->extensions = "ppm pgm pbm pnm pam";
    codec->recognize = pnm_recognize;
}
