/* pack_sample.c - reads pictures through the library: samples of archives, tars and RecordIO files; JPEG and HEIF files
 *
 * A JPEG is decoded as loaders would decode it: what they refuse, because it is cut off, say, is not packed. PNG and
 * other files in a data set are taken as their bytes, and decoded as files in a folder are. */
#include "tool.h"
#include "formats.h"

#include <stdlib.h>
#include <string.h>

#include <libavcodec/avcodec.h>
#include <libavutil/pixdesc.h>

/* AV_PIX_FMT_NONE: there is none here for such a picture. */
static enum AVPixelFormat format_of(const bzna_picture *p)
{
    static const struct { uint32_t shift_x, shift_y; const char *name; } table[] = {
        { 1, 1, "yuv420p" }, { 1, 0, "yuv422p" }, { 0, 0, "yuv444p" }, { 0, 1, "yuv440p" }, { 2, 0, "yuv411p" },
        { 2, 2, "yuv410p" },
    };
    const char *name = !p->plane[1] ? "gray" : p->color.present && p->color.matrix == 0 ? "gbrp" : NULL;
    for (size_t i = 0; i < LENGTH(table) && !name; i++)
        if (table[i].shift_x == p->chroma_shift_x && table[i].shift_y == p->chroma_shift_y) name = table[i].name;
    if (!name) return AV_PIX_FMT_NONE;
    char *full = p->depth > 8 ? tool_format("%s%" PRIu32 "le", name, p->depth) : tool_format("%s", name);
    enum AVPixelFormat format = av_get_pix_fmt(full);
    free(full);
    return format;
}

/* Copies `width` samples that are `step` bytes apart. */
static void copy_row(const uint8_t *from, uint32_t step, uint8_t *to, uint32_t width, uint32_t bytes)
{
    if (step <= bytes) memcpy(to, from, (size_t)width * bytes);
    else for (uint32_t x = 0; x < width; x++) memcpy(to + (size_t)x * bytes, from + (size_t)x * step, bytes);
}

/* From the chroma sample on in which the picture begins; frame is as large as that makes it. */
static void copy_planes(const bzna_picture *p, AVFrame *frame)
{
    uint32_t bytes = p->depth > 8 ? 2 : 1;
    const AVPixFmtDescriptor *format = av_pix_fmt_desc_get((enum AVPixelFormat)frame->format);
    for (int plane = 0; plane < 3 && p->plane[plane]; plane++) {
        int sx = plane ? format->log2_chroma_w : 0, sy = plane ? format->log2_chroma_h : 0;
        uint32_t x = p->crop_x >> format->log2_chroma_w << format->log2_chroma_w >> sx;
        uint32_t y = p->crop_y >> format->log2_chroma_h << format->log2_chroma_h >> sy;
        uint32_t step = p->step[plane] ? p->step[plane] : bytes;
        const uint8_t *from = (const uint8_t *)p->plane[plane] + p->pitch[plane] * (int64_t)y + (size_t)x * step;
        for (int row = 0; row < AV_CEIL_RSHIFT(frame->height, sy); row++)
            copy_row(from + p->pitch[plane] * (int64_t)row, step,
                     frame->data[plane] + (ptrdiff_t)row * frame->linesize[plane],
                     (uint32_t)AV_CEIL_RSHIFT(frame->width, sx), bytes);
    }
}

static char *picture_copy(const bzna_picture *p, AVFrame *frame)
{
    enum AVPixelFormat format = format_of(p);
    const AVPixFmtDescriptor *described = av_pix_fmt_desc_get(format);
    if (!described)
        return tool_format("%" PRIu32 " bits with chroma subsampled by %u x %u cannot be converted", p->depth,
                           1u << p->chroma_shift_x, 1u << p->chroma_shift_y);
    frame->crop_left = p->crop_x & ((1u << described->log2_chroma_w) - 1);
    frame->crop_top = p->crop_y & ((1u << described->log2_chroma_h) - 1);
    frame->format = format;
    frame->width = (int)(p->width + frame->crop_left);
    frame->height = (int)(p->height + frame->crop_top);
    if (av_frame_get_buffer(frame, 0) < 0) exit(tool_error("out of memory"));
    frame->color_range = p->color.full_range ? AVCOL_RANGE_JPEG : AVCOL_RANGE_MPEG;
    frame->colorspace = p->color.present ? (enum AVColorSpace)p->color.matrix : AVCOL_SPC_BT470BG;
    frame->chroma_location = !p->chroma_left ? p->chroma_top ? AVCHROMA_LOC_TOP : AVCHROMA_LOC_CENTER
                                             : p->chroma_top ? AVCHROMA_LOC_TOPLEFT : AVCHROMA_LOC_LEFT;
    copy_planes(p, frame);
    return NULL;
}

/* One context and one decoder for the process or thread that encodes: opening them costs more than a picture. */
static _Thread_local struct { bzna_context *context; bzna_decoder *decoder; } library;

/* Decodes a picture into frame; NULL: only to see whether it decodes. */
static char *picture_decode(const bzna_image *image, AVFrame *frame, int *orientation, bzna_status *status)
{
    bzna_error err = tool_empty_error();
    bzna_picture picture;
    picture = (bzna_picture){ .struct_size = sizeof picture };
    *status = BZNA_OK;
    if (!library.context) *status = archive_open_context((bzna_device){ 0, 0 }, 0, &library.context, &err);
    if (*status == BZNA_OK && !library.decoder) *status = bzna_decoder_open(library.context, &library.decoder, &err);
    if (*status == BZNA_OK) *status = bzna_decoder_decode(library.decoder, image, &picture, &err);
    if (*status < 0) return pack_library_reason(&err);
    if (picture.orientation) *orientation = (int)picture.orientation;
    return frame ? picture_copy(&picture, frame) : NULL;
}

char *pack_file_read(const AVPacket *file, uint32_t codec, AVFrame *frame, int *orientation, bzna_status *status)
{
    bzna_image image;
    bzna_image_init(&image, sizeof image);
    image.codec = codec;
    image.data = file->data;
    image.data_size = (uint64_t)file->size;
    return picture_decode(&image, frame, orientation, status);
}

/* Reads a sample's picture, as it is coded, into buffer; of a HEIF file all of it. */
static char *image_read(const pack_file *from, tool_buffer *buffer, bzna_image *image)
{
    bzna_error err = tool_empty_error();
    bzna_sample_ref sample = { .struct_size = sizeof sample };
    bzna_status status = bzna_dataset_sample(from->archive->dataset, from->index, &sample, sizeof sample, &err);
    const char *track = from->track ? from->track : archive_default_track(&sample);
    *image = (bzna_image){ .struct_size = sizeof *image };
    if (status == BZNA_OK) status = archive_read_file(from->archive, from->index, track, buffer, image, &err);
    return status < 0 ? pack_library_reason(&err) : NULL;
}

int pack_is_heif(const uint8_t *data, size_t size)
{
    return size > 12 && !memcmp(data + 4, "ftyp", 4);
}

/* What a file is that begins as HEIF and mp4 do, and is no picture. */
static char *film_refuse(const AVPacket *file)
{
    bzna_error err = tool_empty_error();
    bzna_dataset_config config;
    bzna_dataset_info info = { .struct_size = sizeof info };
    bzna_dataset *film = NULL;
    bzna_status status = BZNA_OK;
    bzna_dataset_config_init(&config, sizeof config);
    config.name = "ISO media file";
    if (!library.context) status = archive_open_context((bzna_device){ 0, 0 }, 0, &library.context, &err);
    if (status == BZNA_OK)
        status = bzna_dataset_open_memory(library.context, file->data, (size_t)file->size, &config, &film, &err);
    if (status == BZNA_OK) status = bzna_dataset_get_info(film, &info, sizeof info, &err);
    char *reason = status < 0 ? pack_library_reason(&err) : tool_format("not a picture: %s", info.container);
    bzna_dataset_close(film);
    return reason;
}

char *pack_heif_read(const AVPacket *file, AVFrame *frame, int *orientation, uint32_t *notes)
{
    bzna_image image;
    bzna_status status;
    bzna_image_init(&image, sizeof image);
    image.codec = bzna_formats_recognize(file->data, (uint64_t)file->size);
    image.data = file->data;
    image.data_size = (uint64_t)file->size;
    if (!image.codec) return film_refuse(file);
    if (bzna_formats_heif_beside(file->data, image.data_size) & BZNA_HEIF_AUXILIARY) *notes |= PACK_NOTE_ALPHA;
    return picture_decode(&image, frame, orientation, &status);
}

static char *packet_fill(AVPacket *file, const void *data, uint64_t size)
{
    if (size > INT32_MAX / 2 || av_new_packet(file, (int)size) < 0) return pack_errno_reason("cannot be read", ENOMEM);
    if (data) memcpy(file->data, data, (size_t)size);
    return NULL;
}

/* The bytes of a HEIF file that a tar's sample holds, which the library takes for bytes of any kind; or `reason`. */
static char *heif_field_read(const pack_file *from, AVPacket *file, char *reason)
{
    const archive_fields *fields = &from->archive->fields;
    tool_buffer buffer = { NULL, 0 };
    for (uint32_t i = 0; i < fields->count && reason; i++) {
        archive_value value;
        if (fields->list[i].kind != BZNA_FIELD_BYTES ||
            archive_value_read(from->archive, from->index, &fields->list[i], &buffer, &value, NULL) < 0 ||
            !pack_is_heif(value.data, value.size)) continue;
        free(reason);
        reason = packet_fill(file, value.data, value.size);
        break;
    }
    free(buffer.data);
    return reason;
}

char *pack_sample_bytes(const pack_file *from, AVPacket *file)
{
    tool_buffer buffer = { NULL, 0 };
    bzna_image image;
    char *reason = image_read(from, &buffer, &image);
    if (!reason && image.codec == BZNA_CODEC_JPEG) reason = packet_fill(file, image.data, image.data_size);
    free(buffer.data);
    return reason;
}

char *pack_sample_read(const pack_file *from, AVPacket *file, AVFrame *frame, int *orientation)
{
    tool_buffer buffer = { NULL, 0 };
    bzna_image image;
    bzna_status status;
    char *reason = image_read(from, &buffer, &image);
    if (reason)
        reason = heif_field_read(from, file, reason);
    else if (archive_is_file(image.codec))
        reason = packet_fill(file, image.data, image.data_size);
    else
        reason = picture_decode(&image, frame, orientation, &status);
    free(buffer.data);
    return reason;
}
