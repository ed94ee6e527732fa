/* test_14_decode.c - software decoding: right pixels, and the same pixels or the same error whatever was decoded before. */
#include "../benzina.c"
#include "test.h"

#define COUNT(array) (sizeof (array) / sizeof *(array))

#ifdef BENZINA_NO_AVCODEC
TEST(pictures_are_decoded) { SKIP("built without libavcodec"); }
TEST_MAIN(RUN(pictures_are_decoded))
#else
#include <libavutil/md5.h>

/* ---- Coded pictures ----------------------------------------------------------------------------------------------------- */

/* A coded picture in memory of exactly its size, so that a sanitizer sees every step outside. */
typedef struct unit {
    bzna_image image;
    uint8_t   *config, *data;
} unit;

static const char *const files[] = { "tests/data/mini_h264.bzna", "tests/data/mini_h265.bzna" };     /* by codec - 1 */
static bzna_context *context;

static uint8_t *copy_of(const void *bytes, uint64_t size)
{
    uint8_t *copy = malloc(size ? (size_t)size : 1);
    if (!copy)
        abort();
    if (size)
        memcpy(copy, bytes, (size_t)size);
    return copy;
}

static unit unit_copy(const bzna_image *image)
{
    unit u;
    u.image = *image;
    u.image.config = u.config = image->config ? copy_of(image->config, image->config_size) : NULL;
    u.image.data = u.data = copy_of(image->data, image->data_size);
    return u;
}

static void unit_free(unit *u)
{
    free(u->config);
    free(u->data);
}

static unit unit_load(uint32_t codec, uint64_t index, const char *track)
{
    static uint8_t buffer[1 << 19];
    bzna_image image = { .struct_size = sizeof image };
    bzna_dataset *dataset = NULL;
    if (bzna_dataset_open(context, files[codec - 1], NULL, &dataset, NULL) != BZNA_OK ||
        bzna_dataset_image(dataset, index, track, buffer, sizeof buffer, &image, NULL) != BZNA_OK) {
        printf("cannot load sample %d of %s\n", (int)index, files[codec - 1]);
        exit(1);
    }
    bzna_dataset_close(dataset);
    return unit_copy(&image);
}

static void unit_cut(unit *u, uint64_t size)
{
    uint8_t *shorter = copy_of(u->data, size);
    free(u->data);
    u->image.data = u->data = shorter;
    u->image.data_size = size;
}

static uint64_t random_state = 0x2545f4914f6cdd1dull;

static uint32_t random_u32(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (uint32_t)(random_state * 2685821657736338717ull >> 32);
}

/* ---- Outcomes ----------------------------------------------------------------------------------------------------------- */

/* All that a caller can see of a decode: status, message, description, every sample of the frame. */
typedef struct outcome {
    bzna_status  status;
    bzna_error   error;
    bzna_picture picture;             /* without addresses */
    uint8_t     *pixels;
    uint64_t     size;
} outcome;

static uint64_t picture_pixels(const bzna_picture *p, uint8_t *out)
{
    uint64_t at = 0;
    for (int i = 0; i < 3 && p->plane[i]; i++) {
        uint32_t w = i ? (p->frame_width + (1u << p->chroma_shift_x) - 1) >> p->chroma_shift_x : p->frame_width;
        uint32_t h = i ? (p->frame_height + (1u << p->chroma_shift_y) - 1) >> p->chroma_shift_y : p->frame_height;
        for (uint32_t y = 0; y < h; y++, at += w)
            if (out)
                memcpy(out + at, (const uint8_t *)p->plane[i] + (int64_t)y * p->pitch[i], w);
    }
    return at;
}

static outcome decode(bzna_decoder *decoder, const bzna_image *image)
{
    outcome o;
    memset(&o, 0, sizeof o);
    o.error.struct_size = sizeof o.error;
    o.picture.struct_size = sizeof o.picture;
    o.status = bzna_decoder_decode(decoder, image, &o.picture, &o.error);
    if (o.status == BZNA_OK) {
        o.size = picture_pixels(&o.picture, NULL);
        o.pixels = malloc((size_t)o.size);
        if (!o.pixels)
            abort();
        picture_pixels(&o.picture, o.pixels);
        memset(o.picture.plane, 0, sizeof o.picture.plane);
        memset(o.picture.pitch, 0, sizeof o.picture.pitch);
    }
    return o;
}

static bzna_decoder *decoder_new(void)
{
    bzna_decoder *decoder = NULL;
    if (bzna_decoder_open(context, &decoder, NULL) != BZNA_OK)
        exit(1);
    return decoder;
}

/* What a decoder without a past makes of it. */
static outcome decode_fresh(const bzna_image *image)
{
    bzna_decoder *decoder = decoder_new();
    outcome o = decode(decoder, image);
    bzna_decoder_close(decoder);
    return o;
}

static int same(const outcome *a, const outcome *b)
{
    return a->status == b->status && a->size == b->size && !strcmp(a->error.message, b->error.message) &&
           !memcmp(&a->picture, &b->picture, sizeof a->picture) && (!a->size || !memcmp(a->pixels, b->pixels, (size_t)a->size));
}

static void outcome_free(outcome *o) { free(o->pixels); }

/* Decodes and forgets. */
static bzna_status pass(bzna_decoder *decoder, const bzna_image *image)
{
    bzna_picture picture = { .struct_size = sizeof picture };
    return bzna_decoder_decode(decoder, image, &picture, NULL);
}

static void report_difference(const char *what, const outcome *a, const outcome *b)
{
    test_failures++;
    if (test_failures > 8)
        return;
    printf("  %s: %s \"%s\", but alone %s \"%s\"%s\n", what, bzna_status_name(a->status), a->error.message, bzna_status_name(b->status), b->error.message,
           a->status == BZNA_OK && b->status == BZNA_OK ? ", with other pixels" : "");
}

/* ---- Right pixels ------------------------------------------------------------------------------------------------------- */

TEST(every_picture_has_the_md5_of_the_encoders_decoder)
{
    static const char *const lists[] = { "tests/data/mini_h264.json", "tests/data/mini_h265.json" };
    static char json[1 << 16];
    for (uint32_t codec = 1; codec <= 2; codec++) {
        FILE *file = fopen(lists[codec - 1], "r");
        char *at = json;
        bzna_decoder *decoder = decoder_new();
        REQUIRE(file != NULL);
        json[fread(json, 1, sizeof json - 1, file)] = 0;
        fclose(file);
        for (int n = 0; n < 16; n++) {                      /* of each sample the input, then the thumbnail */
            unit u = unit_load(codec, (uint64_t)n / 2, n % 2 ? "bzna_thumb" : "bzna_input");
            outcome o = decode(decoder, &u.image);
            uint8_t md5[16];
            char text[33] = "";
            CHECK_EQ(o.status, BZNA_OK);
            av_md5_sum(md5, o.pixels, (size_t)o.size);
            for (int i = 0; i < 16; i++)
                snprintf(text + 2 * i, 3, "%02x", md5[i]);
            at = strstr(at, "\"md5_yuv420p_frame\": \"");
            REQUIRE(at != NULL);
            at += strlen("\"md5_yuv420p_frame\": \"");
            CHECK(!strncmp(at, text, 32));
            outcome_free(&o);
            unit_free(&u);
        }
        bzna_decoder_close(decoder);
    }
}

TEST(a_picture_is_described_by_container_and_stream)
{
    for (uint32_t codec = 1; codec <= 2; codec++) {
        bzna_decoder *decoder = decoder_new();
        unit u = unit_load(codec, 3, "bzna_input");
        bzna_picture p = { .struct_size = sizeof p }, q = p;
        CHECK_EQ(bzna_decoder_decode(decoder, &u.image, &p, NULL), BZNA_OK);
        CHECK(p.struct_size == sizeof p && p.depth == 8);
        CHECK(p.width == 1300 && p.height == 900 && p.frame_width == 1536 && p.frame_height == 1024);
        CHECK(p.crop_x == u.image.crop_x && p.crop_y == u.image.crop_y);
        CHECK(p.chroma_shift_x == 1 && p.chroma_shift_y == 1);
        CHECK(p.pitch[0] >= 1536 && p.pitch[1] >= 768 && p.pitch[2] >= 768);
        CHECK(p.plane[0] && p.plane[1] && p.plane[2]);
        CHECK(p.colour.present && p.colour.matrix == 5 && p.colour.full_range == 1);       /* the VUI of these streams */
        CHECK(p.chroma_left == 0 && p.chroma_top == 0);     /* and centred chroma, as in JPEG */
        u.image.colour.present = 1;                         /* the container's word stands above the stream's */
        u.image.colour.matrix = 9;
        u.image.colour.full_range = 0;
        CHECK_EQ(bzna_decoder_decode(decoder, &u.image, &q, NULL), BZNA_OK);
        CHECK(q.colour.matrix == 9 && q.colour.full_range == 0);
        CHECK(q.chroma_left == 0 && q.chroma_top == 0);     /* siting is the stream's all the same */
        u.image.colour.present = 0;
        CHECK_EQ(bzna_decoder_decode(decoder, &u.image, &q, NULL), BZNA_OK);
        CHECK(q.colour.matrix == 5 && q.colour.full_range == 1);
        unit_free(&u);
        bzna_decoder_close(decoder);
    }
}

TEST(a_shorter_picture_struct_is_filled_as_far_as_it_goes)
{
    unit u = unit_load(BZNA_CODEC_H264, 4, NULL);
    bzna_decoder *decoder = decoder_new();
    bzna_picture p;
    memset(&p, 0xaa, sizeof p);
    p.struct_size = offsetof(bzna_picture, crop_x);
    CHECK_EQ(bzna_decoder_decode(decoder, &u.image, &p, NULL), BZNA_OK);
    CHECK(p.width == 200 && p.height == 150 && p.struct_size == offsetof(bzna_picture, crop_x));
    CHECK_EQ(p.crop_x, 0xaaaaaaaa);
    bzna_decoder_close(decoder);
    unit_free(&u);
}

/* ---- Without a memory --------------------------------------------------------------------------------------------------- */

enum { AFTER_NOTHING, AFTER_ANOTHER, AFTER_ITSELF, AFTER_CORRUPT, AFTER_TRUNCATED, AFTER_DAMAGED_SETS, AFTER_NO_SETS, AFTER_NO_SLICES, AFTER_OTHER_CODEC,
       AFTER_OTHER_SIZE, AFTER_ALL, HISTORIES };

static const char *const history_names[] = { "after nothing", "after another", "after itself", "after a corrupt one", "after a truncated one",
    "after damaged parameter sets", "after missing parameter sets", "after one without slices", "after the other codec", "after another size", "after all of it" };

/* Gives a decoder a past. original: the picture that will be decoded next, as it should be. */
static void live(bzna_decoder *decoder, int history, const unit *original)
{
    uint32_t codec = original->image.codec;
    unit u;
    switch (history) {
    case AFTER_ANOTHER:
        u = unit_load(codec, 0, NULL);
        CHECK_EQ(pass(decoder, &u.image), BZNA_OK);
        break;
    case AFTER_ITSELF:
        u = unit_copy(&original->image);
        pass(decoder, &u.image);
        break;
    case AFTER_CORRUPT:
        u = unit_load(codec, 5, NULL);
        for (uint64_t i = 40; i < u.image.data_size; i += 97)
            u.data[i] ^= 0x55;
        pass(decoder, &u.image);
        break;
    case AFTER_TRUNCATED:                                   /* the length prefix says more than there is, and then: it does not */
        u = unit_load(codec, 5, NULL);
        unit_cut(&u, u.image.data_size / 2);
        CHECK(pass(decoder, &u.image) < 0);
        u.data[2] = (uint8_t)((u.image.data_size - 4) >> 8);
        u.data[3] = (uint8_t)(u.image.data_size - 4);
        pass(decoder, &u.image);
        break;
    case AFTER_DAMAGED_SETS:
        u = unit_load(codec, 5, NULL);
        for (uint64_t i = codec == BZNA_CODEC_H264 ? 9 : 30; i < bzi_min(u.image.config_size, 140); i += 7) {
            u.config[i] ^= 0x10;
            pass(decoder, &u.image);
            u.config[i] ^= 0x10;
        }
        break;
    case AFTER_NO_SETS:
        u = unit_load(codec, 5, NULL);
        u.image.config = NULL;
        CHECK(pass(decoder, &u.image) < 0);
        break;
    case AFTER_NO_SLICES:
        u = unit_load(codec, 5, NULL);
        u.image.data_size = 0;
        CHECK(pass(decoder, &u.image) < 0);
        break;
    case AFTER_OTHER_CODEC:
        u = unit_load(3 - codec, 1, NULL);
        CHECK_EQ(pass(decoder, &u.image), BZNA_OK);
        break;
    case AFTER_OTHER_SIZE:
        u = unit_load(codec, 2, "bzna_input");
        CHECK_EQ(pass(decoder, &u.image), BZNA_OK);
        break;
    case AFTER_ALL:
        for (int h = 1; h < AFTER_ALL; h++)
            live(decoder, h, original);
        return;
    default:
        return;
    }
    unit_free(&u);
}

TEST(a_good_picture_is_the_same_after_anything)
{
    static const struct { uint64_t sample; const char *track; } pictures[] = { { 1, NULL }, { 2, "bzna_input" }, { 4, NULL }, { 5, NULL }, { 6, NULL } };
    for (uint32_t codec = 1; codec <= 2; codec++)
        for (size_t k = 0; k < COUNT(pictures); k++) {
            unit u = unit_load(codec, pictures[k].sample, pictures[k].track);
            outcome alone = decode_fresh(&u.image);
            CHECK_EQ(alone.status, BZNA_OK);
            for (int history = 0; history < HISTORIES; history++) {
                bzna_decoder *decoder = decoder_new();
                outcome o;
                live(decoder, history, &u);
                for (int again = 0; again < 2; again++) {
                    o = decode(decoder, &u.image);
                    if (!same(&o, &alone))
                        report_difference(history_names[history], &o, &alone);
                    outcome_free(&o);
                }
                bzna_decoder_close(decoder);
            }
            outcome_free(&alone);
            unit_free(&u);
        }
}

/* What one damaged picture gives, alone and in decoders with a past: all of it must be equal. */
typedef struct witnesses {
    bzna_decoder *with_past[3];       /* that decode the good original, another picture, or other damaged ones before */
    unit          another;
    int           count, fine;
} witnesses;

static witnesses witnesses_make(const unit *original)
{
    witnesses w;
    memset(&w, 0, sizeof w);
    for (int i = 0; i < 3; i++)
        w.with_past[i] = decoder_new();
    w.another = unit_load(original->image.codec, original->image.frame_width == 512 ? 1 : 3, original->image.frame_width == 512 ? NULL : "bzna_input");
    return w;
}

static void witnesses_free(witnesses *w)
{
    for (int i = 0; i < 3; i++)
        bzna_decoder_close(w->with_past[i]);
    unit_free(&w->another);
}

static void check_damaged(witnesses *w, const unit *original, const unit *damaged, const char *what, uint64_t where)
{
    static const char *const pasts[] = { "after its undamaged self", "after another", "after other damage" };
    outcome alone = decode_fresh(&damaged->image);
    CHECK_EQ(pass(w->with_past[0], &original->image), BZNA_OK);
    CHECK_EQ(pass(w->with_past[1], &w->another.image), BZNA_OK);
    for (int i = 0; i < 3; i++) {
        outcome o = decode(w->with_past[i], &damaged->image);
        if (!same(&o, &alone)) {
            char text[128];
            snprintf(text, sizeof text, "codec %u, %s, byte %llu of %s", original->image.codec, pasts[i], (unsigned long long)where, what);
            report_difference(text, &o, &alone);
        }
        outcome_free(&o);
    }
    w->count++;
    w->fine += alone.status == BZNA_OK;
    CHECK(alone.status == BZNA_OK || alone.error.message[0]);
    outcome_free(&alone);
}

static void check_usable(witnesses *w, const unit *original)
{
    outcome alone = decode_fresh(&original->image);
    CHECK_EQ(alone.status, BZNA_OK);
    for (int i = 0; i < 3; i++) {
        outcome o = decode(w->with_past[i], &original->image);
        if (!same(&o, &alone))
            report_difference("the good one after all the damage", &o, &alone);
        outcome_free(&o);
    }
    outcome_free(&alone);
}

static void damage_access_units(uint32_t codec)
{
    static const struct { uint64_t sample; int times; } work[] = { { 4, 80 }, { 2, 60 }, { 5, 80 }, { 6, 12 } };
    random_state = 0x9e3779b97f4a7c15ull * codec;
    for (size_t k = 0; k < COUNT(work); k++) {
        unit original = unit_load(codec, work[k].sample, NULL);
        witnesses w = witnesses_make(&original);
        for (int i = 0; i < work[k].times; i++) {
            unit damaged = unit_copy(&original.image);
            uint64_t at = i < 16 ? (uint64_t)i : random_u32() % damaged.image.data_size;
            damaged.data[at] = (uint8_t)(i % 3 ? damaged.data[at] ^ 1u << random_u32() % 8 : random_u32());
            check_damaged(&w, &original, &damaged, "the access unit", at);
            unit_free(&damaged);
        }
        check_usable(&w, &original);
        printf("codec %u, sample %d: %d of %d damaged access units were decoded all the same\n", codec, (int)work[k].sample, w.fine, w.count);
        witnesses_free(&w);
        unit_free(&original);
    }
}

TEST(a_damaged_h264_access_unit_gives_the_same_after_anything) { damage_access_units(BZNA_CODEC_H264); }
TEST(a_damaged_h265_access_unit_gives_the_same_after_anything) { damage_access_units(BZNA_CODEC_H265); }

/* The parameter sets of a decoder configuration, byte by byte: what a decoder remembers longest. */
static void damage_parameter_sets(uint32_t codec)
{
    static const uint64_t samples[] = { 4, 2 };
    for (size_t k = 0; k < COUNT(samples); k++) {
        unit original = unit_load(codec, samples[k], k ? "bzna_input" : NULL);
        witnesses w = witnesses_make(&original);
        bzi_image_nals nals = bzi_image_nals_make(&original.image);
        bzi_span nal;
        while (bzi_image_nals_next(&nals, &nal) > 0 && nals.part == 0) {
            uint64_t from = (uint64_t)(nal.data - original.config);
            if (!bzi_nal_is_parameter_set(codec, nal))
                continue;
            for (uint64_t at = from; at < from + nal.size; at++)
                for (int bit = k || codec == BZNA_CODEC_H265 ? (int)(at + 3 * k) % 8 : 0; bit < 8; bit += k || codec == BZNA_CODEC_H265 ? 8 : 2) {
                    unit damaged = unit_copy(&original.image);
                    damaged.config[at] = (uint8_t)(damaged.config[at] ^ 1u << bit);
                    check_damaged(&w, &original, &damaged, "the configuration", at);
                    unit_free(&damaged);
                }
        }
        check_usable(&w, &original);
        printf("codec %u, sample %d: %d of %d with a damaged configuration were decoded all the same\n", codec, (int)samples[k], w.fine, w.count);
        witnesses_free(&w);
        unit_free(&original);
    }
}

TEST(damaged_h264_parameter_sets_give_the_same_after_anything) { damage_parameter_sets(BZNA_CODEC_H264); }
TEST(damaged_h265_parameter_sets_give_the_same_after_anything) { damage_parameter_sets(BZNA_CODEC_H265); }

/* Fewer bytes, with a length prefix that admits it: the slices end early, and what they leave out must not be someone else's. */
TEST(a_shortened_slice_gives_the_same_after_anything)
{
    for (uint32_t codec = 1; codec <= 2; codec++)
        for (uint64_t sample = 4; sample <= 5; sample++) {
            unit original = unit_load(codec, sample, NULL);
            witnesses w = witnesses_make(&original);
            for (uint64_t size = 5; size < original.image.data_size; size += 1 + original.image.data_size / 40) {
                unit damaged = unit_copy(&original.image);
                unit_cut(&damaged, size);
                check_damaged(&w, &original, &damaged, "an access unit cut", size);
                bzi_nals nals = bzi_nals_of_unit(bzi_image_data(&original.image), original.image.length_size);
                bzi_span nal, last = { NULL, 0 };
                while (bzi_nals_next(&nals, &nal) > 0 && (uint64_t)(nal.data - original.data) < size)
                    last = nal;
                if (last.data) {                            /* the unit that was cut gets its new length */
                    uint64_t begin = (uint64_t)(last.data - original.data), length = size - begin;
                    for (uint64_t i = 0; i < 4; i++)
                        damaged.data[begin - 1 - i] = (uint8_t)(length >> 8 * i);
                    check_damaged(&w, &original, &damaged, "an access unit cut, with its length,", size);
                }
                unit_free(&damaged);
            }
            check_usable(&w, &original);
            CHECK(w.fine < w.count / 4);                    /* most of them are noticed */
            witnesses_free(&w);
            unit_free(&original);
        }
}

/* ---- Errors ------------------------------------------------------------------------------------------------------------- */

/* Expects this failure, and a decoder that works afterwards. */
static void check_fails(bzna_decoder *decoder, const unit *u, bzna_status status, const char *part)
{
    unit good = unit_load(u->image.codec == BZNA_CODEC_H264 ? BZNA_CODEC_H264 : BZNA_CODEC_H265, 4, NULL);
    bzna_picture picture = { .struct_size = sizeof picture };
    bzna_error e = { .struct_size = sizeof e };
    CHECK_EQ(bzna_decoder_decode(decoder, &u->image, &picture, &e), status);
    CHECK_EQ(e.status, status);
    CHECK_CONTAINS(e.message, part);
    CHECK_EQ(pass(decoder, &good.image), BZNA_OK);
    unit_free(&good);
}

TEST(what_is_missing_or_contradicts_is_named)
{
    for (uint32_t codec = 1; codec <= 2; codec++) {
        bzna_decoder *decoder = decoder_new();
        unit u = unit_load(codec, 5, NULL);
        bzna_image image = u.image;

        u.image.data = NULL;
        check_fails(decoder, &u, BZNA_E_ARGUMENT, "image.data");
        u.image = image;
        u.image.data_size = 0;
        check_fails(decoder, &u, BZNA_E_ARGUMENT, "image.data");
        u.image = image;
        u.image.length_size = 3;
        check_fails(decoder, &u, BZNA_E_ARGUMENT, "image.length_size");
        u.image = image;
        u.image.config = NULL;
        check_fails(decoder, &u, BZNA_E_DECODE, "no sequence parameter set");
        u.image = image;
        u.image.codec = BZNA_CODEC_AV1;
        check_fails(decoder, &u, BZNA_E_CODEC, "codec 3");
        u.image = image;
        u.image.codec = 77;
        check_fails(decoder, &u, BZNA_E_CODEC, "codec 77");
        u.image = image;
        u.image.frame_width = 1024;
        check_fails(decoder, &u, BZNA_E_MISMATCH, "512x512, its container says 1024x512");
        u.image = image;
        u.image.frame_height = 510;
        check_fails(decoder, &u, BZNA_E_MISMATCH, "512x512, its container says 512x510");
        u.image = image;
        u.image.crop_x = 512 - image.width + 1;
        check_fails(decoder, &u, BZNA_E_ARGUMENT, "does not lie in its frame");
        u.image = image;
        u.image.crop_y = UINT32_MAX;
        check_fails(decoder, &u, BZNA_E_ARGUMENT, "does not lie in its frame");
        u.image = image;
        u.image.height = 513;
        check_fails(decoder, &u, BZNA_E_ARGUMENT, "does not lie in its frame");
        u.image = image;
        u.image.width = 0;
        check_fails(decoder, &u, BZNA_E_ARGUMENT, "does not lie in its frame");
        u.image = image;
        u.image.data_size = image.data_size - 1;
        check_fails(decoder, &u, BZNA_E_BOX, "the access unit: a NAL unit is longer");
        u.image = image;
        u.image.config_size = codec == BZNA_CODEC_H264 ? 20 : 60;
        check_fails(decoder, &u, BZNA_E_BOX, codec == BZNA_CODEC_H264 ? "avcC: a NAL unit is longer" : "hvcC: a NAL unit is longer");
        u.image = image;
        unit_free(&u);

        u = unit_load(codec, 5, NULL);                      /* only a unit that is no slice */
        unit_cut(&u, 7);
        memcpy(u.data, codec == BZNA_CODEC_H264 ? "\0\0\0\3\x09\x10\x80" : "\0\0\0\3\x46\x01\x50", 7);
        check_fails(decoder, &u, BZNA_E_DECODE, "no picture");
        unit_free(&u);

        u = unit_load(codec, 5, NULL);                      /* the slices become those of a picture that needs others */
        bzi_nals nals = bzi_nals_of_unit(bzi_image_data(&u.image), 4);
        bzi_span nal;
        while (bzi_nals_next(&nals, &nal) > 0)
            if (bzi_nal_kind(codec, nal) == BZI_NAL_SLICE)
                u.data[nal.data - u.data] = codec == BZNA_CODEC_H264 ? 0x61 : 0x02;
        check_fails(decoder, &u, BZNA_E_DECODE, "needs other pictures");
        unit_free(&u);
        bzna_decoder_close(decoder);
    }
}

/* The picture of another configuration: its slices must not find parameter sets that an earlier picture brought. */
TEST(parameter_sets_of_earlier_pictures_are_not_used)
{
    for (uint32_t codec = 1; codec <= 2; codec++) {
        bzna_decoder *decoder = decoder_new();
        unit u = unit_load(codec, 4, NULL);
        uint8_t stream[4096];
        size_t size = 0;
        bzna_image image = u.image;
        CHECK_EQ(pass(decoder, &u.image), BZNA_OK);
        image.config = NULL;
        CHECK_EQ(pass(decoder, &image), BZNA_E_DECODE);
        image.config = u.config;
        if (codec == BZNA_CODEC_H264) {                     /* avcC with the SPS, but without its PPS */
            uint8_t *count = u.config + 8 + (u.config[6] << 8 | u.config[7]);
            CHECK_EQ(*count, 1);
            *count = 0;
            CHECK_EQ(pass(decoder, &image), BZNA_E_DECODE);
            *count = 1;
            CHECK_EQ(pass(decoder, &image), BZNA_OK);
        }
        CHECK_EQ(bzna_image_annexb(&image, stream, sizeof stream, &size, NULL), BZNA_OK);     /* all of it as a byte stream works too */
        image.config = NULL;
        image.length_size = 0;
        image.data = stream;
        image.data_size = size;
        CHECK_EQ(pass(decoder, &image), BZNA_OK);
        bzna_decoder_close(decoder);
        unit_free(&u);
    }
}

TEST(pictures_over_max_edge_px_are_refused)
{
    bzna_context_config config;
    bzna_context *tight = NULL;
    bzna_decoder *decoder = NULL;
    bzna_error e = { .struct_size = sizeof e };
    bzna_picture picture = { .struct_size = sizeof picture };
    bzna_context_config_init(&config, sizeof config);
    config.max_edge_px = 1024;
    REQUIRE(bzna_context_open(&config, &tight, NULL) == BZNA_OK);
    REQUIRE(bzna_decoder_open(tight, &decoder, NULL) == BZNA_OK);
    for (uint32_t codec = 1; codec <= 2; codec++) {
        unit large = unit_load(codec, 3, "bzna_input"), wide = unit_load(codec, 2, "bzna_input");
        CHECK_EQ(bzna_decoder_decode(decoder, &large.image, &picture, &e), BZNA_E_LIMIT);
        CHECK_CONTAINS(e.message, "max_edge_px, 1024");
        CHECK_EQ(bzna_decoder_decode(decoder, &wide.image, &picture, &e), BZNA_OK);       /* 1024 itself */
        unit_free(&large);
        unit_free(&wide);
    }
    bzna_decoder_close(decoder);
    bzna_context_close(tight);
}

TEST(missing_arguments_are_refused)
{
    unit u = unit_load(BZNA_CODEC_H264, 4, NULL);
    bzna_decoder *decoder = decoder_new(), *out = decoder;
    bzna_picture picture = { .struct_size = sizeof picture };
    bzna_error e = { .struct_size = sizeof e };
    CHECK_EQ(bzna_decoder_open(NULL, &out, &e), BZNA_E_ARGUMENT);
    CHECK(out == NULL);
    CHECK_CONTAINS(e.message, "context");
    CHECK_EQ(bzna_decoder_open(context, NULL, &e), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_decoder_decode(NULL, &u.image, &picture, &e), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(e.message, "decoder is NULL");
    CHECK_EQ(bzna_decoder_decode(decoder, NULL, &picture, &e), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(e.message, "image is NULL");
    CHECK_EQ(bzna_decoder_decode(decoder, &u.image, NULL, &e), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(e.message, "picture is NULL");
    picture.struct_size = 0;
    CHECK_EQ(bzna_decoder_decode(decoder, &u.image, &picture, &e), BZNA_E_STRUCT_SIZE);
    picture.struct_size = sizeof picture;
    u.image.struct_size = 0;
    CHECK_EQ(bzna_decoder_decode(decoder, &u.image, &picture, &e), BZNA_E_STRUCT_SIZE);
    u.image.struct_size = sizeof u.image;
    CHECK_EQ(bzna_decoder_decode(decoder, &u.image, &picture, NULL), BZNA_OK);
    CHECK_EQ(bzna_decoder_close(NULL), BZNA_OK);
    bzna_decoder_close(decoder);
    unit_free(&u);
}

/* ---- Memory and threads ------------------------------------------------------------------------------------------------- */

typedef struct ledger {
    int64_t bytes, blocks, calls, fail_at;
} ledger;

static void *ledger_alloc(void *user, size_t size, size_t align)
{
    ledger *l = user;
    void *p = NULL;
    if (++l->calls == l->fail_at || posix_memalign(&p, align < 16 ? 16 : align, size))
        return NULL;
    l->bytes += (int64_t)size;
    l->blocks++;
    return p;
}

static void ledger_release(void *user, void *p, size_t size)
{
    ledger *l = user;
    l->bytes -= (int64_t)size;
    l->blocks--;
    free(p);
}

TEST(a_decoder_keeps_its_context_and_gives_all_memory_back)
{
    unit u = unit_load(BZNA_CODEC_H265, 6, NULL);
    outcome alone = decode_fresh(&u.image);
    int64_t needed = 100;                                   /* allocations of a run in which none fails: counted by the first */
    for (int64_t fail_at = 0; fail_at <= needed; fail_at++) {
        ledger l = { 0, 0, 0, fail_at };
        bzna_context_config config;
        bzna_context *own = NULL;
        bzna_decoder *decoder = NULL;
        bzna_context_config_init(&config, sizeof config);
        config.allocator.user = &l;
        config.allocator.alloc = ledger_alloc;
        config.allocator.release = ledger_release;
        if (bzna_context_open(&config, &own, NULL) == BZNA_OK) {
            bzna_status status = bzna_decoder_open(own, &decoder, NULL);
            int64_t opened = l.calls;
            CHECK(status == BZNA_OK ? decoder != NULL : status == BZNA_E_MEMORY && !decoder && fail_at == opened);
            CHECK_EQ(bzna_context_close(own), BZNA_OK);
            for (int i = 0; i < 3 && decoder; i++) {        /* only the first can fail; the next try has the memory */
                outcome o = decode(decoder, &u.image);
                CHECK(i == 0 && fail_at > opened ? o.status == BZNA_E_MEMORY : same(&o, &alone));
                outcome_free(&o);
            }
            CHECK_EQ(bzna_decoder_close(decoder), BZNA_OK);
        } else {
            CHECK_EQ(fail_at, 1);
        }
        if (fail_at == 0)
            needed = l.calls;
        CHECK_EQ(l.bytes, 0);
        CHECK_EQ(l.blocks, 0);
    }
    CHECK(needed > 2 && needed < 100);
    outcome_free(&alone);
    unit_free(&u);
}

static void *decode_many(void *argument)
{
    unit *units = argument;
    bzna_decoder *decoder = decoder_new();
    static const int order[] = { 0, 1, 1, 0, 1, 0, 0, 1 };
    intptr_t wrong = 0;
    outcome expected[2] = { decode_fresh(&units[0].image), decode_fresh(&units[1].image) };
    for (int i = 0; i < 40; i++) {
        outcome o = decode(decoder, &units[order[i % 8]].image);
        wrong += !same(&o, &expected[order[i % 8]]);
        outcome_free(&o);
    }
    outcome_free(&expected[0]);
    outcome_free(&expected[1]);
    bzna_decoder_close(decoder);
    return (void *)wrong;
}

TEST(decoders_of_one_context_work_side_by_side)
{
    pthread_t threads[4];
    unit units[2] = { unit_load(BZNA_CODEC_H264, 5, NULL), unit_load(BZNA_CODEC_H265, 5, NULL) };
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, decode_many, units);
    for (int i = 0; i < 4; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        CHECK_EQ((intptr_t)wrong, 0);
    }
    unit_free(&units[0]);
    unit_free(&units[1]);
}

/* ---- Without libavcodec ------------------------------------------------------------------------------------------------- */

static int shell(const char *command, char *output, size_t size)
{
    FILE *pipe = popen(command, "r");
    size_t n;
    if (!pipe)
        return -1;
    n = fread(output, 1, size - 1, pipe);
    output[n] = 0;
    return pclose(pipe);
}

TEST(without_libavcodec_it_compiles_without_warnings_and_says_so)
{
    char output[4096];
    static const char program[] =
        "#include \"benzina.h\"\n#include <stdio.h>\n"
        "int main(void) { bzna_context *c; bzna_dataset *s; bzna_decoder *d; bzna_loader *l; bzna_loader_config k; bzna_error e = { .struct_size = sizeof e };\n"
        "bzna_loader_config_init(&k, sizeof k); k.batch_size = 1; k.width = k.height = 8;\n"
        "if (bzna_context_open(NULL, &c, &e) || bzna_dataset_open(c, \"tests/data/mini_h265.bzna\", NULL, &s, &e)) return 1;\n"
        "printf(\"%s \", bzna_status_name(bzna_decoder_open(c, &d, &e))); printf(\"%s %d \", e.message, d == NULL);\n"
        "printf(\"%s\", bzna_status_name(bzna_loader_open(c, s, &k, &l, &e)));\n"
        "bzna_dataset_close(s); return bzna_context_close(c); }\n";
    FILE *file;
    int result;
    if (shell("cc --version 2>&1", output, sizeof output) != 0)
        SKIP("no C compiler");
    file = fopen(TEST_BUILD "/tests/no_avcodec.c", "w");
    REQUIRE(file != NULL);
    fputs(program, file);
    fclose(file);
    result = shell("cc -std=c11 -O0 -ffp-contract=off -I. -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -DBENZINA_NO_AVCODEC -o " TEST_BUILD
                   "/tests/no_avcodec " TEST_BUILD "/tests/no_avcodec.c benzina.c -lm -lpthread 2>&1", output, sizeof output);
    CHECK_EQ(result, 0);
    CHECK_STR(output, "");
    result = shell(TEST_BUILD "/tests/no_avcodec 2>&1", output, sizeof output);
    CHECK_EQ(result, 0);
    CHECK_STR(output, "BZNA_E_UNSUPPORTED decoder: this build has no libavcodec (BENZINA_NO_AVCODEC) 1 BZNA_E_UNSUPPORTED");
}

static void everything(void)
{
    RUN(every_picture_has_the_md5_of_the_encoders_decoder)
    RUN(a_picture_is_described_by_container_and_stream)
    RUN(a_shorter_picture_struct_is_filled_as_far_as_it_goes)
    RUN(a_good_picture_is_the_same_after_anything)
    RUN(a_damaged_h264_access_unit_gives_the_same_after_anything)
    RUN(a_damaged_h265_access_unit_gives_the_same_after_anything)
    RUN(damaged_h264_parameter_sets_give_the_same_after_anything)
    RUN(damaged_h265_parameter_sets_give_the_same_after_anything)
    RUN(a_shortened_slice_gives_the_same_after_anything)
    RUN(what_is_missing_or_contradicts_is_named)
    RUN(parameter_sets_of_earlier_pictures_are_not_used)
    RUN(pictures_over_max_edge_px_are_refused)
    RUN(missing_arguments_are_refused)
    RUN(a_decoder_keeps_its_context_and_gives_all_memory_back)
    RUN(decoders_of_one_context_work_side_by_side)
    RUN(without_libavcodec_it_compiles_without_warnings_and_says_so)
}

TEST_MAIN(if (bzna_context_open(NULL, &context, NULL) != BZNA_OK) return 1; everything(); bzna_context_close(context);)
#endif
