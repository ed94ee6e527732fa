/* pack_encode.c - encodes one picture
 *
 * The full picture is placed in the top left corner of a frame whose edges are multiples of 512. A picture that does
 * not fit into 512x512 gets a thumbnail, longest edge 512, in a frame of 512x512. The rest of a frame repeats the
 * picture's last column and row. Each frame is encoded by an encoder of its own with one thread, so the bytes depend
 * neither on the pictures before it nor on how many are encoded at a time. (x265 3.5 leaks 1.2 kB for each encoder: a
 * good gigabyte for a million pictures.) */
#include "tool.h"

#include <stdlib.h>
#include <string.h>

#include <libavcodec/avcodec.h>
#include <libavutil/opt.h>

enum { FRAME_STEP_PX = 512 };

static int is_h265(const tool_options *o) { return !strcmp(o->codec, "h265"); }

/* Each encoder encodes one picture. keyint=2, since x265 marks streams of keyint=1 with the profile Main Intra, which
 * hardware decoders need not support; ref=1, so that a decoder keeps no more surfaces than it must. */
static const char x265_params[] =
    "log-level=none:pools=none:frame-threads=1:keyint=2:bframes=0:ref=1:rc-lookahead=0:cutree=0:info=0";
static const char x264_params[] = "keyint=1:bframes=0:ref=1:rc-lookahead=0:mbtree=0:threads=1";

/* NULL: this libavcodec has no such encoder. */
static AVCodecContext *encoder_alloc(const tool_options *o, const AVFrame *frame)
{
    const AVCodec *codec = avcodec_find_encoder_by_name(is_h265(o) ? "libx265" : "libx264");
    if (!codec) return NULL;
    AVCodecContext *encoder = tool_checked(avcodec_alloc_context3(codec));
    encoder->width = frame->width;
    encoder->height = frame->height;
    encoder->pix_fmt = AV_PIX_FMT_YUV420P;
    encoder->time_base = (AVRational){ 1, 20 };
    encoder->framerate = (AVRational){ 20, 1 };
    encoder->thread_count = 1;
    encoder->color_range = AVCOL_RANGE_JPEG;
    encoder->color_primaries = AVCOL_PRI_BT709;
    encoder->color_trc = AVCOL_TRC_IEC61966_2_1;
    encoder->colorspace = AVCOL_SPC_BT470BG;
    encoder->chroma_sample_location = AVCHROMA_LOC_CENTER;
    av_opt_set(encoder->priv_data, "preset", o->preset, 0);
    av_opt_set_double(encoder->priv_data, "crf", o->crf, 0);
    if (is_h265(o)) av_opt_set(encoder->priv_data, "x265-params", x265_params, 0);
    else            av_opt_set(encoder->priv_data, "x264-params", x264_params, 0);
    av_opt_set(encoder->priv_data, "profile", is_h265(o) ? "main" : "high", 0);
    return encoder;
}

/* The next start code (00) 00 00 01 at or after data + from, or size. */
static size_t start_code(const uint8_t *data, size_t size, size_t from)
{
    for (size_t at = from; at + 3 <= size; at++)
        if (!data[at] && !data[at + 1] && data[at + 2] == 1) return at > from && !data[at - 1] ? at - 1 : at;
    return size;
}

/* Drops SEI from an Annex B access unit: the encoder's version and settings would be stored with every picture. */
static void drop_sei(AVPacket *packet, int h265)
{
    uint8_t *data = packet->data;
    size_t size = (size_t)packet->size, kept = 0;
    for (size_t at = start_code(data, size, 0); at < size;) {
        size_t next = start_code(data, size, at + 4), header_at = at + (data[at + 2] == 1 ? 3 : 4);
        uint8_t header = header_at < size ? data[header_at] : 0;
        int type = h265 ? header >> 1 & 63 : header & 31;
        if (h265 ? type != 39 && type != 40 : type != 6) {
            memmove(data + kept, data + at, next - at);
            kept += next - at;
        }
        at = next;
    }
    av_shrink_packet(packet, (int)kept);
}

/* Encodes one frame as one access unit, parameter sets included. Returns NULL or the reason. */
static char *frame_encode(const tool_options *o, AVFrame *frame, AVPacket *packet)
{
    AVCodecContext *encoder = encoder_alloc(o, frame);
    if (!encoder) return tool_format("this libavcodec has no %s", is_h265(o) ? "libx265" : "libx264");
    frame->pts = 0;
    frame->color_range = AVCOL_RANGE_JPEG;
    frame->pict_type = AV_PICTURE_TYPE_I;
    int result = avcodec_open2(encoder, encoder->codec, NULL);
    if (result >= 0) result = avcodec_send_frame(encoder, frame);
    if (result >= 0) result = avcodec_send_frame(encoder, NULL);
    if (result >= 0) result = avcodec_receive_packet(encoder, packet);
    avcodec_free_context(&encoder);
    if (result >= 0 && av_packet_make_writable(packet) < 0) result = AVERROR(ENOMEM);
    if (result < 0) return pack_av_reason("cannot be encoded", result);
    drop_sei(packet, is_h265(o));
    return NULL;
}

static int frame_edge(int picture_edge) { return (picture_edge + FRAME_STEP_PX - 1) / FRAME_STEP_PX * FRAME_STEP_PX; }

/* Encodes a picture, scaled to width x height pixels, in a padded frame. */
static char *picture_encode(const tool_options *o, const AVFrame *picture, int width, int height, pack_encoded *result)
{
    AVFrame *frame = tool_checked(av_frame_alloc());
    frame->format = AV_PIX_FMT_YUV420P;
    frame->width = frame_edge(width);
    frame->height = frame_edge(height);
    if (av_frame_get_buffer(frame, 0) < 0) exit(tool_error("out of memory"));
    *result = (pack_encoded){ NULL, width, height, frame->width, frame->height };
    char *reason = pack_frame_fill(picture, width, height, frame);
    if (!reason) {
        result->packet = tool_checked(av_packet_alloc());
        reason = frame_encode(o, frame, result->packet);
    }
    av_frame_free(&frame);
    return reason;
}

static char *thumbnail_encode(const tool_options *o, const AVFrame *picture, pack_encoded *thumb)
{
    int w = picture->width, h = picture->height, longest = w > h ? w : h;
    if (longest <= FRAME_STEP_PX) return NULL;
    w = w * FRAME_STEP_PX / longest;
    h = h * FRAME_STEP_PX / longest;
    return picture_encode(o, picture, w ? w : 1, h ? h : 1, thumb);
}

char *pack_encode_file(const tool_options *o, const char *path, pack_encoded *input, pack_encoded *thumb)
{
    AVFrame *picture = NULL;
    char *reason = pack_picture_read(path, &picture);
    if (!reason) reason = picture_encode(o, picture, picture->width, picture->height, input);
    if (!reason) reason = thumbnail_encode(o, picture, thumb);
    av_frame_free(&picture);
    return reason;
}
