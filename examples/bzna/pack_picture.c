/* pack_picture.c - reads pictures of any format that the library or libavcodec decodes
 *
 * A file is read whole. JPEG, and what examples/formats has codecs of, are the library's (pack_sample.c), but for alpha
 * and cameras' raw pixels. Of others, libavformat recognizes the format by its content (by its name only where the
 * content cannot tell, as with TGA), and libavcodec decodes its first picture, strictly: a picture that is cut off or
 * damaged is unreadable, not half gray. Names are never given to libavformat: "100%d.jpg" is a file, not a sequence of
 * files.
 *
 * The EXIF orientation of PNG, WebP and TIFF files is applied, all eight values. It is read here, since what
 * libavcodec says of it depends on format and version. */
#include "tool.h"
#include "formats.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/pixdesc.h>

enum { EDGE_MAX_PX = 16384 };
static const int64_t file_max_bytes = INT64_C(1) << 30;


/* ---- libav's messages ---- */

/* The first error that libav logged on this thread since this was emptied. */
static _Thread_local char av_message[200];

static void keep_message(void *object, int level, const char *format, va_list arguments)
{
    (void)object;
    if (level > AV_LOG_ERROR || av_message[0]) return;
    if (!strncmp(format, "Unknown or unsupported tag", 26)) return;        /* private tags of TIFF files: harmless */
    vsnprintf(av_message, sizeof av_message, format, arguments);
    av_message[strcspn(av_message, "\r\n")] = 0;
}

void pack_av_capture_messages(void) { av_log_set_callback(keep_message); }

static _Thread_local int is_passing;

int pack_is_passing(void) { return is_passing; }

static void passing_note(int error)
{
    static const int passing[] = { ENOMEM, EIO, EAGAIN, EMFILE, ENFILE, ENOBUFS, ETIMEDOUT };
    is_passing = 0;
    for (size_t i = 0; i < LENGTH(passing); i++) is_passing |= error == passing[i];
}

char *pack_errno_reason(const char *what, int error)
{
    passing_note(error);
    return tool_format("%s: %s", what, strerror(error));
}

char *pack_library_reason(const bzna_error *err)
{
    is_passing = err->status == BZNA_E_MEMORY || err->status == BZNA_E_IO;
    return tool_format("%s", err->message);
}

char *pack_av_reason(const char *what, int code)
{
    char text[AV_ERROR_MAX_STRING_SIZE] = "";
    passing_note(AVUNERROR(code));
    av_strerror(code, text, sizeof text);
    if (code == AVERROR_INVALIDDATA || code == AVERROR_EOF) snprintf(text, sizeof text, "damaged or cut off");
    return av_message[0] ? tool_format("%s: %s (%s)", what, text, av_message) : tool_format("%s: %s", what, text);
}


/* ---- files in memory ---- */

/* Reads a file into a packet. Returns NULL or the reason. */
static char *file_read(const char *path, AVPacket *packet)
{
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);             /* a FIFO must not wait for a writer */
    if (file < 0 || fstat(file, &status)) {
        char *reason = pack_errno_reason("cannot be opened", errno);
        if (file >= 0) close(file);
        return reason;
    }
    char *reason = !S_ISREG(status.st_mode)          ? tool_format("not a regular file")
                 : status.st_size == 0               ? tool_format("the file is empty")
                 : status.st_size > file_max_bytes   ? tool_format("the file is larger than 1 GiB")
                 : av_new_packet(packet, (int)status.st_size) < 0 ? pack_errno_reason("cannot be read", ENOMEM) : NULL;
    for (size_t done = 0; !reason && done < (size_t)packet->size;) {
        ssize_t got = read(file, packet->data + done, (size_t)packet->size - done);
        if (got > 0) done += (size_t)got;
        else if (!got) reason = tool_format("ends while it is read");
        else if (errno != EINTR) reason = pack_errno_reason("cannot be read", errno);
    }
    close(file);
    return reason;
}

/* A packet's bytes as libavformat's input. */
typedef struct memory_input {
    const AVPacket *packet;
    int64_t         position;
} memory_input;

static int memory_read(void *user, uint8_t *dst, int size)
{
    memory_input *input = user;
    int64_t left = input->packet->size - input->position;
    if (left <= 0) return AVERROR_EOF;
    if (size > left) size = (int)left;
    memcpy(dst, input->packet->data + input->position, (size_t)size);
    input->position += size;
    return size;
}

static int64_t memory_seek(void *user, int64_t offset, int whence)
{
    memory_input *input = user;
    if (whence == AVSEEK_SIZE) return input->packet->size;
    int64_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? input->position : input->packet->size;
    if (offset < -base || offset > input->packet->size - base) return AVERROR(EINVAL);
    return input->position = base + offset;
}


/* ---- decoding ---- */

/* A decoder must not allocate a picture that is too large to be packed. */
static int limited_get_buffer(AVCodecContext *decoder, AVFrame *frame, int flags)
{
    if (frame->width > EDGE_MAX_PX || frame->height > EDGE_MAX_PX) {
        av_log(decoder, AV_LOG_ERROR, "%d x %d pixels: an edge may have %d\n", frame->width, frame->height,
               (int)EDGE_MAX_PX);
        return AVERROR(EINVAL);
    }
    return avcodec_default_get_buffer2(decoder, frame, flags);
}

/* Decodes the first picture of a packet. Returns NULL or the reason. */
static char *packet_decode(const AVCodecParameters *parameters, const AVPacket *packet, AVFrame *frame)
{
    const AVCodec *codec = avcodec_find_decoder(parameters->codec_id);
    if (!codec) return tool_format("no decoder for %s", avcodec_get_name(parameters->codec_id));
    AVCodecContext *decoder = tool_checked(avcodec_alloc_context3(codec));
    int result = avcodec_parameters_to_context(decoder, parameters);
    decoder->thread_count = 1;
    /* Strictly, except for TIFF, where that would refuse unknown tags: there, any logged error counts instead. */
    int is_tiff = parameters->codec_id == AV_CODEC_ID_TIFF;
    decoder->err_recognition = is_tiff ? 0 : AV_EF_CRCCHECK | AV_EF_BITSTREAM | AV_EF_BUFFER | AV_EF_EXPLODE;
    decoder->get_buffer2 = limited_get_buffer;
    if (result >= 0) result = avcodec_open2(decoder, codec, NULL);
    if (result >= 0) result = avcodec_send_packet(decoder, packet);
    if (result >= 0) result = avcodec_send_packet(decoder, NULL);
    if (result >= 0) result = avcodec_receive_frame(decoder, frame);
    avcodec_free_context(&decoder);
    if (result < 0) return pack_av_reason("cannot be decoded", result);
    if (is_tiff && av_message[0]) return tool_format("the picture is damaged: %s", av_message);
    if (frame->width > EDGE_MAX_PX || frame->height > EDGE_MAX_PX)             /* decoders that use their own buffers */
        return tool_format("%d x %d pixels: an edge may have %d", frame->width, frame->height, (int)EDGE_MAX_PX);
    if (frame->decode_error_flags || (frame->flags & AV_FRAME_FLAG_CORRUPT))
        return tool_format("the picture is damaged");
    return NULL;
}

/* Whether a file's format is one of pictures: neither films nor covers of songs are packed. */
static int is_picture_format(const AVInputFormat *format)
{
    const char *name = format->name;
    size_t length = strlen(name);
    return (length > 5 && !strcmp(name + length - 5, "_pipe")) || !strcmp(name, "image2pipe") || !strcmp(name, "gif") ||
           !strcmp(name, "apng") || !strcmp(name, "ico");
}

/* Formats that libavformat does not always recognize by their content. */
static enum AVCodecID codec_by_name(const char *path)
{
    static const struct { const char *extensions; enum AVCodecID codec; } table[] = {
        { "tga", AV_CODEC_ID_TARGA }, { "pcx", AV_CODEC_ID_PCX }, { "ppm|pnm", AV_CODEC_ID_PPM },
        { "pgm", AV_CODEC_ID_PGM }, { "pbm", AV_CODEC_ID_PBM }, { "pam", AV_CODEC_ID_PAM },
        { "ras|sun", AV_CODEC_ID_SUNRAST },
    };
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < LENGTH(table); i++)
        if (tool_is_choice(table[i].extensions, dot + 1)) return table[i].codec;
    return AV_CODEC_ID_NONE;
}

/* Opens a file in memory by its content, else by its name. Returns NULL or the reason. Only formats of pictures are
 * opened: to open a playlist or a description of a session may connect to an address in it. */
static char *format_open(AVFormatContext **format, const char *path)
{
    AVIOContext *pb = (*format)->pb;
    enum AVCodecID guess = codec_by_name(path);
    const AVInputFormat *found = NULL;
    int result = av_probe_input_buffer2(pb, &found, "", NULL, 0, 0), is_sure = result > AVPROBE_SCORE_RETRY;
    if (result >= 0 && !is_picture_format(found)) {
        if (is_sure || guess == AV_CODEC_ID_NONE) return tool_format("not a picture: %s", found->long_name);
        result = -1;                                          /* pixels may look like a little sound */
    }
    if (result >= 0) result = avformat_open_input(format, NULL, found, NULL);
    if (result < 0 && guess != AV_CODEC_ID_NONE) {
        if (!*format) *format = tool_checked(avformat_alloc_context());        /* a failed open has freed it */
        avio_seek(pb, 0, SEEK_SET);
        (*format)->pb = pb;
        (*format)->flags |= AVFMT_FLAG_CUSTOM_IO;
        (*format)->video_codec_id = guess;
        result = avformat_open_input(format, NULL, av_find_input_format("image2pipe"), NULL);
    }
    return result == AVERROR(ENOMEM) ? pack_av_reason("cannot be opened", result) :
           result < 0 ? tool_format("not a picture that libavformat knows") : NULL;
}

/* A number of `size` bytes at an offset, 0 beyond the end. */
static uint32_t number_at(const uint8_t *data, size_t data_size, size_t offset, size_t size, int little)
{
    uint32_t number = 0;
    if (offset > data_size || size > data_size - offset) return 0;
    for (size_t i = 0; i < size; i++) number = number << 8 | data[offset + (little ? size - 1 - i : i)];
    return number;
}

/* Reads the packet of the first picture; of an icon's the largest, and of several of that size the one with the most
 * bytes, since it has the most colors. */
static int packet_read(AVFormatContext *format, AVPacket *packet)
{
    if (strcmp(format->iformat->name, "ico")) {
        int stream = av_find_best_stream(format, AVMEDIA_TYPE_VIDEO, -1, -1, NULL, 0);
        return stream < 0 ? stream : av_read_frame(format, packet);
    }
    AVPacket *next = tool_checked(av_packet_alloc());
    uint64_t largest = 0;
    int result;
    while ((result = av_read_frame(format, next)) >= 0) {
        const AVCodecParameters *p = format->streams[next->stream_index]->codecpar;
        size_t size = (size_t)next->size;
        int is_png = p->codec_id == AV_CODEC_ID_PNG;              /* its size is in its header */
        uint64_t width = is_png ? number_at(next->data, size, 16, 4, 0) : (uint64_t)p->width;
        uint64_t area = width * (is_png ? number_at(next->data, size, 20, 4, 0) : (uint64_t)p->height);
        if (!packet->data || area > largest || (area == largest && next->size > packet->size)) {
            av_packet_unref(packet);
            av_packet_move_ref(packet, next);
            largest = area;
        }
        av_packet_unref(next);
    }
    av_packet_free(&next);
    return result == AVERROR_EOF && packet->data ? 0 : result;
}

/* Decodes the first picture of a file in memory, or the largest of an icon. Returns NULL or the reason. */
static char *file_decode(const AVPacket *file, const char *path, AVFrame *frame)
{
    enum { IO_BYTES = 32768 };
    memory_input input = { file, 0 };
    AVFormatContext *format = tool_checked(avformat_alloc_context());
    uint8_t *io = tool_checked(av_malloc(IO_BYTES));
    AVIOContext *pb = tool_checked(avio_alloc_context(io, IO_BYTES, 0, &input, memory_read, NULL, memory_seek));
    format->pb = pb;
    format->flags |= AVFMT_FLAG_CUSTOM_IO;                    /* pb stays this function's, opened or not */
    char *reason = format_open(&format, path);
    av_message[0] = 0;
    if (reason) {
        /* neither of them reads it */
    } else if (strstr(format->iformat->name, "pipe") && format->nb_streams == 1) {
        reason = packet_decode(format->streams[0]->codecpar, file, frame);        /* the file is one packet */
    } else {
        AVPacket *packet = tool_checked(av_packet_alloc());
        int result = packet_read(format, packet);
        reason = result < 0 ? pack_av_reason("cannot be read", result) :
                 packet_decode(format->streams[packet->stream_index]->codecpar, packet, frame);
        av_packet_free(&packet);
    }
    avformat_close_input(&format);
    av_freep(&pb->buffer);
    avio_context_free(&pb);
    return reason;
}


/* ---- orientation ---- */

/* The first value of a tag in the first directory of a TIFF structure, which EXIF data is, too; 0 if there is none. */
static uint32_t tiff_value(const uint8_t *data, size_t size, uint32_t tag)
{
    enum { TYPE_BYTE = 1, TYPE_LONG = 4 };
    if (size >= 6 && !memcmp(data, "Exif\0\0", 6)) data += 6, size -= 6;
    if (size < 8 || (memcmp(data, "II*\0", 4) && memcmp(data, "MM\0*", 4))) return 0;
    int little = data[0] == 'I';
    size_t directory = number_at(data, size, 4, 4, little), count = number_at(data, size, directory, 2, little);
    for (size_t i = 0; i < count; i++) {
        size_t at = directory + 2 + 12 * i;
        if (number_at(data, size, at, 2, little) != tag) continue;
        uint32_t type = number_at(data, size, at + 2, 2, little);
        return number_at(data, size, at + 8, type == TYPE_LONG ? 4 : type == TYPE_BYTE ? 1 : 2, little);
    }
    return 0;
}

static int tiff_orientation(const uint8_t *data, size_t size)
{
    uint32_t value = tiff_value(data, size, 0x0112);
    return value >= 1 && value <= 8 ? (int)value : 1;
}

/* Whether libavcodec decodes a TIFF file to a black picture without an error, as it does some in tiles or with JPEG in
 * them. */
static int tiff_may_be_black(const uint8_t *data, size_t size)
{
    enum { COMPRESSION = 259, TILE_WIDTH = 322, OLD_JPEG = 6, JPEG = 7 };
    uint32_t compression = tiff_value(data, size, COMPRESSION);
    return compression == JPEG || compression == OLD_JPEG || tiff_value(data, size, TILE_WIDTH);
}

/* An animation has no picture outside its frames, which libavcodec does not look for. */
static char *webp_refuse(const uint8_t *data, size_t size)
{
    int is_animated = size > 20 && !memcmp(data, "RIFF", 4) && !memcmp(data + 8, "WEBPVP8X", 8) && data[20] & 2;
    return is_animated ? tool_format("an animated WebP, which libavcodec cannot decode; webpmux -get frame 1 "
                                     "makes a picture of it") : NULL;
}

static int is_jpeg(const uint8_t *data, size_t size) { return size > 2 && !memcmp(data, "\xff\xd8\xff", 3); }

/* Of a JPEG file: in its APP1 segment. */
static int jpeg_orientation(const uint8_t *data, size_t size)
{
    for (size_t at = 2; at + 4 <= size && data[at] == 0xFF && data[at + 1] != 0xDA;) {
        size_t length = number_at(data, size, at + 2, 2, 0);
        if (data[at + 1] == 0xFF) { at++; continue; }                      /* fill bytes */
        if (length < 2 || length > size - at - 2) break;
        if (data[at + 1] == 0xE1 && length >= 8 && !memcmp(data + at + 4, "Exif\0\0", 6))
            return tiff_orientation(data + at + 4, length - 2);
        at += 2 + length;
    }
    return 1;
}

/* Whether an end marker follows a scan, which it does not in a file that is cut off. Segments are passed over: a
 * thumbnail in one has an end marker, too. */
static int jpeg_has_end(const uint8_t *data, size_t size)
{
    enum { FIRST = 0xC0, RST0 = 0xD0, SOI = 0xD8, EOI = 0xD9, SOS = 0xDA, FILL = 0xFF };
    int has_scan = 0;
    for (size_t at = 2; at + 2 <= size;) {
        const uint8_t *found = memchr(data + at, 0xFF, size - at - 1);
        if (!found) return 0;
        at = (size_t)(found - data) + 1;
        int marker = data[at];
        if (marker == EOI) return has_scan;
        if (marker == FILL) continue;
        at++;
        if (marker < FIRST || (marker >= RST0 && marker <= SOI)) continue;      /* these have no segment */
        size_t length = number_at(data, size, at, 2, 0);
        if (length < 2 || length > size - at) return 0;
        has_scan |= marker == SOS;
        if (has_scan && data[size - 2] == FILL && data[size - 1] == EOI) return 1;      /* where it nearly always is */
        at += length;
    }
    return 0;
}

/* 1 to 8: in JPEG's APP1, PNG's eXIf, WebP's EXIF, or TIFF itself; 1 if there is none. */
static int file_orientation(const uint8_t *data, size_t size)
{
    if (is_jpeg(data, size)) return jpeg_orientation(data, size);
    int png = size > 8 && !memcmp(data, "\x89PNG\r\n\x1a\n", 8);
    int webp = size > 12 && !memcmp(data, "RIFF", 4) && !memcmp(data + 8, "WEBP", 4);
    if (!png && !webp) return tiff_orientation(data, size);
    for (size_t at = png ? 8 : 12; at + 8 <= size;) {
        size_t length = number_at(data, size, at + (png ? 0 : 4), 4, webp);
        if (length > size - at - 8) break;
        if (!memcmp(data + at + (png ? 4 : 0), png ? "eXIf" : "EXIF", 4))
            return tiff_orientation(data + at + 8, length);
        at += 8 + length + (png ? 4 : length & 1);
    }
    return 1;
}

/* Decodes a file that examples/formats has a codec of into frame. Returns whether nothing is left to be done: it was
 * decoded, or refused for *reason. The library drops alpha, so that libavcodec's frame is taken if it has any. That
 * also decodes cameras' raw pixels, and what libswscale has no format for. */
static int own_decode(const AVPacket *file, const char *path, AVFrame *frame, int *orientation, char **reason)
{
    enum { PHOTOMETRIC = 262, SENSOR = 32803, LINEAR = 34892 };
    size_t size = (size_t)file->size;
    uint32_t codec = bzna_formats_recognize(file->data, size), kind = tiff_value(file->data, size, PHOTOMETRIC);
    bzna_status status;
    *reason = NULL;
    if (codec == BZNA_CODEC_UNKNOWN || kind == SENSOR || kind == LINEAR) return 0;
    *reason = pack_file_read(file, codec, frame, orientation, &status);
    if (status == BZNA_E_CODEC || status == BZNA_E_UNSUPPORTED || status == BZNA_E_DECODE || status == BZNA_E_TRUNCATED)
        return 1;
    if (*reason || tiff_may_be_black(file->data, size)) return !*reason;
    AVFrame *clear = tool_checked(av_frame_alloc());
    char *other = file_decode(file, path, clear);
    if (!other && clear->format != AV_PIX_FMT_PAL8 &&
        av_pix_fmt_desc_get((enum AVPixelFormat)clear->format)->flags & AV_PIX_FMT_FLAG_ALPHA) {
        av_frame_unref(frame);
        av_frame_move_ref(frame, clear);
        *orientation = file_orientation(file->data, size);      /* libavcodec has applied that of JPEG XL */
    }
    av_frame_free(&clear);
    free(other);
    return 1;
}

/* The file's profile: ignored, or applied, and noted either way. */
static char *profile_apply(const pack_settings *s, const AVPacket *file, AVFrame **picture, uint32_t *notes)
{
    tool_buffer profile = { NULL, 0 };
    size_t size = file->size > 0 ? profile_read(file->data, (size_t)file->size, &profile) : 0;
    int is_done = 0, is_other = size && !profile_is_srgb(profile.data, size);
    char *reason = is_other && s->converts_profiles && *picture ? profile_convert(picture, profile.data, size, &is_done)
                                                                : NULL;
    if (is_other) *notes |= is_done ? PACK_NOTE_CONVERTED : PACK_NOTE_PROFILE;
    free(profile.data);
    return reason;
}

/* JPEG that the library knows nothing of is libavcodec's, too. */
static char *bytes_decode(const AVPacket *file, const char *path, AVFrame *frame, int *orientation, uint32_t *notes)
{
    const uint8_t *data = file->data;
    size_t size = (size_t)file->size;
    char *reason;
    if (pack_is_heif(data, size)) return pack_heif_read(file, frame, orientation, notes);
    if (is_jpeg(data, size)) {
        bzna_status status;
        reason = pack_file_read(file, BZNA_CODEC_JPEG, frame, orientation, &status);
        if (status != BZNA_E_UNSUPPORTED && status != BZNA_E_CODEC) return reason;
        free(reason);
    }
    *orientation = file_orientation(data, size);
    if (own_decode(file, path, frame, orientation, &reason)) return reason;
    free(reason);
    reason = webp_refuse(data, size);
    return reason ? reason : file_decode(file, path, frame);
}

char *pack_picture_read(const pack_settings *s, const pack_file *from, AVPacket *file, AVFrame **picture,
                        uint32_t *notes)
{
    int orientation = 1;
    bzna_status status;
    *picture = tool_checked(av_frame_alloc());
    av_message[0] = 0;
    is_passing = 0;
    char *reason = from->archive && !from->is_file ? pack_sample_read(from, file, *picture, &orientation)
                                                   : file_read(from->path, file);
    if (!reason && s->is_copy && is_jpeg(file->data, (size_t)file->size)) {
        av_frame_free(picture);
        reason = profile_apply(s, file, picture, notes);
        return reason ? reason : pack_file_read(file, BZNA_CODEC_JPEG, NULL, &orientation, &status);
    }
    if (!reason && file->size) reason = bytes_decode(file, from->path, *picture, &orientation, notes);
    if (!reason) *notes |= profile_notes(file->data, (size_t)file->size, *picture, s->has_background);
    if (!reason) reason = pack_frame_crop(picture);
    if (!reason) reason = profile_apply(s, file, picture, notes);
    if (!reason && s->has_background) reason = pack_frame_blend(picture, s->background);
    if (!reason) reason = pack_frame_orient(picture, orientation);
    return reason;
}

char *pack_bytes_read(const pack_file *from, AVPacket *file)
{
    return from->archive && !from->is_file ? pack_sample_bytes(from, file) : file_read(from->path, file);
}

/* The writer looks at the headers. Decoding tells of a file without an end marker whether it is whole. */
int pack_picture_keep(const pack_settings *s, const pack_file *from, AVPacket *file, uint32_t *notes)
{
    AVFrame *none = NULL;
    if (!s->checks_headers) return 0;
    char *reason = pack_bytes_read(from, file);
    int is_kept = !reason && file->size > 0 && is_jpeg(file->data, (size_t)file->size) &&
                  jpeg_has_end(file->data, (size_t)file->size) && !(reason = profile_apply(s, file, &none, notes));
    free(reason);
    return is_kept;
}
