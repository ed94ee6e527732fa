/* extract.c - bzna extract */
#include "tool.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <libavutil/md5.h>
#include <libavutil/mem.h>

typedef struct plane_size { uint32_t width, height; } plane_size;      /* width in bytes */

/* Of plane 0, 1 or 2 of the whole frame. */
static plane_size picture_plane(const bzna_picture *p, int plane)
{
    uint32_t each = p->depth > 8 ? 2 : 1;
    if (!plane) return (plane_size){ p->frame_width * each, p->frame_height };
    if (!p->plane[plane]) return (plane_size){ 0, 0 };
    return (plane_size){ ((p->frame_width + (1u << p->chroma_shift_x) - 1) >> p->chroma_shift_x) * each,
                         (p->frame_height + (1u << p->chroma_shift_y) - 1) >> p->chroma_shift_y };
}

/* MD5 of the whole frame's planes, as hexadecimal digits. */
static void picture_md5(const bzna_picture *p, char text[33])
{
    uint8_t digest[16];
    struct AVMD5 *md5 = checked(av_md5_alloc());
    av_md5_init(md5);
    for (int plane = 0; plane < 3; plane++) {
        plane_size size = picture_plane(p, plane);
        for (uint32_t y = 0; y < size.height; y++)
            av_md5_update(md5, (const uint8_t *)p->plane[plane] + (ptrdiff_t)p->pitch[plane] * (ptrdiff_t)y, size.width);
    }
    av_md5_final(md5, digest);
    av_free(md5);
    for (int i = 0; i < 16; i++) snprintf(text + 2 * i, 3, "%02x", digest[i]);
}

static int extract_ppm(const bzna_picture *picture, const char *path)
{
    bzna_error err = error_empty();
    bzna_transform transform;
    bzna_output render = { .struct_size = sizeof render, .width = picture->width, .height = picture->height,
                           .dtype = BZNA_DTYPE_FLOAT32, .layout = BZNA_LAYOUT_NCHW };
    size_t area = (size_t)picture->width * picture->height;
    float *planes = checked(malloc(area * 3 * sizeof(float)));
    uint8_t *rgb = checked(malloc(area * 3));
    bzna_transform_init(&transform, sizeof transform);
    int result = EXIT_OK;
    if (bzna_picture_render(picture, &transform, &render, planes, area * 3 * sizeof(float), &err) < 0) {
        result = complain("%s", err.message);
    } else {
        rgb_from_planes(planes, picture->width, picture->height, rgb, (size_t)picture->width * 3);
        result = ppm_write(path, rgb, picture->width, picture->height);
    }
    free(planes);
    free(rgb);
    return result;
}

static int extract_planes(const bzna_picture *picture, const char *path)
{
    output out;
    if (output_open(&out, path)) return EXIT_INPUT;
    for (int plane = 0; plane < 3; plane++) {
        plane_size size = picture_plane(picture, plane);
        for (uint32_t y = 0; y < size.height; y++)
            fwrite((const uint8_t *)picture->plane[plane] + (ptrdiff_t)picture->pitch[plane] * (ptrdiff_t)y, 1, size.width, out.file);
    }
    return output_close(&out);
}

/* A sample's AV1 units as a file. That begins with a temporal delimiter, which samples of an mp4 leave out, and each
 * unit tells its size, which the last of a sample need not do ("AV1 Bitstream & Decoding Process Specification", 5.2;
 * "AV1 Codec ISO Media File Format Binding", 2.4). dst has room for size + 16 bytes. Returns how many are written, 0 if
 * a unit does not fit into the sample. */
static size_t av1_stream(const uint8_t *src, size_t size, uint8_t *dst)
{
    enum { TEMPORAL_DELIMITER = 2, HAS_EXTENSION = 4, HAS_SIZE = 2 };
    size_t written = 0;
    dst[written++] = TEMPORAL_DELIMITER << 3 | HAS_SIZE;
    dst[written++] = 0;
    for (size_t at = 0; at < size;) {
        size_t header = src[at] & HAS_EXTENSION ? 2 : 1, payload = at + header;
        if (payload > size) return 0;
        uint64_t length = size - payload;
        if (src[at] & HAS_SIZE) {
            int shift = 0, more = 1;
            for (length = 0; more; shift += 7) {
                if (payload == size || shift > 49) return 0;
                length |= (uint64_t)(src[payload] & 127) << shift;
                more = src[payload++] & 128;
            }
        }
        if (length > size - payload) return 0;
        if ((src[at] >> 3 & 15) != TEMPORAL_DELIMITER) {
            memcpy(dst + written, src + at, header);
            dst[written] |= HAS_SIZE;
            written += header;
            for (uint64_t left = length, first = 1; left || first; left >>= 7, first = 0)
                dst[written++] = (uint8_t)((left & 127) | (left > 127 ? 128 : 0));
            memcpy(dst + written, src + payload, (size_t)length);
            written += (size_t)length;
        }
        at = payload + (size_t)length;
    }
    return written;
}

static int extract_stream(const bzna_image *image, const char *path)
{
    bzna_error err = error_empty();
    output out = { path, NULL };
    size_t size = 0;
    bzna_status status = bzna_image_annexb(image, NULL, 0, &size, &err);
    if (status < 0 && status != BZNA_E_BUFFER) return complain("%s", err.message);
    uint8_t *units = checked(malloc(size ? size : 1)), *stream = checked(malloc(size + 16));
    int result = bzna_image_annexb(image, units, size, &size, &err) < 0 ? complain("%s", err.message) : EXIT_OK;
    if (result == EXIT_OK && image->codec == BZNA_CODEC_AV1) {
        size = av1_stream(units, size, stream);
        if (!size) result = complain("%s: not written: an AV1 unit is longer than the sample", path);
    } else {
        memcpy(stream, units, size);
    }
    if (result == EXIT_OK) result = output_open(&out, path);
    if (result == EXIT_OK) {
        fwrite(stream, 1, size, out.file);
        result = output_close(&out);
    }
    free(units);
    free(stream);
    return result;
}

typedef enum extract_format { EXTRACT_NONE, EXTRACT_PPM, EXTRACT_YUV, EXTRACT_STREAM, EXTRACT_UNKNOWN } extract_format;

typedef struct extension {
    const char    *text;
    extract_format format;
    uint32_t       codec;
} extension;

static const extension extensions[] = {
    { ".ppm",  EXTRACT_PPM, 0 },
    { ".yuv",  EXTRACT_YUV, 0 },
    { ".h265", EXTRACT_STREAM, BZNA_CODEC_H265 },
    { ".265",  EXTRACT_STREAM, BZNA_CODEC_H265 },
    { ".hevc", EXTRACT_STREAM, BZNA_CODEC_H265 },
    { ".h264", EXTRACT_STREAM, BZNA_CODEC_H264 },
    { ".264",  EXTRACT_STREAM, BZNA_CODEC_H264 },
    { ".obu",  EXTRACT_STREAM, BZNA_CODEC_AV1 },
};

static extension extension_of(const char *path)
{
    if (!path) return (extension){ NULL, EXTRACT_NONE, 0 };
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < LENGTH(extensions); i++)
        if (!strcmp(dot, extensions[i].text)) return extensions[i];
    return (extension){ NULL, EXTRACT_UNKNOWN, 0 };
}

static void extract_report(const options *o, const char *track, uint64_t index, const bzna_picture *p)
{
    char md5[33] = "";
    if (o->md5) picture_md5(p, md5);
    if (o->json) {
        printf("{\"index\":%" PRIu64 ",\"track\":", index);
        json_string(track);
        printf(",\"width\":%" PRIu32 ",\"height\":%" PRIu32 ",\"frame_width\":%" PRIu32 ",\"frame_height\":%" PRIu32 ",\"md5\":",
               p->width, p->height, p->frame_width, p->frame_height);
        json_string(o->md5 ? md5 : NULL);
        puts("}");
    } else if (o->md5) {
        puts(md5);
    }
}

/* Without a wish, the full picture; of a plain mp4, whose video has a name of its own, that. */
static const char *extract_track(const options *o, const archive *a, uint64_t index, bzna_sample *sample)
{
    bzna_error err = error_empty();
    sample->struct_size = sizeof *sample;
    if (o->track || bzna_dataset_sample(a->dataset, index, sample, &err) < 0 || sample->image_count != 1)
        return o->track ? o->track : "bzna_input";
    return sample->image_names[0];
}

static int extract_sample(const options *o, const archive *a, uint64_t index, const extension *as)
{
    bzna_error err = error_empty();
    bytes buffer = { NULL, 0 };
    bzna_image image;
    bzna_picture picture = { .struct_size = sizeof picture };
    bzna_decoder *decoder = NULL;
    bzna_sample sample;
    const char *track = extract_track(o, a, index, &sample);
    int result = EXIT_OK;
    if (sample_load(a, index, track, &buffer, &image, &err) < 0) {
        result = complain("%s", err.message);
    } else if (as->format == EXTRACT_STREAM && as->codec != image.codec) {
        result = complain("%s: sample %" PRIu64 " is coded as %s: not what %s asks for", o->operand[0], index,
                          fourcc(image.fourcc).text, as->text);
    } else if (as->format == EXTRACT_STREAM) {
        result = extract_stream(&image, o->out);
    }
    if (result == EXIT_OK && (as->format != EXTRACT_STREAM || o->md5 || o->json)) {
        if (bzna_decoder_open(a->context, &decoder, &err) < 0 || bzna_decoder_decode(decoder, &image, &picture, &err) < 0)
            result = complain("%s: sample %" PRIu64 ": %s", o->operand[0], index, err.message);
        else if (as->format == EXTRACT_PPM) result = extract_ppm(&picture, o->out);
        else if (as->format == EXTRACT_YUV) result = extract_planes(&picture, o->out);
        if (result == EXIT_OK) extract_report(o, track, index, &picture);
    }
    bzna_decoder_close(decoder);
    free(buffer.data);
    return result;
}

int run_extract(const options *o)
{
    archive a;
    char *end = NULL;
    errno = 0;
    uint64_t index = strtoull(o->operand[1], &end, 10);
    if (end == o->operand[1] || *end || errno || o->operand[1][0] == '-') {
        complain("INDEX must be a number from 0, not \"%s\"", o->operand[1]);
        return EXIT_USAGE;
    }
    extension as = extension_of(o->out);
    if (as.format == EXTRACT_UNKNOWN) {
        complain("%s: the name must end in .ppm, .yuv, .h265, .h264 or .obu", o->out);
        return EXIT_USAGE;
    }
    if (as.format == EXTRACT_NONE && !o->md5 && !o->json) {
        complain("nothing to do: give -o or --md5");
        return EXIT_USAGE;
    }
    if (archive_open(&a, o->operand[0])) return EXIT_INPUT;
    int result = extract_sample(o, &a, index, &as);
    archive_close(&a);
    return result;
}
