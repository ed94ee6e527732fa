/* pack_frame.c - frames */
#include "tool.h"

#include <stdlib.h>
#include <string.h>

#include <libavcodec/avcodec.h>
#include <libavutil/opt.h>
#include <libavutil/pixdesc.h>
#include <libswscale/swscale.h>

static int half_up(int size) { return (size + 1) / 2; }

AVFrame *frame_make(enum AVPixelFormat format, int width, int height)
{
    AVFrame *frame = checked(av_frame_alloc());
    frame->format = format;
    frame->width = width;
    frame->height = height;
    if (av_frame_get_buffer(frame, 0) < 0) exit(complain("out of memory"));
    return frame;
}

/* A "yuvj" format is its "yuv" format in full range. */
static enum AVPixelFormat plain_format(enum AVPixelFormat format, int *full_range)
{
    static const struct { enum AVPixelFormat old, plain; } table[] = {
        { AV_PIX_FMT_YUVJ420P, AV_PIX_FMT_YUV420P }, { AV_PIX_FMT_YUVJ422P, AV_PIX_FMT_YUV422P },
        { AV_PIX_FMT_YUVJ444P, AV_PIX_FMT_YUV444P }, { AV_PIX_FMT_YUVJ440P, AV_PIX_FMT_YUV440P },
        { AV_PIX_FMT_YUVJ411P, AV_PIX_FMT_YUV411P },
    };
    for (size_t i = 0; i < LENGTH(table); i++)
        if (table[i].old == format) return *full_range = 1, table[i].plain;
    return format;
}

/* Scales src into the top left width x height pixels of dst, full-range BT.601. Returns NULL or the reason. Chroma
 * stays where it is if both edges of both are multiples of what a chroma sample stands for, or if neither size nor
 * subsampling changes: see frame_put. */
static char *frame_scale(const AVFrame *src, AVFrame *dst, int width, int height, int filter)
{
    int full_range = src->color_range == AVCOL_RANGE_JPEG;
    enum AVPixelFormat format = plain_format((enum AVPixelFormat)src->format, &full_range);
    if (!sws_isSupportedInput(format)) return text_make("pixel format %s cannot be converted", av_get_pix_fmt_name(format));
    int matrix = src->colorspace == AVCOL_SPC_RGB || src->colorspace == AVCOL_SPC_UNSPECIFIED ? SWS_CS_ITU601 : (int)src->colorspace;
    struct SwsContext *scaler = checked(sws_alloc_context());
    av_opt_set_int(scaler, "srcw", src->width, 0);
    av_opt_set_int(scaler, "srch", src->height, 0);
    av_opt_set_int(scaler, "src_format", format, 0);
    av_opt_set_int(scaler, "src_range", full_range, 0);
    av_opt_set_int(scaler, "dstw", width, 0);
    av_opt_set_int(scaler, "dsth", height, 0);
    av_opt_set_int(scaler, "dst_format", dst->format, 0);
    av_opt_set_int(scaler, "dst_range", 1, 0);
    av_opt_set_int(scaler, "sws_flags", filter | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INP | SWS_BITEXACT, 0);
    int result = sws_init_context(scaler, NULL, NULL);
    if (result >= 0) {
        sws_setColorspaceDetails(scaler, sws_getCoefficients(matrix), full_range, sws_getCoefficients(SWS_CS_ITU601), 1,
                                 0, 1 << 16, 1 << 16);
        result = sws_scale(scaler, (const uint8_t *const *)src->data, src->linesize, 0, src->height, dst->data, dst->linesize);
    }
    sws_freeContext(scaler);
    return result < 0 ? av_reason("cannot be converted", result) : NULL;
}

/* Whether chroma has planes of its own with fewer samples than luma. Of decoders of pictures, only DDS's packs it. */
static int is_subsampled(const AVFrame *frame)
{
    const AVPixFmtDescriptor *format = av_pix_fmt_desc_get((enum AVPixelFormat)frame->format);
    return (format->flags & AV_PIX_FMT_FLAG_PLANAR) && (format->log2_chroma_w || format->log2_chroma_h);
}

typedef struct block { int width, height; } block;

/* The pixels that a whole number of chroma samples stands for, both in the frame's own format and in 4:2:0. */
static block chroma_block(const AVFrame *frame)
{
    const AVPixFmtDescriptor *format = av_pix_fmt_desc_get((enum AVPixelFormat)frame->format);
    return (block){ 1 << FFMAX(format->log2_chroma_w, 1), 1 << FFMAX(format->log2_chroma_h, 1) };
}

static int is_whole(const AVFrame *frame)
{
    block b = chroma_block(frame);
    return frame->width % b.width == 0 && frame->height % b.height == 0;
}

/* Makes a planar frame's edges multiples of its chroma block: the last column and row are repeated. */
static void frame_pad(AVFrame **frame)
{
    const AVFrame *src = *frame;
    const AVPixFmtDescriptor *format = av_pix_fmt_desc_get((enum AVPixelFormat)src->format);
    block b = chroma_block(src);
    if (is_whole(src)) return;
    AVFrame *dst = frame_make((enum AVPixelFormat)src->format, (src->width + b.width - 1) / b.width * b.width,
                              (src->height + b.height - 1) / b.height * b.height);
    dst->color_range = src->color_range;
    dst->colorspace = src->colorspace;
    for (int i = 0; i < format->nb_components; i++) {
        int plane = format->comp[i].plane, shift_w = i == 1 || i == 2 ? format->log2_chroma_w : 0;
        int shift_h = i == 1 || i == 2 ? format->log2_chroma_h : 0, last = AV_CEIL_RSHIFT(src->height, shift_h) - 1;
        size_t step = (size_t)format->comp[i].step, width = step * (size_t)AV_CEIL_RSHIFT(src->width, shift_w);
        for (int y = 0; y < dst->height >> shift_h; y++) {
            uint8_t *row = dst->data[plane] + (ptrdiff_t)y * dst->linesize[plane];
            memcpy(row, src->data[plane] + (ptrdiff_t)(y < last ? y : last) * src->linesize[plane], width);
            for (size_t x = width; x < step * (size_t)(dst->width >> shift_w); x++) row[x] = row[x - step];
        }
    }
    av_frame_free(frame);
    *frame = dst;
}

/* Replaces *frame by width x height pixels of 4:4:4. */
static char *frame_resize(AVFrame **frame, int width, int height)
{
    AVFrame *full = frame_make(AV_PIX_FMT_YUV444P, width, height);
    int same_size = width == (*frame)->width && height == (*frame)->height;
    char *reason = frame_scale(*frame, full, width, height, same_size ? SWS_AREA : SWS_LANCZOS);
    full->color_range = AVCOL_RANGE_JPEG;
    full->colorspace = AVCOL_SPC_BT470BG;
    av_frame_free(frame);
    *frame = full;
    return reason;
}

/* The same, and chroma stays where it is, whatever the edges. */
static char *frame_full(AVFrame **frame, int width, int height)
{
    int w = (*frame)->width, h = (*frame)->height;
    if (is_subsampled(*frame) && !is_whole(*frame)) {
        frame_pad(frame);
        char *reason = frame_resize(frame, (*frame)->width, (*frame)->height);
        (*frame)->width = w;
        (*frame)->height = h;
        if (reason || (w == width && h == height)) return reason;
    }
    return frame_resize(frame, width, height);
}

/* Puts a picture into the top left corner of a 4:2:0 frame as width x height pixels; beyond them, anything may stand.
 * Returns NULL or the reason. Where an edge is odd, n chroma samples would be scaled to (n + 1) / 2, which stretches
 * them by up to a pixel: then the picture is made even before its chroma is halved, and another size is made in 4:4:4
 * first. */
char *frame_put(const AVFrame *picture, AVFrame *dst, int width, int height)
{
    int same_size = width == picture->width && height == picture->height, even = width % 2 == 0 && height % 2 == 0;
    int direct = same_size ? even || is_subsampled(picture) : even && (!is_subsampled(picture) || is_whole(picture));
    AVFrame *ready = checked(av_frame_clone(picture));
    char *reason = direct ? NULL : frame_full(&ready, width, height);
    if (!reason && (same_size || !direct)) {
        frame_pad(&ready);
        width = ready->width;
        height = ready->height;
    }
    if (!reason) reason = frame_scale(ready, dst, width, height, same_size ? SWS_AREA : SWS_LANCZOS);
    av_frame_free(&ready);
    return reason;
}

/* Turns a 4:4:4 frame as an EXIF orientation asks. */
static AVFrame *frame_turn(const AVFrame *src, int orientation)
{
    int swap = orientation >= 5, w = src->width, h = src->height;
    int flip_x = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;      /* of the source */
    int flip_y = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    AVFrame *dst = frame_make((enum AVPixelFormat)src->format, swap ? h : w, swap ? w : h);
    dst->color_range = src->color_range;
    dst->colorspace = src->colorspace;
    for (int plane = 0; plane < 3; plane++)
        for (int y = 0; y < dst->height; y++)
            for (int x = 0; x < dst->width; x++) {
                int from_x = swap ? y : x, from_y = swap ? x : y;
                if (flip_x) from_x = w - 1 - from_x;
                if (flip_y) from_y = h - 1 - from_y;
                dst->data[plane][y * dst->linesize[plane] + x] = src->data[plane][from_y * src->linesize[plane] + from_x];
            }
    return dst;
}

/* Replaces *frame by the turned picture, in 4:4:4 so that no chroma sample has to be split. */
char *frame_orient(AVFrame **frame, int orientation)
{
    if (orientation == 1) return NULL;
    char *reason = frame_full(frame, (*frame)->width, (*frame)->height);
    if (reason) return reason;
    AVFrame *turned = frame_turn(*frame, orientation);
    av_frame_free(frame);
    *frame = turned;
    return NULL;
}

/* Repeats the last column and row of the top left width x height pixels over the rest of a 4:2:0 frame. */
void frame_smear(AVFrame *frame, int width, int height)
{
    for (int plane = 0; plane < 3; plane++) {
        int w = plane ? half_up(width) : width, h = plane ? half_up(height) : height;
        int frame_w = plane ? half_up(frame->width) : frame->width, frame_h = plane ? half_up(frame->height) : frame->height;
        ptrdiff_t pitch = frame->linesize[plane];
        uint8_t *top = frame->data[plane], *last = top + (h - 1) * pitch;
        for (uint8_t *row = top; row <= last; row += pitch) memset(row + w, row[w - 1], (size_t)(frame_w - w));
        for (int y = h; y < frame_h; y++) memcpy(top + y * pitch, last, (size_t)frame_w);
    }
}
