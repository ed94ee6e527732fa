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

static int32_t pnm_recognize(void *user, const void *head, uint64_t bytes)
{
    const uint8_t *p = head;
    (void)user;
    return bytes >= 3 && p[0] == 'P' && p[1] >= '1' && p[1] <= '7' &&
           (p[2] == ' ' || (p[2] >= '\t' && p[2] <= '\r'));
}

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
    AVPacket       *packet;
    uint8_t        *file;             /* the picture as libavcodec takes it: padded */
    uint64_t        bytes;            /* at file */
    uint16_t       *line;             /* a row of samples */
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
    uint8_t *const palette = s->palette, *const to = s->file, around[3] = { 255, 255, 255 };
    uint32_t background, block, colors, own;

    if (!head)
        return still_fail(err, "there is no picture");
    background = head[11];
    if ((colors = gif_palette(r, head[10], palette)) != 0)
        memcpy(around, palette + 3 * background, 3);
    while ((block = formats_u8(r)) == 0x21) {               /* an extension, such as the delay */
        formats_take(r, 1);
        gif_skip_blocks(r);
    }
    picture = formats_take(r, 9);                           /* its place on the screen, and flags */
    if (block != 0x2c || !picture)
        return still_fail(err, "there is no picture");
    own = gif_palette(r, picture[8], palette);
    if (!colors && !own)
        return still_fail(err, "there is no palette");
    if (own) {                        /* the screen's background may be none of its colors */
        if (!colors || (background < own && memcmp(palette + 3 * background, around, 3)))
            background = 255;
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
    s->bytes = GIF_HEAD + (uint64_t)(r->at - codes);
    memcpy(to + GIF_HEAD, codes, (size_t)(r->at - codes));
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

/* Refuses what libavcodec decodes to wrong pixels, or as if nothing was missing. */
static bzna_status bmp_check(const still *s, bzna_error *err)
{
    const uint8_t *const file = s->file;        /* which has zeros behind it */
    const uint32_t pixels = AV_RL32(file + 10), header = AV_RL32(file + 14), is_old = header == 12;
    const uint32_t width = is_old ? AV_RL16(file + 18) : AV_RL32(file + 18);
    const uint32_t signed_height = is_old ? AV_RL16(file + 20) : AV_RL32(file + 22);
    /* negative: rows are stored from the top */
    const uint32_t height = signed_height > INT32_MAX ? 0 - signed_height : signed_height;
    const uint32_t bits = AV_RL16(file + (is_old ? 24 : 28)), compression = is_old ? 0 : AV_RL32(file + 30);
    const int is_run = compression == BMP_RLE8 || compression == BMP_RLE4;

    if (!width || !height || bits > 32 || pixels > s->bytes ||
        (!is_run && ((uint64_t)width * bits + 31) / 32 * 4 > (s->bytes - pixels) / height))
        return still_fail(err, "truncated, or the header is damaged");
    if (!is_old && header != 40 && header != 56 && header != 64 && header != 108 && header != 124) {
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
    if (is_run && !bmp_is_filled((formats_bytes){ file + pixels, s->bytes - pixels, 0 }, width, height,
                                 compression == BMP_RLE4))
        return still_fail(err, "run lengths do not fill the picture, or go past it");
    return BZNA_OK;
}

/* ---- libavcodec ---- */

/* Makes the file that libavcodec decodes. */
static bzna_status still_begin(still *s, enum AVCodecID id, const void *data, uint64_t bytes, bzna_error *err)
{
    formats_bytes r = { data, bytes, 0 };
    bzna_status status;

    *s = (still){ .frame = av_frame_alloc(), .packet = av_packet_alloc(), .bytes = bytes,
                  .file = calloc(1, (size_t)bytes + GIF_HEAD + AV_INPUT_BUFFER_PADDING_SIZE) };
    if (bytes > INT32_MAX / 2)
        return bzna_formats_fail(err, BZNA_E_LIMIT, "the file is too large for libavcodec");
    if (!s->frame || !s->packet || !s->file)
        return bzna_formats_fail(err, BZNA_E_MEMORY, "out of memory");
    if (id == AV_CODEC_ID_GIF) {
        status = gif_rewrite(&r, s, err);
        if (r.overrun)
            status = bzna_formats_fail(err, BZNA_E_TRUNCATED, "truncated");
        if (status != BZNA_OK)
            err->byte_offset = bytes - r.left;
        return status;
    }
    memcpy(s->file, data, (size_t)bytes);
    return id == AV_CODEC_ID_BMP ? bmp_check(s, err) : BZNA_OK;
}

static void still_end(still *s)
{
    avcodec_free_context(&s->decoder);
    av_frame_free(&s->frame);
    av_packet_free(&s->packet);
    free(s->file);
    free(s->line);
}

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
    shape->pixels = format->flags & AV_PIX_FMT_FLAG_PAL ? BZNA_PIXELS_INDEX :
                    format->nb_components < 3 ? BZNA_PIXELS_GRAY : BZNA_PIXELS_RGB;
    shape->interleaved = shape->pixels == BZNA_PIXELS_RGB;
    shape->depth = format->comp[0].depth > 8 ? 16 : 8;
    return AVERROR_EXIT;
}

/* Decodes the file to the frame; or only reads what it says of its shape, if that is not NULL. Where memory lacks,
 * libavcodec may call the picture damaged: so what fails is decoded again, and damage is found each time. */
static bzna_status still_run(still *s, enum AVCodecID id, bzna_codec_shape *shape, bzna_error *err)
{
    const AVCodec *codec = avcodec_find_decoder(id);
    char text[AV_ERROR_MAX_STRING_SIZE] = "";
    int result = codec ? -1 : AVERROR_DECODER_NOT_FOUND;

    s->packet->data = s->file;
    s->packet->size = (int)s->bytes;
    s->packet->flags = AV_PKT_FLAG_KEY;
    for (int i = 0; i < 2 && codec && result < 0 && result != AVERROR_EXIT; i++) {
        avcodec_free_context(&s->decoder);
        result = AVERROR(ENOMEM);
        if (!(s->decoder = avcodec_alloc_context3(codec)))
            break;
        s->decoder->thread_count = 1;
        s->decoder->err_recognition = AV_EF_EXPLODE | AV_EF_BITSTREAM | AV_EF_BUFFER | AV_EF_CRCCHECK;
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
    av_strerror(result, text, sizeof text);
    snprintf(err->message, sizeof err->message, "libavcodec: %s", text);
    err->native_code = result;
    return result == AVERROR(ENOMEM) ? BZNA_E_MEMORY :
           result == AVERROR_PATCHWELCOME || result == AVERROR_DECODER_NOT_FOUND ? BZNA_E_CODEC : BZNA_E_DECODE;
}

static bzna_status still_inspect(void *state, const void *data, uint64_t bytes, bzna_codec_shape *shape,
                                 bzna_error *err)
{
    const enum AVCodecID id = *(const enum AVCodecID *)state;
    still s;
    bzna_status status = still_begin(&s, id, data, bytes, err);

    if (status == BZNA_OK && id == AV_CODEC_ID_GIF) {
        shape->width = s.file[6] | (uint32_t)s.file[7] << 8;
        shape->height = s.file[8] | (uint32_t)s.file[9] << 8;
        shape->pixels = BZNA_PIXELS_INDEX;
    } else if (status == BZNA_OK) {
        status = still_run(&s, id, shape, err);
    }
    still_end(&s);
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

    if (!format || (uint32_t)frame->width != planes->width || (uint32_t)frame->height != planes->height ||
        count > format->nb_components)
        return 0;
    for (uint32_t i = 0; planes->palette && i < 768; i++)
        planes->palette[i] = s->decoder->codec_id == AV_CODEC_ID_GIF ? s->palette[i] :
            (uint8_t)(((const uint32_t *)(const void *)frame->data[1])[i / 3] >> (16 - 8 * (i % 3)));
    for (uint32_t y = needed->y0; y < needed->y1; y++)
        for (uint32_t c = 0; c < count; c++) {
            uint8_t *to = formats_row(planes, 0, y) + c * size;
            const uint32_t top = (1u << format->comp[c].depth) - 1;

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
    const enum AVCodecID id = *(const enum AVCodecID *)state;
    still s;
    bzna_status status = still_begin(&s, id, data, bytes, err);

    if (status == BZNA_OK && !(s.line = malloc(planes->width * sizeof *s.line)))
        status = bzna_formats_fail(err, BZNA_E_MEMORY, "out of memory");
    if (status == BZNA_OK)
        status = still_run(&s, id, NULL, err);
    if (status == BZNA_OK && !still_copy(&s, needed, planes))
        status = bzna_formats_fail(err, BZNA_E_MISMATCH, "libavcodec's picture is not what the header says");
    still_end(&s);
    return status;
}

/* One decoder reads all of PNM, and notices what is missing. */
static const enum AVCodecID still_ids[] = { AV_CODEC_ID_GIF, AV_CODEC_ID_BMP, AV_CODEC_ID_PPM };

#endif

static void still_fill(bzna_codec *codec, int kind)
{
    static const struct {
        const char *name, *extensions;
        int32_t   (*recognize)(void *user, const void *head, uint64_t bytes);
    } kinds[] = {
        { "GIF", "gif", gif_recognize }, { "BMP", "bmp", bmp_recognize },
        { "PNM", "ppm pgm pbm pnm pam", pnm_recognize },
    };

    *codec = (bzna_codec){
        .struct_size = sizeof *codec,
        .name = kinds[kind].name,
        .extensions = kinds[kind].extensions,
        .recognize = kinds[kind].recognize,
#ifdef BENZINA_FORMATS_NO_STILLS
        .user = (void *)"libavcodec",
        .unwrap = bzna_formats_lacks,
#else
        .user = (void *)(uintptr_t)&still_ids[kind],
        .inspect = still_inspect,
        .decode = still_decode,
#endif
    };
}

void bzna_formats_gif(bzna_codec *codec) { still_fill(codec, 0); }
void bzna_formats_bmp(bzna_codec *codec) { still_fill(codec, 1); }
void bzna_formats_pnm(bzna_codec *codec) { still_fill(codec, 2); }
