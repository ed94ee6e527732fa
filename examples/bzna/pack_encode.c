/* pack_encode.c - coding */
#include "tool.h"

#include <string.h>

#include <libavcodec/avcodec.h>
#include <libavutil/opt.h>

/* The full picture stands in the top left corner of a frame whose edges are multiples of 512, a picture that does not fit 512x512
 * gets a thumbnail, longest edge 512, in a frame of 512x512; the rest of a frame repeats the picture's last column and row. Each
 * frame is coded alone, by an encoder of its own with one thread: so the bytes depend neither on the pictures before it nor on how
 * many run side by side. (x265 3.5 never gives back 1.2 kB of each encoder: a million pictures cost a good gigabyte.) */
enum { FRAME_STEP_PX = 512 };

static AVCodecContext *encoder_make(const options *o, const AVFrame *frame)
{
    int h265 = !strcmp(o->codec, "h265");
    const AVCodec *codec = avcodec_find_encoder_by_name(h265 ? "libx265" : "libx264");
    if (!codec) return NULL;
    AVCodecContext *encoder = checked(avcodec_alloc_context3(codec));
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
    /* Each encoder gets one picture. keyint=2, since x265 marks streams of keyint=1 with the profile Main Intra, which hardware
     * decoders need not know; and ref=1, so that a decoder keeps no more surfaces than it must. */
    if (h265) av_opt_set(encoder->priv_data, "x265-params",
                         "log-level=none:pools=none:frame-threads=1:keyint=2:bframes=0:ref=1:rc-lookahead=0:cutree=0:info=0", 0);
    else      av_opt_set(encoder->priv_data, "x264-params", "keyint=1:bframes=0:ref=1:rc-lookahead=0:mbtree=0:threads=1", 0);
    av_opt_set(encoder->priv_data, "profile", h265 ? "main" : "high", 0);
    return encoder;
}

/* The next start code (00) 00 00 01 at or after data + from, or size. */
static size_t start_code(const uint8_t *data, size_t size, size_t from)
{
    for (size_t at = from; at + 3 <= size; at++)
        if (!data[at] && !data[at + 1] && data[at + 2] == 1) return at > from && !data[at - 1] ? at - 1 : at;
    return size;
}

/* Drops SEI from an Annex B access unit: the encoder's banner would be stored with every picture. */
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

/* Codes one frame as one access unit, parameter sets included. Returns NULL or the reason. */
static char *frame_encode(const options *o, AVFrame *frame, AVPacket *packet)
{
    AVCodecContext *encoder = encoder_make(o, frame);
    if (!encoder) return text_make("this libavcodec has no %s", !strcmp(o->codec, "h265") ? "libx265" : "libx264");
    frame->pts = 0;
    frame->color_range = AVCOL_RANGE_JPEG;
    frame->pict_type = AV_PICTURE_TYPE_I;
    int result = avcodec_open2(encoder, encoder->codec, NULL);
    if (result >= 0) result = avcodec_send_frame(encoder, frame);
    if (result >= 0) result = avcodec_send_frame(encoder, NULL);
    if (result >= 0) result = avcodec_receive_packet(encoder, packet);
    avcodec_free_context(&encoder);
    if (result >= 0 && av_packet_make_writable(packet) < 0) result = AVERROR(ENOMEM);
    if (result < 0) return av_reason("cannot be encoded", result);
    drop_sei(packet, !strcmp(o->codec, "h265"));
    return NULL;
}

/* A picture of any size as width x height pixels in a padded frame. Returns NULL or the reason. */
static char *picture_code(const options *o, const AVFrame *picture, int width, int height, coded *result)
{
    result->width = width;
    result->height = height;
    result->frame_width = (width + FRAME_STEP_PX - 1) / FRAME_STEP_PX * FRAME_STEP_PX;
    result->frame_height = (height + FRAME_STEP_PX - 1) / FRAME_STEP_PX * FRAME_STEP_PX;
    AVFrame *frame = frame_make(AV_PIX_FMT_YUV420P, result->frame_width, result->frame_height);
    char *reason = frame_put(picture, frame, width, height);
    if (!reason) {
        frame_smear(frame, width, height);
        result->packet = checked(av_packet_alloc());
        reason = frame_encode(o, frame, result->packet);
    }
    av_frame_free(&frame);
    return reason;
}

static char *picture_code_both(const options *o, const AVFrame *picture, coded *input, coded *thumb)
{
    int w = picture->width, h = picture->height, longest = w > h ? w : h;
    char *reason = picture_code(o, picture, w, h, input);
    if (reason || longest <= FRAME_STEP_PX) return reason;
    int thumb_w = w * FRAME_STEP_PX / longest, thumb_h = h * FRAME_STEP_PX / longest;
    return picture_code(o, picture, thumb_w ? thumb_w : 1, thumb_h ? thumb_h : 1, thumb);
}

/* A file as a coded picture and, when it does not fit, a thumbnail. Returns NULL or the reason. */
char *file_code(const options *o, const char *path, coded *input, coded *thumb)
{
    AVPacket *file = checked(av_packet_alloc());
    AVFrame *picture = checked(av_frame_alloc());
    av_complaint[0] = 0;
    char *reason = file_read(path, file);
    if (!reason) reason = tiff_refuse(file->data, (size_t)file->size);
    if (!reason) reason = file_decode(file, path, picture);
    if (!reason) reason = frame_orient(&picture, file_orientation(file->data, (size_t)file->size));
    if (!reason) reason = picture_code_both(o, picture, input, thumb);
    av_frame_free(&picture);
    av_packet_free(&file);
    return reason;
}
