/* pack_sample.c - reads pictures that are samples of a data set: an archive, a tar, a RecordIO file
 *
 * JPEG, PNG and other files are taken as their bytes, and decoded as files in a folder are. Frames of video have none:
 * the library decodes them, and HEIF and AVIF files. */
#include "tool.h"

#include <stdlib.h>
#include <string.h>

#include <libavcodec/avcodec.h>
#include <libavutil/pixdesc.h>

/* AV_PIX_FMT_NONE: there is none here for such a picture. */
static enum AVPixelFormat format_of(const bzna_picture *p)
{
    static const struct { uint32_t shift_x, shift_y; const char *name; } table[] = {
        { 1, 1, "yuv420p" }, { 1, 0, "yuv422p" }, { 0, 0, "yuv444p" }, { 0, 1, "yuv440p" },
    };
    const char *name = !p->plane[1] ? "gray" : p->color.present && p->color.matrix == 0 ? "gbrp" : NULL;
    for (size_t i = 0; i < LENGTH(table) && !name; i++)
        if (table[i].shift_x == p->chroma_shift_x && table[i].shift_y == p->chroma_shift_y) name = table[i].name;
    for (int i = 0; i < 3; i++)
        if (p->plane[i] && p->step[i] > (p->depth > 8 ? 2u : 1u)) return AV_PIX_FMT_NONE;
    if (!name) return AV_PIX_FMT_NONE;
    char *full = p->depth > 8 ? tool_format("%s%" PRIu32 "le", name, p->depth) : tool_format("%s", name);
    enum AVPixelFormat format = av_get_pix_fmt(full);
    free(full);
    return format;
}

static void copy_planes(const bzna_picture *p, AVFrame *frame)
{
    uint32_t bytes = p->depth > 8 ? 2 : 1;
    const AVPixFmtDescriptor *format = av_pix_fmt_desc_get((enum AVPixelFormat)frame->format);
    int is_gbr = format && (format->flags & AV_PIX_FMT_FLAG_RGB);
    for (int plane = 0; plane < 3 && p->plane[plane]; plane++) {
        uint32_t sx = plane && !is_gbr ? p->chroma_shift_x : 0, sy = plane && !is_gbr ? p->chroma_shift_y : 0;
        uint32_t width = (p->width + (1u << sx) - 1) >> sx, height = (p->height + (1u << sy) - 1) >> sy;
        const uint8_t *from = (const uint8_t *)p->plane[plane] + p->pitch[plane] * (int64_t)(p->crop_y >> sy) +
                              (size_t)(p->crop_x >> sx) * bytes;
        for (uint32_t y = 0; y < height; y++)
            memcpy(frame->data[plane] + (ptrdiff_t)y * frame->linesize[plane], from + p->pitch[plane] * (int64_t)y,
                   (size_t)width * bytes);
    }
}

static char *picture_copy(const bzna_picture *p, AVFrame *frame)
{
    enum AVPixelFormat format = format_of(p);
    if (format == AV_PIX_FMT_NONE)
        return tool_format("%" PRIu32 " bits with chroma subsampled by %u x %u cannot be converted", p->depth,
                           1u << p->chroma_shift_x, 1u << p->chroma_shift_y);
    frame->format = format;
    frame->width = (int)p->width;
    frame->height = (int)p->height;
    if (av_frame_get_buffer(frame, 0) < 0) exit(tool_error("out of memory"));
    frame->color_range = p->color.full_range ? AVCOL_RANGE_JPEG : AVCOL_RANGE_MPEG;
    frame->colorspace = p->color.present ? (enum AVColorSpace)p->color.matrix : AVCOL_SPC_BT470BG;
    copy_planes(p, frame);
    return NULL;
}

/* One for the process that encodes: opening a decoder costs more than a picture. */
static bzna_context *context;
static bzna_decoder *decoder;

static char *picture_decode(const bzna_image *image, bzna_picture *picture)
{
    bzna_error err = tool_empty_error();
    bzna_picture_init(picture, sizeof *picture);
    if ((!context && bzna_context_open(NULL, &context, &err) < 0) ||
        (!decoder && bzna_decoder_open(context, &decoder, &err) < 0) ||
        bzna_decoder_decode(decoder, image, picture, &err) < 0) return tool_format("%s", err.message);
    return NULL;
}

char *pack_jpeg_check(const AVPacket *file)
{
    bzna_image image;
    bzna_picture picture;
    bzna_image_init(&image, sizeof image);
    image.codec = BZNA_CODEC_JPEG;
    image.data = file->data;
    image.data_size = (uint64_t)file->size;
    return picture_decode(&image, &picture);
}

/* What libavformat makes of grids, crops and turns depends on its version: the library decodes them. */
static char *heif_decode(bzna_dataset *dataset, size_t size, AVFrame *frame, int *orientation)
{
    bzna_error err = tool_empty_error();
    uint8_t *copy = tool_checked(malloc(size));
    bzna_image image;
    bzna_picture picture;
    bzna_image_init(&image, sizeof image);
    char *reason = bzna_dataset_read_image(dataset, 0, NULL, copy, size, &image, &err) < 0 ?
                   tool_format("%s", err.message) : picture_decode(&image, &picture);
    if (!reason && picture.orientation) *orientation = (int)picture.orientation;
    if (!reason) reason = picture_copy(&picture, frame);
    free(copy);
    return reason;
}

int pack_heif_read(const AVPacket *file, AVFrame *frame, int *orientation, char **reason)
{
    bzna_error err = tool_empty_error();
    bzna_dataset *dataset = NULL;
    bzna_dataset_info info = { .struct_size = sizeof info };
    if (file->size < 12 || memcmp(file->data + 4, "ftyp", 4) ||
        (!context && bzna_context_open(NULL, &context, &err) < 0) ||
        bzna_dataset_open_memory(context, file->data, (size_t)file->size, NULL, &dataset, &err) < 0) return 0;
    int is_heif = bzna_dataset_get_info(dataset, &info, sizeof info, &err) == BZNA_OK &&
                  !strcmp(info.container, "HEIF");
    if (is_heif) *reason = heif_decode(dataset, (size_t)file->size, frame, orientation);
    bzna_dataset_close(dataset);
    return is_heif;
}

char *pack_sample_read(const pack_file *from, AVPacket *file, AVFrame *frame, int *orientation)
{
    bzna_error err = tool_empty_error();
    bzna_sample sample = { .struct_size = sizeof sample };
    bzna_image image;
    tool_buffer buffer = { NULL, 0 };
    char *reason = NULL;
    bzna_status status = bzna_dataset_get_sample(from->archive->dataset, from->index, &sample, sizeof sample, &err);
    const char *track = from->track ? from->track : archive_default_track(&sample);
    if (status == BZNA_OK)
        status = archive_read_picture(from->archive, from->index, track, &buffer, &image, &err);
    if (status < 0) {
        reason = tool_format("%s", err.message);
    } else if (image.codec != BZNA_CODEC_JPEG && image.codec != BZNA_CODEC_STILL) {
        bzna_picture picture;
        reason = picture_decode(&image, &picture);
        if (!reason && picture.orientation) *orientation = (int)picture.orientation;
        if (!reason) reason = picture_copy(&picture, frame);
    } else if (image.data_size > INT32_MAX / 2 || av_new_packet(file, (int)image.data_size) < 0) {
        reason = tool_format("out of memory");
    } else {
        memcpy(file->data, image.data, (size_t)image.data_size);
    }
    free(buffer.data);
    return reason;
}
