/* profile.c - ICC profiles of picture files, and what else a picture loses when it is packed
 *
 * A profile says which colors a file's numbers mean. Loaders assume sRGB, as torchvision, DALI and FFCV do: pictures in
 * Display P3 or Adobe RGB then look paler than they are. So they are counted, and pack --icc convert converts them,
 * where this program was built with Little CMS (lcms2). */
#include "tool.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <libavcodec/avcodec.h>
#include <libavutil/pixdesc.h>
#ifdef BZNA_LCMS2
#include <lcms2.h>
#endif

/* ---- bytes ---- */

typedef struct span {
    const uint8_t *data;
    size_t         size;
} span;

/* The bytes from `at` on, at most `size`; none if that is past the end. */
static span part(span all, size_t at, size_t size)
{
    if (at > all.size) return (span){ NULL, 0 };
    return (span){ all.data + at, size < all.size - at ? size : all.size - at };
}

/* A number of `bytes` bytes, 0 if it is past the end. */
static uint32_t number(span s, size_t at, size_t bytes, int little)
{
    uint32_t value = 0;
    if (at > s.size || bytes > s.size - at) return 0;
    for (size_t i = 0; i < bytes; i++) value = value << 8 | s.data[at + (little ? bytes - 1 - i : i)];
    return value;
}

static int begins(span s, const char *text, size_t size) { return s.size >= size && !memcmp(s.data, text, size); }

static void append(tool_buffer *to, size_t *size, span more)
{
    tool_buffer grown = { NULL, 0 };
    if (!more.size) return;
    tool_buffer_reserve(&grown, *size + more.size);
    if (*size) memcpy(grown.data, to->data, *size);
    memcpy(grown.data + *size, more.data, more.size);
    free(to->data);
    *to = grown;
    *size += more.size;
}


/* ---- where files have their profiles ---- */

/* APP2 segments, numbered from 1, of which each has a part. */
static void profile_of_jpeg(span file, tool_buffer *to, size_t *size)
{
    static const char name[] = "ICC_PROFILE";
    for (uint32_t wanted = 1; wanted < 256; wanted++) {
        int found = 0;
        for (size_t at = 2; at + 4 <= file.size && file.data[at] == 0xFF && file.data[at + 1] != 0xDA && !found;) {
            size_t length = number(file, at + 2, 2, 0);
            span segment = part(file, at + 4, length < 2 ? 0 : length - 2);
            if (file.data[at + 1] == 0xFF) { at++; continue; }
            if (length < 2) return;
            if (file.data[at + 1] == 0xE2 && segment.size > 14 && begins(segment, name, sizeof name) &&
                segment.data[12] == wanted) {
                append(to, size, part(segment, 14, SIZE_MAX));
                found = 1;
            }
            at += 2 + length;
        }
        if (!found) return;
    }
}

/* libavcodec's decoder of PNG inflates profiles, and gives them along with the picture: it gets one of a single pixel
 * that has this chunk. */
static void inflate_chunk(span chunk, tool_buffer *to, size_t *size)
{
    static const uint8_t head[] = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\0\0\0\0\0\0\0\0";
    static const uint8_t tail[] = "\0\0\0\x0aIDAT\x78\x9c\x63\x60\0\0\0\2\0\1\0\0\0\0\0\0\0\0IEND\0\0\0";
    const AVCodec *codec = avcodec_find_decoder(AV_CODEC_ID_PNG);
    AVCodecContext *decoder = codec ? avcodec_alloc_context3(codec) : NULL;
    AVPacket *packet = tool_checked(av_packet_alloc());
    AVFrame *frame = tool_checked(av_frame_alloc());
    size_t bytes = sizeof head - 1 + chunk.size + sizeof tail;
    if (decoder && bytes < INT32_MAX / 2 && av_new_packet(packet, (int)bytes) >= 0 &&
        avcodec_open2(decoder, codec, NULL) >= 0) {
        uint8_t *at = packet->data;
        memcpy(at, head, sizeof head - 1);
        memcpy(at + sizeof head - 1, chunk.data, chunk.size);
        memcpy(at + sizeof head - 1 + chunk.size, tail, sizeof tail);
        if (avcodec_send_packet(decoder, packet) >= 0) {
            avcodec_send_packet(decoder, NULL);
            avcodec_receive_frame(decoder, frame);
        }
        const AVFrameSideData *side = av_frame_get_side_data(frame, AV_FRAME_DATA_ICC_PROFILE);
        if (side) append(to, size, (span){ side->data, side->size });
    }
    avcodec_free_context(&decoder);
    av_packet_free(&packet);
    av_frame_free(&frame);
}

/* A chunk of PNG (iCCP, with its length, type and sum), or of WebP (ICCP, its data). */
static span find_chunk(span file, int png, const char *type)
{
    for (size_t at = png ? 8 : 12; at + 8 <= file.size;) {
        size_t length = number(file, at + (png ? 0 : 4), 4, !png);
        if (length > file.size - at - 8) break;
        if (!memcmp(file.data + at + (png ? 4 : 0), type, 4))
            return png ? part(file, at, length + 12) : part(file, at + 8, length);
        at += 8 + length + (png ? 4 : length & 1);
    }
    return (span){ NULL, 0 };
}

/* The value of a tag in TIFF's first directory: bytes, where they are several. */
static span tiff_tag(span file, uint32_t tag)
{
    int little = file.size && file.data[0] == 'I';
    size_t directory = number(file, 4, 4, little), count = number(file, directory, 2, little);
    for (size_t i = 0; i < count; i++) {
        size_t at = directory + 2 + 12 * i, size = number(file, at + 4, 4, little);
        if (number(file, at, 2, little) != tag) continue;
        return part(file, size > 4 ? number(file, at + 8, 4, little) : at + 8, size);
    }
    return (span){ NULL, 0 };
}

/* The next box of a HEIF file. Returns its type, 0 at the end. */
static uint32_t next_box(span *rest, span *content)
{
    size_t size = number(*rest, 0, 4, 0), header = 8;
    uint32_t type = number(*rest, 4, 4, 0);
    if (size == 1 && !number(*rest, 8, 4, 0)) size = number(*rest, 12, 4, 0), header = 16;
    if (!size) size = rest->size;
    if (rest->size < header || size < header || size > rest->size) return 0;
    *content = part(*rest, header, size - header);
    *rest = part(*rest, size, SIZE_MAX);
    return type;
}

/* The first colr box with a profile, in meta/iprp/ipco. */
static span profile_of_heif(span file)
{
    static const char *const path[] = { "meta", "iprp", "ipco" };
    span box = { NULL, 0 }, rest = file;
    uint32_t type;
    for (size_t i = 0; i < LENGTH(path); i++) {
        span name = { (const uint8_t *)path[i], 4 };
        while ((type = next_box(&rest, &box)) != 0 && type != number(name, 0, 4, 0)) continue;
        if (!type) return (span){ NULL, 0 };
        rest = part(box, i == 0 ? 4 : 0, SIZE_MAX);
    }
    while ((type = next_box(&rest, &box)) != 0)
        if (type == 0x636F6C72 && (begins(box, "prof", 4) || begins(box, "rICC", 4))) return part(box, 4, SIZE_MAX);
    return (span){ NULL, 0 };
}

static int is_png(span s) { return begins(s, "\x89PNG\r\n\x1a\n", 8); }
static int is_webp(span s) { return s.size > 12 && begins(s, "RIFF", 4) && !memcmp(s.data + 8, "WEBP", 4); }
static int is_tiff(span s) { return begins(s, "II*\0", 4) || begins(s, "MM\0*", 4); }

size_t profile_read(const uint8_t *data, size_t bytes, tool_buffer *to)
{
    span file = { data, bytes };
    size_t size = 0;
    if (begins(file, "\xff\xd8\xff", 3))  profile_of_jpeg(file, to, &size);
    else if (is_webp(file))               append(to, &size, find_chunk(file, 0, "ICCP"));
    else if (is_tiff(file))               append(to, &size, tiff_tag(file, 34675));
    else if (pack_is_heif(data, bytes))   append(to, &size, profile_of_heif(file));
    else if (is_png(file)) {
        span chunk = find_chunk(file, 1, "iCCP");
        if (chunk.size) inflate_chunk(chunk, to, &size);
    }
    return size;
}


/* ---- whether a profile is that of sRGB ---- */

/* The data of a tag of the profile. */
static span profile_tag(span profile, const char *name)
{
    span wanted = { (const uint8_t *)name, 4 };
    uint32_t count = number(profile, 128, 4, 0);
    for (uint32_t i = 0; i < count && i < 256; i++) {
        size_t at = 132 + 12 * (size_t)i;
        if (number(profile, at, 4, 0) == number(wanted, 0, 4, 0))
            return part(profile, number(profile, at + 4, 4, 0), number(profile, at + 8, 4, 0));
    }
    return (span){ NULL, 0 };
}

/* s15Fixed16Number */
static double fixed(span s, size_t at) { return (int32_t)number(s, at, 4, 0) / 65536.; }

/* What a tone curve makes of x, both 0 to 1; NAN where it is not of a known kind. */
static double curve_value(span curve, double x)
{
    static const uint8_t parameters[5] = { 1, 3, 4, 5, 7 };
    double p[7] = { 1, 1, 0, 0, 0, 0, 0 };
    uint32_t count = number(curve, 8, 4, 0), kind = number(curve, 8, 2, 0);
    if (begins(curve, "curv", 4)) {
        if (!count) return x;
        if (count == 1) return pow(x, number(curve, 12, 2, 0) / 256.);
        size_t low = (size_t)(x * (count - 1));
        double part_of = x * (count - 1) - (double)low;
        double from = number(curve, 12 + 2 * low, 2, 0), to = number(curve, 14 + 2 * low, 2, 0);
        return (from + part_of * (to - from)) / 65535;
    }
    if (!begins(curve, "para", 4) || kind > 4) return NAN;
    for (size_t i = 0; i < parameters[kind]; i++) p[i] = fixed(curve, 12 + 4 * i);
    switch (kind) {       /* p: g, a, b, c, d, e, f */
    case 0:  return pow(x, p[0]);
    case 1:  return x >= -p[2] / p[1] ? pow(p[1] * x + p[2], p[0]) : 0;
    case 2:  return x >= -p[2] / p[1] ? pow(p[1] * x + p[2], p[0]) + p[3] : p[3];
    case 3:  return x >= p[4] ? pow(p[1] * x + p[2], p[0]) : p[3] * x;
    default: return x >= p[4] ? pow(p[1] * x + p[2], p[0]) + p[5] : p[3] * x + p[6];
    }
}

static int curve_is_srgb(span curve)
{
    for (int i = 0; i < 10; i++) {
        const double x = 0.05 + 0.1 * i;
        double linear = curve_value(curve, x);
        double back = linear <= 0.0031308 ? 12.92 * linear : 1.055 * pow(linear, 1 / 2.4) - 0.055;
        if (!(fabs(back - x) <= 0.01)) return 0;
    }
    return 1;
}

int profile_is_srgb(const uint8_t *data, size_t size)
{
    static const struct { const char *color, *curve; double xyz[3]; } known[] = {
        { "rXYZ", "rTRC", { 0.4361, 0.2225, 0.0139 } }, { "gXYZ", "gTRC", { 0.3851, 0.7169, 0.0971 } },
        { "bXYZ", "bTRC", { 0.1431, 0.0606, 0.7141 } },
    };
    span profile = { data, size };
    if (size > 20 && !memcmp(data + 16, "GRAY", 4)) return curve_is_srgb(profile_tag(profile, "kTRC"));
    if (size < 20 || memcmp(data + 16, "RGB ", 4) || profile_tag(profile, "A2B0").size) return 0;
    for (size_t i = 0; i < LENGTH(known); i++) {
        span color = profile_tag(profile, known[i].color);
        for (size_t k = 0; k < 3; k++)
            if (color.size < 20 || fabs(fixed(color, 8 + 4 * k) - known[i].xyz[k]) > 0.004) return 0;
        if (!curve_is_srgb(profile_tag(profile, known[i].curve))) return 0;
    }
    return 1;
}


/* ---- converting to sRGB ---- */

int profile_can_convert(void)
{
#ifdef BZNA_LCMS2
    return 1;
#else
    return 0;
#endif
}

#ifdef BZNA_LCMS2

/* The last profile, which pictures of one camera share, and what it makes of numbers. */
static _Thread_local struct { cmsHTRANSFORM transform; uint8_t *profile; size_t size; int is_gray; } last;

static cmsHTRANSFORM transform_of(const uint8_t *profile, size_t size, int is_gray)
{
    if (last.profile && last.size == size && last.is_gray == is_gray && !memcmp(last.profile, profile, size))
        return last.transform;
    if (last.transform) cmsDeleteTransform(last.transform);
    free(last.profile);
    last.profile = tool_checked(malloc(size));
    memcpy(last.profile, profile, size);
    last.size = size;
    last.is_gray = is_gray;
    last.transform = NULL;
    cmsHPROFILE from = size <= UINT32_MAX ? cmsOpenProfileFromMem(profile, (cmsUInt32Number)size) : NULL;
    cmsHPROFILE to = cmsCreate_sRGBProfile();
    if (from && to)
        last.transform = cmsCreateTransform(from, is_gray ? TYPE_GRAY_8 : TYPE_RGB_8, to, TYPE_RGB_8, INTENT_PERCEPTUAL,
                                            0);
    if (from) cmsCloseProfile(from);
    if (to) cmsCloseProfile(to);
    return last.transform;
}

char *profile_convert(AVFrame **frame, const uint8_t *profile, size_t size, int *is_done)
{
    const AVPixFmtDescriptor *format = av_pix_fmt_desc_get((enum AVPixelFormat)(*frame)->format);
    int has_gray = format->nb_components < 3 && !(format->flags & AV_PIX_FMT_FLAG_PAL);
    int is_gray = size > 20 && !memcmp(profile + 16, "GRAY", 4);
    *is_done = 0;
    if (size < 20 || (is_gray ? !has_gray : memcmp(profile + 16, "RGB ", 4) != 0)) return NULL;
    cmsHTRANSFORM transform = transform_of(profile, size, is_gray);
    if (!transform) return NULL;          /* a damaged one is none */
    char *reason = pack_frame_to_rgba(frame);
    if (reason) return reason;
    uint8_t *in = tool_checked(malloc((size_t)(*frame)->width * 6)), *out = in + (size_t)(*frame)->width * 3;
    for (int y = 0; y < (*frame)->height; y++) {
        uint8_t *row = (*frame)->data[0] + (ptrdiff_t)y * (*frame)->linesize[0];
        for (int x = 0; x < (*frame)->width; x++)
            for (int c = 0; c < (is_gray ? 1 : 3); c++) in[(is_gray ? 1 : 3) * x + c] = row[4 * x + c];
        cmsDoTransform(transform, in, out, (cmsUInt32Number)(*frame)->width);
        for (int x = 0; x < (*frame)->width; x++) memcpy(row + 4 * x, out + 3 * x, 3);
    }
    free(in);
    *is_done = 1;
    return NULL;
}

#else

char *profile_convert(AVFrame **frame, const uint8_t *profile, size_t size, int *is_done)
{
    (void)frame, (void)profile, (void)size;
    *is_done = 0;
    return NULL;
}

#endif


/* ---- what else is lost ---- */

/* Whether there is a pixel that is not opaque. */
static int has_clear_pixels(const AVFrame *frame)
{
    const AVPixFmtDescriptor *format = av_pix_fmt_desc_get((enum AVPixelFormat)frame->format);
    int is_palette = frame->format == AV_PIX_FMT_PAL8;
    if (!(format->flags & AV_PIX_FMT_FLAG_ALPHA) && !is_palette) return 0;
    const AVComponentDescriptor *alpha = &format->comp[format->nb_components - 1];
    for (int y = 0; y < frame->height; y++) {
        const uint8_t *row = frame->data[is_palette ? 0 : alpha->plane] +
                             (ptrdiff_t)y * frame->linesize[is_palette ? 0 : alpha->plane];
        for (int x = 0; x < frame->width; x++) {
            uint32_t color;
            if (!is_palette && (row + (ptrdiff_t)x * alpha->step)[alpha->offset] != 255) return 1;
            if (!is_palette) continue;
            memcpy(&color, frame->data[1] + 4 * row[x], 4);
            if (color >> 24 != 255) return 1;
        }
    }
    return 0;
}

/* GIF: whether there is a second picture. */
static int gif_is_animated(span file)
{
    size_t at = 13;
    int pictures = 0;
    if (file.size > 10 && file.data[10] & 0x80) at += (size_t)6 << (file.data[10] & 7);
    while (at < file.size && (file.data[at] == 0x21 || file.data[at] == 0x2C)) {
        if (file.data[at] == 0x2C) {
            uint32_t flags = number(file, at + 9, 1, 0);
            if (pictures++) return 1;
            at += 11 + (flags & 0x80 ? (size_t)6 << (flags & 7) : 0);
        } else {
            at += 2;
        }
        while (at < file.size && file.data[at]) at += 1 + (size_t)file.data[at];
        at++;
    }
    return 0;
}

uint32_t profile_notes(const uint8_t *data, size_t bytes, const AVFrame *frame, int keeps_alpha)
{
    span file = { data, bytes };
    uint32_t notes = 0;
    int little = bytes && data[0] == 'I';
    if (frame) {
        const AVPixFmtDescriptor *format = av_pix_fmt_desc_get((enum AVPixelFormat)frame->format);
        notes |= format->comp[0].depth > 8 ? PACK_NOTE_DEPTH : 0;
        notes |= !keeps_alpha && has_clear_pixels(frame) ? PACK_NOTE_ALPHA : 0;
    }
    if (begins(file, "GIF8", 4) && gif_is_animated(file)) notes |= PACK_NOTE_ANIMATION;
    if (is_png(file) && find_chunk(file, 1, "acTL").size) notes |= PACK_NOTE_ANIMATION;
    if (pack_is_heif(data, bytes) && (begins(part(file, 8, 4), "avis", 4) || begins(part(file, 8, 4), "msf1", 4) ||
                                      begins(part(file, 8, 4), "hevc", 4)))
        notes |= PACK_NOTE_ANIMATION;
    if (is_tiff(file)) {
        size_t directory = number(file, 4, 4, little);
        if (number(file, directory + 2 + 12 * (size_t)number(file, directory, 2, little), 4, little))
            notes |= PACK_NOTE_PAGES;
    }
    if (begins(file, "\0\0\1\0", 4) && number(file, 4, 2, 1) > 1) notes |= PACK_NOTE_PAGES;
    return notes;
}

const pack_note pack_notes[PACK_NOTES] = {
    { PACK_NOTE_PROFILE, "profiles_ignored",
      "a color profile other than sRGB, which loaders do not apply (--icc convert converts pictures)" },
    { PACK_NOTE_CONVERTED, "profiles_converted", "a color profile other than sRGB, and were converted to sRGB" },
    { PACK_NOTE_ANIMATION, "animations", "several frames, of which the first was taken" },
    { PACK_NOTE_PAGES, "several_pages", "several pages or sizes, of which one was taken" },
    { PACK_NOTE_DEPTH, "over_8_bits", "more than 8 bits a sample, of which 8 are kept" },
    { PACK_NOTE_ALPHA, "alpha_dropped",
      "transparent pixels, of which the color under them is kept (see --background)" },
};
