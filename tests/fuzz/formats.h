/* formats.h - targets of the codecs of examples/formats that libraries decode: GIF, BMP and PNM, TIFF, JPEG 2000.
 * Include after fuzz.h, with FUZZ_FORMATS, in a program that has these codecs. */
#ifndef BENZINA_FUZZ_FORMATS_H
#define BENZINA_FUZZ_FORMATS_H

enum { FORMATS_PIXELS = 1 << 22 };

/* Planes of exactly the size that a codec may write, with nothing after them. */
static bzna_codec_planes formats_planes(const bzna_codec_shape *s, uint8_t palette[768])
{
    const uint32_t count = s->pixels == BZNA_PIXELS_GRAY || s->pixels == BZNA_PIXELS_INDEX || s->interleaved ? 1 : 3;
    bzna_codec_planes p = { .struct_size = sizeof p, .width = s->width, .height = s->height,
                            .step = (s->depth > 8 ? 2u : 1u) * (s->interleaved ? 3 : 1) };
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t shift_x = i ? s->chroma_shift_x : 0, shift_y = i ? s->chroma_shift_y : 0;
        const size_t width = (s->width + (1u << shift_x) - 1) >> shift_x;
        const size_t height = (s->height + (1u << shift_y) - 1) >> shift_y;
        p.pitch[i] = (int64_t)((width * p.step + 63) / 64 * 64);
        FUZZ_CHECK(p.plane[i] = aligned_alloc(64, (size_t)p.pitch[i] * height));
    }
    if (s->interleaved)
        p.plane[1] = (uint8_t *)p.plane[0] + p.step / 3, p.plane[2] = (uint8_t *)p.plane[0] + 2 * p.step / 3;
    if (s->pixels == BZNA_PIXELS_INDEX)
        p.palette = memset(palette, 0, 768);
    return p;
}

/* A part of the picture, which the input chooses. */
static bzna_rectangle formats_part(const bzna_codec_shape *s, const uint8_t *data, size_t size)
{
    const uint32_t at = bzi_be16(data + size - 2), x = at % s->width, y = (at >> 8) % s->height;
    return (bzna_rectangle){ x, y, x + 1 + at % (s->width - x), y + 1 + at % (s->height - y) };
}

static void formats_decode(const bzna_codec *codec, const uint8_t *data, size_t size)
{
    bzna_error err = { .struct_size = sizeof err };
    bzna_codec_shape shape = { .struct_size = sizeof shape, .depth = 8 };
    void *state = codec->thread_begin ? NULL : codec->user;
    uint8_t palette[768];
    if (codec->thread_begin)
        FUZZ_CHECK(codec->thread_begin(codec->user, &state, &err) == BZNA_OK);
    if (codec->inspect(state, data, size, &shape, &err) == BZNA_OK && shape.width && shape.height &&
        (uint64_t)shape.width * shape.height <= FORMATS_PIXELS) {
        bzna_codec_planes planes = formats_planes(&shape, palette);
        const bzna_rectangle part = formats_part(&shape, data, size);
        const bzna_status status = codec->decode(state, data, size, &part, &planes, &err);
        FUZZ_CHECK(status == BZNA_OK || *err.message);
        for (int i = 0; i < (shape.interleaved ? 1 : 3); i++)
            free(planes.plane[i]);
    }
    if (codec->thread_end)
        codec->thread_end(codec->user, state);
}

static void run_formats(const uint8_t *data, size_t size)
{
    bzna_codec codecs[FUZZ_CODECS];
    bzna_error err = { .struct_size = sizeof err };
    const uint32_t count = fuzz_codecs(codecs);
    for (uint32_t i = 1; i < count && size >= 2; i++) {     /* 0 is HEIF's */
        bzna_image image = { .struct_size = sizeof image, .codec = BZNA_CODEC_OWN + i, .data = data,
                             .data_size = size };
        bzna_picture picture = { .struct_size = sizeof picture };
        if (!codecs[i].decode || !codecs[i].recognize(codecs[i].user, data, bzi_min(size, 512)))
            continue;                                       /* without decode, its library is not there */
        image.palette = size % 2;
        bzna_decoder_decode(fuzz_decoder, &image, &picture, &err);
        formats_decode(&codecs[i], data, size);
        return;
    }
}

#endif
