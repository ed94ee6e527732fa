/* picture_file.c - pictures in 8-bit RGB, as PPM, PNG and JPEG */
#include "tool.h"

#include <stdlib.h>
#include <string.h>

#include <libavcodec/avcodec.h>
#include <libswscale/swscale.h>

tool_rgb tool_rgb_alloc(uint32_t width, uint32_t height)
{
    return (tool_rgb){ tool_checked(calloc((size_t)width * height, 3)), width, height };
}

void tool_rgb_put_planes(tool_rgb *dst, uint32_t x, uint32_t y, const float *planes, uint32_t width, uint32_t height)
{
    size_t area = (size_t)width * height;
    for (uint32_t row = 0; row < height; row++) {
        uint8_t *out = dst->pixels + ((size_t)(y + row) * dst->width + x) * 3;
        const float *in = planes + (size_t)row * width;
        for (uint32_t column = 0; column < width; column++)
            for (uint32_t c = 0; c < 3; c++) {
                float value = in[c * area + column];
                *out++ = (uint8_t)(value >= 255.f ? 255 : value > 0.f ? (int)(value + 0.5f) : 0);
            }
    }
}

int tool_write_ppm(const char *path, const tool_rgb *picture)
{
    tool_file out;
    if (tool_file_create(&out, path)) return EXIT_INPUT;
    fprintf(out.file, "P6\n%" PRIu32 " %" PRIu32 "\n255\n", picture->width, picture->height);
    tool_file_write(&out, picture->pixels, 3 * (size_t)picture->width * picture->height);
    return tool_file_close(&out);
}

/* Copies a picture into a frame of the encoder's pixel format. Returns 0 or an AVERROR. */
static int frame_fill(AVFrame *frame, const tool_rgb *picture)
{
    const uint8_t *const planes[1] = { picture->pixels };
    const int row_bytes[1] = { (int)picture->width * 3 };
    struct SwsContext *convert = sws_getContext((int)picture->width, (int)picture->height, AV_PIX_FMT_RGB24,
                                                frame->width, frame->height, frame->format, SWS_ACCURATE_RND, NULL,
                                                NULL, NULL);
    if (!convert) return AVERROR(ENOMEM);
    sws_scale(convert, planes, row_bytes, 0, (int)picture->height, frame->data, frame->linesize);
    sws_freeContext(convert);
    return 0;
}

/* Sends one picture through libavcodec's encoder. Returns 0 or an AVERROR. */
static int picture_encode(AVCodecContext *encoder, const tool_rgb *picture, AVFrame *frame, AVPacket *packet)
{
    const int is_jpeg = encoder->codec_id == AV_CODEC_ID_MJPEG;
    frame->format = encoder->pix_fmt = is_jpeg ? AV_PIX_FMT_YUVJ420P : AV_PIX_FMT_RGB24;
    frame->width = encoder->width = (int)picture->width;
    frame->height = encoder->height = (int)picture->height;
    encoder->time_base = (AVRational){ 1, 1 };
    encoder->thread_count = 1;
    if (is_jpeg) {
        encoder->flags |= AV_CODEC_FLAG_QSCALE;
        frame->quality = encoder->global_quality = 4 * FF_QP2LAMBDA;
    }
    int result = avcodec_open2(encoder, encoder->codec, NULL);
    if (result >= 0) result = av_frame_get_buffer(frame, 0);
    if (result >= 0) result = frame_fill(frame, picture);
    if (result >= 0) result = avcodec_send_frame(encoder, frame);
    if (result >= 0) result = avcodec_send_frame(encoder, NULL);
    return result < 0 ? result : avcodec_receive_packet(encoder, packet);
}

/* An encoded picture, to be freed by av_packet_free; NULL after printing an error. name: what messages call it. */
static AVPacket *packet_of(const char *name, enum AVCodecID id, const tool_rgb *picture)
{
    const AVCodec *codec = avcodec_find_encoder(id);
    if (!codec) return tool_error("%s: this libavcodec has no %s encoder", name, avcodec_get_name(id)), NULL;
    AVCodecContext *encoder = tool_checked(avcodec_alloc_context3(codec));
    AVFrame *frame = tool_checked(av_frame_alloc());
    AVPacket *packet = tool_checked(av_packet_alloc());
    int status = picture_encode(encoder, picture, frame, packet);
    if (status < 0) {
        tool_error("%s: cannot be written: %s", name, av_err2str(status));
        av_packet_free(&packet);
    }
    av_frame_free(&frame);
    avcodec_free_context(&encoder);
    return packet;
}

int tool_write_png(const char *path, const tool_rgb *picture)
{
    AVPacket *packet = packet_of(path, AV_CODEC_ID_PNG, picture);
    tool_file out;
    int result = packet ? tool_file_create(&out, path) : EXIT_INPUT;
    if (result == EXIT_OK) {
        tool_file_write(&out, packet->data, (size_t)packet->size);
        result = tool_file_close(&out);
    }
    av_packet_free(&packet);
    return result;
}

int tool_jpeg_encode(const tool_rgb *picture, tool_buffer *jpeg, size_t *size)
{
    AVPacket *packet = packet_of("a picture of the page", AV_CODEC_ID_MJPEG, picture);
    if (!packet) return EXIT_INPUT;
    *size = (size_t)packet->size;
    tool_buffer_reserve(jpeg, *size);
    memcpy(jpeg->data, packet->data, *size);
    av_packet_free(&packet);
    return EXIT_OK;
}
