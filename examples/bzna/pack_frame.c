/* pack_frame.c - converts a decoded picture to what is encoded
 *
 * Everything becomes 8-bit 4:2:0, full range, BT.601, with chroma samples in the middle of their pixels, as in JPEG. An
 * alpha channel is dropped, as ffmpeg and PIL's convert("RGB") do: transparent pixels show the color stored in them.
 * Color profiles are profile.c's.
 *
 * libswscale scales chroma planes to their new number of samples as a whole. Where an edge is odd, n chroma samples
 * become (n + 1) / 2, which would stretch them against luma by up to a pixel. So a frame is padded to whole chroma
 * blocks before its chroma is scaled. */
#include "tool.h"

#include <stdlib.h>
#include <string.h>

#include <libavcodec/avcodec.h>
#include <libavutil/opt.h>
#include <libavutil/pixdesc.h>
#include <libswscale/swscale.h>

static AVFrame *frame_alloc(enum AVPixelFormat format, int width, int height)
{
    AVFrame *frame = tool_checked(av_frame_alloc());
    frame->format = format;
    frame->width = width;
    frame->height = height;
    if (av_frame_get_buffer(frame, 0) < 0) exit(tool_error("out of memory"));
    return frame;
}

/* The "yuvj" formats are the "yuv" formats in full range. */
static enum AVPixelFormat without_yuvj(enum AVPixelFormat format, int *full_range)
{
    static const struct { enum AVPixelFormat yuvj, yuv; } table[] = {
        { AV_PIX_FMT_YUVJ420P, AV_PIX_FMT_YUV420P }, { AV_PIX_FMT_YUVJ422P, AV_PIX_FMT_YUV422P },
        { AV_PIX_FMT_YUVJ444P, AV_PIX_FMT_YUV444P }, { AV_PIX_FMT_YUVJ440P, AV_PIX_FMT_YUV440P },
        { AV_PIX_FMT_YUVJ411P, AV_PIX_FMT_YUV411P },
    };
    for (size_t i = 0; i < LENGTH(table); i++)
        if (table[i].yuvj == format) return *full_range = 1, table[i].yuv;
    return format;
}

/* Scales src into the top left width x height pixels of dst, full-range BT.601. Returns NULL or the reason. Chroma is
 * not shifted if both edges of both are multiples of a chroma block, or if neither size nor subsampling changes. */
static char *frame_scale(const AVFrame *src, AVFrame *dst, int width, int height, int filter)
{
    int full_range = src->color_range == AVCOL_RANGE_JPEG;
    enum AVPixelFormat format = without_yuvj((enum AVPixelFormat)src->format, &full_range);
    if (!sws_isSupportedInput(format))
        return tool_format("pixel format %s cannot be converted", av_get_pix_fmt_name(format));
    int has_no_matrix = src->colorspace == AVCOL_SPC_RGB || src->colorspace == AVCOL_SPC_UNSPECIFIED;
    const int *matrix = sws_getCoefficients(has_no_matrix ? SWS_CS_ITU601 : (int)src->colorspace);
    struct SwsContext *scaler = tool_checked(sws_alloc_context());
    av_opt_set_int(scaler, "srcw", src->width, 0);
    av_opt_set_int(scaler, "srch", src->height, 0);
    av_opt_set_int(scaler, "src_format", format, 0);
    av_opt_set_int(scaler, "src_range", full_range, 0);
    av_opt_set_int(scaler, "dstw", width, 0);
    av_opt_set_int(scaler, "dsth", height, 0);
    av_opt_set_int(scaler, "dst_format", dst->format, 0);
    av_opt_set_int(scaler, "dst_range", 1, 0);
    /* Chroma is assumed to be centered, as in JPEG, unless the frame says otherwise. */
    if (src->chroma_location == AVCHROMA_LOC_LEFT || src->chroma_location == AVCHROMA_LOC_TOPLEFT)
        av_opt_set_int(scaler, "src_h_chr_pos", 0, 0);
    if (src->chroma_location == AVCHROMA_LOC_TOP || src->chroma_location == AVCHROMA_LOC_TOPLEFT)
        av_opt_set_int(scaler, "src_v_chr_pos", 0, 0);
    av_opt_set_int(scaler, "sws_flags", filter | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INP | SWS_BITEXACT, 0);
    int result = sws_init_context(scaler, NULL, NULL);
    if (result >= 0) {
        sws_setColorspaceDetails(scaler, matrix, full_range, sws_getCoefficients(SWS_CS_ITU601), 1, 0, 1 << 16,
                                 1 << 16);
        result = sws_scale(scaler, (const uint8_t *const *)src->data, src->linesize, 0, src->height, dst->data,
                           dst->linesize);
    }
    sws_freeContext(scaler);
    return result < 0 ? pack_av_reason("cannot be converted", result) : NULL;
}

/* Whether a picture is what a 4:2:0 frame holds, so that its samples are copied, which is what libswscale does with
 * them in much more time. */
static int is_420_already(const AVFrame *picture)
{
    int full_range = picture->color_range == AVCOL_RANGE_JPEG;
    enum AVColorSpace matrix = picture->colorspace;
    return without_yuvj((enum AVPixelFormat)picture->format, &full_range) == AV_PIX_FMT_YUV420P && full_range &&
           (matrix == AVCOL_SPC_BT470BG || matrix == AVCOL_SPC_SMPTE170M || matrix == AVCOL_SPC_UNSPECIFIED);
}

static void frame_copy_420(const AVFrame *picture, AVFrame *dst)
{
    for (int plane = 0; plane < 3; plane++) {
        int shift = plane ? 1 : 0;
        for (int y = 0; y < AV_CEIL_RSHIFT(picture->height, shift); y++)
            memcpy(dst->data[plane] + (ptrdiff_t)y * dst->linesize[plane],
                   picture->data[plane] + (ptrdiff_t)y * picture->linesize[plane],
                   (size_t)AV_CEIL_RSHIFT(picture->width, shift));
    }
}

/* Whether chroma has planes of its own with fewer samples than luma. Of the decoders of pictures, only that of DDS
 * gives subsampled chroma without such planes. */
static int is_subsampled(const AVFrame *frame)
{
    const AVPixFmtDescriptor *format = av_pix_fmt_desc_get((enum AVPixelFormat)frame->format);
    return (format->flags & AV_PIX_FMT_FLAG_PLANAR) && (format->log2_chroma_w || format->log2_chroma_h);
}

typedef struct block { int width, height; } block;

/* The pixels that share a chroma sample, in the frame's own format and in 4:2:0. */
static block chroma_block(const AVFrame *frame)
{
    const AVPixFmtDescriptor *format = av_pix_fmt_desc_get((enum AVPixelFormat)frame->format);
    return (block){ 1 << FFMAX(format->log2_chroma_w, 1), 1 << FFMAX(format->log2_chroma_h, 1) };
}

static int has_whole_blocks(const AVFrame *frame)
{
    block b = chroma_block(frame);
    return frame->width % b.width == 0 && frame->height % b.height == 0;
}

/* Copies one component of a planar frame into a larger one: the last column and row are repeated. */
static void component_pad(const AVFrame *src, AVFrame *dst, int component)
{
    const AVPixFmtDescriptor *format = av_pix_fmt_desc_get((enum AVPixelFormat)src->format);
    int is_chroma = component == 1 || component == 2, plane = format->comp[component].plane;
    int shift_w = is_chroma ? format->log2_chroma_w : 0, shift_h = is_chroma ? format->log2_chroma_h : 0;
    int last = AV_CEIL_RSHIFT(src->height, shift_h) - 1;
    size_t step = (size_t)format->comp[component].step, width = step * (size_t)AV_CEIL_RSHIFT(src->width, shift_w);
    for (int y = 0; y < dst->height >> shift_h; y++) {
        uint8_t *row = dst->data[plane] + (ptrdiff_t)y * dst->linesize[plane];
        memcpy(row, src->data[plane] + (ptrdiff_t)(y < last ? y : last) * src->linesize[plane], width);
        for (size_t x = width; x < step * (size_t)(dst->width >> shift_w); x++) row[x] = row[x - step];
    }
}

/* Makes a planar frame's edges multiples of its chroma block. */
static void frame_pad(AVFrame **frame)
{
    const AVFrame *src = *frame;
    block b = chroma_block(src);
    if (has_whole_blocks(src)) return;
    AVFrame *dst = frame_alloc((enum AVPixelFormat)src->format, (src->width + b.width - 1) / b.width * b.width,
                               (src->height + b.height - 1) / b.height * b.height);
    dst->color_range = src->color_range;
    dst->colorspace = src->colorspace;
    int components = av_pix_fmt_desc_get((enum AVPixelFormat)src->format)->nb_components;
    for (int i = 0; i < components; i++) component_pad(src, dst, i);
    av_frame_free(frame);
    *frame = dst;
}

/* Replaces *frame by width x height pixels of 4:4:4. */
static char *frame_scale_to_444(AVFrame **frame, int width, int height)
{
    AVFrame *full = frame_alloc(AV_PIX_FMT_YUV444P, width, height);
    int same_size = width == (*frame)->width && height == (*frame)->height;
    char *reason = frame_scale(*frame, full, width, height, same_size ? SWS_AREA : SWS_LANCZOS);
    full->color_range = AVCOL_RANGE_JPEG;
    full->colorspace = AVCOL_SPC_BT470BG;
    av_frame_free(frame);
    *frame = full;
    return reason;
}

/* The same without shifting chroma, whatever the edges are. */
static char *frame_to_444(AVFrame **frame, int width, int height)
{
    int w = (*frame)->width, h = (*frame)->height;
    if (is_subsampled(*frame) && !has_whole_blocks(*frame)) {
        frame_pad(frame);
        char *reason = frame_scale_to_444(frame, (*frame)->width, (*frame)->height);
        (*frame)->width = w;
        (*frame)->height = h;
        if (reason || (w == width && h == height)) return reason;
    }
    return frame_scale_to_444(frame, width, height);
}

/* Scales a picture to width x height pixels in the top left corner of a 4:2:0 frame, without shifting chroma. Pixels
 * beyond them are undefined. Returns NULL or the reason. */
static char *frame_scale_to_420(const AVFrame *picture, AVFrame *dst, int width, int height)
{
    int same_size = width == picture->width && height == picture->height, is_even = !(width % 2 || height % 2);
    if (same_size && is_420_already(picture)) return frame_copy_420(picture, dst), NULL;
    int direct = same_size ? is_even || is_subsampled(picture)
                           : is_even && (!is_subsampled(picture) || has_whole_blocks(picture));
    AVFrame *src = tool_checked(av_frame_clone(picture));
    char *reason = direct ? NULL : frame_to_444(&src, width, height);
    if (!reason && (same_size || !direct)) {
        frame_pad(&src);
        width = src->width;
        height = src->height;
    }
    if (!reason) reason = frame_scale(src, dst, width, height, same_size ? SWS_AREA : SWS_LANCZOS);
    av_frame_free(&src);
    return reason;
}

/* A 4:4:4 frame, rotated and mirrored as an EXIF orientation says. */
static AVFrame *frame_rotate(const AVFrame *src, int orientation)
{
    int swap = orientation >= 5, w = src->width, h = src->height;
    int flip_x = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;      /* in src */
    int flip_y = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    AVFrame *dst = frame_alloc((enum AVPixelFormat)src->format, swap ? h : w, swap ? w : h);
    dst->color_range = src->color_range;
    dst->colorspace = src->colorspace;
    for (int plane = 0; plane < 3; plane++)
        for (int y = 0; y < dst->height; y++)
            for (int x = 0; x < dst->width; x++) {
                int from_x = swap ? y : x, from_y = swap ? x : y;
                if (flip_x) from_x = w - 1 - from_x;
                if (flip_y) from_y = h - 1 - from_y;
                const uint8_t *from = src->data[plane] + (ptrdiff_t)from_y * src->linesize[plane] + from_x;
                dst->data[plane][(ptrdiff_t)y * dst->linesize[plane] + x] = *from;
            }
    return dst;
}

/* In 4:4:4, so that no chroma sample has to be split. */
char *pack_frame_crop(AVFrame **frame)
{
    int left = (int)(*frame)->crop_left, top = (int)(*frame)->crop_top;
    if (!left && !top) return NULL;
    char *reason = frame_to_444(frame, (*frame)->width, (*frame)->height);
    for (int plane = 0; plane < 3 && !reason; plane++)
        (*frame)->data[plane] += (ptrdiff_t)top * (*frame)->linesize[plane] + left;
    (*frame)->width -= left;
    (*frame)->height -= top;
    (*frame)->crop_left = (*frame)->crop_top = 0;
    return reason;
}

/* In 4:4:4, too. */
char *pack_frame_orient(AVFrame **frame, int orientation)
{
    if (orientation == 1) return NULL;
    char *reason = frame_to_444(frame, (*frame)->width, (*frame)->height);
    if (reason) return reason;
    AVFrame *upright = frame_rotate(*frame, orientation);
    av_frame_free(frame);
    *frame = upright;
    return NULL;
}

/* Repeats the last column and row of the top left width x height pixels over the rest of a frame. */
static void frame_extend_edges(AVFrame *frame, int width, int height)
{
    for (int plane = 0; plane < 3; plane++) {
        int shift = plane && frame->format == AV_PIX_FMT_YUV420P ? 1 : 0;
        int w = AV_CEIL_RSHIFT(width, shift), h = AV_CEIL_RSHIFT(height, shift);
        int frame_w = AV_CEIL_RSHIFT(frame->width, shift), frame_h = AV_CEIL_RSHIFT(frame->height, shift);
        ptrdiff_t pitch = frame->linesize[plane];
        uint8_t *top = frame->data[plane], *last = top + (h - 1) * pitch;
        for (uint8_t *row = top; row <= last; row += pitch) memset(row + w, row[w - 1], (size_t)(frame_w - w));
        for (int y = h; y < frame_h; y++) memcpy(top + y * pitch, last, (size_t)frame_w);
    }
}

/* The same into a 4:4:4 frame. */
static char *frame_scale_into_444(const AVFrame *picture, AVFrame *dst, int width, int height)
{
    AVFrame *src = tool_checked(av_frame_clone(picture));
    char *reason = frame_to_444(&src, width, height);
    for (int plane = 0; plane < 3 && !reason; plane++)
        for (int y = 0; y < height; y++)
            memcpy(dst->data[plane] + (ptrdiff_t)y * dst->linesize[plane],
                   src->data[plane] + (ptrdiff_t)y * src->linesize[plane], (size_t)width);
    av_frame_free(&src);
    return reason;
}

/* Over the background, in RGB without alpha. */
static AVFrame *frame_blend(const AVFrame *rgba, const uint8_t background[3])
{
    AVFrame *dst = frame_alloc(AV_PIX_FMT_RGB24, rgba->width, rgba->height);
    for (int y = 0; y < rgba->height; y++) {
        const uint8_t *from = rgba->data[0] + (ptrdiff_t)y * rgba->linesize[0];
        uint8_t *to = dst->data[0] + (ptrdiff_t)y * dst->linesize[0];
        for (int x = 0; x < rgba->width; x++, from += 4)
            for (int c = 0; c < 3; c++)
                *to++ = (uint8_t)((from[c] * from[3] + background[c] * (255 - from[3]) + 127) / 255);
    }
    dst->color_range = AVCOL_RANGE_JPEG;
    dst->colorspace = AVCOL_SPC_RGB;
    return dst;
}

char *pack_frame_to_rgba(AVFrame **frame)
{
    AVFrame *rgba = frame_alloc(AV_PIX_FMT_RGBA, (*frame)->width, (*frame)->height);
    char *reason = frame_scale(*frame, rgba, rgba->width, rgba->height, SWS_AREA);
    rgba->color_range = AVCOL_RANGE_JPEG;
    rgba->colorspace = AVCOL_SPC_RGB;
    av_frame_free(frame);
    *frame = rgba;
    return reason;
}

char *pack_frame_blend(AVFrame **frame, const uint8_t background[3])
{
    const AVPixFmtDescriptor *format = av_pix_fmt_desc_get((enum AVPixelFormat)(*frame)->format);
    if (!(format->flags & AV_PIX_FMT_FLAG_ALPHA) && (*frame)->format != AV_PIX_FMT_PAL8) return NULL;
    AVFrame *rgba = frame_alloc(AV_PIX_FMT_RGBA, (*frame)->width, (*frame)->height);
    char *reason = frame_scale(*frame, rgba, rgba->width, rgba->height, SWS_AREA);
    if (!reason) {
        AVFrame *blended = frame_blend(rgba, background);
        av_frame_free(frame);
        *frame = blended;
    }
    av_frame_free(&rgba);
    return reason;
}

char *pack_frame_fill(const AVFrame *picture, int width, int height, AVFrame *dst)
{
    char *reason = dst->format == AV_PIX_FMT_YUV420P ? frame_scale_to_420(picture, dst, width, height)
                                                     : frame_scale_into_444(picture, dst, width, height);
    if (!reason) frame_extend_edges(dst, width, height);
    return reason;
}
