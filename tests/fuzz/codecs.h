/* codecs.h - the target of codec configuration records, parameter sets and sequence headers, without a container:
 *
 *     0   the codec: H.264, H.265, AV1, JPEG, a still or raw pixels
 *     1   bytes of a NAL unit's length
 *     2   bytes of the config, 2 bytes
 *     4   the config, then the access unit
 *
 * Include behind mutate.h. */
#ifndef BENZINA_FUZZ_CODECS_H
#define BENZINA_FUZZ_CODECS_H

enum { CODEC_HEAD = 4 };

static void run_codec(const uint8_t *data, size_t size)
{
    static const uint32_t codecs[] = { BZNA_CODEC_H264, BZNA_CODEC_H265, BZNA_CODEC_AV1,
                                       BZNA_CODEC_JPEG, BZNA_CODEC_STILL, BZNA_CODEC_RAW };
    static const uint32_t lengths[] = { 0, 1, 2, 4, 3 };
    if (size < CODEC_HEAD)
        return;
    bytes rest = { data + CODEC_HEAD, size - CODEC_HEAD };
    const bytes config = take_bytes(&rest, bzi_be16(data + 2));
    uint8_t *own_config = copied(config), *own_data = copied(rest), *key = malloc(4096);
    bzna_image image = { .struct_size = sizeof image, .codec = codecs[data[0] % 6],
                         .length_size = lengths[data[1] % 5], .config = config.size ? own_config : NULL,
                         .config_size = config.size, .data = own_data, .data_size = rest.size };
    const bzi_codec *codec = bzi_codec_find(image.codec);
    bzi_format format;
    bzna_error err;
    FUZZ_CHECK(key);
    if (image.codec == BZNA_CODEC_RAW)
        image.width = image.frame_width = 4, image.height = image.frame_height = (uint32_t)(rest.size / 4);
    look_at_headers(&image);
    if (codec->inspect(&image, &format, &err) == BZNA_OK)
        bzi_image_key(&image, key, 4096);
    memset(&format, 0, sizeof format);                      /* parameter sets alone */
    if (image.codec == BZNA_CODEC_H264 || image.codec == BZNA_CODEC_H265)
        bzi_sps_read(image.codec, (bzi_span){ own_data, rest.size }, &format);
    free(own_config);
    free(own_data);
    free(key);
}

/* Of an archive's or a video's first picture. */
static void seed_codec(fuzz_give *give, void *user, const char *path)
{
    bzna_dataset *dataset = NULL;
    bzna_image image = { .struct_size = sizeof image };
    static uint8_t input[1 << 16], data[1 << 16];
    size_t size = CODEC_HEAD;
    if (bzna_dataset_open(fuzz_context(), path, NULL, &dataset, NULL) == BZNA_OK &&
        bzna_dataset_read_image(dataset, 0, "image", data, sizeof data, &image, NULL) == BZNA_OK) {
        memcpy(input, (uint8_t[CODEC_HEAD]){ (uint8_t)(image.codec == BZNA_CODEC_H264 ? 0 :
                                                       image.codec == BZNA_CODEC_H265 ? 1 : 2),
                                             (uint8_t)(image.length_size == 4 ? 3 : image.length_size),
                                             (uint8_t)(image.config_size >> 8), (uint8_t)image.config_size },
               CODEC_HEAD);
        if (image.config_size) {
            memcpy(input + size, image.config, (size_t)image.config_size);
            size += (size_t)image.config_size;
        }
        memcpy(input + size, image.data, (size_t)bzi_min(image.data_size, 600));
        give(user, input, size + (size_t)bzi_min(image.data_size, 600));
    }
    bzna_dataset_close(dataset);
}

static void seeds_codec(fuzz_give *give, void *user)
{
    seed_codec(give, user, "tests/data/seeds/h264.mp4");
    seed_codec(give, user, "tests/data/seeds/h265.mp4");
    seed_codec(give, user, "tests/data/seeds/av1.mp4");
    seed_codec(give, user, "tests/data/slices_h264.bzna");
}

/* The config is changed as often as what is behind it, and its size follows. */
static size_t mutate_codec(uint8_t *data, size_t size, size_t capacity, unsigned seed)
{
    mutation m = { data, size, capacity, seed };
    if (size < CODEC_HEAD || seed % 8 == 0)
        return LLVMFuzzerMutate(data, size, capacity);
    const size_t config = bzi_min(bzi_be16(data + 2), size - CODEC_HEAD);
    if (seed % 2) {
        mutation_apply(&m, CODEC_HEAD + config, size - CODEC_HEAD - config);
        return m.size;
    }
    const size_t now = mutation_apply(&m, CODEC_HEAD, config);
    data[2] = (uint8_t)(now >> 8);
    data[3] = (uint8_t)now;
    return m.size;
}

#endif
