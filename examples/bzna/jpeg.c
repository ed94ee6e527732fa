/* jpeg.c - encodes pictures as JPEG, by libjpeg-turbo
 *
 * Baseline JPEG with a JFIF header and the best Huffman tables of each picture. Planes of Y'CbCr are encoded as they
 * are; RGB becomes Y'CbCr 4:2:0 in libjpeg-turbo. */
#include "tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#ifdef BZNA_JPEG
#  include <setjmp.h>
#  include <jpeglib.h>
#  include <jerror.h>

typedef struct coder {
    struct jpeg_compress_struct info;
    struct jpeg_error_mgr       errors;
    struct jpeg_destination_mgr destination;
    jmp_buf                     jump;
    const tool_jpeg_source     *source;
    JSAMPLE                    *rows;             /* what libjpeg takes at a time: of each plane, its rows in turn */
    tool_buffer                *jpeg;
    size_t                      full;             /* bytes of it that are written when `destination` is full */
} coder;

/* libjpeg may not return from an error: back to coder_try. */
static void leave(j_common_ptr info) { longjmp(((coder *)info->client_data)->jump, 1); }
static void be_silent(j_common_ptr info) { (void)info; }

/* Called where the buffer is full, and before the first byte. */
static boolean grow(j_compress_ptr info)
{
    coder *c = info->client_data;
    tool_buffer_reserve(c->jpeg, 2 * c->full + 65536);
    c->destination.next_output_byte = c->jpeg->data + c->full;
    c->destination.free_in_buffer = c->jpeg->size - c->full;
    c->full = c->jpeg->size;
    return TRUE;
}

static void begin(j_compress_ptr info) { grow(info); }
static void end(j_compress_ptr info) { (void)info; }

/* Copies one row of a plane, and repeats its last sample up to a whole number of blocks. */
static void row_copy(const tool_jpeg_source *source, int plane, uint32_t y, JSAMPLE *to, uint32_t padded)
{
    const uint32_t shift = plane && !source->is_444 ? 1 : 0;
    const uint32_t width = (source->width + shift) >> shift, height = (source->height + shift) >> shift;
    const uint8_t *from = source->planes[plane] + (ptrdiff_t)(y < height ? y : height - 1) * source->pitches[plane];
    memcpy(to, from, width);
    memset(to + width, from[width - 1], padded - width);
}

/* Hands libjpeg the planes: 8 rows of blocks at a time, or 16 where chroma has half of them. */
static void planes_write(coder *c)
{
    struct jpeg_compress_struct *info = &c->info;
    JSAMPROW rows[3][2 * DCTSIZE];
    JSAMPARRAY planes[3] = { rows[0], rows[1], rows[2] };
    const uint32_t step = (uint32_t)info->max_v_samp_factor * DCTSIZE;
    const uint32_t padded = (c->source->width + 2 * DCTSIZE - 1) / (2 * DCTSIZE) * (2 * DCTSIZE);
    for (uint32_t plane = 0; plane < 3; plane++)
        for (uint32_t i = 0; i < 2 * DCTSIZE; i++)
            rows[plane][i] = c->rows + (plane * 2 * DCTSIZE + i) * (size_t)padded;
    for (uint32_t top = 0; top < c->source->height; top += step) {
        for (int plane = 0; plane < 3; plane++) {
            const uint32_t shift = plane && !c->source->is_444 ? 1 : 0;
            for (uint32_t i = 0; i < step >> shift; i++)
                row_copy(c->source, plane, (top >> shift) + i, rows[plane][i], padded >> shift);
        }
        jpeg_write_raw_data(info, planes, step);
    }
}

static void rgb_write(coder *c)
{
    for (uint32_t y = 0; y < c->source->height; y++) {
        memcpy(c->rows, c->source->planes[0] + (ptrdiff_t)y * c->source->pitches[0], 3 * (size_t)c->source->width);
        jpeg_write_scanlines(&c->info, &c->rows, 1);
    }
}

static void encode(coder *c)
{
    struct jpeg_compress_struct *info = &c->info;
    const int is_rgb = !c->source->planes[1];
    jpeg_create_compress(info);
    info->dest = &c->destination;
    info->image_width = c->source->width;
    info->image_height = c->source->height;
    info->input_components = 3;
    info->in_color_space = is_rgb ? JCS_RGB : JCS_YCbCr;
    jpeg_set_defaults(info);                                        /* Y'CbCr 4:2:0 */
    jpeg_set_quality(info, c->source->quality, TRUE);
    if (c->source->is_444) info->comp_info[0].h_samp_factor = info->comp_info[0].v_samp_factor = 1;
    info->raw_data_in = !is_rgb;
    info->optimize_coding = TRUE;
    jpeg_start_compress(info, TRUE);
    if (is_rgb) rgb_write(c);
    else        planes_write(c);
    jpeg_finish_compress(info);
}

/* Returns 0 if libjpeg met an error. */
static int coder_try(coder *c)
{
    if (setjmp(c->jump)) return 0;
    encode(c);
    return 1;
}

int tool_jpeg_can_encode(void) { return 1; }

char *tool_jpeg_encode(const tool_jpeg_source *source, tool_buffer *jpeg, size_t *size)
{
    char text[JMSG_LENGTH_MAX], *reason = NULL;
    coder c = { .source = source, .jpeg = jpeg, .destination = { .init_destination = begin,
                .empty_output_buffer = grow, .term_destination = end } };
    c.info.err = jpeg_std_error(&c.errors);
    c.info.client_data = &c;
    c.errors.error_exit = leave;
    c.errors.output_message = be_silent;
    c.rows = tool_checked(malloc(3 * 2 * DCTSIZE * ((size_t)source->width + 2 * DCTSIZE)));
    if (coder_try(&c)) {
        *size = c.full - c.destination.free_in_buffer;
    } else if (c.errors.msg_code == JERR_OUT_OF_MEMORY) {
        reason = pack_errno_reason("cannot be encoded", ENOMEM);
    } else {
        c.errors.format_message((j_common_ptr)&c.info, text);
        reason = tool_format("cannot be encoded: %s", text);
    }
    jpeg_destroy_compress(&c.info);
    free(c.rows);
    return reason;
}
#else
int tool_jpeg_can_encode(void) { return 0; }

char *tool_jpeg_encode(const tool_jpeg_source *source, tool_buffer *jpeg, size_t *size)
{
    (void)source, (void)jpeg, (void)size;
    return tool_format("cannot be encoded: this bzna was built without libjpeg-turbo (Debian's libjpeg-dev)");
}
#endif
