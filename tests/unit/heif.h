/* heif.h - the codec of HEIF and AVIF for suites, with all that is static in it, and the tiles that it has decoded */
#ifndef BENZINA_TEST_HEIF_H
#define BENZINA_TEST_HEIF_H

static atomic_uint heif_tiles;

static bzna_status heif_count_tile(bzna_decoder *decoder, const bzna_image *image, bzna_picture *picture,
                                   bzna_error *err)
{
    atomic_fetch_add(&heif_tiles, 1);
    return bzna_decoder_decode(decoder, image, picture, err);
}

#define bzna_decoder_decode heif_count_tile
#include "../../examples/formats/heif.c"
#undef bzna_decoder_decode

/* A context that reads HEIF, with the given settings, or NULL. */
BZI_MAYBE_UNUSED static bzna_context *heif_context(const bzna_context_config *given)
{
    bzna_context_config config = given ? *given : (bzna_context_config){ .struct_size = sizeof config };
    bzna_codec codec;
    bzna_context *context = NULL;
    bzna_formats_heif(&codec);
    config.own_codecs.ptr = &codec;
    config.own_codecs.count = 1;
    bzna_context_open(&config, &context, NULL);
    return context;
}

/* A file in memory as a data set of one sample. */
BZI_MAYBE_UNUSED static bzna_dataset *heif_open_bytes(bzna_context *context, const void *data, uint64_t size,
                                                      bzna_error *error)
{
    static const bzna_provider_field field = { .name = "image", .kind = BZNA_FIELD_IMAGE, .located = 1 };
    static bzna_place places[64];     /* which stay until the data sets are closed: suites have few at once */
    static uint32_t used;
    bzna_place *place = &places[used++ % 64];
    const bzna_provider provider = { .struct_size = sizeof provider, .count = 1, .fields = &field, .field_count = 1,
                                     .places = place };
    bzna_dataset *dataset = NULL;
    *place = (bzna_place){ .data = data, .size = size };
    bzna_dataset_open_provider(context, &provider, NULL, &dataset, error);
    return dataset;
}
#endif
