/* extract.c - bzna extract: one picture of a data set, decoded or not, or another field */
#include "tool.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <libavcodec/avcodec.h>
#include <libavutil/md5.h>
#include <libavutil/mem.h>

/* ---- decoded pictures ---- */

typedef struct plane_size { uint32_t row_bytes, rows; } plane_size;

/* Of plane 0, 1 or 2 of the whole frame, padding included. */
static plane_size picture_plane_size(const bzna_picture *p, int plane)
{
    uint32_t sample_bytes = p->depth > 8 ? 2 : 1;
    if (!plane) return (plane_size){ p->frame_width * sample_bytes, p->frame_height };
    if (!p->plane[plane]) return (plane_size){ 0, 0 };
    return (plane_size){ ((p->frame_width + (1u << p->chroma_shift_x) - 1) >> p->chroma_shift_x) * sample_bytes,
                         (p->frame_height + (1u << p->chroma_shift_y) - 1) >> p->chroma_shift_y };
}

static const uint8_t *picture_row(const bzna_picture *p, int plane, uint32_t y)
{
    return (const uint8_t *)p->plane[plane] + (ptrdiff_t)p->pitch[plane] * (ptrdiff_t)y;
}

/* The MD5 of the whole frame's planes, in hexadecimal. */
static void picture_md5(const bzna_picture *p, char text[33])
{
    uint8_t digest[16];
    struct AVMD5 *md5 = tool_checked(av_md5_alloc());
    av_md5_init(md5);
    for (int plane = 0; plane < 3; plane++) {
        plane_size size = picture_plane_size(p, plane);
        for (uint32_t y = 0; y < size.rows; y++) av_md5_update(md5, picture_row(p, plane, y), size.row_bytes);
    }
    av_md5_final(md5, digest);
    av_free(md5);
    for (int i = 0; i < 16; i++) snprintf(text + 2 * i, 3, "%02x", digest[i]);
}

static int write_planes(const bzna_picture *picture, const char *path)
{
    tool_file out;
    if (tool_file_create(&out, path)) return EXIT_INPUT;
    for (int plane = 0; plane < 3; plane++) {
        plane_size size = picture_plane_size(picture, plane);
        for (uint32_t y = 0; y < size.rows; y++) tool_file_write(&out, picture_row(picture, plane, y), size.row_bytes);
    }
    return tool_file_close(&out);
}

/* As it is seen: rotated by its orientation. */
static uint32_t seen_width(const bzna_picture *p) { return p->orientation > 4 ? p->height : p->width; }
static uint32_t seen_height(const bzna_picture *p) { return p->orientation > 4 ? p->width : p->height; }

/* Upright, without padding, in color. */
static int write_rgb(const bzna_picture *picture, const char *path, int (*write)(const char *, const tool_rgb *))
{
    bzna_error err = tool_empty_error();
    bzna_transform transform;
    bzna_output render = { .struct_size = sizeof render, .width = seen_width(picture), .height = seen_height(picture),
                           .dtype = BZNA_DTYPE_UINT8, .layout = BZNA_LAYOUT_NHWC };
    tool_rgb rgb = tool_rgb_alloc(render.width, render.height);
    int result;
    bzna_transform_init(&transform, sizeof transform);
    if (bzna_picture_render(picture, &transform, &render, rgb.pixels, (size_t)rgb.width * rgb.height * 3, &err) < 0)
        result = tool_error("%s", err.message);
    else
        result = write(path, &rgb);
    free(rgb.pixels);
    return result;
}


/* ---- encoded pictures ---- */

/* One open bitstream unit of AV1. */
typedef struct av1_unit {
    size_t   header_size, payload_at;
    uint64_t payload_size;
} av1_unit;

enum { AV1_TEMPORAL_DELIMITER = 2, AV1_HAS_EXTENSION = 4, AV1_HAS_SIZE = 2 };

/* Reads the unit at src + at. Returns 0, or -1 if it does not fit into the sample. */
static int av1_unit_read(const uint8_t *src, size_t size, size_t at, av1_unit *unit)
{
    unit->header_size = src[at] & AV1_HAS_EXTENSION ? 2 : 1;
    unit->payload_at = at + unit->header_size;
    if (unit->payload_at > size) return -1;
    unit->payload_size = size - unit->payload_at;
    if (src[at] & AV1_HAS_SIZE) {
        int shift = 0, more = 1;
        for (unit->payload_size = 0; more; shift += 7) {
            if (unit->payload_at == size || shift > 49) return -1;
            unit->payload_size |= (uint64_t)(src[unit->payload_at] & 127) << shift;
            more = src[unit->payload_at++] & 128;
        }
    }
    return unit->payload_size > size - unit->payload_at ? -1 : 0;
}

/* A sample's AV1 units as a stream. A stream begins with a temporal delimiter, which samples of an mp4 leave out, and
 * each of its units says its size, which the last one of a sample may leave out ("AV1 Bitstream & Decoding Process
 * Specification", 5.2; "AV1 Codec ISO Media File Format Binding", 2.4). dst has room for size + 16 bytes. Returns the
 * number of bytes written, or 0 if a unit does not fit into the sample. */
static size_t av1_stream(const uint8_t *src, size_t size, uint8_t *dst)
{
    size_t written = 0;
    av1_unit unit;
    dst[written++] = AV1_TEMPORAL_DELIMITER << 3 | AV1_HAS_SIZE;
    dst[written++] = 0;
    for (size_t at = 0; at < size; at = unit.payload_at + (size_t)unit.payload_size) {
        if (av1_unit_read(src, size, at, &unit)) return 0;
        if ((src[at] >> 3 & 15) == AV1_TEMPORAL_DELIMITER) continue;
        memcpy(dst + written, src + at, unit.header_size);
        dst[written] |= AV1_HAS_SIZE;
        written += unit.header_size;
        uint64_t left = unit.payload_size;
        do {
            dst[written++] = (uint8_t)((left & 127) | (left > 127 ? 128 : 0));
            left >>= 7;
        } while (left);
        memcpy(dst + written, src + unit.payload_at, (size_t)unit.payload_size);
        written += (size_t)unit.payload_size;
    }
    return written;
}

static int write_bytes(const char *path, const uint8_t *data, size_t size)
{
    tool_file out;
    if (tool_file_create(&out, path)) return EXIT_INPUT;
    tool_file_write(&out, data, size);
    return tool_file_close(&out);
}

static int write_stream(const bzna_image *image, const char *path)
{
    bzna_error err = tool_empty_error();
    size_t size = 0;
    int result;
    bzna_status status = bzna_image_annexb(image, NULL, 0, &size, &err);
    if (status < 0 && status != BZNA_E_BUFFER) return tool_error("%s", err.message);
    uint8_t *units = tool_checked(malloc(size ? size : 1)), *stream = tool_checked(malloc(size + 16));
    if (bzna_image_annexb(image, units, size, &size, &err) < 0) {
        result = tool_error("%s", err.message);
    } else if (image->codec != BZNA_CODEC_AV1) {
        result = write_bytes(path, units, size);
    } else {
        size = av1_stream(units, size, stream);
        result = size ? write_bytes(path, stream, size)
                      : tool_error("%s: not written: an AV1 unit is longer than the sample", path);
    }
    free(units);
    free(stream);
    return result;
}


/* ---- the command ---- */

typedef enum extract_format {
    EXTRACT_NONE, EXTRACT_PPM, EXTRACT_PNG, EXTRACT_JPEG, EXTRACT_PLANES, EXTRACT_STREAM, EXTRACT_UNKNOWN
} extract_format;

typedef struct extension {
    const char    *text;
    extract_format format;
    uint32_t       codec;             /* EXTRACT_STREAM only */
} extension;

static const extension extensions[] = {
    { ".ppm",  EXTRACT_PPM, 0 },
    { ".png",  EXTRACT_PNG, 0 },
    { ".yuv",  EXTRACT_PLANES, 0 },
    { ".h265", EXTRACT_STREAM, BZNA_CODEC_H265 },
    { ".265",  EXTRACT_STREAM, BZNA_CODEC_H265 },
    { ".hevc", EXTRACT_STREAM, BZNA_CODEC_H265 },
    { ".h264", EXTRACT_STREAM, BZNA_CODEC_H264 },
    { ".264",  EXTRACT_STREAM, BZNA_CODEC_H264 },
    { ".obu",  EXTRACT_STREAM, BZNA_CODEC_AV1 },
    { ".jpg",  EXTRACT_JPEG, BZNA_CODEC_JPEG },
    { ".jpeg", EXTRACT_JPEG, BZNA_CODEC_JPEG },
};

/* --as, else the extension of -o's file; standard output has none, and gets PNG. */
static extension extension_of(const tool_options *o)
{
    if (!o->out) return (extension){ NULL, EXTRACT_NONE, 0 };
    const char *dot = o->as ? o->as : !strcmp(o->out, "-") ? ".png" : strrchr(o->out, '.');
    for (size_t i = 0; dot && i < LENGTH(extensions); i++)
        if (!strcmp(dot + (*dot == '.'), extensions[i].text + 1)) return extensions[i];
    return (extension){ NULL, EXTRACT_UNKNOWN, 0 };
}

/* One picture, read but not yet decoded. */
typedef struct extraction {
    const tool_options *options;
    const archive      *archive;
    uint64_t            index;
    extension           as;
    bzna_sample_ref         sample;
    const char         *track;
    bzna_image          image;
} extraction;

static void report(const extraction *x, const bzna_picture *p)
{
    const tool_options *o = x->options;
    char md5[33] = "";
    if (o->md5) picture_md5(p, md5);
    if (o->json) {
        printf("{\"index\":%" PRIu64 ",\"track\":", x->index);
        tool_json_string(x->track);
        printf(",\"width\":%" PRIu32 ",\"height\":%" PRIu32 ",\"frame_width\":%" PRIu32 ",\"frame_height\":%" PRIu32
               ",\"orientation\":%" PRIu32 ",\"md5\":", seen_width(p), seen_height(p), p->frame_width, p->frame_height,
               p->orientation);
        tool_json_string(o->md5 ? md5 : NULL);
        puts("}");
    } else if (o->md5) {
        puts(md5);
    }
}

/* The picture to read: the one asked for; else an archive's full one; else the first, which mostly is the only one. */
static const char *choose_track(extraction *x)
{
    bzna_error err = tool_empty_error();
    bzna_image_info chosen, other;
    const bzna_dataset *d = x->archive->dataset;
    x->sample = (bzna_sample_ref){ .struct_size = sizeof x->sample };
    if (x->options->track) return x->options->track;
    if (bzna_dataset_sample(d, x->index, &x->sample, sizeof x->sample, &err) < 0) return "image";
    const char *track = archive_default_track(&x->sample);
    if (x->options->json ||
        bzna_dataset_image_info(d, x->index, track, &chosen, sizeof chosen, NULL) < 0) return track;
    for (uint32_t i = 0; i < x->sample.image_count && i < BZNA_IMAGES_MAX; i++) {
        const char *name = x->sample.image_names[i];
        if (bzna_dataset_image_info(d, x->index, name, &other, sizeof other, NULL) == BZNA_OK &&
            other.data_offset != chosen.data_offset)
            fprintf(stderr, "bzna: note: this is the sample's %s; --track %s is its other picture\n", track, name);
    }
    return track;
}

/* Encoded again, upright. */
static int write_jpeg(const extraction *x)
{
    const pack_settings s = pack_settings_jpeg(95);
    const pack_file sample = { .path = x->options->operand[0], .archive = x->archive, .index = x->index,
                               .track = x->track };
    pack_encoded jpeg = { .packet = NULL }, none = { .packet = NULL };
    char *reason = pack_encode_file(&s, &sample, &jpeg, &none);
    int result = reason ? tool_error("%s: sample %" PRIu64 ": %s", sample.path, x->index, reason)
                        : write_bytes(x->options->out, jpeg.packet->data, (size_t)jpeg.packet->size);
    free(reason);
    av_packet_free(&jpeg.packet);
    return result;
}

static int extract_decoded(const extraction *x)
{
    const tool_options *o = x->options;
    bzna_error err = tool_empty_error();
    bzna_picture picture = { .struct_size = sizeof picture };
    bzna_decoder *decoder = NULL;
    int result = EXIT_OK;
    if (bzna_decoder_open(x->archive->context, &decoder, &err) < 0 ||
        bzna_decoder_decode(decoder, &x->image, &picture, &err) < 0)
        result = tool_error("%s: sample %" PRIu64 ": %s", o->operand[0], x->index, err.message);
    else if (x->as.format == EXTRACT_PPM)    result = write_rgb(&picture, o->out, tool_write_ppm);
    else if (x->as.format == EXTRACT_PNG)    result = write_rgb(&picture, o->out, tool_write_png);
    else if (x->as.format == EXTRACT_PLANES) result = write_planes(&picture, o->out);
    if (result == EXIT_OK) report(x, &picture);
    bzna_decoder_close(decoder);
    return result;
}

static int refuse_stream(const extraction *x)
{
    bzna_image_info info = { .fourcc = 0 };
    bzna_dataset_image_info(x->archive->dataset, x->index, x->track, &info, sizeof info, NULL);
    return tool_error("%s: sample %" PRIu64 " is encoded as %s, which a name in %s does not fit",
                      x->options->operand[0], x->index, archive_codec(&info).text, x->as.text);
}

static int extract(extraction *x)
{
    const tool_options *o = x->options;
    bzna_error err = tool_empty_error();
    tool_buffer buffer = { NULL, 0 };
    int result = EXIT_OK;
    x->track = choose_track(x);
    int is_written = 0;
    if (archive_read_picture(x->archive, x->index, x->track, &buffer, &x->image, &err) < 0)
        result = tool_error("%s", err.message);
    else if (x->as.format == EXTRACT_STREAM && x->as.codec != x->image.codec)
        result = refuse_stream(x);
    else if (x->as.format == EXTRACT_STREAM || (x->as.format == EXTRACT_JPEG && x->image.codec == BZNA_CODEC_JPEG))
        result = write_stream(&x->image, o->out), is_written = 1;
    else if (x->as.format == EXTRACT_JPEG)
        result = write_jpeg(x), is_written = 1;
    if (result == EXIT_OK && (!is_written || o->md5 || o->json)) result = extract_decoded(x);
    free(buffer.data);
    return result;
}

/* The field that --field names; a name that there is not is the library's to refuse. */
static bzna_field_info field_find(const archive *a, const char *name)
{
    bzna_field_info found = { .struct_size = sizeof found, .kind = BZNA_FIELD_BYTES };
    snprintf(found.name, sizeof found.name, "%s", name);
    for (uint32_t i = 0; i < a->fields.count; i++)
        if (!strcmp(a->fields.list[i].name, name)) found = a->fields.list[i];
    return found;
}

static int write_value(const extraction *x, const archive_value *value)
{
    tool_file out;
    if (x->options->json) {
        printf("{\"index\":%" PRIu64 ",\"field\":", x->index);
        tool_json_string(x->options->field);
        printf(",\"value\":");
        archive_value_json(value);
        puts("}");
    }
    if (!x->options->out && x->options->json) return EXIT_OK;
    if (tool_file_create(&out, x->options->out ? x->options->out : "-")) return EXIT_INPUT;
    if (value->kind == BZNA_FIELD_BYTES && !os_is_terminal(out.file)) tool_file_write(&out, value->data, value->size);
    else                                                              archive_value_print(out.file, value);
    return tool_file_close(&out);
}

static int extract_field(const extraction *x)
{
    bzna_error err = tool_empty_error();
    tool_buffer buffer = { NULL, 0 };
    archive_value value;
    bzna_field_info field = field_find(x->archive, x->options->field);
    int result = EXIT_OK;
    if (strlen(x->options->field) >= sizeof field.name)
        result = tool_error("%s: there is no field \"%s\"", x->options->operand[0], x->options->field);
    else if (archive_value_read(x->archive, x->index, &field, &buffer, &value, &err) < 0)
        result = tool_error("%s", err.message);
    else
        result = write_value(x, &value);
    free(buffer.data);
    return result;
}

/* Prints what is wrong with the options. */
static int extraction_check(const extraction *x)
{
    const tool_options *o = x->options;
    if (o->field && (o->track || o->md5))
        tool_error("--field writes the field as it is: --track and --md5 have no effect with it");
    else if (o->out && !strcmp(o->out, "-") && (o->json || o->md5))
        tool_error("-o - writes the picture to standard output, where --json and --md5 print");
    else if (o->as && (o->field || !o->out))
        tool_error("--as says the format of -o's picture");
    else if (!o->field && x->as.format == EXTRACT_UNKNOWN)
        tool_error("%s: the name must end in .png, .ppm, .yuv, .jpg, .h265, .h264 or .obu%s", o->out,
                   o->as ? ", or --as be one of these" : "");
    else if (!o->field && x->as.format == EXTRACT_NONE && !o->md5 && !o->json)
        tool_error("nothing to do: give -o, --field or --md5");
    else
        return EXIT_OK;
    return EXIT_USAGE;
}

int tool_run_extract(const tool_options *o)
{
    archive a;
    extraction x = { .options = o, .archive = &a, .as = extension_of(o) };
    if (extraction_check(&x)) return EXIT_USAGE;
    if (archive_open(&a, o)) return EXIT_INPUT;
    int result = archive_find_sample(&a, o->operand[1], &x.index);
    if (result == EXIT_OK) result = o->field ? extract_field(&x) : extract(&x);
    archive_close(&a);
    return result;
}
