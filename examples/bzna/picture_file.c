/* picture_file.c - pictures in 8-bit RGB, as PPM and PNG */
#include "tool.h"

#include <stdlib.h>
#include <string.h>

#include <libavcodec/avcodec.h>

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

/* Sends one picture through libavcodec's encoder of PNG. Returns 0 or an AVERROR. */
static int png_encode(AVCodecContext *encoder, const tool_rgb *picture, AVFrame *frame, AVPacket *packet)
{
    frame->format = encoder->pix_fmt = AV_PIX_FMT_RGB24;
    frame->width = encoder->width = (int)picture->width;
    frame->height = encoder->height = (int)picture->height;
    encoder->time_base = (AVRational){ 1, 1 };
    encoder->thread_count = 1;
    int result = avcodec_open2(encoder, encoder->codec, NULL);
    if (result >= 0) result = av_frame_get_buffer(frame, 0);
    for (int y = 0; result >= 0 && y < frame->height; y++)
        memcpy(frame->data[0] + (ptrdiff_t)y * frame->linesize[0], picture->pixels + (size_t)y * picture->width * 3,
               3 * (size_t)picture->width);
    if (result >= 0) result = avcodec_send_frame(encoder, frame);
    if (result >= 0) result = avcodec_send_frame(encoder, NULL);
    return result < 0 ? result : avcodec_receive_packet(encoder, packet);
}

int tool_write_png(const char *path, const tool_rgb *picture)
{
    const AVCodec *codec = avcodec_find_encoder(AV_CODEC_ID_PNG);
    if (!codec) return tool_error("%s: this libavcodec has no encoder of PNG", path);
    AVCodecContext *encoder = tool_checked(avcodec_alloc_context3(codec));
    AVFrame *frame = tool_checked(av_frame_alloc());
    AVPacket *packet = tool_checked(av_packet_alloc());
    tool_file out;
    int status = png_encode(encoder, picture, frame, packet), result;
    if (status < 0) result = tool_error("%s: cannot be written: %s", path, av_err2str(status));
    else            result = tool_file_create(&out, path);
    if (result == EXIT_OK) {
        tool_file_write(&out, packet->data, (size_t)packet->size);
        result = tool_file_close(&out);
    }
    av_packet_free(&packet);
    av_frame_free(&frame);
    avcodec_free_context(&encoder);
    return result;
}
