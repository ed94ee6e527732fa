/* pack_settings.c - what the options of bzna pack mean, checked before anything is encoded */
#include "tool.h"

#include <stdlib.h>
#include <string.h>

#include <libavcodec/avcodec.h>

/* For each codec: its encoder unless --encoder names another (libjpeg-turbo encodes JPEG), and the smallest frame edge
 * that NVDEC decodes on all devices. */
static const struct {
    const char    *name, *encoder;
    uint32_t       id;                /* BZNA_CODEC_... */
    enum AVCodecID av_id;
    int            smallest_px;
} codecs[] = {
    { "h265", "libx265", BZNA_CODEC_H265, AV_CODEC_ID_HEVC, 144 },
    { "h264", "libx264", BZNA_CODEC_H264, AV_CODEC_ID_H264, 48 },
    { "av1", "libaom-av1", BZNA_CODEC_AV1, AV_CODEC_ID_AV1, 128 },
    { "jpeg", "", BZNA_CODEC_JPEG, AV_CODEC_ID_MJPEG, 1 },
    { "copy", "", BZNA_CODEC_JPEG, AV_CODEC_ID_MJPEG, 1 },
};

/* Prints why the options cannot be. Returns EXIT_USAGE. */
static int unusable(const char *text)
{
    tool_error("%s", text);
    return EXIT_USAGE;
}

/* --codec, else what --encoder encodes to, else H.265. */
static int read_codec(const tool_options *o, pack_settings *s)
{
    const AVCodec *encoder = o->encoder ? avcodec_find_encoder_by_name(o->encoder) : NULL;
    if (o->encoder && !encoder) return tool_error("this libavcodec has no encoder %s", o->encoder);
    size_t i = 0;
    for (; i < LENGTH(codecs); i++)
        if (o->codec ? !strcmp(codecs[i].name, o->codec) : encoder ? codecs[i].av_id == encoder->id : 1) break;
    if (i == LENGTH(codecs) || (encoder && codecs[i].av_id != encoder->id)) {
        tool_error("--encoder %s: encodes to %s, not to %s", o->encoder, avcodec_get_name(encoder->id),
                   o->codec ? o->codec : "H.265, H.264 or AV1");
        return EXIT_USAGE;
    }
    s->codec = codecs[i].id;
    s->encoder = encoder ? encoder : avcodec_find_encoder_by_name(codecs[i].encoder);
    s->smallest_px = codecs[i].smallest_px;
    s->is_copy = !strcmp(codecs[i].name, "copy");
    if (s->codec == BZNA_CODEC_JPEG) {
        if (encoder) return unusable("--encoder: libjpeg-turbo encodes JPEG, and no other");
        if (!s->is_copy && !tool_jpeg_can_encode())
            return tool_error("--codec jpeg: this bzna was built without libjpeg-turbo (Debian's libjpeg-dev)");
        return EXIT_OK;
    }
    if (!s->encoder)
        return tool_error("this libavcodec has no %s; --codec jpeg or --codec copy works without it",
                          codecs[i].encoder);
    return EXIT_OK;
}

static int read_encoder_options(const tool_options *o, pack_settings *s)
{
    static const char presets[] = "ultrafast|superfast|veryfast|faster|fast|medium|slow|slower|veryslow|placebo";
    const char *name = s->encoder ? s->encoder->name : "libjpeg-turbo";
    int is_x26x = !strcmp(name, "libx265") || !strcmp(name, "libx264");
    int has_names = is_x26x || !strcmp(name, "libaom-av1");
    s->preset = o->preset || !has_names ? o->preset : "medium";
    s->is_444 = o->chroma && !strcmp(o->chroma, "444");
    s->is_lossless = o->lossless != 0;
    if (s->preset && has_names && !tool_is_choice(presets, s->preset)) {
        tool_error("--preset must be %s, not \"%s\"", presets, s->preset);
        return EXIT_USAGE;
    }
    if (s->preset && s->codec == BZNA_CODEC_JPEG) return unusable("--preset: encoders of JPEG have none");
    if (o->tune_decode && !is_x26x) {
        tool_error("--tune-decode: the encoders libx265 and libx264 have it, %s has not", name);
        return EXIT_USAGE;
    }
    if (s->is_lossless && !has_names)
        return unusable("--lossless: the encoders libx265, libx264 and libaom-av1 have it; JPEG files stay as they are "
                        "with --codec copy");
    return EXIT_OK;
}

/* What --quality calls by a name, for the encoders that this was measured with (tests/bench/bench_quality.py): crf of
 * H.265, H.264 and AV1, and the quality of JPEG. */
static const struct { const char *name; double h265, h264, av1; int jpeg; } qualities[] = {
    { "visually-lossless", 20, 18, 6, 95 },
    { "jpeg-90", 24, 22, 12, 90 },
    { "small", 28, 25, 20, 85 },
};

static int read_quality(const tool_options *o, pack_settings *s)
{
    const char *name = o->quality_name, *encoder = s->encoder ? s->encoder->name : "";
    const int is_jpeg = s->codec == BZNA_CODEC_JPEG;
    size_t i = 0;
    s->crf = o->crf;
    s->jpeg_quality = 90;
    if (!name) return EXIT_OK;
    if (name[strspn(name, "0123456789")] == '\0') {
        const long number = strlen(name) > 3 ? 0 : strtol(name, NULL, 10);
        if (number >= 1 && number <= 100 && is_jpeg) return s->jpeg_quality = (int)number, EXIT_OK;
        return unusable(is_jpeg ? "--quality must be 1 to 100" : "--quality N: of jpeg alone; give --crf, or a name");
    }
    while (i < LENGTH(qualities) && strcmp(qualities[i].name, name)) i++;
    if (i == LENGTH(qualities)) {
        tool_error("--quality must be visually-lossless, jpeg-90, small or a number, not \"%s\"", name);
        return EXIT_USAGE;
    }
    if (o->crf != 20) return unusable("--quality, --crf: give one of them");
    s->jpeg_quality = qualities[i].jpeg;
    if (!strcmp(encoder, "libx265")) s->crf = qualities[i].h265;
    else if (!strcmp(encoder, "libx264")) s->crf = qualities[i].h264;
    else if (!strcmp(encoder, "libaom-av1")) s->crf = qualities[i].av1;
    else if (!is_jpeg) {
        tool_error("--quality %s: is known of libx265, libx264, libaom-av1 and JPEG; give --crf for %s", name, encoder);
        return EXIT_USAGE;
    }
    return EXIT_OK;
}

pack_settings pack_settings_jpeg(int quality)
{
    static const tool_options none;
    return (pack_settings){ .options = &none, .codec = BZNA_CODEC_JPEG, .jpeg_quality = quality, .smallest_px = 1,
                            .frame_step_px = 16 };
}

/* A number of pixels that is the whole text; -1 if it is none. */
static int pixels(const char *text, int lowest, int highest)
{
    char *end;
    long number = strtol(text, &end, 10);
    return end == text || *end || number < lowest || number > highest ? -1 : (int)number;
}

static int read_sizes(const tool_options *o, pack_settings *s)
{
    const char *frame = o->frame ? o->frame : "auto", *thumb = o->thumb ? o->thumb : "512";
    s->frame_step_px = !strcmp(frame, "auto") ? 512 : !strcmp(frame, "exact") ? 16 : pixels(frame, 16, 8192);
    s->thumb_px = !strcmp(thumb, "none") ? 0 : pixels(thumb, 16, 512);
    s->max_edge_px = (int)o->max_edge;
    s->max_short_edge_px = (int)o->max_short_edge;
    if (s->frame_step_px < 0 || s->frame_step_px % 16)
        return unusable("--frame must be auto, exact, or a multiple of 16 from 16 to 8192");
    if (s->thumb_px < 0) return unusable("--thumb must be none, or a number from 16 to 512");
    if (o->frame && s->codec == BZNA_CODEC_JPEG) return unusable("--frame: a JPEG's frame is the picture itself");
    if (s->is_copy && (o->thumb || o->max_edge || o->max_short_edge || o->chroma))
        return unusable("--codec copy keeps files as they are: --thumb, --max-edge, --max-short-edge and --chroma mean "
                        "nothing with it");
    return EXIT_OK;
}

/* "#rrggbb", white, black or gray. */
static int read_background(const tool_options *o, pack_settings *s)
{
    static const struct { const char *name; unsigned long rgb; } names[] = {
        { "white", 0xFFFFFF }, { "black", 0 }, { "gray", 0x808080 },
    };
    const char *text = o->background;
    char *end;
    if (!text) return EXIT_OK;
    unsigned long rgb = text[0] == '#' ? strtoul(text + 1, &end, 16) : 0;
    int known = text[0] == '#' && strlen(text) == 7 && !*end;
    for (size_t i = 0; i < LENGTH(names); i++)
        if (!strcmp(names[i].name, text)) rgb = names[i].rgb, known = 1;
    if (!known) return unusable("--background must be white, black, gray or #rrggbb");
    s->has_background = 1;
    for (int i = 0; i < 3; i++) s->background[i] = (uint8_t)(rgb >> (16 - 8 * i));
    return EXIT_OK;
}

static int read_shard(const tool_options *o, pack_settings *s)
{
    char *slash, *end;
    s->shard_count = 1;
    if (!o->shard) return EXIT_OK;
    s->shard = strtoull(o->shard, &slash, 10);
    if (slash != o->shard && *slash == '/' && o->shard[0] != '-') {
        s->shard_count = strtoull(slash + 1, &end, 10);
        if (end != slash + 1 && !*end && slash[1] != '-' && s->shard < s->shard_count && s->shard_count <= 1000000)
            return EXIT_OK;
    }
    return unusable("--shard must be I/N, with I from 0 to N - 1");
}

int pack_settings_read(const tool_options *o, pack_settings *s)
{
    *s = (pack_settings){ .options = o, .converts_profiles = o->icc && !strcmp(o->icc, "convert"),
                          .checks_headers = o->check && !strcmp(o->check, "headers") };
    if (!o->splits == !o->operand_count)
        return tool_usage_error(o->command, o->splits ? "--splits has the folders: there can be no others"
                                                      : "too few arguments");
    if (o->splits && (o->list || o->targets)) return unusable("--splits: --list and --targets mean nothing with it");
    int result = read_codec(o, s);
    if (result == EXIT_OK) result = read_encoder_options(o, s);
    if (result == EXIT_OK) result = read_quality(o, s);
    if (result == EXIT_OK) result = read_sizes(o, s);
    if (result == EXIT_OK) result = read_background(o, s);
    if (result == EXIT_OK && s->checks_headers && !s->is_copy)
        return unusable("--check headers: only --codec copy keeps files without decoding them");
    if (result == EXIT_OK && s->converts_profiles && s->is_copy)
        return unusable("--icc convert: --codec copy keeps files as they are, profiles and all");
    if (result == EXIT_OK && s->converts_profiles && !profile_can_convert())
        return unusable("--icc convert: this bzna was built without Little CMS (lcms2; Debian's liblcms2-dev)");
    if (result == EXIT_OK) result = read_shard(o, s);
    return result;
}
