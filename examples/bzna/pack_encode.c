/* pack_encode.c - encodes one picture
 *
 * The full picture is placed in the top left corner of a frame whose edges are multiples of 512, or of what --frame
 * says. A picture whose longest edge is more than 512, or what --thumb says, gets a thumbnail of that size. The rest of
 * a frame repeats the picture's last column and row. Each frame is encoded by an encoder of its own with
 * one thread, so the bytes depend neither on the pictures before it nor on how many are encoded at a time.
 *
 * A JPEG's frame is the picture itself, which libjpeg-turbo encodes. Codec "copy" keeps the bytes of JPEG files that
 * the library decodes, as loaders will, and encodes others as JPEG; it makes no thumbnails, since a loader would take
 * them for the pictures. */
#include "tool.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <libavcodec/avcodec.h>
#include <libavutil/opt.h>

/* Each encoder encodes one picture. keyint=2, since x265 marks streams of keyint=1 with the profile Main Intra, which
 * hardware decoders need not support; ref=1, so that a decoder keeps no more surfaces than it must; mvrange, since
 * opening x264 computes the cost of every motion vector that it allows, of which one picture has none. */
static const char x265_params[] =
    "log-level=none:pools=none:frame-threads=1:keyint=2:bframes=0:ref=1:rc-lookahead=0:cutree=0:info=0";
static const char x264_params[] = "keyint=1:bframes=0:ref=1:rc-lookahead=0:mbtree=0:mvrange=32:threads=1";

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

/* H.265 and H.264 of x265 and x264. Without loss, x264 has only the profile for 4:4:4. Tuned for decoding, H.264 has a
 * slice for each 64 rows: a loader decodes only those that a crop needs. Of photographs in 512x512 frames, 4, 8 and 16
 * slices cost 1.3, 3.0 and 6.7 % more bytes; random crops were loaded fastest with 8. */
static void x26x_set(void *own, const pack_settings *s, int height)
{
    int is_x265 = s->codec == BZNA_CODEC_H265;
    av_opt_set(own, "preset", s->preset, 0);
    if (s->options->tune_decode) av_opt_set(own, "tune", "fastdecode", 0);
    if (is_x265) {
        char *params = tool_format("%s%s", x265_params, s->is_lossless ? ":lossless=1" : "");
        av_opt_set(own, "profile", s->is_444 ? "main444-8" : "main", 0);
        av_opt_set(own, "x265-params", params, 0);
        free(params);
    } else {
        int slices = s->options->tune_decode && height >= 128 ? height / 64 : 1;
        char *params = tool_format("%s:slices=%d", x264_params, slices);
        av_opt_set(own, "profile", s->is_444 || s->is_lossless ? "high444" : "high", 0);
        av_opt_set(own, "x264-params", params, 0);
        free(params);
        if (s->is_lossless) av_opt_set_int(own, "qp", 0, 0);
    }
}

/* Any other encoder of video: a quality by the first of these ways that it has. */
static int other_set(AVCodecContext *encoder, const pack_settings *s)
{
    void *own = encoder->priv_data;
    double crf = s->crf;
    encoder->gop_size = 1;
    encoder->max_b_frames = 0;
    if (av_opt_set_double(own, "crf", crf, 0) < 0) {
        av_opt_set(own, "rc", "constqp", 0);
        if (av_opt_set_int(own, "qp", (int64_t)crf, 0) < 0) {
            encoder->flags |= AV_CODEC_FLAG_QSCALE;
            encoder->global_quality = (int)(crf * FF_QP2LAMBDA);
        }
    }
    return s->preset ? av_opt_set(own, "preset", s->preset, 0) : 0;
}

/* What only this codec's encoder has. Returns 0 or an AVERROR. */
static int encoder_set(AVCodecContext *encoder, const pack_settings *s)
{
    void *own = encoder->priv_data;
    if (!strcmp(s->encoder->name, "libx265") || !strcmp(s->encoder->name, "libx264")) {
        if (!s->is_lossless) av_opt_set_double(own, "crf", s->crf, 0);
        x26x_set(own, s, encoder->height);
        return 0;
    }
    if (strcmp(s->encoder->name, "libaom-av1")) return other_set(encoder, s);
    av_opt_set_double(own, "crf", s->is_lossless ? 0 : s->crf, 0);
    av_opt_set(own, "usage", "allintra", 0);
    av_opt_set_int(own, "cpu-used", aom_speed(s->preset), 0);
    return s->is_lossless ? av_opt_set(own, "aom-params", "lossless=1", 0) : 0;
}

static AVCodecContext *encoder_alloc(const pack_settings *s, const AVFrame *frame)
{
    AVCodecContext *encoder = tool_checked(avcodec_alloc_context3(s->encoder));
    encoder->width = frame->width;
    encoder->height = frame->height;
    encoder->pix_fmt = (enum AVPixelFormat)frame->format;
    encoder->time_base = (AVRational){ 1, 20 };
    encoder->framerate = (AVRational){ 20, 1 };
    encoder->thread_count = 1;
    encoder->color_range = AVCOL_RANGE_JPEG;
    encoder->color_primaries = AVCOL_PRI_BT709;
    encoder->color_trc = AVCOL_TRC_IEC61966_2_1;
    encoder->colorspace = AVCOL_SPC_BT470BG;
    encoder->chroma_sample_location = AVCHROMA_LOC_CENTER;
    return encoder;
}

/* Encodes one frame as one JPEG. */
static char *jpeg_encode(const pack_settings *s, const AVFrame *frame, AVPacket *packet)
{
    tool_jpeg_source source = { (uint32_t)frame->width, (uint32_t)frame->height, .is_444 = s->is_444,
                                .quality = s->jpeg_quality };
    tool_buffer jpeg = { NULL, 0 };
    size_t size = 0;
    for (int plane = 0; plane < 3; plane++) {
        source.planes[plane] = frame->data[plane];
        source.pitches[plane] = frame->linesize[plane];
    }
    char *reason = tool_jpeg_encode(&source, &jpeg, &size);
    if (!reason && (size > INT_MAX || av_new_packet(packet, (int)size) < 0))
        reason = pack_av_reason("cannot be encoded", AVERROR(ENOMEM));
    if (!reason) memcpy(packet->data, jpeg.data, size);
    free(jpeg.data);
    return reason;
}

/* Encodes one frame as one access unit, parameter sets included. Returns NULL or the reason. */
static char *frame_encode(const pack_settings *s, AVFrame *frame, AVPacket *packet)
{
    if (s->codec == BZNA_CODEC_JPEG) return jpeg_encode(s, frame, packet);
    AVCodecContext *encoder = encoder_alloc(s, frame);
    int result = encoder_set(encoder, s);
    frame->pts = 0;
    frame->color_range = AVCOL_RANGE_JPEG;
    frame->pict_type = AV_PICTURE_TYPE_I;
    frame->quality = encoder->global_quality;
    if (result >= 0) result = avcodec_open2(encoder, encoder->codec, NULL);
    if (result >= 0) result = avcodec_send_frame(encoder, frame);
    if (result >= 0) result = avcodec_send_frame(encoder, NULL);
    if (result >= 0) result = avcodec_receive_packet(encoder, packet);
    avcodec_free_context(&encoder);
    if (result >= 0 && av_packet_make_writable(packet) < 0) result = AVERROR(ENOMEM);
    if (result < 0) return pack_av_reason("cannot be encoded", result);
    /* The encoder's version and settings would be stored with every picture. */
    av_shrink_packet(packet, (int)archive_drop_sei(packet->data, (size_t)packet->size, s->codec));
    return NULL;
}

int pack_encoder_check(const pack_settings *s)
{
    AVFrame *frame = tool_checked(av_frame_alloc());
    AVPacket *packet = tool_checked(av_packet_alloc());
    frame->format = s->is_444 ? AV_PIX_FMT_YUV444P : AV_PIX_FMT_YUV420P;
    frame->width = frame->height = 512;
    if (av_frame_get_buffer(frame, 0) < 0) exit(tool_error("out of memory"));
    for (int plane = 0; plane < 3; plane++)
        memset(frame->data[plane], 128, (size_t)frame->linesize[plane] * (plane && !s->is_444 ? 256 : 512));
    char *reason = frame_encode(s, frame, packet);
    int result = EXIT_OK;
    if (reason) result = tool_error("--encoder %s: a trial with a gray picture: %s", s->encoder->name, reason);
    free(reason);
    av_frame_free(&frame);
    av_packet_free(&packet);
    return result;
}

static int round_up(int edge, int step) { return (edge + step - 1) / step * step; }

static int frame_edge(const pack_settings *s, int picture_edge, int step)
{
    if (s->codec == BZNA_CODEC_JPEG) return picture_edge;
    return round_up(picture_edge < s->smallest_px ? s->smallest_px : picture_edge, step);
}

typedef struct size { int width, height; } size;

/* Encodes a picture, scaled to a size, in a frame whose edges are multiples of `step`. */
static char *picture_encode(const pack_settings *s, const AVFrame *picture, size to, int step, pack_encoded *result)
{
    AVFrame *frame = tool_checked(av_frame_alloc());
    frame->format = s->is_444 ? AV_PIX_FMT_YUV444P : AV_PIX_FMT_YUV420P;
    frame->width = frame_edge(s, to.width, step);
    frame->height = frame_edge(s, to.height, step);
    if (av_frame_get_buffer(frame, 0) < 0) exit(tool_error("out of memory"));
    *result = (pack_encoded){ NULL, s->codec, to.width, to.height, frame->width, frame->height, 0, 0, 0, 0 };
    char *reason = pack_frame_fill(picture, to.width, to.height, frame);
    if (!reason) {
        result->packet = tool_checked(av_packet_alloc());
        reason = frame_encode(s, frame, result->packet);
    }
    if (!reason && s->options->report) reason = pack_quality_measure(frame, result->packet, s->codec, result);
    av_frame_free(&frame);
    return reason;
}

/* A size whose `edge` has at most `limit` pixels, in the same proportions: fractions of pixels are cut off. */
static size size_limit(size of, int edge, int limit)
{
    if (!limit || edge <= limit) return of;
    int64_t w = (int64_t)of.width * limit / edge, h = (int64_t)of.height * limit / edge;
    return (size){ w ? (int)w : 1, h ? (int)h : 1 };
}

static size size_wanted(const pack_settings *s, const AVFrame *picture)
{
    size of = { picture->width, picture->height };
    of = size_limit(of, FFMAX(of.width, of.height), s->max_edge_px);
    return size_limit(of, FFMIN(of.width, of.height), s->max_short_edge_px);
}

/* Every thumbnail has a frame of the same size, so that decoders need no other configuration. */
static char *thumbnail_encode(const pack_settings *s, const AVFrame *picture, size full, pack_encoded *thumb)
{
    int longest = FFMAX(full.width, full.height);
    if (!s->thumb_px || longest <= s->thumb_px) return NULL;
    return picture_encode(s, picture, size_limit(full, longest, s->thumb_px),
                          round_up(FFMAX(s->thumb_px, s->smallest_px), 16), thumb);
}

static pack_encoded kept_of(AVPacket *bytes, uint32_t notes)
{
    return (pack_encoded){ bytes, BZNA_CODEC_JPEG, 0, 0, 0, 0, 1, PACK_PSNR_MAX, 1, notes };
}

int pack_encode_keep(const pack_settings *s, const pack_file *file, pack_encoded *input)
{
    AVPacket *bytes = tool_checked(av_packet_alloc());
    uint32_t notes = 0;
    int is_kept = pack_picture_keep(s, file, bytes, &notes);
    if (is_kept) *input = kept_of(bytes, notes);
    else         av_packet_free(&bytes);
    return is_kept;
}

char *pack_encode_file(const pack_settings *s, const pack_file *file, pack_encoded *input, pack_encoded *thumb)
{
    AVFrame *picture = NULL;
    AVPacket *bytes = tool_checked(av_packet_alloc());
    uint32_t notes = 0;
    char *reason = pack_picture_read(s, file, bytes, &picture, &notes);
    if (!reason && !picture) {
        *input = kept_of(bytes, notes);
        bytes = NULL;
    } else if (!reason) {
        size full = size_wanted(s, picture);
        reason = picture_encode(s, picture, full, s->frame_step_px, input);
        if (!reason && !s->is_copy) reason = thumbnail_encode(s, picture, full, thumb);
        input->notes = notes;
    }
    av_packet_free(&bytes);
    av_frame_free(&picture);
    return reason;
}
