/* pack_encode.c - encodes one picture
 *
 * The full picture is placed in the top left corner of a frame whose edges are multiples of 512. A picture that does
 * not fit into 512x512 gets a thumbnail, longest edge 512, in a frame of 512x512. The rest of a frame repeats the
 * picture's last column and row. Each frame is encoded by an encoder of its own with one thread, so the bytes depend
 * neither on the pictures before it nor on how many are encoded at a time.
 *
 * A JPEG's frame is the picture itself. Codec "copy" keeps the bytes of JPEG files, once they were seen to decode, and
 * encodes others as JPEG; it makes no thumbnails, since a loader would take them for the pictures. */
#include "tool.h"

#include <stdlib.h>
#include <string.h>

#include <libavcodec/avcodec.h>
#include <libavutil/opt.h>

enum { FRAME_STEP_PX = 512 };

typedef struct pack_codec {
    const char *name, *encoder;       /* the option's, and libavcodec's */
    uint32_t    id;                   /* BZNA_CODEC_... */
    const char *profile;
} pack_codec;

static const pack_codec *codec_of(const tool_options *o)
{
    static const pack_codec codecs[] = {
        { "h265", "libx265", BZNA_CODEC_H265, "main" },  { "h264", "libx264", BZNA_CODEC_H264, "high" },
        { "av1", "libaom-av1", BZNA_CODEC_AV1, "main" }, { "jpeg", "mjpeg", BZNA_CODEC_JPEG, NULL },
        { "copy", "mjpeg", BZNA_CODEC_JPEG, NULL },
    };
    const pack_codec *c = codecs;
    while (strcmp(c->name, o->codec)) c++;
    return c;
}

/* Each encoder encodes one picture. keyint=2, since x265 marks streams of keyint=1 with the profile Main Intra, which
 * hardware decoders need not support; ref=1, so that a decoder keeps no more surfaces than it must. */
static const char x265_params[] =
    "log-level=none:pools=none:frame-threads=1:keyint=2:bframes=0:ref=1:rc-lookahead=0:cutree=0:info=0";
static const char x264_params[] = "keyint=1:bframes=0:ref=1:rc-lookahead=0:mbtree=0:threads=1";

/* libaom's speed for a preset's name; those above fast have its highest. */
static int64_t aom_speed(const char *preset)
{
    static const struct { const char *preset; int64_t speed; } table[] = {
        { "placebo", 0 }, { "veryslow", 1 }, { "slower", 2 }, { "slow", 4 }, { "medium", 6 }, { "fast", 7 },
    };
    for (size_t i = 0; i < LENGTH(table); i++)
        if (!strcmp(table[i].preset, preset)) return table[i].speed;
    return 8;
}

/* The quantization tables of ITU-T T.81, annex K, at a quality as libjpeg counts it. libavcodec multiplies them by the
 * quantizer, which is 1 here, and takes 8 for the first number. */
static void jpeg_set_quality(AVCodecContext *encoder, int64_t quality)
{
    static const uint8_t tables[2][64] = {
        { 16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56,
          14, 17, 22, 29, 51, 87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92,
          49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99 },
        { 17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99, 24, 26, 56, 99, 99, 99, 99, 99,
          47, 66, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
          99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99 },
    };
    int64_t percent = quality < 50 ? 5000 / quality : 200 - 2 * quality;
    for (int i = 0; i < 2; i++) {
        uint16_t *scaled = tool_checked(av_malloc(64 * sizeof *scaled));
        for (int k = 0; k < 64; k++) scaled[k] = (uint16_t)av_clip((int)((tables[i][k] * percent + 50) / 100), 1, 255);
        *(i ? &encoder->chroma_intra_matrix : &encoder->intra_matrix) = scaled;
    }
    encoder->flags |= AV_CODEC_FLAG_QSCALE | AV_CODEC_FLAG_BITEXACT;         /* the latter: without libavcodec's name */
    encoder->global_quality = 8 * FF_QP2LAMBDA;
}

/* What only this codec's encoder has. */
static void encoder_set(AVCodecContext *encoder, const pack_codec *c, const tool_options *o)
{
    void *own = encoder->priv_data;
    if (c->id == BZNA_CODEC_JPEG) {
        encoder->strict_std_compliance = FF_COMPLIANCE_UNOFFICIAL;            /* newer versions ask for it */
        jpeg_set_quality(encoder, o->quality);
        return;
    }
    av_opt_set_double(own, "crf", o->crf, 0);
    if (c->id == BZNA_CODEC_AV1) {
        av_opt_set(own, "usage", "allintra", 0);
        av_opt_set_int(own, "cpu-used", aom_speed(o->preset), 0);
        return;
    }
    av_opt_set(own, "preset", o->preset, 0);
    av_opt_set(own, "profile", c->profile, 0);
    if (o->tune_decode) av_opt_set(own, "tune", "fastdecode", 0);
    if (c->id == BZNA_CODEC_H265) av_opt_set(own, "x265-params", x265_params, 0);
    else                          av_opt_set(own, "x264-params", x264_params, 0);
}

/* NULL: this libavcodec has no such encoder. */
static AVCodecContext *encoder_alloc(const pack_codec *c, const tool_options *o, const AVFrame *frame)
{
    const AVCodec *codec = avcodec_find_encoder_by_name(c->encoder);
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
    encoder_set(encoder, c, o);
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
    const pack_codec *c = codec_of(o);
    AVCodecContext *encoder = encoder_alloc(c, o, frame);
    if (!encoder) return tool_format("this libavcodec has no %s", c->encoder);
    frame->pts = 0;
    frame->color_range = AVCOL_RANGE_JPEG;
    frame->pict_type = AV_PICTURE_TYPE_I;
    frame->quality = encoder->global_quality;
    int result = avcodec_open2(encoder, encoder->codec, NULL);
    if (result >= 0) result = avcodec_send_frame(encoder, frame);
    if (result >= 0) result = avcodec_send_frame(encoder, NULL);
    if (result >= 0) result = avcodec_receive_packet(encoder, packet);
    avcodec_free_context(&encoder);
    if (result >= 0 && av_packet_make_writable(packet) < 0) result = AVERROR(ENOMEM);
    if (result < 0) return pack_av_reason("cannot be encoded", result);
    if (c->id == BZNA_CODEC_H265 || c->id == BZNA_CODEC_H264) drop_sei(packet, c->id == BZNA_CODEC_H265);
    return NULL;
}

static int frame_edge(int picture_edge, uint32_t codec_id)
{
    if (codec_id == BZNA_CODEC_JPEG) return picture_edge;
    return (picture_edge + FRAME_STEP_PX - 1) / FRAME_STEP_PX * FRAME_STEP_PX;
}

/* Encodes a picture, scaled to width x height pixels, in a padded frame. */
static char *picture_encode(const tool_options *o, const AVFrame *picture, int width, int height, pack_encoded *result)
{
    AVFrame *frame = tool_checked(av_frame_alloc());
    uint32_t id = codec_of(o)->id;
    frame->format = AV_PIX_FMT_YUV420P;
    frame->width = frame_edge(width, id);
    frame->height = frame_edge(height, id);
    if (av_frame_get_buffer(frame, 0) < 0) exit(tool_error("out of memory"));
    *result = (pack_encoded){ NULL, id, width, height, frame->width, frame->height };
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

char *pack_encode_file(const tool_options *o, const pack_file *file, pack_encoded *input, pack_encoded *thumb)
{
    AVFrame *picture = NULL;
    AVPacket *bytes = tool_checked(av_packet_alloc());
    int is_copy = !strcmp(o->codec, "copy");
    char *reason = pack_picture_read(file->path, bytes, &picture);
    if (!reason && is_copy && bytes->size > 2 && !memcmp(bytes->data, "\xff\xd8\xff", 3)) {
        *input = (pack_encoded){ bytes, BZNA_CODEC_JPEG, 0, 0, 0, 0 };
        bytes = NULL;
    } else if (!reason) {
        reason = picture_encode(o, picture, picture->width, picture->height, input);
        if (!reason && !is_copy) reason = thumbnail_encode(o, picture, thumb);
    }
    av_packet_free(&bytes);
    av_frame_free(&picture);
    return reason;
}
