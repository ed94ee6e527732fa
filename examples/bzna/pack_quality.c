/* pack_quality.c - what encoding has cost a picture: PSNR and SSIM
 *
 * The coded picture is decoded and compared with what the encoder was given, in the picture's own pixels, without
 * padding: what the conversion to 8-bit Y'CbCr has cost before is not in it. PSNR is over all samples of the three
 * planes, SSIM over luma in windows of 8x8 pixels, every fourth column and row: both are those of ffmpeg's filters psnr
 * (average) and ssim (Y). */
#include "tool.h"

#include <math.h>
#include <stdlib.h>

#include <libavcodec/avcodec.h>

static char *decode(const AVPacket *packet, enum AVCodecID id, AVFrame *frame)
{
    const AVCodec *codec = avcodec_find_decoder(id);
    if (!codec) return tool_format("--report: this libavcodec cannot decode %s", avcodec_get_name(id));
    AVCodecContext *decoder = tool_checked(avcodec_alloc_context3(codec));
    decoder->thread_count = 1;
    int result = avcodec_open2(decoder, codec, NULL);
    if (result >= 0) result = avcodec_send_packet(decoder, packet);
    if (result >= 0) result = avcodec_send_packet(decoder, NULL);
    if (result >= 0) result = avcodec_receive_frame(decoder, frame);
    avcodec_free_context(&decoder);
    return result < 0 ? pack_av_reason("what was encoded cannot be decoded", result) : NULL;
}

static double psnr(const AVFrame *a, const AVFrame *b, int width, int height)
{
    double squares = 0, samples = 0;
    for (int plane = 0; plane < 3; plane++) {
        int shift = plane && a->format == AV_PIX_FMT_YUV420P ? 1 : 0;
        int w = AV_CEIL_RSHIFT(width, shift), h = AV_CEIL_RSHIFT(height, shift);
        for (int y = 0; y < h; y++) {
            const uint8_t *p = a->data[plane] + (ptrdiff_t)y * a->linesize[plane];
            const uint8_t *q = b->data[plane] + (ptrdiff_t)y * b->linesize[plane];
            int64_t row = 0;
            for (int x = 0; x < w; x++) row += (p[x] - q[x]) * (p[x] - q[x]);
            squares += (double)row;
        }
        samples += (double)w * h;
    }
    const double most = PACK_PSNR_MAX;
    return squares > 0 ? fmin(10 * log10(255. * 255 * samples / squares), most) : most;
}

/* Of one window of 8x8 pixels. */
static double window_ssim(const uint8_t *p, ptrdiff_t pitch_p, const uint8_t *q, ptrdiff_t pitch_q)
{
    const double c1 = .01 * .01 * 255 * 255 * 64, c2 = .03 * .03 * 255 * 255 * 64 * 63;
    double a = 0, b = 0, squares = 0, products = 0;
    for (int y = 0; y < 8; y++, p += pitch_p, q += pitch_q)
        for (int x = 0; x < 8; x++) {
            a += p[x];
            b += q[x];
            squares += p[x] * p[x] + q[x] * q[x];
            products += p[x] * q[x];
        }
    double variances = squares * 64 - a * a - b * b, covariance = products * 64 - a * b;
    return (2 * a * b + c1) * (2 * covariance + c2) / ((a * a + b * b + c1) * (variances + c2));
}

/* Pictures with an edge below 8 have no window, and count as 1. */
static double ssim(const AVFrame *a, const AVFrame *b, int width, int height)
{
    double sum = 0;
    int64_t count = 0;
    for (int y = 0; y + 8 <= height; y += 4)
        for (int x = 0; x + 8 <= width; x += 4, count++)
            sum += window_ssim(a->data[0] + (ptrdiff_t)y * a->linesize[0] + x, a->linesize[0],
                               b->data[0] + (ptrdiff_t)y * b->linesize[0] + x, b->linesize[0]);
    return count ? sum / (double)count : 1;
}

char *pack_quality_measure(const AVFrame *source, const AVPacket *packet, uint32_t codec, pack_encoded *e)
{
    enum AVCodecID id = codec == BZNA_CODEC_H265 ? AV_CODEC_ID_HEVC : codec == BZNA_CODEC_H264 ? AV_CODEC_ID_H264 :
                        codec == BZNA_CODEC_AV1 ? AV_CODEC_ID_AV1 : AV_CODEC_ID_MJPEG;
    AVFrame *decoded = tool_checked(av_frame_alloc());
    char *reason = decode(packet, id, decoded);
    if (!reason && (decoded->width < e->width || decoded->height < e->height))
        reason = tool_format("what was encoded is smaller than the picture");
    if (!reason) {
        e->psnr = psnr(source, decoded, e->width, e->height);
        e->ssim = ssim(source, decoded, e->width, e->height);
        e->is_measured = 1;
    }
    av_frame_free(&decoded);
    return reason;
}
