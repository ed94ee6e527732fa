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
 * A codec answers four questions, which are the functions below, from top to bottom, and one in formats.h:
 *     is this file mine?                      recognize    a look at its first bytes: formats_is_jxl
 *     what do I keep for a thread?            thread_begin, thread_end
 *     what is in it, without decoding it?     inspect      the library checks limits and draws the crop after that
 *     its pixels, at least of this part?      decode       into memory that the library made
 *
 * The pixels are those of djxl: in the color space that the file names, which benzina treats as sRGB like those of all
 * files. Alpha is dropped. Of an animation, the first frame is taken. Floating-point pictures and CMYK are refused. */
#include "formats.h"

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

/* Why libjxl did not come to what was asked for: it needs more input than there is if the file ends too early. Only
 * the sample fails, so the status may say what it is. */
static bzna_status jxl_fail(JxlDecoderStatus at, bzna_error *err)
{
    if (at == JXL_DEC_NEED_MORE_INPUT)
        return bzna_formats_fail(err, BZNA_E_TRUNCATED, "the file ends too early");
    return bzna_formats_fail(err, BZNA_E_DECODE, "libjxl: the data are damaged");
}

/* Begins to read a file, up to what it says of its picture. A decoder is as new after a reset: nothing of the picture
 * before must be left. Pictures are not turned, because the warp does that, in the same pass as all else. */
static bzna_status jxl_begin(JxlDecoder *decoder, const void *data, uint64_t bytes, int events, JxlBasicInfo *info,
                             bzna_error *err)
{
    JxlDecoderStatus at = JXL_DEC_ERROR;

    JxlDecoderReset(decoder);
    if (JxlDecoderSetKeepOrientation(decoder, JXL_TRUE) == JXL_DEC_SUCCESS &&
        JxlDecoderSubscribeEvents(decoder, events | JXL_DEC_BASIC_INFO) == JXL_DEC_SUCCESS &&
        JxlDecoderSetInput(decoder, data, (size_t)bytes) == JXL_DEC_SUCCESS &&
        (at = JxlDecoderProcessInput(decoder)) == JXL_DEC_BASIC_INFO &&
        JxlDecoderGetBasicInfo(decoder, info) == JXL_DEC_SUCCESS)
        return BZNA_OK;
    return jxl_fail(at, err);
}

/* The head of the picture is enough here. What is said must be true of decode, too: the library makes planes by it. */
static bzna_status jxl_inspect(void *state, const void *data, uint64_t bytes, bzna_codec_shape *shape,
                               bzna_error *err)
{
    JxlBasicInfo info;
    JxlExtraChannelInfo extra;
    const bzna_status status = jxl_begin(state, data, bytes, 0, &info, err);

    if (status != BZNA_OK)
        return status;
    if (info.exponent_bits_per_sample || info.bits_per_sample > 16)
        return bzna_formats_fail(err, BZNA_E_UNSUPPORTED, "pictures of floats or of over 16 bits are not read");
    for (uint32_t i = 0; i < info.num_extra_channels; i++)
        if (JxlDecoderGetExtraChannelInfo(state, i, &extra) != JXL_DEC_SUCCESS || extra.type == JXL_CHANNEL_BLACK)
            return bzna_formats_fail(err, BZNA_E_UNSUPPORTED, "pictures of CMYK are not read");

    shape->width = info.xsize;
    shape->height = info.ysize;
    shape->pixels = info.num_color_channels == 1 ? BZNA_PIXELS_GRAY : BZNA_PIXELS_RGB;
    shape->interleaved = info.num_color_channels != 1;      /* as libjxl writes them: R, G, B, R, G, B */
    shape->depth = info.bits_per_sample <= 8 ? 8 : 16;      /* libjxl stretches 9 to 15 bits to 16 */
    shape->orientation = info.orientation;                  /* JPEG XL counts as EXIF does */
    return BZNA_OK;
}

/* inspect was called for this file, but perhaps others came between: so it begins again. JPEG XL is decoded as a whole,
 * whatever is needed of it, and libjxl writes it where it belongs. */
static bzna_status jxl_decode(void *state, const void *data, uint64_t bytes, const bzna_rectangle *needed,
                              const bzna_codec_planes *planes, bzna_error *err)
{
    JxlDecoderStatus at;
    JxlBasicInfo info;
    JxlPixelFormat format = { .endianness = JXL_NATIVE_ENDIAN, .align = (size_t)planes->pitch[0] };
    bzna_status status = jxl_begin(state, data, bytes, JXL_DEC_FULL_IMAGE, &info, err);

    (void)needed;
    if (status != BZNA_OK)
        return status;
    /* the planes are as large as the file said then. It says the same now, unless its memory has changed */
    format.num_channels = info.num_color_channels;
    format.data_type = info.bits_per_sample <= 8 ? JXL_TYPE_UINT8 : JXL_TYPE_UINT16;
    if (info.xsize != planes->width || info.ysize != planes->height ||
        planes->step != info.num_color_channels * (info.bits_per_sample <= 8 ? 1 : 2))
        return bzna_formats_fail(err, BZNA_E_MISMATCH, "the picture's size has changed");

    while ((at = JxlDecoderProcessInput(state)) == JXL_DEC_NEED_IMAGE_OUT_BUFFER)
        if (JxlDecoderSetImageOutBuffer(state, &format, planes->plane[0], (size_t)planes->pitch[0] * info.ysize) !=
            JXL_DEC_SUCCESS)
            break;
    JxlDecoderReleaseInput(state);                          /* the bytes are the library's again */
    return at == JXL_DEC_FULL_IMAGE ? BZNA_OK : jxl_fail(at, err);
}

#endif

void bzna_formats_jxl(bzna_codec *codec)
{
    formats_lacks_jxl(codec);                               /* its name, extensions, and recognize */
#ifndef BENZINA_FORMATS_NO_JXL
    formats_decodes(codec, jxl_inspect, jxl_decode);
    codec->fingerprint = JxlDecoderVersion();               /* another version may round otherwise */
    codec->thread_begin = jxl_thread_begin;
    codec->thread_end = jxl_thread_end;
#endif
}
