/* jxl.c - JPEG XL by libjxl: a codec that teaches how a codec is written
 *
 *     bzna_codec codec;
 *     bzna_formats_jxl(&codec);
 *     bzna_context_config config = { .struct_size = sizeof config,
 *                                    .own_codecs = { .ptr = &codec, .count = 1 } };
 *
 * Compile it with $(pkg-config --cflags libjxl), and link $(pkg-config --libs libjxl), or define
 * BENZINA_FORMATS_NO_JXL. From then on, folders, tars, archives and providers that are opened with this context have
 * pictures of JPEG XL. libjxl 0.7 and later will do.
 *
 * A codec answers four questions, which are the functions below, from top to bottom:
 *     is this file mine?                      recognize    a look at its first bytes
 *     what do I keep for a thread?            thread_begin, thread_end
 *     what is in it, without decoding it?     inspect      the library checks limits and draws the crop after that
 *     its pixels, at least of this part?      decode       into memory that the library made
 *
 * The pixels are those of djxl: in the color space that the file names, which benzina treats as sRGB like those of all
 * files. Alpha is dropped. Of an animation, the first frame is taken. Floating-point pictures and CMYK are refused. */
#include "formats.h"

/* Several threads ask at once, and user is NULL here: this looks at nothing but the bytes. A file is a bare codestream,
 * or a container that begins with a box of its own. */
static int32_t jxl_recognize(void *user, const void *head, uint64_t bytes)
{
    (void)user;
    return (bytes >= 2 && !memcmp(head, "\xff\x0a", 2)) ||
           (bytes >= 12 && !memcmp(head, "\0\0\0\x0cJXL \r\n\x87\n", 12));
}

#ifndef BENZINA_FORMATS_NO_JXL

#include <jxl/decode.h>

/* A decoder is worth keeping: its memory serves one picture after the other. No two threads use the same, so that it
 * needs no lock. It starts no threads of its own, since the library has one for each processor. */
static bzna_status jxl_thread_begin(void *user, void **state, bzna_error *err)
{
    (void)user;
    *state = JxlDecoderCreate(NULL);
    if (*state)
        return BZNA_OK;
    return bzna_formats_fail(err, BZNA_E_MEMORY, "libjxl cannot make a decoder");
}

static void jxl_thread_end(void *user, void *state)
{
    (void)user;
    JxlDecoderDestroy(state);
}

/* Why libjxl did not come to what was asked for. Only the sample fails, so the status may say what it is. */
static bzna_status jxl_stopped(JxlDecoderStatus at, bzna_error *err)
{
    if (at == JXL_DEC_NEED_MORE_INPUT)
        return bzna_formats_fail(err, BZNA_E_TRUNCATED, "the file ends too early");
    return bzna_formats_fail(err, BZNA_E_DECODE, "libjxl: the data are damaged");
}

/* Begins to read a file, all of which is there: libjxl says that it needs more input if the file ends too early. A
 * decoder is as new after a reset: nothing of the picture before must be left. Pictures are
 * not turned, because the warp does that, in the same pass as all else. */
static bzna_status jxl_begin(JxlDecoder *decoder, const void *data, uint64_t bytes, int events, bzna_error *err)
{
    JxlDecoderReset(decoder);
    if (JxlDecoderSetKeepOrientation(decoder, JXL_TRUE) != JXL_DEC_SUCCESS ||
        JxlDecoderSubscribeEvents(decoder, events) != JXL_DEC_SUCCESS ||
        JxlDecoderSetInput(decoder, data, (size_t)bytes) != JXL_DEC_SUCCESS)
        return bzna_formats_fail(err, BZNA_E_DECODE, "libjxl refuses the file");
    return BZNA_OK;
}

/* The head of the picture is enough here. What is said must be true of decode, too: the library makes planes by it. */
static bzna_status jxl_inspect(void *state, const void *data, uint64_t bytes, bzna_codec_shape *shape,
                               bzna_error *err)
{
    JxlDecoder *const decoder = state;
    JxlDecoderStatus at;
    JxlBasicInfo info;
    const bzna_status status = jxl_begin(decoder, data, bytes, JXL_DEC_BASIC_INFO, err);

    if (status != BZNA_OK)
        return status;
    if ((at = JxlDecoderProcessInput(decoder)) != JXL_DEC_BASIC_INFO)
        return jxl_stopped(at, err);
    if (JxlDecoderGetBasicInfo(decoder, &info) != JXL_DEC_SUCCESS)
        return jxl_stopped(JXL_DEC_ERROR, err);

    if (info.exponent_bits_per_sample || info.bits_per_sample > 16)
        return bzna_formats_fail(err, BZNA_E_UNSUPPORTED, "pictures of floats or of over 16 bits are not read");
    for (uint32_t i = 0; i < info.num_extra_channels; i++) {
        JxlExtraChannelInfo extra;
        if (JxlDecoderGetExtraChannelInfo(decoder, i, &extra) != JXL_DEC_SUCCESS || extra.type == JXL_CHANNEL_BLACK)
            return bzna_formats_fail(err, BZNA_E_UNSUPPORTED, "pictures of CMYK are not read");
    }

    shape->width = info.xsize;
    shape->height = info.ysize;
    shape->pixels = info.num_color_channels == 1 ? BZNA_PIXELS_GRAY : BZNA_PIXELS_RGB;
    shape->interleaved = info.num_color_channels != 1;      /* as libjxl writes them: R, G, B, R, G, B */
    shape->depth = info.bits_per_sample <= 8 ? 8 : 16;      /* libjxl stretches 9 to 15 bits to 16 */
    shape->orientation = info.orientation;                  /* JPEG XL counts as EXIF does */
    return BZNA_OK;
}

/* Where decoded pixels go. */
typedef struct jxl_target {
    const bzna_rectangle    *needed;
    const bzna_codec_planes *planes;
} jxl_target;

/* libjxl hands over pixels in pieces of rows, as it comes to them. JPEG XL is decoded as a whole, but what the warp
 * does not read need not be copied. */
static void jxl_pixels(void *opaque, size_t x, size_t y, size_t count, const void *pixels)
{
    const jxl_target *const target = opaque;
    const size_t step = target->planes->step;               /* bytes of a pixel, since its samples are interleaved */
    const size_t first = x > target->needed->x0 ? x : target->needed->x0;
    const size_t end = x + count < target->needed->x1 ? x + count : target->needed->x1;

    if (y >= target->needed->y0 && y < target->needed->y1 && first < end)
        memcpy(formats_row(target->planes, 0, (uint32_t)y) + first * step,
               (const uint8_t *)pixels + (first - x) * step, (end - first) * step);
}

/* inspect was called for this file, but perhaps others came between: so it begins again. */
static bzna_status jxl_decode(void *state, const void *data, uint64_t bytes, const bzna_rectangle *needed,
                              const bzna_codec_planes *planes, bzna_error *err)
{
    JxlDecoder *const decoder = state;
    JxlDecoderStatus at;
    JxlBasicInfo info;
    JxlPixelFormat format = { .endianness = JXL_NATIVE_ENDIAN };
    jxl_target target = { needed, planes };
    bzna_status status = jxl_begin(decoder, data, bytes, JXL_DEC_BASIC_INFO | JXL_DEC_FULL_IMAGE, err);

    while (status == BZNA_OK && (at = JxlDecoderProcessInput(decoder)) != JXL_DEC_FULL_IMAGE) {
        if (at == JXL_DEC_BASIC_INFO) {
            /* the planes are as large as the file said then. It says the same now, unless its memory has changed */
            if (JxlDecoderGetBasicInfo(decoder, &info) != JXL_DEC_SUCCESS || info.xsize != planes->width ||
                info.ysize != planes->height)
                return bzna_formats_fail(err, BZNA_E_MISMATCH, "the picture's size has changed");
            format.num_channels = info.num_color_channels;
            format.data_type = info.bits_per_sample <= 8 ? JXL_TYPE_UINT8 : JXL_TYPE_UINT16;
        } else if (at != JXL_DEC_NEED_IMAGE_OUT_BUFFER) {
            status = jxl_stopped(at, err);
        } else if (JxlDecoderSetImageOutCallback(decoder, &format, jxl_pixels, &target) != JXL_DEC_SUCCESS) {
            status = bzna_formats_fail(err, BZNA_E_DECODE, "libjxl does not give these pixels");
        }
    }
    JxlDecoderReleaseInput(decoder);                        /* the bytes are the library's again */
    return status;
}

#endif

void bzna_formats_jxl(bzna_codec *codec)
{
    *codec = (bzna_codec){
        .struct_size = sizeof *codec,
        .name = "JPEG XL",
        .extensions = "jxl",
        .recognize = jxl_recognize,
#ifdef BENZINA_FORMATS_NO_JXL
        .user = (void *)"libjxl",
        .unwrap = bzna_formats_lacks,
#else
        .fingerprint = JxlDecoderVersion(),                 /* another version may round otherwise */
        .thread_begin = jxl_thread_begin,
        .thread_end = jxl_thread_end,
        .inspect = jxl_inspect,
        .decode = jxl_decode,
#endif
    };
}
