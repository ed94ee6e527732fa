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
 * Alpha is dropped. libavcodec conceals what is missing of a GIF or BMP, and decodes some BMPs to wrong pixels without
 * an error, so these files are checked first. */
#include "formats.h"

#ifndef BENZINA_FORMATS_NO_STILLS

#include <libavcodec/avcodec.h>
#include <libavutil/imgutils.h>
#include <libavutil/intreadwrite.h>
#include <libavutil/pixdesc.h>
#include <stdlib.h>

/* What decoding a picture takes. Decoders remember palettes and damage, so each picture has its own. */
typedef struct still {
    AVCodecContext *decoder;
    AVFrame        *frame;
    AVPacket       *packet;           /* the picture as libavcodec takes it */
    uint8_t         palette[768];     /* of a GIF: R, G, B */
} still;

static bzna_status still_fail(bzna_error *err, const char *why) { return bzna_formats_fail(err, BZNA_E_DECODE, why); }

/* ---- GIF ---- */

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

enum { GIF_HEAD = 13 + 768 + 10 };    /* bytes of the file that is made here, before its codes */

/* Makes a file of the first picture's codes, and of a palette in which each color has its number as its value, so that
 * libavcodec decodes the picture to numbers. r: the file */
static bzna_status gif_rewrite(formats_bytes *r, still *s, bzna_error *err)
{
    const uint8_t *const head = formats_take(r, 13), *picture, *codes;
    uint8_t *const palette = s->palette, *const to = s->packet->data, around[3] = { 255, 255, 255 };
    uint32_t background, block, colors, own;

    if (!head)
        return still_fail(err, "there is no picture, or it is cut off");
    background = head[11];
    if ((colors = gif_palette(r, head[10], palette)) != 0)
        memcpy(around, palette + 3 * background, 3);
    while ((block = formats_u8(r)) == 0x21) {               /* an extension, such as the delay */
        formats_take(r, 1);
        gif_skip_blocks(r);
    }
    picture = formats_take(r, 9);                           /* its place on the screen, and flags */
    if (block != 0x2c || !picture)
        return still_fail(err, "there is no picture, or it is cut off");
    own = gif_palette(r, picture[8], palette);
    if (!colors && !own)
        return still_fail(err, "there is no palette");
    if (own) {                        /* the screen's background may be none of its colors */
        if (!colors || (background < own && memcmp(palette + 3 * background, around, 3)))
            background = own < 256 ? 255 : 0;               /* 0: as Pillow */
        if (background >= own)
            memcpy(palette + 3 * background, around, 3);
    }
    codes = r->at;
    formats_take(r, 1);
    gif_skip_blocks(r);

    memcpy(to, head, 13);
    to[10] = 0xf7;
    to[11] = (uint8_t)background;
    for (uint32_t i = 0; i < 768; i++)
        to[13 + i] = (uint8_t)(i / 3);
    to[GIF_HEAD - 10] = 0x2c;
    memcpy(to + GIF_HEAD - 9, picture, 8);
    to[GIF_HEAD - 1] = picture[8] & 0x40;                   /* rows in four passes */
    memcpy(to + GIF_HEAD, codes, (size_t)(r->at - codes));
    av_shrink_packet(s->packet, (int)(GIF_HEAD + (r->at - codes)));
    return BZNA_OK;
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

        if (r.overrun || (!count && code == 1))
            return y == height - 1 && (!r.overrun || x == width);
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

/* Refuses what libavcodec decodes to wrong pixels, or as if nothing was missing.
 *     file   with zeros behind it */
static bzna_status bmp_check(const uint8_t *file, uint64_t bytes, bzna_error *err)
{
    const uint32_t pixels = AV_RL32(file + 10), is_old = AV_RL32(file + 14) == 12;
    const uint32_t width = is_old ? AV_RL16(file + 18) : AV_RL32(file + 18);
    const uint32_t signed_height = is_old ? AV_RL16(file + 20) : AV_RL32(file + 22);
    /* negative: rows are stored from the top */
    const uint32_t height = signed_height > INT32_MAX ? 0 - signed_height : signed_height;
    const uint32_t bits = AV_RL16(file + (is_old ? 24 : 28)), compression = is_old ? 0 : AV_RL32(file + 30);
    const int is_run = compression == BMP_RLE8 || compression == BMP_RLE4;

    if (compression > BMP_MASKS || (compression == BMP_MASKS && bits != 16 && bits != 32))
        return bzna_formats_fail(err, BZNA_E_CODEC, "its compression, or masks of R, G and B, are not supported");
    if (!width || !height || bits > 32 || pixels > bytes || (is_run && bits != (compression == BMP_RLE8 ? 8 : 4)) ||
        (!is_run && ((uint64_t)width * bits + 31) / 32 * 4 > (bytes - pixels) / height))
        return still_fail(err, "truncated, or the header is damaged");
    if (is_run && !bmp_is_filled((formats_bytes){ file + pixels, bytes - pixels, 0 }, width, height, bits == 4))
        return still_fail(err, "run lengths do not fill the picture, or go past it");
    return BZNA_OK;
}

/* ---- libavcodec ---- */

/* Notes what a decoder is about to decode, as its get_buffer2, and gives it no memory for the pixels. */
static int still_note(AVCodecContext *decoder, AVFrame *frame, int flags)
{
    const AVPixFmtDescriptor *format = av_pix_fmt_desc_get(frame->format);
    bzna_codec_shape *const shape = decoder->opaque;

    (void)flags;
    if (!format)
        return AVERROR_INVALIDDATA;
    shape->width = (uint32_t)decoder->width;
    shape->height = (uint32_t)decoder->height;
    shape->pixels = format->flags & AV_PIX_FMT_FLAG_PAL || decoder->codec_id == AV_CODEC_ID_GIF ? BZNA_PIXELS_INDEX :
                    format->nb_components < 3 ? BZNA_PIXELS_GRAY : BZNA_PIXELS_RGB;
    shape->interleaved = shape->pixels == BZNA_PIXELS_RGB;
    shape->depth = format->comp[0].depth > 8 ? 16 : 8;
    return AVERROR_EXIT;
}

/* Decodes the packet to the frame; or only reads what it says of its shape, if that is not NULL. */
static bzna_status still_run(still *s, enum AVCodecID id, bzna_codec_shape *shape, bzna_error *err)
{
    const AVCodec *codec = avcodec_find_decoder(id);
    int result = codec ? AVERROR(ENOMEM) : AVERROR_DECODER_NOT_FOUND;

    if (codec && (s->decoder = avcodec_alloc_context3(codec)) != NULL) {
        s->decoder->thread_count = 1;
        s->decoder->err_recognition = AV_EF_EXPLODE;
        s->decoder->log_level_offset = 64;                  /* errors are returned, not printed */
        s->decoder->opaque = shape;
        if (shape)
            s->decoder->get_buffer2 = still_note;
        if ((result = avcodec_open2(s->decoder, codec, NULL)) >= 0 &&
            (result = avcodec_send_packet(s->decoder, s->packet)) >= 0)
            result = avcodec_receive_frame(s->decoder, s->frame);
    }
    if (result >= 0 || result == AVERROR_EXIT)
        return BZNA_OK;
    snprintf(err->message, sizeof err->message, "libavcodec: %s", av_err2str(result));
    err->native_code = result;
    return result == AVERROR(ENOMEM) ? BZNA_E_MEMORY :
           result == AVERROR_PATCHWELCOME || result == AVERROR_DECODER_NOT_FOUND ? BZNA_E_CODEC : BZNA_E_DECODE;
}

/* Opens a picture: decodes it, or only reads its shape, if that is not NULL. It is to be closed in any case. */
static bzna_status still_open(still *s, const void *data, uint64_t bytes, bzna_codec_shape *shape, bzna_error *err)
{
    formats_bytes r = { data, bytes, 0 };
    const uint8_t kind = *r.at;
    bzna_status status = BZNA_OK;

    *s = (still){ .frame = av_frame_alloc(), .packet = av_packet_alloc() };
    if (bytes > INT32_MAX / 2)
        return bzna_formats_fail(err, BZNA_E_LIMIT, "the file is too large for libavcodec");
    if (!s->frame || !s->packet || av_new_packet(s->packet, (int)bytes + (kind == 'G' ? GIF_HEAD : 0)) < 0)
        return bzna_formats_fail(err, BZNA_E_MEMORY, "out of memory");
    if (kind == 'G') {
        status = gif_rewrite(&r, s, err);
        if (r.overrun)
            status = bzna_formats_fail(err, BZNA_E_TRUNCATED, "truncated");
        err->byte_offset = status != BZNA_OK ? bytes - r.left : err->byte_offset;
    } else {
        memcpy(s->packet->data, data, (size_t)bytes);
        if (kind == 'B')
            status = bmp_check(s->packet->data, bytes, err);
    }
    if (status != BZNA_OK)
        return status;
    /* one decoder reads all of PNM, and notices what is missing */
    return still_run(s, kind == 'G' ? AV_CODEC_ID_GIF : kind == 'B' ? AV_CODEC_ID_BMP : AV_CODEC_ID_PPM, shape, err);
}

static void still_close(still *s)
{
    avcodec_free_context(&s->decoder);
    av_frame_free(&s->frame);
    av_packet_free(&s->packet);
}

static bzna_status still_inspect(void *state, const void *data, uint64_t bytes, bzna_codec_shape *shape,
                                 bzna_error *err)
{
    still s;
    const bzna_status status = still_open(&s, data, bytes, shape, err);

    (void)state;
    still_close(&s);
    return status;
}

/* Writes the rows of the frame that are needed. Fewer than 8 bits are stretched to 0..255, but not numbers of colors.
 * Returns 0 if the frame is not as inspect said. */
static int still_copy(const still *s, const bzna_rectangle *needed, const bzna_codec_planes *planes)
{
    const AVFrame *frame = s->frame;
    const AVPixFmtDescriptor *format = av_pix_fmt_desc_get(frame->format);
    const int is_deep = format && format->comp[0].depth > 8;
    const uint32_t flip = frame->format == AV_PIX_FMT_MONOWHITE, size = is_deep ? 2 : 1, count = planes->step / size;
    uint16_t line[256];               /* samples of a part of a row */

    if (!format || (uint32_t)frame->width != planes->width || (uint32_t)frame->height != planes->height ||
        count > format->nb_components)
        return 0;
    for (uint32_t i = 0; planes->palette && i < 768; i++)
        planes->palette[i] = (uint8_t)(s->decoder->codec_id == AV_CODEC_ID_GIF ? s->palette[i] :
            ((const uint32_t *)(const void *)frame->data[1])[i / 3] >> (16 - 8 * (i % 3)));
    for (uint32_t y = needed->y0; y < needed->y1; y++)
        for (uint32_t c = 0; c < count; c++) {
            uint8_t *to = formats_row(planes, 0, y) + c * size;
            const uint32_t depth = (uint32_t)format->comp[c].depth;

            for (uint32_t x = 0; x < planes->width; x++, to += planes->step) {
                if (x % 256 == 0)
                    av_read_image_line2(line, (const uint8_t **)(uintptr_t)frame->data, frame->linesize, format, (int)x,
                                        (int)y, (int)c, planes->width - x < 256 ? frame->width - (int)x : 256, 0, 2);
                formats_put(to, is_deep, formats_scale(line[x % 256] ^ flip, depth, 8 * size));
            }
        }
    return 1;
}

static bzna_status still_decode(void *state, const void *data, uint64_t bytes, const bzna_rectangle *needed,
                                const bzna_codec_planes *planes, bzna_error *err)
{
    still s;
    bzna_status status = still_open(&s, data, bytes, NULL, err);

    (void)state;
    if (status == BZNA_OK && !still_copy(&s, needed, planes))
        status = bzna_formats_fail(err, BZNA_E_MISMATCH, "libavcodec's picture is not what the header says");
    still_close(&s);
    return status;
}

#endif

/* Completes one of the codecs. */
static void still_codec(bzna_codec *codec)
{
    (void)codec;
#ifndef BENZINA_FORMATS_NO_STILLS
    formats_decodes(codec, still_inspect, still_decode);
#endif
}

void bzna_formats_gif(bzna_codec *codec) { formats_lacks_gif(codec), still_codec(codec); }
void bzna_formats_bmp(bzna_codec *codec) { formats_lacks_bmp(codec), still_codec(codec); }
void bzna_formats_pnm(bzna_codec *codec) { formats_lacks_pnm(codec), still_codec(codec); }
