/* test_decode.c - software decoding: right pixels, and the same pixels or the same error whatever was decoded
 * before. */
#include "library.h"
#include "with_formats.h"
#include "test.h"
#include "known.h"

#ifdef BENZINA_NO_AVCODEC
TEST(pictures_are_decoded) { SKIP("built without libavcodec [libavcodec-dev]"); }
TEST_MAIN(RUN(pictures_are_decoded))
#else
#include "filter.h"
#include "heif.h"
#include <libavutil/dict.h>
#include <libavutil/md5.h>
#include <libavutil/pixdesc.h>

/* ---- Coded pictures ---------------------------------------------------------------------------------------------- */

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
        bzna_dataset_read_image(dataset, index, track, buffer, sizeof buffer, &image, NULL) != BZNA_OK) {
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

/* ---- Outcomes ---------------------------------------------------------------------------------------------------- */

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
        w *= p->depth > 8 ? 2 : 1;
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
           !memcmp(&a->picture, &b->picture, sizeof a->picture) &&
           (!a->size || !memcmp(a->pixels, b->pixels, (size_t)a->size));
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
    printf("  %s: %s \"%s\", but alone %s \"%s\"%s\n", what, bzna_status_name(a->status), a->error.message,
           bzna_status_name(b->status), b->error.message,
           a->status == BZNA_OK && b->status == BZNA_OK ? ", with other pixels" : "");
}

/* ---- Right pixels ------------------------------------------------------------------------------------------------ */

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
        CHECK(p.color.present && p.color.matrix == 5 && p.color.full_range == 1);       /* the VUI of these streams */
        CHECK(p.chroma_left == 0 && p.chroma_top == 0);     /* and centered chroma, as in JPEG */
        u.image.color.present = 1;                         /* the container's word stands above the stream's */
        u.image.color.matrix = 9;
        u.image.color.full_range = 0;
        CHECK_EQ(bzna_decoder_decode(decoder, &u.image, &q, NULL), BZNA_OK);
        CHECK(q.color.matrix == 9 && q.color.full_range == 0);
        CHECK(q.chroma_left == 0 && q.chroma_top == 0);     /* siting is the stream's all the same */
        u.image.color.present = 0;
        CHECK_EQ(bzna_decoder_decode(decoder, &u.image, &q, NULL), BZNA_OK);
        CHECK(q.color.matrix == 5 && q.color.full_range == 1);
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

/* ---- Without a memory -------------------------------------------------------------------------------------------- */

enum {
    AFTER_NOTHING,
    AFTER_ANOTHER,
    AFTER_ITSELF,
    AFTER_CORRUPT,
    AFTER_TRUNCATED,
    AFTER_DAMAGED_SETS,
    AFTER_NO_SETS,
    AFTER_NO_SLICES,
    AFTER_OTHER_CODEC,
    AFTER_OTHER_SIZE,
    AFTER_ALL,
    HISTORIES
};

static const char *const history_names[] = { "after nothing",
                                             "after another",
                                             "after itself",
                                             "after a corrupt one",
                                             "after a truncated one",
                                             "after damaged parameter sets",
                                             "after missing parameter sets",
                                             "after one without slices",
                                             "after the other codec",
                                             "after another size",
                                             "after all of it" };

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
    case AFTER_TRUNCATED: /* the length prefix says more than there is, and then: it does not */
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
    static const struct {
        uint64_t sample;
        const char *track;
    } pictures[] = { { 1, NULL }, { 2, "bzna_input" }, { 4, NULL }, { 5, NULL }, { 6, NULL } };
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
    w.another = unit_load(original->image.codec, original->image.frame_width == 512 ? 1 : 3,
                          original->image.frame_width == 512 ? NULL : "bzna_input");
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
            snprintf(text, sizeof text, "codec %u, %s, byte %llu of %s", original->image.codec, pasts[i],
                     (unsigned long long)where, what);
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
        for (int i = 0; i < work[k].times; i += ROUNDS(1, 2)) {
            unit damaged = unit_copy(&original.image);
            uint64_t at = i < 16 ? (uint64_t)i : random_u32() % damaged.image.data_size;
            damaged.data[at] = (uint8_t)(i % 3 ? damaged.data[at] ^ 1u << random_u32() % 8 : random_u32());
            check_damaged(&w, &original, &damaged, "the access unit", at);
            unit_free(&damaged);
        }
        check_usable(&w, &original);
        printf("codec %u, sample %d: %d of %d damaged access units were decoded all the same\n", codec,
               (int)work[k].sample, w.fine, w.count);
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
            if (!bzi_kind_is_parameter_set(bzi_nal_kind(codec, nal)))
                continue;
            for (uint64_t at = from; at < from + nal.size; at += ROUNDS(1, 2))
                for (int bit = k || codec == BZNA_CODEC_H265 ? (int)(at + 3 * k) % 8 : 0; bit < 8;
                     bit += k || codec == BZNA_CODEC_H265 ? 8 : 2) {
                    unit damaged = unit_copy(&original.image);
                    damaged.config[at] = (uint8_t)(damaged.config[at] ^ 1u << bit);
                    check_damaged(&w, &original, &damaged, "the configuration", at);
                    unit_free(&damaged);
                }
        }
        check_usable(&w, &original);
        printf("codec %u, sample %d: %d of %d with a damaged configuration were decoded all the same\n", codec,
               (int)samples[k], w.fine, w.count);
        witnesses_free(&w);
        unit_free(&original);
    }
}

TEST(damaged_h264_parameter_sets_give_the_same_after_anything) { damage_parameter_sets(BZNA_CODEC_H264); }
TEST(damaged_h265_parameter_sets_give_the_same_after_anything) { damage_parameter_sets(BZNA_CODEC_H265); }

/* Fewer bytes, with a length prefix that admits it: the slices end early, and what they leave out must not be someone
 * else's. */
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

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

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
        u.image.codec = BZNA_CODEC_RAW + 1;
        check_fails(decoder, &u, BZNA_E_CODEC, "codec 7 is unknown: H.264, H.265, AV1, JPEG and stills can");
        u.image = image;
        u.image.codec = 77;
        check_fails(decoder, &u, BZNA_E_CODEC, "codec 77");
        u.image = image;
        u.image.frame_width = 1024;
        check_fails(decoder, &u, BZNA_E_MISMATCH, "512x512, but its container says 1024x512");
        u.image = image;
        u.image.frame_height = 510;
        check_fails(decoder, &u, BZNA_E_MISMATCH, "512x512, but its container says 512x510");
        u.image = image;
        u.image.crop_x = 512 - image.width + 1;
        check_fails(decoder, &u, BZNA_E_ARGUMENT, "is not inside its frame");
        u.image = image;
        u.image.crop_y = UINT32_MAX;
        check_fails(decoder, &u, BZNA_E_ARGUMENT, "is not inside its frame");
        u.image = image;
        u.image.height = 513;
        check_fails(decoder, &u, BZNA_E_ARGUMENT, "is not inside its frame");
        u.image = image;
        u.image.width = 0;
        check_fails(decoder, &u, BZNA_E_ARGUMENT, "is not inside its frame");
        u.image = image;
        u.image.data_size = image.data_size - 1;
        check_fails(decoder, &u, BZNA_E_BOX, "a unit of the picture is longer");
        u.image = image;
        u.image.config_size = codec == BZNA_CODEC_H264 ? 20 : 60;
        check_fails(decoder, &u, BZNA_E_BOX, "a unit of the configuration is longer");
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

/* All slices of a picture become those of another type. A decoder can start with six types of H.265, one of H.264. */
TEST(only_pictures_that_start_a_stream_are_given_to_the_decoder)
{
    for (uint32_t codec = 1; codec <= 2; codec++) {
        bzna_decoder *decoder = decoder_new();
        for (unsigned type = codec == BZNA_CODEC_H264 ? 1 : 0; type < (codec == BZNA_CODEC_H264 ? 6 : 32); type++) {
            int starts = codec == BZNA_CODEC_H264 ? type == 5 : type >= 16 && type <= 21;
            unit u = unit_load(codec, 5, NULL);
            bzna_picture picture = { .struct_size = sizeof picture };
            bzna_error e = { .struct_size = sizeof e };
            bzna_status status;
            int refused;
            for (uint64_t at = 0; at < u.image.data_size; at += 4 + bzi_be32(u.data + at)) {
                uint8_t *header = u.data + at + 4;
                if (codec == BZNA_CODEC_H264 && (*header & 31) == 5)
                    *header = (uint8_t)((*header & 0xe0) | type);
                if (codec == BZNA_CODEC_H265 && (*header >> 1 & 63) < 32)
                    *header = (uint8_t)((*header & 0x81) | type << 1);
            }
            status = bzna_decoder_decode(decoder, &u.image, &picture, &e);
            refused = status == BZNA_E_DECODE && strstr(e.message, "the picture needs other pictures");
            CHECK_EQ(refused, !starts);
            if (codec == BZNA_CODEC_H264 ? type == 5 : type == 19 || type == 20)       /* those are coded alike */
                CHECK_EQ(status, BZNA_OK);
            if (refused == starts)
                printf("  codec %u, type %u: %s\n", codec, type, e.message);
            unit_free(&u);
        }
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
        /* all of it as a byte stream works too */
        CHECK_EQ(bzna_image_annexb(&image, stream, sizeof stream, &size, NULL), BZNA_OK);
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

/* A decoder, a loader, and what the codec of HEIF unwraps or decodes: what is not among the codecs is refused before
 * anything decodes. */
TEST(only_allowed_codecs_are_decoded)
{
    static const struct { const char *path; uint32_t allow; const char *name; } cases[] = {
        { "tests/data/mini_h264.bzna", BZNA_ALLOW_H264, "H.264" },
        { "tests/data/mini_h265.bzna", BZNA_ALLOW_H265, "H.265" },
        { "tests/data/heif/wide.heic", BZNA_ALLOW_H265, "H.265" },
        { "tests/data/heif/grid.heic", BZNA_ALLOW_H265, "HEIF" },
        { "tests/data/heif/still_h264.heic", BZNA_ALLOW_H264, "H.264" } };
    static uint8_t buffer[1 << 18];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int allowed = 0; allowed < 2; allowed++) {
            bzna_context_config config;
            bzna_loader_config load;
            bzna_context *tight = NULL;
            bzna_dataset *dataset = NULL;
            bzna_decoder *decoder = NULL;
            bzna_loader *loader = NULL;
            bzna_batch *batch = NULL;
            bzna_batch_info info;
            bzna_image image = { .struct_size = sizeof image };
            bzna_picture picture = { .struct_size = sizeof picture };
            bzna_error e = { .struct_size = sizeof e };
            const bzna_status expected = allowed ? BZNA_OK : BZNA_E_CODEC;
            bzna_context_config_init(&config, sizeof config);
            config.device.kind = BZNA_DEVICE_CPU;
            config.codecs = BZNA_ALLOW_OWN | (allowed ? cases[i].allow | BZNA_ALLOW_PNG :
                                                        (BZNA_ALLOW_OWN - 1) & ~cases[i].allow);
            REQUIRE((tight = heif_context(&config)) != NULL);
            if (strstr(cases[i].path, ".heic")) {
                FILE *file = fopen(cases[i].path, "rb");
                REQUIRE(file);
                image.codec = BZNA_CODEC_OWN;
                image.data = buffer;
                image.data_size = fread(buffer, 1, sizeof buffer, file);
                fclose(file);
                REQUIRE((dataset = heif_open_bytes(tight, buffer, image.data_size, &e)) != NULL);
            } else {
                REQUIRE(bzna_dataset_open(tight, cases[i].path, NULL, &dataset, &e) == BZNA_OK);
                REQUIRE(bzna_dataset_read_image(dataset, 0, NULL, buffer, sizeof buffer, &image, &e) == BZNA_OK);
            }
            REQUIRE(bzna_decoder_open(tight, &decoder, &e) == BZNA_OK);
            CHECK_EQ(bzna_decoder_decode(decoder, &image, &picture, &e), expected);
            CHECK(allowed || strstr(e.message, cases[i].name));
            CHECK(allowed || strstr(e.message, "context_config.codecs"));
            bzna_loader_config_init(&load, sizeof load);
            load.output.batch_size = 1;
            load.output.width = load.output.height = 32;
            REQUIRE(bzna_loader_open(tight, dataset, &load, &loader, &e) == BZNA_OK);
            REQUIRE(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &e) == BZNA_OK);
            bzna_batch_get_info(batch, &info, sizeof info, &e);
            CHECK_EQ(info.status[0], expected);
            bzna_batch_release(batch);
            bzna_loader_close(loader);
            bzna_decoder_close(decoder);
            bzna_dataset_close(dataset);
            bzna_context_close(tight);
        }
}

/* A picture in memory, and its bit. */
TEST(only_allowed_stills_are_decoded)
{
    static const struct { const char *path; uint32_t codec, allow; } cases[] = {
        { "jpeg_411.jpg", BZNA_CODEC_JPEG, BZNA_ALLOW_JPEG }, { "png_palette_2.png", BZNA_CODEC_STILL, BZNA_ALLOW_PNG },
        { "webp_lossy.webp", BZNA_CODEC_STILL, BZNA_ALLOW_WEBP }, { "gif_87.gif", BZNA_CODEC_STILL, BZNA_ALLOW_OWN } };
    for (uint32_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        bzna_context_config config;
        bzna_context *tight = NULL;
        bzna_decoder *decoder = NULL;
        bzna_error e = { .struct_size = sizeof e };
        bzna_context_config_init(&config, sizeof config);
        config.codecs = cases[k].allow;
        REQUIRE(bzna_context_open(&config, &tight, &e) == BZNA_OK);
        REQUIRE(bzna_decoder_open(tight, &decoder, &e) == BZNA_OK);
        for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            char path[96];
            uint8_t data[8192];
            bzna_picture picture = { .struct_size = sizeof picture };
            bzna_image image = { .struct_size = sizeof image, .codec = cases[i].codec, .data = data };
            FILE *file;
            snprintf(path, sizeof path, "tests/data/pictures/%s", cases[i].path);
            REQUIRE((file = fopen(path, "rb")) != NULL);
            image.data_size = fread(data, 1, sizeof data, file);
            fclose(file);
            const bzna_status decoded = BZI_HAS_JPEG || cases[i].codec != BZNA_CODEC_JPEG ? BZNA_OK :
                                                                                            BZNA_E_UNSUPPORTED;
            CHECK_EQ(bzna_decoder_decode(decoder, &image, &picture, &e), i == k ? decoded : BZNA_E_CODEC);
        }
        bzna_decoder_close(decoder);
        bzna_context_close(tight);
    }
}

/* A codec of the program's own has such a one. */
TEST(a_decoder_needs_no_context_and_what_inspecting_says_is_what_is_decoded)
{
    static const uint32_t codecs[] = { BZNA_CODEC_H264, BZNA_CODEC_H265 };
    bzna_decoder *decoder = NULL;
    bzna_error e = { .struct_size = sizeof e };
    REQUIRE(bzna_decoder_open(NULL, &decoder, &e) == BZNA_OK);
    for (size_t i = 0; i < COUNT(codecs); i++) {
        unit u = unit_load(codecs[i], 4, NULL);
        bzna_picture p = { .struct_size = sizeof p };
        bzna_codec_shape s = { .struct_size = sizeof s };
        CHECK_EQ(bzna_image_inspect(&u.image, &s, &e), BZNA_OK);
        CHECK_EQ(bzna_decoder_decode(decoder, &u.image, &p, &e), BZNA_OK);
        CHECK(s.width == p.frame_width && s.height == p.frame_height && s.depth == p.depth);
        CHECK(s.pixels == BZNA_PIXELS_YCBCR && s.orientation == p.orientation && !s.interleaved && !s.wrapped);
        CHECK(s.chroma_shift_x == p.chroma_shift_x && s.chroma_shift_y == p.chroma_shift_y);
        CHECK(s.chroma_left == p.chroma_left && s.chroma_top == p.chroma_top);
        CHECK(s.crop.x0 == p.crop_x && s.crop.y0 == p.crop_y);
        CHECK(s.crop.x1 == p.crop_x + p.width && s.crop.y1 == p.crop_y + p.height);
        CHECK(!memcmp(&s.color, &p.color, sizeof s.color));
        u.image.frame_width++;
        CHECK_EQ(bzna_image_inspect(&u.image, &s, &e), BZNA_E_MISMATCH);
        CHECK_EQ(bzna_image_inspect(NULL, &s, &e), BZNA_E_ARGUMENT);
        CHECK_EQ(bzna_image_inspect(&u.image, NULL, &e), BZNA_E_ARGUMENT);
        u.image.frame_width--;
        s.struct_size = 0;
        CHECK_EQ(bzna_image_inspect(&u.image, &s, &e), BZNA_E_STRUCT_SIZE);
        unit_free(&u);
    }
    bzi_os_callback_begin();
    CHECK_EQ(bzna_decoder_close(decoder), BZNA_OK);
    decoder = decoder_new();
    CHECK_EQ(bzna_decoder_close(decoder), BZNA_E_STATE);
    bzi_os_callback_end();
    bzna_decoder_close(decoder);
}

TEST(missing_arguments_are_refused)
{
    unit u = unit_load(BZNA_CODEC_H264, 4, NULL);
    bzna_decoder *decoder = decoder_new();
    bzna_picture picture = { .struct_size = sizeof picture };
    bzna_error e = { .struct_size = sizeof e };
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

/* ---- Memory and threads ------------------------------------------------------------------------------------------ */

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
    int64_t needed = 100; /* allocations of a run in which none fails: counted by the first */
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
            CHECK(fail_at >= 1 && fail_at <= 3);               /* the context, its host and its codecs */
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

/* ---- Memory of libavcodec ---------------------------------------------------------------------------------------- */

#if defined(__GLIBC__) && !SANITIZED

#include <sys/wait.h>
#include <unistd.h>

/* The functions of glibc that these stand before. While `armed`, allocation number `failing` of any kind fails. */
extern void *__libc_malloc(size_t size), *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *p, size_t size), *__libc_memalign(size_t align, size_t size);
extern int posix_memalign(void **p, size_t align, size_t size);
static long allocations, failing;
static int armed;

#pragma GCC visibility push(default)
static int allocation_fails(void) { return armed && ++allocations == failing; }
void *malloc(size_t size) { return allocation_fails() ? NULL : __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return allocation_fails() ? NULL : __libc_calloc(count, size); }
void *realloc(void *p, size_t size) { return allocation_fails() ? NULL : __libc_realloc(p, size); }
void *aligned_alloc(size_t align, size_t size) { return allocation_fails() ? NULL : __libc_memalign(align, size); }

int posix_memalign(void **p, size_t align, size_t size)
{
    *p = allocation_fails() ? NULL : __libc_memalign(align, size);
    return *p ? 0 : ENOMEM;
}
#pragma GCC visibility pop

enum { FAILED_OK, FAILED_MEMORY, FAILED_ELSE, FAILED_NOTHING, FAILED_CRASH, FAILED_ENDS };

/* How a decoder ends of which one allocation fails. warm: it has decoded the picture before. */
static int ends_of_failing(const bzna_image *image, const outcome *whole, long number, int warm)
{
    int state = 0;
    const pid_t child = fork();
    if (!child) {
        bzna_decoder *decoder = decoder_new();
        bzna_picture picture = { .struct_size = sizeof picture };
        bzna_error e = { .struct_size = sizeof e };
        static uint8_t pixels[1 << 20];
        bzna_status status;
        int ends;
        if (warm)
            pass(decoder, image);
        failing = number;
        allocations = 0;
        armed = 1;
        status = bzna_decoder_decode(decoder, image, &picture, &e);
        armed = 0;
        ends = status == BZNA_E_MEMORY ? FAILED_MEMORY : FAILED_ELSE;
        if (status == BZNA_OK && picture_pixels(&picture, NULL) == whole->size && whole->size <= sizeof pixels) {
            picture_pixels(&picture, pixels);
            if (!memcmp(pixels, whole->pixels, (size_t)whole->size))
                ends = allocations < number ? FAILED_NOTHING : FAILED_OK;
        }
        if (ends == FAILED_ELSE)
            fprintf(stderr, "  allocation %ld: %s\n", number, status == BZNA_OK ? "other pixels" : e.message);
        _exit(ends);
    }
    if (child < 0 || waitpid(child, &state, 0) != child)
        return FAILED_ELSE;
    return WIFEXITED(state) ? WEXITSTATUS(state) : FAILED_CRASH;
}

/* libavcodec's decoders of H.265 and VP8 may crash by themselves, which is counted. */
TEST(whichever_allocation_of_libavcodec_fails_a_picture_is_whole_or_it_is_for_memory)
{
    static const char *const paths[] = { "tests/data/small_h264.bzna", "tests/data/slices_h264.bzna",
                                         "tests/data/small_h265.bzna", "tests/data/seeds/av1.mp4",
                                         "tests/data/pictures/png_palette_clear.png", "tests/data/pictures/gif_87.gif",
                                         "tests/data/pictures/webp_lossless_clear.webp",
                                         "tests/data/pictures/webp_lossy.webp", "tests/data/pictures/bmp_1.bmp",
                                         "tests/data/pictures/jpeg_420_progressive.jpg" };
    for (size_t i = 0; i < COUNT(paths); i++) {
        static uint8_t buffer[1 << 18];
        bzna_image image = { .struct_size = sizeof image };
        bzna_dataset *dataset = NULL;
        int ends[FAILED_ENDS] = { 0 };
        outcome whole;
        if (strstr(paths[i], "/pictures/")) {
            FILE *f = fopen(paths[i], "rb");
            REQUIRE(f != NULL);
            image.codec = strstr(paths[i], ".jpg") ? BZNA_CODEC_JPEG : BZNA_CODEC_STILL;
            image.data = buffer;
            image.data_size = fread(buffer, 1, sizeof buffer, f);
            fclose(f);
        } else {
            REQUIRE(bzna_dataset_open(context, paths[i], NULL, &dataset, NULL) == BZNA_OK);
            REQUIRE(bzna_dataset_read_image(dataset, 0, NULL, buffer, sizeof buffer, &image, NULL) == BZNA_OK);
        }
        whole = decode_fresh(&image);
        if (whole.status == BZNA_E_CODEC && image.codec == BZNA_CODEC_AV1)
            printf("libavcodec has no libdav1d here\n");
        else
            for (int warm = 0; warm < 2; warm++) {
                const int before = ends[FAILED_NOTHING];
                for (long number = 1; ends[FAILED_NOTHING] == before && number < 2000; number += ROUNDS(1, 3))
                    ends[ends_of_failing(&image, &whole, number, warm)]++;
            }
        CHECK_EQ(ends[FAILED_ELSE], 0);
        CHECK(!ends[FAILED_CRASH] || strstr(paths[i], "h265") || strstr(paths[i], "lossy"));
        printf("%s: %d whole, %d for memory, %d crashes of libavcodec\n", paths[i], ends[FAILED_OK],
               ends[FAILED_MEMORY], ends[FAILED_CRASH]);
        outcome_free(&whole);
        bzna_dataset_close(dataset);
    }
}

#else

TEST(whichever_allocation_of_libavcodec_fails_a_picture_is_whole_or_it_is_for_memory)
{
    SKIP("allocations are made to fail with glibc, without a sanitizer");
}

#endif

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

/* ---- Every kind of picture, coded here --------------------------------------------------------------------------- */

/* Single key frames by encoders that are not ours, decoded by libavcodec's own calls: what must come out. */
typedef struct kind {
    const char *encoder, *format, *options;
    int         width, height, lossless;
    int         range, matrix, location;      /* what the encoder is told of color; 0: nothing (matrix 2) */
    const char *filter;                       /* libavcodec's bitstream filter, which says what the encoder cannot */
} kind;

#define X265 "x265-params=log-level=none:pools=none:frame-threads=1:aud=0"
#define X265_LOSSLESS X265 ":lossless=1"
#define AOM  "cpu-used=8,lag-in-frames=0"
#define AOM_LOSSLESS AOM ",aom-params=lossless=1"

static const kind kinds[] = {
    { "libx265", "yuv420p10le", X265,                     70,  54, 0, AVCOL_RANGE_MPEG, 9, 0, NULL },
    { "libx265", "yuv420p10le", X265_LOSSLESS ":chromaloc=2", 70, 54, 1, AVCOL_RANGE_JPEG, 1, 0, NULL },
    { "libx265", "yuv420p12le", X265_LOSSLESS,            72,  66, 1, 0, 2, 0, NULL },
    { "libx265", "yuv422p",     X265_LOSSLESS,            70,  55, 1, AVCOL_RANGE_MPEG, 1, 0, NULL },
    { "libx265", "yuv422p10le", X265,                     66,  67, 0, AVCOL_RANGE_JPEG, 2, 0, NULL },
    { "libx265", "yuv444p",     X265_LOSSLESS,            71,  55, 1, AVCOL_RANGE_JPEG, 5, 0, NULL },
    { "libx265", "yuv444p10le", X265_LOSSLESS,            71,  53, 1, AVCOL_RANGE_MPEG, 9, 0, NULL },
    { "libx265", "gray",        X265_LOSSLESS,            67,  67, 1, AVCOL_RANGE_JPEG, 2, 0, NULL },
    { "libx265", "gray10le",    X265_LOSSLESS,            67,  65, 1, AVCOL_RANGE_MPEG, 2, 0, NULL },
    { "libx264", "yuv420p10le", "preset=fast",            70,  54, 0, AVCOL_RANGE_MPEG, 9, AVCHROMA_LOC_LEFT, NULL },
    { "libx264", "yuv420p10le", "preset=fast,qp=0",       70,  54, 1, AVCOL_RANGE_JPEG, 5, AVCHROMA_LOC_TOPLEFT, NULL },
    { "libx264", "yuv422p10le", "preset=fast,qp=0",       70,  53, 1, 0, 2, 0, NULL },
    { "libx264", "yuv444p",     "preset=fast,qp=0",       71,  53, 1, AVCOL_RANGE_JPEG, 5, 0, NULL },
    { "libx264", "yuv444p10le", "preset=fast,qp=0",       69,  53, 1, AVCOL_RANGE_MPEG, 1, 0, NULL },
    { "libx264", "gray",        "preset=fast,qp=0",       66,  50, 1, AVCOL_RANGE_JPEG, 2, 0, NULL },
    { "libx264", "gray10le",    "preset=fast,qp=0",       66,  50, 1, AVCOL_RANGE_MPEG, 2, 0, NULL },
    { "libaom-av1", "yuv420p",     AOM,                   70,  54, 0, AVCOL_RANGE_MPEG, 1, 0, NULL },
    { "libaom-av1", "yuv420p",     AOM_LOSSLESS,          71,  53, 1, AVCOL_RANGE_JPEG, 5, 0, NULL },
    /* no color description, but a range */
    { "libaom-av1", "yuv420p",     AOM_LOSSLESS,          33,  97, 1, AVCOL_RANGE_MPEG, 2, 0, NULL },
    { "libaom-av1", "yuv420p10le", AOM_LOSSLESS,          71,  53, 1, AVCOL_RANGE_JPEG, 9, 0,
        "av1_metadata=chroma_sample_position=colocated" },
    { "libaom-av1", "yuv420p10le", AOM ",still-picture=1", 65, 65, 0, AVCOL_RANGE_JPEG, 9, 0,
        "av1_metadata=chroma_sample_position=vertical" },
    { "libaom-av1", "yuv420p12le", AOM_LOSSLESS,          70,  53, 1, AVCOL_RANGE_JPEG, 2, 0, NULL },
    { "libaom-av1", "yuv422p",     AOM_LOSSLESS,          71,  53, 1, AVCOL_RANGE_MPEG, 1, 0, NULL },
    { "libaom-av1", "yuv422p10le", AOM,                   69,  51, 0, AVCOL_RANGE_JPEG, 1, 0, NULL },
    { "libaom-av1", "yuv444p",     AOM_LOSSLESS,          71,  53, 1, AVCOL_RANGE_JPEG, 1, 0, NULL },
    { "libaom-av1", "yuv444p10le", AOM_LOSSLESS ",still-picture=1", 71, 53, 1, AVCOL_RANGE_MPEG, 9, 0, NULL },
    { "libaom-av1", "yuv444p12le", AOM_LOSSLESS,          40,  81, 1, AVCOL_RANGE_JPEG, 2, 0, NULL },
    { "libaom-av1", "gray",        AOM_LOSSLESS,          71,  53, 1, AVCOL_RANGE_JPEG, 2, 0, NULL },
    { "libaom-av1", "gray10le",    AOM_LOSSLESS,          67,  51, 1, AVCOL_RANGE_MPEG, 5, 0, NULL } };

static uint32_t codec_of(const char *encoder)
{
    return !strcmp(encoder, "libx264") ? BZNA_CODEC_H264 :
           !strcmp(encoder, "libx265") ? BZNA_CODEC_H265 :
                                         BZNA_CODEC_AV1;
}

static int plane_width(const AVFrame *f, const AVPixFmtDescriptor *d, int p)
{
    return p ? AV_CEIL_RSHIFT(f->width, d->log2_chroma_w) : f->width;
}
static int plane_height(const AVFrame *f, const AVPixFmtDescriptor *d, int p)
{
    return p ? AV_CEIL_RSHIFT(f->height, d->log2_chroma_h) : f->height;
}

static unsigned frame_sample(const AVFrame *f, const AVPixFmtDescriptor *d, int p, int x, int y)
{
    const uint8_t *row = f->data[p] + (ptrdiff_t)y * f->linesize[p];
    return d->comp[0].depth > 8 ? row[2 * x] + 256u * row[2 * x + 1] : row[x];
}

/* Slopes with a grain, another in every plane and picture, all values from darkest to brightest. */
static AVFrame *frame_draw(const kind *k, unsigned seed)
{
    AVFrame *f = av_frame_alloc();
    const AVPixFmtDescriptor *d;
    f->format = av_get_pix_fmt(k->format);
    f->width = k->width;
    f->height = k->height;
    f->color_range = (enum AVColorRange)k->range;
    f->colorspace = (enum AVColorSpace)k->matrix;
    f->chroma_location = (enum AVChromaLocation)k->location;
    d = av_pix_fmt_desc_get(f->format);
    if (!d || av_frame_get_buffer(f, 0) < 0)
        abort();
    for (int p = 0; p < d->nb_components; p++)
        for (int y = 0; y < plane_height(f, d, p); y++)
            for (int x = 0; x < plane_width(f, d, p); x++) {
                unsigned top = (1u << d->comp[0].depth) - 1, w = (unsigned)plane_width(f, d, p),
                         h = (unsigned)plane_height(f, d, p);
                unsigned a = (unsigned)x * 37u + seed, b = (unsigned)y * (p == 1 ? 11u : 23u) + seed / 7;
                unsigned value = (top * (p == 2 ? w - 1 - (unsigned)x : (unsigned)x) / w + top * (unsigned)y / h) / 2 +
                                 (a * b % 97) * (top / 255) / 4;
                uint8_t *row = f->data[p] + (ptrdiff_t)y * f->linesize[p];
                value = value > top ? top : value;
                if (d->comp[0].depth > 8) {
                    row[2 * x] = (uint8_t)value;
                    row[2 * x + 1] = (uint8_t)(value >> 8);
                } else {
                    row[x] = (uint8_t)value;
                }
            }
    return f;
}

/* Encodes drawn frames until the encoder gives a packet number `which`. NULL, with *why: this machine cannot. */
static AVPacket *encode(const kind *k, unsigned seed, int which, const char **why)
{
    const AVCodec *codec = avcodec_find_encoder_by_name(k->encoder);
    AVCodecContext *c = codec ? avcodec_alloc_context3(codec) : NULL;
    AVPacket *packet = av_packet_alloc();
    AVDictionary *options = NULL;
    int got = -1;
    *why = "libavcodec has no such encoder here";
    if (c) {
        c->width = k->width;
        c->height = k->height;
        c->pix_fmt = av_get_pix_fmt(k->format);
        c->time_base = (AVRational){ 1, 25 };
        c->gop_size = which ? 100 : 1;
        c->thread_count = 1;
        c->color_range = (enum AVColorRange)k->range;
        c->colorspace = (enum AVColorSpace)k->matrix;
        c->chroma_sample_location = (enum AVChromaLocation)k->location;
        c->log_level_offset = 64;
        av_dict_parse_string(&options, k->options, "=", ",", 0);
        *why = "the encoder cannot be opened for this format";
        if (avcodec_open2(c, codec, &options) >= 0) {
            *why = "the encoder gives no packet";
            for (int i = 0; i <= which; i++) {
                AVFrame *f = frame_draw(k, seed + (unsigned)i);
                f->pts = i;
                avcodec_send_frame(c, f);
                av_frame_free(&f);
            }
            avcodec_send_frame(c, NULL);
            for (int i = 0; i <= which && (got = avcodec_receive_packet(c, packet)) >= 0; i++)
                if (i < which)
                    av_packet_unref(packet);
            if (got >= 0 && k->filter)
                got = filter(k->filter, c, packet);
        }
    }
    av_dict_free(&options);
    avcodec_free_context(&c);
    if (got < 0)
        av_packet_free(&packet);
    return packet;
}

/* libavcodec as its manual says, with nothing of ours in between. */
static unit unit_of(const kind *k, const AVPacket *packet)
{
    bzna_image image = { .struct_size = sizeof image };
    image.codec = codec_of(k->encoder);
    image.width = image.frame_width = (uint32_t)k->width;
    image.height = image.frame_height = (uint32_t)k->height;
    image.data = packet->data;
    image.data_size = (uint64_t)packet->size;
    return unit_copy(&image);
}

/* How many samples differ; -1: the frames are not of one kind. */
static long frames_differ(const AVFrame *a, const AVFrame *b)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(a->format), *e = av_pix_fmt_desc_get(b->format);
    long n = 0;
    if (a->width != b->width || a->height != b->height || d->comp[0].depth != e->comp[0].depth ||
        d->nb_components > e->nb_components ||
        (d->nb_components > 1 && (d->log2_chroma_w != e->log2_chroma_w || d->log2_chroma_h != e->log2_chroma_h)))
        return -1;
    for (int p = 0; p < d->nb_components; p++)
        for (int y = 0; y < plane_height(a, d, p); y++)
            for (int x = 0; x < plane_width(a, d, p); x++)
                n += frame_sample(a, d, p, x, y) != frame_sample(b, e, p, x, y);
    return n;
}

static unsigned picture_sample(const bzna_picture *picture, int p, int x, int y)
{
    const uint8_t *row = (const uint8_t *)picture->plane[p] + (ptrdiff_t)y * picture->pitch[p];
    return picture->depth > 8 ? row[2 * x] + 256u * row[2 * x + 1] : row[x];
}

/* The picture is libavcodec's frame: every sample, and all that is said of them. */
static void check_picture(const kind *k, const bzna_picture *picture, const AVFrame *f)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(f->format),
                             *wanted = av_pix_fmt_desc_get(av_get_pix_fmt(k->format));
    int gray = wanted->nb_components == 1, full, before = test_failures;
    long wrong = 0;
    CHECK_EQ(picture->depth, wanted->comp[0].depth);
    CHECK(picture->frame_width == (uint32_t)k->width && picture->frame_height == (uint32_t)k->height);
    CHECK(picture->width == (uint32_t)k->width && picture->height == (uint32_t)k->height && !picture->crop_x &&
          !picture->crop_y);
    CHECK(picture->plane[0] != NULL);
    CHECK_EQ(picture->plane[1] == NULL, gray);
    CHECK_EQ(picture->plane[2] == NULL, gray);
    if (!gray) {
        CHECK_EQ(picture->chroma_shift_x, wanted->log2_chroma_w);
        CHECK_EQ(picture->chroma_shift_y, wanted->log2_chroma_h);
    }
    for (int p = 0; p < wanted->nb_components && test_failures == before; p++)
        for (int y = 0; y < plane_height(f, d, p); y++)
            for (int x = 0; x < plane_width(f, d, p); x++)
                wrong += picture_sample(picture, p, x, y) != frame_sample(f, d, p, x, y);
    CHECK_EQ(wrong, 0);
    CHECK(picture->color.present);
    /* H.26x without a word on color: limited range, the rest unspecified. AV1 always says its range. */
    full = f->color_range == AVCOL_RANGE_JPEG;
    CHECK_EQ(picture->color.full_range, full);
    CHECK_EQ(picture->color.matrix, f->colorspace);
    CHECK_EQ(picture->color.primaries, f->color_primaries);
    CHECK_EQ(picture->color.transfer, f->color_trc);
    if (wanted->log2_chroma_w && wanted->log2_chroma_h && !gray) {
        int at = (int)f->chroma_location;
        CHECK_EQ(picture->chroma_left,
                 at == AVCHROMA_LOC_UNSPECIFIED ?
                     !full :
                     at == AVCHROMA_LOC_LEFT || at == AVCHROMA_LOC_TOPLEFT || at == AVCHROMA_LOC_BOTTOMLEFT);
        CHECK_EQ(picture->chroma_top, at == AVCHROMA_LOC_TOPLEFT || at == AVCHROMA_LOC_TOP);
    }
    if (test_failures != before)
        printf("  in %s %s %dx%d\n", k->encoder, k->format, k->width, k->height);
}

static const char *decoder_name_of(uint32_t codec)
{
    return codec == BZNA_CODEC_H264 ? "h264" : codec == BZNA_CODEC_H265 ? "hevc" : "libdav1d";
}

/* All kinds of one codec. Skips if this machine can code none of them. */
static void check_kinds(uint32_t codec)
{
    bzna_decoder *decoder = decoder_new();
    int all = 0, tried = 0, locations = 0;
    const char *why = NULL;
    for (size_t i = 0; i < COUNT(kinds); i++) {
        const kind *k = &kinds[i];
        AVPacket *packet;
        AVFrame *expected, *drawn;
        bzna_picture picture = { .struct_size = sizeof picture };
        bzna_error e = { .struct_size = sizeof e };
        unit u;
        if (codec_of(k->encoder) != codec)
            continue;
        all++;
        if (!(packet = encode(k, (unsigned)i, 0, &why))) {
            printf("%s %s: %s\n", k->encoder, k->format, why);
            continue;
        }
        expected = decode_by(decoder_name_of(codec), packet->data, packet->size);
        if (!expected && codec == BZNA_CODEC_AV1) {
            av_packet_free(&packet);
            bzna_decoder_close(decoder);
            SKIP("libavcodec has no libdav1d here");
        }
        REQUIRE(expected != NULL);
        tried++;
        drawn = frame_draw(k, (unsigned)i);
        if (k->lossless) /* the encoder's word for it: then the drawing itself is what must come out */
            CHECK_EQ(frames_differ(drawn, expected), 0);
        if (codec == BZNA_CODEC_AV1) {                      /* a second decoder, by others */
            AVFrame *other = decode_by("libaom-av1", packet->data, packet->size);
            if (other)
                CHECK_EQ(frames_differ(expected, other), 0);
            av_frame_free(&other);
        }
        u = unit_of(k, packet);
        CHECK_EQ(bzna_decoder_decode(decoder, &u.image, &picture, &e), BZNA_OK);
        if (picture.plane[0])
            check_picture(k, &picture, expected);
        else
            printf("  in %s %s: %s\n", k->encoder, k->format, e.message);
        locations |= 1 << expected->chroma_location;
        unit_free(&u);
        av_frame_free(&drawn);
        av_frame_free(&expected);
        av_packet_free(&packet);
    }
    bzna_decoder_close(decoder);
    if (!tried)
        SKIP(why ? why : "no encoder");
    if (tried == all)
        CHECK((locations & 1 << AVCHROMA_LOC_LEFT) && (locations & 1 << AVCHROMA_LOC_TOPLEFT));
    printf("codec %u: %d of %d kinds of pictures\n", codec, tried, all);
}

TEST(h264_pictures_of_every_depth_and_chroma_format_are_libavcodecs) { check_kinds(BZNA_CODEC_H264); }
TEST(h265_pictures_of_every_depth_and_chroma_format_are_libavcodecs) { check_kinds(BZNA_CODEC_H265); }
TEST(av1_pictures_of_every_depth_and_chroma_format_are_libavcodecs)  { check_kinds(BZNA_CODEC_AV1); }

/* Kinds that this machine can code, as units. Returns how many. */
static int units_make(unit *units, const kind **of)
{
    const char *why;
    int n = 0;
    for (size_t i = 0; i < COUNT(kinds); i++) {
        AVPacket *packet = encode(&kinds[i], 1000 + (unsigned)i, 0, &why);
        if (!packet)
            continue;
        of[n] = &kinds[i];
        units[n++] = unit_of(&kinds[i], packet);
        av_packet_free(&packet);
    }
    return n;
}

/* ---- Pixels that were never written ------------------------------------------------------------------------------ */

/* Frame memory whose bytes are all *opaque. */
static int filled_buffer(AVCodecContext *c, AVFrame *f, int flags)
{
    const int result = avcodec_default_get_buffer2(c, f, flags);
    for (int i = 0; result >= 0 && i < AV_NUM_DATA_POINTERS && f->buf[i]; i++)
        memset(f->buf[i]->data, *(const int *)c->opaque, (size_t)f->buf[i]->size);
    return result;
}

/* What libavcodec makes of an H.265 picture (Annex B) in such memory; NULL: it says that it is damaged. */
static AVFrame *decode_filled(uint8_t *data, uint64_t size, int fill)
{
    AVCodecContext *c = avcodec_alloc_context3(avcodec_find_decoder(AV_CODEC_ID_HEVC));
    AVPacket *packet = av_packet_alloc();
    AVFrame *f = av_frame_alloc();
    int got;
    c->thread_count = 1;
    c->log_level_offset = 64;
    c->err_recognition = AV_EF_EXPLODE | AV_EF_BITSTREAM | AV_EF_BUFFER;
    c->get_buffer2 = filled_buffer;
    c->opaque = &fill;
    packet->data = data;
    packet->size = (int)size;
    got = avcodec_open2(c, NULL, NULL) < 0 || avcodec_send_packet(c, packet) < 0 ||
          avcodec_send_packet(c, NULL) < 0 || avcodec_receive_frame(c, f) < 0 || f->decode_error_flags ? -1 : 0;
    avcodec_free_context(&c);
    av_packet_free(&packet);
    if (got < 0)
        av_frame_free(&f);
    return f;
}

/* Flips one bit of a picture after the other. What libavcodec decodes to other pixels in memory that held other bytes
 * is damaged to the library, and nothing else is that libavcodec takes. Returns how many had such pixels. */
static int flip_bits(const bzna_image *image, uint64_t step)
{
    enum { ROOM = 1 << 18 };
    bzna_decoder *decoder = decoder_new();
    unit u = unit_copy(image);
    uint8_t *stream = calloc(1, ROOM);
    int lacking = 0;
    for (uint64_t bit = 0; stream && bit < 8 * image->data_size; bit += step) {
        bzna_error e = { .struct_size = sizeof e };
        bzna_picture picture = { .struct_size = sizeof picture };
        AVFrame *a = NULL, *b = NULL;
        bzna_status status;
        size_t size = 0;
        u.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        status = bzna_decoder_decode(decoder, &u.image, &picture, &e);
        if (status == BZNA_OK || status == BZNA_E_DECODE) {
            memset(stream, 0, ROOM);
            if (bzna_image_annexb(&u.image, stream, ROOM - 64, &size, NULL) == BZNA_OK) {
                a = decode_filled(stream, size, 0x00);
                b = decode_filled(stream, size, 0xff);
            }
            if (a && b) {
                const int lacks = frames_differ(a, b) != 0;
                if (lacks == (status == BZNA_OK)) {
                    printf("  bit %d: %s\n", (int)bit, status == BZNA_OK ? "pixels are missing" : e.message);
                    test_failures++;
                }
                lacking += lacks;
            }
        }
        av_frame_free(&a);
        av_frame_free(&b);
        u.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    CHECK_EQ(pass(decoder, &u.image), BZNA_OK);
    free(stream);
    unit_free(&u);
    bzna_decoder_close(decoder);
    return lacking;
}

TEST(an_h265_picture_of_which_pixels_were_not_decoded_is_damaged)
{
    for (uint64_t sample = 0; sample < 4; sample += 3) {
        bzna_image image = { .struct_size = sizeof image };
        static uint8_t buffer[1 << 16];
        bzna_dataset *dataset = NULL;
        REQUIRE(bzna_dataset_open(context, "tests/data/small_h265.bzna", NULL, &dataset, NULL) == BZNA_OK);
        REQUIRE(bzna_dataset_read_image(dataset, sample, NULL, buffer, sizeof buffer, &image, NULL) == BZNA_OK);
        CHECK(flip_bits(&image, ROUNDS(7, 131)) > 0);
        bzna_dataset_close(dataset);
    }
}

/* Slices after the one that ends early are decoded, and their filters reach into what is missing. */
TEST(an_h265_picture_of_several_slices_of_which_one_ends_early_is_damaged)
{
    /* without threads, libx265 crashes if it makes several slices */
#define X265_SLICES "x265-params=log-level=none:pools=2:frame-threads=1:ctu=16:crf=30:slices"
    static const kind sliced[] = {
        { "libx265", "yuv420p", X265_SLICES "=3",  98,  98, 0, AVCOL_RANGE_MPEG, 1, 0, NULL },
        { "libx265", "gray",    X265_SLICES "=2", 129, 113, 0, AVCOL_RANGE_MPEG, 2, 0, NULL },
        { "libx265", "gbrp",    X265_LOSSLESS ":ctu=32",         65,  35, 1, AVCOL_RANGE_JPEG, 0, 0, NULL },
        { "libx265", "yuv420p10le", X265_SLICES "=2", 66, 130, 0, AVCOL_RANGE_MPEG, 9, 0,
          "hevc_metadata=crop_left=18:crop_top=6" } };
    int tried = 0;
    for (size_t i = 0; i < COUNT(sliced); i++) {
        const char *why = NULL;
        AVPacket *packet = encode(&sliced[i], (unsigned)i, 0, &why);
        unit u;
        if (!packet)
            continue;
        tried++;
        u = unit_of(&sliced[i], packet);
        if (sliced[i].filter) {
            u.image.width = u.image.frame_width -= 18;
            u.image.height = u.image.frame_height -= 6;
        }
        CHECK(flip_bits(&u.image, ROUNDS(5, 97)) > 0);
        unit_free(&u);
        av_packet_free(&packet);
    }
    if (!tried)
        SKIP("no libx265 here");
}

/* Written, read back and decoded, AV1 pictures of every kind are what their bare stream decodes to. */
TEST(an_archive_of_av1_pictures_holds_what_was_written)
{
    static const char path[] = TEST_BUILD "/tests/14_av1.bzna";
    unit units[COUNT(kinds)];
    const kind *of[COUNT(kinds)];
    uint8_t *buffer = malloc(1 << 20);
    bzna_decoder *decoder = decoder_new();
    bzna_writer *writer = NULL;
    bzna_dataset *dataset = NULL;
    bzna_error e = { .struct_size = sizeof e };
    int n = units_make(units, of), av1 = 0;
    REQUIRE(bzna_writer_open(context, path, NULL, &writer, &e) == BZNA_OK);
    for (int i = 0; i < n; i++) {
        bzna_writer_sample desc = { .struct_size = sizeof desc, .has_target = 1, .target = i,
                                    .image = &units[i].image };
        if (codec_of(of[i]->encoder) == BZNA_CODEC_AV1 && ++av1)
            CHECK_EQ(bzna_writer_add(writer, BZNA_INDEX_NEXT, &desc, 0, &e), BZNA_OK);
    }
    if (av1)
        CHECK_EQ(bzna_writer_finish(writer, &e), BZNA_OK);
    bzna_writer_close(writer);
    if (av1)
        REQUIRE(bzna_dataset_open(context, path, NULL, &dataset, &e) == BZNA_OK);
    for (int i = 0, at = 0; i < n; i++) {
        bzna_image image = { .struct_size = sizeof image };
        bzna_image_info info;
        outcome bare, read;
        if (codec_of(of[i]->encoder) != BZNA_CODEC_AV1)
            continue;
        CHECK_EQ(bzna_dataset_read_image(dataset, (uint64_t)at++, "bzna_input", buffer, 1 << 20, &image, &e), BZNA_OK);
        REQUIRE(bzna_dataset_image_info(dataset, (uint64_t)at - 1, "bzna_input", &info, sizeof info, &e) ==
                BZNA_OK);
        REQUIRE(image.codec == BZNA_CODEC_AV1 && info.fourcc == 0x61763031 && image.config_size > 4);
        CHECK_EQ(((const uint8_t *)image.config)[0], 0x81);
        CHECK_EQ(((const uint8_t *)image.config)[4], 0x0a); /* a sequence header that says its size */
        bare = decode(decoder, &units[i].image);
        image.config_size = 0;                              /* a sample stands alone: it has the sequence header, too */
        image.config = NULL;
        read = decode(decoder, &image);
        CHECK(bare.status == BZNA_OK && read.status == BZNA_OK && bare.size == read.size &&
              !memcmp(bare.pixels, read.pixels, (size_t)bare.size));
        outcome_free(&bare);
        outcome_free(&read);
    }
    for (int i = 0; i < n; i++)
        unit_free(&units[i]);
    bzna_dataset_close(dataset);
    bzna_decoder_close(decoder);
    free(buffer);
    if (!av1)
        SKIP("libavcodec has no AV1 encoder here");
}

/* H.264 with two sequence parameter sets, of which the picture uses the one that is not last: the sets of one packet,
 * that of another, the slices of the first. The image says of its frame what the last set says. */
static unit unit_with_last_set(const kind *of, const AVPacket *packet, const kind *last, const AVPacket *other)
{
    unit u = unit_of(last, packet);
    size_t n = 0;
    u.data = realloc(u.data, (size_t)packet->size + (size_t)other->size + 64);
    if (!u.data || codec_of(of->encoder) != BZNA_CODEC_H264)
        abort();
    for (int part = 0; part < 3; part++) {
        const AVPacket *from = part == 1 ? other : packet;
        bzi_span all = { from->data, (uint64_t)from->size }, nal;
        bzi_nals nals = bzi_nals_of_unit(all, 0);
        while (bzi_nals_next(&nals, &nal) > 0) {
            int type = nal.data[0] & 31;
            if (part == 0 ? type == 7 || type == 8 : part == 1 ? type == 7 : type == 5) {
                memcpy(u.data + n, "\0\0\0\1", 4);
                memcpy(u.data + n + 4, nal.data, (size_t)nal.size);
                n += 4 + (size_t)nal.size;
            }
        }
    }
    unit_cut(&u, n);
    return u;
}

/* What was read of the last set must not be believed of the picture's planes. */
TEST(a_frame_that_is_not_what_its_last_parameter_set_says_is_refused)
{
    static const char *const formats[] = { "yuv420p",     "yuv420p10le", "yuv422p", "yuv444p",
                                           "yuv444p10le", "gray",        "gray10le" };
    const char *why = NULL;
    bzna_decoder *decoder = decoder_new();
    int tried = 0, coded = 0;
    for (size_t a = 0; a < COUNT(formats); a++)
        for (size_t b = 0; b < COUNT(formats); b++) {
            kind of = { "libx264", formats[a], "preset=fast,qp=1", 66, 50, 0, 0, 2, 0, NULL },
                 last = { "libx264", formats[b], "preset=fast,qp=1,x264-params=sps-id=5", 66, 50, 0, 0, 2, 0, NULL };
            AVPacket *packet = a == b ? NULL : encode(&of, 3, 0, &why),
                     *other = packet ? encode(&last, 4, 0, &why) : NULL;
            size_t depth_a = strstr(formats[a], "10") ? 10 : 8, depth_b = strstr(formats[b], "10") ? 10 : 8;
            bzna_picture picture = { .struct_size = sizeof picture };
            bzna_status status;
            if (packet && other) {
                unit u = unit_with_last_set(&of, packet, &last, other);
                status = bzna_decoder_decode(decoder, &u.image, &picture, NULL);
                coded++;
                /* believed to be gray, its luma alone is handed out; libavcodec's gray is 4:2:0 with neutral chroma */
                if (status == BZNA_OK) {
                    CHECK(depth_a == depth_b && picture.depth == depth_a);
                    CHECK(!strncmp(formats[b], "gray", 4) ?
                              !picture.plane[1] :
                              !strncmp(formats[a], "gray", 4) && !strncmp(formats[b], "yuv420p", 7));
                } else {
                    CHECK(status == BZNA_E_CODEC || status == BZNA_E_DECODE || status == BZNA_E_MISMATCH);
                }
                tried += status == BZNA_E_CODEC;
                unit_free(&u);
            }
            av_packet_free(&packet);
            av_packet_free(&other);
        }
    bzna_decoder_close(decoder);
    if (!coded)
        SKIP(why);
    CHECK(tried >= coded / 2);                              /* libavcodec itself has no objection to most */
    printf("H.264: %d pictures were not what the last parameter set said\n", tried);
}

/* One dimension that is wrong is enough: whoever warps the picture would read beyond its planes. */
TEST(a_frame_of_another_size_than_its_last_parameter_set_says_is_refused)
{
    static const int others[][2] = { { 98, 50 }, { 66, 82 }, { 98, 82 }, { 34, 50 }, { 66, 18 }, { 34, 18 }, { 34, 82 },
                                     { 98, 18 }, { 68, 50 }, { 66, 52 }, { 64, 50 } };
    const char *why = NULL;
    bzna_decoder *decoder = decoder_new();
    int coded = 0;
    for (size_t i = 0; i < COUNT(others); i++) {
        kind of = { "libx264", "yuv420p", "preset=fast,qp=1", 66, 50, 0, 0, 2, 0, NULL };
        kind last = { "libx264", "yuv420p", "preset=fast,qp=1,x264-params=sps-id=5", 0, 0, 0, 0, 2, 0, NULL };
        AVPacket *packet = encode(&of, 3, 0, &why), *other;
        last.width = others[i][0];
        last.height = others[i][1];
        other = packet ? encode(&last, 4, 0, &why) : NULL;
        if (packet && other) {
            unit u = unit_with_last_set(&of, packet, &last, other), good = unit_of(&of, packet);
            char says[64];
            snprintf(says, sizeof says, "frame is 66x50, not %dx%d", others[i][0], others[i][1]);
            check_fails(decoder, &u, BZNA_E_MISMATCH, says);
            CHECK_EQ(pass(decoder, &good.image), BZNA_OK);
            coded++;
            unit_free(&good);
            unit_free(&u);
        }
        av_packet_free(&packet);
        av_packet_free(&other);
    }
    bzna_decoder_close(decoder);
    if (!coded)
        SKIP(why);
}

/* Windows that leave out samples on the left and at the top: coded without loss, what is left is of the drawing. */
TEST(a_window_that_begins_inside_the_frame_is_decoded_from_there)
{
    static const struct { const char *encoder, *format, *options, *filter; int left, top; } work[] = {
        { "libx265", "yuv420p",     X265_LOSSLESS,      "hevc_metadata=crop_left=2:crop_top=2",   2,  2 },
        { "libx265", "yuv420p",     X265_LOSSLESS,      "hevc_metadata=crop_left=18:crop_top=6",  18, 6 },
        { "libx265", "yuv420p10le", X265_LOSSLESS,      "hevc_metadata=crop_left=2:crop_top=2",   2,  2 },
        { "libx265", "yuv422p",     X265_LOSSLESS,      "hevc_metadata=crop_left=6:crop_top=1",   6,  1 },
        { "libx265", "yuv444p",     X265_LOSSLESS,      "hevc_metadata=crop_left=1:crop_top=3",   1,  3 },
        { "libx265", "gray",        X265_LOSSLESS,      "hevc_metadata=crop_left=5:crop_top=1",   5,  1 },
        { "libx264", "yuv420p",     "preset=fast,qp=0", "h264_metadata=crop_left=2:crop_top=2",   2,  2 },
        { "libx264", "yuv420p",     "preset=fast,qp=0", "h264_metadata=crop_left=34:crop_top=10", 34, 10 },
        { "libx264", "yuv420p10le", "preset=fast,qp=0", "h264_metadata=crop_left=2:crop_top=2",   2,  2 },
        { "libx264", "yuv444p",     "preset=fast,qp=0", "h264_metadata=crop_left=3:crop_top=1",   3,  1 } };
    const char *why = NULL;
    bzna_decoder *decoder = decoder_new();
    int coded = 0;
    for (size_t i = 0; i < COUNT(work); i++) {
        kind whole = { work[i].encoder, work[i].format, work[i].options, 70, 54, 1, AVCOL_RANGE_JPEG, 1, 0,
                       work[i].filter };
        kind shown = whole;
        AVPacket *packet = encode(&whole, 21, 0, &why);
        bzna_picture picture = { .struct_size = sizeof picture };
        AVFrame *drawn;
        const AVPixFmtDescriptor *d;
        unit u;
        long wrong = 0;
        if (!packet)
            continue;
        shown.width -= work[i].left;
        shown.height -= work[i].top;
        u = unit_of(&shown, packet);
        drawn = frame_draw(&whole, 21);
        d = av_pix_fmt_desc_get(drawn->format);
        CHECK_EQ(bzna_decoder_decode(decoder, &u.image, &picture, NULL), BZNA_OK);
        CHECK(picture.frame_width == (uint32_t)shown.width && picture.frame_height == (uint32_t)shown.height);
        for (int p = 0; p < d->nb_components && picture.plane[p]; p++) {
            int left = work[i].left >> (p ? d->log2_chroma_w : 0), top = work[i].top >> (p ? d->log2_chroma_h : 0);
            for (int y = top; y < plane_height(drawn, d, p); y++)
                for (int x = left; x < plane_width(drawn, d, p); x++)
                    wrong += picture_sample(&picture, p, x - left, y - top) != frame_sample(drawn, d, p, x, y);
        }
        CHECK_EQ(wrong, 0);
        if (wrong || !picture.plane[0])
            printf("  in %s %s, %d and %d left out\n", work[i].encoder, work[i].format, work[i].left, work[i].top);
        coded++;
        unit_free(&u);
        av_frame_free(&drawn);
        av_packet_free(&packet);
    }
    bzna_decoder_close(decoder);
    if (!coded)
        SKIP(why);
}

/* More kinds than a decoder keeps contexts for, in disorder, some of them damaged. */
TEST(kinds_of_pictures_that_alternate_are_as_alone)
{
    unit units[COUNT(kinds)];
    const kind *of[COUNT(kinds)];
    outcome alone[COUNT(kinds)];
    bzna_decoder *decoder = decoder_new();
    int n = units_make(units, of), fine = 0;
    for (int i = 0; i < n; i++) {
        alone[i] = decode_fresh(&units[i].image);
        fine += alone[i].status == BZNA_OK;
    }
    random_state = 77;
    for (int round = 0; round < 400 && n; round++) {
        int i = (int)(random_u32() % (unsigned)n);
        outcome o;
        if (round % 5 == 4) {
            unit damaged = unit_copy(&units[i].image);
            damaged.data[random_u32() % damaged.image.data_size] ^= (uint8_t)(1u << random_u32() % 8);
            pass(decoder, &damaged.image);
            unit_free(&damaged);
        }
        o = decode(decoder, &units[i].image);
        if (!same(&o, &alone[i]))
            report_difference(of[i]->format, &o, &alone[i]);
        outcome_free(&o);
    }
    for (int i = 0; i < n; i++) {
        outcome_free(&alone[i]);
        unit_free(&units[i]);
    }
    bzna_decoder_close(decoder);
    if (!n)
        SKIP("libavcodec has no encoders here");
    CHECK(fine > 0);
}

/* A step over one open bitstream unit, by 5.3 of the specification: its type, its size in all. 0: there is none. */
static size_t obu_size(const uint8_t *p, size_t left, int *type)
{
    size_t at = 1, size = 0;
    if (left < 2)
        return 0;
    *type = p[0] >> 3 & 15;
    at += p[0] >> 2 & 1;
    for (int i = 0; i < 8 && at < left; i++) {
        size |= (size_t)(p[at] & 127) << 7 * i;
        if (!(p[at++] & 128))
            break;
    }
    return at + size <= left ? at + size : 0;
}

/* An AV1 picture as a track holds it: av1C with the sequence header, a sample without; and the same in one piece. */
static int unit_split(const unit *u, unit *split)
{
    uint8_t config[256] = { 0x81, 0, 0, 0 };
    size_t at = 0, size, config_size = 4, kept = 0;
    uint8_t *data = malloc((size_t)u->image.data_size);
    int type = 0;
    bzna_image image = u->image;
    while ((size = obu_size(u->data + at, (size_t)u->image.data_size - at, &type)) > 0) {
        if (type == 1 && config_size + size <= sizeof config) {
            memcpy(config + config_size, u->data + at, size);
            config_size += size;
        } else if (type != 2) {
            memcpy(data + kept, u->data + at, size);
            kept += size;
        }
        at += size;
    }
    image.config = config;
    image.config_size = config_size;
    image.data = data;
    image.data_size = kept;
    *split = unit_copy(&image);
    free(data);
    return config_size > 4 && kept > 0 && at == u->image.data_size;
}

static const kind av1_kind = { "libaom-av1", "yuv420p10le", AOM, 70, 54, 0, AVCOL_RANGE_MPEG, 9, 0, NULL };

/* Alone, after its undamaged self and after other damage: always the same, and the next picture is whole. */
static void check_damaged_av1(bzna_decoder *past, bzna_decoder *damage, const unit *good, const outcome *alone,
                              const unit *bad, const char *what, uint64_t at, int *fine)
{
    outcome fresh = decode_fresh(&bad->image), o;
    char text[96];
    snprintf(text, sizeof text, "AV1, byte %llu of %s", (unsigned long long)at, what);
    *fine += fresh.status == BZNA_OK;
    CHECK(fresh.status == BZNA_OK || (fresh.status < 0 && fresh.error.message[0]));
    for (int i = 0; i < 2; i++) {
        o = decode(i ? damage : past, &bad->image);
        if (!same(&o, &fresh))
            report_difference(text, &o, &fresh);
        outcome_free(&o);
    }
    o = decode(past, &good->image);
    if (!same(&o, alone))
        report_difference("the undamaged picture after it", &o, alone);
    outcome_free(&o);
    outcome_free(&fresh);
}

TEST(a_damaged_av1_picture_fails_or_not_alike_and_spoils_nothing)
{
    const char *why;
    AVPacket *packet = encode(&av1_kind, 5, 0, &why);
    bzna_decoder *past, *damage;
    unit whole, good;
    outcome alone;
    int fine = 0, tried = 0;
    if (!packet)
        SKIP(why);
    whole = unit_of(&av1_kind, packet);
    av_packet_free(&packet);
    REQUIRE(unit_split(&whole, &good));
    alone = decode_fresh(&whole.image);
    if (alone.status == BZNA_E_CODEC)
        SKIP("libavcodec has no libdav1d here");
    CHECK_EQ(alone.status, BZNA_OK);
    outcome_free(&alone);
    alone = decode_fresh(&good.image);
    CHECK_EQ(alone.status, BZNA_OK);
    past = decoder_new();
    damage = decoder_new();
    for (int part = 0; part < 2; part++) {
        uint64_t size = part ? good.image.data_size : good.image.config_size, step = part ? 1 + size / 300 : 1;
        for (uint64_t at = 0; at < size; at += at < 40 ? 1 : step) {
            unit bad = unit_copy(&good.image);
            (part ? bad.data : bad.config)[at] ^= (uint8_t)(1u << (at * 5 + 3) % 8);
            check_damaged_av1(past, damage, &good, &alone, &bad, part ? "the sample" : "av1C", at, &fine);
            tried++;
            unit_free(&bad);
        }
    }
    printf("AV1: %d of %d damaged pictures were decoded all the same\n", fine, tried);
    for (uint64_t size = 1; size < good.image.data_size; size += size < 30 ? 1 : 1 + good.image.data_size / 100) {
        unit bad = unit_copy(&good.image);
        int before = fine;
        unit_cut(&bad, size);
        check_damaged_av1(past, damage, &good, &alone, &bad, "a sample cut", size, &fine);
        CHECK_EQ(fine, before);                             /* no cut goes unnoticed */
        unit_free(&bad);
    }
    {                                                       /* and one that admits to be shorter: tile data ends early
        */
        size_t header = 0, unit_bytes;
        int type = 0;
        while ((unit_bytes = obu_size(good.data + header, (size_t)good.image.data_size - header, &type)) > 0 &&
               header + unit_bytes < good.image.data_size)
            header += unit_bytes;
        for (uint64_t left = 1; left + header < good.image.data_size; left += 1 + good.image.data_size / 60) {
            unit bad = unit_copy(&good.image);
            uint64_t size = header + 3 + left;
            if (size > bad.image.data_size)
                size = bad.image.data_size;
            unit_cut(&bad, size);
            /* two bytes of size, the second without more to come */
            bad.data[header + 1] = (uint8_t)(0x80 | ((size - header - 3) & 127));
            bad.data[header + 2] = (uint8_t)((size - header - 3) >> 7 & 127);
            check_damaged_av1(past, damage, &good, &alone, &bad, "a shortened unit", left, &fine);
            unit_free(&bad);
        }
    }
    bzna_decoder_close(past);
    bzna_decoder_close(damage);
    outcome_free(&alone);
    unit_free(&good);
    unit_free(&whole);
}

/* What the specification and its binding to mp4 allow: headers in either place or both, units of other kinds, a last
 * unit without a size. */
TEST(an_av1_picture_may_be_laid_out_in_several_ways)
{
    static const kind other_kind = { "libaom-av1", "yuv444p", AOM, 70, 54, 0, AVCOL_RANGE_JPEG, 1, 0, NULL };
    const char *why;
    AVPacket *packet = encode(&av1_kind, 9, 0, &why), *other_packet = packet ? encode(&other_kind, 9, 0, &why) : NULL;
    unit whole, split, other, u;
    outcome alone, o;
    bzna_decoder *decoder;
    size_t at = 0, size;
    int type = 0;
    if (!packet || !other_packet)
        SKIP(why);
    whole = unit_of(&av1_kind, packet);
    other = unit_of(&other_kind, other_packet);
    av_packet_free(&packet);
    av_packet_free(&other_packet);
    REQUIRE(unit_split(&whole, &split));
    alone = decode_fresh(&whole.image);
    if (alone.status == BZNA_E_CODEC)
        SKIP("libavcodec has no libdav1d here");
    CHECK_EQ(alone.status, BZNA_OK);
    decoder = decoder_new();
    for (int way = 0; way < 5; way++) {
        /* delimiter, padding, a metadata unit of an unknown type */
        static const uint8_t between[] = { 0x12, 0x00, 0x7a, 0x03, 1, 2, 0x80, 0x2a, 0x02, 0x1e, 0x80 };
        bzna_image image = split.image;
        uint8_t *data = malloc((size_t)whole.image.data_size + sizeof between);
        size_t n = 0;
        if (way == 1) {                                     /* both say it */
            image.data = whole.data;
            image.data_size = whole.image.data_size;
        } else if (way == 2) { /* what the configuration says of another picture, the sample's own header revokes */
            image = other.image;
            image.config = split.config;
            image.config_size = split.image.config_size;
        } else if (way == 3) {
            memcpy(data, between, sizeof between);
            memcpy(data + sizeof between, split.data, (size_t)split.image.data_size);
            image.data = data;
            image.data_size += sizeof between;
        } else if (way == 4) {                              /* the last unit, without its size */
            for (at = 0; (size = obu_size(split.data + at, (size_t)split.image.data_size - at, &type)) > 0 &&
                         at + size < split.image.data_size;
                 at += size)
                ;
            for (n = 1; split.data[at + n] & 128; n++)
                ;
            memcpy(data, split.data, at);
            data[at] = split.data[at] & 0xfd;
            memcpy(data + at + 1, split.data + at + n + 1, (size_t)split.image.data_size - at - n - 1);
            image.data = data;
            image.data_size -= n;
        }
        u = unit_copy(&image);
        o = decode(decoder, &u.image);
        if (way == 2) {
            outcome expected = decode_fresh(&other.image);
            CHECK_EQ(expected.status, BZNA_OK);
            CHECK(expected.picture.depth == 8 && !expected.picture.chroma_shift_x);
            if (!same(&o, &expected))
                report_difference("way 2", &o, &expected);
            outcome_free(&expected);
        } else if (!same(&o, &alone)) {
            printf("  way %d: ", way);
            report_difference("laid out otherwise", &o, &alone);
        }
        outcome_free(&o);
        unit_free(&u);
        free(data);
    }
    bzna_decoder_close(decoder);
    outcome_free(&alone);
    unit_free(&whole);
    unit_free(&split);
    unit_free(&other);
}

TEST(what_an_av1_picture_lacks_or_contradicts_is_named)
{
    const char *why;
    AVPacket *packet = encode(&av1_kind, 6, 0, &why);
    bzna_decoder *decoder = decoder_new();
    unit whole, u;
    bzna_image image;
    kind inter = av1_kind;
    if (!packet)
        SKIP(why);
    whole = unit_of(&av1_kind, packet);
    av_packet_free(&packet);
    REQUIRE(unit_split(&whole, &u));
    image = u.image;
    if (pass(decoder, &u.image) == BZNA_E_CODEC)
        SKIP("libavcodec has no libdav1d here");
    CHECK_EQ(pass(decoder, &u.image), BZNA_OK);
    u.image.config = NULL;                                  /* the header of the picture before does not serve */
    check_fails(decoder, &u, BZNA_E_DECODE, "no sequence header");
    u.image = image;
    CHECK_EQ(pass(decoder, &u.image), BZNA_OK);
    u.image.config_size = 4;
    check_fails(decoder, &u, BZNA_E_DECODE, "no sequence header");
    u.image = image;
    u.image.config_size = 3;
    check_fails(decoder, &u, BZNA_E_DECODE, "no sequence header");
    u.image = image;
    u.image.config_size = image.config_size - 1;
    check_fails(decoder, &u, BZNA_E_BOX, "a unit of the configuration is longer");
    u.image = image;
    u.image.data_size = image.data_size - 1;
    check_fails(decoder, &u, BZNA_E_BOX, "a unit of the picture is longer");
    u.image = image;
    u.image.data = image.config ? (const uint8_t *)image.config + 4 : NULL;            /* the header alone */
    u.image.data_size = image.config_size - 4;
    check_fails(decoder, &u, BZNA_E_DECODE, "no picture");
    u.image = image;
    u.image.frame_width = 71;
    check_fails(decoder, &u, BZNA_E_MISMATCH, "70x54, but its container says 71x54");
    u.image = image;
    u.image.frame_height = 53;
    u.image.height = 53;
    check_fails(decoder, &u, BZNA_E_MISMATCH, "70x54, but its container says 70x53");
    u.image = image;
    if ((packet = encode(&inter, 6, 1, &why)) != NULL) {       /* the second of two: predicted from the first */
        unit second;
        bzna_image with = image;
        with.data = packet->data;
        with.data_size = (uint64_t)packet->size;
        second = unit_copy(&with);
        check_fails(decoder, &second, BZNA_E_DECODE, "needs other pictures");
        unit_free(&second);
        av_packet_free(&packet);
    }
    CHECK_EQ(pass(decoder, &u.image), BZNA_OK);
    bzna_decoder_close(decoder);
    unit_free(&u);
    unit_free(&whole);
}

/* ---- Rendering them ---------------------------------------------------------------------------------------------- */

/* Chapter 7 of the manual in double precision: output pixel (x, y) of a picture, in 0..255. 0: too near to the edge to
 * tell. */
static double plane_at(const bzna_picture *picture, int p, double x, double y)
{
    int sx = p ? (int)picture->chroma_shift_x : 0, sy = p ? (int)picture->chroma_shift_y : 0;
    int left = (int)picture->crop_x >> sx, right = (int)(picture->crop_x + picture->width - 1) >> sx;
    int top = (int)picture->crop_y >> sy, bottom = (int)(picture->crop_y + picture->height - 1) >> sy, ix, iy, jx, jy;
    double fx, fy;
    x = fmin(fmax(x, 0), picture->width - 1.0) + picture->crop_x;
    y = fmin(fmax(y, 0), picture->height - 1.0) + picture->crop_y;
    x = sx ? picture->chroma_left ? x / 2 : (x + 0.5) / 2 - 0.5 : x;
    y = sy ? picture->chroma_top  ? y / 2 : (y + 0.5) / 2 - 0.5 : y;
    x = fmin(fmax(x, left), right);
    y = fmin(fmax(y, top), bottom);
    ix = (int)floor(x);
    iy = (int)floor(y);
    jx = ix < right ? ix + 1 : ix;
    jy = iy < bottom ? iy + 1 : iy;
    fx = x - ix;
    fy = y - iy;
    return (1 - fy) * ((1 - fx) * picture_sample(picture, p, ix, iy) + fx * picture_sample(picture, p, jx, iy)) +
           fy * ((1 - fx) * picture_sample(picture, p, ix, jy) + fx * picture_sample(picture, p, jx, jy));
}

static void reference_pixel(const bzna_picture *picture, const bzna_transform *t, int x, int y, double rgb[3])
{
    const double *h = t->homography;
    double w = h[6] * x + h[7] * y + h[8], u = (h[0] * x + h[1] * y + h[2]) / w, v = (h[3] * x + h[4] * y + h[5]) / w;
    double kr = picture->color.matrix == 1 ? 0.2126 : picture->color.matrix == 9 ? 0.2627 : 0.299;
    double kb = picture->color.matrix == 1 ? 0.0722 : picture->color.matrix == 9 ? 0.0593 : 0.114;
    double step = ldexp(1, (int)picture->depth - 8), top = ldexp(1, (int)picture->depth) - 1, luma, cb = 0, cr = 0;
    if (u < -0.5 || v < -0.5 || u > picture->width - 0.5 || v > picture->height - 0.5) {
        for (int c = 0; c < 3; c++)
            rgb[c] = ((double)t->fill[c] - (double)t->bias[c]) * (double)t->scale[c];
        return;
    }
    luma = plane_at(picture, 0, u, v);
    luma = picture->color.full_range ? luma / top : (luma - 16 * step) / (219 * step);
    if (picture->plane[1]) {
        cb = plane_at(picture, 1, u, v) - 128 * step;
        cr = plane_at(picture, 2, u, v) - 128 * step;
        cb /= picture->color.full_range ? top : 224 * step;
        cr /= picture->color.full_range ? top : 224 * step;
    }
    rgb[0] = luma + 2 * (1 - kr) * cr;
    rgb[2] = luma + 2 * (1 - kb) * cb;
    rgb[1] = (luma - kr * rgb[0] - kb * rgb[2]) / (1 - kr - kb);
    for (int c = 0; c < 3; c++)
        rgb[c] = (fmin(fmax(rgb[c] * 255, 0), 255) - (double)t->bias[c]) * (double)t->scale[c];
}

/* The bits of the half nearest to a float, ties to even, by arithmetic: the C library's rounding on a power of two. */
static uint16_t half_of(float value)
{
    double x = fabs((double)value), q;
    int e = x > 0 ? ilogb(x) : -14;
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    e = e < -14 ? -14 : e;
    q = nearbyint(ldexp(x, 10 - e));                        /* 0 .. 2048 */
    if (q >= 2048) {
        q /= 2;
        e++;
    }
    if (e > 15)
        return sign | 0x7c00;
    return (uint16_t)(sign | (q >= 1024 ? (uint16_t)((e + 15) << 10) + (uint16_t)(q - 1024) : (uint16_t)q));
}

#if defined(__FLT16_MANT_DIG__) && defined(__GNUC__) && !defined(__clang__)
__extension__ typedef _Float16 half_float;                  /* and by the compiler */
static uint16_t half_by_compiler(float value)
{
    half_float h = (half_float)value;
    uint16_t bits;
    memcpy(&bits, &h, sizeof bits);
    return bits;
}
#else
static uint16_t half_by_compiler(float value) { return half_of(value); }
#endif

enum { OUT = 24 };

TEST(pictures_of_every_kind_are_rendered_as_the_manual_says_in_floats_and_halves)
{
    unit units[COUNT(kinds)];
    const kind *of[COUNT(kinds)];
    bzna_decoder *decoder = decoder_new();
    int n = units_make(units, of), compared = 0, deep = 0;
    double worst = 0;
    for (int i = 0; i < n; i++) {
        static float floats[3 * OUT * OUT];
        static uint16_t halves[3 * OUT * OUT + 1];
        bzna_picture picture = { .struct_size = sizeof picture };
        bzna_transform t;
        bzna_output out = { .struct_size = sizeof out, .width = OUT, .height = OUT, .dtype = BZNA_DTYPE_FLOAT32 };
        int wrong = 0;
        units[i].image.crop_x = 5;                          /* a clean aperture that starts on odd samples */
        units[i].image.crop_y = 3;
        units[i].image.width -= 5 + 2;
        units[i].image.height -= 3 + 5;
        if (bzna_decoder_decode(decoder, &units[i].image, &picture, NULL) != BZNA_OK)
            continue;                                       /* another test's matter */
        bzna_transform_init(&t, sizeof t);
        t.homography[0] = picture.width / (double)OUT * (i % 3 ? 0.83 : 1.1);
        t.homography[4] = picture.height / (double)OUT * 1.05;
        t.homography[2] = i % 3 ? 3.21 : -1.7;
        t.homography[5] = 0.13;
        t.homography[1] = i % 2 ? 0.21 : 0;
        t.homography[3] = i % 2 ? -0.17 : 0;
        t.homography[6] = i % 5 == 4 ? 0.002 : 0;
        t.antialias = BZNA_ANTIALIAS_OFF;                   /* the formula's, also where it shrinks */
        for (int c = 0; c < 3; c++) {
            t.bias[c] = 120.5f + 3.0f * (float)c;
            t.scale[c] = i % 4 == 3 ? 1e-6f : 1 / (57.0f + (float)c);      /* some of it in subnormal halves */
            t.fill[c] = 11.0f * (float)c;
        }
        CHECK_EQ(bzna_picture_render(&picture, &t, &out, floats, sizeof floats, NULL), BZNA_OK);
        for (int y = 0; y < OUT; y++)
            for (int x = 0; x < OUT; x++) {
                double rgb[3], w = t.homography[6] * x + t.homography[8];
                double u = (t.homography[0] * x + t.homography[1] * y + t.homography[2]) / w,
                       v = (t.homography[3] * x + t.homography[4] * y + t.homography[5]) / w;
                if (fmin(fmin(fabs(u + 0.5), fabs(u - picture.width + 0.5)),
                         fmin(fabs(v + 0.5), fabs(v - picture.height + 0.5))) < 1e-3)
                    continue;                               /* rounding decides whether it is outside */
                reference_pixel(&picture, &t, x, y, rgb);
                for (int c = 0; c < 3; c++) {
                    double off = fabs((double)floats[(c * OUT + y) * OUT + x] - rgb[c]) / (double)t.scale[c];
                    worst = fmax(worst, off);
                    compared++;
                    wrong += off > 0.02;                    /* of 255 */
                }
            }
        CHECK_EQ(wrong, 0);
        deep += picture.depth > 8;
        out.dtype = BZNA_DTYPE_FLOAT16;
        memset(halves, 0xa5, sizeof halves);
        CHECK_EQ(bzna_picture_render(&picture, &t, &out, halves, sizeof halves - 2, NULL), BZNA_OK);
        CHECK_EQ(halves[3 * OUT * OUT], 0xa5a5);            /* and not a byte more */
        CHECK_EQ(bzna_picture_render(&picture, &t, &out, halves, sizeof halves - 3, NULL), BZNA_E_BUFFER);
        wrong = 0;
        for (int k = 0; k < 3 * OUT * OUT; k++)
            wrong += halves[k] != half_of(floats[k]) || halves[k] != half_by_compiler(floats[k]);
        CHECK_EQ(wrong, 0);
        if (test_failures && i < 40)
            printf("  up to %s %s\n", of[i]->encoder, of[i]->format);
    }
    for (int i = 0; i < n; i++)
        unit_free(&units[i]);
    bzna_decoder_close(decoder);
    if (!n)
        SKIP("libavcodec has no encoders here");
    CHECK(compared > 1000 && deep > 0);
    printf("rendered: %d values, at most %.5f of 255 off\n", compared, worst);
}

/* ---- Without libavcodec ------------------------------------------------------------------------------------------ */

/* As this test itself was built: the GPU's kernel beside it, or no GPU path. */
#ifdef BENZINA_NO_CUDA
#  define TEST_CUDA "-DBENZINA_NO_CUDA"
#else
#  define TEST_CUDA "-I" TEST_BUILD
#endif

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
        "int main(void) { bzna_context *c; bzna_dataset *s; bzna_decoder *d; bzna_loader *l; bzna_loader_config k; "
        "bzna_batch *b; bzna_error e = { .struct_size = sizeof e };\n"
        "bzna_loader_config_init(&k, sizeof k); k.output.batch_size = 1; k.output.width = k.output.height = 8;\n"
        "if (bzna_context_open(NULL, &c, &e) || bzna_dataset_open(c, \"tests/data/mini_h265.bzna\", NULL, &s, &e)) "
        "return 1;\n"
        "printf(\"%s \", bzna_status_name(bzna_decoder_open(c, &d, &e)));\n"
        "printf(\"%s \", bzna_status_name(bzna_loader_open(c, s, &k, &l, &e)));\n"
        "if (bzna_loader_next(l, BZNA_WAIT_FOREVER, &b, &e)) return 1;\n"
        "printf(\"%s \", bzna_status_name(bzna_batch_error(b, 0, &e))); printf(\"%s\", e.message);\n"
        "bzna_batch_release(b); bzna_loader_close(l); bzna_decoder_close(d); bzna_dataset_close(s); "
        "return bzna_context_close(c); }\n";
    FILE *file;
    int result;
    /* clang takes a third of gcc's time where nothing is optimized */
    const char *compiler = !test_all() && !shell("clang --version 2>&1", output, sizeof output) ? "clang" : "cc";
    char command[1024];
    snprintf(command, sizeof command, "%s --version 2>&1", compiler);
    if (shell(command, output, sizeof output) != 0)
        SKIP("no C compiler [gcc]");
    file = fopen(TEST_BUILD "/tests/no_avcodec.c", "w");
    REQUIRE(file != NULL);
    fputs(program, file);
    fclose(file);
    snprintf(command, sizeof command,
             "%s -std=c11 -O0 -ffp-contract=off -I. -w "
             "-DBENZINA_NO_AVCODEC -DBENZINA_NO_JPEG " TEST_CUDA " -o " TEST_BUILD "/tests/no_avcodec " TEST_BUILD
             "/tests/no_avcodec.c benzina.c -lm -lpthread -ldl 2>&1", compiler);
    result = shell(command, output, sizeof output);
    CHECK_EQ(result, 0);
    CHECK_STR(output, "");
    result = shell(TEST_BUILD "/tests/no_avcodec 2>&1", output, sizeof output);
    CHECK_EQ(result, 0);
    CHECK_STR(output,
              "BZNA_OK BZNA_OK BZNA_E_UNSUPPORTED tests/data/mini_h265.bzna: sample 0: H.265 is decoded by libavcodec, "
              "which this build does not have (BENZINA_NO_AVCODEC)");
}

/* ---- What is printed --------------------------------------------------------------------------------------------- */

#define SAID TEST_BUILD "/tests/14_stderr.txt"

/* stderr goes to a file; its descriptor before that, or -1. */
static int stderr_begin(void)
{
    int file = open(SAID, O_WRONLY | O_CREAT | O_TRUNC, 0600), before = -1;
    fflush(stderr);
    if (file >= 0 && (before = dup(2)) >= 0)
        dup2(file, 2);
    if (file >= 0)
        close(file);
    return before;
}

static void stderr_end(int before)
{
    fflush(stderr);
    dup2(before, 2);
    close(before);
}

/* A byte of picture or configuration is changed, many times over. Returns how many were refused. */
static int damage_all_over(bzna_decoder *decoder, uint32_t codec)
{
    unit original = unit_load(codec, 2, NULL);
    int refused = 0;
    for (int i = 0; i < 600; i++) {
        unit damaged = unit_copy(&original.image);
        bzna_picture picture = { .struct_size = sizeof picture };
        uint64_t size = i % 2 ? damaged.image.config_size : bzi_min(damaged.image.data_size, 400);
        (i % 2 ? damaged.config : damaged.data)[random_u32() % size] ^= (uint8_t)(1u << random_u32() % 8);
        refused += bzna_decoder_decode(decoder, &damaged.image, &picture, NULL) < 0;
        unit_free(&damaged);
    }
    unit_free(&original);
    return refused;
}

/* Header, chapter 6: no line "[hevc @ 0x...] ..."; only what libavcodec says in nobody's name. */
TEST(libavcodec_prints_nothing_about_damaged_pictures_in_its_decoders_names)
{
    int level = av_log_get_level(), refused = 0, before = stderr_begin();
    bzna_decoder *decoder = decoder_new();
    char line[512];
    FILE *said;
    REQUIRE(before >= 0);
    for (uint32_t codec = BZNA_CODEC_H264; codec <= BZNA_CODEC_H265; codec++)
        refused += damage_all_over(decoder, codec);
    bzna_decoder_close(decoder);
    stderr_end(before);
    CHECK(refused > 200);
    CHECK_EQ(av_log_get_level(), level);                    /* which is the program's */
    REQUIRE((said = fopen(SAID, "r")) != NULL);
    while (fgets(line, sizeof line, said)) {
        int anonymous = strchr(line, '@') == NULL;
        CHECK(anonymous);
        if (!anonymous)
            printf("  %s", line);
    }
    fclose(said);
    remove(SAID);
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
    RUN(only_pictures_that_start_a_stream_are_given_to_the_decoder)
    RUN(parameter_sets_of_earlier_pictures_are_not_used)
    RUN(only_allowed_codecs_are_decoded) RUN(only_allowed_stills_are_decoded) RUN(pictures_over_max_edge_px_are_refused)
    RUN(a_decoder_needs_no_context_and_what_inspecting_says_is_what_is_decoded)
    RUN(missing_arguments_are_refused)
    RUN(a_decoder_keeps_its_context_and_gives_all_memory_back)
    RUN(whichever_allocation_of_libavcodec_fails_a_picture_is_whole_or_it_is_for_memory)
    RUN(decoders_of_one_context_work_side_by_side)
    RUN(h264_pictures_of_every_depth_and_chroma_format_are_libavcodecs)
    RUN(h265_pictures_of_every_depth_and_chroma_format_are_libavcodecs)
    RUN(av1_pictures_of_every_depth_and_chroma_format_are_libavcodecs)
    RUN(an_h265_picture_of_which_pixels_were_not_decoded_is_damaged)
    RUN(an_h265_picture_of_several_slices_of_which_one_ends_early_is_damaged)
    RUN(an_archive_of_av1_pictures_holds_what_was_written)
    RUN(a_frame_that_is_not_what_its_last_parameter_set_says_is_refused)
    RUN(a_frame_of_another_size_than_its_last_parameter_set_says_is_refused)
    RUN(a_window_that_begins_inside_the_frame_is_decoded_from_there)
    RUN(kinds_of_pictures_that_alternate_are_as_alone)
    RUN(a_damaged_av1_picture_fails_or_not_alike_and_spoils_nothing)
    RUN(an_av1_picture_may_be_laid_out_in_several_ways)
    RUN(what_an_av1_picture_lacks_or_contradicts_is_named)
    RUN(pictures_of_every_kind_are_rendered_as_the_manual_says_in_floats_and_halves)
    RUN(without_libavcodec_it_compiles_without_warnings_and_says_so)
    RUN(libavcodec_prints_nothing_about_damaged_pictures_in_its_decoders_names)
}

TEST_MAIN(if (bzna_context_open(NULL, &context, NULL) != BZNA_OK) return 1; everything(); bzna_context_close(context);)
#endif
